/* SPDX-License-Identifier: Apache-2.0 */
/* A job built by hand, run on plain memory and compared with loops in double. Results lie in buffers filled
 * with a canary, so a stray store is seen. Every text is also compiled for the GPUs, if NVRTC is here, and
 * must not spill. */
#ifndef TESTS_JIT_FAMILY_RIG_H
#define TESTS_JIT_FAMILY_RIG_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/alloc.h"
#include "jit/compiler/compiler.h"
#include "jit/family/family.h"
#include "tests/fake/fiber_twin.h"

enum { RIG_BUFFERS = MAX_OPERANDS + MAX_STAGES + MAX_STATES, RIG_TEXTS = 256, MARGIN = 8 };
#define CANARY 12345.0f

typedef struct rig {
    arena arena;
    graph graph;
    node node;
    job job;
    int n_buffers;
    void *buffers[RIG_BUFFERS];
    i64 sizes[RIG_BUFFERS]; /* elements */
    i64 scalars[4];
    launch launch;
} rig;

static unsigned rig_seed = 1;
static inline float rig_random(void)
{
    rig_seed = rig_seed * 1664525u + 1013904223u;
    return (float)(rig_seed >> 8) / 8388608.0f - 1.0f;
}

/* Labels with these lengths, at these global offsets (NULL: 0). */
static inline void rig_begin(rig *r, op_kind kind, int n_labels, const i64 *len, const i64 *lo)
{
    memset(r, 0, sizeof *r);
    r->node.kind = kind;
    r->node.name = "test";
    r->node.scalar = r->node.attention.position = r->node.attention.length = -1;
    r->node.spec.n_labels = n_labels;
    r->node.spec.operands = ein__arena_get(&r->arena, MAX_OPERANDS, sizeof(index_map));
    assert_non_null(r->node.spec.operands);
    for (int l = 0; l < n_labels; l++) {
        r->job.box.len[l] = len[l];
        r->job.box.lo[l] = lo != NULL ? lo[l] : 0;
        r->node.spec.labels[l].extent = r->job.box.lo[l] + len[l];
        r->node.spec.labels[l].granule = 1;
    }
    r->job.graph = &r->graph;
    r->job.node = &r->node;
}

/* Elements from the first point to the last that a view touches; those before it are the offset's. */
static inline i64 rig_span(const rig *r, const i64 *strides)
{
    i64 last = 0;
    for (int l = 0; l < r->node.spec.n_labels; l++) {
        if (r->job.box.len[l] == 0 && strides[l] != 0) return 0;
        if (strides[l] > 0) last += (r->job.box.len[l] - 1) * strides[l];
    }
    return last + 1;
}

static inline view rig_view(rig *r, ein_dtype dtype, const i64 *strides, i64 offset)
{
    view v = {.offset = offset, .dtype = dtype, .scalar = -1, .place = {.index = r->n_buffers}};
    for (int l = 0; l < r->node.spec.n_labels; l++) {
        v.stride[l] = strides[l];
        v.range_hi[l] = r->job.box.len[l];
    }
    i64 n = offset + rig_span(r, strides) + MARGIN;
    r->sizes[r->n_buffers] = n;
    r->buffers[r->n_buffers] = ein__calloc((size_t)n, (size_t)ein__dtype_bytes(dtype));
    assert_non_null(r->buffers[r->n_buffers]);
    r->n_buffers++;
    return v;
}

static inline float *rig_floats(const rig *r, const view *v) { return r->buffers[v->place.index]; }

static inline void *rig_at(const rig *r, const view *v, i64 i)
{
    return (char *)r->buffers[v->place.index] + i * ein__dtype_bytes(v->dtype);
}
static inline double rig_get(const rig *r, const view *v, i64 i) { return ein__dtype_read(v->dtype, rig_at(r, v, i)); }
static inline void rig_set(const rig *r, const view *v, i64 i, double x) { ein__dtype_write(v->dtype, x, rig_at(r, v, i)); }

/* A number as the type holds it. */
static inline double rig_round(ein_dtype dtype, double x)
{
    i64 room;
    ein__dtype_write(dtype, x, &room);
    return ein__dtype_read(dtype, &room);
}

static inline void rig_map(const rig *r, const i64 *strides, index_map *m)
{
    for (int l = 0; l < r->node.spec.n_labels; l++)
        if (strides[l] != 0)
            m->terms[m->n++] = (term){.kind = TERM_LABEL, .label = l, .extent = r->node.spec.labels[l].extent, .scalar = -1};
}

/* An operand with random elements: floats in [-1, 1), integers in [-100, 100). */
static inline view *rig_in_typed(rig *r, ein_dtype dtype, const i64 *strides, i64 offset)
{
    view *v = &r->job.in[r->job.n_in];
    double scale = ein__dtype_is_float(dtype) ? 1 : dtype == EIN_BOOL ? 2 : 100;
    rig_map(r, strides, &r->node.spec.operands[r->job.n_in]);
    *v = rig_view(r, dtype, strides, offset);
    for (i64 i = 0; i < r->sizes[v->place.index]; i++) {
        double x = scale * (double)rig_random();
        rig_set(r, v, i, dtype == EIN_BOOL ? trunc(x) : x);
    }
    r->node.spec.n_operands = ++r->job.n_in;
    return v;
}
static inline view *rig_in(rig *r, const i64 *strides, i64 offset) { return rig_in_typed(r, EIN_F32, strides, offset); }

static inline view *rig_out_typed(rig *r, ein_dtype dtype, const i64 *strides, i64 offset)
{
    view *v = &r->job.out[r->job.n_out];
    spec *s = &r->node.spec;
    rig_map(r, strides, &s->results[r->job.n_out]);
    s->states[r->job.n_out] = s->results[r->job.n_out];
    *v = rig_view(r, dtype, strides, offset);
    for (i64 i = 0; i < r->sizes[v->place.index]; i++) rig_set(r, v, i, (double)CANARY);
    s->n_results = s->n_states = ++r->job.n_out;
    return v;
}
static inline view *rig_out(rig *r, const i64 *strides, i64 offset) { return rig_out_typed(r, EIN_F32, strides, offset); }

/* The node reads the index of a label. */
static inline void rig_index_of(rig *r, int label) { r->node.indices[r->node.n_indices++] = label; }

static inline expr rig_expr(rig *r, const char *source, const char *prefix, int n)
{
    expr x;
    error e = {0};
    assert_int_equal(ein__expr_parse(&r->arena, source, prefix, n, NULL, 0, &x, &e), EIN_OK);
    return x;
}

static inline const merge *rig_merge_typed(rig *r, merge_kind kind, double scale, ein_dtype dtype)
{
    merge *m;
    assert_int_equal(ein__merge_make(&r->arena, kind, scale, dtype, &m), EIN_OK);
    return r->node.spec.merge = m;
}
static inline void rig_merge(rig *r, merge_kind kind, double scale) { rig_merge_typed(r, kind, scale, EIN_F32); }

static inline row_stage rig_stage(rig *r, merge_kind kind, expr body)
{
    merge *m;
    assert_int_equal(ein__merge_make(&r->arena, kind, 1, EIN_F32, &m), EIN_OK);
    return (row_stage){m, {body}};
}

static inline void rig_end(rig *r)
{
    for (int i = 0; i < r->n_buffers; i++) ein__free(r->buffers[i]);
    ein__arena_free(&r->arena);
}

/* ---- running ---- */

typedef struct rig_text {
    hash128 key;
    host_module *module;
    fiber_module *twin;
    int launches;
} rig_text;
static rig_text rig_texts[RIG_TEXTS];
static int rig_n_texts;
static bool rig_every_architecture; /* else they take turns */
static int rig_barriers = -1;       /* if not negative: barriers of the launches so far, each of which was needed */

static inline void rig_compile_device(const kernel_text *k)
{
    static const char *const architectures[] = {"sm_80", "sm_90", "sm_100"};
    text source = {0};
    assert_int_equal(ein__kernel_source(READ_CUDA, false, &k, 1, &source), EIN_OK);
    for (int i = 0; i < 3; i++) {
        if (getenv("RIG_HOST_ONLY") != NULL || (!rig_every_architecture && i != rig_n_texts % 3)) continue;
        nvrtc_result x = {0};
        error e = {0};
        ein_status status = ein__nvrtc_compile(ein__text_get(&source), architectures[i], NULL, &x, &e);
        if (status != EIN_OK && status != EIN_NO_DEVICE)
            fail_msg("%s\n%s\n%s", e.line, e.detail != NULL ? e.detail : "", k->body);
        ein__error_reset(&e);
        if (status == EIN_NO_DEVICE) break;
        if (x.spill_bytes != 0 || x.stack_bytes != 0)
            fail_msg("%s: %d bytes spilled, %d of stack\n%s", architectures[i], x.spill_bytes, x.stack_bytes,
                     k->body);
        assert_true(x.shared_bytes <= 48 * 1024);
        if (getenv("RIG_VERBOSE") != NULL)
            printf("%s: %d registers, %d bytes shared, %.0f ms\n", architectures[i], x.registers,
                   x.shared_bytes, x.compile_ms);
    }
    ein__text_free(&source);
}

static inline rig_text *rig_text_of(const kernel_text *k)
{
    int i = 0;
    while (i < rig_n_texts && !ein__hash_equal(rig_texts[i].key, k->key)) i++;
    if (i == rig_n_texts) {
        text source = {0}, object = {0};
        error e = {0};
        if (getenv("RIG_VERBOSE") != NULL) printf("%s", k->body);
        assert_true(rig_n_texts < RIG_TEXTS);
        rig_compile_device(k);
        assert_int_equal(ein__kernel_source(READ_HOST, false, &k, 1, &source), EIN_OK);
        ein_status status = ein__host_compile(ein__text_get(&source), &object, &e);
        if (status == EIN_NO_DEVICE) {
            puts("no C compiler: skipped");
            exit(77);
        }
        if (status != EIN_OK) fail_msg("%s\n%s\n%s", e.line, e.detail != NULL ? e.detail : "", k->body);
        rig_texts[i].key = k->key;
        assert_int_equal(ein__host_load(object.bytes, object.n, &rig_texts[i].module, &e), EIN_OK);
        rig_n_texts++;
        ein__text_free(&source);
        ein__text_free(&object);
    }
    return &rig_texts[i];
}

static inline int rig_unload(void **state)
{
    (void)state;
    while (rig_n_texts > 0) {
        ein__host_unload(rig_texts[--rig_n_texts].module);
        fiber_unload(rig_texts[rig_n_texts].twin);
    }
    return 0;
}

static inline void *rig_address(const rig *r, const arg *x)
{
    i64 bytes = x->value + (x->scalar >= 0 ? r->scalars[x->scalar] * x->scalar_bytes : 0);
    return (char *)r->buffers[x->place.index] + bytes;
}

/* Elements [lo, hi) of a view's buffer that it may touch: no margin, and nothing before its first point unless it goes
 * backwards; all of it where it is shifted or covers a range. */
static inline void rig_bounds(const rig *r, const view *v, i64 *lo, i64 *hi)
{
    bool anywhere = v->scalar >= 0, backwards = false;
    for (int l = 0; l < r->node.spec.n_labels; l++) {
        anywhere = anywhere || v->range_lo[l] > 0 || v->range_hi[l] < r->job.box.len[l];
        backwards = backwards || v->stride[l] < 0;
    }
    *lo = anywhere || backwards ? 0 : v->offset;
    *hi = r->sizes[v->place.index] - (anywhere ? 0 : MARGIN);
}

/* Memory of the launch, as its views say. */
static inline void rig_memory(const rig *r, twin_memory *m)
{
    for (int i = 0; i < r->n_buffers; i++) m[i] = (twin_memory){.base = r->buffers[i]};
    for (int i = 0; i < r->job.n_in + r->job.n_out; i++) {
        const view *v = i < r->job.n_in ? &r->job.in[i] : &r->job.out[i - r->job.n_in];
        twin_memory *x = &m[v->place.index];
        i64 lo, hi, size = ein__dtype_bytes(v->dtype);
        rig_bounds(r, v, &lo, &hi);
        x->dtype = v->dtype;
        x->base = (char *)r->buffers[v->place.index] + lo * size;
        x->bytes = hi > lo ? (size_t)((hi - lo) * size) : 0;
        if (i < r->job.n_in) x->reads = true;
        else x->writes = true;
    }
}

/* Some launches run by fibers too. False: not this one. */
static inline bool rig_twin(rig *r, rig_text *t, void **args, twin_memory *m)
{
    const kernel_text *k = &r->launch.kernel;
    const long long grid[] = {r->launch.grid[0], r->launch.grid[1], r->launch.grid[2]};
    text why = {0};
    if (!twin_wanted(t->launches, grid[0] * grid[1] * grid[2])) return false;
    t->launches++;
    if (t->twin == NULL && !twin_compile(&k, 1, &t->twin, &why)) fail_msg("%s\n%s", ein__text_get(&why), k->body);
    rig_memory(r, m);
    if (!twin_run(t->twin, k, grid, args, m, r->n_buffers, &why)) fail_msg("%s\n%s", ein__text_get(&why), k->body);
    return true;
}

/* From here on barriers are counted, and taken away. Not where fibers are not to run. */
static inline void rig_start_barriers(void)
{
    if (getenv("RIG_HOST_ONLY") != NULL) skip();
    rig_barriers = 0;
}

/* Every barrier of the text must be needed in this launch. */
static inline void rig_check_barriers(rig *r, void **args, twin_memory *m)
{
    const kernel_text *k = &r->launch.kernel;
    const long long grid[] = {r->launch.grid[0], r->launch.grid[1], r->launch.grid[2]};
    text why = {0};
    rig_memory(r, m);
    int n = twin_barriers(k, grid, args, m, r->n_buffers, &why);
    if (n < 0) fail_msg("%s\n%s", ein__text_get(&why), k->body);
    rig_barriers += n;
}

static inline void rig_kernel(rig *r)
{
    twin_memory memory[RIG_BUFFERS];
    text why = {0};
    union { void *p; i64 i; float f; } values[512];
    void *args[512];
    assert_true(r->launch.n_args <= 512);
    for (int i = 0; i < r->launch.n_args; i++) {
        const arg *x = &r->launch.args[i];
        args[i] = &values[i];
        if (x->kind == ARG_POINTER) values[i].p = rig_address(r, x);
        else if (x->kind == ARG_F32) values[i].f = (float)x->f32;
        else values[i].i = x->value + (x->kind == ARG_SCALAR ? r->scalars[x->scalar] : 0);
    }
    rig_text *t = rig_text_of(&r->launch.kernel);
    host_entry entry = ein__host_entry(t->module, r->launch.kernel.name);
    assert_non_null(entry);
    if (rig_barriers >= 0) rig_check_barriers(r, args, memory);
    const bool twin = rig_twin(r, t, args, memory);
    entry(args, r->launch.grid[0], r->launch.grid[1], r->launch.grid[2], NULL);
    if (twin && !twin_compare(memory, r->n_buffers, &why))
        fail_msg("%s\n%s", ein__text_get(&why), r->launch.kernel.body);
}

/* What the descriptor of a product says, literally. */
static inline void rig_gemm(rig *r)
{
    const gemm *g = &r->launch.gemm;
    const float *a = rig_address(r, &r->launch.args[0]), *b = rig_address(r, &r->launch.args[1]);
    float *c = rig_address(r, &r->launch.args[2]);
    i64 batch[3] = {1, 1, 1}, at[3];
    for (int i = 0; i < g->n_batch; i++) batch[i] = g->batch[i];
    assert_true(g->lda >= (g->ta ? g->m : g->k) && g->ldb >= (g->tb ? g->k : g->n) && g->ldc >= g->n);
    for (at[0] = 0; at[0] < batch[0]; at[0]++)
        for (at[1] = 0; at[1] < batch[1]; at[1]++)
            for (at[2] = 0; at[2] < batch[2]; at[2]++) {
                i64 oa = 0, ob = 0, oc = 0;
                for (int i = 0; i < g->n_batch; i++) {
                    oa += at[i] * g->stride_a[i];
                    ob += at[i] * g->stride_b[i];
                    oc += at[i] * g->stride_c[i];
                }
                for (i64 m = 0; m < g->m; m++)
                    for (i64 n = 0; n < g->n; n++) {
                        float sum = 0;
                        for (i64 k = 0; k < g->k; k++)
                            sum += a[oa + (g->ta ? k * g->lda + m : m * g->lda + k)] *
                                   b[ob + (g->tb ? n * g->ldb + k : k * g->ldb + n)];
                        c[oc + m * g->ldc + n] = sum;
                    }
            }
}

static inline void rig_run(rig *r)
{
    error e = {0};
    ein_status status = ein__family_emit(&r->arena, &r->job, &r->launch, &e);
    if (status != EIN_OK) fail_msg("%s", e.line);
    if (r->launch.kind == STEP_GEMM) rig_gemm(r);
    else rig_kernel(r);
}

/* ---- comparing ---- */

/* Next point of the box, in row-major order; false at the end. */
static inline bool rig_next(const rig *r, i64 *at)
{
    for (int l = r->node.spec.n_labels - 1; l >= 0; l--) {
        if (++at[l] < r->job.box.len[l]) return true;
        at[l] = 0;
    }
    return false;
}

static inline bool rig_any(const rig *r)
{
    for (int l = 0; l < r->node.spec.n_labels; l++)
        if (r->job.box.len[l] == 0) return false;
    return true;
}

static inline i64 rig_index(const rig *r, const view *v, const i64 *at)
{
    i64 i = v->offset + (v->scalar >= 0 ? r->scalars[v->scalar] * v->scalar_stride : 0);
    for (int l = 0; l < r->node.spec.n_labels; l++) i += at[l] * v->stride[l];
    return i;
}

/* `expected` is as long as the buffer; NaN entries of `written` elements must be NaN. A tolerance allows for one
 * more rounding to the view's type; 0 is exact. */
static inline void rig_compare(const rig *r, const view *v, const double *expected, double tolerance)
{
    if (tolerance > 0 && v->dtype == EIN_BF16) tolerance += 0x1p-8;
    if (tolerance > 0 && v->dtype == EIN_F16) tolerance += 0x1p-10;
    for (i64 i = 0; i < r->sizes[v->place.index]; i++) {
        double got = rig_get(r, v, i), want = rig_round(v->dtype, expected[i]), off = fabs(got - want);
        bool near = got == want || (ein__dtype_is_float(v->dtype) && off <= tolerance * (1 + fabs(want)));
        if (isnan(want) ? isnan(got) : near) continue;
        fail_msg("element %lld: %.9g, expected %.9g\n%s", (long long)i, got, want,
                 r->launch.kind == STEP_KERNEL ? r->launch.kernel.body : "(product)");
    }
}

/* A buffer like a view's, full of canaries. */
static inline double *rig_expected(const rig *r, const view *v)
{
    i64 n = r->sizes[v->place.index];
    double *x = ein__calloc((size_t)n, sizeof *x);
    assert_non_null(x);
    for (i64 i = 0; i < n; i++) x[i] = (double)CANARY;
    return x;
}

#endif
