/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Values that change while the chain on the device runs. array.auto_mask: a sensor is masked and
 * returns as on the CPU, window by window, and graphs recorded with it are not run without it.
 * Values that are set: tables, corrections and weights are uploaded again. */
#include "control/change.h"
#include "engine/engine.h"
#include "gpu.h"
#include "spoilt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENSORS = SPOILT_SENSORS, TOPICS = 3, POWERS_MOST = 4 * SPOILT_LOOKS };
enum {
    DEAD_WINDOWS = SONAR_ELEMENTS_ROUND_S * SONAR_ELEMENTS_OUT_ROUNDS + 4,
    WINDOWS = DEAD_WINDOWS + SONAR_ELEMENTS_ROUND_S * SONAR_ELEMENTS_BACK_ROUNDS + 8
};
static const sonar_surface topic[TOPICS] = {SONAR_CBF_AZIMUTH, SONAR_CBF_NEARFIELD,
                                            SONAR_MVDR_AZIMUTH};
static const double worst_allowed_db[TOPICS] = {0.01, 0.01, 0.05};

static struct gpu device;
static char plugin_path[512];

typedef struct chain {
    feed feed;
    subscriber subscriber;
    float power[TOPICS][POWERS_MOST]; /* of the last window */
    size_t count[TOPICS];
    double sensors_used;
} chain;

static void start(chain *c, const char *backend, const char *mvdr) {
    const spoilt_options options = {"auto_mask: true", "ranges_m: [20, 50]", mvdr, backend};
    sonar_error err = {0};
    gpu_require(spoilt_open(&c->feed, &c->subscriber, &options,
                            gpu_plugin_dir(plugin_path, sizeof plugin_path), NULL, topic, &err),
                &err, "a pipeline");
}

static void end(chain *c) {
    unsubscribe(&c->subscriber);
    feed_close(&c->feed);
}

/* One window, its surfaces, and the control thread's look at it. */
static bool play(chain *c, uint64_t window, bool dead) {
    spoilt_second(&c->feed, dead);
    for (int i = 0; i < TOPICS; i++) {
        message m;
        if (!receive_until(&c->subscriber, sonar_topic_name(topic[i]), "window", (double)window,
                           20000, &m))
            return false;
        c->count[i] = m.count < POWERS_MOST ? m.count : POWERS_MOST;
        memcpy(c->power[i], m.data, c->count[i] * sizeof *m.data);
        c->sensors_used = header_number(m.head, "sensors_used");
        message_free(&m);
    }
    return feed_settle(&c->feed) && sonar_pipeline_tick(c->feed.pipeline, NULL) == SONAR_OK;
}

static double worst_db(const chain *have, const chain *want, int i) {
    double worst = have->count[i] == want->count[i] ? 0 : 999;
    for (size_t k = 0; k < want->count[i]; k++) {
        double db = fabs(10 * log10((double)have->power[i][k] / (double)want->power[i][k]));
        worst = db <= worst ? worst : isfinite(db) ? db : 999;
    }
    return worst;
}

static void compare(const chain *gpu, const chain *cpu, uint64_t window, const char *mvdr) {
    gpu_expect(&device, gpu->sensors_used == cpu->sensors_used, "%s, window %d: %g sensors, not %g",
               mvdr, (int)window, gpu->sensors_used, cpu->sensors_used);
    for (int i = 0; i < TOPICS; i++) {
        double worst = worst_db(gpu, cpu, i);
        gpu_expect(&device, worst <= worst_allowed_db[i], "%s, %s, window %d: off by %g dB", mvdr,
                   sonar_topic_name(topic[i]), (int)window, worst);
    }
}

static void go_out_and_come_back(const char *mvdr) {
    static chain gpu, cpu;
    double least = SENSORS;
    start(&gpu, "cuda", mvdr);
    start(&cpu, "cpu", mvdr);
    for (uint64_t window = 0; window < WINDOWS; window++) {
        bool dead = window < DEAD_WINDOWS;
        if (!gpu_expect(&device, play(&gpu, window, dead) && play(&cpu, window, dead),
                        "%s: window %d did not come", mvdr, (int)window))
            break;
        compare(&gpu, &cpu, window, mvdr);
        least = fmin(least, gpu.sensors_used);
    }
    gpu_expect(&device, least == SENSORS - 1, "%s: the dead sensor never went out", mvdr);
    gpu_expect(&device, gpu.sensors_used == SENSORS, "%s: it never came back", mvdr);
    end(&gpu);
    end(&cpu);
}

static bool set(chain *c, const sonar_config_value *value) {
    static sonar_config_differences differences;
    sonar_error err = {0};
    sonar_code code = sonar_control_set(c->feed.pipeline, 1, value, NULL, NULL, &differences, &err);
    /* Two differ where a value takes the place of its alternative. */
    return gpu_expect(&device, !code && differences.live >= 1 && differences.live <= 2,
                      "%s: %zu differ: %s: %s", value->path, differences.live, err.where, err.text);
}

static const sonar_config_value VALUES[] = {
    {"sound_speed_mps", "1450"},     {"array.mask", "[3]"},
    {"array.gain_db", "-160"},       {"array.phase_deg", "[0,5,0,0,0,0,0,0,0,0,0,-5]"},
    {"array.delay_us", "7"},         {"cbf.shading", "hann"},
    {"cbf.ranges_m", "[30, 90]"},    {"array.mask", "[]"},
    {"sound_speed_mps", "1530.5"},   {"mvdr.loading.rule", "trace"},
    {"mvdr.loading.eps", "0.2"},     {"mvdr.correct_level", "true"},
    {"cbf.band_hz", "[700, 800]"},   {"mvdr.band_hz", "[620, 930]"},
    {"cbf.band_bins", "[600, 950]"},
};
/* With memory for a limit, and for modes instead. */
static const sonar_config_value LIMITS[] = {
    {"mvdr.white_noise_gain_db", "-1"},
    {"mvdr.white_noise_gain_db", "-20"},
    {"mvdr.white_noise_gain_db", NULL},
    {"mvdr.dmr", "2"},
    {"mvdr.dmr", "off"},
    {"mvdr.white_noise_gain_db", "-3"},
    {"mvdr.max_sweeps", "20"},
    {"sound_speed_mps", "1450"},
};

/* Each value takes effect with the next window, and persists; the last one until graphs have been
 * recorded with it. */
static void change_values(const char *mvdr, const sonar_config_value *value, size_t values) {
    static chain gpu, cpu;
    start(&gpu, "cuda", mvdr);
    start(&cpu, "cpu", mvdr);
    for (uint64_t window = 0; window < 2 * values + 2 * SONAR_GRAPHS_STEADY; window++) {
        const size_t i = sonar_min_size((size_t)(window - 2) / 2, values - 1);
        if (window >= 2 && window == 2 + 2 * i && (!set(&gpu, &value[i]) || !set(&cpu, &value[i])))
            break;
        if (!gpu_expect(&device, play(&gpu, window, false) && play(&cpu, window, false),
                        "%s: window %d did not come", mvdr, (int)window))
            break;
        compare(&gpu, &cpu, window, window < 2 ? "before" : value[i].path);
    }
    end(&gpu);
    end(&cpu);
}

int main(int argc, char **argv) {
    int code = gpu_open(&device, argc, argv);
    if (code >= 0)
        return code;
    go_out_and_come_back("snapshots: 4");
    change_values("snapshots: 4", VALUES, sizeof VALUES / sizeof *VALUES);
    change_values("snapshots: 4, white_noise_gain_db: -6", LIMITS, sizeof LIMITS / sizeof *LIMITS);
    if (!device.tiny)
        go_out_and_come_back("forgetting: 0.8");
    return gpu_close(&device, "gpu_mask");
}
