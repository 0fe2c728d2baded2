/* SPDX-License-Identifier: GPL-3.0-or-later */
/* MUSIC: compared with the oracle's noise subspace on lines, planar and volume arrays, in both
 * spaces; with data that have no noise subspace; and its purpose, two sources that MVDR shows as
 * one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dft/dft.h"
#include "mvdr.h"

enum { T = 37, BINS = 3 };

static const mvdr_wave SHIPS[] = {{50.5, 40}, {81, 20}, {120, 10}};

/* ---- compared with the oracle ---------------------------------------------------------------- */

/* K of a bin, by the specification. */
static size_t sources_of(const mvdr_fixture *f, size_t bin, size_t count, const sonar_c32 *x) {
    const size_t n = f->params.sensors_used;
    const double looks = mvdr_looks(f, count) * (f->spec.forward_backward ? 2 : 1);
    const size_t most = (looks < (double)n ? (size_t)lround(looks) : n) - 1;
    cplx *r = mvdr_covariance(f, bin, count, x);
    double *d = calloc(n + 1, sizeof *d);
    mvdr_oracle_eigenvalues(n, r, d);
    size_t sources = f->spec.music > 0 ? (size_t)f->spec.music
                                       : mvdr_oracle_sources(f->spec.source_count, n, d, looks,
                                                             f->spec.forward_backward);
    free(r);
    free(d);
    return sources < most ? sources : most;
}

/* The mean share of the bins that have sources, of all directions; how many these are. */
static size_t mean_share(const mvdr_fixture *f, size_t count, const sonar_c32 *x, double *mean) {
    const size_t n = f->params.sensors_used, looks = f->spec.directions;
    cplx *a = calloc(n * looks, sizeof *a);
    double *share = calloc(looks, sizeof *share);
    size_t bins = 0;
    memset(mean, 0, looks * sizeof *mean);
    for (size_t bin = 0; bin < f->spec.bins; bin++) {
        const size_t sources = sources_of(f, bin, count, x);
        site_expect(f->site, (size_t)mvdr_info(f, bin, SONAR_MVDR_SUBSPACE) == sources,
                    "B %zu, after %zu: a subspace of %g dimensions, not %zu", n, count,
                    (double)mvdr_info(f, bin, SONAR_MVDR_SUBSPACE), sources);
        if (!sources || bin < f->spec.edge_below || bin >= f->spec.bins - f->spec.edge_above)
            continue;
        cplx *r = mvdr_covariance(f, bin, count, x);
        for (size_t t = 0; t < looks; t++)
            mvdr_steering(f, bin, mvdr_azimuth_deg(f, t), a + t * n);
        mvdr_oracle_music(n, r, sources, looks, a, share);
        for (size_t t = 0; t < looks; t++)
            mean[t] += share[t];
        bins++;
        free(r);
    }
    for (size_t t = 0; t < looks && bins; t++)
        mean[t] /= (double)bins;
    free(a);
    free(share);
    return bins;
}

/* Of all directions, within limit_db; what rounding a to float32 leaves of a source's own direction
 * is more than that from shares of 1e-10 down. */
static void expect_music(const mvdr_fixture *f, size_t count, const sonar_c32 *x, double limit_db) {
    double *mean = calloc(f->spec.directions, sizeof *mean);
    const size_t bins = mean_share(f, count, x, mean);
    for (size_t t = 0; t < f->spec.directions; t++) {
        const double is = bins ? mean[t] : 1, got = 1 / (double)f->music[t];
        const double rounding = 1e-7 * sqrt(is) + 1e-14;
        site_expect(f->site, fabs(got - is) <= (pow(10, limit_db / 10) - 1) * is + rounding,
                    "B %zu, L %zu, K %d, direction %zu: a share of %g, not %g", f->spec.sensors,
                    count, f->spec.music, t, got, is);
    }
    free(mean);
}

static sonar_mvdr_spec music_spec(size_t sensors, size_t snapshots, double alpha, int music) {
    sonar_mvdr_spec spec = mvdr_spec(sensors, T, snapshots, alpha);
    spec.bins = BINS, spec.music = music;
    spec.loading = SONAR_LOADING_NOISE, spec.eps = 1;
    spec.source_count = SONAR_COUNT_RANDOM_MATRIX;
    return spec;
}

/* In two steps: while the block fills, then full and with masked sensors. */
static void one_scene(site *site, const sonar_mvdr_spec *spec, size_t count) {
    mvdr_fixture f;
    const size_t n = spec->sensors, first = count / 3 + 1;
    mvdr_open(&f, site, spec);
    f.apart_db = 0.02;
    sonar_c32 *x = mvdr_record(&f, count, SHIPS, 3, n + count);
    mvdr_run(&f, first, x);
    expect_music(&f, first, x, 0.002);
    if (n > 4) { /* and its mirror image, for the oracle's sake */
        f.used[1] = f.used[n - 2] = 0;
        mvdr_renew(&f);
    }
    mvdr_run(&f, count - first, x + first * BINS * n);
    expect_music(&f, count, x, 0.002);
    free(x);
    mvdr_close(&f);
}

MVDR_CASE(music) {
    static const size_t sizes[][2] = {{1, 5}, {24, 2}, {25, 7}, {24, 12}, {24, 20}, {15, 60}};
    static const int sources[] = {1, 3, 6, 1000, SONAR_MODES_COUNTED};
    for (size_t k = 0; k < sizeof sources / sizeof *sources; k++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            sonar_mvdr_spec spec = music_spec(sizes[i][0], sizes[i][1], 0, sources[k]);
            spec.forward_backward = (k + i) % 2;
            spec.solver = (sonar_mvdr_solver)(i % 3);
            spec.edge_below = i % 2, spec.edge_above = k % 2;
            one_scene(site, &spec, sizes[i][1]);
        }
        sonar_mvdr_spec spec = music_spec(12, 60, 0.9, sources[k]);
        one_scene(site, &spec, 60);
        spec = music_spec(80, 30, 0.4, sources[k]);
        one_scene(site, &spec, 30);
        spec =
            music_spec(24, 12, 0, sources[k]); /* together with dominant modes, of another number */
        spec.dmr = 2;
        one_scene(site, &spec, 12);
    }
}

/* Sensors anywhere: on a line, in a plane, in space. */
MVDR_CASE(music_of_any_array) {
    for (int dimensions = 1; dimensions <= 3; dimensions++)
        for (size_t l = 5; l < 60; l += 25) {
            mvdr_fixture f;
            const sonar_mvdr_spec spec = music_spec(23, l, 0, 3);
            uint64_t seed = 5 + l;
            mvdr_open(&f, site, &spec);
            f.apart_db = 0.02;
            for (size_t i = 0; i < 3 * spec.sensors; i++)
                f.position_m[i] = (int)(i % 3) < dimensions ? 20 * (test_uniform(&seed) - 0.5) : 0;
            mvdr_renew(&f);
            sonar_c32 *x = mvdr_record(&f, l, SHIPS, 3, l);
            mvdr_run(&f, l, x);
            expect_music(&f, l, x, 0.002);
            free(x);
            mvdr_close(&f);
        }
}

MVDR_CASE(music_beside_loud_ships) {
    static const int sources[] = {SONAR_MODES_COUNTED, 3};
    for (size_t i = 0; i < 2; i++) {
        const sonar_mvdr_spec spec = music_spec(32, 1, 0, sources[i]);
        mvdr_beside_loud_ships(site, &spec, 0.02, expect_music);
    }
}

/* Half as many snapshots as sensors, and the same snapshots in a block with room for one more. */
MVDR_CASE(music_both_spaces) {
    enum { B = 32, L = B / 2 };
    for (int solver = SONAR_MVDR_AUTO; solver <= SONAR_MVDR_JACOBI; solver++) {
        mvdr_fixture f, g;
        sonar_mvdr_spec spec = music_spec(B, L, 0, 5);
        spec.solver = (sonar_mvdr_solver)solver;
        mvdr_open(&f, site, &spec);
        spec.snapshots++;
        mvdr_open(&g, site, &spec);
        sonar_c32 *x = mvdr_record(&f, L, SHIPS, 3, 8);
        mvdr_run(&f, L, x);
        mvdr_run(&g, L, x);
        for (size_t t = 0; t < T; t++)
            site_expect(site, fabsf(f.music[t] / g.music[t] - 1) < 1e-5f, "direction %zu: %g, %g",
                        t, (double)f.music[t], (double)g.music[t]);
        free(x);
        mvdr_close(&f);
        mvdr_close(&g);
    }
}

/* ---- data that are none ---------------------------------------------------------------------- */

static void expect_everywhere(const mvdr_fixture *f, const char *what, double share) {
    for (size_t t = 0; t < f->spec.directions; t++)
        site_expect(f->site, fabs(1 / (double)f->music[t] - share) < 1e-6, "%s: %g, not 1/%g", what,
                    (double)f->music[t], share);
}

/* Before any snapshot and of zeros: 1. Equal snapshots have one source, for any K; three orthogonal
 * snapshots that are equally loud and louder than the rest have three. A dead but used sensor gives
 * the same value in all directions, too. */
static void odd_scenes(site *site, size_t l, sonar_mvdr_solver solver) {
    enum { B = 16 };
    mvdr_fixture f;
    sonar_mvdr_spec spec = music_spec(B, l, 0, 3);
    spec.solver = solver;
    sonar_c32 *x = calloc(l * BINS * B, sizeof *x);
    mvdr_open(&f, site, &spec);
    mvdr_run(&f, 0, NULL);
    expect_everywhere(&f, "nothing", 1);
    mvdr_run(&f, l, x);
    expect_everywhere(&f, "zeros", 1);
    for (size_t i = 0; i < l * BINS; i++)
        x[i * B + 2] = (sonar_c32){7, 3};
    mvdr_run(&f, l, x);
    expect_everywhere(&f, "the same", 1 - 1.0 / B);
    site_expect(site, mvdr_info(&f, 0, SONAR_MVDR_SUBSPACE) == 1, "%g dimensions",
                (double)mvdr_info(&f, 0, SONAR_MVDR_SUBSPACE));
    memset(x, 0, l * BINS * B * sizeof *x);
    for (size_t s = 0; s < l; s++)
        for (size_t bin = 0; bin < BINS; bin++)
            x[(s * BINS + bin) * B + s % 8] = (sonar_c32){s % 8 < 3 ? 7 : 1e-3f, 0};
    mvdr_run(&f, l, x);
    expect_everywhere(&f, "right angles", 1 - 3.0 / B);
    free(x);
    mvdr_close(&f);
}

MVDR_CASE(music_of_odd_data) {
    for (int solver = SONAR_MVDR_AUTO; solver <= SONAR_MVDR_JACOBI; solver++) {
        odd_scenes(site, 8, (sonar_mvdr_solver)solver);
        odd_scenes(site, 24, (sonar_mvdr_solver)solver);
    }
}

/* ---- tones, windows, physics ----------------------------------------------------------------- */

/* A bin is steered at its tone's frequency for MUSIC, too: the peak is at the ship's bearing. */
MVDR_CASE(music_of_a_tone) {
    enum { B = 40, L = 30, LOOKS = 360, SHIP = 66 };
    mvdr_fixture f;
    sonar_mvdr_tones hann;
    double window[256];
    sonar_dft_taper(SONAR_HANN, 0, 256, window);
    sonar_mvdr_tones_make(window, 256, &hann);
    sonar_mvdr_spec spec = music_spec(B, L, 0, 1);
    spec.directions = LOOKS, spec.tones = &hann, spec.edge_below = spec.edge_above = 1;
    mvdr_open(&f, site, &spec);
    const double above = 1.37, az_deg = mvdr_azimuth_deg(&f, SHIP);
    const double hz = ((double)spec.first_bin + above) * spec.fs_hz / (double)spec.length;
    sonar_c32 *x = mvdr_record(&f, L, NULL, 0, 3);
    for (size_t s = 0; s < L; s++)
        for (size_t i = 0; i < BINS * B; i++) {
            const double o = above - (double)(i / B);
            const double w = 30 * sin(M_PI * o) / (M_PI * o * (1 - o * o)) * (i / B % 2 ? -1 : 1);
            const cplx v = w * cexp(2 * M_PI * I * hz * mvdr_delay(&f, i % B, az_deg));
            x[s * BINS * B + i].re += (float)creal(v);
            x[s * BINS * B + i].im += (float)cimag(v);
        }
    mvdr_run(&f, L, x);
    size_t best = 0;
    for (size_t t = 0; t < LOOKS; t++)
        best = f.music[t] > f.music[best] ? t : best;
    site_expect(site, best == SHIP && f.music[SHIP] > 1e3f, "the peak is at %zu: %g", best,
                (double)f.music[best]);
    free(x);
    mvdr_close(&f);
}

/* All other results are the same, bit for bit, with and without a request for MUSIC; without one,
 * MUSIC is not computed. */
MVDR_CASE(music_unwanted) {
    for (int solver = SONAR_MVDR_AUTO; solver <= SONAR_MVDR_JACOBI; solver++)
        for (size_t l = 6; l < 40; l += 30) {
            enum { B = 20 };
            mvdr_fixture f, g;
            sonar_mvdr_spec spec = music_spec(B, l, 0, 2);
            spec.solver = (sonar_mvdr_solver)solver;
            mvdr_open(&f, site, &spec);
            mvdr_open(&g, site, &spec);
            g.without_music = true;
            sonar_c32 *x = mvdr_record(&f, l, SHIPS, 3, 4);
            mvdr_run(&f, l, x);
            mvdr_run(&g, l, x);
            site_expect(site, !memcmp(f.spectrum, g.spectrum, BINS * T * sizeof *f.spectrum),
                        "solver %d, L %zu: spectra differ", solver, l);
            site_expect(site, mvdr_info(&g, 0, SONAR_MVDR_SUBSPACE) == 0, "a subspace");
            for (size_t t = 0; t < T; t++)
                site_expect(site, isnan(g.music[t]), "written: %g", (double)g.music[t]);
            g.without_music = false; /* solved, but without eigenvectors */
            mvdr_run(&g, 0, NULL);
            site_expect(site, !memcmp(f.music, g.music, T * sizeof *f.music),
                        "solver %d, L %zu: MUSIC differs", solver, l);
            free(x);
            mvdr_close(&f);
            mvdr_close(&g);
        }
}

/* Peaks that stand 3 dB above the lowest value between them and the next. */
static size_t peaks(const float *p, size_t count) {
    size_t found = 0;
    float low = p[0], high = p[0];
    bool rising = true;
    for (size_t i = 1; i < count; i++) {
        high = fmaxf(high, p[i]), low = fminf(low, p[i]);
        if (rising && p[i] < high / 2)
            found++, rising = false, low = p[i];
        else if (!rising && p[i] > 2 * low)
            rising = true, high = p[i];
    }
    return found;
}

/* Two equal sources a quarter of a beam width apart at 21 dB array SNR: one for MVDR, whose
 * resolution ends at some 30 dB there (Cox, JASA 54, 1973), two for MUSIC, at the right bearings.
 */
MVDR_CASE(music_resolves) {
    enum { B = 16, L = 1000, LOOKS = 1800 };
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_spec(B, LOOKS, L, 0);
    spec.loading = SONAR_LOADING_NOISE, spec.eps = 0.01, spec.bins = BINS;
    spec.music = SONAR_MODES_COUNTED, spec.source_count = SONAR_COUNT_MDL;
    mvdr_open(&f, site, &spec);
    const double width_deg = 0.886 * 2 / B * 180 / M_PI, level_db = 21 - 10 * log10(B);
    const mvdr_wave waves[] = {{90 - width_deg / 8, level_db}, {90 + width_deg / 8, level_db}};
    sonar_c32 *x = mvdr_record(&f, L, waves, 2, 2);
    mvdr_run(&f, L, x);
    site_expect(site, peaks(f.azimuth, LOOKS) == 1, "%zu peaks of MVDR", peaks(f.azimuth, LOOKS));
    site_expect(site, peaks(f.music, LOOKS) == 2, "%zu peaks of MUSIC", peaks(f.music, LOOKS));
    for (size_t w = 0; w < 2; w++) {
        size_t best = w ? LOOKS / 2 : 0;
        for (size_t t = best; t < (w ? LOOKS : LOOKS / 2); t++)
            best = f.music[t] > f.music[best] ? t : best;
        site_expect(site, fabs(mvdr_azimuth_deg(&f, best) - waves[w].az_deg) < 0.1 * width_deg,
                    "a peak at %g, not %g deg", mvdr_azimuth_deg(&f, best), waves[w].az_deg);
    }
    free(x);
    mvdr_close(&f);
}

/* ---- refusals -------------------------------------------------------------------------------- */

MVDR_CASE(impossible_music) {
    sonar_mvdr_spec spec = mvdr_spec(4, T, 6, 0);
    sonar_error err = {0};
    mvdr_fixture f;
    spec.music = -2, mvdr_refused(site, "-2 sources", &spec);
    spec.music = SONAR_MODES_COUNTED, mvdr_refused(site, "sources are not counted", &spec);
    for (int on = 0; on < 2; on++) { /* of another length, and without MUSIC */
        spec.music = on;
        mvdr_open(&f, site, &spec);
        const sonar_work work = mvdr_work(&f);
        sonar_buffer *out = &f.out[SONAR_MVDR_OUT_MUSIC], right = *out,
                     wrong = site_buffer(site, SONAR_F32, 1, (size_t[]){T - on});
        *out = wrong;
        site_expect(site,
                    f.ops->execute(f.stage, site->queue, &f.in, f.out, &work, &err) == SONAR_EINVAL,
                    "on %d: accepted", on);
        *out = right;
        site_free(site, &wrong);
        mvdr_close(&f);
    }
}
