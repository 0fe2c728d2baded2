/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "ingest/frame.h"
#include "yaml_map.h"

enum { LISTED_MOST = 100000 };
#define LEVEL_LOW  (-300.0)
#define LEVEL_HIGH 300.0
#define BAND_TOP   0.45 /* share of fs above which the interpolation of delays loses accuracy */
#define FAULT_WORDS                                                                                \
    "none|drop|repeat|reorder|corrupt|truncate|oversize|wrong_epoch|wrong_array|wrong_rate|nan|"   \
    "restart"

/* What the reading functions share. */
typedef struct loader {
    sim_yaml yaml;
    const sim_limits *limits;
    sim_scene *scene;
} loader;

const char *sim_fault_name(sim_fault_kind kind) {
    static const char *const name[SIM_FAULT_KINDS] = {
        "none",     "drop",        "repeat",      "reorder",    "corrupt", "truncate",
        "oversize", "wrong_epoch", "wrong_array", "wrong_rate", "nan",     "restart"};
    return (size_t)kind < SIM_FAULT_KINDS ? name[kind] : "?";
}

/* ---- spectra and tones ----------------------------------------------------------------------- */

static void read_band(loader *l, const sonar_node *node, sim_spectrum *spectrum) {
    double top = BAND_TOP * l->limits->fs_hz;
    if (sim_yaml_length(&l->yaml, node, "band_hz", 2) != 2) {
        if (node->kind == SONAR_SEQUENCE)
            sim_yaml_complain(&l->yaml, node, "band_hz: expected [low, high]");
        return;
    }
    sim_yaml_number(&l->yaml, node->first, "band_hz", 0, top, &spectrum->low_hz);
    sim_yaml_number(&l->yaml, node->last, "band_hz", 0, top, &spectrum->high_hz);
    if (spectrum->high_hz <= spectrum->low_hz)
        sim_yaml_complain(&l->yaml, node, "band_hz: the second frequency must be above the first");
}

static void read_points(loader *l, const sonar_node *node, sim_spectrum *spectrum) {
    size_t points = sim_yaml_length(&l->yaml, node, "points", SIM_POINTS_MOST);
    const sonar_node *pair = node->first;
    for (size_t i = 0; i < points; i++, pair = pair->next) {
        if (sim_yaml_length(&l->yaml, pair, "points", 2) != 2 ||
            !sim_yaml_number(&l->yaml, pair->first, "points: Hz", 1e-3, l->limits->fs_hz,
                             &spectrum->point_hz[i]) ||
            !sim_yaml_number(&l->yaml, pair->last, "points: dB", LEVEL_LOW, LEVEL_HIGH,
                             &spectrum->point_db[i]))
            return;
        if (i > 0 && spectrum->point_hz[i] <= spectrum->point_hz[i - 1])
            sim_yaml_complain(&l->yaml, pair, "points: frequencies must increase");
        spectrum->points = i + 1;
    }
    if (points == 0 && node->kind == SONAR_SEQUENCE)
        sim_yaml_complain(&l->yaml, node, "points: expected at least one [Hz, dB]");
}

static void read_shape(loader *l, const sonar_node *node, sim_spectrum *spectrum) {
    static const sim_field points[] = {{.key = "points", .type = SIM_NODE, .required = true}, {0}};
    static const char *const word[] = {"white", "pink"};
    if (node->kind == SONAR_MAPPING) {
        sim_yaml_read(&l->yaml, node, points, spectrum);
        spectrum->shape = SIM_POINTS;
        const sonar_node *list = sim_yaml_get(node, "points");
        if (list)
            read_points(l, list, spectrum);
        return;
    }
    const char *text = sim_yaml_text(node);
    for (int i = 0; text && i < 2; i++)
        if (strcmp(text, word[i]) == 0) {
            spectrum->shape = i;
            return;
        }
    sim_yaml_complain(
        &l->yaml, node,
        "spectrum: '%s' is not accepted; accepted: white, pink or {points: [[Hz, dB], ...]}",
        text ? text : "(a list)");
}

/* Either level_db or psd_db is given; the other follows from the bandwidth. */
static void settle_level(loader *l, const sonar_node *map, sim_spectrum *spectrum) {
    if (isnan(spectrum->level_db) == isnan(spectrum->psd_db))
        sim_yaml_complain(&l->yaml, map, "expected one of level_db and psd_db");
    else if (isnan(spectrum->level_db) && spectrum->high_hz > spectrum->low_hz)
        spectrum->level_db = spectrum->psd_db + 10 * log10(spectrum->high_hz - spectrum->low_hz);
}

static const sim_field spectrum_fields[] = {
    {"level_db", SIM_NUMBER, offsetof(sim_spectrum, level_db), LEVEL_LOW, LEVEL_HIGH, false, NULL},
    {"psd_db", SIM_NUMBER, offsetof(sim_spectrum, psd_db), LEVEL_LOW, LEVEL_HIGH, false, NULL},
    {.key = "spectrum", .type = SIM_NODE},
    {.key = "band_hz", .type = SIM_NODE},
    {0}};

static void read_spectrum(loader *l, const sonar_node *node, sim_spectrum *spectrum) {
    *spectrum = (sim_spectrum){.present = true, .level_db = NAN, .psd_db = NAN};
    sim_yaml_read(&l->yaml, node, spectrum_fields, spectrum);
    if (node->kind != SONAR_MAPPING)
        return;
    const sonar_node *shape = sim_yaml_get(node, "spectrum");
    if (shape)
        read_shape(l, shape, spectrum);
    spectrum->high_hz = BAND_TOP * l->limits->fs_hz;
    spectrum->low_hz = spectrum->shape == SIM_PINK ? l->limits->fs_hz / 400 : 0;
    const sonar_node *band = sim_yaml_get(node, "band_hz");
    if (band)
        read_band(l, band, spectrum);
    if (spectrum->shape == SIM_PINK && spectrum->low_hz <= 0)
        sim_yaml_complain(&l->yaml, node, "pink noise needs a band that starts above 0 Hz");
    settle_level(l, node, spectrum);
}

static void read_tones(loader *l, const sonar_node *node, sim_source *source) {
    const sim_field fields[] = {
        {"hz", SIM_NUMBER, offsetof(sim_tone, hz), 1e-6, 0.5 * l->limits->fs_hz, true, NULL},
        {"level_db", SIM_NUMBER, offsetof(sim_tone, level_db), LEVEL_LOW, LEVEL_HIGH, true, NULL},
        {"phase_deg", SIM_NUMBER, offsetof(sim_tone, phase_deg), -360, 360, false, NULL},
        {0}};
    source->tones = sim_yaml_length(&l->yaml, node, "tones", SIM_TONES_MOST);
    const sonar_node *map = node->first;
    for (size_t i = 0; i < source->tones; i++, map = map->next)
        sim_yaml_read(&l->yaml, map, fields, &source->tone[i]);
}

/* ---- sources --------------------------------------------------------------------------------- */

static void read_place(loader *l, const sonar_node *map, sim_source *source) {
    const sim_field far_fields[] = {
        {"az_deg", SIM_NUMBER, offsetof(sim_source, az_deg), -360, 360, true, NULL},
        {"depression_deg", SIM_NUMBER, offsetof(sim_source, depression_deg), -90, 90, false, NULL},
        {"rate_deg_s", SIM_NUMBER, offsetof(sim_source, rate_deg_s), -360, 360, false, NULL},
        {0}};
    const sim_field near_fields[] = {
        {"az_deg", SIM_NUMBER, offsetof(sim_source, az_deg), -360, 360, true, NULL},
        {"depression_deg", SIM_NUMBER, offsetof(sim_source, depression_deg), -90, 90, false, NULL},
        {"range_m", SIM_NUMBER, offsetof(sim_source, range_m), 1e-3, 1e7, true, NULL},
        {"course_deg", SIM_NUMBER, offsetof(sim_source, course_deg), -360, 360, false, NULL},
        {"speed_mps", SIM_NUMBER, offsetof(sim_source, speed_mps), 0,
         0.5 * l->limits->sound_speed_mps, false, NULL},
        {0}};
    const sonar_node *far = sim_yaml_get(map, "far");
    const sonar_node *near = sim_yaml_get(map, "near");
    if (!far == !near) {
        sim_yaml_complain(&l->yaml, map,
                          "expected one of far: {az_deg: ...} and near: {az_deg: ..., "
                          "range_m: ...}");
        return;
    }
    source->far = far;
    sim_yaml_read(&l->yaml, far ? far : near, far ? far_fields : near_fields, source);
    if (far && source->at == 1)
        sim_yaml_complain(&l->yaml, map, "'at: 1m' needs a range: far sources have none");
}

static void read_source(loader *l, const sonar_node *map, sim_source *source) {
    static const sim_field fields[] = {
        {"name", SIM_TEXT, offsetof(sim_source, name), 0, 0, true, NULL},
        {"at", SIM_CHOICE, offsetof(sim_source, at), 0, 1, false, "array|1m"},
        {.key = "far", .type = SIM_NODE},
        {.key = "near", .type = SIM_NODE},
        {.key = "broadband", .type = SIM_NODE},
        {.key = "tones", .type = SIM_NODE},
        {0}};
    sim_yaml_read(&l->yaml, map, fields, source);
    if (map->kind != SONAR_MAPPING)
        return;
    read_place(l, map, source);
    const sonar_node *broadband = sim_yaml_get(map, "broadband");
    const sonar_node *tones = sim_yaml_get(map, "tones");
    if (broadband)
        read_spectrum(l, broadband, &source->broadband);
    if (tones)
        read_tones(l, tones, source);
    if (!broadband && !tones)
        sim_yaml_complain(&l->yaml, map, "a source needs broadband, tones or both");
}

/* ---- ambient noise, elements, faults --------------------------------------------------------- */

static void read_isotropic(loader *l, const sonar_node *node) {
    /* The spectrum's own keys and one more; each table ignores the keys of the other. */
    sim_field fields[8] = {
        {"waves", SIM_COUNT, offsetof(sim_scene, isotropic_waves), 1, 4096, false, NULL},
        {.key = "noise", .type = SIM_NODE, .required = true},
        {0}};
    sim_yaml_read(&l->yaml, node, fields, l->scene);
    const sonar_node *noise = sim_yaml_get(node, "noise");
    if (noise)
        read_spectrum(l, noise, &l->scene->isotropic);
}

static void read_ambient(loader *l, const sonar_node *node) {
    typedef struct white {
        double level_db, psd_db;
    } white;
    static const sim_field fields[] = {
        {"level_db", SIM_NUMBER, offsetof(white, level_db), LEVEL_LOW, LEVEL_HIGH, false, NULL},
        {"psd_db", SIM_NUMBER, offsetof(white, psd_db), LEVEL_LOW, LEVEL_HIGH, false, NULL},
        {.key = "isotropic", .type = SIM_NODE},
        {0}};
    white level = {NAN, NAN};
    sim_yaml_read(&l->yaml, node, fields, &level);
    if (!isnan(level.level_db) && !isnan(level.psd_db))
        sim_yaml_complain(&l->yaml, node, "level_db and psd_db exclude each other");
    if (!isnan(level.level_db))
        l->scene->noise_db = level.level_db;
    else if (!isnan(level.psd_db))
        l->scene->noise_db = level.psd_db + 10 * log10(l->limits->fs_hz / 2);
    const sonar_node *isotropic = sim_yaml_get(node, "isotropic");
    if (isotropic)
        read_isotropic(l, isotropic);
}

static void *list_of(loader *l, const sonar_node *node, const char *what, size_t most, size_t size,
                     size_t *count) {
    *count = sim_yaml_length(&l->yaml, node, what, most);
    void *list = *count ? sonar_alloc(*count, size) : NULL;
    if (!list && *count) {
        sim_yaml_complain(&l->yaml, node, "%s: out of memory", what);
        *count = 0;
    }
    return list;
}

static void read_element_list(loader *l, const sonar_node *node) {
    const sim_field fields[] = {
        {"sensor", SIM_COUNT, offsetof(sim_element, sensor), 0, (double)l->limits->sensors - 1,
         true, NULL},
        {"gain_db", SIM_NUMBER, offsetof(sim_element, gain_db), -100, 100, false, NULL},
        {"phase_deg", SIM_NUMBER, offsetof(sim_element, phase_deg), -360, 360, false, NULL},
        {"delay_us", SIM_NUMBER, offsetof(sim_element, delay_us), -1e5, 1e5, false, NULL},
        {"noise_db", SIM_NUMBER, offsetof(sim_element, noise_db), LEVEL_LOW, LEVEL_HIGH, false,
         NULL},
        {.key = "dead", .type = SIM_NODE},
        {0}};
    sim_scene *scene = l->scene;
    scene->element =
        list_of(l, node, "list", LISTED_MOST, sizeof *scene->element, &scene->elements);
    const sonar_node *map = node->first;
    for (size_t i = 0; i < scene->elements; i++, map = map->next) {
        scene->element[i].noise_db = -HUGE_VAL;
        sim_yaml_read(&l->yaml, map, fields, &scene->element[i]);
        const sonar_node *dead = sim_yaml_get(map, "dead");
        const char *text = sim_yaml_text(dead);
        if (dead && (!text || (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)))
            sim_yaml_complain(&l->yaml, dead, "dead: accepted: true or false");
        scene->element[i].dead = text && strcmp(text, "true") == 0;
    }
}

static void read_elements(loader *l, const sonar_node *node) {
    static const sim_field fields[] = {
        {"gain_error_db", SIM_NUMBER, offsetof(sim_scene, gain_error_db), 0, 40, false, NULL},
        {"phase_error_deg", SIM_NUMBER, offsetof(sim_scene, phase_error_deg), 0, 180, false, NULL},
        {.key = "list", .type = SIM_NODE},
        {0}};
    sim_yaml_read(&l->yaml, node, fields, l->scene);
    const sonar_node *list = sim_yaml_get(node, "list");
    if (list)
        read_element_list(l, list);
}

static void read_faults(loader *l, const sonar_node *node) {
    static const sim_field fields[] = {
        {"kind", SIM_CHOICE, offsetof(sim_fault, kind), 0, 0, true, FAULT_WORDS},
        {"digitiser", SIM_COUNT, offsetof(sim_fault, digitiser), 0, 65535, false, NULL},
        {"frame", SIM_COUNT, offsetof(sim_fault, frame), 0, 0x1p53, true, NULL},
        {"count", SIM_COUNT, offsetof(sim_fault, count), 1, 0x1p53, false, NULL},
        {0}};
    sim_scene *scene = l->scene;
    scene->fault = list_of(l, node, "faults", LISTED_MOST, sizeof *scene->fault, &scene->faults);
    const sonar_node *map = node->first;
    for (size_t i = 0; i < scene->faults; i++, map = map->next) {
        scene->fault[i].digitiser = SIZE_MAX;
        scene->fault[i].count = 1;
        sim_yaml_read(&l->yaml, map, fields, &scene->fault[i]);
    }
}

static void read_fault_rates(loader *l, const sonar_node *node) {
    sim_field fields[SIM_FAULT_KINDS] = {0}; /* the last one stays empty and ends the table */
    size_t used = 0;
    for (int kind = SIM_FAULT_DROP; kind < SIM_FAULT_RESTART; kind++)
        fields[used++] = (sim_field){.key = sim_fault_name((sim_fault_kind)kind),
                                     .type = SIM_NUMBER,
                                     .offset = (size_t)kind * sizeof(double),
                                     .high = 1};
    sim_yaml_read(&l->yaml, node, fields, l->scene->fault_rate);
    double sum = 0;
    for (int kind = 0; kind < SIM_FAULT_KINDS; kind++)
        sum += l->scene->fault_rate[kind];
    if (sum > 1)
        sim_yaml_complain(&l->yaml, node, "fault_rates: their sum %g is above 1", sum);
}

/* ---- the whole scene ------------------------------------------------------------------------- */

static void read_sources(loader *l, const sonar_node *node) {
    sim_scene *scene = l->scene;
    scene->source = list_of(l, node, "sources", 1024, sizeof *scene->source, &scene->sources);
    const sonar_node *map = node->first;
    for (size_t i = 0; i < scene->sources; i++, map = map->next)
        read_source(l, map, &scene->source[i]);
}

/* With own ship, sources have true bearings. */
static void read_own_ship(loader *l, const sonar_node *node) {
    static const sim_field fields[] = {
        {"heading_deg", SIM_NUMBER, offsetof(sim_ship, heading_deg), -360, 360, true, NULL},
        {"turn_deg_s", SIM_NUMBER, offsetof(sim_ship, turn_deg_s), -360, 360, false, NULL},
        {"turn_from_s", SIM_NUMBER, offsetof(sim_ship, turn_from_s), 0, 1e9, false, NULL},
        {"turn_by_deg", SIM_NUMBER, offsetof(sim_ship, turn_by_deg), 0, 1e9, false, NULL},
        {"speed_mps", SIM_NUMBER, offsetof(sim_ship, speed_mps), 0, 100, false, NULL},
        {"trail_m", SIM_NUMBER, offsetof(sim_ship, trail_m), 0, 1e5, false, NULL},
        {0}};
    l->scene->own_ship = true;
    sim_yaml_read(&l->yaml, node, fields, &l->scene->ship);
    if (l->scene->ship.trail_m > 0 && !(l->scene->ship.speed_mps > 0))
        sim_yaml_complain(&l->yaml, node, "trail_m: a towed array needs a speed_mps above 0");
}

static void turn_sources(sim_scene *scene) {
    for (size_t i = 0; i < scene->sources; i++)
        scene->source[i].ship = scene->ship;
}

static void read_scene(loader *l, const sonar_node *root) {
    const sim_field fields[] = {
        {.key = "schema", .type = SIM_NODE, .required = true},
        {"seed", SIM_COUNT, offsetof(sim_scene, seed), 0, 0x1p53, false, NULL},
        {"duration_s", SIM_NUMBER, offsetof(sim_scene, duration_s), 0, 1e9, false, NULL},
        {"sensitivity_db", SIM_NUMBER, offsetof(sim_scene, sensitivity_db), LEVEL_LOW, LEVEL_HIGH,
         false, NULL},
        {"clock_offset_ms", SIM_NUMBER, offsetof(sim_scene, clock_offset_ms), -1e9, 1e9, false,
         NULL},
        {"frame_samples", SIM_COUNT, offsetof(sim_scene, frame_samples), 1, SONAR_FRAME_MAX_SAMPLES,
         false, NULL},
        {"digitisers", SIM_COUNT, offsetof(sim_scene, digitisers), 1, (double)l->limits->channels,
         false, NULL},
        {"format", SIM_CHOICE, offsetof(sim_scene, format), SONAR_S16, SONAR_F32, false,
         "s16|s24|s32|f32"},
        {"layout", SIM_CHOICE, offsetof(sim_scene, layout), SONAR_FRAME_INTERLEAVED,
         SONAR_FRAME_CHANNEL_MAJOR, false, "interleaved|channel-major"},
        {.key = "own_ship", .type = SIM_NODE},
        {.key = "ambient", .type = SIM_NODE},
        {.key = "elements", .type = SIM_NODE},
        {.key = "sources", .type = SIM_NODE},
        {.key = "faults", .type = SIM_NODE},
        {.key = "fault_rates", .type = SIM_NODE},
        {0}};
    static const struct {
        const char *key;
        void (*read)(loader *, const sonar_node *);
    } part[] = {{"own_ship", read_own_ship}, {"ambient", read_ambient},
                {"elements", read_elements}, {"sources", read_sources},
                {"faults", read_faults},     {"fault_rates", read_fault_rates}};
    sim_yaml_read(&l->yaml, root, fields, l->scene);
    const sonar_node *schema = sim_yaml_get(root, "schema");
    const char *text = sim_yaml_text(schema);
    if (schema && (!text || strcmp(text, "1") != 0))
        sim_yaml_complain(&l->yaml, schema, "schema: only version 1 is known");
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        const sonar_node *node = sim_yaml_get(root, part[i].key);
        if (node)
            part[i].read(l, node);
    }
    turn_sources(l->scene);
}

static sim_scene *scene_with_defaults(void) {
    sim_scene *scene = sonar_alloc(1, sizeof *scene);
    if (scene)
        *scene = (sim_scene){.seed = 1,
                             .sensitivity_db = NAN,
                             .noise_db = -HUGE_VAL,
                             .isotropic_waves = 64,
                             .frame_samples = 256,
                             .digitisers = 1,
                             .format = SONAR_F32};
    return scene;
}

sonar_code sim_scene_load(const char *path, const sim_limits *limits, sim_scene **scene,
                          FILE *report) {
    loader l = {.limits = limits};
    sonar_code code = sim_yaml_open(&l.yaml, path);
    if (!code)
        l.scene = scene_with_defaults();
    if (l.scene)
        read_scene(&l, l.yaml.tree.root);
    else if (!code)
        code = SONAR_ENOMEM;
    if (!code && sonar_report_errors(l.yaml.report))
        code = SONAR_EINVAL;
    sim_yaml_close(&l.yaml, report);
    if (code) {
        sim_scene_destroy(l.scene);
        l.scene = NULL;
    }
    *scene = l.scene;
    return code;
}

void sim_scene_destroy(sim_scene *scene) {
    if (!scene)
        return;
    free(scene->source);
    free(scene->element);
    free(scene->fault);
    free(scene);
}
