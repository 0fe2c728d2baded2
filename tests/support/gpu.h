/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Code shared by the gpu_*.c programs: plain programs that load the CUDA plugin as the daemon does
 * and exit with 77 without a plugin or device. Options: --quick (small sizes, for the checkers of
 * memory and races), --tiny (the same where a whole pipeline runs), --time (figures instead of
 * checks), --windows N (endurance). */
#ifndef SONAR_TEST_GPU_H
#define SONAR_TEST_GPU_H

#include "backend/open.h"
#include "conformance/site.h"
#include "core/core.h"

typedef struct gpu {
    sonar_backend_choice opened;
    const sonar_backend *backend; /* the opened one */
    sonar_queue *queue;
    sonar_event *event;
    sonar_pool *pool; /* for the CPU's stages */
    sonar_host host;
    bool quick, tiny, timed;
    size_t windows; /* --windows N: length of the endurance run, 0: not asked for */
    size_t checks, failures;
} gpu;

/* Directory of the plugin: SONAR_PLUGIN_DIR or ../lib beside this program. */
const char *gpu_plugin_dir(char *path, size_t bytes);
/* Opens the plugin in SONAR_PLUGIN_DIR or beside this program in ../lib. Returns -1, or the exit
 * code. */
int gpu_open(gpu *gpu, int argc, char **argv);
/* Prints a summary; the exit code. Also for a gpu that was never opened. */
int gpu_close(gpu *gpu, const char *name);
/* The same after the cases of a site: closes it first and includes its checks. */
int gpu_close_site(gpu *gpu, site *site, const char *name);
/* Opens the plugin again, with its n-th fallible call failing; NULL with *err if the probe already
 * fails. */
const sonar_backend *gpu_reopen(gpu *gpu, long fail_at, sonar_error *err);

/* Counts a check; prints the first few that fail. */
bool gpu_expect(gpu *gpu, bool ok, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Ends the program if a necessary step has failed. */
void gpu_require(sonar_code code, const sonar_error *err, const char *what);

sonar_buffer gpu_buffer(gpu *gpu, sonar_space space, sonar_dtype dtype, int rank,
                        const size_t *shape);
void gpu_free(gpu *gpu, sonar_buffer *buffer);
void gpu_copy(gpu *gpu, const sonar_buffer *from, sonar_buffer *to);
/* Waits for all that was enqueued. */
void gpu_settle(gpu *gpu);

/* Median over several rounds of the mean time of `repeat` calls enqueued back to back. */
double gpu_time_ms(gpu *gpu, void (*call)(void *ctx), void *ctx, size_t repeat);

#endif
