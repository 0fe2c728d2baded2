/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "notify.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/core.h"

#ifdef SONAR_HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

enum { STEP_WITHIN_US = 300 * 1000000 };

static void notify_manager(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Sends a notification. An error is ignored: the service manager may no longer exist. */
static void notify_manager(const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
#ifdef SONAR_HAVE_SYSTEMD
    sd_notify(0, text);
#endif
}

void sonar_notify_starting(const char *step) {
    notify_manager("STATUS=starting: %s\nEXTEND_TIMEOUT_USEC=%d", step, STEP_WITHIN_US);
}

void sonar_notify_ready(void) {
    notify_manager("READY=1\nSTATUS=running");
}

void sonar_notify_reloading(void) {
    notify_manager("RELOADING=1\nMONOTONIC_USEC=%" PRId64 "\nSTATUS=reading the configuration",
                   sonar_monotonic_ns() / 1000);
}

static uint64_t sum(const uint64_t *count, size_t counts) {
    uint64_t all = 0;
    for (size_t i = 0; i < counts; i++)
        all += count[i];
    return all;
}

void sonar_notify_describe(const sonar_status *s, char *text, size_t bytes) {
    char rate[32] = "no";
    if (isfinite(s->stream.rate_hz))
        snprintf(rate, sizeof rate, "%.1f", s->stream.rate_hz);
    snprintf(text, bytes,
             "%s%s%s; %s samples/s; %" PRIu64 " windows; lost: %" PRIu64 " frames, %" PRIu64
             " windows, %" PRIu64 " results; %s",
             s->health, s->text[0] ? ": " : "", s->text, rate, s->windows_processed,
             sum(s->ingest.frames_dropped, SONAR_FRAME_CAUSES),
             sum(s->ingest.windows_dropped, SONAR_WINDOW_CAUSES) + s->windows_failed,
             s->output.results_dropped, s->backend);
}

void sonar_notify_status(const sonar_status *status) {
    char text[512];
    sonar_notify_describe(status, text, sizeof text);
    notify_manager("STATUS=%s", text);
}

void sonar_notify_stopping(void) {
    notify_manager("STOPPING=1\nSTATUS=processing the waiting windows");
}

void sonar_notify_failed(const sonar_error *err) {
    notify_manager("STOPPING=1\nSTATUS=%s: %s", err->where, err->text);
}

void sonar_notify_watchdog(void) {
#ifdef SONAR_HAVE_SYSTEMD
    if (sd_watchdog_enabled(0, NULL) > 0)
        notify_manager("WATCHDOG=1");
#endif
}
