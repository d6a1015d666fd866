/* SPDX-License-Identifier: Apache-2.0 */
/* ein explain MODEL: the plan alone, for any machine, without weights: how each op is cut, where its result
 * lies, what it fetches and costs, and what else it could have been. */
#define _XOPEN_SOURCE 700
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "tools/args.h"
#include "tools/commands.h"
#include "tools/explain.h"
#include "tools/session.h"

typedef ein_status (*rows)(explained *x, int node, report *r);

static ein_status ops(explained *x, int node, report *r)
{
    (void)node;
    return explained_ops(x, r);
}

static ein_status memory(explained *x, int node, report *r)
{
    (void)node;
    return explained_memory(x, r);
}

static ein_status rivals(explained *x, int node, report *r)
{
    (void)node;
    return explained_rivals(x, r);
}

static int print_report(explained *x, rows of, int node, bool json)
{
    report r;
    report_begin(&r, json);
    ein_status status = of(x, node, &r);
    bool printed = report_end(&r);
    if (status != EIN_OK) return complain(exit_of(status), "%s", x->error.line[0] != 0 ? x->error.line : "out of memory");
    return printed ? EXIT_DONE : EXIT_USAGE;
}

static int print_all(explained *x, bool json)
{
    static const rows tables[] = {ops, memory, rivals};
    static const char *const titles[] = {"simulated times; runner_up_us is that of the whole plan", "\nmemory at most",
                                         "\nrivals: ratio of their time to this plan's; weights in shares of a device"};
    int result = EXIT_DONE;
    for (int i = 0; i < (json ? 1 : 3) && result == EXIT_DONE; i++) {
        if (!json) puts(titles[i]);
        result = print_report(x, tables[i], -1, json);
    }
    if (x->best_rival != NULL && !json)
        printf("\nbest rival that fits: %s, %.3f times this plan's time\n", x->best_rival, x->best_ratio);
    return result;
}

static int print_why(explained *x, const char *op, bool json)
{
    int node = explained_node(x, op);
    return node >= 0 ? print_report(x, explained_why, node, json) : EXIT_USAGE;
}

static int print_program(ein_program *p, const args *a)
{
    explained x;
    ein_status status = explained_open(&x, p);
    int result = status != EIN_OK  ? complain(exit_of(status), "%s", x.error.line)
                 : a->why != NULL ? print_why(&x, a->why, a->json)
                                  : print_all(&x, a->json);
    explained_close(&x);
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
    int result = status == EIN_OK ? print_program(p, a) : complain(exit_of(status), "%s", message);
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
    int result = args_parse(argc, argv, "devices machine json save graph why", 1, 1, &a);
    if (result == EXIT_DONE) result = args_machine(&a, on, sizeof on);
    if (result != EXIT_DONE) return result;
    workload w;
    ein_status status = workload_open(&w, a.words[0], NULL, NULL);
    result = status == EIN_OK ? explain(&w, on, &a) : complain(exit_of(status), "%s", w.error.line);
    workload_close(&w);
    return result;
}
