/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "yaml_map.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void sim_yaml_complain(sim_yaml *yaml, const yaml_node_t *at, const char *format, ...) {
    yaml->errors++;
    fprintf(yaml->report, "%s:%zu:%zu: error: ", yaml->name, at->start_mark.line + 1,
            at->start_mark.column + 1);
    va_list args;
    va_start(args, format);
    vfprintf(yaml->report, format, args);
    va_end(args);
    fputc('\n', yaml->report);
}

static sonar_code parse(sim_yaml *yaml, FILE *file) {
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return SONAR_ENOMEM;
    yaml_parser_set_input_file(&parser, file);
    sonar_code code = SONAR_OK;
    if (!yaml_parser_load(&parser, &yaml->document)) {
        fprintf(yaml->report, "%s:%zu:%zu: error: not YAML: %s\n", yaml->name,
                parser.problem_mark.line + 1, parser.problem_mark.column + 1,
                ferror(file)     ? strerror(errno) /* a directory, say */
                : parser.problem ? parser.problem
                                 : "out of memory");
        code = SONAR_EINVAL;
    } else if (!yaml_document_get_root_node(&yaml->document)) {
        fprintf(yaml->report, "%s:1:1: error: the file is empty\n", yaml->name);
        yaml_document_delete(&yaml->document);
        code = SONAR_EINVAL;
    }
    yaml_parser_delete(&parser);
    return code;
}

sonar_code sim_yaml_open(sim_yaml *yaml, const char *path, FILE *report) {
    *yaml = (sim_yaml){.name = path, .report = report};
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(report, "%s: error: cannot open it: %s\n", path, strerror(errno));
        return SONAR_EUNAVAILABLE;
    }
    sonar_code code = parse(yaml, file);
    fclose(file);
    return code;
}

void sim_yaml_close(sim_yaml *yaml) {
    yaml_document_delete(&yaml->document);
}

const char *sim_yaml_text(const yaml_node_t *node) {
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

bool sim_yaml_number(sim_yaml *yaml, yaml_node_t *node, const char *what, double low, double high,
                     double *to) {
    const char *text = sim_yaml_text(node);
    char *end = NULL;
    double value = text && *text ? strtod(text, &end) : NAN;
    if (!end || *end || !(value >= low && value <= high)) {
        sim_yaml_complain(yaml, node, "%s: '%s' is not accepted; a number from %g to %g is", what,
                          text ? text : "(not a value)", low, high);
        return false;
    }
    *to = value;
    return true;
}

static void read_count(sim_yaml *yaml, yaml_node_t *node, const sim_field *field, size_t *to) {
    double value;
    if (!sim_yaml_number(yaml, node, field->key, field->low, field->high, &value))
        return;
    if (value != floor(value))
        sim_yaml_complain(yaml, node, "%s: '%s' is not a whole number", field->key,
                          sim_yaml_text(node));
    else
        *to = (size_t)value;
}

static void read_choice(sim_yaml *yaml, yaml_node_t *node, const sim_field *field, int *to) {
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
    sim_yaml_complain(yaml, node, "%s: '%s' is not accepted; one of %s is", field->key,
                      text ? text : "(not a word)", field->words);
}

static void read_text(sim_yaml *yaml, yaml_node_t *node, const sim_field *field, char *to) {
    const char *text = sim_yaml_text(node);
    if (!text || strlen(text) > 63)
        sim_yaml_complain(yaml, node, "%s: a text of at most 63 bytes is accepted", field->key);
    else
        memcpy(to, text, strlen(text) + 1);
}

static void read_field(sim_yaml *yaml, yaml_node_t *node, const sim_field *field, void *to) {
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

static void unknown_key(sim_yaml *yaml, yaml_node_t *key, const sim_field *fields) {
    char known[512] = "";
    for (const sim_field *field = fields; field->key; field++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", field->key);
    }
    const char *text = sim_yaml_text(key);
    sim_yaml_complain(yaml, key, "unknown key '%s'; accepted here: %s",
                      text ? text : "(not a word)", known);
}

static yaml_node_t *node_at(sim_yaml *yaml, int id) {
    return yaml_document_get_node(&yaml->document, id);
}

static bool repeated(sim_yaml *yaml, yaml_node_t *map, const yaml_node_pair_t *pair) {
    const char *key = sim_yaml_text(node_at(yaml, pair->key));
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < pair; p++) {
        const char *other = sim_yaml_text(node_at(yaml, p->key));
        if (key && other && strcmp(key, other) == 0)
            return true;
    }
    return false;
}

static const sim_field *find_field(const sim_field *fields, const char *key) {
    while (fields->key && (!key || strcmp(fields->key, key) != 0))
        fields++;
    return fields->key ? fields : NULL;
}

void sim_yaml_read(sim_yaml *yaml, yaml_node_t *map, const sim_field *fields, void *to) {
    if (map->type != YAML_MAPPING_NODE) {
        sim_yaml_complain(yaml, map, "a mapping (key: value) is expected here");
        return;
    }
    yaml_node_pair_t *pair = map->data.mapping.pairs.start;
    for (; pair < map->data.mapping.pairs.top; pair++) {
        yaml_node_t *key = node_at(yaml, pair->key);
        const sim_field *field = find_field(fields, sim_yaml_text(key));
        if (!field)
            unknown_key(yaml, key, fields);
        else if (repeated(yaml, map, pair))
            sim_yaml_complain(yaml, key, "'%s' is given twice", field->key);
        else
            read_field(yaml, node_at(yaml, pair->value), field, to);
    }
    for (; fields->key; fields++)
        if (fields->required && !sim_yaml_get(yaml, map, fields->key))
            sim_yaml_complain(yaml, map, "'%s' is missing", fields->key);
}

yaml_node_t *sim_yaml_get(sim_yaml *yaml, yaml_node_t *map, const char *key) {
    if (!map || map->type != YAML_MAPPING_NODE)
        return NULL;
    yaml_node_pair_t *pair = map->data.mapping.pairs.start;
    for (; pair < map->data.mapping.pairs.top; pair++) {
        const char *text = sim_yaml_text(node_at(yaml, pair->key));
        if (text && strcmp(text, key) == 0)
            return node_at(yaml, pair->value);
    }
    return NULL;
}

size_t sim_yaml_length(sim_yaml *yaml, yaml_node_t *sequence, const char *what, size_t most) {
    if (sequence->type != YAML_SEQUENCE_NODE) {
        sim_yaml_complain(yaml, sequence, "%s: a list is expected", what);
        return 0;
    }
    yaml_node_item_t *start = sequence->data.sequence.items.start;
    size_t length = (size_t)(sequence->data.sequence.items.top - start);
    if (length > most) {
        sim_yaml_complain(yaml, sequence, "%s: %zu entries; at most %zu are accepted", what, length,
                          most);
        return 0;
    }
    return length;
}

yaml_node_t *sim_yaml_item(sim_yaml *yaml, yaml_node_t *sequence, size_t index) {
    return node_at(yaml, sequence->data.sequence.items.start[index]);
}
