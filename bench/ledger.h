/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger as a file: lines of CSV, found by their keys. */
#ifndef BENCH_LEDGER_H
#define BENCH_LEDGER_H

#include "bench/plan_row.h"

typedef struct ledger {
    arena arena;
    const char *path;
    struct { int n, room; const char **items; } lines; /* the header first */
} ledger;

/* A file that is missing is an empty ledger if `may_miss`. */
ein_status ledger_read(ledger *l, const char *path, bool may_miss, error *e);
void ledger_free(ledger *l);

/* The line that starts with the key; -1: none. */
int ledger_find(const ledger *l, const char *key);
/* Replace the line of the row's key, or add it. */
ein_status ledger_set(ledger *l, const plan_row *r);
/* The header is this build's. */
bool ledger_header_fits(const ledger *l);
/* Is the row's line in the ledger? If not, `why` says what differs, column by column. */
bool ledger_agrees(const ledger *l, const plan_row *r, text *why);

/* In the order of `keys`; lines of other keys go. */
ein_status ledger_write(const ledger *l, int n, const char *const *keys, error *e);

#endif
