/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-bench ranks: its command line and its report. */
#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/open.h"
#include "options.h"

/* Short windows, whose transforms cost little compared with the MVDR. */
#define MVDR_OF(b, block)                                                                          \
    .sensors = b, .length = 256, .fs_hz = 8000, .cbf = {20, 100}, .lofar = {20, 100},              \
    .mvdr = {20, 100}, .angles = 180, .snapshots = block, .mvdr_alone = true

static const bench_case cases[] = {
    {.name = "full",
     .about = "MVDR of full rank: 2048 sensors, 4096 snapshots",
     MVDR_OF(2048, 4096)},
    {.name = "full-trace",
     .about = "the same with the rule trace, which needs no eigenvalues",
     .loading = SONAR_LOADING_TRACE,
     .eps = 0.01,
     MVDR_OF(2048, 4096)},
    {.name = "block",
     .about = "MVDR in snapshot space: 262144 sensors, 64 snapshots",
     MVDR_OF(262144, 64)},
    {.name = "beams",
     .about = "the thesis's standard case with 32768 sensors, no MVDR",
     .sensors = 32768,
     .length = 8192,
     .fs_hz = 8000,
     .cbf = {327, 166},
     .lofar = {34, 459},
     .angles = 160,
     .ranges = 7},
    {.name = NULL},
};

typedef struct options {
    const char *list, *backend;
    size_t sensors, snapshots, bins; /* 0: those of the case */
    bench_options common;
} options;

enum { OPT_SENSORS = 256, OPT_SNAPSHOTS, OPT_BINS, OPT_LIST };

static const struct argp_option option_table[] = {
    {"case", 'c', "NAME,...", 0, "Cases; default all", 1},
    {"list", OPT_LIST, NULL, 0, "List the cases and exit", 1},
    {"sensors", OPT_SENSORS, "N", 0, "Number of sensors instead of that of the case", 1},
    {"snapshots", OPT_SNAPSHOTS, "N", 0, "Number of snapshots in MVDR's block", 1},
    {"mvdr-bins", OPT_BINS, "N", 0, "Number of MVDR's bins, up to 100", 1},
    {"backend", 'b', "NAME", 0, "cpu (default) or cuda; a rank takes the device of its number", 2},
    {"plugins", 'P', "DIR", 0,
     "Folder of the plugins; default: the one installed with this program", 2},
    {"threads", 't', "N", 0, "Workers of each rank (default 1)", 2},
    {"repetitions", 'r', "N", 0, "Least number of windows (default 50)", 2},
    {"min-time", 'm', "S", 0, "Least time of a measurement (default 0.5)", 2},
    {"max-time", 'M', "S", 0,
     "Longest time of a measurement with three or more windows; 0 (default): no limit", 2},
    {"json", 'j', "FILE", 0, "Write JSON to this file, - for standard output", 2},
    {NULL, 'h', NULL, 0, "The same", -1}, /* as --help, which argp adds */
    {NULL, 0, NULL, 0, NULL, 0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    options *o = state->input;
    const size_t most = (size_t)1 << 20;
    switch (key) {
    case 'c':
        bench_check_cases(cases, arg, state);
        o->list = arg;
        return 0;
    case OPT_LIST:
        bench_list_cases(cases);
        exit(0);
    case OPT_SENSORS:
        o->sensors = bench_parse_count(arg, 2, most, state);
        return 0;
    case OPT_SNAPSHOTS:
        o->snapshots = bench_parse_count(arg, 1, most, state);
        return 0;
    case OPT_BINS:
        o->bins = bench_parse_count(arg, 1, 100, state);
        return 0;
    case 'b':
        if (strcmp(arg, "cpu") != 0 && strcmp(arg, "cuda") != 0)
            argp_error(state, "--backend is cpu or cuda, not '%s'", arg);
        o->backend = arg;
        return 0;
    default:
        return bench_parse_option(key, arg, &o->common, state);
    }
}

/* ---- report ---------------------------------------------------------------------------------- */

typedef struct sums {
    double bytes;
    int64_t ns, plain_ns;
} sums;

static sums sums_of(const ranks_result *r) {
    sums s = {0};
    for (size_t i = 0; i < r->crossings; i++) {
        s.bytes += r->crossing[i].bytes;
        s.ns += r->crossing[i].median_ns;
        s.plain_ns += r->crossing[i].plain_ns;
    }
    return s;
}

static double speedup(const ranks_result *r) {
    return (double)r->one.median_ns / (double)r->several.median_ns;
}

static void write_text(const ranks_result *r, FILE *to) {
    const sums s = sums_of(r);
    fprintf(to, "%s, %zu sensors: 1 rank %.3f ms a window (min %.3f, p99 %.3f, of %zu)\n",
            r->of->name, r->of->sensors, (double)r->one.median_ns / 1e6,
            (double)r->one.min_ns / 1e6, (double)r->one.p99_ns / 1e6, r->one.repetitions);
    if (r->ranks < 2)
        return;
    fprintf(to, "  %zu ranks %.3f ms (min %.3f, p99 %.3f, of %zu): %.2f times; worst %.2g dB\n",
            r->ranks, (double)r->several.median_ns / 1e6, (double)r->several.min_ns / 1e6,
            (double)r->several.p99_ns / 1e6, r->several.repetitions, speedup(r), r->worst_db);
    for (size_t i = 0; i < r->crossings; i++)
        fprintf(to, "  %-10s %12.0f bytes %9.1f us, plain MPI %9.1f us\n", r->crossing[i].call,
                r->crossing[i].bytes, (double)r->crossing[i].median_ns / 1e3,
                (double)r->crossing[i].plain_ns / 1e3);
    fprintf(to, "  crossing   %12.0f bytes %9.1f us, plain MPI %9.1f us\n", s.bytes,
            (double)s.ns / 1e3, (double)s.plain_ns / 1e3);
}

/* cJSON writes NaN, for unknown values, as null. */
static double or_nan(double value) {
    return value > 0 ? value : (double)NAN;
}

static void add_crossings(cJSON *to, const ranks_result *r) {
    const sums s = sums_of(r);
    cJSON *list = cJSON_AddArrayToObject(to, "crossings");
    for (size_t i = 0; i < r->crossings; i++) {
        const ranks_crossing *c = &r->crossing[i];
        cJSON *one = cJSON_CreateObject();
        cJSON_AddItemToArray(list, one);
        cJSON_AddStringToObject(one, "call", c->call);
        cJSON_AddNumberToObject(one, "bytes", c->bytes);
        cJSON_AddNumberToObject(one, "median_ns", (double)c->median_ns);
        cJSON_AddNumberToObject(one, "plain_ns", or_nan((double)c->plain_ns));
    }
    cJSON_AddNumberToObject(to, "crossing_bytes", s.bytes);
    cJSON_AddNumberToObject(to, "crossing_ns", (double)s.ns);
    cJSON_AddNumberToObject(to, "plain_ns", or_nan((double)s.plain_ns));
}

/* This project's goal for two GPUs and the sizes of the case; 0: none. */
static double goal_of(const ranks_result *r, const char *backend) {
    static const struct {
        const char *name;
        double speedup;
    } goal[] = {{"full", 1.9}, {"full-trace", 1.9}, {"block", 1.8}};
    const bench_case *c = cases;
    while (strcmp(c->name, r->of->name) != 0)
        c++;
    if (r->ranks != 2 || strcmp(backend, "cuda") != 0 || c->sensors != r->of->sensors ||
        c->snapshots != r->of->snapshots || c->mvdr.bins != r->of->mvdr.bins)
        return 0;
    for (size_t i = 0; i < sizeof goal / sizeof *goal; i++)
        if (strcmp(c->name, goal[i].name) == 0)
            return goal[i].speedup;
    return 0;
}

static void add_result(cJSON *list, const ranks_result *r, const char *backend) {
    static const char *const loading[] = {SONAR_LOADING_RULES(SONAR_PICK_WORD, SONAR_COMMA)};
    cJSON *to = cJSON_CreateObject();
    cJSON_AddItemToArray(list, to);
    cJSON_AddStringToObject(to, "case", r->of->name);
    cJSON_AddStringToObject(to, "backend", backend);
    bench_json_parameters(to, r->of);
    if (r->of->mvdr.bins)
        cJSON_AddStringToObject(to, "loading", loading[r->of->loading]);
    bench_json_times(cJSON_AddObjectToObject(to, "one"), &r->one);
    cJSON_AddNumberToObject(to, "ranks", (double)r->ranks);
    if (r->ranks < 2)
        return;
    bench_json_times(cJSON_AddObjectToObject(to, "several"), &r->several);
    cJSON_AddNumberToObject(to, "speedup", speedup(r));
    if (goal_of(r, backend) > 0)
        cJSON_AddNumberToObject(to, "goal_speedup", goal_of(r, backend));
    cJSON_AddNumberToObject(to, "worst_db", r->worst_db);
    add_crossings(to, r);
}

typedef struct findings {
    bench_report report;
    cJSON *ranks, *left_out;
} findings;

static sonar_code write_json(const options *o, const findings *found, const char *mpi,
                             sonar_error *err) {
    cJSON *root = bench_json_begin(&found->report, o->common.threads);
    cJSON_AddStringToObject(root, "mpi", mpi);
    cJSON_AddItemToObject(root, "ranks", cJSON_Duplicate(found->ranks, true));
    cJSON_AddItemToObject(root, "left_out", cJSON_Duplicate(found->left_out, true));
    return bench_json_end(root, o->common.json, err);
}

/* ---- the program ----------------------------------------------------------------------------- */

static bench_case resized(const options *o, const bench_case *of) {
    bench_case c = *of;
    c.sensors = o->sensors ? o->sensors : c.sensors;
    if (c.mvdr.bins) {
        c.snapshots = o->snapshots ? o->snapshots : c.snapshots;
        c.mvdr.bins = c.cbf.bins = c.lofar.bins = o->bins ? o->bins : c.mvdr.bins;
    }
    return c;
}

/* Whether the surfaces agree with those of one process to the documented accuracy. */
static bool agrees(const ranks_result *r) {
    return r->ranks < 2 || r->worst_db <= (r->of->mvdr_alone ? 0.05 : 0.01);
}

/* The file is written after each case, so that an interrupted run keeps its results. */
static sonar_code run_case(const options *o, const bench_case *c, const ranks_site *at,
                           findings *found, sonar_error *err) {
    ranks_result result;
    const sonar_code code = ranks_run(c, at, &result, err);
    if (code || at->cluster.place.rank > 0)
        return code;
    FILE *text = bench_text_stream(&o->common);
    write_text(&result, text);
    fflush(text);
    add_result(found->ranks, &result, at->site.backend->name);
    if (bench_json_in_file(&o->common))
        write_json(o, found, at->cluster.description, NULL);
    if (!agrees(&result))
        return sonar_fail(err, SONAR_ESTATE, c->name, "the ranks differ from one by %.3g dB",
                          result.worst_db);
    return SONAR_OK;
}

static sonar_code run_cases(const options *o, const ranks_site *at, findings *found,
                            sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (const bench_case *c = cases; c->name && !code; c++) {
        const bench_case own = resized(o, c);
        if (bench_is_listed(c, o->list))
            code = run_case(o, &own, at, found, err);
    }
    if (!code && o->common.json && at->cluster.place.rank == 0)
        code = write_json(o, found, at->cluster.description, err);
    return code;
}

static sonar_code run_at(const options *o, const char *dir, ranks_site *at, sonar_pool *pool,
                         findings *found, sonar_error *err) {
    sonar_backend_choice choice;
    sonar_error why = {0};
    sonar_host host = bench_host_of(pool);
    host.device = at->cluster.place.local;
    host.awake_ns = SONAR_RANKS_AWAKE_NS;
    sonar_code code = sonar_backend_open(o->backend, dir, &host, &choice, err);
    if (code)
        return code;
    at->site = (bench_site){.host = &host, .backend = choice.backend, .effort = o->common.effort};
    if (choice.backend->native_space == SONAR_DEVICE)
        snprintf(found->report.device, sizeof found->report.device, "%s", choice.description);
    at->plain = meter_plain(dir, &why);
    if (!at->plain && at->cluster.place.rank == 0)
        fprintf(stderr, "sonar-bench: exchanges are not compared with plain MPI: %s: %s\n",
                why.where, why.text);
    code = run_cases(o, at, found, err);
    sonar_backend_close(&choice);
    return code;
}

/* Checked before the measurement, so that a long one does not end without its JSON. */
static sonar_code try_json(const options *o, const sonar_cluster *cluster, const findings *found,
                           sonar_error *err) {
    if (cluster->place.rank > 0 || !bench_json_in_file(&o->common))
        return SONAR_OK;
    return write_json(o, found, cluster->description, err) ? SONAR_EINVAL : SONAR_OK;
}

/* A rank that fails ends all ranks, since the others would wait for it. */
static sonar_code run(const options *o, findings *found, sonar_error *err) {
    char path[PATH_MAX];
    const char *dir = bench_plugin_dir(&o->common, path);
    ranks_site at = {0};
    sonar_pool *pool = NULL;
    sonar_code code = sonar_cluster_join(dir, &at.cluster, err);
    if (code)
        return code;
    code = try_json(o, &at.cluster, found, err);
    if (!code)
        code = sonar_pool_create(o->common.threads, NULL, &pool, err);
    if (!code)
        code = run_at(o, dir, &at, pool, found, err);
    if (code && at.cluster.place.ranks > 1) {
        fprintf(stderr, "sonar-bench: rank %zu: %s: %s\n", at.cluster.place.rank, err->where,
                err->text);
        at.cluster.ops->abort(1);
    }
    sonar_pool_destroy(pool);
    sonar_cluster_leave(&at.cluster);
    return code;
}

int ranks_main(int argc, char **argv) {
    static const struct argp argp = {
        .options = option_table,
        .parser = parse,
        .doc = "Compares one array on several processes with the same array on one: the time of a "
               "window in the engine, and the exchange between the processes. Start it by mpirun, "
               "one process a GPU: mpirun -n 2 --bind-to numa sonar-bench ranks --backend cuda"};
    static char name[] = "sonar-bench ranks";
    static findings found;
    options o = {.list = "all", .backend = "cpu", .common = {.effort = {50, 0.5, 0}, .threads = 1}};
    sonar_error err = {0};
    argv[0] = name;
    bench_parse(&argp, "sonar-bench ranks", argc, argv, &o);
    found.ranks = cJSON_CreateArray();
    found.left_out = cJSON_CreateArray();
    const sonar_code code = run(&o, &found, &err);
    if (code)
        fprintf(stderr, "sonar-bench: %s: %s\n", err.where, err.text);
    cJSON_Delete(found.ranks);
    cJSON_Delete(found.left_out);
    return code == SONAR_OK ? 0 : code == SONAR_EINVAL ? 2 : 1;
}
