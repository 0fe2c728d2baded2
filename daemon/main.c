/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonard: reads a configuration, runs the pipeline in the foreground until a signal, and exits with
 * a code that says what happened. Everything else is in libsonar. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "ranks/cluster.h"
#include "config/fits.h"
#include "core/core.h"
#include "net/descriptors.h"
#include "control/server.h"
#include "log.h"
#include "notify.h"
#include "options.h"
#include "pipeline/pipeline.h"
#include "program.h"

/* Part of the interface: docs/running.md lists them for service managers. */
enum exit_code {
    EXIT_STOPPED = 0,     /* stopped on request */
    EXIT_FAULT = 1,       /* failed while running */
    EXIT_CONFIG = 2,      /* wrong command line or configuration */
    EXIT_UNAVAILABLE = 3, /* an endpoint, device or file was not available at start */
    EXIT_MEMORY = 4,
    EXIT_DEVICE = 5 /* the GPU failed, and the configuration asks to exit then */
};

/* The documentation promises an end within two seconds of a signal; a task of a stage may take 0.2
 * s beyond the first. */
enum {
    STOP_WITHIN_MS = 1400,
    LEAVE_WITHIN_MS = 1700,
    LOG_WITHIN_MS = 250,
    LOG_PATIENTLY_MS = 5000,
    TICK_NS = 1000000000
};

enum action { RUN, CHECK, PRINT, REFERENCE, TRAIN, EXPLAIN };

/* ---- command line ---------------------------------------------------------------------------- */

static void usage(FILE *to) {
    fputs(
        "Usage: sonard [OPTION] CONFIG\n"
        "Real-time sonar beamforming: sample frames in, azimuth spectra out, over ZeroMQ.\n"
        "\n"
        "  -c, --check-config  check CONFIG, print the resolved array, bins and angles; exit 0 or "
        "2\n"
        "  -p, --print-config  print CONFIG with all defaults and where each value comes from\n"
        "  -t, --train         time the alternatives for CONFIG on this node and keep the choices\n"
        "  -e, --explain       print which choices would be made for CONFIG, and why\n"
        "      --config-reference  print the reference of all options (Markdown)\n"
        "  -V, --version       print the version\n"
        "  -h, --help          print this\n"
        "\n"
        "Runs in the foreground until SIGTERM or SIGINT; SIGHUP reads CONFIG again and applies\n"
        "what can change. Exit codes: 0 stopped when asked,\n"
        "1 failed while running, 2 wrong configuration or command line, 3 an endpoint, device or\n"
        "file was not available at start, 4 out of memory, 5 the GPU failed (on_gpu_failure: "
        "exit).\n",
        to);
}

/* Returns -1 to continue, else the exit code. */
static int parse_command_line(int argc, char **argv, enum action *action, const char **path) {
    static const struct option options[] = {{"check-config", no_argument, NULL, 'c'},
                                            {"print-config", no_argument, NULL, 'p'},
                                            {"train", no_argument, NULL, 't'},
                                            {"explain", no_argument, NULL, 'e'},
                                            {"config-reference", no_argument, NULL, 'r'},
                                            {"version", no_argument, NULL, 'V'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    *action = RUN;
    for (int c; (c = getopt_long(argc, argv, "cpteVh", options, NULL)) != -1;)
        switch (c) {
        case 'c':
            *action = CHECK;
            break;
        case 'p':
            *action = PRINT;
            break;
        case 't':
            *action = TRAIN;
            break;
        case 'e':
            *action = EXPLAIN;
            break;
        case 'r':
            *action = REFERENCE;
            return -1;
        case 'V':
            puts("sonard " SONAR_VERSION);
            return EXIT_STOPPED;
        case 'h':
            usage(stdout);
            return EXIT_STOPPED;
        default:
            tool_suggest("sonard", argv[optind - 1], options);
            fputs("sonard: try 'sonard --help'\n", stderr);
            return EXIT_CONFIG;
        }
    if (optind + 1 != argc) {
        fprintf(stderr, "sonard: %s; try 'sonard --help'\n",
                optind == argc ? "no configuration file given" : "more than one file given");
        return EXIT_CONFIG;
    }
    *path = argv[optind];
    return -1;
}

/* ---- running --------------------------------------------------------------------------------- */

static int exit_code_of(sonar_code code) {
    switch (code) {
    case SONAR_OK:
        return EXIT_STOPPED;
    case SONAR_EINVAL:
        return EXIT_CONFIG;
    case SONAR_ENOMEM:
        return EXIT_MEMORY;
    case SONAR_ESYS:
    case SONAR_EUNAVAILABLE:
        return EXIT_UNAVAILABLE;
    default:
        return EXIT_FAULT;
    }
}

/* Signals arrive through a handler and an eventfd, because libraries start threads of their own and
 * the system may choose any thread. During the start the handler exits at once: nothing has to be
 * completed yet, and reading a large configuration or planning may take long. */
static volatile sig_atomic_t starting, stop_signal, hung_up;
static int stop_fd = -1;
static bool follows; /* changes are made on rank 0, which is another process */

static void on_signal(int signo) {
    const int saved = errno;
    const uint64_t one = 1;
    if (signo == SIGHUP)
        hung_up = 1;
    else if (starting)
        _exit(EXIT_STOPPED);
    else
        stop_signal = signo;
    ssize_t written = write(stop_fd, &one, sizeof one);
    (void)written; /* if the counter is full, the descriptor is readable anyway */
    errno = saved;
}

static int open_signals(void) {
    const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    starting = 1;
    stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stop_fd < 0 || sigaction(SIGTERM, &action, NULL) || sigaction(SIGINT, &action, NULL) ||
        sigaction(SIGHUP, &action, NULL))
        return -1;
    signal(SIGPIPE, SIG_IGN);
    return sigprocmask(SIG_UNBLOCK, &set, NULL); /* the parent process may have blocked them */
}

/* SIGHUP: reads the file again. Mistakes are logged, and then nothing changes. */
static void answer_hangup(sonar_pipeline *pipeline, const char *path) {
    static sonar_config_differences differences; /* static because it is large */
    uint64_t count;
    ssize_t got = read(stop_fd, &count, sizeof count);
    (void)got; /* if nothing can be read, another call has done so */
    if (!hung_up || follows)
        return;
    hung_up = 0;
    sonar_error err = {0};
    sonar_notify_reloading();
    sonar_control_reload(pipeline, path, log_line, NULL, &differences, &err);
    sonar_notify_ready();
}

/* Handles signals and requests until the next tick is due. */
static sonar_code attend(sonar_pipeline *pipeline, sonar_control *control, const char *path,
                         int64_t tick_ns, sonar_error *err) {
    struct pollfd poller[] = {{.fd = stop_fd, .events = POLLIN},
                              {.fd = sonar_control_fd(control), .events = POLLIN},
                              {.fd = sonar_pipeline_fd(pipeline), .events = POLLIN}};
    const bool more = sonar_control_serve(control);
    const int64_t left_ns = tick_ns - sonar_monotonic_ns();
    const int left_ms = left_ns > 0 ? (int)(left_ns / 1000000) + 1 : 0;
    const int tick_ms = sonar_control_tick_ms(control);
    if (poll(poller, 3, more ? 0 : left_ms < tick_ms ? left_ms : tick_ms) < 0 && errno != EINTR)
        return sonar_fail(err, SONAR_ESTATE, "signals", "poll: %s", strerror(errno));
    if (poller[0].revents)
        answer_hangup(pipeline, path);
    if (poller[2].revents)
        sonar_pipeline_attend(pipeline);
    return SONAR_OK;
}

/* Ticks the pipeline once a second until a signal ends it or it fails. */
static sonar_code supervise(sonar_pipeline *pipeline, sonar_control *control, const char *path,
                            sonar_error *err) {
    int64_t tick_ns = sonar_monotonic_ns() + TICK_NS;
    sonar_code code = SONAR_OK;
    while (!stop_signal && !code && !sonar_pipeline_left(pipeline)) {
        code = attend(pipeline, control, path, tick_ns, err);
        if (!code && !stop_signal && sonar_monotonic_ns() >= tick_ns) {
            code = sonar_pipeline_tick(pipeline, err);
            sonar_notify_status(sonar_pipeline_status(pipeline));
            if (sonar_pipeline_progresses(pipeline))
                sonar_notify_watchdog();
            tick_ns = sonar_monotonic_ns() + TICK_NS;
        }
    }
    return code;
}

static sonar_code open_control(const sonar_config *config, sonar_pipeline *pipeline,
                               const char *path, sonar_control **control, sonar_error *err) {
    const sonar_control_spec spec = {.pipeline = pipeline,
                                     .endpoint = config->control_endpoint,
                                     .group = config->control_group,
                                     .config_path = path,
                                     .log = log_line};
    return sonar_control_create(&spec, control, err);
}

/* The starters of Open MPI and Slurm set these for a process of several. */
static bool started_by_mpirun(void) {
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK");
}

static sonar_code join_ranks(sonar_config *config, sonar_cluster *cluster, sonar_error *err) {
    char text[160];
    if (!started_by_mpirun())
        return SONAR_OK;
    sonar_code code = sonar_cluster_join(config->plugin_dir, cluster, err);
    if (code)
        return code;
    snprintf(text, sizeof text, "rank %zu of %zu, %s", cluster->place.rank, cluster->place.ranks,
             cluster->description);
    log_line(NULL, SONAR_INFO, "cluster", text);
    config->cluster = cluster;
    follows = cluster->place.rank > 0;
    if (!follows)
        return SONAR_OK;
    /* the root communicates with the service manager and sonarctl for all ranks */
    unsetenv("NOTIFY_SOCKET");
    free(config->control_endpoint);
    config->control_endpoint = NULL;
    return SONAR_OK;
}

static void on_alarm(int signo) {
    (void)signo;
    _exit(EXIT_STOPPED);
}

/* MPI waits for all ranks before it ends, also for one that hangs or has died meanwhile. */
static void leave_ranks(sonar_cluster *cluster) {
    enum { PATIENCE_S = 10 };
    signal(SIGALRM, on_alarm);
    alarm(PATIENCE_S);
    sonar_cluster_leave(cluster);
    alarm(0);
}

static int run(sonar_config *config, const char *path) {
    sonar_pipeline *pipeline = NULL;
    sonar_control *control = NULL;
    sonar_cluster cluster = {0};
    sonar_error err = {0};
    sonar_code code = join_ranks(config, &cluster, &err);
    if (!code)
        code = sonar_pipeline_create(config, log_line, NULL, &pipeline, &err);
    starting = 0;
    if (!code)
        code = open_control(config, pipeline, path, &control, &err);
    if (!code)
        code = sonar_pipeline_start(pipeline, &err);
    if (!code) /* so that a request right after the start gets a complete status */
        code = sonar_pipeline_tick(pipeline, &err);
    if (code) {
        log_error(&err);
        sonar_notify_failed(&err);
        sonar_control_destroy(control);
        sonar_pipeline_destroy(pipeline);
        return exit_code_of(code);
    }
    sonar_notify_ready();
    log_line(NULL, SONAR_INFO, "sonard", "running; waiting for samples");
    code = supervise(pipeline, control, path, &err);
    if (code) {
        log_error(&err);
        sonar_notify_failed(&err);
    } else {
        sonar_notify_stopping();
        log_line(NULL, SONAR_INFO, "sonard",
                 !stop_signal            ? "stopping with the other ranks"
                 : stop_signal == SIGINT ? "stopping on SIGINT"
                                         : "stopping on SIGTERM");
    }
    const int64_t leave_ns = sonar_monotonic_ns() + (int64_t)LEAVE_WITHIN_MS * 1000000;
    sonar_control_destroy(control);
    const int status = !code ? EXIT_STOPPED : code == SONAR_EUNAVAILABLE ? EXIT_DEVICE : EXIT_FAULT;
    if (!sonar_pipeline_stop(pipeline, STOP_WITHIN_MS)) {
        log_close(LOG_WITHIN_MS);
        _exit(status); /* published messages are complete, and no thread waits for the rest */
    }
    const int64_t left_ms = (leave_ns - sonar_monotonic_ns()) / 1000000;
    if (!sonar_pipeline_destroy_within(pipeline, left_ms > 0 ? (int)left_ms : 0)) {
        log_close(LOG_WITHIN_MS);
        _exit(status);
    }
    if (!status) /* otherwise mpirun ends the other ranks too */
        leave_ranks(&cluster);
    return status;
}

/* --train and --explain: the report goes to standard output. With several ranks each has its own
 * report; if one rank fails, mpirun ends the others. */
static int report_choices(sonar_config *config, enum action action) {
    sonar_cluster cluster = {0};
    sonar_error err = {0};
    sonar_code code = join_ranks(config, &cluster, &err);
    if (!code)
        code = action == TRAIN ? sonar_pipeline_train(config, log_line, NULL, stdout, &err)
                               : sonar_pipeline_explain(config, log_line, NULL, stdout, &err);
    if (code)
        log_error(&err);
    else
        sonar_cluster_leave(&cluster);
    return exit_code_of(code);
}

/* ---- surroundings ---------------------------------------------------------------------------- */

/* The service manager's folder for state, or the first one of several. Malloc'ed or NULL. */
static char *given_state_dir(void) {
    const char *given = getenv("STATE_DIRECTORY");
    return given && *given ? strndup(given, strcspn(given, ":")) : NULL;
}

/* The control socket of a systemd service. */
static char *service_endpoint(void) {
    const char *folder = getenv("RUNTIME_DIRECTORY");
    char *endpoint = NULL;
    if (!folder || *folder != '/' || strchr(folder, ':'))
        return NULL;
    return asprintf(&endpoint, "ipc://%s/control", folder) < 0 ? NULL : endpoint;
}

/* Settings from the environment, which the library does not read. */
static void add_surroundings(sonar_config *config) {
    char dir[PATH_MAX];
    if (!config->control_endpoint)
        config->control_endpoint = service_endpoint();
    const char *fail_at = getenv("SONAR_CUDA_FAIL_AT");
    config->fail_at = fail_at ? strtol(fail_at, NULL, 10) : 0;
    config->starting = sonar_notify_starting;
    if (!config->state_dir)
        config->state_dir = given_state_dir();
    if (!config->plugin_dir && program_plugin_dir(dir, sizeof dir))
        config->plugin_dir =
            strdup(dir); /* NULL: the loader's own search path, as without the variable */
}

/* ---- main ------------------------------------------------------------------------------------ */

/* Logs the report about the configuration through the daemon's log, so that the start does not
 * block if standard error is not read. */
static void log_report(const sonar_report *report, enum action action) {
    char *text = NULL;
    size_t bytes;
    FILE *to = action == RUN ? open_memstream(&text, &bytes) : stderr;
    if (to)
        sonar_report_write(report, to);
    if (action != RUN || !to)
        return;
    fclose(to);
    if (text)
        log_text(text, LOG_PATIENTLY_MS);
    free(text);
}

/* The same check as at the start, but against the total memory of this machine, because the daemon
 * itself may be running. With several ranks each counts its part. */
static int check(const sonar_config *config) {
    const sonar_room room = sonar_room_read("");
    char of[SONAR_ROOM_TEXT + 32], warning[sizeof((sonar_error *)0)->text];
    const sonar_fit fit = {.there_bytes = room.total_bytes, .of = of};
    sonar_error err = {0};
    snprintf(of, sizeof of, "the total by %s", room.limit);
    sonar_config_describe(config, stdout);
    if (config->cluster_ranks)
        return EXIT_STOPPED;
    const sonar_code code = sonar_config_fits(config, &fit, warning, &err);
    if (code)
        fprintf(stderr, "%s: error: %s\n", err.where, err.text);
    else if (*warning)
        fprintf(stderr, "warning: %s\n", warning);
    return code ? EXIT_CONFIG : EXIT_STOPPED;
}

static int work(sonar_config *config, const char *path, enum action action) {
    switch (action) {
    case CHECK:
        return check(config);
    case PRINT:
        sonar_config_print(config, stdout);
        return EXIT_STOPPED;
    default:
        add_surroundings(config);
        return action == RUN ? run(config, path) : report_choices(config, action);
    }
}

static int with_config(const char *path, enum action action) {
    sonar_config *config = NULL;
    sonar_report *report = sonar_report_create();
    if (!report)
        return EXIT_MEMORY;
    const bool keys = action == RUN || action == CHECK;
    sonar_code code =
        keys ? sonar_config_load_with_keys(path, getenv("CREDENTIALS_DIRECTORY"), &config, report)
             : sonar_config_load(path, &config, report);
    log_report(report, action);
    sonar_report_destroy(report);
    if (code)
        return code == SONAR_ENOMEM ? EXIT_MEMORY : EXIT_CONFIG;
    int status = work(config, path, action);
    sonar_config_destroy(config);
    return status;
}

static int with_log(const char *path, enum action action) {
    sonar_error err = {0};
    if (action == RUN && open_signals()) {
        perror("sonard: signals");
        return EXIT_UNAVAILABLE;
    }
    if (log_open(&err)) {
        fprintf(stderr, "sonard: %s: %s\n", err.where, err.text);
        return EXIT_UNAVAILABLE;
    }
    int status = with_config(path, action);
    log_close(stop_signal ? LOG_WITHIN_MS : LOG_PATIENTLY_MS);
    return status;
}

int main(int argc, char **argv) {
    enum action action;
    const char *path = NULL;
    program_begin("sonard");
    sonar_keep_freed_memory();
    sonar_descriptors_raise();
    int status = parse_command_line(argc, argv, &action, &path);
    if (status >= 0)
        return status;
    if (action == REFERENCE) {
        sonar_config_write_reference(stdout);
        return EXIT_STOPPED;
    }
    return with_log(path, action);
}
