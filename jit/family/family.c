/* SPDX-License-Identifier: Apache-2.0 */
/* The table of families: the first that is applicable takes the job. */
#include "jit/family/parts.h"

static const family *const families[] = {
    &ein__family_product, &ein__family_map,  &ein__family_row,    &ein__family_attention,
    &ein__family_gather,  &ein__family_move, &ein__family_append, &ein__family_select,
    &ein__family_custom};

const family *ein__family_find(const job *j)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (families[i]->applicable(j)) return families[i];
    return NULL;
}

ein_status ein__family_emit(arena *a, const job *j, launch *out, error *e)
{
    const family *f = ein__family_find(j);
    *out = (launch){.kind = STEP_KERNEL};
    if (f == NULL)
        return ein__fail(e, EIN_INTERNAL, "%s: no kernel family does mode %d", j->node->name, j->mode);
    ein_status status = f->emit(a, j, out, e);
    if (status == EIN_NO_MEMORY) ein__fail(e, status, "%s: no memory for a kernel text", j->node->name);
    return status;
}
