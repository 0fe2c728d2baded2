/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ttm.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "json.h"
#include "net/udp.h"

enum { TARGETS = 100 }; /* numbers that the sentence has: 00 to 99 */

static const double MILE_M = 1852, FARTHEST_M = 1e7; /* the farthest of cbf.ranges_m */

/* What the display was told last under a number. */
typedef struct target {
    bool shown;
    double track;
    char place[32], utc[16]; /* "0.1710,102.50,T", "120002.56" */
} target;

struct watch_ttm {
    watch_ttm_spec spec;
    int fd;
    struct sockaddr_storage to;
    socklen_t to_bytes;
    cJSON *detections; /* the last header; NULL: none yet */
    char run[40];      /* of the last tracks */
    target target[TARGETS];
    bool failing, side_told;
};

/* ---- headers --------------------------------------------------------------------------------- */

/* NaN: it has none. */
static double track_of(const cJSON *track) {
    const double number = json_finite(track, "number");
    return number >= 0 && number <= 0x1p53 && number == rint(number) ? number : NAN;
}

/* Distance from the array's reference point that a row of `detections` gives; NaN: none. */
static double distance_of(const cJSON *header, const cJSON *row) {
    const double range_m = json_finite(row, "range_m"), az_deg = json_finite(row, "az_deg");
    double distance_m = NAN;
    if (!cJSON_IsFalse(json_get(row, "range_unresolved")))
        return NAN;
    if (json_is(header, "range_reference", "radial"))
        distance_m = range_m;
    if (json_is(header, "range_reference", "abeam")) /* from the axis of a line */
        distance_m = range_m / sin(az_deg * SONAR_RADIANS);
    return distance_m > 0 && distance_m <= FARTHEST_M ? distance_m : NAN;
}

/* Of a track's contact in the window of the header of `tracks`. */
static double range_of(const watch_ttm *t, const cJSON *header, const cJSON *track) {
    const cJSON *row, *from = t->detections;
    const double contact = json_finite(track, "contact");
    double distance_m = NAN;
    if (json_finite(from, "window") != json_finite(header, "window") ||
        strcmp(json_text(from, "run"), json_text(header, "run")) != 0)
        return NAN;
    cJSON_ArrayForEach(row, json_get(from, "detections")) {
        if (isnan(distance_m) && json_finite(row, "contact") == contact)
            distance_m = distance_of(from, row);
    }
    return distance_m;
}

/* "T": true; "R": from the bow; NULL: the bearing is neither. *deg: the bearing. */
static const char *bearing_of(const watch_ttm *t, const cJSON *header, const cJSON *track,
                              double *deg) {
    *deg = json_finite(cJSON_GetArrayItem(json_get(track, "bearings"), 0), "bearing_deg");
    if (json_is(header, "bearing_reference", "true"))
        return "T";
    *deg += t->spec.bow_deg;
    return json_is(header, "bearing_reference", "array") && !t->spec.towed ? "R" : NULL;
}

/* ---- sentences ------------------------------------------------------------------------------- */

static void send_sentence(watch_ttm *t, const char *body) {
    char sentence[160];
    unsigned sum = 0;
    for (const char *c = body; *c; c++)
        sum ^= (unsigned char)*c;
    const int bytes = snprintf(sentence, sizeof sentence, "$%s*%02X\r\n", body, sum);
    const bool failed = sendto(t->fd, sentence, (size_t)bytes, 0, (const struct sockaddr *)&t->to,
                               t->to_bytes) != bytes;
    if (failed && !t->failing)
        fprintf(stderr, "sonar-watch: %s: cannot send: %s\n", t->spec.address, strerror(errno));
    t->failing = failed;
}

static void tell(watch_ttm *t, const target *target, char status) {
    char body[128];
    snprintf(body, sizeof body, "SSTTM,%02d,%s,,,,,,N,track_%.0f,%c,,%s,A",
             (int)(target - t->target), target->place, target->track, status, target->utc);
    send_sentence(t, body);
}

/* The last message of a target says where it was when it was heard, and when that was. */
static void end_target(watch_ttm *t, target *target) {
    if (target->shown)
        tell(t, target, 'L');
    target->shown = false;
}

static target *find(watch_ttm *t, double track) {
    for (size_t i = 0; i < TARGETS; i++)
        if (t->target[i].shown && t->target[i].track == track)
            return &t->target[i];
    return NULL;
}

/* The last two digits of its number; if another track has these, the next ones that are free. */
static target *take_target(watch_ttm *t, double track) {
    const size_t wanted = (size_t)fmod(track, TARGETS);
    target *of = find(t, track);
    for (size_t i = 0; !of && i < TARGETS; i++) {
        target *next = &t->target[(wanted + i) % TARGETS];
        of = next->shown ? NULL : next;
    }
    return of;
}

static void put_time(char *to, size_t bytes, int64_t utc_ns) {
    const int64_t cs = (utc_ns + 5000000) / 10000000;
    const time_t seconds = (time_t)(cs / 100);
    struct tm date;
    *to = '\0';
    if (utc_ns > 0 && gmtime_r(&seconds, &date))
        snprintf(to, bytes, "%02d%02d%02d.%02d", date.tm_hour, date.tm_min, date.tm_sec,
                 (int)(cs % 100));
}

static void tell_side(watch_ttm *t, double track) {
    if (!t->side_told)
        fprintf(stderr,
                "sonar-watch: track %.0f has a range, but its side of the line is open: a TTM is "
                "sent when a turn has decided it\n",
                track);
    t->side_told = true;
}

static void take_place(watch_ttm *t, const cJSON *header, const cJSON *track, int64_t utc_ns,
                       char status) {
    const double number = track_of(track), distance_m = range_of(t, header, track);
    const int bearings = cJSON_GetArraySize(json_get(track, "bearings"));
    double deg;
    const char *reference = bearing_of(t, header, track, &deg);
    if (isnan(distance_m) || isnan(deg) || !reference)
        return;
    if (bearings > 1) {
        tell_side(t, number);
        return;
    }
    target *of = take_target(t, number);
    if (!of)
        return;
    of->shown = true;
    of->track = number;
    snprintf(of->place, sizeof of->place, "%.4f,%.2f,%s", distance_m / MILE_M,
             fmod(rint(sonar_modulo_turn(deg) * 100) / 100, 360), reference);
    put_time(of->utc, sizeof of->utc, utc_ns);
    tell(t, of, status);
}

static void take_track(watch_ttm *t, const cJSON *header, const cJSON *track, int64_t utc_ns) {
    static const struct {
        const char *state;
        char status;
    } table[] = {{"tentative", 'Q'}, {"confirmed", 'T'}, {"coasting", 'T'}};
    const double number = track_of(track);
    if (isnan(number))
        return;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (json_is(track, "state", table[i].state))
            take_place(t, header, track, utc_ns, table[i].status);
    target *of = find(t, number);
    if (of && json_is(track, "state", "lost"))
        end_target(t, of);
}

static bool is_listed(const cJSON *header, double number) {
    const cJSON *track;
    cJSON_ArrayForEach(track, json_get(header, "tracks")) {
        if (track_of(track) == number)
            return true;
    }
    return false;
}

/* Numbers of another run may be of other contacts, and the last message of a track can be missed.
 */
static void end_others(watch_ttm *t, const cJSON *header) {
    const bool other_run = strcmp(t->run, json_text(header, "run")) != 0;
    for (size_t i = 0; i < TARGETS; i++)
        if (other_run || !is_listed(header, t->target[i].track))
            end_target(t, &t->target[i]);
    snprintf(t->run, sizeof t->run, "%s", json_text(header, "run"));
}

void watch_ttm_tracks(watch_ttm *t, const cJSON *header, int64_t middle_utc_ns) {
    const cJSON *track;
    end_others(t, header);
    cJSON_ArrayForEach(track, json_get(header, "tracks"))
        take_track(t, header, track, middle_utc_ns);
}

void watch_ttm_detections(watch_ttm *t, cJSON *header) {
    cJSON_Delete(t->detections);
    t->detections = header;
}

/* ---- life ------------------------------------------------------------------------------------ */

sonar_code watch_ttm_open(const watch_ttm_spec *spec, watch_ttm **made, sonar_error *err) {
    const int yes = 1;
    watch_ttm *t = *made = sonar_alloc(1, sizeof *t);
    if (!t)
        return sonar_fail(err, SONAR_ENOMEM, spec->address, "out of memory");
    t->spec = *spec;
    t->fd = -1;
    if (!sonar_udp_read(spec->address, &t->to, &t->to_bytes))
        return sonar_fail(err, SONAR_EINVAL, spec->address,
                          "expected an address in numbers with a port: udp://192.168.1.255:10110");
    /* Without connect, so that a display that is not running yet costs no sentence. */
    t->fd = socket(t->to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (t->fd < 0 || setsockopt(t->fd, SOL_SOCKET, SO_BROADCAST, &yes, sizeof yes))
        return sonar_fail(err, SONAR_ESYS, spec->address, "%s", strerror(errno));
    return SONAR_OK;
}

void watch_ttm_close(watch_ttm *t) {
    if (!t)
        return;
    if (t->fd >= 0)
        close(t->fd);
    cJSON_Delete(t->detections);
    free(t);
}
