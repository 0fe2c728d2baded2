/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Ports and addresses for tests, so that two runs can go on side by side. */
#ifndef TEST_PORT_H
#define TEST_PORT_H

/* A port that is free at all addresses; `type` is SOCK_STREAM or SOCK_DGRAM. */
int free_port(int type);

/* A loopback address that no other running process uses, derived from this process's id. */
const char *own_address(void);
/* "tcp://ADDRESS:PORT" or the same of udp, at that address and a port that has not been given. */
void own_endpoint(const char *transport, char endpoint[48]);

#endif
