/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the devices. An address is never given twice, so what was freed stays a hole. A plain allocation ends at a
 * hole, rounded up to 512 bytes; what is left of its pages is a red zone. Fresh memory is full of 0x7fff, a NaN in
 * every float and a large integer. */
#define _GNU_SOURCE /* memfd_create */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fake/fake.h"

enum { PAGE = 4096, ALIGN = 512, RED = 0xa5, POISON_BYTES = 8 << 20 };
static const size_t room = (size_t)192 << 30; /* addresses, reserved at once */

static struct {
    char *base;
    size_t used;
    block **items; /* sorted by pages */
    int n, room;
    bool touched; /* since the red zones were looked at */
} memory;

static void *must(void *p)
{
    if (p == MAP_FAILED || p == NULL) {
        perror("fake: memory");
        abort();
    }
    return p;
}

/* Addresses for `bytes`, with holes around. */
char *fake_reserve(size_t bytes, size_t align)
{
    if (memory.base == NULL)
        memory.base = must(mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    size_t at = (memory.used + PAGE + align - 1) / align * align;
    if (at + bytes + PAGE > room) return NULL;
    memory.used = at + bytes;
    return memory.base + at;
}

static size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/* ---- what is behind addresses ---- */

static uint32_t *shadow_make(size_t bytes)
{
    return must(mmap(NULL, bytes * sizeof(uint32_t), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

physical *fake_physical_make(int device, size_t bytes, bool mappable)
{
    physical *m = fake_object(PHYSICAL, sizeof *m);
    m->device = device;
    m->bytes = bytes;
    m->mappable = mappable;
    if (fake.settings.check) {
        m->written = shadow_make(bytes);
        for (int i = 0; i < READERS; i++) m->read[i] = shadow_make(bytes);
    }
    return m;
}

void fake_physical_drop(physical *m)
{
    if (!m->o.live || m->maps > 0 || !m->released) return;
    m->o.live = false;
    if (m->written != NULL) munmap(m->written, m->bytes * sizeof(uint32_t));
    m->written = NULL;
    for (int i = 0; i < READERS; i++) {
        if (m->read[i] != NULL) munmap(m->read[i], m->bytes * sizeof(uint32_t));
        m->read[i] = NULL;
    }
}

/* ---- blocks ---- */

/* The first block that ends behind p. */
int fake_block_place(const void *p)
{
    const char *at = p;
    int lo = 0, hi = memory.n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (memory.items[mid]->pages + memory.items[mid]->page_bytes <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

block *fake_block_at(const void *p)
{
    int i = fake_block_place(p);
    return i < memory.n && memory.items[i]->pages <= (const char *)p ? memory.items[i] : NULL;
}

int fake_block_count(void) { return memory.n; }

block *fake_block_number(int i) { return memory.items[i]; }

bool fake_of_device(const void *p)
{
    return memory.base != NULL && (const char *)p >= memory.base && (const char *)p < memory.base + room;
}

static void forget(int i)
{
    free(memory.items[i]);
    memmove(memory.items + i, memory.items + i + 1, (size_t)(memory.n - i - 1) * sizeof *memory.items);
    memory.n--;
}

block *fake_block_add(char *at, size_t bytes, physical *m, int device)
{
    block *b = calloc(1, sizeof *b);
    if (b == NULL) abort();
    *b = (block){.at = at,
                 .pages = at,
                 .bytes = bytes,
                 .page_bytes = bytes,
                 .memory = m,
                 .device = device,
                 .made = fake.calls,
                 .protection = PROT_READ | PROT_WRITE};
    int i = fake_block_place(at);
    while (i < memory.n && memory.items[i]->pages < at + bytes && memory.items[i]->freed) forget(i);
    if (memory.n == memory.room) {
        memory.room = memory.room > 0 ? 2 * memory.room : 64;
        memory.items = realloc(memory.items, (size_t)memory.room * sizeof *memory.items);
        if (memory.items == NULL) abort();
    }
    memmove(memory.items + i + 1, memory.items + i, (size_t)(memory.n - i) * sizeof *memory.items);
    memory.items[i] = b;
    memory.n++;
    if (m != NULL) m->maps++;
    return b;
}

static void check_red_zone(const block *b)
{
    if (b->freed || b->virtual || b->device == HOST) return;
    const char *zones[2][2] = {{b->pages, b->at}, {b->at + b->bytes, b->pages + b->page_bytes}};
    for (int k = 0; k < 2; k++)
        for (const char *p = zones[k][0]; p < zones[k][1]; p++)
            if ((unsigned char)*p != RED) {
                fake_report("red zone of the %zu bytes of call %ld on device %d: written %td bytes %s", b->bytes,
                            b->made, b->device, k == 0 ? b->at - p : p - (b->at + b->bytes),
                            k == 0 ? "before them" : "behind their end");
                return;
            }
}

void fake_red_zones(void)
{
    if (!memory.touched) return;
    memory.touched = false;
    for (int i = 0; i < memory.n; i++) {
        const block *b = memory.items[i];
        if (b->freed || b->virtual || b->device == HOST) continue;
        fake_open_block(memory.items[i]);
        check_red_zone(b);
    }
    fake_enter_device(-1);
    memory.touched = false;
}

void fake_block_remove(block *b)
{
    if (b->device != HOST && !b->virtual) {
        fake_open_block(b);
        check_red_zone(b);
    }
    if (b->device != HOST)
        must(mmap(b->pages, b->page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0));
    b->freed = true;
    b->gone = fake.calls;
    b->protection = PROT_NONE;
    if (b->memory != NULL) {
        b->memory->maps--;
        fake_physical_drop(b->memory);
        b->memory = NULL;
    }
    if (b->device == HOST) forget(fake_block_place(b->at));
}

void fake_memory_reset(void)
{
    while (memory.n > 0) {
        block *b = memory.items[memory.n - 1];
        if (b->memory != NULL) b->memory->maps--;
        if (b->device == HOST && !b->registered) munmap(b->pages, b->page_bytes);
        forget(memory.n - 1);
    }
    for (object *o = fake.objects; o != NULL; o = o->next)
        if (o->kind == PHYSICAL) {
            ((physical *)o)->released = true;
            fake_physical_drop((physical *)o);
        }
    if (memory.base != NULL) munmap(memory.base, room);
    memory.base = NULL;
    memory.used = 0;
    memory.touched = false;
}

void fake_memory_leaks(text *out)
{
    for (int i = 0; i < memory.n; i++) {
        const block *b = memory.items[i];
        if (!b->freed && (b->virtual || b->device == HOST))
            ein__text_add(out, "%s of %zu bytes of call %ld, %s\n", b->virtual ? "mapping" : "pinned memory", b->bytes,
                          b->made, fake_call(b->made));
    }
}

/* ---- plain allocations ---- */

/* Pages of a file full of poison, of which a write makes a copy: what nobody writes to costs nothing. */
void fake_fresh_pages(char *pages, size_t bytes)
{
    static int file = -1;
    if (file < 0) {
        file = memfd_create("poison", MFD_CLOEXEC);
        if (file < 0 || ftruncate(file, POISON_BYTES) != 0) must(NULL);
        uint16_t *p = must(mmap(NULL, POISON_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
        for (size_t i = 0; i < POISON_BYTES / sizeof *p; i++) p[i] = 0x7fff;
        munmap(p, POISON_BYTES);
    }
    for (size_t at = 0; at < bytes; at += POISON_BYTES) {
        const size_t n = bytes - at < POISON_BYTES ? bytes - at : POISON_BYTES;
        must(mmap(pages + at, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0));
    }
}

bool fake_fits(int device, size_t bytes)
{
    long long used = 0;
    for (const object *o = fake.objects; o != NULL; o = o->next)
        if (o->kind == PHYSICAL && o->live && ((const physical *)o)->device == device)
            used += (long long)((const physical *)o)->bytes;
    return (long long)bytes <= fake.settings.memory[device] - used;
}

CUresult fake_alloc(int device, size_t bytes, CUdeviceptr *out)
{
    if (bytes == 0 || out == NULL) return CUDA_ERROR_INVALID_VALUE;
    size_t page_bytes = round_up(bytes, PAGE);
    if (!fake_fits(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    char *pages = fake_reserve(page_bytes, PAGE);
    if (pages == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    fake_fresh_pages(pages, page_bytes);
    physical *m = fake_physical_make(device, bytes, false);
    m->released = true; /* goes with its block */
    block *b = fake_block_add(pages, page_bytes, m, device);
    b->at = pages + page_bytes - round_up(bytes, ALIGN);
    b->bytes = bytes;
    memset(pages, RED, (size_t)(b->at - pages));
    memset(b->at + bytes, RED, (size_t)(pages + page_bytes - (b->at + bytes)));
    fake_enter_device(-1);
    *out = (CUdeviceptr)(uintptr_t)b->at;
    return 0;
}

CUresult fake_free(CUdeviceptr p)
{
    block *b = fake_block_at((void *)(uintptr_t)p);
    if (p == 0) return 0;
    if (b == NULL || b->freed || b->virtual || b->device == HOST || b->at != (char *)(uintptr_t)p) {
        text what = {0};
        fake_describe(&what, (void *)(uintptr_t)p);
        fake_report("cuMemFree of %s", ein__text_get(&what));
        ein__text_free(&what);
        return CUDA_ERROR_INVALID_VALUE;
    }
    fake_drain();
    fake_block_remove(b);
    return 0;
}

/* ---- rights ---- */

bool fake_may(int d, const block *b)
{
    if (b->freed || d < 0) return false;
    if (b->device == HOST) return true;
    if (b->virtual) return (b->access >> d & 1) != 0;
    return d == b->device || (fake.contexts[d] != NULL && (fake.contexts[d]->peers >> b->device & 1) != 0);
}

static void protect(block *b, int protection)
{
    if (b->protection == protection || b->freed || b->device == HOST) return;
    must(mprotect(b->pages, b->page_bytes, protection) == 0 ? b : NULL);
    b->protection = protection;
}

void fake_open_block(block *b)
{
    protect(b, PROT_READ | PROT_WRITE);
    memory.touched = true;
}

void fake_enter_device(int d)
{
    for (int i = 0; i < memory.n; i++)
        protect(memory.items[i], fake_may(d, memory.items[i]) ? PROT_READ | PROT_WRITE : PROT_NONE);
    if (d >= 0) memory.touched = true;
}

void fake_describe(text *out, const void *p)
{
    const char *at = p;
    int i = fake_block_place(at);
    const block *b = i < memory.n && memory.items[i]->pages <= at ? memory.items[i] : NULL;
    const block *before = i > 0 ? memory.items[i - 1] : NULL;
    if (b == NULL && before != NULL && at - (before->pages + before->page_bytes) < 1 << 20) b = before;
    if (b == NULL) {
        ein__text_add(out, "%p, which is no memory of a device", p);
        return;
    }
    ein__text_add(out, "%p, ", p);
    if (at < b->at)
        ein__text_add(out, "%td bytes before ", b->at - at);
    else if (at >= b->at + b->bytes)
        ein__text_add(out, "%td bytes behind the end of ", at - (b->at + b->bytes));
    else
        ein__text_add(out, "byte %td of ", at - b->at);
    ein__text_add(out, "the %zu bytes of call %ld (%s) on device %d", b->bytes, b->made, fake_call(b->made), b->device);
    if (b->freed) ein__text_add(out, ", freed by call %ld (%s)", b->gone, fake_call(b->gone));
}

bool fake_range(int d, const void *p, size_t bytes, const char *what, block **out)
{
    const char *at = p;
    block *b = fake_block_at(p);
    const char *why = NULL;
    if (b == NULL || b->freed || at < b->at || at + bytes > b->at + b->bytes)
        why = "is not all there";
    else if (b->virtual && !fake_may(b->device, b) && !fake_may(d, b))
        why = "nobody was given access to";
    *out = b;
    if (why == NULL) return true;
    text where = {0};
    fake_describe(&where, p);
    fake_report("%s on device %d: %zu bytes at %s, %s", what, d, bytes, ein__text_get(&where), why);
    ein__text_free(&where);
    return false;
}
