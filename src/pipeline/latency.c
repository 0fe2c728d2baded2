/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How a window's time divides into parts, from its last sample to its publication; the parts add up
 * to the whole. The data thread measures its own parts during the window; the output's parts come
 * with the returned result. The window is counted then, with all of its parts. */
#include "pipeline/internal.h"

static uint64_t since(int64_t from_ns, int64_t to_ns) {
    return to_ns > from_ns ? (uint64_t)(to_ns - from_ns) : 0;
}

/* Limits the part to what the whole has left. */
static uint64_t take(uint64_t *left_ns, uint64_t part_ns) {
    const uint64_t taken_ns = part_ns < *left_ns ? part_ns : *left_ns;
    *left_ns -= taken_ns;
    return taken_ns;
}

void sonar_latency_split(uint64_t whole_ns, uint64_t part_ns[SONAR_LATENCY_PARTS]) {
    uint64_t left_ns = whole_ns;
    for (int i = 0; i < SONAR_LATENCY_OTHER; i++)
        part_ns[i] = take(&left_ns, part_ns[i]);
    part_ns[SONAR_LATENCY_OTHER] = left_ns;
}

/* ---- while the window is processed ----------------------------------------------------------- */

void sonar_latency_begin(sonar_pipeline *p, const sonar_window *window, int64_t began_ns) {
    const int64_t offered_ns =
        window->offered_ns > window->arrival_ns ? window->offered_ns : window->arrival_ns;
    p->trip = (struct trip){.arrival_ns = window->arrival_ns};
    p->trip.part_ns[SONAR_LATENCY_INGEST] = since(window->arrival_ns, offered_ns);
    p->trip.part_ns[SONAR_LATENCY_WAITING] = since(offered_ns, began_ns);
}

void sonar_latency_add(sonar_pipeline *p, sonar_latency_part part, int64_t began_ns) {
    p->trip.part_ns[part] += since(began_ns, sonar_monotonic_ns());
}

/* Assigns the device's own times as parts of the run's time on the host's clock. If host and device
 * worked at the same time, what the run has left counts for the earlier stage. */
static void split_run(sonar_pipeline *p) {
    uint64_t *part_ns = p->trip.part_ns, stage_ns[SONAR_ENGINE_STAGES], copy_ns;
    uint64_t left_ns = part_ns[SONAR_LATENCY_ENGINE];
    sonar_engine_last_times(p->engine, stage_ns, &copy_ns);
    take(&left_ns, part_ns[SONAR_LATENCY_HEALTH]);
    part_ns[SONAR_LATENCY_COPY] = take(&left_ns, copy_ns);
    for (int i = 0; i < SONAR_ENGINE_STAGES; i++)
        part_ns[SONAR_LATENCY_DFT + i] = take(&left_ns, stage_ns[i]);
    part_ns[SONAR_LATENCY_ENGINE] = left_ns;
}

void sonar_latency_posted(sonar_pipeline *p, const sonar_result *result, int64_t posted_ns) {
    split_run(p);
    p->trip.posted_ns = posted_ns;
    p->trips[result - p->result] = p->trip;
}

/* ---- when its result is returned ------------------------------------------------------------- */

void sonar_latency_count(sonar_pipeline *p, const sonar_result *result) {
    struct trip *trip = &p->trips[result - p->result];
    if (!result->published_ns) /* the output has ended: it was not sent */
        return;
    trip->part_ns[SONAR_LATENCY_HANDOVER] = since(trip->posted_ns, result->picked_ns);
    trip->part_ns[SONAR_LATENCY_PUBLICATION] = since(result->picked_ns, result->published_ns);
    sonar_latency_split(since(trip->arrival_ns, result->published_ns), trip->part_ns);
    for (int i = 0; i < SONAR_LATENCY_PARTS; i++)
        sonar_histogram_add(&p->latency[i], trip->part_ns[i]);
}

/* ---- stages that the data thread times itself ------------------------------------------------ */

void sonar_latency_stage(sonar_pipeline *p, sonar_timed_stage stage, uint64_t ns) {
    sonar_histogram_add(&p->times.part[stage][SONAR_PART_HOST], ns);
    atomic_store_explicit(&p->times.last_ns[stage], ns, memory_order_relaxed);
}
