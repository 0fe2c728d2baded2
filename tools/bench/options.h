/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the command lines of sonar-bench, sonar-bench live and sonar-bench ranks share. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <argp.h>
#include <limits.h>

#include "bench.h"

typedef struct bench_options {
    const char *json;       /* NULL: none is wanted; "-": to standard output */
    const char *plugin_dir; /* NULL: the one beside this program */
    size_t threads;
    bench_effort effort;
} bench_options;

/* Takes --threads, --repetitions, --min-time, --max-time, --plugins, --json and -h, and refuses
 * what is no option. ARGP_ERR_UNKNOWN: it is none of these. */
error_t bench_parse_option(int key, char *arg, bench_options *to, struct argp_state *state);

/* argp_parse, after a word on each option that looks misspelt. */
void bench_parse(const struct argp *argp, const char *program, int argc, char **argv, void *input);

/* Values of options. They end the program by argp_error if there is none or it is out of range: a
 * whole number; a number in 0..1e9. */
size_t bench_parse_count(const char *text, size_t least, size_t most, struct argp_state *state);
double bench_parse_real(const char *text, struct argp_state *state);

enum { BENCH_NAME_BYTES = 64 };

/* Takes the next entry of a list a,b,c off it. False: there was none. */
bool bench_next_name(const char **list, char name[BENCH_NAME_BYTES]);
/* Ends the program where the list names none of the cases, or one that is not among them. */
void bench_check_cases(const bench_case *cases, const char *list, struct argp_state *state);
/* Whether the list names the case, its family or "all". */
bool bench_is_listed(const bench_case *c, const char *list);
void bench_list_cases(const bench_case *cases);

/* Where the plugins are; the text is the options' or `path`. */
const char *bench_plugin_dir(const bench_options *o, char path[PATH_MAX]);
/* JSON is wanted in a file, which is written after each case as well. */
bool bench_json_in_file(const bench_options *o);
/* Where text goes: to standard error if JSON has standard output. */
FILE *bench_text_stream(const bench_options *o);

#endif
