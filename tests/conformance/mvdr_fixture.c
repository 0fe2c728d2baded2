/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "mvdr_fixture.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/open.h"
#include "manifold/manifold.h"
#include "mvdr_jacobi/common.h"
#include "mvdr_jacobi/rules/level.h"
#include "mvdr_jacobi/route.h"

enum { SOUND_MPS = 1500, CENTRE_HZ = 500 };

static void *take(size_t count, size_t size) {
    void *memory = calloc(count + 1, size);
    if (!memory)
        abort();
    return memory;
}

sonar_mvdr_spec mvdr_spec(size_t sensors, size_t directions, size_t snapshots, double alpha) {
    return (sonar_mvdr_spec){.sensors = sensors,
                             .directions = directions,
                             .fs_hz = 2000,
                             .length = 400,
                             .first_bin = 100,
                             .bins = 1,
                             .max_new = snapshots,
                             .snapshots = alpha > 0 ? 0 : snapshots,
                             .alpha = alpha,
                             .loading = SONAR_LOADING_TRACE,
                             .eps = 0.01,
                             .tolerance = 1e-9,
                             .max_sweeps = 30};
}

/* ---- the array ------------------------------------------------------------------------------- */

static double bin_width(const mvdr_fixture *f) {
    return f->spec.fs_hz / (double)f->spec.length;
}

double mvdr_azimuth_deg(const mvdr_fixture *f, size_t direction) {
    return 180.0 * ((double)direction + 0.5) / (double)f->spec.directions;
}

double mvdr_delay(const mvdr_fixture *f, size_t sensor, double az_deg) {
    const double *p = f->position_m + 3 * sensor;
    return (p[0] * cos(az_deg * M_PI / 180) + p[1] * sin(az_deg * M_PI / 180)) / SOUND_MPS;
}

double mvdr_delay_from(const mvdr_fixture *f, size_t sensor, double az_deg, double range_m) {
    const double *p = f->position_m + 3 * sensor, az = az_deg * M_PI / 180;
    if (range_m == 0)
        return mvdr_delay(f, sensor, az_deg);
    const double away = hypot(hypot(range_m * cos(az) - p[0], range_m * sin(az) - p[1]), p[2]);
    /* the difference of |s| and |s - p| without its cancellation far away */
    const double along = p[0] * cos(az) + p[1] * sin(az);
    const double square = p[0] * p[0] + p[1] * p[1] + p[2] * p[2];
    return (2 * range_m * along - square) / (range_m + away) / SOUND_MPS;
}

void mvdr_renew(mvdr_fixture *f) {
    size_t sensors = f->spec.sensors;
    f->params.version++;
    f->params.sensors_used = 0;
    for (size_t k = 0; k < sensors; k++)
        f->params.sensors_used += f->used[k];
    for (size_t t = 0; t < f->spec.directions; t++)
        for (size_t k = 0; k < sensors; k++)
            f->turns[t * sensors + k] =
                sonar_turns(mvdr_delay(f, k, mvdr_azimuth_deg(f, t)), bin_width(f));
    for (size_t r = 0; r < f->spec.ranges; r++)
        for (size_t t = 0; t < f->spec.directions; t++)
            for (size_t k = 0; k < sensors; k++)
                f->near_turns[(r * f->spec.directions + t) * sensors + k] = sonar_turns(
                    mvdr_delay_from(f, k, mvdr_azimuth_deg(f, t), f->range_m[r]), bin_width(f));
}

void mvdr_steering(const mvdr_fixture *f, size_t bin, double az_deg, cplx *a) {
    mvdr_steering_to(f, bin, az_deg, 0, a);
}

void mvdr_steering_to(const mvdr_fixture *f, size_t bin, double az_deg, double range_m, cplx *a) {
    double hz = (double)(f->spec.first_bin + bin) * bin_width(f);
    for (size_t k = 0; k < f->spec.sensors; k++)
        if (f->used[k])
            *a++ = cexp(2 * M_PI * I * hz * mvdr_delay_from(f, k, az_deg, range_m));
}

static void make_array(mvdr_fixture *f) {
    const size_t sensors = f->spec.sensors, directions = f->spec.directions;
    f->turns = take(directions * sensors, sizeof *f->turns);
    f->near_turns = take(f->spec.ranges * directions * sensors, sizeof *f->near_turns);
    f->range_m = take(f->spec.ranges, sizeof *f->range_m);
    for (size_t r = 0; r < f->spec.ranges; r++)
        f->range_m[r] = 1.5 * (double)(sensors << r);
    f->position_m = take(3 * sensors, sizeof *f->position_m);
    f->used = take(sensors, 1);
    for (size_t k = 0; k < sensors; k++) {
        f->position_m[3 * k] =
            ((double)k - ((double)sensors - 1) / 2) * SOUND_MPS / (2.0 * CENTRE_HZ);
        f->used[k] = 1;
    }
    f->params = (sonar_params){.sensors = sensors,
                               .sound_speed_mps = SOUND_MPS,
                               .position_m = f->position_m,
                               .used = f->used,
                               .far_mvdr = {.ranges = 1,
                                            .directions = directions,
                                            .sensors = sensors,
                                            .bin_width_hz = bin_width(f),
                                            .turns = f->turns},
                               .near_mvdr = {.ranges = f->spec.ranges,
                                             .directions = directions,
                                             .sensors = sensors,
                                             .bin_width_hz = bin_width(f),
                                             .turns = f->near_turns}};
    mvdr_renew(f);
}

/* ---- the stage ------------------------------------------------------------------------------- */

static void make_buffers(mvdr_fixture *f) {
    const sonar_mvdr_spec *s = &f->spec;
    const size_t fields = SONAR_MVDR_INFO_FIELDS;
    sonar_buffer *out = f->out;
    f->in = site_buffer(f->site, SONAR_C32, 3, (size_t[]){s->max_new, s->bins, s->sensors});
    out[SONAR_MVDR_OUT_AZIMUTH] = site_buffer(f->site, SONAR_F32, 1, (size_t[]){s->directions});
    out[SONAR_MVDR_OUT_SPECTRUM] =
        site_buffer(f->site, SONAR_F32, 2, (size_t[]){s->bins, s->directions});
    out[SONAR_MVDR_OUT_EIGENVALUES] =
        site_buffer(f->site, SONAR_F32, 2, (size_t[]){s->bins, sonar_mvdr_modes(s)});
    out[SONAR_MVDR_OUT_INFO] = site_buffer(f->site, SONAR_F32, 2, (size_t[]){s->bins, fields});
    if (s->ranges)
        out[SONAR_MVDR_OUT_NEARFIELD] =
            site_buffer(f->site, SONAR_F32, 2, (size_t[]){s->ranges, s->directions});
    if (s->music)
        out[SONAR_MVDR_OUT_MUSIC] = site_buffer(f->site, SONAR_F32, 1, (size_t[]){s->directions});
    for (int i = 0; i < SONAR_MVDR_OUTPUTS; i++)
        f->output[i] = take(f->out[i].bytes, 1);
    f->azimuth = f->output[SONAR_MVDR_OUT_AZIMUTH];
    f->spectrum = f->output[SONAR_MVDR_OUT_SPECTRUM];
    f->near = f->output[SONAR_MVDR_OUT_NEARFIELD];
    f->info = f->output[SONAR_MVDR_OUT_INFO];
    f->eigenvalues = f->output[SONAR_MVDR_OUT_EIGENVALUES];
    f->music = f->output[SONAR_MVDR_OUT_MUSIC];
}

void mvdr_open_alone(mvdr_fixture *f, site *site, const sonar_mvdr_spec *spec) {
    sonar_error err = {0};
    *f = (mvdr_fixture){.site = site, .spec = *spec, .apart_db = 0.05};
    f->ops = site->backend->stage("mvdr_jacobi");
    if (!f->ops)
        site_require(site, sonar_fail(&err, SONAR_EUNAVAILABLE, "mvdr_jacobi", "no stage"), &err);
    make_array(f);
    make_buffers(f);
    site_require(site, f->ops->create(spec, site->host, &f->stage, &err), &err);
}

void mvdr_open(mvdr_fixture *f, site *site, const sonar_mvdr_spec *spec) {
    static struct site cpu;
    mvdr_open_alone(f, site, spec);
    if (site->backend == sonar_backend_cpu())
        return;
    if (!cpu.backend)
        cpu = site_open(sonar_backend_cpu(), sonar_host_serial());
    cpu.name = site->name;
    f->twin = take(1, sizeof *f->twin);
    mvdr_open_alone(f->twin, &cpu, spec);
}

void mvdr_refused(site *site, const char *what, const sonar_mvdr_spec *spec) {
    void *stage = &stage;
    sonar_error err = {0};
    const sonar_code code =
        site->backend->stage("mvdr_jacobi")->create(spec, site->host, &stage, &err);
    site_expect(site, code == SONAR_EINVAL && !stage && err.text[0], "%s: code %d, '%s'", what,
                (int)code, err.text);
}

void mvdr_close(mvdr_fixture *f) {
    if (f->twin)
        mvdr_close(f->twin);
    free(f->twin);
    f->ops->destroy(f->stage);
    site_free(f->site, &f->in);
    for (int i = 0; i < SONAR_MVDR_OUTPUTS; i++) {
        if (f->out[i].data)
            site_free(f->site, &f->out[i]);
        free(f->output[i]);
    }
    free(f->turns);
    free(f->near_turns);
    free(f->range_m);
    free(f->position_m);
    free(f->used);
}

sonar_work mvdr_work(const mvdr_fixture *f) {
    return (sonar_work){.params = &f->params,
                        .outputs = SONAR_WANT(SONAR_MVDR_SPECTRUM) |
                                   (f->wants_eigenvalues ? SONAR_WANT(SONAR_MVDR_EIGENVALUES) : 0) |
                                   (f->without_music ? 0 : SONAR_WANT(SONAR_MUSIC_AZIMUTH)) |
                                   (f->spec.ranges ? SONAR_WANT(SONAR_MVDR_NEARFIELD) : 0)};
}

void mvdr_reset(mvdr_fixture *f) {
    f->ops->reset(f->stage);
    if (f->twin)
        mvdr_reset(f->twin);
}

float mvdr_info(const mvdr_fixture *f, size_t bin, int field) {
    return f->info[bin * SONAR_MVDR_INFO_FIELDS + (size_t)field];
}

unsigned mvdr_flags(const mvdr_fixture *f, size_t bin) {
    return (unsigned)mvdr_info(f, bin, SONAR_MVDR_FLAGS);
}

/* ---- beside the CPU's ------------------------------------------------------------------------ */

/* The current case, for messages. */
static const char *named(const mvdr_fixture *f) {
    static char text[160];
    const sonar_mvdr_spec *s = &f->spec;
    snprintf(text, sizeof text, "B %zu, L %zu, alpha %g, rule %d, eps %g", s->sensors, s->snapshots,
             s->alpha, (int)s->loading, s->eps);
    return text;
}

/* Worst difference of two spectra; 1000 where one is zero or no number and the other is not. */
static double difference_db(size_t count, const float *mine, const float *other) {
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        double a = (double)mine[i], b = (double)other[i];
        if (memcmp(&mine[i], &other[i], sizeof(float)) == 0)
            continue;
        worst = fmax(worst,
                     a > 0 && b > 0 && isfinite(a) && isfinite(b) ? fabs(10 * log10(a / b)) : 1000);
    }
    return worst;
}

static void expect_close(mvdr_fixture *f, size_t bin, int field, double relative, double absolute) {
    static const char *const names[] = {"sweeps",    "residual", "delta",    "flags",
                                        "snapshots", "level",    "offset",   "sources",
                                        "modes",     "limited",  "subspace", "route"};
    double mine = (double)mvdr_info(f, bin, field), twins = (double)mvdr_info(f->twin, bin, field);
    site_expect(f->site, fabs(mine - twins) <= relative * fabs(twins) + absolute,
                "%s, bin %zu: %s %g, CPU %g", named(f), bin, names[field], mine, twins);
}

/* Whether a share of the level is so close to the limit that rounding decides the flag. */
static bool on_the_edge(double share) {
    return fabs(share / 0.25 - 1) < 0.02 || fabs(share / 0.01 - 1) < 0.02;
}

/* Worst difference of two pseudo-spectra's mean shares; steering vectors rounded to float32 tell
 * apart what is next to nothing. */
static double difference_of_music(size_t count, const float *mine, const float *other) {
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        const double a = 1 / (double)mine[i], b = 1 / (double)other[i];
        const double rounding = 1e-7 * sqrt(fmax(b, 0)) + 1e-13, apart = fabs(a - b) - rounding;
        if (memcmp(&mine[i], &other[i], sizeof(float)) != 0)
            worst = fmax(worst, apart <= 0 ? 0 : apart < b ? 10 * log10(1 + apart / b) : 1000);
    }
    return worst;
}

/* Rounding error of the share of the level. In sensor space rounding changes each eigenvalue by a
 * part of the largest one, also the zero eigenvalues of blocks with fewer snapshots than sensors.
 * The loading's share of these is subtracted from the number of sensors. */
static double rounding_of_level(const mvdr_fixture *f, size_t bin) {
    const double snapshots = (double)mvdr_info(f->twin, bin, SONAR_MVDR_SNAPSHOTS);
    const double delta = (double)mvdr_info(f->twin, bin, SONAR_MVDR_DELTA);
    if (mvdr_shape_of(&f->spec).by_snapshots || !(snapshots > 0 && delta > 0))
        return 0;
    return 4 * DBL_EPSILON * (double)f->spec.sensors * f->loudest / delta / snapshots;
}

static void note_loudest(mvdr_fixture *f, size_t count, const sonar_c32 *x) {
    for (size_t i = 0; i < count * f->spec.bins; i++) {
        double sum = 0;
        for (size_t k = 0; k < f->spec.sensors; k++, x++)
            sum += (double)x->re * (double)x->re + (double)x->im * (double)x->im;
        f->loudest = isfinite(sum) ? fmax(f->loudest, sum) : f->loudest;
    }
}

/* INFO equals the CPU's, except for sweeps and residual. Rounding errors accumulate in values that
 * are updated. */
static void compare(mvdr_fixture *f) {
    const double close = f->spec.alpha > 0 ? 5e-3 : 1e-3;
    const size_t looks = f->spec.directions;
    const double far_db = difference_db(f->spec.bins * looks, f->spectrum, f->twin->spectrum);
    const double near_db = difference_db(f->spec.ranges * looks, f->near, f->twin->near);
    const double apart_db = fmax(far_db, near_db);
    if (isinf(f->apart_db))
        return;
    if (f->spec.music && !f->without_music) {
        const double music_db = difference_of_music(looks, f->music, f->twin->music);
        site_expect(f->site, music_db <= f->apart_db, "%s: MUSIC %g dB off the CPU", named(f),
                    music_db);
    }
    site_expect(f->site, apart_db <= f->apart_db, "%s: %g dB off the CPU", named(f), apart_db);
    for (size_t bin = 0; bin < f->spec.bins; bin++) {
        expect_close(f, bin, SONAR_MVDR_DELTA, close, 0);
        /* 1 minus a sum: for small values the sum's rounding matters. Below the level at which a
         * corrected bin is flagged, the same error is allowed as at that level. */
        expect_close(f, bin, SONAR_MVDR_LEVEL, 2 * close,
                     2 * close * MVDR_LEVEL_CORRECTED + rounding_of_level(f, bin));
        expect_close(f, bin, SONAR_MVDR_OFFSET, 0, 1e-4);
        expect_close(f, bin, SONAR_MVDR_SNAPSHOTS, 1e-6, 0);
        expect_close(f, bin, SONAR_MVDR_SOURCES, 0, 0);
        expect_close(f, bin, SONAR_MVDR_MODES, 0, 0);
        expect_close(f, bin, SONAR_MVDR_LIMITED, 0, 1); /* rounding decides at the limit */
        expect_close(f, bin, SONAR_MVDR_SUBSPACE, 0, 0);
        if (!on_the_edge((double)mvdr_info(f->twin, bin, SONAR_MVDR_LEVEL)))
            expect_close(f, bin, SONAR_MVDR_FLAGS, 0, 0);
    }
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Not of bins out of the live band, whose info is not written. */
static void note_routes(mvdr_fixture *f) {
    for (size_t bin = 0; bin < f->spec.bins; bin++) {
        const float route = mvdr_info(f, bin, SONAR_MVDR_ROUTE);
        if (route > MVDR_ROUTE_NONE && route < MVDR_ROUTES)
            f->site->taken |= 1u << (unsigned)route;
    }
}

void mvdr_run(mvdr_fixture *f, size_t count, const sonar_c32 *x) {
    const sonar_work work = mvdr_work(f);
    sonar_buffer in = f->in;
    sonar_error err = {0};
    in.shape[0] = count;
    in.bytes = count * f->spec.bins * f->spec.sensors * sizeof *x;
    for (int i = 0; i < SONAR_MVDR_OUTPUTS; i++) {
        memset(f->output[i], 0xff, f->out[i].bytes);
        if (f->out[i].data)
            site_send(f->site, f->output[i], &f->out[i]);
    }
    if (count)
        site_send(f->site, x, &in);
    site_require(f->site, f->ops->execute(f->stage, f->site->queue, &in, f->out, &work, &err),
                 &err);
    for (int i = 0; i < SONAR_MVDR_OUTPUTS; i++)
        if (f->out[i].data)
            site_fetch(f->site, &f->out[i], f->output[i]);
    note_routes(f);
    if (!f->twin)
        return;
    f->twin->params = f->params;
    f->twin->wants_eigenvalues = f->wants_eigenvalues;
    f->twin->without_music = f->without_music;
    mvdr_run(f->twin, count, x);
    note_loudest(f, count, x);
    compare(f);
}

void mvdr_evaluate(mvdr_fixture *f, size_t points, const uint64_t *turns, float *power) {
    const sonar_work work = mvdr_work(f);
    sonar_error err = {0};
    sonar_buffer at = site_buffer(f->site, SONAR_U64, 2, (size_t[]){points, f->spec.sensors});
    sonar_buffer out = site_buffer(f->site, SONAR_F32, 1, (size_t[]){points});
    site_send(f->site, turns, &at);
    site_require(f->site, f->ops->evaluate(f->stage, f->site->queue, &at, &out, &work, &err), &err);
    site_fetch(f->site, &out, power);
    site_free(f->site, &at);
    site_free(f->site, &out);
}

/* ---- judging --------------------------------------------------------------------------------- */

cplx *mvdr_covariance(const mvdr_fixture *f, size_t bin, size_t count, const sonar_c32 *x) {
    size_t sensors = f->spec.sensors, n = f->params.sensors_used;
    cplx *wide = take(count * n, sizeof *wide), *to = wide, *r = take(n * n, sizeof *r);
    double *weight = take(count, sizeof *weight);
    for (size_t s = 0; s < count; s++)
        for (size_t k = 0; k < sensors; k++) {
            const sonar_c32 *v = &x[(s * f->spec.bins + bin) * sensors + k];
            if (f->used[k])
                *to++ = (double)v->re + I * (double)v->im;
        }
    if (f->spec.alpha > 0)
        mvdr_oracle_fading(f->spec.alpha, count, weight);
    mvdr_oracle_covariance(n, count, wide, f->spec.alpha > 0 ? weight : NULL, r);
    if (f->spec.forward_backward)
        mvdr_oracle_average_backward(n, r);
    free(wide);
    free(weight);
    return r;
}

double mvdr_looks(const mvdr_fixture *f, size_t count) {
    const double alpha = f->spec.alpha, faded = pow(alpha, (double)count);
    return alpha > 0 ? (1 + alpha) / (1 - alpha) * (1 - faded) / (1 + faded) : (double)count;
}

/* The oracle's spectrum at a range, 0: far away, and its loading. */
static double judge(const mvdr_fixture *f, size_t bin, size_t count, const sonar_c32 *x,
                    double range_m, double *power) {
    const size_t n = f->params.sensors_used, directions = f->spec.directions;
    const double each = f->spec.forward_backward ? 2 : 1;
    cplx *r = mvdr_covariance(f, bin, count, x), *a = take(n * directions, sizeof *a);
    double *d = take(n, sizeof *d);
    for (size_t t = 0; t < directions; t++)
        mvdr_steering_to(f, bin, mvdr_azimuth_deg(f, t), range_m, a + t * n);
    mvdr_oracle_eigenvalues(n, r, d);
    const double delta = mvdr_oracle_delta(&f->spec, n, d, each * mvdr_looks(f, count));
    mvdr_oracle_power(n, r, delta, directions, a, power);
    free(r);
    free(a);
    free(d);
    return delta;
}

/* Not finite or not positive counts as 1000 dB. */
static double off_db(double got, double wanted) {
    return got > 0 && isfinite(got) && wanted > 0 ? fabs(10 * log10(got / wanted)) : 1000;
}

static double error_db(const mvdr_fixture *f, size_t bin, size_t count, const sonar_c32 *x,
                       double *delta) {
    double *power = take(f->spec.directions, sizeof *power), worst = 0;
    *delta = judge(f, bin, count, x, 0, power);
    for (size_t t = 0; t < f->spec.directions; t++)
        worst = fmax(worst, off_db((double)f->spectrum[bin * f->spec.directions + t], power[t]));
    free(power);
    return worst;
}

double mvdr_error_db(const mvdr_fixture *f, size_t bin, size_t count, const sonar_c32 *x) {
    double delta;
    return error_db(f, bin, count, x, &delta);
}

void mvdr_expect_near(mvdr_fixture *f, size_t count, const sonar_c32 *x, double limit_db) {
    const size_t looks = f->spec.directions;
    double *power = take(looks, sizeof *power), *band = take(looks, sizeof *band);
    for (size_t r = 0; r < f->spec.ranges; r++) {
        double worst = 0;
        memset(band, 0, looks * sizeof *band);
        for (size_t bin = 0; bin < f->spec.bins; bin++) {
            judge(f, bin, count, x, f->range_m[r], power);
            for (size_t t = 0; t < looks; t++)
                band[t] += power[t] * bin_width(f);
        }
        for (size_t t = 0; t < looks; t++)
            worst = fmax(worst, off_db((double)f->near[r * looks + t], band[t]));
        site_expect(f->site, worst <= limit_db, "%s, at %g m: %g dB off", named(f), f->range_m[r],
                    worst);
    }
    free(power);
    free(band);
}

void mvdr_expect_evaluated(mvdr_fixture *f) {
    const size_t directions = f->spec.directions;
    float *power = take(directions, sizeof *power);
    mvdr_evaluate(f, directions, f->turns, power);
    for (size_t t = 0; t < directions; t++)
        site_expect(f->site, fabsf(power[t] / f->azimuth[t] - 1) < 1e-5f,
                    "direction %zu: %g by evaluate, %g by execute", t, (double)power[t],
                    (double)f->azimuth[t]);
    free(power);
}

void mvdr_expect(mvdr_fixture *f, size_t bin, size_t count, const sonar_c32 *x, double limit_db) {
    double delta, looks = mvdr_looks(f, count);
    const double error = error_db(f, bin, count, x, &delta);
    const double said = (double)mvdr_info(f, bin, SONAR_MVDR_DELTA);
    const double residual = (double)mvdr_info(f, bin, SONAR_MVDR_RESIDUAL);
    const double seen = (double)mvdr_info(f, bin, SONAR_MVDR_SNAPSHOTS);
    site_expect(f->site, error <= limit_db, "%s, bin %zu, after %zu: %g dB off", named(f), bin,
                count, error);
    site_expect(f->site, fabs(said - delta) <= 0.01 * delta, "%s: delta %g, not %g", named(f), said,
                delta);
    site_expect(f->site, fabs(seen - looks) <= 1e-5 * looks, "%s: %g snapshots, not %g", named(f),
                seen, looks);
    site_expect(f->site,
                !(mvdr_flags(f, bin) & SONAR_MVDR_FLAG_NOT_CONVERGED) &&
                    residual <= f->spec.tolerance,
                "%s: residual %g", named(f), residual);
}

/* ---- scenes ---------------------------------------------------------------------------------- */

/* One snapshot [bin][sensor]. */
static void draw(const mvdr_fixture *f, const mvdr_wave *waves, size_t count, uint64_t *state,
                 cplx *sum, sonar_c32 *x) {
    for (size_t bin = 0; bin < f->spec.bins; bin++) {
        double hz = (double)(f->spec.first_bin + bin) * bin_width(f);
        for (size_t k = 0; k < f->spec.sensors; k++)
            sum[k] = test_gauss(state);
        for (size_t w = 0; w < count; w++) {
            cplx s = pow(10, waves[w].level_db / 20) * test_gauss(state);
            for (size_t k = 0; k < f->spec.sensors; k++)
                sum[k] += s * cexp(2 * M_PI * I * hz * mvdr_delay(f, k, waves[w].az_deg));
        }
        for (size_t k = 0; k < f->spec.sensors; k++)
            *x++ = (sonar_c32){f->used[k] ? (float)creal(sum[k]) : 0,
                               f->used[k] ? (float)cimag(sum[k]) : 0};
    }
}

sonar_c32 *mvdr_record(const mvdr_fixture *f, size_t count, const mvdr_wave *waves, size_t n,
                       uint64_t seed) {
    const size_t stride = f->spec.bins * f->spec.sensors;
    sonar_c32 *x = take(count * stride, sizeof *x);
    cplx *sum = take(f->spec.sensors, sizeof *sum);
    for (size_t s = 0; s < count; s++)
        draw(f, waves, n, &seed, sum, x + s * stride);
    free(sum);
    return x;
}

void mvdr_beside_loud_ships(site *site, const sonar_mvdr_spec *spec, double apart_db,
                            void (*expect)(const mvdr_fixture *f, size_t count, const sonar_c32 *x,
                                           double limit_db)) {
    static const size_t lengths[] = {8, 16, 17, 40};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int level_db = 60; level_db <= 80; level_db += 20) {
            const mvdr_wave waves[] = {{50.5, level_db}, {53, level_db - 10}, {120, 10}};
            sonar_mvdr_spec block = *spec;
            block.snapshots = block.max_new = lengths[i];
            mvdr_fixture f;
            mvdr_open(&f, site, &block);
            f.apart_db = apart_db;
            sonar_c32 *x = mvdr_record(&f, lengths[i], waves, 3, 90 + i);
            mvdr_run(&f, lengths[i], x);
            expect(&f, lengths[i], x, 0.01);
            free(x);
            mvdr_close(&f);
        }
}
