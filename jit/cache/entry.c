/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian throughout, but for the hashes, which are in their canonical (big-endian) order:
 *
 *    0   8  magic              40   8  bytes of key material
 *    8   4  format version     48   4  sections        52  4  flags (0)
 *   12   4  header size, 80    56   8  reserved (0)
 *   16  16  hash of the key    64  16  checksum of the whole file, with this field zero
 *   32   8  file size          80  24 each: kind 4, flags 4 (0), offset 8, size 8
 *
 * Sections start at multiples of 16. Every number is checked against the file's real size before it is used:
 * the checksum finds accidents, not enemies. */
#include "jit/cache/entry.h"

#include <stdio.h>
#include <string.h>

static const unsigned char magic[8] = {0x89, 'E', 'I', 'N', '\r', '\n', 0x1a, '\n'};

/* Different, so that neither hash can stand in for the other. */
#define KEY_SEED UINT64_C(0x65696e2d6b6579)
#define CHECK_SEED UINT64_C(0x65696e2d636865)

enum { AT_VERSION = 8, AT_HEAD = 12, AT_KEY = 16, AT_TOTAL = 32, AT_KEY_BYTES = 40, AT_COUNT = 48,
       AT_FLAGS = 52, AT_RESERVED = 56, AT_CHECK = 64 };

typedef struct row { uint64_t kind, flags, offset, n; } row;

static void put(unsigned char *p, uint64_t v, int n)
{
    for (int i = 0; i < n; i++) p[i] = (unsigned char)(v >> (8 * i));
}

static uint64_t get(const unsigned char *p, int n)
{
    uint64_t v = 0;
    for (int i = 0; i < n; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static void put_hash(unsigned char *p, hash128 h)
{
    for (int i = 0; i < 8; i++) {
        p[i] = (unsigned char)(h.high >> (56 - 8 * i));
        p[8 + i] = (unsigned char)(h.low >> (56 - 8 * i));
    }
}

static uint64_t round_up(uint64_t v) { return (v + 15) & ~UINT64_C(15); }
static hash128 key_hash(const text *key) { return ein__hash(ein__text_get(key), key->n, KEY_SEED); }

void ein__entry_name(const text *key, char out[ENTRY_NAME])
{
    char digits[33];
    ein__hash_print(key_hash(key), digits);
    snprintf(out, ENTRY_NAME, "%s-%d.ein", digits, ENTRY_VERSION);
}

bool ein__entry_named(const char *name)
{
    size_t hex = strspn(name, "0123456789abcdef");
    if (hex != 32 || name[32] != '-') return false;
    size_t version = strspn(name + 33, "0123456789");
    return version >= 1 && version <= 4 && strcmp(name + 33 + version, ".ein") == 0;
}

void ein__entry_seal(unsigned char *bytes, size_t n)
{
    memset(bytes + AT_CHECK, 0, 16);
    put_hash(bytes + AT_CHECK, ein__hash(bytes, n, CHECK_SEED));
}

/* ---- writing --------------------------------------------------------------------------------------- */

static void add_section(text *out, int index, const section *s, uint64_t *offset)
{
    static const unsigned char zeros[16];
    unsigned char *p = (unsigned char *)out->bytes + ENTRY_HEAD + ENTRY_ROW * index;
    put(p, (uint64_t)s->kind, 4);
    put(p + 8, *offset, 8);
    put(p + 16, s->n, 8);
    ein__text_bytes(out, s->bytes, s->n);
    ein__text_bytes(out, zeros, (size_t)(round_up(s->n) - s->n));
    *offset += round_up(s->n);
}

static void add_head(unsigned char *p, const text *key, uint64_t total, int count)
{
    memcpy(p, magic, sizeof magic);
    put(p + AT_VERSION, ENTRY_VERSION, 4);
    put(p + AT_HEAD, ENTRY_HEAD, 4);
    put_hash(p + AT_KEY, key_hash(key));
    put(p + AT_TOTAL, total, 8);
    put(p + AT_KEY_BYTES, key->n, 8);
    put(p + AT_COUNT, (uint64_t)count, 4);
}

ein_status ein__entry_write(const text *key, const section *sections, int n, text *out)
{
    static const unsigned char zeros[ENTRY_ROW];
    const section own = {SECTION_KEY, ein__text_get(key), key->n};
    if (n < 0 || n >= ENTRY_SECTIONS || key->n > ENTRY_BYTES) return EIN_UNSUPPORTED;
    uint64_t offset = round_up(ENTRY_HEAD + ENTRY_ROW * ((uint64_t)n + 1)), total = offset + round_up(key->n);
    for (int i = 0; i < n; i++) {
        if (sections[i].n > ENTRY_BYTES) return EIN_UNSUPPORTED;
        total += round_up(sections[i].n);
    }
    if (total > ENTRY_BYTES) return EIN_UNSUPPORTED;
    while (!out->failed && out->n < offset)
        ein__text_bytes(out, zeros, offset - out->n < ENTRY_ROW ? (size_t)(offset - out->n) : ENTRY_ROW);
    for (int i = 0; i <= n && !out->failed; i++)
        add_section(out, i, i == 0 ? &own : &sections[i - 1], &offset);
    TRY(ein__text_status(out));
    unsigned char *p = (unsigned char *)out->bytes;
    add_head(p, key, total, n + 1);
    ein__entry_seal(p, out->n);
    return EIN_OK;
}

/* ---- reading --------------------------------------------------------------------------------------- */

/* Header and the table's extent, for a file of `total` bytes of which `have` are here. */
static verdict check_head(const unsigned char *p, size_t have, uint64_t total, int *count)
{
    if (have < ENTRY_HEAD || total > ENTRY_BYTES || memcmp(p, magic, sizeof magic) != 0) return ENTRY_CORRUPT;
    if (get(p + AT_VERSION, 4) != ENTRY_VERSION) return ENTRY_OTHER;
    uint64_t n = get(p + AT_COUNT, 4);
    if (get(p + AT_HEAD, 4) != ENTRY_HEAD || get(p + AT_TOTAL, 8) != total) return ENTRY_CORRUPT;
    if (get(p + AT_FLAGS, 4) != 0 || get(p + AT_RESERVED, 8) != 0) return ENTRY_CORRUPT;
    if (n < 1 || n > ENTRY_SECTIONS || ENTRY_HEAD + ENTRY_ROW * n > have) return ENTRY_CORRUPT;
    *count = (int)n;
    return ENTRY_GOOD;
}

static bool read_row(const unsigned char *p, int index, int count, uint64_t total, row *out)
{
    p += ENTRY_HEAD + ENTRY_ROW * index;
    *out = (row){get(p, 4), get(p + 4, 4), get(p + 8, 8), get(p + 16, 8)};
    uint64_t table_end = ENTRY_HEAD + ENTRY_ROW * (uint64_t)count;
    return out->flags == 0 && out->offset % 16 == 0 && out->offset >= table_end && out->offset <= total &&
           out->n <= total - out->offset;
}

static bool checksum_holds(unsigned char *p, size_t n)
{
    unsigned char stored[16];
    memcpy(stored, p + AT_CHECK, sizeof stored);
    ein__entry_seal(p, n);
    return memcmp(stored, p + AT_CHECK, sizeof stored) == 0;
}

verdict ein__entry_read(arena *a, unsigned char *bytes, size_t n, const text *key, const section **sections,
                        int *count)
{
    int rows, keys = 0, kept = 0;
    unsigned char hash[16];
    verdict v = check_head(bytes, n, n, &rows);
    if (v != ENTRY_GOOD) return v;
    if (!checksum_holds(bytes, n)) return ENTRY_CORRUPT;
    section *out = ein__arena_get(a, (size_t)rows, sizeof *out);
    if (out == NULL) return ENTRY_NO_MEMORY;
    bool same = get(bytes + AT_KEY_BYTES, 8) == key->n;
    put_hash(hash, key_hash(key));
    same = same && memcmp(hash, bytes + AT_KEY, sizeof hash) == 0;
    for (int i = 0; i < rows; i++) {
        row r;
        if (!read_row(bytes, i, rows, n, &r)) return ENTRY_CORRUPT;
        if (r.kind == SECTION_KEY) {
            keys++;
            same = same && r.n == key->n && memcmp(bytes + r.offset, ein__text_get(key), key->n) == 0;
        } else if (r.kind >= SECTION_KEY && r.kind <= SECTION_INFO) { /* later kinds are skipped */
            out[kept++] = (section){(section_kind)r.kind, bytes + r.offset, (size_t)r.n};
        }
    }
    if (keys != 1) return ENTRY_CORRUPT;
    if (!same) return ENTRY_OTHER;
    *sections = out;
    *count = kept;
    return ENTRY_GOOD;
}

bool ein__entry_find_info(const unsigned char *bytes, size_t have, uint64_t total, uint64_t *offset,
                          uint64_t *n)
{
    int rows;
    if (check_head(bytes, have, total, &rows) != ENTRY_GOOD) return false;
    for (int i = 0; i < rows; i++) {
        row r;
        if (!read_row(bytes, i, rows, total, &r)) return false;
        if (r.kind != SECTION_INFO) continue;
        *offset = r.offset;
        *n = r.n;
        return true;
    }
    return false;
}
