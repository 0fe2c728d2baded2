/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A towed array: its heading, and with `follow` and `sensors` its shape. Between two changes of the
 * shape the stages get the same parameters, so that a straight course costs them nothing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "manifold/shape.h"
#include "pipeline/internal.h"

/* Of the shortest wavelength: the shape is renewed when a sensor is further from the place by which
 * it is steered. If all sensors were so far off, a beam would lose 0.4 dB. */
static const double TOLERANCE = 1.0 / 20;

double sonar_tow_reach(const sonar_config *whole) {
    double front_m;
    return whole->tow_model == SONAR_TOW_OFF || whole->tow_model == SONAR_TOW_SENSORS
               ? 0
               : sonar_config_tow_trail(whole) + sonar_config_tow_length(whole, &front_m);
}

/* ---- creation -------------------------------------------------------------------------------- */

static sonar_arena lay_out(struct tow *t, size_t sensors, size_t workers, bool follows,
                           sonar_arena_pass pass) {
    sonar_arena arena = {.pass = pass};
    struct places *of[] = {&t->of_data, &t->of_control};
    for (int i = 0; i < 2; i++) {
        SONAR_ARENA(&arena, of[i]->behind_m, sensors);
        SONAR_ARENA(&arena, of[i]->at_m.north, sensors);
        SONAR_ARENA(&arena, of[i]->at_m.east, sensors);
        SONAR_ARENA(&arena, of[i]->at_m.depth, sensors);
    }
    SONAR_ARENA(&arena, t->shape_m, follows ? 3 * sensors : 1);
    SONAR_ARENA(&arena, t->tau_s, follows ? workers * sensors : 1);
    return arena;
}

sonar_code sonar_tow_create(sonar_pipeline *p, sonar_error *err) {
    const sonar_config *c = p->whole;
    const bool follows = sonar_config_bends(c);
    if (c->tow_model == SONAR_TOW_OFF)
        return SONAR_OK;
    p->tow = sonar_alloc(1, sizeof *p->tow);
    if (!p->tow ||
        lay_out(p->tow, c->sensors, p->host.workers, follows, SONAR_ARENA_ALLOCATE).failed)
        return sonar_fail(err, SONAR_ENOMEM, "navigation.tow", "no memory for %zu sensors",
                          c->sensors);
    const sonar_params_spec spec = sonar_config_params(c);
    return follows ? sonar_params_create(&spec, 1, &p->tow->bent, err) : SONAR_OK;
}

void sonar_tow_destroy(sonar_pipeline *p) {
    if (!p->tow)
        return;
    sonar_params_destroy(p->tow->bent);
    lay_out(p->tow, 0, 0, false, SONAR_ARENA_FREE);
    free(p->tow);
}

/* ---- heading --------------------------------------------------------------------------------- */

double sonar_tow_heading(sonar_pipeline *p, const sonar_config *c, int64_t utc_ns,
                         struct places *at, sonar_tow *tow) {
    const size_t n = p->whole->sensors;
    const double *position_m = p->whole->position_m, trail_m = sonar_config_tow_trail(c);
    double front_m;
    sonar_config_tow_length(p->whole, &front_m);
    for (size_t k = 0; k < n; k++)
        at->behind_m[k] = trail_m + front_m - position_m[3 * k];
    const sonar_tow_state state = sonar_nav_places(p->nav, utc_ns, n, at->behind_m, &at->at_m, tow);
    return state == SONAR_TOW_KNOWN || state == SONAR_TOW_SHORT
               ? sonar_shape_heading(n, position_m, at->at_m.north, at->at_m.east)
               : NAN;
}

/* ---- shape ----------------------------------------------------------------------------------- */

static double tolerance_m(const sonar_config *c) {
    const double top_hz =
        fmax(c->cbf_band.high_hz, c->specs.mvdr_enabled ? c->mvdr_band.high_hz : 0);
    return TOLERANCE * c->sound_speed_mps / top_hz;
}

/* Side lobes and images are those of the shape. */
static void move_pattern(sonar_pipeline *p) {
    const sonar_params *params = sonar_pipeline_params(p);
    if (p->live->pattern)
        sonar_pattern_move(p->live->pattern, params->position_m, params->shading);
}

static void bend(sonar_pipeline *p, const double *shape_m) {
    struct tow *t = p->tow;
    const struct live *live = p->live;
    const sonar_params_spec spec = sonar_config_params(live->plan->config);
    t->under = live;
    t->shapes++;
    sonar_params_bend(t->bent, live->params, &spec, shape_m,
                      live->params->version + (t->shapes << 32), &p->host, t->tau_s);
    move_pattern(p);
}

static void straighten(sonar_pipeline *p) {
    p->tow->under = NULL;
    move_pattern(p);
}

/* The shape at the window's middle; straight if it is not known. */
static void find_shape(sonar_pipeline *p, double heading_deg) {
    struct tow *t = p->tow;
    const sonar_config *c = p->whole;
    if (t->known)
        sonar_shape_place(c->sensors, c->position_m, t->of_data.at_m.north, t->of_data.at_m.east,
                          t->of_data.at_m.depth, heading_deg, t->shape_m);
    else
        memcpy(t->shape_m, c->position_m, 3 * c->sensors * sizeof *t->shape_m);
}

static void renew(sonar_pipeline *p, const sonar_window *window, double heading_deg) {
    struct tow *t = p->tow;
    const size_t n = p->whole->sensors;
    const double *straight_m = p->whole->position_m;
    const double *used_m = t->under ? t->bent->position_m : straight_m;
    const double most_m = tolerance_m(p->live->plan->config);
    find_shape(p, heading_deg);
    if (sonar_shape_distance(n, t->shape_m, used_m) <= most_m)
        return;
    t->first_sample = window->first_sample;
    if (sonar_shape_distance(n, t->shape_m, straight_m) <= most_m)
        straighten(p);
    else
        bend(p, t->shape_m);
}

void sonar_tow_bend(sonar_pipeline *p, const sonar_window *window, sonar_result *result) {
    struct tow *t = p->tow;
    if (!t || !t->bent)
        return;
    if (result)
        renew(p, window, result->params.heading_deg);
    if (t->under && t->under != p->live) /* another version has come */
        bend(p, t->bent->position_m);
    if (!result)
        return;
    result->shape_follows = true;
    result->shape_sample = t->first_sample;
    sonar_buffer *position = &result->surface[SONAR_ELEMENT_POSITION];
    if (position->data)
        sonar_result_put_positions(p->whole, sonar_pipeline_params(p)->position_m, position);
}
