/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Makes the configuration from the values, in the order in which options depend on one another: the
 * daemon's own options, then array.c, transforms.c, directions.c, beams.c, and last specs.c and
 * check.c. Called by load.c after the file is read. */
#include "config/access.h"

#include "core/core.h"
#include "net/loopback.h"
#include "core/room.h"
#include "net/udp.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- connections ----------------------------------------------------------------------------- */

static const char IPC[] = "ipc://";

static bool is_ipc(const char *endpoint) {
    return !strncmp(endpoint, IPC, strlen(IPC));
}

/* Accepts loopback addresses only, because the metrics have neither authentication nor
 * encryption. */
static void check_metrics(sonar_loader *l) {
    struct sockaddr_storage unused;
    const char *text = have(l, OPT_METRICS_LISTEN) ? value(l, OPT_METRICS_LISTEN)->text : NULL;
    if (text && !sonar_loopback_read(text, &unused))
        fail(l, OPT_METRICS_LISTEN, "127.0.0.1:PORT or [::1]:PORT",
             "'%s' is not a loopback address with a port", text);
}

/* Reports an entry that the list has had before. */
static void refuse_repeated(sonar_loader *l, sonar_option_id id, size_t i) {
    char *const *texts = value(l, id)->texts;
    for (size_t j = 0; j < i; j++)
        if (!strcmp(texts[i], texts[j]))
            fail(l, id, NULL, "%s is given twice", texts[i]);
}

/* Resolves the endpoints with 0 in place of {rank}. False: no endpoint is left to check. */
static bool resolve_endpoints(sonar_loader *l) {
    sonar_config *c = l->config;
    const sonar_value *v = value(l, OPT_INGEST_ENDPOINTS);
    if (!have(l, OPT_INGEST_ENDPOINTS) || !have(l, OPT_OUTPUT_ENDPOINT))
        return false;
    for (size_t i = 0; i < v->count; i++) {
        refuse_repeated(l, OPT_INGEST_ENDPOINTS, i);
        if (!strcmp(v->texts[i], value(l, OPT_OUTPUT_ENDPOINT)->text))
            fail(l, OPT_OUTPUT_ENDPOINT, NULL, "%s is already an endpoint of ingest", v->texts[i]);
        c->ingest_endpoint[i] = sonar_endpoint_of_rank(v->texts[i], 0);
        if (!c->ingest_endpoint[i])
            return no_memory(l);
        c->ingest_endpoints = i + 1;
    }
    return true;
}

static void check_control(sonar_loader *l) {
    if (have(l, OPT_CONTROL_ENDPOINT) && !is_ipc(value(l, OPT_CONTROL_ENDPOINT)->text))
        fail(l, OPT_CONTROL_ENDPOINT, "ipc://PATH",
             "only programs on this machine may change values");
}

/* Resolves the path with 0 in place of {rank}. */
static void resolve_shared_memory(sonar_loader *l) {
    sonar_config *c = l->config;
    if (have(l, OPT_SHARED_MEMORY)) {
        const char *path = value(l, OPT_SHARED_MEMORY)->text;
        free(c->shared_memory);
        c->shared_memory = sonar_endpoint_of_rank(path, 0);
        if (!c->shared_memory)
            no_memory(l);
        if (!is_ipc(path) || path[strlen(IPC)] == '@')
            fail(l, OPT_SHARED_MEMORY, "ipc://PATH", "memory can be shared only on this machine");
    }
    if (!have(l, OPT_SHARED_BYTES) && !value(l, OPT_SHARED_BYTES)->bad)
        sonar_value_set_number(l, OPT_SHARED_BYTES,
                               fmax(1 << 20, floor(sonar_room_read("").total_bytes / 4)));
}

/* Whether a serial line exists is checked at the start and not here, because adapters are plugged
 * in and out. */
static void resolve_nmea(sonar_loader *l) {
    struct sockaddr_storage unused;
    socklen_t bytes;
    const sonar_value *v = value(l, OPT_NAV_NMEA);
    for (size_t i = 0; have(l, OPT_NAV_NMEA) && i < v->count; i++) {
        const char *text = v->texts[i];
        if (*text != '/' && !sonar_udp_read(text, &unused, &bytes))
            sonar_report_add(
                l->report, SONAR_MISTAKE, l->text, sonar_place_of_entry(l, OPT_NAV_NMEA, i),
                "udp://ADDRESS:PORT with numbers, or the path of a serial line from / on",
                "navigation.nmea: '%s' is neither an address with a port nor a path", text);
        refuse_repeated(l, OPT_NAV_NMEA, i);
        free(l->config->navigation_nmea[i]);
        if (!(l->config->navigation_nmea[i] = strdup(text)))
            no_memory(l);
    }
}

/* Lists of different lengths are refused by check.c. */
static void resolve_compasses(sonar_loader *l) {
    sonar_config *c = l->config;
    const sonar_value *id = value(l, OPT_TOW_COMPASSES), *at = value(l, OPT_TOW_COMPASS_AT),
                      *offset = value(l, OPT_TOW_COMPASS_OFFSET);
    c->tow_compasses = have(l, OPT_TOW_COMPASSES) ? id->count : 0;
    for (size_t i = 0; i < c->tow_compasses; i++) {
        snprintf(c->tow_compass_id[i], sizeof c->tow_compass_id[i], "%s", id->texts[i]);
        if (have(l, OPT_TOW_COMPASS_AT) && i < at->count)
            c->tow_compass_at_m[i] = at->numbers[i];
        if (have(l, OPT_TOW_COMPASS_OFFSET))
            c->tow_compass_offset_deg[i] = offset->numbers[sonar_min_size(i, offset->count - 1)];
        refuse_repeated(l, OPT_TOW_COMPASSES, i);
    }
}

static void resolve_navigation(sonar_loader *l) {
    static const char *const local[] = {IPC, "tcp://127.", "tcp://[::1]", "tcp://localhost:"};
    resolve_nmea(l);
    resolve_compasses(l);
    l->config->navigation_baud = atoi(
        sonar_options[OPT_NAV_BAUD].choices[have(l, OPT_NAV_BAUD) ? whole(l, OPT_NAV_BAUD) : 0]);
    if (!have(l, OPT_NAV_ENDPOINT))
        return;
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if (!strncmp(value(l, OPT_NAV_ENDPOINT)->text, local[i], strlen(local[i])))
            return;
    fail(l, OPT_NAV_ENDPOINT, "tcp://127.0.0.1:PORT or ipc://PATH",
         "it is not encrypted, so it must be on this machine");
}

/* ---- resources ------------------------------------------------------------------------------- */

size_t sonar_processors_of_rank(const sonar_rank_place *place, size_t *share) {
    const size_t own = sonar_processors();
    const bool shared = place->ranks_here > 1 && own == place->processors_here;
    const size_t all = shared ? own : sonar_processors_online();
    *share = sonar_max_size(1, all / sonar_max_size(1, place->ranks_here));
    return sonar_min_size(*share, own);
}

/* Number of threads by the samples per second of all channels. ZeroMQ's threads and the kernel's
 * copies need as many processors as ingest; shared memory needs neither. */
static size_t ingest_threads_of(double samples_per_s, bool shared_memory, size_t of_processors) {
    const double wanted = ceil(samples_per_s / 500e6);
    const double share = shared_memory ? 0.75 : 0.5;
    const double most = fmin(SONAR_INGEST_THREADS_MOST, floor(share * (double)of_processors));
    return (size_t)fmax(1, fmin(wanted, most));
}

static bool resolve_threads(sonar_loader *l) {
    sonar_config *c = l->config;
    const sonar_value *cpus = value(l, OPT_CPUS);
    if (!have(l, OPT_CPUS) || value(l, OPT_THREADS)->bad)
        return false;
    if (!have(l, OPT_THREADS)) {
        const size_t all = sonar_min_size(sonar_processors(), SONAR_CPUS_MOST);
        sonar_value_set_number(l, OPT_THREADS, (double)(cpus->count ? cpus->count : all));
    }
    c->cpus = cpus->count;
    if (c->cpus && c->cpus != c->threads)
        return fail(l, OPT_CPUS, NULL, "%zu processors for %zu threads", c->cpus, c->threads);
    for (size_t i = 0; i < c->cpus; i++)
        c->cpu[i] = (int)cpus->numbers[i];
    return true;
}

static void resolve_ingest_threads(sonar_loader *l) {
    sonar_config *c = l->config;
    if (value(l, OPT_INGEST_THREADS)->bad || value(l, OPT_IO_THREADS)->bad || !have(l, OPT_FS))
        return;
    if (!have(l, OPT_INGEST_THREADS))
        sonar_value_set_number(l, OPT_INGEST_THREADS,
                               (double)ingest_threads_of((double)c->channels * c->fs_hz,
                                                         have(l, OPT_SHARED_MEMORY),
                                                         sonar_processors()));
    if (!have(l, OPT_IO_THREADS))
        sonar_value_set_number(l, OPT_IO_THREADS, (double)c->ingest_threads);
}

/* A waiting window costs one hop of memory. Default: 1 to 4 windows, within 1 GiB.
 */
static void resolve_queue(sonar_loader *l) {
    const sonar_config *c = l->config;
    const double hop_bytes =
        (double)c->channels * (double)c->specs.hop * (double)sonar_dtype_size(c->sample_type);
    if (!have(l, OPT_QUEUE_WINDOWS) && !value(l, OPT_QUEUE_WINDOWS)->bad)
        sonar_value_set_number(l, OPT_QUEUE_WINDOWS, fmax(1, fmin(4, floor(0x1p30 / hop_bytes))));
}

static void resolve_faint(sonar_loader *l) {
    if (!have(l, OPT_DETECT_FAINT) && !value(l, OPT_DETECT_FAINT)->bad &&
        have(l, OPT_DETECT_THRESHOLD))
        sonar_value_set_number(l, OPT_DETECT_FAINT, number(l, OPT_DETECT_THRESHOLD) / 2);
}

static bool is_computed(const sonar_config *c, sonar_option_id id) {
    return c->settings->value[id].origin == SONAR_FROM_DEFAULT;
}

void sonar_resolve_threads_of_rank(sonar_config *c, size_t own_processors) {
    if (is_computed(c, OPT_THREADS) && !c->cpus)
        c->threads = sonar_min_size(own_processors, SONAR_CPUS_MOST);
    if (is_computed(c, OPT_INGEST_THREADS))
        c->ingest_threads = ingest_threads_of((double)c->channels * c->fs_hz,
                                              c->shared_memory != NULL, own_processors);
    if (is_computed(c, OPT_IO_THREADS))
        c->ingest_io_threads = c->ingest_threads;
}

/* Called when the channels are known. */
static void resolve_cluster(sonar_loader *l) {
    sonar_config *c = l->config;
    const sonar_value *v = value(l, OPT_CLUSTER_RANKS);
    size_t sum = 0;
    if (!have(l, OPT_CLUSTER_RANKS))
        return;
    for (size_t i = 0; i < v->count; i++)
        sum += c->cluster_channels[i] = (size_t)v->numbers[i];
    c->cluster_ranks = v->count;
    if (v->count && sum != c->channels)
        fail(l, OPT_CLUSTER_RANKS, NULL,
             "the ranks have %zu channels, but the array's frames have %zu", sum, c->channels);
}

/* ---- results --------------------------------------------------------------------------------- */

static void resolve_heading(sonar_loader *l) {
    l->config->heading_known = have(l, OPT_HEADING);
    if (l->config->heading_known)
        sonar_value_set_number(l, OPT_HEADING, sonar_modulo_turn(number(l, OPT_HEADING)));
}

static void resolve_mvdr(sonar_loader *l) {
    static const double eps[] = {SONAR_LOADING_RULES(SONAR_PICK_VALUE, SONAR_COMMA)};
    static const char *const word[] = {SONAR_LOADING_RULES(SONAR_PICK_WORD, SONAR_COMMA)};
    const sonar_mvdr_spec *mvdr = &l->config->specs.mvdr;
    const sonar_loading rule = mvdr->loading;
    if (!have(l, OPT_FORGETTING) && !given(l, OPT_SNAPSHOTS) && !given(l, OPT_FORGETTING))
        sonar_value_set_number(l, OPT_SNAPSHOTS, 64);
    if (value(l, OPT_LOADING_EPS)->origin == SONAR_ABSENT) {
        if (eps[rule] <= 0)
            fail(l, OPT_LOADING_EPS, NULL, "required with rule: %s", word[rule]);
        else
            sonar_value_set_number(l, OPT_LOADING_EPS, eps[rule]);
    }
    if (!have(l, OPT_SOURCE_COUNT) && !given(l, OPT_SOURCE_COUNT))
        sonar_value_set_number(l, OPT_SOURCE_COUNT,
                               mvdr->dmr == SONAR_MODES_COUNTED ||
                                       mvdr->music == SONAR_MODES_COUNTED
                                   ? SONAR_COUNT_RANDOM_MATRIX
                                   : SONAR_COUNT_OFF);
    if (!have(l, OPT_CELL_MAXIMUM) && !given(l, OPT_CELL_MAXIMUM))
        sonar_value_set_number(l, OPT_CELL_MAXIMUM, have(l, OPT_MVDR_SCAN));
}

/* SONAR_WANT bits of a list of topics. */
static uint32_t topics_of(const sonar_loader *l, sonar_option_id id) {
    const sonar_value *topics = value(l, id);
    uint32_t bits = 0;
    for (size_t i = 0; have(l, id) && i < topics->count; i++)
        bits |= SONAR_WANT((unsigned)topics->numbers[i]);
    return bits;
}

/* The folder is checked only if the recorder will use it, because a configuration may also be read
 * on another machine. */
static void check_record_directory(sonar_loader *l) {
    struct stat folder;
    const char *path = have(l, OPT_RECORD_DIRECTORY) ? value(l, OPT_RECORD_DIRECTORY)->text : NULL;
    if (path && *path != '/')
        fail(l, OPT_RECORD_DIRECTORY, "an absolute path", "'%s' does not begin with /", path);
    else if (!path || !l->with_keys || !l->config->record_what)
        return;
    else if (stat(path, &folder))
        fail(l, OPT_RECORD_DIRECTORY, "an existing folder", "'%s': %s", path, strerror(errno));
    else if (!S_ISDIR(folder.st_mode))
        fail(l, OPT_RECORD_DIRECTORY, "an existing folder", "'%s' is not a folder", path);
}

/* The buffer covers the time for which the disk may be busy with other work. */
static void resolve_record(sonar_loader *l) {
    sonar_config *c = l->config;
    c->record_topics = topics_of(l, OPT_RECORD_TOPICS);
    const double second = (double)c->channels * c->fs_hz * (double)sonar_dtype_size(c->sample_type);
    if (!have(l, OPT_RECORD_BUFFER_MIB) && !value(l, OPT_RECORD_BUFFER_MIB)->bad)
        sonar_value_set_number(
            l, OPT_RECORD_BUFFER_MIB,
            c->record_what == SONAR_RECORD_RAW ? fmin(1048576, ceil(2 * second / 1048576)) : 64);
    check_record_directory(l);
}

/* ---- all ---------------------------------------------------------------------------------------
 */

void sonar_resolve(sonar_loader *l) {
    for (size_t id = 0; id < SONAR_OPTIONS; id++)
        sonar_option_store(l, (sonar_option_id)id);
    l->config->sample_type = whole(l, OPT_SAMPLE_TYPE) ? SONAR_S16 : SONAR_F32;
    resolve_heading(l);
    check_metrics(l);
    if (resolve_endpoints(l))
        sonar_check_security(l);
    check_control(l);
    resolve_shared_memory(l);
    resolve_navigation(l);
    resolve_mvdr(l);
    l->config->output_topics = topics_of(l, OPT_TOPICS);
    resolve_threads(l);
    const bool array = sonar_resolve_array(l), transforms = sonar_resolve_transforms(l);
    if (!array || !transforms || l->no_memory || !have(l, OPT_SOUND_SPEED))
        return;
    resolve_ingest_threads(l);
    resolve_queue(l);
    resolve_faint(l);
    resolve_record(l);
    resolve_cluster(l);
    if (!sonar_resolve_directions(l))
        return;
    if (!sonar_resolve_beams(l))
        return;
    sonar_resolve_specs(l->config);
    sonar_check_resolved(l);
}
