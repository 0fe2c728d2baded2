/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * TCP connections to instruments, which are dialled again when they end: after 0.25 s, and after
 * twice as long each time nothing good comes of it, up to 16 s. One thread.
 */
#ifndef FEED_WIRE_H
#define FEED_WIRE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "tally.h"

enum { WIRE_ROOM = 1 << 17 };

typedef struct wire {
    tally *tally;
    char name[272], host[256], port[8]; /* name: for messages */
    int fd;                             /* -1: none */
    bool dialling, opened; /* opened: since the last wait; nothing has been sent or read yet */
    bool ended;            /* what came before may still be taken */
    int why;               /* it ended, errno; 0: the other side ended it */
    unsigned tries;        /* since something good came */
    int64_t dial_ns;       /* not before, monotonic */
    size_t bytes;
    uint8_t data[WIRE_ROOM]; /* that has come */
} wire;

/* "HOST" or "HOST:PORT", an IPv6 address in brackets; `length` characters of text. False: it is
 * something else. */
bool wire_name(wire *wire, tally *tally, const char *text, size_t length, const char *port);
/* Waits until something happens with one of the wires, or a signal comes, at most 0.2 s. At most
 * 64 wires. */
void wire_wait(wire *wires, size_t count);
/* No whole message is left: a connection that has ended is dialled again. */
void wire_settle(wire *wire);
/* Takes bytes from the beginning of data. */
void wire_take(wire *wire, size_t bytes);
/* False: it did not go, and the connection is ended. */
bool wire_send(wire *wire, const void *data, size_t bytes);
/* What came was good: the next connection may be dialled at once. */
void wire_good(wire *wire);
/* Ends the connection, which is dialled again. */
void wire_end(wire *wire);
/* The first bytes that came, for messages, as text. */
const char *wire_quote(const wire *wire, char text[64]);

#endif
