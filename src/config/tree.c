/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "config/tree.h"

#include "core/core.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { DEPTH_MOST = 16, NODES_MOST = 1 << 20 };

typedef struct builder {
    const sonar_text *text;
    sonar_report *report;
    sonar_tree *tree;
    sonar_node *stack[DEPTH_MOST];
    size_t depth, documents;
    bool done;
} builder;

static sonar_place place_of(yaml_mark_t mark) {
    return (sonar_place){mark.line + 1, mark.column + 1};
}

static sonar_code refuse(builder *b, yaml_mark_t mark, const char *accepted, const char *message) {
    sonar_report_add(b->report, SONAR_MISTAKE, b->text, place_of(mark), accepted, "%s", message);
    return SONAR_EINVAL;
}

/* An error inside libyaml. The reader gives a byte offset; scanner and parser give marks. */
static sonar_code broken(const builder *b, const yaml_parser_t *parser) {
    if (parser->error == YAML_MEMORY_ERROR)
        return SONAR_ENOMEM;
    sonar_place place = place_of(parser->problem_mark);
    if (parser->error == YAML_READER_ERROR) {
        place = (sonar_place){1, 1};
        for (size_t i = 0; i < parser->problem_offset && i < b->text->size; i++) {
            const unsigned char c = (unsigned char)b->text->bytes[i];
            place.column = c == '\n' ? 1 : place.column + ((c & 0xC0) != 0x80);
            place.line += c == '\n';
        }
    }
    sonar_report_add(b->report, SONAR_MISTAKE, b->text, place, NULL, "not valid YAML: %s%s%s",
                     parser->problem ? parser->problem : "unknown error",
                     parser->context ? " " : "", parser->context ? parser->context : "");
    return SONAR_EINVAL;
}

static sonar_node *add_node(builder *b, sonar_node_kind kind, yaml_mark_t mark) {
    sonar_node *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    node->kind = kind;
    node->place = place_of(mark);
    node->older = b->tree->newest;
    b->tree->newest = node;
    b->tree->nodes++;
    if (!b->depth) {
        b->tree->root = node;
        return node;
    }
    sonar_node *parent = b->stack[b->depth - 1];
    *(parent->last ? &parent->last->next : &parent->first) = node;
    parent->last = node;
    parent->count++;
    return node;
}

static sonar_code add_scalar(builder *b, const yaml_event_t *event) {
    sonar_node *node = add_node(b, SONAR_SCALAR, event->start_mark);
    const size_t length = event->data.scalar.length;
    if (!node || !(node->text = malloc(length + 1)))
        return SONAR_ENOMEM;
    memcpy(node->text, event->data.scalar.value, length);
    node->text[length] = 0;
    node->length = length;
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return SONAR_OK;
}

static sonar_code open_collection(builder *b, sonar_node_kind kind, const yaml_event_t *event) {
    if (b->depth == DEPTH_MOST)
        return refuse(b, event->start_mark, NULL, "nested deeper than any option");
    sonar_node *node = add_node(b, kind, event->start_mark);
    if (!node)
        return SONAR_ENOMEM;
    b->stack[b->depth++] = node;
    return SONAR_OK;
}

static sonar_code check_event(builder *b, const yaml_event_t *event) {
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    }
    if (anchor || event->type == YAML_ALIAS_EVENT)
        return refuse(b, event->start_mark,
                      "the value itself, written out; text that begins with "
                      "* or & in quotes",
                      "anchors and aliases (& and *) are not accepted");
    if (tag)
        return refuse(b, event->start_mark, "the plain value", "tags (!) are not accepted");
    if (b->tree->nodes >= NODES_MOST)
        return refuse(b, event->start_mark, NULL, "more values than any configuration needs");
    return SONAR_OK;
}

static sonar_code handle(builder *b, const yaml_event_t *event) {
    const sonar_code code = check_event(b, event);
    if (code)
        return code;
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (b->documents++)
            return refuse(b, event->start_mark, "one document", "a second document begins here");
        return SONAR_OK;
    case YAML_SCALAR_EVENT:
        return add_scalar(b, event);
    case YAML_SEQUENCE_START_EVENT:
        return open_collection(b, SONAR_SEQUENCE, event);
    case YAML_MAPPING_START_EVENT:
        return open_collection(b, SONAR_MAPPING, event);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        b->depth--;
        return SONAR_OK;
    case YAML_STREAM_END_EVENT:
        b->done = true;
        return SONAR_OK;
    default:
        return SONAR_OK;
    }
}

sonar_code sonar_tree_parse(const sonar_text *text, sonar_tree *tree, sonar_report *report) {
    builder b = {.text = text, .report = report, .tree = tree};
    *tree = (sonar_tree){.root = NULL};
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return SONAR_ENOMEM;
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text->bytes, text->size);
    sonar_code code = SONAR_OK;
    while (!code && !b.done) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            code = broken(&b, &parser);
            break;
        }
        code = handle(&b, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (code)
        sonar_tree_clear(tree);
    return code;
}

void sonar_tree_clear(sonar_tree *tree) {
    while (tree->newest) {
        sonar_node *older = tree->newest->older;
        free(tree->newest->text);
        free(tree->newest);
        tree->newest = older;
    }
    *tree = (sonar_tree){.root = NULL};
}
