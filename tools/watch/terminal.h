/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The terminal while the viewer has it: another screen, keys as they are pressed, signals. What was
 * before comes back whichever way the program leaves: at its end, by a signal that ends it, when it
 * is stopped (ctrl-z), when it aborts. One thread. */
#ifndef WATCH_TERMINAL_H
#define WATCH_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/* Notes SIGINT, SIGTERM and SIGHUP (to stop), SIGWINCH, SIGTSTP and SIGCONT; ignores SIGPIPE. */
void watch_terminal_signals(void);
bool watch_terminal_stopped(void);

/* Takes the terminal, if the program is in its foreground and does not have it yet; true: it has.
 */
bool watch_terminal_enter(void);
/* Gives it back; nothing where it was not taken. Callable from a signal handler, too. */
void watch_terminal_leave(void);
/* Obeys ctrl-z and its end. True: the picture has to be drawn, the size may be another. */
bool watch_terminal_changed(void);

/* The descriptor keys come from, -1: none do. */
int watch_terminal_keys(void);
/* After a poll of it: true if one of the keys pressed was q. */
bool watch_terminal_quit(void);

/* Columns and lines, 80 x 24 where they are not known. */
void watch_terminal_size(int *width, int *height);
/* Writes to standard output; false when that fails or a signal to stop comes while it blocks. */
bool watch_terminal_write(const char *data, size_t bytes);

#endif
