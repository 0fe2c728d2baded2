/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target for the tools' readers of messages. The input is a sequence of messages, each a
 * header, a zero byte or the end, and for sonar-watch the rest as its array. sonar-watch reads the
 * first message; sonar-check reads all, alternately as truth and as detections. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "checker.h"
#include "message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Text for a terminal: no controls, no DEL, and it ends. */
static void check_text(const char *text, size_t room) {
    size_t length = strnlen(text, room);
    if (length == room)
        abort();
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            abort();
}

static void watch(const char *header, size_t bytes, const void *body, size_t body_bytes) {
    static watch_message m;
    static float db[WATCH_POINTS_MOST], scratch[WATCH_POINTS_MOST];
    char when[32];
    size_t peak[4];
    double bearing_deg[2];
    watch_message_read(header, bytes, body, body_bytes, &m);
    check_text(m.topic, sizeof m.topic);
    check_text(m.array, sizeof m.array);
    check_text(m.run, sizeof m.run);
    check_text(m.unit, sizeof m.unit);
    check_text(m.flags, sizeof m.flags);
    check_text(m.axis, sizeof m.axis);
    check_text(m.status.text, sizeof m.status.text);
    check_text(m.status.losses, sizeof m.status.losses);
    if (m.points > WATCH_POINTS_MOST || m.points * sizeof(float) > body_bytes ||
        m.detections > WATCH_DETECTIONS_MOST)
        abort();
    watch_time(m.utc_ns, when, sizeof when);
    watch_over_median(m.points, m.power, db, scratch);
    size_t peaks = watch_peaks(m.points, db, 3, 4, peak);
    for (size_t i = 0; i < peaks; i++)
        if (peak[i] >= m.points)
            abort();
    for (size_t i = 0; i < m.points && i < 8; i++)
        watch_true_bearings(&m, m.x[i], bearing_deg);
}

static const sonar_config *array(void) {
    static const char text[] = "schema: 1\nfs_hz: 8000\n"
                               "array: {geometry: {line: {sensors: 24, spacing_m: 0.75}}}\n"
                               "cbf: {band_hz: [600, 950], ranges_m: []}\n";
    static sonar_config *config;
    sonar_report *report = config ? NULL : sonar_report_create();
    if (!config && sonar_config_parse("fuzz", text, sizeof text - 1, &config, report))
        abort();
    sonar_report_destroy(report);
    return config;
}

/* A checker is large: only for inputs that hold the two truths around a detection, and it. */
static bool is_worth_comparing(const char *text, size_t bytes) {
    size_t ends = 0;
    for (size_t i = 0; i < bytes && ends < 2; i++)
        ends += !text[i];
    return ends == 2;
}

static void compare(const char *text, size_t bytes, FILE *to) {
    checker *check = checker_create(array(), 0);
    if (!check)
        abort();
    for (size_t at = 0, turn = 0; at < bytes; turn++) {
        size_t length = strnlen(text + at, bytes - at);
        cJSON *header = cJSON_ParseWithLength(text + at, length);
        if (header && turn % 3 < 2) /* two truths are needed around a detection */
            checker_take_truth(check, header);
        else if (header)
            checker_take_detections(check, header);
        cJSON_Delete(header);
        at += length + 1;
    }
    checker_print(check, to);
    checker_destroy(check);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static FILE *to;
    const char *text = (const char *)data;
    size_t header = size ? strnlen(text, size) : 0;
    size_t body = header < size ? header + 1 : size;
    if (!to && !(to = fopen("/dev/null", "w")))
        abort();
    watch(text, header, data + body, size - body);
    if (is_worth_comparing(text, size))
        compare(text, size, to);
    return 0;
}
