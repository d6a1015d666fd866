/* SPDX-License-Identifier: Apache-2.0 */
/* Memory with its history. Two accesses to a byte are in order if they are of
 *     one thread of a block;
 *     one block, with a barrier between them;
 *     different operations, and the line of the later one knew of the earlier one: it was on the same line, or a
 *     clock came from there.
 * All else is a race if one of them writes. Of a byte the last write is kept, and of several lines the last read:
 * a second reader of the same epoch, or of another block, is kept as "many". So within a launch, and between as
 * many lines as there are read cells, no race that happened is missed, whatever the schedule was. */
#define _DEFAULT_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "core/base/alloc.h"
#include "tests/fake/fiber_inner.h"

enum { READ_CELLS = 4 };

typedef struct operation { uint8_t line; uint32_t tick; } operation;

struct fiber_space {
    region *regions; /* by address */
    int n_regions, room_regions;
    region *last; /* where the last access was */
    int n_lines;
    uint32_t known[FIBER_LINES][FIBER_LINES]; /* the last tick of each line that a line knows of */
    operation *operations;
    uint32_t n_operations, room_operations;
};

pthread_mutex_t fiber_lock = PTHREAD_MUTEX_INITIALIZER;

fiber_space *fiber_space_create(void) { return ein__calloc(1, sizeof(fiber_space)); }

static size_t cells_bytes(const region *r) { return r->bytes * (size_t)r->width * sizeof(cell); }

void fiber_space_free(fiber_space *s)
{
    if (s == NULL) return;
    for (int i = 0; i < s->n_regions; i++) munmap(s->regions[i].cells, cells_bytes(&s->regions[i]));
    ein__free(s->regions);
    ein__free(s->operations);
    ein__free(s);
}

/* ---- order ---- */

int fiber_line_add(fiber_space *s)
{
    pthread_mutex_lock(&fiber_lock);
    const int line = s->n_lines < FIBER_LINES ? s->n_lines++ : -1;
    pthread_mutex_unlock(&fiber_lock);
    return line;
}

uint32_t fiber_operation(fiber_space *s, int line)
{
    if (s->n_operations + 1 >= 1u << OP_BITS) return 0;
    if (s->n_operations + 1 >= s->room_operations) {
        uint32_t room = s->room_operations * 2 + 64;
        operation *more = ein__realloc(s->operations, room * sizeof *more);
        if (more == NULL) return 0;
        s->operations = more;
        s->room_operations = room;
    }
    uint32_t op = ++s->n_operations;
    s->operations[op] = (operation){(uint8_t)line, ++s->known[line][line]};
    return op;
}

void fiber_release(fiber_space *s, int line, fiber_clock *clock)
{
    pthread_mutex_lock(&fiber_lock);
    for (int i = 0; i < FIBER_LINES; i++)
        if (s->known[line][i] > clock->ticks[i]) clock->ticks[i] = s->known[line][i];
    pthread_mutex_unlock(&fiber_lock);
}

void fiber_acquire(fiber_space *s, int line, const fiber_clock *clock)
{
    pthread_mutex_lock(&fiber_lock);
    for (int i = 0; i < FIBER_LINES; i++)
        if (clock->ticks[i] > s->known[line][i]) s->known[line][i] = clock->ticks[i];
    pthread_mutex_unlock(&fiber_lock);
}

static uint32_t op_of(actor a) { return (uint32_t)(a >> (64 - OP_BITS)); }
static int block_of(actor a) { return (int)(a >> (THREAD_BITS + EPOCH_BITS) & MANY_BLOCKS); }
static int thread_of(actor a) { return (int)(a >> EPOCH_BITS & MANY_THREADS); }
static int epoch_of(actor a) { return (int)(a & ((1u << EPOCH_BITS) - 1)); }

/* Nothing orders the earlier access before the one at hand. */
static bool unordered(const fiber_space *s, actor old, actor now)
{
    if (old == 0 || old == now) return false;
    if (op_of(old) != op_of(now)) {
        const operation *o = &s->operations[op_of(old)];
        return s->known[s->operations[op_of(now)].line][o->line] < o->tick;
    }
    if (block_of(old) != block_of(now)) return true;
    return thread_of(old) != thread_of(now) && epoch_of(old) == epoch_of(now);
}

/* ---- regions ---- */

/* The first region that ends after p. */
static int find(const fiber_space *s, const char *p)
{
    int lo = 0, hi = s->n_regions;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (s->regions[mid].base + s->regions[mid].bytes > p) hi = mid;
        else lo = mid + 1;
    }
    return lo;
}

static bool add_region(fiber_space *s, region r)
{
    if (s->n_regions == s->room_regions) {
        int room = s->room_regions * 2 + 16;
        region *more = ein__realloc(s->regions, (size_t)room * sizeof *more);
        if (more == NULL) return false;
        s->regions = more;
        s->room_regions = room;
    }
    r.cells = mmap(NULL, cells_bytes(&r), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r.cells == MAP_FAILED) return false;
    int i = find(s, r.base);
    memmove(s->regions + i + 1, s->regions + i, (size_t)(s->n_regions - i) * sizeof r);
    s->regions[i] = r;
    s->n_regions++;
    s->last = NULL;
    return true;
}

bool fiber_memory_add(fiber_space *s, void *base, size_t bytes, uint64_t readers, uint64_t writers, bool written)
{
    pthread_mutex_lock(&fiber_lock);
    const region r = {base, bytes, readers, writers, written, 1 + READ_CELLS, NULL};
    const bool done = bytes == 0 || add_region(s, r);
    pthread_mutex_unlock(&fiber_lock);
    return done;
}

void fiber_memory_remove(fiber_space *s, void *base)
{
    pthread_mutex_lock(&fiber_lock);
    const int i = find(s, base);
    if (i < s->n_regions && s->regions[i].base == base) {
        munmap(s->regions[i].cells, cells_bytes(&s->regions[i]));
        s->n_regions--;
        memmove(s->regions + i, s->regions + i + 1, (size_t)(s->n_regions - i) * sizeof *s->regions);
        s->last = NULL;
    }
    pthread_mutex_unlock(&fiber_lock);
}

static bool inside(const region *r, const char *p, size_t bytes)
{
    return p >= r->base && bytes <= r->bytes && (size_t)(p - r->base) <= r->bytes - bytes;
}

region *fiber_region(fiber_space *s, const void *p, size_t bytes)
{
    if (s->last != NULL && inside(s->last, p, bytes)) return s->last;
    int i = find(s, p);
    if (i == s->n_regions || !inside(&s->regions[i], p, bytes)) return NULL;
    return s->last = &s->regions[i];
}

/* ---- accesses ---- */

static bool fail(access_fault *out, fiber_fault fault, size_t at, const cell *other, bool other_write)
{
    *out = (access_fault){fault, at, other != NULL ? other->who : 0, other != NULL ? other->pc : NULL, other_write};
    return false;
}

/* The read joins those that are kept. */
static void keep_read(cell *c, actor who, const void *pc)
{
    const actor many_blocks = (actor)MANY_BLOCKS << (THREAD_BITS + EPOCH_BITS);
    const actor many_threads = (actor)MANY_THREADS << EPOCH_BITS;
    if (op_of(c->who) == op_of(who)) {
        if (block_of(c->who) != block_of(who)) who |= many_blocks;
        else if (epoch_of(c->who) == epoch_of(who) && thread_of(c->who) != thread_of(who)) who |= many_threads;
    }
    *c = (cell){who, pc};
}

bool fiber_check(fiber_space *s, region *r, const void *p, size_t bytes, bool write, actor who, const void *pc,
                 access_fault *out)
{
    const int line = s->operations[op_of(who)].line;
    cell *c = r->cells + (size_t)((const char *)p - r->base) * (size_t)r->width;
    for (size_t i = 0; i < bytes; i++, c += r->width) {
        if (unordered(s, c->who, who)) return fail(out, FIBER_RACE, i, c, true);
        if (!write) {
            if (c->who == 0 && !r->written) return fail(out, FIBER_UNWRITTEN, i, NULL, false);
            keep_read(c + 1 + line % (r->width - 1), who, pc);
            continue;
        }
        for (int k = 1; k < r->width; k++)
            if (unordered(s, c[k].who, who)) return fail(out, FIBER_RACE, i, c + k, false);
        *c = (cell){who, pc};
    }
    return true;
}
