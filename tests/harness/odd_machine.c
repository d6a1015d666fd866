/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/odd_machine.h"

static void add_link(machine *m, int from, int to, double gigabytes, bool peer)
{
    m->links[m->n_links++] = (machine_link){from, to, gigabytes * 1e9, m->host ? 0 : 1e-6, peer};
}

static void join(machine *m, int a, int b, double gigabytes, bool peer)
{
    add_link(m, a, b, gigabytes, peer);
    add_link(m, b, a, gigabytes, peer);
}

static void add_islands(machine *m, bool peers)
{
    int n = m->n_devices, half = n / 2;
    m->n_vertices = n + 2;
    for (int d = 0; d < n; d++) join(m, d, d < half ? n : n + 1, 100, true);
    join(m, n, n + 1, 5, peers);
}

static void add_switch(machine *m, oddity kind)
{
    int n = m->n_devices;
    m->n_vertices = n + 1;
    for (int d = 0; d < n; d++) join(m, d, n, 100, kind != NO_PEERS);
    if (kind == ONE_WAY && n > 1) add_link(m, 0, 1, 200, false);
}

ein_status odd_machine(arena *a, oddity kind, int n, bool quick, machine *out)
{
    *out = (machine){.name = "odd", .host = quick, .n_devices = n, .n_vertices = n, .matrix_efficiency = 0.8,
                     .step_latency = quick ? 0 : 3e-6, .launch_floor = quick ? 0 : 5e-6};
    NEW(a, out->links, MAX_LINKS);
    for (int d = 0; d < n; d++) out->devices[d] = (machine_device){quick ? "host" : "sm_80", 1e13, 1e14, 1e12, 1e9};
    if (kind == FLAT || kind == NO_PEERS || kind == ONE_WAY) {
        add_switch(out, kind);
    } else if (kind == ISLANDS || kind == BOXES) {
        add_islands(out, kind == ISLANDS);
    } else if (kind == RING_ONLY) {
        for (int d = 0; d < n - 1; d++) join(out, d, d + 1, 50, true);
        if (n > 2) join(out, n - 1, 0, 50, true);
    } else {
        for (int d = 0; d < n; d++)
            for (int b = 0; b < d; b++) join(out, d, b, 1 + (d * 7 + b * 3) % 11 * 10, true);
    }
    return ein__machine_check(out, NULL);
}
