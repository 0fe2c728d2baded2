/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which stage runs where: every assignment of the stages to the sides, as one decision. */
#include <stdio.h>
#include <string.h>

#include "core/core.h"
#include "train/train.h"

const char *const sonar_train_stage_names[SONAR_TRAIN_STAGES] = {
    [SONAR_TRAIN_DFT] = "dft", [SONAR_TRAIN_CBF] = "cbf", [SONAR_TRAIN_MVDR] = "mvdr_jacobi"};

_Static_assert(1 << SONAR_TRAIN_STAGES <= SONAR_TRAIN_CANDIDATES, "every assignment fits");

size_t sonar_train_stages(const sonar_train_shape *shape) {
    return shape->mvdr_bins ? SONAR_TRAIN_STAGES : SONAR_TRAIN_MVDR;
}

/* ---- assignments ----------------------------------------------------------------------------- */

/* Bit s of the mask is the side of stage s; the uniform masks go first. */
static size_t mask_of(size_t index, size_t all) {
    return index == 0 ? 0 : index == 1 ? all : index - 1;
}

sonar_train_assignment sonar_train_assignment_at(size_t stages, size_t index) {
    size_t mask = mask_of(index, ((size_t)1 << stages) - 1);
    sonar_train_assignment assignment = {{0}};
    for (size_t s = 0; s < stages; s++)
        assignment.side[s] = mask >> s & 1;
    return assignment;
}

size_t sonar_train_assignments(size_t sides, size_t stages) {
    return sides > 1 ? (size_t)1 << stages : 1;
}

void sonar_train_assignment_name(const char *const *sides, size_t stages, size_t index,
                                 char name[32]) {
    sonar_train_assignment a = sonar_train_assignment_at(stages, index);
    size_t used = 0, shown = index < 2 ? 1 : stages;
    for (size_t s = 0; s < shown && used < 31; s++)
        used += (size_t)snprintf(name + used, 32 - used, "%s%s", s ? "." : "", sides[a.side[s]]);
}

bool sonar_train_assignment_find(const char *const *sides, size_t count, size_t stages,
                                 const char *name, sonar_train_assignment *assignment) {
    for (size_t i = 0; i < sonar_train_assignments(count, stages); i++) {
        char own[32];
        sonar_train_assignment_name(sides, stages, i, own);
        if (strcmp(own, name) != 0)
            continue;
        *assignment = sonar_train_assignment_at(stages, i);
        return true;
    }
    return false;
}

/* ---- what it takes --------------------------------------------------------------------------- */

/* Bins that change sides are copied once, whoever wants them there: those of the main DFT for the
 * CBF and for an MVDR that shares them, and the sub-windows' for an MVDR with a DFT of its own. */
static double crossing_s(const sonar_train_shape *shape, const sonar_train_assignment *a,
                         const sonar_train_crossing *crossing) {
    const sonar_train_line *line =
        a->side[SONAR_TRAIN_DFT] ? &crossing->from_device : &crossing->to_device;
    bool cbf = a->side[SONAR_TRAIN_CBF] != a->side[SONAR_TRAIN_DFT];
    bool mvdr = shape->mvdr_bins && a->side[SONAR_TRAIN_MVDR] != a->side[SONAR_TRAIN_DFT];
    double bin = 8 * (double)shape->sensors, seconds = 0;
    if (cbf || (mvdr && !shape->mvdr_own_dft))
        seconds +=
            sonar_train_line_s(line, bin * (double)shape->bins * (double)shape->cbf_snapshots);
    if (mvdr && shape->mvdr_own_dft)
        seconds +=
            sonar_train_line_s(line, bin * (double)shape->mvdr_bins * (double)shape->mvdr_new);
    return seconds;
}

static void not_available(sonar_train_timing *sum, const char *side, size_t stage,
                          const char *why) {
    sum->available = false;
    sum->repetitions = 0;
    sum->median_s = sum->spread_s = 0;
    snprintf(sum->note, sizeof sum->note, "%s on %s: %.150s", sonar_train_stage_names[stage], side,
             why);
}

static void add_up(const sonar_train_shape *shape, const sonar_train_side *sides,
                   const sonar_train_assignment *a, const sonar_train_crossing *crossing,
                   sonar_train_timing *sum) {
    bool mixed = false;
    sum->available = true;
    sum->repetitions = SIZE_MAX;
    for (size_t s = 0; s < sonar_train_stages(shape); s++) {
        const sonar_train_side *side = &sides[a->side[s]];
        const sonar_train_timing *part = &side->stage[s];
        if (!part->available) {
            not_available(sum, side->name, s, part->note);
            return;
        }
        sum->median_s += part->median_s;
        sum->spread_s += part->spread_s;
        sum->repetitions = sonar_min_size(sum->repetitions, part->repetitions);
        mixed |= a->side[s] != a->side[0];
    }
    if (!mixed)
        return;
    sum->median_s += crossing_s(shape, a, crossing);
    if (!crossing->known) {
        *sum = (sonar_train_timing){0};
        snprintf(sum->note, sizeof sum->note, "what it costs to cross is not known");
    }
}

sonar_code sonar_train_assign(const sonar_train_shape *shape, const sonar_train_side *sides,
                              size_t count, const sonar_train_crossing *crossing, double tie_share,
                              sonar_train_decision *decision, sonar_error *err) {
    const char *names[SONAR_TRAIN_SIDES] = {NULL};
    size_t stages = sonar_train_stages(shape);
    for (size_t i = 0; i < count; i++)
        names[i] = sides[i].name;
    *decision = (sonar_train_decision){.name = "chain",
                                       .candidates = sonar_train_assignments(count, stages)};
    for (size_t i = 0; i < decision->candidates; i++) {
        sonar_train_assignment a = sonar_train_assignment_at(stages, i);
        sonar_train_timing sum = {0};
        add_up(shape, sides, &a, crossing, &sum);
        sonar_train_assignment_name(names, stages, i, sum.name);
        decision->candidate[i] = sum;
    }
    sonar_code code = sonar_train_pick(decision, tie_share, err);
    return code || decision->chosen < SONAR_TRAIN_SIDES ? code : sonar_train_pick(decision, 0, err);
}
