/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ranks/exchange.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/core.h"

struct sonar_exchange {
    sonar_exchange_spec spec;
    sonar_mvdr_spec solves;  /* the MVDR of this rank's share of the bins */
    bool adds;               /* sums over sensors are added; otherwise transforms are exchanged */
    size_t rows;             /* bins of all ranks' shares, edges included */
    uint8_t *keeps;          /* [rank][snapshot] 1: without gaps */
    double *sent, *received; /* sums to send and as received */
    sonar_c32 *packed, *unpacked; /* transforms to send and as received */
    /* on the root: */
    void *all;             /* parts received, rank by rank */
    sonar_buffer info;     /* f32 [bin][SONAR_MVDR_INFO_FIELDS] */
    float *whole_spectrum; /* f32 [bin][direction], used if the surface is not wanted */
};

static const sonar_rank_place *place(const sonar_exchange *x) {
    return &x->spec.ranks->cluster->place;
}

static const sonar_cluster_ops *ops(const sonar_exchange *x) {
    return x->spec.ranks->cluster->ops;
}

/* The live specifications. */
static const sonar_cbf_spec *live_cbf(const sonar_exchange *x, const sonar_params *params) {
    return params->cbf ? params->cbf : &x->spec.part->cbf;
}

static const sonar_mvdr_spec *live_mvdr(const sonar_exchange *x) {
    const sonar_params *params = x->spec.ranks->params;
    return params->mvdr ? params->mvdr : &x->spec.part->mvdr;
}

/* ---- shares of the bins ---------------------------------------------------------------------- */

/* Finds which bins of the share are in the live band. */
static void find_live(const sonar_exchange *x, sonar_share *s) {
    const sonar_mvdr_spec *live = live_mvdr(x);
    const size_t first = live->first_bin - x->spec.ranks->specs->mvdr.first_bin;
    const size_t end = first + live->bins;
    s->live_first = sonar_max_size(first, s->first);
    s->live_bins = sonar_max_size(sonar_min_size(end, s->first + s->bins), s->live_first);
    s->live_bins -= s->live_first;
}

/* If tones are searched, shares have one more bin at each edge, because a tone is found with a
 * bin's neighbours. */
static sonar_share share_of(const sonar_exchange *x, size_t rank) {
    const sonar_mvdr_spec *mvdr = &x->spec.ranks->specs->mvdr;
    const size_t ranks = place(x)->ranks, all = mvdr->bins;
    sonar_share s = {.first = all * rank / ranks};
    s.bins = all * (rank + 1) / ranks - s.first;
    const bool edges = s.bins && mvdr->tones && !x->adds;
    s.below = edges && s.first > 0;
    s.above = edges && s.first + s.bins < all;
    find_live(x, &s);
    return s;
}

sonar_share sonar_exchange_own(const sonar_exchange *x) {
    return share_of(x, place(x)->rank);
}

/* ---- create ---------------------------------------------------------------------------------- */

/* True if a part's phases relative to the array's origin change across a bin by less than half a
 * turn everywhere, with a margin for another sound speed. */
static bool near_origin(const sonar_mvdr_spec *mvdr, const sonar_params *params) {
    double farthest_m = 0;
    for (size_t i = 0; i < params->sensors; i++) {
        const double *at = params->position_m + 3 * i;
        farthest_m = fmax(farthest_m, hypot(hypot(at[0], at[1]), at[2]));
    }
    const double bin_hz = mvdr->fs_hz / (double)mvdr->length;
    return !mvdr->tones || farthest_m / params->sound_speed_mps * bin_hz < 0.4;
}

/* Sums are added if that is possible and they have fewer numbers than the transforms. */
static bool can_add(const sonar_split *ranks) {
    const sonar_mvdr_spec *mvdr = &ranks->specs->mvdr;
    return ranks->specs->mvdr_enabled && sonar_mvdr_adds(mvdr) &&
           sonar_mvdr_sums_row(mvdr) <= mvdr->sensors && near_origin(mvdr, ranks->params);
}

static sonar_mvdr_spec find_solves(const sonar_exchange *x) {
    const sonar_share own = sonar_exchange_own(x);
    sonar_mvdr_spec mvdr = x->spec.ranks->specs->mvdr;
    mvdr.first_bin += own.first - own.below;
    mvdr.bins = x->spec.ranks->specs->mvdr_enabled ? sonar_share_rows(own) : 0;
    mvdr.edge_below = own.below;
    mvdr.edge_above = own.above;
    if (x->adds) {
        mvdr.parts = SONAR_MVDR_JOINED;
        mvdr.tones = NULL; /* the parts have found the tones already */
    }
    return mvdr;
}

/* Memory for sums of bins or of points: all bins of one rank to send, one share of all ranks to
 * receive. */
static void lay_out_sums(sonar_exchange *x, sonar_arena *arena) {
    const sonar_mvdr_spec *mvdr = &x->spec.part->mvdr;
    const size_t points = SONAR_EXCHANGE_POINTS * sonar_exchange_point_doubles(mvdr);
    const size_t of_bin = sonar_max_size(sonar_mvdr_sums_most(mvdr), points);
    const size_t products = (mvdr->max_new + mvdr->snapshots) * mvdr->bins * SONAR_MVDR_PRODUCTS;
    SONAR_ARENA(arena, x->sent, mvdr->bins * of_bin);
    SONAR_ARENA(arena, x->received,
                place(x)->ranks * sonar_max_size(x->solves.bins * of_bin, products));
}

static void lay_out_transforms(sonar_exchange *x, sonar_arena *arena) {
    const sonar_mvdr_spec *mvdr = &x->spec.part->mvdr;
    SONAR_ARENA(arena, x->packed, mvdr->max_new * x->rows * mvdr->sensors);
    SONAR_ARENA(arena, x->unpacked, mvdr->max_new * x->solves.bins * x->solves.sensors + 1);
}

static void lay_out_root(sonar_exchange *x, sonar_arena *arena) {
    const sonar_specs *specs = x->spec.ranks->specs;
    const sonar_cbf_spec *cbf = &specs->cbf;
    const sonar_mvdr_spec *mvdr = &specs->mvdr;
    const size_t ranks = place(x)->ranks;
    const size_t far = cbf->bins * sonar_max_size(cbf->directions, SONAR_EXCHANGE_POINTS);
    const size_t near = cbf->cbf_bins * cbf->ranges * cbf->directions;
    x->all = sonar_arena_array(arena, x->all,
                               ranks * cbf->max_snapshots * sonar_max_size(far, near) +
                                   ranks * (mvdr->ranges + 1) * mvdr->directions,
                               sizeof(sonar_c32));
    if (!specs->mvdr_enabled)
        return;
    const size_t info[2] = {mvdr->bins, SONAR_MVDR_INFO_FIELDS};
    x->info =
        sonar_buffer_view(sonar_arena_array(arena, x->info.data, info[0] * info[1], sizeof(float)),
                          SONAR_F32, 2, info);
    SONAR_ARENA(arena, x->whole_spectrum, mvdr->bins * mvdr->directions);
}

static sonar_arena lay_out(sonar_exchange *x, sonar_arena_pass pass) {
    sonar_arena arena = {.pass = pass};
    if (x->spec.part->mvdr_enabled) {
        SONAR_ARENA(&arena, x->keeps, place(x)->ranks * x->spec.part->mvdr.max_new);
        (x->adds ? lay_out_sums : lay_out_transforms)(x, &arena);
    }
    if (place(x)->rank == 0)
        lay_out_root(x, &arena);
    return arena;
}

sonar_code sonar_exchange_create(const sonar_exchange_spec *spec, sonar_exchange **exchange,
                                 sonar_error *err) {
    sonar_exchange *x = *exchange = sonar_alloc(1, sizeof *x);
    if (x) {
        x->spec = *spec;
        x->adds = can_add(spec->ranks);
        x->solves = find_solves(x);
        for (size_t r = 0; r < place(x)->ranks; r++)
            x->rows += sonar_share_rows(share_of(x, r));
        if (!lay_out(x, SONAR_ARENA_ALLOCATE).failed)
            return SONAR_OK;
    }
    sonar_exchange_destroy(x);
    *exchange = NULL;
    return sonar_fail(err, SONAR_ENOMEM, "cluster", "no memory for what the ranks exchange");
}

void sonar_exchange_destroy(sonar_exchange *x) {
    if (x)
        lay_out(x, SONAR_ARENA_FREE);
    free(x);
}

const sonar_mvdr_spec *sonar_exchange_solves(const sonar_exchange *x) {
    return &x->solves;
}

bool sonar_exchange_adds(const sonar_exchange *x) {
    return x->adds;
}

/* ---- beams ----------------------------------------------------------------------------------- */

/* The ranks' parts, [rank][snapshot][bin][point]. */
struct parts_in {
    const sonar_c32 *all;
    size_t ranks, snapshots, bins, points;
};

enum { SLICE = 32 }; /* points that a worker processes at a time */

/* Mean over the snapshots of the power of the parts' sum at points [first, first + n) of a bin. */
SONAR_MULTIARCH static void add_parts(const struct parts_in *in, size_t bin, size_t first, size_t n,
                                      double *power) {
    const size_t rank = in->snapshots * in->bins * in->points;
    memset(power, 0, n * sizeof *power);
    for (size_t s = 0; s < in->snapshots; s++) {
        const sonar_c32 *row = in->all + (s * in->bins + bin) * in->points + first;
        double re[SLICE] = {0}, im[SLICE] = {0};
        for (size_t r = 0; r < in->ranks; r++, row += rank)
            for (size_t p = 0; p < n; p++) {
                re[p] += (double)row[p].re;
                im[p] += (double)row[p].im;
            }
        for (size_t p = 0; p < n; p++)
            power[p] += re[p] * re[p] + im[p] * im[p];
    }
    for (size_t p = 0; p < n; p++)
        power[p] /= (double)in->snapshots;
}

/* Writes powers of the bins [first_row, first_row + row_count) to `rows`, and `scale` times their
 * sum over the bins [first, first + bins) to `sum`; either may be NULL. */
struct powers {
    struct parts_in in;
    float *rows;
    size_t first_row, row_count;
    size_t first, bins;
    double scale;
    float *sum;
};

/* Computes one slice of the points, bin after bin. */
static void make_slice(void *arg, size_t index, size_t worker) {
    const struct powers *to = arg;
    const size_t begin = index * SLICE, n = sonar_min_size(to->in.points - begin, SLICE);
    double power[SLICE], energy[SLICE] = {0};
    (void)worker;
    for (size_t b = 0; b < to->in.bins; b++) {
        const bool row = to->rows && b >= to->first_row && b < to->first_row + to->row_count;
        const bool summed = b >= to->first && b < to->first + to->bins;
        if (row || summed)
            add_parts(&to->in, b, begin, n, power);
        for (size_t i = 0; row && i < n; i++)
            to->rows[(b - to->first_row) * to->in.points + begin + i] = (float)power[i];
        for (size_t i = 0; summed && i < n; i++)
            energy[i] += power[i];
    }
    for (size_t i = 0; to->sum && i < n; i++)
        to->sum[begin + i] = (float)(to->scale * energy[i]);
}

static void make_powers(const sonar_exchange *x, struct powers to) {
    const sonar_cbf_spec *cbf = &x->spec.part->cbf;
    const sonar_host *host = x->spec.host;
    to.scale = cbf->fs_hz / (double)cbf->length;
    host->parallel(host->ctx, (to.in.points + SLICE - 1) / SLICE, make_slice, &to);
}

/* The parts as the root receives them, for this many points and bins. */
static struct parts_in parts_of(const sonar_exchange *x, size_t bins, size_t points) {
    return (struct parts_in){x->all, place(x)->ranks, x->spec.part->cbf.max_snapshots, bins,
                             points};
}

/* Gathers the ranks' parts on the root, which computes powers from them. */
static sonar_code gather_parts(sonar_exchange *x, const sonar_c32 *mine, struct powers to,
                               sonar_error *err) {
    size_t size[SONAR_RANKS_MOST];
    for (size_t r = 0; r < to.in.ranks; r++)
        size[r] = to.in.snapshots * to.in.bins * to.in.points * sizeof *mine;
    const sonar_code code = ops(x)->gather(mine, size, x->all, err);
    if (!code && place(x)->rank == 0)
        make_powers(x, to);
    return code;
}

static float *surface_of(sonar_buffer *all, uint32_t outputs, sonar_surface surface) {
    return all && outputs & SONAR_WANT(surface) ? all[surface].data : NULL;
}

sonar_code sonar_exchange_beams(sonar_exchange *x, const sonar_work *work, const sonar_c32 *far,
                                const sonar_c32 *near, sonar_buffer *surface, sonar_error *err) {
    const sonar_cbf_spec *cbf = &x->spec.part->cbf, *live = live_cbf(x, work->params);
    const bool lofar = work->outputs & SONAR_WANT(SONAR_CBF_LOFAR);
    const struct powers to_far = {
        .in = parts_of(x, lofar ? cbf->bins : live->cbf_bins, cbf->directions),
        .rows = surface_of(surface, work->outputs, SONAR_CBF_LOFAR),
        .first_row = live->first_bin - cbf->first_bin,
        .row_count = live->bins,
        .first = lofar ? live->cbf_first - cbf->first_bin : 0,
        .bins = live->cbf_bins,
        .sum = surface_of(surface, work->outputs, SONAR_CBF_AZIMUTH)};
    const struct powers to_near = {.in = parts_of(x, live->cbf_bins, cbf->ranges * cbf->directions),
                                   .bins = live->cbf_bins,
                                   .sum = surface_of(surface, work->outputs, SONAR_CBF_NEARFIELD)};
    sonar_code code = SONAR_OK;
    if (work->outputs & (SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_LOFAR)))
        code = gather_parts(x, far, to_far, err);
    if (!code && work->outputs & SONAR_WANT(SONAR_CBF_NEARFIELD))
        code = gather_parts(x, near, to_near, err);
    return code;
}

sonar_code sonar_exchange_point_beams(sonar_exchange *x, const sonar_params *params, size_t n,
                                      const sonar_c32 *mine, float *power, sonar_error *err) {
    const size_t bins = live_cbf(x, params)->cbf_bins;
    return gather_parts(
        x, mine, (struct powers){.in = parts_of(x, bins, n), .bins = bins, .sum = power}, err);
}

/* ---- transforms ------------------------------------------------------------------------------ */

sonar_code sonar_exchange_keep(sonar_exchange *x, size_t snapshots, uint8_t *keep,
                               sonar_error *err) {
    const sonar_code code = ops(x)->share(keep, snapshots, x->keeps, err);
    for (size_t r = 0; r < place(x)->ranks && !code; r++)
        for (size_t i = 0; i < snapshots; i++)
            keep[i] &= x->keeps[r * snapshots + i];
    return code;
}

/* This rank's sensors in one bin of its transforms. */
static const sonar_c32 *own_row(const sonar_buffer *own, size_t snapshot, size_t bin) {
    return (const sonar_c32 *)own->data + (ptrdiff_t)snapshot * own->stride[0] +
           (ptrdiff_t)bin * own->stride[1];
}

/* Packs this rank's sensors in the bins of every other rank's share. */
static void pack(const sonar_exchange *x, size_t taken, const sonar_buffer *own, size_t to[]) {
    const size_t sensors = x->spec.part->mvdr.sensors;
    sonar_c32 *at = x->packed;
    for (size_t r = 0; r < place(x)->ranks; r++) {
        const sonar_share s = share_of(x, r);
        const size_t rows = r == place(x)->rank ? 0 : sonar_share_rows(s);
        for (size_t i = 0; i < taken; i++, at += rows * sensors)
            memcpy(at, own_row(own, i, s.first - s.below), rows * sensors * sizeof *at);
        to[r] = taken * rows * sensors * sizeof *at;
    }
}

/* Copies a rank's sensors to their places in the array's row. The sensor numbers ascend and are
 * nearly always consecutive. */
static void place_sensors(const sonar_c32 *from, const uint32_t *sensor, size_t n, sonar_c32 *row) {
    if (n && sensor[n - 1] - sensor[0] == n - 1) {
        memcpy(row + sensor[0], from, n * sizeof *row);
        return;
    }
    for (size_t s = 0; s < n; s++)
        row[sensor[s]] = from[s];
}

/* Combines this rank's own sensors and those received, in the bins of its share. */
static void unpack(const sonar_exchange *x, size_t taken, const sonar_buffer *own,
                   sonar_c32 *input) {
    const sonar_share share = sonar_exchange_own(x);
    const sonar_c32 *received = x->unpacked;
    const uint32_t *sensor = x->spec.ranks->sensor;
    const size_t bins = x->solves.bins;
    for (size_t r = 0; r < place(x)->ranks; sensor += x->spec.ranks->sensors[r++])
        for (size_t row = 0; row < taken * bins; row++) {
            const size_t n = x->spec.ranks->sensors[r];
            const bool mine = r == place(x)->rank;
            const size_t bin = share.first - share.below + row % bins;
            place_sensors(mine ? own_row(own, row / bins, bin) : received, sensor, n,
                          input + row * x->solves.sensors);
            received += mine ? 0 : n;
        }
}

sonar_code sonar_exchange_transforms(sonar_exchange *x, size_t taken, const sonar_buffer *own,
                                     sonar_c32 *input, sonar_error *err) {
    size_t to[SONAR_RANKS_MOST], from[SONAR_RANKS_MOST];
    pack(x, taken, own, to);
    for (size_t r = 0; r < place(x)->ranks; r++)
        from[r] = r == place(x)->rank
                      ? 0
                      : taken * x->solves.bins * x->spec.ranks->sensors[r] * sizeof(sonar_c32);
    const sonar_code code = ops(x)->exchange(x->packed, to, x->unpacked, from, err);
    if (!code && x->solves.bins)
        unpack(x, taken, own, input);
    return code;
}

/* ---- sums over sensors ----------------------------------------------------------------------- */

/* Adds n doubles of each rank, in the order of ranks, to sum[n]. */
static void add_up(const double *of, size_t ranks, size_t apart, size_t n, double *sum) {
    memcpy(sum, of, n * sizeof *sum);
    for (size_t r = 1; r < ranks; r++)
        for (size_t i = 0; i < n; i++)
            sum[i] += of[r * apart + i];
}

sonar_code sonar_exchange_products(sonar_exchange *x, size_t rows, double *products,
                                   sonar_error *err) {
    const size_t n = rows * x->spec.part->mvdr.bins * SONAR_MVDR_PRODUCTS;
    const sonar_code code = ops(x)->share(products, n * sizeof *products, x->received, err);
    if (!code)
        add_up(x->received, place(x)->ranks, n, n, products);
    return code;
}

size_t sonar_exchange_doubles(const sonar_exchange *x, const double *plan, size_t bin,
                              size_t taken) {
    const sonar_mvdr_spec *mvdr = &x->spec.part->mvdr;
    const size_t rows = sonar_min_size(taken, (size_t)sonar_mvdr_slots(mvdr));
    return plan[bin * SONAR_MVDR_PLAN + SONAR_MVDR_PLAN_WHOLE] != 0
               ? sonar_mvdr_sums_most(mvdr)
               : rows * sonar_mvdr_sums_row(mvdr);
}

/* Packs the bins of every share, in the order of ranks, and sets each rank's bytes. */
static void pack_sums(sonar_exchange *x, size_t taken, const double *plan, const double *of_bins,
                      size_t to[]) {
    const size_t most = sonar_mvdr_sums_most(&x->spec.part->mvdr);
    double *at = x->sent;
    for (size_t r = 0; r < place(x)->ranks; r++) {
        const sonar_share s = share_of(x, r);
        const double *begin = at;
        for (size_t b = s.first; b < s.first + s.bins; b++) {
            const size_t n = sonar_exchange_doubles(x, plan, b, taken);
            memcpy(at, of_bins + b * most, n * sizeof *at);
            at += n;
        }
        to[r] = (size_t)(at - begin) * sizeof *at;
    }
}

sonar_code sonar_exchange_sums(sonar_exchange *x, size_t taken, const double *plan,
                               const double *of_bins, double *added, sonar_error *err) {
    const sonar_share own = sonar_exchange_own(x);
    const size_t most = sonar_mvdr_sums_most(&x->solves);
    const double *from_all = x->received;
    size_t to[SONAR_RANKS_MOST], from[SONAR_RANKS_MOST], doubles = 0;
    pack_sums(x, taken, plan, of_bins, to);
    for (size_t b = 0; b < own.bins; b++)
        doubles += sonar_exchange_doubles(x, plan, own.first + b, taken);
    for (size_t r = 0; r < place(x)->ranks; r++)
        from[r] = doubles * sizeof(double);
    const sonar_code code = ops(x)->exchange(x->sent, to, x->received, from, err);
    for (size_t b = 0; b < own.bins && !code; b++) {
        const size_t n = sonar_exchange_doubles(x, plan, own.first + b, taken);
        add_up(from_all, place(x)->ranks, doubles, n, added + b * most);
        from_all += n;
    }
    return code;
}

sonar_code sonar_exchange_point_sums(sonar_exchange *x, size_t n, const double *of_points,
                                     double *added, sonar_error *err) {
    const size_t of_bin = n * sonar_exchange_point_doubles(&x->spec.part->mvdr);
    const size_t own = sonar_exchange_own(x).bins * of_bin;
    size_t to[SONAR_RANKS_MOST], from[SONAR_RANKS_MOST];
    for (size_t r = 0; r < place(x)->ranks; r++) {
        to[r] = share_of(x, r).bins * of_bin * sizeof(double);
        from[r] = own * sizeof(double);
    }
    const sonar_code code = ops(x)->exchange(of_points, to, x->received, from, err);
    if (!code && own)
        add_up(x->received, place(x)->ranks, own, own, added);
    return code;
}

/* ---- solved shares --------------------------------------------------------------------------- */

/* Gathers the rows of the live band, f32 [bin][columns], on the root. */
static sonar_code gather_rows(sonar_exchange *x, const float *mine, size_t columns, float *all,
                              sonar_error *err) {
    const sonar_share own = sonar_exchange_own(x);
    const size_t first = own.below + own.live_first - own.first;
    size_t size[SONAR_RANKS_MOST];
    for (size_t r = 0; r < place(x)->ranks; r++)
        size[r] = share_of(x, r).live_bins * columns * sizeof(float);
    return ops(x)->gather(own.live_bins ? mine + first * columns : NULL, size, all, err);
}

/* Computes (fs/N) sum_b P in double, bin after bin. */
static void sum_band(const sonar_mvdr_spec *mvdr, size_t bins, const float *rows, float *azimuth) {
    for (size_t t = 0; t < mvdr->directions; t++) {
        double sum = 0;
        for (size_t b = 0; b < bins; b++)
            sum += (double)rows[b * mvdr->directions + t];
        azimuth[t] = (float)fmin(sum * mvdr->fs_hz / (double)mvdr->length, (double)FLT_MAX);
    }
}

static sonar_code gather_spectrum(sonar_exchange *x, const float *mine, float *spectrum,
                                  float *azimuth, sonar_error *err) {
    const sonar_mvdr_spec *mvdr = &x->spec.ranks->specs->mvdr;
    spectrum = spectrum ? spectrum : x->whole_spectrum;
    const sonar_code code = gather_rows(x, mine, mvdr->directions, spectrum, err);
    if (!code && azimuth)
        sum_band(mvdr, x->info.shape[0], spectrum, azimuth);
    return code;
}

/* Gathers n values of each rank that has bins of the live band, in the order of ranks, in the
 * root's `all`. */
static sonar_code gather_live(sonar_exchange *x, const float *mine, size_t n, size_t *shares,
                              sonar_error *err) {
    size_t size[SONAR_RANKS_MOST];
    *shares = 0;
    for (size_t r = 0; r < place(x)->ranks; r++) {
        const bool has = share_of(x, r).live_bins > 0;
        size[r] = has ? n * sizeof *mine : 0;
        *shares += has;
    }
    return ops(x)->gather(mine, size, x->all, err);
}

/* Adds these values to `sum` on the root. */
static sonar_code gather_shares(sonar_exchange *x, const float *mine, size_t n, float *sum,
                                sonar_error *err) {
    size_t shares;
    const sonar_code code = gather_live(x, mine, n, &shares, err);
    const float *of = x->all;
    for (size_t i = 0; i < n && !code && sum; i++) {
        double all = 0;
        for (size_t r = 0; r < shares; r++)
            all += (double)of[r * n + i];
        sum[i] = (float)fmin(all, (double)FLT_MAX);
    }
    return code;
}

/* Each rank's number of bins with a MUSIC subspace, for ranks that have bins of the live band. */
static void count_subspaces(const sonar_exchange *x, double *bins) {
    const float *info = (const float *)x->info.data + SONAR_MVDR_SUBSPACE;
    for (size_t r = 0; r < place(x)->ranks; r++) {
        const size_t rows = share_of(x, r).live_bins;
        if (!rows)
            continue;
        *bins = 0;
        for (size_t b = 0; b < rows; b++, info += SONAR_MVDR_INFO_FIELDS)
            *bins += *info > 0;
        bins++;
    }
}

/* The mean over all bins of the limited share, from each rank's mean over its own bins. */
static sonar_code gather_music(sonar_exchange *x, const float *mine, float *music,
                               sonar_error *err) {
    const size_t n = x->spec.ranks->specs->mvdr.directions;
    double bins[SONAR_RANKS_MOST];
    size_t shares;
    const sonar_code code = gather_live(x, mine, n, &shares, err);
    if (code || !music)
        return code;
    count_subspaces(x, bins);
    for (size_t t = 0; t < n; t++) {
        double all = 0, sum = 0;
        for (size_t r = 0; r < shares; r++) {
            all += bins[r];
            sum += bins[r] / (double)((const float *)x->all)[r * n + t];
        }
        music[t] = (float)(all > 0 ? all / sum : 1);
    }
    return SONAR_OK;
}

sonar_code sonar_exchange_solved(sonar_exchange *x, uint32_t outputs, const sonar_solved *mine,
                                 sonar_buffer *surface, sonar_buffer *info, sonar_error *err) {
    const sonar_mvdr_spec *mvdr = &x->spec.ranks->specs->mvdr;
    x->info.shape[0] = live_mvdr(x)->bins;
    *info = x->info;
    sonar_code code = gather_rows(x, mine->info, SONAR_MVDR_INFO_FIELDS, x->info.data, err);
    if (!code && outputs & (SONAR_WANT(SONAR_MVDR_AZIMUTH) | SONAR_WANT(SONAR_MVDR_SPECTRUM)))
        code = gather_spectrum(x, mine->spectrum, surface_of(surface, outputs, SONAR_MVDR_SPECTRUM),
                               surface_of(surface, outputs, SONAR_MVDR_AZIMUTH), err);
    if (!code && outputs & SONAR_WANT(SONAR_MVDR_EIGENVALUES))
        code = gather_rows(x, mine->eigenvalues, sonar_mvdr_modes(mvdr),
                           surface_of(surface, outputs, SONAR_MVDR_EIGENVALUES), err);
    if (!code && outputs & SONAR_WANT(SONAR_MVDR_NEARFIELD))
        code = gather_shares(x, mine->nearfield, mvdr->ranges * mvdr->directions,
                             surface_of(surface, outputs, SONAR_MVDR_NEARFIELD), err);
    if (!code && outputs & SONAR_WANT(SONAR_MUSIC_AZIMUTH))
        code = gather_music(x, mine->music, surface_of(surface, outputs, SONAR_MUSIC_AZIMUTH), err);
    return code;
}

sonar_code sonar_exchange_point_powers(sonar_exchange *x, size_t n, const float *mine, float *power,
                                       sonar_error *err) {
    return gather_shares(x, mine, n, power, err);
}

/* ---- elements -------------------------------------------------------------------------------- */

sonar_code sonar_exchange_psd(sonar_exchange *x, const sonar_buffer *mine, sonar_buffer *surface,
                              sonar_error *err) {
    size_t size[SONAR_RANKS_MOST];
    for (size_t r = 0; r < place(x)->ranks; r++)
        size[r] = x->spec.ranks->channels[r] * mine->shape[1] * sizeof(float);
    return ops(x)->gather(mine->data, size, surface ? surface[SONAR_ELEMENT_PSD].data : NULL, err);
}
