/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Values that cross stage boundaries: counters, detections, results of a window, the status. Plain
 * data, owned by its holder. The stages that fill it and the stages that read it do not include
 * each other. */
#ifndef SONAR_RESULT_H
#define SONAR_RESULT_H

#include "core/histogram.h"
#include "sonar/sonar.h"

/* An enumeration from 0 on: a word for what it distinguishes, and the name of each value. */
typedef struct sonar_label {
    const char *what;
    size_t count;
    const char *const *name;
} sonar_label;

extern const sonar_label sonar_frame_causes, sonar_window_causes, sonar_handshake_causes,
    sonar_record_causes, sonar_element_faults, sonar_conditions, sonar_severities, sonar_topics,
    sonar_timed_stages, sonar_stage_parts, sonar_latency_parts;

#define SONAR_ROW_CONSTANT(constant, ...) constant,

/* ---- ingest ---------------------------------------------------------------------------------- */

/* Why a message was not accepted: (constant, name in the status and the log, what it means). */
#define SONAR_FRAME_CAUSE_ROWS(ROW)                                                                \
    ROW(SONAR_FRAME_MALFORMED, "malformed",                                                        \
        "not two parts; or an invalid magic, version, header size, type, layout, count or epoch")  \
    ROW(SONAR_FRAME_TRUNCATED, "truncated", "fewer bytes than the header says")                    \
    ROW(SONAR_FRAME_OVERSIZED, "oversized", "more bytes than the header says")                     \
    ROW(SONAR_FRAME_WRONG_ARRAY, "wrong_array", "another array id")                                \
    ROW(SONAR_FRAME_WRONG_CHANNELS, "wrong_channels", "the block does not lie within the array")   \
    ROW(SONAR_FRAME_WRONG_RATE, "wrong_rate", "more than 1 ppm off, or not a number")              \
    ROW(SONAR_FRAME_WRONG_EPOCH, "wrong_epoch", "another epoch than the stream's")                 \
    ROW(SONAR_FRAME_NOT_FINITE, "not_finite", "an f32 sample is an infinity or not a number")      \
    ROW(SONAR_FRAME_OUT_OF_RANGE, "out_of_range", "an f32 sample is larger than sound can be")     \
    ROW(SONAR_FRAME_WRONG_TYPE, "wrong_type", "not s16, where `ingest.sample_type` is `s16`")      \
    ROW(SONAR_FRAME_REPEATED, "repeated", "all its samples are stored already")                    \
    ROW(SONAR_FRAME_LATE, "late",                                                                  \
        "all its samples belong to windows that were already offered or dropped")                  \
    ROW(SONAR_FRAME_AHEAD, "ahead", "it begins after the end of the ring")                         \
    ROW(SONAR_FRAME_OVERRUN, "overrun",                                                            \
        "`overload: drop_oldest`, and the data thread still reads where the frame belongs")        \
    ROW(SONAR_FRAME_SHED, "shed",                                                                  \
        "`overload: drop_oldest`, and frames arrive faster than they can be stored")               \
    ROW(SONAR_FRAME_NO_SEGMENT, "no_segment",                                                      \
        "its samples do not lie in shared memory that the daemon has")                             \
    ROW(SONAR_FRAME_OVERWRITTEN, "overwritten",                                                    \
        "the digitiser wrote over its samples in shared memory before they were stored")

/* Why a window was not processed. */
#define SONAR_WINDOW_CAUSE_ROWS(ROW)                                                               \
    ROW(SONAR_WINDOW_OVERLOAD, "overload",                                                         \
        "dropped for a newer one, because computing is too slow")                                  \
    ROW(SONAR_WINDOW_MISSING, "missing", "a larger share is missing than `max_missing_share`")     \
    ROW(SONAR_WINDOW_SKIPPED, "skipped", "the stream jumped while it was being filled")            \
    ROW(SONAR_WINDOW_SHED, "shed",                                                                 \
        "dropped so that others stay complete, because receiving is too slow")

/* Why a connection was refused. */
#define SONAR_HANDSHAKE_CAUSE_ROWS(ROW)                                                            \
    ROW(SONAR_HANDSHAKE_UNKNOWN_KEY, "unknown_key", "its key is not one that is allowed")          \
    ROW(SONAR_HANDSHAKE_WRONG_MECHANISM, "wrong_mechanism",                                        \
        "one side uses CURVE and the other does not")                                              \
    ROW(SONAR_HANDSHAKE_MALFORMED, "malformed",                                                    \
        "the bytes violate ZMTP or CURVE; also if the peer expects another server key")            \
    ROW(SONAR_HANDSHAKE_UNFINISHED, "unfinished", "it disconnected, or took more than 10 s")       \
    ROW(SONAR_HANDSHAKE_TOO_OFTEN, "too_often",                                                    \
        "its address, user or key, or all peers together, connected too often; it may retry "      \
        "later")

typedef enum sonar_handshake_cause {
    SONAR_HANDSHAKE_CAUSE_ROWS(SONAR_ROW_CONSTANT) SONAR_HANDSHAKE_CAUSES
} sonar_handshake_cause;

typedef enum sonar_frame_cause {
    SONAR_FRAME_CAUSE_ROWS(SONAR_ROW_CONSTANT) SONAR_FRAME_CAUSES
} sonar_frame_cause;

typedef enum sonar_window_cause {
    SONAR_WINDOW_CAUSE_ROWS(SONAR_ROW_CONSTANT) SONAR_WINDOW_CAUSES
} sonar_window_cause;

/* "unknown" for a value outside the enumeration. */
const char *sonar_frame_cause_name(sonar_frame_cause cause);
const char *sonar_window_cause_name(sonar_window_cause cause);

/* Counters and levels, 64 bits each. status/metrics.c has one row for each, with its name, unit and
 * meaning; each is written by one thread (core/count.h). Each value in a copy is exact, but values
 * are read one after the other and may belong to different moments. */

/* Connections of one of the two sockets. */
typedef struct sonar_peer_counters {
    uint64_t connected, accepted, admitted, failed[SONAR_HANDSHAKE_CAUSES];
    uint64_t refused, reopened_memory, reopened_lost, closed;
} sonar_peer_counters;

typedef struct sonar_ingest_counters {
    uint64_t frames_received, frames_accepted, frames_dropped[SONAR_FRAME_CAUSES];
    uint64_t sequence_gaps, restarts;
    uint64_t clock_unsynchronised, digitiser_overload,
        discontinuities; /* as flagged in the frames */
    uint64_t index_jumps, frames_held;
    uint64_t blocks_seen, blocks_silent;
    uint64_t samples_stored, samples_repeated, samples_late, samples_missing; /* of a channel */
    uint64_t windows_offered, windows_taken, windows_dropped[SONAR_WINDOW_CAUSES];
    uint64_t windows_waiting;
    int64_t last_frame_ns; /* monotonic; 0 = none yet */
    sonar_peer_counters peers;
} sonar_ingest_counters;

/* Channels as ranges, ascending. If there are more ranges than fit, only the first are kept; count
 * is exact. */
enum { SONAR_CHANNEL_RANGES_MOST = 16 };

typedef struct sonar_channel_set {
    uint32_t count, ranges;
    uint32_t first[SONAR_CHANNEL_RANGES_MOST], last[SONAR_CHANNEL_RANGES_MOST];
} sonar_channel_set;

/* Adds [first, first + count), which must lie above all present ranges. */
void sonar_channel_set_add(sonar_channel_set *set, uint32_t first, uint32_t count);
/* "3, 17-31 and more", cut to what fits; returns text. */
const char *sonar_channel_set_print(const sonar_channel_set *set, char *text, size_t bytes);

enum { SONAR_BLOCKS_MOST = 256 }; /* blocks beyond this number are not watched */

/* A channel block: the part of the array that one digitiser sends. Its position is in the current
 * timeline, and 0 until a frame for that timeline (or a late one) has been received. */
typedef struct sonar_block_report {
    uint32_t first_channel, channels;
    int64_t heard_ns; /* monotonic, last frame of this epoch */
    bool passed; /* silent and no longer expected, because it was received only once or other blocks
                    have since sent all its channels; the members below are then 0 */
    uint64_t frames;
    uint32_t samples;      /* samples of each channel in the last frame */
    bool replay;           /* the last frame is of a recording being played */
    uint64_t step;         /* advance of the sample index between two consecutive frames... */
    uint32_t step_over;    /* ...where the first of these had this many samples */
    uint64_t end_sample;   /* index after the newest sample */
    int64_t end_ns;        /* monotonic, when that sample came */
    int64_t utc_ns;        /* as the frame of that sample says, 0 = unknown */
    int64_t end_utc_ns;    /* UTC of end_sample, derived from utc_ns; 0 = unknown */
    uint64_t begin_sample; /* end_sample and end_ns of the first frame */
    int64_t begin_ns;
} sonar_block_report;

/* Totals of a channel block since the start, over all epochs. */
typedef struct sonar_block_totals {
    uint32_t first_channel, channels;
    uint64_t frames, bytes;         /* accepted; bytes of header and samples */
    uint64_t overloads;             /* of these, frames with the digitiser's overload flag */
    uint64_t stored, late, missing; /* channel-samples, as in the counters of those names */
} sonar_block_totals;

/* The last frame refused for a cause, from its header. */
typedef struct sonar_refused {
    int64_t at_ns; /* monotonic, 0: no such frame had a readable header */
    uint32_t first_channel, channels, array_id;
    double fs_hz;
} sonar_refused;

/* State of the stream by channel and by block, in addition to the counters. */
typedef struct sonar_ingest_report {
    int64_t made_ns; /* monotonic */
    bool held;       /* with overload block: a frame is waiting for the data thread, and nothing is
                        received */
    uint64_t timeline;        /* number of adoptions, 0: no stream yet */
    int64_t adopted_ns;       /* monotonic, when it began */
    int64_t decided_ns;       /* when its last window was offered or dropped; 0: none yet */
    uint64_t window_sample;   /* first sample of the window being filled */
    uint64_t samples_missing; /* the counter of that name */
    uint64_t newest_sample;   /* after the newest sample stored */
    sonar_channel_set unfed;  /* used channels without any stored sample in this timeline */
    sonar_channel_set
        lacking;          /* other channels that lacked samples in windows since the last read */
    double lacking_share; /* largest share of a window that one of these channels lacked */
    sonar_channel_set awaited; /* used channels that have not reached the end of the window being
                                  filled, while others have */
    size_t blocks;
    sonar_block_report block[SONAR_BLOCKS_MOST];
    size_t totals;
    sonar_block_totals total[SONAR_BLOCKS_MOST];
    sonar_refused refused[SONAR_FRAME_CAUSES];
} sonar_ingest_report;

/* ---- detections ------------------------------------------------------------------------------ */

enum { SONAR_DETECTIONS_MOST = 64 };

typedef enum sonar_detect_source { SONAR_FROM_CBF = 0, SONAR_FROM_MVDR } sonar_detect_source;
/* What a track without detections rests on: the CBF's spectrum. */
enum { SONAR_FROM_SPECTRUM = SONAR_FROM_MVDR + 1 };

/* Side of a line's axis, seen from above, looking from the first sensor to the last. */
typedef enum sonar_side {
    SONAR_SIDE_ALL = 0, /* the array has no sides that could be confused */
    SONAR_SIDE_UNKNOWN,
    SONAR_SIDE_STARBOARD,
    SONAR_SIDE_PORT
} sonar_side;

/* How the power falls off a peak of power P: by A q x^2 / (1 + q x^2) at the distance x along the
 * scan's coordinate. y = x^2 / fall = 1/(A q) + x^2 / A is fitted to the points that were computed
 * (detect/sigma.c). */
typedef struct sonar_peak_shape {
    double y, xx; /* means of y and of x^2; NaN: there are no points */
    double depth; /* 1/A; NaN: not determined by the points */
} sonar_peak_shape;

/* A line in the spectrum of a contact. */
typedef struct sonar_tone {
    double hz, snr_db; /* snr_db: over the median of the bins around it */
} sonar_tone;
enum { SONAR_TONES_MOST = 8 };

typedef struct sonar_detection {
    sonar_detect_source source;
    double az_deg;           /* as in the scan: array frame, or cone angle from the axis */
    double bearing_deg;      /* true if the heading is known, else array frame; 0..360 */
    double mirror_deg;       /* cone: the other possible bearing, else NaN */
    sonar_side side;         /* the side of bearing_deg if it is known; otherwise bearing_deg is the
                                starboard bearing */
    double side_confidence;  /* confidence, 0 (unknown) to 1 */
    double power;            /* broadband, unit^2, at az_deg */
    double background;       /* broadband, unit^2 */
    double least_background; /* in any direction of the scan */
    double snr_db;           /* 10 log10(power / background) */
    sonar_peak_shape shape;
    double sigma; /* standard deviation of the place by noise, of az_deg's cosine on a cone, else of
                     az_deg in radians; NaN: not known */
    double
        bearing_sigma_deg; /* of bearing_deg, with what is declared of the array; NaN: not known */
    double width_deg;      /* -3 dB width, NaN where it does not fall by 3 dB on both sides */
    double range_m;        /* near-field peak's range, NaN = far field or not computed */
    bool range_unresolved; /* the ranges there are too widely spaced to resolve it */
    bool image;            /* it may be a side lobe or an image of a stronger contact close to it */
    size_t contact;        /* rows with the same number are one contact in this window */
    unsigned rests_on;     /* bits 1 << sonar_detect_source, one for each row of that contact */
    size_t tones;          /* strongest first; 0 unless detections.tones */
    sonar_tone tone[SONAR_TONES_MOST];
} sonar_detection;

/* ---- tracks ---------------------------------------------------------------------------------- */

enum { SONAR_TRACKS_MOST = 64 };

typedef enum sonar_track_state {
    SONAR_TRACK_TENTATIVE = 0,
    SONAR_TRACK_CONFIRMED, /* it exists, and is heard */
    SONAR_TRACK_COASTING,  /* it exists, but is probably not heard now */
    SONAR_TRACK_LOST,      /* its last report */
    SONAR_TRACK_UNKNOWN    /* of a number that no track has had */
} sonar_track_state;

/* What is known of one of a track's bearings. */
typedef struct sonar_track_bearing {
    double deg, rate_dpm; /* rate_dpm: degrees a minute, clockwise positive */
    double sigma_deg, rate_sigma_dpm;
    double correlation; /* of the errors of bearing and rate, -1 to 1 */
    double probability; /* that it is this one */
    sonar_side side;    /* UNKNOWN never; ALL: the array has no sides */
} sonar_track_bearing;

/* A contact that is followed from window to window, as of the middle of the window. */
typedef struct sonar_track {
    uint64_t number; /* never used again in a run */
    sonar_track_state state;
    double existence; /* probability that there is a contact */
    size_t
        bearings; /* 1, or 2 on a line until a turn decides; the first is starboard, or above 0.6 */
    sonar_track_bearing bearing[2];
    double az_deg;           /* where it is in the scan of the CBF */
    double snr_db;           /* of the last plot */
    double age_s, unheard_s; /* since its first plot, since its last */
    size_t contact;          /* its plot's contact in this window; SIZE_MAX: none */
    unsigned rests_on;       /* of the last plot, bits 1 << sonar_detect_source; or 1 <<
                                SONAR_FROM_SPECTRUM: it has none, and is seen in the spectrum */
    size_t tones;            /* that more than half of its plots show */
    double tone_hz[SONAR_TONES_MOST];
} sonar_track;

/* ---- beams ----------------------------------------------------------------------------------- */

enum { SONAR_BEAMS_MOST = 16, SONAR_BEAM_NAME = 24 };

/* The track that a beam follows. */
typedef struct sonar_beam_track {
    bool follows; /* false: none */
    uint64_t number;
    sonar_track_state state; /* as expected for the window */
} sonar_beam_track;

/* What a window's time series says of a beam, as of its last sample. */
typedef struct sonar_beam_facts {
    double az_deg;      /* in the scan's angles; NaN: unknown, and all samples are NaN */
    double bearing_deg; /* as configured, or where the track was expected; NaN: by its angle */
    size_t missing;     /* samples that are NaN */
    sonar_beam_track track;
} sonar_beam_facts;

/* ---- navigation ------------------------------------------------------------------------------ */

typedef enum sonar_nav_quantity {
    SONAR_NAV_HEADING = 0, /* of the ship's bow, true */
    SONAR_NAV_MAGNETIC,    /* from a compass, corrected by the variation; used if there is no true
                              heading */
    SONAR_NAV_COURSE,      /* over ground, true */
    SONAR_NAV_SPEED,       /* over ground */
    SONAR_NAV_WATER_SPEED, /* through the water */
    SONAR_NAV_LATITUDE,
    SONAR_NAV_LONGITUDE,
    SONAR_NAV_DEPTH, /* of the array, m */
    SONAR_NAV_TILT,  /* of the +x axis, positive downwards */
    SONAR_NAV_QUANTITIES
} sonar_nav_quantity;

/* Name with its unit: "heading_deg". */
const char *sonar_nav_name(sonar_nav_quantity quantity);

/* Counters of messages and sentences by outcome. */
typedef enum sonar_nav_counter {
    SONAR_NAV_TAKEN = 0,
    SONAR_NAV_OTHER, /* sentences of another type, or without a valid value */
    SONAR_NAV_CHECKSUM,
    SONAR_NAV_MALFORMED,
    SONAR_NAV_COUNTERS
} sonar_nav_counter;

/* How far the place of a towed array is known. */
typedef enum sonar_tow_state {
    SONAR_TOW_NONE = 0, /* no array is towed */
    SONAR_TOW_KNOWN,
    SONAR_TOW_SHORT, /* the path has not been seen as far back as the array reaches */
    SONAR_TOW_NO_SPEED,
    SONAR_TOW_NO_HEADING,
    SONAR_TOW_NO_COMPASS /* none of those in the array is heard */
} sonar_tow_state;

const char *sonar_tow_state_name(sonar_tow_state state);

typedef struct sonar_tow {
    sonar_tow_state state;
    bool over_ground; /* the path is that over ground, for want of the speed through the water */
    double seen_m;    /* length of path that was seen behind the tow point */
    double reach_m;   /* how far behind the tow point the last sensor is; with compasses, behind
                         the foremost one */
    unsigned compasses, silent; /* in the array; those of them without a current heading */
    char silent_id[16];         /* the first silent one */
} sonar_tow;

typedef struct sonar_navigation {
    bool asked;      /* headings come from navigation instead of the configuration */
    bool fresh;      /* a current heading exists */
    double age_s;    /* age of the newest heading; NaN: no heading */
    char source[16]; /* its source: "nmea", "zmq", "control" */
    double value[SONAR_NAV_QUANTITIES]; /* the last value of each, NaN: never received */
    uint64_t count[SONAR_NAV_COUNTERS];
    sonar_tow tow;
} sonar_navigation;

/* ---- recording ------------------------------------------------------------------------------- */

typedef enum sonar_record_kind {
    SONAR_RECORD_OFF = 0,
    SONAR_RECORD_RAW,
    SONAR_RECORD_SPECTRA
} sonar_record_kind;

/* Why data were not recorded. */
#define SONAR_RECORD_CAUSE_ROWS(ROW)                                                               \
    ROW(SONAR_RECORD_SLOW, "slow",                                                                 \
        "the disk is too slow: all of `record.buffer_mib` waited for it")                          \
    ROW(SONAR_RECORD_FAILED, "failed", "it was waiting to be written when writing failed")

typedef enum sonar_record_cause {
    SONAR_RECORD_CAUSE_ROWS(SONAR_ROW_CONSTANT) SONAR_RECORD_CAUSES
} sonar_record_cause;

typedef struct sonar_record_counters {
    uint64_t on, bytes, waiting, segments, deleted, future, stopped;
    uint64_t dropped[SONAR_RECORD_CAUSES];
} sonar_record_counters;

enum { SONAR_RECORD_TEXT = 200 };

typedef struct sonar_recording {
    sonar_record_kind kind;       /* OFF: there is no recorder */
    bool asked, failed;           /* it should record but does not; the reason is in `why` */
    char why[SONAR_RECORD_TEXT];  /* a sentence; "" if recording did not fail */
    char file[SONAR_RECORD_TEXT]; /* the segment being written, without its extension, or "" */
    sonar_record_counters counters;
} sonar_recording;

/* ---- results and status ---------------------------------------------------------------------- */

typedef struct sonar_output_counters {
    uint64_t messages_sent, messages_failed, subscriptions, results_dropped;
    uint64_t results_waiting;
    uint64_t topic_sent[SONAR_SURFACES], topic_failed[SONAR_SURFACES], topic_wanted[SONAR_SURFACES];
    sonar_peer_counters peers;
} sonar_output_counters;

/* Parameters as a header states them. They are copied, because the parameters may be replaced and
 * destroyed while the output still holds a window computed with them. */
typedef struct sonar_params_facts {
    char config_version[80];
    double sound_speed_mps, heading_deg; /* heading_deg: NaN if unknown */
    bool calibrated;
    size_t sensors_used, mvdr_sensors_used;
} sonar_params_facts;

sonar_params_facts sonar_params_tell(const sonar_params *params);

/* Results of one window. The pipeline owns a few and lends them; surface[i] is host memory, filled
 * if `present` has the bit. */
typedef struct sonar_result {
    uint64_t window, first_sample;
    size_t window_length;
    uint64_t mvdr_first_sample, mvdr_end_sample; /* samples behind the MVDR spectrum */
    int64_t utc_ns;
    uint32_t epoch;
    char backend[24]; /* names of the backends that computed it */
    uint32_t present;
    sonar_buffer surface[SONAR_SURFACES]; /* those of lists and [SONAR_STATUS] unused */
    sonar_detection detection[2 * SONAR_DETECTIONS_MOST];
    size_t detections;
    sonar_track track[SONAR_TRACKS_MOST];
    size_t tracks;
    sonar_params_facts params; /* times of this window */
    bool navigated;            /* headings come from navigation, not from the configuration */
    bool heading_stale;        /* navigation gave no heading for that time, so heading_deg is NaN */
    bool tow_unknown;          /* a towed array is taken as straight, since its path is not known */
    bool shape_follows;        /* its shape follows the path: */
    bool shape_changed;        /* some of the MVDR's samples are older than the shape */
    uint64_t shape_sample;     /* first sample of the first window that was steered by the shape */
    double mvdr_heading_deg;   /* in the middle of the MVDR's samples; params has the heading in the
                                  middle of the window */
    int64_t middle_utc_ns, mvdr_middle_utc_ns;        /* UTC of these middles, 0 = unknown */
    double cbf_snapshots, mvdr_snapshots, mvdr_delta; /* mvdr_delta: median over bins */
    double mvdr_level_db;   /* expected excess of a source's level, median over bins: <= 0 */
    size_t mvdr_tonal_bins; /* steered at a tone off their centre */
    double mvdr_tone_reach; /* the largest sonar_detect_tone_reach of these bins */
    size_t mvdr_bins_not_converged;
    uint32_t mvdr_flags; /* SONAR_MVDR_FLAG_* of any bin */
    float mvdr_worst_residual, mvdr_most_sweeps;
    double mvdr_limited; /* share of bins and directions whose white noise gain was limited */
    double mvdr_sources; /* median over bins; valid if sources are counted */
    float mvdr_most_sources;
    double
        music_sources; /* dimension of MUSIC's signal subspace: median over bins, and the largest */
    float music_most_sources;
    size_t music_bins; /* bins in which MUSIC has a subspace */
    double mvdr_modes; /* dominant modes, median over bins; 0 without mode rejection */
    sonar_beam_facts beam[SONAR_BEAMS_MOST];
    ptrdiff_t beam_begin; /* the time series' first sample, from first_sample */
    double beam_gain_db;
    double missing_mean, missing_worst;
    bool underflow;       /* some powers are so small that they are 0 as floats */
    uint32_t frame_flags; /* SONAR_FRAME_* */
    size_t ranks_absent;  /* ranks that had no samples of this window */
    bool restarted;
    bool mask_changed;      /* the first window with another mask than before */
    bool config_changed;    /* the first window with another configuration */
    bool mvdr_restarted;    /* the earlier snapshots were discarded because of the new values */
    uint64_t config_sample; /* first sample of the window at which it took effect; 0: the
                               configuration of the start is still in use */
    const struct sonar_output_form *form; /* borrowed; NULL: the output uses its own */
    int64_t arrival_ns;                   /* monotonic, last sample in */
    /* Monotonic, set by the output: when it received the result, and when it was sent completely;
     * 0: it was not */
    int64_t picked_ns, published_ns;
} sonar_result;

/* The stages that are timed. */
typedef enum sonar_timed_stage {
    SONAR_TIMED_DFT = 0,
    SONAR_TIMED_CBF,
    SONAR_TIMED_MVDR,
    SONAR_TIMED_DETECT,
    SONAR_TIMED_HEALTH, /* measuring element health */
    SONAR_TIMED_STAGES
} sonar_timed_stage;

/* Parts of a stage's time: work of the host (on the CPU backend this is all), waiting in the
 * device's queue, copying samples that are not yet on the device, and work of the device. */
typedef enum sonar_stage_part {
    SONAR_PART_HOST = 0,
    SONAR_PART_QUEUE,
    SONAR_PART_COPY,
    SONAR_PART_DEVICE,
    SONAR_STAGE_PARTS
} sonar_stage_part;

/* Parts of a window's latency, from its last sample to its publication; they add up to the whole.
 * Each is limited to what the parts before it leave. The stages are in the order of
 * sonar_timed_stage. */
#define SONAR_LATENCY_PART_ROWS(ROW)                                                               \
    ROW(SONAR_LATENCY_INGEST, "ingest", "from the last sample's frame to the window's offer")      \
    ROW(SONAR_LATENCY_WAITING, "waiting", "until the data thread begins with it")                  \
    ROW(SONAR_LATENCY_HEALTH, "health",                                                            \
        "measuring sensors, if the next window is already waiting; otherwise it is measured "      \
        "afterwards")                                                                              \
    ROW(SONAR_LATENCY_COPY, "copy", "samples on their way to the device")                          \
    ROW(SONAR_LATENCY_DFT, "dft", "the stage, on a GPU by the device's clock")                     \
    ROW(SONAR_LATENCY_CBF, "cbf", "the same")                                                      \
    ROW(SONAR_LATENCY_MVDR, "mvdr", "the same")                                                    \
    ROW(SONAR_LATENCY_ENGINE, "engine",                                                            \
        "the rest of the stages' run: launching them, results on their way to the host")           \
    ROW(SONAR_LATENCY_DETECT, "detect", "contacts")                                                \
    ROW(SONAR_LATENCY_HANDOVER, "handover", "until the output thread has the result")              \
    ROW(SONAR_LATENCY_PUBLICATION, "publication", "headers and arrays, to the socket")             \
    ROW(SONAR_LATENCY_OTHER, "other", "the rest")

typedef enum sonar_latency_part {
    SONAR_LATENCY_PART_ROWS(SONAR_ROW_CONSTANT) SONAR_LATENCY_PARTS
} sonar_latency_part;

/* ---- elements -------------------------------------------------------------------------------- */

/* Faults of a sensor (src/elements/elements.h has the criteria): constant, name, and the sensor's
 * state. */
#define SONAR_ELEMENT_FAULT_ROWS(ROW)                                                              \
    ROW(SONAR_ELEMENT_DEAD, "dead", "dead")                                                        \
    ROW(SONAR_ELEMENT_STUCK, "stuck", "stuck at one value or block")                               \
    ROW(SONAR_ELEMENT_NOISY, "noisy", "far louder than the others")                                \
    ROW(SONAR_ELEMENT_HUM, "hum", "disturbed by mains hum")                                        \
    ROW(SONAR_ELEMENT_CLIPPED, "clipped", "clipping")                                              \
    ROW(SONAR_ELEMENT_IDENTICAL, "identical", "giving the samples of another sensor")

typedef enum sonar_element_fault {
    SONAR_ELEMENT_FAULT_ROWS(SONAR_ROW_CONSTANT) SONAR_ELEMENT_FAULTS
} sonar_element_fault;

const char *sonar_element_fault_name(sonar_element_fault fault);

typedef struct sonar_element_list {
    sonar_channel_set sensors;  /* by their numbers, as in array.mask */
    sonar_channel_set channels; /* the channels that feed them */
    uint32_t used;              /* number of these sensors that are in the beams nevertheless */
} sonar_element_list;

typedef struct sonar_element_health {
    size_t judged,
        masked; /* judged: sensors judged in the last round; masked: by hand, and so not judged */
    bool quiet; /* at least half the sensors hardly vary, so no sensor is judged */
    sonar_element_list still; /* if `quiet`: the sensors that do not vary at all */
    sonar_element_list fault[SONAR_ELEMENT_FAULTS];
    sonar_element_list masked_auto; /* masked by array.auto_mask */
    sonar_element_list masked_hand; /* by array.mask */
} sonar_element_health;

/* ---- conditions ------------------------------------------------------------------------------ */

typedef enum sonar_condition_severity {
    SONAR_NOTICE = 0, /* information; the results are good */
    SONAR_WAITING,    /* there are no samples to process */
    SONAR_DEGRADED    /* samples or results are lost, wrong or late */
} sonar_condition_severity;

const char *sonar_condition_severity_name(sonar_condition_severity severity);

/* The conditions: constant, code, unit of the measured value. Of equal severity the earlier one is
 * named first, so causes precede their consequences; conditions of dropped windows and of faulty
 * elements follow the order of the causes and faults. docs/running.md says when each holds. */
#define SONAR_CONDITION_ROWS(ROW)                                                                  \
    ROW(SONAR_CONDITION_WINDOWS_FAILED, "windows_failed", "windows")                               \
    ROW(SONAR_CONDITION_SAMPLE_INDEX, "sample_index", "step of the index")                         \
    ROW(SONAR_CONDITION_RATE, "rate", "samples/s")                                                 \
    ROW(SONAR_CONDITION_FRAMES_DROPPED, "frames_dropped", "frames")                                \
    ROW(SONAR_CONDITION_SAMPLES_REPEATED, "samples_repeated", "samples")                           \
    ROW(SONAR_CONDITION_SOCKET_REOPENED, "socket_reopened", "times")                               \
    ROW(SONAR_CONDITION_RESTARTED, "restarted", "times")                                           \
    ROW(SONAR_CONDITION_CHANNELS_UNFED, "channels_unfed", "channels")                              \
    ROW(SONAR_CONDITION_BLOCKS_SILENT, "blocks_silent", "blocks")                                  \
    ROW(SONAR_CONDITION_BLOCKS_APART, "blocks_apart", "seconds")                                   \
    ROW(SONAR_CONDITION_SAMPLES_MISSING, "samples_missing", "worst share of a window")             \
    ROW(SONAR_CONDITION_RANKS_HANG, "ranks_hang", "seconds")                                       \
    ROW(SONAR_CONDITION_RANKS_ABSENT, "ranks_absent", "windows")                                   \
    ROW(SONAR_CONDITION_WINDOWS_STALLED, "windows_stalled", "seconds")                             \
    ROW(SONAR_CONDITION_WINDOWS_OVERLOAD, "windows_overload", "windows")                           \
    ROW(SONAR_CONDITION_WINDOWS_MISSING, "windows_missing", "windows")                             \
    ROW(SONAR_CONDITION_WINDOWS_SKIPPED, "windows_skipped", "windows")                             \
    ROW(SONAR_CONDITION_WINDOWS_SHED, "windows_shed", "windows")                                   \
    ROW(SONAR_CONDITION_RESULTS_LATE, "results_late", "seconds")                                   \
    ROW(SONAR_CONDITION_SAMPLES_LATE, "samples_late", "seconds")                                   \
    ROW(SONAR_CONDITION_CLOCK_UNIT, "clock_unit", "")                                              \
    ROW(SONAR_CONDITION_CLOCK_SKEW, "clock_skew", "seconds")                                       \
    ROW(SONAR_CONDITION_CLOCK_OFFSET, "clock_offset", "seconds")                                   \
    ROW(SONAR_CONDITION_CLOCK_STEPPED, "clock_stepped", "seconds")                                 \
    ROW(SONAR_CONDITION_REPLAY, "replay", "seconds")                                               \
    ROW(SONAR_CONDITION_NODE_CLOCK_STEPPED, "node_clock_stepped", "seconds")                       \
    ROW(SONAR_CONDITION_NODE_CLOCK_UNSYNCHRONISED, "node_clock_unsynchronised", "seconds")         \
    ROW(SONAR_CONDITION_RESULTS_DROPPED, "results_dropped", "results")                             \
    ROW(SONAR_CONDITION_MESSAGES_FAILED, "messages_failed", "messages")                            \
    ROW(SONAR_CONDITION_DISCONTINUITY, "discontinuity", "frames")                                  \
    ROW(SONAR_CONDITION_DIGITISER_OVERLOAD, "digitiser_overload", "frames")                        \
    ROW(SONAR_CONDITION_CLOCK_UNSYNCHRONISED, "clock_unsynchronised", "frames")                    \
    ROW(SONAR_CONDITION_PEERS_REFUSED, "peers_refused", "connections")                             \
    ROW(SONAR_CONDITION_HANDSHAKES_FAILED, "handshakes_failed", "connections")                     \
    ROW(SONAR_CONDITION_HELD_BACK, "held_back", "frames")                                          \
    ROW(SONAR_CONDITION_HEADING_STALE, "heading_stale", "seconds")                                 \
    ROW(SONAR_CONDITION_TOW_UNKNOWN, "tow_unknown", "metres of path")                              \
    ROW(SONAR_CONDITION_TOW_OVER_GROUND, "tow_over_ground", "")                                    \
    ROW(SONAR_CONDITION_TOW_COMPASSES, "tow_compasses", "compasses")                               \
    ROW(SONAR_CONDITION_POSITIONS_INEXACT, "positions_inexact", "dB")                              \
    ROW(SONAR_CONDITION_RECORDING_STOPPED, "recording_stopped", "")                                \
    ROW(SONAR_CONDITION_RECORDING_GAPS, "recording_gaps", "samples or messages")                   \
    ROW(SONAR_CONDITION_RECORDING_CLOCK, "recording_clock", "segments")                            \
    ROW(SONAR_CONDITION_BACKEND_CHANGED, "backend_changed", "")                                    \
    ROW(SONAR_CONDITION_TRAINING, "training", "seconds")                                           \
    ROW(SONAR_CONDITION_ELEMENTS_QUIET, "elements_quiet", "sensors")                               \
    ROW(SONAR_CONDITION_ELEMENTS_DEAD, "elements_dead", "sensors")                                 \
    ROW(SONAR_CONDITION_ELEMENTS_STUCK, "elements_stuck", "sensors")                               \
    ROW(SONAR_CONDITION_ELEMENTS_NOISY, "elements_noisy", "sensors")                               \
    ROW(SONAR_CONDITION_ELEMENTS_HUM, "elements_hum", "sensors")                                   \
    ROW(SONAR_CONDITION_ELEMENTS_CLIPPED, "elements_clipped", "sensors")                           \
    ROW(SONAR_CONDITION_ELEMENTS_IDENTICAL, "elements_identical", "sensors")                       \
    ROW(SONAR_CONDITION_ELEMENTS_MASKED, "elements_masked", "sensors")                             \
    ROW(SONAR_CONDITION_MVDR_NOT_CONVERGED, "mvdr_not_converged", "bins")                          \
    ROW(SONAR_CONDITION_PRIORITY_REFUSED, "priority_refused", "priority")                          \
    ROW(SONAR_CONDITION_MEMORY_UNLOCKED, "memory_unlocked", "bytes")                               \
    ROW(SONAR_CONDITION_NO_SAMPLES, "no_samples", "seconds")

typedef enum sonar_condition_code {
    SONAR_CONDITION_ROWS(SONAR_ROW_CONSTANT) SONAR_CONDITIONS
} sonar_condition_code;

const char *sonar_condition_name(sonar_condition_code code);

typedef struct sonar_condition {
    sonar_condition_code code;
    sonar_condition_severity severity;
    double value, limit; /* the measured value and its limit; NaN: not applicable */
    double for_s;        /* for how long it has held */
    sonar_channel_set
        channels;   /* the channels concerned; empty: the condition does not concern channels */
    char text[160]; /* one sentence without a full stop */
} sonar_condition;

/* The stream compared with the clocks; NaN: unknown. */
typedef struct sonar_stream {
    double rate_hz;        /* samples per second and channel, over up to 65 s */
    double since_frame_s;  /* since the last frame that was accepted */
    double age_s;          /* age of the newest sample on arrival, by its UTC */
    double clock_offset_s; /* the least of these ages, which delay does not explain */
    double clock_skew_s;   /* largest UTC difference between two blocks at one index */
    double block_skew_s;   /* by how much the slowest block lags behind the newest sample */
    double result_age_s;   /* largest delay of a result after its last sample, or current delay */
} sonar_stream;

/* The clock of a channel block, one digitiser's, by the UTC of its newest sample; NaN: unknown. */
typedef struct sonar_block_clock {
    uint32_t first_channel, channels;
    double age_s;    /* age of that sample on arrival, by the node's clock */
    double offset_s; /* the least of these ages, which delay does not explain */
    double skew_s;   /* ahead of the block with the lowest channel, at the same index */
} sonar_block_clock;

enum { SONAR_BLOCK_CLOCKS_MOST = 64 }; /* blocks beyond this number appear in sonar_stream only */

/* The node's own clock, as core/node_clock.h reads it; NaN: unknown to the kernel. */
typedef struct sonar_node_clock {
    double synchronised; /* 0 or 1 */
    double offset_s, max_error_s, frequency_ppm;
    double tai_s; /* TAI - UTC; NaN also if it was not set in the kernel */
    double leap;  /* 1 or -1: a leap second is inserted or omitted at the end of the day; else 0 */
    double last_step_s;
    uint64_t steps; /* since the start */
} sonar_node_clock;

/* A rank of several that share the array, as it last reported itself. */
typedef struct sonar_rank_status {
    char host[64];
    uint32_t first_channel, channels;
    uint64_t frames_accepted, frames_dropped, samples_missing; /* as the counters of these names */
    uint64_t windows_absent;  /* windows of the array of which it had no samples */
    uint64_t windows_dropped; /* its own windows dropped as late or of another epoch */
} sonar_rank_status;

enum { SONAR_RANKS_SHOWN = 64 }; /* ranks shown one by one; the conditions count all */

/* The state of the daemon, made by the control thread once a second. `post` copies it. */
typedef struct sonar_status {
    sonar_params_facts params; /* the newest */
    sonar_ingest_counters ingest;
    sonar_output_counters output;
    uint64_t windows_processed, windows_failed;
    uint64_t mvdr_bins, mvdr_bins_not_converged, mvdr_most_sweeps;
    char mvdr_path[48]; /* the path that most bins of the last window took, as named in
                           docs/mvdr-inside.md; or "" */
    double device_free_bytes;
    double uptime_s, load;     /* load: share of the time that the data thread is busy */
    sonar_percentiles latency; /* from the last sample to publication */
    sonar_percentiles latency_part[SONAR_LATENCY_PARTS];
    double stage_us[SONAR_TIMED_STAGES]; /* last window */
    sonar_percentiles stage[SONAR_TIMED_STAGES][SONAR_STAGE_PARTS];
    double resident_bytes, locked_bytes; /* locked: never swapped out */
    double data_priority;                /* real-time, of the data thread; 0: none */
    char backend[24];                    /* names of the backends in use */
    char backend_text[240]; /* why the backend was reopened or replaced; "" if it was not */
    sonar_element_health elements;
    /* of a beam, by the errors of positions that are declared: 4.34 (2 pi s / lambda)^2 dB at the
     * band's top (Ruze, Antenna tolerance theory, 1966) */
    double positions_cost_db, positions_cost_hz;
    size_t ranks; /* 0: one process */
    sonar_rank_status rank[SONAR_RANKS_SHOWN];
    sonar_navigation navigation;
    sonar_recording record;
    bool waiting_for_samples;
    sonar_stream stream;
    size_t block_clocks; /* the digitisers' clocks, in the order of their channels */
    sonar_block_clock block_clock[SONAR_BLOCK_CLOCKS_MOST];
    sonar_node_clock clock;
    char health[16]; /* "ok", "waiting", "degraded" */
    char text[320];  /* the conditions as text, worst first */
    size_t conditions;
    sonar_condition
        condition[SONAR_CONDITIONS]; /* the conditions that hold, worst first, each code once */
} sonar_status;

#endif
