/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that the GPUs are. Peak rates are multiprocessors x clock x operations per cycle by compute capability:
 * from NVIDIA's architecture whitepapers (Volta V100, Turing, A100, GA102, Ada, H100, Blackwell; "RTX Blackwell") and the
 * arithmetic throughput table of the "CUDA C++ Programming Guide". Products in 16 bits accumulate in f32, which GeForce
 * parts do at half the rate. Bandwidths of links are what programs reach: peers with atomics are NVLink's. */
#include <string.h>

#include "jit/target/cuda.h"

typedef struct rates {
    int capability; /* from this on */
    double f32, f16; /* operations per cycle and multiprocessor */
    double nvlink, pcie; /* bytes per second and direction */
    double bandwidth; /* of memory, where the driver does not tell its clock */
} rates;

static const rates RATES[] = {
    {75, 128, 1024, 40e9, 12e9, 320e9},  {80, 128, 2048, 235e9, 24e9, 1555e9}, {86, 256, 1024, 45e9, 24e9, 768e9},
    {87, 256, 1024, 45e9, 24e9, 204e9},  {88, 256, 1024, 45e9, 24e9, 204e9},   {89, 256, 1024, 24e9, 24e9, 864e9},
    {90, 256, 4096, 370e9, 50e9, 3350e9}, {100, 256, 8192, 740e9, 50e9, 8000e9}, {110, 256, 2048, 50e9, 50e9, 273e9},
    {120, 256, 1024, 50e9, 50e9, 1344e9},
};

static const rates *rates_of(int capability)
{
    const rates *best = &RATES[0];
    for (size_t i = 0; i < sizeof RATES / sizeof *RATES; i++)
        if (RATES[i].capability <= capability) best = &RATES[i];
    return best;
}

static double attribute(const cuda_target *t, int gpu, CUdevice_attribute which)
{
    int value = 0;
    return t->cu.cuDeviceGetAttribute(&value, which, t->gpus[gpu].device) == CUDA_SUCCESS ? value : 0;
}

static int sharers(const cuda_target *t, int gpu)
{
    int n = 0;
    for (int d = 0; d < t->n_devices; d++) n += t->devices[d].gpu == gpu;
    return n;
}

static ein_status describe_device(arena *a, const cuda_target *t, int d, machine_device *out)
{
    const int gpu = t->devices[d].gpu;
    const cuda_gpu *g = &t->gpus[gpu];
    const rates *r = rates_of(g->capability);
    const double share = 1.0 / sharers(t, gpu);
    double cycles = attribute(t, gpu, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) *
                    (attribute(t, gpu, CU_DEVICE_ATTRIBUTE_CLOCK_RATE) * 1e3);
    double memory = 2 * attribute(t, gpu, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) * 1e3 *
                    attribute(t, gpu, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8;
    if (cycles <= 0) cycles = 1e11;
    if (memory <= 0) memory = r->bandwidth;
    out->architecture = ein__arena_printf(a, "sm_%d", g->capability);
    if (out->architecture == NULL) return EIN_NO_MEMORY;
    out->flops_f32 = cycles * r->f32 * share;
    out->flops_f16 = cycles * r->f16 * share * (strstr(g->name, "GeForce") != NULL ? 0.5 : 1);
    out->memory_bandwidth = memory * share;
    out->memory_bytes = (double)t->devices[d].capacity;
    return EIN_OK;
}

/* How one GPU reads another's memory. */
typedef struct way { double bandwidth, latency; bool peer; } way;

static way way_between(const cuda_target *t, int reader, int owner)
{
    const rates *x = rates_of(t->gpus[reader].capability), *y = rates_of(t->gpus[owner].capability);
    int atomics = 0;
    if (t->cu.cuDeviceGetP2PAttribute(&atomics, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, t->gpus[reader].device,
                                      t->gpus[owner].device) != CUDA_SUCCESS)
        atomics = 0;
    double pcie = x->pcie < y->pcie ? x->pcie : y->pcie;
    if (!t->reach[reader][owner]) return (way){pcie / 2, 20e-6, false}; /* two copies, by way of the process's memory */
    if (atomics == 0) return (way){pcie, 5e-6, true};
    return (way){x->nvlink < y->nvlink ? x->nvlink : y->nvlink, 3e-6, true};
}

/* The way of all pairs of GPUs, if it is one. */
static bool same_way(const cuda_target *t, way *out)
{
    bool first = true;
    for (int i = 0; i < t->n_gpus; i++)
        for (int j = 0; j < t->n_gpus; j++) {
            if (i == j) continue;
            way w = way_between(t, i, j);
            if (!first && (w.bandwidth != out->bandwidth || w.peer != out->peer)) return false;
            *out = w;
            first = false;
        }
    return true;
}

/* One switch that all hang on: a device's reads share its port. On a single GPU it is the memory. */
static void link_switch(const cuda_target *t, machine *m, const way *all)
{
    for (int d = 0; d < m->n_devices; d++) {
        way w = *all;
        w.bandwidth = w.bandwidth > 0 ? w.bandwidth / sharers(t, t->devices[d].gpu) : m->devices[d].memory_bandwidth;
        m->links[m->n_links++] = (machine_link){d, m->n_devices, w.bandwidth, w.latency, w.peer};
        m->links[m->n_links++] = (machine_link){m->n_devices, d, w.bandwidth, 0, w.peer};
    }
    m->n_vertices++;
}

static void link_pairs(const cuda_target *t, machine *m)
{
    for (int i = 0; i < m->n_devices; i++)
        for (int j = 0; j < m->n_devices; j++) {
            int owner = t->devices[i].gpu, reader = t->devices[j].gpu;
            if (i == j) continue;
            way w = owner == reader ? (way){m->devices[i].memory_bandwidth, 3e-6, true} : way_between(t, reader, owner);
            m->links[m->n_links++] = (machine_link){i, j, w.bandwidth, w.latency, w.peer};
        }
}

ein_status ein__cuda_describe(arena *a, cuda_target *t, machine *out)
{
    way all = {0, 3e-6, true};
    memset(out, 0, sizeof *out);
    out->name = ein__arena_printf(a, "cuda:%d", t->n_devices);
    if (out->name == NULL) return EIN_NO_MEMORY;
    out->n_devices = out->n_vertices = t->n_devices;
    out->matrix_efficiency = 0.8;
    out->step_latency = 3e-6;
    out->launch_floor = 5e-6;
    for (int d = 0; d < t->n_devices; d++) TRY(describe_device(a, t, d, &out->devices[d]));
    NEW(a, out->links, t->n_devices * t->n_devices + 2);
    if (same_way(t, &all) && (all.peer || t->n_devices <= t->n_gpus)) link_switch(t, out, &all);
    else link_pairs(t, out);
    return EIN_OK;
}
