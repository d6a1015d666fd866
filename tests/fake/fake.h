/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the fake: one state for driver, NVRTC and cuBLASLt, behind one lock. Work is a graph of tasks; a thread runs
 * ready ones in a seeded order while somebody waits. */
#ifndef TESTS_FAKE_FAKE_H
#define TESTS_FAKE_FAKE_H

#include <pthread.h>
#include <stdbool.h>

#include "core/plan/program.h"
#include "jit/library/cublaslt.h"
#include "jit/library/cuda.h"
#include "jit/library/nvrtc.h"
#include "tests/fake/control.h"
#include "tests/fake/fiber.h"

#define EXPORT                         __attribute__((visibility("default")))
#define CALL(result, name, parameters) EXPORT result name parameters;
#define OPTIONAL                       CALL
#include "jit/library/cublaslt_calls.def"
#include "jit/library/cuda_calls.def"
#include "jit/library/nvrtc_calls.def"
#undef OPTIONAL
#undef CALL

EXPORT CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr at, uint32_t value, unsigned int flags);

/* Codes that the library under test has no name for. */
enum {
    PEER_ACCESS_NOT_ENABLED = 705,
    CAPTURE_MERGE = 902,
    CAPTURE_UNMATCHED = 903,
    CAPTURE_UNJOINED = 904,
    CAPTURE_ISOLATION = 905,
    CAPTURE_IMPLICIT = 906,
    CAPTURED_EVENT = 907,
    CAPTURE_WRONG_THREAD = 908
};

/* ---- settings (settings.c) ---- */

typedef enum peer_kind { PEER_ABSENT, PEER_RIGHT, PEER_LOSES_WRITES, PEER_READS_STALE } peer_kind;

typedef struct settings {
    int devices, driver, nvrtc_major, nvrtc_minor, peer_limit, wrong_algorithm;
    int architecture[MAX_DEVICES]; /* 90: 9.0 */
    int n_known, known[32];        /* architectures that NVRTC knows */
    long long memory[MAX_DEVICES], granularity;
    unsigned long long seed;
    unsigned char peer[MAX_DEVICES][MAX_DEVICES]; /* peer_kind: device (first) in peer's memory */
    bool check;                                   /* every access of kernels, one by one */
    bool fibers;                                  /* kernels run with a fiber per thread */
    char slow[48];                                /* this call takes slow_ms */
    int slow_ms;
} settings;
void fake_settings_parse(settings *s, const char *text);

/* ---- objects: all that has a handle; kept until the next fake_configure ---- */

typedef enum object_kind {
    CONTEXT = 1,
    STREAM,
    EVENT,
    LIBRARY,
    MODULE,
    KERNEL_OF_LIBRARY,
    FUNCTION,
    GRAPH,
    NODE,
    GRAPH_EXEC,
    PHYSICAL,
    RESERVATION,
    PROGRAM,
    CAPTURE,
    LT_HANDLE,
    LT_MATMUL,
    LT_LAYOUT,
    LT_PREFERENCE
} object_kind;

typedef struct object {
    object_kind kind;
    bool live, owned;          /* owned: by another object, no leak of its own */
    long made;                 /* number of the call */
    void (*empty)(void *self); /* gives back what it owns, at the end of all; may be NULL */
    struct object *next;
} object;
void *fake_object(object_kind kind, size_t bytes);
/* A live object of that kind; what was destroyed is reported. */
bool fake_valid(const void *p, object_kind kind);

/* ---- memory (memory.c, access.c) ---- */

enum { READERS = 4 };
typedef struct physical {
    object o;
    int device;
    size_t bytes;
    int maps;
    bool released, mappable;           /* mappable: of cuMemCreate */
    uint32_t *written, *read[READERS]; /* with `check`: of a byte, who wrote it last, and readers without an order */
} physical;

/* Addresses that mean memory: [at, at + bytes) in [pages, pages + page_bytes). */
typedef struct block {
    char *at, *pages;
    size_t bytes, page_bytes, offset; /* offset in memory */
    physical *memory;
    int device;          /* HOST: pinned */
    bool virtual, freed; /* virtual: mapped by cuMemMap, access by `access` */
    bool registered;     /* memory of the process, not to be given back */
    unsigned access;     /* devices, bits */
    int protection;
    long made, gone; /* numbers of the calls */
} block;

void fake_memory_reset(void);
CUresult fake_alloc(int device, size_t bytes, CUdeviceptr *out);
CUresult fake_free(CUdeviceptr p);
block *fake_block_add(char *at, size_t bytes, physical *memory, int device);
void fake_block_remove(block *b);
block *fake_block_at(const void *p);
/* Number of the first block that ends behind p. */
int fake_block_place(const void *p);
int fake_block_count(void);
block *fake_block_number(int i);
/* Is the address one of a device's range, whether or not there is memory? */
bool fake_of_device(const void *p);
physical *fake_physical_make(int device, size_t bytes, bool mappable);
void fake_physical_drop(physical *m);
void fake_red_zones(void);
/* Addresses for `bytes`, with holes around; NULL: all are given away. */
char *fake_reserve(size_t bytes, size_t align);
/* Fresh memory on these pages. */
void fake_fresh_pages(char *pages, size_t bytes);
bool fake_fits(int device, size_t bytes);
void fake_memory_leaks(text *out);

/* May device `d` (HOST: none, so nothing) touch it now? */
bool fake_may(int d, const block *b);
/* Pages as device d sees them; -1: as the process does. */
void fake_enter_device(int d);
void fake_open_block(block *b);
/* What lies at an address, for messages. */
void fake_describe(text *out, const void *p);
/* A range for a copy by device d: its block, NULL with a report where it is none of the fake's or `d` may not. */
bool fake_range(int d, const void *p, size_t bytes, const char *what, block **out);

/* ---- work (task.c, order.c, run.c) ---- */

typedef enum operation_kind {
    DO_NOTHING,
    DO_KERNEL,
    DO_COPY,
    DO_SET,
    DO_HOST,
    DO_PRODUCT,
    DO_RECORD,
    DO_WAIT
} operation_kind;
enum { MOST_ARGUMENTS = 192, MOST_STRANDS = 1000 };

/* A product of the matrix library, column-major as it was asked for. */
typedef struct product {
    int64_t m, n, k, batch, ld[4], stride[4]; /* A, B, C, D */
    int type[4], scale_type, epilogue, bias_type, wrong;
    bool ta, tb;
    double alpha, beta;
    const void *a, *b, *c, *bias;
    void *d;
} product;

typedef struct operation {
    operation_kind kind;
    CUcontext context;
    union {
        struct {
            CUfunction function;
            long long grid[3];
            uint64_t *values;
            int n;
        } kernel;
        struct {
            char *to;
            const char *from;
            size_t width, rows, to_pitch, from_pitch;
            char *staged;
        } copy;
        struct {
            char *to;
            unsigned value;
            int element;
            size_t width, rows, pitch;
        } set;
        struct {
            CUhostFn function;
            void *user;
        } host;
        product product;
        CUevent event;
    };
} operation;

typedef struct task {
    operation what;
    int strand, refs, waits; /* waits: tasks that must be done before */
    uint32_t clock, *seen;   /* per strand, how far it is ordered before this task (its own included) */
    int n_seen;
    bool done;
    double seconds; /* when it was done */
    struct task **after;
    int n_after, room;
} task;

/* A task of a strand, behind `before` (NULLs are skipped). Takes what the operation owns. The caller has a reference.
 */
task *fake_task(const operation *what, int strand, task *const *before, int n);
task *fake_task_keep(task *t);
void fake_task_drop(task *t);
bool fake_task_done(const task *t);
/* Waits until it is done and joins its order into the host's. False: nothing can run any more. */
bool fake_task_wait(task *t);
void fake_task_poll(void);
bool fake_drain(void);
void fake_work_reset(void);
int fake_strand(void);
uint64_t fake_random(void);
void fake_operation_copy(operation *to, const operation *from);
void fake_operation_free(operation *what);
/* Executes; a fault is reported and becomes the context's error. */
void fake_run(task *t);
void fake_product(const operation *what);
/* Order: is what `epoch` names before task t? */
bool fake_ordered(const task *t, uint32_t epoch);
uint32_t fake_epoch(const task *t);
extern _Thread_local bool fake_in_work; /* this thread runs tasks */
/* With `check`: one access of a kernel; the address, or no return. */
void *fake_access(const void *p, long long index, long long size, int write);
void fake_note_range(const task *t, block *b, const char *p, size_t bytes, bool write, bool copy);

/* ---- driver ---- */

struct CUctx_st {
    object o;
    int device, retained, error;
    unsigned peers;
    task *last;
};

typedef struct capture {
    object o;
    CUgraph graph;
    CUstream origin;
    int mode;
    pthread_t thread;
    bool invalid, ended;
} capture;
typedef struct nodes {
    CUgraphNode *items;
    int n, room;
} nodes;

struct CUstream_st {
    object o;
    CUcontext context;
    bool blocking;
    int strand;
    task *tail;
    capture *capture;
    nodes tails;
};
struct CUevent_st {
    object o;
    CUcontext context;
    bool timing;
    task *task;
    capture *capture;
    nodes nodes;
};
struct CUgraphNode_st {
    object o;
    CUgraph graph;
    operation what;
    CUgraph child;
    nodes after;
};
struct CUgraph_st {
    object o;
    nodes nodes;
    bool child;
};

/* A stream or, for NULL, the current context's own; NULL and a code in `*code` where it is none. */
CUstream fake_stream(CUstream stream, CUresult *code);
CUresult fake_enqueue(CUstream stream, operation *what);
/* Is anything captured that forbids an unsafe call of this thread? Invalidates it. */
bool fake_capture_forbids(void);
void fake_nodes_add(nodes *list, CUgraphNode node);
void fake_nodes_copy(nodes *to, const nodes *from);
CUgraphNode fake_node(CUgraph graph, const operation *what, const CUgraphNode *after, size_t n);
CUgraph fake_graph(void);
void fake_graph_end(CUgraph g);
CUcontext fake_current(void);
CUresult fake_copy_check(const operation *what);

/* Images (image.c): what the fake NVRTC makes and the fake driver loads. */
typedef struct image {
    int architecture, nvrtc;
    bool ptx;
    char suffix;
    const char *source;
} image;
bool fake_image_read(const void *bytes, image *out);
void fake_image_write(text *out, const char *source, const char *architecture, int nvrtc, bool ptx);
typedef struct parameter {
    int kind, bytes;
} parameter; /* 0 in, 1 out, 2 value */
struct CUfunc_st {
    object o;
    host_entry entry;
    fiber_entry fiber; /* NULL: without `fibers` */
    const parameter *parameters;
    int n, threads, shared_limit;
    CUcontext context;
    char name[64];
};
/* What a launch or a kernel node asks for. */
typedef struct launch {
    CUfunction function;
    CUkernel kernel; /* where there is no function */
    CUcontext context;
    unsigned grid[3], block[3], shared;
    void **arguments;
} launch;
CUresult fake_launch_check(const launch *l, CUfunction *out, CUcontext *context);
void fake_launch_operation(const launch *l, CUfunction f, CUcontext c, operation *out);
typedef struct fake_module fake_module;
/* Compiles the part behind the mark for this machine. The log goes to `log`. */
ein_status fake_module_load(const char *source, fake_module **out, text *log);
/* Fills the entry, parameters, threads; false: no such kernel. */
bool fake_module_find(const fake_module *m, const char *name, CUfunction out);

/* ---- calls (calls.c) ---- */

/* What a call asks for before it does anything. */
enum {
    NEEDS_NOTHING = 0,
    NEEDS_INIT = 1,
    NEEDS_CONTEXT = 2, /* a current context without an error */
    HAS_EFFECT = 4,    /* frees or waits, even where it is made to fail */
    UNSAFE = 8         /* forbidden while a stream of this thread is captured */
};
typedef struct call {
    int code, late;
    bool dropped;
} call;
call fake_call_enter(const char *name, unsigned needs);
void fake_call_leave(call *c);
#define ENTER(needs)                                                                           \
    call call_ __attribute__((cleanup(fake_call_leave))) = fake_call_enter(__func__, (needs)); \
    if (call_.code != 0 || call_.dropped) return call_.code
/* The end of a call that has its effect in any case. */
#define LEAVE(code) return call_.late != 0 ? call_.late : (code)

/* What a seeded fault adds to the output pointers of the next kernel; usually 0. */
long long fake_next_shift(void);
void fake_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The one state. */
typedef struct fake_state {
    pthread_mutex_t lock;
    pthread_cond_t work, progress;
    settings settings;
    bool configured, initialized, starved;
    long calls;
    object *objects;
    struct CUctx_st *contexts[MAX_DEVICES];
    CUstream own_streams[MAX_DEVICES];
    capture *captures[64];
    int n_captures, n_strands, polls, host_tasks;
    uint32_t clocks[MOST_STRANDS], host_seen[MOST_STRANDS];
    task **ready;
    int n_ready, room_ready;
    uint64_t random;
    uint32_t priority[MOST_STRANDS];
    text reports;
} fake_state;
extern fake_state fake;

#endif
