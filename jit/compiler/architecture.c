/* SPDX-License-Identifier: Apache-2.0 */
/* Machine code runs on its own compute capability and on later minor ones of the same major one; PTX on all later
 * ones. Both but for the integrated parts, which are numbered among the others and run their own code only. The names
 * are plain: features of one capability alone ("sm_90a") are in no kernel text. */
#include "jit/compiler/architecture.h"

#include <stdbool.h>
#include <stdio.h>

/* Xavier, Orin, Thor under its number before CUDA 13 and since. */
static bool integrated(int capability)
{
    return capability == 72 || capability == 87 || capability == 101 || capability == 110;
}

static bool knows(const int *known, int n, int capability)
{
    for (int i = 0; i < n; i++)
        if (known[i] == capability) return true;
    return false;
}

/* The greatest that a device of the given capability is as good as, from `least` on; 0: none. */
static int below(const int *known, int n, int device, int least)
{
    int best = 0;
    for (int i = 0; i < n; i++)
        if (!integrated(known[i]) && known[i] >= least && known[i] <= device && known[i] > best) best = known[i];
    return best;
}

static int greatest(const int *known, int n)
{
    int most = 0;
    for (int i = 0; i < n; i++)
        if (known[i] > most) most = known[i];
    return most;
}

ein_status ein__architecture_choose(const int *known, int n, int device, architecture *out, error *e)
{
    int thor = device == 110 ? 101 : device == 101 ? 110 : 0;
    int same = knows(known, n, device) ? device : thor != 0 && knows(known, n, thor) ? thor : 0;
    if (same == 0 && !integrated(device)) same = below(known, n, device, device / 10 * 10);
    if (same != 0) {
        snprintf(out->s, sizeof out->s, "sm_%d", same);
        return EIN_OK;
    }
    int virtual = integrated(device) ? 0 : below(known, n, device, 0);
    if (virtual != 0) {
        snprintf(out->s, sizeof out->s, "compute_%d", virtual);
        return EIN_OK;
    }
    return ein__fail(e, EIN_NO_DEVICE, "this NVRTC makes no code for a device of compute capability %d.%d; the newest it knows "
                                       "is %d.%d", device / 10, device % 10, greatest(known, n) / 10, greatest(known, n) % 10);
}
