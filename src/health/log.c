/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Logs the health: episodes of being degraded, with their causes and losses. */
#include <stdio.h>
#include <string.h>

#include "core/core.h"
#include "health/health.h"

/* An episode ends after this much time without a degraded call, so that losses every other second
 * form one episode. A daemon that was just started waits first_samples_ns for its first samples. */
static const int64_t well_for_ns = 5000000000, first_samples_ns = 30000000000;

static void open_episode(sonar_health *h, int64_t now_ns) {
    h->episode = (sonar_health_episode){.open = true, .began_ns = now_ns, .seen = h->seen};
}

/* Adds "name n" to a list that begins with `lead`. */
static size_t add_loss(char *text, size_t bytes, size_t used, const char *lead, const char *name,
                       uint64_t n) {
    if (n && used < bytes)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s %llu", lead, name,
                                 (unsigned long long)n);
    return used;
}

static size_t add_causes(char *text, size_t bytes, size_t used, const sonar_label *causes,
                         const uint64_t *now, const uint64_t *began) {
    for (size_t i = 0; i < causes->count; i++)
        used = add_loss(text, bytes, used, " ", causes->name[i], now[i] - began[i]);
    return used;
}

static uint64_t sum_of(const sonar_label *causes, const uint64_t *now, const uint64_t *began) {
    uint64_t sum = 0;
    for (size_t i = 0; i < causes->count; i++)
        sum += now[i] - began[i];
    return sum;
}

/* "12 windows lost: overload 12; 3 of 400 frames dropped: late 3; ..." or "nothing was lost". */
static void sum_up_losses(const sonar_status *began, const sonar_status *now, char *text,
                          size_t bytes) {
    const sonar_ingest_counters *in = &now->ingest, *was = &began->ingest;
    uint64_t failed = now->windows_failed - began->windows_failed;
    uint64_t windows =
        failed + sum_of(&sonar_window_causes, in->windows_dropped, was->windows_dropped);
    uint64_t frames = sum_of(&sonar_frame_causes, in->frames_dropped, was->frames_dropped);
    size_t used = 0;
    text[0] = '\0';
    if (windows)
        used += (size_t)snprintf(text, bytes, "; %llu windows lost:", (unsigned long long)windows);
    used = add_loss(text, bytes, used, " ", "failed", failed);
    used = add_causes(text, bytes, used, &sonar_window_causes, in->windows_dropped,
                      was->windows_dropped);
    if (frames && used < bytes)
        used += (size_t)snprintf(text + used, bytes - used,
                                 "; %llu of %llu frames dropped:", (unsigned long long)frames,
                                 (unsigned long long)(in->frames_received - was->frames_received));
    used =
        add_causes(text, bytes, used, &sonar_frame_causes, in->frames_dropped, was->frames_dropped);
    used = add_loss(text, bytes, used, "; ", "samples missing",
                    in->samples_missing - was->samples_missing);
    used = add_loss(text, bytes, used, "; ", "results dropped",
                    now->output.results_dropped - began->output.results_dropped);
    if (!used)
        snprintf(text, bytes, "; nothing was lost");
}

static void close_episode(sonar_health *h, const sonar_host *host, const char *now,
                          const sonar_status *status) {
    char losses[400];
    sonar_health_episode *e = &h->episode;
    sum_up_losses(&e->seen, status, losses, sizeof losses);
    sonar_log(host, SONAR_INFO, "health", "%s after %.1f s degraded%s", now,
              (double)(e->bad_ns - e->began_ns) * 1e-9, losses);
    e->open = false;
}

/* True if it has conditions that this episode has not logged yet. */
static bool note_new_conditions(sonar_health *h, const sonar_status *status) {
    bool is_new = h->cause != SONAR_FRAME_CAUSES && h->cause != h->logged;
    h->logged = h->cause == SONAR_FRAME_CAUSES ? h->logged : h->cause;
    for (size_t i = 0; i < status->conditions; i++) {
        const sonar_condition *c = &status->condition[i];
        is_new |= c->severity == SONAR_DEGRADED && !h->episode.logged[c->code];
        h->episode.logged[c->code] = true;
    }
    return is_new;
}

/* A degraded state is logged when it begins, when it gets another cause and, with its losses, some
 * time after it has ended. */
static void log_degraded(sonar_health *h, const sonar_host *host, int64_t now_ns,
                         const sonar_status *status) {
    if (!h->episode.open)
        open_episode(h, h->looked_ns ? h->looked_ns : now_ns);
    h->episode.bad_ns = now_ns;
    char where[64];
    snprintf(where, sizeof where, "health.%s", sonar_condition_name(status->condition[0].code));
    if (note_new_conditions(h, status))
        sonar_log(host, SONAR_WARN, where, "degraded: %s", status->text);
}

/* Missing samples are logged as a warning, both when they stop coming and when none come after the
 * start. Returns true if it was logged now. */
static bool log_silence(sonar_health *h, const sonar_host *host, int64_t now_ns,
                        const sonar_status *status) {
    if (strcmp(status->health, "waiting") != 0) {
        h->silence_ns = 0;
        h->silence_logged = false;
        return false;
    }
    h->silence_ns = h->silence_ns ? h->silence_ns : now_ns;
    const bool began = status->ingest.last_frame_ns != 0;
    if (h->silence_logged || (!began && now_ns - h->silence_ns < first_samples_ns))
        return false;
    h->silence_logged = true;
    sonar_log(host, SONAR_WARN, "health.no_samples", "waiting: %s", status->text);
    return true;
}

void sonar_health_log(sonar_health *h, const sonar_host *host, int64_t now_ns,
                      const sonar_status *status) {
    if (log_silence(h, host, now_ns, status))
        return;
    if (!strcmp(status->health, "degraded"))
        log_degraded(h, host, now_ns, status);
    else if (h->episode.open && now_ns - h->episode.bad_ns >= well_for_ns)
        close_episode(h, host, status->health, status);
    else if (!h->episode.open && strcmp(status->health, h->seen.health) != 0)
        sonar_log(host, SONAR_INFO, "health", "%s%s%s", status->health, status->text[0] ? ": " : "",
                  status->text);
}

void sonar_health_end(sonar_health *h, const sonar_host *host) {
    if (h->episode.open)
        close_episode(h, host, "stopped", &h->seen);
}
