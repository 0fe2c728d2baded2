/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Versions of everything that may change during the run, passed from the control thread to the data
 * thread and back (struct live in internal.h). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/internal.h"

/* ---- what depends on a configuration --------------------------------------------------------- */

static sonar_detect_spec detect_spec(const sonar_config *c, const sonar_scan *scan,
                                     const sonar_split *split) {
    return (sonar_detect_spec){.scan = scan,
                               .split = split,
                               .threshold_db = c->detect_threshold_db,
                               .min_separation_deg = c->detect_min_separation_deg,
                               .most = c->detect_most,
                               .aperture_m = c->geometry.aperture_m};
}

static sonar_code plan_detections(const sonar_config *c, struct plan *plan, sonar_error *err) {
    sonar_split **split = plan->split;
    sonar_code code = sonar_split_create(&c->cbf_scan, &split[SONAR_FROM_CBF], err);
    if (!code)
        code = sonar_split_create(&c->mvdr_scan, &split[SONAR_FROM_MVDR], err);
    plan->cbf_detect = detect_spec(c, &c->cbf_scan, split[SONAR_FROM_CBF]);
    plan->mvdr_detect = detect_spec(c, &c->mvdr_scan, split[SONAR_FROM_MVDR]);
    return code;
}

static void release_plan(struct plan *plan) {
    if (!plan || --plan->references > 0)
        return;
    sonar_output_form_destroy(plan->form);
    for (int i = 0; i < 2; i++) {
        sonar_normalise_destroy(plan->normalise[i]);
        sonar_split_destroy(plan->split[i]);
    }
    sonar_sped_destroy(plan->sped);
    sonar_tones_destroy(plan->tones);
    sonar_faint_release(plan);
    sonar_config_part_destroy(plan->part);
    sonar_config_destroy(plan->owned);
    free(plan);
}

/* Sets the configuration that this process works with: with ranks its part. The first one is the
 * pipeline's. */
static sonar_code take_part(const sonar_pipeline *p, struct plan *plan, sonar_error *err) {
    plan->config = plan->whole == p->whole ? p->config : plan->whole;
    if (p->place.ranks == 1 || plan->whole == p->whole)
        return SONAR_OK;
    const sonar_code code = sonar_config_part_create(plan->whole, &p->place, &plan->part, err);
    plan->config = code ? NULL : &plan->part->config;
    return code;
}

/* Refers to the caller's configuration of the whole array without owning it yet. */
static sonar_code make_plan(const sonar_pipeline *p, const sonar_config *c, struct plan **made,
                            sonar_error *err) {
    struct plan *plan = *made = sonar_alloc(1, sizeof *plan);
    if (!plan)
        return sonar_fail(err, SONAR_ENOMEM, "live", "no memory");
    const sonar_output_spec spec = sonar_pipeline_output_spec(p, c);
    *plan = (struct plan){
        .references = 1,
        .whole = c,
        .form = sonar_output_form_create(&spec),
    };
    sonar_accuracy_plan(c, plan);
    sonar_code code = plan->form
                          ? sonar_normalised_plan(c, plan, err)
                          : sonar_fail(err, SONAR_ENOMEM, "live", "no memory for what headers say");
    if (!code)
        code = plan_detections(c, plan, err);
    if (!code)
        code = sonar_peaks_plan(c, plan, err);
    if (!code)
        code = sonar_tones_plan(c, plan, err);
    if (!code)
        code = sonar_faint_plan(c, plan, err);
    if (!code)
        code = take_part(p, plan, err);
    if (code) {
        release_plan(plan);
        *made = NULL;
    }
    return code;
}

/* ---- versions -------------------------------------------------------------------------------- */

static void destroy(struct live *live) {
    if (!live)
        return;
    sonar_pattern_destroy(live->pattern);
    sonar_params_destroy(live->params);
    sonar_params_destroy(live->whole);
    release_plan(live->plan);
    free(live);
}

/* Sensors of the whole array that array.auto_mask removes. */
static const uint8_t *taken_out(const sonar_pipeline *p, const sonar_config *c) {
    if (!c->auto_mask)
        return NULL;
    if (!sonar_is_root(p))
        return sonar_propose_mask(p);
    return p->judged ? sonar_elements_mask(p->judged) : NULL;
}

/* Parameters of `spec` without the sensors `out`. like: the parameters of the previous version, or
 * NULL. */
static sonar_code make_params(const sonar_params_spec *spec, const sonar_params *like,
                              bool same_delays, const uint8_t *out, uint64_t version,
                              sonar_params **params, sonar_error *err) {
    sonar_params *all = NULL;
    *params = NULL;
    const sonar_code code = like ? sonar_params_renew(like, spec, same_delays, version, &all, err)
                                 : sonar_params_create(spec, version, &all, err);
    if (code || !out) {
        *params = all;
        return code;
    }
    const sonar_code masked = sonar_params_mask(all, out, version, params, err);
    sonar_params_destroy(all);
    return masked;
}

/* Parameters of the whole array, used by the ranks to solve the MVDR. */
static sonar_code make_whole(struct live *live, const struct live *before, bool same_delays,
                             const uint8_t *out, uint64_t version, sonar_error *err) {
    sonar_params_spec spec = sonar_config_params(live->plan->whole);
    spec.cbf_scan = NULL;
    return make_params(&spec, before ? before->whole : NULL, same_delays, out, version,
                       &live->whole, err);
}

/* Parameters of this rank's sensors. Its beams are parts of the array's, and so are the sums of the
 * adaptive spectrum. If these sums cannot be added, the adaptive spectrum uses the parameters of
 * the whole array. */
static sonar_code make_part(const sonar_pipeline *p, struct live *live, const struct live *before,
                            bool same_delays, const uint8_t *out, uint64_t version,
                            sonar_error *err) {
    const sonar_config *c = live->plan->config;
    const uint32_t *sensor = (live->plan->part ? live->plan->part : p->ranks.part)->sensor;
    sonar_params_spec spec = sonar_config_params(c);
    uint8_t *own = out ? sonar_alloc(c->sensors, 1) : NULL;
    if (out && !own)
        return sonar_fail(err, SONAR_ENOMEM, "live", "no memory for %zu sensors", c->sensors);
    for (size_t s = 0; s < c->sensors && own; s++)
        own[s] = out[sensor[s]];
    spec.shading_sum = live->whole->shading_sum;
    if (!sonar_mvdr_adds(&p->whole->specs.mvdr))
        spec.mvdr_scan = NULL;
    spec.forward_backward = false;
    const sonar_code code = make_params(&spec, before ? before->params : NULL, same_delays, own,
                                        version, &live->params, err);
    free(own);
    return code;
}

/* Makes the parameters of the version's plan, with the current mask. */
static sonar_code fill(const sonar_pipeline *p, struct live *live, const struct live *before,
                       sonar_error *err) {
    const struct plan *plan = live->plan;
    const uint8_t *out = taken_out(p, plan->whole);
    const uint64_t version = before ? before->params->version + 1 : 1;
    const bool same_delays = before && (before->plan == plan ||
                                        sonar_config_same_delays(before->plan->whole, plan->whole));
    if (p->place.ranks > 1) {
        const sonar_code code = make_whole(live, before, same_delays, out, version, err);
        return code ? code : make_part(p, live, before, same_delays, out, version, err);
    }
    const sonar_params_spec spec = sonar_config_params(plan->config);
    return make_params(&spec, before ? before->params : NULL, same_delays, out, version,
                       &live->params, err);
}

/* For the whole array with the version's mask: the CBF's side-lobe pattern, and the spread for
 * MVDR's rule of tones. */
static sonar_code make_pattern(const sonar_pipeline *p, struct live *live, sonar_error *err) {
    const sonar_config *c = live->plan->whole;
    const sonar_params *params = sonar_live_whole(live);
    const sonar_pattern_spec spec = {.sensors = params->sensors,
                                     .position_m = params->position_m,
                                     .weight = params->shading,
                                     .scan = &c->cbf_scan,
                                     .reference = c->range_reference,
                                     .c_mps = params->sound_speed_mps,
                                     .low_hz = c->cbf_band.low_hz,
                                     .high_hz = c->cbf_band.high_hz,
                                     .host = &p->host};
    sonar_detect_spread(spec.sensors, spec.position_m, spec.weight, live->spread_m2);
    const sonar_code code = sonar_pattern_create(&spec, &live->pattern, err);
    return code ? code : sonar_accuracy_version(params, live, err);
}

/* Makes a version of the plan and takes over the caller's reference to it. */
static sonar_code make_version(sonar_pipeline *p, struct plan *plan, struct live **made,
                               sonar_error *err) {
    struct live *live = sonar_alloc(1, sizeof *live), *before = p->versions.latest;
    *made = NULL;
    if (!live) {
        release_plan(plan);
        return sonar_fail(err, SONAR_ENOMEM, "live", "no memory");
    }
    live->plan = plan;
    live->reconfigured = before && before->plan != plan;
    sonar_code code = fill(p, live, before, err);
    if (!code && plan->whole->detect_enabled)
        code = make_pattern(p, live, err);
    if (code) {
        destroy(live);
        return code;
    }
    live->older = before;
    p->versions.latest = *made = live;
    return SONAR_OK;
}

sonar_code sonar_live_create(sonar_pipeline *p, sonar_error *err) {
    struct plan *plan;
    sonar_code code = make_plan(p, p->whole, &plan, err);
    if (!code)
        code = make_version(p, plan, &p->live, err);
    if (!code)
        atomic_store(&p->live->adopted, true);
    return code;
}

void sonar_live_destroy(sonar_pipeline *p) {
    for (struct live *live = p->versions.latest, *older; live; live = older) {
        older = live->older;
        destroy(live);
    }
}

/* ---- control thread -------------------------------------------------------------------------- */

static void use_channels(sonar_pipeline *p, const sonar_config *c) {
    uint8_t *used = sonar_alloc(c->channels, 1);
    for (size_t s = 0; used && s < c->sensors; s++)
        used[c->channel[s]] = c->used[s];
    if (used)
        sonar_ingest_use(p->ingest, used);
    free(used);
}

void sonar_live_tell_others(sonar_pipeline *p, const struct live *live) {
    const struct plan *plan = live->plan;
    sonar_elements_change(p->elements, plan->config->used, live->params->scale);
    if (p->judged && p->judged != p->elements)
        sonar_elements_change(p->judged, plan->whole->used, live->whole->scale);
    if (!live->reconfigured) /* only the mask changed */
        return;
    atomic_store_explicit(&p->log_level, (int)plan->config->log_level, memory_order_relaxed);
    sonar_record_describe(p, plan);
    use_channels(p, plan->config);
}

sonar_code sonar_live_make(sonar_pipeline *p, sonar_config *config, struct live **made,
                           sonar_error *err) {
    struct plan *plan = p->versions.latest->plan;
    sonar_code code = config ? make_plan(p, config, &plan, err) : SONAR_OK;
    if (code)
        return code;
    plan->references += !config;
    code = make_version(p, plan, made, err);
    if (!code && config)
        plan->owned = config;
    return code;
}

/* A version that the data thread has not adopted is replaced by the newer one and never adopted. */
void sonar_live_hold(sonar_pipeline *p, struct live *live) {
    struct live *skipped = atomic_exchange(&p->versions.fresh, NULL);
    if (skipped) {
        live->reconfigured = live->reconfigured || skipped->reconfigured;
        atomic_store(&skipped->retired, true);
    }
    atomic_store(&p->versions.fresh, live);
}

void sonar_live_drop(sonar_pipeline *p, struct live *live) {
    atomic_store(&live->retired, true);
    sonar_live_tick(p);
}

static void log_adoption(const sonar_pipeline *p, struct live *live) {
    if (live->logged || !live->reconfigured || !atomic_load(&live->adopted))
        return;
    live->logged = true;
    sonar_log(&p->host, SONAR_INFO, "configuration", "%s holds from sample %llu on",
              live->params->config_version, (unsigned long long)live->first_sample);
}

/* True if no thread and no result refers to the version. */
static bool is_over(const struct live *live) {
    return atomic_load(&live->retired) && !atomic_load(&live->lent);
}

void sonar_live_tick(sonar_pipeline *p) {
    struct live **at = &p->versions.latest;
    while (*at) {
        struct live *live = *at;
        log_adoption(p, live);
        if (is_over(live)) {
            *at = live->older;
            destroy(live);
        } else {
            at = &live->older;
        }
    }
}

const sonar_config *sonar_pipeline_config(const sonar_pipeline *p) {
    return p->versions.latest->plan->whole;
}

const sonar_config *sonar_pipeline_made_for(const sonar_pipeline *p) {
    return p->whole;
}

/* ---- data thread ----------------------------------------------------------------------------- */

static bool returns(const sonar_params *before, const sonar_params *now) {
    for (size_t s = 0; s < now->sensors; s++)
        if (now->used[s] && !before->used[s])
            return true;
    return false;
}

/* True if the corrections of snapshots differ. */
static bool corrects_differently(const sonar_params *before, const sonar_params *now) {
    const size_t n = now->sensors;
    return memcmp(before->scale, now->scale, n * sizeof *now->scale) != 0 ||
           memcmp(before->phase_turns, now->phase_turns, n * sizeof *now->phase_turns) != 0 ||
           memcmp(before->delay_s, now->delay_s, n * sizeof *now->delay_s) != 0;
}

bool sonar_live_adopt(sonar_pipeline *p, const sonar_window *window) {
    struct versions *v = &p->versions;
    struct live *fresh = atomic_exchange(&v->fresh, NULL), *before = p->live;
    if (!fresh)
        return false;
    const sonar_params *was = sonar_live_whole(before), *is = sonar_live_whole(fresh);
    const bool restart =
        p->config->specs.mvdr_enabled && (returns(was, is) || corrects_differently(was, is));
    v->mask_changed = v->mask_changed || memcmp(was->used, is->used, is->sensors) != 0;
    v->config_changed = v->config_changed || fresh->reconfigured;
    v->mvdr_restarted = v->mvdr_restarted || restart;
    if (fresh->reconfigured)
        v->config_sample = window->first_sample;
    sonar_faint_adopt(before->plan, fresh->plan);
    p->live = fresh;
    sonar_ranks_adopt(p);
    fresh->first_sample = window->first_sample;
    atomic_store(&fresh->adopted, true);
    atomic_store(&before->retired,
                 true); /* last, because the control thread may free it afterwards */
    return restart;
}

void sonar_live_lend(sonar_pipeline *p, sonar_result *result) {
    p->lent_under[result - p->result] = p->live;
    atomic_fetch_add(&p->live->lent, 1);
}

void sonar_live_take_back(sonar_pipeline *p, sonar_result *result) {
    struct live **under = &p->lent_under[result - p->result];
    if (*under)
        atomic_fetch_sub(&(*under)->lent, 1);
    *under = NULL;
}
