/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { DEFAULT_WIDTH = 80, DEFAULT_HEIGHT = 24, LEAVE_WITHIN_MS = 200 };

/* The alternate screen, without cursor and without wrapping of lines; and back. */
static const char ENTER[] = "\033[?1049h\033[?25l\033[?7l\033[2J";
static const char LEAVE[] = "\033[0m\033[?7h\033[?25h\033[?1049l";

static volatile sig_atomic_t stopped, changed, suspend, entered, keys_taken;
static bool keys_ended; /* standard input has ended */
static struct termios before;

/* ---- taking and giving back ------------------------------------------------------------------ */

static bool in_foreground(int fd) {
    const pid_t group = tcgetpgrp(fd);
    return group < 0 ||
           group ==
               getpgrp(); /* not this program's controlling terminal, so there is no job control */
}

/* Reads keys at once and without echo; ctrl-c and ctrl-z remain signals. */
static void take_keys(void) {
    if (!isatty(STDIN_FILENO) || !in_foreground(STDIN_FILENO))
        return;
    if (!keys_taken && tcgetattr(STDIN_FILENO, &before) != 0)
        return;
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    keys_taken = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

bool watch_terminal_enter(void) {
    static bool at_exit;
    if (entered || !in_foreground(STDOUT_FILENO))
        return entered;
    if (!at_exit)
        at_exit = atexit(watch_terminal_leave) == 0;
    take_keys();
    entered = 1;
    watch_terminal_write(ENTER, sizeof ENTER - 1);
    return true;
}

/* A process in the background that changes the terminal would be stopped by SIGTTOU. */
static void give_keys_back(void) {
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGTTOU);
    sigprocmask(SIG_BLOCK, &set, &old);
    tcsetattr(STDIN_FILENO, TCSANOW, &before);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

void watch_terminal_leave(void) {
    if (!entered)
        return;
    entered = 0;
    struct pollfd out = {STDOUT_FILENO, POLLOUT, 0}; /* output may be stopped by ctrl-s */
    if (poll(&out, 1, LEAVE_WITHIN_MS) == 1 && write(STDOUT_FILENO, LEAVE, sizeof LEAVE - 1) < 0)
        stopped = 1; /* the terminal is gone */
    if (keys_taken)
        give_keys_back();
    keys_taken = 0;
}

/* ---- signals --------------------------------------------------------------------------------- */

static void on_signal(int number) {
    if (number == SIGTSTP)
        suspend = 1;
    else if (number == SIGWINCH)
        changed = 1;
    else if (number == SIGCONT) /* after SIGSTOP the terminal is still in this program's mode, but
                                   others have used it since */
        changed = 1, entered = 0;
    else
        stopped = 1;
}

/* The handler was reset before, so the raised signal has its default effect. */
static void on_fatal(int number) {
    watch_terminal_leave();
    raise(number);
}

static void catch (int number, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(number, &action, NULL);
}

void watch_terminal_signals(void) {
    static const int noted[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP, SIGCONT};
    static const int fatal[] = {SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof noted / sizeof noted[0]; i++)
        catch (noted[i], on_signal, 0); /* without SA_RESTART, so that signals end a poll */
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++)
        catch (fatal[i], on_fatal, (int)SA_RESETHAND);
    catch (SIGPIPE, SIG_IGN, 0); /* with `sonar-watch | head` writing fails and ends the program */
}

bool watch_terminal_stopped(void) {
    return stopped;
}

/* Stops here, for ctrl-z, until SIGCONT. */
static void stop_for_now(void) {
    suspend = 0;
    watch_terminal_leave();
    catch (SIGTSTP, SIG_DFL, 0);
    raise(SIGTSTP); /* continues here after SIGCONT */
    catch (SIGTSTP, on_signal, 0);
    changed = 1;
}

bool watch_terminal_changed(void) {
    if (suspend)
        stop_for_now();
    if (!changed)
        return false;
    changed = 0;
    return true;
}

/* ---- keys, size, output ---------------------------------------------------------------------- */

int watch_terminal_keys(void) {
    return keys_taken && !keys_ended ? STDIN_FILENO : -1;
}

bool watch_terminal_quit(void) {
    char key[64];
    const ssize_t keys = read(STDIN_FILENO, key, sizeof key);
    keys_ended = keys == 0 || (keys < 0 && errno != EINTR && errno != EAGAIN);
    for (ssize_t i = 0; i < keys; i++)
        if (key[i] == 'q' || key[i] == 'Q')
            return true;
    return false;
}

void watch_terminal_size(int *width, int *height) {
    struct winsize size = {0};
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    *width = known && size.ws_col > 0 ? size.ws_col : DEFAULT_WIDTH;
    *height = known && size.ws_row > 0 ? size.ws_row : DEFAULT_HEIGHT;
}

/* Writes pieces that a pipe accepts at once, so that no write blocks for ever. */
bool watch_terminal_write(const char *data, size_t bytes) {
    enum { PIECE = 4096, WAIT_MS = 100 };
    while (bytes > 0 && !stopped) {
        struct pollfd out = {STDOUT_FILENO, POLLOUT, 0};
        if (poll(&out, 1, WAIT_MS) < 1)
            continue;
        const ssize_t done = write(STDOUT_FILENO, data, bytes < PIECE ? bytes : PIECE);
        if (done < 0 && errno != EINTR && errno != EAGAIN)
            return false;
        if (done > 0) {
            data += done;
            bytes -= (size_t)done;
        }
    }
    return bytes == 0;
}
