/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files: read in one piece, published in one piece. A failure is EIN_IO, its line names the path and
 * the system's reason, and errno still holds it. */
#ifndef CORE_BASE_FILE_H
#define CORE_BASE_FILE_H

#include "core/base/error.h"
#include "core/base/text.h"

/* Append a regular file of at most `limit` bytes to `out`; on failure `out` is as before. With `follow` false
 * a symbolic link is refused. */
ein_status ein__file_read(const char *path, size_t limit, bool follow, text *out, error *e);

/* Exactly n bytes from an open file. */
bool ein__file_read_exact(int fd, void *bytes, size_t n);

/* Create an empty file in `dir` under a name that this process has not used: "dir/.ein-..." and `suffix`.
 * Appends its path to `path`. The caller closes `*fd` and unlinks the path. */
ein_status ein__file_temp(const char *dir, const char *suffix, int mode, text *path, int *fd, error *e);
ein_status ein__file_write(int fd, const char *path, const void *bytes, size_t n, error *e);

/* Write beside `path` and rename over it: a reader sees the old file, the new one, or none. `mode` is the new
 * file's, less the umask. Nothing is left behind on failure. */
ein_status ein__file_publish(const char *path, const void *bytes, size_t n, int mode, error *e);

/* A directory and its missing parents, each 0700. */
ein_status ein__file_make_dirs(const char *path, error *e);

#endif
