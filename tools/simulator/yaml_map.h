/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reads YAML mappings into structs by tables of fields; every complaint has its place and says what
 * would be accepted. Reading goes on after a mistake so that all are reported at once. */
#ifndef SIM_YAML_MAP_H
#define SIM_YAML_MAP_H

#include <stdio.h>
#include <yaml.h>

#include "sonar/sonar.h"

typedef struct sim_yaml {
    yaml_document_t document;
    const char *name;
    FILE *report;
    size_t errors;
} sim_yaml;

typedef enum sim_field_type {
    SIM_NUMBER = 0, /* double */
    SIM_COUNT,      /* size_t */
    SIM_CHOICE,     /* int: place of the word in `words`, counted from `low` */
    SIM_TEXT,       /* char[64] */
    SIM_NODE        /* read elsewhere */
} sim_field_type;

typedef struct sim_field {
    const char *key; /* NULL ends a table */
    sim_field_type type;
    size_t offset;
    double low, high; /* accepted, inclusive */
    bool required;
    const char *words; /* SIM_CHOICE: "s16|s24" */
} sim_field;

/* Opens and parses a file; syntax errors are reported like any other. */
sonar_code sim_yaml_open(sim_yaml *yaml, const char *path, FILE *report);
void sim_yaml_close(sim_yaml *yaml);

void sim_yaml_complain(sim_yaml *yaml, const yaml_node_t *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Fills `to` from the mapping; keys not in the table, repeated keys and bad values are errors. */
void sim_yaml_read(sim_yaml *yaml, yaml_node_t *map, const sim_field *fields, void *to);
/* The value of `key`, or NULL if map is no mapping or has no such key. */
yaml_node_t *sim_yaml_get(sim_yaml *yaml, yaml_node_t *map, const char *key);
/* Length of a sequence; complains and returns 0 if it is none or longer than `most`. */
size_t sim_yaml_length(sim_yaml *yaml, yaml_node_t *sequence, const char *what, size_t most);
yaml_node_t *sim_yaml_item(sim_yaml *yaml, yaml_node_t *sequence, size_t index);
bool sim_yaml_number(sim_yaml *yaml, yaml_node_t *node, const char *what, double low, double high,
                     double *to);
/* The text of a scalar, or NULL. */
const char *sim_yaml_text(const yaml_node_t *node);

#endif
