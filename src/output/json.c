/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "output/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

enum { FIRST_ROOM = 4096 };

/* Room for `count` characters and a final zero; NULL: no memory. */
static char *extend(json_text *text, size_t count) {
    if (text->failed)
        return NULL;
    if (text->used + count >= text->room) {
        const size_t room = 2 * (text->used + count) + FIRST_ROOM;
        char *larger = realloc(text->text, room);
        text->failed = !larger;
        if (!larger)
            return NULL;
        text->text = larger;
        text->room = room;
    }
    char *to = text->text + text->used;
    text->used += count;
    return to;
}

static void write_chars(json_text *text, const char *from, size_t count) {
    char *to = extend(text, count);
    if (to)
        memcpy(to, from, count);
}

static void write_char(json_text *text, char c) {
    write_chars(text, &c, 1);
}

static void close_to(json_text *text, int depth) {
    while (text->depth > depth)
        write_char(text, text->end[--text->depth]);
}

static json open_scope(json_text *text, char begin, char end) {
    write_char(text, begin);
    text->failed |= text->depth == SONAR_JSON_DEPTH;
    if (!text->failed)
        text->end[text->depth++] = end;
    return (json){text, text->depth};
}

/* Begins an item, after a comma unless it is the first. `name`: NULL in arrays. */
static json_text *item(const json *to, const char *name) {
    json_text *text = to->text;
    close_to(text, to->depth);
    const char last = text->used ? text->text[text->used - 1] : 0;
    if (last != '{' && last != '[')
        write_char(text, ',');
    if (!name)
        return text;
    write_char(text, '"');
    write_chars(text, name, strlen(name));
    write_chars(text, "\":", 2);
    return text;
}

json json_object(json_text *text) {
    return open_scope(text, '{', '}');
}

json json_array(json_text *text) {
    return open_scope(text, '[', ']');
}

char *json_finish(json_text *text) {
    close_to(text, 0);
    write_char(text, 0);
    if (!text->failed)
        return text->text;
    free(text->text);
    return NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

static void write_uint(json_text *text, uint64_t value) {
    char digits[SONAR_NUMBER_CHARS];
    write_chars(text, digits, sonar_text_uint(value, digits));
}

static void write_number(json_text *text, double value) {
    char digits[SONAR_NUMBER_CHARS];
    if (isfinite(value))
        write_chars(text, digits, sonar_text_number(value, digits));
    else
        write_chars(text, "null", 4);
}

static void write_string(json_text *text, const char *value) {
    write_char(text, '"');
    for (; *value; value++) {
        char code[8];
        if ((unsigned char)*value < ' ') {
            write_chars(text, code, (size_t)snprintf(code, sizeof code, "\\u%04x", *value));
            continue;
        }
        if (*value == '"' || *value == '\\')
            write_char(text, '\\');
        write_char(text, *value);
    }
    write_char(text, '"');
}

/* ---- items ----------------------------------------------------------------------------------- */

void put_text(const json *to, const char *name, const char *value) {
    write_chars(item(to, name), value, strlen(value));
}

void put_null(const json *to, const char *name) {
    put_text(to, name, "null");
}

void put_bool(const json *to, const char *name, bool value) {
    put_text(to, name, value ? "true" : "false");
}

void put_number(const json *to, const char *name, double value) {
    write_number(item(to, name), value);
}

void put_uint(const json *to, const char *name, uint64_t value) {
    write_uint(item(to, name), value);
}

void put_int(const json *to, const char *name, int64_t value) {
    json_text *text = item(to, name);
    if (value < 0)
        write_char(text, '-');
    write_uint(text, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void put_string(const json *to, const char *name, const char *value) {
    if (value)
        write_string(item(to, name), value);
    else
        put_null(to, name);
}

json put_object(const json *to, const char *name) {
    return open_scope(item(to, name), '{', '}');
}

json put_array(const json *to, const char *name) {
    return open_scope(item(to, name), '[', ']');
}

void append_number(const json *to, double value) {
    put_number(to, NULL, value);
}

void append_string(const json *to, const char *value) {
    put_string(to, NULL, value);
}

json append_object(const json *to) {
    return put_object(to, NULL);
}

json append_array(const json *to) {
    return put_array(to, NULL);
}
