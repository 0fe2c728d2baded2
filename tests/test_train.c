/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Trained choices: the chooser with a scripted clock, the rule compared with measurements, the
 * table with damage, --train and --explain as programs. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/core.h"
#include "pipeline/internal.h"
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

static const sonar_train_plan plan = {
    .warm_up = 1, .rounds = 11, .tie_share = 0.03, .budget_ns = (int64_t)1000 * MS};

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
    sonar_train_plan exact = {.warm_up = 1, .rounds = 4, .budget_ns = INT64_MAX};
    cr_assert_eq(choose(s, 1, &exact), SONAR_OK);
    cr_assert_eq(decision.candidate[0].repetitions, 4);
    cr_assert_float_eq(decision.candidate[0].median_s, 3e-3, 1e-12);
    exact.warm_up = 0;
    exact.rounds = 3;
    s[0].at = 1;
    cr_assert_eq(choose(s, 1, &exact), SONAR_OK);
    cr_assert_float_eq(decision.candidate[0].median_s, 4e-3, 1e-12);
    cr_assert(strstr(decision.reason, "only"), "%s", decision.reason);
}

Test(train, candidates_take_turns) {
    script s[3] = {{.ns = {MS}, .count = 1}, {.ns = {MS}, .count = 1}, {.ns = {MS}, .count = 1}};
    cr_assert_eq(choose(s, 3, &plan), SONAR_OK);
    cr_assert_eq(strlen(calls), 3 * (plan.warm_up + plan.rounds));
    for (size_t i = 0; calls[i]; i++)
        cr_assert_eq(calls[i], "abc"[i % 3], "%s", calls);
}

/* The clock rate drops permanently after some rounds, which affects both equally. */
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
    for (size_t fails_at = 1; fails_at <= plan.warm_up + plan.rounds; fails_at++) {
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
                                        .workers = 2,
                                        .sample_bytes = 4,
                                        .cbf_length = 8192,
                                        .cbf_hop = 4096,
                                        .cbf_snapshots = 1};

/* ---- placements ------------------------------------------------------------------------------ */

enum { DFT = 1 << SONAR_ENGINE_DFT, CBF = 1 << SONAR_ENGINE_CBF, MVDR = 1 << SONAR_ENGINE_MVDR };

Test(train, placements_have_names_of_their_own) {
    for (size_t stages = 2; stages <= 3; stages++)
        for (sonar_placement p = 0; p < 1u << stages; p++) {
            sonar_placement found = 99;
            char name[32], spelt[64] = "";
            sonar_placement_name(p, stages, "cuda", name);
            cr_assert(sonar_placement_find(name, stages, "cuda", &found));
            cr_assert_eq(found, p, "%s", name);
            for (size_t s = 0; s < stages; s++)
                strcat(strcat(spelt, s ? "." : ""), p >> s & 1 ? "cuda" : "cpu");
            bool uniform = p == 0 || p == (1u << stages) - 1;
            cr_assert_str_eq(name, !uniform ? spelt : p ? "cuda" : "cpu");
        }
    sonar_placement unused;
    static const char *const foreign[] = {
        "", "vulkan", "cuda.cuda", "cpu.cpu.cpu", "cpu.cuda.", "cpu.cuda.cuda.cpu"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        cr_assert(!sonar_placement_find(foreign[i], 3, "cuda", &unused), "'%s'", foreign[i]);
    char name[32];
    sonar_placement_name(DFT, 3, "a_device_with_a_very_long_name", name);
    cr_assert_lt(strlen(name), sizeof name);
}

/* Every placement once, those on one side first, so that they win ties. */
Test(train, what_is_placed_is_what_may_be_placed) {
    static const sonar_backend device = {.name = "cuda", .native_space = SONAR_DEVICE};
    for (int mvdr = 0; mvdr < 2; mvdr++) {
        const sonar_specs specs = {.mvdr_enabled = mvdr};
        const sonar_placement all = mvdr ? DFT | CBF | MVDR : DFT | CBF;
        sonar_train_setup setup = {.backend = "auto", .specs = &specs};
        sonar_placement p[SONAR_TRAIN_CANDIDATES];
        size_t count = sonar_placements(&setup, &device, p);
        unsigned seen = 0;
        cr_assert_eq(count, all + 1);
        for (size_t i = 0; i < count; i++)
            seen |= 1u << p[i];
        cr_assert_eq(seen, (1u << (all + 1)) - 1);
        cr_assert(p[0] == 0 && p[1] == all);
        cr_assert_eq(sonar_placements(&setup, sonar_backend_cpu(), p), 1);
        cr_assert_eq(p[0], 0);
        setup.backend = "cuda";
        cr_assert_eq(sonar_placements(&setup, &device, p), 1);
        cr_assert_eq(p[0], all);
    }
}

/* ---- the built-in rule ----------------------------------------------------------------------- */

static double stage_s(const sonar_train_shape *s, int stage, bool gpu) {
    return sonar_train_stage_s(s, (sonar_engine_stage)stage, gpu);
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
    cr_assert_lt(sonar_train_estimate(&small, 0), sonar_train_estimate(&small, DFT | CBF));
    cr_assert_gt(sonar_train_estimate(&shape, 0), sonar_train_estimate(&shape, DFT | CBF | MVDR));
    cr_assert_eq(stage_s(&small, SONAR_ENGINE_MVDR, false), 0);
    cr_assert_eq(stage_s(&small, SONAR_ENGINE_MVDR, true), 0);
    cr_assert_eq(sonar_train_stages(&shape), 3);
    cr_assert_eq(sonar_train_stages(&small), 2);
}

Test(train, the_rule_counts_what_there_is_to_do) {
    for (int gpu = 0; gpu < 2; gpu++) {
        const sonar_placement all = gpu ? DFT | CBF | MVDR : 0;
        sonar_train_shape more = shape;
        double base = sonar_train_estimate(&shape, all);
        more.sensors_used -= 6; /* 2 more would bring the CPU's MVDR into snapshot space */
        cr_assert_lt(sonar_train_estimate(&more, all), base);
        more = shape, more.ranges++;
        cr_assert_gt(sonar_train_estimate(&more, all), base);
        more = shape, more.mvdr_snapshots *= 2;
        cr_assert_gt(sonar_train_estimate(&more, all), base);
        more = shape, more.cbf_length *= 2;
        cr_assert_gt(sonar_train_estimate(&more, all), base);
    }
    /* by hand: 8 operations for 126 sensors in 459 * (871 + 6 * 358) looks, and the start; on two
     * workers of 18 and 40 Gflop/s */
    const double start = 5e-6, beams = 8.0 * 126 * 459 * (871 + 6 * 358);
    cr_assert_float_eq(stage_s(&shape, SONAR_ENGINE_CBF, false), start + beams / 180e9, 1e-12);
    cr_assert_float_eq(stage_s(&shape, SONAR_ENGINE_DFT, false),
                       start + 126 * 2.5 * (8192 * 13 + 7 * 2048 * 11) / 36e9, 1e-12);
    sonar_train_shape many = shape;
    many.cbf_length = 1024;
    many.cbf_snapshots = 15;
    cr_assert_float_eq(stage_s(&many, SONAR_ENGINE_CBF, false), start + 15 * beams / 180e9, 1e-12);
    cr_assert_float_eq(stage_s(&many, SONAR_ENGINE_DFT, false),
                       start + 126 * 2.5 * (15 * 1024 * 10 + 7 * 2048 * 11) / 36e9, 1e-12);
}

/* Data that change sides are copied once, at 55 GB/s and 40 us for each copy. */
Test(train, the_rule_counts_what_crosses) {
    const double own = 8.0 * 128 * 90 * 7, shared = 8.0 * 128 * 870;
    sonar_train_shape one_dft = shape, five = shape;
    one_dft.mvdr_own_dft = 0;
    five.cbf_snapshots = 5;
    const struct {
        const sonar_train_shape *shape;
        sonar_placement placement;
        double copies, bytes;
    } cases[] = {
        {&shape, 0, 0, 0},
        {&shape, DFT | CBF | MVDR, 0, 0},
        {&shape, DFT | CBF, 1, own},
        {&shape, MVDR, 1, own},
        {&shape, CBF, 1, shared},
        {&shape, DFT | MVDR, 1, shared},
        {&shape, DFT, 2, own + shared},
        {&shape, CBF | MVDR, 2, own + shared},
        {&five, CBF, 1, 5 * shared},
        {&one_dft, DFT | CBF, 1, shared},
        {&one_dft, MVDR, 1, shared},
        {&one_dft, DFT, 1, shared},
        {&one_dft, CBF | MVDR, 1, shared},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double parts = 0;
        for (int s = 0; s < SONAR_ENGINE_STAGES; s++)
            parts += stage_s(cases[i].shape, s, cases[i].placement >> s & 1);
        cr_assert_float_eq(sonar_train_estimate(cases[i].shape, cases[i].placement) - parts,
                           cases[i].copies * 40e-6 + cases[i].bytes / 55e9, 1e-12, "case %zu", i);
    }
}

/* Measurements of one stage: sonar-bench's cases, on an H200 (docs/benchmarks/h200.md, one
 * window by itself) and on two cores with AVX-512. */
typedef struct measured {
    sonar_engine_stage stage;
    size_t sensors, snapshots; /* snapshots: of the MVDR's block, 100 bins, 180 angles */
    double us;
} measured;

static double estimate_of(const measured *m, bool gpu) {
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
                                  .mvdr_new = 1,
                                  .mvdr_sweeps = 30,
                                  .workers = 2};
    return stage_s(&standard, (int)m->stage, gpu) * 1e6;
}

/* Within a factor, and stages that are clearly slower have larger estimates. */
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
    {SONAR_ENGINE_DFT, 128, 0, 69},       {SONAR_ENGINE_DFT, 512, 0, 81},
    {SONAR_ENGINE_DFT, 2048, 0, 169},     {SONAR_ENGINE_DFT, 16384, 0, 1393},
    {SONAR_ENGINE_DFT, 32768, 0, 1978},   {SONAR_ENGINE_CBF, 128, 0, 79},
    {SONAR_ENGINE_CBF, 512, 0, 106},      {SONAR_ENGINE_CBF, 2048, 0, 204},
    {SONAR_ENGINE_CBF, 16384, 0, 1278},   {SONAR_ENGINE_CBF, 32768, 0, 2313},
    {SONAR_ENGINE_MVDR, 64, 64, 1635},    {SONAR_ENGINE_MVDR, 256, 64, 2053},
    {SONAR_ENGINE_MVDR, 512, 64, 3063},   {SONAR_ENGINE_MVDR, 1024, 64, 5112},
    {SONAR_ENGINE_MVDR, 2048, 64, 12859}, {SONAR_ENGINE_MVDR, 16384, 64, 172103},
    {SONAR_ENGINE_MVDR, 64, 128, 1613},   {SONAR_ENGINE_MVDR, 128, 256, 7505},
    {SONAR_ENGINE_MVDR, 256, 512, 55470}, {SONAR_ENGINE_MVDR, 512, 1024, 410116}};
static const measured two_cores[] = {
    {SONAR_ENGINE_DFT, 512, 0, 3614},    {SONAR_ENGINE_CBF, 512, 0, 5700},
    {SONAR_ENGINE_MVDR, 64, 64, 14500},  {SONAR_ENGINE_MVDR, 512, 64, 21900},
    {SONAR_ENGINE_MVDR, 64, 128, 17500}, {SONAR_ENGINE_MVDR, 256, 512, 488000}};

Test(train, the_rule_agrees_with_what_was_measured) {
    compare_with(h200, sizeof h200 / sizeof *h200, true, 2.5);
    compare_with(two_cores, sizeof two_cores / sizeof *two_cores, false, 2);
    for (size_t i = 0; i < sizeof two_cores / sizeof *two_cores; i++)
        cr_assert_gt(estimate_of(&two_cores[i], false), estimate_of(&two_cores[i], true));
}

Test(train, the_rule_counts_samples_in_their_own_type) {
    sonar_train_shape s16 = shape;
    s16.sample_bytes = 2;
    cr_assert_float_eq(stage_s(&shape, SONAR_ENGINE_DFT, true) -
                           stage_s(&s16, SONAR_ENGINE_DFT, true),
                       2.0 * 130 * (double)shape.hop / 55e9, 1e-12);
    cr_assert_eq(stage_s(&shape, SONAR_ENGINE_CBF, true), stage_s(&s16, SONAR_ENGINE_CBF, true));
    cr_assert_eq(stage_s(&shape, SONAR_ENGINE_DFT, false), stage_s(&s16, SONAR_ENGINE_DFT, false));
}

/* A hundred bins run on an H200 at once, 133 do not. */
Test(train, the_rule_knows_how_many_bins_go_together) {
    sonar_train_shape one = shape, all = shape, more = shape;
    one.mvdr_directions = all.mvdr_directions = more.mvdr_directions = 1; /* hardly a surface */
    one.mvdr_bins = 1, all.mvdr_bins = 132, more.mvdr_bins = 133;
    const double one_s = stage_s(&one, SONAR_ENGINE_MVDR, true), start = 65e-6;
    const double all_s = stage_s(&all, SONAR_ENGINE_MVDR, true);
    cr_assert_float_eq(one_s, all_s, 1e-3 * one_s);
    cr_assert_gt(stage_s(&more, SONAR_ENGINE_MVDR, true) - start, 1.9 * (all_s - start));
}

/* ---- the table ------------------------------------------------------------------------------- */

static void fill_table(sonar_train_table *table) {
    *table = (sonar_train_table){.made = "2026-01-02T03:04:05Z", .decisions = 3};
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
        .name = "placement",
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
        .name = "cbf.way",
        .candidates = 2,
        .chosen = 1,
        .reason = "1.1 times as fast as slow",
        .candidate = {{.name = "slow", .available = true, .repetitions = 8, .median_s = 1.1e-3},
                      {.name = "folded", .available = true, .repetitions = 8, .median_s = 1e-3}}};
}

static void assert_close(double a, double b) {
    cr_assert_float_eq(a, b, 1e-7 * fabs(b), "%.12g is not %.12g", a, b);
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
}

static sonar_train_table saved, loaded;
static sonar_error err;

/* Saves a table in a new folder; returns its text, malloc'ed. */
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

Test(train, a_table_comes_back_as_it_was) {
    box box;
    char *text = save_table(&box);
    cr_assert_eq(load_text(&box, text), SONAR_OK, "%s: %s", err.where, err.text);
    assert_same(&loaded, &saved);
    cr_assert_str_eq(sonar_train_chosen(&loaded, "placement"), "cuda.cuda.cpu");
    cr_assert_str_eq(sonar_train_chosen(&loaded, "dft.way"), "512");
    cr_assert_str_eq(sonar_train_chosen(&loaded, "cbf.way"), "folded");
    cr_assert_null(sonar_train_chosen(&loaded, "cbf"));
    cr_assert_eq(strncmp(text, "schema: sonard-train/3\n", 23), 0);
    cr_assert_eq(sonar_train_save(&saved, box_path(&box, "train.yaml"), &err), SONAR_OK);
    cr_assert_eq(entries_of(box.dir), 1, "something is left beside the table");
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
    cr_assert_eq(keys, 70, "%zu keys", keys);
    cr_assert_gt(numbers, 35, "%zu numbers", numbers);
    free(text);
    box_close(&box);
}

Test(train, a_cut_table_never_decides_otherwise) {
    box box;
    char *text = save_table(&box);
    size_t length = strlen(text), accepted = 0;
    for (size_t n = 0; n < length; n++) {
        char *cut = strndup(text, n);
        sonar_code code = load_text(&box, cut);
        accepted += code == SONAR_OK;
        if (n + 1 < length)
            cr_assert_eq(code, SONAR_EINVAL, "cut at %zu", n);
        if (!code)
            cr_assert_str_eq(sonar_train_chosen(&loaded, "placement"), "cuda.cuda.cpu");
        free(cut);
    }
    cr_assert_leq(accepted, 1);
    free(text);
    box_close(&box);
}

Test(train, what_is_no_table_is_refused) {
    static const char *const texts[] = {"",
                                        "\n",
                                        "---\n",
                                        "schema: 1\n",
                                        "[1, 2]\n",
                                        "schema: sonard-train/3\n",
                                        "\x01\x02",
                                        "{{{{{{",
                                        "a: &a [*a]",
                                        "\xff\xfe\x00\x00",
                                        "schema: sonard-train/3\nschema: 2"};
    box box;
    char *text = save_table(&box), *twice = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        cr_assert_eq(load_text(&box, texts[i]), SONAR_EINVAL, "text %zu", i);
    cr_assert_eq(load_changed(&box, text, 8, 14, "sonard-train/2"), SONAR_EINVAL);
    cr_assert(strstr(err.text, "'schema' is not sonard-train/3; run sonard --train again"), "%s",
              err.text);
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
    static const char *const in[] = {"name: cuda.cuda.cpu", "unavailable:"};
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(
            load_changed(&box, text, (size_t)(strstr(text, in[i]) - text), 0, "extra: 1, "),
            SONAR_EINVAL, "before %s", in[i]);
    size_t way = (size_t)(strstr(text, "name: dft.way") - text) + 6;
    cr_assert_eq(load_changed(&box, text, way, 7, "placement"), SONAR_EINVAL, "decided twice");
    size_t placement = (size_t)(strstr(text, "name: placement") - text) + 6;
    cr_assert_eq(load_changed(&box, text, placement, 9, "place"), SONAR_EINVAL, "no placement");
    size_t folded = (size_t)(strstr(text, "chosen: folded") - text) + 8;
    cr_assert_eq(load_changed(&box, text, folded, 6, "halved"), SONAR_EINVAL, "no candidate");
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
    for (size_t i = 0; i < sizeof shape / sizeof(size_t); i++) {
        sonar_train_fingerprint other = saved.fingerprint;
        size_t *member = (size_t *)(void *)&other.shape + i;
        char then_and_now[64];
        snprintf(then_and_now, sizeof then_and_now, "was '%zu' and is '%zu'", *member, *member + 1);
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
    cr_assert_eq(entries_of(box.dir), 2, "a half-made file stays");
    char *long_path = malloc(5001);
    memset(long_path, 'x', 5000);
    long_path[5000] = 0;
    cr_assert_eq(sonar_train_save(&saved, long_path, &err), SONAR_ESYS);
    free(long_path);
    box_close(&box);
}

Test(train, the_fingerprint_knows_this_node) {
    static const sonar_specs specs = {.hop = 5, .dft = {.sensors = 3, .channels = 4}};
    const sonar_train_setup setup = {.backend = "auto",
                                     .sample_type = SONAR_S16,
                                     .sensors_used = 2,
                                     .specs = &specs,
                                     .host = sonar_host_serial()};
    const sonar_backend_choice none = {.backend = sonar_backend_cpu()};
    sonar_train_fingerprint fingerprint, again;
    sonar_train_fingerprint_make(&setup, &none, &fingerprint);
    sonar_train_fingerprint_make(&setup, &none, &again);
    for (size_t i = 0; i < SONAR_TRAIN_NODE_FIELDS; i++) {
        cr_assert(fingerprint.node[i][0], "%s is empty", sonar_train_node_names[i]);
        cr_assert_str_eq(fingerprint.node[i], again.node[i]);
    }
    const sonar_train_shape *s = &fingerprint.shape;
    cr_assert(s->hop == 5 && s->sensors == 3 && s->channels == 4 && s->sample_bytes == 2);
    cr_assert(s->sensors_used == 2 && s->workers == 1 && s->mvdr_bins == 0);
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

/* Returns the exit code; the output is in box/log. */
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
    assert_says(&box, "built-in rule: this node is not trained, there is no ", true);
    assert_says(&box, "an estimate", true);
    cr_assert_eq(sonard(&box, "--train"), 0);
    assert_says(&box, "written to", true);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "trained table", true);
    assert_says(&box, "an estimate", false);
    assert_says(&box, "placement: cpu, the only one available", true);
    char *wisdom = box_read(&box, "fftwf.wisdom");
    cr_assert(strstr(wisdom, "fftw"), "no wisdom was kept");
    free(wisdom);
    write_config(&box, 7, runtime);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "sensors was '6' and is '7'", true);
    assert_says(&box, "an estimate", true);
    box_write(&box, "train.yaml", "schema: other\n");
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "'schema' is not", true);
    box_close(&box);
}

/* Snapshots of the CBF shorter than those of the MVDR, and several of both. */
Test(train, sub_windows_are_trained_as_they_run) {
    box box = box_open();
    char runtime[400];
    runtime_line(&box, SONAR_PLUGIN_DIR "/stages", runtime);
    write_config_with(&box, 6, ", length: 64, hop: 32", runtime);
    cr_assert_eq(sonard(&box, "--train"), 0);
    assert_says(&box, "placement: test", true);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "trained table", true);
    write_config_with(&box, 6, ", length: 64, hop: 16", runtime);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "cbf_hop was '32' and is '16'", true);
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

/* A device that finishes at once: by timing it wins, with its working path; by the rule it does
 * not. */
Test(train, a_quick_device_is_chosen_after_training) {
    box box = box_open();
    char runtime[400];
    runtime_line(&box, SONAR_PLUGIN_DIR "/stages", runtime);
    write_config(&box, 6, runtime);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "backend: cpu (", true);
    assert_says(&box, "placement: cpu, ", true);
    cr_assert_eq(sonard(&box, "--train"), 0);
    assert_says(&box, "dft.way: quick", true);
    assert_says(&box, "not available: test: this way is closed", true);
    assert_says(&box, "placement: test", true);
    assert_says(&box, "test.test.cpu", true);
    assert_says(&box, "cpu.test.cpu", true);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "backend: test (a device): trained: every stage on test: ", true);
    runtime_line(&box, "/nowhere", runtime); /* a device that is not available */
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
    sonar_report *report = sonar_report_create();
    sonar_choices *choices = NULL;
    cr_assert_eq(sonar_config_load(box_path(box, "sonard.yaml"), config, report), SONAR_OK);
    sonar_report_destroy(report);
    const sonar_host at_home = {.log = no_log, .workers = 1, .state_dir = (*config)->state_dir};
    const sonar_train_setup setup = sonar_pipeline_setup(*config, &at_home);
    cr_assert_eq(sonar_choices_create(&setup, &choices, &err), SONAR_OK, "%s", err.text);
    return choices;
}

static void assert_places(const box *box, bool trained, const char *device, const char *places) {
    sonar_config *config = NULL;
    sonar_choices *choices = make_choices(box, &config);
    cr_assert_eq(choices->trained, trained, "%s", choices->source);
    cr_assert_str_eq(choices->backend.backend->name, device);
    for (int s = 0; s < SONAR_ENGINE_STAGES; s++)
        cr_assert_str_eq(choices->place[s]->name, places[s] == 'c' ? "cpu" : "test", "stage %d", s);
    sonar_choices_destroy(choices);
    sonar_config_destroy(config);
}

/* Rewrites the box's table with another placement, which becomes a candidate if it is not one. */
static void choose_in_table(const box *box, const char *placement) {
    sonar_config *config = NULL;
    sonar_choices *choices = make_choices(box, &config);
    sonar_train_table *table = &choices->table;
    for (size_t d = 0; d < table->decisions; d++) {
        sonar_train_decision *x = &table->decision[d];
        const char *word = !strcmp(x->name, "placement") ? placement : NULL;
        size_t c = word ? 0 : x->chosen;
        while (word && c < x->candidates && strcmp(x->candidate[c].name, word) != 0)
            c++;
        if (c == x->candidates)
            snprintf(x->candidate[--c].name, sizeof x->candidate[c].name, "%s", word);
        x->candidate[c].available = true;
        x->chosen = c;
    }
    cr_assert_eq(sonar_train_save(table, box_path(box, "train.yaml"), &err), SONAR_OK);
    sonar_choices_destroy(choices);
    sonar_config_destroy(config);
}

Test(train, the_pipeline_gets_its_places) {
    box box = box_open();
    char runtime[400];
    runtime_line(&box, SONAR_PLUGIN_DIR "/stages", runtime);
    write_config(&box, 6, runtime);
    assert_places(&box, false, "cpu", "ccc");
    cr_assert_eq(sonard(&box, "--train"), 0);
    choose_in_table(&box, "test");
    assert_places(&box, true, "test", "ttt");
    choose_in_table(&box, "test.test.cpu");
    assert_places(&box, true, "test", "ttc");
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "trained: dft on test, cbf on test, mvdr_jacobi on cpu: ", true);
    choose_in_table(&box, "cpu.test.cpu");
    assert_places(&box, true, "test", "ctc");
    choose_in_table(&box, "cpu");
    assert_places(&box, true, "cpu", "ccc");
    choose_in_table(&box, "test.test"); /* is in the table, places nothing */
    assert_places(&box, false, "cpu", "ccc");
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "its placement 'test.test' does not match", true);
    assert_says(&box, "an estimate", true);
    cr_assert_null(sonar_choices_ask(NULL, "dft.way"));
    box_close(&box);
}

/* A backend named in the configuration runs all stages, with any trained table. */
Test(train, a_name_in_the_configuration_is_not_mixed) {
    box box = box_open();
    char runtime[400];
    runtime_line(&box, SONAR_PLUGIN_DIR "/stages", runtime);
    write_config(&box, 6, runtime);
    cr_assert_eq(sonard(&box, "--train"), 0);
    choose_in_table(&box, "test.test.cpu");
    strcat(runtime, ", backend: cuda");
    write_config(&box, 6, runtime);
    assert_places(&box, true, "test", "ttt");
    strcpy(strstr(runtime, "cuda"), "cpu");
    write_config(&box, 6, runtime);
    assert_places(&box, false, "cpu", "ccc"); /* made for a node with a device */
    box_close(&box);
}

/* Every placement is a running engine, and all of them are timed. */
Test(train, every_placement_is_timed) {
    box box = box_open();
    char runtime[400];
    sonar_config *config = NULL;
    runtime_line(&box, SONAR_PLUGIN_DIR "/stages", runtime);
    write_config(&box, 6, runtime);
    cr_assert_eq(sonard(&box, "--train"), 0);
    sonar_choices *choices = make_choices(&box, &config);
    const sonar_train_decision *d = sonar_train_find(&choices->table, "placement");
    cr_assert_eq(d->candidates, 8);
    for (size_t c = 0; c < d->candidates; c++) {
        const sonar_train_timing *t = &d->candidate[c];
        cr_assert(t->available, "%s: %s", t->name, t->note);
        cr_assert(t->repetitions > 0 && t->median_s > 0, "%s", t->name);
    }
    cr_assert_str_eq(sonar_choices_ask(choices, "dft.way"), "quick");
    cr_assert_null(sonar_choices_ask(choices, "dft.other"));
    sonar_choices_destroy(choices);
    sonar_config_destroy(config);
    box_close(&box);
}

/* If the table is missing or not a regular file of this user, the log says so and the built-in rule
 * applies. */
Test(train, a_table_that_is_not_to_be_trusted_changes_nothing) {
    box box = box_open();
    char runtime[400], path[96];
    runtime_line(&box, "/nowhere", runtime);
    write_config(&box, 6, runtime);
    snprintf(path, sizeof path, "%s", box_path(&box, "train.yaml"));
    char *brackets = malloc(100001);
    memset(brackets, '[', 100000);
    brackets[100000] = 0;
    box_write(&box, "train.yaml", "%s", brackets);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "built-in rule: ", true);
    assert_says(&box, "is not a training table: ", true);
    unlink(path);
    cr_assert_eq(mkfifo(path, 0644), 0);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "is not read: it is no regular file", true);
    unlink(path);
    cr_assert_eq(symlink("/dev/zero", path), 0);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "is not read: it is a link", true);
    unlink(path);
    cr_assert_eq(sonard(&box, "--train"), 0);
    struct stat file;
    cr_assert_eq(stat(path, &file), 0);
    cr_assert_eq(file.st_mode & 0777, 0644, "the service's user cannot read it");
    cr_assert_eq(truncate(path, 1 << 20), 0);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "is not read: it is too long", true);
    free(brackets);
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
    cr_assert_eq(process_wait(daemon, 60000), 0);
    cr_assert(strstr(log, "choices: trained table"), "%s", log);
    free(log);
    box_close(&box);
}
