/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Amplitude shading of a uniform line. */
#include "cbf/cbf.h"

#include "core/core.h"

#include <math.h>
#include <stdlib.h>

static double level_ratio(double sidelobe_db) {
    return pow(10, sidelobe_db / 20);
}

static void hann(size_t n, double *g) {
    for (size_t i = 0; i < n; i++) /* sampled at cell centres: no element is switched off */
        g[i] = 0.5 - 0.5 * cos(2 * M_PI * ((double)i + 0.5) / (double)n);
}

/* Chebyshev polynomial of degree m, for m up to thousands. */
static double chebyshev(double m, double x) {
    if (fabs(x) <= 1)
        return cos(m * acos(x));
    double size = cosh(m * acosh(fabs(x)));
    return x < 0 && fmod(m, 2) != 0 ? -size : size;
}

/* Dolph, Proc. IRE 34 (1946): the array factor T_{n-1}(x0 cos(psi/2)) sampled at psi = 2 pi k/n
 * and transformed back. The cosines repeat, cos(pi j / n), so they come from a table. */
static sonar_code dolph(double sidelobe_db, size_t n, double *g, sonar_error *err) {
    double degree = (double)n - 1, x0 = cosh(acosh(level_ratio(sidelobe_db)) / degree);
    double *cosine = sonar_alloc(2 * n, sizeof *cosine);
    double *factor = sonar_alloc(n, sizeof *factor);
    if (!cosine || !factor) {
        free(cosine);
        free(factor);
        return sonar_fail(err, SONAR_ENOMEM, "shading", "no memory for %zu elements", n);
    }
    for (size_t j = 0; j < 2 * n; j++)
        cosine[j] = cos(M_PI * (double)j / (double)n);
    for (size_t k = 0; k < n; k++)
        factor[k] = chebyshev(degree, x0 * cosine[k]);
    for (size_t i = 0; i < (n + 1) / 2; i++) {
        size_t twice = n - 1 - 2 * i; /* twice the distance from the middle */
        g[i] = factor[0];
        for (size_t k = 1; k <= (n - 1) / 2; k++)
            g[i] += 2 * factor[k] * cosine[k * twice % (2 * n)];
        g[n - 1 - i] = g[i];
    }
    free(cosine);
    free(factor);
    return SONAR_OK;
}

/* Coefficient of cos(2 pi m x) in Taylor's distribution (IRE Trans. AP-3, 1955). */
static double taylor_term(int m, int nbar, double a2, double sigma2) {
    double above = m % 2 ? 0.5 : -0.5, below = 1;
    for (int i = 1; i < nbar; i++) {
        above *= 1 - (double)(m * m) / (sigma2 * (a2 + (i - 0.5) * (i - 0.5)));
        if (i != m)
            below *= 1 - (double)(m * m) / (double)(i * i);
    }
    return above / below;
}

static sonar_code taylor(double sidelobe_db, int nbar, size_t n, double *g, sonar_error *err) {
    double a = acosh(level_ratio(sidelobe_db)) / M_PI, a2 = a * a;
    /* Below a^2 + 1/4 the first nulls would move inwards instead of outwards; no such design
     * exists. */
    if (nbar < 1 || nbar > 1000 || (double)nbar < a2 + 0.25)
        return sonar_fail(err, SONAR_EINVAL, "shading",
                          "Taylor side lobes at -%g dB need nbar of at least %.0f (and at most "
                          "1000), not %d",
                          sidelobe_db, ceil(fmax(a2 + 0.25, 1)), nbar);
    double sigma2 = (double)nbar * nbar / (a2 + (nbar - 0.5) * (nbar - 0.5));
    for (size_t i = 0; i < n; i++)
        g[i] = 1;
    for (int m = 1; m < nbar; m++) {
        double term = 2 * taylor_term(m, nbar, a2, sigma2);
        for (size_t i = 0; i < n; i++)
            g[i] += term * cos(2 * M_PI * m * ((double)i + 0.5 - (double)n / 2) / (double)n);
    }
    return SONAR_OK;
}

static void scale_to_one(size_t n, double *g) {
    double largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(g[i]));
    for (size_t i = 0; i < n; i++)
        g[i] /= largest;
}

sonar_code sonar_cbf_shading(sonar_shading kind, double sidelobe_db, int nbar, size_t n, double *g,
                             sonar_error *err) {
    bool leveled = kind == SONAR_SHADING_CHEBYSHEV || kind == SONAR_SHADING_TAYLOR;
    if (leveled && !(sidelobe_db > 0 && sidelobe_db <= 200))
        return sonar_fail(err, SONAR_EINVAL, "shading",
                          "side lobes %g dB down; accepted: above 0 to 200", sidelobe_db);
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < n; i++)
        g[i] = 1;
    if (kind == SONAR_SHADING_HANN)
        hann(n, g);
    else if (kind == SONAR_SHADING_CHEBYSHEV && n > 1)
        code = dolph(sidelobe_db, n, g, err);
    else if (kind == SONAR_SHADING_TAYLOR)
        code = taylor(sidelobe_db, nbar, n, g, err);
    if (!code)
        scale_to_one(n, g);
    return code;
}
