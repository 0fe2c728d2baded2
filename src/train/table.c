/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Looking things up in a table, and writing it. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#include "train/table.h"

#define FIELD(member)                                                                              \
    { #member, offsetof(sonar_train_shape, member) }

const shape_field sonar_train_shape_fields[SONAR_TRAIN_SHAPE_FIELDS] = {FIELD(sensors),
                                                                        FIELD(sensors_used),
                                                                        FIELD(channels),
                                                                        FIELD(length),
                                                                        FIELD(hop),
                                                                        FIELD(bins),
                                                                        FIELD(directions),
                                                                        FIELD(ranges),
                                                                        FIELD(lofar_bins),
                                                                        FIELD(cbf_bins),
                                                                        FIELD(mvdr_length),
                                                                        FIELD(mvdr_hop),
                                                                        FIELD(mvdr_bins),
                                                                        FIELD(mvdr_directions),
                                                                        FIELD(mvdr_snapshots),
                                                                        FIELD(mvdr_new),
                                                                        FIELD(mvdr_sweeps),
                                                                        FIELD(mvdr_own_dft),
                                                                        FIELD(mvdr_two_sided),
                                                                        FIELD(workers),
                                                                        FIELD(sample_bytes),
                                                                        FIELD(cbf_length),
                                                                        FIELD(cbf_hop),
                                                                        FIELD(cbf_snapshots)};
_Static_assert(sizeof(sonar_train_shape) == SONAR_TRAIN_SHAPE_FIELDS * sizeof(size_t),
               "every member of the shape has a name");

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

/* ---- building the document ------------------------------------------------------------------- */

/* libyaml's node numbers begin at 1; 0 is a failure to allocate, which is kept until the end. */
typedef struct writer {
    yaml_document_t document;
    bool failed;
} writer;

static int keep(writer *w, int node) {
    w->failed |= node == 0;
    return node;
}

static int add_scalar(writer *w, const char *text, yaml_scalar_style_t style) {
    return keep(w,
                yaml_document_add_scalar(&w->document, NULL, (const yaml_char_t *)text, -1, style));
}

static int add_map(writer *w, yaml_mapping_style_t style) {
    return keep(w, yaml_document_add_mapping(&w->document, NULL, style));
}

static int add_list(writer *w) {
    return keep(w, yaml_document_add_sequence(&w->document, NULL, YAML_BLOCK_SEQUENCE_STYLE));
}

static void put(writer *w, int map, const char *key, int value) {
    int name = add_scalar(w, key, YAML_PLAIN_SCALAR_STYLE);
    if (!w->failed && !yaml_document_append_mapping_pair(&w->document, map, name, value))
        w->failed = true;
}

static void append(writer *w, int list, int item) {
    if (!w->failed && !yaml_document_append_sequence_item(&w->document, list, item))
        w->failed = true;
}

static void put_word(writer *w, int map, const char *key, const char *text) {
    put(w, map, key, add_scalar(w, text, YAML_PLAIN_SCALAR_STYLE));
}

static void put_text(writer *w, int map, const char *key, const char *text) {
    put(w, map, key, add_scalar(w, text, YAML_DOUBLE_QUOTED_SCALAR_STYLE));
}

static void put_number(writer *w, int map, const char *key, double number) {
    char text[32];
    snprintf(text, sizeof text, "%.9g", number);
    put_word(w, map, key, text);
}

static void put_fingerprint(writer *w, int root, sonar_train_fingerprint *fingerprint) {
    int node = add_map(w, YAML_BLOCK_MAPPING_STYLE), shape = add_map(w, YAML_BLOCK_MAPPING_STYLE);
    for (size_t i = 0; i < SONAR_TRAIN_NODE_FIELDS; i++)
        put_text(w, node, sonar_train_node_names[i], fingerprint->node[i]);
    for (size_t i = 0; i < SONAR_TRAIN_SHAPE_FIELDS; i++)
        put_number(w, shape, sonar_train_shape_fields[i].name,
                   (double)*sonar_train_shape_member(&fingerprint->shape, i));
    put(w, root, "node", node);
    put(w, root, "shape", shape);
}

static int add_timing(writer *w, const sonar_train_timing *timing) {
    int map = add_map(w, YAML_FLOW_MAPPING_STYLE);
    put_word(w, map, "name", timing->name);
    if (timing->available) {
        put_number(w, map, "median_us", timing->median_s * 1e6);
        put_number(w, map, "spread_us", timing->spread_s * 1e6);
        put_number(w, map, "repetitions", (double)timing->repetitions);
    } else {
        put_text(w, map, "unavailable", timing->note);
    }
    return map;
}

static void put_decisions(writer *w, int root, const sonar_train_table *table) {
    int list = add_list(w);
    for (size_t i = 0; i < table->decisions; i++) {
        const sonar_train_decision *decision = &table->decision[i];
        int map = add_map(w, YAML_BLOCK_MAPPING_STYLE), candidates = add_list(w);
        for (size_t c = 0; c < decision->candidates; c++)
            append(w, candidates, add_timing(w, &decision->candidate[c]));
        put_word(w, map, "name", decision->name);
        put_word(w, map, "chosen", decision->candidate[decision->chosen].name);
        put_text(w, map, "reason", decision->reason);
        put(w, map, "candidates", candidates);
        append(w, list, map);
    }
    put(w, root, "decisions", list);
}

static void put_line(writer *w, int map, const char *key, const sonar_train_line *line) {
    int node = add_map(w, YAML_FLOW_MAPPING_STYLE);
    put_number(w, node, "offset_us", line->offset_s * 1e6);
    put_number(w, node, "us_per_mib", line->s_per_byte * 1e6 * 1048576);
    put(w, map, key, node);
}

static void put_memory(writer *w, int root, const sonar_train_table *table) {
    int kinds = add_list(w), buffers = add_list(w);
    for (size_t i = 0; i < table->kinds; i++) {
        int map = add_map(w, YAML_BLOCK_MAPPING_STYLE);
        put_word(w, map, "kind", table->kind[i].kind);
        put_line(w, map, "make", &table->kind[i].make);
        put_line(w, map, "to_device", &table->kind[i].to_device);
        put_line(w, map, "from_device", &table->kind[i].from_device);
        append(w, kinds, map);
    }
    for (size_t i = 0; i < table->buffers; i++) {
        const sonar_train_buffer *buffer = &table->buffer[i];
        int map = add_map(w, YAML_FLOW_MAPPING_STYLE);
        put_word(w, map, "name", buffer->name);
        put_number(w, map, "bytes", buffer->bytes);
        put_number(w, map, "to_device", buffer->to_device);
        put_number(w, map, "from_device", buffer->from_device);
        put_word(w, map, "chosen", buffer->chosen);
        append(w, buffers, map);
    }
    put(w, root, "memory", kinds);
    put(w, root, "buffers", buffers);
}

/* The schema goes first, so that whoever opens the file sees what it is. */
static bool build(writer *w, const sonar_train_table *table) {
    sonar_train_fingerprint fingerprint = table->fingerprint;
    if (!yaml_document_initialize(&w->document, NULL, NULL, NULL, 1, 1))
        return false;
    int root = add_map(w, YAML_BLOCK_MAPPING_STYLE);
    put_word(w, root, "schema", SONAR_TRAIN_SCHEMA);
    put_text(w, root, "made", table->made);
    put_fingerprint(w, root, &fingerprint);
    put_decisions(w, root, table);
    put_memory(w, root, table);
    if (w->failed)
        yaml_document_delete(&w->document);
    return !w->failed;
}

/* ---- the file -------------------------------------------------------------------------------- */

static sonar_code dump(const sonar_train_table *table, FILE *file, const char *path,
                       sonar_error *err) {
    writer w = {0};
    yaml_emitter_t emitter;
    if (!yaml_emitter_initialize(&emitter))
        return sonar_fail(err, SONAR_ENOMEM, path, "no memory for the YAML writer");
    yaml_emitter_set_output_file(&emitter, file);
    yaml_emitter_set_width(&emitter, -1);
    sonar_code code = SONAR_OK;
    if (!build(&w, table))
        code = sonar_fail(err, SONAR_ENOMEM, path, "no memory for the table");
    else if (!yaml_emitter_dump(&emitter, &w.document)) /* takes the document in any case */
        code = sonar_fail(err, SONAR_ESYS, path, "cannot be written: %s",
                          emitter.problem ? emitter.problem : "unknown");
    yaml_emitter_delete(&emitter);
    return code;
}

static sonar_code fill(const sonar_train_table *table, int fd, const char *path, sonar_error *err) {
    FILE *file = fdopen(fd, "w");
    if (!file) {
        close(fd);
        return sonar_fail(err, SONAR_ESYS, path, "fdopen: %s", strerror(errno));
    }
    sonar_code code = dump(table, file, path, err);
    if (!code && (fflush(file) || fchmod(fd, 0644) || fsync(fd)))
        code = sonar_fail(err, SONAR_ESYS, path, "cannot be written: %s", strerror(errno));
    if (fclose(file) && !code)
        code = sonar_fail(err, SONAR_ESYS, path, "cannot be written: %s", strerror(errno));
    return code;
}

sonar_code sonar_train_save(const sonar_train_table *table, const char *path, sonar_error *err) {
    char fresh[PATH_MAX];
    int length = snprintf(fresh, sizeof fresh, "%s.XXXXXX", path);
    if (length < 0 || (size_t)length >= sizeof fresh)
        return sonar_fail(err, SONAR_ESYS, "train", "the table's path is too long");
    int fd = mkstemp(fresh);
    if (fd < 0)
        return sonar_fail(err, SONAR_ESYS, path, "cannot be written: %s", strerror(errno));
    sonar_code code = fill(table, fd, path, err);
    if (!code && rename(fresh, path))
        code = sonar_fail(err, SONAR_ESYS, path, "cannot be replaced: %s", strerror(errno));
    if (code)
        unlink(fresh);
    return code;
}
