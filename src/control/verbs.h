/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What can be asked for: one row of the table in verbs.c each. Inside src/control only. */
#ifndef SONAR_CONTROL_VERBS_H
#define SONAR_CONTROL_VERBS_H

#include "control/server.h"

struct sonar_control {
    sonar_control_spec spec;
    void *socket; /* NULL: nobody listens */
    int fd;
    sonar_config_differences differences; /* of the request in work */
};

#endif
