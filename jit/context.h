/* SPDX-License-Identifier: Apache-2.0 */
/* The library's objects, as the roof sees them. */
#ifndef JIT_CONTEXT_H
#define JIT_CONTEXT_H

#include "core/plan/plan.h"
#include "core/weights/checkpoint.h"
#include "ein.h"
#include "jit/cache/cache.h"
#include "jit/target/target.h"

struct ein_context {
    arena arena;
    error error; /* the last failure */
    machine machine;
    target *target; /* NULL: a machine that can only be planned */
    cache cache;
    bool caching;
    ein_progress_fn progress;
    void *progress_user;
};

/* A tensor kept on the devices: its layout and the address of every (block, device). */
typedef struct placed_tensor {
    const char *name;
    ein_dtype dtype;        /* of the data */
    ein_dtype placed_dtype; /* on the devices: that of the first program that used it */
    int rank;
    i64 shape[EIN_MAX_RANK];
    const void *data; /* host memory, until it is placed; states: NULL */
    bool owned;       /* data is ours */
    bool mapped;      /* data is in a file's map */
    bool placed;
    relation layout;
    void **address;   /* [block * n_devices + device] */
} placed_tensor;

typedef struct tensor_list { int n, room; placed_tensor **items; } tensor_list;

/* Mapped files that a store's tensors are in. */
typedef struct weight_files {
    arena arena;
    checkpoint checkpoint;
} weight_files;

struct ein_weights {
    ein_context *context;
    arena arena;
    tensor_list tensors;
    struct { int n, room; weight_files *items; } files;
};

struct ein_state {
    ein_context *context;
    arena arena;
    tensor_list tensors;
    atomic_int busy;
    bool undefined; /* after a run that did not end well; of whoever has it busy */
};

struct ein_program {
    ein_context *context;
    arena arena;
    graph graph;     /* canonical */
    const char **leaf_names; /* of the user's leaves, by the canonical leaves' members */
    struct { int n, room; const char **items; } unused; /* the user's inputs and scalars that no output needs */
    plan plan;
    program program;
    code *code;
    leaf_pieces *pieces;     /* per canonical leaf; states' and inputs' are empty */
    tensor_list constants;   /* owned */
    ein_program_stats stats;
    bool weights_bound, counting;
    text plan_text, explain_text, source_text, print_text;
};

struct ein_run {
    ein_program *p;
    arena arena;
    error error;
    execution x;
    leaf_pieces *leaves;   /* the program's, with the bound state's addresses */
    const void **inputs;   /* per canonical leaf */
    void **outputs;
    i64 *scalars;
    bool *scalar_bound;
    ein_state *state;
    bool started;
};

/* placed.c: tensors on devices. */
placed_tensor *ein__tensor_find(const tensor_list *l, const char *name);
/* Memory for all blocks of the layout; uploads t->data if there is any, converted to `dtype`. */
ein_status ein__tensor_place(ein_context *c, arena *a, placed_tensor *t, ein_dtype dtype, const relation *layout, error *e);
void ein__tensor_release(ein_context *c, placed_tensor *t);
/* Name of member `m` of canonical leaf `l`. */
const char *ein__leaf_name(const ein_program *p, const leaf *l, int m);

/* weights_open.c; left out: a tensor of a store's files that is not in the store, since it cannot be read; or NULL. */
void ein__weight_files_close(weight_files *f);
const stored_tensor *ein__weights_left_out(const ein_weights *w, const char *name);

/* bind.c: the weights and constants of a program. check: every parameter is there, as the graph has it. */
ein_status ein__weights_check(const ein_program *p, const ein_weights *w, error *e);
ein_status ein__program_bind(ein_program *p, ein_weights *weights, error *e);

/* kernels.c: `objects` gets n_objects texts. */
enum { MAX_OBJECTS = 48 };
ein_status ein__kernels_compile(ein_program *p, text *objects, int *n_objects, error *e);

/* run.c: the value behind the name of an input or output; fails as binding it would. */
ein_status ein__run_input_value(ein_run *r, const char *name, value *out);
ein_status ein__run_output_value(ein_run *r, const char *name, value *out);

/* explain.c; choice: "cut n 4096 in 8 parts of 512 on 8 devices" */
void ein__explain_choice(const node *n, const choice *c, text *out);
void ein__explain(const ein_program *p, text *out);

void ein__progress(ein_context *c, const char *stage, double fraction);
double ein__now_ms(void);

#endif
