/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Measures levels by octave, mains lines, steps and rails, one sensor after the other. Sums run in
 * lanes, so that their order is fixed and the vector unit is used. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/random.h"
#include "core/samples.h"
#include "elements/internal.h"

enum {
    LANES = 8,   /* on any processor, so that sums have the same order on all */
    CHAINS = 4,  /* vectors of a sum that run in parallel, to hide the latency of an addition */
    STRIPE = 64, /* extremes that are kept side by side: a loop that the compiler vectorises */
    TASK = 64,   /* sensors of one task */
    LEAST_DETAILS = 32,
    LEAST_STRETCH = 128,
    COMPARED = 64,      /* samples compared for identical and repeated ones */
    LEAST_PERIOD = 128, /* shortest period of repeated samples: a tone's period may be shorter */
    STRETCH_SAMPLES = 1024
};
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

static const double STRETCH_S = 0.4, LEAST_HUM_S = 0.3, LINE_RATE_HZ = 500;
/* Samples of all sensors measured in one window; they take one processor about 0.1 s. */
static const size_t WINDOW_SAMPLES = (size_t)1 << 26;
/* A round is spread over this many windows at most. */
enum { WINDOWS_MOST = 32 };

/* ---- create ---------------------------------------------------------------------------------- */

static size_t stretch_of(const sonar_elements_spec *spec) {
    size_t most = sonar_max_size(STRETCH_SAMPLES, (size_t)ceil(STRETCH_S * spec->fs_hz));
    return sonar_min_size(spec->length, most);
}

/* Octave o of the transform is fs / 2^(o + 2) .. fs / 2^(o + 1). Uses the octaves of the band and
 * one on either side, except octaves with too few coefficients. */
static void choose_octaves(sonar_elements *e) {
    const sonar_elements_spec *s = &e->spec;
    size_t last = 0, top = 0, low = 0;
    while (e->stretch >> (last + 2) >= LEAST_DETAILS)
        last++;
    while (top < last && s->fs_hz / (double)((size_t)4 << top) > s->high_hz)
        top++;
    low = top;
    while (low < last && low < top + OCTAVES - 3 &&
           s->fs_hz / (double)((size_t)4 << low) > s->low_hz)
        low++;
    e->first_octave = top > 0 ? top - 1 : 0;
    e->octaves = sonar_min_size(low + 1, last) + 1 - e->first_octave;
    e->band_first = top - e->first_octave;
    e->band_end = low + 1 - e->first_octave;
}

/* Frequencies of line `i`: mains by harmonic by {on it, -15, -10, 10, 15 Hz}. */
static double line_hz(size_t i) {
    static const double mains[MAINS] = {50, 60}, beside[1 + BESIDE] = {0, -15, -10, 10, 15};
    size_t harmonic = i / (1 + BESIDE) % HARMONICS + 1;
    return mains[i / (1 + BESIDE) / HARMONICS] * (double)harmonic + beside[i % (1 + BESIDE)];
}

/* A Hann-windowed oscillation of n values at `rate`, scaled so that |sum x e|^2 is P for a sine of
 * power P at its frequency. */
static void make_oscillation(double hz, double rate, size_t n, float *to) {
    for (size_t t = 0; t < n; t++) {
        double hann = 0.5 - 0.5 * cos(2 * M_PI * ((double)t + 0.5) / (double)n);
        double angle = 2 * M_PI * hz * (double)t / rate, gain = M_SQRT2 * 2 / (double)n;
        to[t] = (float)(gain * hann * cos(angle));
        to[n + t] = (float)(gain * hann * sin(angle));
    }
}

/* The probes: evenly spaced in log frequency from an octave below the band to one above it. */
static void make_oscillations(sonar_elements *e) {
    const sonar_elements_spec *s = &e->spec;
    double high_hz = fmin(2 * s->high_hz, 0.45 * s->fs_hz);
    double low_hz = fmin(fmax(s->low_hz / 2, 4 * s->fs_hz / (double)e->probed), high_hz / 2);
    for (size_t i = 0; i < LINES; i++)
        make_oscillation(line_hz(i), s->fs_hz / (double)((size_t)1 << e->halvings), e->blocks,
                         e->line + 2 * i * e->blocks);
    for (size_t i = 0; i < PROBES; i++)
        make_oscillation(low_hz * pow(high_hz / low_hz, ((double)i + 0.5) / PROBES), s->fs_hz,
                         e->probed, e->probe + 2 * i * e->probed);
}

static void choose_lines(sonar_elements *e) {
    double fs_hz = e->spec.fs_hz;
    e->probed = sonar_min_size(e->stretch, PROBE_MOST);
    if ((double)e->stretch < LEAST_HUM_S * fs_hz)
        return;
    while (fs_hz / (double)((size_t)2 << e->halvings) >= LINE_RATE_HZ)
        e->halvings++;
    while (e->harmonics < HARMONICS &&
           60 * (double)(e->harmonics + 1) + 15 < 0.5 * fs_hz / (double)((size_t)1 << e->halvings))
        e->harmonics++;
    e->blocks = e->harmonics ? e->stretch >> e->halvings : 0;
}

static void choose_share(sonar_elements *e) {
    const sonar_elements_spec *s = &e->spec;
    const double windows_a_round = SONAR_ELEMENTS_ROUND_S * s->fs_hz / (double)s->hop;
    size_t windows = (size_t)fmin(WINDOWS_MOST, fmax(1, windows_a_round));
    size_t most = sonar_max_size(1, WINDOW_SAMPLES / e->stretch);
    e->share = sonar_min_size((s->sensors + windows - 1) / windows, most);
    for (e->firsts = 2; e->firsts < 2 * s->sensors;)
        e->firsts *= 2;
}

static sonar_arena lay_out(sonar_elements *e, sonar_arena_pass pass) {
    const size_t sensors = e->spec.sensors;
    sonar_arena arena = {.pass = pass};
    SONAR_ARENA(&arena, e->line, sonar_max_size(1, 2 * LINES * e->blocks));
    SONAR_ARENA(&arena, e->probe, 2 * PROBES * e->probed);
    SONAR_ARENA(&arena, e->scratch, 2 * e->host->workers * e->stretch);
    SONAR_ARENA(&arena, e->measure, sensors);
    SONAR_ARENA(&arena, e->level, sensors);
    SONAR_ARENA(&arena, e->residual, sensors);
    SONAR_ARENA(&arena, e->sorted, sensors);
    SONAR_ARENA(&arena, e->fault, sensors * SONAR_ELEMENT_FAULTS);
    SONAR_ARENA(&arena, e->seen, sensors);
    SONAR_ARENA(&arena, e->out, sensors);
    SONAR_ARENA(&arena, e->patience, sensors);
    SONAR_ARENA(&arena, e->mask, sensors);
    SONAR_ARENA(&arena, e->fed, e->spec.channels);
    SONAR_ARENA(&arena, e->first, e->firsts);
    SONAR_ARENA(&arena, e->used, sensors);
    return arena;
}

void sonar_elements_destroy(sonar_elements *e) {
    if (e)
        lay_out(e, SONAR_ARENA_FREE);
    free(e);
}

static void fill(sonar_elements *e) {
    memset(e->fed, 0xff, e->spec.channels * sizeof *e->fed);
    for (size_t s = 0; s < e->spec.sensors; s++) {
        e->fed[e->spec.channel[s]] = (uint32_t)s;
        e->patience[s] = SONAR_ELEMENTS_BACK_ROUNDS;
    }
}

sonar_code sonar_elements_create(const sonar_elements_spec *spec, const sonar_host *host,
                                 sonar_elements **elements, sonar_error *err) {
    sonar_elements *e = *elements = sonar_alloc(1, sizeof *e);
    if (e) {
        e->spec = *spec;
        e->host = host;
        e->stretch = stretch_of(spec);
        choose_octaves(e);
        choose_lines(e);
        choose_share(e);
    }
    if (!e || lay_out(e, SONAR_ARENA_ALLOCATE).failed) {
        sonar_elements_destroy(e);
        *elements = NULL;
        return sonar_fail(err, SONAR_ENOMEM, "elements", "no memory for %zu sensors",
                          spec->sensors);
    }
    fill(e);
    sonar_elements_change(e, spec->used, spec->scale);
    make_oscillations(e);
    return SONAR_OK;
}

/* ---- one sensor ------------------------------------------------------------------------------ */

/* The extremes, the smallest nonzero step, and the number of samples equal to the one before. */
struct extent {
    float low, high, step;
    size_t same;
};

static inline __attribute__((always_inline)) void load(const float *x, lanes *to) {
    memcpy(to, x, sizeof *to);
}

/* Of finite values, unlike fminf and fmaxf, which are calls. */
static inline float lesser(float a, float b) {
    return a < b ? a : b;
}
static inline float greater(float a, float b) {
    return a > b ? a : b;
}

/* Samples are finite: frames with other values are refused. */
SONAR_MULTIARCH static struct extent extent_of(const float *x, size_t n) {
    float low[STRIPE], high[STRIPE], step[STRIPE];
    int32_t same[STRIPE] = {0};
    struct extent all = {x[0], x[0], FLT_MAX, 0};
    size_t i = 1;
    for (size_t j = 0; j < STRIPE; j++)
        low[j] = high[j] = x[0], step[j] = FLT_MAX;
    for (; i + STRIPE <= n; i += STRIPE)
        for (size_t j = 0; j < STRIPE; j++) {
            const float value = x[i + j], size = fabsf(value - x[i + j - 1]);
            const float moved = size > 0 ? size : FLT_MAX;
            low[j] = lesser(value, low[j]);
            high[j] = greater(value, high[j]);
            step[j] = lesser(moved, step[j]);
            same[j] += size == 0;
        }
    for (; i < n; i++) {
        const float size = fabsf(x[i] - x[i - 1]), moved = size > 0 ? size : FLT_MAX;
        all.low = lesser(all.low, x[i]);
        all.high = greater(all.high, x[i]);
        all.step = lesser(all.step, moved);
        all.same += size == 0;
    }
    for (size_t j = 0; j < STRIPE; j++) {
        all.low = lesser(all.low, low[j]);
        all.high = greater(all.high, high[j]);
        all.step = lesser(all.step, step[j]);
        all.same += (size_t)same[j];
    }
    return all;
}

/* Counts the samples at the rails, and those within a 64th of the span from them. */
SONAR_MULTIARCH static void count_rails(const float *x, size_t n, const struct extent *extent,
                                        size_t at[2], size_t beside[2]) {
    const float near = (extent->high - extent->low) / 64;
    uint32_t low = 0, high = 0, near_low = 0, near_high = 0;
    for (size_t i = 0; i < n; i++) {
        low += x[i] == extent->low;
        high += x[i] == extent->high;
        near_low += x[i] - extent->low < near;
        near_high += extent->high - x[i] < near;
    }
    at[0] = low, at[1] = high;
    beside[0] = near_low - low, beside[1] = near_high - high;
}

/* A distribution thins out towards its end, while a rail collects all values beyond it. If the span
 * is only a few steps of the converter, the two cannot be distinguished. */
static bool is_clipped(const float *x, size_t n, const struct extent *extent) {
    enum { LEAST = 4 };
    size_t at[2], beside[2];
    if (!(extent->high - extent->low >= 64 * extent->step))
        return false;
    count_rails(x, n, extent, at, beside);
    for (int i = 0; i < 2; i++)
        if (at[i] >= LEAST && at[i] > 2 * beside[i])
            return true;
    return false;
}

static inline __attribute__((always_inline)) float total_of(const lanes *sum) {
    float part[LANES];
    memcpy(part, sum, sizeof part);
    for (size_t half = LANES / 2; half; half /= 2)
        for (size_t j = 0; j < half; j++)
            part[j] += part[j + half];
    return part[0];
}

SONAR_MULTIARCH static float energy_of(const float *x, size_t n) {
    lanes sum[CHAINS] = {{0}};
    float rest = 0;
    size_t i = 0;
    for (; i + CHAINS * LANES <= n; i += CHAINS * LANES)
        for (size_t c = 0; c < CHAINS; c++) {
            lanes a;
            load(x + i + c * LANES, &a);
            sum[c] += a * a;
        }
    for (; i < n; i++)
        rest += x[i] * x[i];
    const lanes total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    return rest + total_of(&total);
}

/* Two sensors at a time share the loads of the oscillations, all of which the nearest cache does
 * not hold. x: samples without their mean; with one sensor, x[1] is x[0]. */
struct pair {
    size_t count;
    float *x[2];
    struct measure *m[2];
};

/* Powers of two sensors' samples at the frequencies of two oscillations, [2][cos, sin][n]. */
SONAR_MULTIARCH static void powers_at(float *const x[2], const float *oscillation, size_t n,
                                      float power[2][2]) {
    lanes sum[2][4] = {{{0}}};
    float all[2][4] = {{0}};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        lanes a[2], b;
        load(x[0] + i, &a[0]);
        load(x[1] + i, &a[1]);
        for (size_t k = 0; k < 4; k++) {
            load(oscillation + k * n + i, &b);
            sum[0][k] += a[0] * b;
            sum[1][k] += a[1] * b;
        }
    }
    for (size_t s = 0; s < 2; s++)
        for (size_t k = 0; k < 4; k++) {
            for (size_t t = i; t < n; t++)
                all[s][k] += x[s][t] * oscillation[k * n + t];
            all[s][k] += total_of(&sum[s][k]);
        }
    for (size_t s = 0; s < 2; s++)
        for (size_t k = 0; k < 2; k++)
            power[s][k] = all[s][2 * k] * all[s][2 * k] + all[s][2 * k + 1] * all[s][2 * k + 1];
}

SONAR_MULTIARCH static void subtract(float mean, float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] -= mean;
}

/* Limits to finite values, since sums of huge samples overflow. */
static float bounded(float power) {
    return power <= FLT_MAX ? power : FLT_MAX;
}

/* The median power of the probes, which is the level of the sea between tones. A good sensor may be
 * at a node of a tone. */
static void measure_probes(const sonar_elements *e, const struct pair *of) {
    float power[2][PROBES], two[2][2];
    for (size_t i = 0; i < PROBES; i += 2) {
        powers_at(of->x, e->probe + 2 * i * e->probed, e->probed, two);
        for (size_t s = 0; s < of->count; s++)
            for (size_t k = 0; k < 2; k++)
                power[s][i + k] = bounded(two[s][k]);
    }
    for (size_t s = 0; s < of->count; s++)
        of->m[s]->probe = sonar_median(power[s], PROBES);
}

/* Moves a quarter of the way from the previous value, in dB, because means of few values scatter by
 * several dB. */
static float smooth(float before, float now) {
    return before > 0 && now > 0 ? before * powf(now / before, 0.25f) : now;
}

/* Mean power of the harmonics, and of the frequencies beside them. x: sums of blocks, over the root
 * of their length. */
static void measure_hum(const sonar_elements *e, const struct pair *of) {
    float on[2][MAINS] = {{0}}, beside[2][MAINS] = {{0}}, two[2][2];
    for (size_t i = 0; i < LINES; i++) {
        const size_t mains = i / (HARMONICS * (1 + BESIDE)),
                     harmonic = i / (1 + BESIDE) % HARMONICS;
        if (i % 2 == 0)
            powers_at(of->x, e->line + 2 * i * e->blocks, e->blocks, two);
        for (size_t s = 0; s < of->count && harmonic < e->harmonics; s++)
            (i % (1 + BESIDE) ? beside : on)[s][mains] += two[s][i % 2];
    }
    const float values = (float)(e->harmonics << e->halvings);
    for (size_t s = 0; s < of->count; s++)
        for (size_t i = 0; i < MAINS; i++) {
            struct measure *m = of->m[s];
            m->hum[i] = smooth(m->hum[i], bounded(on[s][i] / values));
            m->beside[i] = smooth(m->beside[i], bounded(beside[s][i] / (BESIDE * values)));
        }
}

/* The energy of the coefficients of one octave; leaves the input of the next octave in x. */
SONAR_MULTIARCH static float haar(float *x, size_t n) {
    float sum[STRIPE] = {0}, all = 0;
    size_t i = 0;
    for (; i + STRIPE <= n; i += STRIPE) {
        float mean[STRIPE];
        for (size_t j = 0; j < STRIPE; j++) {
            float a = x[2 * (i + j)], b = x[2 * (i + j) + 1];
            sum[j] += (a - b) * (a - b);
            mean[j] = (a + b) * (float)M_SQRT1_2;
        }
        memcpy(x + i, mean, sizeof mean);
    }
    for (; i < n; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        all += (a - b) * (a - b);
        x[i] = (a + b) * (float)M_SQRT1_2;
    }
    for (size_t j = 0; j < STRIPE; j++)
        all += sum[j];
    return all / 2;
}

/* The transform is orthonormal: white noise has its variance in every octave. */
static void measure_octaves(const sonar_elements *e, const struct pair *of) {
    const size_t octaves = sonar_max_size(e->first_octave + e->octaves, e->halvings + 1);
    for (size_t octave = 0, n = e->stretch; octave < octaves; octave++, n /= 2) {
        if (octave == e->halvings && e->blocks)
            measure_hum(e, of);
        for (size_t s = 0; s < of->count; s++) {
            float power = bounded(haar(of->x[s], n / 2) / (float)(n / 2));
            if (octave >= e->first_octave && octave < e->first_octave + e->octaves)
                of->m[s]->octave[octave - e->first_octave] = power;
        }
    }
}

/* True if COMPARED samples vary so much that equal samples elsewhere are not a coincidence. */
static bool is_lively(const float *x) {
    size_t moves = 0;
    for (size_t i = 1; i < COMPARED; i++)
        moves += x[i] != x[i - 1];
    return moves >= COMPARED / 2;
}

SONAR_MULTIARCH static bool any_equal(const float x[COMPARED], float value) {
    int equal = 0;
    for (size_t i = 0; i < COMPARED; i++)
        equal |= x[i] == value;
    return equal;
}

/* The distance at which the first samples of the stretch occur again in it, or 0. */
static size_t period_of(const float *x, size_t n) {
    for (size_t lag = 1; lag + COMPARED <= n; lag++) {
        if (lag % COMPARED == 1 && !any_equal(x + lag, x[0]))
            lag += COMPARED - 1; /* none of these: the next one is after them */
        else if (x[lag] == x[0] && !memcmp(x, x + lag, COMPARED * sizeof *x))
            return lag;
    }
    return 0;
}

/* True if the first samples occur again at a distance longer than a short tone's period. At longer
 * periods a tone differs from a repeated block by its noise. */
static bool is_repeated(const float *x, size_t n) {
    return period_of(x, n) >= LEAST_PERIOD && is_lively(x);
}

/* Leaves the samples without their mean in x. */
static void measure_samples(const sonar_elements *e, size_t channel, float *x, struct measure *m) {
    const size_t n = e->stretch;
    sonar_samples_gather(e->in, channel, n, x);
    struct extent extent = extent_of(x, n);
    m->constant = extent.low == extent.high;
    m->zero = m->constant && extent.low == 0;
    m->step = m->constant ? 0 : extent.step;
    m->same = (float)extent.same / (float)n;
    m->repeated = is_repeated(x, n);
    m->clipped = !m->repeated && is_clipped(x, n, &extent);
    subtract((float)(sonar_samples_sum(x, n) / (double)n), x, n);
    m->power = bounded(energy_of(x, n) / (float)n);
}

/* A hash of the samples. It includes the window, since other ranks may have begun their round in
 * another one. */
static uint64_t fingerprint(const float *x, uint64_t first_sample) {
    uint64_t mixed = first_sample, two;
    for (size_t i = 0; i < COMPARED; i += sizeof two / sizeof *x) {
        memcpy(&two, x + i, sizeof two);
        mixed = sonar_random_at(mixed, two);
    }
    return is_lively(x) ? mixed : 0;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

size_t sonar_elements_stretch(const sonar_elements *e) {
    return e->stretch;
}

bool sonar_elements_due(const sonar_elements *e, uint64_t first_sample) {
    if (e->stretch < LEAST_STRETCH ||
        atomic_load_explicit(&e->turn, memory_order_acquire) != TURN_MEASURE)
        return false;
    return e->next > 0 || !e->begun ||
           first_sample < e->round_first /* the samples belong to another stream */ ||
           (double)(first_sample - e->round_first) >= SONAR_ELEMENTS_ROUND_S * e->spec.fs_hz;
}

static void compare_task(void *arg, size_t task, size_t worker) {
    const sonar_elements *e = arg;
    float *x = e->scratch + 2 * worker * e->stretch;
    size_t first = task * TASK, end = sonar_min_size(first + TASK, e->spec.sensors);
    for (size_t s = first; s < end; s++)
        if (sonar_element_used(e, s)) {
            sonar_samples_gather(e->in, e->spec.channel[s], COMPARED, x);
            e->measure[s].fingerprint = fingerprint(x, e->round_first);
        }
}

static void measure_pair(const sonar_elements *e, struct pair *of) {
    if (of->count == 1)
        of->x[1] = of->x[0];
    measure_probes(e, of);
    measure_octaves(e, of);
    of->count = 0;
}

static void measure_task(void *arg, size_t task, size_t worker) {
    const sonar_elements *e = arg;
    size_t first = e->next + task * TASK, end = sonar_min_size(first + TASK, e->end);
    struct pair of = {0};
    for (size_t s = first; s < end; s++) {
        struct measure *m = &e->measure[s];
        const size_t channel = e->spec.channel[s];
        if (!sonar_element_used(e, s))
            continue;
        m->taken = e->missing[channel] <= 0;
        if (!m->taken)
            continue;
        of.x[of.count] = e->scratch + (2 * worker + of.count) * e->stretch;
        of.m[of.count] = m;
        measure_samples(e, channel, of.x[of.count], m);
        if (++of.count == 2)
            measure_pair(e, &of);
    }
    if (of.count)
        measure_pair(e, &of);
}

void sonar_elements_measure(sonar_elements *e, uint64_t first_sample, const sonar_buffer in[2],
                            const float *missing) {
    const size_t tasks = (e->spec.sensors + TASK - 1) / TASK;
    e->begun = true;
    e->in = in;
    e->missing = missing;
    if (!e->next) {
        e->round_first = first_sample;
        e->host->parallel(e->host->ctx, tasks, compare_task, e);
    }
    e->end = sonar_min_size(e->next + e->share, e->spec.sensors);
    e->host->parallel(e->host->ctx, (e->end - e->next + TASK - 1) / TASK, measure_task, e);
    e->next = e->end < e->spec.sensors ? e->end : 0;
    if (!e->next)
        atomic_store_explicit(&e->turn, TURN_JUDGE, memory_order_release);
}

/* ---- several ranks --------------------------------------------------------------------------- */

size_t sonar_elements_measure_bytes(void) {
    return sizeof(struct measure);
}

bool sonar_elements_measured(const sonar_elements *e) {
    return atomic_load_explicit(&e->turn, memory_order_acquire) == TURN_JUDGE;
}

uint64_t sonar_elements_began(const sonar_elements *e) {
    return e->round_first;
}

const void *sonar_elements_measures(sonar_elements *e) {
    for (size_t s = 0; s < e->spec.sensors && !sonar_elements_measured(e); s++)
        e->measure[s].taken = false;
    return e->measure;
}

void sonar_elements_go_on(sonar_elements *e, uint64_t began) {
    e->round_first = began;
    atomic_store_explicit(&e->turn, TURN_MEASURE, memory_order_release);
}

void sonar_elements_take(sonar_elements *e, const void *measures, const uint32_t *sensor) {
    const struct measure *from = measures;
    for (size_t i = 0; i < e->spec.sensors; i++)
        e->measure[sensor[i]] = from[i];
    atomic_store_explicit(&e->turn, TURN_JUDGE, memory_order_release);
}
