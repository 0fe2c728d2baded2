/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Ports for tests, so that two runs can go on side by side. */
#ifndef TEST_PORT_H
#define TEST_PORT_H

/* A port that nobody has at any address now; `type` is SOCK_STREAM or SOCK_DGRAM. */
int free_port(int type);

#endif
