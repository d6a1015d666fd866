/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of lowering: leaves, straight parts and loops, carries, outputs; then memory and waits. */
#include "jit/lower.h"

#include <string.h>

/* ---- steps -------------------------------------------------------------------------------------------- */

static ein_status find_kernel(lowering *w, const kernel_text *k, int *out)
{
    for (int i = 0; i < w->kernels.n; i++)
        if (ein__hash_equal(w->kernels.items[i].key, k->key)) {
            *out = i;
            return EIN_OK;
        }
    *out = w->kernels.n;
    PUSH(w->a, &w->kernels, *k);
    return EIN_OK;
}

static void touch_buffers(lowering *w, const step *s)
{
    for (int i = 0; i < s->n_args; i++) {
        const arg *x = &s->args[i];
        if (x->kind != ARG_POINTER || x->place.space != SPACE_BUFFER) continue;
        buffer *b = &w->buffers.items[x->place.index];
        if (b->first < 0) b->first = s->order;
        b->last = s->order;
    }
}

ein_status ein__lower_step(lowering *w, int device, const item *x, const launch *l, i64 remote_bytes)
{
    step s = {.kind = l->kind, .region = w->region, .device = device, .order = w->order++, .node = x->node,
              .what = x->what, .gemm = l->gemm, .n_args = l->n_args, .args = l->args, .remote_bytes = remote_bytes};
    memcpy(s.grid, l->grid, sizeof s.grid);
    if (l->kind == STEP_KERNEL) TRY(find_kernel(w, &l->kernel, &s.kernel));
    int passed = 0;
    for (int i = 0; i < s.n_args; i++, passed++)
        if (s.args[i].kind == ARG_SOURCES) {
            if ((int)s.args[i].value > w->max_sources) w->max_sources = (int)s.args[i].value;
            i += (int)s.args[i].value;
        }
    if (passed > w->max_args) w->max_args = passed;
    touch_buffers(w, &s);
    PUSH(w->a, &w->devices[device], s);
    return EIN_OK;
}

/* ---- regions ------------------------------------------------------------------------------------------ */

static ein_status start_region(lowering *w, region **regions, int r, int loop, int count)
{
    w->region = r;
    for (int d = 0; d < w->n_devices; d++)
        regions[d][r] = (region){w->devices[d].n, w->devices[d].n, count, loop};
    return EIN_OK;
}

static void end_region(lowering *w, region **regions)
{
    for (int d = 0; d < w->n_devices; d++) regions[d][w->region].hi = w->devices[d].n;
}

/* ---- leaves, carries, outputs ------------------------------------------------------------------------- */

static ein_status lower_leaf(lowering *w, int index)
{
    const leaf *l = &w->g->leaves.items[index];
    instance *x;
    NEW(w->scratch, x, 1);
    *x = (instance){.n_states = 1, .used = 1, .index = index, .complete = true};
    if (l->kind == LEAF_INPUT) {
        x->space = SPACE_INPUT;
        TRY(ein__relation_whole(w->scratch, ein__value_numel(w->g, l->value), DEV(HOST), &x->states[0]));
    } else {
        x->space = SPACE_LEAF;
        x->states[0] = w->plan->leaves[index];
    }
    ein__instance_append(&w->values[l->value], x);
    return EIN_OK;
}

/* Before the loop: carried values go to buffers that alternate. */
static ein_status enter_loop(lowering *w, int index, int first_carry)
{
    const loop *l = &w->g->loops.items[index];
    for (int c = 0; c < l->n_carries; c++) {
        const carry *y = &l->carries[c];
        ein_dtype dtype = w->g->values.items[y->value].dtype;
        instance *x;
        int before = w->buffers.n;
        TRY(ein__instance_make(w, &w->plan->carries[first_carry + c], dtype, NULL, &x));
        for (int b = before; b < w->buffers.n; b++) w->buffers.items[b].loop = index;
        item from = ein__lower_item(w, y->init, -1, "enter loop");
        TRY(ein__lower_exchange_into(w, &from, x, -1));
        ein__instance_append(&w->values[y->value], x);
        value next = ein__value_source(w->g, y->next);
        if (w->carries[next] == NULL) w->carries[next] = x;
    }
    return EIN_OK;
}

/* At the end of the body: what did not get made in the carry's buffers is moved there. */
static ein_status next_iteration(lowering *w, int index)
{
    const loop *l = &w->g->loops.items[index];
    for (int c = 0; c < l->n_carries; c++) {
        const carry *y = &l->carries[c];
        const instance *to = w->values[y->value];
        value next = ein__value_source(w->g, y->next);
        item from = ein__lower_item(w, y->next, -1, "next iteration");
        const instance *made = *from.list;
        if (w->carries[next] == to && !made->pending && made->space == SPACE_BUFFER && made->buffers[0] != NULL) {
            int i = 0, n = made->states[0].n_blocks * w->n_devices;
            while (i < n && made->buffers[0][i] < 0) i++;
            if (i < n && w->buffers.items[made->buffers[0][i]].pair >= 0) continue; /* made in place */
        }
        instance *x;
        TRY(ein__instance_make(w, &to->states[0], from.dtype, to, &x));
        TRY(ein__lower_exchange_into(w, &from, x, -1));
    }
    return EIN_OK;
}

/* Memory that a loop reads must stay until its last iteration. */
static void stretch_buffers(lowering *w, int first_order)
{
    int last = w->order > first_order ? w->order - 1 : first_order;
    for (int b = 0; b < w->buffers.n; b++) {
        buffer *x = &w->buffers.items[b];
        if (x->first >= 0 && x->last >= first_order && (x->first < first_order || x->loop >= 0)) x->last = last;
    }
}

static ein_status lower_outputs(lowering *w)
{
    for (int i = 0; i < w->g->outputs.n; i++) {
        item x = ein__lower_item(w, w->g->outputs.items[i].value, -1, w->g->outputs.items[i].name);
        TRY(ein__lower_exchange_into(w, &x, NULL, i));
    }
    return EIN_OK;
}

static ein_status lower_range(lowering *w, int lo, int hi)
{
    for (int i = lo; i < hi; i++) TRY(ein__lower_node(w, i));
    return EIN_OK;
}

/* Region 2 i is the straight part before loop i; region 2 i + 1 the loop. */
static ein_status lower_regions(lowering *w, region **regions)
{
    int at = 0, carries = 0;
    for (int i = 0; i < w->g->loops.n; i++) {
        const loop *l = &w->g->loops.items[i];
        TRY(start_region(w, regions, 2 * i, -1, 1));
        TRY(lower_range(w, at, l->lo));
        TRY(enter_loop(w, i, carries));
        end_region(w, regions);
        int first = w->order;
        TRY(start_region(w, regions, 2 * i + 1, i, l->count));
        TRY(lower_range(w, l->lo, l->hi));
        TRY(next_iteration(w, i));
        end_region(w, regions);
        stretch_buffers(w, first);
        at = l->hi;
        carries += l->n_carries;
    }
    TRY(start_region(w, regions, 2 * w->g->loops.n, -1, 1));
    TRY(lower_range(w, at, w->g->nodes.n));
    TRY(lower_outputs(w));
    end_region(w, regions);
    return EIN_OK;
}

/* ---- the program -------------------------------------------------------------------------------------- */

static ein_status note_loops(lowering *w, program *out)
{
    const graph *g = w->g;
    int *counts, *of_leaf;
    NEW(w->a, counts, g->loops.n + 1);
    NEW(w->a, of_leaf, g->leaves.n + 1);
    for (int i = 0; i < g->leaves.n; i++) of_leaf[i] = -1;
    for (int i = 0; i < g->loops.n; i++) {
        const loop *l = &g->loops.items[i];
        counts[i] = l->count;
        for (int k = l->lo; k < l->hi; k++)
            for (int o = 0; o < g->nodes.items[k].spec.n_operands; o++) {
                const value_info *v = &g->values.items[ein__value_source(g, g->nodes.items[k].operands[o])];
                if (v->kind == VALUE_LEAF && g->leaves.items[v->owner].n_members > 1) of_leaf[v->owner] = i;
            }
    }
    out->n_loops = g->loops.n;
    out->loop_counts = counts;
    out->leaf_loop = of_leaf;
    return EIN_OK;
}

static void sum_bytes(program *p)
{
    for (int d = 0; d < p->n_devices; d++)
        for (int r = 0; r < p->n_regions; r++)
            for (int i = p->devices[d].regions[r].lo; i < p->devices[d].regions[r].hi; i++) {
                p->remote_bytes += p->devices[d].steps[i].remote_bytes * p->devices[d].regions[r].count;
                p->n_steps++;
            }
}

static ein_status finish(lowering *w, region **regions, program *out)
{
    i64 bytes[EIN__MEMORIES] = {0};
    memset(out, 0, sizeof *out);
    out->n_devices = w->n_devices;
    out->n_regions = 2 * w->g->loops.n + 1;
    out->n_kernels = w->kernels.n;
    out->kernels = w->kernels.items;
    out->n_buffers = w->buffers.n;
    NEW(w->a, out->buffers, w->buffers.n);
    if (w->buffers.n > 0) memcpy(out->buffers, w->buffers.items, (size_t)w->buffers.n * sizeof *out->buffers);
    out->n_table = w->table.n;
    NEW(w->a, out->table, w->table.n);
    if (w->table.n > 0) memcpy(out->table, w->table.items, (size_t)w->table.n * sizeof *out->table);
    out->max_args = w->max_args;
    out->max_sources = w->max_sources;
    TRY(ein__assign_buffers(w->scratch, out->buffers, out->n_buffers, bytes));
    for (int d = 0; d < w->n_devices; d++)
        out->devices[d] = (device_program){w->devices[d].n, w->devices[d].items, regions[d], bytes[d],
                                            bytes[MAX_DEVICES + d]};
    TRY(note_loops(w, out));
    TRY(ein__assign_waits(w->a, w->scratch, out, w->e));
    sum_bytes(out);
    return EIN_OK;
}

static ein_status lower(lowering *w, program *out)
{
    region *regions[MAX_DEVICES] = {NULL};
    for (int d = 0; d < w->n_devices; d++) NEW(w->a, regions[d], 2 * w->g->loops.n + 1);
    NEW(w->scratch, w->values, w->g->values.n);
    NEW(w->scratch, w->carries, w->g->values.n);
    for (int i = 0; i < w->g->leaves.n; i++) TRY(lower_leaf(w, i));
    TRY(lower_regions(w, regions));
    return finish(w, regions, out);
}

ein_status ein__lower(arena *a, const graph *g, const plan *p, const machine *m, program *out, error *e)
{
    arena scratch = {NULL};
    lowering *w = ein__arena_get(&scratch, 1, sizeof *w);
    ein_status s = EIN_NO_MEMORY;
    if (w != NULL) {
        *w = (lowering){.a = a, .scratch = &scratch, .e = e, .g = g, .plan = p, .n_devices = p->n_devices};
        s = ein__routes_make(&scratch, m, &w->routes);
        if (s == EIN_OK) s = lower(w, out);
    }
    ein__arena_free(&scratch);
    if (s == EIN_NO_MEMORY) ein__fail(e, s, "out of memory while lowering");
    return s == EIN_OK ? ein__program_check(out, e) : s;
}
