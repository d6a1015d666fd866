/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the host target's devices: disjoint, aligned, zeroed, bounded, and given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "jit/target/host.h"

enum { PAGES = 16, PAGE_BYTES = 4096 };

static void open_memory(host_memory *m, int n_devices, double bytes)
{
    machine where = {.name = "test", .host = true, .n_devices = n_devices};
    error e = {0};
    for (int d = 0; d < n_devices; d++) where.devices[d].memory_bytes = bytes;
    if (ein__host_memory_init(m, &where, &e) != EIN_OK) fail_msg("%s", e.line);
}

static char *get(host_memory *m, int device, i64 bytes)
{
    void *p = NULL;
    error e = {0};
    if (ein__host_alloc(m, device, bytes, &p, &e) != EIN_OK) fail_msg("%s", e.line);
    return p;
}

static bool all_are(const char *p, i64 n, int byte)
{
    for (i64 i = 0; i < n; i++)
        if (p[i] != byte) return false;
    return true;
}

/* The owner of an address follows from the address. */
static void owners(void **state)
{
    host_memory m;
    (void)state;
    open_memory(&m, 3, PAGES * PAGE_BYTES);
    for (int d = 0; d < 3; d++) {
        char *last = NULL;
        for (int i = 0; i < PAGES; i++) {
            char *p = get(&m, d, i % 2 == 0 ? 1 : PAGE_BYTES);
            assert_int_equal((uintptr_t)p % PAGE_BYTES, 0);
            assert_int_equal((p - m.base) / m.stride, d);
            assert_true(last == NULL || p >= last + PAGE_BYTES);
            memset(p, d + 1, PAGE_BYTES);
            last = p;
        }
        assert_int_equal(m.taken[d].used, PAGES * PAGE_BYTES);
    }
    for (int d = 0; d < 3; d++) assert_true(all_are(m.base + d * m.stride, PAGES * PAGE_BYTES, d + 1));
    ein__host_memory_fini(&m);
}

/* First fit: a hole is used again, and what was in it is gone. */
static void holes(void **state)
{
    host_memory m;
    char *p[4];
    (void)state;
    open_memory(&m, 2, PAGES * PAGE_BYTES);
    for (int i = 0; i < 4; i++) p[i] = get(&m, 1, 4 * PAGE_BYTES);
    memset(p[1], 7, 4 * PAGE_BYTES);
    memset(p[2], 8, 4 * PAGE_BYTES);
    ein__host_release(&m, 1, p[1]);
    assert_int_equal(m.taken[1].used, 12 * PAGE_BYTES);
    char *small = get(&m, 1, 100), *rest = get(&m, 1, 3 * PAGE_BYTES);
    assert_ptr_equal(small, p[1]);
    assert_ptr_equal(rest, p[1] + PAGE_BYTES);
    assert_true(all_are(small, 4 * PAGE_BYTES, 0));
    assert_int_equal(p[2][0], 8);
    ein__host_release(&m, 1, NULL);
    for (int i = 0; i < 4; i++) ein__host_release(&m, 1, p[i]);
    ein__host_release(&m, 1, rest);
    assert_int_equal(m.taken[1].used, 0);
    assert_true(all_are(get(&m, 1, PAGES * PAGE_BYTES), PAGES * PAGE_BYTES, 0));
    ein__host_memory_fini(&m);
}

static void exhaustion(void **state)
{
    host_memory m;
    error e = {0};
    void *p = NULL;
    (void)state;
    open_memory(&m, 2, PAGES * PAGE_BYTES);
    char *first = get(&m, 0, 5000);
    assert_int_equal(ein__host_alloc(&m, 0, 15 * PAGE_BYTES, &p, &e), EIN_NO_DEVICE_MEMORY);
    assert_string_equal(e.line, "device 0: 61440 bytes wanted, 8192 of 65536 are taken");
    assert_null(p);
    assert_int_equal(ein__host_alloc(&m, 0, INT64_MAX / 2, &p, &e), EIN_NO_DEVICE_MEMORY);
    assert_int_equal(ein__host_alloc(&m, 0, INT64_MAX, &p, &e), EIN_NO_DEVICE_MEMORY);
    assert_non_null(get(&m, 1, 15 * PAGE_BYTES)); /* the other device has its own */
    assert_non_null(get(&m, 0, 14 * PAGE_BYTES));
    ein__host_release(&m, 0, first);
    assert_ptr_equal(get(&m, 0, 2 * PAGE_BYTES), first);
    assert_non_null(get(&m, 1, 0)); /* nothing, at an address of its own */
    ein__host_memory_fini(&m);
}

/* Of the host's memory for the list: nothing is taken. */
static void no_memory(void **state)
{
    host_memory m;
    error e = {0};
    void *p = NULL;
    (void)state;
    long live = ein__alloc_live();
    open_memory(&m, 1, PAGES * PAGE_BYTES);
    ein__alloc_fail_at(1);
    assert_int_equal(ein__host_alloc(&m, 0, 1, &p, &e), EIN_NO_MEMORY);
    ein__alloc_fail_at(0);
    assert_string_equal(e.line, "out of memory for the list of device 0's memory");
    assert_null(p);
    assert_int_equal(m.taken[0].used, 0);
    assert_ptr_equal(get(&m, 0, 1), m.base);
    ein__host_memory_fini(&m);
    assert_int_equal(ein__alloc_live(), live);
}

static void too_much(void **state)
{
    static const double sizes[] = {1e15, 1e18, 1e300};
    (void)state;
    for (int i = 0; i < 3; i++) {
        host_memory m;
        error e = {0};
        machine where = {.name = "test", .host = true, .n_devices = MAX_DEVICES};
        for (int d = 0; d < MAX_DEVICES; d++) where.devices[d].memory_bytes = sizes[i];
        assert_int_equal(ein__host_memory_init(&m, &where, &e), EIN_NO_MEMORY);
        assert_non_null(strstr(e.line, "host: 16 devices of "));
        ein__host_memory_fini(&m);
    }
}

/* ---- threads ------------------------------------------------------------------------------------------ */

typedef struct user { host_memory *m; int seed, wrong; } user;

static void *use_memory(void *argument)
{
    user *u = argument;
    char *mine[4] = {NULL};
    for (int i = 0; i < 400; i++) {
        int k = (i * 7 + u->seed) % 4, device = u->seed % 2;
        if (mine[k] != NULL) {
            u->wrong += !all_are(mine[k], 300, u->seed);
            ein__host_release(u->m, device, mine[k]);
            mine[k] = NULL;
            continue;
        }
        void *p = NULL;
        if (ein__host_alloc(u->m, device, 300, &p, NULL) != EIN_OK) {
            u->wrong++;
            continue;
        }
        u->wrong += !all_are(p, 300, 0);
        memset(p, u->seed, 300);
        mine[k] = p;
    }
    for (int k = 0; k < 4; k++) ein__host_release(u->m, u->seed % 2, mine[k]);
    return NULL;
}

static void threads(void **state)
{
    host_memory m;
    pthread_t thread[4];
    user users[4];
    (void)state;
    open_memory(&m, 2, PAGES * PAGE_BYTES);
    for (int i = 0; i < 4; i++) {
        users[i] = (user){&m, i + 1, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, use_memory, &users[i]), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 4; i++) assert_int_equal(users[i].wrong, 0);
    assert_int_equal(m.taken[0].used + m.taken[1].used, 0);
    ein__host_memory_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owners),    cmocka_unit_test(holes),    cmocka_unit_test(exhaustion),
        cmocka_unit_test(no_memory), cmocka_unit_test(too_much), cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
