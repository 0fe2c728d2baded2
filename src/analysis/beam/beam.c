/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Runs the delay lines of all beams, a task for each beam. */
#include "analysis/beam/beam.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/core.h"
#include "core/isa.h"

enum { BLOCK = 512, ROW = BLOCK + 2 * SONAR_BEAM_HALF, GROUP = 4 };
static const double FADE_S = 0.005;

/* The contribution of a sensor to a beam: sample t - shift, with the weight times (2 mu)^power. */
struct line {
    int32_t shift;
    float weight[SONAR_BEAM_POWERS];
};

/* Adds n samples of each of GROUP sensors to sum[power][ROW]. */
typedef void add_fn(float *sum, const float *const x[GROUP], size_t n,
                    const struct line *const line[GROUP]);

/* State of a beam. */
struct track {
    struct line *now, *next; /* [sensor] present steering; scratch */
    bool steered;            /* `now` has the steering at the end of the last run */
    double heading_deg;      /* at the end of the last run */
};

struct worker {
    double *tau_s; /* [sensor] */
    float *sum;    /* [power][ROW] */
    float *row;    /* [GROUP][ROW] */
    float *other;  /* [BLOCK] */
};

struct sonar_beam {
    sonar_beam_spec spec;
    const sonar_host *host;
    add_fn *add;
    float coefficient[SONAR_BEAM_POWERS][SONAR_BEAM_TAPS];
    struct track *track;   /* [beam] */
    struct worker *worker; /* [workers] */
    uint64_t next_sample;  /* the sample after the last run */
    uint32_t epoch;
    bool ran;
    /* the run in progress */
    const sonar_beam_job *job;
    ptrdiff_t begin;
    bool continues;
    float *out;
    sonar_beam_facts *facts;
};

/* ---- sums ------------------------------------------------------------------------------------ */

/* Adds several sensors at a time, so that the sums are read and written less often. */
static inline __attribute__((always_inline)) void add_rows(float *restrict sum,
                                                           const float *const x[GROUP], size_t n,
                                                           const struct line *const line[GROUP]) {
    const float *restrict x0 = x[0], *restrict x1 = x[1], *restrict x2 = x[2], *restrict x3 = x[3];
    for (size_t p = 0; p < SONAR_BEAM_POWERS; p++) {
        const float w0 = line[0]->weight[p], w1 = line[1]->weight[p], w2 = line[2]->weight[p],
                    w3 = line[3]->weight[p];
        for (size_t i = 0; i < n; i++)
            sum[p * ROW + i] += (w0 * x0[i] + w1 * x1[i]) + (w2 * x2[i] + w3 * x3[i]);
    }
}

#if SONAR_HAS_WIDE
SONAR_TARGET_V4 static void add_v4(float *sum, const float *const x[GROUP], size_t n,
                                   const struct line *const line[GROUP]) {
    add_rows(sum, x, n, line);
}
SONAR_TARGET_V3 static void add_v3(float *sum, const float *const x[GROUP], size_t n,
                                   const struct line *const line[GROUP]) {
    add_rows(sum, x, n, line);
}
#endif
static void add_baseline(float *sum, const float *const x[GROUP], size_t n,
                         const struct line *const line[GROUP]) {
    add_rows(sum, x, n, line);
}

static add_fn *choose_add(void) {
    static add_fn *const kernel[SONAR_ISAS] = {
#if SONAR_HAS_WIDE
        [SONAR_ISA_V4] = add_v4,
        [SONAR_ISA_V3] = add_v3,
#endif
        [SONAR_ISA_BASELINE] = add_baseline
    };
    return kernel[sonar_isa_choose(NULL)];
}

/* ---- memory ---------------------------------------------------------------------------------- */

static sonar_arena lay_out(struct sonar_beam *b, size_t workers, sonar_arena_pass pass) {
    const size_t sensors = b->spec.sensors;
    sonar_arena arena = {.pass = pass};
    if (pass != SONAR_ARENA_FREE) {
        SONAR_ARENA(&arena, b->track, b->spec.beams);
        SONAR_ARENA(&arena, b->worker, workers);
    }
    for (size_t i = 0; i < b->spec.beams; i++) {
        struct track unmade = {0}, *t = b->track ? &b->track[i] : &unmade;
        SONAR_ARENA(&arena, t->now, sensors);
        SONAR_ARENA(&arena, t->next, sensors);
    }
    for (size_t i = 0; i < workers; i++) {
        struct worker unmade = {0}, *w = b->worker ? &b->worker[i] : &unmade;
        SONAR_ARENA(&arena, w->tau_s, sensors);
        SONAR_ARENA(&arena, w->sum, (size_t)SONAR_BEAM_POWERS * ROW);
        SONAR_ARENA(&arena, w->row, (size_t)GROUP * ROW);
        SONAR_ARENA(&arena, w->other, BLOCK);
    }
    if (pass == SONAR_ARENA_FREE) {
        SONAR_ARENA(&arena, b->track, b->spec.beams);
        SONAR_ARENA(&arena, b->worker, workers);
    }
    return arena;
}

double sonar_beam_bytes(const sonar_beam_spec *spec, size_t workers) {
    struct sonar_beam b = {.spec = *spec};
    return lay_out(&b, workers, SONAR_ARENA_MEASURE).bytes + sizeof b;
}

sonar_code sonar_beam_create(const sonar_beam_spec *spec, const sonar_host *host, sonar_beam **beam,
                             sonar_error *err) {
    struct sonar_beam *b = *beam = sonar_alloc(1, sizeof *b);
    if (b) {
        b->spec = *spec;
        b->host = host;
        b->add = choose_add();
        sonar_beam_design(b->coefficient);
    }
    if (b && !lay_out(b, host->workers, SONAR_ARENA_ALLOCATE).failed)
        return SONAR_OK;
    sonar_beam_destroy(b);
    *beam = NULL;
    return sonar_fail(err, SONAR_ENOMEM, "beam", "no memory for %zu beams of %zu sensors",
                      spec->beams, spec->sensors);
}

void sonar_beam_destroy(sonar_beam *b) {
    if (!b)
        return;
    if (b->track && b->worker)
        lay_out(b, b->host->workers, SONAR_ARENA_FREE);
    free(b->track);
    free(b->worker);
    free(b);
}

/* ---- steering -------------------------------------------------------------------------------- */

/* The unit vector of a look and its angle in the scan; false: its direction is unknown. */
static bool aim(const sonar_beam_job *job, const sonar_beam_look *look, double heading_deg,
                double u[3], double *az_deg) {
    const sonar_scan *scan = job->scan;
    *az_deg = look->is_true ? sonar_modulo_turn(look->deg - heading_deg) : look->deg;
    if (isnan(*az_deg))
        return false;
    if (!look->is_true || !scan->cone) {
        sonar_scan_unit(scan, *az_deg, u);
        return true;
    }
    const double radians = *az_deg * M_PI / 180;
    u[0] = cos(radians), u[1] = sin(radians), u[2] = 0;
    const double along = u[0] * scan->axis[0] + u[1] * scan->axis[1];
    *az_deg = acos(fmax(-1, fmin(1, along))) * 180 / M_PI;
    return true;
}

/* Steers all sensors. False: the direction is unknown. */
static bool steer(const struct sonar_beam *b, const sonar_beam_look *look, double heading_deg,
                  double *tau_s, struct line *line, double *az_deg) {
    const sonar_beam_job *job = b->job;
    const sonar_params *params = job->params;
    const double most = (double)b->spec.reach;
    double u[3];
    if (!aim(job, look, heading_deg, u, az_deg))
        return false;
    if (isfinite(job->range_m))
        sonar_delay_near(params->sensors, params->position_m, u, job->range_m, job->range_reference,
                         job->scan->axis, params->sound_speed_mps, tau_s);
    else
        sonar_delay_far(params->sensors, params->position_m, u, params->sound_speed_mps, tau_s);
    for (size_t k = 0; k < params->sensors; k++) {
        const double samples =
            fmax(-most, fmin(most, (tau_s[k] - params->delay_s[k]) * b->spec.fs_hz));
        const double whole = rint(samples), rest = 2 * (samples - whole);
        double weight = (double)params->shading[k] * (double)params->scale[k] / params->shading_sum;
        line[k].shift = (int32_t)whole;
        for (size_t p = 0; p < SONAR_BEAM_POWERS; p++, weight *= rest)
            line[k].weight[p] = (float)weight;
    }
    return true;
}

/* ---- samples --------------------------------------------------------------------------------- */

/* n samples of a channel from `at` on, relative to the window's first one. */
static const float *read_row(const sonar_window *window, size_t channel, ptrdiff_t at, size_t n,
                             float *scratch) {
    const sonar_buffer *ring = &window->ring;
    const ptrdiff_t capacity = (ptrdiff_t)ring->shape[1],
                    row = (ptrdiff_t)channel * ring->stride[0];
    ptrdiff_t column = ((ptrdiff_t)window->ring_column + at) % capacity;
    column += column < 0 ? capacity : 0;
    if (ring->dtype == SONAR_F32 && column + (ptrdiff_t)n <= capacity)
        return (const float *)ring->data + row + column;
    for (size_t i = 0; i < n; i++, column++) {
        column -= column == capacity ? capacity : 0;
        scratch[i] = ring->dtype == SONAR_F32 ? ((const float *)ring->data)[row + column]
                                              : (float)((const int16_t *)ring->data)[row + column];
    }
    return scratch;
}

/* Sums over the sensors for samples [at - HALF, at + n + HALF) of the run. */
static void sum_sensors(const struct sonar_beam *b, struct worker *w, const struct line *line,
                        size_t at, size_t n) {
    static const struct line silent = {0};
    const sonar_params *params = b->job->params;
    const size_t wide = n + 2 * SONAR_BEAM_HALF;
    const struct line *of[GROUP];
    const float *x[GROUP];
    size_t group = 0;
    memset(w->sum, 0, sizeof *w->sum * SONAR_BEAM_POWERS * ROW);
    for (size_t k = 0; k < params->sensors; k++) {
        if (line[k].weight[0] == 0)
            continue;
        const ptrdiff_t from = b->begin + (ptrdiff_t)at - SONAR_BEAM_HALF - line[k].shift;
        of[group] = &line[k];
        x[group] = read_row(b->job->window, params->channel[k], from, wide, w->row + group * ROW);
        if (++group < GROUP)
            continue;
        b->add(w->sum, x, wide, of);
        group = 0;
    }
    if (!group)
        return;
    for (; group < GROUP; group++)
        x[group] = x[0], of[group] = &silent;
    b->add(w->sum, x, wide, of);
}

/* The beam's samples [at, at + n) of the run, with the sensors steered by `line`. */
static void sum_block(const struct sonar_beam *b, struct worker *w, const struct line *line,
                      size_t at, size_t n, float *to) {
    sum_sensors(b, w, line, at, n);
    for (size_t i = 0; i < n; i++)
        to[i] = 0;
    for (size_t p = 0; p < SONAR_BEAM_POWERS; p++)
        for (size_t tap = 0; tap < SONAR_BEAM_TAPS; tap++) {
            const float c = b->coefficient[p][tap],
                        *sum = w->sum + p * ROW + SONAR_BEAM_TAPS - 1 - tap;
            for (size_t i = 0; i < n; i++)
                to[i] += c * sum[i];
        }
}

static bool is_there(const struct sonar_beam *b, size_t at, size_t n) {
    const sonar_window *window = b->job->window;
    const size_t around = b->spec.reach + SONAR_BEAM_HALF;
    const ptrdiff_t first = b->begin + (ptrdiff_t)at - (ptrdiff_t)around;
    return first >= -(ptrdiff_t)window->lookback &&
           sonar_window_is_whole(window, window->first_sample + (uint64_t)first, n + 2 * around);
}

/* Sets output samples to NaN that depend on samples that are not there; returns their number. */
static size_t strike_out(const struct sonar_beam *b, size_t at, size_t n, float *to) {
    size_t missing = 0;
    if (is_there(b, at, n))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!is_there(b, at + i, 1)) {
            to[i] = NAN;
            missing++;
        }
    return missing;
}

/* Makes a block that begins with the steering `from` and ends with `to` (NULL: as `from`); returns
 * the number of missing samples. */
static size_t make_block(const struct sonar_beam *b, struct worker *w, const struct line *from,
                         const struct line *to, size_t at, size_t n, float *out) {
    sum_block(b, w, from, at, n, out);
    if (to) {
        sum_block(b, w, to, at, n, w->other);
        for (size_t i = 0; i < n; i++)
            out[i] += (float)i / (float)n * (w->other[i] - out[i]);
    }
    return strike_out(b, at, n, out);
}

/* ---- beams ----------------------------------------------------------------------------------- */

static void swap(struct track *t) {
    struct line *now = t->now;
    t->now = t->next;
    t->next = now;
}

static size_t fade_samples(const sonar_beam_spec *spec) {
    const double wanted = fmax(1, rint(FADE_S * spec->fs_hz));
    return (size_t)fmin(wanted, (double)sonar_min_size(BLOCK, spec->hop));
}

static void leave_out(struct sonar_beam *b, size_t beam, float *out) {
    b->track[beam].steered = false;
    for (size_t i = 0; i < b->spec.hop; i++)
        out[i] = NAN;
    b->facts[beam].missing = b->spec.hop;
}

/* The heading of a run, linear between its ends. */
struct turn {
    double begin_deg, rate_deg; /* rate: per sample */
    bool moves;                 /* the beam follows it */
};

static struct turn turn_of(const struct sonar_beam *b, const struct track *t, bool continues,
                           const sonar_beam_look *look) {
    const double end_deg = b->job->heading_deg[1];
    struct turn turn = {.begin_deg = b->job->heading_deg[0]};
    if (continues && isfinite(t->heading_deg))
        turn.begin_deg = t->heading_deg;
    turn.rate_deg = remainder(end_deg - turn.begin_deg, 360) / (double)b->spec.hop;
    turn.moves = look->is_true && isfinite(turn.rate_deg) && turn.rate_deg != 0;
    if (!turn.moves)
        turn.begin_deg = end_deg, turn.rate_deg = 0;
    return turn;
}

static void run_beam(void *arg, size_t beam, size_t worker) {
    struct sonar_beam *b = arg;
    const size_t hop = b->spec.hop;
    const sonar_beam_look *look = &b->job->look[beam];
    struct track *t = &b->track[beam];
    struct worker *w = &b->worker[worker];
    sonar_beam_facts *facts = &b->facts[beam];
    float *out = b->out + beam * hop;
    const bool continues = b->continues && t->steered;
    const struct turn turn = turn_of(b, t, continues, look);
    *facts =
        (sonar_beam_facts){.bearing_deg = look->is_true ? look->deg : NAN, .track = look->track};
    if (!steer(b, look, turn.begin_deg, w->tau_s, t->next, &facts->az_deg)) {
        leave_out(b, beam, out);
        return;
    }
    bool fades = memcmp(t->now, t->next, b->spec.sensors * sizeof *t->now) != 0;
    if (!continues) {
        swap(t);
        fades = false;
    }
    for (size_t at = 0, n; at < hop; at += n, fades = false) {
        n = sonar_min_size(turn.moves ? SONAR_BEAM_STEP : BLOCK, hop - at);
        n = fades ? fade_samples(&b->spec) : n;
        if (turn.moves)
            steer(b, look, turn.begin_deg + turn.rate_deg * (double)(at + n), w->tau_s, t->next,
                  &facts->az_deg);
        const bool changes = turn.moves || fades;
        facts->missing += make_block(b, w, t->now, changes ? t->next : NULL, at, n, out + at);
        if (changes)
            swap(t);
    }
    t->steered = true;
    t->heading_deg = b->job->heading_deg[1];
}

size_t sonar_beam_lookback(const sonar_beam_spec *spec, size_t length) {
    const size_t all = spec->hop + 2 * (spec->reach + SONAR_BEAM_HALF);
    return all > length ? all - length : 0;
}

ptrdiff_t sonar_beam_begin(const sonar_beam_spec *spec, size_t length) {
    return (ptrdiff_t)length - (ptrdiff_t)(spec->reach + SONAR_BEAM_HALF + spec->hop);
}

void sonar_beam_run(sonar_beam *b, const sonar_beam_job *job, size_t length, float *out,
                    sonar_beam_facts *facts) {
    const sonar_window *window = job->window;
    b->job = job;
    b->out = out;
    b->facts = facts;
    b->begin = sonar_beam_begin(&b->spec, length);
    const uint64_t first = window->first_sample + (uint64_t)b->begin;
    b->continues =
        b->ran && !window->restarted && window->epoch == b->epoch && first == b->next_sample;
    b->host->parallel(b->host->ctx, job->beams, run_beam, b);
    for (size_t i = job->beams; i < b->spec.beams; i++)
        b->track[i].steered = false;
    b->ran = true;
    b->epoch = window->epoch;
    b->next_sample = first + b->spec.hop;
}

double sonar_beam_gain_db(const sonar_params *params) {
    double square = 0;
    for (size_t k = 0; k < params->sensors; k++)
        square += (double)params->shading[k] * (double)params->shading[k];
    return 10 * log10(params->shading_sum * params->shading_sum / square);
}
