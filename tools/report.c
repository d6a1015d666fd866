/* SPDX-License-Identifier: Apache-2.0 */
/* Columns are the members of the first row, in its order. */
#include "tools/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDEST = 400 };

void report_begin(report *r, bool json) { *r = (report){json, json_array()}; }

json_t *report_number(double v) { return isfinite(v) ? json_real(v) : json_null(); }

void report_row(report *r, json_t *row)
{
    if (r->rows == NULL) {
        json_decref(row);
    } else if (row == NULL) {
        json_decref(r->rows);
        r->rows = NULL;
    } else if (r->json) {
        json_dumpf(row, stdout, JSON_COMPACT | JSON_REAL_PRECISION(7));
        putchar('\n');
        fflush(stdout);
        json_decref(row);
    } else if (json_array_append_new(r->rows, row) != 0) {
        json_decref(r->rows);
        r->rows = NULL;
    }
}

/* As much of a list as stays readable. */
static void list_cell(const json_t *v, char *out)
{
    enum { SHOWN = 16 };
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(v) && i < SHOWN; i++) {
        const json_t *x = json_array_get(v, i);
        n += (size_t)snprintf(out + n, WIDEST - n, "%s%.4g", i > 0 ? " " : "", json_number_value(x));
    }
    if (json_array_size(v) > SHOWN) snprintf(out + n, WIDEST - n, " ... (%zu)", json_array_size(v));
}

static void cell(const json_t *v, char *out)
{
    out[0] = 0;
    if (json_is_string(v)) snprintf(out, WIDEST, "%s", json_string_value(v));
    if (json_is_integer(v)) snprintf(out, WIDEST, "%lld", (long long)json_integer_value(v));
    if (json_is_real(v)) snprintf(out, WIDEST, "%.4g", json_real_value(v));
    if (json_is_real(v) && fabs(json_real_value(v)) >= 1000)
        snprintf(out, WIDEST, "%.0f", json_real_value(v));
    if (json_is_boolean(v)) snprintf(out, WIDEST, "%s", json_is_true(v) ? "yes" : "no");
    if (json_is_null(v)) snprintf(out, WIDEST, "-");
    if (json_is_array(v)) list_cell(v, out);
}

static int width_of(const json_t *rows, const char *key)
{
    char bytes[WIDEST];
    size_t width = strlen(key);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        cell(json_object_get(json_array_get(rows, i), key), bytes);
        if (strlen(bytes) > width) width = strlen(bytes);
    }
    return (int)width;
}

/* Numbers stand to the right. The last column is not padded. */
static void print_row(const json_t *rows, json_t *row)
{
    json_t *first = json_array_get(rows, 0), *unused;
    const char *key;
    size_t left = json_object_size(first);
    json_object_foreach(first, key, unused)
    {
        char bytes[WIDEST];
        const json_t *v = row != NULL ? json_object_get(row, key) : NULL;
        int width = width_of(rows, key);
        snprintf(bytes, sizeof bytes, "%s", key);
        if (row != NULL) cell(v, bytes);
        bool right = json_is_number(json_object_get(first, key));
        left--;
        if (right) {
            printf("%*s", width, bytes);
        } else {
            printf("%-*s", left > 0 ? width : 0, bytes);
        }
        fputs(left > 0 ? "  " : "\n", stdout);
    }
}

static void print_upright(json_t *row)
{
    const char *key;
    json_t *v;
    int width = 0;
    json_object_foreach(row, key, v) width = (int)strlen(key) > width ? (int)strlen(key) : width;
    json_object_foreach(row, key, v)
    {
        char bytes[WIDEST];
        cell(v, bytes);
        printf("%-*s  %s\n", width, key, bytes);
    }
}

bool report_end(report *r)
{
    bool ok = r->rows != NULL;
    size_t n = json_array_size(r->rows);
    if (!ok) fputs("ein: out of memory for the report\n", stderr);
    if (n == 1) print_upright(json_array_get(r->rows, 0));
    if (n > 1) print_row(r->rows, NULL);
    for (size_t i = 0; n > 1 && i < n; i++) print_row(r->rows, json_array_get(r->rows, i));
    json_decref(r->rows);
    r->rows = NULL;
    return ok;
}
