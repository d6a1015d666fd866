/* SPDX-License-Identifier: Apache-2.0 */
/* Where tensors lie in a safetensors file. The bytes make a header that is right but for what some of them change;
 * whether it is, is found out by counting how often each byte of the data is taken. The reader must agree. */
#include "core/weights/safetensors.h"
#include "tests/fuzz/fuzz.h"

enum { MOST_TENSORS = 6, MOST_DATA = 4096 };

typedef struct input {
    const uint8_t *at, *end;
} input;

static int take(input *in) { return in->at < in->end ? *in->at++ : 0; }

/* Mostly 0, else -8 to 7. */
static i64 take_shift(input *in)
{
    int x = take(in);
    return x < 240 ? 0 : x - 248;
}

typedef struct layout {
    i64 begin, end;
    bool good; /* as long as its elements take */
} layout;

static const struct { const char *name; int bits; } types[] = {
    {"F64", 64}, {"F32", 32}, {"BF16", 16}, {"F16", 16}, {"I64", 64}, {"I32", 32}, {"I8", 8}, {"BOOL", 8},
    {"U8", 8}, {"U16", 16}, {"F8_E4M3", 8}, {"F4", 4}, {"F6_E2M3", 6}};

/* One tensor's text; its offsets follow those of the one before, but for shifts. */
static void add_tensor(text *t, input *in, int i, layout *l)
{
    int type = take(in) % (int)(sizeof types / sizeof *types), rank = take(in) % 5;
    i64 numel = 1;
    ein__text_add(t, "%s\"t%d\":{\"dtype\":\"%s\",\"shape\":[", i > 0 ? "," : "", i, types[type].name);
    for (int k = 0; k < rank; k++) {
        i64 extent = take(in) % 6;
        numel *= extent;
        ein__text_add(t, "%s%lld", k > 0 ? "," : "", (long long)extent);
    }
    i64 bits = numel * types[type].bits;
    l[i].begin = (i > 0 ? l[i - 1].end : 0) + take_shift(in);
    l[i].end = l[i].begin + bits / 8 + take_shift(in);
    l[i].good = bits % 8 == 0 && bits / 8 == l[i].end - l[i].begin;
    ein__text_add(t, "],\"data_offsets\":[%lld,%lld]}", (long long)l[i].begin, (long long)l[i].end);
}

static bool tiles(const layout *l, int n, i64 data)
{
    static int taken[MOST_DATA];
    memset(taken, 0, sizeof taken);
    for (int i = 0; i < n; i++) {
        if (!l[i].good || l[i].begin < 0 || l[i].end > data) return false;
        for (i64 k = l[i].begin; k < l[i].end; k++) taken[k]++;
        /* Nothing begins in the middle of another, even if it is empty. */
        for (int j = 0; j < n; j++)
            if (l[j].begin < l[i].begin && l[i].begin < l[j].end) return false;
    }
    for (i64 k = 0; k < data; k++)
        if (taken[k] != 1) return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    input in = {bytes, bytes + n};
    layout l[MOST_TENSORS];
    text t = {0};
    int tensors = take(&in) % (MOST_TENSORS + 1);
    ein__text_bytes(&t, "\0\0\0\0\0\0\0\0{", 9);
    for (int i = 0; i < tensors; i++) add_tensor(&t, &in, i, l);
    ein__text_add(&t, "}");
    for (int i = 0; i < 8; i++) t.bytes[i] = (char)((t.n - 8) >> (8 * i));
    i64 data = (tensors > 0 ? l[tensors - 1].end : 0) + take_shift(&in);
    if (data >= 0 && data <= MOST_DATA) {
        for (i64 k = 0; k < data; k++) ein__text_bytes(&t, "", 1);
        char *copy = exact_copy(t.bytes, t.n);
        arena a = {NULL};
        error e = {0};
        stored_list found = {0};
        ein_status s = ein__safetensors_read(&a, "file", copy, t.n, &found, &e);
        PROMISE(s == (tiles(l, tensors, data) ? EIN_OK : EIN_INVALID));
        PROMISE(found.n == (s == EIN_OK ? tensors : 0));
        if (s != EIN_OK) promise_line(e.line);
        ein__arena_free(&a);
        free(copy);
    }
    ein__text_free(&t);
    return 0;
}
