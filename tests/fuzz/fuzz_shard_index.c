/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a sharded checkpoint: no name in it may lead out of the folder. */
#include "core/weights/checkpoint.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *copy = exact_copy(bytes, n);
    arena a = {NULL};
    error e = {0};
    shard_list l = {0};
    ein_status s = ein__shard_index_read(&a, "index", copy, n, &l, &e);
    PROMISE(s == EIN_OK || s == EIN_INVALID);
    if (s != EIN_OK) promise_line(e.line);
    for (int i = 0; i < l.n; i++) {
        const shard_entry *x = &l.items[i];
        promise_line(x->file);
        PROMISE(strchr(x->file, '/') == NULL && strcmp(x->file, "..") != 0 && strcmp(x->file, ".") != 0);
        if (i > 0) PROMISE(strcmp(x[-1].file, x->file) < 0 || (strcmp(x[-1].file, x->file) == 0 && strcmp(x[-1].tensor, x->tensor) < 0));
    }
    ein__arena_free(&a);
    free(copy);
    return 0;
}
