/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The tools' command lines: a table says what is taken, where it goes and what is accepted. Every
 * tool also has --help and --version, and leaves with 2 on wrong usage, with a sentence on stderr.
 */
#ifndef TOOL_OPTIONS_H
#define TOOL_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum tool_option_kind {
    TOOL_FLAG = 0, /* bool, no value */
    TOOL_TEXT,     /* const char * */
    TOOL_WHOLE,    /* uint64_t, from low to high */
    TOOL_NUMBER,   /* double, from low to high */
    TOOL_OTHER     /* what `take` makes of it */
} tool_option_kind;

typedef enum tool_answer {
    TOOL_TAKEN = 0,
    TOOL_REFUSED,  /* not accepted */
    TOOL_EXPLAINED /* neither, but why has been said already */
} tool_answer;

typedef struct tool_option {
    const char *name; /* NULL ends a table */
    char letter;      /* '\0': none */
    tool_option_kind kind;
    size_t offset; /* into the tool's own structure */
    double low, high;
    tool_answer (*take)(void *options, const char *value);
    const char *accepted; /* "a number of Hz" */
} tool_option;

typedef struct tool {
    const char *name, *usage;
    const tool_option *option; /* at most TOOL_OPTIONS_MOST */
} tool;

enum { TOOL_OPTIONS_MOST = 32, TOOL_WRONG_USAGE = 2 };

/* Fills `options`. Returns -1 to go on, the other arguments being argv[optind] and what follows; or
 * the exit code. */
int tool_read_options(const tool *tool, int argc, char **argv, void *options);
/* Of a word such as "--jsn=1" that is no long option, nor the beginning of one: says on stderr
 * which was probably meant. options: as getopt_long takes them. */
void tool_suggest(const char *program, const char *word, const struct option *options);
/* For a `take`: digits only, from low to high. */
tool_answer tool_read_whole(const char *value, double low, double high, uint64_t *to);
/* Says what is wrong and how to get help; TOOL_WRONG_USAGE. */
int tool_wrong_usage(const tool *tool, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
