/* SPDX-License-Identifier: Apache-2.0 */
/* One table of options; a command names those that it takes. */
#include "tools/args.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int complain(int code, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("ein: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    return code;
}

int exit_of(ein_status status)
{
    switch (status) {
    case EIN_OK: return EXIT_DONE;
    case EIN_NO_DEVICE: return EXIT_MISSING;
    case EIN_DEVICE_FAILED:
    case EIN_COMPILE_FAILED:
    case EIN_INTERNAL: return EXIT_WRONG;
    default: return EXIT_USAGE;
    }
}

typedef enum kind { FLAG, NUMBER, TEXT } kind;

typedef struct option {
    const char *name;
    kind kind;
    size_t offset;
    long least, most;
} option;

static const option OPTIONS[] = {
    {"devices", NUMBER, offsetof(args, devices), 1, 16},
    {"machine", TEXT, offsetof(args, machine), 0, 0},
    {"target", TEXT, offsetof(args, target), 0, 0},
    {"check", FLAG, offsetof(args, check), 0, 0},
    {"repeat", NUMBER, offsetof(args, repeat), 1, 1000000},
    {"json", FLAG, offsetof(args, json), 0, 0},
    {"plan", TEXT, offsetof(args, plan), 0, 0},
    {"save", TEXT, offsetof(args, save), 0, 0},
    {"explain", FLAG, offsetof(args, explain), 0, 0},
    {"progress", FLAG, offsetof(args, progress), 0, 0},
    {"quick", FLAG, offsetof(args, quick), 0, 0},
    {"tokens", TEXT, offsetof(args, tokens), 0, 0},
    {"tokens-file", TEXT, offsetof(args, tokens_file), 0, 0},
    {"generate", NUMBER, offsetof(args, generate), 1, 1 << 24},
    {"stop-at-eos", FLAG, offsetof(args, stop_at_eos), 0, 0},
    {"dtype", TEXT, offsetof(args, dtype), 0, 0},
    {"write", FLAG, offsetof(args, write), 0, 0},
    {"ledger", TEXT, offsetof(args, ledger), 0, 0},
    {"why", TEXT, offsetof(args, why), 0, 0},
    {"graph", TEXT, offsetof(args, graph), 0, 0},
    {"input", TEXT, offsetof(args, input), 0, 0},
    {"output", TEXT, offsetof(args, output), 0, 0},
    {"bytes", NUMBER, offsetof(args, bytes), 0, 1L << 50},
};
enum { N_OPTIONS = sizeof OPTIONS / sizeof *OPTIONS };

/* `name` is one of the blank-separated words of `list`. */
static bool listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *s = list; (s = strstr(s, name)) != NULL; s += n) {
        if ((s == list || s[-1] == ' ') && (s[n] == 0 || s[n] == ' ')) return true;
    }
    return false;
}

static int set_number(const option *o, const char *value, args *out)
{
    char *end = NULL;
    long v = value[0] >= '0' && value[0] <= '9' ? strtol(value, &end, 10) : -1;
    if (v < o->least || v > o->most || *end != 0) {
        return complain(EXIT_USAGE, "--%s %s: wanted an integer from %ld to %ld", o->name, value, o->least,
                        o->most);
    }
    void *field = (char *)out + o->offset;
    if (o->offset == offsetof(args, bytes)) {
        *(long *)field = v;
    } else {
        *(int *)field = (int)v;
    }
    return EXIT_DONE;
}

/* "--name", "--name value" or "--name=value" at argv[*i]. */
static int read_option(int argc, char **argv, int *i, const char *takes, args *out)
{
    const char *name = argv[*i] + 2, *value = strchr(name, '=');
    int length = value != NULL ? (int)(value - name) : (int)strlen(name), k = 0;
    while (k < N_OPTIONS &&
           (strncmp(OPTIONS[k].name, name, (size_t)length) != 0 || OPTIONS[k].name[length] != 0))
        k++;
    if (k == N_OPTIONS || !listed(takes, OPTIONS[k].name)) {
        return complain(EXIT_USAGE, "unknown option --%.*s (this command takes: %s)", length, name,
                        takes[0] != 0 ? takes : "none");
    }
    const option *o = &OPTIONS[k];
    void *field = (char *)out + o->offset;
    if (o->kind == FLAG) {
        if (value != NULL) return complain(EXIT_USAGE, "--%s takes no value", o->name);
        *(bool *)field = true;
        return EXIT_DONE;
    }
    if (value != NULL) {
        value++;
    } else if (++*i < argc) {
        value = argv[*i];
    } else {
        return complain(EXIT_USAGE, "--%s needs a value", o->name);
    }
    if (o->kind == NUMBER) return set_number(o, value, out);
    memcpy(field, &value, sizeof value);
    return EXIT_DONE;
}

int args_parse(int argc, char **argv, const char *takes, int least_words, int most_words, args *out)
{
    *out = (args){.bytes = -1};
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0) {
            int code = read_option(argc, argv, &i, takes, out);
            if (code != EXIT_DONE) return code;
        } else if (out->n_words < most_words) {
            out->words[out->n_words++] = argv[i];
        } else {
            return complain(EXIT_USAGE, "unexpected word \"%s\"", argv[i]);
        }
    }
    if (out->n_words >= least_words) return EXIT_DONE;
    return complain(EXIT_USAGE, "MODEL is missing; see ein --help");
}

/* What --target and --devices mean together. */
static int usual_machine(const args *a, char *out, int room)
{
    bool gpus = a->target != NULL && strcmp(a->target, "cuda") == 0;
    if (a->target != NULL && !gpus && strcmp(a->target, "host") != 0)
        return complain(EXIT_USAGE, "--target %s: known are host and cuda", a->target);
    if (gpus && a->devices == 0) snprintf(out, (size_t)room, "cuda");
    else snprintf(out, (size_t)room, "%s:%d", gpus ? "cuda" : "host", a->devices > 0 ? a->devices : 1);
    return EXIT_DONE;
}

int args_machine(const args *a, char *out, int room)
{
    char usual[16];
    int code = usual_machine(a, usual, sizeof usual);
    if (code != EXIT_DONE) return code;
    if (a->machine != NULL && a->devices > 0 && strcmp(a->machine, usual) != 0) {
        return complain(EXIT_USAGE, "--devices %d and --machine %s: give one of them", a->devices,
                        a->machine);
    }
    if (a->machine != NULL && a->target != NULL && strncmp(a->machine, a->target, strlen(a->target)) != 0)
        return complain(EXIT_USAGE, "--target %s and --machine %s: give one of them", a->target, a->machine);
    if (snprintf(out, (size_t)room, "%s", a->machine != NULL ? a->machine : usual) < room) return EXIT_DONE;
    return complain(EXIT_USAGE, "--machine is longer than %d bytes", room - 1);
}
