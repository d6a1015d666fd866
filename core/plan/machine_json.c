/* SPDX-License-Identifier: Apache-2.0 */
/* Machines as JSON, strictly: every member present once, none unknown, each of its type. Units are bytes,
 * seconds and operations. */
#include <jansson.h>
#include <stddef.h>
#include <string.h>

#include "core/plan/machine_read.h"

typedef enum member_type { STRING, BOOLEAN, INTEGER, NUMBER, ARRAY } member_type;

typedef struct member {
    const char *name;
    member_type type;
    size_t offset; /* of the C object's field: const char *, bool, int, double, json_t * */
} member;

typedef struct document {
    machine machine;
    json_t *devices, *links;
    int switches;
} document;

static const member MACHINE[] = {
    {"name", STRING, offsetof(document, machine.name)},
    {"host", BOOLEAN, offsetof(document, machine.host)},
    {"matrix_efficiency", NUMBER, offsetof(document, machine.matrix_efficiency)},
    {"step_latency", NUMBER, offsetof(document, machine.step_latency)},
    {"launch_floor", NUMBER, offsetof(document, machine.launch_floor)},
    {"devices", ARRAY, offsetof(document, devices)},
    {"switches", INTEGER, offsetof(document, switches)},
    {"links", ARRAY, offsetof(document, links)},
};

static const member DEVICE[] = {
    {"architecture", STRING, offsetof(machine_device, architecture)},
    {"flops_f32", NUMBER, offsetof(machine_device, flops_f32)},
    {"flops_f16", NUMBER, offsetof(machine_device, flops_f16)},
    {"memory_bandwidth", NUMBER, offsetof(machine_device, memory_bandwidth)},
    {"memory_bytes", NUMBER, offsetof(machine_device, memory_bytes)},
};

static const member LINK[] = {
    {"from", INTEGER, offsetof(machine_link, from)},
    {"to", INTEGER, offsetof(machine_link, to)},
    {"bandwidth", NUMBER, offsetof(machine_link, bandwidth)},
    {"latency", NUMBER, offsetof(machine_link, latency)},
    {"peer", BOOLEAN, offsetof(machine_link, peer)},
};

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

typedef struct reader {
    arena *arena;
    const char *where;
    error *error;
} reader;

static ein_status wrong_type(const reader *r, const char *object, const member *m)
{
    static const char *const names[] = {"a string", "true or false", "an integer", "a number", "an array"};
    return ein__fail(r->error, EIN_INVALID, "%s: %s: \"%s\" must be %s", r->where, object, m->name,
                     names[m->type]);
}

static ein_status read_member(const reader *r, const char *object, const member *m, json_t *v, char *out)
{
    void *field = out + m->offset;
    if (m->type == STRING && json_is_string(v)) {
        const char *copy = ein__arena_strdup(r->arena, json_string_value(v));
        if (copy == NULL) return EIN_NO_MEMORY;
        memcpy(field, &copy, sizeof copy);
    } else if (m->type == BOOLEAN && json_is_boolean(v)) {
        *(bool *)field = json_is_true(v);
    } else if (m->type == INTEGER && json_is_integer(v)) {
        json_int_t i = json_integer_value(v);
        if (i < 0 || i > MAX_VERTICES) {
            return ein__fail(r->error, EIN_INVALID, "%s: %s: \"%s\" is %lld, must be 0 to %d", r->where,
                             object, m->name, (long long)i, MAX_VERTICES);
        }
        *(int *)field = (int)i;
    } else if (m->type == NUMBER && json_is_number(v)) {
        *(double *)field = json_number_value(v);
    } else if (m->type == ARRAY && json_is_array(v)) {
        memcpy(field, &v, sizeof v);
    } else {
        return wrong_type(r, object, m);
    }
    return EIN_OK;
}

static ein_status read_object(const reader *r, const char *object, const json_t *json, const member *members,
                              int n, void *out)
{
    if (!json_is_object(json)) {
        return ein__fail(r->error, EIN_INVALID, "%s: %s must be an object", r->where, object);
    }
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)json, key, v)
    {
        int i = 0;
        while (i < n && strcmp(members[i].name, key) != 0) i++;
        if (i == n) {
            return ein__fail(r->error, EIN_INVALID, "%s: %s: unknown member \"%.60s\"", r->where, object,
                             key);
        }
        TRY(read_member(r, object, &members[i], v, out));
    }
    for (int i = 0; i < n; i++) {
        if (json_object_get(json, members[i].name) == NULL) {
            return ein__fail(r->error, EIN_INVALID, "%s: %s: \"%s\" is missing", r->where, object,
                             members[i].name);
        }
    }
    return EIN_OK;
}

static ein_status read_element(const reader *r, const char *array, int i, const json_t *json,
                               const member *members, int n, void *out)
{
    const char *object = ein__arena_printf(r->arena, "%s[%d]", array, i);
    if (object == NULL) return EIN_NO_MEMORY;
    return read_object(r, object, json, members, n, out);
}

static ein_status read_document(const reader *r, const json_t *root, machine *out)
{
    document d = {.switches = 0};
    TRY(read_object(r, "machine", root, MACHINE, COUNT(MACHINE), &d));
    size_t devices = json_array_size(d.devices), links = json_array_size(d.links);
    if (devices < 1 || devices > MAX_DEVICES) {
        return ein__fail(r->error, EIN_INVALID, "%s: %zu devices, must be 1 to %d", r->where, devices,
                         MAX_DEVICES);
    }
    if (links > MAX_LINKS) {
        return ein__fail(r->error, EIN_INVALID, "%s: %zu links, at most %d", r->where, links, MAX_LINKS);
    }
    machine *m = &d.machine;
    m->n_devices = (int)devices;
    m->n_vertices = m->n_devices + d.switches;
    m->n_links = (int)links;
    NEW(r->arena, m->links, links);
    for (int i = 0; i < m->n_devices; i++) {
        TRY(read_element(r, "devices", i, json_array_get(d.devices, (size_t)i), DEVICE, COUNT(DEVICE),
                         &m->devices[i]));
    }
    for (int i = 0; i < m->n_links; i++) {
        TRY(read_element(r, "links", i, json_array_get(d.links, (size_t)i), LINK, COUNT(LINK), &m->links[i]));
    }
    *out = *m;
    return EIN_OK;
}

ein_status ein__machine_json(arena *a, const char *where, const char *json, size_t n, machine *out, error *e)
{
    json_error_t bad;
    json_t *root = json_loadb(json, n, JSON_REJECT_DUPLICATES, &bad);
    if (root == NULL) {
        if (json_error_code(&bad) == json_error_out_of_memory) return EIN_NO_MEMORY;
        return ein__fail(e, EIN_INVALID, "%s:%d:%d: %s", where, bad.line, bad.column, bad.text);
    }
    ein_status status = read_document(&(reader){a, where, e}, root, out);
    json_decref(root);
    return status;
}

/* ---- printing: the same tables, the other way ------------------------------------------------------ */

static json_t *write_object(const member *members, int n, const void *in)
{
    json_t *object = json_object();
    for (int i = 0; i < n && object != NULL; i++) {
        const void *field = (const char *)in + members[i].offset;
        json_t *v = NULL;
        switch (members[i].type) {
        case STRING: v = json_string(*(const char *const *)field); break;
        case BOOLEAN: v = json_boolean(*(const bool *)field); break;
        case INTEGER: v = json_integer(*(const int *)field); break;
        case NUMBER: v = json_real(*(const double *)field); break;
        case ARRAY: v = json_incref(*(json_t *const *)field); break;
        }
        if (json_object_set_new(object, members[i].name, v) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static int append(const char *bytes, size_t n, void *out)
{
    ein__text_bytes(out, bytes, n);
    return ein__text_status(out) == EIN_OK ? 0 : -1;
}

ein_status ein__machine_print(const machine *m, text *out)
{
    document d = {*m, json_array(), json_array(), m->n_vertices - m->n_devices};
    bool ok = d.devices != NULL && d.links != NULL;
    for (int i = 0; ok && i < m->n_devices; i++) {
        ok = json_array_append_new(d.devices, write_object(DEVICE, COUNT(DEVICE), &m->devices[i])) == 0;
    }
    for (int i = 0; ok && i < m->n_links; i++) {
        ok = json_array_append_new(d.links, write_object(LINK, COUNT(LINK), &m->links[i])) == 0;
    }
    json_t *root = ok ? write_object(MACHINE, COUNT(MACHINE), &d) : NULL;
    ok = root != NULL && json_dump_callback(root, append, out, JSON_INDENT(1)) == 0;
    json_decref(root);
    json_decref(d.devices);
    json_decref(d.links);
    return ok ? EIN_OK : EIN_NO_MEMORY;
}
