/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "yaml_map.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MOST = 64 << 20 };

void sim_yaml_complain(sim_yaml *yaml, const sonar_node *at, const char *format, ...) {
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    sonar_report_add(yaml->report, SONAR_MISTAKE, &yaml->text, at->place, NULL, "%s", message);
}

sonar_code sim_yaml_open(sim_yaml *yaml, const char *path) {
    *yaml = (sim_yaml){.text.name = path, .report = sonar_report_create()};
    if (!yaml->report)
        return SONAR_ENOMEM;
    sonar_code code = sonar_file_read(path, FILE_BYTES_MOST, &yaml->bytes, &yaml->text.size,
                                      yaml->report, NULL, (sonar_place){0});
    yaml->text.bytes = yaml->bytes;
    if (code)
        return code;
    code = sonar_tree_parse(&yaml->text, &yaml->tree, yaml->report);
    if (code == SONAR_ENOMEM)
        sonar_report_add(yaml->report, SONAR_MISTAKE, &yaml->text, (sonar_place){0}, NULL,
                         "no memory");
    if (code || yaml->tree.root)
        return code;
    sonar_report_add(yaml->report, SONAR_MISTAKE, &yaml->text, (sonar_place){1, 1}, NULL,
                     "the file is empty");
    return SONAR_EINVAL;
}

void sim_yaml_close(sim_yaml *yaml, FILE *to) {
    if (yaml->report)
        sonar_report_write(yaml->report, to);
    sonar_report_destroy(yaml->report);
    sonar_tree_clear(&yaml->tree);
    free(yaml->bytes);
}

const char *sim_yaml_text(const sonar_node *node) {
    return node && node->kind == SONAR_SCALAR ? node->text : NULL;
}

bool sim_yaml_number(sim_yaml *yaml, const sonar_node *node, const char *what, double low,
                     double high, double *to) {
    const char *text = sim_yaml_text(node);
    char *end = NULL;
    double value = text && *text ? strtod(text, &end) : NAN;
    if (!end || *end || !(value >= low && value <= high)) {
        sim_yaml_complain(yaml, node, "%s: '%s' is not accepted; accepted: a number from %g to %g",
                          what, text ? text : "(not a value)", low, high);
        return false;
    }
    *to = value;
    return true;
}

static void read_count(sim_yaml *yaml, const sonar_node *node, const sim_field *field, size_t *to) {
    double value;
    if (!sim_yaml_number(yaml, node, field->key, field->low, field->high, &value))
        return;
    if (value != floor(value))
        sim_yaml_complain(yaml, node, "%s: '%s' is not a whole number", field->key,
                          sim_yaml_text(node));
    else
        *to = (size_t)value;
}

static void read_choice(sim_yaml *yaml, const sonar_node *node, const sim_field *field, int *to) {
    const char *text = sim_yaml_text(node);
    size_t length = text ? strlen(text) : 0;
    int place = (int)field->low;
    for (const char *word = field->words; length && word; place++) {
        size_t span = strcspn(word, "|");
        if (span == length && memcmp(word, text, length) == 0) {
            *to = place;
            return;
        }
        word = word[span] ? word + span + 1 : NULL;
    }
    sim_yaml_complain(yaml, node, "%s: '%s' is not accepted; accepted: one of %s", field->key,
                      text ? text : "(not a word)", field->words);
}

static void read_text(sim_yaml *yaml, const sonar_node *node, const sim_field *field, char *to) {
    const char *text = sim_yaml_text(node);
    if (!text || strlen(text) > 63)
        sim_yaml_complain(yaml, node, "%s: accepted: a text of at most 63 bytes", field->key);
    else
        memcpy(to, text, strlen(text) + 1);
}

static void read_field(sim_yaml *yaml, const sonar_node *node, const sim_field *field, void *to) {
    void *at = (char *)to + field->offset;
    switch (field->type) {
    case SIM_NUMBER:
        sim_yaml_number(yaml, node, field->key, field->low, field->high, at);
        break;
    case SIM_COUNT:
        read_count(yaml, node, field, at);
        break;
    case SIM_CHOICE:
        read_choice(yaml, node, field, at);
        break;
    case SIM_TEXT:
        read_text(yaml, node, field, at);
        break;
    case SIM_NODE:
        break;
    }
}

static void unknown_key(sim_yaml *yaml, const sonar_node *key, const sim_field *fields) {
    char known[512] = "";
    for (const sim_field *field = fields; field->key; field++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", field->key);
    }
    const char *text = sim_yaml_text(key);
    sim_yaml_complain(yaml, key, "unknown key '%s'; accepted here: %s",
                      text ? text : "(not a word)", known);
}

/* The value of the key's first occurrence in the mapping before `end`. */
static const sonar_node *find_value(const sonar_node *map, const sonar_node *end, const char *key) {
    for (const sonar_node *at = map->first; at != end; at = at->next->next) {
        const char *text = sim_yaml_text(at);
        if (text && strcmp(text, key) == 0)
            return at->next;
    }
    return NULL;
}

static const sim_field *find_field(const sim_field *fields, const char *key) {
    while (fields->key && (!key || strcmp(fields->key, key) != 0))
        fields++;
    return fields->key ? fields : NULL;
}

void sim_yaml_read(sim_yaml *yaml, const sonar_node *map, const sim_field *fields, void *to) {
    if (map->kind != SONAR_MAPPING) {
        sim_yaml_complain(yaml, map, "expected a mapping (key: value) here");
        return;
    }
    for (const sonar_node *key = map->first; key; key = key->next->next) {
        const sim_field *field = find_field(fields, sim_yaml_text(key));
        if (!field)
            unknown_key(yaml, key, fields);
        else if (find_value(map, key, field->key))
            sim_yaml_complain(yaml, key, "'%s' is given twice", field->key);
        else
            read_field(yaml, key->next, field, to);
    }
    for (; fields->key; fields++)
        if (fields->required && !sim_yaml_get(map, fields->key))
            sim_yaml_complain(yaml, map, "'%s' is missing", fields->key);
}

const sonar_node *sim_yaml_get(const sonar_node *map, const char *key) {
    return map && map->kind == SONAR_MAPPING ? find_value(map, NULL, key) : NULL;
}

size_t sim_yaml_length(sim_yaml *yaml, const sonar_node *sequence, const char *what, size_t most) {
    if (sequence->kind != SONAR_SEQUENCE) {
        sim_yaml_complain(yaml, sequence, "%s: expected a list", what);
        return 0;
    }
    if (sequence->count > most) {
        sim_yaml_complain(yaml, sequence, "%s: %zu entries; at most %zu are accepted", what,
                          sequence->count, most);
        return 0;
    }
    return sequence->count;
}
