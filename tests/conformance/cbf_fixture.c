/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cbf_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "manifold/manifold.h"
#include "oracle.h"

static const char *const NAMES[SONAR_CBF_OUTPUTS] = {"azimuth", "near field", "lofar"};

double cbf_bin_hz(const cbf_fixture *f) {
    return f->spec.fs_hz / (double)f->spec.length;
}

static float *make_output(cbf_fixture *f, int which, int rank, const size_t *shape) {
    f->out[which] = sonar_buffer_view(NULL, SONAR_F32, rank, shape);
    if (f->out[which].bytes)
        f->out[which] = site_buffer(f->site, SONAR_F32, rank, shape);
    return sonar_alloc(f->out[which].bytes + 1, 1);
}

void cbf_alloc(cbf_fixture *f, site *site, sonar_cbf_spec spec) {
    size_t n = spec.sensors, directions = spec.directions;
    spec.max_snapshots = sonar_max_size(spec.max_snapshots, 1);
    *f = (cbf_fixture){.site = site, .spec = spec, .snapshots = spec.max_snapshots};
    f->position = sonar_alloc(3 * n, sizeof(double));
    f->az = sonar_alloc(directions, sizeof(double));
    f->u = sonar_alloc(3 * directions, sizeof(double));
    f->shading = sonar_alloc(n, sizeof(float));
    f->x = sonar_alloc(spec.max_snapshots * spec.bins * n, sizeof(sonar_c32));
    for (size_t k = 0; k < n; k++)
        f->shading[k] = 1;
    cbf_scan(f, 10, 160 / (double)directions);
    f->azimuth = make_output(f, SONAR_CBF_AZIMUTH, 1, (size_t[]){directions});
    f->near = make_output(f, SONAR_CBF_NEARFIELD, 2, (size_t[]){spec.ranges, directions});
    f->lofar = make_output(f, SONAR_CBF_LOFAR, 2, (size_t[]){spec.bins, directions});
    f->input =
        site_buffer(site, SONAR_C32, 3, (size_t[]){spec.max_snapshots, spec.bins, spec.sensors});
}

void cbf_renew(cbf_fixture *f) {
    const sonar_cbf_spec *spec = &f->spec;
    sonar_error err = {0};
    const uint64_t version = f->params.version + 1;
    for (size_t d = 0; d < spec->directions; d++)
        oracle_unit(f->az[d], 0, f->u + 3 * d);
    sonar_scan scan = {.count = spec->directions, .az_deg = f->az, .u = f->u};
    free(f->far_turns);
    free(f->near_turns);
    f->near_turns = NULL;
    sonar_manifold_spec table = {.sensors = spec->sensors,
                                 .position_m = f->position,
                                 .scan = &scan,
                                 .range_m = f->range,
                                 .c_mps = CBF_SPEED_MPS,
                                 .bin_width_hz = cbf_bin_hz(f)};
    site_require(f->site, sonar_manifold_make(&table, &f->far_turns, &err), &err);
    table.ranges = spec->ranges;
    if (spec->ranges)
        site_require(f->site, sonar_manifold_make(&table, &f->near_turns, &err), &err);
    f->params = (sonar_params){
        .version = version,
        .sensors = spec->sensors,
        .shading = f->shading,
        .far_cbf = {1, spec->directions, spec->sensors, cbf_bin_hz(f), f->far_turns},
        .near_cbf = {spec->ranges, spec->directions, spec->sensors, cbf_bin_hz(f), f->near_turns}};
    for (size_t k = 0; k < spec->sensors; k++)
        f->params.shading_sum += (double)f->shading[k];
}

void cbf_start(cbf_fixture *f) {
    sonar_error err = {0};
    cbf_renew(f);
    f->ops = f->site->backend->stage("cbf");
    site_require(f->site, f->ops ? SONAR_OK : SONAR_EUNAVAILABLE, &err);
    site_require(f->site, f->ops->create(&f->spec, f->site->host, &f->stage, &err), &err);
}

void cbf_close(cbf_fixture *f) {
    f->ops->destroy(f->stage);
    for (int i = 0; i < SONAR_CBF_OUTPUTS; i++)
        if (f->out[i].data)
            site_free(f->site, &f->out[i]);
    site_free(f->site, &f->input);
    free(f->azimuth);
    free(f->near);
    free(f->lofar);
    free(f->position);
    free(f->az);
    free(f->u);
    free(f->shading);
    free(f->x);
    free(f->far_turns);
    free(f->near_turns);
}

/* ---- arrays and waves ------------------------------------------------------------------------ */

static size_t values(const cbf_fixture *f) {
    return f->spec.max_snapshots * f->spec.bins * f->spec.sensors;
}

void cbf_line(cbf_fixture *f, double spacing_m) {
    size_t n = f->spec.sensors;
    memset(f->position, 0, 3 * n * sizeof *f->position);
    for (size_t k = 0; k < n; k++)
        f->position[3 * k] = ((double)k - (double)(n - 1) / 2) * spacing_m;
}

void cbf_plane(cbf_fixture *f, size_t columns, double spacing_m) {
    for (size_t k = 0; k < f->spec.sensors; k++) {
        f->position[3 * k] = (double)(k % columns) * spacing_m;
        f->position[3 * k + 1] = (double)(k / columns) * spacing_m;
    }
}

void cbf_circle(cbf_fixture *f, double radius_m) {
    for (size_t k = 0; k < f->spec.sensors; k++)
        oracle_unit(360 * (double)k / (double)f->spec.sensors, 0, f->position + 3 * k);
    for (size_t i = 0; i < 3 * f->spec.sensors; i++)
        f->position[i] *= radius_m;
}

void cbf_volume(cbf_fixture *f, double size_m, uint64_t *seed) {
    for (size_t i = 0; i < 3 * f->spec.sensors; i++)
        f->position[i] = size_m * sonar_random_symmetric(seed);
}

void cbf_scan(cbf_fixture *f, double first_deg, double step_deg) {
    for (size_t d = 0; d < f->spec.directions; d++)
        f->az[d] = first_deg + (double)d * step_deg;
}

void cbf_clear(cbf_fixture *f) {
    memset(f->x, 0, values(f) * sizeof *f->x);
}

double cbf_delay(const cbf_fixture *f, size_t sensor, const double u[3], double range_m) {
    const double *p = f->position + 3 * sensor;
    return range_m > 0 ? oracle_delay_near(p, u, range_m, CBF_SPEED_MPS)
                       : oracle_delay_far(p, u, CBF_SPEED_MPS);
}

void cbf_add_wave(cbf_fixture *f, double az_deg, double range_m, double amplitude) {
    double u[3];
    oracle_unit(az_deg, 0, u);
    for (size_t k = 0; k < f->spec.sensors; k++) {
        double tau = cbf_delay(f, k, u, range_m);
        for (size_t i = 0; i < f->spec.max_snapshots * f->spec.bins; i++) {
            size_t s = i / f->spec.bins, b = i % f->spec.bins;
            double turns = (double)(f->spec.first_bin + b) * cbf_bin_hz(f) * tau;
            double a = amplitude * (1 + 0.5 * (double)s);
            sonar_c32 *x = &f->x[i * f->spec.sensors + k];
            x->re += (float)(a * cos(2 * M_PI * (turns - rint(turns))));
            x->im += (float)(a * sin(2 * M_PI * (turns - rint(turns))));
        }
    }
}

void cbf_add_noise(cbf_fixture *f, double power, uint64_t *seed) {
    double size = sqrt(power / 2);
    for (size_t i = 0; i < values(f); i++) {
        f->x[i].re += (float)(size * sonar_random_normal(seed));
        f->x[i].im += (float)(size * sonar_random_normal(seed));
    }
}

void cbf_fill(cbf_fixture *f, uint64_t *seed) {
    size_t n = f->spec.sensors, directions = f->spec.directions;
    for (size_t r = 0; r < f->spec.ranges; r++)
        f->range[r] = 20 * pow(3, (double)r);
    cbf_line(f, 0.7);
    switch (sonar_random_bits(seed) % 6) {
    case 0:
        cbf_volume(f, 30, seed);
        break;
    case 1: /* mirrored about its middle, but not evenly spaced */
        for (size_t k = 0; k < n; k++)
            f->position[3 * k] *= 1 + 1e-3 * fabs(f->position[3 * k]);
        break;
    case 2: /* neither uniform nor mirrored by one sensor */
        f->position[3 * (sonar_random_bits(seed) % n)] += 1e-3;
        break;
    default:
        break;
    }
    if (sonar_random_bits(seed) %
        2) { /* mirrored about broadside, which is a direction of an odd scan */
        double step = 150 / (double)directions;
        cbf_scan(f, 90 - (double)(directions - 1) / 2 * step, step);
    }
    for (size_t k = 0; k < n && n > 2; k++)
        f->shading[k] =
            sonar_random_bits(seed) % 8 ? (float)(1.1 + sonar_random_symmetric(seed)) : 0;
    f->shading[0] = 1;
    cbf_add_wave(f, 30 + 120 * fabs(sonar_random_symmetric(seed)), 0, 1);
    cbf_add_noise(f, 0.02, seed);
}

/* ---- runs ------------------------------------------------------------------------------------ */

void cbf_upload(cbf_fixture *f) {
    site_send(f->site, f->x, &f->input);
}

sonar_code cbf_execute(cbf_fixture *f, uint32_t outputs, sonar_error *err) {
    sonar_work work = {.params = &f->params, .outputs = outputs};
    sonar_buffer in = f->input;
    in.shape[0] = f->snapshots;
    in.bytes = sonar_buffer_count(&in) * sizeof(sonar_c32);
    return f->ops->execute(f->stage, f->site->queue, &in, f->out, &work, err);
}

const float *cbf_surface(const cbf_fixture *f, int which) {
    return which == SONAR_CBF_AZIMUTH     ? f->azimuth
           : which == SONAR_CBF_NEARFIELD ? f->near
                                          : f->lofar;
}

size_t cbf_values(const cbf_fixture *f, int which) {
    return sonar_buffer_count(&f->out[which]);
}

void cbf_fetch(cbf_fixture *f) {
    float *const to[SONAR_CBF_OUTPUTS] = {[SONAR_CBF_AZIMUTH] = f->azimuth,
                                          [SONAR_CBF_NEARFIELD] = f->near,
                                          [SONAR_CBF_LOFAR] = f->lofar};
    for (int i = 0; i < SONAR_CBF_OUTPUTS; i++)
        if (f->out[i].data)
            site_fetch(f->site, &f->out[i], to[i]);
}

void cbf_run(cbf_fixture *f, uint32_t outputs) {
    sonar_error err = {0};
    for (int i = 0; i < SONAR_CBF_OUTPUTS; i++) {
        float *sevens = sonar_alloc(cbf_values(f, i) + 1, sizeof *sevens);
        for (size_t j = 0; j < cbf_values(f, i); j++)
            sevens[j] = 7;
        if (f->out[i].data)
            site_send(f->site, sevens, &f->out[i]);
        free(sevens);
    }
    cbf_upload(f);
    site_require(f->site, cbf_execute(f, outputs, &err), &err);
    cbf_fetch(f);
}

/* ---- judging --------------------------------------------------------------------------------- */

size_t cbf_peak(const float *power, size_t count) {
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (power[i] > power[best])
            best = i;
    return best;
}

double cbf_look(const cbf_fixture *f, const double u[3], double range_m, double *power,
                size_t row) {
    const sonar_cbf_spec *spec = &f->spec;
    double *tau = sonar_alloc(spec->sensors, sizeof *tau), energy = 0;
    for (size_t k = 0; k < spec->sensors; k++)
        tau[k] = cbf_delay(f, k, u, range_m);
    for (size_t b = 0; b < spec->bins; b++) {
        size_t bin = spec->first_bin + b;
        bool in_band = bin >= spec->cbf_first && bin < spec->cbf_first + spec->cbf_bins;
        double p = 0;
        for (size_t s = 0; s < f->snapshots && (power || in_band); s++)
            p += oracle_beam_power(spec->sensors, f->x + (s * spec->bins + b) * spec->sensors,
                                   f->shading, tau, (double)bin * cbf_bin_hz(f)) /
                 (double)f->snapshots;
        if (power)
            power[b * row] = p;
        if (in_band)
            energy += p * cbf_bin_hz(f);
    }
    free(tau);
    return energy;
}

/* A value that is not finite, or not positive where it should be, counts as 999. */
static double worst_db(const float *have, const double *want, size_t count) {
    double peak = 0, worst = 0;
    for (size_t i = 0; i < count; i++)
        peak = fmax(peak, want[i]);
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(have[i]))
            return 999;
        if (want[i] > 1e-6 * peak)
            worst = fmax(worst, have[i] > 0 ? fabs(10 * log10((double)have[i] / want[i])) : 999);
    }
    return worst;
}

void cbf_expect_db(cbf_fixture *f, const char *what, const float *have, const double *want,
                   size_t count) {
    const sonar_cbf_spec *s = &f->spec;
    double worst = worst_db(have, want, count);
    site_expect(f->site, worst < CBF_MOST_DB,
                "%s: %g dB off; %zu snapshots, %zu sensors, %zu directions, %zu ranges, bins %zu "
                "+ %zu (band %zu + %zu)",
                what, worst, f->snapshots, s->sensors, s->directions, s->ranges, s->first_bin,
                s->bins, s->cbf_first, s->cbf_bins);
}

struct looks {
    const cbf_fixture *f;
    double *azimuth, *near, *lofar;
};

static void look_at_direction(void *arg, size_t d, size_t worker) {
    const struct looks *to = arg;
    const cbf_fixture *f = to->f;
    size_t directions = f->spec.directions;
    (void)worker;
    to->azimuth[d] = cbf_look(f, f->u + 3 * d, 0, to->lofar + d, directions);
    for (size_t r = 0; r < f->spec.ranges; r++)
        to->near[r * directions + d] = cbf_look(f, f->u + 3 * d, f->range[r], NULL, 0);
}

void cbf_expect(cbf_fixture *f) {
    size_t directions = f->spec.directions;
    double *lofar = sonar_alloc(f->spec.bins * directions, sizeof *lofar);
    double *azimuth = sonar_alloc(directions, sizeof *azimuth);
    double *near = sonar_alloc(directions * f->spec.ranges + 1, sizeof *near);
    struct looks looks = {f, azimuth, near, lofar};
    f->site->host->parallel(f->site->host->ctx, directions, look_at_direction, &looks);
    cbf_expect_db(f, "azimuth", f->azimuth, azimuth, directions);
    cbf_expect_db(f, "lofar", f->lofar, lofar, f->spec.bins * directions);
    if (f->spec.ranges)
        cbf_expect_db(f, "near field", f->near, near, f->spec.ranges * directions);
    free(lofar);
    free(azimuth);
    free(near);
}

static bool all_sevens(const float *data, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (data[i] != 7)
            return false;
    return true;
}

void cbf_expect_as_cpu(cbf_fixture *f, uint32_t outputs) {
    sonar_error err = {0};
    void *cpu;
    sonar_buffer in = sonar_buffer_view(f->x, SONAR_C32, 3,
                                        (size_t[]){f->snapshots, f->spec.bins, f->spec.sensors});
    sonar_buffer out[SONAR_CBF_OUTPUTS];
    sonar_work work = {.params = &f->params, .outputs = outputs};
    for (int i = 0; i < SONAR_CBF_OUTPUTS; i++) {
        out[i] = sonar_buffer_view(NULL, SONAR_F32, f->out[i].rank, f->out[i].shape);
        out[i].data = sonar_alloc(out[i].bytes + 1, 1);
    }
    site_require(f->site, sonar_cbf_cpu.create(&f->spec, f->site->host, &cpu, &err), &err);
    site_require(f->site, sonar_cbf_cpu.execute(cpu, NULL, &in, out, &work, &err), &err);
    for (int i = 0; i < SONAR_CBF_OUTPUTS; i++) {
        size_t count = cbf_values(f, i);
        double *want = sonar_alloc(count + 1, sizeof *want);
        for (size_t j = 0; j < count; j++)
            want[j] = (double)((float *)out[i].data)[j];
        if (outputs & SONAR_WANT(i))
            cbf_expect_db(f, NAMES[i], cbf_surface(f, i), want, count);
        else
            site_expect(f->site, all_sevens(cbf_surface(f, i), count), "%s touched by wish %u",
                        NAMES[i], outputs);
        free(want);
        free(out[i].data);
    }
    sonar_cbf_cpu.destroy(cpu);
}

void cbf_expect_some(cbf_fixture *f, size_t points, double az_deg, uint64_t *seed) {
    const size_t directions = f->spec.directions, bins = f->spec.bins;
    double *power = sonar_alloc(bins, sizeof *power);
    float *have = sonar_alloc(bins, sizeof *have);
    size_t at = 0;
    while (at + 2 < directions && f->az[at + 1] <= az_deg)
        at++;
    for (size_t i = 0; i < points; i++) {
        size_t d = i < 2 ? at + i : sonar_random_bits(seed) % directions;
        size_t r = sonar_random_bits(seed) % sonar_max_size(f->spec.ranges, 1);
        double energy = cbf_look(f, f->u + 3 * d, 0, power, 1);
        for (size_t b = 0; b < bins; b++)
            have[b] = f->lofar[b * directions + d];
        cbf_expect_db(f, "lofar at a point", have, power, bins);
        cbf_expect_db(f, "azimuth at a point", f->azimuth + d, &energy, 1);
        energy = f->spec.ranges ? cbf_look(f, f->u + 3 * d, f->range[r], NULL, 0) : 0;
        if (f->spec.ranges)
            cbf_expect_db(f, "near field at a point", f->near + r * directions + d, &energy, 1);
    }
    free(power);
    free(have);
}
