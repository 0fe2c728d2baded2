/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The trials of --train. Every candidate is an engine of its own, which processes windows of noise
 * as a pipeline's engine processes those of ingest. The candidates of a decision take turns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/core.h"
#include "core/random.h"
#include "train/train.h"

static const sonar_train_plan PLAN = {
    .warm_up = 2, .rounds = SONAR_TRAIN_ROUNDS, .tie_share = 0.03, .budget_ns = 5000000000};

static const size_t RING_BYTES = (size_t)256 << 20; /* beyond what a window needs, at most */
static const int64_t FILL_NS = 2000000000;          /* time limit for filling a covariance */

typedef struct training {
    const sonar_train_setup *setup;
    const sonar_train_clock *clock;
    sonar_train_table *table;
    sonar_backend_choice opened;
    sonar_host host;                      /* its ctx is this training */
    const char *asked, *answer;           /* the decision on trial and the candidate */
    sonar_buffer ring;                    /* of noise, in pinned memory; shared by all engines */
    sonar_buffer surface[SONAR_SURFACES]; /* in host memory; shared by all engines */
    uint32_t surfaces;                    /* SONAR_WANT bits */
    sonar_engine_times times;             /* not read */
} training;

/* One way to compute a window. */
typedef struct way {
    char name[32];
    sonar_placement placement;
} way;

typedef struct trial {
    training *training;
    sonar_engine *engine; /* NULL: it could not be created; `why` has the reason */
    sonar_error why;
    sonar_window window;
    uint64_t next; /* number of the next window */
} trial;

/* ---- the host -------------------------------------------------------------------------------- */

static void host_log(void *ctx, sonar_level level, const char *where, const char *text) {
    const sonar_host *outer = ((const training *)ctx)->setup->host;
    outer->log(outer->ctx, level, where, text);
}

static void host_parallel(void *ctx, size_t tasks, void (*task)(void *, size_t, size_t),
                          void *arg) {
    const sonar_host *outer = ((const training *)ctx)->setup->host;
    outer->parallel(outer->ctx, tasks, task, arg);
}

/* Engines on trial use the outcomes of earlier decisions. */
static const char *host_choice(void *ctx, const char *decision) {
    const training *t = ctx;
    return t->asked && !strcmp(decision, t->asked) ? t->answer
                                                   : sonar_train_chosen(t->table, decision);
}

/* ---- an engine that runs -----------------------------------------------------------------------
 */

static uint64_t ready(void *ctx) {
    const trial *trial = ctx;
    return trial->window.position + trial->training->setup->specs->window_length;
}

static void release(void *ctx, const sonar_window *window) {
    (void)ctx, (void)window;
}

static sonar_code run_window(trial *trial, bool surfaces, sonar_error *err) {
    const training *t = trial->training;
    const uint64_t position = trial->next * t->setup->specs->hop;
    trial->window = (sonar_window){.window = trial->next++,
                                   .first_sample = position,
                                   .lookback = t->setup->specs->mvdr_lookback,
                                   .ring = t->ring,
                                   .position = position,
                                   .ring_column = (size_t)(position % t->ring.shape[1])};
    sonar_buffer surface[SONAR_SURFACES];
    memcpy(surface, t->surface, sizeof surface);
    const sonar_engine_job job = {.window = &trial->window,
                                  .params = t->setup->params,
                                  .outputs = surfaces ? t->surfaces : 0,
                                  .surface = surfaces ? surface : NULL,
                                  .lookback = trial->window.lookback};
    return sonar_engine_run(trial->engine, &job, err);
}

/* Fills the covariance, because with fewer snapshots it would cost less than in normal
 * operation. */
static sonar_code fill_covariance(trial *trial, sonar_error *err) {
    const training *t = trial->training;
    const sonar_mvdr_spec *mvdr = &t->setup->specs->mvdr;
    const int64_t until = t->clock->now_ns(t->clock->ctx) + FILL_NS;
    sonar_code code = SONAR_OK;
    if (!t->setup->specs->mvdr_enabled)
        return SONAR_OK;
    const size_t held = mvdr->snapshots ? mvdr->snapshots : mvdr->sensors;
    for (size_t i = 0;
         i <= held / mvdr->max_new && !code && t->clock->now_ns(t->clock->ctx) < until; i++)
        code = run_window(trial, false, err);
    return code;
}

static void open_trial(training *t, const way *way, trial *trial) {
    const sonar_specs *specs = t->setup->specs;
    *trial =
        (struct trial){.training = t, .next = (specs->mvdr_lookback + specs->hop - 1) / specs->hop};
    sonar_engine_spec spec = {
        .specs = specs,
        .params = t->setup->params,
        .planning = SONAR_PLAN_MEASURE,
        .surfaces = t->surfaces,
        .source = {.ring = t->ring, .ctx = trial, .ready = ready, .release = release},
        .times = &t->times};
    for (int s = 0; s < SONAR_ENGINE_STAGES; s++)
        spec.place[s] = way->placement >> s & 1 ? t->opened.backend : sonar_backend_cpu();
    sonar_code code = sonar_engine_create(&spec, &t->host, &trial->engine, &trial->why);
    if (!code)
        code = sonar_engine_use(trial->engine, &trial->why);
    if (!code)
        code = fill_covariance(trial, &trial->why);
    if (!code)
        return;
    sonar_engine_destroy(trial->engine);
    trial->engine = NULL;
}

static sonar_code run_trial(void *arg, sonar_error *err) {
    trial *trial = arg;
    return trial->engine
               ? run_window(trial, true, err)
               : sonar_fail(err, trial->why.code, trial->why.where, "%s", trial->why.text);
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* A way whose engine cannot be created takes part as unavailable. */
static sonar_code compare(training *t, const char *name, const way *ways, size_t count,
                          sonar_error *err) {
    trial trials[SONAR_TRAIN_CANDIDATES];
    sonar_train_candidate candidates[SONAR_TRAIN_CANDIDATES] = {0};
    if (t->table->decisions == SONAR_TRAIN_DECISIONS)
        return sonar_fail(err, SONAR_EINVAL, name, "more than %d decisions", SONAR_TRAIN_DECISIONS);
    t->asked = name;
    for (size_t i = 0; i < count; i++) {
        t->answer = ways[i].name;
        open_trial(t, &ways[i], &trials[i]);
        candidates[i] = (sonar_train_candidate){ways[i].name, run_trial, &trials[i]};
    }
    t->asked = NULL;
    sonar_code code = sonar_train_choose(name, candidates, count, &PLAN, t->clock,
                                         &t->table->decision[t->table->decisions], err);
    for (size_t i = 0; i < count; i++)
        sonar_engine_destroy(trials[i].engine);
    t->table->decisions += !code;
    return code;
}

/* The same for decisions that may be omitted: if nothing works, the decision on placement fails. */
static sonar_code compare_if_any(training *t, const char *name, const way *ways, size_t count,
                                 sonar_error *err) {
    sonar_code code = compare(t, name, ways, count, err);
    return code == SONAR_EUNAVAILABLE ? SONAR_OK : code;
}

/* Compares the ways of the opened backend to compute a stage; the rest as in `base`. */
static sonar_code compare_stage(training *t, const sonar_decision *decision, const way *base,
                                sonar_error *err) {
    way ways[SONAR_TRAIN_CANDIDATES];
    size_t count = 0, stage = 0;
    while (stage < SONAR_ENGINE_STAGES &&
           strcmp(sonar_train_stage_names[stage], decision->stage) != 0)
        stage++;
    if (stage == SONAR_ENGINE_STAGES || !(base->placement >> stage & 1))
        return SONAR_OK;
    for (const char *word = decision->candidates; *word && count < SONAR_TRAIN_CANDIDATES;) {
        const int length = (int)strcspn(word, " ");
        ways[count] = *base;
        snprintf(ways[count++].name, sizeof ways->name, "%.*s", length, word);
        word += length + (word[length] == ' ');
    }
    return compare_if_any(t, decision->name, ways, count, err);
}

/* A way with as many stages on the device as possible. */
static way device_base(training *t, sonar_placement all) {
    way base = {.name = "base", .placement = all};
    trial trial;
    open_trial(t, &base, &trial);
    if (!trial.engine)
        base.placement &= ~(1u << SONAR_ENGINE_MVDR);
    sonar_engine_destroy(trial.engine);
    return base;
}

/* Makes all decisions that concern only the device. */
static sonar_code compare_on_device(training *t, sonar_error *err) {
    const sonar_backend *device = t->opened.backend;
    const sonar_train_shape *shape = &t->table->fingerprint.shape;
    if (device == sonar_backend_cpu())
        return SONAR_OK;
    const way base = device_base(t, (1u << sonar_train_stages(shape)) - 1);
    sonar_code code = SONAR_OK;
    for (const sonar_decision *d = device->decisions; d && d->name && !code; d++)
        code = compare_stage(t, d, &base, err);
    return code;
}

static sonar_code compare_placements(training *t, sonar_error *err) {
    sonar_placement placement[SONAR_TRAIN_CANDIDATES];
    way ways[SONAR_TRAIN_CANDIDATES];
    const size_t count = sonar_placements(t->setup, t->opened.backend, placement);
    for (size_t i = 0; i < count; i++) {
        ways[i] = (way){.placement = placement[i]};
        sonar_placement_name(placement[i], sonar_train_stages(&t->table->fingerprint.shape),
                             t->opened.backend->name, ways[i].name);
    }
    return compare(t, "placement", ways, count, err);
}

/* ---- what all engines share -------------------------------------------------------------------
 */

/* Noise in -1..1. For s16 the two halves of a float's bits are used; these are sufficiently
 * random. */
static void fill_noise(const sonar_buffer *ring) {
    const size_t count = sonar_buffer_count(ring) * sonar_dtype_size(ring->dtype) / sizeof(float);
    uint64_t state = sonar_random_mix(1);
    for (size_t i = 0; i < count; i++)
        ((float *)ring->data)[i] = (float)sonar_random_symmetric(&state);
}

/* Long enough, if memory allows, that a covariance contains no snapshot twice. */
static size_t ring_length(const sonar_train_setup *setup) {
    const sonar_specs *specs = setup->specs;
    const size_t column = specs->dft.channels * sonar_dtype_size(setup->sample_type);
    const size_t held = specs->mvdr.snapshots ? specs->mvdr.snapshots : specs->mvdr.sensors;
    const size_t wanted = specs->mvdr_enabled ? held * specs->mvdr_hop : 0;
    size_t length = specs->window_length + specs->mvdr_lookback + specs->hop +
                    sonar_min_size(wanted, RING_BYTES / column);
    length = (length + 63) & ~(size_t)63; /* rounded like ingest's ring */
    return length % 1024 ? length : length + 64;
}

static sonar_code make_ring(training *t, sonar_error *err) {
    const sonar_backend *owner = t->opened.backend;
    const size_t shape[2] = {t->setup->specs->dft.channels, ring_length(t->setup)};
    sonar_code code =
        owner->buffer_create(owner, SONAR_PINNED, t->setup->sample_type, 2, shape, &t->ring, err);
    if (!code)
        fill_noise(&t->ring);
    return code;
}

static sonar_code make_surfaces(training *t, sonar_error *err) {
    const sonar_backend *owner = t->opened.backend;
    sonar_code code = SONAR_OK;
    for (int i = SONAR_CBF_AZIMUTH; i <= SONAR_MVDR_NEARFIELD && !code; i++) {
        size_t shape[2];
        const int rank = sonar_specs_surface(t->setup->specs, (sonar_surface)i, shape);
        if (!rank)
            continue;
        code =
            owner->buffer_create(owner, SONAR_PINNED, SONAR_F32, rank, shape, &t->surface[i], err);
        t->surfaces |= SONAR_WANT(i);
    }
    return code;
}

static void free_buffers(training *t, sonar_buffer *buffers, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (buffers[i].data)
            t->opened.backend->buffer_destroy(&buffers[i]);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static sonar_code run_all(training *t, sonar_error *err) {
    const sonar_train_setup *setup = t->setup;
    sonar_code code =
        sonar_backend_open(setup->backend, setup->plugin_dir, &t->host, &t->opened, err);
    if (code)
        return code;
    sonar_train_fingerprint_make(setup, &t->opened, &t->table->fingerprint);
    if (t->opened.backend == sonar_backend_cpu())
        sonar_log(setup->host, SONAR_INFO, "train", "cpu alone: %s", t->opened.reason);
    code = make_ring(t, err);
    if (!code)
        code = make_surfaces(t, err);
    if (!code)
        code = compare_on_device(t, err);
    return code ? code : compare_placements(t, err);
}

sonar_code sonar_train_run(const sonar_train_setup *setup, const sonar_train_clock *clock,
                           sonar_train_table **table, sonar_error *err) {
    const time_t now = time(NULL);
    struct tm utc;
    *table = NULL;
    training *t = sonar_alloc(1, sizeof *t);
    sonar_train_table *fresh = sonar_alloc(1, sizeof *fresh);
    sonar_code code = SONAR_ENOMEM;
    if (t && fresh) {
        t->setup = setup;
        t->clock = clock;
        t->table = fresh;
        t->host = *setup->host;
        t->host.ctx = t;
        t->host.log = host_log;
        t->host.parallel = host_parallel;
        t->host.choice = host_choice;
        strftime(fresh->made, sizeof fresh->made, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
        code = run_all(t, err);
        free_buffers(t, &t->ring, 1);
        free_buffers(t, t->surface, SONAR_SURFACES);
        sonar_backend_close(&t->opened);
    } else {
        sonar_fail(err, code, "train", "no memory");
    }
    free(t);
    if (code)
        free(fresh);
    else
        *table = fresh;
    return code;
}
