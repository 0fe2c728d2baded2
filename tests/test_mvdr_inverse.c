/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The updated inverse on the CPU, where its state can be read. */
#include "conformance/mvdr.h"
#include "conformance/mvdr_beside.h"
#include "conformance/try.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mvdr_jacobi/cpu/internal.h"

static unsigned age_of(const mvdr_fixture *f, size_t bin) {
    const mvdr_stage *stage = f->stage;
    return stage->inverse[bin].kept ? stage->inverse[bin].age : 0;
}

static site open_site(sonar_host *host) {
    host->choice = site_choose;
    beside_look_inside(age_of);
    return site_open(sonar_backend_cpu(), host);
}

static void try_looking_inside(const site_case *what) {
    sonar_host host = *sonar_host_serial();
    site here = open_site(&host);
    const bool good = site_try(&here, what);
    site_close(&here);
    cr_assert(good, "%zu of %zu checks failed", here.failures, here.checks);
}

#define INSIDE(name)                                                                               \
    Test(mvdr_inverse, name) {                                                                     \
        try_looking_inside(&(site_case){#name, mvdr_case_##name});                                 \
    }
MVDR_INVERSE_CASES(INSIDE)

/* A bin that is steered at a tone keeps its inverse, but not |M a|^2. */
static void steered_elsewhere(site *site) {
    enum { B = 36, L = 90, WINDOWS = 60 };
    const sonar_mvdr_spec spec = beside_spec(B, L, SONAR_LOADING_TRACE, 0.01);
    beside b;
    beside_begin_following(&b, site, &spec);
    sonar_c32 *x = mvdr_record(&b.f, L + WINDOWS, (mvdr_wave[]){{70, 40}}, 1, 40);
    mvdr_run(&b.f, L, x);
    mvdr_run(&b.reference, L, x);
    for (size_t u = 0; u < WINDOWS; u++) {
        mvdr_stage *stages[] = {b.f.stage, b.reference.stage};
        for (int i = 0; i < 2; i++)
            stages[i]->bin[0].offset = u / 4 % 2 ? 0.4 : -0.3;
        beside_both(&b, x + (L + u) * B);
    }
    beside_expect_followed(&b, 0.35);
    free(x);
    beside_end(&b);
}

Test(mvdr_inverse, steered_elsewhere) {
    try_looking_inside(&(site_case){"steered_elsewhere", steered_elsewhere});
}

/* Every error of M is detected before publication: the inverse is discarded, and the window is
 * solved from its snapshots. */
static void errors_are_found(site *site) {
    enum { B = 48, L = 96 };
    const sonar_mvdr_spec spec = beside_spec(B, L, SONAR_LOADING_ABSOLUTE, 1);
    const mvdr_wave waves[] = {{70, 60}, {100, 30}};
    beside b;
    beside_begin_following(&b, site, &spec);
    beside_fill(&b, waves, 2, 14);
    beside_go_on(&b, 5, waves, 2, 15);
    const mvdr_stage *stage = b.f.stage;
    for (int wrong = 0; wrong < 6; wrong++) {
        beside_go_on(&b, 10, waves, 2, 16 + (uint64_t)wrong);
        site_expect(site, beside_age(&b, 0) > 5, "%u windows", beside_age(&b, 0));
        double *m = stage->factor;
        const double scale[] = {1 + 1e-3, 1 - 1e-3, 2, 0, INFINITY, NAN};
        for (size_t i = 0; i < (wrong < 2 ? stage->factor_size : 1); i++)
            m[i] *= scale[wrong];
        beside_go_on(&b, 1, waves, 2, 30 + (uint64_t)wrong);
        beside_expect_age(&b, 0, 0); /* it is found */
    }
    beside_end(&b);
}

Test(mvdr_inverse, errors_are_found) {
    try_looking_inside(&(site_case){"errors_are_found", errors_are_found});
}

/* ---- workers --------------------------------------------------------------------------------- */

static void bits_of(size_t workers, float bits[3 * BESIDE_LOOKS]) {
    sonar_pool *pool;
    const mvdr_wave waves[] = {{70, 60}, {110, 40}};
    sonar_mvdr_spec spec = beside_spec(41, 60, SONAR_LOADING_TRACE, 0.01);
    beside b;
    spec.bins = 3;
    cr_assert_eq(sonar_pool_create(workers, NULL, &pool, NULL), SONAR_OK);
    sonar_host host = {.ctx = pool, .parallel = sonar_pool_parallel, .workers = workers};
    site here = open_site(&host);
    beside_begin_following(&b, &here, &spec);
    beside_fill(&b, waves, 2, 24);
    beside_go_on(&b, 50, waves, 2, 25);
    beside_expect_followed(&b, 0);
    memcpy(bits, b.f.spectrum, 3 * BESIDE_LOOKS * sizeof *bits);
    beside_end(&b);
    cr_expect_eq(here.failures, 0);
    site_close(&here);
    sonar_pool_destroy(pool);
}

Test(mvdr_inverse, same_bits_for_any_number_of_workers) {
    float bits[3][3 * BESIDE_LOOKS];
    for (size_t workers = 1; workers <= 3; workers++) {
        bits_of(workers, bits[workers - 1]);
        cr_expect_eq(memcmp(bits[0], bits[workers - 1], sizeof bits[0]), 0);
    }
}
