/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One live run: starts all processes, observes the stream to its end, stops all processes and
 * evaluates the result. */
#include "live.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"
#include "status/topic.h"

enum {
    START_MS = 300000, /* for the daemon to compute its tables */
    BEFORE_MS = 200,   /* from the start signal to sample 0 */
    TURN_MS = 50,
    DRAIN_MS = 5000,
    END_MS = 30000, /* for the daemon to finish its window and free its memory */
    STOP_MS = 5000  /* the same when its results are not needed */
};
static const double behind_most_ms = 100; /* largest lateness of a sender that keeps pace */
static const double give_up_ms = 2000;    /* with more lateness a run is ended early */
static const double saturated = 0.9;      /* share of a processor */

typedef struct run {
    const live_plan *plan;
    live_result *result;
    char dir[256], path[300],
        client[300]; /* paths of the configuration and of the clients' certificate */
    sonar_config *config;
    sonar_config_part *part[SONAR_RANKS_MOST];
    live_stream stream;
    live_senders *senders;
    live_daemon daemon;
    live_ear ear;
    int64_t start_ns, end_ns; /* begin of the stream, monotonic */
    bool given_up;
    live_usage *before, *after; /* end of the warm-up; end of the stream */
    int64_t cpu_before_ns[LIVE_SENDERS_MOST];
} run;

/* ---- set-up ---------------------------------------------------------------------------------- */

static sonar_code make_dir(run *r, sonar_error *err) {
    const char *base = getenv("TMPDIR");
    /* The path of an ipc endpoint is limited to some 100 bytes. */
    if (!base || !*base || strlen(base) > 64)
        base = "/tmp";
    snprintf(r->dir, sizeof r->dir, "%s/sonar-bench-XXXXXX", base);
    if (!mkdtemp(r->dir)) {
        const int why = errno;
        r->dir[0] = '\0';
        return sonar_fail(err, SONAR_ESYS, base, "no temporary directory: %s", strerror(why));
    }
    snprintf(r->path, sizeof r->path, "%s/sonard.yaml", r->dir);
    snprintf(r->client, sizeof r->client, "%s/" LIVE_CLIENT, r->dir);
    snprintf(r->daemon.log, sizeof r->daemon.log, "%s/sonard.log", r->dir);
    return SONAR_OK;
}

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static uint64_t windows_in(const sonar_config *c, uint64_t samples) {
    return samples < c->specs.window_length ? 0
                                            : (samples - c->specs.window_length) / c->specs.hop + 1;
}

static sonar_code part_channels(run *r, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (size_t k = 0; k < r->plan->ranks && !code; k++) {
        const sonar_rank_place place = {
            .rank = k, .ranks = r->plan->ranks, .ranks_here = r->plan->ranks};
        code = sonar_config_part_create(r->config, &place, &r->part[k], err);
    }
    return code;
}

static size_t default_senders(const run *r) {
    const size_t ranks = r->plan->ranks, channels = (r->config->channels + ranks - 1) / ranks;
    return sonar_min_size(ranks * live_default_senders(channels), LIVE_SENDERS_MOST);
}

/* Every rank needs a sender, and every sender a channel. */
static sonar_code check_senders(const run *r, sonar_error *err) {
    const size_t ranks = r->plan->ranks, senders = r->stream.senders;
    if (senders < ranks)
        return sonar_fail(err, SONAR_EINVAL, "--senders", "%zu for %zu ranks", senders, ranks);
    for (size_t k = 0; k < ranks; k++) {
        const size_t own = (senders - k + ranks - 1) / ranks,
                     channels = r->part[k]->config.channels;
        if (own > channels)
            return sonar_fail(err, SONAR_EINVAL, "--senders", "%zu for %zu channels", own,
                              channels);
    }
    return SONAR_OK;
}

static sonar_code plan_stream(run *r, sonar_error *err) {
    const live_plan *plan = r->plan;
    const sonar_config *c = r->config;
    live_stream *s = &r->stream;
    *s = (live_stream){.config = c,
                       .ranks = plan->ranks,
                       .part = r->part,
                       .layout = plan->layout,
                       .epoch = (uint32_t)time(NULL) | 1};
    s->key = plan->transport == LIVE_CURVE ? r->client : NULL;
    s->senders = plan->senders ? plan->senders : default_senders(r);
    sonar_code code = check_senders(r, err);
    if (code)
        return code;
    if (c->ingest_socket != SONAR_PULL)
        return sonar_fail(err, SONAR_EINVAL, "--set",
                          "ingest.socket must be pull: senders connect");
    const size_t channels = (c->channels + s->senders - 1) / s->senders;
    s->frame_samples = plan->frame_samples ? plan->frame_samples
                                           : live_default_frame_samples(channels, c->specs.hop);
    s->frames =
        (uint64_t)ceil((plan->warm_up_s + plan->seconds) * c->fs_hz / (double)s->frame_samples);
    live_stream_choose_tone(s);
    r->result->windows = windows_in(c, s->frames * s->frame_samples);
    if ((plan->warm_up_s + plan->seconds) * c->fs_hz <
        (double)(c->specs.window_length + c->specs.hop))
        return sonar_fail(err, SONAR_EINVAL, "--seconds", "less than two windows of %zu samples",
                          c->specs.window_length);
    if (plan->seconds * c->fs_hz <
        (double)c->specs.hop) /* a run without a window would count as held */
        return sonar_fail(err, SONAR_EINVAL, "--seconds", "%g s, but a window only every %g s",
                          plan->seconds, (double)c->specs.hop / c->fs_hz);
    return SONAR_OK;
}

/* Senders first, since a process should fork before it has threads. */
static sonar_code start_all(run *r, sonar_error *err) {
    sonar_code code = live_senders_start(&r->stream, &r->senders, err);
    if (code == SONAR_OK)
        code = live_daemon_start(r->plan, r->path, &r->daemon, err);
    if (code == SONAR_OK)
        code = live_ear_open(r->config, r->stream.key, r->result->windows, &r->ear, err);
    return code;
}

/* ---- the stream ------------------------------------------------------------------------------ */

/* Checks that all processes still run and that no signal asks to stop. */
static sonar_code check(run *r, size_t *senders_running, sonar_error *err) {
    if (*r->plan->stop)
        return sonar_fail(err, SONAR_ESTATE, "sonar-bench", "stopped by a signal");
    sonar_code code = live_daemon_check(&r->daemon, err);
    return code ? code : live_senders_check(r->senders, senders_running, err);
}

/* Waits until all senders are prepared and connected and the daemon publishes. */
static sonar_code wait_until_ready(run *r, sonar_error *err) {
    const int64_t until_ns = sonar_monotonic_ns() + (int64_t)START_MS * 1000000;
    size_t running;
    for (bool ready = false; !ready; ready = live_senders_ready(r->senders, 0) && r->ear.status) {
        sonar_code code = check(r, &running, err);
        if (code != SONAR_OK)
            return code;
        if (sonar_monotonic_ns() > until_ns)
            return sonar_fail(err, SONAR_EUNAVAILABLE, "sonard", "not ready after %d s",
                              START_MS / 1000);
        live_ear_listen(&r->ear, TURN_MS);
    }
    return r->plan->ranks > 1 ? live_daemon_find_ranks(&r->daemon, r->plan->ranks, err) : SONAR_OK;
}

static int64_t seconds_ns(double s) {
    return llrint(s * 1e9);
}

static void begin(run *r) {
    r->start_ns = sonar_monotonic_ns() + (int64_t)BEFORE_MS * 1000000;
    r->end_ns = r->start_ns +
                seconds_ns((double)(r->stream.frames * r->stream.frame_samples) / r->config->fs_hz);
    live_senders_begin(r->senders, r->start_ns, sonar_utc_ns() + (int64_t)BEFORE_MS * 1000000);
}

static void note_before(run *r) {
    live_daemon_measure(&r->daemon, r->before);
    for (size_t i = 0; i < r->stream.senders; i++)
        r->cpu_before_ns[i] = atomic_load(&live_sender(r->senders, i)->cpu_ns);
}

static void note_after(run *r) {
    live_result *to = r->result;
    live_daemon_measure(&r->daemon, r->after);
    const double elapsed_ns = (double)(r->after->at_ns - r->before->at_ns);
    for (size_t i = 0; i < r->stream.senders; i++) {
        const int64_t now_ns = atomic_load(&live_sender(r->senders, i)->cpu_ns);
        const double busy = (double)(now_ns - r->cpu_before_ns[i]) / elapsed_ns;
        to->sender_cpu += busy;
        to->sender_busiest = fmax(to->sender_busiest, busy);
    }
    to->load = live_ear_status(&r->ear, "load");
    to->at_end = cJSON_Duplicate(r->ear.status, true);
    to->behind_ms = (double)live_senders_behind_ns(r->senders, r->after->at_ns) / 1e6;
}

/* Only some time after the warm-up, so that figures show the reason. */
static bool is_hopeless(const run *r, int64_t now_ns) {
    return r->before->at_ns && now_ns - r->before->at_ns > 1000000000 &&
           (double)live_senders_behind_ns(r->senders, now_ns) > give_up_ms * 1e6;
}

/* Observes until the stream has ended, by the clock and for every sender, or is too far behind. */
static sonar_code watch_stream(run *r, sonar_error *err) {
    const int64_t steady_ns = r->start_ns + seconds_ns(r->plan->warm_up_s);
    size_t running = 1;
    for (int64_t now_ns; running > 0 || !r->after->at_ns;) {
        live_ear_listen(&r->ear, TURN_MS);
        sonar_code code = check(r, &running, err);
        if (code != SONAR_OK)
            return code;
        now_ns = sonar_monotonic_ns();
        if (!r->before->at_ns && now_ns >= steady_ns)
            note_before(r);
        r->given_up |= is_hopeless(r, now_ns);
        if (r->before->at_ns && !r->after->at_ns && (now_ns >= r->end_ns || r->given_up))
            note_after(r);
        if (r->after->at_ns && (r->given_up || (double)(now_ns - r->end_ns) > give_up_ms * 1e6))
            live_senders_stop(r->senders);
    }
    return SONAR_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

static uint64_t counted(const run *r, const char *path) {
    return (uint64_t)live_ear_status(&r->ear, path);
}

/* Whether the status accounts for every window and all published windows have been received. */
static bool is_settled(const run *r) {
    const uint64_t offered = counted(r, "windows.offered");
    const uint64_t processed = counted(r, "windows.processed");
    const uint64_t begun = offered + counted(r, "windows.dropped.missing") +
                           counted(r, "windows.dropped.skipped") +
                           counted(r, "windows.dropped.shed");
    const bool published = r->ear.received + counted(r, "output.results_dropped") >= processed;
    if (r->plan->ranks > 1) /* a rank may count a window that another one lost */
        return published && processed >= r->result->windows;
    return published && begun >= r->result->windows &&
           offered ==
               processed + counted(r, "windows.failed") + counted(r, "windows.dropped.overload");
}

/* Receives the remaining messages, then stops the daemon, whose last status has the final counts.
 */
static void wind_up(run *r) {
    const int64_t until_ns = sonar_monotonic_ns() + (int64_t)DRAIN_MS * 1000000;
    while (!is_settled(r) && sonar_monotonic_ns() < until_ns &&
           live_daemon_check(&r->daemon, NULL) == SONAR_OK)
        live_ear_listen(&r->ear, TURN_MS);
    r->result->peak_bytes = live_daemon_peak_bytes(&r->daemon);
    const int64_t end_ns = sonar_monotonic_ns() + (int64_t)END_MS * 1000000;
    live_daemon_ask_to_stop(&r->daemon);
    while (live_daemon_check(&r->daemon, NULL) == SONAR_OK && sonar_monotonic_ns() < end_ns)
        live_ear_listen(&r->ear, TURN_MS);
    live_daemon_end(&r->daemon, 0);
    live_ear_listen(&r->ear, TURN_MS);
}

/* Called on every path: ends all processes and removes all files. */
static void close_run(run *r) {
    live_senders_destroy(r->senders);
    live_daemon_end(&r->daemon, STOP_MS);
    live_ear_close(&r->ear);
    if (r->dir[0])
        nftw(r->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    for (size_t k = 0; k < r->plan->ranks; k++)
        sonar_config_part_destroy(r->part[k]);
    sonar_config_destroy(r->config);
    free(r->before);
    free(r->after);
}

/* ---- figures --------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Percentiles of a set of values, which is reordered. */
static live_spread spread_of(double *ms, size_t count) {
    if (count == 0)
        return (live_spread){0, NAN, NAN, NAN, NAN, NAN};
    qsort(ms, count, sizeof *ms, compare);
    double at[4];
    static const double share[4] = {0.5, 0.9, 0.99, 0.999};
    for (int i = 0; i < 4; i++) /* the smallest value that this share of values does not exceed */
        at[i] = ms[sonar_min_size((size_t)ceil(share[i] * (double)count), count) - 1];
    return (live_spread){count, at[0], at[1], at[2], at[3], ms[count - 1]};
}

/* Time at which frame k was due, relative to sample 0. */
static double frame_due_ms(const run *r, uint64_t k) {
    return (double)((k + 1) * r->stream.frame_samples) / r->config->fs_hz * 1e3;
}

/* The largest lateness of frame k over all senders. */
static double frame_late_ms(const run *r, uint64_t k) {
    int64_t worst = 0;
    for (size_t i = 0; i < r->stream.senders; i++)
        if (k < atomic_load(&live_sender(r->senders, i)->frames)) {
            const int64_t late = live_sender(r->senders, i)->frame_lateness_ns[k];
            worst = late > worst ? late : worst;
        }
    return (double)worst / 1e6;
}

static void weigh_windows(run *r, double *from_due, double *from_sent, double *own) {
    live_result *to = r->result;
    const sonar_config *c = r->config;
    size_t n = 0;
    for (uint64_t w = 0; w < to->windows; w++) {
        const live_arrival *a = &r->ear.arrival[w];
        const uint64_t last =
            (w * c->specs.hop + c->specs.window_length - 1) / r->stream.frame_samples;
        const double due_ms = frame_due_ms(r, last);
        const bool came = live_ear_has(&r->ear, w);
        if (due_ms < r->plan->warm_up_s * 1e3)
            continue;
        to->steady_windows++;
        to->steady_received += came;
        to->steady_incomplete += came && a->missing > 0;
        if (!came)
            continue;
        from_due[n] = (double)(a->at_ns - r->start_ns) / 1e6 - due_ms;
        from_sent[n] = from_due[n] - frame_late_ms(r, last);
        own[n++] = a->latency_us / 1e3;
    }
    to->latency = spread_of(from_due, n);
    to->from_sent = spread_of(from_sent, n);
    to->own = spread_of(own, n);
}

static void weigh_senders(run *r, double *late_ms) {
    live_result *to = r->result;
    const uint64_t first =
        (uint64_t)(r->plan->warm_up_s * r->config->fs_hz / (double)r->stream.frame_samples);
    size_t count = 0;
    for (size_t i = 0; i < r->stream.senders; i++) {
        const live_sender_state *s = live_sender(r->senders, i);
        const uint64_t frames = atomic_load(&s->frames);
        for (uint64_t k = first; k < frames; k++)
            late_ms[count++] = (double)s->frame_lateness_ns[k] / 1e6;
        to->frames_sent += frames;
        to->frames_blocked += atomic_load(&s->blocked);
        to->blocked_s += (double)atomic_load(&s->blocked_ns) / 1e9;
    }
    to->lateness = spread_of(late_ms, count);
    if (count)
        to->behind_ms = fmax(to->behind_ms, to->lateness.max_ms);
}

/* Each of several ranks counts why it lacked a window. Here each window gets one cause, that of the
 * rank where the loss began: a window that one rank dropped is missing for the whole array. */
static void share_out_losses(live_result *to, uint64_t unprocessed) {
    static const live_loss in_turn[] = {LIVE_FAILED, LIVE_OVERLOAD, LIVE_SHED, LIVE_SKIPPED,
                                        LIVE_MISSING};
    for (size_t i = 0; i < sizeof in_turn / sizeof *in_turn; i++) {
        uint64_t *lost = &to->lost[in_turn[i]];
        *lost = *lost < unprocessed ? *lost : unprocessed;
        unprocessed -= *lost;
    }
    to->lost[LIVE_NOT_SENT] = unprocessed;
}

/* Every expected window is received or lost for one cause; the remainder is reported as
 * unaccounted. */
static void account(run *r) {
    live_result *to = r->result;
    const uint64_t offered = counted(r, "windows.offered");
    const uint64_t processed = counted(r, "windows.processed");
    const uint64_t in_output = counted(r, "output.results_dropped");
    to->received = r->ear.received;
    to->lost[LIVE_OVERLOAD] = counted(r, "windows.dropped.overload");
    to->lost[LIVE_MISSING] = counted(r, "windows.dropped.missing");
    to->lost[LIVE_SKIPPED] = counted(r, "windows.dropped.skipped");
    to->lost[LIVE_SHED] = counted(r, "windows.dropped.shed");
    to->lost[LIVE_FAILED] = counted(r, "windows.failed");
    to->lost[LIVE_OUTPUT] = in_output;
    if (processed > in_output + to->received)
        to->lost[LIVE_SUBSCRIBER] = processed - in_output - to->received;
    if (r->plan->ranks > 1) { /* the last status may be older than the last window */
        const uint64_t done = sonar_max_size(processed, to->received);
        share_out_losses(to, done < to->windows ? to->windows - done : 0);
    }
    const uint64_t begun =
        offered + to->lost[LIVE_MISSING] + to->lost[LIVE_SKIPPED] + to->lost[LIVE_SHED];
    if (to->windows > begun && r->plan->ranks == 1)
        to->lost[LIVE_NOT_SENT] = to->windows - begun;
    to->unaccounted = (int64_t)(to->windows - to->received);
    for (int i = 0; i < LIVE_LOSSES; i++)
        to->unaccounted -= (int64_t)to->lost[i];
}

/* Sums threads of one kind: libzmq numbers its threads, as in ZMQbg/IO/0. */
static void add_thread(live_result *to, char *name, double busy) {
    size_t i = 0;
    char *number = strrchr(name, '/');
    if (number && number[1] && strspn(number + 1, "0123456789") == strlen(number + 1))
        *number = '\0';
    while (i < to->threads && strcmp(to->thread[i].name, name) != 0)
        i++;
    if (i == LIVE_NAMES_MOST)
        return;
    if (i == to->threads)
        snprintf(to->thread[to->threads++].name, sizeof to->thread[i].name, "%s", name);
    to->thread[i].count++;
    to->thread[i].all += busy;
    to->thread[i].busiest = fmax(to->thread[i].busiest, busy);
}

static int by_busiest(const void *a, const void *b) {
    return -compare(&((const live_thread *)a)->busiest, &((const live_thread *)b)->busiest);
}

static void weigh_threads(run *r) {
    live_result *to = r->result;
    const live_usage *a = r->before;
    live_usage *b = r->after;
    const double elapsed_s = (double)(b->at_ns - a->at_ns) / 1e9;
    to->cpu = (b->cpu_s - a->cpu_s) / elapsed_s;
    to->machine_busy =
        (b->machine_busy_s - a->machine_busy_s) / fmax(b->machine_all_s - a->machine_all_s, 1e-9);
    for (size_t i = 0; i < b->threads; i++)
        for (size_t k = 0; k < a->threads; k++)
            if (a->thread[k].id == b->thread[i].id)
                add_thread(to, b->thread[i].name,
                           (b->thread[i].cpu_s - a->thread[k].cpu_s) / elapsed_s);
    qsort(to->thread, to->threads, sizeof *to->thread, by_busiest);
}

/* ---- the verdict ----------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void give_reason(live_result *to, const char *format,
                                                              ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(to->reason[to->reasons++], sizeof to->reason[0], format, args);
    va_end(args);
}

static void find_losses(live_result *to) {
    char causes[128] = "";
    if (to->steady_received == to->steady_windows)
        return;
    for (int i = 0; i < LIVE_LOSSES; i++) {
        const size_t used = strlen(causes);
        if (to->lost[i])
            snprintf(causes + used, sizeof causes - used, "%s%s %" PRIu64, used ? ", " : "",
                     live_loss_name((live_loss)i), to->lost[i]);
    }
    give_reason(to, "%" PRIu64 " of %" PRIu64 " windows lost; in the whole run: %s",
                to->steady_windows - to->steady_received, to->steady_windows, causes);
}

__attribute__((format(printf, 2, 3))) static void note_full(live_result *to, const char *format,
                                                            ...) {
    va_list args;
    if (to->saturated == LIVE_REASONS_MOST)
        return;
    va_start(args, format);
    vsnprintf(to->full[to->saturated++], sizeof to->full[0], format, args);
    va_end(args);
}

/* If the daemon crashes while it stops, its measurements are complete, but the run is not held. */
static void find_bad_end(run *r) {
    sonar_error err = {0};
    if (live_daemon_ended_well(&r->daemon))
        return;
    live_daemon_check(&r->daemon, &err);
    give_reason(r->result, "when asked to stop, sonard %s", err.text);
}

/* Reports a topic that came for fewer windows than were published. */
static void find_gaps(live_result *to, uint64_t published) {
    char topics[160] = "";
    for (int i = 0; i < SONAR_SURFACES; i++) {
        const size_t used = strlen(topics);
        if (to->topics & SONAR_WANT(i) && i != SONAR_STATUS && to->came[i] < published)
            snprintf(topics + used, sizeof topics - used, "%s%s %" PRIu64, used ? ", " : "",
                     sonar_topic_name((sonar_surface)i), to->came[i]);
    }
    if (*topics)
        give_reason(to, "of %" PRIu64 " windows published were received: %s", published, topics);
}

static void judge(live_result *to) {
    find_losses(to);
    if (to->steady_incomplete)
        give_reason(to, "%" PRIu64 " windows with samples missing", to->steady_incomplete);
    if (to->behind_ms > behind_most_ms && to->frames_blocked)
        give_reason(to,
                    "a sender fell %.0f ms behind: the socket first had no room for %" PRIu64
                    " of %" PRIu64 " frames",
                    to->behind_ms, to->frames_blocked, to->frames_sent);
    else if (to->behind_ms > behind_most_ms)
        give_reason(to, "a sender fell %.0f ms behind by itself: the socket always had room",
                    to->behind_ms);
    to->held = to->reasons == 0;
    if (to->machine_busy >= saturated)
        note_full(to, "the machine %.0f %%", 100 * to->machine_busy);
    for (size_t i = 0; i < to->threads; i++)
        if (to->thread[i].busiest >= saturated)
            note_full(to, "%s %.0f %%", to->thread[i].name, 100 * to->thread[i].busiest);
    if (to->load >= saturated)
        note_full(to, "load of the data thread %.0f %%", 100 * to->load);
    if (to->sender_busiest >= saturated)
        note_full(to, "a sender %.0f %%", 100 * to->sender_busiest);
}

static void describe(run *r) {
    live_result *to = r->result;
    const sonar_config *c = r->config;
    const cJSON *backend = cJSON_GetObjectItemCaseSensitive(r->ear.status, "backend");
    snprintf(to->backend, sizeof to->backend, "%s",
             cJSON_IsString(backend) ? backend->valuestring : "unknown");
    to->stream = r->stream;
    to->stream.config = NULL;
    to->stream.part = NULL;
    to->channels = c->channels;
    to->directions = c->cbf_scan.count;
    to->ranges = c->specs.cbf.ranges;
    to->length = c->specs.window_length;
    to->hop = c->specs.hop;
    to->first_bin = c->cbf_band.first_bin;
    to->bins = c->cbf_band.bins;
    to->mvdr = c->specs.mvdr_enabled;
    to->fs_hz = c->fs_hz;
    to->tone_az_deg = c->cbf_scan.az_deg[r->stream.tone_direction];
    to->found_az_deg = r->ear.peak_deg;
    to->topics = c->output_topics;
    memcpy(to->came, r->ear.came, sizeof to->came);
    to->resident_bytes = live_ear_status(&r->ear, "resident_bytes");
}

/* If a subscribed topic never came, the figures would not be those of the run's name. */
static sonar_code check_topics(const run *r, sonar_error *err) {
    const uint64_t processed = counted(r, "windows.processed");
    for (int i = 0; i < SONAR_SURFACES && r->ear.received + processed > 0; i++)
        if (r->ear.topics & SONAR_WANT(i) && !r->ear.came[i])
            return sonar_fail(err, SONAR_ESTATE, sonar_topic_name((sonar_surface)i),
                              "subscribed to, but received for none of %" PRIu64
                              " windows that were processed",
                              processed);
    return SONAR_OK;
}

static sonar_code conclude(run *r, sonar_error *err) {
    sonar_code code = check_topics(r, err);
    if (code != SONAR_OK)
        return code;
    const size_t windows = (size_t)r->result->windows;
    const size_t frames = (size_t)r->stream.frames * r->stream.senders;
    double *values = sonar_alloc(3 * windows + frames, sizeof *values);
    if (!values)
        return sonar_fail(err, SONAR_ENOMEM, "figures", "out of memory");
    describe(r);
    account(r);
    weigh_windows(r, values, values + windows, values + 2 * windows);
    weigh_senders(r, values + 3 * windows);
    weigh_threads(r);
    find_bad_end(r);
    find_gaps(r->result, counted(r, "windows.processed") - counted(r, "output.results_dropped"));
    judge(r->result);
    r->result->status = r->ear.status;
    r->ear.status = NULL;
    free(values);
    return SONAR_OK;
}

/* ---- the run --------------------------------------------------------------------------------- */

static sonar_code run_all(run *r, sonar_error *err) {
    r->before = sonar_alloc(1, sizeof *r->before);
    r->after = sonar_alloc(1, sizeof *r->after);
    if (!r->before || !r->after)
        return sonar_fail(err, SONAR_ENOMEM, "sonar-bench", "out of memory");
    const int64_t began_ns = sonar_monotonic_ns();
    sonar_code code = make_dir(r, err);
    if (code == SONAR_OK)
        code = live_config_write(r->plan, r->dir, r->path, &r->config, err);
    if (code == SONAR_OK)
        code = part_channels(r, err);
    if (code == SONAR_OK)
        code = plan_stream(r, err);
    if (code == SONAR_OK)
        code = start_all(r, err);
    if (code == SONAR_OK)
        code = wait_until_ready(r, err);
    if (code != SONAR_OK)
        return code;
    begin(r);
    fprintf(stderr, "sonar-bench: ready after %.1f s; streaming\n",
            (double)(r->start_ns - began_ns) / 1e9);
    code = watch_stream(r, err);
    if (code != SONAR_OK)
        return code;
    wind_up(r);
    return conclude(r, err);
}

sonar_code live_run(const live_plan *plan, live_result *result, sonar_error *err) {
    *result = (live_result){.plan = *plan};
    run r = {.plan = plan, .result = result};
    sonar_code code = run_all(&r, err);
    close_run(&r);
    return code;
}

void live_result_clear(live_result *result) {
    cJSON_Delete(result->status);
    cJSON_Delete(result->at_end);
    result->status = result->at_end = NULL;
}
