/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the virtual devices: one reserved address range, a list of taken ranges per device. Pages
 * that are given back are dropped, so that fresh memory reads zero. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "jit/target/host.h"

enum { PAGE = 4096 };
static const i64 MOST_ADDRESSES = (i64)1 << 46; /* half of what a process has on the usual 64-bit machines */

static i64 round_page(i64 bytes)
{
    if (bytes > MOST_ADDRESSES) return MOST_ADDRESSES + PAGE; /* more than any device has */
    return bytes <= 0 ? PAGE : (bytes + PAGE - 1) / PAGE * PAGE;
}

ein_status ein__host_memory_init(host_memory *m, const machine *machine, error *e)
{
    memset(m, 0, sizeof *m);
    m->n_devices = machine->n_devices;
    for (int d = 0; d < m->n_devices; d++) {
        double bytes = machine->devices[d].memory_bytes;
        m->taken[d].capacity = bytes < (double)MOST_ADDRESSES ? (i64)bytes : MOST_ADDRESSES;
        if (round_page(m->taken[d].capacity) > m->stride) m->stride = round_page(m->taken[d].capacity);
    }
    if (m->stride > MOST_ADDRESSES / m->n_devices)
        return ein__fail(e, EIN_NO_MEMORY, "host: %d devices of %lld bytes are more than can be addressed", m->n_devices,
                         (long long)m->stride);
    m->base = mmap(NULL, (size_t)(m->stride * m->n_devices), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m->base == MAP_FAILED) {
        m->base = NULL;
        return ein__fail(e, EIN_NO_MEMORY, "host: cannot reserve %lld bytes of addresses for %d devices",
                         (long long)(m->stride * m->n_devices), m->n_devices);
    }
    pthread_mutex_init(&m->lock, NULL);
    return EIN_OK;
}

void ein__host_memory_fini(host_memory *m)
{
    if (m->base == NULL) return;
    munmap(m->base, (size_t)(m->stride * m->n_devices));
    for (int d = 0; d < m->n_devices; d++) ein__ranges_fini(&m->taken[d]);
    pthread_mutex_destroy(&m->lock);
}

static ein_status alloc_locked(host_memory *m, int d, i64 bytes, void **out, error *e)
{
    i64 at = 0;
    ein_status s = ein__ranges_take(&m->taken[d], round_page(bytes), &at);
    if (s == EIN_NO_DEVICE_MEMORY)
        return ein__fail(e, s, "device %d: %lld bytes wanted, %lld of %lld are taken", d, (long long)bytes,
                         (long long)m->taken[d].used, (long long)m->taken[d].capacity);
    if (s != EIN_OK) return ein__fail(e, s, "out of memory for the list of device %d's memory", d);
    *out = m->base + d * m->stride + at;
    return EIN_OK;
}

ein_status ein__host_alloc(host_memory *m, int device, i64 bytes, void **out, error *e)
{
    pthread_mutex_lock(&m->lock);
    ein_status s = alloc_locked(m, device, bytes, out, e);
    pthread_mutex_unlock(&m->lock);
    return s;
}

void ein__host_release(host_memory *m, int d, void *p)
{
    if (p == NULL) return;
    pthread_mutex_lock(&m->lock);
    i64 bytes = ein__ranges_give(&m->taken[d], (char *)p - m->base - d * m->stride);
    if (bytes > 0) madvise(p, (size_t)bytes, MADV_DONTNEED);
    pthread_mutex_unlock(&m->lock);
}
