/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Changes while the daemon runs. A changed configuration is written as text and read like a file,
 * so all rules between options apply to it, and its digest equals that of such a file. */
#include "config/options.h"

#include "core/core.h"

#include <stdlib.h>
#include <string.h>

/* ---- texts ----------------------------------------------------------------------------------- */

/* The origin of each option's text: a configuration, or a replacement. */
typedef struct source {
    const sonar_settings *of[SONAR_OPTIONS];
    const char *text[SONAR_OPTIONS]; /* NULL: the value of `of` */
    bool left_out[SONAR_OPTIONS];
} source;

/* Prints only values that were given; defaults are derived again. */
static void print_given(const source *from, FILE *to) {
    const char *last = "";
    for (size_t id = 0; id < SONAR_OPTIONS; id++) {
        const sonar_option *o = &sonar_options[id];
        const sonar_value *v = &from->of[id]->value[id];
        if (from->left_out[id] || (!from->text[id] && v->origin != SONAR_FROM_FILE))
            continue;
        const int indent = sonar_key_print(last, o->path, to);
        if (from->text[id])
            fputs(from->text[id], to);
        else
            sonar_value_print(o, v, indent, to);
        fputc('\n', to);
        last = o->path;
    }
}

/* The text of the given values; malloc'ed, NULL: no memory. */
static char *write_given(const source *from, size_t *size) {
    char *bytes = NULL;
    FILE *to = open_memstream(&bytes, size);
    if (!to)
        return NULL;
    print_given(from, to);
    const bool written = !ferror(to);
    if (fclose(to) || !written) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

/* Reads the values as if they were in the file of that name. */
static sonar_code read_source(const source *from, const char *name, const sonar_config *like,
                              sonar_config **config, sonar_report *report) {
    size_t size = 0;
    char *bytes = write_given(from, &size);
    const sonar_text text = {.name = name, .bytes = bytes, .size = size};
    *config = NULL;
    const sonar_code code = bytes ? sonar_config_read(&text, like, config, report) : SONAR_ENOMEM;
    free(bytes);
    return code;
}

char *sonar_config_given(const sonar_config *config, size_t *bytes) {
    source from;
    memset(&from, 0, sizeof from);
    for (size_t id = 0; id < SONAR_OPTIONS; id++)
        from.of[id] = config->settings;
    return write_given(&from, bytes);
}

sonar_code sonar_config_take_given(const sonar_config *running, const char *text, size_t bytes,
                                   sonar_config **config, sonar_report *report) {
    const sonar_text given = {.name = running->settings->file, .bytes = text, .size = bytes};
    return sonar_config_read(&given, running, config, report);
}

static bool lies_in(const char *path, const char *group) {
    const size_t n = strlen(group);
    return !n || (!strncmp(path, group, n) && (!path[n] || path[n] == '.'));
}

/* The key, among the alternatives, that the path is or is below; SIZE_MAX: none. */
static size_t key_of(const sonar_alternatives *a, const char *path) {
    char key[96];
    for (size_t i = 0; i < sizeof a->keys / sizeof *a->keys && a->keys[i]; i++) {
        snprintf(key, sizeof key, "%s%s%s", a->group, *a->group ? "." : "", a->keys[i]);
        if (lies_in(path, key))
            return i;
    }
    return SIZE_MAX;
}

/* True if only one of the two may be given, such as `band_hz` and `band_bins`, or the two forms
 * `scan: auto` and `scan: {...}`. */
static bool are_rivals(const char *x, const char *y) {
    if (lies_in(x, y) || lies_in(y, x))
        return true;
    for (size_t i = 0; i < sonar_alternatives_count; i++) {
        const sonar_alternatives *a = &sonar_alternatives_table[i];
        const size_t of_x = key_of(a, x), of_y = key_of(a, y);
        if (of_x != of_y && of_x != SIZE_MAX && of_y != SIZE_MAX)
            return true;
    }
    return false;
}

static void leave_out_rivals(source *from, size_t id) {
    for (size_t other = 0; other < SONAR_OPTIONS; other++)
        if (other != id && !from->text[other] &&
            are_rivals(sonar_options[other].path, sonar_options[id].path))
            from->left_out[other] = true;
}

sonar_code sonar_config_with(const sonar_config *base, size_t count,
                             const sonar_config_value *value, sonar_config **config,
                             sonar_report *report) {
    static const sonar_text none = {.name = "change"};
    source from;
    char hint[160];
    memset(&from, 0, sizeof from);
    *config = NULL;
    for (size_t id = 0; id < SONAR_OPTIONS; id++)
        from.of[id] = base->settings;
    for (size_t i = 0; i < count; i++) {
        const size_t id = sonar_option_find(value[i].path, hint, sizeof hint);
        if (id == SONAR_OPTIONS) {
            sonar_report_add(report, SONAR_MISTAKE, &none, (sonar_place){0, 0}, hint,
                             "there is no option %.100s", value[i].path);
            return SONAR_EINVAL;
        }
        from.text[id] = value[i].text;
        from.left_out[id] = !value[i].text;
    }
    for (size_t id = 0; id < SONAR_OPTIONS; id++)
        if (from.text[id])
            leave_out_rivals(&from, id);
    return read_source(&from, base->settings->file, NULL, config, report);
}

/* ---- differences ----------------------------------------------------------------------------- */

/* The value in its canonical form, malloc'ed; empty if it is absent. */
static char *text_of(const sonar_settings *settings, size_t id) {
    char *text = NULL;
    size_t size = 0;
    const sonar_value *v = &settings->value[id];
    FILE *to = open_memstream(&text, &size);
    if (!to)
        return NULL;
    if (v->origin != SONAR_ABSENT)
        sonar_value_print(&sonar_options[id], v, 0, to);
    return fclose(to) ? free(text), NULL : text;
}

static void shorten(const char *text, char to[64]) {
    snprintf(to, 64, "%.60s%s", *text ? text : "unset", strlen(text) > 60 ? "..." : "");
    for (char *c = to; *c; c++)
        if (*c == '\n')
            *c = ' ';
}

/* True if the values differ; adds nothing for defaults that follow from others. */
static bool compare(const sonar_config *running, const sonar_config *wanted, size_t id,
                    sonar_config_differences *all, bool *no_memory) {
    char *from = text_of(running->settings, id), *to = text_of(wanted->settings, id);
    bool differ = from && to && strcmp(from, to) != 0;
    *no_memory = *no_memory || !from || !to;
    const bool given = running->settings->value[id].origin == SONAR_FROM_FILE ||
                       wanted->settings->value[id].origin == SONAR_FROM_FILE;
    if (differ && given && all->count < SONAR_DIFFERENCES_MOST) {
        sonar_config_difference *d = &all->difference[all->count++];
        *d = (sonar_config_difference){.path = sonar_options[id].path,
                                       .live = sonar_options[id].live};
        shorten(from, d->from);
        shorten(to, d->to);
        if (!d->live)
            snprintf(d->why, sizeof d->why, "it cannot change while the daemon runs");
    }
    free(from);
    free(to);
    return differ;
}

bool sonar_config_compare(const sonar_config *running, const sonar_config *wanted,
                          sonar_config_differences *all) {
    bool no_memory = false;
    memset(all, 0, sizeof *all);
    for (size_t id = 0; id < SONAR_OPTIONS; id++)
        compare(running, wanted, id, all, &no_memory);
    return !no_memory;
}

/* ---- what fits ------------------------------------------------------------------------------- */

/* Options that together determine a size or a shape; a change drops them together. */
enum group {
    MASK_GROUP,
    CBF_GROUP,
    MVDR_GROUP,
    RANGE_GROUP,
    MODES_GROUP,
    GAIN_GROUP,
    MUSIC_GROUP,
    CBF_BAND_GROUP,
    LOFAR_BAND_GROUP,
    MVDR_BAND_GROUP,
    BEAM_GROUP,
    SPEED_GROUP,
    DELAY_GROUP,
    GROUPS,
    NO_GROUP = GROUPS /* always fits */
};
static const struct {
    sonar_option_id first, last;
} groups[GROUPS] = {[MASK_GROUP] = {OPT_MASK, OPT_MASK},
                    [CBF_GROUP] = {OPT_CBF_SCAN, OPT_CBF_DEPRESSION},
                    [MVDR_GROUP] = {OPT_MVDR_SCAN, OPT_MVDR_DEPRESSION},
                    [RANGE_GROUP] = {OPT_RANGES, OPT_RANGE_REFERENCE},
                    [MODES_GROUP] = {OPT_DMR, OPT_DMR},
                    [GAIN_GROUP] = {OPT_WHITE_NOISE_GAIN, OPT_WHITE_NOISE_GAIN},
                    [MUSIC_GROUP] = {OPT_MUSIC, OPT_MUSIC},
                    [CBF_BAND_GROUP] = {OPT_CBF_BAND_HZ, OPT_CBF_BAND_BINS},
                    [LOFAR_BAND_GROUP] = {OPT_LOFAR_BAND_HZ, OPT_LOFAR_BAND_BINS},
                    [MVDR_BAND_GROUP] = {OPT_MVDR_BAND_HZ, OPT_MVDR_BAND_BINS},
                    [BEAM_GROUP] = {OPT_BEAM_AZ, OPT_BEAM_TRACK},
                    [SPEED_GROUP] = {OPT_SOUND_SPEED, OPT_SOUND_SPEED},
                    [DELAY_GROUP] = {OPT_DELAY, OPT_DELAY}};

static bool lies_within(const sonar_band *inner, const sonar_band *outer) {
    return inner->first_bin >= outer->first_bin &&
           inner->first_bin + inner->bins <= outer->first_bin + outer->bins;
}

/* The group to drop if `band` does not fit; a band that was not given is derived from the CBF's. */
static enum group band_group(const sonar_config *c, enum group band) {
    const bool given = c->settings->value[groups[band].first].origin == SONAR_FROM_FILE ||
                       c->settings->value[groups[band].last].origin == SONAR_FROM_FILE;
    return given ? band : CBF_BAND_GROUP;
}

static void say_what_fits(const char *whose, const sonar_band *band, double bin_hz, char why[160]) {
    const size_t last = band->first_bin + band->bins - 1;
    snprintf(why, 160, "buffers of the %s have room for bins %zu to %zu, %.6g to %.6g Hz", whose,
             band->first_bin, last, (double)band->first_bin * bin_hz, (double)last * bin_hz);
}

static enum group band_misfit(const sonar_config *made, const sonar_config *c, char why[160]) {
    const double cbf_hz = c->fs_hz / (double)c->specs.cbf.length;
    if (!lies_within(&c->lofar_band, &made->lofar_band)) {
        say_what_fits("CBF and the Lofar", &made->lofar_band, cbf_hz, why);
        return lies_within(&c->cbf_band, &made->lofar_band) ? band_group(c, LOFAR_BAND_GROUP)
                                                            : CBF_BAND_GROUP;
    }
    if (sonar_config_place(made)->ranks > 1 && c->specs.cbf.ranges &&
        c->cbf_band.bins > made->cbf_band.bins) {
        snprintf(why, 160,
                 "what several ranks exchange of a near field has room for %zu bins of the CBF",
                 made->cbf_band.bins);
        return CBF_BAND_GROUP;
    }
    if (c->specs.mvdr_enabled && !lies_within(&c->mvdr_band, &made->mvdr_band)) {
        say_what_fits("MVDR", &made->mvdr_band, c->fs_hz / (double)c->specs.mvdr.length, why);
        return band_group(c, MVDR_BAND_GROUP);
    }
    return NO_GROUP;
}

/* The group of an MVDR option for which no memory was allocated at the start. */
static enum group extras_misfit(const sonar_config *made, const sonar_config *b, char why[160]) {
    const sonar_mvdr_spec *was = &made->specs.mvdr, *is = &b->specs.mvdr;
    if (!was->dmr != !is->dmr && was->solver != SONAR_MVDR_JACOBI &&
        !(was->white_noise_gain_db < 0)) {
        snprintf(why, 160,
                 "eigenvectors have room only if mvdr.solver, mvdr.dmr or "
                 "mvdr.white_noise_gain_db needed them at the start");
        return MODES_GROUP;
    }
    if (is->white_noise_gain_db < 0 && !(was->white_noise_gain_db < 0)) {
        snprintf(why, 160,
                 "a limit has memory only if there was one at the start: restart with it in the "
                 "file; -100 there limits nothing but allocates the memory");
        return GAIN_GROUP;
    }
    if (is->music && !was->music) {
        snprintf(why, 160,
                 "MUSIC has memory only if it was on at the start: restart with it in the file; it "
                 "is computed only while somebody subscribes");
        return MUSIC_GROUP;
    }
    return NO_GROUP;
}

/* The group of an option for which the beams' time series have too little room. */
static enum group beam_misfit(const sonar_config *made, const sonar_config *b, char why[160]) {
    if (b->specs.beams > made->specs.beams) {
        snprintf(why, 160, "%zu beams do not fit buffers for %zu", b->specs.beams,
                 made->specs.beams);
        return BEAM_GROUP;
    }
    if (b->specs.beam_delay <= made->specs.beam_reach)
        return NO_GROUP;
    snprintf(why, 160, "beams need delays of %zu samples, and there is room for %zu",
             b->specs.beam_delay, made->specs.beam_reach);
    return b->sound_speed_mps < made->sound_speed_mps ? SPEED_GROUP : DELAY_GROUP;
}

static enum group misfit(const sonar_config *made, const sonar_config *b, char why[160]) {
    if (made->cbf_scan.cone != b->cbf_scan.cone || made->geometry.extent != b->geometry.extent) {
        snprintf(why, 160, "the remaining sensors form another kind of array");
        return MASK_GROUP;
    }
    if (made->cbf_scan.count != b->cbf_scan.count) {
        snprintf(why, 160, "%zu directions do not fit buffers for %zu", b->cbf_scan.count,
                 made->cbf_scan.count);
        return CBF_GROUP;
    }
    if (made->specs.mvdr_enabled && made->mvdr_scan.count != b->mvdr_scan.count) {
        snprintf(why, 160, "%zu directions do not fit buffers for %zu", b->mvdr_scan.count,
                 made->mvdr_scan.count);
        return MVDR_GROUP;
    }
    if (made->specs.cbf.ranges != b->specs.cbf.ranges) {
        snprintf(why, 160, "%zu ranges do not fit buffers for %zu", b->specs.cbf.ranges,
                 made->specs.cbf.ranges);
        return RANGE_GROUP;
    }
    enum group group = made->specs.mvdr_enabled ? extras_misfit(made, b, why) : NO_GROUP;
    group = group != NO_GROUP ? group : beam_misfit(made, b, why);
    return group != NO_GROUP ? group : band_misfit(made, b, why);
}

static void leave(source *from, const sonar_settings *running, enum group group, const char *why,
                  sonar_config_differences *all) {
    for (size_t id = groups[group].first; id <= groups[group].last; id++)
        from->of[id] = running;
    for (size_t i = 0; i < all->count; i++) {
        sonar_config_difference *d = &all->difference[i];
        for (size_t id = groups[group].first; id <= groups[group].last; id++)
            if (d->path == sonar_options[id].path && d->live) {
                d->live = false;
                snprintf(d->why, sizeof d->why, "%s", why);
            }
    }
}

/* Reads the merged values repeatedly and drops a group that does not fit each time, until all fit.
 */
static sonar_code fit(source *from, const sonar_config *made, const sonar_config *running,
                      sonar_config **config, sonar_config_differences *all, sonar_report *report) {
    for (int i = 0;; i++) {
        char why[160];
        sonar_code code = read_source(from, running->settings->file, running, config, report);
        const enum group group = code ? NO_GROUP : misfit(made, *config, why);
        if (group == NO_GROUP)
            return code;
        sonar_config_destroy(*config);
        *config = NULL;
        if (i == GROUPS)
            return sonar_report_add(report, SONAR_MISTAKE, &(sonar_text){.name = "change"},
                                    (sonar_place){0, 0}, NULL, "%s", why),
                   SONAR_EINVAL;
        leave(from, running->settings, group, why, all);
    }
}

static void count_live(sonar_config_differences *all) {
    all->live = 0;
    for (size_t i = 0; i < all->count; i++)
        all->live += all->difference[i].live;
}

sonar_code sonar_config_merge(const sonar_config *made, const sonar_config *running,
                              const sonar_config *wanted, sonar_config **config,
                              sonar_config_differences *all, sonar_report *report) {
    source from;
    *config = NULL;
    memset(&from, 0, sizeof from);
    if (!sonar_config_compare(running, wanted, all))
        return SONAR_ENOMEM;
    for (size_t id = 0; id < SONAR_OPTIONS; id++)
        from.of[id] = sonar_options[id].live ? wanted->settings : running->settings;
    count_live(all);
    if (!all->live)
        return SONAR_OK;
    const sonar_code code = fit(&from, made, running, config, all, report);
    count_live(all);
    if (!code && !all->live) {
        sonar_config_destroy(*config);
        *config = NULL;
    }
    return code;
}

/* ---- questions ------------------------------------------------------------------------------- */

bool sonar_config_each(const sonar_config *config, const char *path,
                       void (*visit)(void *ctx, const char *path, const char *text), void *ctx,
                       char *hint, size_t hint_bytes) {
    bool found = false;
    sonar_option_find(path, hint, hint_bytes);
    for (size_t id = 0; id < SONAR_OPTIONS; id++) {
        if (!lies_in(sonar_options[id].path, path))
            continue;
        found = true;
        char *text = config->settings->value[id].origin == SONAR_ABSENT
                         ? NULL
                         : text_of(config->settings, id);
        if (text)
            visit(ctx, sonar_options[id].path, text);
        free(text);
    }
    return found;
}

const char *sonar_config_word(const char *path, unsigned value) {
    char hint[2];
    return sonar_options[sonar_option_find(path, hint, sizeof hint)].choices[value];
}

bool sonar_config_is_live(const char *path, char *hint, size_t hint_bytes, bool *known) {
    const size_t id = sonar_option_find(path, hint, hint_bytes);
    *known = id < SONAR_OPTIONS;
    return *known && sonar_options[id].live;
}

static bool same_scan(const sonar_scan *a, const sonar_scan *b) {
    return a->count == b->count && !memcmp(a->u, b->u, 3 * a->count * sizeof *a->u);
}

bool sonar_config_same_delays(const sonar_config *a, const sonar_config *b) {
    return a->sensors == b->sensors && a->sound_speed_mps == b->sound_speed_mps &&
           !memcmp(a->position_m, b->position_m, 3 * a->sensors * sizeof *a->position_m) &&
           same_scan(&a->cbf_scan, &b->cbf_scan) &&
           (!a->specs.mvdr_enabled || same_scan(&a->mvdr_scan, &b->mvdr_scan)) &&
           a->range_reference == b->range_reference && a->specs.cbf.ranges == b->specs.cbf.ranges &&
           !memcmp(a->range_m, b->range_m, a->specs.cbf.ranges * sizeof *a->range_m);
}
