/* SPDX-License-Identifier: Apache-2.0 */
/* A machine's text decides where it comes from: JSON, this computer, a preset or some of its devices, a file.
 * Whatever the source, the verifier has the last word. */
#include "core/plan/machine.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/plan/machine_read.h"

enum { MAX_FILE = 1 << 20 };

/* "3" or "3,5": reads the number and what follows it; -1 if there is none. */
static int read_number(const char **s)
{
    int v = 0;
    const char *p = *s;
    while (*p >= '0' && *p <= '9' && v < 1000) v = v * 10 + (*p++ - '0');
    if (p == *s) return -1;
    *s = p;
    return v;
}

static ein_status parse_host(arena *a, const char *name, machine *out, error *e)
{
    const char *s = name + strlen("host:");
    int n = read_number(&s);
    if (*s != 0 || n < 1 || n > MAX_DEVICES) {
        return ein__fail(e, EIN_INVALID, "machine \"%.60s\": wanted host:1 to host:%d", name, MAX_DEVICES);
    }
    return ein__machine_host(a, n, out);
}

/* Keep the devices `keep[0 .. n)`, numbered anew in this order, all switches, and the links between those. */
static void keep_devices(machine *m, const int *keep, int n)
{
    int number[MAX_VERTICES];
    machine_device devices[MAX_DEVICES];
    for (int v = 0; v < m->n_vertices; v++) number[v] = v < m->n_devices ? -1 : v - m->n_devices + n;
    for (int i = 0; i < n; i++) {
        number[keep[i]] = i;
        devices[i] = m->devices[keep[i]];
    }
    int links = 0;
    for (int i = 0; i < m->n_links; i++) {
        machine_link l = m->links[i];
        l.from = number[l.from];
        l.to = number[l.to];
        if (l.from >= 0 && l.to >= 0) m->links[links++] = l;
    }
    m->n_links = links;
    m->n_vertices += n - m->n_devices;
    m->n_devices = n;
    memset(m->devices, 0, sizeof m->devices);
    memcpy(m->devices, devices, (size_t)n * sizeof *devices);
}

static ein_status parse_preset(arena *a, const char *name, size_t n, machine *out, error *e)
{
    TRY(ein__machine_preset(a, name, n, out));
    if (name[n] == 0) return EIN_OK;
    int keep[MAX_DEVICES], kept = 0;
    devset seen = 0;
    const char *s = name + n;
    do {
        s++; /* past ':' or ',' */
        int d = read_number(&s);
        if (d < 0 || (*s != 0 && *s != ',')) {
            return ein__fail(e, EIN_INVALID, "machine \"%.60s\": wanted device numbers, \"%.*s:0,1\"", name,
                             (int)n, name);
        }
        if (d >= out->n_devices) {
            return ein__fail(e, EIN_INVALID, "machine \"%.60s\": device %d, it has %d", name, d,
                             out->n_devices);
        }
        if ((seen & DEV(d)) != 0)
            return ein__fail(e, EIN_INVALID, "machine \"%.60s\": device %d twice", name, d);
        seen |= DEV(d);
        keep[kept++] = d;
    } while (*s == ',');
    keep_devices(out, keep, kept);
    out->name = ein__arena_strdup(a, name);
    return out->name != NULL ? EIN_OK : EIN_NO_MEMORY;
}

static ein_status no_file(const char *path, int why, error *e)
{
    if (why != ENOENT) return ein__fail(e, EIN_IO, "machine file \"%.80s\": %s", path, strerror(why));
    text names = {0};
    ein__machine_preset_names(&names);
    ein__fail(e, EIN_IO, "machine \"%.60s\": no such file, and no preset (host:N, %s)", path,
              ein__text_get(&names));
    ein__text_free(&names);
    return EIN_IO;
}

static ein_status parse_file(arena *a, const char *path, machine *out, error *e)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) return no_file(path, errno, e);
    char *bytes = ein__calloc(MAX_FILE + 1, 1);
    size_t n = bytes != NULL ? fread(bytes, 1, MAX_FILE + 1, f) : 0;
    int failed = ferror(f) != 0 ? errno : 0;
    fclose(f);
    ein_status status = EIN_NO_MEMORY;
    if (failed != 0) {
        status = no_file(path, failed, e);
    } else if (n > MAX_FILE) {
        status = ein__fail(e, EIN_INVALID, "machine file \"%.80s\": more than %d bytes", path, MAX_FILE);
    } else if (bytes != NULL) {
        status = ein__machine_json(a, path, bytes, n, out, e);
    }
    ein__free(bytes);
    return status;
}

ein_status ein__machine_parse(arena *a, const char *source, machine *out, error *e)
{
    memset(out, 0, sizeof *out);
    size_t n = strcspn(source, ":");
    ein_status status;
    if (source[0] == '{') {
        status = ein__machine_json(a, "machine", source, strlen(source), out, e);
    } else if (strncmp(source, "host:", 5) == 0) {
        status = parse_host(a, source, out, e);
    } else if (ein__machine_preset_known(source, n)) {
        status = parse_preset(a, source, n, out, e);
    } else {
        status = parse_file(a, source, out, e);
    }
    if (status == EIN_NO_MEMORY) return ein__fail(e, status, "out of memory reading a machine");
    TRY(status);
    return ein__machine_check(out, e);
}

/* ---- verifier -------------------------------------------------------------------------------------- */

static ein_status check_number(const char *what, int i, const char *member, double v, bool zero, double most,
                               error *e)
{
    if (isfinite(v) && (v > 0 || (zero && v == 0)) && v <= most) return EIN_OK;
    return ein__fail(e, EIN_INVALID, "machine: %s[%d]: %s is %g", what, i, member, v);
}

static ein_status check_device(const machine *m, int i, error *e)
{
    const machine_device *d = &m->devices[i];
    size_t n = strspn(d->architecture, "abcdefghijklmnopqrstuvwxyz0123456789_");
    if (n == 0 || d->architecture[n] != 0) {
        return ein__fail(e, EIN_INVALID, "machine: devices[%d]: architecture \"%.40s\"", i, d->architecture);
    }
    if (m->host != (strcmp(d->architecture, "host") == 0)) {
        return ein__fail(e, EIN_INVALID, "machine: devices[%d]: architecture \"%.40s\" where host is %s", i,
                         d->architecture, m->host ? "true" : "false");
    }
    TRY(check_number("devices", i, "flops_f32", d->flops_f32, false, INFINITY, e));
    TRY(check_number("devices", i, "flops_f16", d->flops_f16, false, INFINITY, e));
    TRY(check_number("devices", i, "memory_bandwidth", d->memory_bandwidth, false, INFINITY, e));
    return check_number("devices", i, "memory_bytes", d->memory_bytes, false, INFINITY, e);
}

static ein_status check_link(const machine *m, int i, error *e)
{
    const machine_link *l = &m->links[i];
    if (l->from < 0 || l->from >= m->n_vertices || l->to < 0 || l->to >= m->n_vertices || l->from == l->to) {
        return ein__fail(e, EIN_INVALID, "machine: links[%d]: from %d to %d, there are %d vertices", i,
                         l->from, l->to, m->n_vertices);
    }
    for (int j = 0; j < i; j++) {
        if (m->links[j].from == l->from && m->links[j].to == l->to) {
            return ein__fail(e, EIN_INVALID, "machine: links[%d] and links[%d] both go from %d to %d", j, i,
                             l->from, l->to);
        }
    }
    TRY(check_number("links", i, "bandwidth", l->bandwidth, false, INFINITY, e));
    return check_number("links", i, "latency", l->latency, true, INFINITY, e);
}

ein_status ein__machine_check(const machine *m, error *e)
{
    if (m->n_devices < 1 || m->n_devices > MAX_DEVICES || m->n_vertices < m->n_devices ||
        m->n_vertices > MAX_VERTICES) {
        return ein__fail(e, EIN_INVALID, "machine: %d devices and %d vertices, at most %d and %d",
                         m->n_devices, m->n_vertices, MAX_DEVICES, MAX_VERTICES);
    }
    if (m->name == NULL || m->name[0] == 0) return ein__fail(e, EIN_INVALID, "machine: name is empty");
    TRY(check_number("rates", 0, "matrix_efficiency", m->matrix_efficiency, false, 1, e));
    TRY(check_number("rates", 0, "step_latency", m->step_latency, true, INFINITY, e));
    TRY(check_number("rates", 0, "launch_floor", m->launch_floor, true, INFINITY, e));
    for (int i = 0; i < m->n_devices; i++) TRY(check_device(m, i, e));
    for (int i = 0; i < m->n_links; i++) TRY(check_link(m, i, e));
    return EIN_OK;
}

/* ---- what plans depend on -------------------------------------------------------------------------- */

static void key_number(text *key, uint32_t tag, double v)
{
    int64_t bits;
    memcpy(&bits, &v, sizeof bits);
    ein__key_int(key, tag, bits);
}

void ein__machine_key(const machine *m, text *key)
{
    enum { HOST_FLAG = 1, VERTICES, RATE, DEVICE, LINK };
    ein__key_int(key, HOST_FLAG, m->host);
    ein__key_int(key, VERTICES, m->n_vertices);
    key_number(key, RATE, m->matrix_efficiency);
    key_number(key, RATE, m->step_latency);
    key_number(key, RATE, m->launch_floor);
    for (int i = 0; i < m->n_devices; i++) {
        const machine_device *d = &m->devices[i];
        ein__key_bytes(key, DEVICE, d->architecture, strlen(d->architecture));
        key_number(key, RATE, d->flops_f32);
        key_number(key, RATE, d->flops_f16);
        key_number(key, RATE, d->memory_bandwidth);
        key_number(key, RATE, d->memory_bytes);
    }
    for (int i = 0; i < m->n_links; i++) {
        const machine_link *l = &m->links[i];
        ein__key_int(key, LINK, ((int64_t)l->from << 32) | ((int64_t)l->to << 1) | l->peer);
        key_number(key, RATE, l->bandwidth);
        key_number(key, RATE, l->latency);
    }
}

double ein__machine_bandwidth(const machine *m, int from, int to)
{
    /* A shared memory is the process's memory too; how other machines reach theirs is not in the data. */
    if (from == HOST || to == HOST) {
        int d = from == HOST ? to : from;
        return m->host && d < m->n_devices ? m->devices[d].memory_bandwidth : 0;
    }
    if (from == to) return m->devices[from].memory_bandwidth;
    double width[MAX_VERTICES] = {0};
    width[from] = INFINITY;
    for (bool wider = true; wider;) {
        wider = false;
        for (int i = 0; i < m->n_links; i++) {
            const machine_link *l = &m->links[i];
            double w = fmin(width[l->from], l->bandwidth);
            if (w <= width[l->to]) continue;
            width[l->to] = w;
            wider = true;
        }
    }
    return width[to];
}
