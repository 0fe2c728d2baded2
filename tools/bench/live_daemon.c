/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The sonard process of a live run, or mpirun and its ranks: start, end, and measurements from
 * /proc. */
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

enum { FOLLOW_MS = 30000 }; /* for mpirun to end after one of its ranks has ended */

/* ---- the process ----------------------------------------------------------------------------- */

sonar_code live_daemon_find(const char *path, sonar_error *err) {
    struct stat about;
    if (stat(path, &about) != 0)
        return sonar_fail(err, SONAR_EINVAL, "--daemon", "%s: %s", path, strerror(errno));
    if (!S_ISREG(about.st_mode) || access(path, X_OK) != 0)
        return sonar_fail(err, SONAR_EINVAL, "--daemon", "%s is not a program", path);
    return SONAR_OK;
}

/* Runs in the child; returns only on failure. */
static void become_ranks(const live_plan *plan, const char *config) {
    enum { WORDS_MOST = 64 };
    char *word[WORDS_MOST + 3], *text;
    size_t words = 0;
    if (asprintf(&text, "%s -n %zu", plan->mpirun, plan->ranks) < 0)
        return;
    for (char *at = strtok(text, " "); at && words < WORDS_MOST; at = strtok(NULL, " "))
        word[words++] = at;
    word[words++] = strdup(plan->daemon); /* execvp takes non-const strings */
    word[words++] = strdup(config);
    word[words] = NULL;
    execvp(word[0], word);
    fprintf(stderr, "%s: %s\n", word[0], strerror(errno));
}

/* Runs in the child. Its own process group lets the parent end it in order after a Ctrl-C. mpirun
 * gets the time to end its ranks. */
static void become(const live_plan *plan, const char *config, const char *log, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, plan->ranks > 1 ? SIGTERM : SIGKILL);
    if (getppid() != parent)
        _exit(1);
    setpgid(0, 0);
    const int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int nothing = open("/dev/null", O_RDONLY);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0 ||
        dup2(nothing, STDIN_FILENO) < 0) {
        fprintf(stderr, "sonar-bench: %s: %s\n", log, strerror(errno));
        _exit(127);
    }
    unsetenv("JOURNAL_STREAM");
    if (plan->ranks > 1) {
        become_ranks(plan, config);
        _exit(127);
    }
    execl(plan->daemon, "sonard", config, (char *)NULL);
    fprintf(stderr, "%s: %s\n", plan->daemon, strerror(errno));
    _exit(127);
}

sonar_code live_daemon_start(const live_plan *plan, const char *config, live_daemon *daemon,
                             sonar_error *err) {
    if (plan->ranks > 1) /* ranks that survive mpirun become our children */
        prctl(PR_SET_CHILD_SUBREAPER, 1);
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become(plan, config, daemon->log, parent);
    if (pid < 0)
        return sonar_fail(err, SONAR_ESYS, "sonard", "fork: %s", strerror(errno));
    daemon->pid = pid;
    daemon->running = true;
    return SONAR_OK;
}

/* The last line of its log. mpirun's own remarks, between rules, are skipped, unless the log has no
 * other line; then it is their first line. */
static void last_words(const live_daemon *daemon, char *text, size_t bytes) {
    char line[256];
    bool ruled = false, found = false;
    snprintf(text, bytes, "nothing");
    FILE *file = fopen(daemon->log, "re");
    while (file && !(ruled && found) && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        const bool rule = strncmp(line, "-----", 5) == 0;
        ruled |= rule;
        if (!*line || rule || (ruled && found))
            continue;
        snprintf(text, bytes, "%s", line);
        found = true;
    }
    if (file)
        fclose(file);
}

static void reap(live_daemon *daemon) {
    if (daemon->running && waitpid(daemon->pid, &daemon->status, WNOHANG) != 0)
        daemon->running = false;
}

static void await_end(live_daemon *daemon, int timeout_ms) {
    const int64_t until_ns = sonar_monotonic_ns() + (int64_t)timeout_ms * 1000000;
    for (reap(daemon); daemon->running && sonar_monotonic_ns() < until_ns; reap(daemon))
        poll(NULL, 0, 5);
}

static bool lacks_a_rank(const live_daemon *daemon) {
    size_t there = 0;
    while (there < daemon->ranks && kill(daemon->rank[there], 0) == 0)
        there++;
    return there < daemon->ranks;
}

sonar_code live_daemon_check(live_daemon *daemon, sonar_error *err) {
    char words[300], how[64];
    reap(daemon);
    if (daemon->running && lacks_a_rank(daemon)) /* mpirun is about to report its exit status */
        await_end(daemon, FOLLOW_MS);
    if (daemon->running)
        return SONAR_OK;
    if (WIFSIGNALED(daemon->status))
        snprintf(how, sizeof how, "was killed by signal %d", WTERMSIG(daemon->status));
    else
        snprintf(how, sizeof how, "ended with exit code %d", WEXITSTATUS(daemon->status));
    last_words(daemon, words, sizeof words);
    return sonar_fail(err, SONAR_ESTATE, "sonard", "%s; its last line: %s", how, words);
}

bool live_daemon_ended_well(const live_daemon *daemon) {
    return !daemon->running && WIFEXITED(daemon->status) && WEXITSTATUS(daemon->status) == 0;
}

static void send_signal(const live_daemon *daemon, int signo) {
    for (size_t r = 0; r < daemon->ranks; r++)
        kill(daemon->rank[r], signo);
}

void live_daemon_ask_to_stop(const live_daemon *daemon) {
    if (!daemon->running)
        return;
    if (daemon->ranks)
        send_signal(daemon, SIGTERM);
    else
        kill(daemon->pid, SIGTERM);
}

/* Called after mpirun has ended: if mpirun fails, it does not wait for its ranks. */
static void end_orphans(live_daemon *daemon) {
    for (size_t r = 0; r < daemon->ranks; r++)
        if (waitpid(daemon->rank[r], NULL, WNOHANG) == 0) {
            kill(daemon->rank[r], SIGKILL);
            waitpid(daemon->rank[r], NULL, 0);
        }
    daemon->ranks = 0;
}

void live_daemon_end(live_daemon *daemon, int timeout_ms) {
    live_daemon_ask_to_stop(daemon);
    await_end(daemon, timeout_ms);
    if (daemon->running) {
        send_signal(daemon, SIGKILL);
        kill(daemon->pid, SIGKILL);
        waitpid(daemon->pid, &daemon->status, 0);
        daemon->running = false;
    }
    end_orphans(daemon);
}

/* ---- /proc ----------------------------------------------------------------------------------- */

static bool read_line(const char *path, char *line, int bytes) {
    FILE *file = fopen(path, "re");
    const bool read = file && fgets(line, bytes, file);
    if (file)
        fclose(file);
    return read;
}

/* A line of /proc/PID/stat. */
typedef struct entry {
    char name[32];
    pid_t parent;
    double cpu_s; /* user and system time */
} entry;

static bool read_stat(const char *path, entry *to) {
    unsigned long long user, kernel;
    char line[1024];
    if (!read_line(path, line, sizeof line))
        return false;
    const char *open = strchr(line, '('), *close = strrchr(line, ')');
    if (!open || !close ||
        sscanf(close + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &to->parent,
               &user, &kernel) != 3)
        return false;
    snprintf(to->name, sizeof to->name, "%.*s", (int)(close - open - 1), open + 1);
    to->cpu_s = (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
    return true;
}

/* ---- its processes --------------------------------------------------------------------------- */

sonar_code live_daemon_find_ranks(live_daemon *daemon, size_t ranks, sonar_error *err) {
    char path[64];
    entry of;
    DIR *dir = opendir("/proc");
    daemon->ranks = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        snprintf(path, sizeof path, "/proc/%.20s/stat", e->d_name);
        const pid_t pid = (pid_t)atoi(e->d_name);
        if (pid > 0 && daemon->ranks < SONAR_RANKS_MOST && read_stat(path, &of) &&
            of.parent == daemon->pid)
            daemon->rank[daemon->ranks++] = pid;
    }
    if (dir)
        closedir(dir);
    if (daemon->ranks == ranks)
        return SONAR_OK;
    return sonar_fail(err, SONAR_ESTATE, "mpirun",
                      "%zu processes instead of %zu ranks; all have to run on this host",
                      daemon->ranks, ranks);
}

static size_t processes(const live_daemon *daemon) {
    return daemon->ranks ? daemon->ranks : 1;
}

static pid_t process(const live_daemon *daemon, size_t i) {
    return daemon->ranks ? daemon->rank[i] : daemon->pid;
}

/* ---- what they need -------------------------------------------------------------------------- */

static void measure_process(pid_t pid, live_usage *usage) {
    char path[128];
    entry of;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (read_stat(path, &of))
        usage->cpu_s += of.cpu_s;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    for (struct dirent *task; dir && (task = readdir(dir));) {
        if (task->d_name[0] == '.' || usage->threads == LIVE_THREADS_MOST)
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/stat", (int)pid, task->d_name);
        if (!read_stat(path, &of))
            continue;
        usage->thread[usage->threads].id = atoi(task->d_name);
        memcpy(usage->thread[usage->threads].name, of.name, sizeof of.name);
        usage->thread[usage->threads++].cpu_s = of.cpu_s;
    }
    if (dir)
        closedir(dir);
}

/* Sums over all processors, from the first line of /proc/stat; idle and iowait are not busy. */
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
    *usage = (live_usage){.at_ns = sonar_monotonic_ns()};
    for (size_t i = 0; i < processes(daemon); i++)
        measure_process(process(daemon, i), usage);
    measure_machine(usage);
}

static double peak_bytes_of(pid_t pid) {
    char path[64], line[256];
    unsigned long long kilobytes = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file) && sscanf(line, "VmHWM: %llu", &kilobytes) != 1)
        continue;
    if (file)
        fclose(file);
    return (double)kilobytes * 1024;
}

double live_daemon_peak_bytes(const live_daemon *daemon) {
    double sum = 0;
    for (size_t i = 0; i < processes(daemon); i++)
        sum += peak_bytes_of(process(daemon, i));
    return sum;
}
