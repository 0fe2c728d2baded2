/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Turns of the look points on the device, and which of the special forms the table has. The forms
 * are found in the table itself.
 */
#ifndef SONAR_CBF_TABLE_CUDA_CUH
#define SONAR_CBF_TABLE_CUDA_CUH

#include "cbf/line_cuda.cuh"
#include "cbf/pass_cuda.cuh"

#include <stdlib.h>
#include <string.h>

/* to[sensor][from_point + point] = from[point][sensor]; neighbouring lanes are then neighbours in
 * memory. Grid: sensors x points in tiles. */
static __global__ void transpose(const uint64_t *from, uint32_t points, uint32_t sensors,
                                 uint64_t *to, size_t to_row) {
    __shared__ uint64_t tile[TRANSPOSE][TRANSPOSE + 1];
    uint32_t sensor = blockIdx.x * TRANSPOSE, point = blockIdx.y * TRANSPOSE;
    for (uint32_t i = threadIdx.y; i < TRANSPOSE; i += blockDim.y)
        if (sensor + threadIdx.x < sensors && point + i < points)
            tile[i][threadIdx.x] = from[(size_t)(point + i) * sensors + sensor + threadIdx.x];
    __syncthreads();
    for (uint32_t i = threadIdx.y; i < TRANSPOSE; i += blockDim.y)
        if (sensor + i < sensors && point + threadIdx.x < points)
            to[(size_t)(sensor + i) * to_row + point + threadIdx.x] = tile[threadIdx.x][i];
}

/* Turns of one field on the device, [sensor][row]. */
struct table {
    uint64_t *turns;
    size_t points, sensors, row;
    bool may_mirror, may_line;
    bool mirrored_first; /* the line's path is taken only if the points are not mirrored */
    struct mirror *host_mirror, *mirror; /* [points], in host and in device memory */
    size_t mirrors;                      /* 0: no mirrored points */
    bool line;                           /* the table is that of a uniform line */
    size_t matrix_from;     /* number of snapshots from which tensor cores are used; 0: never */
    uint64_t version, made; /* of the parameters, and of the content of their manifold */
    bool ready;
};

/* Buffer through which a table is copied to the device, a part at a time. */
struct staging {
    uint64_t *turns; /* [points][sensor] */
    size_t points;
};

/* True if every sensor's weight is that of its place in the column times that of the column, and
 * both increase evenly. */
static bool is_line(const uint64_t *turns, size_t points, size_t sensors, size_t span) {
    for (size_t p = 0; p < points; p++, turns += sensors)
        for (size_t k = 1; k < sensors; k++) {
            size_t place = k % span, column = k - place;
            if (!same_turns(turns[k] - turns[k - 1], turns[1] - turns[0]) ||
                !same_turns(turns[k] - turns[column], turns[place] - turns[0]) ||
                (k >= span && !same_turns(turns[k] - turns[k - span], turns[span] - turns[0])))
                return false;
        }
    return true;
}

static size_t line_span(size_t sensors) {
    return (sensors + COLUMNS - 1) / COLUMNS;
}

/* Finds whether the table is a line, and returns the number of mirrored pairs; 0: points are taken
 * one by one. */
static size_t find_form(struct table *table, const uint64_t *turns) {
    size_t sensors = table->sensors, points = table->points, mirrored = 0;
    bool line = table->may_line && is_line(turns, points, sensors, line_span(sensors));
    if (table->may_mirror && (!line || table->mirrored_first))
        mirrored = find_mirrors(turns, points, sensors, (points + 9) / 10, table->host_mirror);
    table->line = line && !mirrored;
    return table->line ? find_mirrors(turns, points, sensors, points, table->host_mirror)
                       : mirrored;
}

static sonar_code upload_mirrors(struct table *table, const uint64_t *turns, cudaStream_t stream,
                                 sonar_error *err) {
    size_t count = find_form(table, turns);
    table->mirrors = 0;
    if (!count)
        return SONAR_OK;
    CUDA_TRY("cbf",
             cudaMemcpyAsync(table->mirror, table->host_mirror, count * sizeof *table->mirror,
                             cudaMemcpyHostToDevice, stream),
             err);
    table->mirrors = count;
    return SONAR_OK;
}

static sonar_code upload_table(const struct staging *staging, struct table *table,
                               const sonar_manifold *manifold, uint64_t version,
                               cudaStream_t stream, sonar_error *err) {
    const uint64_t *turns = manifold->turns;
    const bool same = manifold->made && manifold->made == table->made;
    if (table->ready && (same || table->version == version))
        return SONAR_OK;
    size_t sensors = table->sensors;
    table->ready = false;
    for (size_t done = 0; done < table->points; done += staging->points) {
        size_t points = sonar_min_size(table->points - done, staging->points);
        CUDA_TRY("cbf",
                 cudaMemcpyAsync(staging->turns, turns + done * sensors,
                                 points * sensors * sizeof *turns, cudaMemcpyHostToDevice, stream),
                 err);
        dim3 grid((unsigned)((sensors + TRANSPOSE - 1) / TRANSPOSE),
                  (unsigned)((points + TRANSPOSE - 1) / TRANSPOSE));
        transpose<<<grid, dim3(TRANSPOSE, 8), 0, stream>>>(
            staging->turns, (uint32_t)points, (uint32_t)sensors, table->turns + done, table->row);
        sonar_code code = CUDA_LAUNCHED("cbf", "transpose", err);
        if (code)
            return code;
    }
    sonar_code code = upload_mirrors(table, turns, stream, err);
    table->version = version;
    table->made = manifold->made;
    table->ready = !code;
    return code;
}

static sonar_code make_table(size_t points, size_t sensors, struct table *table, sonar_error *err) {
    size_t count;
    table->points = points;
    table->sensors = sensors;
    table->row = (points + LANES - 1) / LANES * LANES;
    if (__builtin_mul_overflow(table->row, sensors, &count))
        return sonar_fail(err, SONAR_ENOMEM, "cbf", "table too large to count");
    sonar_code code = sonar_cuda_alloc("cbf", count, &table->turns, err);
    if (code || (!table->may_mirror && !table->may_line) || !points)
        return code;
    table->host_mirror = (struct mirror *)sonar_alloc(points, sizeof *table->host_mirror);
    if (!table->host_mirror)
        return sonar_fail(err, SONAR_ENOMEM, "cbf", "no memory for %zu points", points);
    return sonar_cuda_alloc("cbf", points, &table->mirror, err);
}

static void free_table(struct table *table) {
    cudaFree(table->turns);
    cudaFree(table->mirror);
    free(table->host_mirror);
}

#endif
