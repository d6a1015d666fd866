/* SPDX-License-Identifier: Apache-2.0 */
/* The tensor-relation graph: values, leaves, nodes. The same type holds the graph as the user built it and
 * its canonical form (canonical.h): dead nodes gone, order free of names and build order, repeated layers
 * rolled. */
#ifndef CORE_GRAPH_GRAPH_H
#define CORE_GRAPH_GRAPH_H

#include "core/graph/spec.h"

typedef int value; /* index into graph.values; -1: none */

typedef enum value_kind { VALUE_LEAF, VALUE_RESULT, VALUE_CARRY } value_kind;

typedef struct value_info {
    value_kind kind;
    int owner;  /* leaf, node or loop */
    int result; /* VALUE_RESULT: which; VALUE_CARRY: which carry of the loop */
    ein_dtype dtype;
    int rank;
    i64 shape[EIN_MAX_RANK];
} value_info;

typedef enum leaf_kind { LEAF_INPUT, LEAF_PARAMETER, LEAF_STATE, LEAF_CONSTANT } leaf_kind;

typedef struct leaf {
    leaf_kind kind;
    value value;
    const char *name;    /* "" for constants */
    const void *data;    /* LEAF_CONSTANT: on the graph's arena */
    /* Canonical form only: a leaf used inside a loop stands for one tensor per iteration. */
    int n_members;
    const int *members;  /* leaves of the user's graph; n_members = 1 or the loop's count */
} leaf;

typedef enum op_kind {
    OP_MAP,       /* merge over the aggregated labels of body(operands): elementwise, einsum, sum, max, mean, rope */
    OP_ROW,       /* stages of statistics over the two-step label, then an expression: softmax, rms_norm */
    OP_ATTENTION, /* online softmax over keys */
    OP_GATHER,    /* rows of a table by index: embedding */
    OP_MOVE,      /* same elements under another index map: reshape, permute, slice, concat */
    OP_APPEND,    /* write rows into a state at a run-time position, in place */
    OP_SELECT,    /* the k largest or smallest of a row, with their indices: topk */
    OP_CUSTOM     /* a user's */
} op_kind;

enum { MAX_STAGES = 3, MAX_STATISTICS = 6, MAX_INDICES = 4 };

/* A stage's statistics are the states of its merge. */
typedef struct row_stage {
    const merge *merge;     /* no finalizers are applied */
    expr body[MAX_STATES];  /* what a point gives to each state; arguments as OP_ROW's body, earlier stages only */
} row_stage;

typedef struct attention_attrs {
    bool causal;
    double scale;
    int position, length; /* run-time scalars, or -1 */
    i64 window;           /* key t is seen only if t > s + position - window; 0: no limit */
    double softcap;       /* scores become softcap * tanh(score / softcap); 0: none */
    /* A fourth operand, if there is one, is the mask: bool (1: seen) or float (added to scores). */
} attention_attrs;

/* OP_SELECT: operands x [.., n, ..] and, if there are two, the index that each element stands for, i64; results
 * values and indices (i64), with label k in n's place. n and k are whole. */
typedef struct select_attrs {
    bool smallest;
    int n, k; /* labels */
} select_attrs;

typedef struct custom_attrs {
    const char *name, *version, *kernel, *grid;
    void (*reference)(const ein_array *operands, ein_array *results, void *user);
    void *user;
} custom_attrs;

/* Fixed label numbers of some kinds, so that families and evaluator need not guess.
 * OP_ATTENTION: b, kv head, group, query, key, head size, value size. Operands q [b,h,g,s,d], k [b,h,t,d],
 * v [b,h,t,e] (as terms); states m [b,h,g,s], l [b,h,g,s], o [b,h,g,s,e].
 * OP_GATHER: operands ids [rows], table [v,d]; result [rows,d]; v is aggregated (sum): the element of the table at
 * v = id, 0 if no v is. Labels from GATHER_LABELS on are in table and result; ids have them too (batch labels: gather)
 * or not (index_select). Terms of all three stand in any order and are plain labels, and d may have extent 1.
 * OP_APPEND: operands state [.., t, ..], rows [.., s, ..]; result as the state. */
enum { ATT_B, ATT_H, ATT_G, ATT_S, ATT_T, ATT_D, ATT_E, ATT_LABELS };
enum { GATHER_ROWS, GATHER_V, GATHER_D, GATHER_LABELS };

typedef struct node {
    op_kind kind;
    const char *name; /* the public call's name without "ein_": "linear" */
    spec spec;
    value *operands;  /* spec.n_operands */
    value *results;   /* spec.n_results */
    /* OP_MAP and OP_ROW may read the global index of a label, an i64: argument n_operands + i is that of
     * indices[i]. */
    int n_indices;
    int indices[MAX_INDICES];
    int id_operand, id_label; /* the operand, if an input, must hold values of the label: an id outside fails the run.
                                 -1: none */
    /* OP_MAP: what a point gives to each state of the merge (no merge: the result). OP_ROW: body[0] is the result;
     * arguments: operands, indices, then all statistics, stage after stage. */
    expr body[MAX_STATES];
    bool product;     /* OP_MAP: body is x0 * x1 and the merge a plain sum: a matrix product may do it */
    int n_stages;     /* OP_ROW */
    row_stage stages[MAX_STAGES];
    attention_attrs attention;
    select_attrs select;
    int scalar;         /* OP_APPEND: run-time position, or -1 */
    int append_t, append_s; /* OP_APPEND: the labels of the state's and the rows' axis */
    custom_attrs custom;
} node;

/* In the rolled form, nodes [lo, hi) run `count` times. A carry's value is `init` before the first iteration
 * and `next` of the iteration before afterwards. */
typedef struct carry { value value, init, next; } carry;
typedef struct loop {
    int lo, hi, count;
    int n_carries;
    carry *carries;
} loop;

typedef struct output { const char *name; value value; } output;

/* The largest value a run-time scalar may take: `rows` at scalar must stay inside `extent`. */
typedef struct scalar_bound { int scalar; i64 rows, extent; const char *what; } scalar_bound;

struct call; /* calls.h */

typedef struct graph {
    arena arena;
    error error; /* the first one */
    struct { int n, room; struct call *items; } calls; /* the public calls that built it, in order */
    const char *weights; /* of a graph file; or NULL */
    struct { int n, room; value_info *items; } values;
    struct { int n, room; leaf *items; } leaves;
    struct { int n, room; node *items; } nodes;
    struct { int n, room; output *items; } outputs;
    struct { int n, room; const char **items; } scalars;
    struct { int n, room; scalar_bound *items; } bounds;
    struct { int n, room; loop *items; } loops; /* canonical form only; ordered, disjoint */
} graph;

struct ein_graph { graph g; };

/* OP_ROW cut along its two-step label: the spec of the statistics of `stage`, whose results are the states of its
 * merge (each the result without the two-step labels). On `a`. */
ein_status ein__statistic_spec(arena *a, const node *n, int stage, spec *out);
/* Number of the stage's first statistic among all; stage = n_stages: how many there are. */
int ein__node_statistics(const node *n, int stage);
/* A pure view: the result is the operand under another shape. It has no kernel and no choice. */
bool ein__node_is_view(const node *n);
/* A user's kernel writes states: where these are not the results, the merge finishes them, uncut or not. */
bool ein__node_leaves_states(const node *n);
/* The value that `v` is a view of, through any number of views. */
value ein__value_source(const graph *g, value v);
/* Elements of a value. */
i64 ein__value_numel(const graph *g, value v);
/* Verifier: every operand is defined before its use, maps fit their values, loops nest rightly, a state is
 * updated at most once and not read beside its update. Fails with EIN_INTERNAL or, for the last, EIN_INVALID. */
ein_status ein__graph_check(const graph *g, error *e);
/* Stable text, one line a node. */
void ein__graph_print(const graph *g, text *out);
/* Key material of one node, without its operands: nodes that may be the same kernel have the same. */
void ein__node_key(const node *n, text *key);
/* Key material of a canonical graph: no names but custom ops'. */
void ein__graph_key(const graph *g, text *key);

#endif
