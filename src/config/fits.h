/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Checks that the memory of a configuration is available before it is allocated, because the kernel
 * kills a process that runs out of memory later. */
#ifndef SONAR_CONFIG_FITS_H
#define SONAR_CONFIG_FITS_H

#include "config/config.h"
#include "core/room.h"

typedef struct sonar_fit {
    double there_bytes; /* memory that is available */
    const char *of;     /* name of that memory in messages, as in "... is 3 GiB"; borrowed */
    bool device;        /* memory of a GPU with all stages; else of the host */
} sonar_fit;

/* warning: a sentence if less than a tenth is left, else "". SONAR_ENOMEM: it does not fit; `where`
 * is the place in the file of the option that takes most. Any thread. */
sonar_code sonar_config_fits(const sonar_config *config, const sonar_fit *fit,
                             char warning[sizeof((sonar_error *)0)->text], sonar_error *err);

#endif
