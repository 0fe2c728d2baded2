/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/core.h"

#include <string.h>

static const size_t NO_CHARACTER = 0;

/* The character that `from` begins with and its length in bytes, or NO_CHARACTER if the bytes are
 * not UTF-8: truncated, overlong, a surrogate or beyond U+10FFFF. */
static size_t decode(const unsigned char *from, size_t bytes, uint32_t *character) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char first = from[0];
    const size_t length = first < 0x80    ? 1
                          : first >= 0xf8 ? NO_CHARACTER
                          : first >= 0xf0 ? 4
                          : first >= 0xe0 ? 3
                          : first >= 0xc0 ? 2
                                          : NO_CHARACTER;
    if (length == NO_CHARACTER || length > bytes)
        return NO_CHARACTER;
    *character = length == 1 ? first : first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((from[i] & 0xc0) != 0x80)
            return NO_CHARACTER;
        *character = *character << 6 | (from[i] & 0x3fu);
    }
    const bool surrogate = *character >= 0xd800 && *character <= 0xdfff;
    return *character >= least[length] && !surrogate && *character <= 0x10ffff ? length
                                                                               : NO_CHARACTER;
}

/* DEL, the C1 controls (U+009B is ESC [ in one character), and characters that change the display
 * order of the text around them. */
static bool is_harmful(uint32_t c) {
    return (c >= 0x7f && c <= 0x9f) || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

size_t sonar_text_clean(const char *from, size_t bytes, char *to, size_t room) {
    size_t used = 0;
    for (size_t i = 0, length; room > 0 && i < bytes; i += length) {
        uint32_t character = 0;
        length = decode((const unsigned char *)from + i, bytes - i, &character);
        const bool good = length != NO_CHARACTER && character >= 0x20 && !is_harmful(character);
        const char instead = length == 1 && character < 0x20 ? ' ' : '?';
        const size_t needed = good ? length : 1;
        length = length == NO_CHARACTER ? 1 : length;
        if (used + needed + 1 > room)
            break;
        if (good)
            memmove(to + used, from + i, length);
        else
            to[used] = instead;
        used += needed;
    }
    if (room > 0)
        to[used] = '\0';
    return used;
}

/* ---- misspelt words -------------------------------------------------------------------------- */

size_t sonar_text_edits(const char *a, const char *b) {
    size_t row[3][66] = {{0}};
    const size_t n = sonar_min_size(strlen(a), 64), m = sonar_min_size(strlen(b), 64);
    for (size_t j = 0; j <= m; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        const size_t *before = row[(i + 1) % 3], *last = row[(i + 2) % 3];
        size_t *now = row[i % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            now[j] = sonar_min_size(last[j - 1] + (a[i - 1] != b[j - 1]),
                                    1 + sonar_min_size(last[j], now[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = sonar_min_size(now[j], before[j - 2] + 1);
        }
    }
    return row[n % 3][m];
}

/* A name is similar if it is at most two edits away, or a third of the letters if that is more, and
 * fewer edits than the word has letters. */
const char *sonar_text_nearest(const char *word, const void *named, size_t count, size_t bytes) {
    const size_t letters = strlen(word);
    size_t best = sonar_min_size(sonar_max_size(2, letters / 3) + 1, letters);
    const char *nearest = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *name = *(const char *const *)((const char *)named + i * bytes);
        const size_t far = name ? sonar_text_edits(word, name) : best;
        if (far >= best)
            continue;
        best = far;
        nearest = name;
    }
    return nearest;
}
