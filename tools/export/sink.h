/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Files of other programs that a recording is written into. One thread. */
#ifndef EXPORT_SINK_H
#define EXPORT_SINK_H

#include "recording.h"

typedef struct export_sink export_sink;
struct export_sink {
    /* Appends rows[sample][channel]. */
    sonar_code (*append)(export_sink *sink, const float *rows, size_t samples, sonar_error *err);
    /* Completes the file and frees the sink, errors or not. */
    sonar_code (*finish)(export_sink *sink, sonar_error *err);
};

/* What is going to be written: info->frames samples of info->channels channels. A file that is
 * there already is not touched: SONAR_EINVAL. */

/* RF64, which a WAV file becomes beyond 4 GB, through libsndfile. Integer recordings keep their
 * width, floats are written as they are. */
sonar_code export_sound(const char *path, const sim_recording_info *info, export_sink **sink,
                        sonar_error *err);
/* HDF5 as Acoular reads it (acoular.TimeSamples): /time_data, f32 [sample][channel], with the
 * attribute sample_freq in Hz. SONAR_EUNAVAILABLE in a build without HDF5. */
sonar_code export_hdf5(const char *path, const sim_recording_info *info, export_sink **sink,
                       sonar_error *err);

#endif
