/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Passes the samples to the recorder as soon as they no longer change, in stretches that describe
 * their gaps and flags. Called when a window is over (windows.c), periodically and at the end
 * (begin.c), and before a new timeline (timeline.c). */
#include "ingest/internal.h"

sonar_buffer sonar_assembler_ring(const sonar_assembler *a) {
    return sonar_buffer_view(a->store.ring, a->store.s16 ? SONAR_S16 : SONAR_F32, 2,
                             (size_t[]){a->channels, a->capacity});
}

void sonar_outlet_begin(sonar_assembler *a, uint64_t from) {
    a->outlet.from = from;
    a->outlet.utc_ns = 0;
    a->outlet.flagged_count = 0;
}

/* If there are too many flag changes, the last ones are merged into one. */
void sonar_outlet_note(sonar_assembler *a, const sonar_booking *b, uint64_t from, uint64_t end) {
    struct outlet *o = &a->outlet;
    const sonar_frame *frame = &b->frame;
    const uint32_t flags = frame->flags & SONAR_FRAME_OF_SAMPLES;
    if (frame->utc_ns && (!o->utc_ns || frame->first_channel <= o->time_channel)) {
        o->time_channel = frame->first_channel;
        o->time_at = b->at;
        o->utc_ns = frame->utc_ns;
    }
    if (!flags || !o->sink)
        return;
    struct flagged *last = o->flagged_count ? &o->flagged[o->flagged_count - 1] : NULL;
    if (last && last->flags == flags && from >= last->from && from <= last->end) {
        last->end = end > last->end ? end : last->end;
    } else if (o->flagged_count < FLAGGED_MOST) {
        o->flagged[o->flagged_count++] = (struct flagged){from, end, flags};
    } else {
        last->from = from < last->from ? from : last->from;
        last->end = end > last->end ? end : last->end;
        last->flags |= flags;
    }
}

/* ---- a stretch ------------------------------------------------------------------------------- */

/* Ends the current run. The channel before often lacks the same samples; then the run is extended
 * to both. */
static void end_run(struct outlet *o) {
    enum { LOOK_BACK = 64 };
    const sonar_lack run = o->run;
    if (!run.channels)
        return;
    o->run.channels = 0;
    for (size_t i = o->lacks; i > 0 && i + LOOK_BACK > o->lacks; i--) {
        sonar_lack *at = &o->lack[i - 1];
        if (at->first_channel + at->channels == run.first_channel && at->begin == run.begin &&
            at->end == run.end) {
            at->channels++;
            return;
        }
    }
    o->too_many = o->too_many || o->lacks == o->lacks_most;
    if (!o->too_many)
        o->lack[o->lacks++] = run;
}

/* Notes a run of absent samples, or a piece of one. */
static void note_run(void *arg, size_t channel, uint64_t from, size_t samples) {
    struct outlet *o = &((sonar_assembler *)arg)->outlet;
    const uint32_t begin = (uint32_t)(from - o->from), end = begin + (uint32_t)samples;
    if (o->run.channels && o->run.first_channel == channel && o->run.end == begin) {
        o->run.end = end;
        return;
    }
    end_run(o);
    o->run = (sonar_lack){(uint32_t)channel, 1, begin, end};
}

/* Lists what the next `samples` samples lack; false if the list is too short. */
static bool list_lacks(sonar_assembler *a, size_t samples) {
    struct outlet *o = &a->outlet;
    const uint64_t end = o->from + samples;
    o->lacks = 0;
    o->too_many = false;
    for (size_t k = 0; k < a->channels && !o->too_many; k++)
        if (a->since[k] > o->from || a->reached[k] < end)
            sonar_loss_absent(a, k, o->from, end, note_run, a);
    end_run(o);
    return !o->too_many;
}

/* True if all channels lack the whole stretch. */
static bool all_lack(const sonar_assembler *a, size_t samples) {
    const struct outlet *o = &a->outlet;
    return o->lacks == 1 && o->lack[0].channels == a->channels &&
           o->lack[0].end - o->lack[0].begin == samples;
}

/* Flags of the next sample; shortens *samples to those with the same flags. */
static uint32_t flags_of_next(struct outlet *o, size_t *samples) {
    uint32_t flags = 0;
    size_t kept = 0;
    for (size_t i = 0; i < o->flagged_count; i++) {
        const struct flagged f = o->flagged[i];
        const bool here = f.from <= o->from;
        if (f.end <= o->from)
            continue;
        *samples = sonar_min_size(*samples, (size_t)((here ? f.end : f.from) - o->from));
        flags |= here ? f.flags : 0;
        o->flagged[kept++] = f;
    }
    o->flagged_count = kept;
    return flags;
}

static int64_t utc_of_next(const sonar_assembler *a) {
    const struct outlet *o = &a->outlet;
    return o->utc_ns ? utc_after(a, o->utc_ns, (int64_t)(o->from - o->time_at)) : 0;
}

/* At most one second at a time, so that a stretch's own indices stay small. */
static void hand_on_some(sonar_assembler *a, uint64_t end) {
    struct outlet *o = &a->outlet;
    size_t samples = sonar_min_size((size_t)(end - o->from), (size_t)fmax(1, a->fs_hz));
    const uint32_t flags = flags_of_next(o, &samples);
    while (!list_lacks(a, samples))
        samples = (samples + 1) / 2;
    const sonar_stretch stretch = {.timeline = a->timeline,
                                   .epoch = a->epoch,
                                   .first_sample = sample_at(a, o->from),
                                   .utc_ns = utc_of_next(a),
                                   .flags = flags,
                                   .samples = samples,
                                   .ring = sonar_assembler_ring(a),
                                   .column = (size_t)(o->from % a->capacity),
                                   .lacks = o->lacks,
                                   .lack = o->lack};
    if (!all_lack(a, samples))
        o->sink->take(o->sink->ctx, &stretch);
    o->from += samples;
}

/* ---- when ------------------------------------------------------------------------------------ */

void sonar_outlet_hand_on(sonar_assembler *a, uint64_t end) {
    struct outlet *o = &a->outlet;
    if (!o->sink || end <= o->from)
        return;
    if (!o->sink->wants(o->sink->ctx)) {
        o->from = end;
        return;
    }
    while (o->from < end)
        hand_on_some(a, end);
}

/* Positions that all sending or used channels have reached no longer change, even before they are
 * frozen. Positions before the first window are not tracked by `reached`. */
static uint64_t settled_end(const sonar_assembler *a) {
    uint64_t lowest = a->newest;
    for (size_t k = 0; k < a->channels; k++)
        if ((a->used[k] || a->fed[k]) && a->reached[k] < lowest)
            lowest = a->reached[k];
    return lowest > a->frozen && lowest > a->first_window ? lowest : a->frozen;
}

void sonar_outlet_flush(sonar_assembler *a, bool all) {
    const sonar_stretch_sink *sink = a->outlet.sink;
    if (!sink)
        return;
    if (a->running && sink->wants(sink->ctx)) {
        sonar_booking_wait_alone(a);
        sonar_outlet_hand_on(a, all ? a->newest : settled_end(a));
    }
    sink->flush(sink->ctx);
}
