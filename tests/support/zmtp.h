/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A peer that speaks ZMTP 3.0 (NULL mechanism) over a plain stream socket. Unlike libzmq it can
 * stop half way, also in CURVE's handshake, send endless parts, have the wrong socket type, or
 * reset. */
#ifndef TEST_ZMTP_H
#define TEST_ZMTP_H

#include <stdbool.h>
#include <stddef.h>

/* Connects to ipc://PATH or tcp://A.B.C.D:PORT, non-blocking from then on; -1 if it cannot. */
int zmtp_connect(const char *endpoint);
/* The same from this local address, if the transport has addresses; NULL: chosen by the system. */
int zmtp_connect_from(const char *endpoint, const char *address);
/* Sends the greeting and READY of a socket of that type ("PUSH", "SUB"), without reading the
 * answer. */
bool zmtp_introduce(int fd, const char *type);
/* The same, then reads the answer up to the other side's READY; false if it disconnects or takes
 * more than a second. */
bool zmtp_handshake(int fd, const char *type);
/* Sends only a greeting that names the mechanism, and reads the other side's greeting, if it sends
 * one. */
bool zmtp_greet(int fd, const char *mechanism);
/* After a greeting for CURVE, sends a valid HELLO for a server with this public key (Z85) and reads
 * the server's WELCOME; false if it sends none. The handshake is then half complete. */
bool zmtp_curve_hello(int fd, const char *server_key);
/* Sends one frame of equal bytes; false if the other side has disconnected or accepts no data for
 * timeout_ms. */
bool zmtp_part(int fd, int byte, size_t bytes, bool more, int timeout_ms);
bool zmtp_bytes(int fd, const void *data, size_t bytes, int timeout_ms);
/* Whether the other side has closed the connection; discards the data that it has sent. */
bool zmtp_is_over(int fd);
/* Closes with a reset, if the transport has resets. */
void zmtp_reset(int fd);

#endif
