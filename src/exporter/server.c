/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "exporter/exporter.h"

#include <stdlib.h>

#include "core/core.h"
#include "net/loopback.h"

#ifdef SONAR_HAVE_MICROHTTPD

#include <arpa/inet.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/socket.h>

enum { CONNECTIONS_MOST = 8, IDLE_S = 5, REQUEST_BYTES = 16384 };
static const int64_t request_within_ns =
    4000000000; /* checked once a second, so up to a second more */

typedef struct connection {
    bool open;
    int fd;
    int64_t since_ns;
} connection;

struct sonar_exporter {
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock; /* held only for copying */
    connection connection[CONNECTIONS_MOST];
    bool posted;
    sonar_status status;
    sonar_ingest_report stream;
    struct snapshot { /* the server's thread */
        sonar_status status;
        sonar_ingest_report stream;
    } seen;
};

/* False: no status has been posted yet. */
static bool look(sonar_exporter *e) {
    pthread_mutex_lock(&e->lock);
    const bool posted = e->posted;
    if (posted) {
        e->seen.status = e->status;
        e->seen.stream = e->stream;
    }
    pthread_mutex_unlock(&e->lock);
    return posted;
}

/* ---- answers (the server's thread) ----------------------------------------------------------- */

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned code, const char *type,
                              const char *text) {
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    /* one request per connection, so that the connection's time limit is the request's */
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    const enum MHD_Result queued = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result answer_metrics(sonar_exporter *e, struct MHD_Connection *connection) {
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return MHD_NO;
    sonar_exporter_print(&e->seen.status, &e->seen.stream, to);
    const bool good = fclose(to) == 0;
    const enum MHD_Result queued =
        good ? answer(connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", text)
             : MHD_NO;
    free(text);
    return queued;
}

/* The health in one word, then the conditions, a line each. */
static enum MHD_Result answer_health(const sonar_status *status,
                                     struct MHD_Connection *connection) {
    char text[SONAR_CONDITIONS * (sizeof status->condition->text + 64) + 64];
    size_t used = (size_t)snprintf(text, sizeof text, "%s\n", status->health);
    for (size_t i = 0; i < status->conditions; i++) {
        const sonar_condition *c = &status->condition[i];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s: %s\n",
                                 sonar_condition_severity_name(c->severity),
                                 sonar_condition_name(c->code), c->text);
    }
    const bool good = !strcmp(status->health, "ok");
    return answer(connection, good ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
                  "text/plain; charset=utf-8", text);
}

static enum MHD_Result handle(void *arg, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **state) {
    static const char plain[] = "text/plain; charset=utf-8";
    sonar_exporter *e = arg;
    (void)version, (void)upload, (void)upload_bytes, (void)state;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, plain, "only GET is answered\n");
    const bool metrics = !strcmp(path, "/metrics");
    if (!metrics && strcmp(path, "/healthz") != 0)
        return answer(connection, MHD_HTTP_NOT_FOUND, plain, "available: /metrics and /healthz\n");
    if (!look(e))
        return answer(connection, MHD_HTTP_SERVICE_UNAVAILABLE, plain, "starting\n");
    return metrics ? answer_metrics(e, connection) : answer_health(&e->seen.status, connection);
}

/* ---- connections ----------------------------------------------------------------------------- */

/* Called by the server's thread for a new connection and before its descriptor is closed. */
static void follow(void *arg, struct MHD_Connection *from, void **own,
                   enum MHD_ConnectionNotificationCode what) {
    sonar_exporter *e = arg;
    pthread_mutex_lock(&e->lock);
    if (what == MHD_CONNECTION_NOTIFY_CLOSED && *own)
        ((connection *)*own)->open = false;
    for (size_t i = 0; what == MHD_CONNECTION_NOTIFY_STARTED && !*own && i < CONNECTIONS_MOST; i++)
        if (!e->connection[i].open) {
            *own = &e->connection[i];
            e->connection[i] = (connection){
                .open = true,
                .fd = MHD_get_connection_info(from, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
                .since_ns = sonar_monotonic_ns()};
        }
    pthread_mutex_unlock(&e->lock);
}

/* libmicrohttpd's time limit restarts with every byte: ends connections that have lasted too long.
 * Under the lock. */
static void end_slow(sonar_exporter *e) {
    const int64_t now_ns = sonar_monotonic_ns();
    for (size_t i = 0; i < CONNECTIONS_MOST; i++)
        if (e->connection[i].open && now_ns - e->connection[i].since_ns > request_within_ns)
            shutdown(e->connection[i].fd, SHUT_RDWR);
}

/* ---- life ------------------------------------------------------------------------------------ */

sonar_code sonar_exporter_create(const char *address, sonar_exporter **exporter, sonar_error *err) {
    struct sockaddr_storage at;
    *exporter = NULL;
    if (!sonar_loopback_read(address, &at))
        return sonar_fail(err, SONAR_EINVAL, "metrics.listen", "'%s' is no loopback address",
                          address);
    sonar_exporter *e = sonar_alloc(1, sizeof *e);
    if (!e)
        return sonar_fail(err, SONAR_ENOMEM, "metrics.listen", "no memory");
    pthread_mutex_init(&e->lock, NULL);
    e->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | (at.ss_family == AF_INET6 ? MHD_USE_IPv6 : 0), 0, NULL,
        NULL, handle, e, MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&at, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS_MOST, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES, MHD_OPTION_NOTIFY_CONNECTION,
        follow, e, MHD_OPTION_END);
    if (!e->daemon) {
        sonar_exporter_destroy(e);
        return sonar_fail(err, SONAR_EUNAVAILABLE, "metrics.listen",
                          "cannot listen at %s: the port is taken, or is reserved", address);
    }
    *exporter = e;
    return SONAR_OK;
}

uint16_t sonar_exporter_port(const sonar_exporter *exporter) {
    return MHD_get_daemon_info(exporter->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

void sonar_exporter_post(sonar_exporter *e, const sonar_status *status,
                         const sonar_ingest_report *stream) {
    if (!e)
        return;
    pthread_mutex_lock(&e->lock);
    e->status = *status;
    e->stream = *stream;
    e->posted = true;
    end_slow(e);
    pthread_mutex_unlock(&e->lock);
}

void sonar_exporter_destroy(sonar_exporter *e) {
    if (!e)
        return;
    if (e->daemon)
        MHD_stop_daemon(e->daemon);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

#else

sonar_code sonar_exporter_create(const char *address, sonar_exporter **exporter, sonar_error *err) {
    (void)address;
    *exporter = NULL;
    return sonar_fail(err, SONAR_EUNAVAILABLE, "metrics.listen",
                      "this sonard was built without libmicrohttpd");
}

uint16_t sonar_exporter_port(const sonar_exporter *exporter) {
    (void)exporter;
    return 0;
}

void sonar_exporter_post(sonar_exporter *exporter, const sonar_status *status,
                         const sonar_ingest_report *stream) {
    (void)exporter, (void)status, (void)stream;
}

void sonar_exporter_destroy(sonar_exporter *exporter) {
    (void)exporter;
}

#endif
