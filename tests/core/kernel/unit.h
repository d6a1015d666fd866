/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies compiled for the host and loaded, for the tests of the dialect. After cmocka. */
#ifndef TESTS_CORE_KERNEL_UNIT_H
#define TESTS_CORE_KERNEL_UNIT_H

#include "core/base/alloc.h"
#include "core/base/file.h"
#include "jit/compiler/compiler.h"
#include "tests/core/kernel/bodies.h"

typedef struct unit { arena a; host_module *module; host_entry entry[N_BODIES]; } unit;

/* All given bodies as one unit. */
static inline void build(unit *u, const char *const *texts, const int *threads, int n, bool counting)
{
    kernel_text k[N_BODIES];
    const kernel_text *list[N_BODIES];
    text source = {0}, object = {0};
    error e = {0};
    memset(u, 0, sizeof *u);
    for (int i = 0; i < n; i++) {
        assert_int_equal(ein__kernel_make(&u->a, texts[i], threads[i], &k[i]), EIN_OK);
        list[i] = &k[i];
    }
    assert_int_equal(ein__kernel_source(READ_HOST, counting, list, n, &source), EIN_OK);
    if (ein__host_compile(source.bytes, &object, &e) != EIN_OK) fail_msg("%s\n%s", e.line, e.detail);
    if (ein__host_load(object.bytes, object.n, &u->module, &e) != EIN_OK) fail_msg("%s", e.line);
    for (int i = 0; i < n; i++) {
        u->entry[i] = ein__host_entry(u->module, k[i].name);
        assert_non_null(u->entry[i]);
    }
    ein__text_free(&source);
    ein__text_free(&object);
    ein__error_reset(&e);
}

static inline void build_one(unit *u, const char *body, int threads, bool counting)
{
    build(u, &body, &threads, 1, counting);
}

static inline void drop(unit *u)
{
    ein__host_unload(u->module);
    ein__arena_free(&u->a);
}

static inline void *get(size_t n, size_t size)
{
    void *p = ein__calloc(n, size);
    assert_non_null(p);
    return p;
}

/* A small generator: the same numbers everywhere. */
static inline uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}


/* A compiler that is the system's with more options: a script for EIN_CC. */
static inline void use_compiler(const char *line, char path[64])
{
    text script = {0};
    snprintf(path, 64, "/tmp/ein-test-cc-%ld", (long)getpid());
    ein__text_add(&script, "#!/bin/sh\n%s\n", line);
    assert_int_equal(ein__file_publish(path, script.bytes, script.n, 0700, NULL), EIN_OK);
    setenv("EIN_CC", path, 1);
    ein__text_free(&script);
}

#endif
