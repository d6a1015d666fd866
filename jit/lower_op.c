/* SPDX-License-Identifier: Apache-2.0 */
/* One op on all its tuples: fetch what each device lacks, make places for the results, launch. */
#include <string.h>

#include "jit/lower.h"

/* The op while it is lowered. */
typedef struct op_work {
    lowering *w;
    const node *node;
    int index;
    const choice *c;
    item operands[MAX_OPERANDS + MAX_STATISTICS]; /* then the statistics of a two-step op */
    const index_map *maps[MAX_OPERANDS + MAX_STATISTICS];
    int n_operands;
} op_work;

item ein__lower_item(lowering *w, value v, int node_index, const char *what)
{
    value source = ein__value_source(w->g, v);
    return (item){&w->values[source], w->g->values.items[source].dtype, node_index, what};
}

/* ---- what is missing where ---------------------------------------------------------------------------- */

/* The need of operand `o`, with only the (block, device) pairs that no view satisfies yet. */
static ein_status missing_need(op_work *k, int o, relation *need, bool *any)
{
    lowering *w = k->w;
    spec one = k->node->spec; /* statistics are operands too: any map can be asked about */
    index_map map = *k->maps[o];
    one.operands = &map;
    one.n_operands = 1;
    TRY(ein__relation_need(w->scratch, &one, 0, k->c, need));
    devset *missing;
    NEW(w->scratch, missing, need->n_blocks);
    *any = false;
    for (int t = 0; t < k->c->n_tuples; t++) {
        label_box boxes[MAX_BOXES];
        int n = ein__tuple_boxes(&k->node->spec, k->c, t, MAX_BOXES, boxes), block = ein__tuple_block(&map, k->c, t);
        for (int d = 0; d < w->n_devices; d++) {
            if (!(k->c->devices[t] & DEV(d))) continue;
            for (int b = 0; b < n; b++) {
                view v;
                if (ein__instance_view(w, *k->operands[o].list, d, &map, &boxes[b], k->operands[o].dtype, &v)) continue;
                missing[block] |= DEV(d);
                *any = true;
            }
        }
    }
    need->devices = missing;
    return EIN_OK;
}

static ein_status fetch_operand(op_work *k, int o)
{
    relation need;
    bool any;
    TRY(missing_need(k, o, &need, &any));
    return any ? ein__lower_exchange(k->w, &k->operands[o], &need) : EIN_OK;
}

/* ---- launches ----------------------------------------------------------------------------------------- */

/* Where the op writes: `n` views, each a state or result of which map, in an instance. */
typedef struct output_slot {
    const instance *x;
    int state;
    const index_map *block_map, *map;
    ein_dtype dtype;
} output_slot;

static ein_status output_view(op_work *k, const output_slot *t, int tuple, int device, const label_box *box, view *out)
{
    const relation *r = &t->x->states[t->state];
    int block = ein__tuple_block(t->block_map, k->c, tuple);
    int partial = t->x->pending ? ein__tuple_partial(&k->node->spec, k->c, tuple) : 0;
    *out = (view){.dtype = t->dtype, .scalar = -1};
    memcpy(out->range_hi, box->len, sizeof out->range_hi);
    if (!ein__block_view(r, block, t->map, box, &out->offset, out->stride))
        return ein__fail(k->w->e, EIN_INTERNAL, "%s: tuple %d does not fit its result's block %d", k->node->name, tuple,
                         block);
    out->place = ein__instance_place(k->w, t->x, t->state, block, partial, device);
    return EIN_OK;
}

static ein_status launch_box(op_work *k, job *j, const output_slot *outs, int tuple, int device)
{
    lowering *w = k->w;
    launch l = {.kind = STEP_KERNEL};
    for (int o = 0; o < j->n_in; o++)
        if (!ein__instance_view(w, *k->operands[o].list, device, k->maps[o], &j->box, k->operands[o].dtype, &j->in[o]))
            return ein__fail(w->e, EIN_INTERNAL, "%s: operand %d is not on device %d", k->node->name, o, device);
    for (int o = 0; o < j->n_out; o++) TRY(output_view(k, &outs[o], tuple, device, &j->box, &j->out[o]));
    TRY(ein__family_emit(w->a, j, &l, w->e));
    item x = {NULL, EIN_F32, k->index, k->node->name};
    return l.kind == STEP_KERNEL && l.grid[0] == 0 ? EIN_OK : ein__lower_step(w, device, &x, &l, 0);
}

/* Run the op's kernel for every tuple, device and box; operands must have been fetched. */
static ein_status launch_all(op_work *k, job_mode mode, int stage, const output_slot *outs, int n_outs)
{
    job *j;
    NEW(k->w->scratch, j, 1);
    j->graph = k->w->g;
    j->node = &k->w->g->nodes.items[k->index]; /* families know the op, not the spec of its statistic */
    j->mode = mode;
    j->stage = stage;
    j->alike_products = k->w->plan->alike_products;
    j->n_in = k->n_operands;
    j->n_out = n_outs;
    for (int t = 0; t < k->c->n_tuples; t++) {
        label_box boxes[MAX_BOXES];
        int n = ein__tuple_boxes(&k->node->spec, k->c, t, MAX_BOXES, boxes);
        if (n > MAX_BOXES)
            return ein__fail(k->w->e, EIN_NO_PLAN, "%s: tuple %d is %d boxes, more than %d", k->node->name, t, n, MAX_BOXES);
        for (int d = 0; d < k->w->n_devices; d++)
            for (int b = 0; b < n && (k->c->devices[t] & DEV(d)); b++) {
                j->box = boxes[b];
                TRY(launch_box(k, j, outs, t, d));
            }
    }
    return EIN_OK;
}

/* ---- results ------------------------------------------------------------------------------------------ */

static ein_status finished_result(op_work *k, int r, instance **out)
{
    lowering *w = k->w;
    relation rel;
    value v = k->node->results[r];
    TRY(ein__relation_finished(w->scratch, &k->node->spec, r, k->c, &rel));
    if (k->node->kind == OP_APPEND) { /* in place: the state's own blocks */
        const instance *state = w->values[k->node->operands[0]];
        if (!ein__relation_equal(&rel, &state->states[0]))
            return ein__fail(w->e, EIN_NO_PLAN, "%s: the result does not lie as its state does", k->node->name);
        NEW(w->scratch, *out, 1);
        **out = *state;
        (*out)->next = NULL;
        return EIN_OK;
    }
    const instance *carry_to = w->carries[v];
    if (carry_to != NULL && !ein__relation_equal(&rel, &carry_to->states[0])) carry_to = NULL;
    return ein__instance_make(w, &rel, w->g->values.items[v].dtype, carry_to, out);
}

static ein_status lower_final(op_work *k)
{
    output_slot outs[MAX_RESULTS];
    const spec *s = &k->node->spec;
    instance *made[MAX_RESULTS];
    for (int r = 0; r < s->n_results; r++) {
        TRY(finished_result(k, r, &made[r]));
        ein_dtype dtype = k->w->g->values.items[k->node->results[r]].dtype;
        outs[r] = (output_slot){made[r], 0, &s->results[r], &s->results[r], dtype};
    }
    TRY(launch_all(k, JOB_FINAL, 0, outs, s->n_results));
    for (int r = 0; r < s->n_results; r++) ein__instance_append(&k->w->values[k->node->results[r]], made[r]);
    return EIN_OK;
}

static bool map_inside(const index_map *m, const index_map *outer)
{
    for (int i = 0; i < m->n; i++)
        if (!ein__map_has(outer, m->terms[i].label)) return false;
    return true;
}

static ein_status pending_result(op_work *k, int r, int *const *buffers, instance **out)
{
    lowering *w = k->w;
    const spec *s = &k->node->spec;
    instance *x;
    NEW(w->scratch, x, 1);
    x->pending = true;
    x->n_states = s->n_states;
    x->used = ein__merge_used(s->merge, r, true);
    x->merge = s->merge;
    x->result = r;
    x->space = SPACE_BUFFER;
    for (int q = 0; q < s->n_states; q++) {
        x->buffers[q] = buffers[q];
        if (x->used >> q & 1) TRY(ein__relation_state(w->scratch, s, q, r, k->c, &x->states[q]));
    }
    int first = (int)__builtin_ctz(x->used);
    for (int q = 0; q < s->n_states; q++)
        if (!(x->used >> q & 1)) x->states[q] = x->states[first];
    *out = x;
    return EIN_OK;
}

/* Buffers for all states of the merge, and where the op writes them. */
static ein_status make_states(op_work *k, int *buffers[MAX_STATES], output_slot outs[MAX_STATES])
{
    lowering *w = k->w;
    const spec *s = &k->node->spec;
    for (int q = 0; q < s->n_states; q++) {
        int r = 0;
        while (r < s->n_results && !map_inside(&s->states[q], &s->results[r])) r++;
        if (r == s->n_results) return ein__fail(w->e, EIN_INTERNAL, "%s: state %d fits no result", k->node->name, q);
        instance *x;
        NEW(w->scratch, x, 1);
        *x = (instance){.pending = true, .n_states = s->n_states, .space = SPACE_BUFFER};
        TRY(ein__relation_state(w->scratch, s, q, r, k->c, &x->states[q]));
        TRY(ein__state_buffers(w, &x->states[q], s->merge->wire[q], NULL, &buffers[q]));
        x->buffers[q] = buffers[q];
        outs[q] = (output_slot){x, q, &s->states[q], &s->results[r], s->merge->wire[q]};
    }
    return EIN_OK;
}

/* The merge's states stay where they were made; the exchange to the next reader joins them. */
static ein_status lower_pending(op_work *k)
{
    lowering *w = k->w;
    const spec *s = &k->node->spec;
    int *buffers[MAX_STATES];
    output_slot outs[MAX_STATES];
    TRY(make_states(k, buffers, outs));
    TRY(launch_all(k, JOB_STATES, 0, outs, s->n_states));
    for (int r = 0; r < s->n_results; r++) {
        instance *x;
        TRY(pending_result(k, r, buffers, &x));
        ein__instance_append(&w->values[k->node->results[r]], x);
    }
    return EIN_OK;
}

/* ---- two steps: statistic, exchange, apply ------------------------------------------------------------- */

static ein_status lower_stage(op_work *k, int stage, instance **lists)
{
    lowering *w = k->w;
    node *statistic; /* the same op with the statistics' spec, for tuple and partial numbers */
    int *buffers[MAX_STATES];
    output_slot outs[MAX_STATES];
    NEW(w->scratch, statistic, 1);
    *statistic = *k->node;
    TRY(ein__statistic_spec(w->scratch, k->node, stage, &statistic->spec));
    const spec *s = &statistic->spec;
    op_work sub = *k;
    sub.node = statistic;
    TRY(make_states(&sub, buffers, outs));
    TRY(launch_all(&sub, JOB_STAGE, stage, outs, s->n_states));
    for (int r = 0; r < s->n_results; r++) {
        TRY(pending_result(&sub, r, buffers, &lists[r]));
        int o = k->n_operands++;
        k->operands[o] = (item){&lists[r], s->merge->compute[r], k->index, k->node->name};
        k->maps[o] = &s->results[r];
        TRY(fetch_operand(k, o));
    }
    return EIN_OK;
}

static ein_status lower_two_step(op_work *k)
{
    instance **lists, *made;
    NEW(k->w->scratch, lists, MAX_STATISTICS);
    for (int stage = 0; stage < k->node->n_stages; stage++)
        TRY(lower_stage(k, stage, &lists[ein__node_statistics(k->node, stage)]));
    TRY(finished_result(k, 0, &made));
    ein_dtype dtype = k->w->g->values.items[k->node->results[0]].dtype;
    output_slot out = {made, 0, &k->node->spec.results[0], &k->node->spec.results[0], dtype};
    TRY(launch_all(k, JOB_APPLY, 0, &out, 1));
    ein__instance_append(&k->w->values[k->node->results[0]], made);
    return EIN_OK;
}

ein_status ein__lower_node(lowering *w, int node_index)
{
    const node *n = &w->g->nodes.items[node_index];
    if (ein__node_is_view(n)) return EIN_OK;
    op_work *k;
    NEW(w->scratch, k, 1);
    *k = (op_work){.w = w, .node = n, .index = node_index, .c = &w->plan->nodes[node_index]};
    if (n->spec.n_operands > MAX_OPERANDS)
        return ein__fail(w->e, EIN_UNSUPPORTED, "%s: %d operands; at most %d", n->name, n->spec.n_operands, MAX_OPERANDS);
    for (int o = 0; o < n->spec.n_operands; o++) {
        k->operands[o] = ein__lower_item(w, n->operands[o], node_index, n->name);
        k->maps[o] = &n->spec.operands[o];
        k->n_operands = o + 1;
        TRY(fetch_operand(k, o));
    }
    if (ein__choice_cuts(k->c, n->spec.two_step)) return lower_two_step(k);
    bool pending = ein__choice_cuts(k->c, ein__spec_aggregated(&n->spec)) || ein__node_leaves_states(n);
    return pending ? lower_pending(k) : lower_final(k);
}
