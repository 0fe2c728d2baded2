/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/core.h"

#include <stdarg.h>
#include <stdio.h>

sonar_code sonar_fail(sonar_error *err, sonar_code code, const char *where, const char *format,
                      ...) {
    if (!err)
        return code;
    err->code = code;
    snprintf(err->where, sizeof err->where, "%s", where ? where : "");
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return code;
}

void sonar_log(const sonar_host *host, sonar_level level, const char *where, const char *format,
               ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    host->log(host->ctx, level, where, text);
}
