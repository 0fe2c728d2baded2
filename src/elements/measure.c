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
    LANES = 8,
    CHAINS = 4, /* vectors of a dot product that are summed in parallel, to hide the latency of an
                   addition */
    TASK = 64,  /* sensors of one task */
    LEAST_DETAILS = 32,
    LEAST_STRETCH = 128,
    COMPARED = 64,      /* samples compared for identical and repeated ones */
    LEAST_PERIOD = 128, /* shortest period of repeated samples: a tone's period may be shorter */
    STRETCH_SAMPLES = 1024
};
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t marks
    __attribute__((vector_size(LANES * sizeof(int32_t)))); /* one lane is -1 or 0 */

static const double STRETCH_S = 0.4, LEAST_HUM_S = 0.3, LINE_RATE_HZ = 500;
/* Samples of all sensors measured in one window; they take one processor 0.1 to 0.2 s. */
static const size_t WINDOW_SAMPLES = (size_t)1 << 26;
/* A round is spread over this many windows at most. */
enum { WINDOWS_MOST = 16 };

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
        make_oscillation(line_hz(i), s->fs_hz / (double)e->block, e->blocks,
                         e->line + 2 * i * e->blocks);
    for (size_t i = 0; i < PROBES; i++)
        make_oscillation(low_hz * pow(high_hz / low_hz, ((double)i + 0.5) / PROBES), s->fs_hz,
                         e->probed, e->probe + 2 * i * e->probed);
}

static void choose_lines(sonar_elements *e) {
    double fs_hz = e->spec.fs_hz;
    e->probed = sonar_min_size(e->stretch, PROBE_MOST);
    e->block = 1;
    if ((double)e->stretch < LEAST_HUM_S * fs_hz)
        return;
    e->block = sonar_max_size(1, (size_t)(fs_hz / LINE_RATE_HZ));
    while (e->harmonics < HARMONICS &&
           60 * (double)(e->harmonics + 1) + 15 < 0.5 * fs_hz / (double)e->block)
        e->harmonics++;
    e->blocks = e->harmonics ? e->stretch / e->block : 0;
}

static void choose_share(sonar_elements *e) {
    const sonar_elements_spec *s = &e->spec;
    size_t windows = (size_t)fmin(WINDOWS_MOST, fmax(1, s->fs_hz / (double)s->hop));
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
    SONAR_ARENA(&arena, e->scratch, e->host->workers * (e->stretch + e->blocks + LANES));
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

static inline __attribute__((always_inline)) void replace(const marks *where, const lanes *by,
                                                          lanes *to) {
    *to = (lanes)((*where & (marks)*by) | (~*where & (marks)*to));
}

/* Samples are finite: frames with other values are refused. */
SONAR_MULTIARCH static struct extent extent_of(const float *x, size_t n) {
    lanes low = (lanes){0} + x[0], high = low, step = (lanes){0} + FLT_MAX;
    marks same = {0};
    struct extent all = {x[0], x[0], FLT_MAX, 0};
    size_t i = 1;
    for (; i + LANES <= n; i += LANES) {
        lanes value, before;
        load(x + i, &value);
        load(x + i - 1, &before);
        const lanes difference = value - before;
        const lanes size = (lanes)((marks)difference & INT32_MAX);
        const marks lower = value < low;
        const marks higher = value > high;
        const marks still = difference == 0;
        const marks smaller = ~still & (size < step);
        replace(&lower, &value, &low);
        replace(&higher, &value, &high);
        replace(&smaller, &size, &step);
        same -= still;
    }
    for (; i < n; i++) {
        float difference = fabsf(x[i] - x[i - 1]);
        all.low = fminf(all.low, x[i]);
        all.high = fmaxf(all.high, x[i]);
        all.step = difference > 0 ? fminf(all.step, difference) : all.step;
        all.same += difference == 0;
    }
    float lows[LANES], highs[LANES], steps[LANES];
    int32_t sames[LANES];
    memcpy(lows, &low, sizeof lows), memcpy(highs, &high, sizeof highs);
    memcpy(steps, &step, sizeof steps), memcpy(sames, &same, sizeof sames);
    for (size_t j = 0; j < LANES; j++) {
        all.low = fminf(all.low, lows[j]);
        all.high = fmaxf(all.high, highs[j]);
        all.step = fminf(all.step, steps[j]);
        all.same += (size_t)sames[j];
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

static inline __attribute__((always_inline)) float total_of(const lanes sum[CHAINS]) {
    const lanes total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    float all = 0;
    for (size_t j = 0; j < LANES; j++)
        all += total[j];
    return all;
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
    return rest + total_of(sum);
}

/* Power at the frequency of an oscillation, [cos, sin][n]. */
SONAR_MULTIARCH static float power_at(const float *x, const float *oscillation, size_t n) {
    lanes re[CHAINS] = {{0}}, im[CHAINS] = {{0}};
    float rest_re = 0, rest_im = 0;
    size_t i = 0;
    for (; i + CHAINS * LANES <= n; i += CHAINS * LANES)
        for (size_t c = 0; c < CHAINS; c++) {
            lanes a, cosine, sine;
            load(x + i + c * LANES, &a);
            load(oscillation + i + c * LANES, &cosine);
            load(oscillation + n + i + c * LANES, &sine);
            re[c] += a * cosine;
            im[c] += a * sine;
        }
    for (; i < n; i++) {
        rest_re += x[i] * oscillation[i];
        rest_im += x[i] * oscillation[n + i];
    }
    rest_re += total_of(re), rest_im += total_of(im);
    return rest_re * rest_re + rest_im * rest_im;
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
static float probe(const sonar_elements *e, const float *x) {
    float power[PROBES];
    for (size_t i = 0; i < PROBES; i++)
        power[i] = bounded(power_at(x, e->probe + 2 * i * e->probed, e->probed));
    return sonar_median(power, PROBES);
}

/* Averages each block to one value for the lines. The mean of the samples is removed already. */
static void average_blocks(const sonar_elements *e, const float *x, float *to) {
    for (size_t i = 0; i < e->blocks; i++)
        to[i] = (float)(sonar_samples_sum(x + i * e->block, e->block) / (double)e->block);
}

/* Moves a quarter of the way from the previous value, in dB, because means of few values scatter by
 * several dB. */
static float smooth(float before, float now) {
    return before > 0 && now > 0 ? before * powf(now / before, 0.25f) : now;
}

/* Mean power of the harmonics, and of the frequencies beside them. */
static void measure_hum(const sonar_elements *e, const float *value, struct measure *m) {
    for (size_t mains = 0; mains < MAINS; mains++) {
        float on = 0, beside = 0;
        for (size_t h = 0; h < e->harmonics; h++)
            for (size_t i = 0; i < 1 + BESIDE; i++) {
                const float *line =
                    e->line + ((mains * HARMONICS + h) * (1 + BESIDE) + i) * 2 * e->blocks;
                *(i ? &beside : &on) += power_at(value, line, e->blocks);
            }
        m->hum[mains] = smooth(m->hum[mains], bounded(on / (float)e->harmonics));
        m->beside[mains] =
            smooth(m->beside[mains], bounded(beside / (float)(BESIDE * e->harmonics)));
    }
}

/* The energy of the coefficients of one octave; leaves the input of the next octave in x. */
SONAR_MULTIARCH static float haar(float *x, size_t n) {
    float sum[LANES] = {0}, all = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        float a[LANES], b[LANES];
        for (size_t j = 0; j < LANES; j++)
            a[j] = x[2 * (i + j)], b[j] = x[2 * (i + j) + 1];
        for (size_t j = 0; j < LANES; j++) {
            sum[j] += (a[j] - b[j]) * (a[j] - b[j]) / 2;
            x[i + j] = (a[j] + b[j]) * (float)M_SQRT1_2;
        }
    }
    for (; i < n; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        all += (a - b) * (a - b) / 2;
        x[i] = (a + b) * (float)M_SQRT1_2;
    }
    for (size_t j = 0; j < LANES; j++)
        all += sum[j];
    return all;
}

/* The transform is orthonormal: white noise has its variance in every octave. */
static void measure_octaves(const sonar_elements *e, float *x, struct measure *m) {
    size_t n = e->stretch / 2;
    for (size_t octave = 0; octave < e->first_octave + e->octaves; octave++, n /= 2) {
        float power = bounded(haar(x, n) / (float)n);
        if (octave >= e->first_octave)
            m->octave[octave - e->first_octave] = power;
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

static void measure_sensor(const sonar_elements *e, size_t channel, float *x, struct measure *m) {
    const size_t n = e->stretch;
    m->taken = e->missing[channel] <= 0;
    if (!m->taken)
        return;
    sonar_samples_gather(e->in, channel, n, x);
    struct extent extent = extent_of(x, n);
    m->constant = extent.low == extent.high;
    m->zero = m->constant && extent.low == 0;
    m->step = m->constant ? 0 : extent.step;
    m->same = (float)extent.same / (float)n;
    m->repeated = is_repeated(x, n);
    m->clipped = !m->repeated && is_clipped(x, n, &extent);
    const float mean = (float)(sonar_samples_sum(x, n) / (double)n);
    subtract(mean, x, n);
    m->power = bounded(energy_of(x, n) / (float)n);
    if (e->blocks) {
        average_blocks(e, x, x + n);
        measure_hum(e, x + n, m);
    }
    m->probe = probe(e, x);
    measure_octaves(e, x, m);
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
           (double)(first_sample - e->round_first) >= e->spec.fs_hz;
}

static void compare_task(void *arg, size_t task, size_t worker) {
    const sonar_elements *e = arg;
    float *x = e->scratch + worker * (e->stretch + e->blocks + LANES);
    size_t first = task * TASK, end = sonar_min_size(first + TASK, e->spec.sensors);
    for (size_t s = first; s < end; s++)
        if (sonar_element_used(e, s)) {
            sonar_samples_gather(e->in, e->spec.channel[s], COMPARED, x);
            e->measure[s].fingerprint = fingerprint(x, e->round_first);
        }
}

static void measure_task(void *arg, size_t task, size_t worker) {
    const sonar_elements *e = arg;
    float *x = e->scratch + worker * (e->stretch + e->blocks + LANES);
    size_t first = e->next + task * TASK, end = sonar_min_size(first + TASK, e->end);
    for (size_t s = first; s < end; s++)
        if (sonar_element_used(e, s))
            measure_sensor(e, e->spec.channel[s], x, &e->measure[s]);
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
