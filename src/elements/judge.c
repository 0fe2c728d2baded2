/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Compares every sensor with the median of all, in dB, and loud ones with their neighbours, too.
 * Allocates nothing. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "elements/internal.h"

enum { NEIGHBOURS = 2 /* on either side */, LEAST_SENSORS = 3, DEVIATIONS = 6 };
static const double QUIET_DB = 12, LOUD_DB = 20, HUM_DB = 12, SMALL_ARRAY_DB = 72;
/* Above this distance from the median a sensor is noisy even if its neighbours are loud: they may
 * be noisy as well. A ship within metres of the first of hundreds of sensors makes 40 dB. */
static const double ALONE_DB = 45;

/* ---- robust statistics ----------------------------------------------------------------------- */

struct spread {
    double middle, deviation; /* median; 1.4826 MAD */
};

/* Median and deviation of the values that are not NaN; n: number of these values. */
static struct spread spread_of(sonar_elements *e, const float *value, size_t *n) {
    size_t count = 0;
    for (size_t s = 0; s < e->spec.sensors; s++)
        if (!isnan(value[s]))
            e->sorted[count++] = value[s];
    *n = count;
    if (!count)
        return (struct spread){0};
    struct spread result = {.middle = (double)sonar_median(e->sorted, count)};
    for (size_t i = 0; i < count; i++)
        e->sorted[i] = fabsf(e->sorted[i] - (float)result.middle);
    result.deviation = 1.4826 * (double)sonar_median(e->sorted, count);
    return result;
}

/* The margin: wider for few sensors, because they are a poor reference for one another. */
static double margin_db(double least, size_t n, const struct spread *spread) {
    return fmax(least + SMALL_ARRAY_DB / (double)n, DEVIATIONS * spread->deviation);
}

/* ---- levels ---------------------------------------------------------------------------------- */

static bool judgeable(const sonar_elements *e, size_t s) {
    return sonar_element_used(e, s) && e->measure[s].taken;
}

/* Noise power of the converter. Its step is estimated as the smallest one seen. */
static double step_noise(const sonar_elements *e) {
    float step = FLT_MAX;
    for (size_t s = 0; s < e->spec.sensors; s++)
        if (judgeable(e, s) && e->measure[s].step > 0)
            step = fminf(step, e->measure[s].step);
    return step < FLT_MAX ? (double)step * (double)step / 12 : 0;
}

/* True if there is enough signal to recognise a constant sensor: at least half the sensors vary by
 * half a step (rms). *n: how many were measured. */
static bool is_loud_enough(sonar_elements *e, double noise, size_t *n) {
    for (size_t s = 0; s < e->spec.sensors; s++)
        e->level[s] = judgeable(e, s) ? e->measure[s].power : NAN;
    struct spread power = spread_of(e, e->level, n);
    return power.middle > 0 && power.middle >= 3 * noise;
}

enum quantity { OCTAVE = 0, HUM = OCTAVES, PROBE = HUM + MAINS };

static float power_of(const struct measure *m, int quantity) {
    return quantity == PROBE ? m->probe
           : quantity >= HUM ? m->hum[quantity - HUM]
                             : m->octave[quantity];
}

/* Levels in dB of the sensors that vary, over the converter's noise; NaN for the others. */
static void fill_levels(sonar_elements *e, int quantity, double noise) {
    if (quantity >= HUM) /* the sensor's probes contain a single frequency only */
        noise /= (double)(quantity == PROBE ? e->probed : e->stretch);
    for (size_t s = 0; s < e->spec.sensors; s++) {
        const struct measure *m = &e->measure[s];
        double power = (double)power_of(m, quantity);
        double scale = (double)e->spec.scale[s];
        bool moves = judgeable(e, s) && !m->constant;
        e->level[s] = moves ? (float)(10 * log10((power + noise) * scale * scale + DBL_MIN)) : NAN;
    }
}

/* Level relative to the median of its neighbours; 0 if it has none. */
static float over_neighbours(const sonar_elements *e, size_t s) {
    float near[2 * NEIGHBOURS];
    size_t n = 0;
    for (size_t k = s, left = NEIGHBOURS; k-- > 0 && left;)
        if (!isnan(e->level[k]))
            near[n++] = e->level[k], left--;
    for (size_t k = s + 1, left = NEIGHBOURS; k < e->spec.sensors && left; k++)
        if (!isnan(e->level[k]))
            near[n++] = e->level[k], left--;
    return n ? e->level[s] - sonar_median(near, n) : 0;
}

static void fill_residuals(sonar_elements *e) {
    for (size_t s = 0; s < e->spec.sensors; s++)
        e->residual[s] = isnan(e->level[s]) ? NAN : over_neighbours(e, s);
}

static bool is_loud(const sonar_elements *e, size_t s, size_t n, double least,
                    const struct spread *all, const struct spread *near) {
    double over = (double)e->level[s] - all->middle;
    double over_near = (double)e->residual[s] - near->middle;
    return over > margin_db(least, n, all) &&
           (over_near > margin_db(least, n, near) || over > margin_db(ALONE_DB, n, all));
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void note(sonar_elements *e, size_t s, sonar_element_fault fault) {
    e->seen[s] |= (uint8_t)(1u << fault);
}

static bool has(const sonar_elements *e, size_t s, sonar_element_fault fault) {
    return e->seen[s] >> fault & 1;
}

static void judge_constants(sonar_elements *e) {
    for (size_t s = 0; s < e->spec.sensors; s++) {
        const struct measure *m = &e->measure[s];
        if (judgeable(e, s) && m->constant)
            note(e, s, m->zero ? SONAR_ELEMENT_DEAD : SONAR_ELEMENT_STUCK);
    }
}

static bool is_quiet(const sonar_elements *e, size_t s, size_t n, const struct spread *all) {
    return (double)e->level[s] < all->middle - margin_db(QUIET_DB, n, all);
}

/* Marks sensors as dead by the probes. judge_octaves clears this if an octave has signal. */
static void judge_probes(sonar_elements *e, double noise) {
    size_t n;
    fill_levels(e, PROBE, noise);
    struct spread all = spread_of(e, e->level, &n);
    for (size_t s = 0; s < e->spec.sensors && n >= LEAST_SENSORS; s++)
        if (!isnan(e->level[s]) && is_quiet(e, s, n, &all))
            note(e, s, SONAR_ELEMENT_DEAD);
}

/* The spreads of the levels and of the residuals; returns the number of sensors. */
static size_t find_spreads(sonar_elements *e, int quantity, double noise, struct spread *all,
                           struct spread *near) {
    size_t n;
    fill_levels(e, quantity, noise);
    fill_residuals(e);
    *near = spread_of(e, e->residual, &n);
    *all = spread_of(e, e->level, &n);
    return n;
}

/* Noisy if the sensor is noisy in any octave of the band. */
static void judge_octaves(sonar_elements *e, double noise) {
    struct spread all, near;
    for (size_t octave = 0; octave < e->octaves; octave++) {
        bool in_band = octave >= e->band_first && octave < e->band_end;
        const size_t n = find_spreads(e, OCTAVE + (int)octave, noise, &all, &near);
        for (size_t s = 0; s < e->spec.sensors && n >= LEAST_SENSORS; s++) {
            if (isnan(e->level[s]))
                continue;
            if (!is_quiet(e, s, n, &all))
                e->seen[s] &= (uint8_t) ~(1u << SONAR_ELEMENT_DEAD);
            if (in_band && is_loud(e, s, n, LOUD_DB, &all, &near))
                note(e, s, SONAR_ELEMENT_NOISY);
        }
    }
}

/* A sensor loud only because of hum is not noisy. */
static void judge_hum(sonar_elements *e, double noise) {
    struct spread all, near;
    for (int mains = 0; mains < MAINS && e->harmonics; mains++) {
        const size_t n = find_spreads(e, HUM + mains, noise, &all, &near);
        for (size_t s = 0; s < e->spec.sensors && n >= LEAST_SENSORS; s++) {
            const struct measure *m = &e->measure[s];
            if (isnan(e->level[s]) || !is_loud(e, s, n, HUM_DB, &all, &near) ||
                10 * log10((double)m->hum[mains] / ((double)m->beside[mains] + DBL_MIN)) < HUM_DB)
                continue;
            note(e, s, SONAR_ELEMENT_HUM);
            if ((float)e->harmonics * m->hum[mains] > m->power / 2)
                e->seen[s] &= (uint8_t) ~(1u << SONAR_ELEMENT_NOISY);
        }
    }
}

/* A sensor whose samples hardly ever change is stuck (glitches excepted), and so is one whose
 * digitiser repeats a block. A quiet sensor is not stuck: its level marks it as dead. */
static void judge_samples(sonar_elements *e) {
    const float most_same = 0.9f;
    for (size_t s = 0; s < e->spec.sensors; s++) {
        const struct measure *m = &e->measure[s];
        if (!judgeable(e, s) || m->constant)
            continue;
        if ((m->same > most_same || m->repeated) && !has(e, s, SONAR_ELEMENT_DEAD))
            note(e, s, SONAR_ELEMENT_STUCK);
        if (m->clipped)
            note(e, s, SONAR_ELEMENT_CLIPPED);
    }
}

/* The first sensor with the same fingerprint as `s`; it may be `s` itself. */
static uint32_t first_alike(sonar_elements *e, size_t s) {
    const uint64_t wanted = e->measure[s].fingerprint;
    size_t at = wanted & (e->firsts - 1);
    while (e->first[at] != NO_SENSOR && e->measure[e->first[at]].fingerprint != wanted)
        at = (at + 1) & (e->firsts - 1);
    if (e->first[at] == NO_SENSOR)
        e->first[at] = (uint32_t)s;
    return e->first[at];
}

/* Two hydrophones have different noise. Equal samples come from wiring, or from a digitiser or
 * simulator that duplicates a channel. */
static void judge_identical(sonar_elements *e) {
    memset(e->first, 0xff, e->firsts * sizeof *e->first);
    for (size_t s = 0; s < e->spec.sensors; s++) {
        if (!judgeable(e, s) || !e->measure[s].fingerprint || has(e, s, SONAR_ELEMENT_DEAD) ||
            has(e, s, SONAR_ELEMENT_STUCK))
            continue;
        const uint32_t first = first_alike(e, s);
        if (first == s)
            continue;
        note(e, first, SONAR_ELEMENT_IDENTICAL);
        note(e, s, SONAR_ELEMENT_IDENTICAL);
    }
}

/* ---- over time ------------------------------------------------------------------------------- */

static void count_round(struct standing *at, bool bad, unsigned set_after, unsigned clear_after) {
    at->bad = bad ? (uint16_t)sonar_min_size(at->bad + 1u, UINT16_MAX) : 0;
    at->good = bad ? 0 : (uint16_t)sonar_min_size(at->good + 1u, UINT16_MAX);
    at->set = at->set ? at->good < clear_after : at->bad >= set_after;
}

/* Faults that spoil the beams. Clipping is not one, because the beams still need the sensor when
 * the sea is louder than the converter; nor is hum outside the band. */
static uint8_t spoiling(const sonar_elements *e) {
    uint8_t faults =
        1u << SONAR_ELEMENT_DEAD | 1u << SONAR_ELEMENT_STUCK | 1u << SONAR_ELEMENT_NOISY;
    if (e->spec.low_hz <= 60 * HARMONICS)
        faults |= 1u << SONAR_ELEMENT_HUM;
    return faults;
}

/* The number of sensors that may be removed; with fewer left, judging becomes unreliable. */
static size_t most_out(const sonar_elements *e) {
    return (e->spec.sensors - e->masked) / 3;
}

/* If more sensors repeat themselves than may be removed, the cause is a digitiser, or a test tone
 * without noise, and removing a third of them would not improve the beams. */
static bool all_repeat(const sonar_elements *e) {
    size_t count = 0;
    for (size_t s = 0; s < e->spec.sensors; s++)
        count += judgeable(e, s) && e->measure[s].repeated;
    return count > most_out(e);
}

static bool update_mask(sonar_elements *e) {
    const uint8_t faults = spoiling(e);
    const bool stay = all_repeat(e);
    bool changed = false;
    size_t out = 0;
    for (size_t s = 0; s < e->spec.sensors; s++) {
        const unsigned forgiven = stay && e->measure[s].repeated ? 1u << SONAR_ELEMENT_STUCK : 0;
        const bool bad = e->seen[s] & faults & ~forgiven;
        if (judgeable(e, s))
            count_round(&e->out[s], bad, SONAR_ELEMENTS_OUT_ROUNDS, e->patience[s]);
        if (e->mask[s] && !e->out[s].set) {
            e->mask[s] = 0;
            e->patience[s] =
                (uint16_t)sonar_min_size(2u * e->patience[s], SONAR_ELEMENTS_BACK_MOST);
            changed = true;
        }
        out += e->mask[s];
    }
    for (size_t s = 0; s < e->spec.sensors && out < most_out(e); s++)
        if (e->out[s].set && !e->mask[s]) {
            e->mask[s] = 1;
            changed = true;
            out++;
        }
    return changed;
}

static void update_flags(sonar_elements *e) {
    for (size_t s = 0; s < e->spec.sensors; s++)
        for (int i = 0; i < SONAR_ELEMENT_FAULTS && judgeable(e, s); i++)
            count_round(&e->fault[s * SONAR_ELEMENT_FAULTS + (size_t)i], e->seen[s] >> i & 1,
                        SONAR_ELEMENTS_FLAG_ROUNDS, SONAR_ELEMENTS_CLEAR_ROUNDS);
}

/* Clears the state of a sensor masked by hand, which is not judged. */
static void forget(sonar_elements *e, size_t s) {
    for (int i = 0; i < SONAR_ELEMENT_FAULTS; i++)
        e->fault[s * SONAR_ELEMENT_FAULTS + (size_t)i] = (struct standing){0};
    e->out[s] = (struct standing){0};
    e->mask[s] = 0;
    e->patience[s] = SONAR_ELEMENTS_BACK_ROUNDS;
}

void sonar_elements_change(sonar_elements *e, const uint8_t *used, const float *scale) {
    e->spec.scale = scale;
    e->masked = 0;
    for (size_t s = 0; s < e->spec.sensors; s++) {
        if (!used[s] && sonar_element_used(e, s))
            forget(e, s);
        e->masked += !used[s];
        atomic_store_explicit(&e->used[s], used[s] != 0, memory_order_relaxed);
    }
}

/* Judges every sensor against the others; true if the mask has changed. */
static bool judge_sensors(sonar_elements *e, double noise) {
    judge_probes(e, noise);
    judge_octaves(e, noise);
    judge_hum(e, noise);
    judge_samples(e);
    judge_constants(e);
    judge_identical(e);
    for (size_t s = 0; s < e->spec.sensors; s++)
        e->judged += judgeable(e, s);
    update_flags(e);
    return update_mask(e);
}

/* With too little signal the sensors' states stay as they are. */
static void note_still(sonar_elements *e) {
    for (size_t s = 0; s < e->spec.sensors; s++)
        if (judgeable(e, s) && e->measure[s].constant)
            e->seen[s] = STILL;
}

bool sonar_elements_judge(sonar_elements *e) {
    if (atomic_load_explicit(&e->turn, memory_order_acquire) != TURN_JUDGE)
        return false;
    const double noise = step_noise(e);
    size_t measured;
    memset(e->seen, 0, e->spec.sensors);
    e->judged = 0;
    const bool loud = is_loud_enough(e, noise, &measured);
    const bool changed = loud && judge_sensors(e, noise);
    if (!loud)
        note_still(e);
    if (measured)
        count_round(&e->quiet, !loud, SONAR_ELEMENTS_FLAG_ROUNDS, SONAR_ELEMENTS_CLEAR_ROUNDS);
    atomic_store_explicit(&e->turn, TURN_MEASURE, memory_order_release);
    return changed;
}

/* ---- lists for the status -------------------------------------------------------------------- */

const uint8_t *sonar_elements_mask(const sonar_elements *e) {
    return e->mask;
}

/* Reasons other than faults for which sensors are listed. */
enum { LISTED_TAKEN_OUT = SONAR_ELEMENT_FAULTS, LISTED_BY_HAND, LISTED_STILL };

static bool is_listed(const sonar_elements *e, size_t s, int what, const uint8_t *used) {
    if (what < SONAR_ELEMENT_FAULTS)
        return e->fault[s * SONAR_ELEMENT_FAULTS + (size_t)what].set;
    if (what == LISTED_STILL)
        return e->quiet.set && e->seen[s] & STILL;
    const bool by_hand = !sonar_element_used(e, s);
    return what == LISTED_BY_HAND ? by_hand : !by_hand && !used[s];
}

/* Sensors with that fault, those masked by hand or automatically, or those that do not vary. */
static sonar_element_list list_of(const sonar_elements *e, int what, const uint8_t *used) {
    sonar_element_list list = {0};
    for (size_t s = 0; s < e->spec.sensors; s++)
        if (is_listed(e, s, what, used)) {
            sonar_channel_set_add(&list.sensors, (uint32_t)s, 1);
            list.used += used[s];
        }
    for (size_t c = 0; c < e->spec.channels && list.sensors.count; c++)
        if (e->fed[c] != NO_SENSOR && is_listed(e, e->fed[c], what, used))
            sonar_channel_set_add(&list.channels, (uint32_t)c, 1);
    return list;
}

void sonar_elements_read(const sonar_elements *e, const uint8_t *used,
                         sonar_element_health *health) {
    *health =
        (sonar_element_health){.judged = e->judged, .masked = e->masked, .quiet = e->quiet.set};
    health->still = list_of(e, LISTED_STILL, used);
    for (int i = 0; i < SONAR_ELEMENT_FAULTS; i++)
        health->fault[i] = list_of(e, i, used);
    health->masked_auto = list_of(e, LISTED_TAKEN_OUT, used);
    health->masked_hand = list_of(e, LISTED_BY_HAND, used);
}
