/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"

#include "text.h"

/* ---- box ------------------------------------------------------------------------------------- */

static void die(const char *what) {
    perror(what);
    abort();
}

box box_open(void) {
    box box = {.dir = "/tmp/sonard-test-XXXXXX"};
    if (!mkdtemp(box.dir))
        die("mkdtemp");
    return box;
}

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

void box_close(box *box) {
    if (!getenv("SONAR_TEST_KEEP"))
        nftw(box->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

const char *box_path(const box *box, const char *name) {
    static char paths[8][256];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", box->dir, name);
    return path;
}

void box_write(const box *box, const char *name, const char *format, ...) {
    FILE *file = fopen(box_path(box, name), "w");
    if (!file)
        die(name);
    va_list args;
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    fclose(file);
}

char *box_read(const box *box, const char *name) {
    char *text = text_read(box_path(box, name), NULL);
    return text ? text : calloc(1, 1);
}

size_t entries_of(const char *folder) {
    size_t count = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 2; /* . and .. */
}

/* ---- processes ------------------------------------------------------------------------------- */

pid_t process_start(const box *box, const char *log, const char *program, ...) {
    char path[512];
    char *argv[64] = {path};
    snprintf(path, sizeof path, "%s/%s", SONAR_BIN_DIR, program);
    va_list args;
    va_start(args, program);
    for (int i = 1; i < 63 && (argv[i] = va_arg(args, char *)); i++)
        ;
    va_end(args);
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing running */
    int fd = open(box_path(box, log), O_CREAT | O_WRONLY | O_APPEND, 0600);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    unsetenv("JOURNAL_STREAM");
    execv(path, argv);
    perror(path);
    _exit(127);
}

static int decode(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static double seconds(struct timeval t) {
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

double process_cpu_s(pid_t pid) {
    clockid_t clock;
    struct timespec used = {0};
    return clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &used)
               ? NAN
               : (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

int process_wait(pid_t pid, int timeout_ms) {
    return process_wait_cpu(pid, timeout_ms, NULL);
}

int process_wait_cpu(pid_t pid, int timeout_ms, double *cpu_s) {
    int64_t until = sonar_monotonic_ns() + (int64_t)timeout_ms * 1000000;
    struct rusage usage;
    int status;
    while (sonar_monotonic_ns() < until) {
        pid_t done = wait4(pid, &status, WNOHANG, &usage);
        if (done == pid && cpu_s)
            *cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
        if (done == pid)
            return decode(status);
        if (done < 0)
            return -1;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}

bool process_running(pid_t pid) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

static bool is_named(pid_t pid, const char *thread, const char *name) {
    char path[64], text[32] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/comm", (int)pid, thread);
    FILE *file = fopen(path, "r");
    bool read = file && fgets(text, sizeof text, file);
    if (file)
        fclose(file);
    text[strcspn(text, "\n")] = '\0';
    return read && !strcmp(text, name);
}

static pid_t find_thread(pid_t pid, const char *name) {
    char path[64];
    pid_t found = -1;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks && found < 0 && (entry = readdir(tasks));)
        if (is_named(pid, entry->d_name, name))
            found = atoi(entry->d_name);
    if (tasks)
        closedir(tasks);
    return found;
}

pid_t thread_hold(pid_t pid, const char *name) {
    pid_t thread = find_thread(pid, name);
    if (thread < 0 || ptrace(PTRACE_SEIZE, thread, NULL, NULL))
        return -1;
    if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0 &&
        waitpid(thread, NULL, __WALL) == thread)
        return thread;
    thread_release(thread);
    return -1;
}

void thread_release(pid_t thread) {
    if (ptrace(PTRACE_DETACH, thread, NULL, NULL))
        waitpid(thread, NULL,
                __WALL | WNOHANG); /* it ended; its process has not, until it is seen */
}

/* ---- subscriber ------------------------------------------------------------------------------ */

subscriber subscribe(const char *endpoint, ...) {
    subscriber s = {.context = zmq_ctx_new()};
    s.socket = zmq_socket(s.context, ZMQ_SUB);
    int mark = 100000, linger = 0;
    zmq_setsockopt(s.socket, ZMQ_RCVHWM, &mark, sizeof mark);
    zmq_setsockopt(s.socket, ZMQ_LINGER, &linger, sizeof linger);
    va_list args;
    va_start(args, endpoint);
    for (const char *topic; (topic = va_arg(args, const char *));)
        zmq_setsockopt(s.socket, ZMQ_SUBSCRIBE, topic, strlen(topic));
    va_end(args);
    if (zmq_connect(s.socket, endpoint))
        die(endpoint);
    return s;
}

void unsubscribe(subscriber *subscriber) {
    zmq_close(subscriber->socket);
    zmq_ctx_term(subscriber->context);
}

static bool part(void *socket, zmq_msg_t *to) {
    zmq_msg_init(to);
    return zmq_msg_recv(to, socket, 0) >= 0;
}

bool receive(subscriber *subscriber, message *message, int timeout_ms) {
    zmq_msg_t topic, head, body;
    zmq_setsockopt(subscriber->socket, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    *message = (struct message){0};
    if (!part(subscriber->socket, &topic))
        return false;
    part(subscriber->socket, &head);
    part(subscriber->socket, &body);
    size_t length = sonar_min_size(zmq_msg_size(&topic), sizeof message->topic - 1);
    memcpy(message->topic, zmq_msg_data(&topic), length);
    message->head = cJSON_ParseWithLength(zmq_msg_data(&head), zmq_msg_size(&head));
    message->bytes = zmq_msg_size(&body);
    message->count = message->bytes / sizeof(float);
    message->data = malloc(message->bytes + 1);
    memcpy(message->data, zmq_msg_data(&body), message->bytes);
    zmq_msg_close(&topic);
    zmq_msg_close(&head);
    zmq_msg_close(&body);
    return true;
}

void message_free(message *message) {
    cJSON_Delete(message->head);
    free(message->data);
    *message = (struct message){0};
}

double header_number(const cJSON *head, const char *path) {
    char copy[128], *rest = copy;
    snprintf(copy, sizeof copy, "%s", path);
    for (char *key; head && (key = strsep(&rest, "."));)
        head = cJSON_GetObjectItemCaseSensitive(head, key);
    return cJSON_IsNumber(head) ? head->valuedouble : NAN;
}

bool receive_until(subscriber *subscriber, const char *topic, const char *path, double value,
                   int timeout_ms, message *message) {
    int64_t until = sonar_monotonic_ns() + (int64_t)timeout_ms * 1000000;
    for (;;) {
        int64_t left = (until - sonar_monotonic_ns()) / 1000000;
        if (left <= 0 || !receive(subscriber, message, (int)left))
            return false;
        if (!strcmp(message->topic, topic) && header_number(message->head, path) >= value)
            return true;
        message_free(message);
    }
}

static bool is_wanted(const cJSON *head, const char *topic) {
    const cJSON *output = cJSON_GetObjectItemCaseSensitive(head, "output");
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(output, "wanted");
    for (item = item ? item->child : NULL; item; item = item->next)
        if (!strncmp(item->valuestring, topic, strlen(topic)))
            return true;
    return false;
}

bool receive_ready(subscriber *subscriber, const char *topic, message *status) {
    const int64_t until_ns = sonar_monotonic_ns() + (int64_t)60 * 1000000000;
    while (sonar_monotonic_ns() < until_ns) {
        if (!receive_until(subscriber, "status", "uptime_s", 0, 60000, status))
            return false;
        if (is_wanted(status->head, topic))
            return true;
        message_free(status);
    }
    return false;
}
