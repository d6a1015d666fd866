/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/result.h"

#include <math.h>
#include <string.h>

#include "core/weights/safetensors.h"
#include "tools/report.h"

/* A text of its own has no dimension for others. */
static bool drops_first(const workload *w, const value_info *v)
{
    return w->model.family->reads_ids && v->rank > 1 && v->shape[0] == 1;
}

/* ---- the row --------------------------------------------------------------------------------------- */

static json_t *prompt_of(const workload *w)
{
    const graph *g = &w->graph->g;
    json_t *list = json_array();
    for (int i = 0; i < g->leaves.n; i++) {
        if (g->leaves.items[i].kind != LEAF_INPUT || strcmp(g->leaves.items[i].name, "ids") != 0) continue;
        for (i64 k = 0; k < w->model.use.seq; k++)
            json_array_append_new(list, json_integer(((const int32_t *)w->leaves[i])[k]));
    }
    return list;
}

static json_t *shape_of(const workload *w, const value_info *v)
{
    json_t *list = json_array();
    for (int i = drops_first(w, v); i < v->rank; i++) json_array_append_new(list, json_integer(v->shape[i]));
    return list;
}

static json_t *numbers_of(const value_info *v, i64 n, const char *at)
{
    json_t *list = json_array();
    i64 size = ein__dtype_bytes(v->dtype);
    for (i64 i = 0; i < n; i++) json_array_append_new(list, report_number(ein__dtype_read(v->dtype, at + i * size)));
    return list;
}

static void add_generated(json_t *row, const generation *from)
{
    json_t *list = json_array();
    for (int i = 0; i < from->tokens.n; i++) json_array_append_new(list, json_integer(from->tokens.items[i]));
    json_object_set_new(row, "generated", list);
    json_object_set_new(row, "first_token_ms", report_number(from->first_ms));
    json_object_set_new(row, "token_ms", report_number(from->token_ms));
}

void result_add(json_t *row, const workload *w, void *const *outputs, const generation *tokens)
{
    const graph *g = &w->graph->g;
    const output *o = &g->outputs.items[0];
    const value_info *v = &g->values.items[o->value];
    bool prompt = w->request.tokens.n > 0 || tokens != NULL;
    if (prompt) json_object_set_new(row, "tokens", prompt_of(w));
    if (prompt || w->request.input != NULL || w->request.output != NULL) {
        json_object_set_new(row, "output", json_string(o->name));
        json_object_set_new(row, "shape", shape_of(w, v));
    }
    if (prompt && strcmp(o->name, "embedding") == 0)
        json_object_set_new(row, "embedding", numbers_of(v, ein__value_numel(g, o->value), outputs[0]));
    if (tokens != NULL) add_generated(row, tokens);
}

/* ---- the file -------------------------------------------------------------------------------------- */

static ein_status write(workload *w, arena *a, void *const *outputs, const char *path)
{
    const graph *g = &w->graph->g;
    stored_tensor *tensors;
    int n = 0;
    NEW(a, tensors, g->outputs.n);
    for (int i = 0; i < g->outputs.n; i++) {
        const output *o = &g->outputs.items[i];
        const value_info *v = &g->values.items[o->value];
        i64 numel = ein__value_numel(g, o->value);
        bool narrow = v->dtype == EIN_BF16 || v->dtype == EIN_F16;
        ein_dtype dtype = narrow ? EIN_F32 : v->dtype;
        int dropped = drops_first(w, v);
        if (w->model.family != &family_graph && !ein__dtype_is_float(v->dtype)) continue; /* tokens are in the row */
        void *numbers = ein__arena_get(a, (size_t)numel, (size_t)ein__dtype_bytes(dtype));
        if (numbers == NULL) return EIN_NO_MEMORY;
        ein__dtype_convert(dtype, numbers, v->dtype, outputs[i], numel);
        tensors[n] = (stored_tensor){.name = o->name, .dtype = dtype, .rank = v->rank - dropped, .data = numbers};
        memcpy(tensors[n++].shape, v->shape + dropped, (size_t)(v->rank - dropped) * sizeof *v->shape);
    }
    return ein__safetensors_write(path, n, tensors, &w->error);
}

ein_status result_write(workload *w, void *const *outputs, const char *path)
{
    arena a = {0};
    ein_status status = write(w, &a, outputs, path);
    ein__arena_free(&a);
    if (status == EIN_NO_MEMORY) ein__fail(&w->error, status, "%s: no memory to write the outputs", path);
    return status;
}
