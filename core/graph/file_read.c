/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a graph file. The text may be hostile: every member has to be there once, with its type, and no other; and
 * the builder checks the calls as it checks a program's. The first failure is the graph's. */
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/graph/builder.h"
#include "core/graph/calls.h"
#include "core/graph/file.h"

enum { LARGEST_FILE = 1 << 30, MOST_RESULTS = 1 << 12 };

struct call_reader {
    ein_graph *g;
    arena arena;
    int index;           /* of the call */
    const char *call;
    const json_t *json;  /* the call, or the options in it */
    int used;            /* members of `json` that were asked for and are there */
    struct { json_t *tensors, *scalars; } names; /* name -> id */
    int n_results;
    ein_tensor *results;
};

#define WRONG(r, ...) wrong(r, ein__arena_printf(&(r)->arena, __VA_ARGS__))

static void wrong(call_reader *r, const char *what)
{
    if (r->g->g.error.status != EIN_OK) return;
    ein__fail(&r->g->g.error, what != NULL ? EIN_INVALID : EIN_NO_MEMORY, "graph file: call %d, %s: %s", r->index,
              ein__excerpt_first(r->call, 40).s, what != NULL ? what : "out of memory");
}

ein_graph *ein__read_graph(call_reader *r) { return r->g; }
bool ein__read_failed(const call_reader *r) { return r->g->g.error.status != EIN_OK; }

/* The member, or NULL; `maybe` says that this is no failure. */
static const json_t *member(call_reader *r, const char *name, bool maybe)
{
    const json_t *v = json_object_get(r->json, name);
    if (v != NULL) r->used++;
    else if (!maybe) WRONG(r, "\"%s\" is missing", name);
    return v;
}

static void *room(call_reader *r, size_t n, size_t size)
{
    void *p = ein__arena_get(&r->arena, n + 1, size);
    if (p == NULL) wrong(r, NULL);
    return p;
}

/* ---- references ---------------------------------------------------------------------------------------- */

static uint32_t find(call_reader *r, const json_t *names, const json_t *name, const char *what)
{
    if (!json_is_string(name)) {
        WRONG(r, "\"%s\" must name a %s", what, names == r->names.scalars ? "scalar" : "tensor");
        return 0;
    }
    const json_t *id = json_object_get(names, json_string_value(name));
    if (id == NULL) WRONG(r, "\"%s\" is '%s', which no call before made", what, ein__excerpt_first(json_string_value(name), 40).s);
    return (uint32_t)json_integer_value(id);
}

ein_tensor ein__read_tensor(call_reader *r, const char *name, bool maybe)
{
    const json_t *v = member(r, name, maybe);
    return (ein_tensor){v != NULL ? find(r, r->names.tensors, v, name) : 0};
}

ein_scalar ein__read_scalar(call_reader *r, const char *name)
{
    const json_t *v = member(r, name, true);
    return (ein_scalar){v != NULL ? find(r, r->names.scalars, v, name) : 0};
}

/* An array of at most `most`, of exactly `each` if that is not negative; its length, -1 on failure. */
static int array(call_reader *r, const char *name, int each, int most, const json_t **out)
{
    const json_t *v = *out = member(r, name, false);
    if (v == NULL) return -1;
    size_t n = json_array_size(v);
    if (!json_is_array(v)) WRONG(r, "\"%s\" must be an array", name);
    else if (n > (size_t)most) WRONG(r, "\"%s\" has %zu entries; at most %d", name, n, most);
    else if (each >= 0 && n != (size_t)each) WRONG(r, "\"%s\" has %zu entries for %d dimensions", name, n, each);
    else return (int)n;
    return -1;
}

const ein_tensor *ein__read_tensors(call_reader *r, const char *name, int *n)
{
    const json_t *v;
    *n = array(r, name, -1, MAX_CALL_OPERANDS, &v);
    ein_tensor *list = *n >= 0 ? room(r, (size_t)*n, sizeof *list) : NULL;
    for (int i = 0; list != NULL && i < *n; i++) list[i].id = find(r, r->names.tensors, json_array_get(v, (size_t)i), name);
    return list;
}

/* ---- numbers and words --------------------------------------------------------------------------------- */

static i64 integer(call_reader *r, const json_t *v, const char *name, i64 least, i64 most)
{
    if (!json_is_integer(v)) {
        WRONG(r, "\"%s\" must be an integer", name);
        return 0;
    }
    i64 x = json_integer_value(v);
    if (x < least || x > most)
        WRONG(r, "\"%s\" is %lld; %lld to %lld", name, (long long)x, (long long)least, (long long)most);
    return x;
}

i64 ein__read_integer(call_reader *r, const char *name, i64 least, i64 most)
{
    const json_t *v = member(r, name, false);
    return v != NULL ? integer(r, v, name, least, most) : 0;
}

static double real(call_reader *r, const json_t *v, const char *name)
{
    const char *word = json_string_value(v);
    if (json_is_number(v)) return json_number_value(v);
    if (word != NULL && strcmp(word, "nan") == 0) return NAN;
    if (word != NULL && strcmp(word, "inf") == 0) return INFINITY;
    if (word != NULL && strcmp(word, "-inf") == 0) return -INFINITY;
    WRONG(r, "\"%s\" must be a number, \"nan\", \"inf\" or \"-inf\"", name);
    return 0;
}

double ein__read_real(call_reader *r, const char *name)
{
    const json_t *v = member(r, name, false);
    return v != NULL ? real(r, v, name) : 0;
}

const char *ein__read_text(call_reader *r, const char *name)
{
    const json_t *v = member(r, name, false);
    if (v != NULL && !json_is_string(v)) WRONG(r, "\"%s\" must be a string", name);
    return json_string_value(v);
}

ein_dtype ein__read_dtype(call_reader *r, const char *name)
{
    const char *word = ein__read_text(r, name);
    if (word == NULL) return 0;
    for (int d = 1; ein__dtype_name((ein_dtype)d)[0] != '?'; d++)
        if (strcmp(ein__dtype_name((ein_dtype)d), word) == 0) return (ein_dtype)d;
    WRONG(r, "\"%s\" is '%s', which is no element type", name, ein__excerpt_first(word, 40).s);
    return 0;
}

const int64_t *ein__read_longs(call_reader *r, const char *name, int each, int *n)
{
    const json_t *v;
    *n = array(r, name, each, MOST_RESULTS, &v);
    int64_t *list = *n >= 0 ? room(r, (size_t)*n, sizeof *list) : NULL;
    for (int i = 0; list != NULL && i < *n; i++) list[i] = integer(r, json_array_get(v, (size_t)i), name, INT64_MIN, INT64_MAX);
    return list;
}

const int *ein__read_ints(call_reader *r, const char *name, int each, int *n)
{
    const int64_t *longs = ein__read_longs(r, name, each, n);
    int *list = longs != NULL ? room(r, (size_t)*n, sizeof *list) : NULL;
    for (int i = 0; list != NULL && i < *n; i++) {
        if (longs[i] < INT32_MIN || longs[i] > INT32_MAX) WRONG(r, "\"%s\" has %lld", name, (long long)longs[i]);
        else list[i] = (int)longs[i];
    }
    return list;
}

/* ---- a constant's elements ------------------------------------------------------------------------------ */

static i64 numel_of(call_reader *r, int rank, const int64_t *shape)
{
    i64 n = 1;
    if (ein__read_failed(r)) return -1;
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 0 || (shape[i] > 0 && n > (i64)LARGEST_FILE / shape[i])) {
            WRONG(r, "\"shape\" has extent %lld", (long long)shape[i]);
            return -1;
        }
        n *= shape[i];
    }
    return n;
}

const void *ein__read_data(call_reader *r, const char *name, ein_dtype dtype, int rank, const int64_t *shape)
{
    const json_t *v = member(r, name, false);
    i64 n = numel_of(r, rank, shape), size = ein__dtype_bytes(dtype);
    if (n < 0 || v == NULL) return NULL;
    if (!json_is_array(v) || (i64)json_array_size(v) != n) {
        WRONG(r, "\"%s\" must be an array of %lld numbers", name, (long long)n);
        return NULL;
    }
    char *data = room(r, (size_t)n, size > 0 ? (size_t)size : 1);
    for (i64 i = 0; data != NULL && size > 0 && i < n && !ein__read_failed(r); i++) {
        const json_t *x = json_array_get(v, (size_t)i);
        if (ein__dtype_is_float(dtype)) {
            ein__dtype_write(dtype, real(r, x, name), data + i * size);
        } else {
            i64 whole = integer(r, x, name, INT64_MIN, INT64_MAX), back = 0;
            ein__dtype_convert(dtype, data + i * size, EIN_I64, &whole, 1);
            ein__dtype_convert(EIN_I64, &back, dtype, data + i * size, 1);
            if (back != whole) WRONG(r, "\"%s\" has %lld, which is no %s", name, (long long)whole, ein__dtype_name(dtype));
        }
    }
    return data;
}

/* ---- options -------------------------------------------------------------------------------------------- */

static void check_members(call_reader *r, int expected)
{
    const char *name;
    json_t *v;
    if ((int)json_object_size(r->json) == expected || ein__read_failed(r)) return;
    static const char *const general[] = {"call", "out"};
    json_object_foreach((json_t *)(uintptr_t)r->json, name, v) {
        bool known = strcmp(name, general[0]) == 0 || strcmp(name, general[1]) == 0;
        const call_form *f = ein__call_find(r->call);
        for (int i = 0; f != NULL && i < f->n_arguments; i++) known = known || strcmp(name, f->names[i]) == 0;
        if (!known) WRONG(r, "\"%s\" is no member of it", ein__excerpt_first(name, 40).s);
    }
    WRONG(r, "it has %zu members, %d are known", json_object_size(r->json), expected);
}

typedef struct inside { const json_t *json; int used; } inside;

/* Step into an object member; false if it is not there. */
static bool enter(call_reader *r, const char *name, inside *before)
{
    const json_t *v = member(r, name, true);
    if (v == NULL) return false;
    *before = (inside){r->json, r->used};
    if (!json_is_object(v)) {
        WRONG(r, "\"%s\" must be an object", name);
        return false;
    }
    r->json = v;
    r->used = 0;
    return true;
}

static void leave(call_reader *r, const char *name, const inside *before)
{
    if ((int)json_object_size(r->json) != r->used)
        WRONG(r, "\"%s\" has %zu members, %d are known", name, json_object_size(r->json), r->used);
    r->json = before->json;
    r->used = before->used;
}

static void read_option(call_reader *r, const struct option_form *f, char *at)
{
    int n;
    if (json_object_get(r->json, f->name) == NULL) return;
    switch (f->kind) {
    case OPTION_FLAG: *(int *)at = (int)ein__read_integer(r, f->name, 0, 1); break;
    case OPTION_LONG: *(int64_t *)at = ein__read_integer(r, f->name, INT64_MIN, INT64_MAX); break;
    case OPTION_REAL: *(double *)at = ein__read_real(r, f->name); break;
    case OPTION_TENSOR: *(ein_tensor *)at = ein__read_tensor(r, f->name, false); break;
    case OPTION_SCALAR: *(ein_scalar *)at = ein__read_scalar(r, f->name); break;
    case OPTION_PAIR: {
        const int64_t *pair = ein__read_longs(r, f->name, 2, &n);
        if (pair != NULL) memcpy(at, pair, 2 * sizeof *pair);
    }
    }
}

/* NULL if the member is not there. */
const void *ein__read_options(call_reader *r, const char *name, argument_kind kind)
{
    inside before;
    const options_form *form = ein__options_form(kind);
    char *o = room(r, 1, form->size);
    if (o == NULL || !enter(r, name, &before)) return NULL;
    memcpy(o, &form->size, sizeof form->size);
    for (int i = 0; i < form->n_members; i++) read_option(r, &form->members[i], o + form->members[i].offset);
    leave(r, name, &before);
    return o;
}

/* ---- calls ----------------------------------------------------------------------------------------------- */

/* The arguments have been read: all members are known by now. */
ein_tensor *ein__read_results(call_reader *r, int n)
{
    check_members(r, r->used + 1 + (n > 0 && json_object_get(r->json, "out") != NULL));
    r->results = ein__read_failed(r) ? NULL : room(r, (size_t)(n > 0 ? n : 0), sizeof *r->results);
    r->n_results = n;
    return r->results;
}

static void name_result(call_reader *r, json_t *names, const char *name, uint32_t id)
{
    if (json_object_get(names, name) != NULL) WRONG(r, "\"out\" has '%s', which is made already", ein__excerpt_first(name, 40).s);
    else if (json_object_set_new(names, name, json_integer(id)) != 0) wrong(r, NULL);
}

/* The entry of "out", NULL on failure. */
static const char *result_name(call_reader *r, int i, int n)
{
    const json_t *out = json_object_get(r->json, "out"), *name = json_array_get(out, (size_t)i);
    if (out == NULL) WRONG(r, "\"out\" is missing");
    else if (!json_is_array(out) || json_array_size(out) != (size_t)n || !json_is_string(name))
        WRONG(r, "\"out\" must name %d result%s", n, n == 1 ? "" : "s");
    return ein__read_failed(r) ? NULL : json_string_value(name);
}

void ein__read_scalar_result(call_reader *r, ein_scalar s)
{
    check_members(r, r->used + 1 + (json_object_get(r->json, "out") != NULL));
    const char *name = result_name(r, 0, 1);
    if (name != NULL) name_result(r, r->names.scalars, name, s.id);
}

/* Say which call it was that the builder refused. */
static void place_failure(call_reader *r)
{
    error *e = &r->g->g.error;
    char line[sizeof e->line];
    memcpy(line, e->line, sizeof line);
    if (strncmp(line, "graph file:", 11) != 0) ein__fail(e, e->status, "graph file: call %d: %.230s", r->index, line);
}

static void read_call(call_reader *r, const json_t *v)
{
    const char *name = json_string_value(json_object_get(v, "call"));
    const call_form *form = name != NULL ? ein__call_find(name) : NULL;
    r->call = name != NULL ? name : "?";
    r->json = v;
    r->used = r->n_results = 0;
    if (!json_is_object(v) || name == NULL) WRONG(r, "it must be an object with a \"call\"");
    else if (form == NULL) WRONG(r, "no such call");
    else form->read(r);
    for (int i = 0; i < r->n_results && !ein__read_failed(r); i++) {
        const char *out = result_name(r, i, r->n_results);
        if (out != NULL) name_result(r, r->names.tensors, out, r->results[i].id);
    }
    if (ein__read_failed(r)) place_failure(r);
}

static void read_calls(call_reader *r, const json_t *root)
{
    error *e = &r->g->g.error;
    const json_t *version = json_object_get(root, "ein_graph"), *calls = json_object_get(root, "calls");
    const json_t *weights = json_object_get(root, "weights");
    size_t known = (version != NULL) + (calls != NULL) + (weights != NULL);
    if (!json_is_object(root) || !json_is_integer(version)) {
        ein__fail(e, EIN_INVALID, "graph file: it has no \"ein_graph\", the version of its form");
    } else if (json_integer_value(version) != GRAPH_FILE_VERSION) {
        ein__fail(e, EIN_UNSUPPORTED, "graph file: its form has version %lld; %d is known", (long long)json_integer_value(version),
                  GRAPH_FILE_VERSION);
    } else if (!json_is_array(calls) || (weights != NULL && !json_is_string(weights)) || json_object_size(root) != known) {
        ein__fail(e, EIN_INVALID, "graph file: it must have \"calls\", an array, may have \"weights\", a string, and nothing else");
    } else if (weights != NULL) {
        r->g->g.weights = ein__arena_strdup(&r->g->g.arena, json_string_value(weights));
        if (r->g->g.weights == NULL) ein__fail(e, EIN_NO_MEMORY, "graph file: out of memory");
    }
    for (size_t i = 0; i < json_array_size(calls) && e->status == EIN_OK; i++) {
        r->index = (int)i;
        read_call(r, json_array_get(calls, i));
        ein__arena_free(&r->arena);
    }
}

ein_status ein_graph_read(ein_graph *g, const char *source, size_t bytes)
{
    json_error_t at;
    if (g == NULL) return EIN_INVALID;
    error *e = &g->g.error;
    if (e->status != EIN_OK) return e->status;
    if (source == NULL || g->g.values.n > 0 || g->g.scalars.n > 0)
        return ein__fail(e, EIN_INVALID, "graph file: %s", source == NULL ? "no text" : "the graph is not empty");
    call_reader r = {.g = g, .call = ""};
    json_t *root = json_loadb(source, bytes, JSON_REJECT_DUPLICATES, &at);
    r.names.tensors = json_object();
    r.names.scalars = json_object();
    if (root == NULL)
        ein__fail(e, EIN_INVALID, "graph file: line %d, column %d: %.180s", at.line, at.column, at.text);
    else if (r.names.tensors == NULL || r.names.scalars == NULL) ein__fail(e, EIN_NO_MEMORY, "graph file: out of memory");
    else read_calls(&r, root);
    json_decref(root);
    json_decref(r.names.tensors);
    json_decref(r.names.scalars);
    ein__arena_free(&r.arena);
    return e->status;
}

/* ---- files ----------------------------------------------------------------------------------------------- */

ein_status ein_graph_load(ein_graph *g, const char *path)
{
    text source = {0};
    if (g == NULL) return EIN_INVALID;
    if (g->g.error.status != EIN_OK) return g->g.error.status;
    if (path == NULL) return ein__fail(&g->g.error, EIN_INVALID, "graph file: no path");
    ein_status s = ein__file_read(path, LARGEST_FILE, true, &source, &g->g.error);
    if (s == EIN_OK) s = ein_graph_read(g, ein__text_get(&source), source.n);
    ein__text_free(&source);
    return s;
}

const char *ein_graph_weights(const ein_graph *g) { return g != NULL ? g->g.weights : NULL; }

static ein_status save(const ein_graph *g, const char *path, const char *weights, error *e)
{
    text out = {0};
    if (g == NULL || path == NULL) return ein__fail(e, EIN_INVALID, "graph file: no %s", g == NULL ? "graph" : "path");
    ein_status s = ein__graph_write(&g->g, weights, &out, e);
    if (s == EIN_OK) s = ein__file_publish(path, ein__text_get(&out), out.n, 0666, e);
    ein__text_free(&out);
    return s;
}

ein_status ein_graph_save(const ein_graph *g, const char *path, const char *weights, char *message, size_t message_bytes)
{
    error e = {0};
    ein_status s = save(g, path, weights, &e);
    if (message != NULL && message_bytes > 0) snprintf(message, message_bytes, "%s", s != EIN_OK ? e.line : "");
    ein__error_reset(&e);
    return s;
}
