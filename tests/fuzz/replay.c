/* SPDX-License-Identifier: Apache-2.0 */
/* Usage: fuzz_NAME FOLDER-OR-FILE...: each file once through the target, without a fuzzer. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>

#include "core/base/file.h"
#include "tests/fuzz/fuzz.h"

static int replayed;

static void replay_file(const char *path)
{
    text t = {0};
    error e = {0};
    long live;
    if (ein__file_read(path, 1 << 20, true, &t, &e) != EIN_OK) {
        fprintf(stderr, "%s\n", e.line);
        exit(1);
    }
    printf("%s\n", path);
    fflush(stdout);
    live = ein__alloc_live();
    LLVMFuzzerTestOneInput((const uint8_t *)ein__text_get(&t), t.n);
    PROMISE(ein__alloc_live() == live);
    ein__text_free(&t);
    replayed++;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        DIR *d = opendir(argv[i]);
        if (d == NULL) replay_file(argv[i]);
        for (struct dirent *x; d != NULL && (x = readdir(d)) != NULL;) {
            char path[512];
            if (x->d_name[0] == '.') continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], x->d_name);
            replay_file(path);
        }
        if (d != NULL) closedir(d);
    }
    if (replayed == 0) fprintf(stderr, "nothing to replay\n");
    return replayed == 0;
}
