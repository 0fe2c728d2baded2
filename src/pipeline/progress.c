/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Progress for a watchdog: every thread has made progress since the watchdog was last fed. A thread
 * that waits for samples or subscribers wakes up many times a second; within a long window the data
 * thread completes tasks of its stages. */
#include "pipeline/internal.h"

/* True if `now` differs from the count seen when the watchdog was fed. */
static bool moved(struct mark *mark, uint64_t now) {
    mark->moved |= now != mark->seen;
    mark->seen = now;
    return mark->moved;
}

bool sonar_pipeline_progresses(sonar_pipeline *p) {
    struct mark *mark = p->mark;
    const uint64_t rounds = atomic_load_explicit(&p->progress.rounds, memory_order_relaxed);
    bool all = moved(&mark[SONAR_MARK_DATA], rounds + sonar_pool_tasks_done(p->pool));
    all &= moved(&mark[SONAR_MARK_INGEST], (uint64_t)p->stream.made_ns);
    if (p->output)
        all &= moved(&mark[SONAR_MARK_OUTPUT], sonar_output_rounds(p->output));
    for (int i = 0; i < SONAR_MARKS && all; i++)
        mark[i].moved = false;
    return all;
}
