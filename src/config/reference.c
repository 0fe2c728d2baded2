/* SPDX-License-Identifier: GPL-3.0-or-later */
/* docs/configuration.md, from the table. */
#include "config/options.h"

#include <string.h>

static const char INTRODUCTION[] =
    "# Configuration\n"
    "\n"
    "This page is generated from the daemon's table of options; a test compares both.\n"
    "\n"
    "A configuration is one YAML file; `config/demo.yaml` is a complete example. Keys with a dot "
    "are\n"
    "nested: `dft.length` is `length` in the group `dft`. Unknown and repeated keys, values out "
    "of\n"
    "range and values in other units are errors, and all errors of a file are reported at once:\n"
    "`file:line:column`, the line, and what would be accepted. Anchors, aliases and tags are not\n"
    "accepted.\n"
    "\n"
    "- `sonard --check-config FILE` shows the result of a file: array, bins, angles, memory.\n"
    "- `sonard --print-config FILE` prints every option with its value and where it came from. "
    "The\n"
    "  output is a configuration itself, with the same `config_version` in published headers:\n"
    "  the SHA-256 of all effective values, which do not depend on comments, order or\n"
    "  written-out defaults. Positions are printed resolved, in the array frame.\n"
    "\n"
    "Options marked in the column `live` can change while the daemon runs\n"
    "([control.md](control.md)); the others need a restart.\n"
    "\n"
    "## Conventions\n"
    "\n"
    "Array frame: x forward, y to the right seen from above, z down, in metres from the reference\n"
    "point. Lines, circles and grids are centred on their middle. Positions are shifted so that\n"
    "their mean is the reference point unless `origin: given`. Sensors, channels and bins are\n"
    "counted from 0. Azimuth 0 is on +x and increases clockwise, seen from above; a line array "
    "counts\n"
    "the angle from its axis, 0 to 180 deg. Bands include both ends; a bin counts as inside from "
    "a\n"
    "millionth of a bin outside the edge.\n";

static void write_group(const char *group, size_t length, FILE *to) {
    if (!length)
        fprintf(to, "\n## General\n");
    else
        fprintf(to, "\n## %.*s\n", (int)length, group);
    for (size_t i = 0; i < sonar_alternatives_count; i++) {
        const sonar_alternatives *a = &sonar_alternatives_table[i];
        if (!length || strncmp(a->group, group, length) != 0 ||
            (a->group[length] && a->group[length] != '.'))
            continue;
        fprintf(to, "\n%s one of ", a->required ? "Exactly" : "At most");
        for (size_t k = 0; a->keys[k]; k++)
            fprintf(to, "%s`%s.%s`", k ? ", " : "", a->group, a->keys[k]);
        fprintf(to, " may be given.\n");
    }
    fprintf(
        to,
        "\n| option | accepted | default | live | meaning |\n| --- | --- | --- | --- | --- |\n");
}

static void write_row(const sonar_option *o, FILE *to) {
    char accepted[512];
    sonar_option_accepted(o, accepted, sizeof accepted);
    fprintf(to, "| `%s` | %s | ", o->path, accepted);
    if (o->fallback)
        fprintf(to, "`%s`", o->fallback);
    else
        fprintf(to, "%s",
                o->required   ? o->grouped ? "required in its group" : "required"
                : o->computed ? o->computed
                              : "");
    fprintf(to, " | %s | %s |\n", o->live ? "yes" : "", o->help);
}

/* Length of the path up to its first dot, 0 without a dot. */
static size_t group_length(const char *path) {
    const char *dot = strchr(path, '.');
    return dot ? (size_t)(dot - path) : 0;
}

void sonar_config_write_reference(FILE *to) {
    fputs(INTRODUCTION, to);
    write_group("", 0, to);
    for (size_t id = 0; id < SONAR_OPTIONS; id++)
        if (!group_length(sonar_options[id].path))
            write_row(&sonar_options[id], to);
    const char *last = "";
    for (size_t id = 0; id < SONAR_OPTIONS; id++) {
        const char *path = sonar_options[id].path;
        const size_t length = group_length(path);
        if (!length)
            continue;
        if (strncmp(path, last, length + 1) != 0)
            write_group(path, length, to);
        write_row(&sonar_options[id], to);
        last = path;
    }
}
