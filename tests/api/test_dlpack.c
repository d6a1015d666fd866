/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of other libraries at the border. The structs here are DLPack's, written from its specification. */
#include "core/tensor/dtype.h"
#include "tests/api/fixture.h"

typedef struct DLDevice { int32_t device_type, device_id; } DLDevice;
typedef struct DLDataType { uint8_t code, bits; uint16_t lanes; } DLDataType;
struct DLTensor {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
};

enum { CPU = 1, CUDA = 2, CUDA_HOST = 3, INT = 0, UINT = 1, FLOAT = 2 };

static struct DLTensor tensor(void *data, int ndim, int64_t *shape)
{
    return (struct DLTensor){.data = data, .device = {CPU, 0}, .ndim = ndim, .dtype = {FLOAT, 32, 1}, .shape = shape};
}

/* y [2,3] = 2 x [2,3] + the rows of a table at ids [2] (1 and 0 by default). */
static void open_session(session *s, int64_t *ids)
{
    session_open(s, "host:2");
    ein_tensor table = ein_constant(s->g, EIN_F32, SHAPE(2, 3), (float[]){100, 200, 300, 400, 500, 600});
    ein_tensor rows = ein_embedding(s->g, ein_input(s->g, "ids", EIN_I64, SHAPE(2)), table);
    ein_output(s->g, "y", ein_map(s->g, "2 * x0 + x1", 2, (ein_tensor[]){INPUT(s->g, "x", 2, 3), rows}));
    session_start(s);
    struct DLTensor t = tensor(ids, 1, (int64_t[]){2});
    t.dtype = (DLDataType){INT, 64, 1};
    assert_int_equal(ein_run_input_dlpack(s->r, "ids", &t), EIN_OK);
}

static void taken(void **state)
{
    static const double want[] = {402, 504, 606, 108, 210, 312};
    float x[8] = {-1, -1, 1, 2, 3, 4, 5, 6}, y[7];
    int64_t ids[] = {1, 0}, shape[] = {2, 3}, strides[] = {3, 1};
    session s;
    (void)state;
    open_session(&s, ids);
    struct DLTensor in = tensor(x, 2, shape), out = tensor(y, 2, shape);
    in.byte_offset = 2 * sizeof *x;
    assert_int_equal(ein_run_input_dlpack(s.r, "x", &in), EIN_OK);
    assert_int_equal(ein_run_output_dlpack(s.r, "y", &out), EIN_OK);
    session_once(&s);
    assert_near(y, want, 6);
    in.strides = out.strides = strides;
    out.byte_offset = sizeof *y;
    in.device.device_type = CUDA_HOST; /* pinned memory is the process's too */
    assert_int_equal(ein_run_input_dlpack(s.r, "x", &in), EIN_OK);
    assert_int_equal(ein_run_output_dlpack(s.r, "y", &out), EIN_OK);
    y[0] = -7;
    session_once(&s);
    assert_float_equal(y[0], -7, 0);
    assert_near(y + 1, want, 6);
    session_close(&s);
}

/* An extent of 1 may have any stride, and so may everything in an empty tensor. */
static void strides_that_say_nothing(void **state)
{
    float x[3] = {1, 2, 3}, y[3];
    session s;
    (void)state;
    session_open(&s, "host:1");
    ein_output(s.g, "y", ein_relu(s.g, INPUT(s.g, "x", 1, 3, 1)));
    ein_output(s.g, "e", ein_relu(s.g, INPUT(s.g, "none", 0, 3)));
    session_start(&s);
    struct DLTensor in = tensor(x, 3, (int64_t[]){1, 3, 1}), out = tensor(y, 3, (int64_t[]){1, 3, 1});
    struct DLTensor none = tensor(NULL, 2, (int64_t[]){0, 3});
    in.strides = (int64_t[]){77, 1, -5};
    none.strides = (int64_t[]){9, 9};
    none.byte_offset = 4;
    assert_int_equal(ein_run_input_dlpack(s.r, "x", &in), EIN_OK);
    assert_int_equal(ein_run_input_dlpack(s.r, "none", &none), EIN_OK);
    assert_int_equal(ein_run_output_dlpack(s.r, "y", &out), EIN_OK);
    assert_int_equal(ein_run_output_dlpack(s.r, "e", &none), EIN_OK);
    session_once(&s);
    assert_near(y, (double[]){1, 2, 3}, 3);
    session_close(&s);
}

/* Codes and bits as dlpack.h numbers them. */
static void all_types(void **state)
{
    static const struct { ein_dtype dtype; DLDataType type; int bytes; } types[] = {
        {EIN_F32, {FLOAT, 32, 1}, 4}, {EIN_F64, {FLOAT, 64, 1}, 8}, {EIN_F16, {FLOAT, 16, 1}, 2}, {EIN_BF16, {4, 16, 1}, 2},
        {EIN_I8, {INT, 8, 1}, 1},     {EIN_I32, {INT, 32, 1}, 4},   {EIN_I64, {INT, 64, 1}, 8},   {EIN_BOOL, {6, 8, 1}, 1}};
    char line[120];
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        unsigned char x[5 * 8], y[5 * 8] = {0};
        session s;
        session_open(&s, "host:2");
        ein_output(s.g, "y", ein_input(s.g, "x", types[i].dtype, SHAPE(5)));
        session_start(&s);
        struct DLTensor in = tensor(x, 1, (int64_t[]){5}), out = tensor(y, 1, (int64_t[]){5});
        for (size_t k = 0; k < sizeof x; k++) x[k] = (unsigned char)(k * 29 + 3);
        in.dtype = out.dtype = types[(i + 1) % 8].type;
        assert_int_equal(ein_run_input_dlpack(s.r, "x", &in), EIN_DTYPE);
        assert_int_equal(ein_run_output_dlpack(s.r, "y", &out), EIN_DTYPE);
        in.dtype = out.dtype = types[i].type;
        assert_int_equal(ein_run_input_dlpack(s.r, "x", &in), EIN_OK);
        assert_int_equal(ein_run_output_dlpack(s.r, "y", &out), EIN_OK);
        session_once(&s);
        assert_memory_equal(x, y, 5 * (size_t)types[i].bytes);
        assert_int_equal(y[5 * types[i].bytes - 1], x[5 * types[i].bytes - 1]);
        if (types[i].bytes < 8) assert_int_equal(y[5 * types[i].bytes], 0);
        assert_int_equal(ein_run_input(s.r, "x", x, 3), EIN_SHAPE);
        snprintf(line, sizeof line, "input 'x': 3 bytes bound, %d expected: 5 elements of %s, %d each", 5 * types[i].bytes,
                 ein__dtype_name(types[i].dtype), types[i].bytes);
        assert_string_equal(ein_run_error(s.r), line);
        session_close(&s);
    }
}

#define REFUSED(status, line, change)                                               \
    do {                                                                            \
        struct DLTensor t = tensor(x, 2, shape);                                    \
        change;                                                                     \
        assert_int_equal(ein_run_input_dlpack(s.r, "x", &t), status);               \
        assert_string_equal(ein_run_error(s.r), line);                              \
        assert_int_equal(ein_run_output_dlpack(s.r, "y", &t), status);              \
    } while (0)

static void refused(void **state)
{
    float x[6] = {0};
    int64_t ids[] = {1, 0}, shape[] = {2, 3};
    session s;
    (void)state;
    open_session(&s, ids);
    REFUSED(EIN_DTYPE, "'x': the tensor's type has code 2, 64 bits, 1 lanes; f32 is declared", t.dtype.bits = 64);
    REFUSED(EIN_DTYPE, "'x': the tensor's type has code 0, 32 bits, 1 lanes; f32 is declared", t.dtype.code = INT);
    REFUSED(EIN_DTYPE, "'x': the tensor's type has code 2, 32 bits, 4 lanes; f32 is declared", t.dtype.lanes = 4);
    REFUSED(EIN_SHAPE, "'x': the tensor's strides are not row-major", t.strides = ((int64_t[]){1, 2}));
    REFUSED(EIN_SHAPE, "'x': the tensor's strides are not row-major", t.strides = ((int64_t[]){4, 1}));
    REFUSED(EIN_SHAPE, "'x': the tensor has extent 3 in dimension 0, 2 is declared", t.shape = ((int64_t[]){3, 2}));
    REFUSED(EIN_SHAPE, "'x': the tensor has extent 4611686018427387904 in dimension 0, 2 is declared",
            t.shape = ((int64_t[]){INT64_MAX / 2 + 1, 3}));
    REFUSED(EIN_SHAPE, "'x': the tensor has rank 1, 2 is declared", (t.ndim = 1, t.shape = (int64_t[]){6}));
    REFUSED(EIN_SHAPE, "'x': the tensor has rank -1, 2 is declared", t.ndim = -1);
    REFUSED(EIN_INVALID, "'x': the tensor has no shape", t.shape = NULL);
    REFUSED(EIN_INVALID, "'x': the tensor lies on a device of type 2, not on the CPU", t.device.device_type = CUDA);
    REFUSED(EIN_INVALID, "input 'x': no memory bound", t.data = NULL);
    struct DLTensor t = tensor(x, 2, shape);
    assert_int_equal(ein_run_input_dlpack(NULL, "x", &t), EIN_INVALID);
    assert_int_equal(ein_run_output_dlpack(NULL, "y", &t), EIN_INVALID);
    assert_int_equal(ein_run_input_dlpack(s.r, "x", NULL), EIN_INVALID);
    assert_string_equal(ein_run_error(s.r), "'x': no tensor");
    assert_int_equal(ein_run_output_dlpack(s.r, "y", NULL), EIN_INVALID);
    assert_int_equal(ein_run_input_dlpack(s.r, "z", &t), EIN_INVALID);
    assert_string_equal(ein_run_error(s.r), "the program has no input 'z'");
    assert_int_equal(ein_run_output_dlpack(s.r, NULL, &t), EIN_INVALID);
    t.dtype = (DLDataType){UINT, 64, 1};
    t.ndim = 1;
    assert_int_equal(ein_run_input_dlpack(s.r, "ids", &t), EIN_DTYPE);
    session_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken), cmocka_unit_test(strides_that_say_nothing), cmocka_unit_test(refused),
        cmocka_unit_test(all_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
