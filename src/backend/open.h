/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Backends: which one runs, decided once at start. A plugin is a shared library with one exported
 * symbol, found at run time, so that one package serves nodes with and without its hardware. */
#ifndef SONAR_BACKEND_OPEN_H
#define SONAR_BACKEND_OPEN_H

#include "sonar/sonar.h"

typedef struct sonar_backend_choice {
    const sonar_backend *backend;
    char description[192]; /* the hardware, in words */
    char reason[512];      /* why this one, one sentence */
} sonar_backend_choice;

/* "cpu", a plugin's name (its absence is an error with its reason) or "auto" (a plugin if there is
 * a usable one, else the CPU; never an error). plugin_dir NULL: the loader's own search path. A
 * loaded plugin is never unloaded. Control thread, at start. */
sonar_code sonar_backend_open(const char *name, const char *plugin_dir, const sonar_host *host,
                              sonar_backend_choice *choice, sonar_error *err);

#endif
