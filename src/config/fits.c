/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "config/fits.h"

#include <stdio.h>
#include <string.h>

#include "config/options.h"

/* Writes the place of the first of these options that the file sets. */
static void place_of(const sonar_config *c, char *where, size_t bytes) {
    static const sonar_option_id deciding[] = {OPT_QUEUE_WINDOWS, OPT_LINE_SENSORS, OPT_PLANAR_ROWS,
                                               OPT_POSITIONS_LIST, OPT_POSITIONS_CSV};
    for (size_t i = 0; i < sizeof deciding / sizeof *deciding; i++) {
        const sonar_value *v = &c->settings->value[deciding[i]];
        if (v->origin != SONAR_FROM_FILE)
            continue;
        snprintf(where, bytes, "%s:%zu:%zu", c->settings->file, v->place.line, v->place.column);
        return;
    }
    snprintf(where, bytes, "%s", c->settings->file);
}

static const char *print(double bytes, char text[32]) {
    if (bytes < 0x1p30)
        snprintf(text, 32, "%.0f MiB", bytes / 0x1p20);
    else
        snprintf(text, 32, "%.1f GiB", bytes / 0x1p30);
    return text;
}

sonar_code sonar_config_fits(const sonar_config *c, const sonar_fit *fit,
                             char warning[sizeof((sonar_error *)0)->text], sonar_error *err) {
    const double needed =
        fit->device ? sonar_config_gpu_bytes(c) : (double)sonar_config_memory_bytes(c);
    const char *queue = c->ingest_queue_windows > 1 ? ", fewer ingest.queue_windows" : "";
    const char *s16 = c->sample_type == SONAR_S16 ? "" : ", ingest.sample_type: s16";
    char there[32], need[32], where[sizeof err->where];
    warning[0] = '\0';
    print(needed, need);
    print(fit->there_bytes, there);
    place_of(c, where, sizeof where);
    if (needed > fit->there_bytes)
        return sonar_fail(err, SONAR_ENOMEM, where,
                          "the configuration takes %s of memory, and %s is %s; fewer channels, a "
                          "shorter window or hop%s%s take less",
                          need, fit->of, there, queue, s16);
    if (needed > 0.9 * fit->there_bytes)
        snprintf(warning, sizeof err->text,
                 "%s: the configuration takes %s of memory, and %s is %s, which leaves little for "
                 "anything else; fewer channels, a shorter window or hop%s%s take less",
                 where, need, fit->of, there, queue, s16);
    return SONAR_OK;
}
