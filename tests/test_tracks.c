/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tracks from lists of contacts: what a watch-keeper expects of them, in simulated days. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/random.h"
#include "jpda.h"
#include "numerical.h"
#include "simulated_plots.h"

static const double radians = M_PI / 180;

typedef struct watch {
    simulated_plots sea;
    sonar_tracks *tracks;
    size_t count;
    sonar_track track[SONAR_TRACKS_MOST];
} watch;

static void begin(watch *w, bool line, uint64_t seed) {
    *w = (watch){.tracks = sonar_tracks_create()};
    cr_assert(w->tracks);
    plots_begin(&w->sea, line, 3.2, seed);
}

static void end(watch *w) {
    sonar_tracks_destroy(w->tracks);
}

static void run(watch *w) {
    const sonar_tracks_window window = plots_window(&w->sea);
    w->count = sonar_tracks_run(w->tracks, &window, w->track);
}

static void step(watch *w) {
    plots_list(&w->sea);
    run(w);
}

static double apart_deg(double a, double b) {
    return fabs(remainder(a - b, 360));
}

static const sonar_track *numbered(const watch *w, uint64_t number) {
    for (size_t i = 0; i < w->count; i++)
        if (w->track[i].number == number)
            return &w->track[i];
    return NULL;
}

/* The confirmed or coasting track nearest to a bearing, by either side. */
static const sonar_track *nearest(const watch *w, double bearing_deg) {
    const sonar_track *best = NULL;
    double least = 180;
    for (size_t i = 0; i < w->count; i++)
        for (size_t b = 0; b < w->track[i].bearings; b++) {
            const double off = apart_deg(w->track[i].bearing[b].deg, bearing_deg);
            if (off > least || w->track[i].state == SONAR_TRACK_TENTATIVE ||
                w->track[i].state == SONAR_TRACK_LOST)
                continue;
            least = off;
            best = &w->track[i];
        }
    return least < w->sea.scan.beam_width_deg / 2 ? best : NULL;
}

static size_t living(const watch *w) {
    size_t count = 0;
    for (size_t i = 0; i < w->count; i++)
        count +=
            w->track[i].state == SONAR_TRACK_CONFIRMED || w->track[i].state == SONAR_TRACK_COASTING;
    return count;
}

/* ---- one contact ----------------------------------------------------------------------------- */

/* A contact keeps one number through north, and its errors are those that are stated. */
static void follows(bool line, double bearing_deg, double rate_dpm) {
    double squared = 0, rate_squared = 0;
    int windows = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        watch w;
        begin(&w, line, seed);
        w.sea.sources = 1;
        w.sea.source[0] = (plots_source){bearing_deg, 10, 0.9};
        uint64_t number = 0;
        for (int i = 0; i < 600; i++) {
            step(&w);
            const sonar_track *t = nearest(&w, w.sea.source[0].bearing_deg);
            if (i > 30) {
                cr_assert(t, "%d: no track", i);
                number = number ? number : t->number;
                cr_assert_eq(t->number, number);
                const bool second = apart_deg(t->bearing[0].deg, w.sea.source[0].bearing_deg) > 2 &&
                                    t->bearings == 2;
                const sonar_track_bearing *b = &t->bearing[second];
                squared += pow(apart_deg(b->deg, w.sea.source[0].bearing_deg) / b->sigma_deg, 2);
                rate_squared += pow((b->rate_dpm - rate_dpm) / b->rate_sigma_dpm, 2);
                windows++;
            }
            w.sea.source[0].bearing_deg =
                sonar_modulo_turn(w.sea.source[0].bearing_deg + rate_dpm * w.sea.step_s / 60);
        }
        cr_assert_eq(living(&w), 1);
        end(&w);
    }
    cr_log_info("squared errors over the stated: bearing %.2f, rate %.2f", squared / windows,
                rate_squared / windows);
    cr_assert(squared / windows > 0.1 && squared / windows < 1.5, "%g", squared / windows);
    cr_assert(rate_squared / windows > 0.02 && rate_squared / windows < 1.5, "%g",
              rate_squared / windows);
}

Test(tracks, constant_bearing) {
    follows(false, 100, 0);
    follows(true, 70, 0);
}

Test(tracks, constant_rate_through_north) {
    follows(false, 350, 3);
    follows(false, 20, -10);
    follows(true, 60, 5);
}

/* Through the axis of a line, from starboard to port ahead. */
Test(tracks, passes_ahead) {
    watch w;
    begin(&w, true, 3);
    w.sea.sources = 1;
    w.sea.source[0] = (plots_source){30, 10, 0.9};
    uint64_t number = 0;
    for (int i = 0; i < 1200; i++, w.sea.source[0].bearing_deg -= 0.05) {
        step(&w);
        const sonar_track *t = nearest(&w, w.sea.source[0].bearing_deg);
        if (i <= 30)
            continue;
        number = number ? number : t ? t->number : 0;
        cr_assert(i < 500 || i > 700 || living(&w) == 1);
        cr_assert(t || fabs(w.sea.source[0].bearing_deg) < 10, "%d", i);
        cr_assert(!t || t->number == number, "%d", i);
    }
    end(&w);
}

/* A physical passage at 1 km and 8 m/s. */
Test(tracks, closest_point_of_approach) {
    watch w;
    begin(&w, false, 4);
    w.sea.sources = 1;
    uint64_t number = 0;
    for (int i = 0; i < 900; i++) {
        const double along_m = 8 * (i - 450);
        w.sea.source[0] =
            (plots_source){sonar_modulo_turn(atan2(along_m, 1000) / radians), 10, 0.8};
        step(&w);
        const sonar_track *t = nearest(&w, w.sea.source[0].bearing_deg);
        cr_assert(i < 30 || t, "%d", i);
        number = number ? number : t ? t->number : 0;
        cr_assert(i < 30 || t->number == number);
    }
    end(&w);
}

/* 40 s without plots, then four minutes. */
Test(tracks, coasts_and_is_lost) {
    watch w;
    begin(&w, false, 5);
    w.sea.sources = 1;
    w.sea.source[0] = (plots_source){200, 10, 0.95};
    for (int i = 0; i < 300; i++, w.sea.source[0].bearing_deg += 0.02)
        step(&w);
    const uint64_t number = nearest(&w, w.sea.source[0].bearing_deg)->number;
    w.sea.source[0].detected = 0;
    for (int i = 0; i < 40; i++, w.sea.source[0].bearing_deg += 0.02)
        step(&w);
    const sonar_track *t = numbered(&w, number);
    cr_assert(t && t->state == SONAR_TRACK_COASTING && t->contact == SIZE_MAX);
    cr_assert(t->unheard_s >= 40 && t->unheard_s < 45);
    cr_assert_lt(apart_deg(t->bearing[0].deg, w.sea.source[0].bearing_deg), 0.3);
    w.sea.source[0].detected = 0.95;
    for (int i = 0; i < 5; i++, w.sea.source[0].bearing_deg += 0.02)
        step(&w);
    t = numbered(&w, number);
    cr_assert(t && t->state == SONAR_TRACK_CONFIRMED && t->unheard_s <= 2);
    w.sea.source[0].detected = 0;
    int lost = 0;
    for (int i = 0; i < 240; i++) {
        step(&w);
        t = numbered(&w, number);
        lost += t && t->state == SONAR_TRACK_LOST;
    }
    cr_assert_eq(lost, 1);
    cr_assert(!numbered(&w, number));
    w.sea.source[0].detected = 0.95;
    for (int i = 0; i < 30; i++)
        step(&w);
    cr_assert_gt(nearest(&w, w.sea.source[0].bearing_deg)->number, number);
    end(&w);
}

/* ---- sides ----------------------------------------------------------------------------------- */

/* Both sides have equal weight on a straight course; a turn of 20 degrees decides. */
static void decides(double bearing_deg, double turn_dps, sonar_side side) {
    watch w;
    begin(&w, true, 6);
    w.sea.heading_deg = 40;
    w.sea.sources = 1;
    w.sea.source[0] = (plots_source){bearing_deg, 10, 0.9};
    for (int i = 0; i < 300; i++)
        step(&w);
    const sonar_track *t = nearest(&w, bearing_deg);
    const uint64_t number = t->number;
    cr_assert_eq(t->bearings, 2);
    cr_assert(fabs(t->bearing[0].probability - 0.5) < 1e-6);
    cr_assert(t->bearing[0].side != t->bearing[1].side);
    cr_assert(apart_deg(t->bearing[0].deg + t->bearing[1].deg, 80) < 1e-6);
    for (int i = 0; i < 40; i++, w.sea.heading_deg += turn_dps)
        step(&w);
    t = numbered(&w, number);
    cr_assert(t && t->state == SONAR_TRACK_CONFIRMED);
    cr_assert_eq(t->bearings, 1);
    cr_assert_eq(t->bearing[0].side, side);
    cr_assert_lt(apart_deg(t->bearing[0].deg, bearing_deg), 1);
    cr_assert_eq(living(&w), 1);
    end(&w);
}

Test(tracks, a_turn_decides_the_side) {
    decides(100, 0.5, SONAR_SIDE_STARBOARD);
    decides(100, -0.5, SONAR_SIDE_STARBOARD);
    decides(320, 0.5, SONAR_SIDE_PORT);
    decides(300, -0.5, SONAR_SIDE_PORT);
}

/* Heading comes and goes: the numbers stay. */
Test(tracks, heading_comes_and_goes) {
    watch w;
    begin(&w, false, 7);
    w.sea.heading_deg = 123;
    w.sea.sources = 1;
    w.sea.source[0] = (plots_source){10, 10, 0.9};
    uint64_t number = 0;
    for (int i = 0; i < 200; i++) {
        plots_list(&w.sea);
        const double heading = w.sea.heading_deg;
        const bool known = i < 60 || i >= 120;
        sonar_tracks_window window = plots_window(&w.sea);
        window.of[SONAR_FROM_CBF].heading_deg = known ? heading : NAN;
        for (size_t k = 0; k < w.sea.detections && !known; k++)
            w.sea.detection[k].bearing_deg = w.sea.detection[k].az_deg;
        w.count = sonar_tracks_run(w.tracks, &window, w.track);
        const sonar_track *t = nearest(&w, known ? 10 : 10 - 123 + 360);
        cr_assert(i < 20 || t, "%d", i);
        number = number ? number : t ? t->number : 0;
        cr_assert(i < 20 || t->number == number);
    }
    end(&w);
}

/* ---- false tracks ---------------------------------------------------------------------------- */

/* 30 days of windows of one second, at rates of false plots that include what the detector makes of
 * noise. */
enum { DAYS_30 = 30 * 86400 };

static size_t false_tracks(bool line, double rate, int windows, uint64_t seed) {
    watch w;
    begin(&w, line, seed);
    w.sea.false_plots = rate;
    size_t count = 0;
    uint64_t last = 0;
    for (int i = 0; i < windows; i++) {
        step(&w);
        for (size_t k = 0; k < w.count; k++)
            if (w.track[k].state == SONAR_TRACK_CONFIRMED && w.track[k].number > last) {
                last = w.track[k].number;
                count++;
            }
    }
    end(&w);
    return count;
}

Test(tracks, noise_makes_no_tracks, NUMERICAL, .timeout = 300) {
    cr_assert_leq(false_tracks(true, 0.02, DAYS_30, 8), 1);
    cr_assert_leq(false_tracks(false, 0.3, DAYS_30, 9), 1);
    cr_assert_leq(false_tracks(true, 3, DAYS_30 / 120, 10), 1);
}

/* Possible images of a loud contact, as they are marked, begin none. */
Test(tracks, images_begin_no_track) {
    watch w;
    begin(&w, false, 11);
    w.sea.sources = 2;
    w.sea.source[0] = (plots_source){100, 1e4, 1};
    w.sea.source[1] = (plots_source){112, 10, 1};
    for (int i = 0; i < 300; i++) {
        plots_list(&w.sea);
        w.sea.detection[1].image = true;
        run(&w);
    }
    cr_assert_eq(living(&w), 1);
    cr_assert(nearest(&w, 100));
    end(&w);
}

/* MVDR's rows share 15 of 16 parts with those before. */
static sonar_tracks_window sea_of_both(watch *w) {
    sonar_tracks_window window = plots_window(&w->sea);
    window.of[SONAR_FROM_MVDR] = window.of[SONAR_FROM_CBF];
    window.of[SONAR_FROM_MVDR].fresh = 1.0 / 16;
    return window;
}

/* ---- crossings ------------------------------------------------------------------------------- */

static double starboard_deg(const sonar_track *t) {
    return t->bearing[t->bearing[0].side == SONAR_SIDE_PORT && t->bearings == 2].deg;
}

typedef struct score {
    int runs, kept;
    jpda_score ours, textbook;
} score;

static void add_scores(score *score, const watch *w, const jpda *textbook, const uint64_t number[2],
                       int owner[2][2]) {
    double at[SONAR_TRACKS_MOST], named[2];
    size_t count = 0;
    for (size_t i = 0; i < w->count; i++)
        if (w->track[i].state == SONAR_TRACK_CONFIRMED || w->track[i].state == SONAR_TRACK_COASTING)
            at[count++] = starboard_deg(&w->track[i]);
    for (int k = 0; k < 2; k++) {
        const sonar_track *t = numbered(w, number[k]);
        named[k] = t ? starboard_deg(t) : NAN;
    }
    jpda_score_add(&score->ours, &w->sea, count, at, named, owner[0]);
    for (int k = 0; k < 2; k++)
        at[k] = jpda_bearing_deg(textbook, &w->sea, k);
    jpda_score_add(&score->textbook, &w->sea, 2, at, at, owner[1]);
}

typedef struct crossing {
    bool line;
    double relative, common; /* beam widths a minute */
    double tone_hz[2];
} crossing;

/* Two contacts whose bearings cross, on a line or a circle. The textbook's JPDA gets the same
 * plots, and the truth to begin with. */
static void cross(const crossing *of, uint64_t seed, score *score) {
    watch w;
    begin(&w, of->line, seed);
    const bool line = of->line;
    const double beam = w.sea.scan.beam_width_deg, relative_dps = of->relative * beam / 60;
    const double common_dps = of->common * beam / 60;
    memcpy(w.sea.tone_hz, of->tone_hz, sizeof of->tone_hz);
    w.sea.tone_shown = 0.8;
    const double meet_deg = line ? 60 + 60 * sonar_random_uniform(&seed) : 200;
    w.sea.sources = 2;
    jpda textbook = {.begun = false};
    uint64_t number[2] = {0};
    int owner[2][2] = {{-1, -1}, {-1, -1}};
    bool kept = true;
    for (int i = -720; i < 720; i++) {
        for (int k = 0; k < 2; k++)
            w.sea.source[k] =
                (plots_source){meet_deg + (common_dps + (k ? 0.5 : -0.5) * relative_dps) * i,
                               10 * exp(0.5 * (k ? 1 : -1)), 0.9};
        step(&w);
        jpda_run(&textbook, &w.sea);
        for (int k = 0; k < 2 && i == -540; k++) {
            const sonar_track *t = nearest(&w, w.sea.source[k].bearing_deg);
            number[k] = t ? t->number : 0;
        }
        if (i >= -540)
            add_scores(score, &w, &textbook, number, owner);
    }
    for (int k = 0; k < 2; k++) {
        const sonar_track *t = nearest(&w, w.sea.source[k].bearing_deg);
        kept = kept && t && t->number == number[k];
    }
    score->runs++;
    score->kept += kept;
    end(&w);
}

Test(tracks, crossings_keep_their_numbers, .timeout = 300) {
    score score = {0};
    for (uint64_t i = 0; i < 60; i++) {
        uint64_t seed = 100 + i;
        const crossing of = {.line = i % 2,
                             .relative = i % 3 ? 0.2 : 0.5,
                             .common = 0.5 * sonar_random_symmetric(&seed)};
        cross(&of, 100 + i, &score);
    }
    cr_log_info("kept %d of %d; mean GOSPA %.3f beams, %d switches; textbook %.3f, %d", score.kept,
                score.runs, jpda_mean(&score.ours), score.ours.switches, jpda_mean(&score.textbook),
                score.textbook.switches);
    cr_assert_geq(score.kept, 0.95 * score.runs, "%d", score.kept);
    cr_assert_leq(score.ours.switches, score.textbook.switches);
    cr_assert_lt(jpda_mean(&score.ours), jpda_mean(&score.textbook));
}

static int kept_with(bool line, double first_hz, double second_hz) {
    score score = {0};
    for (uint64_t i = 0; i < 30; i++) {
        const crossing of = {.line = line,
                             .relative = 0.2,
                             .common = i % 2 ? 1 : -1,
                             .tone_hz = {first_hz, second_hz}};
        cross(&of, 200 + i, &score);
    }
    return score.kept;
}

/* A rate that is too large to be thought constant for ten minutes in one beam loses which is which;
 * tones tell, if each has its own. */
Test(tracks, tones_tell_apart_what_has_crossed, .timeout = 300) {
    for (int line = 0; line < 2; line++) {
        const int without = kept_with(line, 0, 0), with = kept_with(line, 87.5, 120),
                  same = kept_with(line, 120, 120);
        cr_log_info("%d without tones, %d with, %d with the same tone", without, with, same);
        cr_assert_leq(without, 16, "%d", without);
        cr_assert_geq(with, line ? 20 : 28, "%d", with);
        cr_assert_leq(same, 16, "%d", same);
    }
}

/* A tone of the own ship is in all contacts and in false ones: it begins and keeps nothing. */
Test(tracks, a_tone_in_all_contacts_tells_nothing) {
    watch w;
    begin(&w, false, 31);
    w.sea.false_plots = 0.5;
    w.sea.sources = 2;
    w.sea.tone_shown = 0.9;
    w.sea.tone_hz[0] = w.sea.tone_hz[1] = w.sea.false_tone_hz = 50;
    for (int i = 0; i < 1200; i++) {
        w.sea.source[0] = (plots_source){60 + 0.01 * i, 10, 0.9};
        w.sea.source[1] = (plots_source){200, 20, i < 900 ? 0.9 : 0};
        step(&w);
        cr_assert_leq(living(&w), 2, "window %d", i);
    }
    cr_assert_eq(living(&w), 1, "the second fell silent");
    const sonar_track *t = nearest(&w, 72);
    cr_assert(t);
    cr_assert_eq(t->tones, 1);
    cr_assert_float_eq(t->tone_hz[0], 50, 0.1);
    end(&w);
}

/* Tones are learned in some ten windows, and forgotten when they are not shown any more. */
Test(tracks, tones_come_and_go) {
    watch w;
    begin(&w, true, 32);
    w.sea.sources = 1;
    w.sea.source[0] = (plots_source){70, 10, 1};
    w.sea.tone_shown = 1;
    size_t learned = 0, forgotten = 0;
    for (int i = 0; i < 300; i++) {
        w.sea.tone_hz[0] = i < 150 ? 100 + 0.02 * i : 0; /* a slow drift */
        step(&w);
        const sonar_track *t = nearest(&w, 70);
        if (t && t->tones && i < 150) {
            learned++;
            cr_assert_float_eq(t->tone_hz[0], w.sea.tone_hz[0], 0.6);
        }
        forgotten += t && !t->tones && i >= 150;
    }
    cr_assert(learned > 110 && learned < 140, "%zu", learned);
    cr_assert(forgotten > 120 && forgotten < 145, "%zu", forgotten);
    end(&w);
}

/* Two contacts 0.8 beam widths apart, which the CBF shows as one, drawn together, and MVDR as two;
 * now and then the CBF's peak is fused with neither. No third track begins, and both are right. */
Test(tracks, mvdr_tells_apart) {
    watch w;
    begin(&w, false, 21);
    const double beam = w.sea.scan.beam_width_deg;
    w.sea.sigma_beams = 0.03;
    w.sea.false_plots = 0;
    w.sea.sources = 3; /* the third is the CBF's peak */
    uint64_t seed = 22;
    for (int i = 0; i < 1500; i++) {
        const double apart = (0.8 + 2.2 * exp(-0.0025 * i)) * beam;
        const double at[3] = {100 - apart / 2, 100 + apart / 2, 100};
        const bool merged = apart < 1.3 * beam, fused = sonar_random_uniform(&seed) < 0.8;
        w.sea.detections = 0;
        for (int k = 0; k < 3; k++) {
            const bool cbf = k == 2;
            if (cbf && !merged)
                continue;
            const size_t contact = cbf ? (fused ? 0 : 2) : (size_t)k;
            w.sea.detection[w.sea.detections++] =
                (sonar_detection){.source = cbf ? SONAR_FROM_CBF : SONAR_FROM_MVDR,
                                  .az_deg = at[k] + 0.03 * beam * sonar_random_normal(&seed),
                                  .bearing_deg = at[k],
                                  .mirror_deg = NAN,
                                  .power = 10,
                                  .snr_db = 10,
                                  .sigma = 0.03 * beam * radians,
                                  .contact = contact,
                                  .rests_on = cbf                         ? (fused ? 3 : 1)
                                              : k == 0 && merged && fused ? 3
                                                                          : 2};
        }
        sonar_tracks_window window = sea_of_both(&w);
        w.count = sonar_tracks_run(w.tracks, &window, w.track);
        cr_assert_leq(w.count, 2, "%d", i);
    }
    for (int k = 0; k < 2; k++) {
        const double deg = 100 + (k ? 0.4 : -0.4) * beam;
        const sonar_track *t = nearest(&w, deg);
        cr_assert(t && t->state == SONAR_TRACK_CONFIRMED);
        cr_assert_lt(apart_deg(t->bearing[0].deg, deg), 0.1 * beam);
    }
    end(&w);
}

/* ---- robustness ------------------------------------------------------------------------------ */

Test(tracks, replay_gives_the_same_bytes) {
    watch a, b;
    begin(&a, true, 12);
    begin(&b, true, 12);
    for (int i = 0; i < 500; i++) {
        a.sea.sources = b.sea.sources = 3;
        for (int k = 0; k < 3; k++)
            a.sea.source[k] = b.sea.source[k] = (plots_source){40 + 30 * k + 0.01 * i, 10, 0.7};
        step(&a);
        step(&b);
        cr_assert_eq(a.count, b.count);
        cr_assert_eq(memcmp(a.track, b.track, a.count * sizeof *a.track), 0);
    }
    cr_assert_geq(living(&a), 3);
    end(&a);
    end(&b);
}

/* What is saved and restored goes on as if nothing had been; spoilt text is refused or harmless. */
Test(tracks, restart_keeps_numbers) {
    watch a, b;
    char text[SONAR_TRACKS_TEXT], again[SONAR_TRACKS_TEXT], spoilt[SONAR_TRACKS_TEXT];
    begin(&a, true, 14);
    a.sea.tone_shown = 0.9;
    for (int i = 0; i < 300; i++) {
        a.sea.sources = 3;
        a.sea.tone_hz[1] = 440;
        for (int k = 0; k < 3; k++)
            a.sea.source[k] = (plots_source){40 + 30 * k + 0.01 * i, 10, 0.7};
        a.sea.heading_deg = i > 250 ? i - 250 : 0; /* some sides are decided */
        step(&a);
    }
    const size_t length = sonar_tracks_save(a.tracks, text);
    b = a;
    b.tracks = sonar_tracks_create();
    cr_assert(sonar_tracks_restore(b.tracks, text), "%s", text);
    cr_assert_eq(sonar_tracks_save(b.tracks, again), length);
    cr_assert_str_eq(again, text);
    a.sea.false_plots = b.sea.false_plots = 0; /* tentative tracks are not kept */
    step(&b);
    cr_assert_geq(living(&b), 3);
    cr_assert_eq(nearest(&b, a.sea.source[1].bearing_deg)->tones, 1);
    for (int k = 0; k < 3; k++) {
        const double deg = a.sea.source[k].bearing_deg;
        cr_assert_eq(nearest(&b, deg)->number, nearest(&a, deg)->number);
    }
    uint64_t seed = 15;
    for (int i = 0; i < 3000; i++) {
        memcpy(spoilt, text, length + 1);
        for (int k = 0; k < 3; k++)
            spoilt[sonar_random_bits(&seed) % length] =
                "0123456789abcdefpx+-. \n"[sonar_random_bits(&seed) % 23];
        spoilt[i % 3 ? length : sonar_random_bits(&seed) % length] = 0;
        sonar_tracks_destroy(b.tracks);
        b.tracks = sonar_tracks_create();
        sonar_tracks_restore(b.tracks, spoilt);
        for (int k = 0; k < 3; k++) {
            step(&b);
            for (size_t t = 0; t < b.count; t++)
                cr_assert(isfinite(b.track[t].bearing[0].deg), "%s", spoilt);
        }
    }
    end(&a);
    end(&b);
}

/* What is expected of a track is what the next window says if nothing is heard in it, and asking
 * changes nothing. */
static void expect_next(bool line, bool heading) {
    watch w;
    char before[SONAR_TRACKS_TEXT], after[SONAR_TRACKS_TEXT];
    uint64_t number = 0;
    bool lost = false;
    begin(&w, line, 16);
    w.sea.heading_deg = 20;
    w.sea.sources = 1;
    w.sea.source[0] = (plots_source){70, 10, 0.9};
    cr_assert_eq(sonar_tracks_expect(w.tracks, 1, 0).state, SONAR_TRACK_UNKNOWN);
    for (int i = 0; i < 600 && !lost; i++, w.sea.source[0].bearing_deg += 0.05) {
        w.sea.source[0].detected = i < 300 && i % 4 < 3 ? 0.9 : 0;
        sonar_track_place place = sonar_tracks_expect(w.tracks, number, w.sea.step_s);
        plots_list(&w.sea);
        sonar_tracks_window window = plots_window(&w.sea);
        for (size_t k = 0; k < w.sea.detections && !heading; k++)
            w.sea.detection[k].bearing_deg -= 20;
        window.of[SONAR_FROM_CBF].heading_deg = heading ? 20 : NAN;
        w.count = sonar_tracks_run(w.tracks, &window, w.track);
        const sonar_track *t = number ? numbered(&w, number) : w.count ? &w.track[0] : NULL;
        if (number && t && i % 4 == 3 && place.state != SONAR_TRACK_LOST) {
            cr_assert_float_eq(place.az_deg, t->az_deg, 1e-9);
            cr_assert_eq(!!isnan(place.bearing_deg), !heading);
            cr_assert(!heading || apart_deg(place.bearing_deg, t->bearing[0].deg) < 1e-9);
            cr_assert(place.state == t->state || t->state == SONAR_TRACK_COASTING ||
                      t->state == SONAR_TRACK_LOST);
        }
        number = t ? t->number : number;
        lost = number && (!t || t->state == SONAR_TRACK_LOST);
        sonar_tracks_save(w.tracks, before);
        sonar_tracks_expect(w.tracks, number, 100);
        sonar_tracks_save(w.tracks, after);
        cr_assert_str_eq(before, after);
    }
    cr_assert(lost);
    cr_assert_eq(sonar_tracks_expect(w.tracks, number, 0).state, SONAR_TRACK_LOST);
    cr_assert_eq(sonar_tracks_expect(w.tracks, number + 1000, 0).state, SONAR_TRACK_UNKNOWN);
    cr_assert_eq(sonar_tracks_expect(w.tracks, 0, 0).state, SONAR_TRACK_UNKNOWN);
    end(&w);
}

Test(tracks, expects_what_comes_if_nothing_is_heard) {
    expect_next(true, true);
    expect_next(true, false);
    expect_next(false, true);
    expect_next(false, false);
}

/* More contacts than tracks, in every place, for a while; then values that are no numbers. */
Test(tracks, crowds_and_nonsense) {
    watch w;
    begin(&w, true, 13);
    sonar_detection all[SONAR_DETECTIONS_MOST * 2];
    for (int i = 0; i < 300; i++) {
        w.sea.false_plots = SONAR_DETECTIONS_MOST;
        plots_list(&w.sea);
        const size_t n = w.sea.detections;
        memcpy(all, w.sea.detection, n * sizeof *all);
        memcpy(all + n, w.sea.detection, n * sizeof *all);
        for (size_t k = 0; k < n; k++)
            all[n + k].contact += n;
        for (size_t k = 0; i > 200 && k < 2 * n; k += 3)
            all[k].bearing_deg = all[k].sigma = all[k].bearing_sigma_deg = NAN;
        sonar_tracks_window window = plots_window(&w.sea);
        window.detection = all;
        window.detections = 2 * n;
        window.since_s = i % 7 ? 1 : i % 2 ? 0 : 1e5;
        w.count = sonar_tracks_run(w.tracks, &window, w.track);
        cr_assert_leq(w.count, SONAR_TRACKS_MOST);
        for (size_t k = 0; k < w.count; k++) {
            const sonar_track *t = &w.track[k];
            cr_assert(t->existence >= 0 && t->existence <= 1 + 1e-9);
            cr_assert(isfinite(t->bearing[0].deg) && isfinite(t->bearing[0].rate_dpm) &&
                      isfinite(t->bearing[0].sigma_deg));
        }
    }
    end(&w);
}

/* ---- contacts of the spectrum ---------------------------------------------------------------- */

static sonar_faint_contact faint_at(const watch *w, double bearing_deg, double probability) {
    const double az = (bearing_deg - w->sea.heading_deg) * radians, beam = 3.2 * radians;
    return (sonar_faint_contact){.probability = probability,
                                 .snr_db = 2,
                                 .az_deg = sonar_modulo_turn(az / radians),
                                 .place = w->sea.scan.cone ? cos(az) : az,
                                 .rate_ps =
                                     w->sea.scan.cone ? -0.01 * radians * sin(az) : 0.01 * radians,
                                 .var_place = 0.04 * beam * beam,
                                 .var_rate = pow(0.2 * beam / 60, 2),
                                 .power = 2};
}

static void step_faint(watch *w, double bearing_deg, double probability) {
    plots_list(&w->sea);
    sonar_tracks_window window = plots_window(&w->sea);
    const sonar_faint_contact faint = faint_at(w, bearing_deg, probability);
    window.faint = &faint;
    window.faints = probability > 0;
    w->count = sonar_tracks_run(w->tracks, &window, w->track);
}

/* A contact that grows from one of the spectrum to one that is listed, and fades again, is one
 * track. One that is uncertain begins none. When the spectrum shows it no more, the track ends. */
static void grows_and_fades(bool line) {
    watch w;
    begin(&w, line, 5);
    w.sea.false_plots = 0;
    double bearing = 60;
    for (int i = 0; i < 60; i++)
        step_faint(&w, bearing, 0.99);
    cr_assert_eq(w.count, 0);
    uint64_t number = 0;
    for (int i = 0; i < 900; i++, bearing += 0.01) {
        const bool listed = i >= 300 && i < 600;
        w.sea.sources = listed;
        w.sea.source[0] = (plots_source){bearing, 6, 0.9};
        step_faint(&w, bearing, listed ? 0 : 0.99995);
        cr_assert_eq(w.count, 1, "%d: %zu", i, w.count);
        number = number ? number : w.track[0].number;
        cr_assert_eq(w.track[0].number, number);
        cr_assert_eq(w.track[0].state, SONAR_TRACK_CONFIRMED, "%d", i);
        const unsigned spectrum = 1u << SONAR_FROM_SPECTRUM;
        cr_assert_eq(w.track[0].rests_on, listed && i > 310    ? 1u
                                          : i < 300 || i > 610 ? spectrum
                                                               : w.track[0].rests_on);
        const sonar_track_bearing *b = &w.track[0].bearing[0];
        const double other = w.track[0].bearings == 2 ? w.track[0].bearing[1].deg : b->deg;
        cr_assert_lt(fmin(apart_deg(b->deg, bearing), apart_deg(other, bearing)), 1, "%d", i);
        if (i > 100 && i < 300)
            cr_assert_float_eq(fabs(b->rate_dpm), 0.6, 0.2, "%d: %g", i, b->rate_dpm);
    }
    w.sea.sources = 0;
    int left = 0;
    for (; left < 600 && w.count; left++)
        step_faint(&w, 200, 0.5); /* elsewhere, and uncertain */
    cr_assert_lt(left, 400);
    end(&w);
}

Test(tracks, grows_out_of_the_spectrum_and_fades_into_it) {
    grows_and_fades(false);
    grows_and_fades(true);
}
