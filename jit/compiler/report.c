/* SPDX-License-Identifier: Apache-2.0 */
#include "jit/compiler/report.h"

#include <string.h>

#include "core/base/text.h"
#include "core/kernel/dialect.h"

void ein__compiler_report(error *e, const char *log, const char *source)
{
    if (e == NULL) return;
    text t = {0};
    ein__text_add(&t, "%s\n", log);
    const char *first = strstr(source, EIN__KERNEL_MARK);
    if (first == NULL) first = source;
    int line = 1;
    for (const char *p = source; p < first; p++) line += *p == '\n';
    for (const char *p = first; *p != 0; line++) {
        size_t n = strcspn(p, "\n");
        ein__text_add(&t, "%5d  %.*s\n", line, (int)n, p);
        p += n + (p[n] == '\n');
    }
    ein__error_set_detail(e, ein__text_get(&t));
    ein__text_free(&t);
}
