/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "nav/path.h"

#include <math.h>

#include "core/core.h"

enum { TRIES = 1000, TOGETHER = 256 };

static const double DEGREE = 3.14159265358979323846 / 180;

static sonar_path_point point_at(sonar_path *path, size_t i) {
    return (sonar_path_point){.utc_ns = atomic_load(&path->point[i % SONAR_PATH_POINTS].utc_ns),
                              .along_m = atomic_load(&path->point[i % SONAR_PATH_POINTS].along_m),
                              .north_m = atomic_load(&path->point[i % SONAR_PATH_POINTS].north_m),
                              .east_m = atomic_load(&path->point[i % SONAR_PATH_POINTS].east_m),
                              .heading_deg =
                                  atomic_load(&path->point[i % SONAR_PATH_POINTS].heading_deg)};
}

/* ---- writing --------------------------------------------------------------------------------- */

/* All accesses are sequentially consistent: headings are rare. */
static void put(sonar_path *path, size_t i, const sonar_path_point *from) {
    atomic_store(&path->point[i % SONAR_PATH_POINTS].utc_ns, from->utc_ns);
    atomic_store(&path->point[i % SONAR_PATH_POINTS].along_m, from->along_m);
    atomic_store(&path->point[i % SONAR_PATH_POINTS].north_m, from->north_m);
    atomic_store(&path->point[i % SONAR_PATH_POINTS].east_m, from->east_m);
    atomic_store(&path->point[i % SONAR_PATH_POINTS].heading_deg, from->heading_deg);
}

void sonar_path_begin(sonar_path *path, int64_t utc_ns, double heading_deg) {
    const sonar_path_point first = {.utc_ns = utc_ns, .heading_deg = heading_deg};
    atomic_fetch_add(&path->changes, 1);
    atomic_fetch_add(&path->beginning, 1);
    put(path, 0, &first);
    atomic_store(&path->seen_from_m, 0);
    atomic_store(&path->count, 1);
    atomic_fetch_add(&path->changes, 1);
}

void sonar_path_forget(sonar_path *path) {
    atomic_fetch_add(&path->changes, 1);
    atomic_fetch_add(&path->beginning, 1);
    atomic_store(&path->count, 0);
    atomic_fetch_add(&path->changes, 1);
}

static sonar_path_point moved(sonar_path_point from, double distance_m, double way_deg) {
    from.along_m += distance_m;
    from.north_m += distance_m * cos(way_deg * DEGREE);
    from.east_m += distance_m * sin(way_deg * DEGREE);
    return from;
}

void sonar_path_add(sonar_path *path, int64_t utc_ns, double distance_m, double way_deg,
                    double heading_deg, bool seen) {
    const size_t count = atomic_load(&path->count);
    const sonar_path_point last = point_at(path, count - 1);
    const bool replaces =
        count > 1 && last.along_m - point_at(path, count - 2).along_m < path->spacing_m;
    sonar_path_point next = moved(last, distance_m, way_deg);
    next.utc_ns = utc_ns;
    next.heading_deg = heading_deg;
    atomic_fetch_add(&path->changes, 1);
    put(path, count - replaces, &next);
    if (!seen)
        atomic_store(&path->seen_from_m, next.along_m);
    atomic_store(&path->count, count + !replaces);
    atomic_fetch_add(&path->changes, 1);
}

void sonar_path_go_on(sonar_path *path, double speed_mps) {
    atomic_store(&path->speed_mps, speed_mps);
}

bool sonar_path_newest(sonar_path *path, sonar_path_point *newest) {
    const size_t count = atomic_load(&path->count);
    if (count)
        *newest = point_at(path, count - 1);
    return count > 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The points [first, end) that are stored. */
struct stored {
    size_t first, end;
};

static struct stored stored(sonar_path *path) {
    const size_t end = atomic_load(&path->count);
    return (struct stored){end > SONAR_PATH_POINTS ? end - SONAR_PATH_POINTS : 0, end};
}

static sonar_path_point between(sonar_path_point a, sonar_path_point b, double share) {
    share = fmin(fmax(share, 0), 1);
    a.along_m += share * (b.along_m - a.along_m);
    a.north_m += share * (b.north_m - a.north_m);
    a.east_m += share * (b.east_m - a.east_m);
    return a;
}

static sonar_path_point at_time(sonar_path *path, int64_t utc_ns, double ahead_s) {
    struct stored s = stored(path);
    const sonar_path_point newest = point_at(path, s.end - 1), oldest = point_at(path, s.first);
    const double since_s = (double)(utc_ns - newest.utc_ns) * 1e-9;
    if (since_s >= 0)
        return moved(newest, fmin(since_s, ahead_s) * atomic_load(&path->speed_mps),
                     newest.heading_deg);
    if (utc_ns <= oldest.utc_ns)
        return oldest;
    while (s.end - s.first > 2) { /* the time lies between the first and the last */
        const size_t middle = s.first + (s.end - s.first) / 2;
        if (point_at(path, middle).utc_ns <= utc_ns)
            s.first = middle;
        else
            s.end = middle + 1;
    }
    const sonar_path_point a = point_at(path, s.first), b = point_at(path, s.end - 1);
    return between(a, b, (double)(utc_ns - a.utc_ns) / fmax((double)(b.utc_ns - a.utc_ns), 1));
}

static sonar_path_point at_length(sonar_path *path, double along_m) {
    struct stored s = stored(path);
    const sonar_path_point newest = point_at(path, s.end - 1), oldest = point_at(path, s.first);
    if (along_m >= newest.along_m)
        return moved(newest, along_m - newest.along_m, newest.heading_deg);
    if (along_m <= oldest.along_m)
        return moved(oldest, along_m - oldest.along_m, oldest.heading_deg);
    while (s.end - s.first > 2) {
        const size_t middle = s.first + (s.end - s.first) / 2;
        if (point_at(path, middle).along_m <= along_m)
            s.first = middle;
        else
            s.end = middle + 1;
    }
    const sonar_path_point a = point_at(path, s.first), b = point_at(path, s.end - 1);
    return between(a, b, (along_m - a.along_m) / fmax(b.along_m - a.along_m, 1e-9));
}

static bool begin_reading(sonar_path *path, unsigned *begun) {
    *begun = atomic_load(&path->changes);
    return !(*begun & 1);
}

static bool is_unchanged(sonar_path *path, unsigned begun) {
    return atomic_load(&path->changes) == begun;
}

static bool find_tow_point(sonar_path *path, int64_t utc_ns, double ahead_s, sonar_path_point *at,
                           double *seen_m) {
    for (int i = 0; i < TRIES; i++) {
        unsigned begun;
        if (!begin_reading(path, &begun))
            continue;
        const struct stored s = stored(path);
        if (!s.end)
            return false;
        *at = at_time(path, utc_ns, ahead_s);
        const double from_m =
            fmax(atomic_load(&path->seen_from_m), point_at(path, s.first).along_m);
        *seen_m = fmax(at->along_m - from_m, 0);
        if (is_unchanged(path, begun))
            return true;
    }
    return false;
}

static bool find_some(sonar_path *path, sonar_path_point from, size_t n, const double *behind_m,
                      double *north_m, double *east_m) {
    for (int i = 0; i < TRIES; i++) {
        unsigned begun;
        if (!begin_reading(path, &begun))
            continue;
        for (size_t k = 0; k < n; k++) {
            const sonar_path_point at = at_length(path, from.along_m - behind_m[k]);
            north_m[k] = at.north_m - from.north_m;
            east_m[k] = at.east_m - from.east_m;
        }
        if (is_unchanged(path, begun))
            return true;
    }
    return false;
}

/* Many places would take longer than the path stays unchanged. They are found a few at a time,
 * since what is added to the path leaves the places behind it where they are. */
bool sonar_path_places(sonar_path *path, int64_t utc_ns, double ahead_s, size_t n,
                       const double *behind_m, double *north_m, double *east_m, double *seen_m) {
    const unsigned beginning = atomic_load(&path->beginning);
    sonar_path_point from;
    if (!find_tow_point(path, utc_ns, ahead_s, &from, seen_m))
        return false;
    for (size_t done = 0; done < n; done += TOGETHER)
        if (!find_some(path, from, sonar_min_size(n - done, TOGETHER), behind_m + done,
                       north_m + done, east_m + done))
            return false;
    return atomic_load(&path->beginning) == beginning;
}
