/* SPDX-License-Identifier: Apache-2.0 */
/* One row of the ledger: a model on a machine, the search's plan and all rivals'. All times are simulated. */
#ifndef BENCH_PLAN_ROW_H
#define BENCH_PLAN_ROW_H

#include "core/base/text.h"
#include "core/graph/graph.h"
#include "optimizer/rivals.h"

/* How much of weights and states a device may hold. */
typedef enum regime {
    CAPPED, /* 1.3 equal shares, and a MiB: what ein_compile does */
    FREE,   /* anything */
    REAL,   /* 0.9 of the machine's memory; only where a device cannot hold all */
    REGIMES
} regime;

typedef struct planned {
    bool made;         /* a rival may not apply */
    bool fits;         /* into the regime's memory, or what the search's plan takes if that is more */
    double us, shares; /* on the fullest device, of an equal share */
    double bound;      /* microseconds; 0: not known */
    i64 bytes, states;
    int mesh;
} planned;

typedef struct plan_row {
    const char *model, *machine;
    regime regime;
    int devices;
    planned own, rivals[RIVALS];
    int steps, kernels;
    double high_water_mb; /* of the fullest device: leaves and buffers */
    double search_ms;
} plan_row;

extern const char *const REGIME_NAMES[REGIMES];

/* `*done` false: the regime is no different from FREE there. */
ein_status plan_row_make(const graph *user, const char *model, const char *machine_name, regime regime, plan_row *out,
                         bool *done, error *e);

/* CSV: the names of the columns, and a row, without the line's end. The line starts with its key, model to weights. */
void plan_row_header(text *out);
void plan_row_key(const char *model, const char *machine, regime regime, text *out);
void plan_row_line(const plan_row *r, text *out);

#endif
