/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ranks/agree.h"

#include <string.h>

#include "core/core.h"

/* Whether a window is late, foreign or can be processed. */
static bool is_late(const sonar_timeline *t, const sonar_offer *offer, size_t rank) {
    return t->runs && offer->epoch == t->epoch && offer->first_sample < t->next_sample &&
           t->known[rank] && offer->timeline == t->of[rank];
}

static bool is_foreign(const sonar_timeline *t, const sonar_offer *offer) {
    return !t->runs || offer->epoch != t->epoch || offer->first_sample < t->next_sample;
}

/* Summary of a round's offers. */
struct round {
    size_t own,
        foreign;        /* number of ranks with a window of the timeline, and with another window */
    uint64_t oldest;    /* first sample of the oldest window of the timeline */
    int64_t longest_ns; /* longest time that a window of the timeline has waited */
    int64_t longest_foreign; /* that a foreign window has waited */
    size_t first_foreign;    /* lowest rank with a foreign window */
    bool one_epoch;          /* the oldest foreign window */
    bool draining, stopping, blocked;
};

static void add_foreign(struct round *r, const sonar_offer *offer, size_t rank) {
    if (!r->foreign++)
        r->first_foreign = rank;
    r->one_epoch = r->one_epoch && offer[rank].epoch == offer[r->first_foreign].epoch;
    if (offer[rank].waited_ns > r->longest_foreign)
        r->longest_foreign = offer[rank].waited_ns;
}

static void add_own(struct round *r, const sonar_offer *offer) {
    if (!r->own++ || offer->first_sample < r->oldest)
        r->oldest = offer->first_sample;
    if (offer->waited_ns > r->longest_ns)
        r->longest_ns = offer->waited_ns;
}

static struct round look(size_t ranks, const sonar_offer *offer, const sonar_timeline *t) {
    struct round r = {.one_epoch = true};
    for (size_t i = 0; i < ranks; i++) {
        r.draining = r.draining || offer[i].draining;
        r.stopping = r.stopping || offer[i].stopping;
        r.blocked = r.blocked || offer[i].blocked;
        if (!offer[i].has || is_late(t, &offer[i], i))
            continue;
        if (is_foreign(t, &offer[i]))
            add_foreign(&r, offer, i);
        else
            add_own(&r, &offer[i]);
    }
    return r;
}

/* Adopts the timeline of the lowest rank with a foreign window, if the conditions in agree.h
 * hold. */
static bool adopt(const sonar_agree_spec *spec, const struct round *r, const sonar_offer *offer,
                  sonar_timeline *t) {
    const bool all = r->foreign == spec->ranks && r->one_epoch;
    const bool silent = !t->runs || offer[0].idle_ns - spec->hop_ns >= spec->restart_after_ns;
    const bool waited = r->longest_foreign >= spec->restart_after_ns;
    if (r->own || !r->foreign || !(all || (silent && waited)))
        return false;
    memset(t->known, 0, sizeof t->known);
    t->runs = true;
    t->epoch = offer[r->first_foreign].epoch;
    t->next_sample = 0;
    return true;
}

static void know(sonar_timeline *t, const sonar_offer *offer, size_t rank) {
    t->known[rank] = true;
    t->of[rank] = offer[rank].timeline;
}

/* Drops foreign windows while other ranks continue. A rank may have had no window of the timeline
 * and only foreign windows of its epoch: these are behind the timeline from the start, and count as
 * late from now on. */
static void pass_by(size_t ranks, const sonar_offer *offer, sonar_timeline *t, sonar_verdict *v) {
    for (size_t i = 0; i < ranks; i++) {
        if (!offer[i].has || !is_foreign(t, &offer[i]))
            continue;
        v->drop[i] = true;
        if (offer[i].epoch == t->epoch && !t->known[i])
            know(t, offer, i);
    }
}

/* Called after it is decided which windows are dropped. */
static void take_part(size_t ranks, const sonar_offer *offer, sonar_timeline *t, sonar_verdict *v) {
    v->lookback = UINT64_MAX;
    for (size_t i = 0; i < ranks; i++) {
        v->present[i] = offer[i].has && !v->drop[i] && offer[i].first_sample == v->first_sample;
        if (!v->present[i])
            continue;
        know(t, offer, i);
        v->restarted = v->restarted || offer[i].restarted;
        if (offer[i].lookback < v->lookback)
            v->lookback = offer[i].lookback;
    }
}

sonar_verdict sonar_agree(const sonar_agree_spec *spec, const sonar_offer *offer,
                          sonar_timeline *t) {
    struct round r = look(spec->ranks, offer, t);
    const sonar_timeline before = *t;
    sonar_verdict v = {.kind = r.stopping ? SONAR_ROUND_LEAVE : SONAR_ROUND_WAIT};
    if (r.stopping || r.blocked)
        return v;
    const bool adopted = adopt(spec, &r, offer, t);
    if (adopted)
        r = look(spec->ranks, offer, t);
    for (size_t i = 0; i < spec->ranks; i++)
        v.drop[i] = offer[i].has && is_late(t, &offer[i], i);
    if (r.own)
        pass_by(spec->ranks, offer, t, &v);
    const bool complete = r.own == spec->ranks;
    if (r.draining && !complete)
        v.kind = SONAR_ROUND_LEAVE;
    else if (complete || (r.own && (adopted || r.longest_ns >= spec->max_skew_ns)))
        v.kind = SONAR_ROUND_RUN;
    if (v.kind != SONAR_ROUND_RUN)
        return v;
    v.first_sample = r.oldest;
    v.restarted = adopted && before.runs;
    take_part(spec->ranks, offer, t, &v);
    if (before.runs)
        t->window += adopted ? 1 : (v.first_sample + spec->hop - before.next_sample) / spec->hop;
    v.window = t->window;
    t->next_sample = v.first_sample + spec->hop;
    return v;
}

sonar_window sonar_agree_window(const sonar_agree_spec *spec, const sonar_offer *offer,
                                const sonar_timeline *t, const sonar_verdict *v, int64_t now_ns) {
    sonar_window w = {.window = v->window,
                      .first_sample = v->first_sample,
                      .lookback = (size_t)v->lookback,
                      .epoch = t->epoch,
                      .restarted = v->restarted};
    int64_t least_ns = INT64_MAX;
    double lost = 0, channels = 0;
    for (size_t r = 0; r < spec->ranks; r++) {
        const sonar_offer *o = &offer[r];
        const double worst = v->present[r] ? o->missing_worst : 1;
        lost += (double)o->channels * (v->present[r] ? o->missing_mean : 1);
        channels += (double)o->channels;
        w.missing_worst = worst > w.missing_worst ? worst : w.missing_worst;
        if (!v->present[r])
            continue;
        w.flags |= o->frame_flags;
        w.utc_ns = w.utc_ns ? w.utc_ns : o->utc_ns;
        least_ns = o->waited_ns < least_ns ? o->waited_ns : least_ns;
    }
    w.missing_mean = lost / channels;
    w.arrival_ns = now_ns - least_ns;
    return w;
}
