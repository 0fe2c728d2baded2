/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Ingest threads and the data thread use the window queue and the sample ring as fast as possible,
 * for ThreadSanitizer: every window must be complete, in order, and accounted for. */
#include "ingest/assembler.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "frames.h"

enum { FRAMES = 4000, FRAME = 37, LENGTH = 100, HOP = 20, LOST = 8, CHUNK = 9 };
enum { THREADS_MOST = 3, BLOCKS = 3 };

struct stage {
    sonar_assembler *assembler;
    size_t channels;
    size_t threads, blocks; /* number of blocks of channels, which share the channels */
    pthread_mutex_t turn;
    uint64_t frames, next; /* of each block; number of the next of them all, under turn */
    uint64_t early;        /* samples seen before a window was offered with them */
    bool block;
    atomic_size_t working; /* threads that still book */
};

static void fail(const char *what) {
    fprintf(stderr, "plain_ingest_threads: %s\n", what);
    exit(1);
}

static sonar_frame frame_of(const struct stage *stage, uint64_t number) {
    const uint64_t f = number / stage->blocks, b = number % stage->blocks;
    const size_t first = b * stage->channels / stage->blocks;
    const size_t end = (b + 1) * stage->channels / stage->blocks;
    return (sonar_frame){.array_id = 1,
                         .first_channel = (uint32_t)first,
                         .channels = (uint32_t)(end - first),
                         .samples = FRAME,
                         .type = SONAR_S16,
                         .layout = f % 3 == 0,
                         .epoch = 1 + (f >= stage->frames / 2), /* one restart half way */
                         .sequence = f,
                         .first_sample = f * FRAME,
                         .fs_hz = 1000};
}

/* The clock makes a new epoch be adopted at once, although no frame has the whole array. */
static int64_t time_of(const struct stage *stage, uint64_t number) {
    const uint64_t f = number / stage->blocks;
    return (int64_t)(number + (f >= stage->frames / 2 ? 2000000000 : 0));
}

/* In turn: begins the frame. False: there are no more frames. */
static bool begin(struct stage *stage, test_frame *made, sonar_booking *booking, sonar_turn *turn) {
    pthread_mutex_lock(&stage->turn);
    uint64_t number = stage->next++;
    while (number < stage->frames * stage->blocks && number / stage->blocks % LOST == LOST - 1)
        number = stage->next++; /* so that gaps are filled while windows are read */
    bool more = number < stage->frames * stage->blocks;
    if (more) {
        const sonar_frame frame = frame_of(stage, number);
        *made = test_frame_make(&frame);
        const sonar_payload payload = {.data = made->payload, .bytes = made->payload_bytes};
        do {
            *turn = sonar_assembler_begin(stage->assembler, made->header, sizeof made->header,
                                          &payload, time_of(stage, number), booking);
            while (*turn >= SONAR_TURN_WAITS && !sonar_assembler_resume(stage->assembler))
                sched_yield();
        } while (*turn == SONAR_TURN_AGAIN);
        if (number % 100 == 0) /* a fair share for the reader, else it may never see a window */
            while (sonar_assembler_waiting(stage->assembler))
                sched_yield();
    }
    pthread_mutex_unlock(&stage->turn);
    return more;
}

static void *produce(void *arg) {
    struct stage *stage = arg;
    test_frame made;
    sonar_booking booking;
    sonar_turn turn;
    while (begin(stage, &made, &booking, &turn)) {
        if (turn == SONAR_TURN_BOOK)
            sonar_assembler_book(stage->assembler, &booking);
        test_frame_free(&made);
    }
    atomic_fetch_sub(&stage->working, 1);
    return NULL;
}

/* No sample is 0, so exactly the missing ones differ from what was sent. */
static void check(const sonar_window *window) {
    size_t errors = test_window_errors(window, window->first_sample, LENGTH);
    if (errors != (size_t)lround(window->missing_mean * LENGTH * (double)window->ring.shape[0]))
        fail("a window was overwritten while it was read");
}

/* Samples that are reported as ready are present, beyond the held window, as far as holding it
 * prevents the ring from wrapping. With overload: drop_oldest frames may be lost anywhere. */
static void check_ready(struct stage *stage, const sonar_window *window) {
    uint64_t end = sonar_assembler_ready(stage->assembler), restart = stage->frames / 2 * FRAME;
    uint64_t capacity = window->ring.shape[1];
    if (end > window->position + capacity)
        end = window->position + capacity;
    for (uint64_t at = window->position + LENGTH; stage->block && at < end; at++) {
        uint64_t index = window->first_sample + (at - window->position);
        if (index / FRAME % LOST == LOST - 1 || (window->epoch == 1 && index >= restart))
            continue;
        if (test_window_errors(window, index, 1))
            fail("samples were reported before they were present");
        stage->early++;
    }
}

static void consume(struct stage *stage) {
    sonar_window held[2];
    size_t holding = 0;
    uint64_t last = 0, taken = 0;
    for (;;) {
        bool done = atomic_load(&stage->working) == 0;
        if (!sonar_assembler_take(stage->assembler, &held[holding])) {
            if (done)
                break;
            sched_yield();
            continue;
        }
        const sonar_window *window = &held[holding++];
        if (taken++ && window->window <= last)
            fail("windows out of order");
        last = window->window;
        check(window);
        if (holding < 2 && taken % 3)
            continue; /* sometimes two are held at once */
        while (holding) {
            window = &held[--holding];
            check(window);
            check_ready(stage, window);
            sonar_assembler_release(stage->assembler, window);
        }
    }
    while (holding)
        sonar_assembler_release(stage->assembler, &held[--holding]);
}

static void run(sonar_overload overload, size_t channels, size_t threads, size_t blocks,
                uint64_t frames) {
    sonar_ingest_spec spec = {.array_id = 1,
                              .channels = channels,
                              .threads = threads,
                              .fs_hz = 1000,
                              .window_length = LENGTH,
                              .hop = HOP,
                              .queue_windows = 4, /* one more is held than the ring is for */
                              .overload = overload,
                              .max_missing_share = 1,
                              .max_skew_samples = blocks > 1 ? 2 * FRAME : 10,
                              .restart_after_ms = 1000,
                              .silent_after_ms = 1000,
                              .chunk_samples = CHUNK};
    struct stage stage = {.channels = channels,
                          .threads = threads,
                          .blocks = blocks,
                          .frames = frames,
                          .block = overload == SONAR_BLOCK,
                          .working = threads};
    sonar_ingest_counters c;
    pthread_t producer[THREADS_MOST];
    pthread_mutex_init(&stage.turn, NULL);
    if (sonar_assembler_create(&spec, &stage.assembler, NULL))
        fail("cannot start");
    for (size_t i = 0; i < threads; i++)
        if (pthread_create(&producer[i], NULL, produce, &stage))
            fail("cannot start");
    consume(&stage);
    for (size_t i = 0; i < threads; i++)
        pthread_join(producer[i], NULL);
    pthread_mutex_destroy(&stage.turn);
    sonar_assembler_read_counters(stage.assembler, &c);
    if (c.windows_offered != c.windows_taken + c.windows_dropped[SONAR_WINDOW_OVERLOAD])
        fail("windows are not accounted for");
    if (overload == SONAR_BLOCK && (c.frames_accepted != blocks * (frames - frames / LOST) ||
                                    c.windows_dropped[SONAR_WINDOW_OVERLOAD]))
        fail("block mode lost samples");
    /* A reader slower than a ring's length makes the stream move on: a restart, too. */
    if (c.windows_taken < 10 || c.restarts < 1 || (overload == SONAR_BLOCK && c.restarts != 1))
        fail("too little happened, or too much");
    if (stage.block && !stage.early)
        fail("no chunk was seen before its window");
    sonar_assembler_destroy(stage.assembler);
}

int main(void) {
    for (int round = 0; round < 3; round++) {
        run(SONAR_BLOCK, 3, 1, 1, FRAMES);
        run(SONAR_DROP_OLDEST, 3, 1, 1, FRAMES);
        run(SONAR_BLOCK, 300, 3, 1, FRAMES / 10);
        run(SONAR_BLOCK, 300, 3, BLOCKS, FRAMES / 10);
        run(SONAR_DROP_OLDEST, 300, 3, BLOCKS, FRAMES / 10);
    }
    return 0;
}
