/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The conformance suite of the beamformer on the GPU, on every path; that the requested paths are
 * taken; and times. */
#include "conformance/cbf.h"
#include "conformance/steer.h"
#include "core/random.h"
#include "gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct gpu device;

/* ---- paths ----------------------------------------------------------------------------------- */

#define FIELDS(far, near)                                                                          \
    {"cbf.far_path", far}, {                                                                       \
        "cbf.near_path", near                                                                      \
    }
static const site_path PATHS[] = {{"auto", {{0}}},
                                  {"general", {FIELDS("general", "general")}},
                                  {"mirrored", {FIELDS("mirrored", "mirrored")}},
                                  {"line", {FIELDS("line", "general")}},
                                  {"matrix", {FIELDS("matrix", "matrix")}}};
enum { PATH_COUNT = sizeof PATHS / sizeof *PATHS, MATRIX = 4 };

/* Kinds of arrays and scans, and the path that each of PATHS takes there for a few snapshots:
 * general, mirrored, line or tensor cores (x). */
struct form {
    const char *name, *far_taken, *near_taken;
};

enum { UNIFORM, CROOKED, UNEVEN, ASKEW, ALONE, LONG, FORMS };

static const struct form FORM[FORMS] = {
    [UNIFORM] = {"uniform line", "mgmlx", "mgmgx"},
    [CROOKED] = {"crooked line", "ggggx", "ggggx"},
    [UNEVEN] = {"line going on evenly from column to column only", "ggggx", "ggggx"},
    [ASKEW] = {"uniform line, no point mirrored", "lgglx", "ggggx"},
    [ALONE] = {"uniform line without a near field", "lgmlx", ""},
    [LONG] = {"uniform line of many sensors", "lgmlx", "mgmgx"}};

/* By default the far field of many snapshots uses the path of a line if the array is one. */
static char far_taken(int form, int which, size_t snapshots) {
    const char *taken = FORM[form].far_taken;
    return which == 0 && snapshots >= 8 ? (taken[3] == 'l' ? 'l' : 'x') : taken[which];
}

static char near_taken(int form, int which, size_t snapshots) {
    return which == 0 && snapshots >= 8 ? 'x' : FORM[form].near_taken[which];
}

/* Paths round differently; the same path gives the same bits, except for the near field, whose
 * chunks depend on the fields that share its pass. */
static void compare_paths(site *site, int form, size_t snapshots, float *const *far_field,
                          float *const *near_field, size_t far_bytes, size_t near_bytes) {
    for (int i = 0; i < PATH_COUNT; i++)
        for (int j = 0; j < i; j++) {
            bool far_same = !memcmp(far_field[i], far_field[j], far_bytes);
            bool near_same = !memcmp(near_field[i], near_field[j], near_bytes);
            site_expect(
                site, far_same == (far_taken(form, i, snapshots) == far_taken(form, j, snapshots)),
                "far field of a %s, %zu snapshots: %s and %s", FORM[form].name, snapshots,
                PATHS[i].name, PATHS[j].name);
            if (near_bytes && near_taken(form, i, snapshots) != near_taken(form, j, snapshots))
                site_expect(site, !near_same, "near field of a %s, %zu snapshots: %s and %s",
                            FORM[form].name, snapshots, PATHS[i].name, PATHS[j].name);
        }
}

/* On a uniform line every requested path runs. An array that is neither uniform nor mirrored uses
 * the general path for any table, or tensor cores. Without a table the size and the near field
 * decide between line and mirrored. */
static void try_form(site *site, int form, size_t snapshots) {
    const sonar_cbf_spec spec = {form == LONG ? 1024 : 101,
                                 61,
                                 form == ALONE ? 0 : 2,
                                 8000,
                                 8192,
                                 300,
                                 40,
                                 310,
                                 20,
                                 snapshots,
                                 false};
    float *far_field[PATH_COUNT], *near_field[PATH_COUNT];
    size_t far_bytes = spec.bins * spec.directions * sizeof(float);
    size_t near_bytes = spec.ranges * spec.directions * sizeof(float);
    for (int i = 0; i < PATH_COUNT; i++) {
        uint64_t seed = 12;
        cbf_fixture f;
        site_take(&PATHS[i]);
        cbf_alloc(&f, site, spec);
        cbf_fill(&f, &seed);
        cbf_line(&f, 0.7);
        if (form == CROOKED)
            f.position[3 * 40 + 1] = 1;
        for (size_t k = 1; form == UNEVEN && k < spec.sensors; k += 4)
            f.position[3 * k] += 0.1;
        cbf_scan(&f, 30, form == ASKEW ? 1.7 : 2);
        cbf_add_wave(&f, 77.7, 0, 1);
        cbf_start(&f);
        cbf_run(&f, CBF_ALL);
        cbf_expect(&f);
        far_field[i] = sonar_alloc(far_bytes, 1);
        near_field[i] = sonar_alloc(near_bytes, 1);
        memcpy(far_field[i], f.lofar, far_bytes);
        if (near_bytes)
            memcpy(near_field[i], f.near, near_bytes);
        cbf_close(&f);
    }
    compare_paths(site, form, snapshots, far_field, near_field, far_bytes, near_bytes);
    for (int i = 0; i < PATH_COUNT; i++) {
        free(far_field[i]);
        free(near_field[i]);
    }
    site_take(NULL);
}

static void paths_are_taken(site *site) {
    for (int form = 0; form < FORMS; form++) {
        try_form(site, form, 1);
        if (form < ALONE)
            try_form(site, form, 8);
    }
}

/* The largest arrays, on the built-in path and on tensor cores. */
static void largest(site *site) {
    cbf_try_plane(site, 16384, 16);
    cbf_try_line(site, 16384, false);
    cbf_try_line(site, 32768, false);
    site_take(&PATHS[MATRIX]);
    cbf_try_line(site, 16384, false);
    site_take(NULL);
}

/* ---- figures --------------------------------------------------------------------------------- */

struct timing {
    cbf_fixture *f;
    uint32_t outputs;
};

static void timed_call(void *ctx) {
    struct timing *timing = ctx;
    sonar_error err = {0};
    site_require(timing->f->site, cbf_execute(timing->f, timing->outputs, &err), &err);
}

static void start_with_noise(cbf_fixture *f) {
    uint64_t seed = f->spec.sensors;
    cbf_add_noise(f, 1, &seed);
    cbf_start(f);
    cbf_upload(f);
}

static void print_row(site *site, size_t sensors) {
    cbf_fixture f;
    cbf_standard(&f, site, sensors);
    start_with_noise(&f);
    const uint32_t outputs[] = {CBF_ALL, CBF_AZIMUTH, CBF_AZIMUTH | CBF_LOFAR, CBF_NEARFIELD};
    double ms[4];
    for (int j = 0; j < 4; j++)
        ms[j] = gpu_time_ms(&device, timed_call, &(struct timing){&f, outputs[j]}, 20);
    printf("%8zu %-10s %10.4f %10.4f %10.4f %10.4f %12.0f\n", sensors, site_taken()->name, ms[0],
           ms[1], ms[2], ms[3], 259360.0 * (double)sensors / ms[0] * 1e-6);
    fflush(stdout);
    cbf_close(&f);
}

/* The same noise as every snapshot. */
static sonar_buffer many_snapshots(cbf_fixture *f, size_t most) {
    sonar_buffer all =
        site_buffer(f->site, SONAR_C32, 3, (size_t[]){most, f->spec.bins, f->spec.sensors});
    sonar_buffer one = f->input;
    one.data = all.data;
    for (size_t s = 0; s < most; s++, one.data = (char *)one.data + one.bytes)
        site_copy(f->site, &f->input, &one);
    return all;
}

/* One array, all paths. */
static void print_snapshots(site *site, const char *form, size_t sensors) {
    enum { MOST = 64 };
    static const size_t counts[] = {1, 4, 8, 16, MOST};
    cbf_fixture f;
    sonar_error err = {0};
    cbf_standard(&f, site, sensors);
    if (!strcmp(form, "plane"))
        cbf_plane(&f, (size_t)ceil(sqrt(1.5 * (double)sensors)), 1.5);
    start_with_noise(&f);
    sonar_buffer one = f.input;
    f.input = many_snapshots(&f, MOST);
    site_free(site, &one);
    f.spec.max_snapshots = MOST;
    for (const site_path *path = PATHS; path < PATHS + PATH_COUNT; path++) {
        site_take(path);
        f.ops->destroy(f.stage);
        site_require(site, f.ops->create(&f.spec, site->host, &f.stage, &err), &err);
        const uint32_t outputs[] = {CBF_AZIMUTH | CBF_LOFAR, CBF_NEARFIELD};
        for (size_t i = 0; i < 2; i++) {
            printf("%8zu %-6s %-9s %-6s", sensors, form, path->name, i ? "near" : "lofar");
            for (size_t j = 0; j < sizeof counts / sizeof *counts; j++) {
                f.snapshots = counts[j];
                printf(" %10.4f", gpu_time_ms(&device, timed_call, &(struct timing){&f, outputs[i]},
                                              sonar_max_size(20 / counts[j], 1)));
                fflush(stdout);
            }
            printf("\n");
        }
    }
    site_take(NULL);
    cbf_close(&f);
}

static void print_times(site *site) {
    static const size_t sensors[] = {128, 512, 2048, 16384, 32768};
    printf("CBF, standard case, ms a window (input on the device)\n");
    printf("%8s %-10s %10s %10s %10s %10s %12s\n", "sensors", "path", "all", "far band", "lofar",
           "near", "all GCMAC/s");
    for (size_t i = 0; i < sizeof sensors / sizeof *sensors; i++)
        for (size_t j = 0; j < PATH_COUNT; j++) {
            site_take(&PATHS[j]);
            print_row(site, sensors[i]);
        }
    site_take(NULL);
    printf("several snapshots, ms a call\n%8s %-6s %-9s %-6s %10s %10s %10s %10s %10s\n", "sensors",
           "array", "path", "what", "1", "4", "8", "16", "64");
    print_snapshots(site, "plane", 2048);
    print_snapshots(site, "line", 2048);
    print_snapshots(site, "plane", 16384);
    print_snapshots(site, "line", 16384);
}

/* ---- main ------------------------------------------------------------------------------------ */

static const site_case CASES[] = {CBF_CASES(CBF_ROW) CBF_ERROR_CASES(CBF_ROW)};
static const site_case STEER[] = {STEER_CASES(STEER_ROW)};
static const site_case LONG_CASES[] = {CBF_LONG_CASES(CBF_ROW)};
static const site_case OWN_CASES[] = {{"paths_are_taken", paths_are_taken}};

#define TRY_ALL(site, cases) site_try_all(site, cases, sizeof(cases) / sizeof *(cases))

static void try_all(site *site) {
    for (size_t i = 0; i < PATH_COUNT; i++) {
        site_take(&PATHS[i]);
        TRY_ALL(site, CASES);
        if (!site->quick)
            TRY_ALL(site, LONG_CASES);
    }
    site_take(NULL);
    TRY_ALL(site, STEER);
    TRY_ALL(site, OWN_CASES);
    if (!site->quick)
        site_try_all(site, &(site_case){"largest", largest}, 1);
}

int main(int argc, char **argv) {
    int code = gpu_open(&device, argc, argv);
    if (code >= 0)
        return code;
    device.host.choice = site_choose;
    site site = site_open(device.backend, &device.host);
    site.quick = device.quick;
    if (device.timed)
        print_times(&site);
    else
        try_all(&site);
    return gpu_close_site(&device, &site, "gpu_cbf");
}
