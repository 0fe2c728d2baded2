/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "checker.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "json.h"

enum { SOURCES_MOST = 16, TRUTHS_MOST = 4096, ERRORS_MOST = 4096, NAME_BYTES = 11 };

/* Tolerances in beam widths and as a share of the range. The bearing's tolerance is the accuracy
 * that the product promises. A near source is found between the ranges of a grid, so its tolerances
 * are larger. */
static const double BEARING_TOLERANCE = 0.1, NEAR_BEARING_TOLERANCE = 0.25, RANGE_TOLERANCE = 0.2;
/* Two sources closer than this, in beam widths, give one peak of the conventional beamformer. */
static const double SEPARABLE = 1.5;
static const double FOUND_SHARE = 0.9; /* share of the judged windows */

/* ---- truth ----------------------------------------------------------------------------------- */

typedef struct truth {
    double sample;
    size_t sources;
    double az_deg[SOURCES_MOST], range_m[SOURCES_MOST]; /* range NaN: far */
} truth;

/* A source's estimates by one method, one for each judged window. */
typedef struct track {
    size_t count;
    double error[ERRORS_MOST];
    double last;
} track;

typedef struct source {
    char name[NAME_BYTES];
    bool near, merged;
    double true_deg, true_range_m;
    track cbf, mvdr, range;
    size_t windows,
        single_peaks; /* of a close pair: windows in which the CBF has one peak for both */
} source;

struct checker {
    const sonar_config *config;
    double beam_broadside_deg; /* -3 dB width at broadside, in the middle of the band */
    double settle_samples;
    truth *history; /* ring [TRUTHS_MOST] */
    size_t truths;
    source source[SOURCES_MOST];
    size_t sources;
    double first_sample; /* NaN until the first detections are received */
    size_t windows;
    double lost_messages;
    double next_seq;
};

/* The truth is in the array frame; a line measures angles from its axis. */
static double fold(const checker *check, double az_deg, double depression_deg) {
    const sonar_scan *scan = &check->config->cbf_scan;
    if (!scan->cone)
        return sonar_modulo_turn(az_deg);
    double az = az_deg * M_PI / 180, depression = depression_deg * M_PI / 180;
    double cosine = cos(depression) * (cos(az) * scan->axis[0] + sin(az) * scan->axis[1]) +
                    sin(depression) * scan->axis[2];
    return acos(fmin(fmax(cosine, -1), 1)) * 180 / M_PI;
}

static double difference(const checker *check, double a, double b) {
    double d = a - b;
    return check->config->cbf_scan.cone ? d : remainder(d, 360);
}

static double beam_width(const checker *check, double az_deg) {
    if (!check->config->cbf_scan.cone)
        return check->beam_broadside_deg;
    return check->beam_broadside_deg / fmax(sin(az_deg * M_PI / 180), 0.05);
}

void checker_take_truth(checker *check, const cJSON *head) {
    truth *t = &check->history[check->truths++ % TRUTHS_MOST];
    const cJSON *item;
    *t = (truth){.sample = json_number(head, "sample_index")};
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(head, "sources")) {
        if (t->sources == SOURCES_MOST)
            break;
        const cJSON *name = cJSON_GetObjectItemCaseSensitive(item, "name");
        source *s = &check->source[t->sources];
        const char *given = cJSON_IsString(name) ? name->valuestring : "?";
        sonar_text_clean(given, strlen(given), s->name, sizeof s->name);
        t->az_deg[t->sources] =
            fold(check, json_number(item, "az_deg"), json_number(item, "depression_deg"));
        t->range_m[t->sources] = json_number(item, "range_m");
        s->near = isfinite(t->range_m[t->sources]);
        t->sources++;
    }
    check->sources = t->sources;
}

/* Interpolated linearly between the two reports around `sample`; false if they do not exist. */
static bool truth_at(const checker *check, double sample, truth *out) {
    size_t oldest = check->truths > TRUTHS_MOST ? check->truths - TRUTHS_MOST : 0;
    for (size_t i = check->truths; i-- > oldest + 1;) {
        const truth *b = &check->history[i % TRUTHS_MOST];
        const truth *a = &check->history[(i - 1) % TRUTHS_MOST];
        if (a->sample > sample || b->sample <= a->sample || a->sources != b->sources)
            continue;
        double t = (sample - a->sample) / (b->sample - a->sample);
        *out = *a;
        for (size_t s = 0; s < a->sources; s++) {
            out->az_deg[s] += t * difference(check, b->az_deg[s], a->az_deg[s]);
            out->range_m[s] += t * (b->range_m[s] - a->range_m[s]);
        }
        return t < 20; /* reports may lag a little, but must not stop */
    }
    return false;
}

/* ---- detections ------------------------------------------------------------------------------ */

/* The detection of `method` nearest to az_deg, or NULL. */
static const cJSON *nearest(const checker *check, const cJSON *list, const char *method,
                            double az_deg, bool with_range) {
    const cJSON *item, *best = NULL;
    double distance = INFINITY;
    cJSON_ArrayForEach(item, list) {
        const cJSON *from = cJSON_GetObjectItemCaseSensitive(item, "source");
        if (!cJSON_IsString(from) || strcmp(from->valuestring, method) != 0)
            continue;
        if (with_range && !isfinite(json_number(item, "range_m")))
            continue;
        double d = fabs(difference(check, json_number(item, "az_deg"), az_deg));
        if (d < distance) {
            distance = d;
            best = item;
        }
    }
    return distance < 2 * beam_width(check, az_deg) ? best : NULL;
}

static void note(track *track, double value, double error) {
    if (track->count < ERRORS_MOST)
        track->error[track->count++] = error;
    track->last = value;
}

static void find_pairs(checker *check, const truth *t) {
    for (size_t i = 0; i < t->sources; i++)
        for (size_t j = 0; j < t->sources; j++)
            if (i != j && !check->source[i].near && !check->source[j].near &&
                fabs(difference(check, t->az_deg[i], t->az_deg[j])) <
                    SEPARABLE * beam_width(check, t->az_deg[i]))
                check->source[i].merged = true;
}

/* Number of CBF detections within a beam width of az_deg. */
static size_t peaks_around(const checker *check, const cJSON *list, double az_deg) {
    const cJSON *item;
    size_t count = 0;
    cJSON_ArrayForEach(item, list) {
        const cJSON *from = cJSON_GetObjectItemCaseSensitive(item, "source");
        count += cJSON_IsString(from) && strcmp(from->valuestring, "cbf") == 0 &&
                 fabs(difference(check, json_number(item, "az_deg"), az_deg)) <
                     beam_width(check, az_deg);
    }
    return count;
}

static void judge_cbf(checker *check, const cJSON *list, const truth *t) {
    find_pairs(check, t);
    for (size_t i = 0; i < t->sources; i++) {
        source *s = &check->source[i];
        s->windows++;
        s->true_deg = t->az_deg[i];
        s->true_range_m = t->range_m[i];
        s->single_peaks += s->merged && peaks_around(check, list, t->az_deg[i]) == 1;
        const cJSON *hit = nearest(check, list, "cbf", t->az_deg[i], s->near);
        if (!hit)
            continue;
        double az = json_number(hit, "az_deg");
        note(&s->cbf, az, difference(check, az, t->az_deg[i]));
        if (s->near)
            note(&s->range, json_number(hit, "range_m"),
                 json_number(hit, "range_m") / t->range_m[i] - 1);
    }
}

static void judge_mvdr(checker *check, const cJSON *list, const truth *t) {
    for (size_t i = 0; i < t->sources; i++) {
        source *s = &check->source[i];
        const cJSON *hit = s->near ? NULL : nearest(check, list, "mvdr", t->az_deg[i], false);
        if (hit)
            note(&s->mvdr, json_number(hit, "az_deg"),
                 difference(check, json_number(hit, "az_deg"), t->az_deg[i]));
    }
}

void checker_take_detections(checker *check, const cJSON *head) {
    double first = json_number(head, "sample_index"), seq = json_number(head, "seq");
    if (isnan(check->first_sample))
        check->first_sample = first;
    else if (seq > check->next_seq)
        check->lost_messages += fmin(seq - check->next_seq, 1e15);
    check->next_seq = seq + 1;
    if (first - check->first_sample < check->settle_samples)
        return;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(head, "detections");
    const cJSON *mvdr = cJSON_GetObjectItemCaseSensitive(head, "mvdr");
    truth t;
    if (!truth_at(check, first + (double)check->config->specs.window_length / 2, &t))
        return;
    check->windows++;
    judge_cbf(check, list, &t);
    double middle = (json_number(mvdr, "first_sample") + json_number(mvdr, "last_sample")) / 2;
    if (isfinite(middle) && truth_at(check, middle, &t))
        judge_mvdr(check, list, &t);
}

bool checker_wants(const checker *check, size_t windows) {
    return !isnan(check->first_sample) && check->truths && check->windows < windows;
}

/* ---- table ----------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_error(const track *track) {
    static double sorted[ERRORS_MOST];
    if (!track->count)
        return NAN;
    for (size_t i = 0; i < track->count; i++)
        sorted[i] = fabs(track->error[i]);
    qsort(sorted, track->count, sizeof *sorted, compare);
    return sorted[track->count / 2];
}

static bool within(const source *s, const track *track, double tolerance) {
    return (double)track->count >= FOUND_SHARE * (double)s->windows && s->windows > 0 &&
           median_error(track) <= tolerance;
}

static void print_cell(const track *track, bool judged, FILE *to) {
    if (!judged)
        fprintf(to, "%9s %7s", "-", "");
    else if (!track->count)
        fprintf(to, "%9s %7s", "none", "");
    else
        fprintf(to, "%9.2f %7.3f", track->last, median_error(track));
}

static bool print_source(const checker *check, const source *s, FILE *to) {
    double width = beam_width(check, s->true_deg);
    double tolerance = width * (s->near ? NEAR_BEARING_TOLERANCE : BEARING_TOLERANCE);
    bool mvdr = check->config->specs.mvdr_enabled && !s->near, good = true;
    fprintf(to, "%-10s %8.2f ", s->name, s->true_deg);
    if (s->merged && 2 * s->single_peaks > s->windows)
        fprintf(to, "%9s %7s", "merged", "");
    else
        print_cell(&s->cbf, true, to);
    print_cell(&s->mvdr, mvdr, to);
    fprintf(to, " %8.3f", tolerance);
    if (!s->merged)
        good = within(s, &s->cbf, tolerance);
    if (mvdr)
        good = within(s, &s->mvdr, tolerance) && good;
    if (s->near)
        good = within(s, &s->range, RANGE_TOLERANCE) && good;
    fprintf(to, "  %s\n", good ? "ok" : "BEYOND");
    if (s->near)
        fprintf(to, "%-10s range %.0f m, found %.0f m, error %.1f %%, tolerance %.0f %%\n", "",
                s->true_range_m, s->range.last, 100 * median_error(&s->range),
                100 * RANGE_TOLERANCE);
    return good;
}

static const char *nothing_because(const checker *check) {
    return isnan(check->first_sample)
               ? "no detections were received; does sonard run and receive samples?"
           : !check->truths ? "no truth was received; was sonar-sim started with this --truth?"
                            : "the samples ended before --settle did";
}

int checker_print(const checker *check, FILE *to) {
    if (!check->windows) {
        fprintf(to, "No window could be judged: %s.\n", nothing_because(check));
        return EXIT_NOTHING;
    }
    fprintf(to,
            "\n%zu windows judged, %.0f messages lost on the way here.\nDegrees%s; errors are "
            "medians.\n\n",
            check->windows, check->lost_messages,
            check->config->cbf_scan.cone ? " from the array's axis" : " in the array frame");
    fprintf(to, "%-10s %8s %9s %7s%9s %7s %8s\n", "source", "true", "CBF", "error", "MVDR", "error",
            "allowed");
    bool good = true;
    for (size_t i = 0; i < check->sources; i++)
        good = print_source(check, &check->source[i], to) && good;
    fputs("\nMVDR averages over its integration time: its error is against the truth in\n"
          "the middle of that time.\n"
          "merged: the conventional beamformer shows one peak for two sources this close.\n",
          to);
    fputs(good ? "\nAll within tolerance.\n" : "\nNot all within tolerance.\n", to);
    return good ? EXIT_WITHIN : EXIT_BEYOND;
}

/* ---- life ------------------------------------------------------------------------------------ */

checker *checker_create(const sonar_config *config, double settle_s) {
    const double centre_hz = (config->cbf_band.low_hz + config->cbf_band.high_hz) / 2;
    checker *check = sonar_alloc(1, sizeof *check);
    if (!check)
        return NULL;
    check->config = config;
    check->first_sample = NAN;
    check->beam_broadside_deg =
        0.886 * config->sound_speed_mps / centre_hz / config->geometry.aperture_m * 180 / M_PI;
    check->settle_samples = settle_s * config->fs_hz;
    check->history = sonar_alloc(TRUTHS_MOST, sizeof *check->history);
    if (check->history)
        return check;
    free(check);
    return NULL;
}

void checker_destroy(checker *check) {
    if (check)
        free(check->history);
    free(check);
}
