/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Trained choices: the chooser against a scripted clock, the memory model against exact lines and
 * the thesis's own figures, the table against damage, --train and --explain as programs. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/core.h"
#include "train/choices.h"
#include "process.h"
#include "train/train.h"

/* ---- choosing -------------------------------------------------------------------------------- */

enum { MS = 1000000 };

static int64_t fake_now;
static char calls[2048]; /* first letters of the candidates, in the order they ran */

static int64_t fake_clock(void *ctx) {
    (void)ctx;
    return fake_now;
}

static const sonar_train_clock fake = {fake_clock, NULL};

/* A candidate that takes the times of a list, the last for ever. */
typedef struct script {
    char letter;
    int64_t ns[32];
    size_t count, at;
    size_t fails_at; /* run that fails, counted from 1; 0: none */
} script;

static sonar_code play(void *arg, sonar_error *err) {
    script *s = arg;
    size_t index = s->at < s->count ? s->at : s->count - 1;
    size_t used = strlen(calls);
    if (used + 1 < sizeof calls)
        calls[used] = s->letter;
    fake_now += s->ns[index];
    if (++s->at == s->fails_at)
        return sonar_fail(err, SONAR_EUNAVAILABLE, "script", "out of order");
    return SONAR_OK;
}

static const sonar_train_plan plan = {.warm_up = 1,
                                      .least = 5,
                                      .most = 51,
                                      .stable_share = 0.02,
                                      .tie_share = 0.03,
                                      .budget_ns = (int64_t)1000 * MS};

static sonar_train_decision decision;

static sonar_code choose(script *scripts, size_t count, const sonar_train_plan *how) {
    sonar_train_candidate candidates[SONAR_TRAIN_CANDIDATES];
    static const char *const names[] = {"a", "b", "c", "d"};
    sonar_error err = {0};
    for (size_t i = 0; i < count; i++) {
        scripts[i].letter = *names[i];
        candidates[i] = (sonar_train_candidate){names[i], play, &scripts[i]};
    }
    return sonar_train_choose("way", candidates, count, how, &fake, &decision, &err);
}

Test(train, the_fastest_wins_wherever_it_stands) {
    for (size_t fastest = 0; fastest < 3; fastest++) {
        script s[3] = {{.ns = {5 * MS}, .count = 1},
                       {.ns = {5 * MS}, .count = 1},
                       {.ns = {5 * MS}, .count = 1}};
        s[fastest].ns[0] = 2 * MS;
        cr_assert_eq(choose(s, 3, &plan), SONAR_OK);
        cr_assert_eq(decision.chosen, fastest);
        cr_assert_float_eq(decision.candidate[fastest].median_s, 2e-3, 1e-12);
        cr_assert(strstr(decision.reason, "2.5 times"), "%s", decision.reason);
    }
}

Test(train, among_equals_the_first_wins) {
    script near_tie[2] = {{.ns = {1020000}, .count = 1}, {.ns = {1000000}, .count = 1}};
    cr_assert_eq(choose(near_tie, 2, &plan), SONAR_OK);
    cr_assert_eq(decision.chosen, 0);
    cr_assert(strstr(decision.reason, "simpler"), "%s", decision.reason);
    script no_tie[2] = {{.ns = {1040000}, .count = 1}, {.ns = {1000000}, .count = 1}};
    cr_assert_eq(choose(no_tie, 2, &plan), SONAR_OK);
    cr_assert_eq(decision.chosen, 1);
}

Test(train, a_tie_may_not_go_to_an_unavailable_one) {
    script s[3] = {{.ns = {MS}, .count = 1, .fails_at = 1},
                   {.ns = {MS}, .count = 1},
                   {.ns = {MS}, .count = 1}};
    cr_assert_eq(choose(s, 3, &plan), SONAR_OK);
    cr_assert_eq(decision.chosen, 1);
}

Test(train, warm_up_does_not_count) {
    script s[2] = {{.ns = {900 * MS, 2 * MS}, .count = 2}, {.ns = {MS / 2, 3 * MS}, .count = 2}};
    sonar_train_plan patient = plan;
    patient.budget_ns *= 100;
    cr_assert_eq(choose(s, 2, &patient), SONAR_OK);
    cr_assert_eq(decision.chosen, 0);
    cr_assert_float_eq(decision.candidate[0].median_s, 2e-3, 1e-12);
    cr_assert_float_eq(decision.candidate[1].median_s, 3e-3, 1e-12);
}

Test(train, outliers_do_not_decide) {
    /* the means say b, the medians a */
    script s[2] = {{.ns = {MS, MS, 90 * MS, MS, MS, 70 * MS, MS, MS, MS, 80 * MS, MS}, .count = 11},
                   {.ns = {2 * MS}, .count = 1}};
    cr_assert_eq(choose(s, 2, &plan), SONAR_OK);
    cr_assert_eq(decision.chosen, 0);
}

Test(train, medians_of_odd_and_even_counts) {
    script s[1] = {{.ns = {MS, 4 * MS, 1 * MS, 9 * MS, 2 * MS}, .count = 5}};
    sonar_train_plan exact = {.warm_up = 1, .least = 4, .most = 4, .budget_ns = INT64_MAX};
    cr_assert_eq(choose(s, 1, &exact), SONAR_OK);
    cr_assert_eq(decision.candidate[0].repetitions, 4);
    cr_assert_float_eq(decision.candidate[0].median_s, 3e-3, 1e-12);
    exact.warm_up = 0;
    exact.least = exact.most = 3;
    s[0].at = 1;
    cr_assert_eq(choose(s, 1, &exact), SONAR_OK);
    cr_assert_float_eq(decision.candidate[0].median_s, 4e-3, 1e-12);
    cr_assert(strstr(decision.reason, "only"), "%s", decision.reason);
}

Test(train, candidates_take_turns) {
    script s[3] = {{.ns = {MS}, .count = 1}, {.ns = {MS}, .count = 1}, {.ns = {MS}, .count = 1}};
    cr_assert_eq(choose(s, 3, &plan), SONAR_OK);
    cr_assert_eq(strlen(calls), 3 * (plan.warm_up + plan.least));
    for (size_t i = 0; calls[i]; i++)
        cr_assert_eq(calls[i], "abc"[i % 3], "%s", calls);
}

/* The clock rate drops for good after some rounds: both suffer alike. */
Test(train, drift_hits_all_alike) {
    script s[2] = {{.count = 32}, {.count = 32}};
    for (size_t i = 0; i < 32; i++) {
        int64_t slow = i < 8 ? 1 : 3;
        s[0].ns[i] = slow * 1100000;
        s[1].ns[i] = slow * 1000000;
    }
    cr_assert_eq(choose(s, 2, &plan), SONAR_OK);
    cr_assert_eq(decision.chosen, 1);
}

Test(train, steady_times_end_early_and_restless_ones_do_not) {
    script steady[1] = {{.ns = {MS}, .count = 1}};
    cr_assert_eq(choose(steady, 1, &plan), SONAR_OK);
    cr_assert_eq(decision.candidate[0].repetitions, plan.least);
    script restless[1] = {{.count = 32}};
    for (size_t i = 0; i < 32; i++)
        restless[0].ns[i] = (i % 2 ? 1 : 2) * MS;
    sonar_train_plan some = plan;
    some.most = 31;
    cr_assert_eq(choose(restless, 1, &some), SONAR_OK);
    cr_assert_eq(decision.candidate[0].repetitions, 31);
}

Test(train, the_budget_ends_it) {
    script s[2] = {{.ns = {100 * MS, 99 * MS, 300 * MS, 50 * MS}, .count = 4},
                   {.ns = {100 * MS}, .count = 1}};
    cr_assert_eq(choose(s, 2, &plan), SONAR_OK);
    /* rounds end at 200, 399, 799, 949, 1099 ms: the first is warm-up */
    cr_assert_eq(decision.candidate[0].repetitions, 4, "%zu", decision.candidate[0].repetitions);
    sonar_train_plan none = plan;
    none.budget_ns = 0;
    cr_assert_eq(choose(s, 2, &none), SONAR_OK);
    cr_assert_eq(decision.candidate[0].repetitions, 1);
    cr_assert_eq(decision.candidate[1].repetitions, 1);
}

Test(train, a_candidate_may_fail_at_any_time) {
    for (size_t fails_at = 1; fails_at <= plan.warm_up + plan.least; fails_at++) {
        script s[2] = {{.ns = {MS}, .count = 1, .fails_at = fails_at},
                       {.ns = {5 * MS}, .count = 1}};
        cr_assert_eq(choose(s, 2, &plan), SONAR_OK);
        cr_assert_eq(decision.chosen, 1);
        cr_assert(!decision.candidate[0].available);
        cr_assert_str_eq(decision.candidate[0].note, "script: out of order");
        cr_assert_eq(s[0].at, fails_at, "ran again after it had failed");
    }
}

Test(train, when_all_fail_that_is_an_error) {
    script s[2] = {{.ns = {MS}, .count = 1, .fails_at = 1},
                   {.ns = {MS}, .count = 1, .fails_at = 3}};
    cr_assert_eq(choose(s, 2, &plan), SONAR_EUNAVAILABLE);
    cr_assert_eq(sonar_train_choose("way", NULL, 0, &plan, &fake, &decision, NULL), SONAR_EINVAL);
    sonar_train_candidate many[SONAR_TRAIN_CANDIDATES + 1] = {0};
    cr_assert_eq(
        sonar_train_choose("way", many, SONAR_TRAIN_CANDIDATES + 1, &plan, &fake, &decision, NULL),
        SONAR_EINVAL);
}

/* ---- host memory ----------------------------------------------------------------------------- */

Test(train, the_fit_finds_an_exact_line) {
    const double bytes[] = {4096, 65536, 1048576, 67108864};
    const sonar_train_line lines[] = {{93e-6, 1.7e-10}, {0, 3e-10}, {5e-3, 0}};
    for (size_t i = 0; i < 3; i++) {
        double seconds[4];
        sonar_train_line line;
        for (int k = 0; k < 4; k++)
            seconds[k] = lines[i].offset_s + bytes[k] * lines[i].s_per_byte;
        for (size_t count = 2; count <= 4; count++) {
            cr_assert_eq(sonar_train_fit(count, bytes, seconds, &line, NULL), SONAR_OK);
            cr_assert_float_eq(line.offset_s, lines[i].offset_s, 1e-9 * seconds[3]);
            cr_assert_float_eq(line.s_per_byte, lines[i].s_per_byte, 1e-6 * seconds[3] / bytes[0]);
        }
    }
}

/* No coefficient below zero, and the best line among those: moving it is never better. */
Test(train, the_fit_is_the_best_that_makes_sense) {
    const double bytes[] = {1000, 2000, 8000};
    const double cases[][3] = {{1, 3, 20}, {20, 3, 1}, {2, 3.5, 11}};
    for (int i = 0; i < 3; i++) {
        sonar_train_line line;
        cr_assert_eq(sonar_train_fit(3, bytes, cases[i], &line, NULL), SONAR_OK);
        cr_assert(line.offset_s >= 0 && line.s_per_byte >= 0);
        double least = INFINITY;
        for (int a = -1; a <= 1; a++)
            for (int b = -1; b <= 1; b++) {
                double offset = line.offset_s + a * 1e-3, slope = line.s_per_byte + b * 1e-6;
                double sum = 0;
                if (offset < 0 || slope < 0)
                    continue;
                for (int k = 0; k < 3; k++)
                    sum += pow((offset + slope * bytes[k]) / cases[i][k] - 1, 2);
                if (a || b)
                    least = fmin(least, sum);
            }
        double own = 0;
        for (int k = 0; k < 3; k++)
            own += pow((line.offset_s + line.s_per_byte * bytes[k]) / cases[i][k] - 1, 2);
        cr_assert_leq(own, least);
    }
}

Test(train, the_fit_refuses_what_is_no_measurement) {
    sonar_train_line line;
    const double bytes[] = {10, 10, 20};
    cr_assert_eq(sonar_train_fit(0, bytes, bytes, &line, NULL), SONAR_EINVAL);
    cr_assert_eq(sonar_train_fit(1, bytes, bytes, &line, NULL), SONAR_EINVAL);
    cr_assert_eq(sonar_train_fit(2, bytes, bytes, &line, NULL), SONAR_EINVAL);
    cr_assert_eq(sonar_train_fit(3, bytes, bytes, &line, NULL), SONAR_OK);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(sonar_train_fit(3, bytes, (double[]){1, 1, (double[]){0, NAN, INFINITY}[i]},
                                     &line, NULL),
                     SONAR_EINVAL);
}

/* Thesis, table 4.5: the image and the result are worth pinning, the two small matrices are not. */
Test(train, memory_is_chosen_as_in_the_thesis) {
    const sonar_train_memory kinds[] = {
        {.kind = "pageable", .to_device = {0, 1 / 3.3e9}, .from_device = {0, 1 / 2.9e9}},
        {.kind = "pinned",
         .make = {0.1747e-3, 6.727e-11}, /* equations 4.5 and 4.6 */
         .to_device = {0, 1 / 5.9e9},
         .from_device = {0, 1 / 6.2e9}}};
    sonar_train_buffer image = {.bytes = 149501632, .to_device = 1},
                       covariance = {.bytes = 200704, .from_device = 1},
                       matrix = {.bytes = 200704, .to_device = 1},
                       result = {.bytes = 72081144, .from_device = 1};
    sonar_train_buffer *const all[] = {&image, &covariance, &matrix, &result};
    for (int i = 0; i < 4; i++)
        sonar_train_choose_memory(kinds, 2, all[i]);
    cr_assert_str_eq(image.chosen, "pinned");
    cr_assert_str_eq(covariance.chosen, "pageable");
    cr_assert_str_eq(matrix.chosen, "pageable");
    cr_assert_str_eq(result.chosen, "pinned");
    matrix.to_device = 1000; /* used again and again it is worth it too */
    sonar_train_choose_memory(kinds, 2, &matrix);
    cr_assert_str_eq(matrix.chosen, "pinned");
    cr_assert_float_eq(sonar_train_memory_s(&kinds[0], &image), 149501632 / 3.3e9, 1e-9);
}

/* ---- a shape --------------------------------------------------------------------------------- */

static const sonar_train_shape shape = {.sensors = 128,
                                        .sensors_used = 126,
                                        .channels = 130,
                                        .length = 8192,
                                        .hop = 4096,
                                        .bins = 870,
                                        .directions = 459,
                                        .ranges = 6,
                                        .lofar_bins = 871,
                                        .cbf_bins = 358,
                                        .mvdr_length = 2048,
                                        .mvdr_hop = 1024,
                                        .mvdr_bins = 90,
                                        .mvdr_directions = 460,
                                        .mvdr_snapshots = 64,
                                        .mvdr_new = 7,
                                        .mvdr_sweeps = 30,
                                        .mvdr_own_dft = 1,
                                        .mvdr_two_sided = 0,
                                        .workers = 2,
                                        .sample_bytes = 4,
                                        .cbf_length = 8192,
                                        .cbf_hop = 4096,
                                        .cbf_snapshots = 1};

/* ---- placement ------------------------------------------------------------------------------- */

/* The stages of both sides timed with the fake clock, in ms; a time of 0 is a stage that fails. */
static void time_sides(const int64_t ms[SONAR_TRAIN_SIDES][SONAR_TRAIN_STAGES],
                       sonar_train_side side[SONAR_TRAIN_SIDES]) {
    static const char *const names[SONAR_TRAIN_SIDES] = {"cpu", "cuda"};
    for (int stage = 0; stage < SONAR_TRAIN_STAGES; stage++) {
        script s[SONAR_TRAIN_SIDES] = {{.ns = {ms[0][stage] * MS}, .count = 1},
                                       {.ns = {ms[1][stage] * MS}, .count = 1}};
        for (int i = 0; i < SONAR_TRAIN_SIDES; i++)
            s[i].fails_at = ms[i][stage] == 0;
        choose(s, SONAR_TRAIN_SIDES, &plan);
        for (int i = 0; i < SONAR_TRAIN_SIDES; i++) {
            side[i].name = names[i];
            side[i].stage[stage] = decision.candidate[i];
        }
    }
}

static const sonar_train_timing *candidate_named(const char *name) {
    for (size_t c = 0; c < decision.candidates; c++)
        if (!strcmp(decision.candidate[c].name, name))
            return &decision.candidate[c];
    cr_assert_fail("no candidate %s", name);
    return NULL;
}

static const char *assign(const sonar_train_shape *s,
                          const int64_t ms[SONAR_TRAIN_SIDES][SONAR_TRAIN_STAGES],
                          const sonar_train_crossing *crossing) {
    sonar_train_side side[SONAR_TRAIN_SIDES];
    time_sides(ms, side);
    cr_assert_eq(sonar_train_assign(s, side, 2, crossing, 0.03, &decision, NULL), SONAR_OK);
    return decision.candidate[decision.chosen].name;
}

static const sonar_train_crossing bus = {true, {1e-4, 1e-10}, {2e-4, 3e-10}};

Test(train, a_mixed_chain_wins_by_its_stages) {
    const int64_t ms[2][3] = {{10, 10, 1}, {1, 2, 30}};
    const double sub_windows = 8.0 * 128 * 90 * 7;
    cr_assert_str_eq(assign(&shape, ms, &bus), "cuda.cuda.cpu");
    cr_assert_eq(decision.candidates, 8);
    /* the MVDR's snapshots come back; the CBF's bins stay where they are */
    cr_assert_float_eq(candidate_named("cuda.cuda.cpu")->median_s,
                       4e-3 + 2e-4 + 3e-10 * sub_windows, 1e-9);
    cr_assert_float_eq(candidate_named("cpu")->median_s, 21e-3, 1e-9);
    cr_assert_float_eq(candidate_named("cuda")->median_s, 33e-3, 1e-9);
    /* both kinds of bins, each once, towards the device */
    cr_assert_float_eq(candidate_named("cpu.cuda.cuda")->median_s,
                       42e-3 + 2e-4 + 1e-10 * (sub_windows + 8.0 * 128 * 870), 1e-9);
    sonar_train_shape many = shape;
    many.cbf_snapshots = 5;
    assign(&many, ms, &bus);
    cr_assert_float_eq(candidate_named("cpu.cuda.cpu")->median_s,
                       13e-3 + 1e-4 + 5 * 1e-10 * 8 * 128 * 870, 1e-9);
    assign(&shape, ms, &bus);
    cr_assert_float_eq(candidate_named("cpu.cuda.cpu")->median_s,
                       13e-3 + 1e-4 + 1e-10 * 8 * 128 * 870, 1e-9);
    cr_assert_eq(candidate_named("cuda.cuda.cpu")->repetitions, plan.least);
}

Test(train, bins_that_two_share_cross_once) {
    const int64_t ms[2][3] = {{1, 10, 10}, {10, 1, 1}};
    sonar_train_shape one_dft = shape;
    one_dft.mvdr_own_dft = 0;
    cr_assert_str_eq(assign(&one_dft, ms, &bus), "cpu.cuda.cuda");
    const double once = 1e-4 + 1e-10 * 8 * 128 * 870;
    cr_assert_float_eq(candidate_named("cpu.cuda.cuda")->median_s, 3e-3 + once, 1e-9);
    cr_assert_float_eq(candidate_named("cpu.cpu.cuda")->median_s, 12e-3 + once, 1e-9);
    cr_assert_float_eq(candidate_named("cpu.cuda.cpu")->median_s, 12e-3 + once, 1e-9);
}

Test(train, crossing_can_cost_more_than_it_gains) {
    const int64_t ms[2][3] = {{10, 10, 1}, {1, 2, 7}};
    sonar_train_crossing slow = bus;
    cr_assert_str_eq(assign(&shape, ms, &slow), "cuda.cuda.cpu");
    slow.from_device.offset_s = 7e-3;
    cr_assert_str_eq(assign(&shape, ms, &slow), "cuda");
    slow = bus;
    slow.from_device.s_per_byte = 7e-3 / (8.0 * 128 * 90 * 7);
    cr_assert_str_eq(assign(&shape, ms, &slow), "cuda");
    slow = (sonar_train_crossing){.known = false};
    cr_assert_str_eq(assign(&shape, ms, &slow), "cuda");
    cr_assert(!candidate_named("cuda.cuda.cpu")->available);
    cr_assert(strstr(candidate_named("cuda.cuda.cpu")->note, "not known"));
}

Test(train, a_uniform_chain_wins_ties) {
    const sonar_train_crossing nothing = {.known = true};
    const int64_t near[2][3] = {{100, 400, 500}, {100, 400, 480}};
    cr_assert_str_eq(assign(&shape, near, &nothing), "cpu");
    const int64_t mixed[2][3] = {{500, 500, 480}, {100, 400, 500}}; /* 980 against 1000 */
    cr_assert_str_eq(assign(&shape, mixed, &nothing), "cuda");
    cr_assert(strstr(decision.reason, "as fast as cuda.cuda.cpu"), "%s", decision.reason);
    const int64_t among_mixed[2][3] = {{100, 500, 10}, {98, 100, 500}}; /* 210, and 208 */
    cr_assert_str_eq(assign(&shape, among_mixed, &nothing), "cuda.cuda.cpu");
    const int64_t apart[2][3] = {{500, 500, 460}, {100, 400, 500}}; /* 960 */
    cr_assert_str_eq(assign(&shape, apart, &nothing), "cuda.cuda.cpu");
}

Test(train, what_a_side_cannot_do_it_is_not_given) {
    const int64_t ms[2][3] = {{10, 10, 10}, {1, 1, 0}};
    cr_assert_str_eq(assign(&shape, ms, &bus), "cuda.cuda.cpu");
    const sonar_train_timing *uniform = candidate_named("cuda");
    cr_assert(!uniform->available && uniform->repetitions == 0 && uniform->median_s == 0);
    cr_assert_str_eq(uniform->note, "mvdr_jacobi on cuda: script: out of order");
    size_t available = 0;
    for (size_t c = 0; c < decision.candidates; c++)
        available += decision.candidate[c].available;
    cr_assert_eq(available, 4);
    const int64_t nowhere[2][3] = {{10, 10, 0}, {1, 1, 0}};
    sonar_train_side side[SONAR_TRAIN_SIDES];
    time_sides(nowhere, side);
    cr_assert_eq(sonar_train_assign(&shape, side, 2, &bus, 0.03, &decision, NULL),
                 SONAR_EUNAVAILABLE);
    cr_assert(decision.reason[0]);
}

Test(train, assignments_have_names_of_their_own) {
    static const char *const sides[] = {"cpu", "cuda"};
    sonar_train_shape no_mvdr = shape;
    no_mvdr.mvdr_bins = no_mvdr.mvdr_new = no_mvdr.mvdr_own_dft = 0;
    cr_assert_eq(sonar_train_stages(&shape), 3);
    cr_assert_eq(sonar_train_stages(&no_mvdr), 2);
    for (size_t stages = 2; stages <= 3; stages++)
        for (size_t i = 0; i < sonar_train_assignments(2, stages); i++) {
            sonar_train_assignment want = sonar_train_assignment_at(stages, i), found;
            char name[32], spelt[64] = "";
            sonar_train_assignment_name(sides, stages, i, name);
            cr_assert(sonar_train_assignment_find(sides, 2, stages, name, &found));
            cr_assert_eq(memcmp(&found, &want, sizeof want), 0, "%s", name);
            for (size_t s = 0; s < stages; s++)
                strcat(strcat(spelt, s ? "." : ""), sides[want.side[s]]);
            cr_assert(strcmp(name, spelt) == 0 || (i < 2 && !strcmp(name, sides[i])), "%s", name);
            cr_assert_eq(sonar_train_assignment_find(sides, 1, stages, name, &found), i == 0);
        }
    sonar_train_assignment unused;
    static const char *const foreign[] = {
        "", "vulkan", "cuda.cuda", "cpu.cpu.cpu", "cpu.cuda.", "cpu.cuda.cuda.cpu"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        cr_assert(!sonar_train_assignment_find(sides, 2, 3, foreign[i], &unused), "'%s'",
                  foreign[i]);
    const int64_t ms[2][3] = {{10, 1, 0}, {1, 10, 0}};
    cr_assert_str_eq(assign(&no_mvdr, ms, &bus), "cuda.cpu");
    cr_assert_eq(decision.candidates, 4);
    sonar_train_side alone[SONAR_TRAIN_SIDES];
    time_sides((const int64_t[2][3]){{1, 2, 3}, {0}}, alone);
    cr_assert_eq(sonar_train_assign(&shape, alone, 1, &bus, 0.03, &decision, NULL), SONAR_OK);
    cr_assert_eq(decision.candidates, 1);
    cr_assert_float_eq(decision.candidate[0].median_s, 6e-3, 1e-9);
}

/* ---- the built-in rule ----------------------------------------------------------------------- */

static double estimated(const sonar_train_shape *s, bool gpu) {
    double seconds[SONAR_TRAIN_STAGES];
    sonar_train_rates rates = gpu ? sonar_train_gpu_rates() : sonar_train_cpu_rates(s->workers);
    sonar_train_estimate(s, &rates, seconds);
    return seconds[SONAR_TRAIN_DFT] + seconds[SONAR_TRAIN_CBF] + seconds[SONAR_TRAIN_MVDR];
}

Test(train, the_rule_keeps_small_arrays_on_the_cpu) {
    sonar_train_shape small = {.sensors = 4,
                               .sensors_used = 4,
                               .channels = 4,
                               .length = 256,
                               .hop = 128,
                               .bins = 32,
                               .directions = 37,
                               .lofar_bins = 32,
                               .cbf_bins = 16,
                               .cbf_length = 256,
                               .cbf_snapshots = 1,
                               .workers = 2};
    double seconds[SONAR_TRAIN_STAGES];
    sonar_train_rates rates = sonar_train_cpu_rates(2);
    cr_assert_lt(estimated(&small, false), estimated(&small, true));
    cr_assert_gt(estimated(&shape, false), estimated(&shape, true));
    sonar_train_estimate(&small, &rates, seconds);
    cr_assert_eq(seconds[SONAR_TRAIN_MVDR], 0);
}

Test(train, the_rule_counts_what_there_is_to_do) {
    for (int gpu = 0; gpu < 2; gpu++) {
        sonar_train_shape more = shape;
        double base = estimated(&shape, gpu);
        more.sensors_used *= 2;
        cr_assert_gt(estimated(&more, gpu), base);
        more = shape, more.ranges++;
        cr_assert_gt(estimated(&more, gpu), base);
        more = shape, more.mvdr_snapshots *= 2;
        cr_assert_gt(estimated(&more, gpu), base);
        more = shape, more.cbf_length *= 2;
        cr_assert_gt(estimated(&more, gpu), base);
    }
    /* by hand: 8 operations for 126 sensors in 459 * (871 + 6 * 358) looks, and the start */
    double seconds[SONAR_TRAIN_STAGES];
    const sonar_train_rates unit = {.fft_flops = 1, .beam_flops = 1, .eigen_flops = 1};
    sonar_train_estimate(&shape, &unit, seconds);
    cr_assert_float_eq(seconds[SONAR_TRAIN_CBF], 8.0 * 126 * 459 * (871 + 6 * 358), 1);
    cr_assert_float_eq(seconds[SONAR_TRAIN_DFT], 126 * 2.5 * (8192 * 13 + 7 * 2048 * 11), 1);
    sonar_train_shape many = shape;
    many.cbf_length = 1024;
    many.cbf_snapshots = 15;
    sonar_train_estimate(&many, &unit, seconds);
    cr_assert_float_eq(seconds[SONAR_TRAIN_CBF], 15 * 8.0 * 126 * 459 * (871 + 6 * 358), 1);
    cr_assert_float_eq(seconds[SONAR_TRAIN_DFT], 126 * 2.5 * (15 * 1024 * 10 + 7 * 2048 * 11), 1);
}

/* What was measured for one stage: sonar-bench's cases, on an H200 (docs/benchmarks/h200.md, one
 * window by itself) and on two cores with AVX-512. */
typedef struct measured {
    sonar_train_stage stage;
    size_t sensors, snapshots; /* snapshots: of the MVDR's block, 100 bins, 180 angles */
    double us;
} measured;

static double estimate_of(const measured *m, bool gpu) {
    double seconds[SONAR_TRAIN_STAGES];
    sonar_train_rates rates = gpu ? sonar_train_gpu_rates() : sonar_train_cpu_rates(2);
    sonar_train_shape standard = {.sensors = m->sensors,
                                  .sensors_used = m->sensors,
                                  .cbf_length = 8192, /* channels 0: samples there already */
                                  .cbf_snapshots = 1,
                                  .bins = 459,
                                  .directions = 160,
                                  .ranges = 7,
                                  .lofar_bins = 459,
                                  .cbf_bins = 166,
                                  .mvdr_bins = m->snapshots ? 100 : 0,
                                  .mvdr_directions = 180,
                                  .mvdr_snapshots = m->snapshots,
                                  .mvdr_sweeps = 30};
    sonar_train_estimate(&standard, &rates, seconds);
    return seconds[m->stage] * 1e6;
}

/* Within a factor, and what was clearly slower is estimated to be slower. */
static void compare_with(const measured *m, size_t count, bool gpu, double factor) {
    for (size_t i = 0; i < count; i++) {
        double own = estimate_of(&m[i], gpu);
        cr_assert(own < factor * m[i].us && own > m[i].us / factor,
                  "%s of %zu, %zu: %.0f us for %.0f us", sonar_train_stage_names[m[i].stage],
                  m[i].sensors, m[i].snapshots, own, m[i].us);
        for (size_t k = 0; k < count; k++)
            if (m[i].us > 2 * m[k].us)
                cr_assert_gt(own, estimate_of(&m[k], gpu), "cases %zu and %zu", i, k);
    }
}

static const measured h200[] = {
    {SONAR_TRAIN_DFT, 128, 0, 69},       {SONAR_TRAIN_DFT, 512, 0, 81},
    {SONAR_TRAIN_DFT, 2048, 0, 169},     {SONAR_TRAIN_DFT, 16384, 0, 1393},
    {SONAR_TRAIN_DFT, 32768, 0, 1978},   {SONAR_TRAIN_CBF, 128, 0, 79},
    {SONAR_TRAIN_CBF, 512, 0, 106},      {SONAR_TRAIN_CBF, 2048, 0, 204},
    {SONAR_TRAIN_CBF, 16384, 0, 1278},   {SONAR_TRAIN_CBF, 32768, 0, 2313},
    {SONAR_TRAIN_MVDR, 64, 64, 1635},    {SONAR_TRAIN_MVDR, 256, 64, 2053},
    {SONAR_TRAIN_MVDR, 512, 64, 3063},   {SONAR_TRAIN_MVDR, 1024, 64, 5112},
    {SONAR_TRAIN_MVDR, 2048, 64, 12859}, {SONAR_TRAIN_MVDR, 16384, 64, 172103},
    {SONAR_TRAIN_MVDR, 64, 128, 1613},   {SONAR_TRAIN_MVDR, 128, 256, 7505},
    {SONAR_TRAIN_MVDR, 256, 512, 55470}, {SONAR_TRAIN_MVDR, 512, 1024, 410116}};
static const measured two_cores[] = {
    {SONAR_TRAIN_DFT, 512, 0, 3614},    {SONAR_TRAIN_CBF, 512, 0, 13132},
    {SONAR_TRAIN_MVDR, 64, 64, 63005},  {SONAR_TRAIN_MVDR, 512, 64, 105600},
    {SONAR_TRAIN_MVDR, 64, 128, 45306}, {SONAR_TRAIN_MVDR, 256, 512, 2273203}};

Test(train, the_rule_agrees_with_what_was_measured) {
    compare_with(h200, sizeof h200 / sizeof *h200, true, 2.5);
    compare_with(two_cores, sizeof two_cores / sizeof *two_cores, false, 2);
    for (size_t i = 0; i < sizeof two_cores / sizeof *two_cores; i++)
        cr_assert_gt(estimate_of(&two_cores[i], false), estimate_of(&two_cores[i], true));
}

Test(train, the_rule_counts_samples_in_their_own_type) {
    double wide[SONAR_TRAIN_STAGES], narrow[SONAR_TRAIN_STAGES];
    sonar_train_rates rates = sonar_train_gpu_rates();
    sonar_train_shape s16 = shape;
    s16.sample_bytes = 2;
    sonar_train_estimate(&shape, &rates, wide);
    sonar_train_estimate(&s16, &rates, narrow);
    cr_assert_float_eq(wide[SONAR_TRAIN_DFT] - narrow[SONAR_TRAIN_DFT],
                       2.0 * 130 * (double)shape.hop / 55e9, 1e-12);
    cr_assert_eq(wide[SONAR_TRAIN_CBF], narrow[SONAR_TRAIN_CBF]);
}

/* A hundred bins find room on an H200 together, 133 do not. */
Test(train, the_rule_knows_how_many_bins_go_together) {
    const sonar_train_rates rates = sonar_train_gpu_rates();
    sonar_train_shape s = shape;
    double one[SONAR_TRAIN_STAGES], all[SONAR_TRAIN_STAGES], more[SONAR_TRAIN_STAGES];
    s.mvdr_directions = 1; /* next to no surface to carry */
    s.mvdr_bins = 1, sonar_train_estimate(&s, &rates, one);
    s.mvdr_bins = 132, sonar_train_estimate(&s, &rates, all);
    s.mvdr_bins = 133, sonar_train_estimate(&s, &rates, more);
    cr_assert_float_eq(one[2], all[2], 1e-3 * one[2]);
    cr_assert_gt(more[2] - rates.start_s, 1.9 * (all[2] - rates.start_s));
}

static void guess(const sonar_train_shape *s) {
    sonar_train_rates cpu = sonar_train_cpu_rates(2), gpu = sonar_train_gpu_rates();
    sonar_train_side side[] = {sonar_train_guess(s, &cpu, "cpu"),
                               sonar_train_guess(s, &gpu, "cuda")};
    sonar_train_crossing crossing = sonar_train_guess_crossing(&gpu);
    cr_assert_eq(sonar_train_assign(s, side, 2, &crossing, 0.25, &decision, NULL), SONAR_OK);
}

Test(train, the_rule_keeps_two_sided_on_the_cpu) {
    sonar_train_shape s = shape;
    s.sensors = s.sensors_used = s.channels = 256;
    s.mvdr_bins = 3;
    guess(&s);
    cr_assert_str_eq(decision.candidate[decision.chosen].name, "cuda");
    s.mvdr_two_sided = 1;
    guess(&s);
    cr_assert_str_eq(decision.candidate[decision.chosen].name, "cuda.cuda.cpu");
    cr_assert(strstr(candidate_named("cuda")->note, "no two_sided method"));
    double parts = 0, whole = candidate_named("cuda.cuda.cpu")->median_s;
    sonar_train_rates cpu = sonar_train_cpu_rates(2), gpu = sonar_train_gpu_rates();
    parts += sonar_train_guess(&s, &gpu, "").stage[SONAR_TRAIN_DFT].median_s;
    parts += sonar_train_guess(&s, &gpu, "").stage[SONAR_TRAIN_CBF].median_s;
    parts += sonar_train_guess(&s, &cpu, "").stage[SONAR_TRAIN_MVDR].median_s;
    cr_assert_float_eq(whole - parts, gpu.copy_s + 8.0 * 256 * 7 * 3 / 55e9, 1e-9);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void fill_table(sonar_train_table *table) {
    *table = (sonar_train_table){
        .made = "2026-01-02T03:04:05Z", .decisions = 3, .kinds = 3, .buffers = 2};
    for (size_t i = 0; i < SONAR_TRAIN_NODE_FIELDS; i++)
        snprintf(table->fingerprint.node[i], 192, "text \"%zu\": \\ # {é} of %s", i,
                 sonar_train_node_names[i]);
    table->fingerprint.shape = shape;
    table->decision[0] = (sonar_train_decision){.name = "dft.way",
                                                .candidates = 1,
                                                .reason = "the only one available",
                                                .candidate = {{.name = "512",
                                                               .available = true,
                                                               .repetitions = 9,
                                                               .median_s = 1.25e-4,
                                                               .spread_s = 0}}};
    table->decision[1] = (sonar_train_decision){
        .name = "chain",
        .candidates = 3,
        .chosen = 1,
        .reason = "7 times as fast: 'as' cpu",
        .candidate = {{.name = "cpu",
                       .available = true,
                       .repetitions = 101,
                       .median_s = 0.5,
                       .spread_s = 1e-3},
                      {.name = "cuda.cuda.cpu",
                       .available = true,
                       .repetitions = 7,
                       .median_s = 1.0 / 14,
                       .spread_s = 2e-5},
                      {.name = "other", .note = "libx: [not] there, or: \"odd\""}}};
    table->decision[2] = (sonar_train_decision){
        .name = "samples.memory",
        .candidates = 2,
        .chosen = 1,
        .reason = "1.1 times as fast as pinned",
        .candidate = {{.name = "pinned", .available = true, .repetitions = 8, .median_s = 1.1e-3},
                      {.name = "mapped", .available = true, .repetitions = 8, .median_s = 1e-3}}};
    table->kind[0] = (sonar_train_memory){"pageable", {1e-6, 2e-10}, {3e-6, 3e-10}, {0, 1e-10}};
    table->kind[1] = (sonar_train_memory){"pinned", {1e-4, 2e-11}, {3e-6, 3e-11}, {0, 1e-11}};
    table->kind[2] = (sonar_train_memory){"mapped", {1e-4, 2e-11}, {4e-6, 4e-11}, {0, 2e-11}};
    table->buffer[0] = (sonar_train_buffer){"points", 4194304, 7031.25, 0, "mapped"};
    table->buffer[1] = (sonar_train_buffer){"surfaces", 12, 0, 3, "pageable"};
}

static void assert_close(double a, double b) {
    cr_assert_float_eq(a, b, 1e-7 * fabs(b), "%.12g is not %.12g", a, b);
}

static void assert_line(const sonar_train_line *a, const sonar_train_line *b) {
    assert_close(a->offset_s, b->offset_s);
    assert_close(a->s_per_byte, b->s_per_byte);
}

static void assert_same(const sonar_train_table *a, const sonar_train_table *b) {
    cr_assert_str_eq(a->made, b->made);
    cr_assert_eq(memcmp(&a->fingerprint, &b->fingerprint, sizeof a->fingerprint), 0);
    cr_assert_eq(a->decisions, b->decisions);
    for (size_t d = 0; d < b->decisions; d++) {
        const sonar_train_decision *x = &a->decision[d], *y = &b->decision[d];
        cr_assert_str_eq(x->name, y->name);
        cr_assert_str_eq(x->reason, y->reason);
        cr_assert(x->chosen == y->chosen && x->candidates == y->candidates);
        for (size_t c = 0; c < y->candidates; c++) {
            cr_assert_str_eq(x->candidate[c].name, y->candidate[c].name);
            cr_assert_str_eq(x->candidate[c].note, y->candidate[c].note);
            cr_assert_eq(x->candidate[c].available, y->candidate[c].available);
            cr_assert_eq(x->candidate[c].repetitions, y->candidate[c].repetitions);
            assert_close(x->candidate[c].median_s, y->candidate[c].median_s);
            assert_close(x->candidate[c].spread_s, y->candidate[c].spread_s);
        }
    }
    cr_assert(a->kinds == b->kinds && a->buffers == b->buffers);
    for (size_t i = 0; i < b->kinds; i++) {
        cr_assert_str_eq(a->kind[i].kind, b->kind[i].kind);
        assert_line(&a->kind[i].make, &b->kind[i].make);
        assert_line(&a->kind[i].to_device, &b->kind[i].to_device);
        assert_line(&a->kind[i].from_device, &b->kind[i].from_device);
    }
    for (size_t i = 0; i < b->buffers; i++) {
        cr_assert_str_eq(a->buffer[i].name, b->buffer[i].name);
        cr_assert_str_eq(a->buffer[i].chosen, b->buffer[i].chosen);
        assert_close(a->buffer[i].bytes, b->buffer[i].bytes);
        assert_close(a->buffer[i].to_device, b->buffer[i].to_device);
        assert_close(a->buffer[i].from_device, b->buffer[i].from_device);
    }
}

static sonar_train_table saved, loaded;
static sonar_error err;

/* A saved table in a folder of its own; its text is returned, malloc'ed. */
static char *save_table(box *box) {
    *box = box_open();
    fill_table(&saved);
    cr_assert_eq(sonar_train_save(&saved, box_path(box, "train.yaml"), &err), SONAR_OK, "%s",
                 err.text);
    return box_read(box, "train.yaml");
}

static sonar_code load_text(const box *box, const char *text) {
    box_write(box, "train.yaml", "%s", text);
    return sonar_train_load(box_path(box, "train.yaml"), &saved.fingerprint, &loaded, &err);
}

/* `text` with `old` bytes at `at` replaced, loaded. */
static sonar_code load_changed(const box *box, const char *text, size_t at, size_t old,
                               const char *fresh) {
    char *changed = NULL;
    cr_assert_geq(asprintf(&changed, "%.*s%s%s", (int)at, text, fresh, text + at + old), 0);
    sonar_code code = load_text(box, changed);
    free(changed);
    return code;
}

static size_t entries(const char *dir) {
    size_t count = 0;
    DIR *open = opendir(dir);
    while (readdir(open))
        count++;
    closedir(open);
    return count - 2;
}

Test(train, a_table_comes_back_as_it_was) {
    box box;
    char *text = save_table(&box);
    cr_assert_eq(load_text(&box, text), SONAR_OK, "%s: %s", err.where, err.text);
    assert_same(&loaded, &saved);
    cr_assert_str_eq(sonar_train_chosen(&loaded, "chain"), "cuda.cuda.cpu");
    cr_assert_str_eq(sonar_train_chosen(&loaded, "dft.way"), "512");
    cr_assert_str_eq(sonar_train_chosen(&loaded, "samples.memory"), "mapped");
    cr_assert_null(sonar_train_chosen(&loaded, "cbf"));
    cr_assert_eq(strncmp(text, "schema: sonard-train/2\n", 23), 0);
    cr_assert_eq(sonar_train_save(&saved, box_path(&box, "train.yaml"), &err), SONAR_OK);
    cr_assert_eq(entries(box.dir), 1, "something is left beside the table");
    free(text);
    box_close(&box);
}

/* Every key misspelt, every value made a list, every number made none. */
Test(train, damage_to_any_field_is_refused) {
    box box;
    char *text = save_table(&box);
    size_t keys = 0, numbers = 0;
    for (size_t colon = 1; text[colon]; colon++) {
        size_t key = colon;
        while (key > 0 && strchr("abcdefghijklmnopqrstuvwxyz_", text[key - 1]))
            key--;
        bool inside_text = colon > 3 && strchr("\":'", text[colon - 1]);
        if (text[colon] != ':' || key == colon || inside_text ||
            !strchr("\n {-", key ? text[key - 1] : '\n') || !strchr(" \n", text[colon + 1]))
            continue;
        size_t line = key;
        while (line > 0 && text[line - 1] != '\n')
            line--;
        if (memchr(text + line, '"', key - line))
            continue; /* a colon inside a quoted text */
        cr_assert_eq(load_changed(&box, text, key, 1, "Z"), SONAR_EINVAL, "key at '%.20s'",
                     text + key);
        cr_assert(err.text[0] && err.where[0]);
        keys++;
        if (text[colon + 1] == '\n' || text[colon + 2] == '{' || text[colon + 2] == '[')
            continue;
        size_t value = colon + 2, length = strcspn(text + value, ",}\n");
        if (text[value] == '"')
            length = strcspn(text + value, "\n}");
        cr_assert_eq(load_changed(&box, text, value, length, "[]"), SONAR_EINVAL,
                     "value at '%.20s'", text + key);
        if (text[value] < '0' || text[value] > '9')
            continue;
        static const char *const none[] = {"-1", "nan", "inf", "1e999", "0x10", "''", "1 2", "~"};
        for (size_t i = 0; i < sizeof none / sizeof *none; i++)
            if (strncmp(text + key, "name", 4) && strncmp(text + key, "chosen", 6))
                cr_assert_eq(load_changed(&box, text, value, length, none[i]), SONAR_EINVAL,
                             "%s at '%.20s'", none[i], text + key);
        numbers++;
    }
    cr_assert_gt(keys, 80, "%zu keys", keys);
    cr_assert_gt(numbers, 40, "%zu numbers", numbers);
    free(text);
    box_close(&box);
}

Test(train, a_cut_table_never_decides_otherwise) {
    box box;
    char *text = save_table(&box);
    size_t length = strlen(text), accepted = 0;
    const char *end = strstr(text, "\nbuffers:");
    for (size_t n = 0; n < length; n += n < 400 ? 7 : 3) {
        char *cut = strndup(text, n);
        sonar_code code = load_text(&box, cut);
        accepted += code == SONAR_OK;
        if (n < (size_t)(end - text) + 9)
            cr_assert_eq(code, SONAR_EINVAL, "cut at %zu", n);
        if (!code)
            cr_assert_str_eq(sonar_train_chosen(&loaded, "chain"), "cuda.cuda.cpu");
        free(cut);
    }
    cr_assert_lt(accepted, 10);
    free(text);
    box_close(&box);
}

Test(train, what_is_no_table_is_refused) {
    static const char *const texts[] = {"",
                                        "\n",
                                        "---\n",
                                        "schema: 1\n",
                                        "[1, 2]\n",
                                        "schema: sonard-train/2\n",
                                        "\x01\x02",
                                        "{{{{{{",
                                        "a: &a [*a]",
                                        "\xff\xfe\x00\x00",
                                        "schema: sonard-train/2\nschema: 2"};
    box box;
    char *text = save_table(&box), *twice = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        cr_assert_eq(load_text(&box, texts[i]), SONAR_EINVAL, "text %zu", i);
    cr_assert_eq(load_changed(&box, text, 8, 14, "sonard-train/1"), SONAR_EINVAL);
    cr_assert(strstr(err.text, "schema"), "%s", err.text);
    cr_assert_geq(asprintf(&twice, "%s---\n%s", text, text), 0);
    cr_assert_eq(load_text(&box, twice), SONAR_EINVAL);
    size_t chosen = (size_t)(strstr(text, "chosen: cuda") - text) + 8;
    cr_assert_eq(load_changed(&box, text, chosen, 13, "vulkan"), SONAR_EINVAL);
    cr_assert_eq(load_changed(&box, text, chosen, 13, "cuda.cuda"), SONAR_EINVAL);
    cr_assert_eq(load_changed(&box, text, chosen, 13, "cuda.cuda.cp "), SONAR_EINVAL);
    cr_assert_eq(load_changed(&box, text, chosen, 13, "other"), SONAR_EINVAL, "is not available");
    /* keys that mean nothing here */
    cr_assert_eq(load_changed(&box, text, 0, 0, "extra: 1\n"), SONAR_EINVAL);
    static const char *const before[] = {"  sonard:", "  sensors:"};
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(
            load_changed(&box, text, (size_t)(strstr(text, before[i]) - text), 0, "  extra: 1\n"),
            SONAR_EINVAL);
    static const char *const in[] = {"name: cuda.cuda.cpu", "offset_us", "bytes:"};
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(
            load_changed(&box, text, (size_t)(strstr(text, in[i]) - text), 0, "extra: 1, "),
            SONAR_EINVAL, "before %s", in[i]);
    size_t way = (size_t)(strstr(text, "name: dft.way") - text) + 6;
    cr_assert_eq(load_changed(&box, text, way, 7, "chain"), SONAR_EINVAL, "decided twice");
    size_t chain = (size_t)(strstr(text, "name: chain") - text) + 6;
    cr_assert_eq(load_changed(&box, text, chain, 5, "chains"), SONAR_EINVAL, "no chain");
    size_t mapped = (size_t)(strstr(strstr(text, "buffers:"), "chosen: mapped") - text) + 8;
    cr_assert_eq(load_changed(&box, text, mapped, 6, "managed"), SONAR_EINVAL, "not measured");
    mapped = (size_t)(strstr(text, "chosen: mapped") - text) + 8;
    cr_assert_eq(load_changed(&box, text, mapped, 6, "managed"), SONAR_EINVAL, "no candidate");
    cr_assert_eq(load_changed(&box, text, (size_t)(strstr(text, "  sample_bytes:") - text), 18, ""),
                 SONAR_EINVAL, "a shape without its samples' size");
    free(text);
    free(twice);
    box_close(&box);
}

Test(train, a_stale_table_names_what_differs) {
    box box;
    free(save_table(&box));
    const char *path = box_path(&box, "train.yaml");
    for (size_t i = 0; i < SONAR_TRAIN_NODE_FIELDS; i++) {
        sonar_train_fingerprint other = saved.fingerprint;
        strcat(other.node[i], "!");
        cr_assert_eq(sonar_train_load(path, &other, &loaded, &err), SONAR_EINVAL);
        cr_assert(strstr(err.text, "another node"), "%s", err.text);
        cr_assert(strstr(err.text, sonar_train_node_names[i]), "%s", err.text);
    }
    for (size_t i = 0; i < SONAR_TRAIN_SHAPE_FIELDS; i++) {
        sonar_train_fingerprint other = saved.fingerprint;
        size_t *member = (size_t *)(void *)&other.shape + i;
        char then_and_now[64];
        snprintf(then_and_now, sizeof then_and_now, "was %zu and is %zu", *member, *member + 1);
        ++*member;
        cr_assert_eq(sonar_train_load(path, &other, &loaded, &err), SONAR_EINVAL);
        cr_assert(strstr(err.text, "another configuration"), "%s", err.text);
        cr_assert(strstr(err.text, then_and_now), "%s", err.text);
    }
    box_close(&box);
}

Test(train, files_that_cannot_be) {
    box box;
    free(save_table(&box));
    cr_assert_eq(sonar_train_load(box_path(&box, "none.yaml"), &saved.fingerprint, &loaded, &err),
                 SONAR_EUNAVAILABLE);
    cr_assert_eq(sonar_train_load(box.dir, &saved.fingerprint, &loaded, &err), SONAR_EINVAL);
    cr_assert_eq(sonar_train_save(&saved, box_path(&box, "no/train.yaml"), &err), SONAR_ESYS);
    mkdir(box_path(&box, "taken"), 0755);
    cr_assert_eq(sonar_train_save(&saved, box_path(&box, "taken"), &err), SONAR_ESYS);
    cr_assert_eq(entries(box.dir), 2, "a half-made file stays");
    char *long_path = malloc(5001);
    memset(long_path, 'x', 5000);
    long_path[5000] = 0;
    cr_assert_eq(sonar_train_save(&saved, long_path, &err), SONAR_ESYS);
    free(long_path);
    box_close(&box);
}

Test(train, the_fingerprint_knows_this_node) {
    sonar_train_fingerprint fingerprint, again;
    sonar_train_fingerprint_make(&shape, "a GPU", &fingerprint);
    sonar_train_fingerprint_make(&shape, "a GPU", &again);
    for (size_t i = 0; i < SONAR_TRAIN_NODE_FIELDS; i++) {
        cr_assert(fingerprint.node[i][0], "%s is empty", sonar_train_node_names[i]);
        cr_assert_str_eq(fingerprint.node[i], again.node[i]);
    }
    cr_assert_eq(memcmp(&fingerprint.shape, &shape, sizeof shape), 0);
}

/* ---- as programs ----------------------------------------------------------------------------- */

static void write_config_with(const box *box, size_t sensors, const char *cbf,
                              const char *runtime) {
    box_write(box, "sonard.yaml",
              "schema: 1\n"
              "array: {geometry: {line: {sensors: %zu, spacing_m: 0.75}}}\n"
              "sound_speed_mps: 1500\n"
              "fs_hz: 2000\n"
              "ingest: {endpoints: [\"ipc://%s/in\"]}\n"
              "dft: {length: 256, hop: 128}\n"
              "cbf: {band_hz: [600, 950], ranges_m: [50, 200]%s}\n"
              "lofar: {band_hz: [300, 950]}\n"
              "mvdr: {band_hz: [600, 950], length: 128, hop: 64, snapshots: 16}\n"
              "output: {endpoint: \"ipc://%s/out\"}\n"
              "runtime: {threads: 1, %s}\n",
              sensors, box->dir, cbf, box->dir, runtime);
}

static void write_config(const box *box, size_t sensors, const char *runtime) {
    write_config_with(box, sensors, "", runtime);
}

/* Exit code; what it wrote is in box/log. */
static int sonard(const box *box, const char *option) {
    unlink(box_path(box, "log"));
    return process_wait(
        process_start(box, "log", "sonard", option, box_path(box, "sonard.yaml"), NULL), 60000);
}

static void assert_says(const box *box, const char *what, bool says) {
    char *log = box_read(box, "log");
    cr_assert_eq(strstr(log, what) != NULL, says, "'%s' in:\n%s", what, log);
    free(log);
}

static void runtime_line(const box *box, const char *plugins, char runtime[400]) {
    snprintf(runtime, 400, "state_dir: %s, plugin_dir: %s", box->dir, plugins);
}

Test(train, train_then_explain_without_a_gpu) {
    box box = box_open();
    char runtime[400];
    runtime_line(&box, "/nowhere", runtime);
    write_config(&box, 6, runtime);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "built-in rule", true);
    assert_says(&box, "cannot be read", true);
    assert_says(&box, "an estimate", true);
    cr_assert_eq(sonard(&box, "--train"), 0);
    assert_says(&box, "written to", true);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "trained table", true);
    assert_says(&box, "an estimate", false);
    assert_says(&box, "mvdr_jacobi: cpu", true);
    char *wisdom = box_read(&box, "fftwf.wisdom");
    cr_assert(strstr(wisdom, "fftw"), "no wisdom was kept");
    free(wisdom);
    write_config(&box, 7, runtime);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "sensors was 6 and is 7", true);
    assert_says(&box, "an estimate", true);
    box_write(&box, "train.yaml", "schema: other\n");
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "its schema is not", true);
    box_close(&box);
}

/* Snapshots of the CBF shorter than those of the MVDR, and several of both. */
Test(train, sub_windows_are_trained_as_they_run) {
    box box = box_open();
    char runtime[400];
    runtime_line(&box, SONAR_PLUGIN_DIR "/stages", runtime);
    write_config_with(&box, 6, ", length: 64, hop: 32", runtime);
    cr_assert_eq(sonard(&box, "--train"), 0);
    assert_says(&box, "chain: test", true);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "trained table", true);
    write_config_with(&box, 6, ", length: 64, hop: 16", runtime);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "cbf_hop was 32 and is 16", true);
    box_close(&box);
}

Test(train, train_and_explain_without_a_place_to_keep_it) {
    box box = box_open();
    write_config(&box, 6, "plugin_dir: /nowhere");
    cr_assert_eq(sonard(&box, "--train"), 2);
    assert_says(&box, "runtime.state_dir", true);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "state_dir is not set", true);
    write_config(&box, 6, "backend: cpu, state_dir: /nowhere/at/all");
    cr_assert_eq(sonard(&box, "--train"), 3);
    assert_says(&box, "cannot be written", true);
    box_close(&box);
}

/* A device that answers at once: it wins, by its working way; by the rule it does not. */
Test(train, a_quick_device_is_chosen_after_training) {
    box box = box_open();
    char runtime[400];
    runtime_line(&box, SONAR_PLUGIN_DIR "/stages", runtime);
    write_config(&box, 6, runtime);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "backend: cpu (", true);
    assert_says(&box, "chain: cpu, ", true);
    cr_assert_eq(sonard(&box, "--train"), 0);
    assert_says(&box, "dft.way: quick", true);
    assert_says(&box, "not available: test: this way is closed", true);
    assert_says(&box, "chain: test", true);
    assert_says(&box, "  every stage on test\n", true);
    assert_says(&box, "test.test.cpu", true);
    assert_says(&box, "cpu.test.cpu", true);
    assert_says(&box, "samples.memory: ", true);
    assert_says(&box, "memory mapped", true);
    assert_says(&box, "buffer surfaces", true);
    assert_says(&box, "buffer points", true);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "backend: test (a device): trained: every stage on test: ", true);
    assert_says(&box, "memory pinned", true);
    runtime_line(&box, "/nowhere", runtime); /* the device is taken out */
    write_config(&box, 6, runtime);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "gpu was 'a device' and is 'none'", true);
    assert_says(&box, "backend: cpu (", true);
    box_close(&box);
}

static void no_log(void *ctx, sonar_level level, const char *where, const char *text) {
    (void)ctx, (void)level, (void)where, (void)text;
}

/* The choices as a pipeline gets them. */
static sonar_choices *make_choices(const box *box, sonar_config **config) {
    const sonar_host host = {.log = no_log, .workers = 1};
    sonar_report *report = sonar_report_create();
    sonar_choices *choices = NULL;
    cr_assert_eq(sonar_config_load(box_path(box, "sonard.yaml"), config, report), SONAR_OK);
    sonar_report_destroy(report);
    cr_assert_eq(sonar_choices_create(*config, &(*config)->specs, &host, &choices, &err), SONAR_OK,
                 "%s", err.text);
    return choices;
}

static void assert_places(const box *box, bool trained, const char *device, const char *places,
                          const sonar_space memory[3]) {
    static const char *const buffers[] = {"samples", "surfaces", "points"};
    sonar_config *config = NULL;
    sonar_choices *choices = make_choices(box, &config);
    cr_assert_eq(choices->trained, trained, "%s", choices->source);
    cr_assert_str_eq(choices->backend.backend->name, device);
    for (int s = 0; s < SONAR_TRAIN_STAGES; s++)
        cr_assert_str_eq(choices->place[s]->name, places[s] == 'c' ? "cpu" : "test", "stage %d", s);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(sonar_choices_memory(choices, buffers[i]), memory[i], "%s", buffers[i]);
    cr_assert_eq(sonar_choices_memory(choices, "other"), SONAR_PINNED);
    sonar_choices_destroy(choices);
    sonar_config_destroy(config);
}

/* Writes the box's table anew with other choices; `chain` becomes a candidate if it is none. */
static void choose_in_table(const box *box, const char *chain, const char *samples,
                            const char *others) {
    sonar_config *config = NULL;
    sonar_choices *choices = make_choices(box, &config);
    sonar_train_table *table = &choices->table;
    for (size_t d = 0; d < table->decisions; d++) {
        sonar_train_decision *x = &table->decision[d];
        const char *word = !strcmp(x->name, "chain")            ? chain
                           : !strcmp(x->name, "samples.memory") ? samples
                                                                : NULL;
        size_t c = word ? 0 : x->chosen;
        while (word && c < x->candidates && strcmp(x->candidate[c].name, word) != 0)
            c++;
        if (c == x->candidates)
            snprintf(x->candidate[--c].name, sizeof x->candidate[c].name, "%s", word);
        x->chosen = c;
    }
    for (size_t i = 0; i < table->buffers; i++)
        snprintf(table->buffer[i].chosen, sizeof table->buffer[i].chosen, "%s", others);
    cr_assert_eq(sonar_train_save(table, box_path(box, "train.yaml"), &err), SONAR_OK);
    sonar_choices_destroy(choices);
    sonar_config_destroy(config);
}

Test(train, the_pipeline_gets_places_and_memories) {
    const sonar_space pinned[3] = {SONAR_PINNED, SONAR_PINNED, SONAR_PINNED};
    box box = box_open();
    char runtime[400];
    runtime_line(&box, SONAR_PLUGIN_DIR "/stages", runtime);
    write_config(&box, 6, runtime);
    assert_places(&box, false, "cpu", "ccc", pinned);
    cr_assert_eq(sonar_choices_memory(NULL, "samples"), SONAR_PINNED);
    cr_assert_eq(sonard(&box, "--train"), 0);
    choose_in_table(&box, "test", "mapped", "pageable");
    assert_places(&box, true, "test", "ttt",
                  (const sonar_space[3]){SONAR_MAPPED, SONAR_HOST, SONAR_HOST});
    choose_in_table(&box, "test.test.cpu", "pageable", "mapped");
    assert_places(&box, true, "test", "ttc",
                  (const sonar_space[3]){SONAR_HOST, SONAR_MAPPED, SONAR_MAPPED});
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "trained: dft on test, cbf on test, mvdr_jacobi on cpu: ", true);
    assert_says(&box, "\n  dft on test, cbf on test, mvdr_jacobi on cpu\n", true);
    choose_in_table(&box, "cpu.test.cpu", "mapped", "pinned"); /* the DFT's samples stay here */
    assert_places(&box, true, "test", "ctc", pinned);
    choose_in_table(&box, "cpu", "mapped", "mapped");
    assert_places(&box, true, "cpu", "ccc", pinned);
    choose_in_table(&box, "test.test", "mapped", "mapped"); /* is in the table, places nothing */
    assert_places(&box, false, "cpu", "ccc", pinned);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "its chain 'test.test' does not place", true);
    assert_says(&box, "an estimate", true);
    box_close(&box);
}

/* A backend that the configuration names runs all stages, whatever was trained. */
Test(train, a_name_in_the_configuration_is_not_mixed) {
    const sonar_space pinned[3] = {SONAR_PINNED, SONAR_PINNED, SONAR_PINNED};
    box box = box_open();
    char runtime[400];
    runtime_line(&box, SONAR_PLUGIN_DIR "/stages", runtime);
    write_config(&box, 6, runtime);
    cr_assert_eq(sonard(&box, "--train"), 0);
    choose_in_table(&box, "test.test.cpu", "mapped", "mapped");
    strcat(runtime, ", backend: cuda");
    write_config(&box, 6, runtime);
    assert_places(&box, true, "test", "ttt",
                  (const sonar_space[3]){SONAR_MAPPED, SONAR_MAPPED, SONAR_MAPPED});
    strcpy(strstr(runtime, "cuda"), "cpu");
    write_config(&box, 6, runtime);
    assert_places(&box, false, "cpu", "ccc", pinned); /* made for a node with a device */
    box_close(&box);
}

Test(train, the_daemon_says_where_its_choices_come_from) {
    box box = box_open();
    char runtime[400], *log = NULL;
    runtime_line(&box, "/nowhere", runtime);
    write_config(&box, 6, runtime);
    cr_assert_eq(sonard(&box, "--train"), 0);
    pid_t daemon = process_start(&box, "log", "sonard", box_path(&box, "sonard.yaml"), NULL);
    for (int i = 0; i < 100 && !(log && strstr(log, "running")); i++) {
        free(log);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        log = box_read(&box, "log");
    }
    kill(daemon, SIGTERM);
    cr_assert_eq(process_wait(daemon, 10000), 0);
    cr_assert(strstr(log, "choices: trained table"), "%s", log);
    free(log);
    box_close(&box);
}
