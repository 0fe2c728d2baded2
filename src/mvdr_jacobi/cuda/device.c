/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The sizes of the GPU stage's memory. */
#include "mvdr_jacobi/cuda/device.h"

#include "core/core.h"

/* ---- parts of the sensors -------------------------------------------------------------------- */

/* At most `most` parts of at least `least` sensors. */
static mvdr_parts parts_of(size_t sensors, size_t most, size_t least) {
    const size_t size = mvdr_pad(sonar_max_size(least, (sensors + most - 1) / most), 32);
    return (mvdr_parts){.count = (sensors + size - 1) / size, .size = size};
}

mvdr_parts mvdr_parts_of_few(const sonar_mvdr_spec *spec) {
    return parts_of(spec->sensors, 64, 1024);
}

/* A thread block makes a tile of a part in a bin. With 5000 blocks on 132 multiprocessors, the time
 * in which only the last blocks run is a twentieth of the whole. */
mvdr_parts mvdr_parts_of_many(const sonar_mvdr_spec *spec) {
    const mvdr_shape shape = mvdr_shape_of(spec);
    const size_t enough = 5000, tiles = (shape.each * shape.slots + MVDR_TILE - 1) / MVDR_TILE *
                                        ((spec->directions + MVDR_TILE - 1) / MVDR_TILE);
    const size_t blocks = sonar_min_size(enough, spec->bins * sonar_max_size(tiles, 1));
    return parts_of(spec->sensors, sonar_max_size(8, sonar_min_size(16, enough / blocks)),
                    sonar_max_size(256, 4096 * blocks / enough));
}

/* A few points need at most half the memory of an evaluation's points, so that there are twice as
 * many parts. */
mvdr_parts mvdr_parts_of_points(const sonar_mvdr_spec *spec) {
    _Static_assert(2 * MVDR_DEVICE_FEW_POINTS <= MVDR_DEVICE_POINTS, "the sums have memory");
    return parts_of(spec->sensors, 2 * mvdr_parts_of_many(spec).count, 128);
}

/* ---- the stage's arrays ---------------------------------------------------------------------- */

/* Elements of a bin's sums over parts of the sensors: for a few snapshots or for all, with
 * snapshots or with directions. */
static size_t partial_of(const sonar_mvdr_spec *spec, const mvdr_shape *shape, size_t points,
                         size_t columns) {
    const size_t few = sonar_min_size(MVDR_MOST_SEVERAL, shape->slots);
    const size_t rows = sonar_max_size(mvdr_parts_of_few(spec).count * few,
                                       mvdr_parts_of_many(spec).count * shape->slots);
    return shape->by_snapshots ? rows * sonar_max_size(points * shape->each, columns) : 0;
}

static size_t pieces(size_t rows, size_t each) {
    return (rows + each - 1) / each;
}

mvdr_device mvdr_device_of(const sonar_mvdr_spec *spec, const char *named) {
    const mvdr_shape shape = mvdr_shape_of(spec);
    const bool vectors = mvdr_has_vectors(spec), own = mvdr_music_decomposes(spec);
    const size_t bins = spec->bins, columns = shape.each * shape.slots;
    const size_t most = mvdr_pad(shape.order, MVDR_DEVICE_PANEL);
    const size_t pitch = sonar_max_size(MVDR_DEVICE_POINTS, spec->ranges ? spec->directions : 0);
    const size_t points = sonar_max_size(spec->directions, pitch);
    const bool grid = mvdr_route_exists(spec, MVDR_ON_GPU, named, MVDR_ROUTE_FACTOR_GRID),
               updated = mvdr_route_exists(spec, MVDR_ON_GPU, named, MVDR_ROUTE_UPDATE);
    const size_t made = pieces(most, MVDR_DEVICE_GROUP) * (most / MVDR_DEVICE_PANEL);
    return (mvdr_device){
        .sensors = spec->sensors,
        .held = spec->parts == SONAR_MVDR_JOINED ? 0 : spec->sensors,
        .looks = spec->directions,
        .ranges = spec->ranges,
        .modes = sonar_mvdr_modes(spec),
        .arrivals = spec->max_new,
        .slots = shape.slots,
        .columns = columns,
        .most = most,
        .squares = pieces(most, MVDR_DEVICE_SQUARE),
        .pitch = pitch,
        .points = points,
        .sums = shape.by_snapshots ? shape.slots * columns : most * most,
        .partial = partial_of(spec, &shape, points, columns),
        .pairs = spec->alpha > 0 ? spec->max_new : spec->snapshots,
        .inverse_parts = sonar_max_size(made, most / 8),
        .moment_parts = pieces(most, MVDR_DEVICE_MOMENTS),
        .bins = bins,
        .grams = shape.by_snapshots ? bins : 0,
        .covariances = shape.by_snapshots ? 0 : bins,
        .vectors = vectors ? bins : 0,
        .own = own ? bins : 0,
        .decomposed = vectors || own ? bins : 0,
        .teams = mvdr_jacobi_teams(most, vectors || own ? bins : 0),
        .music = spec->music ? bins : 0,
        .gain = mvdr_least_gain(spec) > 0 ? bins : 0,
        .tones = spec->tones ? bins : 0,
        .grid = grid ? bins : 0,
        .updated = updated ? bins : 0,
        .forms = (grid || vectors) && !shape.by_snapshots ? bins : 0,
    };
}

/* ---- all of it ------------------------------------------------------------------------------- */

double sonar_mvdr_device_bytes(const sonar_mvdr_spec *spec) {
    const mvdr_device sizes = mvdr_device_of(spec, NULL), *s = &sizes;
    double bytes = 0;
#define ADD(array, each, a, b) bytes += (double)(each) * (double)(a) * (double)(b);
    MVDR_DEVICE_ARRAYS(ADD)
#undef ADD
    return bytes;
}
