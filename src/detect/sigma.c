/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "detect/sigma.h"

#include <complex.h>
#include <float.h>
#include <string.h>

#include "core/core.h"
#include "detect/search.h"

/* ---- the array ------------------------------------------------------------------------------- */

void sonar_aperture_of(size_t sensors, const double *position_m, const float *weight,
                       sonar_aperture *a) {
    double mean[3] = {0}, sum = 0, squares = 0;
    *a = (sonar_aperture){.share = 0};
    for (size_t k = 0; k < sensors; k++) {
        const double w = (double)weight[k];
        sum += w, squares += w * w;
        for (size_t i = 0; i < 3 && w != 0; i++)
            mean[i] += (position_m[3 * k + i] - mean[i]) * w / sum;
    }
    for (size_t k = 0; k < sensors && sum > 0; k++) {
        const double w = (double)weight[k], *p = position_m + 3 * k;
        for (size_t i = 0; i < 9 && w != 0; i++) {
            const double product = (p[i / 3] - mean[i / 3]) * (p[i % 3] - mean[i % 3]);
            a->beam_m2[i] += w / sum * product;
            a->noise_m2[i] += w * w / squares * product;
        }
    }
    a->share = sum > 0 ? squares / (sum * sum) : 0;
}

static double product(const double moment[9], const double a[3], const double b[3]) {
    double sum = 0;
    for (size_t i = 0; i < 9; i++)
        sum += a[i / 3] * moment[i] * b[i % 3];
    return sum;
}

/* d(delay c)/d(coordinate) at the direction. The coordinate is the cosine of the angle on a cone,
 * else the azimuth in radians. */
static void derivative(const sonar_scan *scan, double az_deg, double d[3]) {
    const double az = az_deg * SONAR_RADIANS, dep = scan->depression_deg * SONAR_RADIANS;
    if (scan->cone)
        memcpy(d, scan->axis, 3 * sizeof *d);
    else
        d[0] = -sin(az) * cos(dep), d[1] = cos(az) * cos(dep), d[2] = 0;
}

/* ---- averages -------------------------------------------------------------------------------- */

enum { BINS_BESIDE = 8 };

/* Correlation of two transforms of a stationary sound, `later` samples and `beside` bins apart. */
static double correlation(const double *taper, size_t n, double later, size_t beside) {
    const size_t shift = (size_t)(later + 0.5);
    double complex sum = 0;
    double all = 0;
    for (size_t i = 0; i < n; i++) {
        all += taper[i] * taper[i];
        if (i + shift < n)
            sum +=
                taper[i] * taper[i + shift] * cexp(2 * M_PI * I * (double)(beside * i) / (double)n);
    }
    return all > 0 ? cabs(sum) / all : 0;
}

/* All transforms sum a tone in phase. Noise that two transforms share is weighted by the phase that
 * the tone gains between them: by the mean cosine of this phase for tones up to half a bin to
 * either side of the bin's centre. */
static double tone_averages(const double *taper, size_t n, double hop, double snapshots) {
    double shared = 0;
    for (size_t m = 1; (double)m * hop < 1 && (double)m < snapshots; m++) {
        const double turns = (double)m * hop;
        shared += 2 * (1 - (double)m / snapshots) * correlation(taper, n, turns * (double)n, 0) *
                  sin(M_PI * turns) / (M_PI * turns);
    }
    return snapshots / (1 + shared);
}

/* A taper with steps at its ends has no rms width. Its width is limited to the one seen with delays
 * of a tenth of its length. */
static double taper_width(const double *taper, size_t n) {
    double steps = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        const double step = taper[i] - taper[i ? i - 1 : n - 1];
        steps += step * step, squares += taper[i] * taper[i];
    }
    return fmin(sqrt(steps / squares) * (double)n / (2 * M_PI), 0.7);
}

sonar_averages sonar_averages_of(const double *taper, size_t points, double hop, double snapshots,
                                 size_t bins) {
    const double least_hop = 1.0 / 64; /* closer transforms add no information in the same time */
    double sum = 0;
    if (hop < least_hop)
        return sonar_averages_of(taper, points, least_hop, 1 + (snapshots - 1) * hop / least_hop,
                                 bins);
    for (size_t m = 0; m == 0 || ((double)m * hop < 1 && (double)m < snapshots); m++)
        for (size_t b = 0; b <= BINS_BESIDE && b < bins; b++) {
            const double r = correlation(taper, points, (double)m * hop * (double)points, b);
            sum += (m ? 2 : 1) * (b ? 2 : 1) * (1 - (double)m / snapshots) *
                   (1 - (double)b / (double)bins) * r * r;
        }
    return (sonar_averages){.noise = snapshots / sum,
                            .tone = tone_averages(taper, points, hop, snapshots),
                            .width = taper_width(taper, points)};
}

double sonar_averages_lost(double snapshots, double sensors, double level) {
    const double freedom = fmin(fmax(1 - level, 0), 1);
    return fmin(snapshots / sensors * freedom * freedom, 0.95);
}

double sonar_beam_noise(double power, double loading, double level, bool level_corrected) {
    return level_corrected ? power : fmax(power - loading, 0) / level;
}

double sonar_own_share(sonar_pattern *pattern, const sonar_scan *scan) {
    enum { DISTANCES = 41 };
    const double from_deg = scan->cone ? 90 : 0;
    float level[DISTANCES];
    for (size_t i = 0; i < DISTANCES; i++) {
        const double beams = 1.5 + 10.0 * (double)i / (DISTANCES - 1);
        double share[SONAR_PATTERN_PARTS], sum = 0;
        sonar_pattern_shares(pattern, (sonar_point){from_deg, INFINITY},
                             (sonar_point){sonar_beams_on(scan, from_deg, beams), INFINITY}, 0,
                             share);
        for (size_t part = 0; part < SONAR_PATTERN_PARTS; part++)
            sum += share[part];
        level[i] = (float)(sum / SONAR_PATTERN_PARTS);
    }
    return (double)sonar_median(level, DISTANCES);
}

/* ---- the shape of a peak --------------------------------------------------------------------- */

/* Falls that are used for the shape, as shares of the peak. Smaller ones are rounding errors,
 * larger ones belong to another lobe. */
static const double least_fall = 3e-3, most_fall = 0.6;

static double coordinate_from(const sonar_scan *scan, double az_deg, double from_deg) {
    const double half = (az_deg - from_deg) * SONAR_RADIANS / 2;
    if (!scan->cone)
        return remainder(2 * half, 2 * M_PI);
    return -2 * sin(from_deg * SONAR_RADIANS + half) * sin(half);
}

/* Sums for a line fitted by least squares of relative errors. */
typedef struct line {
    double n, x, xx, y, xy;
    size_t count;
} line;

static void take(const sonar_search *s, const sonar_detection *peak, double az_deg, double power,
                 line *l) {
    const double x = coordinate_from(s->scan, az_deg, peak->az_deg), fall = peak->power - power;
    if (!(fall > least_fall * peak->power && fall < most_fall * peak->power))
        return;
    const double y = x * x / fall, weight = 1 / (y * y);
    l->n += weight, l->x += weight * x * x, l->xx += weight * x * x * x * x;
    l->y += weight * y, l->xy += weight * x * x * y;
    l->count++;
}

/* From the points of the search for the top and the grid's directions beside it. The law of the
 * fall is nearly true for a beam, and exact for a narrow MVDR peak. */
sonar_peak_shape sonar_shape_of(const sonar_search *s, const sonar_task *t,
                                const sonar_detection *peak) {
    const sonar_peak_shape unknown = {NAN, NAN, NAN};
    line l = {0};
    if (s->scan->cone && !(peak->az_deg > 0 && peak->az_deg < 180))
        return unknown; /* the scan ends within the peak */
    for (size_t i = 0; i < t->samples; i++)
        take(s, peak, t->sample_deg[i], (double)t->sample_power[i], &l);
    const ptrdiff_t next = sonar_scan_first(s->scan, peak->az_deg);
    for (ptrdiff_t i = next - 2; i < next + 2 && !isfinite(peak->range_m); i++)
        if (sonar_scan_inside(s->scan, i))
            take(s, peak, sonar_scan_az(s->scan, i),
                 (double)s->far_power[sonar_scan_index(s->scan, i)], &l);
    if (!l.count)
        return unknown;
    const double det = l.n * l.xx - l.x * l.x;
    sonar_peak_shape found = {.y = l.y / l.n, .xx = l.x / l.n, .depth = NAN};
    if (l.count > 2 && det > 1e-6 * l.n * l.xx)
        found.depth = fmax((l.n * l.xy - l.x * l.y) / det, s->adaptive ? 1 / peak->power : 0);
    return found;
}

typedef struct shape {
    double flat, depth; /* 1/(A q), 1/A */
    bool known;
} shape;

/* height: A, if the points do not determine it. */
static shape shape_with(const sonar_peak_shape *of, double height) {
    const double depth = isnan(of->depth) ? 1 / height : of->depth, flat = of->y - depth * of->xx;
    return (shape){flat, depth, flat > 0};
}

/* ---- variances ------------------------------------------------------------------------------- */

/* Mean of (2 pi f/c)^2 over the band. */
static double wave_m2(double low_hz, double high_hz, double c_mps) {
    const double k = 2 * M_PI / c_mps;
    return k * k * (low_hz * low_hz + low_hz * high_hz + high_hz * high_hz) / 3;
}

/* How far a relative error of the delays moves a peak, in the peak's coordinate. */
static double moved(const sonar_accuracy *a, const sonar_scan *scan, double az_deg,
                    const double d[3]) {
    double u[3];
    sonar_scan_unit(scan, az_deg, u);
    const double across = product(a->aperture->beam_m2, d, d);
    return across > 0 ? product(a->aperture->beam_m2, d, u) / across : 0;
}

/* The square of the displacement of a bin's peak. Broadband sound is not at the bin's centre but
 * within its width, and the bin is steered off by that. Over neighbouring bins this cancels, except
 * at the ends of the band. */
static double spread(const sonar_accuracy *a, double moved) {
    const double x = moved * a->averages.width * 2 * a->bin_hz / (a->low_hz + a->high_hz);
    return x * x;
}

static double self_variance(const sonar_accuracy *a, double moved) {
    const double bins = (double)a->bins;
    return spread(a, moved) / (2 * bins * bins * a->averages.noise);
}

/* The variance of a beam's peak: that of the slope that noise causes at the true place, divided by
 * the square of the peak's bend there. */
static double beam_variance(const sonar_accuracy *a, const double d[3], double moved, shape is,
                            double height, double noise) {
    const double beam_m2 = product(a->aperture->beam_m2, d, d),
                 noise_m2 = product(a->aperture->noise_m2, d, d),
                 wave = wave_m2(a->low_hz, a->high_hz, a->c_mps);
    const double bend = is.known ? 1 / is.flat : height * beam_m2 * wave;
    return noise / (double)a->bins * noise_m2 * (bend / beam_m2 + noise * wave) /
               (2 * bend * bend * a->averages.noise) +
           self_variance(a, moved);
}

/* The variance due to the frequency at which MVDR steers a bin with a tone. This is the tone's
 * estimated frequency or, if the tone does not dominate the bin, the bin's centre. over: power of
 * the tone in a beam, relative to the noise. */
static double tone_variance(const sonar_accuracy *a, double moved, double over, double wave) {
    const double of_sensor = over * a->aperture->share, hz = wave * a->c_mps / (2 * M_PI);
    const double bins2 = of_sensor < 1.5 ? 1.0 / 12 : 1 / (over * a->averages.tone);
    const double x = moved * a->bin_hz / hz;
    return x * x * bins2;
}

static double needle_variance(const sonar_accuracy *a, const double d[3], double moved, shape is,
                              double power, double noise) {
    const double bins = (double)a->bins, scale = a->level_corrected ? a->level : 1;
    const double base = a->level_corrected ? a->loading : 0;
    const double floor =
        scale * noise / bins + base; /* background of a bin, before levels are corrected */
    const double height = scale * (power - noise), moment_m2 = product(a->aperture->beam_m2, d, d);
    const double ratio = fmin(fmax(1 - a->loading / floor, 0.01), 1);
    double kappa = moment_m2 * wave_m2(a->low_hz, a->high_hz, a->c_mps), flat = is.flat / scale,
           depth = is.depth / scale, averages = a->averages.noise, other = 0;
    if (!is.known)
        depth = 1 / height, flat = floor * bins / (kappa * height * (height / bins + floor));
    const double tall = fmax(1 / depth - floor, 1e-3 * floor), single = depth / flat * floor / tall;
    const double least = moment_m2 * wave_m2(a->low_hz, a->low_hz, a->c_mps),
                 most = moment_m2 * wave_m2(a->high_hz, a->high_hz, a->c_mps);
    if (single > 0.4 * least) {
        kappa = fmin(fmax(1.25 * single, least), most);
        averages = a->averages.tone;
        other = tone_variance(a, moved, tall / (ratio * floor), sqrt(kappa / moment_m2));
    } else {
        const double chance = 1.1, blunt = 1 + height / bins / floor * kappa * spread(a, moved);
        kappa = fmin(kappa, chance * depth / flat * floor * bins / height * blunt);
        other = self_variance(a, moved);
    }
    return floor / (2 * averages * (1 - a->lost)) *
               (ratio * depth / kappa + (ratio + ratio * ratio) * flat +
                ratio * ratio * kappa * (scale * power + bins * base) * flat * flat) +
           other;
}

/* The noise alone, without the power that the peak's own side lobes add to its background. */
static double noise_of(const sonar_accuracy *a, const sonar_detection *is) {
    const double least = a->noise > 0 ? a->noise : is->least_background;
    return is->source == SONAR_FROM_MVDR
               ? is->background
               : fmax(is->background - 2 * a->own_share * is->power, fmin(least, is->background));
}

void sonar_detect_sigma(const sonar_scan *scan, const sonar_accuracy *a, sonar_detection *is) {
    double d[3];
    is->sigma = NAN;
    if (!(a->averages.noise > 0) || !(is->power > 0))
        return;
    derivative(scan, is->az_deg, d);
    const double noise = fmin(noise_of(a, is), is->power / 1.01), height = is->power - noise;
    const shape shape = shape_with(&is->shape, height);
    const double off = moved(a, scan, is->az_deg, d);
    const double variance = is->source == SONAR_FROM_MVDR
                                ? needle_variance(a, d, off, shape, is->power, noise)
                                : beam_variance(a, d, off, shape, height, noise);
    const double most = scan->cone ? 1 / sqrt(3) : M_PI / sqrt(3); /* uniform over the whole scan */
    is->sigma = isfinite(variance) ? fmin(sqrt(variance), most) : most;
}

/* ---- bearings -------------------------------------------------------------------------------- */

/* The variance due to independent errors of the sensors: the part of their phases that is linear
 * over the aperture. */
static double own_errors(const sonar_accuracy *a, const sonar_array_error *declared,
                         const double d[3]) {
    const double beam_m2 = product(a->aperture->beam_m2, d, d);
    const double lean = a->aperture->share * product(a->aperture->noise_m2, d, d);
    const double phase = declared->phase_deg * SONAR_RADIANS;
    const double metres2 = declared->position_m * declared->position_m +
                           phase * phase / wave_m2(a->low_hz, a->high_hz, a->c_mps);
    return beam_m2 > 0 ? metres2 * lean / (beam_m2 * beam_m2) : 0;
}

/* The rms error of the angle for a Gaussian error of the cosine, summed in steps. Cosines beyond 1
 * are left out. */
static double angle_sigma(double cosine, double sigma) {
    enum { STEPS = 65 };
    const double most = 4, at = acos(fmin(fmax(cosine, -1), 1));
    double sum = 0, weights = 0;
    for (int i = 0; i < STEPS; i++) {
        const double z = most * (2.0 * i / (STEPS - 1) - 1), u = cosine + sigma * z;
        const double w = exp(-z * z / 2), off = acos(fmin(fmax(u, -1), 1)) - at;
        if (fabs(u) > 1)
            continue;
        sum += w * off * off, weights += w;
    }
    return weights > 0 ? sqrt(sum / weights) : 0;
}

void sonar_detect_bearing_sigma(const sonar_scan *scan, const sonar_accuracy *a,
                                const sonar_array_error *declared, bool heading_known,
                                sonar_detection *is) {
    double d[3];
    is->bearing_sigma_deg = NAN;
    if (!isfinite(is->sigma) || !isfinite(is->bearing_deg))
        return;
    derivative(scan, is->az_deg, d);
    const double stretch = moved(a, scan, is->az_deg, d) * declared->sound_speed_mps / a->c_mps;
    double sigma = sqrt(is->sigma * is->sigma + own_errors(a, declared, d) + stretch * stretch);
    if (scan->cone) {
        const double tilt = cos(scan->axis_depression_deg * SONAR_RADIANS);
        sigma = angle_sigma(cos(is->az_deg * SONAR_RADIANS) / tilt, sigma / tilt);
    }
    const double heading = heading_known ? declared->heading_deg : 0;
    is->bearing_sigma_deg = fmin(hypot(sigma / SONAR_RADIANS, heading), 180 / sqrt(3));
}
