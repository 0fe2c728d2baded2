/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The plugin loader, with plugins built for the test: a good one, one with a wrong interface
 * number, one whose probe refuses, and a library that is not a plugin. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/core.h"
#include "backend/open.h"

static sonar_backend_choice choice;
static sonar_error err;

static sonar_code open_from(const char *name, const char *folder) {
    char dir[256];
    snprintf(dir, sizeof dir, "%s/%s", SONAR_PLUGIN_DIR, folder);
    err = (sonar_error){0};
    return sonar_backend_open(name, dir, sonar_host_serial(), &choice, &err);
}

Test(backend, cpu_is_always_there) {
    cr_assert_eq(open_from("cpu", "nowhere"), SONAR_OK);
    cr_assert_eq(choice.backend, sonar_backend_cpu());
    cr_assert(strstr(choice.description, "instructions"));
}

Test(backend, missing_plugin_is_an_error_when_asked_for) {
    cr_assert_eq(open_from("cuda", "nowhere"), SONAR_EUNAVAILABLE);
    cr_assert(strstr(err.text, "libsonar-cuda.so"), "%s", err.text);
}

Test(backend, a_node_without_a_plugin_gets_a_reason_without_an_error) {
    cr_assert_eq(open_from("auto", "nowhere"), SONAR_OK);
    cr_assert_str_eq(choice.backend->name, "cpu");
    cr_assert_str_eq(choice.reason, "no plugin for a GPU is installed");
}

Test(backend, good_plugin_is_taken) {
    cr_assert_eq(open_from("cuda", "good"), SONAR_OK, "%s", err.text);
    cr_assert_str_eq(choice.backend->name, "test");
    cr_assert_str_eq(choice.description, "a device");
    cr_assert_eq(open_from("auto", "good"), SONAR_OK);
    cr_assert_str_eq(choice.backend->name, "test");
}

Test(backend, other_interface_number_is_refused) {
    cr_assert_eq(open_from("cuda", "version"), SONAR_EUNAVAILABLE);
    cr_assert(strstr(err.text, "interface 77"), "%s", err.text);
    cr_assert_eq(open_from("auto", "version"), SONAR_OK);
    cr_assert_str_eq(choice.backend->name, "cpu");
}

Test(backend, absent_device_is_the_plugins_reason) {
    cr_assert_eq(open_from("cuda", "device"), SONAR_EUNAVAILABLE);
    cr_assert(strstr(err.text, "no device here"), "%s", err.text);
    cr_assert_eq(open_from("auto", "device"), SONAR_OK);
    cr_assert(strstr(choice.reason, "no device here"), "%s", choice.reason);
}

Test(backend, library_without_the_symbol_is_refused) {
    cr_assert_eq(open_from("cuda", "symbol"), SONAR_EUNAVAILABLE);
    cr_assert(strstr(err.text, "sonar_plugin"), "%s", err.text);
}

/* A missing or too old library gives a sentence that names it. */
Test(backend, libraries_are_found_with_all_their_symbols_or_not_at_all) {
    const char *const names[] = {"sonar_plugin", "cufftExecMany"};
    void *found[2] = {NULL, NULL};
    char path[300];
    snprintf(path, sizeof path, "%s/good/libsonar-cuda.so", SONAR_PLUGIN_DIR);
    cr_assert_eq(sonar_library_find(path, names, 1, "it is too old", found, &err), SONAR_OK);
    cr_assert_not_null(found[0]);
    cr_assert_eq(sonar_library_find(path, names, 2, "it is too old", found, &err),
                 SONAR_EUNAVAILABLE);
    cr_assert(strstr(err.text, "no symbol cufftExecMany: it is too old"), "%s", err.text);
    cr_assert_str_eq(err.where, path);
    cr_assert_eq(sonar_library_find("libnone.so.1", names, 2, "it is too old", found, &err),
                 SONAR_EUNAVAILABLE);
    cr_assert(strstr(err.text, "libnone.so.1: cannot open"), "%s", err.text);
}

Test(backend, every_stage_of_the_cpu_is_there) {
    const char *names[] = {"dft", "cbf", "mvdr_jacobi"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const sonar_stage_ops *ops = sonar_backend_cpu()->stage(names[i]);
        cr_assert(ops && ops->create && ops->execute && ops->destroy, "%s", names[i]);
    }
    cr_assert_null(sonar_backend_cpu()->stage("fft"));
}

#ifdef SONAR_REAL_PLUGIN_DIR
/* With a GPU the plugin is usable; without one a sentence explains why not. */
Test(backend, the_cuda_plugin_loads_with_or_without_a_gpu) {
    sonar_code code =
        sonar_backend_open("cuda", SONAR_REAL_PLUGIN_DIR, sonar_host_serial(), &choice, &err);
    if (code == SONAR_OK) {
        cr_assert_str_eq(choice.backend->name, "cuda");
        cr_assert(strstr(choice.description, "compute capability"), "%s", choice.description);
        cr_assert(choice.backend->stage("dft") && choice.backend->stage("cbf"));
        return;
    }
    cr_assert_eq(code, SONAR_EUNAVAILABLE);
    cr_assert(strstr(err.text, "NVIDIA"), "%s", err.text);
    cr_assert_null(strstr(err.text, "cannot be loaded"), "%s", err.text);
}
#endif
