/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"

static bool reserve(text *t, size_t more)
{
    if (t->failed) return false;
    if (t->n + more + 1 <= t->room) return true;
    size_t room = t->room != 0 ? t->room * 2 : 256;
    while (room < t->n + more + 1) room *= 2;
    char *p = ein__realloc(t->bytes, room);
    if (p == NULL) {
        t->failed = true;
        return false;
    }
    t->bytes = p;
    t->room = room;
    return true;
}

void ein__text_add(text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || !reserve(t, (size_t)n)) return;
    va_start(args, format);
    vsnprintf(t->bytes + t->n, (size_t)n + 1, format, args);
    va_end(args);
    t->n += (size_t)n;
}

void ein__text_bytes(text *t, const void *bytes, size_t n)
{
    if (!reserve(t, n)) return;
    if (n != 0) memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
    t->bytes[t->n] = 0;
}

void ein__text_free(text *t)
{
    ein__free(t->bytes);
    memset(t, 0, sizeof *t);
}

const char *ein__text_get(const text *t) { return t->bytes != NULL ? t->bytes : ""; }

ein_status ein__text_status(const text *t) { return t->failed ? EIN_NO_MEMORY : EIN_OK; }

enum { EXCERPT = 140 };

static bool inside_character(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

static excerpt cut(const char *before, const char *word, size_t n, const char *after)
{
    excerpt x;
    snprintf(x.s, sizeof x.s, "%s%.*s%s", before, (int)n, word, after);
    for (char *c = x.s; *c != 0; c++)
        if ((unsigned char)*c < 32 || *c == 127) *c = '?';
    return x;
}

excerpt ein__excerpt_first(const char *word, size_t most)
{
    size_t n = strlen(word);
    if (most > EXCERPT) most = EXCERPT;
    if (n <= most) return cut("", word, n, "");
    for (int i = 0; i < 3 && most > 0 && inside_character(word[most]); i++) most--;
    return cut("", word, most, "...");
}

excerpt ein__excerpt_last(const char *word, size_t most)
{
    size_t n = strlen(word);
    if (most > EXCERPT) most = EXCERPT;
    if (n <= most) return cut("", word, n, "");
    for (int i = 0; i < 3 && most > 0 && inside_character(word[n - most]); i++) most--;
    return cut("...", word + n - most, most, "");
}

static void little_endian(unsigned char *out, uint64_t v, int n)
{
    for (int i = 0; i < n; i++) out[i] = (unsigned char)(v >> (8 * i));
}

void ein__key_bytes(text *t, uint32_t tag, const void *bytes, size_t n)
{
    unsigned char head[12];
    little_endian(head, tag, 4);
    little_endian(head + 4, n, 8);
    ein__text_bytes(t, head, sizeof head);
    ein__text_bytes(t, bytes, n);
}

void ein__key_int(text *t, uint32_t tag, int64_t value)
{
    unsigned char b[8];
    little_endian(b, (uint64_t)value, 8);
    ein__key_bytes(t, tag, b, sizeof b);
}
