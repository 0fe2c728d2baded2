/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The properties of the node that times in a table depend on. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/core.h"
#include "train/train.h"

enum { VERSION = 0, CPU, PROCESSORS, MEMORY, GPU, DRIVER, INTERFACE, BUILD };

const char *const sonar_train_node_names[SONAR_TRAIN_NODE_FIELDS] = {[VERSION] = "sonard",
                                                                     [CPU] = "cpu",
                                                                     [PROCESSORS] = "processors",
                                                                     [MEMORY] = "memory_gib",
                                                                     [GPU] = "gpu",
                                                                     [DRIVER] = "gpu_driver",
                                                                     [INTERFACE] =
                                                                         "plugin_interface",
                                                                     [BUILD] = "build"};

enum { TEXT = SONAR_TRAIN_TEXT };

/* Finds the first line of a file that starts with `key`, and returns the text after its colon;
 * without `key`, returns the line. */
static bool read_line(const char *path, const char *key, char text[TEXT]) {
    char line[512];
    bool found = false;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (!found && fgets(line, sizeof line, file)) {
        const char *value = *key ? strchr(line, ':') : line;
        found = !strncmp(line, key, strlen(key)) && value;
        if (!found)
            continue;
        value += *key ? 1 + strspn(value + 1, " \t") : 0;
        snprintf(text, TEXT, "%.*s", (int)strcspn(value, "\n"), value);
    }
    fclose(file);
    return found;
}

static void cpu_name(char text[TEXT]) {
    struct utsname system;
    if (read_line("/proc/cpuinfo", "model name", text))
        return;
    snprintf(text, TEXT, "%s", uname(&system) ? "unknown" : system.machine);
}

static const char *build_kind(void) {
#ifdef SONAR_NO_CLONES
    return "instrumented"; /* sanitizers and coverage instrumentation cost more than any choice
                              gains */
#else
    return "plain";
#endif
}

static const char *gpu_name(const sonar_train_setup *setup, const sonar_backend_choice *opened) {
    if (!strcmp(setup->backend, "cpu"))
        return "not asked for";
    return opened->backend == sonar_backend_cpu() ? "none" : opened->description;
}

void sonar_train_fingerprint_make(const sonar_train_setup *setup,
                                  const sonar_backend_choice *opened,
                                  sonar_train_fingerprint *fingerprint) {
    char(*node)[TEXT] = fingerprint->node;
    const char *gpu = gpu_name(setup, opened);
    *fingerprint = (sonar_train_fingerprint){.shape = sonar_train_shape_of(setup)};
    double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    snprintf(node[VERSION], TEXT, "%s", SONAR_VERSION);
    cpu_name(node[CPU]);
    snprintf(node[PROCESSORS], TEXT, "%zu", sonar_processors_online());
    snprintf(node[MEMORY], TEXT, "%.0f", bytes / (1024.0 * 1024 * 1024));
    snprintf(node[GPU], TEXT, "%s", gpu);
    if (!strcmp(gpu, "none") || !read_line("/sys/module/nvidia/version", "", node[DRIVER]))
        snprintf(node[DRIVER], TEXT, "none");
    snprintf(node[INTERFACE], TEXT, "%u", SONAR_PLUGIN_INTERFACE);
    snprintf(node[BUILD], TEXT, "%s", build_kind());
    for (size_t i = 0; i < SONAR_TRAIN_NODE_FIELDS; i++)
        sonar_text_clean(node[i], strlen(node[i]), node[i], TEXT);
}
