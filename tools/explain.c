/* SPDX-License-Identifier: Apache-2.0 */
/* ein explain MODEL: the plan alone, for any machine, without weights: how each op is cut, where its result
 * lies, and what its steps fetch from other devices. */
#include <stdio.h>

#include "ein.h"
#include "jit/context.h"
#include "tools/args.h"
#include "tools/commands.h"
#include "tools/report.h"
#include "tools/workload.h"

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

static json_t *node_row(const ein_program *p, int i)
{
    const node *n = &p->graph.nodes.items[i];
    text cuts = {0}, layout = {0};
    json_t *row = NULL;
    bool follows = n->kind == OP_APPEND; /* it lies as its state does */
    if (!follows) print_cuts(&n->spec, &p->plan.nodes[i], &cuts);
    ein_status status = follows ? EIN_OK : print_layout(n, &p->plan.nodes[i], &layout);
    if (status == EIN_OK && !cuts.failed && !layout.failed) {
        row = json_pack("{s:s, s:i, s:s, s:I, s:s}", "op", n->name, "times", times_of(&p->graph, i), "cut",
                        follows ? "as its state" : ein__text_get(&cuts), "bytes",
                        (json_int_t)bytes_of(&p->program, i), "layout", ein__text_get(&layout));
    }
    ein__text_free(&cuts);
    ein__text_free(&layout);
    return row;
}

static json_t *other_row(const char *what, i64 bytes)
{
    return json_pack("{s:s, s:i, s:s, s:I, s:s}", "op", what, "times", 1, "cut", "", "bytes",
                     (json_int_t)bytes, "layout", "");
}

static int print_program(ein_program *p, bool json)
{
    report r;
    ein_program_stats stats = {.size = sizeof stats};
    ein_program_get_stats(p, &stats);
    if (!json) printf("%s\n", ein_program_explain(p));
    report_begin(&r, json);
    for (int i = 0; i < p->graph.nodes.n; i++) {
        if (!ein__node_is_view(&p->graph.nodes.items[i])) report_row(&r, node_row(p, i));
    }
    i64 rest = bytes_of(&p->program, -1);
    if (rest > 0) report_row(&r, other_row("inputs and outputs", rest));
    json_t *total = other_row("total", stats.predicted_bytes);
    if (total != NULL) json_object_set_new(total, "predicted_us", report_number(stats.predicted_us));
    report_row(&r, total);
    if (!report_end(&r)) return EXIT_USAGE;
    if (!json) printf("predicted: %.1f us a run (cost model)\n", stats.predicted_us);
    return EXIT_DONE;
}

static int explain(workload *w, const char *on, bool json)
{
    char message[256] = "";
    ein_context *context;
    ein_program *p = NULL;
    ein_context_options options = {.size = sizeof options,
                                   .machine = on,
                                   .no_cache = 1,
                                   .message = message,
                                   .message_bytes = sizeof message};
    ein_status status = ein_context_create(&context, &options);
    if (status != EIN_OK) return complain(exit_of(status), "%s", message);
    status = ein_compile(&p, context, w->graph, &(ein_compile_options){.size = sizeof(ein_compile_options)});
    int result = status == EIN_OK ? print_program(p, json)
                                  : complain(exit_of(status), "%s", ein_context_error(context));
    ein_program_free(p);
    ein_context_free(context);
    return result;
}

int command_explain(int argc, char **argv)
{
    args a;
    char on[256];
    int result = args_parse(argc, argv, "devices machine json", 1, 1, &a);
    if (result == EXIT_DONE) result = args_machine(&a, on, sizeof on);
    if (result != EXIT_DONE) return result;
    workload w;
    ein_status status = workload_open(&w, a.words[0], NULL);
    result = status == EIN_OK ? explain(&w, on, a.json) : complain(exit_of(status), "%s", w.error.line);
    workload_close(&w);
    return result;
}
