/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A small recording with its configuration, as somebody new would have them: made here, so that
 * nothing has to be fetched. */
#ifndef PROCESS_EXAMPLE_H
#define PROCESS_EXAMPLE_H

#include <limits.h>
#include <signal.h>

#include "sonar/sonar.h"

typedef struct example {
    char config[PATH_MAX], scene[PATH_MAX], recording[PATH_MAX], results[PATH_MAX];
    char *file[1]; /* the recording */
} example;

/* Makes the folder and, in it, array.yaml, ships.yaml (the scene, as sonar-sim takes it) and a WAV
 * file, whose names it fills in, with that of a folder for results. SONAR_EINVAL: one of the files
 * is there already. */
sonar_code example_make(const char *folder, example *example, const volatile sig_atomic_t *stop,
                        sonar_error *err);

#endif
