/* SPDX-License-Identifier: Apache-2.0 */
/* A safetensors file. The input is read twice: as a file; and, since a fuzzer rarely gets lengths right, with two bytes
 * for the length of the data (zeros) and a header in the rest. */
#include "core/base/file.h"
#include "core/weights/safetensors.h"
#include "tests/fuzz/fuzz.h"

/* Each tensor's data are inside the file's, and together they are all of them. */
static void check_tensors(const stored_list *l, const char *bytes, size_t n)
{
    const char *at = l->n > 0 ? l->items[0].data : NULL;
    for (int i = 0; i < l->n; i++) {
        const stored_tensor *t = &l->items[i];
        i64 numel = 1;
        PROMISE(t->name[0] != 0 && t->type[0] != 0 && t->rank >= 0 && t->bytes >= 0);
        PROMISE(t->data == at && at >= bytes + 8 && at <= bytes + n && (size_t)t->bytes <= n - (size_t)(at - bytes));
        at += t->bytes;
        if (!ein__stored_readable(t)) continue;
        for (int k = 0; k < t->rank; k++) {
            PROMISE(t->shape[k] >= 0);
            numel *= t->shape[k];
        }
        PROMISE(numel * ein__dtype_bytes(t->dtype) == t->bytes);
        if (numel > 0) ein__dtype_read(t->dtype, (const char *)t->data + t->bytes - ein__dtype_bytes(t->dtype));
    }
    if (l->n > 0) PROMISE(at == bytes + n);
}

static void read_file(const char *bytes, size_t n)
{
    arena a = {NULL};
    error e = {0};
    stored_list l = {0};
    ein_status s = ein__safetensors_read(&a, "file", bytes, n, &l, &e);
    PROMISE(s == EIN_OK || s == EIN_INVALID);
    if (s == EIN_OK) check_tensors(&l, bytes, n);
    else promise_line(e.line);
    PROMISE(s == EIN_OK || l.n == 0);
    ein__arena_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *copy = exact_copy(bytes, n);
    read_file(copy, n);
    free(copy);
    if (n < 2) return 0;
    size_t data = (size_t)bytes[0] | (size_t)bytes[1] << 8, header = n - 2;
    copy = calloc(8 + header + data, 1);
    if (copy == NULL) abort();
    for (int i = 0; i < 8; i++) copy[i] = (char)(header >> (8 * i));
    memcpy(copy + 8, bytes + 2, header);
    read_file(copy, 8 + header + data);
    free(copy);
    return 0;
}
