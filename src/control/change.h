/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Changes while the daemon runs: from a file or from single values to a configuration that the
 * pipeline goes over to. Control thread. Nothing changes unless all is right.
 */
#ifndef SONAR_CONTROL_CHANGE_H
#define SONAR_CONTROL_CHANGE_H

#include "pipeline/pipeline.h"

typedef void (*sonar_control_log)(void *ctx, sonar_level level, const char *where,
                                  const char *text);

/* Reads the configuration file again. What differs from what runs changes where it can and is named
 * with the option's path where it cannot; values that were set since the last reading and are not
 * in the file go back. Mistakes in the file are logged with file, line and column: SONAR_EINVAL. */
sonar_code sonar_control_reload(sonar_pipeline *pipeline, const char *path, sonar_control_log log,
                                void *log_ctx, sonar_config_differences *differences,
                                sonar_error *err);
/* Sets values; options that cannot change are an error here, and nothing changes then.
 * `differences` are those that have changed. SONAR_EINVAL with the option's path in the text. */
sonar_code sonar_control_set(sonar_pipeline *pipeline, size_t count,
                             const sonar_config_value *value, sonar_control_log log, void *log_ctx,
                             sonar_config_differences *differences, sonar_error *err);

/* By what the values that hold now differ from those of the file as it is now, which a restart
 * would take: `from` is the daemon's, `to` the file's. Changes nothing and logs nothing.
 * SONAR_EINVAL: the file has a mistake or cannot be read. */
sonar_code sonar_control_compare(sonar_pipeline *pipeline, const char *path,
                                 sonar_config_differences *differences, sonar_error *err);

#endif
