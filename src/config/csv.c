/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Positions from a CSV file: x,y,z per line, an optional header line without
 * any number, comments after #. */
#include "config/options.h"

#include "core/core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CSV_BYTES_MOST = 64 << 20 };

typedef struct csv {
    sonar_loader *loader;
    sonar_text text;
    double *rows;
    size_t count, room, line;
    bool begun;            /* the first line that is not empty was read */
    size_t header;         /* its line, 0: no header */
    char header_text[128]; /* as much of it as is shown */
} csv;

static void mistake(const csv *c, size_t column, const char *message) {
    sonar_report_add(c->loader->report, SONAR_MISTAKE, &c->text, (sonar_place){c->line, column},
                     "three numbers in m, -1e+06 to 1e+06, with commas between", "%s", message);
}

static const char *skip_blanks(const char *s) {
    return s + strspn(s, " \t\r");
}

/* Reads one line, zero-terminated and without its comment. Returns the column of the mistake, or
 * 0. */
static size_t parse_line(const char *line, double xyz[3]) {
    const char *at = line;
    for (int i = 0; i < 3; i++) {
        at = skip_blanks(at);
        char *end;
        const size_t n = strspn(at, "+-.0123456789eE");
        xyz[i] = strtod(at, &end) + 0.0;
        if (!n || end != at + n || !(fabs(xyz[i]) <= 1e6))
            return (size_t)(at - line) + 1;
        at = skip_blanks(end);
        if (i < 2 && *at++ != ',')
            return (size_t)(at - line);
    }
    return *at ? (size_t)(at - line) + 1 : 0;
}

static bool make_room(csv *c) {
    if (c->count < c->room)
        return true;
    c->room = c->room ? 2 * c->room : 1024;
    double *grown = realloc(c->rows, c->room * 3 * sizeof *grown);
    if (!grown) {
        c->loader->no_memory = true;
        return false;
    }
    c->rows = grown;
    return true;
}

/* True if the line has a word that strtod accepts, nan and inf included. */
static bool has_number_word(const char *line) {
    for (; *line; line += strcspn(line, ","), line += *line == ',') {
        char *end;
        strtod(line, &end);
        if (end != line)
            return true;
    }
    return false;
}

/* A header is a first line without digits. A line with a digit or a nan is a malformed position: if
 * it were taken for a header, every channel would be shifted by one sensor. */
static bool is_header(const csv *c, const char *line) {
    return !c->begun && !strpbrk(line, "0123456789") && !has_number_word(line) &&
           strpbrk(line, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
}

static bool take_line(csv *c, char *line) {
    line[strcspn(line, "#")] = 0;
    if (!*skip_blanks(line))
        return true;
    double xyz[3];
    const bool header = is_header(c, line);
    c->begun = true;
    if (header) {
        c->header = c->line;
        snprintf(c->header_text, sizeof c->header_text, "%.*s", (int)strcspn(line, "\r"), line);
        return true;
    }
    const size_t wrong = parse_line(line, xyz);
    if (wrong) {
        mistake(c, wrong, "not a position");
        return true;
    }
    if (c->count == SONAR_SENSORS_MOST) {
        mistake(c, 1, "more than 4194304 positions");
        return false;
    }
    if (!make_room(c))
        return false;
    memcpy(c->rows + 3 * c->count++, xyz, sizeof xyz);
    return true;
}

/* Lines are cut in a copy, so that reports can still quote the original. */
static void take_lines(csv *c, char *copy) {
    char *at = copy, *end = copy + c->text.size;
    while (at < end) {
        char *newline = memchr(at, '\n', (size_t)(end - at));
        char *stop = newline ? newline : end;
        *stop = 0;
        c->line++;
        if (memchr(at, 0, (size_t)(stop - at))) {
            mistake(c, strlen(at) + 1, "a NUL character");
        } else if (!take_line(c, at)) {
            return;
        }
        at = stop + 1;
    }
}

static void note_rows(const csv *c) {
    if (c->header)
        sonar_report_add(c->loader->report, SONAR_NOTE, &c->text, (sonar_place){c->header, 1}, NULL,
                         "%zu positions read, header skipped: %s", c->count, c->header_text);
    else
        sonar_report_add(c->loader->report, SONAR_NOTE, &c->text, (sonar_place){0, 0}, NULL,
                         "%zu positions read, no header", c->count);
}

double *sonar_csv_read(sonar_loader *loader, const char *path, size_t *rows) {
    csv c = {.loader = loader, .text = {.name = path, .csv = true}};
    const size_t before = sonar_report_errors(loader->report);
    char *bytes;
    const sonar_code code =
        sonar_file_read(path, CSV_BYTES_MOST, &bytes, &c.text.size, loader->report, loader->text,
                        sonar_place_of(loader, OPT_POSITIONS_CSV));
    if (code) {
        loader->no_memory |= code == SONAR_ENOMEM;
        return NULL;
    }
    c.text.bytes = bytes;
    char *copy = malloc(c.text.size + 1);
    if (copy) {
        memcpy(copy, bytes, c.text.size + 1);
        take_lines(&c, copy);
    } else {
        loader->no_memory = true;
    }
    if (!c.count && sonar_report_errors(loader->report) == before && !loader->no_memory)
        sonar_report_add(loader->report, SONAR_MISTAKE, loader->text,
                         sonar_place_of(loader, OPT_POSITIONS_CSV), NULL, "%s holds no positions",
                         path);
    if (sonar_report_errors(loader->report) == before && !loader->no_memory)
        note_rows(&c);
    free(copy);
    free(bytes);
    if (sonar_report_errors(loader->report) > before || loader->no_memory) {
        free(c.rows);
        return NULL;
    }
    *rows = c.count;
    return c.rows;
}
