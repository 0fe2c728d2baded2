/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sea.h"

#include <math.h>
#include <stdlib.h>

#include "oracle.h"

enum { MASKED_NOISE = 100 };

static double delay(const sea *sea, const sea_source *source, size_t sensor) {
    const double *p = sea->params->position_m + 3 * sensor;
    double u[3];
    oracle_unit(source->az_deg, 0, u);
    return source->range_m > 0
               ? oracle_delay_near(p, u, source->range_m, sea->params->sound_speed_mps)
               : oracle_delay_far(p, u, sea->params->sound_speed_mps);
}

/* The channel's tone is delayed by its delay, advanced by its phase, and scaled by its sensitivity.
 */
static void add_tone(sea *sea, const sea_source *source, double hz, double start_turns) {
    const sonar_params *params = sea->params;
    double complex *at = sea->at + sea->tones * params->sensors;
    double amplitude = source->rms * sqrt(2.0 / source->tones);
    for (size_t s = 0; s < params->sensors; s++) {
        double turns = start_turns + hz * (delay(sea, source, s) - params->delay_s[s]) -
                       params->phase_turns[s];
        at[s] = amplitude / (double)params->scale[s] * cexp(2 * M_PI * I * turns);
    }
    sea->hz[sea->tones++] = hz;
}

sea sea_open(const sonar_config *config, const sonar_params *params, const sea_source *source,
             size_t sources, double noise) {
    sea sea = {.config = config, .params = params, .noise = noise, .random = 1};
    size_t tones = 0;
    for (size_t i = 0; i < sources; i++)
        tones += (size_t)source[i].tones;
    sea.hz = calloc(tones + 1, sizeof *sea.hz);
    sea.at = calloc(tones * params->sensors + 1, sizeof *sea.at);
    if (!sea.hz || !sea.at)
        abort();
    for (size_t i = 0; i < sources; i++)
        for (int j = 0; j < source[i].tones; j++) {
            double share = source[i].tones > 1 ? (double)j / (source[i].tones - 1) : 0.5;
            add_tone(&sea, &source[i],
                     source[i].low_hz + share * (source[i].high_hz - source[i].low_hz),
                     sonar_random_symmetric(&sea.random));
        }
    return sea;
}

void sea_close(sea *sea) {
    free(sea->hz);
    free(sea->at);
}

static double hear(const sea *sea, size_t sensor, const double complex *now) {
    double sum = 0;
    for (size_t j = 0; j < sea->tones; j++) {
        double complex at = sea->at[j * sea->params->sensors + sensor];
        sum += creal(now[j]) * creal(at) - cimag(now[j]) * cimag(at);
    }
    return sum;
}

void sea_fill(sea *sea, uint64_t first, size_t samples, float *to) {
    size_t channels = sea->config->channels;
    double complex *now = calloc(sea->tones + 1, sizeof *now);
    if (!now)
        abort();
    for (size_t i = 0; i < samples; i++, to += channels) {
        for (size_t j = 0; j < sea->tones; j++)
            now[j] = cexp(2 * M_PI * I *
                          fmod(sea->hz[j] * (double)(first + i) / sea->config->fs_hz, 1.0));
        for (size_t k = 0; k < channels; k++)
            to[k] = (float)(sea->noise * sonar_random_normal(&sea->random));
        for (size_t s = 0; s < sea->params->sensors; s++) {
            float *x = to + sea->params->channel[s];
            *x = sea->params->used[s] ? (float)((double)*x + hear(sea, s, now)) : MASKED_NOISE * *x;
        }
    }
    free(now);
}
