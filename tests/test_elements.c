/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Element health on scenes of the simulator: every fault is found and named, and no other, in any
 * sea. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "elements/internal.h"
#include "manifold/manifold.h"
#include "random.h"
#include "synth.h"
#include "numerical.h"

enum { FS = 4000, WINDOW = 4000, MOST = 160 };

/* ---- an array and its samples -------------------------------------------------------------- */

typedef struct rig {
    size_t sensors;
    double spacing_m;
    double position_m[3 * MOST], gain_db[MOST];
    uint32_t channel[MOST];
    uint8_t used[MOST];
    float scale[MOST], missing[MOST];
    float *x; /* [channel][WINDOW], what the faults are put into */
    sim_scene scene;
    sim_source source[4];
    sim_element element[MOST];
    sonar_elements *elements;
    uint64_t first, step; /* sample of the next round; from one to the next */
    void (*spoil)(struct rig *rig);
    size_t victim;
} rig;

/* A line along +x from the origin on, in a white sea of `sea_db`, at 0 dB re 1 count/uPa. */
static void rig_open(rig *r, size_t sensors, double spacing_m, double sea_db) {
    *r = (rig){.sensors = sensors, .spacing_m = spacing_m, .step = SONAR_ELEMENTS_ROUND_S * FS};
    for (size_t s = 0; s < sensors; s++) {
        r->position_m[3 * s] = spacing_m * (double)s;
        r->channel[s] = (uint32_t)s;
        r->used[s] = 1;
        r->scale[s] = 1;
    }
    r->x = calloc(sensors * WINDOW, sizeof *r->x);
    r->scene = (sim_scene){.seed = 1,
                           .sensitivity_db = NAN,
                           .noise_db = sea_db,
                           .source = r->source,
                           .element = r->element};
    r->scene.isotropic.level_db = -HUGE_VAL;
}

static void add_element(rig *r, sim_element element) {
    r->element[r->scene.elements++] = element;
}

static sim_element plain_element(size_t sensor) {
    return (sim_element){.sensor = sensor, .noise_db = -HUGE_VAL};
}

static void rig_close(rig *r) {
    sonar_elements_destroy(r->elements);
    free(r->x);
}

static sonar_elements_spec spec_of(const rig *r, double low_hz, double high_hz) {
    return (sonar_elements_spec){.sensors = r->sensors,
                                 .channels = r->sensors,
                                 .channel = r->channel,
                                 .used = r->used,
                                 .scale = r->scale,
                                 .fs_hz = FS,
                                 .length = WINDOW,
                                 .hop = WINDOW,
                                 .low_hz = low_hz,
                                 .high_hz = high_hz};
}

static void create(rig *r, double low_hz, double high_hz) {
    const sonar_elements_spec spec = spec_of(r, low_hz, high_hz);
    sonar_error err = {0};
    cr_assert_eq(sonar_elements_create(&spec, sonar_host_serial(), &r->elements, &err), SONAR_OK,
                 "%s", err.text);
}

/* As 16-bit samples in two parts if `cut` is not 0. */
static void measure(rig *r, size_t cut, bool s16) {
    int16_t *counts = calloc(r->sensors * WINDOW, sizeof *counts);
    for (size_t i = 0; i < r->sensors * WINDOW; i++)
        counts[i] = (int16_t)fmaxf(-32768, fminf(32767, rintf(r->x[i])));
    sonar_buffer in[2];
    void *data = s16 ? (void *)counts : (void *)r->x;
    sonar_dtype type = s16 ? SONAR_S16 : SONAR_F32;
    size_t n = sonar_elements_stretch(r->elements), size = sonar_dtype_size(type);
    in[0] = sonar_buffer_view(data, type, 2, (size_t[]){r->sensors, cut ? cut : n});
    in[1] = sonar_buffer_view((char *)data + cut * size, type, 2,
                              (size_t[]){r->sensors, cut ? n - cut : 0});
    in[0].stride[0] = in[1].stride[0] = WINDOW;
    sonar_elements_measure(r->elements, r->first, in, r->missing);
    free(counts);
}

/* A round of consecutive samples with the test's fault; true if the mask has changed. */
static bool play(rig *r, sim_synth *synth, size_t cut, bool s16) {
    sim_synth_render(synth, r->first, WINDOW, r->x);
    if (r->spoil)
        r->spoil(r);
    cr_assert(sonar_elements_due(r->elements, r->first));
    while (sonar_elements_due(r->elements, r->first))
        measure(r, cut, s16);
    r->first += r->step;
    return sonar_elements_judge(r->elements);
}

static sim_synth *synth_of(rig *r) {
    const sim_array array = {.sensors = r->sensors,
                             .channels = r->sensors,
                             .fs_hz = FS,
                             .sound_speed_mps = 1500,
                             .position_m = r->position_m,
                             .channel = r->channel,
                             .gain_db = r->gain_db};
    sim_synth *synth;
    sonar_error err = {0};
    cr_assert_eq(sim_synth_create(&r->scene, &array, &synth, &err), SONAR_OK, "%s", err.text);
    return synth;
}

static sonar_element_health listen(rig *r, int rounds, size_t cut, bool s16) {
    sonar_element_health health = {0};
    sim_synth *synth = synth_of(r);
    if (!r->elements)
        create(r, 300, 500);
    for (int i = 0; i < rounds; i++)
        play(r, synth, cut, s16);
    sim_synth_destroy(synth);
    sonar_elements_read(r->elements, r->used, &health);
    return health;
}

/* Expects exactly this fault at exactly this sensor (SONAR_ELEMENT_FAULTS: no fault). */
static void expect_only(const sonar_element_health *h, sonar_element_fault fault, size_t sensor,
                        const char *what) {
    for (int i = 0; i < SONAR_ELEMENT_FAULTS; i++) {
        const sonar_channel_set *list = &h->fault[i].sensors;
        const char *name = sonar_element_fault_name((sonar_element_fault)i);
        if (i == (int)fault)
            cr_expect(list->count == 1 && list->first[0] == sensor,
                      "%s: sensor %zu is not the one %s, but %u are (%u)", what, sensor, name,
                      list->count, list->first[0]);
        else
            cr_expect_eq(list->count, 0, "%s: %u are %s (%u)", what, list->count, name,
                         list->first[0]);
    }
}

/* ---- faults ---------------------------------------------------------------------------------- */

static float *victim(rig *r) {
    return r->x + r->victim * WINDOW;
}

static void stick(rig *r) {
    for (size_t i = 0; i < WINDOW; i++)
        victim(r)[i] = 117;
}

/* The last value is held, except for rare glitches. */
static void stick_mostly(rig *r) {
    for (size_t i = 0; i < WINDOW; i++)
        victim(r)[i] = i % 20 ? 117 : 117 + 3000 * (float)(i % 3);
}

/* Stronger where few sensors have little to compare it with. */
static void hum(rig *r, double hz) {
    for (size_t i = 0; i < WINDOW; i++)
        victim(r)[i] += (r->sensors < 32 ? 15000 : 1500) *
                        (float)(sin(2 * M_PI * hz * (double)(r->first + i) / FS) +
                                0.3 * sin(6 * M_PI * hz * (double)(r->first + i) / FS));
}

static void hum_50(rig *r) {
    hum(r, 50);
}

static void hum_60(rig *r) {
    hum(r, 60);
}

/* At 2.5 standard deviations of the sea. */
static void clip(rig *r) {
    for (size_t i = 0; i < WINDOW; i++)
        victim(r)[i] = fmaxf(-2500, fminf(2500, victim(r)[i]));
}

/* A digitiser repeats one block, of a length that divides neither window nor stretch. */
static void repeat_block(rig *r) {
    enum { BLOCK = 300 };
    static float block[BLOCK];
    if (r->first == 0)
        memcpy(block, victim(r), sizeof block);
    for (size_t i = 0; i < WINDOW; i++)
        victim(r)[i] = block[(r->first + i) % BLOCK];
}

static void drop_gain(rig *r) {
    for (size_t i = 0; i < WINDOW; i++)
        victim(r)[i] *= 0.001f;
}

/* Only the noise of its own preamplifier, 50 dB down. */
static void die_noisily(rig *r) {
    sim_random_normal(sim_random_key(77, SIM_STREAM_NOISY, 3), (int64_t)r->first, WINDOW,
                      victim(r));
    for (size_t i = 0; i < WINDOW; i++)
        victim(r)[i] *= 3;
}

static const struct {
    const char *name;
    void (*spoil)(rig *r);
    sonar_element_fault fault;
} faults[] = {{"stuck", stick, SONAR_ELEMENT_STUCK},
              {"stuck with glitches", stick_mostly, SONAR_ELEMENT_STUCK},
              {"hum of 50 Hz", hum_50, SONAR_ELEMENT_HUM},
              {"hum of 60 Hz", hum_60, SONAR_ELEMENT_HUM},
              {"clipped", clip, SONAR_ELEMENT_CLIPPED},
              {"gain 60 dB down", drop_gain, SONAR_ELEMENT_DEAD},
              {"preamplifier only", die_noisily, SONAR_ELEMENT_DEAD},
              {"one block again and again", repeat_block, SONAR_ELEMENT_STUCK}};

Test(elements, every_fault_is_found_at_every_place_of_small_and_large_arrays) {
    static const size_t sizes[] = {3, 4, 5, 7, 8, 17, 64, 129};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
            rig r;
            char what[80];
            rig_open(&r, sizes[i], 1.5, 60);
            r.victim = f % 3 == 0 ? 0 : f % 3 == 1 ? sizes[i] / 2 : sizes[i] - 1;
            r.spoil = faults[f].spoil;
            snprintf(what, sizeof what, "%s, %zu sensors", faults[f].name, sizes[i]);
            sonar_element_health h =
                listen(&r, SONAR_ELEMENTS_FLAG_ROUNDS, f % 2 ? 333 : 0, f % 2 != 0);
            expect_only(&h, faults[f].fault, r.victim, what);
            cr_expect_eq(h.judged, sizes[i]);
            rig_close(&r);
        }
}

Test(elements, the_simulators_own_faults_are_found) {
    const sim_element element[] = {{.sensor = 5, .noise_db = -HUGE_VAL, .dead = true},
                                   {.sensor = 6, .noise_db = 120},
                                   {.sensor = 7, .gain_db = -40, .noise_db = -HUGE_VAL},
                                   {.sensor = 8, .noise_db = 86}};
    const sonar_element_fault fault[] = {SONAR_ELEMENT_DEAD, SONAR_ELEMENT_NOISY,
                                         SONAR_ELEMENT_DEAD, SONAR_ELEMENT_NOISY};
    for (int i = 0; i < 4; i++) {
        rig r;
        rig_open(&r, 48, 1.5, 60);
        add_element(&r, element[i]);
        sonar_element_health h = listen(&r, SONAR_ELEMENTS_FLAG_ROUNDS, 0, false);
        expect_only(&h, fault[i], element[i].sensor, "simulated");
        rig_close(&r);
    }
}

/* A module of eight fails as a whole, so that no sensor has good neighbours. */
Test(elements, a_whole_module_is_found) {
    for (int noisy = 0; noisy < 2; noisy++) {
        rig r;
        rig_open(&r, 64, 1.5, 60);
        for (size_t s = 24; s < 32; s++) {
            sim_element element = plain_element(s);
            element.gain_db = noisy ? 50 : -50;
            add_element(&r, element);
        }
        sonar_element_health h = listen(&r, SONAR_ELEMENTS_FLAG_ROUNDS, 0, false);
        const sonar_channel_set *list =
            &h.fault[noisy ? SONAR_ELEMENT_NOISY : SONAR_ELEMENT_DEAD].sensors;
        cr_expect_eq(list->count, 8, "%u", list->count);
        cr_expect(list->first[0] == 24 && list->last[0] == 31);
        rig_close(&r);
    }
}

/* ---- identical samples ----------------------------------------------------------------------- */

static void copy_sensor(rig *r, size_t from, size_t to, size_t samples) {
    memcpy(r->x + to * WINDOW, r->x + from * WINDOW, samples * sizeof *r->x);
}

/* The last sensor gets the samples of the first, the third those of the second. */
static void wire_twice(rig *r) {
    copy_sensor(r, 0, r->sensors - 1, WINDOW);
    copy_sensor(r, 1, 2, WINDOW);
}

static void repeat_one(rig *r) {
    for (size_t s = 1; s < r->sensors; s++)
        copy_sensor(r, 0, s, WINDOW);
}

/* Equal except for one bit of one sample. */
static void resemble(rig *r) {
    copy_sensor(r, 0, 3, WINDOW);
    r->x[3 * WINDOW + 63] = nextafterf(r->x[3 * WINDOW + 63], 1e9f);
}

/* Two sensors have only the same dither: they are dead. */
static void toggle(rig *r) {
    for (size_t i = 0; i < WINDOW; i++)
        r->x[i] = r->x[3 * WINDOW + i] = (float)(i % 2);
}

/* So slow that most samples are those before. */
static void swell(rig *r) {
    for (size_t i = 0; i < r->sensors * WINDOW; i++)
        r->x[i] = rintf(8 * (float)sin(2 * M_PI * 20 * (double)(r->first + i % WINDOW) / FS));
}

/* Pairs far apart, all sensors, in rounds of one window and of several. */
Test(elements, sensors_with_the_samples_of_another_are_named) {
    for (size_t hop = WINDOW / 8; hop <= WINDOW; hop *= 8)
        for (int s16 = 0; s16 < 2; s16++) {
            rig r;
            rig_open(&r, 33, 1.5, 60);
            sonar_elements_spec spec = spec_of(&r, 300, 500);
            spec.hop = hop;
            cr_assert_eq(sonar_elements_create(&spec, sonar_host_serial(), &r.elements, NULL),
                         SONAR_OK);
            r.spoil = wire_twice;
            sonar_element_health h = listen(&r, SONAR_ELEMENTS_FLAG_ROUNDS, s16 ? 17 : 0, s16);
            const sonar_channel_set *list = &h.fault[SONAR_ELEMENT_IDENTICAL].sensors;
            cr_expect(list->ranges == 2 && list->count == 4, "%u", list->count);
            cr_expect(list->first[0] == 0 && list->last[0] == 2 && list->first[1] == 32);
            r.spoil = repeat_one;
            h = listen(&r, SONAR_ELEMENTS_FLAG_ROUNDS, 0, s16);
            cr_expect_eq(h.fault[SONAR_ELEMENT_IDENTICAL].sensors.count, 33);
            cr_expect_eq(h.masked_auto.sensors.count, 0, "nobody knows which one is right");
            r.spoil = NULL;
            h = listen(&r, SONAR_ELEMENTS_CLEAR_ROUNDS, 0, s16);
            expect_only(&h, SONAR_ELEMENT_FAULTS, 0, "wired right");
            rig_close(&r);
        }
}

/* The sensors of two ranks, once both have measured them, as those of one array. */
static void judge_ranks(rig *rank, sonar_elements *whole, const uint32_t *sensor) {
    const size_t bytes = rank[0].sensors * sonar_elements_measure_bytes();
    if (!sonar_elements_measured(rank[0].elements) || !sonar_elements_measured(rank[1].elements))
        return;
    uint8_t *told = malloc(2 * bytes);
    uint64_t began = 0;
    for (size_t k = 0; k < 2; k++) {
        const uint64_t first = sonar_elements_began(rank[k].elements);
        began = first > began ? first : began;
        memcpy(told + k * bytes, sonar_elements_measures(rank[k].elements), bytes);
    }
    for (size_t k = 0; k < 2; k++)
        sonar_elements_go_on(rank[k].elements, began);
    sonar_elements_take(whole, told, sensor);
    sonar_elements_judge(whole);
    free(told);
}

/* Sensors 4 to 8 at 0 dB, the first four at 4 dB, and the last one: the median is 2 dB, in which
 * the two middle ones count alike. Beside it a sensor is noisy above 20 + 72/10 dB. */
Test(elements, the_median_of_an_even_number_is_the_mean_of_the_middle_two) {
    enum { N = 10 };
    static const double last_db[] = {29.1, 29.3};
    for (size_t k = 0; k < 2; k++) {
        rig r;
        sonar_element_health h;
        struct measure all[N];
        uint32_t sensor[N];
        rig_open(&r, N, 1.5, 60);
        create(&r, 300, 500);
        for (uint32_t s = 0; s < N; s++) {
            const double level_db = s < 4 ? 4 : s < 9 ? 0 : last_db[k];
            const float power = (float)(1e9 * pow(10, level_db / 10));
            sensor[s] = s;
            all[s] = (struct measure){.probe = power, .power = power, .step = 1, .taken = true};
            for (int i = 0; i < OCTAVES; i++)
                all[s].octave[i] = power;
        }
        for (int i = 0; i < 20; i++) {
            sonar_elements_take(r.elements, all, sensor);
            sonar_elements_judge(r.elements);
        }
        sonar_elements_read(r.elements, r.used, &h);
        expect_only(&h, k ? SONAR_ELEMENT_NOISY : SONAR_ELEMENT_FAULTS, N - 1, "the last one");
        rig_close(&r);
    }
}

/* The second rank's digitiser, which sends what the first one's does, begins a window later. */
Test(elements, identical_sensors_of_ranks_that_began_apart_are_named) {
    enum { N = 5, HOP = FS / 8 }; /* a round is over before the next one is due */
    static rig rank[2], all;
    rig_open(&all, 2 * N, 1.5, 60);
    create(&all, 300, 500);
    uint32_t sensor[2 * N];
    for (uint32_t s = 0; s < 2 * N; s++)
        sensor[s] = s;
    for (int k = 0; k < 2; k++) {
        rig_open(&rank[k], N, 1.5, 60);
        sonar_elements_spec spec = spec_of(&rank[k], 300, 500);
        spec.hop = HOP;
        cr_assert_eq(sonar_elements_create(&spec, sonar_host_serial(), &rank[k].elements, NULL),
                     SONAR_OK);
    }
    sim_synth *synth = synth_of(&rank[0]);
    for (uint64_t first = 0; first < (uint64_t)12 * SONAR_ELEMENTS_ROUND_S * FS; first += HOP) {
        sim_synth_render(synth, first, WINDOW, rank[0].x);
        memcpy(rank[1].x, rank[0].x, N * WINDOW * sizeof *rank[1].x);
        rank[0].first = rank[1].first = first;
        for (int k = 0; k < (first ? 2 : 1); k++)
            if (sonar_elements_due(rank[k].elements, first))
                measure(&rank[k], 0, false);
        judge_ranks(rank, all.elements, sensor);
    }
    sonar_element_health h;
    sonar_elements_read(all.elements, all.used, &h);
    cr_expect_eq(h.fault[SONAR_ELEMENT_IDENTICAL].sensors.count, 2 * N, "%u",
                 h.fault[SONAR_ELEMENT_IDENTICAL].sensors.count);
    sim_synth_destroy(synth);
    rig_close(&rank[0]);
    rig_close(&rank[1]);
    rig_close(&all);
}

/* Two sensors cannot judge each other's levels, but can be recognised as identical. */
Test(elements, two_sensors_with_the_same_samples_are_named) {
    rig r;
    rig_open(&r, 2, 1.5, 60);
    r.spoil = repeat_one;
    sonar_element_health h = listen(&r, SONAR_ELEMENTS_FLAG_ROUNDS - 1, 0, true);
    cr_expect_eq(h.fault[SONAR_ELEMENT_IDENTICAL].sensors.count, 0, "not yet");
    h = listen(&r, SONAR_ELEMENTS_FLAG_ROUNDS, 0, true);
    cr_expect_eq(h.fault[SONAR_ELEMENT_IDENTICAL].sensors.count, 2);
    rig_close(&r);
}

Test(elements, what_only_resembles_another_is_not_identical) {
    rig r;
    rig_open(&r, 33, 1.5, 60);
    r.spoil = resemble;
    sonar_element_health h = listen(&r, SONAR_ELEMENTS_FLAG_ROUNDS, 0, false);
    expect_only(&h, SONAR_ELEMENT_FAULTS, 0, "one bit apart");
    r.spoil = toggle;
    h = listen(&r, SONAR_ELEMENTS_FLAG_ROUNDS, 0, false);
    cr_expect_eq(h.fault[SONAR_ELEMENT_DEAD].sensors.count, 2);
    cr_expect_eq(h.fault[SONAR_ELEMENT_IDENTICAL].sensors.count, 0, "dead says it all");
    r.spoil = wire_twice;
    r.used[1] = r.used[32] = 0;
    sonar_elements_change(r.elements, r.used, r.scale);
    h = listen(&r, SONAR_ELEMENTS_CLEAR_ROUNDS, 0, false);
    expect_only(&h, SONAR_ELEMENT_FAULTS, 0, "the others are masked by hand");
    r.used[1] = r.used[32] = 1;
    r.missing[0] = 0.25f;
    sonar_elements_change(r.elements, r.used, r.scale);
    h = listen(&r, SONAR_ELEMENTS_FLAG_ROUNDS, 0, false);
    cr_expect_eq(h.fault[SONAR_ELEMENT_IDENTICAL].sensors.count, 2, "one is not there");
    rig_close(&r);
}

/* A swell that is louder than all other sound moves neighbours by the same few steps of the
 * converter. */
Test(elements, slow_samples_are_not_compared) {
    rig r;
    rig_open(&r, 9, 0.01, 60);
    r.spoil = swell;
    sonar_element_health h = listen(&r, SONAR_ELEMENTS_FLAG_ROUNDS, 0, true);
    cr_expect_eq(h.fault[SONAR_ELEMENT_IDENTICAL].sensors.count, 0);
    rig_close(&r);
}

/* ---- no false alarms ------------------------------------------------------------------------- */

static void add_ship(rig *r, bool far, double az_deg, double range_m, double level_db) {
    sim_source *ship = &r->source[r->scene.sources++];
    *ship = (sim_source){.far = far, .az_deg = az_deg, .range_m = range_m, .at = !far};
    ship->broadband = (sim_spectrum){
        .present = true, .shape = SIM_PINK, .low_hz = 10, .high_hz = 1600, .level_db = level_db};
    ship->tones = 3;
    ship->tone[0] = (sim_tone){.hz = 50, .level_db = level_db};
    ship->tone[1] = (sim_tone){.hz = 60, .level_db = level_db};
    ship->tone[2] = (sim_tone){.hz = 400, .level_db = level_db};
}

static void expect_quiet(rig *r, int rounds, bool s16, const char *what) {
    char text[160];
    sonar_element_health h = listen(r, rounds, 0, s16);
    snprintf(text, sizeof text, "%s, %zu sensors, seed %zu", what, r->sensors, r->scene.seed);
    expect_only(&h, SONAR_ELEMENT_FAULTS, 0, text);
}

/* Off the end of the array, abeam of its middle and in the far field, at levels from the sea's to
 * 60 dB above it; elements of 1 dB spread. */
Test(elements, ships_near_and_far_flag_no_element, NUMERICAL) {
    static const size_t sizes[] = {3, 5, 8, 33, 96};
    static const double range_m[] = {4, 15, 60, 400};
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < 4; k++)
            for (size_t seed = 1; seed <= 6; seed++) {
                rig r;
                rig_open(&r, sizes[i], 1.5, 40);
                r.scene.seed = seed;
                r.scene.gain_error_db = 1;
                if (seed % 3 == 0) /* reference point in the middle of the line */
                    for (size_t s = 0; s < sizes[i]; s++)
                        r.position_m[3 * s] -= 0.75 * (double)(sizes[i] - 1);
                double level_db = 70 + 10 * (double)seed;
                add_ship(&r, false, seed % 2 ? 180 : 90, range_m[k], level_db);
                if (seed % 2)
                    add_ship(&r, true, 40, 0, level_db - 20);
                expect_quiet(&r, 5, false, "a ship");
                rig_close(&r);
            }
}

/* A ship metres off the end of a long line, and of a few widely spaced sensors, at every level: if
 * most sensors receive only the sea, the nearest ones stand out like faulty ones. */
Test(elements, a_ship_beside_the_first_sensor_flags_none, NUMERICAL) {
    static const size_t sizes[] = {3, 4, 5, 160};
    for (size_t i = 0; i < 4; i++)
        for (double level_db = 56; level_db < 130; level_db += 6) {
            rig r;
            rig_open(&r, sizes[i], sizes[i] < 100 ? 30 : 1.5, 40);
            add_ship(&r, false, 180, 2.5, level_db);
            r.source[0].tones = 0;
            expect_quiet(&r, SONAR_ELEMENTS_FLAG_ROUNDS, false, "a ship beside the first");
            rig_close(&r);
        }
}

/* Unmeasured sensitivities: usual spread among the sensors is distinguished from faults.
 */
Test(elements, sensors_that_differ_all_flag_none) {
    for (size_t seed = 1; seed <= 4; seed++) {
        rig r;
        rig_open(&r, 96, 1.5, 60);
        r.scene.seed = seed;
        r.scene.gain_error_db = 6;
        expect_quiet(&r, SONAR_ELEMENTS_FLAG_ROUNDS, false, "gains that differ");
        rig_close(&r);
    }
}

/* Two tones of one frequency from either side stand along the array: every third element or so
 * lies in a node for as long as they last. */
Test(elements, standing_waves_flag_no_element) {
    for (size_t seed = 1; seed <= 4; seed++) {
        rig r;
        rig_open(&r, 64, 0.9 + 0.1 * (double)seed, 40);
        for (int i = 0; i < 2; i++) {
            sim_source *s = &r.source[r.scene.sources++];
            *s = (sim_source){.far = true, .az_deg = i ? 180 : 0, .tones = 1};
            s->tone[0] = (sim_tone){.hz = 400, .level_db = 90};
        }
        expect_quiet(&r, 6, false, "standing wave");
        rig_close(&r);
    }
}

/* From noise that hardly ever reaches the converter's first step to one of several steps. */
Test(elements, a_quiet_sea_flags_no_element) {
    static const size_t sizes[] = {3, 8, 64};
    for (size_t i = 0; i < 3; i++)
        for (int step = 0; step < 14; step++) {
            rig r;
            rig_open(&r, sizes[i], 1.5, -22 + 2.5 * step);
            expect_quiet(&r, 6, true, "quiet sea");
            rig_close(&r);
        }
}

Test(elements, silence_flags_no_element) {
    rig r;
    rig_open(&r, 16, 1.5, -HUGE_VAL);
    expect_quiet(&r, 6, true, "silence");
    rig_close(&r);
}

static void kill_sensors(rig *r, size_t first, size_t end) {
    for (size_t s = first; s < end; s++) {
        sim_element element = plain_element(s);
        element.dead = true;
        add_element(r, element);
    }
}

/* Then single sensors cannot be judged, but the array is reported as quiet. */
Test(elements, an_array_that_hardly_moves_is_quiet_and_lists_what_stands_still) {
    static const size_t dead[] = {0, 6, 7, 12, 13};
    for (size_t i = 0; i < 5; i++)
        for (int s16 = 0; s16 < 2; s16++) {
            rig r;
            rig_open(&r, 13, 1.5, 60);
            kill_sensors(&r, 0, dead[i]);
            sonar_element_health h = listen(&r, SONAR_ELEMENTS_FLAG_ROUNDS, 0, s16);
            const bool quiet = dead[i] > 6;
            cr_expect_eq(h.quiet, quiet, "%zu of 13", dead[i]);
            cr_expect_eq(h.still.sensors.count, quiet ? dead[i] : 0);
            cr_expect_eq(h.still.channels.count, quiet ? dead[i] : 0);
            cr_expect_eq(h.fault[SONAR_ELEMENT_DEAD].sensors.count, quiet ? 0 : dead[i]);
            cr_expect_eq(h.judged, quiet ? 0 : 13);
            rig_close(&r);
        }
}

/* Without a comparison a sensor that was found dead stays dead and masked. */
Test(elements, what_was_found_dead_stays_so_when_most_others_die_as_well) {
    rig r;
    rig_open(&r, 13, 1.5, 60);
    kill_sensors(&r, 0, 4);
    sonar_element_health h = listen(&r, SONAR_ELEMENTS_OUT_ROUNDS, 0, true);
    cr_assert_eq(h.fault[SONAR_ELEMENT_DEAD].sensors.count, 4);
    cr_assert(!h.quiet);
    kill_sensors(&r, 4, 13);
    sim_synth *all_dead = synth_of(&r);
    for (int i = 0; i < SONAR_ELEMENTS_BACK_ROUNDS + SONAR_ELEMENTS_FLAG_ROUNDS; i++)
        cr_expect(!play(&r, all_dead, 0, true), "round %d", i);
    sonar_elements_read(r.elements, r.used, &h);
    cr_expect(h.quiet);
    cr_expect_eq(h.still.sensors.count, 13);
    cr_expect_eq(h.fault[SONAR_ELEMENT_DEAD].sensors.count, 4);
    for (size_t s = 0; s < 13; s++)
        cr_expect_eq(sonar_elements_mask(r.elements)[s], s < 4, "%zu", s);
    sim_synth_destroy(all_dead);
    rig_close(&r);
}

Test(elements, many_rounds_of_a_plain_sea_flag_no_element) {
    for (size_t sensors = 3; sensors <= 96; sensors *= 2) {
        rig r;
        rig_open(&r, sensors, 1.5, 50);
        expect_quiet(&r, 60, sensors % 4 != 0, "plain sea");
        rig_close(&r);
    }
}

/* Loud sines with one or two samples at the maximum in each period; off broadside, so that no two
 * sensors have the same samples. */
Test(elements, tones_are_not_taken_for_clipping) {
    static const double hz[] = {40, 125, 250, 500, 1000, 333.3};
    for (size_t i = 0; i < 6; i++)
        for (int s16 = 0; s16 < 2; s16++) {
            rig r;
            rig_open(&r, 8, 1.5, -HUGE_VAL);
            sim_source *s = &r.source[r.scene.sources++];
            *s = (sim_source){.far = true, .az_deg = 70, .tones = 1};
            s->tone[0] = (sim_tone){.hz = hz[i], .level_db = 77};
            expect_quiet(&r, 4, s16, "tone");
            rig_close(&r);
        }
}

/* ---- calibration, masks, gaps ---------------------------------------------------------------- */

/* Channels of very different gain are judged by their sound levels, not by their counts. */
Test(elements, levels_are_compared_after_calibration) {
    rig r;
    rig_open(&r, 12, 1.5, 60);
    for (size_t s = 0; s < 12; s++) {
        r.gain_db[s] = s % 2 ? 40 : 0;
        r.scale[s] = (float)pow(10, -r.gain_db[s] / 20);
    }
    expect_quiet(&r, 4, false, "gains");
    rig_close(&r);
}

Test(elements, sensors_masked_by_hand_are_counted_and_not_judged) {
    rig r;
    rig_open(&r, 12, 1.5, 60);
    r.used[4] = r.used[7] = 0;
    r.victim = 4;
    r.spoil = stick;
    sonar_element_health h = listen(&r, 4, 0, false);
    expect_only(&h, SONAR_ELEMENT_FAULTS, 0, "masked");
    cr_expect_eq(h.judged, 10);
    cr_expect_eq(h.masked, 2);
    rig_close(&r);
}

Test(elements, zeros_in_place_of_lost_samples_are_not_judged) {
    rig r;
    rig_open(&r, 12, 1.5, 60);
    r.missing[4] = 0.01f;
    r.victim = 4;
    r.spoil = stick;
    sonar_element_health h = listen(&r, 4, 0, false);
    expect_only(&h, SONAR_ELEMENT_FAULTS, 0, "missing");
    cr_expect_eq(h.judged, 11);
    rig_close(&r);
}

/* ---- over time ------------------------------------------------------------------------------- */

/* Runs a number of rounds with the fault, then without; returns the round in which the victim's
 * mask changed, 0: never. */
static int rounds_until_change(rig *r, sim_synth *synth, bool faulty, int most) {
    void (*spoil)(rig *) = faulty ? stick : NULL;
    r->spoil = spoil;
    for (int i = 1; i <= most; i++) {
        uint8_t before = sonar_elements_mask(r->elements)[r->victim];
        bool changed = play(r, synth, 0, false);
        cr_assert_eq(changed, before != sonar_elements_mask(r->elements)[r->victim]);
        if (changed)
            return i;
    }
    return 0;
}

Test(elements, a_sensor_goes_out_after_seconds_and_comes_back_later_each_time) {
    rig r;
    rig_open(&r, 6, 1.5, 60);
    r.victim = 2;
    create(&r, 300, 500);
    sim_synth *synth = synth_of(&r);
    cr_expect_eq(rounds_until_change(&r, synth, true, SONAR_ELEMENTS_OUT_ROUNDS - 1), 0);
    cr_expect_eq(rounds_until_change(&r, synth, false, 10), 0, "a short fault masks nothing");
    cr_expect_eq(rounds_until_change(&r, synth, true, 20), SONAR_ELEMENTS_OUT_ROUNDS);
    cr_expect_eq(rounds_until_change(&r, synth, false, SONAR_ELEMENTS_BACK_ROUNDS - 1), 0);
    cr_expect_eq(rounds_until_change(&r, synth, true, 2), 0);
    cr_expect_eq(rounds_until_change(&r, synth, false, 99), SONAR_ELEMENTS_BACK_ROUNDS,
                 "a fault in between restarts the time");
    cr_expect_eq(rounds_until_change(&r, synth, true, 20), SONAR_ELEMENTS_OUT_ROUNDS);
    cr_expect_eq(rounds_until_change(&r, synth, false, 99), 2 * SONAR_ELEMENTS_BACK_ROUNDS);
    sim_synth_destroy(synth);
    rig_close(&r);
}

Test(elements, a_flag_is_raised_after_seconds_and_cleared_again) {
    rig r;
    rig_open(&r, 6, 1.5, 60);
    r.spoil = stick;
    sonar_element_health h = listen(&r, SONAR_ELEMENTS_FLAG_ROUNDS - 1, 0, false);
    expect_only(&h, SONAR_ELEMENT_FAULTS, 0, "too early");
    h = listen(&r, 1, 0, false);
    expect_only(&h, SONAR_ELEMENT_STUCK, 0, "now");
    r.spoil = NULL;
    h = listen(&r, SONAR_ELEMENTS_CLEAR_ROUNDS - 1, 0, false);
    expect_only(&h, SONAR_ELEMENT_STUCK, 0, "still");
    h = listen(&r, 1, 0, false);
    expect_only(&h, SONAR_ELEMENT_FAULTS, 0, "cleared");
    rig_close(&r);
}

Test(elements, no_more_than_a_third_goes_out) {
    rig r;
    size_t out = 0;
    rig_open(&r, 13, 1.5, 60);
    for (size_t s = 3; s < 9; s++) {
        sim_element element = plain_element(s);
        element.dead = true;
        add_element(&r, element);
    }
    sonar_element_health h = listen(&r, 8, 0, false);
    for (size_t s = 0; s < 13; s++)
        out += sonar_elements_mask(r.elements)[s];
    cr_expect_eq(h.fault[SONAR_ELEMENT_DEAD].sensors.count, 6);
    cr_expect_eq(out, 4);
    rig_close(&r);
}

/* A tone without noise, of a period that is not short. */
static void sing(rig *r) {
    for (size_t s = 0; s < r->sensors; s++)
        for (size_t i = 0; i < WINDOW; i++)
            r->x[s * WINDOW + i] =
                roundf(3000 * (float)sin(2 * M_PI * (double)((r->first + i) % 200 + 3 * s) / 200));
}

Test(elements, none_goes_out_where_all_repeat_themselves) {
    rig r;
    rig_open(&r, 9, 1.5, 60);
    r.spoil = sing;
    const sonar_element_health h = listen(&r, 8, 0, true);
    cr_expect_eq(h.fault[SONAR_ELEMENT_STUCK].sensors.count, 9);
    for (size_t s = 0; s < 9; s++)
        cr_expect_eq(sonar_elements_mask(r.elements)[s], 0, "%zu", s);
    rig_close(&r);
}

static void sing_one_loudly(rig *r) {
    sing(r);
    for (size_t i = 0; i < WINDOW; i++)
        victim(r)[i] *= 1000;
}

Test(elements, a_noisy_one_goes_out_where_all_repeat_themselves) {
    rig r;
    rig_open(&r, 9, 1.5, 60);
    r.spoil = sing_one_loudly;
    r.victim = 4;
    listen(&r, 8, 0, false);
    for (size_t s = 0; s < 9; s++)
        cr_expect_eq(sonar_elements_mask(r.elements)[s], s == 4, "%zu", s);
    rig_close(&r);
}

/* Clipping and hum outside of the band are reported, but the sensors stay in the beams. */
Test(elements, what_does_not_spoil_the_beams_stays_in) {
    rig r;
    rig_open(&r, 13, 1.5, 60);
    r.victim = 6;
    r.spoil = clip;
    sonar_element_health h = listen(&r, 8, 0, false);
    expect_only(&h, SONAR_ELEMENT_CLIPPED, 6, "clipped");
    cr_expect_eq(sonar_elements_mask(r.elements)[6], 0);
    r.spoil = hum_50;
    h = listen(&r, 8, 0, false);
    expect_only(&h, SONAR_ELEMENT_HUM, 6, "hum");
    cr_expect_eq(sonar_elements_mask(r.elements)[6], 0);
    sonar_elements_destroy(r.elements);
    create(&r, 100, 500);
    h = listen(&r, 8, 0, false);
    cr_expect_eq(h.fault[SONAR_ELEMENT_HUM].sensors.count, 1);
    cr_expect_eq(sonar_elements_mask(r.elements)[6], 1, "150 Hz is in the band now");
    rig_close(&r);
}

/* From barometers to transient recorders, in windows of any length: a dead and a noisy sensor are
 * found, and no sound one. */
Test(elements, rates_and_windows_of_every_kind_do) {
    static const struct {
        double fs_hz, low_hz, high_hz;
        size_t length;
    } cases[] = {{100, 0.5, 2, 1000},   {100, 10, 50, 131},     {250, 5, 20, 512},
                 {1000, 0, 500, 777},   {48000, 10, 20, 3999},  {192000, 30000, 90000, 128},
                 {8e6, 1e6, 2e6, 3000}, {4000, 1990, 1999, 129}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig r;
        char what[40];
        rig_open(&r, 24, 1.5, 60);
        sonar_elements_spec spec = spec_of(&r, cases[i].low_hz, cases[i].high_hz);
        spec.fs_hz = cases[i].fs_hz;
        spec.length = spec.hop = cases[i].length;
        cr_assert_eq(sonar_elements_create(&spec, sonar_host_serial(), &r.elements, NULL),
                     SONAR_OK);
        sim_element noisy = plain_element(20);
        noisy.noise_db = 110;
        add_element(&r, noisy);
        r.step = (uint64_t)(SONAR_ELEMENTS_ROUND_S * cases[i].fs_hz) + 1;
        r.spoil = drop_gain;
        r.victim = 3;
        sonar_element_health h = listen(&r, SONAR_ELEMENTS_FLAG_ROUNDS, 50, false);
        snprintf(what, sizeof what, "%g Hz, %zu samples", cases[i].fs_hz, cases[i].length);
        cr_expect(h.fault[SONAR_ELEMENT_DEAD].sensors.count == 1 &&
                      h.fault[SONAR_ELEMENT_DEAD].sensors.first[0] == 3,
                  "%s: %u dead", what, h.fault[SONAR_ELEMENT_DEAD].sensors.count);
        cr_expect(h.fault[SONAR_ELEMENT_NOISY].sensors.count == 1 &&
                      h.fault[SONAR_ELEMENT_NOISY].sensors.first[0] == 20,
                  "%s: %u noisy", what, h.fault[SONAR_ELEMENT_NOISY].sensors.count);
        cr_expect_eq(h.fault[SONAR_ELEMENT_STUCK].sensors.count, 0);
        cr_expect_eq(h.fault[SONAR_ELEMENT_HUM].sensors.count, 0);
        cr_expect_eq(h.fault[SONAR_ELEMENT_CLIPPED].sensors.count, 0);
        rig_close(&r);
    }
}

Test(elements, windows_too_short_to_judge_by_are_left_alone) {
    rig r;
    rig_open(&r, 4, 1.5, 60);
    for (size_t length = 2; length < 140; length += 9) {
        sonar_elements_spec spec = spec_of(&r, 300, 500);
        spec.length = length;
        cr_assert_eq(sonar_elements_create(&spec, sonar_host_serial(), &r.elements, NULL),
                     SONAR_OK);
        cr_expect_eq(sonar_elements_due(r.elements, 0), length >= 128);
        cr_expect_not(sonar_elements_judge(r.elements));
        sonar_elements_destroy(r.elements);
    }
    r.elements = NULL;
    rig_close(&r);
}

/* A round takes several windows. */
Test(elements, a_round_is_shared_out_among_windows) {
    rig r;
    rig_open(&r, 100, 1.5, 60);
    sonar_elements_spec spec = spec_of(&r, 300, 500);
    spec.hop = FS / 4;
    cr_assert_eq(sonar_elements_create(&spec, sonar_host_serial(), &r.elements, NULL), SONAR_OK);
    for (int round = 0; round < 3; round++) {
        for (int window = 0; window < 4 * SONAR_ELEMENTS_ROUND_S; window++, r.first += FS / 4) {
            cr_assert(sonar_elements_due(r.elements, r.first), "window %d", window);
            cr_expect_not(sonar_elements_judge(r.elements), "not before all are measured");
            measure(&r, 0, false);
        }
        cr_expect_not(sonar_elements_due(r.elements, r.first), "the other thread has its turn");
        sonar_elements_judge(r.elements);
        cr_expect_not(sonar_elements_due(r.elements, r.first - 1));
    }
    cr_expect(sonar_elements_due(r.elements, 0), "another stream");
    rig_close(&r);
}

/* Sensors by their number, channels by theirs, and how many of them are in the beams still. */
Test(elements, sensors_and_channels_are_listed_each_in_order) {
    rig r;
    rig_open(&r, 9, 1.5, 60);
    for (uint32_t s = 0; s < 9; s++)
        r.channel[s] = 8 - s;
    for (size_t s = 1; s < 3; s++) {
        sim_element element = plain_element(s);
        element.dead = true;
        add_element(&r, element);
    }
    listen(&r, SONAR_ELEMENTS_FLAG_ROUNDS, 0, false);
    uint8_t used[9] = {1, 0, 1, 1, 1, 1, 1, 1, 1};
    sonar_element_health h;
    sonar_elements_read(r.elements, used, &h);
    const sonar_element_list *dead = &h.fault[SONAR_ELEMENT_DEAD], *out = &h.masked_auto;
    cr_expect(dead->sensors.ranges == 1 && dead->sensors.first[0] == 1 &&
              dead->sensors.last[0] == 2);
    cr_expect(dead->channels.first[0] == 6 && dead->channels.last[0] == 7);
    cr_expect_eq(dead->used, 1);
    cr_expect(out->sensors.count == 1 && out->sensors.first[0] == 1 && out->channels.first[0] == 7);
    cr_expect_eq(out->used, 0);
    cr_expect_eq(h.masked_hand.sensors.count, 0);
    static const uint8_t kept[9] = {1, 0, 1, 1, 1, 0, 1, 1, 1};
    sonar_elements_change(r.elements, kept, r.scale);
    used[2] = used[5] = 0;
    sonar_elements_read(r.elements, used, &h);
    cr_expect(out->sensors.count == 1 && out->sensors.first[0] == 2 && out->channels.first[0] == 6,
              "a sensor is masked by hand or automatically, never both");
    const sonar_element_list *hand = &h.masked_hand;
    cr_expect(hand->sensors.count == 2 && hand->sensors.first[0] == 1 &&
              hand->sensors.first[1] == 5);
    cr_expect(hand->channels.count == 2 && hand->channels.first[0] == 3 &&
              hand->channels.first[1] == 7);
    rig_close(&r);
}
