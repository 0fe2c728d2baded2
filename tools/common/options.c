/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

enum { FIRST_KEY = 256 }; /* key of the table's first option, above all letters */

static int try_help(const tool *tool) {
    fprintf(stderr, "%s: try '%s --help'\n", tool->name, tool->name);
    return TOOL_WRONG_USAGE;
}

int tool_wrong_usage(const tool *tool, const char *format, ...) {
    va_list args;
    fprintf(stderr, "%s: ", tool->name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return try_help(tool);
}

static tool_answer read_number(const char *value, double low, double high, double *to) {
    char *end;
    *to = strtod(value, &end);
    return end != value && !*end && *to >= low && *to <= high ? TOOL_TAKEN : TOOL_REFUSED;
}

tool_answer tool_read_whole(const char *value, double low, double high, uint64_t *to) {
    char *end;
    errno = 0;
    *to = strtoull(value, &end, 10);
    bool number = *value >= '0' && *value <= '9' && !*end && !errno;
    return number && (double)*to >= low && (double)*to <= high ? TOOL_TAKEN : TOOL_REFUSED;
}

static tool_answer take(const tool_option *option, const char *value, void *options) {
    void *to = (char *)options + option->offset;
    switch (option->kind) {
    case TOOL_FLAG:
        *(bool *)to = true;
        return TOOL_TAKEN;
    case TOOL_TEXT:
        *(const char **)to = value;
        return TOOL_TAKEN;
    case TOOL_NUMBER:
        return read_number(value, option->low, option->high, to);
    case TOOL_WHOLE:
        return tool_read_whole(value, option->low, option->high, to);
    default:
        return option->take(options, value);
    }
}

/* The tables for getopt_long: long options by key, letters by themselves. */
static void make_tables(const tool *tool, struct option *longs, char *letters) {
    size_t i = 0;
    for (const tool_option *o = tool->option; o->name; o++, i++) {
        longs[i] = (struct option){o->name, o->kind == TOOL_FLAG ? no_argument : required_argument,
                                   NULL, FIRST_KEY + (int)i};
        if (o->letter)
            *letters++ = o->letter;
        if (o->letter && o->kind != TOOL_FLAG)
            *letters++ = ':';
    }
    longs[i] = (struct option){"help", no_argument, NULL, 'h'};
    longs[i + 1] = (struct option){"version", no_argument, NULL, 'V'};
    longs[i + 2] = (struct option){0};
    *letters++ = 'h', *letters++ = 'V', *letters = '\0';
}

static const tool_option *find(const tool *tool, int key) {
    const tool_option *o = tool->option;
    if (key >= FIRST_KEY)
        return o + (key - FIRST_KEY);
    while (o->letter != key)
        o++;
    return o;
}

void tool_suggest(const char *program, const char *word, const struct option *options) {
    char name[64];
    size_t count = 0;
    if (strncmp(word, "--", 2) != 0)
        return;
    const int letters = snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    for (; options[count].name; count++)
        if (!strncmp(options[count].name, name, (size_t)letters))
            return; /* ambiguous, or with a wrong value */
    const char *meant = sonar_text_nearest(name, options, count, sizeof *options);
    if (meant)
        fprintf(stderr, "%s: did you mean --%s?\n", program, meant);
}

int tool_read_options(const tool *tool, int argc, char **argv, void *options) {
    struct option longs[TOOL_OPTIONS_MOST + 3];
    char letters[2 * TOOL_OPTIONS_MOST + 3];
    make_tables(tool, longs, letters);
    for (int key; (key = getopt_long(argc, argv, letters, longs, NULL)) != -1;) {
        if (key == '?') {
            tool_suggest(tool->name, argv[optind - 1], longs);
            return try_help(tool);
        }
        if (key == 'h') {
            fputs(tool->usage, stdout);
            return EXIT_SUCCESS;
        }
        if (key == 'V') {
            printf("%s %s\n", tool->name, SONAR_VERSION);
            return EXIT_SUCCESS;
        }
        const tool_option *option = find(tool, key);
        tool_answer answer = take(option, optarg, options);
        if (answer == TOOL_REFUSED)
            return tool_wrong_usage(tool, "'%s' is not accepted for --%s; accepted: %s", optarg,
                                    option->name, option->accepted);
        if (answer == TOOL_EXPLAINED)
            return TOOL_WRONG_USAGE;
    }
    return -1;
}
