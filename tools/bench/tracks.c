/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One window's contacts into tracks, and its spectrum into contacts below the threshold: on the
 * processor, whatever the backend is. */
#include <math.h>

#include "analysis/faint/faint.h"
#include "analysis/tracks/tracks.h"
#include "core/random.h"
#include "stages.h"

enum { CONTACTS = 16 };

typedef struct rig {
    sonar_tracks *tracks;
    uint64_t seed;
    double az_deg[2];
    sonar_detection contact[CONTACTS];
    sonar_track track[SONAR_TRACKS_MOST];
} rig;

/* The contacts of a line with beams of 3 degrees, two by two a beam width apart, so that their
 * tracks compete. */
static sonar_code run(void *ctx, sonar_error *err) {
    rig *r = ctx;
    (void)err;
    const sonar_scan scan = {.count = 2, .az_deg = r->az_deg, .cone = true, .beam_width_deg = 3};
    const double beam = 3 * M_PI / 180;
    for (size_t i = 0; i < CONTACTS; i++) {
        const double u = 0.8 - 0.2 * (double)(i / 2) + beam * (double)(i % 2) +
                         0.03 * beam * sonar_random_normal(&r->seed);
        r->contact[i] = (sonar_detection){.source = SONAR_FROM_CBF,
                                          .az_deg = acos(u) * 180 / M_PI,
                                          .power = 10,
                                          .snr_db = 10,
                                          .sigma = 0.03 * beam,
                                          .contact = i,
                                          .rests_on = 1u << SONAR_FROM_CBF};
    }
    sonar_tracks_window w = {.since_s = 1, .detection = r->contact, .detections = CONTACTS};
    w.of[SONAR_FROM_CBF] = (sonar_tracks_look){.scan = &scan, .fresh = 1};
    sonar_tracks_run(r->tracks, &w, r->track);
    return SONAR_OK;
}

/* ---- contacts below the threshold ------------------------------------------------------------ */

enum { DIRECTIONS = 360 };

typedef struct search {
    sonar_faint *faint;
    uint64_t seed;
    double az_deg[DIRECTIONS];
    float ratio[DIRECTIONS];
    sonar_faint_contact contact[SONAR_FAINT_MOST];
} search;

/* A circle with beams of 3 degrees, in noise. */
static sonar_code run_search(void *ctx, sonar_error *err) {
    search *r = ctx;
    (void)err;
    for (size_t i = 0; i < DIRECTIONS; i++)
        r->ratio[i] = (float)(1 + 0.1 * sonar_random_normal(&r->seed));
    const sonar_faint_window w = {
        .since_s = 1, .fresh = 1, .averages = 100, .ratio = r->ratio, .of_deg = NULL};
    sonar_faint_run(r->faint, &w);
    sonar_faint_find(r->faint, 0.1, r->contact);
    return SONAR_OK;
}

static sonar_code time_search(const bench_scene *s, bench_report *report, sonar_error *err) {
    static search r;
    r = (search){.seed = 1};
    for (size_t i = 0; i < DIRECTIONS; i++)
        r.az_deg[i] = 360.0 * (double)i / DIRECTIONS;
    const sonar_scan scan = {
        .count = DIRECTIONS, .az_deg = r.az_deg, .wraps = true, .beam_width_deg = 3};
    const sonar_faint_spec spec = {&scan, 3};
    const bench_host_stage of = {"faint", 100.0 * DIRECTIONS, sizeof r.ratio, run_search};
    sonar_code code = sonar_faint_create(&spec, &r.faint, err);
    if (!code)
        code = bench_time_host(s, &of, &r, report, err);
    sonar_faint_destroy(r.faint);
    return code;
}

sonar_code bench_run_tracks(const bench_scene *s, bench_report *report, sonar_error *err) {
    static rig r;
    r = (rig){.tracks = sonar_tracks_create(), .seed = 1, .az_deg = {0, 180}};
    const bench_host_stage of = {"tracks", 1000.0 * CONTACTS, sizeof r.contact, run};
    sonar_code code = r.tracks ? SONAR_OK : sonar_fail(err, SONAR_ENOMEM, "tracks", "no memory");
    for (int i = 0; i < 60 && !code; i++) /* until all are confirmed */
        code = run(&r, err);
    if (!code)
        code = bench_time_host(s, &of, &r, report, err);
    sonar_tracks_destroy(r.tracks);
    return code ? code : time_search(s, report, err);
}
