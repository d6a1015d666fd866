/* SPDX-License-Identifier: Apache-2.0 */
/* Dependences between devices. Only a device itself writes its memory, and its part of the process's; others read
 * it. So there are two kinds: a remote read waits for the last write of what it reads, and a write waits for the
 * remote reads, since then, of whatever memory it overlaps. */
#include "core/plan/order.h"

#include <string.h>

/* Memory that is tracked: a piece of a place of a buffer, or a block of a state. */
typedef struct cell {
    int device;
    bool host;
    i64 offset, bytes;        /* of the buffer; states: offset = -1 - number, bytes = 1 */
    int whole;                /* first cell of the place: its other pieces are elsewhere */
    int writer;               /* event, -1 */
    int readers[MAX_DEVICES]; /* last remote reader since, -1 */
} cell;

typedef struct tracker {
    arena *a;
    const program *p;
    error *e;
    struct { int n, room; cell *items; } cells;
    int *of_buffer;   /* buffer * 2 + place -> first cell of so many pieces: */
    int *n_pieces;    /* per buffer */
    struct { int n, room; struct state_cell { int leaf, device, block, cell; } *items; } states;
    struct { int n, room; event *items; } events;
    struct { int n, room; dependence *items; } found;
    int *iteration;   /* per loop */
    int **overlaps, *n_overlaps; /* per cell */
} tracker;

static ein_status add_cells(tracker *t, int device, bool host, i64 offset, i64 bytes, int n, int *out)
{
    cell c = {.device = device, .host = host, .offset = offset, .bytes = bytes, .whole = t->cells.n, .writer = -1};
    for (int d = 0; d < MAX_DEVICES; d++) c.readers[d] = -1;
    *out = t->cells.n;
    for (int i = 0; i < n; i++) PUSH(t->a, &t->cells, c);
    return EIN_OK;
}

/* As many as any buffer that shares the places has. */
static ein_status count_pieces(tracker *t)
{
    const program *p = t->p;
    NEW(t->a, t->n_pieces, p->n_buffers);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < p->n_buffers; i++) {
            int *mine = &t->n_pieces[i], *mate = p->buffers[i].pair >= 0 ? &t->n_pieces[p->buffers[i].pair] : mine;
            if (*mine < p->buffers[i].pieces) *mine = p->buffers[i].pieces;
            if (*mine < 1) *mine = 1;
            if (*mate < *mine) *mate = *mine;
            else *mine = *mate;
        }
    return EIN_OK;
}

static ein_status add_buffer(tracker *t, int i, int place)
{
    const buffer *b = &t->p->buffers[i];
    return add_cells(t, b->device, b->host, b->offset[place], b->first < 0 ? 0 : b->bytes, t->n_pieces[i],
                     &t->of_buffer[2 * i + place]);
}

static ein_status add_buffer_cells(tracker *t)
{
    const program *p = t->p;
    TRY(count_pieces(t));
    NEW(t->a, t->of_buffer, 2 * p->n_buffers);
    for (int i = 0; i < p->n_buffers; i++) {
        const buffer *b = &p->buffers[i];
        for (int k = 0; k < 2; k++) {
            if (b->pair >= 0) t->of_buffer[2 * i + k] = t->of_buffer[2 * b->pair + k];
            else if (k == 1 && b->loop < 0) t->of_buffer[2 * i + 1] = t->of_buffer[2 * i];
            else TRY(add_buffer(t, i, k));
        }
    }
    return EIN_OK;
}

static ein_status state_cell_of(tracker *t, const place *x, int *out)
{
    for (int i = 0; i < t->states.n; i++) {
        const struct state_cell *s = &t->states.items[i];
        if (s->leaf == x->index && s->device == x->device && s->block == x->block) {
            *out = s->cell;
            return EIN_OK;
        }
    }
    struct state_cell s = {x->index, x->device, x->block, 0};
    TRY(add_cells(t, x->device, false, -1 - t->states.n, 1, 1, &s.cell));
    t->cells.items[s.cell].writer = -2; /* written before the run */
    *out = s.cell;
    PUSH(t->a, &t->states, s);
    return EIN_OK;
}

/* The cells of a pointer argument's memory: n from *first on; none where nothing is ever written. */
static ein_status cells_of(tracker *t, const arg *x, int *first, int *n)
{
    *n = 0;
    if (x->kind != ARG_POINTER) return EIN_OK;
    *n = x->place.space == SPACE_LEAF;
    if (*n > 0) return state_cell_of(t, &x->place, first);
    if (x->place.space != SPACE_BUFFER) return EIN_OK;
    const buffer *b = &t->p->buffers[x->place.index];
    int k = b->loop >= 0 ? (t->iteration[b->loop] + b->phase) % 2 : 0;
    *first = t->of_buffer[2 * x->place.index + k];
    *n = t->n_pieces[x->place.index];
    return EIN_OK;
}

static bool touches(const arg *x, int piece) { return x->pieces == 0 || (x->pieces >> piece & 1) != 0; }

static bool cells_overlap(const cell *x, const cell *y)
{
    return x->device == y->device && x->host == y->host && x->whole != y->whole && x->bytes > 0 && y->bytes > 0 &&
           x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

/* Cells of one device, compared pair by pair. */
static ein_status overlaps_on(tracker *t, const int *mine, int n, int *scratch)
{
    for (int i = 0; i < n; i++) {
        int m = 0, c = mine[i];
        for (int j = 0; j < n; j++)
            if (i == j || cells_overlap(&t->cells.items[c], &t->cells.items[mine[j]])) scratch[m++] = mine[j];
        NEW(t->a, t->overlaps[c], m);
        memcpy(t->overlaps[c], scratch, (size_t)m * sizeof *scratch);
        t->n_overlaps[c] = m;
    }
    return EIN_OK;
}

static ein_status find_overlaps(tracker *t)
{
    int *mine, *scratch;
    NEW(t->a, t->overlaps, t->cells.n);
    NEW(t->a, t->n_overlaps, t->cells.n);
    NEW(t->a, mine, t->cells.n);
    NEW(t->a, scratch, t->cells.n);
    for (int d = 0; d < t->p->n_devices; d++) {
        int n = 0;
        for (int c = 0; c < t->cells.n; c++)
            if (t->cells.items[c].device == d) mine[n++] = c;
        TRY(overlaps_on(t, mine, n, scratch));
    }
    return EIN_OK;
}

/* ---- events ------------------------------------------------------------------------------------------- */

static ein_status depend(tracker *t, int from, int to)
{
    dependence d = {from, to};
    if (from < 0 || t->events.items[from].device == t->events.items[to].device) return EIN_OK;
    PUSH(t->a, &t->found, d);
    return EIN_OK;
}

static ein_status read_cell(tracker *t, int c, int me)
{
    cell *x = &t->cells.items[c];
    const step *s = t->events.items[me].step;
    if (x->writer == -1)
        return ein__fail(t->e, EIN_INTERNAL, "program: step %d (%s) on device %d reads what nothing wrote", s->order,
                         s->what, s->device);
    TRY(depend(t, x->writer, me));
    if (s->device != x->device) x->readers[s->device] = me;
    return EIN_OK;
}

static ein_status write_cell(tracker *t, int c, int me)
{
    const step *s = t->events.items[me].step;
    if (s->device != t->cells.items[c].device)
        return ein__fail(t->e, EIN_INTERNAL, "program: step %d (%s) on device %d writes memory of device %d", s->order,
                         s->what, s->device, t->cells.items[c].device);
    for (int i = 0; i < t->n_overlaps[c]; i++) {
        cell *y = &t->cells.items[t->overlaps[c][i]];
        for (int d = 0; d < t->p->n_devices; d++) {
            TRY(depend(t, y->readers[d], me));
            y->readers[d] = -1;
        }
        if (t->overlaps[c][i] != c && y->writer != -2) y->writer = -1; /* overwritten: may not be read any more */
    }
    t->cells.items[c].writer = me;
    return EIN_OK;
}

static ein_status run_step(tracker *t, const step *s, int device, int index, int iteration)
{
    int me = t->events.n;
    event ev = {s, device, index, iteration};
    PUSH(t->a, &t->events, ev);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0, first, n; i < s->n_args; i++) {
            const arg *x = &s->args[i];
            TRY(cells_of(t, x, &first, &n));
            for (int c = 0; c < n; c++) {
                if (!touches(x, c)) continue;
                if (pass == 0 && !x->written) TRY(read_cell(t, first + c, me));
                if (pass == 1 && x->written) TRY(write_cell(t, first + c, me));
            }
        }
    return EIN_OK;
}

/* All devices' steps of region r in the total order. */
static ein_status run_region(tracker *t, int r, int iteration)
{
    int at[MAX_DEVICES];
    for (int d = 0; d < t->p->n_devices; d++) at[d] = t->p->devices[d].regions[r].lo;
    for (;;) {
        int next = -1;
        for (int d = 0; d < t->p->n_devices; d++)
            if (at[d] < t->p->devices[d].regions[r].hi &&
                (next < 0 || t->p->devices[d].steps[at[d]].order < t->p->devices[next].steps[at[next]].order))
                next = d;
        if (next < 0) return EIN_OK;
        TRY(run_step(t, &t->p->devices[next].steps[at[next]], next, at[next], iteration));
        at[next]++;
    }
}

static ein_status all_cells(tracker *t)
{
    TRY(add_buffer_cells(t));
    for (int d = 0; d < t->p->n_devices; d++)
        for (int i = 0; i < t->p->devices[d].n_steps; i++)
            for (int k = 0, first, n; k < t->p->devices[d].steps[i].n_args; k++)
                TRY(cells_of(t, &t->p->devices[d].steps[i].args[k], &first, &n));
    return find_overlaps(t);
}

ein_status ein__program_order(arena *a, const program *p, event_order *out, error *e)
{
    tracker t = {.a = a, .p = p, .e = e};
    NEW(a, t.iteration, p->n_loops);
    TRY(all_cells(&t));
    for (int r = 0; r < p->n_regions; r++) {
        const region *x = &p->devices[0].regions[r];
        for (int i = 0; i < ein__region_unrolled(x); i++) {
            if (x->loop >= 0) t.iteration[x->loop] = i;
            TRY(run_region(&t, r, i));
        }
    }
    *out = (event_order){t.events.n, t.events.items, t.found.n, t.found.items};
    return EIN_OK;
}

i64 ein__program_count(const program *p, int device, int step_index, int iteration, bool unrolled)
{
    i64 count = 0;
    for (int r = 0; r < p->n_regions; r++) {
        const region *x = &p->devices[device].regions[r];
        if (step_index < x->hi) return count + (i64)iteration * (x->hi - x->lo) + (step_index - x->lo) + 1;
        count += (i64)(unrolled ? ein__region_unrolled(x) : x->count) * (x->hi - x->lo);
    }
    return count;
}
