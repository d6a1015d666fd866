/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels into translation units: the prelude once, then every body between its NAME and THREADS. */
#include <string.h>

#include "core/kernel/dialect.h"
#include "core/kernel/prelude.h"

enum { TAG_BODY = 1, TAG_THREADS = 2, MAX_THREADS = 1024 };

ein_status ein__kernel_make(arena *a, const char *body, int threads, kernel_text *out)
{
    if (threads < 32 || threads > MAX_THREADS || threads % 32 != 0) return EIN_INVALID;
    text key = {0};
    ein__key_bytes(&key, TAG_BODY, body, strlen(body));
    ein__key_int(&key, TAG_THREADS, threads);
    ein_status status = ein__text_status(&key);
    if (status == EIN_OK) out->key = ein__hash(key.bytes, key.n, 0);
    ein__text_free(&key);
    out->body = ein__arena_strdup(a, body);
    out->threads = threads;
    if (status != EIN_OK || out->body == NULL) return EIN_NO_MEMORY;
    memcpy(out->name, "k_", 2);
    ein__hash_print(out->key, out->name + 2);
    return EIN_OK;
}

static void add_kernel(text *out, const kernel_text *k)
{
    ein__text_add(out, "#define NAME %s\n#define THREADS %d\n", k->name, k->threads);
    ein__text_bytes(out, k->body, strlen(k->body));
    ein__text_add(out, "\n#undef PARAMS\n#undef THREADS\n#undef NAME\n");
}

ein_status ein__kernel_source(reading r, bool counting, const kernel_text *const *kernels, int n, text *out)
{
    if (counting && r != READ_HOST) return EIN_INVALID;
    if (r == READ_HOST) ein__text_add(out, "%s%s", ein__prelude_host, ein__prelude_c_functions);
    else ein__text_add(out, "%s%s%s", ein__prelude_cuda, ein__prelude_threads, ein__prelude_cuda_functions);
    ein__text_add(out, "%s%s%s%s",
                  counting ? ein__prelude_counting : ein__prelude_access, ein__prelude_common,
                  ein__prelude_wide, EIN__KERNEL_MARK);
    for (int i = 0; i < n; i++) add_kernel(out, kernels[i]);
    return ein__text_status(out);
}
