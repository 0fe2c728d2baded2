/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-process: a recording to results, in one command. It runs the daemon's pipeline in this
 * process, without sockets, as fast as all processors can. Exit codes: 0 done, 1 something failed
 * while running, 2 usage or input, 130 stopped by the user, with results until then. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"
#include "example.h"
#include "options.h"
#include "player.h"
#include "program.h"
#include "progress.h"
#include "results.h"
#include "stream.h"

enum { STOP_MS = 1400, FLUSH_MS = 600000, STOPPED = 130 };

static volatile sig_atomic_t stop;

typedef struct options {
    char *const *file;
    size_t files;
    const char *config, *folder, *example;
    double fs_hz; /* 0: the recording's */
    double start_s, duration_s;
    double az_deg; /* NAN: the loudest */
    uint32_t topics;
    bool beside, messages, no_pictures;
    tape_date date;
    sim_raw raw;
    int64_t utc_ns;
} options;

typedef struct run {
    options options;
    char folder[PATH_MAX];
    sonar_config *config;
    player player;
    results *results;
    sonar_pipeline *pipeline;
    progress progress;
} run;

static const char usage[] =
    "Usage: sonar-process FILE... --config FILE [options]\n"
    "       sonar-process --example FOLDER\n"
    "FILE: a recording, WAV, RF64, W64, CAF, FLAC, SigMF, HDF5 as Acoular has it, or raw\n"
    "samples with a .json beside them. Several follow on each other; with --side-by-side they\n"
    "are of the same time, and the channels of each are behind those of the one before.\n"
    "Everything is computed as sonard would, as fast as all processors can. Results, in a\n"
    "folder: bearing-time record and lofargram (spectra.h5 and pictures), contacts.csv,\n"
    "contacts.json, tracks.csv, tracks.json, and tracks.rep for Debrief\n"
    "  -c, --config FILE   the array's configuration, as for sonard\n"
    "  -o, --out FOLDER    of the results; default: the first FILE's name with -results\n"
    "      --side-by-side  recordings of the same time, in the order of the array's channels\n"
    "      --utc TIME      of the first sample: ISO 8601, 0 unknown; default: as recorded\n"
    "      --fs HZ         the true rate, where the recording's header is wrong\n"
    "      --raw TYPE:CHANNELS:HZ  raw samples, of TYPE u8, s8, s16le, s24le, s32le, f32le,\n"
    "                      f64le or the same with be\n"
    "      --start S       skip the beginning, seconds\n"
    "      --duration S    no more than this\n"
    "      --az DEG        direction of the lofargram, on the scan's axis; default: the loudest\n"
    "                      of each window\n"
    "      --topics LIST   also these topics, whole, in spectra.h5, such as\n"
    "                      cbf.nearfield,element.psd\n"
    "      --messages      also every message as sonard would have published it\n"
    "      --no-pictures   sonar-render is not run\n"
    "      --example FOLDER  makes a small recording of three ships with its configuration, and\n"
    "                      processes it\n"
    "  -h, --help  -V, --version\n";

/* ---- options --------------------------------------------------------------------------------- */

static tool_answer take_utc(void *to, const char *value) {
    options *o = to;
    o->date = strcmp(value, "0") ? TAPE_GIVEN : TAPE_UNKNOWN;
    return sim_utc_parse_or_unknown(value, &o->utc_ns) ? TOOL_TAKEN : TOOL_REFUSED;
}

static tool_answer take_topics(void *to, const char *value) {
    options *o = to;
    for (size_t length; *value; value += length + (value[length] == ',')) {
        length = strcspn(value, ",");
        const sonar_surface topic = sonar_topic_named(value, length);
        if (topic >= SONAR_STATUS)
            return TOOL_REFUSED;
        o->topics |= SONAR_WANT(topic);
    }
    return TOOL_TAKEN;
}

static tool_answer take_raw(void *to, const char *value) {
    return sim_raw_parse(value, &((options *)to)->raw) ? TOOL_TAKEN : TOOL_REFUSED;
}

static const tool_option option[] = {
    {"config", 'c', TOOL_TEXT, offsetof(options, config), 0, 0, NULL, NULL},
    {"out", 'o', TOOL_TEXT, offsetof(options, folder), 0, 0, NULL, NULL},
    {"side-by-side", 0, TOOL_FLAG, offsetof(options, beside), 0, 0, NULL, NULL},
    {"utc", 0, TOOL_OTHER, 0, 0, 0, take_utc, "0 or a time such as 2026-01-31T12:00:00Z"},
    {"raw", 0, TOOL_OTHER, 0, 0, 0, take_raw, SIM_RAW_ACCEPTED},
    {"fs", 0, TOOL_NUMBER, offsetof(options, fs_hz), 1e-3, 1e9, NULL,
     "a number of Hz, 0.001 to 1e9,"},
    {"start", 0, TOOL_NUMBER, offsetof(options, start_s), 0, 1e9, NULL,
     "a number of seconds, 0 to 1e9,"},
    {"duration", 0, TOOL_NUMBER, offsetof(options, duration_s), 0, 1e9, NULL,
     "a number of seconds, 0 to 1e9,"},
    {"az", 0, TOOL_NUMBER, offsetof(options, az_deg), -360, 360, NULL,
     "a number of degrees, -360 to 360,"},
    {"topics", 0, TOOL_OTHER, 0, 0, 0, take_topics,
     "a list of topics with commas, such as cbf.nearfield,element.psd,"},
    {"messages", 0, TOOL_FLAG, offsetof(options, messages), 0, 0, NULL, NULL},
    {"no-pictures", 0, TOOL_FLAG, offsetof(options, no_pictures), 0, 0, NULL, NULL},
    {"example", 0, TOOL_TEXT, offsetof(options, example), 0, 0, NULL, NULL},
    {0}};

static const tool self = {.name = "sonar-process", .usage = usage, .option = option};

/* Returns -1 to go on, or the exit code. */
static int read_options(int argc, char **argv, options *o) {
    *o = (options){.duration_s = HUGE_VAL, .az_deg = NAN};
    const int code = tool_read_options(&self, argc, argv, o);
    if (code >= 0)
        return code;
    o->file = argv + optind;
    o->files = (size_t)(argc - optind);
    if (o->example && (o->files || o->config || o->folder))
        return tool_wrong_usage(&self, "--example makes its own recording, configuration and "
                                       "results: no FILE, --config or --out goes with it");
    if (!o->example && !o->files)
        return tool_wrong_usage(&self, "no recording given; --example FOLDER makes one");
    if (!o->example && !o->config)
        return tool_wrong_usage(&self, "--config is missing: where the hydrophones are");
    return -1;
}

/* "a/dive.wav" -> "dive-results" */
static void name_folder(run *r) {
    const options *o = &r->options;
    const char *slash = strrchr(o->file[0], '/'), *name = slash ? slash + 1 : o->file[0];
    const char *dot = strrchr(name, '.');
    const int stem = dot && dot > name ? (int)(dot - name) : (int)strlen(name);
    if (o->folder)
        snprintf(r->folder, sizeof r->folder, "%s", o->folder);
    else
        snprintf(r->folder, sizeof r->folder, "%.*s-results", stem, name);
}

/* ---- the pipeline ---------------------------------------------------------------------------- */

/* What is a daemon's own is left out. Plugins are looked for where a daemon looks. */
static void make_private(sonar_config *c) {
    char dir[PATH_MAX];
    if (c->navigation_nmea[0] || c->navigation_endpoint)
        fprintf(stderr,
                "%s: navigation is not in the recording: bearings are in the array's frame "
                "unless array.heading_deg is given\n",
                self.name);
    sonar_config_make_private(c);
    if (!c->plugin_dir && program_plugin_dir(dir, sizeof dir))
        c->plugin_dir = strdup(dir); /* NULL, as otherwise: the loader's own search path */
}

static void log_line(void *ctx, sonar_level level, const char *where, const char *text) {
    run *r = ctx;
    if (!sonar_feeder_tells(level, where))
        return;
    progress_clear(&r->progress);
    fprintf(stderr, "%s: %s: %s\n", self.name, where, text);
}

static double done_s(const run *r) {
    return (double)(r->player.at - r->player.first) / r->player.fs_hz;
}

static sonar_code look(void *ctx, sonar_error *err) {
    run *r = ctx;
    progress_show(&r->progress, done_s(r), results_windows(r->results),
                  results_contacts(r->results));
    return results_error(r->results, err);
}

static void say_loss(void *ctx, const char *text) {
    (void)ctx;
    fprintf(stderr, "%s: %s\n", self.name, text);
}

static sonar_code process(run *r, sonar_error *err) {
    sonar_code code = sonar_pipeline_create(r->config, log_line, r, &r->pipeline, err);
    if (!code)
        code = sonar_pipeline_start(r->pipeline, err);
    if (code)
        return code;
    sonar_feeder feeder = {.pipeline = r->pipeline,
                           .config = r->config,
                           .look = look,
                           .ctx = r,
                           .stop = &stop,
                           .ticked_ns = sonar_monotonic_ns()};
    r->progress =
        progress_begin(self.name, (double)(r->player.end - r->player.first) / r->player.fs_hz);
    code = player_run(&r->player, &feeder, err);
    progress_clear(&r->progress);
    if (!sonar_pipeline_stop(r->pipeline, stop || code ? STOP_MS : FLUSH_MS)) {
        fprintf(stderr, "%s: the disk or a device does not answer\n", self.name);
        _exit(EXIT_FAILURE);
    }
    if (!code)
        sonar_feeder_losses(&feeder, say_loss, NULL);
    return code ? code : results_error(r->results, err);
}

/* ---- pictures -------------------------------------------------------------------------------- */

/* Beside this program, in the source that this program was built from, or in an installation. */
static bool find_render(char path[PATH_MAX]) {
    static const char *const place[] = {"sonar-render", "../../../tools/python/sonar-render",
                                        "../share/sonard/python/sonar-render"};
    char folder[PATH_MAX];
    for (size_t i = 0; i < sizeof place / sizeof *place && program_folder(folder, sizeof folder);
         i++)
        if (snprintf(path, PATH_MAX, "%s/%s", folder, place[i]) < PATH_MAX && !access(path, X_OK))
            return true;
    return false;
}

/* One of sonar-render's pictures of spectra.h5. */
static bool draw(char *render, char *picture, const char *name, const run *r) {
    extern char **environ;
    char from[PATH_MAX + 16], to[PATH_MAX + 32], option_from[] = "--spectra", option_to[] = "-o";
    char *const line[] = {render, picture, option_from, from, option_to, to, NULL};
    int status = -1;
    pid_t child;
    snprintf(from, sizeof from, "%s/spectra.h5", r->folder);
    snprintf(to, sizeof to, "%s/%s.png", r->folder, name);
    if (posix_spawn(&child, render, NULL, NULL, line, environ))
        return false;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return status == 0;
}

/* The results are there without them. */
static void draw_all(const run *r) {
    char render[PATH_MAX], btr[] = "btr", lofar[] = "lofar";
    const bool has_lofar = r->config->output_topics & SONAR_WANT(SONAR_CBF_LOFAR);
    if (r->options.no_pictures)
        return;
    if (!find_render(render))
        fprintf(stderr, "%s: no pictures: sonar-render is not beside this program\n", self.name);
    else if (!draw(render, btr, "bearing-time", r) ||
             (has_lofar && !draw(render, lofar, "lofargram", r)))
        fprintf(stderr,
                "%s: a picture is missing; Debian's python3-matplotlib, python3-h5py and "
                "python3-zmq are needed for it\n",
                self.name);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static sonar_code open_all(run *r, sonar_error *err) {
    const options *o = &r->options;
    const player_spec spec = {.tape = {.tool = self.name,
                                       .path = o->file,
                                       .files = o->files,
                                       .beside = o->beside,
                                       .date = o->date,
                                       .utc_ns = o->utc_ns,
                                       .raw = o->raw},
                              .config = r->config,
                              .fs_hz = o->fs_hz,
                              .start_s = o->start_s,
                              .duration_s = o->duration_s,
                              .stop = &stop};
    const results_spec kept = {.folder = r->folder,
                               .config = r->config,
                               .az_deg = o->az_deg,
                               .topics = o->topics,
                               .messages = o->messages};
    sonar_code code = player_open(&r->player, &spec, err);
    if (!code)
        code = results_open(&kept, &r->results, err);
    if (!code)
        r->config->reader = results_tap(r->results);
    return code;
}

static void say_results(const run *r, uint64_t windows, uint64_t contacts) {
    const double s = done_s(r);
    printf("%s: %" PRIu64 " windows, %" PRIu64 " contacts, of %.1f s, %.3g times real time\n",
           r->folder, windows, contacts, s, progress_speed(&r->progress, s));
    if (!r->player.tape.first.utc_ns && r->options.date == TAPE_RECORDED)
        printf("The recording tells no date: times count from its beginning; --utc TIME tells "
               "one\n");
}

static int run_all(run *r) {
    sonar_error err = {0}, second = {0};
    name_folder(r);
    if (!sim_load_config(r->options.config, &r->config))
        return SIM_STREAM_WRONG_USAGE;
    make_private(r->config);
    sonar_code code = open_all(r, &err);
    if (!code)
        code = process(r, &err);
    const bool spectra = r->results && results_spectra(r->results);
    const uint64_t windows = r->results ? results_windows(r->results) : 0;
    const uint64_t contacts = r->results ? results_contacts(r->results) : 0;
    sonar_pipeline_destroy(r->pipeline);
    const sonar_code closed = results_close(r->results, &second);
    if (!code && closed)
        err = second;
    if (code || closed)
        return sim_complain(self.name, &err);
    say_results(r, windows, contacts);
    if (spectra && !stop)
        draw_all(r);
    return stop ? STOPPED : EXIT_SUCCESS;
}

/* The names of its files take the place of those that the user would have given. */
static int run_example(run *r, example *made) {
    options *o = &r->options;
    sonar_error err = {0};
    if (example_make(o->example, made, &stop, &err))
        return sim_complain(self.name, &err);
    if (stop)
        return STOPPED;
    o->file = made->file;
    o->files = 1;
    o->config = made->config;
    o->folder = made->results;
    printf("sonar-process %s --config %s --out %s\n", made->recording, made->config, made->results);
    fflush(stdout);
    return run_all(r);
}

int main(int argc, char **argv) {
    program_begin("sonar-process");
    run r = {0};
    example made = {0};
    int code = read_options(argc, argv, &r.options);
    if (code >= 0)
        return code;
    program_stop_on(SIGINT, &stop);
    program_stop_on(SIGTERM, &stop);
    code = r.options.example ? run_example(&r, &made) : run_all(&r);
    player_close(&r.player);
    sonar_config_destroy(r.config);
    return code;
}
