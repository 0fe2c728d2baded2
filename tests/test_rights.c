/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Real-time priority and locked memory: if the system grants them the daemon has them, read back
 * from /proc; if it refuses them the daemon reports why and works without them. Each test runs in
 * its own process, whose limits and capabilities the daemon inherits. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/rights.h"
#include "digitiser.h"
#include "process.h"

enum { LENGTH = 1024, FRAME = 256, FRAMES = 40, PRIORITY = 10, PATIENCE_MS = 20000, KIB = 1024 };
enum { WINDOWS = FRAMES * FRAME / (LENGTH / 2) - 1 };

/* AddressSanitizer makes mlockall do nothing. */
#ifdef __SANITIZE_ADDRESS__
static const bool locks = false;
#else
static const bool locks = true;
#endif

/* ---- limits and capabilities ----------------------------------------------------------------- */

static bool limit_to(int resource, rlim_t most) {
    const struct rlimit limit = {most, most};
    return setrlimit(resource, &limit) == 0;
}

/* Drops the capabilities that override limits, for this process and its children. A process without
 * root has none. */
static void drop_capabilities(void) {
    const int capability[] = {CAP_SYS_NICE, CAP_IPC_LOCK};
    struct __user_cap_header_struct own = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct set[_LINUX_CAPABILITY_U32S_3];
    cr_assert_eq(syscall(SYS_capget, &own, set), 0);
    for (size_t i = 0; i < sizeof capability / sizeof *capability; i++) {
        const uint32_t others = ~(UINT32_C(1) << capability[i]);
        cr_assert(prctl(PR_CAPBSET_DROP, capability[i], 0, 0, 0) == 0 || geteuid() != 0);
        set[0].effective &= others, set[0].permitted &= others, set[0].inheritable &= others;
    }
    cr_assert_eq(syscall(SYS_capset, &own, set), 0);
}

static bool has_capabilities(void) {
    return geteuid() == 0 && prctl(PR_CAPBSET_READ, CAP_SYS_NICE, 0, 0, 0) == 1 &&
           prctl(PR_CAPBSET_READ, CAP_IPC_LOCK, 0, 0, 0) == 1;
}

/* Control groups and containers may forbid it in spite of limits and capabilities. */
static bool real_time_is_possible(void) {
    const struct sched_param some = {.sched_priority = 1}, none = {.sched_priority = 0};
    return sched_setscheduler(0, SCHED_FIFO, &some) == 0 &&
           sched_setscheduler(0, SCHED_OTHER, &none) == 0;
}

/* ---- the daemon ------------------------------------------------------------------------------ */

typedef struct rig {
    box box;
    char in[128];
    pid_t daemon;
    subscriber ear;
    message status; /* the last */
} rig;

static rig rig_start(void) {
    rig rig = {.box = box_open()};
    char out[128];
    snprintf(rig.in, sizeof rig.in, "ipc://%s/in", rig.box.dir);
    snprintf(out, sizeof out, "ipc://%s/out", rig.box.dir);
    box_write(&rig.box, "sonard.yaml",
              "schema: 1\nfs_hz: 8000\n"
              "array: {id: 1, geometry: {line: {sensors: 8, spacing_m: 0.75}}}\n"
              "ingest: {endpoints: [\"%s\"], overload: block}\n"
              "dft: {length: %d, hop: %d}\n"
              "cbf: {band_hz: [600, 950], ranges_m: []}\nmvdr: {enabled: false}\n"
              "output: {endpoint: \"%s\"}\n"
              "runtime: {backend: cpu, threads: 1, data_priority: %d, lock_memory: true}\n",
              rig.in, LENGTH, LENGTH / 2, out, PRIORITY);
    rig.daemon = process_start(&rig.box, "log", "sonard", box_path(&rig.box, "sonard.yaml"), NULL);
    rig.ear = subscribe(out, "status", NULL);
    return rig;
}

/* It processes samples, and the later status is kept. */
static void rig_work(rig *rig) {
    digitiser d = digitiser_open(rig->in, 8, 0, 8, FRAME);
    digitiser_send(&d, FRAMES);
    digitiser_close(&d);
    bool worked =
        receive_until(&rig->ear, "status", "windows.processed", WINDOWS, PATIENCE_MS, &rig->status);
    char *log = box_read(&rig->box, "log");
    cr_assert(worked, "%s", log);
    free(log);
}

static void rig_stop(rig *rig) {
    message_free(&rig->status);
    unsubscribe(&rig->ear);
    kill(rig->daemon, SIGTERM);
    const int status = process_wait(rig->daemon, 60000);
    char *log = box_read(&rig->box, "log");
    cr_expect_eq(status, 0, "left with %d: %s", status, log);
    free(log);
    box_close(&rig->box);
}

/* The text of a condition that holds in the status, or NULL. */
static const char *condition(const rig *rig, const char *code) {
    const cJSON *one = cJSON_GetObjectItem(rig->status.head, "conditions")->child;
    for (; one; one = one->next)
        if (!strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(one, "code")), code))
            return cJSON_GetStringValue(cJSON_GetObjectItem(one, "text"));
    return NULL;
}

static void expect_told(const rig *rig, const char *code, const char *where, const char *first,
                        const char *second) {
    char *log = box_read(&rig->box, "log");
    const char *text = condition(rig, code);
    cr_expect(text && strstr(text, first) && strstr(text, second), "%s: %s", code, text);
    cr_expect(text && strstr(log, where) && strstr(log, text), "the log lacks it: %s", log);
    free(log);
}

/* ---- /proc ----------------------------------------------------------------------------------- */

/* Field `wanted` of proc(5)'s stat, which has the name in parentheses as field 2. */
static int stat_field(const char *stat, int wanted) {
    const char *at = strrchr(stat, ')');
    for (int field = 2; at && field < wanted; field++)
        at = strchr(at + 1, ' ');
    return at ? atoi(at) : -1;
}

/* Every thread but the data thread is ordinary, and that one has the priority, or none if 0. */
static void expect_real_time(const rig *rig, int priority) {
    char path[320], stat[1024], name[32];
    int seen = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)rig->daemon);
    DIR *tasks = opendir(path);
    cr_assert(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/%d/task/%s/stat", (int)rig->daemon, task->d_name);
        FILE *file = task->d_name[0] != '.' ? fopen(path, "r") : NULL;
        if (!file)
            continue;
        stat[fread(stat, 1, sizeof stat - 1, file)] = '\0';
        fclose(file);
        cr_assert_eq(sscanf(stat, "%*d (%31[^)])", name), 1);
        const int wanted = strcmp(name, "sonar-data") ? 0 : priority;
        seen += !strcmp(name, "sonar-data");
        cr_expect_eq(stat_field(stat, 41), wanted ? SCHED_FIFO : SCHED_OTHER, "policy of %s", name);
        cr_expect_eq(stat_field(stat, 40), wanted, "priority of %s", name);
    }
    closedir(tasks);
    cr_expect_eq(seen, 1, "threads named sonar-data");
}

/* A row of /proc/PID/status in KiB. */
static long status_kib(const rig *rig, const char *row) {
    char line[256];
    long kib = -1;
    snprintf(line, sizeof line, "/proc/%d/status", (int)rig->daemon);
    FILE *file = fopen(line, "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, row, strlen(row)))
            kib = atol(line + strlen(row));
    if (file)
        fclose(file);
    return kib;
}

/* ---- granted --------------------------------------------------------------------------------- */

static void expect_granted(void) {
    rig rig = rig_start();
    rig_work(&rig);
    expect_real_time(&rig, PRIORITY);
    cr_expect_eq(header_number(rig.status.head, "data_priority"), PRIORITY);
    cr_expect_null(condition(&rig, "priority_refused"));
    if (locks) {
        const long locked = status_kib(&rig, "VmLck:"), resident = status_kib(&rig, "VmRSS:");
        cr_expect_geq(locked, resident, "locked %ld of %ld KiB", locked, resident);
        cr_expect_gt(header_number(rig.status.head, "locked_bytes"), 1000.0 * KIB);
        cr_expect_leq(header_number(rig.status.head, "locked_bytes"),
                      header_number(rig.status.head, "resident_bytes"));
        cr_expect_null(condition(&rig, "memory_unlocked"));
    }
    rig_stop(&rig);
}

/* As under the unit, which has no capability. */
Test(rights, limits_grant_them) {
    if (!limit_to(RLIMIT_RTPRIO, 20) || !limit_to(RLIMIT_MEMLOCK, RLIM_INFINITY))
        cr_skip_test("RLIMIT_RTPRIO and RLIMIT_MEMLOCK cannot be raised here (CAP_SYS_RESOURCE)");
    if (!real_time_is_possible())
        cr_skip_test("this control group or container allows no real-time priority");
    drop_capabilities();
    expect_granted();
}

/* CAP_SYS_NICE and CAP_IPC_LOCK override limits. */
Test(rights, capabilities_grant_them) {
    if (!has_capabilities())
        cr_skip_test("only root with CAP_SYS_NICE and CAP_IPC_LOCK can try it");
    if (!real_time_is_possible())
        cr_skip_test("this control group or container allows no real-time priority");
    cr_assert(limit_to(RLIMIT_RTPRIO, 0) && limit_to(RLIMIT_MEMLOCK, KIB * KIB));
    expect_granted();
}

/* ---- refused --------------------------------------------------------------------------------- */

Test(rights, refused_they_are_reported_and_the_daemon_works) {
    cr_assert(limit_to(RLIMIT_RTPRIO, 0) && limit_to(RLIMIT_MEMLOCK, 3 * KIB * KIB));
    drop_capabilities();
    rig rig = rig_start();
    rig_work(&rig);
    expect_real_time(&rig, 0);
    cr_expect_eq(header_number(rig.status.head, "data_priority"), 0);
    expect_told(&rig, "priority_refused", " runtime.data_priority: ", "RLIMIT_RTPRIO is 0;",
                "LimitRTPRIO=10 ");
    cr_expect_eq(status_kib(&rig, "VmLck:"), 0);
    cr_expect_eq(header_number(rig.status.head, "locked_bytes"), 0);
    if (locks)
        expect_told(&rig, "memory_unlocked", " runtime.lock_memory: ", "RLIMIT_MEMLOCK is 3 MiB of",
                    "LimitMEMLOCK=infinity ");
    rig_stop(&rig);
}

/* A limit that suffices only for the memory at the start: later memory is not locked, and not
 * refused either. */
Test(rights, a_limit_does_not_bound_what_is_allocated_later) {
    char why[SONAR_RIGHT_TEXT];
    if (!locks)
        cr_skip_test("the address sanitizer locks nothing");
    if (!limit_to(RLIMIT_MEMLOCK, (rlim_t)64 << 30))
        cr_skip_test("RLIMIT_MEMLOCK cannot be raised here (CAP_SYS_RESOURCE)");
    drop_capabilities();
    cr_expect(!sonar_memory_lock(why));
    cr_expect(strstr(why, "memory since the start is not locked: RLIMIT_MEMLOCK is 65536 MiB"),
              "%s", why);
    const size_t locked = sonar_locked_bytes();
    cr_expect_gt(locked, 1000 * KIB);
    cr_assert(limit_to(RLIMIT_MEMLOCK, locked));
    void *more = mmap(NULL, KIB * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(more, MAP_FAILED, "memory is refused: %s", strerror(errno));
    cr_expect_eq(sonar_locked_bytes(), locked);
    munmap(more, KIB * KIB);
}
