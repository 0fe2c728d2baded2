/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Turns of points, compared with delays in double precision. */
#include "steer.h"

#include <math.h>
#include <stdlib.h>

#include "core/core.h"
#include "core/random.h"
#include "manifold/manifold.h"
#include "steer/steer.h"

typedef struct fixture {
    site *site;
    size_t sensors, looks;
    sonar_params params;
    double *position_m;
    sonar_look *look;
    uint64_t *turns;
    sonar_buffer in, out;
    const sonar_stage_ops *ops;
    void *stage;
} fixture;

static double random_of(uint64_t *seed, double most) {
    return most * sonar_random_symmetric(seed);
}

static void draw_positions(fixture *f, uint64_t seed) {
    for (size_t i = 0; i < 3 * f->sensors; i++)
        f->position_m[i] = random_of(&seed, 200);
}

/* Every third look is at a point, one of them very near, one beyond all ranges. */
static void draw_looks(fixture *f, uint64_t seed) {
    for (size_t i = 0; i < f->looks; i++) {
        sonar_look *l = &f->look[i];
        double square = 0;
        for (int k = 0; k < 3; k++) {
            l->u[k] = random_of(&seed, 1);
            square += l->u[k] * l->u[k];
        }
        for (int k = 0; k < 3; k++)
            l->u[k] /= sqrt(square);
        l->length_m = i % 3 ? INFINITY : i == 3 ? 1e100 : 1 + fabs(random_of(&seed, 5000));
        l->bin_width_hz = i % 2 ? 8000.0 / 8192 : 20000.0 / 1024;
    }
}

static void open_fixture(fixture *f, site *site, size_t sensors, size_t looks) {
    *f = (fixture){.site = site, .sensors = sensors, .looks = looks};
    f->position_m = sonar_alloc(3 * sensors, sizeof *f->position_m);
    f->look = sonar_alloc(looks, sizeof *f->look);
    f->turns = sonar_alloc(looks * sensors, sizeof *f->turns);
    f->params = (sonar_params){
        .version = 1, .sensors = sensors, .sound_speed_mps = 1483, .position_m = f->position_m};
    draw_positions(f, 1);
    draw_looks(f, 2);
    f->in = site_buffer(site, SONAR_F64, 2, (size_t[]){looks, SONAR_LOOK_FIELDS});
    f->out = site_buffer(site, SONAR_U64, 2, (size_t[]){looks, sensors});
    f->ops = site->backend->stage("steer");
    sonar_error err = {0};
    site_require(site, f->ops->create(&(sonar_steer_spec){sensors}, site->host, &f->stage, &err),
                 &err);
}

static void close_fixture(fixture *f) {
    f->ops->destroy(f->stage);
    site_free(f->site, &f->in);
    site_free(f->site, &f->out);
    free(f->position_m);
    free(f->look);
    free(f->turns);
}

static void run(fixture *f) {
    const sonar_work work = {.params = &f->params};
    sonar_error err = {0};
    site_send(f->site, f->look, &f->in);
    site_require(f->site, f->ops->execute(f->stage, f->site->queue, &f->in, &f->out, &work, &err),
                 &err);
    site_fetch(f->site, &f->out, f->turns);
}

/* The delay of an entry, 2^52 to one turn. */
static int64_t delay_of(uint64_t turns) {
    return (int64_t)(turns >> SONAR_WHOLE_TURNS_BITS | turns << (64 - SONAR_WHOLE_TURNS_BITS));
}

/* In turns, the delays' rounding: at 200 m and 20 Hz a few 1e-15. */
static void expect(fixture *f, const char *what) {
    const double most = 2e-14 * 0x1p52, axis[3] = {1, 0, 0};
    double *tau_s = sonar_alloc(f->sensors, sizeof *tau_s);
    for (size_t i = 0; i < f->looks; i++) {
        const sonar_look *l = &f->look[i];
        double worst = 0;
        if (l->length_m < 1e100)
            sonar_delay_near(f->sensors, f->position_m, l->u, l->length_m, SONAR_RADIAL, axis,
                             f->params.sound_speed_mps, tau_s);
        else
            sonar_delay_far(f->sensors, f->position_m, l->u, f->params.sound_speed_mps, tau_s);
        for (size_t k = 0; k < f->sensors; k++) {
            const int64_t off = delay_of(f->turns[i * f->sensors + k]) -
                                delay_of(sonar_turns(tau_s[k], l->bin_width_hz));
            worst = fmax(worst, fabs((double)off));
        }
        site_expect(f->site, worst <= most, "%s, look %zu at %g m: off by %g turns", what, i,
                    l->length_m, worst * 0x1p-52);
    }
    free(tau_s);
}

void steer_case_far_and_near_delays(site *site) {
    static const size_t sensors[] = {1, 7, 8, 33, 257, 1000};
    for (size_t i = 0; i < sizeof sensors / sizeof *sensors; i++) {
        fixture f;
        open_fixture(&f, site, sensors[i], 13);
        run(&f);
        expect(&f, "delays");
        close_fixture(&f);
    }
}

void steer_case_positions_follow_the_version(site *site) {
    fixture f;
    open_fixture(&f, site, 65, 5);
    run(&f);
    draw_positions(&f, 3);
    f.params.version = 2;
    f.params.sound_speed_mps = 1520;
    run(&f);
    expect(&f, "another version");
    close_fixture(&f);
}

/* Several tasks and blocks of a look. */
void steer_case_many_sensors(site *site) {
    fixture f;
    open_fixture(&f, site, site->quick ? 2049 : 10007, 4);
    run(&f);
    expect(&f, "many sensors");
    close_fixture(&f);
}

void steer_case_wrong_shapes(site *site) {
    fixture f;
    open_fixture(&f, site, 9, 4);
    const sonar_work work = {.params = &f.params};
    sonar_params other = f.params;
    other.sensors = 8;
    const sonar_work fewer = {.params = &other};
    sonar_buffer in = f.in, out = f.out;
    in.shape[1]--;
    void *none = NULL;
    site_expect(site, f.ops->execute(f.stage, site->queue, &in, &out, &work, NULL) == SONAR_EINVAL,
                "looks of another length");
    out.shape[0]--;
    site_expect(site,
                f.ops->execute(f.stage, site->queue, &f.in, &out, &work, NULL) == SONAR_EINVAL,
                "fewer rows of turns than looks");
    site_expect(site,
                f.ops->execute(f.stage, site->queue, &f.in, &f.out, &fewer, NULL) == SONAR_EINVAL,
                "parameters of other sensors");
    site_expect(site,
                f.ops->create(&(sonar_steer_spec){0}, site->host, &none, NULL) == SONAR_EINVAL &&
                    !none,
                "no sensors");
    close_fixture(&f);
}
