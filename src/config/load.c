/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Loading of a configuration from start to end, and its destruction. */
#include "config/options.h"

#include "core/core.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MOST = 64 << 20 };

static void destroy_settings(sonar_settings *settings) {
    if (!settings)
        return;
    for (size_t id = 0; id < SONAR_OPTIONS; id++) {
        sonar_value *v = &settings->value[id];
        for (size_t i = 0; v->texts && i < v->count; i++)
            free(v->texts[i]);
        free(v->texts);
        free(v->numbers);
        free(v->text);
    }
    free(settings->file);
    free(settings);
}

bool sonar_config_allocate_sensors(sonar_config *c, size_t sensors) {
    c->position_m = sonar_alloc(sensors, 3 * sizeof *c->position_m);
    c->channel = sonar_alloc(sensors, sizeof *c->channel);
    c->used = sonar_alloc(sensors, sizeof *c->used);
    c->gain_db = sonar_alloc(sensors, sizeof *c->gain_db);
    c->phase_deg = sonar_alloc(sensors, sizeof *c->phase_deg);
    c->delay_us = sonar_alloc(sensors, sizeof *c->delay_us);
    c->shading_weight = sonar_alloc(sensors, sizeof *c->shading_weight);
    return c->position_m && c->channel && c->used && c->gain_db && c->phase_deg && c->delay_us &&
           c->shading_weight;
}

void sonar_config_free_sensors(sonar_config *c) {
    free(c->position_m);
    free(c->channel);
    free(c->used);
    free(c->gain_db);
    free(c->phase_deg);
    free(c->delay_us);
    free(c->shading_weight);
}

void sonar_config_destroy(sonar_config *config) {
    if (!config)
        return;
    sonar_config_free_sensors(config);
    for (size_t i = 0; i < config->ingest_endpoints; i++)
        free(config->ingest_endpoint[i]);
    sonar_scan_destroy(&config->cbf_scan);
    sonar_scan_destroy(&config->mvdr_scan);
    free(config->output_endpoint);
    for (size_t i = 0; i < SONAR_NMEA_MOST; i++)
        free(config->navigation_nmea[i]);
    free(config->navigation_endpoint);
    free(config->control_endpoint);
    free(config->shared_memory);
    free(config->plugin_dir);
    free(config->state_dir);
    sonar_security_clear(&config->security);
    free(config->metrics_listen);
    free(config->record_directory);
    destroy_settings(config->settings);
    free(config);
}

static sonar_config *create(const char *name) {
    sonar_config *config = sonar_alloc(1, sizeof *config);
    if (!config)
        return NULL;
    config->settings = sonar_alloc(1, sizeof *config->settings);
    if (config->settings)
        config->settings->file = strdup(name);
    if (!config->settings || !config->settings->file) {
        sonar_config_destroy(config);
        return NULL;
    }
    return config;
}

/* The tree is freed after loading; values keep only their places. */
static void forget_nodes(sonar_settings *settings) {
    for (size_t id = 0; id < SONAR_OPTIONS; id++)
        settings->value[id].node = NULL;
}

static sonar_code build(sonar_loader *loader) {
    sonar_tree tree;
    sonar_code code = sonar_tree_parse(loader->text, &tree, loader->report);
    if (code)
        return code;
    loader->root = tree.root;
    sonar_read_settings(loader);
    if (loader->root && loader->root->kind == SONAR_MAPPING && !loader->no_memory)
        sonar_resolve(loader);
    sonar_tree_clear(&tree);
    forget_nodes(loader->settings);
    if (loader->no_memory)
        return SONAR_ENOMEM;
    if (sonar_report_errors(loader->report))
        return SONAR_EINVAL;
    code = sonar_settings_digest(loader->settings, loader->config->digest);
    snprintf(loader->config->version, sizeof loader->config->version, "1-%s",
             loader->config->digest);
    return code;
}

/* The inputs besides the text; see sonar_loader. */
struct surroundings {
    const char *directory, *credentials_dir;
    bool with_keys;
    const sonar_config *like;
};

static sonar_code load(const sonar_text *text, const struct surroundings *around,
                       sonar_config **config, sonar_report *report) {
    *config = create(text->name);
    if (!*config) {
        sonar_report_add(report, SONAR_MISTAKE, text, (sonar_place){0, 0}, NULL, "no memory");
        return SONAR_ENOMEM;
    }
    sonar_loader loader = {.text = text,
                           .report = report,
                           .settings = (*config)->settings,
                           .directory = around->directory,
                           .credentials_dir = around->credentials_dir,
                           .with_keys = around->with_keys,
                           .like = around->like,
                           .config = *config};
    const sonar_code code = build(&loader);
    if (code == SONAR_ENOMEM)
        sonar_report_add(report, SONAR_MISTAKE, text, (sonar_place){0, 0}, NULL, "no memory");
    if (code) {
        sonar_config_destroy(*config);
        *config = NULL;
    }
    return code;
}

/* Relative paths start at the folder of the text's file. */
static sonar_code load_in_folder(const sonar_text *text, struct surroundings around,
                                 sonar_config **config, sonar_report *report) {
    const char *slash = strrchr(text->name, '/');
    char *directory =
        slash ? strndup(text->name, sonar_max_size(1, (size_t)(slash - text->name))) : strdup("");
    around.directory = directory;
    *config = NULL;
    const sonar_code code = directory ? load(text, &around, config, report) : SONAR_ENOMEM;
    free(directory);
    return code;
}

sonar_code sonar_config_read(const sonar_text *text, const sonar_config *like,
                             sonar_config **config, sonar_report *report) {
    return load_in_folder(text, (struct surroundings){.like = like}, config, report);
}

sonar_code sonar_config_parse(const char *name, const char *text, size_t bytes,
                              sonar_config **config, sonar_report *report) {
    const size_t mark = sonar_mark_bytes(text, bytes);
    const sonar_text all = {.name = name, .bytes = text + mark, .size = bytes - mark};
    return load(&all, &(struct surroundings){.directory = ""}, config, report);
}

static sonar_code load_file(const char *path, struct surroundings around, sonar_config **config,
                            sonar_report *report) {
    *config = NULL;
    size_t bytes = 0;
    char *text;
    const sonar_code read =
        sonar_file_read(path, FILE_BYTES_MOST, &text, &bytes, report, NULL, (sonar_place){0, 0});
    if (read)
        return read;
    const sonar_text all = {.name = path, .bytes = text, .size = bytes};
    const sonar_code code = load_in_folder(&all, around, config, report);
    free(text);
    return code;
}

sonar_code sonar_config_load(const char *path, sonar_config **config, sonar_report *report) {
    return load_file(path, (struct surroundings){0}, config, report);
}

sonar_code sonar_config_load_with_keys(const char *path, const char *credentials_dir,
                                       sonar_config **config, sonar_report *report) {
    const struct surroundings around = {.credentials_dir = credentials_dir, .with_keys = true};
    const sonar_code code = load_file(path, around, config, report);
    if (code || !credentials_dir)
        return code;
    (*config)->security.credentials_dir = strdup(credentials_dir);
    if ((*config)->security.credentials_dir)
        return SONAR_OK;
    sonar_config_destroy(*config);
    *config = NULL;
    return SONAR_ENOMEM;
}
