/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sink.h"

#ifdef SONAR_HAVE_HDF5
#include <hdf5.h>
#include <stdlib.h>

#include "core/core.h"

typedef struct hdf5 {
    export_sink sink;
    const char *path;
    hid_t file, space, set; /* 0: not open */
    hsize_t row, channels;
} hdf5;

static sonar_code fail(const hdf5 *h, const char *what, sonar_error *err) {
    return sonar_fail(err, SONAR_ESYS, h->path, "HDF5 cannot %s", what);
}

static sonar_code append(export_sink *sink, const float *rows, size_t samples, sonar_error *err) {
    hdf5 *h = (hdf5 *)sink;
    const hsize_t start[2] = {h->row, 0}, count[2] = {samples, h->channels};
    const hid_t memory = H5Screate_simple(2, count, NULL);
    const bool good =
        memory > 0 &&
        H5Sselect_hyperslab(h->space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
        H5Dwrite(h->set, H5T_NATIVE_FLOAT, memory, h->space, H5P_DEFAULT, rows) >= 0;
    if (memory > 0)
        H5Sclose(memory);
    h->row += samples;
    return good ? SONAR_OK : fail(h, "write samples", err);
}

static sonar_code finish(export_sink *sink, sonar_error *err) {
    hdf5 *h = (hdf5 *)sink;
    bool good = h->set <= 0 || H5Dclose(h->set) >= 0;
    good = (h->space <= 0 || H5Sclose(h->space) >= 0) && good;
    good = (h->file <= 0 || H5Fclose(h->file) >= 0) && good;
    const sonar_code code = good ? SONAR_OK : fail(h, "close the file", err);
    free(h);
    return code;
}

/* Lays out all samples as one continuous block: any number of channels, readable in any order. */
static bool create(hdf5 *h, const sim_recording_info *info) {
    const hsize_t shape[2] = {info->frames, info->channels};
    h->space = H5Screate_simple(2, shape, NULL);
    h->set = H5Dcreate2(h->file, "time_data", H5T_IEEE_F32LE, h->space, H5P_DEFAULT, H5P_DEFAULT,
                        H5P_DEFAULT);
    const hid_t scalar = H5Screate(H5S_SCALAR);
    const hid_t rate =
        H5Acreate2(h->set, "sample_freq", H5T_IEEE_F64LE, scalar, H5P_DEFAULT, H5P_DEFAULT);
    const bool good = h->space > 0 && h->set > 0 && rate > 0 &&
                      H5Awrite(rate, H5T_NATIVE_DOUBLE, &info->fs_hz) >= 0;
    if (rate > 0)
        H5Aclose(rate);
    if (scalar > 0)
        H5Sclose(scalar);
    return good;
}

sonar_code export_hdf5(const char *path, const sim_recording_info *info, export_sink **sink,
                       sonar_error *err) {
    hdf5 *h = sonar_alloc(1, sizeof *h);
    if (!h)
        return sonar_fail(err, SONAR_ENOMEM, path, "out of memory");
    *h = (hdf5){.sink = {append, finish}, .path = path, .channels = info->channels};
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* otherwise HDF5 prints errors itself */
    h->file = H5Fcreate(path, H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
    sonar_code code = SONAR_OK;
    if (h->file <= 0)
        code = sonar_fail(err, SONAR_EINVAL, path,
                          "HDF5 cannot create it: it exists already, or the folder does not exist");
    else if (!create(h, info))
        code = fail(h, "lay out the samples", err);
    if (!code) {
        *sink = &h->sink;
        return SONAR_OK;
    }
    sonar_error second;
    finish(&h->sink, &second);
    return code;
}
#else
sonar_code export_hdf5(const char *path, const sim_recording_info *info, export_sink **sink,
                       sonar_error *err) {
    (void)info, (void)sink;
    return sonar_fail(err, SONAR_EUNAVAILABLE, path,
                      "this build has no HDF5 (Debian package libhdf5-dev)");
}
#endif
