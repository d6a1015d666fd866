/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tests: a folder, and safetensors files from a header in words. */
#ifndef TESTS_CORE_WEIGHTS_FIXTURE_H
#define TESTS_CORE_WEIGHTS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/file.h"
#include "core/weights/checkpoint.h"

static char root[64];

static int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/ein-test-weights-XXXXXX");
    return mkdtemp(root) == NULL;
}

static int remove_root(void **state)
{
    char command[96];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

/* "root/name"; a few live at once. */
static const char *in_root(const char *name)
{
    static char paths[4][256];
    static int next;
    char *p = paths[next++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", root, name);
    return p;
}

/* Length, header, and n bytes of data 0, 1, 2, ...: exactly so much memory, so that a sanitizer sees its end. */
static inline char *image(const char *header, size_t n_data, size_t *n)
{
    size_t n_header = strlen(header);
    *n = 8 + n_header + n_data;
    char *bytes = calloc(*n, 1);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++) bytes[i] = (char)(n_header >> (8 * i));
    memcpy(bytes + 8, header, n_header);
    for (size_t i = 0; i < n_data; i++) bytes[8 + n_header + i] = (char)i;
    return bytes;
}

static inline void put(const char *name, const void *bytes, size_t n)
{
    assert_int_equal(ein__file_publish(in_root(name), bytes, n, 0600, NULL), EIN_OK);
}

static inline void put_text(const char *name, const char *text) { put(name, text, strlen(text)); }

static inline void put_image(const char *name, const char *header, size_t n_data)
{
    size_t n;
    char *bytes = image(header, n_data, &n);
    put(name, bytes, n);
    free(bytes);
}

#endif
