/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which side's peers made the process grow lately. Inside src/net only. */
#ifndef SONAR_NET_BLAME_H
#define SONAR_NET_BLAME_H

#include "net/net.h"

typedef struct sonar_blame {
    int64_t at_ns;
    double faults[SONAR_MEMORY_SIDES]; /* minor faults of each side's threads until then... */
    double grown[SONAR_MEMORY_SIDES];  /* ...and those of the last seconds */
} sonar_blame;

/* Looks at most ten times a second; where nothing is to be seen, the samples'. One thread at a
 * time. */
sonar_memory_side sonar_blame_update(sonar_blame *blame, int64_t now_ns);

#endif
