/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-bench: times each stage and the whole chain for given sizes. */
#include "live.h"

#include <stdlib.h>
#include <string.h>

#include "backend/open.h"
#include "options.h"
#include "program.h"
#include "ranks.h"

typedef struct options {
    const char *name; /* names of built-in cases or "all"; NULL: sizes were given */
    bench_case own;
    bool sizes_given;
    bench_options common;
    const char *backend;
    bool ingest;
    size_t ingest_channels; /* 0: several built-in numbers */
} options;

enum {
    OPT_SENSORS = 256,
    OPT_LENGTH,
    OPT_FS,
    OPT_CBF_BINS,
    OPT_LOFAR_BINS,
    OPT_MVDR_BINS,
    OPT_ANGLES,
    OPT_RANGES,
    OPT_SNAPSHOTS,
    OPT_LIST,
    OPT_INGEST
};

static const struct argp_option option_table[] = {
    {"case", 'c', "NAME,...", 0,
     "Cases or families, e.g. sensors for sensors-128 and so on; default standard,latency,mvdr", 1},
    {"list", OPT_LIST, NULL, 0, "List the cases and exit", 1},
    {"ingest", OPT_INGEST, "CHANNELS", OPTION_ARG_OPTIONAL,
     "Time ingest instead, with 1, 2 and 4 threads", 1},
    {NULL, 0, NULL, 0, "A custom case (other sizes are those of standard):", 2},
    {"sensors", OPT_SENSORS, "N", 0, "Sensors, from 2 on", 2},
    {"length", OPT_LENGTH, "N", 0, "Samples of a window", 2},
    {"fs", OPT_FS, "HZ", 0, "Sampling rate", 2},
    {"cbf-bins", OPT_CBF_BINS, "A:B", 0, "First and last bin of the CBF band", 2},
    {"lofar-bins", OPT_LOFAR_BINS, "A:B", 0, "First and last bin of the surface", 2},
    {"mvdr-bins", OPT_MVDR_BINS, "A:B", 0, "First and last bin of MVDR; default none", 2},
    {"angles", OPT_ANGLES, "N", 0, "Look directions", 2},
    {"ranges", OPT_RANGES, "N", 0, "Near-field ranges, 0 for none", 2},
    {"snapshots", OPT_SNAPSHOTS, "N", 0, "Snapshots of MVDR's block", 2},
    {NULL, 0, NULL, 0, "Measurement:", 3},
    {"backend", 'b', "NAME", 0, "cpu (default), cuda or both", 3},
    {"plugins", 'P', "DIR", 0,
     "Folder of the plugin and the peers; default: the one installed with this program", 3},
    {"threads", 't', "N", 0, "Workers (default 1)", 3},
    {"repetitions", 'r', "N", 0, "Least number of repetitions (default 20)", 3},
    {"min-time", 'm', "S", 0, "Least time of a measurement (default 0.5)", 3},
    {"max-time", 'M', "S", 0,
     "Longest time of a measurement with three or more repetitions; a longer execution is measured "
     "once; 0 (default): no limit",
     3},
    {"json", 'j', "FILE", 0, "Write JSON to this file, - for standard output", 3},
    {NULL, 'h', NULL, 0, "The same", -1}, /* as --help, which argp adds */
    {NULL, 0, NULL, 0, NULL, 0},
};

/* ---- values ---------------------------------------------------------------------------------- */

static bench_band parse_band(const char *text, struct argp_state *state) {
    unsigned long first = 0, last = 0;
    int used = 0;
    if (sscanf(text, "%9lu:%9lu%n", &first, &last, &used) != 2 || text[used] || last < first)
        argp_error(state, "'%s' is not FIRST:LAST, e.g. 327:492", text);
    return (bench_band){.first = first, .bins = last - first + 1};
}

static error_t parse_size(int key, char *arg, struct argp_state *state) {
    bench_case *own = &((options *)state->input)->own;
    const size_t most = (size_t)1 << 20;
    switch (key) {
    case OPT_SENSORS:
        own->sensors = bench_parse_count(arg, 2, most, state);
        break;
    case OPT_LENGTH:
        own->length = bench_parse_count(arg, 2, most, state);
        break;
    case OPT_FS:
        own->fs_hz = bench_parse_real(arg, state);
        break;
    case OPT_CBF_BINS:
        own->cbf = parse_band(arg, state);
        break;
    case OPT_LOFAR_BINS:
        own->lofar = parse_band(arg, state);
        break;
    case OPT_MVDR_BINS:
        own->mvdr = parse_band(arg, state);
        break;
    case OPT_ANGLES:
        own->angles = bench_parse_count(arg, 1, most, state);
        break;
    case OPT_RANGES:
        own->ranges = bench_parse_count(arg, 0, 4096, state);
        break;
    case OPT_SNAPSHOTS:
        own->snapshots = bench_parse_count(arg, 1, most, state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    ((options *)state->input)->sizes_given = true;
    return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    options *o = state->input;
    switch (key) {
    case 'c':
        bench_check_cases(bench_cases, arg, state);
        o->name = arg;
        return 0;
    case 'b':
        if (strcmp(arg, "cpu") != 0 && strcmp(arg, "cuda") != 0 && strcmp(arg, "both") != 0)
            argp_error(state, "--backend is cpu, cuda or both, not '%s'", arg);
        o->backend = arg;
        return 0;
    case OPT_LIST:
        bench_list_cases(bench_cases);
        exit(0);
    case OPT_INGEST:
        o->ingest = true;
        o->ingest_channels = arg ? bench_parse_count(arg, 1, (size_t)1 << 22, state) : 0;
        return 0;
    case ARGP_KEY_END:
        if (o->ingest && (o->name || o->sizes_given || o->common.json))
            argp_error(state, "--ingest takes no cases, sizes or JSON");
        if (o->name && o->sizes_given)
            argp_error(state, "either --case or sizes, not both");
        return 0;
    default:
        return parse_size(key, arg, state) ? bench_parse_option(key, arg, &o->common, state) : 0;
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

/* Writes each row at once, to the file first, so that an interrupted run keeps its results. */
static void show(void *ctx, const bench_report *report, const bench_result *result) {
    const bench_options *o = ctx;
    FILE *to = bench_text_stream(o);
    if (bench_json_in_file(o))
        bench_write_json(report, o->threads, o->json, NULL);
    if (result == report->result)
        bench_write_head(to);
    bench_write_row(report, result, to);
    fflush(to);
}

/* A case that fails is left out, the report says so, and the other cases are run. */
static void run_case(const bench_case *c, const bench_site *site, bench_report *report) {
    sonar_error err = {0};
    const size_t before = report->results;
    sonar_code code = bench_run(c, site, report, &err);
    if (code == SONAR_OK && site->peers && c->peers)
        code = bench_run_peers(c, site, report, &err);
    if (code != SONAR_OK)
        bench_leave_out(report, c, &err);
    if (site->peers)
        fprintf(stderr, "sonar-bench: %s: %zu results\n", c->name, report->results - before);
}

static void run_cases(const options *o, const bench_site *site, bench_report *report) {
    const char *list = o->name ? o->name : "standard,latency,mvdr";
    if (o->sizes_given)
        run_case(&o->own, site, report);
    for (const bench_case *c = bench_cases; c->name && !o->sizes_given; c++)
        if (bench_is_listed(c, list))
            run_case(c, site, report);
}

static sonar_code run_on(const options *o, const char *backend, const sonar_host *host,
                         bench_report *report, sonar_error *err) {
    char path[PATH_MAX];
    const char *dir = bench_plugin_dir(&o->common, path);
    sonar_backend_choice choice;
    sonar_code code = sonar_backend_open(backend, dir, host, &choice, err);
    if (code != SONAR_OK)
        return code;
    bench_site site = {.host = host, .backend = choice.backend, .effort = o->common.effort};
    if (choice.backend->native_space == SONAR_DEVICE) {
        snprintf(report->device, sizeof report->device, "%s", choice.description);
        site.peers = bench_peers_open(dir, report);
        if (!site.peers)
            fprintf(stderr, "sonar-bench: without peers and floors: %s\n", report->peers);
    }
    if (site.peers)
        code = bench_measure_ceilings(&site, report, err);
    if (code == SONAR_OK)
        run_cases(o, &site, report);
    sonar_backend_close(&choice);
    return code;
}

static sonar_code run_backends(const options *o, const sonar_host *host, bench_report *report,
                               sonar_error *err) {
    const bool both = strcmp(o->backend, "both") == 0;
    sonar_code code = run_on(o, both ? "cpu" : o->backend, host, report, err);
    return code == SONAR_OK && both ? run_on(o, "cuda", host, report, err) : code;
}

static sonar_code measure(const options *o, bench_report *report, sonar_error *err) {
    sonar_pool *pool = NULL;
    sonar_code code = sonar_pool_create(o->common.threads, NULL, &pool, err);
    if (code)
        return code;
    const sonar_host host = bench_host_of(pool);
    code = run_backends(o, &host, report, err);
    sonar_pool_destroy(pool);
    if (code)
        return code;
    return o->common.json ? bench_write_json(report, o->common.threads, o->common.json, err)
                          : SONAR_OK;
}

/* The exit status. */
static int finish(sonar_code code, const sonar_error *err) {
    if (code == SONAR_OK)
        return 0;
    fprintf(stderr, "sonar-bench: %s: %s\n", err->where, err->text);
    return code == SONAR_EINVAL ? 2 : 1;
}

int main(int argc, char **argv) {
    program_begin("sonar-bench");
    static const struct argp argp = {
        .options = option_table,
        .parser = parse,
        .doc = "Times each stage of the beamformer and the whole chain on synthetic data.\v"
               "'sonar-bench live' measures the running daemon, 'sonar-bench ranks' one array on "
               "several processes; see their --help."};
    argp_program_version = "sonar-bench " SONAR_VERSION;
    argp_err_exit_status = 2; /* exit code of wrong usage, as in the other programs */
    if (argc > 1 && strcmp(argv[1], "live") == 0)
        return live_main(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "ranks") == 0)
        return ranks_main(argc - 1, argv + 1);
    options o = {
        .own = bench_cases[0], .common = {.effort = {20, 0.5, 0}, .threads = 1}, .backend = "cpu"};
    o.own.name = "own";
    o.own.peers = true;
    o.own.snapshots = 64;
    bench_parse(&argp, "sonar-bench", argc, argv, &o);

    sonar_error err = {0};
    if (o.ingest)
        return finish(bench_ingest(o.ingest_channels, o.common.effort.min_time_s, stdout, &err),
                      &err);
    static bench_report report;
    report.kept = show;
    report.ctx = &o.common;
    /* Checked before the measurement, so that a long one does not end without its JSON. */
    if (bench_json_in_file(&o.common) &&
        bench_write_json(&report, o.common.threads, o.common.json, &err))
        return finish(SONAR_EINVAL, &err);
    fputs("sonar-bench: measuring\n", stderr);
    const int status = finish(measure(&o, &report, &err), &err);
    return status ? status : report.left_out > 0;
}
