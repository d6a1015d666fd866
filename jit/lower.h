/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering: canonical graph + plan -> program. Where each value lies, which exchanges fetch what an op needs,
 * which kernels run. Private to jit/lower*.c but for ein__lower. */
#ifndef JIT_LOWER_H
#define JIT_LOWER_H

#include "core/plan/plan.h"
#include "core/plan/program.h"
#include "exchange/exchange.h"
#include "jit/family/family.h"

/* `a` gets the program; it must outlive it, as must `g`. */
ein_status ein__lower(arena *a, const graph *g, const plan *p, const machine *m, program *out, error *e);

/* ---- inside ------------------------------------------------------------------------------------------- */

/* A value as it lies on the devices: finished, or pending with the states of its merge. */
typedef struct instance {
    bool pending;
    int n_states;                 /* 1 if finished */
    relation states[MAX_STATES];  /* in the value's own index space; finished: states[0] */
    uint32_t used;                /* states that the value's finalizer needs */
    const merge *merge;           /* pending only */
    int result;
    space space;                  /* SPACE_BUFFER, SPACE_LEAF, SPACE_INPUT */
    int index;                    /* of the leaf */
    int *buffers[MAX_STATES];     /* SPACE_BUFFER: [(block * n_partials + partial) * n_devices + device] */
    bool complete;                /* covers the whole value (a need may not) */
    struct instance *next;
} instance;

typedef struct step_list { int n, room; step *items; } step_list;

typedef struct lowering {
    arena *a;       /* the program's */
    arena *scratch;
    error *e;
    const graph *g;
    const plan *plan;
    const routes *routes;
    int n_devices;
    instance **values; /* per value (views resolved): the produced instance, then materialized ones */
    instance **carries; /* per value that is a carry's next: where it has to end up, or NULL */
    step_list devices[MAX_DEVICES];
    int order, region;
    struct { int n, room; buffer *items; } buffers;
    struct { int n, room; kernel_text *items; } kernels;
    struct { int n, room; i64 *items; } table;
    i64 remote_bytes;
    int max_args, max_sources;
} lowering;

/* What a value or a statistic is, for exchanges. */
typedef struct item {
    instance **list; /* the produced instance first, then materialized ones */
    ein_dtype dtype;
    int node;        /* for printing */
    const char *what;
} item;

ein_status ein__lower_node(lowering *w, int node_index);
item ein__lower_item(lowering *w, value v, int node_index, const char *what);

/* ---- instances (lower_instance.c) ---- */
ein_status ein__lower_buffer(lowering *w, int device, i64 bytes, int *out);
/* A finished instance of relation `r` in fresh buffers; `alike` (may be NULL): pair its buffers with those. */
ein_status ein__instance_make(lowering *w, const relation *r, ein_dtype dtype, const instance *alike, instance **out);
/* Buffers of one state of `r`'s blocks and partials. */
ein_status ein__state_buffers(lowering *w, const relation *r, ein_dtype dtype, const instance *alike, int **out);
place ein__instance_place(const lowering *w, const instance *x, int state, int block, int partial, int device);
void ein__instance_append(instance **list, instance *x);
/* A finished block on `device` that holds the box of the map's tensor, as a view. */
bool ein__instance_view(const lowering *w, const instance *list, int device, const index_map *m,
                        const label_box *box, ein_dtype dtype, view *out);

/* ---- exchange steps (lower_exchange.c) ---- */
/* From the item's best instance to `to`, in fresh buffers, appended to its list. */
ein_status ein__lower_exchange(lowering *w, const item *x, const relation *to);
/* From the item's best instance into `dst` (buffers), or, dst NULL, into output `output` of the process. */
ein_status ein__lower_exchange_into(lowering *w, const item *x, const instance *dst, int output);

/* ---- steps (lower.c) ---- */
ein_status ein__lower_step(lowering *w, int device, const item *x, const launch *l, i64 remote_bytes);

/* Offsets for all buffers (buffers.c), waits (waits.c). Memories: of the devices, then the process's for each. */
enum { EIN__MEMORIES = 2 * MAX_DEVICES };
ein_status ein__assign_buffers(arena *scratch, buffer *buffers, int n, i64 bytes_of_memory[EIN__MEMORIES]);
ein_status ein__assign_waits(arena *a, arena *scratch, program *p, error *e);

#endif
