/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Output files for other programs. One thread. */
#ifndef EXPORT_SINK_H
#define EXPORT_SINK_H

#include "recording.h"

typedef struct export_sink export_sink;
struct export_sink {
    /* Appends rows[sample][channel]. */
    sonar_code (*append)(export_sink *sink, const float *rows, size_t samples, sonar_error *err);
    /* Completes the file and frees the sink, even after errors. */
    sonar_code (*finish)(export_sink *sink, sonar_error *err);
};

/* info describes the output: info->frames samples of info->channels channels. An existing file is
 * not changed: SONAR_EINVAL. */

/* RF64, which a WAV file becomes beyond 4 GB, through libsndfile. Integer recordings keep their
 * width, floats are written as they are. */
sonar_code export_sound(const char *path, const sim_recording_info *info, export_sink **sink,
                        sonar_error *err);
/* HDF5 in the layout of Acoular (acoular.TimeSamples): /time_data, f32 [sample][channel], with the
 * attribute sample_freq in Hz. SONAR_EUNAVAILABLE in a build without HDF5. */
sonar_code export_hdf5(const char *path, const sim_recording_info *info, export_sink **sink,
                       sonar_error *err);

#endif
