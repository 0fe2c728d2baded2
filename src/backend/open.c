/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "backend/open.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"

sonar_code sonar_plugin_load(const char *name, const char *plugin_dir, const char *symbol,
                             char *path, size_t bytes, void **found, sonar_error *err) {
    int length = snprintf(path, bytes, "%s%slibsonar-%s.so", plugin_dir ? plugin_dir : "",
                          plugin_dir ? "/" : "", name);
    if (length < 0 || (size_t)length >= bytes)
        return sonar_fail(err, SONAR_EINVAL, name, "the plugin directory's name is too long");
    return sonar_library_find(path, &symbol, 1, "not a sonard plugin", found, err);
}

static sonar_code load(const char *name, const char *plugin_dir, const sonar_plugin_ops **plugin,
                       sonar_error *err) {
    char path[512];
    void *symbol;
    sonar_code code =
        sonar_plugin_load(name, plugin_dir, SONAR_PLUGIN_SYMBOL, path, sizeof path, &symbol, err);
    if (code)
        return code;
    sonar_plugin_entry entry;
    *(void **)&entry = symbol; /* POSIX requires this form for function pointers */
    const sonar_plugin_ops *found = entry();
    if (!found)
        return sonar_fail(err, SONAR_EUNAVAILABLE, path,
                          "%s returned no table: not a sonard plugin", SONAR_PLUGIN_SYMBOL);
    if (found->interface != SONAR_PLUGIN_INTERFACE)
        return sonar_fail(err, SONAR_EUNAVAILABLE, path,
                          "has plugin interface %u, this program needs %u: install matching "
                          "versions",
                          found->interface, SONAR_PLUGIN_INTERFACE);
    *plugin = found;
    return SONAR_OK;
}

static sonar_code open_plugin(const char *name, const char *plugin_dir, const sonar_host *host,
                              sonar_backend_choice *choice, sonar_error *err) {
    sonar_code code = load(name, plugin_dir, &choice->plugin, err);
    return code ? code
                : choice->plugin->open(host, host->device, &choice->backend, choice->description,
                                       sizeof choice->description, err);
}

static void use_cpu(const sonar_host *host, sonar_backend_choice *choice) {
    choice->backend = sonar_backend_cpu();
    choice->plugin = NULL;
    sonar_backend_cpu_describe(host, choice->description, sizeof choice->description);
}

/* A node without a GPU has no plugin, which is not an error. */
static bool has_plugin(const char *name, const char *plugin_dir) {
    char path[512];
    snprintf(path, sizeof path, "%s/libsonar-%s.so", plugin_dir ? plugin_dir : "", name);
    return !plugin_dir || access(path, F_OK) == 0;
}

sonar_code sonar_backend_open(const char *name, const char *plugin_dir, const sonar_host *host,
                              sonar_backend_choice *choice, sonar_error *err) {
    *choice = (sonar_backend_choice){0};
    if (!strcmp(name, "cpu")) {
        use_cpu(host, choice);
        snprintf(choice->reason, sizeof choice->reason, "the configuration asks for it");
        return SONAR_OK;
    }
    bool automatic = !strcmp(name, "auto");
    if (automatic && !has_plugin("cuda", plugin_dir)) {
        use_cpu(host, choice);
        snprintf(choice->reason, sizeof choice->reason, "no plugin for a GPU is installed");
        return SONAR_OK;
    }
    sonar_error why = {0};
    sonar_code code = open_plugin(automatic ? "cuda" : name, plugin_dir, host, choice, &why);
    if (code && !automatic)
        return sonar_fail(err, code, "runtime.backend", "'%s' cannot be used: %s: %s", name,
                          why.where, why.text);
    if (code) {
        use_cpu(host, choice);
        snprintf(choice->reason, sizeof choice->reason,
                 "no other backend is usable: %.160s: %.280s", why.where, why.text);
        return SONAR_OK;
    }
    snprintf(choice->reason, sizeof choice->reason,
             automatic ? "its hardware is present" : "the configuration asks for it");
    return SONAR_OK;
}

void sonar_backend_close(sonar_backend_choice *choice) {
    if (choice->plugin && choice->backend)
        choice->plugin->close(choice->backend);
    *choice = (sonar_backend_choice){0};
}
