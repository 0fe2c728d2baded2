/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reads back what table.c writes and nothing else: a table decides what runs, so a doubtful one is
 * refused as a whole. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "train/table.h"

typedef struct reader {
    const char *path;
    yaml_document_t document;
    sonar_error *err;
} reader;

/* ---- refusing -------------------------------------------------------------------------------- */

static sonar_code refuse(const reader *r, const yaml_node_t *at, const char *what) {
    char where[160];
    size_t line = at ? at->start_mark.line + 1 : 1;
    snprintf(where, sizeof where, "%.140s:%zu", r->path, line);
    return sonar_fail(r->err, SONAR_EINVAL, where, "not a training table of this version: %s",
                      what);
}

static sonar_code refuse_key(const reader *r, const yaml_node_t *at, const char *key,
                             const char *what) {
    char text[120];
    snprintf(text, sizeof text, "'%s' %s", key, what);
    return refuse(r, at, text);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static yaml_node_t *node_of(reader *r, int index) {
    return yaml_document_get_node(&r->document, index);
}

static const char *text_of(const yaml_node_t *node) {
    return (const char *)node->data.scalar.value;
}

/* The value of a key, NULL unless it is there exactly once. */
static yaml_node_t *value_of(reader *r, const yaml_node_t *map, const char *key) {
    yaml_node_t *found = NULL;
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top;
         p++) {
        const yaml_node_t *name = node_of(r, p->key);
        if (name->type != YAML_SCALAR_NODE || strcmp(text_of(name), key) != 0)
            continue;
        if (found)
            return NULL;
        found = node_of(r, p->value);
    }
    return found;
}

/* A mapping with exactly `count` keys; that they are the right ones is seen when they are read. */
static sonar_code need_map(reader *r, const yaml_node_t *node, const char *key, size_t count) {
    if (!node || node->type != YAML_MAPPING_NODE)
        return refuse_key(r, node, key, "is not a mapping");
    size_t pairs = (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start);
    return pairs == count ? SONAR_OK : refuse_key(r, node, key, "has keys too many, or lacks some");
}

static sonar_code need_list(reader *r, const yaml_node_t *map, const char *key, size_t least,
                            size_t most, yaml_node_t **list, size_t *count) {
    yaml_node_t *node = value_of(r, map, key);
    if (!node || node->type != YAML_SEQUENCE_NODE)
        return refuse_key(r, node ? node : map, key, "is not a list");
    *list = node;
    *count = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
    return *count >= least && *count <= most ? SONAR_OK
                                             : refuse_key(r, node, key, "has a wrong length");
}

static yaml_node_t *item_of(reader *r, const yaml_node_t *list, size_t index) {
    return node_of(r, list->data.sequence.items.start[index]);
}

static sonar_code read_text(reader *r, const yaml_node_t *map, const char *key, char *text,
                            size_t size) {
    const yaml_node_t *node = value_of(r, map, key);
    if (!node || node->type != YAML_SCALAR_NODE)
        return refuse_key(r, node ? node : map, key, "is missing, there twice, or not a text");
    size_t length = node->data.scalar.length;
    if (length >= size || strlen(text_of(node)) != length)
        return refuse_key(r, node, key, "is too long or holds a zero byte");
    memcpy(text, text_of(node), length + 1);
    return SONAR_OK;
}

static sonar_code read_word(reader *r, const yaml_node_t *map, const char *key, char *word,
                            size_t size) {
    sonar_code code = read_text(r, map, key, word, size);
    const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    if (code)
        return code;
    return *word && !word[strspn(word, letters)] ? SONAR_OK
                                                 : refuse_key(r, map, key, "is not one word");
}

static sonar_code read_number(reader *r, const yaml_node_t *map, const char *key, double *number) {
    char text[40], *end;
    sonar_code code = read_text(r, map, key, text, sizeof text);
    if (code)
        return code;
    bool plain = *text && !text[strspn(text, "0123456789.e+-")];
    *number = plain ? strtod(text, &end) : NAN;
    return plain && !*end && isfinite(*number) && *number >= 0
               ? SONAR_OK
               : refuse_key(r, value_of(r, map, key), key, "is not a number of at least 0");
}

static sonar_code read_count(reader *r, const yaml_node_t *map, const char *key, size_t *count) {
    double number;
    sonar_code code = read_number(r, map, key, &number);
    if (code)
        return code;
    if (number != floor(number) || number > 9007199254740992.0)
        return refuse_key(r, value_of(r, map, key), key, "is not a whole number");
    *count = (size_t)number;
    return SONAR_OK;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static sonar_code read_fingerprint(reader *r, const yaml_node_t *root,
                                   sonar_train_fingerprint *fingerprint) {
    const yaml_node_t *node = value_of(r, root, "node"), *shape = value_of(r, root, "shape");
    sonar_code code = need_map(r, node, "node", SONAR_TRAIN_NODE_FIELDS);
    if (!code)
        code = need_map(r, shape, "shape", SONAR_TRAIN_SHAPE_FIELDS);
    for (size_t i = 0; i < SONAR_TRAIN_NODE_FIELDS && !code; i++)
        code = read_text(r, node, sonar_train_node_names[i], fingerprint->node[i],
                         sizeof fingerprint->node[i]);
    for (size_t i = 0; i < SONAR_TRAIN_SHAPE_FIELDS && !code; i++)
        code = read_count(r, shape, sonar_train_shape_fields[i].name,
                          sonar_train_shape_member(&fingerprint->shape, i));
    return code;
}

static sonar_code read_timing(reader *r, const yaml_node_t *map, sonar_train_timing *timing) {
    timing->available = map->type == YAML_MAPPING_NODE && !value_of(r, map, "unavailable");
    sonar_code code = need_map(r, map, "candidates", timing->available ? 4 : 2);
    if (!code)
        code = read_word(r, map, "name", timing->name, sizeof timing->name);
    if (code || !timing->available)
        return code ? code : read_text(r, map, "unavailable", timing->note, sizeof timing->note);
    code = read_number(r, map, "median_us", &timing->median_s);
    if (!code)
        code = read_number(r, map, "spread_us", &timing->spread_s);
    if (!code)
        code = read_count(r, map, "repetitions", &timing->repetitions);
    timing->median_s *= 1e-6;
    timing->spread_s *= 1e-6;
    return code;
}

static sonar_code find_chosen(reader *r, const yaml_node_t *map, const char *chosen,
                              sonar_train_decision *decision) {
    for (size_t c = 0; c < decision->candidates; c++)
        if (!strcmp(decision->candidate[c].name, chosen) && decision->candidate[c].available) {
            decision->chosen = c;
            return SONAR_OK;
        }
    return refuse_key(r, value_of(r, map, "chosen"), "chosen", "names no available candidate");
}

static sonar_code read_decision(reader *r, const yaml_node_t *map, sonar_train_decision *decision) {
    char chosen[sizeof decision->candidate->name];
    yaml_node_t *list = NULL;
    sonar_code code = need_map(r, map, "decisions", 4);
    if (!code)
        code = read_word(r, map, "name", decision->name, sizeof decision->name);
    if (!code)
        code = read_text(r, map, "reason", decision->reason, sizeof decision->reason);
    if (!code)
        code = read_word(r, map, "chosen", chosen, sizeof chosen);
    if (!code)
        code = need_list(r, map, "candidates", 1, SONAR_TRAIN_CANDIDATES, &list,
                         &decision->candidates);
    for (size_t c = 0; !code && c < decision->candidates; c++)
        code = read_timing(r, item_of(r, list, c), &decision->candidate[c]);
    return code ? code : find_chosen(r, map, chosen, decision);
}

static sonar_code read_decisions(reader *r, const yaml_node_t *root, sonar_train_table *table) {
    yaml_node_t *list;
    size_t count;
    sonar_code code = need_list(r, root, "decisions", 1, SONAR_TRAIN_DECISIONS, &list, &count);
    for (size_t i = 0; !code && i < count; i++) {
        sonar_train_decision *decision = &table->decision[i];
        code = read_decision(r, item_of(r, list, i), decision);
        if (!code && sonar_train_find(table, decision->name))
            code = refuse_key(r, item_of(r, list, i), decision->name, "is decided twice");
        table->decisions = i + 1;
    }
    if (!code && !sonar_train_find(table, "chain"))
        code = refuse(r, list, "it does not decide 'chain'");
    return code;
}

static sonar_code read_line(reader *r, const yaml_node_t *map, const char *key,
                            sonar_train_line *line) {
    const yaml_node_t *node = value_of(r, map, key);
    sonar_code code = need_map(r, node, key, 2);
    if (!code)
        code = read_number(r, node, "offset_us", &line->offset_s);
    if (!code)
        code = read_number(r, node, "us_per_mib", &line->s_per_byte);
    line->offset_s *= 1e-6;
    line->s_per_byte *= 1e-6 / 1048576;
    return code;
}

static sonar_code read_kind(reader *r, const yaml_node_t *map, sonar_train_memory *kind) {
    sonar_code code = need_map(r, map, "memory", 4);
    if (!code)
        code = read_word(r, map, "kind", kind->kind, sizeof kind->kind);
    if (!code)
        code = read_line(r, map, "make", &kind->make);
    if (!code)
        code = read_line(r, map, "to_device", &kind->to_device);
    return code ? code : read_line(r, map, "from_device", &kind->from_device);
}

static sonar_code read_buffer(reader *r, const yaml_node_t *map, const sonar_train_table *table,
                              sonar_train_buffer *buffer) {
    sonar_code code = need_map(r, map, "buffers", 5);
    if (!code)
        code = read_word(r, map, "name", buffer->name, sizeof buffer->name);
    if (!code)
        code = read_number(r, map, "bytes", &buffer->bytes);
    if (!code)
        code = read_number(r, map, "to_device", &buffer->to_device);
    if (!code)
        code = read_number(r, map, "from_device", &buffer->from_device);
    if (!code)
        code = read_word(r, map, "chosen", buffer->chosen, sizeof buffer->chosen);
    for (size_t i = 0; !code && i < table->kinds; i++)
        if (!strcmp(table->kind[i].kind, buffer->chosen))
            return SONAR_OK;
    return code ? code : refuse_key(r, map, buffer->chosen, "is no kind of memory measured here");
}

static sonar_code read_memory(reader *r, const yaml_node_t *root, sonar_train_table *table) {
    yaml_node_t *list;
    sonar_code code = need_list(r, root, "memory", 0, sizeof table->kind / sizeof *table->kind,
                                &list, &table->kinds);
    for (size_t i = 0; !code && i < table->kinds; i++)
        code = read_kind(r, item_of(r, list, i), &table->kind[i]);
    if (!code)
        code = need_list(r, root, "buffers", 0, SONAR_TRAIN_BUFFERS, &list, &table->buffers);
    for (size_t i = 0; !code && i < table->buffers; i++)
        code = read_buffer(r, item_of(r, list, i), table, &table->buffer[i]);
    return code;
}

static sonar_code read_schema(reader *r, const yaml_node_t *root) {
    char schema[64];
    if (!root || root->type != YAML_MAPPING_NODE)
        return refuse(r, root, "it is no mapping");
    sonar_code code = read_text(r, root, "schema", schema, sizeof schema);
    if (!code && strcmp(schema, SONAR_TRAIN_SCHEMA) != 0)
        return refuse(r, root, "its schema is not " SONAR_TRAIN_SCHEMA);
    return code;
}

static sonar_code read_root(reader *r, sonar_train_table *table) {
    const yaml_node_t *root = yaml_document_get_root_node(&r->document);
    sonar_code code = read_schema(r, root);
    if (!code)
        code = need_map(r, root, "the table", 7);
    if (!code)
        code = read_text(r, root, "made", table->made, sizeof table->made);
    if (!code)
        code = read_fingerprint(r, root, &table->fingerprint);
    if (!code)
        code = read_decisions(r, root, table);
    return code ? code : read_memory(r, root, table);
}

/* ---- the fingerprint ------------------------------------------------------------------------- */

static sonar_code compare(const char *path, sonar_train_fingerprint *made,
                          const sonar_train_fingerprint *expected, sonar_error *err) {
    sonar_train_fingerprint here = *expected;
    for (size_t i = 0; i < SONAR_TRAIN_NODE_FIELDS; i++)
        if (strcmp(made->node[i], here.node[i]) != 0)
            return sonar_fail(err, SONAR_EINVAL, path,
                              "made for another node: %s was '%.100s' and is '%.100s'; run "
                              "sonard --train again",
                              sonar_train_node_names[i], made->node[i], here.node[i]);
    for (size_t i = 0; i < SONAR_TRAIN_SHAPE_FIELDS; i++) {
        size_t then = *sonar_train_shape_member(&made->shape, i);
        size_t now = *sonar_train_shape_member(&here.shape, i);
        if (then != now)
            return sonar_fail(err, SONAR_EINVAL, path,
                              "made for another configuration: %s was %zu and is %zu; run sonard "
                              "--train again",
                              sonar_train_shape_fields[i].name, then, now);
    }
    return SONAR_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

static sonar_code refuse_syntax(const reader *r, const yaml_parser_t *parser) {
    char where[160];
    if (parser->error == YAML_MEMORY_ERROR)
        return sonar_fail(r->err, SONAR_ENOMEM, r->path, "no memory to read it");
    snprintf(where, sizeof where, "%.140s:%zu", r->path, parser->problem_mark.line + 1);
    return sonar_fail(r->err, SONAR_EINVAL, where, "is not YAML: %s",
                      parser->problem ? parser->problem : "unreadable");
}

/* Nothing may follow the table. */
static sonar_code check_end(reader *r, yaml_parser_t *parser) {
    yaml_document_t rest;
    if (!yaml_parser_load(parser, &rest))
        return refuse_syntax(r, parser);
    bool more = yaml_document_get_root_node(&rest) != NULL;
    yaml_document_delete(&rest);
    return more ? refuse(r, NULL, "something follows the table") : SONAR_OK;
}

static sonar_code parse(reader *r, FILE *file, sonar_train_table *table) {
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return sonar_fail(r->err, SONAR_ENOMEM, r->path, "no memory to read it");
    yaml_parser_set_input_file(&parser, file);
    sonar_code code;
    if (!yaml_parser_load(&parser, &r->document)) {
        code = refuse_syntax(r, &parser);
    } else {
        code = read_root(r, table);
        yaml_document_delete(&r->document);
        if (!code)
            code = check_end(r, &parser);
    }
    yaml_parser_delete(&parser);
    return code;
}

sonar_code sonar_train_load(const char *path, const sonar_train_fingerprint *expected,
                            sonar_train_table *table, sonar_error *err) {
    reader r = {.path = path, .err = err};
    memset(table, 0, sizeof *table);
    FILE *file = fopen(path, "re");
    if (!file)
        return sonar_fail(err, SONAR_EUNAVAILABLE, path, "cannot be read: %s", strerror(errno));
    sonar_code code = parse(&r, file, table);
    fclose(file);
    return code ? code : compare(path, &table->fingerprint, expected, err);
}
