/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reads YAML mappings into structs by tables of fields; every complaint has its place and says what
 * would be accepted. Reading goes on after a mistake so that all are reported at once. */
#ifndef SIM_YAML_MAP_H
#define SIM_YAML_MAP_H

#include "config/tree.h"

typedef struct sim_yaml {
    sonar_tree tree;
    sonar_text text;
    char *bytes; /* of the file */
    sonar_report *report;
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

/* Opens and parses a file; syntax errors are reported like any other. Only on SONAR_OK is there a
 * root. sim_yaml_close is needed in every case. */
sonar_code sim_yaml_open(sim_yaml *yaml, const char *path);
/* Writes what there was to complain about. */
void sim_yaml_close(sim_yaml *yaml, FILE *to);

void sim_yaml_complain(sim_yaml *yaml, const sonar_node *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Fills `to` from the mapping; keys not in the table, repeated keys and bad values are errors. */
void sim_yaml_read(sim_yaml *yaml, const sonar_node *map, const sim_field *fields, void *to);
/* The value of `key`, or NULL if map is no mapping or has no such key. */
const sonar_node *sim_yaml_get(const sonar_node *map, const char *key);
/* Length of a sequence; complains and returns 0 if it is none or longer than `most`. */
size_t sim_yaml_length(sim_yaml *yaml, const sonar_node *sequence, const char *what, size_t most);
bool sim_yaml_number(sim_yaml *yaml, const sonar_node *node, const char *what, double low,
                     double high, double *to);
/* The text of a scalar, or NULL. */
const char *sim_yaml_text(const sonar_node *node);

#endif
