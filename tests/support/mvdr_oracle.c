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

/* Allocates extra room: OpenBLAS 0.3.21's zgemv_n for Zen reads past the end of its matrix. */
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

/* LAPACK's scratch is a matrix that zgemv_n reads, too. */
void mvdr_oracle_eigenvalues(size_t n, const cplx *r, double *d) {
    const size_t columns = 65;
    cplx *matrix = copy_of(n * n, r), *work = calloc(2 * columns * n + 1024, sizeof *work);
    double *real = calloc(3 * n + 1, sizeof *real);
    if (!work || !real ||
        LAPACKE_zheev_work(LAPACK_COL_MAJOR, 'N', 'U', (int)n, matrix, (int)n, d, work,
                           (int)(columns * n), real) != 0)
        abort();
    for (size_t i = 0; i < n / 2; i++) {
        double swap = d[i];
        d[i] = d[n - 1 - i], d[n - 1 - i] = swap;
    }
    free(matrix);
    free(work);
    free(real);
}

double mvdr_oracle_delta(const sonar_mvdr_spec *spec, size_t n, const double *d, double snapshots) {
    double trace = 0, rest = 0;
    size_t sources = spec->known_sources;
    for (size_t i = 0; i < n; i++) {
        trace += d[i] / (double)n;
        rest += i >= sources ? d[i] : 0;
    }
    switch (spec->loading) {
    case SONAR_LOADING_ABSOLUTE:
        return spec->eps;
    case SONAR_LOADING_TRACE:
        return spec->eps * trace;
    case SONAR_LOADING_NOISE:
        break;
    }
    if (snapshots <= 2 * (double)sources + 2)
        return 0.01 * spec->eps * trace;
    if (sources)
        return spec->eps * rest / ((double)(n - sources) * (1 - (double)sources / snapshots));
    size_t count = snapshots < (double)n ? (size_t)(snapshots + 0.5) : n;
    double median = count % 2 ? d[count / 2] : (d[count / 2 - 1] + d[count / 2]) / 2;
    return spec->eps * median * (snapshots < (double)n ? snapshots / (double)n : 1);
}

/* Wax and Kailath 1985, of p eigenvalues and N snapshots. */
static double information(const double *d, size_t p, double snapshots, size_t k, bool real) {
    double arithmetic = 0, geometric = 1;
    for (size_t i = k; i < p; i++) {
        arithmetic += d[i] / (double)(p - k);
        geometric *= pow(d[i], 1 / (double)(p - k));
    }
    const double likelihood =
        (real ? 0.5 : 1) * snapshots * (double)(p - k) * log(geometric / arithmetic);
    const double parameters =
        real ? 0.5 * (double)(k * (2 * p - k + 1)) : (double)(k * (2 * p - k));
    return -likelihood + 0.5 * parameters * log(snapshots);
}

/* Nadakuditi and Edelman 2008, (12) and (13). */
static double moments(const double *d, size_t n, double m, size_t k, bool real) {
    const double beta = real ? 1 : 2;
    double sum = 0, squares = 0;
    for (size_t i = k; i < n; i++) {
        sum += d[i];
        squares += d[i] * d[i];
    }
    const double t = ((double)(n - k) * squares / (sum * sum) - (1 + (double)n / m)) * (double)n -
                     (2 / beta - 1) * (double)n / m;
    return beta / 4 * pow(m / (double)n, 2) * t * t + 2 * (double)(k + 1);
}

size_t mvdr_oracle_sources(sonar_source_count rule, size_t n, const double *d, double snapshots,
                           bool real) {
    const size_t p = snapshots < (double)n ? (size_t)lround(snapshots) : n;
    double least = INFINITY;
    size_t best = 0;
    for (size_t k = 0; k < p; k++) {
        const double cost = rule == SONAR_COUNT_RANDOM_MATRIX
                                ? moments(d, n, snapshots, k, real)
                                : information(d, p, fmax(snapshots, (double)n), k, real);
        if (cost < least)
            least = cost, best = k;
    }
    return best;
}

/* The median of the law's continuous part for n/L = c, by Simpson's rule on its density.
 */
static double law_median(double c) {
    enum { STEPS = 400000 };
    const double low = pow(1 - sqrt(c), 2), high = pow(1 + sqrt(c), 2);
    const double whole = c > 1 ? 1 / c : 1; /* the rest is zeros */
    double sum = 0, x = low;
    for (size_t i = 0; i < STEPS; i++) { /* x = low + (high - low) sin^2: no edge is steep */
        const double t = M_PI / 2 * ((double)i + 0.5) / STEPS, width = high - low;
        const double step = width * 2 * sin(t) * cos(t) * M_PI / 2 / STEPS;
        x = low + width * sin(t) * sin(t);
        sum += sqrt((high - x) * (x - low)) / (2 * M_PI * c * x) * step;
        if (sum >= whole / 2)
            break;
    }
    return x;
}

double mvdr_oracle_noise(size_t n, const double *d, double snapshots, size_t modes) {
    const double dimensions = (double)(n - modes), looks = snapshots - (double)modes;
    const size_t end = snapshots < (double)n ? (size_t)lround(snapshots) : n, count = end - modes;
    const double *noise = d + modes;
    const double median =
        count % 2 ? noise[count / 2] : (noise[count / 2 - 1] + noise[count / 2]) / 2;
    return median * snapshots / looks / law_median(dimensions / looks);
}

/* Eigenvectors, of ascending eigenvalues d, column by column; malloc'ed. */
static cplx *vectors_of(size_t n, const cplx *r, double *d) {
    cplx *vector = copy_of(n * n, r), *work = calloc(2 * 65 * n + 1024, sizeof *work);
    double *real = calloc(3 * n + 1, sizeof *real);
    if (!work || !real ||
        LAPACKE_zheev_work(LAPACK_COL_MAJOR, 'V', 'U', (int)n, vector, (int)n, d, work,
                           (int)(65 * n), real) != 0)
        abort();
    free(work);
    free(real);
    return vector;
}

/* |v^H a|^2 */
static double energy_along(size_t n, const cplx *v, const cplx *a) {
    cplx product = 0;
    for (size_t k = 0; k < n; k++)
        product += conj(v[k]) * a[k];
    return creal(product * conj(product));
}

/* The white noise gain of the weights with that loading, and what R + delta I lets through; b: the
 * steering vector's products with the eigenvectors, squared. */
static double gain_of(size_t n, const double *d, double delta, double more, const double *b,
                      double *power) {
    double pass = 0, noise = 0, through = 0; /* a^H w, w^H w, w^H (R + delta I) w, not scaled */
    for (size_t i = 0; i < n; i++) {
        const double w2 = b[i] / pow(d[i] + delta + more, 2);
        pass += b[i] / (d[i] + delta + more);
        noise += w2;
        through += w2 * (d[i] + delta);
    }
    *power = through / (pass * pass);
    return 10 * log10(pass * pass / noise / (double)n);
}

void mvdr_oracle_limited(size_t n, const cplx *r, double delta, double gain_db, size_t count,
                         const cplx *a, double *power, double *had_db) {
    double *d = calloc(n + 1, sizeof *d), *b = calloc(n + 1, sizeof *b);
    cplx *vector = vectors_of(n, r, d);
    for (size_t i = 0; i < n; i++)
        d[i] = fmax(d[i], 0);
    for (size_t t = 0; t < count; t++) {
        double low = 1e-9 * delta, high = low;
        for (size_t i = 0; i < n; i++)
            b[i] = energy_along(n, vector + i * n, a + t * n);
        had_db[t] = gain_of(n, d, delta, 0, b, &power[t]);
        if (had_db[t] >= gain_db)
            continue;
        while (gain_of(n, d, delta, high, b, &power[t]) < gain_db)
            high *= 10;
        for (int i = 0; i < 200; i++) {
            const double middle = sqrt(low * high);
            if (gain_of(n, d, delta, middle, b, &power[t]) < gain_db)
                low = middle;
            else
                high = middle;
        }
    }
    free(vector);
    free(b);
    free(d);
}

void mvdr_oracle_music(size_t n, const cplx *r, size_t sources, size_t count, const cplx *a,
                       double *share) {
    double *d = calloc(n + 1, sizeof *d);
    cplx *vector = vectors_of(n, r, d);
    for (size_t t = 0; t < count; t++) {
        share[t] = 0;
        for (size_t i = 0; i < n - sources; i++)
            share[t] += energy_along(n, vector + i * n, a + t * n) / (double)n;
    }
    free(vector);
    free(d);
}

void mvdr_oracle_dominant(size_t n, const cplx *r, size_t modes, double noise, size_t count,
                          const cplx *a, double *power) {
    double *d = calloc(n, sizeof *d);
    cplx *vector = vectors_of(n, r, d);
    for (size_t t = 0; t < count; t++) {
        double left = 0, sum = 0;
        for (size_t k = 0; k < n; k++)
            left += creal(a[t * n + k] * conj(a[t * n + k]));
        for (size_t i = n - modes; i < n; i++) { /* ascending */
            const double share = energy_along(n, vector + i * n, a + t * n);
            if (d[i] <= noise)
                continue;
            sum += share / d[i];
            left -= share;
        }
        power[t] = 1 / (sum + left / noise);
    }
    free(vector);
    free(d);
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

double mvdr_oracle_conventional(size_t n, const cplx *r, const cplx *a) {
    cplx sum = 0;
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < n; i++)
            sum += conj(a[i]) * r[j * n + i] * a[j];
    return creal(sum) / (double)(n * n);
}
