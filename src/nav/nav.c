/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The values received, and the heading at any time. listen.c has the thread that reads them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nav/internal.h"

static const struct {
    double low, high;
} quantities[SONAR_NAV_QUANTITIES] = {
    [SONAR_NAV_HEADING] = {-360, 360},   [SONAR_NAV_MAGNETIC] = {-360, 360},
    [SONAR_NAV_COURSE] = {-360, 360},    [SONAR_NAV_SPEED] = {0, 1000},
    [SONAR_NAV_WATER_SPEED] = {0, 1000}, [SONAR_NAV_LATITUDE] = {-90, 90},
    [SONAR_NAV_LONGITUDE] = {-180, 180}, [SONAR_NAV_DEPTH] = {0, 12000},
    [SONAR_NAV_TILT] = {-90, 90},
};

void sonar_nav_range(sonar_nav_quantity quantity, double *low, double *high) {
    *low = quantities[quantity].low;
    *high = quantities[quantity].high;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Accepts a compass heading if no true heading has come for a while, or if the last true heading's
 * time is far from now because the clock was set back or another source gave it. */
static bool is_heading(const sonar_nav *nav, const sonar_nav_values *v, int64_t utc_ns,
                       double *deg) {
    if (v->known & 1u << SONAR_NAV_HEADING) {
        *deg = v->value[SONAR_NAV_HEADING];
        return true;
    }
    if (!(v->known & 1u << SONAR_NAV_MAGNETIC))
        return false;
    *deg = v->value[SONAR_NAV_MAGNETIC];
    const int64_t told_ns = nav->told_ns[SONAR_NAV_HEADING];
    return !told_ns || fabs((double)(utc_ns - told_ns)) * 1e-9 > nav->spec.stale_after_s;
}

void sonar_nav_store(sonar_nav *nav, const char *source, const sonar_nav_values *v, int64_t utc_ns,
                     bool held) {
    double deg;
    pthread_mutex_lock(&nav->lock);
    const bool heading = is_heading(nav, v, utc_ns, &deg);
    if (heading) {
        sonar_headings_add(&nav->headings, deg, utc_ns, held);
        nav->heading_source = source;
    }
    if (nav->ship)
        sonar_nav_sail(nav, v, heading ? deg : NAN, utc_ns, held);
    if (sonar_compasses_take(nav, v, utc_ns))
        nav->heading_source = source;
    for (int i = 0; i < SONAR_NAV_QUANTITIES; i++)
        if (v->known & 1u << i) {
            nav->values.known |= 1u << i;
            nav->values.value[i] = v->value[i];
            nav->told_ns[i] = utc_ns;
        }
    pthread_mutex_unlock(&nav->lock);
}

/* ---- reading --------------------------------------------------------------------------------- */

bool sonar_nav_heading(sonar_nav *nav, int64_t utc_ns, double *heading_deg, bool *asked) {
    *asked = nav->spec.nmea[0] || nav->spec.endpoint || nav->compass ||
             !sonar_headings_empty(&nav->headings);
    return sonar_headings_find(&nav->headings, utc_ns, nav->spec.stale_after_s, heading_deg);
}

void sonar_nav_read(sonar_nav *nav, int64_t utc_now_ns, sonar_navigation *to) {
    bool asked;
    double deg = NAN;
    *to = (sonar_navigation){.age_s = NAN};
    const bool ship = sonar_nav_heading(nav, utc_now_ns, &deg, &asked);
    to->asked = asked;
    pthread_mutex_lock(&nav->lock);
    to->fresh = nav->compass ? sonar_compasses_age(nav, utc_now_ns, &to->age_s) : ship;
    sonar_heading newest;
    if (!nav->compass && sonar_headings_newest(&nav->headings, &newest))
        to->age_s = (double)(utc_now_ns - newest.utc_ns) * 1e-9;
    snprintf(to->source, sizeof to->source, "%s", nav->heading_source ? nav->heading_source : "");
    for (int i = 0; i < SONAR_NAV_QUANTITIES; i++)
        to->value[i] = nav->values.known & 1u << i ? nav->values.value[i] : NAN;
    pthread_mutex_unlock(&nav->lock);
    to->value[SONAR_NAV_HEADING] = ship ? deg : NAN;
    for (int i = 0; i < SONAR_NAV_COUNTERS; i++)
        to->count[i] = atomic_load(&nav->counter[i]);
}

/* ---- create and destroy ---------------------------------------------------------------------- */

sonar_code sonar_nav_create(const sonar_nav_spec *spec, const sonar_host *host, sonar_nav **out,
                            sonar_error *err) {
    sonar_nav *nav = *out = sonar_alloc(1, sizeof *nav);
    if (!nav)
        return sonar_fail(err, SONAR_ENOMEM, "navigation", "no memory");
    nav->spec = *spec;
    nav->host = host;
    nav->wake = -1;
    pthread_mutex_init(&nav->lock, NULL);
    if (spec->compasses)
        nav->compass = sonar_alloc(spec->compasses, sizeof *nav->compass);
    if (spec->tow_reach_m > 0)
        nav->ship = sonar_alloc(1, sizeof *nav->ship);
    if ((spec->compasses && !nav->compass) || (spec->tow_reach_m > 0 && !nav->ship)) {
        sonar_nav_destroy(nav);
        *out = NULL;
        return sonar_fail(err, SONAR_ENOMEM, "navigation", "no memory for a towed array");
    }
    if (nav->ship) /* with some room for a longer tow */
        nav->ship->path.spacing_m = fmax(0.5, 2 * spec->tow_reach_m / SONAR_PATH_POINTS);
    return SONAR_OK;
}

void sonar_nav_destroy(sonar_nav *nav) {
    if (!nav)
        return;
    sonar_nav_stop(nav);
    pthread_mutex_destroy(&nav->lock);
    free(nav->ship);
    free(nav->compass);
    free(nav);
}
