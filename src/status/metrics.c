/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "status/metrics.h"

#include <string.h>

#define AT(member) offsetof(sonar_status, member)

/* clang-format off */
const sonar_metric sonar_metrics[] = {
    /* path, kind, where, one for each, unit, what it is */
    {"uptime_s", SONAR_MEASURE, AT(uptime_s), NULL, "s", "since the start"},
    {"load", SONAR_MEASURE, AT(load), NULL, "share", "busy share of the data thread"},

    {"stream.rate_hz", SONAR_MEASURE, AT(stream.rate_hz), NULL, "1/s", "samples of a channel that arrive, over up to 65 s"},
    {"stream.since_frame_s", SONAR_MEASURE, AT(stream.since_frame_s), NULL, "s", "since the last frame that was accepted"},
    {"stream.age_s", SONAR_MEASURE, AT(stream.age_s), NULL, "s", "age of the newest sample on arrival, by its UTC; of the oldest block"},
    {"stream.clock_offset_s", SONAR_MEASURE, AT(stream.clock_offset_s), NULL, "s", "the least of these ages, which delay does not explain"},
    {"stream.clock_skew_s", SONAR_MEASURE, AT(stream.clock_skew_s), NULL, "s", "largest difference between the UTC of two blocks at one index"},
    {"stream.block_skew_s", SONAR_MEASURE, AT(stream.block_skew_s), NULL, "s", "by how much the slowest block lags behind the newest sample"},
    {"stream.result_age_s", SONAR_MEASURE, AT(stream.result_age_s), NULL, "s", "largest delay of a result after its last sample"},

    {"clock.synchronised", SONAR_MEASURE, AT(clock.synchronised), NULL, "0 or 1", "the kernel considers the node's clock synchronised"},
    {"clock.offset_s", SONAR_MEASURE, AT(clock.offset_s), NULL, "s", "correction that the kernel still has to apply"},
    {"clock.max_error_s", SONAR_MEASURE, AT(clock.max_error_s), NULL, "s", "bound of the clock's error; grows while the clock is not synchronised"},
    {"clock.frequency_ppm", SONAR_MEASURE, AT(clock.frequency_ppm), NULL, "ppm", "frequency correction relative to the oscillator"},
    {"clock.tai_s", SONAR_MEASURE, AT(clock.tai_s), NULL, "s", "TAI - UTC, if the kernel knows it"},
    {"clock.leap", SONAR_MEASURE, AT(clock.leap), NULL, "1, 0 or -1", "a leap second is inserted (1) or omitted (-1) at the end of the day"},
    {"clock.steps", SONAR_COUNTER, AT(clock.steps), NULL, "times", "the clock was stepped by more than 5 ms"},
    {"clock.last_step_s", SONAR_MEASURE, AT(clock.last_step_s), NULL, "s", "size of the last of these steps; positive: forward"},

    {"frames.received", SONAR_COUNTER, AT(ingest.frames_received), NULL, "frames", "messages received: accepted and dropped"},
    {"frames.accepted", SONAR_COUNTER, AT(ingest.frames_accepted), NULL, "frames", "placed in the ring"},
    {"frames.dropped", SONAR_COUNTER, AT(ingest.frames_dropped), &sonar_frame_causes, "frames", "not accepted, by cause"},
    {"frames.sequence_gaps", SONAR_COUNTER, AT(ingest.sequence_gaps), NULL, "frames", "sent, by their sequence number, but never received"},
    {"frames.restarts", SONAR_COUNTER, AT(ingest.restarts), NULL, "times", "timelines adopted after the first"},
    {"frames.clock_unsynchronised", SONAR_COUNTER, AT(ingest.clock_unsynchronised), NULL, "frames", "flagged: the digitiser's clock is not synchronised"},
    {"frames.digitiser_overload", SONAR_COUNTER, AT(ingest.digitiser_overload), NULL, "frames", "flagged: the digitiser saw an overload"},
    {"frames.discontinuities", SONAR_COUNTER, AT(ingest.discontinuities), NULL, "frames", "flagged: they do not follow on"},
    {"frames.index_jumps", SONAR_COUNTER, AT(ingest.index_jumps), NULL, "frames", "that follow in sequence but not by their index"},
    {"frames.held", SONAR_COUNTER, AT(ingest.frames_held), NULL, "frames", "that had to wait for room, with `overload: block`"},
    {"frames.peers.connected", SONAR_LEVEL, AT(ingest.peers.connected), NULL, "connections", "of digitisers now; with `socket: sub` the endpoints"},
    {"frames.peers.accepted", SONAR_COUNTER, AT(ingest.peers.accepted), NULL, "connections", "of digitisers that were opened, admitted or not"},
    {"frames.peers.admitted", SONAR_COUNTER, AT(ingest.peers.admitted), NULL, "connections", "of digitisers that passed the handshake"},
    {"frames.peers.failed", SONAR_COUNTER, AT(ingest.peers.failed), &sonar_handshake_causes, "connections", "that did not pass it, by cause"},
    {"frames.peers.refused", SONAR_COUNTER, AT(ingest.peers.refused), NULL, "connections", "of digitisers refused: too many"},
    {"frames.peers.reopened_memory", SONAR_COUNTER, AT(ingest.peers.reopened_memory), NULL, "times", "the socket was reopened: its peers held too much memory"},
    {"frames.peers.reopened_lost", SONAR_COUNTER, AT(ingest.peers.reopened_lost), NULL, "times", "the socket was reopened: libzmq had given up an endpoint"},
    {"frames.peers.closed", SONAR_LEVEL, AT(ingest.peers.closed), NULL, "0 or 1", "the socket is closed now, to be reopened"},
    {"blocks.seen", SONAR_LEVEL, AT(ingest.blocks_seen), NULL, "blocks", "channel blocks received in this epoch"},
    {"blocks.silent", SONAR_LEVEL, AT(ingest.blocks_silent), NULL, "blocks", "of these, silent for `silent_after_ms`"},
    {"samples.stored", SONAR_COUNTER, AT(ingest.samples_stored), NULL, "channel-samples", "of accepted frames, new"},
    {"samples.repeated", SONAR_COUNTER, AT(ingest.samples_repeated), NULL, "channel-samples", "of accepted frames, stored before"},
    {"samples.late", SONAR_COUNTER, AT(ingest.samples_late), NULL, "channel-samples", "of accepted frames, for windows that were already offered or dropped"},
    {"samples.missing", SONAR_COUNTER, AT(ingest.samples_missing), NULL, "channel-samples", "of used channels, missing in windows; each counted once"},

    {"windows.offered", SONAR_COUNTER, AT(ingest.windows_offered), NULL, "windows", "complete, or no longer waited for"},
    {"windows.taken", SONAR_COUNTER, AT(ingest.windows_taken), NULL, "windows", "taken by the data thread"},
    {"windows.dropped", SONAR_COUNTER, AT(ingest.windows_dropped), &sonar_window_causes, "windows", "not processed, by cause"},
    {"windows.waiting", SONAR_LEVEL, AT(ingest.windows_waiting), NULL, "windows", "offered, and not taken yet"},
    {"windows.processed", SONAR_COUNTER, AT(windows_processed), NULL, "windows", "computed"},
    {"windows.failed", SONAR_COUNTER, AT(windows_failed), NULL, "windows", "lost because a stage failed"},

    {"mvdr.bins", SONAR_COUNTER, AT(mvdr_bins), NULL, "bins", "of the adaptive spectrum, computed"},
    {"mvdr.bins_not_converged", SONAR_COUNTER, AT(mvdr_bins_not_converged), NULL, "bins", "whose eigendecomposition did not converge"},
    {"mvdr.most_sweeps", SONAR_LEVEL, AT(mvdr_most_sweeps), NULL, "sweeps", "of the Jacobi method, in the slowest bin of the last window"},

    {"output.messages_sent", SONAR_COUNTER, AT(output.messages_sent), NULL, "messages", "of all topics"},
    {"output.messages_failed", SONAR_COUNTER, AT(output.messages_failed), NULL, "messages", "not made: no memory"},
    {"output.subscriptions", SONAR_COUNTER, AT(output.subscriptions), NULL, "requests", "to subscribe"},
    {"output.results_dropped", SONAR_COUNTER, AT(output.results_dropped), NULL, "windows", "computed but not sent: sending is too slow"},
    {"output.results_waiting", SONAR_LEVEL, AT(output.results_waiting), NULL, "windows", "computed, and not sent yet"},
    {"output.topic_sent", SONAR_COUNTER, AT(output.topic_sent), &sonar_topics, "messages", "handed to the socket"},
    {"output.topic_failed", SONAR_COUNTER, AT(output.topic_failed), &sonar_topics, "messages", "not made: no memory"},
    {"output.topic_wanted", SONAR_LEVEL, AT(output.topic_wanted), &sonar_topics, "0 or 1", "it has a subscriber now"},
    {"output.peers.connected", SONAR_LEVEL, AT(output.peers.connected), NULL, "connections", "of readers now"},
    {"output.peers.accepted", SONAR_COUNTER, AT(output.peers.accepted), NULL, "connections", "of readers that were opened, admitted or not"},
    {"output.peers.admitted", SONAR_COUNTER, AT(output.peers.admitted), NULL, "connections", "of readers that passed the handshake"},
    {"output.peers.failed", SONAR_COUNTER, AT(output.peers.failed), &sonar_handshake_causes, "connections", "that did not pass it, by cause"},
    {"output.peers.refused", SONAR_COUNTER, AT(output.peers.refused), NULL, "connections", "of readers refused: too many, or their subscriptions too many or too fast"},
    {"output.peers.reopened_memory", SONAR_COUNTER, AT(output.peers.reopened_memory), NULL, "times", "the socket was reopened: its peers held too much memory"},
    {"output.peers.reopened_lost", SONAR_COUNTER, AT(output.peers.reopened_lost), NULL, "times", "always 0: this socket binds"},
    {"output.peers.closed", SONAR_LEVEL, AT(output.peers.closed), NULL, "0 or 1", "the socket is closed now, to be reopened"},

    {"record.on", SONAR_LEVEL, AT(record.counters.on), NULL, "0 or 1", "recording is on"},
    {"record.bytes", SONAR_COUNTER, AT(record.counters.bytes), NULL, "bytes", "written, of samples or messages"},
    {"record.waiting", SONAR_LEVEL, AT(record.counters.waiting), NULL, "bytes", "waiting for the disk"},
    {"record.segments", SONAR_COUNTER, AT(record.counters.segments), NULL, "segments", "begun"},
    {"record.deleted", SONAR_COUNTER, AT(record.counters.deleted), NULL, "segments", "deleted: too many, or too old"},
    {"record.future", SONAR_LEVEL, AT(record.counters.future), NULL, "segments", "kept, with names later than the clock"},
    {"record.stopped", SONAR_COUNTER, AT(record.counters.stopped), NULL, "times", "recording ended because of an error"},
    {"record.dropped", SONAR_COUNTER, AT(record.counters.dropped), &sonar_record_causes, "samples or messages", "not recorded, by cause; samples of all channels count once"},

    {"latency", SONAR_SPREAD, AT(latency), NULL, "us", "from the arrival of the last sample to publication, since the last status"},
    {"latency_parts", SONAR_SPREAD, AT(latency_part), &sonar_latency_parts, "us", "where that time goes"},
    {"stage_us", SONAR_MEASURE, AT(stage_us), &sonar_timed_stages, "us", "of the last window; on a GPU the device's time"},
    {"stage_times", SONAR_TIMES, AT(stage), &sonar_timed_stages, "us", "where a stage's time goes"},
    {"device_free_bytes", SONAR_MEASURE, AT(device_free_bytes), NULL, "bytes", "of the GPU's memory, after its engine was created"},
    {"resident_bytes", SONAR_MEASURE, AT(resident_bytes), NULL, "bytes", "memory of the process"},
    {"locked_bytes", SONAR_MEASURE, AT(locked_bytes), NULL, "bytes", "of these, locked: never swapped out (`runtime.lock_memory`)"},
    {"data_priority", SONAR_MEASURE, AT(data_priority), NULL, "priority", "real-time priority of the data thread; 0: none"},
};
/* clang-format on */
const size_t sonar_metrics_count = sizeof sonar_metrics / sizeof *sonar_metrics;

_Static_assert(sizeof(double) == sizeof(uint64_t), "values are 64-bit words");

size_t sonar_metric_values(const sonar_metric *metric) {
    return metric->by ? metric->by->count : 1;
}

const void *sonar_metric_value(const sonar_metric *metric, const sonar_status *status, size_t i) {
    static const size_t bytes[] = {[SONAR_COUNTER] = sizeof(uint64_t),
                                   [SONAR_LEVEL] = sizeof(uint64_t),
                                   [SONAR_MEASURE] = sizeof(double),
                                   [SONAR_SPREAD] = sizeof(sonar_percentiles),
                                   [SONAR_TIMES] = sizeof(sonar_percentiles[SONAR_STAGE_PARTS])};
    return (const char *)status + metric->offset + i * bytes[metric->kind];
}

void sonar_ingest_counters_add(sonar_ingest_counters *sum, const sonar_ingest_counters *of) {
    for (const sonar_metric *m = sonar_metrics; m < sonar_metrics + sonar_metrics_count; m++) {
        if (m->offset < AT(ingest) || m->offset >= AT(ingest) + sizeof *sum)
            continue;
        uint64_t *to = (uint64_t *)sum + (m->offset - AT(ingest)) / sizeof *to;
        const uint64_t *from = (const uint64_t *)of + (m->offset - AT(ingest)) / sizeof *from;
        const bool takes_most = !strcmp(m->unit, "windows");
        for (size_t i = 0; i < sonar_metric_values(m); i++)
            if (!takes_most)
                to[i] += from[i];
            else if (from[i] > to[i])
                to[i] = from[i];
    }
}
