/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a real-time program asks of the system and may be refused: a real-time priority, and memory
 * that is never swapped out. A program that is refused goes on without; `why` is one sentence that
 * names the limit and says how to raise it, and "" where all was granted. */
#ifndef SONAR_RIGHTS_H
#define SONAR_RIGHTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum { SONAR_RIGHT_TEXT = 160 }; /* as much as a condition of health says (status/result.h) */

typedef struct sonar_rights {
    char priority[SONAR_RIGHT_TEXT], memory[SONAR_RIGHT_TEXT]; /* "": granted, or not asked for */
} sonar_rights;

/* Gives a thread this priority (1 to 99) of SCHED_FIFO; threads that it starts are ordinary ones.
 * True: granted. */
bool sonar_priority_take(pthread_t thread, int priority, char why[SONAR_RIGHT_TEXT]);
/* The real-time priority that a thread has, 0: none. */
int sonar_priority_of(pthread_t thread);

/* Locks the memory that the process has, and what it allocates later if no limit stands against
 * that: where one does, allocations would fail from then on. True: granted both. Any thread; takes
 * as long as the system needs to find all pages. */
bool sonar_memory_lock(char why[SONAR_RIGHT_TEXT]);
/* Of the process, 0: none or unknown. Any thread. */
size_t sonar_locked_bytes(void);

#endif
