/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The heading of the scene's own ship as NMEA 0183 over UDP, ten times a second of the stream: HDT
 * sentences, VHW with its speed, if it has one, and XDR of each compass in a towed array. One
 * thread. */
#ifndef SIM_HEADING_H
#define SIM_HEADING_H

#include "config/config.h"
#include "scene.h"

typedef struct sim_heading sim_heading;

/* address: udp://ADDRESS:PORT, borrowed during the call. Borrows the configuration until close. */
sonar_code sim_heading_open(const char *address, const sim_scene *scene, const sonar_config *config,
                            sim_heading **heading, sonar_error *err);
/* Sends the headings that are due after `samples` samples of the stream. NULL is allowed. */
void sim_heading_advance(sim_heading *heading, uint64_t samples);
void sim_heading_close(sim_heading *heading); /* NULL is allowed */

#endif
