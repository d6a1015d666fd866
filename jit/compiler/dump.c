/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "jit/compiler/dump.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"

void ein__kernel_dump(const kernel_text *k)
{
    const char *folder = getenv("EIN_DUMP");
    if (folder == NULL || folder[0] == 0) return;
    text path = {0}, body = {0};
    ein__text_add(&path, "%s/%s.body", folder, k->name);
    ein__text_add(&body, "threads %d\n%s", k->threads, k->body);
    if (!path.failed && !body.failed && access(path.bytes, F_OK) != 0 &&
        ein__file_make_dirs(folder, NULL) == EIN_OK)
        ein__file_publish(path.bytes, body.bytes, body.n, 0644, NULL);
    ein__text_free(&path);
    ein__text_free(&body);
}
