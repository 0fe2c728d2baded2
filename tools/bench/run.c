/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Builds a synthetic array and its data on a backend, and times the stages on them. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cbf/cbf.h"
#include "dft/dft.h"
#include "manifold/manifold.h"
#include "mvdr_jacobi/mvdr_jacobi.h"

static const double c_mps = 1500;

enum {
    CHECKS = 200,
    CAPON_SENSORS_MOST = 256,
    SETS_MOST = 16,      /* different windows of samples */
    BIN_SETS_MOST = 128, /* of bins */
    NEW_MOST = 64        /* snapshots of one call that fills the block */
};
/* Inputs taken in turn together exceed every cache. */
static const size_t rotated_bytes = (size_t)192 << 20;

/* A buffer of the backend and where its results go in host memory; on the CPU the same. */
typedef struct surface {
    sonar_buffer native, host;
} surface;

/* Everything one case needs, owned. */
typedef struct rig {
    const bench_case *c;
    const bench_site *site;
    const sonar_backend *b;
    bool device; /* stages work in memory of their own */
    bench_band kept;
    sonar_queue *queue, *copies;
    sonar_event *done, *arrived[2], *consumed[2];
    size_t sets, bin_sets, turn;
    sonar_buffer samples[SETS_MOST], samples_s16[SETS_MOST]; /* [channel][sample], host */
    sonar_buffer on_device[SETS_MOST], stage_s16[2];         /* the same in device memory */
    bool takes_s16, keep_s16;
    sonar_buffer bins[BIN_SETS_MOST]; /* c32 [bin][sensor] */
    sonar_buffer several;             /* c32 [snapshot][bin][sensor], where the CBF is alone */
    surface azimuth, nearfield, lofar, mvdr_azimuth, mvdr_spectrum, mvdr_info;
    sonar_buffer snapshots; /* c32 [snapshot][bin][sensor] */
    size_t fresh;           /* the next one */
    sonar_c32 *block;       /* [snapshot][sensor] of the middle MVDR bin, oldest first not needed */
    double *position_m, *phase_turns, *delay_s, *az_deg, *u;
    uint32_t *channel;
    uint8_t *used;
    float *scale, *shading;
    uint64_t *far_turns, *near_turns;
    sonar_params params;
    sonar_c32 *host_bins; /* for the check: [snapshot][bin][sensor] */
    const sonar_stage_ops *dft_ops, *cbf_ops, *mvdr_ops;
    void *dft, *cbf, *mvdr;
} rig;

/* ---- data ------------------------------------------------------------------------------------ */

/* xorshift64* (Vigna 2016): the same data everywhere. */
static uint64_t draw(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1du;
}

static double uniform(uint64_t *state) {
    return ((double)(draw(state) >> 11) + 0.5) / 9007199254740992.0;
}

/* Nearly normal, variance 1: the sum of four uniform values (Irwin-Hall), one draw for all. */
static float noise(uint64_t *state) {
    const uint64_t z = draw(state);
    const int64_t sum =
        (int64_t)((z & 0xffff) + (z >> 16 & 0xffff) + (z >> 32 & 0xffff) + (z >> 48));
    return (float)(sum - 131070) * 2.6429e-5f;
}

static uint64_t seed(size_t index) {
    uint64_t state = 88172645463325252u + 0x9e3779b97f4a7c15u * (index + 1);
    draw(&state);
    return state ? state : 1;
}

typedef struct recording {
    const rig *r;
    size_t set;
} recording;

/* One channel: white noise, and a tone 20 dB above it in the middle of the CBF band from 60
 * degrees. */
static void record_channel(void *arg, size_t k, size_t worker) {
    (void)worker;
    const recording *all = arg;
    const rig *r = all->r;
    const size_t n = r->c->length;
    const double bin = (double)r->c->cbf.first + (double)r->c->cbf.bins / 2;
    const double tone_hz = bin * r->c->fs_hz / (double)n;
    const double start = tone_hz * (r->position_m[3 * k] * 0.5 / c_mps + (double)all->set * 0.1);
    const double step = 2 * M_PI * bin / (double)n, c = cos(step), s = sin(step);
    double x = 14 * cos(2 * M_PI * fmod(start, 1)), y = 14 * sin(2 * M_PI * fmod(start, 1));
    uint64_t state = seed(all->set * r->c->sensors + k);
    float *row = (float *)r->samples[all->set].data + k * n;
    for (size_t i = 0; i < n; i++) {
        row[i] = noise(&state) + (float)x;
        const double turned = x * c - y * s;
        y = x * s + y * c;
        x = turned;
    }
    if (!r->keep_s16)
        return;
    int16_t *counts = (int16_t *)r->samples_s16[all->set].data + k * n;
    for (size_t i = 0; i < n; i++)
        counts[i] = (int16_t)lrintf(row[i] * 1000);
}

/* A snapshot of noise and one source 20 dB above it, in every bin. */
static void make_snapshot(const rig *r, size_t index, sonar_c32 *to) {
    const bench_case *c = r->c;
    uint64_t state = seed(index + 1000003);
    for (size_t b = 0; b < c->mvdr.bins; b++) {
        const double bin = (double)(c->mvdr.first + b), phase = 2 * M_PI * uniform(&state);
        const double per_m = 2 * M_PI * bin * c->fs_hz / (double)c->length * 0.5 / c_mps;
        const double step = per_m * (r->position_m[3] - r->position_m[0]);
        const double turn_re = cos(step), turn_im = sin(step);
        double x = 10 * cos(phase), y = 10 * sin(phase);
        for (size_t k = 0; k < c->sensors; k++) {
            to[b * c->sensors + k] =
                (sonar_c32){noise(&state) + (float)x, noise(&state) + (float)y};
            const double turned = x * turn_re - y * turn_im;
            y = x * turn_im + y * turn_re;
            x = turned;
        }
    }
}

/* ---- geometry -------------------------------------------------------------------------------- */

/* Half a wavelength apart at the top of the CBF band, on a line or in rows of a square, looked at
 * from 0 to 180 degrees. */
static void place(rig *r) {
    const bench_case *c = r->c;
    const double top_hz =
        (double)sonar_max_size(c->cbf.first + c->cbf.bins - 1, 1) * c->fs_hz / (double)c->length;
    const double spacing_m = c_mps / (2 * top_hz);
    const size_t row = c->cbf_alone ? (size_t)ceil(sqrt((double)c->sensors)) : c->sensors;
    for (size_t k = 0; k < c->sensors; k++) {
        r->position_m[3 * k] = ((double)(k % row) - 0.5 * (double)(row - 1)) * spacing_m;
        r->position_m[3 * k + 1] = (double)(k / row) * spacing_m;
        r->channel[k] = (uint32_t)k;
        r->used[k] = 1;
        r->scale[k] = r->shading[k] = 1;
    }
    for (size_t t = 0; t < c->angles; t++) {
        r->az_deg[t] = 180 * ((double)t + 0.5) / (double)c->angles;
        r->u[3 * t] = cos(r->az_deg[t] * M_PI / 180);
        r->u[3 * t + 1] = sin(r->az_deg[t] * M_PI / 180);
    }
}

static sonar_code make_tables(rig *r, sonar_error *err) {
    const bench_case *c = r->c;
    const sonar_scan scan = {.count = c->angles,
                             .az_deg = r->az_deg,
                             .u = r->u,
                             .cone = true,
                             .axis = {1, 0, 0},
                             .perp = {0, 1, 0}};
    const double width_hz = c->fs_hz / (double)c->length;
    double *range_m = sonar_alloc(sonar_max_size(c->ranges, 1), sizeof *range_m);
    if (!range_m)
        return sonar_fail(err, SONAR_ENOMEM, c->name, "no memory for %zu ranges", c->ranges);
    for (size_t i = 0; i < c->ranges; i++)
        range_m[i] = 50 * exp2((double)i * 6 / (double)sonar_max_size(c->ranges - 1, 1));
    sonar_code code = sonar_manifold_make(c->sensors, r->position_m, &scan, 0, NULL, SONAR_RADIAL,
                                          c_mps, width_hz, &r->far_turns, err);
    if (code == SONAR_OK && c->ranges > 0)
        code = sonar_manifold_make(c->sensors, r->position_m, &scan, c->ranges, range_m,
                                   SONAR_RADIAL, c_mps, width_hz, &r->near_turns, err);
    free(range_m);
    const sonar_manifold far = {1, c->angles, c->sensors, width_hz, r->far_turns};
    r->params = (sonar_params){.version = 1,
                               .sensors = c->sensors,
                               .sensors_used = c->sensors,
                               .sound_speed_mps = c_mps,
                               .position_m = r->position_m,
                               .channel = r->channel,
                               .used = r->used,
                               .scale = r->scale,
                               .phase_turns = r->phase_turns,
                               .delay_s = r->delay_s,
                               .shading = r->shading,
                               .shading_sum = (double)c->sensors,
                               .far_cbf = far,
                               .far_mvdr = far};
    r->params.near_cbf =
        (sonar_manifold){c->ranges, c->angles, c->sensors, width_hz, r->near_turns};
    return code;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static sonar_code settle(void *ctx, sonar_error *err) {
    rig *r = ctx;
    sonar_code code = r->b->record(r->queue, r->done, err);
    return code ? code : r->b->finish(r->done, err);
}

static bool allocate(rig *r) {
    const bench_case *c = r->c;
    const size_t n = c->sensors;
    r->position_m = sonar_alloc(3 * n, sizeof *r->position_m);
    r->phase_turns = sonar_alloc(n, sizeof *r->phase_turns);
    r->delay_s = sonar_alloc(n, sizeof *r->delay_s);
    r->az_deg = sonar_alloc(c->angles, sizeof *r->az_deg);
    r->u = sonar_alloc(3 * c->angles, sizeof *r->u);
    r->channel = sonar_alloc(n, sizeof *r->channel);
    r->used = sonar_alloc(n, sizeof *r->used);
    r->scale = sonar_alloc(n, sizeof *r->scale);
    r->shading = sonar_alloc(n, sizeof *r->shading);
    r->block = sonar_alloc(sonar_max_size(c->snapshots, 1) * n, sizeof *r->block);
    return r->position_m && r->phase_turns && r->delay_s && r->az_deg && r->u && r->channel &&
           r->used && r->scale && r->shading && r->block;
}

static sonar_code make(rig *r, sonar_space space, sonar_dtype dtype, size_t rows, size_t columns,
                       sonar_buffer *buffer, sonar_error *err) {
    return r->b->buffer_create(r->b, space, dtype, 2, (size_t[]){rows, columns}, buffer, err);
}

static sonar_space host_space(const rig *r) {
    return r->device ? SONAR_PINNED : SONAR_HOST;
}

static sonar_code make_surface(rig *r, int rank, size_t rows, size_t columns, surface *to,
                               sonar_error *err) {
    const size_t shape[] = {rows, columns};
    const size_t *used = rank == 1 ? shape + 1 : shape;
    if (rows == 0) {
        to->native = to->host = sonar_buffer_view(NULL, SONAR_F32, rank, used);
        return SONAR_OK;
    }
    sonar_code code =
        r->b->buffer_create(r->b, r->b->native_space, SONAR_F32, rank, used, &to->native, err);
    if (code == SONAR_OK && r->device)
        return r->b->buffer_create(r->b, SONAR_PINNED, SONAR_F32, rank, used, &to->host, err);
    to->host = to->native;
    return code;
}

static sonar_code make_surfaces(rig *r, sonar_error *err) {
    const bench_case *c = r->c;
    sonar_code code = make_surface(r, 1, 1, c->angles, &r->azimuth, err);
    if (code == SONAR_OK)
        code = make_surface(r, 2, c->ranges, c->angles, &r->nearfield, err);
    if (code == SONAR_OK)
        code = make_surface(r, 2, c->lofar.bins, c->angles, &r->lofar, err);
    if (code != SONAR_OK || c->mvdr.bins == 0)
        return code;
    code = make_surface(r, 1, 1, c->angles, &r->mvdr_azimuth, err);
    if (code == SONAR_OK)
        code = make_surface(r, 2, c->mvdr.bins, c->angles, &r->mvdr_spectrum, err);
    if (code == SONAR_OK)
        code = make_surface(r, 2, c->mvdr.bins, SONAR_MVDR_INFO_FIELDS, &r->mvdr_info, err);
    return code;
}

static size_t rotation(size_t bytes, size_t least, size_t most) {
    const size_t wanted = (rotated_bytes + bytes - 1) / bytes;
    return sonar_min_size(sonar_max_size(wanted, least), most);
}

/* One window of samples, in host memory and, for a device, there too. */
static sonar_code make_set(rig *r, size_t set, sonar_error *err) {
    const size_t n = r->c->sensors, length = r->c->length;
    sonar_code code = make(r, host_space(r), SONAR_F32, n, length, &r->samples[set], err);
    if (code == SONAR_OK && r->keep_s16)
        code = make(r, host_space(r), SONAR_S16, n, length, &r->samples_s16[set], err);
    if (code != SONAR_OK)
        return code;
    r->site->host->parallel(r->site->host->ctx, n, record_channel, &(recording){r, set});
    if (!r->device)
        return SONAR_OK;
    code = make(r, SONAR_DEVICE, SONAR_F32, n, length, &r->on_device[set], err);
    if (code == SONAR_OK)
        code = r->b->copy(r->queue, &r->samples[set], &r->on_device[set], err);
    return code == SONAR_OK ? settle(r, err) : code;
}

static sonar_code make_samples(rig *r, sonar_error *err) {
    const size_t n = r->c->sensors, length = r->c->length, bins = r->kept.bins;
    r->sets = rotation(n * length * sizeof(float), 2, SETS_MOST);
    r->bin_sets = rotation(n * bins * sizeof(sonar_c32), 2, BIN_SETS_MOST);
    r->keep_s16 = r->device && r->c->windows > 0;
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < r->sets && code == SONAR_OK; i++)
        code = make_set(r, i, err);
    for (size_t i = 0; i < 2 && code == SONAR_OK && r->keep_s16; i++)
        code = make(r, SONAR_DEVICE, SONAR_S16, n, length, &r->stage_s16[i], err);
    for (size_t i = 0; i < r->bin_sets && code == SONAR_OK; i++)
        code = make(r, r->b->native_space, SONAR_C32, bins, n, &r->bins[i], err);
    if (code == SONAR_OK && r->c->cbf_alone)
        code = r->b->buffer_create(r->b, r->b->native_space, SONAR_C32, 3,
                                   (size_t[]){r->c->snapshots, bins, n}, &r->several, err);
    return code;
}

static sonar_code make_snapshots(rig *r, sonar_error *err) {
    const bench_case *c = r->c;
    const size_t shape[] = {c->snapshots, c->mvdr.bins, c->sensors};
    const size_t middle = c->mvdr.bins / 2, each = shape[1] * shape[2];
    if (c->mvdr.bins == 0)
        return SONAR_OK;
    sonar_code code =
        r->b->buffer_create(r->b, r->b->native_space, SONAR_C32, 3, shape, &r->snapshots, err);
    sonar_c32 *one = sonar_alloc(each, sizeof *one);
    if (code == SONAR_OK && !one)
        code = sonar_fail(err, SONAR_ENOMEM, c->name, "no memory for a snapshot");
    for (size_t i = 0; i < c->snapshots && code == SONAR_OK; i++) {
        make_snapshot(r, i, one);
        memcpy(r->block + i * c->sensors, one + middle * c->sensors, c->sensors * sizeof *one);
        const sonar_buffer from = sonar_buffer_view(one, SONAR_C32, 2, shape + 1);
        sonar_buffer to =
            sonar_buffer_view((sonar_c32 *)r->snapshots.data + i * each, SONAR_C32, 2, shape + 1);
        to.space = r->b->native_space;
        code = r->b->copy(r->queue, &from, &to, err);
        if (code == SONAR_OK)
            code = settle(r, err);
    }
    free(one);
    return code;
}

static sonar_code create_stages(rig *r, sonar_error *err) {
    const bench_case *c = r->c;
    const sonar_host *host = r->site->host;
    const sonar_dft_spec dft = {.channels = c->sensors,
                                .sensors = c->sensors,
                                .length = c->length,
                                .fs_hz = c->fs_hz,
                                .first_bin = r->kept.first,
                                .bins = r->kept.bins,
                                .remove_mean = true};
    const sonar_cbf_spec cbf = {.sensors = c->sensors,
                                .directions = c->angles,
                                .ranges = c->ranges,
                                .fs_hz = c->fs_hz,
                                .length = c->length,
                                .first_bin = c->lofar.first,
                                .bins = c->lofar.bins,
                                .cbf_first = c->cbf.first,
                                .cbf_bins = c->cbf.bins,
                                .max_snapshots = c->cbf_alone ? c->snapshots : 1};
    const sonar_mvdr_spec mvdr = {.sensors = c->sensors,
                                  .directions = c->angles,
                                  .fs_hz = c->fs_hz,
                                  .length = c->length,
                                  .first_bin = c->mvdr.first,
                                  .bins = c->mvdr.bins,
                                  .max_new =
                                      sonar_min_size(sonar_max_size(c->snapshots, 1), NEW_MOST),
                                  .snapshots = c->snapshots,
                                  .eps = 1,
                                  .tolerance = 3e-7,
                                  .max_sweeps = 30};
    r->dft_ops = r->b->stage("dft");
    r->cbf_ops = r->b->stage("cbf");
    r->mvdr_ops = r->b->stage("mvdr_jacobi");
    if (!r->dft_ops || !r->cbf_ops || (c->mvdr.bins > 0 && !r->mvdr_ops))
        return sonar_fail(err, SONAR_EUNAVAILABLE, c->name, "the backend %s lacks a stage",
                          r->b->name);
    sonar_code code = SONAR_OK;
    if (!c->mvdr_alone)
        code = r->dft_ops->create(&dft, host, &r->dft, err);
    if (code == SONAR_OK && !c->mvdr_alone)
        code = r->cbf_ops->create(&cbf, host, &r->cbf, err);
    if (code == SONAR_OK && c->mvdr.bins > 0)
        code = r->mvdr_ops->create(&mvdr, host, &r->mvdr, err);
    return code;
}

static sonar_code make_queues(rig *r, sonar_error *err) {
    sonar_event **events[] = {&r->done, &r->arrived[0], &r->arrived[1], &r->consumed[0],
                              &r->consumed[1]};
    sonar_code code = r->b->queue_create(r->b, &r->queue, err);
    if (code == SONAR_OK)
        code = r->b->queue_create(r->b, &r->copies, err);
    for (size_t i = 0; i < sizeof events / sizeof *events && code == SONAR_OK; i++)
        code = r->b->event_create(r->b, events[i], err);
    return code;
}

static void close_stages(rig *r) {
    if (r->dft)
        r->dft_ops->destroy(r->dft);
    if (r->cbf)
        r->cbf_ops->destroy(r->cbf);
    if (r->mvdr)
        r->mvdr_ops->destroy(r->mvdr);
}

static void close_surface(rig *r, surface *s) {
    if (r->device && s->host.data)
        r->b->buffer_destroy(&s->host);
    if (s->native.data)
        r->b->buffer_destroy(&s->native);
}

static void close_buffers(rig *r) {
    surface *surfaces[] = {&r->azimuth,      &r->nearfield,     &r->lofar,
                           &r->mvdr_azimuth, &r->mvdr_spectrum, &r->mvdr_info};
    for (size_t i = 0; i < sizeof surfaces / sizeof *surfaces; i++)
        close_surface(r, surfaces[i]);
    for (size_t i = 0; i < SETS_MOST; i++) {
        sonar_buffer *of_set[] = {&r->samples[i], &r->samples_s16[i], &r->on_device[i]};
        for (size_t j = 0; j < 3; j++)
            if (of_set[j]->data)
                r->b->buffer_destroy(of_set[j]);
    }
    for (size_t i = 0; i < BIN_SETS_MOST; i++)
        if (r->bins[i].data)
            r->b->buffer_destroy(&r->bins[i]);
    for (size_t i = 0; i < 2; i++)
        if (r->stage_s16[i].data)
            r->b->buffer_destroy(&r->stage_s16[i]);
    if (r->snapshots.data)
        r->b->buffer_destroy(&r->snapshots);
    if (r->several.data)
        r->b->buffer_destroy(&r->several);
}

static void close_rig(rig *r) {
    if (r->queue && r->done)
        settle(r, NULL);
    close_stages(r);
    close_buffers(r);
    sonar_event *events[] = {r->done, r->arrived[0], r->arrived[1], r->consumed[0], r->consumed[1]};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        r->b->event_destroy(events[i]);
    r->b->queue_destroy(r->queue);
    r->b->queue_destroy(r->copies);
    void *owned[] = {r->position_m, r->phase_turns, r->delay_s,  r->az_deg,  r->u,
                     r->channel,    r->used,        r->scale,    r->shading, r->far_turns,
                     r->near_turns, r->block,       r->host_bins};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
}

static sonar_code open_rig(rig *r, sonar_error *err) {
    r->kept = bench_kept(r->c);
    r->device = r->b->native_space == SONAR_DEVICE;
    if (!allocate(r))
        return sonar_fail(err, SONAR_ENOMEM, r->c->name, "no memory for %zu sensors",
                          r->c->sensors);
    place(r);
    sonar_code code = make_queues(r, err);
    if (code == SONAR_OK)
        code = make_tables(r, err);
    if (code == SONAR_OK)
        code = make_surfaces(r, err);
    if (code == SONAR_OK && !r->c->mvdr_alone)
        code = make_samples(r, err);
    if (code == SONAR_OK)
        code = make_snapshots(r, err);
    return code == SONAR_OK ? create_stages(r, err) : code;
}

/* ---- what is timed --------------------------------------------------------------------------- */

static sonar_work work_of(const rig *r, uint32_t outputs) {
    return (sonar_work){.window = r->turn, .params = &r->params, .outputs = outputs};
}

/* A part of a dense buffer's outermost dimension. */
static sonar_buffer rows_of(const sonar_buffer *all, size_t first, size_t count) {
    sonar_buffer part = *all;
    const size_t row = all->bytes / sonar_max_size(all->shape[0], 1);
    part.data = (char *)all->data + first * row;
    part.shape[0] = count;
    part.bytes = count * row;
    return part;
}

static sonar_code transform_into(rig *r, const sonar_buffer *samples, sonar_buffer *bins,
                                 sonar_error *err) {
    sonar_buffer in[SONAR_DFT_INPUTS];
    in[SONAR_DFT_HEAD] = *samples;
    in[SONAR_DFT_TAIL] = sonar_buffer_view(NULL, samples->dtype, 2, (size_t[]){r->c->sensors, 0});
    in[SONAR_DFT_TAIL].space = samples->space;
    const sonar_work work = work_of(r, 0);
    return r->dft_ops->execute(r->dft, r->queue, in, bins, &work, err);
}

/* Transforms `samples` into the next of the sets of bins. */
static sonar_code transform(rig *r, const sonar_buffer *samples, sonar_error *err) {
    r->turn++;
    return transform_into(r, samples, &r->bins[r->turn % r->bin_sets], err);
}

/* Different windows as snapshots, where there are enough of them. */
static sonar_code fill_several(rig *r, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < r->c->snapshots && code == SONAR_OK; i++) {
        sonar_buffer bins = sonar_buffer_part(&r->several, i);
        code = transform_into(r, &r->samples[i % r->sets], &bins, err);
    }
    return code == SONAR_OK ? settle(r, err) : code;
}

static sonar_code run_dft(void *ctx, sonar_error *err) {
    rig *r = ctx;
    return transform(r, &r->samples[r->turn % r->sets], err);
}

static sonar_code run_dft_device(void *ctx, sonar_error *err) {
    rig *r = ctx;
    return transform(r, &r->on_device[r->turn % r->sets], err);
}

static sonar_code beams_of(rig *r, const sonar_buffer *in, uint32_t outputs, sonar_error *err) {
    sonar_buffer out[SONAR_CBF_OUTPUTS];
    out[SONAR_CBF_AZIMUTH] = r->azimuth.native;
    out[SONAR_CBF_NEARFIELD] = r->nearfield.native;
    out[SONAR_CBF_LOFAR] = r->lofar.native;
    const sonar_work work = work_of(r, outputs);
    return r->cbf_ops->execute(r->cbf, r->queue, in, out, &work, err);
}

static sonar_code beams(rig *r, uint32_t outputs, sonar_error *err) {
    const bench_case *c = r->c;
    const sonar_buffer band =
        rows_of(&r->bins[r->turn % r->bin_sets], c->lofar.first - r->kept.first, c->lofar.bins);
    sonar_buffer in =
        sonar_buffer_view(band.data, SONAR_C32, 3, (size_t[]){1, c->lofar.bins, c->sensors});
    in.space = band.space;
    return beams_of(r, &in, outputs, err);
}

static uint32_t all_beams(const rig *r) {
    return SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_LOFAR) |
           (r->c->ranges > 0 ? SONAR_WANT(SONAR_CBF_NEARFIELD) : 0);
}

static sonar_code run_far(void *ctx, sonar_error *err) {
    rig *r = ctx;
    r->turn++;
    return beams(r, SONAR_WANT(SONAR_CBF_AZIMUTH), err);
}

static sonar_code run_near(void *ctx, sonar_error *err) {
    rig *r = ctx;
    r->turn++;
    return beams(r, SONAR_WANT(SONAR_CBF_NEARFIELD), err);
}

static sonar_code run_lofar(void *ctx, sonar_error *err) {
    rig *r = ctx;
    r->turn++;
    return beams(r, SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_LOFAR), err);
}

/* All of them together exceed every cache. */
static sonar_code run_snapshots(void *ctx, sonar_error *err) {
    rig *r = ctx;
    return beams_of(r, &r->several, SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_LOFAR),
                    err);
}

static sonar_code run_all(void *ctx, sonar_error *err) {
    rig *r = ctx;
    r->turn++;
    return beams(r, all_beams(r), err);
}

/* `in` is [snapshot][bin][sensor]. */
static sonar_code adapt(rig *r, const sonar_buffer *in, uint32_t outputs, sonar_error *err) {
    sonar_buffer out[SONAR_MVDR_OUTPUTS];
    out[SONAR_MVDR_OUT_AZIMUTH] = r->mvdr_azimuth.native;
    out[SONAR_MVDR_OUT_SPECTRUM] = r->mvdr_spectrum.native;
    out[SONAR_MVDR_OUT_INFO] = r->mvdr_info.native;
    const sonar_work work = work_of(r, outputs);
    return r->mvdr_ops->execute(r->mvdr, r->queue, in, out, &work, err);
}

/* One new snapshot into the full block. */
static sonar_code run_mvdr(void *ctx, sonar_error *err) {
    rig *r = ctx;
    const sonar_buffer in = rows_of(&r->snapshots, r->fresh++ % r->c->snapshots, 1);
    return adapt(r, &in, SONAR_WANT(SONAR_MVDR_AZIMUTH), err);
}

/* A whole block, of which the check knows the snapshots. */
static sonar_code fill_block(rig *r, sonar_error *err) {
    const size_t all = r->c->snapshots;
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < all && code == SONAR_OK; i += NEW_MOST) {
        const size_t some = sonar_min_size(all - i, NEW_MOST);
        const sonar_buffer in = rows_of(&r->snapshots, i, some);
        const bool last = i + some == all;
        code =
            adapt(r, &in,
                  last ? SONAR_WANT(SONAR_MVDR_AZIMUTH) | SONAR_WANT(SONAR_MVDR_SPECTRUM) : 0, err);
    }
    return code == SONAR_OK ? settle(r, err) : code;
}

/* The DFT's own bins as one snapshot. */
static sonar_code adapt_bins(rig *r, sonar_error *err) {
    const bench_case *c = r->c;
    const sonar_buffer band =
        rows_of(&r->bins[r->turn % r->bin_sets], c->mvdr.first - r->kept.first, c->mvdr.bins);
    sonar_buffer in =
        sonar_buffer_view(band.data, SONAR_C32, 3, (size_t[]){1, c->mvdr.bins, c->sensors});
    in.space = band.space;
    return adapt(r, &in, SONAR_WANT(SONAR_MVDR_AZIMUTH), err);
}

static sonar_code fetch(rig *r, surface *s, sonar_error *err) {
    return r->device && s->native.data ? r->b->copy(r->queue, &s->native, &s->host, err) : SONAR_OK;
}

static sonar_code fetch_beams(rig *r, sonar_error *err) {
    sonar_code code = fetch(r, &r->azimuth, err);
    if (code == SONAR_OK)
        code = fetch(r, &r->nearfield, err);
    return code == SONAR_OK ? fetch(r, &r->lofar, err) : code;
}

/* What a running daemon computes each window when somebody watches everything: from samples in host
 * memory to results in host memory. */
static sonar_code run_chain(void *ctx, sonar_error *err) {
    rig *r = ctx;
    sonar_code code = run_dft(r, err);
    if (code == SONAR_OK)
        code = beams(r, all_beams(r), err);
    if (code == SONAR_OK)
        code = fetch_beams(r, err);
    if (code == SONAR_OK && r->c->mvdr.bins > 0)
        code = adapt_bins(r, err);
    if (code == SONAR_OK && r->c->mvdr.bins > 0)
        code = fetch(r, &r->mvdr_azimuth, err);
    return code;
}

/* ---- one minute ------------------------------------------------------------------------------ */

/* Copies window w into one of two buffers while the other is being computed from. */
static sonar_code upload(rig *r, size_t w, sonar_buffer *to, sonar_error *err) {
    const sonar_buffer *from = r->takes_s16 ? r->samples_s16 : r->samples;
    sonar_code code = SONAR_OK;
    if (w >= 2)
        code = r->b->wait(r->copies, r->consumed[w % 2], err);
    if (code == SONAR_OK)
        code = r->b->copy(r->copies, &from[w % r->sets], to, err);
    if (code == SONAR_OK)
        code = r->b->record(r->copies, r->arrived[w % 2], err);
    return code == SONAR_OK ? r->b->wait(r->queue, r->arrived[w % 2], err) : code;
}

static sonar_code run_window(rig *r, size_t w, sonar_error *err) {
    sonar_buffer *staged = r->takes_s16 ? &r->stage_s16[w % 2] : &r->on_device[w % 2];
    sonar_code code = r->device ? upload(r, w, staged, err) : SONAR_OK;
    if (code == SONAR_OK)
        code = transform(r, r->device ? staged : &r->samples[w % r->sets], err);
    if (code == SONAR_OK)
        code = r->b->record(r->queue, r->consumed[w % 2], err);
    if (code == SONAR_OK)
        code = beams(r, all_beams(r), err);
    return code == SONAR_OK ? fetch_beams(r, err) : code;
}

static sonar_code run_minute(void *ctx, sonar_error *err) {
    rig *r = ctx;
    sonar_code code = SONAR_OK;
    for (size_t w = 0; w < r->c->windows && code == SONAR_OK; w++)
        code = run_window(r, w, err);
    /* the next minute must not overwrite what this one still reads */
    return code == SONAR_OK ? settle(r, err) : code;
}

/* Whether the DFT takes 16-bit samples as they are; asked by trying. */
static bool try_s16(rig *r) {
    if (!r->keep_s16)
        return false;
    return transform(r, &r->stage_s16[0], NULL) == SONAR_OK && settle(r, NULL) == SONAR_OK;
}

/* ---- accuracy -------------------------------------------------------------------------------- */

static double snapshot_power(const rig *r, const sonar_c32 *x, size_t direction, size_t bin) {
    const uint64_t *turns = r->far_turns + direction * r->c->sensors;
    double re = 0, im = 0;
    for (size_t k = 0; k < r->c->sensors; k++) {
        const double phase = ldexp((double)(bin * turns[k]), -63) * M_PI;
        re += (double)x[k].re * cos(phase) + (double)x[k].im * sin(phase);
        im += (double)x[k].im * cos(phase) - (double)x[k].re * sin(phase);
    }
    return (re * re + im * im) / pow((double)r->c->sensors, 2);
}

static double beam_power(const rig *r, size_t direction, size_t bin) {
    const size_t snapshots = r->c->cbf_alone ? r->c->snapshots : 1;
    double sum = 0;
    for (size_t s = 0; s < snapshots; s++) {
        const size_t row = s * r->kept.bins + bin - r->kept.first;
        sum += snapshot_power(r, r->host_bins + row * r->c->sensors, direction, bin);
    }
    return sum / (double)snapshots;
}

/* Worst level of the surface against double precision at random points within 60 dB of the bin's
 * strongest beam. */
static double cbf_error_db(const rig *r) {
    uint64_t state = 2685821657736338717u;
    double worst_db = 0;
    for (int i = 0; i < CHECKS; i++) {
        const size_t t = (size_t)(uniform(&state) * (double)r->c->angles);
        const size_t row = (size_t)(uniform(&state) * (double)r->c->lofar.bins);
        const float *beams = (const float *)r->lofar.host.data + row * r->c->angles;
        double peak = 0;
        for (size_t j = 0; j < r->c->angles; j++)
            peak = fmax(peak, (double)beams[j]);
        const double expected = beam_power(r, t, r->c->lofar.first + row);
        if (expected > 1e-6 * peak)
            worst_db = fmax(worst_db, fabs(10 * log10((double)beams[t] / expected)));
    }
    return worst_db;
}

/* Worst level of the middle bin's spectrum; NaN for arrays too large for the plain way. */
static double mvdr_error_db(const rig *r) {
    const bench_case *c = r->c;
    const size_t middle = c->mvdr.bins / 2;
    const float *spectrum = (const float *)r->mvdr_spectrum.host.data + middle * c->angles;
    const float *info = (const float *)r->mvdr_info.host.data + middle * SONAR_MVDR_INFO_FIELDS;
    double *power = c->sensors <= CAPON_SENSORS_MOST ? sonar_alloc(c->angles, sizeof *power) : NULL;
    double worst_db = NAN;
    if (power && bench_capon(c->sensors, c->snapshots, r->block, (double)info[SONAR_MVDR_DELTA],
                             c->mvdr.first + middle, r->far_turns, c->angles, power)) {
        worst_db = 0;
        for (size_t t = 0; t < c->angles; t++)
            worst_db = fmax(worst_db, fabs(10 * log10((double)spectrum[t] / power[t])));
    }
    free(power);
    return worst_db;
}

static double mean_sweeps(const rig *r) {
    const float *info = r->mvdr_info.host.data;
    double sum = 0;
    for (size_t b = 0; b < r->c->mvdr.bins; b++)
        sum += (double)info[b * SONAR_MVDR_INFO_FIELDS + SONAR_MVDR_SWEEPS];
    return sum / (double)r->c->mvdr.bins;
}

/* The bins and the surface of one window in host memory. */
static sonar_code fetch_for_check(rig *r, bench_step run, sonar_error *err) {
    sonar_buffer *bins = r->c->cbf_alone ? &r->several : &r->bins[(r->turn + 1) % r->bin_sets];
    const size_t count = sonar_buffer_count(bins);
    r->host_bins = r->host_bins ? r->host_bins : sonar_alloc(count, sizeof *r->host_bins);
    if (!r->host_bins)
        return sonar_fail(err, SONAR_ENOMEM, r->c->name, "no memory for the bins");
    sonar_buffer host = sonar_buffer_view(r->host_bins, SONAR_C32, bins->rank, bins->shape);
    sonar_code code = run(r, err);
    if (code == SONAR_OK)
        code = r->b->copy(r->queue, bins, &host, err);
    if (code == SONAR_OK)
        code = fetch_beams(r, err);
    return code == SONAR_OK ? settle(r, err) : code;
}

static sonar_code fetch_mvdr(rig *r, sonar_error *err) {
    sonar_code code = fill_block(r, err);
    if (code == SONAR_OK)
        code = fetch(r, &r->mvdr_spectrum, err);
    if (code == SONAR_OK)
        code = fetch(r, &r->mvdr_info, err);
    return code == SONAR_OK ? settle(r, err) : code;
}

/* ---- the stages of a case -------------------------------------------------------------------- */

typedef struct plan {
    const char *stage, *implementation;
    bench_step measured;
    double flop, bytes, host_bytes;
    bool wanted;
} plan;

/* What is known only after the run. */
static sonar_code complete(rig *r, const plan *p, bench_result *result, sonar_error *err) {
    const bool mvdr = p->measured == run_mvdr;
    sonar_code code = SONAR_OK;
    const bool surface = p->measured == run_lofar || p->measured == run_snapshots;
    if (surface && (code = fetch_for_check(r, p->measured, err)) == SONAR_OK)
        result->error_db = cbf_error_db(r);
    if (mvdr && (code = fetch_mvdr(r, err)) == SONAR_OK) {
        result->error_db = mvdr_error_db(r);
        result->sweeps = mean_sweeps(r);
    }
    if (code == SONAR_OK && r->c->mvdr.bins > 0 && (mvdr || p->measured == run_chain))
        result->flop += bench_mvdr_flop(r->c, mean_sweeps(r));
    return code;
}

static sonar_code run_plan(rig *r, const plan *p, bench_report *report, sonar_error *err) {
    if (!p->wanted || report->results == BENCH_RESULTS_MOST)
        return SONAR_OK;
    bench_result result = {.of = r->c,
                           .backend = r->b->name,
                           .stage = p->stage,
                           .implementation = p->implementation,
                           .flop = p->flop,
                           .bytes = p->bytes,
                           .host_bytes = r->device ? p->host_bytes : 0,
                           .error_db = NAN,
                           .sweeps = NAN};
    sonar_code code = bench_measure(r, p->measured, r->device ? settle : NULL, &r->site->effort,
                                    &result.time, err);
    if (code == SONAR_OK)
        code = complete(r, p, &result, err);
    if (code == SONAR_OK)
        report->result[report->results++] = result;
    return code;
}

static sonar_code run_plans(rig *r, bench_report *report, sonar_error *err) {
    const bench_case *c = r->c;
    const double n = (double)c->sensors, map = 4.0 * (double)c->angles;
    const double minute = (double)c->windows, samples = n * 4.0 * (double)c->length;
    const bool mvdr = c->mvdr.bins > 0, near = c->ranges > 0;
    const bool beams = !c->mvdr_alone && !c->cbf_alone;
    const double dft_bytes = samples + n * 8.0 * (double)r->kept.bins;
    const double far_bytes = n * 8.0 * (double)c->cbf.bins + map;
    const double near_bytes = near ? n * 8.0 * (double)c->cbf.bins + map * (double)c->ranges : 0;
    const double lofar_bytes = (n * 8.0 + map) * (double)c->lofar.bins + map;
    const double all_bytes = lofar_bytes + map * (double)c->ranges; /* the bins are read once */
    const double mvdr_bytes = mvdr ? n * 8.0 * (double)(c->mvdr.bins * c->snapshots) + map : 0;
    const double dft = bench_dft_flop(c), far = bench_cbf_flop(c, c->cbf.bins, 0);
    const double nearfield = bench_cbf_flop(c, 0, c->cbf.bins);
    const double lofar = bench_cbf_flop(c, c->lofar.bins, 0), all = lofar + nearfield;
    const double times = (double)c->snapshots; /* the surface is written once */
    const double several_bytes =
        n * 8.0 * times * (double)c->lofar.bins + map * (double)(c->lofar.bins + 1);
    const double crossing = r->takes_s16 ? samples / 2 : samples;
    const char *name = r->b->name, *format = r->takes_s16 ? "s16" : "f32";
    const plan plans[] = {
        {"dft", name, run_dft, dft, dft_bytes, samples, beams},
        {"dft.device", name, run_dft_device, dft, dft_bytes, 0, beams && r->device},
        {"cbf.far", name, run_far, far, far_bytes, 0, beams},
        {"cbf.near", name, run_near, nearfield, near_bytes, 0, beams && near},
        {"cbf.lofar", name, run_lofar, lofar, lofar_bytes, 0, beams},
        {"cbf.all", name, run_all, all, all_bytes, 0, beams},
        {"cbf.snapshots", name, run_snapshots, times * lofar, several_bytes, 0, c->cbf_alone},
        {"mvdr", "one_sided", run_mvdr, 0, mvdr_bytes, 0, mvdr},
        {"chain", name, run_chain, dft + all, dft_bytes + all_bytes + mvdr_bytes, samples, beams},
        {"minute", format, run_minute, minute * (dft + all),
         minute * (dft_bytes - samples + crossing + all_bytes), minute * crossing,
         beams && c->windows > 0},
    };
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < sizeof plans / sizeof *plans && code == SONAR_OK; i++)
        code = run_plan(r, &plans[i], report, err);
    return code;
}

/* Data for all the stages after the first, then all of them. */
static sonar_code run_rig(rig *r, bench_report *report, sonar_error *err) {
    sonar_code code = SONAR_OK;
    r->takes_s16 = !r->c->mvdr_alone && try_s16(r);
    for (size_t i = 0; !r->c->mvdr_alone && i < r->bin_sets && code == SONAR_OK; i++)
        code = run_dft(r, err);
    if (code == SONAR_OK && r->c->cbf_alone)
        code = fill_several(r, err);
    if (code == SONAR_OK && r->c->mvdr.bins > 0)
        code = fill_block(r, err);
    return code == SONAR_OK ? run_plans(r, report, err) : code;
}

sonar_code bench_run(const bench_case *c, const bench_site *site, bench_report *report,
                     sonar_error *err) {
    sonar_code code = bench_case_check(c, err);
    if (code != SONAR_OK)
        return code;
    rig *r = sonar_alloc(1, sizeof *r);
    if (!r)
        return sonar_fail(err, SONAR_ENOMEM, c->name, "no memory");
    r->c = c;
    r->site = site;
    r->b = site->backend;
    code = open_rig(r, err);
    if (code == SONAR_OK)
        code = run_rig(r, report, err);
    close_rig(r);
    free(r);
    return code;
}
