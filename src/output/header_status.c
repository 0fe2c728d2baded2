/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The header of a status, which is the whole message: counters and times by the table of metrics,
 * and the members for each condition, element, rank or digitiser. Called by messages.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "status/metrics.h"
#include "output/header_parts.h"

/* ---- values ---------------------------------------------------------------------------------- */

static json put_percentiles(const json *to, const char *name, const double us[3]) {
    json times = put_object(to, name);
    put_number(&times, "p50_us", us[0]);
    put_number(&times, "p99_us", us[1]);
    put_number(&times, "max_us", us[2]);
    return times;
}

/* With the mean, because the means of the parts add up to that of the whole. */
static void put_spread(const json *to, const char *name, const sonar_percentiles *times) {
    const json spread = put_percentiles(to, name, times->last_us);
    put_number(&spread, "mean_us", times->last_mean_us);
}

/* Parts that were never measured are omitted. */
static void put_times(const json *to, const char *name, const sonar_percentiles *part) {
    json stage = put_object(to, name);
    for (int i = 0; i < SONAR_STAGE_PARTS; i++) {
        if (!isfinite(part[i].all_us[2]))
            continue;
        json item = put_object(&stage, sonar_stage_parts.name[i]);
        put_percentiles(&item, "all", part[i].all_us);
        put_percentiles(&item, "last", part[i].last_us);
    }
}

static void put_value(const json *to, const char *name, sonar_metric_kind kind, const void *value) {
    switch (kind) {
    case SONAR_COUNTER:
    case SONAR_LEVEL:
        put_uint(to, name, *(const uint64_t *)value);
        break;
    case SONAR_MEASURE:
        put_number(to, name, *(const double *)value);
        break;
    case SONAR_SPREAD:
        put_spread(to, name, value);
        break;
    case SONAR_TIMES:
        put_times(to, name, value);
        break;
    }
}

/* ---- channels and conditions ----------------------------------------------------------------- */

/* Into an object, or into an array without a name. */
static void put_range(const json *to, const char *name, size_t first, size_t last) {
    const json range = put_array(to, name);
    append_number(&range, (double)first);
    append_number(&range, (double)last);
}

static void put_ranges(const json *root, const char *name, const sonar_channel_set *set) {
    json ranges = put_array(root, name);
    for (uint32_t i = 0; i < set->ranges && i < SONAR_CHANNEL_RANGES_MOST; i++)
        put_range(&ranges, NULL, set->first[i], set->last[i]);
}

/* {count, ranges: [[first, last], ...]}, or null for a condition that does not concern channels. */
static void put_channels(const json *root, const sonar_channel_set *set) {
    if (!set->count) {
        put_null(root, "channels");
        return;
    }
    json channels = put_object(root, "channels");
    put_uint(&channels, "count", set->count);
    put_ranges(&channels, "ranges", set);
}

static void put_element_list(const json *root, const char *name, const sonar_element_list *list) {
    json item = put_object(root, name);
    put_uint(&item, "count", list->sensors.count);
    put_ranges(&item, "sensors", &list->sensors);
    put_ranges(&item, "channels", &list->channels);
}

static void put_elements(const json *root, const sonar_element_health *health) {
    json elements = put_object(root, "elements");
    put_uint(&elements, "judged", health->judged);
    put_uint(&elements, "masked", health->masked);
    for (int i = 0; i < SONAR_ELEMENT_FAULTS; i++)
        put_element_list(&elements, sonar_element_fault_name((sonar_element_fault)i),
                         &health->fault[i]);
    put_element_list(&elements, "masked_auto", &health->masked_auto);
    put_element_list(&elements, "masked_hand", &health->masked_hand);
}

static void put_conditions(const json *root, const sonar_status *status) {
    json list = put_array(root, "conditions");
    for (size_t i = 0; i < status->conditions && i < SONAR_CONDITIONS; i++) {
        const sonar_condition *c = &status->condition[i];
        json item = append_object(&list);
        put_string(&item, "code", sonar_condition_name(c->code));
        put_string(&item, "severity", sonar_condition_severity_name(c->severity));
        put_string(&item, "text", c->text);
        put_number(&item, "for_s", c->for_s);
        put_number(&item, "value", c->value);
        put_number(&item, "limit", c->limit);
        put_channels(&item, &c->channels);
    }
}

/* ---- parts of the system --------------------------------------------------------------------- */

/* A line for each rank. */
static void put_ranks(const json *root, const sonar_status *status) {
    json list = put_array(root, "ranks");
    for (size_t i = 0; i < status->ranks; i++) {
        const sonar_rank_status *r = &status->rank[i];
        json item = append_object(&list);
        put_range(&item, "channels", r->first_channel, r->first_channel + r->channels - 1);
        put_string(&item, "host", r->host);
        put_uint(&item, "frames_accepted", r->frames_accepted);
        put_uint(&item, "frames_dropped", r->frames_dropped);
        put_uint(&item, "samples_missing", r->samples_missing);
        put_uint(&item, "windows_absent", r->windows_absent);
        put_uint(&item, "windows_dropped", r->windows_dropped);
    }
}

/* Each block's clock, in addition to its counters. */
static void put_clocks(const json *blocks, const sonar_status *status) {
    json list = put_array(blocks, "clocks");
    for (size_t i = 0; i < status->block_clocks; i++) {
        const sonar_block_clock *clock = &status->block_clock[i];
        json item = append_object(&list);
        put_range(&item, "channels", clock->first_channel,
                  clock->first_channel + clock->channels - 1);
        put_number(&item, "age_s", clock->age_s);
        put_number(&item, "offset_s", clock->offset_s);
        put_number(&item, "skew_s", clock->skew_s);
    }
}

/* {used, fresh, source, age_s, values by name, counters} */
static void put_navigation(const json *root, const sonar_navigation *from) {
    static const char *const counter[SONAR_NAV_COUNTERS] = {"taken", "other", "checksum",
                                                            "malformed"};
    json nav = put_object(root, "navigation");
    put_bool(&nav, "used", from->asked);
    put_bool(&nav, "fresh", from->fresh);
    put_string(&nav, "source", from->source[0] ? from->source : NULL);
    put_number(&nav, "age_s", from->age_s);
    for (int i = 0; i < SONAR_NAV_QUANTITIES; i++)
        put_number(&nav, sonar_nav_name((sonar_nav_quantity)i),
                   from->source[0] ? from->value[i] : NAN);
    for (int i = 0; i < SONAR_NAV_COUNTERS; i++)
        put_uint(&nav, counter[i], from->count[i]);
    if (from->tow.state == SONAR_TOW_NONE) {
        put_null(&nav, "tow");
        return;
    }
    json tow = put_object(&nav, "tow");
    put_string(&tow, "state", sonar_tow_state_name(from->tow.state));
    put_bool(&tow, "over_ground", from->tow.over_ground);
    put_number(&tow, "seen_m", from->tow.seen_m);
    put_number(&tow, "reach_m", from->tow.reach_m);
    put_uint(&tow, "compasses", from->tow.compasses);
    put_uint(&tow, "silent", from->tow.silent);
}

/* What is recorded and where, in addition to the numbers. */
static void put_recording(const json *record, const sonar_recording *from) {
    static const char *const what[] = {"off", "raw", "spectra"};
    put_string(record, "what", what[from->kind]);
    put_string(record, "segment", from->file[0] ? from->file : NULL);
    put_string(record, "why_not", from->failed ? from->why : NULL);
}

static void put_wanted(const json *output, uint32_t wanted) {
    json topics = put_array(output, "wanted");
    for (int i = 0; i < SONAR_SURFACES; i++)
        if (wanted & SONAR_WANT(i))
            append_string(&topics, sonar_topic_name((sonar_surface)i));
}

/* ---- metrics --------------------------------------------------------------------------------- */

/* What else an object of metrics has. `path`: of one of its metrics, `prefix` characters of which
 * name the object. */
static void put_beside(const json *object, const char *path, size_t prefix,
                       const sonar_status *status, uint32_t wanted) {
    if (!strncmp(path, "blocks.", prefix))
        put_clocks(object, status);
    else if (!strncmp(path, "mvdr.", prefix))
        put_string(object, "path", status->mvdr_path[0] ? status->mvdr_path : NULL);
    else if (!strncmp(path, "output.", prefix))
        put_wanted(object, wanted);
    else if (!strncmp(path, "record.", prefix))
        put_recording(object, &status->record);
}

static void put_metric(const json *object, const char *name, const sonar_metric *metric,
                       const sonar_status *status) {
    if (!metric->by) {
        put_value(object, name, metric->kind, sonar_metric_value(metric, status, 0));
        return;
    }
    const json family = put_object(object, name);
    for (size_t k = 0; k < metric->by->count; k++)
        put_value(&family, metric->by->name[k], metric->kind,
                  sonar_metric_value(metric, status, k));
}

/* The metrics from `from` on whose paths have its first `prefix` characters, and the objects that
 * their names divide them into: rows of an object follow each other. Returns the one after them. */
static const sonar_metric *put_metrics(const json *object, const sonar_metric *from, size_t prefix,
                                       const sonar_status *status, uint32_t wanted) {
    const sonar_metric *m = from;
    while (m < sonar_metrics + sonar_metrics_count && !strncmp(m->path, from->path, prefix)) {
        const char *name = m->path + prefix, *dot = strchr(name, '.');
        if (!dot) {
            put_metric(object, name, m++, status);
            continue;
        }
        char group[32];
        snprintf(group, sizeof group, "%.*s", (int)(dot - name), name);
        const json inner = put_object(object, group);
        const size_t longer = (size_t)(dot + 1 - m->path);
        m = put_metrics(&inner, m, longer, status, wanted);
    }
    if (prefix)
        put_beside(object, from->path, prefix, status, wanted);
    return m;
}

/* ---- whole ----------------------------------------------------------------------------------- */

/* Members that every header has and that do not apply here: null. */
static void put_nothing(const json *root) {
    static const char *const name[] = {
        "window",        "sample_index", "sensors_used",        "snapshots",         "loading",
        "missing_share", "latency_us",   "config_sample_index", "shape_sample_index"};
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++)
        put_null(root, name[i]);
}

char *sonar_header_status(const sonar_output_spec *spec, const char *axes,
                          const sonar_status *status, const sonar_header_status_extra *extra) {
    json_text text = {0};
    json root = json_object(&text);
    sonar_header_put_identity(&root, spec, SONAR_STATUS, extra->seq);
    put_int(&root, "utc_ns", extra->utc_ns);
    put_nothing(&root);
    sonar_header_put_layout(&root, spec, SONAR_STATUS, &status->params, axes, NULL);
    sonar_header_put_bearings(&root, spec, SONAR_STATUS, &status->params, NULL,
                              status->params.heading_deg);
    put_navigation(&root, &status->navigation);
    sonar_header_put_band(&root, spec, SONAR_STATUS);
    json flags = put_array(&root, "flags");
    if (extra->repeat)
        append_string(&flags, "repeat");
    sonar_header_put_origin(&root, spec, status->backend, &status->params);
    put_string(&root, "backend_text", status->backend_text);
    put_string(&root, "health", status->health);
    put_string(&root, "text", status->text);
    put_conditions(&root, status);
    put_elements(&root, &status->elements);
    put_ranks(&root, status);
    put_bool(&root, "waiting", status->waiting_for_samples);
    put_metrics(&root, sonar_metrics, 0, status, extra->wanted);
    return json_finish(&text);
}
