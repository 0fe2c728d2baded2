/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a row of the table of options accepts, in words. */
#include <stdio.h>
#include <string.h>

#include "config/options.h"

static void describe_number(const sonar_option *o, bool whole, char *words, size_t size) {
    if (o->low == o->high) {
        snprintf(words, size, "%.10g", o->low);
        return;
    }
    char unit[48] = "";
    if (o->unit && *o->unit)
        snprintf(unit, sizeof unit, " in %s", o->unit);
    snprintf(words, size, "a %s number%s, %s%.10g%s%.10g", whole ? "whole" : "plain", unit,
             o->above ? "more than " : "", o->low,
             o->below   ? " to less than "
             : o->above ? ", up to "
                        : " to ",
             o->high);
}

static void describe_list(const sonar_option *o, const char *of, char *words, size_t size) {
    char count[32] = "";
    if (o->least == o->most)
        snprintf(count, sizeof count, " of %zu", o->least);
    snprintf(words, size, "%s%sa list%s, each %s", o->word ? o->word : "", o->word ? ", or " : "",
             count, of);
    const size_t at = strlen(words);
    if (o->scalar && at < size)
        snprintf(words + at, size - at, "; or one such number for all");
    else if (o->least != o->most && at < size)
        snprintf(words + at, size - at, "; %zu to %zu entries", o->least, o->most);
}

static void describe_choices(const sonar_option *o, char *words, size_t size) {
    *words = 0;
    for (size_t i = 0; o->choices[i]; i++) {
        const size_t at = strlen(words);
        snprintf(words + at, size - at, "%s%s", i ? ", " : "", o->choices[i]);
    }
}

/* The keys of a group that may replace the word. */
static void describe_group(const sonar_option *o, char *words, size_t size) {
    const size_t length = strlen(o->path);
    const char *last = "", *between = ", or a group of ";
    for (size_t i = 0; i < SONAR_OPTIONS; i++) {
        const char *path = sonar_options[i].path, *key = path + length + 1;
        const size_t at = strlen(words);
        if (strncmp(path, o->path, length) != 0 || path[length] != '.')
            continue;
        const size_t n = strcspn(key, ".");
        if (strncmp(last, key, n) != 0)
            snprintf(words + at, size - at, "%s%.*s", between, (int)n, key);
        between = ", ";
        last = key;
    }
}

void sonar_option_accepted(const sonar_option *option, char *words, size_t size) {
    char of[256];
    const char *endpoint = "tcp://ADDRESS:PORT or ipc://PATH";
    switch (option->type) {
    case SONAR_TYPE_INTEGER:
    case SONAR_TYPE_REAL:
        describe_number(option, option->type == SONAR_TYPE_INTEGER, of, sizeof of);
        snprintf(words, size, "%s", of);
        if (option->choices) {
            describe_choices(option, words, size);
            const size_t at = strlen(words);
            snprintf(words + at, size - at, ", or %s", of);
        }
        return;
    case SONAR_TYPE_BOOLEAN:
        snprintf(words, size, "true or false");
        return;
    case SONAR_TYPE_CHOICE:
        describe_choices(option, words, size);
        describe_group(option, words, size);
        return;
    case SONAR_TYPE_TEXT:
        snprintf(words, size, "text of 1 to %.0f bytes", option->high);
        return;
    case SONAR_TYPE_ENDPOINT:
        snprintf(words, size, "%s", option->local ? "ipc://PATH" : endpoint);
        return;
    case SONAR_TYPE_INTEGERS:
    case SONAR_TYPE_REALS:
        describe_number(option, option->type == SONAR_TYPE_INTEGERS, of, sizeof of);
        describe_list(option, of, words, size);
        return;
    case SONAR_TYPE_CHOICES:
        snprintf(of, sizeof of, "one of ");
        describe_choices(option, of + 7, sizeof of - 7);
        describe_list(option, of, words, size);
        return;
    case SONAR_TYPE_ENDPOINTS:
        describe_list(option, endpoint, words, size);
        return;
    case SONAR_TYPE_TEXTS:
        snprintf(words, size, "%s, or a list of 1 to %zu of them", option->entry, option->most);
        return;
    case SONAR_TYPE_POSITIONS:
        snprintf(words, size,
                 "a list of [x, y, z], plain numbers in %s, %g to %g; 1 to %zu of them",
                 option->unit, option->low, option->high, option->most);
        return;
    }
}
