/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What only the float32 Jacobi solver says of itself: sweeps, residuals, where it works in double,
 * and the two-sided method, which a backend may refuse in words. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mvdr.h"

enum { DIRECTIONS = 90 };

/* Whether the backend has the method; if not, it says so. */
static bool has_two_sided(site *site) {
    const sonar_stage_ops *ops = site->backend->stage("mvdr_jacobi");
    sonar_mvdr_spec spec = mvdr_spec(4, 5, 6, 0);
    sonar_error err = {0};
    void *stage = &spec;
    spec.method = SONAR_MVDR_TWO_SIDED;
    sonar_code code = ops->create(&spec, site->host, &stage, &err);
    site_expect(site,
                !code || (code == SONAR_EUNAVAILABLE && !stage && strstr(err.text, "two_sided")),
                "two_sided: %s", err.text);
    ops->destroy(stage);
    return !code;
}

MVDR_CASE(not_converged) {
    const int methods = has_two_sided(site) ? 2 : 1;
    for (int method = 0; method < methods; method++) {
        mvdr_fixture f;
        sonar_mvdr_spec spec = mvdr_spec(24, 30, 60, 0);
        spec.method = method ? SONAR_MVDR_TWO_SIDED : SONAR_MVDR_ONE_SIDED;
        spec.max_sweeps = 1;
        mvdr_open(&f, site, &spec);
        f.apart_db = INFINITY;
        sonar_c32 *x = mvdr_record(&f, 60, (mvdr_wave[]){{70, 20}}, 1, 4);
        mvdr_run(&f, 60, x);
        site_expect(site, mvdr_flags(&f, 0) & SONAR_MVDR_FLAG_NOT_CONVERGED, "not flagged");
        site_expect(site, mvdr_info(&f, 0, SONAR_MVDR_SWEEPS) == 1, "sweeps");
        site_expect(site, mvdr_info(&f, 0, SONAR_MVDR_RESIDUAL) > 1e-6f, "residual");
        free(x);
        mvdr_close(&f);
    }
}

/* Between 0.75 and 1.5 snapshots per sensor, and only there. */
MVDR_CASE(says_double) {
    for (size_t l = 30; l <= 80; l += site->quick ? 25 : 5) {
        mvdr_fixture f;
        sonar_mvdr_spec spec = mvdr_spec(48, DIRECTIONS, l, 0);
        mvdr_open(&f, site, &spec);
        sonar_c32 *x = mvdr_record(&f, l, (mvdr_wave[]){{50.5, 60}}, 1, l);
        mvdr_run(&f, l, x);
        bool in_double = mvdr_flags(&f, 0) & SONAR_MVDR_FLAG_DOUBLE;
        site_expect(site, in_double == (l > 36 && l < 72), "L %zu: double %d", l, in_double);
        free(x);
        mvdr_close(&f);
    }
}

/* What docs/mvdr.md says of it in loud scenes: exempt from the accuracy, and why. */
static void in_a_loud_scene(site *site, sonar_mvdr_method method) {
    enum { B = 64, L = 128 };
    const mvdr_wave waves[] = {{50.5, 60}, {81, 50}, {120, 40}};
    sonar_mvdr_spec spec = mvdr_spec(B, DIRECTIONS, L, 0);
    spec.loading = SONAR_LOADING_NOISE, spec.eps = 1;
    spec.method = method;
    mvdr_fixture f;
    mvdr_open(&f, site, &spec);
    sonar_c32 *x = mvdr_record(&f, L, waves, 3, 5);
    mvdr_run(&f, L, x);
    const double error = mvdr_error_db(&f, 0, L, x);
    if (method == SONAR_MVDR_TWO_SIDED)
        site_expect(site, error > 0.3 && error < 20, "two_sided: %g dB", error);
    else
        site_expect(site, error < 0.05, "one_sided: %g dB", error);
    free(x);
    mvdr_close(&f);
}

/* Right where float32 can hold R. */
MVDR_CASE(two_sided) {
    if (!has_two_sided(site))
        return;
    for (size_t b = 1; b < 40; b = b * 2 + 1) {
        sonar_mvdr_spec spec = mvdr_spec(b, DIRECTIONS, 2 * b, 0);
        spec.method = SONAR_MVDR_TWO_SIDED;
        mvdr_fixture f;
        mvdr_open(&f, site, &spec);
        sonar_c32 *x = mvdr_record(&f, 2 * b, (mvdr_wave[]){{70, 20}}, 1, b);
        mvdr_run(&f, 2 * b, x);
        mvdr_expect(&f, 0, 2 * b, x, 0.05);
        free(x);
        mvdr_close(&f);
    }
    sonar_mvdr_spec spec = mvdr_spec(6, 30, 10, 0);
    spec.method = SONAR_MVDR_TWO_SIDED;
    mvdr_expect_silence(site, &spec);
    in_a_loud_scene(site, SONAR_MVDR_ONE_SIDED);
    in_a_loud_scene(site, SONAR_MVDR_TWO_SIDED);
}
