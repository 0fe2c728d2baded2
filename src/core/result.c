/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/result.h"

const char *sonar_frame_cause_name(sonar_frame_cause cause) {
    static const char *const name[SONAR_FRAME_CAUSES] = {[SONAR_FRAME_MALFORMED] = "malformed",
                                                         [SONAR_FRAME_TRUNCATED] = "truncated",
                                                         [SONAR_FRAME_OVERSIZED] = "oversized",
                                                         [SONAR_FRAME_WRONG_ARRAY] = "wrong_array",
                                                         [SONAR_FRAME_WRONG_CHANNELS] =
                                                             "wrong_channels",
                                                         [SONAR_FRAME_WRONG_RATE] = "wrong_rate",
                                                         [SONAR_FRAME_WRONG_EPOCH] = "wrong_epoch",
                                                         [SONAR_FRAME_NOT_FINITE] = "not_finite",
                                                         [SONAR_FRAME_WRONG_TYPE] = "wrong_type",
                                                         [SONAR_FRAME_REPEATED] = "repeated",
                                                         [SONAR_FRAME_LATE] = "late",
                                                         [SONAR_FRAME_AHEAD] = "ahead",
                                                         [SONAR_FRAME_OVERRUN] = "overrun"};
    return (unsigned)cause < SONAR_FRAME_CAUSES ? name[cause] : "unknown";
}

const char *sonar_window_cause_name(sonar_window_cause cause) {
    static const char *const name[SONAR_WINDOW_CAUSES] = {[SONAR_WINDOW_OVERLOAD] = "overload",
                                                          [SONAR_WINDOW_MISSING] = "missing",
                                                          [SONAR_WINDOW_SKIPPED] = "skipped"};
    return (unsigned)cause < SONAR_WINDOW_CAUSES ? name[cause] : "unknown";
}
