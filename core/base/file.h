/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files: read or mapped in one piece, published in one piece. A failure is EIN_IO, its line names the path
 * (of a long one, the end) and the system's reason, and errno still holds it. */
#ifndef CORE_BASE_FILE_H
#define CORE_BASE_FILE_H

#include "core/base/error.h"
#include "core/base/text.h"

/* Append a regular file of at most `limit` bytes to `out`; on failure `out` is as before. With `follow` false
 * a symbolic link is refused. */
ein_status ein__file_read(const char *path, size_t limit, bool follow, text *out, error *e);

/* A regular file's bytes, read-only, until it is unmapped. Whoever makes the file shorter meanwhile ends this process:
 * a byte that is no longer there is a SIGBUS. */
typedef struct file_map { const char *bytes; size_t n; } file_map; /* {NULL, 0} is mapped nowhere, and an empty file */
ein_status ein__file_map(const char *path, file_map *out, error *e);
void ein__file_unmap(file_map *m);
/* These bytes of a map will not be read soon: memory that they take may be given back. */
void ein__file_drop(const void *bytes, size_t n);

/* Exactly n bytes from an open file. */
bool ein__file_read_exact(int fd, void *bytes, size_t n);

/* Create an empty file in `dir` under a name that this process has not used: "dir/.ein-..." and `suffix`.
 * Appends its path to `path`. The caller closes `*fd` and unlinks the path. */
ein_status ein__file_temp(const char *dir, const char *suffix, int mode, text *path, int *fd, error *e);
ein_status ein__file_write(int fd, const char *path, const void *bytes, size_t n, error *e);

/* Write the pieces, one after the other, beside `path` and rename over it: a reader sees the old file, the new one,
 * or none. `mode` is the new file's, less the umask. Nothing is left behind on failure. */
typedef struct file_piece { const void *bytes; size_t n; } file_piece;
ein_status ein__file_publish_pieces(const char *path, const file_piece *pieces, int n, int mode, error *e);
ein_status ein__file_publish(const char *path, const void *bytes, size_t n, int mode, error *e);

/* A directory and its missing parents, each 0700. */
ein_status ein__file_make_dirs(const char *path, error *e);

#endif
