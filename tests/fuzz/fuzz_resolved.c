/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target for resolved configurations: the input selects a value for every option of the
 * table, so that nearly every input is a configuration that is valid or breaks a rule between
 * options. A valid configuration is checked for the properties that the rest of the daemon relies
 * on. scripts/fuzz builds it; SONAR_FUZZ_SHOW=1 prints the configuration of an input. */
#include "config/options.h"
#include "core/core.h"
#include "pipeline/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALTERNATIVES_MOST = 16, DEPTH_MOST = 8, ARRAY_MOST = 64, TABLE_MOST = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- from dice to text ----------------------------------------------------------------------- */

typedef struct writer {
    const uint8_t *dice;
    size_t left;
    size_t pick[ALTERNATIVES_MOST]; /* the key of each group of alternatives */
    const char *value;              /* the last option that could have been a group but is not */
    const char *path;               /* the last option written */
    double fs_hz;
    FILE *to;
} writer;

/* 0 at the end of the input, which leaves options out. */
static unsigned roll(writer *w, unsigned sides) {
    if (!w->left)
        return 0;
    w->left--;
    return *w->dice++ % sides;
}

/* Mostly a realistic value, seldom a limit of the accepted range. */
static double number(writer *w, const sonar_option *o) {
    static const double sizes[] = {1,   2,    3,    8,    16,   64,   100,  128,  500,  1000,
                                   1,   0.75, 0.5,  1.5,  7,    10,   37,   50,   90,   180,
                                   750, 1024, 1500, 2048, 3200, 4000, 4096, 8000, 8192, 16000,
                                   0.1, 0,    359,  1e-6, 5e4,  1e6,  1e9};
    const unsigned which = roll(w, 256);
    double x = which == 254   ? o->low
               : which == 255 ? o->high
                              : sizes[which % (which & 1 ? 37 : 30)];
    if (roll(w, 4) == 1)
        x *= 0.5 + roll(w, 256) / 128.0;
    if (o->low < 0 && roll(w, 2))
        x = -x;
    const bool array = !strncmp(o->path, "array.", 6);
    const bool whole = o->type == SONAR_TYPE_INTEGER || o->type == SONAR_TYPE_INTEGERS;
    x = fmin(fmax(x, o->low), array && whole ? fmin(o->high, ARRAY_MOST) : o->high);
    return whole ? rint(x) : x;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Edges of a band, which mostly lies below half the sampling rate and within a short transform. */
static double edge(writer *w, const sonar_option *o) {
    if (roll(w, 32) == 1)
        return number(w, o);
    return o->type == SONAR_TYPE_INTEGERS ? roll(w, 64) : w->fs_hz / 2 * roll(w, 256) / 255;
}

static void write_list(writer *w, const sonar_option *o) {
    double list[12];
    const size_t most = o->most && o->most < 12 ? o->most : 12;
    const size_t count = o->least + roll(w, (unsigned)(most - o->least + 1));
    for (size_t i = 0; i < count; i++)
        list[i] = o->least == 2 ? edge(w, o) : number(w, o);
    qsort(list, count, sizeof *list, ascending);
    fputc('[', w->to);
    for (size_t i = 0; i < count; i++)
        fprintf(w->to, "%s%.17g", i ? ", " : "", list[i]);
    fputs("]\n", w->to);
}

static void write_positions(writer *w, const sonar_option *o) {
    fputc('[', w->to);
    for (unsigned i = 0, count = 1 + roll(w, 12); i < count; i++)
        fprintf(w->to, "%s[%.17g, %.17g, %.17g]", i ? ", " : "", number(w, o), number(w, o),
                roll(w, 2) ? number(w, o) : 0);
    fputs("]\n", w->to);
}

static const char *word_of(writer *w, const sonar_option *o) {
    unsigned words = 0;
    while (o->choices[words])
        words++;
    return o->choices[roll(w, words)];
}

static void write_value(writer *w, const sonar_option *o) {
    switch (o->type) {
    case SONAR_TYPE_INTEGER:
    case SONAR_TYPE_REAL:
        fprintf(w->to, "%.17g\n", number(w, o));
        return;
    case SONAR_TYPE_BOOLEAN:
        fprintf(w->to, "%s\n", roll(w, 2) ? "true" : "false");
        return;
    case SONAR_TYPE_CHOICE:
        fprintf(w->to, "%s\n", word_of(w, o));
        return;
    case SONAR_TYPE_CHOICES:
        fprintf(w->to, "[%s]\n", word_of(w, o));
        return;
    case SONAR_TYPE_TEXT:
        fprintf(w->to, "text%u\n", roll(w, 256));
        return;
    case SONAR_TYPE_ENDPOINT:
        fprintf(w->to, "ipc:///out%u\n", roll(w, 256));
        return;
    case SONAR_TYPE_ENDPOINTS:
        fprintf(w->to, "[\"ipc:///in%u\"]\n", roll(w, 256));
        return;
    case SONAR_TYPE_TEXTS:
        fprintf(w->to, "[\"text%u\"]\n", roll(w, 256));
        return;
    case SONAR_TYPE_POSITIONS:
        write_positions(w, o);
        return;
    default:
        if (o->word && roll(w, 2))
            fprintf(w->to, "%s\n", o->word);
        else if (o->scalar && roll(w, 4))
            fprintf(w->to, "%.17g\n", number(w, o));
        else
            write_list(w, o);
    }
}

/* Is the path `group`.`key`, or below it? */
static bool lies_in(const char *path, const char *group, const char *key) {
    char whole[128];
    const int n = snprintf(whole, sizeof whole, "%s%s%s", group, *group && *key ? "." : "", key);
    return !strncmp(path, whole, (size_t)n) && (!path[n] || path[n] == '.');
}

static bool is_chosen(const writer *w, const sonar_option *o) {
    if (w->value && lies_in(o->path, w->value, ""))
        return false;
    for (size_t i = 0; i < sonar_alternatives_count; i++) {
        const sonar_alternatives *a = &sonar_alternatives_table[i];
        for (size_t k = 0; a->keys[k]; k++)
            if (lies_in(o->path, a->group, a->keys[k]) && k != w->pick[i])
                return false;
    }
    return true;
}

/* The keys that lead to an option, without those that the option before shares. */
static void write_path(writer *w, const char *path) {
    size_t depth = 0, same = 0;
    for (size_t i = 0; w->path && path[i] && path[i] == w->path[i]; i++)
        if (path[i] == '.') {
            same = i + 1;
            depth++;
        }
    for (const char *key = path + same; key; depth++) {
        const char *dot = strchr(key, '.');
        fprintf(w->to, "%*s%.*s:%s", (int)(2 * depth), "", (int)strcspn(key, "."), key,
                dot ? "\n" : " ");
        key = dot ? dot + 1 : NULL;
    }
    w->path = path;
}

/* Required options are mostly present, and lists that must match another list seldom. */
static bool is_wanted(writer *w, const sonar_option *o) {
    bool needed = o->required;
    for (size_t i = 0; i < sonar_alternatives_count; i++)
        for (size_t k = 0; sonar_alternatives_table[i].keys[k]; k++)
            needed |= sonar_alternatives_table[i].required &&
                      lies_in(o->path, sonar_alternatives_table[i].group,
                              sonar_alternatives_table[i].keys[k]) &&
                      !o->fallback;
    const bool fits_another = o->type == SONAR_TYPE_INTEGERS && o->least != o->most;
    return needed ? roll(w, 64) != 63 : roll(w, fits_another ? 32 : 6) == 1;
}

static void write_configuration(writer *w) {
    for (size_t i = 0; i < sonar_alternatives_count; i++) {
        const sonar_alternatives *a = &sonar_alternatives_table[i];
        unsigned keys = 0;
        while (a->keys[keys])
            keys++;
        w->pick[i] = !strcmp(a->keys[1], "csv") ? 0 : roll(w, keys); /* no files here */
    }
    for (size_t id = 0; id < SONAR_OPTIONS; id++) {
        const sonar_option *o = &sonar_options[id];
        const bool group =
            id + 1 < SONAR_OPTIONS && lies_in(sonar_options[id + 1].path, o->path, "");
        if (!is_chosen(w, o) || id == OPT_POSITIONS_CSV)
            continue;
        const bool there = group ? roll(w, 2) : is_wanted(w, o);
        if (group)
            w->value = there || !roll(w, 2) ? o->path : NULL;
        if (!there)
            continue;
        write_path(w, o->path);
        write_value(w, o);
    }
}

/* ---- what the rest relies on ----------------------------------------------------------------- */

#define MUST(condition)                                                                            \
    do                                                                                             \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "does not hold: %s\n%s\n", #condition, text);                          \
            abort();                                                                               \
        }                                                                                          \
    while (0)

static void check_scan(const sonar_scan *scan, const char *text) {
    MUST(scan->count >= 1 && scan->count <= SONAR_DIRECTIONS_MOST);
    MUST(scan->beam_width_deg > 0 && scan->beam_width_deg <= 360);
    MUST(scan->cone || scan->az_deg[scan->count - 1] - scan->az_deg[0] < 360);
    for (size_t i = 0; i < scan->count; i++) {
        const double *u = scan->u + 3 * i;
        MUST(scan->az_deg[i] >= 0 && scan->az_deg[i] <= (scan->cone ? 180 : 360));
        MUST(!i || scan->az_deg[i] > scan->az_deg[i - 1]);
        MUST(fabs(u[0] * u[0] + u[1] * u[1] + u[2] * u[2] - 1) < 1e-9);
    }
}

static void check_band(const sonar_band *band, size_t length, const char *text) {
    MUST(band->bins >= 1 && band->first_bin + band->bins <= length / 2 + 1);
    MUST(band->low_hz <= band->high_hz);
}

static void check_sensors(const sonar_config *c, const char *text) {
    double weights = 0;
    size_t used = 0;
    for (size_t k = 0; k < c->sensors; k++) {
        MUST(c->channel[k] < c->channels);
        MUST(isfinite(c->gain_db[k]) && isfinite(c->phase_deg[k]) && isfinite(c->delay_us[k]));
        MUST(isfinite(c->shading_weight[k]) && (c->used[k] || c->shading_weight[k] == 0));
        weights += c->shading_weight[k];
        used += c->used[k];
    }
    MUST(used >= 1 && weights > 0);
    MUST(isfinite(c->geometry.aperture_m) && isfinite(c->geometry.spacing_m));
    MUST(c->heading_deg >= 0 && c->heading_deg < 360);
}

static void check_ranges(const sonar_config *c, const char *text) {
    MUST(c->specs.cbf.ranges <= SONAR_RANGES_MOST);
    for (size_t i = 0; i < c->specs.cbf.ranges; i++)
        MUST(c->range_m[i] > (i ? c->range_m[i - 1] : 0) && c->range_m[i] <= 1e7);
}

static void check_specs(const sonar_config *c, const char *text) {
    const sonar_specs specs = c->specs;
    const sonar_train_setup setup = sonar_pipeline_setup(c, sonar_host_serial());
    const sonar_train_shape shape = sonar_train_shape_of(&setup);
    MUST(specs.dft.bins >= 1 && specs.dft.first_bin + specs.dft.bins <= specs.dft.length / 2 + 1);
    MUST(shape.sensors_used >= 1);
    MUST(!c->specs.mvdr_enabled || specs.mvdr.max_new >= 1);
    MUST(sonar_config_memory_bytes(c) > 0);
    const size_t looks = c->cbf_scan.count * (1 + c->specs.cbf.ranges) + c->mvdr_scan.count;
    const sonar_params_spec live = sonar_config_params(c);
    sonar_params *params = NULL;
    if (looks * c->sensors <= TABLE_MOST && !sonar_params_create(&live, 1, &params, NULL))
        MUST(params->shading_sum > 0 && params->sensors_used == shape.sensors_used);
    sonar_params_destroy(params);
}

static void check_again(const sonar_config *c, const char *text) {
    char *printed;
    size_t bytes;
    sonar_config *again = NULL;
    sonar_report *report = sonar_report_create();
    FILE *to = open_memstream(&printed, &bytes);
    sonar_config_print(c, to);
    fclose(to);
    sonar_config_parse("again.yaml", printed, bytes, &again, report);
    if (!again)
        sonar_report_write(report, stderr);
    MUST(again);
    MUST(!strcmp(again->digest, c->digest));
    sonar_config_destroy(again);
    sonar_report_destroy(report);
    free(printed);
}

static void check(const sonar_config *c, const char *text) {
    check_sensors(c, text);
    check_ranges(c, text);
    check_band(&c->cbf_band, c->specs.cbf.length, text);
    check_band(&c->lofar_band, c->specs.cbf.length, text);
    check_scan(&c->cbf_scan, text);
    if (c->specs.mvdr_enabled) {
        check_band(&c->mvdr_band, c->specs.mvdr.length, text);
        check_scan(&c->mvdr_scan, text);
    }
    check_specs(c, text);
    check_again(c, text);
}

static void try(const char *text, size_t bytes) {
    sonar_config *config = NULL;
    sonar_report *report = sonar_report_create();
    FILE *to = fopen("/dev/null", "w");
    if (!report || !to)
        abort();
    const sonar_code code = sonar_config_parse("fuzz.yaml", text, bytes, &config, report);
    MUST((code == SONAR_OK) == (config != NULL));
    MUST((code == SONAR_OK) == (sonar_report_errors(report) == 0));
    sonar_report_write(report, getenv("SONAR_FUZZ_SHOW") ? stderr : to);
    if (config) {
        sonar_config_describe(config, to);
        check(config, text);
    }
    sonar_config_destroy(config);
    sonar_report_destroy(report);
    fclose(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text;
    size_t bytes;
    writer w = {.dice = data, .left = size, .to = open_memstream(&text, &bytes)};
    if (!w.to)
        return 0;
    write_configuration(&w);
    fclose(w.to);
    if (getenv("SONAR_FUZZ_SHOW"))
        fputs(text, stderr);
    try(text, bytes);
    free(text);
    return 0;
}
