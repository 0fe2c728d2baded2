/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The daemon's configuration for a live run. It is written as JSON, which YAML contains. */
#include "live.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "status/topic.h"
#include "net/certificate.h"

static const double c_mps = 1500;

const char *const live_transport_name[LIVE_TRANSPORTS] = {
    [LIVE_SOCKETS] = "sockets", [LIVE_SHM] = "shm", [LIVE_TCP] = "tcp", [LIVE_CURVE] = "curve"};

enum { DIRECTIONS = 160, TCP_RANKS_MOST = 10 };

/* ---- a tree of settings ---------------------------------------------------------------------- */

/* Sets the value at a path, e.g. "dft.hop", to YAML text; "" removes it. */
static void put(cJSON *root, const char *path, const char *text) {
    char name[64];
    for (const char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
        cJSON *group = cJSON_GetObjectItemCaseSensitive(root, name);
        if (!cJSON_IsObject(group)) {
            cJSON_DeleteItemFromObjectCaseSensitive(root, name);
            group = cJSON_AddObjectToObject(root, name);
        }
        root = group;
    }
    cJSON_DeleteItemFromObjectCaseSensitive(root, path);
    if (*text)
        cJSON_AddRawToObject(root, path, text);
}

__attribute__((format(printf, 3, 4))) static void putf(cJSON *root, const char *path,
                                                       const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put(root, path, text);
}

/* ---- the settings of a case ------------------------------------------------------------------ */

/* Spacing of half a wavelength at the top of the band, but a line of at most a quarter of the path
 * of sound in a window: the window would be too short for a longer array. */
static double spacing_m_of(const live_plan *plan) {
    const live_case *c = plan->of;
    const double half_wave_m = c_mps * (double)c->length / (2 * (double)c->last_bin * c->fs_hz);
    const double longest_m = 0.24 * c_mps * (double)c->length / c->fs_hz;
    return fmin(half_wave_m, longest_m / (double)(plan->sensors - 1));
}

/* A line with the same directions as the other cases. */
static void put_array(cJSON *root, const live_plan *plan) {
    const live_case *c = plan->of;
    const double spacing_m = spacing_m_of(plan), step = 180.0 / DIRECTIONS;
    const double aperture_m = spacing_m * (double)(plan->sensors - 1);
    static const char *const scan[] = {"cbf.scan", "mvdr.scan"};
    putf(root, "array.geometry.line.sensors", "%zu", plan->sensors);
    putf(root, "array.geometry.line.spacing_m", "%.17g", spacing_m);
    putf(root, "cbf.band_bins", "[%zu, %zu]", c->first_bin, c->last_bin);
    for (size_t i = 0; i < sizeof scan / sizeof *scan; i++)
        putf(root, scan[i], "{\"start_deg\": %.17g, \"stop_deg\": %.17g, \"step_deg\": %.17g}",
             step / 2, 180 - step / 2, step);
    if (!c->everything) {
        put(root, "cbf.ranges_m", "[]");
        return;
    }
    static const double share[] = {0.6, 0.8, 1.1, 1.6,
                                   2.5, 5,   10}; /* measured from the array's end */
    char ranges[512] = "[";
    for (size_t i = 0, at = 1; i < sizeof share / sizeof *share; i++)
        at += (size_t)snprintf(ranges + at, sizeof ranges - at, "%s%.6g", i ? ", " : "",
                               share[i] * aperture_m);
    strcat(ranges, "]");
    put(root, "cbf.ranges_m", ranges);
}

/* A free port of loopback: `port`, or any for 0. Returns 0 if there is none. */
static int free_port(int wanted) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)wanted)};
    socklen_t bytes = sizeof address;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool found = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
                       getsockname(fd, (struct sockaddr *)&address, &bytes) == 0;
    if (fd >= 0)
        close(fd);
    return found ? ntohs(address.sin_port) : 0;
}

/* Free ports of loopback for all ranks, which differ only in the last digit, the rank's number.
 * Returns them without that digit. */
static int free_ports(size_t ranks) {
    int base = 0;
    size_t found = 0;
    for (int tries = 0; tries < 100 && found < ranks; tries++) {
        base = free_port(0) / 10;
        for (found = 0; found < ranks && free_port(10 * base + (int)found);)
            found++;
    }
    return base;
}

static void put_endpoints(cJSON *root, const live_plan *plan, const char *dir) {
    const char *rank = plan->ranks > 1 ? "{rank}" : "";
    if (plan->transport == LIVE_TCP || plan->transport == LIVE_CURVE) {
        const int port = plan->ranks > 1 ? free_ports(plan->ranks) : free_port(0);
        putf(root, "ingest.endpoints", "[\"tcp://127.0.0.1:%d%s\"]", port, rank);
        putf(root, "output.endpoint", "\"tcp://127.0.0.1:%d\"", free_port(0));
    } else {
        putf(root, "ingest.endpoints", "[\"ipc://%s/in%s\"]", dir, rank);
        putf(root, "output.endpoint", "\"ipc://%s/out\"", dir);
    }
    if (plan->transport == LIVE_SHM)
        putf(root, "ingest.shared_memory", "\"ipc://%s/memory%s\"", dir, rank);
    if (plan->transport == LIVE_CURVE)
        putf(root, "security",
             "{\"key\": \"%s/daemon.key_secret\", \"allow_senders\": [\"%s/client.key\"], "
             "\"allow_readers\": [\"%s/client.key\"]}",
             dir, dir, dir);
}

/* The daemon's stages and topics. It computes only subscribed topics, and a run subscribes to its
 * output.topics. */
static void put_stages(cJSON *root, bool everything) {
    put(root, "mvdr.enabled", everything ? "true" : "false");
    put(root, "mvdr.snapshots", "64");
    put(root, "detections.enabled", everything ? "true" : "false");
    put(root, "output.topics",
        everything ? "[cbf.azimuth, cbf.nearfield, cbf.lofar, mvdr.azimuth, mvdr.spectrum, "
                     "detections, status]"
                   : "[cbf.azimuth, status]");
}

static void put_settings(cJSON *root, const live_plan *plan, const char *dir) {
    const live_case *c = plan->of;
    put(root, "schema", "1");
    put(root, "array.name", "\"bench\"");
    putf(root, "sound_speed_mps", "%.17g", c_mps);
    putf(root, "fs_hz", "%.17g", c->fs_hz);
    put_endpoints(root, plan, dir);
    put(root, "ingest.sample_type", "s16");
    putf(root, "ingest.queue_windows", "%zu", c->queue_windows);
    putf(root, "dft.length", "%zu", c->length);
    putf(root, "dft.hop", "%zu", c->hop);
    put_array(root, plan);
    put_stages(root, c->everything);
    put(root, "output.high_water_mark", "1000");
    putf(root, "runtime.backend", "%s", plan->backend);
    if (plan->threads)
        putf(root, "runtime.threads", "%zu", plan->threads);
}

static sonar_code put_overrides(cJSON *root, const live_plan *plan, sonar_error *err) {
    for (size_t i = 0; i < plan->settings; i++) {
        const char *equals = strchr(plan->setting[i], '=');
        char path[128];
        if (!equals || equals == plan->setting[i] ||
            (size_t)(equals - plan->setting[i]) >= sizeof path)
            return sonar_fail(err, SONAR_EINVAL, "--set", "'%s' is not OPTION=VALUE",
                              plan->setting[i]);
        snprintf(path, sizeof path, "%.*s", (int)(equals - plan->setting[i]), plan->setting[i]);
        put(root, path, equals + 1);
    }
    return SONAR_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

static sonar_code write_text(const char *path, const char *text, sonar_error *err) {
    FILE *file = fopen(path, "we");
    bool written = file && fprintf(file, "%s\n", text) > 0;
    if (file)
        written = fclose(file) == 0 && written;
    return written ? SONAR_OK
                   : sonar_fail(err, SONAR_ESYS, path, "cannot be written: %s", strerror(errno));
}

static sonar_code write_key(const char *dir, const char *name, const sonar_certificate *c,
                            bool secret, sonar_error *err) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return sonar_certificate_write(path, c, secret, err);
}

/* Makes the keys: one for the daemon, one for all clients. */
static sonar_code write_keys(const char *dir, sonar_error *err) {
    sonar_certificate daemon = {0}, client = {0};
    if (zmq_curve_keypair(daemon.public_key, daemon.secret_key) ||
        zmq_curve_keypair(client.public_key, client.secret_key))
        return sonar_fail(err, SONAR_EUNAVAILABLE, "--transport",
                          "this libzmq cannot make keys: it was built without CURVE");
    memcpy(client.server_key, daemon.public_key, sizeof client.server_key);
    sonar_code code = write_key(dir, "daemon.key_secret", &daemon, true, err);
    if (!code)
        code = write_key(dir, LIVE_CLIENT, &client, true, err);
    if (!code)
        code = write_key(dir, "client.key", &client, false, err);
    sonar_certificate_clear(&daemon);
    sonar_certificate_clear(&client);
    return code;
}

/* Reads it as the daemon will. */
static sonar_code load(const char *path, sonar_config **config, sonar_error *err) {
    sonar_report *report = sonar_report_create();
    sonar_code code = report ? sonar_config_load(path, config, report) : SONAR_ENOMEM;
    if (code != SONAR_OK && report)
        sonar_report_write(report, stderr);
    sonar_report_destroy(report);
    return code ? sonar_fail(err, code, path, "the daemon would not accept this configuration")
                : SONAR_OK;
}

/* A stage that is enabled but needed by no topic would appear in the run's name without being
 * computed. */
static sonar_code check_topics(const sonar_config *c, sonar_error *err) {
    const uint32_t topics = c->output_topics;
    const char *idle = NULL;
    if (c->specs.mvdr_enabled && !(topics & sonar_topics_by(SONAR_MADE_BY_MVDR)))
        idle = "mvdr.enabled is true, and it has no topic of the MVDR";
    else if (c->detect_enabled && !(topics & SONAR_WANT(SONAR_DETECTIONS)))
        idle = "detections.enabled is true, and it has no detections";
    else if (c->specs.cbf.ranges && !(topics & SONAR_WANT(SONAR_CBF_NEARFIELD)))
        idle = "cbf.ranges_m has ranges, and it has no cbf.nearfield";
    else if (!(topics & ~SONAR_WANT(SONAR_STATUS)) || !(topics & SONAR_WANT(SONAR_STATUS)))
        idle = "a run needs a topic of every window, and status";
    return idle ? sonar_fail(err, SONAR_EINVAL, "output.topics", "%s", idle) : SONAR_OK;
}

sonar_code live_config_write(const live_plan *plan, const char *dir, const char *path,
                             sonar_config **config, sonar_error *err) {
    *config = NULL;
    if (plan->ranks > TCP_RANKS_MOST && plan->transport >= LIVE_TCP)
        return sonar_fail(err, SONAR_EINVAL, "--ranks", "at most %d over TCP, a port for each",
                          TCP_RANKS_MOST);
    cJSON *root = cJSON_CreateObject();
    if (root)
        put_settings(root, plan, dir);
    sonar_code code = root ? put_overrides(root, plan, err) : SONAR_ENOMEM;
    char *text = code ? NULL : cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    if (code == SONAR_OK)
        code = text ? write_text(path, text, err)
                    : sonar_fail(err, SONAR_ENOMEM, path, "out of memory");
    free(text);
    if (code == SONAR_OK && plan->transport == LIVE_CURVE)
        code = write_keys(dir, err);
    if (code == SONAR_OK)
        code = load(path, config, err);
    return code ? code : check_topics(*config, err);
}
