/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The conventional beamformer and its shading against plain double precision and physics. */
#include "cbf/cbf.h"
#include "core/core.h"
#include "manifold/manifold.h"
#include "oracle.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SPEED 1500.0

/* ---- a stage with its parameters, input and outputs ------------------------------------------ */

struct rig {
    sonar_cbf_spec spec;
    sonar_params params;
    double *position, *az, *u, range[64];
    float *shading, *azimuth, *near, *lofar;
    sonar_c32 *x;     /* [snapshot][bin][sensor] */
    size_t snapshots; /* of a run; all of spec.max_snapshots to begin with */
    uint64_t *far_turns, *near_turns;
    sonar_buffer out[SONAR_CBF_OUTPUTS];
    void *stage;
};

static double bin_hz(const struct rig *rig) {
    return rig->spec.fs_hz / (double)rig->spec.length;
}

static void rig_alloc(struct rig *rig, sonar_cbf_spec spec) {
    size_t n = spec.sensors, points = spec.directions * spec.ranges;
    *rig = (struct rig){.spec = spec, .snapshots = spec.max_snapshots};
    rig->position = sonar_alloc(3 * n, sizeof(double));
    rig->az = sonar_alloc(spec.directions, sizeof(double));
    rig->u = sonar_alloc(3 * spec.directions, sizeof(double));
    rig->shading = sonar_alloc(n, sizeof(float));
    rig->x = sonar_alloc(spec.max_snapshots * spec.bins * n, sizeof(sonar_c32));
    rig->azimuth = sonar_alloc(spec.directions, sizeof(float));
    rig->near = sonar_alloc(points, sizeof(float));
    rig->lofar = sonar_alloc(spec.bins * spec.directions, sizeof(float));
    size_t far[1] = {spec.directions}, near[2] = {spec.ranges, spec.directions};
    size_t lofar[2] = {spec.bins, spec.directions};
    rig->out[SONAR_CBF_AZIMUTH] = sonar_buffer_view(rig->azimuth, SONAR_F32, 1, far);
    rig->out[SONAR_CBF_NEARFIELD] = sonar_buffer_view(rig->near, SONAR_F32, 2, near);
    rig->out[SONAR_CBF_LOFAR] = sonar_buffer_view(rig->lofar, SONAR_F32, 2, lofar);
    for (size_t k = 0; k < n; k++)
        rig->shading[k] = 1;
}

/* Directions from az, tables and the stage; positions, ranges and shading are set before. */
static void rig_start(struct rig *rig, const sonar_host *host) {
    const sonar_cbf_spec *spec = &rig->spec;
    sonar_error err = {0};
    for (size_t d = 0; d < spec->directions; d++)
        oracle_unit(rig->az[d], 0, rig->u + 3 * d);
    sonar_scan scan = {.count = spec->directions, .az_deg = rig->az, .u = rig->u};
    cr_assert_eq(sonar_manifold_make(spec->sensors, rig->position, &scan, 0, NULL, SONAR_RADIAL,
                                     SPEED, bin_hz(rig), &rig->far_turns, &err),
                 SONAR_OK);
    if (spec->ranges)
        cr_assert_eq(sonar_manifold_make(spec->sensors, rig->position, &scan, spec->ranges,
                                         rig->range, SONAR_RADIAL, SPEED, bin_hz(rig),
                                         &rig->near_turns, &err),
                     SONAR_OK);
    rig->params = (sonar_params){
        .version = 1,
        .sensors = spec->sensors,
        .shading = rig->shading,
        .far_cbf = {1, spec->directions, spec->sensors, bin_hz(rig), rig->far_turns},
        .near_cbf = {spec->ranges, spec->directions, spec->sensors, bin_hz(rig), rig->near_turns}};
    for (size_t k = 0; k < spec->sensors; k++)
        rig->params.shading_sum += (double)rig->shading[k];
    cr_assert_eq(sonar_cbf_cpu.create(spec, host, &rig->stage, &err), SONAR_OK, "%s", err.text);
}

static void rig_run(struct rig *rig, uint32_t outputs) {
    size_t shape[3] = {rig->snapshots, rig->spec.bins, rig->spec.sensors};
    sonar_buffer in = sonar_buffer_view(rig->x, SONAR_C32, 3, shape);
    sonar_work work = {.params = &rig->params, .outputs = outputs};
    sonar_error err = {0};
    cr_assert_eq(sonar_cbf_cpu.execute(rig->stage, NULL, &in, rig->out, &work, &err), SONAR_OK,
                 "%s", err.text);
}

enum {
    AZIMUTH = SONAR_WANT(SONAR_CBF_AZIMUTH),
    NEARFIELD = SONAR_WANT(SONAR_CBF_NEARFIELD),
    LOFAR = SONAR_WANT(SONAR_CBF_LOFAR),
    ALL = AZIMUTH | NEARFIELD | LOFAR
};

static void rig_close(struct rig *rig) {
    sonar_cbf_cpu.destroy(rig->stage);
    free(rig->position);
    free(rig->az);
    free(rig->u);
    free(rig->shading);
    free(rig->x);
    free(rig->azimuth);
    free(rig->near);
    free(rig->lofar);
    free(rig->far_turns);
    free(rig->near_turns);
}

/* ---- arrays and waves ------------------------------------------------------------------------ */

static void line(struct rig *rig, double spacing_m) {
    size_t n = rig->spec.sensors;
    for (size_t k = 0; k < n; k++)
        rig->position[3 * k] = ((double)k - (double)(n - 1) / 2) * spacing_m;
}

static void circle(struct rig *rig, double radius_m) {
    for (size_t k = 0; k < rig->spec.sensors; k++)
        oracle_unit(360 * (double)k / (double)rig->spec.sensors, 0, rig->position + 3 * k);
    for (size_t i = 0; i < 3 * rig->spec.sensors; i++)
        rig->position[i] *= radius_m;
}

static void plane(struct rig *rig, size_t columns, double spacing_m) {
    for (size_t k = 0; k < rig->spec.sensors; k++) {
        rig->position[3 * k] = (double)(k % columns) * spacing_m;
        rig->position[3 * k + 1] = (double)(k / columns) * spacing_m;
    }
}

static void volume(struct rig *rig, double size_m, uint64_t seed) {
    for (size_t i = 0; i < 3 * rig->spec.sensors; i++)
        rig->position[i] = size_m * sonar_random_symmetric(&seed);
}

static void scan(struct rig *rig, double first_deg, double step_deg) {
    for (size_t d = 0; d < rig->spec.directions; d++)
        rig->az[d] = first_deg + (double)d * step_deg;
}

static size_t values(const struct rig *rig) {
    return rig->spec.max_snapshots * rig->spec.bins * rig->spec.sensors;
}

/* Adds amplitude e^{+j 2 pi f tau} from az (and range; 0: far field) to every bin, louder from
 * snapshot to snapshot. */
static void add_wave(struct rig *rig, double az_deg, double range_m, double amplitude) {
    double u[3];
    oracle_unit(az_deg, 0, u);
    for (size_t k = 0; k < rig->spec.sensors; k++) {
        const double *p = rig->position + 3 * k;
        double tau =
            range_m > 0 ? oracle_delay_near(p, u, range_m, SPEED) : oracle_delay_far(p, u, SPEED);
        for (size_t i = 0; i < rig->spec.max_snapshots * rig->spec.bins; i++) {
            size_t s = i / rig->spec.bins, b = i % rig->spec.bins;
            double turns = (double)(rig->spec.first_bin + b) * bin_hz(rig) * tau;
            double a = amplitude * (1 + 0.5 * (double)s);
            sonar_c32 *x = &rig->x[i * rig->spec.sensors + k];
            x->re += (float)(a * cos(2 * M_PI * (turns - rint(turns))));
            x->im += (float)(a * sin(2 * M_PI * (turns - rint(turns))));
        }
    }
}

/* Complex Gaussian noise of mean square `power` per bin and sensor. */
static void add_noise(struct rig *rig, double power, uint64_t seed) {
    double size = sqrt(power / 2);
    for (size_t i = 0; i < values(rig); i++) {
        rig->x[i].re += (float)(size * sonar_random_normal(&seed));
        rig->x[i].im += (float)(size * sonar_random_normal(&seed));
    }
}

static void clear(struct rig *rig) {
    memset(rig->x, 0, values(rig) * sizeof *rig->x);
}

static size_t peak_of(const float *power, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (power[i] > power[best])
            best = i;
    return best;
}

/* ---- against the oracle ---------------------------------------------------------------------- */

/* 0.01 dB wherever the reference is within 60 dB of its peak. */
static void expect_equal_db(const float *have, const double *want, size_t n, const char *what) {
    double peak = 0;
    for (size_t i = 0; i < n; i++)
        peak = fmax(peak, want[i]);
    for (size_t i = 0; i < n; i++)
        if (want[i] > 1e-6 * peak)
            cr_assert_lt(fabs(10 * log10((double)have[i] / want[i])), 0.01,
                         "%s %zu of %zu: %g, not %g (peak %g)", what, i, n, (double)have[i],
                         want[i], peak);
}

/* range_m 0: far field. lofar (if not NULL) gets [bin][direction], energy [direction]. */
static void reference(const struct rig *rig, double range_m, double *lofar, double *energy) {
    const sonar_cbf_spec *spec = &rig->spec;
    double *tau = sonar_alloc(spec->sensors, sizeof *tau);
    for (size_t d = 0; d < spec->directions; d++) {
        energy[d] = 0;
        for (size_t k = 0; k < spec->sensors; k++) {
            const double *p = rig->position + 3 * k, *u = rig->u + 3 * d;
            tau[k] = range_m > 0 ? oracle_delay_near(p, u, range_m, SPEED)
                                 : oracle_delay_far(p, u, SPEED);
        }
        for (size_t b = 0; b < spec->bins; b++) {
            size_t bin = spec->first_bin + b;
            double power = 0;
            for (size_t s = 0; s < rig->snapshots; s++)
                power +=
                    oracle_beam_power(spec->sensors, rig->x + (s * spec->bins + b) * spec->sensors,
                                      rig->shading, tau, (double)bin * bin_hz(rig));
            power /= (double)rig->snapshots;
            if (lofar)
                lofar[b * spec->directions + d] = power;
            if (bin >= spec->cbf_first && bin < spec->cbf_first + spec->cbf_bins)
                energy[d] += bin_hz(rig) * power;
        }
    }
    free(tau);
}

static void compare_with_oracle(struct rig *rig) {
    const sonar_cbf_spec *spec = &rig->spec;
    double *lofar = sonar_alloc(spec->bins * spec->directions, sizeof *lofar);
    double *energy = sonar_alloc(spec->directions, sizeof *energy);
    double *near = sonar_alloc(spec->directions * spec->ranges, sizeof *near);
    rig_run(rig, ALL);
    reference(rig, 0, lofar, energy);
    expect_equal_db(rig->azimuth, energy, spec->directions, "azimuth");
    expect_equal_db(rig->lofar, lofar, spec->bins * spec->directions, "lofar");
    for (size_t r = 0; r < spec->ranges; r++)
        reference(rig, rig->range[r], NULL, near + r * spec->directions);
    expect_equal_db(rig->near, near, spec->ranges * spec->directions, "near field");
    free(lofar);
    free(energy);
    free(near);
}

Test(cbf, random_sizes) {
    const sonar_cbf_spec cases[] = {{1, 1, 0, 8000, 512, 10, 1, 10, 1, 1},
                                    {2, 5, 1, 8000, 512, 0, 257, 3, 7, 1},
                                    {3, 33, 2, 8000, 512, 37, 83, 50, 41, 1},
                                    {17, 31, 3, 8000, 512, 1, 129, 1, 129, 1},
                                    {128, 9, 2, 8000, 8192, 327, 37, 340, 11, 1},
                                    {250, 7, 2, 8000, 8192, 100, 130, 101, 128, 1},
                                    {129, 3, 1, 96000, 1000, 3, 400, 60, 259, 1},
                                    {8, 65, 0, 8000, 512, 5, 2, 6, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig rig;
        uint64_t seed = i;
        rig_alloc(&rig, cases[i]);
        volume(&rig, 30, i);
        scan(&rig, 3, 11.3);
        for (size_t k = 0; k < rig.spec.sensors; k++)
            rig.shading[k] = (float)(1.1 + sonar_random_symmetric(&seed));
        for (size_t r = 0; r < rig.spec.ranges; r++)
            rig.range[r] = 80 * pow(2.5, (double)r);
        rig_start(&rig, sonar_host_serial());
        add_noise(&rig, 1, i);
        compare_with_oracle(&rig);
        rig_close(&rig);
    }
}

/* A strong wave and deep nulls: errors of the phase show between the side lobes. */
Test(cbf, deep_side_lobes_of_shaded_line) {
    struct rig rig;
    double g[96];
    rig_alloc(&rig, (sonar_cbf_spec){96, 181, 1, 8000, 8192, 500, 255, 600, 100, 1});
    line(&rig, 0.75);
    scan(&rig, 0, 1);
    rig.range[0] = 500;
    cr_assert_eq(sonar_cbf_shading(SONAR_SHADING_CHEBYSHEV, 55, 0, 96, g, NULL), SONAR_OK);
    for (size_t k = 0; k < 96; k++)
        rig.shading[k] = (float)g[k];
    rig_start(&rig, sonar_host_serial());
    add_wave(&rig, 71.5, 0, 1);
    compare_with_oracle(&rig);
    rig_close(&rig);
}

/* 32768 sensors: beyond 1e5 rad of phase, where float32 phases are long wrong. */
Test(cbf, very_long_line_far_off_broadside) {
    struct rig rig;
    rig_alloc(&rig, (sonar_cbf_spec){32768, 4, 0, 16000, 32768, 16380, 5, 16380, 5, 1});
    line(&rig, 0.09375);
    const double az[4] = {12, 12.004, 12.05, 90};
    memcpy(rig.az, az, sizeof az);
    rig_start(&rig, sonar_host_serial());
    double most = 2 * M_PI * 8000 * rig.position[3 * 32767] / SPEED;
    cr_assert_gt(2 * most, 1e5);
    add_wave(&rig, 12, 0, 1);
    add_noise(&rig, 1, 1);
    compare_with_oracle(&rig);
    cr_assert_eq(peak_of(rig.azimuth, 4), 0);
    cr_assert_float_eq((double)rig.azimuth[0] / (5 * bin_hz(&rig)), 1, 0.05);
    rig_close(&rig);
}

/* ---- several snapshots ----------------------------------------------------------------------- */

/* Odd sizes, masks and shading; an interferer 60 dB above the noise, whose side lobes are all there
 * is within 60 dB of the peak. */
Test(cbf, snapshots_are_averaged) {
    static const size_t counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 33};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct rig rig;
        uint64_t seed = i;
        rig_alloc(&rig, (sonar_cbf_spec){67, 35, 2, 8000, 8192, 401, 141, 420, 37, counts[i]});
        volume(&rig, 20, i);
        scan(&rig, 3, 9.7);
        for (size_t k = 0; k < 67; k++)
            rig.shading[k] = k % 9 == 4 ? 0 : (float)(1.1 + sonar_random_symmetric(&seed));
        rig.range[0] = 90;
        rig.range[1] = 400;
        rig_start(&rig, sonar_host_serial());
        add_noise(&rig, 1e-3, i);
        if (i % 2)
            add_wave(&rig, 77, i % 4 == 1 ? 0 : 90, 1);
        compare_with_oracle(&rig);
        rig_close(&rig);
    }
}

/* One call with all snapshots is the mean of calls with one each; rows and snapshots may lie apart.
 */
Test(cbf, snapshots_with_gaps_between_rows) {
    enum { SNAPSHOTS = 5, BINS = 9, SENSORS = 30, DIRECTIONS = 33, ROW = 40, ROWS = 12 };
    struct rig rig;
    rig_alloc(&rig, (sonar_cbf_spec){SENSORS, DIRECTIONS, 0, 8000, 512, 20, BINS, 20, BINS, 5});
    volume(&rig, 10, 1);
    scan(&rig, 0, 10);
    rig_start(&rig, sonar_host_serial());
    add_noise(&rig, 1, 2);
    sonar_c32 *apart = sonar_alloc((size_t)SNAPSHOTS * ROWS * ROW, sizeof *apart);
    for (size_t i = 0; i < (size_t)SNAPSHOTS * ROWS * ROW; i++)
        apart[i] = (sonar_c32){NAN, NAN}; /* what must not be read */
    for (size_t i = 0; i < (size_t)SNAPSHOTS * BINS; i++)
        memcpy(apart + (i / BINS * ROWS + i % BINS) * ROW, rig.x + i * SENSORS,
               SENSORS * sizeof *apart);
    double mean[DIRECTIONS] = {0};
    rig_run(&rig, ALL);
    float together[DIRECTIONS];
    memcpy(together, rig.azimuth, sizeof together);
    sonar_buffer in = sonar_buffer_view(apart, SONAR_C32, 3, (size_t[]){SNAPSHOTS, BINS, SENSORS});
    in.stride[0] = (ptrdiff_t)ROWS * ROW;
    in.stride[1] = ROW;
    sonar_work work = {.params = &rig.params, .outputs = ALL};
    cr_assert_eq(sonar_cbf_cpu.execute(rig.stage, NULL, &in, rig.out, &work, NULL), SONAR_OK);
    cr_assert_eq(memcmp(together, rig.azimuth, sizeof together), 0);
    for (size_t s = 0; s < SNAPSHOTS; s++) {
        in.shape[0] = 1;
        in.data = apart + s * ROWS * ROW;
        cr_assert_eq(sonar_cbf_cpu.execute(rig.stage, NULL, &in, rig.out, &work, NULL), SONAR_OK);
        for (size_t d = 0; d < DIRECTIONS; d++)
            mean[d] += (double)rig.azimuth[d] / SNAPSHOTS;
    }
    expect_equal_db(together, mean, DIRECTIONS, "mean of single snapshots");
    free(apart);
    rig_close(&rig);
}

/* ---- bearings -------------------------------------------------------------------------------- */

static const sonar_cbf_spec turning = {48, 360, 0, 8000, 1024, 70, 21, 70, 21, 1};

static void expect_peaks(struct rig *rig, bool mirrored) {
    rig_start(rig, sonar_host_serial());
    for (size_t az = 0; az < 360; az += 7) {
        clear(rig);
        add_wave(rig, (double)az, 0, 1);
        rig_run(rig, AZIMUTH);
        size_t peak = peak_of(rig->azimuth, rig->spec.directions);
        cr_assert(peak == az || (mirrored && peak == (360 - az) % 360), "%zu for %zu", peak, az);
        cr_assert_float_eq((double)rig->azimuth[az], 21 * bin_hz(rig), 1e-3);
        if (mirrored)
            cr_assert_float_eq((double)rig->azimuth[(360 - az) % 360], 21 * bin_hz(rig), 1e-3);
    }
    rig_close(rig);
}

Test(cbf, line_finds_bearing_and_mirror) {
    struct rig rig;
    rig_alloc(&rig, turning);
    line(&rig, 1);
    scan(&rig, 0, 1);
    expect_peaks(&rig, true);
}

Test(cbf, circle_finds_bearing) {
    struct rig rig;
    rig_alloc(&rig, turning);
    circle(&rig, 5);
    scan(&rig, 0, 1);
    expect_peaks(&rig, false);
}

Test(cbf, plane_finds_bearing) {
    struct rig rig;
    rig_alloc(&rig, turning);
    plane(&rig, 8, 0.9);
    scan(&rig, 0, 1);
    expect_peaks(&rig, false);
}

Test(cbf, volume_finds_bearing) {
    struct rig rig;
    rig_alloc(&rig, turning);
    volume(&rig, 6, 3);
    scan(&rig, 0, 1);
    expect_peaks(&rig, false);
}

/* A wrong sign of phase or of time mirrors 60 to 120; so would an exchange of ends. */
Test(cbf, sixty_is_not_a_hundred_and_twenty) {
    struct rig rig;
    rig_alloc(&rig, (sonar_cbf_spec){32, 181, 0, 8000, 1024, 70, 21, 70, 21, 1});
    line(&rig, 1);
    scan(&rig, 0, 1);
    rig_start(&rig, sonar_host_serial());
    for (size_t b = 0; b < 21; b++) /* written out: element +x hears a wave from ahead first */
        for (size_t k = 0; k < 32; k++) {
            double early = rig.position[3 * k] * 0.5 / SPEED;
            double phase = 2 * M_PI * (70 + (double)b) * 8000 / 1024 * early;
            rig.x[b * 32 + k] = (sonar_c32){(float)cos(phase), (float)sin(phase)};
        }
    rig_run(&rig, AZIMUTH);
    cr_assert_eq(peak_of(rig.azimuth, 181), 60);
    cr_assert_lt(rig.azimuth[120], 0.01f * rig.azimuth[60]);
    rig_close(&rig);
}

/* A fine ladder in 1/r focuses on the source's own cell, from three apertures on. */
Test(cbf, near_field_focuses_on_the_range) {
    struct rig rig;
    const double aperture = 127 * 0.75;
    rig_alloc(&rig, (sonar_cbf_spec){128, 3, 24, 8000, 4096, 400, 60, 400, 60, 1});
    line(&rig, 0.75);
    scan(&rig, 78, 2);
    for (size_t r = 0; r < 24; r++)
        rig.range[r] = 3 * aperture / (1 - (double)r / 30);
    rig_start(&rig, sonar_host_serial());
    for (size_t r = 0; r < 24; r++)
        for (size_t d = 0; d < 3; d++) {
            clear(&rig);
            add_wave(&rig, rig.az[d], rig.range[r], 1);
            rig_run(&rig, NEARFIELD);
            cr_assert_eq(peak_of(rig.near, 72), 3 * r + d, "range %g", rig.range[r]);
            cr_assert_float_eq((double)rig.near[3 * r + d], 60 * bin_hz(&rig), 1e-2);
        }
    rig_close(&rig);
}

Test(cbf, mask_moves_no_bearing_and_keeps_the_level) {
    struct rig rig;
    rig_alloc(&rig, (sonar_cbf_spec){64, 181, 0, 8000, 1024, 70, 21, 70, 21, 1});
    line(&rig, 1);
    scan(&rig, 0, 1);
    uint64_t seed = 8;
    for (size_t masked = 0; masked < 10;) {
        float *g = &rig.shading[sonar_random_bits(&seed) % 64];
        masked += *g > 0;
        *g = 0;
    }
    rig_start(&rig, sonar_host_serial());
    for (size_t az = 5; az < 180; az += 17) {
        clear(&rig);
        add_wave(&rig, (double)az, 0, 1);
        for (size_t i = 0; i < 64 * 21; i++)
            if (rig.shading[i % 64] == 0)
                rig.x[i] = (sonar_c32){0, 0};
        rig_run(&rig, AZIMUTH);
        cr_assert_eq(peak_of(rig.azimuth, 181), az);
        cr_assert_float_eq((double)rig.azimuth[az] / (21 * bin_hz(&rig)), 1, 1e-4);
    }
    rig_close(&rig);
}

Test(cbf, everything_masked_is_silence) {
    struct rig rig;
    rig_alloc(&rig, (sonar_cbf_spec){5, 3, 1, 8000, 64, 1, 9, 1, 9, 1});
    rig.range[0] = 100;
    memset(rig.shading, 0, 5 * sizeof(float));
    rig_start(&rig, sonar_host_serial());
    rig_run(&rig, ALL);
    for (size_t d = 0; d < 3; d++)
        cr_assert(rig.azimuth[d] == 0 && rig.near[d] == 0 && rig.lofar[d] == 0);
    rig_close(&rig);
}

/* Signal keeps its level while noise falls by the number of elements: 8400 bin-windows. */
Test(cbf, array_gain_is_the_number_of_elements) {
    struct rig rig;
    rig_alloc(&rig, (sonar_cbf_spec){128, 2, 0, 8000, 8192, 0, 4097, 0, 4097, 1});
    line(&rig, 0.1875);
    scan(&rig, 60, 47);
    rig_start(&rig, sonar_host_serial());
    double noise[2] = {0};
    for (uint64_t window = 0; window < 2; window++) {
        clear(&rig);
        add_noise(&rig, 1, 40 + window);
        rig_run(&rig, AZIMUTH);
        for (size_t d = 0; d < 2; d++)
            noise[d] += (double)rig.azimuth[d] / (2 * 4097 * bin_hz(&rig));
    }
    for (size_t d = 0; d < 2; d++)
        cr_assert_float_eq(-10 * log10(noise[d]), 10 * log10(128), 0.2);
    rig_close(&rig);
}

/* ---- outputs, threads, points off the grid --------------------------------------------------- */

static void noisy_rig(struct rig *rig, size_t snapshots, const sonar_host *host) {
    rig_alloc(rig, (sonar_cbf_spec){141, 67, 3, 8000, 8192, 100, 300, 150, 201, snapshots});
    volume(rig, 20, 9);
    scan(rig, 0, 5.37);
    for (size_t r = 0; r < 3; r++)
        rig->range[r] = 50 * pow(3, (double)r);
    rig_start(rig, host);
    add_noise(rig, 1, 10);
    add_wave(rig, 33, 0, 1);
}

Test(cbf, workers_change_no_bit) {
    struct rig rig[3];
    for (size_t workers = 1; workers <= 3; workers++) {
        sonar_pool *pool;
        cr_assert_eq(sonar_pool_create(workers, NULL, &pool, NULL), SONAR_OK);
        sonar_host host = *sonar_host_serial();
        host.ctx = pool;
        host.parallel = sonar_pool_parallel;
        host.workers = workers;
        struct rig *r = &rig[workers - 1];
        noisy_rig(r, 6, &host);
        rig_run(r, ALL);
        cr_assert_eq(memcmp(r->azimuth, rig->azimuth, 67 * sizeof(float)), 0);
        cr_assert_eq(memcmp(r->near, rig->near, 3 * 67 * sizeof(float)), 0);
        cr_assert_eq(memcmp(r->lofar, rig->lofar, 300 * 67 * sizeof(float)), 0);
        sonar_pool_destroy(pool);
    }
    for (size_t i = 0; i < 3; i++)
        rig_close(&rig[i]);
}

/* Every subset of surfaces: the wanted ones as in a full run, the others as they were. */
Test(cbf, only_wanted_outputs_are_touched) {
    struct rig full, rig;
    noisy_rig(&full, 1, sonar_host_serial());
    noisy_rig(&rig, 1, sonar_host_serial());
    rig_run(&full, ALL);
    for (uint32_t wanted = 0; wanted < 8; wanted++) {
        for (int i = 0; i < SONAR_CBF_OUTPUTS; i++)
            memset(rig.out[i].data, 0x5a, rig.out[i].bytes);
        rig_run(&rig, wanted);
        for (int i = 0; i < SONAR_CBF_OUTPUTS; i++) {
            const unsigned char *data = rig.out[i].data;
            if (wanted & SONAR_WANT(i))
                cr_assert_eq(memcmp(data, full.out[i].data, rig.out[i].bytes), 0);
            for (size_t j = 0; j < rig.out[i].bytes && !(wanted & SONAR_WANT(i)); j++)
                cr_assert_eq(data[j], 0x5a);
        }
    }
    rig_close(&full);
    rig_close(&rig);
}

Test(cbf, evaluate_equals_execute_on_the_grid) {
    struct rig rig;
    float *power = sonar_alloc(67 * 5, sizeof *power);
    uint64_t *turns = sonar_alloc((size_t)67 * 5 * 141, sizeof *turns);
    noisy_rig(&rig, 3, sonar_host_serial());
    sonar_c32 *first = rig.x;
    rig_run(&rig, ALL);
    rig.x = sonar_alloc(values(&rig), sizeof *rig.x);
    add_noise(&rig, 1, 11);
    rig_run(&rig, ALL);            /* the input of this one counts */
    for (size_t i = 0; i < 5; i++) /* more points than the near field's grid has */
        memcpy(turns + i * 67 * 141, rig.far_turns, sizeof(uint64_t) * 67 * 141);
    size_t table[2] = {(size_t)67 * 5, 141};
    sonar_buffer points = sonar_buffer_view(turns, SONAR_U64, 2, table);
    sonar_buffer result = sonar_buffer_view(power, SONAR_F32, 1, table);
    sonar_work work = {.params = &rig.params};
    cr_assert_eq(sonar_cbf_cpu.evaluate(rig.stage, NULL, &points, &result, &work, NULL), SONAR_OK);
    for (size_t i = 0; i < table[0]; i++)
        cr_assert_float_eq((double)(power[i] / rig.azimuth[i % 67]), 1, 1e-5);
    points.shape[0] = 0;
    cr_assert_eq(sonar_cbf_cpu.evaluate(rig.stage, NULL, &points, &result, &work, NULL), SONAR_OK);
    rig_close(&rig);
    free(first);
    free(power);
    free(turns);
}

Test(cbf, misuse_is_refused) {
    struct rig rig;
    void *stage;
    noisy_rig(&rig, 1, sonar_host_serial());
    sonar_buffer in = rig.out[SONAR_CBF_LOFAR];
    sonar_work work = {.params = &rig.params, .outputs = ALL};
    cr_assert_eq(sonar_cbf_cpu.evaluate(rig.stage, NULL, &in, &rig.out[0], &work, NULL),
                 SONAR_ESTATE);
    cr_assert_eq(sonar_cbf_cpu.execute(rig.stage, NULL, &in, rig.out, &work, NULL), SONAR_EINVAL);
    in = sonar_buffer_view(rig.x, SONAR_C32, 2, (const size_t[]){300, 141});
    cr_assert_eq(sonar_cbf_cpu.execute(rig.stage, NULL, &in, rig.out, &work, NULL), SONAR_EINVAL,
                 "no snapshots");
    for (size_t snapshots = 0; snapshots <= 2; snapshots++) {
        in = sonar_buffer_view(rig.x, SONAR_C32, 3, (const size_t[]){snapshots, 300, 141});
        cr_assert_eq(sonar_cbf_cpu.execute(rig.stage, NULL, &in, rig.out, &work, NULL),
                     snapshots == 1 ? SONAR_OK : SONAR_EINVAL, "%zu snapshots", snapshots);
    }
    in = sonar_buffer_view(rig.x, SONAR_C32, 3, (const size_t[]){1, 300, 141});
    rig.params.far_cbf.bin_width_hz *= 2;
    cr_assert_eq(sonar_cbf_cpu.execute(rig.stage, NULL, &in, rig.out, &work, NULL), SONAR_EINVAL,
                 "turns for another bin width");
    sonar_cbf_spec bad[] = {rig.spec, rig.spec, rig.spec, rig.spec, rig.spec};
    bad[0].cbf_first = 99;
    bad[1].cbf_bins = 251;
    bad[2].sensors = 0;
    bad[3].cbf_bins = 0;
    bad[4].max_snapshots = 0;
    for (size_t i = 0; i < 5; i++)
        cr_assert_eq(sonar_cbf_cpu.create(&bad[i], sonar_host_serial(), &stage, NULL),
                     SONAR_EINVAL);
    sonar_cbf_cpu.destroy(NULL);
    rig_close(&rig);
}

/* ---- shading --------------------------------------------------------------------------------- */

/* Array factor of n elements half a wavelength apart at psi = 0..pi, dB re its peak. */
static double pattern_db(const double *g, size_t n, double psi) {
    double complex y = 0;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        y += g[i] * cexp(I * psi * (double)i);
        sum += g[i];
    }
    return 20 * log10(cabs(y) / sum + 1e-15);
}

/* Levels of the side lobes, from the main lobe outwards, at most `most`. */
static size_t side_lobes(const double *g, size_t n, double *level, size_t most) {
    const double step = M_PI / (200 * (double)n);
    size_t count = 0;
    double before = 0, now = pattern_db(g, n, step);
    for (double psi = 2 * step; psi < M_PI && count < most; psi += step) {
        double next = pattern_db(g, n, psi);
        if (now > before && now >= next)
            level[count++] = now;
        before = now;
        now = next;
    }
    return count;
}

Test(shading, chebyshev_side_lobes_are_equal) {
    const size_t sizes[] = {3, 4, 10, 33, 64};
    const double levels[] = {15, 26, 30, 45, 60};
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 5; j++) {
            double g[64], level[64];
            cr_assert_eq(
                sonar_cbf_shading(SONAR_SHADING_CHEBYSHEV, levels[j], 0, sizes[i], g, NULL),
                SONAR_OK);
            size_t found = side_lobes(g, sizes[i], level, 64);
            cr_assert(sizes[i] < 10 || found >= sizes[i] / 2 - 4);
            for (size_t k = 0; k < found; k++)
                cr_assert_float_eq(level[k], -levels[j], 0.1, "n %zu: %g", sizes[i], level[k]);
        }
}

/* Ten elements, side lobes 20:1: T9(z cos u) multiplied out into cosines (as Balanis, Antenna
 * Theory, section 6.8, whose own figures, rounded on the way, differ by up to 1 %). */
Test(shading, chebyshev_textbook_weights) {
    double z = cosh(acosh(20) / 9), z2 = z * z, z3 = z * z2, z5 = z3 * z2, z7 = z5 * z2;
    double z9 = z7 * z2, g[10];
    const double want[5] = {z9, 9 * z9 - 9 * z7, 36 * z9 - 63 * z7 + 27 * z5,
                            84 * z9 - 189 * z7 + 135 * z5 - 30 * z3,
                            126 * z9 - 315 * z7 + 270 * z5 - 90 * z3 + 9 * z};
    const double rounded[5] = {1, 1.357, 1.974, 2.496, 2.798};
    sonar_cbf_shading(SONAR_SHADING_CHEBYSHEV, 20 * log10(20), 0, 10, g, NULL);
    for (size_t i = 0; i < 5; i++) {
        cr_assert_float_eq(g[i], want[i] / want[4], 1e-12);
        cr_assert_float_eq(g[i] / g[0] / rounded[i], 1, 0.01);
        cr_assert_float_eq(g[9 - i], g[i], 1e-12);
    }
}

/* The first nbar - 1 side lobes stay near the design level, then they fall off. */
Test(shading, taylor_side_lobes) {
    for (int nbar = 4; nbar <= 8; nbar++) {
        double g[128], level[60];
        cr_assert_eq(sonar_cbf_shading(SONAR_SHADING_TAYLOR, 30, nbar, 128, g, NULL), SONAR_OK);
        size_t found = side_lobes(g, 128, level, 60);
        cr_assert_geq(found, 40);
        cr_assert_float_eq(level[0], -30, 0.5, "nbar %d: %g", nbar, level[0]);
        for (int i = 0; i < nbar - 1; i++)
            cr_assert(level[i] < -29.5 && level[i] > -34, "nbar %d, lobe %d: %g", nbar, i,
                      level[i]);
        cr_assert_lt(level[30], level[nbar] - 6);
    }
}

Test(shading, hann_and_uniform) {
    double g[64], level[3];
    sonar_cbf_shading(SONAR_SHADING_HANN, 0, 0, 64, g, NULL);
    side_lobes(g, 64, level, 3);
    cr_assert_float_eq(level[0], -31.5, 0.2);
    cr_assert_gt(g[0], 0, "no element is switched off");
    sonar_cbf_shading(SONAR_SHADING_UNIFORM, 0, 0, 64, g, NULL);
    side_lobes(g, 64, level, 3);
    cr_assert_float_eq(level[0], -13.26, 0.05);
}

Test(shading, every_kind_of_every_size_is_symmetric_and_at_most_one) {
    double g[40];
    for (int kind = SONAR_SHADING_UNIFORM; kind <= SONAR_SHADING_TAYLOR; kind++)
        for (size_t n = 1; n <= 40; n++) {
            double largest = 0;
            cr_assert_eq(sonar_cbf_shading((sonar_shading)kind, 30, 4, n, g, NULL), SONAR_OK);
            for (size_t i = 0; i < n; i++) {
                largest = fmax(largest, fabs(g[i]));
                cr_assert_float_eq(g[i], g[n - 1 - i], 1e-9);
            }
            cr_assert_float_eq(largest, 1, 1e-12);
        }
}

Test(shading, impossible_designs_are_refused) {
    double g[8];
    const double bad_db[] = {0, -30, 1000, NAN};
    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(sonar_cbf_shading(SONAR_SHADING_CHEBYSHEV, bad_db[i], 4, 8, g, NULL),
                     SONAR_EINVAL);
        cr_assert_eq(sonar_cbf_shading(SONAR_SHADING_TAYLOR, bad_db[i], 4, 8, g, NULL),
                     SONAR_EINVAL);
    }
    cr_assert_eq(sonar_cbf_shading(SONAR_SHADING_TAYLOR, 30, 0, 8, g, NULL), SONAR_EINVAL);
    cr_assert_eq(sonar_cbf_shading(SONAR_SHADING_TAYLOR, 60, 2, 8, g, NULL), SONAR_EINVAL);
}
