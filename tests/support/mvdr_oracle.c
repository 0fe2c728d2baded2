/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "mvdr_oracle.h"

#define LAPACK_COMPLEX_CUSTOM
#define lapack_complex_float  float _Complex
#define lapack_complex_double double _Complex
#include <lapacke.h>

#include "core/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- random numbers -------------------------------------------------------------------------- */

double test_uniform(uint64_t *state) {
    return sonar_random_uniform(state);
}

cplx test_gauss(uint64_t *state) {
    double radius = sqrt(-log(test_uniform(state)));
    return radius * cexp(2 * M_PI * I * test_uniform(state));
}

/* ---- oracle ---------------------------------------------------------------------------------- */

void mvdr_oracle_covariance(size_t n, size_t count, const cplx *x, const double *weight, cplx *r) {
    memset(r, 0, n * n * sizeof *r);
    for (size_t s = 0; s < count; s++) {
        double w = weight ? weight[s] : 1 / (double)count;
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < n; i++)
                r[j * n + i] += w * x[s * n + i] * conj(x[s * n + j]);
    }
}

/* With room behind it: OpenBLAS 0.3.21's zgemv_n for Zen reads past the end of its matrix. */
static cplx *copy_of(size_t count, const cplx *from) {
    cplx *copy = calloc(2 * count + 1024, sizeof *copy);
    if (!copy)
        abort();
    memcpy(copy, from, count * sizeof *copy);
    return copy;
}

void mvdr_oracle_fading(double alpha, size_t count, double *weight) {
    for (size_t i = 0; i < count; i++)
        weight[i] =
            (1 - alpha) * pow(alpha, (double)(count - 1 - i)) / (1 - pow(alpha, (double)count));
}

void mvdr_oracle_average_backward(size_t n, cplx *r) {
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < n; i++) {
            size_t here = j * n + i, there = (n - 1 - j) * n + (n - 1 - i);
            if (here <= there) {
                cplx sum = (r[here] + conj(r[there])) / 2;
                r[here] = sum;
                r[there] = conj(sum);
            }
        }
}

void mvdr_oracle_eigenvalues(size_t n, const cplx *r, double *d) {
    cplx *work = copy_of(n * n, r);
    if (LAPACKE_zheev(LAPACK_COL_MAJOR, 'N', 'U', (int)n, work, (int)n, d) != 0)
        abort();
    for (size_t i = 0; i < n / 2; i++) {
        double swap = d[i];
        d[i] = d[n - 1 - i], d[n - 1 - i] = swap;
    }
    free(work);
}

double mvdr_oracle_delta(const sonar_mvdr_spec *spec, size_t n, const double *d, double snapshots) {
    double trace = 0, rest = 0;
    size_t sources = spec->known_sources;
    for (size_t i = 0; i < n; i++) {
        trace += d[i] / (double)n;
        rest += i >= sources ? d[i] : 0;
    }
    if (spec->loading == SONAR_LOADING_ABSOLUTE)
        return spec->eps;
    if (spec->loading == SONAR_LOADING_TRACE)
        return spec->eps * trace;
    if (snapshots <= 2 * (double)sources + 2)
        return 0.01 * spec->eps * trace;
    if (sources)
        return spec->eps * rest / ((double)(n - sources) * (1 - (double)sources / snapshots));
    size_t count = snapshots < (double)n ? (size_t)(snapshots + 0.5) : n;
    double median = count % 2 ? d[count / 2] : (d[count / 2 - 1] + d[count / 2]) / 2;
    return spec->eps * median * (snapshots < (double)n ? snapshots / (double)n : 1);
}

void mvdr_oracle_power(size_t n, const cplx *r, double delta, size_t count, const cplx *a,
                       double *power) {
    cplx *factor = copy_of(n * n, r), *solved = copy_of(n * count, a);
    for (size_t i = 0; i < n; i++)
        factor[i * n + i] += delta;
    if (LAPACKE_zposv(LAPACK_COL_MAJOR, 'U', (int)n, (int)count, factor, (int)n, solved, (int)n) !=
        0)
        abort();
    for (size_t t = 0; t < count; t++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += creal(conj(a[t * n + i]) * solved[t * n + i]);
        power[t] = 1 / sum;
    }
    free(factor);
    free(solved);
}

/* ---- fixture --------------------------------------------------------------------------------- */

enum { SOUND_MPS = 1500, CENTRE_HZ = 500 };

sonar_mvdr_spec mvdr_fixture_spec(size_t sensors, size_t directions, size_t snapshots) {
    return (sonar_mvdr_spec){.sensors = sensors,
                             .directions = directions,
                             .fs_hz = 2000,
                             .length = 400,
                             .first_bin = 100,
                             .bins = 1,
                             .max_new = snapshots ? snapshots : 1,
                             .snapshots = snapshots,
                             .loading = SONAR_LOADING_TRACE,
                             .eps = 0.01,
                             .method = SONAR_MVDR_ONE_SIDED,
                             .tolerance = 3e-7,
                             .max_sweeps = 30};
}

static double bin_width(const mvdr_fixture *f) {
    return f->spec.fs_hz / (double)f->spec.length;
}

double mvdr_fixture_azimuth_deg(const mvdr_fixture *f, size_t direction) {
    return 180.0 * ((double)direction + 0.5) / (double)f->spec.directions;
}

double mvdr_fixture_delay(const mvdr_fixture *f, size_t sensor, double az_deg) {
    const double *p = f->position_m + 3 * sensor;
    return (p[0] * cos(az_deg * M_PI / 180) + p[1] * sin(az_deg * M_PI / 180)) / SOUND_MPS;
}

void mvdr_fixture_renew(mvdr_fixture *f) {
    size_t sensors = f->spec.sensors;
    f->params.version++;
    f->params.sensors_used = 0;
    for (size_t k = 0; k < sensors; k++)
        f->params.sensors_used += f->used[k];
    for (size_t t = 0; t < f->spec.directions; t++)
        for (size_t k = 0; k < sensors; k++) {
            double turns = bin_width(f) * mvdr_fixture_delay(f, k, mvdr_fixture_azimuth_deg(f, t));
            f->turns[t * sensors + k] = (uint64_t)(int64_t)llrint((turns - rint(turns)) * 0x1p63)
                                        << 1;
        }
}

void mvdr_fixture_open(mvdr_fixture *f, const sonar_mvdr_spec *spec, const sonar_host *host) {
    memset(f, 0, sizeof *f);
    f->spec = *spec;
    f->host = host;
    f->turns = calloc(spec->directions * spec->sensors, sizeof *f->turns);
    f->arrival = calloc(spec->max_new * spec->bins * spec->sensors, sizeof *f->arrival);
    f->azimuth = calloc(spec->directions, sizeof *f->azimuth);
    f->spectrum = calloc(spec->directions * spec->bins, sizeof *f->spectrum);
    f->info = calloc(spec->bins * SONAR_MVDR_INFO_FIELDS, sizeof *f->info);
    for (size_t k = 0; k < spec->sensors; k++) {
        f->position_m[3 * k] =
            ((double)k - ((double)spec->sensors - 1) / 2) * SOUND_MPS / (2.0 * CENTRE_HZ);
        f->used[k] = 1;
    }
    f->params = (sonar_params){.sensors = spec->sensors,
                               .sound_speed_mps = SOUND_MPS,
                               .position_m = f->position_m,
                               .used = f->used,
                               .far_mvdr = {.ranges = 1,
                                            .directions = spec->directions,
                                            .sensors = spec->sensors,
                                            .bin_width_hz = bin_width(f),
                                            .turns = f->turns}};
    mvdr_fixture_renew(f);
    sonar_error err;
    if (sonar_mvdr_jacobi_cpu.create(spec, host, &f->stage, &err))
        abort();
}

void mvdr_fixture_close(mvdr_fixture *f) {
    sonar_mvdr_jacobi_cpu.destroy(f->stage);
    free(f->turns);
    free(f->arrival);
    free(f->azimuth);
    free(f->spectrum);
    free(f->info);
}

void mvdr_fixture_steering(const mvdr_fixture *f, size_t bin, double az_deg, cplx *a) {
    double hz = (double)(f->spec.first_bin + bin) * bin_width(f);
    for (size_t k = 0; k < f->spec.sensors; k++)
        if (f->used[k])
            *a++ = cexp(2 * M_PI * I * hz * mvdr_fixture_delay(f, k, az_deg));
}

sonar_code mvdr_fixture_run(mvdr_fixture *f, size_t count, const sonar_c32 *x) {
    const sonar_mvdr_spec *spec = &f->spec;
    sonar_work work = {.params = &f->params, .outputs = SONAR_WANT(SONAR_MVDR_SPECTRUM)};
    sonar_buffer out[SONAR_MVDR_OUTPUTS];
    size_t values = count * spec->bins * spec->sensors;
    if (values)
        memcpy(f->arrival, x, values * sizeof *x);
    sonar_buffer in =
        sonar_buffer_view(f->arrival, SONAR_C32, 3, (size_t[]){count, spec->bins, spec->sensors});
    out[SONAR_MVDR_OUT_AZIMUTH] =
        sonar_buffer_view(f->azimuth, SONAR_F32, 1, (size_t[]){spec->directions});
    out[SONAR_MVDR_OUT_SPECTRUM] =
        sonar_buffer_view(f->spectrum, SONAR_F32, 2, (size_t[]){spec->bins, spec->directions});
    out[SONAR_MVDR_OUT_INFO] = sonar_buffer_view(
        f->info, SONAR_F32, 2, (size_t[]){spec->bins, (size_t)SONAR_MVDR_INFO_FIELDS});
    return sonar_mvdr_jacobi_cpu.execute(f->stage, NULL, &in, out, &work, NULL);
}

float mvdr_fixture_info(const mvdr_fixture *f, size_t bin, int field) {
    return f->info[bin * SONAR_MVDR_INFO_FIELDS + (size_t)field];
}

double mvdr_fixture_error_db(const mvdr_fixture *f, size_t bin, const cplx *r, double snapshots) {
    size_t n = f->params.sensors_used, directions = f->spec.directions;
    double *d = calloc(n, sizeof *d), *power = calloc(directions, sizeof *power), worst = 0;
    cplx *a = calloc(n * directions, sizeof *a);
    for (size_t t = 0; t < directions; t++)
        mvdr_fixture_steering(f, bin, mvdr_fixture_azimuth_deg(f, t), a + t * n);
    mvdr_oracle_eigenvalues(n, r, d);
    mvdr_oracle_power(n, r, mvdr_oracle_delta(&f->spec, n, d, snapshots), directions, a, power);
    for (size_t t = 0; t < directions; t++) {
        double got = (double)f->spectrum[bin * directions + t];
        double error = got > 0 && isfinite(got) ? fabs(10 * log10(got / power[t])) : 1000;
        worst = error > worst ? error : worst;
    }
    free(d);
    free(power);
    free(a);
    return worst;
}

cplx *mvdr_fixture_covariance(const mvdr_fixture *f, size_t bin, size_t count, const sonar_c32 *x,
                              const double *weight) {
    size_t sensors = f->spec.sensors, n = f->params.sensors_used;
    cplx *wide = calloc(count * n + 1, sizeof *wide), *to = wide;
    cplx *r = calloc(n * n, sizeof *r);
    for (size_t s = 0; s < count; s++)
        for (size_t k = 0; k < sensors; k++) {
            const sonar_c32 *v = &x[(s * f->spec.bins + bin) * sensors + k];
            if (f->used[k])
                *to++ = (double)v->re + I * (double)v->im;
        }
    mvdr_oracle_covariance(n, count, wide, weight, r);
    free(wide);
    return r;
}

void mvdr_scene(const mvdr_fixture *f, const mvdr_wave *waves, size_t count, uint64_t *state,
                sonar_c32 *x) {
    for (size_t bin = 0; bin < f->spec.bins; bin++) {
        cplx sum[FIXTURE_SENSORS];
        double hz = (double)(f->spec.first_bin + bin) * bin_width(f);
        for (size_t k = 0; k < f->spec.sensors; k++)
            sum[k] = test_gauss(state);
        for (size_t w = 0; w < count; w++) {
            cplx s = pow(10, waves[w].level_db / 20) * test_gauss(state);
            for (size_t k = 0; k < f->spec.sensors; k++)
                sum[k] += s * cexp(2 * M_PI * I * hz * mvdr_fixture_delay(f, k, waves[w].az_deg));
        }
        for (size_t k = 0; k < f->spec.sensors; k++)
            *x++ = (sonar_c32){f->used[k] ? (float)creal(sum[k]) : 0,
                               f->used[k] ? (float)cimag(sum[k]) : 0};
    }
}

sonar_c32 *mvdr_record(const mvdr_fixture *f, size_t count, const mvdr_wave *waves, size_t n,
                       uint64_t seed) {
    size_t stride = f->spec.bins * f->spec.sensors;
    sonar_c32 *x = calloc(count * stride, sizeof *x);
    if (!x)
        abort();
    for (size_t s = 0; s < count; s++)
        mvdr_scene(f, waves, n, &seed, x + s * stride);
    return x;
}
