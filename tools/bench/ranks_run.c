/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Runs the windows of one array, on one rank and on all. Windows begin half a window apart in a
 * ring of noise with a tone, so that snapshots are nearly independent. */
#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

enum { CHECKED = 3, MOST = 2000 };
static const double counts = 1000; /* counts per unit, in 16 bits */

/* An engine for a block of the array's sensors, with its inputs and outputs. */
typedef struct block {
    const bench_scene *scene;
    const sonar_cluster *cluster; /* with recorded calls; NULL: one process has all sensors */
    const sonar_cluster *unnoted; /* the same */
    size_t first, sensors;        /* of the block */
    bool publishes;
    sonar_specs specs;
    sonar_params params;
    uint64_t *far_turns, *near_turns; /* of the block */
    sonar_split ranks;
    size_t each[SONAR_RANKS_MOST]; /* sensors of each rank */
    sonar_buffer ring;             /* s16 [sensor][windows * hop] */
    sonar_engine *engine;
    sonar_engine_times times;
    uint32_t outputs;
    sonar_buffer surface[SONAR_SURFACES];
    uint64_t next; /* window */
} block;

/* ---- samples --------------------------------------------------------------------------------- */

static size_t hop_of(const bench_case *c) {
    return sonar_max_size(c->length / 2, 1);
}

/* One channel: white noise and a tone with a whole number of cycles in the ring. */
static void record_channel(void *arg, size_t k, size_t worker) {
    (void)worker;
    const block *b = arg;
    const bench_case *c = b->scene->c;
    const size_t n = b->ring.shape[1], sensor = b->first + k;
    const double bin = (double)(c->cbf.first + c->cbf.bins / 2);
    const double delay_s = b->scene->position_m[3 * sensor] * 0.5 / b->params.sound_speed_mps;
    const double start = fmod(bin * c->fs_hz / (double)c->length * delay_s, 1);
    int16_t *row = (int16_t *)b->ring.data + k * n;
    uint64_t state = sonar_random_mix(sensor);
    for (size_t i = 0; i < c->length; i++) {
        const double turns = start + fmod(bin * (double)i / (double)c->length, 1);
        row[i] = (int16_t)lrint(2 * counts * cos(2 * M_PI * turns));
    }
    for (size_t i = n; i-- > 0;)
        row[i] = (int16_t)(row[i % c->length] + lrintf((float)counts * bench_noise(&state)));
}

static sonar_code make_samples(block *b, sonar_error *err) {
    const bench_scene *s = b->scene;
    const bench_case *c = s->c;
    const size_t windows = sonar_max_size(c->mvdr.bins ? c->snapshots : 1, 4);
    const size_t shape[] = {b->sensors, windows * hop_of(c)};
    sonar_code code = s->site->backend->buffer_create(s->site->backend, bench_scene_host_space(s),
                                                      SONAR_S16, 2, shape, &b->ring, err);
    if (!code)
        s->site->host->parallel(s->site->host->ctx, b->sensors, record_channel, b);
    return code;
}

static uint64_t ready(void *ctx) {
    const block *b = ctx;
    return b->next * hop_of(b->scene->c) + b->scene->c->length;
}

static void release(void *ctx, const sonar_window *window) {
    (void)ctx, (void)window;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

/* The block's columns of a table [point][sensor]. */
static uint64_t *cut_turns(const block *b, const uint64_t *whole, size_t points) {
    const size_t all = b->scene->c->sensors;
    uint64_t *turns = whole ? sonar_alloc(points * b->sensors, sizeof *turns) : NULL;
    for (size_t p = 0; turns && p < points; p++)
        memcpy(turns + p * b->sensors, whole + p * all + b->first, b->sensors * sizeof *turns);
    return turns;
}

static sonar_code make_params(block *b, sonar_error *err) {
    const bench_scene *s = b->scene;
    sonar_params *p = &b->params;
    *p = s->params;
    if (!b->cluster)
        return SONAR_OK;
    b->far_turns = cut_turns(b, s->far_turns, s->c->angles);
    b->near_turns = cut_turns(b, s->near_turns, s->c->ranges * s->c->angles);
    if (!b->far_turns || (s->near_turns && !b->near_turns))
        return sonar_fail(err, SONAR_ENOMEM, s->c->name, "no memory for %zu sensors", b->sensors);
    p->sensors = p->sensors_used = b->sensors;
    p->position_m = s->position_m + 3 * b->first;
    p->far_cbf.turns = p->far_mvdr.turns = b->far_turns;
    p->near_cbf.turns = b->near_turns;
    p->far_cbf.sensors = p->far_mvdr.sensors = p->near_cbf.sensors = b->sensors;
    return SONAR_OK;
}

static void make_specs(block *b) {
    const bench_scene *s = b->scene;
    sonar_specs *specs = &b->specs;
    *specs = s->specs;
    specs->hop = hop_of(s->c);
    specs->dft.channels = specs->dft.sensors = b->sensors;
    specs->cbf.sensors = specs->mvdr.sensors = b->sensors;
    specs->cbf.parts = b->cluster != NULL;
    b->outputs = s->c->mvdr_alone ? SONAR_WANT(SONAR_MVDR_AZIMUTH) | SONAR_WANT(SONAR_MVDR_SPECTRUM)
                                  : bench_scene_beams(s);
    b->ranks = (sonar_split){.cluster = b->cluster,
                             .specs = &s->specs,
                             .params = &s->params,
                             .sensors = b->each,
                             .channels = b->each,
                             .sensor = s->channel};
}

static sonar_code make_surfaces(block *b, sonar_error *err) {
    const sonar_backend *backend = b->scene->site->backend;
    sonar_code code = SONAR_OK;
    for (int i = 0; i < SONAR_SURFACES && b->publishes && !code; i++) {
        size_t shape[2];
        const int rank = sonar_specs_surface(&b->scene->specs, (sonar_surface)i, shape);
        if (b->outputs & SONAR_WANT(i))
            code = backend->buffer_create(backend, bench_scene_host_space(b->scene), SONAR_F32,
                                          rank, shape, &b->surface[i], err);
    }
    return code;
}

static sonar_code make_engine(block *b, sonar_error *err) {
    const bench_site *site = b->scene->site;
    const sonar_backend *here = site->backend;
    const sonar_engine_spec spec = {
        .specs = &b->specs,
        .params = &b->params,
        .place = {here, here, here},
        .surfaces = b->outputs,
        .source = {.ring = b->ring, .ctx = b, .ready = ready, .release = release},
        .times = &b->times,
        .ranks = b->cluster ? &b->ranks : NULL};
    const sonar_code code = sonar_engine_create(&spec, site->host, &b->engine, err);
    return code ? code : sonar_engine_use(b->engine, err);
}

/* cluster NULL: all sensors. */
static sonar_code create(const bench_scene *scene, const sonar_cluster *cluster,
                         const sonar_cluster *unnoted, block *b, sonar_error *err) {
    const size_t all = scene->c->sensors, ranks = cluster ? cluster->place.ranks : 1;
    const size_t rank = cluster ? cluster->place.rank : 0;
    *b = (block){.scene = scene,
                 .cluster = cluster,
                 .unnoted = unnoted,
                 .first = all * rank / ranks,
                 .publishes = rank == 0};
    for (size_t r = 0; r < ranks; r++)
        b->each[r] = all * (r + 1) / ranks - all * r / ranks;
    b->sensors = b->each[rank];
    make_specs(b);
    sonar_code code = make_params(b, err);
    if (!code)
        code = make_samples(b, err);
    if (!code)
        code = make_surfaces(b, err);
    return code ? code : make_engine(b, err);
}

static void destroy(block *b) {
    const sonar_backend *backend = b->scene->site->backend;
    sonar_engine_destroy(b->engine);
    for (int i = 0; i < SONAR_SURFACES; i++)
        if (b->surface[i].data)
            backend->buffer_destroy(&b->surface[i]);
    if (b->ring.data)
        backend->buffer_destroy(&b->ring);
    free(b->far_turns);
    free(b->near_turns);
}

/* ---- windows --------------------------------------------------------------------------------- */

static sonar_code run(block *b, bool wanted, sonar_error *err) {
    const uint64_t first = b->next * b->specs.hop;
    const sonar_window window = {.window = b->next,
                                 .first_sample = first,
                                 .ring = b->ring,
                                 .position = first,
                                 .ring_column = (size_t)(first % b->ring.shape[1])};
    const sonar_engine_job job = {.window = &window,
                                  .params = &b->params,
                                  .outputs = wanted ? b->outputs : 0,
                                  .surface = wanted && b->publishes ? b->surface : NULL};
    const sonar_code code = sonar_engine_run(b->engine, &job, err);
    b->next++;
    return code;
}

/* Runs windows until the MVDR's block is full, and one more for work that is done only once. */
static sonar_code fill(block *b, sonar_error *err) {
    const size_t windows = b->specs.mvdr_enabled ? b->scene->c->snapshots : 1;
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < windows && !code; i++)
        code = run(b, false, err);
    return code;
}

/* Time of the slowest rank; samples are copied before it begins. */
static sonar_code time_window(block *b, int64_t *slowest_ns, sonar_error *err) {
    int64_t all_ns[SONAR_RANKS_MOST];
    char ready_ranks[SONAR_RANKS_MOST];
    sonar_code code = SONAR_OK;
    sonar_engine_prefetch(b->engine);
    if (b->cluster)
        code = b->unnoted->ops->share("", 1, ready_ranks, err);
    meter_forget();
    const int64_t began_ns = sonar_monotonic_ns();
    if (!code)
        code = run(b, true, err);
    *slowest_ns = all_ns[0] = sonar_monotonic_ns() - began_ns;
    if (code || !b->cluster)
        return code;
    code = b->unnoted->ops->share(slowest_ns, sizeof *slowest_ns, all_ns, err);
    for (size_t r = 0; r < b->cluster->place.ranks; r++)
        *slowest_ns = all_ns[r] > *slowest_ns ? all_ns[r] : *slowest_ns;
    return code;
}

/* ---- accuracy -------------------------------------------------------------------------------- */

/* The surfaces of the first windows with a full block, concatenated, [window][surface]. */
static size_t floats_of(const block *b) {
    size_t sum = 0;
    for (int i = 0; i < SONAR_SURFACES; i++)
        sum += b->surface[i].data ? sonar_buffer_count(&b->surface[i]) : 0;
    return sum;
}

static void keep(const block *b, float *to) {
    for (int i = 0; i < SONAR_SURFACES; i++)
        if (b->surface[i].data) {
            const size_t count = sonar_buffer_count(&b->surface[i]);
            memcpy(to, b->surface[i].data, count * sizeof *to);
            to += count;
        }
}

static double worst_of_row(const float *one, const float *several, size_t n) {
    double peak = 0, worst_db = 0;
    for (size_t i = 0; i < n; i++)
        peak = fmax(peak, (double)one[i]);
    for (size_t i = 0; i < n; i++)
        if (!((double)one[i] <= 1e-6 * peak))
            worst_db = fmax(worst_db, fabs(10 * log10((double)several[i] / (double)one[i])));
    return peak > 0 ? worst_db : INFINITY;
}

/* Row by row of every surface. */
static double compare(const block *b, const float *one, const float *several) {
    double worst_db = 0;
    for (int w = 0; w < CHECKED; w++)
        for (int i = 0; i < SONAR_SURFACES; i++) {
            const sonar_buffer *s = &b->surface[i];
            const size_t count = s->data ? sonar_buffer_count(s) : 0;
            const size_t row = count ? s->shape[s->rank - 1] : 1;
            for (size_t at = 0; at < count; at += row)
                worst_db = fmax(worst_db, worst_of_row(one + at, several + at, row));
            one += count;
            several += count;
        }
    return worst_db;
}

/* ---- measurement ----------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Times of the calls by window: [call][window]; by plain MPI in alternate windows. */
typedef struct crossings {
    bool compared;
    int64_t ns[METER_CALLS_MOST][MOST], plain_ns[METER_CALLS_MOST][MOST];
    double bytes[METER_CALLS_MOST];
    size_t calls;
} crossings;

static sonar_code note_crossings(const block *b, crossings *all, int64_t (*ns)[MOST], size_t window,
                                 sonar_error *err) {
    const meter_call *call;
    sonar_code code = SONAR_OK;
    all->calls = meter_calls(&call);
    for (size_t i = 0; i < all->calls && !code; i++)
        code = meter_read(b->unnoted, &call[i], &all->bytes[i], &ns[i][window], err);
    return code;
}

/* Runs a window with plain MPI's calls: the same bytes from the same memory, and equally late
 * ranks. */
static sonar_code time_plainly(block *b, crossings *all, size_t window, double *spent_s,
                               sonar_error *err) {
    int64_t ns;
    meter_use_plain(true);
    sonar_code code = time_window(b, &ns, err);
    meter_use_plain(false);
    *spent_s += (double)ns * 1e-9;
    return code ? code : note_crossings(b, all, all->plain_ns, window, err);
}

static bench_times times_of(int64_t *ns, size_t n) {
    qsort(ns, n, sizeof *ns, by_time);
    const int64_t p99 = ns[(99 * n + 99) / 100 - 1];
    return (bench_times){n, 1, ns[0], ns[n / 2], p99, ns[n / 2], p99, 0};
}

/* All ranks see the same times and stop after the same window. */
static sonar_code time_windows(block *b, bench_times *times, crossings *all, sonar_error *err) {
    const bench_effort *effort = &b->scene->site->effort;
    int64_t ns[MOST];
    double spent_s = 0;
    size_t n = 0;
    sonar_code code = SONAR_OK;
    while (!code && n < MOST && (n < effort->repetitions || spent_s < effort->min_time_s) &&
           !(n >= 3 && effort->max_time_s > 0 && spent_s >= effort->max_time_s)) {
        code = time_window(b, &ns[n], err);
        spent_s += (double)ns[n] * 1e-9;
        if (!code && b->cluster)
            code = note_crossings(b, all, all->ns, n, err);
        if (!code && b->cluster && all->compared)
            code = time_plainly(b, all, n, &spent_s, err);
        n++;
    }
    if (code)
        return code;
    *times = times_of(ns, n);
    for (size_t i = 0; i < all->calls; i++) {
        qsort(all->ns[i], n, sizeof all->ns[i][0], by_time);
        qsort(all->plain_ns[i], n, sizeof all->plain_ns[i][0], by_time);
    }
    return SONAR_OK;
}

static void conclude(const crossings *all, ranks_result *result) {
    const meter_call *call;
    const size_t n = result->several.repetitions;
    meter_calls(&call);
    result->crossings = all->calls;
    for (size_t i = 0; i < all->calls; i++)
        result->crossing[i] =
            (ranks_crossing){meter_name[call[i].kind], all->bytes[i], all->ns[i][n / 2],
                             all->compared ? all->plain_ns[i][n / 2] : 0};
}

/* Runs a block of the array from its first window to its last. */
static sonar_code measure(block *b, float *kept, bench_times *times, crossings *all,
                          sonar_error *err) {
    const size_t each = floats_of(b);
    sonar_code code = fill(b, err);
    for (size_t i = 0; i < CHECKED && !code; i++) {
        code = run(b, true, err);
        if (!code && b->publishes)
            keep(b, kept + i * each);
    }
    return code ? code : time_windows(b, times, all, err);
}

static sonar_code run_alone(const bench_scene *scene, float *kept, crossings *all,
                            ranks_result *result, sonar_error *err) {
    block *b = sonar_alloc(1, sizeof *b);
    if (!b)
        return sonar_fail(err, SONAR_ENOMEM, scene->c->name, "no memory");
    sonar_code code = create(scene, NULL, NULL, b, err);
    if (!code)
        code = measure(b, kept, &result->one, all, err);
    destroy(b);
    free(b);
    return code;
}

static sonar_code run_together(const bench_scene *scene, const ranks_site *at, const float *one,
                               float *kept, crossings *all, ranks_result *result,
                               sonar_error *err) {
    const sonar_cluster metered = meter_open(&at->cluster, at->plain);
    block *b = sonar_alloc(1, sizeof *b);
    if (!b)
        return sonar_fail(err, SONAR_ENOMEM, scene->c->name, "no memory");
    sonar_code code = create(scene, &metered, &at->cluster, b, err);
    all->compared = at->plain != NULL;
    if (!code)
        code = measure(b, kept, &result->several, all, err);
    if (!code)
        conclude(all, result);
    if (!code && b->publishes)
        result->worst_db = compare(b, one, kept);
    destroy(b);
    free(b);
    return code;
}

/* Number of floats in the surfaces of all compared windows. */
static size_t kept_size(const bench_case *c) {
    const size_t rows = c->lofar.bins + c->mvdr.bins + c->ranges + 2;
    return CHECKED * rows * c->angles;
}

sonar_code ranks_run(const bench_case *c, const ranks_site *at, ranks_result *result,
                     sonar_error *err) {
    const sonar_cluster *cluster = &at->cluster;
    bench_scene scene = {0};
    char ready_ranks[SONAR_RANKS_MOST];
    *result = (ranks_result){.of = c, .ranks = cluster->place.ranks, .worst_db = NAN};
    float *one = sonar_alloc(kept_size(c), sizeof *one);
    float *several = sonar_alloc(kept_size(c), sizeof *several);
    crossings *all = sonar_alloc(1, sizeof *all);
    sonar_code code = one && several && all ? bench_case_check(c, err)
                                            : sonar_fail(err, SONAR_ENOMEM, c->name, "no memory");
    if (!code)
        code = bench_scene_lay(c, &at->site, &scene, err);
    if (!code && cluster->place.rank == 0)
        code = run_alone(&scene, one, all, result, err);
    if (!code && cluster->place.ranks > 1)
        code = cluster->ops->share("", 1, ready_ranks, err);
    if (!code && cluster->place.ranks > 1)
        code = run_together(&scene, at, one, several, all, result, err);
    if (scene.site)
        bench_scene_destroy(&scene);
    free(one);
    free(several);
    free(all);
    return code;
}
