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

/* ---- the built-in rule ----------------------------------------------------------------------- */

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
                                        .workers = 2};

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
        more = shape, more.length *= 2;
        cr_assert_gt(estimated(&more, gpu), base);
    }
    /* by hand: 8 operations for 126 sensors in 459 * (871 + 6 * 358) looks, and the start */
    double seconds[SONAR_TRAIN_STAGES];
    const sonar_train_rates unit = {.fft_flops = 1, .beam_flops = 1, .eigen_flops = 1};
    sonar_train_estimate(&shape, &unit, seconds);
    cr_assert_float_eq(seconds[SONAR_TRAIN_CBF], 8.0 * 126 * 459 * (871 + 6 * 358), 1);
    cr_assert_float_eq(seconds[SONAR_TRAIN_DFT], 126 * 2.5 * (8192 * 13 + 7 * 2048 * 11), 1);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void fill_table(sonar_train_table *table) {
    *table = (sonar_train_table){
        .made = "2026-01-02T03:04:05Z", .decisions = 2, .kinds = 2, .buffers = 2};
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
                      {.name = "cuda",
                       .available = true,
                       .repetitions = 7,
                       .median_s = 1.0 / 14,
                       .spread_s = 2e-5},
                      {.name = "other", .note = "libx: [not] there, or: \"odd\""}}};
    table->kind[0] = (sonar_train_memory){"pageable", {1e-6, 2e-10}, {3e-6, 3e-10}, {0, 1e-10}};
    table->kind[1] = (sonar_train_memory){"pinned", {1e-4, 2e-11}, {3e-6, 3e-11}, {0, 1e-11}};
    table->buffer[0] = (sonar_train_buffer){"samples", 4194304, 7031.25, 0, "pinned"};
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
    cr_assert_str_eq(sonar_train_chosen(&loaded, "chain"), "cuda");
    cr_assert_str_eq(sonar_train_chosen(&loaded, "dft.way"), "512");
    cr_assert_null(sonar_train_chosen(&loaded, "cbf"));
    cr_assert_eq(strncmp(text, "schema: sonard-train/1\n", 23), 0);
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
            cr_assert_str_eq(sonar_train_chosen(&loaded, "chain"), "cuda");
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
                                        "schema: sonard-train/1\n",
                                        "\x01\x02",
                                        "{{{{{{",
                                        "a: &a [*a]",
                                        "\xff\xfe\x00\x00",
                                        "schema: sonard-train/1\nschema: 2"};
    box box;
    char *text = save_table(&box), *twice = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        cr_assert_eq(load_text(&box, texts[i]), SONAR_EINVAL, "text %zu", i);
    cr_assert_eq(load_changed(&box, text, 8, 14, "sonard-train/2"), SONAR_EINVAL);
    cr_assert(strstr(err.text, "schema"), "%s", err.text);
    cr_assert_geq(asprintf(&twice, "%s---\n%s", text, text), 0);
    cr_assert_eq(load_text(&box, twice), SONAR_EINVAL);
    size_t chosen = (size_t)(strstr(text, "chosen: cuda") - text) + 8;
    cr_assert_eq(load_changed(&box, text, chosen, 4, "vulkan"), SONAR_EINVAL);
    cr_assert_eq(load_changed(&box, text, chosen, 4, "other"), SONAR_EINVAL, "is not available");
    /* keys that mean nothing here */
    cr_assert_eq(load_changed(&box, text, 0, 0, "extra: 1\n"), SONAR_EINVAL);
    static const char *const before[] = {"  sonard:", "  sensors:"};
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(
            load_changed(&box, text, (size_t)(strstr(text, before[i]) - text), 0, "  extra: 1\n"),
            SONAR_EINVAL);
    static const char *const in[] = {"name: cuda", "offset_us", "bytes:"};
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(
            load_changed(&box, text, (size_t)(strstr(text, in[i]) - text), 0, "extra: 1, "),
            SONAR_EINVAL, "before %s", in[i]);
    size_t way = (size_t)(strstr(text, "name: dft.way") - text) + 6;
    cr_assert_eq(load_changed(&box, text, way, 7, "chain"), SONAR_EINVAL, "decided twice");
    size_t chain = (size_t)(strstr(text, "name: chain") - text) + 6;
    cr_assert_eq(load_changed(&box, text, chain, 5, "chains"), SONAR_EINVAL, "no chain");
    size_t pinned = (size_t)(strstr(text, "chosen: pinned") - text) + 8;
    cr_assert_eq(load_changed(&box, text, pinned, 6, "mapped"), SONAR_EINVAL, "not measured");
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

static void write_config(const box *box, size_t sensors, const char *runtime) {
    box_write(box, "sonard.yaml",
              "schema: 1\n"
              "array: {geometry: {line: {sensors: %zu, spacing_m: 0.75}}}\n"
              "sound_speed_mps: 1500\n"
              "fs_hz: 2000\n"
              "ingest: {endpoints: [\"ipc://%s/in\"]}\n"
              "dft: {length: 256, hop: 128}\n"
              "cbf: {band_hz: [600, 950], ranges_m: [50, 200]}\n"
              "lofar: {band_hz: [300, 950]}\n"
              "mvdr: {band_hz: [600, 950], length: 128, hop: 64, snapshots: 16}\n"
              "output: {endpoint: \"ipc://%s/out\"}\n"
              "runtime: {threads: 1, %s}\n",
              sensors, box->dir, box->dir, runtime);
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
    assert_says(&box, "buffer samples", true);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "backend: test (a device): trained: ", true);
    assert_says(&box, "memory pinned", true);
    runtime_line(&box, "/nowhere", runtime); /* the device is taken out */
    write_config(&box, 6, runtime);
    cr_assert_eq(sonard(&box, "--explain"), 0);
    assert_says(&box, "gpu was 'a device' and is 'none'", true);
    assert_says(&box, "backend: cpu (", true);
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
