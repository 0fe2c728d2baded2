/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cbf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "manifold/manifold.h"
#include "oracle.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- against the oracle ---------------------------------------------------------------------- */

void cbf_case_sizes(site *site) {
    static const sonar_cbf_spec cases[] = {{1, 1, 0, 8000, 512, 10, 1, 10, 1, 1, false},
                                           {2, 5, 1, 8000, 512, 0, 257, 3, 7, 1, false},
                                           {3, 33, 2, 8000, 512, 37, 83, 50, 41, 1, false},
                                           {17, 31, 3, 8000, 512, 1, 129, 1, 129, 1, false},
                                           {128, 9, 2, 8000, 8192, 327, 37, 340, 11, 1, false},
                                           {250, 7, 2, 8000, 8192, 100, 130, 101, 128, 1, false},
                                           {129, 3, 1, 96000, 1000, 3, 400, 60, 259, 1, false},
                                           {8, 65, 0, 8000, 512, 5, 2, 6, 1, 1, false}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        cbf_fixture f;
        uint64_t seed = i;
        cbf_alloc(&f, site, cases[i]);
        cbf_volume(&f, 30, &seed);
        cbf_scan(&f, 3, 11.3);
        for (size_t k = 0; k < f.spec.sensors; k++)
            f.shading[k] = (float)(1.1 + sonar_random_symmetric(&seed));
        for (size_t r = 0; r < f.spec.ranges; r++)
            f.range[r] = 80 * pow(2.5, (double)r);
        cbf_start(&f);
        cbf_add_noise(&f, 1, &seed);
        cbf_run(&f, CBF_ALL);
        cbf_expect(&f);
        cbf_close(&f);
    }
}

static size_t pick(uint64_t *seed, const size_t *from, size_t count) {
    return from[sonar_random_bits(seed) % count];
}

static sonar_cbf_spec random_spec(uint64_t *seed) {
    static const size_t sensors[] = {1,  2,  3,  5,  7,  8,   9,   16, 31,
                                     32, 33, 57, 64, 97, 128, 131, 397};
    static const size_t directions[] = {1, 2, 3, 31, 32, 33, 40, 65};
    static const size_t ranges[] = {0, 0, 1, 2, 3};
    static const size_t snapshots[] = {1, 1, 1, 2, 3, 7, 8, 9, 16, 17, 24, 33};
    static const size_t bins[] = {1, 2, 6, 7, 8, 13, 14, 15, 27, 29, 41, 43, 55, 56, 57, 70, 113};
    sonar_cbf_spec spec = {.sensors = pick(seed, sensors, COUNT(sensors)),
                           .directions = pick(seed, directions, COUNT(directions)),
                           .ranges = pick(seed, ranges, COUNT(ranges)),
                           .max_snapshots = pick(seed, snapshots, COUNT(snapshots)),
                           .fs_hz = 8000,
                           .length = 8192,
                           .bins = pick(seed, bins, COUNT(bins))};
    if (sonar_random_bits(seed) % 4 == 0)
        spec.length = 65536; /* bin numbers in the ten thousands need exact turns */
    spec.first_bin = sonar_random_bits(seed) % (spec.length / 2 - spec.bins);
    size_t skip = sonar_random_bits(seed) % spec.bins;
    spec.cbf_first = spec.first_bin + skip;
    spec.cbf_bins = 1 + sonar_random_bits(seed) % (spec.bins - skip);
    return spec;
}

void cbf_case_random_sizes(site *site) {
    for (uint64_t i = 0; i < (site->quick ? 8 : 60); i++) {
        uint64_t seed = 1000 + i;
        cbf_fixture f;
        cbf_alloc(&f, site, random_spec(&seed));
        cbf_fill(&f, &seed);
        cbf_start(&f);
        cbf_run(&f, CBF_ALL);
        cbf_expect(&f);
        cbf_expect_as_cpu(&f, CBF_ALL);
        cbf_close(&f);
    }
}

/* A strong wave and deep nulls: phase errors are visible between the side lobes. */
void cbf_case_deep_side_lobes_of_a_shaded_line(site *site) {
    cbf_fixture f;
    double g[96];
    sonar_error err = {0};
    cbf_alloc(&f, site, (sonar_cbf_spec){96, 181, 1, 8000, 8192, 500, 255, 600, 100, 1, false});
    cbf_line(&f, 0.75);
    cbf_scan(&f, 0, 1);
    f.range[0] = 500;
    site_require(site, sonar_cbf_shading(SONAR_SHADING_CHEBYSHEV, 55, 0, 96, g, &err), &err);
    for (size_t k = 0; k < 96; k++)
        f.shading[k] = (float)g[k];
    cbf_start(&f);
    cbf_add_wave(&f, 71.5, 0, 1);
    cbf_run(&f, CBF_ALL);
    cbf_expect(&f);
    cbf_close(&f);
}

/* 32768 sensors: phases above 1e5 rad, for which float32 is too coarse. */
void cbf_case_very_long_line_far_off_broadside(site *site) {
    cbf_fixture f;
    uint64_t seed = 1;
    cbf_alloc(&f, site, (sonar_cbf_spec){32768, 4, 0, 16000, 32768, 16380, 5, 16380, 5, 1, false});
    cbf_line(&f, 0.09375);
    memcpy(f.az, (double[]){12, 12.004, 12.05, 90}, 4 * sizeof *f.az);
    cbf_start(&f);
    double most = 2 * M_PI * 8000 * f.position[3 * 32767] / CBF_SPEED_MPS;
    site_expect(site, 2 * most > 1e5, "only %g rad", 2 * most);
    cbf_add_wave(&f, 12, 0, 1);
    cbf_add_noise(&f, 1, &seed);
    cbf_run(&f, CBF_ALL);
    cbf_expect(&f);
    double level = (double)f.azimuth[0] / (5 * cbf_bin_hz(&f));
    site_expect(site, cbf_peak(f.azimuth, 4) == 0, "peak at %zu", cbf_peak(f.azimuth, 4));
    site_expect(site, fabs(level - 1) < 0.05, "level %g", level);
    cbf_close(&f);
}

/* ---- several snapshots ----------------------------------------------------------------------- */

/* Odd sizes, masks and shading; an interferer 60 dB above the noise: only its side lobes are within
 * 60 dB of the peak. */
void cbf_case_snapshots_in_a_volume(site *site) {
    static const size_t counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 33};
    for (size_t i = 0; i < COUNT(counts); i += site->quick ? 3 : 1) {
        cbf_fixture f;
        uint64_t seed = i;
        cbf_alloc(&f, site,
                  (sonar_cbf_spec){67, 35, 2, 8000, 8192, 401, 141, 420, 37, counts[i], false});
        cbf_volume(&f, 20, &seed);
        cbf_scan(&f, 3, 9.7);
        for (size_t k = 0; k < 67; k++)
            f.shading[k] = k % 9 == 4 ? 0 : (float)(1.1 + sonar_random_symmetric(&seed));
        f.range[0] = 90;
        f.range[1] = 400;
        cbf_start(&f);
        cbf_add_noise(&f, 1e-3, &seed);
        if (i % 2)
            cbf_add_wave(&f, 77, i % 4 == 1 ? 0 : 90, 1);
        cbf_run(&f, CBF_ALL);
        cbf_expect(&f);
        cbf_close(&f);
    }
}

/* Lines and planes, few and many sensors, high bins, masks, shading, and an interferer 60 dB above
 * the noise. */
void cbf_case_snapshots_beside_an_interferer(site *site) {
    static const size_t counts[] = {1, 2, 3, 7, 8, 9, 16, 33};
    for (size_t i = 0; i < COUNT(counts); i++)
        for (size_t sensors = 37; sensors <= (site->quick || i % 3 == 1 ? 37 : 601);
             sensors += 564) {
            uint64_t seed = 70 + i;
            cbf_fixture f;
            cbf_alloc(
                &f, site,
                (sonar_cbf_spec){sensors, 67, 1, 8000, 8192, 2001, 29, 2010, 17, counts[i], false});
            f.range[0] = 60;
            if (i % 3 == 0)
                cbf_line(&f, 0.3);
            else
                cbf_plane(&f, (size_t)ceil(sqrt(1.5 * (double)sensors)), 0.3);
            for (size_t k = 0; k < sensors; k++)
                f.shading[k] = k % 11 == 5 ? 0 : (float)(1.1 + sonar_random_symmetric(&seed));
            cbf_add_wave(&f, 77.7, 0, 1);
            cbf_add_noise(&f, 2e-6, &seed);
            cbf_start(&f);
            cbf_run(&f, CBF_ALL);
            cbf_expect(&f);
            cbf_close(&f);
        }
}

/* Lines that are their own mirror image, even and uneven, with odd and even counts, the thesis's
 * scan, whose first direction has no image, and scans that have broadside or not; one sensor moved
 * by a millimetre breaks the form. Masks, an uneven shading, and an interferer 60 dB above the
 * noise in the near field. */
void cbf_case_mirrored_arrays(site *site) {
    static const struct {
        size_t sensors, directions, bins, snapshots;
        double first_deg, step_deg, moved_m;
        bool uneven;
    } cases[] = {{37, 16, 41, 1, 10, 10, 0, false},     {128, 33, 166, 1, 10, 5, 0, false},
                 {131, 160, 13, 1, 10, 1, 0, true},     {64, 24, 29, 3, 10, 6.9, 0, true},
                 {129, 9, 137, 2, 10, 20, 0, false},    {65, 30, 9, 5, 17.5, 5, 0, true},
                 {90, 17, 31, 8, 10, 10, 0.001, false}, {401, 31, 67, 1, 15, 5, 0.001, true}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const size_t sensors = cases[i].sensors, bins = cases[i].bins;
        uint64_t seed = 300 + i;
        cbf_fixture f;
        cbf_alloc(&f, site,
                  (sonar_cbf_spec){sensors, cases[i].directions, 3, 8000, 8192, 320, bins + 9, 327,
                                   bins, cases[i].snapshots, false});
        cbf_line(&f, 0.7);
        for (size_t k = 0; k < sensors && cases[i].uneven; k++)
            f.position[3 * k] *= 1 + 1e-3 * fabs(f.position[3 * k]);
        f.position[3 * (sensors / 3)] += cases[i].moved_m;
        cbf_scan(&f, cases[i].first_deg, cases[i].step_deg);
        for (size_t k = 0; k < sensors; k++)
            f.shading[k] = k % 13 == 4 ? 0 : (float)(1.1 + sonar_random_symmetric(&seed));
        f.range[0] = 50;
        f.range[1] = 130;
        f.range[2] = 3200;
        cbf_start(&f);
        cbf_add_wave(&f, 61.3, 50, 1);
        cbf_add_noise(&f, 1e-6 * (double)sensors, &seed);
        cbf_run(&f, CBF_ALL);
        cbf_expect(&f);
        cbf_close(&f);
    }
}

/* Fewer snapshots than the maximum; rows and snapshots with gaps between them; one call with all
 * snapshots gives the mean of calls with one each. */
static void rows_apart(site *site, sonar_cbf_spec spec, size_t snapshots, size_t rows, size_t row) {
    uint64_t seed = 4;
    cbf_fixture f;
    sonar_error err = {0};
    cbf_alloc(&f, site, spec);
    f.snapshots = snapshots;
    cbf_plane(&f, 9, 0.7);
    cbf_start(&f);
    cbf_add_noise(&f, 1, &seed);
    cbf_run(&f, CBF_ALL);
    cbf_expect(&f);
    float *together = sonar_alloc(spec.directions, sizeof *together);
    double *mean = sonar_alloc(spec.directions, sizeof *mean);
    memcpy(together, f.azimuth, spec.directions * sizeof *together);
    sonar_buffer apart = site_buffer(site, SONAR_C32, 3, (size_t[]){snapshots, rows, row});
    sonar_c32 *here = sonar_alloc(snapshots * rows * row, sizeof *here);
    for (size_t i = 0; i < snapshots * rows * row; i++)
        here[i] = (sonar_c32){NAN, NAN}; /* what must not be read */
    for (size_t i = 0; i < snapshots * spec.bins; i++)
        memcpy(here + (i / spec.bins * rows + i % spec.bins) * row, f.x + i * spec.sensors,
               spec.sensors * sizeof *here);
    site_send(site, here, &apart);
    const sonar_buffer dense = f.input, all = apart;
    f.input = apart;
    f.input.shape[1] = spec.bins;
    f.input.shape[2] = spec.sensors;
    site_require(site, cbf_execute(&f, CBF_ALL, &err), &err);
    cbf_fetch(&f);
    if (site_is_device(site))
        cbf_expect(&f);
    else
        site_expect(site, !memcmp(together, f.azimuth, spec.directions * sizeof *together),
                    "rows with gaps give other bits");
    f.snapshots = 1;
    for (size_t s = 0; s < snapshots; s++) {
        f.input.data = (sonar_c32 *)all.data + s * rows * row;
        site_require(site, cbf_execute(&f, CBF_ALL, &err), &err);
        cbf_fetch(&f);
        for (size_t d = 0; d < spec.directions; d++)
            mean[d] += (double)f.azimuth[d] / (double)snapshots;
    }
    cbf_expect_db(&f, "mean of single snapshots", together, mean, spec.directions);
    f.input = dense;
    free(together);
    free(mean);
    free(here);
    site_free(site, &apart);
    cbf_close(&f);
}

void cbf_case_rows_apart(site *site) {
    rows_apart(site, (sonar_cbf_spec){30, 33, 0, 8000, 512, 20, 9, 20, 9, 5, false}, 5, 12, 40);
    rows_apart(site, (sonar_cbf_spec){61, 33, 0, 8000, 8192, 700, 11, 703, 5, 20, false}, 9, 13,
               64);
}

/* ---- bearings -------------------------------------------------------------------------------- */

static const sonar_cbf_spec turning = {48, 360, 0, 8000, 1024, 70, 21, 70, 21, 1, false};

static void expect_level(cbf_fixture *f, size_t direction, double want, double most) {
    double ratio = (double)f->azimuth[direction] / (want * cbf_bin_hz(f));
    site_expect(f->site, fabs(ratio - 1) < most, "level at %zu is %g of the right value", direction,
                ratio);
}

static void expect_peaks(cbf_fixture *f, bool mirrored) {
    cbf_start(f);
    for (size_t az = 0; az < 360; az += f->site->quick ? 49 : 7) {
        cbf_clear(f);
        cbf_add_wave(f, (double)az, 0, 1);
        cbf_run(f, CBF_AZIMUTH);
        size_t peak = cbf_peak(f->azimuth, f->spec.directions), mirror = (360 - az) % 360;
        site_expect(f->site, peak == az || (mirrored && peak == mirror), "%zu for %zu", peak, az);
        expect_level(f, az, 21, 1e-5);
        if (mirrored)
            expect_level(f, mirror, 21, 1e-5);
    }
    cbf_close(f);
}

void cbf_case_line_finds_bearing_and_mirror(site *site) {
    cbf_fixture f;
    cbf_alloc(&f, site, turning);
    cbf_line(&f, 1);
    cbf_scan(&f, 0, 1);
    expect_peaks(&f, true);
}

void cbf_case_circle_finds_bearing(site *site) {
    cbf_fixture f;
    cbf_alloc(&f, site, turning);
    cbf_circle(&f, 5);
    cbf_scan(&f, 0, 1);
    expect_peaks(&f, false);
}

void cbf_case_plane_finds_bearing(site *site) {
    cbf_fixture f;
    cbf_alloc(&f, site, turning);
    cbf_plane(&f, 8, 0.9);
    cbf_scan(&f, 0, 1);
    expect_peaks(&f, false);
}

void cbf_case_volume_finds_bearing(site *site) {
    cbf_fixture f;
    uint64_t seed = 3;
    cbf_alloc(&f, site, turning);
    cbf_volume(&f, 6, &seed);
    cbf_scan(&f, 0, 1);
    expect_peaks(&f, false);
}

/* A wrong sign of phase or time mirrors 60 to 120 degrees, as would exchanged ends. */
void cbf_case_sixty_is_not_a_hundred_and_twenty(site *site) {
    cbf_fixture f;
    cbf_alloc(&f, site, (sonar_cbf_spec){32, 181, 0, 8000, 1024, 70, 21, 70, 21, 1, false});
    cbf_line(&f, 1);
    cbf_scan(&f, 0, 1);
    cbf_start(&f);
    for (size_t b = 0; b < 21; b++) /* written out: element +x receives a wave from ahead first */
        for (size_t k = 0; k < 32; k++) {
            double early = f.position[3 * k] * 0.5 / CBF_SPEED_MPS;
            double phase = 2 * M_PI * (70 + (double)b) * 8000 / 1024 * early;
            f.x[b * 32 + k] = (sonar_c32){(float)cos(phase), (float)sin(phase)};
        }
    cbf_run(&f, CBF_AZIMUTH);
    site_expect(site, cbf_peak(f.azimuth, 181) == 60, "%zu", cbf_peak(f.azimuth, 181));
    site_expect(site, f.azimuth[120] < 0.01f * f.azimuth[60], "a mirror image");
    cbf_close(&f);
}

/* Many ranges in equal steps of 1/r: the peak is in the source's cell, from three apertures on. */
void cbf_case_near_field_focuses_on_the_range(site *site) {
    cbf_fixture f;
    const double aperture = 127 * 0.75;
    cbf_alloc(&f, site, (sonar_cbf_spec){128, 3, 24, 8000, 4096, 400, 60, 400, 60, 1, false});
    cbf_line(&f, 0.75);
    cbf_scan(&f, 78, 2);
    for (size_t r = 0; r < 24; r++)
        f.range[r] = 3 * aperture / (1 - (double)r / 30);
    cbf_start(&f);
    for (size_t i = 0; i < 72; i += site->quick ? 7 : 1) {
        cbf_clear(&f);
        cbf_add_wave(&f, f.az[i % 3], f.range[i / 3], 1);
        cbf_run(&f, CBF_NEARFIELD);
        double level = (double)f.near[i] / (60 * cbf_bin_hz(&f));
        site_expect(site, cbf_peak(f.near, 72) == i, "peak in cell %zu, not %zu",
                    cbf_peak(f.near, 72), i);
        site_expect(site, fabs(level - 1) < 8e-5, "level in cell %zu: %g", i, level);
    }
    cbf_close(&f);
}

void cbf_case_mask_moves_no_bearing_and_keeps_the_level(site *site) {
    cbf_fixture f;
    cbf_alloc(&f, site, (sonar_cbf_spec){64, 181, 0, 8000, 1024, 70, 21, 70, 21, 1, false});
    cbf_line(&f, 1);
    cbf_scan(&f, 0, 1);
    uint64_t seed = 8;
    for (size_t masked = 0; masked < 10;) {
        float *g = &f.shading[sonar_random_bits(&seed) % 64];
        masked += *g > 0;
        *g = 0;
    }
    cbf_start(&f);
    for (size_t az = 5; az < 180; az += 17) {
        cbf_clear(&f);
        cbf_add_wave(&f, (double)az, 0, 1);
        for (size_t i = 0; i < 64 * 21; i++)
            if (f.shading[i % 64] == 0)
                f.x[i] = (sonar_c32){0, 0};
        cbf_run(&f, CBF_AZIMUTH);
        size_t peak = cbf_peak(f.azimuth, 181);
        site_expect(site, peak == az, "%zu for %zu", peak, az);
        expect_level(&f, az, 21, 1e-4);
    }
    cbf_close(&f);
}

void cbf_case_everything_masked_is_silence(site *site) {
    cbf_fixture f;
    cbf_alloc(&f, site, (sonar_cbf_spec){5, 3, 1, 8000, 64, 1, 9, 1, 9, 1, false});
    f.range[0] = 100;
    memset(f.shading, 0, 5 * sizeof(float));
    cbf_start(&f);
    cbf_run(&f, CBF_ALL);
    for (int i = 0; i < SONAR_CBF_OUTPUTS; i++)
        for (size_t j = 0; j < cbf_values(&f, i); j++)
            site_expect(site, cbf_surface(&f, i)[j] == 0, "surface %d, value %zu: %g", i, j,
                        (double)cbf_surface(&f, i)[j]);
    cbf_close(&f);
}

/* The signal keeps its level, and noise falls by the number of elements: 8400 bin-windows. */
void cbf_case_array_gain_is_the_number_of_elements(site *site) {
    cbf_fixture f;
    double noise[2] = {0};
    uint64_t seed = 40;
    cbf_alloc(&f, site, (sonar_cbf_spec){128, 2, 0, 8000, 8192, 0, 4097, 0, 4097, 1, false});
    cbf_line(&f, 0.1875);
    cbf_scan(&f, 60, 47);
    cbf_start(&f);
    for (int window = 0; window < 2; window++) {
        cbf_clear(&f);
        cbf_add_noise(&f, 1, &seed);
        cbf_run(&f, CBF_AZIMUTH);
        for (size_t d = 0; d < 2; d++)
            noise[d] += (double)f.azimuth[d] / (2 * 4097 * cbf_bin_hz(&f));
    }
    for (size_t d = 0; d < 2; d++) {
        double gain_db = -10 * log10(noise[d]);
        site_expect(site, fabs(gain_db - 10 * log10(128)) < 0.2, "%g dB", gain_db);
    }
    cbf_close(&f);
}

/* ---- surfaces, versions, threads ------------------------------------------------------------- */

static void noisy(cbf_fixture *f, site *site, size_t snapshots) {
    uint64_t seed = 9;
    cbf_alloc(f, site,
              (sonar_cbf_spec){141, 67, 3, 8000, 8192, 100, 300, 150, 201, snapshots, false});
    cbf_volume(f, 20, &seed);
    cbf_scan(f, 0, 5.37);
    for (size_t r = 0; r < 3; r++)
        f->range[r] = 50 * pow(3, (double)r);
    cbf_start(f);
    cbf_add_noise(f, 1, &seed);
    cbf_add_wave(f, 33, 0, 1);
}

static bool same_surface(const cbf_fixture *a, const cbf_fixture *b, int which) {
    return !memcmp(cbf_surface(a, which), cbf_surface(b, which),
                   cbf_values(a, which) * sizeof(float));
}

void cbf_case_workers_change_no_bit(site *site) {
    const sonar_host *given = site->host;
    cbf_fixture f[3];
    for (size_t i = 0; i < 3; i++) {
        sonar_error err = {0};
        sonar_pool *pool;
        site_require(site, sonar_pool_create(i + 1, NULL, &pool, &err), &err);
        sonar_host host = *given;
        host.ctx = pool;
        host.parallel = sonar_pool_parallel;
        host.workers = i + 1;
        site->host = &host;
        noisy(&f[i], site, 6);
        cbf_run(&f[i], CBF_ALL);
        for (int which = 0; which < SONAR_CBF_OUTPUTS; which++)
            site_expect(site, same_surface(&f[i], &f[0], which), "surface %d of %zu workers", which,
                        i + 1);
        f[i].ops->destroy(f[i].stage);
        f[i].stage = NULL;
        sonar_pool_destroy(pool);
    }
    site->host = given;
    for (size_t i = 0; i < 3; i++)
        cbf_close(&f[i]);
}

/* Every subset of surfaces: the requested ones are right, the others unchanged. */
static void subsets(cbf_fixture *f) {
    for (uint32_t wanted = 0; wanted <= CBF_ALL; wanted++) {
        cbf_run(f, wanted);
        cbf_expect_as_cpu(f, wanted);
    }
    cbf_close(f);
}

void cbf_case_only_wanted_surfaces_are_touched(site *site) {
    cbf_fixture f;
    noisy(&f, site, 1);
    subsets(&f);
    for (size_t snapshots = 1; snapshots <= 9; snapshots += 8) {
        uint64_t seed = 5;
        cbf_alloc(&f, site,
                  (sonar_cbf_spec){45, 37, 2, 8000, 8192, 100, 90, 130, 33, snapshots, false});
        cbf_fill(&f, &seed);
        cbf_start(&f);
        subsets(&f);
    }
}

/* A new version of the parameters is adopted, an unchanged one kept; two runs give the same bits.
 */
void cbf_case_versions_and_repeats(site *site) {
    for (size_t snapshots = 1; snapshots <= 17; snapshots += 16) {
        uint64_t seed = 6;
        cbf_fixture f;
        cbf_alloc(&f, site,
                  (sonar_cbf_spec){200, 50, 3, 8000, 8192, 34, 120, 80, 60, snapshots, false});
        cbf_fill(&f, &seed);
        cbf_line(&f, 0.7);
        cbf_start(&f);
        cbf_run(&f, CBF_ALL);
        size_t bytes = cbf_values(&f, SONAR_CBF_LOFAR) * sizeof(float);
        float *before = sonar_alloc(bytes, 1);
        memcpy(before, f.lofar, bytes);
        cbf_run(&f, CBF_ALL);
        site_expect(site, !memcmp(before, f.lofar, bytes), "two runs differ");
        for (size_t d = 0; d < f.spec.directions; d++)
            f.az[d] += 3.3;
        f.shading[7] = 2.5f;
        cbf_renew(&f);
        cbf_run(&f, CBF_ALL);
        cbf_expect(&f);
        for (size_t k = 0; k < f.spec.sensors; k++) /* and another form of array */
            f.position[3 * k + 2] += 3 * sonar_random_symmetric(&seed);
        cbf_renew(&f);
        cbf_run(&f, CBF_ALL);
        cbf_expect(&f);
        free(before);
        cbf_close(&f);
    }
}

/* Recorded once after a call with the same parameters, then run on other input. */
void cbf_case_recorded(site *site) {
    const sonar_backend *b = site->backend;
    site_expect(site, true, "not here");
    for (size_t snapshots = 1; b->graph_begin && snapshots <= 19; snapshots += 18) {
        uint64_t seed = 14;
        cbf_fixture f;
        sonar_error err = {0};
        sonar_graph *graph;
        cbf_alloc(&f, site,
                  (sonar_cbf_spec){90, 70, 2, 8000, 8192, 300, 60, 310, 40, snapshots, false});
        cbf_fill(&f, &seed);
        cbf_start(&f);
        cbf_run(&f, CBF_ALL);
        site_require(site, b->graph_begin(site->queue, &err), &err);
        site_require(site, cbf_execute(&f, CBF_ALL, &err), &err);
        site_require(site, b->graph_end(site->queue, &graph, &err), &err);
        cbf_add_noise(&f, 2, &seed);
        cbf_run(&f, 0); /* uploads, and leaves 7s on the surfaces */
        site_require(site, b->graph_run(site->queue, graph, &err), &err);
        cbf_fetch(&f);
        cbf_expect(&f);
        b->graph_destroy(graph);
        cbf_close(&f);
    }
}

/* ---- points off the grid --------------------------------------------------------------------- */

static sonar_code evaluate(cbf_fixture *f, size_t points, const uint64_t *turns, float *power,
                           sonar_error *err) {
    size_t shape[2] = {points, f->spec.sensors}, room[2] = {points + 1, f->spec.sensors};
    sonar_buffer there = site_buffer(f->site, SONAR_U64, 2, points ? shape : room);
    sonar_buffer result = site_buffer(f->site, SONAR_F32, 1, points ? shape : room);
    sonar_work work = {.params = &f->params, .outputs = CBF_AZIMUTH};
    if (points)
        site_send(f->site, turns, &there);
    there.shape[0] = result.shape[0] = points;
    sonar_code code = f->ops->evaluate(f->stage, f->site->queue, &there, &result, &work, err);
    if (!code && points)
        site_fetch(f->site, &result, power);
    site_settle(f->site);
    site_free(f->site, &there);
    site_free(f->site, &result);
    return code;
}

/* More points than any surface has, of the input of the last call. A device's tensor cores and sums
 * of mirrored pairs round differently from its sums for points; there the contract's 0.01 dB holds.
 */
/* Another band with each version, compared with the oracle on and off the grid. */
static void move_band(cbf_fixture *f, size_t first, size_t bins) {
    const size_t directions = f->spec.directions;
    float *power = sonar_alloc(directions, sizeof *power);
    sonar_error err = {0};
    f->spec.cbf_first = f->spec.first_bin + first;
    f->spec.cbf_bins = bins;
    f->params.cbf = &f->spec;
    f->params.version++;
    cbf_run(f, CBF_ALL);
    cbf_expect(f);
    cbf_expect_as_cpu(f, CBF_ALL);
    site_require(f->site, evaluate(f, directions, f->far_turns, power, &err), &err);
    for (size_t i = 0; i < directions; i++)
        site_expect(f->site, fabs((double)(power[i] / f->azimuth[i]) - 1) < 3e-3,
                    "bins %zu + %zu, point %zu: %g of the surface", first, bins, i,
                    (double)(power[i] / f->azimuth[i]));
    free(power);
}

void cbf_case_live_bands(site *site) {
    for (uint64_t i = 0; i < (site->quick ? 3 : 16); i++) {
        uint64_t seed = 7000 + i;
        cbf_fixture f;
        cbf_alloc(&f, site, random_spec(&seed));
        cbf_fill(&f, &seed);
        cbf_add_noise(&f, 1, &seed);
        cbf_start(&f);
        cbf_run(&f, CBF_ALL);
        const size_t bins = f.spec.bins;
        move_band(&f, 0, bins);
        move_band(&f, bins - 1, 1);
        move_band(&f, 0, 1);
        for (int k = 0; k < 2; k++) {
            const size_t first = sonar_random_bits(&seed) % bins;
            move_band(&f, first, 1 + sonar_random_bits(&seed) % (bins - first));
        }
        cbf_close(&f);
    }
}

/* A band without input is refused, and the previous band stays. */
void cbf_case_bands_outside(site *site) {
    uint64_t seed = 3;
    cbf_fixture f;
    cbf_alloc(&f, site, (sonar_cbf_spec){9, 20, 1, 8000, 1024, 100, 30, 110, 10, 1, false});
    cbf_line(&f, 0.5);
    f.range[0] = 60;
    cbf_add_noise(&f, 1, &seed);
    cbf_start(&f);
    cbf_run(&f, CBF_ALL);
    const sonar_cbf_spec spec = f.spec;
    const size_t outside[][2] = {{99, 5}, {120, 11}, {131, 1}, {110, 0}};
    for (size_t i = 0; i < COUNT(outside); i++) {
        sonar_cbf_spec wrong = spec;
        sonar_error err = {0};
        wrong.cbf_first = outside[i][0], wrong.cbf_bins = outside[i][1];
        f.params.cbf = &wrong;
        f.params.version++;
        site_expect(site, cbf_execute(&f, CBF_ALL, &err) == SONAR_EINVAL, "bins %zu + %zu",
                    outside[i][0], outside[i][1]);
    }
    f.params.cbf = &spec;
    f.params.version++;
    cbf_run(&f, CBF_ALL);
    cbf_expect(&f);
    cbf_close(&f);
}

void cbf_case_evaluate_equals_execute_on_the_grid(site *site) {
    enum { COPIES = 5, SENSORS = 141, DIRECTIONS = 67, POINTS = COPIES * DIRECTIONS };
    const double most = site_is_device(site) ? pow(10, CBF_MOST_DB / 10) - 1 : 1e-5;
    cbf_fixture f;
    sonar_error err = {0};
    uint64_t seed = 11, *turns = sonar_alloc((size_t)POINTS * SENSORS, sizeof *turns);
    float *power = sonar_alloc(POINTS, sizeof *power);
    noisy(&f, site, 3);
    cbf_run(&f, CBF_ALL);
    cbf_clear(&f);
    cbf_add_noise(&f, 1, &seed);
    cbf_run(&f, CBF_ALL);
    for (size_t i = 0; i < COPIES; i++)
        memcpy(turns + i * DIRECTIONS * SENSORS, f.far_turns,
               sizeof(uint64_t) * DIRECTIONS * SENSORS);
    site_require(site, evaluate(&f, POINTS, turns, power, &err), &err);
    for (size_t i = 0; i < POINTS; i++) {
        double ratio = (double)(power[i] / f.azimuth[i % DIRECTIONS]);
        site_expect(site, fabs(ratio - 1) < most, "point %zu: %g of the surface", i, ratio);
    }
    site_expect(site, evaluate(&f, 0, turns, power, &err) == SONAR_OK, "no points");
    free(turns);
    free(power);
    cbf_close(&f);
}

/* Looks at points that no grid has; the last one is at a range, if it has one. */
static void look_off_the_grid(cbf_fixture *f, size_t points, double last_range_m) {
    const size_t sensors = f->spec.sensors;
    uint64_t *turns = sonar_alloc(points * sensors, sizeof *turns);
    double *want = sonar_alloc(points, sizeof *want);
    float *power = sonar_alloc(points, sizeof *power);
    sonar_error err = {0};
    for (size_t p = 0; p < points; p++) {
        const double range_m = p + 1 == points ? last_range_m : 0;
        double u[3];
        oracle_unit(20 + 140 * (double)p / (double)points, 0, u);
        for (size_t k = 0; k < sensors; k++)
            turns[p * sensors + k] = sonar_turns(cbf_delay(f, k, u, range_m), cbf_bin_hz(f));
        want[p] = cbf_look(f, u, range_m, NULL, 0);
    }
    site_require(f->site, evaluate(f, points, turns, power, &err), &err);
    cbf_expect_db(f, "points", power, want, points);
    free(turns);
    free(want);
    free(power);
}

void cbf_case_evaluate_off_the_grid(site *site) {
    static const struct {
        size_t points, snapshots;
        double spacing_m, last_range_m; /* 0: no line; no range */
    } cases[] = {{5, 1, 0, 0},    {37, 2, 1.5, 0},
                 {70, 11, 0, 0},  {16, 1, 0, 0},
                 {150, 3, 0, 0},  {1, 1, 1.5, 0},
                 {40, 1, 1.5, 0}, {41, 3, 1.5, 0} /* more than directions */,
                 {12, 2, 1.5, 60}};
    for (size_t i = 0; i < (site->quick ? 3 : COUNT(cases)); i++) {
        uint64_t seed = 8;
        cbf_fixture f;
        cbf_alloc(
            &f, site,
            (sonar_cbf_spec){77, 40, 0, 8000, 8192, 34, 150, 90, 70, cases[i].snapshots, false});
        cbf_fill(&f, &seed);
        if (cases[i].spacing_m > 0)
            cbf_line(&f, cases[i].spacing_m);
        cbf_start(&f);
        cbf_run(&f, CBF_AZIMUTH);
        look_off_the_grid(&f, cases[i].points, cases[i].last_range_m);
        cbf_run(&f, CBF_AZIMUTH | CBF_LOFAR);
        cbf_expect_some(&f, 4, 61.3, &seed);
        cbf_close(&f);
    }
}

/* ---- large arrays ---------------------------------------------------------------------------- */

void cbf_standard(cbf_fixture *f, site *site, size_t sensors) {
    cbf_alloc(f, site, (sonar_cbf_spec){sensors, 160, 7, 8000, 8192, 34, 459, 327, 166, 1, false});
    for (size_t r = 0; r < 7; r++)
        f->range[r] = 50 * pow(2, (double)r);
    cbf_scan(f, 10, 1);
    cbf_line(f, 1.5);
}

void cbf_try_line(site *site, size_t sensors, bool as_cpu) {
    uint64_t seed = sensors;
    cbf_fixture f;
    cbf_standard(&f, site, sensors);
    cbf_add_wave(&f, 61.3, 0, 1);
    cbf_add_noise(&f, 0.02, &seed);
    cbf_start(&f);
    cbf_run(&f, CBF_ALL);
    if (as_cpu)
        cbf_expect_as_cpu(&f, CBF_ALL);
    cbf_expect_some(&f, 8, 61.3, &seed);
    cbf_close(&f);
}

void cbf_try_plane(site *site, size_t sensors, size_t snapshots) {
    uint64_t seed = sensors;
    cbf_fixture f;
    cbf_alloc(&f, site,
              (sonar_cbf_spec){sensors, 160, 1, 8000, 8192, 300, 60, 320, 31, snapshots, false});
    f.range[0] = 300;
    cbf_plane(&f, (size_t)ceil(sqrt(1.5 * (double)sensors)), 1.5);
    cbf_add_wave(&f, 61.3, 0, 1);
    cbf_add_noise(&f, 1.8e-3, &seed);
    cbf_start(&f);
    cbf_run(&f, CBF_ALL);
    cbf_expect_some(&f, 6, 61.3, &seed);
    cbf_close(&f);
}

void cbf_case_chunks_of_several_tiles(site *site) {
    cbf_try_plane(site, 700, 11);
}

void cbf_case_large_line(site *site) {
    cbf_try_line(site, 2048, site_is_device(site));
    cbf_try_line(site, 2000, false);
}

void cbf_case_large_plane(site *site) {
    cbf_try_plane(site, site_is_device(site) ? 5000 : 1500, 11);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refused(cbf_fixture *f, const char *what) {
    sonar_error err = {0};
    sonar_code code = cbf_execute(f, CBF_ALL, &err);
    site_expect(f->site, code == SONAR_EINVAL && err.text[0], "%s: code %d", what, (int)code);
}

void cbf_case_evaluate_before_execute(site *site) {
    uint64_t turns[4 * 5] = {0};
    float power[5];
    cbf_fixture f;
    sonar_error err = {0};
    cbf_alloc(&f, site, (sonar_cbf_spec){4, 5, 1, 8000, 8192, 34, 20, 40, 10, 1, false});
    f.range[0] = 100;
    cbf_start(&f);
    sonar_code code = evaluate(&f, 5, turns, power, &err);
    site_expect(site, code == SONAR_ESTATE, "code %d", (int)code);
    cbf_close(&f);
}

void cbf_case_impossible_specs(site *site) {
    const sonar_stage_ops *ops = site->backend->stage("cbf");
    sonar_cbf_spec bad[6];
    for (size_t i = 0; i < COUNT(bad); i++)
        bad[i] = (sonar_cbf_spec){4, 5, 1, 8000, 8192, 34, 20, 40, 10, 1, false};
    bad[0].cbf_first = 33;
    bad[1].cbf_bins = 15;
    bad[2].sensors = 0;
    bad[3].cbf_bins = 0;
    bad[4].max_snapshots = 0;
    bad[5].fs_hz = NAN;
    for (size_t i = 0; i < COUNT(bad); i++) {
        void *stage = bad;
        sonar_error err = {0};
        sonar_code code = ops->create(&bad[i], site->host, &stage, &err);
        site_expect(site, code == SONAR_EINVAL && !stage && err.text[0], "case %zu: code %d", i,
                    (int)code);
    }
    ops->destroy(NULL);
}

void cbf_case_wrong_shapes(site *site) {
    uint64_t seed = 9;
    cbf_fixture f;
    cbf_alloc(&f, site, (sonar_cbf_spec){4, 5, 1, 8000, 8192, 34, 20, 40, 10, 1, false});
    cbf_fill(&f, &seed);
    cbf_start(&f);
    cbf_run(&f, CBF_ALL);
    f.snapshots = 0;
    refused(&f, "no snapshots");
    f.snapshots = 2;
    refused(&f, "a snapshot too many");
    f.snapshots = 1;
    const sonar_buffer input = f.input, lofar = f.out[SONAR_CBF_LOFAR];
    f.input = sonar_buffer_part(&input, 0);
    refused(&f, "input without snapshots");
    f.input = input;
    f.input.dtype = SONAR_F32;
    refused(&f, "input of another type");
    f.input = input;
    f.out[SONAR_CBF_LOFAR].shape[0]--;
    refused(&f, "a row too few");
    f.out[SONAR_CBF_LOFAR] = lofar;
    if (site_is_device(site)) {
        f.out[SONAR_CBF_LOFAR].space = SONAR_HOST;
        refused(&f, "output in host memory");
        f.out[SONAR_CBF_LOFAR] = lofar;
    }
    f.params.version++;
    f.params.far_cbf.directions = 4;
    refused(&f, "a table of other directions");
    f.params.far_cbf.directions = 5;
    f.params.far_cbf.bin_width_hz *= 2;
    refused(&f, "turns for another bin width");
    f.params.far_cbf.bin_width_hz /= 2;
    cbf_run(&f, CBF_ALL);
    cbf_expect(&f);
    cbf_close(&f);
}

/* ---- parts of an array ----------------------------------------------------------------------- */

/* y of one snapshot and bin at a point whose delays are tau[sensor], in double precision. */
static void part_beam(const cbf_fixture *f, size_t snapshot, size_t bin, const double *tau,
                      double y[2]) {
    const size_t n = f->spec.sensors;
    const sonar_c32 *x = f->x + (snapshot * f->spec.bins + bin) * n;
    y[0] = y[1] = 0;
    for (size_t k = 0; k < n; k++) {
        const double turns = (double)(f->spec.first_bin + bin) * cbf_bin_hz(f) * tau[k];
        const double c = cos(2 * M_PI * (turns - rint(turns)));
        const double s = sin(2 * M_PI * (turns - rint(turns)));
        y[0] += (double)f->shading[k] * ((double)x[k].re * c + (double)x[k].im * s);
        y[1] += (double)f->shading[k] * ((double)x[k].im * c - (double)x[k].re * s);
    }
    y[0] /= f->params.shading_sum;
    y[1] /= f->params.shading_sum;
}

/* [snapshot][bin][point], bins counted from the input's. The largest allowed error is 0.01 dB at 60
 * dB below the peak, since parts are added before powers are taken. */
static void expect_part(const cbf_fixture *f, const char *what, const sonar_c32 *have, size_t first,
                        size_t bins, size_t points, const double *tau) {
    double peak = 0, worst = 0, y[2];
    for (size_t i = 0; i < f->snapshots * bins * points; i++) {
        part_beam(f, i / points / bins, first + i / points % bins,
                  tau + i % points * f->spec.sensors, y);
        peak = fmax(peak, hypot(y[0], y[1]));
        const double off = hypot((double)have[i].re - y[0], (double)have[i].im - y[1]);
        worst = oracle_worse(worst, off);
    }
    site_expect(f->site, worst <= 1.15e-6 * peak && peak > 0,
                "%s of a part: %g of the peak off; %zu snapshots, %zu sensors, %zu points, bins "
                "%zu + %zu",
                what, worst / peak, f->snapshots, f->spec.sensors, points, first, bins);
}

static double *delays(const cbf_fixture *f, size_t ranges) {
    const size_t n = f->spec.sensors, directions = f->spec.directions;
    double *tau = sonar_alloc(sonar_max_size(ranges, 1) * directions * n, sizeof *tau), *to = tau;
    for (size_t r = 0; r < sonar_max_size(ranges, 1); r++)
        for (size_t d = 0; d < directions; d++)
            for (size_t k = 0; k < n; k++)
                *to++ = cbf_delay(f, k, f->u + 3 * d, ranges ? f->range[r] : 0);
    return tau;
}

typedef struct parts_of {
    sonar_buffer out[SONAR_CBF_OUTPUTS], points, at; /* the site's */
    sonar_c32 *far, *near, *point;
} parts_of;

static void run_parts(cbf_fixture *f, bool lofar, parts_of *p) {
    const sonar_cbf_spec *spec = &f->spec;
    const size_t rows = lofar ? spec->bins : spec->cbf_bins, looks = spec->directions;
    const size_t far[] = {f->snapshots, rows, looks};
    const size_t near[] = {f->snapshots, spec->cbf_bins, spec->ranges * looks};
    const size_t at[] = {f->snapshots, spec->cbf_bins, looks};
    sonar_buffer in = f->input;
    sonar_error err = {0};
    *p = (parts_of){.out = {[SONAR_CBF_LOFAR] = site_buffer(f->site, SONAR_C32, 3, far)},
                    .points = site_buffer(f->site, SONAR_U64, 2, (size_t[]){looks, spec->sensors}),
                    .at = site_buffer(f->site, SONAR_C32, 3, at)};
    if (spec->ranges)
        p->out[SONAR_CBF_NEARFIELD] = site_buffer(f->site, SONAR_C32, 3, near);
    const sonar_work work = {.params = &f->params,
                             .outputs = CBF_AZIMUTH | (lofar ? CBF_LOFAR : 0) |
                                        (spec->ranges ? CBF_NEARFIELD : 0)};
    in.shape[0] = f->snapshots;
    in.bytes = sonar_buffer_count(&in) * sizeof(sonar_c32);
    cbf_upload(f);
    site_send(f->site, f->far_turns, &p->points);
    site_require(f->site, f->ops->execute(f->stage, f->site->queue, &in, p->out, &work, &err),
                 &err);
    site_require(f->site,
                 f->ops->evaluate(f->stage, f->site->queue, &p->points, &p->at, &work, &err), &err);
    p->far = sonar_alloc(far[0] * far[1] * far[2], sizeof *p->far);
    p->near = sonar_alloc(near[0] * near[1] * near[2] + 1, sizeof *p->near);
    p->point = sonar_alloc(at[0] * at[1] * at[2], sizeof *p->point);
    site_fetch(f->site, &p->out[SONAR_CBF_LOFAR], p->far);
    site_fetch(f->site, &p->at, p->point);
    if (spec->ranges)
        site_fetch(f->site, &p->out[SONAR_CBF_NEARFIELD], p->near);
}

static void expect_parts(cbf_fixture *f, bool lofar) {
    const sonar_cbf_spec *spec = &f->spec;
    const size_t band = spec->cbf_first - spec->first_bin, looks = spec->directions;
    double *far = delays(f, 0), *near = delays(f, spec->ranges);
    parts_of p;
    run_parts(f, lofar, &p);
    expect_part(f, lofar ? "lofar" : "azimuth", p.far, lofar ? 0 : band,
                lofar ? spec->bins : spec->cbf_bins, looks, far);
    expect_part(f, "points", p.point, band, spec->cbf_bins, looks, far);
    if (spec->ranges)
        expect_part(f, "near field", p.near, band, spec->cbf_bins, spec->ranges * looks, near);
    for (int i = 0; i < SONAR_CBF_OUTPUTS; i++)
        if (p.out[i].data)
            site_free(f->site, &p.out[i]);
    site_free(f->site, &p.points);
    site_free(f->site, &p.at);
    free(p.far);
    free(p.near);
    free(p.point);
    free(far);
    free(near);
}

/* The Lofar's bins on both sides of the band, on the built-in path of a line. */
static void line_with_a_band_inside(site *site) {
    uint64_t seed = 4100;
    cbf_fixture f;
    cbf_alloc(&f, site,
              (sonar_cbf_spec){.sensors = 96,
                               .directions = 33,
                               .ranges = 1,
                               .fs_hz = 8000,
                               .length = 8192,
                               .first_bin = 500,
                               .bins = 255,
                               .cbf_first = 600,
                               .cbf_bins = 100,
                               .max_snapshots = 2,
                               .parts = true});
    cbf_line(&f, 0.75);
    cbf_scan(&f, 11, 4);
    f.range[0] = 500;
    cbf_add_wave(&f, 71.5, 0, 1);
    cbf_add_noise(&f, 0.02, &seed);
    cbf_start(&f);
    expect_parts(&f, true);
    expect_parts(&f, false);
    cbf_close(&f);
}

/* Lines, mirrored and irregular arrays, volumes: forms with differently computed weights have the
 * same phase. The array has more sensors than the part. */
void cbf_case_parts_are_complex_beams(site *site) {
    static const size_t snapshots[] = {1, 1, 2, 3, 8, 11, 17};
    line_with_a_band_inside(site);
    for (uint64_t i = 0; i < (site->quick ? 7 : 28); i++) {
        uint64_t seed = 4000 + i;
        cbf_fixture f;
        sonar_cbf_spec spec = random_spec(&seed);
        spec.sensors = sonar_min_size(spec.sensors, 131);
        spec.max_snapshots = snapshots[i % COUNT(snapshots)];
        spec.parts = true;
        cbf_alloc(&f, site, spec);
        cbf_fill(&f, &seed);
        cbf_start(&f);
        f.params.shading_sum *= 2.5;
        expect_parts(&f, i % 2);
        if (i % 3 == 0) { /* fewer than the maximum, with data of the last run behind them */
            f.snapshots = 1;
            expect_parts(&f, i % 2 == 0);
        }
        cbf_close(&f);
    }
}
