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

/* What a transfer does with its sources. */
typedef enum transfer_kind {
    TRANSFER_FINISH,  /* combines all partials and finalizes: dst is a block of `to` */
    TRANSFER_COMBINE, /* combines some partials of the only used state: dst is scratch, laid out as their block */
    TRANSFER_COPY     /* copies what is finished, between blocks of `to` or scratch laid out so */
} transfer_kind;

/* Memory that is read. */
typedef struct source {
    int device;  /* whose; HOST: the process's */
    int scratch; /* -1: not scratch, but block src_block of partial `partial`, or, of a copy, dst_block of `to` */
    int partial; /* the lowest that is in it; -1: it is finished */
    int step;    /* that wrote it, -1: there from the start */
} source;

/* One box, pulled by `device`: for every point of it, dst = what `kind` makes of the sources. Strides and
 * offsets in elements of the blocks, for scratch too: it is a part of a block's layout. A copy's sources are
 * addressed as its destination. */
typedef struct transfer {
    int step;        /* reads only what earlier steps wrote */
    transfer_kind kind;
    int device;      /* that executes it; the destination, but for HOST destinations: a holder */
    int dst_device;  /* device or HOST */
    int dst_block;   /* of `to` */
    int dst_scratch; /* -1: the block itself */
    int src_block[MAX_STATES]; /* of each used state: a state that lacks a cut label has fewer blocks */
    int n_sources;
    const source *sources; /* in the order in which they are combined: rising `partial` */
    int rank;
    i64 size[MAX_BOX_RANK];
    i64 dst_offset, dst_stride[MAX_BOX_RANK];
    i64 src_offset[MAX_STATES], src_stride[MAX_STATES][MAX_BOX_RANK];
} transfer;

/* Elements [lo, lo + n) of a block's layout, kept on a device, or on HOST, between steps. */
typedef struct scratch {
    int device;
    int owner;     /* on HOST: the device that writes it; else `device` */
    int dst_block; /* of `to`: what is needed there */
    int src_block; /* laid out as this block of the used state; -1: finished, laid out as dst_block */
    int partial;   /* on HOST: this partial as it was, -1: combined or finished */
    bool outgoing; /* only for what is needed on HOST itself */
    i64 lo, n;
} scratch;

typedef struct exchange {
    const char *family;
    int state;           /* the first used one: what TRANSFER_COMBINE stores */
    int n_transfers;
    transfer *transfers; /* sorted by (step, device, kind, dst_device, dst_block, dst_scratch) */
    int n_scratch;
    scratch *scratch;
    int n_steps;         /* 1 + the last transfer's; at most EIN__STEPS */
    i64 remote_bytes[MAX_DEVICES]; /* that each device touches in other devices' memory, as its kernels do */
    i64 total_bytes;
    int incompatible; /* 1: the two factorizations have no common refinement; no transfers were made */

    uint32_t row_states; /* bit set: innermost stride 0 in every transfer, so read once per row */
    bool unit_stride;    /* every other innermost stride is 1, where partials are read */
    bool unit_copy;      /* and of copies */
    i64 pair_bytes[MAX_DEVICES][MAX_DEVICES]; /* remote_bytes by [holder][reader] */
    i64 local_bytes[MAX_DEVICES]; /* that each device's kernels touch in its own memory */
    i64 host_bytes[MAX_DEVICES];  /* and in the process's */

    struct traffic *traffic; /* by step */
    double bound;     /* seconds: no exchange of this demand is faster, whatever its steps cost; 0: not asked */
    double bandwidth; /* seconds of the fullest link or memory, all steps together */
    double seconds;   /* predicted */
} exchange;

/* Steps are bits of a mask where programs order them. */
enum { EIN__STEPS = 64 };

typedef struct routes routes;

typedef struct routes routes;

/* The exchange that takes least time on the machine of `r`, of all families that can be executed. A block of `to`
 * that its device already holds, whole and finished, is pulled from itself: the caller leaves such exchanges out. */
ein_status ein__exchange_make(arena *a, const exchange_problem *p, const routes *r, exchange *out, error *e);
/* Predicted seconds and remote bytes of the exchange that would be made, without making it: exact, but where that would
 * be trees. Of these it says what they have to come to, which takes a search no time: NEAR the bound, and bytes without
 * devices between. Infinite seconds: incompatible. `a` is scratch. */
ein_status ein__exchange_estimate(arena *a, const exchange_problem *p, const routes *r, double *seconds, i64 *bytes);
/* An exchange of one family, by its name; EIN_UNSUPPORTED where it is not applicable. */
ein_status ein__exchange_family(arena *a, const exchange_problem *p, const routes *r, const char *family,
                                exchange *out, error *e);

/* Symbolic checker: every element of every needed block written exactly once, every partial counted exactly
 * once, in rising order, from a device that holds it or from what an earlier step left, with addresses that mean
 * the same element; scratch written once and inside; the byte counts are those of the transfers. */
ein_status ein__exchange_check(const exchange_problem *p, const exchange *x, error *e);

/* Text of the box-move kernel for this kind of transfer (element types, states, merge, finalizer, which states are
 * broadcast along the innermost dimension): boxes and pointers are arguments, so one text serves many
 * exchanges. Arguments, in order: OUT dst; VAL i64 n_boxes; IN i64 boxes (the table below); IN i64 sources
 * (addresses, i64 each: [source * n_states + state]; of copies [source]; of scratch, as if its block were whole).
 * A launch moves boxes of one (step, device, kind, dst_device, dst_block, dst_scratch). Grid: (rows of all boxes),
 * where a row is at most EIN__ROW elements along the innermost dimension of a box.
 * Box words, EIN__BOX_WORDS each: first row, rank, n_sources, first source, size[8], dst_offset,
 * dst_stride[8], then per state src_offset, src_stride[8]. */
enum { EIN__BOX_WORDS = 4 + 8 + 1 + 8 + MAX_STATES * 9, EIN__ROW = 1024 };
ein_status ein__exchange_kernel(arena *a, const exchange_problem *p, const exchange *x, transfer_kind kind,
                                kernel_text *out);
/* The box table of transfers [first, first + n): writes n * EIN__BOX_WORDS words, returns the rows (the
 * grid). `first_source[i]`: index of transfer i's first source address / n_states. */
i64 ein__exchange_boxes(const exchange *x, int first, int n, const int *first_source, i64 *words);
/* Rows of one transfer. */
i64 ein__transfer_rows(const transfer *t);

/* The paths between a machine's devices, and what follows from them; the machine must outlive the routes. */
ein_status ein__routes_make(arena *a, const machine *m, const routes **out);
/* Time of an exchange that is made: step by step, the most loaded link or memory, every pair's bytes on its widest
 * path (fewest links among equals), and a step's latency if anything is remote, else a launch; 0 for no transfers,
 * infinite where a pair has no path. */
double ein__routes_seconds(const routes *r, const exchange *x);

#endif
