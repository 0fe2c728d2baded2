/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Text from peers, cleaned for a terminal. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/random.h"

static void check(const char *from, size_t bytes, const char *wanted) {
    char to[64];
    memset(to, 'x', sizeof to);
    cr_expect_eq(sonar_text_clean(from, bytes, to, sizeof to), strlen(wanted), "%s", wanted);
    cr_expect_str_eq(to, wanted);
}

Test(text, what_a_terminal_would_obey_is_replaced) {
    static const struct {
        const char *from, *wanted;
    } table[] = {
        {"", ""},
        {"Ostsee-S\xc3\xbc"
         "d, \xe2\x82\xac, \xf0\x9f\x90\x8b",
         "Ostsee-S\xc3\xbc"
         "d, \xe2\x82\xac, \xf0\x9f\x90\x8b"},
        {"\x1b[2J\r\n\tx\b\x1f", " [2J   x  "},
        {"del\x7f", "del?"},
        {"\xc2\x9b"
         "2J\xc2\x80\xc2\x9f\xc2\xa0",
         "?2J??\xc2\xa0"},                                       /* C1; U+00A0 is none */
        {"\xe2\x80\xae txt\xe2\x81\xa6\xe2\x80\x8f", "? txt??"}, /* right to left */
        {"\x9b"
         "2J",
         "?2J"},                      /* C1 of a Latin terminal */
        {"\xc0\x9b\xc1\xbf", "????"}, /* longer than needed: an escape, a DEL */
        {"\xe0\x80\x9b\xf0\x80\x80\x9b", "???????"},
        {"\xed\xa0\x80", "???"},                                    /* half of a surrogate pair */
        {"\xf4\x90\x80\x80\xf8\x88\x80\x80\x80\xff", "??????????"}, /* beyond Unicode */
        {"a\xc3", "a?"},                                            /* cut off */
        {"a\xe2\x82z", "a??z"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        check(table[i].from, strlen(table[i].from), table[i].wanted);
    check("a\0b", 3, "a b");
}

Test(text, it_is_cut_between_characters) {
    static const char from[] = "a\xc3\xbc\xe2\x82\xac";
    static const size_t length[] = {0, 0, 1, 1, 3, 3, 3, 6, 6};
    for (size_t room = 0; room < sizeof length / sizeof length[0]; room++) {
        char to[16];
        memset(to, 'x', sizeof to);
        cr_assert_eq(sonar_text_clean(from, 6, to, room), length[room], "room %zu", room);
        cr_assert(!memcmp(to, from, length[room]));
        cr_assert(room == 0 ? to[0] == 'x' : to[length[room]] == '\0');
        for (size_t i = room; i < sizeof to; i++)
            cr_assert_eq(to[i], 'x', "beyond room %zu", room);
    }
}

/* The result is never longer, has no control characters, and is not changed by a second pass. */
Test(text, random_bytes) {
    uint64_t seed = 3;
    for (int run = 0; run < 200000; run++) {
        char from[24], once[24], twice[24];
        const size_t bytes = sonar_random_bits(&seed) % sizeof from;
        for (size_t i = 0; i < bytes; i++)
            from[i] = (char)(sonar_random_bits(&seed) % 4 ? 0x80 + sonar_random_bits(&seed) % 0x80
                                                          : sonar_random_bits(&seed));
        memcpy(once, from, bytes);
        const size_t used = sonar_text_clean(once, bytes, once, sizeof once);
        cr_assert_leq(used, bytes);
        for (size_t i = 0; i < used; i++) {
            const unsigned char c = (unsigned char)once[i];
            cr_assert(c >= 0x20 && c != 0x7f);
            cr_assert(!(c == 0xc2 && (unsigned char)once[i + 1] < 0xa0));
        }
        cr_assert_eq(sonar_text_clean(once, used, twice, sizeof twice), used);
        cr_assert(!memcmp(once, twice, used + 1));
    }
}

Test(text, the_nearest_name_is_the_one_that_was_meant) {
    static const struct {
        const char *name;
        int other;
    } named[] = {{"json", 1}, {NULL, 2}, {"timeout", 3}, {"topic", 4}, {"ab", 5}};
    static const struct {
        const char *word, *wanted;
    } table[] = {{"jsno", "json"},
                 {"jsn", "json"},
                 {"timeuot", "timeout"},
                 {"time_out", "timeout"},
                 {"topics", "topic"},
                 {"xy", NULL},
                 {"", NULL},
                 {"endpoint", NULL},
                 {"json", "json"},
                 {"a", NULL}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const char *nearest =
            sonar_text_nearest(table[i].word, named, sizeof named / sizeof *named, sizeof *named);
        cr_expect(table[i].wanted ? nearest && !strcmp(nearest, table[i].wanted) : !nearest,
                  "%s: %s", table[i].word, nearest ? nearest : "none");
    }
    cr_expect_eq(sonar_text_edits("ab", "ba"), 1);
    cr_expect_eq(sonar_text_edits("", "abc"), 3);
}
