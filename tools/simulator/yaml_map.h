/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reads YAML mappings into structs by tables of fields. Every message has a place and says what
 * would be accepted. Reading continues after a mistake, so that all are reported at once. */
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
    SIM_CHOICE,     /* int: index of the word in `words`, plus `low` */
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

/* Opens and parses a file; syntax errors are reported like others. There is a root only on
 * SONAR_OK. Call sim_yaml_close in any case. */
sonar_code sim_yaml_open(sim_yaml *yaml, const char *path);
/* Writes all messages. */
void sim_yaml_close(sim_yaml *yaml, FILE *to);

void sim_yaml_complain(sim_yaml *yaml, const sonar_node *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Fills `to` from the mapping; keys not in the table, repeated keys and bad values are errors. */
void sim_yaml_read(sim_yaml *yaml, const sonar_node *map, const sim_field *fields, void *to);
/* The value of `key`; NULL if map is not a mapping or does not have the key. */
const sonar_node *sim_yaml_get(const sonar_node *map, const char *key);
/* Length of a sequence; reports and returns 0 if it is not a sequence, or longer than `most`. */
size_t sim_yaml_length(sim_yaml *yaml, const sonar_node *sequence, const char *what, size_t most);
bool sim_yaml_number(sim_yaml *yaml, const sonar_node *node, const char *what, double low,
                     double high, double *to);
/* The text of a scalar, or NULL. */
const char *sim_yaml_text(const sonar_node *node);

#endif
