/* SPDX-License-Identifier: Apache-2.0 */
/* One file: what is read, what is refused and how, and what is written. */
#define _POSIX_C_SOURCE 200809L
#include "tests/core/weights/fixture.h"

#include <unistd.h>

static stored_list read_image(arena *a, const char *header, size_t n_data, char **bytes)
{
    size_t n;
    error e = {0};
    stored_list l = {0};
    *bytes = image(header, n_data, &n);
    if (ein__safetensors_read(a, "f", *bytes, n, &l, &e) != EIN_OK) fail_msg("%s: %s", header, e.line);
    return l;
}

/* ---- good files --------------------------------------------------------------------------------------- */

/* The bytes by hand: two tensors, named out of order. */
static void known_bytes(void **state)
{
    static const char file[] =
        "\x78\0\0\0\0\0\0\0"
        "{\"b\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[4,12]},"
        "\"a\":{\"dtype\":\"BF16\",\"shape\":[1,2],\"data_offsets\":[0,4]}}         "
        "\x80\x3f\x00\xc0\x01\0\0\0\xfe\xff\xff\xff";
    arena a = {0};
    error e = {0};
    stored_list l = {0};
    int32_t second;
    (void)state;
    assert_int_equal(sizeof file - 1, 8 + 0x78 + 12);
    if (ein__safetensors_read(&a, "f", file, sizeof file - 1, &l, &e) != EIN_OK) fail_msg("%s", e.line);
    assert_int_equal(l.n, 2);
    assert_string_equal(l.items[0].name, "a");
    assert_string_equal(l.items[0].type, "BF16");
    assert_true(l.items[0].dtype == EIN_BF16 && l.items[0].rank == 2 && l.items[0].bytes == 4);
    assert_true(l.items[0].shape[0] == 1 && l.items[0].shape[1] == 2);
    assert_true(ein__dtype_read(EIN_BF16, l.items[0].data) == 1);
    assert_true(ein__dtype_read(EIN_BF16, (const char *)l.items[0].data + 2) == -2);
    assert_string_equal(l.items[1].name, "b");
    memcpy(&second, (const char *)l.items[1].data + 4, 4);
    assert_int_equal(second, -2);
    ein__arena_free(&a);
}

static void nothing_scalars_and_empty(void **state)
{
    arena a = {0};
    char *bytes;
    (void)state;
    assert_int_equal(read_image(&a, "{}", 0, &bytes).n, 0);
    free(bytes);
    assert_int_equal(read_image(&a, "{\"__metadata__\":{\"format\":\"pt\",\"x\":\"\"}}  ", 0, &bytes).n, 0);
    free(bytes);
    stored_list l = read_image(&a,
                               "{\"z\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[4,4]},"
                               "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
                               "\"y\":{\"dtype\":\"I8\",\"shape\":[0,9223372036854775807],\"data_offsets\":[0,0]}}",
                               4, &bytes);
    assert_int_equal(l.n, 3);
    assert_string_equal(l.items[0].name, "y");
    assert_true(l.items[0].bytes == 0 && l.items[0].shape[1] == INT64_MAX);
    assert_string_equal(l.items[1].name, "s");
    assert_true(l.items[1].rank == 0 && l.items[1].bytes == 4 && ((const char *)l.items[1].data)[3] == 3);
    assert_string_equal(l.items[2].name, "z");
    assert_true(l.items[2].rank == 2 && l.items[2].bytes == 0);
    free(bytes);
    ein__arena_free(&a);
}

/* Data may lie at odd addresses, names may be any text, and members that nobody knows are passed over. */
static void odd_but_legal(void **state)
{
    arena a = {0};
    char *bytes;
    (void)state;
    stored_list l = read_image(&a,
                               "{\"\\u00e9/\\\"\\n\":{\"shape\":[1],\"note\":[[{}]],\"data_offsets\":[1,9],\"dtype\":\"F64\"},"
                               "\"a\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                               9, &bytes);
    assert_int_equal(l.n, 2);
    assert_string_equal(l.items[1].name, "\xc3\xa9/\"\n");
    assert_memory_equal(l.items[1].data, "\1\2\3\4\5\6\7\10", 8);
    free(bytes);
    ein__arena_free(&a);
}

static void listed_but_not_readable(void **state)
{
    static const struct { const char *name; int bits; } types[] = {
        {"U8", 8}, {"I16", 16}, {"U16", 16}, {"U32", 32}, {"U64", 64}, {"C64", 64}, {"F8_E4M3", 8}, {"F8_E5M2", 8},
        {"F8_E8M0", 8}, {"F4", 4}, {"F6_E2M3", 6}, {"F6_E3M2", 6}};
    arena a = {0};
    char *bytes, header[160];
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"%s\",\"shape\":[2,4],\"data_offsets\":[0,%d]}}", types[i].name,
                 types[i].bits);
        stored_list l = read_image(&a, header, (size_t)types[i].bits, &bytes);
        assert_int_equal(l.n, 1);
        assert_string_equal(l.items[0].type, types[i].name);
        assert_int_equal(l.items[0].bytes, types[i].bits);
        assert_false(ein__stored_readable(&l.items[0]));
        free(bytes);
    }
    stored_list l = read_image(&a,
                               "{\"8\":{\"dtype\":\"I8\",\"shape\":[1,1,1,1,1,1,1,2],\"data_offsets\":[0,2]},"
                               "\"9\":{\"dtype\":\"I8\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[2,4]}}",
                               4, &bytes);
    assert_true(ein__stored_readable(&l.items[0]) && l.items[0].shape[7] == 2);
    assert_true(!ein__stored_readable(&l.items[1]) && l.items[1].rank == 9);
    free(bytes);
    ein__arena_free(&a);
}

/* ---- refused ------------------------------------------------------------------------------------------ */

static void refuse_bytes(const char *bytes, size_t n, const char *line)
{
    arena a = {0};
    error e = {0};
    stored_list l = {0};
    char *exact = malloc(n + (n == 0));
    assert_non_null(exact);
    memcpy(exact, bytes, n);
    assert_int_equal(ein__safetensors_read(&a, "f", exact, n, &l, &e), EIN_INVALID);
    assert_string_equal(e.line, line);
    assert_int_equal(l.n, 0);
    ein__arena_free(&a);
    free(exact);
}

static void bad_lengths(void **state)
{
    (void)state;
    refuse_bytes("", 0, "f: 0 bytes are no safetensors file");
    refuse_bytes("\2\0\0\0\0\0\0", 7, "f: 7 bytes are no safetensors file");
    refuse_bytes("\0\0\0\0\0\0\0\0", 8, "f: the header does not begin with '{'");
    refuse_bytes("\3\0\0\0\0\0\0\0{}", 10, "f: a header of 3 bytes; at most 100000000, and 2 are in the file");
    refuse_bytes("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10,
                 "f: a header of 18446744073709551615 bytes; at most 100000000, and 2 are in the file");
    refuse_bytes("\0\0\0\0\0\0\0\x80{}", 10,
                 "f: a header of 9223372036854775808 bytes; at most 100000000, and 2 are in the file");
    refuse_bytes("\3\0\0\0\0\0\0\0 {}", 11, "f: the header does not begin with '{'");
    refuse_bytes("\1\0\0\0\0\0\0\0{}", 10, "f: the JSON text is wrong at byte 1: string or '}' expected near end of file");
}

/* A header above the cap in a file that is large enough to hold it; of the file only a page is ever there. */
static void header_above_the_cap(void **state)
{
    FILE *f = fopen(in_root("large"), "wb");
    file_map m;
    arena a = {0};
    error e = {0};
    stored_list l = {0};
    (void)state;
    assert_non_null(f);
    assert_int_equal(fwrite("\x01\xe1\xf5\x05\0\0\0\0{", 9, 1, f), 1);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(truncate(in_root("large"), 100000100), 0);
    assert_int_equal(ein__file_map(in_root("large"), &m, NULL), EIN_OK);
    assert_int_equal(ein__safetensors_read(&a, "f", m.bytes, m.n, &l, &e), EIN_INVALID);
    assert_string_equal(e.line, "f: a header of 100000001 bytes; at most 100000000, and 100000092 are in the file");
    ein__file_unmap(&m);
    ein__arena_free(&a);
}

#define ONE(dtype, shape, offsets) \
    "{\"t\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define ENTRY(name, n, begin, end) \
    "\"" name "\":{\"dtype\":\"I8\",\"shape\":[" n "],\"data_offsets\":[" begin "," end "]}"

static const struct {
    const char *header;
    size_t n_data;
    const char *line;
} bad[] = {
    /* JSON */
    {"{", 0, "f: the JSON text is wrong at byte 1: string or '}' expected near end of file"},
    {"{} x", 0, "f: the JSON text is wrong at byte 4: end of file expected near 'x'"},
    {"{\"a\":1,}", 0, "f: the JSON text is wrong at byte 8: string or '}' expected near '}'"},
    {"{\"a\xff\":1}", 0, "f: the JSON text is wrong at byte 3: unable to decode byte 0xff near '\"a'"},
    {"{\"a\\u0000\":1}", 0, "f: the JSON text is wrong at byte 10: NUL byte in object key not supported near '\"a\\u0000\"'"},
    {"{\"a\":{},\"a\":{}}", 0, "f: the JSON text is wrong at byte 11: duplicate object key near '\"a\"'"},
    {"{\"a\":{\"dtype\":1,\"dtype\":2}}", 0, "f: the JSON text is wrong at byte 23: duplicate object key near '\"dtype\"'"},
    {"{\"a\":[[[[[[[[[[[[[[[[", 0, "f: the JSON text nests deeper than 16"},
    /* members */
    {"{\"\":{}}", 0, "f: a tensor has no name"},
    {"{\"t\":[]}", 0, "f: tensor 't': must be an object"},
    {"{\"__metadata__\":[]}", 0, "f: \"__metadata__\" must be an object of strings"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "f: \"__metadata__\" must be an object of strings"},
    {"{\"t\":{}}", 0, "f: tensor 't': \"dtype\" is missing"},
    {"{\"t\":{\"dtype\":\"I8\"}}", 0, "f: tensor 't': \"shape\" is missing"},
    {"{\"t\":{\"dtype\":\"I8\",\"shape\":[]}}", 0, "f: tensor 't': \"data_offsets\" is missing"},
    /* types */
    {ONE("8", "[1]", "[0,1]"), 1, "f: tensor 't': \"dtype\" must be a string"},
    {ONE("\"f32\"", "[1]", "[0,4]"), 4, "f: tensor 't': unknown dtype 'f32'"},
    {ONE("\"\\u001b[2J\"", "[1]", "[0,4]"), 4, "f: tensor 't': unknown dtype '?[2J'"},
    {ONE("\"F4\"", "[3]", "[0,1]"), 1, "f: tensor 't': 3 elements of F4 are no whole number of bytes"},
    /* shapes */
    {ONE("\"I8\"", "1", "[0,1]"), 1, "f: tensor 't': \"shape\" must be an array"},
    {ONE("\"I8\"", "{}", "[0,1]"), 1, "f: tensor 't': \"shape\" must be an array"},
    {ONE("\"I8\"", "[1,1.0]", "[0,1]"), 1, "f: tensor 't': extent 1 of \"shape\" must be an integer"},
    {ONE("\"I8\"", "[null]", "[0,1]"), 1, "f: tensor 't': extent 0 of \"shape\" must be an integer"},
    {ONE("\"I8\"", "[-1,-1]", "[0,1]"), 1, "f: tensor 't': extent 0 of \"shape\" is -1"},
    {ONE("\"I8\"", "[9223372036854775808]", "[0,1]"), 1,
     "f: the JSON text is wrong at byte 47: too big integer near '9223372036854775808'"},
    {ONE("\"I8\"", "[4294967296,4294967296]", "[0,1]"), 1,
     "f: tensor 't': extent 1 of \"shape\", 4294967296, makes more than 2^56 elements"},
    {ONE("\"I8\"", "[9223372036854775807,0]", "[0,0]"), 0,
     "f: tensor 't': extent 0 of \"shape\", 9223372036854775807, makes more than 2^56 elements"},
    {ONE("\"F64\"", "[72057594037927936]", "[0,0]"), 0,
     "f: tensor 't': 72057594037927936 elements of F64 take 576460752303423488 bytes, \"data_offsets\" hold 0"},
    /* offsets */
    {ONE("\"I8\"", "[1]", "1"), 1, "f: tensor 't': \"data_offsets\" must be an array of two integers"},
    {ONE("\"I8\"", "[1]", "[0]"), 1, "f: tensor 't': \"data_offsets\" must be an array of two integers"},
    {ONE("\"I8\"", "[1]", "[0,1,1]"), 1, "f: tensor 't': \"data_offsets\" must be an array of two integers"},
    {ONE("\"I8\"", "[1]", "[0,\"1\"]"), 1, "f: tensor 't': \"data_offsets\" must be an array of two integers"},
    {ONE("\"I8\"", "[1]", "[-1,0]"), 1, "f: tensor 't': \"data_offsets\" are [-1, 0] in 1 bytes of data"},
    {ONE("\"I8\"", "[1]", "[1,0]"), 1, "f: tensor 't': \"data_offsets\" are [1, 0] in 1 bytes of data"},
    {ONE("\"I8\"", "[1]", "[0,2]"), 1, "f: tensor 't': \"data_offsets\" are [0, 2] in 1 bytes of data"},
    {ONE("\"I8\"", "[0]", "[9223372036854775807,9223372036854775807]"), 1,
     "f: tensor 't': \"data_offsets\" are [9223372036854775807, 9223372036854775807] in 1 bytes of data"},
    {ONE("\"F32\"", "[2,2]", "[0,12]"), 12, "f: tensor 't': 4 elements of F32 take 16 bytes, \"data_offsets\" hold 12"},
    {ONE("\"BF16\"", "[]", "[0,4]"), 4, "f: tensor 't': 1 elements of BF16 take 2 bytes, \"data_offsets\" hold 4"},
    {ONE("\"F32\"", "[0]", "[0,4]"), 4, "f: tensor 't': 0 elements of F32 take 0 bytes, \"data_offsets\" hold 4"},
    /* tiling */
    {"{}", 1, "f: bytes 0 to 1 of the data belong to no tensor"},
    {"{" ENTRY("a", "4", "0", "4") "}", 5, "f: bytes 4 to 5 of the data belong to no tensor"},
    {"{" ENTRY("a", "4", "1", "5") "}", 5, "f: bytes 0 to 1 of the data belong to no tensor"},
    {"{" ENTRY("b", "2", "4", "6") "," ENTRY("a", "3", "0", "3") "}", 6,
     "f: bytes 3 to 4 of the data belong to no tensor"},
    {"{" ENTRY("b", "4", "2", "6") "," ENTRY("a", "4", "0", "4") "}", 6,
     "f: tensor 'b': its data begin at byte 2, those of 'a' end at 4"},
    {"{" ENTRY("a", "4", "0", "4") "," ENTRY("b", "4", "0", "4") "}", 4,
     "f: tensor 'b': its data begin at byte 0, those of 'a' end at 4"},
    {"{" ENTRY("a", "4", "0", "4") "," ENTRY("z", "0", "2", "2") "}", 4,
     "f: tensor 'z': its data begin at byte 2, those of 'a' end at 4"},
};

static void bad_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t n;
        char *bytes = image(bad[i].header, bad[i].n_data, &n);
        refuse_bytes(bytes, n, bad[i].line);
        free(bytes);
    }
}

/* Long names leave room for what is wrong with them, on one line. */
static void long_names(void **state)
{
    char header[600], where[300], name[301];
    arena a = {0};
    error e = {0};
    stored_list l = {0};
    size_t n;
    (void)state;
    memset(where, 'd', sizeof where - 1);
    strcpy(where + 290, "/file.x");
    for (int i = 0; i < 150; i++) memcpy(name + 2 * i, "\xc3\xa9", 2);
    name[300] = 0;
    snprintf(header, sizeof header, "{\"x%s\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,12]}}", name);
    char *bytes = image(header, 12, &n);
    assert_int_equal(ein__safetensors_read(&a, where, bytes, n, &l, &e), EIN_INVALID);
    assert_memory_equal(e.line, "...ddd", 6);
    assert_non_null(strstr(e.line, "d/file.x: tensor 'x\xc3\xa9"));
    assert_non_null(strstr(e.line, "\xc3\xa9...': 2 elements of F32 take 8 bytes, \"data_offsets\" hold 12"));
    free(bytes);
    ein__arena_free(&a);
}

static void memory_runs_out(void **state)
{
    size_t bytes_n;
    char *bytes = image("{" ENTRY("a", "4", "0", "4") "," ENTRY("b", "4", "4", "8") "}", 8, &bytes_n);
    long live = ein__alloc_live(), n = 0;
    ein_status s;
    (void)state;
    do {
        arena a = {0};
        stored_list l = {0};
        ein__alloc_fail_at(++n);
        s = ein__safetensors_read(&a, "f", bytes, bytes_n, &l, NULL);
        ein__alloc_fail_at(0);
        assert_true(s == EIN_NO_MEMORY || (s == EIN_OK && l.n == 2));
        ein__arena_free(&a);
        assert_int_equal(ein__alloc_live(), live);
    } while (s != EIN_OK);
    assert_true(n > 1);
    free(bytes);
}

/* ---- writing ------------------------------------------------------------------------------------------ */

static const ein_dtype all_types[] = {EIN_BOOL, EIN_F32, EIN_I8, EIN_F64, EIN_BF16, EIN_I64, EIN_F16, EIN_I32};
enum { N_ALL = sizeof all_types / sizeof *all_types };

static void round_trip(void **state)
{
    stored_tensor in[N_ALL + 2] = {{0}};
    unsigned char data[N_ALL][48];
    arena a = {0};
    error e = {0};
    checkpoint c;
    (void)state;
    for (int i = 0; i < N_ALL; i++) {
        for (int k = 0; k < 48; k++) data[i][k] = (unsigned char)(k * 37 + i * 11);
        in[i] = (stored_tensor){.name = ein__dtype_name(all_types[i]), .dtype = all_types[i], .rank = 2, .shape = {3, 2},
                                .data = data[i]};
    }
    in[N_ALL] = (stored_tensor){.name = "a \"scalar\"\n\xc3\xa9", .dtype = EIN_F32, .data = data[0]};
    in[N_ALL + 1] = (stored_tensor){.name = "empty", .dtype = EIN_I64, .rank = 3, .shape = {2, 0, 5}};
    if (ein__safetensors_write(in_root("all"), N_ALL + 2, in, &e) != EIN_OK) fail_msg("%s", e.line);
    if (ein__checkpoint_open(&a, in_root("all"), &c, &e) != EIN_OK) fail_msg("%s", e.line);
    assert_int_equal(c.tensors.n, N_ALL + 2);
    for (int i = 0, found; i < N_ALL + 2; i++) {
        for (found = 0; strcmp(c.tensors.items[found].name, in[i].name) != 0;) assert_true(++found < c.tensors.n);
        const stored_tensor *t = &c.tensors.items[found];
        i64 size = ein__dtype_bytes(in[i].dtype), numel = i < N_ALL ? 6 : N_ALL + 1 - i;
        assert_true(t->dtype == in[i].dtype && t->rank == in[i].rank && ein__stored_readable(t));
        assert_memory_equal(t->shape, in[i].shape, sizeof t->shape);
        assert_int_equal(t->bytes, numel * size);
        if (t->bytes > 0) assert_memory_equal(t->data, in[i].data, (size_t)t->bytes);
        assert_int_equal((uintptr_t)t->data % (uintptr_t)size, 0);
    }
    ein__checkpoint_close(&c);
    ein__arena_free(&a);
}

static void written_bytes(void **state)
{
    static const char want[] = "\x38\0\0\0\0\0\0\0"
                               "{\"a\":{\"dtype\":\"I8\",\"shape\":[3],\"data_offsets\":[0,3]}}   \1\2\3";
    text t = {0};
    stored_tensor in = {.name = "a", .dtype = EIN_I8, .rank = 1, .shape = {3}, .data = "\1\2\3"};
    (void)state;
    assert_int_equal(ein__safetensors_write(in_root("one"), 1, &in, NULL), EIN_OK);
    assert_int_equal(ein__file_read(in_root("one"), 999, true, &t, NULL), EIN_OK);
    assert_int_equal(t.n, sizeof want - 1);
    assert_memory_equal(t.bytes, want, t.n);
    ein__text_free(&t);
    assert_int_equal(ein__safetensors_write(in_root("none"), 0, NULL, NULL), EIN_OK);
    assert_int_equal(ein__file_read(in_root("none"), 999, true, &t, NULL), EIN_OK);
    assert_int_equal(t.n, 16);
    assert_memory_equal(t.bytes, "\x8\0\0\0\0\0\0\0{}      ", 16);
    ein__text_free(&t);
}

static void refuse_write(stored_tensor first, ein_status status, const char *line)
{
    error e = {0};
    text t = {0};
    const stored_tensor in[2] = {first, {.name = "b", .dtype = EIN_I8, .rank = 1, .shape = {3}, .data = "\1\2\3"}};
    put_text("kept", "kept");
    assert_int_equal(ein__safetensors_write(in_root("kept"), 2, in, &e), status);
    assert_string_equal(e.line, line);
    assert_int_equal(ein__file_read(in_root("kept"), 999, true, &t, NULL), EIN_OK);
    assert_string_equal(ein__text_get(&t), "kept");
    ein__text_free(&t);
}

static void refuses_to_write(void **state)
{
    stored_tensor t = {.name = "a", .dtype = EIN_I8, .rank = 1, .shape = {3}, .data = "\1\2\3"}, x = t;
    char line[256];
    error e = {0};
    (void)state;
    x.name = "b";
    refuse_write(x, EIN_INVALID, "safetensors: two tensors are called 'b'");
    x.name = "";
    refuse_write(x, EIN_INVALID, "safetensors: no tensor can be called ''");
    x.name = NULL;
    refuse_write(x, EIN_INVALID, "safetensors: no tensor can be called ''");
    x.name = "__metadata__";
    refuse_write(x, EIN_INVALID, "safetensors: no tensor can be called '__metadata__'");
    x.name = "\xff";
    refuse_write(x, EIN_INVALID, "safetensors: '\xff' is not UTF-8");
    x = t, x.dtype = EIN_F8E4M3;
    refuse_write(x, EIN_DTYPE, "safetensors: tensor 'a' has element type f8e4m3, which is not built");
    x = t, x.rank = 9;
    refuse_write(x, EIN_SHAPE, "safetensors: tensor 'a' has rank 9; 0 to 8");
    x = t, x.shape[0] = -3;
    refuse_write(x, EIN_SHAPE, "safetensors: tensor 'a' has extent -3 in dimension 0");
    x = t, x.data = NULL;
    refuse_write(x, EIN_INVALID, "safetensors: tensor 'a' has no data");
    assert_int_equal(ein__safetensors_write(in_root("no/where"), 1, &t, &e), EIN_IO);
    snprintf(line, sizeof line, "cannot create \"%s/no/.ein-", root);
    assert_memory_equal(e.line, line, strlen(line));
}

static void writing_runs_out_of_memory(void **state)
{
    stored_tensor in = {.name = "a", .dtype = EIN_I8, .rank = 1, .shape = {3}, .data = "\1\2\3"};
    long live = ein__alloc_live(), n = 0;
    ein_status s;
    (void)state;
    do {
        ein__alloc_fail_at(++n);
        s = ein__safetensors_write(in_root("memory"), 1, &in, NULL);
        ein__alloc_fail_at(0);
        assert_true(s == EIN_NO_MEMORY || s == EIN_OK);
        assert_int_equal(access(in_root("memory"), F_OK) == 0, s == EIN_OK);
        assert_int_equal(ein__alloc_live(), live);
    } while (s != EIN_OK);
    assert_true(n > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_bytes),
        cmocka_unit_test(nothing_scalars_and_empty),
        cmocka_unit_test(odd_but_legal),
        cmocka_unit_test(listed_but_not_readable),
        cmocka_unit_test(bad_lengths),
        cmocka_unit_test(header_above_the_cap),
        cmocka_unit_test(bad_headers),
        cmocka_unit_test(long_names),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(written_bytes),
        cmocka_unit_test(refuses_to_write),
        cmocka_unit_test(writing_runs_out_of_memory),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
