/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Changes while the daemon runs: applies a file or single values to the pipeline's configuration.
 * Control thread. Nothing changes unless everything is valid.
 */
#ifndef SONAR_CONTROL_CHANGE_H
#define SONAR_CONTROL_CHANGE_H

#include "pipeline/pipeline.h"

typedef void (*sonar_control_log)(void *ctx, sonar_level level, const char *where,
                                  const char *text);

/* Reads the configuration file again. Options that differ from the running configuration change if
 * they can; the others are logged with their paths. Values that were set since the last reading go
 * back to those of the file. Mistakes in the file are logged with file, line and column:
 * SONAR_EINVAL. */
sonar_code sonar_control_reload(sonar_pipeline *pipeline, const char *path, sonar_control_log log,
                                void *log_ctx, sonar_config_differences *differences,
                                sonar_error *err);
/* Sets values. An option that cannot change at run time is an error, and nothing changes then.
 * `differences` receives what changed. SONAR_EINVAL with the option's path in the text. */
sonar_code sonar_control_set(sonar_pipeline *pipeline, size_t count,
                             const sonar_config_value *value, sonar_control_log log, void *log_ctx,
                             sonar_config_differences *differences, sonar_error *err);

/* How the running values differ from those in the file now, which a restart would use: `from` is
 * the daemon's value, `to` the file's. Changes nothing and logs nothing. SONAR_EINVAL: the file has
 * a mistake or cannot be read. */
sonar_code sonar_control_compare(sonar_pipeline *pipeline, const char *path,
                                 sonar_config_differences *differences, sonar_error *err);

#endif
