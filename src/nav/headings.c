/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "nav/headings.h"

#include <math.h>

#include "core/core.h"

enum { TRIES = 1000 };

/* ---- writing --------------------------------------------------------------------------------- */

/* A reader that sees an odd number of changes, or a different number afterwards, reads again. All
 * accesses are sequentially consistent: headings are rare. */
void sonar_headings_add(sonar_headings *h, double deg, int64_t utc_ns, bool held) {
    const unsigned begun = atomic_load(&h->changes) + 1;
    size_t count = atomic_load(&h->count);
    const size_t last = (count + SONAR_HEADINGS - 1) % SONAR_HEADINGS;
    if (count && utc_ns < atomic_load(&h->heading[last].utc_ns))
        count = 0;
    else if (count && utc_ns == atomic_load(&h->heading[last].utc_ns))
        count--;
    atomic_store(&h->changes, begun);
    atomic_store(&h->heading[count % SONAR_HEADINGS].utc_ns, utc_ns);
    atomic_store(&h->heading[count % SONAR_HEADINGS].deg, sonar_modulo_turn(deg));
    atomic_store(&h->count, count + 1);
    atomic_store(&h->held, held);
    atomic_store(&h->changes, begun + 1);
}

/* ---- reading --------------------------------------------------------------------------------- */

static double from_to(double a_deg, double b_deg, double share) {
    return sonar_modulo_turn(a_deg + share * remainder(b_deg - a_deg, 360));
}

static sonar_heading heading_at(const sonar_headings *h, size_t i) {
    i %= SONAR_HEADINGS;
    return (sonar_heading){atomic_load(&h->heading[i].utc_ns), atomic_load(&h->heading[i].deg)};
}

/* Two headings that differ by more than a ship can turn come from two instruments, or one came
 * late; they are not interpolated. */
static bool is_turn(sonar_heading last, sonar_heading before, double step_s) {
    const double fastest_deg_per_s = 30;
    return fabs(remainder(last.deg - before.deg, 360)) <= fastest_deg_per_s * step_s;
}

/* After the newest value the turn is extrapolated for as long as the last two values were apart.
 * Then the heading stays constant until it is stale. */
static bool beyond(sonar_heading last, sonar_heading before, bool two, bool held, int64_t utc_ns,
                   double stale_after_s, double *deg) {
    const double since_s = (double)(utc_ns - last.utc_ns) * 1e-9;
    const double step_s = two ? (double)(last.utc_ns - before.utc_ns) * 1e-9 : 0;
    *deg = last.deg;
    if (held)
        return true;
    if (step_s > 0 && step_s < stale_after_s && is_turn(last, before, step_s))
        *deg = from_to(before.deg, last.deg, 1 + fmin(since_s, step_s) / step_s);
    return since_s <= stale_after_s;
}

static bool find(const sonar_headings *h, int64_t utc_ns, double stale_after_s, double *deg) {
    const size_t count = atomic_load(&h->count);
    const size_t first = count > SONAR_HEADINGS ? count - SONAR_HEADINGS : 0;
    const bool held = atomic_load(&h->held);
    if (!count)
        return false;
    sonar_heading after = heading_at(h, count - 1);
    if (utc_ns >= after.utc_ns)
        return beyond(after, count - first > 1 ? heading_at(h, count - 2) : after,
                      count - first > 1, held, utc_ns, stale_after_s, deg);
    for (size_t i = count - 1; i > first; i--) {
        const sonar_heading before = heading_at(h, i - 1);
        const double step_s = (double)(after.utc_ns - before.utc_ns) * 1e-9;
        if (utc_ns >= before.utc_ns) {
            *deg = from_to(before.deg, after.deg,
                           (double)(utc_ns - before.utc_ns) * 1e-9 / fmax(step_s, 1e-9));
            return step_s <= stale_after_s;
        }
        after = before;
    }
    *deg = after.deg; /* before the first value: the same tolerance as after the last one */
    return held || (double)(after.utc_ns - utc_ns) * 1e-9 <= stale_after_s;
}

bool sonar_headings_find(sonar_headings *h, int64_t utc_ns, double stale_after_s, double *deg) {
    for (int i = 0; i < TRIES; i++) {
        const unsigned begun = atomic_load(&h->changes);
        if (begun & 1)
            continue;
        const bool found = find(h, utc_ns, stale_after_s, deg);
        if (atomic_load(&h->changes) == begun)
            return found;
    }
    return false;
}

bool sonar_headings_empty(const sonar_headings *h) {
    return !atomic_load(&h->count);
}

bool sonar_headings_newest(const sonar_headings *h, sonar_heading *newest) {
    const size_t count = atomic_load(&h->count);
    if (count)
        *newest = heading_at(h, count - 1);
    return count;
}
