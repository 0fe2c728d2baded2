/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "heading.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/core.h"
#include "net/udp.h"

static const double INTERVAL_S = 0.1;

struct sim_heading {
    int fd;
    sim_ship ship;
    const sonar_config *config;
    double front_m; /* of the foremost sensor in front of the array's origin */
    uint64_t told;  /* intervals sent so far */
};

static sonar_code connect_to(sim_heading *h, const char *address, sonar_error *err) {
    struct sockaddr_storage to;
    socklen_t bytes;
    if (!sonar_udp_read(address, &to, &bytes))
        return sonar_fail(err, SONAR_EINVAL, "--nmea",
                          "expected an address in numbers with a port, udp://127.0.0.1:10110, not "
                          "%s",
                          address);
    h->fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const bool good = h->fd >= 0 && connect(h->fd, (const struct sockaddr *)&to, bytes) == 0;
    return good ? SONAR_OK : sonar_fail(err, SONAR_ESYS, address, "%s", strerror(errno));
}

sonar_code sim_heading_open(const char *address, const sim_scene *scene, const sonar_config *config,
                            sim_heading **heading, sonar_error *err) {
    sim_heading *h = *heading = sonar_alloc(1, sizeof *h);
    if (!h)
        return sonar_fail(err, SONAR_ENOMEM, "--nmea", "out of memory");
    *h = (sim_heading){.fd = -1, .ship = scene->ship, .config = config};
    sonar_config_tow_length(config, &h->front_m);
    if (!scene->own_ship)
        return sonar_fail(err, SONAR_EINVAL, "--nmea", "the scene has no own_ship");
    return connect_to(h, address, err);
}

static void tell_one(const sim_heading *h, const char *body) {
    char sentence[64];
    int sum = 0;
    for (const char *c = body; *c; c++)
        sum ^= *c;
    const int n = snprintf(sentence, sizeof sentence, "$%s*%02X\r\n", body, (unsigned)sum);
    const ssize_t sent = send(h->fd, sentence, (size_t)n, 0);
    (void)sent; /* an error is ignored, because a listener need not exist yet */
}

/* As it reads, before its offset is added. */
static void tell_compass(const sim_heading *h, size_t i, double t_s) {
    const sonar_config *c = h->config;
    const double behind_m = h->ship.trail_m - h->front_m + c->tow_compass_at_m[i],
                 deg = sim_ship_heading_behind(&h->ship, t_s, behind_m);
    char body[48];
    snprintf(body, sizeof body, "YXXDR,A,%06.2f,D,%s",
             sonar_modulo_turn(deg - c->tow_compass_offset_deg[i]), c->tow_compass_id[i]);
    tell_one(h, body);
}

static void tell(const sim_heading *h, double t_s) {
    char body[48];
    snprintf(body, sizeof body, "HEHDT,%06.2f,T",
             sonar_modulo_turn(sim_ship_heading(&h->ship, t_s)));
    tell_one(h, body);
    for (size_t i = 0; i < h->config->tow_compasses; i++)
        tell_compass(h, i, t_s);
    if (!(h->ship.speed_mps > 0))
        return;
    const double knots = h->ship.speed_mps * 3600 / 1852;
    snprintf(body, sizeof body, "VWVHW,,T,,M,%.3f,N,%.3f,K", knots, knots * 1.852);
    tell_one(h, body);
}

void sim_heading_advance(sim_heading *h, uint64_t samples) {
    if (!h)
        return;
    const double t_s = (double)samples / h->config->fs_hz;
    bool due = false;
    while ((double)h->told * INTERVAL_S <= t_s) {
        h->told++;
        due = true;
    }
    if (due)
        tell(h, t_s);
}

void sim_heading_close(sim_heading *h) {
    if (h && h->fd >= 0)
        close(h->fd);
    free(h);
}
