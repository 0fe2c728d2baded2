/* SPDX-License-Identifier: GPL-3.0-or-later */
/* array.auto_mask with the chain on the device: a sensor goes out and comes back as on the CPU,
 * window by window, and the graphs recorded with it are not run without. */
#include "feed.h"
#include "gpu.h"
#include "process.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SENSORS = 12, FS = 2048, FRAME = 256, BAD = 5, TOPICS = 3, POWERS_MOST = 4 * 181 };
enum {
    DEAD_WINDOWS = SONAR_ELEMENTS_OUT_ROUNDS + 4,
    WINDOWS = DEAD_WINDOWS + SONAR_ELEMENTS_BACK_ROUNDS + 8
};
static const char *const topic[TOPICS] = {"cbf.azimuth", "cbf.nearfield", "mvdr.azimuth"};
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
    char text[2048];
    sonar_error err = {0};
    snprintf(text, sizeof text,
             "schema: 1\n"
             "array: {id: 1, geometry: {line: {sensors: %d, spacing_m: 0.75}}, auto_mask: true}\n"
             "fs_hz: %d\n"
             "ingest: {overload: block}\n"
             "dft: {length: %d, hop: %d}\n"
             "cbf: {band_hz: [600, 950], ranges_m: [20, 50], scan: {start_deg: 0, stop_deg: 180, "
             "step_deg: 1}}\n"
             "mvdr: {%s, scan: {start_deg: 0, stop_deg: 180, step_deg: 1}}\n"
             "output: {high_water_mark: 1000}\n"
             "runtime: {threads: 1, backend: %s}\n",
             SENSORS, FS, FS, FS, mvdr, backend);
    gpu_require(feed_start(&c->feed, text, NULL, gpu_plugin_dir(plugin_path, sizeof plugin_path), 0,
                           NULL, &err),
                &err, "a pipeline");
    c->subscriber = subscribe(c->feed.out, topic[0], topic[1], topic[2], NULL);
    uint32_t all = SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_NEARFIELD) |
                   SONAR_WANT(SONAR_MVDR_AZIMUTH);
    while ((sonar_output_wanted(c->feed.pipeline->output) & all) != all)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    c->feed.digitiser = digitiser_open(c->feed.in, SENSORS, 0, SENSORS, FRAME);
    c->feed.digitiser.frame.fs_hz = FS;
}

static void end(chain *c) {
    unsubscribe(&c->subscriber);
    feed_close(&c->feed);
}

static void send_second(chain *c, bool dead) {
    float samples[FRAME * SENSORS];
    uint8_t header[SONAR_FRAME_HEADER_BYTES];
    digitiser *d = &c->feed.digitiser;
    d->level = 30, d->noise = 10, d->az_deg = 70;
    d->low_hz = 600.5, d->high_hz = 950.5;
    for (int frame = 0; frame < FS / FRAME; frame++) {
        digitiser_fill(d, samples);
        for (size_t t = 0; t < FRAME && dead; t++)
            samples[t * SENSORS + BAD] = 0;
        sonar_frame_encode(&d->frame, header);
        digitiser_raw(d, 2, (const void *[]){header, samples},
                      (size_t[]){sizeof header, sizeof samples});
        digitiser_skip(d, 1);
    }
}

/* One window, its surfaces, and the control thread's look at it. */
static bool play(chain *c, uint64_t window, bool dead) {
    send_second(c, dead);
    for (int i = 0; i < TOPICS; i++) {
        message m;
        if (!receive_until(&c->subscriber, topic[i], "window", (double)window, 20000, &m))
            return false;
        c->count[i] = m.count < POWERS_MOST ? m.count : POWERS_MOST;
        memcpy(c->power[i], m.data, c->count[i] * sizeof *m.data);
        c->sensors_used = header_number(m.head, "sensors_used");
        message_free(&m);
    }
    return sonar_pipeline_tick(c->feed.pipeline, NULL) == SONAR_OK;
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
                   topic[i], (int)window, worst);
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

int main(int argc, char **argv) {
    int code = gpu_open(&device, argc, argv);
    if (code >= 0)
        return code;
    go_out_and_come_back("snapshots: 4");
    if (!device.tiny)
        go_out_and_come_back("forgetting: 0.8");
    return gpu_close(&device, "gpu_mask");
}
