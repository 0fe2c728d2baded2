/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A session: a pipeline that its caller feeds. The caller's thread is the pipeline's control
 * thread. The output thread copies each message into a list, from which the caller takes it; `lock`
 * guards the list alone.
 */
#include "sonar/session.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "ingest/frame.h"
#include "output/output.h"
#include "pipeline/pipeline.h"
#include "session/feeder.h"

enum { FRAME_SAMPLES = 256, FLUSH_MS = 600000 };

_Static_assert((int)SONAR_SESSION_S16 == (int)SONAR_S16 &&
                   (int)SONAR_SESSION_S32 == (int)SONAR_S32 &&
                   (int)SONAR_SESSION_F32 == (int)SONAR_F32,
               "types of samples are those of frames");

typedef struct letter {
    struct letter *next;
    sonar_session_message message;
    _Alignas(16) uint8_t content[]; /* the array, then the header */
} letter;

struct sonar_session {
    sonar_session_spec spec;
    sonar_config *config;
    sonar_output_tap tap;
    uint32_t topics; /* SONAR_WANT bits */
    sonar_pipeline *pipeline;
    sonar_feeder feeder;
    uint8_t *frame; /* [FRAME_SAMPLES][channel] of the largest type */

    uint64_t sequence, timed; /* of the next frame; the sample at utc_ns */
    int64_t utc_ns;           /* 0: unknown */
    bool finished;
    sonar_error failure; /* the code is not SONAR_OK: the session has ended by it */

    letter *taken;
    pthread_mutex_t lock;
    letter *first, **last;
    bool no_memory; /* a message was lost */
};

const char *sonar_session_version(void) {
    return SONAR_VERSION;
}

static int tell(const sonar_error *err, char *error, size_t error_bytes) {
    if (error_bytes)
        snprintf(error, error_bytes, "%s%s%s", err->where, *err->where ? ": " : "", err->text);
    return (int)err->code;
}

/* ---- messages -------------------------------------------------------------------------------- */

static uint32_t wanted(void *ctx) {
    return ((const sonar_session *)ctx)->topics;
}

static letter *copy(sonar_surface surface, const char *header, const void *data, size_t bytes) {
    const size_t header_bytes = strlen(header);
    letter *l = sonar_alloc(1, sizeof *l + bytes + header_bytes + 1);
    if (!l)
        return NULL;
    l->message = (sonar_session_message){.topic = sonar_topic_name(surface),
                                         .header = (char *)l->content + bytes,
                                         .header_bytes = header_bytes,
                                         .data = l->content,
                                         .data_bytes = bytes};
    if (bytes)
        memcpy(l->content, data, bytes);
    memcpy(l->content + bytes, header, header_bytes + 1);
    return l;
}

/* Output thread. */
static void keep(void *ctx, sonar_surface surface, const char *header, const void *data,
                 size_t bytes) {
    sonar_session *s = ctx;
    letter *l = copy(surface, header, data, bytes);
    pthread_mutex_lock(&s->lock);
    if (l) {
        *s->last = l;
        s->last = &l->next;
    }
    s->no_memory |= !l;
    pthread_mutex_unlock(&s->lock);
}

bool sonar_session_take(sonar_session *s, sonar_session_message *message) {
    free(s->taken);
    pthread_mutex_lock(&s->lock);
    letter *l = s->taken = s->first;
    if (l)
        s->first = l->next;
    if (!s->first)
        s->last = &s->first;
    pthread_mutex_unlock(&s->lock);
    if (l)
        *message = l->message;
    return l != NULL;
}

/* ---- the log --------------------------------------------------------------------------------- */

static void log_line(void *ctx, sonar_level level, const char *where, const char *text) {
    const sonar_session *s = ctx;
    if (s->spec.log && sonar_feeder_tells(level, where))
        s->spec.log(s->spec.log_ctx, where, text);
}

static void log_loss(void *ctx, const char *text) {
    log_line(ctx, SONAR_WARN, "samples", text);
}

/* ---- samples --------------------------------------------------------------------------------- */

static int64_t utc_of(const sonar_session *s) {
    const double fs_hz = s->config->fs_hz, samples = (double)(s->feeder.done - s->timed);
    const double whole_s = floor(samples / fs_hz); /* seconds and rest: exact for years */
    const double rest = samples - whole_s * fs_hz;
    return s->utc_ns ? s->utc_ns + (int64_t)whole_s * 1000000000 + llrint(rest / fs_hz * 1e9) : 0;
}

static sonar_frame frame_of(const sonar_session *s, int type, size_t samples) {
    return (sonar_frame){.array_id = s->config->array_id,
                         .channels = (uint32_t)s->config->channels,
                         .samples = (uint32_t)samples,
                         .type = (uint8_t)type,
                         .layout = SONAR_FRAME_INTERLEAVED,
                         .flags = SONAR_FRAME_REPLAY,
                         .epoch = 1,
                         .sequence = s->sequence,
                         .first_sample = s->feeder.done,
                         .utc_ns = utc_of(s),
                         .fs_hz = s->config->fs_hz};
}

/* Inlined with a constant size, which makes it several times as fast. */
static inline void pick(const uint8_t *from, ptrdiff_t stride, size_t count, size_t size,
                        uint8_t *to) {
    for (size_t i = 0; i < count; i++, from += stride, to += size)
        memcpy(to, from, size);
}

/* Samples [from, from + count) of the block to [sample][channel]. */
static void gather(const sonar_session_samples *block, uint64_t from, size_t count, uint8_t *to) {
    const size_t size = sonar_dtype_size((sonar_dtype)block->type), channels = block->channels;
    const uint8_t *at = (const uint8_t *)block->data + (ptrdiff_t)from * block->sample_stride;
    for (size_t i = 0; i < count; i++, at += block->sample_stride, to += channels * size)
        if (block->channel_stride == (ptrdiff_t)size)
            memcpy(to, at, channels * size);
        else if (size == 2)
            pick(at, block->channel_stride, channels, 2, to);
        else
            pick(at, block->channel_stride, channels, 4, to);
}

static sonar_code send(sonar_session *s, const sonar_session_samples *block, uint64_t from,
                       size_t count, sonar_error *err) {
    uint8_t header[SONAR_FRAME_HEADER_BYTES];
    const sonar_frame frame = frame_of(s, block->type, count);
    gather(block, from, count, s->frame);
    sonar_frame_encode(&frame, header);
    s->sequence++;
    const sonar_code code = sonar_feeder_frame(&s->feeder, header, sizeof header, s->frame,
                                               sonar_frame_payload_bytes(&frame), err);
    return code ? code : sonar_feeder_advance(&s->feeder, count, err);
}

static sonar_code check(const sonar_session *s, const sonar_session_samples *block,
                        sonar_error *err) {
    const sonar_config *c = s->config;
    const int type = block->type;
    if (s->finished)
        return sonar_fail(err, SONAR_ESTATE, "samples", "the session is finished; open another");
    if (block->channels != c->channels)
        return sonar_fail(err, SONAR_EINVAL, "samples",
                          "%" PRIu32 " channels, but the configuration has %zu", block->channels,
                          c->channels);
    if (!(fabs(block->fs_hz - c->fs_hz) <= 1e-6 * c->fs_hz))
        return sonar_fail(err, SONAR_EINVAL, "samples",
                          "%.10g Hz, but the configuration has %.10g Hz (fs_hz)", block->fs_hz,
                          c->fs_hz);
    if (type != SONAR_SESSION_S16 && type != SONAR_SESSION_S32 && type != SONAR_SESSION_F32)
        return sonar_fail(err, SONAR_EINVAL, "samples",
                          "type %d; 1 (int16), 3 (int32) and 4 (float32) are accepted", type);
    if (c->sample_type == SONAR_S16 && type != SONAR_SESSION_S16)
        return sonar_fail(err, SONAR_EINVAL, "samples",
                          "int16 alone is accepted: ingest.sample_type is s16");
    return SONAR_OK;
}

static sonar_code feed(sonar_session *s, const sonar_session_samples *block, sonar_error *err) {
    sonar_code code = SONAR_OK;
    if (block->utc_ns) {
        s->utc_ns = block->utc_ns;
        s->timed = s->feeder.done;
    }
    if (!block->data)
        code = sonar_feeder_advance(&s->feeder, block->samples, err);
    for (uint64_t from = 0; block->data && from < block->samples && !code; from += FRAME_SAMPLES)
        code = send(s, block, from, sonar_min_size(FRAME_SAMPLES, block->samples - from), err);
    return code;
}

/* What has ended the session. */
static sonar_code lost(sonar_session *s, sonar_error *err) {
    if (s->failure.code)
        *err = s->failure;
    pthread_mutex_lock(&s->lock);
    const bool no_memory = s->no_memory;
    pthread_mutex_unlock(&s->lock);
    if (!s->failure.code && no_memory)
        sonar_fail(err, SONAR_ENOMEM, "messages", "no memory for those that wait to be taken");
    return err->code;
}

int sonar_session_feed(sonar_session *s, const sonar_session_samples *block, char *error,
                       size_t error_bytes) {
    sonar_error err = {0};
    if (lost(s, &err) || check(s, block, &err))
        return tell(&err, error, error_bytes);
    if (feed(s, block, &err))
        s->failure = err;
    return err.code ? tell(&err, error, error_bytes) : SONAR_OK;
}

/* ---- end ------------------------------------------------------------------------------------- */

static sonar_code finish(sonar_session *s, sonar_error *err) {
    const sonar_code code = sonar_feeder_finish(&s->feeder, err);
    if (code)
        return code;
    sonar_feeder_losses(&s->feeder, log_loss, s);
    if (!sonar_pipeline_stop(s->pipeline, FLUSH_MS))
        return sonar_fail(err, SONAR_ESTATE, "session", "a device does not answer");
    return lost(s, err);
}

int sonar_session_finish(sonar_session *s, char *error, size_t error_bytes) {
    sonar_error err = {0};
    if (!lost(s, &err) && !s->finished && finish(s, &err))
        s->failure = err;
    s->finished = true;
    return err.code ? tell(&err, error, error_bytes) : SONAR_OK;
}

void sonar_session_close(sonar_session *s) {
    sonar_session_message message;
    if (!s)
        return;
    sonar_pipeline_destroy(s->pipeline);
    while (sonar_session_take(s, &message))
        continue;
    sonar_config_destroy(s->config);
    pthread_mutex_destroy(&s->lock);
    free(s->frame);
    free(s);
}

/* ---- begin ----------------------------------------------------------------------------------- */

static sonar_code read_topics(sonar_session *s, sonar_error *err) {
    const char *list = s->spec.topics;
    if (!list)
        s->topics = sonar_topics_each(SONAR_EACH_WINDOW) & s->config->output_topics;
    for (size_t length; list && *list; list += length + (list[length] == ',')) {
        length = strcspn(list, ",");
        const sonar_surface topic = sonar_topic_named(list, length);
        if (topic == SONAR_SURFACES)
            return sonar_fail(err, SONAR_EINVAL, "topics",
                              "'%.*s' is not a topic; docs/reading.md names them", (int)length,
                              list);
        if (!(s->config->output_topics & SONAR_WANT(topic)))
            return sonar_fail(err, SONAR_EINVAL, "topics",
                              "the configuration has no %s (output.topics)",
                              sonar_topic_name(topic));
        s->topics |= SONAR_WANT(topic);
    }
    return s->topics ? SONAR_OK : sonar_fail(err, SONAR_EINVAL, "topics", "there is none");
}

/* With a configuration. */
static sonar_code begin(sonar_session *s, sonar_error *err) {
    sonar_code code = read_topics(s, err);
    if (code)
        return code;
    sonar_config_make_private(s->config);
    s->config->reader = &s->tap;
    s->frame = sonar_alloc(s->config->channels * FRAME_SAMPLES, sizeof(int32_t));
    if (!s->frame)
        return sonar_fail(err, SONAR_ENOMEM, "session", "no memory for a frame");
    code = sonar_pipeline_create(s->config, log_line, s, &s->pipeline, err);
    if (!code)
        code = sonar_pipeline_start(s->pipeline, err);
    s->feeder = (sonar_feeder){
        .pipeline = s->pipeline, .config = s->config, .ticked_ns = sonar_monotonic_ns()};
    return code;
}

static void write_report(const sonar_report *report, char *error, size_t error_bytes) {
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (to) {
        sonar_report_write(report, to);
        fclose(to);
    }
    if (error_bytes)
        snprintf(error, error_bytes, "%s", text ? text : "");
    free(text);
}

/* `text` NULL: from the file `name`. */
static int open_session(const char *name, const char *text, size_t bytes,
                        const sonar_session_spec *spec, sonar_session **session, char *error,
                        size_t error_bytes) {
    sonar_error err = {0};
    sonar_session *s = sonar_alloc(1, sizeof *s);
    sonar_report *report = sonar_report_create();
    *session = NULL;
    if (!s || !report) {
        free(s);
        sonar_report_destroy(report);
        sonar_fail(&err, SONAR_ENOMEM, "session", "no memory");
        return tell(&err, error, error_bytes);
    }
    s->spec = spec ? *spec : (sonar_session_spec){0};
    s->tap = (sonar_output_tap){.ctx = s, .wanted = wanted, .take = keep};
    s->last = &s->first;
    pthread_mutex_init(&s->lock, NULL);
    int code = text ? sonar_config_parse(name, text, bytes, &s->config, report)
                    : sonar_config_load(name, &s->config, report);
    if (code)
        write_report(report, error, error_bytes);
    else
        sonar_report_each(report, log_line, s);
    if (!code && begin(s, &err))
        code = tell(&err, error, error_bytes);
    sonar_report_destroy(report);
    if (code)
        sonar_session_close(s);
    else
        *session = s;
    return code;
}

int sonar_session_load(const char *path, const sonar_session_spec *spec, sonar_session **session,
                       char *error, size_t error_bytes) {
    return open_session(path, NULL, 0, spec, session, error, error_bytes);
}

int sonar_session_parse(const char *name, const char *text, size_t bytes,
                        const sonar_session_spec *spec, sonar_session **session, char *error,
                        size_t error_bytes) {
    return open_session(name, text, bytes, spec, session, error, error_bytes);
}
