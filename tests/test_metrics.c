/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The rows of status/metrics.c, of causes and of conditions: each counter has a row, and the
 * documents agree with the rows. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "status/metrics.h"
#include "text.h"

/* ---- rows and members ------------------------------------------------------------------------ */

enum { WORD = 8, WORDS = sizeof(sonar_status) / WORD };

static void count_rows(unsigned rows[WORDS]) {
    memset(rows, 0, WORDS * sizeof *rows);
    for (size_t i = 0; i < sonar_metrics_count; i++) {
        const sonar_metric *m = &sonar_metrics[i];
        for (size_t k = 0; m->kind < SONAR_SPREAD && k < sonar_metric_values(m); k++) {
            static const sonar_status status;
            const char *at = sonar_metric_value(m, &status, k);
            rows[(size_t)(at - (const char *)&status) / WORD]++;
        }
    }
}

static void expect_rows(const unsigned rows[WORDS], const char *what, size_t offset, size_t bytes) {
    for (size_t i = offset / WORD; i < (offset + bytes) / WORD; i++)
        if (i != offsetof(sonar_status, ingest.last_frame_ns) / WORD) /* a time, not a number */
            cr_expect_eq(rows[i], 1, "%s: the word %zu has %u rows in status/metrics.c", what,
                         i - offset / WORD, rows[i]);
}

Test(metrics, each_counter_has_one_row) {
    unsigned rows[WORDS];
    count_rows(rows);
#define EXPECT(member)                                                                             \
    expect_rows(rows, #member, offsetof(sonar_status, member), sizeof((sonar_status *)0)->member)
    EXPECT(ingest);
    EXPECT(output);
    EXPECT(record.counters);
    EXPECT(windows_processed);
    EXPECT(windows_failed);
    EXPECT(stream);
    EXPECT(uptime_s);
    EXPECT(load);
    EXPECT(stage_us);
    EXPECT(resident_bytes);
    EXPECT(locked_bytes);
    EXPECT(data_priority);
}

/* With several ranks: windows are those of the array, all other counters are sums. */
Test(metrics, counters_of_ranks_add_up) {
    enum { COUNT = sizeof(sonar_ingest_counters) / WORD };
    const size_t windows = offsetof(sonar_ingest_counters, windows_offered) / WORD;
    const size_t last_frame = offsetof(sonar_ingest_counters, last_frame_ns) / WORD;
    uint64_t rank[3][COUNT], sum[COUNT] = {0};
    for (size_t r = 0; r < 3; r++) {
        for (size_t i = 0; i < COUNT; i++)
            rank[r][i] = 1000 + i * 7 + (r == 1 ? 500 : r); /* the middle one has the most */
        sonar_ingest_counters_add((sonar_ingest_counters *)sum,
                                  (const sonar_ingest_counters *)rank[r]);
    }
    for (size_t i = 0; i < COUNT; i++) {
        const uint64_t all = rank[0][i] + rank[1][i] + rank[2][i];
        const bool most = i >= windows && i < last_frame;
        cr_expect_eq(sum[i], i == last_frame ? 0 : most ? rank[1][i] : all, "word %zu", i);
    }
}

/* Objects are created with their first number, so the numbers of an object have to be adjacent. */
Test(metrics, rows_are_whole_and_in_order) {
    for (size_t i = 0; i < sonar_metrics_count; i++) {
        const sonar_metric *m = &sonar_metrics[i];
        cr_expect(m->path[0] && m->unit[0] && m->help[0], "row %zu", i);
        for (size_t k = 0; k < i; k++)
            cr_expect_str_neq(m->path, sonar_metrics[k].path);
        size_t lead = strcspn(m->path, ".") + 1;
        for (size_t k = 0; i && k + 1 < i; k++)
            cr_expect(strncmp(m->path, sonar_metrics[k].path, lead) != 0 ||
                          strncmp(m->path, sonar_metrics[i - 1].path, lead) == 0,
                      "%s stands apart", m->path);
    }
}

/* ---- documents ------------------------------------------------------------------------------- */

/* Expects this text in the document after `from`; returns the position behind it, or `from` if it
 * is missing. */
static const char *expect_next(const char *from, const char *document, const char *text) {
    const char *found = strstr(from, text);
    cr_expect(found, "docs/%s lacks, or has in another place:%s", document, text);
    return found ? found + strlen(text) : from;
}

Test(metrics, protocol_md_has_each_row) {
    static const char *const kind[] = {"counter", "level", "measured", "spread", "times"};
    char *document = text_read(SONAR_SOURCE_DIR "/docs/protocol.md", NULL), row[300];
    cr_assert_not_null(document);
    const char *at = document;
    for (size_t i = 0; i < sonar_metrics_count; i++) {
        const sonar_metric *m = &sonar_metrics[i];
        snprintf(row, sizeof row, "\n| `%s`%s%s | %s | %s | %s |", m->path, m->by ? " by " : "",
                 m->by ? m->by->what : "", kind[m->kind], m->unit, m->help);
        at = expect_next(at, "protocol.md", row);
    }
    free(document);
}

#define CAUSE(constant, name, help) "\n| `" name "` | " help,

Test(metrics, protocol_md_has_each_part_of_the_latency_in_order) {
    static const char *const row[] = {SONAR_LATENCY_PART_ROWS(CAUSE)};
    char *document = text_read(SONAR_SOURCE_DIR "/docs/protocol.md", NULL);
    cr_assert_not_null(document);
    const char *at = document;
    for (int i = 0; i < SONAR_LATENCY_PARTS; i++)
        at = expect_next(at, "protocol.md", row[i]);
    free(document);
}

Test(metrics, protocol_md_has_each_cause) {
    static const char *const frame[] = {SONAR_FRAME_CAUSE_ROWS(CAUSE)};
    static const char *const handshake[] = {SONAR_HANDSHAKE_CAUSE_ROWS(CAUSE)};
    static const char *const window[] = {SONAR_WINDOW_CAUSE_ROWS(CAUSE)};
    static const char *const record[] = {SONAR_RECORD_CAUSE_ROWS(CAUSE)};
    char *document = text_read(SONAR_SOURCE_DIR "/docs/protocol.md", NULL);
    cr_assert_not_null(document);
    for (int i = 0; i < SONAR_FRAME_CAUSES; i++)
        expect_next(document, "protocol.md", frame[i]);
    for (int i = 0; i < SONAR_WINDOW_CAUSES; i++)
        expect_next(document, "protocol.md", window[i]);
    for (int i = 0; i < SONAR_HANDSHAKE_CAUSES; i++)
        expect_next(document, "protocol.md", handshake[i]);
    for (int i = 0; i < SONAR_RECORD_CAUSES; i++)
        expect_next(document, "protocol.md", record[i]);
    free(document);
}

#define CODE(constant, name, unit) "\n| `" name "` | ",
#define UNIT(constant, name, unit) " | " unit,

Test(metrics, running_md_has_each_condition_in_order) {
    static const char *const code[] = {SONAR_CONDITION_ROWS(CODE)};
    static const char *const unit[] = {SONAR_CONDITION_ROWS(UNIT)};
    char *document = text_read(SONAR_SOURCE_DIR "/docs/running.md", NULL), end[64];
    cr_assert_not_null(document);
    const char *at = document;
    for (int i = 0; i < SONAR_CONDITIONS; i++) {
        at = expect_next(at, "running.md", code[i]);
        const char *line_end = strchr(at, '\n');
        snprintf(end, sizeof end, "%s%s|\n", unit[i], unit[i][3] ? " " : "");
        cr_expect(line_end && !strncmp(line_end + 1 - strlen(end), end, strlen(end)),
                  "docs/running.md: %s ends otherwise than%s", code[i], end);
    }
    free(document);
}
