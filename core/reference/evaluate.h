/* SPDX-License-Identifier: Apache-2.0 */
/* What both precisions of the evaluator share: tensors as they are stored, index maps as affine functions,
 * walks over label points, threads, and which nodes and values are needed until when. */
#ifndef CORE_REFERENCE_EVALUATE_H
#define CORE_REFERENCE_EVALUATE_H

#include <string.h>

#include "core/reference/reference.h"

/* Leaves stay in their own dtype and are converted where they are read; so do integers and bools, and what was only
 * moved. Computed floats are in the precision of the evaluation. */
typedef struct tensor {
    const void *data;
    void *owned; /* data, if the evaluator made it */
    ein_dtype storage;
} tensor;

/* Not rounded to the precision of the evaluation. */
double ein__tensor_load(const tensor *t, i64 i);
/* Exact; of integers and bools only. */
i64 ein__tensor_whole(const tensor *t, i64 i);

static inline float bf16_value(uint16_t u)
{
    uint32_t bits = (uint32_t)u << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The bits moved to f32's places are too small by the difference of the exponents' biases, 127 - 15. */
static inline float f16_value(uint16_t u)
{
    uint32_t bits = (uint32_t)(u & 0x7fff) << 13, sign = (uint32_t)(u & 0x8000) << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    x *= 0x1p112f;
    memcpy(&bits, &x, sizeof x);
    if ((u & 0x7c00) == 0x7c00) bits = 0x7f800000 | (uint32_t)(u & 0x3ff) << 13; /* infinity, NaN */
    bits |= sign;
    memcpy(&x, &bits, sizeof x);
    return x;
}

typedef struct evaluation {
    const graph *g;
    const reference_bindings *b;
    error *e;
    ein_dtype real; /* its precision, EIN_F64 or EIN_F32 */
    int threads;
    int n_needed;      /* nodes that the outputs need */
    bool *needed;      /* per node */
    int *last_use;     /* per value: the last needed node that reads it; nodes.n: an output; -1: none */
    tensor *values;    /* per value */
} evaluation;

/* Free with ein__evaluation_free even on failure. */
ein_status ein__evaluation_make(evaluation *v, const graph *g, const reference_bindings *b, ein_dtype real, error *e);
void ein__evaluation_free(evaluation *v);
/* Free the values that node `at` read or wrote last. */
void ein__evaluation_release(evaluation *v, int at);
/* Give a result its storage, zeros: what its dtype is computed in, or (`as`) a given one. */
ein_status ein__evaluation_result(evaluation *v, const node *n, int result);
ein_status ein__evaluation_result_as(evaluation *v, const node *n, int result, ein_dtype storage);
/* Value of a run-time scalar; 0 for scalar -1. */
i64 ein__evaluation_scalar(const evaluation *v, int scalar);

/* A linear index as base + sum of stride[label] * point[label]. */
typedef struct affine {
    i64 base;
    i64 stride[MAX_LABELS];
} affine;

/* The index maps of a node over the box of label points at which every operand has an element. Points are
 * counted from the box's low corner. */
typedef struct frame {
    int n_labels;
    i64 extent[MAX_LABELS];
    bool partial; /* the box is not the whole label space */
    int n_maps;   /* `count` operands from `first`, the results, then the node's indices: offset = label */
    affine *maps;
} frame;

ein_status ein__frame_make(frame *f, const evaluation *v, const node *n, int first, int count);
void ein__frame_free(frame *f);
/* Points of a set of labels. */
i64 ein__frame_points(const frame *f, uint32_t labels);
/* out[i] = offset of map `m` at point i of `labels`, without the base. */
void ein__frame_offsets(const frame *f, int m, uint32_t labels, i64 *out);

/* An expression to be evaluated for a result or state. */
typedef struct body {
    const expr *x;
    const ein_dtype *types; /* of the arguments: the evaluation's precision, or EIN_I64 */
    ein_dtype want;         /* the value's; one of these */
    bool floats;            /* no integer is in it */
    int argument;           /* it is this argument, of type `want`; or -1 */
} body;

/* A value for `to`. What an integer becomes that is to be an integer is what the expression makes of it. */
body ein__body_make(const evaluation *v, const expr *x, const ein_dtype *types, ein_dtype to);
/* EIN_I64 for integers and bools, else the evaluation's precision. */
ein_dtype ein__evaluation_type(const evaluation *v, ein_dtype d);

/* An odometer over the points of some labels, the first label slowest, that carries one offset per map. */
typedef struct walk {
    const frame *f;
    int n;
    int labels[MAX_LABELS];
    i64 at[MAX_LABELS];
    i64 *offset; /* the caller's, f->n_maps of them */
} walk;

void ein__walk_make(walk *w, const frame *f, uint32_t labels, i64 *offset);
/* To point `index`; offsets count from `from`, or from the bases where it is NULL. */
void ein__walk_seek(walk *w, const i64 *from, i64 index);
void ein__walk_next(walk *w);

/* Run tasks 0 .. n-1, each once, in any order, on at most `threads` threads. */
enum { MAX_THREADS = 64 };
typedef void (*reference_task)(void *job, int thread, i64 index);
void ein__reference_parallel(int threads, i64 n, reference_task task, void *job);

#endif
