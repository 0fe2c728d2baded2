/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "session/feeder.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "core/core.h"

enum { WAIT_MS = 100, STUCK_S = 60, NAP_NS = 500000 };

static bool stopped(const sonar_feeder *f) {
    return f->stop && *f->stop;
}

static sonar_code tick(sonar_feeder *f, sonar_error *err) {
    f->ticked = f->done;
    f->ticked_ns = sonar_monotonic_ns();
    return sonar_pipeline_tick(f->pipeline, err);
}

/* While it waits. A pipeline that does not go on any more tells why by its tick. One that masks
 * sensors is ticked by samples alone, unless it is stuck. */
static sonar_code look(sonar_feeder *f, sonar_error *err) {
    const int64_t patience_ns = (f->config->auto_mask ? STUCK_S : 1) * INT64_C(1000000000);
    const sonar_code code = f->look ? f->look(f->ctx, err) : SONAR_OK;
    if (code || sonar_monotonic_ns() - f->ticked_ns < patience_ns)
        return code;
    return tick(f, err);
}

sonar_code sonar_feeder_frame(sonar_feeder *f, const void *header, size_t header_bytes,
                              const void *payload, size_t payload_bytes, sonar_error *err) {
    sonar_code code = SONAR_OK;
    while (!code && !stopped(f) &&
           !sonar_pipeline_feed(f->pipeline, header, header_bytes, payload, payload_bytes, WAIT_MS))
        code = look(f, err);
    return code;
}

/* Until no window is in work. */
static sonar_code await(sonar_feeder *f, sonar_error *err) {
    sonar_code code = SONAR_OK;
    while (!code && !stopped(f) && !sonar_pipeline_idle(f->pipeline)) {
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        code = look(f, err);
    }
    return code;
}

/* A tick in a second of samples. Sensors that array.auto_mask takes out are found by it: it comes
 * when no window is in work, or two runs would differ. */
sonar_code sonar_feeder_advance(sonar_feeder *f, uint64_t samples, sonar_error *err) {
    sonar_code code = f->look ? f->look(f->ctx, err) : SONAR_OK;
    f->done += samples;
    if (code || (double)(f->done - f->ticked) < f->config->fs_hz)
        return code;
    if (f->config->auto_mask)
        code = await(f, err);
    return code ? code : tick(f, err);
}

sonar_code sonar_feeder_finish(sonar_feeder *f, sonar_error *err) {
    sonar_code code = SONAR_OK;
    while (!code && !stopped(f) && !sonar_pipeline_finish(f->pipeline, WAIT_MS))
        code = look(f, err);
    if (!code)
        code = await(f, err);
    return code ? code : tick(f, err);
}

/* ---- for the user ---------------------------------------------------------------------------- */

bool sonar_feeder_tells(sonar_level level, const char *where) {
    const bool health = !strncmp(where, "health.", strlen("health."));
    return level <= SONAR_WARN && (!health || strstr(where, "elements"));
}

static uint64_t sum(const uint64_t *count, int counts) {
    uint64_t all = 0;
    for (int i = 0; i < counts; i++)
        all += count[i];
    return all;
}

void sonar_feeder_losses(const sonar_feeder *f, void (*tell)(void *ctx, const char *text),
                         void *ctx) {
    const sonar_status *status = sonar_pipeline_status(f->pipeline);
    const struct {
        uint64_t count;
        const char *what;
    } losses[] = {
        {sum(status->ingest.frames_dropped, SONAR_FRAME_CAUSES),
         "pieces were refused, because samples in them are not finite or no sound can have made "
         "them (ingest.drop_spikes)"},
        {sum(status->ingest.windows_dropped, SONAR_WINDOW_CAUSES),
         "windows lack more samples than ingest.max_missing_share allows, and were left out: there "
         "are gaps"},
        {status->windows_failed, "windows failed"}};
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        char text[200];
        snprintf(text, sizeof text, "%" PRIu64 " %s", losses[i].count, losses[i].what);
        if (losses[i].count)
            tell(ctx, text);
    }
}
