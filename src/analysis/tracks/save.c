/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tracks as text, kept from one start to the next: a line for the tracker, then one for each track
 * that has a number. Numbers are hexadecimal, so that nothing is rounded. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analysis/tracks/state.h"

#define SIDE_FORMAT " %la %la %la %la %la %la %la %la"

struct writer {
    char *text;
    size_t bytes;
};

static void put(struct writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct writer *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(w->text + w->bytes, SONAR_TRACKS_TEXT - w->bytes, format, args);
    va_end(args);
    if (n > 0 && (size_t)n < SONAR_TRACKS_TEXT - w->bytes)
        w->bytes += (size_t)n;
    w->text[w->bytes] = 0;
}

size_t sonar_tracks_save(const sonar_tracks *s, char text[SONAR_TRACKS_TEXT]) {
    struct writer w = {.text = text};
    put(&w, "tracks 2 %" PRIu64 " %d %a %a\n", s->numbers, s->is_true, s->heading_deg,
        s->false_plots);
    for (size_t t = 0; t < s->count; t++) {
        const struct follow *f = &s->track[t];
        if (!f->number)
            continue;
        put(&w, "%" PRIu64 " %d %u %zu %a %a %a %a %a %a %a %a", f->number, f->confirmed,
            f->rests_on, f->sides, f->heard, f->unheard, f->first, f->power, f->snr_db,
            f->declared_rad2, f->age_s, f->since_s);
        for (size_t i = 0; i < f->sides; i++) {
            const sonar_bearing *b = &f->side[i].is;
            put(&w, " %a %a %a %a %a %a %a %a", f->side[i].weight, b->at_rad, b->rate_radps,
                b->var_at, b->var_both, b->var_rate, b->misfit, b->agility);
        }
        put(&w, " %zu", f->tones);
        for (size_t i = 0; i < f->tones; i++)
            put(&w, " %a %a", f->tone[i].hz, f->tone[i].shown);
        put(&w, "\n");
    }
    return w.bytes;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_share(double x) {
    return x >= 0 && x <= 1;
}

static bool is_positive(double x) {
    return x > 0 && x < 1e30;
}

static bool is_side(const struct side *side) {
    const sonar_bearing *b = &side->is;
    return is_share(side->weight) && fabs(b->at_rad) < 10 && fabs(b->rate_radps) < 10 &&
           is_positive(b->var_at) && is_positive(b->var_rate) &&
           b->var_both * b->var_both <= b->var_at * b->var_rate && is_positive(b->misfit + 1) &&
           b->misfit >= 0 && is_share(b->agility);
}

static bool is_track(const sonar_tracks *s, const struct follow *f) {
    bool good = f->number && f->number <= s->numbers && is_share(f->heard) &&
                is_share(f->unheard) && f->heard + f->unheard <= 1 + 1e-9 && is_share(f->first) &&
                is_positive(f->power) && fabs(f->snr_db) < 1e3 && f->declared_rad2 >= 0 &&
                f->declared_rad2 < 100 && f->age_s >= 0 && f->age_s < 1e12 && f->since_s >= 0 &&
                f->since_s < 1e12 && f->rests_on < 1u << (SONAR_FROM_SPECTRUM + 1);
    for (size_t i = 0; i < f->sides; i++)
        good = good && is_side(&f->side[i]);
    for (size_t i = 0; i < f->tones; i++)
        good = good && f->tone[i].hz >= 0 && f->tone[i].hz < 1e9 && is_share(f->tone[i].shown);
    return good;
}

/* Reads one line; sets *text to its end. */
static bool read_track(const char **text, struct follow *f) {
    int sure, used = 0;
    *f = (struct follow){.contact = SIZE_MAX};
    if (sscanf(*text, "%" SCNu64 " %d %u %zu %la %la %la %la %la %la %la %la%n", &f->number, &sure,
               &f->rests_on, &f->sides, &f->heard, &f->unheard, &f->first, &f->power, &f->snr_db,
               &f->declared_rad2, &f->age_s, &f->since_s, &used) != 12 ||
        f->sides < 1 || f->sides > SONAR_TRACKS_SIDES)
        return false;
    f->confirmed = sure;
    *text += used;
    for (size_t i = 0; i < f->sides; i++) {
        sonar_bearing *b = &f->side[i].is;
        if (sscanf(*text, SIDE_FORMAT "%n", &f->side[i].weight, &b->at_rad, &b->rate_radps,
                   &b->var_at, &b->var_both, &b->var_rate, &b->misfit, &b->agility, &used) != 8)
            return false;
        *text += used;
    }
    if (sscanf(*text, " %zu%n", &f->tones, &used) != 1 || f->tones > SONAR_TONES_MOST)
        return false;
    *text += used;
    for (size_t i = 0; i < f->tones; i++, *text += used)
        if (sscanf(*text, " %la %la%n", &f->tone[i].hz, &f->tone[i].shown, &used) != 2)
            return false;
    return *(*text)++ == '\n';
}

static bool read_all(sonar_tracks *s, const char *text) {
    int is_true, used = 0;
    if (sscanf(text, "tracks 2 %" SCNu64 " %d %la %la%n", &s->numbers, &is_true, &s->heading_deg,
               &s->false_plots, &used) != 4 ||
        text[used] != '\n' || !(fabs(s->heading_deg) <= 360) || !is_positive(s->false_plots))
        return false;
    s->is_true = is_true;
    for (text += used + 1; *text; s->count++)
        if (s->count == SONAR_TRACKS_MOST || !read_track(&text, &s->track[s->count]) ||
            !is_track(s, &s->track[s->count]))
            return false;
    return true;
}

bool sonar_tracks_restore(sonar_tracks *s, const char *text) {
    const bool good = read_all(s, text);
    if (!good)
        sonar_tracks_forget(s);
    return good;
}
