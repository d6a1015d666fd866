/* SPDX-License-Identifier: Apache-2.0 */
/* ein explain MODEL: the plan alone, for any machine, without weights: how each op is cut, where its result
 * lies, and what its steps fetch from other devices. */
#define _XOPEN_SOURCE 700
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "ein.h"
#include "jit/context.h"
#include "jit/costs.h"
#include "tools/args.h"
#include "tools/commands.h"
#include "tools/report.h"
#include "tools/session.h"

/* "rows/2 h.g/4": two parts of rows by four of the product of h and g. */
static void print_cuts(const spec *s, const choice *c, text *out)
{
    for (int i = 0; i < c->n_cuts; i++) {
        for (int k = 0; k < c->cuts[i].n_labels; k++) {
            ein__text_add(out, "%s%s",
                          k > 0        ? "."
                          : out->n > 0 ? " "
                                       : "",
                          s->labels[c->cuts[i].labels[k]].name);
        }
        ein__text_add(out, "/%d", c->cuts[i].n_parts);
    }
    if (c->n_cuts == 0) ein__text_add(out, "whole");
}

/* Bytes that the node's steps touch in other devices' memory in one run; -1: those of leaves and outputs. */
static i64 bytes_of(const program *p, int owner)
{
    i64 bytes = 0;
    for (int d = 0; d < p->n_devices; d++) {
        const device_program *dp = &p->devices[d];
        for (int r = 0; r < p->n_regions; r++) {
            for (int i = dp->regions[r].lo; i < dp->regions[r].hi; i++) {
                if (dp->steps[i].node == owner) bytes += dp->steps[i].remote_bytes * dp->regions[r].count;
            }
        }
    }
    return bytes;
}

static int times_of(const graph *g, int i)
{
    for (int k = 0; k < g->loops.n; k++) {
        if (i >= g->loops.items[k].lo && i < g->loops.items[k].hi) return g->loops.items[k].count;
    }
    return 1;
}

static ein_status print_layout(const node *n, const choice *c, text *out)
{
    arena a = {0};
    relation r;
    ein_status status = ein__relation_finished(&a, &n->spec, 0, c, &r);
    if (status == EIN_OK) ein__relation_print(&r, out);
    ein__arena_free(&a);
    return status;
}

/* Predicted time of the busiest device's kernels for the node, once. Exchanges are not in it. */
static double compute_us(const ein_program *p, const cost_model *costs, int i)
{
    enum { BOXES = 16 };
    const node *n = &p->graph.nodes.items[i];
    const choice *c = &p->plan.nodes[i];
    double seconds[MAX_DEVICES] = {0}, most = 0;
    for (int t = 0; t < c->n_tuples; t++) {
        label_box boxes[BOXES];
        int made = ein__tuple_boxes(&n->spec, c, t, BOXES, boxes);
        double s = costs->compute(costs->user, &p->graph, n, boxes, made < BOXES ? made : BOXES);
        for (int d = 0; d < p->plan.n_devices; d++) {
            if ((c->devices[t] & DEV(d)) == 0) continue;
            seconds[d] += s;
            if (seconds[d] > most) most = seconds[d];
        }
    }
    return most * 1e6;
}

/* Predicted times of whole ops, exchanges included, are not kept in a plan: null. */
static json_t *row_of(const char *op, int times, const char *cuts, const char *layout, i64 bytes,
                      json_t *compute, json_t *predicted)
{
    return json_pack("{s:s, s:i, s:s, s:s, s:I, s:o, s:o}", "op", op, "times", times, "cut", cuts, "layout",
                     layout, "bytes", (json_int_t)bytes, "compute_us", compute, "predicted_us", predicted);
}

/* Nor are the rivals of a choice, which only readers of JSON ask for. */
static void add_row(report *r, json_t *row)
{
    if (r->json && row != NULL) {
        json_object_set_new(row, "runner_up", json_null());
        json_object_set_new(row, "runner_up_us", json_null());
    }
    report_row(r, row);
}

static json_t *node_row(const ein_program *p, const cost_model *costs, int i)
{
    const node *n = &p->graph.nodes.items[i];
    const choice *c = &p->plan.nodes[i];
    text cuts = {0}, layout = {0};
    json_t *row = NULL;
    bool follows = n->kind == OP_APPEND; /* cut and placed as its state is */
    if (!follows) print_cuts(&n->spec, c, &cuts);
    ein_status status = follows ? EIN_OK : print_layout(n, c, &layout);
    if (status == EIN_OK && !cuts.failed && !layout.failed) {
        row = row_of(n->name, times_of(&p->graph, i), follows ? "as its state" : cuts.bytes,
                     follows ? "as its state" : layout.bytes, bytes_of(&p->program, i),
                     follows ? json_null() : json_real(compute_us(p, costs, i)), json_null());
    }
    ein__text_free(&cuts);
    ein__text_free(&layout);
    return row;
}

static int print_rows(ein_program *p, const cost_model *costs, bool json)
{
    report r;
    ein_program_stats stats = {.size = sizeof stats};
    ein_program_get_stats(p, &stats);
    if (!json) printf("%s\n", ein_program_explain(p));
    report_begin(&r, json);
    for (int i = 0; i < p->graph.nodes.n; i++) {
        if (!ein__node_is_view(&p->graph.nodes.items[i])) add_row(&r, node_row(p, costs, i));
    }
    add_row(&r, row_of("inputs and outputs", 1, "", "", bytes_of(&p->program, -1), json_null(), json_null()));
    add_row(&r,
            row_of("total", 1, "", "", stats.predicted_bytes, json_null(), json_real(stats.predicted_us)));
    if (!report_end(&r)) return EXIT_USAGE;
    return EXIT_DONE;
}

static int print_program(ein_program *p, bool json)
{
    arena a = {0};
    cost_model costs;
    int result = ein__cost_model(&a, &p->context->machine, &costs) == EIN_OK
                     ? print_rows(p, &costs, json)
                     : complain(EXIT_USAGE, "out of memory for the costs");
    ein__arena_free(&a);
    return result;
}

static int save_plan(ein_program *p, const char *path)
{
    error e = {0};
    const char *json = ein_program_plan(p);
    if (ein__file_publish(path, json, strlen(json), 0666, &e) == EIN_OK) return EXIT_DONE;
    return complain(EXIT_USAGE, "%s", e.line);
}

/* The weights by their full path: the file may go elsewhere. */
static int save_graph(const workload *w, const char *path)
{
    char message[256], whole[PATH_MAX];
    const char *weights = w->model.folder;
    if (weights != NULL && realpath(weights, whole) != NULL) weights = whole;
    ein_status status = ein_graph_save(w->graph, path, weights, message, sizeof message);
    return status == EIN_OK ? EXIT_DONE : complain(exit_of(status), "%s", message);
}

static int explain(const workload *w, const char *on, const args *a)
{
    char message[256];
    ein_context *context;
    ein_program *p;
    ein_status status = session_plan(w, on, &context, &p, message);
    int result = status == EIN_OK ? print_program(p, a->json) : complain(exit_of(status), "%s", message);
    if (result == EXIT_DONE && a->save != NULL) result = save_plan(p, a->save);
    if (result == EXIT_DONE && a->graph != NULL) result = save_graph(w, a->graph);
    ein_program_free(p);
    ein_context_free(context);
    return result;
}

int command_explain(int argc, char **argv)
{
    args a;
    char on[256];
    int result = args_parse(argc, argv, "devices machine json save graph", 1, 1, &a);
    if (result == EXIT_DONE) result = args_machine(&a, on, sizeof on);
    if (result != EXIT_DONE) return result;
    workload w;
    ein_status status = workload_open(&w, a.words[0], NULL, NULL);
    result = status == EIN_OK ? explain(&w, on, &a) : complain(exit_of(status), "%s", w.error.line);
    workload_close(&w);
    return result;
}
