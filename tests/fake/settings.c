/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: words "name=value". A wrong one ends the process: a test with other settings than it says is worth
 * nothing. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake/fake.h"

static void wrong(const char *word)
{
    fprintf(stderr, "fake: what is \"%s\"?\n", word);
    exit(2);
}

static long long number(const char *text, const char *word)
{
    char *end;
    long long x = strtoll(text, &end, 10);
    if (end == text) wrong(word);
    if (*end == 'k') x <<= 10;
    if (*end == 'm') x <<= 20;
    if (*end == 'g') x <<= 30;
    if (strchr("kmg", *end) != NULL && *end != 0) end++;
    if (*end != 0) wrong(word);
    return x;
}

/* "80,90": as many as there are; the last one stands for the rest. */
static int list(char *text, const char *word, long long *out, int most)
{
    int n = 0;
    for (char *save, *p = strtok_r(text, ",", &save); p != NULL && n < most; p = strtok_r(NULL, ",", &save))
        out[n++] = number(p, word);
    if (n == 0) wrong(word);
    return n;
}

static void all_peers(settings *s, peer_kind kind, bool upward_only)
{
    for (int i = 0; i < MAX_DEVICES; i++)
        for (int j = 0; j < MAX_DEVICES; j++)
            s->peer[i][j] = (unsigned char)(i == j || (upward_only && i > j) ? PEER_ABSENT : kind);
}

/* "all", "none", "one-way", "lose-writes", "read-stale", or pairs: "0>1,1>0w,2>0r". */
static void peers(settings *s, char *text, const char *word)
{
    static const struct {
        const char *name;
        peer_kind kind;
        bool upward;
    } kinds[] = {{"all", PEER_RIGHT, false},
                 {"none", PEER_ABSENT, false},
                 {"one-way", PEER_RIGHT, true},
                 {"lose-writes", PEER_LOSES_WRITES, false},
                 {"read-stale", PEER_READS_STALE, false}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(text, kinds[i].name) == 0) {
            all_peers(s, kinds[i].kind, kinds[i].upward);
            return;
        }
    all_peers(s, PEER_ABSENT, false);
    for (char *save, *p = strtok_r(text, ",", &save); p != NULL; p = strtok_r(NULL, ",", &save)) {
        int i, j, used;
        if (sscanf(p, "%d>%d%n", &i, &j, &used) < 2 || i < 0 || j < 0 || i >= MAX_DEVICES || j >= MAX_DEVICES)
            wrong(word);
        s->peer[i][j] = p[used] == 'w' ? PEER_LOSES_WRITES : p[used] == 'r' ? PEER_READS_STALE : PEER_RIGHT;
    }
}

static void per_device(char *value, const char *word, long long out[MAX_DEVICES])
{
    int n = list(value, word, out, MAX_DEVICES);
    for (int i = n; i < MAX_DEVICES; i++) out[i] = out[n - 1];
}

static void set(settings *s, const char *word, const char *name, char *value)
{
    long long x[MAX_DEVICES * 2];
    if (strcmp(name, "devices") == 0)
        s->devices = (int)number(value, word);
    else if (strcmp(name, "seed") == 0)
        s->seed = (unsigned long long)number(value, word);
    else if (strcmp(name, "check") == 0)
        s->check = number(value, word) != 0;
    else if (strcmp(name, "fibers") == 0)
        s->fibers = number(value, word) != 0;
    else if (strcmp(name, "driver") == 0)
        s->driver = (int)number(value, word);
    else if (strcmp(name, "granularity") == 0)
        s->granularity = number(value, word);
    else if (strcmp(name, "limit") == 0)
        s->peer_limit = (int)number(value, word);
    else if (strcmp(name, "wrong") == 0)
        s->wrong_algorithm = (int)number(value, word);
    else if (strcmp(name, "memory") == 0)
        per_device(value, word, s->memory);
    else if (strcmp(name, "peers") == 0)
        peers(s, value, word);
    else if (strcmp(name, "arch") == 0) {
        per_device(value, word, x);
        for (int i = 0; i < MAX_DEVICES; i++) s->architecture[i] = (int)x[i];
    } else if (strcmp(name, "known") == 0) {
        s->n_known = list(value, word, x, MAX_DEVICES * 2);
        for (int i = 0; i < s->n_known; i++) s->known[i] = (int)x[i];
    } else if (strcmp(name, "nvrtc") == 0) {
        if (sscanf(value, "%d.%d", &s->nvrtc_major, &s->nvrtc_minor) != 2) wrong(word);
    } else if (strcmp(name, "slow") == 0) {
        if (sscanf(value, "%47[^:]:%d", s->slow, &s->slow_ms) != 2) wrong(word);
    } else {
        wrong(word);
    }
}

void fake_settings_parse(settings *s, const char *text)
{
    static const int known[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
    memset(s, 0, sizeof *s);
    s->devices = 2;
    s->driver = 13000;
    s->nvrtc_major = 13;
    s->granularity = 2 << 20;
    s->peer_limit = MAX_DEVICES;
    s->seed = 1;
    s->n_known = (int)(sizeof known / sizeof *known);
    memcpy(s->known, known, sizeof known);
    for (int i = 0; i < MAX_DEVICES; i++) {
        s->architecture[i] = 90;
        s->memory[i] = 4ll << 30;
    }
    all_peers(s, PEER_RIGHT, false);
    char copy[1024];
    if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy) wrong(text);
    for (char *save, *word = strtok_r(copy, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
        char name[64], *equal = strchr(word, '=');
        if (equal == NULL || equal - word >= (int)sizeof name) wrong(word);
        snprintf(name, sizeof name, "%.*s", (int)(equal - word), word);
        set(s, word, name, equal + 1);
    }
    if (s->devices < 0 || s->devices > MAX_DEVICES) wrong(text);
    if (s->granularity < 4096 || (s->granularity & (s->granularity - 1)) != 0) wrong(text);
}
