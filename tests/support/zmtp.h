/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A peer that speaks ZMTP 3.0 (NULL mechanism) over a plain stream socket, and so can do what
 * libzmq never would: stop half way, in CURVE's handshake too, send parts without end, be of the
 * wrong kind, reset. */
#ifndef TEST_ZMTP_H
#define TEST_ZMTP_H

#include <stdbool.h>
#include <stddef.h>

/* Connects to ipc://PATH or tcp://A.B.C.D:PORT, non-blocking from then on; -1 if it cannot. */
int zmtp_connect(const char *endpoint);
/* The same from this local address, where the transport has any; NULL: the system's choice. */
int zmtp_connect_from(const char *endpoint, const char *address);
/* The greeting and READY of a socket of that type ("PUSH", "SUB"), without a look at the answer. */
bool zmtp_introduce(int fd, const char *type);
/* The same, and what the other side answers until its READY has come; false if it hangs up or takes
 * more than a second. */
bool zmtp_handshake(int fd, const char *type);
/* A greeting that names the mechanism, and nothing behind it; with the other side's, if it comes.
 */
bool zmtp_greet(int fd, const char *mechanism);
/* After such a greeting, the HELLO of a CURVE client for a server with this public key (Z85), as it
 * has to be, and the server's WELCOME; false if none comes. The handshake is then half done. */
bool zmtp_curve_hello(int fd, const char *server_key);
/* One frame, with all its bytes the same; false if the other side has hung up or takes nothing for
 * timeout_ms. */
bool zmtp_part(int fd, int byte, size_t bytes, bool more, int timeout_ms);
bool zmtp_bytes(int fd, const void *data, size_t bytes, int timeout_ms);
/* The other side has ended the connection; what it has sent is thrown away. */
bool zmtp_is_over(int fd);
/* Ends with a reset, where the transport knows one. */
void zmtp_reset(int fd);

#endif
