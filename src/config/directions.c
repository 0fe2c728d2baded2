/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Resolves the beams' directions from the scans' options and the array's resolution, and the
 * shading. Called by resolve.c once array and bands are resolved. */
#include "config/access.h"

#include "core/core.h"

#include <math.h>

static double top_hz(const sonar_band *band, double fs, size_t length) {
    const size_t last = band->first_bin + band->bins - 1;
    return (double)(last ? last : 1) * fs / (double)length;
}

/* Coarsest steps of automatic scans. The beams of a small array are wide, but a spectrum of few
 * directions is hard to read, and the adaptive one resolves much finer than the beam. */
static const double CBF_COARSEST_DEG = 5, MVDR_COARSEST_DEG = 2;

/* The number of directions of a scan that was automatic before a live change; it is kept, because
 * the buffers have that size. 0 at the start. */
static size_t kept_directions(const sonar_loader *l, sonar_option_id scan) {
    if (!l->like || l->like->settings->value[scan].origin == SONAR_ABSENT)
        return 0;
    return scan == OPT_CBF_SCAN ? l->like->cbf_scan.count : l->like->mvdr_scan.count;
}

/* If an automatic scan fails, the array is the cause, so the error points to the array unless the
 * file gives the scan. */
static bool fail_scan(sonar_loader *l, sonar_option_id scan, bool uniform, double top,
                      const sonar_error *err) {
    const sonar_config *c = l->config;
    const double lambda_m = c->sound_speed_mps / top;
    if (uniform)
        return fail(l, scan, NULL, "%s", err->text);
    const sonar_option_id at = given(l, scan) ? scan : OPT_LINE_SENSORS;
    sonar_report_add(l->report, SONAR_MISTAKE, l->text, sonar_place_of(l, at),
                     "{start_deg: A, stop_deg: B, step_deg: C}",
                     "%s: %s: the array is %.6g m long, %.0f wavelengths at %.6g Hz%s",
                     sonar_options[scan].path, err->text, c->geometry.aperture_m,
                     c->geometry.aperture_m / lambda_m, top, sonar_config_millimetres(c, top));
    return false;
}

/* In the table, scan is followed by start, stop, step and depression. */
static bool resolve_scan(sonar_loader *l, sonar_option_id scan, double top, double effective_m,
                         double coarsest_deg, sonar_scan *to) {
    const sonar_option_id start = (sonar_option_id)(scan + 1), stop = (sonar_option_id)(scan + 2),
                          step = (sonar_option_id)(scan + 3),
                          depression = (sonar_option_id)(scan + 4);
    if (value(l, scan)->bad || value(l, depression)->bad)
        return false;
    const bool uniform = !have(l, scan);
    if (uniform && (!have(l, start) || !have(l, stop) || !have(l, step)))
        return false;
    const sonar_scan_spec spec = {.uniform = uniform,
                                  .start_deg = number(l, start),
                                  .stop_deg = number(l, stop),
                                  .step_deg = number(l, step),
                                  .depression_deg = number(l, depression),
                                  .top_hz = top,
                                  .sound_speed_mps = l->config->sound_speed_mps,
                                  .effective_m = effective_m,
                                  .coarsest_deg = coarsest_deg,
                                  .count = kept_directions(l, scan)};
    sonar_error err;
    const sonar_code code = sonar_scan_create(&spec, &l->config->geometry, to, &err);
    if (code == SONAR_ENOMEM)
        return no_memory(l);
    return code ? fail_scan(l, scan, uniform, top, &err) : true;
}

static sonar_option_id shading_option(sonar_loader *l) {
    if (have(l, OPT_CHEBYSHEV_LEVEL)) {
        l->config->shading = SONAR_SHADING_CHEBYSHEV;
        return OPT_CHEBYSHEV_LEVEL;
    }
    if (have(l, OPT_TAYLOR_LEVEL)) {
        l->config->shading = SONAR_SHADING_TAYLOR;
        return OPT_TAYLOR_LEVEL;
    }
    return OPT_SHADING;
}

static bool resolve_shading(sonar_loader *l) {
    sonar_config *c = l->config;
    const sonar_option_id id = shading_option(l);
    sonar_error err;
    if (c->shading == SONAR_SHADING_UNIFORM) {
        for (size_t k = 0; k < c->sensors; k++)
            c->shading_weight[k] = 1;
    } else if (!c->geometry.uniform_line) {
        return fail(l, id, "uniform", "this shading is for uniform lines only");
    } else {
        const sonar_code code = sonar_cbf_shading(c->shading, c->sidelobe_db, c->nbar, c->sensors,
                                                  c->shading_weight, &err);
        if (code)
            return code == SONAR_ENOMEM ? no_memory(l) : fail(l, id, NULL, "%s", err.text);
    }
    for (size_t k = 0; k < c->sensors; k++)
        c->shading_weight[k] *= c->used[k];
    return true;
}

bool sonar_resolve_directions(sonar_loader *l) {
    sonar_config *c = l->config;
    const double cbf_top = top_hz(&c->cbf_band, c->fs_hz, c->specs.cbf.length);
    const double mvdr_top =
        c->specs.mvdr_enabled ? top_hz(&c->mvdr_band, c->fs_hz, c->specs.mvdr.length) : 0;
    const double top =
        fmax(fmax(cbf_top, mvdr_top), top_hz(&c->lofar_band, c->fs_hz, c->specs.cbf.length));
    if (!sonar_geometry_analyse(c->sensors, c->position_m, c->used, c->sound_speed_mps / top / 20,
                                &c->geometry))
        return no_memory(l);
    /* A line that bends hears its two sides differently, and both have to be scanned. */
    if (sonar_config_bends(c) && c->geometry.extent == SONAR_EXTENT_LINE)
        c->geometry.extent = SONAR_EXTENT_PLANE;
    if (!given(l, OPT_MVDR_DEPRESSION) && have(l, OPT_CBF_DEPRESSION))
        sonar_value_set_number(l, OPT_MVDR_DEPRESSION, number(l, OPT_CBF_DEPRESSION));
    bool good = resolve_shading(l);
    const double shaded_m =
        good ? sonar_effective_length(c->sensors, c->position_m, c->shading_weight, &c->geometry)
             : 0;
    good = resolve_scan(l, OPT_CBF_SCAN, cbf_top, shaded_m, CBF_COARSEST_DEG, &c->cbf_scan) && good;
    if (c->specs.mvdr_enabled)
        good =
            resolve_scan(l, OPT_MVDR_SCAN, mvdr_top, 0, MVDR_COARSEST_DEG, &c->mvdr_scan) && good;
    return sonar_resolve_ranges(l, c->sound_speed_mps / cbf_top) && good;
}
