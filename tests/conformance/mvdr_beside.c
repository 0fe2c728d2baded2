/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "mvdr_beside.h"
#include "oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const site_path FOLLOW = {"follow", {{"mvdr.route", "update"}}};

static unsigned (*look_inside)(const mvdr_fixture *f, size_t bin);

void beside_look_inside(unsigned (*age)(const mvdr_fixture *f, size_t bin)) {
    look_inside = age;
}

sonar_mvdr_spec beside_spec(size_t sensors, size_t snapshots, sonar_loading rule, double eps) {
    sonar_mvdr_spec spec = mvdr_spec(sensors, BESIDE_LOOKS, snapshots, 0);
    spec.loading = rule, spec.eps = eps;
    return spec;
}

void beside_begin_following(beside *b, site *site, const sonar_mvdr_spec *spec) {
    memset(b, 0, sizeof *b);
    b->site = site;
    b->length = spec->snapshots;
    site_take(&FOLLOW);
    mvdr_open_alone(&b->f, site, spec);
    site_take(NULL);
    mvdr_open_alone(&b->reference, site, spec);
    b->reference.wants_eigenvalues = true;
    b->held = calloc(b->length * spec->bins * spec->sensors, sizeof *b->held);
}

void beside_end(beside *b) {
    site_expect(b->site, b->worst_db < 1e-3, "%g dB from a stage that solves from scratch",
                b->worst_db);
    free(b->held);
    mvdr_close(&b->f);
    mvdr_close(&b->reference);
}

void beside_expect_followed(const beside *b, double share) {
    const double of = (double)(look_inside ? b->windows : b->judged);
    const double least = look_inside ? share * of : share * of / 4;
    if (look_inside || b->f.spec.loading == SONAR_LOADING_TRACE)
        site_expect(b->site, (double)b->followed > least, "%zu of %g windows", b->followed, of);
}

void beside_expect_age(const beside *b, size_t bin, unsigned age) {
    if (look_inside)
        site_expect(b->site, look_inside(&b->f, bin) == age, "bin %zu: %u windows, not %u", bin,
                    look_inside(&b->f, bin), age);
}

unsigned beside_age(const beside *b, size_t bin) {
    return look_inside ? look_inside(&b->f, bin) : 0;
}

void beside_compare(beside *b) {
    enum { POINTS = 5 };
    const size_t bins = b->f.spec.bins;
    float at_f[POINTS], at_reference[POINTS];
    double db = oracle_worst_db(bins * BESIDE_LOOKS, b->f.spectrum, b->reference.spectrum);
    const uint64_t *turns = b->f.turns + b->windows % BESIDE_LOOKS * b->f.spec.sensors / POINTS;
    mvdr_evaluate(&b->f, POINTS, turns, at_f);
    mvdr_evaluate(&b->reference, POINTS, turns, at_reference);
    db = fmax(db, oracle_worst_db(POINTS, at_f, at_reference));
    site_expect(b->site, db < 1e-3, "window %zu: %g dB", b->windows, db);
    b->worst_db = fmax(b->worst_db, db);
    b->judged++;
    if (!look_inside)
        b->followed +=
            memcmp(b->f.spectrum, b->reference.spectrum, BESIDE_LOOKS * sizeof(float)) != 0;
    for (size_t bin = 0; bin < bins; bin++) {
        site_expect(b->site, mvdr_flags(&b->f, bin) == mvdr_flags(&b->reference, bin),
                    "window %zu: flags", b->windows);
        site_expect(b->site,
                    mvdr_info(&b->f, bin, SONAR_MVDR_SNAPSHOTS) ==
                        mvdr_info(&b->reference, bin, SONAR_MVDR_SNAPSHOTS),
                    "window %zu: snapshots", b->windows);
        for (int field = SONAR_MVDR_DELTA; field <= SONAR_MVDR_LEVEL;
             field += SONAR_MVDR_LEVEL - SONAR_MVDR_DELTA) {
            const double one = (double)mvdr_info(&b->f, bin, field);
            const double other = (double)mvdr_info(&b->reference, bin, field);
            const double rounding = field == SONAR_MVDR_LEVEL ? 1e-6 : 0; /* of 1 less a sum */
            site_expect(b->site, fabs(one - other) <= 1e-3 * fabs(other) + rounding,
                        "field %d: %g, %g", field, one, other);
        }
    }
}

void beside_window(beside *b, size_t count, const sonar_c32 *x, bool judged) {
    const size_t stride = b->f.spec.bins * b->f.spec.sensors, l = b->length;
    const size_t kept = count < l ? l - count : 0, fresh = l - kept;
    memmove(b->held, b->held + fresh * stride, kept * stride * sizeof *x);
    memcpy(b->held + kept * stride, x + (count - fresh) * stride, fresh * stride * sizeof *x);
    mvdr_run(&b->f, count, x);
    b->windows++;
    b->followed += beside_age(b, 0) > 0;
    if (!judged)
        return;
    mvdr_reset(&b->reference);
    mvdr_run(&b->reference, l, b->held);
    beside_compare(b);
}

void beside_fill(beside *b, const mvdr_wave *waves, size_t n, uint64_t seed) {
    sonar_c32 *x = mvdr_record(&b->f, b->length, waves, n, seed);
    beside_window(b, b->length, x, true);
    free(x);
}

void beside_go_on(beside *b, size_t windows, const mvdr_wave *waves, size_t n, uint64_t seed) {
    const size_t stride = b->f.spec.bins * b->f.spec.sensors;
    sonar_c32 *x = mvdr_record(&b->f, windows, waves, n, seed);
    for (size_t i = 0; i < windows; i++)
        beside_window(b, 1, x + i * stride, true);
    free(x);
}

void beside_both(beside *b, const sonar_c32 *x) {
    mvdr_run(&b->f, 1, x);
    mvdr_run(&b->reference, 1, x);
    b->windows++;
    b->followed += beside_age(b, 0) > 0;
    beside_compare(b);
}
