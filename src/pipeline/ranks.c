/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The data thread's rounds where several ranks share the array. Each rank takes the windows of its
 * own channels from its ingest. In rounds the ranks agree which window is next (ranks/agree.h). All
 * ranks process it, even a rank without samples of it, because every exchange is collective. While
 * the root refines detections, the others compute the evaluations that it asks for. During the run
 * only the data thread communicates with the other ranks. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pipeline/internal.h"
#include "status/metrics.h"

/* ---- create ---------------------------------------------------------------------------------- */

/* Ranks with different configurations would compute different things. */
static sonar_code compare_files(const sonar_config *c, sonar_error *err) {
    enum { BYTES = sizeof c->digest };
    char digest[SONAR_RANKS_MOST][BYTES];
    sonar_code code = c->cluster->ops->share(c->digest, BYTES, digest, err);
    for (size_t r = 1; r < c->cluster->place.ranks && !code; r++)
        if (memcmp(digest[r], digest[0], BYTES) != 0)
            return sonar_fail(err, SONAR_EINVAL, "cluster",
                              "rank %zu has another configuration than rank 0", r);
    return code;
}

/* Computes which sensors and channels each rank has. */
static sonar_code split(struct ranks *ranks, const sonar_config *c, sonar_error *err) {
    uint32_t *to = ranks->sensor = sonar_alloc(c->sensors, sizeof *to);
    ranks->split.sensor = to;
    if (!to)
        return sonar_fail(err, SONAR_ENOMEM, "cluster", "no memory for %zu sensors", c->sensors);
    for (size_t r = 0; r < ranks->agree.ranks; r++) {
        size_t first, end;
        sonar_config_block(c, r, ranks->agree.ranks, &first, &end);
        ranks->channels[r] = end - first;
        for (size_t s = 0; s < c->sensors; s++) {
            if (c->channel[s] < first || c->channel[s] >= end)
                continue;
            *to++ = (uint32_t)s;
            ranks->sensors[r]++;
        }
    }
    return SONAR_OK;
}

static sonar_code make_buffers(struct ranks *ranks, const sonar_config *c, sonar_error *err) {
    ranks->missing = sonar_alloc(c->channels, sizeof *ranks->missing);
    ranks->lost = sonar_alloc(ranks->part->config.channels, sizeof *ranks->lost);
    ranks->measures = sonar_alloc(c->sensors, sonar_elements_measure_bytes());
    const size_t series = c->specs.beams * c->specs.hop;
    ranks->beams = sonar_alloc(sonar_max_size(series, 1), sizeof *ranks->beams);
    ranks->all_beams = sonar_alloc(sonar_max_size(series, 1) * ranks->agree.ranks, sizeof(float));
    if (!ranks->missing || !ranks->lost || !ranks->measures || !ranks->beams || !ranks->all_beams)
        return sonar_fail(err, SONAR_ENOMEM, "cluster", "no memory for %zu channels", c->channels);
    for (size_t k = 0; k < ranks->part->config.channels; k++)
        ranks->lost[k] = 1;
    return SONAR_OK;
}

static void warn_if_bound(const sonar_pipeline *p, const sonar_config_part *part) {
    if (part->processors < part->share && !part->config.cpus)
        sonar_log(
            &p->host, SONAR_WARN, "cluster",
            "this rank may run on %zu of the %zu processors that are its share of the host: a unit "
            "or a container has no more, or mpirun was not told --bind-to numa or --bind-to none",
            part->processors, part->share);
}

sonar_code sonar_ranks_create(sonar_pipeline *p, const sonar_config *c, sonar_error *err) {
    struct ranks *ranks = &p->ranks;
    p->sharing = &sonar_sharing_none;
    p->place = *sonar_config_place(c);
    pthread_mutex_init(&ranks->lock, NULL);
    if (p->place.ranks < 2)
        return SONAR_OK;
    p->sharing = &sonar_sharing_ranks;
    p->host.awake_ns = SONAR_RANKS_AWAKE_NS;
    sonar_code code = compare_files(c, err);
    if (!code)
        code = sonar_config_part_create(c, &p->place, &ranks->part, err);
    if (code)
        return code;
    warn_if_bound(p, ranks->part);
    ranks->first_channel = ranks->part->first_channel;
    ranks->split = (sonar_split){.cluster = c->cluster,
                                 .specs = &c->specs,
                                 .sensors = ranks->sensors,
                                 .channels = ranks->channels};
    ranks->part->config.specs.cbf.parts = true;
    ranks->part->config.max_missing_share = 1; /* that of the whole array decides */
    p->config = &ranks->part->config;
    ranks->agree = (sonar_agree_spec){
        .ranks = p->place.ranks,
        .hop = c->specs.hop,
        .hop_ns = (int64_t)((double)c->specs.hop / c->fs_hz * 1e9),
        .max_skew_ns = (int64_t)(c->cluster_max_skew_ms * 1e6),
        .restart_after_ns = (int64_t)c->restart_after_ms * 1000000,
    };
    code = split(ranks, c, err);
    if (!code)
        code = make_buffers(ranks, c, err);
    return code ? code : sonar_propose_create(p, err);
}

/* Counts this rank's channels that feed a sensor not masked by hand, and each rank's sensors in the
 * beams. */
static void count_used(sonar_pipeline *p) {
    struct ranks *ranks = &p->ranks;
    const sonar_config *c = p->live->plan->config;
    const uint32_t *sensor = ranks->sensor;
    ranks->channels_used = 0;
    for (size_t s = 0; s < c->sensors; s++)
        ranks->channels_used += c->used[s];
    for (size_t r = 0; r < ranks->agree.ranks; r++) {
        ranks->sensors_used[r] = 0;
        for (size_t i = 0; i < ranks->sensors[r]; i++)
            ranks->sensors_used[r] += p->live->whole->used[*sensor++];
    }
}

void sonar_ranks_adopt(sonar_pipeline *p) {
    p->ranks.split.params = p->live->whole;
    count_used(p);
}

void sonar_ranks_destroy(sonar_pipeline *p) {
    pthread_mutex_destroy(&p->ranks.lock);
    sonar_propose_destroy(p);
    sonar_config_part_destroy(p->ranks.part);
    free(p->ranks.sensor);
    free(p->ranks.missing);
    free(p->ranks.lost);
    free(p->ranks.measures);
    free(p->ranks.beams);
    free(p->ranks.all_beams);
}

/* ---- a round --------------------------------------------------------------------------------- */

const sonar_split *sonar_ranks_split(const sonar_pipeline *p) {
    return p->place.ranks > 1 ? &p->ranks.split : NULL;
}

static const sonar_cluster_ops *ops(const sonar_pipeline *p) {
    return p->ranks.split.cluster->ops;
}

enum { TELL_NS = 500000000 };

/* The root takes a result before the window begins, because all ranks have to know which topics are
 * wanted. */
static void prepare(sonar_pipeline *p, sonar_offer *offer) {
    struct ranks *ranks = &p->ranks;
    if (!sonar_is_root(p))
        return;
    offer->asks = sonar_monotonic_ns() - ranks->reported_ns >= TELL_NS;
    if (!ranks->result)
        ranks->result = sonar_result_find(p);
    offer->blocked = !ranks->result && p->config->overload == SONAR_BLOCK;
    offer->wanted = ranks->result ? sonar_output_wanted(p->output) & p->config->output_topics : 0;
}

/* The whole struct is sent, padding included, so it is cleared first. */
static void make_offer(sonar_pipeline *p, sonar_offer *offer) {
    struct ranks *ranks = &p->ranks;
    const sonar_window *w = &ranks->window;
    memset(offer, 0, sizeof *offer);
    offer->draining = atomic_load(&p->draining); /* read first: if it is set, no window follows */
    offer->stopping = atomic_load(&p->stopping);
    offer->channels = ranks->channels_used;
    offer->measured = sonar_elements_measured(p->elements);
    offer->round_first = sonar_elements_began(p->elements);
    offer->judged = p->judged && !sonar_elements_measured(p->judged);
    sonar_letters_offer(ranks->change.letters, offer);
    prepare(p, offer);
    offer->idle_ns = sonar_monotonic_ns() - ranks->worked_ns;
    if (!ranks->has) {
        ranks->has = sonar_ingest_take(p->ingest, &ranks->window);
        ranks->timeline_of_ingest += ranks->has && ranks->window.restarted;
    }
    offer->has = ranks->has;
    if (!ranks->has)
        return;
    offer->first_sample = w->first_sample;
    offer->utc_ns = w->utc_ns;
    offer->waited_ns = sonar_monotonic_ns() - w->arrival_ns;
    offer->missing_mean = w->missing_mean;
    offer->missing_worst = w->missing_worst;
    offer->lookback = w->lookback;
    offer->epoch = w->epoch;
    offer->frame_flags = w->flags;
    offer->timeline = ranks->timeline_of_ingest;
    offer->restarted = w->restarted;
}

static void release(sonar_pipeline *p) {
    if (p->ranks.has)
        sonar_ingest_release(p->ingest, &p->ranks.window);
    p->ranks.has = false;
}

/* ---- status ---------------------------------------------------------------------------------- */

/* A rank's status, for the root. */
struct report {
    sonar_rank_status status;
    sonar_ingest_counters counters;
    int64_t since_frame_ns; /* < 0: it has received no frame */
};

static void make_report(const sonar_pipeline *p, struct report *t) {
    const struct ranks *ranks = &p->ranks;
    memset(t, 0, sizeof *t);
    sonar_ingest_read_counters(p->ingest, &t->counters);
    const int64_t last = t->counters.last_frame_ns;
    t->since_frame_ns = last ? sonar_monotonic_ns() - last : -1;
    gethostname(t->status.host, sizeof t->status.host - 1);
    t->status.first_channel = (uint32_t)ranks->first_channel;
    t->status.channels = (uint32_t)p->config->channels;
    t->status.frames_accepted = t->counters.frames_accepted;
    for (int i = 0; i < SONAR_FRAME_CAUSES; i++)
        t->status.frames_dropped += t->counters.frames_dropped[i];
    t->status.samples_missing = t->counters.samples_missing;
    t->status.windows_absent = ranks->absent[p->place.rank];
    t->status.windows_dropped = ranks->windows_foreign;
}

/* Keeps the reports for the control thread, which holds the lock briefly once a second. While it
 * does, these reports are skipped; the next ones are kept. */
static void keep_reports(sonar_pipeline *p, const struct report *report) {
    struct ranks *ranks = &p->ranks;
    int64_t least_ns = INT64_MAX;
    if (pthread_mutex_trylock(&ranks->lock))
        return;
    ranks->reported = true;
    ranks->reported_ns = sonar_monotonic_ns();
    ranks->counters = (sonar_ingest_counters){0};
    for (size_t r = 0; r < ranks->agree.ranks; r++) {
        ranks->status[r] = report[r].status;
        sonar_ingest_counters_add(&ranks->counters, &report[r].counters);
        if (report[r].since_frame_ns >= 0 && report[r].since_frame_ns < least_ns)
            least_ns = report[r].since_frame_ns;
    }
    ranks->counters.last_frame_ns = least_ns < INT64_MAX ? ranks->reported_ns - least_ns : 0;
    ranks->counters.windows_dropped[SONAR_WINDOW_MISSING] += ranks->windows_missing;
    pthread_mutex_unlock(&ranks->lock);
}

static sonar_code share_reports(sonar_pipeline *p, sonar_error *err) {
    struct report mine, all[SONAR_RANKS_MOST];
    make_report(p, &mine);
    sonar_code code = ops(p)->share(&mine, sizeof mine, all, err);
    if (!code && sonar_is_root(p))
        keep_reports(p, all);
    return code;
}

void sonar_ranks_read(sonar_pipeline *p, sonar_status *status) {
    struct ranks *ranks = &p->ranks;
    const int64_t own_ns = status->ingest.last_frame_ns; /* reports are old where a rank hangs */
    pthread_mutex_lock(&ranks->lock);
    if (ranks->reported) {
        status->ingest = ranks->counters;
        if (own_ns > status->ingest.last_frame_ns)
            status->ingest.last_frame_ns = own_ns;
        status->ranks = ranks->agree.ranks;
        memcpy(status->rank, ranks->status, status->ranks * sizeof *status->rank);
    }
    pthread_mutex_unlock(&ranks->lock);
}

_Static_assert((int)SONAR_RANKS_SHOWN == (int)SONAR_RANKS_MOST, "all ranks are shown");

int64_t sonar_ranks_wait(const sonar_pipeline *p, bool hangs[SONAR_RANKS_SHOWN]) {
    return sonar_ranks_split(p) ? ops(p)->waits(hangs) : 0;
}

/* ---- a window -------------------------------------------------------------------------------- */

static sonar_code gather_missing(sonar_pipeline *p, const struct turn *turn, sonar_error *err) {
    const struct ranks *ranks = &p->ranks;
    size_t size[SONAR_RANKS_MOST];
    for (size_t r = 0; r < ranks->agree.ranks; r++)
        size[r] = ranks->channels[r] * sizeof(float);
    return ops(p)->gather(turn->samples ? turn->samples->missing : ranks->lost, size,
                          ranks->missing, err);
}

void sonar_ranks_describe(const sonar_pipeline *p, sonar_result *result) {
    const struct ranks *ranks = &p->ranks;
    for (size_t r = 0; r < ranks->agree.ranks; r++)
        if (!ranks->present[r]) {
            result->params.sensors_used -= ranks->sensors_used[r];
            result->ranks_absent++;
        }
}

static sonar_code tell(sonar_pipeline *p, void *data, size_t size, sonar_error *err) {
    return ops(p)->broadcast(data, size, err);
}

static sonar_code add(sonar_pipeline *p, const float *mine, size_t n, float *sum,
                      sonar_error *err) {
    const struct ranks *ranks = &p->ranks;
    size_t size[SONAR_RANKS_MOST];
    for (size_t r = 0; r < ranks->agree.ranks; r++)
        size[r] = n * sizeof *mine;
    const sonar_code code = ops(p)->gather(mine, size, ranks->all_beams, err);
    for (size_t i = 0; i < n && sum && !code; i++) {
        double all = 0;
        for (size_t r = 0; r < ranks->agree.ranks; r++)
            all += (double)ranks->all_beams[r * n + i];
        sum[i] = (float)all;
    }
    return code;
}

/* An evaluation that the root asks of the other ranks. */
struct question {
    uint32_t beamformer, points; /* 0: the window has no more evaluations */
    sonar_look look[SONAR_ENGINE_POINTS];
};

/* No rank waits for another one between the evaluations of a window. */
static sonar_code ask(sonar_pipeline *p, sonar_engine_stage beamformer, size_t n,
                      const sonar_look *look, sonar_error *err) {
    struct question q = {.beamformer = beamformer, .points = (uint32_t)n};
    if (n)
        memcpy(q.look, look, n * sizeof *look);
    return ops(p)->broadcast(&q, sizeof q, err);
}

static sonar_code answer(sonar_pipeline *p, sonar_error *err) {
    for (struct question q;;) {
        const sonar_code code = ops(p)->broadcast(&q, sizeof q, err);
        if (code || !q.points)
            return code;
        const sonar_engine_stage beamformer = (sonar_engine_stage)q.beamformer;
        const sonar_code failed =
            sonar_engine_evaluate(p->engine, beamformer, q.points, q.look, NULL, err);
        if (failed)
            return failed;
    }
}

/* Sets whether any rank was stopped during the window. */
static sonar_code share_cancelled(sonar_pipeline *p, sonar_code code, bool *cancelled,
                                  sonar_error *err) {
    const uint8_t mine = sonar_pool_cancelled(p->pool);
    uint8_t all[SONAR_RANKS_MOST];
    if (!code)
        code = ops(p)->share(&mine, 1, all, err);
    for (size_t r = 0; r < p->ranks.agree.ranks && !code; r++)
        *cancelled = *cancelled || all[r];
    return code;
}

static sonar_code end(sonar_pipeline *p, sonar_code code, bool *cancelled, sonar_error *err) {
    (void)cancelled;
    if (code)
        return code;
    return sonar_is_root(p) ? ask(p, SONAR_ENGINE_CBF, 0, NULL, err) : answer(p, err);
}

/* After a failure the ranks no longer agree on their state, so this program has to exit, and mpirun
 * ends the others. */
static bool give_up(sonar_pipeline *p, const sonar_error *why) {
    pthread_mutex_lock(&p->change.lock);
    snprintf(p->change.text, sizeof p->change.text, "rank %zu failed: %.60s: %.100s", p->place.rank,
             why->where, why->text);
    pthread_mutex_unlock(&p->change.lock);
    atomic_store(&p->gave_up, true);
    return false;
}

/* Decides about the agreed window: if it lacks more of the whole array than is allowed, all ranks
 * drop it. */
static enum next take(sonar_pipeline *p, const sonar_verdict *v, struct turn *turn) {
    struct ranks *ranks = &p->ranks;
    const bool present = v->present[p->place.rank];
    for (size_t r = 0; r < ranks->agree.ranks; r++)
        ranks->absent[r] += !v->present[r];
    ranks->worked_ns = 0;
    turn->window =
        sonar_agree_window(&ranks->agree, ranks->offer, &ranks->timeline, v, sonar_monotonic_ns());
    turn->window.missing = ranks->missing;
    turn->samples = present ? &ranks->window : NULL;
    if (!(turn->window.missing_mean <=
          p->whole->max_missing_share)) { /* also if no channel is used */
        ranks->windows_missing++;
        if (present)
            release(p);
        return SONAR_NEXT_LOOK;
    }
    memcpy(ranks->present, v->present, sizeof ranks->present);
    ranks->has = ranks->has && !present; /* the engine releases it */
    return SONAR_NEXT_WORK;
}

/* Returns the result that the root took when the round began. */
static sonar_result *hand_over(sonar_pipeline *p, uint32_t *wanted) {
    sonar_result *result = p->ranks.result;
    p->ranks.result = NULL;
    *wanted = p->ranks.offer[0].wanted;
    return result;
}

/* ---- all rounds ------------------------------------------------------------------------------ */

/* Ranks without a window wake up regularly, so that the others need not wait for them. */
static void wait_for_more(sonar_pipeline *p) {
    enum { LOOK_UP_MS = 10, PAUSE_NS = 1000000 };
    sonar_engine_prefetch(p->engine);
    if (p->ranks.has)
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    else
        sonar_wake_wait(sonar_ingest_fd(p->ingest), LOOK_UP_MS);
}

/* Sends the ranks' measures of elements to the root when all ranks that take part have some. */
static sonar_code share_measures(sonar_pipeline *p, sonar_error *err) {
    struct ranks *ranks = &p->ranks;
    const sonar_offer *offer = ranks->offer;
    size_t size[SONAR_RANKS_MOST];
    bool any = false, all = true;
    uint64_t began = 0;
    for (size_t r = 0; r < ranks->agree.ranks; r++) {
        any = any || offer[r].measured;
        all = all && (offer[r].measured || !ranks->present[r]);
        if (offer[r].measured && offer[r].round_first > began)
            began = offer[r].round_first;
        size[r] = ranks->sensors[r] * sonar_elements_measure_bytes();
    }
    if (!any || !all || !offer[0].judged)
        return SONAR_OK;
    const void *mine = sonar_elements_measures(p->elements);
    const sonar_code code = ops(p)->gather(mine, size, ranks->measures, err);
    if (offer[p->place.rank].measured)
        sonar_elements_go_on(p->elements, began);
    if (!code && sonar_is_root(p))
        sonar_elements_take(p->judged, ranks->measures, ranks->sensor);
    return code;
}

/* Exchanges the offers and does what they ask for. */
static sonar_code share_offers(sonar_pipeline *p, sonar_error *err) {
    sonar_offer mine;
    make_offer(p, &mine);
    sonar_code code = ops(p)->share(&mine, sizeof mine, p->ranks.offer, err);
    if (!code && p->ranks.offer[0].asks)
        code = share_reports(p, err);
    if (!code)
        code = share_measures(p, err);
    return code ? code : sonar_letters_round(p->ranks.change.letters, p->ranks.offer, err);
}

static enum next next_round(sonar_pipeline *p, struct turn *turn) {
    struct ranks *ranks = &p->ranks;
    sonar_error err = {0};
    if (!ranks->worked_ns)
        ranks->worked_ns = sonar_monotonic_ns();
    if (share_offers(p, &err)) {
        sonar_data_note_failure(&p->progress, &err);
        give_up(p, &err);
        return SONAR_NEXT_LEAVE;
    }
    const sonar_verdict v = sonar_agree(&ranks->agree, ranks->offer, &ranks->timeline);
    if (v.drop[p->place.rank] && ranks->has) {
        ranks->windows_foreign++;
        release(p);
    }
    if (v.kind == SONAR_ROUND_RUN)
        return take(p, &v, turn);
    if (v.kind == SONAR_ROUND_WAIT)
        wait_for_more(p);
    return v.kind == SONAR_ROUND_WAIT ? SONAR_NEXT_LOOK : SONAR_NEXT_LEAVE;
}

void sonar_ranks_leave(sonar_pipeline *p) {
    if (!sonar_ranks_split(p))
        return;
    release(p);
    if (p->ranks.result)
        sonar_result_keep(p, p->ranks.result);
    p->ranks.result = NULL;
    atomic_store(&p->ranks.left, !atomic_load(&p->gave_up));
}

const struct sharing sonar_sharing_ranks = {.next = next_round,
                                            .result = hand_over,
                                            .missing = gather_missing,
                                            .tell = tell,
                                            .add = add,
                                            .cancelled = share_cancelled,
                                            .ask = ask,
                                            .end = end,
                                            .recover = give_up};
