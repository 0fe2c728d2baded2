/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The path that the tow point has gone through the water, as a chain of points, and the places on
 * it at distances behind the tow point. Memory is bounded: the oldest points are replaced. One
 * thread at a time adds. Any thread reads at any time and never waits, since points do not change
 * until they are replaced, SONAR_PATH_POINTS later.
 */
#ifndef SONAR_PATH_H
#define SONAR_PATH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SONAR_PATH_POINTS = 8192 };

/* North and east are from the first point. */
typedef struct sonar_path_point {
    int64_t utc_ns;
    double along_m; /* length of the path up to here */
    double north_m, east_m, heading_deg;
} sonar_path_point;

typedef struct sonar_path {
    double spacing_m;       /* least distance of points that are stored */
    sonar_path_point here;  /* of the thread that adds: the end of the path, not stored yet */
    atomic_uint beginnings; /* odd: it is beginning now */
    atomic_size_t count;    /* points so far; the last SONAR_PATH_POINTS are stored */
    _Atomic double seen_from_m, speed_mps;
    struct {
        _Atomic int64_t utc_ns;
        _Atomic double along_m, north_m, east_m, heading_deg;
    } point[SONAR_PATH_POINTS];
} sonar_path;

/* Forgets the path. */
void sonar_path_forget(sonar_path *path);
/* A new path, of one point. */
void sonar_path_begin(sonar_path *path, int64_t utc_ns, double heading_deg);
/* The tow point has gone distance_m towards way_deg and heads heading_deg there. Must be later than
 * the end of the path. seen: heading and speed were known all the way; otherwise the path counts as
 * seen only from here on. */
void sonar_path_add(sonar_path *path, int64_t utc_ns, double distance_m, double way_deg,
                    double heading_deg, bool seen);
/* The speed at which the path goes on after its newest stored point. */
void sonar_path_go_on(sonar_path *path, double speed_mps);
/* The end of the path; NULL: there is none. The thread that adds. */
const sonar_path_point *sonar_path_end(const sonar_path *path);

/* The places behind_m[n] behind the tow point at that time, as north and east of the tow point. The
 * path goes on straight after its newest point, and comes straight from where it begins. *seen_m:
 * the length behind the tow point that was seen. False: there is no path. */
bool sonar_path_places(sonar_path *path, int64_t utc_ns, size_t n, const double *behind_m,
                       double *north_m, double *east_m, double *seen_m);

#endif
