/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The delays of all directions for another shape of the array, as a towed array's in a turn: on the
 * processors, whatever the backend is. */
#include <math.h>
#include <stdlib.h>

#include "manifold/manifold.h"
#include "stages.h"

typedef struct rig {
    const bench_scene *scene;
    double *tau_s;
    uint64_t *turns;
} rig;

static sonar_code run(void *ctx, sonar_error *err) {
    const rig *r = ctx;
    const bench_scene *s = r->scene;
    const sonar_scan scan = {.count = s->c->angles, .az_deg = s->az_deg, .u = s->u};
    const sonar_manifold_spec spec = {.sensors = s->c->sensors,
                                      .position_m = s->position_m,
                                      .scan = &scan,
                                      .c_mps = 1500,
                                      .bin_width_hz = s->c->fs_hz / (double)s->c->length};
    (void)err;
    sonar_manifold_fill(&spec, s->site->host, r->tau_s, r->turns);
    return SONAR_OK;
}

sonar_code bench_run_shape(const bench_scene *s, bench_report *report, sonar_error *err) {
    const double entries = (double)s->c->sensors * (double)s->c->angles;
    rig r = {.scene = s,
             .tau_s = sonar_alloc(s->site->host->workers * s->c->sensors, sizeof *r.tau_s),
             .turns = sonar_alloc(s->c->angles * s->c->sensors, sizeof *r.turns)};
    const bench_host_stage of = {"shape", 8 * entries, 8 * entries, run};
    sonar_code code =
        r.tau_s && r.turns ? SONAR_OK : sonar_fail(err, SONAR_ENOMEM, "shape", "no memory");
    if (!code)
        code = bench_time_host(s, &of, &r, report, err);
    free(r.tau_s);
    free(r.turns);
    return code;
}
