/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of options: a value is stored in the member that its row names, and nowhere else. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/options.h"
#include "configured.h"

/* A member as a number, read by the size and type that its row states. */
static double member_of(const sonar_config *config, const sonar_option *o) {
    const char *at = (const char *)config + o->offset;
    union {
        size_t size;
        double real;
        bool truth;
        int whole;
        unsigned natural;
    } as = {0};
    cr_assert_leq(o->bytes, sizeof as, "%s", o->path);
    memcpy(&as, at, o->bytes);
    switch (o->stored) {
    case SONAR_STORED_SIZE:
        return (double)as.size;
    case SONAR_STORED_REAL:
        return as.real;
    case SONAR_STORED_TRUTH:
        return as.truth;
    case SONAR_STORED_INT:
        return as.whole;
    case SONAR_STORED_UNSIGNED:
        return as.natural;
    default:
        cr_assert_fail("%s is text", o->path);
    }
    return NAN;
}

static void assert_member(const sonar_config *config, const sonar_option *o, const sonar_value *v) {
    char word[32] = "";
    const char *at = (const char *)config + o->offset;
    if (o->stored == SONAR_STORED_TEXT)
        cr_assert_str_eq(*(char *const *)at, v->text, "%s", o->path);
    else if (o->stored != SONAR_STORED_LETTERS)
        cr_assert_eq(member_of(config, o), v->number, "%s: %g", o->path, v->number);
    else if (o->type == SONAR_TYPE_CHOICE)
        snprintf(word, sizeof word, "%s", o->choices[(size_t)v->number]);
    if (o->stored == SONAR_STORED_LETTERS)
        cr_assert_str_eq(at, v->text ? v->text : word, "%s", o->path);
}

/* Numbers at both ends of what is accepted and between, every choice, a text. */
static size_t some_values(const sonar_option *o, double number[32]) {
    const bool whole = o->type == SONAR_TYPE_INTEGER;
    if (o->type == SONAR_TYPE_INTEGER || o->type == SONAR_TYPE_REAL) {
        const double middle = o->low + 0.37 * (o->high - o->low);
        number[0] = o->low, number[1] = whole ? floor(middle) : middle, number[2] = o->high;
        return 3;
    }
    if (o->type == SONAR_TYPE_TEXT || o->type == SONAR_TYPE_ENDPOINT)
        return 1;
    size_t count = 2;
    if (o->type == SONAR_TYPE_CHOICE) {
        count = 0;
        while (o->choices[count])
            count++;
    }
    for (size_t i = 0; i < count; i++)
        number[i] = (double)i;
    return count;
}

Test(options, each_row_writes_its_member_and_nothing_else) {
    size_t stored = 0;
    char text[] = "A b";
    for (size_t id = 0; id < SONAR_OPTIONS; id++) {
        const sonar_option *o = &sonar_options[id];
        double number[32] = {0};
        const size_t values = some_values(o, number);
        stored += o->stored != SONAR_STORED_NOWHERE;
        for (size_t i = 0; o->stored && i < values; i++) {
            sonar_settings *settings = calloc(1, sizeof *settings);
            sonar_config *config = calloc(1, sizeof *config), *none = calloc(1, sizeof *none);
            sonar_loader loader = {.settings = settings, .config = config};
            sonar_value *v = &settings->value[id];
            cr_assert(o->bytes && o->offset + o->bytes <= sizeof *config, "%s", o->path);
            v->number = number[i];
            v->text = o->type == SONAR_TYPE_TEXT || o->type == SONAR_TYPE_ENDPOINT ? text : NULL;
            sonar_option_store(&loader, (sonar_option_id)id);
            cr_assert(!memcmp(config, none, sizeof *config), "%s is not there", o->path);
            v->origin = SONAR_FROM_FILE;
            v->bad = true;
            sonar_option_store(&loader, (sonar_option_id)id);
            cr_assert(!memcmp(config, none, sizeof *config), "%s is not acceptable", o->path);
            v->bad = false;
            sonar_option_store(&loader, (sonar_option_id)id);
            assert_member(config, o, v);
            if (o->stored == SONAR_STORED_TEXT)
                free(*(char **)((char *)config + o->offset));
            memset((char *)config + o->offset, 0, o->bytes);
            cr_assert(!memcmp(config, none, sizeof *config), "%s writes beyond", o->path);
            free(settings);
            free(config);
            free(none);
        }
    }
    cr_assert_gt(stored, SONAR_OPTIONS / 2);
}

/* Otherwise alternative rows for one member would take each other's value. */
Test(options, no_two_rows_share_a_member_but_alternatives) {
    for (size_t a = 0; a < SONAR_OPTIONS; a++)
        for (size_t b = 0; b < a; b++) {
            const sonar_option *p = &sonar_options[a], *q = &sonar_options[b];
            if (!p->stored || !q->stored || (a == OPT_TAYLOR_LEVEL && b == OPT_CHEBYSHEV_LEVEL))
                continue;
            cr_assert(p->offset + p->bytes <= q->offset || q->offset + q->bytes <= p->offset,
                      "%s and %s", p->path, q->path);
        }
}

static void assert_members(const sonar_config *config) {
    for (size_t id = 0; id < SONAR_OPTIONS; id++) {
        const sonar_value *v = &config->settings->value[id];
        if (sonar_options[id].stored && v->origin != SONAR_ABSENT)
            assert_member(config, &sonar_options[id], v);
    }
}

/* Including derived values: the printed configuration is the running one. */
static void assert_printed_and_read_again(const char *name, const char *text) {
    sonar_config *config = configured(name, text);
    assert_members(config);
    char *printed;
    size_t bytes;
    FILE *to = open_memstream(&printed, &bytes);
    sonar_config_print(config, to);
    fclose(to);
    sonar_config *again = configured(name, printed);
    assert_members(again);
    for (size_t id = 0; id < SONAR_OPTIONS; id++) {
        const sonar_option *o = &sonar_options[id];
        if (o->stored && o->stored != SONAR_STORED_TEXT)
            cr_assert(!memcmp((const char *)config + o->offset, (const char *)again + o->offset,
                              o->bytes),
                      "%s: %s", name, o->path);
    }
    free(printed);
    sonar_config_destroy(again);
    sonar_config_destroy(config);
}

#define LINE "schema: 1\nfs_hz: 4000\narray: {geometry: {line: {sensors: 8, spacing_m: 0.5}}"

Test(options, what_is_printed_is_read_into_the_same_members) {
    static const char *const texts[] = {
        LINE "}\ncbf: {band_hz: [100, 1000]}\n",
        LINE ", heading_deg: -90, auto_mask: true}\nsound_speed_mps: 1480.25\n"
             "cbf: {band_bins: [10, 20], length: 512, hop: 100, shading: {taylor: {sidelobe_db: 25,"
             " nbar: 3}}, range_reference: abeam, ranges_m: [40]}\n"
             "dft: {length: 2048, hop: 300, window: kaiser, kaiser_beta: 6.5, mean_removal: false,"
             " equalisation: phase}\n"
             "mvdr: {length: 1024, hop: 200, forgetting: 0.9, solver: jacobi, tolerance: 1e-5,"
             " max_sweeps: 7, forward_backward: true, correct_level: true, cell_maximum: false, "
             "nearfield: true,"
             " loading: {rule: absolute, eps: 0.125, known_sources: 2}}\n"
             "ingest: {socket: sub, overload: block, queue_windows: 9, max_skew_ms: 12.5,"
             " threads: 2, max_message_bytes: 4294967296}\n"
             "detections: {enabled: false, most: 3, threshold_db: 4.5}\n"
             "normalised: {method: order_truncate_average}\n"
             "runtime: {backend: cpu, threads: 3, cpu_ingest: 1, log_level: debug,"
             " on_gpu_failure: exit, state_dir: /tmp/a b}\n",
        LINE "}\ncbf: {band_hz: [100, 1000], shading: {chebyshev: {sidelobe_db: 31}}}\n"
             "mvdr: {enabled: false, snapshots: 17}\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_printed_and_read_again("test.yaml", texts[i]);
}
