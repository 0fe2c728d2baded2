/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What every program does first, the daemon as well as the tools. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Call it before anything else. Puts /dev/null in the place of each of the descriptors 0 to 2 that
 * is closed: otherwise a socket or an eventfd would get its number, and what is printed would be
 * written into that. Has the process end with 1 and a sentence where it would end with what was
 * printed not written, to a full disk for example. name is kept. */
void program_begin(const char *name);

/* From now on that signal sets *stop to 1 and ends a call that waits (EINTR). All signals share one
 * flag, which is kept. */
void program_stop_on(int number, volatile sig_atomic_t *stop);

/* This program's folder, to dir[bytes]. False: it cannot be told. */
bool program_folder(char *dir, size_t bytes);

/* The folder of the GPU plugin that came with this program: ../lib/sonard beside the program's
 * folder where there is one, as in an installation, else ../lib, as in a build tree. False: the
 * program's own place cannot be told. */
bool program_plugin_dir(char *dir, size_t bytes);

#endif
