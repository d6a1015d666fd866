/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench.h"

#include <stdio.h>
#include <string.h>

#include "tools/args.h"

static const char HELP[] = "usage: ein-bench SUITE [MODEL] [--devices N | --machine M] [--quick] [--json]\n"
                           "\n"
                           "  ein-bench jit       search, synthesis, compile, cold and warm start\n"
                           "  ein-bench kernels   every kernel text of a program through NVRTC\n"
                           "  ein-bench plans     plans beside rivals', simulated; [--check | --write] [--ledger FILE]\n"
                           "                      compares the list with bench/ledger.csv, or writes it\n"
                           "  ein-bench gpu       what the GPUs here do; MODEL is a part: about, launches, copies, products,\n"
                           "                      blocks; [--quick] [--json]\n"
                           "  ein-bench exchange  known patterns: bandwidth over bound, simulated times\n";

int main(int argc, char **argv)
{
    const char *suite = argc > 1 ? argv[1] : "";
    if (strcmp(suite, "--help") == 0) {
        fputs(HELP, stdout);
        return EXIT_DONE;
    }
    if (strcmp(suite, "jit") == 0) return suite_jit(argc - 2, argv + 2);
    if (strcmp(suite, "kernels") == 0) return suite_kernels(argc - 2, argv + 2);
    if (strcmp(suite, "plans") == 0) return suite_plans(argc - 2, argv + 2);
    if (strcmp(suite, "gpu") == 0) return suite_gpu(argc - 2, argv + 2);
    if (strcmp(suite, "exchange") == 0) return suite_exchange(argc - 2, argv + 2);
    fputs(HELP, stderr);
    return EXIT_USAGE;
}
