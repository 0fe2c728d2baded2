/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <dlfcn.h>

#include "core/core.h"

sonar_code sonar_library_find(const char *library, const char *const *names, size_t count,
                              const char *otherwise, void **found, sonar_error *err) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return sonar_fail(err, SONAR_EUNAVAILABLE, library, "cannot be loaded: %s", dlerror());
    for (size_t i = 0; i < count; i++)
        if (!(found[i] = dlsym(handle, names[i]))) {
            dlclose(handle);
            return sonar_fail(err, SONAR_EUNAVAILABLE, library, "has no symbol %s: %s", names[i],
                              otherwise);
        }
    return SONAR_OK;
}
