/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One beam's time series over a window of samples: on the processor, whatever the backend is. */
#include <math.h>
#include <stdlib.h>

#include "analysis/beam/beam.h"
#include "stages.h"

typedef struct rig {
    const bench_scene *scene;
    sonar_beam *beam;
    double turn_deg; /* of the heading over a window */
    uint64_t next;   /* the next window */
    float *out;
} rig;

static sonar_code run(void *ctx, sonar_error *err) {
    rig *r = ctx;
    const bench_scene *s = r->scene;
    const size_t length = s->c->length;
    const uint64_t first = r->next * length;
    const double heading_deg = r->turn_deg * (double)r->next;
    const sonar_window window = {.first_sample = first,
                                 .lookback = length,
                                 .ring = s->ring,
                                 .ring_column = (size_t)(first % (s->windows * length))};
    const sonar_scan scan = {.cone = false};
    const sonar_beam_look look = {.deg = 71, .is_true = true};
    const sonar_beam_job job = {.window = &window,
                                .params = &s->params,
                                .scan = &scan,
                                .beams = 1,
                                .look = &look,
                                .range_m = INFINITY,
                                .heading_deg = {heading_deg, heading_deg + r->turn_deg}};
    sonar_beam_facts facts;
    (void)err;
    sonar_beam_run(r->beam, &job, length, r->out, &facts);
    r->next++;
    return SONAR_OK;
}

static size_t reach_of(const bench_scene *s) {
    double most = 0;
    for (size_t k = 0; k < s->c->sensors; k++) {
        const double *p = s->position_m + 3 * k;
        most = fmax(most, sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]));
    }
    return (size_t)ceil(most / s->params.sound_speed_mps * s->c->fs_hz);
}

static sonar_code time_one(const bench_scene *s, const char *stage, double turn_deg,
                           bench_report *report, sonar_error *err) {
    const double n = (double)s->c->length, sensors = (double)s->c->sensors;
    const sonar_beam_spec spec = {.sensors = s->c->sensors,
                                  .beams = 1,
                                  .hop = s->c->length,
                                  .reach = reach_of(s),
                                  .fs_hz = s->c->fs_hz};
    rig r = {.scene = s, .turn_deg = turn_deg, .out = sonar_alloc(s->c->length, sizeof *r.out)};
    const bench_host_stage of = {stage, 2 * n * SONAR_BEAM_POWERS * (sensors + SONAR_BEAM_TAPS),
                                 4 * n * (sensors + 1), run};
    sonar_code code = r.out ? sonar_beam_create(&spec, s->site->host, &r.beam, err)
                            : sonar_fail(err, SONAR_ENOMEM, s->c->name, "no memory");
    if (!code)
        code = bench_time_host(s, &of, &r, report, err);
    sonar_beam_destroy(r.beam);
    free(r.out);
    return code;
}

sonar_code bench_run_beams(const bench_scene *s, bench_report *report, sonar_error *err) {
    const sonar_code code = time_one(s, "beam", 0, report, err);
    return code ? code : time_one(s, "beam.turning", s->c->length / s->c->fs_hz, report, err);
}
