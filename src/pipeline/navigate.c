/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Looks up headings at the time of the samples. */
#include <math.h>

#include "pipeline/internal.h"

static int64_t duration_ns(const sonar_pipeline *p, double samples) {
    return (int64_t)llrint(samples / p->config->fs_hz * 1e9);
}

/* Heading of +x; NaN: unknown. */
static double heading_at(sonar_pipeline *p, const sonar_config *config, int64_t utc_ns,
                         bool *navigated) {
    double deg;
    if (!sonar_nav_heading(p->nav, utc_ns, &deg, navigated))
        return NAN;
    return sonar_modulo_turn(deg + config->heading_offset_deg);
}

/* If a digitiser does not know the time, its samples are assumed to arrive without delay. */
static int64_t middle_of(const sonar_pipeline *p, const sonar_window *window) {
    const double length = (double)p->config->specs.window_length;
    if (window->utc_ns)
        return window->utc_ns + duration_ns(p, length / 2);
    const int64_t since_ns = sonar_monotonic_ns() - window->arrival_ns;
    return sonar_utc_ns() - since_ns - duration_ns(p, length / 2);
}

void sonar_navigate_window(sonar_pipeline *p, const sonar_window *window, sonar_result *result) {
    const int64_t middle_ns = middle_of(p, window);
    const double deg = heading_at(p, p->live->plan->config, middle_ns, &result->navigated);
    result->middle_utc_ns = window->utc_ns ? middle_ns : 0;
    p->window_middle_ns = middle_ns;
    result->mvdr_heading_deg = result->params.heading_deg;
    if (!result->navigated)
        return;
    result->params.heading_deg = result->mvdr_heading_deg = deg;
    result->heading_stale = isnan(deg);
}

void sonar_navigate_mvdr(sonar_pipeline *p, sonar_result *result) {
    const double middle =
                     0.5 * ((double)result->mvdr_first_sample + (double)result->mvdr_end_sample),
                 window = (double)result->first_sample + 0.5 * (double)result->window_length;
    const int64_t middle_ns = p->window_middle_ns + duration_ns(p, middle - window);
    bool navigated;
    result->mvdr_middle_utc_ns = result->utc_ns ? middle_ns : 0;
    if (result->navigated)
        result->mvdr_heading_deg = heading_at(p, p->live->plan->config, middle_ns, &navigated);
}

double sonar_navigate_at(sonar_pipeline *p, const sonar_result *result, ptrdiff_t sample) {
    bool navigated;
    const double from_middle = (double)sample - 0.5 * (double)result->window_length;
    return result->navigated
               ? heading_at(p, p->live->plan->config,
                            p->window_middle_ns + duration_ns(p, from_middle), &navigated)
               : result->params.heading_deg;
}

void sonar_navigate_tick(sonar_pipeline *p, sonar_status *status) {
    sonar_nav_read(p->nav, sonar_utc_ns(), &status->navigation);
    bool navigated;
    if (status->navigation.asked)
        status->params.heading_deg =
            heading_at(p, sonar_pipeline_config(p), sonar_utc_ns(), &navigated);
}

void sonar_pipeline_navigation(const sonar_pipeline *p, sonar_navigation *navigation) {
    sonar_nav_read(p->nav, sonar_utc_ns(), navigation);
}

sonar_code sonar_pipeline_navigate(sonar_pipeline *p, const char *json, size_t bytes,
                                   sonar_error *err) {
    sonar_nav_values values;
    int64_t utc_ns = sonar_utc_ns();
    const sonar_code code = sonar_nav_parse(json, bytes, &utc_ns, &values, err);
    if (!code)
        sonar_nav_store(p->nav, "control", &values, utc_ns, true);
    return code;
}
