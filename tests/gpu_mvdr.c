/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The CUDA plugin's MVDR stage beside the CPU's and the double-precision oracle. Exit code 0
 * passed, 77 no usable device.
 *
 *   gpu_mvdr [--plugin-dir DIR] [--quick] [--time] [NAME]
 *
 * --quick keeps the sizes small, for runs under a memory or race checker; --time prints medians
 * instead of testing; NAME runs the groups whose name contains it.
 */
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mvdr_oracle.h"
#include "backend/open.h"

enum { DIRECTIONS = 90 };

static const sonar_backend *backend;
static const char *plugin_dir;
static const sonar_stage_ops *ops;
static sonar_host host;
static bool quick;
static size_t checks, failures;
static const char *group;

/* ---- ways ------------------------------------------------------------------------------------ */

/* What the table of choices would say; every candidate is in one of them. */
static const struct way {
    const char *name, *decompose, *look;
} WAYS[] = {
    {"untrained", NULL, NULL}, {"few threads", "256", "128"}, {"many threads", "1024", "512"}};
enum { WAY_COUNT = sizeof WAYS / sizeof *WAYS };

static const struct way *way = &WAYS[0];

static const char *choose(void *ctx, const char *decision) {
    (void)ctx;
    if (!strcmp(decision, "mvdr.decompose_threads"))
        return way->decompose;
    return strcmp(decision, "mvdr.look_threads") ? NULL : way->look;
}

/* ---- reporting ------------------------------------------------------------------------------- */

static void expect(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void expect(bool good, const char *format, ...) {
    checks++;
    if (good)
        return;
    failures++;
    va_list args;
    va_start(args, format);
    printf("FAILED %s: ", group);
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

static void must(sonar_code code, const sonar_error *err) {
    if (!code)
        return;
    printf("FAILED %s: %s: %s\n", group, err->where, err->text);
    exit(1);
}

static void *alloc(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        abort();
    return memory;
}

/* ---- the two stages side by side ------------------------------------------------------------- */

typedef struct twins {
    mvdr_fixture cpu; /* its surfaces are the CPU's */
    void *stage;      /* the plugin's */
    sonar_queue *queue;
    sonar_event *event;
    sonar_buffer in, out[SONAR_MVDR_OUTPUTS];
    float *azimuth, *spectrum, *info; /* the plugin's, fetched */
} twins;

static sonar_buffer device_buffer(sonar_dtype dtype, int rank, const size_t *shape) {
    sonar_buffer buffer;
    sonar_error err;
    must(backend->buffer_create(backend, backend->native_space, dtype, rank, shape, &buffer, &err),
         &err);
    return buffer;
}

static void move(twins *t, const sonar_buffer *from, sonar_buffer *to) {
    sonar_error err;
    must(backend->copy(t->queue, from, to, &err), &err);
    must(backend->record(t->queue, t->event, &err), &err);
    must(backend->finish(t->event, &err), &err);
}

static void fetch(twins *t, const sonar_buffer *from, void *to) {
    sonar_buffer here = *from;
    here.data = to;
    here.space = SONAR_HOST;
    move(t, from, &here);
}

static void send(twins *t, const void *from, sonar_buffer *to) {
    sonar_buffer here = *to;
    memcpy(&here.data, &from, sizeof from);
    here.space = SONAR_HOST;
    move(t, &here, to);
}

static void open_twins(twins *t, const sonar_mvdr_spec *spec) {
    sonar_error err;
    size_t bins = spec->bins, directions = spec->directions;
    memset(t, 0, sizeof *t);
    mvdr_fixture_open(&t->cpu, spec, sonar_host_serial());
    must(backend->queue_create(backend, &t->queue, &err), &err);
    must(backend->event_create(backend, &t->event, &err), &err);
    t->in = device_buffer(SONAR_C32, 3, (size_t[]){spec->max_new, bins, spec->sensors});
    t->out[SONAR_MVDR_OUT_AZIMUTH] = device_buffer(SONAR_F32, 1, (size_t[]){directions});
    t->out[SONAR_MVDR_OUT_SPECTRUM] = device_buffer(SONAR_F32, 2, (size_t[]){bins, directions});
    t->out[SONAR_MVDR_OUT_INFO] =
        device_buffer(SONAR_F32, 2, (size_t[]){bins, (size_t)SONAR_MVDR_INFO_FIELDS});
    t->azimuth = alloc(directions, sizeof(float));
    t->spectrum = alloc(bins * directions, sizeof(float));
    t->info = alloc(bins * SONAR_MVDR_INFO_FIELDS, sizeof(float));
    must(ops->create(spec, &host, &t->stage, &err), &err);
}

static void close_twins(twins *t) {
    ops->destroy(t->stage);
    backend->buffer_destroy(&t->in);
    for (int i = 0; i < SONAR_MVDR_OUTPUTS; i++)
        backend->buffer_destroy(&t->out[i]);
    backend->event_destroy(t->event);
    backend->queue_destroy(t->queue);
    free(t->azimuth);
    free(t->spectrum);
    free(t->info);
    mvdr_fixture_close(&t->cpu);
}

static sonar_work work_of(const twins *t) {
    return (sonar_work){.params = &t->cpu.params, .outputs = SONAR_WANT(SONAR_MVDR_SPECTRUM)};
}

/* The outputs are poisoned first, so that a value nobody wrote is seen. */
static void run_gpu(twins *t, size_t count, const sonar_c32 *x) {
    const sonar_mvdr_spec *spec = &t->cpu.spec;
    sonar_error err;
    sonar_work work = work_of(t);
    sonar_buffer in = t->in;
    in.shape[0] = count;
    in.bytes = count * spec->bins * spec->sensors * sizeof *x;
    memset(t->azimuth, 0xff, spec->directions * sizeof(float));
    memset(t->spectrum, 0xff, spec->bins * spec->directions * sizeof(float));
    memset(t->info, 0xff, spec->bins * SONAR_MVDR_INFO_FIELDS * sizeof(float));
    send(t, t->azimuth, &t->out[SONAR_MVDR_OUT_AZIMUTH]);
    send(t, t->spectrum, &t->out[SONAR_MVDR_OUT_SPECTRUM]);
    send(t, t->info, &t->out[SONAR_MVDR_OUT_INFO]);
    if (count)
        send(t, x, &in);
    must(ops->execute(t->stage, t->queue, &in, t->out, &work, &err), &err);
    fetch(t, &t->out[SONAR_MVDR_OUT_AZIMUTH], t->azimuth);
    fetch(t, &t->out[SONAR_MVDR_OUT_SPECTRUM], t->spectrum);
    fetch(t, &t->out[SONAR_MVDR_OUT_INFO], t->info);
}

static void run_both(twins *t, size_t count, const sonar_c32 *x) {
    run_gpu(t, count, x);
    if (mvdr_fixture_run(&t->cpu, count, x))
        abort();
}

static float gpu_info(const twins *t, size_t bin, int field) {
    return t->info[bin * SONAR_MVDR_INFO_FIELDS + (size_t)field];
}

static unsigned gpu_flags(const twins *t, size_t bin) {
    return (unsigned)gpu_info(t, bin, SONAR_MVDR_FLAGS);
}

/* Worst error of the plugin's spectrum against the oracle. */
static double gpu_error_db(twins *t, size_t bin, const cplx *r, double snapshots) {
    float *mine = t->cpu.spectrum;
    t->cpu.spectrum = t->spectrum;
    double error = mvdr_fixture_error_db(&t->cpu, bin, r, snapshots);
    t->cpu.spectrum = mine;
    return error;
}

/* Worst difference of the two spectra; 1000 where one is zero or no number and the other is not. */
static double difference_db(const twins *t) {
    double worst = 0;
    for (size_t i = 0; i < t->cpu.spec.bins * t->cpu.spec.directions; i++) {
        double a = (double)t->spectrum[i], b = (double)t->cpu.spectrum[i];
        if (memcmp(&t->spectrum[i], &t->cpu.spectrum[i], sizeof(float)) == 0)
            continue;
        double d = a > 0 && b > 0 && isfinite(a) && isfinite(b) ? fabs(10 * log10(a / b)) : 1000;
        worst = d > worst ? d : worst;
    }
    return worst;
}

/* Everything in INFO but the sweeps and the residual must be the CPU's. Rounding adds up in a
 * factor that is carried on. */
static void expect_same_info(const twins *t, const char *what) {
    double close = t->cpu.spec.alpha > 0 ? 5e-3 : 1e-3;
    for (size_t bin = 0; bin < t->cpu.spec.bins; bin++) {
        double mine = (double)gpu_info(t, bin, SONAR_MVDR_DELTA);
        double delta = (double)mvdr_fixture_info(&t->cpu, bin, SONAR_MVDR_DELTA);
        unsigned flags = (unsigned)mvdr_fixture_info(&t->cpu, bin, SONAR_MVDR_FLAGS);
        float snapshots = mvdr_fixture_info(&t->cpu, bin, SONAR_MVDR_SNAPSHOTS);
        expect(fabs(mine - delta) <= close * delta, "%s: delta %g, CPU %g", what, mine, delta);
        double share = (double)gpu_info(t, bin, SONAR_MVDR_LEVEL);
        double level = (double)mvdr_fixture_info(&t->cpu, bin, SONAR_MVDR_LEVEL);
        double offset = (double)gpu_info(t, bin, SONAR_MVDR_OFFSET);
        double at = (double)mvdr_fixture_info(&t->cpu, bin, SONAR_MVDR_OFFSET);
        expect(fabs(share - level) <= 2 * close * level, "%s: level %g, CPU %g", what, share,
               level);
        expect(fabs(offset - at) <= 1e-4, "%s: bin %zu steered %g above, CPU %g", what, bin, offset,
               at);
        expect(gpu_flags(t, bin) == flags, "%s: flags %u, CPU %u", what, gpu_flags(t, bin), flags);
        expect(fabsf(gpu_info(t, bin, SONAR_MVDR_SNAPSHOTS) - snapshots) <= 1e-6f * snapshots,
               "%s: %g snapshots, CPU %g", what, (double)gpu_info(t, bin, SONAR_MVDR_SNAPSHOTS),
               (double)snapshots);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static double worst_error, worst_difference; /* of a group, for the summary */

static void block(const sonar_mvdr_spec *spec, const mvdr_wave *waves, size_t count, uint64_t seed,
                  double limit_db) {
    twins t;
    char what[96];
    size_t l = spec->snapshots;
    snprintf(what, sizeof what, "B %zu, L %zu, rule %d, %g dB", spec->sensors, l,
             (int)spec->loading, count ? waves[0].level_db : 0);
    open_twins(&t, spec);
    sonar_c32 *x = mvdr_record(&t.cpu, l, waves, count, seed);
    run_both(&t, l, x);
    cplx *r = mvdr_fixture_covariance(&t.cpu, 0, l, x, NULL);
    double error = gpu_error_db(&t, 0, r, (double)l), away = difference_db(&t);
    expect(error <= limit_db, "%s: %g dB off the oracle, %g off the CPU", what, error, away);
    expect(gpu_info(&t, 0, SONAR_MVDR_RESIDUAL) <= 3e-7f, "%s: residual %g in %g sweeps", what,
           (double)gpu_info(&t, 0, SONAR_MVDR_RESIDUAL),
           (double)gpu_info(&t, 0, SONAR_MVDR_SWEEPS));
    expect_same_info(&t, what);
    worst_error = fmax(worst_error, error);
    worst_difference = fmax(worst_difference, away);
    free(x);
    free(r);
    close_twins(&t);
}

static void sizes_at(double level_db, double limit_db) {
    static const size_t sizes[] = {1, 2, 3, 7, 16, 31, 64, 128};
    mvdr_wave waves[] = {{50.5, level_db}, {81, level_db - 10}, {120, level_db - 20}};
    for (size_t i = 0; i < (quick ? 5 : sizeof sizes / sizeof *sizes); i++) {
        size_t b = sizes[i], lengths[] = {1, 2, b / 2, b, b + 1, 2 * b};
        for (size_t j = 0; j < sizeof lengths / sizeof *lengths; j++)
            for (int rule = 0; rule < 2 && lengths[j]; rule++) {
                sonar_mvdr_spec spec = mvdr_fixture_spec(b, DIRECTIONS, lengths[j]);
                spec.loading = rule ? SONAR_LOADING_TRACE : SONAR_LOADING_NOISE;
                spec.eps = rule ? 1e-4 : 1;
                block(&spec, waves, 3, 1 + i * 100 + j, limit_db);
            }
    }
}

static void quiet(void) {
    sizes_at(0, 0.01);
}
static void loud_40_db(void) {
    sizes_at(40, 0.05);
}
static void loud_60_db(void) {
    sizes_at(60, 0.05);
}
static void loud_80_db(void) {
    sizes_at(80, 0.1);
}

static void random_sizes(void) {
    uint64_t seed = 7;
    for (int i = 0; i < (quick ? 6 : 40); i++) {
        size_t b = 1 + (size_t)(test_uniform(&seed) * (quick ? 20 : 60));
        size_t l = 1 + (size_t)(test_uniform(&seed) * (double)(2 * b));
        sonar_mvdr_spec spec = mvdr_fixture_spec(b, 1 + b % 37, l);
        spec.loading = SONAR_LOADING_NOISE;
        spec.eps = 0.3;
        mvdr_wave waves[] = {{30 + 100 * test_uniform(&seed), 60 * test_uniform(&seed)},
                             {30 + 100 * test_uniform(&seed), 30 * test_uniform(&seed)}};
        block(&spec, waves, 2, (uint64_t)i, 0.05);
    }
}

/* Problems whose columns do not fit into shared memory, in float32 and in double. */
static void beyond_shared_memory(void) {
    static const size_t sizes[][2] = {{150, 150}, {200, 380}, {300, 180}, {310, 311}};
    mvdr_wave waves[] = {{50.5, 60}, {81, 50}, {120, 40}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !quick; i++) {
        sonar_mvdr_spec spec = mvdr_fixture_spec(sizes[i][0], DIRECTIONS, sizes[i][1]);
        spec.eps = 1e-4;
        block(&spec, waves, 3, 40 + i, 0.05);
    }
}

/* The look straight at a source 80 dB above the noise: the residual must not cancel to nothing. */
static void pointing(void) {
    sonar_mvdr_spec spec = mvdr_fixture_spec(quick ? 32 : 128, 400, quick ? 16 : 64);
    for (int rule = 0; rule < 2; rule++) {
        spec.loading = rule ? SONAR_LOADING_TRACE : SONAR_LOADING_NOISE;
        spec.eps = rule ? 1e-7 : 1;
        block(&spec, (mvdr_wave[]){{180.0 * 150.5 / 400, 80}}, 1, 5, 0.1);
    }
}

static void nearly_square(void) {
    mvdr_wave waves[] = {{50.5, 60}, {81, 50}, {120, 40}};
    for (size_t l = 30; l <= (quick ? 40 : 80); l += 5) {
        sonar_mvdr_spec spec = mvdr_fixture_spec(48, DIRECTIONS, l);
        bool square = l > 36 && l < 72;
        spec.loading = SONAR_LOADING_NOISE;
        spec.eps = 0.01;
        if (square) /* float32: 1e-3 and more */
            block(&spec, waves, 3, l, 5e-4);
    }
}

static void loading_rules(void) {
    mvdr_wave waves[] = {{60, 30}, {100, 25}};
    for (size_t l = 3; l < 50; l += quick ? 18 : 9)
        for (size_t known = 0; known < 4; known++) {
            sonar_mvdr_spec spec = mvdr_fixture_spec(24, DIRECTIONS, l);
            spec.loading = SONAR_LOADING_NOISE;
            spec.eps = 0.5;
            spec.known_sources = known;
            block(&spec, waves, 2, l, 0.01);
            spec.loading = SONAR_LOADING_ABSOLUTE;
            spec.eps = 0.25;
            block(&spec, waves, 2, l, 0.01);
        }
}

static void sliding(void) {
    enum { L = 20, TOTAL = 130 };
    static const size_t steps[] = {1, 2, 0, 5, 31, 1, 1, 20, 3};
    twins t;
    sonar_mvdr_spec spec = mvdr_fixture_spec(17, DIRECTIONS, L);
    spec.max_new = 31;
    spec.bins = 3;
    open_twins(&t, &spec);
    sonar_c32 *x = mvdr_record(&t.cpu, TOTAL, (mvdr_wave[]){{70, 40}}, 1, 3);
    size_t stride = spec.bins * spec.sensors, end = 0;
    for (size_t i = 0; end + 31 < TOTAL; i++) {
        size_t step = steps[i % (sizeof steps / sizeof *steps)];
        run_both(&t, step, x + end * stride);
        end += step;
        size_t l = end < L ? end : L;
        expect_same_info(&t, "sliding");
        for (size_t bin = 0; bin < spec.bins; bin++) {
            cplx *r = mvdr_fixture_covariance(&t.cpu, bin, l, x + (end - l) * stride, NULL);
            double error = gpu_error_db(&t, bin, r, (double)l);
            expect(error <= 0.05, "after %zu: %g dB off", end, error);
            free(r);
        }
    }
    free(x);
    close_twins(&t);
}

/* ---- tones and levels ------------------------------------------------------------------------ */

static const sonar_mvdr_tones *hann_tones(void) {
    static sonar_mvdr_tones tones;
    double window[256];
    for (size_t i = 0; i < 256; i++)
        window[i] = 0.5 - 0.5 * cos(2 * M_PI * (double)i / 256);
    sonar_mvdr_tones_make(window, 256, &tones);
    return &tones;
}

/* Adds what a Hann window makes of a tone `above` bins over the first one, in every bin. */
static void add_tone(const mvdr_fixture *f, double above, double az_deg, double level_db,
                     size_t count, sonar_c32 *x) {
    const sonar_mvdr_spec *spec = &f->spec;
    const double hz = ((double)spec->first_bin + above) * spec->fs_hz / (double)spec->length;
    uint64_t seed = 99;
    for (size_t s = 0; s < count; s++) {
        double start = test_uniform(&seed);
        for (size_t b = 0; b < spec->bins; b++) {
            double o = above - (double)b;
            double w = sin(M_PI * o) / (M_PI * o * (1 - o * o)) * (b % 2 ? -1 : 1);
            for (size_t k = 0; k < spec->sensors; k++) {
                cplx a = cexp(2 * M_PI * I * (hz * mvdr_fixture_delay(f, k, az_deg) + start));
                sonar_c32 *v = &x[(s * spec->bins + b) * spec->sensors + k];
                v->re += (float)(w * pow(10, level_db / 20) * creal(a));
                v->im += (float)(w * pow(10, level_db / 20) * cimag(a));
            }
        }
    }
}

/* The frequency is found, the same as on the CPU, and execute and evaluate look there. */
static void tones_of(double alpha, bool correct) {
    enum { B = 40, L = 30, MORE = 9, BINS = 9 };
    twins t;
    sonar_mvdr_spec spec = mvdr_fixture_spec(B, DIRECTIONS, alpha > 0 ? 0 : L);
    spec.alpha = alpha, spec.max_new = L, spec.bins = BINS;
    spec.loading = SONAR_LOADING_NOISE, spec.eps = 1, spec.correct_level = correct;
    spec.tones = hann_tones();
    open_twins(&t, &spec);
    sonar_c32 *x = mvdr_record(&t.cpu, L + MORE, (mvdr_wave[]){{120, 10}}, 1, 3);
    add_tone(&t.cpu, 4.37, 33, 30, L + MORE, x);
    x[(5 * BINS + 4) * B + 3].re = NAN;
    t.cpu.used[0] = t.cpu.used[7] = 0;
    mvdr_fixture_renew(&t.cpu);
    for (int step = 0; step < 3; step++) {
        run_both(&t, step == 0 ? L : step == 1 ? MORE : 0, x + (step ? L * BINS * B : 0));
        expect_same_info(&t, "tones");
        double offset = (double)gpu_info(&t, 4, SONAR_MVDR_OFFSET);
        expect(fabs(offset - 0.37) < 0.02, "offset %g", offset);
        double away = difference_db(&t);
        expect(away <= 0.05, "tones: %g dB off the CPU", away);
        worst_difference = fmax(worst_difference, away);
    }
    sonar_error err;
    float here[DIRECTIONS];
    sonar_work work = work_of(&t);
    sonar_buffer turns = device_buffer(SONAR_U64, 2, (size_t[]){DIRECTIONS, B});
    sonar_buffer power = device_buffer(SONAR_F32, 1, (size_t[]){DIRECTIONS});
    send(&t, t.cpu.turns, &turns);
    must(ops->evaluate(t.stage, t.queue, &turns, &power, &work, &err), &err);
    fetch(&t, &power, here);
    for (size_t i = 0; i < DIRECTIONS; i++)
        expect(fabs(10 * log10((double)here[i] / (double)t.azimuth[i])) < 1e-3,
               "direction %zu: %g by evaluate, %g by execute", i, (double)here[i],
               (double)t.azimuth[i]);
    backend->buffer_destroy(&turns);
    backend->buffer_destroy(&power);
    free(x);
    close_twins(&t);
}

static void tones(void) {
    for (int correct = 0; correct < 2; correct++) {
        tones_of(0, correct);
        tones_of(0.95, correct);
    }
}

/* Levels corrected for few snapshots and loading, as the CPU does it. */
static void corrected_levels(void) {
    static const size_t lengths[] = {6, 24, 60};
    static const double eps[] = {1e-2, 1, 1e6};
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 3; j++)
            for (int backward = 0; backward < 2; backward++) {
                twins t;
                sonar_mvdr_spec spec = mvdr_fixture_spec(24, DIRECTIONS, lengths[i]);
                spec.loading = SONAR_LOADING_NOISE, spec.eps = eps[j];
                spec.correct_level = true, spec.forward_backward = backward;
                open_twins(&t, &spec);
                sonar_c32 *x = mvdr_record(&t.cpu, lengths[i], (mvdr_wave[]){{70, 30}}, 1, 3 + i);
                run_both(&t, lengths[i], x);
                expect_same_info(&t, "corrected");
                double away = difference_db(&t);
                expect(away <= 0.05, "L %zu, eps %g: %g dB off the CPU", lengths[i], eps[j], away);
                free(x);
                close_twins(&t);
            }
}

/* ---- forgetting ------------------------------------------------------------------------------ */

static void forget(size_t sensors, double alpha, double level_db, size_t step, double limit_db) {
    enum { UPDATES = 50 };
    double weight[4 * UPDATES];
    twins t;
    sonar_mvdr_spec spec = mvdr_fixture_spec(sensors, DIRECTIONS, 0);
    spec.alpha = alpha;
    spec.max_new = step;
    spec.loading = SONAR_LOADING_NOISE;
    spec.eps = 1;
    open_twins(&t, &spec);
    mvdr_wave waves[] = {{50.5, level_db}, {81, level_db - 10}, {120, level_db - 20}};
    sonar_c32 *x = mvdr_record(&t.cpu, UPDATES * step, waves, 3, sensors);
    for (size_t update = 0; update < UPDATES; update++) {
        size_t seen = (update + 1) * step;
        run_both(&t, step, x + update * step * sensors);
        expect_same_info(&t, "forgetting");
        if (update % 7 && update + 1 < UPDATES)
            continue;
        double faded = pow(alpha, (double)seen);
        mvdr_oracle_fading(alpha, seen, weight);
        cplx *r = mvdr_fixture_covariance(&t.cpu, 0, seen, x, weight);
        double error =
            gpu_error_db(&t, 0, r, (1 + alpha) / (1 - alpha) * (1 - faded) / (1 + faded));
        expect(error <= limit_db, "B %zu, alpha %g, %g dB, after %zu: %g dB off", sensors, alpha,
               level_db, seen, error);
        worst_error = fmax(worst_error, error);
        free(r);
    }
    free(x);
    close_twins(&t);
}

static void forgetting(void) {
    forget(8, 0.97, 60, 1, 0.05);
    forget(5, 0.5, 40, 4, 0.05);
    forget(31, 0.9, 60, 2, 0.05);
    if (quick)
        return;
    forget(64, 0.97, 60, 1, 0.05);
    forget(64, 0.9, 60, 2, 0.05); /* long enough to drop faded columns */
    forget(64, 0.75, 60, 4, 0.05);
    forget(64, 0.4, 60, 4, 0.05); /* fewer columns than sensors are ever kept */
    forget(32, 0.97, 80, 1, 0.1);
    forget(64, 0.95, 80, 1, 0.1);
}

/* ---- masks and mirrors ----------------------------------------------------------------------- */

static void masks(void) {
    twins t;
    sonar_mvdr_spec spec = mvdr_fixture_spec(24, DIRECTIONS, 40);
    spec.loading = SONAR_LOADING_NOISE;
    spec.eps = 1;
    open_twins(&t, &spec);
    sonar_c32 *x = mvdr_record(&t.cpu, 40, (mvdr_wave[]){{70, 50}}, 1, 11);
    run_both(&t, 40, x);
    for (uint64_t trial = 0, seed = 5; trial < 8; trial++) {
        for (size_t k = 0; k < 24; k++)
            t.cpu.used[k] = trial == 7 || test_uniform(&seed) < 0.7;
        mvdr_fixture_renew(&t.cpu);
        run_both(&t, 0, NULL);
        cplx *r = mvdr_fixture_covariance(&t.cpu, 0, 40, x, NULL);
        double error = gpu_error_db(&t, 0, r, 40);
        expect(error <= 0.05, "trial %d: %g dB off", (int)trial, error);
        expect_same_info(&t, "masks");
        free(r);
    }
    memset(t.cpu.used, 0, sizeof t.cpu.used);
    mvdr_fixture_renew(&t.cpu);
    run_both(&t, 0, NULL);
    for (size_t d = 0; d < DIRECTIONS; d++)
        expect(t.azimuth[d] == 0, "all masked, yet %g", (double)t.azimuth[d]);
    free(x);
    close_twins(&t);
}

/* Sensors leave and come back while their past is carried on. */
static void mask_while_forgetting(void) {
    enum { COUNT = 60 };
    double weight[COUNT];
    twins t;
    sonar_mvdr_spec spec = mvdr_fixture_spec(20, DIRECTIONS, 0);
    spec.alpha = 0.95;
    open_twins(&t, &spec);
    sonar_c32 *x = mvdr_record(&t.cpu, COUNT, (mvdr_wave[]){{70, 40}}, 1, 17);
    for (size_t s = 0; s < COUNT; s++) {
        if (s == 30) {
            t.cpu.used[0] = t.cpu.used[7] = t.cpu.used[8] = 0;
            mvdr_fixture_renew(&t.cpu);
        }
        run_both(&t, 1, x + s * 20);
    }
    mvdr_oracle_fading(0.95, COUNT, weight);
    cplx *r = mvdr_fixture_covariance(&t.cpu, 0, COUNT, x, weight);
    double faded = pow(0.95, COUNT), error = gpu_error_db(&t, 0, r, 39 * (1 - faded) / (1 + faded));
    expect(error <= 0.05, "%g dB off", error);
    t.cpu.used[7] = 1;
    mvdr_fixture_renew(&t.cpu);
    run_both(&t, 1, x);
    expect(difference_db(&t) <= 0.05, "a sensor back: %g dB off the CPU", difference_db(&t));
    free(r);
    free(x);
    close_twins(&t);
}

static void backward(size_t sensors, size_t l, double alpha, size_t masked) {
    double weight[64];
    twins t;
    sonar_mvdr_spec spec = mvdr_fixture_spec(sensors, DIRECTIONS, alpha > 0 ? 0 : l);
    spec.forward_backward = true;
    spec.alpha = alpha;
    spec.max_new = l;
    spec.eps = 1e-3;
    open_twins(&t, &spec);
    sonar_c32 *x = mvdr_record(&t.cpu, l, (mvdr_wave[]){{60, 40}, {100, 20}}, 2, 23);
    for (size_t i = 0; i < masked; i++)
        t.cpu.used[1 + 3 * i] = 0;
    mvdr_fixture_renew(&t.cpu);
    run_both(&t, l, x);
    expect_same_info(&t, "forward-backward");
    for (size_t i = 0; i < masked; i++) { /* the oracle's mask: mirrors are dropped too */
        size_t mirror = sensors - 2 - 3 * i;
        t.cpu.params.sensors_used -= t.cpu.used[mirror];
        t.cpu.used[mirror] = 0;
    }
    double faded = pow(alpha, (double)l);
    double looks = alpha > 0 ? (1 + alpha) / (1 - alpha) * (1 - faded) / (1 + faded) : (double)l;
    mvdr_oracle_fading(alpha > 0 ? alpha : 0.5, l, weight);
    cplx *r = mvdr_fixture_covariance(&t.cpu, 0, l, x, alpha > 0 ? weight : NULL);
    mvdr_oracle_average_backward(t.cpu.params.sensors_used, r);
    double error = gpu_error_db(&t, 0, r, 2 * looks);
    expect(error <= 0.05, "B %zu, L %zu, alpha %g, %zu masked: %g dB off", sensors, l, alpha,
           masked, error);
    free(r);
    free(x);
    close_twins(&t);
}

static void forward_backward(void) {
    backward(16, 5, 0, 0);
    backward(17, 9, 0, 0);
    backward(16, 40, 0, 0);
    backward(32, 12, 0, 3);
    backward(31, 30, 0, 3);
    backward(12, 40, 0.9, 0);
    backward(13, 30, 0.8, 2);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void bad_value(double alpha, float bad) {
    enum { B = 9, L = 20, BINS = 3 };
    twins t;
    sonar_mvdr_spec spec = mvdr_fixture_spec(B, 30, alpha > 0 ? 0 : L);
    spec.alpha = alpha;
    spec.max_new = L;
    spec.bins = BINS;
    open_twins(&t, &spec);
    sonar_c32 *x = mvdr_record(&t.cpu, L, (mvdr_wave[]){{70, 20}}, 1, 4);
    x[7 * B * BINS + B + 4].im = bad;
    run_both(&t, L, x);
    expect_same_info(&t, "a bad value");
    expect(alpha > 0 || gpu_info(&t, 1, SONAR_MVDR_SNAPSHOTS) == L - 1, "the bad one counted");
    expect(difference_db(&t) <= 0.01, "%g in a snapshot: %g dB off the CPU", (double)bad,
           difference_db(&t));
    for (size_t d = 0; d < 30; d++)
        expect(isfinite(t.azimuth[d]) && t.azimuth[d] > 0, "azimuth %g", (double)t.azimuth[d]);
    free(x);
    close_twins(&t);
}

static void non_finite(void) {
    bad_value(0, NAN);
    bad_value(0, INFINITY);
    bad_value(0.9, NAN);
    bad_value(0.9, -INFINITY);
}

static void silence(const twins *t, const char *what) {
    for (size_t i = 0; i < t->cpu.spec.directions * t->cpu.spec.bins; i++)
        expect(t->spectrum[i] == 0 && t->azimuth[i % t->cpu.spec.directions] == 0, "%s: P %g", what,
               (double)t->spectrum[i]);
    expect_same_info(t, what);
}

static void nothing_and_zeros(void) {
    for (int kind = 0; kind < 2; kind++) {
        enum { B = 6, L = 10 };
        twins t;
        sonar_mvdr_spec spec = mvdr_fixture_spec(B, 30, kind ? 0 : L);
        spec.alpha = kind ? 0.8 : 0;
        spec.max_new = L;
        open_twins(&t, &spec);
        sonar_c32 zeros[B * L] = {0}, *x = mvdr_record(&t.cpu, L, NULL, 0, 4);
        run_both(&t, 0, NULL);
        silence(&t, "nothing yet");
        run_both(&t, L, zeros);
        silence(&t, "zeros");
        run_both(&t, L, x);
        expect(difference_db(&t) <= 0.01, "after silence: %g dB off the CPU", difference_db(&t));
        free(x);
        close_twins(&t);
    }
}

static void not_converged(void) {
    twins t;
    sonar_mvdr_spec spec = mvdr_fixture_spec(24, 30, 60);
    spec.max_sweeps = 1;
    open_twins(&t, &spec);
    sonar_c32 *x = mvdr_record(&t.cpu, 60, (mvdr_wave[]){{70, 20}}, 1, 4);
    run_both(&t, 60, x);
    expect(gpu_flags(&t, 0) & SONAR_MVDR_FLAG_NOT_CONVERGED, "not flagged");
    expect(gpu_info(&t, 0, SONAR_MVDR_SWEEPS) == 1, "sweeps");
    expect(gpu_info(&t, 0, SONAR_MVDR_RESIDUAL) > 1e-6f, "residual");
    free(x);
    close_twins(&t);
}

/* Levels far from 1, and beyond float32: powers saturate and stay numbers. */
static void extreme_levels(void) {
    for (int exponent = -18; exponent <= 38; exponent += 28)
        for (size_t l = 6; l < 40; l += 30) {
            twins t;
            sonar_mvdr_spec spec = mvdr_fixture_spec(12, 30, l);
            open_twins(&t, &spec);
            sonar_c32 *x = mvdr_record(&t.cpu, l, NULL, 0, 4);
            for (size_t i = 0; i < 12 * l; i++) {
                x[i].re = fmaxf(-1, fminf(1, x[i].re)) * (float)pow(10, exponent);
                x[i].im = fmaxf(-1, fminf(1, x[i].im)) * (float)pow(10, exponent);
            }
            run_both(&t, l, x);
            expect(difference_db(&t) <= 0.01, "1e%d: %g dB off the CPU", exponent,
                   difference_db(&t));
            expect(isfinite(t.azimuth[3]) && isfinite(gpu_info(&t, 0, SONAR_MVDR_DELTA)), "1e%d",
                   exponent);
            free(x);
            close_twins(&t);
        }
}

static void reset_forgets(void) {
    for (int forgetful = 0; forgetful < 2; forgetful++) {
        enum { B = 11, T = 30 };
        twins t;
        float first[T];
        sonar_mvdr_spec spec = mvdr_fixture_spec(B, T, forgetful ? 0 : 15);
        spec.alpha = forgetful ? 0.9 : 0;
        spec.max_new = 8;
        open_twins(&t, &spec);
        sonar_c32 *x = mvdr_record(&t.cpu, 24, (mvdr_wave[]){{70, 20}}, 1, 4);
        run_gpu(&t, 8, x);
        memcpy(first, t.spectrum, sizeof first);
        run_gpu(&t, 8, x + 8 * B);
        run_gpu(&t, 3, x + 16 * B);
        expect(memcmp(first, t.spectrum, sizeof first), "more snapshots changed nothing");
        ops->reset(t.stage);
        run_gpu(&t, 8, x);
        expect(!memcmp(first, t.spectrum, sizeof first), "something was remembered");
        free(x);
        close_twins(&t);
    }
}

/* ---- the same bits, wherever it is looked from ------------------------------------------------
 */

enum { S_SENSORS = 21, S_BINS = 7, S_T = 50, S_L = 18 };

static void once(double alpha, float *spectrum, float *azimuth) {
    twins t;
    sonar_mvdr_spec spec = mvdr_fixture_spec(S_SENSORS, S_T, alpha > 0 ? 0 : S_L);
    spec.alpha = alpha;
    spec.bins = S_BINS;
    spec.max_new = S_L;
    open_twins(&t, &spec);
    sonar_c32 *x = mvdr_record(&t.cpu, 2 * S_L, (mvdr_wave[]){{70, 60}}, 1, 4);
    run_gpu(&t, S_L, x);
    run_gpu(&t, 5, x + S_L * S_BINS * S_SENSORS);
    memcpy(spectrum, t.spectrum, S_BINS * S_T * sizeof *spectrum);
    memcpy(azimuth, t.azimuth, S_T * sizeof *azimuth);
    free(x);
    close_twins(&t);
}

static void same_bits(void) {
    for (int forgetful = 0; forgetful < 2; forgetful++) {
        float spectrum[2][S_BINS * S_T], azimuth[2][S_T];
        for (int i = 0; i < 2; i++)
            once(forgetful ? 0.9 : 0, spectrum[i], azimuth[i]);
        expect(!memcmp(spectrum[0], spectrum[1], sizeof spectrum[0]), "spectra differ");
        expect(!memcmp(azimuth[0], azimuth[1], sizeof azimuth[0]), "azimuth spectra differ");
    }
}

/* A table edited by hand may ask for numbers of threads that there are not: as if untrained. */
static void unknown_threads(void) {
    static const struct way unknown = {"unknown", "96", "many"};
    const struct way *before = way;
    float spectrum[2][S_BINS * S_T], azimuth[2][S_T];
    for (int i = 0; i < 2; i++) {
        way = i ? &unknown : &WAYS[0];
        once(0, spectrum[i], azimuth[i]);
    }
    way = before;
    expect(!memcmp(spectrum[0], spectrum[1], sizeof spectrum[0]), "spectra differ");
    expect(!memcmp(azimuth[0], azimuth[1], sizeof azimuth[0]), "azimuth spectra differ");
}

/* Points on the grid read what execute said, in any order, more of them than directions; broadband
 * is (fs/N) sum_b P. */
static void evaluate(void) {
    enum { T = 23, B = 19, POINTS = 2 * T + 5 };
    twins t;
    float power[POINTS];
    static uint64_t at[POINTS][B];
    sonar_error err;
    sonar_mvdr_spec spec = mvdr_fixture_spec(B, T, 30);
    spec.bins = 5;
    open_twins(&t, &spec);
    t.cpu.used[4] = 0;
    mvdr_fixture_renew(&t.cpu);
    sonar_c32 *x = mvdr_record(&t.cpu, 30, (mvdr_wave[]){{60, 60}}, 1, 31);
    run_both(&t, 30, x);
    for (size_t i = 0; i < POINTS; i++)
        memcpy(at[i], t.cpu.turns + (i * 7 % T) * B, sizeof at[i]);
    sonar_buffer turns = device_buffer(SONAR_U64, 2, (size_t[]){POINTS, B});
    sonar_buffer out = device_buffer(SONAR_F32, 1, (size_t[]){POINTS});
    sonar_work work = work_of(&t);
    send(&t, at, &turns);
    must(ops->evaluate(t.stage, t.queue, &turns, &out, &work, &err), &err);
    fetch(&t, &out, power);
    for (size_t i = 0; i < POINTS; i++)
        expect(power[i] == t.azimuth[i * 7 % T], "point %zu: %g, azimuth %g", i, (double)power[i],
               (double)t.azimuth[i * 7 % T]);
    for (size_t d = 0; d < T; d++) {
        double sum = 0;
        for (size_t bin = 0; bin < 5; bin++)
            sum += (double)t.spectrum[bin * T + d] * 5; /* fs/N = 5 Hz */
        expect(fabs((double)t.azimuth[d] - sum) <= 1e-6 * sum, "broadband at %zu", d);
    }
    expect(difference_db(&t) <= 0.05, "%g dB off the CPU", difference_db(&t));
    ops->reset(t.stage);
    must(ops->evaluate(t.stage, t.queue, &turns, &out, &work, &err), &err);
    fetch(&t, &out, power);
    expect(power[3] == 0, "after a reset there is nothing to look at");
    backend->buffer_destroy(&turns);
    backend->buffer_destroy(&out);
    free(x);
    close_twins(&t);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refusals(void) {
    sonar_mvdr_spec spec = mvdr_fixture_spec(4, 5, 6);
    sonar_error err = {0};
    twins t;
    void *stage = &spec;
    spec.method = SONAR_MVDR_TWO_SIDED;
    expect(ops->create(&spec, &host, &stage, &err) == SONAR_EUNAVAILABLE && !stage &&
               strstr(err.text, "two_sided"),
           "two_sided: %s", err.text);
    spec.method = SONAR_MVDR_ONE_SIDED;
    spec.eps = -1;
    expect(ops->create(&spec, &host, &stage, &err) == SONAR_EINVAL, "eps -1 was accepted");
    spec.eps = 1;
    ops->destroy(NULL);
    open_twins(&t, &spec);
    sonar_work work = work_of(&t);
    sonar_buffer bad = t.in;
    bad.space = SONAR_HOST;
    expect(ops->execute(t.stage, t.queue, &bad, t.out, &work, &err) == SONAR_EINVAL,
           "an input in host memory was accepted");
    bad = t.in;
    bad.shape[2] = 3;
    expect(ops->execute(t.stage, t.queue, &bad, t.out, &work, &err) == SONAR_EINVAL,
           "an input of three sensors was accepted");
    t.cpu.params.far_mvdr.bin_width_hz *= 2;
    t.cpu.params.version++;
    expect(ops->execute(t.stage, t.queue, &t.in, t.out, &work, &err) == SONAR_EINVAL,
           "turns of another bin width were accepted");
    close_twins(&t);
}

/* Each CUDA call of create and of a first execute fails once: an error with a place, no crash. */
static void injected_failures(void) {
    sonar_mvdr_spec spec = mvdr_fixture_spec(4, 5, 6);
    sonar_host failing = host;
    sonar_backend_choice again;
    sonar_error err = {0};
    twins t;
    size_t failed = 0;
    spec.alpha = 0.5;
    spec.snapshots = 0;
    open_twins(&t, &spec);
    for (failing.fail_at = 4; failing.fail_at < 200; failing.fail_at++) {
        void *stage = NULL;
        sonar_work work = work_of(&t);
        if (sonar_backend_open("cuda", plugin_dir, &failing, &again, &err))
            continue;
        sonar_backend_close(&again);
        err = (sonar_error){0};
        sonar_code code = ops->create(&spec, &host, &stage, &err);
        expect(!code == !!stage, "create: code %d, stage %p", (int)code, stage);
        if (!code)
            code = ops->execute(stage, t.queue, &t.in, t.out, &work, &err);
        ops->destroy(stage);
        expect(!code == !err.text[0], "code %d, \"%s\"", (int)code, err.text);
        if (!code)
            break;
        failed++;
    }
    expect(failed > 20 && failing.fail_at < 200, "%zu calls failed", failed);
    must(sonar_backend_open("cuda", plugin_dir, &host, &again, &err), &err);
    sonar_backend_close(&again);
    close_twins(&t);
}

/* ---- timing ---------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { T_BINS = 100, T_ANGLES = 180, T_STEP = 64, T_RUNS = 7 };

typedef struct bench {
    sonar_mvdr_spec spec;
    sonar_params params;
    twins t; /* queue, event and buffers only */
    sonar_c32 *x;
} bench;

/* A line of half wavelengths at the band's top, one loud source, unit noise. */
static void open_bench(bench *b, size_t sensors, size_t snapshots) {
    sonar_error err;
    memset(b, 0, sizeof *b);
    b->spec = (sonar_mvdr_spec){.sensors = sensors,
                                .directions = T_ANGLES,
                                .fs_hz = 8000,
                                .length = 8192,
                                .first_bin = 327,
                                .bins = T_BINS,
                                .max_new = T_STEP,
                                .snapshots = snapshots,
                                .loading = SONAR_LOADING_NOISE,
                                .eps = 1,
                                .tolerance = 3e-7,
                                .max_sweeps = 30};
    uint64_t *turns = alloc(sensors * T_ANGLES, sizeof *turns);
    uint8_t *used = alloc(sensors, 1);
    double *position = alloc(3 * sensors, sizeof *position);
    for (size_t k = 0; k < sensors; k++) {
        used[k] = 1;
        position[3 * k] = 1.5 * ((double)k - (double)(sensors - 1) / 2);
        for (size_t a = 0; a < T_ANGLES; a++) {
            double bin_turns = position[3 * k] * cos(((double)a + 0.5) * M_PI / T_ANGLES) / 1500 *
                               b->spec.fs_hz / (double)b->spec.length;
            turns[a * sensors + k] = (uint64_t)(int64_t)llrint(remainder(bin_turns, 1) * 0x1p62)
                                     << 2;
        }
    }
    b->params = (sonar_params){
        .version = 1,
        .sensors = sensors,
        .sensors_used = sensors,
        .position_m = position,
        .used = used,
        .far_mvdr = {1, T_ANGLES, sensors, b->spec.fs_hz / (double)b->spec.length, turns}};
    must(backend->queue_create(backend, &b->t.queue, &err), &err);
    must(backend->event_create(backend, &b->t.event, &err), &err);
    b->t.in = device_buffer(SONAR_C32, 3, (size_t[]){T_STEP, T_BINS, sensors});
    b->t.out[0] = device_buffer(SONAR_F32, 1, (size_t[]){T_ANGLES});
    b->t.out[1] = device_buffer(SONAR_F32, 2, (size_t[]){T_BINS, T_ANGLES});
    b->t.out[2] = device_buffer(SONAR_F32, 2, (size_t[]){T_BINS, (size_t)SONAR_MVDR_INFO_FIELDS});
    must(ops->create(&b->spec, &host, &b->t.stage, &err), &err);
    b->x = alloc(T_STEP * T_BINS * sensors, sizeof *b->x);
}

static void close_bench(bench *b) {
    ops->destroy(b->t.stage);
    backend->buffer_destroy(&b->t.in);
    for (int i = 0; i < SONAR_MVDR_OUTPUTS; i++)
        backend->buffer_destroy(&b->t.out[i]);
    backend->event_destroy(b->t.event);
    backend->queue_destroy(b->t.queue);
    const void *owned[] = {b->params.used, b->params.position_m, b->params.far_mvdr.turns};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        void *memory;
        memcpy(&memory, &owned[i], sizeof memory);
        free(memory);
    }
    free(b->x);
}

/* T_STEP snapshots of unit noise and a source 52 dB above it. */
static void next_input(bench *b, uint64_t *seed) {
    size_t sensors = b->spec.sensors;
    const uint64_t *turns = b->params.far_mvdr.turns + 60 * sensors;
    for (size_t s = 0; s < T_STEP * T_BINS; s++) {
        cplx loud = 400 * test_gauss(seed);
        uint64_t bin = b->spec.first_bin + s % T_BINS;
        for (size_t k = 0; k < sensors; k++) {
            cplx a = loud * cexp(2 * M_PI * I * (double)(bin * turns[k]) * 0x1p-64);
            b->x[s * sensors + k] =
                (sonar_c32){(float)(creal(a) + 2.4 * (test_uniform(seed) - 0.5)),
                            (float)(cimag(a) + 2.4 * (test_uniform(seed) - 0.5))};
        }
    }
    send(&b->t, b->x, &b->t.in);
}

static double step_ms(bench *b, size_t first, size_t count) {
    sonar_error err;
    sonar_work work = {.params = &b->params, .outputs = SONAR_WANT(SONAR_MVDR_SPECTRUM)};
    sonar_buffer in = b->t.in;
    in.data = (sonar_c32 *)in.data + first * T_BINS * b->spec.sensors;
    in.shape[0] = count;
    int64_t start = sonar_monotonic_ns();
    must(ops->execute(b->t.stage, b->t.queue, &in, b->t.out, &work, &err), &err);
    must(backend->record(b->t.queue, b->t.event, &err), &err);
    must(backend->finish(b->t.event, &err), &err);
    return (double)(sonar_monotonic_ns() - start) * 1e-6;
}

static void time_one(size_t sensors, size_t snapshots) {
    bench b;
    double ms[T_RUNS];
    float info[T_BINS * SONAR_MVDR_INFO_FIELDS], sweeps = 0, flags = 0;
    uint64_t seed = 5;
    open_bench(&b, sensors, snapshots);
    for (size_t done = 0; done < snapshots; done += T_STEP) {
        next_input(&b, &seed);
        step_ms(&b, 0, T_STEP);
    }
    next_input(&b, &seed);
    for (size_t i = 0; i < T_RUNS; i++)
        ms[i] = step_ms(&b, i, 1);
    qsort(ms, T_RUNS, sizeof *ms, ascending);
    fetch(&b.t, &b.t.out[SONAR_MVDR_OUT_INFO], info);
    for (size_t bin = 0; bin < T_BINS; bin++) {
        sweeps = fmaxf(sweeps, info[bin * SONAR_MVDR_INFO_FIELDS + SONAR_MVDR_SWEEPS]);
        flags = fmaxf(flags, info[bin * SONAR_MVDR_INFO_FIELDS + SONAR_MVDR_FLAGS]);
    }
    printf("B %5zu  L %5zu  %8.3f ms  (%.3f .. %.3f)  at most %g sweeps, flags %g\n", sensors,
           snapshots, ms[T_RUNS / 2], ms[0], ms[T_RUNS - 1], (double)sweeps, (double)flags);
    fflush(stdout);
    close_bench(&b);
}

static void time_all(void) {
    static const size_t block_of_64[] = {64, 128, 256, 512, 1024, 2048}, full[] = {64, 128, 256};
    printf("%d bins, %d angles, one new snapshot an update, medians of %d\n", T_BINS, T_ANGLES,
           T_RUNS);
    for (size_t i = 0; i < sizeof block_of_64 / sizeof *block_of_64; i++)
        time_one(block_of_64[i], 64);
    for (size_t i = 0; i < sizeof full / sizeof *full; i++)
        time_one(full[i], 2 * full[i]);
}

/* ---- main ------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    void (*run)(void);
} groups[] = {{"quiet", quiet},
              {"loud_40_db", loud_40_db},
              {"loud_60_db", loud_60_db},
              {"loud_80_db", loud_80_db},
              {"random_sizes", random_sizes},
              {"beyond_shared_memory", beyond_shared_memory},
              {"pointing", pointing},
              {"nearly_square", nearly_square},
              {"loading_rules", loading_rules},
              {"sliding", sliding},
              {"forgetting", forgetting},
              {"tones", tones},
              {"corrected_levels", corrected_levels},
              {"masks", masks},
              {"mask_while_forgetting", mask_while_forgetting},
              {"forward_backward", forward_backward},
              {"non_finite", non_finite},
              {"nothing_and_zeros", nothing_and_zeros},
              {"not_converged", not_converged},
              {"extreme_levels", extreme_levels},
              {"reset_forgets", reset_forgets},
              {"same_bits", same_bits},
              {"unknown_threads", unknown_threads},
              {"evaluate", evaluate},
              {"refusals", refusals},
              {"injected_failures", injected_failures}};

static void run_groups(const char *wanted) {
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        if (wanted && !strstr(groups[i].name, wanted))
            continue;
        size_t before = failures;
        int64_t start = sonar_monotonic_ns();
        group = groups[i].name;
        worst_error = worst_difference = 0;
        groups[i].run();
        printf("%-22s %s  worst %.2e dB off the oracle, %.2e off the CPU, %.1f s\n", group,
               failures == before ? "passed" : "FAILED", worst_error, worst_difference,
               (double)(sonar_monotonic_ns() - start) * 1e-9);
        fflush(stdout);
    }
    printf("%zu checks, %zu failed\n", checks, failures);
}

int main(int argc, char **argv) {
    const char *dir = SONAR_BIN_DIR "/../lib", *wanted = NULL;
    bool timing = false;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--quick"))
            quick = true;
        else if (!strcmp(argv[i], "--time"))
            timing = true;
        else if (!strcmp(argv[i], "--plugin-dir") && i + 1 < argc)
            dir = argv[++i];
        else
            wanted = argv[i];
    sonar_backend_choice choice;
    sonar_error err;
    plugin_dir = dir;
    host = *sonar_host_serial();
    group = "start";
    if (sonar_backend_open("cuda", dir, &host, &choice, &err)) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    backend = choice.backend;
    ops = backend->stage("mvdr_jacobi");
    printf("%s\n", choice.description);
    if (!ops) {
        printf("FAILED: the plugin has no stage mvdr_jacobi\n");
        return 1;
    }
    host.choice = choose;
    for (size_t i = 0; i < WAY_COUNT; i++) {
        way = &WAYS[i];
        printf("-- %s\n", way->name);
        if (timing)
            time_all();
        else
            run_groups(wanted);
    }
    return failures > 0;
}
