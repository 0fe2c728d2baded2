/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Values that only the Jacobi solver reports: sweeps and residuals. */
#include <math.h>
#include <stdlib.h>

#include "mvdr.h"

MVDR_CASE(not_converged) {
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_spec(24, 30, 60, 0);
    spec.solver = SONAR_MVDR_JACOBI;
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
