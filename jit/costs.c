/* SPDX-License-Identifier: Apache-2.0 */
/* Time of a block: roofline, the larger of arithmetic at a fraction of peak and bytes at memory bandwidth, at least a
 * launch (units: seconds). Time of an exchange: exchange/cost.c. */
#include "jit/costs.h"

#include "exchange/exchange.h"

static ein_status exchange_cost(void *user, arena *a, int n_states, const relation *const *states, uint32_t used,
                                const merge *m, int result, ein_dtype dtype, const relation *to, double *seconds, i64 *bytes)
{
    const machine *where = user;
    exchange_problem p = {.n_states = n_states, .used = used, .merge = m, .result = result, .dtype = dtype,
                          .n_devices = where->n_devices, .to = to};
    exchange x = {0};
    for (int k = 0; k < n_states; k++) p.states[k] = states[k];
    TRY(ein__exchange_direct(a, &p, &x, NULL));
    *seconds = ein__exchange_seconds(where, &x);
    *bytes = x.total_bytes;
    return *seconds < 0 ? EIN_NO_MEMORY : EIN_OK;
}

/* Elements of a map's tensor that the box touches. */
static double box_elements(const index_map *m, const label_box *box)
{
    double n = 1;
    for (int i = 0; i < m->n; i++) {
        const term *t = &m->terms[i];
        double len = t->kind == TERM_FIXED ? 1 : t->kind == TERM_ALL ? (double)t->extent : (double)box->len[t->label];
        n *= len < (double)t->extent ? len : (double)t->extent;
    }
    return n;
}

static double compute_cost(void *user, const node *n, const label_box *boxes, int n_boxes)
{
    const machine *where = user;
    const machine_device *d = &where->devices[0];
    double points = 0, elements = 0;
    for (int b = 0; b < n_boxes; b++) {
        double volume = 1;
        for (int l = 0; l < n->spec.n_labels; l++) volume *= (double)boxes[b].len[l];
        points += volume;
        for (int o = 0; o < n->spec.n_operands; o++) elements += box_elements(&n->spec.operands[o], &boxes[b]);
        for (int r = 0; r < n->spec.n_results; r++) elements += box_elements(&n->spec.results[r], &boxes[b]);
    }
    double flops = points * (n->spec.flops > 0 ? n->spec.flops : 1.0);
    double arithmetic = flops / (where->matrix_efficiency * d->flops_f32), traffic = 4.0 * elements / d->memory_bandwidth;
    double t = arithmetic > traffic ? arithmetic : traffic;
    return t > where->launch_floor ? t : where->launch_floor;
}

cost_model ein__cost_model(const machine *m)
{
    return (cost_model){(void *)(uintptr_t)m, exchange_cost, compute_cost};
}
