/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bins.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cbf/cbf.h"
#include "configured.h"
#include "oracle.h"

static void in_turn(void *ctx, size_t tasks, void (*task)(void *arg, size_t index, size_t worker),
                    void *arg) {
    (void)ctx;
    for (size_t i = 0; i < tasks; i++)
        task(arg, i, 0);
}

static void *take(size_t count, size_t size) {
    void *data = calloc(count ? count : 1, size);
    if (!data)
        abort();
    return data;
}

static void must(sonar_code code, const sonar_error *err) {
    if (code) {
        fprintf(stderr, "%s\n", err->text);
        abort();
    }
}

static void make_pattern(bins *b) {
    const sonar_config *c = b->config;
    const sonar_pattern_spec spec = {.sensors = c->sensors,
                                     .position_m = b->params->position_m,
                                     .weight = b->params->shading,
                                     .scan = &c->cbf_scan,
                                     .reference = c->range_reference,
                                     .c_mps = c->sound_speed_mps,
                                     .low_hz = c->cbf_band.low_hz,
                                     .high_hz = c->cbf_band.high_hz};
    sonar_error err = {0};
    must(sonar_pattern_create(&spec, &b->pattern, &err), &err);
    must(sonar_split_create(&c->cbf_scan, &b->split, &err), &err);
}

static void describe(bins *b) {
    const sonar_config *c = b->config;
    const double lambda_m = c->sound_speed_mps / c->cbf_band.high_hz;
    b->spec = (sonar_detect_spec){.scan = &c->cbf_scan,
                                  .split = b->split,
                                  .threshold_db = c->detect_threshold_db,
                                  .min_separation_deg = c->detect_min_separation_deg,
                                  .most = c->detect_most,
                                  .aperture_m = c->geometry.aperture_m,
                                  .pattern = sonar_pattern_shares,
                                  .pattern_ctx = b->pattern};
    b->near = (sonar_nearfield){.power = b->near_power,
                                .ranges = c->specs.cbf.ranges,
                                .range_m = c->range_m,
                                .reference = c->range_reference,
                                .lambda_m = lambda_m,
                                .margin_db = c->detect_range_margin_db};
}

bins bins_open(const char *text) {
    bins b = {.random = 1, .config = configured("bins", text)};
    const sonar_config *c = b.config;
    sonar_error err = {0};
    const sonar_params_spec live = sonar_config_params(c);
    must(sonar_params_create(&live, 1, &b.params, &err), &err);
    static const sonar_host host = {.parallel = in_turn, .workers = 1};
    const sonar_cbf_spec spec = {.sensors = c->sensors,
                                 .directions = c->cbf_scan.count,
                                 .ranges = c->specs.cbf.ranges,
                                 .fs_hz = c->fs_hz,
                                 .length = c->specs.cbf.length,
                                 .first_bin = c->cbf_band.first_bin,
                                 .bins = c->cbf_band.bins,
                                 .cbf_first = c->cbf_band.first_bin,
                                 .cbf_bins = c->cbf_band.bins,
                                 .max_snapshots = 1};
    must(sonar_cbf_cpu.create(&spec, &host, &b.cbf, &err), &err);
    b.gain_db = take(c->sensors, sizeof *b.gain_db);
    b.phase_deg = take(c->sensors, sizeof *b.phase_deg);
    b.x = take(c->sensors * c->cbf_band.bins, sizeof *b.x);
    b.far_power = take(c->cbf_scan.count, sizeof *b.far_power);
    b.near_power = take(c->cbf_scan.count * c->specs.cbf.ranges, sizeof *b.near_power);
    b.scratch = take(4 * c->cbf_scan.count, sizeof *b.scratch);
    b.turns = take(SONAR_DETECT_POINTS * c->sensors, sizeof *b.turns);
    make_pattern(&b);
    describe(&b);
    return b;
}

void bins_close(bins *b) {
    sonar_cbf_cpu.destroy(b->cbf);
    sonar_pattern_destroy(b->pattern);
    sonar_split_destroy(b->split);
    sonar_params_destroy(b->params);
    sonar_config_destroy(b->config);
    free(b->gain_db);
    free(b->phase_deg);
    free(b->x);
    free(b->far_power);
    free(b->near_power);
    free(b->scratch);
    free(b->turns);
}

void bins_set_errors(bins *b, double gain_db, double phase_deg, uint64_t seed) {
    for (size_t k = 0; k < b->config->sensors; k++) {
        b->gain_db[k] = gain_db * sonar_random_normal(&seed);
        b->phase_deg[k] = phase_deg * sonar_random_normal(&seed);
    }
}

/* ---- a window -------------------------------------------------------------------------------- */

static double delay(const bins *b, const bins_source *source, size_t sensor) {
    const double *p = b->params->position_m + 3 * sensor;
    double u[3];
    oracle_unit(source->az_deg, 0, u);
    return source->range_m > 0
               ? oracle_delay_near(p, u, source->range_m, b->config->sound_speed_mps)
               : oracle_delay_far(p, u, b->config->sound_speed_mps);
}

/* Transform of the Hann window `bins` away from a tone, 1 at its own. */
static double complex window_at(double bins) {
    if (fabs(bins) > 6)
        return 0;
    const double w = M_PI * bins, sinc = fabs(w) < 1e-9 ? 1 : sin(w) / w;
    const double rest = 1 - bins * bins;
    return (fabs(rest) < 1e-9 ? 0.5 : sinc / rest) * cexp(-I * w);
}

/* The source's noise as tones so dense that they repeat only after twice the duration of the window
 * over all sensors. */
static void add_source(bins *b, const bins_source *source) {
    const sonar_config *c = b->config;
    const double bin_hz = c->fs_hz / (double)c->specs.cbf.length;
    const double lasts_s = 1 / bin_hz + 2 * c->geometry.aperture_m / c->sound_speed_mps;
    const double step_hz = 0.5 / lasts_s, low_hz = c->cbf_band.low_hz - 6 * bin_hz;
    const size_t tones = (size_t)((c->cbf_band.high_hz + 6 * bin_hz - low_hz) / step_hz);
    /* |sum over the tones of window_at|^2 of a bin is bin_hz/step_hz times 1.5 tones' power */
    const double rms = sqrt(pow(10, source->level_db / 10) * step_hz / bin_hz / 1.5 / 2);
    for (size_t i = 0; i < (source->tone_hz > 0 ? 1 : tones); i++) {
        const double hz = source->tone_hz > 0 ? source->tone_hz : low_hz + step_hz * (double)i;
        const double imaginary = rms * sonar_random_normal(&b->random);
        const double complex tone = source->tone_hz > 0
                                        ? pow(10, source->level_db / 20) *
                                              cexp(2 * M_PI * I * sonar_random_uniform(&b->random))
                                        : rms * sonar_random_normal(&b->random) + I * imaginary;
        for (size_t k = 0; k < c->sensors; k++) {
            const double complex heard =
                tone * pow(10, b->gain_db[k] / 20) *
                cexp(2 * M_PI * I * (hz * delay(b, source, k) + b->phase_deg[k] / 360));
            for (size_t n = 0; n < c->cbf_band.bins; n++) {
                const double complex x =
                    heard * window_at((double)(c->cbf_band.first_bin + n) - hz / bin_hz);
                b->x[n * c->sensors + k].re += (float)creal(x);
                b->x[n * c->sensors + k].im += (float)cimag(x);
            }
        }
    }
}

void bins_window(bins *b, const bins_source *source, size_t sources) {
    const sonar_config *c = b->config;
    for (size_t i = 0; i < c->sensors * c->cbf_band.bins; i++) {
        const double real = sqrt(0.5) * sonar_random_normal(&b->random);
        const double imaginary = sqrt(0.5) * sonar_random_normal(&b->random);
        b->x[i] = (sonar_c32){(float)real, (float)imaginary};
    }
    for (size_t i = 0; i < sources; i++)
        add_source(b, &source[i]);
    sonar_buffer in =
        sonar_buffer_view(b->x, SONAR_C32, 3, (size_t[]){1, c->cbf_band.bins, c->sensors});
    sonar_buffer out[SONAR_CBF_OUTPUTS] = {
        sonar_buffer_view(b->far_power, SONAR_F32, 1, (size_t[]){c->cbf_scan.count}),
        sonar_buffer_view(b->near_power, SONAR_F32, 2,
                          (size_t[]){c->specs.cbf.ranges, c->cbf_scan.count})};
    const sonar_work work = {.params = b->params,
                             .outputs =
                                 SONAR_WANT(SONAR_CBF_AZIMUTH) |
                                 (c->specs.cbf.ranges ? SONAR_WANT(SONAR_CBF_NEARFIELD) : 0)};
    sonar_error err = {0};
    must(sonar_cbf_cpu.execute(b->cbf, NULL, &in, out, &work, &err), &err);
}

/* ---- detections ------------------------------------------------------------------------------ */

static sonar_code power_at(void *ctx, size_t n, const double *az_deg, const double *range_m,
                           float *power, sonar_error *err) {
    bins *b = ctx;
    const sonar_config *c = b->config;
    double *tau_s = take(c->sensors, sizeof *tau_s);
    for (size_t i = 0; i < n; i++) {
        double u[3];
        sonar_scan_unit(&c->cbf_scan, az_deg[i], u);
        if (isfinite(range_m[i]))
            sonar_delay_near(c->sensors, b->params->position_m, u, range_m[i], c->range_reference,
                             c->cbf_scan.axis, c->sound_speed_mps, tau_s);
        else
            sonar_delay_far(c->sensors, b->params->position_m, u, c->sound_speed_mps, tau_s);
        for (size_t k = 0; k < c->sensors; k++)
            b->turns[i * c->sensors + k] =
                sonar_turns(tau_s[k], c->fs_hz / (double)c->specs.cbf.length);
    }
    free(tau_s);
    sonar_buffer turns = sonar_buffer_view(b->turns, SONAR_U64, 2, (size_t[]){n, c->sensors});
    sonar_buffer out = sonar_buffer_view(power, SONAR_F32, 1, (size_t[]){n});
    const sonar_work work = {.params = b->params};
    return sonar_cbf_cpu.evaluate(b->cbf, NULL, &turns, &out, &work, err);
}

size_t bins_detect(bins *b, sonar_detection *detection) {
    sonar_error err = {0};
    size_t count;
    must(sonar_detect(&b->spec, SONAR_FROM_CBF, b->far_power, &b->near, b->scratch, power_at, b,
                      detection, &count, &err),
         &err);
    return count;
}

double bins_power(bins *b, double az_deg, double range_m) {
    float power;
    sonar_error err = {0};
    must(power_at(b, 1, &az_deg, &range_m, &power, &err), &err);
    return (double)power;
}
