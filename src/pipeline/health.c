/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "pipeline/health.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

void sonar_health_init(sonar_health *health, const sonar_config *config) {
    *health =
        (sonar_health){.config = config, .cause = SONAR_FRAME_CAUSES, .logged = SONAR_FRAME_CAUSES};
}

sonar_condition *sonar_health_report(sonar_status *status, sonar_condition_code code,
                                     sonar_condition_severity severity, const char *format, ...) {
    sonar_condition *condition = &status->condition[status->conditions++];
    *condition = (sonar_condition){.code = code, .severity = severity, .value = NAN, .limit = NAN};
    va_list list;
    va_start(list, format);
    vsnprintf(condition->text, sizeof condition->text, format, list);
    va_end(list);
    return condition;
}

/* How much a counter has grown since the last look. */
static uint64_t growth(uint64_t *seen, uint64_t now) {
    uint64_t grown = now - *seen;
    *seen = now;
    return grown;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* What this daemon would have accepted, for the causes that a configuration can mend. */
static void expectation(const sonar_config *c, sonar_frame_cause cause, char text[64]) {
    switch (cause) {
    case SONAR_FRAME_WRONG_RATE:
        snprintf(text, 64, "; fs_hz is %g", c->fs_hz);
        break;
    case SONAR_FRAME_WRONG_ARRAY:
        snprintf(text, 64, "; array.id is %u", c->array_id);
        break;
    case SONAR_FRAME_WRONG_CHANNELS:
        snprintf(text, 64, "; the array has %zu channels", c->channels);
        break;
    default:
        text[0] = '\0';
    }
}

/* Frames that were refused, by the most frequent cause. */
static void judge_frames(sonar_health *h, const sonar_health_facts *facts, sonar_status *status) {
    uint64_t most = 0, fresh = 0;
    (void)facts;
    h->cause = SONAR_FRAME_CAUSES;
    for (int i = 0; i < SONAR_FRAME_CAUSES; i++) {
        uint64_t count = growth(&h->dropped[i], status->ingest.frames_dropped[i]);
        fresh += count;
        if (count > most)
            h->cause = (sonar_frame_cause)i;
        most = sonar_max_size(most, count);
    }
    uint64_t received = growth(&h->received, status->ingest.frames_received);
    if (!fresh)
        return;
    char expected[64];
    expectation(h->config, h->cause, expected);
    sonar_health_report(status, SONAR_CONDITION_FRAMES_DROPPED, SONAR_DEGRADED,
                        "%llu of %llu frames dropped: %s %llu%s", (unsigned long long)fresh,
                        (unsigned long long)sonar_max_size(received, fresh),
                        sonar_frame_cause_name(h->cause), (unsigned long long)most, expected)
        ->value = (double)fresh;
}

static void judge_silence(sonar_health *h, const sonar_health_facts *facts, sonar_status *status) {
    const sonar_ingest_counters *in = &status->ingest;
    int64_t silence_ms = (facts->now_ns - in->last_frame_ns) / 1000000;
    status->waiting_for_samples = !in->last_frame_ns || silence_ms > h->config->silent_after_ms;
    if (!in->last_frame_ns) {
        sonar_health_report(status, SONAR_CONDITION_NO_SAMPLES, SONAR_WAITING, "no samples yet");
    } else if (status->waiting_for_samples) {
        sonar_condition *silent =
            sonar_health_report(status, SONAR_CONDITION_NO_SAMPLES, SONAR_WAITING,
                                "no samples for %.1f s", (double)silence_ms * 1e-3);
        silent->value = (double)silence_ms * 1e-3;
        silent->limit = h->config->silent_after_ms * 1e-3;
    } else if (in->blocks_silent) {
        sonar_health_report(status, SONAR_CONDITION_BLOCKS_SILENT, SONAR_DEGRADED,
                            "%u of %u channel blocks silent", in->blocks_silent, in->blocks_seen);
    }
}

/* ---- windows and results --------------------------------------------------------------------- */

/* Windows and results that were lost, by their cause. */
static void judge_losses(sonar_health *h, const sonar_health_facts *facts, sonar_status *status) {
    const uint64_t *dropped = status->ingest.windows_dropped;
    struct {
        sonar_condition_code code;
        uint64_t count, *seen;
        const char *what;
    } loss[] = {
        {SONAR_CONDITION_WINDOWS_FAILED, status->windows_failed, &h->windows_failed,
         "windows failed"},
        {SONAR_CONDITION_WINDOWS_OVERLOAD, dropped[SONAR_WINDOW_OVERLOAD],
         &h->windows_dropped[SONAR_WINDOW_OVERLOAD], "windows dropped: computing is too slow"},
        {SONAR_CONDITION_WINDOWS_MISSING, dropped[SONAR_WINDOW_MISSING],
         &h->windows_dropped[SONAR_WINDOW_MISSING], "windows dropped: too many samples missing"},
        {SONAR_CONDITION_WINDOWS_SKIPPED, dropped[SONAR_WINDOW_SKIPPED],
         &h->windows_dropped[SONAR_WINDOW_SKIPPED], "windows skipped: the stream jumped"},
        {SONAR_CONDITION_RESULTS_DROPPED, status->output.results_dropped, &h->results_dropped,
         "results dropped: sending is too slow"}};
    (void)facts;
    for (size_t i = 0; i < sizeof loss / sizeof loss[0]; i++) {
        uint64_t fresh = growth(loss[i].seen, loss[i].count);
        if (fresh)
            sonar_health_report(status, loss[i].code, SONAR_DEGRADED, "%llu %s",
                                (unsigned long long)fresh, loss[i].what)
                ->value = (double)fresh;
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

typedef void judge(sonar_health *, const sonar_health_facts *, sonar_status *);

/* Each reports the conditions that hold by what it looks at. Their order does not matter. */
static judge *const judges[] = {judge_frames, judge_silence, judge_losses};

static int worst_first(const void *a, const void *b) {
    const sonar_condition *x = a, *y = b;
    if (x->severity != y->severity)
        return x->severity > y->severity ? -1 : 1;
    return (x->code > y->code) - (x->code < y->code);
}

static void note_durations(sonar_health *h, const sonar_health_facts *facts, sonar_status *status) {
    int64_t since_ns[SONAR_CONDITIONS] = {0};
    for (size_t i = 0; i < status->conditions; i++) {
        sonar_condition *c = &status->condition[i];
        since_ns[c->code] = h->since_ns[c->code] ? h->since_ns[c->code] : facts->now_ns;
        c->for_s = (double)(facts->now_ns - since_ns[c->code]) * 1e-9;
    }
    memcpy(h->since_ns, since_ns, sizeof since_ns);
}

/* The conditions' sentences, as many as fit whole. */
static void put_in_words(sonar_status *status) {
    size_t used = 0, i = 0;
    for (; i < status->conditions; i++) {
        const char *text = status->condition[i].text;
        if (i && used + 2 + strlen(text) + sizeof "; and 99 more" > sizeof status->text)
            break;
        used += (size_t)snprintf(status->text + used, sizeof status->text - used, "%s%s",
                                 i ? "; " : "", text);
    }
    if (i < status->conditions)
        snprintf(status->text + used, sizeof status->text - used, "; and %zu more",
                 status->conditions - i);
}

void sonar_health_judge(sonar_health *h, const sonar_health_facts *facts, sonar_status *status) {
    status->conditions = 0;
    for (size_t i = 0; i < sizeof judges / sizeof judges[0]; i++)
        judges[i](h, facts, status);
    qsort(status->condition, status->conditions, sizeof *status->condition, worst_first);
    note_durations(h, facts, status);
    put_in_words(status);
    sonar_condition_severity worst =
        status->conditions ? status->condition[0].severity : SONAR_NOTICE;
    snprintf(status->health, sizeof status->health, "%s",
             worst == SONAR_NOTICE ? "ok" : sonar_condition_severity_name(worst));
}

/* A change of health, or of why frames are dropped; not the same line every second. */
void sonar_health_log(sonar_health *h, const sonar_host *host, const sonar_status *status) {
    bool degraded = !strcmp(status->health, "degraded");
    bool news = h->cause != SONAR_FRAME_CAUSES && h->cause != h->logged;
    if (news || strcmp(status->health, h->last) != 0) {
        sonar_log(host, degraded ? SONAR_WARN : SONAR_INFO, "health", "%s%s%s", status->health,
                  status->text[0] ? ": " : "", status->text);
        h->logged = h->cause;
    }
    memcpy(h->last, status->health, sizeof h->last);
}
