/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Conditions of the stream: its rate, completeness, delay and the agreement of its clocks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "health/health.h"

/* The limits of docs/running.md. */
static const double rate_share = 0.01,
                    rate_slack_s = 0.5;      /* the rate is wrong if it is off by more than both */
static const double flood = 1.1;             /* times fs_hz, in a second */
static const double rate_sure_share = 0.005; /* considered right again below this */
static const double late_s = 2;              /* in addition to the normal delay */
static const double ahead_s = 1, behind_s = 60; /* a clock's offset */
static const double clock_skew_s = 0.1, clock_step_s = 0.1;
static const double stalled_s = 2;       /* in addition to a window's duration */
static const double recording_s = 86400; /* older than this, samples may come from a recording */
/* s per s: how fast the smallest values may follow a clock */
static const double age_leak = 0.1, drift_leak = 0.01;
static const int64_t point_ns = 5000000000;

/* Data of one call. */
struct look {
    sonar_health *h;
    const sonar_health_facts *facts;
    const sonar_ingest_report *stream;
    sonar_status *status;
    double fs_hz, elapsed_s;           /* since the last call */
    size_t order[SONAR_BLOCKS_MOST];   /* of the blocks, by first channel */
    double age_s[SONAR_BLOCKS_MOST];   /* age of a block's newest sample on arrival, by UTC */
    double drift_s[SONAR_BLOCKS_MOST]; /* how much later it came than the earliest sample */
    double rate_hz[SONAR_BLOCKS_MOST];
    double skew_s[SONAR_BLOCKS_MOST]; /* by UTC ahead of the first block, for one index */
    double step_s[SONAR_BLOCKS_MOST]; /* step of UTC against the index since the last call */
    bool wrong[SONAR_BLOCKS_MOST];    /* internal to the judge */
};

static const sonar_block_report *block_at(const struct look *l, size_t i) {
    return &l->stream->block[l->order[i]];
}

static bool is_silent(const struct look *l, const sonar_block_report *block) {
    return (double)(l->stream->made_ns - block->heard_ns) * 1e-6 >=
               (double)l->h->config->silent_after_ms &&
           !l->stream->held;
}

/* The channels of the blocks marked wrong. Channels of overlapping blocks are counted once. */
static sonar_channel_set wrong_channels(const struct look *l) {
    sonar_channel_set set = {0};
    uint64_t done = 0;
    for (size_t i = 0; i < l->stream->blocks; i++) {
        const sonar_block_report *block = block_at(l, i);
        uint64_t first = block->first_channel, end = first + block->channels;
        if (!l->wrong[l->order[i]] || end <= done)
            continue;
        first = first < done ? done : first;
        sonar_channel_set_add(&set, (uint32_t)first, (uint32_t)(end - first));
        done = end;
    }
    return set;
}

/* " of channels 0-31", or "" if these are all channels. */
static const char *whose(const struct look *l, const sonar_channel_set *set, char text[80]) {
    char list[60];
    text[0] = '\0';
    if (set->count && set->count < l->h->config->channels)
        snprintf(text, 80, " of channels %s", sonar_channel_set_print(set, list, sizeof list));
    return text;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static void sort_blocks(struct look *l) {
    for (size_t i = 0; i < l->stream->blocks; i++) {
        size_t at = i;
        for (; at && block_at(l, at - 1)->first_channel > l->stream->block[i].first_channel; at--)
            l->order[at] = l->order[at - 1];
        l->order[at] = i;
    }
}

static void follow_timeline(struct look *l) {
    sonar_health *h = l->h;
    if (l->stream->timeline == h->timeline)
        return;
    h->timeline = l->stream->timeline;
    memset(h->watch, 0, sizeof h->watch);
    for (size_t i = 0; i < SONAR_BLOCKS_MOST; i++)
        h->watch[i].least_age_s = h->watch[i].least_drift_s = NAN;
}

/* By how much the clock's duration exceeds the samples' duration. */
static double excess_s(const struct look *l, const sonar_block_report *block, uint64_t sample,
                       int64_t ns) {
    return (double)(block->end_ns - ns) * 1e-9 - (double)(block->end_sample - sample) / l->fs_hz;
}

/* Measures the age by UTC, and the age by the index alone, whose origin is unknown, so that only
 * its growth is meaningful. A recording may be played at any pace and have any age. */
static void measure_age(struct look *l, size_t i, sonar_block_watch *watch) {
    const sonar_block_report *block = &l->stream->block[i];
    if (block->replay)
        return;
    int64_t utc_ns = l->facts->utc_now_ns - (l->facts->now_ns - block->end_ns);
    double by_index_s = excess_s(l, block, block->begin_sample, block->begin_ns);
    watch->least_drift_s = fmin(by_index_s, watch->least_drift_s + drift_leak * l->elapsed_s);
    l->drift_s[i] = by_index_s - watch->least_drift_s;
    if (!block->end_utc_ns)
        return;
    l->age_s[i] = ((double)utc_ns - (double)block->end_utc_ns) * 1e-9;
    watch->least_age_s = fmin(l->age_s[i], watch->least_age_s + age_leak * l->elapsed_s);
}

/* Seconds from one sample index to another. */
static double between_s(const struct look *l, uint64_t from, uint64_t to) {
    return to >= from ? (double)(to - from) / l->fs_hz : -(double)(from - to) / l->fs_hz;
}

/* By how much UTC moved beyond both the index and the time of arrival. An index at a wrong rate is
 * not a step, and late frames are not one either. */
static double step_between_s(const struct look *l, const sonar_block_watch *seen,
                             const sonar_block_report *now) {
    const double utc_s = (double)(now->end_utc_ns - seen->seen_utc_ns) * 1e-9;
    const double by_index_s = utc_s - between_s(l, seen->seen_sample, now->end_sample);
    const double by_arrival_s = utc_s - (double)(now->end_ns - seen->seen_ns) * 1e-9;
    if (by_index_s > 0)
        return fmax(0, fmin(by_index_s, by_arrival_s));
    return fmin(0, fmax(by_index_s, by_arrival_s));
}

static void measure_step(struct look *l, size_t i, sonar_block_watch *watch) {
    const sonar_block_report *block = &l->stream->block[i];
    if (watch->seen_utc_ns && block->end_utc_ns)
        l->step_s[i] = step_between_s(l, watch, block);
    watch->seen_sample = block->end_sample;
    watch->seen_ns = block->end_ns;
    watch->seen_utc_ns = block->end_utc_ns;
}

static void push_point(sonar_block_watch *watch, const sonar_block_report *block) {
    if (watch->points == SONAR_RATE_POINTS)
        memmove(watch->point, watch->point + 1, --watch->points * sizeof *watch->point);
    watch->point[watch->points].sample = block->end_sample;
    watch->point[watch->points++].ns = block->end_ns;
}

/* Leaves out the first second, which contains what was waiting in queues. */
static void measure_rate(struct look *l, size_t i, sonar_block_watch *watch) {
    const sonar_block_report *block = &l->stream->block[i];
    l->rate_hz[i] = NAN;
    if (!watch->points && block->end_ns - block->begin_ns >= 1000000000)
        push_point(watch, block);
    if (!watch->points || block->end_ns <= watch->point[0].ns)
        return;
    l->rate_hz[i] = (double)(block->end_sample - watch->point[0].sample) /
                    ((double)(block->end_ns - watch->point[0].ns) * 1e-9);
    if (block->end_ns - watch->point[watch->points - 1].ns >= point_ns)
        push_point(watch, block);
}

/* Samples per second and channel since the last call, without one frame, which may have come just
 * in time. Independent of timelines, so that it also works if a flood of samples makes the stream
 * jump. */
static double measure_burst(const struct look *l) {
    const sonar_ingest_counters *now = &l->status->ingest, *seen = &l->h->seen.ingest;
    uint64_t came = (now->samples_stored - seen->samples_stored) +
                    (now->samples_repeated - seen->samples_repeated) +
                    (now->samples_late - seen->samples_late);
    uint32_t frame = 0;
    for (size_t i = 0; i < l->stream->blocks; i++)
        frame = l->stream->block[i].samples > frame ? l->stream->block[i].samples : frame;
    if (!(l->elapsed_s > 0))
        return NAN;
    return ((double)came / (double)l->h->config->channels - frame) / l->elapsed_s;
}

static void measure(struct look *l) {
    sort_blocks(l);
    follow_timeline(l);
    l->h->burst_hz = measure_burst(l);
    for (size_t i = 0; i < l->stream->blocks; i++) {
        l->age_s[i] = l->drift_s[i] = l->rate_hz[i] = l->skew_s[i] = NAN;
        l->step_s[i] = 0;
        if (!l->stream->block[i].frames || is_silent(l, &l->stream->block[i]))
            continue; /* earlier faults of samples that are no longer received do not count */
        measure_step(l, i, &l->h->watch[i]);
        measure_age(l, i, &l->h->watch[i]);
        measure_rate(l, i, &l->h->watch[i]);
    }
}

/* ---- rate and index -------------------------------------------------------------------------- */

/* After a fault, the first point with the right value begins a new measurement. */
static bool rate_is_wrong(const struct look *l, size_t i) {
    sonar_block_watch *watch = &l->h->watch[i];
    const sonar_block_report *block = &l->stream->block[i];
    double frame_s = (double)block->samples / l->fs_hz;
    for (; watch->points;
         memmove(watch->point, watch->point + 1, --watch->points * sizeof *watch->point)) {
        double took_s = (double)(block->end_ns - watch->point[0].ns) * 1e-9;
        double off_s = fabs(excess_s(l, block, watch->point[0].sample, watch->point[0].ns));
        if (off_s <= rate_share * took_s || off_s <= rate_slack_s + 2 * frame_s)
            return false;
        const size_t newer = watch->points > 1 ? watch->points - 2 : 0;
        double newer_s = (double)(block->end_ns - watch->point[newer].ns) * 1e-9;
        double newer_off_s =
            fabs(excess_s(l, block, watch->point[newer].sample, watch->point[newer].ns));
        if (newer_s < (double)point_ns * 1e-9 || newer_off_s > rate_sure_share * newer_s)
            return true;
    }
    return false;
}

/* Far more samples are received than the array is configured to send. */
static bool is_flood(const struct look *l) {
    return l->h->burst_hz > flood * l->fs_hz;
}

/* A loss that no computer may be able to avoid. */
static bool has_overrun(const struct look *l) {
    const sonar_ingest_counters *now = &l->status->ingest, *seen = &l->h->seen.ingest;
    return now->windows_dropped[SONAR_WINDOW_OVERLOAD] >
               seen->windows_dropped[SONAR_WINDOW_OVERLOAD] ||
           now->frames_dropped[SONAR_FRAME_OVERRUN] > seen->frames_dropped[SONAR_FRAME_OVERRUN];
}

static void judge_rate(struct look *l) {
    const sonar_config *c = l->h->config;
    double worst_hz = NAN;
    size_t wrong = 0;
    for (size_t i = 0; i < l->stream->blocks; i++) {
        l->wrong[i] = isfinite(l->rate_hz[i]) && !l->stream->block[i].replay && rate_is_wrong(l, i);
        wrong += l->wrong[i];
        if (isnan(l->status->stream.rate_hz))
            l->status->stream.rate_hz = l->rate_hz[i];
        if (l->wrong[i] && !(fabs(l->rate_hz[i] - l->fs_hz) <= fabs(worst_hz - l->fs_hz)))
            worst_hz = l->rate_hz[i];
    }
    if (!wrong && is_flood(l) &&
        has_overrun(l)) /* not enough time to measure over a longer period */
        worst_hz = l->h->burst_hz;
    if (isnan(worst_hz))
        return;
    char of[80];
    sonar_channel_set set = wrong_channels(l);
    bool held = l->status->ingest.frames_held > l->h->seen.ingest.frames_held;
    bool fine =
        worst_hz > l->fs_hz && c->overload == SONAR_BLOCK; /* a recording may be played fast */
    sonar_condition *condition = sonar_health_report(
        l->status, SONAR_CONDITION_RATE, fine ? SONAR_NOTICE : SONAR_DEGRADED,
        "samples%s arrive at %.0f/s, fs_hz is %g%s", whose(l, &set, of),
        sonar_health_rounded(worst_hz), l->fs_hz,
        held && worst_hz < l->fs_hz ? ": computing is too slow and holds them back" : "");
    condition->value = worst_hz;
    condition->limit = l->fs_hz;
    condition->channels = set;
}

/* Most consecutive frames do not begin where the one before ended. */
static void judge_index(struct look *l) {
    const sonar_ingest_counters *now = &l->status->ingest, *seen = &l->h->seen.ingest;
    uint64_t jumps = now->index_jumps - seen->index_jumps;
    uint64_t accepted = now->frames_accepted - seen->frames_accepted;
    const sonar_block_report *worst = NULL;
    for (size_t i = 0; i < l->stream->blocks; i++) {
        const sonar_block_report *block = block_at(l, i);
        l->wrong[l->order[i]] = block->step_over && block->step != block->step_over;
        if (l->wrong[l->order[i]] && !worst)
            worst = block;
    }
    if (worst && jumps > 1 && 2 * jumps > accepted) {
        sonar_condition *condition =
            sonar_health_report(l->status, SONAR_CONDITION_SAMPLE_INDEX, SONAR_DEGRADED,
                                "the sample index moves on by %llu for each frame of %u samples",
                                (unsigned long long)worst->step, worst->step_over);
        condition->value = (double)worst->step;
        condition->limit = worst->step_over;
        condition->channels = wrong_channels(l);
        return;
    }
    uint64_t repeated = now->samples_repeated - seen->samples_repeated;
    uint64_t all = repeated + (now->samples_stored - seen->samples_stored) +
                   (now->samples_late - seen->samples_late);
    if (repeated)
        sonar_health_report(
            l->status, SONAR_CONDITION_SAMPLES_REPEATED, SONAR_DEGRADED,
            "%.3g %% of the samples had been received before: frames or blocks overlap",
            100 * (double)repeated / (double)all)
            ->value = (double)repeated;
}

/* ---- what is there --------------------------------------------------------------------------- */

static void judge_channels(struct look *l) {
    const sonar_ingest_report *stream = l->stream;
    const size_t channels = l->h->config->channels;
    char list[60];
    double running_ms = (double)(l->facts->now_ns - stream->adopted_ns) * 1e-6;
    bool lost = stream->samples_missing > l->h->samples_missing;
    l->h->samples_missing = stream->samples_missing;
    if (stream->unfed.count && (lost || running_ms >= l->h->config->silent_after_ms)) {
        sonar_condition *condition = sonar_health_report(
            l->status, SONAR_CONDITION_CHANNELS_UNFED, SONAR_DEGRADED,
            "%u of %zu channels were never fed: %s", stream->unfed.count, channels,
            sonar_channel_set_print(&stream->unfed, list, sizeof list));
        condition->value = stream->unfed.count;
        condition->channels = stream->unfed;
    }
    if (!stream->lacking.count)
        return;
    sonar_condition *condition =
        sonar_health_report(l->status, SONAR_CONDITION_SAMPLES_MISSING, SONAR_DEGRADED,
                            "windows lack up to %.3g %% of the samples of %u of %zu channels: %s",
                            100 * stream->lacking_share, stream->lacking.count, channels,
                            sonar_channel_set_print(&stream->lacking, list, sizeof list));
    condition->value = stream->lacking_share;
    condition->channels = stream->lacking;
}

static void judge_blocks(struct look *l) {
    char list[60];
    size_t silent = 0, known = 0;
    for (size_t i = 0; i < l->stream->blocks; i++) {
        const sonar_block_report *block = &l->stream->block[i];
        known += !block->passed;
        silent += l->wrong[i] = !block->passed && is_silent(l, block);
    }
    if (!silent)
        return;
    sonar_channel_set set = wrong_channels(l);
    sonar_condition *condition =
        sonar_health_report(l->status, SONAR_CONDITION_BLOCKS_SILENT, SONAR_DEGRADED,
                            "%zu of %zu channel blocks silent: channels %s", silent, known,
                            sonar_channel_set_print(&set, list, sizeof list));
    condition->value = (double)silent;
    condition->channels = set;
}

/* Blocks whose samples lag so far behind that windows do not wait for them. */
static void judge_apart(struct look *l) {
    const double skew = l->h->config->max_skew_ms * 1e-3 * l->fs_hz;
    uint64_t newest = 0;
    double worst_s = 0;
    size_t apart = 0, known = 0;
    for (size_t i = 0; i < l->stream->blocks; i++)
        if (l->stream->block[i].end_sample > newest)
            newest = l->stream->block[i].end_sample;
    for (size_t i = 0; i < l->stream->blocks; i++) {
        const sonar_block_report *block = &l->stream->block[i];
        double behind = (double)(newest - block->end_sample);
        l->wrong[i] = false;
        if (!block->frames || is_silent(l, block))
            continue;
        known++;
        worst_s = fmax(worst_s, behind / l->fs_hz);
        apart += l->wrong[i] = behind > skew + block->samples;
    }
    l->status->stream.block_skew_s = known ? worst_s : NAN;
    if (!apart)
        return;
    char of[80];
    sonar_channel_set set = wrong_channels(l);
    sonar_condition *condition =
        sonar_health_report(l->status, SONAR_CONDITION_BLOCKS_APART, SONAR_DEGRADED,
                            "samples%s lag %.2f s behind the newest, max_skew_ms is %g",
                            whose(l, &set, of), worst_s, l->h->config->max_skew_ms);
    condition->value = worst_s;
    condition->limit = l->h->config->max_skew_ms * 1e-3;
    condition->channels = set;
}

static void judge_progress(struct look *l) {
    const sonar_config *c = l->h->config;
    const sonar_ingest_report *stream = l->stream;
    const sonar_ingest_counters *in = &l->status->ingest;
    int64_t since_ns = stream->decided_ns ? stream->decided_ns : stream->adopted_ns;
    size_t samples = c->specs.hop + (stream->decided_ns ? 0 : c->specs.window_length);
    double limit_s = (double)samples / l->fs_hz + c->max_skew_ms * 1e-3 + stalled_s;
    if (since_ns < l->h->waited_ns)
        since_ns = l->h->waited_ns;
    double stalled_for_s = (double)(l->facts->now_ns - since_ns) * 1e-9;
    bool waits =
        in->windows_offered > in->windows_taken + in->windows_dropped[SONAR_WINDOW_OVERLOAD];
    if (waits || stalled_for_s <= limit_s) /* the data thread has complete windows waiting */
        return;
    char list[60], why[100];
    uint64_t came = stream->newest_sample > stream->window_sample
                        ? stream->newest_sample - stream->window_sample
                        : 0;
    if (stream->awaited.count)
        snprintf(why, sizeof why, "it waits for channels %s",
                 sonar_channel_set_print(&stream->awaited, list, sizeof list));
    else
        snprintf(why, sizeof why, "%llu of the next window's %zu samples have been received",
                 (unsigned long long)came, c->specs.window_length);
    sonar_condition *condition =
        sonar_health_report(l->status, SONAR_CONDITION_WINDOWS_STALLED, SONAR_DEGRADED,
                            "no window for %.1f s: %s", stalled_for_s, why);
    condition->value = stalled_for_s;
    condition->limit = limit_s;
    condition->channels = stream->awaited;
}

/* ---- clocks ---------------------------------------------------------------------------------- */

/* The unit in which the time of a frame is plausible, if that is not ns. */
static const char *unit_of(const struct look *l, const sonar_block_report *block) {
    static const struct {
        double ns;
        const char *name;
    } unit[] = {{1e3, "microseconds"}, {1e6, "milliseconds"}, {1e9, "seconds"}};
    const double now_ns = (double)l->facts->utc_now_ns, year_ns = 365.25 * 86400e9;
    for (size_t i = 0; i < 3 && block->end_utc_ns; i++)
        if (fabs((double)block->utc_ns * unit[i].ns - now_ns) < year_ns)
            return unit[i].name;
    return NULL;
}

static bool is_offset(const struct look *l, size_t i) {
    double least_s = l->h->watch[i].least_age_s;
    return isfinite(l->age_s[i]) && (least_s < -ahead_s || least_s > behind_s);
}

static void judge_units(struct look *l) {
    const char *unit = NULL;
    for (size_t i = 0; i < l->stream->blocks; i++) {
        const sonar_block_report *block = &l->stream->block[i];
        const char *name = is_silent(l, block) || block->replay ? NULL : unit_of(l, block);
        l->wrong[i] = name != NULL;
        unit = name ? name : unit;
    }
    if (!unit)
        return;
    char of[80];
    sonar_channel_set set = wrong_channels(l);
    sonar_health_report(l->status, SONAR_CONDITION_CLOCK_UNIT, SONAR_DEGRADED,
                        "UTC%s seems to be in %s: it must be in ns since 1970", whose(l, &set, of),
                        unit)
        ->channels = set;
}

/* Offset of clocks with the right unit. In a flood the time of samples runs ahead by itself. */
static void judge_offset(struct look *l) {
    double worst_s = 0, first_s = NAN;
    for (size_t i = 0; i < l->stream->blocks; i++) {
        double least_s = l->h->watch[i].least_age_s;
        l->wrong[i] =
            is_offset(l, i) && !unit_of(l, &l->stream->block[i]) && !(is_flood(l) && least_s < 0);
        if (isnan(first_s) && isfinite(l->age_s[i]))
            first_s = least_s;
        if (l->wrong[i] && fabs(least_s) > fabs(worst_s))
            worst_s = least_s;
    }
    l->status->stream.clock_offset_s = first_s;
    if (worst_s == 0)
        return;
    char of[80], much[32];
    sonar_channel_set set = wrong_channels(l);
    bool fine = worst_s > recording_s && l->h->config->overload == SONAR_BLOCK;
    sonar_condition *condition = sonar_health_report(
        l->status, SONAR_CONDITION_CLOCK_OFFSET, fine ? SONAR_NOTICE : SONAR_DEGRADED,
        "UTC%s is %s %s this machine's clock", whose(l, &set, of),
        sonar_health_span(fabs(worst_s), much), worst_s > 0 ? "behind" : "ahead of");
    condition->value = worst_s;
    condition->limit = worst_s > 0 ? behind_s : ahead_s;
    condition->channels = set;
}

/* UTC of equal indices compared with the block with the lowest channel, from which windows take
 * their time. */
static void judge_skew(struct look *l) {
    const sonar_block_report *first = NULL;
    double worst_s = 0;
    for (size_t i = 0; i < l->stream->blocks; i++) {
        const sonar_block_report *block = block_at(l, i);
        const size_t at = l->order[i];
        l->wrong[at] = false;
        if (!block->end_utc_ns || is_silent(l, block))
            continue;
        if (!first)
            first = block;
        l->skew_s[at] = ((double)block->end_utc_ns - (double)first->end_utc_ns) * 1e-9 -
                        between_s(l, first->end_sample, block->end_sample);
        l->wrong[at] = fabs(l->skew_s[at]) > clock_skew_s;
        if (fabs(l->skew_s[at]) > fabs(worst_s))
            worst_s = l->skew_s[at];
    }
    l->status->stream.clock_skew_s = first ? fabs(worst_s) : NAN;
    if (!(fabs(worst_s) > clock_skew_s))
        return;
    char of[80], much[32];
    sonar_channel_set set = wrong_channels(l);
    sonar_condition *condition =
        sonar_health_report(l->status, SONAR_CONDITION_CLOCK_SKEW, SONAR_DEGRADED,
                            "UTC%s is %s %s that of channel %u for the same sample index",
                            whose(l, &set, of), sonar_health_span(fabs(worst_s), much),
                            worst_s > 0 ? "ahead of" : "behind", first->first_channel);
    condition->value = worst_s;
    condition->limit = clock_skew_s;
    condition->channels = set;
}

/* A leap second, or a clock that was set. The index alone places samples. */
static void judge_step(struct look *l) {
    double worst_s = 0;
    for (size_t i = 0; i < l->stream->blocks; i++) {
        l->wrong[i] = fabs(l->step_s[i]) > clock_step_s;
        if (fabs(l->step_s[i]) > fabs(worst_s))
            worst_s = l->step_s[i];
    }
    if (!(fabs(worst_s) > clock_step_s))
        return;
    char of[80], much[32];
    sonar_channel_set set = wrong_channels(l);
    sonar_condition *condition = sonar_health_report(
        l->status, SONAR_CONDITION_CLOCK_STEPPED, SONAR_DEGRADED,
        "UTC%s has jumped %s by %s against the sample index", whose(l, &set, of),
        worst_s > 0 ? "forward" : "back", sonar_health_span(fabs(worst_s), much));
    condition->value = worst_s;
    condition->limit = clock_step_s;
    condition->channels = set;
}

/* The results are old. `value` is the age of the oldest samples by their UTC. */
static void judge_replay(struct look *l) {
    double age_s = NAN;
    bool any = false;
    for (size_t i = 0; i < l->stream->blocks; i++) {
        const sonar_block_report *block = &l->stream->block[i];
        any |= l->wrong[i] = block->frames && block->replay && !is_silent(l, block);
        if (l->wrong[i] && block->end_utc_ns)
            age_s = fmax(age_s, (double)(l->facts->utc_now_ns - block->end_utc_ns) * 1e-9);
    }
    if (!any)
        return;
    char of[80], much[32], old[64] = "";
    sonar_channel_set set = wrong_channels(l);
    if (age_s > behind_s)
        snprintf(old, sizeof old, ", %s old,", sonar_health_span(age_s, much));
    sonar_condition *condition =
        sonar_health_report(l->status, SONAR_CONDITION_REPLAY, SONAR_NOTICE,
                            "a recording%s%s is played", whose(l, &set, of), old);
    condition->value = age_s;
    condition->channels = set;
}

/* Fills each digitiser's clock, whether it is wrong or not. */
static void fill_clocks(struct look *l) {
    for (size_t i = 0; i < l->stream->blocks && i < SONAR_BLOCK_CLOCKS_MOST; i++) {
        const sonar_block_report *block = block_at(l, i);
        const size_t at = l->order[i];
        const bool utc = block->frames && block->end_utc_ns;
        if (block->passed)
            continue;
        l->status->block_clock[l->status->block_clocks++] =
            (sonar_block_clock){.first_channel = block->first_channel,
                                .channels = block->channels,
                                .age_s = l->age_s[at],
                                .offset_s = utc ? l->h->watch[at].least_age_s : NAN,
                                .skew_s = l->skew_s[at]};
    }
}

/* ---- age ------------------------------------------------------------------------------------- */

/* Delay of the samples: their age, or its growth if the clock is missing or implausible. */
static double arrival_late_s(const struct look *l, size_t i) {
    return isfinite(l->age_s[i]) && !is_offset(l, i) ? l->age_s[i] : l->drift_s[i];
}

static double result_age_s(const struct look *l) {
    double age_s = l->status->latency.last_us[2] * 1e-6;
    if (l->facts->busy_since_ns)
        age_s = fmax(age_s, (double)(l->facts->now_ns - l->facts->busy_since_ns) * 1e-9);
    return age_s;
}

static void judge_results(struct look *l) {
    const sonar_config *c = l->h->config;
    double age_s = result_age_s(l);
    double limit_s = late_s + (double)c->specs.hop / l->fs_hz + c->max_skew_ms * 1e-3;
    l->status->stream.result_age_s = age_s;
    if (!(age_s > limit_s))
        return;
    sonar_condition *condition = sonar_health_report(
        l->status, SONAR_CONDITION_RESULTS_LATE, SONAR_DEGRADED,
        "results lag %.1f s behind their samples: load %.2f", age_s, l->status->load);
    condition->value = age_s;
    condition->limit = limit_s;
}

/* Delayed on the way, in queues of a slow computer, or shown late by a clock whose error is below
 * judge_offset's limit. */
static void judge_arrival(struct look *l) {
    double worst_s = 0, drift_s = 0;
    for (size_t i = 0; i < l->stream->blocks; i++) {
        double late = arrival_late_s(l, i);
        l->wrong[i] = late > late_s;
        worst_s = fmax(worst_s, late);
        drift_s = fmax(drift_s, l->drift_s[i]);
        l->status->stream.age_s = fmax(l->status->stream.age_s, l->age_s[i]);
    }
    if (worst_s <= late_s)
        return;
    char of[80];
    sonar_channel_set set = wrong_channels(l);
    sonar_condition *condition =
        drift_s > late_s
            ? sonar_health_report(l->status, SONAR_CONDITION_SAMPLES_LATE, SONAR_DEGRADED,
                                  "samples%s arrive %.1f s late: load %.2f", whose(l, &set, of),
                                  worst_s, l->status->load)
            : sonar_health_report(l->status, SONAR_CONDITION_SAMPLES_LATE, SONAR_DEGRADED,
                                  "samples%s are %.1f s old by their UTC on arrival",
                                  whose(l, &set, of), worst_s);
    condition->value = worst_s;
    condition->limit = late_s;
    condition->channels = set;
}

/* ---- all ------------------------------------------------------------------------------------- */

void sonar_health_judge_stream(sonar_health *h, const sonar_health_facts *facts,
                               sonar_status *status) {
    struct look l = {.h = h,
                     .facts = facts,
                     .stream = facts->stream,
                     .status = status,
                     .fs_hz = h->config->fs_hz,
                     .elapsed_s = h->looked_ns ? (double)(facts->now_ns - h->looked_ns) * 1e-9
                                               : status->uptime_s};
    status->block_clocks = 0;
    status->stream.rate_hz = status->stream.age_s = status->stream.clock_offset_s = NAN;
    status->stream.clock_skew_s = status->stream.block_skew_s = status->stream.result_age_s = NAN;
    if (!facts->stream->timeline)
        return;
    measure(&l);
    judge_results(&l);
    if (status->waiting_for_samples)
        return;
    judge_arrival(&l);
    judge_rate(&l);
    judge_index(&l);
    judge_channels(&l);
    judge_blocks(&l);
    judge_apart(&l);
    judge_progress(&l);
    judge_units(&l);
    judge_offset(&l);
    judge_skew(&l);
    judge_step(&l);
    judge_replay(&l);
    fill_clocks(&l);
}
