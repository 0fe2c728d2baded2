/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-check: receives the daemon's detections and the simulator's truth at the same time and
 * prints, source by source, how far apart they are. Exit 0: everything that is judged is within
 * tolerance. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "checker.h"
#include "core/core.h"
#include "incoming.h"
#include "net/net.h"
#include "program.h"
#include "stream.h"

enum {
    ENOUGH = 10,
    LONGER_S = 30
}; /* number of windows for a median, and the time that they may take */

static const int64_t MESSAGE_BYTES =
    64 << 20; /* for a digitiser, the same as ingest.max_message_bytes */

static volatile sig_atomic_t stopped;

typedef struct options {
    const char *config, *truth, *key, *digitiser;
    double seconds, settle;
} options;

/* ---- sockets --------------------------------------------------------------------------------- */

/* key: as for sonar_client_connect; *client: created if it is needed. */
static void *open_sub(void *context, const char *key, bool curve, const char *endpoint,
                      const char *topic, sonar_client **client) {
    sonar_error err = {0};
    void *socket = zmq_socket(context, ZMQ_SUB);
    int linger = 0;
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(socket, ZMQ_SUBSCRIBE, topic, strlen(topic));
    if (client)
        *client = sonar_client_watch(context, socket, key != NULL);
    if (sonar_socket_keepalive(socket) &&
        sonar_client_connect(key, curve, socket, endpoint, &err) == SONAR_OK)
        return socket;
    fprintf(stderr, "sonar-check: %s: %s\n", err.where, err.text);
    if (client)
        sonar_client_forget(*client, socket);
    zmq_close(socket);
    return NULL;
}

/* Prints why nothing was received. */
static void say_why(sonar_client *client, const char *endpoint) {
    const char *why;
    if (sonar_client_look(client, &why) && why)
        fprintf(stderr, "sonar-check: %s %s\n", endpoint, why);
}

/* Listens for at most a tenth of a second. False: the sockets can no longer be used. */
static bool listen_once(checker *check, void *daemon, void *truth) {
    zmq_pollitem_t items[] = {{daemon, 0, ZMQ_POLLIN, 0}, {truth, 0, ZMQ_POLLIN, 0}};
    if (zmq_poll(items, 2, 100) < 0)
        return zmq_errno() == EINTR;
    for (int i = 1; i >= 0; i--) { /* truth first, because detections are compared with it */
        if (!(items[i].revents & ZMQ_POLLIN))
            continue;
        cJSON *head = sim_receive_head(items[i].socket);
        if (head && i == 1)
            checker_take_truth(check, head);
        else if (head)
            checker_take_detections(check, head);
        cJSON_Delete(head);
    }
    return true;
}

/* Listens until the time is over; longer if the samples began late, so that enough windows can be
 * judged. */
static void listen_for(checker *check, void *daemon, void *truth, const options *o) {
    const int64_t over = sonar_monotonic_ns() + (int64_t)(o->seconds * 1e9);
    const int64_t end = over + (int64_t)((o->settle + LONGER_S) * 1e9);
    bool told = false;
    while (!stopped && listen_once(check, daemon, truth)) {
        const int64_t now_ns = sonar_monotonic_ns();
        if (now_ns >= end || (now_ns >= over && !checker_wants(check, ENOUGH)))
            return;
        if (now_ns >= over && !told)
            fprintf(stderr,
                    "sonar-check: waiting until %d windows are judged; the first %g s of "
                    "samples are not judged\n",
                    ENOUGH, o->settle);
        told = now_ns >= over;
    }
}

static int run(checker *check, const sonar_config *config, const options *o) {
    const char *truth_endpoint = o->truth;
    void *context = zmq_ctx_new();
    sonar_client *client = NULL;
    void *daemon = open_sub(context, o->key, config->security.curve, config->output_endpoint,
                            "detections", &client);
    void *truth = open_sub(context, NULL, false, truth_endpoint, "truth", NULL);
    int status = EXIT_USAGE;
    if (daemon && truth) {
        fprintf(stderr, "sonar-check: listening to %s and %s for %g s\n", config->output_endpoint,
                truth_endpoint, o->seconds);
        listen_for(check, daemon, truth, o);
        say_why(client, config->output_endpoint);
        status = checker_print(check, stdout);
    }
    if (daemon) {
        sonar_client_forget(client, daemon);
        zmq_close(daemon);
    }
    if (truth)
        zmq_close(truth);
    zmq_ctx_term(context);
    return status;
}

/* ---- a digitiser ----------------------------------------------------------------------------- */

static void *open_digitiser(void *context, const char *endpoint, const sonar_config *config) {
    const bool sub = config && config->ingest_socket == SONAR_SUB;
    const int linger = 0, on = 1, mark = 64;
    const int64_t most = config ? (int64_t)config->ingest_max_message_bytes : MESSAGE_BYTES;
    sonar_error err = {0};
    void *socket = zmq_socket(context, sub ? ZMQ_SUB : ZMQ_PULL);
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &mark, sizeof mark);
    zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof most);
    zmq_setsockopt(socket, ZMQ_IPV6, &on, sizeof on);
    if (sub)
        zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "", 0);
    if (!(sub ? sonar_endpoint_connect : sonar_endpoint_bind)(socket, endpoint, &err))
        return socket;
    fprintf(stderr, "sonar-check: %s: %s\n", err.where, err.text);
    zmq_close(socket);
    return NULL;
}

/* Receives all parts of a message and keeps two. */
static void take_frame(incoming *f, void *socket) {
    zmq_msg_t part[2];
    const void *data[2] = {NULL, NULL};
    size_t bytes[2] = {0, 0}, parts = 0;
    int more = 1;
    zmq_msg_init(&part[0]);
    zmq_msg_init(&part[1]);
    while (more) {
        zmq_msg_t next;
        zmq_msg_init(&next);
        if (zmq_msg_recv(&next, socket, 0) < 0)
            break;
        more = zmq_msg_more(&next);
        if (parts < 2)
            zmq_msg_move(&part[parts], &next);
        zmq_msg_close(&next);
        parts++;
    }
    for (size_t i = 0; i < 2; i++) {
        data[i] = zmq_msg_data(&part[i]);
        bytes[i] = zmq_msg_size(&part[i]);
    }
    if (parts)
        incoming_take(f, parts, data, bytes, sonar_monotonic_ns(), sonar_utc_ns());
    zmq_msg_close(&part[0]);
    zmq_msg_close(&part[1]);
}

static int judge_digitiser(const options *o, const sonar_config *config) {
    incoming *f = incoming_create(config);
    void *context = f ? zmq_ctx_new() : NULL;
    void *socket = context ? open_digitiser(context, o->digitiser, config) : NULL;
    int status = EXIT_USAGE;
    if (socket) {
        const int64_t end = sonar_monotonic_ns() + (int64_t)(o->seconds * 1e9);
        fprintf(stderr, "sonar-check: taking frames at %s for %g s\n", o->digitiser, o->seconds);
        zmq_pollitem_t item = {socket, 0, ZMQ_POLLIN, 0};
        while (!stopped && sonar_monotonic_ns() < end)
            if (zmq_poll(&item, 1, 100) > 0)
                take_frame(f, socket);
        status = incoming_print(f, stdout);
        zmq_close(socket);
    }
    if (context)
        zmq_ctx_term(context);
    incoming_destroy(f);
    return status;
}

/* ---- main ------------------------------------------------------------------------------------ */

static int with_config(const options *o) {
    sonar_config *config = NULL;
    if (o->config && !sim_load_config(o->config, &config))
        return EXIT_USAGE;
    if (o->digitiser) {
        const int judged = judge_digitiser(o, config);
        sonar_config_destroy(config);
        return judged;
    }
    checker *check = checker_create(config, o->settle);
    int status = check ? run(check, config, o) : EXIT_USAGE;
    checker_destroy(check);
    sonar_config_destroy(config);
    return status;
}

static tool_answer take_digitiser(void *to, const char *value) {
    ((options *)to)->digitiser = value;
    const bool good = strncmp(value, "tcp://", 6) == 0 || strncmp(value, "ipc://", 6) == 0;
    return good ? TOOL_TAKEN : TOOL_REFUSED;
}

static const tool_option option[] = {
    {"config", 'c', TOOL_TEXT, offsetof(options, config), 0, 0, NULL, NULL},
    {"truth", 't', TOOL_TEXT, offsetof(options, truth), 0, 0, NULL, NULL},
    {"digitiser", 'd', TOOL_OTHER, 0, 0, 0, take_digitiser, "tcp://ADDRESS:PORT or ipc://PATH"},
    {"key", 'k', TOOL_TEXT, offsetof(options, key), 0, 0, NULL, NULL},
    {"seconds", 'n', TOOL_NUMBER, offsetof(options, seconds), 0, 1e6, NULL,
     "a number of seconds up to 1e6"},
    {"settle", 's', TOOL_NUMBER, offsetof(options, settle), 0, 1e6, NULL,
     "a number of seconds up to 1e6"},
    {0}};

static const tool self = {
    .name = "sonar-check",
    .usage = "Usage: sonar-check --config FILE --truth ADDRESS [options]\n"
             "       sonar-check --digitiser ADDRESS [--config FILE] [--seconds S]\n"
             "Compares sonard's detections with sonar-sim's truth and prints a table; or takes a\n"
             "digitiser's frames in place of sonard and prints what is wrong with them.\n\n"
             "  -c, --config FILE    sonard's configuration\n"
             "  -t, --truth ADDRESS  where sonar-sim publishes the truth (its --truth)\n"
             "  -d, --digitiser ADDRESS  the digitiser's destination, tcp://ADDRESS:PORT or "
             "ipc://PATH;\n"
             "                       with --config its frames have to match it\n"
             "  -k, --key FILE       this tool's certificate, if sonard uses CURVE\n"
             "  -n, --seconds S      time to listen (30, for a digitiser 10); to detections until\n"
             "                       10 windows are judged\n"
             "  -s, --settle S       do not judge the first S seconds of samples (10)\n"
             "  -h, --help           this text\n"
             "  -V, --version        the version\n\n"
             "Exit codes: 0 all within tolerance, 1 not all, 2 usage, configuration or endpoint,\n"
             "3 nothing to judge.\n",
    .option = option};

/* Returns -1 to continue, or the exit code. */
static int read_options(int argc, char **argv, options *o) {
    *o = (options){.seconds = NAN, .settle = 10};
    int code = tool_read_options(&self, argc, argv, o);
    if (code >= 0)
        return code;
    if (optind < argc)
        return tool_wrong_usage(&self, "not an option: %s", argv[optind]);
    if (isnan(o->seconds))
        o->seconds = o->digitiser ? 10 : 30;
    if (o->digitiser && o->truth)
        return tool_wrong_usage(&self, "--digitiser and --truth cannot be combined");
    if (!o->digitiser && (!o->config || !o->truth))
        return tool_wrong_usage(&self, "%s is missing", o->config ? "--truth" : "--config");
    return -1;
}

int main(int argc, char **argv) {
    program_begin("sonar-check");
    options o;
    int status = read_options(argc, argv, &o);
    if (status >= 0)
        return status;
    program_stop_on(SIGINT, &stopped); /* at the first signal the table so far is printed, the next
                                          one ends the program */
    program_stop_on(SIGTERM, &stopped);
    return with_config(&o);
}
