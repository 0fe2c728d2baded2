/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A rank's letter about a change fits its buffer, or the change is refused with a limit that would
 * fit. mpi_test.py tests the rest with ranks. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "configured.h"
#include "core/core.h"
#include "core/random.h"
#include "pipeline/internal.h"

/* ", key: [...]" with numbers of the greatest length. */
static void print_numbers(FILE *to, const char *key, size_t count, uint64_t *seed) {
    fprintf(to, ", %s: [", key);
    for (size_t i = 0; i < count; i++)
        fprintf(to, "%s%.17g", i ? ", " : "", -1e-100 * (1 + sonar_random_uniform(seed)));
    fputc(']', to);
}

/* A line; `long_`: with all live options. */
static sonar_config *write_line(size_t sensors, bool long_) {
    char *text = NULL;
    size_t bytes = 0;
    uint64_t seed = sensors;
    FILE *to = open_memstream(&text, &bytes);
    fprintf(to, "schema: 1\nfs_hz: 8000\narray: {geometry: {line: {sensors: %zu, spacing_m: 0.01}}",
            sensors);
    if (long_) {
        print_numbers(to, "phase_deg", sensors, &seed);
        print_numbers(to, "delay_us", sensors, &seed);
        fprintf(to, ", hydrophone: {full_scale_v: 5, full_scale_counts: 1");
        print_numbers(to, "sensitivity_db", sensors, &seed);
        print_numbers(to, "amplifier_db", sensors, &seed);
        fprintf(to, "}, mask: [");
        for (size_t i = sensors / 2; i < sensors - 1; i++)
            fprintf(to, "%s%zu", i > sensors / 2 ? ", " : "", i);
        fprintf(to, "]");
    }
    fprintf(to, "}\nmvdr: {enabled: false}\ncbf: {band_hz: [600, 950]");
    for (size_t i = 0; long_ && i < 64; i++)
        fprintf(to, "%s%.17g", i ? ", " : ", ranges_m: [", 1e6 * (1 + (double)(i + 1) / 30));
    fprintf(to, "%s}\n", long_ ? "]" : "");
    fclose(to);
    sonar_config *config = configured("test", text);
    free(text);
    return config;
}

/* Two ranks; the other one has reported more. */
static sonar_code share(const void *mine, size_t size, void *all, sonar_error *err) {
    size_t room[2];
    (void)err;
    cr_assert_eq(size, sizeof *room);
    memcpy(room, mine, size);
    room[1] = room[0] + 1;
    memcpy(all, room, sizeof room);
    return SONAR_OK;
}

/* The parts of a rank that exchange letters. */
static sonar_pipeline *open_rank(const sonar_config *config) {
    static const sonar_cluster_ops ops = {.share = share};
    static const sonar_cluster cluster = {.ops = &ops, .place = {.ranks = 2}};
    sonar_pipeline *p = calloc(1, sizeof *p);
    p->whole = config;
    p->ranks.split.cluster = &cluster;
    cr_assert_eq(sonar_propose_create(p, NULL), SONAR_OK);
    return p;
}

static void close_rank(sonar_pipeline *p) {
    sonar_propose_destroy(p);
    free(p);
}

Test(propose, every_configuration_fits_a_letter) {
    static const size_t sensors[] = {1, 24, 5000};
    for (size_t i = 0; i < sizeof sensors / sizeof *sensors; i++) {
        sonar_config *was = write_line(sensors[i], false), *is = write_line(sensors[i], true);
        sonar_pipeline *p = open_rank(was);
        size_t bytes = 0;
        enum { HEAD_MOST = 128 };
        free(sonar_config_given(is, &bytes));
        cr_expect_gt(bytes, 4 * 20 * sensors[i]);
        cr_expect_leq(HEAD_MOST + bytes + sensors[i], sonar_letters_room(p->ranks.change.letters),
                      "%zu: %zu", sensors[i], bytes);
        close_rank(p);
        sonar_config_destroy(is);
        sonar_config_destroy(was);
    }
}

Test(propose, more_keys_than_there_is_room_for_are_refused) {
    sonar_config *config = write_line(4, false);
    sonar_error err = {0};
    config->security.allowed[SONAR_READERS].count = 3; /* at the start */
    sonar_pipeline *p = open_rank(config);
    uint8_t(*key)[SONAR_KEY_BYTES] = calloc(1200, sizeof *key);
    sonar_security many = {.allowed = {[SONAR_SENDERS] = {900, key}, [SONAR_READERS] = {200, key}}};
    p->thread_started = true;
    cr_expect_eq(sonar_pipeline_allow(p, &many, &err), SONAR_EINVAL);
    cr_expect_str_eq(err.where, "security");
    cr_expect(strstr(err.text, "900 keys of allow_senders and 200 of allow_readers were read"));
    cr_expect(strstr(err.text, "room for 1030: fewer, or a restart"), "%s", err.text);
    cr_expect_geq(sonar_letters_room(p->ranks.change.letters), 1030 * SONAR_KEY_BYTES);
    free(key);
    close_rank(p);
    config->security.allowed[SONAR_READERS].count = 0; /* there were none */
    sonar_config_destroy(config);
}
