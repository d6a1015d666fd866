/* SPDX-License-Identifier: Apache-2.0 */
/* Driver: what streams are told becomes nodes of a graph while they are captured. */
#include <stdlib.h>

#include "tests/fake/fake.h"

bool fake_capture_forbids(void)
{
    bool found = false;
    for (int i = 0; i < fake.n_captures; i++) {
        capture *c = fake.captures[i];
        if (c->ended || c->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
        if (c->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && !pthread_equal(c->thread, pthread_self())) continue;
        c->invalid = true;
        found = true;
    }
    return found;
}

static void drop_ended(void)
{
    int n = 0;
    for (int i = 0; i < fake.n_captures; i++)
        if (!fake.captures[i]->ended) fake.captures[n++] = fake.captures[i];
    fake.n_captures = n;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    CUresult code;
    ENTER(NEEDS_CONTEXT);
    CUstream s = fake_stream(stream, &code);
    if (s == NULL) return code;
    if (stream == NULL) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture != NULL || mode < 0 || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    capture *c = fake_object(CAPTURE, sizeof *c);
    c->o.owned = true;
    *c = (capture){.o = c->o, .graph = fake_graph(), .origin = s, .mode = mode, .thread = pthread_self()};
    c->graph->o.owned = true;
    drop_ended();
    if (fake.n_captures == (int)(sizeof fake.captures / sizeof *fake.captures)) return CUDA_ERROR_OUT_OF_MEMORY;
    fake.captures[fake.n_captures++] = c;
    s->capture = c;
    s->tails.n = 0;
    return 0;
}

/* Are all nodes of the capture before the origin's last ones? */
static bool joined(const capture *c)
{
    nodes seen = {0};
    fake_nodes_copy(&seen, &c->origin->tails);
    for (int i = 0; i < seen.n; i++) {
        const CUgraphNode node = seen.items[i];
        for (int k = 0; k < node->after.n; k++) fake_nodes_add(&seen, node->after.items[k]);
    }
    const bool all = seen.n == c->graph->nodes.n;
    free(seen.items);
    return all;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *out)
{
    CUresult code;
    ENTER(NEEDS_CONTEXT);
    CUstream s = fake_stream(stream, &code);
    *out = NULL;
    if (s == NULL) return code;
    capture *c = s->capture;
    if (c == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (c->origin != s) {
        c->invalid = true;
        return CAPTURE_UNMATCHED;
    }
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(c->thread, pthread_self()))
        return CAPTURE_WRONG_THREAD;
    code = c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : joined(c) ? 0 : CAPTURE_UNJOINED;
    c->ended = true;
    for (object *o = fake.objects; o != NULL; o = o->next)
        if (o->kind == STREAM && ((CUstream)o)->capture == c) {
            ((CUstream)o)->capture = NULL;
            ((CUstream)o)->tails.n = 0;
        }
    c->graph->o.owned = false;
    if (code == 0)
        *out = c->graph;
    else
        fake_graph_end(c->graph);
    return code;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    CUresult code;
    ENTER(NEEDS_CONTEXT);
    CUstream s = fake_stream(stream, &code);
    if (s == NULL) return code;
    *status = s->capture == NULL    ? CU_STREAM_CAPTURE_STATUS_NONE
              : s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return 0;
}
