/* SPDX-License-Identifier: GPL-3.0-or-later */
/* https://prometheus.io/docs/instrumenting/exposition_formats, version 0.0.4. Names follow from the
 * rows of status/metrics.c: frames.dropped is sonard_frames_dropped_total, stream.age_s is
 * sonard_stream_age_seconds. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "status/metrics.h"
#include "exporter/exporter.h"

static void begin(FILE *to, const char *name, const char *type, const char *help) {
    fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_number(FILE *to, double value) {
    if (isnan(value))
        fputs("NaN\n", to);
    else
        fprintf(to, "%.17g\n", value);
}

/* Seconds and hertz are written in full, and counters end in _total. */
static void name_of(const sonar_metric *m, char name[96]) {
    int used = snprintf(name, 96, "sonard_%s", m->path);
    for (char *dot = name; (dot = strchr(dot, '.'));)
        *dot = '_';
    static const struct {
        const char *unit, *in_full;
    } unit[] = {{"_s", "_seconds"}, {"_hz", "_hertz"}};
    for (size_t i = 0; i < sizeof unit / sizeof *unit; i++) {
        const size_t length = strlen(unit[i].unit);
        if (m->kind == SONAR_MEASURE && !strcmp(name + (size_t)used - length, unit[i].unit)) {
            snprintf(name + (size_t)used - length, 96 - (size_t)used + length, "%s",
                     unit[i].in_full);
            return;
        }
    }
    if (m->kind == SONAR_COUNTER)
        snprintf(name + used, 96 - (size_t)used, "_total");
}

static void put_metric(const sonar_metric *m, const sonar_status *status, FILE *to) {
    char name[96];
    name_of(m, name);
    fprintf(to, "# HELP %s %s: %s\n# TYPE %s %s\n", name, m->unit, m->help, name,
            m->kind == SONAR_COUNTER ? "counter" : "gauge");
    for (size_t i = 0; i < sonar_metric_values(m); i++) {
        const void *value = sonar_metric_value(m, status, i);
        fputs(name, to);
        if (m->by)
            fprintf(to, "{%s=\"%s\"}", m->by->what, m->by->name[i]);
        fputc(' ', to);
        if (m->kind == SONAR_MEASURE)
            put_number(to, *(const double *)value);
        else
            fprintf(to, "%" PRIu64 "\n", *(const uint64_t *)value);
    }
}

/* ---- times ----------------------------------------------------------------------------------- */

/* labels: "" or "stage=\"dft\",". A value equal to an edge counts above it; this differs from
 * Prometheus's rule by a nanosecond. */
static void put_histogram(FILE *to, const char *name, const char *labels,
                          const sonar_percentiles *times) {
    const int length = (int)strlen(labels) - (*labels != '\0');
    for (int i = 0; i < SONAR_HISTOGRAM_EDGES; i++)
        fprintf(to, "%s_bucket{%sle=\"%.9g\"} %" PRIu64 "\n", name, labels,
                ldexp(1e-9, i + SONAR_HISTOGRAM_FIRST_EDGE), times->below[i]);
    fprintf(to, "%s_bucket{%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, times->count);
    fprintf(to, "%s_sum%s%.*s%s %.17g\n", name, length > 0 ? "{" : "", length, labels,
            length > 0 ? "}" : "", times->sum_s);
    fprintf(to, "%s_count%s%.*s%s %" PRIu64 "\n", name, length > 0 ? "{" : "", length, labels,
            length > 0 ? "}" : "", times->count);
}

static void put_times(const sonar_status *status, FILE *to) {
    char labels[64];
    begin(to, "sonard_latency_seconds", "histogram",
          "From the arrival of the last sample to publication");
    put_histogram(to, "sonard_latency_seconds", "", &status->latency);
    begin(to, "sonard_latency_part_seconds", "summary",
          "Parts of that time; they add up to the whole");
    for (int i = 0; i < SONAR_LATENCY_PARTS; i++)
        fprintf(to,
                "sonard_latency_part_seconds_sum{part=\"%s\"} %.17g\n"
                "sonard_latency_part_seconds_count{part=\"%s\"} %" PRIu64 "\n",
                sonar_latency_parts.name[i], status->latency_part[i].sum_s,
                sonar_latency_parts.name[i], status->latency_part[i].count);
    begin(to, "sonard_stage_seconds", "histogram",
          "Time of a stage per window, by part: host, waiting, copying, device");
    for (int s = 0; s < SONAR_TIMED_STAGES; s++)
        for (int part = 0; part < SONAR_STAGE_PARTS; part++) {
            if (!status->stage[s][part].count)
                continue;
            snprintf(labels, sizeof labels, "stage=\"%s\",part=\"%s\",", sonar_timed_stages.name[s],
                     sonar_stage_parts.name[part]);
            put_histogram(to, "sonard_stage_seconds", labels, &status->stage[s][part]);
        }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void put_blocks(const sonar_ingest_report *stream, FILE *to) {
    static const struct {
        const char *name, *help;
        size_t offset;
    } row[] = {{"sonard_block_frames_total", "Accepted frames of a channel block",
                offsetof(sonar_block_totals, frames)},
               {"sonard_block_received_bytes_total", "Bytes of these frames with their headers",
                offsetof(sonar_block_totals, bytes)},
               {"sonard_block_overloads_total",
                "Of these frames, flagged: the digitiser saw an overload, so samples are clipped",
                offsetof(sonar_block_totals, overloads)},
               {"sonard_block_samples_stored_total",
                "Channel-samples of these frames that were new",
                offsetof(sonar_block_totals, stored)},
               {"sonard_block_samples_late_total",
                "Channel-samples of these frames, for windows that were already offered or dropped",
                offsetof(sonar_block_totals, late)},
               {"sonard_block_samples_missing_total",
                "Channel-samples of the block's used channels, missing in windows",
                offsetof(sonar_block_totals, missing)}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        begin(to, row[i].name, "counter", row[i].help);
        for (size_t b = 0; b < stream->totals; b++) {
            const sonar_block_totals *t = &stream->total[b];
            fprintf(to, "%s{channels=\"%u-%u\"} %" PRIu64 "\n", row[i].name, t->first_channel,
                    t->first_channel + t->channels - 1,
                    *(const uint64_t *)((const char *)t + row[i].offset));
        }
    }
}

static void put_clocks(const sonar_status *status, FILE *to) {
    static const struct {
        const char *name, *help;
        size_t offset;
    } row[] = {{"sonard_block_age_seconds",
                "Age of a channel block's newest sample on arrival, by its UTC",
                offsetof(sonar_block_clock, age_s)},
               {"sonard_block_clock_offset_seconds",
                "The least of these ages, which delay does not explain",
                offsetof(sonar_block_clock, offset_s)},
               {"sonard_block_clock_skew_seconds",
                "Lead of the block's UTC over that of the lowest channel, at one index",
                offsetof(sonar_block_clock, skew_s)}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        begin(to, row[i].name, "gauge", row[i].help);
        for (size_t b = 0; b < status->block_clocks; b++) {
            const sonar_block_clock *c = &status->block_clock[b];
            fprintf(to, "%s{channels=\"%u-%u\"} ", row[i].name, c->first_channel,
                    c->first_channel + c->channels - 1);
            put_number(to, *(const double *)((const char *)c + row[i].offset));
        }
    }
}

/* ---- health ---------------------------------------------------------------------------------- */

static void put_health(const sonar_status *status, FILE *to) {
    bool holds[SONAR_CONDITIONS] = {false};
    const sonar_element_health *e = &status->elements;
    for (size_t i = 0; i < status->conditions; i++)
        holds[status->condition[i].code] = true;
    begin(to, "sonard_healthy", "gauge", "1 while health is ok, else 0");
    fprintf(to, "sonard_healthy %d\n", !strcmp(status->health, "ok"));
    begin(to, "sonard_condition", "gauge", "1 while a condition of the health table holds");
    for (int i = 0; i < SONAR_CONDITIONS; i++)
        fprintf(to, "sonard_condition{code=\"%s\"} %d\n",
                sonar_condition_name((sonar_condition_code)i), holds[i]);
    begin(to, "sonard_sensors_faulty", "gauge", "Sensors that have a fault");
    for (int i = 0; i < SONAR_ELEMENT_FAULTS; i++)
        fprintf(to, "sonard_sensors_faulty{fault=\"%s\"} %u\n",
                sonar_element_fault_name((sonar_element_fault)i), e->fault[i].sensors.count);
    begin(to, "sonard_sensors_masked", "gauge", "Sensors that are out of the beams");
    fprintf(to, "sonard_sensors_masked{by=\"hand\"} %zu\nsonard_sensors_masked{by=\"auto\"} %u\n",
            e->masked, e->masked_auto.sensors.count);
    begin(to, "sonard_sensors_judged", "gauge", "Sensors of the last judgement");
    fprintf(to, "sonard_sensors_judged %zu\n", e->judged);
}

void sonar_exporter_print(const sonar_status *status, const sonar_ingest_report *stream, FILE *to) {
    put_health(status, to);
    for (size_t i = 0; i < sonar_metrics_count;
         i++) /* spreads and times are exported as histograms and summaries above */
        if (strcmp(sonar_metrics[i].unit, "us") != 0)
            put_metric(&sonar_metrics[i], status, to);
    put_times(status, to);
    put_blocks(stream, to);
    put_clocks(status, to);
}
