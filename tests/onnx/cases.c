/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE
#include "tests/onnx/cases.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

int onnx_list(const char *root, const char *filter, char ***names)
{
    DIR *d = opendir(root);
    int n = 0, room = 0;
    *names = NULL;
    if (d == NULL) return -1;
    for (struct dirent *x; (x = readdir(d)) != NULL;) {
        if (x->d_name[0] == '.' || strstr(x->d_name, filter) == NULL) continue;
        if (n == room) *names = realloc(*names, (size_t)(room = 2 * room + 64) * sizeof **names);
        if (*names == NULL || ((*names)[n++] = strdup(x->d_name)) == NULL) abort();
    }
    closedir(d);
    qsort(*names, (size_t)n, sizeof **names, by_name);
    return n;
}

/* ---- reading ------------------------------------------------------------------------------------------ */

static ein_status read_tensor(onnx_case *c, const char *root, const char *what, int i, const onnx_value *v,
                              onnx_tensor *out, error *e)
{
    char path[1024];
    text bytes = {0};
    snprintf(path, sizeof path, "%s/%s/test_data_set_0/%s_%d.pb", root, c->name, what, i);
    ein_status s = ein__file_read(path, (size_t)1 << 28, true, &bytes, e);
    if (s == EIN_OK) s = onnx_read_tensor(&c->a, bytes.bytes, bytes.n, out, e);
    ein__text_free(&bytes);
    if (s != EIN_OK) return s;
    /* The generator has no type of its own for bfloat16. */
    if (v->type == ONNX_BFLOAT16 && out->type == ONNX_UINT16) out->type = ONNX_BFLOAT16;
    if (v->type != out->type)
        return ein__fail(e, EIN_INVALID, "%s %d is %s, not %s", what, i, onnx_type_name(out->type),
                         onnx_type_name(v->type));
    return EIN_OK;
}

static ein_status check_type(const onnx_value *v, error *e)
{
    if (strcmp(v->kind, "tensor") != 0) return ein__fail(e, EIN_DTYPE, "type %s", v->kind);
    if (onnx_dtype(v->type) == 0) return ein__fail(e, EIN_DTYPE, "type %s", onnx_type_name(v->type));
    return EIN_OK;
}

static ein_status load(onnx_case *c, const char *root, error *e)
{
    char path[1024];
    text bytes = {0};
    onnx_model *m = &c->model;
    snprintf(path, sizeof path, "%s/%s/model.onnx", root, c->name);
    ein_status s = ein__file_read(path, (size_t)1 << 28, true, &bytes, e);
    if (s == EIN_OK) s = onnx_read_model(&c->a, bytes.bytes, bytes.n, m, e);
    ein__text_free(&bytes);
    if (s != EIN_OK) return s;
    for (int i = 0; i < m->inputs.n; i++) TRY(check_type(&m->inputs.items[i], e));
    for (int i = 0; i < m->outputs.n; i++) TRY(check_type(&m->outputs.items[i], e));
    if (m->outputs.n > ONNX_MAX_OUTPUTS) return ein__fail(e, EIN_DTYPE, "%d outputs", m->outputs.n);
    NEW(&c->a, c->inputs, m->inputs.n);
    NEW(&c->a, c->outputs, m->outputs.n);
    for (int i = 0; i < m->inputs.n; i++) TRY(read_tensor(c, root, "input", i, &m->inputs.items[i], &c->inputs[i], e));
    for (int i = 0; i < m->outputs.n; i++)
        TRY(read_tensor(c, root, "output", i, &m->outputs.items[i], &c->outputs[i], e));
    return EIN_OK;
}

/* Cases whose data do not follow from their models. */
static const struct { const char *name, *why; } wrong[] = {
    {"test_adam_multiple", "data of an epsilon that the model has not got"}};

bool onnx_load(onnx_case *c, const char *root, const char *name, char why[160], bool *broken)
{
    error e = {0};
    *c = (onnx_case){.name = name};
    ein_status s = load(c, root, &e);
    for (size_t i = 0; s == EIN_OK && i < sizeof wrong / sizeof *wrong; i++)
        if (strcmp(wrong[i].name, name) == 0) s = ein__fail(&e, EIN_DTYPE, "%s", wrong[i].why);
    *broken = s != EIN_OK && s != EIN_DTYPE && s != EIN_SHAPE;
    snprintf(why, 160, "%.150s", e.line);
    ein__error_reset(&e);
    return s == EIN_OK;
}

void onnx_free(onnx_case *c) { ein__arena_free(&c->a); }

/* ---- comparison --------------------------------------------------------------------------------------- */

/* ONNX's own tests allow 1e-3 of the value (and 1e-7), whatever the type. The windows' data were made with a pi of
 * 3.1415. */
static void tolerance(const onnx_case *c, ein_dtype d, double *relative, double *absolute)
{
    bool loose = c->loose || strstr(c->name, "window") != NULL;
    *relative = d == EIN_BF16 ? 0x1p-7 : d == EIN_F16 || loose ? 1e-3 : 1e-5;
    *absolute = loose ? 1e-5 : 1e-6;
}

static bool close_enough(double got, double want, double relative, double absolute)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got)) return got == want;
    return fabs(got - want) <= absolute + relative * fabs(want);
}

bool onnx_compare(const onnx_case *c, int i, const void *result, text *why)
{
    const onnx_tensor *x = &c->outputs[i];
    ein_dtype d = onnx_dtype(x->type);
    size_t bytes = (size_t)ein__dtype_bytes(d);
    double relative, absolute;
    tolerance(c, d, &relative, &absolute);
    for (i64 k = 0; k < x->numel; k++) {
        const char *want = (const char *)x->data + (size_t)k * bytes, *got = (const char *)result + (size_t)k * bytes;
        double a = ein__dtype_read(d, got), b = ein__dtype_read(d, want);
        if (ein__dtype_is_float(d) ? close_enough(a, b, relative, absolute) : memcmp(got, want, bytes) == 0) continue;
        ein__text_add(why, "%s%s: element %lld of %lld is %.9g, not %.9g", why->n > 0 ? "; " : "",
                      c->model.outputs.items[i].name, (long long)k, (long long)x->numel, a, b);
        return false;
    }
    return true;
}
