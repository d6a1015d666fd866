/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "jit/context.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/alloc.h"
#include "jit/target/cuda_target.h"

double ein__now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void ein__progress(ein_context *c, const char *stage, double fraction)
{
    if (c->progress != NULL) c->progress(c->progress_user, stage, fraction);
}

static ein_status open_gpus(ein_context *c, const char *name)
{
    return ein__cuda_target_open(&c->arena, name, c->caching ? &c->cache : NULL, &c->machine, &c->target, &c->error);
}

static ein_status open_machine(ein_context *c, const char *name)
{
    if (name == NULL) { /* all GPUs, if there are any */
        ein_status s = open_gpus(c, "cuda");
        if (s != EIN_NO_DEVICE) return s;
        ein__error_reset(&c->error);
        name = "host:1";
    }
    if (strcmp(name, "cuda") == 0 || strncmp(name, "cuda:", 5) == 0) return open_gpus(c, name);
    TRY(ein__machine_parse(&c->arena, name, &c->machine, &c->error));
    return c->machine.host ? ein__host_open(&c->machine, &c->target, &c->error) : EIN_OK;
}

static ein_status open_context(ein_context *c, const ein_context_options *o)
{
    if (o == NULL || !o->no_cache) {
        TRY(ein__cache_init(&c->cache, o != NULL ? o->cache_dir : NULL));
        c->caching = c->cache.dir != NULL;
    }
    if (o != NULL) {
        c->progress = o->progress;
        c->progress_user = o->progress_user;
    }
    return open_machine(c, o != NULL ? o->machine : NULL);
}

static ein_status refuse(const ein_context_options *o, const char *line, ein_status s)
{
    if (o != NULL && o->size >= sizeof *o && o->message != NULL && o->message_bytes > 0)
        snprintf(o->message, o->message_bytes, "%s", line);
    return s;
}

ein_status ein_context_create(ein_context **out, const ein_context_options *options)
{
    if (out == NULL) return EIN_INVALID;
    *out = NULL;
    if (options != NULL && options->size != sizeof *options)
        return refuse(options, "context options: size is not sizeof(ein_context_options)", EIN_INVALID);
    ein_context *c = ein__calloc(1, sizeof *c);
    if (c == NULL) return refuse(options, "out of memory for a context", EIN_NO_MEMORY);
    ein_status s = open_context(c, options);
    if (s == EIN_OK) {
        *out = c;
        return s;
    }
    refuse(options, c->error.line[0] != 0 ? c->error.line : ein_status_name(s), s);
    ein_context_free(c);
    return s;
}

void ein_context_free(ein_context *c)
{
    if (c == NULL) return;
    if (c->target != NULL) c->target->api->close(c->target);
    ein__cache_fini(&c->cache);
    ein__error_reset(&c->error);
    ein__arena_free(&c->arena);
    ein__free(c);
}

int ein_context_device_count(const ein_context *c) { return c != NULL ? c->machine.n_devices : 0; }
const char *ein_context_error(const ein_context *c) { return c != NULL ? c->error.line : ""; }
const char *ein_context_detail(const ein_context *c) { return c != NULL && c->error.detail != NULL ? c->error.detail : ""; }
