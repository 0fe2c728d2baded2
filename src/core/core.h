/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Basics that stages and threads share and that are not part of the plugin interface: log, memory,
 * threads, text, rings, worker pool. */
#ifndef SONAR_CORE_H
#define SONAR_CORE_H

#include "sonar/sonar.h"

#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- attributes ------------------------------------------------------------------------------ */

/* Compiles the function once per instruction set and selects at load time, so that one package is
 * fast everywhere without -march=native. Sanitizers run before ifunc resolvers may: their builds
 * have one set, SONAR_ONE_ISA. */
#if !defined(__x86_64__) || !defined(__GNUC__) || defined(__clang__)
#define SONAR_MULTIARCH
#elif defined(SONAR_ONE_ISA)
#define SONAR_MULTIARCH __attribute__((target("arch=" SONAR_ONE_ISA)))
#elif !defined(SONAR_NO_CLONES)
#define SONAR_MULTIARCH                                                                            \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SONAR_MULTIARCH
#endif

/* ---- log ------------------------------------------------------------------------------------- */

void sonar_log(const sonar_host *host, sonar_level level, const char *where, const char *format,
               ...) __attribute__((format(printf, 4, 5)));

/* ---- trained choices ------------------------------------------------------------------------- */

/* host->choice if there is one, else NULL. */
static inline const char *sonar_host_choice(const sonar_host *host, const char *decision) {
    return host->choice ? host->choice(host->ctx, decision) : NULL;
}

/* ---- allocation ------------------------------------------------------------------------------ */

/* Returns zeroed, 64-byte aligned memory whose pages are all present. count * size is checked for
 * overflow. NULL if memory runs out. Release with free(). */
void *sonar_alloc(size_t count, size_t size);

/* Writes zeros. Large memory is divided among several threads, since the first access to each page
 * takes time. Call it only at the start of a program. */
void sonar_zero(void *memory, size_t bytes);

/* Makes malloc keep freed memory, up to 256 MiB; otherwise the pages of every large message would
 * be returned to the system and mapped again. If the process has less than 4 GiB of address space,
 * all threads share one heap. A program that receives large messages calls it at its start. */
void sonar_keep_freed_memory(void);

/* ---- libraries ------------------------------------------------------------------------------- */

/* Loads a shared library for the life of the process and stores the addresses of `count` symbols in
 * found[]. SONAR_EUNAVAILABLE if a symbol is missing; the error's text ends with `otherwise`. Any
 * thread. */
sonar_code sonar_library_find(const char *library, const char *const *names, size_t count,
                              const char *otherwise, void **found, sonar_error *err);

/* ---- time ------------------------------------------------------------------------------------ */

int64_t sonar_monotonic_ns(void);
int64_t sonar_utc_ns(void); /* the system clock, since 1970 */

/* ---- threads --------------------------------------------------------------------------------- */

/* Starts a thread with all signals blocked (the control thread handles them), with a name of at
 * most 15 characters, on one processor (-1: any). If the processor does not exist, this is logged
 * (host may be NULL) and is no error. */
sonar_code sonar_thread_start(const sonar_host *host, const char *name, int cpu,
                              void *(*run)(void *), void *arg, pthread_t *thread, sonar_error *err);
/* false: it has not ended within that time */
bool sonar_thread_join(pthread_t thread, int timeout_ms);
/* Processors of this machine, and those that this process may run on: a unit, a container or mpirun
 * may limit them. At least 1. */
size_t sonar_processors_online(void);
size_t sonar_processors(void);

/* Checks that this number of further threads (128 at most) can be started and that this much
 * address space is available. Called before libzmq starts, which aborts if it gets no thread
 * (thread.cpp of 4.3.4) or no memory. SONAR_ESYS. */
sonar_code sonar_threads_reserve(size_t count, size_t bytes, sonar_error *err);

/* ---- state files: what is kept from one start to the next ------------------------------------ */

/* Reads a whole file, zero-terminated, to be freed. Accepts only a regular file, no link, owned by
 * the process's user or root, of at most `most` bytes; never blocks. SONAR_EUNAVAILABLE: it does
 * not exist or cannot be read; SONAR_EINVAL: it is not trusted; SONAR_ENOMEM. *text is NULL after
 * an error. Any thread. */
sonar_code sonar_state_read(const char *path, size_t most, char **text, size_t *bytes,
                            sonar_error *err);
/* Replaces the file, with mode 0644; a reader sees either the old or the new content. SONAR_ESYS.
 * Any thread. */
sonar_code sonar_state_write(const char *path, const char *text, size_t bytes, sonar_error *err);
/* The same without waiting for the disk: if the machine loses power, the file may be lost. */
sonar_code sonar_state_write_soon(const char *path, const char *text, size_t bytes,
                                  sonar_error *err);

/* ---- text ------------------------------------------------------------------------------------ */

/* Makes text from a peer safe for a terminal or a log: valid UTF-8 is kept; C0 controls become
 * spaces; DEL, C1 controls, characters that reorder the surrounding text and bytes that are not
 * UTF-8 become '?'. The result is cut at a character so that it fits into `room` bytes with its NUL
 * (room 0: nothing is written). It is never longer than `bytes`, and `to` may be `from`. Returns
 * its length. Any thread. */
size_t sonar_text_clean(const char *from, size_t bytes, char *to, size_t room);

enum { SONAR_NUMBER_CHARS = 32 };
/* A finite number as JSON and C write it, with as many digits as give the same value when read, in
 * some 50 ns: printf and scanf take a microsecond for it. Both return the length and write no NUL.
 * Any thread. */
size_t sonar_text_number(double value, char to[SONAR_NUMBER_CHARS]);
size_t sonar_text_uint(uint64_t value, char to[SONAR_NUMBER_CHARS]);

/* Number of edits that turn one word into the other, where exchanging two neighbours is one edit.
 * Compares the first 64 bytes. Any thread. */
size_t sonar_text_edits(const char *a, const char *b);
/* Each of the `count` structures of `bytes` begins with a name (const char *, NULL: none). Returns
 * the name that `word` may be a misspelling of, or NULL if no name is similar. Any thread. */
const char *sonar_text_nearest(const char *word, const void *named, size_t count, size_t bytes);

/* ---- ring: bounded, one producer thread, one consumer thread, pointers only ------------------ */

typedef struct sonar_ring sonar_ring;

/* At least `capacity` entries. The pointers' targets are not owned. */
sonar_ring *sonar_ring_create(size_t capacity);
void sonar_ring_destroy(sonar_ring *ring);
bool sonar_ring_push(sonar_ring *ring, void *item); /* producer; false when full */
void *sonar_ring_pop(sonar_ring *ring);             /* consumer; NULL when empty */
size_t
sonar_ring_count(const sonar_ring *ring); /* any thread; an estimate while others push or pop */

/* ---- wake: an eventfd that one thread polls ------------------------------------------------- */

int sonar_wake_create(void); /* a non-blocking eventfd, or -1 with errno */
void sonar_wake_signal(int fd);
void sonar_wake_clear(int fd);
/* Waits until fd is signalled or the time has passed. Returns true, and clears the signal, if it
 * was signalled. */
bool sonar_wake_wait(int fd, int timeout_ms);

/* ---- pool: the project's own worker threads -------------------------------------------------- */

typedef struct sonar_pool sonar_pool;

/* `workers` >= 1 includes the calling thread, so workers == 1 starts no thread. cpus (may be NULL)
 * has a processor per worker, -1 for none. */
sonar_code sonar_pool_create(size_t workers, const int *cpus, sonar_pool **pool, sonar_error *err);
void sonar_pool_destroy(sonar_pool *pool);
size_t sonar_pool_workers(const sonar_pool *pool);
/* Abandons the current job and all later ones, permanently; tasks that have begun are completed.
 * What an abandoned job writes is incomplete. For a stop during long work. Any thread. */
void sonar_pool_cancel(sonar_pool *pool);
bool sonar_pool_cancelled(const sonar_pool *pool); /* any thread */
/* Number of tasks completed since create; any thread. */
uint64_t sonar_pool_tasks_done(const sonar_pool *pool);
/* The `parallel` member of sonar_host; ctx is the pool. Tasks run with denormals flushed. */
void sonar_pool_parallel(void *pool, size_t tasks, void (*task)(void *, size_t, size_t), void *arg);

/* A host without threads and without a log, for tests and small tools. */
const sonar_host *sonar_host_serial(void);

/* ---- statistics ------------------------------------------------------------------------------ */

/* Median of n >= 1 values; of an even count, the mean of the middle two. Reorders the values and
 * allocates nothing. */
float sonar_median(float *value, size_t n);

/* ---- arithmetic ------------------------------------------------------------------------------ */

#define SONAR_RADIANS (M_PI / 180.0) /* of a degree */
/* The same direction as an angle in [0, 360) deg; NaN stays NaN. */
double sonar_modulo_turn(double deg);

/* Makes this thread treat denormal numbers as zeros and produce none (FTZ and DAZ on x86, FZ on
 * ARM). A digitiser's filter leaves denormals after digital silence, and computing with them takes
 * ten times as long. Infinities and NaN are unchanged. Returns the previous mode. */
unsigned sonar_denormals_flush(void);
void sonar_denormals_restore(unsigned before);

/* ---- clamp helpers --------------------------------------------------------------------------- */

static inline size_t sonar_min_size(size_t a, size_t b) {
    return a < b ? a : b;
}
static inline size_t sonar_max_size(size_t a, size_t b) {
    return a > b ? a : b;
}

#ifdef __cplusplus
}
#endif

#endif
