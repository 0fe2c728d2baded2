/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Checks that the memory of a configuration is available before it is allocated: if memory runs out
 * later, the kernel kills the process. */
#ifndef SONAR_CONFIG_FITS_H
#define SONAR_CONFIG_FITS_H

#include "config/config.h"
#include "core/room.h"

typedef struct sonar_fit {
    double there_bytes; /* memory that is available */
    const char *of;     /* what that is, as in "... is 3 GiB"; borrowed */
    bool device;        /* a GPU's, with all stages on it; else the host's */
} sonar_fit;

/* warning: "" or a sentence, where less than a tenth is left. SONAR_ENOMEM: it does not fit;
 * `where` is the place of the option in the file that decides most. Any thread. */
sonar_code sonar_config_fits(const sonar_config *config, const sonar_fit *fit,
                             char warning[sizeof((sonar_error *)0)->text], sonar_error *err);

#endif
