/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a kernel: the parameter list and the arguments grow together, so that they cannot disagree. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "jit/family/parts.h"

void ein__writer_begin(writer *w, arena *a) { *w = (writer){.arena = a}; }

static ein_status push(writer *w, arg x)
{
    PUSH(w->arena, &w->args, x);
    return EIN_OK;
}

static void add(writer *w, arg x, const char *kind, const char *type, const char *id)
{
    ein__text_add(&w->params, "%s \\\n    %s(%s, %s)", w->args.n > 0 ? " SEP" : "", kind, type, id);
    if (w->status == EIN_OK) w->status = push(w, x);
}

arg ein__arg_pointer(const view *v, i64 elements, bool written)
{
    i64 bytes = ein__dtype_bytes(v->dtype);
    return (arg){.kind = ARG_POINTER, .place = v->place, .value = (v->offset + elements) * bytes,
                 .scalar = v->scalar, .scalar_bytes = v->scalar_stride * bytes, .written = written};
}

void ein__writer_in(writer *w, const view *v, i64 elements, const char *id)
{
    add(w, ein__arg_pointer(v, elements, false), "IN", ein__dtype_kernel(v->dtype), id);
}

void ein__writer_out(writer *w, const view *v, i64 elements, const char *id)
{
    add(w, ein__arg_pointer(v, elements, true), "OUT", ein__dtype_kernel(v->dtype), id);
}

void ein__writer_int(writer *w, const char *id, i64 x) { ein__writer_scalar(w, id, -1, x); }

void ein__writer_float(writer *w, const char *id, double x)
{
    add(w, (arg){.kind = ARG_F32, .f32 = x, .scalar = -1}, "VAL", "float", id);
}

/* Arguments are eight bytes: a double's travel as an integer. */
void ein__writer_double(writer *w, const char *id, double x)
{
    arg number = {.kind = ARG_I64, .scalar = -1};
    memcpy(&number.value, &x, sizeof x);
    add(w, number, "VAL", "double", id);
}

void ein__writer_scalar(writer *w, const char *id, int scalar, i64 x)
{
    arg number = {.kind = scalar < 0 ? ARG_I64 : ARG_SCALAR, .value = x, .scalar = scalar};
    add(w, number, "VAL", "i64", id);
}

static ein_status finish(writer *w, const char *head, int threads, launch *out)
{
    text whole = {0};
    TRY(w->status);
    ein__text_add(&whole, "/* %s */\n#define PARAMS(IN, OUT, VAL, SEP)%s\n", head, ein__text_get(&w->params));
    ein__text_add(&whole, "KERNEL(PARAMS)\n{\n%s}\n#undef PARAMS\n", ein__text_get(&w->body));
    bool failed = w->params.failed || w->body.failed || whole.failed;
    ein_status status = EIN_NO_MEMORY;
    if (!failed) status = ein__kernel_make(w->arena, ein__text_get(&whole), threads, &out->kernel);
    ein__text_free(&whole);
    out->kind = STEP_KERNEL;
    out->n_args = w->args.n;
    out->args = w->args.items;
    return status;
}

ein_status ein__writer_end(writer *w, const char *head, int threads, launch *out)
{
    ein_status status = finish(w, head, threads, out);
    ein__text_free(&w->params);
    ein__text_free(&w->body);
    return status;
}

short_text ein__name(const char *format, ...)
{
    short_text n;
    va_list args;
    va_start(args, format);
    vsnprintf(n.s, sizeof n.s, format, args);
    va_end(args);
    return n;
}

int ein__threads_for(i64 n)
{
    int threads = 32;
    while (threads < n && threads < 256) threads *= 2;
    return threads;
}

i64 ein__blocks(i64 n, i64 size) { return (n + size - 1) / size; }

bool ein__box_empty(const label_box *box, int n_labels, uint32_t except)
{
    for (int l = 0; l < n_labels; l++)
        if (box->len[l] <= 0 && !(except >> l & 1)) return true;
    return false;
}
