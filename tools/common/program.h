/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What every program does first, both the daemon and the tools. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Call it before anything else. Opens /dev/null for each of the descriptors 0 to 2 that is closed;
 * otherwise a socket or an eventfd would get its number, and output would be written to it. At
 * exit, if output could not be written (to a full disk, for example), prints a sentence and exits
 * with 1. name is kept. */
void program_begin(const char *name);

/* From now on that signal sets *stop to 1 and interrupts a waiting call (EINTR). All signals share
 * one flag, which is kept. */
void program_stop_on(int number, volatile sig_atomic_t *stop);

/* This program's folder, to dir[bytes]. False: unknown. */
bool program_folder(char *dir, size_t bytes);

/* The folder of the GPU plugin that belongs to this program: ../lib/sonard beside the program's
 * folder, as in an installation, if it exists; else ../lib, as in a build tree. False: the
 * program's own folder is unknown. */
bool program_plugin_dir(char *dir, size_t bytes);

#endif
