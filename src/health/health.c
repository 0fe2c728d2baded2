/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "health/health.h"

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

double sonar_health_rounded(double value) {
    double unit = pow(10, floor(log10(value)) - 2);
    return value > 0 ? round(value / unit) * unit : value;
}

const char *sonar_health_span(double seconds, char text[32]) {
    const double day = 86400;
    if (seconds < 600)
        snprintf(text, 32, "%.1f s", seconds);
    else if (seconds < 2 * day)
        snprintf(text, 32, "%.2f h", seconds / 3600);
    else if (seconds < 1000 * day)
        snprintf(text, 32, "%.1f days", seconds / day);
    else
        snprintf(text, 32, "%.1f years", seconds / (365.25 * day));
    return text;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* For causes that a configuration can fix, adds what this daemon would have accepted, and the
 * digitiser of the last refused frame; came == NULL: unknown. */
static void explain(const sonar_config *c, sonar_frame_cause cause, const sonar_refused *came,
                    char text[96]) {
    char channels[32] = "", array[16] = "", rate[32] = "";
    if (came) {
        snprintf(channels, sizeof channels, "channels %u-%u", came->first_channel,
                 came->first_channel + came->channels - 1);
        snprintf(array, sizeof array, " have %u", came->array_id);
        snprintf(rate, sizeof rate, " have %.9g", came->fs_hz);
    }
    const char *comma = came ? ", " : "";
    switch (cause) {
    case SONAR_FRAME_WRONG_RATE:
        snprintf(text, 96, "; fs_hz is %.9g%s%s%s", c->fs_hz, comma, channels, rate);
        break;
    case SONAR_FRAME_WRONG_ARRAY:
        snprintf(text, 96, "; array.id is %u%s%s%s", c->array_id, comma, channels, array);
        break;
    case SONAR_FRAME_WRONG_CHANNELS:
        snprintf(text, 96, "; the array has %zu channels%s%s%s", c->channels, comma, channels,
                 came ? " came" : "");
        break;
    default:
        snprintf(text, 96, "%s%s", came ? ", the last of " : "", channels);
    }
}

/* Refused frames; the sentence names the most frequent cause. */
static void judge_frames(sonar_health *h, const sonar_health_facts *facts, sonar_status *status) {
    const sonar_ingest_counters *now = &status->ingest, *seen = &h->seen.ingest;
    uint64_t most = 0, fresh = 0;
    h->cause = SONAR_FRAME_CAUSES;
    for (int i = 0; i < SONAR_FRAME_CAUSES; i++) {
        uint64_t count = now->frames_dropped[i] - seen->frames_dropped[i];
        fresh += count;
        if (count > most)
            h->cause = (sonar_frame_cause)i;
        most = sonar_max_size(most, count);
    }
    if (!fresh)
        return;
    char explained[96];
    const sonar_refused *last = &facts->stream->refused[h->cause];
    explain(h->config, h->cause, last->at_ns > h->looked_ns ? last : NULL, explained);
    uint64_t received = sonar_max_size(now->frames_received - seen->frames_received, fresh);
    sonar_health_report(status, SONAR_CONDITION_FRAMES_DROPPED, SONAR_DEGRADED,
                        "%llu of %llu frames dropped: %s %llu%s", (unsigned long long)fresh,
                        (unsigned long long)received, sonar_frame_cause_name(h->cause),
                        (unsigned long long)most, explained)
        ->value = (double)fresh;
}

/* Effects of peers on the sockets. */
static void judge_peers(sonar_health *h, const sonar_health_facts *facts, sonar_status *status) {
    const sonar_peer_counters *in = &status->ingest.peers, *in_seen = &h->seen.ingest.peers;
    const sonar_peer_counters *out = &status->output.peers, *out_seen = &h->seen.output.peers;
    uint64_t memory_in = in->reopened_memory - in_seen->reopened_memory;
    uint64_t memory_out = out->reopened_memory - out_seen->reopened_memory;
    uint64_t lost = in->reopened_lost - in_seen->reopened_lost;
    uint64_t refused_in = in->refused - in_seen->refused;
    uint64_t refused_out = out->refused - out_seen->refused;
    (void)facts;
    if (memory_in || memory_out || lost)
        sonar_health_report(
            status, SONAR_CONDITION_SOCKET_REOPENED, SONAR_DEGRADED,
            "the socket for %s was reopened: %s", memory_in || lost ? "samples" : "results",
            memory_in || memory_out ? "its peers held too much memory"
                                    : "a digitiser broke the protocol or sent too large a message")
            ->value = (double)(memory_in + memory_out + lost);
    else if (in->closed || out->closed)
        sonar_health_report(status, SONAR_CONDITION_SOCKET_REOPENED, SONAR_DEGRADED,
                            "the socket for %s is closed: libzmq still frees what its peers held, "
                            "or another program has its endpoint",
                            in->closed ? "samples" : "results")
            ->value = 1;
    if (refused_in || refused_out)
        sonar_health_report(status, SONAR_CONDITION_PEERS_REFUSED, SONAR_NOTICE,
                            "%llu connections of digitisers and %llu of readers refused: too many, "
                            "or too many subscriptions",
                            (unsigned long long)refused_in, (unsigned long long)refused_out)
            ->value = (double)(refused_in + refused_out);
}

/* Refused connections do not affect those that are accepted. */
static void judge_handshakes(sonar_health *h, const sonar_health_facts *facts,
                             sonar_status *status) {
    const uint64_t *in = status->ingest.peers.failed, *in_seen = h->seen.ingest.peers.failed;
    const uint64_t *out = status->output.peers.failed, *out_seen = h->seen.output.peers.failed;
    char causes[96] = "";
    uint64_t senders = 0, readers = 0;
    (void)facts;
    for (int i = 0; i < SONAR_HANDSHAKE_CAUSES; i++) {
        uint64_t fresh = in[i] - in_seen[i] + out[i] - out_seen[i];
        size_t used = strlen(causes);
        senders += in[i] - in_seen[i];
        readers += out[i] - out_seen[i];
        if (fresh)
            snprintf(causes + used, sizeof causes - used, "%s%s %llu", used ? ", " : "",
                     sonar_handshake_causes.name[i], (unsigned long long)fresh);
    }
    if (senders || readers)
        sonar_health_report(status, SONAR_CONDITION_HANDSHAKES_FAILED, SONAR_NOTICE,
                            "%llu connections of digitisers and %llu of readers refused: %s",
                            (unsigned long long)senders, (unsigned long long)readers, causes)
            ->value = (double)(senders + readers);
}

static void judge_silence(sonar_health *h, const sonar_health_facts *facts, sonar_status *status) {
    const sonar_ingest_counters *in = &status->ingest;
    double silence_s = (double)(facts->now_ns - in->last_frame_ns) * 1e-9;
    double limit_s = h->config->silent_after_ms * 1e-3;
    status->stream.since_frame_s = in->last_frame_ns ? fmax(0, silence_s) : NAN;
    status->waiting_for_samples =
        !in->last_frame_ns || (silence_s > limit_s && !facts->stream->held);
    if (!status->waiting_for_samples)
        return;
    h->waited_ns = facts->now_ns;
    if (!in->last_frame_ns) {
        sonar_health_report(status, SONAR_CONDITION_NO_SAMPLES, SONAR_WAITING, "no samples yet");
        return;
    }
    sonar_condition *silent = sonar_health_report(status, SONAR_CONDITION_NO_SAMPLES, SONAR_WAITING,
                                                  "no samples for %.1f s", silence_s);
    silent->value = silence_s;
    silent->limit = limit_s;
}

/* ---- windows and results --------------------------------------------------------------------- */

/* Names a flood as the cause: more samples than the array is configured to send may exceed any
 * computer's capacity. */
static void explain_overload(const sonar_health *h, char text[96]) {
    if (h->burst_hz > 1.1 * h->config->fs_hz)
        snprintf(text, 96, "windows dropped: samples arrive at %.0f/s, fs_hz is %g",
                 sonar_health_rounded(h->burst_hz), h->config->fs_hz);
    else
        snprintf(text, 96, "windows dropped: computing is too slow");
}

static uint64_t counter_at(const sonar_status *status, size_t offset) {
    return *(const uint64_t *)((const char *)status + offset);
}

/* A rank without samples of a window. */
static void judge_ranks(const sonar_health *h, sonar_status *status) {
    uint64_t most = 0;
    size_t worst = 0, absent = 0;
    for (size_t i = 0; i < status->ranks; i++) {
        const uint64_t fresh = status->rank[i].windows_absent - h->seen.rank[i].windows_absent;
        absent += fresh > 0;
        worst = fresh > most ? i : worst;
        most = fresh > most ? fresh : most;
    }
    const sonar_rank_status *r = &status->rank[worst];
    if (!absent)
        return;
    sonar_condition *c = sonar_health_report(
        status, SONAR_CONDITION_RANKS_ABSENT, SONAR_DEGRADED,
        "rank %zu on %s, channels %u-%u, had no samples of %llu windows%s", worst, r->host,
        r->first_channel, r->first_channel + r->channels - 1, (unsigned long long)most,
        absent > 1 ? ", and others lacked some too" : "");
    c->value = (double)most;
    sonar_channel_set_add(&c->channels, r->first_channel, r->channels);
}

/* No rank goes on without the others, so this says why no window comes. */
static void judge_hanging_ranks(sonar_health *h, const sonar_health_facts *facts,
                                sonar_status *status) {
    const double for_s = (double)facts->ranks_wait_ns * 1e-9, limit_s = 2;
    size_t first = 0, hang = 0;
    (void)h;
    if (for_s < limit_s)
        return;
    for (size_t i = status->ranks; i-- > 0;)
        if (facts->rank_hangs[i]) {
            first = i;
            hang++;
        }
    const sonar_rank_status *r = &status->rank[first];
    sonar_condition *c =
        hang ? sonar_health_report(
                   status, SONAR_CONDITION_RANKS_HANG, SONAR_DEGRADED,
                   "rank %zu on %s, channels %u-%u, has not answered for %.1f s%s; no window is "
                   "processed meanwhile",
                   first, r->host, r->first_channel, r->first_channel + r->channels - 1, for_s,
                   hang > 1 ? ", nor have others" : "")
             : sonar_health_report(status, SONAR_CONDITION_RANKS_HANG, SONAR_DEGRADED,
                                   "the ranks have not met for %.1f s; no window is processed "
                                   "meanwhile",
                                   for_s);
    c->value = for_s;
    c->limit = limit_s;
    if (hang)
        sonar_channel_set_add(&c->channels, r->first_channel, r->channels);
}

/* Conditions that hold when a counter has increased. */
static void judge_counters(sonar_health *h, const sonar_health_facts *facts, sonar_status *status) {
#define AT(member) offsetof(sonar_status, member)
    static const struct {
        sonar_condition_code code;
        sonar_condition_severity severity;
        size_t counter;
        const char *what;
    } row[] = {
        {SONAR_CONDITION_RESTARTED, SONAR_DEGRADED, AT(ingest.restarts), "restarts of the stream"},
        {SONAR_CONDITION_DISCONTINUITY, SONAR_DEGRADED, AT(ingest.discontinuities),
         "frames are flagged by the digitiser as following a gap"},
        {SONAR_CONDITION_DIGITISER_OVERLOAD, SONAR_DEGRADED, AT(ingest.digitiser_overload),
         "frames are flagged by the digitiser as overloaded"},
        {SONAR_CONDITION_CLOCK_UNSYNCHRONISED, SONAR_NOTICE, AT(ingest.clock_unsynchronised),
         "frames are flagged by the digitiser: its clock is not synchronised"},
        {SONAR_CONDITION_HELD_BACK, SONAR_NOTICE, AT(ingest.frames_held),
         "frames waited for computing (overload: block)"},
        {SONAR_CONDITION_WINDOWS_FAILED, SONAR_DEGRADED, AT(windows_failed), "windows failed"},
        {SONAR_CONDITION_WINDOWS_OVERLOAD, SONAR_DEGRADED,
         AT(ingest.windows_dropped[SONAR_WINDOW_OVERLOAD]), NULL},
        {SONAR_CONDITION_WINDOWS_MISSING, SONAR_DEGRADED,
         AT(ingest.windows_dropped[SONAR_WINDOW_MISSING]),
         "windows dropped: too many samples missing"},
        {SONAR_CONDITION_WINDOWS_SKIPPED, SONAR_DEGRADED,
         AT(ingest.windows_dropped[SONAR_WINDOW_SKIPPED]), "windows skipped: the stream jumped"},
        {SONAR_CONDITION_WINDOWS_SHED, SONAR_DEGRADED,
         AT(ingest.windows_dropped[SONAR_WINDOW_SHED]), "windows dropped: receiving is too slow"},
        {SONAR_CONDITION_RESULTS_DROPPED, SONAR_DEGRADED, AT(output.results_dropped),
         "results dropped: sending is too slow"},
        {SONAR_CONDITION_MESSAGES_FAILED, SONAR_DEGRADED, AT(output.messages_failed),
         "messages could not be made: no memory"}};
#undef AT
    char overload[96];
    explain_overload(h, overload);
    judge_ranks(h, status);
    (void)facts;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        uint64_t fresh = counter_at(status, row[i].counter) - counter_at(&h->seen, row[i].counter);
        if (fresh)
            sonar_health_report(status, row[i].code, row[i].severity, "%llu %s",
                                (unsigned long long)fresh, row[i].what ? row[i].what : overload)
                ->value = (double)fresh;
    }
}

/* Single bins may end above the tolerance; the header of their window reports this. More than one
 * bin in a hundred means that the limit of sweeps is too low. */
static void judge_mvdr(sonar_health *h, const sonar_health_facts *facts, sonar_status *status) {
    const uint64_t bins = status->mvdr_bins - h->seen.mvdr_bins;
    const uint64_t short_of = status->mvdr_bins_not_converged - h->seen.mvdr_bins_not_converged;
    (void)facts;
    if (100 * short_of <= bins)
        return;
    sonar_condition *c =
        sonar_health_report(status, SONAR_CONDITION_MVDR_NOT_CONVERGED, SONAR_DEGRADED,
                            "%llu of %llu bins of the adaptive spectrum did not converge: "
                            "mvdr.max_sweeps or mvdr.tolerance is too low",
                            (unsigned long long)short_of, (unsigned long long)bins);
    c->value = (double)short_of;
    c->limit = 0.01 * (double)bins;
}

/* A configured recording that fails or has gaps. */
static void judge_recording(sonar_health *h, const sonar_health_facts *facts,
                            sonar_status *status) {
    const sonar_recording *now = &status->record, *seen = &h->seen.record;
    uint64_t lost = 0;
    (void)facts;
    if (now->failed)
        sonar_health_report(status, SONAR_CONDITION_RECORDING_STOPPED, SONAR_DEGRADED,
                            "recording has stopped: %s", now->why);
    for (int i = 0; i < SONAR_RECORD_CAUSES; i++)
        lost += now->counters.dropped[i] - seen->counters.dropped[i];
    if (lost && !now->failed)
        sonar_health_report(status, SONAR_CONDITION_RECORDING_GAPS, SONAR_DEGRADED,
                            "%llu %s not recorded: the disk is too slow", (unsigned long long)lost,
                            now->kind == SONAR_RECORD_RAW ? "samples" : "messages")
            ->value = (double)lost;
    if (now->counters.future)
        sonar_health_report(
            status, SONAR_CONDITION_RECORDING_CLOCK, SONAR_NOTICE,
            "%llu recorded segments have names later than the clock: the clock was wrong "
            "when they were made, or is wrong now",
            (unsigned long long)now->counters.future)
            ->value = (double)now->counters.future;
}

/* A replaced backend gives the same results, perhaps more slowly, until the next start. */
static void judge_backend(sonar_health *h, const sonar_health_facts *facts, sonar_status *status) {
    (void)h, (void)facts;
    if (status->backend_text[0])
        sonar_health_report(status, SONAR_CONDITION_BACKEND_CHANGED, SONAR_NOTICE, "%s",
                            status->backend_text);
}

/* Real-time rights that were requested and not granted. */
static void judge_rights(sonar_health *h, const sonar_health_facts *facts, sonar_status *status) {
    const sonar_rights *refused = facts->rights;
    if (refused && refused->priority[0]) {
        sonar_condition *c = sonar_health_report(status, SONAR_CONDITION_PRIORITY_REFUSED,
                                                 SONAR_NOTICE, "%s", refused->priority);
        c->value = status->data_priority;
        c->limit = h->config->data_priority;
    }
    if (refused && refused->memory[0])
        sonar_health_report(status, SONAR_CONDITION_MEMORY_UNLOCKED, SONAR_NOTICE, "%s",
                            refused->memory)
            ->value = status->locked_bytes;
}

static void judge_training(sonar_health *h, const sonar_health_facts *facts, sonar_status *status) {
    (void)h;
    if (!facts->training_since_ns)
        return;
    const double for_s = (double)(facts->now_ns - facts->training_since_ns) * 1e-9;
    sonar_health_report(status, SONAR_CONDITION_TRAINING, SONAR_DEGRADED,
                        "training for %.0f s; no window is processed", for_s)
        ->value = for_s;
}

static void judge_heading(sonar_health *h, const sonar_health_facts *facts, sonar_status *status) {
    const sonar_navigation *n = &status->navigation;
    (void)h, (void)facts;
    if (!n->asked || n->fresh)
        return;
    if (isfinite(n->age_s))
        sonar_health_report(status, SONAR_CONDITION_HEADING_STALE, SONAR_DEGRADED,
                            "the last heading, from %s, is %.1f s old", n->source, n->age_s)
            ->value = n->age_s;
    else
        sonar_health_report(status, SONAR_CONDITION_HEADING_STALE, SONAR_DEGRADED,
                            "no heading has been received yet");
}

static void judge_tow(sonar_health *h, const sonar_health_facts *facts, sonar_status *status) {
    static const char *const why[] = {
        [SONAR_TOW_NO_SPEED] = "no speed of the ship comes",
        [SONAR_TOW_NO_HEADING] = "the ship has no heading, or one that no ship can turn to",
        [SONAR_TOW_NO_COMPASS] = "no compass in it is heard"};
    const sonar_tow *tow = &status->navigation.tow;
    (void)h, (void)facts;
    if (tow->state >= SONAR_TOW_NO_SPEED)
        sonar_health_report(status, SONAR_CONDITION_TOW_UNKNOWN, SONAR_DEGRADED,
                            "the towed array is taken as straight behind the ship: %s",
                            why[tow->state]);
    if (tow->state == SONAR_TOW_SHORT) {
        sonar_condition *c =
            sonar_health_report(status, SONAR_CONDITION_TOW_UNKNOWN, SONAR_DEGRADED,
                                "the towed array is taken as straight: of the %.0f m of path to "
                                "its end %.0f m are known",
                                tow->reach_m, tow->seen_m);
        c->value = tow->seen_m;
        c->limit = tow->reach_m;
    }
    if (tow->state != SONAR_TOW_NONE && tow->state != SONAR_TOW_NO_SPEED && tow->over_ground)
        sonar_health_report(status, SONAR_CONDITION_TOW_OVER_GROUND, SONAR_NOTICE,
                            "the towed array follows the speed over ground: none through the "
                            "water (VHW) comes");
}

static void judge_compasses(sonar_health *h, const sonar_health_facts *facts,
                            sonar_status *status) {
    const sonar_tow *tow = &status->navigation.tow;
    (void)h, (void)facts;
    if (tow->state != SONAR_TOW_KNOWN || !tow->silent)
        return;
    sonar_condition *c = sonar_health_report(
        status, SONAR_CONDITION_TOW_COMPASSES, SONAR_DEGRADED,
        "the towed array's shape rests on %u of %u compasses: %s%s", tow->compasses - tow->silent,
        tow->compasses, tow->silent_id, tow->silent > 1 ? " and others are silent" : " is silent");
    c->value = tow->silent;
    c->limit = 0;
}

/* A smaller loss is below what levels and calibrations keep. */
static void judge_positions(sonar_health *h, const sonar_health_facts *facts,
                            sonar_status *status) {
    const double least_db = 0.1;
    (void)h, (void)facts;
    if (status->positions_cost_db >= least_db)
        sonar_health_report(status, SONAR_CONDITION_POSITIONS_INEXACT, SONAR_NOTICE,
                            "array.error.position_m costs a beam %.2g dB at %.6g Hz",
                            status->positions_cost_db, status->positions_cost_hz)
            ->value = status->positions_cost_db;
}

/* ---- elements -------------------------------------------------------------------------------- */

#define WHAT(constant, name, what) what,

_Static_assert(SONAR_CONDITION_ELEMENTS_DEAD + SONAR_ELEMENT_FAULTS ==
                   SONAR_CONDITION_ELEMENTS_MASKED,
               "conditions in the order of the faults");

/* A quiet sea and unpowered amplifiers look alike in the samples; both leave hardly any signal. */
static void judge_quiet(const sonar_element_health *e, sonar_status *status) {
    char sensors[80];
    if (!e->quiet)
        return;
    sonar_channel_set_print(&e->still.sensors, sensors, sizeof sensors);
    const uint32_t still = e->still.sensors.count;
    sonar_condition *c = sonar_health_report(status, SONAR_CONDITION_ELEMENTS_QUIET, SONAR_DEGRADED,
                                             "at least half the sensors hardly vary, by less than "
                                             "half a step of the converter: no power, "
                                             "no signal or too low a gain%s%s",
                                             still ? "; constant: " : "", still ? sensors : "");
    c->value = still;
    c->channels = e->still.channels;
}

/* Masked sensors no longer affect the beams, so they do not degrade the health. */
static void judge_elements(sonar_health *h, const sonar_health_facts *facts, sonar_status *status) {
    static const char *const what[] = {SONAR_ELEMENT_FAULT_ROWS(WHAT) "masked automatically"};
    const sonar_element_health *e = &status->elements;
    char sensors[80];
    (void)h, (void)facts;
    judge_quiet(e, status);
    for (int i = 0; i <= SONAR_ELEMENT_FAULTS; i++) {
        bool out = i == SONAR_ELEMENT_FAULTS;
        const sonar_element_list *list = out ? &e->masked_auto : &e->fault[i];
        if (!list->sensors.count)
            continue;
        sonar_channel_set_print(&list->sensors, sensors, sizeof sensors);
        sonar_condition *c = sonar_health_report(
            status, (sonar_condition_code)(SONAR_CONDITION_ELEMENTS_DEAD + i),
            list->used ? SONAR_DEGRADED : SONAR_NOTICE, "%u sensor%s %s: %s", list->sensors.count,
            list->sensors.count > 1 ? "s" : "", what[i], sensors);
        c->value = list->sensors.count;
        c->channels = list->channels;
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

typedef void judge(sonar_health *, const sonar_health_facts *, sonar_status *);

/* Increases with every window that is processed or lost. */
static uint64_t windows_seen(const sonar_status *status) {
    const sonar_ingest_counters *in = &status->ingest;
    uint64_t sum = in->windows_offered + status->windows_processed + status->windows_failed;
    for (int i = 0; i < SONAR_WINDOW_CAUSES; i++)
        sum += in->windows_dropped[i];
    return sum;
}

/* Each judge reports its conditions. Silence is judged first; otherwise the order does not matter.
 */
static judge *const judges[] = {
    judge_silence,
    sonar_health_judge_stream,
    judge_frames,
    judge_peers,
    judge_handshakes,
    judge_counters,
    judge_mvdr,
    judge_elements,
    judge_backend,
    judge_recording,
    judge_training,
    judge_heading,
    judge_tow,
    judge_compasses,
    judge_positions,
    judge_rights,
    sonar_health_judge_clock,
    judge_hanging_ranks,
};

static bool is_of_windows(sonar_condition_code code) {
    return code == SONAR_CONDITION_WINDOWS_FAILED || code == SONAR_CONDITION_SAMPLES_MISSING ||
           code == SONAR_CONDITION_WINDOWS_OVERLOAD || code == SONAR_CONDITION_WINDOWS_MISSING ||
           code == SONAR_CONDITION_RESULTS_LATE || code == SONAR_CONDITION_MVDR_NOT_CONVERGED;
}

/* If windows are rarer than one per second, a loss holds until a window without loss. */
static void keep_losses(const sonar_health *h, sonar_status *status) {
    bool there[SONAR_CONDITIONS] = {false};
    for (size_t i = 0; i < status->conditions; i++)
        there[status->condition[i].code] = true;
    if (status->waiting_for_samples || windows_seen(status) != windows_seen(&h->seen))
        return;
    for (size_t i = 0; i < h->seen.conditions; i++) {
        const sonar_condition *c = &h->seen.condition[i];
        if (is_of_windows(c->code) && !there[c->code])
            status->condition[status->conditions++] = *c;
    }
}

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

/* Joins the sentences of as many conditions as fit in full. */
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

static void judge_all(sonar_health *h, const sonar_health_facts *facts, sonar_status *status) {
    status->conditions = 0;
    status->text[0] = '\0';
    for (size_t i = 0; i < sizeof judges / sizeof judges[0]; i++)
        judges[i](h, facts, status);
    keep_losses(h, status);
    qsort(status->condition, status->conditions, sizeof *status->condition, worst_first);
    note_durations(h, facts, status);
    put_in_words(status);
    sonar_condition_severity worst =
        status->conditions ? status->condition[0].severity : SONAR_NOTICE;
    snprintf(status->health, sizeof status->health, "%s",
             worst == SONAR_NOTICE ? "ok" : sonar_condition_severity_name(worst));
}

/* ---- one call -------------------------------------------------------------------------------- */

void sonar_health_judge(sonar_health *h, const sonar_host *host, const sonar_health_facts *facts,
                        sonar_status *status) {
    judge_all(h, facts, status);
    sonar_health_log(h, host, facts->now_ns, status);
    h->seen = *status;
    h->looked_ns = facts->now_ns;
}
