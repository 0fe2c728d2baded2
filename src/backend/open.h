/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Opening a backend: the CPU's, or that of a plugin. A plugin is a shared library with one exported
 * symbol, found at run time, so that one package serves nodes with and without its hardware. */
#ifndef SONAR_BACKEND_OPEN_H
#define SONAR_BACKEND_OPEN_H

#include "sonar/backend.h"

typedef struct sonar_backend_choice {
    const sonar_backend *backend;
    const sonar_plugin_ops *plugin; /* the plugin that opened it; NULL for the CPU */
    char description[192];          /* the hardware, as text */
    char reason[512];               /* the reason for this choice, one sentence */
} sonar_backend_choice;

/* The CPU's backend. It always exists and needs no opening. */
const sonar_backend *sonar_backend_cpu(void);
/* Describes the CPU's hardware as text. */
void sonar_backend_cpu_describe(const sonar_host *host, char *description, size_t bytes);

/* Opens the device host->device of one backend. `name` is "cpu", the name of a plugin (an error
 * with the reason if it cannot be used), or "auto": a plugin if a usable one exists, else the CPU,
 * never an error. plugin_dir NULL: the loader's search path. A loaded plugin is never unloaded. The
 * caller closes the choice. Control thread, at start. */
sonar_code sonar_backend_open(const char *name, const char *plugin_dir, const sonar_host *host,
                              sonar_backend_choice *choice, sonar_error *err);
/* Loads libsonar-NAME.so, which is never unloaded, and finds its symbol. Writes the library's name
 * to path[bytes]. SONAR_EUNAVAILABLE with the loader's message. */
sonar_code sonar_plugin_load(const char *name, const char *plugin_dir, const char *symbol,
                             char *path, size_t bytes, void **found, sonar_error *err);

/* Call it after everything made with the backend is destroyed. An empty choice is allowed. */
void sonar_backend_close(sonar_backend_choice *choice);

#endif
