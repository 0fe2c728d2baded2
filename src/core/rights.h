/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rights of a real-time program that the system may refuse: a real-time priority, and memory that
 * is never swapped out. A program continues without them; `why` is one sentence that names the
 * limit and how to raise it, or "" if everything was granted. */
#ifndef SONAR_RIGHTS_H
#define SONAR_RIGHTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum { SONAR_RIGHT_TEXT = 160 }; /* the length of a condition's sentence (status/result.h) */

typedef struct sonar_rights {
    char priority[SONAR_RIGHT_TEXT], memory[SONAR_RIGHT_TEXT]; /* "": granted, or not requested */
} sonar_rights;

/* Gives a thread this priority (1 to 99) of SCHED_FIFO; threads that it starts get ordinary
 * priority. True: granted. */
bool sonar_priority_take(pthread_t thread, int priority, char why[SONAR_RIGHT_TEXT]);
/* The real-time priority that a thread has, 0: none. */
int sonar_priority_of(pthread_t thread);

/* Locks the memory that the process has, and later allocations unless a limit exists, which would
 * make them fail. True: both were granted. Any thread; takes as long as the system needs to provide
 * all pages. */
bool sonar_memory_lock(char why[SONAR_RIGHT_TEXT]);
/* Bytes locked by the process, 0: none or unknown. Any thread. */
size_t sonar_locked_bytes(void);

#endif
