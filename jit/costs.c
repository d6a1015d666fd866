/* SPDX-License-Identifier: Apache-2.0 */
/* Time of a block: roofline, the larger of arithmetic at a fraction of peak and bytes at memory bandwidth, at least a
 * launch (units: seconds). Products and attention of bf16 and f16 run on the matrix units. Time of an exchange: that
 * of the one that lowering will make (exchange/choose.c). All devices are priced as the slowest one. */
#include "jit/costs.h"

#include <math.h>

#include "exchange/exchange.h"

typedef struct prices {
    const machine *machine;
    const routes *routes;
    double flops, narrow, bandwidth; /* per second, of the slowest device; narrow: products of bf16 and f16 */
} prices;

/* Attention reaches this much of the rate of products: its exponentials run beside them. */
#define ATTENTION_SHARE 0.75

static ein_status exchange_cost(void *user, arena *a, int n_states, const relation *const *states, uint32_t used,
                                const merge *m, int result, ein_dtype dtype, const relation *to, double *seconds, i64 *bytes)
{
    const prices *p = user;
    exchange_problem problem = {.n_states = n_states, .used = used, .merge = m, .result = result, .dtype = dtype,
                                .n_devices = p->machine->n_devices, .to = to};
    for (int k = 0; k < n_states; k++) problem.states[k] = states[k];
    return ein__exchange_estimate(a, &problem, p->routes, seconds, bytes);
}

/* Indices of a term that the box touches. A window of two labels touches many of them more than once. */
static double term_indices(const term *t, const label_box *box)
{
    if (t->kind == TERM_FIXED) return 1;
    if (t->kind == TERM_ALL) return (double)t->extent;
    double len = (double)box->len[t->label];
    if (t->kind == TERM_WINDOW && t->label2 >= 0) len *= (double)box->len[t->label2];
    return fmin(len, (double)t->extent);
}

/* Bytes of a value that the box touches through a map. */
static double box_bytes(const graph *g, value v, const index_map *m, const label_box *box)
{
    double n = (double)ein__dtype_bytes(g->values.items[v].dtype);
    for (int i = 0; i < m->n; i++) n *= term_indices(&m->terms[i], box);
    return n;
}

static double box_volume(const spec *s, const label_box *box)
{
    double volume = 1;
    for (int l = 0; l < s->n_labels; l++) volume *= (double)box->len[l];
    return volume;
}

static double triangle(double k) { return k > 0 ? k * (k + 1) / 2 : 0; }

/* Pairs of x < n_x and y < n_y with y - x >= least. */
static double pairs_apart(double n_x, double n_y, double least)
{
    least = fmin(fmax(least, 1 - n_x), n_y);
    return triangle(n_y - least) - triangle(n_y - least - n_x) - triangle(-least) + triangle(-least - n_x);
}

/* The shares of a box's pairs of query and key that the causal mask and a sliding window leave, and of its keys. If the
 * position is known only in the run, the box lies as it has the most of them. */
static void seen_shares(const node *n, const label_box *box, double *pairs, double *keys)
{
    const attention_attrs *x = &n->attention;
    double s = (double)box->len[ATT_S], t = (double)box->len[ATT_T], window = (double)x->window;
    double first = (double)(box->lo[ATT_S] - box->lo[ATT_T]);
    *pairs = *keys = 1;
    if (n->kind != OP_ATTENTION || (x->window == 0 && !x->causal) || s <= 0 || t <= 0) return;
    if (x->position >= 0) {
        if (!x->causal || x->window == 0) return;
        first = floor((t + window - s) / 2);
    }
    *pairs = x->window > 0 ? pairs_apart(s, t, first + 1 - window) : s * t;
    if (x->causal) *pairs -= pairs_apart(s, t, first + 1);
    *pairs /= s * t;
    double low = x->window > 0 ? fmax(0, first + 1 - window) : 0, high = x->causal ? fmin(t, first + s) : t;
    *keys = fmax(0, high - low) / t;
}

/* Floating-point operations and bytes touched. A gather reads the rows it was asked for, not the table; an
 * append touches the rows it writes, not the state. */
static void box_work(const graph *g, const node *n, const label_box *box, double *flops, double *bytes)
{
    const spec *s = &n->spec;
    if (n->kind == OP_GATHER || n->kind == OP_APPEND) {
        bool gather = n->kind == OP_GATHER;
        value v = gather ? n->results[0] : n->operands[1];
        double moved = box_bytes(g, v, gather ? &s->results[0] : &s->operands[1], box);
        *flops += moved / (double)ein__dtype_bytes(g->values.items[v].dtype);
        *bytes += 2 * moved;
        return;
    }
    double pairs, keys;
    seen_shares(n, box, &pairs, &keys);
    *flops += box_volume(s, box) * (s->flops > 0 ? s->flops : 1.0) * pairs;
    for (int o = 0; o < s->n_operands; o++)
        *bytes += box_bytes(g, n->operands[o], &s->operands[o], box) * (o > 0 ? keys : 1);
    for (int r = 0; r < s->n_results; r++) *bytes += box_bytes(g, n->results[r], &s->results[r], box);
}

static bool is_narrow(const graph *g, value v)
{
    ein_dtype d = g->values.items[v].dtype;
    return d == EIN_BF16 || d == EIN_F16;
}

static double rate_of(const prices *p, const graph *g, const node *n)
{
    bool attention = n->kind == OP_ATTENTION;
    if ((!n->product && !attention) || !is_narrow(g, n->operands[0]) || !is_narrow(g, n->operands[1])) return p->flops;
    return fmax(p->flops, (attention ? ATTENTION_SHARE : 1) * p->narrow);
}

static double compute_cost(void *user, const graph *g, const node *n, const label_box *boxes, int n_boxes)
{
    const prices *p = user;
    double flops = 0, bytes = 0;
    for (int b = 0; b < n_boxes; b++) box_work(g, n, &boxes[b], &flops, &bytes);
    return fmax(p->machine->launch_floor, fmax(flops / rate_of(p, g, n), bytes / p->bandwidth));
}

ein_status ein__cost_model(arena *a, const machine *m, cost_model *out)
{
    prices *p;
    NEW(a, p, 1);
    *p = (prices){.machine = m, .flops = INFINITY, .narrow = INFINITY, .bandwidth = INFINITY};
    TRY(ein__routes_make(a, m, &p->routes));
    for (int d = 0; d < m->n_devices; d++) {
        p->flops = fmin(p->flops, m->matrix_efficiency * m->devices[d].flops_f32);
        p->narrow = fmin(p->narrow, m->matrix_efficiency * m->devices[d].flops_f16);
        p->bandwidth = fmin(p->bandwidth, m->devices[d].memory_bandwidth);
    }
    *out = (cost_model){p, exchange_cost, compute_cost};
    return EIN_OK;
}
