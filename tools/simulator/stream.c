/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "stream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "core/core.h"

enum { HIGH_WATER_MARK = 16, SILENT_MS = 5000 };

/* ---- options --------------------------------------------------------------------------------- */

tool_answer sim_take_endpoint(void *options, const char *value) {
    ((sim_stream_options *)options)->endpoint = value;
    bool good = strncmp(value, "tcp://", 6) == 0 || strncmp(value, "ipc://", 6) == 0;
    return good ? TOOL_TAKEN : TOOL_REFUSED;
}

tool_answer sim_take_rate(void *options, const char *value) {
    double *rate = &((sim_stream_options *)options)->rate;
    return sim_rate_parse(value, rate) ? TOOL_TAKEN : TOOL_REFUSED;
}

tool_answer sim_take_format(void *options, const char *value) {
    static const char *const name[] = {"s16", "s24", "s32", "f32"};
    for (int i = 0; i < 4; i++)
        if (strcmp(value, name[i]) == 0) {
            ((sim_stream_options *)options)->format = SONAR_S16 + i;
            return TOOL_TAKEN;
        }
    return TOOL_REFUSED;
}

bool sim_load_config(const char *path, sonar_config **config) {
    sonar_report *report = sonar_report_create();
    sonar_code code = report ? sonar_config_load(path, config, report) : SONAR_ENOMEM;
    if (code != SONAR_OK && report)
        sonar_report_write(report, stderr);
    sonar_report_destroy(report);
    return code == SONAR_OK;
}

int sim_complain(const char *tool, const sonar_error *err) {
    bool usage = err->code == SONAR_EINVAL || err->code == SONAR_EUNAVAILABLE;
    fprintf(stderr, "%s: %s: %s\n", tool, err->where, err->text);
    return usage ? SIM_STREAM_WRONG_USAGE : SIM_STREAM_FAILED;
}

/* ---- setting up ------------------------------------------------------------------------------ */

sonar_code sim_stream_open(sim_stream *s, sonar_error *err) {
    const char *path = s->options->summary;
    s->zmq = zmq_ctx_new();
    if (!s->zmq)
        return sonar_fail(err, SONAR_ENOMEM, "zmq", "no context");
    s->summary = path ? fopen(path, "we") : stdout;
    return s->summary ? SONAR_OK
                      : sonar_fail(err, SONAR_EINVAL, "--summary", "%s: %s", path, strerror(errno));
}

/* The epoch shows a daemon that counting has restarted. */
uint32_t sim_stream_epoch(const sim_stream_options *options) {
    return options->epoch ? (uint32_t)options->epoch : (uint32_t)(sonar_utc_ns() / 1000000000);
}

static bool waits(const sim_stream *s) {
    return s->options->wait || (s->options->rate == 0 && !s->options->live);
}

/* A daemon that drops windows never makes its digitisers wait, so the sender has to follow its
 * results. */
static sonar_code listen_to_daemon(sim_stream *s, uint32_t epoch, sonar_error *err) {
    if (!waits(s) || !s->config || s->config->overload == SONAR_BLOCK)
        return SONAR_OK;
    return sim_feedback_create(s->zmq, s->config, s->options->key, epoch, s->first_index,
                               &s->feedback, err);
}

size_t sim_stream_ranks(const sim_stream *s) {
    if (s->of_ranks)
        return 1;
    if (s->options->ranks)
        return (size_t)s->options->ranks;
    return s->config && s->config->cluster_ranks ? s->config->cluster_ranks : 1;
}

/* Where each rank receives its channels; a single process receives all of them at one place. */
struct places {
    size_t ranks;
    sonar_config_part *part[SONAR_RANKS_MOST];
    const char *given; /* --endpoint */
    sim_target target[SONAR_RANKS_MOST];
};

static sonar_code check_ranks(const sim_stream *s, size_t ranks, sonar_error *err) {
    const uint64_t rank = s->options->rank;
    const size_t of_config = s->config ? s->config->cluster_ranks : 0;
    if (ranks > 1 && (s->options->endpoint || !s->config))
        return sonar_fail(err, SONAR_EINVAL, "--endpoint",
                          "is one endpoint, but each of %zu ranks has its own: a --config with "
                          "{rank} in ingest.endpoints is needed, or --ranks 1",
                          ranks);
    if (ranks > 1 && of_config && of_config != ranks)
        return sonar_fail(err, SONAR_EINVAL, "--ranks", "%zu, but cluster.ranks are %zu", ranks,
                          of_config);
    if (rank != UINT64_MAX && rank >= ranks)
        return sonar_fail(err, SONAR_EINVAL, "--rank", "%" PRIu64 ", but there are ranks 0 to %zu",
                          rank, ranks - 1);
    return SONAR_OK;
}

/* Finds where rank `rank` receives, and stores it in target `to`. */
static sonar_code find_rank(const sim_stream *s, struct places *at, size_t to, size_t rank,
                            size_t ranks, sonar_error *err) {
    const sonar_rank_place place = {.rank = rank, .ranks = ranks, .ranks_here = ranks};
    sonar_code code = sonar_config_part_create(s->config, &place, &at->part[to], err);
    if (code)
        return code;
    const sonar_config *c = &at->part[to]->config;
    for (size_t i = 0; i < c->ingest_endpoints && to; i++)
        if (!strcmp(c->ingest_endpoint[i], at->part[0]->config.ingest_endpoint[i]))
            return sonar_fail(
                err, SONAR_EINVAL, "ingest.endpoints",
                "%s is the endpoint of rank 0 and of rank %zu: it must contain {rank}",
                c->ingest_endpoint[i], rank);
    at->target[to] = (sim_target){
        .endpoints = (const char *const *)c->ingest_endpoint,
        .endpoint_count = c->ingest_endpoints,
        .memory = s->options->shared ? c->shared_memory : NULL,
        .first_channel = at->part[to]->first_channel,
        .channels = c->channels,
        .idle = s->options->rank != UINT64_MAX && s->options->rank != rank,
    };
    return SONAR_OK;
}

/* Call forget in any case. */
static sonar_code find_places(const sim_stream *s, size_t channels, struct places *at,
                              sonar_error *err) {
    const sonar_config *c = s->config;
    *at = (struct places){.ranks = sim_stream_ranks(s), .given = s->options->endpoint};
    if (s->of_ranks)
        return find_rank(s, at, 0, s->of_rank, s->of_ranks, err);
    sonar_code code = check_ranks(s, at->ranks, err);
    for (size_t r = 0; r < at->ranks && at->ranks > 1 && !code; r++)
        code = find_rank(s, at, r, r, at->ranks, err);
    if (at->ranks == 1)
        at->target[0] = (sim_target){
            .endpoints = at->given ? &at->given : (const char *const *)c->ingest_endpoint,
            .endpoint_count = at->given ? 1 : c->ingest_endpoints,
            .memory = s->options->shared ? c->shared_memory : NULL,
            .channels = channels};
    return code;
}

static void forget_places(struct places *at) {
    for (size_t r = 0; r < at->ranks; r++)
        sonar_config_part_destroy(at->part[r]);
}

/* The first endpoint that it connects to. */
static const char *first_endpoint(const struct places *at) {
    size_t r = 0;
    while (at->target[r].idle)
        r++;
    return at->target[r].endpoints[0];
}

static sonar_code make_sender(sim_stream *s, const sim_sender_spec *about, sonar_error *err) {
    const sonar_config *c = s->config;
    struct places at;
    sim_sender_spec spec = *about;
    sonar_code code = find_places(s, spec.channels, &at, err);
    spec.zmq_context = s->zmq;
    spec.target = at.target;
    spec.targets = s->ranks = at.ranks;
    spec.publish = c && c->ingest_socket == SONAR_SUB;
    spec.block = waits(s);
    spec.high_water_mark = HIGH_WATER_MARK;
    spec.key = s->options->key;
    spec.curve = c && c->security.curve && !at.given;
    spec.stop = s->stop;
    if (!code)
        code = sim_sender_create(&spec, &s->sender, err);
    if (!code) {
        snprintf(s->endpoint, sizeof s->endpoint, "%s%s", first_endpoint(&at),
                 at.ranks > 1 && s->options->rank == UINT64_MAX ? ", and of the other ranks" : "");
        fprintf(stderr, "%s: waiting for a receiver at %s\n", s->tool, s->endpoint);
    }
    forget_places(&at);
    return code;
}

sonar_code sim_stream_connect(sim_stream *s, const sim_sender_spec *about, sonar_error *err) {
    sim_sender_spec spec = *about;
    if (s->options->shared && !(s->config && s->config->shared_memory))
        return sonar_fail(err, SONAR_EINVAL, "--shared-memory",
                          "needs a --config with ingest.shared_memory");
    spec.epoch = sim_stream_epoch(s->options);
    s->first_index = spec.first_index;
    s->pace = (sim_pace){.fs_hz = spec.fs_hz, .rate = s->options->rate, .stop = s->stop};
    sonar_code code = make_sender(s, &spec, err);
    if (!code && s->config && !s->options->endpoint)
        code = sim_receiver_create(s->zmq, s->config, &s->receiver, err);
    return code == SONAR_OK ? listen_to_daemon(s, spec.epoch, err) : code;
}

/* Without results of the daemon, windows can be lost unless the daemon makes its digitisers
 * wait. */
static void say_what_to_set(const sim_stream *s) {
    fprintf(stderr,
            "%s: %s: the daemon's pace is not known; it loses windows if it computes more slowly, "
            "unless its configuration says 'ingest: {overload: block}'\n",
            s->tool, s->config ? "no status from output.endpoint" : "there is no --config");
}

sonar_code sim_stream_begin(sim_stream *s, sonar_error *err) {
    sonar_code code = sim_sender_wait(s->sender, -1, err);
    if (!code)
        code = sim_receiver_check(s->receiver, s->tool, s->endpoint, s->stop, err);
    if (code != SONAR_OK)
        return code;
    sim_receiver_destroy(s->receiver);
    s->receiver = NULL;
    if (s->feedback && !sim_feedback_hears(s->feedback, SILENT_MS, s->stop)) {
        sim_feedback_destroy(s->feedback);
        s->feedback = NULL;
        say_what_to_set(s);
    } else if (waits(s) && !s->config) {
        say_what_to_set(s);
    }
    s->pace.start_ns = sonar_monotonic_ns();
    return SONAR_OK;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void say_lag(sim_stream *s, uint64_t samples) {
    char text[160];
    double waited_s = (double)(s->waited_ns + sim_sender_counters(s->sender)->waited_ns) / 1e9;
    const char *what = sim_lag_note(&s->lag, sonar_monotonic_ns(),
                                    sim_pace_lag_s(&s->pace, samples), waited_s, text);
    if (what)
        fprintf(stderr, "%s: %s\n", s->tool, what);
}

static bool wait_for_daemon(sim_stream *s, uint64_t sent, uint64_t end) {
    int64_t began = sonar_monotonic_ns();
    bool go = !s->feedback ||
              sim_feedback_wait(s->feedback, s->first_index + sent, s->first_index + end, s->stop);
    s->waited_ns += sonar_monotonic_ns() - began;
    return go;
}

bool sim_stream_send_some(sim_stream *s, const float *counts, size_t samples, const uint8_t *absent,
                          bool whole, sonar_error *err) {
    uint64_t sent = sim_sender_counters(s->sender)->samples, end = sent + samples;
    if (!sim_pace_wait(&s->pace, end))
        return false;
    say_lag(s, end);
    if (!wait_for_daemon(s, sent, end))
        return false;
    return (whole ? sim_sender_send_whole(s->sender, counts, samples, err)
                  : sim_sender_send_some(s->sender, counts, samples, absent, err)) == SONAR_OK;
}

bool sim_stream_send(sim_stream *s, const float *counts, size_t samples, sonar_error *err) {
    return sim_stream_send_some(s, counts, samples, NULL, false, err);
}

void sim_stream_seek(sim_stream *s, bool new_stream, uint64_t index, int64_t utc_ns,
                     uint16_t flags) {
    const uint64_t sent = sim_sender_counters(s->sender)->samples;
    const bool jump = new_stream || index != s->first_index + sent;
    if (s->feedback && jump && sent)
        sim_feedback_finish(s->feedback, s->first_index + sent, SILENT_MS, s->stop);
    sim_sender_seek(s->sender, new_stream, index, utc_ns, flags);
    s->first_index =
        index - sent; /* so that the index is this one plus the total of samples sent */
    if (s->feedback && jump)
        sim_feedback_restart(s->feedback, sim_sender_epoch(s->sender), index);
}

/* ---- the end --------------------------------------------------------------------------------- */

void sim_stream_summarise(const sim_stream *s, const sim_counters *counters) {
    if (s->lag.most_s >= 1)
        fprintf(stderr, "%s: lagged up to %.1f s behind the pace, %.1f s at the end\n", s->tool,
                s->lag.most_s, s->lag.last_s);
    if (counters->overflow)
        fprintf(stderr,
                "%s: %" PRIu64 " of %" PRIu64
                " frames lost, because the receiver did not read them in "
                "time; use --wait to wait for it\n",
                s->tool, counters->overflow, counters->frames);
    const sim_counters *of_rank[SONAR_RANKS_MOST] = {NULL};
    for (size_t r = 0; r < s->ranks && s->sender; r++)
        of_rank[r] = sim_sender_target_counters(s->sender, r);
    sim_counters_write(counters, &s->lag, s->sender ? s->ranks : 0, of_rank, s->summary);
    fflush(s->summary);
}

void sim_stream_close(sim_stream *s, int linger_ms) {
    const sim_counters *counters = s->sender ? sim_sender_counters(s->sender) : NULL;
    if (s->feedback)
        sim_feedback_finish(s->feedback, s->first_index + counters->samples, SILENT_MS, s->stop);
    if (counters)
        sim_stream_summarise(s, counters);
    sonar_held held = {0};
    if (s->sender && linger_ms)
        sim_sender_hold(s->sender, &held);
    sim_sender_destroy(s->sender, linger_ms);
    sim_feedback_destroy(s->feedback);
    sim_receiver_destroy(s->receiver);
    if (s->summary && s->summary != stdout)
        fclose(s->summary);
    if (s->zmq)
        zmq_ctx_term(s->zmq);
    sonar_connections_release(&held, linger_ms, s->stop);
}
