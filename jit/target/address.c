/* SPDX-License-Identifier: Apache-2.0 */
#include "jit/target/address.h"

#include <string.h>

static const void *base_of(const places *p, const int *iteration, const place *at)
{
    switch (at->space) {
    case SPACE_BUFFER: {
        const buffer *b = &p->program->buffers[at->index];
        int which = b->loop >= 0 ? (iteration[b->loop] + b->phase) % 2 : 0;
        return (b->host ? p->staging : p->buffers)[b->device] + b->offset[which];
    }
    case SPACE_LEAF: {
        const leaf_pieces *l = &p->leaves[at->index];
        int loop = p->program->leaf_loop[at->index], member = loop >= 0 ? iteration[loop] : 0;
        return l->address[(member * l->n_blocks + at->block) * p->program->n_devices + at->device];
    }
    case SPACE_INPUT: return p->inputs[at->index]; /* only read: a step never writes one */
    case SPACE_OUTPUT: return p->outputs[at->index];
    default: return p->table + at->index;
    }
}

i64 ein__place_address(const places *p, const int *iteration, const place *at)
{
    return (i64)(uintptr_t)base_of(p, iteration, at);
}

i64 ein__arg_address(const places *p, const int *iteration, const arg *a)
{
    i64 shift = a->scalar >= 0 ? p->scalars[a->scalar] * a->scalar_bytes : 0;
    return ein__place_address(p, iteration, &a->place) + a->value + shift;
}

i64 ein__arg_value(const places *p, const int *iteration, const arg *a)
{
    if (a->kind == ARG_POINTER) return ein__arg_address(p, iteration, a);
    if (a->kind == ARG_SCALAR) return p->scalars[a->scalar] + a->value;
    if (a->kind == ARG_I64) return a->value;
    float f = (float)a->f32;
    i64 word = 0;
    memcpy(&word, &f, sizeof f);
    return word;
}
