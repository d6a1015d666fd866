/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a graph file: the noted calls, one a line. Tensors are t1, t2, ... in the order in which calls made them;
 * a call that only gave back what was there already (a reshape to the same shape) is left out. */
#include "core/graph/file.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/graph/calls.h"

typedef struct writer {
    const graph *g;
    text *out;
    error *e;
    int *names; /* per value id: its number in the file, or 0 */
    int count;
    const char *call;
} writer;

/* ---- numbers and words --------------------------------------------------------------------------------- */

static int append(const char *bytes, size_t n, void *out)
{
    ein__text_bytes(out, bytes, n);
    return 0;
}

static ein_status put_text(writer *w, const char *s)
{
    json_t *v = json_string(s);
    if (v == NULL)
        return ein__fail(w->e, EIN_INVALID, "graph file: %s: '%s' is no UTF-8", w->call, ein__excerpt_first(s, 60).s);
    int failed = json_dump_callback(v, append, w->out, JSON_ENCODE_ANY);
    json_decref(v);
    return failed != 0 ? EIN_NO_MEMORY : EIN_OK;
}

/* The point of a number is a point, whatever the process's locale says. */
static void put_real(writer *w, double x)
{
    char s[48];
    if (isnan(x) || isinf(x)) {
        ein__text_add(w->out, isnan(x) ? "\"nan\"" : x > 0 ? "\"inf\"" : "\"-inf\"");
        return;
    }
    snprintf(s, sizeof s, "%.17g", x);
    for (char *c = s; *c != 0; c++)
        if (strchr("+-0123456789e", *c) == NULL) *c = '.';
    ein__text_add(w->out, "%s%s", s, strpbrk(s, ".e") == NULL ? ".0" : "");
}

static void put_integers(writer *w, const i64 *x, i64 n)
{
    ein__text_add(w->out, "[");
    for (i64 i = 0; i < n; i++) ein__text_add(w->out, "%s%" PRId64, i > 0 ? "," : "", x[i]);
    ein__text_add(w->out, "]");
}

static void put_data(writer *w, ein_dtype dtype, const char *data, i64 n)
{
    i64 size = ein__dtype_bytes(dtype), integer;
    ein__text_add(w->out, "[");
    for (i64 i = 0; i < n; i++) {
        if (i > 0) ein__text_add(w->out, ",");
        ein__dtype_convert(EIN_I64, &integer, dtype, data + i * size, ein__dtype_is_float(dtype) ? 0 : 1);
        if (ein__dtype_is_float(dtype)) put_real(w, ein__dtype_read(dtype, data + i * size));
        else ein__text_add(w->out, "%" PRId64, integer);
    }
    ein__text_add(w->out, "]");
}

static void put_tensor(writer *w, uint32_t id) { ein__text_add(w->out, "\"t%d\"", w->names[id]); }
static void put_scalar(writer *w, uint32_t id) { ein__text_add(w->out, "\"s%d\"", (int)id); }

/* ---- options ------------------------------------------------------------------------------------------- */

static bool is_zero(const void *at, option_kind kind)
{
    switch (kind) {
    case OPTION_FLAG: return *(const int *)at == 0;
    case OPTION_LONG: return *(const int64_t *)at == 0;
    case OPTION_PAIR: return ((const int64_t *)at)[0] == 0 && ((const int64_t *)at)[1] == 0;
    case OPTION_REAL: return *(const double *)at == 0;
    case OPTION_TENSOR: return ((const ein_tensor *)at)->id == 0;
    case OPTION_SCALAR: return ((const ein_scalar *)at)->id == 0;
    }
    return true;
}

static void put_option(writer *w, const void *at, option_kind kind)
{
    switch (kind) {
    case OPTION_FLAG: ein__text_add(w->out, "1"); break;
    case OPTION_LONG: ein__text_add(w->out, "%" PRId64, *(const int64_t *)at); break;
    case OPTION_PAIR: put_integers(w, at, 2); break;
    case OPTION_REAL: put_real(w, *(const double *)at); break;
    case OPTION_TENSOR: put_tensor(w, ((const ein_tensor *)at)->id); break;
    case OPTION_SCALAR: put_scalar(w, ((const ein_scalar *)at)->id); break;
    }
}

static void put_options(writer *w, const char *options, const options_form *form)
{
    const char *between = "";
    ein__text_add(w->out, "{");
    for (int i = 0; i < form->n_members; i++) {
        const struct option_form *m = &form->members[i];
        if (is_zero(options + m->offset, m->kind)) continue;
        ein__text_add(w->out, "%s\"%s\":", between, m->name);
        put_option(w, options + m->offset, m->kind);
        between = ",";
    }
    ein__text_add(w->out, "}");
}

/* ---- calls --------------------------------------------------------------------------------------------- */

static bool is_absent(argument_kind kind, const argument *x)
{
    bool reference = kind == ARGUMENT_MAYBE || kind == ARGUMENT_SCALAR;
    return (reference && x->number == 0) || (ein__options_form(kind) != NULL && x->list == NULL);
}

static ein_status put_argument(writer *w, const call *c, int i)
{
    const argument *x = &c->arguments[i];
    switch (c->form->kinds[i]) {
    case ARGUMENT_TENSOR:
    case ARGUMENT_MAYBE: put_tensor(w, (uint32_t)x->number); return EIN_OK;
    case ARGUMENT_SCALAR: put_scalar(w, (uint32_t)x->number); return EIN_OK;
    case ARGUMENT_INT:
    case ARGUMENT_LONG: ein__text_add(w->out, "%" PRId64, x->number); return EIN_OK;
    case ARGUMENT_REAL: put_real(w, x->real); return EIN_OK;
    case ARGUMENT_DTYPE: ein__text_add(w->out, "\"%s\"", ein__dtype_name((ein_dtype)x->number)); return EIN_OK;
    case ARGUMENT_TEXT: return put_text(w, x->list);
    case ARGUMENT_INTS:
    case ARGUMENT_EACH_INT:
    case ARGUMENT_LONGS:
    case ARGUMENT_EACH_LONG: put_integers(w, x->list, x->n); return EIN_OK;
    case ARGUMENT_TENSORS:
        for (int k = 0; k < x->n; k++) {
            ein__text_add(w->out, k == 0 ? "[" : ",");
            put_tensor(w, ((const ein_tensor *)x->list)[k].id);
        }
        ein__text_add(w->out, "]");
        return EIN_OK;
    case ARGUMENT_DATA: {
        value v = (value)c->results[0] - 1;
        put_data(w, w->g->values.items[v].dtype, x->list, ein__value_numel(w->g, v));
        return EIN_OK;
    }
    case ARGUMENT_CONV:
    case ARGUMENT_POOL:
    case ARGUMENT_ATTENTION: put_options(w, x->list, ein__options_form(c->form->kinds[i])); return EIN_OK;
    }
    return EIN_INTERNAL;
}

static bool makes_nothing_new(const writer *w, const call *c)
{
    for (int i = 0; i < c->n_results; i++)
        if (w->names[c->results[i]] == 0) return false;
    return c->n_results > 0;
}

static void put_results(writer *w, const call *c)
{
    ein__text_add(w->out, ",\"out\":[");
    for (int i = 0; i < c->n_results; i++) {
        w->count++;
        if (w->names[c->results[i]] == 0) w->names[c->results[i]] = w->count;
        ein__text_add(w->out, "%s\"t%d\"", i > 0 ? "," : "", w->count);
    }
    ein__text_add(w->out, "]");
}

static ein_status put_call(writer *w, const call *c, const char *between)
{
    bool scalar = strcmp(c->form->name, "scalar_input") == 0;
    w->call = c->form->name;
    if (c->form->read == NULL)
        return ein__fail(w->e, EIN_UNSUPPORTED, "graph file: the op '%s' is a program's own; a file cannot carry it",
                         (const char *)c->arguments[0].list);
    if (!scalar && makes_nothing_new(w, c)) return EIN_OK;
    ein__text_add(w->out, "%s{\"call\":\"%s\"", between, c->form->name);
    for (int i = 0; i < c->form->n_arguments; i++) {
        if (is_absent(c->form->kinds[i], &c->arguments[i])) continue;
        ein__text_add(w->out, ",\"%s\":", c->form->names[i]);
        TRY(put_argument(w, c, i));
    }
    if (scalar) ein__text_add(w->out, ",\"out\":[\"s%d\"]", (int)c->results[0]);
    else if (c->n_results > 0) put_results(w, c);
    ein__text_add(w->out, "}");
    return EIN_OK;
}

static ein_status put_graph(writer *w, const char *weights)
{
    ein__text_add(w->out, "{\"ein_graph\":%d,\n", GRAPH_FILE_VERSION);
    if (weights != NULL) {
        w->call = "weights";
        ein__text_add(w->out, "\"weights\":");
        TRY(put_text(w, weights));
        ein__text_add(w->out, ",\n");
    }
    ein__text_add(w->out, "\"calls\":[");
    bool first = true;
    for (int i = 0; i < w->g->calls.n; i++) {
        size_t before = w->out->n;
        TRY(put_call(w, &w->g->calls.items[i], first ? "\n" : ",\n"));
        first = first && w->out->n == before;
    }
    ein__text_add(w->out, "\n]}\n");
    return ein__text_status(w->out);
}

ein_status ein__graph_write(const graph *g, const char *weights, text *out, error *e)
{
    if (g->error.status != EIN_OK) return ein__fail(e, EIN_INVALID, "graph file: the graph has an error: %.180s", g->error.line);
    writer w = {.g = g, .out = out, .e = e, .names = ein__calloc((size_t)g->values.n + 1, sizeof *w.names)};
    ein_status s = w.names != NULL ? put_graph(&w, weights) : EIN_NO_MEMORY;
    ein__free(w.names);
    return s == EIN_NO_MEMORY ? ein__fail(e, s, "graph file: out of memory") : s;
}
