/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/core.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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

/* ---- numbers --------------------------------------------------------------------------------- */

static const long double power[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,
                                    1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L, 1e14L, 1e15L,
                                    1e16L, 1e17L, 1e18L, 1e19L, 1e20L, 1e21L};

/* digits / 10^decimals, without zeros at its end. Returns the end of the text. */
static char *print_decimal(char *to, uint64_t digits, int decimals) {
    for (; decimals > 0 && digits % 10 == 0; decimals--)
        digits /= 10;
    char reversed[SONAR_NUMBER_CHARS];
    int count = 0;
    do
        reversed[count++] = (char)('0' + digits % 10);
    while ((digits /= 10) || count <= decimals);
    while (count > 0) {
        *to++ = reversed[--count];
        if (count > 0 && count == decimals)
            *to++ = '.';
    }
    return to;
}

size_t sonar_text_uint(uint64_t value, char to[SONAR_NUMBER_CHARS]) {
    return (size_t)(print_decimal(to, value, 0) - to);
}

/* Values below 1e-5 or from 1e15 on, by the C library; seldom. Returns the end of the text. */
static char *print_far(char *to, double value) {
    int count = snprintf(to, SONAR_NUMBER_CHARS - 1, "%.15g", value);
    if (strtod(to, NULL) != value)
        count = snprintf(to, SONAR_NUMBER_CHARS - 1, "%.17g", value);
    return to + count;
}

/* Returns the end of the text. 17 digits always read back as the value; 15 are tried before.
 * Numerator and denominator of the quotient are exact, so that it is what reading the text gives
 * (Clinger, PLDI 1990). */
static char *print_positive(char *to, double value) {
    if (value == trunc(value) && value < 1e15)
        return print_decimal(to, (uint64_t)value, 0);
    if (!(value >= 1e-5 && value < 1e15))
        return print_far(to, value);
    int size = 0;
    while (value * 1e5L >= power[size + 1])
        size++;
    int decimals = 19 - size; /* the first of 15 digits is worth 10^(size - 5) */
    uint64_t digits = (uint64_t)(value * power[decimals] + 0.5L);
    if ((double)digits / (double)power[decimals] != value) {
        decimals += 2;
        digits = (uint64_t)(value * power[decimals] + 0.5L);
    }
    return print_decimal(to, digits, decimals);
}

size_t sonar_text_number(double value, char to[SONAR_NUMBER_CHARS]) {
    to[0] = '-';
    return (size_t)(print_positive(to + (signbit(value) ? 1 : 0), fabs(value)) - to);
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
