/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "beams.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "json.h"
#include "spectra.h"

enum { MOST = 256, NAME = 64, RUN = 40, PIECE = 4096 };
static const double LOUDEST = 0.9, MISSING_MOST_S = 86400;

/* Of one message. */
struct head {
    char run[RUN], unit[16], name[MOST][NAME];
    double epoch, fs_hz;
    int64_t first;
    size_t beams, samples;
};

struct export_beams {
    const char *path;
    struct head stream; /* of its first message */
    int64_t end;        /* behind its last sample */
    uint64_t others;    /* messages of other streams behind it */
    /* of a copy */
    bool sound;
    int64_t from, to, at;
    export_sink *sink;
    double mean[MOST], scale;
    uint64_t present, missing; /* samples of a beam; missing in at least one */
    float *rows;               /* [PIECE][beam] */
};

/* ---- messages -------------------------------------------------------------------------------- */

/* False: the header does not say what it has to, or the array has another size. */
static bool read_head(const cJSON *from, uint64_t bytes, struct head *head) {
    const cJSON *shape = json_get(from, "shape"), *beam;
    const double rows = cJSON_GetNumberValue(cJSON_GetArrayItem(shape, 0)),
                 samples = cJSON_GetNumberValue(cJSON_GetArrayItem(shape, 1)),
                 first = json_number(from, "sample_index");
    *head = (struct head){.epoch = json_number(from, "epoch"), .fs_hz = json_number(from, "fs_hz")};
    if (!(rows >= 1 && rows <= MOST && samples >= 1 && samples < 0x1p32 && fabs(first) < 0x1p53 &&
          head->fs_hz > 0 && 4 * rows * samples == (double)bytes))
        return false;
    head->beams = (size_t)rows, head->samples = (size_t)samples, head->first = (int64_t)first;
    snprintf(head->run, sizeof head->run, "%s", json_text(from, "run"));
    snprintf(head->unit, sizeof head->unit, "%s", json_text(from, "unit"));
    size_t b = 0;
    cJSON_ArrayForEach(beam, json_get(from, "beams")) {
        if (b < head->beams)
            snprintf(head->name[b++], NAME, "%s", json_text(beam, "name"));
    }
    return true;
}

static bool is_of(const struct head *stream, const struct head *head) {
    return !strcmp(stream->run, head->run) && stream->epoch == head->epoch &&
           stream->beams == head->beams;
}

typedef sonar_code visit(export_beams *b, const struct head *head, const float *data,
                         sonar_error *err);

static sonar_code visit_message(export_beams *b, const spectra *file, visit *what,
                                sonar_error *err) {
    static const char topic[] = "beam.audio";
    const sonar_message_head *sizes = &file->head;
    struct head head;
    if (sizes->topic_bytes != strlen(topic) || memcmp(file->bytes, topic, strlen(topic)) != 0)
        return SONAR_OK;
    cJSON *json =
        cJSON_ParseWithLength((const char *)file->bytes + sizes->topic_bytes, sizes->header_bytes);
    const bool good = read_head(json, sizes->array_bytes, &head);
    cJSON_Delete(json);
    if (!good)
        return sonar_fail(err, SONAR_EINVAL, b->path,
                          "a header of beam.audio is not as it has to be");
    if (!b->stream.beams)
        b->stream = head;
    float *data = malloc(sizes->array_bytes); /* what is in the file need not be aligned */
    if (!data)
        return sonar_fail(err, SONAR_ENOMEM, b->path, "out of memory");
    memcpy(data, file->bytes + sizes->topic_bytes + sizes->header_bytes, sizes->array_bytes);
    const sonar_code code = what(b, &head, data, err);
    free(data);
    return code;
}

static sonar_code visit_all(export_beams *b, visit *what, sonar_error *err) {
    spectra file;
    bool found = true;
    sonar_code code = spectra_open(b->path, &file, err);
    while (!code && found) {
        code = spectra_next(&file, &found, err);
        if (!code && found)
            code = visit_message(b, &file, what, err);
    }
    spectra_close(&file);
    return code;
}

/* ---- opening --------------------------------------------------------------------------------- */

static sonar_code count(export_beams *b, const struct head *head, const float *data,
                        sonar_error *err) {
    (void)data, (void)err;
    if (!is_of(&b->stream, head) || head->first < b->end)
        b->others += b->end > b->stream.first;
    else
        b->end = head->first + (int64_t)head->samples;
    return SONAR_OK;
}

sonar_code export_beams_open(const char *path, export_beams **beams, sim_recording_info *info,
                             sonar_error *err) {
    export_beams *b = *beams = sonar_alloc(1, sizeof *b);
    if (!b)
        return sonar_fail(err, SONAR_ENOMEM, path, "out of memory");
    b->path = path;
    b->end = INT64_MIN;
    const sonar_code code = visit_all(b, count, err);
    if (code)
        return code;
    if (!b->stream.beams)
        return sonar_fail(err, SONAR_EINVAL, path,
                          "no message of beam.audio; record.topics has to list it, and the option "
                          "beam the beams");
    b->rows = sonar_alloc((size_t)PIECE * b->stream.beams, sizeof *b->rows);
    if (!b->rows)
        return sonar_fail(err, SONAR_ENOMEM, path, "out of memory");
    info->channels = b->stream.beams;
    info->fs_hz = b->stream.fs_hz;
    info->format = SONAR_F32;
    info->frames = (uint64_t)(b->end - b->stream.first);
    return SONAR_OK;
}

void export_beams_close(export_beams *b) {
    if (b)
        free(b->rows);
    free(b);
}

/* ---- copying --------------------------------------------------------------------------------- */

/* The part of a message that is wanted and comes next; false: none. */
static bool part_of(const export_beams *b, const struct head *head, int64_t *from, int64_t *to) {
    *from = head->first > b->at ? head->first : b->at;
    *to = head->first + (int64_t)head->samples;
    *to = *to < b->to ? *to : b->to;
    return is_of(&b->stream, head) && *from < *to;
}

static float sample_of(const struct head *head, const float *data, size_t beam, int64_t at) {
    return data[beam * head->samples + (size_t)(at - head->first)];
}

static sonar_code add_up(export_beams *b, const struct head *head, const float *data,
                         sonar_error *err) {
    int64_t from, to;
    (void)err;
    for (part_of(b, head, &from, &to); is_of(&b->stream, head) && from < to; from++) {
        bool lacks = false;
        for (size_t k = 0; k < head->beams; k++) {
            const float x = sample_of(head, data, k, from);
            lacks = lacks || isnan(x);
            b->mean[k] += isnan(x) ? 0 : (double)x;
        }
        b->present += !lacks;
        b->at = from + 1;
    }
    return SONAR_OK;
}

static sonar_code find_loudest(export_beams *b, const struct head *head, const float *data,
                               sonar_error *err) {
    int64_t from, to;
    (void)err;
    for (part_of(b, head, &from, &to); is_of(&b->stream, head) && from < to; from++) {
        for (size_t k = 0; k < head->beams; k++) {
            const double x = (double)sample_of(head, data, k, from) - b->mean[k];
            b->scale = isnan(x) ? b->scale : fmax(b->scale, fabs(x));
        }
        b->at = from + 1;
    }
    return SONAR_OK;
}

/* Zeros up to a sample. */
static sonar_code fill_gap(export_beams *b, int64_t end, sonar_error *err) {
    sonar_code code = SONAR_OK;
    memset(b->rows, 0, PIECE * b->stream.beams * sizeof *b->rows);
    while (b->at < end && !code) {
        const size_t n = sonar_min_size((size_t)(end - b->at), PIECE);
        code = b->sink->append(b->sink, b->rows, n, err);
        b->at += (int64_t)n;
    }
    return code;
}

static sonar_code write_part(export_beams *b, const struct head *head, const float *data,
                             sonar_error *err) {
    int64_t from, to;
    if (!part_of(b, head, &from, &to))
        return SONAR_OK;
    sonar_code code = fill_gap(b, from, err);
    while (b->at < to && !code) {
        const size_t n = sonar_min_size((size_t)(to - b->at), PIECE);
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < head->beams; k++) {
                const float x = sample_of(head, data, k, b->at + (int64_t)i);
                b->rows[i * head->beams + k] =
                    isnan(x) ? 0 : (float)(((double)x - b->mean[k]) * b->scale);
            }
        code = b->sink->append(b->sink, b->rows, n, err);
        b->at += (int64_t)n;
    }
    return code;
}

/* Sets mean and scale. */
static sonar_code measure(export_beams *b, sonar_error *err) {
    b->at = b->from;
    sonar_code code = visit_all(b, add_up, err);
    for (size_t k = 0; k < b->stream.beams; k++)
        b->mean[k] = b->sound && b->present ? b->mean[k] / (double)b->present : 0;
    b->missing = (uint64_t)(b->to - b->from) - b->present;
    b->at = b->from;
    if (!code && b->sound)
        code = visit_all(b, find_loudest, err);
    if (b->sound)
        b->scale = b->scale > 0 ? LOUDEST / b->scale : 1;
    else
        b->scale = strcmp(b->stream.unit, "uPa") ? 1 : 1e-6;
    return code;
}

sonar_code export_beams_copy(export_beams *b, uint64_t first, uint64_t end, bool sound,
                             export_sink *sink, sonar_error *err) {
    b->sound = sound;
    b->sink = sink;
    b->from = b->stream.first + (int64_t)first;
    b->to = b->stream.first + (int64_t)end;
    sonar_code code = measure(b, err);
    b->at = b->from;
    if (!code && (double)b->missing > MISSING_MOST_S * b->stream.fs_hz)
        code = sonar_fail(err, SONAR_EINVAL, b->path,
                          "%.0f s are missing; --start and --duration select a part",
                          (double)b->missing / b->stream.fs_hz);
    if (!code)
        code = visit_all(b, write_part, err);
    return code ? code : fill_gap(b, b->to, err);
}

void export_beams_tell(const export_beams *b, FILE *to) {
    fprintf(to, "beams:");
    for (size_t k = 0; k < b->stream.beams; k++)
        fprintf(to, "%s %s", k ? "," : "", b->stream.name[k]);
    fprintf(to, "; from sample %" PRId64 "\n", b->from);
    if (b->sound)
        fprintf(to, "1 is %.6g %s; without the mean of each beam\n", 1 / b->scale, b->stream.unit);
    if (b->missing)
        fprintf(to, "%" PRIu64 " samples are missing, and 0 in the file\n", b->missing);
    if (b->others)
        fprintf(to, "%" PRIu64 " messages of a later stream are left out\n", b->others);
}
