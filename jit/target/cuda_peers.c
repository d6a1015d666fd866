/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPUs read each other's memory. What the driver claims is tried with data, both ways: behind some bridges and
 * IOMMUs accesses of peers vanish or arrive elsewhere, and no call says so. A pair that fails is treated as one without
 * access. What was found is kept in the cache, under the driver and the devices. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/file.h"
#include "jit/target/cuda.h"

enum { WORDS = 1 << 14, BYTES = WORDS * 4 };

typedef struct trial_pair {
    cuda_target *t;
    int reader, owner;        /* GPUs */
    CUstream stream[2];       /* of the reader, of the owner */
    CUdeviceptr memory[2];
    uint32_t *sent, *got;
} trial_pair;

/* No two places, pairs or ways have the same words. */
static void fill(uint32_t *words, int salt)
{
    for (int i = 0; i < WORDS; i++) words[i] = (uint32_t)(i + 1) * 2654435761u + (uint32_t)salt * 40503u;
}

static CUresult on(trial_pair *p, int side, CUresult (*act)(trial_pair *p, int side))
{
    CUresult code = p->t->cu.cuCtxPushCurrent_v2(p->t->gpus[side == 0 ? p->reader : p->owner].context);
    if (code != CUDA_SUCCESS) return code;
    code = act(p, side);
    if (code == CUDA_SUCCESS) code = p->t->cu.cuStreamSynchronize(p->stream[side]);
    ein__cuda_leave(p->t);
    return code;
}

static CUresult put(trial_pair *p, int side)
{
    return p->t->cu.cuMemcpyHtoDAsync_v2(p->memory[side], p->sent, BYTES, p->stream[side]);
}

static CUresult wipe(trial_pair *p, int side)
{
    return p->t->cu.cuMemsetD8Async(p->memory[side], 0, BYTES, p->stream[side]);
}

static CUresult pull(trial_pair *p, int side)
{
    return p->t->cu.cuMemcpyDtoDAsync_v2(p->memory[side], p->memory[1 - side], BYTES, p->stream[side]);
}

static CUresult push(trial_pair *p, int side)
{
    return p->t->cu.cuMemcpyDtoDAsync_v2(p->memory[1 - side], p->memory[side], BYTES, p->stream[side]);
}

static CUresult get(trial_pair *p, int side)
{
    memset(p->got, 0, BYTES);
    return p->t->cu.cuMemcpyDtoHAsync_v2(p->got, p->memory[side], BYTES, p->stream[side]);
}

/* The reader reads what the owner has, and what it writes there is seen there. */
static CUresult try_pair(trial_pair *p, bool *right)
{
    CUresult code;
    *right = true;
    for (int way = 0; way < 2; way++) {
        int from = way == 0 ? 1 : 0;
        fill(p->sent, 64 * p->reader + 4 * p->owner + way);
        if ((code = on(p, from, put)) != CUDA_SUCCESS || (code = on(p, 1 - from, wipe)) != CUDA_SUCCESS ||
            (code = on(p, 0, way == 0 ? pull : push)) != CUDA_SUCCESS || (code = on(p, 1 - from, get)) != CUDA_SUCCESS)
            return code;
        *right = *right && memcmp(p->sent, p->got, BYTES) == 0;
    }
    return CUDA_SUCCESS;
}

static int device_on(const cuda_target *t, int gpu)
{
    int d = 0;
    while (t->devices[d].gpu != gpu) d++; /* every GPU has a device */
    return d;
}

static ein_status try_pairs(cuda_target *t, cuda_chunk *const *memory, uint32_t *words, error *e)
{
    for (int reader = 0; reader < t->n_gpus; reader++)
        for (int owner = 0; owner < t->n_gpus; owner++) {
            if (reader == owner || !t->reach[reader][owner]) continue;
            trial_pair p = {t, reader, owner, {t->devices[device_on(t, reader)].steps, t->devices[device_on(t, owner)].steps},
                            {memory[reader]->at, memory[owner]->at}, words, words + WORDS};
            bool right = false;
            CUresult code = try_pair(&p, &right);
            if (code != CUDA_SUCCESS) ein__cuda_failed(t, code, "reading another GPU", device_on(t, reader), e);
            TRY(ein__cuda_alive(t, e));
            t->reach[reader][owner] = code == CUDA_SUCCESS && right;
        }
    return EIN_OK;
}

static ein_status try_all(cuda_target *t, error *e)
{
    cuda_chunk *memory[MAX_DEVICES] = {NULL};
    uint32_t *words = ein__calloc(2 * WORDS, sizeof *words);
    ein_status s = words != NULL ? EIN_OK : EIN_NO_MEMORY;
    for (int g = 0; g < t->n_gpus && s == EIN_OK; g++)
        s = ein__cuda_chunk(t, device_on(t, g), BYTES, &memory[g], e);
    if (s == EIN_OK) s = try_pairs(t, memory, words, e);
    for (int g = 0; g < t->n_gpus; g++)
        if (memory[g] != NULL) ein__cuda_chunk_free(t, device_on(t, g), memory[g]);
    ein__free(words);
    return s;
}

/* ---- claims, and what is known ------------------------------------------------------------------------ */

/* Mapped memory names who may reach it; of other memory a context says whose it will. */
static bool claims(cuda_target *t, int reader, int owner)
{
    int can = 0;
    if (t->cu.cuDeviceCanAccessPeer(&can, t->gpus[reader].device, t->gpus[owner].device) != CUDA_SUCCESS || can == 0) return false;
    if (t->mapped) return true;
    if (ein__cuda_enter(t, reader, NULL) != EIN_OK) return false;
    CUresult code = t->cu.cuCtxEnablePeerAccess(t->gpus[owner].context, 0);
    ein__cuda_leave(t);
    return code == CUDA_SUCCESS || code == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

/* The driver's number is that of the CUDA it supports; which build of it this is, its kernel module says. */
static void peers_key(const cuda_target *t, text *key)
{
    text build = {0};
    ein__key_bytes(key, 1, "peers", 5);
    ein__key_int(key, 2, t->cu.version);
    if (ein__file_read("/proc/driver/nvidia/version", 4096, true, &build, NULL) == EIN_OK)
        ein__key_bytes(key, 2, ein__text_get(&build), build.n);
    ein__text_free(&build);
    for (int g = 0; g < t->n_gpus; g++) {
        ein__key_bytes(key, 3, t->gpus[g].uuid.bytes, sizeof t->gpus[g].uuid.bytes);
        for (int o = 0; o < t->n_gpus; o++) ein__key_int(key, 4, t->reach[g][o]);
    }
}

/* Bytes of 0 and 1, a row per reader. */
static bool recall(cuda_target *t, const text *key)
{
    arena scratch = {NULL};
    const section *sections;
    int n;
    bool known = false;
    if (ein__cache_get(t->cache, &scratch, key, &sections, &n))
        for (int i = 0; i < n; i++) {
            if (sections[i].kind != SECTION_PLAN || sections[i].n != (size_t)(t->n_gpus * t->n_gpus)) continue;
            for (int k = 0; k < t->n_gpus * t->n_gpus; k++)
                if (((const char *)sections[i].bytes)[k] == '0') t->reach[k / t->n_gpus][k % t->n_gpus] = false;
            known = true;
        }
    ein__arena_free(&scratch);
    return known;
}

static void remember(cuda_target *t, const text *key)
{
    char found[MAX_DEVICES * MAX_DEVICES];
    static const char info[] = "which GPUs read each other's memory";
    for (int k = 0; k < t->n_gpus * t->n_gpus; k++) found[k] = t->reach[k / t->n_gpus][k % t->n_gpus] ? '1' : '0';
    const section sections[] = {{SECTION_PLAN, found, (size_t)(t->n_gpus * t->n_gpus)}, {SECTION_INFO, info, sizeof info - 1}};
    ein__cache_put(t->cache, key, sections, 2);
}

ein_status ein__cuda_peers(cuda_target *t, error *e)
{
    bool any = false;
    text key = {0};
    for (int r = 0; r < t->n_gpus; r++)
        for (int o = 0; o < t->n_gpus; o++) {
            t->reach[r][o] = r == o || claims(t, r, o);
            any = any || (r != o && t->reach[r][o]);
        }
    if (!any) return EIN_OK;
    peers_key(t, &key);
    ein_status s = EIN_OK;
    bool caching = t->cache != NULL && ein__text_status(&key) == EIN_OK;
    if (!caching || !recall(t, &key)) {
        s = try_all(t, e);
        if (s == EIN_OK && caching) remember(t, &key);
    }
    ein__text_free(&key);
    return s;
}
