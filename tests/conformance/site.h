/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The site of a stage under test: an opened backend with its host and a queue. A conformance case
 * depends on the hardware only through its site, so the same cases run for every backend and path.
 * Failed checks are counted and printed; the caller evaluates the counts. */
#ifndef SONAR_TEST_SITE_H
#define SONAR_TEST_SITE_H

#include "sonar/backend.h"

typedef struct site {
    const sonar_backend *backend;
    const sonar_host *host; /* host of the stages; its `choice` selects the path */
    sonar_queue *queue;
    sonar_event *event;
    bool quick;       /* small sizes, for the checkers of memory and races */
    const char *name; /* of the running case */
    uint32_t taken;   /* set by the running case: a bit for each way that it recognises */
    size_t checks, failures;
} site;

typedef struct site_case {
    const char *name;
    void (*run)(site *site);
} site_case;

/* The caller keeps the backend and the host. */
site site_open(const sonar_backend *backend, const sonar_host *host);
void site_close(site *site);
/* ---- paths ----------------------------------------------------------------------------------- */

/* Choices as in a trained table: pairs of a decision and its candidate. Other decisions use the
 * built-in rule; without a path all do. */
typedef struct site_path {
    const char *name, *choice[4][2];
} site_path;

/* Path of stages created later; NULL: none. For hosts whose `choice` is site_choose. */
void site_take(const site_path *path);
const site_path *site_taken(void);
const char *site_choose(void *ctx, const char *decision);

/* ---- checks ---------------------------------------------------------------------------------- */

/* Runs one case; true if it made checks and none failed. */
bool site_try(site *site, const site_case *what);
/* Runs all and prints a line for each; a case that checked nothing counts as failed. */
void site_try_all(site *site, const site_case *cases, size_t count);

/* Counts a check; prints the first few that fail. Returns `good`. */
bool site_expect(site *site, bool good, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends the program if a necessary step has failed. */
void site_require(const site *site, sonar_code code, const sonar_error *err);

/* ---- memory ---------------------------------------------------------------------------------- */

/* A zeroed buffer in the backend's own space, or in any that it has. */
sonar_buffer site_buffer(const site *site, sonar_dtype dtype, int rank, const size_t *shape);
sonar_buffer site_buffer_in(const site *site, sonar_space space, sonar_dtype dtype, int rank,
                            const size_t *shape);
void site_free(const site *site, sonar_buffer *buffer);
/* Between the host's memory and a dense buffer of any space; both wait until all is done. */
void site_send(const site *site, const void *from, sonar_buffer *to);
void site_fetch(const site *site, const sonar_buffer *from, void *to);
void site_copy(const site *site, const sonar_buffer *from, sonar_buffer *to);
/* Whether the backend has its own memory; the CPU has not. */
bool site_is_device(const site *site);
/* Waits for all that was enqueued. */
void site_settle(const site *site);

#endif
