/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-check: listens to the daemon's detections and to the simulator's truth at the same time and
 * says, source by source, how far apart they are. Exit 0: all that is judged is within tolerance.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "checker.h"
#include "core/core.h"
#include "net/net.h"
#include "program.h"
#include "stream.h"

static volatile sig_atomic_t stopped;

typedef struct options {
    const char *config, *truth, *key;
    double seconds, settle;
} options;

/* ---- sockets --------------------------------------------------------------------------------- */

/* key: as of sonar_client_connect; *events: to be watched, if it is wanted. */
static void *open_sub(void *context, const char *key, bool curve, const char *endpoint,
                      const char *topic, void **events) {
    sonar_error err = {0};
    void *socket = zmq_socket(context, ZMQ_SUB);
    int linger = 0;
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(socket, ZMQ_SUBSCRIBE, topic, strlen(topic));
    if (events)
        *events = sonar_client_watch(context, socket);
    if (sonar_socket_keepalive(socket) &&
        sonar_client_connect(key, curve, socket, endpoint, &err) == SONAR_OK)
        return socket;
    fprintf(stderr, "sonar-check: %s: %s\n", err.where, err.text);
    if (events)
        sonar_client_forget(*events, socket);
    zmq_close(socket);
    return NULL;
}

/* The second part of the next message, parsed; NULL if it is not JSON. */
static cJSON *receive_head(void *socket) {
    cJSON *head = NULL;
    int more = 1;
    for (int part = 0; more; part++) {
        zmq_msg_t message;
        zmq_msg_init(&message);
        if (zmq_msg_recv(&message, socket, 0) < 0)
            break;
        if (part == 1)
            head = cJSON_ParseWithLength(zmq_msg_data(&message), zmq_msg_size(&message));
        more = zmq_msg_more(&message);
        zmq_msg_close(&message);
    }
    return head;
}

/* Why nothing came of the daemon. */
static void say_refusal(void *events, const options *o) {
    const char *refusal = sonar_client_refusal(events, o->key != NULL);
    if (refusal)
        fprintf(stderr, "sonar-check: the daemon %s\n", refusal);
}

static void listen_for(checker *check, void *daemon, void *truth, double seconds) {
    int64_t until = sonar_monotonic_ns() + (int64_t)(seconds * 1e9);
    zmq_pollitem_t items[] = {{daemon, 0, ZMQ_POLLIN, 0}, {truth, 0, ZMQ_POLLIN, 0}};
    while (!stopped && sonar_monotonic_ns() < until) {
        if (zmq_poll(items, 2, 100) < 0 && zmq_errno() != EINTR)
            return;
        for (int i = 1; i >= 0; i--) { /* truth first: detections are compared with it */
            if (!(items[i].revents & ZMQ_POLLIN))
                continue;
            cJSON *head = receive_head(items[i].socket);
            if (head && i == 1)
                checker_take_truth(check, head);
            else if (head)
                checker_take_detections(check, head);
            cJSON_Delete(head);
        }
    }
}

static int run(checker *check, const sonar_config *config, const options *o) {
    const char *truth_endpoint = o->truth;
    void *context = zmq_ctx_new(), *events = NULL;
    void *daemon = open_sub(context, o->key, config->security.curve, config->output_endpoint,
                            "detections", &events);
    void *truth = open_sub(context, NULL, false, truth_endpoint, "truth", NULL);
    int status = EXIT_USAGE;
    if (daemon && truth) {
        fprintf(stderr, "sonar-check: listening to %s and %s for %g s\n", config->output_endpoint,
                truth_endpoint, o->seconds);
        listen_for(check, daemon, truth, o->seconds);
        say_refusal(events, o);
        status = checker_print(check, stdout);
    }
    if (daemon) {
        sonar_client_forget(events, daemon);
        zmq_close(daemon);
    }
    if (truth)
        zmq_close(truth);
    zmq_ctx_term(context);
    return status;
}

/* ---- main ------------------------------------------------------------------------------------ */

static int with_config(const options *o) {
    sonar_config *config = NULL;
    if (!sim_load_config(o->config, &config))
        return EXIT_USAGE;
    checker *check = checker_create(config, o->settle);
    int status = check ? run(check, config, o) : EXIT_USAGE;
    checker_destroy(check);
    sonar_config_destroy(config);
    return status;
}

static const tool_option option[] = {
    {"config", 'c', TOOL_TEXT, offsetof(options, config), 0, 0, NULL, NULL},
    {"truth", 't', TOOL_TEXT, offsetof(options, truth), 0, 0, NULL, NULL},
    {"key", 'k', TOOL_TEXT, offsetof(options, key), 0, 0, NULL, NULL},
    {"seconds", 'n', TOOL_NUMBER, offsetof(options, seconds), 0, 1e6, NULL,
     "a number of seconds up to 1e6"},
    {"settle", 's', TOOL_NUMBER, offsetof(options, settle), 0, 1e6, NULL,
     "a number of seconds up to 1e6"},
    {0}};

static const tool self = {
    .name = "sonar-check",
    .usage = "Usage: sonar-check --config FILE --truth ADDRESS [options]\n"
             "Compares sonard's detections with sonar-sim's truth and prints a table.\n\n"
             "  -c, --config FILE    sonard's configuration\n"
             "  -t, --truth ADDRESS  where sonar-sim publishes the truth (its --truth)\n"
             "  -k, --key FILE       this tool's certificate, where sonard speaks CURVE\n"
             "  -n, --seconds S      listen for so long (30)\n"
             "  -s, --settle S       leave out the first S seconds of samples (10)\n"
             "  -h, --help           this text\n"
             "  -V, --version        the version\n\n"
             "Exit codes: 0 all within tolerance, 1 not all, 2 usage, configuration or endpoint,\n"
             "3 nothing to judge.\n",
    .option = option};

/* Returns -1 to go on, or the exit code. */
static int read_options(int argc, char **argv, options *o) {
    *o = (options){.seconds = 30, .settle = 10};
    int code = tool_read_options(&self, argc, argv, o);
    if (code >= 0)
        return code;
    if (optind < argc)
        return tool_wrong_usage(&self, "not an option: %s", argv[optind]);
    if (!o->config || !o->truth)
        return tool_wrong_usage(&self, "%s is missing", o->config ? "--truth" : "--config");
    return -1;
}

int main(int argc, char **argv) {
    program_begin("sonar-check");
    options o;
    int status = read_options(argc, argv, &o);
    if (status >= 0)
        return status;
    program_stop_on(SIGINT, &stopped); /* the table so far, then the end */
    program_stop_on(SIGTERM, &stopped);
    return with_config(&o);
}
