/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Detections of a window: refines peaks by asking the beamformers for power off the grid. */
#include <math.h>
#include <string.h>

#include "detect/fuse.h"
#include "pipeline/internal.h"

/* What power_at needs to evaluate one of the beamformers between the grid's directions. */
struct beam_request {
    sonar_pipeline *pipeline;
    sonar_engine_stage beamformer;
};

static sonar_look look_at(const sonar_pipeline *p, sonar_engine_stage beamformer, double az_deg,
                          double range_m) {
    const sonar_config *c = p->live->plan->config;
    const bool mvdr = beamformer == SONAR_ENGINE_MVDR;
    const sonar_scan *scan = mvdr ? &c->mvdr_scan : &c->cbf_scan;
    const size_t length = mvdr ? c->specs.mvdr.length : c->specs.cbf.length;
    sonar_look look = {.length_m = range_m, .bin_width_hz = c->fs_hz / (double)length};
    sonar_scan_unit(scan, az_deg, look.u);
    if (isfinite(range_m))
        look.length_m = sonar_point_length(range_m, c->range_reference, look.u, scan->axis);
    return look;
}

static sonar_code power_at(void *ctx, size_t n, const double *az_deg, const double *range_m,
                           float *power, sonar_error *err) {
    const struct beam_request *request = ctx;
    sonar_pipeline *p = request->pipeline;
    sonar_look look[SONAR_DETECT_POINTS];
    _Static_assert((int)SONAR_DETECT_POINTS <= (int)SONAR_ENGINE_POINTS, "one evaluation each");
    for (size_t i = 0; i < n; i++)
        look[i] = look_at(p, request->beamformer, az_deg[i], range_m[i]);
    sonar_code code = SONAR_OK;
    if (p->sharing->ask)
        code = p->sharing->ask(p, request->beamformer, n, look, err);
    return code ? code : sonar_engine_evaluate(p->engine, request->beamformer, n, look, power, err);
}

sonar_code sonar_pipeline_detect_cbf(sonar_pipeline *p, sonar_result *result, sonar_error *err) {
    const sonar_config *c = p->live->plan->config;
    struct beam_request request = {.pipeline = p, .beamformer = SONAR_ENGINE_CBF};
    const sonar_nearfield near = {.power = result->surface[SONAR_CBF_NEARFIELD].data,
                                  .ranges = c->specs.cbf.ranges,
                                  .range_m = c->range_m,
                                  .reference = c->range_reference,
                                  .lambda_m =
                                      p->live->params->sound_speed_mps / c->cbf_band.high_hz,
                                  .margin_db = c->detect_range_margin_db};
    sonar_detect_spec spec = p->live->plan->cbf_detect;
    spec.pattern = sonar_pattern_shares;
    spec.pattern_ctx = p->live->pattern;
    return sonar_detect(&spec, SONAR_FROM_CBF, result->surface[SONAR_CBF_AZIMUTH].data, &near,
                        p->detect_scratch, power_at, &request, result->detection,
                        &result->detections, err);
}

static struct beam_request adaptive_request(sonar_pipeline *p) {
    return (struct beam_request){.pipeline = p, .beamformer = SONAR_ENGINE_MVDR};
}

/* Finds the MVDR's contacts, which are to follow those of the CBF. */
static sonar_code detect_mvdr(sonar_pipeline *p, sonar_result *result, size_t *count,
                              sonar_error *err) {
    struct beam_request request = adaptive_request(p);
    sonar_detection *to = result->detection + result->detections;
    sonar_detect_spec spec = p->live->plan->mvdr_detect;
    spec.tone_reach = result->mvdr_tone_reach;
    spec.spread_m2 = p->live->spread_m2;
    spec.lambda_m = p->live->params->sound_speed_mps / p->live->plan->config->mvdr_band.high_hz;
    spec.hint = result->detection;
    spec.hints = result->detections;
    spec.tops = p->live->plan->config->mvdr_cell_maximum ? &p->tops : NULL;
    return sonar_detect(&spec, SONAR_FROM_MVDR, result->surface[SONAR_MVDR_AZIMUTH].data, NULL,
                        p->detect_scratch, power_at, &request, to, count, err);
}

sonar_code sonar_pipeline_find_tops(sonar_pipeline *p, const sonar_result *result,
                                    sonar_error *err) {
    struct beam_request request = adaptive_request(p);
    return sonar_detect_tops(&p->live->plan->mvdr_detect, result->surface[SONAR_MVDR_AZIMUTH].data,
                             p->detect_scratch, power_at, &request, &p->tops, err);
}

/* Sets the bearings with the heading in the middle of the contact's samples; NaN: unknown. */
static void give_bearings(double heading_deg, const sonar_scan *scan,
                          const sonar_accuracy *accuracy, const sonar_array_error *declared,
                          sonar_detection *d, size_t count) {
    const bool known = isfinite(heading_deg);
    for (size_t i = 0; i < count; i++) {
        sonar_detect_bearing(scan, d[i].az_deg, heading_deg, known, &d[i].bearing_deg,
                             &d[i].mirror_deg);
        sonar_detect_sigma(scan, accuracy, &d[i]);
        sonar_detect_bearing_sigma(scan, accuracy, declared, known, &d[i]);
    }
}

static void give_sides(const sonar_pipeline *p, sonar_detect_source source, const sonar_scan *scan,
                       double middle_sample, double heading_deg, sonar_detection *d, size_t count) {
    const sonar_sides_moment moment = {.at_s = middle_sample / p->config->fs_hz,
                                       .length_s = (double)p->config->specs.window_length /
                                                   p->config->fs_hz,
                                       .heading_deg = heading_deg};
    sonar_sides_resolve(p->sides[source], scan, &moment, d, count);
}

/* ---- tones ----------------------------------------------------------------------------------- */

double sonar_cbf_bin_hz(const sonar_config *c) {
    return c->fs_hz / (double)c->specs.cbf.length;
}

sonar_code sonar_tones_plan(const sonar_config *c, struct plan *plan, sonar_error *err) {
    const sonar_cbf_spec *cbf = &c->specs.cbf;
    if (!c->detect_tones || !c->detect_enabled)
        return SONAR_OK;
    const sonar_tones_spec spec = {.scan = &c->cbf_scan,
                                   .top_hz = c->cbf_band.high_hz,
                                   .first_bin = cbf->first_bin,
                                   .bins = cbf->bins,
                                   .bin_hz = sonar_cbf_bin_hz(c)};
    const sonar_code code = sonar_tones_create(&spec, &plan->tones, err);
    return code == SONAR_EINVAL ? SONAR_OK : code;
}

static void find_tones(const sonar_pipeline *p, sonar_result *result) {
    const float *surface = result->surface[SONAR_CBF_LOFAR].data;
    sonar_tones *tones = p->live->plan->tones;
    if (tones && surface)
        sonar_tones_find(tones, surface, result->detection, result->detections);
}

/* ---- whole ----------------------------------------------------------------------------------- */

sonar_code sonar_pipeline_detect(sonar_pipeline *p, sonar_result *result, sonar_error *err) {
    const sonar_config *c = p->live->plan->config;
    const bool adapts = p->config->specs.mvdr_enabled;
    const size_t cbf = result->detections;
    sonar_detection *adaptive = result->detection + cbf;
    size_t mvdr = 0;
    const sonar_accuracy beams = sonar_accuracy_cbf(p, result),
                         needles = adapts ? sonar_accuracy_mvdr(p, result) : (sonar_accuracy){0};
    const sonar_code code = adapts ? detect_mvdr(p, result, &mvdr, err) : SONAR_OK;
    give_bearings(result->params.heading_deg, &c->cbf_scan, &beams, &c->array_error,
                  result->detection, cbf);
    give_bearings(result->mvdr_heading_deg, &c->mvdr_scan, &needles, &c->array_error, adaptive,
                  mvdr);
    for (int i = 0; i < 2 && result->restarted; i++)
        sonar_sides_forget(p->sides[i]);
    give_sides(p, SONAR_FROM_CBF, &c->cbf_scan,
               (double)result->first_sample + 0.5 * (double)result->window_length,
               result->params.heading_deg, result->detection, cbf);
    if (mvdr)
        give_sides(p, SONAR_FROM_MVDR, &c->mvdr_scan,
                   0.5 * ((double)result->mvdr_first_sample + (double)result->mvdr_end_sample),
                   result->mvdr_heading_deg, adaptive, mvdr);
    sonar_detect_fuse(&c->cbf_scan, result->params.heading_deg, result->detection, cbf, adaptive,
                      mvdr);
    result->detections = code ? 0 : cbf + mvdr;
    find_tones(p, result);
    return code;
}
