/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "control/change.h"

#include <stdio.h>
#include <string.h>

#include "core/core.h"

typedef struct log_target {
    sonar_control_log log;
    void *ctx;
} log_target;

static void log_to(const log_target *to, sonar_level level, const char *where, const char *text) {
    if (to->log)
        to->log(to->ctx, level, where, text);
}

static void log_differences(const log_target *to, const sonar_config_differences *all) {
    char text[384];
    for (size_t i = 0; i < all->count; i++) {
        const sonar_config_difference *d = &all->difference[i];
        if (d->live)
            snprintf(text, sizeof text, "%s in place of %s", d->to, d->from);
        else
            snprintf(text, sizeof text, "stays %s, not %s: %s", d->from, d->to, d->why);
        log_to(to, d->live ? SONAR_INFO : SONAR_WARN, d->path, text);
    }
}

/* Logs the refusal. why: NULL if the file's mistakes were already logged with their places. */
static void log_refusal(const log_target *to, const char *path, const sonar_error *why) {
    char text[sizeof why->where + sizeof why->text + 64];
    snprintf(text, sizeof text, "refused, nothing has changed%s%s%s%s", why ? ": " : "",
             why ? why->where : "", why ? ": " : "", why ? why->text : "");
    log_to(to, SONAR_ERROR, path, text);
}

/* The first mistake of a report as an error; if it comes from a file, with its place. */
static sonar_code first_mistake(const sonar_report *report, bool of_file, sonar_code code,
                                sonar_error *err) {
    char where[160] = "configuration", text[400] = "cannot be read", more[48] = "";
    if (code == SONAR_ENOMEM)
        return sonar_fail(err, code, where, "no memory for another configuration");
    if (report)
        sonar_report_mistake(report, of_file ? where : NULL, text, sizeof text);
    if (of_file && report && sonar_report_errors(report) > 1)
        snprintf(more, sizeof more, " (and %zu more, in the log)", sonar_report_errors(report) - 1);
    return sonar_fail(err, code, where, "%s%s", text, more);
}

/* The first difference that was asked for but cannot be applied at run time. */
static const sonar_config_difference *left_out(const sonar_config_differences *all) {
    for (size_t i = 0; i < all->count; i++)
        if (!all->difference[i].live)
            return &all->difference[i];
    return NULL;
}

/* Changes the configuration to `wanted`: to all of it, or to those options that can change at run
 * time. */
static sonar_code change(sonar_pipeline *pipeline, const sonar_config *wanted, bool whole,
                         sonar_config_differences *differences, sonar_error *err) {
    sonar_report *report = sonar_report_create();
    sonar_config *config = NULL;
    sonar_code code =
        sonar_config_merge(sonar_pipeline_made_for(pipeline), sonar_pipeline_config(pipeline),
                           wanted, &config, differences, report);
    const sonar_config_difference *left = code || !whole ? NULL : left_out(differences);
    if (code)
        code = first_mistake(report, false, code, err);
    else if (left)
        code = sonar_fail(err, SONAR_EINVAL, left->path, "stays %s: %s", left->from, left->why);
    else if (config)
        code = sonar_pipeline_reconfigure(pipeline, config, err);
    if (code)
        sonar_config_destroy(config);
    sonar_report_destroy(report);
    return code;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Reads the same key files and folders again. */
static sonar_code reread_keys(sonar_pipeline *pipeline, const sonar_config *wanted,
                              const sonar_config_differences *differences, const log_target *to,
                              sonar_error *err) {
    const sonar_security *keys = &wanted->security;
    if (!keys->curve || !sonar_pipeline_security(pipeline)->curve)
        return SONAR_OK;
    for (size_t i = 0; i < differences->count; i++)
        if (!strncmp(differences->difference[i].path, "security.", strlen("security.")))
            return SONAR_OK; /* if the files or folders themselves differ, the keys stay as they
                                were */
    char text[96];
    snprintf(text, sizeof text, "keys read again: %zu may send, %zu may read",
             keys->allowed[SONAR_SENDERS].count, keys->allowed[SONAR_READERS].count);
    sonar_code code = sonar_pipeline_allow(pipeline, keys, err);
    if (!code)
        log_to(to, SONAR_INFO, "security", text);
    return code;
}

/* ---- a file ---------------------------------------------------------------------------------- */

sonar_code sonar_control_reload(sonar_pipeline *pipeline, const char *path, sonar_control_log log,
                                void *log_ctx, sonar_config_differences *differences,
                                sonar_error *err) {
    log_target to = {log, log_ctx};
    sonar_config *wanted = NULL;
    sonar_report *report = sonar_report_create();
    differences->count = differences->live = 0;
    const char *credentials_dir = sonar_pipeline_security(pipeline)->credentials_dir;
    sonar_code code =
        report ? sonar_config_load_with_keys(path, credentials_dir, &wanted, report) : SONAR_ENOMEM;
    if (report && log)
        sonar_report_each(report, log, log_ctx);
    const bool wanted_is_good = !code;
    if (code)
        code = first_mistake(report, true, code, err);
    else
        code = change(pipeline, wanted, false, differences, err);
    if (!code)
        code = reread_keys(pipeline, wanted, differences, &to, err);
    sonar_report_destroy(report);
    sonar_config_destroy(wanted);
    if (code)
        log_refusal(&to, path, wanted_is_good ? err : NULL);
    else if (!differences->count)
        log_to(&to, SONAR_INFO, path, "read again: nothing differs");
    else
        log_differences(&to, differences);
    return code;
}

sonar_code sonar_control_compare(sonar_pipeline *pipeline, const char *path,
                                 sonar_config_differences *differences, sonar_error *err) {
    sonar_config *file = NULL;
    sonar_report *report = sonar_report_create();
    differences->count = differences->live = 0;
    sonar_code code = report ? sonar_config_load(path, &file, report) : SONAR_ENOMEM;
    if (!code && !sonar_config_compare(sonar_pipeline_config(pipeline), file, differences))
        code = SONAR_ENOMEM;
    if (code)
        code = first_mistake(report, true, code, err);
    sonar_report_destroy(report);
    sonar_config_destroy(file);
    return code;
}

/* ---- single values --------------------------------------------------------------------------- */

static sonar_code refuse_fixed(const sonar_config_value *value, size_t count, sonar_error *err) {
    for (size_t i = 0; i < count; i++) {
        char hint[160];
        bool known;
        if (sonar_config_is_live(value[i].path, hint, sizeof hint, &known))
            continue;
        if (known)
            return sonar_fail(err, SONAR_EINVAL, value[i].path,
                              "cannot change while the daemon runs: change the file and restart");
        return sonar_fail(err, SONAR_EINVAL, value[i].path, "there is no such option%s%s",
                          *hint ? "; " : "", hint);
    }
    return SONAR_OK;
}

sonar_code sonar_control_set(sonar_pipeline *pipeline, size_t count,
                             const sonar_config_value *value, sonar_control_log log, void *log_ctx,
                             sonar_config_differences *differences, sonar_error *err) {
    log_target to = {log, log_ctx};
    sonar_config *wanted = NULL;
    differences->count = differences->live = 0;
    sonar_code code = refuse_fixed(value, count, err);
    if (code)
        return code;
    sonar_report *report = sonar_report_create();
    code = report
               ? sonar_config_with(sonar_pipeline_config(pipeline), count, value, &wanted, report)
               : SONAR_ENOMEM;
    if (code)
        code = first_mistake(report, false, code, err);
    else
        code = change(pipeline, wanted, true, differences, err);
    sonar_report_destroy(report);
    sonar_config_destroy(wanted);
    if (!code)
        log_differences(&to, differences);
    return code;
}
