/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "surfaces.h"

#include "core/core.h"
#include "json.h"

#ifdef SONAR_HAVE_HDF5
#include <hdf5.h>
#include <hdf5_hl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64, ROWS_BYTES = 4 << 20, GROUPS_MOST = 16, DIMENSIONS_MOST = 3, FLAGS_BYTES = 160 };

/* A value of every row. */
enum column { TIME_S, UTC_NS, SAMPLE_INDEX, WINDOW, HEADING_DEG, MISSING, FLAGS, AZ_DEG, COLUMNS };

static const char *const column_name[COLUMNS] = {
    "time_s", "utc_ns", "sample_index", "window", "heading_deg", "missing", "flags", "az_deg"};

/* Rows wait here until there are `most` of them, at most ROWS. */
typedef struct group {
    char name[24];
    hid_t id, power, column[COLUMNS];
    int rank; /* of power: window and the array's */
    hsize_t shape[DIMENSIONS_MOST], written;
    size_t count, most, waiting; /* values of a row; rows */
    float *rows;                 /* [most][count] */
    int64_t whole[COLUMNS][ROWS];
    double number[COLUMNS][ROWS];
    char flags[ROWS][FLAGS_BYTES];
} group;

struct surfaces {
    const char *path;
    hid_t file, text; /* text: FLAGS_BYTES, ended by zero */
    size_t groups;
    group *group[GROUPS_MOST];
};

static sonar_code fail(const surfaces *s, const char *what, sonar_error *err) {
    return sonar_fail(err, SONAR_ESYS, s->path, "HDF5 cannot %s", what);
}

/* ---- what a group begins with ---------------------------------------------------------------- */

static hid_t type_of(const surfaces *s, enum column c) {
    return c == FLAGS                                        ? s->text
           : c == UTC_NS || c == SAMPLE_INDEX || c == WINDOW ? H5T_NATIVE_INT64
                                                             : H5T_NATIVE_DOUBLE;
}

static bool put_text_attribute(hid_t at, const char *name, const char *text) {
    return text && H5LTset_attribute_string(at, ".", name, text) >= 0;
}

/* Grows by rows. */
static hid_t make_growing(hid_t at, const char *name, hid_t type, int rank, const hsize_t *shape,
                          size_t rows) {
    hsize_t now[DIMENSIONS_MOST], most[DIMENSIONS_MOST], chunk[DIMENSIONS_MOST];
    for (int i = 0; i < rank; i++)
        now[i] = most[i] = chunk[i] = shape[i];
    now[0] = 0, most[0] = H5S_UNLIMITED, chunk[0] = rows;
    const hid_t space = H5Screate_simple(rank, now, most), how = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(how, rank, chunk);
    H5Pset_shuffle(how);
    H5Pset_deflate(how, 4);
    const hid_t set = H5Dcreate2(at, name, type, space, H5P_DEFAULT, how, H5P_DEFAULT);
    H5Pclose(how);
    H5Sclose(space);
    return set;
}

static bool make_columns(const surfaces *s, group *g, bool directed) {
    static const char *const unit[COLUMNS] = {
        [TIME_S] = "s", [UTC_NS] = "ns since 1970-01-01Z", [HEADING_DEG] = "deg", [AZ_DEG] = "deg"};
    bool good = true;
    for (int c = 0; c < COLUMNS && good; c++) {
        if (c == AZ_DEG && !directed)
            continue;
        g->column[c] =
            make_growing(g->id, column_name[c], type_of(s, (enum column)c), 1, &(hsize_t){0}, ROWS);
        good = g->column[c] > 0 && (!unit[c] || put_text_attribute(g->column[c], "unit", unit[c]));
    }
    return good;
}

/* An axis of the header as the scale of dimension i of `power`. */
static bool make_axis(const group *g, const cJSON *axis, int i) {
    const char *name = cJSON_GetStringValue(json_get(axis, "name"));
    const char *unit = cJSON_GetStringValue(json_get(axis, "unit"));
    const char *about = cJSON_GetStringValue(json_get(axis, "reference"));
    const cJSON *values = json_get(axis, "values"), *one;
    const double start = json_number(axis, "start");
    const double step = json_number(axis, "step");
    double *at = sonar_alloc(g->shape[i], sizeof *at);
    if (!at || !name) {
        free(at);
        return false;
    }
    one = values ? values->child : NULL;
    for (hsize_t k = 0; k < g->shape[i]; k++, one = one ? one->next : NULL)
        at[k] = values ? cJSON_GetNumberValue(one) : start + step * (double)k;
    bool good = H5LTmake_dataset_double(g->id, name, 1, &g->shape[i], at) >= 0;
    free(at);
    const hid_t scale = good ? H5Dopen2(g->id, name, H5P_DEFAULT) : -1;
    good = scale > 0 && (!unit || put_text_attribute(scale, "unit", unit)) &&
           (!about || put_text_attribute(scale, "reference", about)) &&
           H5DSset_scale(scale, name) >= 0 && H5DSattach_scale(g->power, scale, (unsigned)i) >= 0;
    if (scale > 0)
        H5Dclose(scale);
    return good;
}

/* The text is longer than an attribute may be. */
static bool put_header(const group *g, const cJSON *header) {
    char *text = json_print(header);
    const bool good = text && H5LTmake_dataset_string(g->id, "header", text) >= 0;
    free(text);
    return good;
}

static bool fill_group(const surfaces *s, group *g, const surfaces_row *row) {
    const cJSON *header = row->header, *axis;
    g->id = H5Gcreate2(s->file, g->name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (g->id <= 0)
        return false;
    g->power = make_growing(g->id, "power", H5T_IEEE_F32LE, g->rank, g->shape, g->most);
    bool good = g->power > 0 && make_columns(s, g, !isnan(row->az_deg)) &&
                H5DSset_scale(g->column[TIME_S], "time_s") >= 0 &&
                H5DSattach_scale(g->power, g->column[TIME_S], 0) >= 0 && put_header(g, header);
    static const char *const told[] = {"topic", "unit", "bearing_reference", "bearing_kind"};
    for (size_t i = 0; i < sizeof told / sizeof *told && good; i++) {
        const char *text = cJSON_GetStringValue(json_get(header, told[i]));
        good = !text || put_text_attribute(g->power, told[i], text);
    }
    int i = 1;
    cJSON_ArrayForEach(axis, json_get(header, "axes")) {
        good = good && i < g->rank && make_axis(g, axis, i);
        i++;
    }
    return good;
}

/* Those of the header's array, behind that of the windows. 0: there are too many. */
static int shape_of(const cJSON *header, hsize_t shape[DIMENSIONS_MOST]) {
    const cJSON *length;
    int rank = 1;
    shape[0] = 0;
    cJSON_ArrayForEach(length, json_get(header, "shape")) {
        if (rank == DIMENSIONS_MOST)
            return 0;
        shape[rank++] = (hsize_t)length->valuedouble;
    }
    return rank;
}

static sonar_code make_group(surfaces *s, const surfaces_row *row, group **made, sonar_error *err) {
    group *g = s->groups < GROUPS_MOST ? sonar_alloc(1, sizeof *g) : NULL;
    if (!g)
        return sonar_fail(err, SONAR_ENOMEM, s->path, "no memory for %s", row->group);
    s->group[s->groups++] = g;
    snprintf(g->name, sizeof g->name, "%s", row->group);
    g->rank = shape_of(row->header, g->shape);
    g->count = 1;
    for (int i = 1; i < g->rank; i++)
        g->count *= g->shape[i];
    g->most = sonar_max_size(1, sonar_min_size(ROWS, ROWS_BYTES / sizeof *g->rows / g->count));
    g->rows = sonar_alloc(g->most * g->count, sizeof *g->rows);
    if (!g->rank || !g->rows)
        return sonar_fail(err, SONAR_ENOMEM, s->path, "no memory for %s", row->group);
    *made = g;
    return fill_group(s, g, row) ? SONAR_OK : fail(s, "lay out a topic", err);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool append(hid_t set, hid_t type, int rank, const hsize_t *shape, hsize_t at, size_t rows,
                   const void *data) {
    hsize_t all[DIMENSIONS_MOST] = {at + rows}, start[DIMENSIONS_MOST] = {at},
            count[DIMENSIONS_MOST] = {rows};
    for (int i = 1; i < rank; i++)
        all[i] = count[i] = shape[i];
    if (H5Dset_extent(set, all) < 0)
        return false;
    const hid_t there = H5Dget_space(set), here = H5Screate_simple(rank, count, NULL);
    const bool good = H5Sselect_hyperslab(there, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
                      H5Dwrite(set, type, here, there, H5P_DEFAULT, data) >= 0;
    H5Sclose(here);
    H5Sclose(there);
    return good;
}

static bool write_rows(const surfaces *s, group *g) {
    bool good = true;
    if (!g->waiting)
        return true;
    for (int c = 0; c < COLUMNS && good; c++) {
        const hid_t type = type_of(s, (enum column)c);
        const void *data = c == FLAGS                 ? (const void *)g->flags
                           : type == H5T_NATIVE_INT64 ? (const void *)g->whole[c]
                                                      : (const void *)g->number[c];
        good = !g->column[c] || append(g->column[c], type, 1, NULL, g->written, g->waiting, data);
    }
    good = good &&
           append(g->power, H5T_NATIVE_FLOAT, g->rank, g->shape, g->written, g->waiting, g->rows);
    g->written += g->waiting;
    g->waiting = 0;
    return good;
}

/* "gap,restarted" */
static void join_flags(const cJSON *header, char to[FLAGS_BYTES]) {
    const cJSON *flag;
    size_t at = 0;
    to[0] = '\0';
    cJSON_ArrayForEach(flag,
                       json_get(header, "flags")) if (cJSON_IsString(flag) && at < FLAGS_BYTES)
        at += (size_t)snprintf(to + at, FLAGS_BYTES - at, "%s%s", at ? "," : "", flag->valuestring);
}

static bool has_shape(const group *g, const cJSON *header) {
    hsize_t shape[DIMENSIONS_MOST];
    return shape_of(header, shape) == g->rank &&
           !memcmp(shape, g->shape, sizeof *shape * (size_t)g->rank);
}

sonar_code surfaces_add(surfaces *s, const surfaces_row *row, sonar_error *err) {
    group *g = NULL;
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < s->groups && !g; i++)
        g = strcmp(s->group[i]->name, row->group) ? NULL : s->group[i];
    if (!g)
        code = make_group(s, row, &g, err);
    if (code)
        return code;
    if (!has_shape(g, row->header))
        return sonar_fail(err, SONAR_EINVAL, s->path, "%s has changed its shape", row->group);
    const size_t at = g->waiting++;
    memcpy(g->rows + at * g->count, row->data, g->count * sizeof *g->rows);
    g->number[TIME_S][at] = row->time_s;
    g->whole[UTC_NS][at] = row->utc_ns;
    g->whole[SAMPLE_INDEX][at] = (int64_t)json_number(row->header, "sample_index");
    g->whole[WINDOW][at] = (int64_t)json_number(row->header, "window");
    g->number[HEADING_DEG][at] = json_number(row->header, "heading_deg");
    g->number[MISSING][at] = json_number(json_get(row->header, "missing_share"), "mean");
    g->number[AZ_DEG][at] = row->az_deg;
    join_flags(row->header, g->flags[at]);
    return g->waiting < g->most || write_rows(s, g) ? SONAR_OK : fail(s, "write a spectrum", err);
}

/* ---- the file -------------------------------------------------------------------------------- */

sonar_code surfaces_open(const char *path, surfaces **made, sonar_error *err) {
    surfaces *s = sonar_alloc(1, sizeof *s);
    if (!s)
        return sonar_fail(err, SONAR_ENOMEM, path, "out of memory");
    s->path = path;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* it prints otherwise */
    s->text = H5Tcopy(H5T_C_S1);
    s->file = H5Fcreate(path, H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
    if (s->file > 0 && s->text > 0 && H5Tset_size(s->text, FLAGS_BYTES) >= 0) {
        *made = s;
        return SONAR_OK;
    }
    sonar_error second;
    surfaces_close(s, &second);
    return sonar_fail(err, SONAR_EINVAL, path,
                      "HDF5 cannot create it: it is there already, or the folder is not");
}

sonar_code surfaces_flush(surfaces *s, sonar_error *err) {
    bool good = true;
    for (size_t i = 0; i < s->groups; i++)
        good = write_rows(s, s->group[i]) && good;
    return good && H5Fflush(s->file, H5F_SCOPE_LOCAL) >= 0 ? SONAR_OK
                                                           : fail(s, "write a spectrum", err);
}

static bool close_group(const surfaces *s, group *g) {
    bool good = g->power <= 0 || write_rows(s, g);
    for (int c = 0; c < COLUMNS; c++)
        good = (g->column[c] <= 0 || H5Dclose(g->column[c]) >= 0) && good;
    good = (g->power <= 0 || H5Dclose(g->power) >= 0) && good;
    good = (g->id <= 0 || H5Gclose(g->id) >= 0) && good;
    free(g->rows);
    free(g);
    return good;
}

sonar_code surfaces_close(surfaces *s, sonar_error *err) {
    bool good = true;
    if (!s)
        return SONAR_OK;
    for (size_t i = 0; i < s->groups; i++)
        good = close_group(s, s->group[i]) && good;
    if (s->text > 0)
        H5Tclose(s->text);
    good = (s->file <= 0 || H5Fclose(s->file) >= 0) && good;
    const sonar_code code = good ? SONAR_OK : fail(s, "close the file", err);
    free(s);
    return code;
}
#else
sonar_code surfaces_open(const char *path, surfaces **made, sonar_error *err) {
    (void)made;
    return sonar_fail(err, SONAR_EUNAVAILABLE, path,
                      "this build has no HDF5 (Debian package libhdf5-dev)");
}

sonar_code surfaces_add(surfaces *s, const surfaces_row *row, sonar_error *err) {
    (void)s, (void)row, (void)err;
    return SONAR_OK;
}

sonar_code surfaces_flush(surfaces *s, sonar_error *err) {
    (void)s, (void)err;
    return SONAR_OK;
}

sonar_code surfaces_close(surfaces *s, sonar_error *err) {
    (void)s, (void)err;
    return SONAR_OK;
}
#endif
