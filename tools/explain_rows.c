/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes are those of the lowered program; times, and all that concerns other plans, are prices. */
#include "tools/explain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/costs.h"
#include "optimizer/mesh.h"
#include "optimizer/rivals.h"
#include "tools/args.h"

static double us(i64 picoseconds) { return (double)picoseconds * 1e-6; }

ein_status explained_open(explained *x, ein_program *p)
{
    *x = (explained){.program = p};
    ein__pricer_init(&x->pricer, &p->graph, p->plan.n_devices, &x->costs);
    TRY(ein__cost_model(&x->arena, &p->context->machine, &x->costs));
    return ein__price_plan(&x->pricer, &x->arena, &p->plan, &x->price, &x->error);
}

void explained_close(explained *x)
{
    ein__pricer_fini(&x->pricer);
    ein__arena_free(&x->arena);
    ein__error_reset(&x->error);
}

/* ---- words -------------------------------------------------------------------------------------------- */

/* Extents by parts, and copies: "64 x 4096/8", "8 partials of 4096 on 2 devices each". */
static void short_layout(const relation *r, text *out)
{
    int copies = 0;
    if (r->n_partials > 1) ein__text_add(out, "%d partials of ", r->n_partials);
    for (int i = 0; i < r->n_axes; i++) {
        ein__text_add(out, "%s%lld", i > 0 ? " x " : "", (long long)r->axes[i].extent);
        if (r->axes[i].n_parts > 1) ein__text_add(out, "/%d", r->axes[i].n_parts);
    }
    if (r->n_axes == 0) ein__text_add(out, "1");
    for (int i = 0; i < r->n_blocks * r->n_partials; i++) {
        int n = __builtin_popcount(r->devices[i]);
        if (n > copies) copies = n;
    }
    if (copies > 1) ein__text_add(out, " on %d devices each", copies);
}

/* What the op leaves behind of its first result: partial states, or the result. */
static ein_status layout_of(arena *a, const node *n, const choice *c, relation *out)
{
    bool partial = ein__choice_cuts(c, ein__spec_aggregated(&n->spec));
    return partial ? ein__relation_state(a, &n->spec, 0, 0, c, out) : ein__relation_finished(a, &n->spec, 0, c, out);
}

static const char *words(arena *a, text *t)
{
    const char *s = ein__text_status(t) == EIN_OK ? ein__arena_strdup(a, ein__text_get(t)) : NULL;
    ein__text_free(t);
    return s;
}

static const char *choice_words(arena *a, const node *n, const choice *c)
{
    text t = {0};
    ein__explain_choice(n, c, &t);
    return words(a, &t);
}

static const char *layout_words(arena *a, const relation *r, bool exact)
{
    text t = {0};
    if (exact) ein__relation_print(r, &t);
    else short_layout(r, &t);
    return words(a, &t);
}

/* ---- ops ---------------------------------------------------------------------------------------------- */

/* Bytes that the node's steps touch in other devices' memory in one run; -1: those of leaves and outputs. */
static i64 bytes_of(const program *p, int owner)
{
    i64 bytes = 0;
    for (int d = 0; d < p->n_devices; d++)
        for (int r = 0; r < p->n_regions; r++)
            for (int i = p->devices[d].regions[r].lo; i < p->devices[d].regions[r].hi; i++) {
                const step *s = &p->devices[d].steps[i];
                if (s->node == owner) bytes += s->remote_bytes * p->devices[d].regions[r].count;
            }
    return bytes;
}

static json_t *maybe_number(const double *v) { return v != NULL ? json_real(*v) : json_null(); }

static json_t *maybe_string(const char *s) { return s != NULL ? json_string(s) : json_null(); }

/* The name of the first parameter that the node reads, in a loop that of the first iteration; NULL: it reads none. */
static const char *weight_of(const ein_program *p, int i)
{
    const node *n = &p->graph.nodes.items[i];
    for (int o = 0; o < n->spec.n_operands; o++) {
        const value_info *v = &p->graph.values.items[ein__value_source(&p->graph, n->operands[o])];
        if (v->kind != VALUE_LEAF || p->graph.leaves.items[v->owner].kind != LEAF_PARAMETER) continue;
        return ein__leaf_name(p, &p->graph.leaves.items[v->owner], 0);
    }
    return NULL;
}

/* `node` -1: no op. Times of all of its runs; the runner-up's is the whole plan's. */
static json_t *row_of(int node, const char *op, int times, const char *cut, const char *layout, i64 bytes,
                      const double *predicted, const char *runner_up, const double *runner_up_us, const char *weight)
{
    return json_pack("{s:o, s:s, s:i, s:s, s:s, s:I, s:o, s:o, s:o, s:o}", "node", node >= 0 ? json_integer(node) : json_null(),
                     "op", op, "times", times, "cut", cut, "layout", layout, "bytes", (json_int_t)bytes, "predicted_us",
                     maybe_number(predicted), "runner_up", maybe_string(runner_up), "runner_up_us",
                     maybe_number(runner_up_us), "weight", maybe_string(weight));
}

static ein_status op_row(explained *x, arena *a, int i, report *r)
{
    const ein_program *p = x->program;
    const node *n = &p->graph.nodes.items[i];
    const part_price *part = &x->price.nodes[i];
    candidate_list all;
    relation lies;
    TRY(ein__candidates(&x->pricer, a, &p->plan, i, &all, &x->error));
    TRY(layout_of(a, n, &p->plan.nodes[i], &lies));
    const candidate *second = ein__runner_up(&all);
    const char *cut = choice_words(a, n, &p->plan.nodes[i]), *layout = layout_words(a, &lies, r->json);
    const char *other = second != NULL ? choice_words(a, n, &second->choice) : NULL;
    double own = us(part->compute + part->exchange) * part->times, price = second != NULL ? us(second->picoseconds) : 0;
    if (cut == NULL || layout == NULL || (second != NULL && other == NULL)) return EIN_NO_MEMORY;
    report_row(r, row_of(i, n->name, part->times, cut, layout, bytes_of(&p->program, i), &own, other,
                         second != NULL ? &price : NULL, weight_of(p, i)));
    return EIN_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------- */

typedef struct memory { double leaves, buffers; } memory;

/* Parameters, states and constants; and what the program's buffers need at most. */
static memory memory_of(const ein_program *p, int device)
{
    double resident[MAX_DEVICES];
    memory m = {0, (double)p->program.devices[device].buffer_bytes};
    ein__plan_resident(&p->graph, &p->plan, resident);
    m.leaves = resident[device];
    for (int i = 0; i < p->graph.leaves.n; i++) {
        const leaf *l = &p->graph.leaves.items[i];
        const relation *r = &p->plan.leaves[i];
        if (l->kind != LEAF_CONSTANT) continue;
        for (int b = 0; b < r->n_blocks; b++)
            if ((r->devices[b] & DEV(device)) != 0)
                m.leaves += (double)(ein__block_numel(r, b) * ein__dtype_bytes(p->graph.values.items[l->value].dtype));
    }
    return m;
}

ein_status explained_memory(const explained *x, report *r)
{
    for (int d = 0; d < x->program->plan.n_devices; d++) {
        memory m = memory_of(x->program, d);
        report_row(r, json_pack("{s:i, s:f, s:f, s:f}", "device", d, "weights_mb", m.leaves * 1e-6, "buffers_mb",
                                m.buffers * 1e-6, "high_water_mb", (m.leaves + m.buffers) * 1e-6));
    }
    return EIN_OK;
}

static json_t *memory_list(const explained *x)
{
    json_t *list = json_array();
    for (int d = 0; d < x->program->plan.n_devices; d++) {
        memory m = memory_of(x->program, d);
        json_array_append_new(list, json_real(m.leaves + m.buffers));
    }
    return list;
}

/* ---- rivals ------------------------------------------------------------------------------------------- */

static json_t *rival_row(const explained *x, const rival_plan *y)
{
    const ein_program *p = x->program;
    double own = us(x->price.picoseconds);
    if (y->why_not != NULL)
        return json_pack("{s:s, s:o, s:o, s:o, s:o, s:s}", "rival", y->name, "predicted_us", maybe_number(NULL), "ratio",
                         maybe_number(NULL), "bytes", json_null(), "shares", maybe_number(NULL), "note", y->why_not);
    double ratio = own > 0 ? y->plan.predicted_us / own : 0;
    return json_pack("{s:s, s:f, s:f, s:I, s:f, s:s}", "rival", y->name, "predicted_us", y->plan.predicted_us, "ratio", ratio,
                     "bytes", (json_int_t)y->plan.predicted_bytes, "shares", ein__plan_shares(&p->graph, &y->plan), "note", "");
}

/* Calls `take` with each rival's row. */
static ein_status each_rival(explained *x, void (*take)(void *to, json_t *row), void *to)
{
    const ein_program *p = x->program;
    double room = fmax(ein__memory_room(&p->graph, p->plan.n_devices, 0), ein__plan_fullest(&p->graph, &p->plan));
    double own = us(x->price.picoseconds);
    x->best_rival = NULL;
    for (int i = 0; i < RIVALS; i++) {
        rival_plan y;
        TRY(ein__rival(&x->arena, &p->graph, &p->context->machine, &x->costs, 0, i, &y, &x->error));
        take(to, rival_row(x, &y));
        if (y.why_not != NULL || ein__plan_fullest(&p->graph, &y.plan) > room || own <= 0) continue;
        if (x->best_rival != NULL && y.plan.predicted_us >= x->best_ratio * own) continue;
        x->best_rival = y.name;
        x->best_ratio = y.plan.predicted_us / own;
    }
    return EIN_OK;
}

static void to_report(void *r, json_t *row) { report_row(r, row); }

static void to_list(void *list, json_t *row) { json_array_append_new(list, row); }

ein_status explained_rivals(explained *x, report *r) { return each_rival(x, to_report, r); }

/* ---- all of it ---------------------------------------------------------------------------------------- */

static ein_status total_row(explained *x, report *r)
{
    const ein_program *p = x->program;
    double all = us(x->price.picoseconds);
    json_t *row = row_of(-1, "total", 1, "", "", p->program.remote_bytes, &all, NULL, NULL, NULL);
    if (!r->json || row == NULL) {
        report_row(r, row);
        return EIN_OK;
    }
    json_t *list = json_array();
    ein_status s = each_rival(x, to_list, list);
    json_object_set_new(row, "memory_bytes", memory_list(x));
    json_object_set_new(row, "mesh_k", json_integer(ein__plan_mesh(&p->graph, &p->plan)));
    json_object_set_new(row, "shares", json_real(ein__plan_shares(&p->graph, &p->plan)));
    json_object_set_new(row, "best_rival", maybe_string(x->best_rival));
    json_object_set_new(row, "best_rival_ratio", maybe_number(x->best_rival != NULL ? &x->best_ratio : NULL));
    json_object_set_new(row, "rivals", list);
    report_row(r, row);
    return s;
}

ein_status explained_ops(explained *x, report *r)
{
    const graph *g = &x->program->graph;
    double ends = us(x->price.ends.exchange);
    for (int i = 0; i < g->nodes.n; i++) {
        arena a = {NULL};
        ein_status s = ein__node_is_view(&g->nodes.items[i]) ? EIN_OK : op_row(x, &a, i, r);
        ein__arena_free(&a);
        TRY(s);
    }
    report_row(r, row_of(-1, "inputs and outputs", 1, "", "", bytes_of(&x->program->program, -1), &ends, NULL, NULL, NULL));
    return total_row(x, r);
}

/* ---- one op ------------------------------------------------------------------------------------------- */

ein_status explained_why(explained *x, int index, report *r)
{
    const ein_program *p = x->program;
    const node *n = &p->graph.nodes.items[index];
    candidate_list all;
    TRY(ein__candidates(&x->pricer, &x->arena, &p->plan, index, &all, &x->error));
    for (int i = 0; i < all.n; i++) {
        const candidate *c = &all.items[i];
        const char *cut = choice_words(&x->arena, n, &c->choice);
        if (cut == NULL) return EIN_NO_MEMORY;
        report_row(r, json_pack("{s:s, s:s, s:s, s:i, s:f, s:f, s:I, s:f, s:f, s:f}", "op", n->name, "note",
                                c->chosen  ? "chosen"
                                : !c->fits ? "does not fit"
                                           : "",
                                "cut", cut, "times", c->part.times, "compute_us", us(c->part.compute), "fetch_us",
                                us(c->part.exchange), "fetch_bytes", (json_int_t)c->part.bytes, "plan_us", us(c->picoseconds),
                                "more_us", us(c->picoseconds - x->price.picoseconds), "resident_mb", c->resident * 1e-6));
    }
    return EIN_OK;
}

int explained_node(const explained *x, const char *name)
{
    const graph *g = &x->program->graph;
    char *end, list[200] = "";
    long number = strtol(name, &end, 10);
    int found = -1, n = 0;
    if (end != name && *end == 0) {
        if (number >= 0 && number < g->nodes.n && !ein__node_is_view(&g->nodes.items[number])) return (int)number;
        complain(0, "--why %s: there is no such node, or it is a view", name);
        return -1;
    }
    for (int i = 0; i < g->nodes.n; i++) {
        size_t at = strlen(list);
        const char *weight = weight_of(x->program, i);
        if (ein__node_is_view(&g->nodes.items[i])) continue;
        if (strcmp(g->nodes.items[i].name, name) != 0 && (weight == NULL || strstr(weight, name) == NULL)) continue;
        snprintf(list + at, sizeof list - at, "%s%d", n++ > 0 ? ", " : "", i);
        found = i;
    }
    if (n == 1) return found;
    if (n == 0) complain(0, "--why %s: no op of that name, or of a weight with that in its name", name);
    else complain(0, "--why %s: nodes %s; name one by its number", name, list);
    return -1;
}
