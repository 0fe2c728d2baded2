/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Configuration: a YAML file -> checked values with their places -> a resolved configuration.
 *
 * One table row per option (src/config/options.c) gives path, type, unit, range, default and help;
 * it drives reading, checking, --print-config and docs/configuration.md. All errors of a file are
 * reported at once. Nothing here prints: reports are written to a FILE the caller passes.
 * Any thread; a configuration is immutable once loaded.
 */
#ifndef SONAR_CONFIG_H
#define SONAR_CONFIG_H

#include <stdio.h>

#include "sonar/sonar.h"

#include "analysis/beam/beam.h"
#include "analysis/normalise/normalise.h"
#include "cbf/cbf.h"
#include "manifold/manifold.h"
#include "status/specs.h"
#include "ingest/ingest.h"
#include "ranks/cluster.h"
#include "manifold/params.h"
#include "net/net.h"

enum {
    SONAR_ENDPOINTS_MOST = 64,
    SONAR_RANGES_MOST = 64,
    SONAR_CPUS_MOST = 256,
    SONAR_NMEA_MOST = 4,
    SONAR_COMPASSES_MOST = 16,
    SONAR_COMPASS_ID = 16 /* bytes of a compass's name with its zero */
};

typedef enum sonar_geometry_kind {
    SONAR_GEOMETRY_LINE = 0,
    SONAR_GEOMETRY_CIRCLE,
    SONAR_GEOMETRY_PLANAR,
    SONAR_GEOMETRY_POSITIONS
} sonar_geometry_kind;

enum {
    SONAR_SENSORS_MOST = 1 << 22,  /* and channels */
    SONAR_SNAPSHOTS_MOST = 1 << 10 /* of a window, for the CBF */
};

/* Bands after resolution: absolute bin numbers of the DFT they belong to. */
typedef struct sonar_band {
    double low_hz, high_hz; /* as configured, or the frequencies of the bins */
    size_t first_bin, bins;
} sonar_band;

/* The reference of the azimuth axes of published spectra. */
typedef enum sonar_bearing_reference {
    SONAR_REFERENCE_ARRAY = 0,
    SONAR_REFERENCE_TRUE
} sonar_bearing_reference;

/* Where a towed array is assumed to be. */
typedef enum sonar_tow_model {
    SONAR_TOW_OFF = 0, /* at the ship */
    SONAR_TOW_RIGID,  /* straight, along the line that fits the places of its sensors on the path */
    SONAR_TOW_FOLLOW, /* each sensor on the path */
    SONAR_TOW_SENSORS /* where compasses in the array place it */
} sonar_tow_model;

/* What happens if the backend fails while the daemon runs and cannot be set up again. */
typedef enum sonar_gpu_failure {
    SONAR_GPU_FAILURE_CPU = 0,
    SONAR_GPU_FAILURE_EXIT
} sonar_gpu_failure;

typedef struct sonar_config {
    /* array */
    uint32_t array_id;
    char array_name[64];
    sonar_geometry_kind geometry_kind;
    size_t sensors, channels; /* channels: of the array's frames */
    double *position_m;       /* [sensor][3] array frame */
    uint32_t *channel;        /* [sensor] */
    uint8_t *used;            /* [sensor] */
    bool auto_mask;           /* sensors found faulty during the run are masked too */
    double *gain_db;          /* [sensor] dB re 1 count/uPa, 0 where not given */
    bool calibrated;          /* gain_db was given, or follows from array.hydrophone */
    double full_scale_counts; /* of array.hydrophone, 0: not given */
    double *phase_deg;        /* [sensor] phase by which the channel leads; it is compensated */
    double *delay_us;         /* [sensor] time by which the channel lags; it is compensated */
    double heading_deg;
    bool heading_known;
    sonar_array_error array_error; /* declared */
    sonar_geometry geometry;       /* analysed */

    double sound_speed_mps, fs_hz;

    /* ingest */
    size_t ingest_endpoints;
    char *ingest_endpoint[SONAR_ENDPOINTS_MOST];
    sonar_socket_kind ingest_socket;
    char *shared_memory; /* NULL: none */
    size_t shared_memory_bytes;
    int ingest_high_water_mark;
    size_t ingest_max_message_bytes;
    size_t ingest_queue_windows;
    sonar_overload overload;
    double max_missing_share;
    bool drop_spikes;
    double max_skew_ms;
    int restart_after_ms, silent_after_ms;
    size_t ingest_threads, ingest_io_threads;
    sonar_dtype sample_type; /* SONAR_S16: 16-bit samples only, kept as they are; else f32 */

    /* Specifications of the stages: windows, transforms, beamformers. Options that are a member of
     * a specification are stored only there. Do not copy: it contains its own address. */
    sonar_specs specs;

    /* cbf and lofar */
    sonar_band cbf_band,
        lofar_band; /* lofar: the bins of the whole surface, which contains the CBF's band */
    sonar_scan cbf_scan;
    sonar_shading shading;
    double sidelobe_db;
    int nbar;
    double *shading_weight;            /* [sensor], 0 where masked */
    double range_m[SONAR_RANGES_MOST]; /* number of them: specs.cbf.ranges */
    sonar_range_reference range_reference;

    /* mvdr */
    sonar_band mvdr_band;
    bool mvdr_nearfield;    /* the MVDR has the CBF's ranges (specs.mvdr.ranges) */
    bool mvdr_cell_maximum; /* mvdr.azimuth is raised by sonar_detect_raise */
    sonar_scan mvdr_scan;

    /* detections */
    bool detect_enabled;
    double detect_threshold_db, detect_min_separation_deg, detect_range_margin_db;
    double detect_faint_db; /* tracks: the least level over the noise; 0: only of detections */
    bool detect_tones;      /* detections and tracks need cbf.lofar */
    size_t detect_most;

    sonar_normalise_method normaliser; /* of both spectra */

    /* beams with a time series; their number: specs.beams */
    sonar_beam_look beam[SONAR_BEAMS_MOST];
    char beam_name[SONAR_BEAMS_MOST][SONAR_BEAM_NAME];
    bool beam_follows;   /* one of them follows a track: tracks are computed for it */
    double beam_range_m; /* INFINITY: far field */

    /* output */
    char *output_endpoint;
    uint32_t output_topics; /* SONAR_WANT bits */
    int output_high_water_mark;
    size_t output_queue_results;
    sonar_bearing_reference bearing_reference;

    /* security: `curve` and `ipc_mode` are always set, the keys only if they were read */
    sonar_security security;

    /* navigation */
    char *navigation_nmea[SONAR_NMEA_MOST]; /* NULL from the first unused one on */
    char *navigation_endpoint;              /* NULL: none, as if there is NMEA */
    int navigation_baud, navigation_stale_after_ms;
    double heading_offset_deg;
    sonar_tow_model tow_model;
    double tow_scope_m, tow_depth_m;
    size_t tow_compasses;
    char tow_compass_id[SONAR_COMPASSES_MOST][SONAR_COMPASS_ID]; /* from front to back */
    double tow_compass_at_m[SONAR_COMPASSES_MOST], tow_compass_offset_deg[SONAR_COMPASSES_MOST];

    /* control */
    char *control_endpoint; /* NULL: none */
    bool control_group;

    /* cluster */
    size_t cluster_ranks;                      /* 0: channels are split evenly */
    size_t cluster_channels[SONAR_RANKS_MOST]; /* of each rank */
    double cluster_max_skew_ms;

    char *metrics_listen; /* as sonar_loopback_read accepts it; NULL: off */

    /* record */
    sonar_record_kind record_what;
    char *record_directory; /* NULL: `recordings` in state_dir */
    bool record_at_start;
    uint32_t record_topics; /* SONAR_WANT bits */
    size_t record_segment_mib, record_keep_mib, record_free_mib, record_buffer_mib;
    double record_segment_s, record_keep_h; /* keep: 0 is without limit */

    /* runtime */
    char backend[16]; /* "auto", "cpu", "cuda" */
    char *plugin_dir;
    sonar_gpu_failure on_gpu_failure;
    size_t threads;             /* workers of the data thread's pool, including that thread */
    int cpu_ingest, cpu_output; /* processor, -1 any */
    size_t cpus;                /* processors of the pool's workers, 0 = not pinned */
    int cpu[SONAR_CPUS_MOST];
    sonar_level log_level;
    char *state_dir;   /* NULL: nothing is stored */
    int data_priority; /* SCHED_FIFO priority of the data thread; 0: ordinary scheduling */
    bool lock_memory;  /* no memory of the process is ever swapped out */
    /* No options; the program sets them. */
    const sonar_cluster *cluster;          /* borrowed; NULL: one process */
    const struct sonar_output_tap *reader; /* output/output.h, borrowed: reads all messages in place
                                              of sockets, and frames come by sonar_pipeline_feed;
                                              NULL: both have sockets */
    long fail_at;                          /* sonar_host.fail_at */
    void (*starting)(const char *step); /* called by sonar_pipeline_create before each step that may
                                           take seconds, with its name; may be NULL */

    char digest[65];                 /* SHA-256 of the effective configuration, hex */
    char version[72];                /* as published: the version of the format, then the digest */
    struct sonar_settings *settings; /* every option's value and its place, for printing */
} sonar_config;

/* A list of problems, errors and warnings, and of notes, in file order. */
typedef struct sonar_report sonar_report;

sonar_report *sonar_report_create(void);
void sonar_report_destroy(sonar_report *report);
size_t sonar_report_errors(const sonar_report *report);
size_t sonar_report_warnings(const sonar_report *report);
/* Writes each problem as file:line:column: error: message, the line, a caret, and what would be
 * accepted. */
void sonar_report_write(const sonar_report *report, FILE *to);
/* The first error: its place as FILE:LINE:COLUMN to `where`, unless that is NULL, its message and
 * what would be accepted to text[bytes]; false: no error. */
bool sonar_report_mistake(const sonar_report *report, char where[160], char *text, size_t bytes);
/* The same as one line each, in the order of the file: "FILE:LINE:COLUMN", the message and what
 * would be accepted. */
void sonar_report_each(const sonar_report *report,
                       void (*visit)(void *ctx, sonar_level level, const char *where,
                                     const char *text),
                       void *ctx);

/* Loads and resolves a file. On SONAR_OK the caller destroys *config. On any error *config is NULL,
 * and the report has all mistakes. The report may contain warnings in both cases. */
sonar_code sonar_config_load(const char *path, sonar_config **config, sonar_report *report);
/* The same for a server: also reads the keys that `security` names. A key that cannot be read is
 * reported as a mistake of the file. A relative name is looked up in credentials_dir (with _ for /;
 * may be NULL), then in the folder of the configuration. */
sonar_code sonar_config_load_with_keys(const char *path, const char *credentials_dir,
                                       sonar_config **config, sonar_report *report);
/* The same from memory; `name` stands for the file in messages; relative CSV paths are resolved
 * against the current directory. */
sonar_code sonar_config_parse(const char *name, const char *text, size_t bytes,
                              sonar_config **config, sonar_report *report);
void sonar_config_destroy(sonar_config *config);
/* For a pipeline that is fed inside a program (config->reader): what is a daemon's own, such as
 * sockets, keys, recordings and places on processors, is left out, and nothing is dropped however
 * long it takes. Results do not depend on any of this. */
void sonar_config_make_private(sonar_config *config);

/* ---- changes while the daemon runs ----------------------------------------------------------- */

/* The value of one option, in YAML on one line or as JSON; NULL: as if it were not given. */
typedef struct sonar_config_value {
    const char *path, *text;
} sonar_config_value;

/* One option that is to change, and whether it can. Values are shortened to fit. */
typedef struct sonar_config_difference {
    const char *path;
    char from[64], to[64];
    bool live;     /* it can change */
    char why[160]; /* the reason if it cannot: a sentence without a full stop */
} sonar_config_difference;

enum { SONAR_DIFFERENCES_MOST = 128 };

typedef struct sonar_config_differences {
    size_t count, live; /* live: number of those that change */
    sonar_config_difference difference[SONAR_DIFFERENCES_MOST];
} sonar_config_differences;

/* Lists what differs between two configurations. `live` of each entry says whether the option can
 * change at run time; `differences->live` is 0. False: no memory. */
bool sonar_config_compare(const sonar_config *running, const sonar_config *wanted,
                          sonar_config_differences *differences);
/* `base` with other values, resolved like a file with these values. Options that cannot change at
 * run time are accepted too. The messages in the report describe mistakes of the values; their
 * places have no meaning. On SONAR_OK the caller destroys *config. */
sonar_code sonar_config_with(const sonar_config *base, size_t count,
                             const sonar_config_value *value, sonar_config **config,
                             sonar_report *report);
/* What can change from `running` to `wanted` at run time. *config is `running` with those values,
 * and the caller destroys it; NULL if nothing can change. It fits the buffers, which were `made`
 * for the configuration of the start: automatic scans and ranges keep their number, and bands are
 * within those of the start. Errors: SONAR_ENOMEM; SONAR_EINVAL, with the report, if the values
 * conflict with those that cannot change. */
sonar_code sonar_config_merge(const sonar_config *made, const sonar_config *running,
                              const sonar_config *wanted, sonar_config **config,
                              sonar_config_differences *differences, sonar_report *report);
/* The values that were given for a configuration, as YAML text, malloc'ed; NULL: no memory. */
char *sonar_config_given(const sonar_config *config, size_t *bytes);
/* Reads a text that another process made with sonar_config_given, as a live change here: relative
 * paths start at the folder of `running`'s file, and automatic scans and ranges keep their number.
 * Errors are those of sonar_config_with. */
sonar_code sonar_config_take_given(const sonar_config *running, const char *text, size_t bytes,
                                   sonar_config **config, sonar_report *report);
/* Calls back, with canonical YAML, for every option that has a value and is `path` or in the group
 * `path` ("": all). False: no such option; the hint is empty or proposes one. */
bool sonar_config_each(const sonar_config *config, const char *path,
                       void (*visit)(void *ctx, const char *path, const char *text), void *ctx,
                       char *hint, size_t hint_bytes);
/* The word that stands for this value of an option with a choice of words. Static. */
const char *sonar_config_word(const char *path, unsigned value);
/* True if the option may change while the daemon runs; false also if no such option exists. */
bool sonar_config_is_live(const char *path, char *hint, size_t hint_bytes, bool *known);
/* True if both have the same delays: sound speed, positions, directions and ranges. */
bool sonar_config_same_delays(const sonar_config *a, const sonar_config *b);

/* --print-config: every option with its value and, as a comment, where it came from. The output is
 * itself a valid configuration with the same digest. */
void sonar_config_print(const sonar_config *config, FILE *to);
/* Duration of the samples behind an adaptive spectrum; with forgetting, of the effective number of
 * snapshots. */
double sonar_config_mvdr_seconds(const sonar_config *config);
/* The topics, and those from which they are made. */
uint32_t sonar_config_needed(const sonar_config *config, uint32_t topics);
/* --check-config: resolved array, bins, angles, ranges, integration time, memory need. */
void sonar_config_describe(const sonar_config *config, FILE *to);
/* docs/configuration.md from the table. */
void sonar_config_write_reference(FILE *to);

/* True if beams are steered by the shape of a towed array, which bends. */
bool sonar_config_bends(const sonar_config *config);
/* The distance along the path from the tow point to the foremost sensor of a towed array; 0 with
 * compasses, which tell nothing about it. */
double sonar_config_tow_trail(const sonar_config *config);
/* The distance along x from the foremost sensor to the last one; *front_m: x of the foremost one.
 */
double sonar_config_tow_length(const sonar_config *config, double *front_m);
/* The spec of the beams' time series. */
sonar_beam_spec sonar_config_beam(const sonar_config *config);
/* The spec of the live parameters; arrays and text belong to the configuration. */
sonar_params_spec sonar_config_params(const sonar_config *config);

/* One rank's part of the array: its block of channels, numbered from 0, and the sensors that these
 * feed, in the array's order. All other data are those of the whole array. */
typedef struct sonar_config_part {
    sonar_config config; /* with its own arrays and endpoints */
    size_t first_channel;
    uint32_t *sensor; /* [config.sensors] numbers in the array */
    size_t processors,
        share; /* of this host: processors that the rank may run on, and an even share of all */
} sonar_config_part;

/* This process among the ranks; a single process is rank 0 of 1. */
const sonar_rank_place *sonar_config_place(const sonar_config *whole);
/* Channels [*first, *end) of a rank. */
void sonar_config_block(const sonar_config *whole, size_t rank, size_t ranks, size_t *first,
                        size_t *end);
/* SONAR_EINVAL if cluster.ranks differs from the number of ranks, or a rank has no used sensor.
 * Thread counts that the file does not set are chosen for one rank of those on this host. `whole`
 * is borrowed until destroy. */
sonar_code sonar_config_part_create(const sonar_config *whole, const sonar_rank_place *place,
                                    sonar_config_part **part, sonar_error *err);
void sonar_config_part_destroy(sonar_config_part *part);

/* Bytes that the running daemon takes for buffers, ring and tables, without overheads of
 * libraries. */
size_t sonar_config_memory_bytes(const sonar_config *config);
/* The same for a GPU on which all stages run, approximately and without CUDA's own memory. */
double sonar_config_gpu_bytes(const sonar_config *config);

#endif
