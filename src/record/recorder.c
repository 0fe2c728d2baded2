/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The recorder's thread, and the functions by which others control it. */
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/count.h"
#include "record/pieces.h"
#include "record/segment.h"

enum { TURN_MS = 100, BATCH = 64 };
static const int64_t sync_every_ns = 500000000, look_every_ns = 5000000000, grace_ns = 1000000000;

/* The metadata, without the facts that follow from the samples. */
typedef struct description {
    char *about, *geometry;
} description;

struct sonar_recorder {
    sonar_recorder_spec spec; /* its texts are not valid after create */
    char name[80];            /* suitable for a file name */
    const sonar_host *host;
    char *path; /* of the folder */
    int directory;
    sonar_pieces pieces;
    sonar_stretch_sink sink;
    sonar_record_counters counters;
    pthread_t thread;
    bool started;
    atomic_bool asked, leaving;
    _Atomic int64_t deadline_ns;

    pthread_mutex_t lock; /* protects the three members below; held only for copying */
    description fresh;    /* to be adopted, or NULL */
    char file[SONAR_RECORD_TEXT], why[SONAR_RECORD_TEXT];
    bool failed; /* the reason why it does not record, until it is started again */

    /* the recorder's thread */
    description now;
    sonar_segment segment;
    size_t batched;
    sonar_piece *batch[BATCH]; /* booked and not yet written */
    bool recording, stopping;
    uint64_t flushes; /* flushes of the filling thread when stopping began */
    int64_t stopping_ns, synced_ns, looked_ns;
    int64_t keep_from_ns; /* no check for old segments before that */
};

/* ---- create and destroy ---------------------------------------------------------------------- */

/* Keeps letters, digits and a few signs; a file name may have these. */
static void make_name(const char *from, char name[80]) {
    size_t n = 0;
    for (; *from && n + 1 < 80; from++)
        name[n++] =
            strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+", *from)
                ? *from
                : '_';
    name[n] = '\0';
}

static void clear(description *d) {
    free(d->about);
    free(d->geometry);
    *d = (description){0};
}

static bool copy(const char *about, const char *geometry, description *to) {
    *to = (description){strdup(about), strdup(geometry)};
    if (to->about && to->geometry)
        return true;
    clear(to);
    return false;
}

/* A hint at the service's unit, if that may be the cause. */
static const char *remedy(int why) {
    return why == EROFS    ? "; ReadWritePaths= of a service's unit must name the folder"
           : why == EACCES ? "; its owner, or a group of it, must be the daemon's "
                             "(SupplementaryGroups= of a service's unit)"
                           : "";
}

/* Opens the folder that the path names now; it may have been replaced. */
static sonar_code open_directory(sonar_recorder *r, sonar_error *err) {
    const int directory = open(r->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return sonar_fail(err, SONAR_EUNAVAILABLE, "record.directory", "%s cannot be opened: %s%s",
                          r->path, strerror(errno), remedy(errno));
    if (r->directory >= 0)
        close(r->directory);
    r->directory = directory;
    if (faccessat(r->directory, ".", W_OK | X_OK, AT_EACCESS))
        return sonar_fail(err, SONAR_EUNAVAILABLE, "record.directory", "%s cannot be written: %s%s",
                          r->path, strerror(errno), remedy(errno));
    return SONAR_OK;
}

static sonar_code set_up(sonar_recorder *r, sonar_error *err) {
    r->path = strdup(r->spec.directory);
    if (!r->path)
        return sonar_fail(err, SONAR_ENOMEM, "record", "no memory");
    const sonar_code code = open_directory(r, err);
    if (code)
        return code;
    sonar_pieces_plan(&r->spec, &r->pieces);
    r->pieces.counters = &r->counters;
    make_name(r->spec.name, r->name);
    if (sonar_pieces_create(&r->pieces) && copy(r->spec.about, r->spec.geometry, &r->now) &&
        sonar_segment_init(&r->segment, &r->spec, r->pieces.samples))
        return SONAR_OK;
    return sonar_fail(err, SONAR_ENOMEM, "record",
                      "no memory for %zu bytes of data that wait for the disk",
                      sonar_recorder_bytes(&r->spec));
}

sonar_code sonar_recorder_create(const sonar_recorder_spec *spec, const sonar_host *host,
                                 sonar_recorder **recorder, sonar_error *err) {
    *recorder = NULL;
    sonar_recorder *r = sonar_alloc(1, sizeof *r);
    if (!r)
        return sonar_fail(err, SONAR_ENOMEM, "record", "no memory");
    r->spec = *spec;
    r->host = host;
    r->directory = r->pieces.wake = r->segment.data = r->segment.index = -1;
    r->sink = (sonar_stretch_sink){&r->pieces, sonar_samples_wanted, sonar_samples_take,
                                   sonar_samples_flush};
    pthread_mutex_init(&r->lock, NULL);
    const sonar_code code = set_up(r, err);
    r->spec.directory = r->spec.name = r->spec.about = r->spec.geometry = NULL;
    if (code)
        sonar_recorder_destroy(r);
    else
        *recorder = r;
    return code;
}

void sonar_recorder_destroy(sonar_recorder *r) {
    if (!r)
        return;
    if (!sonar_recorder_stop(r, 0))
        pthread_join(r->thread, NULL);
    sonar_segment_clear(&r->segment);
    sonar_pieces_destroy(&r->pieces);
    clear(&r->now);
    clear(&r->fresh);
    free(r->path);
    if (r->directory >= 0)
        close(r->directory);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ---- the recorder's thread: segments --------------------------------------------------------- */

static void tell_file(sonar_recorder *r, const char *file) {
    pthread_mutex_lock(&r->lock);
    snprintf(r->file, sizeof r->file, "%s", file);
    pthread_mutex_unlock(&r->lock);
}

static uint64_t weight_of(const sonar_recorder *r, const sonar_piece *piece) {
    return r->spec.kind == SONAR_RECORD_RAW ? piece->about.samples : piece->begins;
}

static void lose(sonar_recorder *r, sonar_piece *piece) {
    sonar_count_add(&r->counters.dropped[SONAR_RECORD_FAILED], weight_of(r, piece));
    sonar_ring_push(r->pieces.empty, piece);
}

/* After any failure samples continue, and only the recording ends. */
static void give_up(sonar_recorder *r, const sonar_error *err) {
    atomic_store_explicit(&r->pieces.wanted, false, memory_order_release);
    r->recording = r->stopping = false;
    while (r->batched)
        lose(r, r->batch[--r->batched]);
    sonar_segment_end(&r->segment, NULL);
    sonar_count_add(&r->counters.stopped, 1);
    sonar_count_set(&r->counters.on, 0);
    pthread_mutex_lock(&r->lock);
    r->failed = true;
    snprintf(r->why, sizeof r->why, "%.*s", SONAR_RECORD_TEXT - 1, err->text);
    r->file[0] = '\0';
    pthread_mutex_unlock(&r->lock);
    sonar_log(r->host, SONAR_ERROR, "record", "recording has stopped: %s", err->text);
}

static sonar_code check_space(const sonar_recorder *r, sonar_error *err) {
    struct statvfs fs;
    if (!r->spec.free_bytes || fstatvfs(r->directory, &fs))
        return SONAR_OK;
    const uint64_t bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (bytes >= r->spec.free_bytes)
        return SONAR_OK;
    return sonar_fail(
        err, SONAR_ESYS, "record", "the disk has %llu MiB left, record.free_mib is %llu",
        (unsigned long long)bytes >> 20, (unsigned long long)r->spec.free_bytes >> 20);
}

/* Samples wait during a check of the folder. At most a tenth of the time is spent on checks,
 * however many files there are. */
static void keep(sonar_recorder *r) {
    const int64_t began_ns = sonar_monotonic_ns();
    if ((!r->spec.keep_bytes && !(r->spec.keep_s > 0)) || began_ns < r->keep_from_ns)
        return;
    const sonar_kept kept =
        sonar_keep(r->directory, r->name, r->segment.open ? r->segment.stem : "",
                   r->spec.keep_bytes, r->spec.keep_s);
    sonar_count_add(&r->counters.deleted, kept.deleted);
    sonar_count_set(&r->counters.future, kept.future);
    const int64_t ended_ns = sonar_monotonic_ns();
    r->keep_from_ns = ended_ns + 9 * (ended_ns - began_ns);
}

static sonar_code begin_segment(sonar_recorder *r, sonar_error *err) {
    sonar_code code = open_directory(r, err);
    if (code)
        return code;
    keep(r);
    code = check_space(r, err);
    if (!code)
        code = sonar_segment_begin(&r->segment, r->directory, r->name, err);
    if (code)
        return code;
    if (r->spec.keep_bytes)
        sonar_order_note(r->directory, r->name, r->segment.stem);
    sonar_count_add(&r->counters.segments, 1);
    tell_file(r, r->segment.stem);
    sonar_log(r->host, SONAR_INFO, "record", "writing %s", r->segment.stem);
    return SONAR_OK;
}

static bool is_full(const sonar_recorder *r) {
    const sonar_segment *s = &r->segment;
    return s->booked >= r->spec.segment_bytes ||
           (double)(sonar_monotonic_ns() - s->began_ns) * 1e-9 >= r->spec.segment_s;
}

/* A new description begins a new segment. */
static bool take_description(sonar_recorder *r) {
    pthread_mutex_lock(&r->lock);
    const description fresh = r->fresh;
    r->fresh = (description){0};
    pthread_mutex_unlock(&r->lock);
    if (!fresh.about)
        return false;
    clear(&r->now);
    r->now = fresh;
    return true;
}

/* ---- the recorder's thread: pieces ----------------------------------------------------------- */

/* Writes the booked pieces to the file, after the metadata that describe them. */
static sonar_code write_batch(sonar_recorder *r, sonar_error *err) {
    sonar_code code =
        r->batched ? sonar_segment_write_metadata(&r->segment, r->now.about, r->now.geometry, err)
                   : SONAR_OK;
    for (size_t i = 0; i < r->batched; i++) {
        const uint64_t before = r->segment.bytes;
        if (!code)
            code = sonar_segment_append(&r->segment, r->batch[i], err);
        sonar_count_add(&r->counters.bytes, r->segment.bytes - before);
        if (code)
            lose(r, r->batch[i]);
        else
            sonar_ring_push(r->pieces.empty, r->batch[i]);
    }
    r->batched = 0;
    return code;
}

/* Books the piece in the segment, or in a new one if that is full. Messages are not divided. */
static sonar_code book(sonar_recorder *r, const sonar_piece *piece, sonar_error *err) {
    const bool raw = r->spec.kind == SONAR_RECORD_RAW, cut = raw || piece->begins;
    bool full = r->segment.open && cut && (is_full(r) || take_description(r));
    for (int tries = 0; tries < 2; tries++) {
        sonar_code code = full ? write_batch(r, err) : SONAR_OK;
        if (full && !code)
            code = sonar_segment_end(&r->segment, err);
        if (!code && !r->segment.open) {
            take_description(r);
            code = begin_segment(r, err);
        }
        if (code || sonar_segment_book(&r->segment, piece))
            return code;
        full = true;
    }
    return sonar_fail(err, SONAR_ESTATE, "record",
                      "a piece has more gaps than fit into the metadata");
}

static void take(sonar_recorder *r, sonar_piece *piece) {
    sonar_error err;
    if (r->recording && !book(r, piece, &err)) {
        r->batch[r->batched++] = piece;
        return;
    }
    lose(r, piece);
    if (r->recording)
        give_up(r, &err);
}

/* Writes some of the filled pieces; returns true if there may be more. Discards them while not
 * recording. */
static bool take_pieces(sonar_recorder *r) {
    sonar_error err;
    size_t taken = 0;
    for (sonar_piece *piece; taken < BATCH && (piece = sonar_ring_pop(r->pieces.filled)); taken++)
        take(r, piece);
    if (write_batch(r, &err))
        give_up(r, &err);
    return taken == BATCH;
}

/* Twice a second: writes to disk; from time to time: deletes old segments and checks the free
 * space. */
static void look_after(sonar_recorder *r) {
    const int64_t now_ns = sonar_monotonic_ns();
    sonar_error err;
    sonar_code code = SONAR_OK;
    if (!r->recording || !r->segment.open)
        return;
    if (now_ns - r->synced_ns >= sync_every_ns) {
        code = sonar_segment_sync(&r->segment, &err);
        if (!code)
            code = check_space(r, &err);
        r->synced_ns = now_ns;
    }
    if (!code && now_ns - r->looked_ns >= look_every_ns) {
        keep(r);
        r->looked_ns = now_ns;
    }
    if (code)
        give_up(r, &err);
}

/* ---- the recorder's thread: requests --------------------------------------------------------- */

static void begin(sonar_recorder *r) {
    r->recording = true;
    r->stopping = false;
    sonar_count_set(&r->counters.on, 1);
    atomic_store_explicit(&r->pieces.wanted, true, memory_order_release);
}

static void finish(sonar_recorder *r) {
    sonar_error err;
    if (!r->recording)
        return;
    r->recording = r->stopping = false;
    sonar_count_set(&r->counters.on, 0);
    if (sonar_segment_end(&r->segment, &err))
        give_up(r, &err);
    else
        sonar_log(r->host, SONAR_INFO, "record", "not recording");
    tell_file(r, "");
    if (r->directory >= 0) { /* in the end there is no more than is to be kept */
        r->keep_from_ns = 0;
        keep(r);
    }
}

/* True if the filling thread has flushed twice since, so that nothing more follows, or if it does
 * not run. */
static bool has_emptied(const sonar_recorder *r) {
    const uint64_t flushes = atomic_load_explicit(&r->pieces.flushes, memory_order_acquire);
    return flushes >= r->flushes + 2 || sonar_monotonic_ns() - r->stopping_ns > grace_ns;
}

static void obey(sonar_recorder *r) {
    const bool asked = atomic_load(&r->asked);
    pthread_mutex_lock(&r->lock);
    const bool failed = r->failed;
    pthread_mutex_unlock(&r->lock);
    if (asked && !failed && (!r->recording || r->stopping)) {
        begin(r);
    } else if (!asked && r->recording && !r->stopping) {
        atomic_store_explicit(&r->pieces.wanted, false, memory_order_release);
        r->stopping = true;
        r->flushes = atomic_load_explicit(&r->pieces.flushes, memory_order_acquire);
        r->stopping_ns = sonar_monotonic_ns();
    } else if (r->stopping && has_emptied(r)) {
        while (take_pieces(r))
            continue;
        finish(r);
    }
}

/* True if the thread should end now: after writing what is filled, or without that once the time is
 * over. */
static bool leave(sonar_recorder *r) {
    if (!atomic_load(&r->leaving))
        return false;
    while (sonar_monotonic_ns() < atomic_load(&r->deadline_ns) && take_pieces(r))
        continue;
    for (sonar_piece *piece; (piece = sonar_ring_pop(r->pieces.filled));)
        lose(r, piece);
    finish(r);
    return true;
}

/* The thread is not woken for each piece, so that pieces of a tenth of a second are written
 * together. */
static void *record(void *arg) {
    sonar_recorder *r = arg;
    while (!leave(r)) {
        obey(r);
        if (!take_pieces(r))
            sonar_wake_wait(r->pieces.wake, TURN_MS);
        look_after(r);
    }
    return NULL;
}

/* ---- functions for other threads ------------------------------------------------------------- */

/* A requested recording begins here, because samples may arrive before the thread first runs. */
sonar_code sonar_recorder_start(sonar_recorder *r, sonar_error *err) {
    obey(r);
    const sonar_code code =
        sonar_thread_start(r->host, "sonar-record", -1, record, r, &r->thread, err);
    r->started = !code;
    return code;
}

bool sonar_recorder_stop(sonar_recorder *r, int timeout_ms) {
    enum { SYNC_MS = 300 }; /* for the last bytes */
    if (!r || !r->started)
        return true;
    atomic_store(&r->deadline_ns, sonar_monotonic_ns() + (int64_t)timeout_ms * 1000000);
    atomic_store(&r->leaving, true);
    sonar_wake_signal(r->pieces.wake);
    r->started = !sonar_thread_join(r->thread, timeout_ms + SYNC_MS);
    return !r->started;
}

void sonar_recorder_ask(sonar_recorder *r, bool record) {
    pthread_mutex_lock(&r->lock);
    r->failed = false;
    r->why[0] = '\0';
    pthread_mutex_unlock(&r->lock);
    atomic_store(&r->asked, record);
    sonar_wake_signal(r->pieces.wake);
}

sonar_code sonar_recorder_describe(sonar_recorder *r, const char *about, const char *geometry,
                                   sonar_error *err) {
    description fresh;
    if (!copy(about, geometry, &fresh))
        return sonar_fail(err, SONAR_ENOMEM, "record", "no memory");
    pthread_mutex_lock(&r->lock);
    clear(&r->fresh);
    r->fresh = fresh;
    pthread_mutex_unlock(&r->lock);
    return SONAR_OK;
}

void sonar_recorder_read(sonar_recorder *r, sonar_recording *to) {
    to->kind = r->spec.kind;
    to->asked = atomic_load(&r->asked);
    sonar_count_copy(&to->counters, &r->counters, sizeof to->counters);
    to->counters.waiting = sonar_ring_count(r->pieces.filled) * r->pieces.piece_bytes;
    pthread_mutex_lock(&r->lock);
    to->failed = r->failed;
    memcpy(to->file, r->file, sizeof to->file);
    memcpy(to->why, r->why, sizeof to->why);
    pthread_mutex_unlock(&r->lock);
}

const char *sonar_recorder_directory(const sonar_recorder *r) {
    return r->path;
}

const sonar_stretch_sink *sonar_recorder_sink(sonar_recorder *r) {
    return &r->sink;
}

uint32_t sonar_recorder_wanted(void *recorder) {
    const sonar_recorder *r = recorder;
    return atomic_load_explicit(&r->pieces.wanted, memory_order_acquire) ? r->spec.topics : 0;
}

void sonar_recorder_message(void *recorder, sonar_surface surface, const char *header,
                            const void *data, size_t bytes) {
    sonar_recorder *r = recorder;
    if (sonar_recorder_wanted(r) & SONAR_WANT(surface))
        sonar_messages_take(&r->pieces, surface, header, data, bytes);
}

void sonar_recorder_tick(void *recorder) {
    sonar_samples_flush(&((sonar_recorder *)recorder)->pieces);
}
