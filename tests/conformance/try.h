/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A conformance case as a Criterion test. */
#ifndef SONAR_TEST_TRY_H
#define SONAR_TEST_TRY_H

#include <criterion/criterion.h>

#include "backend/open.h"
#include "core/core.h"
#include "fake_device.h"
#include "site.h"

static inline void try_at_cpu(const site_case *what) {
    site site = site_open(sonar_backend_cpu(), sonar_host_serial());
    const bool good = site_try(&site, what);
    site_close(&site);
    cr_assert(good, "%zu of %zu checks failed", site.failures, site.checks);
}

/* Small sizes; all memory has to be freed. */
static inline void try_at_lazy_device(const site_case *what) {
    site site = site_open(fake_backend(FAKE_LAZY), sonar_host_serial());
    site.quick = true;
    const bool good = site_try(&site, what);
    site_close(&site);
    cr_assert(good, "%zu of %zu checks failed", site.failures, site.checks);
    cr_assert_eq(fake.faults, 0, "%ld faults", fake.faults);
    cr_assert_eq(fake.made, 0, "%ld things are left", fake.made);
}

#endif
