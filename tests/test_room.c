/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The memory available to a process, by folders like those of the kernel, and the messages for a
 * configuration that needs more. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/fits.h"
#include "core/core.h"
#include "core/room.h"
#include "ingest/ingest.h"
#include "net/net.h"

static const double GIB = 0x1p30;

/* ---- the room -------------------------------------------------------------------------------- */

static char root[64];

static void begin(void) {
    snprintf(root, sizeof root, "/tmp/sonar-room-XXXXXX");
    cr_assert_not_null(mkdtemp(root));
}

static void end(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    cr_assert_eq(system(command), 0);
}

/* Makes the folders on the way. */
static void put(const char *path, const char *text) {
    char file[512];
    snprintf(file, sizeof file, "%s%s", root, path);
    for (char *slash = file + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(file, 0755);
        *slash = '/';
    }
    FILE *to = fopen(file, "w");
    cr_assert(to && fputs(text, to) >= 0 && fclose(to) == 0);
}

static void put_machine(void) {
    put("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree:          100000 kB\n"
                         "MemAvailable:    8388608 kB\n");
}

static void expect(double total, double left, const char *limit) {
    const sonar_room room = sonar_room_read(root);
    cr_expect_eq(room.total_bytes, total, "%g bytes, not %g", room.total_bytes, total);
    cr_expect_eq(room.free_bytes, left, "%g bytes free, not %g", room.free_bytes, left);
    cr_expect_str_eq(room.limit, limit);
}

Test(room, is_the_machines_where_no_group_has_a_limit, .init = begin, .fini = end) {
    put_machine();
    expect(16 * GIB, 8 * GIB, "/proc/meminfo");
    put("/proc/self/cgroup", "0::/system.slice/sonard.service\n");
    put("/sys/fs/cgroup/system.slice/sonard.service/memory.max", "max\n");
    put("/sys/fs/cgroup/system.slice/memory.max", "max\n");
    expect(16 * GIB, 8 * GIB, "/proc/meminfo");
}

Test(room, is_that_of_the_narrowest_group_above, .init = begin, .fini = end) {
    put_machine();
    put("/proc/self/cgroup", "1:name=systemd:/elsewhere\n0::/a.slice/b.slice/c.service\n");
    put("/sys/fs/cgroup/a.slice/memory.max", "4294967296\n");
    put("/sys/fs/cgroup/a.slice/b.slice/memory.max", "2147483648\n");
    put("/sys/fs/cgroup/a.slice/b.slice/c.service/memory.max", "max\n");
    expect(2 * GIB, 2 * GIB, "/sys/fs/cgroup/a.slice/b.slice/memory.max");
    /* the outer group has less free, except for memory that the kernel can reclaim */
    put("/sys/fs/cgroup/a.slice/memory.current", "3758096384\n");
    expect(2 * GIB, 0.5 * GIB, "/sys/fs/cgroup/a.slice/b.slice/memory.max");
    put("/sys/fs/cgroup/a.slice/memory.stat", "anon 1\ninactive_file 536870912\nfile 5\n");
    expect(2 * GIB, GIB, "/sys/fs/cgroup/a.slice/b.slice/memory.max");
    put("/sys/fs/cgroup/a.slice/memory.current", "9999999999\n"); /* the limit was lowered */
    expect(2 * GIB, 0, "/sys/fs/cgroup/a.slice/b.slice/memory.max");
}

Test(room, is_that_of_the_top_in_a_container, .init = begin, .fini = end) {
    put_machine();
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/memory.max", "209715200\n");
    expect(209715200, 209715200, "/sys/fs/cgroup/memory.max");
    put("/proc/self/cgroup", "0::/inner\n");
    put("/sys/fs/cgroup/inner/memory.max", "99999999999999\n");
    expect(209715200, 209715200, "/sys/fs/cgroup/memory.max");
}

Test(room, is_unlimited_without_limits_of_the_system, .init = begin, .fini = end) {
    const sonar_room room = sonar_room_read(root);
    cr_expect(isinf(room.total_bytes) && isinf(room.free_bytes));
    put("/proc/meminfo", "MemTotal: many\n");
    put("/proc/self/cgroup", "0:");
    cr_expect(isinf(sonar_room_read(root).total_bytes));
}

Test(room, this_machine_has_some) {
    const sonar_room room = sonar_room_read("");
    cr_expect(room.total_bytes > 0x1p20 && room.free_bytes <= room.total_bytes);
}

/* ---- what peers may hold --------------------------------------------------------------------- */

/* True: 48 MiB more than at the start are too many. */
static bool is_too_much(const char *where) {
    enum { BYTES = 48 << 20 };
    sonar_memory *memory = sonar_memory_create(where);
    cr_assert_not_null(memory);
    sonar_memory_begin(memory);
    cr_assert(!sonar_memory_exceeded(memory, SONAR_MEMORY_IN, 1000000000));
    char *held = sonar_alloc(BYTES, 1); /* touched */
    cr_assert_not_null(held);
    const bool exceeded = sonar_memory_exceeded(memory, SONAR_MEMORY_IN, 2000000000);
    free(held);
    sonar_memory_destroy(memory);
    return exceeded;
}

Test(room, of_a_small_group_peers_hold_less, .init = begin, .fini = end) {
    put_machine();
    put("/proc/self/cgroup", "0::/sonard.service\n");
    put("/sys/fs/cgroup/sonard.service/memory.max", "209715200\n"); /* 200 MiB: 25 MiB remain */
    cr_expect(is_too_much(root));
    put("/sys/fs/cgroup/sonard.service/memory.max", "max\n");
    cr_expect(!is_too_much(root));
}

/* ---- what is to fit -------------------------------------------------------------------------- */

static sonar_config *parse(const char *text) {
    sonar_config *config = NULL;
    sonar_report *report = sonar_report_create();
    cr_assert_eq(sonar_config_parse("array.yaml", text, strlen(text), &config, report), SONAR_OK);
    sonar_report_destroy(report);
    return config;
}

#define ARRAY                                                                                      \
    "schema: 1\nfs_hz: 8000\n"                                                                     \
    "array: {geometry: {line: {sensors: 1310720, spacing_m: 0.004}}}\n"                            \
    "dft: {length: 8192, hop: 8000}\nmvdr: {enabled: false}\n"                                     \
    "cbf: {band_bins: [327, 328], ranges_m: [], scan: {start_deg: 0, stop_deg: 4, step_deg: 2}}\n"

static void expect_fit(const sonar_config *c, double share, bool device, bool fits, bool warned) {
    const double needed = device ? sonar_config_gpu_bytes(c) : (double)sonar_config_memory_bytes(c);
    const sonar_fit fit = {share * needed, "the total", device};
    char warning[sizeof((sonar_error *)0)->text];
    sonar_error err = {0};
    cr_expect_eq(sonar_config_fits(c, &fit, warning, &err), fits ? SONAR_OK : SONAR_ENOMEM);
    cr_expect_eq(*warning != '\0', warned, "%g: %s", share, warning);
    if (!fits)
        cr_expect(strstr(err.text, "the total is") && strstr(err.text, "ingest.sample_type: s16"));
    if (!fits)
        cr_expect_str_eq(err.where, "array.yaml:3:36");
    else if (warned)
        cr_expect(strstr(warning, "array.yaml:3:36"));
}

Test(fits, more_than_there_is_is_refused_and_nearly_all_is_warned_of) {
    sonar_config *c = parse(ARRAY);
    for (int device = 0; device < 2; device++) {
        expect_fit(c, 0.999, device, false, false);
        expect_fit(c, 1.001, device, true, true);
        expect_fit(c, 1.11, device, true, true);
        expect_fit(c, 1.12, device, true, false);
        expect_fit(c, INFINITY, device, true, false);
    }
    sonar_config_destroy(c);
}

Test(fits, the_place_is_that_of_the_queue_where_that_is_given) {
    sonar_config *c = parse(ARRAY "ingest:\n  queue_windows: 9\n");
    const sonar_fit fit = {GIB, "the total", false};
    char warning[sizeof((sonar_error *)0)->text];
    sonar_error err = {0};
    cr_expect_eq(sonar_config_fits(c, &fit, warning, &err), SONAR_ENOMEM);
    cr_expect_str_eq(err.where, "array.yaml:8:18");
    cr_expect(strstr(err.text, "fewer ingest.queue_windows"));
    sonar_config_destroy(c);
}

/* ---- the ring -------------------------------------------------------------------------------- */

/* docs/operations.md: with the default queue, and with the bits that mark received samples. */
Test(fits, a_large_array_takes_three_and_a_half_windows_of_samples) {
    static const char *const dft[] = {"8192, hop: 8000", "8192, hop: 8192", "16384, hop: 8192",
                                      "32768, hop: 32768", "32768, hop: 1024"};
    for (size_t i = 0; i < sizeof dft / sizeof *dft; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "schema: 1\nfs_hz: 8000\ningest: {sample_type: s16}\ndft: {length: %s}\n"
                 "array: {geometry: {line: {sensors: 1310720, spacing_m: 0.004}}}\n"
                 "cbf: {band_bins: [327, 328], ranges_m: [], "
                 "scan: {start_deg: 0, stop_deg: 4, step_deg: 2}}\nmvdr: {enabled: false}\n",
                 dft[i]);
        sonar_config *c = parse(text);
        const sonar_ingest_spec spec = {.window_length = c->specs.window_length,
                                        .hop = c->specs.hop,
                                        .lookback = c->specs.mvdr_lookback,
                                        .queue_windows = c->ingest_queue_windows,
                                        .max_skew_samples = (size_t)(c->max_skew_ms * 8)};
        const double samples = (double)sonar_ingest_capacity(&spec),
                     window = (double)c->specs.window_length;
        const double formula =
            window + (double)(c->ingest_queue_windows + 1) * (double)c->specs.hop + 2000;
        cr_expect(samples >= formula && samples < formula + 256, "%g, by the formula %g", samples,
                  formula);
        cr_expect((2 + 1 / 8.0) * samples <= 3.5 * 2 * window, "%s: %.3g windows", dft[i],
                  (2 + 1 / 8.0) / 2 * samples / window);
        sonar_config_destroy(c);
    }
}

Test(fits, a_small_array_lets_four_windows_wait) {
    sonar_config *c = parse("schema: 1\nfs_hz: 8000\n"
                            "array: {geometry: {line: {sensors: 128, spacing_m: 0.75}}}\n"
                            "cbf: {band_hz: [100, 900]}\n");
    cr_expect_eq(c->ingest_queue_windows, 4);
    sonar_config_destroy(c);
}
