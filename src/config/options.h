/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of options and the values read by it. Inside src/config only. */
#ifndef SONAR_CONFIG_OPTIONS_H
#define SONAR_CONFIG_OPTIONS_H

#include "config/tree.h"

/* In the order in which they are printed and documented. */
typedef enum sonar_option_id {
    OPT_SCHEMA = 0,
    OPT_ARRAY_ID,
    OPT_ARRAY_NAME,
    OPT_LINE_SENSORS,
    OPT_LINE_SPACING,
    OPT_CIRCLE_SENSORS,
    OPT_CIRCLE_RADIUS,
    OPT_PLANAR_ROWS,
    OPT_PLANAR_COLUMNS,
    OPT_PLANAR_ROW_SPACING,
    OPT_PLANAR_COLUMN_SPACING,
    OPT_POSITIONS_FRAME,
    OPT_POSITIONS_ORIGIN,
    OPT_POSITIONS_LIST,
    OPT_POSITIONS_CSV,
    OPT_CHANNELS,
    OPT_CHANNEL_COUNT,
    OPT_MASK,
    OPT_AUTO_MASK,
    OPT_GAIN,
    OPT_SENSITIVITY,
    OPT_AMPLIFIER,
    OPT_FULL_SCALE_V,
    OPT_FULL_SCALE_COUNTS,
    OPT_PHASE,
    OPT_DELAY,
    OPT_HEADING,
    OPT_ERROR_PHASE,
    OPT_ERROR_POSITION,
    OPT_ERROR_HEADING,
    OPT_ERROR_SOUND_SPEED,
    OPT_SOUND_SPEED,
    OPT_FS,
    OPT_INGEST_ENDPOINTS,
    OPT_INGEST_SOCKET,
    OPT_OVERLOAD,
    OPT_SHARED_MEMORY,
    OPT_SHARED_BYTES,
    OPT_INGEST_HWM,
    OPT_MAX_MESSAGE,
    OPT_QUEUE_WINDOWS,
    OPT_MAX_MISSING,
    OPT_DROP_SPIKES,
    OPT_MAX_SKEW,
    OPT_RESTART_AFTER,
    OPT_SILENT_AFTER,
    OPT_SAMPLE_TYPE,
    OPT_INGEST_THREADS,
    OPT_IO_THREADS,
    OPT_LENGTH,
    OPT_HOP,
    OPT_WINDOW,
    OPT_KAISER_BETA,
    OPT_MEAN_REMOVAL,
    OPT_EQUALISATION,
    OPT_CBF_LENGTH,
    OPT_CBF_HOP,
    OPT_CBF_BAND_HZ,
    OPT_CBF_BAND_BINS,
    OPT_CBF_SCAN,
    OPT_CBF_SCAN_START,
    OPT_CBF_SCAN_STOP,
    OPT_CBF_SCAN_STEP,
    OPT_CBF_DEPRESSION,
    OPT_SHADING,
    OPT_CHEBYSHEV_LEVEL,
    OPT_TAYLOR_LEVEL,
    OPT_TAYLOR_NBAR,
    OPT_RANGES,
    OPT_RANGE_MIN,
    OPT_RANGE_MAX,
    OPT_RANGE_REFERENCE,
    OPT_LOFAR_BAND_HZ,
    OPT_LOFAR_BAND_BINS,
    OPT_MVDR_ENABLED,
    OPT_MVDR_BAND_HZ,
    OPT_MVDR_BAND_BINS,
    OPT_MVDR_LENGTH,
    OPT_MVDR_HOP,
    OPT_SNAPSHOTS,
    OPT_FORGETTING,
    OPT_LOADING_RULE,
    OPT_LOADING_EPS,
    OPT_KNOWN_SOURCES,
    OPT_SOLVER,
    OPT_SOURCE_COUNT,
    OPT_DMR,
    OPT_WHITE_NOISE_GAIN,
    OPT_MUSIC,
    OPT_TOLERANCE,
    OPT_MAX_SWEEPS,
    OPT_FORWARD_BACKWARD,
    OPT_CORRECT_LEVEL,
    OPT_CELL_MAXIMUM,
    OPT_MVDR_NEARFIELD,
    OPT_MVDR_SCAN,
    OPT_MVDR_SCAN_START,
    OPT_MVDR_SCAN_STOP,
    OPT_MVDR_SCAN_STEP,
    OPT_MVDR_DEPRESSION,
    OPT_DETECT_ENABLED,
    OPT_DETECT_THRESHOLD,
    OPT_DETECT_SEPARATION,
    OPT_DETECT_MARGIN,
    OPT_DETECT_FAINT,
    OPT_DETECT_TONES,
    OPT_DETECT_MOST,
    OPT_NORMALISER,
    OPT_BEAM_AZ,
    OPT_BEAM_BEARING,
    OPT_BEAM_TRACK,
    OPT_BEAM_RANGE,
    OPT_OUTPUT_ENDPOINT,
    OPT_TOPICS,
    OPT_OUTPUT_HWM,
    OPT_QUEUE_RESULTS,
    OPT_BEARING_REFERENCE,
    OPT_SECURITY_KEY,
    OPT_ALLOW_SENDERS,
    OPT_ALLOW_READERS,
    OPT_IPC_MODE,
    OPT_NAV_NMEA,
    OPT_NAV_BAUD,
    OPT_NAV_ENDPOINT,
    OPT_NAV_STALE_AFTER,
    OPT_NAV_OFFSET,
    OPT_TOW_MODEL,
    OPT_TOW_SCOPE,
    OPT_TOW_DEPTH,
    OPT_TOW_COMPASSES,
    OPT_TOW_COMPASS_AT,
    OPT_TOW_COMPASS_OFFSET,
    OPT_CLUSTER_RANKS,
    OPT_CLUSTER_SKEW,
    OPT_CONTROL_ENDPOINT,
    OPT_CONTROL_GROUP,
    OPT_METRICS_LISTEN,
    OPT_RECORD_WHAT,
    OPT_RECORD_DIRECTORY,
    OPT_RECORD_AT_START,
    OPT_RECORD_TOPICS,
    OPT_RECORD_SEGMENT_MIB,
    OPT_RECORD_SEGMENT_S,
    OPT_RECORD_KEEP_MIB,
    OPT_RECORD_KEEP_H,
    OPT_RECORD_FREE_MIB,
    OPT_RECORD_BUFFER_MIB,
    OPT_BACKEND,
    OPT_PLUGIN_DIR,
    OPT_ON_GPU_FAILURE,
    OPT_THREADS,
    OPT_CPUS,
    OPT_CPU_INGEST,
    OPT_CPU_OUTPUT,
    OPT_DATA_PRIORITY,
    OPT_LOCK_MEMORY,
    OPT_LOG_LEVEL,
    OPT_STATE_DIR,
    SONAR_OPTIONS
} sonar_option_id;

typedef enum sonar_option_type {
    SONAR_TYPE_INTEGER = 0,
    SONAR_TYPE_REAL,
    SONAR_TYPE_BOOLEAN,
    SONAR_TYPE_CHOICE,
    SONAR_TYPE_TEXT,
    SONAR_TYPE_ENDPOINT,
    SONAR_TYPE_INTEGERS, /* lists from here on */
    SONAR_TYPE_REALS,
    SONAR_TYPE_CHOICES,
    SONAR_TYPE_ENDPOINTS,
    SONAR_TYPE_TEXTS,
    SONAR_TYPE_POSITIONS /* of [x, y, z] */
} sonar_option_type;

/* Type of the member that holds a value. */
typedef enum sonar_stored {
    SONAR_STORED_NOWHERE = 0,
    SONAR_STORED_SIZE,
    SONAR_STORED_REAL,
    SONAR_STORED_TRUTH,
    SONAR_STORED_INT,
    SONAR_STORED_UNSIGNED, /* and enumerations, whose values are indices of the choices */
    SONAR_STORED_LETTERS,  /* char [bytes]; for a choice, its word */
    SONAR_STORED_TEXT      /* char *, freed with the configuration; NULL: not given */
} sonar_stored;

/* One option. Everything about it except rules between options. */
typedef struct sonar_option {
    const char *path; /* keys with dots between */
    sonar_option_type type;
    const char *unit;
    double low,
        high; /* of a number or a list's entries; for text, high is the largest number of bytes */
    bool above, below; /* low, high themselves are not accepted */
    const char *const
        *choices; /* words, NULL-terminated. The value is the word's index; for a whole number that
                     may also be one of these words, the negative index */
    const char *word;   /* a list may be replaced by this word */
    bool scalar;        /* a list may be replaced by one number, which applies to all */
    const char *entry;  /* what an entry of a list of texts is; one may stand for a list of one */
    size_t least, most; /* number of entries of a list */
    bool required;      /* required if its group is in the file */
    bool grouped;       /* required, or set to its default, only if its group is in the file */
    bool live;          /* may change while the daemon runs */
    bool local;         /* an endpoint on this machine: ipc only */
    const char *fallback;
    const char *computed; /* how the default depends on other options, for the reference */
    const char *help;
    /* The member of sonar_config that stores the value; none if the configuration is computed from
     * several values. */
    sonar_stored stored;
    size_t offset, bytes;
} sonar_option;

extern const sonar_option sonar_options[SONAR_OPTIONS];

/* Options of which at most (`required`: exactly) one may be given. */
typedef struct sonar_alternatives {
    const char *group;   /* "" for the whole file */
    const char *keys[5]; /* in the group, NULL-terminated */
    bool required;
    bool grouped; /* required only if the group is in the file */
} sonar_alternatives;

extern const sonar_alternatives sonar_alternatives_table[];
extern const size_t sonar_alternatives_count;

typedef enum sonar_origin { SONAR_ABSENT = 0, SONAR_FROM_DEFAULT, SONAR_FROM_FILE } sonar_origin;

typedef struct sonar_value {
    sonar_origin origin;
    bool bad;               /* was in the file but is not acceptable; already reported */
    sonar_place place;      /* SONAR_FROM_FILE */
    const sonar_node *node; /* set while loading, and only if it came from the file */
    bool word;              /* the option's `word` */
    double number;          /* the number, truth value or index of a choice */
    char *text;
    size_t count; /* entries of a list; of positions: triples */
    double *numbers;
    char **texts;
} sonar_value;

typedef struct sonar_settings {
    char *file;
    sonar_value value[SONAR_OPTIONS];
} sonar_settings;

/* accepted.c: describes what an option accepts. */
void sonar_option_accepted(const sonar_option *option, char *words, size_t size);

/* Everything the phases of loading share. */
typedef struct sonar_loader {
    const sonar_text *text;
    sonar_report *report;
    sonar_settings *settings;
    const char *directory;       /* of the file, for relative paths */
    const char *credentials_dir; /* or NULL */
    bool with_keys;              /* the keys of `security` are to be read */
    const sonar_node *root;
    const sonar_config
        *like; /* automatic options keep their numbers in this configuration; NULL: none */
    sonar_config *config;
    bool no_memory;
} sonar_loader;

/* Loads from a text; relative paths start at the folder of text->name. like: see sonar_loader. */
sonar_code sonar_config_read(const sonar_text *text, const sonar_config *like,
                             sonar_config **config, sonar_report *report);
/* The option of that path, or SONAR_OPTIONS. In that case `hint` is empty or names a similar
 * option. */
size_t sonar_option_find(const char *path, char *hint, size_t size);

/* Reads the file's values into the settings, and the defaults that do not depend on it. */
void sonar_read_settings(sonar_loader *loader);
/* The node in the file that a path leads to, or NULL; of repeated nodes the last one. */
const sonar_node *sonar_node_find(const sonar_node *root, const char *path);
/* The place to report for an option: its value, else the nearest group around it, else the root. */
sonar_place sonar_place_of(const sonar_loader *loader, sonar_option_id id);
/* The place of entry i of a list, or of an option without entries. */
sonar_place sonar_place_of_entry(const sonar_loader *loader, sonar_option_id id, size_t i);
/* x, y, z rows of a CSV file; the caller frees them. NULL after reporting. */
double *sonar_csv_read(sonar_loader *loader, const char *path, size_t *rows);

/* Writes a value to its member, if it has one and the value is present and acceptable. */
void sonar_option_store(sonar_loader *loader, sonar_option_id id);
/* Makes the rest of the configuration from the settings, checks rules between options, and
 * completes the settings with the defaults that depend on others. */
void sonar_resolve(sonar_loader *loader);
/* The number of processors for one of the ranks on this host, at least 1: those it may run on, but
 * at most its share. If all ranks may run on the same processors, they share these. */
size_t sonar_processors_of_rank(const sonar_rank_place *place, size_t *share);
/* For a part of the array: sets threads that the file does not set, by the part's own channels and
 * processors. */
void sonar_resolve_threads_of_rank(sonar_config *part, size_t own_processors);
/* The steps of sonar_resolve; all return false after reporting. Sensors, channels, mask and
 * calibration: */
bool sonar_resolve_array(sonar_loader *loader);
/* lengths, hops and bands of the transforms: */
bool sonar_resolve_transforms(sonar_loader *loader);
/* directions, shading and ranges, once array and transforms are resolved. If it returns false, they
 * must not be read. */
bool sonar_resolve_directions(sonar_loader *loader);
/* Ranges of the near field; `lambda` is the shortest wavelength of the CBF's band. False after
 * reporting; config->specs.cbf.ranges then counts only ranges that are set. */
bool sonar_resolve_ranges(sonar_loader *loader, double lambda);
/* beams with a time series, once directions are resolved: */
bool sonar_resolve_beams(sonar_loader *loader);
/* the option that gives the first of them: */
sonar_option_id sonar_beams_option(const sonar_loader *loader);
/* Checks rules between endpoints and keys; reads the keys if loader->with_keys. */
void sonar_check_security(sonar_loader *loader);
/* Completes the specifications of the stages with values that depend on others: bins, bands,
 * counts. */
void sonar_resolve_specs(sonar_config *config);
/* Checks a completely resolved configuration. */
void sonar_check_resolved(sonar_loader *loader);

/* Replaces a value's numbers by a copy. */
void sonar_value_set_list(sonar_loader *loader, sonar_option_id id, size_t count, size_t width,
                          const double *numbers);
void sonar_value_set_number(sonar_loader *loader, sonar_option_id id, double number);

/* Prints the value alone, in canonical form, for an option that is not absent. */
void sonar_value_print(const sonar_option *option, const sonar_value *value, int indent, FILE *to);
/* Prints the keys of the groups that `path` enters and `last` was not in, and the option's own
 * key. */
int sonar_key_print(const char *last, const char *path, FILE *to);
/* SHA-256 of the canonical text, in hex. */
sonar_code sonar_settings_digest(const sonar_settings *settings, char digest[65]);

/* Allocates, zeroed, the arrays with an entry for each sensor; does not set c->sensors. False: no
 * memory; free_sensors frees what was allocated. */
bool sonar_config_allocate_sensors(sonar_config *c, size_t sensors);
void sonar_config_free_sensors(sonar_config *c);

/* The endpoint with a rank's number in place of {rank}; malloc'ed, NULL: no memory. */
char *sonar_endpoint_of_rank(const char *text, size_t rank);

#endif
