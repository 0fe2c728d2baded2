/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/core.h"

enum { LINES = 128, LINE_BYTES = 1024 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more, written;
    char line[LINES][LINE_BYTES]; /* with their newline */
    size_t bytes[LINES];
    size_t first, count;
    uint64_t lost; /* not told yet */
    bool writing;  /* the thread is there */
    bool closing;
    bool journal;
    pthread_t thread;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Under a service manager (JOURNAL_STREAM set) the level goes in front as <n> and the journal adds
 * the time. Returns the length. */
static size_t format(sonar_level level, const char *where, const char *text,
                     char line[LINE_BYTES]) {
    static const char *const names[] = {"error", "warning", "info", "debug"};
    static const int syslog_levels[] = {3, 4, 6, 7};
    char when[32] = "";
    struct timespec now;
    struct tm utc;
    int length;
    if (queue.journal) {
        length = snprintf(line, LINE_BYTES, "<%d>%s: %s\n", syslog_levels[level], where, text);
    } else {
        clock_gettime(CLOCK_REALTIME, &now);
        gmtime_r(&now.tv_sec, &utc);
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &utc);
        length = snprintf(line, LINE_BYTES, "%s.%03ldZ %-7s %s: %s\n", when, now.tv_nsec / 1000000,
                          names[level], where, text);
    }
    size_t bytes = length < 0 ? 1 : sonar_min_size((size_t)length, LINE_BYTES - 1);
    line[bytes - 1] = '\n';
    return bytes;
}

void log_line(void *ctx, sonar_level level, const char *where, const char *text) {
    char line[LINE_BYTES];
    size_t bytes = format(level, where, text, line);
    (void)ctx;
    pthread_mutex_lock(&queue.lock);
    if (queue.count < LINES) {
        size_t last = (queue.first + queue.count++) % LINES;
        memcpy(queue.line[last], line, bytes);
        queue.bytes[last] = bytes;
    } else {
        queue.lost++;
    }
    pthread_cond_signal(&queue.more);
    pthread_mutex_unlock(&queue.lock);
}

/* One write a line where that can be, so that nobody else's comes in between. Standard error may be
 * shared and set to O_NONBLOCK by others. */
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

/* The oldest line, or how many are lost once the others are written. Under the lock. */
static size_t next_line(char line[LINE_BYTES]) {
    size_t bytes = 0;
    if (queue.count) {
        bytes = queue.bytes[queue.first];
        memcpy(line, queue.line[queue.first], bytes);
        queue.first = (queue.first + 1) % LINES;
        queue.count--;
    } else if (queue.lost) {
        char text[96];
        snprintf(text, sizeof text, "%llu lines of this log are lost: nobody read standard error",
                 (unsigned long long)queue.lost);
        queue.lost = 0;
        bytes = format(SONAR_WARN, "log", text, line);
    }
    return bytes;
}

static void *writer(void *arg) {
    char line[LINE_BYTES];
    (void)arg;
    pthread_mutex_lock(&queue.lock);
    for (;;) {
        size_t bytes = next_line(line);
        if (!bytes && queue.closing)
            break;
        if (!bytes) {
            pthread_cond_wait(&queue.more, &queue.lock);
            continue;
        }
        pthread_mutex_unlock(&queue.lock);
        write_line(line, bytes);
        pthread_mutex_lock(&queue.lock);
    }
    queue.writing = false;
    pthread_cond_signal(&queue.written);
    pthread_mutex_unlock(&queue.lock);
    return NULL;
}

sonar_code log_open(sonar_error *err) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&queue.more, &monotonic);
    pthread_cond_init(&queue.written, &monotonic);
    pthread_condattr_destroy(&monotonic);
    queue.journal = getenv("JOURNAL_STREAM") != NULL;
    queue.writing = true;
    return sonar_thread_start(NULL, "sonar-log", -1, writer, NULL, &queue.thread, err);
}

void log_close(int timeout_ms) {
    int64_t until_ns = sonar_monotonic_ns() + (int64_t)timeout_ms * 1000000;
    const struct timespec until = {.tv_sec = until_ns / 1000000000,
                                   .tv_nsec = until_ns % 1000000000};
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
