/* SPDX-License-Identifier: Apache-2.0 */
/* Relations as data: canonical form, comparison, where a box lies in a block, printing. How a choice implies
 * relations is in choice.c. */
#include "core/plan/relation.h"

#include <string.h>

#include "core/base/arena.h"

static bool axis_full(const axis *x) { return x->n_parts == 1 && x->lo[0] == 0 && x->hi[0] == x->extent; }

/* Axis `x` followed by the uncut axis `y`, as one axis. */
static ein_status join_axes(arena *a, axis *x, const axis *y)
{
    i64 *lo, *hi;
    NEW(a, lo, x->n_parts);
    NEW(a, hi, x->n_parts);
    for (int i = 0; i < x->n_parts; i++) {
        lo[i] = x->lo[i] * y->extent;
        hi[i] = x->hi[i] * y->extent;
    }
    x->lo = lo;
    x->hi = hi;
    x->extent *= y->extent;
    return EIN_OK;
}

ein_status ein__relation_canonical(arena *a, relation *r)
{
    int n = 0;
    for (int i = 0; i < r->n_axes; i++) {
        axis *x = &r->axes[i];
        if (x->extent == 1 && axis_full(x)) continue;
        axis *before = n > 0 ? &r->axes[n - 1] : NULL;
        if (before != NULL && before->broadcast == x->broadcast && axis_full(x)) {
            TRY(join_axes(a, before, x));
            continue;
        }
        r->axes[n++] = *x;
    }
    r->n_axes = n;
    return EIN_OK;
}

ein_status ein__relation_whole(arena *a, i64 numel, devset devices, relation *out)
{
    memset(out, 0, sizeof *out);
    i64 *at;
    devset *where;
    NEW(a, at, 2);
    NEW(a, where, 1);
    at[1] = numel;
    where[0] = devices;
    out->n_axes = 1;
    out->axes[0] = (axis){.extent = numel, .n_parts = 1, .lo = &at[0], .hi = &at[1]};
    out->n_blocks = out->n_partials = 1;
    out->devices = where;
    return ein__relation_canonical(a, out);
}

ein_status ein__relation_copy(arena *a, const relation *r, relation *out)
{
    *out = *r;
    for (int i = 0; i < r->n_axes; i++) {
        i64 *at;
        int n = r->axes[i].n_parts;
        NEW(a, at, 2 * n);
        memcpy(at, r->axes[i].lo, (size_t)n * sizeof *at);
        memcpy(at + n, r->axes[i].hi, (size_t)n * sizeof *at);
        out->axes[i].lo = at;
        out->axes[i].hi = at + n;
    }
    devset *where;
    size_t n = (size_t)r->n_blocks * (size_t)r->n_partials;
    NEW(a, where, n);
    memcpy(where, r->devices, n * sizeof *where);
    out->devices = where;
    return EIN_OK;
}

static bool axis_equal(const axis *x, const axis *y)
{
    size_t bytes = (size_t)x->n_parts * sizeof *x->lo;
    return x->extent == y->extent && x->n_parts == y->n_parts && x->broadcast == y->broadcast &&
           memcmp(x->lo, y->lo, bytes) == 0 && memcmp(x->hi, y->hi, bytes) == 0;
}

bool ein__relation_equal(const relation *r, const relation *t)
{
    if (r->n_axes != t->n_axes || r->n_blocks != t->n_blocks || r->n_partials != t->n_partials) return false;
    for (int i = 0; i < r->n_axes; i++)
        if (!axis_equal(&r->axes[i], &t->axes[i])) return false;
    size_t n = (size_t)r->n_blocks * (size_t)r->n_partials;
    return memcmp(r->devices, t->devices, n * sizeof *r->devices) == 0;
}

int ein__block_part(const relation *r, int block, int i)
{
    for (int k = r->n_axes - 1; k > i; k--) block /= r->axes[k].n_parts;
    return block % r->axes[i].n_parts;
}

i64 ein__block_numel(const relation *r, int block)
{
    i64 n = 1;
    for (int i = r->n_axes - 1; i >= 0; i--) {
        int part = block % r->axes[i].n_parts;
        block /= r->axes[i].n_parts;
        if (!r->axes[i].broadcast) n *= r->axes[i].hi[part] - r->axes[i].lo[part];
    }
    return n;
}

i64 ein__relation_numel(const relation *r)
{
    i64 n = 1;
    for (int i = 0; i < r->n_axes; i++) n *= r->axes[i].extent;
    return n;
}

/* ---- where a label box lies in a block ---------------------------------------------------------------- */

/* How far step * label goes over the box, below and above its first value. */
static void reach(i64 step, i64 len, i64 *below, i64 *above)
{
    if (step < 0) *below += step * (len - 1);
    else *above += step * (len - 1);
}

/* The interval between a window's least and greatest index. */
static void window_range(const term *t, const label_box *box, i64 *lo, i64 *hi, i64 *first)
{
    i64 len2 = t->label2 >= 0 ? box->len[t->label2] : 1;
    *first = t->offset + t->step * box->lo[t->label] + (t->label2 >= 0 ? t->step2 * box->lo[t->label2] : 0);
    *lo = *hi = *first;
    if (box->len[t->label] <= 0 || len2 <= 0) return;
    ++*hi;
    reach(t->step, box->len[t->label], lo, hi);
    if (t->label2 >= 0) reach(t->step2, len2, lo, hi);
}

/* Indices [lo, hi) of a term that the box touches (all between the least and the greatest), and the index of the
 * box's first point (which a range term may put outside). */
static void term_range(const term *t, const label_box *box, i64 *lo, i64 *hi, i64 *first)
{
    switch (t->kind) {
    case TERM_LABEL:
    case TERM_RANGE:
        *first = box->lo[t->label] + t->offset;
        *lo = *first < 0 ? 0 : *first;
        *hi = *first + box->len[t->label];
        if (*hi > t->extent) *hi = t->extent;
        break;
    case TERM_FIXED:
        *first = *lo = t->offset;
        *hi = t->offset + 1;
        break;
    case TERM_WINDOW:
        window_range(t, box, lo, hi, first);
        break;
    default: /* TERM_ALL */
        *first = t->offset + (t->label >= 0 ? box->lo[t->label] : 0);
        *lo = 0;
        *hi = t->extent;
        break;
    }
}

bool ein__box_reads_nothing(const index_map *m, const label_box *box)
{
    for (int i = 0; i < m->n; i++) {
        const term *t = &m->terms[i];
        i64 lo, hi, first;
        if (t->label >= 0 && box->len[t->label] <= 0) return true;
        term_range(t, box, &lo, &hi, &first);
        if (lo >= hi) return true;
    }
    return false;
}

/* A block's axes with what a view needs of each. */
typedef struct block_axis { i64 suffix, stride, lo, hi, extent, least, most; bool broadcast; } block_axis;

static int block_axes(const relation *r, int block, block_axis *out)
{
    i64 suffix = 1, stride = 1;
    for (int i = r->n_axes - 1; i >= 0; i--) {
        const axis *x = &r->axes[i];
        int part = block % x->n_parts;
        block /= x->n_parts;
        out[i] = (block_axis){suffix, x->broadcast ? 0 : stride, x->lo[part], x->hi[part], x->extent, 0, 0,
                              x->broadcast};
        suffix *= x->extent;
        if (!x->broadcast) stride *= x->hi[part] - x->lo[part];
    }
    return r->n_axes;
}

bool ein__block_view(const relation *r, int block, const index_map *m, const label_box *box, i64 *offset,
                     i64 stride[MAX_LABELS])
{
    block_axis axes[MAX_AXES];
    int n = block_axes(r, block, axes);
    *offset = 0;
    memset(stride, 0, MAX_LABELS * sizeof *stride);
    if (ein__box_reads_nothing(m, box)) return true; /* lies anywhere */
    for (int i = 0; i < n; i++) *offset -= axes[i].lo * axes[i].stride;
    i64 suffix = 1;
    for (int i = m->n - 1; i >= 0; i--) {
        const term *t = &m->terms[i];
        i64 lo, hi, first;
        term_range(t, box, &lo, &hi, &first);
        i64 extent = t->extent;
        if (extent != 1) {
            int k = n - 1;
            while (k >= 0 && !(axes[k].suffix <= suffix && extent * suffix <= axes[k].suffix * axes[k].extent)) k--;
            if (k < 0 || axes[k].suffix == 0 || suffix % axes[k].suffix != 0) return false;
            i64 step = suffix / axes[k].suffix;
            axes[k].least += lo * step;
            axes[k].most += (hi - 1) * step;
            *offset += first * step * axes[k].stride;
            i64 each = step * axes[k].stride, window = t->kind == TERM_WINDOW;
            if (t->label >= 0) stride[t->label] += window ? t->step * each : each;
            if (window && t->label2 >= 0) stride[t->label2] += t->step2 * each;
        }
        suffix *= extent;
    }
    for (int i = 0; i < n; i++)
        if (axes[i].least < axes[i].lo || axes[i].most >= axes[i].hi) return false;
    return true;
}

/* ---- verifier, printing, key -------------------------------------------------------------------------- */

ein_status ein__relation_check(const relation *r, i64 numel, int n_devices, error *e)
{
    int blocks = 1;
    for (int i = 0; i < r->n_axes; i++) {
        const axis *x = &r->axes[i];
        for (int p = 0; p < x->n_parts; p++) {
            i64 from = p > 0 ? x->hi[p - 1] : 0;
            if (x->lo[p] != from || x->hi[p] < x->lo[p] || x->hi[p] > x->extent)
                return ein__fail(e, EIN_NO_PLAN, "relation: part %d [%lld, %lld) of axis %d leaves a gap or overlaps",
                                 p, (long long)x->lo[p], (long long)x->hi[p], i);
        }
        if (x->n_parts < 1 || x->hi[x->n_parts - 1] != x->extent)
            return ein__fail(e, EIN_NO_PLAN, "relation: axis %d of extent %lld is not covered", i, (long long)x->extent);
        blocks *= x->n_parts;
    }
    if (ein__relation_numel(r) != numel)
        return ein__fail(e, EIN_NO_PLAN, "relation: axes hold %lld elements, the tensor %lld",
                         (long long)ein__relation_numel(r), (long long)numel);
    if (blocks != r->n_blocks || r->n_partials < 1)
        return ein__fail(e, EIN_NO_PLAN, "relation: %d blocks, its axes make %d", r->n_blocks, blocks);
    for (int i = 0; i < r->n_blocks * r->n_partials; i++)
        if (r->devices[i] == 0 || (r->devices[i] & ~ALL_DEVICES(n_devices)) != 0)
            return ein__fail(e, EIN_NO_PLAN, "relation: block %d lies on devices %#x of %d", i, r->devices[i], n_devices);
    return EIN_OK;
}

static void print_devices(devset d, text *out)
{
    const char *between = "";
    for (int i = 0; i < 32; i++)
        if (d & DEV(i)) {
            if (i == HOST) ein__text_add(out, "%shost", between);
            else ein__text_add(out, "%s%d", between, i);
            between = ",";
        }
    if (d == 0) ein__text_add(out, "-");
}

void ein__relation_print(const relation *r, text *out)
{
    ein__text_add(out, "[");
    for (int i = 0; i < r->n_axes; i++) {
        const axis *x = &r->axes[i];
        ein__text_add(out, "%s%lld", i > 0 ? " | " : "", (long long)x->extent);
        if (x->broadcast) ein__text_add(out, "*");
        if (axis_full(x)) continue;
        for (int p = 0; p < x->n_parts; p++)
            ein__text_add(out, "%s%lld-%lld", p > 0 ? " " : ": ", (long long)x->lo[p], (long long)x->hi[p]);
    }
    ein__text_add(out, "] on");
    bool same = true;
    for (int i = 1; i < r->n_blocks * r->n_partials; i++) same = same && r->devices[i] == r->devices[0];
    for (int i = 0; i < (same ? 1 : r->n_blocks * r->n_partials); i++) {
        ein__text_add(out, " ");
        print_devices(r->devices[i], out);
    }
    if (r->n_partials > 1) ein__text_add(out, " pending %d partials", r->n_partials);
}

void ein__relation_key(const relation *r, text *key)
{
    ein__key_int(key, 'R', r->n_axes);
    for (int i = 0; i < r->n_axes; i++) {
        const axis *x = &r->axes[i];
        ein__key_int(key, 'x', x->extent);
        ein__key_int(key, 'b', x->broadcast);
        ein__key_int(key, 'p', x->n_parts);
        for (int p = 0; p < x->n_parts; p++) {
            ein__key_int(key, 'l', x->lo[p]);
            ein__key_int(key, 'h', x->hi[p]);
        }
    }
    ein__key_int(key, 'n', r->n_partials);
    for (int i = 0; i < r->n_blocks * r->n_partials; i++) ein__key_int(key, 'd', r->devices[i]);
}
