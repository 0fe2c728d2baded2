/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Dead reckoning of the tow point from headings and speeds. Values that a ship cannot reach are not
 * used, so that a wrong sentence hardly moves the path. */
#include <math.h>

#include "nav/internal.h"

static const double FASTEST_MPS = 20, /* nothing is towed faster */
    ACCELERATION_MPS2 = 1, SPEED_SLACK_MPS = 1, TURN_DEG_S = 30, HEADING_SLACK_DEG = 2;

static const double BACK_S = 2, /* sources differ by less, so more is a clock that was set back */
    GAP_S = 60;                 /* the path does not go on after a longer one */

static double since_s(int64_t now_ns, int64_t then_ns) {
    return (double)(now_ns - then_ns) * 1e-9;
}

static double reach(double rate_per_s, double slack, double for_s) {
    return slack + rate_per_s * fmax(for_s, 0);
}

double sonar_nav_heading_reach(double for_s) {
    return reach(TURN_DEG_S, HEADING_SLACK_DEG, for_s);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The speed over ground is used only while there is none through the water. */
static bool is_speed(const sonar_nav *nav, const sonar_nav_values *v, int64_t utc_ns, double *mps) {
    const struct ship *ship = nav->ship;
    const bool water = v->known & 1u << SONAR_NAV_WATER_SPEED;
    if (!water && !(v->known & 1u << SONAR_NAV_SPEED))
        return false;
    *mps = v->value[water ? SONAR_NAV_WATER_SPEED : SONAR_NAV_SPEED];
    return water || !ship->water_ns ||
           fabs(since_s(utc_ns, ship->water_ns)) > nav->spec.stale_after_s;
}

static bool take_speed(sonar_nav *nav, const sonar_nav_values *v, int64_t utc_ns, bool held) {
    struct ship *ship = nav->ship;
    const int64_t before_ns = atomic_load(&ship->speed_ns);
    double mps;
    if (!is_speed(nav, v, utc_ns, &mps) || mps > FASTEST_MPS)
        return false;
    if (before_ns && !(fabs(mps - atomic_load(&ship->speed_mps)) <=
                       reach(ACCELERATION_MPS2, SPEED_SLACK_MPS, since_s(utc_ns, before_ns))))
        return false;
    const bool water = v->known & 1u << SONAR_NAV_WATER_SPEED;
    if (water)
        ship->water_ns = utc_ns;
    atomic_store(&ship->speed_mps, mps);
    atomic_store(&ship->speed_held, held);
    atomic_store(&ship->over_ground, !water);
    atomic_store(&ship->speed_ns, utc_ns);
    sonar_path_go_on(&ship->path, mps);
    return true;
}

/* True if the last speed is at most that old, or holds. */
static bool has_speed(sonar_nav *nav, int64_t utc_ns, double age_s) {
    const int64_t told_ns = atomic_load(&nav->ship->speed_ns);
    return told_ns && (atomic_load(&nav->ship->speed_held) || since_s(utc_ns, told_ns) <= age_s);
}

/* From the end of the path on, for for_s. A heading that was set by hand held until the next came;
 * headings of an instrument changed evenly. */
static void go_on(sonar_nav *nav, double heading_deg, int64_t utc_ns, double for_s) {
    struct ship *ship = nav->ship;
    const sonar_path_point *from = sonar_path_end(&ship->path);
    const bool late = for_s > nav->spec.stale_after_s;
    const double turn_deg = remainder(heading_deg - from->heading_deg, 360);
    const double way_deg = from->heading_deg + (late && ship->heading_held ? 0 : turn_deg / 2);
    sonar_path_add(&ship->path, utc_ns, for_s * atomic_load(&ship->speed_mps), way_deg, heading_deg,
                   (!late || ship->heading_held) &&
                       has_speed(nav, utc_ns, nav->spec.stale_after_s));
}

static void forget(struct ship *ship) {
    ship->water_ns = 0;
    atomic_store(&ship->speed_ns, 0);
    sonar_path_forget(&ship->path);
}

void sonar_nav_sail(sonar_nav *nav, const sonar_nav_values *v, double heading_deg, int64_t utc_ns,
                    bool held) {
    struct ship *ship = nav->ship;
    const sonar_path_point *last = sonar_path_end(&ship->path);
    if (last && since_s(utc_ns, last->utc_ns) < -BACK_S) {
        forget(ship);
        last = NULL;
    }
    const bool speed = take_speed(nav, v, utc_ns, held);
    if (isnan(heading_deg) && !(last && speed && ship->heading_held))
        return;
    const double for_s = last ? since_s(utc_ns, last->utc_ns) : 0;
    const double next_deg = isnan(heading_deg) ? last->heading_deg : heading_deg;
    if (!last || (for_s > GAP_S && !ship->heading_held))
        sonar_path_begin(&ship->path, utc_ns, next_deg);
    else if (for_s <= 0 ||
             fabs(remainder(next_deg - last->heading_deg, 360)) > sonar_nav_heading_reach(for_s))
        return;
    else
        go_on(nav, next_deg, utc_ns, for_s);
    ship->heading_held = isnan(heading_deg) ? ship->heading_held : held;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A ship that sends no speed goes on for a while as it did, which is better than nothing. */
static sonar_tow_state find(sonar_nav *nav, int64_t utc_ns, size_t n, const double *behind_m,
                            const sonar_nav_places_m *places, sonar_tow *tow) {
    const double stale_after_s = nav->spec.stale_after_s;
    if (!has_speed(nav, utc_ns, fmax(GAP_S, stale_after_s)))
        return SONAR_TOW_NO_SPEED;
    if (!sonar_path_places(&nav->ship->path, utc_ns, n, behind_m, places->north, places->east,
                           &tow->seen_m))
        return SONAR_TOW_NO_HEADING;
    if (!has_speed(nav, utc_ns, stale_after_s))
        tow->seen_m = 0;
    return tow->seen_m >= tow->reach_m ? SONAR_TOW_KNOWN : SONAR_TOW_SHORT;
}

sonar_tow_state sonar_nav_places(sonar_nav *nav, int64_t utc_ns, size_t n, const double *behind_m,
                                 const sonar_nav_places_m *places, sonar_tow *tow) {
    *tow = (sonar_tow){.state = SONAR_TOW_NONE};
    for (size_t k = 0; k < n; k++) {
        tow->reach_m = fmax(tow->reach_m, behind_m[k]);
        places->depth[k] = 0;
    }
    if (nav->compass) {
        tow->state = sonar_compasses_places(nav, utc_ns, n, behind_m, places, tow);
    } else if (nav->ship) {
        tow->over_ground = atomic_load(&nav->ship->over_ground);
        tow->state = find(nav, utc_ns, n, behind_m, places, tow);
    }
    return tow->state;
}
