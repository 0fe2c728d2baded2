/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * libsonar for other programs: samples in, the messages of sonard out, in one process and without
 * sockets. The shared library exports the functions of this header and nothing else.
 *
 *     char error[4096];
 *     sonar_session *session = NULL;
 *     sonar_session_message message;
 *     sonar_session_load("array.yaml", NULL, &session, error, sizeof error);
 *     sonar_session_feed(session, &samples, error, sizeof error);    as often as there are samples
 *     sonar_session_finish(session, error, sizeof error);
 *     while (sonar_session_take(session, &message))
 *         ...
 *     sonar_session_close(session);
 *
 * Messages are those that sonard publishes of the same samples under the same configuration, byte
 * for byte, except the fields run, latency_us and seq of their headers (docs/reading.md). Options
 * that are a daemon's own have no effect: sockets, keys, recordings, navigation, processors. The
 * session takes all processors that the process may run on.
 *
 * Errors: a function that can fail returns 0 (SONAR_OK) or a sonar_code, and writes one or several
 * lines for the user to error[error_bytes]. NULL and 0 are allowed: no text is wanted.
 * Threads: one thread at a time calls the functions of a session; several sessions are independent.
 * A session has threads of its own, in which all signals are blocked. It does not survive a fork.
 * Nothing is printed, the process is never ended, and no signal handler is installed.
 */
#ifndef SONAR_SESSION_H
#define SONAR_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sonar/code.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sonar_session sonar_session;

/* Types of samples; the host's byte order, which is little-endian. Integers are counts. */
enum { SONAR_SESSION_S16 = 1, SONAR_SESSION_S32 = 3, SONAR_SESSION_F32 = 4 };

/* A block of samples, borrowed during the call. Sample i of channel c is at data + c *
 * channel_stride + i * sample_stride; strides are in bytes and may be negative, and no alignment is
 * needed. */
typedef struct sonar_session_samples {
    const void *data; /* NULL: these samples are missing, a gap */
    int type;
    uint32_t channels; /* those of the configuration */
    uint64_t samples;  /* of each channel */
    ptrdiff_t channel_stride, sample_stride;
    double fs_hz;   /* that of the configuration */
    int64_t utc_ns; /* of the first sample, since 1970; 0: it follows from the blocks before, or is
                       unknown if none had a time */
} sonar_session_samples;

/* A message as sonard publishes it. Valid until the next take or close. */
typedef struct sonar_session_message {
    const char *topic;  /* such as cbf.azimuth */
    const char *header; /* JSON: docs/reading.md; ends with a zero byte that does not count */
    size_t header_bytes;
    const void *data; /* the array, as the header says; 16-byte aligned */
    size_t data_bytes;
} sonar_session_message;

/* What a program may know but need not act on, such as a sensor that is dead or a block that was
 * refused: one line without newline, borrowed until it returns. Any thread of the session, also
 * several at once; it must not call the session. */
typedef void sonar_session_log(void *ctx, const char *where, const char *text);

typedef struct sonar_session_spec {
    /* With commas, as in output.topics of the configuration; NULL: those that every window brings
     * without being asked for by name. Only what these need is computed. */
    const char *topics;
    sonar_session_log *log; /* NULL: not wanted */
    void *log_ctx;
} sonar_session_spec;

/* Version of the library, such as 0.1.0. Static. */
const char *sonar_session_version(void);

/* Begins a session from a configuration file, as sonard reads it, or from the text of one: `name`
 * stands for the file in messages, and relative paths start at the current folder. `spec` may be
 * NULL: all zero. On SONAR_OK the caller closes *session; otherwise it is NULL. SONAR_EINVAL: error
 * lists all mistakes of the configuration, or of the topics. */
int sonar_session_load(const char *path, const sonar_session_spec *spec, sonar_session **session,
                       char *error, size_t error_bytes);
int sonar_session_parse(const char *name, const char *text, size_t bytes,
                        const sonar_session_spec *spec, sonar_session **session, char *error,
                        size_t error_bytes);

/* Takes all samples of the block, which follow on those of the block before. Waits for processors
 * as long as needed. As in sonard, up to 256 samples of all channels are refused together, and
 * count as missing, if one of them is not finite or no sound can have made it (ingest.drop_spikes).
 * SONAR_EINVAL: the block does not fit the configuration; nothing of it was taken. SONAR_ESTATE:
 * after finish. Other errors have ended the session, which can only be closed. */
int sonar_session_feed(sonar_session *session, const sonar_session_samples *block, char *error,
                       size_t error_bytes);

/* No samples follow. Waits until all messages can be taken. Errors are those of feed. */
int sonar_session_finish(sonar_session *session, char *error, size_t error_bytes);

/* The oldest message that was not taken yet; false: there is none now, and after finish none comes
 * any more. Messages are kept in memory until they are taken. */
bool sonar_session_take(sonar_session *session, sonar_session_message *message);

/* NULL is allowed. Without finish, what is unfinished is discarded. */
void sonar_session_close(sonar_session *session);

#ifdef __cplusplus
}
#endif
#endif
