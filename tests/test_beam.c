/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Beams as time series against sums of tones in double precision: any array and direction, rings
 * that wrap, gaps, the beginning of a stream, turning arrays and live changes. test_beam_topic.c
 * has the daemon's pipeline. */
#include <complex.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/beam/beam.h"
#include "core/core.h"
#include "core/random.h"

TestSuite(beam, .timeout = 300);

enum { TONES = 24, SOURCES = 2, MOST = 64 };
static const double C_MPS = 1500;

/* ---- an array in a sound field --------------------------------------------------------------- */

typedef struct rig {
    uint64_t random;
    size_t sensors, channels, length;
    sonar_beam_spec spec;
    double position_m[3 * MOST], delay_s[MOST];
    uint32_t channel[MOST];
    uint8_t used[MOST];
    float scale[MOST], shading[MOST];
    sonar_params params;
    sonar_scan scan;
    double hz[TONES], phase[TONES], amplitude[SOURCES];
    double u[SOURCES][3]; /* in the earth's frame: the array's is turned by the heading */
    double turn_deg;      /* the array's heading a sample, from heading_deg on */
    double heading_deg;
    /* the ring */
    bool s16;
    size_t capacity, column;
    void *ring;
    uint64_t *lacks;
    sonar_window window;
    sonar_beam *beam;
} rig;

static double uniform(rig *r, double low, double high) {
    return low + (high - low) * sonar_random_uniform(&r->random);
}

static size_t below(rig *r, size_t end) {
    return (size_t)uniform(r, 0, (double)end);
}

static double largest_delay(const rig *r) {
    double most = 0;
    for (size_t k = 0; k < r->sensors; k++) {
        const double *p = r->position_m + 3 * k;
        most =
            fmax(most, sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]) / C_MPS + fabs(r->delay_s[k]));
    }
    return most * r->spec.fs_hz;
}

enum shape { LINE, PLANE, VOLUME };

static void place(rig *r, enum shape shape) {
    for (size_t k = 0; k < r->sensors; k++) {
        double *p = r->position_m + 3 * k;
        p[0] =
            shape == LINE ? 0.4 * ((double)k - 0.5 * ((double)r->sensors - 1)) : uniform(r, -4, 4);
        p[1] = shape == LINE ? 0 : uniform(r, -4, 4);
        p[2] = shape == VOLUME ? uniform(r, -4, 4) : 0;
    }
}

/* Tones up to SONAR_BEAM_SHARE of half the rate; every sensor has its own everything. */
static void open_rig(rig *r, uint64_t seed, enum shape shape, size_t sensors, double top_share) {
    *r = (rig){.random = seed, .sensors = sensors, .channels = sensors + 3};
    r->spec = (sonar_beam_spec){.sensors = sensors, .fs_hz = 8000};
    place(r, shape);
    for (size_t k = 0; k < sensors; k++) {
        r->channel[k] =
            (uint32_t)(sensors + 1 - k); /* channels 0 and 1 feed none, nor does the last */
        r->used[k] = sensors < 3 || below(r, 5) > 0 || k == 0;
        r->scale[k] = (float)uniform(r, 0.5, 2);
        r->delay_s[k] = uniform(r, -1e-4, 1e-4);
        r->shading[k] = r->used[k] ? (float)uniform(r, 0.2, 1) : 0;
        r->params.shading_sum += (double)r->shading[k];
    }
    for (size_t i = 0; i < TONES; i++) {
        r->hz[i] = top_share * r->spec.fs_hz / 2 * (double)(i + 1) / TONES;
        r->phase[i] = uniform(r, 0, 2 * M_PI);
    }
    r->params.sensors = sensors;
    r->params.sound_speed_mps = C_MPS;
    r->params.position_m = r->position_m;
    r->params.channel = r->channel;
    r->params.used = r->used;
    r->params.scale = r->scale;
    r->params.delay_s = r->delay_s;
    r->params.shading = r->shading;
    sonar_geometry geometry;
    cr_assert(sonar_geometry_analyse(sensors, r->position_m, NULL, 1e-3, &geometry));
    const sonar_scan_spec spec = {.uniform = true,
                                  .stop_deg = geometry.extent == SONAR_EXTENT_LINE ? 180 : 350,
                                  .step_deg = 10,
                                  .top_hz = 4000,
                                  .sound_speed_mps = C_MPS};
    sonar_error err = {0};
    cr_assert_eq(sonar_scan_create(&spec, &geometry, &r->scan, &err), SONAR_OK, "%s", err.text);
    r->amplitude[0] = 1;
}

static void make_beam(rig *r, size_t beams, size_t hop, size_t length, size_t spare) {
    sonar_error err = {0};
    r->spec.beams = beams;
    r->spec.hop = hop;
    r->spec.reach = (size_t)ceil(largest_delay(r)) + spare;
    r->length = length;
    const size_t lookback = sonar_beam_lookback(&r->spec, length);
    r->capacity = lookback + length + below(r, 100);
    r->column = below(r, r->capacity);
    r->ring = calloc(r->channels * r->capacity, sizeof(float));
    r->lacks = calloc((lookback + length) / 64 + 3, sizeof *r->lacks);
    const size_t shape[2] = {r->channels, r->capacity};
    r->window = (sonar_window){
        .lookback = lookback,
        .lacks = r->lacks,
        .position = 1000000,
        .first_sample = 5000,
        .ring = sonar_buffer_view(r->ring, r->s16 ? SONAR_S16 : SONAR_F32, 2, shape)};
    cr_assert_eq(sonar_beam_create(&r->spec, sonar_host_serial(), &r->beam, &err), SONAR_OK);
}

static void close_rig(rig *r) {
    sonar_beam_destroy(r->beam);
    sonar_scan_destroy(&r->scan);
    free(r->ring);
    free(r->lacks);
}

/* The source's direction in the array's frame at a sample. */
static void direction(const rig *r, int source, double sample, double u[3]) {
    const double turned = (r->heading_deg + r->turn_deg * sample) * M_PI / 180;
    const double *e = r->u[source];
    u[0] = e[0] * cos(turned) + e[1] * sin(turned);
    u[1] = -e[0] * sin(turned) + e[1] * cos(turned);
    u[2] = e[2];
}

static double arrival_s(const rig *r, int source, double sample, size_t k) {
    double u[3];
    const double *p = r->position_m + 3 * k;
    direction(r, source, sample, u);
    return (p[0] * u[0] + p[1] * u[1] + p[2] * u[2]) / C_MPS;
}

/* Both sources have the same tones, of different phases. */
static double wave(const rig *r, int source, double t_s) {
    double sum = 0;
    for (size_t i = 0; i < TONES; i++)
        sum += cos(2 * M_PI * r->hz[i] * t_s + r->phase[i] * (1 + source));
    return r->amplitude[source] * sum;
}

static double sensor_sample(const rig *r, size_t k, double sample) {
    double sum = 0;
    for (int s = 0; s < SOURCES; s++)
        if (r->amplitude[s] != 0)
            sum += wave(r, s, sample / r->spec.fs_hz + arrival_s(r, s, sample, k) - r->delay_s[k]);
    return sum;
}

/* Brings the window that begins at `first` into the ring, where the last one lies behind it. */
static void fill(rig *r, uint64_t first) {
    const ptrdiff_t lookback = (ptrdiff_t)r->window.lookback;
    const ptrdiff_t capacity = (ptrdiff_t)r->capacity;
    r->column = (r->column + (size_t)(first - r->window.first_sample)) % r->capacity;
    r->window.position += first - r->window.first_sample;
    r->window.first_sample = first;
    r->window.ring_column = r->column;
    for (size_t k = 0; k < r->sensors; k++)
        for (ptrdiff_t i = -lookback; i < (ptrdiff_t)r->length; i++) {
            const size_t at = (size_t)(((ptrdiff_t)r->column + i + capacity) % capacity) +
                              r->channel[k] * r->capacity;
            const double x = sensor_sample(r, k, (double)first + (double)i) / (double)r->scale[k];
            if (r->s16)
                ((int16_t *)r->ring)[at] = (int16_t)rint(x);
            else
                ((float *)r->ring)[at] = (float)x;
        }
}

static void lack(rig *r, ptrdiff_t from, size_t count) {
    const uint64_t origin = (r->window.position - r->window.lookback) & ~(uint64_t)63;
    for (size_t i = 0; i < count; i++) {
        const uint64_t bit = r->window.position + (uint64_t)from + i - origin;
        r->lacks[bit / 64] |= UINT64_C(1) << bit % 64;
    }
}

static sonar_beam_job job_of(const rig *r, const sonar_beam_look *look) {
    return (sonar_beam_job){.window = &r->window,
                            .params = &r->params,
                            .scan = &r->scan,
                            .beams = r->spec.beams,
                            .look = look,
                            .range_m = INFINITY,
                            .heading_deg = {NAN, NAN}};
}

/* The delay-and-sum of the true field, steered to u: what the beam has to be. */
static double oracle(const rig *r, const double u[3], double sample) {
    double sum = 0, weights = 0;
    for (size_t k = 0; k < r->sensors; k++) {
        const double *p = r->position_m + 3 * k;
        const double tau_s = (p[0] * u[0] + p[1] * u[1] + p[2] * u[2]) / C_MPS;
        weights += (double)r->shading[k];
        for (int s = 0; s < SOURCES && r->shading[k] > 0; s++)
            if (r->amplitude[s] != 0)
                sum += (double)r->shading[k] *
                       wave(r, s, sample / r->spec.fs_hz + arrival_s(r, s, sample, k) - tau_s);
    }
    return sum / weights;
}

static double level_of(const rig *r) { /* mean square of source 0 */
    return r->amplitude[0] * r->amplitude[0] * TONES / 2;
}

/* Relative error, in dB of the source's level, over the run's samples that are there. */
static double error_db(const rig *r, const double u[3], const float *out, size_t *compared) {
    const double begin =
        (double)r->window.first_sample + (double)sonar_beam_begin(&r->spec, r->length);
    double error = 0;
    *compared = 0;
    for (size_t i = 0; i < r->spec.hop; i++) {
        if (isnan(out[i]))
            continue;
        const double off = (double)out[i] - oracle(r, u, begin + (double)i);
        error += off * off;
        ++*compared;
    }
    return 10 * log10(error / (double)*compared / level_of(r));
}

/* ---- the filter ------------------------------------------------------------------------------ */

/* The response of every fraction of a sample is that of the delay, up to the stated share, and not
 * much further: the share would be too small otherwise. */
Test(beam, filter_delays_as_it_says) {
    float c[SONAR_BEAM_POWERS][SONAR_BEAM_TAPS];
    double worst = 0, beyond = 0;
    sonar_beam_design(c);
    for (int m = -50; m <= 50; m++)
        for (int f = 0; f <= 1000; f++) {
            const double mu = m / 100.0, w = M_PI * f / 1000.0;
            double complex sum = 0;
            for (int tap = 0; tap < SONAR_BEAM_TAPS; tap++) {
                double h = 0;
                for (int p = SONAR_BEAM_POWERS - 1; p >= 0; p--)
                    h = h * 2 * mu + (double)c[p][tap];
                sum += h * cexp(-I * w * (tap - SONAR_BEAM_HALF));
            }
            const double error = cabs(sum - cexp(-I * w * mu));
            if (f <= 1000 * SONAR_BEAM_SHARE)
                worst = fmax(worst, error);
            else if (f >= 950)
                beyond = fmax(beyond, error);
        }
    cr_expect_lt(20 * log10(worst), -62, "%g dB", 20 * log10(worst));
    cr_expect_gt(20 * log10(beyond), -30, "%g dB", 20 * log10(beyond));
}

/* ---- directions ------------------------------------------------------------------------------ */

static void expect_beams(uint64_t seed, enum shape shape, size_t sensors, size_t hop, size_t length,
                         bool s16) {
    rig r;
    open_rig(&r, seed, shape, sensors, SONAR_BEAM_SHARE);
    r.s16 = s16;
    r.amplitude[0] = s16 ? 1000 : 1;
    r.amplitude[1] = 0.5 * r.amplitude[0];
    make_beam(&r, 4, hop, length, below(&r, 9));
    const double end = r.scan.cone ? 180 : 360;
    const sonar_beam_look look[4] = {
        {.deg = 0}, {.deg = end}, {.deg = uniform(&r, 0, end)}, {.deg = uniform(&r, 0, end)}};
    sonar_scan_unit(&r.scan, look[2].deg, r.u[0]);
    sonar_scan_unit(&r.scan, uniform(&r, 0, end), r.u[1]);
    float *out = calloc(4 * hop, sizeof *out);
    sonar_beam_facts facts[4];
    const sonar_beam_job job = job_of(&r, look);
    for (uint64_t w = 0; w < 2; w++) {
        fill(&r, 5000 + w * hop);
        sonar_beam_run(r.beam, &job, length, out, facts);
        for (size_t b = 0; b < 4; b++) {
            double u[3];
            size_t compared;
            sonar_scan_unit(&r.scan, look[b].deg, u);
            const double db = error_db(&r, u, out + b * hop, &compared);
            cr_expect_eq(compared, hop);
            cr_expect_eq(facts[b].missing, 0);
            cr_expect_float_eq(facts[b].az_deg, look[b].deg, 1e-12);
            cr_expect(db < -60, "seed %zu, beam %zu: %g dB", (size_t)seed, b, db);
        }
    }
    free(out);
    close_rig(&r);
}

Test(beam, sums_as_double_precision_does) {
    uint64_t random = 77;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        const enum shape shape = (enum shape)(seed % 3);
        const size_t sensors = 1 + (size_t)(sonar_random_uniform(&random) * 40),
                     hop = 1 + (size_t)(sonar_random_uniform(&random) * 700),
                     length = hop + (size_t)(sonar_random_uniform(&random) * 400);
        expect_beams(seed, sensors < 3 ? LINE : shape, sensors < 2 ? 2 : sensors, hop, length,
                     seed % 4 == 0);
    }
}

/* A point's wave arrives by the difference of two paths. */
Test(beam, focuses_on_a_point) {
    rig r;
    open_rig(&r, 5, LINE, 31, 0.5);
    make_beam(&r, 1, 512, 1024, 0);
    const sonar_beam_look look = {.deg = 63};
    double u[3];
    sonar_scan_unit(&r.scan, 63, u);
    sonar_beam_job job = job_of(&r, &look);
    job.range_m = 17;
    sonar_beam_facts facts;
    float out[512];
    double tau_s[MOST], error = 0, far = 0;
    sonar_delay_near(r.sensors, r.position_m, u, 17, SONAR_RADIAL, r.scan.axis, C_MPS, tau_s);
    fill(&r, 5000);
    for (size_t k = 0; k < r.sensors; k++)
        for (size_t i = 0; i < r.capacity; i++) {
            const ptrdiff_t at = (ptrdiff_t)i - (ptrdiff_t)r.column;
            const double wrapped =
                (double)(at >= (ptrdiff_t)r.length ? at - (ptrdiff_t)r.capacity : at);
            ((float *)r.ring)[r.channel[k] * r.capacity + i] =
                (float)(wave(&r, 0, (5000 + wrapped) / 8000 + tau_s[k] - r.delay_s[k]) /
                        (double)r.scale[k]);
        }
    for (int pass = 0; pass < 2; pass++, job.range_m = INFINITY) {
        const double begin = 5000 + (double)sonar_beam_begin(&r.spec, 1024);
        sonar_beam_destroy(r.beam);
        sonar_error err;
        sonar_beam_create(&r.spec, sonar_host_serial(), &r.beam, &err);
        sonar_beam_run(r.beam, &job, 1024, out, &facts);
        for (size_t i = 0; i < 512; i++) {
            const double off = (double)out[i] - wave(&r, 0, (begin + (double)i) / 8000);
            *(pass ? &far : &error) += off * off / 512;
        }
    }
    cr_expect_lt(10 * log10(error / level_of(&r)), -60, "%g", 10 * log10(error / level_of(&r)));
    cr_expect_gt(10 * log10(far / level_of(&r)), -20, "the range matters");
    close_rig(&r);
}

/* ---- what is missing ------------------------------------------------------------------------- */

/* A sample is NaN if, and only if, a sample that could enter it is missing. */
Test(beam, gaps_are_struck_out) {
    enum { HOP = 700, LENGTH = 900 };
    for (uint64_t seed = 1; seed <= 6; seed++) {
        rig r;
        open_rig(&r, seed, PLANE, 9, 0.7);
        make_beam(&r, 1, HOP, LENGTH, 1);
        const sonar_beam_look look = {.deg = 40};
        const sonar_beam_job job = job_of(&r, &look);
        sonar_scan_unit(&r.scan, 40, r.u[0]);
        fill(&r, 5000);
        const ptrdiff_t begin = sonar_beam_begin(&r.spec, LENGTH),
                        around = (ptrdiff_t)(r.spec.reach + SONAR_BEAM_HALF);
        const ptrdiff_t gap = begin + (ptrdiff_t)below(&r, HOP);
        const size_t count = 1 + below(&r, 90);
        lack(&r, gap, count);
        float out[HOP];
        sonar_beam_facts facts;
        size_t missing = 0, compared;
        sonar_beam_run(r.beam, &job, LENGTH, out, &facts);
        for (ptrdiff_t i = 0; i < HOP; i++) {
            const bool touches =
                begin + i + around >= gap && begin + i - around < gap + (ptrdiff_t)count;
            cr_assert_eq(!!isnan(out[i]), touches, "seed %zu, sample %td", (size_t)seed, i);
            missing += touches;
        }
        double u[3];
        sonar_scan_unit(&r.scan, 40, u);
        cr_expect_eq(facts.missing, missing);
        cr_expect_lt(error_db(&r, u, out, &compared), -60);
        close_rig(&r);
    }
}

/* Nothing before the first window enters, whatever lies in the ring. */
Test(beam, begins_with_the_stream) {
    enum { HOP = 256, LENGTH = 256 };
    rig r;
    open_rig(&r, 3, LINE, 12, 0.7);
    make_beam(&r, 1, HOP, LENGTH, 0);
    const sonar_beam_look look = {.deg = 70};
    const sonar_beam_job job = job_of(&r, &look);
    sonar_scan_unit(&r.scan, 70, r.u[0]);
    fill(&r, 5000);
    r.window.lookback = 0;
    r.window.restarted = true;
    float out[HOP];
    sonar_beam_facts facts;
    const size_t around = r.spec.reach + SONAR_BEAM_HALF;
    sonar_beam_run(r.beam, &job, LENGTH, out, &facts);
    cr_expect_eq(facts.missing, 2 * around); /* it begins `around` before the window */
    for (size_t i = 0; i < HOP; i++)
        cr_expect_eq(!!isnan(out[i]), i < 2 * around);
    close_rig(&r);
}

/* ---- what moves ------------------------------------------------------------------------------ */

/* A beam by its bearing follows the heading: the array turns by 3 degrees a second under a fixed
 * source. Also along a line, where the bearing's cone angle changes. */
Test(beam, bearings_follow_the_heading) {
    enum { HOP = 1000, LENGTH = 1400, WINDOWS = 6 };
    for (int shape = LINE; shape <= PLANE; shape++) {
        rig r;
        open_rig(&r, 9, (enum shape)shape, 24, 0.7);
        make_beam(&r, 2, HOP, LENGTH, 0);
        r.turn_deg = 3.0 / 8000;
        r.heading_deg = 350;
        const double bearing = 75 * M_PI / 180;
        r.u[0][0] = cos(bearing), r.u[0][1] = sin(bearing);
        const sonar_beam_look look[2] = {{.deg = 75, .is_true = true}, {.deg = 30}};
        float out[2 * HOP];
        sonar_beam_facts facts[2];
        double error = 0, fixed = 0;
        for (uint64_t w = 0; w < WINDOWS; w++) {
            fill(&r, 5000 + w * HOP);
            const double begin =
                (double)r.window.first_sample + (double)sonar_beam_begin(&r.spec, LENGTH);
            sonar_beam_job job = job_of(&r, look);
            job.heading_deg[0] = sonar_modulo_turn(350 + r.turn_deg * begin);
            job.heading_deg[1] = sonar_modulo_turn(350 + r.turn_deg * (begin + HOP));
            sonar_beam_run(r.beam, &job, LENGTH, out, facts);
            for (size_t i = 0; i < HOP; i++) {
                const double s = wave(&r, 0, (begin + (double)i) / 8000);
                error += ((double)out[i] - s) * ((double)out[i] - s) / HOP / WINDOWS;
                fixed += ((double)out[HOP + i] - s) * ((double)out[HOP + i] - s) / HOP / WINDOWS;
            }
            cr_expect_float_eq(facts[0].bearing_deg, 75, 1e-12);
            cr_expect(isnan(facts[1].bearing_deg));
            cr_expect_float_eq(facts[0].az_deg, sonar_modulo_turn(75 - job.heading_deg[1]), 1e-6);
        }
        /* The array itself smears the field a little: each sensor hears at its own time. */
        cr_expect_lt(10 * log10(error / level_of(&r)), -50, "%g", 10 * log10(error / level_of(&r)));
        cr_expect_gt(10 * log10(fixed / level_of(&r)), -20);
        close_rig(&r);
    }
}

Test(beam, bearing_without_heading_is_struck_out) {
    rig r;
    open_rig(&r, 2, PLANE, 5, 0.5);
    make_beam(&r, 2, 100, 200, 0);
    const sonar_beam_look look[2] = {{.deg = 10, .is_true = true}, {.deg = 10}};
    const sonar_beam_job job = job_of(&r, look);
    fill(&r, 5000);
    float out[200];
    sonar_beam_facts facts[2];
    sonar_beam_run(r.beam, &job, 200, out, facts);
    cr_expect(isnan(facts[0].az_deg) && facts[0].missing == 100 && isnan(out[99]));
    cr_expect(facts[1].az_deg == 10 && facts[1].missing == 0 && !isnan(out[199]));
    close_rig(&r);
}

/* The largest change between two samples of a low tone, whatever changes between two windows. */
Test(beam, live_changes_do_not_click) {
    enum { HOP = 512, LENGTH = 600 };
    for (int what = 0; what < 4; what++) {
        rig r;
        open_rig(&r, 4, LINE, 20, 0.7);
        for (size_t i = 0; i < TONES; i++)
            r.hz[i] = 100 + (double)i; /* at most 124 Hz: 0.1 rad a sample */
        make_beam(&r, 1, HOP, LENGTH, 30);
        sonar_scan_unit(&r.scan, 60, r.u[0]);
        r.shading[3] = r.shading[5] = 0.5F;
        sonar_beam_look look = {.deg = 60};
        sonar_beam_job job = job_of(&r, &look);
        float out[2 * HOP], plain[HOP];
        sonar_beam_facts facts;
        double largest = 0, level = 0;
        fill(&r, 5000);
        sonar_beam_run(r.beam, &job, LENGTH, out, &facts);
        fill(&r, 5000 + HOP);
        look.deg = what == 0 ? 20 : 60;
        r.shading[3] = what == 1 ? 0 : r.shading[3];
        r.scale[5] = what == 2 ? 30 * r.scale[5] : r.scale[5];
        r.params.sound_speed_mps = what == 3 ? 1450 : C_MPS;
        sonar_beam_run(r.beam, &job, LENGTH, out + HOP, &facts);
        for (size_t i = 0; i < 2 * HOP; i++)
            level = fmax(level, fabs((double)out[i]));
        for (size_t i = 1; i < 2 * HOP; i++)
            largest = fmax(largest, fabs((double)out[i] - (double)out[i - 1]));
        /* 0.1 rad a sample, and the whole of the change over 40 samples */
        cr_expect_lt(largest, 0.13 * level, "change %d: %g of %g", what, largest, level);
        /* behind the fade it is what it would have been from the start */
        r.window.restarted = true;
        sonar_beam_run(r.beam, &job, LENGTH, plain, &facts);
        for (size_t i = 41; i < HOP; i++)
            cr_assert_eq(plain[i], out[HOP + i], "change %d, sample %zu", what, i);
        cr_expect_neq(plain[1], out[HOP + 1], "change %d does fade", what);
        close_rig(&r);
    }
}

/* Behind a window that is not there, nothing fades from what was before. */
Test(beam, does_not_bridge_a_lost_window) {
    enum { HOP = 512, LENGTH = 600 };
    rig r;
    open_rig(&r, 4, LINE, 20, 0.7);
    make_beam(&r, 1, HOP, LENGTH, 0);
    sonar_beam_look look = {.deg = 90};
    const sonar_beam_job job = job_of(&r, &look);
    float out[HOP], plain[HOP];
    sonar_beam_facts facts;
    fill(&r, 5000);
    sonar_beam_run(r.beam, &job, LENGTH, out, &facts);
    look.deg = 20;
    fill(&r, 5000 + 2 * HOP);
    sonar_beam_run(r.beam, &job, LENGTH, out, &facts);
    r.window.restarted = true;
    sonar_beam_run(r.beam, &job, LENGTH, plain, &facts);
    cr_expect_eq(memcmp(out, plain, sizeof out), 0);
    close_rig(&r);
}

/* Independent noise falls by the gain that is stated. */
Test(beam, gain_against_noise) {
    rig r;
    open_rig(&r, 8, LINE, 40, 0.5);
    make_beam(&r, 1, 4096, 4200, 0);
    for (size_t k = 0; k < r.sensors; k++)
        for (size_t i = 0; i < r.capacity; i++)
            ((float *)r.ring)[r.channel[k] * r.capacity + i] =
                (float)(sonar_random_normal(&r.random) / (double)r.scale[k]);
    const sonar_beam_look look = {.deg = 77};
    const sonar_beam_job job = job_of(&r, &look);
    float *out = calloc(4096, sizeof *out);
    sonar_beam_facts facts;
    double square = 0;
    r.window.ring_column = r.column;
    sonar_beam_run(r.beam, &job, 4200, out, &facts);
    for (size_t i = 0; i < 4096; i++)
        square += (double)out[i] * (double)out[i] / 4096;
    /* the filter cuts off the last tenth of the band, 0.5 dB */
    cr_expect_float_eq(10 * log10(square), -sonar_beam_gain_db(&r.params), 0.6, "%g and %g",
                       10 * log10(square), -sonar_beam_gain_db(&r.params));
    free(out);
    close_rig(&r);
}
