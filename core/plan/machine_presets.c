/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that can be planned anywhere, as tables: devices in runs of one model, links in spans of devices
 * that are joined to one vertex. Rates are peaks by data sheet, in TFLOP/s; link bandwidths are those that
 * programs reach, in GB/s per direction.
 *
 * The latency of a path is the sum over its links, so a link from a device into a switch carries the whole
 * step and the link out of it nothing. */
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <unistd.h>

#include "core/plan/machine_read.h"

typedef struct model {
    const char *architecture;
    double f32, f16;  /* TFLOP/s */
    double terabytes; /* memory, per second */
    double gigabytes;
} model;

static const model V100 = {"sm_70", 15.7, 125, 0.9, 32};
static const model A100_PCIE = {"sm_80", 19.5, 312, 1.55, 40};
static const model A100 = {"sm_80", 19.5, 312, 2.04, 80};
static const model H100 = {"sm_90", 67, 989, 3.35, 80};
static const model H200 = {"sm_90", 67, 989, 4.8, 141};
static const model ADA = {"sm_89", 82.6, 165, 1.0, 24};
static const model ADA_HALF = {"sm_89", 41.3, 83, 0.5, 24};

typedef struct span {
    int first, count, to; /* vertices first .. first + count - 1 are each joined to vertex `to` */
    double gigabytes;     /* per second and direction */
    double in, out;       /* microseconds towards `to`, and back */
    bool peer;
} span;

enum { MAX_RUNS = 3, MAX_SPANS = 16 };

typedef struct preset {
    const char *name;
    struct {
        const model *model;
        int count;
    } runs[MAX_RUNS];
    int n_switches;
    span spans[MAX_SPANS]; /* up to the first with count 0 */
    double step;           /* microseconds */
} preset;

#define NVLINK(a, b, links) {a, 1, b, 22.0 * (links), 3, 3, true}

static const preset PRESETS[] = {
    {"nvswitch8", {{&H100, 8}}, 1, {{0, 8, 8, 376, 3, 0, true}}, 3},
    {"dgx-1",
     {{&V100, 8}},
     0,
     {NVLINK(0, 1, 1), NVLINK(0, 2, 1), NVLINK(0, 3, 2), NVLINK(0, 4, 2), NVLINK(1, 2, 2), NVLINK(1, 3, 1),
      NVLINK(1, 5, 2), NVLINK(2, 3, 2), NVLINK(2, 6, 1), NVLINK(3, 7, 1), NVLINK(4, 5, 1), NVLINK(4, 6, 1),
      NVLINK(4, 7, 2), NVLINK(5, 6, 2), NVLINK(5, 7, 1), NVLINK(6, 7, 2)},
     3},
    {"4xpcie",
     {{&A100_PCIE, 4}},
     2,
     {{0, 2, 4, 24, 5, 0, true}, {2, 2, 5, 24, 5, 0, true}, {4, 1, 5, 30, 0, 0, true}},
     5},
    {"bridge-pairs",
     {{&A100_PCIE, 4}},
     2,
     {{0, 2, 4, 24, 5, 0, true},
      {2, 2, 5, 24, 5, 0, true},
      {4, 1, 5, 30, 0, 0, true},
      {0, 1, 1, 50, 5, 5, true},
      {2, 1, 3, 50, 5, 5, true}},
     5},
    /* Vertex 2 is the host's memory: kernels of one device cannot address the other's. */
    {"2xpcie-no-p2p", {{&A100_PCIE, 2}}, 1, {{0, 2, 2, 24, 20, 0, false}}, 20},
    {"dgx-a100", {{&A100, 8}}, 1, {{0, 8, 8, 235, 3, 0, true}}, 3},
    {"dgx-h100", {{&H100, 8}}, 1, {{0, 8, 8, 370, 3, 0, true}}, 3},
    {"hgx-h200", {{&H200, 8}}, 1, {{0, 8, 8, 370, 3, 0, true}}, 3},
    /* Switches 16 and 17 inside the boxes, 18 and 19 their networks. */
    {"2xdgx-a100",
     {{&A100, 16}},
     4,
     {{0, 8, 16, 235, 3, 0, true},
      {8, 8, 17, 235, 3, 0, true},
      {0, 8, 18, 25, 8, 0, false},
      {8, 8, 19, 25, 8, 0, false},
      {18, 1, 19, 200, 0, 0, false}},
     3},
    {"mixed", {{&A100, 1}, {&ADA, 2}, {&ADA_HALF, 1}}, 1, {{0, 4, 4, 24, 5, 0, true}}, 5},
};

enum { N_PRESETS = sizeof PRESETS / sizeof *PRESETS };

static const preset *find(const char *name, size_t n)
{
    for (int i = 0; i < N_PRESETS; i++) {
        if (strlen(PRESETS[i].name) == n && memcmp(PRESETS[i].name, name, n) == 0) return &PRESETS[i];
    }
    return NULL;
}

bool ein__machine_preset_known(const char *name, size_t n) { return find(name, n) != NULL; }

void ein__machine_preset_names(text *out)
{
    for (int i = 0; i < N_PRESETS; i++) ein__text_add(out, "%s%s", i > 0 ? ", " : "", PRESETS[i].name);
}

static void add_devices(machine *m, const model *d, int count)
{
    for (int i = 0; i < count; i++) {
        m->devices[m->n_devices++] = (machine_device){.architecture = d->architecture,
                                                      .flops_f32 = d->f32 * 1e12,
                                                      .flops_f16 = d->f16 * 1e12,
                                                      .memory_bandwidth = d->terabytes * 1e12,
                                                      .memory_bytes = d->gigabytes * 1e9};
    }
}

static void add_span(machine *m, const span *s)
{
    for (int v = s->first; v < s->first + s->count; v++) {
        machine_link link = {v, s->to, s->gigabytes * 1e9, s->in * 1e-6, s->peer};
        m->links[m->n_links++] = link;
        m->links[m->n_links++] = (machine_link){s->to, v, link.bandwidth, s->out * 1e-6, s->peer};
    }
}

ein_status ein__machine_preset(arena *a, const char *name, size_t n, machine *out)
{
    const preset *p = find(name, n);
    *out = (machine){
        .name = p->name, .matrix_efficiency = 0.8, .step_latency = p->step * 1e-6, .launch_floor = 5e-6};
    for (int i = 0; i < MAX_RUNS && p->runs[i].count > 0; i++)
        add_devices(out, p->runs[i].model, p->runs[i].count);
    out->n_vertices = out->n_devices + p->n_switches;
    int links = 0;
    for (int i = 0; i < MAX_SPANS; i++) links += 2 * p->spans[i].count;
    NEW(a, out->links, links);
    for (int i = 0; i < MAX_SPANS; i++) add_span(out, &p->spans[i]);
    return EIN_OK;
}

/* The rates are fixed, not measured: the same text gives the same plans on every computer of a size. All
 * devices share one memory; it is the vertex in the middle. */
ein_status ein__machine_host(arena *a, int count, machine *out)
{
    double flops = 100e9 / count, bandwidth = 10e9 / count;
    double ram = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    *out = (machine){.host = true,
                     .n_devices = count,
                     .n_vertices = count + 1,
                     .matrix_efficiency = 0.8,
                     .step_latency = 5e-6,
                     .launch_floor = 5e-6};
    out->name = ein__arena_printf(a, "host:%d", count);
    if (out->name == NULL) return EIN_NO_MEMORY;
    NEW(a, out->links, 2 * count);
    for (int i = 0; i < count; i++) {
        out->devices[i] = (machine_device){"host", flops, flops, bandwidth, ram / count};
    }
    add_span(out, &(span){0, count, count, bandwidth * 1e-9, 5, 0, true});
    return EIN_OK;
}
