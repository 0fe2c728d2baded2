/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Programs and sockets for end-to-end tests: start and stop processes, subscribe, count messages.
 */
#ifndef TEST_PROCESS_H
#define TEST_PROCESS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A temporary folder for one test: configuration, ipc endpoints, logs. Removed by box_close. */
typedef struct box {
    char dir[64];
} box;

box box_open(void);
void box_close(box *box);
/* dir/name; the returned buffer is one of a few static ones. */
const char *box_path(const box *box, const char *name);
void box_write(const box *box, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Whole file as text, malloc'ed; empty if it does not exist. */
char *box_read(const box *box, const char *name);
/* Number of entries of a folder; 0 if it does not exist. */
size_t entries_of(const char *folder);

/* Starts bin/program with NULL-terminated arguments, its stdout and stderr going to box/log. */
pid_t process_start(const box *box, const char *log, const char *program, ...)
    __attribute__((sentinel));
/* Exit status, or 128 + signal; -1 if it still runs after timeout_ms (it is killed then). */
int process_wait(pid_t pid, int timeout_ms);
/* The same; *cpu_s: processor time of the whole child, set if it has ended. */
int process_wait_cpu(pid_t pid, int timeout_ms, double *cpu_s);
/* Processor time of a running child so far. */
double process_cpu_s(pid_t pid);
bool process_running(pid_t pid);

/* Stops one thread of a child by ptrace while the others run, to simulate a thread that is far
 * behind. Returns the thread's id, or -1 if no thread has that name or the system forbids it. Only
 * the same thread of the test can resume it. */
pid_t thread_hold(pid_t pid, const char *name);
void thread_release(pid_t thread);

/* A message of the daemon: the header and a copy of the array. */
typedef struct message {
    char topic[32];
    cJSON *head;
    float *data;
    size_t count, bytes;
} message;

/* A SUB socket with its context. topics: NULL-terminated list. */
typedef struct subscriber {
    void *context, *socket;
} subscriber;

subscriber subscribe(const char *endpoint, ...) __attribute__((sentinel));
/* False after timeout_ms without a message. */
bool receive(subscriber *subscriber, message *message, int timeout_ms);
void message_free(message *message);
void unsubscribe(subscriber *subscriber);

/* Number at a dotted path of the header, NaN if absent, e.g. "frames.dropped.late". */
double header_number(const cJSON *head, const char *path);
/* Receives until a message of `topic` arrives whose number at `path` is at least `value`, or the
 * time has expired. The caller frees *message if true. */
bool receive_until(subscriber *subscriber, const char *topic, const char *path, double value,
                   int timeout_ms, message *message);
/* Receives until a status shows that a topic with this prefix is wanted. A subscription may reach
 * the daemon late, and windows before that are not computed. False after a minute. The caller frees
 * *status if true. */
bool receive_ready(subscriber *subscriber, const char *topic, message *status);

#endif
