/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "pipeline/timing.h"

#include <math.h>

#include "pipeline/internal.h"

/* ---- histograms ------------------------------------------------------------------------------ */

/* Below 16 ns a bucket each; after that the four bits below the highest choose within an octave. */
static size_t bucket_of(uint64_t ns) {
    if (ns < 16)
        return (size_t)ns;
    size_t octave = 63 - (size_t)__builtin_clzll(ns);
    size_t bucket = (octave - 3) * 16 + (size_t)(ns >> (octave - 4) & 15);
    return bucket < SONAR_HISTOGRAM_BUCKETS ? bucket : SONAR_HISTOGRAM_BUCKETS - 1;
}

static double upper_edge_us(size_t bucket) {
    if (bucket < 16)
        return (double)bucket * 1e-3;
    return ldexp((double)(bucket % 16 + 17), (int)(bucket / 16) - 1) * 1e-3;
}

/* One writer: no atomic addition is needed. */
void sonar_histogram_add(sonar_histogram *histogram, uint64_t ns) {
    _Atomic uint32_t *bucket = &histogram->bucket[bucket_of(ns)];
    atomic_store_explicit(bucket, atomic_load_explicit(bucket, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    if (ns > atomic_load_explicit(&histogram->longest_ns, memory_order_relaxed))
        atomic_store_explicit(&histogram->longest_ns, ns, memory_order_relaxed);
}

/* Upper edge of the bucket that holds the share of the values. */
static double percentile_us(const uint32_t *bucket, double share) {
    uint64_t count = 0, seen = 0;
    for (size_t i = 0; i < SONAR_HISTOGRAM_BUCKETS; i++)
        count += bucket[i];
    const double want = fmax(1, ceil(share * (double)count));
    for (size_t i = 0; i < SONAR_HISTOGRAM_BUCKETS; i++) {
        seen += bucket[i];
        if ((double)seen >= want)
            return upper_edge_us(i);
    }
    return NAN;
}

void sonar_histogram_read(const sonar_histogram *histogram, sonar_histogram_seen *seen,
                          sonar_stage_time *to) {
    static const double share[3] = {0.5, 0.99, 1};
    uint32_t fresh[SONAR_HISTOGRAM_BUCKETS];
    for (size_t i = 0; i < SONAR_HISTOGRAM_BUCKETS; i++) {
        uint32_t now = atomic_load_explicit(&histogram->bucket[i], memory_order_relaxed);
        fresh[i] = now - seen->bucket[i];
        seen->bucket[i] = now;
    }
    const double longest_us =
        (double)atomic_load_explicit(&histogram->longest_ns, memory_order_relaxed) * 1e-3;
    for (int i = 0; i < 3; i++) { /* fmin keeps the number where one is NaN */
        double all = percentile_us(seen->bucket, share[i]);
        double last = percentile_us(fresh, share[i]);
        to->all_us[i] = isnan(all) ? NAN : fmin(all, longest_us);
        to->last_us[i] = isnan(last) ? NAN : fmin(last, longest_us);
    }
}

/* ---- stages ---------------------------------------------------------------------------------- */

static void add_us(sonar_pipeline *p, int stage, sonar_stage_part part, double us) {
    sonar_histogram_add(&p->timing[stage][part], us > 0 ? (uint64_t)(us * 1e3) : 0);
}

sonar_code sonar_timing_window(sonar_pipeline *p, sonar_error *err) {
    struct marks *m = &p->engine.marks;
    m->recorded = 0;
    m->copy_recorded = false;
    m->window_ns = sonar_monotonic_ns();
    return m->window ? p->engine.backend->record(p->engine.queue, m->window, err) : SONAR_OK;
}

sonar_code sonar_timing_begin(sonar_pipeline *p, int stage, sonar_error *err) {
    struct marks *m = &p->engine.marks;
    m->began_ns[stage] = sonar_monotonic_ns();
    return m->window ? p->engine.backend->record(p->engine.queue, m->begin[stage], err) : SONAR_OK;
}

sonar_code sonar_timing_end(sonar_pipeline *p, int stage, sonar_error *err) {
    struct marks *m = &p->engine.marks;
    sonar_histogram_add(&p->timing[stage][SONAR_PART_HOST],
                        (uint64_t)(sonar_monotonic_ns() - m->began_ns[stage]));
    m->recorded |= 1u << stage;
    return m->window ? p->engine.backend->record(p->engine.queue, m->end[stage], err) : SONAR_OK;
}

/* A stage waits in the queue from when the host has begun with it to when the device does; both are
 * counted from the window's mark, which the idle device passes at once. A time that cannot be told
 * is left out: measuring never fails a window. */
void sonar_timing_collect(sonar_pipeline *p) {
    struct marks *m = &p->engine.marks;
    const sonar_backend *backend = p->engine.backend;
    double us, since_us;
    if (!m->window)
        return;
    for (int i = 0; i < STAGES; i++) {
        if (!(m->recorded & 1u << i) || backend->elapsed(m->begin[i], m->end[i], &us, NULL) ||
            backend->elapsed(m->window, m->begin[i], &since_us, NULL))
            continue;
        add_us(p, i, SONAR_PART_DEVICE, us);
        add_us(p, i, SONAR_PART_QUEUE, since_us - (double)(m->began_ns[i] - m->window_ns) * 1e-3);
    }
    if (m->copy_recorded && !backend->elapsed(m->copy_begin, p->engine.copied, &us, NULL))
        add_us(p, STAGE_DFT, SONAR_PART_COPY, us);
}

void sonar_timing_read(sonar_pipeline *p, sonar_status *status) {
    for (int i = 0; i < STAGES; i++)
        for (int part = 0; part < SONAR_STAGE_PARTS; part++)
            sonar_histogram_read(&p->timing[i][part], &p->timing_seen[i][part],
                                 &status->stage[i][part]);
}

/* ---- the events they need -------------------------------------------------------------------- */

sonar_code sonar_timing_create(sonar_pipeline *p, sonar_error *err) {
    struct marks *m = &p->engine.marks;
    const sonar_backend *backend = p->engine.backend;
    if (!backend->elapsed)
        return SONAR_OK;
    sonar_code code = backend->event_create(&m->window, err);
    for (int i = 0; i < STAGE_DETECT && !code; i++) {
        code = backend->event_create(&m->begin[i], err);
        if (!code)
            code = backend->event_create(&m->end[i], err);
    }
    return code ? code : backend->event_create(&m->copy_begin, err);
}

void sonar_timing_destroy(sonar_pipeline *p) {
    struct marks *m = &p->engine.marks;
    sonar_event *const events[] = {m->window, m->copy_begin};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            p->engine.backend->event_destroy(events[i]);
    for (int i = 0; i < STAGES; i++) {
        if (m->begin[i])
            p->engine.backend->event_destroy(m->begin[i]);
        if (m->end[i])
            p->engine.backend->event_destroy(m->end[i]);
    }
}
