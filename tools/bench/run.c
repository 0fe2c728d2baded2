/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Builds a synthetic line array and its data, and times the stages on them. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cbf/cbf.h"
#include "dft/dft.h"
#include "manifold/manifold.h"
#include "mvdr_jacobi/mvdr_jacobi.h"

static const double c_mps = 1500;

enum { WINDOWS_MOST = 64, CHECKS = 200, CAPON_SENSORS_MOST = 256 };

/* Everything one case needs, owned. Windows overlap by seven eighths in one long recording. */
typedef struct rig {
    const bench_case *c;
    const sonar_host *host;
    bench_band kept;
    size_t windows, next_window, recorded;
    float *samples; /* [channel][recorded] */
    double *position_m, *phase_turns, *delay_s, *az_deg, *u;
    uint32_t *channel;
    uint8_t *used;
    float *scale, *shading;
    uint64_t *far_turns, *near_turns;
    sonar_params params;
    sonar_c32 *bins; /* [bin][sensor] */
    float *azimuth, *nearfield, *lofar, *mvdr_azimuth, *mvdr_spectrum, *mvdr_info;
    sonar_c32 *block; /* [snapshot][sensor] of the middle MVDR bin, as fill_block left it */
    void *dft, *cbf, *mvdr;
} rig;

/* ---- data ------------------------------------------------------------------------------------ */

/* xorshift64* (Vigna 2016): the same data everywhere. */
static double uniform(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return ((double)(*state * 0x2545f4914f6cdd1du >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *state) {
    const double radius = sqrt(-2 * log(uniform(state)));
    return radius * cos(2 * M_PI * uniform(state));
}

/* White noise, and a tone 20 dB above it in the middle of the CBF band from 60 degrees. */
static void record(rig *r) {
    uint64_t state = 88172645463325252u;
    const double bin = (double)r->c->cbf.first + (double)r->c->cbf.bins / 2;
    const double tone_hz = bin * r->c->fs_hz / (double)r->c->length;
    for (size_t k = 0; k < r->c->sensors; k++) {
        const double tau_s = r->position_m[3 * k] * 0.5 / c_mps;
        float *row = r->samples + k * r->recorded;
        for (size_t i = 0; i < r->recorded; i++) {
            const double t = (double)i / r->c->fs_hz + tau_s;
            row[i] = (float)(normal(&state) + 14 * cos(2 * M_PI * fmod(tone_hz * t, 1)));
        }
    }
}

/* ---- geometry -------------------------------------------------------------------------------- */

/* Half a wavelength apart at the top of the CBF band, looked at from 0 to 180 degrees. */
static void place(rig *r) {
    const bench_case *c = r->c;
    const double top_hz =
        (double)sonar_max_size(c->cbf.first + c->cbf.bins - 1, 1) * c->fs_hz / (double)c->length;
    for (size_t k = 0; k < c->sensors; k++) {
        r->position_m[3 * k] = ((double)k - 0.5 * (double)(c->sensors - 1)) * c_mps / (2 * top_hz);
        r->channel[k] = (uint32_t)k;
        r->used[k] = 1;
        r->scale[k] = r->shading[k] = 1;
    }
    for (size_t t = 0; t < c->angles; t++) {
        r->az_deg[t] = 180 * ((double)t + 0.5) / (double)c->angles;
        r->u[3 * t] = cos(r->az_deg[t] * M_PI / 180);
        r->u[3 * t + 1] = sin(r->az_deg[t] * M_PI / 180);
    }
}

static sonar_code make_tables(rig *r, sonar_error *err) {
    const bench_case *c = r->c;
    const sonar_scan scan = {.count = c->angles,
                             .az_deg = r->az_deg,
                             .u = r->u,
                             .cone = true,
                             .axis = {1, 0, 0},
                             .perp = {0, 1, 0}};
    const double width_hz = c->fs_hz / (double)c->length;
    double *range_m = sonar_alloc(sonar_max_size(c->ranges, 1), sizeof *range_m);
    if (!range_m)
        return sonar_fail(err, SONAR_ENOMEM, c->name, "no memory for %zu ranges", c->ranges);
    for (size_t i = 0; i < c->ranges; i++)
        range_m[i] = 50 * exp2((double)i * 6 / (double)sonar_max_size(c->ranges - 1, 1));
    sonar_code code = sonar_manifold_make(c->sensors, r->position_m, &scan, 0, NULL, SONAR_RADIAL,
                                          c_mps, width_hz, &r->far_turns, err);
    if (code == SONAR_OK && c->ranges > 0)
        code = sonar_manifold_make(c->sensors, r->position_m, &scan, c->ranges, range_m,
                                   SONAR_RADIAL, c_mps, width_hz, &r->near_turns, err);
    free(range_m);
    const sonar_manifold far = {1, c->angles, c->sensors, width_hz, r->far_turns};
    r->params = (sonar_params){.version = 1,
                               .sensors = c->sensors,
                               .sensors_used = c->sensors,
                               .sound_speed_mps = c_mps,
                               .position_m = r->position_m,
                               .channel = r->channel,
                               .used = r->used,
                               .scale = r->scale,
                               .phase_turns = r->phase_turns,
                               .delay_s = r->delay_s,
                               .shading = r->shading,
                               .shading_sum = (double)c->sensors,
                               .far_cbf = far,
                               .far_mvdr = far};
    r->params.near_cbf =
        (sonar_manifold){c->ranges, c->angles, c->sensors, width_hz, r->near_turns};
    return code;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static bool allocate(rig *r) {
    const bench_case *c = r->c;
    const size_t n = c->sensors, bins = sonar_max_size(c->mvdr.bins, 1);
    /* Enough different windows that the MVDR's covariance has a realistic rank. */
    r->windows = c->mvdr.bins ? sonar_min_size(c->snapshots, WINDOWS_MOST) : 8;
    r->recorded = c->length + (r->windows - 1) * sonar_max_size(c->length / 8, 1);
    r->samples = sonar_alloc(n * r->recorded, sizeof *r->samples);
    r->position_m = sonar_alloc(3 * n, sizeof *r->position_m);
    r->phase_turns = sonar_alloc(n, sizeof *r->phase_turns);
    r->delay_s = sonar_alloc(n, sizeof *r->delay_s);
    r->az_deg = sonar_alloc(c->angles, sizeof *r->az_deg);
    r->u = sonar_alloc(3 * c->angles, sizeof *r->u);
    r->channel = sonar_alloc(n, sizeof *r->channel);
    r->used = sonar_alloc(n, sizeof *r->used);
    r->scale = sonar_alloc(n, sizeof *r->scale);
    r->shading = sonar_alloc(n, sizeof *r->shading);
    r->bins = sonar_alloc(r->kept.bins * n, sizeof *r->bins);
    r->azimuth = sonar_alloc(c->angles, sizeof *r->azimuth);
    r->nearfield = sonar_alloc(sonar_max_size(c->ranges, 1) * c->angles, sizeof *r->nearfield);
    r->lofar = sonar_alloc(c->lofar.bins * c->angles, sizeof *r->lofar);
    r->mvdr_azimuth = sonar_alloc(c->angles, sizeof *r->mvdr_azimuth);
    r->mvdr_spectrum = sonar_alloc(bins * c->angles, sizeof *r->mvdr_spectrum);
    r->block = sonar_alloc(sonar_max_size(c->snapshots, 1) * n, sizeof *r->block);
    r->mvdr_info = sonar_alloc(bins * SONAR_MVDR_INFO_FIELDS, sizeof *r->mvdr_info);
    return r->samples && r->position_m && r->phase_turns && r->delay_s && r->az_deg && r->u &&
           r->channel && r->used && r->scale && r->shading && r->bins && r->azimuth &&
           r->nearfield && r->lofar && r->mvdr_azimuth && r->mvdr_info && r->mvdr_spectrum &&
           r->block;
}

static sonar_code create_stages(rig *r, sonar_error *err) {
    const bench_case *c = r->c;
    const sonar_dft_spec dft = {.channels = c->sensors,
                                .sensors = c->sensors,
                                .length = c->length,
                                .fs_hz = c->fs_hz,
                                .first_bin = r->kept.first,
                                .bins = r->kept.bins,
                                .remove_mean = true};
    const sonar_cbf_spec cbf = {.sensors = c->sensors,
                                .directions = c->angles,
                                .ranges = c->ranges,
                                .fs_hz = c->fs_hz,
                                .length = c->length,
                                .first_bin = c->lofar.first,
                                .bins = c->lofar.bins,
                                .cbf_first = c->cbf.first,
                                .cbf_bins = c->cbf.bins};
    const sonar_mvdr_spec mvdr = {.sensors = c->sensors,
                                  .directions = c->angles,
                                  .fs_hz = c->fs_hz,
                                  .length = c->length,
                                  .first_bin = c->mvdr.first,
                                  .bins = c->mvdr.bins,
                                  .max_new = 1,
                                  .snapshots = c->snapshots,
                                  .eps = 1,
                                  .tolerance = 3e-7,
                                  .max_sweeps = 30};
    sonar_code code = sonar_dft_cpu.create(&dft, r->host, &r->dft, err);
    if (code == SONAR_OK)
        code = sonar_cbf_cpu.create(&cbf, r->host, &r->cbf, err);
    if (code == SONAR_OK && c->mvdr.bins > 0)
        code = sonar_mvdr_jacobi_cpu.create(&mvdr, r->host, &r->mvdr, err);
    return code;
}

static void close_rig(rig *r) {
    sonar_dft_cpu.destroy(r->dft);
    sonar_cbf_cpu.destroy(r->cbf);
    sonar_mvdr_jacobi_cpu.destroy(r->mvdr);
    void *owned[] = {r->samples,   r->position_m, r->phase_turns, r->delay_s,       r->az_deg,
                     r->u,         r->channel,    r->used,        r->scale,         r->shading,
                     r->bins,      r->azimuth,    r->nearfield,   r->lofar,         r->mvdr_azimuth,
                     r->mvdr_info, r->far_turns,  r->near_turns,  r->mvdr_spectrum, r->block};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
}

static sonar_code open_rig(rig *r, sonar_error *err) {
    r->kept = bench_kept(r->c);
    if (!allocate(r))
        return sonar_fail(err, SONAR_ENOMEM, r->c->name, "no memory for %zu sensors",
                          r->c->sensors);
    place(r);
    record(r);
    const sonar_code code = make_tables(r, err);
    return code == SONAR_OK ? create_stages(r, err) : code;
}

/* ---- what is timed --------------------------------------------------------------------------- */

static sonar_work work_of(const rig *r, uint32_t outputs) {
    return (sonar_work){.window = r->next_window, .params = &r->params, .outputs = outputs};
}

/* Transforms the next of the windows. */
static sonar_code run_dft(rig *r, sonar_error *err) {
    const size_t shift = sonar_max_size(r->c->length / 8, 1);
    float *start = r->samples + (r->next_window++ % r->windows) * shift;
    sonar_buffer in[SONAR_DFT_INPUTS];
    in[SONAR_DFT_HEAD] =
        sonar_buffer_view(start, SONAR_F32, 2, (size_t[]){r->c->sensors, r->c->length});
    in[SONAR_DFT_HEAD].stride[0] = (ptrdiff_t)r->recorded;
    in[SONAR_DFT_TAIL] = sonar_buffer_view(NULL, SONAR_F32, 2, (size_t[]){r->c->sensors, 0});
    sonar_buffer out =
        sonar_buffer_view(r->bins, SONAR_C32, 2, (size_t[]){r->kept.bins, r->c->sensors});
    const sonar_work work = work_of(r, 0);
    return sonar_dft_cpu.execute(r->dft, NULL, in, &out, &work, err);
}

static sonar_c32 *bin_row(const rig *r, size_t bin) {
    return r->bins + (bin - r->kept.first) * r->c->sensors;
}

static sonar_code run_cbf(rig *r, uint32_t outputs, sonar_error *err) {
    const bench_case *c = r->c;
    const sonar_buffer in = sonar_buffer_view(bin_row(r, c->lofar.first), SONAR_C32, 2,
                                              (size_t[]){c->lofar.bins, c->sensors});
    sonar_buffer out[SONAR_CBF_OUTPUTS];
    out[SONAR_CBF_AZIMUTH] = sonar_buffer_view(r->azimuth, SONAR_F32, 1, &c->angles);
    out[SONAR_CBF_NEARFIELD] =
        sonar_buffer_view(r->nearfield, SONAR_F32, 2, (size_t[]){c->ranges, c->angles});
    out[SONAR_CBF_LOFAR] =
        sonar_buffer_view(r->lofar, SONAR_F32, 2, (size_t[]){c->lofar.bins, c->angles});
    const sonar_work work = work_of(r, outputs);
    return sonar_cbf_cpu.execute(r->cbf, NULL, &in, out, &work, err);
}

static sonar_code run_far(rig *r, sonar_error *err) {
    return run_cbf(r, SONAR_WANT(SONAR_CBF_AZIMUTH), err);
}

static sonar_code run_near(rig *r, sonar_error *err) {
    return run_cbf(r, SONAR_WANT(SONAR_CBF_NEARFIELD), err);
}

static sonar_code run_lofar(rig *r, sonar_error *err) {
    return run_cbf(r, SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_LOFAR), err);
}

static sonar_code run_mvdr_for(rig *r, uint32_t outputs, sonar_error *err) {
    const bench_case *c = r->c;
    const sonar_buffer in = sonar_buffer_view(bin_row(r, c->mvdr.first), SONAR_C32, 3,
                                              (size_t[]){1, c->mvdr.bins, c->sensors});
    sonar_buffer out[SONAR_MVDR_OUTPUTS];
    out[SONAR_MVDR_OUT_AZIMUTH] = sonar_buffer_view(r->mvdr_azimuth, SONAR_F32, 1, &c->angles);
    out[SONAR_MVDR_OUT_SPECTRUM] =
        sonar_buffer_view(r->mvdr_spectrum, SONAR_F32, 2, (size_t[]){c->mvdr.bins, c->angles});
    out[SONAR_MVDR_OUT_INFO] = sonar_buffer_view(r->mvdr_info, SONAR_F32, 2,
                                                 (size_t[]){c->mvdr.bins, SONAR_MVDR_INFO_FIELDS});
    const sonar_work work = work_of(r, outputs);
    return sonar_mvdr_jacobi_cpu.execute(r->mvdr, NULL, &in, out, &work, err);
}

static sonar_code run_mvdr(rig *r, sonar_error *err) {
    return run_mvdr_for(r, SONAR_WANT(SONAR_MVDR_AZIMUTH), err);
}

/* A whole block of new snapshots, those of the middle bin kept for the check. */
static sonar_code fill_block(rig *r, sonar_error *err) {
    const size_t middle = r->c->mvdr.first + r->c->mvdr.bins / 2, n = r->c->sensors;
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < r->c->snapshots && code == SONAR_OK; i++) {
        code = run_dft(r, err);
        memcpy(r->block + i * n, bin_row(r, middle), n * sizeof *r->block);
        if (code == SONAR_OK)
            code = run_mvdr_for(r, SONAR_WANT(SONAR_MVDR_AZIMUTH) | SONAR_WANT(SONAR_MVDR_SPECTRUM),
                                err);
    }
    return code;
}

/* What a running daemon computes each window when somebody watches everything. */
static sonar_code run_chain(rig *r, sonar_error *err) {
    sonar_code code = run_dft(r, err);
    if (code == SONAR_OK)
        code = run_lofar(r, err);
    if (code == SONAR_OK && r->c->ranges > 0)
        code = run_near(r, err);
    if (code == SONAR_OK && r->c->mvdr.bins > 0)
        code = run_mvdr(r, err);
    return code;
}

/* ---- timing ---------------------------------------------------------------------------------- */

typedef sonar_code (*step)(rig *r, sonar_error *err);

static int by_time(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Times `measured`, after `before` (may be NULL) outside the clock. */
static sonar_code measure(rig *r, step before, step measured, const bench_effort *effort,
                          bench_result *result, sonar_error *err) {
    enum { MOST = 100000 };
    int64_t *time_ns = sonar_alloc(MOST, sizeof *time_ns), spent_ns = 0;
    if (!time_ns)
        return sonar_fail(err, SONAR_ENOMEM, r->c->name, "no memory for the times");
    sonar_code code = SONAR_OK;
    size_t n = 0;
    while (code == SONAR_OK && n < MOST &&
           (n < effort->repetitions || (double)spent_ns < effort->min_time_s * 1e9)) {
        if (before)
            code = before(r, err);
        const int64_t start_ns = sonar_monotonic_ns();
        if (code == SONAR_OK)
            code = measured(r, err);
        time_ns[n] = sonar_monotonic_ns() - start_ns;
        spent_ns += time_ns[n++];
    }
    qsort(time_ns, n, sizeof *time_ns, by_time);
    result->repetitions = n;
    result->min_ns = time_ns[0];
    result->median_ns = time_ns[n / 2];
    result->p99_ns = time_ns[(99 * n + 99) / 100 - 1];
    free(time_ns);
    return code;
}

/* ---- accuracy -------------------------------------------------------------------------------- */

static double beam_power(const rig *r, size_t direction, size_t bin) {
    const uint64_t *turns = r->far_turns + direction * r->c->sensors;
    const sonar_c32 *x = bin_row(r, bin);
    double re = 0, im = 0;
    for (size_t k = 0; k < r->c->sensors; k++) {
        const double phase = ldexp((double)(bin * turns[k]), -63) * M_PI;
        re += (double)x[k].re * cos(phase) + (double)x[k].im * sin(phase);
        im += (double)x[k].im * cos(phase) - (double)x[k].re * sin(phase);
    }
    return (re * re + im * im) / pow((double)r->c->sensors, 2);
}

/* Worst level of the surface against double precision at random points within 60 dB of the bin's
 * strongest beam. */
static double cbf_error_db(const rig *r) {
    uint64_t state = 2685821657736338717u;
    double worst_db = 0;
    for (int i = 0; i < CHECKS; i++) {
        const size_t t = (size_t)(uniform(&state) * (double)r->c->angles);
        const size_t row = (size_t)(uniform(&state) * (double)r->c->lofar.bins);
        const float *beams = r->lofar + row * r->c->angles;
        double peak = 0;
        for (size_t j = 0; j < r->c->angles; j++)
            peak = fmax(peak, (double)beams[j]);
        const double expected = beam_power(r, t, r->c->lofar.first + row);
        if (expected > 1e-6 * peak)
            worst_db = fmax(worst_db, fabs(10 * log10((double)beams[t] / expected)));
    }
    return worst_db;
}

/* Worst level of the middle bin's spectrum; NaN for arrays too large for the plain way. */
static double mvdr_error_db(const rig *r) {
    const bench_case *c = r->c;
    const size_t middle = c->mvdr.bins / 2;
    const float *spectrum = r->mvdr_spectrum + middle * c->angles;
    const float *info = r->mvdr_info + middle * SONAR_MVDR_INFO_FIELDS;
    double *power = c->sensors <= CAPON_SENSORS_MOST ? sonar_alloc(c->angles, sizeof *power) : NULL;
    double worst_db = NAN;
    if (power && bench_capon(c->sensors, c->snapshots, r->block, (double)info[SONAR_MVDR_DELTA],
                             c->mvdr.first + middle, r->far_turns, c->angles, power)) {
        worst_db = 0;
        for (size_t t = 0; t < c->angles; t++)
            worst_db = fmax(worst_db, fabs(10 * log10((double)spectrum[t] / power[t])));
    }
    free(power);
    return worst_db;
}

static double mean_sweeps(const rig *r) {
    double sum = 0;
    for (size_t b = 0; b < r->c->mvdr.bins; b++)
        sum += (double)r->mvdr_info[b * SONAR_MVDR_INFO_FIELDS + SONAR_MVDR_SWEEPS];
    return sum / (double)r->c->mvdr.bins;
}

/* ---- the stages of a case -------------------------------------------------------------------- */

typedef struct plan {
    const char *stage, *implementation;
    step before, measured;
    double flop, bytes;
    bool wanted;
} plan;

static sonar_code run_plan(rig *r, const plan *p, const bench_effort *effort, bench_report *report,
                           sonar_error *err) {
    if (!p->wanted || report->results == BENCH_RESULTS_MOST)
        return SONAR_OK;
    bench_result result = {.of = r->c,
                           .stage = p->stage,
                           .implementation = p->implementation,
                           .flop = p->flop,
                           .bytes = p->bytes,
                           .error_db = NAN,
                           .sweeps = NAN};
    sonar_code code = p->measured(r, err); /* the first touch of memory is not the stage's time */
    if (code == SONAR_OK)
        code = measure(r, p->before, p->measured, effort, &result, err);
    if (code != SONAR_OK)
        return code;
    const bool mvdr = p->measured == run_mvdr;
    if (mvdr && (code = fill_block(r, err)) != SONAR_OK)
        return code;
    if (p->measured == run_lofar)
        result.error_db = cbf_error_db(r);
    if (mvdr) {
        result.error_db = mvdr_error_db(r);
        result.sweeps = mean_sweeps(r);
    }
    if (r->c->mvdr.bins > 0 && (mvdr || p->measured == run_chain))
        result.flop += bench_mvdr_flop(r->c, mean_sweeps(r));
    report->result[report->results++] = result;
    return SONAR_OK;
}

static sonar_code run_plans(rig *r, const bench_effort *effort, bench_report *report,
                            sonar_error *err) {
    const bench_case *c = r->c;
    const double n = (double)c->sensors, map = 4.0 * (double)c->angles;
    const bool mvdr = c->mvdr.bins > 0, near = c->ranges > 0;
    const double dft_bytes = n * (4.0 * (double)c->length + 8.0 * (double)r->kept.bins);
    const double far_bytes = n * 8.0 * (double)c->cbf.bins + map;
    const double near_bytes = n * 8.0 * (double)c->cbf.bins + map * (double)c->ranges;
    const double lofar_bytes = (n * 8.0 + map) * (double)c->lofar.bins + map;
    const double mvdr_bytes = n * 8.0 * (double)(c->mvdr.bins * c->snapshots) + map;
    const double dft = bench_dft_flop(c), far = bench_cbf_flop(c, c->cbf.bins, 0);
    const double nearfield = bench_cbf_flop(c, 0, c->cbf.bins);
    const double lofar = bench_cbf_flop(c, c->lofar.bins, 0);
    const double chain_bytes =
        dft_bytes + lofar_bytes + (near ? near_bytes : 0) + (mvdr ? mvdr_bytes : 0);
    const plan plans[] = {
        {"dft", "cpu", NULL, run_dft, dft, dft_bytes, true},
        {"cbf.far", "cpu", NULL, run_far, far, far_bytes, true},
        {"cbf.near", "cpu", NULL, run_near, nearfield, near_bytes, near},
        {"cbf.lofar", "cpu", NULL, run_lofar, lofar, lofar_bytes, true},
        {"mvdr", "cpu one_sided", run_dft, run_mvdr, 0, mvdr_bytes, mvdr},
        {"chain", "cpu", NULL, run_chain, dft + lofar + nearfield, chain_bytes, true},
    };
    sonar_code code = run_dft(r, err); /* data for all the others */
    if (code == SONAR_OK && mvdr)
        code = fill_block(r, err);
    for (size_t i = 0; i < sizeof plans / sizeof *plans && code == SONAR_OK; i++)
        code = run_plan(r, &plans[i], effort, report, err);
    return code;
}

sonar_code bench_run(const bench_case *c, const bench_effort *effort, const sonar_host *host,
                     bench_report *report, sonar_error *err) {
    sonar_code code = bench_case_check(c, err);
    if (code != SONAR_OK)
        return code;
    rig r = {.c = c, .host = host};
    code = open_rig(&r, err);
    if (code == SONAR_OK)
        code = run_plans(&r, effort, report, err);
    close_rig(&r);
    return code;
}
