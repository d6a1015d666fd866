/* SPDX-License-Identifier: Apache-2.0 */
/* Mixture of experts with static capacity: tokens are sent to their experts, and what these made of them is brought
 * back, by two products with the tables of ein_moe_routing. The weights of all experts are one tensor. */
#include <math.h>

#include "tools/models/llama.h"

int64_t moe_capacity(const llama *m, int64_t tokens)
{
    int64_t n = (int64_t)ceil(m->slots * (double)(tokens * m->chosen) / (double)m->experts);
    return n < tokens ? n : tokens;
}

static ein_tensor einsum(block *b, const char *equation, ein_tensor x, ein_tensor y)
{
    return ein_einsum(b->g, equation, 2, (const ein_tensor[]){x, y});
}

static ein_tensor weights(block *b, const llama *m, const char *name, int64_t out, int64_t in)
{
    return block_parameter(b, name, 3, SHAPE(m->experts, out, in));
}

ein_tensor moe_feed_forward(block *b, const sizes *s, const llama *m, ein_tensor x)
{
    int64_t tokens = b->use->batch * b->seq;
    ein_tensor route[2];
    x = ein_reshape(b->g, x, 2, SHAPE(tokens, s->hidden));
    ein_tensor scores = block_linear(b, x, "block_sparse_moe.gate", m->experts, s->hidden, 0);
    ein_moe_routing(b->g, scores, (int)m->chosen, moe_capacity(m, tokens), 1, route);
    ein_tensor h = einsum(b, "tec,td->ecd", route[0], x);
    ein_tensor gate = einsum(b, "ecd,efd->ecf", h, weights(b, m, "block_sparse_moe.w1", s->ffn, s->hidden));
    ein_tensor up = einsum(b, "ecd,efd->ecf", h, weights(b, m, "block_sparse_moe.w3", s->ffn, s->hidden));
    h = block_gate(b, gate, up, m->activation);
    h = einsum(b, "ecf,edf->ecd", h, weights(b, m, "block_sparse_moe.w2", s->hidden, s->ffn));
    x = einsum(b, "tec,ecd->td", route[1], h);
    return ein_reshape(b->g, x, 3, SHAPE(b->use->batch, b->seq, s->hidden));
}
