/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Pipeline: wires ingest -> dft -> cbf, mvdr_jacobi -> detect -> output and owns every buffer
 * between them. It alone sees all stages.
 *
 * Threads: ingest and output have one each; the data thread runs the stages, window by window, with
 * a pool of workers; the caller's thread is the control thread: it starts, ticks once a second and
 * stops. Between start and stop only libzmq and the output's headers allocate memory.
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
/* Opens the sockets and starts the threads. An error is one clear sentence. */
sonar_code sonar_pipeline_start(sonar_pipeline *pipeline, sonar_error *err);
/* With config->reader, after start: takes a frame as sonar_ingest_feed does. Control thread. */
bool sonar_pipeline_feed(sonar_pipeline *pipeline, const void *header, size_t header_bytes,
                         const void *payload, size_t payload_bytes, int timeout_ms);
/* The same after the last frame, as sonar_ingest_finish. Control thread. */
bool sonar_pipeline_finish(sonar_pipeline *pipeline, int timeout_ms);
/* True if every window that ingest has offered has been processed or has failed. A change that is
 * made then comes into effect with the next frames, whatever the load. Any thread. */
bool sonar_pipeline_idle(const sonar_pipeline *pipeline);
/* Called once a second by the control thread: publishes the status and logs what changed. Returns
 * an error if one of the threads has failed. */
sonar_code sonar_pipeline_tick(sonar_pipeline *pipeline, sonar_error *err);
/* The newest configuration: the data thread adopts it with the next window, if it has not done so.
 * Borrowed until the next change. Control thread. */
const sonar_config *sonar_pipeline_config(const sonar_pipeline *pipeline);
/* The configuration of the start, for which the buffers were allocated. */
const sonar_config *sonar_pipeline_made_for(const sonar_pipeline *pipeline);
/* Changes to `config` between two windows; with ranks, all of them do or none does. `config` is one
 * that sonar_config_merge made from sonar_pipeline_config, or NULL: the same configuration with the
 * mask that array.auto_mask now gives. On SONAR_OK the pipeline owns it. Otherwise the caller still
 * owns it, and nothing has changed (SONAR_ENOMEM). The first window under it is flagged and logged.
 * Control thread, which first computes the tables of delays if these change. */
sonar_code sonar_pipeline_reconfigure(sonar_pipeline *pipeline, sonar_config *config,
                                      sonar_error *err);
/* The status of the last tick; all 0 before the first one. Valid until the next. Control thread. */
const sonar_status *sonar_pipeline_status(const sonar_pipeline *pipeline);
/* True if the ingest, data and output threads have all made progress since this was last true. Idle
 * threads that wait for samples or subscribers make progress. After a tick, control thread. */
bool sonar_pipeline_progresses(sonar_pipeline *pipeline);
/* The security settings of the start. */
const sonar_security *sonar_pipeline_security(const sonar_pipeline *pipeline);
/* Trains between two windows, as sonard --train does, and continues with the outcome. During
 * training no window is processed, and afterwards the MVDR begins without snapshots. The log and
 * the condition `training` report it. SONAR_EINVAL: runtime.state_dir is not set; SONAR_ESTATE: a
 * training is in progress. Control thread. */
sonar_code sonar_pipeline_ask_training(sonar_pipeline *pipeline, sonar_error *err);
/* From now on exactly the keys of security->allowed may connect. If a key is removed, all
 * connections of its side are ended once, and peers that are still allowed reconnect. Other members
 * of `security` keep the values of the start. Changes nothing without CURVE. Control thread;
 * SONAR_ENOMEM. */
sonar_code sonar_pipeline_allow(sonar_pipeline *pipeline, const sonar_security *security,
                                sonar_error *err);
/* Sets own ship's navigation by hand: a JSON object as on navigation.endpoint. The values apply
 * until other ones are received. SONAR_EINVAL. Control thread. */
sonar_code sonar_pipeline_navigate(sonar_pipeline *pipeline, const char *json, size_t bytes,
                                   sonar_error *err);
/* Own ship's navigation at this moment. Control thread. */
void sonar_pipeline_navigation(const sonar_pipeline *pipeline, sonar_navigation *navigation);
/* Starts or stops recording what record.what names. SONAR_EINVAL: record.what is off. Control
 * thread. */
sonar_code sonar_pipeline_record(sonar_pipeline *pipeline, bool record, sonar_error *err);
/* The state of the recording at this moment. Returns the folder of its files, borrowed; "" if
 * record.what is off. Control thread. */
const char *sonar_pipeline_recording(const sonar_pipeline *pipeline, sonar_recording *recording);
/* The status of the last tick, in the form of the topic's header. free() it; NULL: no memory.
 * Control thread. */
char *sonar_pipeline_status_text(const sonar_pipeline *pipeline);
/* True if the ranks that share the array are stopping together, because one of them was asked to
 * stop. Control thread. */
bool sonar_pipeline_left(const sonar_pipeline *pipeline);
/* With ranks: becomes readable when attend must be called, which may also be called at any other
 * time. Otherwise -1. Control thread. */
int sonar_pipeline_fd(const sonar_pipeline *pipeline);
/* Does what rank 0 has asked for. Control thread. */
void sonar_pipeline_attend(sonar_pipeline *pipeline);
/* UUID of this start. */
const char *sonar_pipeline_run(const sonar_pipeline *pipeline);
/* The process's only ZeroMQ context. The owner of a socket in it closes the socket before
 * destroy. */
void *sonar_pipeline_context(const sonar_pipeline *pipeline);
/* For the control socket, what all sockets share: the gate that admits peers, and the account of
 * the memory that all peers hold. */
struct sonar_gate *sonar_pipeline_gate(const sonar_pipeline *pipeline, sonar_domain domain);
struct sonar_memory *sonar_pipeline_memory(const sonar_pipeline *pipeline);
/* Processes what is queued for at most timeout_ms, then stops all threads. A window that is
 * unfinished then is discarded between two tasks of a stage and not published. False: a thread did
 * not end. The data thread is inside a task that takes more than another 0.2 s, readers keep the
 * output thread inside libzmq, or the disk keeps the recorder. Everything else has stopped, and the
 * process can exit as it is; destroy would wait for the thread. Control thread. */
bool sonar_pipeline_stop(sonar_pipeline *pipeline, int timeout_ms);
void sonar_pipeline_destroy(sonar_pipeline *pipeline);
/* Like destroy. False: at the end of that time libzmq is still closing what its peers opened.
 * Nothing else is left, and the process can exit by _exit. */
bool sonar_pipeline_destroy_within(sonar_pipeline *pipeline, int timeout_ms);

/* --train: times the alternatives on this node and keeps the choices. --explain: prints the choices
 * that would be made. Both use their own pool and log, and no sockets; reports go to `to`. */
sonar_code sonar_pipeline_train(const sonar_config *config,
                                void (*log)(void *ctx, sonar_level level, const char *where,
                                            const char *text),
                                void *log_ctx, FILE *to, sonar_error *err);
sonar_code sonar_pipeline_explain(const sonar_config *config,
                                  void (*log)(void *ctx, sonar_level level, const char *where,
                                              const char *text),
                                  void *log_ctx, FILE *to, sonar_error *err);

#endif
