/* SPDX-License-Identifier: Apache-2.0 */
/* The run object: bindings, static memory, start, wait, cancel. */
#include <string.h>

#include "core/base/alloc.h"
#include "jit/context.h"

/* ---- create, free ------------------------------------------------------------------------------------- */

static bool has_states(const ein_program *p)
{
    for (int i = 0; i < p->graph.leaves.n; i++)
        if (p->graph.leaves.items[i].kind == LEAF_STATE) return true;
    return false;
}

static i64 value_bytes(const graph *g, value v)
{
    return ein__value_numel(g, v) * ein__dtype_bytes(g->values.items[v].dtype);
}

static ein_status note_bytes(ein_run *r)
{
    const graph *g = &r->p->graph;
    i64 *inputs, *outputs;
    NEW(&r->arena, inputs, g->leaves.n);
    NEW(&r->arena, outputs, g->outputs.n);
    for (int i = 0; i < g->leaves.n; i++)
        if (g->leaves.items[i].kind == LEAF_INPUT) inputs[i] = value_bytes(g, g->leaves.items[i].value);
    for (int i = 0; i < g->outputs.n; i++) outputs[i] = value_bytes(g, g->outputs.items[i].value);
    r->x.n_inputs = g->leaves.n;
    r->x.n_outputs = g->outputs.n;
    r->x.input_bytes = inputs;
    r->x.output_bytes = outputs;
    return EIN_OK;
}

static ein_status prepare(ein_run *r)
{
    ein_program *p = r->p;
    const target_api *api = p->context->target->api;
    NEW(&r->arena, r->leaves, p->graph.leaves.n);
    NEW(&r->arena, r->inputs, p->graph.leaves.n);
    NEW(&r->arena, r->outputs, p->graph.outputs.n);
    NEW(&r->arena, r->scalars, p->graph.scalars.n);
    NEW(&r->arena, r->scalar_bound, p->graph.scalars.n);
    memcpy(r->leaves, p->pieces, (size_t)p->graph.leaves.n * sizeof *r->leaves);
    for (int i = 0; i < p->graph.leaves.n; i++) {
        if (p->graph.leaves.items[i].kind != LEAF_STATE) continue;
        size_t n = (size_t)p->graph.leaves.items[i].n_members * (size_t)r->leaves[i].n_blocks * (size_t)p->program.n_devices;
        NEW(&r->arena, r->leaves[i].address, n);
    }
    r->x.program = &p->program;
    r->x.code = p->code;
    r->x.leaves = r->leaves;
    r->x.inputs = r->inputs;
    r->x.outputs = r->outputs;
    r->x.scalars = r->scalars;
    r->x.counting = p->counting;
    TRY(note_bytes(r));
    for (int d = 0; d < p->program.n_devices; d++) {
        void *memory = NULL;
        TRY(api->alloc(p->context->target, d, p->program.devices[d].buffer_bytes, &memory, &r->error));
        r->x.buffers[d] = memory;
        memory = NULL;
        i64 staged = p->program.devices[d].host_bytes;
        if (staged > 0) TRY(api->alloc(p->context->target, HOST, staged, &memory, &r->error));
        r->x.staging[d] = memory;
    }
    return api->prepare(p->context->target, &r->x, &r->error);
}

ein_status ein_run_create(ein_run **out, ein_program *p)
{
    if (out == NULL || p == NULL) return EIN_INVALID;
    error *e = &p->context->error;
    *out = NULL;
    if (p->context->target == NULL)
        return ein__fail(e, EIN_NO_DEVICE, "machine %s can only be planned, not run", p->context->machine.name);
    if (!p->weights_bound) return ein__fail(e, EIN_INVALID, "the program was compiled without weights: it can only be explained");
    ein_run *r = ein__calloc(1, sizeof *r);
    if (r == NULL) return ein__fail(e, EIN_NO_MEMORY, "out of memory for a run");
    r->p = p;
    ein_status s = prepare(r);
    if (s == EIN_OK) {
        *out = r;
        return s;
    }
    ein__fail(e, s, "%s", r->error.line[0] != 0 ? r->error.line : "out of memory for a run");
    ein_run_free(r);
    return s;
}

void ein_run_free(ein_run *r)
{
    if (r == NULL) return;
    ein_context *c = r->p->context;
    if (r->started) ein_run_wait(r);
    c->target->api->finish(c->target, &r->x);
    for (int d = 0; d < r->p->program.n_devices; d++) {
        c->target->api->release(c->target, d, r->x.buffers[d]);
        c->target->api->release(c->target, HOST, r->x.staging[d]);
    }
    ein__error_reset(&r->error);
    ein__error_reset(&r->x.error);
    ein__arena_free(&r->arena);
    ein__free(r);
}

/* ---- bindings ----------------------------------------------------------------------------------------- */

static ein_status check_bytes(ein_run *r, const char *kind, const char *name, value v, const void *data, size_t bytes)
{
    const value_info *info = &r->p->graph.values.items[v];
    i64 want = value_bytes(&r->p->graph, v);
    if ((i64)bytes != want)
        return ein__fail(&r->error, EIN_SHAPE, "%s '%s': %zu bytes bound, %lld expected: %lld elements of %s, %lld each", kind,
                         name, bytes, (long long)want, (long long)ein__value_numel(&r->p->graph, v),
                         ein__dtype_name(info->dtype), (long long)ein__dtype_bytes(info->dtype));
    if (data == NULL && want > 0) return ein__fail(&r->error, EIN_INVALID, "%s '%s': no memory bound", kind, name);
    return EIN_OK;
}

/* Of the user's graph, but needed by no output: bound to nothing. */
static bool is_unused(const ein_run *r, const char *name)
{
    for (int i = 0; name != NULL && i < r->p->unused.n; i++)
        if (strcmp(r->p->unused.items[i], name) == 0) return true;
    return false;
}

static ein_status find_input(ein_run *r, const char *name, int *out)
{
    const graph *g = &r->p->graph;
    if (r->started) return ein__fail(&r->error, EIN_INVALID, "a started run cannot be bound");
    for (int i = 0; name != NULL && i < g->leaves.n; i++)
        if (g->leaves.items[i].kind == LEAF_INPUT && strcmp(ein__leaf_name(r->p, &g->leaves.items[i], 0), name) == 0) {
            *out = i;
            return EIN_OK;
        }
    return ein__fail(&r->error, EIN_INVALID, "the program has no input '%s'", name != NULL ? name : "(null)");
}

static ein_status find_output(ein_run *r, const char *name, int *out)
{
    const graph *g = &r->p->graph;
    if (r->started) return ein__fail(&r->error, EIN_INVALID, "a started run cannot be bound");
    for (int i = 0; name != NULL && i < g->outputs.n; i++)
        if (strcmp(g->outputs.items[i].name, name) == 0) {
            *out = i;
            return EIN_OK;
        }
    return ein__fail(&r->error, EIN_INVALID, "the program has no output '%s'", name != NULL ? name : "(null)");
}

ein_status ein__run_input_value(ein_run *r, const char *name, value *out)
{
    int i = 0;
    TRY(find_input(r, name, &i));
    *out = r->p->graph.leaves.items[i].value;
    return EIN_OK;
}

ein_status ein__run_output_value(ein_run *r, const char *name, value *out)
{
    int i = 0;
    TRY(find_output(r, name, &i));
    *out = r->p->graph.outputs.items[i].value;
    return EIN_OK;
}

/* An empty tensor may be bound to no memory; this stands for it. */
static char nothing;

ein_status ein_run_input(ein_run *r, const char *name, const void *data, size_t bytes)
{
    int i = 0;
    if (r == NULL) return EIN_INVALID;
    if (!r->started && is_unused(r, name)) return EIN_OK;
    TRY(find_input(r, name, &i));
    TRY(check_bytes(r, "input", name, r->p->graph.leaves.items[i].value, data, bytes));
    r->inputs[i] = data != NULL ? data : &nothing;
    return EIN_OK;
}

ein_status ein_run_output(ein_run *r, const char *name, void *data, size_t bytes)
{
    int i = 0;
    if (r == NULL) return EIN_INVALID;
    TRY(find_output(r, name, &i));
    TRY(check_bytes(r, "output", name, r->p->graph.outputs.items[i].value, data, bytes));
    r->outputs[i] = data != NULL ? data : &nothing;
    return EIN_OK;
}

ein_status ein_run_scalar(ein_run *r, const char *name, int64_t value_given)
{
    if (r == NULL) return EIN_INVALID;
    const graph *g = &r->p->graph;
    if (r->started) return ein__fail(&r->error, EIN_INVALID, "a started run cannot be bound");
    for (int i = 0; name != NULL && i < g->scalars.n; i++)
        if (strcmp(g->scalars.items[i], name) == 0) {
            r->scalars[i] = value_given;
            r->scalar_bound[i] = true;
            return EIN_OK;
        }
    if (is_unused(r, name)) return EIN_OK;
    return ein__fail(&r->error, EIN_INVALID, "the program has no scalar '%s'", name != NULL ? name : "(null)");
}

static ein_status bind_state_leaf(ein_run *r, int index, ein_state *st)
{
    const leaf *l = &r->p->graph.leaves.items[index];
    leaf_pieces *x = &r->leaves[index];
    size_t n = (size_t)x->n_blocks * (size_t)r->p->program.n_devices;
    for (int m = 0; m < l->n_members; m++) {
        const char *name = ein__leaf_name(r->p, l, m);
        const placed_tensor *t = ein__tensor_find(&st->tensors, name);
        if (t == NULL) return ein__fail(&r->error, EIN_INVALID, "the state has no tensor '%s'", name);
        if (!ein__relation_equal(&t->layout, &r->p->plan.leaves[index]))
            return ein__fail(&r->error, EIN_INVALID, "state '%s' lies otherwise than this program expects; compile it "
                             "with the state given", name);
        memcpy(x->address + (size_t)m * n, t->address, n * sizeof *t->address);
    }
    return EIN_OK;
}

ein_status ein_run_state(ein_run *r, ein_state *st)
{
    if (r == NULL || st == NULL) return EIN_INVALID;
    if (r->started) return ein__fail(&r->error, EIN_INVALID, "a started run cannot be bound");
    if (st->context != r->p->context) return ein__fail(&r->error, EIN_INVALID, "the state belongs to another context");
    for (int i = 0; i < r->p->graph.leaves.n; i++)
        if (r->p->graph.leaves.items[i].kind == LEAF_STATE) TRY(bind_state_leaf(r, i, st));
    r->state = st;
    return EIN_OK;
}

/* ---- start, wait, cancel ------------------------------------------------------------------------------ */

static ein_status all_bound(ein_run *r)
{
    const graph *g = &r->p->graph;
    for (int i = 0; i < g->leaves.n; i++)
        if (g->leaves.items[i].kind == LEAF_INPUT && r->inputs[i] == NULL)
            return ein__fail(&r->error, EIN_INVALID, "input '%s' is not bound", ein__leaf_name(r->p, &g->leaves.items[i], 0));
    for (int i = 0; i < g->outputs.n; i++)
        if (r->outputs[i] == NULL) return ein__fail(&r->error, EIN_INVALID, "output '%s' is not bound", g->outputs.items[i].name);
    for (int i = 0; i < g->scalars.n; i++)
        if (!r->scalar_bound[i]) return ein__fail(&r->error, EIN_INVALID, "scalar '%s' is not bound", g->scalars.items[i]);
    if (has_states(r->p) && r->state == NULL) return ein__fail(&r->error, EIN_INVALID, "no state is bound");
    return EIN_OK;
}

static ein_status scalars_fit(ein_run *r)
{
    const graph *g = &r->p->graph;
    for (int i = 0; i < g->bounds.n; i++) {
        const scalar_bound *b = &g->bounds.items[i];
        i64 at = r->scalars[b->scalar];
        if (at >= 0 && at <= b->extent - b->rows) continue;
        return ein__fail(&r->error, EIN_INVALID, "%s: %lld rows at scalar '%s' = %lld do not fit %lld", b->what,
                         (long long)b->rows, g->scalars.items[b->scalar], (long long)at, (long long)b->extent);
    }
    return EIN_OK;
}

/* What nothing bounds, attention's positions and lengths, may be any number: past every extent all mean the same, and
 * none may overflow where it is added. */
static void tame_scalars(ein_run *r)
{
    const i64 far = (i64)1 << 41;
    for (int i = 0; i < r->p->graph.scalars.n; i++) {
        if (r->scalars[i] > far) r->scalars[i] = far;
        if (r->scalars[i] < -far) r->scalars[i] = -far;
    }
}

/* Every id of input `leaf` is a value of the label that it stands for. */
static ein_status check_ids(ein_run *r, const node *n, int leaf)
{
    const graph *g = &r->p->graph;
    const char *ids = r->inputs[leaf];
    value v = g->leaves.items[leaf].value;
    ein_dtype dtype = g->values.items[v].dtype;
    i64 rows = n->spec.labels[n->id_label].extent, bytes = ein__dtype_bytes(dtype), id;
    for (i64 k = 0; k < ein__value_numel(g, v); k++) {
        ein__dtype_convert(EIN_I64, &id, dtype, ids + k * bytes, 1);
        if (id < 0 || id >= rows)
            return ein__fail(&r->error, EIN_INVALID, "%s: id %lld at place %lld of '%s' is not in a table of %lld rows", n->name,
                             (long long)id, (long long)k, ein__leaf_name(r->p, &g->leaves.items[leaf], 0), (long long)rows);
    }
    return EIN_OK;
}

/* Indices that come straight from an input are checked here; kernels read nothing for others. A map of ids has all of
 * them, in some order. */
static ein_status ids_fit(ein_run *r)
{
    const graph *g = &r->p->graph;
    for (int i = 0; i < g->nodes.n; i++) {
        const node *n = &g->nodes.items[i];
        if (n->id_operand < 0) continue;
        const value_info *info = &g->values.items[ein__value_source(g, n->operands[n->id_operand])];
        if (info->kind == VALUE_LEAF && g->leaves.items[info->owner].kind == LEAF_INPUT) TRY(check_ids(r, n, info->owner));
    }
    return EIN_OK;
}

static ein_status take_state(ein_run *r)
{
    int idle = 0;
    if (!atomic_compare_exchange_strong(&r->state->busy, &idle, 1))
        return ein__fail(&r->error, EIN_INVALID, "the state is in use by another run");
    if (!r->state->undefined) return EIN_OK;
    atomic_store(&r->state->busy, 0);
    return ein__fail(&r->error, EIN_INVALID, "the state is undefined after a run that did not end; reset it");
}

static void give_state(ein_run *r, int stop)
{
    r->state->undefined = stop != 0;
    atomic_store(&r->state->busy, 0);
}

ein_status ein_run_start(ein_run *r)
{
    if (r == NULL) return EIN_INVALID;
    if (r->started) return ein__fail(&r->error, EIN_INVALID, "the run is started already");
    TRY(all_bound(r));
    TRY(scalars_fit(r));
    TRY(ids_fit(r));
    tame_scalars(r);
    if (r->state != NULL) TRY(take_state(r));
    atomic_store(&r->x.stop, 0);
    ein__error_reset(&r->x.error);
    r->started = true;
    r->p->context->target->api->start(r->p->context->target, &r->x);
    return EIN_OK;
}

ein_status ein_run_wait(ein_run *r)
{
    if (r == NULL) return EIN_INVALID;
    if (!r->started) return ein__fail(&r->error, EIN_INVALID, "the run is not started");
    r->p->context->target->api->wait(r->p->context->target, &r->x);
    r->started = false;
    int stop = atomic_load(&r->x.stop);
    if (r->state != NULL) give_state(r, stop);
    if (stop == 2) return ein__fail(&r->error, r->x.error.status, "%s", r->x.error.line);
    return stop == 1 ? ein__fail(&r->error, EIN_CANCELLED, "the run was cancelled") : EIN_OK;
}

void ein_run_cancel(ein_run *r)
{
    int none = 0;
    if (r != NULL) atomic_compare_exchange_strong(&r->x.stop, &none, 1);
}

ein_status ein_run_once(ein_run *r)
{
    TRY(ein_run_start(r));
    return ein_run_wait(r);
}

const char *ein_run_error(const ein_run *r) { return r != NULL ? r->error.line : ""; }

int64_t ein_run_tally(const ein_run *r, int device)
{
    if (r == NULL || !r->p->counting || device < 0 || device >= r->p->program.n_devices) return -1;
    return r->x.tallies[device].bytes;
}
