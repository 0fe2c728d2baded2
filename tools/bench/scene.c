/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scene.h"

#include <math.h>
#include <stdlib.h>

#include "manifold/manifold.h"

static const double c_mps = 1500;

enum { WINDOWS_MOST = 16 };
static const size_t rotated_bytes = (size_t)192 << 20;

/* ---- samples --------------------------------------------------------------------------------- */

typedef struct recording {
    const bench_scene *scene;
    size_t window;
} recording;

/* One channel of one window: white noise, and a tone 20 dB above it in the middle of the CBF band
 * from 60 degrees. */
static void record_channel(void *arg, size_t k, size_t worker) {
    (void)worker;
    const recording *all = arg;
    const bench_scene *s = all->scene;
    const size_t n = s->c->length, at = (k * s->windows + all->window) * n;
    const double bin = (double)s->c->cbf.first + (double)s->c->cbf.bins / 2;
    const double tone_hz = bin * s->c->fs_hz / (double)n;
    const double start = tone_hz * (s->position_m[3 * k] * 0.5 / c_mps + (double)all->window * 0.1);
    const double step = 2 * M_PI * bin / (double)n, c = cos(step), sine = sin(step);
    double x = 14 * cos(2 * M_PI * fmod(start, 1)), y = 14 * sin(2 * M_PI * fmod(start, 1));
    uint64_t state = sonar_random_mix(all->window * s->c->sensors + k);
    float *row = (float *)s->ring.data + at;
    for (size_t i = 0; i < n; i++) {
        row[i] = bench_noise(&state) + (float)x;
        const double turned = x * c - y * sine;
        y = x * sine + y * c;
        x = turned;
    }
    if (!s->ring_s16.data)
        return;
    int16_t *counts = (int16_t *)s->ring_s16.data + at;
    for (size_t i = 0; i < n; i++)
        counts[i] = (int16_t)lrintf(row[i] * 1000);
}

static sonar_code make_ring(bench_scene *s, sonar_dtype dtype, sonar_buffer *ring,
                            sonar_error *err) {
    const sonar_backend *b = s->site->backend;
    const size_t shape[] = {s->c->sensors, s->windows * s->c->length};
    return b->buffer_create(b, bench_scene_host_space(s), dtype, 2, shape, ring, err);
}

static sonar_code make_samples(bench_scene *s, sonar_error *err) {
    const sonar_host *host = s->site->host;
    if (s->c->mvdr_alone)
        return SONAR_OK;
    s->windows = bench_scene_sets(s->c->sensors * s->c->length * sizeof(float), WINDOWS_MOST);
    if (s->c->mvdr
            .bins) /* a block of repeated windows has low rank, which needs few Jacobi sweeps */
        s->windows = sonar_max_size(s->windows, s->c->snapshots);
    sonar_code code = make_ring(s, SONAR_F32, &s->ring, err);
    if (!code && s->device && s->c->windows)
        code = make_ring(s, SONAR_S16, &s->ring_s16, err);
    for (size_t w = 0; w < s->windows && !code; w++)
        host->parallel(host->ctx, s->c->sensors, record_channel, &(recording){s, w});
    return code;
}

/* ---- snapshots ------------------------------------------------------------------------------- */

/* A snapshot of noise and one source 20 dB above it, in every bin. */
static void make_snapshot(void *arg, size_t index, size_t worker) {
    (void)worker;
    const bench_scene *s = arg;
    const bench_case *c = s->c;
    sonar_c32 *to = s->snapshot + index * c->mvdr.bins * c->sensors;
    uint64_t state = sonar_random_mix(index + 1000003);
    for (size_t b = 0; b < c->mvdr.bins; b++) {
        const double bin = (double)(c->mvdr.first + b);
        const double phase = 2 * M_PI * sonar_random_uniform(&state);
        const double per_m = 2 * M_PI * bin * c->fs_hz / (double)c->length * 0.5 / c_mps;
        const double step = per_m * (s->position_m[3] - s->position_m[0]);
        const double turn_re = cos(step), turn_im = sin(step);
        double x = 10 * cos(phase), y = 10 * sin(phase);
        for (size_t k = 0; k < c->sensors; k++) {
            to[b * c->sensors + k].re = bench_noise(&state) + (float)x;
            to[b * c->sensors + k].im = bench_noise(&state) + (float)y;
            const double turned = x * turn_re - y * turn_im;
            y = x * turn_im + y * turn_re;
            x = turned;
        }
    }
}

static sonar_code make_snapshots(bench_scene *s, sonar_error *err) {
    const sonar_host *host = s->site->host;
    const bench_case *c = s->c;
    if (!c->mvdr.bins)
        return SONAR_OK;
    s->snapshot = sonar_alloc((c->snapshots + 1) * c->mvdr.bins, c->sensors * sizeof *s->snapshot);
    if (!s->snapshot)
        return sonar_fail(err, SONAR_ENOMEM, c->name, "no memory for the snapshots");
    host->parallel(host->ctx, c->snapshots + 1, make_snapshot, s);
    return SONAR_OK;
}

/* ---- geometry -------------------------------------------------------------------------------- */

static bool allocate(bench_scene *s) {
    const size_t n = s->c->sensors;
    s->position_m = sonar_alloc(3 * n, sizeof *s->position_m);
    s->az_deg = sonar_alloc(s->c->angles, sizeof *s->az_deg);
    s->u = sonar_alloc(3 * s->c->angles, sizeof *s->u);
    s->zero = sonar_alloc(n, sizeof *s->zero);
    s->one = sonar_alloc(n, sizeof *s->one);
    s->used = sonar_alloc(n, sizeof *s->used);
    s->channel = sonar_alloc(n, sizeof *s->channel);
    return s->position_m && s->az_deg && s->u && s->zero && s->one && s->used && s->channel;
}

/* Sensors half a wavelength apart at the top of the CBF band, on a line or in rows of a square;
 * directions from 0 to 180 degrees. */
static void lay_out(bench_scene *s) {
    const bench_case *c = s->c;
    const double top_hz =
        (double)sonar_max_size(c->cbf.first + c->cbf.bins - 1, 1) * c->fs_hz / (double)c->length;
    const double spacing_m = c_mps / (2 * top_hz);
    const size_t row = c->cbf_alone ? (size_t)ceil(sqrt((double)c->sensors)) : c->sensors;
    for (size_t k = 0; k < c->sensors; k++) {
        s->position_m[3 * k] = ((double)(k % row) - 0.5 * (double)(row - 1)) * spacing_m;
        s->position_m[3 * k + 1] = (double)(k / row) * spacing_m;
        s->channel[k] = (uint32_t)k;
        s->used[k] = 1;
        s->one[k] = 1;
    }
    for (size_t t = 0; t < c->angles; t++) {
        s->az_deg[t] = 180 * ((double)t + 0.5) / (double)c->angles;
        s->u[3 * t] = cos(s->az_deg[t] * M_PI / 180);
        s->u[3 * t + 1] = sin(s->az_deg[t] * M_PI / 180);
    }
}

static sonar_code make_turns(bench_scene *s, sonar_error *err) {
    const bench_case *c = s->c;
    const sonar_scan scan = {.count = c->angles,
                             .az_deg = s->az_deg,
                             .u = s->u,
                             .cone = true,
                             .axis = {1, 0, 0},
                             .perp = {0, 1, 0}};
    sonar_manifold_spec spec = {.sensors = c->sensors,
                                .position_m = s->position_m,
                                .scan = &scan,
                                .c_mps = c_mps,
                                .bin_width_hz = c->fs_hz / (double)c->length};
    sonar_code code = sonar_manifold_make(&spec, &s->far_turns, err);
    if (code || !c->ranges)
        return code;
    double *range_m = sonar_alloc(c->ranges, sizeof *range_m);
    if (!range_m)
        return sonar_fail(err, SONAR_ENOMEM, c->name, "no memory for %zu ranges", c->ranges);
    for (size_t i = 0; i < c->ranges; i++)
        range_m[i] = 50 * exp2((double)i * 6 / (double)sonar_max_size(c->ranges - 1, 1));
    spec.ranges = c->ranges;
    spec.range_m = range_m;
    code = sonar_manifold_make(&spec, &s->near_turns, err);
    free(range_m);
    return code;
}

static sonar_params params_of(const bench_scene *s) {
    const bench_case *c = s->c;
    const double width_hz = c->fs_hz / (double)c->length;
    const sonar_manifold far = {1, c->angles, c->sensors, width_hz, s->far_turns, 0};
    return (sonar_params){
        .version = 1,
        .sensors = c->sensors,
        .sensors_used = c->sensors,
        .sound_speed_mps = c_mps,
        .position_m = s->position_m,
        .channel = s->channel,
        .used = s->used,
        .scale = s->one,
        .phase_turns = s->zero,
        .delay_s = s->zero,
        .shading = s->one,
        .shading_sum = (double)c->sensors,
        .far_cbf = far,
        .near_cbf = {c->ranges, c->angles, c->sensors, width_hz, s->near_turns, 0},
        .far_mvdr = far,
    };
}

/* ---- specifications -------------------------------------------------------------------------- */

static sonar_specs specs_of(const bench_case *c) {
    const bench_band kept = bench_kept(c);
    return (sonar_specs){
        .window_length = c->length,
        .hop = c->length,
        .cbf_hop = c->length,
        .mvdr_enabled = c->mvdr.bins > 0,
        .mvdr_hop = c->length,
        .dft = {.channels = c->sensors,
                .sensors = c->sensors,
                .length = c->length,
                .fs_hz = c->fs_hz,
                .first_bin = kept.first,
                .bins = kept.bins,
                .remove_mean = true},
        .cbf = {.sensors = c->sensors,
                .directions = c->angles,
                .ranges = c->ranges,
                .fs_hz = c->fs_hz,
                .length = c->length,
                .first_bin = c->lofar.first,
                .bins = c->lofar.bins,
                .cbf_first = c->cbf.first,
                .cbf_bins = c->cbf.bins,
                .max_snapshots = c->cbf_alone ? c->snapshots : 1},
        .mvdr = {.sensors = c->sensors,
                 .directions = c->angles,
                 .fs_hz = c->fs_hz,
                 .length = c->length,
                 .first_bin = c->mvdr.first,
                 .bins = c->mvdr.bins,
                 .solver = c->solver,
                 .max_new = 1,
                 .snapshots = c->snapshots,
                 .loading = c->loading,
                 .eps = c->eps > 0 ? c->eps : 1,
                 .tolerance = 1e-9,
                 .max_sweeps = 30},
    };
}

uint32_t bench_scene_beams(const bench_scene *s) {
    return SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_LOFAR) |
           (s->c->ranges ? SONAR_WANT(SONAR_CBF_NEARFIELD) : 0);
}

/* ---- the whole ------------------------------------------------------------------------------- */

size_t bench_scene_sets(size_t bytes, size_t most) {
    const size_t wanted = (rotated_bytes + bytes - 1) / bytes;
    return sonar_min_size(sonar_max_size(wanted, 2), most);
}

sonar_space bench_scene_host_space(const bench_scene *s) {
    return s->device ? SONAR_PINNED : SONAR_HOST;
}

sonar_code bench_scene_lay(const bench_case *c, const bench_site *site, bench_scene *s,
                           sonar_error *err) {
    *s = (bench_scene){.c = c,
                       .site = site,
                       .device = site->backend->native_space == SONAR_DEVICE,
                       .specs = specs_of(c)};
    if (!allocate(s))
        return sonar_fail(err, SONAR_ENOMEM, c->name, "no memory for %zu sensors", c->sensors);
    lay_out(s);
    sonar_code code = make_turns(s, err);
    s->params = params_of(s);
    return code;
}

sonar_code bench_scene_create(const bench_case *c, const bench_site *site, bench_scene *s,
                              sonar_error *err) {
    sonar_code code = bench_scene_lay(c, site, s, err);
    if (!code)
        code = make_samples(s, err);
    return code ? code : make_snapshots(s, err);
}

void bench_scene_destroy(bench_scene *s) {
    void *const owned[] = {s->snapshot, s->position_m, s->az_deg,  s->u,         s->zero,
                           s->one,      s->used,       s->channel, s->far_turns, s->near_turns};
    sonar_buffer *const rings[] = {&s->ring, &s->ring_s16};
    for (size_t i = 0; i < sizeof rings / sizeof *rings; i++)
        if (rings[i]->data)
            s->site->backend->buffer_destroy(rings[i]);
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
}
