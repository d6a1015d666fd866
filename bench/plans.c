/* SPDX-License-Identifier: Apache-2.0 */
/* What the search's plans cost beside rivals', for a fixed list of models and machines, and the ledger of that. Nothing
 * runs: all times are simulated. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/ledger.h"
#include "tools/args.h"
#include "tools/report.h"
#include "tools/workload.h"

/* ---- the list ----------------------------------------------------------------------------------------- */

#define LLAMA_SIZES(name) \
    name ":batch=1,seq=1024,dtype=bf16", name ":batch=1,seq=4096,dtype=bf16", name ":batch=1,seq=16384,dtype=bf16", \
        name ":batch=8,seq=2048,dtype=bf16", name ":batch=1,seq=1,cached=2048,dtype=bf16", \
        name ":batch=32,seq=1,cached=2048,dtype=bf16"

/* Of each LLaMA four prefills and two decoding steps. */
static const char *const MODELS[] = {LLAMA_SIZES("llama-7b"),
                                     LLAMA_SIZES("llama3-8b"),
                                     LLAMA_SIZES("llama2-70b"),
                                     "gpt2:seq=1024,dtype=bf16",
                                     "vit-b16:batch=8,dtype=bf16",
                                     "mlp:dtype=bf16",
                                     "minilm:batch=32,seq=128,dtype=bf16",
                                     "moe:seq=4096,dtype=bf16"};
enum { N_MODELS = sizeof MODELS / sizeof *MODELS, LLAMAS = 18, SIZES = 6, PREFILLS = 4 };

static const char *const MACHINES[] = {"dgx-a100:0,1",         "dgx-a100:0,1,2",         "dgx-a100:0,1,2,3",
                                       "dgx-a100:0,1,2,3,4",   "dgx-a100:0,1,2,3,4,5",   "dgx-a100:0,1,2,3,4,5,6",
                                       "dgx-a100",             "2xdgx-a100",             "dgx-1:0,1,2,3",
                                       "dgx-1",                "4xpcie:0,1",             "4xpcie:0,1,2",
                                       "4xpcie"};
enum { N_MACHINES = sizeof MACHINES / sizeof *MACHINES, WHOLE = 6, PCIE = 12 };

/* Memory regimes but the usual one are for two machines. */
static bool listed(int machine, regime r) { return r == CAPPED || machine == WHOLE || machine == PCIE; }

static bool is_prefill(int model) { return model < LLAMAS && model % SIZES < PREFILLS; }

/* The rows that a test has time for. */
static bool is_quick(int model, int machine, regime r)
{
    static const int rows[][3] = {{4, WHOLE, CAPPED}, {0, PCIE, FREE}, {9, 2, CAPPED}, {18, 1, CAPPED}, {20, 9, CAPPED},
                                  {22, 2, CAPPED}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i][0] == model && rows[i][1] == machine && rows[i][2] == (int)r) return true;
    return false;
}

/* ---- the suite ---------------------------------------------------------------------------------------- */

typedef struct suite {
    args args;
    ledger ledger;
    report report;
    int code;
    struct { int n; double log_sum, least; int fit; } means[REGIMES][RIVALS]; /* over the prefills on dgx-a100 */
    int worse;  /* rows in which a rival that fits is faster */
    text lines; /* of those */
} suite;

static void print_planner(suite *s, const plan_row *r, const char *planner, const planned *x)
{
    if (!x->made) return;
    bool own = x == &r->own, bounded = own && x->bound > 0;
    report_row(&s->report,
               json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:I, s:f, s:o, s:o, s:o, s:I, s:i, s:f, s:f, s:b}", "model", r->model,
                         "devices", r->devices, "machine", r->machine, "weights", REGIME_NAMES[r->regime], "planner", planner,
                         "origin", own ? "search" : "rule", "bytes", (json_int_t)x->bytes, "predicted_us", x->us, "bound_us",
                         bounded ? json_real(x->bound) : json_null(), "gap",
                         bounded ? json_real(x->us / x->bound - 1) : json_null(), "search_ms", own ? json_real(r->search_ms) : json_null(), "states", (json_int_t)x->states,
                         "mesh_k", x->mesh, "ratio", x->us / r->own.us, "shares", x->shares, "fits", x->fits));
}

/* A line of the table: ratios alone; those that do not fit in brackets. */
static void print_ratios(suite *s, const plan_row *r)
{
    json_t *row = json_pack("{s:s, s:s, s:s, s:f}", "model", r->model, "machine", r->machine, "weights",
                            REGIME_NAMES[r->regime], "ein_us", r->own.us);
    for (int i = 0; i < RIVALS && row != NULL; i++) {
        char cell[32] = "-";
        const planned *x = &r->rivals[i];
        if (x->made) snprintf(cell, sizeof cell, x->fits ? "%.3f" : "(%.3f)", x->us / r->own.us);
        json_object_set_new(row, ein__rival_name(i), json_string(cell));
    }
    report_row(&s->report, row);
}

static void tally(suite *s, const plan_row *r, bool prefill)
{
    for (int i = 0; i < RIVALS; i++) {
        const planned *x = &r->rivals[i];
        double ratio = x->us / r->own.us;
        if (!x->made) continue;
        if (x->fits && ratio < 0.9995) {
            ein__text_add(&s->lines, "%s on %s, %s: %s %.3f\n", r->model, r->machine, REGIME_NAMES[r->regime],
                          ein__rival_name(i), ratio);
            s->worse++;
        }
        if (!prefill || strcmp(r->machine, MACHINES[WHOLE]) != 0) continue;
        s->means[r->regime][i].log_sum += log(ratio);
        if (s->means[r->regime][i].n == 0 || ratio < s->means[r->regime][i].least) s->means[r->regime][i].least = ratio;
        s->means[r->regime][i].fit += x->fits;
        s->means[r->regime][i].n++;
    }
}

static int take_row(suite *s, const plan_row *r, bool prefill)
{
    text why = {0};
    if (s->args.json) {
        print_planner(s, r, "ein", &r->own);
        for (int i = 0; i < RIVALS; i++) print_planner(s, r, ein__rival_name(i), &r->rivals[i]);
    } else {
        print_ratios(s, r);
    }
    tally(s, r, prefill);
    if (s->args.write && ledger_set(&s->ledger, r) != EIN_OK) return complain(EXIT_USAGE, "out of memory for the ledger");
    if (!s->args.check || ledger_agrees(&s->ledger, r, &why)) return EXIT_DONE;
    complain(0, "%s on %s, %s differs from %s:%s", r->model, r->machine, REGIME_NAMES[r->regime], s->ledger.path,
             ein__text_get(&why));
    ein__text_free(&why);
    s->code = EXIT_WRONG;
    return EXIT_DONE;
}

static int make_row(suite *s, const workload *w, const char *model, const char *machine, regime r, bool prefill)
{
    plan_row row;
    bool done;
    error e = {0};
    ein_status status = plan_row_make(&w->graph->g, model, machine, r, &row, &done, &e);
    int code = status != EIN_OK ? complain(exit_of(status), "%s on %s: %s", model, machine, e.line)
               : done           ? take_row(s, &row, prefill)
                                : EXIT_DONE;
    ein__error_reset(&e);
    return code;
}

static bool is_wanted(const suite *s, int model, int machine, regime r)
{
    const char *name = s->args.machine;
    if (!listed(machine, r) || (s->args.quick && !is_quick(model, machine, r))) return false;
    return name == NULL || strcmp(name, MACHINES[machine]) == 0;
}

static int list_rows(suite *s, int model)
{
    workload w;
    int code = EXIT_DONE, rows = 0;
    for (int m = 0; m < N_MACHINES; m++)
        for (int r = 0; r < REGIMES; r++) rows += is_wanted(s, model, m, (regime)r);
    if (rows == 0) return EXIT_DONE;
    ein_status status = workload_open(&w, MODELS[model], NULL, NULL);
    if (status != EIN_OK) code = complain(exit_of(status), "%s", w.error.line);
    for (int m = 0; m < N_MACHINES; m++)
        for (int r = 0; r < REGIMES && code == EXIT_DONE; r++)
            if (is_wanted(s, model, m, (regime)r))
                code = make_row(s, &w, MODELS[model], MACHINES[m], (regime)r, is_prefill(model));
    workload_close(&w);
    return code;
}

/* A model of the user's, in all regimes. */
static int one_model(suite *s, const char *model, const char *machine)
{
    workload w;
    ein_status status = workload_open(&w, model, NULL, NULL);
    int code = status == EIN_OK ? EXIT_DONE : complain(exit_of(status), "%s", w.error.line);
    for (int r = 0; r < REGIMES && code == EXIT_DONE; r++) code = make_row(s, &w, model, machine, (regime)r, false);
    workload_close(&w);
    return code;
}

static void print_means(suite *s)
{
    report r;
    int rows = s->means[CAPPED][0].n + s->means[FREE][0].n + s->means[REAL][0].n;
    if (rows > 0)
        puts("\nprefill of LLaMA-7B, LLaMA-3-8B, LLaMA-2-70B on dgx-a100, geometric means of a rival's simulated time / ein's");
    report_begin(&r, false);
    for (int k = 0; k < REGIMES; k++)
        for (int i = 0; i < RIVALS; i++) {
            int n = s->means[k][i].n;
            if (n == 0) continue;
            report_row(&r, json_pack("{s:s, s:s, s:f, s:f, s:i, s:i}", "weights", REGIME_NAMES[k], "rival", ein__rival_name(i),
                                     "mean", exp(s->means[k][i].log_sum / n), "least", s->means[k][i].least, "rows", n,
                                     "rows_that_fit", s->means[k][i].fit));
        }
    report_end(&r);
    printf("\n%d times a rival that fits is faster:\n%s", s->worse, ein__text_get(&s->lines));
}

static int write_ledger(suite *s)
{
    arena a = {NULL};
    error e = {0};
    const char *keys[N_MODELS * N_MACHINES * REGIMES];
    int n = 0;
    bool ok = true;
    for (int i = 0; i < N_MODELS; i++)
        for (int m = 0; m < N_MACHINES; m++)
            for (int r = 0; r < REGIMES && ok; r++) {
                text key = {0};
                plan_row_key(MODELS[i], MACHINES[m], (regime)r, &key);
                ok = ein__text_status(&key) == EIN_OK && (keys[n++] = ein__arena_strdup(&a, key.bytes)) != NULL;
                ein__text_free(&key);
            }
    ein_status status = ok ? ledger_write(&s->ledger, n, keys, &e) : EIN_NO_MEMORY;
    ein__arena_free(&a);
    return status == EIN_OK ? EXIT_DONE : complain(exit_of(status), "%s: %s", s->ledger.path, e.line);
}

static int run_rows(suite *s)
{
    int code = EXIT_DONE;
    if (s->args.n_words > 0) return one_model(s, s->args.words[0], s->args.machine != NULL ? s->args.machine : "dgx-a100");
    for (int i = 0; i < N_MODELS && code == EXIT_DONE; i++) code = list_rows(s, i);
    if (code == EXIT_DONE && s->args.write) code = write_ledger(s);
    return code;
}

int suite_plans(int argc, char **argv)
{
    suite s = {.code = EXIT_DONE};
    error e = {0};
    int code = args_parse(argc, argv, "machine json quick check write ledger", 0, 1, &s.args);
    if (code != EXIT_DONE) return code;
    if (s.args.n_words > 0 && (s.args.check || s.args.write))
        return complain(EXIT_USAGE, "--check and --write are of the list, not of a MODEL");
    if (ledger_read(&s.ledger, s.args.ledger != NULL ? s.args.ledger : "bench/ledger.csv", !s.args.check, &e) != EIN_OK)
        return complain(EXIT_USAGE, "%s", e.line);
    if (s.args.check && !ledger_header_fits(&s.ledger)) code = complain(EXIT_WRONG, "%s has other columns", s.ledger.path);
    report_begin(&s.report, s.args.json);
    if (code == EXIT_DONE) code = run_rows(&s);
    if (!report_end(&s.report)) code = EXIT_USAGE;
    if (code == EXIT_DONE && !s.args.json && s.args.n_words == 0) print_means(&s);
    ein__text_free(&s.lines);
    ledger_free(&s.ledger);
    ein__error_reset(&e);
    return code != EXIT_DONE ? code : s.code;
}
