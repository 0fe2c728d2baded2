/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ingest/shed.h"

#include <math.h>

void sonar_shed_init(sonar_shed *shed, double fs_hz, double begins_s, int queued_most) {
    *shed = (sonar_shed){.fs_hz = fs_hz, .begins_s = begins_s, .queued_most = queued_most};
}

void sonar_shed_restart(sonar_shed *shed) {
    sonar_shed_init(shed, shed->fs_hz, shed->begins_s, shed->queued_most);
}

void sonar_shed_time(sonar_shed *shed, uint64_t first, uint32_t samples, int64_t now_ns) {
    const int64_t quarter_minute_ns = 15000000000;
    if (!(shed->begins_s > 0))
        return;
    int64_t delay_ns = now_ns - llround(((double)first + samples) * 1e9 / shed->fs_hz);
    shed->frame_samples = samples;
    if (!shed->timed)
        shed->least_ns[0] = shed->least_ns[1] = delay_ns;
    if (!shed->timed || now_ns - shed->turned_ns > quarter_minute_ns) {
        shed->least_ns[1] = shed->least_ns[0];
        shed->least_ns[0] = delay_ns;
        shed->turned_ns = now_ns;
        shed->timed = true;
    }
    if (delay_ns < shed->least_ns[0])
        shed->least_ns[0] = delay_ns;
    int64_t least_ns =
        shed->least_ns[0] < shed->least_ns[1] ? shed->least_ns[0] : shed->least_ns[1];
    shed->late_ns = delay_ns - least_ns;
}

bool sonar_shed_takes(sonar_shed *shed, uint64_t first, uint64_t end) {
    if (first < shed->from || (!shed->on && end > shed->to))
        return false;
    if (end > shed->to)
        shed->to = end;
    return true;
}

bool sonar_shed_took(const sonar_shed *shed, uint64_t first, uint64_t end) {
    return end > shed->from && first < shed->to;
}

static int64_t begins_ns(const sonar_shed *shed) {
    double half_full_s = 0.5 * shed->queued_most * shed->frame_samples / shed->fs_hz;
    return llround(1e9 * fmin(shed->begins_s, half_full_s));
}

sonar_shed_turn sonar_shed_tick(sonar_shed *shed, bool busy) {
    if (!(shed->begins_s > 0))
        return SONAR_SHED_STAYS;
    int64_t *then_ns = &shed->tick_late_ns[shed->ticks % SONAR_SHED_TICKS];
    bool growing = shed->ticks >= SONAR_SHED_TICKS && shed->late_ns > *then_ns;
    *then_ns = shed->late_ns;
    shed->ticks = busy ? shed->ticks + 1 : 0;
    if (shed->on)
        return !busy || shed->late_ns < begins_ns(shed) / 4 ? SONAR_SHED_ENDS : SONAR_SHED_STAYS;
    return busy && growing && shed->late_ns > begins_ns(shed) ? SONAR_SHED_BEGINS
                                                              : SONAR_SHED_STAYS;
}

void sonar_shed_begin(sonar_shed *shed, uint64_t from) {
    shed->on = true;
    shed->from = shed->to = from;
}

void sonar_shed_end(sonar_shed *shed, uint64_t to) {
    shed->on = false;
    shed->to = to;
}
