/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel text of a program, compiled by NVRTC for several architectures: all that can be known of it
 * without a GPU. */
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "jit/compiler/compiler.h"
#include "jit/context.h"
#include "tools/args.h"
#include "tools/report.h"
#include "tools/session.h"

/* What the kernel does in the program: the first step that runs it. */
static const char *use_of(const program *p, int kernel)
{
    for (int d = 0; d < p->n_devices; d++) {
        for (int i = 0; i < p->devices[d].n_steps; i++) {
            const step *s = &p->devices[d].steps[i];
            if (s->kind == STEP_KERNEL && s->kernel == kernel) return s->what;
        }
    }
    return "-";
}

static ein_status compile_kernel(const kernel_text *k, const char *architecture, nvrtc_result *out, error *e)
{
    text source = {0};
    ein_status status = ein__kernel_source(READ_CUDA, false, &k, 1, &source);
    if (status == EIN_OK) status = ein__nvrtc_compile(source.bytes, architecture, NULL, out, e);
    ein__text_free(&source);
    return status;
}

static int bench_program(const char *name, const program *p, report *r)
{
    static const char *const architectures[] = {"sm_80", "sm_90", "sm_100"};
    for (int k = 0; k < p->n_kernels; k++) {
        for (int i = 0; i < 3; i++) {
            nvrtc_result made;
            error e = {0};
            ein_status status = compile_kernel(&p->kernels[k], architectures[i], &made, &e);
            if (status != EIN_OK) {
                complain(0, "%s: %s for %s: %s", name, use_of(p, k), architectures[i], e.line);
                if (e.detail != NULL) fprintf(stderr, "%s\n", e.detail);
                ein__error_reset(&e);
                return exit_of(status);
            }
            report_row(r, json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:o}", "model", name, "family",
                                    use_of(p, k), "variant", p->kernels[k].name, "arch", architectures[i],
                                    "registers", made.registers, "spill_bytes", made.spill_bytes,
                                    "stack_bytes", made.stack_bytes, "shared_bytes", made.shared_bytes,
                                    "compile_ms", report_number(made.compile_ms)));
        }
    }
    return EXIT_DONE;
}

static int bench_model(const char *name, const char *on, report *r)
{
    char message[256];
    workload w;
    ein_context *context = NULL;
    ein_program *p = NULL;
    ein_status status = workload_open(&w, name, NULL, NULL);
    int result = exit_of(status);
    if (status != EIN_OK) {
        complain(0, "%s", w.error.line);
    } else {
        status = session_plan(&w, on, &context, &p, message);
        result =
            status == EIN_OK ? bench_program(name, &p->program, r) : complain(exit_of(status), "%s", message);
    }
    ein_program_free(p);
    ein_context_free(context);
    workload_close(&w);
    return result;
}

int suite_kernels(int argc, char **argv)
{
    static const char *const quick[] = {"llama-7b:layers=1,seq=128", NULL};
    static const char *const full[] = {"llama-7b:layers=2,seq=512", "llama2-70b:layers=2,seq=512,head=1",
                                       "llama3-8b:layers=2,seq=1,cached=2048", "mlp", NULL};
    args a;
    char on[256];
    int result = args_parse(argc, argv, "devices machine json quick", 0, 1, &a);
    if (result == EXIT_DONE && a.devices == 0 && a.machine == NULL) a.devices = 4;
    if (result == EXIT_DONE) result = args_machine(&a, on, sizeof on);
    if (result != EXIT_DONE) return result;
    const char *one[] = {a.words[0], NULL};
    const char *const *names = a.n_words > 0 ? one : a.quick ? quick : full;
    report r;
    report_begin(&r, a.json);
    for (int i = 0; result == EXIT_DONE && names[i] != NULL; i++) result = bench_model(names[i], on, &r);
    if (!report_end(&r)) return EXIT_USAGE;
    return result;
}
