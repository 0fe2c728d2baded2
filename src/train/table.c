/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table as a file. It decides what runs, so it is read strictly: a doubtful table is refused as
 * a whole. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/tree.h"
#include "core/core.h"
#include "train/train.h"

enum { BYTES_MOST = 1 << 18 }; /* three times the size of a full table */

#define NAME(name) #name,
static const char *const shape_names[] = {SONAR_TRAIN_SHAPE(NAME)};
enum { SHAPE_FIELDS = sizeof shape_names / sizeof *shape_names };
_Static_assert(sizeof(sonar_train_shape) == SHAPE_FIELDS * sizeof(size_t), "all are counts");

/* Lists the shape's counts in the order of their names. */
static void list_counts(const sonar_train_shape *shape, size_t counts[SHAPE_FIELDS]) {
    memcpy(counts, shape, sizeof *shape);
}

const sonar_train_decision *sonar_train_find(const sonar_train_table *table, const char *name) {
    for (size_t i = 0; i < table->decisions; i++)
        if (!strcmp(table->decision[i].name, name))
            return &table->decision[i];
    return NULL;
}

const char *sonar_train_chosen(const sonar_train_table *table, const char *decision) {
    const sonar_train_decision *found = sonar_train_find(table, decision);
    return found ? found->candidate[found->chosen].name : NULL;
}

bool sonar_train_path(const char *state_dir, const sonar_rank_place *place, char *path,
                      size_t size) {
    char of_rank[16] = "";
    if (place && place->ranks > 1)
        snprintf(of_rank, sizeof of_rank, "_r%zu", place->rank % 10000);
    int length = state_dir ? snprintf(path, size, "%s/train%s.yaml", state_dir, of_rank) : -1;
    return length > 0 && (size_t)length < size;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_text(FILE *to, const char *key, const char *text, const char *end) {
    char clean[SONAR_TRAIN_TEXT];
    sonar_text_clean(text, strlen(text), clean, sizeof clean);
    fprintf(to, "%s: \"", key);
    for (const char *c = clean; *c; c++)
        fprintf(to, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    fprintf(to, "\"%s", end);
}

static void put_candidate(FILE *to, const sonar_train_timing *t) {
    fprintf(to, "  - {name: %s, ", t->name);
    if (t->available)
        fprintf(to, "median_us: %.9g, spread_us: %.9g, repetitions: %zu}\n", t->median_s * 1e6,
                t->spread_s * 1e6, t->repetitions);
    else
        put_text(to, "unavailable", t->note, "}\n");
}

/* The fingerprint comes last, so that a truncated file is not valid. */
static void put_table(FILE *to, const sonar_train_table *table) {
    size_t counts[SHAPE_FIELDS];
    list_counts(&table->fingerprint.shape, counts);
    fputs("schema: " SONAR_TRAIN_SCHEMA "\n", to);
    put_text(to, "made", table->made, "\ndecisions:\n");
    for (size_t i = 0; i < table->decisions; i++) {
        const sonar_train_decision *d = &table->decision[i];
        fprintf(to, "- name: %s\n  chosen: %s\n", d->name, d->candidate[d->chosen].name);
        put_text(to, "  reason", d->reason, "\n");
        fputs("  candidates:\n", to);
        for (size_t c = 0; c < d->candidates; c++)
            put_candidate(to, &d->candidate[c]);
    }
    fputs("node:\n", to);
    for (size_t i = 0; i < SONAR_TRAIN_NODE_FIELDS; i++) {
        fputs("  ", to);
        put_text(to, sonar_train_node_names[i], table->fingerprint.node[i], "\n");
    }
    fputs("shape:\n", to);
    for (size_t i = 0; i < SHAPE_FIELDS; i++)
        fprintf(to, "  %s: %zu\n", shape_names[i], counts[i]);
}

sonar_code sonar_train_save(const sonar_train_table *table, const char *path, sonar_error *err) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (to)
        put_table(to, table);
    sonar_code code = !to || fclose(to)
                          ? sonar_fail(err, SONAR_ENOMEM, path, "no memory for the table")
                          : sonar_state_write(path, text, bytes, err);
    free(text);
    return code;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reading continues after a mistake, with empty values; the first mistake is reported. */
typedef struct reader {
    const char *path;
    sonar_code code;
    sonar_error *err;
} reader;

static void refuse(reader *r, const sonar_node *at, const char *key, const char *what) {
    if (!r->code)
        r->code =
            sonar_fail(r->err, SONAR_EINVAL, r->path,
                       "line %zu does not belong to a training table of this version: '%s' %s; run "
                       "sonard --train again",
                       at ? at->place.line : 1, key, what);
}

/* The value of a key, or NULL. */
static const sonar_node *get(reader *r, const sonar_node *map, const char *key,
                             sonar_node_kind kind) {
    const sonar_node *name = map && map->kind == SONAR_MAPPING ? map->first : NULL;
    while (name && (name->kind != SONAR_SCALAR || strcmp(name->text, key) != 0))
        name = name->next->next;
    if (name && name->next->kind == kind)
        return name->next;
    refuse(r, map, key, name ? "is of another kind" : "is missing");
    return NULL;
}

/* Checks the number of keys. Whether they are the right ones is checked when they are read. */
static void need_keys(reader *r, const sonar_node *map, const char *what, size_t count) {
    if (!map || map->kind != SONAR_MAPPING || map->count != 2 * count)
        refuse(r, map, what, "has too many or too few keys");
}

static void get_text(reader *r, const sonar_node *map, const char *key, char *text, size_t size) {
    const sonar_node *node = get(r, map, key, SONAR_SCALAR);
    *text = 0;
    if (node && (node->length >= size || strlen(node->text) != node->length))
        refuse(r, node, key, "is too long or holds a zero byte");
    else if (node)
        memcpy(text, node->text, node->length + 1);
}

static void get_word(reader *r, const sonar_node *map, const char *key, char *word, size_t size) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    get_text(r, map, key, word, size);
    if (!*word || word[strspn(word, letters)])
        refuse(r, map, key, "is not one word");
}

static double get_number(reader *r, const sonar_node *map, const char *key) {
    char text[40], *end;
    get_text(r, map, key, text, sizeof text);
    double number = strtod(text, &end);
    if (*text && !text[strspn(text, "0123456789.e+-")] && !*end && isfinite(number) && number >= 0)
        return number;
    refuse(r, map, key, "is not a number of at least 0");
    return 0;
}

static void get_candidate(reader *r, const sonar_node *map, sonar_train_timing *t) {
    t->available = map->kind == SONAR_MAPPING && map->count == 8;
    need_keys(r, map, "candidates", t->available ? 4 : 2);
    get_word(r, map, "name", t->name, sizeof t->name);
    if (!t->available) {
        get_text(r, map, "unavailable", t->note, sizeof t->note);
        return;
    }
    t->median_s = get_number(r, map, "median_us") * 1e-6;
    t->spread_s = get_number(r, map, "spread_us") * 1e-6;
    const double repetitions = get_number(r, map, "repetitions");
    if (repetitions != floor(repetitions) || repetitions > 1e9)
        refuse(r, map, "repetitions", "is not a whole number");
    t->repetitions = (size_t)fmin(repetitions, 1e9);
}

static void get_decision(reader *r, const sonar_node *map, sonar_train_decision *d) {
    char chosen[sizeof d->candidate->name];
    need_keys(r, map, "decisions", 4);
    get_word(r, map, "name", d->name, sizeof d->name);
    get_text(r, map, "reason", d->reason, sizeof d->reason);
    get_word(r, map, "chosen", chosen, sizeof chosen);
    const sonar_node *list = get(r, map, "candidates", SONAR_SEQUENCE);
    if (list && list->count > SONAR_TRAIN_CANDIDATES)
        refuse(r, list, "candidates", "are too many");
    for (const sonar_node *n = list ? list->first : NULL; n && !r->code; n = n->next)
        get_candidate(r, n, &d->candidate[d->candidates++]);
    while (d->chosen < d->candidates && (strcmp(d->candidate[d->chosen].name, chosen) != 0 ||
                                         !d->candidate[d->chosen].available))
        d->chosen++;
    if (d->chosen == d->candidates)
        refuse(r, map, "chosen", "names no available candidate");
}

static void get_decisions(reader *r, const sonar_node *root, sonar_train_table *table) {
    const sonar_node *list = get(r, root, "decisions", SONAR_SEQUENCE);
    if (list && list->count > SONAR_TRAIN_DECISIONS)
        refuse(r, list, "decisions", "are too many");
    for (const sonar_node *n = list ? list->first : NULL; n && !r->code; n = n->next) {
        sonar_train_decision *decision = &table->decision[table->decisions];
        get_decision(r, n, decision);
        if (sonar_train_find(table, decision->name))
            refuse(r, n, decision->name, "is decided twice");
        table->decisions++;
    }
    if (!r->code && !sonar_train_find(table, "placement"))
        refuse(r, list, "placement", "is not decided");
}

/* A valid table that was made for another node or configuration. */
static void compare(reader *r, const char *what, const char *name, const char *then,
                    const char *now) {
    if (!r->code && strcmp(then, now) != 0)
        r->code = sonar_fail(r->err, SONAR_EINVAL, r->path,
                             "made for another %s: %s was '%.100s' and is '%.100s'; run "
                             "sonard --train again",
                             what, name, then, now);
}

static void compare_fingerprint(reader *r, const sonar_node *root,
                                const sonar_train_fingerprint *here) {
    const sonar_node *node = get(r, root, "node", SONAR_MAPPING);
    const sonar_node *shape = get(r, root, "shape", SONAR_MAPPING);
    char then[SONAR_TRAIN_TEXT], now[24];
    size_t counts[SHAPE_FIELDS];
    list_counts(&here->shape, counts);
    need_keys(r, node, "node", SONAR_TRAIN_NODE_FIELDS);
    need_keys(r, shape, "shape", SHAPE_FIELDS);
    for (size_t i = 0; i < SONAR_TRAIN_NODE_FIELDS; i++) {
        get_text(r, node, sonar_train_node_names[i], then, sizeof then);
        compare(r, "node", sonar_train_node_names[i], then, here->node[i]);
    }
    for (size_t i = 0; i < SHAPE_FIELDS; i++) {
        get_text(r, shape, shape_names[i], then, sizeof then);
        snprintf(now, sizeof now, "%zu", counts[i]);
        compare(r, "configuration", shape_names[i], then, now);
    }
}

static void get_table(reader *r, const sonar_node *root, const sonar_train_fingerprint *expected,
                      sonar_train_table *table) {
    char schema[64];
    get_text(r, root, "schema", schema, sizeof schema);
    if (strcmp(schema, SONAR_TRAIN_SCHEMA) != 0)
        refuse(r, root, "schema", "is not " SONAR_TRAIN_SCHEMA);
    need_keys(r, root, "the table", 5);
    get_text(r, root, "made", table->made, sizeof table->made);
    compare_fingerprint(r, root, expected);
    get_decisions(r, root, table);
    table->fingerprint = *expected;
}

static void parse(reader *r, const sonar_text *text, const sonar_train_fingerprint *expected,
                  sonar_train_table *table) {
    sonar_tree tree = {0};
    sonar_place place;
    sonar_report *report = sonar_report_create();
    r->code = report ? sonar_tree_parse(text, &tree, report) : SONAR_ENOMEM;
    if (r->code == SONAR_ENOMEM)
        sonar_fail(r->err, SONAR_ENOMEM, r->path, "no memory to read it");
    else if (r->code)
        sonar_fail(r->err, SONAR_EINVAL, r->path, "is not a training table: %s",
                   sonar_report_first(report, &place));
    else
        get_table(r, tree.root, expected, table);
    sonar_tree_clear(&tree);
    sonar_report_destroy(report);
}

sonar_code sonar_train_load(const char *path, const sonar_train_fingerprint *expected,
                            sonar_train_table *table, sonar_error *err) {
    sonar_text text = {.name = path};
    char *bytes;
    reader r = {.path = path, .err = err};
    memset(table, 0, sizeof *table);
    r.code = sonar_state_read(path, BYTES_MOST, &bytes, &text.size, err);
    text.bytes = bytes;
    if (!r.code)
        parse(&r, &text, expected, table);
    free(bytes);
    return r.code;
}

/* ---- report ---------------------------------------------------------------------------------- */

void sonar_train_print(const sonar_train_table *table, FILE *to) {
    for (size_t i = 0; i < table->decisions; i++) {
        const sonar_train_decision *d = &table->decision[i];
        fprintf(to, "%s: %s, %s\n", d->name, d->candidate[d->chosen].name, d->reason);
        for (size_t c = 0; c < d->candidates; c++) {
            const sonar_train_timing *t = &d->candidate[c];
            fprintf(to, "  %c %-14s", c == d->chosen ? '*' : ' ', t->name);
            if (!t->available)
                fprintf(to, " not available: %s\n", t->note);
            else if (!t->repetitions)
                fprintf(to, "%12.1f us, an estimate\n", t->median_s * 1e6);
            else
                fprintf(to, "%12.1f us, +-%.1f, %zu times\n", t->median_s * 1e6, t->spread_s * 1e6,
                        t->repetitions);
        }
    }
}
