/* SPDX-License-Identifier: Apache-2.0 */
/* From a label box to loops. Labels are ordered by the strides that their loops take through memory, and
 * neighbours whose strides multiply in every view become one loop: then inner loops are long, and few
 * different texts are needed.
 *
 * The lane is the loop along which a block's threads lie. It should have unit stride where most is read or
 * written: the output's innermost label, or, if the largest operand is contiguous along an aggregated label,
 * that one. A short lane wastes threads; a longer loop takes its place then. */
#include "jit/family/parts.h"

enum { SHORT = 32 };

static const view *view_of(const nest *n, int v) { return v < n->n_in ? &n->in[v] : &n->out[v - n->n_in]; }

static i64 magnitude(i64 x) { return x < 0 ? -x : x; }

/* The stride by which loops are ordered: the first output's, or the largest of another view. */
static i64 order_stride(const loop_dim *d, int n_in, int n_views)
{
    i64 most = magnitude(d->stride[n_in]);
    if (most != 0) return most;
    for (int v = 0; v < n_views; v++)
        if (magnitude(d->stride[v]) > most) most = magnitude(d->stride[v]);
    return most;
}

static bool joins(const loop_dim *major, const loop_dim *minor, int n_views)
{
    for (int v = 0; v < n_views; v++)
        if (major->stride[v] != minor->n * minor->stride[v]) return false;
    return true;
}

/* The loops of the parallel or of the aggregated labels, major first. */
static int collect(const nest *n, bool aggregated, loop_dim *dims)
{
    int count = 0, kept = 0, n_views = n->n_in + n->n_out;
    for (int l = 0; l < n->n_labels; l++) {
        if ((n->aggregated >> l & 1) != aggregated || n->box.len[l] == 1) continue;
        loop_dim d = {.n = n->box.len[l]};
        for (int v = 0; v < n_views; v++) d.stride[v] = view_of(n, v)->stride[l];
        int at = count++;
        i64 stride = order_stride(&d, n->n_in, n_views);
        for (; at > 0 && order_stride(&dims[at - 1], n->n_in, n_views) < stride; at--) dims[at] = dims[at - 1];
        dims[at] = d;
    }
    for (int i = 0; i < count; i++) {
        if (kept > 0 && joins(&dims[kept - 1], &dims[i], n_views)) {
            dims[i].n *= dims[kept - 1].n;
            kept--;
        }
        dims[kept++] = dims[i];
    }
    return kept;
}

static i64 product(const loop_dim *dims, int n)
{
    i64 p = 1;
    for (int i = 0; i < n; i++) p *= dims[i].n;
    return p;
}

/* The input that touches most elements; without one in memory the first view, whatever it is. */
static int largest_input(const nest *n)
{
    int best = 0;
    double most = -1;
    for (int v = 0; v < n->n_in; v++) {
        double touched = 1;
        if (n->in[v].index) continue;
        for (int l = 0; l < n->n_labels; l++)
            if (n->in[v].stride[l] != 0) touched *= (double)n->box.len[l];
        if (touched > most) best = v;
        if (touched > most) most = touched;
    }
    return best;
}

static int longest(const loop_dim *dims, int n)
{
    int best = n - 1;
    for (int i = n - 2; i >= 0; i--)
        if (dims[i].n > dims[best].n) best = i;
    return best;
}

/* The innermost loop by one view's strides. */
static int innermost(const loop_dim *dims, int n, int v)
{
    int best = n - 1;
    for (int i = n - 2; i >= 0; i--) {
        i64 s = magnitude(dims[i].stride[v]), t = magnitude(dims[best].stride[v]);
        if (s != 0 && (t == 0 || s < t)) best = i;
    }
    return best;
}

static bool lane_across(const nest *n, const loop_dim *outer, int n_outer, const loop_dim *inner, int n_inner)
{
    if (n_inner == 0 || n->across) return n->across;
    if (n_outer == 0) return true;
    int v = largest_input(n), i = innermost(inner, n_inner, v);
    if (inner[i].n < SHORT) return false;
    if (product(outer, n_outer) < SHORT) return true;
    return magnitude(inner[i].stride[v]) == 1 && magnitude(outer[n_outer - 1].stride[v]) != 1;
}

static void take(loop_dim *dims, int *n, int i, loop_dim *out)
{
    *out = dims[i];
    for ((*n)--; i < *n; i++) dims[i] = dims[i + 1];
}

void ein__loops_make(const nest *n, loop_set *out)
{
    *out = (loop_set){.n_views = n->n_in + n->n_out, .lane = {.n = 1}};
    out->n_outer = collect(n, false, out->outer);
    out->n_inner = collect(n, true, out->inner);
    out->across = lane_across(n, out->outer, out->n_outer, out->inner, out->n_inner);
    if (out->across && out->n_inner > 0) {
        take(out->inner, &out->n_inner, innermost(out->inner, out->n_inner, largest_input(n)), &out->lane);
    } else if (!out->across && out->n_outer > 0) {
        int i = out->n_outer - 1;
        if (out->outer[i].n < SHORT) i = longest(out->outer, out->n_outer);
        take(out->outer, &out->n_outer, i, &out->lane);
    }
}
