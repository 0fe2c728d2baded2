/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "process.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "random.h"

/* SHAPE taps of the filter, designed on a grid of GRID frequencies. Samples are computed in blocks
 * of CHUNK at multiples of CHUNK, so that no sample depends on the order of the calls. */
enum { SHAPE = 1023, HALF = SHAPE / 2, GRID = 8192, CHUNK = 1024 };

struct sim_process {
    uint64_t key;
    float shape[SHAPE], hilbert[SHAPE];
    float white[CHUNK + SHAPE - 1];
    int64_t first, end; /* the span of samples held, multiples of CHUNK */
    size_t capacity;
    float *in_phase, *quadrature; /* [capacity] */
};

/* ---- interpolation --------------------------------------------------------------------------- */

static double bessel_i0(double x) {
    double sum = 1, term = 1;
    for (int k = 1; term > 1e-18 * sum; k++) {
        term *= (x / (2 * k)) * (x / (2 * k));
        sum += term;
    }
    return sum;
}

static double kaiser(double x, double beta) {
    return fabs(x) < 1 ? bessel_i0(beta * sqrt(1 - x * x)) / bessel_i0(beta) : 0;
}

static double kernel_value(size_t phase, size_t tap) {
    double u = (double)tap - (SIM_KERNEL_TAPS / 2 - 1) - (double)phase / SIM_KERNEL_PHASES;
    double sinc = u == 0 ? 1 : sin(M_PI * u) / (M_PI * u);
    return sinc * kaiser(u / (SIM_KERNEL_TAPS / 2), 9.0);
}

float *sim_kernel_create(void) {
    float *kernel = sonar_alloc((size_t)SIM_KERNEL_PHASES * 2 * SIM_KERNEL_TAPS, sizeof *kernel);
    if (!kernel)
        return NULL;
    for (size_t phase = 0; phase < SIM_KERNEL_PHASES; phase++)
        for (size_t tap = 0; tap < SIM_KERNEL_TAPS; tap++) {
            float *row = kernel + phase * 2 * SIM_KERNEL_TAPS;
            row[tap] = (float)kernel_value(phase, tap);
            row[SIM_KERNEL_TAPS + tap] =
                (float)(kernel_value(phase + 1, tap) - kernel_value(phase, tap));
        }
    return kernel;
}

/* Sixteen partial sums, added in a fixed tree, so that the bits do not depend on the vector
 * length. */
static inline float kernel_dot(const float *row, float between, const float *x) {
    enum { LANES = 16 };
    float sum[LANES] = {0};
    for (size_t tap = 0; tap < SIM_KERNEL_TAPS; tap += LANES)
        for (size_t i = 0; i < LANES; i++)
            sum[i] += x[tap + i] * (row[tap + i] + between * row[SIM_KERNEL_TAPS + tap + i]);
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t i = 0; i < width; i++)
            sum[i] += sum[i + width];
    return sum[0];
}

SONAR_MULTIARCH
void sim_kernel_add(const float *kernel, const float *x, double position, double drift,
                    float amplitude, float amplitude_step, size_t count, float *to) {
    for (size_t i = 0; i < count; i++) {
        double p = position + (double)i + drift * (double)i;
        double whole = floor(p), fine = (p - whole) * SIM_KERNEL_PHASES;
        size_t phase = sonar_min_size((size_t)fine, SIM_KERNEL_PHASES - 1);
        float value =
            kernel_dot(kernel + phase * 2 * SIM_KERNEL_TAPS, (float)(fine - (double)phase),
                       x + (ptrdiff_t)whole - (SIM_KERNEL_TAPS / 2 - 1));
        to[i] += (amplitude + (float)i * amplitude_step) * value;
    }
}

/* ---- shaping --------------------------------------------------------------------------------- */

static double points_db(const sim_spectrum *s, double hz) {
    if (hz <= s->point_hz[0])
        return s->point_db[0];
    for (size_t i = 1; i < s->points; i++)
        if (hz <= s->point_hz[i]) {
            double share = log(hz / s->point_hz[i - 1]) / log(s->point_hz[i] / s->point_hz[i - 1]);
            return s->point_db[i - 1] + share * (s->point_db[i] - s->point_db[i - 1]);
        }
    return s->point_db[s->points - 1];
}

static double spectrum_amplitude(const sim_spectrum *s, double hz) {
    if (hz < s->low_hz || hz > s->high_hz)
        return 0;
    switch (s->shape) {
    case SIM_PINK:
        return sqrt(s->high_hz / hz);
    case SIM_POINTS:
        return pow(10, points_db(s, hz) / 20);
    default:
        return 1;
    }
}

/* Frequency sampling: cosine and sine series of the wanted amplitude, under a Kaiser window. */
static void design(sim_process *process, const sim_spectrum *spectrum, double fs_hz) {
    double cosine[HALF + 1] = {0}, sine[HALF + 1] = {0};
    for (int bin = 0; bin <= GRID / 2; bin++) {
        double a = spectrum_amplitude(spectrum, bin * fs_hz / GRID);
        a *= bin == 0 || bin == GRID / 2 ? 1 : 2;
        for (int n = 0; a != 0 && n <= HALF; n++) {
            double angle = 2 * M_PI * ((bin * n) % GRID) / GRID;
            cosine[n] += a * cos(angle);
            sine[n] += a * sin(angle);
        }
    }
    double energy = 0;
    for (int n = 0; n <= HALF; n++) {
        double window = kaiser((double)n / (HALF + 1), 5.0);
        cosine[n] *= window;
        sine[n] *= window;
        energy += (n == 0 ? 1 : 2) * cosine[n] * cosine[n];
    }
    for (int n = -HALF; n <= HALF; n++) {
        process->shape[HALF + n] = (float)(cosine[abs(n)] / sqrt(energy));
        process->hilbert[HALF + n] = (float)((n < 0 ? -1 : 1) * sine[abs(n)] / sqrt(energy));
    }
}

SONAR_MULTIARCH
static void convolve(const float *filter, const float *white, float *to) {
    memset(to, 0, CHUNK * sizeof *to);
    for (size_t k = 0; k < SHAPE; k++)
        for (size_t i = 0; i < CHUNK; i++)
            to[i] += filter[k] * white[i + SHAPE - 1 - k];
}

static void make_chunk(sim_process *process, int64_t first) {
    size_t at = (size_t)(first - process->first);
    sim_random_normal(process->key, first - HALF, CHUNK + SHAPE - 1, process->white);
    convolve(process->shape, process->white, process->in_phase + at);
    convolve(process->hilbert, process->white, process->quadrature + at);
}

/* ---- the process ----------------------------------------------------------------------------- */

static int64_t chunk_start(int64_t index) {
    return index - (((index % CHUNK) + CHUNK) % CHUNK);
}

sonar_code sim_process_create(uint64_t key, const sim_spectrum *spectrum, double fs_hz, size_t span,
                              sim_process **process, sonar_error *err) {
    sim_process *p = sonar_alloc(1, sizeof *p);
    size_t capacity = (span / CHUNK + 4) * CHUNK;
    if (p) {
        p->in_phase = sonar_alloc(capacity, sizeof(float));
        p->quadrature = sonar_alloc(capacity, sizeof(float));
    }
    if (!p || !p->in_phase || !p->quadrature) {
        sim_process_destroy(p);
        return sonar_fail(err, SONAR_ENOMEM, "source", "out of memory for %zu samples", capacity);
    }
    p->key = key;
    p->capacity = capacity;
    design(p, spectrum, fs_hz);
    *process = p;
    return SONAR_OK;
}

void sim_process_destroy(sim_process *process) {
    if (!process)
        return;
    free(process->in_phase);
    free(process->quadrature);
    free(process);
}

/* Drops samples before `first`, or all samples if the new span does not continue the old one. */
static void slide(sim_process *process, int64_t first) {
    if (first < process->first || first > process->end) {
        process->first = process->end = first;
        return;
    }
    size_t gone = (size_t)(first - process->first), kept = (size_t)(process->end - first);
    memmove(process->in_phase, process->in_phase + gone, kept * sizeof(float));
    memmove(process->quadrature, process->quadrature + gone, kept * sizeof(float));
    process->first = first;
}

void sim_process_need(sim_process *process, int64_t first, size_t count) {
    int64_t from = chunk_start(first);
    int64_t to = chunk_start(first + (int64_t)count - 1) + CHUNK;
    if (from < process->first || from > process->end ||
        to - process->first > (int64_t)process->capacity)
        slide(process, from);
    while (process->end < to) {
        make_chunk(process, process->end);
        process->end += CHUNK;
    }
}

const float *sim_process_samples(const sim_process *process, int64_t first) {
    return process->in_phase + (first - process->first);
}

const float *sim_process_quadrature(const sim_process *process, int64_t first) {
    return process->quadrature + (first - process->first);
}
