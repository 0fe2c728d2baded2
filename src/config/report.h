/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Problems with their places, in a configuration or another file that is read in the same way. */
#ifndef SONAR_CONFIG_REPORT_H
#define SONAR_CONFIG_REPORT_H

#include "config/config.h"

/* A file as read; the bytes are borrowed while problems are added. */
typedef struct sonar_text {
    const char *name;
    const char *bytes;
    size_t size;
    bool csv; /* reported after the configuration file itself */
} sonar_text;

typedef struct sonar_place {
    size_t line, column; /* from 1, columns in characters; line 0: the file as a whole */
} sonar_place;

typedef enum sonar_severity { SONAR_NOTE = 0, SONAR_WARNING, SONAR_MISTAKE } sonar_severity;

/* Adds a problem. `accepted` (a value that would be accepted) may be NULL or empty. Keeps a copy of
 * the line. If memory is short or the report is full, the problem is still counted. */
void sonar_report_add(sonar_report *report, sonar_severity severity, const sonar_text *text,
                      sonar_place place, const char *accepted, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* The message that was added first, and its place; NULL: no message. Valid as long as the
 * report. */
const char *sonar_report_first(const sonar_report *report, sonar_place *place);

/* The content of a file, zero-terminated, at most `most` bytes, to be freed, without a UTF-8 byte
 * order mark. UTF-16 is refused with a message that names it. Errors go into the report, at `place`
 * of `from` if given: SONAR_ENOMEM, or SONAR_EUNAVAILABLE for any other reason; *text is NULL
 * then. */
sonar_code sonar_file_read(const char *path, size_t most, char **text, size_t *bytes,
                           sonar_report *report, const sonar_text *from, sonar_place place);

/* Bytes of the UTF-8 byte order mark that a text begins with, 0 or 3. */
size_t sonar_mark_bytes(const char *text, size_t bytes);

#endif
