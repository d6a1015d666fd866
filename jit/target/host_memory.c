/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the virtual devices: one reserved address range, a first-fit list of taken ranges per device. Pages
 * that are given back are dropped, so that fresh memory reads zero. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "core/base/alloc.h"
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
        m->capacity[d] = bytes < (double)MOST_ADDRESSES ? (i64)bytes : MOST_ADDRESSES;
        if (round_page(m->capacity[d]) > m->stride) m->stride = round_page(m->capacity[d]);
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
    for (int d = 0; d < m->n_devices; d++) ein__free(m->taken[d].items);
    pthread_mutex_destroy(&m->lock);
}

static ein_status insert_range(host_memory *m, int d, int at, host_range r)
{
    if (m->taken[d].n == m->taken[d].room) {
        int room = m->taken[d].room != 0 ? 2 * m->taken[d].room : 64;
        host_range *items = ein__realloc(m->taken[d].items, (size_t)room * sizeof *items);
        if (items == NULL) return EIN_NO_MEMORY;
        m->taken[d].items = items;
        m->taken[d].room = room;
    }
    memmove(m->taken[d].items + at + 1, m->taken[d].items + at, (size_t)(m->taken[d].n - at) * sizeof r);
    m->taken[d].items[at] = r;
    m->taken[d].n++;
    m->used[d] += r.bytes;
    return EIN_OK;
}

static ein_status alloc_locked(host_memory *m, int d, i64 bytes, void **out, error *e)
{
    i64 at = 0, want = round_page(bytes);
    int i = 0;
    for (; i < m->taken[d].n && m->taken[d].items[i].offset - at < want; i++)
        at = m->taken[d].items[i].offset + m->taken[d].items[i].bytes;
    if (at + want > m->capacity[d])
        return ein__fail(e, EIN_NO_DEVICE_MEMORY, "device %d: %lld bytes wanted, %lld of %lld are taken", d,
                         (long long)bytes, (long long)m->used[d], (long long)m->capacity[d]);
    if (insert_range(m, d, i, (host_range){at, want}) != EIN_OK)
        return ein__fail(e, EIN_NO_MEMORY, "out of memory for the list of device %d's memory", d);
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
    i64 offset = (char *)p - m->base - d * m->stride;
    for (int i = 0; i < m->taken[d].n; i++) {
        if (m->taken[d].items[i].offset != offset) continue;
        madvise(p, (size_t)m->taken[d].items[i].bytes, MADV_DONTNEED);
        m->used[d] -= m->taken[d].items[i].bytes;
        m->taken[d].n--;
        memmove(m->taken[d].items + i, m->taken[d].items + i + 1, (size_t)(m->taken[d].n - i) * sizeof(host_range));
        break;
    }
    pthread_mutex_unlock(&m->lock);
}
