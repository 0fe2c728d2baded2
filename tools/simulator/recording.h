/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Recordings: raw sample-interleaved little-endian samples with a JSON file beside them (same name,
 * .json), or of a declared type; SigMF data sets (.sigmf-data with its .sigmf-meta); multichannel
 * WAV, RF64, W64, CAF, FLAC or AIFF through libsndfile; HDF5 (recording_hdf5.h). Samples are
 * counts.
 */
#ifndef SIM_RECORDING_H
#define SIM_RECORDING_H

#include "sonar/sonar.h"

/* The position in its stream of the file's samples from `start` on. */
typedef struct sim_capture {
    uint64_t start, index;
    bool new_stream; /* begins another stream: its index does not continue the previous one */
    uint32_t flags;  /* SONAR_FRAME_* of its frames */
    int64_t utc_ns;  /* of the first sample, 0 = unknown */
} sim_capture;

/* Samples [begin, end) of the file are missing in channels [first, first + channels). */
typedef struct sim_lack {
    uint64_t begin, end;
    size_t first_channel, channels;
} sim_lack;

typedef struct sim_recording_info {
    size_t channels;
    uint64_t frames; /* samples per channel */
    double fs_hz;
    int format;             /* sonar_dtype of the samples in the file */
    int64_t utc_ns;         /* of the first sample, 0 = unknown */
    bool named;             /* read; that time is in the file's name, and nothing else tells one */
    double sound_speed_mps; /* written if not 0; not read */
    const double *position_m; /* [channel][3], written if not NULL; not read */
    /* read; the first capture begins at 0 */
    size_t captures, lacks;
    sim_capture *capture;
    sim_lack *lack;
    /* read: what the header announces and the file does not have */
    uint64_t lost_bytes, lost_frames;
    uint64_t first_stream, last_stream; /* from sonard's recordings; 0 = not given */
    size_t rank, ranks;                 /* the rank that recorded it, if several recorded; else 0 */
} sim_recording_info;

typedef struct sim_recording sim_recording;

/* Of a raw file, in place of a JSON file beside it. */
typedef struct sim_raw {
    int type; /* libsndfile's; 0: nothing is declared */
    size_t channels;
    double fs_hz;
} sim_raw;

/* "s24le:8:48000", TYPE:CHANNELS:RATE: u8, s8, or s16, s24, s32, f32, f64 with le or be. */
bool sim_raw_parse(const char *text, sim_raw *raw);
#define SIM_RAW_ACCEPTED                                                                           \
    "TYPE:CHANNELS:RATE, such as s24le:8:48000, with u8, s8, s16le, s24le, s32le, f32le, f64le "   \
    "or "                                                                                          \
    "the same with be, and up to 1024 channels,"

sonar_code sim_recording_open(const char *path, sim_recording **recording, sonar_error *err);
/* The same, where raw->type is 0; else what the file is. */
sonar_code sim_recording_open_as(const char *path, const sim_raw *raw, sim_recording **recording,
                                 sonar_error *err);
const sim_recording_info *sim_recording_about(const sim_recording *recording);
/* Samples first .. first + samples - 1 as to[channel][samples]. */
sonar_code sim_recording_read(sim_recording *recording, uint64_t first, size_t samples, float *to,
                              sonar_error *err);
void sim_recording_close(sim_recording *recording);
/* Prints on stderr if a file is truncated or damaged; the remaining samples can be read. */
void sim_recording_tell_loss(const char *tool, const char *path, const sim_recording_info *info);
/* The first capture within the samples first .. end - 1 that does not continue the previous one;
 * NULL: all continue. */
const sim_capture *sim_recording_gap(const sim_recording_info *info, uint64_t first, uint64_t end);
/* Converts seconds to a number of samples, at most `most`. */
uint64_t sim_samples_of(double seconds, double fs_hz, uint64_t most);
/* The samples first .. end - 1 that begin start_s after the recording's beginning and last
 * duration_s, or until its end. */
void sim_recording_part(const sim_recording *recording, double start_s, double duration_s,
                        uint64_t *first, uint64_t *end);

typedef struct sim_writer sim_writer;

/* Creates a raw file; info->frames is counted by the writer. */
sonar_code sim_writer_create(const char *path, const sim_recording_info *info, sim_writer **writer,
                             sonar_error *err);
/* Appends counts[channel][samples]; adds the number of values that did not fit the format to
 * *saturated. */
sonar_code sim_writer_write(sim_writer *writer, const float *counts, size_t samples,
                            uint64_t *saturated, sonar_error *err);
/* Completes the file, writes the JSON file beside it and destroys the writer, even after errors. */
sonar_code sim_writer_finish(sim_writer *writer, sonar_error *err);

#endif
