/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines: words and "--name value" options, and the exit codes of every command. */
#ifndef TOOLS_ARGS_H
#define TOOLS_ARGS_H

#include <stdbool.h>

#include "ein/status.h"

enum { EXIT_DONE = 0, EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_MISSING = 3 };

/* What failed, as an exit code: input is 2, a missing device, target or compiler 3, the rest 1. */
int exit_of(ein_status status);

/* All options that any command has. A command names those that it takes. */
typedef struct args {
    const char *words[8]; /* MODEL, ... */
    int n_words;
    int devices; /* 0: not given */
    const char *machine, *target, *plan, *save;
    const char *tokens, *tokens_file, *dtype, *graph, *input, *output, *why, *ledger;
    bool check, json, explain, progress, quick, write, stop_at_eos;
    int repeat;   /* 0: not given */
    int generate;
    long bytes;
} args;

/* `takes`: names of options, separated by blanks, as "devices json". Reports to stderr what is wrong, and
 * returns EXIT_DONE or EXIT_USAGE. */
int args_parse(int argc, char **argv, const char *takes, int least_words, int most_words, args *out);

/* "host:N" or "cuda:N" of --target and --devices, or --machine; given both, they must agree. Returns an exit code. */
int args_machine(const args *a, char *out, int room);

/* "ein: MESSAGE" to stderr; returns `code`. */
int complain(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
