/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Geometry: positions of the sensors, look directions, and delays. It is not a stage: its tables
 * are part of sonar_params. Pure functions, callable from any thread. The caller destroys the
 * results.
 *
 * Array frame: x forward along the array (increasing element index on a line), y to the right of x
 * seen from above, z down; metres; origin the reference point. Azimuth 0 deg on +x, clockwise seen
 * from above. A wave from unit vector u reaches sensor p earlier than the origin by tau = p.u/c.
 */
#ifndef SONAR_MANIFOLD_H
#define SONAR_MANIFOLD_H

#include "sonar/sonar.h"

/* Standard deviations of what is declared of the array; 0: nothing is. */
typedef struct sonar_array_error {
    double phase_deg, position_m; /* of a sensor, each its own; position: in each coordinate */
    double heading_deg, sound_speed_mps;
} sonar_array_error;

enum { SONAR_DIRECTIONS_MOST = 65536 };

/* Dimension of the array. It depends on the positions alone, not on the option that gave them. */
typedef enum sonar_extent {
    SONAR_EXTENT_POINT = 0, /* no aperture */
    SONAR_EXTENT_LINE,      /* cone ambiguity: port/starboard cannot be told apart */
    SONAR_EXTENT_PLANE,     /* up/down of that plane cannot be told apart */
    SONAR_EXTENT_VOLUME
} sonar_extent;

typedef struct sonar_geometry {
    sonar_extent extent;
    double aperture_m;  /* largest distance between two used sensors */
    double axis[3];     /* LINE: unit vector from the first to the last used sensor */
    double effective_m; /* length of the uniform line that has the same beam width: sqrt(12 var) of
                           the used positions along a LINE's axis, else in the widest horizontal
                           direction */
    bool uniform_line;  /* all sensors, including masked ones, are equally spaced on a straight line
                           in index order, to 1e-6 of the spacing */
    double spacing_m;   /* of a uniform line, its spacing; otherwise the median distance to the
                           nearest sensor */
} sonar_geometry;

/* Finds the dimension: a direction in which the array extends by less than `flat_m` does not count
 * (use lambda/20 at the band's top). used may be NULL (all). O(sensors), except the aperture,
 * O(sensors^2) or better. False: no memory. */
bool sonar_geometry_analyse(size_t sensors, const double *position_m, const uint8_t *used,
                            double flat_m, sonar_geometry *geometry);

/* geometry->effective_m of sensors that have the weights `weight`, with a sum that is not 0. The
 * beam width follows from it within 4 % for every shading of this program. */
double sonar_effective_length(size_t sensors, const double *position_m, const double *weight,
                              const sonar_geometry *geometry);

/* Look directions. For a LINE extent az_deg is the angle from the axis (0..180, cone); otherwise
 * azimuth in the array frame 0..360 at the configured depression. u is [direction][3]. */
typedef struct sonar_scan {
    size_t count;
    double *az_deg;
    double *u;
    bool cone;  /* bearing_kind: cone */
    bool wraps; /* last direction neighbours the first */
    /* Cone: azimuth of the axis in the array frame, NaN within 0.6 deg of the vertical; depression
     * of the axis, positive downwards. Otherwise 0. */
    double axis_az_deg, axis_depression_deg;
    double axis[3], perp[3]; /* cone: u = cos(az) axis + sin(az) perp */
    double depression_deg;
    double beam_width_deg; /* -3 dB width of the conventional beam at the band's top: at broadside
                              of a cone; else the narrowest in azimuth at the scan's depression;
                              360: no beam */
} sonar_scan;

typedef struct sonar_scan_spec {
    bool uniform; /* start/stop/step in degrees; otherwise auto */
    double start_deg, stop_deg, step_deg;
    double depression_deg; /* positive downwards; ignored for a cone */
    double top_hz, sound_speed_mps;
    double effective_m;  /* of the shaded array; 0: use the geometry's */
    double coarsest_deg; /* auto: largest spacing, whatever the beam width; for a cone, on average;
                            0: unlimited */
    size_t
        count; /* auto: this number of directions, whatever the beam width; 0: by the beam width */
} sonar_scan_spec;

/* auto: at most 0.3 beam widths apart at the band's top; even in cosine for a line (endpoints 0 and
 * 180 included), even in angle otherwise. uniform: from the start to the last step that does not
 * pass the stop; a direction a full turn after the first is left out. */
sonar_code sonar_scan_create(const sonar_scan_spec *spec, const sonar_geometry *geometry,
                             sonar_scan *scan, sonar_error *err);
void sonar_scan_destroy(sonar_scan *scan);
/* Unit vector towards az_deg of this scan. */
void sonar_scan_unit(const sonar_scan *scan, double az_deg, double u[3]);

typedef enum sonar_range_reference { SONAR_RADIAL = 0, SONAR_ABEAM } sonar_range_reference;

/* Distance from the origin of a point at range r_m in direction u. ABEAM: h / sin(theta) at the
 * angle theta from the axis, infinite at endfire. */
double sonar_point_length(double r_m, sonar_range_reference reference, const double u[3],
                          const double axis[3]);
/* tau_k of a far-field direction in seconds, double. tau has `sensors` entries. */
void sonar_delay_far(size_t sensors, const double *position_m, const double u[3], double c_mps,
                     double *tau_s);
/* Near field: source at range r_m towards u; tau_k = (|s| - |s - p_k|)/c. ABEAM: r_m is the
 * perpendicular distance h from the line with unit vector `axis`; at endfire it is far field
 * (thesis eq. 6.2-6.5). */
void sonar_delay_near(size_t sensors, const double *position_m, const double u[3], double r_m,
                      sonar_range_reference reference, const double axis[3], double c_mps,
                      double *tau_s);
/* bin_width * tau as an entry of sonar_manifold.turns; exact to double rounding. */
uint64_t sonar_turns(double tau_s, double bin_width_hz);

/* A table of turns over a scan. */
typedef struct sonar_manifold_spec {
    size_t sensors;
    const double *position_m; /* [sensor][3] */
    const sonar_scan *scan;
    size_t ranges; /* 0: far field, one row per direction */
    const double *range_m;
    sonar_range_reference reference;
    double c_mps, bin_width_hz;
} sonar_manifold_spec;

/* *table is malloc'ed, [range][direction][sensor]; the caller frees it. SONAR_ENOMEM. */
sonar_code sonar_manifold_make(const sonar_manifold_spec *spec, uint64_t **table, sonar_error *err);
/* Fills such a table of the same size again, by the host's workers. tau_s is scratch,
 * [worker][sensor]. Allocates nothing. */
void sonar_manifold_fill(const sonar_manifold_spec *spec, const sonar_host *host, double *tau_s,
                         uint64_t *turns);

/* Ranges from r_min to r_max, ascending, 1/r spaced by at most 7 lambda / D^2. Returns the number
 * of ranges, writing at most `most` of them (range_m may be NULL, to count only). */
size_t sonar_ranges_auto(double aperture_m, double lambda_m, double r_min_m, double r_max_m,
                         size_t most, double *range_m);

/* The smallest r_min_m from which this many such ranges, 2 or more, reach r_max_m. */
double sonar_ranges_nearest(double aperture_m, double lambda_m, double r_max_m, size_t ranges);

/* Lowest frequency at which a uniform line (or the nearest-neighbour spacing) aliases a grating
 * lobe into the scan: c / (2 spacing) for a full scan. 0 if it never does. */
double sonar_alias_hz(const sonar_geometry *geometry, double c_mps);

#endif
