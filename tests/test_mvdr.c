/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "mvdr_oracle.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cplx *widen(const mvdr_fixture *f, size_t bin, size_t count, const sonar_c32 *x) {
    size_t sensors = f->spec.sensors;
    cplx *wide = calloc(count * f->params.sensors_used + 1, sizeof *wide), *to = wide;
    for (size_t s = 0; s < count; s++)
        for (size_t k = 0; k < sensors; k++) {
            const sonar_c32 *v = &x[(s * f->spec.bins + bin) * sensors + k];
            if (f->used[k])
                *to++ = (double)v->re + I * (double)v->im;
        }
    return wide;
}

static double block_error(const sonar_mvdr_spec *spec, const mvdr_wave *waves, size_t count,
                          uint64_t seed) {
    mvdr_fixture f;
    mvdr_fixture_open(&f, spec, sonar_host_serial());
    size_t B = spec->sensors, L = spec->snapshots;
    sonar_c32 *x = calloc(L * B * spec->bins, sizeof *x);
    for (size_t s = 0; s < L; s++)
        mvdr_scene(&f, waves, count, &seed, x + s * B * spec->bins);
    cr_assert_eq(mvdr_fixture_run(&f, L, x), SONAR_OK);
    cplx *wide = widen(&f, 0, L, x), *r = calloc(B * B, sizeof *r);
    mvdr_oracle_covariance(B, L, wide, NULL, r);
    double e = mvdr_fixture_error_db(&f, 0, r, (double)L);
    printf("B %zu L %zu sweeps %g residual %g delta %g flags %g: %g dB\n", B, L,
           mvdr_fixture_info(&f, 0, 0), mvdr_fixture_info(&f, 0, 1), mvdr_fixture_info(&f, 0, 2),
           mvdr_fixture_info(&f, 0, 3), e);
    free(x);
    free(wide);
    free(r);
    mvdr_fixture_close(&f);
    return e;
}

Test(mvdr, oracle) {
    static const size_t sizes[] = {1, 2, 3, 7, 16, 31, 64, 128};
    for (int level = 40; level <= 80; level += 20)
        for (int rule = 0; rule < 2; rule++)
            for (size_t i = 0; i < 8; i++) {
                size_t B = sizes[i], Ls[] = {1, 2, B / 2, B, B + 1, 2 * B};
                for (size_t j = 0; j < 6; j++) {
                    if (Ls[j] == 0)
                        continue;
                    sonar_mvdr_spec spec = mvdr_fixture_spec(B, 180, Ls[j]);
                    spec.loading = rule ? SONAR_LOADING_TRACE : SONAR_LOADING_NOISE;
                    spec.eps = rule ? 1e-4 : 1;
                    mvdr_wave w[] = {{50.5, level}, {81, level - 10}, {120, level - 20}};
                    double e = block_error(&spec, w, 3, 42 + i * 100 + j);
                    cr_expect_lt(e, level < 80 ? 0.05 : 0.1, "rule %d level %d B %zu L %zu: %g dB",
                                 rule, level, B, Ls[j], e);
                }
            }
}
