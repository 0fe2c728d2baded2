/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The trials of --train: every stage of every usable backend on noise of the configured shape,
 * samples and surfaces carried to and from the host as when running. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/core.h"
#include "core/random.h"
#include "detect/detect.h"
#include "train/choices.h"
#include "pipeline/pipeline.h"

enum { NOISE_SETS = 64 };

static const size_t NOISE_BYTES = (size_t)256 << 20; /* of snapshots for the MVDR, at most */

/* A rank below the block's length would make the MVDR's iteration look too easy, hence several sets
 * of snapshots that are taken in turn. */
typedef struct bench {
    const sonar_config *config;
    const sonar_specs *specs;
    const sonar_params *params;
    const sonar_backend *backend;
    const sonar_host *host;
    char description[192];
    sonar_error why; /* code set: this backend cannot be used */
    sonar_queue *queue;
    sonar_event *event;
    sonar_buffer samples; /* f32 or s16, as the ring holds them: [channel][length] in host memory */
    sonar_buffer there;   /* the same on a device; no data where the host's are read in place */
    sonar_buffer bins;    /* of the main DFT */
    sonar_buffer mvdr_bins;
    sonar_buffer noise; /* c32 [set * max_new][bin][sensor] */
    size_t sets, set;
    sonar_buffer cbf[SONAR_CBF_OUTPUTS], mvdr[SONAR_MVDR_OUTPUTS];
    sonar_buffer host_cbf[SONAR_CBF_OUTPUTS], host_mvdr[SONAR_MVDR_OUTPUTS];
} bench;

/* One way to do one stage on one backend. */
typedef struct contender {
    bench *bench;
    const sonar_buffer *samples; /* the DFT's: the bench's, or those under trial */
    sonar_error why;             /* code set: it could not be made */
    const sonar_stage_ops *ops;
    void *stage, *second; /* second: the MVDR's DFT */
} contender;

/* Everything of one training. */
typedef struct training {
    const sonar_config *config;
    const sonar_specs *specs;
    const sonar_host *outer;
    sonar_host host; /* its ctx is this training */
    const sonar_train_clock *clock;
    sonar_params *params;
    sonar_train_table *table;
    const char *asked, *answer; /* a decision under trial, and the candidate */
    sonar_backend_choice opened;
    size_t benches;
    bench bench[SONAR_TRAIN_SIDES]; /* in this order: the CPU, the device */
} training;

/* ---- the host -------------------------------------------------------------------------------- */

static void host_log(void *ctx, sonar_level level, const char *where, const char *text) {
    const sonar_host *outer = ((const training *)ctx)->outer;
    outer->log(outer->ctx, level, where, text);
}

static void host_parallel(void *ctx, size_t tasks, void (*task)(void *, size_t, size_t),
                          void *arg) {
    const sonar_host *outer = ((const training *)ctx)->outer;
    outer->parallel(outer->ctx, tasks, task, arg);
}

/* Stages under trial already use what was found out before. */
static const char *host_choice(void *ctx, const char *decision) {
    const training *t = ctx;
    if (t->asked && !strcmp(decision, t->asked))
        return t->answer;
    return sonar_train_chosen(t->table, decision);
}

/* ---- buffers --------------------------------------------------------------------------------- */

static sonar_code make(const bench *b, sonar_space space, sonar_dtype dtype, size_t i, size_t j,
                       size_t k, sonar_buffer *buffer, sonar_error *err) {
    size_t shape[3] = {i, j, k};
    return b->backend->buffer_create(b->backend, space, dtype,
                                     k   ? 3
                                     : j ? 2
                                         : 1,
                                     shape, buffer, err);
}

/* A surface on the backend and where it is copied to. */
static sonar_code make_pair(const bench *b, size_t i, size_t j, sonar_buffer *own,
                            sonar_buffer *host, sonar_error *err) {
    sonar_code code = make(b, b->backend->native_space, SONAR_F32, i, j, 0, own, err);
    return code ? code : make(b, SONAR_PINNED, SONAR_F32, i, j, 0, host, err);
}

/* Uniform noise in -1..1; each seed makes a stream of its own. */
static void fill_noise(float *values, size_t count, uint64_t seed) {
    uint64_t state = sonar_random_mix(seed);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)sonar_random_symmetric(&state);
}

static sonar_code settle(const bench *b, sonar_error *err) {
    sonar_code code = b->backend->record(b->queue, b->event, err);
    return code ? code : b->backend->finish(b->event, err);
}

/* Rows [set * max_new, + max_new) of the noise. */
static sonar_buffer noise_set(const bench *b, size_t set) {
    size_t shape[3] = {b->specs->mvdr.max_new, b->specs->mvdr.bins, b->specs->mvdr.sensors};
    size_t each = shape[0] * shape[1] * shape[2];
    sonar_buffer view =
        sonar_buffer_view((sonar_c32 *)b->noise.data + set * each, SONAR_C32, 3, shape);
    view.space = b->noise.space;
    return view;
}

static sonar_code make_noise(bench *b, sonar_error *err) {
    const sonar_mvdr_spec *spec = &b->specs->mvdr;
    size_t bytes = spec->max_new * spec->bins * spec->sensors * sizeof(sonar_c32);
    size_t wanted = (spec->snapshots ? spec->snapshots : spec->sensors) / spec->max_new + 1;
    b->sets =
        sonar_min_size(sonar_min_size(wanted, NOISE_SETS), sonar_max_size(NOISE_BYTES / bytes, 1));
    sonar_buffer host = {0};
    sonar_code code = make(b, b->backend->native_space, SONAR_C32, b->sets * spec->max_new,
                           spec->bins, spec->sensors, &b->noise, err);
    if (!code)
        code =
            make(b, SONAR_PINNED, SONAR_C32, spec->max_new, spec->bins, spec->sensors, &host, err);
    for (size_t set = 0; set < b->sets && !code; set++) {
        sonar_buffer to = noise_set(b, set);
        fill_noise(host.data, 2 * sonar_buffer_count(&host), set + 1);
        code = b->backend->copy(b->queue, &host, &to, err);
        if (!code)
            code = settle(b, err);
    }
    if (host.data)
        b->backend->buffer_destroy(&host);
    return code;
}

static sonar_code make_mvdr_buffers(bench *b, sonar_error *err) {
    const sonar_mvdr_spec *spec = &b->specs->mvdr;
    sonar_code code = SONAR_OK;
    if (b->specs->own_mvdr_dft)
        code = make(b, b->backend->native_space, SONAR_C32, spec->max_new, spec->bins,
                    spec->sensors, &b->mvdr_bins, err);
    if (!code)
        code = make_pair(b, spec->directions, 0, &b->mvdr[SONAR_MVDR_OUT_AZIMUTH],
                         &b->host_mvdr[SONAR_MVDR_OUT_AZIMUTH], err);
    if (!code)
        code = make_pair(b, spec->bins, spec->directions, &b->mvdr[SONAR_MVDR_OUT_SPECTRUM],
                         &b->host_mvdr[SONAR_MVDR_OUT_SPECTRUM], err);
    if (!code)
        code = make_pair(b, spec->bins, SONAR_MVDR_INFO_FIELDS, &b->mvdr[SONAR_MVDR_OUT_INFO],
                         &b->host_mvdr[SONAR_MVDR_OUT_INFO], err);
    return code ? code : make_noise(b, err);
}

/* Noise in the ring's own type; the halves of a float's bits are noise enough for s16. */
static void fill_samples(const sonar_buffer *samples) {
    size_t count = sonar_buffer_count(samples);
    if (samples->dtype == SONAR_S16)
        count /= 2;
    fill_noise(samples->data, count, 0);
}

static sonar_code make_samples(const bench *b, sonar_space space, sonar_buffer *samples,
                               sonar_error *err) {
    const sonar_config *c = b->config;
    sonar_code code =
        make(b, space, c->sample_type, c->channels, c->specs.window_length, 0, samples, err);
    if (!code)
        fill_samples(samples);
    return code;
}

static sonar_code make_there(bench *b, sonar_error *err) {
    sonar_code code = make(b, b->backend->native_space, b->samples.dtype, b->samples.shape[0],
                           b->samples.shape[1], 0, &b->there, err);
    return code ? code : b->backend->copy(b->queue, &b->samples, &b->there, err);
}

static sonar_code make_buffers(bench *b, sonar_error *err) {
    const sonar_dft_spec *dft = &b->specs->dft;
    const sonar_cbf_spec *cbf = &b->specs->cbf;
    sonar_code code = make_samples(b, SONAR_PINNED, &b->samples, err);
    if (!code && b->backend->native_space != SONAR_HOST)
        code = make_there(b, err);
    if (!code)
        code = make(b, b->backend->native_space, SONAR_C32, cbf->max_snapshots, dft->bins,
                    dft->sensors, &b->bins, err);
    if (!code)
        code = make_pair(b, cbf->directions, 0, &b->cbf[SONAR_CBF_AZIMUTH],
                         &b->host_cbf[SONAR_CBF_AZIMUTH], err);
    if (!code && cbf->ranges)
        code = make_pair(b, cbf->ranges, cbf->directions, &b->cbf[SONAR_CBF_NEARFIELD],
                         &b->host_cbf[SONAR_CBF_NEARFIELD], err);
    if (!code)
        code = make_pair(b, cbf->bins, cbf->directions, &b->cbf[SONAR_CBF_LOFAR],
                         &b->host_cbf[SONAR_CBF_LOFAR], err);
    return code || !b->config->specs.mvdr_enabled ? code : make_mvdr_buffers(b, err);
}

/* ---- benches --------------------------------------------------------------------------------- */

static void release(const sonar_backend *backend, sonar_buffer *buffers, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (buffers[i].data)
            backend->buffer_destroy(&buffers[i]);
}

static void close_bench(bench *b) {
    if (!b->backend)
        return;
    if (b->queue) /* first: it waits for what may still be at work */
        b->backend->queue_destroy(b->queue);
    if (b->event)
        b->backend->event_destroy(b->event);
    release(b->backend, &b->samples, 1);
    release(b->backend, &b->there, 1);
    release(b->backend, &b->bins, 1);
    release(b->backend, &b->mvdr_bins, 1);
    release(b->backend, &b->noise, 1);
    release(b->backend, b->cbf, SONAR_CBF_OUTPUTS);
    release(b->backend, b->mvdr, SONAR_MVDR_OUTPUTS);
    release(b->backend, b->host_cbf, SONAR_CBF_OUTPUTS);
    release(b->backend, b->host_mvdr, SONAR_MVDR_OUTPUTS);
}

static void open_bench(training *t, const sonar_backend_choice *opened) {
    bench *b = &t->bench[t->benches++];
    *b = (bench){.config = t->config,
                 .specs = t->specs,
                 .params = t->params,
                 .backend = opened->backend,
                 .host = &t->host};
    memcpy(b->description, opened->description, sizeof b->description);
    sonar_code code = b->backend->queue_create(b->backend, &b->queue, &b->why);
    if (!code)
        code = b->backend->event_create(b->backend, &b->event, &b->why);
    b->why.code = code ? code : make_buffers(b, &b->why);
}

/* ---- one repetition of a stage --------------------------------------------------------------- */

static sonar_work work_of(const bench *b) {
    uint32_t outputs = SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_LOFAR);
    if (b->config->specs.cbf.ranges)
        outputs |= SONAR_WANT(SONAR_CBF_NEARFIELD);
    if (b->config->specs.mvdr_enabled)
        outputs |= SONAR_WANT(SONAR_MVDR_AZIMUTH) | SONAR_WANT(SONAR_MVDR_SPECTRUM);
    return (sonar_work){.params = b->params, .outputs = outputs};
}

/* As when running, samples go to a device once, unless its kernels read them where they are. */
static bool is_sent(const contender *c) {
    return c->bench->there.data && c->samples->space != SONAR_MAPPED;
}

/* What a window brings that was not there before, as its ring in host memory has it. */
static sonar_code send(const bench *b, const sonar_buffer *samples, sonar_error *err) {
    sonar_buffer fresh = *samples, to = b->there;
    fresh.shape[1] = to.shape[1] =
        sonar_min_size(b->config->specs.hop, b->config->specs.window_length);
    fresh.bytes = to.bytes = sonar_buffer_count(&fresh) * sonar_dtype_size(fresh.dtype);
    return b->backend->copy(b->queue, &fresh, &to, err);
}

/* Sub-windows of the samples, `hop` apart, into the first `count` snapshots. */
static sonar_code transform(const contender *c, void *stage, size_t length, size_t hop,
                            size_t count, const sonar_buffer *to, sonar_error *err) {
    const bench *b = c->bench;
    const sonar_work work = work_of(b);
    const sonar_buffer *samples = is_sent(c) ? &b->there : c->samples;
    sonar_buffer in[SONAR_DFT_INPUTS] = {
        [SONAR_DFT_HEAD] = *samples, [SONAR_DFT_TAIL] = {.dtype = samples->dtype, .rank = 2}};
    size_t step = hop * sonar_dtype_size(samples->dtype);
    sonar_code code = SONAR_OK;
    in[SONAR_DFT_HEAD].shape[1] = length;
    for (size_t s = 0; s < count && !code; s++) {
        sonar_buffer out = sonar_buffer_part(to, s);
        in[SONAR_DFT_HEAD].data = (char *)samples->data + s * step;
        code = c->ops->execute(stage, b->queue, in, &out, &work, err);
    }
    return code;
}

static sonar_code run_dft(void *arg, sonar_error *err) {
    contender *c = arg;
    bench *b = c->bench;
    const sonar_specs *specs = b->specs;
    sonar_code code = is_sent(c) ? send(b, c->samples, err) : SONAR_OK;
    if (!code)
        code = transform(c, c->stage, specs->dft.length, b->config->specs.cbf_hop,
                         specs->cbf.max_snapshots, &b->bins, err);
    if (!code && c->second)
        code = transform(c, c->second, specs->mvdr_dft.length, b->config->specs.mvdr_hop,
                         specs->mvdr.max_new, &b->mvdr_bins, err);
    return code ? code : settle(b, err);
}

static sonar_code fetch(const bench *b, const sonar_buffer *from, sonar_buffer *to, int count,
                        sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (int i = 0; i < count && !code; i++)
        if (from[i].data)
            code = b->backend->copy(b->queue, &from[i], &to[i], err);
    return code ? code : settle(b, err);
}

static sonar_code run_cbf(void *arg, sonar_error *err) {
    contender *c = arg;
    bench *b = c->bench;
    const sonar_cbf_spec *cbf = &b->specs->cbf;
    size_t shape[3] = {cbf->max_snapshots, cbf->bins, cbf->sensors}; /* of several all bins */
    size_t first = (cbf->first_bin - b->specs->dft.first_bin) * cbf->sensors;
    sonar_buffer in = sonar_buffer_view((sonar_c32 *)b->bins.data + first, SONAR_C32, 3, shape);
    in.space = b->bins.space;
    sonar_work work = work_of(b);
    sonar_code code = c->ops->execute(c->stage, b->queue, &in, b->cbf, &work, err);
    return code ? code : fetch(b, b->cbf, b->host_cbf, SONAR_CBF_OUTPUTS, err);
}

static sonar_code update_mvdr(contender *c, const sonar_work *work, sonar_error *err) {
    bench *b = c->bench;
    sonar_buffer in = noise_set(b, b->set++ % b->sets);
    return c->ops->execute(c->stage, b->queue, &in, b->mvdr, work, err);
}

static sonar_code run_mvdr(void *arg, sonar_error *err) {
    contender *c = arg;
    sonar_work work = work_of(c->bench);
    sonar_code code = update_mvdr(c, &work, err);
    return code ? code
                : fetch(c->bench, c->bench->mvdr, c->bench->host_mvdr, SONAR_MVDR_OUTPUTS, err);
}

/* ---- contenders ------------------------------------------------------------------------------ */

/* The stages that are compared, in the order of sonar_train_stage. */
static sonar_code (*const run_stage[SONAR_TRAIN_STAGES])(void *arg, sonar_error *err) = {
    [SONAR_TRAIN_DFT] = run_dft, [SONAR_TRAIN_CBF] = run_cbf, [SONAR_TRAIN_MVDR] = run_mvdr};

/* Training plans with care even where running must not: the wisdom then is there for both. */
static sonar_dft_spec measured(sonar_dft_spec spec) {
    spec.planning = SONAR_PLAN_MEASURE;
    spec.in_place = true;
    return spec;
}

/* Half-filled, the covariance would cost less than it does in the long run. */
static sonar_code fill_covariance(contender *c, sonar_error *err) {
    sonar_work work = work_of(c->bench);
    work.outputs = 0;
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < c->bench->sets && !code; i++)
        code = update_mvdr(c, &work, err);
    return code ? code : settle(c->bench, err);
}

static sonar_code create_stage(contender *c, int kind, sonar_error *err) {
    bench *b = c->bench;
    const sonar_specs *specs = b->specs;
    sonar_dft_spec dft = measured(specs->dft), mvdr_dft = measured(specs->mvdr_dft);
    const void *spec[SONAR_TRAIN_STAGES] = {&dft, &specs->cbf, &specs->mvdr};
    c->ops = b->backend->stage(sonar_train_stage_names[kind]);
    if (!c->ops)
        return sonar_fail(err, SONAR_EUNAVAILABLE, b->backend->name, "has no such stage");
    sonar_code code = c->ops->create(spec[kind], b->host, &c->stage, err);
    if (!code && kind == SONAR_TRAIN_DFT && specs->own_mvdr_dft)
        code = c->ops->create(&mvdr_dft, b->host, &c->second, err);
    if (!code && kind == SONAR_TRAIN_MVDR)
        code = fill_covariance(c, err);
    return code;
}

static sonar_code run_none(void *arg, sonar_error *err) {
    const contender *c = arg;
    return sonar_fail(err, c->why.code, c->why.where, "%s", c->why.text);
}

/* A contender that cannot be made takes part as one that is not available. */
static sonar_train_candidate enter(bench *b, int kind, const char *name, contender *c) {
    *c = (contender){.bench = b, .samples = &b->samples, .why = b->why};
    if (!c->why.code)
        c->why.code = create_stage(c, kind, &c->why);
    return (sonar_train_candidate){name, c->why.code ? run_none : run_stage[kind], c};
}

static void leave(contender *contenders, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!contenders[i].ops)
            continue;
        contenders[i].ops->destroy(contenders[i].stage);
        contenders[i].ops->destroy(contenders[i].second);
    }
}

/* ---- decisions ------------------------------------------------------------------------------- */

static const sonar_train_plan plan = {.warm_up = 2,
                                      .least = 7,
                                      .most = SONAR_TRAIN_REPETITIONS,
                                      .stable_share = 0.02,
                                      .tie_share = 0.03,
                                      .budget_ns = 5000000000};

static sonar_code decide(training *t, const char *name, const sonar_train_candidate *candidates,
                         size_t count, sonar_error *err) {
    if (t->table->decisions == SONAR_TRAIN_DECISIONS)
        return sonar_fail(err, SONAR_EINVAL, name, "more than %d decisions", SONAR_TRAIN_DECISIONS);
    sonar_train_decision *decision = &t->table->decision[t->table->decisions];
    sonar_code code = sonar_train_choose(name, candidates, count, &plan, t->clock, decision, err);
    if (!code)
        t->table->decisions++;
    return code;
}

/* CPU or device for one stage. */
static sonar_code compare_backends(training *t, int kind, sonar_error *err) {
    contender contenders[SONAR_TRAIN_SIDES] = {0};
    sonar_train_candidate candidates[SONAR_TRAIN_SIDES];
    for (size_t b = 0; b < t->benches; b++)
        candidates[b] = enter(&t->bench[b], kind, t->bench[b].backend->name, &contenders[b]);
    sonar_code code = decide(t, sonar_train_stage_names[kind], candidates, t->benches, err);
    leave(contenders, t->benches);
    return code;
}

/* Cuts the next word off a list; false at its end. */
static bool next_word(const char **list, char word[32]) {
    size_t length = strcspn(*list, " ");
    snprintf(word, 32, "%.*s", (int)sonar_min_size(length, 31), *list);
    *list += length + ((*list)[length] == ' ');
    return length > 0;
}

static int kind_of(const char *stage) {
    for (int kind = 0; kind < SONAR_TRAIN_STAGES; kind++)
        if (!strcmp(sonar_train_stage_names[kind], stage))
            return kind;
    return -1;
}

/* The ways of one backend to do a stage. That none works is no error here: the backend then shows
 * as not available when it is compared with the others. */
static sonar_code compare_ways(training *t, bench *b, const sonar_decision *decision,
                               sonar_error *err) {
    char words[SONAR_TRAIN_CANDIDATES][32];
    contender contenders[SONAR_TRAIN_CANDIDATES] = {0};
    sonar_train_candidate candidates[SONAR_TRAIN_CANDIDATES];
    const char *list = decision->candidates;
    size_t count = 0;
    int kind = kind_of(decision->stage);
    if (kind < 0 || (kind == SONAR_TRAIN_MVDR && !t->config->specs.mvdr_enabled))
        return SONAR_OK;
    t->asked = decision->name;
    while (count < SONAR_TRAIN_CANDIDATES && next_word(&list, words[count])) {
        t->answer = words[count];
        candidates[count] = enter(b, kind, words[count], &contenders[count]);
        count++;
    }
    t->asked = NULL;
    sonar_code code = decide(t, decision->name, candidates, count, err);
    leave(contenders, count);
    return code == SONAR_EUNAVAILABLE ? SONAR_OK : code;
}

static sonar_code compare_all_ways(training *t, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (size_t b = 0; b < t->benches && !code; b++) {
        const sonar_decision *decision = t->bench[b].backend->decisions;
        for (; decision && decision->name && !code; decision++)
            code = compare_ways(t, &t->bench[b], decision, err);
    }
    return code;
}

/* ---- where the samples lie ------------------------------------------------------------------- */

/* The stage is the first's; each only brings samples of its own. */
static sonar_train_candidate enter_memory(const contender *first, sonar_space space,
                                          const char *name, sonar_buffer *samples, contender *c) {
    *c = *first;
    c->samples = samples;
    if (!c->why.code)
        c->why.code = make_samples(c->bench, space, samples, &c->why);
    return (sonar_train_candidate){name, c->why.code ? run_none : run_dft, c};
}

/* The bench goes on with the samples that were the fastest to transform. */
static void keep_samples(bench *b, sonar_buffer *samples, size_t count, size_t best) {
    sonar_buffer before = b->samples;
    b->samples = samples[best];
    samples[best] = before;
    release(b->backend, samples, count);
}

/* Host memory for the samples, by trial of the transform itself. Pinned first: from there they can
 * be sent ahead of a window's end, which mapped ones cannot. */
static sonar_code compare_sample_memories(training *t, bench *b, sonar_error *err) {
    static const sonar_choices_memory_kind kinds[SONAR_CHOICES_MEMORIES] = {
        {"pinned", SONAR_PINNED}, {"mapped", SONAR_MAPPED}, {"pageable", SONAR_HOST}};
    contender contenders[SONAR_CHOICES_MEMORIES];
    sonar_train_candidate candidates[SONAR_CHOICES_MEMORIES];
    sonar_buffer samples[SONAR_CHOICES_MEMORIES] = {0};
    contender first;
    enter(b, SONAR_TRAIN_DFT, "samples.memory", &first);
    for (size_t k = 0; k < SONAR_CHOICES_MEMORIES; k++)
        candidates[k] =
            enter_memory(&first, kinds[k].space, kinds[k].name, &samples[k], &contenders[k]);
    sonar_code code = decide(t, "samples.memory", candidates, SONAR_CHOICES_MEMORIES, err);
    leave(&first, 1);
    if (code)
        release(b->backend, samples, SONAR_CHOICES_MEMORIES);
    else
        keep_samples(b, samples, SONAR_CHOICES_MEMORIES,
                     t->table->decision[t->table->decisions - 1].chosen);
    return code == SONAR_EUNAVAILABLE ? SONAR_OK : code;
}

/* Of a backend with memory of its own, of which there is one at most. */
static sonar_code compare_all_sample_memories(training *t, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (size_t b = 0; b < t->benches && !code; b++)
        if (!t->bench[b].why.code && t->bench[b].backend->native_space != SONAR_HOST)
            code = compare_sample_memories(t, &t->bench[b], err);
    return code;
}

/* ---- host memory ----------------------------------------------------------------------------- */

static const sonar_train_plan memory_plan = {
    .warm_up = 1, .least = 5, .most = 31, .stable_share = 0.05, .budget_ns = 300000000};

enum { SIZES = 5, SPACES = SONAR_CHOICES_MEMORIES, MAKE = 0, TO_DEVICE, FROM_DEVICE, WAYS };

typedef struct transfer {
    const bench *bench;
    sonar_error why; /* code set: the backend has no such memory */
    sonar_space space;
    int way;
    size_t bytes;
    sonar_buffer host, device;
} transfer;

static sonar_code run_transfer(void *arg, sonar_error *err) {
    transfer *x = arg;
    const sonar_backend *backend = x->bench->backend;
    sonar_code code;
    if (x->why.code)
        return sonar_fail(err, x->why.code, x->why.where, "%s", x->why.text);
    if (x->way == MAKE) {
        sonar_buffer buffer = {0};
        code = backend->buffer_create(backend, x->space, SONAR_F32, 1, (size_t[]){x->bytes / 4},
                                      &buffer, err);
        if (buffer.data)
            backend->buffer_destroy(&buffer);
        return code;
    }
    bool out = x->way == TO_DEVICE;
    code = backend->copy(x->bench->queue, out ? &x->host : &x->device, out ? &x->device : &x->host,
                         err);
    return code ? code : settle(x->bench, err);
}

static void open_transfer(const bench *b, sonar_space space, size_t bytes, transfer *x) {
    *x = (transfer){.bench = b, .space = space, .bytes = bytes};
    x->why.code = make(b, space, SONAR_F32, bytes / 4, 0, 0, &x->host, &x->why);
    if (!x->why.code)
        x->why.code = make(b, SONAR_DEVICE, SONAR_F32, bytes / 4, 0, 0, &x->device, &x->why);
}

/* All kinds of memory at one size; seconds[kind][way], 0 where there is no such memory. */
static sonar_code time_size(const training *t, const bench *b, size_t bytes,
                            double seconds[SPACES][WAYS], sonar_error *err) {
    transfer transfers[SPACES];
    sonar_train_candidate candidates[SPACES];
    sonar_train_decision decision;
    sonar_code code = SONAR_OK;
    for (int k = 0; k < SPACES; k++) {
        const sonar_choices_memory_kind *kind = &sonar_choices_memories[k];
        open_transfer(b, kind->space, bytes, &transfers[k]);
        candidates[k] = (sonar_train_candidate){kind->name, run_transfer, &transfers[k]};
    }
    for (int way = 0; way < WAYS && !code; way++) {
        for (int k = 0; k < SPACES; k++)
            transfers[k].way = way;
        code = sonar_train_choose("memory", candidates, SPACES, &memory_plan, t->clock, &decision,
                                  err);
        for (int k = 0; k < SPACES && !code; k++)
            seconds[k][way] = decision.candidate[k].available ? decision.candidate[k].median_s : 0;
    }
    for (int k = 0; k < SPACES; k++) {
        release(b->backend, &transfers[k].host, 1);
        release(b->backend, &transfers[k].device, 1);
    }
    return code;
}

static void add_buffer(training *t, const char *name, double bytes, double to, double from) {
    sonar_train_buffer *buffer = &t->table->buffer[t->table->buffers++];
    *buffer = (sonar_train_buffer){.bytes = bytes, .to_device = to, .from_device = from};
    snprintf(buffer->name, sizeof buffer->name, "%s", name);
    sonar_train_choose_memory(t->table->kind, t->table->kinds, buffer);
}

/* The pipeline's own host buffers over an hour of running; the samples have a trial of their own.
 */
static void choose_buffers(training *t) {
    const sonar_config *c = t->config;
    double windows = 3600 * c->fs_hz / (double)c->specs.hop;
    const double looks = (double)c->cbf_scan.count;
    double surfaces = looks * (double)(1 + c->specs.cbf.ranges + c->lofar_band.bins);
    if (c->specs.mvdr_enabled)
        surfaces += (double)c->mvdr_scan.count * (double)(1 + c->mvdr_band.bins);
    add_buffer(t, "surfaces", 4 * surfaces, 0, windows);
    add_buffer(t, "points", 8 * (double)SONAR_DETECT_POINTS * (double)c->sensors, windows, 0);
}

/* Fits the model on a backend with memory of its own; leaves it out where that fails. */
static sonar_code measure_memory(training *t, const bench *b, sonar_error *err) {
    static const size_t sizes[SIZES] = {4096, 65536, 1 << 20, 8 << 20, 64 << 20};
    double bytes[SIZES], seconds[SIZES][SPACES][WAYS];
    for (int i = 0; i < SIZES; i++) {
        bytes[i] = (double)sizes[i];
        sonar_code code = time_size(t, b, sizes[i], seconds[i], err);
        if (code)
            return code;
    }
    t->table->kinds = 0;
    for (int k = 0; k < SPACES; k++) {
        sonar_train_memory *kind = &t->table->kind[t->table->kinds];
        sonar_train_line *lines[WAYS] = {&kind->make, &kind->to_device, &kind->from_device};
        bool fits = true;
        for (int way = 0; way < WAYS; way++) {
            double y[SIZES];
            for (int i = 0; i < SIZES; i++)
                y[i] = seconds[i][k][way];
            fits &= sonar_train_fit(SIZES, bytes, y, lines[way], NULL) == SONAR_OK;
        }
        snprintf(kind->kind, sizeof kind->kind, "%s", sonar_choices_memories[k].name);
        t->table->kinds += fits;
    }
    if (t->table->kinds)
        choose_buffers(t);
    return SONAR_OK;
}

static void measure_all_memory(training *t) {
    for (size_t b = 0; b < t->benches; b++) {
        sonar_error why = {0};
        if (t->bench[b].why.code || t->bench[b].backend->native_space == SONAR_HOST)
            continue;
        if (measure_memory(t, &t->bench[b], &why))
            sonar_log(t->outer, SONAR_WARN, "train", "host memory is not chosen: %s: %s", why.where,
                      why.text);
    }
}

/* ---- the chain ------------------------------------------------------------------------------- */

/* Bins cross in pinned memory; where the device's memory is the host's, nothing does. */
static sonar_train_crossing crossing_of(const training *t) {
    sonar_train_crossing crossing = {.known = t->benches < 2};
    for (size_t b = 0; b < t->benches; b++)
        crossing.known |= t->bench[b].backend != sonar_backend_cpu() &&
                          t->bench[b].backend->native_space == SONAR_HOST;
    for (size_t k = 0; k < t->table->kinds; k++)
        if (!strcmp(t->table->kind[k].kind, "pinned"))
            crossing = (sonar_train_crossing){true, t->table->kind[k].to_device,
                                              t->table->kind[k].from_device};
    return crossing;
}

/* Every assignment of the stages, from the decisions on each from `first_stage` on. */
static sonar_code compare_chains(training *t, size_t first_stage, sonar_error *err) {
    if (t->table->decisions == SONAR_TRAIN_DECISIONS)
        return sonar_fail(err, SONAR_EINVAL, "chain", "too many decisions");
    const sonar_train_shape *shape = &t->table->fingerprint.shape;
    const sonar_train_crossing crossing = crossing_of(t);
    sonar_train_side side[SONAR_TRAIN_SIDES] = {{0}};
    for (size_t b = 0; b < t->benches; b++) {
        side[b].name = t->bench[b].backend->name;
        for (size_t s = 0; s < sonar_train_stages(shape); s++)
            side[b].stage[s] = t->table->decision[first_stage + s].candidate[b];
    }
    sonar_code code = sonar_train_assign(shape, side, t->benches, &crossing, plan.tie_share,
                                         &t->table->decision[t->table->decisions], err);
    if (!code)
        t->table->decisions++;
    return code;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void stamp(char made[32]) {
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(made, 32, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* The configured backend; with `auto` the CPU besides. */
static sonar_code open_benches(training *t, sonar_error *err) {
    const sonar_config *c = t->config;
    sonar_backend_choice *opened = &t->opened, cpu;
    sonar_code code = sonar_backend_open(c->backend, c->plugin_dir, &t->host, opened, err);
    if (code)
        return code;
    sonar_train_shape shape = sonar_specs_shape(c, t->specs);
    sonar_train_fingerprint_make(&shape, sonar_choices_gpu(c, opened), &t->table->fingerprint);
    if (!strcmp(c->backend, "auto") && opened->backend != sonar_backend_cpu()) {
        code = sonar_backend_open("cpu", NULL, &t->host, &cpu, err);
        if (code)
            return code;
        open_bench(t, &cpu);
    } else {
        sonar_log(t->outer, SONAR_INFO, "train", "%s alone: %s", opened->backend->name,
                  opened->reason);
    }
    open_bench(t, opened);
    return SONAR_OK;
}

static sonar_code run_all(training *t, sonar_error *err) {
    const sonar_params_spec live = sonar_config_params(t->config);
    sonar_code code = sonar_params_create(&live, 1, &t->params, err);
    if (!code)
        code = open_benches(t, err);
    if (!code)
        code = compare_all_ways(t, err);
    if (!code)
        code = compare_all_sample_memories(t, err);
    size_t first_stage = t->table->decisions;
    int stages = t->config->specs.mvdr_enabled ? SONAR_TRAIN_STAGES : SONAR_TRAIN_MVDR;
    for (int kind = 0; kind < stages && !code; kind++)
        code = compare_backends(t, kind, err);
    if (!code)
        measure_all_memory(t);
    return code ? code : compare_chains(t, first_stage, err);
}

sonar_code sonar_training_run(const sonar_config *config, const sonar_specs *specs,
                              const sonar_host *host, const sonar_train_clock *clock,
                              sonar_train_table **table, sonar_error *err) {
    *table = NULL;
    training *t = sonar_alloc(1, sizeof *t);
    if (!t)
        return sonar_fail(err, SONAR_ENOMEM, "train", "no memory");
    t->table = sonar_alloc(1, sizeof *t->table);
    t->config = config;
    t->specs = specs;
    t->outer = host;
    t->host = *host;
    t->host.ctx = t;
    t->host.log = host_log;
    t->host.parallel = host_parallel;
    t->host.choice = host_choice;
    t->clock = clock;
    sonar_code code =
        t->table ? run_all(t, err) : sonar_fail(err, SONAR_ENOMEM, "train", "no memory");
    for (size_t b = 0; b < t->benches; b++)
        close_bench(&t->bench[b]);
    sonar_backend_close(&t->opened);
    sonar_params_destroy(t->params);
    if (code) {
        free(t->table);
    } else {
        stamp(t->table->made);
        *table = t->table;
    }
    free(t);
    return code;
}
