/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What can be asked for: one row of the table in verbs.c each. Inside src/control only. */
#ifndef SONAR_CONTROL_VERBS_H
#define SONAR_CONTROL_VERBS_H

#include "control/server.h"
#include "net/net.h"

struct sonar_control {
    sonar_control_spec spec;
    void *socket; /* NULL: no subscriber is served */
    int fd;
    sonar_peers *peers;
    int64_t ticked_ns;
    size_t largest_bytes; /* of the requests that came */
    /* of the request in work */
    sonar_config_differences differences; /* what it changes */
    sonar_config_differences file;        /* between what holds now and the file */
};

#endif
