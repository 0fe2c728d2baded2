/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Additional steps of run.c if ranks share the array. Each rank transforms its own sensors,
 * computes its part of the conventional beams and solves the adaptive spectrum in its share of the
 * bins. It solves from all ranks' sums over sensors or, if these cannot be added, from the
 * transforms of all sensors. The root adds and gathers the parts. All ranks take part in the same
 * exchanges, even a rank without samples of the window. */
#include <string.h>

#include "engine/internal.h"

/* ---- between the host and a stage ------------------------------------------------------------ */

/* A view of the beginning of the same memory with another shape. */
static sonar_buffer shaped(const sonar_buffer *all, int rank, const size_t *shape) {
    sonar_buffer view = sonar_buffer_view(all->data, all->dtype, rank, shape);
    view.space = all->space;
    return view;
}

static struct both shaped_both(const struct both *all, int rank, const size_t *shape) {
    return (struct both){shaped(&all->host, rank, shape), shaped(&all->native, rank, shape)};
}

static sonar_code to_stage(const struct stage *stage, struct both *both, sonar_error *err) {
    if (both->host.data == both->native.data)
        return SONAR_OK;
    return stage->side->backend->copy(stage->side->queue, &both->host, &both->native, err);
}

static sonar_code from_stage(const struct stage *stage, struct both *both, sonar_error *err) {
    if (both->host.data == both->native.data)
        return SONAR_OK;
    return stage->side->backend->copy(stage->side->queue, &both->native, &both->host, err);
}

static sonar_code finish(const struct stage *stage, sonar_error *err) {
    sonar_code code = stage->side->backend->record(stage->side->queue, stage->side->done, err);
    return code ? code : stage->side->backend->finish(stage->side->done, err);
}

/* Copies from the stage and waits for it. */
static sonar_code to_host(const struct stage *stage, struct both *both, sonar_error *err) {
    sonar_code code = from_stage(stage, both, err);
    return code ? code : finish(stage, err);
}

static void clear(struct both *both) {
    memset(both->host.data, 0,
           sonar_buffer_count(&both->host) * sonar_dtype_size(both->host.dtype));
}

/* ---- conventional beams ---------------------------------------------------------------------- */

enum { FAR_SURFACES = SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_LOFAR) };

/* The buffer for the rank's part of the beams, with as many bins as are wanted. */
static struct both shape_beams(const sonar_engine *e, const struct job *job, int output) {
    const sonar_cbf_spec *cbf = &e->spec.specs->cbf;
    const size_t band = sonar_engine_live_cbf(e, job->work.params)->cbf_bins;
    const bool lofar = job->work.outputs & SONAR_WANT(SONAR_CBF_LOFAR);
    const bool far = output == SONAR_CBF_LOFAR;
    return shaped_both(far ? &e->parts.far : &e->parts.near, 3,
                       (size_t[]){cbf->max_snapshots, far && lofar ? cbf->bins : band,
                                  (far ? 1 : cbf->ranges) * cbf->directions});
}

/* Where the CBF writes this rank's part of the beams. */
static sonar_buffer *beams(sonar_engine *e, const struct job *job,
                           sonar_buffer out[SONAR_CBF_OUTPUTS]) {
    memset(out, 0, SONAR_CBF_OUTPUTS * sizeof *out);
    out[SONAR_CBF_LOFAR] = shape_beams(e, job, SONAR_CBF_LOFAR).native;
    out[SONAR_CBF_NEARFIELD] = shape_beams(e, job, SONAR_CBF_NEARFIELD).native;
    return out;
}

/* Copies them to host memory for the exchange; zeros where this rank is absent. */
static sonar_code fetch_beams(sonar_engine *e, const struct job *job, const struct side *side,
                              sonar_error *err) {
    const uint32_t wanted[] = {FAR_SURFACES, SONAR_WANT(SONAR_CBF_NEARFIELD)};
    const int output[] = {SONAR_CBF_LOFAR, SONAR_CBF_NEARFIELD};
    sonar_code code = SONAR_OK;
    for (int i = 0; i < 2 && e->cbf.side == side && !code; i++) {
        struct both beams = shape_beams(e, job, output[i]);
        if (!(job->work.outputs & wanted[i]))
            continue;
        if (job->absent)
            clear(&beams);
        else
            code = from_stage(&e->cbf, &beams, err);
    }
    return code;
}

/* ---- adaptive spectrum ----------------------------------------------------------------------- */

enum {
    MVDR_FAR = SONAR_WANT(SONAR_MVDR_AZIMUTH) | SONAR_WANT(SONAR_MVDR_SPECTRUM),
    MVDR_NEAR = SONAR_WANT(SONAR_MVDR_NEARFIELD),
    MVDR_MODES = SONAR_WANT(SONAR_MVDR_EIGENVALUES),
    MVDR_MUSIC = SONAR_WANT(SONAR_MUSIC_AZIMUTH),
    MVDR_ANY = MVDR_FAR | MVDR_NEAR | MVDR_MODES | MVDR_MUSIC
};

/* The stage's input if ranks exchange transforms: those of all sensors. */
static sonar_code bring_transforms(sonar_engine *e, const struct job *job, sonar_buffer in[2],
                                   sonar_error *err) {
    struct both input =
        shaped_both(&e->parts.input, 3, (size_t[]){job->taken, e->solves.bins, e->solves.sensors});
    in[0] = input.native;
    return job->taken ? to_stage(&e->mvdr, &input, err) : SONAR_OK;
}

/* Copies the valid doubles of rows [bin][most]: those of new snapshots in one copy, the others bin
 * by bin. */
static sonar_code copy_sums(const sonar_engine *e, const struct stage *stage, size_t first,
                            size_t bins, size_t taken, const sonar_buffer *from, sonar_buffer *to,
                            sonar_error *err) {
    const struct side *side = stage->side;
    const double *plan = e->parts.plan.host.data;
    const size_t most = from->shape[1];
    size_t least = most;
    sonar_code code = SONAR_OK;
    if (from->data == to->data)
        return SONAR_OK;
    for (size_t b = 0; b < bins; b++)
        least = sonar_min_size(least, sonar_exchange_doubles(e->exchange, plan, first + b, taken));
    sonar_buffer out = *from, in = *to;
    out.shape[1] = in.shape[1] = least;
    out.bytes = in.bytes = bins * least * sizeof(double);
    if (least)
        code = side->backend->copy(side->queue, &out, &in, err);
    for (size_t b = 0; b < bins && !code; b++) {
        const size_t doubles = sonar_exchange_doubles(e->exchange, plan, first + b, taken);
        sonar_buffer row = shaped(from, 1, &doubles), copy = shaped(to, 1, &doubles);
        row.data = (double *)from->data + b * most;
        copy.data = (double *)to->data + b * most;
        if (doubles > least)
            code = side->backend->copy(side->queue, &row, &copy, err);
    }
    return code;
}

/* The rows of the new snapshots; after a change of the parameters also the rows of the block, since
 * sensors of any rank may have been masked. */
static size_t product_rows(const sonar_engine *e, const struct job *job) {
    const sonar_mvdr_spec *mvdr = &e->spec.specs->mvdr;
    const bool changed = e->parts.version != job->work.params->version;
    return job->taken + (changed && mvdr->tones ? mvdr->snapshots : 0);
}

/* Computes the sums of this rank's sensors and copies them to the host for the exchange. */
static sonar_code make_sums(sonar_engine *e, const struct job *job, sonar_error *err) {
    struct parts *p = &e->parts;
    const struct stage *s = &e->sums;
    const size_t bins = e->spec.specs->mvdr.bins, rows = product_rows(e, job);
    struct both products =
        shaped_both(&p->products, 3, (size_t[]){rows, bins, SONAR_MVDR_PRODUCTS});
    const sonar_buffer in = sonar_engine_rows(&s->side->spectra.mvdr, 0, job->taken);
    sonar_buffer out[2] = {p->plan.native, p->of_bins.native};
    sonar_code code =
        s->ops->execute(s->self, s->side->queue, &in, &products.native, &job->work, err);
    if (!code && rows)
        code = to_host(s, &products, err);
    if (!code && rows)
        code = sonar_exchange_products(e->exchange, rows, products.host.data, err);
    if (!code && rows)
        code = to_stage(s, &products, err);
    if (!code)
        code = s->ops->join(s->self, s->side->queue, &products.native, out, &job->work, err);
    if (!code)
        code = to_host(s, &p->plan, err);
    if (!code)
        code = copy_sums(e, s, 0, bins, job->taken, &p->of_bins.native, &p->of_bins.host, err);
    return code ? code : finish(s, err);
}

/* False if no rank has a new snapshot and the parameters are unchanged. */
static bool sums_change(const sonar_engine *e, const struct job *job) {
    return job->taken || e->parts.version != job->work.params->version;
}

static sonar_code share_sums(sonar_engine *e, const struct job *job, sonar_error *err) {
    if (!sums_change(e, job))
        return SONAR_OK;
    struct parts *p = &e->parts;
    const sonar_share own = sonar_exchange_own(e->exchange);
    const double *plan = p->plan.host.data;
    sonar_code code = make_sums(e, job, err);
    if (!code)
        code = sonar_exchange_sums(e->exchange, job->taken, plan, p->of_bins.host.data,
                                   p->added.host.data, err);
    if (!code && own.bins)
        memcpy(p->share_plan.host.data, plan + own.first * SONAR_MVDR_PLAN,
               own.bins * SONAR_MVDR_PLAN * sizeof *plan);
    return code;
}

/* The stage's input if sums are added: the added sums. */
static sonar_code bring_sums(sonar_engine *e, const struct job *job, sonar_buffer in[2],
                             sonar_error *err) {
    struct parts *p = &e->parts;
    const sonar_share share = sonar_exchange_own(e->exchange);
    in[0] = p->added.native;
    in[1] = p->share_plan.native;
    if (!sums_change(e, job)) {
        in[0].shape[0] = 0;
        return SONAR_OK;
    }
    sonar_code code = to_stage(&e->mvdr, &p->share_plan, err);
    return code ? code
                : copy_sums(e, &e->mvdr, share.first, share.bins, job->taken, &p->added.host,
                            &p->added.native, err);
}

/* Copies the solution to host memory for the exchange. */
static sonar_code fetch_solved(sonar_engine *e, uint32_t outputs, sonar_error *err) {
    struct parts *p = &e->parts;
    sonar_code code = outputs & MVDR_NEAR ? from_stage(&e->mvdr, &p->close, err) : SONAR_OK;
    if (!code && outputs & MVDR_MODES)
        code = from_stage(&e->mvdr, &p->eigenvalues, err);
    if (!code && outputs & MVDR_MUSIC)
        code = from_stage(&e->mvdr, &p->music, err);
    if (!code && outputs & MVDR_FAR)
        code = from_stage(&e->mvdr, &p->spectrum, err);
    return code ? code : to_host(&e->mvdr, &p->info, err);
}

/* True if none of the rank's bins is in the live band. It still takes snapshots, for a later band.
 */
static bool is_idle(const sonar_engine *e) {
    return !sonar_exchange_own(e->exchange).live_bins;
}

/* Solves this rank's share. The root sums the broadband spectrum over all ranks' bins. */
static sonar_code solve(sonar_engine *e, const struct job *job, sonar_error *err) {
    struct parts *p = &e->parts;
    sonar_buffer in[2];
    sonar_buffer out[SONAR_MVDR_OUTPUTS] = {[SONAR_MVDR_OUT_SPECTRUM] = p->spectrum.native,
                                            [SONAR_MVDR_OUT_NEARFIELD] = p->close.native,
                                            [SONAR_MVDR_OUT_EIGENVALUES] = p->eigenvalues.native,
                                            [SONAR_MVDR_OUT_MUSIC] = p->music.native,
                                            [SONAR_MVDR_OUT_INFO] = p->info.native};
    sonar_work work = job->work;
    work.params = e->spec.ranks->params;
    work.snapshots = job->taken;
    if (is_idle(e))
        work.outputs = 0;
    if (work.outputs & MVDR_FAR)
        work.outputs |= SONAR_WANT(SONAR_MVDR_SPECTRUM);
    sonar_code code = (e->sums.ops ? bring_sums : bring_transforms)(e, job, in, err);
    if (!code)
        code = e->mvdr.ops->execute(e->mvdr.self, e->mvdr.side->queue, in, out, &work, err);
    return code ? code : fetch_solved(e, work.outputs, err);
}

/* Gathers the shares' spectra and info on the root. */
static sonar_code gather_solved(sonar_engine *e, const struct job *job, sonar_error *err) {
    const struct parts *p = &e->parts;
    const sonar_solved mine = {.spectrum = p->spectrum.host.data,
                               .info = p->info.host.data,
                               .eigenvalues = p->eigenvalues.host.data,
                               .nearfield = p->close.host.data,
                               .music = p->music.host.data};
    return sonar_exchange_solved(e->exchange, job->work.outputs, &mine, job->surface, &e->info,
                                 err);
}

/* The adaptive spectrum, between the exchanges that it needs. */
static sonar_code run_mvdr(sonar_engine *e, const struct job *job, sonar_error *err) {
    if (!e->spec.specs->mvdr_enabled)
        return SONAR_OK;
    sonar_code code = sonar_timing_begin(e, SONAR_ENGINE_MVDR, err);
    if (!code && e->sums.ops)
        code = share_sums(e, job, err);
    else if (!code && job->taken)
        code = sonar_exchange_transforms(e->exchange, job->taken, &e->side[HOST_SIDE].spectra.mvdr,
                                         e->parts.input.host.data, err);
    if (!code && e->mvdr.ops)
        code = solve(e, job, err);
    e->parts.version = job->work.params->version;
    if (!code && job->work.outputs & MVDR_ANY)
        code = gather_solved(e, job, err);
    return code ? code : sonar_timing_end(e, SONAR_ENGINE_MVDR, err);
}

/* ---- a window -------------------------------------------------------------------------------- */

/* Its turn is after the exchange of beams, in finish. */
static sonar_code no_mvdr_yet(sonar_engine *e, const struct job *job, sonar_error *err) {
    (void)e, (void)job, (void)err;
    return SONAR_OK;
}

static sonar_code keep_common(sonar_engine *e, size_t snapshots, sonar_error *err) {
    return sonar_exchange_keep(e->exchange, snapshots, e->keep, err);
}

/* Gathers all ranks' power of every channel on the root; an absent rank sends zeros. */
static sonar_code share_psd(sonar_engine *e, const struct job *job, sonar_error *err) {
    const size_t shape[] = {e->spec.specs->dft.channels,
                            sonar_engine_live_cbf(e, job->work.params)->bins};
    sonar_buffer psd = sonar_buffer_view(e->parts.psd, SONAR_F32, 2, shape);
    if (job->absent)
        memset(psd.data, 0, psd.bytes);
    else
        sonar_engine_make_psd(e, job->work.params, &psd);
    return sonar_exchange_psd(e->exchange, &psd, job->surface, err);
}

/* Once this rank's part is made: all exchanges, and the adaptive spectrum between them. */
static sonar_code join(sonar_engine *e, const struct job *job, sonar_error *err) {
    e->parts.absent = job->absent;
    sonar_code code = sonar_exchange_beams(e->exchange, &job->work, e->parts.far.host.data,
                                           e->parts.near.host.data, job->surface, err);
    if (!code)
        code = run_mvdr(e, job, err);
    if (!code && sonar_job_wants(job, SONAR_ELEMENT_PSD))
        code = share_psd(e, job, err);
    return code;
}

/* ---- off the grid ---------------------------------------------------------------------------- */

/* Steers at the looks [first, first + n) and evaluates them. */
static sonar_code evaluate(const struct stage *stage, const struct aim *aim, const sonar_work *work,
                           size_t first, size_t n, struct both *out, sonar_error *err) {
    sonar_buffer turns;
    sonar_code code = sonar_look_steer(aim, first, n, work, &turns, err);
    if (!code)
        code =
            stage->ops->evaluate(stage->self, stage->side->queue, &turns, &out->native, work, err);
    return code ? code : to_host(stage, out, err);
}

/* Adds all ranks' sums at the points, and computes from them the power over the rank's share. */
static sonar_code evaluate_sums(sonar_engine *e, size_t first, size_t n, sonar_error *err) {
    struct parts *p = &e->parts;
    const sonar_mvdr_spec *mvdr = &e->spec.specs->mvdr;
    const size_t each = sonar_exchange_point_doubles(mvdr);
    struct both sums = shaped_both(&p->of_points, 3, (size_t[]){mvdr->bins, n, each});
    struct both added = shaped_both(&p->added_points, 3, (size_t[]){e->solves.bins, n, each});
    struct both power = shaped_both(&p->point_power, 1, &n);
    sonar_work work = e->job.work;
    sonar_code code = evaluate(&e->sums, &e->sums.side->aim, &work, first, n, &sums, err);
    if (!code)
        code = sonar_exchange_point_sums(e->exchange, n, sums.host.data, added.host.data, err);
    if (code || !e->mvdr.ops || is_idle(e))
        return code;
    work.params = e->spec.ranks->params;
    code = to_stage(&e->mvdr, &added, err);
    if (!code)
        code = e->mvdr.ops->evaluate(e->mvdr.self, e->mvdr.side->queue, &added.native,
                                     &power.native, &work, err);
    return code ? code : to_host(&e->mvdr, &power, err);
}

static sonar_code evaluate_cbf(sonar_engine *e, size_t first, size_t n, float *power,
                               sonar_error *err) {
    const size_t snapshots = e->spec.specs->cbf.max_snapshots;
    const size_t band = sonar_engine_live_cbf(e, e->job.work.params)->cbf_bins;
    struct both out = shaped_both(&e->parts.point_parts, 3, (size_t[]){snapshots, band, n});
    sonar_code code = SONAR_OK;
    if (e->parts.absent)
        clear(&out);
    else
        code = evaluate(&e->cbf, &e->cbf.side->aim, &e->job.work, first, n, &out, err);
    return code ? code
                : sonar_exchange_point_beams(e->exchange, e->job.work.params, n, out.host.data,
                                             power, err);
}

static sonar_code evaluate_mvdr(sonar_engine *e, size_t first, size_t n, float *power,
                                sonar_error *err) {
    struct both out = shaped_both(&e->parts.point_power, 1, &n);
    sonar_work work = e->job.work;
    sonar_code code = SONAR_OK;
    work.params = e->spec.ranks->params;
    if (e->sums.ops)
        code = evaluate_sums(e, first, n, err);
    else if (e->mvdr.ops && !is_idle(e))
        code = evaluate(&e->mvdr, &e->parts.whole, &work, first, n, &out, err);
    return code ? code : sonar_exchange_point_powers(e->exchange, n, out.host.data, power, err);
}

static sonar_code evaluate_parts(sonar_engine *e, sonar_engine_stage which, size_t n, float *power,
                                 sonar_error *err) {
    const bool mvdr = which == SONAR_ENGINE_MVDR;
    struct aim *aim = !mvdr         ? &e->cbf.side->aim
                      : e->sums.ops ? &e->sums.side->aim
                                    : &e->parts.whole;
    sonar_code code = aim->steer.ops ? sonar_look_send(e, aim, n, err) : SONAR_OK;
    for (size_t done = 0; done < n && !code; done += SLAB)
        code = (mvdr ? evaluate_mvdr : evaluate_cbf)(e, done, sonar_min_size(n - done, SLAB),
                                                     power ? power + done : NULL, err);
    return code;
}

const struct crossing sonar_crossing_of_ranks = {.host_transforms = true,
                                                 .make = sonar_parts_make,
                                                 .keep = keep_common,
                                                 .beams = beams,
                                                 .mvdr = no_mvdr_yet,
                                                 .fetch = fetch_beams,
                                                 .finish = join,
                                                 .evaluate = evaluate_parts};
