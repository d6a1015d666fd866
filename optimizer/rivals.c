/* SPDX-License-Identifier: Apache-2.0 */
/* The table of rivals, and their prices. */
#include "optimizer/rivals.h"

#include <math.h>

#include "optimizer/price_plan.h"
#include "optimizer/rival.h"

static const rival *const TABLE[RIVALS] = {&ein__rival_data,    &ein__rival_data_gathered,  &ein__rival_tensor,
                                           &ein__rival_tensor_sp, &ein__rival_tensor_library, &ein__rival_context,
                                           &ein__rival_heads,   &ein__rival_mesh1,          &ein__rival_mesh2,
                                           &ein__rival_mesh3};

/* A model whose steps between devices take longer. */
typedef struct slower {
    const cost_model *model;
    double more;
} slower;

static ein_status slower_exchange(void *user, arena *a, int n_states, const relation *const *states, uint32_t used,
                                  const merge *m, int result, ein_dtype dtype, const relation *to, double *seconds,
                                  i64 *bytes)
{
    const slower *s = user;
    TRY(s->model->exchange(s->model->user, a, n_states, states, used, m, result, dtype, to, seconds, bytes));
    if (*bytes > 0) *seconds += s->more;
    return EIN_OK;
}

static double same_compute(void *user, const graph *g, const node *n, const label_box *boxes, int n_boxes)
{
    const slower *s = user;
    return s->model->compute(s->model->user, g, n, boxes, n_boxes);
}

ein_status ein__rival_price(const draft *d, double more, plan *p)
{
    slower s = {d->costs, more};
    const cost_model model = {&s, slower_exchange, same_compute};
    plan_price x;
    pricer k;
    ein__pricer_init(&k, d->g, d->n_devices, &model);
    ein_status status = ein__price_plan(&k, d->a, p, &x, d->e);
    ein__pricer_fini(&k);
    TRY(status);
    p->predicted_us = (double)x.picoseconds * 1e-6;
    p->predicted_bytes = x.bytes;
    return EIN_OK;
}

static ein_status make(const rival *r, draft *d, rival_plan *out)
{
    TRY(ein__draft_make(d));
    TRY(r->make(d, &out->plan, &out->why_not));
    if (out->why_not != NULL) return EIN_OK;
    TRY(ein__plan_check(d->g, &out->plan, d->e));
    return ein__rival_price(d, fmax(0, r->step - d->m->step_latency), &out->plan);
}

const char *ein__rival_name(int which) { return TABLE[which]->name; }

ein_status ein__rival(arena *a, const graph *g, const machine *m, const cost_model *c, double slack, int which,
                      rival_plan *out, error *e)
{
    draft d = {.a = a, .g = g, .m = m, .costs = c, .n_devices = m->n_devices, .slack = slack, .e = e};
    *out = (rival_plan){.name = TABLE[which]->name};
    ein_status s = make(TABLE[which], &d, out);
    return s == EIN_NO_MEMORY ? ein__fail(e, s, "out of memory for a rival's plan") : s;
}
