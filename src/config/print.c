/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Prints the settings as a configuration file, and computes the digest of that text. */
#include "config/options.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

/* Shortest text that reads back to the same double. */
static void format_number(double number, char text[32]) {
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            return;
    }
}

static void print_text(const char *text, FILE *to) {
    fputc('"', to);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', to);
        fputc(*text, to);
    }
    fputc('"', to);
}

static void format_item(const sonar_option *o, const sonar_value *v, size_t i, char text[112]) {
    char x[32], y[32], z[32];
    const bool list = o->type >= SONAR_TYPE_INTEGERS;
    const double number = list ? v->numbers[i] : v->number;
    if (o->type == SONAR_TYPE_CHOICE || o->type == SONAR_TYPE_CHOICES) {
        snprintf(text, 112, "%s", o->choices[(size_t)number]);
    } else if (o->type == SONAR_TYPE_INTEGER && o->choices && number <= 0) {
        snprintf(text, 112, "%s", o->choices[(size_t)-number]);
    } else if (o->type == SONAR_TYPE_POSITIONS) {
        format_number(v->numbers[3 * i], x);
        format_number(v->numbers[3 * i + 1], y);
        format_number(v->numbers[3 * i + 2], z);
        snprintf(text, 112, "[%s, %s, %s]", x, y, z);
    } else if (o->type == SONAR_TYPE_INTEGER || o->type == SONAR_TYPE_INTEGERS) {
        snprintf(text, 112, "%.0f", number);
    } else {
        format_number(number, text);
    }
}

static bool all_equal(const sonar_value *v) {
    for (size_t i = 1; i < v->count; i++)
        if (v->numbers[i] != v->numbers[0])
            return false;
    return v->count > 0;
}

static void print_list(const sonar_option *o, const sonar_value *v, int indent, FILE *to) {
    char text[112] = "";
    size_t column = (size_t)indent + 20;
    fputc('[', to);
    for (size_t i = 0; i < v->count; i++) {
        if (!v->texts[i])
            format_item(o, v, i, text);
        const size_t width = v->texts[i] ? strlen(v->texts[i]) + 2 : strlen(text);
        column += width + 2;
        if (i && column > 96) {
            fprintf(to, ",\n%*s", indent + 4, "");
            column = (size_t)indent + 4 + width;
        } else if (i) {
            fputs(", ", to);
        }
        if (v->texts[i])
            print_text(v->texts[i], to);
        else
            fputs(text, to);
    }
    fputc(']', to);
}

void sonar_value_print(const sonar_option *o, const sonar_value *v, int indent, FILE *to) {
    char text[112];
    if (v->word) {
        fputs(o->word, to);
    } else if (o->type >= SONAR_TYPE_INTEGERS && !(o->scalar && all_equal(v))) {
        print_list(o, v, indent, to);
    } else if (o->type == SONAR_TYPE_TEXT || o->type == SONAR_TYPE_ENDPOINT) {
        print_text(v->text, to);
    } else if (o->type == SONAR_TYPE_BOOLEAN) {
        fputs(v->number != 0 ? "true" : "false", to);
    } else {
        format_item(o, v, 0, text);
        fputs(text, to);
    }
}

/* Prints the keys of the groups that contain `path` but not `last`. Returns the next indent. */
static int open_groups(const char *last, const char *path, FILE *to) {
    int depth = 0;
    bool same = true;
    for (const char *dot; (dot = strchr(path, '.')); depth++) {
        const size_t n = (size_t)(dot - path) + 1;
        same = same && !strncmp(last, path, n);
        if (!same)
            fprintf(to, "%s%*s%.*s:\n", depth ? "" : "\n", 2 * depth, "", (int)n - 1, path);
        last += same ? n : 0;
        path = dot + 1;
    }
    return 2 * depth;
}

int sonar_key_print(const char *last, const char *path, FILE *to) {
    const int indent = open_groups(last, path, to);
    const char *dot = strrchr(path, '.');
    fprintf(to, "%*s%s: ", indent, "", dot ? dot + 1 : path);
    return indent;
}

/* A file name with a newline would end the comment in which it is printed. */
static bool is_plain(const char *name) {
    while (*name && (unsigned char)*name >= ' ' && (unsigned char)*name < 0x7f)
        name++;
    return !*name;
}

static void print_source(const sonar_settings *settings, const sonar_value *v, FILE *to) {
    if (v->origin == SONAR_FROM_DEFAULT)
        fputs("  # default", to);
    else
        fprintf(to, "  # %s:%zu", is_plain(settings->file) ? settings->file : "file",
                v->place.line);
}

/* Prints "not set: ..." if the absence has its own meaning; other absent options are omitted. */
static void print_absent(const sonar_option *o, FILE *to) {
    const char *dot = strrchr(o->path, '.');
    if (o->computed && !strncmp(o->computed, "not set", 7))
        fprintf(to, "  # %s: %s\n", dot + 1, o->computed);
}

/* Prints the canonical text; `sources`: with comments about the origin of each value. */
static void print_settings(const sonar_settings *settings, bool sources, FILE *to) {
    const char *last = "";
    for (size_t id = 0; id < SONAR_OPTIONS; id++) {
        const sonar_option *o = &sonar_options[id];
        const sonar_value *v = &settings->value[id];
        if (v->origin == SONAR_ABSENT) {
            if (sources)
                print_absent(o, to);
            continue;
        }
        const int indent = sonar_key_print(last, o->path, to);
        sonar_value_print(o, v, indent, to);
        if (sources)
            print_source(settings, v, to);
        fputc('\n', to);
        last = o->path;
    }
}

void sonar_config_print(const sonar_config *config, FILE *to) {
    print_settings(config->settings, true, to);
}

sonar_code sonar_settings_digest(const sonar_settings *settings, char digest[65]) {
    char *text = NULL;
    size_t size = 0;
    unsigned char hash[crypto_hash_sha256_BYTES];
    FILE *to = open_memstream(&text, &size);
    if (!to)
        return SONAR_ENOMEM;
    print_settings(settings, false, to);
    const bool written = !ferror(to);
    if (fclose(to) || !written) {
        free(text);
        return SONAR_ENOMEM;
    }
    crypto_hash_sha256(hash, (const unsigned char *)text, size);
    sodium_bin2hex(digest, 65, hash, sizeof hash);
    free(text);
    return SONAR_OK;
}
