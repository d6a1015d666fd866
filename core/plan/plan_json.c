/* SPDX-License-Identifier: Apache-2.0 */
/* Plans as JSON, an entry a line:
 *
 *     {"ein_plan":1,"devices":2,
 *     "nodes":[
 *     {"node":0,"op":"linear","cuts":[{"labels":["n"],"at":[0,512,1024]}],"devices":[[0],[1]]},
 *     {"node":1,"op":"reshape","view":true}
 *     ],
 *     "leaves":[
 *     {"leaf":0,"kind":"parameter","name":"wq","axes":[{"extent":1024,"lo":[0,512],"hi":[512,1024]}],
 *      "devices":[[0],[1]]}
 *     ], ...
 *
 * A label may also be given by its number in the op: so it is in plans that are kept for any graph of the same
 * identity, whatever its names. Read strictly: every member once, none unknown, ops and labels those of the
 * graph; what comes out has passed ein__plan_check. Only a leaf's name is not compared: the graph's identity is
 * free of it. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/plan/plan.h"

/* ---- printing ----------------------------------------------------------------------------------------- */

/* What stands for a character of a name; users choose names of parameters and of their ops. */
static char plain(char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\' ? c : '?'; }

static void print_name(const char *name, text *out)
{
    ein__text_add(out, "\"");
    for (; *name != 0; name++) ein__text_add(out, "%c", plain(*name));
    ein__text_add(out, "\"");
}

static void print_points(const i64 *at, int n, text *out)
{
    ein__text_add(out, "[");
    for (int i = 0; i < n; i++) ein__text_add(out, "%s%lld", i > 0 ? "," : "", (long long)at[i]);
    ein__text_add(out, "]");
}

static void print_devices(const devset *sets, int n, text *out)
{
    ein__text_add(out, "\"devices\":[");
    for (int i = 0; i < n; i++) {
        const char *between = "";
        ein__text_add(out, "%s[", i > 0 ? "," : "");
        for (int d = 0; d < MAX_DEVICES; d++)
            if ((sets[i] & DEV(d)) != 0) {
                ein__text_add(out, "%s%d", between, d);
                between = ",";
            }
        ein__text_add(out, "]");
    }
    ein__text_add(out, "]}");
}

static void print_node(const node *n, int i, const choice *c, bool names, text *out)
{
    ein__text_add(out, "%s\n{\"node\":%d,\"op\":", i > 0 ? "," : "", i);
    print_name(n->name, out);
    if (ein__node_is_view(n)) {
        ein__text_add(out, ",\"view\":true}");
        return;
    }
    ein__text_add(out, ",\"cuts\":[");
    for (int k = 0; k < c->n_cuts; k++) {
        ein__text_add(out, "%s{\"labels\":[", k > 0 ? "," : "");
        for (int j = 0; j < c->cuts[k].n_labels; j++) {
            if (j > 0) ein__text_add(out, ",");
            if (names) print_name(n->spec.labels[c->cuts[k].labels[j]].name, out);
            else ein__text_add(out, "%d", c->cuts[k].labels[j]);
        }
        ein__text_add(out, "],\"at\":");
        print_points(c->cuts[k].at, c->cuts[k].n_parts + 1, out);
        ein__text_add(out, "}");
    }
    ein__text_add(out, "],");
    print_devices(c->devices, c->n_tuples, out);
}

static void print_relation(const relation *r, text *out)
{
    ein__text_add(out, ",\"axes\":[");
    for (int i = 0; i < r->n_axes; i++) {
        ein__text_add(out, "%s{\"extent\":%lld,\"lo\":", i > 0 ? "," : "", (long long)r->axes[i].extent);
        print_points(r->axes[i].lo, r->axes[i].n_parts, out);
        ein__text_add(out, ",\"hi\":");
        print_points(r->axes[i].hi, r->axes[i].n_parts, out);
        ein__text_add(out, "}");
    }
    ein__text_add(out, "],");
    print_devices(r->devices, r->n_blocks, out);
}

static const char *const LEAF_KINDS[] = {"input", "parameter", "state", "constant"};

static void print_leaf(const leaf *l, int i, const relation *r, bool names, text *out)
{
    ein__text_add(out, "%s\n{\"leaf\":%d,\"kind\":\"%s\",\"name\":", i > 0 ? "," : "", i,
                  LEAF_KINDS[l->kind]);
    print_name(names ? l->name : "", out);
    if (l->kind == LEAF_INPUT)
        ein__text_add(out, "}");
    else
        print_relation(r, out);
}

static int append(const char *bytes, size_t n, void *out)
{
    ein__text_bytes(out, bytes, n);
    return ein__text_status(out) == EIN_OK ? 0 : -1;
}

/* By jansson, whose reals do not depend on the locale. */
static void print_real(double x, text *out)
{
    json_t *v = json_real(isfinite(x) ? x : 0);
    if (v == NULL || json_dump_callback(v, append, out, JSON_ENCODE_ANY) != 0) out->failed = true;
    json_decref(v);
}

static ein_status print_plan(const graph *g, const plan *p, bool names, text *out)
{
    ein__text_add(out, "{\"ein_plan\":1,\"devices\":%d,\n\"nodes\":[", p->n_devices);
    for (int i = 0; i < p->n_nodes; i++) print_node(&g->nodes.items[i], i, &p->nodes[i], names, out);
    ein__text_add(out, "\n],\n\"leaves\":[");
    for (int i = 0; i < p->n_leaves; i++) print_leaf(&g->leaves.items[i], i, &p->leaves[i], names, out);
    ein__text_add(out, "\n],\n\"carries\":[");
    for (int i = 0; i < p->n_carries; i++) {
        ein__text_add(out, "%s\n{\"carry\":%d", i > 0 ? "," : "", i);
        print_relation(&p->carries[i], out);
    }
    ein__text_add(out, "\n],\n\"predicted_us\":");
    print_real(p->predicted_us, out);
    if (p->bound_us > 0) {
        ein__text_add(out, ",\"bound_us\":");
        print_real(p->bound_us, out);
    }
    ein__text_add(out, ",\"predicted_bytes\":%lld,\"states_searched\":%lld}\n", (long long)p->predicted_bytes,
                  (long long)p->states_searched);
    return ein__text_status(out);
}

ein_status ein__plan_print(const graph *g, const plan *p, text *out) { return print_plan(g, p, true, out); }

ein_status ein__plan_print_nameless(const graph *g, const plan *p, text *out)
{
    return print_plan(g, p, false, out);
}

/* ---- reading ------------------------------------------------------------------------------------------ */

enum { MAX_TUPLES = 65536 };

typedef struct reader {
    arena *a;
    const graph *g;
    error *e;
    int n_devices;
    char where[96]; /* "node 5 (linear)" */
} reader;

#define WRONG(r, ...) ein__fail((r)->e, EIN_NO_PLAN, "plan: " __VA_ARGS__)

/* Exactly the members `names`, a list that ends in NULL. */
static ein_status check_members(const reader *r, json_t *object, const char *const *names)
{
    const char *key;
    json_t *v;
    if (!json_is_object(object)) return WRONG(r, "%s must be an object", r->where);
    json_object_foreach(object, key, v)
    {
        int i = 0;
        while (names[i] != NULL && strcmp(names[i], key) != 0) i++;
        if (names[i] == NULL) return WRONG(r, "%s: unknown member \"%.60s\"", r->where, key);
    }
    for (int i = 0; names[i] != NULL; i++)
        if (json_object_get(object, names[i]) == NULL)
            return WRONG(r, "%s: \"%s\" is missing", r->where, names[i]);
    return EIN_OK;
}

static ein_status take_int(const reader *r, json_t *v, const char *name, i64 lo, i64 hi, i64 *out)
{
    if (!json_is_integer(v)) return WRONG(r, "%s: \"%s\" must be an integer", r->where, name);
    *out = json_integer_value(v);
    if (*out < lo || *out > hi)
        return WRONG(r, "%s: \"%s\": %lld is not within %lld .. %lld", r->where, name, (long long)*out,
                     (long long)lo, (long long)hi);
    return EIN_OK;
}

/* An array of `n` elements (-1: any number up to MAX_TUPLES + 1). */
static ein_status take_array(const reader *r, json_t *v, const char *name, int n)
{
    if (!json_is_array(v)) return WRONG(r, "%s: \"%s\" must be an array", r->where, name);
    size_t have = json_array_size(v);
    if (n >= 0 && have != (size_t)n)
        return WRONG(r, "%s: \"%s\" has %zu entries, must have %d", r->where, name, have, n);
    if (have > MAX_TUPLES + 1) return WRONG(r, "%s: \"%s\" has %zu entries", r->where, name, have);
    return EIN_OK;
}

static bool name_is(json_t *v, const char *name)
{
    const char *s = json_string_value(v);
    size_t n = strlen(name);
    bool same = s != NULL && json_string_length(v) == n;
    for (size_t i = 0; i < n && same; i++) same = s[i] == plain(name[i]);
    return same;
}

static bool is_number(json_t *v, int i) { return json_is_integer(v) && json_integer_value(v) == i; }

static ein_status take_name(const reader *r, json_t *v, const char *member, const char *name)
{
    if (name_is(v, name)) return EIN_OK;
    return WRONG(r, "%s: \"%s\" is not \"%.60s\"", r->where, member, name);
}

static ein_status read_points(const reader *r, json_t *v, const char *name, int n, const i64 **out)
{
    i64 *at;
    TRY(take_array(r, v, name, n));
    n = (int)json_array_size(v);
    NEW(r->a, at, n);
    for (int i = 0; i < n; i++)
        TRY(take_int(r, json_array_get(v, (size_t)i), name, 0, INT64_MAX / 2, &at[i]));
    *out = at;
    return EIN_OK;
}

/* "devices": `n` sets, each a rising list. */
static ein_status read_devices(const reader *r, json_t *v, i64 n, const devset **out)
{
    devset *sets;
    TRY(take_array(r, v, "devices", (int)n));
    NEW(r->a, sets, n);
    for (i64 i = 0; i < n; i++) {
        json_t *set = json_array_get(v, (size_t)i);
        TRY(take_array(r, set, "devices", -1));
        for (size_t k = 0; k < json_array_size(set); k++) {
            i64 d;
            TRY(take_int(r, json_array_get(set, k), "devices", 0, r->n_devices - 1, &d));
            if (sets[i] >> d != 0)
                return WRONG(r, "%s: \"devices\": entry %lld is no rising list", r->where, (long long)i);
            sets[i] |= DEV(d);
        }
    }
    *out = sets;
    return EIN_OK;
}

static ein_status read_cut(const reader *r, const spec *s, json_t *v, cut *out)
{
    TRY(check_members(r, v, (const char *const[]){"labels", "at", NULL}));
    json_t *labels = json_object_get(v, "labels"), *at = json_object_get(v, "at");
    TRY(take_array(r, labels, "labels", -1));
    out->n_labels = (int)json_array_size(labels);
    if (out->n_labels < 1 || out->n_labels > MAX_GROUP)
        return WRONG(r, "%s: \"labels\" has %d entries, must have 1 to %d", r->where, out->n_labels,
                     MAX_GROUP);
    for (int i = 0; i < out->n_labels; i++) {
        json_t *name = json_array_get(labels, (size_t)i);
        int l = 0;
        while (l < s->n_labels && !name_is(name, s->labels[l].name) && !is_number(name, l)) l++;
        if (l == s->n_labels)
            return WRONG(r, "%s: \"labels\": the op has no label \"%.60s\"", r->where,
                         json_is_string(name) ? json_string_value(name) : "");
        out->labels[i] = l;
    }
    TRY(read_points(r, at, "at", -1, &out->at));
    out->n_parts = (int)json_array_size(at) - 1;
    if (out->n_parts < 1) return WRONG(r, "%s: \"at\" needs two points at least", r->where);
    return EIN_OK;
}

static ein_status read_choice(const reader *r, const spec *s, json_t *v, choice *out)
{
    json_t *list = json_object_get(v, "cuts");
    cut *cuts;
    i64 tuples = 1;
    TRY(take_array(r, list, "cuts", -1));
    out->n_cuts = (int)json_array_size(list);
    if (out->n_cuts > s->n_labels)
        return WRONG(r, "%s: \"cuts\" has %d entries, the op %d labels", r->where, out->n_cuts, s->n_labels);
    NEW(r->a, cuts, out->n_cuts);
    for (int i = 0; i < out->n_cuts; i++) {
        TRY(read_cut(r, s, json_array_get(list, (size_t)i), &cuts[i]));
        tuples *= cuts[i].n_parts;
        if (tuples > MAX_TUPLES)
            return WRONG(r, "%s: \"cuts\" make more than %d tuples", r->where, MAX_TUPLES);
    }
    out->cuts = cuts;
    out->n_tuples = (int)tuples;
    return read_devices(r, json_object_get(v, "devices"), tuples, &out->devices);
}

static ein_status read_node(reader *r, int i, json_t *v, choice *out)
{
    const node *n = &r->g->nodes.items[i];
    bool view = ein__node_is_view(n);
    i64 number;
    snprintf(r->where, sizeof r->where, "node %d (%.60s)", i, n->name);
    TRY(check_members(r, v,
                      view ? (const char *const[]){"node", "op", "view", NULL}
                           : (const char *const[]){"node", "op", "cuts", "devices", NULL}));
    TRY(take_int(r, json_object_get(v, "node"), "node", i, i, &number));
    TRY(take_name(r, json_object_get(v, "op"), "op", n->name));
    if (!view) return read_choice(r, &n->spec, v, out);
    return json_is_true(json_object_get(v, "view")) ? EIN_OK
                                                    : WRONG(r, "%s: \"view\" must be true", r->where);
}

static ein_status read_axis(const reader *r, json_t *v, i64 numel, axis *out)
{
    TRY(check_members(r, v, (const char *const[]){"extent", "lo", "hi", NULL}));
    json_t *lo = json_object_get(v, "lo");
    TRY(take_int(r, json_object_get(v, "extent"), "extent", 0, numel > 0 ? numel : INT32_MAX, &out->extent));
    TRY(read_points(r, lo, "lo", -1, &out->lo));
    out->n_parts = (int)json_array_size(lo);
    if (out->n_parts < 1) return WRONG(r, "%s: \"lo\" is empty", r->where);
    return read_points(r, json_object_get(v, "hi"), "hi", out->n_parts, &out->hi);
}

static ein_status read_relation(const reader *r, json_t *v, i64 numel, relation *out)
{
    json_t *axes = json_object_get(v, "axes");
    i64 blocks = 1, product = 1;
    TRY(take_array(r, axes, "axes", -1));
    if (json_array_size(axes) > MAX_AXES)
        return WRONG(r, "%s: \"axes\" has %zu entries, at most %d", r->where, json_array_size(axes),
                     MAX_AXES);
    out->n_axes = (int)json_array_size(axes);
    for (int i = 0; i < out->n_axes; i++) {
        axis *x = &out->axes[i];
        TRY(read_axis(r, json_array_get(axes, (size_t)i), numel, x));
        blocks *= x->n_parts;
        if (x->extent > 0 && product > ((i64)1 << 40) / x->extent)
            return WRONG(r, "%s: \"axes\" make too many elements", r->where);
        product *= x->extent;
        if (blocks > MAX_TUPLES)
            return WRONG(r, "%s: \"axes\" make more than %d blocks", r->where, MAX_TUPLES);
    }
    out->n_blocks = (int)blocks;
    out->n_partials = 1;
    return read_devices(r, json_object_get(v, "devices"), blocks, &out->devices);
}

static ein_status read_leaf(reader *r, int i, json_t *v, relation *out)
{
    const leaf *l = &r->g->leaves.items[i];
    bool input = l->kind == LEAF_INPUT;
    i64 number, numel = ein__value_numel(r->g, l->value);
    snprintf(r->where, sizeof r->where, "leaf %d", i);
    TRY(check_members(r, v,
                      input ? (const char *const[]){"leaf", "kind", "name", NULL}
                            : (const char *const[]){"leaf", "kind", "name", "axes", "devices", NULL}));
    TRY(take_int(r, json_object_get(v, "leaf"), "leaf", i, i, &number));
    TRY(take_name(r, json_object_get(v, "kind"), "kind", LEAF_KINDS[l->kind]));
    if (!json_is_string(json_object_get(v, "name")))
        return WRONG(r, "%s: \"name\" must be a string", r->where);
    return input ? ein__relation_whole(r->a, numel, DEV(HOST), out) : read_relation(r, v, numel, out);
}

static ein_status read_carries(reader *r, json_t *list, plan *out)
{
    const graph *g = r->g;
    int i = 0;
    for (int l = 0; l < g->loops.n; l++) out->n_carries += g->loops.items[l].n_carries;
    TRY(take_array(r, list, "carries", out->n_carries));
    NEW(r->a, out->carries, out->n_carries);
    for (int l = 0; l < g->loops.n; l++)
        for (int c = 0; c < g->loops.items[l].n_carries; c++, i++) {
            i64 number, numel = ein__value_numel(g, g->loops.items[l].carries[c].value);
            json_t *v = json_array_get(list, (size_t)i);
            snprintf(r->where, sizeof r->where, "carry %d", i);
            TRY(check_members(r, v, (const char *const[]){"carry", "axes", "devices", NULL}));
            TRY(take_int(r, json_object_get(v, "carry"), "carry", i, i, &number));
            TRY(read_relation(r, v, numel, &out->carries[i]));
        }
    return EIN_OK;
}

static ein_status read_lists(reader *r, json_t *root, plan *out)
{
    json_t *nodes = json_object_get(root, "nodes"), *leaves = json_object_get(root, "leaves");
    out->n_nodes = r->g->nodes.n;
    out->n_leaves = r->g->leaves.n;
    TRY(take_array(r, nodes, "nodes", out->n_nodes));
    TRY(take_array(r, leaves, "leaves", out->n_leaves));
    NEW(r->a, out->nodes, out->n_nodes);
    NEW(r->a, out->leaves, out->n_leaves);
    for (int i = 0; i < out->n_nodes; i++)
        TRY(read_node(r, i, json_array_get(nodes, (size_t)i), &out->nodes[i]));
    for (int i = 0; i < out->n_leaves; i++)
        TRY(read_leaf(r, i, json_array_get(leaves, (size_t)i), &out->leaves[i]));
    snprintf(r->where, sizeof r->where, "plan");
    return read_carries(r, json_object_get(root, "carries"), out);
}

static ein_status read_plan(reader *r, json_t *root, plan *out)
{
    i64 n;
    snprintf(r->where, sizeof r->where, "plan");
    json_t *bound = json_object_get(root, "bound_us"); /* optional */
    const char *const members[] = {"ein_plan", "devices", "nodes", "leaves", "carries", "predicted_us", "predicted_bytes",
                                   "states_searched", bound != NULL ? "bound_us" : NULL, NULL};
    TRY(check_members(r, root, members));
    TRY(take_int(r, json_object_get(root, "ein_plan"), "ein_plan", 1, 1, &n));
    TRY(take_int(r, json_object_get(root, "devices"), "devices", 1, MAX_DEVICES, &n));
    out->n_devices = r->n_devices = (int)n;
    json_t *us = json_object_get(root, "predicted_us");
    if (!json_is_number(us)) return WRONG(r, "plan: \"predicted_us\" must be a number");
    out->predicted_us = json_number_value(us);
    if (bound != NULL && !json_is_number(bound)) return WRONG(r, "plan: \"bound_us\" must be a number");
    out->bound_us = json_number_value(bound);
    TRY(take_int(r, json_object_get(root, "predicted_bytes"), "predicted_bytes", 0, INT64_MAX,
                 &out->predicted_bytes));
    TRY(take_int(r, json_object_get(root, "states_searched"), "states_searched", 0, INT64_MAX,
                 &out->states_searched));
    TRY(read_lists(r, root, out));
    return ein__plan_check(r->g, out, r->e);
}

ein_status ein__plan_parse(arena *a, const graph *g, const char *json, plan *out, error *e)
{
    json_error_t bad;
    reader r = {.a = a, .g = g, .e = e};
    memset(out, 0, sizeof *out);
    json_t *root = json_loads(json, JSON_REJECT_DUPLICATES, &bad);
    if (root == NULL) {
        if (json_error_code(&bad) == json_error_out_of_memory)
            return ein__fail(e, EIN_NO_MEMORY, "out of memory reading a plan");
        return ein__fail(e, EIN_NO_PLAN, "plan:%d:%d: %s", bad.line, bad.column, bad.text);
    }
    ein_status s = read_plan(&r, root, out);
    json_decref(root);
    return s == EIN_NO_MEMORY ? ein__fail(e, s, "out of memory reading a plan") : s;
}
