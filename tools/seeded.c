/* SPDX-License-Identifier: Apache-2.0 */
/* Counter-based: splitmix64 (Steele, Lea, Flood 2014) of stream + index; pairs through Box and Muller. */
#include "tools/seeded.h"

#include <math.h>
#include <string.h>

#include "core/base/hash.h"
#include "tools/parallel.h"

typedef struct stream {
    uint64_t key;
    float mean, deviation;
    int64_t n;
    float *out;
} stream;

static uint64_t mix(uint64_t key, uint64_t index)
{
    uint64_t z = key + (index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t key_of(const char *name) { return ein__hash(name, strlen(name), SEED).low; }

static void normal_pairs(void *user, int64_t lo, int64_t hi)
{
    const stream *s = user;
    for (int64_t i = lo; i < hi; i++) {
        uint64_t bits = mix(s->key, (uint64_t)i);
        float u = (float)((bits >> 40) + 1) * 0x1p-24f; /* (0, 1] */
        float angle = (float)(bits & 0xffffff) * (6.2831853f * 0x1p-24f);
        float radius = s->deviation * sqrtf(-2.0f * logf(u));
        s->out[2 * i] = s->mean + radius * cosf(angle);
        if (2 * i + 1 < s->n) s->out[2 * i + 1] = s->mean + radius * sinf(angle);
    }
}

void seeded_normal(const char *name, float mean, float deviation, int64_t n, float *out)
{
    stream s = {key_of(name), mean, deviation, n, out};
    parallel_ranges((n + 1) / 2, normal_pairs, &s);
}

void seeded_integers(const char *name, int32_t below, int64_t n, int32_t *out)
{
    uint64_t key = key_of(name);
    for (int64_t i = 0; i < n; i++) out[i] = (int32_t)(mix(key, (uint64_t)i) % (uint64_t)below);
}
