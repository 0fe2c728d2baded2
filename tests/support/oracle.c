/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "oracle.h"

#include <math.h>
#include <stdlib.h>

double complex oracle_dft(const double *x, size_t n, size_t bin) {
    double complex sum = 0;
    for (size_t t = 0; t < n; t++)
        sum += x[t] * cexp(-2 * M_PI * I * (double)(bin * t % n) / (double)n);
    return sum;
}

double complex oracle_psd_bin(const float *x, const double *window, size_t n, size_t bin,
                              double fs_hz, bool remove_mean) {
    double mean = 0, energy = 0;
    double complex sum = 0;
    for (size_t t = 0; t < n && remove_mean; t++)
        mean += (double)x[t] / (double)n;
    for (size_t t = 0; t < n; t++) {
        double phase = -2 * M_PI * (double)(bin * t % n) / (double)n;
        sum += ((double)x[t] - mean) * window[t] * cexp(I * phase);
        energy += window[t] * window[t];
    }
    double sides = bin == 0 || 2 * bin == n ? 1 : 2;
    return sum * sqrt(sides / (fs_hz * energy));
}

/* Whether sample i is missing. */
static bool is_missing(size_t i, size_t gaps, const sonar_gap *gap) {
    for (size_t g = 0; g < gaps; g++)
        if (i >= gap[g].begin && i < gap[g].end)
            return true;
    return false;
}

double complex oracle_psd_bin_with_gaps(const float *x, const double *window, size_t n, size_t bin,
                                        double fs_hz, bool remove_mean, size_t from, size_t gaps,
                                        const sonar_gap *gap) {
    float *rest = calloc(n, sizeof *rest);
    double sum = 0, there = 0;
    for (size_t i = 0; i < n; i++)
        if (!is_missing(from + i, gaps, gap)) {
            sum += (double)x[i];
            there++;
        }
    for (size_t i = 0; i < n; i++)
        if (!is_missing(from + i, gaps, gap))
            rest[i] = (float)((double)x[i] - (remove_mean ? sum / there : 0));
    double complex value = oracle_psd_bin(rest, window, n, bin, fs_hz, false);
    free(rest);
    return value;
}

void oracle_gaps(uint64_t *state, size_t channels, uint32_t length, uint32_t *count,
                 sonar_gap *gap) {
    for (size_t k = 0; k < channels; k++, gap += SONAR_GAPS_MOST) {
        uint32_t most = (uint32_t)(sonar_random_bits(state) % (SONAR_GAPS_MOST + 1)), at = 0;
        uint32_t step = 2 * length / (most + 1) + 2;
        for (count[k] = 0; count[k] < most && at < length; count[k]++) {
            uint32_t begin = at + (uint32_t)(sonar_random_bits(state) % step);
            uint32_t end = begin + 1 + (uint32_t)(sonar_random_bits(state) % step);
            if (begin >= length)
                break;
            gap[count[k]] = (sonar_gap){begin, end < length ? end : length};
            at = end + 1;
        }
        if (sonar_random_bits(state) % 8 == 0) {
            count[k] = 1;
            gap[0] = (sonar_gap){0, length};
        }
    }
}

double oracle_delay_far(const double p[3], const double u[3], double c_mps) {
    return (p[0] * u[0] + p[1] * u[1] + p[2] * u[2]) / c_mps;
}

double oracle_delay_near(const double p[3], const double u[3], double r_m, double c_mps) {
    long double sum = 0, length = 0;
    for (int i = 0; i < 3; i++) {
        long double s = (long double)r_m * u[i];
        length += s * s;
        sum += (s - p[i]) * (s - p[i]);
    }
    return (double)((sqrtl(length) - sqrtl(sum)) / c_mps);
}

double oracle_beam_power(size_t sensors, const sonar_c32 *x, const float *g, const double *tau_s,
                         double frequency_hz) {
    double complex y = 0;
    double weight = 0;
    for (size_t k = 0; k < sensors; k++) {
        double turns = frequency_hz * tau_s[k];
        double complex a = cexp(2 * M_PI * I * (turns - rint(turns)));
        y += (double)g[k] * conj(a) * ((double)x[k].re + I * (double)x[k].im);
        weight += (double)g[k];
    }
    return pow(cabs(y) / weight, 2);
}

void oracle_unit(double az_deg, double depression_deg, double u[3]) {
    double az = az_deg * M_PI / 180, depression = depression_deg * M_PI / 180;
    u[0] = cos(az) * cos(depression);
    u[1] = sin(az) * cos(depression);
    u[2] = sin(depression);
}

double oracle_worse(double worst, double difference) {
    return isnan(difference) ? INFINITY : fmax(worst, difference);
}

double oracle_worst_db(size_t count, const float *have, const float *want) {
    double worst = 0;
    for (size_t i = 0; i < count; i++)
        if (have[i] != want[i])
            worst = oracle_worse(worst, fabs(10 * log10((double)have[i] / (double)want[i])));
    return worst;
}
