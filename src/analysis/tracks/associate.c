/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "analysis/tracks/associate.h"

#include <stdlib.h>
#include <string.h>

#include "core/core.h"

enum { TRACKS = SONAR_TRACKS_MOST, PLOTS = SONAR_PLOTS_MOST, SLOTS = 2 * SONAR_EVENTS_MOST };

/* A track's assignment in an event: a plot, NONE, or PAIR + the index of the pair that shares a
 * plot. */
enum { NONE = -1, PAIR = PLOTS };
_Static_assert(PAIR + SONAR_TRACK_PAIRS_MOST <= INT16_MAX, "an int16_t each");

/* The tracks, plots and pairs that an event uses, regardless of which track has which plot. */
struct key {
    uint64_t tracks, plots[PLOTS / 64], pairs;
};

struct event {
    struct key key;
    double weight;
    int16_t has[TRACKS]; /* by index in the cluster */
};

struct sonar_associate {
    size_t events;
    struct event event[SONAR_EVENTS_MOST];
    uint32_t slot[SLOTS]; /* hash of keys: index of the event + 1 */
    /* the present cluster */
    size_t members;
    size_t member[TRACKS]; /* ascending */
    size_t pairs;
    size_t pair[SONAR_TRACK_PAIRS_MOST];
    size_t group[TRACKS]; /* [track] the lowest track of its cluster */
};

sonar_associate *sonar_associate_create(void) {
    return sonar_alloc(1, sizeof(sonar_associate));
}

void sonar_associate_destroy(sonar_associate *associate) {
    free(associate);
}

/* ---- clusters -------------------------------------------------------------------------------- */

static void join(sonar_associate *s, size_t tracks, size_t a, size_t b) {
    const size_t from = s->group[a] > s->group[b] ? s->group[a] : s->group[b],
                 to = s->group[a] + s->group[b] - from;
    for (size_t t = 0; t < tracks; t++)
        if (s->group[t] == from)
            s->group[t] = to;
}

/* Joins a track to the first track that may have the same plot. Sets *first if this is the first
 * one. */
static void join_by_plot(sonar_associate *s, size_t tracks, size_t track, size_t *first) {
    if (*first == tracks)
        *first = track;
    join(s, tracks, *first, track);
}

static void group_tracks(sonar_associate *s, const sonar_association *a) {
    for (size_t t = 0; t < a->tracks; t++)
        s->group[t] = t;
    for (size_t p = 0; p < a->pairs; p++)
        join(s, a->tracks, a->pair[p].a, a->pair[p].b);
    for (size_t j = 0; j < a->plots; j++) {
        size_t first = a->tracks;
        for (size_t t = 0; t < a->tracks; t++)
            if (a->weight[t][j] > 0)
                join_by_plot(s, a->tracks, t, &first);
        for (size_t p = 0; p < a->pairs; p++)
            if (a->pair[p].weight[j] > 0)
                join_by_plot(s, a->tracks, a->pair[p].a, &first);
    }
}

static void gather(sonar_associate *s, const sonar_association *a, size_t group) {
    s->members = s->pairs = 0;
    for (size_t t = 0; t < a->tracks; t++)
        if (s->group[t] == group)
            s->member[s->members++] = t;
    for (size_t p = 0; p < a->pairs; p++)
        if (s->group[a->pair[p].a] == group)
            s->pair[s->pairs++] = p;
}

/* An upper bound of the number of events. */
static double count_events(const sonar_associate *s, const sonar_association *a) {
    double events = 1;
    for (size_t m = 0; m < s->members; m++) {
        double options = 1;
        for (size_t j = 0; j < a->plots; j++)
            options += a->weight[s->member[m]][j] > 0;
        for (size_t p = 0; p < s->pairs; p++)
            for (size_t j = 0; j < a->plots && a->pair[s->pair[p]].a == s->member[m]; j++)
                options += a->pair[s->pair[p]].weight[j] > 0;
        events *= options;
    }
    return events;
}

/* Leaves plots out of a cluster whose weight is below `unlikely` times that of no plot, and pairs
 * whose probability of being unresolved is below `together`. */
static void thin(const sonar_associate *s, sonar_association *a, double unlikely, double together) {
    for (size_t m = 0; m < s->members; m++)
        for (size_t j = 0; j < a->plots; j++)
            if (a->weight[s->member[m]][j] < unlikely * a->missed[s->member[m]])
                a->weight[s->member[m]][j] = 0;
    for (size_t p = s->pairs; p-- > 0;) {
        sonar_track_pair *pair = &a->pair[s->pair[p]];
        for (size_t j = 0; j < a->plots; j++)
            if (pair->weight[j] < unlikely * a->missed[pair->a] * a->missed[pair->b])
                pair->weight[j] = 0;
        if (pair->together < together)
            *pair = a->pair[--a->pairs];
    }
}

/* Forms clusters with at most SONAR_EVENTS_MOST events each. */
static void make_clusters(sonar_associate *s, sonar_association *a) {
    double unlikely = 1e-9, together = 0;
    for (bool good = false; !good; unlikely *= 4, together += 0.03) {
        group_tracks(s, a);
        good = true;
        for (size_t t = 0; t < a->tracks; t++) {
            if (s->group[t] != t)
                continue;
            gather(s, a, t);
            if (count_events(s, a) <= SONAR_EVENTS_MOST)
                continue;
            thin(s, a, unlikely, together);
            good = false;
            break; /* the order of pairs has changed */
        }
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool same(const struct key *a, const struct key *b) {
    return a->tracks == b->tracks && a->plots[0] == b->plots[0] && a->plots[1] == b->plots[1] &&
           a->pairs == b->pairs;
}

static uint64_t hash(const struct key *k) {
    uint64_t h = k->tracks;
    const uint64_t more[] = {k->plots[0], k->plots[1], k->pairs};
    for (int i = 0; i < 3; i++) {
        h = (h ^ h >> 31) * UINT64_C(0x9e3779b97f4a7c15) + more[i];
        h ^= h >> 29;
    }
    return h * UINT64_C(0xbf58476d1ce4e5b9) >> 32;
}

static bool used(const struct key *k, size_t plot) {
    return k->plots[plot / 64] >> (plot % 64) & 1;
}

static void use(struct key *k, size_t plot) {
    k->plots[plot / 64] |= UINT64_C(1) << (plot % 64);
}

/* A factor that lowers the weight of events in which tracks have separate plots although the array
 * can hardly resolve them. */
static double apart(const sonar_associate *s, const sonar_association *a, const struct event *e) {
    double weight = 1;
    for (size_t p = 0; p < s->pairs; p++) {
        const sonar_track_pair *pair = &a->pair[s->pair[p]];
        bool own = false;
        for (size_t m = 0; m < s->members; m++)
            own = own || ((s->member[m] == pair->a || s->member[m] == pair->b) && e->has[m] >= 0 &&
                          e->has[m] < PAIR && !a->sharp[e->has[m]]);
        weight *= own ? 1 - pair->together : 1;
    }
    return weight;
}

static void add_event(sonar_associate *s, const sonar_association *a, const struct event *e) {
    const double weight = e->weight * apart(s, a, e);
    size_t at = s->events;
    if (!a->exchange && s->members > 1) {
        size_t i = hash(&e->key) % SLOTS;
        while (s->slot[i] && !same(&s->event[s->slot[i] - 1].key, &e->key))
            i = (i + 1) % SLOTS;
        if (s->slot[i])
            at = s->slot[i] - 1;
        else
            s->slot[i] = (uint32_t)at + 1;
    }
    if (at < s->events && s->event[at].weight >= weight)
        return;
    s->events += at == s->events;
    s->event[at] = *e;
    s->event[at].weight = weight;
}

static size_t place_of(const sonar_associate *s, size_t track) {
    size_t m = 0;
    while (s->member[m] != track)
        m++;
    return m;
}

static void decide(sonar_associate *s, const sonar_association *a, size_t m,
                   const struct event *before);

static void decide_pairs(sonar_associate *s, const sonar_association *a, size_t m,
                         const struct event *before) {
    for (size_t p = 0; p < s->pairs; p++) {
        const sonar_track_pair *pair = &a->pair[s->pair[p]];
        if (pair->a != s->member[m])
            continue;
        const size_t other = place_of(s, pair->b);
        for (size_t j = 0; j < a->plots && before->has[other] == NONE; j++) {
            if (!(pair->weight[j] > 0) || used(&before->key, j))
                continue;
            struct event e = *before;
            e.has[m] = e.has[other] = (int16_t)(PAIR + p);
            e.key.pairs |= UINT64_C(1) << p;
            use(&e.key, j);
            e.weight *= pair->weight[j];
            decide(s, a, m + 1, &e);
        }
    }
}

/* Enumerates the assignments of the tracks from the m-th on. A pair is assigned at its first
 * track. */
static void decide(sonar_associate *s, const sonar_association *a, size_t m,
                   const struct event *before) {
    if (m == s->members) {
        add_event(s, a, before);
        return;
    }
    if (before->has[m] != NONE) {
        decide(s, a, m + 1, before);
        return;
    }
    const size_t t = s->member[m];
    struct event e = *before;
    e.weight *= a->missed[t];
    decide(s, a, m + 1, &e);
    for (size_t j = 0; j < a->plots; j++) {
        if (!(a->weight[t][j] > 0) || used(&before->key, j))
            continue;
        e = *before;
        e.has[m] = (int16_t)j;
        e.key.tracks |= UINT64_C(1) << m;
        use(&e.key, j);
        e.weight *= a->weight[t][j];
        decide(s, a, m + 1, &e);
    }
    decide_pairs(s, a, m, before);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* The part of a track's plot that is its own: it may contain a near track that has no plot. */
static double alone(const sonar_associate *s, const sonar_association *a, const struct event *e,
                    size_t m) {
    double part = 1;
    for (size_t p = 0; p < s->pairs; p++) {
        const sonar_track_pair *pair = &a->pair[s->pair[p]];
        if (pair->a == s->member[m] && e->has[place_of(s, pair->b)] == NONE)
            part *= 1 - pair->bias[0];
        if (pair->b == s->member[m] && e->has[place_of(s, pair->a)] == NONE)
            part *= 1 - pair->bias[1];
    }
    return part;
}

static void sum_up(const sonar_associate *s, sonar_association *a) {
    double all = 0;
    for (size_t i = 0; i < s->events; i++)
        all += s->event[i].weight;
    for (size_t i = 0; i < s->events; i++) {
        const struct event *e = &s->event[i];
        const double share = e->weight / all;
        for (size_t j = 0; j < a->plots; j++)
            a->taken[j] += used(&e->key, j) ? share : 0;
        for (size_t m = 0; m < s->members; m++) {
            const size_t t = s->member[m];
            if (e->has[m] == NONE) {
                a->none[t] += share;
            } else if (e->has[m] >= PAIR) {
                a->both[t] += share;
            } else {
                a->own[t][e->has[m]] += share;
                a->sure[t][e->has[m]] += share * alone(s, a, e, m);
            }
        }
    }
}

void sonar_associate_run(sonar_associate *s, sonar_association *a) {
    memset(a->own, 0, a->tracks * sizeof *a->own);
    memset(a->sure, 0, a->tracks * sizeof *a->sure);
    memset(a->both, 0, sizeof a->both);
    memset(a->none, 0, sizeof a->none);
    memset(a->taken, 0, sizeof a->taken);
    make_clusters(s, a);
    for (size_t t = 0; t < a->tracks; t++) {
        if (s->group[t] != t)
            continue;
        gather(s, a, t);
        s->events = 0;
        if (s->members > 1)
            memset(s->slot, 0, sizeof s->slot);
        struct event none = {.weight = 1};
        for (size_t m = 0; m < s->members; m++)
            none.has[m] = NONE;
        decide(s, a, 0, &none);
        sum_up(s, a);
    }
}
