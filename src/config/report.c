/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "config/report.h"

#include "core/core.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { PROBLEMS_MOST = 100, EXCERPT_BYTES = 400, EXCERPT_COLUMNS = 100 };

typedef struct problem {
    sonar_severity severity;
    bool csv;
    size_t order; /* number of the problem in the order of adding; keeps the sort stable */
    sonar_place place;
    size_t caret; /* column within the excerpt, from 1; 0: no excerpt */
    char file[256], message[512], accepted[512], excerpt[EXCERPT_BYTES];
} problem;

struct sonar_report {
    size_t errors, warnings, notes, count;
    problem *problems; /* grows up to PROBLEMS_MOST */
};

sonar_report *sonar_report_create(void) {
    return sonar_alloc(1, sizeof(sonar_report));
}

void sonar_report_destroy(sonar_report *report) {
    if (!report)
        return;
    free(report->problems);
    free(report);
}

const char *sonar_report_first(const sonar_report *report, sonar_place *place) {
    const problem *first = report->count ? &report->problems[0] : NULL;
    if (first)
        *place = first->place;
    return first ? first->message : NULL;
}

size_t sonar_report_errors(const sonar_report *report) {
    return report->errors;
}

size_t sonar_report_warnings(const sonar_report *report) {
    return report->warnings;
}

static bool continues(char c) {
    return ((unsigned char)c & 0xC0) == 0x80; /* not the first byte of a UTF-8 character */
}

static const char *find_line(const sonar_text *text, size_t line, const char **end) {
    const char *at = text->bytes, *stop = text->bytes + text->size;
    while (line > 1 && at < stop) {
        const char *newline = memchr(at, '\n', (size_t)(stop - at));
        if (!newline)
            return NULL;
        at = newline + 1;
        line--;
    }
    const char *newline = memchr(at, '\n', (size_t)(stop - at));
    *end = newline ? newline : stop;
    return at;
}

/* Copies at most EXCERPT_COLUMNS of the line around the place; characters that would disturb a
 * terminal are replaced. */
static void excerpt(const sonar_text *text, problem *p) {
    const char *end, *at = NULL;
    if (text->bytes && p->place.line)
        at = find_line(text, p->place.line, &end);
    if (!at)
        return;
    size_t skip =
        p->place.column > EXCERPT_COLUMNS - 20 ? p->place.column - EXCERPT_COLUMNS / 2 : 0;
    p->caret = p->place.column - skip;
    while (skip && at < end)
        if (++at == end || !continues(*at))
            skip--;
    size_t bytes = 0;
    for (size_t columns = 0; at < end && bytes + 1 < sizeof p->excerpt; at++) {
        columns += !continues(*at);
        if (columns > EXCERPT_COLUMNS)
            break;
        const bool plain = (unsigned char)*at >= ' ' && *at != 0x7f;
        p->excerpt[bytes++] = plain ? *at : ' ';
    }
    p->excerpt[bytes] = 0;
}

static problem *append(sonar_report *report) {
    if (report->count == PROBLEMS_MOST)
        return NULL;
    problem *grown = realloc(report->problems, (report->count + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    report->problems = grown;
    problem *p = &grown[report->count];
    memset(p, 0, sizeof *p);
    p->order = report->count++;
    return p;
}

void sonar_report_add(sonar_report *report, sonar_severity severity, const sonar_text *text,
                      sonar_place place, const char *accepted, const char *format, ...) {
    if (!report)
        return;
    size_t *const counts[] = {&report->notes, &report->warnings, &report->errors};
    ++*counts[severity];
    problem *p = append(report);
    if (!p)
        return;
    p->severity = severity;
    p->place = place;
    p->csv = text->csv;
    snprintf(p->file, sizeof p->file, "%s", text->name);
    snprintf(p->accepted, sizeof p->accepted, "%s", accepted ? accepted : "");
    va_list args;
    va_start(args, format);
    vsnprintf(p->message, sizeof p->message, format, args);
    va_end(args);
    excerpt(text, p);
}

static int by_place(const void *left, const void *right) {
    const problem *a = *(const problem *const *)left, *b = *(const problem *const *)right;
    if (a->csv != b->csv)
        return a->csv ? 1 : -1;
    if (a->place.line != b->place.line)
        return a->place.line < b->place.line ? -1 : 1;
    if (a->place.column != b->place.column)
        return a->place.column < b->place.column ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

static void sort(const sonar_report *report, const problem **sorted) {
    for (size_t i = 0; i < report->count; i++)
        sorted[i] = &report->problems[i];
    qsort(sorted, report->count, sizeof *sorted, by_place);
}

/* Text quoted from a file may contain any bytes: control characters become '?'. */
static void write_clean(const char *text, FILE *to) {
    for (; *text; text++)
        fputc((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text, to);
}

static void write_problem(const problem *p, FILE *to) {
    write_clean(p->file, to);
    if (p->place.line)
        fprintf(to, ":%zu:%zu", p->place.line, p->place.column);
    static const char *const names[] = {"note", "warning", "error"};
    fprintf(to, ": %s: ", names[p->severity]);
    write_clean(p->message, to);
    fputc('\n', to);
    if (p->caret && p->excerpt[0])
        fprintf(to, "    %s\n    %*s\n", p->excerpt, (int)p->caret, "^");
    if (p->accepted[0]) {
        fputs("    accepted: ", to);
        write_clean(p->accepted, to);
        fputc('\n', to);
    }
}

void sonar_report_each(const sonar_report *report,
                       void (*visit)(void *ctx, sonar_level level, const char *where,
                                     const char *text),
                       void *ctx) {
    static const sonar_level levels[] = {SONAR_INFO, SONAR_WARN, SONAR_ERROR};
    const problem *sorted[PROBLEMS_MOST];
    sort(report, sorted);
    for (size_t i = 0; i < report->count; i++) {
        const problem *p = sorted[i];
        char where[320], text[1100];
        if (p->place.line)
            snprintf(where, sizeof where, "%s:%zu:%zu", p->file, p->place.line, p->place.column);
        else
            snprintf(where, sizeof where, "%s", p->file);
        snprintf(text, sizeof text, "%s%s%s", p->message, p->accepted[0] ? "; accepted: " : "",
                 p->accepted);
        visit(ctx, levels[p->severity], where, text);
    }
}

struct first_mistake {
    char *where, *text;
    size_t bytes;
    bool found;
};

static void note_mistake(void *ctx, sonar_level level, const char *where, const char *text) {
    struct first_mistake *first = ctx;
    if (level != SONAR_ERROR || first->found)
        return;
    first->found = true;
    snprintf(first->text, first->bytes, "%s", text);
    if (first->where)
        snprintf(first->where, 160, "%s", where);
}

bool sonar_report_mistake(const sonar_report *report, char where[160], char *text, size_t bytes) {
    struct first_mistake first = {.where = where, .text = text, .bytes = bytes};
    sonar_report_each(report, note_mistake, &first);
    return first.found;
}

void sonar_report_write(const sonar_report *report, FILE *to) {
    const problem *sorted[PROBLEMS_MOST];
    sort(report, sorted);
    for (size_t i = 0; i < report->count; i++)
        write_problem(sorted[i], to);
    const size_t all = report->errors + report->warnings + report->notes;
    if (all > report->count)
        fprintf(to, "and %zu more\n", all - report->count);
}

static char *read_all(FILE *file, size_t most, size_t *bytes, bool *too_long) {
    size_t size = 0, room = 0;
    char *text = NULL;
    for (;;) {
        if (size + 1 >= room) {
            room = room ? 2 * room : 65536;
            char *grown = realloc(text, room);
            if (!grown) {
                free(text);
                return NULL;
            }
            text = grown;
        }
        const size_t got = fread(text + size, 1, room - 1 - size, file);
        size += got;
        *too_long = size > most;
        if (!got || *too_long)
            break;
    }
    if (ferror(file) || *too_long) {
        free(text);
        return NULL;
    }
    text[size] = 0;
    *bytes = size;
    return text;
}

size_t sonar_mark_bytes(const char *text, size_t bytes) {
    return bytes >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
}

/* Removes a UTF-8 byte order mark. Returns NULL, or the reason for refusing the text: it is
 * UTF-16. */
static const char *strip_mark(char *text, size_t *bytes) {
    if (*bytes >= 2 && (!memcmp(text, "\xff\xfe", 2) || !memcmp(text, "\xfe\xff", 2)))
        return "is UTF-16; save it as UTF-8";
    const size_t mark = sonar_mark_bytes(text, *bytes);
    *bytes -= mark;
    memmove(text, text + mark, *bytes + 1);
    return NULL;
}

sonar_code sonar_file_read(const char *path, size_t most, char **to, size_t *bytes,
                           sonar_report *report, const sonar_text *from, sonar_place place) {
    const sonar_text itself = {.name = path};
    FILE *file = fopen(path, "rbe");
    bool too_long = false;
    errno = file ? 0 : errno;
    char *text = file ? read_all(file, most, bytes, &too_long) : NULL;
    const int why = errno ? errno : ENOMEM;
    if (file)
        fclose(file);
    const char *refusal = text ? strip_mark(text, bytes) : NULL;
    if (refusal)
        sonar_report_add(report, SONAR_MISTAKE, from ? from : &itself, place, NULL, "%s %s", path,
                         refusal);
    else if (!text && too_long)
        sonar_report_add(report, SONAR_MISTAKE, from ? from : &itself, place, NULL,
                         "%s is longer than %zu MiB", path, most >> 20);
    else if (!text)
        sonar_report_add(report, SONAR_MISTAKE, from ? from : &itself, place, NULL,
                         "cannot read %s: %s", path, strerror(why));
    if (refusal) {
        free(text);
        text = NULL;
    }
    *to = text;
    return text                                     ? SONAR_OK
           : !refusal && !too_long && why == ENOMEM ? SONAR_ENOMEM
                                                    : SONAR_EUNAVAILABLE;
}
