/* SPDX-License-Identifier: Apache-2.0 */
/* Driver: streams, events, and what is put into streams. */
#include <stdlib.h>
#include <string.h>

#include "tests/fake/fake.h"

/* ---- streams ---- */

static void empty_stream(void *self) { free(((CUstream)self)->tails.items); }

static CUstream make_stream(CUcontext c, bool blocking)
{
    CUstream s = fake_object(STREAM, sizeof *s);
    s->o.empty = empty_stream;
    s->context = c;
    s->blocking = blocking;
    s->strand = fake_strand();
    return s;
}

CUresult cuStreamCreate(CUstream *out, unsigned int flags)
{
    ENTER(NEEDS_CONTEXT);
    if (flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    *out = make_stream(fake_current(), flags != CU_STREAM_NON_BLOCKING);
    return 0;
}

CUstream fake_stream(CUstream stream, CUresult *code)
{
    *code = 0;
    if (stream == NULL) {
        CUcontext c = fake_current();
        if (c == NULL) *code = CUDA_ERROR_INVALID_CONTEXT;
        if (c == NULL) return NULL;
        if (fake.own_streams[c->device] == NULL) {
            fake.own_streams[c->device] = make_stream(c, true);
            fake.own_streams[c->device]->o.owned = true;
        }
        return fake.own_streams[c->device];
    }
    if (!fake_valid(stream, STREAM))
        *code = CUDA_ERROR_INVALID_HANDLE;
    else if (stream->context->error != 0)
        *code = stream->context->error;
    return *code == 0 ? stream : NULL;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    ENTER(NEEDS_INIT | HAS_EFFECT);
    if (!fake_valid(stream, STREAM)) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture != NULL) stream->capture->invalid = true;
    fake_task_drop(stream->tail); /* its work goes on */
    stream->tail = NULL;
    stream->o.live = false;
    LEAVE(0);
}

static bool is_own(const struct CUstream_st *s) { return fake.own_streams[s->context->device] == s; }

/* What a task of `s` comes after besides the stream's last one: the context's own stream and its blocking streams are
 * ordered with each other. */
static int order_with_own(CUstream s, task **before)
{
    int n = 0;
    if (!s->blocking) return 0;
    if (!is_own(s)) {
        CUstream own = fake.own_streams[s->context->device];
        if (own != NULL) before[n++] = own->tail;
        return n;
    }
    for (object *o = fake.objects; o != NULL && n < 256; o = o->next)
        if (o->kind == STREAM && o->live && ((CUstream)o)->blocking && ((CUstream)o)->context == s->context &&
            (CUstream)o != s)
            before[n++] = ((CUstream)o)->tail;
    return n;
}

/* Behind all that is in the stream, and behind `also`. Takes what the operation owns. */
static void append(CUstream s, const operation *what, task *also)
{
    task *before[260] = {s->tail, also};
    int n = 2 + order_with_own(s, before + 2);
    task *t = fake_task(what, s->strand, before, n);
    fake_task_drop(s->tail);
    s->tail = t;
}

static bool implicit(const struct CUstream_st *s)
{
    for (object *o = fake.objects; o != NULL; o = o->next)
        if (o->kind == STREAM && o->live && ((CUstream)o)->blocking && ((CUstream)o)->capture != NULL &&
            ((CUstream)o)->context == s->context) {
            ((CUstream)o)->capture->invalid = true;
            return true;
        }
    return false;
}

CUresult fake_enqueue(CUstream s, operation *what)
{
    if (is_own(s) && implicit(s)) {
        fake_operation_free(what);
        return CAPTURE_IMPLICIT;
    }
    if (s->capture == NULL) {
        append(s, what, NULL);
        return 0;
    }
    if (s->capture->invalid) {
        fake_operation_free(what);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    CUgraphNode node = fake_node(s->capture->graph, what, s->tails.items, (size_t)s->tails.n);
    s->tails.n = 0;
    fake_nodes_add(&s->tails, node);
    return 0;
}

static CUresult finish(task *t, CUcontext c)
{
    if (!fake_task_wait(t)) {
        fake_report("%s: what it waits for never comes", fake_call(fake.calls));
        return CUDA_ERROR_LAUNCH_TIMEOUT;
    }
    return c->error;
}

static CUresult not_captured(CUstream s)
{
    if (s->capture == NULL) return 0;
    s->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    CUresult code;
    ENTER(NEEDS_CONTEXT | HAS_EFFECT);
    CUstream s = fake_stream(stream, &code);
    if (s != NULL) code = not_captured(s);
    if (s != NULL && code == 0) code = finish(s->tail, s->context);
    LEAVE(code);
}

CUresult cuStreamQuery(CUstream stream)
{
    CUresult code;
    ENTER(NEEDS_CONTEXT);
    CUstream s = fake_stream(stream, &code);
    if (s != NULL) code = not_captured(s);
    if (s == NULL || code != 0) return code;
    if (!fake_task_done(s->tail)) fake_task_poll();
    if (s->context->error != 0) return s->context->error;
    return fake_task_done(s->tail) ? finish(s->tail, s->context) : CUDA_ERROR_NOT_READY;
}

CUresult cuCtxSynchronize(void)
{
    ENTER(NEEDS_CONTEXT | UNSAFE);
    CUcontext c = fake_current();
    for (object *o = fake.objects; o != NULL; o = o->next)
        if (o->kind == STREAM && o->live && ((CUstream)o)->context == c && ((CUstream)o)->capture == NULL) {
            CUresult code = finish(((CUstream)o)->tail, c);
            if (code != 0) return code;
        }
    return c->error;
}

/* ---- events ---- */

static void empty_event(void *self) { free(((CUevent)self)->nodes.items); }

CUresult cuEventCreate(CUevent *out, unsigned int flags)
{
    ENTER(NEEDS_CONTEXT);
    CUevent e = fake_object(EVENT, sizeof *e);
    e->o.empty = empty_event;
    e->context = fake_current();
    e->timing = (flags & CU_EVENT_DISABLE_TIMING) == 0;
    *out = e;
    return 0;
}

CUresult cuEventDestroy_v2(CUevent e)
{
    ENTER(NEEDS_INIT | HAS_EFFECT);
    if (!fake_valid(e, EVENT)) return CUDA_ERROR_INVALID_HANDLE;
    fake_task_drop(e->task);
    e->task = NULL;
    e->o.live = false;
    LEAVE(0);
}

CUresult cuEventRecord(CUevent e, CUstream stream)
{
    CUresult code;
    ENTER(NEEDS_CONTEXT);
    CUstream s = fake_stream(stream, &code);
    if (s == NULL) return code;
    if (!fake_valid(e, EVENT) || e->context != s->context) return CUDA_ERROR_INVALID_HANDLE;
    if (s->capture != NULL) {
        e->capture = s->capture;
        fake_nodes_copy(&e->nodes, &s->tails);
        return 0;
    }
    operation what = {.kind = DO_RECORD, .context = s->context};
    code = fake_enqueue(s, &what);
    if (code != 0) return code;
    e->capture = NULL;
    fake_task_drop(e->task);
    e->task = fake_task_keep(s->tail);
    return 0;
}

/* Joins the stream into the event's capture. */
static CUresult wait_captured(CUstream s, CUevent e)
{
    if (e->capture->ended) return CUDA_ERROR_INVALID_HANDLE;
    if (e->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (s->capture != NULL && s->capture != e->capture) {
        s->capture->invalid = e->capture->invalid = true;
        return CAPTURE_MERGE;
    }
    s->capture = e->capture;
    for (int i = 0; i < e->nodes.n; i++) fake_nodes_add(&s->tails, e->nodes.items[i]);
    return 0;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent e, unsigned int flags)
{
    CUresult code;
    ENTER(NEEDS_CONTEXT);
    CUstream s = fake_stream(stream, &code);
    if (s == NULL) return code;
    if (!fake_valid(e, EVENT)) return CUDA_ERROR_INVALID_HANDLE;
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (e->capture != NULL) return wait_captured(s, e);
    if (s->capture != NULL) {
        s->capture->invalid = true;
        return CAPTURE_ISOLATION;
    }
    operation what = {.kind = DO_WAIT, .context = s->context};
    append(s, &what, e->task);
    return 0;
}

static CUresult event_captured(CUevent e)
{
    if (e->capture == NULL || e->capture->ended) return 0;
    e->capture->invalid = true;
    return CAPTURED_EVENT;
}

CUresult cuEventQuery(CUevent e)
{
    ENTER(NEEDS_INIT);
    if (!fake_valid(e, EVENT)) return CUDA_ERROR_INVALID_HANDLE;
    if (event_captured(e) != 0) return CAPTURED_EVENT;
    if (e->context->error != 0) return e->context->error;
    if (!fake_task_done(e->task)) fake_task_poll();
    if (e->context->error != 0) return e->context->error;
    return fake_task_done(e->task) ? finish(e->task, e->context) : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent e)
{
    ENTER(NEEDS_INIT | HAS_EFFECT);
    if (!fake_valid(e, EVENT)) return CUDA_ERROR_INVALID_HANDLE;
    if (event_captured(e) != 0) return CAPTURED_EVENT;
    if (e->context->error != 0) return e->context->error;
    CUresult code = finish(e->task, e->context);
    LEAVE(code);
}

CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    ENTER(NEEDS_INIT);
    if (!fake_valid(from, EVENT) || !fake_valid(to, EVENT) || !from->timing || !to->timing || from->task == NULL ||
        to->task == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!from->task->done || !to->task->done) return CUDA_ERROR_NOT_READY;
    *ms = (float)((to->task->seconds - from->task->seconds) * 1e3);
    return 0;
}

/* ---- copies, sets, functions of the process ---- */

static bool known(const void *p, size_t bytes)
{
    const block *b = fake_block_at(p);
    return b != NULL && !b->freed && (const char *)p >= b->at && (const char *)p + bytes <= b->at + b->bytes;
}

static size_t span(size_t width, size_t rows, size_t pitch) { return rows > 0 ? (rows - 1) * pitch + width : 0; }

/* A side that must be a device's, or must not; a real driver knows its own addresses at once. */
CUresult fake_copy_check(const operation *what)
{
    const size_t n = span(what->copy.width, what->copy.rows, what->copy.from_pitch),
                 m = span(what->copy.width, what->copy.rows, what->copy.to_pitch);
    if (what->copy.width == 0 || what->copy.rows == 0) return 0;
    if (what->copy.from == NULL || what->copy.to == NULL) return CUDA_ERROR_INVALID_VALUE;
    if ((fake_of_device(what->copy.from) && !known(what->copy.from, n)) ||
        (fake_of_device(what->copy.to) && !known(what->copy.to, m))) {
        text where = {0};
        fake_describe(&where,
                      fake_of_device(what->copy.from) && !known(what->copy.from, n) ? what->copy.from : what->copy.to);
        fake_report("%s: a copy of %zu bytes at %s", fake_call(fake.calls), n, ein__text_get(&where));
        ein__text_free(&where);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return 0;
}

/* From memory that is not pinned a copy is taken now; to such memory the call waits. */
static CUresult copy(CUstream stream, operation what)
{
    CUresult code;
    CUstream s = fake_stream(stream, &code);
    if (s == NULL) return code;
    what.context = s->context;
    code = fake_copy_check(&what);
    if (code != 0 || what.copy.width == 0 || what.copy.rows == 0) return code;
    const bool pageable_from = !fake_of_device(what.copy.from) && fake_block_at(what.copy.from) == NULL;
    const bool pageable_to = !fake_of_device(what.copy.to) && fake_block_at(what.copy.to) == NULL;
    if (pageable_from && s->capture == NULL) {
        const size_t bytes = span(what.copy.width, what.copy.rows, what.copy.from_pitch);
        if ((what.copy.staged = malloc(bytes)) == NULL) abort();
        memcpy(what.copy.staged, what.copy.from, bytes);
    }
    code = fake_enqueue(s, &what);
    if (code == 0 && pageable_to && s->capture == NULL) code = finish(s->tail, s->context);
    return code;
}

static CUresult copy_bytes(CUstream stream, void *to, const void *from, size_t bytes)
{
    operation what = {.kind = DO_COPY};
    what.copy.to = to;
    what.copy.from = from;
    what.copy.width = bytes;
    what.copy.rows = 1;
    return copy(stream, what);
}

#define AT(p) ((void *)(uintptr_t)(p))

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    ENTER(NEEDS_CONTEXT);
    return fake_of_device(AT(to)) ? copy_bytes(stream, AT(to), from, bytes) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER(NEEDS_CONTEXT);
    return fake_of_device(AT(from)) ? copy_bytes(stream, to, AT(from), bytes) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER(NEEDS_CONTEXT);
    return fake_of_device(AT(from)) && fake_of_device(AT(to)) ? copy_bytes(stream, AT(to), AT(from), bytes)
                                                              : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                           CUstream stream)
{
    ENTER(NEEDS_CONTEXT);
    const block *p = fake_block_at(AT(from)), *q = fake_block_at(AT(to));
    if (p == NULL || q == NULL || p->device != from_context->device || q->device != to_context->device)
        return CUDA_ERROR_INVALID_VALUE;
    return copy_bytes(stream, AT(to), AT(from), bytes);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER(NEEDS_CONTEXT);
    return copy_bytes(stream, AT(to), AT(from), bytes);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream stream)
{
    ENTER(NEEDS_CONTEXT);
    operation what = {.kind = DO_COPY};
    what.copy.from =
        (c->srcMemoryType == CU_MEMORYTYPE_HOST ? (const char *)c->srcHost : (const char *)AT(c->srcDevice)) +
        c->srcY * c->srcPitch + c->srcXInBytes;
    what.copy.to = (c->dstMemoryType == CU_MEMORYTYPE_HOST ? (char *)c->dstHost : (char *)AT(c->dstDevice)) +
                   c->dstY * c->dstPitch + c->dstXInBytes;
    what.copy.width = c->WidthInBytes;
    what.copy.rows = c->Height;
    what.copy.from_pitch = c->srcPitch;
    what.copy.to_pitch = c->dstPitch;
    if (c->Height > 1 && (c->srcPitch < c->WidthInBytes || c->dstPitch < c->WidthInBytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (c->srcMemoryType == CU_MEMORYTYPE_DEVICE && !fake_of_device(what.copy.from)) return CUDA_ERROR_INVALID_VALUE;
    if (c->dstMemoryType == CU_MEMORYTYPE_DEVICE && !fake_of_device(what.copy.to)) return CUDA_ERROR_INVALID_VALUE;
    return copy(stream, what);
}

/* `count` elements, in memory of a device or pinned. */
static CUresult set(CUdeviceptr to, unsigned value, int element, size_t count, CUstream stream)
{
    CUresult code;
    CUstream s = fake_stream(stream, &code);
    if (s == NULL) return code;
    if (count == 0) return 0;
    if (!known(AT(to), count * (size_t)element) || to % (size_t)element != 0) return CUDA_ERROR_INVALID_VALUE;
    operation what = {.kind = DO_SET, .context = s->context};
    what.set.to = AT(to);
    what.set.value = value;
    what.set.element = element;
    what.set.width = count;
    what.set.rows = 1;
    return fake_enqueue(s, &what);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr at, uint32_t value, unsigned int flags)
{
    ENTER(NEEDS_CONTEXT);
    return flags == 0 ? set(at, value, 4, 1, stream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    ENTER(NEEDS_CONTEXT);
    return set(to, value, 1, count, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
    ENTER(NEEDS_CONTEXT);
    return set(to, value, 4, count, stream);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *user)
{
    CUresult code;
    ENTER(NEEDS_CONTEXT);
    CUstream s = fake_stream(stream, &code);
    if (s == NULL) return code;
    operation what = {.kind = DO_HOST, .context = s->context};
    what.host.function = function;
    what.host.user = user;
    return fake_enqueue(s, &what);
}
