/* SPDX-License-Identifier: Apache-2.0 */
/* Usage: on_gpu PROGRAM. Runs the test where there is a GPU; else says why not and exits with 77. */
#include <stdio.h>
#include <unistd.h>

#include "jit/library/cuda.h"

int main(int argc, char **argv)
{
    cuda_library cu;
    error e = {0};
    if (argc < 2) return 2;
    if (ein__cuda_open(&cu, NULL, &e) != EIN_OK) {
        fprintf(stderr, "%s\n", e.line);
        return 77;
    }
    execv(argv[1], argv + 1); /* anew: a process that has used CUDA cannot fork */
    perror(argv[1]);
    return 1;
}
