/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"

ein_status ein__fail(error *e, ein_status status, const char *format, ...)
{
    if (e != NULL) {
        va_list args;
        va_start(args, format);
        vsnprintf(e->line, sizeof e->line, format, args);
        va_end(args);
        for (char *c = e->line; *c != 0; c++) /* it may hold words of a hostile file, and it is one line */
            if ((unsigned char)*c < 32 || *c == 127) *c = '?';
        e->status = status;
    }
    return status;
}

void ein__error_set_detail(error *e, const char *text)
{
    if (e == NULL) return;
    ein__free(e->detail);
    e->detail = text != NULL ? ein__strdup(text) : NULL;
}

void ein__error_reset(error *e)
{
    ein__free(e->detail);
    memset(e, 0, sizeof *e);
}

const char *ein_status_name(ein_status status)
{
    static const char *const names[] = {
        "ok", "invalid argument", "shape mismatch", "dtype mismatch", "out of host memory",
        "out of device memory", "no device", "device failure", "compile failure", "no plan",
        "input/output failure", "cancelled", "unsupported", "internal error"};
    unsigned i = (unsigned)status;
    return i < sizeof names / sizeof *names ? names[i] : "unknown status";
}

const char *ein_version(void) { return EIN_VERSION; }
