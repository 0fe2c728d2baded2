/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Runs a case: every stage alone, the chain of a window and a minute of windows, with the nominal
 * work of each. */
#include <math.h>
#include <stdlib.h>

#include "chain.h"
#include "lapack.h"
#include "stages.h"

static void log_line(void *ctx, sonar_level level, const char *where, const char *text) {
    (void)ctx;
    if (level <= SONAR_WARN)
        fprintf(stderr, "sonar-bench: %s: %s\n", where, text);
}

sonar_host bench_host_of(sonar_pool *pool) {
    return (sonar_host){.ctx = pool,
                        .log = log_line,
                        .parallel = sonar_pool_parallel,
                        .workers = sonar_pool_workers(pool)};
}

/* Makes one row of a case's results. */
typedef struct plan {
    const char *stage, *implementation;
    bench_step step;
    double flop, bytes, host_bytes;
    bool wanted;
} plan;

static bench_result result_of(const bench_scene *s, const plan *p) {
    return (bench_result){.of = s->c,
                          .backend = s->site->backend->name,
                          .stage = p->stage,
                          .implementation = p->implementation,
                          .flop = p->flop,
                          .bytes = p->bytes,
                          .host_bytes = s->device ? p->host_bytes : 0,
                          .error_db = NAN,
                          .sweeps = NAN};
}

/* ---- stages alone ---------------------------------------------------------------------------- */

/* Errors of the results. This fills MVDR's block, with which the timing continues. */
static sonar_code look(bench_stages *r, const plan *p, bench_result *result, sonar_error *err) {
    if (p->step == bench_stages_lofar || p->step == bench_stages_several)
        return bench_stages_cbf_error(r, p->step, &result->error_db, err);
    if (p->step == bench_stages_mvdr)
        return bench_stages_mvdr_error(r, &r->mvdr, &result->error_db, err);
    if (p->step == bench_stages_trace)
        return bench_stages_mvdr_error(r, &r->trace, &result->error_db, err);
    return SONAR_OK;
}

/* The sweeps of the last window that was timed, and the work with as many. */
static sonar_code count_sweeps(bench_stages *r, const plan *p, bench_result *result,
                               sonar_error *err) {
    const bool whole = p->step == bench_stages_refill;
    if (!whole && p->step != bench_stages_mvdr && p->step != bench_stages_trace)
        return SONAR_OK;
    const sonar_code code = bench_stages_sweeps(r, &result->sweeps, err);
    if (!code)
        result->flop = whole ? bench_refill_flop(r->scene->c, result->sweeps)
                             : bench_mvdr_flop(r->scene->c, result->sweeps);
    return code;
}

static sonar_code time_stage(bench_stages *r, const plan *p, bench_report *report,
                             sonar_error *err) {
    const bench_scene *s = r->scene;
    bench_result result = result_of(s, p);
    sonar_code code = look(r, p, &result, err);
    if (!code)
        code = bench_measure(r, p->step, s->device ? bench_stages_settle : NULL, &s->site->effort,
                             &result.time, err);
    if (!code)
        code = count_sweeps(r, p, &result, err);
    if (!code)
        bench_keep(report, &result);
    return code;
}

static sonar_code time_stages(const bench_scene *s, const plan *plans, size_t count,
                              bench_report *report, sonar_error *err) {
    bench_stages *r = sonar_alloc(1, sizeof *r);
    if (!r)
        return sonar_fail(err, SONAR_ENOMEM, s->c->name, "no memory");
    sonar_code code = bench_stages_create(s, r, err);
    for (size_t i = 0; i < count && !code; i++)
        if (plans[i].wanted)
            code = time_stage(r, &plans[i], report, err);
    if (!code && r->mvdr.self && !s->device)
        code = bench_run_lapack(r, report, err);
    bench_stages_destroy(r);
    free(r);
    return code;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static sonar_code time_chain(const bench_scene *s, const plan *p, bench_report *report,
                             sonar_error *err) {
    bench_result result = result_of(s, p);
    bench_chain *chain = p->wanted ? sonar_alloc(1, sizeof *chain) : NULL;
    if (!chain)
        return p->wanted ? sonar_fail(err, SONAR_ENOMEM, s->c->name, "no memory") : SONAR_OK;
    sonar_code code = bench_chain_create(s, p->step == bench_chain_run_minute, chain, err);
    if (!code)
        code = bench_measure(chain, p->step, NULL, &s->site->effort, &result.time, err);
    if (!code && chain->specs.mvdr_enabled)
        result.flop += bench_mvdr_flop(
            s->c, bench_mean_sweeps(s->c->mvdr.bins, sonar_engine_mvdr_info(chain->engine)->data));
    if (!code)
        bench_keep(report, &result);
    bench_chain_destroy(chain);
    free(chain);
    return code;
}

static sonar_code (*const on_host[])(const bench_scene *s, bench_report *report,
                                     sonar_error *err) = {
    bench_run_beams, bench_run_normalise, bench_run_sped, bench_run_shape, bench_run_tracks};

static sonar_code run_scene(const bench_scene *s, bench_report *report, sonar_error *err) {
    const bench_case *c = s->c;
    const double n = (double)c->sensors, map = 4.0 * (double)c->angles;
    const double minute = (double)c->windows, samples = n * 4.0 * (double)c->length;
    const bool mvdr = c->mvdr.bins > 0, near = c->ranges > 0;
    const bool beams = !c->mvdr_alone && !c->cbf_alone;
    const double dft_bytes = samples + n * 8.0 * (double)s->specs.dft.bins;
    const double far_bytes = n * 8.0 * (double)c->cbf.bins + map;
    const double near_bytes = near ? n * 8.0 * (double)c->cbf.bins + map * (double)c->ranges : 0;
    const double lofar_bytes = (n * 8.0 + map) * (double)c->lofar.bins + map;
    const double all_bytes = lofar_bytes + map * (double)c->ranges; /* the bins are read once */
    const double mvdr_bytes = mvdr ? n * 8.0 * (double)(c->mvdr.bins * c->snapshots) + map : 0;
    const double dft = bench_dft_flop(c), far = bench_cbf_flop(c, c->cbf.bins, 0);
    const double nearfield = bench_cbf_flop(c, 0, c->cbf.bins);
    const double lofar = bench_cbf_flop(c, c->lofar.bins, 0), all = lofar + nearfield;
    const double few = far * (double)sonar_min_size(c->angles, BENCH_FEW) / (double)c->angles;
    const double times = (double)c->snapshots; /* the surface is written once */
    const double several_bytes =
        n * 8.0 * times * (double)c->lofar.bins + map * (double)(c->lofar.bins + 1);
    const double sent = s->device ? samples / 2 : samples; /* in the sample type of the minute */
    const char *name = s->site->backend->name, *format = s->device ? "s16" : "f32";
    const plan alone[] = {
        {"dft", name, bench_stages_dft, dft, dft_bytes, samples, beams},
        {"dft.device", name, bench_stages_dft_device, dft, dft_bytes, 0, beams && s->device},
        {"cbf.far", name, bench_stages_far, far, far_bytes, 0, beams},
        {"cbf.near", name, bench_stages_near, nearfield, near_bytes, 0, beams && near},
        {"cbf.lofar", name, bench_stages_lofar, lofar, lofar_bytes, 0, beams},
        {"cbf.all", name, bench_stages_all_beams, all, all_bytes, 0, beams},
        {"cbf.looks", name, bench_stages_few, few, far_bytes, 0, beams},
        {"cbf.snapshots", name, bench_stages_several, times * lofar, several_bytes, 0,
         c->cbf_alone},
        {"mvdr", name, bench_stages_mvdr, 0, mvdr_bytes, 0, mvdr},
        {"mvdr.trace", name, bench_stages_trace, 0, mvdr_bytes, 0,
         c->mvdr_alone && c->peers && c->solver != SONAR_MVDR_JACOBI},
        {"mvdr.looks", name, bench_stages_looks, bench_looks_flop(c), mvdr_bytes, 0, c->mvdr_alone},
        {"mvdr.anew", name, bench_stages_refill, 0, mvdr_bytes, 0, c->mvdr_alone},
    };
    const plan chain = {
        "chain", name, bench_chain_run, dft + all, dft_bytes + all_bytes + mvdr_bytes,
        samples, beams};
    const plan minutes = {"minute",
                          format,
                          bench_chain_run_minute,
                          minute * (dft + all),
                          minute * (dft_bytes - samples + sent + all_bytes),
                          minute * sent,
                          beams && c->windows > 0};
    sonar_code code = time_stages(s, alone, sizeof alone / sizeof *alone, report, err);
    for (size_t i = 0; i < sizeof on_host / sizeof *on_host && beams && !code; i++)
        code = on_host[i](s, report, err);
    if (!code)
        code = time_chain(s, &chain, report, err);
    return code ? code : time_chain(s, &minutes, report, err);
}

sonar_code bench_run(const bench_case *c, const bench_site *site, bench_report *report,
                     sonar_error *err) {
    bench_scene scene = {.site = site};
    sonar_code code = bench_case_check(c, err);
    if (!code)
        code = bench_scene_create(c, site, &scene, err);
    if (!code)
        code = run_scene(&scene, report, err);
    bench_scene_destroy(&scene);
    return code;
}
