/* SPDX-License-Identifier: Apache-2.0 */
/* Exchange: from a placed relation, pending merge included, to the boxes that each device must end up with.
 * Synthesized as transfers, proved by a symbolic checker, emitted as kernel text. */
#ifndef EXCHANGE_EXCHANGE_H
#define EXCHANGE_EXCHANGE_H

#include "core/graph/spec.h"
#include "core/kernel/dialect.h"
#include "core/plan/relation.h"

enum { MAX_BOX_RANK = 8 };

typedef struct exchange_problem {
    int n_states;                        /* 1 where nothing is pending */
    const relation *states[MAX_STATES];  /* all in the index space of the result; same cuts and partials but
                                            for broadcast axes (exchange uses the states named by `used`) */
    uint32_t used;                       /* bit set of the states that the result needs: ein__merge_used */
    const merge *merge;                  /* NULL: finished (n_partials = 1) */
    int result;                          /* which finalizer */
    ein_dtype dtype;                     /* of the result; where nothing is pending, of the state too */
    int n_devices;
    const relation *to; /* finished; blocks may overlap (a need); HOST is a destination too */
} exchange_problem;

/* What state s is stored in. */
static inline ein_dtype ein__exchange_stored(const exchange_problem *p, int s)
{
    return p->merge != NULL ? p->merge->wire[s] : p->dtype;
}

/* One box, pulled by `device` from one block of every partial: for every point of the box,
 * dst = finalize(combine over partials of the states). Strides and offsets in elements of the blocks. */
typedef struct transfer {
    int device;      /* that executes it; the destination, but for HOST destinations: a holder */
    int dst_device;  /* device or HOST */
    int dst_block;
    int src_block[MAX_STATES]; /* of each used state: a state that lacks a cut label has fewer blocks */
    int n_sources;   /* partials, in the order in which they are combined */
    const int *src_device; /* per source: the copy that is read (HOST for inputs) */
    int rank;
    i64 size[MAX_BOX_RANK];
    i64 dst_offset, dst_stride[MAX_BOX_RANK];
    i64 src_offset[MAX_STATES], src_stride[MAX_STATES][MAX_BOX_RANK];
} transfer;

typedef struct exchange {
    int n_transfers;
    transfer *transfers; /* sorted by (device, dst_device, dst_block) */
    i64 remote_bytes[MAX_DEVICES]; /* that each device touches in other devices' memory, as its kernels do */
    i64 total_bytes;
    int incompatible; /* 1: the two factorizations have no common refinement; no transfers were made */

    uint32_t row_states; /* bit set: innermost stride 0 in every transfer, so read once per row */
    bool unit_stride;    /* every other innermost stride is 1 */
    i64 pair_bytes[MAX_DEVICES][MAX_DEVICES]; /* remote_bytes by [holder][reader] */
    i64 local_bytes[MAX_DEVICES]; /* that each device's kernels touch in its own memory */
    i64 host_bytes[MAX_DEVICES];  /* and in the process's */
} exchange;

/* Direct family: every destination pulls every box from its holders (its own copy first, then spread over
 * the holders), in one step. A block of `to` that its device already holds, whole and finished, is pulled
 * from itself: the caller leaves such exchanges out. */
ein_status ein__exchange_direct(arena *a, const exchange_problem *p, exchange *out, error *e);

/* Symbolic checker: every element of every needed block written exactly once, every partial counted exactly
 * once, in rising order, from a device that holds it, with addresses that mean the same element; the byte
 * counts are those of the transfers. */
ein_status ein__exchange_check(const exchange_problem *p, const exchange *x, error *e);

/* Text of the box-move kernel for this kind of exchange (element types, states, merge, finalizer, which states are
 * broadcast along the innermost dimension): boxes and pointers are arguments, so one text serves many
 * exchanges. Arguments, in order: OUT dst; VAL i64 n_boxes; IN i64 boxes (the table below); IN i64 sources
 * (addresses, i64 each: [source * n_states + state]).
 * A launch moves the boxes of one (device, dst_device, dst_block, set of sources). Grid: (rows of all boxes),
 * where a row is at most EIN__ROW elements along the innermost dimension of a box.
 * Box words, EIN__BOX_WORDS each: first row, rank, n_sources, first source, size[8], dst_offset,
 * dst_stride[8], then per state src_offset, src_stride[8]. */
enum { EIN__BOX_WORDS = 4 + 8 + 1 + 8 + MAX_STATES * 9, EIN__ROW = 1024 };
ein_status ein__exchange_kernel(arena *a, const exchange_problem *p, const exchange *x, kernel_text *out);
/* The box table of transfers [first, first + n): writes n * EIN__BOX_WORDS words, returns the rows (the
 * grid). `first_source[i]`: index of transfer i's first source address / n_states. */
i64 ein__exchange_boxes(const exchange *x, int first, int n, const int *first_source, i64 *words);
/* Rows of one transfer. */
i64 ein__transfer_rows(const transfer *t);

/* Cost of an exchange on a machine: the time of its most loaded link or memory, every pair's bytes on its
 * widest path (fewest links among equals), plus one step if anything is remote, or one launch if all is
 * local; 0 for no transfers, infinite where a pair has no path. A planner that asks often keeps the routes. */
typedef struct routes routes;
ein_status ein__routes_make(arena *a, const machine *m, const routes **out);
double ein__routes_seconds(const routes *r, const exchange *x);
/* The same for one question; negative if memory ran out. */
double ein__exchange_seconds(const machine *m, const exchange *x);

#endif
