/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A YAML document as a tree of nodes with their places, for a configuration or a scene of the
 * simulator. */
#ifndef SONAR_CONFIG_TREE_H
#define SONAR_CONFIG_TREE_H

#include "config/report.h"

typedef enum sonar_node_kind { SONAR_SCALAR = 0, SONAR_SEQUENCE, SONAR_MAPPING } sonar_node_kind;

/* A mapping's children are key, value, key, value. */
typedef struct sonar_node {
    sonar_node_kind kind;
    sonar_place place;
    bool quoted;
    char *text; /* scalar, zero-terminated; may contain further zeros */
    size_t length, count;
    struct sonar_node *first, *last, *next; /* children; next sibling */
    struct sonar_node *older;               /* all nodes of the tree, for freeing */
} sonar_node;

typedef struct sonar_tree {
    sonar_node *root; /* NULL: an empty document */
    sonar_node *newest;
    size_t nodes;
} sonar_tree;

/* Reads one document. Anchors, aliases, tags, several documents and deep nesting are refused. On an
 * error the report has it and the tree is empty. The caller must clear the tree in any case. */
sonar_code sonar_tree_parse(const sonar_text *text, sonar_tree *tree, sonar_report *report);
void sonar_tree_clear(sonar_tree *tree);

#endif
