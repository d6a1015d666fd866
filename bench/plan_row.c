/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/plan_row.h"

#include <math.h>

#include "core/graph/canonical.h"
#include "jit/costs.h"
#include "jit/lower.h"
#include "optimizer/mesh.h"
#include "optimizer/price_plan.h"
#include "optimizer/search.h"
#include "tools/parallel.h"

#define REAL_SHARE 0.9

const char *const REGIME_NAMES[REGIMES] = {"cap1.3", "free", "real"};

typedef struct making {
    arena arena;
    graph graph;
    machine machine;
    cost_model costs;
    double slack, room;
    error *e;
} making;

/* ---- memory ------------------------------------------------------------------------------------------- */

/* All that stays on a device: parameters, states and constants; and what buffers need at most. */
static double high_water(const making *k, const plan *p, const program *lowered)
{
    double bytes[MAX_DEVICES], constants = 0, most = 0;
    ein__plan_resident(&k->graph, p, bytes);
    for (int i = 0; i < k->graph.leaves.n; i++) {
        const leaf *l = &k->graph.leaves.items[i];
        i64 size = ein__value_numel(&k->graph, l->value) * ein__dtype_bytes(k->graph.values.items[l->value].dtype);
        if (l->kind == LEAF_CONSTANT) constants += (double)size;
    }
    for (int d = 0; d < p->n_devices; d++)
        most = fmax(most, bytes[d] + constants + (double)lowered->devices[d].buffer_bytes);
    return most;
}

/* ---- plans -------------------------------------------------------------------------------------------- */

static void note(const making *k, const plan *p, planned *out)
{
    *out = (planned){.made = true, .fits = ein__plan_fullest(&k->graph, p) <= k->room, .us = p->predicted_us,
                     .bound = p->bound_us,
                     .bytes = p->predicted_bytes, .states = p->states_searched, .mesh = ein__plan_mesh(&k->graph, p),
                     .shares = ein__plan_shares(&k->graph, p)};
}

static ein_status make_own(making *k, plan_row *out)
{
    plan p;
    program lowered;
    const search_limits limits = {.slack = k->slack};
    double began = clock_seconds();
    TRY(ein__search_within(&k->arena, &k->graph, &k->machine, &k->costs, NULL, &limits, &p, k->e));
    out->search_ms = (clock_seconds() - began) * 1e3;
    TRY(ein__lower(&k->arena, &k->graph, &p, &k->machine, &lowered, k->e));
    p.predicted_bytes = lowered.remote_bytes; /* the search does not see what trees pass on */
    out->steps = lowered.n_steps;
    out->kernels = lowered.n_kernels;
    out->high_water_mb = high_water(k, &p, &lowered) * 1e-6;
    k->room = fmax(k->room, ein__plan_fullest(&k->graph, &p));
    note(k, &p, &out->own);
    return EIN_OK;
}

static ein_status make_rivals(making *k, plan_row *out)
{
    for (int i = 0; i < RIVALS; i++) {
        rival_plan r;
        arena a = {NULL};
        ein_status s = ein__rival(&a, &k->graph, &k->machine, &k->costs, k->slack, i, &r, k->e);
        if (s == EIN_OK && r.why_not == NULL) note(k, &r.plan, &out->rivals[i]);
        ein__arena_free(&a);
        TRY(s);
    }
    return EIN_OK;
}

static ein_status make(making *k, const graph *user, plan_row *out, bool *done)
{
    TRY(ein__machine_parse(&k->arena, out->machine, &k->machine, k->e));
    TRY(ein__canonicalize(user, &k->graph, k->e));
    TRY(ein__cost_model(&k->arena, &k->machine, &k->costs));
    out->devices = k->machine.n_devices;
    double share = ein__memory_room(&k->graph, out->devices, 1) - MEMORY_GRACE;
    k->slack = out->regime == CAPPED ? MEMORY_SLACK : INFINITY;
    if (out->regime == REAL && share > 0) k->slack = REAL_SHARE * k->machine.devices[0].memory_bytes / share;
    *done = out->regime != REAL || k->slack < out->devices;
    if (!*done) return EIN_OK;
    k->room = ein__memory_room(&k->graph, out->devices, k->slack);
    TRY(make_own(k, out));
    return make_rivals(k, out);
}

ein_status plan_row_make(const graph *user, const char *model, const char *machine_name, regime regime, plan_row *out,
                         bool *done, error *e)
{
    making k = {.e = e};
    *out = (plan_row){.model = model, .machine = machine_name, .regime = regime};
    ein_status s = make(&k, user, out, done);
    ein__arena_free(&k.graph.arena);
    ein__arena_free(&k.arena);
    return s == EIN_NO_MEMORY ? ein__fail(e, s, "out of memory") : s;
}

/* ---- text --------------------------------------------------------------------------------------------- */

void plan_row_header(text *out)
{
    ein__text_add(out, "model,machine,weights,devices,predicted_us,bytes,steps,kernels,states,mesh_k,shares,high_water_mb,origin");
    for (int i = 0; i < RIVALS; i++)
        ein__text_add(out, ",%s_us,%s_ratio,%s_shares", ein__rival_name(i), ein__rival_name(i), ein__rival_name(i));
}

void plan_row_key(const char *model, const char *machine, regime regime, text *out)
{
    ein__text_add(out, "\"%s\",\"%s\",%s,", model, machine, REGIME_NAMES[regime]);
}

void plan_row_line(const plan_row *r, text *out)
{
    const planned *x = &r->own;
    plan_row_key(r->model, r->machine, r->regime, out);
    ein__text_add(out, "%d,%.3f,%lld,%d,%d,%lld,%d,%.2f,%.1f,search", r->devices, x->us, (long long)x->bytes, r->steps,
                  r->kernels, (long long)x->states, x->mesh, x->shares, r->high_water_mb);
    for (int i = 0; i < RIVALS; i++) {
        const planned *y = &r->rivals[i];
        if (y->made) ein__text_add(out, ",%.3f,%.3f,%.2f", y->us, y->us / x->us, y->shares);
        else ein__text_add(out, ",,,");
    }
}
