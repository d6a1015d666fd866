/* SPDX-License-Identifier: Apache-2.0 */
/* The whole pipeline on one page:
 *
 *   graph -> canonical form -> key -> cache?
 *     hit:  plan from the entry -> lower -> load its objects
 *     miss: search (or the forced plan) -> lower -> compile -> load -> write the entry
 *   then place weights and constants.
 *
 * Lowering is cheap and deterministic, so an entry holds the plan and the objects, not the program. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/identity.h"
#include "core/graph/canonical.h"
#include "jit/compiler/dump.h"
#include "jit/context.h"
#include "jit/costs.h"
#include "jit/lower.h"

typedef struct compilation {
    ein_context *c;
    ein_program *p;
    const ein_compile_options *o;
    error *e;
    const relation **fixed; /* per canonical leaf; NULL: free */
    bool apart;             /* tensors of one leaf lie differently: the layers cannot be one loop */
    text key;
} compilation;

/* ---- canonical form and what is fixed already --------------------------------------------------------- */

static ein_status copy_names(ein_program *p, const graph *user)
{
    NEW(&p->arena, p->leaf_names, user->leaves.n);
    for (int i = 0; i < user->leaves.n; i++) {
        p->leaf_names[i] = ein__arena_strdup(&p->arena, user->leaves.items[i].name);
        if (p->leaf_names[i] == NULL) return EIN_NO_MEMORY;
    }
    return EIN_OK;
}

/* The canonical graph borrows strings and data of the user's, which may be freed: copy what the program keeps. */
static ein_status own_strings(ein_program *p)
{
    graph *g = &p->graph;
    for (int i = 0; i < g->outputs.n; i++)
        if ((g->outputs.items[i].name = ein__arena_strdup(&p->arena, g->outputs.items[i].name)) == NULL) return EIN_NO_MEMORY;
    for (int i = 0; i < g->scalars.n; i++)
        if ((g->scalars.items[i] = ein__arena_strdup(&p->arena, g->scalars.items[i])) == NULL) return EIN_NO_MEMORY;
    for (int i = 0; i < g->bounds.n; i++)
        if ((g->bounds.items[i].what = ein__arena_strdup(&p->arena, g->bounds.items[i].what)) == NULL) return EIN_NO_MEMORY;
    for (int i = 0; i < g->nodes.n; i++)
        if ((g->nodes.items[i].name = ein__arena_strdup(&p->arena, g->nodes.items[i].name)) == NULL) return EIN_NO_MEMORY;
    return EIN_OK;
}

/* The merge, or one like it whose narrow partials travel in f32. */
static ein_status widen_merge(arena *a, const merge **m)
{
    merge *wide;
    bool narrow = false;
    for (int i = 0; *m != NULL && i < (*m)->n_states; i++)
        narrow = narrow || (*m)->wire[i] == EIN_BF16 || (*m)->wire[i] == EIN_F16;
    if (!narrow) return EIN_OK;
    NEW(a, wide, 1);
    *wide = **m;
    for (int i = 0; i < wide->n_states; i++)
        if (wide->wire[i] == EIN_BF16 || wide->wire[i] == EIN_F16) wide->wire[i] = EIN_F32;
    *m = wide;
    return EIN_OK;
}

/* The option `wire`. The key has it: merges are in the graph's. Of a gather's partials all but one are 0, so that none
 * is rounded, and its kernel copies them as they are. */
static ein_status widen_wires(ein_program *p)
{
    for (int i = 0; i < p->graph.nodes.n; i++) {
        node *n = &p->graph.nodes.items[i];
        if (n->kind == OP_GATHER) continue;
        TRY(widen_merge(&p->arena, &n->spec.merge));
        for (int k = 0; k < n->n_stages; k++) TRY(widen_merge(&p->arena, &n->stages[k].merge));
    }
    return EIN_OK;
}

static bool leaf_lives(const graph *g, int user_leaf)
{
    for (int i = 0; i < g->leaves.n; i++)
        for (int m = 0; m < g->leaves.items[i].n_members; m++)
            if (g->leaves.items[i].members[m] == user_leaf) return true;
    return false;
}

static bool scalar_lives(const graph *g, const char *name)
{
    for (int i = 0; i < g->scalars.n; i++)
        if (strcmp(g->scalars.items[i], name) == 0) return true;
    return false;
}

/* Binding what no output needs is no error, so its names are kept. */
static ein_status note_unused(ein_program *p, const graph *user)
{
    for (int i = 0; i < user->leaves.n; i++)
        if (user->leaves.items[i].kind == LEAF_INPUT && !leaf_lives(&p->graph, i))
            PUSH(&p->arena, &p->unused, p->leaf_names[i]);
    for (int i = 0; i < user->scalars.n; i++) {
        if (scalar_lives(&p->graph, user->scalars.items[i])) continue;
        const char *name = ein__arena_strdup(&p->arena, user->scalars.items[i]);
        if (name == NULL) return EIN_NO_MEMORY;
        PUSH(&p->arena, &p->unused, name);
    }
    return EIN_OK;
}

static ein_status fix_leaf(compilation *k, int index, const tensor_list *store)
{
    const leaf *l = &k->p->graph.leaves.items[index];
    for (int m = 0; m < l->n_members; m++) {
        const char *name = ein__leaf_name(k->p, l, m);
        const placed_tensor *t = ein__tensor_find(store, name);
        if (t == NULL || !t->placed) continue;
        if (ein__relation_numel(&t->layout) != ein__value_numel(&k->p->graph, l->value))
            return ein__fail(k->e, EIN_SHAPE, "'%s' is placed with %lld elements, the graph has %lld", name,
                             (long long)ein__relation_numel(&t->layout), (long long)ein__value_numel(&k->p->graph, l->value));
        if (k->fixed[index] != NULL && !ein__relation_equal(k->fixed[index], &t->layout)) k->apart = true;
        k->fixed[index] = &t->layout;
    }
    return EIN_OK;
}

static ein_status find_fixed(compilation *k)
{
    const graph *g = &k->p->graph;
    NEW(&k->p->arena, k->fixed, g->leaves.n);
    for (int i = 0; i < g->leaves.n; i++) {
        if (g->leaves.items[i].kind == LEAF_PARAMETER && k->o->weights != NULL) TRY(fix_leaf(k, i, &k->o->weights->tensors));
        if (g->leaves.items[i].kind == LEAF_STATE && k->o->state != NULL) TRY(fix_leaf(k, i, &k->o->state->tensors));
    }
    return EIN_OK;
}

static ein_status use_form(compilation *k, const graph *user, bool rolled)
{
    graph *g = &k->p->graph;
    ein__arena_free(&g->arena);
    *g = (graph){0};
    TRY(rolled ? ein__canonicalize(user, g, k->e) : ein__canonicalize_flat(user, g, k->e));
    TRY(own_strings(k->p));
    if (k->o->wire == EIN_F32) TRY(widen_wires(k->p));
    TRY(ein__graph_check(g, k->e));
    if (k->o->weights != NULL) TRY(ein__weights_check(k->p, k->o->weights, k->e));
    k->apart = false;
    return find_fixed(k);
}

/* ---- key ---------------------------------------------------------------------------------------------- */

static ein_status make_key(compilation *k)
{
    text *key = &k->key;
    const char *code_identity = ein__code_identity();
    ein__key_bytes(key, 'L', code_identity, strlen(code_identity));
    if (k->c->target != NULL) TRY(k->c->target->api->identity(k->c->target, key, k->e));
    ein__machine_key(&k->c->machine, key);
    ein__graph_key(&k->p->graph, key);
    ein__key_int(key, 'c', k->o->counting);
    if (k->o->plan != NULL) ein__key_bytes(key, 'P', k->o->plan, strlen(k->o->plan));
    return ein__text_status(key);
}

/* The same with the layouts that are placed already; false if there are none. */
static bool add_fixed_to_key(compilation *k)
{
    bool any = false;
    for (int i = 0; i < k->p->graph.leaves.n; i++)
        if (k->fixed[i] != NULL) {
            ein__key_int(&k->key, 'f', i);
            ein__relation_key(k->fixed[i], &k->key);
            any = true;
        }
    return any;
}

/* ---- plan, program, code ------------------------------------------------------------------------------ */

static ein_status lower_plan(compilation *k)
{
    double start = ein__now_ms();
    TRY(ein__plan_check(&k->p->graph, &k->p->plan, k->e));
    k->p->plan.alike_products = !k->c->machine.host;
    TRY(ein__lower(&k->p->arena, &k->p->graph, &k->p->plan, &k->c->machine, &k->p->program, k->e));
    k->p->stats.synth_ms = ein__now_ms() - start;
    for (int i = 0; i < k->p->program.n_kernels; i++) ein__kernel_dump(&k->p->program.kernels[i]);
    return EIN_OK;
}

static ein_status fixed_kept(compilation *k)
{
    for (int i = 0; i < k->p->graph.leaves.n; i++)
        if (k->fixed[i] != NULL && !ein__relation_equal(k->fixed[i], &k->p->plan.leaves[i]))
            return ein__fail(k->e, EIN_NO_PLAN, "the plan lays '%s' otherwise than it is placed",
                             ein__leaf_name(k->p, &k->p->graph.leaves.items[i], 0));
    return EIN_OK;
}

static ein_status make_plan(compilation *k)
{
    ein_program *p = k->p;
    if (k->o->plan != NULL) {
        TRY(ein__plan_parse(&p->arena, &p->graph, k->o->plan, &p->plan, k->e));
        if (p->plan.n_devices != k->c->machine.n_devices)
            return ein__fail(k->e, EIN_NO_PLAN, "the plan is for %d devices, the machine has %d", p->plan.n_devices,
                             k->c->machine.n_devices);
    } else {
        double start = ein__now_ms();
        cost_model costs;
        TRY(ein__cost_model(&p->arena, &k->c->machine, &costs));
        fixed_layouts fixed = {k->fixed};
        ein__progress(k->c, "search", 0);
        TRY(ein__search(&p->arena, &p->graph, &k->c->machine, &costs, &fixed, &p->plan, k->e));
        p->stats.search_ms = ein__now_ms() - start;
        p->stats.searches = 1;
    }
    TRY(fixed_kept(k));
    return lower_plan(k);
}

static ein_status load_code(compilation *k, const text *objects, int n)
{
    return k->c->target->api->load(k->c->target, &k->p->program, objects, n, &k->p->code, k->e);
}

static void write_entry(compilation *k, const text *objects, int n)
{
    text plan = {0}, info = {0};
    section sections[2 + MAX_OBJECTS];
    if (!k->c->caching) return;
    ein__text_add(&info, "%s, %d nodes, %d kernels%s", k->c->machine.name, k->p->graph.nodes.n, k->p->program.n_kernels,
                  k->o->counting ? ", counting" : "");
    if (ein__plan_print_nameless(&k->p->graph, &k->p->plan, &plan) == EIN_OK && ein__text_status(&info) == EIN_OK) {
        sections[0] = (section){SECTION_PLAN, plan.bytes, plan.n};
        sections[1] = (section){SECTION_INFO, info.bytes, info.n};
        for (int i = 0; i < n; i++) sections[2 + i] = (section){SECTION_OBJECT, objects[i].bytes, objects[i].n};
        ein__cache_put(&k->c->cache, &k->key, sections, 2 + n);
    }
    ein__text_free(&plan);
    ein__text_free(&info);
}

static ein_status compile_code(compilation *k)
{
    text objects[MAX_OBJECTS] = {{0}};
    int n = 0;
    double start = ein__now_ms();
    ein__progress(k->c, "compile", 0);
    ein_status s = ein__kernels_compile(k->p, objects, &n, k->e);
    if (s == EIN_OK) s = load_code(k, objects, n);
    k->p->stats.compile_ms = ein__now_ms() - start;
    k->p->stats.compiles = k->p->program.n_kernels;
    if (s == EIN_OK) write_entry(k, objects, n);
    for (int i = 0; i < n; i++) ein__text_free(&objects[i]);
    return s;
}

/* The plan section as a NUL-terminated text. */
static const char *plan_text(arena *a, const section *x)
{
    char *t = ein__arena_get(a, x->n + 1, 1);
    if (t != NULL && x->n > 0) memcpy(t, x->bytes, x->n);
    return t;
}

/* True if the entry gave a whole program. Anything wrong with it is a miss; what was made is dropped. */
static bool use_entry(compilation *k, arena *scratch)
{
    const section *sections;
    text objects[MAX_OBJECTS] = {{0}};
    const char *plan = NULL;
    int n, n_objects = 0;
    if (!k->c->caching || !ein__cache_get(&k->c->cache, scratch, &k->key, &sections, &n)) return false;
    for (int i = 0; i < n; i++) {
        if (sections[i].kind == SECTION_PLAN) plan = plan_text(scratch, &sections[i]);
        if (sections[i].kind == SECTION_OBJECT && n_objects < MAX_OBJECTS) {
            objects[n_objects].bytes = (char *)(uintptr_t)sections[i].bytes;
            objects[n_objects++].n = sections[i].n;
        }
    }
    if (plan == NULL || ein__plan_parse(&k->p->arena, &k->p->graph, plan, &k->p->plan, k->e) != EIN_OK) return false;
    if (k->p->plan.n_devices != k->c->machine.n_devices || fixed_kept(k) != EIN_OK || lower_plan(k) != EIN_OK) return false;
    return load_code(k, objects, n_objects) == EIN_OK;
}

static ein_status make_program(compilation *k)
{
    if (k->c->target == NULL) return make_plan(k); /* a machine that can only be planned */
    arena scratch = {NULL};
    /* The plan that a free search found is as good if it lays placed tensors as they are. */
    bool hit = use_entry(k, &scratch);
    if (!hit && add_fixed_to_key(k)) hit = use_entry(k, &scratch);
    ein__arena_free(&scratch);
    TRY(ein__text_status(&k->key));
    if (hit) return EIN_OK;
    ein__error_reset(k->e);
    TRY(make_plan(k));
    return compile_code(k);
}

/* ---- the result --------------------------------------------------------------------------------------- */

static i64 weight_bytes(const ein_program *p)
{
    i64 sum = 0;
    for (int i = 0; i < p->graph.leaves.n; i++) {
        const leaf *l = &p->graph.leaves.items[i];
        const relation *r = &p->plan.leaves[i];
        if (l->kind != LEAF_PARAMETER) continue;
        i64 size = ein__dtype_bytes(p->graph.values.items[l->value].dtype) * l->n_members;
        for (int b = 0; b < r->n_blocks; b++) sum += size * ein__block_numel(r, b) * __builtin_popcount(r->devices[b]);
    }
    return sum;
}

static void fill_stats(ein_program *p)
{
    p->stats.size = sizeof p->stats;
    p->stats.kernels = p->program.n_kernels;
    p->stats.steps = p->program.n_steps;
    p->stats.predicted_bytes = p->program.remote_bytes;
    p->stats.predicted_us = p->plan.predicted_us;
    p->stats.weight_bytes = weight_bytes(p);
    for (int d = 0; d < p->program.n_devices; d++)
        if (p->program.devices[d].buffer_bytes > p->stats.buffer_bytes)
            p->stats.buffer_bytes = p->program.devices[d].buffer_bytes;
}

static ein_status print_texts(ein_program *p)
{
    TRY(ein__plan_print(&p->graph, &p->plan, &p->plan_text));
    ein__explain(p, &p->explain_text);
    ein__program_print(&p->program, &p->print_text);
    for (int i = 0; i < p->program.n_kernels; i++)
        ein__text_add(&p->source_text, "/* %s, %d threads */\n%s\n", p->program.kernels[i].name, p->program.kernels[i].threads,
                      p->program.kernels[i].body);
    TRY(ein__text_status(&p->explain_text));
    TRY(ein__text_status(&p->print_text));
    return ein__text_status(&p->source_text);
}

static ein_status compile(compilation *k, const graph *user)
{
    ein_program *p = k->p;
    if (user->error.status != EIN_OK) return ein__fail(k->e, user->error.status, "%s", user->error.line);
    if (user->outputs.n == 0) return ein__fail(k->e, EIN_INVALID, "the graph has no output");
    TRY(copy_names(p, user));
    TRY(ein__graph_check(user, k->e));
    TRY(use_form(k, user, true));
    if (k->apart) TRY(use_form(k, user, false));
    TRY(note_unused(p, user));
    TRY(make_key(k));
    TRY(make_program(k));
    fill_stats(p);
    TRY(print_texts(p));
    if (k->c->target == NULL) return EIN_OK;
    double start = ein__now_ms();
    TRY(ein__program_bind(p, k->o->weights, k->e));
    p->stats.place_ms = ein__now_ms() - start;
    return EIN_OK;
}

ein_status ein_compile(ein_program **out, ein_context *c, const ein_graph *g, const ein_compile_options *options)
{
    static const ein_compile_options defaults = {.size = sizeof defaults};
    if (out == NULL || c == NULL) return EIN_INVALID;
    *out = NULL;
    ein__error_reset(&c->error);
    if (g == NULL) return ein__fail(&c->error, EIN_INVALID, "compile: no graph");
    if (options != NULL && options->size != sizeof *options)
        return ein__fail(&c->error, EIN_INVALID, "compile options: size is not sizeof(ein_compile_options)");
    compilation k = {.c = c, .o = options != NULL ? options : &defaults, .e = &c->error};
    if ((k.o->weights != NULL && k.o->weights->context != c) || (k.o->state != NULL && k.o->state->context != c))
        return ein__fail(&c->error, EIN_INVALID, "compile: weights or state belong to another context");
    if (k.o->wire != 0 && k.o->wire != EIN_F32)
        return ein__fail(&c->error, EIN_DTYPE, "compile: wire is %d (%s); 0 or EIN_F32", (int)k.o->wire,
                         ein__dtype_name(k.o->wire));
    k.p = ein__calloc(1, sizeof *k.p);
    if (k.p == NULL) return ein__fail(&c->error, EIN_NO_MEMORY, "out of memory for a program");
    k.p->context = c;
    k.p->counting = k.o->counting != 0;
    ein_status s = compile(&k, &g->g);
    ein__text_free(&k.key);
    if (s == EIN_OK) {
        *out = k.p;
        return s;
    }
    if (s == EIN_NO_MEMORY && c->error.line[0] == 0) ein__fail(&c->error, s, "out of memory while compiling");
    ein_program_free(k.p);
    return s;
}

void ein_program_free(ein_program *p)
{
    if (p == NULL) return;
    for (int i = 0; i < p->constants.n; i++) ein__tensor_release(p->context, p->constants.items[i]);
    if (p->code != NULL) p->context->target->api->unload(p->code);
    ein__text_free(&p->plan_text);
    ein__text_free(&p->explain_text);
    ein__text_free(&p->source_text);
    ein__text_free(&p->print_text);
    ein__arena_free(&p->graph.arena);
    ein__arena_free(&p->arena);
    ein__free(p);
}

void ein_program_get_stats(const ein_program *p, ein_program_stats *stats)
{
    if (p != NULL && stats != NULL && stats->size == sizeof *stats) *stats = p->stats;
}

const char *ein_program_plan(ein_program *p) { return p != NULL ? ein__text_get(&p->plan_text) : ""; }
const char *ein_program_explain(ein_program *p) { return p != NULL ? ein__text_get(&p->explain_text) : ""; }
const char *ein_program_source(ein_program *p) { return p != NULL ? ein__text_get(&p->source_text) : ""; }
const char *ein_program_print(ein_program *p) { return p != NULL ? ein__text_get(&p->print_text) : ""; }
