/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/onnx/model.h"

#include <string.h>

#include "tests/onnx/wire.h"

typedef struct reader {
    arena *a;
    error *e;
} reader;

static const struct { const char *name; ein_dtype dtype; int bytes; } types[ONNX_TYPES] = {
    [ONNX_UNDEFINED] = {"undefined", 0, 0},     [ONNX_FLOAT] = {"float", EIN_F32, 4},
    [ONNX_UINT8] = {"uint8", 0, 1},             [ONNX_INT8] = {"int8", EIN_I8, 1},
    [ONNX_UINT16] = {"uint16", 0, 2},           [ONNX_INT16] = {"int16", 0, 2},
    [ONNX_INT32] = {"int32", EIN_I32, 4},       [ONNX_INT64] = {"int64", EIN_I64, 8},
    [ONNX_STRING] = {"string", 0, 0},           [ONNX_BOOL] = {"bool", EIN_BOOL, 1},
    [ONNX_FLOAT16] = {"float16", EIN_F16, 2},   [ONNX_DOUBLE] = {"double", EIN_F64, 8},
    [ONNX_UINT32] = {"uint32", 0, 4},           [ONNX_UINT64] = {"uint64", 0, 8},
    [ONNX_COMPLEX64] = {"complex64", 0, 0},     [ONNX_COMPLEX128] = {"complex128", 0, 0},
    [ONNX_BFLOAT16] = {"bfloat16", EIN_BF16, 2}};

const char *onnx_type_name(onnx_type t) { return t < ONNX_TYPES ? types[t].name : "?"; }
ein_dtype onnx_dtype(onnx_type t) { return t < ONNX_TYPES ? types[t].dtype : 0; }

/* ---- fields ------------------------------------------------------------------------------------------- */

static ein_status no_message(reader *r, const char *what)
{
    return ein__fail(r->e, EIN_INVALID, "%s: no message", what);
}

/* The end of a message that was read to its end. */
static ein_status whole(reader *r, const wire *w, const char *what) { return w->bad ? no_message(r, what) : EIN_OK; }

static ein_status expect(reader *r, const wire_field *f, wire_type type, const char *what)
{
    if (f->type == type) return EIN_OK;
    return ein__fail(r->e, EIN_INVALID, "%s: field %u has wire type %d, not %d", what, f->number, (int)f->type,
                     (int)type);
}

static ein_status read_string(reader *r, const wire_field *f, const char *what, const char **out)
{
    char *s;
    TRY(expect(r, f, WIRE_BYTES, what));
    if (f->bytes.n > 0 && memchr(f->bytes.at, 0, f->bytes.n) != NULL)
        return ein__fail(r->e, EIN_INVALID, "%s: a string with a zero in it", what);
    NEW(r->a, s, f->bytes.n + 1);
    if (f->bytes.n > 0) memcpy(s, f->bytes.at, f->bytes.n);
    *out = s;
    return EIN_OK;
}


static float bits_float(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float x;
    memcpy(&x, &low, sizeof x);
    return x;
}

/* ---- TensorProto -------------------------------------------------------------------------------------- */

typedef struct bits { int n, room; i64 *items; } bits;

typedef struct tensor_fields {
    bits dims, typed; /* of float_data, int32_data, ... */
    uint32_t typed_field;
    bool has_raw;
    wire raw;
} tensor_fields;

enum {
    FLOAT_DATA = 4,
    INT32_DATA = 5,
    STRING_DATA = 6,
    INT64_DATA = 7,
    RAW_DATA = 9,
    DOUBLE_DATA = 10,
    UINT64_DATA = 11
};

static wire_type number_type(uint32_t field)
{
    return field == FLOAT_DATA ? WIRE_FIXED32 : field == DOUBLE_DATA ? WIRE_FIXED64 : WIRE_VARINT;
}

/* A list of numbers, packed or one field each; as their bits. */
static ein_status read_numbers(reader *r, const wire_field *f, wire_type type, const char *what, bits *out)
{
    wire w = f->bytes;
    uint64_t x;
    if (f->type != WIRE_BYTES) {
        TRY(expect(r, f, type, what));
        PUSH(r->a, out, (i64)f->value);
        return EIN_OK;
    }
    while (type == WIRE_VARINT ? wire_varint(&w, &x) : wire_fixed(&w, type == WIRE_FIXED32 ? 4 : 8, &x))
        PUSH(r->a, out, (i64)x);
    return whole(r, &w, what);
}

static ein_status read_typed(reader *r, const wire_field *f, tensor_fields *t)
{
    if (t->typed_field != 0 && t->typed_field != f->number)
        return ein__fail(r->e, EIN_INVALID, "tensor: data in fields %u and %u", t->typed_field, f->number);
    t->typed_field = f->number;
    return read_numbers(r, f, number_type(f->number), "tensor data", &t->typed);
}

static ein_status read_field(reader *r, const wire_field *f, tensor_fields *t, onnx_tensor *out)
{
    switch (f->number) {
    case 1: return read_numbers(r, f, WIRE_VARINT, "tensor dims", &t->dims);
    case 2:
        TRY(expect(r, f, WIRE_VARINT, "tensor"));
        if (f->value >= ONNX_TYPES)
            return ein__fail(r->e, EIN_INVALID, "tensor: data type %llu", (unsigned long long)f->value);
        out->type = (onnx_type)f->value;
        return EIN_OK;
    case FLOAT_DATA: case INT32_DATA: case INT64_DATA: case DOUBLE_DATA: case UINT64_DATA: return read_typed(r, f, t);
    case STRING_DATA: return expect(r, f, WIRE_BYTES, "tensor");
    case 8: return read_string(r, f, "tensor", &out->name);
    case RAW_DATA:
        TRY(expect(r, f, WIRE_BYTES, "tensor"));
        t->has_raw = true;
        t->raw = f->bytes;
        return EIN_OK;
    case 3:
    case 13:
    case 14: return ein__fail(r->e, EIN_DTYPE, "tensor: field %u (segments, data elsewhere)", f->number);
    default: return EIN_OK;
    }
}

static ein_status set_shape(reader *r, const tensor_fields *t, onnx_tensor *out)
{
    i64 numel = 1;
    if (t->dims.n > EIN_MAX_RANK) return ein__fail(r->e, EIN_SHAPE, "tensor: rank %d", t->dims.n);
    for (int i = 0; i < t->dims.n; i++) {
        i64 extent = t->dims.items[i];
        if (extent < 0) return ein__fail(r->e, EIN_INVALID, "tensor: extent %lld", (long long)extent);
        if (extent > 0 && numel > (INT64_C(1) << 40) / extent)
            return ein__fail(r->e, EIN_INVALID, "tensor: too many elements");
        out->shape[i] = extent;
        numel *= extent;
    }
    out->rank = t->dims.n;
    out->numel = numel;
    return EIN_OK;
}

/* Which field holds the numbers of a type, if not raw_data. */
static uint32_t typed_field(onnx_type t)
{
    switch (t) {
    case ONNX_FLOAT: return FLOAT_DATA;
    case ONNX_INT64: return INT64_DATA;
    case ONNX_DOUBLE: return DOUBLE_DATA;
    case ONNX_UINT32: case ONNX_UINT64: return UINT64_DATA;
    default: return INT32_DATA;
    }
}

/* Little-endian, as this machine is. A number's low bytes are its element: an int8 in int32_data, a float16's bits. */
static ein_status set_data(reader *r, const tensor_fields *t, onnx_tensor *out)
{
    int bytes = types[out->type].bytes;
    i64 have = t->has_raw ? (i64)t->raw.n : t->typed.n, want = t->has_raw ? out->numel * bytes : out->numel;
    if (bytes == 0) return EIN_OK;
    if (t->has_raw && t->typed_field != 0) return ein__fail(r->e, EIN_INVALID, "tensor: raw and typed data");
    if (t->typed_field != 0 && t->typed_field != typed_field(out->type))
        return ein__fail(r->e, EIN_INVALID, "tensor: %s in field %u", onnx_type_name(out->type), t->typed_field);
    if (have != want)
        return ein__fail(r->e, EIN_INVALID, "tensor: %lld %s of data, %lld expected", (long long)have,
                         t->has_raw ? "bytes" : "numbers", (long long)want);
    char *data = ein__arena_get(r->a, (size_t)out->numel + 1, (size_t)bytes);
    if (data == NULL) return EIN_NO_MEMORY;
    if (t->has_raw && have > 0) memcpy(data, t->raw.at, (size_t)have);
    for (int i = 0; i < t->typed.n; i++) memcpy(data + (size_t)i * (size_t)bytes, &t->typed.items[i], (size_t)bytes);
    out->data = data;
    return EIN_OK;
}

static ein_status read_tensor(reader *r, wire w, onnx_tensor *out)
{
    tensor_fields t = {0};
    wire_field f;
    *out = (onnx_tensor){.name = ""};
    while (wire_next(&w, &f)) TRY(read_field(r, &f, &t, out));
    TRY(whole(r, &w, "tensor"));
    TRY(set_shape(r, &t, out));
    return set_data(r, &t, out);
}

/* ---- AttributeProto, NodeProto ------------------------------------------------------------------------ */

static ein_status read_floats(reader *r, const wire_field *f, onnx_attribute *out)
{
    bits x = {0};
    TRY(read_numbers(r, f, WIRE_FIXED32, "attribute floats", &x));
    for (int i = 0; i < x.n; i++) PUSH(r->a, &out->floats, (double)bits_float((uint64_t)x.items[i]));
    return EIN_OK;
}

static ein_status read_ints(reader *r, const wire_field *f, onnx_attribute *out)
{
    bits x = {0};
    TRY(read_numbers(r, f, WIRE_VARINT, "attribute ints", &x));
    for (int i = 0; i < x.n; i++) PUSH(r->a, &out->ints, x.items[i]);
    return EIN_OK;
}

static ein_status read_attribute_field(reader *r, const wire_field *f, onnx_attribute *out)
{
    onnx_tensor *t;
    switch (f->number) {
    case 1: return read_string(r, f, "attribute", &out->name);
    case 2:
        out->f = (double)bits_float(f->value);
        return expect(r, f, WIRE_FIXED32, "attribute");
    case 3:
        out->i = (i64)f->value;
        return expect(r, f, WIRE_VARINT, "attribute");
    case 4: return read_string(r, f, "attribute", &out->s);
    case 5:
        TRY(expect(r, f, WIRE_BYTES, "attribute"));
        NEW(r->a, t, 1);
        out->t = t;
        return read_tensor(r, f->bytes, t);
    case 6: case 11:
        out->subgraph = true;
        return expect(r, f, WIRE_BYTES, "attribute");
    case 7: return read_floats(r, f, out);
    case 8: return read_ints(r, f, out);
    default: return EIN_OK;
    }
}

static ein_status read_attribute(reader *r, const wire_field *field, onnx_node *out)
{
    onnx_attribute x = {.name = ""};
    wire_field f;
    TRY(expect(r, field, WIRE_BYTES, "attribute"));
    wire w = field->bytes;
    while (wire_next(&w, &f)) TRY(read_attribute_field(r, &f, &x));
    TRY(whole(r, &w, "attribute"));
    PUSH(r->a, &out->attributes, x);
    return EIN_OK;
}

static ein_status read_node_field(reader *r, const wire_field *f, onnx_node *out)
{
    const char *s;
    switch (f->number) {
    case 1:
        TRY(read_string(r, f, "node", &s));
        PUSH(r->a, &out->inputs, s);
        return EIN_OK;
    case 2:
        TRY(read_string(r, f, "node", &s));
        PUSH(r->a, &out->outputs, s);
        return EIN_OK;
    case 4: return read_string(r, f, "node", &out->op);
    case 5: return read_attribute(r, f, out);
    case 7: return read_string(r, f, "node", &out->domain);
    default: return EIN_OK;
    }
}

static ein_status read_node(reader *r, wire w, onnx_model *out)
{
    onnx_node x = {.op = "", .domain = ""};
    wire_field f;
    while (wire_next(&w, &f)) TRY(read_node_field(r, &f, &x));
    TRY(whole(r, &w, "node"));
    PUSH(r->a, &out->nodes, x);
    return EIN_OK;
}

/* ---- ValueInfoProto, GraphProto, ModelProto ----------------------------------------------------------- */

static ein_status read_tensor_type(reader *r, wire w, onnx_value *out)
{
    wire_field f;
    while (wire_next(&w, &f)) {
        if (f.number != 1) continue;
        TRY(expect(r, &f, WIRE_VARINT, "type"));
        if (f.value >= ONNX_TYPES) return ein__fail(r->e, EIN_INVALID, "value: type %llu", (unsigned long long)f.value);
        out->type = (onnx_type)f.value;
    }
    return whole(r, &w, "type");
}

static ein_status read_type(reader *r, wire w, onnx_value *out)
{
    static const struct { uint32_t number; const char *kind; } kinds[] = {
        {1, "tensor"}, {4, "sequence"}, {5, "map"}, {8, "sparse tensor"}, {9, "optional"}};
    wire_field f;
    while (wire_next(&w, &f)) {
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            if (kinds[i].number != f.number) continue;
            TRY(expect(r, &f, WIRE_BYTES, "type"));
            out->kind = kinds[i].kind;
            if (f.number == 1) TRY(read_tensor_type(r, f.bytes, out));
        }
    }
    return whole(r, &w, "type");
}

static ein_status read_value(reader *r, wire w, onnx_value *out)
{
    wire_field f;
    *out = (onnx_value){.name = "", .kind = "nothing"};
    while (wire_next(&w, &f)) {
        if (f.number == 1) TRY(read_string(r, &f, "value", &out->name));
        if (f.number != 2) continue;
        TRY(expect(r, &f, WIRE_BYTES, "value"));
        TRY(read_type(r, f.bytes, out));
    }
    return whole(r, &w, "value");
}

static ein_status read_graph_field(reader *r, const wire_field *f, onnx_model *out)
{
    onnx_value v;
    onnx_tensor t;
    if (f->number == 15) return ein__fail(r->e, EIN_DTYPE, "graph: sparse initializers");
    if (f->number != 1 && f->number != 5 && f->number != 11 && f->number != 12) return EIN_OK;
    TRY(expect(r, f, WIRE_BYTES, "graph"));
    switch (f->number) {
    case 1: return read_node(r, f->bytes, out);
    case 5:
        TRY(read_tensor(r, f->bytes, &t));
        PUSH(r->a, &out->initializers, t);
        return EIN_OK;
    case 11:
        TRY(read_value(r, f->bytes, &v));
        PUSH(r->a, &out->inputs, v);
        return EIN_OK;
    default:
        TRY(read_value(r, f->bytes, &v));
        PUSH(r->a, &out->outputs, v);
        return EIN_OK;
    }
}

static ein_status read_opset(reader *r, wire w, onnx_model *out)
{
    const char *domain = "";
    i64 version = 0;
    wire_field f;
    while (wire_next(&w, &f)) {
        if (f.number == 1) TRY(read_string(r, &f, "opset", &domain));
        if (f.number == 2) TRY(expect(r, &f, WIRE_VARINT, "opset"));
        if (f.number == 2) version = (i64)f.value;
    }
    if (domain[0] == 0) out->opset = version;
    return whole(r, &w, "opset");
}

ein_status onnx_read_model(arena *a, const void *bytes, size_t n, onnx_model *out, error *e)
{
    reader r = {a, e};
    wire w = {.at = bytes, .n = n};
    wire_field f, g;
    bool graph = false;
    *out = (onnx_model){0};
    while (wire_next(&w, &f)) {
        if (f.number == 25) return ein__fail(e, EIN_DTYPE, "model: functions of its own");
        if (f.number != 7 && f.number != 8) continue;
        TRY(expect(&r, &f, WIRE_BYTES, "model"));
        if (f.number == 8) TRY(read_opset(&r, f.bytes, out));
        if (f.number != 7) continue;
        graph = true;
        wire inner = f.bytes;
        while (wire_next(&inner, &g)) TRY(read_graph_field(&r, &g, out));
        TRY(whole(&r, &inner, "graph"));
    }
    TRY(whole(&r, &w, "model"));
    return graph ? EIN_OK : ein__fail(e, EIN_INVALID, "model: no graph");
}

ein_status onnx_read_tensor(arena *a, const void *bytes, size_t n, onnx_tensor *out, error *e)
{
    reader r = {a, e};
    return read_tensor(&r, (wire){.at = bytes, .n = n}, out);
}
