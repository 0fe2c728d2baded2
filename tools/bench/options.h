/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Options shared by sonar-bench, sonar-bench live and sonar-bench ranks. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <argp.h>
#include <limits.h>

#include "bench.h"

typedef struct bench_options {
    const char *json;       /* NULL: no JSON; "-": standard output */
    const char *plugin_dir; /* NULL: the folder beside this program */
    size_t threads;
    bench_effort effort;
} bench_options;

/* Handles --threads, --repetitions, --min-time, --max-time, --plugins, --json and -h, and refuses
 * arguments that are not options. ARGP_ERR_UNKNOWN: another option. */
error_t bench_parse_option(int key, char *arg, bench_options *to, struct argp_state *state);

/* argp_parse, after a message on each option that seems misspelt. */
void bench_parse(const struct argp *argp, const char *program, int argc, char **argv, void *input);

/* Values of options: a whole number; a number in 0..1e9. They end the program by argp_error if the
 * value is missing or out of range. */
size_t bench_parse_count(const char *text, size_t least, size_t most, struct argp_state *state);
double bench_parse_real(const char *text, struct argp_state *state);

enum { BENCH_NAME_BYTES = 64 };

/* Removes the first entry from a list a,b,c. False: the list is empty. */
bool bench_next_name(const char **list, char name[BENCH_NAME_BYTES]);
/* Ends the program if the list is empty or names an unknown case. */
void bench_check_cases(const bench_case *cases, const char *list, struct argp_state *state);
/* Whether the list names the case, its family or "all". */
bool bench_is_listed(const bench_case *c, const char *list);
void bench_list_cases(const bench_case *cases);

/* Folder of the plugins; the text belongs to the options or is `path`. */
const char *bench_plugin_dir(const bench_options *o, char path[PATH_MAX]);
/* Whether JSON goes to a file, which is also written after each case. */
bool bench_json_in_file(const bench_options *o);
/* Stream for text: standard error if JSON goes to standard output. */
FILE *bench_text_stream(const bench_options *o);

#endif
