/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-watch: subscribes to a running sonard and shows what it publishes. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "config/config.h"
#include "contacts.h"
#include "core/core.h"
#include "status/topic.h"
#include "net/net.h"
#include "net/udp.h"
#include "options.h"
#include "program.h"
#include "render.h"
#include "terminal.h"

enum { EXIT_USAGE = 2, EXIT_TIMEOUT = 3, TOPICS_MOST = 16 };

typedef struct options {
    char endpoint[256];
    const char *key;
    bool curve; /* the configuration has CURVE */
    const char *topic[TOPICS_MOST];
    size_t topics;
    uint64_t count;            /* 0: no end */
    double timeout_s, seconds; /* 0: no limit */
    bool json;
    uint64_t width;         /* 0: the terminal's width */
    watch_contacts_spec to; /* with one of them nothing is shown */
} options;

#define TOPIC_LINE(constant, name, ...) "  " name "\n"

static const char usage[] =
    "Usage: sonar-watch [options]\n"
    "Shows the spectra that a running sonard publishes.\n\n"
    "  -e, --endpoint ADDRESS  where sonard publishes (tcp://127.0.0.1:5556)\n"
    "  -c, --config FILE       take the endpoint from sonard's configuration\n"
    "  -k, --key FILE          this viewer's certificate, if sonard uses CURVE\n"
    "  -t, --topic NAME        one of the topics below (cbf.azimuth); may be repeated\n"
    "  -n, --count N           end after N messages of these topics\n"
    "  -T, --timeout S         end with code 3 if none was received for S seconds\n"
    "  -s, --seconds S         end after S seconds\n"
    "  -j, --json              one JSON object per message and line\n"
    "  -w, --width N           columns instead of the terminal's\n"
    "  -r, --rep FILE          show nothing, append confirmed tracks to FILE for Debrief\n"
    "      --ttm ADDRESS       show nothing, send tracks that have a range as NMEA 0183 TTM to\n"
    "                          udp://ADDRESS:PORT, for chart and radar displays\n"
    "  -h, --help              this text\n"
    "  -V, --version           the version\n\n"
    "Topics:\n" SONAR_TOPICS(TOPIC_LINE, ) "\n"
                                           "In a terminal the picture is drawn in place, and q "
                                           "quits; otherwise one line is written\n"
                                           "per message. docs/viewer.md explains both,\n"
                                           "docs/tracks.md what --rep and --ttm write.\n"
                                           "Ends with 0 after --count, --seconds, q or ctrl-c, 1 "
                                           "on an error, 2 on wrong usage,\n"
                                           "3 on --timeout.\n";

/* ---- options --------------------------------------------------------------------------------- */

/* Reads it as sonard does, with the same result and the same messages. */
static bool read_config(options *o, const char *path) {
    sonar_report *report = sonar_report_create();
    sonar_config *config = NULL;
    if (!report) {
        fprintf(stderr, "sonar-watch: no memory\n");
        return false;
    }
    const bool good = sonar_config_load(path, &config, report) == SONAR_OK;
    if (good) {
        snprintf(o->endpoint, sizeof o->endpoint, "%s", config->output_endpoint);
        o->curve = config->security.curve;
        o->to.ttm.bow_deg = config->heading_offset_deg;
        o->to.ttm.towed = config->tow_model != SONAR_TOW_OFF;
    } else {
        sonar_report_write(report, stderr);
    }
    sonar_config_destroy(config);
    sonar_report_destroy(report);
    return good;
}

static tool_answer take_endpoint(void *to, const char *value) {
    options *o = to;
    snprintf(o->endpoint, sizeof o->endpoint, "%s", value);
    o->curve = false;
    return TOOL_TAKEN;
}

static tool_answer take_config(void *to, const char *value) {
    return read_config(to, value) ? TOOL_TAKEN : TOOL_EXPLAINED;
}

static tool_answer take_topic(void *to, const char *value) {
    options *o = to;
    const bool known = sonar_topic_named(value, strlen(value)) < SONAR_SURFACES;
    if (!known || o->topics == TOPICS_MOST)
        return TOOL_REFUSED;
    o->topic[o->topics++] = value;
    return TOOL_TAKEN;
}

static tool_answer take_ttm(void *to, const char *value) {
    struct sockaddr_storage address;
    socklen_t bytes;
    ((options *)to)->to.ttm.address = value;
    return sonar_udp_read(value, &address, &bytes) ? TOOL_TAKEN : TOOL_REFUSED;
}

static const tool_option option[] = {
    {"endpoint", 'e', TOOL_OTHER, 0, 0, 0, take_endpoint, NULL},
    {"config", 'c', TOOL_OTHER, 0, 0, 0, take_config, NULL},
    {"key", 'k', TOOL_TEXT, offsetof(options, key), 0, 0, NULL, NULL},
    {"topic", 't', TOOL_OTHER, 0, 0, 0, take_topic,
     "one of " SONAR_TOPICS(SONAR_PICK_WORD, ", ") ", up to 16 times,"},
    {"count", 'n', TOOL_WHOLE, offsetof(options, count), 1, 1e15, NULL, "a whole number from 1"},
    {"timeout", 'T', TOOL_NUMBER, offsetof(options, timeout_s), DBL_MIN, 1e6, NULL,
     "a number of seconds above 0, up to 1e6,"},
    {"seconds", 's', TOOL_NUMBER, offsetof(options, seconds), DBL_MIN, 1e9, NULL,
     "a number of seconds above 0, up to 1e9,"},
    {"json", 'j', TOOL_FLAG, offsetof(options, json), 0, 0, NULL, NULL},
    {"width", 'w', TOOL_WHOLE, offsetof(options, width), 20, WATCH_COLUMNS_MOST, NULL,
     "a number of columns from 20 to 1024"},
    {"rep", 'r', TOOL_TEXT, offsetof(options, to.rep), 0, 0, NULL, NULL},
    {"ttm", 0, TOOL_OTHER, 0, 0, 0, take_ttm,
     "udp://ADDRESS:PORT with an address in numbers, such as udp://192.168.1.255:10110"},
    {0}};

static const tool self = {.name = "sonar-watch", .usage = usage, .option = option};

static bool hands_over(const options *o) {
    return o->to.rep || o->to.ttm.address;
}

/* -1: continue; otherwise the exit code. */
static int read_options(int argc, char **argv, options *o) {
    *o = (options){.endpoint = "tcp://127.0.0.1:5556"};
    int code = tool_read_options(&self, argc, argv, o);
    if (code >= 0)
        return code;
    if (optind < argc)
        return tool_wrong_usage(&self, "only options are taken, not '%s'", argv[optind]);
    if (hands_over(o) && (o->topics || o->json || o->width))
        return tool_wrong_usage(&self, "with --rep or --ttm nothing is shown: --topic, --json and "
                                       "--width do not go with them");
    if (o->topics == 0)
        o->topic[o->topics++] = hands_over(o) ? "tracks" : "cbf.azimuth";
    return -1;
}

static bool has_256_colours(void) {
    const char *term = getenv("TERM"), *more = getenv("COLORTERM");
    return !getenv("NO_COLOR") && ((term && strstr(term, "256color")) || (more && *more));
}

/* ---- the reader ------------------------------------------------------------------------------ */

typedef struct track {
    char topic[24], run[40];
    double seq;
} track;

typedef struct watch {
    options o;
    void *context, *socket;
    sonar_client *client;
    watch_contacts *contacts; /* NULL: what comes is shown */
    bool screen, quit;
    const char *told; /* the last reason for waiting that was printed */
    double drawn_s,
        counted_s;    /* when the picture was drawn, and when the last message was counted */
    char foreign[80]; /* from the last message, if its schema is not known; "" */
    bool news;        /* messages were received since */
    watch_view view;
    watch_message message, detections, followed,
        status; /* the message just read; the last one of each of the others */
    track tracks[TOPICS_MOST];
    uint64_t counted;
} watch;

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Counts the messages that this reader missed: gaps in seq of a topic within a run. */
static void follow_seq(watch *w) {
    const watch_message *m = &w->message;
    w->view.received++;
    for (size_t i = 0; i < TOPICS_MOST; i++) {
        track *t = &w->tracks[i];
        if (t->topic[0] && strcmp(t->topic, m->topic) != 0)
            continue;
        double gap = m->seq - t->seq - 1;
        if (t->topic[0] && strcmp(t->run, m->run) == 0 && gap > 0 && gap < 1e15)
            w->view.lost += (uint64_t)gap;
        memcpy(t->topic, m->topic, sizeof t->topic);
        memcpy(t->run, m->run, sizeof t->run);
        t->seq = m->seq;
        return;
    }
}

static bool asked_for(const options *o, const char *topic) {
    for (size_t i = 0; i < o->topics; i++)
        if (strcmp(o->topic[i], topic) == 0)
            return true;
    return false;
}

static watch_pane *pane_of(watch_view *view, const char *topic) {
    for (size_t i = 0; i < view->panes; i++)
        if (strcmp(view->pane[i]->message.topic, topic) == 0)
            return view->pane[i];
    if (view->panes == WATCH_PANES_MOST)
        return NULL;
    watch_pane *pane = calloc(1, sizeof *pane);
    if (pane)
        view->pane[view->panes++] = pane;
    return pane;
}

static bool is_repeat(const watch_message *message) {
    return strstr(message->flags, "repeat") != NULL;
}

/* A repeated status for a new subscriber is not a sign of life, unless this viewer is that
 * subscriber. */
static void show_status(watch *w) {
    if (!w->view.status || !is_repeat(&w->message))
        w->view.status_s = now_s();
    w->status = w->message;
    w->view.status = &w->status;
}

static void show_result(watch *w) {
    w->view.result_s = now_s();
    w->view.result_utc_ns = w->message.utc_ns;
    if (strcmp(w->message.topic, "detections") == 0) {
        w->detections = w->message;
        w->view.detections = &w->detections;
        return;
    }
    if (strcmp(w->message.topic, "tracks") == 0) {
        w->followed = w->message;
        w->view.tracks = &w->followed;
        return;
    }
    watch_pane *pane = pane_of(&w->view, w->message.topic);
    if (pane)
        watch_pane_take(pane, &w->message, now_s());
}

static bool draw(watch *w) {
    int width, height;
    watch_terminal_size(&width, &height);
    watch_text text = {0};
    w->view.now_s = w->drawn_s = now_s();
    watch_text_add(&text, "\033[H");
    watch_render(&w->view, w->o.width ? (int)w->o.width : width, height, &text);
    bool good = watch_terminal_write(text.data, text.bytes) || watch_terminal_stopped();
    watch_text_free(&text);
    return good;
}

/* Draws at most ten times a second; also draws without new messages, because times advance. */
static bool draw_if_due(watch *w, bool news) {
    const double least_s = 0.1, most_s = 0.5, since_s = now_s() - w->drawn_s;
    const bool changed = watch_terminal_changed();
    w->news |= news;
    if (!changed && (since_s < least_s || (!w->news && since_s < most_s)))
        return true;
    w->news = false;
    return !watch_terminal_enter() || draw(w);
}

/* True if the message has a version that this viewer would show wrongly. */
static bool is_foreign(watch *w) {
    const bool known = strcmp(w->message.schema, SONAR_OUTPUT_SCHEMA) == 0;
    w->foreign[0] = '\0';
    if (!known)
        snprintf(w->foreign, sizeof w->foreign, "sends schema \"%s\"; this viewer knows \"%s\"",
                 w->message.schema, SONAR_OUTPUT_SCHEMA);
    return !known;
}

static bool hand_over(watch *w, const char *header, size_t bytes) {
    sonar_error err = {0};
    if (!watch_contacts_take(w->contacts, w->message.topic, header, bytes, &err))
        return true;
    fprintf(stderr, "sonar-watch: %s: %s\n", err.where, err.text);
    return false;
}

/* Processes a message. False: the output is closed. */
static bool take_message(watch *w, zmq_msg_t part[3]) {
    const char *header = zmq_msg_data(&part[1]);
    size_t header_bytes = zmq_msg_size(&part[1]), body_bytes = zmq_msg_size(&part[2]);
    const void *body = zmq_msg_data(&part[2]);
    if (!watch_message_read(header, header_bytes, body, body_bytes, &w->message))
        return true;
    if (is_foreign(w))
        return true;
    follow_seq(w);
    w->counted += asked_for(&w->o, w->message.topic);
    if (w->contacts)
        return hand_over(w, header, header_bytes);
    if (w->screen && strcmp(w->message.topic, "status") == 0)
        show_status(w);
    else if (w->screen)
        show_result(w);
    if (w->screen)
        return true;
    watch_text text = {0};
    if (w->o.json)
        watch_json(header, header_bytes, body, body_bytes, &text);
    else
        watch_line(&w->message, &text);
    bool good = watch_terminal_write(text.data, text.bytes) || watch_terminal_stopped();
    watch_text_free(&text);
    return good;
}

/* Reads one complete message, if there is one: 1 good, 0 none, -1 the output is closed. */
static int receive(watch *w) {
    zmq_msg_t part[3], extra;
    int parts = 0, more = 1;
    for (int i = 0; i < 3; i++)
        zmq_msg_init(&part[i]);
    zmq_msg_init(&extra);
    for (; more; parts++) {
        zmq_msg_t *to = parts < 3 ? &part[parts] : &extra;
        if (zmq_msg_recv(to, w->socket, ZMQ_DONTWAIT) < 0)
            break;
        more = zmq_msg_more(to);
    }
    int result = parts == 0 ? 0 : 1;
    if (parts == 3 && !take_message(w, part))
        result = -1;
    for (int i = 0; i < 3; i++)
        zmq_msg_close(&part[i]);
    zmq_msg_close(&extra);
    return result;
}

static bool enough(const watch *w) {
    return watch_terminal_stopped() || w->quit || (w->o.count && w->counted >= w->o.count);
}

static int timed_out(const watch *w) {
    const char *why = w->view.why;
    watch_terminal_leave();
    fprintf(stderr, "sonar-watch: nothing was received from %s for %g s%s%s\n", w->o.endpoint,
            w->o.timeout_s, why ? ": it " : "", why ? why : "");
    return EXIT_TIMEOUT;
}

static const double PATIENCE_S = 2; /* time within which a running daemon sends its status */

/* The reason for waiting: the connection, the received messages, or that there are none; NULL: no
 * reason to wait. */
static const char *why_waiting(const watch *w, sonar_client_state state, const char *why) {
    if (why || w->foreign[0])
        return why ? why : w->foreign;
    return state == SONAR_CLIENT_JOINED && !w->view.received
               ? "is running, but sends none of these topics"
               : NULL;
}

/* Prints each reason once; a closed connection is printed without delay. */
static void tell_wait(watch *w, sonar_client_state state) {
    static const char unknown[] = "";
    const bool due = now_s() - w->counted_s >= PATIENCE_S || state == SONAR_CLIENT_HUNG_UP;
    const char *why = w->view.why ? w->view.why : w->counted ? NULL : unknown;
    if (!why)
        w->told = NULL;
    if (!due || !why || why == w->told)
        return;
    w->told = why;
    fprintf(stderr, "sonar-watch: waiting for sonard at %s%s%s (ctrl-c ends)\n", w->o.endpoint,
            *why ? ", which " : "", why);
}

/* Waiting is useless if the daemon refuses this viewer. */
static bool is_refused(watch *w) {
    const char *why;
    const sonar_client_state state = sonar_client_look(w->client, &why);
    w->view.why = why_waiting(w, state, why);
    if (state != SONAR_CLIENT_REFUSED) {
        if (!w->screen)
            tell_wait(w, state);
        return false;
    }
    watch_terminal_leave();
    fprintf(stderr, "sonar-watch: %s %s\n", w->o.endpoint, w->view.why);
    return true;
}

/* Waits for messages and keys, and processes them. False: the terminal does not accept output. */
static bool take_messages(watch *w, bool *news) {
    zmq_pollitem_t item[2] = {{.socket = w->socket, .events = ZMQ_POLLIN},
                              {.fd = watch_terminal_keys(), .events = ZMQ_POLLIN}};
    const int got = zmq_poll(item, item[1].fd >= 0 ? 2 : 1, 100);
    w->quit = got > 0 && item[1].revents && watch_terminal_quit();
    int result = 0;
    for (int all = 0; all < 1000 && !enough(w) && (result = receive(w)) > 0; all++)
        *news = true;
    return result >= 0;
}

static int run(watch *w) {
    const double began = w->view.began_s = w->counted_s = now_s();
    while (!enough(w) && !(w->o.seconds > 0 && now_s() - began >= w->o.seconds)) {
        const uint64_t before = w->counted;
        bool news = false;
        if (is_refused(w) || !take_messages(w, &news) || (w->screen && !draw_if_due(w, news)))
            return EXIT_FAILURE;
        if (w->counted > before)
            w->counted_s = now_s();
        else if (w->o.timeout_s > 0 && now_s() - w->counted_s >= w->o.timeout_s)
            return timed_out(w);
    }
    return EXIT_SUCCESS;
}

static void subscribe(watch *w, const char *topic) {
    zmq_setsockopt(w->socket, ZMQ_SUBSCRIBE, topic, strlen(topic));
}

static bool connect_socket(watch *w, sonar_error *err) {
    static const struct {
        int option, value;
    } table[] = {{ZMQ_LINGER, 0}, {ZMQ_IPV6, 1}, {ZMQ_RCVHWM, 100}, {ZMQ_RECONNECT_IVL_MAX, 2000}};
    w->context = zmq_ctx_new();
    w->socket = w->context ? zmq_socket(w->context, ZMQ_SUB) : NULL;
    if (!w->socket)
        return false;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        zmq_setsockopt(w->socket, table[i].option, &table[i].value, sizeof(int));
    for (size_t i = 0; i < w->o.topics; i++)
        subscribe(w, w->o.topic[i]);
    if ((w->screen || w->o.to.ttm.address) && !asked_for(&w->o, "detections"))
        subscribe(w, "detections");
    if (w->screen && !asked_for(&w->o, "status"))
        subscribe(w, "status");
    w->client = sonar_client_watch(w->context, w->socket, w->o.key != NULL);
    return sonar_socket_keepalive(w->socket) &&
           sonar_client_connect(w->o.key, w->o.curve, w->socket, w->o.endpoint, err) == SONAR_OK;
}

static void end(watch *w) {
    sonar_client_forget(w->client, w->socket);
    if (w->socket)
        zmq_close(w->socket);
    if (w->context)
        zmq_ctx_term(w->context);
    for (size_t i = 0; i < w->view.panes; i++)
        free(w->view.pane[i]);
}

static sonar_code open_contacts(watch *w, sonar_error *err) {
    return hands_over(&w->o) ? watch_contacts_open(&w->o.to, &w->contacts, err) : SONAR_OK;
}

/* Returns the exit code. */
static int close_contacts(watch *w, int code) {
    sonar_error err = {0};
    if (!watch_contacts_close(w->contacts, &err) || code)
        return code;
    fprintf(stderr, "sonar-watch: %s: %s\n", err.where, err.text);
    return EXIT_FAILURE;
}

int main(int argc, char **argv) {
    program_begin("sonar-watch");
    static watch w;
    int code = read_options(argc, argv, &w.o);
    if (code >= 0)
        return code;
    w.screen = !w.o.json && !hands_over(&w.o) && isatty(STDOUT_FILENO);
    w.view.colour = has_256_colours();
    w.view.endpoint = w.o.endpoint;
    w.view.result_s = w.view.result_utc_ns = NAN;
    watch_terminal_signals();
    sonar_error err = {.where = "zmq", .text = "no memory"};
    if (open_contacts(&w, &err) || !connect_socket(&w, &err)) {
        fprintf(stderr, "sonar-watch: %s: %s\n", err.where, err.text);
        end(&w);
        return close_contacts(&w, EXIT_USAGE);
    }
    if (w.screen)
        watch_terminal_enter();
    code = run(&w);
    watch_terminal_leave();
    end(&w);
    return close_contacts(&w, code);
}
