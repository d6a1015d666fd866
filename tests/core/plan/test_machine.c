/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/plan/machine.h"

static const char *const PRESETS[] = {"nvswitch8", "dgx-1",    "4xpcie",   "bridge-pairs", "2xpcie-no-p2p",
                                      "dgx-a100",  "dgx-h100", "hgx-h200", "2xdgx-a100",   "mixed",
                                      "host:1",    "host:5",   "host:16",  "dgx-1:0,1,2,3"};
enum { N_PRESETS = sizeof PRESETS / sizeof *PRESETS };

static machine parse(arena *a, const char *source)
{
    machine m;
    error e = {0};
    ein_status status = ein__machine_parse(a, source, &m, &e);
    if (status != EIN_OK) fail_msg("%s: %s", source, e.line);
    return m;
}

static void refuse(const char *source, ein_status want, const char *named)
{
    arena a = {0};
    machine m;
    error e = {0};
    assert_int_equal(ein__machine_parse(&a, source, &m, &e), want);
    if (strstr(e.line, named) == NULL) fail_msg("\"%s\" does not name %s", e.line, named);
    ein__arena_free(&a);
}

static void test_print_reads_back(void **state)
{
    (void)state;
    for (int i = 0; i < N_PRESETS; i++) {
        arena a = {0};
        text json = {0}, again = {0}, key = {0}, key_again = {0};
        machine m = parse(&a, PRESETS[i]);
        assert_string_equal(m.name, PRESETS[i]);
        assert_int_equal(ein__machine_print(&m, &json), EIN_OK);
        machine back = parse(&a, json.bytes);
        assert_int_equal(ein__machine_print(&back, &again), EIN_OK);
        assert_string_equal(json.bytes, again.bytes);
        assert_string_equal(back.name, m.name);
        ein__machine_key(&m, &key);
        ein__machine_key(&back, &key_again);
        assert_int_equal(key.n, key_again.n);
        assert_memory_equal(key.bytes, key_again.bytes, key.n);
        for (int d = 0; d < m.n_devices; d++) {
            assert_string_equal(m.devices[d].architecture, back.devices[d].architecture);
            assert_true(m.devices[d].memory_bytes == back.devices[d].memory_bytes);
        }
        ein__text_free(&json);
        ein__text_free(&again);
        ein__text_free(&key);
        ein__text_free(&key_again);
        ein__arena_free(&a);
    }
}

static void test_keys_differ(void **state)
{
    (void)state;
    arena a = {0};
    text keys[N_PRESETS] = {{0}};
    for (int i = 0; i < N_PRESETS; i++) {
        machine m = parse(&a, PRESETS[i]);
        ein__machine_key(&m, &keys[i]);
        for (int j = 0; j < i; j++) {
            assert_false(keys[i].n == keys[j].n && memcmp(keys[i].bytes, keys[j].bytes, keys[i].n) == 0);
        }
    }
    for (int i = 0; i < N_PRESETS; i++) ein__text_free(&keys[i]);
    ein__arena_free(&a);
}

static void expect_bandwidth(const char *source, int from, int to, double gigabytes)
{
    arena a = {0};
    machine m = parse(&a, source);
    assert_float_equal(ein__machine_bandwidth(&m, from, to) * 1e-9, gigabytes, 1e-9);
    ein__arena_free(&a);
}

static void test_bandwidth(void **state)
{
    (void)state;
    expect_bandwidth("nvswitch8", 0, 7, 376);
    expect_bandwidth("4xpcie", 0, 1, 24);
    expect_bandwidth("4xpcie", 0, 3, 24);
    expect_bandwidth("bridge-pairs", 0, 1, 50);
    expect_bandwidth("bridge-pairs", 1, 0, 50);
    expect_bandwidth("bridge-pairs", 1, 2, 24);
    expect_bandwidth("2xpcie-no-p2p", 0, 1, 24);
    expect_bandwidth("2xdgx-a100", 0, 7, 235);
    expect_bandwidth("2xdgx-a100", 0, 8, 25);
    expect_bandwidth("mixed", 0, 3, 24);
    expect_bandwidth("host:4", 1, 3, 2.5);
    expect_bandwidth("host:4", HOST, 3, 2.5);
    expect_bandwidth("dgx-a100", HOST, 3, 0);
    expect_bandwidth("dgx-h100", 5, 5, 3350);
    /* Two links each over 0-4-7-6; among devices 0 and 1 alone, the one link between them. */
    expect_bandwidth("dgx-1", 0, 3, 44);
    expect_bandwidth("dgx-1", 0, 6, 44);
    expect_bandwidth("dgx-1:0,1", 0, 1, 22);
    expect_bandwidth("dgx-1:0,5", 0, 1, 0);
}

static void test_golden_numbers(void **state)
{
    (void)state;
    arena a = {0};
    machine m = parse(&a, "mixed");
    assert_int_equal(m.n_devices, 4);
    assert_string_equal(m.devices[0].architecture, "sm_80");
    assert_string_equal(m.devices[3].architecture, "sm_89");
    assert_true(m.devices[0].flops_f16 == 312e12 && m.devices[2].flops_f16 == 165e12);
    assert_true(m.devices[3].memory_bandwidth == 0.5e12 && m.devices[1].memory_bytes == 24e9);
    m = parse(&a, "dgx-1");
    assert_int_equal(m.n_links, 32);
    double links = 0;
    for (int i = 0; i < m.n_links; i++) links += m.links[i].bandwidth / 22e9;
    assert_float_equal(links, 2 * 24, 1e-9); /* each of 8 GPUs has 6 NVLinks; every link counts both ways */
    assert_false(m.host);
    m = parse(&a, "hgx-h200");
    assert_true(m.devices[7].memory_bytes == 141e9 && m.matrix_efficiency == 0.8 && m.step_latency == 3e-6);
    m = parse(&a, "2xpcie-no-p2p");
    for (int i = 0; i < m.n_links; i++) assert_false(m.links[i].peer);
    m = parse(&a, "host:4");
    assert_true(m.host);
    assert_float_equal(m.devices[3].flops_f32, 25e9, 1);
    double ram = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    assert_float_equal(m.devices[0].memory_bytes, ram / 4, 1);
    ein__arena_free(&a);
}

static void test_subset_keeps_order(void **state)
{
    (void)state;
    arena a = {0};
    machine m = parse(&a, "mixed:3,0");
    assert_int_equal(m.n_devices, 2);
    assert_int_equal(m.n_vertices, 3);
    assert_int_equal(m.n_links, 4);
    assert_true(m.devices[0].flops_f16 == 83e12 && m.devices[1].flops_f16 == 312e12);
    assert_float_equal(ein__machine_bandwidth(&m, 0, 1), 24e9, 1);
    ein__arena_free(&a);
}

static void test_bad_names(void **state)
{
    (void)state;
    refuse("host:0", EIN_INVALID, "host:0");
    refuse("host:17", EIN_INVALID, "host:16");
    refuse("host:", EIN_INVALID, "host:1");
    refuse("host:4x", EIN_INVALID, "host:4x");
    refuse("dgx-1:", EIN_INVALID, "device numbers");
    refuse("dgx-1:0,", EIN_INVALID, "device numbers");
    refuse("dgx-1:0,8", EIN_INVALID, "device 8");
    refuse("dgx-1:1,2,1", EIN_INVALID, "device 1 twice");
    refuse("dgx-2", EIN_IO, "dgx-2");
    refuse("dgx-2", EIN_IO, "hgx-h200");
    refuse("/", EIN_IO, "/");
}

#define HEAD "{\"name\":\"m\",\"host\":false,\"matrix_efficiency\":0.8,\"step_latency\":0,\"launch_floor\":0,"
#define DEVICE                                                                                               \
    "{\"architecture\":\"sm_80\",\"flops_f32\":1,\"flops_f16\":1,\"memory_bandwidth\":1,\"memory_bytes\":1}"
#define TAIL "\"switches\":0,\"links\":[]}"
#define LINKS(l) HEAD "\"devices\":[" DEVICE "," DEVICE "],\"switches\":1,\"links\":[" l "]}"

static void test_bad_json(void **state)
{
    (void)state;
    arena a = {0};
    machine m = parse(&a, HEAD "\"devices\":[" DEVICE "]," TAIL);
    assert_int_equal(m.n_devices, 1);
    ein__arena_free(&a);
    refuse("{", EIN_INVALID, "machine:1");
    refuse("{}", EIN_INVALID, "\"name\" is missing");
    refuse(HEAD TAIL, EIN_INVALID, "\"devices\" is missing");
    refuse(HEAD "\"devices\":[]," TAIL, EIN_INVALID, "0 devices");
    refuse(HEAD "\"devices\":[1]," TAIL, EIN_INVALID, "devices[0]");
    refuse(HEAD "\"devices\":1," TAIL, EIN_INVALID, "\"devices\" must be an array");
    refuse(HEAD "\"speed\":1,\"devices\":[" DEVICE "]," TAIL, EIN_INVALID, "\"speed\"");
    refuse(HEAD "\"name\":\"n\",\"devices\":[" DEVICE "]," TAIL, EIN_INVALID, "duplicate");
    refuse(HEAD "\"devices\":[{\"architecture\":\"sm_80\"}]," TAIL, EIN_INVALID, "\"flops_f32\" is missing");
    refuse(HEAD "\"devices\":[" DEVICE "],\"switches\":65,\"links\":[]}", EIN_INVALID, "65");
    refuse(HEAD "\"devices\":[" DEVICE "],\"switches\":64,\"links\":[]}", EIN_INVALID, "65 vertices");
    refuse(HEAD "\"devices\":[" DEVICE "],\"switches\":1.5,\"links\":[]}", EIN_INVALID, "\"switches\"");
    refuse(LINKS("{\"from\":0,\"to\":3,\"bandwidth\":1,\"latency\":0,\"peer\":true}"), EIN_INVALID, "0 to 3");
    refuse(LINKS("{\"from\":1,\"to\":1,\"bandwidth\":1,\"latency\":0,\"peer\":true}"), EIN_INVALID, "1 to 1");
    refuse(LINKS("{\"from\":0,\"to\":1,\"bandwidth\":-1,\"latency\":0,\"peer\":true}"), EIN_INVALID,
           "bandwidth is -1");
    refuse(LINKS("{\"from\":0,\"to\":1,\"bandwidth\":1,\"latency\":-2,\"peer\":true}"), EIN_INVALID,
           "latency is -2");
    refuse(LINKS("{\"from\":0,\"to\":1,\"bandwidth\":1,\"latency\":0,\"peer\":1}"), EIN_INVALID, "\"peer\"");
    refuse(LINKS("{\"from\":0,\"to\":1,\"bandwidth\":1e999,\"latency\":0,\"peer\":true}"), EIN_INVALID,
           "overflow");
#define ONE "{\"from\":0,\"to\":1,\"bandwidth\":1,\"latency\":0,\"peer\":true}"
    refuse(LINKS(ONE "," ONE), EIN_INVALID, "both go from 0 to 1");
}

static void test_too_many_devices(void **state)
{
    (void)state;
    text json = {0};
    ein__text_add(&json, HEAD "\"devices\":[");
    for (int i = 0; i < 17; i++) ein__text_add(&json, "%s%s", i > 0 ? "," : "", DEVICE);
    ein__text_add(&json, "]," TAIL);
    refuse(json.bytes, EIN_INVALID, "17 devices");
    ein__text_free(&json);
}

static void test_bad_values(void **state)
{
    (void)state;
    static const char *const members[] = {"flops_f32", "memory_bytes"};
    for (int i = 0; i < 2; i++) {
        arena a = {0};
        machine m = parse(&a, "dgx-a100");
        error e = {0};
        double bad = i == 0 ? -1 : (double)1e308 * 1e308;
        if (i == 0) m.devices[2].flops_f32 = bad;
        if (i == 1) m.devices[2].memory_bytes = bad;
        assert_int_equal(ein__machine_check(&m, &e), EIN_INVALID);
        assert_non_null(strstr(e.line, "devices[2]"));
        assert_non_null(strstr(e.line, members[i]));
        ein__arena_free(&a);
    }
}

static void test_file(void **state)
{
    (void)state;
    char path[] = "/tmp/ein-machine-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    arena a = {0};
    text json = {0};
    machine m = parse(&a, "bridge-pairs");
    assert_int_equal(ein__machine_print(&m, &json), EIN_OK);
    assert_int_equal(write(fd, json.bytes, json.n), (long)json.n);
    machine back = parse(&a, path);
    assert_string_equal(back.name, "bridge-pairs");
    assert_int_equal(back.n_links, m.n_links);
    assert_int_equal(ftruncate(fd, (off_t)json.n / 2), 0);
    refuse(path, EIN_INVALID, path);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
    refuse(path, EIN_IO, "no such file");
    ein__text_free(&json);
    ein__arena_free(&a);
}

/* Every allocation of a parse and a print fails once: a status, and nothing left over. */
static void test_no_memory(void **state)
{
    (void)state;
    long live = ein__alloc_live();
    for (int i = 0; i < N_PRESETS; i++) {
        ein_status status = EIN_NO_MEMORY;
        for (long n = 1; status == EIN_NO_MEMORY; n++) {
            arena a = {0};
            machine m, back;
            text json = {0};
            ein__alloc_fail_at(n);
            status = ein__machine_parse(&a, PRESETS[i], &m, NULL);
            if (status == EIN_OK) status = ein__machine_print(&m, &json);
            if (status == EIN_OK) status = ein__machine_parse(&a, json.bytes, &back, NULL);
            ein__alloc_fail_at(0);
            ein__text_free(&json);
            ein__arena_free(&a);
            assert_int_equal(ein__alloc_live(), live);
            assert_true(n < 1000);
        }
        assert_int_equal(status, EIN_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_print_reads_back),   cmocka_unit_test(test_keys_differ),
        cmocka_unit_test(test_bandwidth),          cmocka_unit_test(test_golden_numbers),
        cmocka_unit_test(test_subset_keeps_order), cmocka_unit_test(test_bad_names),
        cmocka_unit_test(test_bad_json),           cmocka_unit_test(test_too_many_devices),
        cmocka_unit_test(test_bad_values),         cmocka_unit_test(test_file),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
