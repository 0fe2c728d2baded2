/* SPDX-License-Identifier: GPL-3.0-or-later */
/* JSON for the headers of messages, written as text while it is put together: a header is made for
 * each topic of each window, and a tree of nodes took half of the time of publication. Inside
 * src/output only. */
#ifndef SONAR_OUTPUT_JSON_H
#define SONAR_OUTPUT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SONAR_JSON_DEPTH = 8 }; /* objects and arrays within each other */

typedef struct json_text {
    char *text;
    size_t used, room;
    int depth;
    char end[SONAR_JSON_DEPTH]; /* '}' or ']' for each that is open */
    bool failed;                /* no memory; checked once at the end */
} json_text;

/* An object or an array. Its items are put one after the other: the next one ends the objects and
 * arrays that were begun inside it, to which nothing can be added then. */
typedef struct json {
    json_text *text;
    int depth;
} json;

/* The outermost object or array. `text` is zeros before; json_finish ends it. */
json json_object(json_text *text);
json json_array(json_text *text);
/* The text, to be released with free(); NULL: no memory. */
char *json_finish(json_text *text);

/* Into an object. Names are the program's own and need no escapes. */
void put_null(const json *to, const char *name);
/* Read back, it is the same value. JSON has no NaN and no infinity; they become null. */
void put_number(const json *to, const char *name, double value);
void put_uint(const json *to, const char *name, uint64_t value);
void put_int(const json *to, const char *name, int64_t value);
void put_bool(const json *to, const char *name, bool value);
void put_string(const json *to, const char *name, const char *value); /* NULL becomes null */
void put_text(const json *to, const char *name, const char *value);   /* JSON as it is */
json put_object(const json *to, const char *name);
json put_array(const json *to, const char *name);

/* Into an array. */
void append_number(const json *to, double value);
void append_string(const json *to, const char *value);
json append_object(const json *to);
json append_array(const json *to);

#endif
