/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Detections of a window: the detector asks, the beamformers answer. */
#include <math.h>
#include <string.h>

#include "pipeline/internal.h"

/* Lets the detector look between the grid's directions with one of the beamformers. */
struct look {
    sonar_pipeline *pipeline;
    const sonar_work *work;
    struct stage *beamformer;
    const sonar_scan *scan;
    double bin_width_hz;
    bool focused; /* look at the range on which each direction is strongest */
};

/* The grid direction nearest to az_deg; az_deg of a scan ascends. */
static size_t nearest_direction(const sonar_scan *scan, double az_deg) {
    size_t low = 0, high = scan->count - 1;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (scan->az_deg[middle] <= az_deg)
            low = middle;
        else
            high = middle;
    }
    return az_deg - scan->az_deg[low] < scan->az_deg[high] - az_deg ? low : high;
}

/* One range serves all points of a call, so that the detector climbs a single surface. */
static void steer(const struct look *look, size_t n, const double *az_deg, uint64_t *turns) {
    const sonar_pipeline *p = look->pipeline;
    const sonar_config *c = p->config;
    size_t range = c->ranges;
    if (look->focused)
        range = p->strongest_range[nearest_direction(look->scan, az_deg[n / 2])];
    for (size_t i = 0; i < n; i++) {
        double u[3];
        sonar_scan_unit(look->scan, az_deg[i], u);
        if (range < c->ranges)
            sonar_delay_near(c->sensors, p->params->position_m, u, c->range_m[range],
                             c->range_reference, look->scan->axis, p->params->sound_speed_mps,
                             p->tau_s);
        else
            sonar_delay_far(c->sensors, p->params->position_m, u, p->params->sound_speed_mps,
                            p->tau_s);
        for (size_t s = 0; s < c->sensors; s++)
            turns[i * c->sensors + s] = sonar_turns(p->tau_s[s], look->bin_width_hz);
    }
}

static sonar_code power_at(void *ctx, size_t n, const double *az_deg, float *power,
                           sonar_error *err) {
    const struct look *look = ctx;
    sonar_pipeline *p = look->pipeline;
    const struct stage *beamformer = look->beamformer;
    const struct side *side = beamformer->side;
    struct buffers *b = &p->engine.buffers;
    steer(look, n, az_deg, b->host_points.data);
    sonar_buffer turns = side->points, out = side->point_power;
    sonar_code code = side->backend->copy(side->queue, &b->host_points, &turns, err);
    turns.shape[0] = out.shape[0] = n;
    turns.bytes = n * turns.shape[1] * sizeof(uint64_t);
    out.bytes = n * sizeof(float);
    if (!code)
        code =
            beamformer->ops->evaluate(beamformer->self, side->queue, &turns, &out, look->work, err);
    out = side->point_power;
    if (!code)
        code = side->backend->copy(side->queue, &out, &b->host_point_power, err);
    if (!code)
        code = side->backend->record(side->queue, side->done, err);
    if (!code)
        code = side->backend->finish(side->done, err);
    if (!code)
        memcpy(power, b->host_point_power.data, n * sizeof *power);
    return code;
}

/* Wavefront curvature of range r of the ladder in direction t, 1/m. */
static double curvature(const sonar_config *c, size_t r, size_t t) {
    const double sine = sin(c->cbf_scan.az_deg[t] * M_PI / 180);
    return (c->range_reference == SONAR_ABEAM ? sine : 1) / c->range_m[r];
}

/* A near source is blurred in the far field and sharp at its own range. So each direction counts
 * with its strongest range, where that beats the far field by more than the margin. */
static const float *strongest(sonar_pipeline *p, const sonar_result *result) {
    const sonar_config *c = p->config;
    const float *far_power = result->surface[SONAR_CBF_AZIMUTH].data;
    const float *near_power = result->surface[SONAR_CBF_NEARFIELD].data;
    size_t count = c->cbf_scan.count;
    const float margin = (float)pow(10, c->detect_range_margin_db / 10);
    for (size_t t = 0; t < count; t++) {
        p->detect_power[t] = far_power[t];
        p->strongest_range[t] = c->ranges;
        p->inverse_range[t] = 0;
        for (size_t r = 0; r < c->ranges; r++) {
            float power = near_power[r * count + t];
            if (power > margin * far_power[t] && power > p->detect_power[t]) {
                p->detect_power[t] = power;
                p->strongest_range[t] = r;
                p->inverse_range[t] = curvature(c, r, t);
            }
        }
    }
    return p->detect_power;
}

static sonar_code detect_cbf(sonar_pipeline *p, const sonar_work *work, sonar_result *result,
                             size_t *count, sonar_error *err) {
    const sonar_config *c = p->config;
    struct look look = {.pipeline = p,
                        .work = work,
                        .beamformer = &p->engine.cbf,
                        .scan = &c->cbf_scan,
                        .bin_width_hz = c->fs_hz / (double)c->cbf_length,
                        .focused = true};
    const sonar_detect_focus focus = {.far_power = result->surface[SONAR_CBF_AZIMUTH].data,
                                      .inverse_range = p->inverse_range};
    sonar_code code =
        sonar_detect_focused(&p->cbf_detect, SONAR_FROM_CBF, strongest(p, result), &focus,
                             p->detect_scratch, power_at, &look, result->detection, count, err);
    if (!code && c->ranges)
        sonar_detect_range(&p->cbf_detect, result->surface[SONAR_CBF_NEARFIELD].data, c->ranges,
                           c->range_m, result->surface[SONAR_CBF_AZIMUTH].data,
                           c->geometry.aperture_m, c->sound_speed_mps / c->cbf_band.high_hz,
                           c->detect_range_margin_db, result->detection, *count);
    return code;
}

static struct look look_adaptively(sonar_pipeline *p, const sonar_work *work) {
    const sonar_config *c = p->config;
    return (struct look){.pipeline = p,
                         .work = work,
                         .beamformer = &p->engine.mvdr,
                         .scan = &c->mvdr_scan,
                         .bin_width_hz = c->fs_hz / (double)c->mvdr_length};
}

static sonar_code detect_mvdr(sonar_pipeline *p, const sonar_work *work, sonar_result *result,
                              sonar_detection *to, size_t *count, sonar_error *err) {
    struct look look = look_adaptively(p, work);
    return sonar_detect(&p->mvdr_detect, SONAR_FROM_MVDR, result->surface[SONAR_MVDR_AZIMUTH].data,
                        p->detect_scratch, power_at, &look, to, count, err);
}

sonar_code sonar_pipeline_raise(sonar_pipeline *p, const sonar_work *work, sonar_result *result,
                                sonar_error *err) {
    struct look look = look_adaptively(p, work);
    return sonar_detect_raise(&p->mvdr_detect, result->surface[SONAR_MVDR_AZIMUTH].data,
                              p->detect_scratch, power_at, &look, err);
}

sonar_code sonar_pipeline_detect(sonar_pipeline *pipeline, const sonar_work *work,
                                 sonar_result *result, sonar_error *err) {
    size_t cbf = 0, mvdr = 0;
    sonar_code code = detect_cbf(pipeline, work, result, &cbf, err);
    if (!code && pipeline->config->mvdr_enabled)
        code = detect_mvdr(pipeline, work, result, result->detection + cbf, &mvdr, err);
    result->detections = code ? 0 : cbf + mvdr;
    return code;
}
