/* SPDX-License-Identifier: Apache-2.0 */
/* Two-shot: partials that several devices need finished are split among these; each finishes its share, then
 * everybody copies the others'. Two steps for 2 (n - 1) / n of the bytes, where direct reads n - 1 times all. */
#include "exchange/schedule.h"

static ein_status plan(arena *a, const demand *d, const routes *r, schedule *out, int *n)
{
    double served[MAX_DEVICES] = {0};
    bool any = false;
    (void)r;
    out->room = SHALLOW;
    for (int c = 0; c < d->n_classes; c++) {
        bool split = d->classes[c].n_partials > 1 && (d->classes[c].to & (d->classes[c].to - 1)) != 0;
        any = any || split;
        TRY(split ? ein__finish_in_shares(a, d, c, d->classes[c].to, served, out) : ein__direct_class(a, d, c, served, out));
    }
    *n = any;
    return EIN_OK;
}

const family ein__family_two_shot = {"two-shot", true, plan};
