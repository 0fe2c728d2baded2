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

/* A daemon knows by the epoch that counting has begun anew. */
static uint32_t epoch_of(const sim_stream *s) {
    return s->options->epoch ? (uint32_t)s->options->epoch
                             : (uint32_t)(sonar_utc_ns() / 1000000000);
}

static bool waits(const sim_stream *s) {
    return s->options->wait || s->options->rate == 0;
}

/* A daemon that gives up windows never makes its digitisers wait: its results have to be looked at.
 */
static sonar_code listen_to_daemon(sim_stream *s, uint32_t epoch, sonar_error *err) {
    if (!waits(s) || !s->config || s->config->overload == SONAR_BLOCK)
        return SONAR_OK;
    return sim_feedback_create(s->zmq, s->config, s->options->key, epoch, s->first_index,
                               &s->feedback, err);
}

sonar_code sim_stream_connect(sim_stream *s, const sim_sender_spec *about, sonar_error *err) {
    const sonar_config *c = s->config;
    const char *given = s->options->endpoint, *endpoint[SONAR_ENDPOINTS_MOST] = {given};
    for (size_t i = 0; !given && i < c->ingest_endpoints; i++)
        endpoint[i] = c->ingest_endpoint[i];
    sim_sender_spec spec = *about;
    spec.zmq_context = s->zmq;
    spec.endpoints = endpoint;
    spec.endpoint_count = given ? 1 : c->ingest_endpoints;
    spec.publish = c && c->ingest_socket == SONAR_SUB;
    spec.block = waits(s);
    spec.high_water_mark = HIGH_WATER_MARK;
    spec.key = s->options->key;
    if (s->options->shared && !(c && c->shared_memory))
        return sonar_fail(err, SONAR_EINVAL, "--shared-memory",
                          "needs a --config with ingest.shared_memory");
    spec.memory = s->options->shared ? c->shared_memory : NULL;
    spec.curve = c && c->security.curve && !given;
    spec.epoch = epoch_of(s);
    spec.stop = s->stop;
    s->first_index = spec.first_index;
    s->pace = (sim_pace){.fs_hz = spec.fs_hz, .rate = s->options->rate, .stop = s->stop};
    sonar_code code = sim_sender_create(&spec, &s->sender, err);
    if (code == SONAR_OK)
        fprintf(stderr, "%s: waiting for a receiver at %s\n", s->tool, endpoint[0]);
    return code == SONAR_OK ? listen_to_daemon(s, spec.epoch, err) : code;
}

/* Without a word from the daemon only a daemon that holds its digitisers back loses nothing. */
static void say_what_to_set(const sim_stream *s) {
    fprintf(stderr,
            "%s: %s: the daemon's pace is not known; it loses windows if it computes more slowly, "
            "unless its configuration says 'ingest: {overload: block}'\n",
            s->tool, s->config ? "no status comes from output.endpoint" : "there is no --config");
}

sonar_code sim_stream_begin(sim_stream *s, sonar_error *err) {
    sonar_code code = sim_sender_wait(s->sender, -1, err);
    if (code != SONAR_OK)
        return code;
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

void sim_stream_seek(sim_stream *s, bool anew, uint64_t index, int64_t utc_ns, uint16_t flags) {
    const uint64_t sent = sim_sender_counters(s->sender)->samples;
    const bool jump = anew || index != s->first_index + sent;
    if (s->feedback && jump && sent)
        sim_feedback_finish(s->feedback, s->first_index + sent, SILENT_MS, s->stop);
    sim_sender_seek(s->sender, anew, index, utc_ns, flags);
    s->first_index = index - sent; /* so that the index is this and what was sent in all */
    if (s->feedback && jump)
        sim_feedback_restart(s->feedback, sim_sender_epoch(s->sender), index);
}

/* ---- the end --------------------------------------------------------------------------------- */

void sim_stream_summarise(const sim_stream *s, const sim_counters *counters) {
    if (s->lag.most_s >= 1)
        fprintf(stderr, "%s: was up to %.1f s behind the pace, %.1f s at the end\n", s->tool,
                s->lag.most_s, s->lag.last_s);
    if (counters->overflow)
        fprintf(stderr,
                "%s: %" PRIu64 " of %" PRIu64 " frames lost, for the receiver did not take them in "
                "time; --wait waits for it\n",
                s->tool, counters->overflow, counters->frames);
    sim_counters_write(counters, &s->lag, s->summary);
    fflush(s->summary);
}

void sim_stream_close(sim_stream *s, int linger_ms) {
    const sim_counters *counters = s->sender ? sim_sender_counters(s->sender) : NULL;
    if (s->feedback)
        sim_feedback_finish(s->feedback, s->first_index + counters->samples, SILENT_MS, s->stop);
    if (counters)
        sim_stream_summarise(s, counters);
    sim_sender_destroy(s->sender, linger_ms);
    sim_feedback_destroy(s->feedback);
    if (s->summary && s->summary != stdout)
        fclose(s->summary);
    if (s->zmq)
        zmq_ctx_term(s->zmq);
}
