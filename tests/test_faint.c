/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Contacts below the detector's threshold: the odds against a sum over all paths, what is found in
 * noise and in what noise it is not, and the gain over counting detections. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/faint/faint.h"
#include "core/core.h"
#include "core/random.h"

enum { MOST = 512 };

/* A scan of whole beams from 0 on: of a circle, or of a line. */
typedef struct rig {
    sonar_scan scan;
    double az_deg[MOST], beam_deg, least_db, averages, turned_deg, since_s;
    float ratio[MOST];
    sonar_faint *faint;
    uint64_t seed;
} rig;

static void rig_open(rig *r, bool cone, size_t directions, double beam_deg, double least_db) {
    *r = (rig){.beam_deg = beam_deg, .least_db = least_db, .averages = 40, .since_s = 1, .seed = 7};
    for (size_t i = 0; i < directions; i++)
        r->az_deg[i] = cone ? acos(1 - 2 * (double)i / (double)(directions - 1)) / SONAR_RADIANS
                            : 360 * (double)i / (double)directions;
    r->scan = (sonar_scan){.count = directions,
                           .az_deg = r->az_deg,
                           .cone = cone,
                           .wraps = !cone,
                           .beam_width_deg = beam_deg};
    const sonar_faint_spec spec = {&r->scan, least_db};
    sonar_error err = {0};
    cr_assert_eq(sonar_faint_create(&spec, &r->faint, &err), SONAR_OK, "%s", err.text);
}

static void rig_close(rig *r) {
    sonar_faint_destroy(r->faint);
}

static double gamma_power(uint64_t *seed, double averages) {
    double sum = 0; /* of whole averages */
    for (int i = 0; i < (int)averages; i++)
        sum -= log(sonar_random_uniform(seed));
    return sum / averages;
}

static void fill_noise(rig *r) {
    for (size_t i = 0; i < r->scan.count; i++)
        r->ratio[i] = (float)gamma_power(&r->seed, r->averages);
}

static void run(rig *r, const double *of_deg, size_t count) {
    const sonar_faint_window w = {.since_s = r->since_s,
                                  .fresh = 1,
                                  .averages = r->averages / 0.9, /* of which 0.9 count */
                                  .turned_deg = r->turned_deg,
                                  .ratio = r->ratio,
                                  .of_deg = of_deg,
                                  .count = count};
    sonar_faint_run(r->faint, &w);
}

/* A contact at a place between the cells raises the powers by its beam, cos^2 to the nulls. */
static void add_contact(rig *r, double az_deg, double level_db) {
    for (size_t i = 0; i < r->scan.count; i++) {
        const double apart =
            r->scan.cone ? fabs(cos(r->az_deg[i] * SONAR_RADIANS) - cos(az_deg * SONAR_RADIANS)) /
                               (r->beam_deg * SONAR_RADIANS)
                         : fabs(remainder(r->az_deg[i] - az_deg, 360)) / r->beam_deg;
        const double beam = apart < 1 ? pow(cos(apart * M_PI / 2), 2) : 0;
        r->ratio[i] *= (float)(1 + (pow(10, level_db / 10) - 1) * beam);
    }
}

/* ---- the recursion --------------------------------------------------------------------------- */

enum { WINDOWS = 50, RATES = 13, LEVELS = 3, DIRECTIONS = 72 };

/* In double, and in frames that move at each rate instead of odds that are moved: place c is cell
 * c - frame of the frame. */
typedef struct oracle {
    double odds[LEVELS][RATES][DIRECTIONS], offset[RATES];
    int frame[RATES];
} oracle;

static double *odds_at(oracle *o, int level, int rate, int cell) {
    return &o->odds[level][rate][(cell - o->frame[rate] + 100 * DIRECTIONS) % DIRECTIONS];
}

static void oracle_run(oracle *o, const rig *r) {
    static oracle next;
    const double part = (1 - exp(-0.01)) / 2, stays = exp(-1.0 / 300);
    const double born = 2.0 / 3600 / (DIRECTIONS * RATES * LEVELS);
    for (int v = 0; v < RATES; v++) {
        o->offset[v] += ((v - 6) * 0.5 / 60 - r->turned_deg / 10) * 2; /* two cells a beam */
        const int whole = (int)(fabs(o->offset[v]) + 0.5) * (o->offset[v] > 0 ? 1 : -1);
        o->frame[v] += whole;
        o->offset[v] -= whole;
    }
    next = *o;
    for (int l = 0; l < LEVELS; l++)
        for (int v = 0; v < RATES; v++)
            for (int c = 0; c < DIRECTIONS; c++) {
                const double s = pow(10, 0.15 * (l + 1)) - 1, y = (double)r->ratio[c];
                const double low = *odds_at(o, l, v ? v - 1 : 0, c),
                             high = *odds_at(o, l, v + 1 < RATES ? v + 1 : v, c);
                const double moved = (1 - 2 * part) * *odds_at(o, l, v, c) + part * (low + high);
                *odds_at(&next, l, v, c) =
                    (stays * moved + born) * exp(r->averages * (y * s / (1 + s) - log1p(s)));
            }
    *o = next;
}

Test(faint, odds_are_those_of_an_oracle) {
    static oracle o;
    rig r;
    rig_open(&r, false, DIRECTIONS, 10, 1.5); /* cells of 5 degrees: one for each direction */
    r.averages = 6;
    r.turned_deg = 0.013; /* no offset is half a cell */
    for (int window = 0; window < WINDOWS; window++) {
        fill_noise(&r);
        add_contact(&r, 355 + 0.2 * window, 1.5);
        run(&r, NULL, 0);
        oracle_run(&o, &r);
        sonar_faint_contact found[SONAR_FAINT_MOST];
        if (!sonar_faint_find(r.faint, 1e-9, found))
            continue;
        double mass[DIRECTIONS] = {0}, sum = 0;
        int best = 0;
        for (int c = 0; c < DIRECTIONS; c++)
            for (int i = 0; i < LEVELS * RATES; i++)
                mass[c] += *odds_at(&o, i / RATES, i % RATES, c);
        for (int c = 0; c < DIRECTIONS; c++) { /* the peak with the largest odds around it */
            double around = 0, highest = 0;
            for (int off = -2; off <= 2; off++) {
                around += mass[(c + off + DIRECTIONS) % DIRECTIONS];
                highest = fmax(highest, mass[(c + off + DIRECTIONS) % DIRECTIONS]);
            }
            if (mass[c] == highest && around > sum) {
                sum = around;
                best = c;
            }
        }
        const double is = found[0].probability / (1 - found[0].probability);
        cr_assert_float_eq(is, sum, 1e-3 * sum, "window %d: %g, not %g", window, is, sum);
        cr_assert_lt(fabs(remainder(found[0].az_deg - 5 * best, 360)), 11);
    }
    rig_close(&r);
}

/* Places, rates and their errors, through the ends of the scan and while the array turns. */
static void finds(bool cone, double az_deg, double rate_dpm, double turn_dps) {
    double squared = 0;
    int windows = 0, first = 0;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        rig r;
        rig_open(&r, cone, cone ? 128 : 240, 3, 1.5);
        r.seed = seed;
        double at = az_deg;
        for (int i = 0; i < 200; i++) {
            r.turned_deg = turn_dps;
            at += rate_dpm / 60 - turn_dps;
            fill_noise(&r);
            add_contact(&r, at, 2);
            run(&r, NULL, 0);
            sonar_faint_contact found[SONAR_FAINT_MOST];
            if (!sonar_faint_find(r.faint, 0.9999, found))
                continue;
            first += windows == 0 ? i : 0;
            const double place = cone ? cos(at * SONAR_RADIANS) : at * SONAR_RADIANS;
            const double off =
                cone ? found[0].place - place : remainder(found[0].place - place, 2 * M_PI);
            const double rate_ps = cone ? -sin(at * SONAR_RADIANS) * rate_dpm / 60 * SONAR_RADIANS
                                        : (rate_dpm / 60 - turn_dps * 0) * SONAR_RADIANS;
            cr_assert_lt(fabs(off), 0.75 * r.beam_deg * SONAR_RADIANS, "%d: %g deg", i,
                         off / SONAR_RADIANS);
            if (i > 120)
                cr_assert_lt(fabs(found[0].rate_ps - rate_ps), 4 * sqrt(found[0].var_rate), "%d",
                             i);
            squared += off * off / found[0].var_place;
            windows++;
        }
        rig_close(&r);
    }
    cr_assert_gt(windows, 8 * 120, "%d", windows);
    cr_assert_lt(squared / windows, 1.5, "%g", squared / windows);
}

Test(faint, places_and_rates) {
    finds(false, 200, 0, 0);
    finds(false, 358, 1.2, 0);
    finds(false, 5, 0.6, 0.5);
    finds(true, 90, 1, 0);
    finds(true, 50, -0.8, 0);
}

/* A contact is where it was turned to; after an hour without windows it is forgotten. */
Test(faint, turns_and_gaps) {
    rig r;
    rig_open(&r, false, 240, 3, 1.5);
    sonar_faint_contact found[SONAR_FAINT_MOST];
    for (int i = 0; i < 60; i++) {
        fill_noise(&r);
        add_contact(&r, 30, 3);
        run(&r, NULL, 0);
    }
    r.turned_deg = 170; /* at once */
    fill_noise(&r);
    add_contact(&r, 220, 3);
    run(&r, NULL, 0);
    cr_assert_gt(sonar_faint_find(r.faint, 0.9999, found), 0);
    cr_assert_float_eq(found[0].az_deg, 220, 1.5, "%g", found[0].az_deg);
    r.turned_deg = 0;
    r.since_s = 3600;
    fill_noise(&r);
    run(&r, NULL, 0);
    r.since_s = 1;
    for (int i = 0; i < 20; i++) {
        fill_noise(&r);
        run(&r, NULL, 0);
    }
    cr_assert_eq(sonar_faint_find(r.faint, 0.5, found), 0);
    rig_close(&r);
}

/* ---- what is no contact ---------------------------------------------------------------------- */

/* Six hours of noise, by the number of averages: what is found is as rare as its probability says.
 */
Test(faint, noise_has_no_contacts) {
    static const double averages[] = {3, 20, 100};
    for (size_t k = 0; k < 3; k++) {
        rig r;
        double most = 0;
        rig_open(&r, false, 60, 6, 1.5);
        r.averages = averages[k];
        for (int i = 0; i < 6 * 3600; i++) {
            sonar_faint_contact found[SONAR_FAINT_MOST];
            fill_noise(&r);
            run(&r, NULL, 0);
            most = sonar_faint_find(r.faint, 0.1, found) ? fmax(most, found[0].probability) : most;
        }
        cr_assert_lt(most, 0.9999, "%g averages: %g", averages[k], most);
        rig_close(&r);
    }
}

/* A ratio of noise that is wrong by 0.3 dB for ever, beside a listed contact, or cleared. */
Test(faint, unevenness_and_listed_contacts_are_none) {
    rig r;
    rig_open(&r, false, 240, 3, 1.5);
    r.averages = 400;
    for (int i = 0; i < 3000; i++) {
        sonar_faint_contact found[SONAR_FAINT_MOST];
        fill_noise(&r);
        add_contact(&r, 30, 0.3);
        add_contact(&r, 200, 20);
        add_contact(&r, 100, 3);
        run(&r, (double[]){200}, 1);
        const size_t count = sonar_faint_find(r.faint, 0.1, found);
        cr_assert_leq(count, 1, "%d: at %g", i, found[1].az_deg);
        if (count)
            cr_assert_float_eq(found[0].az_deg, 100, 1.5);
        cr_assert(i < 30 || i % 100 < 30 || count, "%d", i);
        if (i % 100 == 0)
            sonar_faint_clear(r.faint, 100);
    }
    rig_close(&r);
}

Test(faint, refuses_what_it_cannot_do) {
    rig r;
    rig_open(&r, true, 64, 3, 1.5);
    sonar_faint *none;
    sonar_error err = {0};
    const sonar_faint_spec levels[] = {{&r.scan, 0}, {&r.scan, NAN}, {&r.scan, 1000}};
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(sonar_faint_create(&levels[i], &none, &err), SONAR_EINVAL);
    r.scan.beam_width_deg = 360;
    cr_assert_eq(sonar_faint_create(&(sonar_faint_spec){&r.scan, 1}, &none, &err), SONAR_EINVAL);
    rig_close(&r);
}

Test(faint, goes_on_from_another_one_of_the_same_scan) {
    rig a, b, c;
    rig_open(&a, false, 120, 6, 1.5);
    rig_open(&b, false, 120, 6, 1.5);
    rig_open(&c, false, 120, 6, 2);
    sonar_faint_contact found[SONAR_FAINT_MOST], same[SONAR_FAINT_MOST];
    for (int i = 0; i < 60; i++) {
        fill_noise(&a);
        add_contact(&a, 77, 3);
        run(&a, NULL, 0);
    }
    sonar_faint_take_over(b.faint, a.faint);
    sonar_faint_take_over(c.faint, a.faint);
    cr_assert_gt(sonar_faint_find(a.faint, 0.9, found), 0);
    cr_assert_gt(sonar_faint_find(b.faint, 0.9, same), 0);
    cr_assert_eq(memcmp(found, same, sizeof *found), 0);
    cr_assert_eq(sonar_faint_find(c.faint, 1e-6, same), 0);
    rig_close(&a), rig_close(&b), rig_close(&c);
}

/* ---- gain ------------------------------------------------------------------------------------ */

/* 30 windows of 64 cells, independent, with a contact in one of them that moves by up to `drift /
 * 2` cells in a trial. */
enum { TRIAL = 30, CELLS = 64, NEEDED = 15, RUNS = 600 };
typedef struct trial {
    float ratio[TRIAL][CELLS];
} trial;

static void make_trial(trial *t, uint64_t *seed, double averages, double drift, double level_db) {
    const double rate = drift * (sonar_random_uniform(seed) - 0.5) / TRIAL;
    const double at = 8 + 48 * sonar_random_uniform(seed), s = pow(10, level_db / 10) - 1;
    for (int i = 0; i < TRIAL; i++)
        for (int c = 0; c < CELLS; c++) {
            const double there = fabs(at + rate * i - c) <= 0.5 ? s : 0;
            t->ratio[i][c] = (float)(gamma_power(seed, averages) * (1 + there));
        }
}

/* Descending. */
static int falling(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* The largest threshold at which a detection is in some cell, or up to `reach` beside it, in 15 of
 * the 30 windows. */
static double by_counting(const trial *t, int reach) {
    double best = 0;
    for (int c = 0; c < CELLS; c++) {
        double most[TRIAL] = {0};
        for (int i = 0; i < TRIAL; i++)
            for (int b = c - reach; b <= c + reach; b++)
                if (b >= 0 && b < CELLS)
                    most[i] = fmax(most[i], (double)t->ratio[i][b]);
        qsort(most, TRIAL, sizeof *most, falling);
        best = fmax(best, most[NEEDED - 1]);
    }
    return best;
}

/* Windows of 4 s: rates of up to 3 beams a minute are 6 cells in a trial. */
static double by_odds(const trial *t, double averages) {
    rig r; /* a line whose cells are the directions: a beam width apart in the cosine */
    rig_open(&r, true, CELLS, 2.0 / (CELLS - 1) / SONAR_RADIANS, 0.75);
    r.averages = averages;
    r.since_s = 4;
    double best = -99;
    for (int i = 0; i < TRIAL; i++) {
        sonar_faint_contact found[SONAR_FAINT_MOST];
        memcpy(r.ratio, t->ratio[i], sizeof t->ratio[i]);
        run(&r, NULL, 0);
        if (sonar_faint_find(r.faint, 1e-9, found))
            best = fmax(best, log(found[0].probability / (1 - found[0].probability)));
    }
    rig_close(&r);
    return best;
}

/* reach < 0: the odds. */
static double statistic(const trial *t, double averages, int reach) {
    return reach < 0 ? by_odds(t, averages) : by_counting(t, reach);
}

/* The power, over the noise, of a contact of which half are found, at one false alarm in a hundred
 * trials of noise; in dB. */
static double needed_db(int reach, double averages, double drift) {
    static trial t;
    static double noise[RUNS];
    uint64_t seed = 11;
    for (int i = 0; i < RUNS; i++) {
        make_trial(&t, &seed, averages, drift, 0);
        noise[i] = statistic(&t, averages, reach);
    }
    qsort(noise, RUNS, sizeof *noise, falling);
    double low = 0, high = 12;
    for (int step = 0; step < 8; step++) {
        const double middle = (low + high) / 2;
        int found = 0;
        seed = 5;
        for (int i = 0; i < RUNS / 5; i++) {
            make_trial(&t, &seed, averages, drift, middle);
            found += statistic(&t, averages, reach) > noise[RUNS / 100];
        }
        *(found > RUNS / 10 ? &high : &low) = middle;
    }
    return 10 * log10(pow(10, (low + high) / 20) - 1);
}

/* The fairest count: its reach is the best one for the drift. */
Test(faint, gains_over_counting_detections) {
    static const struct {
        double averages, drift, least_db;
    } cases[] = {{1, 0, 0.7}, {2, 12, 2}, {8, 12, 1.1}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const double averages = cases[k].averages, drift = cases[k].drift;
        const double odds_db = needed_db(-1, averages, drift);
        double count_db = 99;
        for (int reach = 0; reach <= 2; reach++)
            count_db = fmin(count_db, needed_db(reach, averages, drift));
        cr_log_info("%g averages, drift %g: 15 of 30 need %.2f dB, the odds %.2f", averages, drift,
                    count_db, odds_db);
        cr_expect_gt(count_db - odds_db, cases[k].least_db, "%g averages, drift %g: %g and %g dB",
                     averages, drift, count_db, odds_db);
    }
}
