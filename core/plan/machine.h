/* SPDX-License-Identifier: Apache-2.0 */
/* A machine as data: devices (which may differ), vertices without memory (switches), directed links. */
#ifndef CORE_PLAN_MACHINE_H
#define CORE_PLAN_MACHINE_H

#include "core/base/arena.h"
#include "core/base/text.h"
#include "core/tensor/dtype.h"

/* Sets of devices are bit masks; HOST is the memory of the process, where inputs come from and outputs go. */
typedef uint32_t devset;
enum { MAX_DEVICES = 16, HOST = 31, MAX_VERTICES = 64, MAX_LINKS = 1024 };
#define DEV(d) ((devset)1 << (d))
#define ALL_DEVICES(n) ((devset)((1ull << (n)) - 1))

typedef struct machine_device {
    const char *architecture; /* "sm_80", "host" */
    double flops_f32, flops_f16; /* peak, per second */
    double memory_bandwidth;  /* bytes per second */
    double memory_bytes;
} machine_device;

typedef struct machine_link {
    int from, to;     /* vertices; 0 .. n_devices - 1 are the devices */
    double bandwidth; /* bytes per second, this direction */
    double latency;   /* seconds */
    bool peer;        /* kernels may address memory across it */
} machine_link;

typedef struct machine {
    const char *name;
    bool host;  /* host:N: runs on this process's threads */
    int n_devices;
    machine_device devices[MAX_DEVICES];
    int n_vertices; /* devices first */
    int n_links;
    machine_link *links;
    double matrix_efficiency; /* fraction of peak to plan on */
    double step_latency;      /* seconds per dependent step between devices */
    double launch_floor;      /* seconds, least time of a kernel */
} machine;

/* From "host:N", a preset's name ("dgx-1:0,1,2,3" for some of its devices), a path to a JSON file, or JSON
 * text (starts with "{"). Fails with EIN_INVALID naming the member, EIN_IO naming the file. */
ein_status ein__machine_parse(arena *a, const char *text, machine *out, error *e);
ein_status ein__machine_check(const machine *m, error *e);
/* JSON that ein__machine_parse reads back to the same machine. */
ein_status ein__machine_print(const machine *m, text *out);
/* Key material: what plans depend on. */
void ein__machine_key(const machine *m, text *key);
/* Bandwidth of the best path from one device to another by its narrowest link, bytes per second; 0: no path. */
double ein__machine_bandwidth(const machine *m, int from, int to);

#endif
