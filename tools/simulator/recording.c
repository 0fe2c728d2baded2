/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "recording.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sndfile.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "json.h"
#include "ranks/cluster.h"
#include "recording_hdf5.h"
#include "core/core.h"
#include "sender.h"
#include "sound.h"

enum { PIECE = 4096, SIDE_FILE_MOST = 64 << 20 };

static const struct {
    const char *word;
    int format;
} format_word[] = {
    {"int16", SONAR_S16}, {"int24", SONAR_S24}, {"int32", SONAR_S32}, {"float32", SONAR_F32}};

/* "a/b.f32" -> "a/b" with this ending; free() it. */
static char *with_ending(const char *path, const char *ending) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    int stem = dot && (!slash || dot > slash) ? (int)(dot - path) : (int)strlen(path);
    char *other = NULL;
    return asprintf(&other, "%.*s%s", stem, path, ending) < 0 ? NULL : other;
}

static char *side_path(const char *path) {
    return with_ending(path, ".json");
}

static bool ends_with(const char *path, const char *ending) {
    const char *dot = strrchr(path, '.');
    return dot && strcasecmp(dot, ending) == 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct sim_recording {
    sim_recording_info info;
    FILE *raw;
    char *path; /* for messages */
    SNDFILE *sound;
    uint64_t next; /* sample that `sound` reads next */
    sim_hdf5 *hdf5;
    uint8_t *bytes; /* [PIECE][channels] as in the file */
    float *piece;   /* [PIECE][channels], sound files */
};

static cJSON *parse_json_file(const char *path, sonar_error *err) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        sonar_fail(err, SONAR_EUNAVAILABLE, path, "cannot open the side file: %s", strerror(errno));
        return NULL;
    }
    char *text = NULL;
    size_t length = 0;
    ssize_t got = getdelim(&text, &length, '\0',
                           file); /* JSON has no zero byte, so this reads the whole file */
    fclose(file);
    cJSON *json = got > 0 && got < SIDE_FILE_MOST ? cJSON_ParseWithLength(text, (size_t)got) : NULL;
    free(text);
    if (!json)
        sonar_fail(err, SONAR_EINVAL, path, "it is not JSON");
    return json;
}

static bool is_count(double number, double most) {
    return number >= 1 && number <= most && number == floor(number);
}

/* Advances *text past `word` if it begins with it. */
static bool skip(const char **text, const char *word) {
    size_t length = strlen(word);
    bool here = strncmp(*text, word, length) == 0;
    *text += here ? length : 0;
    return here;
}

/* "little-endian float32, sample-interleaved", optionally followed by " (4 channels)" and ", no
 * header". Returns 0 for any other text, because samples read in a wrong format still look like
 * samples. */
static int parse_format(const char *text, size_t channels) {
    char count[40];
    int format = 0;
    snprintf(count, sizeof count, " (%zu channels)", channels);
    if (!skip(&text, "little-endian "))
        return 0;
    for (size_t i = 0; !format && i < sizeof format_word / sizeof *format_word; i++)
        if (skip(&text, format_word[i].word))
            format = format_word[i].format;
    if (!skip(&text, ", sample-interleaved"))
        return 0;
    skip(&text, count);
    skip(&text, ", no header");
    return *text ? 0 : format;
}

static sonar_code parse_side(const cJSON *json, const char *path, sim_recording_info *info,
                             sonar_error *err) {
    double channels = json_number(json, "channels"), frames = json_number(json, "frames");
    info->fs_hz = json_number(json, "sample_rate_hz");
    if (!is_count(channels, UINT32_MAX) || !is_count(frames, 0x1p53) || !(info->fs_hz > 0) ||
        isinf(info->fs_hz))
        return sonar_fail(err, SONAR_EINVAL, path,
                          "channels and frames must be whole numbers above 0, and "
                          "sample_rate_hz a number above 0");
    info->channels = (size_t)channels;
    info->frames = (uint64_t)frames;
    info->format = parse_format(json_text(json, "format"), info->channels);
    if (!info->format)
        return sonar_fail(err, SONAR_EINVAL, path,
                          "format: '%s'; accepted is 'little-endian int16, sample-interleaved', "
                          "or int24, int32 or float32, and then ' (%zu channels)' and ', no "
                          "header' or nothing",
                          json_text(json, "format"), info->channels);
    const char *utc = json_text(json, "utc_of_first_sample");
    if (*utc && !sim_utc_parse(utc, &info->utc_ns))
        return sonar_fail(err, SONAR_EINVAL, path,
                          "utc_of_first_sample: '%s' is not ISO 8601, or no time from 1685 to 2254",
                          utc);
    return SONAR_OK;
}

/* ---- SigMF: NAME.sigmf-meta beside NAME.sigmf-data ---------------------------------------------
 */

static int sigmf_format(const char *datatype) {
    return !strcmp(datatype, "ri16_le")   ? SONAR_S16
           : !strcmp(datatype, "ri32_le") ? SONAR_S32
           : !strcmp(datatype, "rf32_le") ? SONAR_F32
                                          : 0;
}

/* Reads a whole number; if it is missing, returns `absent`. False: it is something else. */
static bool json_index(const cJSON *json, const char *key, uint64_t absent, uint64_t *to) {
    const double number = json_number(json, key);
    *to = absent;
    if (!cJSON_HasObjectItem(json, key))
        return true;
    if (!(number >= 0) || number > 0x1p53 || number != floor(number))
        return false;
    *to = (uint64_t)number;
    return true;
}

/* Reads one capture; `before` is the previous one, or NULL. */
static sonar_code parse_capture(const cJSON *json, const char *path, const sim_capture *before,
                                uint64_t stream_before, uint64_t *stream, sim_capture *to,
                                sonar_error *err) {
    uint64_t epoch, timeline, flags;
    const bool good = json_index(json, "core:sample_start", 0, &to->start) &&
                      json_index(json, "core:global_index", before ? UINT64_MAX : 0, &to->index) &&
                      json_index(json, "sonar:epoch", 0, &epoch) &&
                      json_index(json, "sonar:timeline", 0, &timeline) &&
                      json_index(json, "sonar:flags", 0, &flags) && epoch <= UINT32_MAX &&
                      timeline <= UINT32_MAX && flags <= UINT16_MAX;
    if (!isnan(json_number(json, "core:header_bytes")))
        return sonar_fail(err, SONAR_EINVAL, path,
                          "core:header_bytes: only samples may be in the data file");
    if (!good || (before ? to->start < before->start : to->start != 0))
        return sonar_fail(err, SONAR_EINVAL, path,
                          "captures must begin at core:sample_start 0, ascend, and have whole "
                          "numbers");
    const uint64_t goes_on = before ? before->index + (to->start - before->start) : 0;
    *stream = epoch << 32 | timeline;
    to->new_stream = before && (*stream >> 32 != stream_before >> 32 ||
                                (*stream != stream_before && to->index < goes_on));
    to->flags = (uint32_t)flags;
    if (before && (to->index == UINT64_MAX || (!to->new_stream && to->index < goes_on)))
        return sonar_fail(err, SONAR_EINVAL, path,
                          "the capture from sample %" PRIu64 " on has no core:global_index that "
                          "is larger than that of the capture before",
                          to->start);
    const char *utc = json_text(json, "core:datetime");
    if (*utc && !sim_utc_parse(utc, &to->utc_ns))
        return sonar_fail(err, SONAR_EINVAL, path,
                          "core:datetime: '%s' is not ISO 8601, or no time from 1685 to 2254", utc);
    return SONAR_OK;
}

static sonar_code parse_captures(const cJSON *captures, const char *path, sim_recording_info *info,
                                 sonar_error *err) {
    const cJSON *item;
    uint64_t stream = 0;
    info->capture = sonar_alloc((size_t)cJSON_GetArraySize(captures) + 1, sizeof *info->capture);
    if (!info->capture)
        return sonar_fail(err, SONAR_ENOMEM, path, "out of memory");
    cJSON_ArrayForEach(item, captures) {
        sim_capture *to = &info->capture[info->captures];
        const sonar_code code =
            parse_capture(item, path, info->captures ? to - 1 : NULL, stream, &stream, to, err);
        if (code != SONAR_OK)
            return code;
        if (!info->captures++)
            info->first_stream = stream;
    }
    info->last_stream = stream;
    info->captures += !info->captures; /* without captures, one that begins at sample 0 and has no
                                          further information */
    info->utc_ns = info->capture[0].utc_ns;
    return SONAR_OK;
}

/* Reads sonard's own annotations of missing samples; those of others have no such meaning. */
static sonar_code parse_lacks(const cJSON *annotations, const char *path, sim_recording_info *info,
                              sonar_error *err) {
    const cJSON *item;
    info->lack = sonar_alloc((size_t)cJSON_GetArraySize(annotations) + 1, sizeof *info->lack);
    if (!info->lack)
        return sonar_fail(err, SONAR_ENOMEM, path, "out of memory");
    cJSON_ArrayForEach(item, annotations) {
        const cJSON *channels = cJSON_GetObjectItemCaseSensitive(item, "sonar:channels");
        const cJSON *first = cJSON_GetArrayItem(channels, 0),
                    *count = cJSON_GetArrayItem(channels, 1);
        const double from = cJSON_IsNumber(first) ? first->valuedouble : -1;
        const double number = cJSON_IsNumber(count) ? count->valuedouble : 0;
        uint64_t begin, samples;
        if (strcmp(json_text(item, "core:label"), "missing") != 0 || !channels)
            continue;
        if (!json_index(item, "core:sample_start", UINT64_MAX, &begin) ||
            !json_index(item, "core:sample_count", 0, &samples) || begin == UINT64_MAX ||
            !(from >= 0) || from != floor(from) || !is_count(number, 0x1p32) ||
            from + number > (double)info->channels)
            return sonar_fail(err, SONAR_EINVAL, path,
                              "an annotation of missing samples has no samples, or channels "
                              "beyond core:num_channels");
        info->lack[info->lacks++] =
            (sim_lack){begin, begin + samples, (size_t)from, (size_t)number};
    }
    return SONAR_OK;
}

/* True if the version has this major number; additions within a major version may be ignored. */
static bool is_of_major(const char *version, const char *major) {
    const size_t length = strlen(major);
    return !strncmp(version, major, length) && (version[length] == '.' || !version[length]);
}

/* Refuses versions that are not known yet. A recording without a version is accepted. */
static sonar_code check_versions(const cJSON *global, const char *path, sonar_error *err) {
    const char *sigmf = json_text(global, "core:version");
    const cJSON *extension;
    if (*sigmf && !is_of_major(sigmf, "1") && !is_of_major(sigmf, "0"))
        return sonar_fail(err, SONAR_EINVAL, path,
                          "core:version: '%.40s'; SigMF is accepted up to version 1", sigmf);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(global, "core:extensions");
    for (extension = list ? list->child : NULL; extension; extension = extension->next) {
        const char *version = json_text(extension, "version");
        if (!strcmp(json_text(extension, "name"), "sonar") && !is_of_major(version, "1"))
            return sonar_fail(err, SONAR_EINVAL, path,
                              "core:extensions: sonar '%.40s'; accepted is version 1: a later "
                              "sonard has recorded it",
                              version);
    }
    return SONAR_OK;
}

static sonar_code parse_sigmf(const cJSON *json, const char *path, sim_recording_info *info,
                              sonar_error *err) {
    const cJSON *global = cJSON_GetObjectItemCaseSensitive(json, "global");
    const cJSON *captures = cJSON_GetObjectItemCaseSensitive(json, "captures");
    const char *datatype = json_text(global, "core:datatype");
    double channels = json_number(global, "core:num_channels");
    sonar_code code = check_versions(global, path, err);
    if (code)
        return code;
    info->fs_hz = json_number(global, "core:sample_rate");
    info->format = sigmf_format(datatype);
    if (isnan(channels) && !cJSON_HasObjectItem(global, "core:num_channels"))
        channels = 1;
    if (!is_count(channels, UINT32_MAX) || !(info->fs_hz > 0) || isinf(info->fs_hz))
        return sonar_fail(err, SONAR_EINVAL, path,
                          "core:num_channels must be a whole number above 0 and core:sample_rate a "
                          "number above 0");
    if (!info->format)
        return sonar_fail(err, SONAR_EINVAL, path,
                          "core:datatype: '%s'; accepted are ri16_le, ri32_le and rf32_le",
                          datatype);
    if (cJSON_HasObjectItem(global, "core:trailing_bytes"))
        return sonar_fail(err, SONAR_EINVAL, path,
                          "core:trailing_bytes: only samples may be in the data file");
    info->channels = (size_t)channels;
    uint64_t rank, ranks;
    if (!json_index(global, "sonar:rank", 0, &rank) ||
        !json_index(global, "sonar:ranks", 0, &ranks) || (ranks && rank >= ranks) ||
        ranks > SONAR_RANKS_MOST)
        return sonar_fail(err, SONAR_EINVAL, path,
                          "sonar:rank and sonar:ranks must be whole numbers, of at most %d ranks",
                          SONAR_RANKS_MOST);
    info->rank = (size_t)rank;
    info->ranks = (size_t)ranks;
    code = parse_captures(captures, path, info, err);
    return code ? code
                : parse_lacks(cJSON_GetObjectItemCaseSensitive(json, "annotations"), path, info,
                              err);
}

/* A recorder that was killed leaves a part of the last sample, which is not played. */
static sonar_code open_sigmf_data(const char *path, sim_recording *r, sonar_error *err) {
    r->raw = fopen(path, "rb");
    if (!r->raw || fseeko(r->raw, 0, SEEK_END) != 0)
        return sonar_fail(err, SONAR_EUNAVAILABLE, path, "cannot open it: %s", strerror(errno));
    uint64_t frame = r->info.channels * sonar_dtype_size((sonar_dtype)r->info.format);
    r->info.frames = (uint64_t)ftello(r->raw) / frame;
    if (!r->info.frames)
        return sonar_fail(err, SONAR_EINVAL, path, "not one sample of %zu channels",
                          r->info.channels);
    return SONAR_OK;
}

static sonar_code open_sigmf(const char *path, sim_recording *r, sonar_error *err) {
    char *meta = with_ending(path, ".sigmf-meta"), *data = with_ending(path, ".sigmf-data");
    cJSON *json = NULL;
    sonar_code code =
        meta && data ? SONAR_OK : sonar_fail(err, SONAR_ENOMEM, path, "out of memory");
    if (!code)
        code = (json = parse_json_file(meta, err)) ? SONAR_OK : SONAR_EUNAVAILABLE;
    if (!code)
        code = parse_sigmf(json, meta, &r->info, err);
    if (!code)
        code = open_sigmf_data(data, r, err);
    cJSON_Delete(json);
    free(meta);
    free(data);
    return code;
}

static sonar_code open_raw(const char *path, sim_recording *r, sonar_error *err) {
    char *side = side_path(path);
    if (!side)
        return sonar_fail(err, SONAR_ENOMEM, path, "out of memory");
    cJSON *json = parse_json_file(side, err);
    sonar_code code = json ? parse_side(json, side, &r->info, err) : SONAR_EUNAVAILABLE;
    cJSON_Delete(json);
    free(side);
    if (code != SONAR_OK)
        return code;
    r->raw = fopen(path, "rb");
    if (!r->raw || fseeko(r->raw, 0, SEEK_END) != 0)
        return sonar_fail(err, SONAR_EUNAVAILABLE, path, "cannot open it: %s", strerror(errno));
    size_t width = sonar_dtype_size((sonar_dtype)r->info.format);
    uint64_t bytes = (uint64_t)ftello(r->raw), frame = r->info.channels * width;
    if (bytes % frame || bytes / frame != r->info.frames)
        return sonar_fail(err, SONAR_EINVAL, path,
                          "%" PRIu64 " bytes, but its side file announces %" PRIu64
                          " frames of %zu channels of %zu bytes",
                          bytes, r->info.frames, r->info.channels, width);
    return SONAR_OK;
}

/* Kinds of sound files whose header has their length, in `bytes` from byte `at` on, minus
 * `without`. */
static const struct {
    char mark[5];
    size_t at, bytes, without;
    bool big_endian;
} announced[] = {{"RIFF", 4, 4, 8, false},
                 {"RF64", 20, 8, 8, false},
                 {"riff", 16, 8, 0, false}, /* W64 */
                 {"FORM", 4, 4, 8, true}};

/* The length of the file according to its header; 0: not given. A recorder that did not end
 * properly leaves 0 or all ones. */
static uint64_t announced_bytes(const uint8_t head[28]) {
    for (size_t k = 0; k < sizeof announced / sizeof *announced; k++) {
        const size_t bytes = announced[k].bytes;
        const uint64_t most = bytes == 4 ? UINT32_MAX - 8 : (uint64_t)1 << 62;
        uint64_t said = 0;
        if (memcmp(head, announced[k].mark, 4) != 0)
            continue;
        for (size_t i = 0; i < bytes; i++)
            said |= (uint64_t)head[announced[k].at + i]
                    << 8 * (announced[k].big_endian ? bytes - 1 - i : i);
        return said && said < most ? said + announced[k].without : 0;
    }
    return 0;
}

/* Bytes missing at the end of a truncated file; libsndfile plays the rest. */
static uint64_t lost_bytes(const char *path) {
    uint8_t head[28] = {0};
    FILE *file = fopen(path, "rb");
    if (!file)
        return 0;
    const bool whole = fread(head, 1, sizeof head, file) == sizeof head;
    const bool ends = fseeko(file, 0, SEEK_END) == 0;
    const uint64_t is = ends ? (uint64_t)ftello(file) : 0, said = announced_bytes(head);
    fclose(file);
    return whole && ends && said > is + 1 ? said - is
                                          : 0; /* a byte of padding may follow an odd length */
}

/* The broadcast extension of a WAV file (EBU Tech 3285): its date, and the sample count since
 * midnight if that agrees with its time. It has no time zone; UTC is assumed. 0: no extension, or
 * no date. */
static int64_t broadcast_utc(SNDFILE *sound, double fs_hz) {
    SF_BROADCAST_INFO about;
    char text[24];
    int64_t midnight_ns, utc_ns;
    memset(&about, 0, sizeof about);
    if (sf_command(sound, SFC_GET_BROADCAST_INFO, &about, sizeof about) != SF_TRUE)
        return 0;
    const char *d = about.origination_date,
               *t = about.origination_time; /* any separators are accepted */
    snprintf(text, sizeof text, "%.4s-%.2s-%.2sT00:00:00", d, d + 5, d + 8);
    if (!sim_utc_parse(text, &midnight_ns))
        return 0;
    snprintf(text, sizeof text, "%.4s-%.2s-%.2sT%.2s:%.2s:%.2s", d, d + 5, d + 8, t, t + 3, t + 6);
    if (!sim_utc_parse(text, &utc_ns))
        return 0;
    const uint64_t samples = (uint64_t)about.time_reference_high << 32 | about.time_reference_low;
    const int64_t since_ns = (int64_t)llrint((double)samples / fs_hz * 1e9);
    const bool agrees = llabs(midnight_ns + since_ns - utc_ns) <= 1000000000;
    return samples && agrees ? midnight_ns + since_ns : utc_ns;
}

void sim_sound_info(SNDFILE *sound, const SF_INFO *about, sim_recording_info *info) {
    sf_command(sound, SFC_SET_NORM_FLOAT, NULL, SF_FALSE); /* counts, not -1 .. 1 */
    sf_command(sound, SFC_SET_NORM_DOUBLE, NULL, SF_FALSE);
    const int width = about->format & SF_FORMAT_SUBMASK;
    const bool narrow =
        width == SF_FORMAT_PCM_16 || width == SF_FORMAT_PCM_U8 || width == SF_FORMAT_PCM_S8;
    info->format = narrow                      ? SONAR_S16
                   : width == SF_FORMAT_PCM_24 ? SONAR_S24
                   : width == SF_FORMAT_PCM_32 ? SONAR_S32
                                               : SONAR_F32;
    info->channels = (size_t)about->channels;
    info->frames = (uint64_t)about->frames;
    info->fs_hz = about->samplerate;
}

/* Samples up to where nothing more can be read. */
static uint64_t count_frames(SNDFILE *sound, size_t channels) {
    float *piece = sonar_alloc(PIECE * channels, sizeof *piece);
    uint64_t frames = 0;
    for (sf_count_t got = piece ? PIECE : 0; got > 0; frames += (uint64_t)got)
        got = sf_readf_float(sound, piece, PIECE);
    free(piece);
    return frames;
}

/* A FLAC that was written to a pipe does not say its length, and one that was cut off says a wrong
 * one: it is decoded once. After an error libsndfile reads no more, and has to begin again. */
static sonar_code find_length(const char *path, sim_recording *r, SF_INFO *about,
                              sonar_error *err) {
    float last[1024]; /* channels, libsndfile's most */
    const uint64_t said = (uint64_t)about->frames;
    const sf_count_t end = about->frames - 1;
    if ((about->format & SF_FORMAT_TYPEMASK) != SF_FORMAT_FLAC)
        return SONAR_OK;
    if (sf_seek(r->sound, end, SEEK_SET) == end && sf_readf_float(r->sound, last, 1) == 1)
        return sf_seek(r->sound, 0, SEEK_SET) ? sonar_fail(err, SONAR_ESYS, path, "cannot seek")
                                              : SONAR_OK;
    for (int turn = 0; turn < 2; turn++) { /* to count, and to read */
        sf_close(r->sound);
        *about = (SF_INFO){0};
        r->sound = sf_open(path, SFM_READ, about);
        if (!r->sound)
            return sonar_fail(err, SONAR_EUNAVAILABLE, path, "%s", sf_strerror(NULL));
        if (!turn)
            r->info.frames = count_frames(r->sound, (size_t)about->channels);
    }
    about->frames = (sf_count_t)r->info.frames;
    if (!about->frames)
        return sonar_fail(err, SONAR_EINVAL, path, "none of its samples can be read");
    r->info.lost_frames = said < SF_COUNT_MAX ? said - r->info.frames : 0;
    return SONAR_OK;
}

static sonar_code open_sound(const char *path, sim_recording *r, sonar_error *err) {
    SF_INFO about = {0};
    r->sound = sf_open(path, SFM_READ, &about);
    if (!r->sound)
        return sonar_fail(err, SONAR_EUNAVAILABLE, path,
                          "libsndfile cannot read it: %s Are the sizes in its header right?",
                          sf_strerror(NULL));
    if (!about.frames)
        return sonar_fail(err, SONAR_EINVAL, path,
                          "its header says that it has no samples; a recorder that was killed "
                          "leaves such a header");
    const sonar_code code = find_length(path, r, &about, err);
    if (code)
        return code;
    sim_sound_info(r->sound, &about, &r->info);
    r->info.utc_ns = broadcast_utc(r->sound, r->info.fs_hz);
    r->info.lost_bytes = lost_bytes(path);
    return SONAR_OK;
}

/* ---- raw samples whose type is declared ------------------------------------------------------ */

static const struct {
    const char *word;
    int type;
    size_t bytes;
} raw_type[] = {
    {"u8", SF_FORMAT_PCM_U8, 1},
    {"s8", SF_FORMAT_PCM_S8, 1},
    {"s16le", SF_FORMAT_PCM_16 | SF_ENDIAN_LITTLE, 2},
    {"s16be", SF_FORMAT_PCM_16 | SF_ENDIAN_BIG, 2},
    {"s24le", SF_FORMAT_PCM_24 | SF_ENDIAN_LITTLE, 3},
    {"s24be", SF_FORMAT_PCM_24 | SF_ENDIAN_BIG, 3},
    {"s32le", SF_FORMAT_PCM_32 | SF_ENDIAN_LITTLE, 4},
    {"s32be", SF_FORMAT_PCM_32 | SF_ENDIAN_BIG, 4},
    {"f32le", SF_FORMAT_FLOAT | SF_ENDIAN_LITTLE, 4},
    {"f32be", SF_FORMAT_FLOAT | SF_ENDIAN_BIG, 4},
    {"f64le", SF_FORMAT_DOUBLE | SF_ENDIAN_LITTLE, 8},
    {"f64be", SF_FORMAT_DOUBLE | SF_ENDIAN_BIG, 8},
};

bool sim_raw_parse(const char *text, sim_raw *raw) {
    enum { CHANNELS_MOST = 1024 }; /* libsndfile's */
    const size_t word = strcspn(text, ":");
    char *end;
    *raw = (sim_raw){0};
    for (size_t i = 0; i < sizeof raw_type / sizeof *raw_type; i++)
        if (strlen(raw_type[i].word) == word && !strncmp(raw_type[i].word, text, word))
            raw->type = raw_type[i].type;
    if (!raw->type || !text[word] || text[word + 1] < '1' || text[word + 1] > '9')
        return false;
    raw->channels = strtoul(text + word + 1, &end, 10);
    if (*end != ':' || raw->channels > CHANNELS_MOST)
        return false;
    const char *rate = end + 1;
    raw->fs_hz = strtod(rate, &end);
    return end != rate && !*end && raw->fs_hz >= 1e-3 && raw->fs_hz <= 1e9;
}

size_t sim_raw_bytes(const sim_raw *raw) {
    size_t i = 0;
    while (raw_type[i].type != raw->type)
        i++;
    return raw_type[i].bytes;
}

/* Bytes behind the last whole sample: a wrong declaration mostly leaves some. */
static void say_odd_bytes(const char *path, const sim_raw *raw) {
    FILE *file = fopen(path, "rb");
    const size_t bytes = sim_raw_bytes(raw);
    if (file && fseeko(file, 0, SEEK_END) == 0 && (uint64_t)ftello(file) % (raw->channels * bytes))
        fprintf(stderr,
                "%s: its %" PRIu64 " bytes are not whole samples of %zu channels of %zu bytes: is "
                "it of another type, or of another number of channels? The rest is left out\n",
                path, (uint64_t)ftello(file), raw->channels, bytes);
    if (file)
        fclose(file);
}

static sonar_code open_declared(const char *path, const sim_raw *raw, sim_recording *r,
                                sonar_error *err) {
    SF_INFO about = {.format = SF_FORMAT_RAW | raw->type,
                     .channels = (int)raw->channels,
                     .samplerate = (int)fmax(1, rint(raw->fs_hz))};
    say_odd_bytes(path, raw);
    r->sound = sf_open(path, SFM_READ, &about);
    if (!r->sound)
        return sonar_fail(err, SONAR_EUNAVAILABLE, path, "%s", sf_strerror(NULL));
    sim_sound_info(r->sound, &about, &r->info);
    r->info.fs_hz = raw->fs_hz;
    return SONAR_OK;
}

/* ---- any kind -------------------------------------------------------------------------------- */

static bool is_one_of(const char *path, size_t endings, const char *const *ending) {
    for (size_t i = 0; i < endings; i++)
        if (ends_with(path, ending[i]))
            return true;
    return false;
}

static sonar_code open_hdf5(const char *path, sim_recording *r, sonar_error *err) {
    return sim_hdf5_open(path, &r->info, &r->hdf5, err);
}

static sonar_code open_kind(const char *path, const sim_raw *raw, sim_recording *r,
                            sonar_error *err) {
    static const char *const sound[] = {".wav", ".rf64", ".w64", ".caf", ".flac", ".aiff", ".aif"};
    static const char *const hdf5[] = {".h5", ".hdf5", ".hdf"};
    if (raw && raw->type)
        return open_declared(path, raw, r, err);
    if (is_one_of(path, sizeof sound / sizeof *sound, sound))
        return open_sound(path, r, err);
    if (is_one_of(path, sizeof hdf5 / sizeof *hdf5, hdf5))
        return open_hdf5(path, r, err);
    if (ends_with(path, ".sigmf-data") || ends_with(path, ".sigmf-meta"))
        return open_sigmf(path, r, err);
    return open_raw(path, r, err);
}

sonar_code sim_recording_open(const char *path, sim_recording **recording, sonar_error *err) {
    return sim_recording_open_as(path, NULL, recording, err);
}

sonar_code sim_recording_open_as(const char *path, const sim_raw *raw, sim_recording **recording,
                                 sonar_error *err) {
    sim_recording *r = sonar_alloc(1, sizeof *r);
    if (!r)
        return sonar_fail(err, SONAR_ENOMEM, path, "out of memory");
    r->path = strdup(path);
    sonar_code code = r->path ? open_kind(path, raw, r, err)
                              : sonar_fail(err, SONAR_ENOMEM, path, "out of memory");
    if (code == SONAR_OK && !r->info.utc_ns)
        r->info.named = sim_utc_in_name(path, &r->info.utc_ns);
    if (code == SONAR_OK && r->info.named && r->info.capture)
        r->info.capture->utc_ns = r->info.utc_ns;
    if (code == SONAR_OK && !r->info.capture) { /* for file formats that have only one capture */
        r->info.captures = 1;
        r->info.capture = sonar_alloc(1, sizeof *r->info.capture);
        if (r->info.capture)
            r->info.capture->utc_ns = r->info.utc_ns;
        else
            code = sonar_fail(err, SONAR_ENOMEM, path, "out of memory");
    }
    if (code == SONAR_OK) {
        r->bytes = sonar_alloc(PIECE * r->info.channels, 4);
        r->piece = sonar_alloc(PIECE * r->info.channels, sizeof(float));
        if (!r->bytes || !r->piece)
            code = sonar_fail(err, SONAR_ENOMEM, path, "out of memory for %zu channels",
                              r->info.channels);
    }
    if (code != SONAR_OK)
        sim_recording_close(r);
    else
        *recording = r;
    return code;
}

void sim_recording_close(sim_recording *r) {
    if (!r)
        return;
    if (r->raw)
        fclose(r->raw);
    if (r->sound)
        sf_close(r->sound);
    sim_hdf5_close(r->hdf5);
    free(r->info.capture);
    free(r->info.lack);
    free(r->path);
    free(r->bytes);
    free(r->piece);
    free(r);
}

const sim_recording_info *sim_recording_about(const sim_recording *recording) {
    return &recording->info;
}

void sim_recording_tell_loss(const char *tool, const char *path, const sim_recording_info *info) {
    if (info->lost_bytes)
        fprintf(stderr,
                "%s: %s is truncated: it ends %" PRIu64
                " bytes before its header says, and %" PRIu64 " samples are left\n",
                tool, path, info->lost_bytes, info->frames);
    if (info->lost_frames)
        fprintf(stderr,
                "%s: %s is truncated or damaged: its header says %" PRIu64 " samples, and %" PRIu64
                " can be read\n",
                tool, path, info->lost_frames + info->frames, info->frames);
}

const sim_capture *sim_recording_gap(const sim_recording_info *info, uint64_t first, uint64_t end) {
    for (size_t i = 1; i < info->captures; i++) {
        const sim_capture *before = &info->capture[i - 1], *at = &info->capture[i];
        const bool goes_on =
            !at->new_stream && at->index - before->index == at->start - before->start;
        if (!goes_on && at->start > first && at->start < end)
            return at;
    }
    return NULL;
}

uint64_t sim_samples_of(double seconds, double fs_hz, uint64_t most) {
    const double samples = rint(seconds * fs_hz);
    return samples < (double)most ? (uint64_t)samples : most;
}

void sim_recording_part(const sim_recording *recording, double start_s, double duration_s,
                        uint64_t *first, uint64_t *end) {
    const sim_recording_info *info = &recording->info;
    *first = sim_samples_of(start_s, info->fs_hz, info->frames);
    *end = *first + sim_samples_of(duration_s, info->fs_hz, info->frames - *first);
}

static float sample_at(const uint8_t *at, int format) {
    union {
        int16_t s16;
        int32_t s32;
        float f32;
    } value = {0};
    switch (format) {
    case SONAR_S16:
        memcpy(&value.s16, at, 2);
        return value.s16;
    case SONAR_S24: /* into the upper three bytes, so that the shift extends the sign */
        memcpy((uint8_t *)&value.s32 + 1, at, 3);
        return (float)(value.s32 / 256);
    case SONAR_S32:
        memcpy(&value.s32, at, 4);
        return (float)value.s32;
    default:
        memcpy(&value.f32, at, 4);
        return value.f32;
    }
}

/* A FLAC is searched for a sample that is not the next one. */
static bool read_sound(sim_recording *r, uint64_t first, size_t samples) {
    if (first != r->next && sf_seek(r->sound, (sf_count_t)first, SEEK_SET) != (sf_count_t)first)
        return false;
    r->next = first + samples;
    return sf_readf_float(r->sound, r->piece, (sf_count_t)samples) == (sf_count_t)samples;
}

/* Reads at most PIECE samples of all channels into r->piece, interleaved. */
static bool read_piece(sim_recording *r, uint64_t first, size_t samples) {
    size_t values = samples * r->info.channels;
    if (r->hdf5)
        return sim_hdf5_read(r->hdf5, first, samples, r->piece);
    if (r->sound)
        return read_sound(r, first, samples);
    size_t width = sonar_dtype_size((sonar_dtype)r->info.format);
    if (fseeko(r->raw, (off_t)(first * r->info.channels * width), SEEK_SET) != 0 ||
        fread(r->bytes, width, values, r->raw) != values)
        return false;
    for (size_t i = 0; i < values; i++)
        r->piece[i] = sample_at(r->bytes + i * width, r->info.format);
    return true;
}

sonar_code sim_recording_read(sim_recording *r, uint64_t first, size_t samples, float *to,
                              sonar_error *err) {
    if (first > r->info.frames || samples > r->info.frames - first)
        return sonar_fail(err, SONAR_EINVAL, "recording", "samples beyond its end were requested");
    for (size_t done = 0; done < samples;) {
        size_t count = sonar_min_size(samples - done, PIECE);
        if (!read_piece(r, first + done, count))
            return sonar_fail(err, SONAR_ESYS, r->path, "it cannot be read at sample %" PRIu64 "%s",
                              first + done, r->sound ? ": it is damaged there" : "");
        for (size_t i = 0; i < count; i++)
            for (size_t ch = 0; ch < r->info.channels; ch++)
                to[ch * samples + done + i] = r->piece[i * r->info.channels + ch];
        done += count;
    }
    return SONAR_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct sim_writer {
    sim_recording_info info;
    char *path;
    FILE *file;
    double *position_m;
    uint8_t *bytes; /* [PIECE][channels] */
    crypto_hash_sha256_state hash;
};

static void destroy_writer(sim_writer *w) {
    if (w->file)
        fclose(w->file);
    free(w->path);
    free(w->position_m);
    free(w->bytes);
    free(w);
}

static sonar_code prepare_writer(sim_writer *w, const char *path, sonar_error *err) {
    const double *position_m = w->info.position_m;
    w->path = strdup(path);
    w->bytes = sonar_alloc(PIECE * w->info.channels, 4);
    if (position_m)
        w->position_m = sonar_alloc(w->info.channels, 3 * sizeof(double));
    if (!w->path || !w->bytes || (position_m && !w->position_m))
        return sonar_fail(err, SONAR_ENOMEM, path, "out of memory");
    if (position_m)
        memcpy(w->position_m, position_m, w->info.channels * 3 * sizeof(double));
    w->file = fopen(path, "wb");
    if (!w->file)
        return sonar_fail(err, SONAR_ESYS, path, "cannot create it: %s", strerror(errno));
    crypto_hash_sha256_init(&w->hash);
    return SONAR_OK;
}

sonar_code sim_writer_create(const char *path, const sim_recording_info *info, sim_writer **writer,
                             sonar_error *err) {
    sim_writer *w = sonar_alloc(1, sizeof *w);
    if (!w || sodium_init() < 0) {
        free(w);
        return sonar_fail(err, SONAR_ENOMEM, path, "out of memory");
    }
    w->info = *info;
    w->info.frames = 0;
    sonar_code code = prepare_writer(w, path, err);
    if (code != SONAR_OK)
        destroy_writer(w);
    else
        *writer = w;
    return code;
}

sonar_code sim_writer_write(sim_writer *w, const float *counts, size_t samples, uint64_t *saturated,
                            sonar_error *err) {
    size_t width = sonar_dtype_size((sonar_dtype)w->info.format);
    for (size_t done = 0; done < samples;) {
        size_t count = sonar_min_size(samples - done, PIECE);
        size_t bytes = count * w->info.channels * width;
        for (size_t ch = 0; ch < w->info.channels; ch++)
            *saturated += sim_convert(counts + ch * samples + done, count, w->info.format,
                                      w->info.channels, w->bytes + ch * width);
        if (fwrite(w->bytes, 1, bytes, w->file) != bytes)
            return sonar_fail(err, SONAR_ESYS, w->path, "cannot write: %s", strerror(errno));
        crypto_hash_sha256_update(&w->hash, w->bytes, bytes);
        done += count;
    }
    w->info.frames += samples;
    return SONAR_OK;
}

static const char *word_of(int format) {
    for (size_t i = 0; i < sizeof format_word / sizeof *format_word; i++)
        if (format_word[i].format == format)
            return format_word[i].word;
    return "?";
}

static void write_positions(const sim_writer *w, FILE *to) {
    fprintf(to, " \"position_frame\": \"array: x forward, y to the right of it, z down\",\n"
                " \"positions_m\": [");
    for (size_t ch = 0; ch < w->info.channels; ch++)
        fprintf(to, "%s[%.9g, %.9g, %.9g]", ch ? ", " : "", w->position_m[3 * ch],
                w->position_m[3 * ch + 1], w->position_m[3 * ch + 2]);
    fprintf(to, "],\n");
}

static void write_side(sim_writer *w, FILE *to) {
    unsigned char digest[crypto_hash_sha256_BYTES];
    char hex[2 * sizeof digest + 1], utc[40];
    crypto_hash_sha256_final(&w->hash, digest);
    sodium_bin2hex(hex, sizeof hex, digest, sizeof digest);
    fprintf(to, "{\n \"channels\": %zu,\n \"frames\": %" PRIu64 ",\n \"sample_rate_hz\": %.17g,\n",
            w->info.channels, w->info.frames, w->info.fs_hz);
    if (w->info.sound_speed_mps > 0)
        fprintf(to, " \"sound_speed_mps\": %.17g,\n", w->info.sound_speed_mps);
    if (w->position_m)
        write_positions(w, to);
    if (w->info.utc_ns) {
        sim_utc_format(w->info.utc_ns, utc, sizeof utc);
        fprintf(to, " \"utc_of_first_sample\": \"%s\",\n", utc);
    }
    fprintf(to,
            " \"sha256\": \"%s\",\n \"format\": \"little-endian %s, sample-interleaved "
            "(%zu channels), no header\"\n}\n",
            hex, word_of(w->info.format), w->info.channels);
}

sonar_code sim_writer_finish(sim_writer *w, sonar_error *err) {
    sonar_code code = SONAR_OK;
    int closed = fclose(w->file);
    w->file = NULL;
    char *path = side_path(w->path);
    FILE *side = path ? fopen(path, "w") : NULL;
    if (side)
        write_side(w, side);
    if (closed != 0 || !side || ferror(side))
        code =
            sonar_fail(err, SONAR_ESYS, path ? path : w->path, "cannot write: %s", strerror(errno));
    if (side && fclose(side) != 0 && code == SONAR_OK)
        code = sonar_fail(err, SONAR_ESYS, path, "cannot write: %s", strerror(errno));
    free(path);
    destroy_writer(w);
    return code;
}
