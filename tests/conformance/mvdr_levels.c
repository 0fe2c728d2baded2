/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What MVDR's levels mean: a single plane wave of power s in unit noise should read s + 1/B, and
 * directions without one 1/B. Few snapshots and loading bias both by an amount that the stage
 * predicts and, with correct_level, corrects. The reference is the scene's truth. */
#include <math.h>
#include <stdlib.h>

#include "mvdr.h"

enum { TRIALS = 90, T = 36, WAVE = 13, QUIET = 27 };

typedef struct levels {
    double source_db, floor_db; /* mean over the bins relative to the truth */
    double share, delta;        /* means of INFO */
    unsigned flags;             /* of any bin */
} levels;

static double in_db(double ratio) {
    return 10 * log10(ratio);
}

static sonar_mvdr_spec spec_of(size_t sensors, size_t snapshots, double alpha, sonar_loading rule,
                               double eps) {
    sonar_mvdr_spec spec = mvdr_spec(sensors, T, snapshots, alpha);
    spec.loading = rule;
    spec.eps = eps;
    return spec;
}

/* Every bin is a trial: noise and waves are independent from bin to bin. */
static void run_trials(mvdr_fixture *f, site *site, sonar_mvdr_spec spec, const mvdr_wave *waves,
                       size_t count, uint64_t seed) {
    const size_t snapshots = spec.max_new;
    spec.bins = TRIALS;
    spec.first_bin = 40;
    mvdr_open(f, site, &spec);
    /* the least loading that any rule uses: the floor depends on float32 */
    f->apart_db = spec.loading == SONAR_LOADING_NOISE && spec.eps < 1e-3 ? INFINITY : 0.2;
    sonar_c32 *x = mvdr_record(f, snapshots, waves, count, seed);
    mvdr_run(f, snapshots, x);
    free(x);
}

static levels measure(site *site, sonar_mvdr_spec spec, double level_db, uint64_t seed) {
    mvdr_fixture f;
    levels result = {0};
    const double az_deg = 180.0 * (WAVE + 0.5) / T, n = (double)spec.sensors;
    double source = 0, quiet = 0;
    run_trials(&f, site, spec, &(mvdr_wave){az_deg, level_db}, 1, seed);
    for (size_t bin = 0; bin < TRIALS; bin++) {
        source += (double)f.spectrum[bin * T + WAVE] / TRIALS;
        quiet += (double)f.spectrum[bin * T + QUIET] / TRIALS;
        result.share += (double)mvdr_info(&f, bin, SONAR_MVDR_LEVEL) / TRIALS;
        result.delta += (double)mvdr_info(&f, bin, SONAR_MVDR_DELTA) / TRIALS;
        result.flags |= mvdr_flags(&f, bin);
    }
    mvdr_close(&f);
    result.source_db = in_db(source / (pow(10, level_db / 10) + 1 / n));
    result.floor_db = in_db(quiet * n);
    return result;
}

/* Both the predicted bias without correction and the remaining error with it. */
static void check(site *site, sonar_mvdr_spec spec, double level_db, double limit_db) {
    const double n = (double)spec.sensors, truth = pow(10, level_db / 10) + 1 / n;
    const levels plain = measure(site, spec, level_db, 77);
    const double source_db = in_db(plain.share + plain.delta / n / truth);
    const double floor_db = in_db(plain.share + plain.delta);
    site_expect(site, fabs(plain.source_db - source_db) < limit_db,
                "B %g, L %zu, eps %g: a source reads %.2f dB, foretold %.2f", n, spec.max_new,
                spec.eps, plain.source_db, source_db);
    site_expect(site, fabs(plain.floor_db - floor_db) < limit_db,
                "B %g, L %zu, eps %g: the floor reads %.2f dB, foretold %.2f", n, spec.max_new,
                spec.eps, plain.floor_db, floor_db);
    spec.correct_level = true;
    const levels corrected = measure(site, spec, level_db, 77);
    site_expect(site, fabs(corrected.source_db) < limit_db && fabs(corrected.floor_db) < limit_db,
                "B %g, L %zu, eps %g: corrected source %.2f dB, floor %.2f", n, spec.max_new,
                spec.eps, corrected.source_db, corrected.floor_db);
    site_expect(site, fabs(corrected.share - plain.share) <= 1e-6, "share %g, then %g", plain.share,
                corrected.share);
}

/* A few snapshots of many sensors with nearly no loading hardly show a source, and are flagged,
 * although the share depends on rounding. */
MVDR_CASE(level_of_hardly_any_snapshots) {
    enum { B = 100, L = 120, FEW = 12 };
    sonar_mvdr_spec spec = spec_of(B, L, 0, SONAR_LOADING_ABSOLUTE, 0.1);
    mvdr_fixture f;
    mvdr_open(&f, site, &spec);
    sonar_c32 *x = mvdr_record(&f, FEW, (mvdr_wave[]){{70, 60}, {120, 40}}, 2, 9);
    f.apart_db = 0.01;
    for (size_t l = 1; l <= FEW; l++) {
        mvdr_run(&f, 1, x + (l - 1) * B);
        const double share = (double)mvdr_info(&f, 0, SONAR_MVDR_LEVEL);
        site_expect(site, share > 0 && share < 0.02, "L %zu: share %g", l, share);
        site_expect(site, mvdr_flags(&f, 0) & SONAR_MVDR_FLAG_LEVEL_BIASED, "L %zu: flags %u", l,
                    mvdr_flags(&f, 0));
    }
    free(x);
    mvdr_close(&f);
}

/* Runs a scene in units of 2^-exponent: P in the unit's square, and the share. */
static void in_unit(site *site, sonar_mvdr_spec spec, int exponent, double *p, double *share) {
    mvdr_fixture f;
    const size_t sensors = spec.sensors, snapshots = spec.max_new;
    if (spec.loading == SONAR_LOADING_ABSOLUTE)
        spec.eps = ldexp(spec.eps, 2 * exponent);
    mvdr_open(&f, site, &spec);
    f.apart_db = 0.01;
    sonar_c32 *x = mvdr_record(&f, snapshots, (mvdr_wave[]){{70, 20}}, 1, 5);
    for (size_t i = 0; i < snapshots * sensors; i++)
        x[i] = (sonar_c32){ldexpf(x[i].re, exponent), ldexpf(x[i].im, exponent)};
    mvdr_run(&f, snapshots, x);
    for (size_t t = 0; t < T; t++)
        p[t] = ldexp((double)f.spectrum[t], -2 * exponent);
    *share = (double)mvdr_info(&f, 0, SONAR_MVDR_LEVEL);
    free(x);
    mvdr_close(&f);
}

/* The unit of pressure is arbitrary: in micropascal a ship's samples are 1e6. */
MVDR_CASE(level_in_any_unit) {
    static const int exponents[] = {-24, 24};
    static const double usual[] = {SONAR_LOADING_RULES(SONAR_PICK_VALUE, SONAR_COMMA)};
    for (size_t l = 1; l <= 36; l = l < 3 ? l + 1 : 3 * l)
        for (int rule = 0; rule < SONAR_LOADINGS; rule++)
            for (int i = 0; i < 2; i++) {
                const double eps = usual[rule] > 0 ? usual[rule] : 0.1;
                sonar_mvdr_spec spec = spec_of(13, l, 0, (sonar_loading)rule, eps);
                double p[T], share, other_p[T], other_share;
                spec.correct_level = true;
                in_unit(site, spec, 0, p, &share);
                in_unit(site, spec, exponents[i], other_p, &other_share);
                site_expect(site, fabs(other_share / share - 1) < 1e-6,
                            "L %zu, rule %d, 2^%d: share %g, not %g", l, rule, exponents[i],
                            other_share, share);
                for (size_t t = 0; t < T; t++)
                    site_expect(site, fabs(other_p[t] / p[t] - 1) < 1e-6,
                                "L %zu, rule %d, 2^%d, direction %zu: P %g, not %g", l, rule,
                                exponents[i], t, other_p[t], p[t]);
            }
}

MVDR_CASE(level_few_and_many_snapshots) {
    static const size_t size[][2] = {{24, 12}, {24, 24}, {24, 48}, {24, 96}, {64, 32}};
    static const double eps[] = {0.01, 1, 10};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        for (size_t j = 0; j < sizeof eps / sizeof *eps; j++)
            check(site, spec_of(size[i][0], size[i][1], 0, SONAR_LOADING_NOISE, eps[j]), 3, 0.6);
}

/* With a loud ship: it determines the loading by the rule trace, but not by the rule noise. */
MVDR_CASE(level_of_a_loud_source) {
    check(site, spec_of(24, 48, 0, SONAR_LOADING_NOISE, 1), 40, 0.6);
    check(site, spec_of(24, 48, 0, SONAR_LOADING_TRACE, 0.01), 20, 0.6);
    check(site, spec_of(24, 48, 0, SONAR_LOADING_ABSOLUTE, 0.3), 20, 0.6);
}

/* While it fills and after. */
MVDR_CASE(level_while_forgetting) {
    static const size_t seen[] = {10, 40, 150};
    for (size_t i = 0; i < 3; i++)
        check(site, spec_of(16, seen[i], 0.95, SONAR_LOADING_NOISE, 1), 3, 0.6);
}

/* Each snapshot counts twice. */
MVDR_CASE(level_forward_backward) {
    sonar_mvdr_spec spec = spec_of(24, 24, 0, SONAR_LOADING_NOISE, 1);
    spec.forward_backward = true;
    check(site, spec, 3, 0.6);
    spec = spec_of(24, 100, 0.9, SONAR_LOADING_NOISE, 1);
    spec.forward_backward = true;
    check(site, spec, 3, 0.7);
}

/* Very large loading gives the conventional beam's power, which has no bias. */
MVDR_CASE(level_overwhelming_loading) {
    enum { B = 20, L = 30 };
    sonar_mvdr_spec spec = spec_of(B, L, 0, SONAR_LOADING_ABSOLUTE, 1e12);
    spec.correct_level = true;
    mvdr_fixture f;
    mvdr_open(&f, site, &spec);
    sonar_c32 *x = mvdr_record(&f, L, (mvdr_wave[]){{70, 10}}, 1, 5);
    mvdr_run(&f, L, x);
    cplx *r = mvdr_covariance(&f, 0, L, x), a[B];
    for (size_t t = 0; t < T; t++) {
        mvdr_steering(&f, 0, mvdr_azimuth_deg(&f, t), a);
        const double want = mvdr_oracle_conventional(B, r, a);
        site_expect(site, fabs((double)f.spectrum[t] - want) <= 1e-4 * want, "%g, not %g",
                    (double)f.spectrum[t], want);
    }
    free(r);
    free(x);
    mvdr_close(&f);
}

/* Capon and Goodman's exact (L - B + 1)/L where hardly anything is loaded. */
MVDR_CASE(level_without_loading) {
    const levels plain = measure(site, spec_of(24, 48, 0, SONAR_LOADING_ABSOLUTE, 1e-6), 3, 9);
    site_expect(site, fabs(plain.share - 25 / 48.0) <= 1e-4, "share %g", plain.share);
}

/* The share by the oracle's eigenvalues. Only as many of them as snapshots are more than
 * rounding. */
static double oracle_share(const mvdr_fixture *f, size_t snapshots, const sonar_c32 *x) {
    const size_t n = f->spec.sensors;
    cplx *r = mvdr_covariance(f, 0, snapshots, x);
    double *d = calloc(n, sizeof *d), left = 0, quiet = 0;
    const double delta = (double)mvdr_info(f, 0, SONAR_MVDR_DELTA);
    mvdr_oracle_eigenvalues(n, r, d);
    for (size_t i = 0; i < snapshots; i++) {
        const double rest = delta / (d[i] + delta);
        left += rest;
        quiet += rest * rest;
    }
    free(r);
    free(d);
    return (left + fmin(quiet / left, left)) / (double)snapshots;
}

/* With fewer snapshots than sensors, in sensor space, loud ships and hardly any loading, P shows
 * only a ten-thousandth of a source's power, which a difference of traces cannot resolve. */
static void expect_share(site *site, size_t sensors, sonar_loading rule, double eps,
                         double level_db) {
    const size_t snapshots = sensors * 3 / 4, windows = 6;
    sonar_mvdr_spec spec = mvdr_spec(sensors, 19, snapshots, 0);
    spec.loading = rule;
    spec.eps = eps;
    mvdr_fixture f;
    mvdr_open(&f, site, &spec);
    f.apart_db = INFINITY; /* the oracle judges the level; the floor depends on float32 */
    sonar_c32 *x =
        mvdr_record(&f, snapshots + windows, (mvdr_wave[]){{70, level_db}, {110, 40}}, 2, 5);
    for (size_t w = 0; w <= windows; w++) {
        mvdr_run(&f, w ? 1 : snapshots, x + (w ? snapshots + w - 1 : 0) * sensors);
        const double share = (double)mvdr_info(&f, 0, SONAR_MVDR_LEVEL);
        const double want = oracle_share(&f, snapshots, x + w * sensors);
        site_expect(site, fabs(in_db(share / want)) < 0.01,
                    "%zu sensors, rule %d, eps %g, %g dB, window %zu: %.2f dB, not %.2f", sensors,
                    (int)rule, eps, level_db, w, in_db(share), in_db(want));
    }
    free(x);
    mvdr_close(&f);
}

MVDR_CASE(level_next_to_nothing) {
    static const site_path large = {"large", {{"mvdr.route", "update factor-grid"}}};
    static const double eps[] = {1e-3, 1e-4}, level_db[] = {40, 60, 70, 80};
    const site_path *own = site_taken();
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < 4; j++) {
            expect_share(site, 64, SONAR_LOADING_ABSOLUTE, eps[i], level_db[j]);
            expect_share(site, 64, SONAR_LOADING_NOISE, eps[i], level_db[j]);
            expect_share(site, 136, SONAR_LOADING_ABSOLUTE, eps[i], level_db[j]);
            site_take(&large);
            expect_share(site, 64, SONAR_LOADING_ABSOLUTE, eps[i], level_db[j]);
            site_take(own);
        }
}

static void expect_biased(site *site, sonar_mvdr_spec spec, bool want, const char *what) {
    const unsigned flags = measure(site, spec, 3, 1).flags;
    site_expect(site, !!(flags & SONAR_MVDR_FLAG_LEVEL_BIASED) == want, "%s: flags %u", what,
                flags);
}

MVDR_CASE(level_flags) {
    sonar_mvdr_spec spec = spec_of(24, 24, 0, SONAR_LOADING_NOISE, 1);
    expect_biased(site, spec, false, "2.4 dB");
    spec.eps = 0.01;
    expect_biased(site, spec, true, "10 dB");
    spec.correct_level = true;
    expect_biased(site, spec, false, "taken out");
    spec.eps = 1e-4;
    expect_biased(site, spec, true, "too much to take out");
}

/* eps for the rule noise: relative to the trace, which includes the loudest ship, it is smaller. */
MVDR_CASE(level_trace_fallback) {
    const levels few = measure(site, spec_of(24, 2, 0, SONAR_LOADING_NOISE, 1), 20, 3);
    site_expect(site, few.flags & SONAR_MVDR_FLAG_TRACE_FALLBACK, "flags %u", few.flags);
    site_expect(site, fabs(few.delta - 0.01 * 101) <= 0.25 * 0.01 * 101, "delta %g", few.delta);
}

/* Noise 80 dB below a source suffices for the least loading of a rule; 120 dB below it is not
 * resolved by float32, and the loading is raised. */
MVDR_CASE(level_least_loading) {
    for (size_t snapshots = 12; snapshots <= 48; snapshots *= 2) {
        sonar_mvdr_spec spec = spec_of(24, snapshots, 0, SONAR_LOADING_NOISE, 1e-4);
        const levels loud = measure(site, spec, 80, 3), most = measure(site, spec, 120, 3);
        const double least = 24e12 * 1.42e-12;
        site_expect(site, !(loud.flags & SONAR_MVDR_FLAG_LOADING_FLOOR), "flags %u", loud.flags);
        site_expect(site, loud.delta < 2e-4, "delta %g", loud.delta);
        site_expect(site, most.flags & SONAR_MVDR_FLAG_LOADING_FLOOR, "flags %u", most.flags);
        site_expect(site, fabs(most.delta - least) <= 0.5 * least, "delta %g, not %g", most.delta,
                    least);
    }
}

/* ---- the noise rule -------------------------------------------------------------------------- */

/* The smallest and the largest estimate of a noise of 1 in single bins. */
static void noise_estimates(site *site, size_t sensors, size_t snapshots, double level_db,
                            double *least, double *most) {
    mvdr_fixture f;
    const mvdr_wave waves[] = {{60, level_db}, {100, level_db - 10}};
    run_trials(&f, site, spec_of(sensors, snapshots, 0, SONAR_LOADING_NOISE, 1), waves,
               level_db > 0 ? 2 : 0, sensors + snapshots);
    for (size_t bin = 0; bin < TRIALS; bin++) {
        const double delta = (double)mvdr_info(&f, bin, SONAR_MVDR_DELTA);
        *least = fmin(*least, delta);
        *most = fmax(*most, delta);
    }
    mvdr_close(&f);
}

/* With two loud sources and without: the limits of docs/mvdr.md. */
MVDR_CASE(level_noise_rule) {
    static const struct {
        size_t snapshots;
        double least, most;
    } promised[] = {{8, 0.35, 1.65}, {16, 0.5, 1.45}, {64, 0.7, 1.3}};
    for (size_t i = 0; i < 3; i++) {
        double least = 10, most = 0;
        for (size_t sensors = 8; sensors <= 128; sensors *= 4) {
            noise_estimates(site, sensors, promised[i].snapshots, 0, &least, &most);
            noise_estimates(site, sensors, promised[i].snapshots, 40, &least, &most);
        }
        site_expect(site, least > promised[i].least && most < promised[i].most,
                    "L %zu: %.2f to %.2f", promised[i].snapshots, least, most);
        site_expect(site, least < 1.3 * promised[i].least && most > promised[i].most / 1.3,
                    "L %zu: the document may promise more: %.2f to %.2f", promised[i].snapshots,
                    least, most);
    }
}

/* ---- beside the CPU's ------------------------------------------------------------------------ */

/* The correction gives finite powers for few snapshots and any loading. */
MVDR_CASE(corrected_levels) {
    static const size_t lengths[] = {6, 24, 60};
    static const double eps[] = {1e-2, 1, 1e6};
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 3; j++)
            for (int backward = 0; backward < 2; backward++) {
                mvdr_fixture f;
                sonar_mvdr_spec spec = spec_of(24, lengths[i], 0, SONAR_LOADING_NOISE, eps[j]);
                spec.correct_level = true, spec.forward_backward = backward;
                mvdr_open(&f, site, &spec);
                sonar_c32 *x = mvdr_record(&f, lengths[i], (mvdr_wave[]){{70, 30}}, 1, 3 + i);
                mvdr_run(&f, lengths[i], x);
                for (size_t t = 0; t < T; t++)
                    site_expect(site, isfinite(f.spectrum[t]) && f.spectrum[t] >= 0, "%g",
                                (double)f.spectrum[t]);
                free(x);
                mvdr_close(&f);
            }
}
