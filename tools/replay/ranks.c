/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ranks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"
#include "recording.h"
#include "stream.h"

/* ---- sorting by rank ------------------------------------------------------------------------- */

static sonar_code rank_of(const char *path, size_t *rank, sonar_error *err) {
    sim_recording *recording = NULL;
    sonar_code code = sim_recording_open(path, &recording, err);
    if (!code)
        *rank = sim_recording_about(recording)->rank;
    if (!code && *rank >= SONAR_RANKS_MOST)
        code = sonar_fail(err, SONAR_EINVAL, path,
                          "rank %zu recorded it, but at most %d ranks are possible", *rank,
                          SONAR_RANKS_MOST);
    sim_recording_close(recording);
    return code;
}

static void sort(char *const *path, size_t files, const size_t *rank, ranks_recordings *to) {
    size_t at = 0;
    for (size_t r = 0; r < SONAR_RANKS_MOST; r++) {
        const size_t begin = at;
        for (size_t i = 0; i < files; i++)
            if (rank[i] == r)
                to->path[at++] = path[i];
        if (at > begin)
            to->begin[++to->ranks] = at;
    }
}

sonar_code ranks_sort(char *const *path, size_t files, ranks_recordings *sorted, sonar_error *err) {
    size_t *rank = sonar_alloc(files, sizeof *rank);
    *sorted = (ranks_recordings){.path = sonar_alloc(files, sizeof *sorted->path)};
    sonar_code code =
        rank && sorted->path ? SONAR_OK : sonar_fail(err, SONAR_ENOMEM, path[0], "out of memory");
    for (size_t i = 0; i < files && !code; i++)
        code = rank_of(path[i], &rank[i], err);
    if (!code)
        sort(path, files, rank, sorted);
    free(rank);
    return code;
}

void ranks_destroy(ranks_recordings *sorted) {
    free(sorted->path);
    *sorted = (ranks_recordings){0};
}

/* ---- processes ------------------------------------------------------------------------------- */

struct process {
    pid_t pid;   /* 0: it has ended */
    int summary; /* a memory file */
};

/* The process ends when its parent ends. */
static int play_rank(const ranks_recordings *sorted, const ranks_player *player, size_t rank,
                     int summary) {
    char path[32];
    snprintf(path, sizeof path, "/dev/fd/%d", summary);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    return player->play(player->ctx, sorted->path + sorted->begin[rank],
                        sorted->begin[rank + 1] - sorted->begin[rank], path);
}

static sonar_code start(const ranks_recordings *sorted, const ranks_player *player,
                        struct process *process, sonar_error *err) {
    for (size_t r = 0; r < sorted->ranks; r++) {
        process[r].summary = memfd_create("summary", 0);
        if (process[r].summary >= 0)
            process[r].pid = fork();
        if (process[r].summary < 0 || process[r].pid < 0) {
            process[r].pid = 0;
            return sonar_fail(err, SONAR_ESYS, sorted->path[sorted->begin[r]],
                              "no process to play it: %s", strerror(errno));
        }
        if (process[r].pid == 0)
            exit(play_rank(sorted, player, r, process[r].summary));
    }
    return SONAR_OK;
}

static void end_all(const struct process *process, size_t ranks) {
    for (size_t r = 0; r < ranks; r++)
        if (process[r].pid)
            kill(process[r].pid, SIGTERM);
}

/* Waits until all have ended. A signal may reach this process alone, or all of them. */
static int await_all(struct process *process, size_t ranks, const ranks_player *player, int code) {
    bool told = code != 0;
    for (size_t left = ranks; left > 0;) {
        int status = 0;
        const pid_t pid = waitpid(-1, &status, 0);
        if (pid < 0 && errno == ECHILD)
            break;
        for (size_t r = 0; r < ranks; r++)
            if (pid > 0 && process[r].pid == pid)
                process[r].pid = 0, left--;
        const int ended = WIFEXITED(status) ? WEXITSTATUS(status) : SIM_STREAM_FAILED;
        code = pid > 0 && !code ? ended : code;
        if (!told && (code || *player->stop)) {
            end_all(process, ranks);
            told = true;
        }
    }
    return code;
}

/* ---- summaries ------------------------------------------------------------------------------- */

static void copy_summary(int from, FILE *to) {
    char text[4096];
    ssize_t n;
    lseek(from, 0, SEEK_SET);
    while ((n = read(from, text, sizeof text)) > 0)
        fwrite(text, 1, (size_t)(text[n - 1] == '\n' ? n - 1 : n), to);
}

/* Summaries of the ranks that sent samples. */
static void write_summaries(const struct process *process, size_t ranks, FILE *to) {
    bool first = true;
    fputs("{\"ranks\": [", to);
    for (size_t r = 0; r < ranks; r++) {
        if (process[r].summary < 0 || lseek(process[r].summary, 0, SEEK_END) <= 0)
            continue;
        fputs(first ? "" : ", ", to);
        copy_summary(process[r].summary, to);
        first = false;
    }
    fputs("]}\n", to);
    fflush(to);
}

int ranks_play(const ranks_recordings *sorted, const ranks_player *player) {
    struct process process[SONAR_RANKS_MOST];
    sonar_error err = {0};
    FILE *to = player->summary ? fopen(player->summary, "we") : stdout;
    if (!to) {
        sonar_fail(&err, SONAR_EINVAL, "--summary", "%s: %s", player->summary, strerror(errno));
        return sim_complain(player->tool, &err);
    }
    for (size_t r = 0; r < SONAR_RANKS_MOST; r++)
        process[r] = (struct process){.summary = -1};
    int code = start(sorted, player, process, &err) ? sim_complain(player->tool, &err) : 0;
    if (code)
        end_all(process, sorted->ranks);
    code = await_all(process, sorted->ranks, player, code);
    write_summaries(process, sorted->ranks, to);
    for (size_t r = 0; r < sorted->ranks; r++)
        if (process[r].summary >= 0)
            close(process[r].summary);
    if (to != stdout)
        fclose(to);
    return code;
}
