/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target for requests on the control socket: the input is a request to a daemon that
 * waits for samples. Every answer is a JSON object of clean UTF-8 that says whether the request was
 * accepted, and if not, why. */
#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "control/server.h"
#include "core/core.h"
#include "input_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static sonar_pipeline *pipeline;
static sonar_control *control;

static void no_log(void *ctx, sonar_level level, const char *where, const char *text) {
    (void)ctx, (void)level;
    if (strnlen(where, 1 << 16) + strnlen(text, 1 << 16) >= 1 << 16)
        abort();
}

static void set_up(void) {
    char text[1024], socket[2][64];
    for (int i = 0; i < 2; i++)
        snprintf(socket[i], sizeof *socket, "/tmp/sonar-fuzz-control-%d-%d", (int)getpid(), i);
    const int bytes = snprintf(text, sizeof text,
                               "schema: 1\nfs_hz: 2000\n"
                               "array: {geometry: {line: {sensors: 4, spacing_m: 0.75}}}\n"
                               "dft: {length: 64, hop: 64}\n"
                               "cbf: {band_hz: [300, 950], ranges_m: []}\nmvdr: {snapshots: 8}\n"
                               "ingest: {endpoints: [\"ipc://%s\"]}\n"
                               "output: {endpoint: \"ipc://%s\"}\n"
                               "runtime: {backend: cpu, threads: 1}\n",
                               socket[0], socket[1]);
    static char path[INPUT_PATH_BYTES];
    sonar_config *config = NULL;
    sonar_report *report = sonar_report_create();
    sonar_error err;
    input_file_write("c.yaml", text, (size_t)bytes, path);
    if (sonar_config_load(path, &config, report)) {
        sonar_report_write(report, stderr);
        abort();
    }
    sonar_report_destroy(report);
    if (sonar_pipeline_create(config, no_log, NULL, &pipeline, &err) ||
        sonar_pipeline_start(pipeline, &err)) {
        fprintf(stderr, "%s: %s\n", err.where, err.text);
        abort();
    }
    for (int i = 0; i < 2; i++)
        unlink(socket[i]);
    const sonar_control_spec spec = {.pipeline = pipeline, .config_path = path, .log = no_log};
    if (sonar_control_create(&spec, &control, &err))
        abort();
}

static bool is_text(const cJSON *object, const char *name) {
    return cJSON_IsString(cJSON_GetObjectItemCaseSensitive(object, name));
}

static void check(const char *answer) {
    const size_t bytes = strlen(answer);
    char *clean = malloc(bytes + 1);
    cJSON *reply = cJSON_Parse(answer);
    const cJSON *ok = cJSON_GetObjectItemCaseSensitive(reply, "ok"),
                *error = cJSON_GetObjectItemCaseSensitive(reply, "error");
    if (!clean || sonar_text_clean(answer, bytes, clean, bytes + 1) != bytes ||
        strcmp(clean, answer) != 0)
        abort();
    if (!cJSON_IsBool(ok) || cJSON_IsTrue(ok) == (error != NULL))
        abort();
    if (error && (!is_text(error, "where") || !is_text(error, "text")))
        abort();
    cJSON_Delete(reply);
    free(clean);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static unsigned inputs;
    sonar_error err;
    if (!control)
        set_up();
    char *answer = sonar_control_answer(control, (const char *)data, size);
    if (!answer)
        abort();
    check(answer);
    cJSON_free(answer);
    if (++inputs % 256 == 0 && sonar_pipeline_tick(pipeline, &err))
        abort();
    return 0;
}
