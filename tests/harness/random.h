/* SPDX-License-Identifier: Apache-2.0 */
/* A small generator of pseudo-random numbers (splitmix64, after Steele, Lea and Flood 2014): the same seed
 * gives the same numbers on every machine, and streams with different seeds have nothing to do with each
 * other. */
#ifndef TESTS_HARNESS_RANDOM_H
#define TESTS_HARNESS_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct dice {
    uint64_t at;
} dice;

static inline uint64_t dice_next(dice *d)
{
    uint64_t z = d->at += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* A stream of its own for part `part` of the thing that `seed` names. */
static inline dice dice_make(uint64_t seed, uint64_t part)
{
    dice d = {seed};
    d.at = dice_next(&d) + part * 0xd1342543de82ef95u;
    return d;
}

/* 0 .. n - 1 */
static inline int dice_below(dice *d, int n) { return (int)(dice_next(d) % (uint64_t)n); }
/* lo .. hi */
static inline int dice_range(dice *d, int lo, int hi) { return lo + dice_below(d, hi - lo + 1); }
/* True in `percent` of 100 cases. */
static inline bool dice_chance(dice *d, int percent) { return dice_below(d, 100) < percent; }
/* -1 .. 1 */
static inline double dice_real(dice *d) { return (double)(dice_next(d) >> 11) * 0x1p-52 - 1; }

#endif
