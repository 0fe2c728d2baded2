/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Pipeline: wires ingest -> dft -> cbf, mvdr_jacobi -> detect -> output and owns every buffer
 * between them. It alone sees all stages.
 *
 * Threads: ingest and output have one each; the data thread runs the stages, window by window, with
 * a pool of workers; the caller's thread is the control thread: it starts, ticks once a second and
 * stops. Nothing is allocated between start and stop but inside libzmq and the output's headers.
 */
#ifndef SONAR_PIPELINE_H
#define SONAR_PIPELINE_H

#include <stdio.h>

#include "sonar/sonar.h"

#include "config/config.h"
#include "net/net.h"

typedef struct sonar_pipeline sonar_pipeline;

/* Logs through `log` (any thread). config is borrowed until destroy. */
sonar_code sonar_pipeline_create(const sonar_config *config,
                                 void (*log)(void *ctx, sonar_level level, const char *where,
                                             const char *text),
                                 void *log_ctx, sonar_pipeline **pipeline, sonar_error *err);
/* Opens the sockets and starts the threads; fails with one clear sentence. */
sonar_code sonar_pipeline_start(sonar_pipeline *pipeline, sonar_error *err);
/* Once a second, control thread: publishes the status, logs what changed. Returns an error if one
 * of the threads has given up. */
sonar_code sonar_pipeline_tick(sonar_pipeline *pipeline, sonar_error *err);
/* The configuration that is to hold now: the data thread adopts it with the next window, if it has
 * not yet. Borrowed until the next change. Control thread. */
const sonar_config *sonar_pipeline_config(const sonar_pipeline *pipeline);
/* That of the start, which the buffers were made for. */
const sonar_config *sonar_pipeline_made_for(const sonar_pipeline *pipeline);
/* Goes over to `config` between two windows, with ranks all of them or none: one that
 * sonar_config_merge made from that of sonar_pipeline_config, or NULL, the same with the sensors
 * that array.auto_mask takes out by now. It is the pipeline's on SONAR_OK, and
 * the caller's otherwise, when nothing has changed (SONAR_ENOMEM). The first window under it is
 * flagged and logged. Control thread, which makes the tables of delays meanwhile if these change.
 */
sonar_code sonar_pipeline_reconfigure(sonar_pipeline *pipeline, sonar_config *config,
                                      sonar_error *err);
/* What the last tick found; all 0 before the first. Valid until the next. Control thread. */
const sonar_status *sonar_pipeline_status(const sonar_pipeline *pipeline);
/* Have the ingest, data and output threads all moved on since this was last true? Idle ones that
 * wait for samples or subscribers do. After a tick, control thread. */
bool sonar_pipeline_progresses(sonar_pipeline *pipeline);
/* As it was at the start. */
const sonar_security *sonar_pipeline_security(const sonar_pipeline *pipeline);
/* Trains between two windows, as sonard --train does, and goes on with the outcome. Until then no
 * window is processed, and the MVDR begins with nothing. The log and the condition `training` say
 * how it goes. SONAR_EINVAL: runtime.state_dir is not set; SONAR_ESTATE: training is under way.
 * Control thread. */
sonar_code sonar_pipeline_ask_training(sonar_pipeline *pipeline, sonar_error *err);
/* From now on the keys of security->allowed may connect, and no others; where one is taken away all
 * connections of its side are ended once, and those that still may come back by themselves. What is
 * else in `security` stays as it was at the start. Changes nothing without CURVE. Control thread;
 * SONAR_ENOMEM. */
sonar_code sonar_pipeline_allow(sonar_pipeline *pipeline, const sonar_security *security,
                                sonar_error *err);
/* Own ship's navigation by hand: a JSON object as navigation.endpoint brings it. The values hold
 * until other ones come. SONAR_EINVAL. Control thread. */
sonar_code sonar_pipeline_navigate(sonar_pipeline *pipeline, const char *json, size_t bytes,
                                   sonar_error *err);
/* Own ship's navigation as it is at this moment. Control thread. */
void sonar_pipeline_navigation(const sonar_pipeline *pipeline, sonar_navigation *navigation);
/* To record from now on, or to stop, as record.what says. SONAR_EINVAL: it says off. Control
 * thread.
 */
sonar_code sonar_pipeline_record(sonar_pipeline *pipeline, bool record, sonar_error *err);
/* The recording as it is at this moment, and the folder of its files, borrowed; "" where
 * record.what says off. Control thread. */
const char *sonar_pipeline_recording(const sonar_pipeline *pipeline, sonar_recording *recording);
/* The status of the last tick, in the form of the topic's header. free() it; NULL: no memory.
 * Control thread. */
char *sonar_pipeline_status_text(const sonar_pipeline *pipeline);
/* Do the ranks that share the array stop together, because one of them was asked to? Control
 * thread. */
bool sonar_pipeline_left(const sonar_pipeline *pipeline);
/* Where ranks share the array: becomes readable when attend is to be called, which may also be
 * called at any other time; else -1. Control thread. */
int sonar_pipeline_fd(const sonar_pipeline *pipeline);
/* Does what rank 0 asks for. Control thread. */
void sonar_pipeline_attend(sonar_pipeline *pipeline);
/* UUID of this start. */
const char *sonar_pipeline_run(const sonar_pipeline *pipeline);
/* The process's one ZeroMQ context. Whoever opens a socket in it closes it before destroy. */
void *sonar_pipeline_context(const sonar_pipeline *pipeline);
/* What its sockets share, for that of the control socket: the gate of those who may come to it, and
 * the watch on what all peers hold. */
struct sonar_gate *sonar_pipeline_gate(const sonar_pipeline *pipeline, sonar_domain domain);
struct sonar_memory *sonar_pipeline_memory(const sonar_pipeline *pipeline);
/* Drains what is queued for at most timeout_ms, then stops all threads; a window that is in work
 * even then is given up between two tasks of a stage and not published. False: one task takes more
 * than another 0.2 s, and the data thread is still inside, or readers keep the output thread inside
 * libzmq, or the disk the recorder. All else has stopped then, and the process can leave as it is;
 * destroy would wait for the thread. Control thread. */
bool sonar_pipeline_stop(sonar_pipeline *pipeline, int timeout_ms);
void sonar_pipeline_destroy(sonar_pipeline *pipeline);
/* The same. False: libzmq is still closing what its peers opened when that time is over. Nothing
 * else is left, and the process can leave by _exit. */
bool sonar_pipeline_destroy_within(sonar_pipeline *pipeline, int timeout_ms);

/* --train: times the alternatives on this node and keeps the choices; --explain: prints those that
 * would be made. Each with a pool and a log of its own, without sockets; reports go to `to`. */
sonar_code sonar_pipeline_train(const sonar_config *config,
                                void (*log)(void *ctx, sonar_level level, const char *where,
                                            const char *text),
                                void *log_ctx, FILE *to, sonar_error *err);
sonar_code sonar_pipeline_explain(const sonar_config *config,
                                  void (*log)(void *ctx, sonar_level level, const char *where,
                                              const char *text),
                                  void *log_ctx, FILE *to, sonar_error *err);

#endif
