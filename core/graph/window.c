/* SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/window.h"

#include <inttypes.h>

#include "core/graph/views.h"

/* From a window's first element to its last. */
static i64 span(const window *w) { return w->dilation * (w->kernel - 1) + 1; }

static i64 floor_div(i64 a, i64 b) { return a / b - (a % b < 0); }

static ein_status check(graph *g, const char *call, int dimension, const window *w)
{
    const i64 most = (i64)1 << 20;
    if (w->kernel < 1 || w->kernel > most)
        REFUSE(EIN_SHAPE, "%s: kernel of %" PRId64 " along dimension %d", call, w->kernel, dimension);
    if (w->stride < 1 || w->stride > most || w->dilation < 1 || w->dilation > most)
        REFUSE(EIN_INVALID, "%s: stride %" PRId64 " and dilation %" PRId64 " along dimension %d", call, w->stride,
               w->dilation, dimension);
    if (w->before < 0 || w->before > most || w->after < -w->before || w->after > most)
        REFUSE(EIN_INVALID, "%s: padding of %" PRId64 " and, behind, %" PRId64 " more along dimension %d", call,
               w->before, w->after, dimension);
    return EIN_OK;
}

ein_status ein__window_make(graph *g, const char *call, int dimension, bool ceil, window *w)
{
    TRY(check(g, call, dimension, w));
    w->after += w->before;
    i64 padded = w->before + w->in + w->after;
    w->out = floor_div(padded - span(w) + (ceil ? w->stride - 1 : 0), w->stride) + 1;
    if (ceil && (w->out - 1) * w->stride >= w->in + w->before) w->out--;
    if (w->out < 1)
        REFUSE(EIN_SHAPE, "%s: windows of %" PRId64 " on %" PRId64 " elements of dimension %d, padding included", call,
               span(w), padded, dimension);
    i64 end = (w->out - 1) * w->stride + span(w);
    w->excess = end > padded ? end - padded : 0;
    w->after += w->excess;
    return EIN_OK;
}

i64 ein__window_padded(const window *w) { return w->before + w->in + w->after; }

ein_status ein__windows_pad(graph *g, const char *call, value x, int n, const window *w, double number, value *out)
{
    i64 before[EIN_MAX_RANK] = {0}, after[EIN_MAX_RANK] = {0};
    int first = g->values.items[x].rank - n;
    for (int i = 0; i < n; i++) {
        before[first + i] = w[i].before;
        after[first + i] = w[i].after;
    }
    return ein__pad_add(g, call, x, before, after, number, out);
}

bool ein__window_tiles(const window *w)
{
    return w->stride == w->kernel && w->dilation == 1 && ein__window_padded(w) == w->out * w->kernel;
}

void ein__window_terms(const spec *s, index_map *m, const window *w, int windows, int places)
{
    if (places >= 0 && ein__window_tiles(w)) {
        ein__term_label(s, m, windows);
        ein__term_label(s, m, places);
        return;
    }
    ein__term_window(s, m, windows, w->stride, places, w->dilation, ein__window_padded(w), 0);
}
