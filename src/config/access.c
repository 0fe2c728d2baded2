/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "config/access.h"

enum { MESSAGE_BYTES = 480 };

static void add(sonar_loader *l, sonar_severity severity, sonar_option_id id, const char *accepted,
                const char *format, va_list args) {
    char message[MESSAGE_BYTES];
    vsnprintf(message, sizeof message, format, args);
    sonar_report_add(l->report, severity, l->text, sonar_place_of(l, id), accepted, "%s: %s",
                     sonar_options[id].path, message);
}

bool sonar_option_fail(sonar_loader *l, sonar_option_id id, const char *accepted,
                       const char *format, ...) {
    va_list args;
    va_start(args, format);
    add(l, SONAR_MISTAKE, id, accepted, format, args);
    va_end(args);
    return false;
}

void sonar_option_warn(sonar_loader *l, sonar_option_id id, const char *accepted,
                       const char *format, ...) {
    va_list args;
    va_start(args, format);
    add(l, SONAR_WARNING, id, accepted, format, args);
    va_end(args);
}

const char *sonar_config_millimetres(const sonar_config *c, double top_hz) {
    static const double most_wavelengths = 50, least_of_thousandth = 0.02;
    const double apart = c->geometry.spacing_m * top_hz / c->sound_speed_mps;
    const bool is =
        apart > most_wavelengths && apart / 1000 > least_of_thousandth && apart / 1000 < 5;
    return is ? "; positions are in metres, and these look like millimetres" : "";
}
