/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A published message as the viewer needs it. Any message is safe to read: missing or wrong values
 * become NaN or "", text is cleaned for a terminal (sonar_text_clean), and counts are bounded by
 * the bytes received. */
#ifndef WATCH_MESSAGE_H
#define WATCH_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WATCH_POINTS_MOST = 16384, WATCH_DETECTIONS_MOST = 64, WATCH_TRACKS_MOST = 64 };

/* A contact: the first of its rows, with the range from another row if the first has none. */
typedef struct watch_detection {
    char source[24]; /* of all its rows: "cbf+mvdr" */
    char side[12];   /* side of a line's axis of bearing_deg; "" if no turn has shown it */
    /* NaN: unknown. az_deg is measured like the axes of the array topics. */
    double bearing_deg, mirror_deg, sigma_deg, az_deg, level_db, snr_db, range_m;
    bool range_unresolved, possible_image;
    double contact; /* its number in this window; NaN: its rows have none */
} watch_detection;

/* A contact that is followed; NaN: unknown. */
typedef struct watch_track {
    double number, existence, az_deg, snr_db, unheard_s; /* az_deg: as the axes of the topics */
    char state[12];
    size_t bearings; /* 2: either of them */
    struct {
        double deg, sigma_deg, rate_dpm, rate_sigma_dpm, probability;
        char side[12]; /* "": the array has no sides */
    } bearing[2];
} watch_track;

typedef struct watch_status {
    char health[16], text[128], losses[128]; /* losses: "late 3, malformed 1" */
    double received, dropped, windows_lost, p99_us;
} watch_status;

typedef struct watch_message {
    char schema[16], topic[24], array[32], run[40], unit[16], flags[96];
    double seq, window, utc_ns, latency_us, epoch, sample_index, window_length, fs_hz;
    /* Bearings: of the array frame or true; of a line array as the angle from its axis. */
    bool is_true, cone, ambiguous;
    double heading_deg, axis_az_deg, axis_depression_deg; /* NaN: unknown */
    /* Array topics: the last axis, and the largest power at each of its points over all entries of
     * the axis before it ("": no such axis). */
    char axis[16], axis_unit[8], over[16];
    size_t points;
    double x[WATCH_POINTS_MOST];
    float power[WATCH_POINTS_MOST];
    size_t detections;
    watch_detection detection[WATCH_DETECTIONS_MOST];
    size_t tracks;
    watch_track track[WATCH_TRACKS_MOST];
    watch_status status;
} watch_message;

/* False if the header is not a JSON object; *message is valid and empty then. */
bool watch_message_read(const char *header, size_t header_bytes, const void *body,
                        size_t body_bytes, watch_message *message);
/* True if it has shares, shown in percent, and not powers or ratios of powers. */
bool watch_is_share(const watch_message *message);
/* True bearings, 0 to 360, of the point x of a bearing axis. A cone has two, for a source in the
 * horizontal plane: right and left of the array's axis. Returns their number; 0 if x is not a
 * bearing, is already true, or heading or axis are unknown. */
int watch_true_bearings(const watch_message *message, double x, double bearing_deg[2]);
/* "2026-11-20 23:59:01.123Z" or "time unknown". */
void watch_time(double utc_ns, char *text, size_t bytes);
/* Power over the median of all, dB; not finite where power is not positive. Returns the median, NaN
 * if no power is positive. scratch has `count` entries. */
double watch_over_median(size_t count, const float *power, float *db, float *scratch);
/* Indices of the highest local maxima above floor_db, strongest first; returns how many. */
size_t watch_peaks(size_t count, const float *db, float floor_db, size_t most, size_t *peak);

#endif
