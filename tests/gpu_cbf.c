/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The conventional beamformer on the GPU against plain double precision, the CPU's and physics. */
#include "cbf/cbf.h"
#include "gpu.h"
#include "manifold/manifold.h"
#include "oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double SPEED = 1500;
static const double MOST_DB = 0.01;

enum {
    AZIMUTH = SONAR_WANT(SONAR_CBF_AZIMUTH),
    NEARFIELD = SONAR_WANT(SONAR_CBF_NEARFIELD),
    LOFAR = SONAR_WANT(SONAR_CBF_LOFAR),
    ALL = AZIMUTH | NEARFIELD | LOFAR
};

static struct gpu device;

/* ---- paths ----------------------------------------------------------------------------------- */

/* What the table of choices would say; "auto" leaves it to the built-in rule. */
struct path {
    const char *name, *far_path, *near_path;
};

static const struct path PATHS[] = {{"auto", NULL, NULL},
                                    {"general", "general", "general"},
                                    {"mirrored", "mirrored", "mirrored"},
                                    {"line", "line", "general"},
                                    {"matrix", "matrix", "matrix"}};
enum { PATH_COUNT = sizeof PATHS / sizeof *PATHS };

static const struct path *path = &PATHS[0];

/* Warps of a thread block, the built-in number first. */
static const char *const WARPS[] = {"4", "2"};
enum { WARPS_COUNT = sizeof WARPS / sizeof *WARPS };

static const char *warps; /* NULL: nothing was trained */

static const char *choose(void *ctx, const char *decision) {
    (void)ctx;
    if (!strcmp(decision, "cbf.warps"))
        return warps;
    if (!strcmp(decision, "cbf.far_path"))
        return path->far_path;
    return strcmp(decision, "cbf.near_path") ? NULL : path->near_path;
}

/* ---- a case: one array with its input, on both backends -------------------------------------- */

struct rig {
    sonar_cbf_spec spec;
    sonar_params params;
    double *position, *az, *u, range[16];
    float *shading;
    sonar_c32 *x;     /* [snapshot][bin][sensor] */
    size_t snapshots; /* of a run; all of spec.max_snapshots to begin with */
    uint64_t *far_turns, *near_turns;
    sonar_buffer cpu[SONAR_CBF_OUTPUTS], gpu[SONAR_CBF_OUTPUTS], host[SONAR_CBF_OUTPUTS];
    sonar_buffer input;
    const sonar_stage_ops *ops;
    void *cpu_stage, *gpu_stage;
};

static double bin_hz(const struct rig *rig) {
    return rig->spec.fs_hz / (double)rig->spec.length;
}

static void make_output(struct rig *rig, int which, int rank, const size_t *shape) {
    rig->cpu[which] = sonar_buffer_view(NULL, SONAR_F32, rank, shape);
    if (!rig->cpu[which].bytes)
        return;
    rig->cpu[which].data = sonar_alloc(rig->cpu[which].bytes, 1);
    rig->gpu[which] = gpu_buffer(&device, SONAR_DEVICE, SONAR_F32, rank, shape);
    rig->host[which] = gpu_buffer(&device, SONAR_PINNED, SONAR_F32, rank, shape);
}

/* Without a number of snapshots there is one. */
static void rig_alloc(struct rig *rig, sonar_cbf_spec spec) {
    size_t n = spec.sensors;
    spec.max_snapshots = sonar_max_size(spec.max_snapshots, 1);
    *rig = (struct rig){.spec = spec, .snapshots = spec.max_snapshots};
    rig->position = sonar_alloc(3 * n, sizeof(double));
    rig->az = sonar_alloc(spec.directions, sizeof(double));
    rig->u = sonar_alloc(3 * spec.directions, sizeof(double));
    rig->shading = sonar_alloc(n, sizeof(float));
    rig->x = sonar_alloc(spec.max_snapshots * spec.bins * n, sizeof(sonar_c32));
    for (size_t k = 0; k < n; k++)
        rig->shading[k] = 1;
    for (size_t d = 0; d < spec.directions; d++)
        rig->az[d] = 10 + (double)d * 160.0 / (double)spec.directions;
    make_output(rig, SONAR_CBF_AZIMUTH, 1, (size_t[]){spec.directions});
    make_output(rig, SONAR_CBF_NEARFIELD, 2, (size_t[]){spec.ranges, spec.directions});
    make_output(rig, SONAR_CBF_LOFAR, 2, (size_t[]){spec.bins, spec.directions});
    rig->input = gpu_buffer(&device, SONAR_DEVICE, SONAR_C32, 3,
                            (size_t[]){spec.max_snapshots, spec.bins, n});
}

static void make_tables(struct rig *rig, uint64_t version) {
    const sonar_cbf_spec *spec = &rig->spec;
    sonar_error err = {0};
    for (size_t d = 0; d < spec->directions; d++)
        oracle_unit(rig->az[d], 0, rig->u + 3 * d);
    sonar_scan scan = {.count = spec->directions, .az_deg = rig->az, .u = rig->u};
    free(rig->far_turns);
    free(rig->near_turns);
    rig->near_turns = NULL;
    gpu_require(sonar_manifold_make(spec->sensors, rig->position, &scan, 0, NULL, SONAR_RADIAL,
                                    SPEED, bin_hz(rig), &rig->far_turns, &err),
                &err, "far table");
    if (spec->ranges)
        gpu_require(sonar_manifold_make(spec->sensors, rig->position, &scan, spec->ranges,
                                        rig->range, SONAR_RADIAL, SPEED, bin_hz(rig),
                                        &rig->near_turns, &err),
                    &err, "near table");
    rig->params = (sonar_params){
        .version = version,
        .sensors = spec->sensors,
        .shading = rig->shading,
        .far_cbf = {1, spec->directions, spec->sensors, bin_hz(rig), rig->far_turns},
        .near_cbf = {spec->ranges, spec->directions, spec->sensors, bin_hz(rig), rig->near_turns}};
    for (size_t k = 0; k < spec->sensors; k++)
        rig->params.shading_sum += (double)rig->shading[k];
}

static void rig_start(struct rig *rig) {
    sonar_error err = {0};
    make_tables(rig, 1);
    rig->ops = device.backend->stage("cbf");
    gpu_require(rig->ops ? SONAR_OK : SONAR_EUNAVAILABLE, &err, "the plugin has no stage cbf");
    gpu_require(rig->ops->create(&rig->spec, &device.host, &rig->gpu_stage, &err), &err, "create");
    gpu_require(sonar_cbf_cpu.create(&rig->spec, &device.host, &rig->cpu_stage, &err), &err, "cpu");
}

static void rig_close(struct rig *rig) {
    if (rig->ops)
        rig->ops->destroy(rig->gpu_stage);
    sonar_cbf_cpu.destroy(rig->cpu_stage);
    for (int i = 0; i < SONAR_CBF_OUTPUTS; i++) {
        free(rig->cpu[i].data);
        if (rig->gpu[i].data) {
            gpu_free(&device, &rig->gpu[i]);
            gpu_free(&device, &rig->host[i]);
        }
    }
    gpu_free(&device, &rig->input);
    free(rig->position);
    free(rig->az);
    free(rig->u);
    free(rig->shading);
    free(rig->x);
    free(rig->far_turns);
    free(rig->near_turns);
}

static size_t values(const struct rig *rig) {
    return rig->spec.max_snapshots * rig->spec.bins * rig->spec.sensors;
}

static void upload(struct rig *rig) {
    sonar_buffer x = sonar_buffer_view(rig->x, SONAR_C32, 3, rig->input.shape);
    gpu_copy(&device, &x, &rig->input);
}

static sonar_code execute(struct rig *rig, uint32_t outputs, sonar_error *err) {
    sonar_work work = {.params = &rig->params, .outputs = outputs};
    sonar_buffer in = rig->input;
    in.shape[0] = rig->snapshots;
    in.bytes = sonar_buffer_count(&in) * sizeof(sonar_c32);
    return rig->ops->execute(rig->gpu_stage, device.queue, &in, rig->gpu, &work, err);
}

/* Runs and fetches; surfaces are full of 7s before. */
static void run_gpu(struct rig *rig, uint32_t outputs) {
    sonar_error err = {0};
    for (int i = 0; i < SONAR_CBF_OUTPUTS; i++) {
        float *data = rig->host[i].data;
        for (size_t j = 0; data && j < sonar_buffer_count(&rig->host[i]); j++)
            data[j] = 7;
        if (data)
            gpu_copy(&device, &rig->host[i], &rig->gpu[i]);
    }
    gpu_require(execute(rig, outputs, &err), &err, "execute");
    for (int i = 0; i < SONAR_CBF_OUTPUTS; i++)
        if (rig->host[i].data)
            gpu_copy(&device, &rig->gpu[i], &rig->host[i]);
}

static void run_cpu(struct rig *rig, uint32_t outputs) {
    sonar_buffer x = sonar_buffer_view(
        rig->x, SONAR_C32, 3, (size_t[]){rig->snapshots, rig->spec.bins, rig->spec.sensors});
    sonar_work work = {.params = &rig->params, .outputs = outputs};
    sonar_error err = {0};
    gpu_require(sonar_cbf_cpu.execute(rig->cpu_stage, NULL, &x, rig->cpu, &work, &err), &err,
                "cpu");
}

/* ---- arrays and waves ------------------------------------------------------------------------ */

static void line(struct rig *rig, double spacing_m) {
    for (size_t k = 0; k < rig->spec.sensors; k++)
        rig->position[3 * k] = ((double)k - (double)(rig->spec.sensors - 1) / 2) * spacing_m;
}

/* Mirrored about its middle, but not evenly spaced. */
static void uneven_line(struct rig *rig, double spacing_m) {
    line(rig, spacing_m);
    for (size_t k = 0; k < rig->spec.sensors; k++)
        rig->position[3 * k] *= 1 + 1e-3 * fabs(rig->position[3 * k]);
}

static void volume(struct rig *rig, double size_m, uint64_t *seed) {
    for (size_t i = 0; i < 3 * rig->spec.sensors; i++)
        rig->position[i] = size_m * sonar_random_symmetric(seed);
}

/* Rows half as long again as they are many; no line, whatever the order of the sensors. */
static void plane(struct rig *rig, double spacing_m) {
    size_t row = (size_t)ceil(sqrt(1.5 * (double)rig->spec.sensors));
    for (size_t k = 0; k < rig->spec.sensors; k++) {
        rig->position[3 * k] = (double)(k % row) * spacing_m;
        rig->position[3 * k + 1] = (double)(k / row) * spacing_m;
    }
}

/* Adds amplitude e^{+j 2 pi f tau} from az to every bin, louder from snapshot to snapshot. */
static void add_wave(struct rig *rig, double az_deg, double amplitude) {
    double u[3];
    oracle_unit(az_deg, 0, u);
    for (size_t k = 0; k < rig->spec.sensors; k++) {
        double tau = oracle_delay_far(rig->position + 3 * k, u, SPEED);
        for (size_t i = 0; i < rig->spec.max_snapshots * rig->spec.bins; i++) {
            size_t s = i / rig->spec.bins, b = i % rig->spec.bins;
            double turns = (double)(rig->spec.first_bin + b) * bin_hz(rig) * tau;
            double a = amplitude * (1 + 0.5 * (double)s);
            sonar_c32 *x = &rig->x[i * rig->spec.sensors + k];
            x->re += (float)(a * cos(2 * M_PI * (turns - rint(turns))));
            x->im += (float)(a * sin(2 * M_PI * (turns - rint(turns))));
        }
    }
}

static void add_noise(struct rig *rig, double size, uint64_t *seed) {
    for (size_t i = 0; i < values(rig); i++) {
        rig->x[i].re += (float)(size * sonar_random_normal(seed));
        rig->x[i].im += (float)(size * sonar_random_normal(seed));
    }
}

/* ---- references ------------------------------------------------------------------------------ */

static bool in_band(const sonar_cbf_spec *spec, size_t b) {
    size_t bin = spec->first_bin + b;
    return bin >= spec->cbf_first && bin < spec->cbf_first + spec->cbf_bins;
}

/* Powers of one look point at all bins (or the band's only); the band energy is returned. */
static double look(const struct rig *rig, const double u[3], double range_m, bool whole,
                   double *power, size_t row) {
    const sonar_cbf_spec *spec = &rig->spec;
    double *tau = sonar_alloc(spec->sensors, sizeof *tau), energy = 0;
    for (size_t k = 0; k < spec->sensors; k++)
        tau[k] = range_m > 0 ? oracle_delay_near(rig->position + 3 * k, u, range_m, SPEED)
                             : oracle_delay_far(rig->position + 3 * k, u, SPEED);
    for (size_t b = 0; b < spec->bins; b++) {
        if (!whole && !in_band(spec, b))
            continue;
        double p = 0;
        for (size_t s = 0; s < rig->snapshots; s++)
            p += oracle_beam_power(spec->sensors, rig->x + (s * spec->bins + b) * spec->sensors,
                                   rig->shading, tau, (double)(spec->first_bin + b) * bin_hz(rig)) /
                 (double)rig->snapshots;
        if (power)
            power[b * row] = p;
        if (in_band(spec, b))
            energy += p * bin_hz(rig);
    }
    free(tau);
    return energy;
}

static void compare(const char *what, const struct rig *rig, const char *with, const float *have,
                    const double *want, size_t n) {
    double worst = gpu_worst_db(have, want, n);
    gpu_expect(&device, worst < MOST_DB,
               "%s, path %s, %s warps, %zu snapshots, %zu sensors, %zu directions, %zu ranges, "
               "bins %zu + %zu (band %zu + %zu): %g dB from %s",
               what, path->name, warps ? warps : "untrained", rig->snapshots, rig->spec.sensors,
               rig->spec.directions, rig->spec.ranges, rig->spec.first_bin, rig->spec.bins,
               rig->spec.cbf_first, rig->spec.cbf_bins, worst, with);
}

static void compare_with_oracle(const struct rig *rig) {
    const sonar_cbf_spec *spec = &rig->spec;
    size_t directions = spec->directions;
    double *lofar = sonar_alloc(spec->bins * directions, sizeof *lofar);
    double *far_energy = sonar_alloc(directions, sizeof *far_energy);
    double *near_energy = sonar_alloc(directions * spec->ranges, sizeof *near_energy);
    for (size_t d = 0; d < directions; d++) {
        far_energy[d] = look(rig, rig->u + 3 * d, 0, true, lofar + d, directions);
        for (size_t r = 0; r < spec->ranges; r++)
            near_energy[r * directions + d] =
                look(rig, rig->u + 3 * d, rig->range[r], false, NULL, 0);
    }
    compare("azimuth", rig, "the oracle", rig->host[SONAR_CBF_AZIMUTH].data, far_energy,
            directions);
    compare("lofar", rig, "the oracle", rig->host[SONAR_CBF_LOFAR].data, lofar,
            spec->bins * directions);
    if (spec->ranges)
        compare("near field", rig, "the oracle", rig->host[SONAR_CBF_NEARFIELD].data, near_energy,
                spec->ranges * directions);
    free(lofar);
    free(far_energy);
    free(near_energy);
}

static void compare_with_cpu(struct rig *rig) {
    const char *const names[] = {"azimuth", "near field", "lofar"};
    run_cpu(rig, ALL);
    for (int i = 0; i < SONAR_CBF_OUTPUTS; i++) {
        size_t n = sonar_buffer_count(&rig->cpu[i]);
        const float *data = rig->cpu[i].data;
        double *want = sonar_alloc(n, sizeof *want);
        for (size_t j = 0; data && j < n; j++)
            want[j] = (double)data[j];
        if (data)
            compare(names[i], rig, "the CPU", rig->host[i].data, want, n);
        free(want);
    }
}

/* ---- checks ---------------------------------------------------------------------------------- */

static size_t pick(uint64_t *seed, const size_t *from, size_t count) {
    return from[sonar_random_bits(seed) % count];
}

static sonar_cbf_spec random_spec(uint64_t *seed) {
    static const size_t sensors[] = {1,  2,  3,  5,  7,  8,   9,   16, 31,
                                     32, 33, 57, 64, 97, 128, 131, 397};
    static const size_t directions[] = {1, 2, 3, 31, 32, 33, 40, 65};
    static const size_t ranges[] = {0, 0, 1, 2, 3};
    static const size_t snapshots[] = {1, 1, 1, 2, 3, 7, 8, 9, 16, 17, 24, 33};
    static const size_t bins[] = {1, 2, 6, 7, 8, 13, 14, 15, 27, 29, 41, 43, 55, 56, 57, 70, 113};
    sonar_cbf_spec spec = {.sensors = pick(seed, sensors, sizeof sensors / sizeof *sensors),
                           .directions = pick(seed, directions, 8),
                           .ranges = pick(seed, ranges, 5),
                           .max_snapshots = pick(seed, snapshots, 12),
                           .fs_hz = 8000,
                           .length = 8192,
                           .bins = pick(seed, bins, sizeof bins / sizeof *bins)};
    if (sonar_random_bits(seed) % 4 == 0)
        spec.length = 65536; /* bin numbers in the ten thousands: exact turns or nothing */
    spec.first_bin = sonar_random_bits(seed) % (spec.length / 2 - spec.bins);
    size_t skip = sonar_random_bits(seed) % spec.bins;
    spec.cbf_first = spec.first_bin + skip;
    spec.cbf_bins = 1 + sonar_random_bits(seed) % (spec.bins - skip);
    return spec;
}

static void fill(struct rig *rig, uint64_t *seed) {
    for (size_t r = 0; r < rig->spec.ranges; r++)
        rig->range[r] = 20 * pow(3, (double)r);
    switch (sonar_random_bits(seed) % 6) {
    case 0:
        volume(rig, 30, seed);
        break;
    case 1:
        uneven_line(rig, 0.7);
        break;
    case 2: /* neither uniform nor mirrored by one sensor */
        line(rig, 0.7);
        rig->position[3 * (sonar_random_bits(seed) % rig->spec.sensors)] += 1e-3;
        break;
    default:
        line(rig, 0.7);
    }
    if (sonar_random_bits(seed) % 2) /* mirrored about broadside, which an odd scan looks at */
        for (size_t d = 0; d < rig->spec.directions; d++)
            rig->az[d] = 90 + ((double)d - (double)(rig->spec.directions - 1) / 2) * 150 /
                                  (double)rig->spec.directions;
    for (size_t k = 0; k < rig->spec.sensors && rig->spec.sensors > 2; k++)
        rig->shading[k] =
            sonar_random_bits(seed) % 8 ? (float)(1.1 + sonar_random_symmetric(seed)) : 0;
    rig->shading[0] = 1;
    add_wave(rig, 30 + 120 * fabs(sonar_random_symmetric(seed)), 1);
    add_noise(rig, 0.1, seed);
}

/* Every number of snapshots on every path, with all numbers of warps: odd sizes, masks, shading,
 * and an interferer 60 dB above the noise, in the far field and in the near. */
static void snapshot_counts(size_t sensors) {
    static const size_t counts[] = {1, 2, 3, 7, 8, 9, 16, 33};
    for (size_t i = 0; i < PATH_COUNT * sizeof counts / sizeof *counts; i++) {
        uint64_t seed = 70 + i;
        struct rig rig;
        path = &PATHS[i % PATH_COUNT];
        warps = WARPS[i / PATH_COUNT % WARPS_COUNT];
        rig_alloc(&rig, (sonar_cbf_spec){.sensors = sensors,
                                         .directions = 67,
                                         .ranges = 1,
                                         .fs_hz = 8000,
                                         .length = 8192,
                                         .first_bin = 2001,
                                         .bins = 29,
                                         .cbf_first = 2010,
                                         .cbf_bins = 17,
                                         .max_snapshots = counts[i / PATH_COUNT]});
        rig.range[0] = 60;
        if (i % 3 == 0)
            line(&rig, 0.3);
        else
            plane(&rig, 0.3);
        for (size_t k = 0; k < sensors; k++)
            rig.shading[k] = k % 11 == 5 ? 0 : (float)(1.1 + sonar_random_symmetric(&seed));
        add_wave(&rig, 77.7, 1);
        add_noise(&rig, 1e-3, &seed);
        rig_start(&rig);
        upload(&rig);
        run_gpu(&rig, ALL);
        compare_with_oracle(&rig);
        rig_close(&rig);
    }
    path = &PATHS[0];
    warps = NULL;
}

/* Fewer snapshots than there may be, and rows and snapshots that lie apart. */
static void rows_apart(const struct path *with) {
    enum { SNAPSHOTS = 9, BINS = 11, SENSORS = 61, ROW = 64, ROWS = 13 };
    uint64_t seed = 4;
    struct rig rig;
    sonar_error err = {0};
    path = with;
    rig_alloc(&rig, (sonar_cbf_spec){.sensors = SENSORS,
                                     .directions = 33,
                                     .fs_hz = 8000,
                                     .length = 8192,
                                     .first_bin = 700,
                                     .bins = BINS,
                                     .cbf_first = 703,
                                     .cbf_bins = 5,
                                     .max_snapshots = 20});
    rig.snapshots = SNAPSHOTS;
    plane(&rig, 0.7);
    add_noise(&rig, 1, &seed);
    rig_start(&rig);
    upload(&rig);
    run_gpu(&rig, ALL);
    compare_with_oracle(&rig);
    sonar_buffer host =
        gpu_buffer(&device, SONAR_PINNED, SONAR_C32, 3, (size_t[]){SNAPSHOTS, ROWS, ROW});
    sonar_buffer apart = gpu_buffer(&device, SONAR_DEVICE, SONAR_C32, 3, host.shape);
    for (size_t i = 0; i < sonar_buffer_count(&host); i++)
        ((sonar_c32 *)host.data)[i] = (sonar_c32){NAN, NAN}; /* what must not be read */
    for (size_t i = 0; i < (size_t)SNAPSHOTS * BINS; i++)
        memcpy((sonar_c32 *)host.data + (i / BINS * ROWS + i % BINS) * ROW, rig.x + i * SENSORS,
               SENSORS * sizeof *rig.x);
    gpu_copy(&device, &host, &apart);
    apart.shape[1] = BINS;
    apart.shape[2] = SENSORS;
    sonar_work work = {.params = &rig.params, .outputs = AZIMUTH};
    gpu_require(rig.ops->execute(rig.gpu_stage, device.queue, &apart, rig.gpu, &work, &err), &err,
                "rows apart");
    gpu_copy(&device, &rig.gpu[SONAR_CBF_AZIMUTH], &rig.host[SONAR_CBF_AZIMUTH]);
    compare_with_oracle(&rig);
    gpu_free(&device, &host);
    gpu_free(&device, &apart);
    rig_close(&rig);
    path = &PATHS[0];
}

/* Recorded once after a call with the same parameters, then run on other input. */
static void recorded(const struct path *with, size_t snapshots) {
    const sonar_backend *b = device.backend;
    uint64_t seed = 14;
    struct rig rig;
    sonar_error err = {0};
    sonar_graph *graph;
    if (!b->graph_begin)
        return;
    path = with;
    rig_alloc(&rig, (sonar_cbf_spec){.sensors = 90,
                                     .directions = 70,
                                     .ranges = 2,
                                     .fs_hz = 8000,
                                     .length = 8192,
                                     .first_bin = 300,
                                     .bins = 60,
                                     .cbf_first = 310,
                                     .cbf_bins = 40,
                                     .max_snapshots = snapshots});
    fill(&rig, &seed);
    rig_start(&rig);
    upload(&rig);
    run_gpu(&rig, ALL);
    gpu_require(b->graph_begin(device.queue, &err), &err, "graph_begin");
    gpu_require(execute(&rig, ALL, &err), &err, "execute while recording");
    gpu_require(b->graph_end(device.queue, &graph, &err), &err, "graph_end");
    add_noise(&rig, 1, &seed);
    upload(&rig);
    for (int i = 0; i < SONAR_CBF_OUTPUTS; i++) {
        memset(rig.host[i].data, 0, rig.host[i].bytes);
        gpu_copy(&device, &rig.host[i], &rig.gpu[i]);
    }
    gpu_require(b->graph_run(device.queue, graph, &err), &err, "graph_run");
    for (int i = 0; i < SONAR_CBF_OUTPUTS; i++)
        gpu_copy(&device, &rig.gpu[i], &rig.host[i]);
    compare_with_oracle(&rig);
    b->graph_destroy(graph);
    rig_close(&rig);
    path = &PATHS[0];
}

static void random_sizes(size_t cases) {
    for (size_t i = 0; i < cases; i++) {
        uint64_t seed = 1000 + i;
        struct rig rig;
        path = &PATHS[i % PATH_COUNT];
        warps = WARPS[i / PATH_COUNT % WARPS_COUNT];
        rig_alloc(&rig, random_spec(&seed));
        fill(&rig, &seed);
        rig_start(&rig);
        upload(&rig);
        run_gpu(&rig, ALL);
        compare_with_oracle(&rig);
        compare_with_cpu(&rig);
        rig_close(&rig);
    }
    path = &PATHS[0];
    warps = NULL;
}

static bool all_sevens(const sonar_buffer *buffer) {
    const float *data = buffer->data;
    for (size_t i = 0; data && i < sonar_buffer_count(buffer); i++)
        if (data[i] != 7)
            return false;
    return true;
}

/* Each surface by itself is what all together are; what is not wanted is not touched. */
static void single_surfaces(const struct path *with, size_t snapshots) {
    sonar_cbf_spec spec = {.sensors = 45,
                           .directions = 37,
                           .ranges = 2,
                           .fs_hz = 8000,
                           .length = 8192,
                           .first_bin = 100,
                           .bins = 90,
                           .cbf_first = 130,
                           .cbf_bins = 33,
                           .max_snapshots = snapshots};
    uint64_t seed = 5;
    struct rig rig;
    path = with;
    rig_alloc(&rig, spec);
    fill(&rig, &seed);
    rig_start(&rig);
    upload(&rig);
    run_cpu(&rig, ALL);
    for (uint32_t wanted = 0; wanted <= ALL; wanted++) {
        run_gpu(&rig, wanted);
        for (int i = 0; i < SONAR_CBF_OUTPUTS; i++) {
            if (!(wanted & SONAR_WANT(i))) {
                gpu_expect(&device, all_sevens(&rig.host[i]), "surface %d touched by wish %u", i,
                           wanted);
                continue;
            }
            size_t n = sonar_buffer_count(&rig.cpu[i]);
            double *want = sonar_alloc(n, sizeof *want);
            for (size_t j = 0; j < n; j++)
                want[j] = (double)((float *)rig.cpu[i].data)[j];
            compare("one surface", &rig, "the CPU", rig.host[i].data, want, n);
            free(want);
        }
    }
    rig_close(&rig);
    path = &PATHS[0];
}

/* What an array and its scan may be, and the path each of PATHS takes there for a few snapshots:
 * general, mirrored, line or tensor cores (x). */
struct form {
    const char *name, *far_taken, *near_taken;
};

enum { UNIFORM, CROOKED, UNEVEN, ASKEW, ALONE, LONG, FORMS };

static const struct form FORM[FORMS] = {
    [UNIFORM] = {"uniform line", "mgmlx", "mgmgx"},
    [CROOKED] = {"crooked line", "ggggx", "ggggx"},
    [UNEVEN] = {"line going on evenly from column to column only", "ggggx", "ggggx"},
    [ASKEW] = {"uniform line, no point mirrored", "lgglx", "ggggx"},
    [ALONE] = {"uniform line without a near field", "lgmlx", ""},
    [LONG] = {"uniform line of many sensors", "lgmlx", "mgmgx"}};

/* By itself the far field of many snapshots stays a line's where it is one. */
static char far_taken(int form, int which, size_t snapshots) {
    const char *taken = FORM[form].far_taken;
    return which == 0 && snapshots >= 8 ? (taken[3] == 'l' ? 'l' : 'x') : taken[which];
}

static char near_taken(int form, int which, size_t snapshots) {
    return which == 0 && snapshots >= 8 ? 'x' : FORM[form].near_taken[which];
}

/* Every path rounds in its own way; the same path gives the same bits, but for the near field,
 * whose chunks depend on what shares its pass. */
static void compare_paths(int form, size_t snapshots, float *const *far_field,
                          float *const *near_field, size_t far_bytes, size_t near_bytes) {
    for (int i = 0; i < PATH_COUNT; i++)
        for (int j = 0; j < i; j++) {
            bool far_same = !memcmp(far_field[i], far_field[j], far_bytes);
            bool near_same = !memcmp(near_field[i], near_field[j], near_bytes);
            gpu_expect(&device,
                       far_same == (far_taken(form, i, snapshots) == far_taken(form, j, snapshots)),
                       "far field of a %s, %zu snapshots: %s and %s", FORM[form].name, snapshots,
                       PATHS[i].name, PATHS[j].name);
            if (near_bytes && near_taken(form, i, snapshots) != near_taken(form, j, snapshots))
                gpu_expect(&device, !near_same, "near field of a %s, %zu snapshots: %s and %s",
                           FORM[form].name, snapshots, PATHS[i].name, PATHS[j].name);
        }
}

/* On a uniform line every path runs if asked for. An array that is neither uniform nor mirrored is
 * left to the general path whatever the table says, or to tensor cores. Without a table it is the
 * size and the near field that decide between line and mirrored. */
static void paths_are_taken(int form, size_t snapshots) {
    sonar_cbf_spec spec = {.sensors = form == LONG ? 1024 : 101,
                           .directions = 61,
                           .ranges = form == ALONE ? 0 : 2,
                           .fs_hz = 8000,
                           .length = 8192,
                           .first_bin = 300,
                           .bins = 40,
                           .cbf_first = 310,
                           .cbf_bins = 20,
                           .max_snapshots = snapshots};
    float *far_field[PATH_COUNT], *near_field[PATH_COUNT];
    size_t far_bytes = spec.bins * spec.directions * sizeof(float);
    size_t near_bytes = spec.ranges * spec.directions * sizeof(float);
    for (int i = 0; i < PATH_COUNT; i++) {
        uint64_t seed = 12;
        struct rig rig;
        path = &PATHS[i];
        rig_alloc(&rig, spec);
        fill(&rig, &seed);
        line(&rig, 0.7);
        if (form == CROOKED)
            rig.position[3 * 40 + 1] = 1;
        for (size_t k = 1; form == UNEVEN && k < spec.sensors; k += 4)
            rig.position[3 * k] += 0.1;
        for (size_t d = 0; d < spec.directions; d++)
            rig.az[d] = 30 + (form == ASKEW ? 1.7 : 2) * (double)d;
        add_wave(&rig, 77.7, 1);
        rig_start(&rig);
        upload(&rig);
        run_gpu(&rig, ALL);
        compare_with_oracle(&rig);
        far_field[i] = sonar_alloc(far_bytes, 1);
        near_field[i] = sonar_alloc(near_bytes, 1);
        memcpy(far_field[i], rig.host[SONAR_CBF_LOFAR].data, far_bytes);
        if (near_bytes)
            memcpy(near_field[i], rig.host[SONAR_CBF_NEARFIELD].data, near_bytes);
        rig_close(&rig);
    }
    compare_paths(form, snapshots, far_field, near_field, far_bytes, near_bytes);
    for (int i = 0; i < PATH_COUNT; i++) {
        free(far_field[i]);
        free(near_field[i]);
    }
    path = &PATHS[0];
}

/* A number of warps that is none of the kernels' is as good as none; every other one adds in an
 * order of its own, but for the tensor cores. */
static void warps_are_taken(const struct path *with) {
    static const char *const answers[] = {NULL, "4", "2", "3"};
    enum { ANSWERS = sizeof answers / sizeof *answers, BYTES = 40 * 61 * sizeof(float) };
    float *lofar[ANSWERS];
    path = with;
    for (int i = 0; i < ANSWERS; i++) {
        uint64_t seed = 15;
        struct rig rig;
        warps = answers[i];
        rig_alloc(&rig, (sonar_cbf_spec){.sensors = 101,
                                         .directions = 61,
                                         .ranges = 2,
                                         .fs_hz = 8000,
                                         .length = 8192,
                                         .first_bin = 300,
                                         .bins = 40,
                                         .cbf_first = 310,
                                         .cbf_bins = 20});
        fill(&rig, &seed);
        line(&rig, 0.7);
        for (size_t d = 0; d < rig.spec.directions; d++)
            rig.az[d] = 30 + 2 * (double)d;
        rig_start(&rig);
        upload(&rig);
        run_gpu(&rig, ALL);
        compare_with_oracle(&rig);
        lofar[i] = sonar_alloc(BYTES, 1);
        memcpy(lofar[i], rig.host[SONAR_CBF_LOFAR].data, BYTES);
        rig_close(&rig);
    }
    for (int i = 1; i < ANSWERS; i++) {
        bool alike = strcmp(answers[i], "2") != 0 || !strcmp(with->name, "matrix");
        gpu_expect(&device, !memcmp(lofar[i], lofar[0], BYTES) == alike,
                   "path %s, warps %s against none trained", with->name, answers[i]);
    }
    for (int i = 0; i < ANSWERS; i++)
        free(lofar[i]);
    path = &PATHS[0];
    warps = NULL;
}

/* A new version of the parameters is taken, an unchanged one kept; two runs give the same bits. */
static void versions_and_repeats(const struct path *with, size_t snapshots) {
    sonar_cbf_spec spec = {.sensors = 200,
                           .directions = 50,
                           .ranges = 3,
                           .fs_hz = 8000,
                           .length = 8192,
                           .first_bin = 34,
                           .bins = 120,
                           .cbf_first = 80,
                           .cbf_bins = 60,
                           .max_snapshots = snapshots};
    uint64_t seed = 6;
    path = with;
    struct rig rig;
    rig_alloc(&rig, spec);
    fill(&rig, &seed);
    line(&rig, 0.7);
    rig_start(&rig);
    upload(&rig);
    run_gpu(&rig, ALL);
    float *before = sonar_alloc(spec.bins * spec.directions, sizeof *before);
    memcpy(before, rig.host[SONAR_CBF_LOFAR].data, rig.host[SONAR_CBF_LOFAR].bytes);
    run_gpu(&rig, ALL);
    gpu_expect(&device,
               !memcmp(before, rig.host[SONAR_CBF_LOFAR].data, rig.host[SONAR_CBF_LOFAR].bytes),
               "two runs differ");
    for (size_t d = 0; d < spec.directions; d++)
        rig.az[d] += 3.3;
    rig.shading[7] = 2.5f;
    make_tables(&rig, 2);
    run_gpu(&rig, ALL);
    compare_with_oracle(&rig);
    for (size_t k = 0; k < spec.sensors; k++) /* and an array of another form */
        rig.position[3 * k + 2] += 3 * sonar_random_symmetric(&seed);
    make_tables(&rig, 3);
    run_gpu(&rig, ALL);
    compare_with_oracle(&rig);
    free(before);
    rig_close(&rig);
    path = &PATHS[0];
}

static void plane_waves(void) {
    sonar_cbf_spec spec = {.sensors = 64,
                           .directions = 181,
                           .fs_hz = 8000,
                           .length = 8192,
                           .first_bin = 327,
                           .bins = 166,
                           .cbf_first = 327,
                           .cbf_bins = 166};
    struct rig rig;
    rig_alloc(&rig, spec);
    line(&rig, 1.5);
    for (size_t d = 0; d < spec.directions; d++)
        rig.az[d] = (double)d;
    rig_start(&rig);
    for (size_t az = 0; az <= 180; az += 7) {
        memset(rig.x, 0, values(&rig) * sizeof *rig.x);
        add_wave(&rig, (double)az, 3);
        upload(&rig);
        run_gpu(&rig, AZIMUTH);
        const float *power = rig.host[SONAR_CBF_AZIMUTH].data;
        size_t peak = 0;
        for (size_t d = 1; d < spec.directions; d++)
            if (power[d] > power[peak])
                peak = d;
        double level = 9 * 166 * bin_hz(&rig);
        gpu_expect(&device, peak == az, "wave from %zu deg seen at %zu", az, peak);
        gpu_expect(&device, fabs((double)power[peak] / level - 1) < 1e-5,
                   "wave from %zu deg of level %g reads %g", az, level, (double)power[peak]);
    }
    rig_close(&rig);
}

/* Points off the grid, more of them than the scan has. */
static void evaluate_points(size_t points, size_t snapshots) {
    sonar_cbf_spec spec = {.sensors = 77,
                           .directions = 40,
                           .ranges = 0,
                           .fs_hz = 8000,
                           .length = 8192,
                           .first_bin = 34,
                           .bins = 150,
                           .cbf_first = 90,
                           .cbf_bins = 70,
                           .max_snapshots = snapshots};
    uint64_t seed = 8;
    struct rig rig;
    sonar_error err = {0};
    rig_alloc(&rig, spec);
    fill(&rig, &seed);
    rig_start(&rig);
    upload(&rig);
    size_t shape[2] = {points, spec.sensors};
    sonar_buffer turns = gpu_buffer(&device, SONAR_PINNED, SONAR_U64, 2, shape);
    sonar_buffer on_gpu = gpu_buffer(&device, SONAR_DEVICE, SONAR_U64, 2, shape);
    sonar_buffer power = gpu_buffer(&device, SONAR_DEVICE, SONAR_F32, 1, shape);
    sonar_buffer result = gpu_buffer(&device, SONAR_PINNED, SONAR_F32, 1, shape);
    double *want = sonar_alloc(points, sizeof *want);
    sonar_work work = {.params = &rig.params, .outputs = AZIMUTH};
    gpu_expect(&device,
               rig.ops->evaluate(rig.gpu_stage, device.queue, &on_gpu, &power, &work, &err) ==
                   SONAR_ESTATE,
               "evaluate before execute");
    run_gpu(&rig, AZIMUTH);
    for (size_t p = 0; p < points; p++) {
        double u[3];
        oracle_unit(20 + 140 * (double)p / (double)points, 0, u);
        for (size_t k = 0; k < spec.sensors; k++)
            ((uint64_t *)turns.data)[p * spec.sensors + k] =
                sonar_turns(oracle_delay_far(rig.position + 3 * k, u, SPEED), bin_hz(&rig));
        want[p] = look(&rig, u, 0, false, NULL, 0);
    }
    gpu_copy(&device, &turns, &on_gpu);
    gpu_require(rig.ops->evaluate(rig.gpu_stage, device.queue, &on_gpu, &power, &work, &err), &err,
                "evaluate");
    gpu_copy(&device, &power, &result);
    compare("points", &rig, "the oracle", result.data, want, points);
    free(want);
    gpu_free(&device, &turns);
    gpu_free(&device, &on_gpu);
    gpu_free(&device, &power);
    gpu_free(&device, &result);
    rig_close(&rig);
}

static void wrong_shapes(void) {
    sonar_cbf_spec spec = {.sensors = 4,
                           .directions = 5,
                           .ranges = 1,
                           .fs_hz = 8000,
                           .length = 8192,
                           .first_bin = 34,
                           .bins = 20,
                           .cbf_first = 40,
                           .cbf_bins = 10};
    uint64_t seed = 9;
    sonar_error err = {0};
    struct rig rig;
    void *none = &seed;
    rig_alloc(&rig, spec);
    fill(&rig, &seed);
    rig_start(&rig);
    sonar_cbf_spec wrong = spec;
    wrong.cbf_first = 33;
    gpu_expect(&device, rig.ops->create(&wrong, &device.host, &none, &err) == SONAR_EINVAL && !none,
               "band outside the bins");
    wrong = spec;
    wrong.max_snapshots = 0;
    gpu_expect(&device, rig.ops->create(&wrong, &device.host, &none, &err) == SONAR_EINVAL && !none,
               "no snapshot allowed");
    for (size_t snapshots = 0; snapshots <= 2; snapshots++) {
        rig.snapshots = snapshots;
        gpu_expect(&device, (execute(&rig, ALL, &err) == SONAR_OK) == (snapshots == 1),
                   "%zu snapshots where one is allowed", snapshots);
    }
    rig.snapshots = 1;
    sonar_buffer kept = rig.gpu[SONAR_CBF_LOFAR];
    rig.gpu[SONAR_CBF_LOFAR].shape[0]--;
    gpu_expect(&device, execute(&rig, ALL, &err) == SONAR_EINVAL, "a row too few");
    rig.gpu[SONAR_CBF_LOFAR] = kept;
    rig.gpu[SONAR_CBF_LOFAR].space = SONAR_HOST;
    gpu_expect(&device, execute(&rig, ALL, &err) == SONAR_EINVAL, "output in host memory");
    rig.gpu[SONAR_CBF_LOFAR] = kept;
    rig.input.dtype = SONAR_F32;
    gpu_expect(&device, execute(&rig, ALL, &err) == SONAR_EINVAL, "input of another type");
    rig.input.dtype = SONAR_C32;
    rig.params.far_cbf.directions = 4;
    gpu_expect(&device, execute(&rig, ALL, &err) == SONAR_EINVAL, "table of other directions");
    rig_close(&rig);
}

static sonar_cbf_spec standard(size_t sensors) {
    return (sonar_cbf_spec){.sensors = sensors,
                            .directions = 160,
                            .ranges = 7,
                            .fs_hz = 8000,
                            .length = 8192,
                            .first_bin = 34,
                            .bins = 459,
                            .cbf_first = 327,
                            .cbf_bins = 166};
}

static void standard_array(struct rig *rig, size_t sensors) {
    rig_alloc(rig, standard(sensors));
    for (size_t r = 0; r < 7; r++)
        rig->range[r] = 50 * pow(2, (double)r);
    for (size_t d = 0; d < 160; d++)
        rig->az[d] = 10 + (double)d;
    line(rig, 1.5);
}

/* Everything against the CPU, a few points against the oracle. */
static void large(size_t sensors, bool with_cpu, const struct path *with) {
    uint64_t seed = sensors;
    struct rig rig;
    path = with;
    standard_array(&rig, sensors);
    add_wave(&rig, 61.3, 1);
    add_noise(&rig, 0.1, &seed);
    rig_start(&rig);
    upload(&rig);
    run_gpu(&rig, ALL);
    if (with_cpu)
        compare_with_cpu(&rig);
    for (size_t i = 0; i < 8; i++) {
        size_t d = i < 2 ? 51 + i : sonar_random_bits(&seed) % 160,
               r = sonar_random_bits(&seed) % 7;
        double *power = sonar_alloc(rig.spec.bins, sizeof *power);
        float *have = sonar_alloc(rig.spec.bins, sizeof *have);
        double far_energy = look(&rig, rig.u + 3 * d, 0, true, power, 1);
        double near_energy = look(&rig, rig.u + 3 * d, rig.range[r], false, NULL, 0);
        for (size_t b = 0; b < rig.spec.bins; b++)
            have[b] = ((float *)rig.host[SONAR_CBF_LOFAR].data)[b * 160 + d];
        compare("large lofar", &rig, "the oracle", have, power, rig.spec.bins);
        compare("large azimuth", &rig, "the oracle", (float *)rig.host[SONAR_CBF_AZIMUTH].data + d,
                &far_energy, 1);
        compare("large near field", &rig, "the oracle",
                (float *)rig.host[SONAR_CBF_NEARFIELD].data + r * 160 + d, &near_energy, 1);
        free(power);
        free(have);
    }
    rig_close(&rig);
    path = &PATHS[0];
}

/* A wide array of many snapshots against the oracle at a few points. */
static void large_plane(size_t sensors, size_t snapshots, const struct path *with) {
    uint64_t seed = sensors;
    struct rig rig;
    path = with;
    rig_alloc(&rig, (sonar_cbf_spec){.sensors = sensors,
                                     .directions = 160,
                                     .ranges = 1,
                                     .fs_hz = 8000,
                                     .length = 8192,
                                     .first_bin = 300,
                                     .bins = 60,
                                     .cbf_first = 320,
                                     .cbf_bins = 31,
                                     .max_snapshots = snapshots});
    rig.range[0] = 300;
    plane(&rig, 1.5);
    add_wave(&rig, 61.3, 1);
    add_noise(&rig, 0.03, &seed);
    rig_start(&rig);
    upload(&rig);
    run_gpu(&rig, ALL);
    for (size_t i = 0; i < 6; i++) {
        size_t d = i < 2 ? 51 + i : sonar_random_bits(&seed) % 160;
        double *power = sonar_alloc(rig.spec.bins, sizeof *power);
        float *have = sonar_alloc(rig.spec.bins, sizeof *have);
        double far_energy = look(&rig, rig.u + 3 * d, 0, true, power, 1);
        double near_energy = look(&rig, rig.u + 3 * d, rig.range[0], false, NULL, 0);
        for (size_t b = 0; b < rig.spec.bins; b++)
            have[b] = ((float *)rig.host[SONAR_CBF_LOFAR].data)[b * 160 + d];
        compare("plane lofar", &rig, "the oracle", have, power, rig.spec.bins);
        compare("plane azimuth", &rig, "the oracle", (float *)rig.host[SONAR_CBF_AZIMUTH].data + d,
                &far_energy, 1);
        compare("plane near field", &rig, "the oracle",
                (float *)rig.host[SONAR_CBF_NEARFIELD].data + d, &near_energy, 1);
        free(power);
        free(have);
    }
    rig_close(&rig);
    path = &PATHS[0];
}

/* ---- figures --------------------------------------------------------------------------------- */

struct timing {
    struct rig *rig;
    uint32_t outputs;
};

static void timed_call(void *ctx) {
    struct timing *timing = ctx;
    sonar_error err = {0};
    gpu_require(execute(timing->rig, timing->outputs, &err), &err, "execute");
}

static void print_row(size_t sensors) {
    uint64_t seed = sensors;
    struct rig rig;
    standard_array(&rig, sensors);
    for (size_t j = 0; j < values(&rig); j++)
        rig.x[j] =
            (sonar_c32){(float)sonar_random_symmetric(&seed), (float)sonar_random_symmetric(&seed)};
    rig_start(&rig);
    upload(&rig);
    const uint32_t outputs[] = {ALL, AZIMUTH, AZIMUTH | LOFAR, NEARFIELD};
    double ms[4];
    for (int j = 0; j < 4; j++)
        ms[j] = gpu_time_ms(&device, timed_call, &(struct timing){&rig, outputs[j]}, 20);
    printf("%8zu %-10s %-6s %10.4f %10.4f %10.4f %10.4f %12.0f\n", sensors, path->name,
           warps ? warps : "-", ms[0], ms[1], ms[2], ms[3],
           259360.0 * (double)sensors / ms[0] * 1e-6);
    fflush(stdout);
    rig_close(&rig);
}

/* The same noise as every snapshot. */
static sonar_buffer many_snapshots(struct rig *rig, size_t most) {
    sonar_buffer all = gpu_buffer(&device, SONAR_DEVICE, SONAR_C32, 3,
                                  (size_t[]){most, rig->spec.bins, rig->spec.sensors});
    sonar_buffer one = sonar_buffer_view(all.data, SONAR_C32, 3, rig->input.shape);
    one.space = all.space;
    for (size_t s = 0; s < most; s++, one.data = (char *)one.data + one.bytes)
        gpu_copy(&device, &rig->input, &one);
    return all;
}

/* One array, all paths. */
static void print_snapshots(const char *form, size_t sensors) {
    enum { MOST = 64 };
    static const size_t counts[] = {1, 4, 8, 16, MOST};
    uint64_t seed = sensors;
    struct rig rig;
    sonar_error err = {0};
    standard_array(&rig, sensors);
    if (!strcmp(form, "plane"))
        plane(&rig, 1.5);
    for (size_t j = 0; j < values(&rig); j++)
        rig.x[j] =
            (sonar_c32){(float)sonar_random_symmetric(&seed), (float)sonar_random_symmetric(&seed)};
    rig_start(&rig);
    upload(&rig);
    sonar_buffer one = rig.input;
    rig.input = many_snapshots(&rig, MOST);
    gpu_free(&device, &one);
    rig.spec.max_snapshots = MOST;
    for (path = PATHS; path < PATHS + PATH_COUNT; path++) {
        rig.ops->destroy(rig.gpu_stage);
        gpu_require(rig.ops->create(&rig.spec, &device.host, &rig.gpu_stage, &err), &err, "create");
        const uint32_t outputs[] = {AZIMUTH | LOFAR, NEARFIELD};
        for (size_t i = 0; i < 2; i++) {
            printf("%8zu %-6s %-9s %-6s", sensors, form, path->name, i ? "near" : "lofar");
            for (size_t j = 0; j < sizeof counts / sizeof *counts; j++) {
                rig.snapshots = counts[j];
                printf(" %10.4f",
                       gpu_time_ms(&device, timed_call, &(struct timing){&rig, outputs[i]},
                                   sonar_max_size(20 / counts[j], 1)));
                fflush(stdout);
            }
            printf("\n");
        }
    }
    path = &PATHS[0];
    rig_close(&rig);
}

static void print_times(void) {
    static const size_t sensors[] = {128, 512, 2048, 16384, 32768};
    printf("CBF, standard case, ms a window (input on the device)\n");
    printf("%8s %-10s %-6s %10s %10s %10s %10s %12s\n", "sensors", "path", "warps", "all",
           "far band", "lofar", "near", "all GCMAC/s");
    for (size_t i = 0; i < sizeof sensors / sizeof *sensors; i++)
        for (size_t j = 0; j < PATH_COUNT * WARPS_COUNT; j++) {
            path = &PATHS[j / WARPS_COUNT];
            warps = WARPS[j % WARPS_COUNT];
            print_row(sensors[i]);
        }
    path = &PATHS[0];
    warps = NULL;
    printf("several snapshots, ms a call\n%8s %-6s %-9s %-6s %10s %10s %10s %10s %10s\n", "sensors",
           "array", "path", "what", "1", "4", "8", "16", "64");
    print_snapshots("plane", 2048);
    print_snapshots("line", 2048);
    print_snapshots("plane", 16384);
    print_snapshots("line", 16384);
}

int main(int argc, char **argv) {
    int code = gpu_open(&device, argc, argv);
    if (code >= 0)
        return code;
    device.host.choice = choose;
    if (device.timed) {
        print_times();
        return gpu_close(&device, "gpu_cbf");
    }
    random_sizes(device.quick ? 20 : 200);
    snapshot_counts(37);
    single_surfaces(&PATHS[0], 1);
    single_surfaces(&PATHS[PATH_COUNT - 1], 9);
    for (int form = 0; form < FORMS; form++) {
        paths_are_taken(form, 1);
        if (form < ALONE)
            paths_are_taken(form, 8);
    }
    for (int i = 0; i < PATH_COUNT; i++) {
        warps_are_taken(&PATHS[i]);
        rows_apart(&PATHS[i]);
        for (int j = 0; j < WARPS_COUNT; j++) {
            warps = WARPS[j];
            versions_and_repeats(&PATHS[i], j ? 17 : 1);
            recorded(&PATHS[i], j ? 19 : 1);
        }
        warps = NULL;
    }
    evaluate_points(5, 1);
    evaluate_points(70, 11);
    large_plane(700, 11, &PATHS[PATH_COUNT - 1]); /* chunks of several tiles */
    wrong_shapes();
    if (!device.quick) {
        snapshot_counts(601);
        evaluate_points(16, 1);
        evaluate_points(150, 3);
        plane_waves();
        for (int i = 0; i < PATH_COUNT; i++) {
            large(2048, true, &PATHS[i]);
            large_plane(5000, 11, &PATHS[i]);
            warps = WARPS[1];
            large(2000, false, &PATHS[i]);
            warps = NULL;
        }
        large_plane(16384, 16, &PATHS[0]);
        large(16384, false, &PATHS[0]);
        large(32768, false, &PATHS[0]);
        large(16384, false, &PATHS[PATH_COUNT - 1]);
    }
    return gpu_close(&device, "gpu_cbf");
}
