/* SPDX-License-Identifier: Apache-2.0 */
/* Where libraries are looked for, with small ones that this test builds; what a driver that cannot be used is refused
 * with. Needs a C compiler. */
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/file.h"
#include "jit/compiler/process.h"
#include "jit/compiler/scratch.h"
#include "jit/library/cublaslt.h"
#include "jit/library/cuda.h"
#include "jit/library/nvrtc.h"

static text folder; /* of this test; holds what it builds */

/* A library at folder/below/soname from C text. */
static void build(const char *below, const char *soname, const char *source)
{
    text dir = {0}, c = {0}, so = {0}, log = {0}, said = {0}, flag = {0}, cc = {0}, include = {0};
    char root[4096];
    int code;
    assert_non_null(getcwd(root, sizeof root));
    ein__text_add(&dir, "%s/%s", folder.bytes, below);
    ein__text_add(&c, "%s/unit.c", folder.bytes);
    ein__text_add(&so, "%s/%s", dir.bytes, soname);
    ein__text_add(&log, "%s/log", folder.bytes);
    ein__text_add(&flag, "-Wl,-soname,%s", soname);
    ein__text_add(&include, "%s/include", root);
    assert_int_equal(ein__file_make_dirs(dir.bytes, NULL), EIN_OK);
    assert_int_equal(ein__file_publish(c.bytes, source, strlen(source), 0600, NULL), EIN_OK);
    assert_true(ein__process_find("cc", &cc));
    const char *argv[] = {cc.bytes, "-shared", "-fPIC", "-w", "-I", root, "-I", include.bytes, flag.bytes, "-o", so.bytes,
                          c.bytes, NULL};
    assert_int_equal(ein__process_run(argv, folder.bytes, log.bytes, &code, NULL), EIN_OK);
    assert_int_equal(ein__file_read(log.bytes, 1 << 20, false, &said, NULL), EIN_OK);
    if (code != 0) fail_msg("cc: %s", ein__text_get(&said));
    text *all[] = {&dir, &c, &so, &log, &said, &flag, &cc, &include};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) ein__text_free(all[i]);
}

/* The environment names a file of the test's folder, or a word. */
static void name_file(const char *variable, const char *below)
{
    text path = {0};
    ein__text_add(&path, "%s/%s", folder.bytes, below);
    setenv(variable, path.bytes, 1);
    ein__text_free(&path);
}

static ein_status open_small(const char *const *sonames, int newest, const char *symbol, int *answer, text *path, error *e)
{
    int (*f)(void) = NULL;
    const library_symbol symbols[] = {{symbol, &f, false}};
    library_names names = {"small library", "EIN_SMALL", {sonames[0], sonames[1]}, {13, 12},
                           {"nvidia/cu13/lib", "nvidia/small/lib"}, false};
    ein_status s = ein__library_open(&names, newest, symbols, 1, path, e);
    *answer = s == EIN_OK ? f() : -1;
    return s;
}

static bool ends_in(const text *path, const char *end)
{
    size_t n = strlen(end);
    return path->n >= n && strcmp(path->bytes + path->n - n, end) == 0;
}

static void test_order(void **state)
{
    (void)state;
    static const char *const sonames[] = {"libein-small.so.13", "libein-small.so.12", NULL};
    error e = {0};
    text path = {0};
    int answer;
    assert_int_equal(open_small(sonames, 0, "answer", &answer, NULL, &e), EIN_NO_DEVICE);
    assert_string_equal(e.line, "no small library: looked for libein-small.so.13 and libein-small.so.12 on the loader's path, "
                                "below CUDA_HOME, CUDA_PATH, /usr/local/cuda, and in Python's wheels; EIN_SMALL may name the file");
    assert_int_equal(open_small(sonames, 12, "answer", &answer, NULL, &e), EIN_NO_DEVICE);
    assert_null(strstr(e.line, "so.13"));
    assert_non_null(strstr(e.line, "so.12"));

    /* What a driver of major version 12 cannot load is passed over. */
    build("wheels/lib/python3.11/site-packages/nvidia/small/lib", sonames[1], "int answer(void) { return 12; }");
    build("toolkit/lib64", sonames[0], "int answer(void) { return 13; } int only13(void) { return 1; }");
    name_file("VIRTUAL_ENV", "wheels");
    name_file("CUDA_PATH", "toolkit");
    assert_int_equal(open_small(sonames, 12, "answer", &answer, &path, &e), EIN_OK);
    assert_int_equal(answer, 12);
    assert_true(ends_in(&path, "wheels/lib/python3.11/site-packages/nvidia/small/lib/libein-small.so.12"));
    path.n = 0;
    assert_int_equal(open_small(sonames, 0, "answer", &answer, &path, &e), EIN_OK);
    assert_int_equal(answer, 13);
    assert_true(ends_in(&path, "toolkit/lib64/libein-small.so.13"));

    /* Now it is in the process: found there, wherever the environment points. */
    build("other/lib", sonames[0], "int answer(void) { return 14; }");
    name_file("CUDA_HOME", "other");
    assert_int_equal(open_small(sonames, 0, "answer", &answer, NULL, &e), EIN_OK);
    assert_int_equal(answer, 13);

    /* A named file, and nothing else. */
    build("named", "libein-named.so", "int answer(void) { return 15; }");
    name_file("EIN_SMALL", "named/libein-named.so");
    assert_int_equal(open_small(sonames, 0, "answer", &answer, NULL, &e), EIN_OK);
    assert_int_equal(answer, 15);
    assert_int_equal(open_small(sonames, 0, "only13", &answer, NULL, &e), EIN_NO_DEVICE);
    assert_string_equal(e.line, "no small library: the library found lacks only13");
    setenv("EIN_SMALL", "/no/such/file", 1);
    assert_int_equal(open_small(sonames, 0, "answer", &answer, NULL, &e), EIN_NO_DEVICE);
    assert_non_null(strstr(e.line, "EIN_SMALL is \"/no/such/file\""));
    const char *const variables[] = {"EIN_SMALL", "CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV"};
    for (int i = 0; i < 4; i++) unsetenv(variables[i]);
    ein__text_free(&path);
}

/* A driver all of whose calls succeed and do nothing, but for these two. */
#define DRIVER(init, version)                                                              \
    "#include \"jit/library/cuda.h\"\n"                                                    \
    "#define CALL(result, name, parameters) result name parameters { return 0; }\n"        \
    "#define OPTIONAL(result, name, parameters)\n"                                         \
    "#define cuInit other_init\n#define cuDriverGetVersion other_version\n"                \
    "#include \"jit/library/cuda_calls.def\"\n"                                            \
    "#undef cuInit\n#undef cuDriverGetVersion\n"                                           \
    "CUresult cuInit(unsigned flags) { return " #init "; }\n"                              \
    "CUresult cuDriverGetVersion(int *v) { *v = " #version "; return 0; }\n"

static void test_driver(void **state)
{
    (void)state;
    static const struct { const char *soname, *source, *says; } cases[] = {
        {"libein-stub.so", DRIVER(34, 13000), "stub"},
        {"libein-none.so", DRIVER(100, 13000), "the CUDA driver sees no GPU"},
        {"libein-old.so", DRIVER(0, 11080), "the CUDA driver supports CUDA 11.8; 12.0 is needed"},
        {"libein-odd.so", DRIVER(802, 13000), "no CUDA driver: cuInit says error 802"},
        {"libein-good.so", DRIVER(0, 12040), NULL},
    };
    error e = {0};
    cuda_library l = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text path = {0};
        build("drivers", cases[i].soname, cases[i].source);
        ein__text_add(&path, "drivers/%s", cases[i].soname);
        name_file("EIN_CUDA", path.bytes);
        path.n = 0;
        ein_status s = ein__cuda_open(&l, &path, &e);
        assert_int_equal(s, cases[i].says != NULL ? EIN_NO_DEVICE : EIN_OK);
        if (cases[i].says != NULL) assert_non_null(strstr(e.line, cases[i].says));
        assert_true(ends_in(&path, cases[i].soname));
        ein__text_free(&path);
    }
    assert_int_equal(l.version, 12040);
    assert_true(l.cuMemAlloc_v2 != NULL && l.cuLibraryLoadData == NULL); /* which may be absent */
    setenv("EIN_CUDA", "libm.so.6", 1);
    assert_int_equal(ein__cuda_open(&l, NULL, &e), EIN_NO_DEVICE);
    assert_string_equal(e.line, "no CUDA driver: the library found lacks cuInit");
    unsetenv("EIN_CUDA");
    setenv("EIN_CUBLASLT", "libm.so.6", 1);
    assert_int_equal(ein__cublaslt_open(&(cublaslt_library){0}, 0, NULL, &e), EIN_NO_DEVICE);
    assert_string_equal(e.line, "no cuBLASLt: the library found lacks cublasLtGetVersion");
    unsetenv("EIN_CUBLASLT");
}

/* NVRTC's builtins library is opened from the folder of the NVRTC that was found: it answers to its bare name then. */
static void test_builtins(void **state)
{
    (void)state;
    build("nvrtc", "libnvrtc-builtins.so.77.5", "int here(void) { return 775; }");
    build("nvrtc", "libein-nvrtc.so",
          "#include \"jit/library/nvrtc.h\"\n#include <dlfcn.h>\n"
          "#define CALL(result, name, parameters) result name parameters { return 0; }\n"
          "#define nvrtcVersion other_version\n#define nvrtcGetNumSupportedArchs other_archs\n"
          "#include \"jit/library/nvrtc_calls.def\"\n#undef nvrtcVersion\n#undef nvrtcGetNumSupportedArchs\n"
          "nvrtcResult nvrtcVersion(int *major, int *minor) { *major = 77; *minor = 5; return 0; }\n"
          "nvrtcResult nvrtcGetNumSupportedArchs(int *n)\n"
          "{ *n = dlopen(\"libnvrtc-builtins.so.77.5\", RTLD_NOW) != 0; return 0; }\n");
    name_file("EIN_NVRTC", "nvrtc/libein-nvrtc.so");
    nvrtc_library l;
    text path = {0};
    int found = 0;
    assert_int_equal(ein__nvrtc_open(&l, 0, &path, NULL), EIN_OK);
    assert_true(l.major == 77 && l.minor == 5 && ends_in(&path, "nvrtc/libein-nvrtc.so"));
    l.nvrtcGetNumSupportedArchs(&found);
    assert_int_equal(found, 1);
    unsetenv("EIN_NVRTC");
    ein__text_free(&path);
}

static void remove_folder(const char *path)
{
    text log = {0}, rm = {0};
    int code;
    ein__text_add(&log, "/dev/null");
    if (ein__process_find("rm", &rm)) {
        const char *argv[] = {rm.bytes, "-rf", path, NULL};
        ein__process_run(argv, "/", log.bytes, &code, NULL);
    }
    ein__text_free(&log);
    ein__text_free(&rm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_driver),
                                       cmocka_unit_test(test_builtins)};
    if (ein__scratch_make_any(&folder, NULL) != EIN_OK) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_folder(folder.bytes);
    ein__text_free(&folder);
    return failed;
}
