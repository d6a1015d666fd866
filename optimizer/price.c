/* SPDX-License-Identifier: Apache-2.0 */
/* Costs. The rules are those of lowering: an operand is fetched only to devices that have no view of what
 * they need, from the first complete copy; what was fetched stays and is found by later readers; where two
 * factorizations have no common refinement a whole copy is made. */
#include "optimizer/price.h"

#include <math.h>
#include <string.h>


/* ---- moves -------------------------------------------------------------------------------------------- */

static ein_status ask_model(prices *p, int from, ein_dtype dtype, int to, move *out)
{
    const placed *x = &p->pool.placed.items[from];
    const relation *states[MAX_STATES];
    arena scratch = {NULL};
    for (int i = 0; i < x->n_states; i++) states[i] = p->pool.relations.items[x->states[i]];
    *out = (move){.to = to};
    ein_status s =
        p->model->exchange(p->model->user, &scratch, x->n_states, states, x->used, x->merge, x->result, dtype,
                           p->pool.relations.items[to], &out->seconds, &out->bytes);
    ein__arena_free(&scratch);
    return s;
}

/* The model's answer, or the one for an exchange that is alike. */
static ein_status price_exchange(prices *p, int from, ein_dtype dtype, int to, move *out)
{
    int *at;
    if (p->classes == NULL) return ask_model(p, from, dtype, to, out);
    TRY(ein__idmap_at(p->a, &p->exchanges_known, ein__exchange_key(p, from, dtype, to), &at));
    if (*at < 0) {
        *at = p->exchanges.n;
        TRY(ask_model(p, from, dtype, to, out));
        PUSH(p->a, &p->exchanges, *out);
    }
    *out = p->exchanges.items[*at];
    out->to = to;
    return EIN_OK;
}

static ein_status whole_copy(prices *p, int of, int *out)
{
    const relation *r = p->pool.relations.items[of];
    relation whole;
    devset all = 0;
    for (int i = 0; i < r->n_blocks; i++) all |= r->devices[i];
    TRY(ein__relation_whole(p->a, ein__relation_numel(r), all, &whole));
    return ein__pool_relation(&p->pool, &whole, out);
}

static ein_status make_move(prices *p, int from, ein_dtype dtype, int to, move *out)
{
    TRY(price_exchange(p, from, dtype, to, out));
    if (!isinf(out->seconds)) return EIN_OK;
    TRY(whole_copy(p, to, &to));
    return price_exchange(p, from, dtype, to, out);
}

ein_status ein__price_move(prices *p, int from, ein_dtype dtype, int to, move *out)
{
    int *at, key[3] = {from, (int)dtype, to};
    TRY(ein__idmap_at(p->a, &p->moves_known, ein__hash(key, sizeof key, 0), &at));
    if (*at < 0) {
        *at = p->moves.n;
        TRY(make_move(p, from, dtype, to, out));
        PUSH(p->a, &p->moves, *out);
    }
    *out = p->moves.items[*at];
    return EIN_OK;
}

/* ---- fetches ------------------------------------------------------------------------------------------ */

static bool device_sees(const prices *p, int list, int device, const index_map *m, const label_box *box)
{
    i64 offset, stride[MAX_LABELS];
    if (ein__box_reads_nothing(m, box)) return true;
    for (; list >= 0; list = p->pool.lists.items[list].before) {
        const placed *x = &p->pool.placed.items[p->pool.lists.items[list].last];
        if (x->merge != NULL) continue;
        const relation *r = p->pool.relations.items[x->states[0]];
        for (int b = 0; b < r->n_blocks; b++)
            if ((r->devices[b] & DEV(device)) != 0 && ein__block_view(r, b, m, box, &offset, stride))
                return true;
    }
    return false;
}

/* Devices, by block of the need, that cannot see all that they need. Returns all of them. `single`: no device needs
 * more than one box. */
static devset find_missing(const prices *p, const spec *s, const index_map *m, const choice *c, int list,
                           devset *missing, bool *single)
{
    label_box boxes[MAX_BOXES];
    devset any = 0, busy = 0;
    *single = true;
    for (int t = 0; t < c->n_tuples; t++) {
        int n = ein__tuple_boxes(s, c, t, MAX_BOXES, boxes), block = ein__tuple_block(m, c, t);
        for (devset d = c->devices[t]; d != 0; d &= d - 1) {
            int device = __builtin_ctz(d);
            *single = *single && n == 1 && (busy & DEV(device)) == 0;
            busy |= DEV(device);
            for (int b = 0; b < n; b++) {
                if (device_sees(p, list, device, m, &boxes[b])) continue;
                missing[block] |= DEV(device);
                any |= DEV(device);
            }
        }
    }
    return any;
}

static bool list_has(const prices *p, int list, int relation_id)
{
    for (; list >= 0; list = p->pool.lists.items[list].before) {
        const placed *x = &p->pool.placed.items[p->pool.lists.items[list].last];
        if (x->merge == NULL && x->states[0] == relation_id) return true;
    }
    return false;
}

ein_status ein__price_seen(prices *p, int node_index, int operand, const choice *c, int need, int entry,
                           seen *out)
{
    const spec *s = &p->g->nodes.items[node_index].spec;
    int of = p->alike != NULL ? p->alike[node_index] : node_index;
    int *at, key[4] = {of, operand, need, entry};
    TRY(ein__idmap_at(p->a, &p->seen_known, ein__hash(key, sizeof key, 0), &at));
    if (*at < 0) {
        devset *missing;
        int list;
        *at = p->seen.n;
        if (entry < 0) list = -1;
        else TRY(ein__pool_list(&p->pool, -1, entry, &list));
        NEW(p->a, missing, p->pool.relations.items[need]->n_blocks);
        devset any = find_missing(p, s, &s->operands[operand], c, list, missing, &out->single);
        out->devices = p->pool.known.items[need].devices & ~any;
        PUSH(p->a, &p->seen, *out);
        return EIN_OK;
    }
    *out = p->seen.items[*at];
    return EIN_OK;
}

/* Relation `need` on some of its devices only. */
static ein_status restricted(prices *p, int need, devset devices, int *out)
{
    relation r = *p->pool.relations.items[need];
    int *at, key[2] = {need, (int)devices};
    devset *some;
    *out = need;
    if ((p->pool.known.items[need].devices & ~devices) == 0) return EIN_OK;
    TRY(ein__idmap_at(p->a, &p->lacks_known, ein__hash(key, sizeof key, 0), &at));
    if (*at < 0) {
        NEW(p->a, some, r.n_blocks);
        for (int b = 0; b < r.n_blocks; b++) some[b] = r.devices[b] & devices;
        r.devices = some;
        TRY(ein__pool_relation(&p->pool, &r, at));
    }
    *out = *at;
    return EIN_OK;
}

/* What is lacking of a need, as a relation; -1: nothing. */
static ein_status lacking(prices *p, int node_index, int operand, const choice *c, int need, int list, int *out)
{
    const spec *s = &p->g->nodes.items[node_index].spec;
    devset missing = p->pool.known.items[need].devices, *of_block;
    seen found;
    *out = -1;
    TRY(ein__price_seen(p, node_index, operand, c, need, -1, &found));
    missing &= ~found.devices;
    for (int l = list; l >= 0 && found.single; l = p->pool.lists.items[l].before) {
        int entry = p->pool.lists.items[l].last;
        if (p->pool.placed.items[entry].merge != NULL) continue;
        TRY(ein__price_seen(p, node_index, operand, c, need, entry, &found));
        missing &= ~found.devices;
    }
    if (found.single) return missing != 0 ? restricted(p, need, missing, out) : EIN_OK;
    relation r = *p->pool.relations.items[need];
    NEW(p->a, of_block, r.n_blocks);
    r.devices = of_block;
    if (find_missing(p, s, &s->operands[operand], c, list, of_block, &found.single) == 0) return EIN_OK;
    return ein__pool_relation(&p->pool, &r, out);
}

static ein_status make_fetch(prices *p, int node_index, int operand, const choice *c, int need, int list,
                             fetch *out)
{
    value v = ein__value_source(p->g, p->g->nodes.items[node_index].operands[operand]);
    move way;
    int to;
    *out = (fetch){.list = list};
    if (list_has(p, list, need)) return EIN_OK;
    TRY(lacking(p, node_index, operand, c, need, list, &to));
    if (to < 0) return EIN_OK;
    TRY(ein__price_move(p, p->pool.lists.items[list].source, p->g->values.items[v].dtype, to, &way));
    TRY(ein__pool_known_finished(&p->pool, way.to, &to));
    out->seconds = way.seconds;
    out->bytes = way.bytes;
    return ein__pool_list(&p->pool, list, to, &out->list);
}

ein_status ein__price_fetch(prices *p, int node_index, int operand, const choice *c, int need, int list,
                            fetch *out)
{
    int *at, key[4] = {node_index, operand, need, list};
    TRY(ein__idmap_at(p->a, &p->fetches_known, ein__hash(key, sizeof key, 0), &at));
    if (*at < 0) {
        *at = p->fetches.n;
        TRY(make_fetch(p, node_index, operand, c, need, list, out));
        PUSH(p->a, &p->fetches, *out);
    }
    *out = p->fetches.items[*at];
    return EIN_OK;
}

ein_status ein__even_relation(arena *a, i64 numel, int n_devices, relation *out)
{
    devset *devices;
    i64 *at;
    int parts = numel < n_devices ? 1 : n_devices;
    NEW(a, at, parts + 1);
    NEW(a, devices, parts);
    for (int i = 0; i <= parts; i++) at[i] = numel / parts * i + numel % parts * i / parts;
    for (int i = 0; i < parts; i++) devices[i] = DEV(i);
    *out = (relation){.n_axes = 1, .n_blocks = parts, .n_partials = 1, .devices = devices};
    out->axes[0] = (axis){.extent = numel, .n_parts = parts, .lo = at, .hi = at + 1};
    return ein__relation_canonical(a, out);
}

ein_status ein__price_finish(prices *p, int list, ein_dtype dtype, double *seconds)
{
    int from = p->pool.lists.items[list].source, to;
    relation r;
    move way;
    *seconds = 0;
    if (p->pool.placed.items[from].merge == NULL) return EIN_OK;
    i64 numel = ein__relation_numel(p->pool.relations.items[p->pool.placed.items[from].states[0]]);
    TRY(ein__relation_whole(p->a, numel, ALL_DEVICES(p->n_devices), &r));
    TRY(ein__pool_relation(&p->pool, &r, &to));
    TRY(ein__price_move(p, from, dtype, to, &way));
    *seconds = way.seconds;
    TRY(ein__even_relation(p->a, numel, p->n_devices, &r));
    TRY(ein__pool_relation(&p->pool, &r, &to));
    TRY(ein__price_move(p, from, dtype, to, &way));
    *seconds = fmin(*seconds, way.seconds);
    return EIN_OK;
}

/* ---- options ------------------------------------------------------------------------------------------ */

static ein_status pending(prices *p, const spec *s, int result, const choice *c, int *out)
{
    placed x = {.merge = s->merge, .result = result, .n_states = s->n_states};
    x.used = ein__merge_used(s->merge, result, true);
    for (int k = 0; k < s->n_states; k++) {
        relation r;
        TRY(ein__relation_state(p->a, s, k, result, c, &r));
        TRY(ein__pool_relation(&p->pool, &r, &x.states[k]));
    }
    return ein__pool_placed(&p->pool, &x, out);
}

/* A statistic is made in parts, joined, and given to all devices that work on its row. */
static ein_status add_statistics(prices *p, const node *n, option *o)
{
    double block = o->seconds;
    for (int i = 0; i < n->n_stages; i++) {
        spec s;
        TRY(ein__statistic_spec(p->a, n, i, &s));
        for (int k = 0; k < s.n_results; k++) {
            relation r;
            move way;
            int from, to;
            TRY(pending(p, &s, k, &o->choice, &from));
            TRY(ein__relation_finished(p->a, &s, k, &o->choice, &r));
            TRY(ein__pool_relation(&p->pool, &r, &to));
            TRY(ein__price_move(p, from, s.merge->compute[k], to, &way));
            o->seconds += way.seconds;
            o->bytes += way.bytes;
        }
        o->seconds += block;
    }
    return EIN_OK;
}

/* Boxes of all tuples; negative: one is more boxes than lowering takes. */
static int count_boxes(const spec *s, const choice *c)
{
    int count = 0;
    for (int t = 0; t < c->n_tuples; t++) {
        int n = ein__tuple_boxes(s, c, t, 0, NULL);
        if (n > MAX_BOXES) return -1;
        count += n;
    }
    return count;
}

/* Time of the busiest device; negative if the choice cannot be lowered. */
static ein_status busiest(prices *p, const node *n, const choice *c, double *out)
{
    label_box *boxes;
    int room = count_boxes(&n->spec, c);
    *out = room < 0 ? -1 : 0;
    if (room < 0) return EIN_OK;
    NEW(p->a, boxes, room);
    for (int d = 0; d < p->n_devices; d++) {
        int count = 0;
        for (int t = 0; t < c->n_tuples; t++)
            if ((c->devices[t] & DEV(d)) != 0)
                count += ein__tuple_boxes(&n->spec, c, t, room - count, boxes + count);
        if (count > 0) *out = fmax(*out, p->model->compute(p->model->user, p->g, n, boxes, count));
    }
    return EIN_OK;
}

ein_status ein__price_option(prices *p, const node *n, option *o)
{
    const spec *s = &n->spec;
    const choice *c = &o->choice;
    relation r;
    TRY(busiest(p, n, c, &o->seconds));
    NEW(p->a, o->needs, s->n_operands);
    for (int k = 0; k < s->n_operands; k++) {
        TRY(ein__relation_need(p->a, s, k, c, &r));
        TRY(ein__pool_relation(&p->pool, &r, &o->needs[k]));
    }
    bool parts = ein__choice_cuts(c, ein__spec_aggregated(s)) || ein__node_leaves_states(n);
    for (int k = 0; k < s->n_results; k++) {
        if (parts) {
            TRY(pending(p, s, k, c, &o->results[k]));
            continue;
        }
        TRY(ein__relation_finished(p->a, s, k, c, &r));
        TRY(ein__pool_finished(&p->pool, &r, &o->results[k]));
    }
    return ein__choice_cuts(c, s->two_step) && o->seconds >= 0 ? add_statistics(p, n, o) : EIN_OK;
}

/* A state is shared by programs, and not all of their appends can cut labels as one. */
static bool cuts_groups(const choice *c)
{
    bool any = false;
    for (int i = 0; i < c->n_cuts; i++) any = any || c->cuts[i].n_labels > 1;
    return any;
}

static ein_status fixed_choice(prices *p, const node *n, const relation *fixed, choice_list *out, error *e)
{
    choice c;
    bool found;
    TRY(ein__choice_of(p->a, &n->spec, fixed, p->n_devices, &c, &found));
    if (!found) return ein__fail(e, EIN_NO_PLAN, "%s: the layout of its state cannot be kept", n->name);
    PUSH(p->a, out, c);
    return EIN_OK;
}

ein_status ein__price_options(prices *p, int node_index, const i64 *units, const relation *fixed,
                              option_list *out, error *e)
{
    const node *n = &p->g->nodes.items[node_index];
    choice_list choices = {0};
    if (fixed != NULL)
        TRY(fixed_choice(p, n, fixed, &choices, e));
    else
        TRY(ein__choices(p->a, &n->spec, units, p->n_devices, &choices));
    if (fixed != NULL) choices.n_simple = choices.n_medium = choices.n;
    NEW(p->a, out->items, choices.n);
    out->n = out->n_simple = out->n_medium = 0;
    for (int i = 0; i < choices.n; i++) {
        option o = {.choice = choices.items[i]};
        TRY(ein__price_option(p, n, &o));
        if (o.seconds >= 0 && (n->kind != OP_APPEND || fixed != NULL || !cuts_groups(&o.choice)))
            out->items[out->n++] = o;
        if (i < choices.n_simple) out->n_simple = out->n;
        if (i < choices.n_medium) out->n_medium = out->n;
    }
    return EIN_OK;
}
