/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The verbs of the control socket, one row each of the table in verbs.c. Inside src/control
 * only. */
#ifndef SONAR_CONTROL_VERBS_H
#define SONAR_CONTROL_VERBS_H

#include "control/server.h"
#include "net/net.h"

struct sonar_control {
    sonar_control_spec spec;
    void *socket; /* NULL: there is no socket, so no request is received */
    int fd;
    sonar_peers *peers;
    int64_t ticked_ns;
    size_t largest_bytes; /* largest size of the requests received */
    /* of the current request */
    sonar_config_differences differences; /* what it changes */
    sonar_config_differences file;        /* between the running configuration and the file */
};

#endif
