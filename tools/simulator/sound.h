/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What readers of files and of streams through libsndfile share. */
#ifndef SIM_SOUND_H
#define SIM_SOUND_H

#include <sndfile.h>

#include "recording.h"

/* Has libsndfile read counts, and fills channels, frames, rate and format from what it says. */
void sim_sound_info(SNDFILE *sound, const SF_INFO *about, sim_recording_info *info);
/* Bytes of one sample of one channel. */
size_t sim_raw_bytes(const sim_raw *raw);

#endif
