/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The limit on the white noise gain of eight directions, one per vector lane. */
#include "mvdr_jacobi/rules/white_noise.h"
#include "mvdr_jacobi/cpu/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

void mvdr_gain_prepare(const mvdr_stage *stage, mvdr_view *view, const mvdr_scratch *scratch) {
    for (size_t i = 0; i < view->m; i++) {
        const double d = scratch->d[i], lambda = d + view->delta;
        const bool there = d > MVDR_LEAST_FLOAT64 * scratch->d[0];
        view->lambda[i] = lambda;
        view->own[i] = !stage->shape.by_snapshots ? lambda : there ? lambda / d : 0;
    }
    view->lambda[view->m] = view->delta;
}

/* q_i from the squares of F's rows. One more row gets the rest of |a|^2 in snapshot space. */
static void find_shares(const mvdr_view *view, const double *norm, double *energies) {
    double left[MVDR_LANES];
    memcpy(left, norm, sizeof left);
    for (size_t i = 0; i < view->m; i++)
        for (size_t lane = 0; lane < MVDR_LANES; lane++) {
            double *q = energies + i * MVDR_LANES + lane;
            *q *= view->own[i];
            left[lane] -= *q;
        }
    for (size_t lane = 0; lane < MVDR_LANES; lane++)
        energies[view->m * MVDR_LANES + lane] = view->left ? fmax(left[lane], 0) : 0;
}

unsigned mvdr_gain_limit(const mvdr_kernels *kernels, const mvdr_view *view, const double *norm,
                         double *energies, float *power) {
    double mu[MVDR_LANES] = {0};
    mvdr_gain_search search[MVDR_LANES];
    mvdr_gain_sums sums[MVDR_LANES];
    bool found = false;
    unsigned limited = 0;
    find_shares(view, norm, energies);
    for (size_t lane = 0; lane < MVDR_LANES; lane++)
        search[lane] = mvdr_gain_begin(view->gain, view->delta, view->lambda[0]);
    for (int step = 0; step < MVDR_GAIN_STEPS && !found; step++) {
        double all[4][MVDR_LANES];
        kernels->gain_sums(energies, view->lambda, view->m + 1, mu, all);
        found = true;
        for (size_t lane = 0; lane < MVDR_LANES; lane++) {
            if (!search[lane].found) {
                sums[lane] =
                    (mvdr_gain_sums){all[0][lane], all[1][lane], all[2][lane], all[3][lane]};
                mvdr_gain_step(&search[lane], sums[lane], view->gain * norm[lane]);
            }
            mu[lane] = search[lane].mu;
            found = found && search[lane].found;
        }
    }
    for (size_t lane = 0; lane < MVDR_LANES; lane++) {
        if (mu[lane] == 0)
            continue;
        const double p = sums[lane].through / (sums[lane].first * sums[lane].first);
        power[lane] = (float)fmin(p, (double)FLT_MAX);
        limited |= 1u << lane;
    }
    return limited;
}
