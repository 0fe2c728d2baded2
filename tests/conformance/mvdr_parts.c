/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Parts of an array and their sum, compared with a stage that has all sensors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "dft/dft.h"
#include "mvdr.h"
#include "oracle.h"

enum { SENSORS = 61, DIRECTIONS = 37, BINS = 9, SLOTS = 12, PARTS = 3, SHARES = 2, MOST = 40 };
static const size_t BEGIN[PARTS + 1] = {0, 17, 18, SENSORS}; /* of the parts: one has one sensor */
static const size_t FIRST[SHARES + 1] = {0, 5, BINS};        /* of the shares' bins */

typedef struct part {
    sonar_mvdr_spec spec;
    sonar_params params;
    uint64_t turns[DIRECTIONS * SENSORS];
    void *stage;
    sonar_buffer in, products, plan, sums;
} part;

typedef struct share {
    sonar_mvdr_spec spec;
    void *stage;
    sonar_buffer sums, plan, out[SONAR_MVDR_OUTPUTS];
} share;

typedef struct crowd {
    mvdr_fixture f; /* the whole */
    part part[PARTS];
    share share[SHARES];
    double *products, *plan, *sums, *some; /* added; of one part */
    size_t most;                           /* doubles of a bin's sums */
    size_t again; /* snapshots of the block whose products the next window gives again */
} crowd;

static void open_part(crowd *c, size_t i) {
    site *site = c->f.site;
    part *p = &c->part[i];
    const size_t n = BEGIN[i + 1] - BEGIN[i];
    sonar_error err = {0};
    p->spec = c->f.spec;
    p->spec.sensors = n;
    p->spec.parts = SONAR_MVDR_PART;
    site_require(site, c->f.ops->create(&p->spec, site->host, &p->stage, &err), &err);
    p->in = site_buffer(site, SONAR_C32, 3, (size_t[]){p->spec.max_new, BINS, n});
    p->products = site_buffer(site, SONAR_F64, 3, (size_t[]){2 * MOST, BINS, SONAR_MVDR_PRODUCTS});
    p->plan = site_buffer(site, SONAR_F64, 2, (size_t[]){BINS, SONAR_MVDR_PLAN});
    p->sums = site_buffer(site, SONAR_F64, 2, (size_t[]){BINS, c->most});
}

static void open_share(crowd *c, size_t i) {
    site *site = c->f.site;
    share *s = &c->share[i];
    const size_t bins = FIRST[i + 1] - FIRST[i];
    sonar_error err = {0};
    s->spec = c->f.spec;
    s->spec.parts = SONAR_MVDR_JOINED;
    s->spec.first_bin += FIRST[i];
    s->spec.bins = bins;
    s->spec.tones = NULL;
    site_require(site, c->f.ops->create(&s->spec, site->host, &s->stage, &err), &err);
    s->sums = site_buffer(site, SONAR_F64, 2, (size_t[]){bins, c->most});
    s->plan = site_buffer(site, SONAR_F64, 2, (size_t[]){bins, SONAR_MVDR_PLAN});
    s->out[SONAR_MVDR_OUT_SPECTRUM] = site_buffer(site, SONAR_F32, 2, (size_t[]){bins, DIRECTIONS});
    s->out[SONAR_MVDR_OUT_EIGENVALUES] =
        site_buffer(site, SONAR_F32, 2, (size_t[]){bins, sonar_mvdr_modes(&s->spec)});
    s->out[SONAR_MVDR_OUT_INFO] =
        site_buffer(site, SONAR_F32, 2, (size_t[]){bins, SONAR_MVDR_INFO_FIELDS});
    if (s->spec.music)
        s->out[SONAR_MVDR_OUT_MUSIC] = site_buffer(site, SONAR_F32, 1, (size_t[]){DIRECTIONS});
}

/* A part has its sensors of the whole's parameters. All parts give the products of the block again,
 * since a part does not know of the others' sensors. */
static void renew(crowd *c) {
    mvdr_renew(&c->f);
    c->again = c->f.spec.tones ? c->f.spec.snapshots : 0;
    c->f.params.far_mvdr.made = 1; /* the turns stay */
    for (size_t i = 0; i < PARTS; i++) {
        part *p = &c->part[i];
        p->params = c->f.params;
        p->params.sensors = p->spec.sensors;
        p->params.position_m = c->f.position_m + 3 * BEGIN[i];
        p->params.used = c->f.used + BEGIN[i];
        p->params.far_mvdr.sensors = p->spec.sensors;
        p->params.far_mvdr.turns = p->turns;
        for (size_t t = 0; t < DIRECTIONS; t++)
            memcpy(p->turns + t * p->spec.sensors, c->f.turns + t * SENSORS + BEGIN[i],
                   p->spec.sensors * sizeof *p->turns);
    }
}

static crowd *open_crowd(site *site, const sonar_mvdr_spec *spec) {
    crowd *c = sonar_alloc(1, sizeof *c);
    mvdr_open_alone(&c->f, site, spec);
    c->f.wants_eigenvalues = true;
    c->most = sonar_mvdr_sums_most(spec);
    site_expect(site, c->f.ops->join && sonar_mvdr_adds(spec), "no sums to add");
    c->products = sonar_alloc((size_t)2 * MOST * BINS * SONAR_MVDR_PRODUCTS, sizeof(double));
    c->plan = sonar_alloc(BINS * SONAR_MVDR_PLAN, sizeof(double));
    c->sums = sonar_alloc(BINS * c->most, sizeof(double));
    c->some =
        sonar_alloc(BINS * (c->most + (size_t)2 * MOST * SONAR_MVDR_PRODUCTS), sizeof(double));
    for (size_t i = 0; i < PARTS; i++)
        open_part(c, i);
    for (size_t i = 0; i < SHARES; i++)
        open_share(c, i);
    renew(c);
    return c;
}

static void close_crowd(crowd *c) {
    site *site = c->f.site;
    for (size_t i = 0; i < PARTS; i++) {
        part *p = &c->part[i];
        sonar_buffer *const buffers[] = {&p->in, &p->products, &p->plan, &p->sums};
        for (size_t b = 0; b < 4; b++)
            site_free(site, buffers[b]);
        c->f.ops->destroy(p->stage);
    }
    for (size_t i = 0; i < SHARES; i++) {
        share *s = &c->share[i];
        sonar_buffer *const buffers[] = {&s->sums,
                                         &s->plan,
                                         &s->out[SONAR_MVDR_OUT_SPECTRUM],
                                         &s->out[SONAR_MVDR_OUT_EIGENVALUES],
                                         &s->out[SONAR_MVDR_OUT_INFO],
                                         &s->out[SONAR_MVDR_OUT_MUSIC]};
        for (size_t b = 0; b < 5 + (size_t)(s->spec.music != 0); b++)
            site_free(site, buffers[b]);
        c->f.ops->destroy(s->stage);
    }
    mvdr_close(&c->f);
    free(c->products);
    free(c->plan);
    free(c->sums);
    free(c->some);
    free(c);
}

/* ---- one run --------------------------------------------------------------------------------- */

static sonar_buffer first_of(const sonar_buffer *all, size_t count) {
    sonar_buffer some = *all;
    some.shape[0] = count;
    some.bytes = sonar_buffer_count(&some) * sonar_dtype_size(some.dtype);
    return some;
}

static void add(const double *from, size_t n, double *sum) {
    for (size_t i = 0; i < n; i++)
        sum[i] += from[i];
}

static void send_cut(crowd *c, size_t i, size_t count, const sonar_c32 *x) {
    part *p = &c->part[i];
    const size_t n = p->spec.sensors;
    sonar_c32 *cut = sonar_alloc(count * BINS * n + 1, sizeof *cut);
    sonar_buffer in = first_of(&p->in, count);
    for (size_t row = 0; row < count * BINS; row++)
        memcpy(cut + row * n, x + row * SENSORS + BEGIN[i], n * sizeof *cut);
    if (count)
        site_send(c->f.site, cut, &in);
    free(cut);
}

static void run_part(crowd *c, size_t i, size_t count, const sonar_c32 *x) {
    site *site = c->f.site;
    part *p = &c->part[i];
    const sonar_work work = {.params = &p->params};
    const size_t rows = count + c->again;
    sonar_buffer in = first_of(&p->in, count), products = first_of(&p->products, rows);
    sonar_error err = {0};
    send_cut(c, i, count, x);
    site_require(site, c->f.ops->execute(p->stage, site->queue, &in, &products, &work, &err), &err);
    if (!rows)
        return;
    site_fetch(site, &products, c->some);
    add(c->some, rows * BINS * SONAR_MVDR_PRODUCTS, c->products);
}

/* Only the memory in the plan exists: memory beyond it must not be read. */
static void join_part(crowd *c, size_t i, size_t count) {
    site *site = c->f.site;
    part *p = &c->part[i];
    const sonar_work work = {.params = &p->params};
    const size_t fresh = sonar_min_size(count, (size_t)sonar_mvdr_slots(&p->spec));
    sonar_buffer products = first_of(&p->products, count + c->again), out[2] = {p->plan, p->sums};
    double plan[BINS * SONAR_MVDR_PLAN];
    sonar_error err = {0};
    if (count + c->again)
        site_send(site, c->products, &products);
    site_require(site, c->f.ops->join(p->stage, site->queue, &products, out, &work, &err), &err);
    site_fetch(site, &p->plan, plan);
    site_fetch(site, &p->sums, c->some);
    site_expect(site, i == 0 || !memcmp(plan, c->plan, sizeof plan), "part %zu has its own plan",
                i);
    memcpy(c->plan, plan, sizeof plan);
    for (size_t b = 0; b < BINS; b++)
        add(c->some + b * c->most,
            plan[b * SONAR_MVDR_PLAN + SONAR_MVDR_PLAN_WHOLE] != 0
                ? c->most
                : fresh * sonar_mvdr_sums_row(&p->spec),
            c->sums + b * c->most);
}

static void expect_share(crowd *c, size_t i) {
    site *site = c->f.site;
    share *s = &c->share[i];
    const size_t bins = s->spec.bins, modes = sonar_mvdr_modes(&s->spec);
    const size_t fields = SONAR_MVDR_INFO_FIELDS, first = FIRST[i];
    float spectrum[BINS * DIRECTIONS], eigenvalues[BINS * SENSORS], info[BINS * 16];
    site_fetch(site, &s->out[SONAR_MVDR_OUT_SPECTRUM], spectrum);
    site_fetch(site, &s->out[SONAR_MVDR_OUT_EIGENVALUES], eigenvalues);
    site_fetch(site, &s->out[SONAR_MVDR_OUT_INFO], info);
    const double db =
        oracle_worst_db(bins * DIRECTIONS, spectrum, c->f.spectrum + first * DIRECTIONS);
    site_expect(site, db < 1e-4, "share %zu: spectrum %g dB apart", i, db);
    for (size_t b = 0; b < bins; b++) {
        const float *own = eigenvalues + b * modes, *all = c->f.eigenvalues + (first + b) * modes;
        for (size_t m = 0; m < modes; m++)
            site_expect(site, fabsf(own[m] - all[m]) <= 1e-5f * all[0], "eigenvalue %zu of bin %zu",
                        m, first + b);
    }
    for (size_t k = 0; k < bins * fields; k++) {
        if (k % fields == SONAR_MVDR_SWEEPS || k % fields == SONAR_MVDR_RESIDUAL)
            continue; /* depend on the window that was solved before */
        const double own = (double)info[k], all = (double)c->f.info[first * fields + k];
        site_expect(site, fabs(own - all) <= 1e-5 * fabs(all) + 1e-12,
                    "info %zu of bin %zu: %g, %g", k % fields, first + k / fields, own, all);
    }
}

/* The mean over all bins that have sources; each share has the mean over its own bins. */
static void expect_music(crowd *c) {
    site *site = c->f.site;
    double count = 0, sum[DIRECTIONS] = {0};
    for (size_t i = 0; i < SHARES; i++) {
        share *s = &c->share[i];
        float music[DIRECTIONS], info[BINS * SONAR_MVDR_INFO_FIELDS];
        double bins = 0;
        site_fetch(site, &s->out[SONAR_MVDR_OUT_MUSIC], music);
        site_fetch(site, &s->out[SONAR_MVDR_OUT_INFO], info);
        for (size_t b = 0; b < s->spec.bins; b++)
            bins += info[b * SONAR_MVDR_INFO_FIELDS + SONAR_MVDR_SUBSPACE] > 0;
        for (size_t t = 0; t < DIRECTIONS; t++)
            sum[t] += bins / (double)music[t];
        count += bins;
    }
    for (size_t t = 0; t < DIRECTIONS; t++) {
        const double value = count > 0 ? count / sum[t] : 1, whole = (double)c->f.music[t];
        site_expect(site, fabs(10 * log10(value / whole)) < 1e-4,
                    "MUSIC of direction %zu: %g in place of %g", t, value, whole);
    }
}

/* Passes new snapshots, or none, to all; `wanted`: also the spectra, which are compared. */
static void run_crowd(crowd *c, size_t count, const sonar_c32 *x, bool wanted) {
    site *site = c->f.site;
    sonar_error err = {0};
    memset(c->products, 0, (count + c->again) * BINS * SONAR_MVDR_PRODUCTS * sizeof(double));
    memset(c->sums, 0, BINS * c->most * sizeof(double));
    for (size_t i = 0; i < PARTS; i++)
        run_part(c, i, count, x);
    for (size_t i = 0; i < PARTS; i++)
        join_part(c, i, count);
    for (size_t i = 0; i < SHARES; i++) {
        share *s = &c->share[i];
        const sonar_work work = {.params = &c->f.params,
                                 .outputs = wanted ? SONAR_WANT(SONAR_MVDR_SPECTRUM) |
                                                         SONAR_WANT(SONAR_MVDR_EIGENVALUES) |
                                                         SONAR_WANT(SONAR_MUSIC_AZIMUTH)
                                                   : 0,
                                 .snapshots = count};
        const sonar_buffer in[2] = {s->sums, s->plan};
        site_send(site, c->sums + FIRST[i] * c->most, &s->sums);
        site_send(site, c->plan + FIRST[i] * SONAR_MVDR_PLAN, &s->plan);
        site_require(site, c->f.ops->execute(s->stage, site->queue, in, s->out, &work, &err), &err);
    }
    c->again = 0;
    mvdr_run(&c->f, count, x);
    for (size_t i = 0; i < SHARES && wanted; i++)
        expect_share(c, i);
    if (wanted && c->f.spec.music)
        expect_music(c);
}

/* Points off the grid: the whole's turns, moved. */
static void evaluate_crowd(crowd *c) {
    enum { POINTS = 11 };
    site *site = c->f.site;
    const size_t each = 1 + 2 * (size_t)sonar_mvdr_slots(&c->f.spec);
    uint64_t turns[POINTS * SENSORS], cut[POINTS * SENSORS];
    float whole[POINTS], here[POINTS];
    double sum[POINTS] = {0};
    double *all = sonar_alloc(BINS * POINTS * each, sizeof *all), *one = c->some;
    sonar_error err = {0};
    for (size_t i = 0; i < POINTS * SENSORS; i++)
        turns[i] = c->f.turns[i] + (c->f.turns[i + SENSORS] - c->f.turns[i]) / 3;
    mvdr_evaluate(&c->f, POINTS, turns, whole);
    for (size_t i = 0; i < PARTS; i++) {
        part *p = &c->part[i];
        const sonar_work work = {.params = &p->params};
        const size_t n = p->spec.sensors;
        for (size_t t = 0; t < POINTS; t++)
            memcpy(cut + t * n, turns + t * SENSORS + BEGIN[i], n * sizeof *cut);
        sonar_buffer points = site_buffer(site, SONAR_U64, 2, (size_t[]){POINTS, n});
        sonar_buffer sums = site_buffer(site, SONAR_F64, 3, (size_t[]){BINS, POINTS, each});
        site_send(site, cut, &points);
        site_require(site, c->f.ops->evaluate(p->stage, site->queue, &points, &sums, &work, &err),
                     &err);
        site_fetch(site, &sums, one);
        add(one, BINS * POINTS * each, all);
        site_free(site, &points);
        site_free(site, &sums);
    }
    for (size_t i = 0; i < SHARES; i++) {
        share *s = &c->share[i];
        const sonar_work work = {.params = &c->f.params};
        sonar_buffer sums = site_buffer(site, SONAR_F64, 3, (size_t[]){s->spec.bins, POINTS, each});
        sonar_buffer power = site_buffer(site, SONAR_F32, 1, (size_t[]){POINTS});
        site_send(site, all + FIRST[i] * POINTS * each, &sums);
        site_require(site, c->f.ops->evaluate(s->stage, site->queue, &sums, &power, &work, &err),
                     &err);
        site_fetch(site, &power, here);
        for (size_t t = 0; t < POINTS; t++)
            sum[t] += (double)here[t];
        site_free(site, &sums);
        site_free(site, &power);
    }
    for (size_t t = 0; t < POINTS; t++)
        site_expect(site, fabs(10 * log10(sum[t] / (double)whole[t])) < 1e-4,
                    "point %zu: %g in place of %g", t, sum[t], (double)whole[t]);
    free(all);
}

static void reset_crowd(crowd *c) {
    mvdr_reset(&c->f);
    for (size_t i = 0; i < PARTS; i++)
        c->f.ops->reset(c->part[i].stage);
    for (size_t i = 0; i < SHARES; i++)
        c->f.ops->reset(c->share[i].stage);
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* When a tone begins or moves, all of the bin's projections are recomputed. */
static void add_tone(const mvdr_fixture *f, double above, size_t from, size_t count, sonar_c32 *x) {
    const double hz = ((double)f->spec.first_bin + above) * f->spec.fs_hz / (double)f->spec.length;
    uint64_t seed = from;
    for (size_t s = from; s < from + count; s++) {
        const double start = test_uniform(&seed);
        for (size_t b = 0; b < BINS; b++) {
            const double o = above - (double)b;
            const double w = 30 * sin(M_PI * o) / (M_PI * o * (1 - o * o)) * (b % 2 ? -1 : 1);
            for (size_t k = 0; k < SENSORS; k++) {
                const cplx a = cexp(2 * M_PI * I * (hz * mvdr_delay(f, k, 33) + start));
                sonar_c32 *v = &x[(s * BINS + b) * SENSORS + k];
                v->re += (float)(w * creal(a));
                v->im += (float)(w * cimag(a));
            }
        }
    }
}

/* A sensor of the last part that is louder than all sound until it is masked: sums that it is in
 * name no frequency. */
static void add_fault(size_t sensor, size_t count, sonar_c32 *x) {
    uint64_t seed = sensor;
    for (size_t row = 0; row < count * BINS; row++) {
        x[row * SENSORS + sensor].re += (float)(1e4 * (test_uniform(&seed) - 0.5));
        x[row * SENSORS + sensor].im += (float)(1e4 * (test_uniform(&seed) - 0.5));
    }
}

static void live(site *site, sonar_mvdr_spec spec) {
    crowd *c = open_crowd(site, &spec);
    sonar_c32 *x = mvdr_record(&c->f, MOST, (mvdr_wave[]){{120, 20}, {60, 0}}, 2, 5);
    const size_t each = BINS * SENSORS;
    if (spec.tones) {
        add_tone(&c->f, 4.37, 8, 12, x);
        add_tone(&c->f, 4.21, 20, 20, x);
        add_fault(50, 17, x);
    }
    x[(9 * BINS + 3) * SENSORS + 40].im = INFINITY; /* of one part; other bins of it count */
    run_crowd(c, 0, x, true);
    run_crowd(c, 3, x, true);
    run_crowd(c, 5, x + 3 * each, false);
    run_crowd(c, 1, x + 8 * each, true);
    run_crowd(c, 2, x + 9 * each, true);
    evaluate_crowd(c);
    run_crowd(c, 6, x + 11 * each, false); /* snapshots of windows without a request count later */
    run_crowd(c, 0, x, true);
    c->f.used[3] = c->f.used[17] = c->f.used[50] = 0; /* the second part has none left */
    renew(c);
    run_crowd(c, 4, x + 17 * each, true);
    c->f.used[3] = 1;
    renew(c);
    run_crowd(c, 0, x, true);              /* without a new snapshot */
    run_crowd(c, 15, x + 21 * each, true); /* more than there are slots for */
    evaluate_crowd(c);
    reset_crowd(c);
    run_crowd(c, 0, x, true);
    run_crowd(c, 4, x + 36 * each, true);
    evaluate_crowd(c);
    free(x);
    close_crowd(c);
}

MVDR_CASE(parts_add_up) {
    sonar_mvdr_tones hann;
    double window[256];
    sonar_dft_taper(SONAR_HANN, 0, 256, window);
    sonar_mvdr_tones_make(window, 256, &hann);
    sonar_mvdr_spec spec = mvdr_spec(SENSORS, DIRECTIONS, SLOTS, 0);
    spec.bins = BINS, spec.max_new = MOST;
    live(site, spec);
    spec.tones = &hann, spec.loading = SONAR_LOADING_NOISE, spec.eps = 1;
    live(site, spec);
    spec.solver = SONAR_MVDR_JACOBI, spec.correct_level = true;
    live(site, spec);
    spec.music = 2;
    live(site, spec);
    spec.solver = SONAR_MVDR_AUTO, spec.music = SONAR_MODES_COUNTED;
    spec.source_count = SONAR_COUNT_MDL;
    live(site, spec);
    spec = mvdr_spec(SENSORS, DIRECTIONS, MOST, 0.3); /* 27 slots */
    spec.bins = BINS, spec.tones = &hann;
    live(site, spec);
}

/* Mirror images, sensor space, near fields, edges and limited gains are not computed by sums. */
MVDR_CASE(parts_that_do_not_add) {
    const sonar_stage_ops *ops = site->backend->stage("mvdr_jacobi");
    const sonar_mvdr_spec good = mvdr_spec(SENSORS, DIRECTIONS, SLOTS, 0);
    sonar_mvdr_spec wrong[4] = {good, good, good, good};
    wrong[0].forward_backward = true;
    wrong[1].ranges = 1;
    wrong[2].bins = 3, wrong[2].edge_below = 1;
    wrong[3].white_noise_gain_db = -3;
    for (size_t i = 0; i < 8; i++) {
        sonar_mvdr_spec spec = wrong[i / 2];
        sonar_error err = {0};
        void *stage = NULL;
        spec.parts = i % 2 ? SONAR_MVDR_PART : SONAR_MVDR_JOINED;
        site_expect(site,
                    ops->create(&spec, site->host, &stage, &err) == SONAR_EINVAL && !stage &&
                        strstr(err.text, "cannot be added"),
                    "spec %zu: %s", i, err.text);
    }
    sonar_mvdr_spec many = mvdr_spec(SENSORS, DIRECTIONS, SENSORS, 0);
    site_expect(site, sonar_mvdr_adds(&good) && !sonar_mvdr_adds(&many), "which add");
}
