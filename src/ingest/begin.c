/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Decisions about frames in the order in which they arrive: whether a frame is for this array,
 * whether it is dropped under overload, and how it is stored. Called by the ingest thread whose
 * turn it is (receiver.c). */
#include "ingest/internal.h"

/* What makes the frame unusable for this array, according to its header. */
static sonar_frame_cause check(const sonar_assembler *a, const sonar_frame *frame,
                               const sonar_payload *payload) {
    if (frame->array_id != a->array_id)
        return SONAR_FRAME_WRONG_ARRAY;
    if ((uint64_t)frame->first_channel + frame->channels > a->channels)
        return SONAR_FRAME_WRONG_CHANNELS;
    if (a->store.s16 && frame->type != SONAR_S16)
        return SONAR_FRAME_WRONG_TYPE;
    if (!(fabs(frame->fs_hz - a->fs_hz) <= 1e-6 * a->fs_hz)) /* also rejects NaN */
        return SONAR_FRAME_WRONG_RATE;
    if (!payload->data)
        return payload->fault;
    if (payload->bytes < sonar_frame_payload_bytes(frame))
        return SONAR_FRAME_TRUNCATED;
    if (payload->bytes > sonar_frame_payload_bytes(frame))
        return SONAR_FRAME_OVERSIZED;
    return NO_CAUSE;
}

/* Integer frames, and recordings converted from integers to floats, have no exponent that a wrong
 * bit could change, and are accepted. Searches for a spike only in a frame whose largest magnitude
 * is SONAR_FRAME_SPIKE times that of the frame before, of any block. */
static sonar_frame_cause check_samples(sonar_assembler *a, const sonar_frame *frame,
                                       const void *payload) {
    float peak = sonar_frame_peak(frame, payload);
    if (!isfinite(peak))
        return SONAR_FRAME_NOT_FINITE;
    if (peak > a->most_sample && !sonar_frame_has_counts(frame, payload))
        return SONAR_FRAME_OUT_OF_RANGE;
    if (a->drop_spikes && peak > SONAR_FRAME_SPIKE * a->last_peak &&
        sonar_frame_has_spike(frame, payload))
        return SONAR_FRAME_OUT_OF_RANGE;
    a->last_peak = peak;
    return NO_CAUSE;
}

/* Checks the samples without the lock, which bookings hold only briefly. */
static sonar_frame_cause look_at_samples(sonar_assembler *a, const sonar_frame *frame,
                                         const void *samples) {
    if (frame->type != SONAR_F32)
        return NO_CAUSE;
    pthread_mutex_unlock(&a->lock);
    sonar_frame_cause cause = check_samples(a, frame, samples);
    pthread_mutex_lock(&a->lock);
    return cause;
}

/* Frames of another epoch are not counted against this one. A frame without a position in the
 * timeline does not register a new block, since a stray frame would then be reported as missing for
 * ever. */
static void note_block(sonar_assembler *a, const sonar_frame *frame, sonar_frame_cause cause,
                       int64_t now_ns) {
    bool placed = cause == NO_CAUSE || cause == SONAR_FRAME_LATE;
    sonar_block_state *block =
        cause == SONAR_FRAME_WRONG_EPOCH
            ? NULL
            : sonar_blocks_receive(&a->blocks, frame, placed, now_ns, a->silent_ns);
    if (block && a->running && frame->epoch == a->epoch)
        sonar_count_add(&a->count.sequence_gaps,
                        (uint64_t)sonar_block_follow(block, frame->sequence));
    if (block && placed)
        sonar_count_add(&a->count.index_jumps, sonar_block_track(block, frame, a->fs_hz, now_ns));
    sonar_count_set(&a->count.blocks_seen, a->blocks.count);
}

/* The frame's lane, if the whole frame is new and has room whatever frames are booked concurrently.
 * The order in which such frames are stored does not matter. */
static sonar_lane *lane_of(sonar_assembler *a, const sonar_frame *frame) {
    if (!is_inside(a, frame) || is_due(a))
        return NULL;
    const uint64_t at = position_of(a, frame->first_sample), end = at + frame->samples;
    sonar_lane *lane = sonar_lanes_find(&a->lanes, frame);
    bool plain = lane && lane->used && at >= lane->end && at >= a->frozen && end <= open_limit(a);
    return plain && sonar_windows_make_room(a, end) == DONE ? lane : NULL;
}

/* From now on the frame counts as received, until sonar_assembler_book reports the outcome. */
static void enter_lane(sonar_assembler *a, sonar_lane *lane, sonar_booking *b) {
    const uint64_t end = b->at + b->frame.samples;
    sonar_windows_open(a, end);
    lane->end = end;
    note_newest(a, end);
    a->beside++;
    b->lane = lane;
}

/* Records the delay of an accepted frame and returns whether it is dropped. */
static bool sheds(sonar_assembler *a, const sonar_frame *frame, int64_t now_ns) {
    uint64_t first = position_of(a, frame->first_sample), end = first + frame->samples;
    sonar_shed_time(&a->shed, frame->first_sample - a->origin, frame->samples, now_ns);
    if (!sonar_shed_takes(&a->shed, first, end))
        return false;
    a->accepted_ns = now_ns; /* the stream continues */
    sonar_count_set((uint64_t *)&a->count.last_frame_ns, (uint64_t)now_ns);
    note_newest(a, end);
    return true;
}

/* Places the frame in the timeline, unless it is dropped; the samples of a dropped frame are not
 * checked. */
static sonar_frame_cause place(sonar_assembler *a, const sonar_frame *frame,
                               const sonar_payload *payload, int64_t now_ns) {
    const bool shed = is_inside(a, frame) && sheds(a, frame, now_ns);
    sonar_frame_cause cause = shed ? SONAR_FRAME_SHED : look_at_samples(a, frame, payload->data);
    if (cause != NO_CAUSE && !shed)
        return cause;
    if (!shed && !is_inside(a, frame))
        cause = sonar_timeline_join(a, frame, now_ns);
    note_block(a, frame, cause, now_ns);
    if (shed && is_due(a))
        sonar_booking_wait_alone(a);
    return cause;
}

/* Does what is due before the frame, and finds its lane. If the frame has no lane, no booking is
 * running on return. False: a window waits for room, and the frame waits for that window. */
static bool make_way(sonar_assembler *a, const sonar_frame *frame, bool good, sonar_lane **lane) {
    *lane = NULL;
    if (is_due(a))
        sonar_booking_wait_alone(a);
    if (a->window_waits || !good)
        return !a->window_waits;
    *lane = lane_of(a, frame);
    if (!*lane)
        sonar_booking_wait_alone(a);
    return !a->window_waits;
}

static sonar_turn decide(sonar_assembler *a, const sonar_frame *frame, const sonar_payload *payload,
                         int64_t now_ns, sonar_booking *b) {
    sonar_lane *lane;
    sonar_frame_cause cause = check(a, frame, payload);
    if (!make_way(a, frame, cause == NO_CAUSE, &lane))
        return SONAR_TURN_AGAIN;
    if (cause == NO_CAUSE)
        cause = place(a, frame, payload, now_ns);
    if (cause != NO_CAUSE) {
        drop_frame(a, frame, cause);
        return SONAR_TURN_OVER;
    }
    a->arrival_ns = now_ns;
    *b = (sonar_booking){.frame = *frame,
                         .payload = *payload,
                         .arrival_ns = now_ns,
                         .at = position_of(a, frame->first_sample)};
    if (!lane)
        return sonar_booking_alone(a, b) ? SONAR_TURN_OVER : SONAR_TURN_WAITS;
    enter_lane(a, lane, b);
    return SONAR_TURN_BOOK;
}

sonar_turn sonar_assembler_begin(sonar_assembler *a, const void *header, size_t header_bytes,
                                 const sonar_payload *payload, int64_t now_ns, sonar_booking *b) {
    sonar_frame frame;
    sonar_turn turn = SONAR_TURN_OVER;
    bool decoded = sonar_frame_decode(header, header_bytes, &frame, NULL) == SONAR_OK;
    pthread_mutex_lock(&a->lock);
    a->now_ns = now_ns;
    if (decoded) /* a position before this one wraps and is then behind all channels */
        frame.first_channel -= a->first_channel;
    if (decoded)
        turn = decide(a, &frame, payload, now_ns, b);
    else
        drop_frame(a, NULL, SONAR_FRAME_MALFORMED);
    pthread_mutex_unlock(&a->lock);
    return turn;
}

bool sonar_assembler_frame(sonar_assembler *a, const void *header, size_t header_bytes,
                           const void *payload, size_t payload_bytes, int64_t now_ns) {
    const sonar_payload what = {.data = payload, .bytes = payload_bytes};
    sonar_booking booking;
    sonar_turn turn = sonar_assembler_begin(a, header, header_bytes, &what, now_ns, &booking);
    return turn == SONAR_TURN_BOOK ? sonar_assembler_book(a, &booking) : turn == SONAR_TURN_OVER;
}

void sonar_assembler_malformed(sonar_assembler *a) {
    pthread_mutex_lock(&a->lock);
    drop_frame(a, NULL, SONAR_FRAME_MALFORMED);
    pthread_mutex_unlock(&a->lock);
}

void sonar_assembler_tick(sonar_assembler *a, int64_t now_ns) {
    pthread_mutex_lock(&a->lock);
    a->now_ns = now_ns;
    if (a->running && !a->waits && is_silent(a, a->accepted_ns, now_ns)) {
        sonar_booking_wait_alone(a);
        sonar_windows_end(a);
    }
    sonar_count_set(&a->count.blocks_silent, sonar_blocks_silent(&a->blocks, now_ns, a->silent_ns));
    sonar_outlet_flush(a, false);
    pthread_mutex_unlock(&a->lock);
}

void sonar_assembler_end(sonar_assembler *a) {
    pthread_mutex_lock(&a->lock);
    sonar_outlet_flush(a, true);
    pthread_mutex_unlock(&a->lock);
}

/* ---- overload -------------------------------------------------------------------------------- */

/* The end of the first window that has no stored sample behind it. */
static uint64_t whole_windows_end(const sonar_assembler *a) {
    uint64_t end = window_end(a);
    return a->newest <= end ? end : end + (a->newest - end + a->hop - 1) / a->hop * a->hop;
}

/* The first window that lost no sample by shedding. */
static uint64_t first_window_after_shedding(const sonar_assembler *a) {
    uint64_t to = a->shed.to;
    return to <= a->window ? a->window
                           : a->window + (to - a->window + a->hop - 1) / a->hop * a->hop;
}

void sonar_assembler_load(sonar_assembler *a, bool busy) {
    pthread_mutex_lock(&a->lock);
    sonar_shed_turn turn = a->running ? sonar_shed_tick(&a->shed, busy) : SONAR_SHED_STAYS;
    if (turn == SONAR_SHED_BEGINS)
        sonar_shed_begin(&a->shed, whole_windows_end(a));
    else if (turn == SONAR_SHED_ENDS)
        sonar_shed_end(&a->shed, first_window_after_shedding(a));
    pthread_mutex_unlock(&a->lock);
}
