/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What ranks tell one another about a window. Sums over ranks are taken here, in the order of ranks
 * and in float64. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/core.h"
#include "engine/internal.h"

static const sonar_rank_place *place(const sonar_engine *e) {
    return &e->spec.ranks->cluster->place;
}

/* The same number of bytes from each rank, to the root's parts->all. */
static sonar_code gather_equal(sonar_engine *e, const void *mine, size_t bytes, sonar_error *err) {
    const sonar_cluster *cluster = e->spec.ranks->cluster;
    size_t size[SONAR_RANKS_MOST];
    for (size_t r = 0; r < cluster->place.ranks; r++)
        size[r] = bytes;
    return cluster->ops->gather(mine, size, e->parts->all, err);
}

/* ---- conventional beams ---------------------------------------------------------------------- */

/* Parts [rank][snapshot][bin][point]. */
struct parts_in {
    const sonar_c32 *all;
    size_t ranks, snapshots, bins, points;
};

enum { SLICE = 32 }; /* points that a worker adds at a time */

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

/* Powers of the bins [first_row, first_row + row_count) to `rows` and `scale` times their sum over
 * the bins [first, first + bins) to `sum`; NULL: nowhere. */
struct powers {
    struct parts_in in;
    float *rows;
    size_t first_row, row_count;
    size_t first, bins;
    double scale;
    float *sum;
};

/* Of one slice of the points, bin after bin. */
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

static void make_powers(const sonar_engine *e, struct powers to) {
    const sonar_cbf_spec *cbf = &e->spec.specs->cbf;
    to.scale = cbf->fs_hz / (double)cbf->length;
    e->host->parallel(e->host->ctx, (to.in.points + SLICE - 1) / SLICE, make_slice, &to);
}

static float *surface_of(const struct job *job, sonar_surface surface) {
    return job->surface && job->work.outputs & SONAR_WANT(surface) ? job->surface[surface].data
                                                                   : NULL;
}

static sonar_code share_far(sonar_engine *e, const struct job *job, sonar_error *err) {
    const sonar_cbf_spec *cbf = &e->spec.specs->cbf;
    const sonar_cbf_spec *live = sonar_engine_live_cbf(e, job->work.params);
    const bool lofar = job->work.outputs & SONAR_WANT(SONAR_CBF_LOFAR);
    const struct parts_in in = {.all = e->parts->all,
                                .ranks = place(e)->ranks,
                                .snapshots = cbf->max_snapshots,
                                .bins = lofar ? cbf->bins : live->cbf_bins,
                                .points = cbf->directions};
    sonar_code code = gather_equal(e, e->parts->far.host.data,
                                   in.snapshots * in.bins * in.points * sizeof(sonar_c32), err);
    if (!code && place(e)->rank == 0)
        make_powers(e, (struct powers){.in = in,
                                       .rows = surface_of(job, SONAR_CBF_LOFAR),
                                       .first_row = live->first_bin - cbf->first_bin,
                                       .row_count = live->bins,
                                       .first = lofar ? live->cbf_first - cbf->first_bin : 0,
                                       .bins = live->cbf_bins,
                                       .sum = surface_of(job, SONAR_CBF_AZIMUTH)});
    return code;
}

static sonar_code share_near(sonar_engine *e, const struct job *job, sonar_error *err) {
    const sonar_cbf_spec *cbf = &e->spec.specs->cbf;
    const struct parts_in in = {.all = e->parts->all,
                                .ranks = place(e)->ranks,
                                .snapshots = cbf->max_snapshots,
                                .bins = sonar_engine_live_cbf(e, job->work.params)->cbf_bins,
                                .points = cbf->ranges * cbf->directions};
    sonar_code code = gather_equal(e, e->parts->near.host.data,
                                   in.snapshots * in.bins * in.points * sizeof(sonar_c32), err);
    if (!code && place(e)->rank == 0)
        make_powers(e, (struct powers){
                           .in = in, .bins = in.bins, .sum = surface_of(job, SONAR_CBF_NEARFIELD)});
    return code;
}

sonar_code sonar_share_cbf(sonar_engine *e, const struct job *job, sonar_error *err) {
    const uint32_t far = SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_LOFAR);
    sonar_code code = job->work.outputs & far ? share_far(e, job, err) : SONAR_OK;
    if (!code && job->work.outputs & SONAR_WANT(SONAR_CBF_NEARFIELD))
        code = share_near(e, job, err);
    return code;
}

/* ---- adaptive spectrum ----------------------------------------------------------------------- */

/* Those of the live band that lie in the share. */
static void find_live(const sonar_engine *e, struct share *s) {
    const size_t made = e->spec.ranks->specs->mvdr.first_bin;
    const sonar_mvdr_spec *live = sonar_engine_live_mvdr(e, e->spec.ranks->params);
    const size_t first = live->first_bin - made, end = first + live->bins;
    s->live_first = sonar_max_size(first, s->first);
    s->live_bins = sonar_max_size(sonar_min_size(end, s->first + s->bins), s->live_first);
    s->live_bins -= s->live_first;
}

/* Tones are found by a bin's neighbours. */
struct share sonar_share_of(const sonar_engine *e, size_t rank) {
    const sonar_mvdr_spec *mvdr = &e->spec.ranks->specs->mvdr;
    const size_t ranks = place(e)->ranks, all = mvdr->bins;
    struct share s = {.first = all * rank / ranks};
    s.bins = all * (rank + 1) / ranks - s.first;
    const bool edges = s.bins && mvdr->tones && !e->parts->adds;
    s.below = edges && s.first > 0;
    s.above = edges && s.first + s.bins < all;
    find_live(e, &s);
    return s;
}

sonar_code sonar_share_keep(sonar_engine *e, size_t snapshots, sonar_error *err) {
    const sonar_cluster *cluster = e->spec.ranks->cluster;
    struct parts *p = e->parts;
    sonar_code code = cluster->ops->share(e->keep, snapshots, p->keeps, err);
    for (size_t r = 0; r < cluster->place.ranks && !code; r++)
        for (size_t i = 0; i < snapshots; i++)
            e->keep[i] &= p->keeps[r * snapshots + i];
    return code;
}

/* This rank's sensors in a bin of the host's transforms. */
static const sonar_c32 *own_row(const sonar_engine *e, size_t snapshot, size_t bin) {
    const sonar_buffer *x = &e->side[HOST_SIDE].spectra.mvdr;
    return (const sonar_c32 *)x->data + (ptrdiff_t)snapshot * x->stride[0] +
           (ptrdiff_t)bin * x->stride[1];
}

/* Of this rank's sensors, the bins of every other rank's share. */
static void pack(const sonar_engine *e, size_t taken, size_t to[]) {
    const size_t sensors = e->spec.specs->mvdr.sensors;
    sonar_c32 *at = e->parts->packed;
    for (size_t r = 0; r < place(e)->ranks; r++) {
        const struct share s = sonar_share_of(e, r);
        const size_t rows = r == place(e)->rank ? 0 : sonar_share_rows(s);
        for (size_t i = 0; i < taken; i++, at += rows * sensors)
            memcpy(at, own_row(e, i, s.first - s.below), rows * sensors * sizeof *at);
        to[r] = taken * rows * sensors * sizeof *at;
    }
}

/* A rank's sensors to where they belong in the array's row; they ascend, and nearly always are
 * neighbours. */
static void place_sensors(const sonar_c32 *from, const uint32_t *sensor, size_t n, sonar_c32 *row) {
    if (n && sensor[n - 1] - sensor[0] == n - 1) {
        memcpy(row + sensor[0], from, n * sizeof *row);
        return;
    }
    for (size_t s = 0; s < n; s++)
        row[sensor[s]] = from[s];
}

/* The bins of this share, of its own sensors and of what the others have sent. */
static void unpack(const sonar_engine *e, size_t taken) {
    const struct parts *p = e->parts;
    const struct share own = sonar_share_of(e, place(e)->rank);
    const sonar_c32 *received = p->unpacked;
    const uint32_t *sensor = e->spec.ranks->sensor;
    for (size_t r = 0; r < place(e)->ranks; sensor += e->spec.ranks->sensors[r++])
        for (size_t row = 0; row < taken * p->mvdr.bins; row++) {
            const size_t n = e->spec.ranks->sensors[r];
            sonar_c32 *to = (sonar_c32 *)p->input.host.data + row * p->mvdr.sensors;
            if (r == place(e)->rank) {
                const size_t bin = own.first - own.below + row % p->mvdr.bins;
                place_sensors(own_row(e, row / p->mvdr.bins, bin), sensor, n, to);
                continue;
            }
            place_sensors(received, sensor, n, to);
            received += n;
        }
}

sonar_code sonar_share_transforms(sonar_engine *e, size_t taken, sonar_error *err) {
    const sonar_engine_ranks *ranks = e->spec.ranks;
    struct parts *p = e->parts;
    size_t to[SONAR_RANKS_MOST], from[SONAR_RANKS_MOST];
    const size_t rows = p->has_mvdr ? p->mvdr.bins : 0;
    pack(e, taken, to);
    for (size_t r = 0; r < place(e)->ranks; r++)
        from[r] = r == place(e)->rank ? 0 : taken * rows * ranks->sensors[r] * sizeof(sonar_c32);
    sonar_code code = ranks->cluster->ops->exchange(p->packed, to, p->unpacked, from, err);
    if (!code && p->has_mvdr)
        unpack(e, taken);
    return code;
}

/* ---- sums over sensors ----------------------------------------------------------------------- */

/* sum[n] of the ranks' n doubles each, in the order of ranks. */
static void add_up(const double *of, size_t ranks, size_t apart, size_t n, double *sum) {
    memcpy(sum, of, n * sizeof *sum);
    for (size_t r = 1; r < ranks; r++)
        for (size_t i = 0; i < n; i++)
            sum[i] += of[r * apart + i];
}

sonar_code sonar_share_products(sonar_engine *e, size_t taken, sonar_error *err) {
    struct parts *p = e->parts;
    const size_t n = taken * e->spec.specs->mvdr.bins * SONAR_MVDR_PRODUCTS;
    sonar_code code = e->spec.ranks->cluster->ops->share(p->products.host.data, n * sizeof(double),
                                                         p->received, err);
    if (!code)
        add_up(p->received, place(e)->ranks, n, n, p->products.host.data);
    return code;
}

size_t sonar_share_doubles(const sonar_engine *e, size_t bin, size_t taken) {
    const sonar_mvdr_spec *mvdr = &e->spec.specs->mvdr;
    const double *plan = (const double *)e->parts->plan.host.data + bin * SONAR_MVDR_PLAN;
    const size_t rows = sonar_min_size(taken, (size_t)sonar_mvdr_slots(mvdr));
    return plan[SONAR_MVDR_PLAN_WHOLE] != 0 ? sonar_mvdr_sums_most(mvdr)
                                            : rows * sonar_mvdr_sums_row(mvdr);
}

/* The bins of every share, one behind the other; [rank] bytes of each. */
static void pack_sums(sonar_engine *e, size_t taken, size_t to[]) {
    struct parts *p = e->parts;
    const size_t most = p->of_bins.host.shape[1];
    double *at = p->sent;
    for (size_t r = 0; r < place(e)->ranks; r++) {
        const struct share s = sonar_share_of(e, r);
        const double *begin = at;
        for (size_t b = s.first; b < s.first + s.bins; b++) {
            const size_t n = sonar_share_doubles(e, b, taken);
            memcpy(at, (const double *)p->of_bins.host.data + b * most, n * sizeof *at);
            at += n;
        }
        to[r] = (size_t)(at - begin) * sizeof *at;
    }
}

/* Of the ranks' sums, the share's added, [bin][most]. */
static void add_sums(sonar_engine *e, struct share own, size_t taken, size_t apart) {
    struct parts *p = e->parts;
    const size_t most = p->added.host.shape[1];
    const double *from = p->received;
    for (size_t b = 0; b < own.bins; b++) {
        const size_t n = sonar_share_doubles(e, own.first + b, taken);
        add_up(from, place(e)->ranks, apart, n, (double *)p->added.host.data + b * most);
        from += n;
    }
    memcpy(p->share_plan.host.data, (const double *)p->plan.host.data + own.first * SONAR_MVDR_PLAN,
           own.bins * SONAR_MVDR_PLAN * sizeof(double));
}

sonar_code sonar_share_sums(sonar_engine *e, size_t taken, sonar_error *err) {
    struct parts *p = e->parts;
    const struct share own = sonar_share_of(e, place(e)->rank);
    size_t to[SONAR_RANKS_MOST], from[SONAR_RANKS_MOST], doubles = 0;
    pack_sums(e, taken, to);
    for (size_t b = 0; b < own.bins; b++)
        doubles += sonar_share_doubles(e, own.first + b, taken);
    for (size_t r = 0; r < place(e)->ranks; r++)
        from[r] = doubles * sizeof(double);
    sonar_code code = e->spec.ranks->cluster->ops->exchange(p->sent, to, p->received, from, err);
    if (!code && own.bins)
        add_sums(e, own, taken, doubles);
    return code;
}

sonar_code sonar_share_point_sums(sonar_engine *e, size_t n, sonar_error *err) {
    struct parts *p = e->parts;
    const size_t of_bin = n * p->of_points.host.shape[2];
    const size_t own = sonar_share_of(e, place(e)->rank).bins * of_bin;
    size_t to[SONAR_RANKS_MOST], from[SONAR_RANKS_MOST];
    for (size_t r = 0; r < place(e)->ranks; r++) {
        to[r] = sonar_share_of(e, r).bins * of_bin * sizeof(double);
        from[r] = own * sizeof(double);
    }
    sonar_code code =
        e->spec.ranks->cluster->ops->exchange(p->of_points.host.data, to, p->received, from, err);
    if (!code && own)
        add_up(p->received, place(e)->ranks, own, own, p->added_points.host.data);
    return code;
}

/* ---- solved shares --------------------------------------------------------------------------- */

/* Rows of the live band, f32 [bin][columns], to the root. */
static sonar_code gather_rows(sonar_engine *e, const struct both *mine, size_t columns, float *all,
                              sonar_error *err) {
    const sonar_cluster *cluster = e->spec.ranks->cluster;
    const struct share own = sonar_share_of(e, cluster->place.rank);
    const size_t first = own.below + own.live_first - own.first;
    const float *rows = own.live_bins ? (const float *)mine->host.data + first * columns : NULL;
    size_t size[SONAR_RANKS_MOST];
    for (size_t r = 0; r < cluster->place.ranks; r++)
        size[r] = sonar_share_of(e, r).live_bins * columns * sizeof(float);
    return cluster->ops->gather(rows, size, all, err);
}

/* (fs/N) sum_b P, in double, bin after bin. */
static void sum_band(const sonar_mvdr_spec *mvdr, size_t bins, const float *rows, float *azimuth) {
    for (size_t t = 0; t < mvdr->directions; t++) {
        double sum = 0;
        for (size_t b = 0; b < bins; b++)
            sum += (double)rows[b * mvdr->directions + t];
        azimuth[t] = (float)fmin(sum * mvdr->fs_hz / (double)mvdr->length, (double)FLT_MAX);
    }
}

static sonar_code share_far_mvdr(sonar_engine *e, const struct job *job, sonar_error *err) {
    const sonar_mvdr_spec *mvdr = &e->spec.ranks->specs->mvdr;
    struct parts *p = e->parts;
    float *spectrum = surface_of(job, SONAR_MVDR_SPECTRUM);
    float *azimuth = surface_of(job, SONAR_MVDR_AZIMUTH);
    spectrum = spectrum ? spectrum : p->whole_spectrum;
    sonar_code code = gather_rows(e, &p->spectrum, mvdr->directions, spectrum, err);
    if (!code && azimuth)
        sum_band(mvdr, p->whole_info.shape[0], spectrum, azimuth);
    return code;
}

/* n values of each rank that has bins of the live band, one behind the other, to the root's
 * parts->all. */
static sonar_code gather_live(sonar_engine *e, const void *mine, size_t n, size_t *shares,
                              sonar_error *err) {
    const sonar_cluster *cluster = e->spec.ranks->cluster;
    size_t size[SONAR_RANKS_MOST];
    *shares = 0;
    for (size_t r = 0; r < cluster->place.ranks; r++) {
        const bool has = sonar_share_of(e, r).live_bins > 0;
        size[r] = has ? n * sizeof(float) : 0;
        *shares += has;
    }
    return cluster->ops->gather(mine, size, e->parts->all, err);
}

/* These, added, to `sum` of the root. */
static sonar_code gather_shares(sonar_engine *e, const void *mine, size_t n, float *sum,
                                sonar_error *err) {
    size_t shares;
    sonar_code code = gather_live(e, mine, n, &shares, err);
    const float *of = e->parts->all;
    for (size_t i = 0; i < n && !code && sum; i++) {
        double all = 0;
        for (size_t r = 0; r < shares; r++)
            all += (double)of[r * n + i];
        sum[i] = (float)fmin(all, (double)FLT_MAX);
    }
    return code;
}

/* Bins in which MUSIC has sources, of each rank that has bins of the live band. */
static void count_subspaces(const sonar_engine *e, double *bins) {
    const float *info = (const float *)e->parts->whole_info.data + SONAR_MVDR_SUBSPACE;
    for (size_t r = 0; r < place(e)->ranks; r++) {
        const size_t rows = sonar_share_of(e, r).live_bins;
        if (!rows)
            continue;
        *bins = 0;
        for (size_t b = 0; b < rows; b++, info += SONAR_MVDR_INFO_FIELDS)
            *bins += *info > 0;
        bins++;
    }
}

/* The mean share of all bins, of which each rank has that of its own. */
static sonar_code share_music(sonar_engine *e, float *music, sonar_error *err) {
    const size_t n = e->spec.ranks->specs->mvdr.directions;
    double bins[SONAR_RANKS_MOST];
    size_t shares;
    sonar_code code = gather_live(e, e->parts->music.host.data, n, &shares, err);
    if (code || !music)
        return code;
    count_subspaces(e, bins);
    for (size_t t = 0; t < n; t++) {
        double all = 0, sum = 0;
        for (size_t r = 0; r < shares; r++) {
            all += bins[r];
            sum += bins[r] / (double)((const float *)e->parts->all)[r * n + t];
        }
        music[t] = (float)(all > 0 ? all / sum : 1);
    }
    return SONAR_OK;
}

sonar_code sonar_share_mvdr(sonar_engine *e, const struct job *job, sonar_error *err) {
    const sonar_mvdr_spec *mvdr = &e->spec.ranks->specs->mvdr;
    const uint32_t far = SONAR_WANT(SONAR_MVDR_AZIMUTH) | SONAR_WANT(SONAR_MVDR_SPECTRUM);
    struct parts *p = e->parts;
    p->whole_info.shape[0] = sonar_engine_live_mvdr(e, e->spec.ranks->params)->bins;
    sonar_code code = gather_rows(e, &p->info, SONAR_MVDR_INFO_FIELDS, p->whole_info.data, err);
    if (!code && job->work.outputs & far)
        code = share_far_mvdr(e, job, err);
    if (!code && job->work.outputs & SONAR_WANT(SONAR_MVDR_EIGENVALUES))
        code = gather_rows(e, &p->eigenvalues, sonar_mvdr_modes(mvdr),
                           surface_of(job, SONAR_MVDR_EIGENVALUES), err);
    if (!code && job->work.outputs & SONAR_WANT(SONAR_MVDR_NEARFIELD))
        code = gather_shares(e, p->close.host.data, mvdr->ranges * mvdr->directions,
                             surface_of(job, SONAR_MVDR_NEARFIELD), err);
    if (!code && job->work.outputs & SONAR_WANT(SONAR_MUSIC_AZIMUTH))
        code = share_music(e, surface_of(job, SONAR_MUSIC_AZIMUTH), err);
    return code;
}

/* ---- elements and points --------------------------------------------------------------------- */

sonar_code sonar_share_psd(sonar_engine *e, const struct job *job, sonar_error *err) {
    const sonar_specs *specs = e->spec.specs;
    const sonar_cluster *cluster = e->spec.ranks->cluster;
    const size_t bins = sonar_engine_live_cbf(e, job->work.params)->bins;
    sonar_buffer psd =
        sonar_buffer_view(e->parts->psd, SONAR_F32, 2, (size_t[]){specs->dft.channels, bins});
    size_t size[SONAR_RANKS_MOST];
    if (e->parts->absent)
        memset(e->parts->psd, 0, psd.bytes);
    else
        sonar_element_psd(e, job->work.params, &psd);
    for (size_t r = 0; r < cluster->place.ranks; r++)
        size[r] = e->spec.ranks->channels[r] * bins * sizeof(float);
    return cluster->ops->gather(psd.data, size, surface_of(job, SONAR_ELEMENT_PSD), err);
}

sonar_code sonar_share_points(sonar_engine *e, sonar_engine_stage which, size_t n, float *power,
                              sonar_error *err) {
    const sonar_cbf_spec *cbf = &e->spec.specs->cbf;
    struct parts *p = e->parts;
    const struct parts_in in = {.all = p->all,
                                .ranks = place(e)->ranks,
                                .snapshots = cbf->max_snapshots,
                                .bins = sonar_engine_live_cbf(e, e->last.params)->cbf_bins,
                                .points = n};
    if (which == SONAR_ENGINE_MVDR)
        return gather_shares(e, p->point_power.host.data, n, power, err);
    sonar_code code = gather_equal(e, p->point_parts.host.data,
                                   in.snapshots * in.bins * n * sizeof(sonar_c32), err);
    if (!code && power)
        make_powers(e, (struct powers){.in = in, .bins = in.bins, .sum = power});
    return code;
}
