/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that runs out anywhere: the n-th allocation of a call fails, for every n until none does. The call
 * says EIN_NO_MEMORY, or succeeds where it can do without, and leaves nothing behind. */
#define _XOPEN_SOURCE 700
#include <ftw.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "tests/api/fixture.h"

enum { B = 1, T = 6, H = 2, W = 4, D = H * W, ROOM = 64 };

/* ---- a folder with a compiler that remembers ----------------------------------------------------------- */

static char folder[64], cache[80];

/* The system's compiler, but each text is compiled once: failures come by the thousand. */
static const char compiler[] =
    "#!/bin/sh\n"
    "[ \"$1\" = --version ] && echo 'remembering cc 1' && exit\n"
    "kept=${0%/*}/$(cksum < \"$3\" | tr ' ' -)\n"
    "[ -f \"$kept\" ] || { cc \"$@\" && cp \"$2\" \"$kept\"; }\n"
    "cp \"$kept\" \"$2\"\n";

static int make_folder(void **state)
{
    char path[96];
    (void)state;
    strcpy(folder, "/tmp/ein-test-oom-XXXXXX");
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(cache, sizeof cache, "%s/cache", folder);
    snprintf(path, sizeof path, "%s/cc", folder);
    FILE *f = fopen(path, "w");
    if (f == NULL || fputs(compiler, f) < 0 || fclose(f) != 0) return -1;
    return chmod(path, 0700) == 0 && setenv("EIN_CC", path, 1) == 0 ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *place)
{
    (void)s, (void)kind, (void)place;
    return remove(path);
}

static void remove_tree(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

static int remove_folder(void **state)
{
    (void)state;
    remove_tree(folder);
    return 0;
}

/* ---- every kind of op --------------------------------------------------------------------------------- */

static const char *const text_ij[] = {"i,j"}, *const text_i[] = {"i"}, *const add[] = {"a0 + b0"};
static const ein_label labels[] = {{.name = "i"}, {.name = "j"}};

static ein_tensor squares(ein_graph *g, ein_tensor x)
{
    static const double zero = 0;
    ein_op op = {.size = sizeof op, .name = "squares", .version = "1", .n_labels = 2, .labels = labels, .n_operands = 1,
                 .operands = text_ij, .n_results = 1, .results = text_i, .n_states = 1, .states = text_i, .identity = &zero,
                 .combine = add, .grid = "n_i",
                 .kernel = "STEP_N(1) { float s = 0.0f; for (i64 j = 0; j < n_j; j++) { float x = LD(x0, bx * s_x0_i + "
                           "j * s_x0_j); s = s + x * x; } ST(y0, bx * s_y0_i, s); }\n"};
    ein_tensor y = NONE;
    ein_custom(g, &op, &x, &y);
    return y;
}

/* Parameters, of D x D each: "table", "w0", "w1". The store has all in f32, so w1 is converted. */
static void build(ein_graph *g)
{
    ein_tensor cosine, sine;
    ein_scalar at = ein_scalar_input(g, "at");
    ein_rope_tables(g, 32, W, 10000, &cosine, &sine);
    ein_tensor x = ein_embedding(g, ein_input(g, "ids", EIN_I32, SHAPE(T)), ein_parameter(g, "table", EIN_F32, SHAPE(D, D)));
    for (int i = 0; i < 2; i++) {
        ein_dtype d = i == 0 ? EIN_F32 : EIN_BF16;
        ein_tensor w = ein_parameter(g, i == 0 ? "w0" : "w1", d, SHAPE(D, D));
        x = ein_add(g, x, ein_silu(g, ein_linear(g, ein_cast(g, ein_rms_norm(g, x, NONE, 1e-5), d), w, NONE)));
    }
    ein_tensor q = ein_rope(g, ein_reshape(g, x, SHAPE(B, T, H, W)), cosine, sine, at);
    q = ein_permute(g, q, (int[]){0, 2, 1, 3});
    ein_tensor k = ein_state_append(g, ein_state_tensor(g, "cache", EIN_F32, SHAPE(B, H, 16, W)), q, 2, at);
    ein_attention_options o = {.size = sizeof o, .causal = 1, .position = at};
    ein_output(g, "seen", ein_scaled_dot_product_attention(g, q, k, k, &o));
    x = ein_concat(g, 2, (ein_tensor[]){ein_slice(g, x, 0, 0, 2), x}, 0);
    ein_output(g, "squares", squares(g, x));
    ein_output(g, "total", ein_sum(g, ein_softmax(g, x, 0), 0, NULL, 0));
}

static const int64_t sizes[] = {B * H * T * W, T + 2, 1};
static const char *const names[] = {"seen", "squares", "total"};

/* ---- the pieces that fail ------------------------------------------------------------------------------ */

typedef struct trial {
    session s;
    ein_state *state;
    bool cached;
} trial;

static ein_status make_context(trial *t)
{
    ein_context_options o = {.size = sizeof o, .machine = "host:3", .cache_dir = cache, .no_cache = !t->cached};
    return ein_context_create(&t->s.c, &o);
}

static ein_status make_graph(trial *t)
{
    TRY(ein_graph_create(&t->s.g));
    build(t->s.g);
    return ein_graph_status(t->s.g);
}

static ein_status make_weights(trial *t)
{
    static float data[D * D];
    for (int i = 0; i < D * D; i++) data[i] = (float)(i % 5) / 4 - 0.5f;
    TRY(ein_weights_create(&t->s.w, t->s.c));
    TRY(ein_weights_add(t->s.w, "table", EIN_F32, SHAPE(D, D), data, EIN_COPY));
    TRY(ein_weights_add(t->s.w, "w0", EIN_F32, SHAPE(D, D), data, EIN_COPY));
    return ein_weights_add(t->s.w, "w1", EIN_F32, SHAPE(D, D), data, EIN_BORROW);
}

static ein_status make_program(trial *t)
{
    ein_compile_options o = {.size = sizeof o, .weights = t->s.w};
    return ein_compile(&t->s.p, t->s.c, t->s.g, &o);
}

static ein_status make_run(trial *t)
{
    TRY(ein_state_create(&t->state, t->s.p));
    return ein_run_create(&t->s.r, t->s.p);
}

static ein_status (*const pieces[])(trial *t) = {make_context, make_graph, make_weights, make_program, make_run};
enum { CONTEXT, GRAPH, WEIGHTS, PROGRAM, RUN, N_PIECES };

/* A run allocates nothing, and what it computes does not depend on what failed before it. */
static void run_and_compare(trial *t)
{
    static float first[3][ROOM];
    static bool known;
    float y[3][ROOM] = {{0}};
    int32_t ids[T] = {3, 1, 4, 1, 5, 7};
    long before = ein__alloc_count();
    assert_int_equal(ein_run_input(t->s.r, "ids", ids, sizeof ids), EIN_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ein_run_output(t->s.r, names[i], y[i], (size_t)sizes[i] * sizeof **y), EIN_OK);
    assert_int_equal(ein_run_scalar(t->s.r, "at", 2), EIN_OK);
    assert_int_equal(ein_run_state(t->s.r, t->state), EIN_OK);
    session_once(&t->s);
    assert_int_equal(ein__alloc_count(), before);
    if (!known) memcpy(first, y, sizeof y);
    known = true;
    assert_memory_equal(y, first, sizeof y);
    assert_float_equal(y[2][0], D, 1e-5); /* columns of a softmax */
}

static void close_trial(trial *t)
{
    ein_state_free(t->state);
    session_close(&t->s);
    *t = (trial){.cached = t->cached};
}

/* Piece `failing` with its n-th allocation failing; the others as usual. True if none failed any more. */
static bool fail_once(int failing, long n, bool cached)
{
    trial t = {.cached = cached};
    ein_status status = EIN_OK;
    bool reached = false;
    long live = ein__alloc_live();
    for (int i = 0; i < N_PIECES && status == EIN_OK; i++) {
        long before = ein__alloc_count();
        if (i == failing) ein__alloc_fail_at(n);
        status = pieces[i](&t);
        ein__alloc_fail_at(0);
        if (i == failing) reached = ein__alloc_count() - before >= n;
        if (i != failing && status != EIN_OK) fail_msg("piece %d: %s", i, ein_context_error(t.s.c));
    }
    if (status != EIN_OK && status != EIN_NO_MEMORY)
        fail_msg("piece %d, allocation %ld: %s: %s", failing, n, ein_status_name(status), ein_context_error(t.s.c));
    if (status != EIN_OK && failing >= WEIGHTS) assert_true(ein_context_error(t.s.c)[0] != 0);
    if (!reached) assert_int_equal(status, EIN_OK);
    if (status == EIN_OK) run_and_compare(&t);
    close_trial(&t);
    if (ein__alloc_live() != live)
        fail_msg("piece %d, allocation %ld: %ld allocations are left", failing, n, ein__alloc_live() - live);
    return !reached;
}

/* Every n at first, then steps of a prime's size: about `most` trials. */
static void fail_all(int failing, bool cached, int most)
{
    trial t = {.cached = cached};
    for (int i = 0; i < failing; i++) assert_int_equal(pieces[i](&t), EIN_OK);
    long before = ein__alloc_count();
    assert_int_equal(pieces[failing](&t), EIN_OK);
    long all = ein__alloc_count() - before, step = 1 + all / most;
    close_trial(&t);
    long n = 1;
    while (!fail_once(failing, n, cached)) n += n < most / 4 ? 1 : step;
    assert_true(n > 1 && n <= all + 16 + step);
}

static void contexts(void **state)
{
    (void)state;
    fail_all(CONTEXT, true, 100);
}

static void graphs(void **state)
{
    (void)state;
    fail_all(GRAPH, false, 400);
}

static void stores(void **state)
{
    (void)state;
    fail_all(WEIGHTS, false, 100);
}

static void programs_without_cache(void **state)
{
    (void)state;
    fail_all(PROGRAM, false, 300);
}

static void programs_from_cache(void **state)
{
    (void)state;
    fail_all(PROGRAM, true, 300);
}

/* With the entry removed before each trial: a failing write of it is no failure. */
static void programs_into_cache(void **state)
{
    trial t = {.cached = true};
    (void)state;
    remove_tree(cache);
    for (int i = 0; i < PROGRAM; i++) assert_int_equal(pieces[i](&t), EIN_OK);
    long before = ein__alloc_count();
    assert_int_equal(make_program(&t), EIN_OK);
    long all = ein__alloc_count() - before;
    close_trial(&t);
    for (long n = all - 60 > 0 ? all - 60 : 1; n <= all + 2; n++) {
        remove_tree(cache);
        fail_once(PROGRAM, n, true);
    }
}

static void runs(void **state)
{
    (void)state;
    fail_all(RUN, false, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts),            cmocka_unit_test(graphs),
        cmocka_unit_test(stores),              cmocka_unit_test(programs_without_cache),
        cmocka_unit_test(programs_from_cache), cmocka_unit_test(programs_into_cache),
        cmocka_unit_test(runs),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
