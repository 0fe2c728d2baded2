/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Values that cross stage boundaries: counters, detections, the results of a window, the status.
 * Plain data, owned by whoever holds it; the stages that fill and read them never see each other.
 */
#ifndef SONAR_RESULT_H
#define SONAR_RESULT_H

#include "core/histogram.h"
#include "sonar/sonar.h"

/* ---- ingest ---------------------------------------------------------------------------------- */

/* Why a message was not accepted. Names for status messages: sonar_frame_cause_name. */
typedef enum sonar_frame_cause {
    SONAR_FRAME_MALFORMED = 0, /* parts, magic, version, header fields */
    SONAR_FRAME_TRUNCATED,     /* payload shorter than the header says */
    SONAR_FRAME_OVERSIZED,     /* payload longer than the header says */
    SONAR_FRAME_WRONG_ARRAY,
    SONAR_FRAME_WRONG_CHANNELS, /* block does not fit the array */
    SONAR_FRAME_WRONG_RATE,
    SONAR_FRAME_WRONG_EPOCH,
    SONAR_FRAME_NOT_FINITE,
    SONAR_FRAME_OUT_OF_RANGE, /* a sample no hydrophone makes */
    SONAR_FRAME_WRONG_TYPE,   /* not the one sample type that is accepted */
    SONAR_FRAME_REPEATED,     /* all its samples are stored already */
    SONAR_FRAME_LATE,         /* all its samples are older than the windows still open */
    SONAR_FRAME_AHEAD,        /* its index lies beyond the ring */
    SONAR_FRAME_OVERRUN, /* drop_oldest: the data thread still reads where it would be written */
    SONAR_FRAME_CAUSES
} sonar_frame_cause;

const char *sonar_frame_cause_name(sonar_frame_cause cause);

typedef enum sonar_window_cause {
    SONAR_WINDOW_OVERLOAD = 0, /* the oldest waiting window was dropped for a newer one */
    SONAR_WINDOW_MISSING,      /* a larger share missing than max_missing_share */
    SONAR_WINDOW_SKIPPED,      /* skipped, because the index jumped by more than the ring */
    SONAR_WINDOW_CAUSES
} sonar_window_cause;

const char *sonar_window_cause_name(sonar_window_cause cause);

/* Connections of one of the two sockets. */
typedef struct sonar_peer_counters {
    uint32_t connected;       /* now; where the socket connects by itself: its endpoints */
    uint64_t refused;         /* too many, or one that subscribed to too much */
    uint64_t reopened_memory; /* times the socket was opened anew: peers held too much memory... */
    uint64_t reopened_lost;   /* ...or libzmq gave an endpoint up (ingest.socket: sub) */
} sonar_peer_counters;

/* Each value is exact; the values are read one after the other, so they may belong to different
 * moments. */
typedef struct sonar_ingest_counters {
    uint64_t frames_received, frames_accepted, frames_dropped[SONAR_FRAME_CAUSES];
    uint64_t samples_stored, samples_repeated,
        samples_late;         /* channel-samples of accepted frames */
    uint64_t samples_missing; /* missing samples of used channels, each counted once */
    uint64_t sequence_gaps;   /* frames the digitisers sent that never came (by sequence) */
    uint64_t restarts;        /* timelines adopted after the first */
    uint64_t windows_offered, windows_taken, windows_dropped[SONAR_WINDOW_CAUSES];
    uint64_t clock_unsynchronised, digitiser_overload,
        discontinuities;    /* frames that carried the flag */
    uint64_t index_jumps;   /* frames in sequence whose index does not follow on */
    uint64_t frames_held;   /* overload block: frames that had to wait for room */
    uint32_t blocks_silent; /* channel blocks seen before, silent for silent_after_ms */
    uint32_t blocks_seen;
    int64_t last_frame_ns; /* monotonic; 0 = none yet */
    sonar_peer_counters peers;
} sonar_ingest_counters;

/* Channels as ranges, ascending. Of more ranges than fit only the first are kept; count is exact.
 */
enum { SONAR_CHANNEL_RANGES_MOST = 16 };

typedef struct sonar_channel_set {
    uint32_t count, ranges;
    uint32_t first[SONAR_CHANNEL_RANGES_MOST], last[SONAR_CHANNEL_RANGES_MOST];
} sonar_channel_set;

/* Adds [first, first + count), which lies above all that is there. */
void sonar_channel_set_add(sonar_channel_set *set, uint32_t first, uint32_t count);
/* "3, 17-31 and more", as much of it as fits; returns text. */
const char *sonar_channel_set_print(const sonar_channel_set *set, char *text, size_t bytes);

enum { SONAR_BLOCKS_MOST = 256 }; /* channel blocks beyond are not watched */

/* A channel block, one digitiser's share of the array: how far its samples have come in this
 * timeline (frames of it or late for it; all 0 while there are none). */
typedef struct sonar_block_report {
    uint32_t first_channel, channels;
    int64_t heard_ns; /* monotonic, last frame of this epoch */
    uint64_t frames;
    uint32_t samples;      /* a channel, of the last frame */
    uint64_t step;         /* of the sample index from one frame to the next in sequence... */
    uint32_t step_over;    /* ...where the first of these had so many samples */
    uint64_t end_sample;   /* index after the newest sample */
    int64_t end_ns;        /* monotonic, when that sample came */
    int64_t utc_ns;        /* as the frame of that sample says, 0 = unknown */
    int64_t end_utc_ns;    /* UTC of end_sample by it, 0 = unknown */
    uint64_t begin_sample; /* end_sample and end_ns of the first frame */
    int64_t begin_ns;
} sonar_block_report;

/* State of the stream by channel and by block, which counters do not tell. */
typedef struct sonar_ingest_report {
    int64_t made_ns;    /* monotonic */
    bool held;          /* overload block: a frame waits for the data thread, nothing is received */
    uint64_t timeline;  /* counts adoptions, 0: no stream yet */
    int64_t adopted_ns; /* monotonic, when it began */
    int64_t decided_ns; /* when its last window was offered or dropped; 0: none yet */
    uint64_t window_sample;    /* first sample of the window being filled */
    uint64_t samples_missing;  /* the counter of that name */
    uint64_t newest_sample;    /* after the newest sample stored */
    sonar_channel_set unfed;   /* used channels of which no sample was stored in this timeline */
    sonar_channel_set lacking; /* others whose samples windows did without since the last read */
    double lacking_share;      /* the worst of them, of a window */
    sonar_channel_set awaited; /* used channels that have not come to the end of the window being
                                  filled, while others have */
    size_t blocks;
    sonar_block_report block[SONAR_BLOCKS_MOST];
} sonar_ingest_report;

/* ---- detections ------------------------------------------------------------------------------ */

enum { SONAR_DETECTIONS_MOST = 64 };

typedef enum sonar_detect_source { SONAR_FROM_CBF = 0, SONAR_FROM_MVDR } sonar_detect_source;

typedef struct sonar_detection {
    sonar_detect_source source;
    double az_deg;         /* as the scan counts it: array frame, or cone angle from the axis */
    double bearing_deg;    /* true if the heading is known, else array frame; 0..360 */
    double mirror_deg;     /* cone: the other possible bearing, else NaN */
    double power;          /* broadband, unit^2, at az_deg */
    double background;     /* broadband, unit^2 */
    double snr_db;         /* 10 log10(power / background) */
    double width_deg;      /* -3 dB width, NaN where it does not fall by 3 dB on both sides */
    double range_m;        /* near-field peak's range, NaN = far field or not computed */
    bool range_unresolved; /* the ranges there are too far apart to resolve it */
} sonar_detection;

/* ---- results and status ---------------------------------------------------------------------- */

typedef struct sonar_output_counters {
    uint64_t messages_sent,
        messages_failed;      /* failed: no memory, or a surface of the wrong shape */
    uint64_t subscriptions;   /* requests to subscribe, since the start */
    uint64_t results_dropped; /* windows that found the ring to the output full */
    sonar_peer_counters peers;
} sonar_output_counters;

/* What a header says of parameters. A copy, because they may be replaced and destroyed while the
 * output still has a window that was computed with them. */
typedef struct sonar_params_facts {
    char config_version[80];
    double sound_speed_mps, heading_deg; /* heading_deg: NaN if it is not known */
    bool calibrated;
    size_t sensors_used, mvdr_sensors_used;
} sonar_params_facts;

sonar_params_facts sonar_params_tell(const sonar_params *params);

/* One window's results. The pipeline owns a few and lends them; surfaces[i] is host memory, filled
 * where `present` has the bit. */
typedef struct sonar_result {
    uint64_t window, first_sample;
    size_t window_length;
    uint64_t mvdr_first_sample, mvdr_end_sample; /* samples behind the MVDR spectrum */
    int64_t utc_ns;
    uint32_t epoch;
    char backend[24]; /* names of the backends that computed it */
    uint32_t present;
    sonar_buffer surface[SONAR_SURFACES]; /* [SONAR_DETECTIONS], [SONAR_STATUS] unused */
    sonar_detection detection[2 * SONAR_DETECTIONS_MOST];
    size_t detections;
    sonar_params_facts params;                        /* those of this window */
    double cbf_snapshots, mvdr_snapshots, mvdr_delta; /* mvdr_delta: median over bins */
    double mvdr_level_db;   /* by which a source is expected to read high, median over bins: <= 0 */
    size_t mvdr_tonal_bins; /* steered at a tone off their centre */
    size_t mvdr_bins_not_converged;
    uint32_t mvdr_flags; /* SONAR_MVDR_FLAG_* of any bin */
    float mvdr_worst_residual, mvdr_most_sweeps;
    double missing_mean, missing_worst;
    uint32_t frame_flags; /* SONAR_FRAME_* */
    bool restarted;
    bool mask_changed;  /* the first window with another mask than before */
    int64_t arrival_ns; /* monotonic, last sample in */
} sonar_result;

/* The stages that are timed. */
typedef enum sonar_timed_stage {
    SONAR_TIMED_DFT = 0,
    SONAR_TIMED_CBF,
    SONAR_TIMED_MVDR,
    SONAR_TIMED_DETECT,
    SONAR_TIMED_STAGES
} sonar_timed_stage;

/* Parts of a stage's time: work of the host (on the CPU backend all of it), waiting in the device's
 * queue, copying samples that were not on the device yet, work of the device. */
typedef enum sonar_stage_part {
    SONAR_PART_HOST = 0,
    SONAR_PART_QUEUE,
    SONAR_PART_COPY,
    SONAR_PART_DEVICE,
    SONAR_STAGE_PARTS
} sonar_stage_part;

/* ---- health ---------------------------------------------------------------------------------- */

/* ---- elements -------------------------------------------------------------------------------- */

/* What can be wrong with a sensor; src/elements/elements.h says how it is told. */
typedef enum sonar_element_fault {
    SONAR_ELEMENT_DEAD = 0,
    SONAR_ELEMENT_STUCK,
    SONAR_ELEMENT_NOISY,
    SONAR_ELEMENT_HUM,
    SONAR_ELEMENT_CLIPPED,
    SONAR_ELEMENT_FAULTS
} sonar_element_fault;

const char *sonar_element_fault_name(sonar_element_fault fault);

typedef struct sonar_element_list {
    sonar_channel_set sensors;  /* by their numbers, as array.mask counts them */
    sonar_channel_set channels; /* that feed them */
    uint32_t used;              /* of these, sensors that are in the beams all the same */
} sonar_element_list;

typedef struct sonar_element_health {
    size_t judged, masked; /* sensors of the last round; by hand, which are not judged */
    sonar_element_list fault[SONAR_ELEMENT_FAULTS];
    sonar_element_list masked_auto; /* masked by array.auto_mask */
} sonar_element_health;

/* ---- conditions ------------------------------------------------------------------------------ */

typedef enum sonar_condition_severity {
    SONAR_NOTICE = 0, /* worth knowing; the results are good */
    SONAR_WAITING,    /* there is nothing to work on */
    SONAR_DEGRADED    /* something is lost, wrong or late */
} sonar_condition_severity;

const char *sonar_condition_severity_name(sonar_condition_severity severity);

/* The rows of the table in docs/running.md; of equal severity the upper one is named first, so
 * causes stand above what follows from them. */
typedef enum sonar_condition_code {
    SONAR_CONDITION_WINDOWS_FAILED = 0,
    SONAR_CONDITION_SAMPLE_INDEX,
    SONAR_CONDITION_RATE,
    SONAR_CONDITION_FRAMES_DROPPED,
    SONAR_CONDITION_SAMPLES_REPEATED,
    SONAR_CONDITION_SOCKET_REOPENED,
    SONAR_CONDITION_RESTARTED,
    SONAR_CONDITION_CHANNELS_UNFED,
    SONAR_CONDITION_BLOCKS_SILENT,
    SONAR_CONDITION_BLOCKS_APART,
    SONAR_CONDITION_SAMPLES_MISSING,
    SONAR_CONDITION_WINDOWS_STALLED,
    SONAR_CONDITION_WINDOWS_OVERLOAD, /* this and the next two as the causes of windows dropped */
    SONAR_CONDITION_WINDOWS_MISSING,
    SONAR_CONDITION_WINDOWS_SKIPPED,
    SONAR_CONDITION_RESULTS_LATE,
    SONAR_CONDITION_SAMPLES_LATE,
    SONAR_CONDITION_CLOCK_UNIT,
    SONAR_CONDITION_CLOCK_SKEW,
    SONAR_CONDITION_CLOCK_OFFSET,
    SONAR_CONDITION_RESULTS_DROPPED,
    SONAR_CONDITION_MESSAGES_FAILED,
    SONAR_CONDITION_DISCONTINUITY,
    SONAR_CONDITION_DIGITISER_OVERLOAD,
    SONAR_CONDITION_CLOCK_UNSYNCHRONISED,
    SONAR_CONDITION_PEERS_REFUSED,
    SONAR_CONDITION_HELD_BACK,
    SONAR_CONDITION_BACKEND_CHANGED,
    SONAR_CONDITION_ELEMENTS_DEAD, /* these in the order of the faults */
    SONAR_CONDITION_ELEMENTS_STUCK,
    SONAR_CONDITION_ELEMENTS_NOISY,
    SONAR_CONDITION_ELEMENTS_HUM,
    SONAR_CONDITION_ELEMENTS_CLIPPED,
    SONAR_CONDITION_ELEMENTS_MASKED,
    SONAR_CONDITION_NO_SAMPLES,
    SONAR_CONDITIONS
} sonar_condition_code;

const char *sonar_condition_name(sonar_condition_code code);

typedef struct sonar_condition {
    sonar_condition_code code;
    sonar_condition_severity severity;
    double value, limit;        /* what was measured and what is allowed; NaN: does not apply */
    double for_s;               /* it has held for so long */
    sonar_channel_set channels; /* empty: does not go by channel */
    char text[160];             /* one sentence without a full stop */
} sonar_condition;

/* How the stream stands against the clocks; NaN: not known. */
typedef struct sonar_stream {
    double rate_hz;        /* samples a second and channel, over up to 65 s */
    double since_frame_s;  /* since the last frame that was accepted */
    double age_s;          /* of the newest sample when it came, by its UTC */
    double clock_offset_s; /* the least of these ages: what delay does not explain */
    double clock_skew_s;   /* most by which the UTC of two blocks differs at one index */
    double block_skew_s;   /* by which the slowest block's samples lie behind the newest */
    double result_age_s;   /* most that a result came after its last sample, or is late now */
} sonar_stream;

/* What the control thread knows once a second. Copied by post. */
typedef struct sonar_status {
    sonar_params_facts params; /* the newest */
    sonar_ingest_counters ingest;
    sonar_output_counters output;
    uint64_t windows_processed, windows_failed;
    double uptime_s, load;               /* load: busy share of the data thread */
    sonar_percentiles latency;           /* last sample in -> published */
    double stage_us[SONAR_TIMED_STAGES]; /* last window */
    sonar_percentiles stage[SONAR_TIMED_STAGES][SONAR_STAGE_PARTS];
    double resident_bytes;
    char backend[24];       /* names of the backends at work */
    char backend_text[240]; /* why it was set up again or replaced; "" if nothing happened */
    sonar_element_health elements;
    bool waiting_for_samples;
    sonar_stream stream;
    char health[16]; /* "ok", "waiting", "degraded" */
    char text[320];  /* the conditions in words, worst first */
    size_t conditions;
    sonar_condition condition[SONAR_CONDITIONS]; /* those that hold, worst first, each code once */
} sonar_status;

#endif
