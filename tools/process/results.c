/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "results.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/core.h"
#include "debrief.h"
#include "record/record.h"
#include "surfaces.h"
#include "table.h"

/* Kept in any case, as far as output.topics has them; the lofargram is a part of cbf.lofar. */
static const uint32_t usual = SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_MVDR_AZIMUTH) |
                              SONAR_WANT(SONAR_CBF_LOFAR) | SONAR_WANT(SONAR_DETECTIONS) |
                              SONAR_WANT(SONAR_TRACKS);

enum { FLUSH_S = 5 };

struct results {
    results_spec spec;
    char path[2][PATH_MAX]; /* of spectra.h5 and of the messages */
    sonar_output_tap tap;
    table *table[SONAR_SURFACES]; /* NULL: no list, or not wanted */
    surfaces *surfaces;           /* NULL: a build without HDF5 */
    FILE *messages;               /* NULL: not wanted */
    int64_t flushed_ns;
    float *column; /* [bin] of the lofargram */
    size_t bins;
    bool begun, spectra, own_folder; /* own: made here */
    uint64_t first_sample;           /* of the first message */
    _Atomic uint64_t windows, last_window;
    pthread_mutex_t lock; /* protects the error */
    sonar_error err;
};

/* ---- the lofargram --------------------------------------------------------------------------- */

/* Of power[bin][direction]. */
static size_t loudest(const float *power, size_t bins, size_t directions, double *sum) {
    size_t best = 0;
    for (size_t d = 0; d < directions; d++) {
        sum[d] = 0;
        for (size_t b = 0; b < bins; b++)
            sum[d] += (double)power[b * directions + d];
        best = sum[d] > sum[best] ? d : best;
    }
    return best;
}

static size_t nearest(const double *az_deg, size_t directions, double wanted_deg) {
    size_t best = 0;
    for (size_t d = 1; d < directions; d++)
        if (fabs(remainder(az_deg[d] - wanted_deg, 360)) <
            fabs(remainder(az_deg[best] - wanted_deg, 360)))
            best = d;
    return best;
}

/* An axis has values, or start and step. */
static void read_axis(const cJSON *axis, size_t length, double *to) {
    const cJSON *values = cJSON_GetObjectItemCaseSensitive(axis, "values");
    const cJSON *one = values ? values->child : NULL;
    const double start = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(axis, "start"));
    const double step = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(axis, "step"));
    for (size_t i = 0; i < length; i++, one = one ? one->next : NULL)
        to[i] = values ? cJSON_GetNumberValue(one) : start + step * (double)i;
}

/* Leaves of the header and of the array [bin][direction] one direction: *row is [bin] then. */
static sonar_code pick_direction(results *r, cJSON *header, surfaces_row *row, sonar_error *err) {
    cJSON *shape = cJSON_GetObjectItemCaseSensitive(header, "shape");
    cJSON *axes = cJSON_GetObjectItemCaseSensitive(header, "axes");
    const size_t bins = (size_t)cJSON_GetNumberValue(cJSON_GetArrayItem(shape, 0));
    const size_t directions = (size_t)cJSON_GetNumberValue(cJSON_GetArrayItem(shape, 1));
    double *scratch = sonar_alloc(2 * directions, sizeof *scratch);
    if (bins > r->bins) {
        free(r->column);
        r->column = sonar_alloc(bins, sizeof *r->column);
        r->bins = r->column ? bins : 0;
    }
    if (!scratch || !r->column) {
        free(scratch);
        return sonar_fail(err, SONAR_ENOMEM, r->spec.folder, "no memory for a lofargram");
    }
    read_axis(cJSON_GetArrayItem(axes, 1), directions, scratch);
    const size_t d = isnan(r->spec.az_deg)
                         ? loudest(row->data, bins, directions, scratch + directions)
                         : nearest(scratch, directions, r->spec.az_deg);
    for (size_t b = 0; b < bins; b++)
        r->column[b] = row->data[b * directions + d];
    cJSON_DeleteItemFromArray(shape, 1);
    cJSON_DeleteItemFromArray(axes, 1);
    *row = (surfaces_row){"lofargram", header, r->column, row->utc_ns, row->time_s, scratch[d]};
    free(scratch);
    return SONAR_OK;
}

/* ---- messages -------------------------------------------------------------------------------- */

static sonar_code write_message(const results *r, const char *topic, const char *header,
                                const void *data, size_t bytes, sonar_error *err) {
    const sonar_message_head head = {(uint32_t)strlen(topic), (uint32_t)strlen(header), bytes,
                                     sonar_utc_ns()};
    uint8_t lead[SONAR_MESSAGE_HEAD_BYTES];
    sonar_message_head_encode(&head, lead);
    const bool good = fwrite(lead, sizeof lead, 1, r->messages) == 1 &&
                      fputs(topic, r->messages) >= 0 && fputs(header, r->messages) >= 0 &&
                      (!bytes || fwrite(data, bytes, 1, r->messages) == 1);
    return good ? SONAR_OK
                : sonar_fail(err, SONAR_ESYS, r->path[1], "cannot write: %s", strerror(errno));
}

static sonar_code take_surface(results *r, sonar_surface surface, cJSON *header, surfaces_row *row,
                               sonar_error *err) {
    sonar_code code = SONAR_OK;
    if (!r->surfaces)
        return SONAR_OK;
    r->spectra = true;
    if (surface != SONAR_CBF_LOFAR || (r->spec.topics & SONAR_WANT(SONAR_CBF_LOFAR)))
        code = surfaces_add(r->surfaces, row, err);
    if (!code && surface == SONAR_CBF_LOFAR) {
        code = pick_direction(r, header, row, err);
        code = code ? code : surfaces_add(r->surfaces, row, err);
    }
    return code;
}

static void note_window(results *r, uint64_t window, uint64_t sample) {
    if (!r->begun)
        r->first_sample = sample;
    if (!r->begun || window != r->last_window)
        r->windows++;
    r->begun = true;
    r->last_window = window;
}

static sonar_code keep(results *r, sonar_surface surface, const char *text, const void *data,
                       sonar_error *err) {
    cJSON *header = cJSON_Parse(text);
    if (!header)
        return sonar_fail(err, SONAR_ENOMEM, r->spec.folder, "no memory for a header");
    const uint64_t window = (uint64_t)debrief_whole(text, "\"window\":");
    const uint64_t sample = (uint64_t)debrief_whole(text, "\"sample_index\":");
    const int64_t utc_ns = debrief_whole(text, "\"utc_ns\":");
    note_window(r, window, sample);
    const double time_s = ((double)sample - (double)r->first_sample) / r->spec.config->fs_hz;
    sonar_code code = SONAR_OK;
    if (sonar_topic_is_list(surface)) {
        const table_window of = {window, utc_ns, debrief_whole(text, "\"utc_middle_ns\":"), time_s,
                                 header};
        code = table_add(r->table[surface], &of, err);
    } else {
        surfaces_row row = {.group = sonar_topic_name(surface),
                            .header = header,
                            .data = data,
                            .utc_ns = utc_ns,
                            .time_s = time_s,
                            .az_deg = NAN};
        code = take_surface(r, surface, header, &row, err);
    }
    cJSON_Delete(header);
    return code;
}

/* ---- the tap --------------------------------------------------------------------------------- */

static void note_error(results *r, const sonar_error *err) {
    pthread_mutex_lock(&r->lock);
    if (!r->err.code)
        r->err = *err;
    pthread_mutex_unlock(&r->lock);
}

static uint32_t wanted(void *ctx) {
    const results *r = ctx;
    return (usual | r->spec.topics) & r->spec.config->output_topics;
}

static void take(void *ctx, sonar_surface surface, const char *header, const void *data,
                 size_t bytes) {
    results *r = ctx;
    sonar_error err = {0};
    if (r->messages)
        write_message(r, sonar_topic_name(surface), header, data, bytes, &err);
    if (!err.code)
        keep(r, surface, header, data, &err);
    if (err.code)
        note_error(r, &err);
}

/* What was done until now is on the disk if the program is killed. */
static void look_at_clock(void *ctx) {
    results *r = ctx;
    const int64_t now_ns = sonar_monotonic_ns();
    sonar_error err = {0};
    if (now_ns - r->flushed_ns < (int64_t)FLUSH_S * 1000000000)
        return;
    r->flushed_ns = now_ns;
    for (size_t i = 0; i < SONAR_SURFACES; i++)
        if (r->table[i])
            table_flush(r->table[i]);
    if (r->messages)
        fflush(r->messages);
    if (r->surfaces && surfaces_flush(r->surfaces, &err))
        note_error(r, &err);
}

/* ---- life ------------------------------------------------------------------------------------ */

static sonar_code open_messages(results *r, sonar_error *err) {
    if (!r->spec.messages)
        return SONAR_OK;
    r->messages = fopen(r->path[1], "wxe");
    return r->messages
               ? SONAR_OK
               : sonar_fail(err, SONAR_EINVAL, r->path[1], "cannot create it: %s", strerror(errno));
}

/* A build without HDF5 does the rest. */
static sonar_code open_surfaces(results *r, sonar_error *err) {
    const sonar_code code = surfaces_open(r->path[0], &r->surfaces, err);
    if (code != SONAR_EUNAVAILABLE)
        return code;
    fprintf(stderr, "%s: %s\n", err->where, err->text);
    *err = (sonar_error){0};
    return SONAR_OK;
}

static sonar_code open_tables(results *r, sonar_error *err) {
    const uint32_t topics = wanted(r);
    sonar_code code = SONAR_OK;
    for (sonar_surface i = 0; i < SONAR_SURFACES && !code; i++)
        if (sonar_topic_is_list(i) && topics & SONAR_WANT(i))
            code = table_open(r->spec.folder, i, &r->table[i], err);
    return code;
}

sonar_code results_open(const results_spec *spec, results **made, sonar_error *err) {
    const bool made_folder = mkdir(spec->folder, 0777) == 0;
    if (!made_folder && errno != EEXIST)
        return sonar_fail(err, SONAR_EINVAL, spec->folder, "cannot make the folder: %s",
                          strerror(errno));
    results *r = sonar_alloc(1, sizeof *r);
    if (!r)
        return sonar_fail(err, SONAR_ENOMEM, spec->folder, "out of memory");
    r->spec = *spec;
    r->own_folder = made_folder;
    r->tap = (sonar_output_tap){r, wanted, take, look_at_clock};
    r->flushed_ns = sonar_monotonic_ns();
    pthread_mutex_init(&r->lock, NULL);
    snprintf(r->path[0], PATH_MAX, "%s/spectra.h5", spec->folder);
    snprintf(r->path[1], PATH_MAX, "%s/messages.sonar-spectra", spec->folder);
    sonar_code code = open_tables(r, err);
    if (!code)
        code = open_surfaces(r, err);
    if (!code)
        code = open_messages(r, err);
    if (code) {
        sonar_error second;
        results_close(r, &second);
        return code;
    }
    *made = r;
    return SONAR_OK;
}

const sonar_output_tap *results_tap(const results *r) {
    return &r->tap;
}

sonar_code results_error(results *r, sonar_error *err) {
    pthread_mutex_lock(&r->lock);
    const sonar_code code = r->err.code;
    if (code)
        *err = r->err;
    pthread_mutex_unlock(&r->lock);
    return code;
}

uint64_t results_windows(const results *r) {
    return r->windows;
}

uint64_t results_contacts(const results *r) {
    return table_count(r->table[SONAR_DETECTIONS]);
}

bool results_spectra(const results *r) {
    return r->spectra;
}

/* Of the files that are open, so that another attempt finds none in its way. */
static void remove_all(const results *r) {
    if (r->messages)
        unlink(r->path[1]);
    if (r->surfaces)
        unlink(r->path[0]);
    for (size_t i = 0; i < SONAR_SURFACES; i++)
        if (r->table[i])
            table_remove(r->table[i]);
    if (r->own_folder)
        rmdir(r->spec.folder);
}

sonar_code results_close(results *r, sonar_error *err) {
    if (!r)
        return SONAR_OK;
    if (!r->begun)
        remove_all(r);
    sonar_code code = surfaces_close(r->surfaces, err);
    sonar_error second;
    for (size_t i = 0; i < SONAR_SURFACES; i++) {
        const sonar_code rows = table_close(r->table[i], code ? &second : err);
        code = code ? code : rows;
    }
    const bool whole = !r->messages || (!ferror(r->messages) & (fclose(r->messages) == 0));
    if (!code && !whole)
        code = sonar_fail(err, SONAR_ESYS, r->path[1], "cannot write: %s", strerror(errno));
    pthread_mutex_destroy(&r->lock);
    free(r->column);
    free(r);
    return code;
}
