/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Looks up headings at the time of the samples. */
#include <math.h>

#include "pipeline/internal.h"

static int64_t duration_ns(const sonar_pipeline *p, double samples) {
    return (int64_t)llrint(samples / p->config->fs_hz * 1e9);
}

/* Heading of +x; NaN: unknown. tow: facts of a towed array. */
static double heading_of(sonar_pipeline *p, const sonar_config *config, int64_t utc_ns,
                         struct places *places, bool *navigated, sonar_tow *tow) {
    double deg;
    *tow = (sonar_tow){.state = p->tow ? SONAR_TOW_NO_HEADING : SONAR_TOW_NONE};
    if (!sonar_nav_heading(p->nav, utc_ns, &deg, navigated)) {
        if (config->tow_model != SONAR_TOW_SENSORS)
            return NAN;
        deg = NAN; /* the array has compasses of its own */
    }
    if (p->tow) {
        const double towed_deg = sonar_tow_heading(p, config, utc_ns, places, tow);
        deg = isfinite(towed_deg) ? towed_deg : deg;
    }
    return sonar_modulo_turn(deg + config->heading_offset_deg);
}

/* The same on the data thread. */
static double heading_at(sonar_pipeline *p, int64_t utc_ns, bool *navigated, sonar_tow *tow) {
    return heading_of(p, p->live->plan->config, utc_ns, p->tow ? &p->tow->of_data : NULL, navigated,
                      tow);
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
    sonar_tow tow;
    const double deg = heading_at(p, middle_ns, &result->navigated, &tow);
    if (p->tow)
        p->tow->known = tow.state == SONAR_TOW_KNOWN;
    result->tow_unknown = p->tow && !p->tow->known;
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
    sonar_tow tow;
    result->mvdr_middle_utc_ns = result->utc_ns ? middle_ns : 0;
    if (result->navigated)
        result->mvdr_heading_deg = heading_at(p, middle_ns, &navigated, &tow);
}

double sonar_navigate_at(sonar_pipeline *p, const sonar_result *result, ptrdiff_t sample) {
    bool navigated;
    sonar_tow tow;
    const double from_middle = (double)sample - 0.5 * (double)result->window_length;
    return result->navigated
               ? heading_at(p, p->window_middle_ns + duration_ns(p, from_middle), &navigated, &tow)
               : result->params.heading_deg;
}

void sonar_navigate_tick(sonar_pipeline *p, sonar_status *status) {
    sonar_nav_read(p->nav, sonar_utc_ns(), &status->navigation);
    bool navigated;
    const double deg =
        heading_of(p, sonar_pipeline_config(p), sonar_utc_ns(), p->tow ? &p->tow->of_control : NULL,
                   &navigated, &status->navigation.tow);
    if (status->navigation.asked)
        status->params.heading_deg = deg;
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
