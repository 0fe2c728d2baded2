/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The values received, and the heading at any time. listen.c has the thread that reads them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nav/internal.h"

enum { TRIES = 1000 };

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

/* A reader that sees an odd number of changes, or a different number afterwards, reads again. Under
 * the lock. All accesses are sequentially consistent: headings are rare. */
static void add_heading(sonar_nav *nav, double deg, int64_t utc_ns, bool held) {
    const unsigned begun = atomic_load(&nav->changes) + 1;
    size_t count = atomic_load(&nav->count);
    const size_t last = (count + HEADINGS - 1) % HEADINGS;
    if (count && utc_ns < atomic_load(&nav->heading[last].utc_ns))
        count =
            0; /* the clock was set back, or the source has changed: older values are discarded */
    else if (count && utc_ns == atomic_load(&nav->heading[last].utc_ns))
        count--;
    atomic_store(&nav->changes, begun);
    struct heading *to = &nav->heading[count % HEADINGS];
    atomic_store(&to->utc_ns, utc_ns);
    atomic_store(&to->deg, sonar_modulo_turn(deg));
    atomic_store(&nav->count, count + 1);
    atomic_store(&nav->held, held);
    atomic_store(&nav->changes, begun + 1);
}

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
        add_heading(nav, deg, utc_ns, held);
        nav->heading_source = source;
    }
    if (nav->ship)
        sonar_nav_sail(nav, v, heading ? deg : NAN, utc_ns, held);
    for (int i = 0; i < SONAR_NAV_QUANTITIES; i++)
        if (v->known & 1u << i) {
            nav->values.known |= 1u << i;
            nav->values.value[i] = v->value[i];
            nav->told_ns[i] = utc_ns;
        }
    pthread_mutex_unlock(&nav->lock);
}

/* ---- reading --------------------------------------------------------------------------------- */

static double from_to(double a_deg, double b_deg, double share) {
    return sonar_modulo_turn(a_deg + share * remainder(b_deg - a_deg, 360));
}

struct point {
    int64_t utc_ns;
    double deg;
};

static struct point point_at(sonar_nav *nav, size_t i) {
    const struct heading *h = &nav->heading[i % HEADINGS];
    return (struct point){atomic_load(&h->utc_ns), atomic_load(&h->deg)};
}

/* Two headings that differ by more than a ship can turn come from two instruments, or one came
 * late; they are not interpolated. */
static bool is_turn(struct point last, struct point before, double step_s) {
    const double fastest_deg_per_s = 30;
    return fabs(remainder(last.deg - before.deg, 360)) <= fastest_deg_per_s * step_s;
}

/* After the newest value the turn is extrapolated for as long as the last two values were apart.
 * Then the heading stays constant until it is stale. */
static bool beyond(const sonar_nav *nav, struct point last, struct point before, bool two,
                   bool held, int64_t utc_ns, double *deg) {
    const double since_s = (double)(utc_ns - last.utc_ns) * 1e-9;
    const double step_s = two ? (double)(last.utc_ns - before.utc_ns) * 1e-9 : 0;
    *deg = last.deg;
    if (held)
        return true;
    if (step_s > 0 && step_s < nav->spec.stale_after_s && is_turn(last, before, step_s))
        *deg = from_to(before.deg, last.deg, 1 + fmin(since_s, step_s) / step_s);
    return since_s <= nav->spec.stale_after_s;
}

static bool find(sonar_nav *nav, int64_t utc_ns, double *deg) {
    const size_t count = atomic_load(&nav->count);
    const size_t first = count > HEADINGS ? count - HEADINGS : 0;
    const bool held = atomic_load(&nav->held);
    if (!count)
        return false;
    struct point after = point_at(nav, count - 1);
    if (utc_ns >= after.utc_ns)
        return beyond(nav, after, count - first > 1 ? point_at(nav, count - 2) : after,
                      count - first > 1, held, utc_ns, deg);
    for (size_t i = count - 1; i > first; i--) {
        const struct point before = point_at(nav, i - 1);
        const double step_s = (double)(after.utc_ns - before.utc_ns) * 1e-9;
        if (utc_ns >= before.utc_ns) {
            *deg = from_to(before.deg, after.deg,
                           (double)(utc_ns - before.utc_ns) * 1e-9 / fmax(step_s, 1e-9));
            return step_s <= nav->spec.stale_after_s;
        }
        after = before;
    }
    *deg = after.deg; /* before the first value: the same tolerance as after the last one */
    return held || (double)(after.utc_ns - utc_ns) * 1e-9 <= nav->spec.stale_after_s;
}

bool sonar_nav_heading(sonar_nav *nav, int64_t utc_ns, double *heading_deg, bool *asked) {
    for (int i = 0; i < TRIES; i++) {
        const unsigned begun = atomic_load(&nav->changes);
        if (begun & 1)
            continue;
        const bool found = find(nav, utc_ns, heading_deg);
        *asked = nav->spec.nmea[0] || nav->spec.endpoint || atomic_load(&nav->count);
        if (atomic_load(&nav->changes) == begun)
            return found;
    }
    *asked = true;
    return false;
}

void sonar_nav_read(sonar_nav *nav, int64_t utc_now_ns, sonar_navigation *to) {
    bool asked;
    double deg = NAN;
    *to = (sonar_navigation){.age_s = NAN};
    to->fresh = sonar_nav_heading(nav, utc_now_ns, &deg, &asked);
    to->asked = asked;
    pthread_mutex_lock(&nav->lock);
    const size_t count = atomic_load(&nav->count);
    if (count)
        to->age_s = (double)(utc_now_ns - point_at(nav, count - 1).utc_ns) * 1e-9;
    snprintf(to->source, sizeof to->source, "%s", nav->heading_source ? nav->heading_source : "");
    for (int i = 0; i < SONAR_NAV_QUANTITIES; i++)
        to->value[i] = nav->values.known & 1u << i ? nav->values.value[i] : NAN;
    pthread_mutex_unlock(&nav->lock);
    to->value[SONAR_NAV_HEADING] = to->fresh ? deg : NAN;
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
    if (!(spec->tow_reach_m > 0))
        return SONAR_OK;
    nav->ship = sonar_alloc(1, sizeof *nav->ship);
    if (!nav->ship) {
        sonar_nav_destroy(nav);
        *out = NULL;
        return sonar_fail(err, SONAR_ENOMEM, "navigation", "no memory for the path");
    }
    /* with some room for a longer tow */
    nav->ship->path.spacing_m = fmax(0.5, 2 * spec->tow_reach_m / SONAR_PATH_POINTS);
    return SONAR_OK;
}

void sonar_nav_destroy(sonar_nav *nav) {
    if (!nav)
        return;
    sonar_nav_stop(nav);
    pthread_mutex_destroy(&nav->lock);
    free(nav->ship);
    free(nav);
}
