/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Beams that follow a track, of a pipeline that is fed frames: a ship passes, falls silent and is
 * lost. The sound at the array's origin is known in double precision. */
#include <cjson/cJSON.h>
#include <complex.h>
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "configured.h"
#include "control/change.h"
#include "core/core.h"
#include "core/random.h"
#include "fed.h"
#include "oracle.h"

TestSuite(beam_track, .timeout = 300);

enum {
    SENSORS = 24,
    LENGTH = 2048,
    HOP = 1024,
    FRAME = 512,
    TONES = 24,
    BEAMS = 4,
    PASSES = 80 * 2000 / FRAME, /* frames in which the ship is heard */
    MESSAGES = 1024
};
static const double FS = 2000, FIRST_AZ = 50, RATE = 18.0 / 60, RMS = 1e5;

#define TEXT(array, more)                                                                          \
    "schema: 1\n"                                                                                  \
    "array: {id: 1, geometry: {line: {sensors: 24, spacing_m: 0.75}}, gain_db: -170" array "}\n"   \
    "fs_hz: 2000\n"                                                                                \
    "ingest: {endpoints: [\"ipc:///no/such/folder/in\"], overload: block, queue_windows: 1, "      \
    "drop_spikes: false}\n"                                                                        \
    "dft: {length: 2048, hop: 1024}\n"                                                             \
    "cbf: {band_hz: [450, 850], ranges_m: []}\n"                                                   \
    "mvdr: {enabled: false}\n"                                                                     \
    "beam: {az_deg: [50, 110], track: [1, 0]}\n"                                                   \
    "output: {endpoint: \"ipc:///no/such/folder/out\", queue_results: 1}\n"                        \
    "runtime: {threads: 2, backend: cpu}\n" more

/* What a message says of a beam. */
typedef struct fact {
    double az_deg, bearing_deg, track, missing; /* NaN: null */
    char state[16], name[SONAR_BEAM_NAME];
} fact;

typedef struct reader {
    size_t messages, others;
    int64_t first[MESSAGES];
    fact beam[MESSAGES][BEAMS];
    float series[MESSAGES][BEAMS][HOP];
} reader;

static uint32_t wanted(void *ctx) {
    (void)ctx;
    return SONAR_WANT(SONAR_BEAM_AUDIO);
}

static double number_in(const cJSON *object, const char *name) {
    const cJSON *item = cJSON_GetObjectItem(object, name);
    cr_assert(item, "no %s", name);
    return cJSON_IsNull(item) ? NAN : cJSON_GetNumberValue(item);
}

static void take(void *ctx, sonar_surface surface, const char *header, const void *data,
                 size_t bytes) {
    reader *r = ctx;
    if (surface != SONAR_BEAM_AUDIO) {
        r->others++;
        return;
    }
    cJSON *head = cJSON_Parse(header);
    const cJSON *beam;
    const size_t m = r->messages++;
    size_t b = 0;
    cr_assert_lt(m, MESSAGES);
    cr_assert_eq(bytes, sizeof r->series[m]);
    memcpy(r->series[m], data, bytes);
    r->first[m] = (int64_t)number_in(head, "sample_index");
    cJSON_ArrayForEach(beam, cJSON_GetObjectItem(head, "beams")) {
        const char *state = cJSON_GetStringValue(cJSON_GetObjectItem(beam, "track_state"));
        fact *f = &r->beam[m][b++];
        *f = (fact){number_in(beam, "az_deg"),
                    number_in(beam, "bearing_deg"),
                    number_in(beam, "track"),
                    number_in(beam, "missing"),
                    "",
                    ""};
        snprintf(f->state, sizeof f->state, "%s", state ? state : "null");
        snprintf(f->name, sizeof f->name, "%s",
                 cJSON_GetStringValue(cJSON_GetObjectItem(beam, "name")));
    }
    cr_assert_eq(b, BEAMS);
    cJSON_Delete(head);
}

/* ---- the ship -------------------------------------------------------------------------------- */

typedef struct ship {
    const sonar_params *params;
    double hz[TONES], phase[TONES];
    double noise; /* rms of each sensor's own */
    uint64_t random;
} ship;

static ship ship_of(const fed *fed, double noise) {
    ship s = {.params = fed->params, .noise = noise, .random = 5};
    for (size_t j = 0; j < TONES; j++) {
        s.hz[j] = 460 + 380 * ((double)j + 0.5) / TONES;
        s.phase[j] = M_PI * sonar_random_symmetric(&s.random);
    }
    return s;
}

/* From the axis, at the time of a sample. */
static double az_at(double sample) {
    return FIRST_AZ + RATE * sample / FS;
}

static double sound(const ship *s, double seconds) {
    double sum = 0;
    for (size_t j = 0; j < TONES; j++)
        sum += cos(2 * M_PI * s->hz[j] * seconds + s->phase[j]);
    return RMS * sqrt(2.0 / TONES) * sum;
}

/* The sensors are evenly spaced, so that a tone's phase is so too. */
static void fill(ship *s, uint64_t first, bool heard, float *to) {
    const sonar_params *params = s->params;
    for (size_t i = 0; i < FRAME; i++) {
        const double at = (double)(first + i);
        double u[3], x[SENSORS];
        oracle_unit(az_at(at), 0, u);
        const double early = oracle_delay_far(params->position_m, u, params->sound_speed_mps),
                     next = oracle_delay_far(params->position_m + 3, u, params->sound_speed_mps);
        for (size_t k = 0; k < SENSORS; k++)
            x[k] = s->noise * sonar_random_normal(&s->random);
        for (size_t j = 0; j < TONES && heard; j++) {
            const double omega = 2 * M_PI * s->hz[j];
            const double complex turn = cexp(I * omega * (next - early));
            double complex tone = cexp(I * (omega * (at / FS + early) + s->phase[j]));
            for (size_t k = 0; k < SENSORS; k++, tone *= turn)
                x[k] += RMS * sqrt(2.0 / TONES) * creal(tone);
        }
        for (size_t k = 0; k < SENSORS; k++)
            to[i * SENSORS + params->channel[k]] = (float)(x[k] / (double)params->scale[k]);
    }
}

/* Feeds frames of the ship's pass from frame `from` to `end`; from PASSES on it is silent. */
static void feed(const fed *fed, ship *s, uint32_t from, uint32_t end) {
    static float samples[SENSORS * FRAME];
    for (uint32_t k = from; k < end; k++) {
        const uint64_t first = (uint64_t)k * FRAME;
        fill(s, first, k < PASSES, samples);
        fed_samples(fed, first, FRAME, SENSORS, 1700000000000000000 + (int64_t)first * 500000,
                    samples);
    }
}

/* ---- levels ---------------------------------------------------------------------------------- */

/* Level of a beam in a message over that of a beam which is steered at the ship all along: that has
 * the ship's sound, and the mean of the sensors' noise. */
static double over_truth_db(const ship *s, const reader *r, size_t m, size_t b) {
    double power = 0, is = HOP * s->noise * s->noise / SENSORS;
    for (size_t i = 0; i < HOP; i++) {
        power += pow((double)r->series[m][b][i], 2);
        is += pow(sound(s, ((double)r->first[m] + (double)i) / FS), 2);
    }
    return 10 * log10(power / is);
}

/* The largest change from sample to sample of what a beam has besides the ship's sound: within
 * messages, and where message m begins, until the fade ends. */
static void jumps(const ship *s, const reader *r, size_t m, size_t b, double *within,
                  double *between) {
    double last = (double)r->series[m - 1][b][HOP - 1] - sound(s, ((double)r->first[m] - 1) / FS);
    for (size_t i = 0; i < HOP; i++) {
        const double is =
            (double)r->series[m][b][i] - sound(s, ((double)r->first[m] + (double)i) / FS);
        double *most = i < 11 ? between : within;
        *most = fmax(*most, fabs(is - last));
        last = is;
    }
}

static bool is_heard(const reader *r, size_t m) {
    return r->first[m] + HOP <= (int64_t)PASSES * FRAME - 100;
}

/* The messages of the pass in which beam b follows a confirmed track; checks them all. `when` in a
 * message it has the angle that is told: in the middle, or while the array turns at its end. */
static size_t check_pass(const ship *s, const reader *r, size_t b, double when) {
    size_t followed = 0;
    double off = 0, within = 0, between = 0;
    for (size_t m = 1; m < r->messages && is_heard(r, m); m++) {
        const fact *f = &r->beam[m][b], *before = &r->beam[m - 1][b];
        if (strcmp(f->state, "confirmed") != 0 || !(f->track > 0))
            continue;
        const double db = over_truth_db(s, r, m, b);
        cr_expect_float_eq(db, 0, 0.5, "message %zu: %g dB", m, db);
        cr_expect_eq(f->missing, 0);
        off += f->az_deg - az_at((double)r->first[m] + when * HOP);
        followed++;
        if (!strcmp(before->state, "confirmed") && before->track == f->track)
            jumps(s, r, m, b, &within, &between);
    }
    off /= (double)followed;
    cr_expect(between > 0 && between < 1.1 * within, "%g in steps, %g between", between, within);
    /* the last window's bearing is 0.6 s or 0.2 degrees old in the middle of the message */
    cr_expect_float_eq(off, 0, 0.06, "behind by %g degrees", off);
    return followed;
}

enum { CHANGES = 1 };

/* At half of the pass the second beam is given track 1 in place of its angle, and the last one a
 * number that no track has. */
static void change(const fed *fed) {
    static sonar_config_differences differences;
    const sonar_config_value to[2] = {{"beam.az_deg", "[50]"}, {"beam.track", "[1, 1, 999]"}};
    sonar_error err = {0};
    cr_assert_eq(sonar_control_set(fed->pipeline, 2, to, NULL, NULL, &differences, &err), SONAR_OK,
                 "%s", err.text);
}

static void run(const char *text, reader *r, ship *s, double noise, uint32_t frames, int how) {
    const sonar_output_tap tap = {.ctx = r, .wanted = wanted, .take = take};
    fed fed = fed_open("track", text, &tap);
    *s = ship_of(&fed, noise);
    feed(&fed, s, 0, PASSES / 2);
    if (how & CHANGES)
        change(&fed);
    feed(&fed, s, PASSES / 2, frames);
    fed_close(&fed);
    s->params = NULL;
    cr_assert_eq(r->others, 0, "tracks are not published to a reader of beam.audio");
}

/* The beam that looked elsewhere comes to the ship over the first 5 ms of message m. */
static void check_fade(const ship *s, const reader *r, size_t m) {
    enum { FADE = 10 };
    double off = 0, click = 0;
    cr_assert_str_eq(r->beam[m - 1][1].name, "az110");
    cr_assert_str_eq(r->beam[m][1].name, "track1");
    for (size_t i = 0; i < FADE; i++) {
        const double is = sound(s, ((double)r->first[m] + (double)i) / FS);
        off += pow((double)r->series[m][1][i] - is * (double)i / FADE, 2);
        click += pow(is * (1 - (double)i / FADE), 2);
    }
    /* side lobes in which the ship was heard before */
    cr_expect_lt(10 * log10(off / click), -12, "%g dB", 10 * log10(off / click));
}

/* From the beginning, and from a live change on. The fixed beam loses the ship. */
Test(beam_track, follows_the_ship) {
    static reader r;
    ship s;
    run(TEXT(", heading_deg: 300", ""), &r, &s, 2e3, PASSES, CHANGES);
    const size_t messages = 1 + ((size_t)PASSES * FRAME - LENGTH) / HOP;
    cr_assert_eq(r.messages, messages);
    const size_t followed = check_pass(&s, &r, 2, 0.5), live = check_pass(&s, &r, 1, 0.5);
    cr_expect(followed > messages * 3 / 4, "%zu of %zu", followed, messages);
    cr_expect(live > messages * 2 / 5 && live < messages * 3 / 5, "%zu of %zu", live, messages);
    size_t changed = 0;
    for (size_t m = 0; m < messages; m++) {
        const fact *f = r.beam[m];
        changed += isnan(f[1].track);
        cr_assert(isnan(f[0].track) && !strcmp(f[0].state, "null") && f[0].az_deg == 50);
        cr_assert_str_eq(f[2].name, "track1");
        cr_assert_str_eq(f[3].name, isnan(f[1].track) ? "track0" : "track999");
        cr_assert_str_eq(f[3].state, "unknown");
        cr_assert(isnan(f[3].az_deg) && isnan(f[3].bearing_deg) && f[3].missing == HOP);
    }
    check_fade(&s, &r, changed);
    cr_expect_lt(over_truth_db(&s, &r, messages - 2, 0), -10, "the fixed beam has lost it");
    const fact *last = &r.beam[messages - 1][2];
    cr_expect_float_eq(last->bearing_deg, fmod(300 + last->az_deg, 360), 1e-6);
}

/* Without a heading there is no bearing, and the angle follows all the same; in noise as loud as
 * the ship. */
Test(beam_track, needs_no_heading) {
    static reader r;
    ship s;
    run(TEXT("", ""), &r, &s, RMS, PASSES, 0);
    cr_expect_gt(check_pass(&s, &r, 2, 0.5), r.messages * 3 / 4);
    for (size_t m = 0; m < r.messages; m++)
        cr_assert(isnan(r.beam[m][2].bearing_deg));
}

/* The ship has one true bearing, and the array turns: the beam follows within the message. */
Test(beam_track, follows_while_the_array_turns) {
    static reader r;
    ship s;
    const sonar_output_tap tap = {.ctx = &r, .wanted = wanted, .take = take};
    fed fed = fed_open("turns", TEXT("", "navigation: {stale_after_ms: 10000}\n"), &tap);
    sonar_error err = {0};
    s = ship_of(&fed, 2e3);
    for (int second = 0; second <= 100; second += 5) {
        char text[100];
        snprintf(text, sizeof text, "{\"heading_deg\": %.9g, \"utc_ns\": %lld}",
                 320 - RATE * second, 1700000000000000000LL + 1000000000LL * second);
        cr_assert_eq(sonar_pipeline_navigate(fed.pipeline, text, strlen(text), &err), SONAR_OK,
                     "%s", err.text);
    }
    feed(&fed, &s, 0, PASSES);
    fed_close(&fed);
    cr_expect_gt(check_pass(&s, &r, 2, 1), r.messages * 3 / 4);
    for (size_t m = r.messages / 3; m < r.messages; m++)
        cr_expect_float_eq(r.beam[m][2].bearing_deg, 320 + FIRST_AZ - 360, 0.3, "%g",
                           r.beam[m][2].bearing_deg);
}

/* A ship that falls silent is followed at its rate, until its track is lost; then the beam has no
 * direction and no samples. */
Test(beam_track, says_that_the_track_coasts_and_is_lost) {
    static reader r;
    ship s;
    run(TEXT("", ""), &r, &s, 2e3, PASSES + 200 * 2000 / FRAME, 0);
    size_t coasted = 0, lost = 0;
    for (size_t m = 1; m < r.messages; m++) {
        const fact *f = &r.beam[m][2];
        const bool nowhere = !strcmp(f->state, "lost") || !strcmp(f->state, "unknown");
        cr_assert_eq(!!isnan(f->az_deg), nowhere, "message %zu: %s", m, f->state);
        cr_assert(f->missing == (nowhere ? HOP : 0), "message %zu: %s", m, f->state);
        cr_assert_eq(!!isnan(r.series[m][2][HOP / 2]), nowhere);
        cr_assert(!lost || !strcmp(f->state, "lost"), "message %zu: %s", m, f->state);
        lost += !strcmp(f->state, "lost");
        if (strcmp(f->state, "coasting") != 0)
            continue;
        coasted++;
        cr_assert(!is_heard(&r, m));
        cr_assert_float_eq(f->az_deg, az_at((double)r.first[m] + 0.5 * HOP), 6);
    }
    cr_expect_gt(coasted * HOP / FS, 30);
    cr_expect_gt(lost, 20);
}

/* The same frames, twice, with a reader of beam.audio alone. */
Test(beam_track, replays_to_the_same_samples) {
    static reader a, b;
    ship s;
    run(TEXT(", heading_deg: 300", ""), &a, &s, 2e3, PASSES / 2, 0);
    run(TEXT(", heading_deg: 300", ""), &b, &s, 2e3, PASSES / 2, 0);
    cr_assert_eq(a.messages, b.messages);
    cr_expect_eq(memcmp(a.series, b.series, a.messages * sizeof *a.series), 0);
}

/* ---- configuration --------------------------------------------------------------------------- */

static void expect_mistake(const char *from, const char *to, const char *where_is,
                           const char *said) {
    char where[MISTAKE_WHERE_BYTES], why[MISTAKE_WHY_BYTES];
    cr_expect_eq(configured_spoilt(TEXT("", ""), from, to, where, why), SONAR_EINVAL, "%s", to);
    cr_expect_str_eq(where, where_is, "%s: %s", to, where);
    cr_expect(strstr(why, said), "'%s' lacks '%s'", why, said);
}

Test(beam_track, mistakes_are_named) {
    expect_mistake("track: [1, 0]", "track: [1, -7]", "test:8:38",
                   "-7 is out of range; accepted: a list, each a whole number, 0 to");
    expect_mistake("track: [1, 0]", "track: [1.5]", "test:8:35",
                   "expected a whole number, not 1.5");
    expect_mistake("track: [1, 0]", "track: 7", "test:8:34", "expected a list");
    expect_mistake("track: [1, 0]", "track: [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", "test:8:34",
                   "more than 16 beams");
    expect_mistake(
        "beam:", "detections: {enabled: false}\nbeam:", "test:9:34",
        "without detections there are no tracks to follow; accepted: beams by tracks with "
        "detections.enabled: true");
    expect_mistake("queue_results: 1", "queue_results: 1, topics: [beam.audio, detections]",
                   "test:8:34", "leaves out the tracks");
}

/* A live change may give a beam a track in place of an angle, but not add a beam. */
static void expect_change(const char *az, const char *track, bool fits) {
    static sonar_config_differences all;
    sonar_config *made = configured("made", TEXT("", "")), *with, *merged = NULL;
    sonar_report *report = sonar_report_create();
    const sonar_config_value values[3] = {
        {"beam.az_deg", az}, {"beam.track", track}, {"runtime.log_level", "error"}};
    cr_assert_eq(sonar_config_with(made, 3, values, &with, report), SONAR_OK);
    cr_assert_eq(sonar_config_merge(made, made, with, &merged, &all, report), SONAR_OK);
    cr_expect_eq(merged->specs.beams, 4);
    cr_expect_eq(merged->log_level, SONAR_ERROR);
    for (size_t k = 0; k < all.count; k++) {
        const sonar_config_difference *d = &all.difference[k];
        const bool beams = !strncmp(d->path, "beam.", 5);
        cr_expect_eq(d->live, fits || !beams, "%s", d->path);
        cr_expect(d->live || strstr(d->why, "5 beams do not fit buffers for 4"), "%s", d->why);
    }
    sonar_config_destroy(merged);
    sonar_config_destroy(with);
    sonar_config_destroy(made);
    sonar_report_destroy(report);
}

Test(beam_track, live_changes_have_the_room_of_the_start) {
    expect_change("[]", "[1, 2, 3, 4]", true);
    expect_change("[1, 2, 3, 4]", "[]", true);
    expect_change("[50]", "[1, 2, 3, 4]", false);
}
