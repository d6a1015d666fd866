/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls as data. A graph notes every call that built it, with its arguments: that is what graph files
 * hold, so a file means what the calls mean, and is checked by the builder as a program's calls are. */
#ifndef CORE_GRAPH_CALLS_H
#define CORE_GRAPH_CALLS_H

#include "core/graph/graph.h"

/* Kinds of arguments, and what they are in C. */
typedef enum argument_kind {
    ARGUMENT_TENSOR, ARGUMENT_MAYBE,  /* ein_tensor; {0} is refused in files, or allowed */
    ARGUMENT_TENSORS,                 /* int n, const ein_tensor * */
    ARGUMENT_SCALAR,                  /* ein_scalar; {0}: none */
    ARGUMENT_INT, ARGUMENT_LONG, ARGUMENT_REAL, /* int, int64_t, double */
    ARGUMENT_DTYPE,                   /* ein_dtype */
    ARGUMENT_TEXT,                    /* const char * */
    ARGUMENT_INTS, ARGUMENT_LONGS,    /* int n, const int * or const int64_t * */
    ARGUMENT_EACH_INT, ARGUMENT_EACH_LONG, /* const int * or const int64_t *, one per dimension of argument x */
    ARGUMENT_CONV, ARGUMENT_POOL, ARGUMENT_ATTENTION, /* const ein_..._options * */
    ARGUMENT_DATA                     /* const void *, a constant's elements */
} argument_kind;

typedef struct argument {
    int n;              /* of lists; 0 for a NULL of the caller's */
    i64 number;         /* INT, LONG, DTYPE; ids of TENSOR, MAYBE, SCALAR */
    double real;
    const void *list;   /* TEXT, lists, options, DATA: on the graph's arena; INTS become int64_t */
} argument;

enum { MAX_ARGUMENTS = 6 };

struct call_reader;
typedef struct call_form {
    const char *name;
    int n_arguments;
    const char *names[MAX_ARGUMENTS];
    argument_kind kinds[MAX_ARGUMENTS];
    /* Read the arguments and make the call; the reader gets its results. */
    void (*read)(struct call_reader *r);
} call_form;

typedef struct call {
    const call_form *form;
    const argument *arguments;
    int n_results;
    const uint32_t *results; /* ids of tensors, or of the scalar */
} call;

/* NULL if there is no such call. */
const call_form *ein__call_find(const char *name);

/* An options struct is its members; zero is absent, in calls and in files. The first, size, is no member. */
typedef enum option_kind {
    OPTION_FLAG,                  /* int; files have 1 for any that is not zero */
    OPTION_LONG, OPTION_PAIR,     /* int64_t, int64_t[2] */
    OPTION_REAL,                  /* double */
    OPTION_TENSOR, OPTION_SCALAR  /* ein_tensor, ein_scalar */
} option_kind;

typedef struct options_form {
    size_t size; /* of the struct */
    int n_members;
    const struct option_form { const char *name; option_kind kind; size_t offset; } *members;
} options_form;

/* Of CONV, POOL, ATTENTION; NULL for the other kinds. */
const options_form *ein__options_form(argument_kind kind);

/* ---- for file_read.c: reading arguments; failures stick, values are then anything ---- */
typedef struct call_reader call_reader;
ein_graph *ein__read_graph(call_reader *r);
bool ein__read_failed(const call_reader *r);
ein_tensor ein__read_tensor(call_reader *r, const char *name, bool maybe);
const ein_tensor *ein__read_tensors(call_reader *r, const char *name, int *n);
ein_scalar ein__read_scalar(call_reader *r, const char *name);
i64 ein__read_integer(call_reader *r, const char *name, i64 least, i64 most);
double ein__read_real(call_reader *r, const char *name);
ein_dtype ein__read_dtype(call_reader *r, const char *name);
const char *ein__read_text(call_reader *r, const char *name);
const int *ein__read_ints(call_reader *r, const char *name, int each, int *n); /* each >= 0: so many */
const int64_t *ein__read_longs(call_reader *r, const char *name, int each, int *n);
const void *ein__read_options(call_reader *r, const char *name, argument_kind kind);
const void *ein__read_data(call_reader *r, const char *name, ein_dtype dtype, int rank, const int64_t *shape);
/* Room for a call's results; NULL on failure. */
ein_tensor *ein__read_results(call_reader *r, int n);
void ein__read_scalar_result(call_reader *r, ein_scalar s);

#endif
