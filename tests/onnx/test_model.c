/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of ONNX's files: good messages, and what must be found out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tests/onnx/model.h"
#include "tests/onnx/wire.h"

#define BYTES(s) (s), sizeof(s) - 1

/* ---- the wire ----------------------------------------------------------------------------------------- */

static void fields_of_all_types(void **state)
{
    (void)state;
    /* 1: 300; 2: fixed64 1; 3: "ab"; 4: fixed32 0x01020304 */
    static const char bytes[] = "\x08\xac\x02\x11\x01\0\0\0\0\0\0\0\x1a\x02"
                                "ab\x25\x04\x03\x02\x01";
    wire w = {.at = (const uint8_t *)bytes, .n = sizeof bytes - 1};
    wire_field f;
    assert_true(wire_next(&w, &f) && f.number == 1 && f.type == WIRE_VARINT && f.value == 300);
    assert_true(wire_next(&w, &f) && f.number == 2 && f.type == WIRE_FIXED64 && f.value == 1);
    assert_true(wire_next(&w, &f) && f.number == 3 && f.type == WIRE_BYTES && f.bytes.n == 2);
    assert_memory_equal(f.bytes.at, "ab", 2);
    assert_true(wire_next(&w, &f) && f.number == 4 && f.type == WIRE_FIXED32 && f.value == 0x01020304);
    assert_false(wire_next(&w, &f));
    assert_false(w.bad);
}

static bool is_bad(const char *bytes, size_t n)
{
    wire w = {.at = (const uint8_t *)bytes, .n = n};
    wire_field f;
    while (wire_next(&w, &f)) continue;
    return w.bad;
}

static void no_messages(void **state)
{
    (void)state;
    assert_true(is_bad(BYTES("\x08")));                                                 /* no value */
    assert_true(is_bad(BYTES("\x08\x80\x80")));                                         /* a number that does not end */
    assert_true(is_bad(BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02")));         /* 65 bits */
    assert_true(is_bad(BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x80\x01")));     /* eleven bytes */
    assert_false(is_bad(BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")));        /* -1 */
    assert_true(is_bad(BYTES("\x12\x03"
                             "ab")));                                                   /* longer than what is left */
    assert_true(is_bad(BYTES("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")));         /* of 2^64 - 1 bytes */
    assert_true(is_bad(BYTES("\x11\1\2\3\4\5\6\7")));                                   /* seven bytes of eight */
    assert_true(is_bad(BYTES("\x15\1\2\3")));                                           /* three of four */
    assert_true(is_bad(BYTES("\x0b\x0c")));                                             /* groups */
    assert_true(is_bad(BYTES("\x0e\x01")) && is_bad(BYTES("\x0f\x01")));                /* no such type */
    assert_true(is_bad(BYTES("\x00\x01")));                                             /* field 0 */
    assert_true(is_bad(BYTES("\x80\x80\x80\x80\x10\x01")));                             /* field 2^29 */
    assert_false(is_bad(BYTES("")));
}

/* ---- tensors ------------------------------------------------------------------------------------------ */

static ein_status read(arena *a, const char *bytes, size_t n, onnx_tensor *out)
{
    error e = {0};
    ein_status s = onnx_read_tensor(a, bytes, n, out, &e);
    assert_true(s == EIN_OK || e.line[0] != 0);
    return s;
}

static void tensors(void **state)
{
    (void)state;
    arena a = {NULL};
    onnx_tensor x;
    /* dims 2, 1 (packed); float; name "x"; raw 1.0, -2.0 */
    assert_int_equal(read(&a, BYTES("\x0a\x02\x02\x01\x10\x01\x42\x01x\x4a\x08\0\0\x80\x3f\0\0\0\xc0"), &x), EIN_OK);
    assert_true(x.type == ONNX_FLOAT && x.rank == 2 && x.shape[0] == 2 && x.shape[1] == 1 && x.numel == 2);
    assert_string_equal(x.name, "x");
    assert_true(((float *)x.data)[0] == 1 && ((float *)x.data)[1] == -2);
    /* dims 2 (one field each); float; float_data packed */
    assert_int_equal(read(&a, BYTES("\x08\x02\x10\x01\x22\x08\0\0\x80\x3f\0\0\0\xc0"), &x), EIN_OK);
    assert_true(((float *)x.data)[0] == 1 && ((float *)x.data)[1] == -2);
    /* int8 -1 and float16 1.0 in int32_data; int64 -1; double 1.0 */
    assert_int_equal(read(&a, BYTES("\x08\x01\x10\x03\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), &x), EIN_OK);
    assert_int_equal(*(int8_t *)x.data, -1);
    assert_int_equal(read(&a, BYTES("\x08\x01\x10\x0a\x2a\x02\x80\x78"), &x), EIN_OK);
    assert_true(onnx_dtype(x.type) == EIN_F16 && ein__dtype_read(EIN_F16, x.data) == 1);
    assert_int_equal(read(&a, BYTES("\x08\x01\x10\x07\x38\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), &x), EIN_OK);
    assert_int_equal(*(i64 *)x.data, -1);
    assert_int_equal(read(&a, BYTES("\x08\x01\x10\x0b\x51\0\0\0\0\0\0\xf0\x3f"), &x), EIN_OK);
    assert_true(*(double *)x.data == 1);
    /* a scalar bool; an empty tensor; strings are named, not read */
    assert_int_equal(read(&a, BYTES("\x10\x09\x4a\x01\x01"), &x), EIN_OK);
    assert_true(x.rank == 0 && x.numel == 1 && *(uint8_t *)x.data == 1);
    assert_int_equal(read(&a, BYTES("\x0a\x02\x03\x00\x10\x01"), &x), EIN_OK);
    assert_true(x.rank == 2 && x.numel == 0);
    assert_int_equal(read(&a, BYTES("\x08\x01\x10\x08\x32\x02hi"), &x), EIN_OK);
    assert_true(onnx_dtype(x.type) == 0 && x.data == NULL);
    ein__arena_free(&a);
}

static void no_tensors(void **state)
{
    (void)state;
    arena a = {NULL};
    onnx_tensor x;
    assert_int_equal(read(&a, BYTES("\x08\x02\x10\x01\x4a\x04\0\0\x80\x3f"), &x), EIN_INVALID);       /* one of two */
    assert_int_equal(read(&a, BYTES("\x08\x01\x10\x01\x4a\x05\0\0\x80\x3f\0"), &x), EIN_INVALID);     /* a byte more */
    assert_int_equal(read(&a, BYTES("\x08\x02\x10\x01\x22\x04\0\0\x80\x3f"), &x), EIN_INVALID);
    assert_int_equal(read(&a, BYTES("\x08\x01\x10\x01\x28\x01"), &x), EIN_INVALID); /* float in int32_data */
    assert_int_equal(read(&a, BYTES("\x08\x01\x10\x01\x25\0\0\0\0\x4a\x04\0\0\0\0"), &x), EIN_INVALID); /* both */
    assert_int_equal(read(&a, BYTES("\x08\x01\x10\x01\x22\x03\0\0\0"), &x), EIN_INVALID);             /* half a float */
    assert_int_equal(read(&a, BYTES("\x08\x01\x10\x63\x28\x01"), &x), EIN_INVALID);                   /* type 99 */
    assert_int_equal(read(&a, BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x01"), &x), EIN_INVALID); /* -1 */
    /* 2^30 x 2^30 x 2^30 elements */
    assert_int_equal(
        read(&a, BYTES("\x08\x80\x80\x80\x80\x04\x08\x80\x80\x80\x80\x04\x08\x80\x80\x80\x80\x04\x10\x01"), &x),
        EIN_INVALID);
    assert_int_equal(read(&a, BYTES("\x0a\x09\1\1\1\1\1\1\1\1\1\x10\x01\x4a\x04\0\0\0\0"), &x), EIN_SHAPE); /* rank 9 */
    assert_int_equal(read(&a, BYTES("\x08\x01\x10\x01\x70\x01"), &x), EIN_DTYPE); /* data elsewhere */
    assert_int_equal(read(&a,
                          BYTES("\x42\x02"
                                "a\0"),
                          &x),
                     EIN_INVALID);                                      /* a zero in a name */
    assert_int_equal(read(&a, BYTES("\x12\x01\x01"), &x), EIN_INVALID); /* a type that is no number */
    ein__arena_free(&a);
}

/* ---- a model ------------------------------------------------------------------------------------------ */

/* Appends a field of bytes. */
static size_t put(char *out, size_t at, int field, const char *bytes, size_t n)
{
    out[at++] = (char)(field << 3 | 2);
    out[at++] = (char)n;
    memcpy(out + at, bytes, n);
    return at + n;
}

static void model(void **state)
{
    (void)state;
    arena a = {NULL};
    error e = {0};
    onnx_model m;
    char node[100], graph[200], file[250];
    /* y = Elu(x, "") alpha = 0.5, axes = [-1] */
    size_t n = put(node, 0, 1, BYTES("x")), g, f;
    n = put(node, n, 1, BYTES(""));
    n = put(node, n, 2, BYTES("y"));
    n = put(node, n, 4, BYTES("Elu"));
    n = put(node, n, 5, BYTES("\x0a\x05"
                              "alpha\x15\0\0\0\x3f"));
    n = put(node, n, 5, BYTES("\x0a\x04"
                              "axes\x42\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
    g = put(graph, 0, 1, node, n);
    g = put(graph, g, 11, BYTES("\x0a\x01x\x12\x06\x0a\x04\x08\x01\x12\0"));
    g = put(graph, g, 12, BYTES("\x0a\x01y\x12\x02\x22\0"));
    f = put(file, 0, 8, BYTES("\x10\x0d"));
    f = put(file, f, 8, BYTES("\x0a\x05other\x10\x02"));
    f = put(file, f, 7, graph, g);
    assert_int_equal(onnx_read_model(&a, file, f, &m, &e), EIN_OK);
    assert_true(m.opset == 13 && m.nodes.n == 1 && m.inputs.n == 1 && m.outputs.n == 1);
    const onnx_node *x = &m.nodes.items[0];
    assert_string_equal(x->op, "Elu");
    assert_true(x->inputs.n == 2 && x->outputs.n == 1 && x->attributes.n == 2);
    assert_string_equal(x->inputs.items[1], "");
    assert_true(x->attributes.items[0].f == 0.5 && x->attributes.items[1].ints.items[0] == -1);
    assert_string_equal(m.inputs.items[0].kind, "tensor");
    assert_int_equal(m.inputs.items[0].type, ONNX_FLOAT);
    assert_string_equal(m.outputs.items[0].kind, "sequence");
    for (size_t i = 0; i < f; i++) { /* every shorter file is refused or another model, never more */
        ein_status s = onnx_read_model(&a, file, i, &m, &e);
        assert_true(s == EIN_INVALID || (s == EIN_OK && m.nodes.n <= 1));
    }
    ein__arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fields_of_all_types), cmocka_unit_test(no_messages),
                                       cmocka_unit_test(tensors), cmocka_unit_test(no_tensors),
                                       cmocka_unit_test(model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
