/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "synth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "process.h"
#include "random.h"

/* Samples are computed in blocks at multiples of BLOCK. Delays are exact every STEP samples and
 * linear in between. */
enum { BLOCK = 256, STEP = 32, KNOTS = BLOCK / STEP + 1 };

typedef struct voice {
    sim_source source;
    sim_process *process; /* NULL: tones only */
} voice;

struct sim_synth {
    size_t sensors, channels, voices;
    double fs_hz, sound_speed_mps;
    uint64_t seed;
    double *position_m, *gain, *phase_rad, *delay_s; /* [sensor][3], [sensor]... */
    sim_ship ship;
    double *towed_m; /* [KNOTS][sensor][3] places of towed sensors in the current block */
    double *noise, *extra_noise; /* [sensor] uPa, rms */
    uint32_t *channel;
    voice *voice;
    float *kernel, *rotated; /* rotated: [span] a process rotated by a sensor's phase */
    size_t span;
    double *lead, *amplitude; /* [sensor][KNOTS] of the current voice: lead in samples from the
                                 block's start, and ratio */
    float *block;             /* [channel][BLOCK] counts */
    int64_t block_first;      /* -1: none */
};

/* ---- geometry, as an oracle ------------------------------------------------------------------ */

static void unit_vector(double az_deg, double depression_deg, double u[3]) {
    double az = az_deg * M_PI / 180, depression = depression_deg * M_PI / 180;
    u[0] = cos(az) * cos(depression);
    u[1] = sin(az) * cos(depression);
    u[2] = sin(depression);
}

/* Converts true bearings to those of the array, whose +x turns. */
static void turn_under(const sim_source *s, double t_s, double place[3]) {
    const double turn = -sim_ship_array_heading(&s->ship, t_s) * M_PI / 180;
    const double c = cos(turn), d = sin(turn), x = place[0];
    if (s->ship.heading_deg == 0 && s->ship.turn_deg_s == 0)
        return;
    place[0] = c * x - d * place[1];
    place[1] = d * x + c * place[1];
}

/* The source's place in the array frame: near, the point where it is heard from at t, in metres;
 * far, the unit vector towards it. */
static void source_place(const sim_source *s, double t_s, double place[3]) {
    unit_vector(s->far ? s->az_deg + s->rate_deg_s * t_s : s->az_deg, s->depression_deg, place);
    double course = s->course_deg * M_PI / 180;
    for (int i = 0; i < 3 && !s->far; i++)
        place[i] *= s->range_m;
    if (!s->far) {
        place[0] += s->speed_mps * t_s * cos(course);
        place[1] += s->speed_mps * t_s * sin(course);
    }
    turn_under(s, t_s, place);
}

static double length3(const double v[3]) {
    return sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
}

/* Below a metre the level does not increase, because a source is not a point there. */
static double spreading(const sim_source *s, double range_m) {
    return (s->at == 1 ? 1 : s->range_m) / fmax(range_m, 1);
}

/* Seconds by which the sensor receives the sound before the origin, and its pressure relative to
 * the source's level. */
static double lead_s(const sim_source *s, const double place[3], const double p[3], double c_mps,
                     double *amplitude) {
    *amplitude = 1;
    if (s->far)
        return (p[0] * place[0] + p[1] * place[1] + p[2] * place[2]) / c_mps;
    double distance = length3((double[3]){place[0] - p[0], place[1] - p[1], place[2] - p[2]});
    *amplitude = spreading(s, distance);
    return (s->range_m - distance) / c_mps;
}

void sim_source_truth(const sim_source *source, double t_s, sim_truth *truth) {
    double place[3], power = 0;
    source_place(source, t_s, place);
    double range = length3(place);
    if (source->broadband.present)
        power += pow(10, source->broadband.level_db / 10);
    for (size_t i = 0; i < source->tones; i++)
        power += pow(10, source->tone[i].level_db / 10);
    truth->az_deg = sonar_modulo_turn(atan2(place[1], place[0]) * 180 / M_PI);
    truth->depression_deg = asin(fmin(fmax(place[2] / range, -1), 1)) * 180 / M_PI;
    truth->range_m = source->far ? HUGE_VAL : range;
    truth->level_db = 10 * log10(power);
    if (!source->far)
        truth->level_db += 20 * log10(spreading(source, range));
}

/* ---- creation -------------------------------------------------------------------------------- */

static void copy_array(sim_synth *s, const sim_array *array, const sim_scene *scene) {
    memcpy(s->position_m, array->position_m, s->sensors * 3 * sizeof(double));
    uint64_t gain_key = sim_random_key(s->seed, SIM_STREAM_GAIN, 0);
    uint64_t phase_key = sim_random_key(s->seed, SIM_STREAM_PHASE, 0);
    for (size_t k = 0; k < s->sensors; k++) {
        float gain_error, phase_error;
        sim_random_normal(gain_key, (int64_t)k, 1, &gain_error);
        sim_random_normal(phase_key, (int64_t)k, 1, &phase_error);
        double gain_db = array->gain_db ? array->gain_db[k] : 0;
        if (!isnan(scene->sensitivity_db))
            gain_db = scene->sensitivity_db;
        s->channel[k] = array->channel ? array->channel[k] : (uint32_t)k;
        s->gain[k] = gain_db + scene->gain_error_db * (double)gain_error;
        s->phase_rad[k] = (array->phase_deg ? array->phase_deg[k] : 0) +
                          scene->phase_error_deg * (double)phase_error;
        s->delay_s[k] = array->delay_us ? 1e-6 * array->delay_us[k] : 0;
        s->noise[k] = pow(10, scene->noise_db / 20);
    }
}

/* Adds the scene's single elements, and converts dB and degrees to factors and radians. */
static void apply_elements(sim_synth *s, const sim_scene *scene) {
    for (size_t i = 0; i < scene->elements; i++) {
        const sim_element *e = &scene->element[i];
        s->gain[e->sensor] += e->dead ? -HUGE_VAL : e->gain_db;
        s->phase_rad[e->sensor] += e->phase_deg;
        s->delay_s[e->sensor] += 1e-6 * e->delay_us;
        s->extra_noise[e->sensor] = pow(10, e->noise_db / 20);
    }
    for (size_t k = 0; k < s->sensors; k++) {
        s->gain[k] = pow(10, s->gain[k] / 20);
        s->phase_rad[k] *= M_PI / 180;
    }
}

/* Waves from directions spread evenly over the sphere (Fibonacci spiral). */
static void isotropic_source(const sim_scene *scene, size_t wave, sim_source *source) {
    double height = 1 - (2 * (double)wave + 1) / (double)scene->isotropic_waves;
    *source = (sim_source){.far = true,
                           .az_deg = fmod(137.50776405003785 * (double)wave, 360),
                           .depression_deg = asin(height) * 180 / M_PI,
                           .broadband = scene->isotropic};
    source->broadband.level_db -= 10 * log10((double)scene->isotropic_waves);
}

/* The largest number of samples of a process that one block can need: the array's extent both ways,
 * and motion. */
static size_t longest_span(const sim_synth *s) {
    double farthest = 0, latest = 0;
    for (size_t k = 0; k < s->sensors; k++) {
        farthest = fmax(farthest, length3(s->position_m + 3 * k));
        latest = fmax(latest, fabs(s->delay_s[k]));
    }
    double samples = 2 * (farthest / s->sound_speed_mps + latest) * s->fs_hz;
    return (size_t)samples + 2 * BLOCK + 2 * SIM_KERNEL_TAPS;
}

static sonar_code create_voices(sim_synth *s, const sim_scene *scene, sonar_error *err) {
    for (size_t i = 0; i < s->voices; i++) {
        voice *v = &s->voice[i];
        bool own = i < scene->sources;
        if (own)
            v->source = scene->source[i];
        else
            isotropic_source(scene, i - scene->sources, &v->source);
        uint64_t key = sim_random_key(s->seed, own ? SIM_STREAM_SOURCE : SIM_STREAM_ISOTROPIC,
                                      own ? i : i - scene->sources);
        if (!v->source.broadband.present)
            continue;
        sonar_code code =
            sim_process_create(key, &v->source.broadband, s->fs_hz, s->span, &v->process, err);
        if (code != SONAR_OK)
            return code;
    }
    return SONAR_OK;
}

static bool allocate(sim_synth *s) {
    s->position_m = sonar_alloc(s->sensors, 3 * sizeof(double));
    s->gain = sonar_alloc(s->sensors, sizeof(double));
    s->phase_rad = sonar_alloc(s->sensors, sizeof(double));
    s->delay_s = sonar_alloc(s->sensors, sizeof(double));
    s->noise = sonar_alloc(s->sensors, sizeof(double));
    s->extra_noise = sonar_alloc(s->sensors, sizeof(double));
    s->channel = sonar_alloc(s->sensors, sizeof(uint32_t));
    s->voice = sonar_alloc(s->voices, sizeof(voice));
    s->lead = sonar_alloc(s->sensors, KNOTS * sizeof(double));
    s->amplitude = sonar_alloc(s->sensors, KNOTS * sizeof(double));
    s->towed_m = sonar_alloc(s->sensors, KNOTS * 3 * sizeof(double));
    s->block = sonar_alloc(s->channels, BLOCK * sizeof(float));
    s->kernel = sim_kernel_create();
    return s->position_m && s->gain && s->phase_rad && s->delay_s && s->noise && s->extra_noise &&
           s->channel && s->voice && s->lead && s->amplitude && s->towed_m && s->block && s->kernel;
}

static sonar_code build(sim_synth *s, const sim_scene *scene, const sim_array *array,
                        sonar_error *err) {
    if (!allocate(s))
        return sonar_fail(err, SONAR_ENOMEM, "scene", "out of memory for %zu sensors", s->sensors);
    copy_array(s, array, scene);
    apply_elements(s, scene);
    s->span = longest_span(s);
    s->rotated = sonar_alloc(s->span, sizeof(float));
    if (!s->rotated)
        return sonar_fail(err, SONAR_ENOMEM, "scene", "out of memory for %zu samples", s->span);
    return create_voices(s, scene, err);
}

sonar_code sim_synth_create(const sim_scene *scene, const sim_array *array, sim_synth **synth,
                            sonar_error *err) {
    sim_synth *s = sonar_alloc(1, sizeof *s);
    if (!s)
        return sonar_fail(err, SONAR_ENOMEM, "scene", "out of memory");
    s->sensors = array->sensors;
    s->channels = array->channels;
    s->voices = scene->sources + (scene->isotropic.present ? scene->isotropic_waves : 0);
    s->fs_hz = array->fs_hz;
    s->sound_speed_mps = array->sound_speed_mps;
    s->seed = scene->seed;
    s->ship = scene->ship;
    s->block_first = -1;
    sonar_code code = build(s, scene, array, err);
    if (code != SONAR_OK)
        sim_synth_destroy(s);
    else
        *synth = s;
    return code;
}

void sim_synth_destroy(sim_synth *s) {
    if (!s)
        return;
    for (size_t i = 0; s->voice && i < s->voices; i++)
        sim_process_destroy(s->voice[i].process);
    free(s->position_m);
    free(s->gain);
    free(s->phase_rad);
    free(s->delay_s);
    free(s->noise);
    free(s->extra_noise);
    free(s->channel);
    free(s->voice);
    free(s->kernel);
    free(s->rotated);
    free(s->lead);
    free(s->amplitude);
    free(s->towed_m);
    free(s->block);
    free(s);
}

/* ---- rendering ------------------------------------------------------------------------------- */

static double time_of(const sim_synth *s, size_t knot) {
    return ((double)s->block_first + (double)(knot * STEP)) / s->fs_hz;
}

/* The places of towed sensors at the knots. */
static void tow(sim_synth *s) {
    for (size_t i = 0; s->ship.trail_m > 0 && i < KNOTS * s->sensors; i++)
        sim_ship_sensor(&s->ship, time_of(s, i / s->sensors), s->position_m + 3 * (i % s->sensors),
                        s->towed_m + 3 * i);
}

/* Leads and amplitudes of a voice at the knots of the current block. */
static void track(sim_synth *s, const sim_source *source) {
    for (size_t knot = 0; knot < KNOTS; knot++) {
        double place[3];
        const double *position_m =
            s->ship.trail_m > 0 ? s->towed_m + 3 * knot * s->sensors : s->position_m;
        source_place(source, time_of(s, knot), place);
        for (size_t k = 0; k < s->sensors; k++) {
            size_t at = k * KNOTS + knot;
            double lead =
                lead_s(source, place, position_m + 3 * k, s->sound_speed_mps, &s->amplitude[at]);
            s->lead[at] = (lead - s->delay_s[k]) * s->fs_hz + (double)(knot * STEP);
        }
    }
}

/* Computes the samples of the tracked voice for all sensors; returns the index of the first. */
static int64_t fetch(sim_synth *s, sim_process *process, size_t *count) {
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (size_t i = 0; i < s->sensors * KNOTS; i++) {
        low = fmin(low, s->lead[i]);
        high = fmax(high, s->lead[i]);
    }
    int64_t from = (int64_t)floor(low) - SIM_KERNEL_TAPS / 2;
    *count =
        sonar_min_size((size_t)((int64_t)floor(high) - from) + SIM_KERNEL_TAPS / 2 + 2, s->span);
    sim_process_need(process, s->block_first + from, *count);
    return s->block_first + from;
}

/* Rotates the process by the sensor's phase: the real part of e^{j phase} (x + j H{x}). */
static const float *rotate(sim_synth *s, const sim_process *process, int64_t first, size_t count,
                           double phase_rad) {
    const float *x = sim_process_samples(process, first);
    if (phase_rad == 0)
        return x;
    const float *y = sim_process_quadrature(process, first);
    float c = (float)cos(phase_rad), d = (float)sin(phase_rad);
    for (size_t i = 0; i < count; i++)
        s->rotated[i] = c * x[i] - d * y[i];
    return s->rotated;
}

static void add_broadband(sim_synth *s, const voice *v, size_t sensor, int64_t from, size_t count,
                          float *to) {
    const double *lead = s->lead + sensor * KNOTS, *ratio = s->amplitude + sensor * KNOTS;
    double scale = pow(10, v->source.broadband.level_db / 20);
    const float *x = rotate(s, v->process, from, count, s->phase_rad[sensor]);
    for (size_t knot = 0; knot + 1 < KNOTS; knot++)
        sim_kernel_add(s->kernel, x, lead[knot] - (double)(from - s->block_first),
                       (lead[knot + 1] - lead[knot]) / STEP - 1, (float)(scale * ratio[knot]),
                       (float)(scale * (ratio[knot + 1] - ratio[knot]) / STEP), STEP,
                       to + knot * STEP);
}

static void add_tone(sim_synth *s, const sim_tone *tone, size_t sensor, float *to) {
    const double *lead = s->lead + sensor * KNOTS, *ratio = s->amplitude + sensor * KNOTS;
    double scale = sqrt(2) * pow(10, tone->level_db / 20), turns_per_sample = tone->hz / s->fs_hz;
    double phase = tone->phase_deg / 360 + s->phase_rad[sensor] / (2 * M_PI);
    for (size_t i = 0; i < BLOCK; i++) {
        size_t knot = i / STEP;
        double share = (double)(i % STEP) / STEP;
        double ahead = lead[knot] + share * (lead[knot + 1] - lead[knot]);
        double turns = turns_per_sample * ((double)s->block_first + ahead) + phase;
        double a = scale * (ratio[knot] + share * (ratio[knot + 1] - ratio[knot]));
        to[i] += (float)(a * sin(2 * M_PI * (turns - floor(turns))));
    }
}

static void add_noise(const sim_synth *s, sim_stream family, double rms, size_t sensor, float *to) {
    float normal[BLOCK];
    if (rms == 0)
        return;
    sim_random_normal(sim_random_key(s->seed, family, sensor), s->block_first, BLOCK, normal);
    for (size_t i = 0; i < BLOCK; i++)
        to[i] += (float)rms * normal[i];
}

static void add_voice(sim_synth *s, const voice *v) {
    track(s, &v->source);
    size_t count = 0;
    int64_t from = v->process ? fetch(s, v->process, &count) : 0;
    for (size_t k = 0; k < s->sensors; k++) {
        float *row = s->block + (size_t)s->channel[k] * BLOCK;
        if (v->process)
            add_broadband(s, v, k, from, count, row);
        for (size_t tone = 0; tone < v->source.tones; tone++)
            add_tone(s, &v->source.tone[tone], k, row);
    }
}

static void render_block(sim_synth *s, int64_t first) {
    s->block_first = first;
    memset(s->block, 0, s->channels * BLOCK * sizeof(float));
    tow(s);
    for (size_t i = 0; i < s->voices; i++)
        add_voice(s, &s->voice[i]);
    for (size_t k = 0; k < s->sensors; k++) {
        float *row = s->block + (size_t)s->channel[k] * BLOCK;
        add_noise(s, SIM_STREAM_NOISE, s->noise[k], k, row);
        add_noise(s, SIM_STREAM_NOISY, s->extra_noise[k], k, row);
        for (size_t i = 0; i < BLOCK; i++)
            row[i] *= (float)s->gain[k];
    }
}

void sim_synth_render(sim_synth *s, uint64_t first, size_t samples, float *to) {
    for (size_t done = 0; done < samples;) {
        uint64_t index = first + done, offset = index % BLOCK;
        size_t count = sonar_min_size(samples - done, BLOCK - offset);
        if (s->block_first != (int64_t)(index - offset))
            render_block(s, (int64_t)(index - offset));
        for (size_t ch = 0; ch < s->channels; ch++)
            memcpy(to + ch * samples + done, s->block + ch * BLOCK + offset, count * sizeof(float));
        done += count;
    }
}
