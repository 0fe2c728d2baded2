/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The sonard process of a live run: start, end, and what /proc says of it. */
#include "live.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"

/* ---- the process ----------------------------------------------------------------------------- */

sonar_code live_daemon_find(const char *path, sonar_error *err) {
    struct stat about;
    if (stat(path, &about) != 0)
        return sonar_fail(err, SONAR_EINVAL, "--daemon", "%s: %s", path, strerror(errno));
    if (!S_ISREG(about.st_mode) || access(path, X_OK) != 0)
        return sonar_fail(err, SONAR_EINVAL, "--daemon", "%s is not a program", path);
    return SONAR_OK;
}

/* In the child. Its own process group, so that a Ctrl-C leaves its end to the parent. */
static void become(const char *path, const char *config, const char *log, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    setpgid(0, 0);
    const int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0) {
        fprintf(stderr, "sonar-bench: %s: %s\n", log, strerror(errno));
        _exit(127);
    }
    unsetenv("JOURNAL_STREAM");
    execl(path, "sonard", config, (char *)NULL);
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    _exit(127);
}

sonar_code live_daemon_start(const char *path, const char *config, live_daemon *daemon,
                             sonar_error *err) {
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become(path, config, daemon->log, parent);
    if (pid < 0)
        return sonar_fail(err, SONAR_ESYS, "sonard", "fork: %s", strerror(errno));
    daemon->pid = pid;
    daemon->running = true;
    return SONAR_OK;
}

/* The last line of its log. */
static void last_words(const live_daemon *daemon, char *text, size_t bytes) {
    char line[256];
    snprintf(text, bytes, "nothing");
    FILE *file = fopen(daemon->log, "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (*line)
            snprintf(text, bytes, "%s", line);
    }
    if (file)
        fclose(file);
}

static void reap(live_daemon *daemon) {
    if (daemon->running && waitpid(daemon->pid, &daemon->status, WNOHANG) != 0)
        daemon->running = false;
}

sonar_code live_daemon_check(live_daemon *daemon, sonar_error *err) {
    char words[300], how[64];
    reap(daemon);
    if (daemon->running)
        return SONAR_OK;
    if (WIFSIGNALED(daemon->status))
        snprintf(how, sizeof how, "was killed by signal %d", WTERMSIG(daemon->status));
    else
        snprintf(how, sizeof how, "ended with exit code %d", WEXITSTATUS(daemon->status));
    last_words(daemon, words, sizeof words);
    return sonar_fail(err, SONAR_ESTATE, "sonard", "%s; its last words: %s", how, words);
}

bool live_daemon_ended_well(const live_daemon *daemon) {
    return !daemon->running && WIFEXITED(daemon->status) && WEXITSTATUS(daemon->status) == 0;
}

void live_daemon_ask_to_stop(const live_daemon *daemon) {
    if (daemon->running)
        kill(daemon->pid, SIGTERM);
}

void live_daemon_end(live_daemon *daemon, int timeout_ms) {
    const int64_t until_ns = sonar_monotonic_ns() + (int64_t)timeout_ms * 1000000;
    live_daemon_ask_to_stop(daemon);
    for (reap(daemon); daemon->running && sonar_monotonic_ns() < until_ns; reap(daemon))
        poll(NULL, 0, 5);
    if (!daemon->running)
        return;
    kill(daemon->pid, SIGKILL);
    waitpid(daemon->pid, &daemon->status, 0);
    daemon->running = false;
}

/* ---- its processor time ---------------------------------------------------------------------- */

static bool read_line(const char *path, char *line, int bytes) {
    FILE *file = fopen(path, "re");
    const bool read = file && fgets(line, bytes, file);
    if (file)
        fclose(file);
    return read;
}

/* Name, and user and system time, of a line of /proc/PID/stat. */
static bool parse_stat(const char *line, char name[32], double *cpu_s) {
    unsigned long long user, kernel;
    const char *open = strchr(line, '('), *close = strrchr(line, ')');
    if (!open || !close ||
        sscanf(close + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
               &kernel) != 2)
        return false;
    snprintf(name, 32, "%.*s", (int)(close - open - 1), open + 1);
    *cpu_s = (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
    return true;
}

static void measure_threads(const live_daemon *daemon, live_usage *usage) {
    char path[128], line[1024];
    snprintf(path, sizeof path, "/proc/%d/task", (int)daemon->pid);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.' || usage->threads == LIVE_THREADS_MOST)
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/stat", (int)daemon->pid, entry->d_name);
        usage->thread[usage->threads].id = atoi(entry->d_name);
        if (read_line(path, line, sizeof line) &&
            parse_stat(line, usage->thread[usage->threads].name,
                       &usage->thread[usage->threads].cpu_s))
            usage->threads++;
    }
    if (dir)
        closedir(dir);
}

/* All processors together, of the first line of /proc/stat: idle and waiting are not busy. */
static void measure_machine(live_usage *usage) {
    unsigned long long t[8] = {0}, all = 0;
    char line[512];
    if (!read_line("/proc/stat", line, sizeof line) ||
        sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3],
               &t[4], &t[5], &t[6], &t[7]) < 4)
        return;
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        all += t[i];
    usage->machine_all_s = (double)all / (double)sysconf(_SC_CLK_TCK);
    usage->machine_busy_s = (double)(all - t[3] - t[4]) / (double)sysconf(_SC_CLK_TCK);
}

void live_daemon_measure(const live_daemon *daemon, live_usage *usage) {
    char path[64], line[1024], name[32];
    *usage = (live_usage){.at_ns = sonar_monotonic_ns()};
    snprintf(path, sizeof path, "/proc/%d/stat", (int)daemon->pid);
    if (read_line(path, line, sizeof line))
        parse_stat(line, name, &usage->cpu_s);
    measure_threads(daemon, usage);
    measure_machine(usage);
}

double live_daemon_peak_bytes(const live_daemon *daemon) {
    char path[64], line[256];
    unsigned long long kilobytes = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)daemon->pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file) && sscanf(line, "VmHWM: %llu", &kilobytes) != 1)
        continue;
    if (file)
        fclose(file);
    return (double)kilobytes * 1024;
}
