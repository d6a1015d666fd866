/* SPDX-License-Identifier: Apache-2.0 */
/* A model's folder as it is published: config.json and weights with seeded numbers, in a temporary place. */
#ifndef TESTS_TOOLS_FOLDER_H
#define TESTS_TOOLS_FOLDER_H

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/weights/safetensors.h"
#include "tools/seeded.h"

typedef struct entry {
    char name[96];
    int rank;
    i64 shape[4], n;
    float *f32;
    double *f64;
} entry;

enum { FOLDER_ENTRIES = 160 };

typedef struct folder {
    char path[64];
    int n;
    entry entries[FOLDER_ENTRIES];
} folder;

static void folder_file(const folder *f, const char *name, const char *text)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", f->path, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static folder *folder_new(const char *config)
{
    folder *f = calloc(1, sizeof *f);
    assert_non_null(f);
    strcpy(f->path, "/tmp/ein-folder-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    folder_file(f, "config.json", config);
    return f;
}

static int folder_remove_one(const char *path, const struct stat *s, int type, struct FTW *at)
{
    (void)s, (void)type, (void)at;
    return remove(path);
}

static void folder_free(folder *f)
{
    assert_int_equal(nftw(f->path, folder_remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    for (int i = 0; i < f->n; i++) {
        free(f->entries[i].f32);
        free(f->entries[i].f64);
    }
    free(f);
}

/* Numbers of this mean and deviation; extents end at the first 0. */
static void folder_add(folder *f, double mean, double deviation, const i64 shape[4], const char *format, ...)
{
    assert_true(f->n < FOLDER_ENTRIES);
    entry *e = &f->entries[f->n++];
    va_list list;
    va_start(list, format);
    vsnprintf(e->name, sizeof e->name, format, list);
    va_end(list);
    e->n = 1;
    for (; e->rank < 4 && shape[e->rank] > 0; e->rank++) e->n *= e->shape[e->rank] = shape[e->rank];
    e->f32 = calloc((size_t)e->n, sizeof *e->f32);
    e->f64 = calloc((size_t)e->n, sizeof *e->f64);
    assert_true(e->f32 != NULL && e->f64 != NULL);
    seeded_normal(e->name, (float)mean, (float)deviation, e->n, e->f32);
    for (i64 i = 0; i < e->n; i++) e->f64[i] = e->f32[i];
}

/* Entries lo .. hi as one file. */
static void folder_write_some(const folder *f, const char *name, int lo, int hi)
{
    stored_tensor tensors[FOLDER_ENTRIES];
    char path[160];
    error e = {0};
    for (int i = lo; i < hi; i++) {
        const entry *from = &f->entries[i];
        tensors[i - lo] = (stored_tensor){.name = from->name, .dtype = EIN_F32, .rank = from->rank, .data = from->f32};
        memcpy(tensors[i - lo].shape, from->shape, (size_t)from->rank * sizeof(i64));
    }
    snprintf(path, sizeof path, "%s/%s", f->path, name);
    if (ein__safetensors_write(path, hi - lo, tensors, &e) != EIN_OK) fail_msg("%s", e.line);
}

static void folder_write(const folder *f) { folder_write_some(f, "model.safetensors", 0, f->n); }

/* Two files and their index. */
static void folder_write_shards(const folder *f)
{
    static char text[32768];
    static const char *const files[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
    int half = f->n / 2, at = snprintf(text, sizeof text, "{\"metadata\":{},\"weight_map\":{");
    folder_write_some(f, files[0], 0, half);
    folder_write_some(f, files[1], half, f->n);
    for (int i = 0; i < f->n; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s\"%s\":\"%s\"", i > 0 ? "," : "", f->entries[i].name,
                       files[i >= half]);
    snprintf(text + at, sizeof text - (size_t)at, "}}");
    folder_file(f, "model.safetensors.index.json", text);
}

#endif
