/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Properties of an array that follow from its positions: dimension, axis, aperture, spacing. */
#include "manifold/manifold.h"

#include "core/core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct point {
    double at[3], key;
} point;

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static double distance(const double a[3], const double b[3]) {
    const double d[3] = {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
    return sqrt(dot(d, d));
}

static int by_key(const void *a, const void *b) {
    const double x = ((const point *)a)->key, y = ((const point *)b)->key;
    return (x > y) - (x < y);
}

/* One rotation of the symmetric 3x3 matrix that zeroes a[p][q]; columns of v follow. */
static void rotate(double a[3][3], double v[3][3], int p, int q) {
    if (a[p][q] == 0)
        return;
    const double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
    const double t = copysign(1, theta) / (fabs(theta) + hypot(theta, 1));
    const double c = 1 / hypot(t, 1), s = t * c;
    for (int k = 0; k < 3; k++) {
        const double x = a[k][p], y = a[k][q];
        a[k][p] = c * x - s * y;
        a[k][q] = s * x + c * y;
    }
    for (int k = 0; k < 3; k++) {
        const double x = a[p][k], y = a[q][k], vx = v[k][p], vy = v[k][q];
        a[p][k] = c * x - s * y;
        a[q][k] = s * x + c * y;
        v[k][p] = c * vx - s * vy;
        v[k][q] = s * vx + c * vy;
    }
}

/* Principal axes of the points about their mean: axis[i], largest variance first. */
static void principal_axes(size_t n, const point *points, double covariance[3][3],
                           double axis[3][3]) {
    double mean[3] = {0}, a[3][3], v[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    for (size_t k = 0; k < n; k++)
        for (int i = 0; i < 3; i++)
            mean[i] += points[k].at[i] / (double)n;
    memset(covariance, 0, sizeof a);
    for (size_t k = 0; k < n; k++)
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                covariance[i][j] +=
                    (points[k].at[i] - mean[i]) * (points[k].at[j] - mean[j]) / (double)n;
    memcpy(a, covariance, sizeof a);
    for (int sweep = 0; sweep < 20; sweep++) {
        rotate(a, v, 0, 1);
        rotate(a, v, 0, 2);
        rotate(a, v, 1, 2);
    }
    int order[3] = {0, 1, 2};
    for (int i = 0; i < 2; i++)
        for (int j = i + 1; j < 3; j++)
            if (a[order[j]][order[j]] > a[order[i]][order[i]]) {
                const int keep = order[i];
                order[i] = order[j];
                order[j] = keep;
            }
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            axis[i][k] = v[k][order[i]];
}

static double extent_along(size_t n, const point *points, const double axis[3]) {
    double low = INFINITY, high = -INFINITY;
    for (size_t k = 0; k < n; k++) {
        const double at = dot(points[k].at, axis);
        low = fmin(low, at);
        high = fmax(high, at);
    }
    return high - low;
}

static const point *farthest(size_t n, const point *points, const double from[3]) {
    const point *best = points;
    for (size_t k = 1; k < n; k++)
        if (distance(points[k].at, from) > distance(best->at, from))
            best = &points[k];
    return best;
}

/* Farthest pair. Points are tried from the outside in, until no pair of points nearer to the mean
 * can be farther apart. Gains below 1e-9 are ignored, or a ring of an odd number of points would
 * take n^2/2 steps. */
static double farthest_pair(size_t n, point *points) {
    double mean[3] = {0}, best = 0;
    for (size_t k = 0; k < n; k++)
        for (int i = 0; i < 3; i++)
            mean[i] += points[k].at[i] / (double)n;
    for (size_t k = 0; k < n; k++)
        points[k].key = -distance(points[k].at, mean);
    qsort(points, n, sizeof *points, by_key);
    const double enough = 1 + 1e-9;
    for (size_t i = 0; i < n && -2 * points[i].key > best * enough; i++)
        for (size_t j = i + 1; j < n && -points[i].key - points[j].key > best * enough; j++)
            best = fmax(best, distance(points[i].at, points[j].at));
    return best;
}

/* Distance from points[i] to the nearest other point. Points are sorted by key, the position along
 * one axis; the search in each direction ends when the keys alone are farther apart. */
static double nearest(size_t n, const point *points, size_t i) {
    double best = INFINITY;
    for (size_t j = i + 1; j < n && points[j].key - points[i].key < best; j++)
        best = fmin(best, distance(points[i].at, points[j].at));
    for (size_t j = i; j-- > 0 && points[i].key - points[j].key < best;)
        best = fmin(best, distance(points[i].at, points[j].at));
    return best;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median distance to the nearest other sensor. `axis` is the direction of the points' longest
 * extent; distances is scratch for n numbers. */
static double median_nearest(size_t n, point *points, const double axis[3], double *distances) {
    if (n < 2)
        return 0;
    for (size_t k = 0; k < n; k++)
        points[k].key = dot(points[k].at, axis);
    qsort(points, n, sizeof *points, by_key);
    for (size_t k = 0; k < n; k++)
        distances[k] = nearest(n, points, k);
    qsort(distances, n, sizeof *distances, by_value);
    return distances[n / 2];
}

/* Equally spaced in index order, masked sensors included: a mask is a weight and leaves no hole. */
static bool is_uniform_line(size_t n, const double *p, double *spacing_m) {
    if (n < 2)
        return false;
    const double *last = p + 3 * (n - 1);
    double step[3];
    for (int i = 0; i < 3; i++)
        step[i] = (last[i] - p[i]) / (double)(n - 1);
    const double spacing = sqrt(dot(step, step));
    if (!(spacing > 0))
        return false;
    for (size_t k = 0; k < n; k++) {
        double ideal[3];
        for (int i = 0; i < 3; i++)
            ideal[i] = p[i] + (double)k * step[i];
        if (distance(p + 3 * k, ideal) > 1e-6 * spacing)
            return false;
    }
    *spacing_m = spacing;
    return true;
}

/* Unit vector along a line of points, from the first towards the last. */
static void line_axis(size_t n, const point *points, double axis[3]) {
    const point *a = farthest(n, points, points[0].at), *b = farthest(n, points, a->at);
    const double length = distance(a->at, b->at);
    double along = 0;
    for (int i = 0; i < 3; i++) {
        axis[i] = (b->at[i] - a->at[i]) / length;
        along += axis[i] * (points[n - 1].at[i] - points[0].at[i]);
    }
    for (int i = 0; i < 3 && along < 0; i++)
        axis[i] = 0 - axis[i];
}

/* sqrt(12 variance): the length of the uniform line with the same beam width; along the axis of a
 * line, else along the widest horizontal direction. */
static double effective_length(const sonar_geometry *g, double c[3][3]) {
    double variance = 0;
    if (g->extent == SONAR_EXTENT_LINE) {
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                variance += g->axis[i] * c[i][j] * g->axis[j];
    } else if (g->extent != SONAR_EXTENT_POINT) {
        variance = (c[0][0] + c[1][1]) / 2 + hypot((c[0][0] - c[1][1]) / 2, c[0][1]);
    }
    return sqrt(12 * fmax(variance, 0));
}

double sonar_effective_length(size_t sensors, const double *position_m, const double *weight,
                              const sonar_geometry *geometry) {
    double sum = 0, mean[3] = {0}, c[3][3] = {{0}};
    for (size_t k = 0; k < sensors; k++) {
        sum += weight[k];
        for (int i = 0; i < 3; i++)
            mean[i] += weight[k] * position_m[3 * k + (size_t)i];
    }
    for (size_t k = 0; k < sensors; k++)
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                c[i][j] += weight[k] / sum * (position_m[3 * k + (size_t)i] - mean[i] / sum) *
                           (position_m[3 * k + (size_t)j] - mean[j] / sum);
    return effective_length(geometry, c);
}

bool sonar_geometry_analyse(size_t sensors, const double *position_m, const uint8_t *used,
                            double flat_m, sonar_geometry *geometry) {
    *geometry = (sonar_geometry){.extent = SONAR_EXTENT_POINT};
    point *points = sonar_alloc(sensors, sizeof *points);
    double *distances = sonar_alloc(sensors, sizeof *distances);
    if (!points || !distances) {
        free(points);
        free(distances);
        return false;
    }
    size_t n = 0;
    for (size_t k = 0; k < sensors; k++)
        if (!used || used[k])
            memcpy(points[n++].at, position_m + 3 * k, sizeof points[0].at);
    if (n) {
        double covariance[3][3], axis[3][3];
        principal_axes(n, points, covariance, axis);
        int rank = 0;
        while (rank < 3 && extent_along(n, points, axis[rank]) >= fmax(flat_m, 1e-12))
            rank++;
        geometry->extent = (sonar_extent)rank;
        if (rank == 1)
            line_axis(n, points, geometry->axis);
        geometry->effective_m = effective_length(geometry, covariance);
        geometry->aperture_m = farthest_pair(n, points);
        geometry->spacing_m = median_nearest(n, points, axis[0], distances);
    }
    free(points);
    free(distances);
    geometry->uniform_line = geometry->extent == SONAR_EXTENT_LINE &&
                             is_uniform_line(sensors, position_m, &geometry->spacing_m);
    return true;
}

double sonar_alias_hz(const sonar_geometry *geometry, double c_mps) {
    return geometry->spacing_m > 0 ? c_mps / (2 * geometry->spacing_m) : 0;
}
