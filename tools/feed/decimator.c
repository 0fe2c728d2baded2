/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "decimator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

enum { STAGES_MOST = 10, BLOCK = 512 }; /* 2^9 < 1000 < 2^10; channels whose sums stay in cache */
static const double pass = 0.4;         /* of the last stage's rate, as the header says */
static const double attenuation_db = 85;
static const double most_bytes = 2e9;

typedef struct stage {
    size_t factor, half; /* 2 half + 1 taps */
    float *tap;          /* [half + 1], from the middle on */
    float *row;          /* [2 half + 1][channels], the sample of index i at i % (2 half + 1) */
    uint64_t next, held; /* index of the next sample; samples that have come since the beginning */
} stage;

struct decimator {
    size_t channels, factor, stages;
    stage stage[STAGES_MOST];
    float *between; /* [STAGES_MOST][channels] what a stage hands to the next one */
};

/* ---- filters --------------------------------------------------------------------------------- */

/* The modified Bessel function of order 0, by its series. */
static double bessel(double x) {
    double sum = 1, term = 1;
    for (int k = 1; term > 1e-17 * sum; k++) {
        term *= x / (2 * k) * (x / (2 * k));
        sum += term;
    }
    return sum;
}

/* In units of the stage's rate: what would be folded into the band that passes at the end has to be
 * gone. `rest`: factors of this stage and of those that follow. */
static void edges(size_t factor, size_t rest, double *pass_end, double *stop_begin) {
    *pass_end = pass / (double)rest;
    *stop_begin = 1 / (double)factor - *pass_end;
}

static size_t half_length(size_t factor, size_t rest) {
    double pass_end, stop_begin;
    edges(factor, rest, &pass_end, &stop_begin);
    const double taps = (attenuation_db - 7.95) / (2.285 * 2 * M_PI * (stop_begin - pass_end));
    return (size_t)ceil(taps / 2);
}

/* The gain at frequency 0 is 1. */
static bool make_taps(stage *s, size_t rest) {
    double pass_end, stop_begin, sum = 0;
    double *tap = sonar_alloc(s->half + 1, sizeof *tap);
    s->tap = sonar_alloc(s->half + 1, sizeof *s->tap);
    if (!tap || !s->tap) {
        free(tap);
        return false;
    }
    edges(s->factor, rest, &pass_end, &stop_begin);
    const double cutoff = (pass_end + stop_begin) / 2, beta = 0.1102 * (attenuation_db - 8.7);
    for (size_t k = 0; k <= s->half; k++) {
        const double t = (double)k, edge = t / ((double)s->half + 1);
        const double ideal = k ? sin(2 * M_PI * cutoff * t) / (M_PI * t) : 2 * cutoff;
        tap[k] = ideal * bessel(beta * sqrt(1 - edge * edge));
        sum += (k ? 2 : 1) * tap[k];
    }
    for (size_t k = 0; k <= s->half; k++)
        s->tap[k] = (float)(tap[k] / sum);
    free(tap);
    return true;
}

static size_t largest_prime(size_t n) {
    size_t prime = 1;
    for (size_t p = 2; n > 1; p++)
        for (; n % p == 0; n /= p)
            prime = p;
    return prime;
}

static bool make_stage(decimator *d, size_t rest) {
    stage *s = &d->stage[d->stages++];
    s->factor = largest_prime(rest);
    s->half = half_length(s->factor, rest);
    s->row = sonar_alloc((2 * s->half + 1) * d->channels, sizeof *s->row);
    return s->row && make_taps(s, rest);
}

sonar_code decimator_create(size_t channels, size_t factor, decimator **to, sonar_error *err) {
    decimator *d = sonar_alloc(1, sizeof *d);
    double rows = STAGES_MOST;
    bool good = d != NULL;
    for (size_t rest = factor; rest > 1; rest /= largest_prime(rest))
        rows += 2 * (double)half_length(largest_prime(rest), rest) + 1;
    const double bytes = rows * (double)channels * sizeof(float);
    if (bytes > most_bytes) {
        free(d);
        return sonar_fail(err, SONAR_EINVAL, "--decimate",
                          "the filter of %zu channels by %zu needs %.0f MB, 2000 MB are accepted",
                          channels, factor, bytes * 1e-6);
    }
    if (good) {
        *d = (decimator){.channels = channels, .factor = factor};
        d->between = sonar_alloc(STAGES_MOST * channels, sizeof *d->between);
        good = d->between != NULL;
    }
    for (size_t rest = factor; good && rest > 1; rest /= d->stage[d->stages - 1].factor)
        good = make_stage(d, rest);
    if (good) {
        *to = d;
        return SONAR_OK;
    }
    decimator_destroy(d);
    return sonar_fail(err, SONAR_ENOMEM, "--decimate", "out of memory");
}

void decimator_destroy(decimator *d) {
    for (size_t i = 0; d && i < d->stages; i++) {
        free(d->stage[i].tap);
        free(d->stage[i].row);
    }
    if (d)
        free(d->between);
    free(d);
}

size_t decimator_reach(const decimator *d) {
    size_t reach = 0, step = 1;
    for (size_t i = 0; i < d->stages; i++) {
        reach += d->stage[i].half * step;
        step *= d->stage[i].factor;
    }
    return reach;
}

/* ---- samples --------------------------------------------------------------------------------- */

/* The sum around sample `centre`, the taps from the outermost to the middle. */
static void filter(const stage *s, uint64_t centre, size_t channels, float *to) {
    const size_t taps = 2 * s->half + 1;
    for (size_t first = 0; first < channels; first += BLOCK) {
        const size_t n = sonar_min_size(BLOCK, channels - first);
        float sum[BLOCK] = {0};
        for (size_t k = s->half; k > 0; k--) {
            const float *a = s->row + (centre - k) % taps * channels + first,
                        *b = s->row + (centre + k) % taps * channels + first;
            const float tap = s->tap[k];
            for (size_t c = 0; c < n; c++)
                sum[c] += tap * (a[c] + b[c]);
        }
        const float *middle = s->row + centre % taps * channels + first;
        for (size_t c = 0; c < n; c++)
            to[first + c] = sum[c] + s->tap[0] * middle[c];
    }
}

/* Puts sample `index`. True: sample *out of the stage's own rate is in `to`. */
static bool push(stage *s, uint64_t index, const float *row, size_t channels, float *to,
                 uint64_t *out) {
    const size_t taps = 2 * s->half + 1;
    s->held = index == s->next ? s->held + 1 : 1;
    s->next = index + 1;
    memcpy(s->row + index % taps * channels, row, channels * sizeof *row);
    const uint64_t centre = index - s->half;
    if (s->held < taps || centre % s->factor)
        return false;
    *out = centre / s->factor;
    filter(s, centre, channels, to);
    return true;
}

size_t decimator_put(decimator *d, uint64_t index, const float *rows, size_t n, float *to,
                     uint64_t *first) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const float *row = rows + i * d->channels;
        uint64_t at = index + i;
        bool there = true;
        for (size_t k = 0; there && k < d->stages; k++) {
            float *out =
                k + 1 < d->stages ? d->between + k * d->channels : to + count * d->channels;
            there = push(&d->stage[k], at, row, d->channels, out, &at);
            row = out;
        }
        if (there && !count++)
            *first = at;
    }
    return count;
}
