/* SPDX-License-Identifier: Apache-2.0 */
/* A machine's paths, capacities of its cuts, and the time of one step. */
#ifndef EXCHANGE_ROUTES_H
#define EXCHANGE_ROUTES_H

#include "exchange/exchange.h"

struct routes {
    const machine *m;
    double latency[MAX_DEVICES][MAX_DEVICES];
    int n_links[MAX_DEVICES][MAX_DEVICES];   /* of the path; 0: none */
    int *links[MAX_DEVICES][MAX_DEVICES];    /* from the receiver back */
    devset reach[MAX_DEVICES];    /* by sender: receivers that it has a path to */
    devset adjacent[MAX_DEVICES]; /* by sender: receivers whose path leads over no other device */
    devset peers[MAX_DEVICES];    /* by owner: devices whose kernels may address its memory */
    double *leaving; /* by set of devices: bytes per second out of it, switches on the cheaper side */
    int n_cuts;
    devset *cuts;    /* those that are asked where time is short: all of a few devices, else the narrowest */
};

/* Bytes of one step. */
typedef struct traffic {
    double pair[MAX_DEVICES][MAX_DEVICES]; /* [holder][reader] */
    double local[MAX_DEVICES], host[MAX_DEVICES];
    double staged[MAX_DEVICES]; /* to and from the process's memory, on the way to another device */
} traffic;

/* Seconds of the fullest link or memory; infinite where a pair has no path. */
double ein__traffic_seconds(const routes *r, const traffic *t);
/* Latency of a step with this traffic. */
double ein__traffic_latency(const routes *r, const traffic *t);

#endif
