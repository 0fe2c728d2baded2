/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "contacts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debrief.h"

struct watch_contacts {
    const char *rep_path;
    FILE *rep;      /* NULL: not wanted */
    watch_ttm *ttm; /* NULL: not wanted */
};

static sonar_code cannot_write(const watch_contacts *c, sonar_error *err) {
    return sonar_fail(err, SONAR_ESYS, c->rep_path, "cannot write: %s", strerror(errno));
}

/* A full disk can have cut off the last line; a pipe has no end to look at. */
static void end_line(FILE *file) {
    if (fseek(file, -1, SEEK_END))
        return;
    const int last = fgetc(file);
    fseek(file, 0, SEEK_END); /* between reading and writing */
    if (last != '\n')
        fputc('\n', file);
}

static sonar_code open_rep(watch_contacts *c, sonar_error *err) {
    if (!c->rep_path)
        return SONAR_OK;
    c->rep = fopen(c->rep_path, "a+e");
    if (!c->rep)
        return sonar_fail(err, SONAR_EINVAL, c->rep_path, "cannot append to it: %s",
                          strerror(errno));
    end_line(c->rep);
    return SONAR_OK;
}

sonar_code watch_contacts_open(const watch_contacts_spec *spec, watch_contacts **made,
                               sonar_error *err) {
    watch_contacts *c = *made = sonar_alloc(1, sizeof *c);
    if (!c)
        return sonar_fail(err, SONAR_ENOMEM, "tracks", "out of memory");
    c->rep_path = spec->rep;
    const sonar_code code = spec->ttm.address ? watch_ttm_open(&spec->ttm, &c->ttm, err) : SONAR_OK;
    return code ? code : open_rep(c, err);
}

static sonar_code take_tracks(watch_contacts *c, const cJSON *header, int64_t middle_utc_ns,
                              sonar_error *err) {
    const cJSON *track;
    if (c->ttm)
        watch_ttm_tracks(c->ttm, header, middle_utc_ns);
    if (!c->rep)
        return SONAR_OK;
    cJSON_ArrayForEach(track, cJSON_GetObjectItemCaseSensitive(header, "tracks"))
        debrief_put(c->rep, header, middle_utc_ns, track);
    return fflush(c->rep) || ferror(c->rep) ? cannot_write(c, err) : SONAR_OK;
}

sonar_code watch_contacts_take(watch_contacts *c, const char *topic, const char *header,
                               size_t bytes, sonar_error *err) {
    char *text = strndup(header, bytes);
    cJSON *json = text ? cJSON_Parse(text) : NULL;
    sonar_code code = SONAR_OK;
    if (!text)
        code = sonar_fail(err, SONAR_ENOMEM, "tracks", "out of memory");
    if (json && !strcmp(topic, "tracks"))
        code = take_tracks(c, json, debrief_whole(text, "\"utc_middle_ns\":"), err);
    if (json && c->ttm && !strcmp(topic, "detections")) {
        watch_ttm_detections(c->ttm, json);
        json = NULL;
    }
    cJSON_Delete(json);
    free(text);
    return code;
}

sonar_code watch_contacts_close(watch_contacts *c, sonar_error *err) {
    sonar_code code = SONAR_OK;
    if (!c)
        return SONAR_OK;
    if (c->rep && fclose(c->rep))
        code = cannot_write(c, err);
    watch_ttm_close(c->ttm);
    free(c);
    return code;
}
