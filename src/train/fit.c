/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Host memory: a straight line through measured times, and the choice that follows (thesis, 4.5).
 * The thesis fits pieces of several shapes; one line with an offset is within a few per cent of
 * them wherever the time matters, and needs five measurements instead of thirty. */
#include <math.h>
#include <stdio.h>

#include "train/train.h"

/* Solves for the line with both coefficients free. False if the sizes do not differ. */
static bool solve(size_t count, const double *bytes, const double *seconds,
                  sonar_train_line *line) {
    double ww = 0, wx = 0, wxx = 0, wy = 0, wxy = 0;
    for (size_t i = 0; i < count; i++) {
        double w = 1 / (seconds[i] * seconds[i]);
        ww += w;
        wx += w * bytes[i];
        wxx += w * bytes[i] * bytes[i];
        wy += w * seconds[i];
        wxy += w * bytes[i] * seconds[i];
    }
    double determinant = ww * wxx - wx * wx;
    if (!(determinant > 1e-12 * ww * wxx))
        return false;
    line->offset_s = (wxx * wy - wx * wxy) / determinant;
    line->s_per_byte = (ww * wxy - wx * wy) / determinant;
    return true;
}

/* The best line with one of the coefficients held at zero. */
static void solve_clamped(size_t count, const double *bytes, const double *seconds,
                          sonar_train_line *line) {
    double above = 0, below = 0;
    bool through_origin = line->offset_s < 0;
    for (size_t i = 0; i < count; i++) {
        double x = (through_origin ? bytes[i] : 1) / seconds[i];
        above += x;
        below += x * x;
    }
    line->offset_s = through_origin ? 0 : above / below;
    line->s_per_byte = through_origin ? above / below : 0;
}

sonar_code sonar_train_fit(size_t count, const double *bytes, const double *seconds,
                           sonar_train_line *line, sonar_error *err) {
    *line = (sonar_train_line){0};
    for (size_t i = 0; i < count; i++)
        if (!(seconds[i] > 0) || !isfinite(seconds[i]) || !(bytes[i] >= 0) || !isfinite(bytes[i]))
            return sonar_fail(err, SONAR_EINVAL, "fit", "%g s for %g bytes is no measurement",
                              seconds[i], bytes[i]);
    if (!solve(count, bytes, seconds, line))
        return sonar_fail(err, SONAR_EINVAL, "fit", "%zu times of fewer than two sizes", count);
    if (line->offset_s < 0 || line->s_per_byte < 0)
        solve_clamped(count, bytes, seconds, line);
    return SONAR_OK;
}

double sonar_train_line_s(const sonar_train_line *line, double bytes) {
    return line->offset_s + bytes * line->s_per_byte;
}

double sonar_train_memory_s(const sonar_train_memory *kind, const sonar_train_buffer *buffer) {
    return sonar_train_line_s(&kind->make, buffer->bytes) +
           buffer->to_device * sonar_train_line_s(&kind->to_device, buffer->bytes) +
           buffer->from_device * sonar_train_line_s(&kind->from_device, buffer->bytes);
}

void sonar_train_choose_memory(const sonar_train_memory *kinds, size_t count,
                               sonar_train_buffer *buffer) {
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (sonar_train_memory_s(&kinds[i], buffer) < sonar_train_memory_s(&kinds[best], buffer))
            best = i;
    snprintf(buffer->chosen, sizeof buffer->chosen, "%s", kinds[best].kind);
}
