/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The tools' command lines: a table has the options, where their values are stored, and what is
 * accepted. Every tool also has --help and --version, and exits with 2 on wrong usage, with a
 * sentence on stderr. */
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
    TOOL_OTHER     /* converted by `take` */
} tool_option_kind;

typedef enum tool_answer {
    TOOL_TAKEN = 0,
    TOOL_REFUSED,  /* not accepted */
    TOOL_EXPLAINED /* not accepted, and the reason was already printed */
} tool_answer;

typedef struct tool_option {
    const char *name; /* NULL ends a table */
    char letter;      /* '\0': none */
    tool_option_kind kind;
    size_t offset; /* in the tool's own structure */
    double low, high;
    tool_answer (*take)(void *options, const char *value);
    const char *accepted; /* "a number of Hz" */
} tool_option;

typedef struct tool {
    const char *name, *usage;
    const tool_option *option; /* at most TOOL_OPTIONS_MOST */
} tool;

enum { TOOL_OPTIONS_MOST = 32, TOOL_WRONG_USAGE = 2 };

/* Fills `options`. Returns -1 to continue, with the other arguments from argv[optind] on; or the
 * exit code. */
int tool_read_options(const tool *tool, int argc, char **argv, void *options);
/* For a word such as "--jsn=1" that is neither a long option nor the beginning of one: prints on
 * stderr which option was probably meant. options: in the form of getopt_long. */
void tool_suggest(const char *program, const char *word, const struct option *options);
/* For a `take`: digits only, from low to high. */
tool_answer tool_read_whole(const char *value, double low, double high, uint64_t *to);
/* Prints the mistake and how to get help; returns TOOL_WRONG_USAGE. */
int tool_wrong_usage(const tool *tool, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
