/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../common/options.h"
#include "program.h"

enum { ROWS_MOST = 48 };

/* Called before argp, which exits with its own message. */
void bench_parse(const struct argp *argp, const char *program, int argc, char **argv, void *input) {
    struct option known[ROWS_MOST] = {{.name = "help"}, {.name = "usage"}, {.name = "version"}};
    const struct argp_option *row = argp->options;
    size_t count = 3;
    for (; (row->name || row->key || row->doc) && count + 1 < ROWS_MOST; row++)
        if (row->name)
            known[count++].name = row->name;
    for (int i = 1; i < argc; i++)
        tool_suggest(program, argv[i], known);
    argp_parse(argp, argc, argv, 0, NULL, input);
}

size_t bench_parse_count(const char *text, size_t least, size_t most, struct argp_state *state) {
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (errno || end == text || *end || strchr(text, '-') || value < least || value > most)
        argp_error(state, "'%s' is not a number in %zu..%zu", text, least, most);
    return (size_t)value;
}

double bench_parse_real(const char *text, struct argp_state *state) {
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0 && value <= 1e9))
        argp_error(state, "'%s' is not a number in 0..1e9", text);
    return value;
}

error_t bench_parse_option(int key, char *arg, bench_options *to, struct argp_state *state) {
    switch (key) {
    case 't':
        to->threads = bench_parse_count(arg, 1, 1024, state);
        return 0;
    case 'r':
        to->effort.repetitions = bench_parse_count(arg, 1, 100000, state);
        return 0;
    case 'm':
        to->effort.min_time_s = bench_parse_real(arg, state);
        return 0;
    case 'M':
        to->effort.max_time_s = bench_parse_real(arg, state);
        return 0;
    case 'P':
        to->plugin_dir = arg;
        return 0;
    case 'j':
        to->json = arg;
        return 0;
    case 'h':
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "only options are taken, not '%s'", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- lists of cases -------------------------------------------------------------------------- */

bool bench_next_name(const char **list, char name[BENCH_NAME_BYTES]) {
    *list += strspn(*list, ",");
    const size_t n = strcspn(*list, ",");
    snprintf(name, BENCH_NAME_BYTES, "%.*s", (int)n, *list);
    *list += n;
    return n > 0;
}

static bool is_named(const bench_case *c, const char *name) {
    return bench_case_matches(c, name) || (strcmp(name, "all") == 0 && !c->by_name);
}

void bench_check_cases(const bench_case *cases, const char *list, struct argp_state *state) {
    char name[BENCH_NAME_BYTES];
    const char *at = list;
    bool any = false;
    for (; bench_next_name(&at, name); any = true) {
        const bench_case *c = cases;
        while (c->name && !is_named(c, name))
            c++;
        if (!c->name)
            argp_error(state, "--case: there is no case '%s'; see --list", name);
    }
    if (!any)
        argp_error(state, "--case: '%s' names no case; see --list", list);
}

bool bench_is_listed(const bench_case *c, const char *list) {
    char name[BENCH_NAME_BYTES];
    while (bench_next_name(&list, name))
        if (is_named(c, name))
            return true;
    return false;
}

void bench_list_cases(const bench_case *cases) {
    for (const bench_case *c = cases; c->name; c++)
        printf("%-13s %s\n", c->name, c->about);
}

/* ---- places ---------------------------------------------------------------------------------- */

const char *bench_plugin_dir(const bench_options *o, char path[PATH_MAX]) {
    if (o->plugin_dir)
        return o->plugin_dir;
    return program_plugin_dir(path, PATH_MAX) ? path : ".";
}

static bool to_stdout(const bench_options *o) {
    return o->json && strcmp(o->json, "-") == 0;
}

bool bench_json_in_file(const bench_options *o) {
    return o->json && !to_stdout(o);
}

FILE *bench_text_stream(const bench_options *o) {
    return to_stdout(o) ? stderr : stdout;
}
