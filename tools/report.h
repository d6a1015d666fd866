/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of named fields, printed as one JSON object a line or as an aligned table. */
#ifndef TOOLS_REPORT_H
#define TOOLS_REPORT_H

#include <jansson.h>
#include <stdbool.h>

typedef struct report {
    bool json;
    json_t *rows; /* of the table, until report_end */
} report;

void report_begin(report *r, bool json);
/* Takes the row (NULL: memory ran out, said at the end). JSON is printed at once. */
void report_row(report *r, json_t *row);
/* Prints the table; a single row stands upright. False, said to stderr: memory ran out. */
bool report_end(report *r);

/* A JSON real, or null where it is no number. */
json_t *report_number(double v);

#endif
