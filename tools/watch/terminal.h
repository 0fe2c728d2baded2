/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The terminal while the viewer uses it: alternate screen, unbuffered keys, signals. The previous
 * state is restored however the program ends or stops: at its end, by a signal, by ctrl-z, or by
 * abort. One thread. */
#ifndef WATCH_TERMINAL_H
#define WATCH_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/* Handles SIGINT, SIGTERM and SIGHUP (to stop), SIGWINCH, SIGTSTP and SIGCONT; ignores SIGPIPE. */
void watch_terminal_signals(void);
bool watch_terminal_stopped(void);

/* Enters the alternate screen, if the program is in the foreground and has not entered it yet.
 * Returns true if it is entered. */
bool watch_terminal_enter(void);
/* Restores the terminal, if it was entered. May be called from a signal handler. */
void watch_terminal_leave(void);
/* Handles ctrl-z and continuation. True: the picture must be drawn again, and the size may have
 * changed. */
bool watch_terminal_changed(void);

/* The descriptor for keys, -1: none. */
int watch_terminal_keys(void);
/* Called after poll has reported it: true if q was pressed. */
bool watch_terminal_quit(void);

/* Columns and lines; 80 x 24 if unknown. */
void watch_terminal_size(int *width, int *height);
/* Writes to standard output; false if that fails, or if a signal to stop arrives while it
 * blocks. */
bool watch_terminal_write(const char *data, size_t bytes);

#endif
