/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A live run as text and as JSON. */
#include "live.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "status/topic.h"
#include "ingest/frame.h"

const char *live_loss_name(live_loss loss) {
    static const char *const name[LIVE_LOSSES] = {
        [LIVE_OVERLOAD] = "overload",     [LIVE_MISSING] = "missing",
        [LIVE_SKIPPED] = "skipped",       [LIVE_SHED] = "shed",
        [LIVE_FAILED] = "failed",         [LIVE_OUTPUT] = "output",
        [LIVE_SUBSCRIBER] = "subscriber", [LIVE_NOT_SENT] = "not_sent"};
    return (unsigned)loss < LIVE_LOSSES ? name[loss] : "unknown";
}

static double bytes_per_s(const live_result *r) {
    return (double)r->channels * r->fs_hz * sizeof(int16_t);
}

/* Of the first sender; the other senders' differ by at most a channel. */
static double message_bytes(const live_result *r) {
    return (double)(r->channels / r->stream.senders * r->stream.frame_samples * sizeof(int16_t));
}

/* ---- text ------------------------------------------------------------------------------------ */

static void write_spread(const char *name, const live_spread *s, FILE *to) {
    fprintf(to, "  %-34s %9.3f %9.3f %9.3f %9.3f %9.3f\n", name, s->p50_ms, s->p90_ms, s->p99_ms,
            s->p999_ms, s->max_ms);
}

/* Topics, each with the number of windows that it came for. */
static void write_topics(const live_result *r, FILE *to) {
    fprintf(to, "  subscribed:");
    for (int i = 0; i < SONAR_SURFACES; i++)
        if (r->topics & SONAR_WANT(i))
            fprintf(to, " %s %" PRIu64, sonar_topic_name((sonar_surface)i), r->came[i]);
    fprintf(to, "\n");
}

static const char *health_state(const live_result *r) {
    const char *state = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(r->at_end, "health"));
    return state ? state : "unknown";
}

static const cJSON *conditions(const live_result *r) {
    return cJSON_GetObjectItemCaseSensitive(r->at_end, "conditions");
}

static const char *text_of(const cJSON *condition) {
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(condition, "text"));
}

static void write_health(const live_result *r, FILE *to) {
    const cJSON *condition;
    fprintf(to, "  health at the end: %s\n", health_state(r));
    cJSON_ArrayForEach(condition, conditions(r)) fprintf(to, "    %s\n", text_of(condition));
}

void live_write_text(const live_result *r, FILE *to) {
    char ranks[32] = "";
    if (r->plan.ranks > 1)
        snprintf(ranks, sizeof ranks, ", %zu ranks", r->plan.ranks);
    fprintf(to, "%s: %zu sensors at %g Hz on %s%s, %.1f MB/s from %zu senders by %s, %g s%s: %s\n",
            r->plan.of->name, r->channels, r->fs_hz, r->backend, ranks, bytes_per_s(r) / 1e6,
            r->stream.senders, live_transport_name[r->plan.transport], r->plan.seconds,
            r->plan.trial ? " (trial)" : "", r->held ? "held" : "NOT held");
    for (size_t i = 0; i < r->reasons; i++)
        fprintf(to, "  not held: %s\n", r->reason[i]);
    for (size_t i = 0; i < r->saturated; i++)
        fprintf(to, "  saturated: %s\n", r->full[i]);
    write_topics(r, to);
    write_health(r, to);
    fprintf(to, "  windows expected %" PRIu64 ", received %" PRIu64, r->windows, r->received);
    for (int i = 0; i < LIVE_LOSSES; i++)
        if (r->lost[i])
            fprintf(to, ", %s %" PRIu64, live_loss_name((live_loss)i), r->lost[i]);
    if (r->unaccounted)
        fprintf(to, ", UNACCOUNTED %" PRId64, r->unaccounted);
    fprintf(to,
            "\n  daemon: %.2f processors, load %.2f, at most %.0f MB; senders %.2f processors; "
            "machine %.0f %% busy\n",
            r->cpu, r->load, r->peak_bytes / 1e6, r->sender_cpu, 100 * r->machine_busy);
    fprintf(to, "  %-34s %9s %9s %9s %9s %9s\n", "ms", "p50", "p90", "p99", "p99.9", "max");
    write_spread("last sample due -> received", &r->latency, to);
    write_spread("last frame sent -> received", &r->from_sent, to);
    write_spread("the daemon's own", &r->own, to);
    write_spread("senders' lateness", &r->lateness, to);
    for (size_t i = 0; i < r->threads && i < 6; i++)
        fprintf(to, "  %-16s %3.0f %%%s", r->thread[i].name, 100 * r->thread[i].busiest,
                i % 3 == 2 || i + 1 == r->threads || i == 5 ? "\n" : "");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void add_spread(cJSON *to, const char *name, const live_spread *s) {
    cJSON *item = cJSON_AddObjectToObject(to, name);
    cJSON_AddNumberToObject(item, "count", (double)s->count);
    cJSON_AddNumberToObject(item, "p50", s->p50_ms);
    cJSON_AddNumberToObject(item, "p90", s->p90_ms);
    cJSON_AddNumberToObject(item, "p99", s->p99_ms);
    cJSON_AddNumberToObject(item, "p99_9", s->p999_ms);
    cJSON_AddNumberToObject(item, "max", s->max_ms);
}

static void add_parameters(cJSON *to, const live_result *r) {
    cJSON *p = cJSON_AddObjectToObject(to, "parameters");
    cJSON_AddNumberToObject(p, "sensors", (double)r->channels);
    cJSON_AddNumberToObject(p, "fs_hz", r->fs_hz);
    cJSON_AddNumberToObject(p, "length", (double)r->length);
    cJSON_AddNumberToObject(p, "hop", (double)r->hop);
    cJSON_AddNumberToObject(p, "first_bin", (double)r->first_bin);
    cJSON_AddNumberToObject(p, "bins", (double)r->bins);
    cJSON_AddNumberToObject(p, "angles", (double)r->directions);
    cJSON_AddNumberToObject(p, "ranges", (double)r->ranges);
    cJSON_AddBoolToObject(p, "mvdr", r->mvdr);
    cJSON_AddNumberToObject(p, "ranks", (double)r->plan.ranks);
    cJSON_AddNumberToObject(p, "senders", (double)r->stream.senders);
    cJSON_AddNumberToObject(p, "frame_samples", (double)r->stream.frame_samples);
    cJSON_AddStringToObject(p, "transport", live_transport_name[r->plan.transport]);
    cJSON_AddStringToObject(
        p, "layout", r->stream.layout == SONAR_FRAME_INTERLEAVED ? "interleaved" : "channel-major");
    cJSON_AddNumberToObject(p, "message_bytes", message_bytes(r));
    cJSON_AddNumberToObject(p, "bytes_per_s", bytes_per_s(r));
    cJSON_AddNumberToObject(p, "warm_up_s", r->plan.warm_up_s);
    cJSON_AddNumberToObject(p, "seconds", r->plan.seconds);
    cJSON *settings = cJSON_AddArrayToObject(p, "settings");
    for (size_t i = 0; i < r->plan.settings; i++)
        cJSON_AddItemToArray(settings, cJSON_CreateString(r->plan.setting[i]));
}

static void add_topics(cJSON *to, const live_result *r) {
    cJSON *topics = cJSON_AddObjectToObject(to, "subscribed");
    for (int i = 0; i < SONAR_SURFACES; i++)
        if (r->topics & SONAR_WANT(i))
            cJSON_AddNumberToObject(topics, sonar_topic_name((sonar_surface)i), (double)r->came[i]);
}

static void add_health(cJSON *to, const live_result *r) {
    const cJSON *condition;
    cJSON *health = cJSON_AddObjectToObject(to, "health");
    cJSON_AddStringToObject(health, "state", health_state(r));
    cJSON *texts = cJSON_AddArrayToObject(health, "conditions");
    cJSON_ArrayForEach(condition, conditions(r))
        cJSON_AddItemToArray(texts, cJSON_CreateString(text_of(condition)));
}

static void copy_item(cJSON *to, const cJSON *from, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(from, name);
    if (item)
        cJSON_AddItemToObject(to, name, cJSON_Duplicate(item, true));
}

static void add_windows(cJSON *to, const live_result *r) {
    cJSON *windows = cJSON_AddObjectToObject(to, "windows");
    cJSON_AddNumberToObject(windows, "expected", (double)r->windows);
    cJSON_AddNumberToObject(windows, "received", (double)r->received);
    cJSON *lost = cJSON_AddObjectToObject(windows, "lost");
    for (int i = 0; i < LIVE_LOSSES; i++)
        cJSON_AddNumberToObject(lost, live_loss_name((live_loss)i), (double)r->lost[i]);
    cJSON_AddNumberToObject(windows, "unaccounted", (double)r->unaccounted);
    cJSON *steady = cJSON_AddObjectToObject(windows, "after_warm_up");
    cJSON_AddNumberToObject(steady, "expected", (double)r->steady_windows);
    cJSON_AddNumberToObject(steady, "received", (double)r->steady_received);
    cJSON_AddNumberToObject(steady, "incomplete", (double)r->steady_incomplete);
}

static void add_senders(cJSON *to, const live_result *r) {
    cJSON *senders = cJSON_AddObjectToObject(to, "senders");
    cJSON_AddNumberToObject(senders, "frames_planned",
                            (double)(r->stream.frames * r->stream.senders));
    cJSON_AddNumberToObject(senders, "frames_sent", (double)r->frames_sent);
    cJSON_AddNumberToObject(senders, "frames_blocked", (double)r->frames_blocked);
    cJSON_AddNumberToObject(senders, "blocked_s", r->blocked_s);
    cJSON_AddNumberToObject(senders, "cpu_s_per_s", r->sender_cpu);
    cJSON_AddNumberToObject(senders, "busiest", r->sender_busiest);
}

static void add_daemon(cJSON *to, const live_result *r) {
    cJSON *daemon = cJSON_AddObjectToObject(to, "daemon");
    cJSON_AddNumberToObject(daemon, "cpu_s_per_s", r->cpu);
    cJSON_AddNumberToObject(daemon, "load", r->load);
    cJSON_AddNumberToObject(daemon, "resident_bytes", r->resident_bytes);
    cJSON_AddNumberToObject(daemon, "peak_resident_bytes", r->peak_bytes);
    cJSON *threads = cJSON_AddArrayToObject(daemon, "threads");
    for (size_t i = 0; i < r->threads; i++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddItemToArray(threads, one);
        cJSON_AddStringToObject(one, "name", r->thread[i].name);
        cJSON_AddNumberToObject(one, "count", (double)r->thread[i].count);
        cJSON_AddNumberToObject(one, "busiest", r->thread[i].busiest);
        cJSON_AddNumberToObject(one, "cpu_s_per_s", r->thread[i].all);
    }
    static const char *const copied[] = {"frames",  "blocks",      "samples",
                                         "windows", "stage_times", "ranks"};
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++)
        copy_item(daemon, r->status, copied[i]);
    copy_item(daemon, r->at_end, "latency_parts"); /* values of one second */
}

static void add_strings(cJSON *to, const char *name, size_t count, size_t width,
                        const char *first) {
    cJSON *list = cJSON_AddArrayToObject(to, name);
    for (size_t i = 0; i < count; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(first + i * width));
}

static double goal_of(const live_result *r) {
    const live_case *of = r->plan.of;
    if (strcmp(r->backend, "cpu") == 0)
        return of->goal_cpu;
    const bool shm = r->plan.transport == LIVE_SHM && of->goal_gpu_shm > 0;
    const double goal = shm ? of->goal_gpu_shm : of->goal_gpu;
    return of->latency ? goal : goal * (double)r->plan.ranks;
}

void live_add_json(const live_result *r, cJSON *list) {
    cJSON *to = cJSON_CreateObject();
    cJSON_AddItemToArray(list, to);
    cJSON_AddStringToObject(to, "case", r->plan.of->name);
    cJSON_AddStringToObject(to, "backend", r->backend);
    cJSON_AddBoolToObject(to, "trial", r->plan.trial);
    cJSON_AddBoolToObject(to, "held", r->held);
    add_strings(to, "not_held", r->reasons, sizeof r->reason[0], r->reason[0]);
    add_strings(to, "saturated", r->saturated, sizeof r->full[0], r->full[0]);
    const double goal = goal_of(r);
    if (goal > 0)
        cJSON_AddNumberToObject(to, r->plan.of->latency ? "goal_p50_ms" : "goal_sensors", goal);
    add_topics(to, r);
    add_health(to, r);
    add_parameters(to, r);
    add_windows(to, r);
    add_spread(to, "latency_ms", &r->latency);
    add_spread(to, "latency_from_sent_ms", &r->from_sent);
    add_spread(to, "daemon_latency_ms", &r->own);
    add_spread(to, "sender_lateness_ms", &r->lateness);
    add_senders(to, r);
    add_daemon(to, r);
    cJSON_AddNumberToObject(to, "machine_busy", r->machine_busy);
    cJSON *tone = cJSON_AddObjectToObject(to, "tone");
    cJSON_AddNumberToObject(tone, "hz", r->stream.tone_hz);
    cJSON_AddNumberToObject(tone, "az_deg", r->tone_az_deg);
    cJSON_AddNumberToObject(tone, "found_az_deg", r->found_az_deg);
}
