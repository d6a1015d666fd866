/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/request.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"

enum { TOKENS_MOST = 64 << 20 };

static const char BETWEEN[] = ", \t\r\n";

ein_status request_read_tokens(arena *a, const char *where, const char *words, request *out, error *e)
{
    for (const char *s = words + strspn(words, BETWEEN); *s != 0; s += strspn(s, BETWEEN)) {
        char *end = NULL;
        long v = *s >= '0' && *s <= '9' ? strtol(s, &end, 10) : -1;
        if (v < 0 || v > INT32_MAX || (*end != 0 && strchr(BETWEEN, *end) == NULL)) {
            int length = (int)strcspn(s, BETWEEN);
            return ein__fail(e, EIN_INVALID, "%s: \"%.*s\" is no token; wanted integers", ein__excerpt_last(where, 80).s,
                             length < 40 ? length : 40, s);
        }
        PUSH(a, &out->tokens, (int32_t)v);
        s = end;
    }
    if (out->tokens.n > 0) return EIN_OK;
    return ein__fail(e, EIN_INVALID, "%s: no tokens", ein__excerpt_last(where, 80).s);
}

static ein_status read_tokens_file(arena *a, const char *path, request *out, error *e)
{
    text t = {0};
    ein_status status = ein__file_read(path, TOKENS_MOST, true, &t, e);
    if (status == EIN_OK) status = request_read_tokens(a, path, ein__text_get(&t), out, e);
    ein__text_free(&t);
    return status;
}

ein_status request_read(arena *a, const args *from, request *out, error *e)
{
    *out = (request){.generate = from->generate,
                     .input = from->input,
                     .output = from->output,
                     .stop_at_end = from->stop_at_eos};
    if (from->dtype != NULL && (out->dtype = model_dtype(from->dtype, strlen(from->dtype))) == 0)
        return ein__fail(e, EIN_INVALID, "--dtype %s: known are f32, bf16, f16, f64", ein__excerpt_first(from->dtype, 40).s);
    if (from->stop_at_eos && from->generate == 0)
        return ein__fail(e, EIN_INVALID, "--stop-at-eos needs --generate");
    if (from->tokens != NULL && from->tokens_file != NULL)
        return ein__fail(e, EIN_INVALID, "--tokens and --tokens-file: give one of them");
    if (from->tokens != NULL) return request_read_tokens(a, "--tokens", from->tokens, out, e);
    return from->tokens_file != NULL ? read_tokens_file(a, from->tokens_file, out, e) : EIN_OK;
}

static ein_status refuse(const model *m, const char *option, const char *why, error *e)
{
    return ein__fail(e, EIN_INVALID, "%s: a model of the family %s %s", option, m->family->name, why);
}

static ein_status check_tokens(const request *r, const model *m, error *e)
{
    if (!m->family->reads_ids) return refuse(m, "--tokens", "reads no tokens", e);
    if (m->use.batch != 1 || m->use.cached != 0)
        return ein__fail(e, EIN_INVALID, "--tokens: one prompt from its start; not with batch=%lld, cached=%lld",
                         (long long)m->use.batch, (long long)m->use.cached);
    for (int i = 0; i < r->tokens.n; i++) {
        if (r->tokens.items[i] < m->sizes.vocabulary) continue;
        return ein__fail(e, EIN_INVALID, "token %ld, number %d of the prompt, is not in the vocabulary of %lld",
                         (long)r->tokens.items[i], i + 1, (long long)m->sizes.vocabulary);
    }
    return EIN_OK;
}

static ein_status check_generate(const request *r, const model *m, error *e)
{
    const model_use *u = &m->use;
    if (!m->family->generates) return refuse(m, "--generate", "predicts no tokens", e);
    if (u->batch != 1 || u->cached != 0)
        return ein__fail(e, EIN_INVALID, "--generate: one prompt from its start; not with batch=%lld, cached=%lld",
                         (long long)u->batch, (long long)u->cached);
    if (r->stop_at_end && m->n_ends == 0)
        return ein__fail(e, EIN_INVALID, "--stop-at-eos: the model's files have no eos_token_id");
    if (m->sizes.positions == 0 || u->seq + r->generate <= m->sizes.positions) return EIN_OK;
    return ein__fail(e, EIN_INVALID, "--generate %lld after %lld tokens exceeds max_position_embeddings, %lld",
                     (long long)r->generate, (long long)u->seq, (long long)m->sizes.positions);
}

ein_status request_apply(const request *r, model *m, error *e)
{
    model_use *u = &m->use;
    if (r->dtype != 0) u->dtype = r->dtype;
    if (r->input != NULL && m->family != &family_vit && m->family != &family_graph)
        return refuse(m, "--input", "reads no pixel_values", e);
    if (r->dtype != 0 && m->family == &family_graph) return refuse(m, "--dtype", "has its own types", e);
    if (r->tokens.n > 0) {
        TRY(check_tokens(r, m, e));
        u->seq = r->tokens.n;
        u->head = 1;
        TRY(model_check_length(m, e));
    }
    if (r->generate > 0) {
        TRY(check_generate(r, m, e));
        u->capacity = u->seq + r->generate;
        u->head = 1;
        u->wanted = LOGITS_AND_NEXT;
    }
    return EIN_OK;
}
