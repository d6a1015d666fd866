/* SPDX-License-Identifier: Apache-2.0 */
/* Several files and an index, and what a path may be. */
#define _POSIX_C_SOURCE 200809L
#include "tests/core/weights/fixture.h"

#include <sys/stat.h>
#include <unistd.h>

#define ENTRY(name, begin, end) "\"" name "\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[" begin "," end "]}"
#define INDEX "model.safetensors.index.json"

static int make_shards(void **state)
{
    if (make_root(state) != 0) return -1;
    assert_int_equal(mkdir(in_root("m"), 0700), 0);
    put_image("m/one", "{" ENTRY("c", "0", "2") "," ENTRY("a", "2", "4") "}", 4);
    put_image("m/two", "{" ENTRY("b", "0", "2") "," ENTRY("a", "2", "4") "," ENTRY("extra", "4", "6") "}", 6);
    put_text("m/" INDEX, "{\"metadata\":{\"total_size\":6},\"weight_map\":{\"b\":\"two\",\"c\":\"one\",\"a\":\"one\"}}");
    return 0;
}

static void expect(const char *path, const char *names, const char *data)
{
    arena a = {0};
    error e = {0};
    checkpoint c;
    if (ein__checkpoint_open(&a, path, &c, &e) != EIN_OK) fail_msg("%s", e.line);
    assert_int_equal(c.tensors.n, strlen(names));
    for (int i = 0; i < c.tensors.n; i++) {
        assert_int_equal(c.tensors.items[i].name[0], names[i]);
        assert_int_equal(*(const char *)c.tensors.items[i].data, data[i]);
    }
    ein__checkpoint_close(&c);
    ein__checkpoint_close(&c); /* nothing is open: harmless */
    ein__arena_free(&a);
}

/* "a" is in both files; the index says which. "extra" is not listed. */
static void sharded(void **state)
{
    (void)state;
    expect(in_root("m/" INDEX), "acb", "\2\0\0");
    expect(in_root("m"), "acb", "\2\0\0");
    expect(in_root("m/"), "acb", "\2\0\0");
    expect(in_root("m/one"), "ca", "\0\2");
    /* From inside of the folder, and through links, as in a cache of downloads. */
    char here[512];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(in_root("m")), 0);
    expect(INDEX, "acb", "\2\0\0");
    expect(".", "acb", "\2\0\0");
    assert_int_equal(symlink("two", "model.safetensors"), 0); /* comes before the index */
    expect(".", "bae", "\0\2\4");
    assert_int_equal(unlink("model.safetensors"), 0);
    assert_int_equal(chdir(here), 0);
}

static void refuse(const char *path, ein_status status, const char *line)
{
    arena a = {0};
    error e = {0};
    checkpoint c;
    char want[400];
    snprintf(want, sizeof want, line, root);
    assert_int_equal(ein__checkpoint_open(&a, path, &c, &e), status);
    assert_string_equal(e.line, want);
    assert_int_equal(c.maps.n, 0);
    ein__arena_free(&a);
}

static void bad_paths(void **state)
{
    (void)state;
    refuse(in_root("none"), EIN_IO, "cannot open \"%s/none\": No such file or directory");
    refuse(in_root("none.json"), EIN_IO, "cannot open \"%s/none.json\": No such file or directory");
    assert_int_equal(mkdir(in_root("empty"), 0700), 0);
    refuse(in_root("empty"), EIN_IO, "cannot open \"%s/empty/model.safetensors\": No such file or directory");
    assert_int_equal(mkfifo(in_root("pipe"), 0600), 0);
    refuse(in_root("pipe"), EIN_IO, "cannot read \"%s/pipe\": not a regular file");
    put_text("nothing", "");
    refuse(in_root("nothing"), EIN_INVALID, "%s/nothing: 0 bytes are no safetensors file");
    put_text("nothing.json", "");
    refuse(in_root("nothing.json"), EIN_INVALID, "%s/nothing.json: the JSON text is wrong at byte 0: '[' or '{' expected near end of file");
}

static const struct {
    const char *index;
    ein_status status;
    const char *line;
} bad[] = {
    {"{\"weight_map\":", EIN_INVALID, "%s/x.json: the JSON text is wrong at byte 14: unexpected token near end of file"},
    {"[]", EIN_INVALID, "%s/x.json: the JSON text must be an object"},
    {"{}", EIN_INVALID, "%s/x.json: \"weight_map\" must be an object"},
    {"{\"weight_map\":[]}", EIN_INVALID, "%s/x.json: \"weight_map\" must be an object"},
    {"{\"weight_map\":{\"a\":1}}", EIN_INVALID, "%s/x.json: the file of tensor 'a' must be a string"},
    {"{\"weight_map\":{\"a\":\"\"}}", EIN_INVALID, "%s/x.json: the file of tensor 'a', '', is no plain name"},
    {"{\"weight_map\":{\"a\":\"..\"}}", EIN_INVALID, "%s/x.json: the file of tensor 'a', '..', is no plain name"},
    {"{\"weight_map\":{\"a\":\".\"}}", EIN_INVALID, "%s/x.json: the file of tensor 'a', '.', is no plain name"},
    {"{\"weight_map\":{\"a\":\"../m/one\"}}", EIN_INVALID,
     "%s/x.json: the file of tensor 'a', '../m/one', is no plain name"},
    {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", EIN_INVALID,
     "%s/x.json: the file of tensor 'a', '/etc/passwd', is no plain name"},
    {"{\"weight_map\":{\"a\":\"m/one\"}}", EIN_INVALID, "%s/x.json: the file of tensor 'a', 'm/one', is no plain name"},
    {"{\"weight_map\":{\"a\":\"o\\nne\"}}", EIN_INVALID, "%s/x.json: the file of tensor 'a', 'o?ne', is no plain name"},
    {"{\"weight_map\":{\"a\":\"one\",\"a\":\"two\"}}", EIN_INVALID,
     "%s/x.json: the JSON text is wrong at byte 28: duplicate object key near '\"a\"'"},
    {"{\"weight_map\":{\"a\":\"three\"}}", EIN_IO, "cannot open \"%s/three\": No such file or directory"},
    {"{\"weight_map\":{\"a\":\"m\"}}", EIN_IO, "cannot read \"%s/m\": not a regular file"},
    {"{\"weight_map\":{\"a\":\"first\",\"aa\":\"first\"}}", EIN_INVALID, "%s/x.json: tensor 'aa' is not in 'first'"},
    {"{\"weight_map\":{\"a\":\"first\",\"b\":\"broken\"}}", EIN_INVALID,
     "%s/broken: bytes 0 to 1 of the data belong to no tensor"},
};

static void bad_indices(void **state)
{
    (void)state;
    put_image("first", "{" ENTRY("a", "0", "2") "," ENTRY("ab", "2", "4") "}", 4);
    put_image("broken", "{}", 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_text("x.json", bad[i].index);
        refuse(in_root("x.json"), bad[i].status, bad[i].line);
    }
    put_text("x.json", "{\"weight_map\":{}}");
    expect(in_root("x.json"), "", "");
}

/* Counted before the first is opened. */
static void too_many_files(void **state)
{
    text t = {0};
    (void)state;
    ein__text_add(&t, "{\"weight_map\":{");
    for (int i = 0; i <= 4096; i++) ein__text_add(&t, "%s\"t%d\":\"s%d\"", i > 0 ? "," : "", i, i);
    ein__text_add(&t, "}}");
    put_text("x.json", t.bytes);
    ein__text_free(&t);
    refuse(in_root("x.json"), EIN_INVALID, "%s/x.json: 4097 files; at most 4096");
}

static void memory_runs_out(void **state)
{
    long live = ein__alloc_live(), n = 0;
    ein_status s;
    (void)state;
    do {
        arena a = {0};
        checkpoint c;
        ein__alloc_fail_at(++n);
        s = ein__checkpoint_open(&a, in_root("m"), &c, NULL);
        ein__alloc_fail_at(0);
        assert_true(s == EIN_NO_MEMORY ? c.maps.n == 0 : s == EIN_OK && c.maps.n == 2);
        ein__checkpoint_close(&c);
        ein__arena_free(&a);
        assert_int_equal(ein__alloc_live(), live);
    } while (s != EIN_OK);
    assert_true(n > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sharded),     cmocka_unit_test(bad_paths),       cmocka_unit_test(bad_indices),
        cmocka_unit_test(too_many_files), cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, make_shards, remove_root);
}
