/* SPDX-License-Identifier: Apache-2.0 */
/* Interning. Equality is equality of 128-bit hashes over all that matters. */
#include "optimizer/pool.h"

#include <string.h>

static struct idmap_slot *find_slot(const idmap *m, hash128 key)
{
    size_t mask = (size_t)m->room - 1, i = (size_t)key.low & mask;
    while (m->slots[i].full && !ein__hash_equal(m->slots[i].key, key)) i = (i + 1) & mask;
    return &m->slots[i];
}

static ein_status grow(arena *a, idmap *m)
{
    idmap bigger = {.n = m->n, .room = m->room != 0 ? m->room * 2 : 1024};
    NEW(a, bigger.slots, bigger.room);
    for (int i = 0; i < m->room; i++)
        if (m->slots[i].full) *find_slot(&bigger, m->slots[i].key) = m->slots[i];
    *m = bigger;
    return EIN_OK;
}

ein_status ein__idmap_at(arena *a, idmap *m, hash128 key, int **value)
{
    if (2 * (m->n + 1) > m->room) TRY(grow(a, m));
    struct idmap_slot *s = find_slot(m, key);
    if (!s->full) {
        *s = (struct idmap_slot){key, -1, true};
        m->n++;
    }
    *value = &s->value;
    return EIN_OK;
}

static ein_status key_at(pool *p, uint64_t seed, int **id)
{
    TRY(ein__text_status(&p->key));
    return ein__idmap_at(p->a, &p->ids, ein__hash(p->key.bytes, p->key.n, seed), id);
}

static ein_status shape_of(pool *p, const relation *r, hash128 *out)
{
    relation nowhere = *r;
    nowhere.n_blocks = 0;
    p->key.n = 0;
    ein__relation_key(&nowhere, &p->key);
    TRY(ein__text_status(&p->key));
    *out = ein__hash(p->key.bytes, p->key.n, 4);
    return EIN_OK;
}

ein_status ein__pool_relation(pool *p, const relation *r, int *id)
{
    int *at;
    p->key.n = 0;
    ein__relation_key(r, &p->key);
    TRY(key_at(p, 1, &at));
    if (*at < 0) {
        relation *copy;
        NEW(p->a, copy, 1);
        TRY(ein__relation_copy(p->a, r, copy));
        struct pool_known k = {.finished = -1};
        TRY(shape_of(p, r, &k.shape));
        for (int i = 0; i < r->n_blocks * r->n_partials; i++) k.devices |= r->devices[i];
        PUSH(p->a, &p->known, k);
        *at = p->relations.n;
        PUSH(p->a, &p->relations, copy);
    }
    *id = *at;
    return EIN_OK;
}

ein_status ein__pool_placed(pool *p, const placed *x, int *id)
{
    int *at;
    hash128 merge_key = {0, 0};
    p->key.n = 0;
    if (x->merge != NULL) {
        ein__merge_key(x->merge, &p->key);
        merge_key = ein__hash(p->key.bytes, p->key.n, 5);
    }
    ein__key_int(&p->key, 'r', x->result);
    ein__key_int(&p->key, 'u', x->used);
    for (int i = 0; i < x->n_states; i++) ein__key_int(&p->key, 's', x->states[i]);
    TRY(key_at(p, 2, &at));
    if (*at < 0) {
        *at = p->placed.n;
        PUSH(p->a, &p->placed, *x);
        p->placed.items[*at].merge_key = merge_key;
    }
    *id = *at;
    return EIN_OK;
}

ein_status ein__pool_known_finished(pool *p, int relation_id, int *id)
{
    int *known = &p->known.items[relation_id].finished;
    if (*known < 0) {
        const relation *r = p->relations.items[relation_id];
        placed x = {.n_states = 1, .used = 1, .states = {relation_id}};
        x.complete = ein__relation_check(r, ein__relation_numel(r), HOST + 1, NULL) == EIN_OK;
        TRY(ein__pool_placed(p, &x, known));
    }
    *id = *known;
    return EIN_OK;
}

ein_status ein__pool_finished(pool *p, const relation *r, int *id)
{
    int relation_id;
    TRY(ein__pool_relation(p, r, &relation_id));
    return ein__pool_known_finished(p, relation_id, id);
}

ein_status ein__pool_list(pool *p, int before, int last, int *id)
{
    int *at, key[2] = {before, last};
    TRY(ein__idmap_at(p->a, &p->ids, ein__hash(key, sizeof key, 3), &at));
    if (*at < 0) {
        placed_list x = {before, last, last};
        if (before >= 0) {
            int first = p->lists.items[before].source;
            if (p->placed.items[first].complete || !p->placed.items[last].complete) x.source = first;
        }
        *at = p->lists.n;
        PUSH(p->a, &p->lists, x);
    }
    *id = *at;
    return EIN_OK;
}

void ein__pool_free(pool *p) { ein__text_free(&p->key); }
