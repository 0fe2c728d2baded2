/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The recorder: its description of the configuration, and its source of samples. Control thread. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pipeline/internal.h"

/* ---- metadata -------------------------------------------------------------------------------- */

/* Escapes text for JSON. */
static void put_text(FILE *to, const char *text) {
    fputc('"', to);
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            fprintf(to, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(to, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, to);
    fputc('"', to);
}

static void put_numbers(FILE *to, const char *name, const double *value, size_t count) {
    fprintf(to, ",\n  \"%s\": [", name);
    for (size_t i = 0; i < count; i++)
        fprintf(to, "%s%.9g", i ? ", " : "", value[i]);
    fputc(']', to);
}

/* Each sensor as the daemon knows it, in the array's own frame, with its channel there. */
static void put_sensors(FILE *to, const sonar_config *c, size_t first_channel) {
    fputs(",\n \"sonar:sensors\": {\"channel\": [", to);
    for (size_t s = 0; s < c->sensors; s++)
        fprintf(to, "%s%zu", s ? ", " : "", first_channel + c->channel[s]);
    fputs("],\n  \"used\": [", to);
    for (size_t s = 0; s < c->sensors; s++)
        fprintf(to, "%s%s", s ? ", " : "", c->used[s] ? "true" : "false");
    fputs("],\n  \"position_m\": [", to);
    for (size_t s = 0; s < c->sensors; s++)
        fprintf(to, "%s[%.9g, %.9g, %.9g]", s ? ", " : "", c->position_m[3 * s],
                c->position_m[3 * s + 1], c->position_m[3 * s + 2]);
    fputc(']', to);
    put_numbers(to, "gain_db", c->gain_db, c->sensors);
    put_numbers(to, "phase_deg", c->phase_deg, c->sensors);
    put_numbers(to, "delay_us", c->delay_us, c->sensors);
    fputc('}', to);
}

/* True if each rank records its own channels. */
static bool is_part(const sonar_pipeline *p) {
    return p->place.ranks > 1 && p->whole->record_what == SONAR_RECORD_RAW;
}

static void put_about(FILE *to, const sonar_pipeline *p, const sonar_config *c) {
    const size_t first = is_part(p) ? p->ranks.first_channel : 0;
    fputs(",\n \"sonar:array\": ", to);
    put_text(to, c->array_name);
    fprintf(to, ", \"sonar:array_id\": %u, \"sonar:run\": \"%s\",\n \"sonar:config_version\": ",
            c->array_id, p->run_uuid);
    put_text(to, c->version);
    fprintf(to, ", \"sonar:sound_speed_mps\": %.9g, \"sonar:calibrated\": %s", c->sound_speed_mps,
            c->calibrated ? "true" : "false");
    if (is_part(p))
        fprintf(to,
                ",\n \"sonar:rank\": %zu, \"sonar:ranks\": %zu, \"sonar:first_channel\": %zu, "
                "\"sonar:array_channels\": %zu",
                p->place.rank, p->place.ranks, first, p->whole->channels);
    put_sensors(to, c, first);
}

/* The geometry of every channel. The extension's axes are x forward, y to the left and z up;
 * sonard's are x forward, y to the right and z down. */
static void put_geometry(FILE *to, const sonar_config *c) {
    size_t *sensor = sonar_alloc(c->channels, sizeof *sensor);
    if (!sensor)
        return;
    for (size_t s = 0; s < c->sensors; s++)
        sensor[c->channel[s]] = s + 1;
    if (c->heading_known)
        fprintf(to, ",\n  \"spatial:aperture_azimuth\": %.9g", c->heading_deg);
    fputs(",\n  \"spatial:element_geometry\": [", to);
    for (size_t k = 0; k < c->channels; k++) {
        const double *at = sensor[k] ? c->position_m + 3 * (sensor[k] - 1) : NULL;
        fputs(k ? ", " : "", to);
        if (at)
            fprintf(to, "{\"point\": [%.9g, %.9g, %.9g]}", at[0], 0 - at[1], 0 - at[2]);
        else
            fputs("{\"unknown\": true}", to);
    }
    fputc(']', to);
    free(sensor);
}

typedef struct texts {
    char *about, *geometry; /* malloc'ed */
} texts;

static bool close_text(FILE *to) {
    const bool written = to && !ferror(to);
    return to && !fclose(to) && written;
}

static sonar_code write_texts(const sonar_pipeline *p, const sonar_config *c, texts *made,
                              sonar_error *err) {
    size_t unused;
    *made = (texts){0};
    FILE *about = open_memstream(&made->about, &unused);
    FILE *geometry = open_memstream(&made->geometry, &unused);
    if (about)
        put_about(about, p, c);
    if (geometry)
        put_geometry(geometry, c);
    const bool good = close_text(about), well = close_text(geometry);
    return good && well ? SONAR_OK : sonar_fail(err, SONAR_ENOMEM, "record", "no memory");
}

static void free_texts(texts *made) {
    free(made->about);
    free(made->geometry);
}

/* ---- the recorder ---------------------------------------------------------------------------- */

/* The configured folder, or one in the state folder, which is then created. */
static sonar_code find_directory(const sonar_config *c, char path[PATH_MAX], sonar_error *err) {
    if (c->record_directory) {
        snprintf(path, PATH_MAX, "%s", c->record_directory);
        return SONAR_OK;
    }
    if (!c->state_dir)
        return sonar_fail(err, SONAR_EINVAL, "record.directory",
                          "neither it nor runtime.state_dir is set, so there is no place for "
                          "recordings");
    snprintf(path, PATH_MAX, "%s/recordings", c->state_dir);
    if (mkdir(path, 0750) && errno != EEXIST)
        return sonar_fail(err, SONAR_EUNAVAILABLE, "record.directory", "%s cannot be created: %s",
                          path, strerror(errno));
    return SONAR_OK;
}

static sonar_recorder_spec spec_of(const sonar_config *c) {
    const uint64_t mib = 1 << 20;
    return (sonar_recorder_spec){.kind = c->record_what,
                                 .name = c->array_name,
                                 .channels = c->channels,
                                 .fs_hz = c->fs_hz,
                                 .type = c->sample_type,
                                 .buffer_bytes = c->record_buffer_mib << 20,
                                 .segment_bytes = c->record_segment_mib * mib,
                                 .segment_s = c->record_segment_s,
                                 .keep_bytes = c->record_keep_mib * mib,
                                 .keep_s = c->record_keep_h * 3600,
                                 .free_bytes = c->record_free_mib * mib,
                                 .topics = c->record_topics & c->output_topics};
}

/* A rank uses its share of the memory and its own file name, because it must not delete segments of
 * other ranks. */
static void make_part(const sonar_pipeline *p, sonar_recorder_spec *spec, char *name, size_t size) {
    if (!is_part(p))
        return;
    snprintf(name, size, "%s_r%zu", p->whole->array_name, p->place.rank);
    spec->name = name;
    spec->buffer_bytes = spec->buffer_bytes / p->whole->channels * spec->channels;
}

/* Rank 0 records messages; every rank records its own samples. */
sonar_code sonar_record_create(sonar_pipeline *p, sonar_error *err) {
    const sonar_config *c = is_part(p) ? p->config : p->whole;
    char path[PATH_MAX], name[sizeof c->array_name + 16];
    texts made = {0};
    if (!c->record_what || (!is_part(p) && !sonar_is_root(p)))
        return SONAR_OK;
    sonar_code code = find_directory(c, path, err);
    if (!code)
        code = write_texts(p, c, &made, err);
    sonar_recorder_spec spec = spec_of(c);
    make_part(p, &spec, name, sizeof name);
    spec.directory = path;
    spec.about = made.about;
    spec.geometry = made.geometry;
    if (!code)
        code = sonar_recorder_create(&spec, &p->host, &p->recorder, err);
    free_texts(&made);
    return code;
}

const sonar_stretch_sink *sonar_record_sink(const sonar_pipeline *p) {
    return p->config->record_what == SONAR_RECORD_RAW ? sonar_recorder_sink(p->recorder) : NULL;
}

sonar_output_tap sonar_record_tap(const sonar_pipeline *p) {
    if (p->config->record_what != SONAR_RECORD_SPECTRA)
        return (sonar_output_tap){0};
    return (sonar_output_tap){p->recorder, sonar_recorder_wanted, sonar_recorder_message,
                              sonar_recorder_tick};
}

sonar_code sonar_record_start(sonar_pipeline *p, sonar_error *err) {
    if (!p->recorder)
        return SONAR_OK;
    sonar_recorder_ask(p->recorder, p->config->record_at_start);
    return sonar_recorder_start(p->recorder, err);
}

void sonar_record_describe(sonar_pipeline *p, const struct plan *plan) {
    texts made;
    sonar_error err = {0};
    if (!p->recorder)
        return;
    sonar_code code = write_texts(p, is_part(p) ? plan->config : plan->whole, &made, &err);
    if (!code)
        code = sonar_recorder_describe(p->recorder, made.about, made.geometry, &err);
    free_texts(&made);
    if (code)
        sonar_log(&p->host, SONAR_WARN, "record", "the metadata do not change: %s", err.text);
}

const char *sonar_pipeline_recording(const sonar_pipeline *p, sonar_recording *recording) {
    *recording = (sonar_recording){0};
    if (!p->recorder)
        return "";
    sonar_recorder_read(p->recorder, recording);
    return sonar_recorder_directory(p->recorder);
}
