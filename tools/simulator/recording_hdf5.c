/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "recording_hdf5.h"

#include "core/core.h"

#ifdef SONAR_HAVE_HDF5
#include <errno.h>
#include <hdf5.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sim_hdf5 {
    hid_t file, set, space; /* 0 or less: not open */
    hsize_t channels;
};

static sonar_code refuse(const char *path, const char *what, sonar_error *err) {
    return sonar_fail(
        err, SONAR_EINVAL, path,
        "%s; accepted is HDF5 as Acoular has it: /time_data, numbers [sample][channel], "
        "with the attribute sample_freq in Hz",
        what);
}

/* Integers of at most 32 bits stay counts. */
static int format_of(hid_t set) {
    const hid_t type = H5Dget_type(set);
    const H5T_class_t class = H5Tget_class(type);
    const size_t bytes = H5Tget_size(type);
    H5Tclose(type);
    if (class == H5T_INTEGER)
        return bytes <= 2 ? SONAR_S16 : bytes <= 4 ? SONAR_S32 : SONAR_F32;
    return class == H5T_FLOAT ? SONAR_F32 : 0;
}

static bool read_rate(hid_t set, double *fs_hz) {
    const hid_t rate = H5Aopen(set, "sample_freq", H5P_DEFAULT);
    const hid_t space = rate > 0 ? H5Aget_space(rate) : -1;
    const bool good = space > 0 && H5Sget_simple_extent_npoints(space) == 1 &&
                      H5Aread(rate, H5T_NATIVE_DOUBLE, fs_hz) >= 0;
    if (space > 0)
        H5Sclose(space);
    if (rate > 0)
        H5Aclose(rate);
    return good && *fs_hz > 0 && isfinite(*fs_hz);
}

static sonar_code look(sim_hdf5 *h, const char *path, sim_recording_info *info, sonar_error *err) {
    hsize_t shape[2];
    h->set = H5Dopen2(h->file, "time_data", H5P_DEFAULT);
    if (h->set <= 0)
        return refuse(path, "there is no /time_data in it", err);
    h->space = H5Dget_space(h->set);
    if (h->space <= 0 || H5Sget_simple_extent_ndims(h->space) != 2 ||
        H5Sget_simple_extent_dims(h->space, shape, NULL) != 2 || !shape[0] || !shape[1] ||
        shape[1] > UINT32_MAX)
        return refuse(path, "/time_data is not [sample][channel]", err);
    info->format = format_of(h->set);
    if (!info->format)
        return refuse(path, "/time_data has no numbers", err);
    if (!read_rate(h->set, &info->fs_hz))
        return refuse(path, "/time_data has no attribute sample_freq above 0", err);
    info->frames = shape[0];
    info->channels = h->channels = shape[1];
    return SONAR_OK;
}

sonar_code sim_hdf5_open(const char *path, sim_recording_info *info, sim_hdf5 **made,
                         sonar_error *err) {
    if (access(path, R_OK))
        return sonar_fail(err, SONAR_EUNAVAILABLE, path, "cannot open it: %s", strerror(errno));
    sim_hdf5 *h = sonar_alloc(1, sizeof *h);
    if (!h)
        return sonar_fail(err, SONAR_ENOMEM, path, "out of memory");
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* it prints otherwise */
    h->file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    const sonar_code code =
        h->file > 0 ? look(h, path, info, err) : refuse(path, "it is not HDF5, or cut off", err);
    if (code)
        sim_hdf5_close(h);
    else
        *made = h;
    return code;
}

bool sim_hdf5_read(const sim_hdf5 *h, uint64_t first, size_t samples, float *to) {
    const hsize_t start[2] = {first, 0}, count[2] = {samples, h->channels};
    const hid_t here = H5Screate_simple(2, count, NULL);
    const bool good =
        here > 0 && H5Sselect_hyperslab(h->space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
        H5Dread(h->set, H5T_NATIVE_FLOAT, here, h->space, H5P_DEFAULT, to) >= 0;
    if (here > 0)
        H5Sclose(here);
    return good;
}

void sim_hdf5_close(sim_hdf5 *h) {
    if (!h)
        return;
    if (h->space > 0)
        H5Sclose(h->space);
    if (h->set > 0)
        H5Dclose(h->set);
    if (h->file > 0)
        H5Fclose(h->file);
    free(h);
}
#else
sonar_code sim_hdf5_open(const char *path, sim_recording_info *info, sim_hdf5 **made,
                         sonar_error *err) {
    (void)info, (void)made;
    return sonar_fail(err, SONAR_EUNAVAILABLE, path,
                      "this build has no HDF5 (Debian package libhdf5-dev)");
}

bool sim_hdf5_read(const sim_hdf5 *h, uint64_t first, size_t samples, float *to) {
    (void)h, (void)first, (void)samples, (void)to;
    return false;
}

void sim_hdf5_close(sim_hdf5 *h) {
    (void)h;
}
#endif
