/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-bench live: one run, or the search for the largest array that the daemon keeps up with. */
#include "live.h"
#include "search.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/core.h"
#include "backend/open.h"
#include "ingest/frame.h"
#include "options.h"
#include "program.h"

/* The thesis's standard band and directions, with its update once a second; for the latency a fast
 * update of a long window. */
#define THROUGHPUT                                                                                 \
    .sensors = 2048, .length = 8192, .hop = 8000, .queue_windows = 2, .fs_hz = 8000,               \
    .first_bin = 327, .last_bin = 492, .warm_up_s = 8
#define LATENCY                                                                                    \
    .sensors = 512, .length = 32768, .hop = 1024, .queue_windows = 4, .fs_hz = 20000,              \
    .first_bin = 327, .last_bin = 492, .warm_up_s = 3, .latency = true

const live_case live_cases[] = {
    {.name = "latency-everything",
     .about = "512 sensors at 20 kHz, 19.5 windows of 1.6 s a second: far and near field, "
              "frequency-azimuth surface, MVDR, detections",
     .everything = true,
     LATENCY},
    {.name = "latency",
     .about = "the same sensors and windows, only far field",
     .goal_gpu = 2,
     .goal_cpu = 40,
     LATENCY},
    {.name = "throughput-everything",
     .about = "8 kHz, a window a second: all results of latency-everything",
     .everything = true,
     .goal_gpu = 655360,
     .goal_cpu = 16384,
     THROUGHPUT},
    {.name = "throughput",
     .about = "the same windows, only far field",
     .goal_gpu = 655360,
     .goal_gpu_shm = 1310720,
     .goal_cpu = 2048,
     THROUGHPUT},
    {0},
};

/* By default mpirun binds each of two processes to a single core. */
#define MPIRUN "mpirun --bind-to none --oversubscribe"

static const char default_sizes[] =
    "2048,4096,8192,16384,24576,32768,49152,65536,98304,131072,196608,262144";

typedef struct options {
    live_plan plan;
    bench_options common;
    bool find;
    size_t sizes, size[SEARCH_SIZES_MOST];
    double trial_s;
    const char *setting[LIVE_SETTINGS_MOST];
    char daemon[PATH_MAX];
} options;

/* The report so far. */
typedef struct findings {
    cJSON *live, *left_out;
    size_t failed;
} findings;

static volatile sig_atomic_t stop;

/* ---- options --------------------------------------------------------------------------------- */

enum {
    OPT_FIND = 256,
    OPT_TRIAL,
    OPT_WARM_UP,
    OPT_SENDERS,
    OPT_FRAME,
    OPT_LAYOUT,
    OPT_TRANSPORT,
    OPT_RANKS,
    OPT_MPIRUN,
    OPT_LIST
};

static const struct argp_option option_table[] = {
    {"case", 'c', "NAME", 0, "latency-everything (default), throughput; see --list", 1},
    {"list", OPT_LIST, NULL, 0, "List the cases and exit", 1},
    {"sensors", 'n', "N", 0, "Sensors; default: those of the case", 1},
    {"find", OPT_FIND, "N,...", OPTION_ARG_OPTIONAL,
     "Find the largest of these ascending sizes that holds, and measure it", 1},
    {"set", 's', "OPTION=VALUE", 0,
     "An option of the daemon, e.g. ingest.high_water_mark=128; without a value: its default. "
     "The run subscribes to output.topics",
     1},
    {NULL, 0, NULL, 0, "Measurement:", 2},
    {"seconds", 'd', "S", 0, "Duration of the measurement (default 60)", 2},
    {"warm-up", OPT_WARM_UP, "S", 0, "Duration before it, not measured; default: that of the case",
     2},
    {"trial", OPT_TRIAL, "S", 0, "Duration of a trial of --find (default 10)", 2},
    {"json", 'j', "FILE", 0, "Write JSON to this file, - for standard output", 2},
    {NULL, 0, NULL, 0, "Senders:", 3},
    {"senders", OPT_SENDERS, "N", 0, "Sender processes, a connection each; default: by the size",
     3},
    {"frame-samples", OPT_FRAME, "N", 0, "Samples of a frame; default: by the size", 3},
    {"layout", OPT_LAYOUT, "NAME", 0, "channel-major (default) or interleaved", 3},
    {"transport", OPT_TRANSPORT, "NAME", 0,
     "sockets (default), shm: samples in memory shared with the daemon, tcp: over loopback, or "
     "curve: tcp, encrypted",
     3},
    {NULL, 0, NULL, 0, "Daemon:", 4},
    {"daemon", 'D', "PATH", 0, "The daemon's program; default: sonard beside this one", 4},
    {"backend", 'b', "NAME", 0, "auto (default), cpu or cuda", 4},
    {"threads", 't', "N", 0, "The daemon's workers; default: the number of processors", 4},
    {"ranks", OPT_RANKS, "N", 0, "Number of daemon processes that share the array, under mpirun",
     4},
    {"mpirun", OPT_MPIRUN, "COMMAND", 0,
     "The command that starts them, with its options (default \"" MPIRUN "\")", 4},
    {NULL, 'h', NULL, 0, "The same", -1}, /* as --help, which argp adds */
    {NULL, 0, NULL, 0, NULL, 0},
};

static void list_cases(void) {
    for (const live_case *c = live_cases; c->name; c++)
        printf("%-22s %s\n", c->name, c->about);
}

static double parse_seconds(const char *text, double least, struct argp_state *state) {
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end || !(value >= least && value <= 1e6))
        argp_error(state, "'%s' is not a number of seconds from %g to 1e6", text, least);
    return value;
}

static void parse_sizes(const char *list, options *o, struct argp_state *state) {
    char text[BENCH_NAME_BYTES];
    o->find = true;
    o->sizes = 0;
    for (const char *at = list; bench_next_name(&at, text);) {
        if (o->sizes == SEARCH_SIZES_MOST)
            argp_error(state, "--find takes at most %d sizes", SEARCH_SIZES_MOST);
        o->size[o->sizes] = bench_parse_count(text, 2, 1u << 24, state);
        if (o->sizes && o->size[o->sizes] <= o->size[o->sizes - 1])
            argp_error(state, "--find takes ascending sizes, not '%s'", list);
        o->sizes++;
    }
}

static const live_case *parse_case(const char *name, struct argp_state *state) {
    for (const live_case *c = live_cases; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    argp_error(state, "there is no live case '%s'; see --list", name);
    return NULL;
}

static int parse_layout(const char *name, struct argp_state *state) {
    if (strcmp(name, "interleaved") == 0)
        return SONAR_FRAME_INTERLEAVED;
    if (strcmp(name, "channel-major") != 0)
        argp_error(state, "--layout is channel-major or interleaved, not '%s'", name);
    return SONAR_FRAME_CHANNEL_MAJOR;
}

static live_transport parse_transport(const char *name, struct argp_state *state) {
    int i = 0;
    while (i < LIVE_TRANSPORTS && strcmp(name, live_transport_name[i]) != 0)
        i++;
    if (i == LIVE_TRANSPORTS)
        argp_error(state, "--transport is sockets, shm, tcp or curve, not '%s'", name);
    return (live_transport)i;
}

static error_t parse_daemon(int key, char *arg, struct argp_state *state) {
    options *o = state->input;
    switch (key) {
    case 'D':
        o->plan.daemon = arg;
        return 0;
    case 'b':
        if (strcmp(arg, "auto") != 0 && strcmp(arg, "cpu") != 0 && strcmp(arg, "cuda") != 0)
            argp_error(state, "--backend is auto, cpu or cuda, not '%s'", arg);
        o->plan.backend = arg;
        return 0;
    case 't':
        o->plan.threads = bench_parse_count(arg, 1, 256, state);
        return 0;
    case OPT_RANKS:
        o->plan.ranks = bench_parse_count(arg, 1, SONAR_RANKS_MOST, state);
        return 0;
    case OPT_MPIRUN:
        o->plan.mpirun = arg;
        return 0;
    default:
        return bench_parse_option(key, arg, &o->common, state);
    }
}

static error_t parse_measurement(int key, char *arg, struct argp_state *state) {
    options *o = state->input;
    switch (key) {
    case 'd':
        o->plan.seconds = parse_seconds(arg, 0.1, state);
        return 0;
    case OPT_WARM_UP:
        o->plan.warm_up_s = parse_seconds(arg, 0, state);
        return 0;
    case OPT_TRIAL:
        o->trial_s = parse_seconds(arg, 0.1, state);
        return 0;
    case OPT_SENDERS:
        o->plan.senders = bench_parse_count(arg, 1, LIVE_SENDERS_MOST, state);
        return 0;
    case OPT_FRAME:
        o->plan.frame_samples = bench_parse_count(arg, 1, SONAR_FRAME_MAX_SAMPLES, state);
        return 0;
    case OPT_LAYOUT:
        o->plan.layout = parse_layout(arg, state);
        return 0;
    case OPT_TRANSPORT:
        o->plan.transport = parse_transport(arg, state);
        return 0;
    default:
        return parse_daemon(key, arg, state);
    }
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    options *o = state->input;
    switch (key) {
    case 'c':
        o->plan.of = parse_case(arg, state);
        return 0;
    case OPT_LIST:
        list_cases();
        exit(0);
    case 'n':
        o->plan.sensors = bench_parse_count(arg, 2, 1u << 24, state);
        return 0;
    case OPT_FIND:
        parse_sizes(arg ? arg : default_sizes, o, state);
        return 0;
    case 's':
        if (o->plan.settings == LIVE_SETTINGS_MOST)
            argp_error(state, "--set can be given at most %d times", LIVE_SETTINGS_MOST);
        o->setting[o->plan.settings++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (o->find && (o->plan.sensors || o->sizes == 0))
            argp_error(state, "either --sensors or sizes for --find");
        return 0;
    default:
        return parse_measurement(key, arg, state);
    }
}

/* ---- the report ------------------------------------------------------------------------------ */

static sonar_code write_json(const options *o, const bench_report *report, const findings *found,
                             sonar_error *err) {
    const size_t threads = o->plan.threads ? o->plan.threads : sonar_processors_online();
    cJSON *root = bench_json_begin(report, threads);
    cJSON_AddItemToObject(root, "live", cJSON_Duplicate(found->live, true));
    cJSON_AddItemToObject(root, "left_out", cJSON_Duplicate(found->left_out, true));
    return bench_json_end(root, o->common.json, err);
}

/* Checked before the measurement, so that a long one does not end without its JSON. An existing
 * file is kept until the first result. */
static sonar_code try_json(const options *o, const bench_report *report, const findings *found,
                           sonar_error *err) {
    struct stat about;
    const char *path = o->common.json;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0)
        return write_json(o, report, found, err);
    return access(path, W_OK) == 0
               ? SONAR_OK
               : sonar_fail(err, SONAR_ESYS, path, "cannot be written: %s", strerror(errno));
}

/* Wrong usage: no run was started. */
static bool is_refused(sonar_code code, const findings *found) {
    return code == SONAR_EINVAL && cJSON_GetArraySize(found->live) == 0;
}

/* The file is written after each run, so that an interrupted search keeps its results. */
static void keep(const options *o, const bench_report *report, const findings *found) {
    if (bench_json_in_file(&o->common))
        write_json(o, report, found, NULL);
}

/* The GPU's description. Called after the last run, since a process with a CUDA context must not
 * fork. */
static void describe_gpu(const findings *found, bench_report *report) {
    bool cuda = false;
    const cJSON *run;
    cJSON_ArrayForEach(run, found->live) {
        const cJSON *backend = cJSON_GetObjectItemCaseSensitive(run, "backend");
        cuda |= cJSON_IsString(backend) && strcmp(backend->valuestring, "cuda") == 0;
    }
    char path[PATH_MAX];
    if (!cuda || !program_plugin_dir(path, sizeof path))
        return;
    sonar_backend_choice choice;
    if (sonar_backend_open("cuda", path, sonar_host_serial(), &choice, NULL) == SONAR_OK)
        snprintf(report->device, sizeof report->device, "%s", choice.description);
    sonar_backend_close(&choice);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Makes and reports one run; false if it was not held. */
static bool run_one(const options *o, const live_plan *plan, const bench_report *report,
                    findings *found, sonar_error *err, sonar_code *code) {
    live_result result;
    char name[64];
    fprintf(stderr, "sonar-bench: %s, %zu sensors: %g s\n", plan->of->name, plan->sensors,
            plan->warm_up_s + plan->seconds);
    *code = live_run(plan, &result, err);
    if (*code == SONAR_OK) {
        live_write_text(&result, bench_text_stream(&o->common));
        fflush(bench_text_stream(&o->common));
        live_add_json(&result, found->live);
    } else {
        fprintf(stderr, "sonar-bench: %s, %zu sensors: %s: %s\n", plan->of->name, plan->sensors,
                err->where, err->text);
        snprintf(name, sizeof name, "%s, %zu sensors", plan->of->name, plan->sensors);
        bench_json_leave_out(found->left_out, name, err);
        found->failed++;
    }
    const bool held = *code == SONAR_OK && result.held;
    live_result_clear(&result);
    if (!is_refused(*code, found))
        keep(o, report, found);
    return held;
}

/* Searches by trials. A size that cannot be run counts as not held; *code is the error of the
 * smallest one. */
static size_t search_largest(const options *o, const bench_report *report, findings *found,
                             sonar_error *err, sonar_code *code) {
    live_plan plan = o->plan;
    search s = search_begin(o->sizes);
    sonar_error why = {0};
    size_t hold, impossible = o->sizes;
    plan.seconds = o->trial_s;
    plan.trial = true;
    while (!search_end(&s, &hold) && !stop) {
        sonar_code failed = SONAR_OK;
        const size_t i = search_next(&s);
        plan.sensors = o->size[i];
        const bool held = run_one(o, &plan, report, found, &why, &failed);
        search_note(&s, i, failed ? SEARCH_IMPOSSIBLE : held ? SEARCH_HELD : SEARCH_LOST);
        if (failed && i < impossible) {
            impossible = i;
            *code = failed;
            *err = why;
        }
    }
    return hold;
}

/* Errors of larger sizes are part of the result: only a search that finds no size has failed. */
static sonar_code find(const options *o, const bench_report *report, findings *found,
                       sonar_error *err) {
    live_plan plan = o->plan;
    sonar_code first = SONAR_OK, code;
    sonar_error later = {0}; /* err is that of the first failure */
    for (size_t hold = search_largest(o, report, found, err, &first); hold > 0 && !stop; hold--) {
        plan.sensors = o->size[hold - 1];
        if (run_one(o, &plan, report, found, &later, &code))
            return SONAR_OK;
    }
    if (stop)
        return sonar_fail(err, SONAR_ESTATE, "sonar-bench", "stopped by a signal");
    return first ? first : sonar_fail(err, SONAR_ESTATE, "--find", "no size was held");
}

static sonar_code run_all(const options *o, const bench_report *report, findings *found,
                          sonar_error *err) {
    sonar_code code = live_daemon_find(o->plan.daemon, err);
    if (code != SONAR_OK || o->find)
        return code ? code : find(o, report, found, err);
    live_plan plan = o->plan;
    run_one(o, &plan, report, found, err, &code);
    return code;
}

/* ---- the program ----------------------------------------------------------------------------- */

static void catch_signals(void) {
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    program_stop_on(SIGINT, &stop);
    program_stop_on(SIGTERM, &stop);
    program_stop_on(SIGHUP, &stop);
    sigaction(SIGPIPE, &ignore, NULL);
}

/* sonard in this program's folder. */
static const char *own_daemon(char path[PATH_MAX]) {
    return program_folder(path, PATH_MAX - strlen("/sonard")) ? strcat(path, "/sonard") : "sonard";
}

static void say(const sonar_error *err) {
    fprintf(stderr, "sonar-bench: %s: %s\n", err->where, err->text);
}

static int finish(const options *o, bench_report *report, findings *found, sonar_code code,
                  const sonar_error *err) {
    const bool refused = is_refused(code, found);
    if (code != SONAR_OK && found->failed == 0)
        say(err);
    describe_gpu(found, report);
    sonar_error why = {0};
    if (o->common.json && !refused && write_json(o, report, found, &why))
        say(&why);
    cJSON_Delete(found->live);
    cJSON_Delete(found->left_out);
    return refused ? 2 : code == SONAR_OK && why.code == SONAR_OK ? 0 : 1;
}

int live_main(int argc, char **argv) {
    static const struct argp argp = {
        .options = option_table,
        .parser = parse,
        .doc = "Measures a running sonard: starts it, sends it prepared samples over ZeroMQ at "
               "their own pace, and records which results a subscriber receives and when."};
    static bench_report report;
    static char name[] = "sonar-bench live";
    options o = {.plan = {.of = live_cases,
                          .layout = SONAR_FRAME_CHANNEL_MAJOR,
                          .warm_up_s = -1,
                          .seconds = 60,
                          .backend = "auto",
                          .ranks = 1,
                          .mpirun = MPIRUN,
                          .stop = &stop},
                 .trial_s = 10};
    argv[0] = name;
    bench_parse(&argp, "sonar-bench live", argc, argv, &o);
    o.plan.setting = o.setting;
    if (!o.plan.sensors)
        o.plan.sensors = o.plan.of->sensors;
    if (o.plan.warm_up_s < 0)
        o.plan.warm_up_s = o.plan.of->warm_up_s;
    if (!o.plan.daemon)
        o.plan.daemon = own_daemon(o.daemon);
    findings found = {cJSON_CreateArray(), cJSON_CreateArray(), 0};
    sonar_error err = {0};
    if (bench_json_in_file(&o.common) && try_json(&o, &report, &found, &err)) {
        say(&err);
        cJSON_Delete(found.live);
        cJSON_Delete(found.left_out);
        return 2;
    }
    catch_signals();
    const sonar_code code = run_all(&o, &report, &found, &err);
    return finish(&o, &report, &found, code, &err);
}
