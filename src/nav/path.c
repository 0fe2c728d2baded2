/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "nav/path.h"

#include <math.h>

#include "core/core.h"

/* Number of oldest points that are not read, because they may be replaced meanwhile. */
enum { SPARE = 256 };

static sonar_path_point point_at(const sonar_path *path, size_t i) {
    i %= SONAR_PATH_POINTS;
    return (sonar_path_point){.utc_ns = atomic_load(&path->point[i].utc_ns),
                              .along_m = atomic_load(&path->point[i].along_m),
                              .north_m = atomic_load(&path->point[i].north_m),
                              .east_m = atomic_load(&path->point[i].east_m),
                              .heading_deg = atomic_load(&path->point[i].heading_deg)};
}

/* ---- writing --------------------------------------------------------------------------------- */

/* All accesses are sequentially consistent: headings are rare. */
static void store(sonar_path *path) {
    const size_t count = atomic_load(&path->count), i = count % SONAR_PATH_POINTS;
    atomic_store(&path->point[i].utc_ns, path->here.utc_ns);
    atomic_store(&path->point[i].along_m, path->here.along_m);
    atomic_store(&path->point[i].north_m, path->here.north_m);
    atomic_store(&path->point[i].east_m, path->here.east_m);
    atomic_store(&path->point[i].heading_deg, path->here.heading_deg);
    atomic_store(&path->count, count + 1);
}

void sonar_path_forget(sonar_path *path) {
    atomic_fetch_add(&path->beginnings, 1);
    atomic_store(&path->count, 0);
    atomic_fetch_add(&path->beginnings, 1);
}

void sonar_path_begin(sonar_path *path, int64_t utc_ns, double heading_deg) {
    path->here = (sonar_path_point){.utc_ns = utc_ns, .heading_deg = heading_deg};
    atomic_fetch_add(&path->beginnings, 1);
    atomic_store(&path->count, 0);
    atomic_store(&path->seen_from_m, 0);
    store(path);
    atomic_fetch_add(&path->beginnings, 1);
}

static sonar_path_point moved(sonar_path_point from, double distance_m, double way_deg) {
    from.along_m += distance_m;
    from.north_m += distance_m * cos(way_deg * SONAR_RADIANS);
    from.east_m += distance_m * sin(way_deg * SONAR_RADIANS);
    return from;
}

void sonar_path_add(sonar_path *path, int64_t utc_ns, double distance_m, double way_deg,
                    double heading_deg, bool seen) {
    const double stored_m = point_at(path, atomic_load(&path->count) - 1).along_m;
    path->here = moved(path->here, distance_m, way_deg);
    path->here.utc_ns = utc_ns;
    path->here.heading_deg = heading_deg;
    if (!seen)
        atomic_store(&path->seen_from_m, path->here.along_m);
    if (path->here.along_m - stored_m >= path->spacing_m)
        store(path);
}

void sonar_path_go_on(sonar_path *path, double speed_mps) {
    atomic_store(&path->speed_mps, speed_mps);
}

const sonar_path_point *sonar_path_end(const sonar_path *path) {
    return atomic_load(&path->count) ? &path->here : NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The points [first, end) that are read. */
struct stored {
    size_t first, end;
};

static sonar_path_point between(sonar_path_point a, sonar_path_point b, double share) {
    share = fmin(fmax(share, 0), 1);
    a.along_m += share * (b.along_m - a.along_m);
    a.north_m += share * (b.north_m - a.north_m);
    a.east_m += share * (b.east_m - a.east_m);
    return a;
}

/* The two neighbours between which the path passes that time or that length, whichever is first. */
static struct stored neighbours(const sonar_path *path, struct stored s, int64_t utc_ns,
                                double along_m) {
    while (s.end - s.first > 2) {
        const size_t middle = s.first + (s.end - s.first) / 2;
        const sonar_path_point at = point_at(path, middle);
        if (at.utc_ns <= utc_ns && at.along_m <= along_m)
            s.first = middle;
        else
            s.end = middle + 1;
    }
    return s;
}

static sonar_path_point at_time(const sonar_path *path, struct stored s, int64_t utc_ns) {
    const sonar_path_point newest = point_at(path, s.end - 1), oldest = point_at(path, s.first);
    if (utc_ns >= newest.utc_ns)
        return moved(newest,
                     (double)(utc_ns - newest.utc_ns) * 1e-9 * atomic_load(&path->speed_mps),
                     newest.heading_deg);
    if (utc_ns <= oldest.utc_ns)
        return oldest;
    s = neighbours(path, s, utc_ns, INFINITY);
    const sonar_path_point a = point_at(path, s.first), b = point_at(path, s.end - 1);
    return between(a, b, (double)(utc_ns - a.utc_ns) / fmax((double)(b.utc_ns - a.utc_ns), 1));
}

static sonar_path_point at_length(const sonar_path *path, struct stored s, double along_m) {
    const sonar_path_point newest = point_at(path, s.end - 1), oldest = point_at(path, s.first);
    if (along_m >= newest.along_m)
        return moved(newest, along_m - newest.along_m, newest.heading_deg);
    if (along_m <= oldest.along_m)
        return moved(oldest, along_m - oldest.along_m, oldest.heading_deg);
    s = neighbours(path, s, INT64_MAX, along_m);
    const sonar_path_point a = point_at(path, s.first), b = point_at(path, s.end - 1);
    return between(a, b, (along_m - a.along_m) / fmax(b.along_m - a.along_m, 1e-9));
}

bool sonar_path_places(sonar_path *path, int64_t utc_ns, size_t n, const double *behind_m,
                       double *north_m, double *east_m, double *seen_m) {
    const unsigned beginnings = atomic_load(&path->beginnings);
    const size_t count = atomic_load(&path->count), readable = SONAR_PATH_POINTS - SPARE;
    const struct stored s = {count > readable ? count - readable : 0, count};
    if (!count || beginnings & 1)
        return false;
    const sonar_path_point from = at_time(path, s, utc_ns);
    const double seen_from_m =
        fmax(atomic_load(&path->seen_from_m), point_at(path, s.first).along_m);
    *seen_m = fmax(from.along_m - seen_from_m, 0);
    for (size_t k = 0; k < n; k++) {
        const sonar_path_point at = at_length(path, s, from.along_m - behind_m[k]);
        north_m[k] = at.north_m - from.north_m;
        east_m[k] = at.east_m - from.east_m;
    }
    return atomic_load(&path->beginnings) == beginnings &&
           atomic_load(&path->count) - count <= SPARE;
}
