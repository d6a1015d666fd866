/* SPDX-License-Identifier: Apache-2.0 */
/* The graph as text for people, and as key material: everything that decides what is computed, and no name
 * but those that a user's kernel is written with. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/graph/builder.h"

/* ---- text ---- */

static const char *const leaf_names[] = {"input", "parameter", "state", "constant"};

static void print_type(const graph *g, value v, text *out)
{
    const value_info *x = &g->values.items[v];
    ein__text_add(out, "%s[", ein__dtype_name(x->dtype));
    for (int i = 0; i < x->rank; i++) ein__text_add(out, "%s%" PRId64, i > 0 ? "," : "", x->shape[i]);
    ein__text_add(out, "]");
}

static void print_leaf(const graph *g, const leaf *l, text *out)
{
    ein__text_add(out, "%%%d = %s ", l->value, leaf_names[l->kind]);
    if (l->kind != LEAF_CONSTANT) ein__text_add(out, "%s ", l->name);
    print_type(g, l->value, out);
    if (l->n_members > 1) ein__text_add(out, " x %d", l->n_members);
    ein__text_add(out, "\n");
}

static void print_list(const value *v, int n, text *out)
{
    for (int i = 0; i < n; i++) ein__text_add(out, "%s%%%d", i > 0 ? ", " : "", v[i]);
}

/* What an elementwise node computes, in the operands' names of the spec. */
static void print_body(const node *n, text *out)
{
    char names[MAX_CALL_OPERANDS + MAX_INDICES][16];
    const char *args[MAX_CALL_OPERANDS + MAX_INDICES];
    for (int i = 0; i < MAX_CALL_OPERANDS + MAX_INDICES; i++) {
        snprintf(names[i], sizeof names[i], "x%d", i);
        args[i] = names[i];
    }
    ein__text_add(out, "  = ");
    ein__expr_print(&n->body[0], args, NULL, EIN_F32, out);
}

static void print_node(const graph *g, const node *n, const char *indent, text *out)
{
    ein__text_add(out, "%s", indent);
    print_list(n->results, n->spec.n_results, out);
    ein__text_add(out, " = %s(", n->name);
    print_list(n->operands, n->spec.n_operands, out);
    ein__text_add(out, ")");
    for (int r = 0; r < n->spec.n_results; r++) {
        ein__text_add(out, " ");
        print_type(g, n->results[r], out);
    }
    ein__text_add(out, ": ");
    ein__spec_print(&n->spec, out);
    if (n->product) ein__text_add(out, "  product");
    else if (n->kind == OP_MAP && n->spec.n_operands <= MAX_CALL_OPERANDS) print_body(n, out);
    if (n->attention.causal) ein__text_add(out, "  causal");
    if (n->attention.position >= 0) ein__text_add(out, "  position=$%d", n->attention.position);
    if (n->attention.length >= 0) ein__text_add(out, "  length=$%d", n->attention.length);
    if (n->attention.window > 0) ein__text_add(out, "  window=%" PRId64, n->attention.window);
    if (n->attention.softcap > 0) ein__text_add(out, "  softcap=%g", n->attention.softcap);
    if (n->scalar >= 0) ein__text_add(out, "  at=$%d", n->scalar);
    ein__text_add(out, "\n");
}

static void print_loop(const loop *l, text *out)
{
    ein__text_add(out, "%d times", l->count);
    for (int c = 0; c < l->n_carries; c++) {
        const carry *k = &l->carries[c];
        ein__text_add(out, "%s %%%d = %%%d then %%%d", c > 0 ? "," : ":", k->value, k->init, k->next);
    }
    ein__text_add(out, "\n");
}

void ein__graph_print(const graph *g, text *out)
{
    for (int i = 0; i < g->leaves.n; i++) print_leaf(g, &g->leaves.items[i], out);
    for (int i = 0; i < g->scalars.n; i++) ein__text_add(out, "$%d = scalar %s\n", i, g->scalars.items[i]);
    for (int i = 0; i < g->bounds.n; i++) {
        const scalar_bound *b = &g->bounds.items[i];
        ein__text_add(out, "$%d + %" PRId64 " <= %" PRId64 " for ", b->scalar, b->rows, b->extent);
        ein__text_add(out, "%s\n", b->what);
    }
    for (int i = 0, l = 0; i < g->nodes.n; i++) {
        while (l < g->loops.n && g->loops.items[l].hi <= i) l++;
        bool inside = l < g->loops.n && g->loops.items[l].lo <= i;
        if (inside && g->loops.items[l].lo == i) print_loop(&g->loops.items[l], out);
        print_node(g, &g->nodes.items[i], inside ? "  " : "", out);
    }
    for (int i = 0; i < g->outputs.n; i++)
        ein__text_add(out, "output %s = %%%d\n", g->outputs.items[i].name, g->outputs.items[i].value);
}

/* ---- key ---- */

enum { KEY_KIND = 0x200, KEY_BODY, KEY_PRODUCT, KEY_STAGES, KEY_ATTENTION, KEY_SCALAR, KEY_APPEND, KEY_CUSTOM,
       KEY_VALUES, KEY_SHAPE, KEY_LEAVES, KEY_DATA, KEY_NODES, KEY_OPERANDS, KEY_RESULTS, KEY_OUTPUTS,
       KEY_SCALARS, KEY_BOUNDS, KEY_LOOPS, KEY_CARRIES, KEY_INDICES, KEY_SELECT };

static void key_string(text *key, uint32_t tag, const char *s) { ein__key_bytes(key, tag, s, strlen(s)); }

static void key_double(text *key, uint32_t tag, double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    ein__key_int(key, tag, bits);
}

/* A user's kernel names its labels. */
static void key_custom(const node *n, text *key)
{
    const custom_attrs *c = &n->custom;
    key_string(key, KEY_CUSTOM, c->name);
    key_string(key, KEY_CUSTOM, c->version);
    key_string(key, KEY_CUSTOM, c->kernel);
    key_string(key, KEY_CUSTOM, c->grid);
    for (int l = 0; l < n->spec.n_labels; l++) key_string(key, KEY_CUSTOM, n->spec.labels[l].name);
}

static void key_bodies(const expr bodies[MAX_STATES], text *key)
{
    for (int k = 0; k < MAX_STATES; k++) {
        ein__key_int(key, KEY_BODY, bodies[k].n);
        if (bodies[k].n > 0) ein__expr_key(&bodies[k], key);
    }
}

void ein__node_key(const node *n, text *key)
{
    ein__key_int(key, KEY_KIND, (int)n->kind);
    ein__spec_key(&n->spec, key);
    ein__key_int(key, KEY_INDICES, n->n_indices);
    for (int i = 0; i < n->n_indices; i++) ein__key_int(key, KEY_INDICES, n->indices[i]);
    key_bodies(n->body, key);
    ein__key_int(key, KEY_PRODUCT, n->product);
    ein__key_int(key, KEY_STAGES, n->n_stages);
    for (int i = 0; i < n->n_stages; i++) {
        ein__merge_key(n->stages[i].merge, key);
        key_bodies(n->stages[i].body, key);
    }
    if (n->kind == OP_ATTENTION) {
        ein__key_int(key, KEY_ATTENTION, n->attention.causal);
        key_double(key, KEY_ATTENTION, n->attention.scale);
        ein__key_int(key, KEY_ATTENTION, n->attention.position);
        ein__key_int(key, KEY_ATTENTION, n->attention.length);
        ein__key_int(key, KEY_ATTENTION, n->attention.window);
        key_double(key, KEY_ATTENTION, n->attention.softcap);
    }
    if (n->kind == OP_APPEND) {
        ein__key_int(key, KEY_SCALAR, n->scalar);
        ein__key_int(key, KEY_APPEND, n->append_t);
        ein__key_int(key, KEY_APPEND, n->append_s);
    }
    if (n->kind == OP_SELECT) {
        ein__key_int(key, KEY_SELECT, n->select.smallest);
        ein__key_int(key, KEY_SELECT, n->select.n);
        ein__key_int(key, KEY_SELECT, n->select.k);
    }
    if (n->kind == OP_CUSTOM) key_custom(n, key);
}

static void key_values(const graph *g, text *key)
{
    ein__key_int(key, KEY_VALUES, g->values.n);
    for (int v = 0; v < g->values.n; v++) {
        const value_info *x = &g->values.items[v];
        ein__key_int(key, KEY_KIND, (int)x->kind);
        ein__key_int(key, KEY_KIND, x->owner);
        ein__key_int(key, KEY_KIND, x->result);
        ein__key_int(key, KEY_KIND, (int)x->dtype);
        ein__key_int(key, KEY_SHAPE, x->rank);
        for (int i = 0; i < x->rank; i++) ein__key_int(key, KEY_SHAPE, x->shape[i]);
    }
}

/* A constant is its content. */
static void key_leaves(const graph *g, text *key)
{
    ein__key_int(key, KEY_LEAVES, g->leaves.n);
    for (int i = 0; i < g->leaves.n; i++) {
        const leaf *l = &g->leaves.items[i];
        ein__key_int(key, KEY_LEAVES, (int)l->kind);
        ein__key_int(key, KEY_LEAVES, l->n_members > 1 ? l->n_members : 1);
        if (l->kind != LEAF_CONSTANT) continue;
        i64 bytes = ein__value_numel(g, l->value) * ein__dtype_bytes(g->values.items[l->value].dtype);
        char digits[33];
        ein__hash_print(ein__hash(l->data, (size_t)bytes, 0), digits);
        key_string(key, KEY_DATA, digits);
    }
}

static void key_nodes(const graph *g, text *key)
{
    ein__key_int(key, KEY_NODES, g->nodes.n);
    for (int i = 0; i < g->nodes.n; i++) {
        const node *n = &g->nodes.items[i];
        key_string(key, KEY_NODES, n->name); /* plans name it */
        ein__node_key(n, key);
        for (int k = 0; k < n->spec.n_operands; k++) ein__key_int(key, KEY_OPERANDS, n->operands[k]);
        for (int r = 0; r < n->spec.n_results; r++) ein__key_int(key, KEY_RESULTS, n->results[r]);
    }
}

static void key_loops(const graph *g, text *key)
{
    ein__key_int(key, KEY_LOOPS, g->loops.n);
    for (int l = 0; l < g->loops.n; l++) {
        const loop *p = &g->loops.items[l];
        ein__key_int(key, KEY_LOOPS, p->lo);
        ein__key_int(key, KEY_LOOPS, p->hi);
        ein__key_int(key, KEY_LOOPS, p->count);
        ein__key_int(key, KEY_CARRIES, p->n_carries);
        for (int c = 0; c < p->n_carries; c++) {
            ein__key_int(key, KEY_CARRIES, p->carries[c].value);
            ein__key_int(key, KEY_CARRIES, p->carries[c].init);
            ein__key_int(key, KEY_CARRIES, p->carries[c].next);
        }
    }
}

void ein__graph_key(const graph *g, text *key)
{
    key_values(g, key);
    key_leaves(g, key);
    key_nodes(g, key);
    key_loops(g, key);
    ein__key_int(key, KEY_OUTPUTS, g->outputs.n);
    for (int i = 0; i < g->outputs.n; i++) ein__key_int(key, KEY_OUTPUTS, g->outputs.items[i].value);
    ein__key_int(key, KEY_SCALARS, g->scalars.n);
    ein__key_int(key, KEY_BOUNDS, g->bounds.n);
    for (int i = 0; i < g->bounds.n; i++) {
        ein__key_int(key, KEY_BOUNDS, g->bounds.items[i].scalar);
        ein__key_int(key, KEY_BOUNDS, g->bounds.items[i].rows);
        ein__key_int(key, KEY_BOUNDS, g->bounds.items[i].extent);
    }
}
