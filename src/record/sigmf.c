/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Metadata of SigMF 1.2 with the extensions `spatial` 1.1.0 and sonard's `sonar`
 * (docs/recording.md). */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "record/segment.h"

static void write_datetime(int64_t utc_ns, FILE *to) {
    const int64_t second_ns = 1000000000;
    const time_t seconds = (time_t)(utc_ns / second_ns - (utc_ns % second_ns < 0));
    struct tm tm;
    char text[40];
    if (!utc_ns || !gmtime_r(&seconds, &tm))
        return;
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    fprintf(to, ", \"core:datetime\": \"%s.%09" PRId64 "Z\"", text,
            utc_ns - (int64_t)seconds * second_ns);
}

static void write_capture(const sonar_capture *c, const char *geometry, FILE *to) {
    fprintf(to, "{\"core:sample_start\": %" PRIu64 ", \"core:global_index\": %" PRIu64, c->start,
            c->first_sample);
    write_datetime(c->utc_ns, to);
    fprintf(to, ", \"sonar:epoch\": %" PRIu32 ", \"sonar:timeline\": %" PRIu64, c->epoch,
            c->timeline);
    if (c->flags)
        fprintf(to, ", \"sonar:flags\": %" PRIu32, c->flags);
    fprintf(to, "%s}", geometry);
}

static void write_mark(const sonar_mark *m, FILE *to) {
    fprintf(to,
            "{\"core:sample_start\": %" PRIu64 ", \"core:sample_count\": %" PRIu64
            ", \"core:label\": \"missing\", \"sonar:channels\": [%" PRIu32 ", %" PRIu32 "]}",
            m->begin, m->end - m->begin, m->first_channel, m->channels);
}

void sonar_sigmf_write(const sonar_segment *s, const char *about, const char *geometry, FILE *to) {
    fprintf(to,
            "{\"global\": {\"core:datatype\": \"%s\", \"core:sample_rate\": %.17g,\n"
            " \"core:version\": \"1.2.0\", \"core:num_channels\": %zu,\n"
            " \"core:recorder\": \"sonard %s\",\n"
            " \"core:extensions\": [{\"name\": \"spatial\", \"version\": \"1.1.0\", \"optional\": "
            "true},\n  {\"name\": \"sonar\", \"version\": \"1.0.0\", \"optional\": true}],\n"
            " \"spatial:num_elements\": %zu, \"spatial:channel_index\": 0%s},\n\"captures\": [",
            s->width == 2 ? "ri16_le" : "rf32_le", s->fs_hz, s->channels, SONAR_VERSION,
            s->channels, about);
    for (size_t i = 0; i < s->captures; i++) {
        fputs(i ? ",\n " : "\n ", to);
        write_capture(&s->capture[i], i ? "" : geometry, to);
    }
    fputs("],\n\"annotations\": [", to);
    for (size_t i = 0; i < s->marks; i++) {
        fputs(i ? ",\n " : "\n ", to);
        write_mark(&s->mark[i], to);
    }
    fputs("]}\n", to);
}
