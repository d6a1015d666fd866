/* SPDX-License-Identifier: Apache-2.0 */
/* Placed relations: how a tensor lies on the devices.
 *
 * A relation factors the tensor's row-major index space into axes (extents multiply to the number of elements).
 * Each axis is cut into parts [lo, hi). A block is one part of each axis; it is stored dense, row-major over
 * its axes' lengths. Every (block, partial) has a set of devices that hold a copy. n_partials > 1 means that
 * the value is still pending: the merge of its partials is the value.
 *
 * Because axes are not dimensions, [b, s, h*d] cut over heads is the same relation as [b*s, h, d] cut over
 * heads. The canonical form has the fewest axes: an uncut axis joins the cut axis before it. */
#ifndef CORE_PLAN_RELATION_H
#define CORE_PLAN_RELATION_H

#include "core/graph/spec.h"
#include "core/plan/machine.h"

enum { MAX_AXES = MAX_TERMS, MAX_GROUP = 4 };

typedef struct axis {
    i64 extent;
    int n_parts;
    const i64 *lo, *hi; /* n_parts each; parts may be empty; in a need they may overlap or leave gaps */
    bool broadcast;     /* not stored: the same for every index (a state that lacks the label) */
} axis;

typedef struct relation {
    int n_axes;
    axis axes[MAX_AXES];
    int n_blocks, n_partials;
    const devset *devices; /* [block * n_partials + partial]; 0 in a need: nobody needs it */
} relation;

/* A cut of one label, or of the product of a group of labels that are neighbours in every map that has them. */
typedef struct cut {
    int n_labels;
    int labels[MAX_GROUP]; /* major first */
    int n_parts;
    const i64 *at;         /* n_parts + 1 rising points, 0 .. product of the extents */
} cut;

/* How one op is decomposed: a tuple is one part of each cut (the first cut is the major digit of its number);
 * its kernel runs on every device of its set. */
typedef struct choice {
    int n_cuts;
    const cut *cuts;
    int n_tuples;
    const devset *devices;
} choice;

/* The relations that a choice implies. Results are canonical.
 * need: what an operand's blocks must be, block of a tuple by ein__tuple_block.
 * state: what the op leaves behind of state k, seen in the index space of result r (labels that the state
 * lacks become broadcast axes); n_partials is the product of the aggregated cuts' parts. */
ein_status ein__relation_need(arena *a, const spec *s, int operand, const choice *c, relation *out);
ein_status ein__relation_state(arena *a, const spec *s, int state, int result, const choice *c, relation *out);
/* The finished relation of result r that the same cuts give when the merge is done in place: blocks of the
 * parallel cuts, each on the union of its partials' devices. */
ein_status ein__relation_finished(arena *a, const spec *s, int result, const choice *c, relation *out);

/* Number of the block that a tuple reads (operand map) or writes (state or result map), and, for a state,
 * the partial. */
int ein__tuple_block(const index_map *m, const choice *c, int tuple);
int ein__tuple_partial(const spec *s, const choice *c, int tuple);
/* Boxes of label space that make up a tuple: one, unless a group of labels is cut inside. Writes at most
 * `room` boxes, returns how many there are. */
typedef struct label_box { i64 lo[MAX_LABELS], len[MAX_LABELS]; } label_box;
enum { MAX_BOXES = 64 }; /* a tuple of more is refused */
int ein__tuple_boxes(const spec *s, const choice *c, int tuple, int room, label_box *out);

/* Does the choice cut one of these labels (a bit set)? */
bool ein__choice_cuts(const choice *c, uint32_t labels);

/* One uncut block on a set of devices. */
ein_status ein__relation_whole(arena *a, i64 numel, devset devices, relation *out);
ein_status ein__relation_copy(arena *a, const relation *r, relation *out);
bool ein__relation_equal(const relation *r, const relation *t);
/* Merge axes into the canonical form, in place. */
ein_status ein__relation_canonical(arena *a, relation *r);

/* Part of axis i that block `b` is. */
int ein__block_part(const relation *r, int block, int i);
/* Stored elements of a block. */
i64 ein__block_numel(const relation *r, int block);
i64 ein__relation_numel(const relation *r); /* product of the extents */

/* The box touches no element of the map's tensor. */
bool ein__box_reads_nothing(const index_map *m, const label_box *box);
/* Where a label box of a map's tensor lies inside a stored block: element offset of its first point, and the
 * stride of each label. False if the block does not hold the whole box, or if the box is not affine in it. */
bool ein__block_view(const relation *r, int block, const index_map *m, const label_box *box, i64 *offset,
                     i64 stride[MAX_LABELS]);

/* Verifiers. choice: cuts legal (granules, whole labels, groups neighbours, aggregated groups in parts of one box,
 * points rising, devices present).
 * relation: parts of each axis disjoint and covering, every (block, partial) somewhere. */
ein_status ein__choice_check(const spec *s, const choice *c, int n_devices, error *e);
ein_status ein__relation_check(const relation *r, i64 numel, int n_devices, error *e);

/* "[128 | 4096: 0-1024 1024-2048 2048-3072 3072-4096] on 0 1 2 3" */
void ein__relation_print(const relation *r, text *out);
void ein__relation_key(const relation *r, text *key);

#endif
