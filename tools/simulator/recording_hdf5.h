/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Samples in HDF5 as Acoular has them: /time_data [sample][channel] of any numbers, with the
 * attribute sample_freq in Hz. For recording.c; one thread. */
#ifndef SIM_RECORDING_HDF5_H
#define SIM_RECORDING_HDF5_H

#include "recording.h"

typedef struct sim_hdf5 sim_hdf5;

/* Fills channels, frames, fs_hz and format. SONAR_EUNAVAILABLE: it is not there, or this build has
 * no HDF5. SONAR_EINVAL: it is laid out in another way. */
sonar_code sim_hdf5_open(const char *path, sim_recording_info *info, sim_hdf5 **made,
                         sonar_error *err);
/* Samples [first, first + samples) as to[sample][channel]. */
bool sim_hdf5_read(const sim_hdf5 *hdf5, uint64_t first, size_t samples, float *to);
void sim_hdf5_close(sim_hdf5 *hdf5); /* NULL is allowed */

#endif
