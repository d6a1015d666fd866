/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX's node tests, each on 1, 2, 3 and 8 devices. Many cases are one graph, so that there are few calls of the
 * compiler; on one device the search plans it, on more it is cut at random, as cases this small would otherwise stay
 * on one. A graph is compiled and run by a child process. A case that did not pass and did not say why is tried again
 * alone: whatever stopped the graph was perhaps another. */
#define _DEFAULT_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/random_plan.h"
#include "tests/onnx/cases.h"

enum { FLOOR = 400, BATCH = 100, SECONDS = 600, MAX_JOBS = 16, COUNTS = 4 };

static const int device_counts[COUNTS] = {1, 2, 3, 8};

/* What a child found, in memory that it shares. */
typedef struct verdict {
    unsigned char passed; /* bit set of device_counts */
    bool tried;           /* alone */
    char why[256];        /* "": nothing wrong, or unknown */
} verdict;

static struct { int n; onnx_case *cases; verdict *verdicts; } suite;

static long from_environment(const char *name, long otherwise)
{
    const char *s = getenv(name);
    return s != NULL && s[0] != 0 ? atol(s) : otherwise;
}

/* ---- one graph of many cases -------------------------------------------------------------------------- */

typedef struct batch {
    int lo, hi;
    ein_graph *g;
    void **results; /* outputs of all cases, one after the other */
    int n_results;
} batch;

static void *get(size_t n)
{
    void *p = calloc(n + 1, 1);
    if (p == NULL) abort();
    return p;
}

static size_t output_bytes(const onnx_case *c, int i)
{
    return (size_t)(c->outputs[i].numel * ein__dtype_bytes(onnx_dtype(c->outputs[i].type)));
}

static void output_name(const onnx_case *c, int i, char name[256]) { snprintf(name, 256, "%s.%d", c->name, i); }

static void make_graph(batch *b)
{
    char why[160], name[256];
    ein_tensor out[ONNX_MAX_OUTPUTS];
    if (ein_graph_create(&b->g) != EIN_OK) abort();
    for (int i = b->lo; i < b->hi; i++) {
        onnx_case *c = &suite.cases[i];
        onnx_translate(c, b->g, out, why);
        for (int k = 0; k < c->model.outputs.n; k++) {
            output_name(c, k, name);
            ein_output(b->g, name, out[k]);
        }
        b->n_results += c->model.outputs.n;
    }
    b->results = get((size_t)b->n_results * sizeof *b->results);
    for (int i = b->lo, at = 0; i < b->hi; i++)
        for (int k = 0; k < suite.cases[i].model.outputs.n; k++)
            b->results[at++] = get(output_bytes(&suite.cases[i], k));
}

static void bind_case(const batch *b, ein_run *r, int i, int *at)
{
    const onnx_case *c = &suite.cases[i];
    char name[256];
    for (int k = 0; k < c->model.inputs.n; k++) {
        const onnx_tensor *x = &c->inputs[k];
        snprintf(name, sizeof name, "%s.%s", c->name, c->model.inputs.items[k].name);
        /* One that was read while the graph was built is not in it. */
        ein_run_input(r, name, x->data, (size_t)(x->numel * ein__dtype_bytes(onnx_dtype(x->type))));
    }
    for (int k = 0; k < c->model.outputs.n; k++) {
        output_name(c, k, name);
        memset(b->results[*at], 0x7f, output_bytes(c, k)); /* what nobody writes is seen */
        ein_run_output(r, name, b->results[(*at)++], output_bytes(c, k));
    }
}

static void judge(const batch *b, int i, int *at, int count)
{
    const onnx_case *c = &suite.cases[i];
    text why = {0};
    bool ok = true;
    for (int k = 0; k < c->model.outputs.n; k++) ok = onnx_compare(c, k, b->results[*at + k], &why) && ok;
    *at += c->model.outputs.n;
    if (ok) suite.verdicts[i].passed |= (unsigned char)(1 << count);
    else if (suite.verdicts[i].why[0] == 0)
        snprintf(suite.verdicts[i].why, sizeof suite.verdicts[i].why, "%d devices: %.230s", device_counts[count],
                 ein__text_get(&why));
    ein__text_free(&why);
}

static bool run_program(batch *b, ein_context *c, ein_program *p, int count, char why[256])
{
    ein_run *r = NULL;
    int at = 0;
    bool ok = ein_run_create(&r, p) == EIN_OK;
    if (!ok) snprintf(why, 256, "%.250s", ein_context_error(c));
    for (int i = b->lo; ok && i < b->hi; i++) bind_case(b, r, i, &at);
    if (ok && ein_run_once(r) != EIN_OK) {
        snprintf(why, 256, "run: %.240s", ein_run_error(r));
        ok = false;
    }
    ein_run_free(r);
    at = 0;
    for (int i = b->lo; ok && i < b->hi; i++) judge(b, i, &at, count);
    return ok;
}

/* Compile, run and compare on some devices. False with the reason if it did not come to comparing. */
static bool try_devices(batch *b, int count, uint64_t seed, char why[256])
{
    char machine[32];
    error e = {0};
    text plan = {0};
    ein_context *c = NULL;
    ein_program *p = NULL;
    int devices = device_counts[count];
    snprintf(machine, sizeof machine, "host:%d", devices);
    ein_context_options o = {.size = sizeof o, .machine = machine, .no_cache = 1, .message = why, .message_bytes = 256};
    bool ok = ein_context_create(&c, &o) == EIN_OK;
    if (ok && devices > 1 && random_plan_text(b->g, seed, devices, &plan, &e) != EIN_OK) {
        snprintf(why, 256, "no plan: %.240s", e.line);
        ok = false;
    }
    ein_compile_options how = {.size = sizeof how, .plan = devices > 1 ? ein__text_get(&plan) : NULL};
    if (ok && ein_compile(&p, c, b->g, &how) != EIN_OK) {
        snprintf(why, 256, "compile: %.240s", ein_context_error(c));
        ok = false;
    }
    ein_program_stats stats = {.size = sizeof stats};
    ein_program_get_stats(p, &stats);
    if (getenv("EIN_ONNX_TIMES") != NULL)
        fprintf(stderr, "%d..%d on %d: %d kernels, %d steps, search %.0f synth %.0f compile %.0f ms\n", b->lo, b->hi,
                devices, stats.kernels, stats.steps, stats.search_ms, stats.synth_ms, stats.compile_ms);
    ok = ok && run_program(b, c, p, count, why);
    ein_program_free(p);
    ein_context_free(c);
    ein__text_free(&plan);
    ein__error_reset(&e);
    return ok;
}

static void run_batch(int lo, int hi)
{
    batch b = {.lo = lo, .hi = hi};
    uint64_t seed = (uint64_t)from_environment("EIN_SEED", 1) * 1000003 + (uint64_t)lo * 16;
    make_graph(&b);
    for (int count = 0; count < COUNTS; count++) {
        char why[256] = "";
        if (try_devices(&b, count, seed + (uint64_t)count, why) || hi - lo > 1) continue;
        if (suite.verdicts[lo].why[0] == 0)
            snprintf(suite.verdicts[lo].why, sizeof suite.verdicts[lo].why, "%d devices: %.230s", device_counts[count],
                     why);
    }
}

/* ---- children ----------------------------------------------------------------------------------------- */

typedef struct job { pid_t child; int lo, hi; } job;

static pid_t start_batch(int lo, int hi)
{
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) abort();
    if (child > 0) return child;
    alarm(SECONDS);
    run_batch(lo, hi);
    _exit(0);
}

/* A child that did not come to its end: killed, or ended by a sanitizer. */
static void note_end(const job *j, int status)
{
    verdict *v = &suite.verdicts[j->lo];
    char how[64];
    if (WIFSIGNALED(status)) snprintf(how, sizeof how, "signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0) snprintf(how, sizeof how, "exit code %d", WEXITSTATUS(status));
    else return;
    if (j->hi - j->lo == 1) snprintf(v->why, sizeof v->why, "%s", how);
    else printf("cases %s to %s: %s\n", suite.cases[j->lo].name, suite.cases[j->hi - 1].name, how);
}

/* The next cases to run together from `*at` on; false: there are none. */
static bool next_job(int *at, bool alone, job *j)
{
    if (alone)
        while (*at < suite.n && (suite.verdicts[*at].passed == (1 << COUNTS) - 1 || suite.verdicts[*at].why[0] != 0))
            ++*at;
    if (*at >= suite.n) return false;
    int size = alone ? 1 : (int)from_environment("EIN_ONNX_BATCH", BATCH);
    j->lo = *at;
    j->hi = *at + size < suite.n ? *at + size : suite.n;
    *at = j->hi;
    for (int i = j->lo; i < j->hi; i++) suite.verdicts[i].tried = alone;
    return true;
}

/* As many at a time as there are cores. */
static void run_all(bool alone)
{
    job now[MAX_JOBS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN), jobs = cores < 1 ? 1 : cores > MAX_JOBS ? MAX_JOBS : cores;
    int running = 0, at = 0, status;
    for (;;) {
        if (running < jobs && next_job(&at, alone, &now[running])) {
            now[running].child = start_batch(now[running].lo, now[running].hi);
            running++;
            continue;
        }
        if (running == 0) return;
        pid_t child = waitpid(-1, &status, 0);
        int i = 0;
        while (i < running && now[i].child != child) i++;
        if (i == running) abort();
        note_end(&now[i], status);
        now[i] = now[--running];
    }
}

/* ---- the suite ---------------------------------------------------------------------------------------- */

typedef struct skip { const char *name; char why[160]; } skip;

/* Whether the case can be built, alone, and its outputs have the right types and shapes. `failed`: it should. */
static bool build_alone(onnx_case *c, char why[160], bool *failed)
{
    ein_graph *g = NULL;
    ein_tensor out[ONNX_MAX_OUTPUTS] = {{0}};
    if (ein_graph_create(&g) != EIN_OK) abort();
    bool ok = onnx_translate(c, g, out, why);
    if (ein_graph_status(g) != EIN_OK) {
        snprintf(why, 160, "%.150s", ein_graph_error(g));
        *failed = true;
        ok = false;
    }
    for (int i = 0; ok && i < c->model.outputs.n; i++) {
        const onnx_tensor *x = &c->outputs[i];
        i64 shape[EIN_MAX_RANK];
        int rank = ein_tensor_shape(g, out[i], shape);
        bool same = rank == x->rank && memcmp(shape, x->shape, (size_t)rank * sizeof *shape) == 0;
        if (same && ein_tensor_dtype(g, out[i]) == onnx_dtype(x->type)) continue;
        snprintf(why, 160, "output %d has another shape or type", i);
        *failed = true;
        ok = false;
    }
    ein_graph_free(g);
    return ok;
}

static int by_reason(const void *a, const void *b)
{
    int c = strcmp(((const skip *)a)->why, ((const skip *)b)->why);
    return c != 0 ? c : strcmp(((const skip *)a)->name, ((const skip *)b)->name);
}

static void print_skips(skip *skips, int n)
{
    qsort(skips, (size_t)n, sizeof *skips, by_reason);
    for (int i = 0; i < n; i++) printf("skipped %s: %s\n", skips[i].name, skips[i].why);
    printf("%d skipped:\n", n);
    for (int i = 0, k; i < n; i = k) {
        for (k = i; k < n && strcmp(skips[k].why, skips[i].why) == 0;) k++;
        printf("  %4d %s\n", k - i, skips[i].why);
    }
}

/* Load all, keep what can be run; how many failed already. */
static int load_suite(const char *root, char **names, int n)
{
    skip *skips = get((size_t)n * sizeof *skips);
    int n_skips = 0, failures = 0;
    suite.cases = get((size_t)n * sizeof *suite.cases);
    for (int i = 0; i < n; i++) {
        onnx_case *c = &suite.cases[suite.n];
        char why[160] = "";
        bool failed = false;
        if (onnx_load(c, root, names[i], why, &failed) && build_alone(c, why, &failed)) {
            suite.n++;
            continue;
        }
        onnx_free(c);
        if (failed) printf("FAILED %s: %s\n", names[i], why);
        failures += failed;
        if (failed) continue;
        skips[n_skips].name = names[i];
        memcpy(skips[n_skips++].why, why, sizeof why);
    }
    print_skips(skips, n_skips);
    free(skips);
    return failures;
}

static int report(void)
{
    int failures = 0, tried = 0;
    for (int i = 0; i < suite.n; i++) {
        const verdict *v = &suite.verdicts[i];
        bool ok = v->passed == (1 << COUNTS) - 1 && v->why[0] == 0;
        printf("%s %s", ok ? "passed" : "FAILED", suite.cases[i].name);
        for (int k = 0; k < COUNTS; k++)
            if (v->passed >> k & 1) printf(" %d", device_counts[k]);
        printf("%s%s%s\n", ok ? "" : ": ", v->why, ok && v->tried ? " (alone; its graph of many failed)" : "");
        failures += !ok;
        tried += v->tried;
    }
    if (failures > 0 || tried == 0) return failures;
    printf("FAILED: a graph of many cases, of which none fails alone\n");
    return 1;
}

int main(void)
{
    const char *root = getenv("EIN_ONNX_DATA"), *filter = getenv("EIN_ONNX_CASE");
    char **names;
    if (root == NULL) root = "/usr/share/libonnx-testdata/data/node";
    int n = onnx_list(root, filter != NULL ? filter : "test_", &names);
    if (n < 0) {
        printf("skipped: no %s; the package libonnx-testdata has it\n", root);
        return 77;
    }
    int failures = load_suite(root, names, n);
    suite.verdicts = mmap(NULL, (size_t)(suite.n + 1) * sizeof *suite.verdicts, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (suite.verdicts == MAP_FAILED) abort();
    run_all(false);
    run_all(true);
    failures += report();
    if (filter == NULL && suite.n - failures < FLOOR) {
        printf("FAILED: %d cases, at least %d expected\n", suite.n - failures, FLOOR);
        failures++;
    }
    printf("%d cases, each on 1 2 3 8 devices; %d failed\n", suite.n, failures);
    for (int i = 0; i < suite.n; i++) onnx_free(&suite.cases[i]);
    for (int i = 0; i < n; i++) free(names[i]);
    free(names);
    free(suite.cases);
    return failures > 0;
}
