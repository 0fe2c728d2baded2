/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Tracks of contacts from window to window: integrated joint probabilistic data association. Every
 * track has a probability of existence, which alone begins, confirms and ends it (IPDA with a
 * Markov chain of three states: heard, not heard, gone; Musicki, Evans and Stankovic, IEEE Trans.
 * AC 39, 1994; jointly for several tracks: Musicki and Evans, IEEE Trans. AES 40, 2004). Every
 * track also has a filter of bearing and rate (filter.h), on a line one for each side. associate.h
 * assigns plots to tracks. docs/tracks.md has the models and their limits.
 *
 * Any one thread at a time; no allocation after create. The same windows give the same tracks.
 */
#ifndef SONAR_TRACKS_H
#define SONAR_TRACKS_H

#include "analysis/faint/faint.h"
#include "manifold/manifold.h"
#include "status/result.h"

typedef struct sonar_tracks sonar_tracks;

/* How the contacts of one beamformer were measured. */
typedef struct sonar_tracks_look {
    const sonar_scan *scan; /* borrowed; NULL: no contacts */
    double heading_deg;     /* in the middle of the samples; NaN: unknown */
    double lag_s;           /* time from that middle to the window's */
    double fresh;           /* the part of the samples that is new in this window, 0 to 1 */
} sonar_tracks_look;

typedef struct sonar_tracks_window {
    double since_s;          /* time from the middle of the window before, >= 0 */
    double bin_hz;           /* of the spectra in which tones were sought; 0: they were not */
    sonar_tracks_look of[2]; /* by sonar_detect_source */
    /* borrowed; possible images neither begin nor confirm a track */
    const sonar_detection *detection;
    size_t detections; /* <= SONAR_PLOTS_MOST */
    /* contacts of the CBF's spectrum that are not in the list; borrowed */
    const sonar_faint_contact *faint;
    size_t faints;
} sonar_tracks_window;

/* NULL: no memory. Numbers begin with 1. */
sonar_tracks *sonar_tracks_create(void);
void sonar_tracks_destroy(sonar_tracks *tracks); /* NULL is allowed */

/* Processes a window. Writes the tracks that probably exist, and those lost in this window, to
 * track[SONAR_TRACKS_MOST], ordered by number, and returns their count. Bearings are true if the
 * CBF's heading is known, else in the array frame. When this changes, tracks are rotated by the
 * last known heading. */
size_t sonar_tracks_run(sonar_tracks *tracks, const sonar_tracks_window *window,
                        sonar_track *track);

/* Where a track is expected after the last window. */
typedef struct sonar_track_place {
    sonar_track_state state; /* UNKNOWN, LOST: it is nowhere */
    double az_deg;           /* in the scan of the CBF, at its last heading; NaN: nowhere */
    double bearing_deg;      /* true, of its first bearing; NaN: nowhere, or no heading is known */
} sonar_track_place;

/* The track of that number ahead_s >= 0 after the middle of the last window, if it is not heard
 * again until then. */
sonar_track_place sonar_tracks_expect(const sonar_tracks *tracks, uint64_t number, double ahead_s);

/* The state that a restart needs, as text of at most SONAR_TRACKS_TEXT bytes with its NUL: the
 * numbers given and the tracks. Returns its length. */
enum { SONAR_TRACKS_TEXT = 131072 };
size_t sonar_tracks_save(const sonar_tracks *tracks, char text[SONAR_TRACKS_TEXT]);
/* Restores a saved state, only before the first window. The since_s of that window is then the time
 * since the last window before the restart. False: the text is not valid, and there are no
 * tracks. */
bool sonar_tracks_restore(sonar_tracks *tracks, const char *text);
/* Leaves out the next `count` numbers: an earlier run may have given them. */
void sonar_tracks_skip(sonar_tracks *tracks, uint64_t count);
/* Resets to the state after create. No allocation. */
void sonar_tracks_forget(sonar_tracks *tracks);

#endif
