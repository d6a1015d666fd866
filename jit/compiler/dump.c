/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "jit/compiler/dump.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"

static const char *dump_folder(void)
{
    const char *folder = getenv("EIN_DUMP");
    return folder != NULL && folder[0] != 0 ? folder : NULL;
}

static void publish(const char *folder, const text *path, const text *content)
{
    if (path->failed || content->failed || ein__file_make_dirs(folder, NULL) != EIN_OK) return;
    ein__file_publish(path->bytes, content->bytes, content->n, 0644, NULL);
}

void ein__kernel_dump(const kernel_text *k)
{
    const char *folder = dump_folder();
    if (folder == NULL) return;
    text path = {0}, body = {0};
    ein__text_add(&path, "%s/%s.body", folder, k->name);
    ein__text_add(&body, "threads %d\n%s", k->threads, k->body);
    if (!path.failed && access(path.bytes, F_OK) != 0) publish(folder, &path, &body);
    ein__text_free(&path);
    ein__text_free(&body);
}

/* The lines of the log from the one that starts a kernel's compilation up to the next such line. */
static const char *find_part(const char *log, const char *name, size_t *n)
{
    static const char start[] = "Compiling entry function '";
    for (const char *p = strstr(log, start); p != NULL; p = strstr(p + 1, start)) {
        const char *called = p + strlen(start), *next = strstr(p + 1, start);
        if (strncmp(called, name, strlen(name)) != 0 || called[strlen(name)] != '\'') continue;
        for (; next != NULL && next > p && next[-1] != '\n'; next--) {}
        *n = next != NULL ? (size_t)(next - p) : strlen(p);
        return p;
    }
    *n = strlen(log);
    return log;
}

void ein__unit_dump(const kernel_text *const *kernels, int n, const char *architecture, const char *options,
                    const char *log)
{
    const char *folder = dump_folder();
    for (int i = 0; i < n && folder != NULL; i++) {
        text path = {0}, content = {0};
        size_t bytes;
        const char *part = find_part(log, kernels[i]->name, &bytes);
        ein__text_add(&path, "%s/%s.%s.txt", folder, kernels[i]->name, architecture);
        ein__text_add(&content, "%s\n", options);
        ein__text_bytes(&content, part, bytes);
        publish(folder, &path, &content);
        ein__text_free(&path);
        ein__text_free(&content);
    }
}
