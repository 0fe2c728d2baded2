/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The recorder with all its threads at once, for ThreadSanitizer: samples or messages are added as
 * fast as possible, while a control thread starts and stops it, changes its description and reads
 * its state. All data must be either recorded or counted as lost. */
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/core.h"
#include "core/count.h"
#include "record/record.h"

enum { CHANNELS = 5, CAPACITY = 512, STRETCH = 48, STRETCHES = 6000, FS = 2000 };
enum { MESSAGES = 3000, MESSAGE = 200000 };

static char folder[] = "/tmp/sonard-record-XXXXXX";
static sonar_recorder *recorder;
static atomic_bool over;
static float ring[CHANNELS][CAPACITY];
static uint64_t given; /* samples or messages while it wanted them */

static void fail(const char *what) {
    fprintf(stderr, "plain_record_threads: %s\n", what);
    exit(1);
}

static sonar_recorder_spec spec_of(sonar_record_kind kind) {
    return (sonar_recorder_spec){.kind = kind,
                                 .directory = folder,
                                 .name = "line",
                                 .channels = CHANNELS,
                                 .fs_hz = FS,
                                 .type = SONAR_F32,
                                 .buffer_bytes = 1 << 20,
                                 .segment_bytes = 1 << 18,
                                 .segment_s = 3600,
                                 .keep_bytes = 1 << 22,
                                 .topics = SONAR_WANT(SONAR_CBF_AZIMUTH),
                                 .about = "",
                                 .geometry = ""};
}

static void *fill_samples(void *arg) {
    const sonar_stretch_sink *sink = sonar_recorder_sink(recorder);
    for (uint64_t i = 0; i < STRETCHES; i++) {
        const sonar_lack lack = {1, 2, 3, 7};
        const sonar_stretch stretch = {
            .timeline = 1 + i / 1000,
            .epoch = 1,
            .first_sample = i * STRETCH,
            .samples = STRETCH,
            .ring = sonar_buffer_view(ring, SONAR_F32, 2, (const size_t[]){CHANNELS, CAPACITY}),
            .column = i * STRETCH % CAPACITY,
            .lacks = i % 7 == 0,
            .lack = &lack};
        if (sink->wants(sink->ctx)) {
            sink->take(sink->ctx, &stretch);
            given += STRETCH;
        }
        for (size_t k = 0; k < CHANNELS; k++) /* while the ring changes below it */
            ring[k][i % CAPACITY] = (float)i;
        if (i % 8 == 0) {
            sink->flush(sink->ctx);
            usleep(arg ? 2000 : 500);
        }
    }
    sink->flush(sink->ctx);
    return NULL;
}

static void *fill_messages(void *arg) {
    static float data[MESSAGE / sizeof(float)];
    for (uint64_t i = 0; i < MESSAGES; i++) {
        const size_t bytes = i % 5 ? 200 : MESSAGE;
        if (sonar_recorder_wanted(recorder)) {
            sonar_recorder_message(recorder, SONAR_CBF_AZIMUTH, "{\"window\": 1}", data, bytes);
            given++;
        }
        sonar_recorder_tick(recorder);
        usleep(arg ? 1000 : 300);
    }
    return NULL;
}

static void *control(void *arg) {
    sonar_error err;
    for (int i = 0; !atomic_load(&over); i++) {
        sonar_recording now;
        sonar_recorder_read(recorder, &now);
        if (now.failed)
            fail(now.why);
        if (arg && i % 40 == 39)
            sonar_recorder_ask(recorder, i / 40 % 2);
        if (i % 25 == 24 && sonar_recorder_describe(recorder, ", \"a\": 1", "", &err))
            fail(err.text);
        usleep(10000);
    }
    return NULL;
}

/* Bytes of all files with this ending, which are deleted with all others. */
static uint64_t clear_folder(const char *ending) {
    uint64_t bytes = 0;
    char path[600];
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct stat file;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (stat(path, &file) || !S_ISREG(file.st_mode))
            continue;
        if (strstr(entry->d_name, ending))
            bytes += (uint64_t)file.st_size;
        unlink(path);
    }
    closedir(dir);
    return bytes;
}

/* All data are written or counted; a recorder that is stopped at times may count data of that
 * moment as lost. */
static void round_of(sonar_record_kind kind, bool slowly, bool stops) {
    const bool raw = kind == SONAR_RECORD_RAW;
    sonar_recorder_spec spec = spec_of(kind);
    sonar_error err = {0};
    sonar_recording end;
    pthread_t filler, controller;
    spec.keep_bytes = 0;
    given = 0;
    atomic_store(&over, false);
    if (sonar_recorder_create(&spec, sonar_host_serial(), &recorder, &err))
        fail(err.text);
    sonar_recorder_ask(recorder, true);
    if (sonar_recorder_start(recorder, &err))
        fail(err.text);
    sonar_recorder_read(recorder, &end);
    if (!end.counters.on)
        fail("samples that come at once are not recorded");
    pthread_create(&filler, NULL, raw ? fill_samples : fill_messages, slowly ? &over : NULL);
    pthread_create(&controller, NULL, control, stops ? &over : NULL);
    pthread_join(filler, NULL);
    atomic_store(&over, true);
    pthread_join(controller, NULL);
    if (!sonar_recorder_stop(recorder, 20000))
        fail("it does not stop");
    sonar_recorder_read(recorder, &end);
    const uint64_t lost =
        end.counters.dropped[SONAR_RECORD_SLOW] + end.counters.dropped[SONAR_RECORD_FAILED];
    const uint64_t bytes = clear_folder(raw ? ".sigmf-data" : ".sonar-spectra");
    if (bytes != end.counters.bytes)
        fail("files have other bytes than were counted");
    if (raw && bytes != (given - lost) * CHANNELS * sizeof(float))
        fail("samples are neither there nor counted");
    if (given == 0 || end.counters.segments < 2)
        fail("nothing happened");
    sonar_recorder_destroy(recorder);
}

int main(void) {
    if (!mkdtemp(folder))
        fail("no folder");
    round_of(SONAR_RECORD_RAW, true, false);
    round_of(SONAR_RECORD_RAW, false, true);
    round_of(SONAR_RECORD_SPECTRA, true, false);
    round_of(SONAR_RECORD_SPECTRA, false, true);
    rmdir(folder);
    return 0;
}
