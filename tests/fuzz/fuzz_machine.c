/* SPDX-License-Identifier: Apache-2.0 */
/* A machine file. What is accepted, printed and read again is the same machine. */
#include "core/plan/machine.h"
#include "tests/fuzz/fuzz.h"

static void check_machine(const machine *m, arena *a)
{
    text first = {0}, second = {0}, json = {0};
    machine again;
    error e = {0};
    PROMISE(ein__machine_print(m, &json) == EIN_OK);
    if (ein__machine_parse(a, ein__text_get(&json), &again, &e) != EIN_OK) fprintf(stderr, "%s\n%s\n", json.bytes, e.line);
    PROMISE(e.line[0] == 0);
    ein__machine_key(m, &first);
    ein__machine_key(&again, &second);
    PROMISE(first.n == second.n && memcmp(first.bytes, second.bytes, first.n) == 0);
    for (int i = 0; i < m->n_devices; i++) PROMISE(ein__machine_bandwidth(m, 0, i) >= 0);
    ein__text_free(&first);
    ein__text_free(&second);
    ein__text_free(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    arena a = {NULL};
    error e = {0};
    machine m;
    if (n == 0 || bytes[0] != '{') return 0; /* a name or a path */
    char *source = calloc(n + 1, 1);
    if (source == NULL) abort();
    memcpy(source, bytes, n);
    ein_status s = ein__machine_parse(&a, source, &m, &e);
    PROMISE(s == EIN_OK || s == EIN_INVALID);
    if (s == EIN_OK) check_machine(&m, &a);
    else promise_line(e.line);
    ein__arena_free(&a);
    free(source);
    return 0;
}
