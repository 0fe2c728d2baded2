/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/core.h"
#include "log_kinds.h"

#ifdef SONAR_HAVE_SYSTEMD
#define SD_JOURNAL_SUPPRESS_LOCATION    /* otherwise the journal would record this file and line, not \
                                           sonard's field for the place */
#include <systemd/sd-journal.h>
#endif

enum { LINES = 128, LINE_BYTES = 1024, TEXT_BYTES = 800 };

typedef struct entry {
    sonar_level level;
    struct timespec utc;
    char where[sizeof((sonar_error *)0)->where],
        text[TEXT_BYTES]; /* where "": a text that is written as it is */
    char code[32];        /* code for programs, or "" */
} entry;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more, room, written;
    entry entry[LINES];
    size_t first, count;
    uint64_t lost; /* lines lost and not reported yet */
    log_kinds kinds;
    bool writing; /* the thread runs */
    bool closing;
    bool marked;  /* lines begin with their level, for the service manager */
    bool journal; /* write entries with fields instead of lines */
    pthread_t thread;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const int syslog_levels[] = {3, 4, 6, 7};

static const char *code_name(sonar_code code) {
    static const char *const names[] = {
        [SONAR_OK] = "ok",       [SONAR_EINVAL] = "invalid",  [SONAR_ENOMEM] = "memory",
        [SONAR_ESYS] = "system", [SONAR_EPROTO] = "protocol", [SONAR_EUNAVAILABLE] = "unavailable",
        [SONAR_ESTATE] = "state"};
    return names[code];
}

/* Peers can influence what is logged, so an entry is one line of clean text whatever they sent. The
 * place of a line about a condition of health is "health.CODE". */
static entry make_entry(sonar_level level, const char *where, const char *text) {
    entry e = {.level = level};
    clock_gettime(CLOCK_REALTIME, &e.utc);
    sonar_text_clean(where, strlen(where), e.where, sizeof e.where);
    sonar_text_clean(text, strlen(text), e.text, sizeof e.text);
    if (!strncmp(where, "health.", 7))
        snprintf(e.code, sizeof e.code, "%s", where + 7);
    return e;
}

/* Under a service manager (JOURNAL_STREAM set) the level goes in front as <n> and the journal adds
 * the time. Returns the length. */
static size_t format(const entry *e, char line[LINE_BYTES]) {
    static const char *const names[] = {"error", "warning", "info", "debug"};
    char when[32] = "";
    struct tm utc;
    int length;
    if (!e->where[0]) {
        length = snprintf(line, LINE_BYTES, "%s\n", e->text);
    } else if (queue.marked) {
        length =
            snprintf(line, LINE_BYTES, "<%d>%s: %s\n", syslog_levels[e->level], e->where, e->text);
    } else {
        gmtime_r(&e->utc.tv_sec, &utc);
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &utc);
        length = snprintf(line, LINE_BYTES, "%s.%03ldZ %-7s %s: %s\n", when,
                          e->utc.tv_nsec / 1000000, names[e->level], e->where, e->text);
    }
    size_t bytes = length < 0 ? 1 : sonar_min_size((size_t)length, LINE_BYTES - 1);
    line[bytes - 1] = '\n';
    return bytes;
}

/* Under the lock. */
static void append(const entry *e) {
    if (queue.count < LINES)
        queue.entry[(queue.first + queue.count++) % LINES] = *e;
    else
        queue.lost++;
}

static void queue_entry(const entry *e) {
    pthread_mutex_lock(&queue.lock);
    append(e);
    pthread_cond_signal(&queue.more);
    pthread_mutex_unlock(&queue.lock);
}

void log_line(void *ctx, sonar_level level, const char *where, const char *text) {
    const entry e = make_entry(level, where, text);
    (void)ctx;
    pthread_mutex_lock(&queue.lock);
    if (log_kinds_admit(&queue.kinds, level, e.where, sonar_monotonic_ns()))
        append(&e);
    pthread_cond_signal(&queue.more); /* also for a line that is left out, because its number must
                                         be reported in time */
    pthread_mutex_unlock(&queue.lock);
}

void log_error(const sonar_error *err) {
    entry e = make_entry(SONAR_ERROR, err->where, err->text);
    snprintf(e.code, sizeof e.code, "%s", code_name(err->code));
    queue_entry(&e);
}

static struct timespec after(int timeout_ms) {
    int64_t until_ns = sonar_monotonic_ns() + (int64_t)timeout_ms * 1000000;
    return (struct timespec){.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
}

static void wait_for_room(const struct timespec *until) {
    int timed_out = 0;
    pthread_mutex_lock(&queue.lock);
    while (queue.count == LINES && !timed_out)
        timed_out = pthread_cond_timedwait(&queue.room, &queue.lock, until);
    pthread_mutex_unlock(&queue.lock);
}

void log_text(const char *text, int timeout_ms) {
    const struct timespec until = after(timeout_ms);
    entry e = make_entry(SONAR_WARN, "", "");
    while (*text) {
        size_t bytes = sonar_min_size(strcspn(text, "\n"), sizeof e.text - 1);
        sonar_text_clean(text, bytes, e.text, sizeof e.text);
        wait_for_room(&until);
        queue_entry(&e);
        text += bytes + (text[bytes] == '\n');
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes each line with one call if possible, so that it is not mixed with other writers' output.
 * Standard error may be shared and set to O_NONBLOCK by others. */
static void write_line(const char *line, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(STDERR_FILENO, line + done, bytes - done);
        if (n < 0 && errno == EAGAIN)
            poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, -1);
        else if (n < 0 && errno != EINTR)
            return; /* a log that cannot be written must not stop the daemon */
        else if (n > 0)
            done += (size_t)n;
    }
}

/* True if the journal has accepted it. */
static bool write_to_journal(const entry *e) {
#ifdef SONAR_HAVE_SYSTEMD
    return queue.journal &&
           sd_journal_send("MESSAGE=%s%s%s", e->where, e->where[0] ? ": " : "", e->text,
                           "PRIORITY=%d", syslog_levels[e->level], "SONAR_WHERE=%s", e->where,
                           e->code[0] ? "SONAR_CODE=%s" : NULL, e->code, NULL) == 0;
#else
    (void)e;
    return false;
#endif
}

static void write_entry(const entry *e) {
    char line[LINE_BYTES];
    if (!write_to_journal(e))
        write_line(line, format(e, line));
}

/* A line with the number of lines left out of a kind that had too many; at the end, of all kinds.
 * Under the lock. */
static bool next_left_out(entry *e) {
    log_kind over;
    char text[96];
    if (!log_kinds_take(&queue.kinds, queue.closing ? INT64_MAX : sonar_monotonic_ns(), &over))
        return false;
    snprintf(text, sizeof text, "%llu more lines like these left out: %d in %d s are written",
             (unsigned long long)over.owed, LOG_LINES_A_PERIOD, LOG_PERIOD_S);
    *e = make_entry(over.level, over.where, text);
    return true;
}

/* A line with the number of lines that did not fit into the queue. Under the lock. */
static bool next_lost(entry *e) {
    char text[96];
    if (!queue.lost)
        return false;
    snprintf(text, sizeof text, "%llu lines of this log are lost: standard error was not read",
             (unsigned long long)queue.lost);
    queue.lost = 0;
    *e = make_entry(SONAR_WARN, "log", text);
    return true;
}

/* The oldest entry or, once all are written, a line about the entries left out; false: neither.
 * Under the lock. */
static bool next_entry(entry *e) {
    if (!queue.count)
        return next_lost(e) || next_left_out(e);
    *e = queue.entry[queue.first];
    queue.first = (queue.first + 1) % LINES;
    queue.count--;
    return true;
}

/* Waits until there is a line, or lines left out are to be reported. Under the lock. */
static void wait_for_more(void) {
    const int64_t due_ns = log_kinds_due_ns(&queue.kinds);
    const struct timespec due = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
    if (due_ns == INT64_MAX)
        pthread_cond_wait(&queue.more, &queue.lock);
    else
        pthread_cond_timedwait(&queue.more, &queue.lock, &due);
}

static void *writer(void *arg) {
    entry e;
    (void)arg;
    pthread_mutex_lock(&queue.lock);
    for (;;) {
        bool any = next_entry(&e);
        if (!any && queue.closing)
            break;
        if (!any) {
            wait_for_more();
            continue;
        }
        pthread_cond_signal(&queue.room);
        pthread_mutex_unlock(&queue.lock);
        write_entry(&e);
        pthread_mutex_lock(&queue.lock);
    }
    queue.writing = false;
    pthread_cond_signal(&queue.written);
    pthread_mutex_unlock(&queue.lock);
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* JOURNAL_STREAM has the device and inode of the stream to the journal. A standard error that was
 * redirected has others, and gets lines. */
static bool is_journal(int fd) {
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat stat;
    return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && !fstat(fd, &stat) &&
           stat.st_dev == device && stat.st_ino == inode;
}

sonar_code log_open(sonar_error *err) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&queue.more, &monotonic);
    pthread_cond_init(&queue.room, &monotonic);
    pthread_cond_init(&queue.written, &monotonic);
    pthread_condattr_destroy(&monotonic);
    queue.marked = getenv("JOURNAL_STREAM") != NULL;
    queue.journal = is_journal(STDERR_FILENO);
    queue.writing = true;
    return sonar_thread_start(NULL, "sonar-log", -1, writer, NULL, &queue.thread, err);
}

void log_close(int timeout_ms) {
    const struct timespec until = after(timeout_ms);
    pthread_mutex_lock(&queue.lock);
    queue.closing = true;
    pthread_cond_signal(&queue.more);
    int timed_out = 0;
    while (queue.writing && !timed_out)
        timed_out = pthread_cond_timedwait(&queue.written, &queue.lock, &until);
    bool written = !queue.writing;
    pthread_mutex_unlock(&queue.lock);
    if (written)
        pthread_join(queue.thread, NULL);
}
