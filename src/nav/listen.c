/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The thread that reads NMEA by UDP or from a serial line, and JSON from a publisher. It sleeps
 * until data come, and reads a limited amount at a time. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>
#include <zmq.h>

#include "net/udp.h"
#include "nav/internal.h"
#include "nav/nmea.h"
#include "net/net.h"

enum {
    JSON_BYTES_MOST = 4096,
    DATAGRAM_BYTES_MOST = 65536,
    MESSAGES_QUEUED = 64,
    REOPEN_MS = 1000
};

static void count(sonar_nav *nav, sonar_nav_counter what) {
    atomic_fetch_add_explicit(&nav->counter[what], 1, memory_order_relaxed);
}

/* ---- a serial line -----------------------------------------------------------------------------
 */

static speed_t speed_of(int baud) {
    return baud == 9600     ? B9600
           : baud == 19200  ? B19200
           : baud == 38400  ? B38400
           : baud == 115200 ? B115200
                            : B4800;
}

static void close_source(struct nmea_source *s) {
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

/* Raw, 8N1, as in IEC 61162-1 and -2. */
static sonar_code open_serial(struct nmea_source *s, int baud, sonar_error *err) {
    struct termios line;
    s->line_bytes = 0;
    s->fd = open(s->where, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (s->fd < 0 || tcgetattr(s->fd, &line) != 0)
        return sonar_fail(err, SONAR_ESYS, s->where, "cannot be read as a serial line: %s",
                          strerror(errno));
    cfmakeraw(&line);
    line.c_cflag = (line.c_cflag & ~(tcflag_t)(CSTOPB | CRTSCTS)) | CLOCAL | CREAD;
    cfsetispeed(&line, speed_of(baud));
    cfsetospeed(&line, speed_of(baud));
    if (tcsetattr(s->fd, TCSANOW, &line) != 0)
        return sonar_fail(err, SONAR_ESYS, s->where, "cannot be set up: %s", strerror(errno));
    return SONAR_OK;
}

/* Reopens the serial line after an adapter was unplugged and plugged in again. */
static void open_again(const sonar_nav *nav, struct nmea_source *s) {
    const int64_t now_ns = sonar_monotonic_ns();
    sonar_error quiet;
    if (now_ns - s->tried_ns < (int64_t)REOPEN_MS * 1000000)
        return;
    s->tried_ns = now_ns;
    if (open_serial(s, nav->spec.baud, &quiet) == SONAR_OK)
        sonar_log(nav->host, SONAR_INFO, s->where, "the line is available again");
    else
        close_source(s);
}

/* ---- NMEA ------------------------------------------------------------------------------------ */

/* Values get their time of arrival, because most sentences have no time of their own. */
static void take_sentence(sonar_nav *nav, const char *text, size_t bytes) {
    static const sonar_nav_counter of[] = {[SONAR_NMEA_TAKEN] = SONAR_NAV_TAKEN,
                                           [SONAR_NMEA_OTHER] = SONAR_NAV_OTHER,
                                           [SONAR_NMEA_CHECKSUM] = SONAR_NAV_CHECKSUM,
                                           [SONAR_NMEA_MALFORMED] = SONAR_NAV_MALFORMED};
    sonar_nav_values values = {0};
    const sonar_nmea result = sonar_nmea_read(text, bytes, &nav->variation_deg, &values);
    count(nav, of[result]);
    if (result == SONAR_NMEA_TAKEN)
        sonar_nav_store(nav, "nmea", &values, sonar_utc_ns(), false);
}

/* Bytes of a stream; a line longer than the buffer is one malformed sentence. */
void sonar_nav_take_bytes(sonar_nav *nav, struct nmea_source *s, const char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const bool end = bytes[i] == '\n' || bytes[i] == '\r';
        if (end && s->line_bytes)
            take_sentence(nav, s->line, s->line_bytes);
        if (end)
            s->line_bytes = 0;
        else if (s->line_bytes < sizeof s->line)
            s->line[s->line_bytes++] = bytes[i];
    }
}

/* A ship's network puts a header before the sentences (IEC 61162-450). The last sentence may lack
 * its line end. */
static void take_datagram(sonar_nav *nav, struct nmea_source *s, const char *bytes, size_t n) {
    static const char header[] = "UdPbC"; /* with its zero */
    const size_t before =
        n >= sizeof header && !memcmp(bytes, header, sizeof header) ? sizeof header : 0;
    s->line_bytes = 0;
    sonar_nav_take_bytes(nav, s, bytes + before, n - before);
    sonar_nav_take_bytes(nav, s, "\n", 1);
}

static void read_nmea(sonar_nav *nav, struct nmea_source *s) {
    char bytes[DATAGRAM_BYTES_MOST]; /* the rest of a longer datagram is dropped */
    const ssize_t n = read(s->fd, bytes, sizeof bytes);
    if (n > 0 && s->datagrams)
        take_datagram(nav, s, bytes, (size_t)n);
    else if (n > 0)
        sonar_nav_take_bytes(nav, s, bytes, (size_t)n);
    if (n > 0)
        return;
    if (s->datagrams || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    sonar_log(nav->host, SONAR_ERROR, s->where,
              "cannot be read any more: %s; it is reopened as soon as it is available",
              n ? strerror(errno) : "the line was closed");
    close_source(s);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static sonar_code take_number(const cJSON *item, double low, double high, sonar_error *err) {
    if (!cJSON_IsNumber(item))
        return sonar_fail(err, SONAR_EINVAL, item->string, "expected a number, %g to %g", low,
                          high);
    if (!(item->valuedouble >= low && item->valuedouble <= high))
        return sonar_fail(err, SONAR_EINVAL, item->string, "%g is out of range; accepted: %g to %g",
                          item->valuedouble, low, high);
    return SONAR_OK;
}

/* Members with other names are ignored. */
static sonar_code take_member(const cJSON *item, int64_t *utc_ns, sonar_nav_values *to,
                              sonar_error *err) {
    const double utc_most_ns = 4e18; /* the year 2096; no difference of two times overflows */
    if (!strcmp(item->string, "utc_ns")) {
        const sonar_code code = take_number(item, 0, utc_most_ns, err);
        if (!code)
            *utc_ns = (int64_t)item->valuedouble;
        return code;
    }
    for (int i = 0; i < SONAR_NAV_QUANTITIES; i++) {
        double low, high;
        sonar_nav_range((sonar_nav_quantity)i, &low, &high);
        if (strcmp(item->string, sonar_nav_name((sonar_nav_quantity)i)) != 0)
            continue;
        to->known |= 1u << i;
        to->value[i] = item->valuedouble;
        return take_number(item, low, high, err);
    }
    return SONAR_OK;
}

/* The values are those of a compass in a towed array. */
static sonar_code assign(const cJSON *compass, sonar_nav_values *to, sonar_error *err) {
    const unsigned readable = 1u << SONAR_NAV_HEADING | 1u << SONAR_NAV_DEPTH;
    const char *id = cJSON_GetStringValue(compass);
    if (!id || !*id || strlen(id) >= SONAR_NAV_ID_BYTES)
        return sonar_fail(err, SONAR_EINVAL, "compass", "expected a name of 1 to %d characters",
                          SONAR_NAV_ID_BYTES - 1);
    if (to->known & ~readable)
        return sonar_fail(err, SONAR_EINVAL, "compass",
                          "a compass has heading_deg and depth_m, and nothing else");
    for (int i = 0; i < SONAR_NAV_QUANTITIES; i++)
        if (to->known & 1u << i)
            sonar_nav_put_reading(to, id, (sonar_nav_quantity)i, to->value[i]);
    to->known = 0;
    return SONAR_OK;
}

sonar_code sonar_nav_parse(const char *text, size_t bytes, int64_t *utc_ns, sonar_nav_values *to,
                           sonar_error *err) {
    cJSON *root = cJSON_ParseWithLength(text, bytes);
    sonar_code code = SONAR_OK;
    const cJSON *item;
    *to = (sonar_nav_values){0};
    for (item = cJSON_IsObject(root) ? root->child : NULL; item && !code; item = item->next)
        code = take_member(item, utc_ns, to, err);
    if (!code && !to->known)
        code = sonar_fail(err, SONAR_EINVAL, "navigation",
                          "expected an object of numbers named heading_deg, course_deg, speed_mps, "
                          "water_speed_mps, latitude_deg, longitude_deg, depth_m or tilt_deg");
    const cJSON *compass = cJSON_GetObjectItemCaseSensitive(root, "compass");
    if (!code && compass)
        code = assign(compass, to, err);
    cJSON_Delete(root);
    return code;
}

/* Uses the last part: a topic may precede it. */
static void read_message(sonar_nav *nav) {
    zmq_msg_t part;
    int more = 1;
    sonar_nav_values values;
    int64_t utc_ns = sonar_utc_ns();
    zmq_msg_init(&part);
    while (more && zmq_msg_recv(&part, nav->socket, ZMQ_DONTWAIT) >= 0)
        more = zmq_msg_more(&part);
    if (!more &&
        !sonar_nav_parse(zmq_msg_data(&part), zmq_msg_size(&part), &utc_ns, &values, NULL)) {
        count(nav, SONAR_NAV_TAKEN);
        sonar_nav_store(nav, "zmq", &values, utc_ns, false);
    } else if (!more) {
        count(nav, SONAR_NAV_MALFORMED);
    }
    zmq_msg_close(&part);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void *listen_thread(void *arg) {
    sonar_nav *nav = arg;
    while (!atomic_load(&nav->stopping)) {
        /* the request to stop, the topic, and NMEA; a descriptor of -1 is passed over */
        zmq_pollitem_t items[2 + SONAR_NAV_NMEA_MOST] = {{NULL, nav->wake, ZMQ_POLLIN, 0},
                                                         {nav->socket, -1, ZMQ_POLLIN, 0}},
                                 *nmea = items + 2;
        bool lost = false;
        for (size_t i = 0; i < nav->sources; i++) {
            nmea[i] = (zmq_pollitem_t){NULL, nav->nmea[i].fd, ZMQ_POLLIN, 0};
            lost = lost || nav->nmea[i].fd < 0;
        }
        const int ready = zmq_poll(items, 2 + (int)nav->sources, lost ? REOPEN_MS : -1);
        if (ready < 0 && zmq_errno() != EINTR)
            break;
        for (size_t i = 0; i < nav->sources; i++)
            if (nmea[i].revents)
                read_nmea(nav, &nav->nmea[i]);
            else if (nav->nmea[i].fd < 0)
                open_again(nav, &nav->nmea[i]);
        if (items[1].revents)
            read_message(nav);
    }
    if (nav->socket)
        zmq_close(nav->socket);
    nav->socket = NULL;
    return NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

static sonar_code open_udp(struct nmea_source *s, sonar_error *err) {
    struct sockaddr_storage address;
    socklen_t bytes;
    s->datagrams = true;
    if (!sonar_udp_read(s->where, &address, &bytes))
        return sonar_fail(err, SONAR_EINVAL, s->where,
                          "expected an address with a port: udp://0.0.0.0:10110");
    s->fd = socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return s->fd >= 0 && sonar_udp_bind(s->fd, (const struct sockaddr *)&address, bytes) == 0
               ? SONAR_OK
               : sonar_fail(err, SONAR_ESYS, s->where, "cannot listen: %s", strerror(errno));
}

static sonar_code open_nmea(sonar_nav *nav, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < SONAR_NAV_NMEA_MOST && nav->spec.nmea[i] && !code; i++) {
        struct nmea_source *s = &nav->nmea[nav->sources++];
        *s = (struct nmea_source){.where = nav->spec.nmea[i], .fd = -1};
        code =
            strncmp(s->where, "udp://", 6) ? open_serial(s, nav->spec.baud, err) : open_udp(s, err);
    }
    return code;
}

static sonar_code open_topic(sonar_nav *nav, sonar_error *err) {
    const sonar_socket_spec spec = {.type = ZMQ_SUB,
                                    .messages_out = 1,
                                    .messages_in = MESSAGES_QUEUED,
                                    .message_bytes = JSON_BYTES_MOST};
    sonar_code code =
        sonar_socket_open(nav->spec.zmq_context, &spec, nav->spec.endpoint, &nav->socket, err);
    if (!code && zmq_setsockopt(nav->socket, ZMQ_SUBSCRIBE, "", 0) != 0)
        code = sonar_fail(err, SONAR_ESYS, nav->spec.endpoint, "%s", zmq_strerror(zmq_errno()));
    return code ? code : sonar_endpoint_connect(nav->socket, nav->spec.endpoint, err);
}

sonar_code sonar_nav_start(sonar_nav *nav, sonar_error *err) {
    sonar_code code = SONAR_OK;
    nav->variation_deg = NAN;
    if (!nav->spec.nmea[0] && !nav->spec.endpoint)
        return SONAR_OK;
    nav->wake = sonar_wake_create();
    if (nav->wake < 0)
        return sonar_fail(err, SONAR_ESYS, "navigation", "eventfd: %s", strerror(errno));
    code = open_nmea(nav, err);
    if (!code && nav->spec.endpoint)
        code = open_topic(nav, err);
    if (!code)
        code =
            sonar_thread_start(nav->host, "sonar-nav", -1, listen_thread, nav, &nav->thread, err);
    nav->started = !code;
    return code;
}

void sonar_nav_stop(sonar_nav *nav) {
    if (nav->started) {
        atomic_store(&nav->stopping, true);
        sonar_wake_signal(nav->wake);
        pthread_join(nav->thread, NULL);
    }
    nav->started = false;
    if (nav->socket)
        zmq_close(nav->socket);
    nav->socket = NULL;
    for (; nav->sources; nav->sources--)
        close_source(&nav->nmea[nav->sources - 1]);
    if (nav->wake >= 0)
        close(nav->wake);
    nav->wake = -1;
}
