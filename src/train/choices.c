/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The choices at the start of a pipeline: the table if it fits this node and configuration, else
 * the built-in rule. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"
#include "train/train.h"

/* Estimates are rough: if the device gains less than this, all stages run on the CPU; if a mixture
 * gains less than this, all run on the device. */
static const double TIE_SHARE = 0.25;

const char *sonar_choices_ask(const sonar_choices *choices, const char *decision) {
    return choices && choices->trained ? sonar_train_chosen(&choices->table, decision) : NULL;
}

/* Stores the rule's estimates as if they were times. */
static void estimate(const sonar_train_setup *setup, sonar_choices *choices) {
    const sonar_train_shape *shape = &choices->table.fingerprint.shape;
    sonar_placement placement[SONAR_TRAIN_CANDIDATES];
    sonar_train_decision *decision = &choices->table.decision[0];
    snprintf(decision->name, sizeof decision->name, "placement");
    decision->candidates = sonar_placements(setup, choices->backend.backend, placement);
    for (size_t i = 0; i < decision->candidates; i++) {
        sonar_train_timing *t = &decision->candidate[i];
        const double seconds = sonar_train_estimate(shape, placement[i]);
        sonar_placement_name(placement[i], sonar_train_stages(shape),
                             choices->backend.backend->name, t->name);
        t->available = true;
        t->median_s = seconds;
    }
    sonar_train_pick(decision, TIE_SHARE, NULL);
    choices->table.decisions = 1;
}

/* ---- deciding -------------------------------------------------------------------------------- */

/* The placement that the table has chosen; false if it has none for these stages. */
static bool find_placement(const sonar_choices *choices, sonar_placement *placement) {
    const char *name = sonar_train_chosen(&choices->table, "placement");
    return name && sonar_placement_find(name, sonar_train_stages(&choices->table.fingerprint.shape),
                                        choices->backend.backend->name, placement);
}

static void read_table(const sonar_train_setup *setup, const sonar_train_fingerprint *fingerprint,
                       sonar_choices *choices) {
    char path[4200];
    sonar_error why = {0};
    sonar_placement unused;
    if (!sonar_train_path(setup->host->state_dir, setup->place, path, sizeof path)) {
        snprintf(choices->source, sizeof choices->source,
                 "built-in rule: runtime.state_dir is not set, so there is no trained table");
        return;
    }
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        snprintf(choices->source, sizeof choices->source,
                 "built-in rule: this node is not trained, there is no %.300s (sonard --train)",
                 path);
        return;
    }
    sonar_code code = sonar_train_load(path, fingerprint, &choices->table, &why);
    if (!code && !find_placement(choices, &unused))
        code =
            sonar_fail(&why, SONAR_EINVAL, path,
                       "its placement '%s' does not match this configuration's stages; run sonard "
                       "--train again",
                       sonar_train_chosen(&choices->table, "placement"));
    choices->trained = !code;
    if (choices->trained)
        snprintf(choices->source, sizeof choices->source, "trained table %.300s, made %s", path,
                 choices->table.made);
    else
        snprintf(choices->source, sizeof choices->source, "built-in rule: %.159s: %.300s",
                 why.where, why.text);
}

/* "every stage on cuda", or each with its backend. */
static void describe(const sonar_choices *choices, size_t stages, char text[128]) {
    const sonar_backend *const *place = choices->place;
    size_t alike = 0, used = 0;
    while (alike < stages && place[alike] == place[0])
        alike++;
    if (alike == stages)
        snprintf(text, 128, "every stage on %s", place[0]->name);
    for (size_t s = 0; s < stages && alike < stages; s++)
        used += (size_t)snprintf(text + used, 128 - used, "%s%s on %.20s", s ? ", " : "",
                                 sonar_train_stage_names[s], place[s]->name);
}

/* A backend named in the configuration applies to all stages; with `auto` the decision applies. */
static sonar_code place_stages(const sonar_train_setup *setup, sonar_choices *choices,
                               sonar_error *err) {
    sonar_backend_choice *opened = &choices->backend;
    const size_t stages = sonar_train_stages(&choices->table.fingerprint.shape);
    const bool decided = !strcmp(setup->backend, "auto") && opened->backend != sonar_backend_cpu();
    sonar_placement placement = ~0u;
    char places[128];
    if (decided && find_placement(choices, &placement) && placement == 0) {
        sonar_backend_close(opened);
        sonar_code code = sonar_backend_open("cpu", NULL, setup->host, opened, err);
        if (code)
            return code;
    }
    for (size_t s = 0; s < SONAR_ENGINE_STAGES; s++)
        choices->place[s] =
            s >= stages || placement >> s & 1 ? opened->backend : sonar_backend_cpu();
    if (!decided)
        return SONAR_OK; /* its reason is already set */
    describe(choices, stages, places);
    snprintf(opened->reason, sizeof opened->reason, "%s: %s: %s",
             choices->trained ? "trained" : "estimated by the built-in rule", places,
             sonar_train_find(&choices->table, "placement")->reason);
    return SONAR_OK;
}

sonar_code sonar_choices_create(const sonar_train_setup *setup, sonar_choices **choices,
                                sonar_error *err) {
    sonar_train_fingerprint fingerprint;
    *choices = NULL;
    sonar_choices *c = sonar_alloc(1, sizeof *c);
    if (!c)
        return sonar_fail(err, SONAR_ENOMEM, "choices", "no memory for the table");
    sonar_code code =
        sonar_backend_open(setup->backend, setup->plugin_dir, setup->host, &c->backend, err);
    if (!code) {
        sonar_train_fingerprint_make(setup, &c->backend, &fingerprint);
        read_table(setup, &fingerprint, c);
        if (!c->trained) {
            memset(&c->table, 0, sizeof c->table);
            c->table.fingerprint = fingerprint;
            estimate(setup, c);
        }
        code = place_stages(setup, c, err);
    }
    if (code)
        sonar_choices_destroy(c);
    else
        *choices = c;
    return code;
}

void sonar_choices_destroy(sonar_choices *choices) {
    if (choices)
        sonar_backend_close(&choices->backend);
    free(choices);
}
