/* SPDX-License-Identifier: Apache-2.0 */
/* Verifier of programs: memory of live buffers, order of all accesses. It trusts nothing that lowering knew. */
#include <string.h>

#include "core/plan/order.h"

static ein_status check_memory(const program *p, error *e)
{
    for (int i = 0; i < p->n_buffers; i++) {
        const buffer *x = &p->buffers[i];
        if (x->first < 0 || x->pair >= 0) continue;
        for (int kx = 0; kx < (x->loop >= 0 ? 2 : 1); kx++) {
            const device_program *on = &p->devices[x->device];
            i64 room = x->host ? on->host_bytes : on->buffer_bytes;
            if (x->offset[kx] < 0 || x->offset[kx] % 256 != 0 || x->offset[kx] + x->bytes > room)
                return ein__fail(e, EIN_INTERNAL, "program: buffer %d at %lld is misaligned or outside", i,
                                 (long long)x->offset[kx]);
            for (int j = 0; j <= i; j++) {
                const buffer *y = &p->buffers[j];
                if (y->first < 0 || y->pair >= 0 || y->device != x->device || y->host != x->host) continue;
                if (i != j && (y->last < x->first || x->last < y->first)) continue;
                for (int ky = 0; ky < (y->loop >= 0 ? 2 : 1); ky++) {
                    if ((i == j && kx <= ky) || x->offset[kx] >= y->offset[ky] + y->bytes ||
                        y->offset[ky] >= x->offset[kx] + x->bytes)
                        continue;
                    return ein__fail(e, EIN_INTERNAL, "program: live buffers %d and %d overlap on device %d", j, i,
                                     x->device);
                }
            }
        }
    }
    return EIN_OK;
}

static ein_status check_wait(const program *p, const step *s, const wait *x, error *e)
{
    if (x->device < 0 || x->device >= p->n_devices || x->step < 0 || x->step >= p->devices[x->device].n_steps)
        return ein__fail(e, EIN_INTERNAL, "program: step %d waits for step %d of device %d", s->order, x->step, x->device);
    const step *source = &p->devices[x->device].steps[x->step];
    bool earlier = source->region < s->region || (source->region == s->region && (x->lag > 0 || source->order < s->order));
    if (x->lag < 0 || !earlier) return ein__fail(e, EIN_INTERNAL, "program: step %d waits for a later step", s->order);
    return EIN_OK;
}

/* Waits go back in the total order, and so does every device's list: there is no cycle. */
static ein_status check_waits(const program *p, error *e)
{
    for (int d = 0; d < p->n_devices; d++)
        for (int i = 0; i < p->devices[d].n_steps; i++) {
            const step *s = &p->devices[d].steps[i];
            if (i > 0 && (s[-1].order >= s->order || s[-1].region > s->region))
                return ein__fail(e, EIN_INTERNAL, "program: step %d of device %d stands before step %d", s[-1].order, d,
                                 s->order);
            for (int k = 0; k < s->n_waits; k++) TRY(check_wait(p, s, &s->waits[k], e));
        }
    return EIN_OK;
}

/* What a device knows to be finished, as counts of completed steps; the run's own counters. */
typedef struct knowledge { i64 of[MAX_DEVICES]; } knowledge;

static void apply_waits(const program *p, const event *ev, knowledge *mine, knowledge *const *history)
{
    for (int k = 0; k < ev->step->n_waits; k++) {
        const wait *x = &ev->step->waits[k];
        const step *source = &p->devices[x->device].steps[x->step];
        int last = ein__region_unrolled(&p->devices[x->device].regions[source->region]) - 1;
        int iteration = source->region == ev->step->region ? ev->iteration - x->lag : last;
        if (iteration < 0) continue;
        i64 count = ein__program_count(p, x->device, x->step, iteration, true);
        if (count > mine->of[x->device]) mine->of[x->device] = count;
        const knowledge *theirs = &history[x->device][iteration * p->devices[x->device].n_steps + x->step];
        for (int d = 0; d < p->n_devices; d++)
            if (theirs->of[d] > mine->of[d]) mine->of[d] = theirs->of[d];
    }
}

static ein_status check_order(arena *a, const program *p, error *e)
{
    event_order o;
    knowledge now[MAX_DEVICES], *history[MAX_DEVICES];
    memset(now, 0, sizeof now);
    TRY(ein__program_order(a, p, &o, e));
    for (int d = 0; d < p->n_devices; d++) NEW(a, history[d], MAX_UNROLLED * (p->devices[d].n_steps + 1));
    for (int i = 0, k = 0; i < o.n_events; i++) {
        const event *ev = &o.events[i];
        apply_waits(p, ev, &now[ev->device], history);
        for (; k < o.n_dependences && o.dependences[k].to == i; k++) {
            const event *from = &o.events[o.dependences[k].from];
            i64 done = ein__program_count(p, from->device, from->index, from->iteration, true);
            if (now[ev->device].of[from->device] >= done) continue;
            return ein__fail(e, EIN_INTERNAL, "program: step %d (%s) on device %d is not ordered after step %d of device %d",
                             ev->step->order, ev->step->what, ev->device, from->step->order, from->device);
        }
        now[ev->device].of[ev->device] = ein__program_count(p, ev->device, ev->index, ev->iteration, true);
        history[ev->device][ev->iteration * p->devices[ev->device].n_steps + ev->index] = now[ev->device];
    }
    return EIN_OK;
}

ein_status ein__program_check(const program *p, error *e)
{
    arena scratch = {NULL};
    ein_status s = check_memory(p, e);
    if (s == EIN_OK) s = check_waits(p, e);
    if (s == EIN_OK) s = check_order(&scratch, p, e);
    ein__arena_free(&scratch);
    if (s == EIN_NO_MEMORY) ein__fail(e, s, "out of memory while checking the program");
    return s;
}

/* ---- printing ----------------------------------------------------------------------------------------- */

static void print_args(const step *s, text *out)
{
    for (int i = 0; i < s->n_args; i++) {
        const arg *x = &s->args[i];
        if (x->kind != ARG_POINTER || x->place.space == SPACE_TABLE) continue;
        static const char *const spaces[] = {"b", "leaf", "in", "out", "table"};
        ein__text_add(out, " %s%s%d", x->written ? "->" : "", spaces[x->place.space], x->place.index);
        if (x->place.space == SPACE_LEAF) ein__text_add(out, ".%d", x->place.block);
        if (x->place.device != s->device && x->place.device != HOST) ein__text_add(out, "@%d", x->place.device);
        if (x->value != 0) ein__text_add(out, "+%lld", (long long)x->value);
    }
}

static void print_step(const program *p, const step *s, text *out)
{
    ein__text_add(out, "  %4d %-14s", s->order, s->what);
    const gemm *g = &s->gemm;
    if (s->kind == STEP_GEMM) {
        ein__text_add(out, " product %lldx%lldx%lld", (long long)g->m, (long long)g->n, (long long)g->k);
        if (g->type_a != EIN_F32 || g->type_b != EIN_F32 || g->type_c != EIN_F32)
            ein__text_add(out, " %s*%s=%s", ein__dtype_name(g->type_a), ein__dtype_name(g->type_b), ein__dtype_name(g->type_c));
    } else {
        ein__text_add(out, " %.10s grid %lld", p->kernels[s->kernel].name, (long long)s->grid[0]);
    }
    print_args(s, out);
    if (s->remote_bytes != 0) ein__text_add(out, "  remote %lld bytes", (long long)s->remote_bytes);
    for (int k = 0; k < s->n_waits; k++)
        ein__text_add(out, "%s%d/%d%s", k == 0 ? "  after " : " ", s->waits[k].device,
                      p->devices[s->waits[k].device].steps[s->waits[k].step].order, s->waits[k].lag > 0 ? "'" : "");
    ein__text_add(out, "\n");
}

void ein__program_print(const program *p, text *out)
{
    for (int d = 0; d < p->n_devices; d++) {
        const device_program *x = &p->devices[d];
        ein__text_add(out, "device %d: %d steps, %lld bytes of buffers\n", d, x->n_steps, (long long)x->buffer_bytes);
        for (int r = 0; r < p->n_regions; r++) {
            if (x->regions[r].loop >= 0) ein__text_add(out, " repeat\n"); /* the count is the machine's business */
            for (int i = x->regions[r].lo; i < x->regions[r].hi; i++) print_step(p, &x->steps[i], out);
            if (x->regions[r].loop >= 0) ein__text_add(out, " end\n");
        }
    }
}
