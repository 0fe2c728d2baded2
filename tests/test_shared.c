/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Samples in shared memory (tests/shared_test.py has the whole daemon): the same windows as over
 * the sockets, overwritten blocks, invalid descriptors and segments, digitisers that die. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "core/random.h"
#include "frames.h"
#include "ingest/assembler.h"
#include "net/shared.h"

enum { PATIENCE_MS = 20000, CHANNELS = 4, SAMPLES = 50, BLOCKS = 8 };

static char folder[] = "/tmp/sonar-shared-XXXXXX", memory_at[64], frames_at[64];
static void *context;
static sonar_segments *segments;
static size_t bytes_most = 1 << 20;
static sonar_ingest *ingest;

static void set_places(void) {
    snprintf(memory_at, sizeof memory_at, "ipc://%s/memory", folder);
    snprintf(frames_at, sizeof frames_at, "ipc://%s/in", folder);
}

static void set_up(void) {
    sonar_error err;
    cr_assert(mkdtemp(folder));
    set_places();
    const sonar_segments_spec spec = {
        .endpoint = memory_at, .mode = 0600, .bytes_most = bytes_most};
    cr_assert(sonar_segments_create(&spec, sonar_host_serial(), &segments, &err) == SONAR_OK,
              "%s: %s", err.where, err.text);
    context = zmq_ctx_new();
}

static void set_up_large(void) {
    bytes_most = 8 << 20;
    set_up();
}

static sonar_ingest_spec spec_of(const char *const *endpoint, size_t threads) {
    return (sonar_ingest_spec){.zmq_context = context,
                               .segments = segments,
                               .endpoints = endpoint,
                               .endpoint_count = 1,
                               .high_water_mark = 1000,
                               .max_message_bytes = 1 << 20,
                               .array_id = 9,
                               .channels = CHANNELS,
                               .fs_hz = 1000,
                               .window_length = 100,
                               .hop = 50,
                               .queue_windows = 100,
                               .max_missing_share = 1,
                               .max_skew_samples = 4000,
                               .restart_after_ms = 60000,
                               .silent_after_ms = 1000,
                               .cpu = -1,
                               .threads = threads};
}

static void start(const sonar_ingest_spec *spec) {
    sonar_error err;
    cr_assert(sonar_ingest_create(spec, sonar_host_serial(), &ingest, &err) == SONAR_OK);
    cr_assert(sonar_ingest_start(ingest, &err) == SONAR_OK, "%s: %s", err.where, err.text);
}

static void start_ingest(size_t threads) {
    const char *endpoint = frames_at;
    const sonar_ingest_spec spec = spec_of(&endpoint, threads);
    start(&spec);
}

static void *pushing; /* a failed test leaves it open, and the context would wait for it */

static void tear_down(void) {
    sonar_ingest_destroy(ingest);
    sonar_segments_destroy(segments);
    if (pushing)
        zmq_setsockopt(pushing, ZMQ_LINGER, &(int){0}, sizeof(int));
    if (pushing)
        zmq_close(pushing);
    zmq_ctx_term(context);
    rmdir(folder);
}

static bool is_child; /* a digitiser process; Criterion does not collect its report */

static void must(bool ok, const char *what) {
    if (!ok && is_child) {
        fprintf(stderr, "digitiser: %s\n", what);
        _exit(1);
    }
    cr_assert(ok, "%s", what);
}

static void *connect_push(void *zmq) {
    int linger = PATIENCE_MS;
    pushing = zmq_socket(zmq, ZMQ_PUSH);
    zmq_setsockopt(pushing, ZMQ_LINGER, &linger, sizeof linger);
    must(zmq_connect(pushing, frames_at) == 0, "the socket does not connect");
    return pushing;
}

static sonar_lender *lend(size_t blocks, size_t bytes) {
    sonar_lender *lender;
    sonar_error err;
    must(sonar_lender_create(memory_at, blocks, bytes, &lender, &err) == SONAR_OK, err.text);
    for (int i = 0; !sonar_lender_attached(lender); i++, usleep(1000))
        must(i < PATIENCE_MS, "the daemon never maps the segment");
    return lender;
}

static sonar_frame frame_at(uint64_t first, uint8_t type) {
    return (sonar_frame){.array_id = 9,
                         .channels = CHANNELS,
                         .samples = SAMPLES,
                         .type = type,
                         .epoch = 3,
                         .sequence = first / SAMPLES,
                         .first_sample = first,
                         .flags = SONAR_FRAME_SHARED,
                         .fs_hz = 1000};
}

static void send_parts(void *socket, const void *header, const void *second, size_t bytes) {
    must(zmq_send(socket, header, SONAR_FRAME_HEADER_BYTES, ZMQ_SNDMORE) >= 0, "no header leaves");
    must(zmq_send(socket, second, bytes, 0) >= 0, "no payload leaves");
}

static void *await_block(sonar_lender *lender) {
    void *block = NULL;
    for (int i = 0; !(block = sonar_lender_begin(lender, -1)); i++) {
        must(i < PATIENCE_MS, "a block is never given back");
        usleep(1000);
    }
    return block;
}

static void await_all_read(const sonar_lender *lender) {
    for (int i = 0; !sonar_lender_is_done(lender); i++, usleep(1000))
        must(i < PATIENCE_MS, "a block is never given back");
}

static void send_shared(void *socket, sonar_lender *lender, sonar_frame frame) {
    uint8_t descriptor[SONAR_DESCRIPTOR_BYTES];
    test_frame made = test_frame_make(&frame);
    memcpy(await_block(lender), made.payload, made.payload_bytes);
    sonar_lender_end(lender, descriptor);
    send_parts(socket, made.header, descriptor, sizeof descriptor);
    test_frame_free(&made);
}

static void send_plain(void *socket, sonar_frame frame) {
    frame.flags &= (uint16_t)~SONAR_FRAME_SHARED;
    test_frame made = test_frame_make(&frame);
    send_parts(socket, made.header, made.payload, made.payload_bytes);
    test_frame_free(&made);
}

static sonar_ingest_counters counters(void) {
    sonar_ingest_counters count;
    sonar_ingest_read_counters(ingest, &count);
    return count;
}

static void await_received(uint64_t frames) {
    for (int i = 0; counters().frames_received < frames; i++) {
        cr_assert(i < PATIENCE_MS);
        usleep(1000);
    }
}

static void take(sonar_window *window) {
    struct pollfd poller = {.fd = sonar_ingest_fd(ingest), .events = POLLIN};
    while (!sonar_ingest_take(ingest, window))
        cr_assert(poll(&poller, 1, PATIENCE_MS) == 1, "no window comes");
}

static void expect_windows(uint64_t from, uint64_t end) {
    sonar_window window;
    for (uint64_t first = from; first < end; first += 50) {
        take(&window);
        cr_assert(window.first_sample == first && window.missing_mean == 0);
        cr_assert(window.flags == 0, "the flag of shared memory is internal");
        cr_assert(test_window_errors(&window, first, 100) == 0);
        sonar_ingest_release(ingest, &window);
    }
}

/* ---- samples --------------------------------------------------------------------------------- */

/* Every second frame arrives over the socket, so that both ways have to agree exactly. */
static void mix(size_t threads) {
    enum { FRAMES = 61 };
    start_ingest(threads);
    void *socket = connect_push(context);
    sonar_lender *lender = lend(BLOCKS, CHANNELS * SAMPLES * 4);
    for (uint64_t f = 0; f < FRAMES; f++) {
        sonar_frame frame = frame_at(f * SAMPLES, (uint8_t)(SONAR_S16 + f / 2 % 4));
        if (f % 2)
            send_shared(socket, lender, frame);
        else
            send_plain(socket, frame);
    }
    expect_windows(0, (FRAMES - 1) * 50);
    sonar_ingest_counters c = counters();
    cr_assert(c.frames_accepted == FRAMES && c.samples_stored == FRAMES * CHANNELS * SAMPLES);
    cr_assert(c.sequence_gaps == 0 && c.restarts == 0);
    await_all_read(lender);
    sonar_lender_destroy(lender);
}

Test(shared, brings_what_the_socket_brings, .init = set_up, .fini = tear_down) {
    mix(1);
}

Test(shared, brings_what_the_socket_brings_to_several_threads, .init = set_up, .fini = tear_down) {
    mix(3);
}

static void expect_drop(void *socket, const void *header, const void *second, size_t bytes,
                        sonar_frame_cause cause) {
    sonar_ingest_counters before = counters();
    send_parts(socket, header, second, bytes);
    await_received(before.frames_received + 1);
    sonar_ingest_counters after = counters();
    cr_assert(after.frames_dropped[cause] == before.frames_dropped[cause] + 1, "not dropped as %s",
              sonar_frame_cause_name(cause));
}

Test(shared, overwritten_before_it_is_read, .init = set_up, .fini = tear_down) {
    uint8_t old[SONAR_DESCRIPTOR_BYTES], header[SONAR_FRAME_HEADER_BYTES];
    start_ingest(1);
    void *socket = connect_push(context);
    sonar_lender *lender = lend(1, CHANNELS * SAMPLES * 4);
    for (uint8_t type = SONAR_S16; type <= SONAR_F32; type++) {
        sonar_frame frame = frame_at(SAMPLES * type, type);
        sonar_frame_encode(&frame, header);
        cr_assert(await_block(lender));
        sonar_lender_end(lender, old);
        usleep(2000);
        cr_assert(sonar_lender_begin(lender, 1), "patience does not end"); /* being written */
        expect_drop(socket, header, old, sizeof old, SONAR_FRAME_OVERWRITTEN);
        uint8_t next[SONAR_DESCRIPTOR_BYTES];
        sonar_lender_end(lender, next); /* written again */
        expect_drop(socket, header, old, sizeof old, SONAR_FRAME_OVERWRITTEN);
        send_parts(socket, header, next, sizeof next); /* gives the block back */
        await_received(3 * (uint64_t)type);
    }
    sonar_lender_destroy(lender);
}

Test(shared, descriptors_are_not_believed, .init = set_up, .fini = tear_down) {
    uint8_t header[SONAR_FRAME_HEADER_BYTES];
    sonar_descriptor good, bad;
    start_ingest(1);
    void *socket = connect_push(context);
    sonar_lender *lender = lend(BLOCKS, CHANNELS * SAMPLES * 2);
    sonar_frame frame = frame_at(0, SONAR_S16);
    sonar_frame_encode(&frame, header);
    cr_assert(await_block(lender));
    sonar_lender_end(lender, (uint8_t *)&good);
    const sonar_descriptor wrong[] = {
        {.segment = 1}, {.segment = 255},      {.segment = UINT32_MAX}, {.key = 1},
        {.block = 1},   {.block = BLOCKS},     {.block = UINT64_MAX},   {.block = UINT64_MAX / 512},
        {.count = 1},   {.count = UINT64_MAX}, {.magic = {1}}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        bad = good;
        bad.segment ^= wrong[i].segment;
        bad.key ^= wrong[i].key;
        bad.block ^= wrong[i].block;
        bad.count ^= wrong[i].count;
        bad.magic[0] ^= wrong[i].magic[0];
        const bool there = (wrong[i].block == 1 || wrong[i].count) && bad.count;
        expect_drop(socket, header, &bad, sizeof bad,
                    there ? SONAR_FRAME_OVERWRITTEN : SONAR_FRAME_NO_SEGMENT);
    }
    expect_drop(socket, header, &good, sizeof good - 1, SONAR_FRAME_NO_SEGMENT);
    expect_drop(socket, header, "", 0, SONAR_FRAME_NO_SEGMENT);
    frame.samples = 64; /* more than the block holds */
    sonar_frame_encode(&frame, header);
    expect_drop(socket, header, &good, sizeof good, SONAR_FRAME_TRUNCATED);
    frame.channels = CHANNELS + 1;
    sonar_frame_encode(&frame, header);
    expect_drop(socket, header, &good, sizeof good, SONAR_FRAME_WRONG_CHANNELS);
    sonar_lender_destroy(lender);
}

/* The digitiser writes while the daemon copies: the samples are not marked as stored.
 */
static void overwrite_while_stored(bool known_block) {
    sonar_ingest_spec spec = {.array_id = 9,
                              .channels = CHANNELS,
                              .fs_hz = 1000,
                              .window_length = 100,
                              .hop = 100,
                              .queue_windows = 4,
                              .max_missing_share = 1,
                              .max_skew_samples = 60,
                              .restart_after_ms = 1000,
                              .silent_after_ms = 500};
    sonar_assembler *a;
    sonar_window window;
    sonar_booking booking;
    _Atomic uint64_t counter = 7;
    cr_assert(sonar_assembler_create(&spec, &a, NULL) == SONAR_OK);
    for (uint64_t f = known_block ? 0 : 1; f < 5; f++) {
        sonar_frame frame = frame_at(f * SAMPLES, SONAR_S16);
        test_frame made = test_frame_make(&frame);
        sonar_payload payload = {
            .data = made.payload, .bytes = made.payload_bytes, .counter = &counter, .count = 7};
        if (f == 1)
            memset(made.payload, 0x55, made.payload_bytes / 2);
        if (f == 1 && !known_block)
            counter = 8;
        sonar_turn turn =
            sonar_assembler_begin(a, made.header, sizeof made.header, &payload, 0, &booking);
        cr_assert(turn == (f > (known_block ? 0 : 1) ? SONAR_TURN_BOOK : SONAR_TURN_OVER), "%d",
                  (int)f);
        counter = f == 1 ? 8 : 7;
        if (turn == SONAR_TURN_BOOK)
            sonar_assembler_book(a, &booking);
        counter = 7;
        test_frame_free(&made);
    }
    sonar_ingest_counters c;
    sonar_assembler_read_counters(a, &c);
    cr_assert(c.frames_dropped[SONAR_FRAME_OVERWRITTEN] == 1 &&
              c.frames_accepted == (known_block ? 4 : 3));
    cr_assert(sonar_assembler_take(a, &window));
    cr_assert(window.first_sample == 0 || !known_block);
    for (size_t i = 50; i < 100 && known_block; i++)
        cr_assert(test_window_sample(&window, 0, i) == 0 && test_window_sample(&window, 3, i) == 0,
                  "torn samples are published");
    cr_assert(!known_block || window.missing_mean == 0.5);
    sonar_assembler_release(a, &window);
    sonar_assembler_destroy(a);
}

Test(shared, overwritten_while_it_is_stored) {
    overwrite_while_stored(true);
}

Test(shared, the_first_frame_overwritten_while_it_is_stored) {
    overwrite_while_stored(false);
}

/* ---- segments -------------------------------------------------------------------------------- */

static int seal_of_memory(size_t bytes, int seals) {
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

/* The daemon's answer to an offer, "" if accepted. */
static const char *offer(const void *what, size_t bytes, int fd, int copies) {
    static sonar_segment_answer answer;
    struct sockaddr_un address;
    sonar_error err;
    int socket = sonar_shared_socket(memory_at, &address, &err), all[4] = {fd, fd, fd, fd};
    cr_assert(connect(socket, (struct sockaddr *)&address, sizeof address) == 0);
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof all)] = {0};
    struct iovec part = {(void *)(uintptr_t)what, bytes};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    if (copies) {
        m.msg_control = room;
        m.msg_controllen = CMSG_SPACE((size_t)copies * sizeof fd);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){.cmsg_len = CMSG_LEN((size_t)copies * sizeof fd),
                              .cmsg_level = SOL_SOCKET,
                              .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(c), all, (size_t)copies * sizeof fd);
    }
    cr_assert(sendmsg(socket, &m, MSG_NOSIGNAL) == (ssize_t)bytes);
    answer = (sonar_segment_answer){.text = "hung up"};
    ssize_t got = recv(socket, &answer, sizeof answer, 0);
    cr_assert(got == 0 || got == (ssize_t)sizeof answer);
    close(socket);
    return answer.text;
}

static sonar_segment_offer blocks_of(uint64_t blocks, uint64_t bytes) {
    return (sonar_segment_offer){.magic = {'S', 'N', 'R', 'M'},
                                 .version = 1,
                                 .bytes = sizeof(sonar_segment_offer),
                                 .blocks = blocks,
                                 .block_bytes = bytes};
}

static void expect_refused(sonar_segment_offer what, int fd, const char *why) {
    const char *text = offer(&what, sizeof what, fd, fd >= 0);
    cr_assert(strstr(text, why), "'%s' instead of '%s'", text, why);
}

Test(shared, offers_are_checked, .init = set_up, .fini = tear_down) {
    const int sealed = F_SEAL_SHRINK | F_SEAL_GROW;
    int good = seal_of_memory(8192, sealed), open_end = seal_of_memory(8192, F_SEAL_GROW);
    int pipes[2], file = open(folder, O_TMPFILE | O_RDWR, 0600);
    cr_assert(pipe(pipes) == 0);
    expect_refused(blocks_of(8, 1024), open_end, "F_SEAL_SHRINK");
    expect_refused(blocks_of(9, 1024), good, "smaller than its blocks");
    expect_refused(blocks_of(UINT64_MAX / 1024 + 2, 1024), good, "65536");
    expect_refused(blocks_of(0, 1024), good, "65536");
    expect_refused(blocks_of(8, 1000), good, "multiple of 64");
    expect_refused(blocks_of(8, 64), good, "multiple of 64");
    expect_refused(blocks_of(8, (uint64_t)1 << 62), good, "shared_memory_bytes");
    expect_refused(blocks_of(1, 1 << 21), good, "shared_memory_bytes");
    expect_refused(blocks_of(8, 1024), pipes[0], "memfd");
    expect_refused(blocks_of(8, 1024), -1, "memfd");
    if (file >= 0)
        expect_refused(blocks_of(1, 128), file, "");
    sonar_segment_offer wrong = blocks_of(8, 1024);
    wrong.version = 2;
    expect_refused(wrong, good, "version 1");
    wrong = blocks_of(8, 1024);
    cr_assert_str_eq(offer(&wrong, sizeof wrong - 1, good, 1), "hung up");
    cr_assert_str_eq(offer(&wrong, sizeof wrong, good, 1), "", "a good one");
    cr_assert_str_eq(offer(&wrong, sizeof wrong, good, 4), "", "the first of several is taken");
    close(good), close(open_end), close(pipes[0]), close(pipes[1]);
    if (file >= 0)
        close(file);
}

Test(shared, a_file_of_a_disk_or_without_seals_is_refused, .init = set_up, .fini = tear_down) {
    char path[80];
    snprintf(path, sizeof path, "%s/file", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    cr_assert(fd >= 0 && ftruncate(fd, 8192) == 0);
    sonar_segment_offer what = blocks_of(8, 1024);
    cr_assert(*offer(&what, sizeof what, fd, 1), "a file that can be truncated was accepted");
    close(fd);
    unlink(path);
}

/* Segments of digitisers that have left are replaced; segments in use are not. */
Test(shared, has_room_for_so_much_and_no_more, .init = set_up, .fini = tear_down) {
    sonar_lender *first = lend(4, (1 << 17) - 64), *second;
    sonar_error err;
    for (int i = 0; i < 5; i++)
        sonar_lender_destroy(lend(4, (1 << 17) - 64));
    cr_assert(sonar_segments_bytes(segments) <= 1 << 20);
    second = lend(4, (1 << 17) - 64);
    sonar_lender *third;
    cr_assert(sonar_lender_create(memory_at, 4, (1 << 17) - 64, &third, &err) == SONAR_EINVAL);
    cr_assert(strstr(err.text, "no room"), "%s", err.text);
    cr_assert(sonar_lender_attached(first) && sonar_lender_attached(second));
    sonar_lender_destroy(first);
    sonar_lender_destroy(second);
}

/* An answer and the page that was sent with it, -1: none. */
static int take_answer(int peer, sonar_segment_answer *answer) {
    int page = -1;
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof page)];
    struct iovec part = {answer, sizeof *answer};
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    cr_assert(recvmsg(peer, &m, 0) == (ssize_t)sizeof *answer);
    if (CMSG_FIRSTHDR(&m))
        memcpy(&page, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof page);
    return page;
}

/* The daemon's page is read-only, even if it is reopened. */
static void expect_no_writing(int page) {
    char path[64];
    const uint64_t number = 7;
    snprintf(path, sizeof path, "/proc/self/fd/%d", page);
    const int fd[] = {page, open(path, O_RDWR | O_CLOEXEC)};
    void *map = mmap(NULL, sizeof number, PROT_READ, MAP_SHARED, page, 0);
    cr_assert(map != MAP_FAILED, "it cannot be read");
    cr_expect(mprotect(map, sizeof number, PROT_READ | PROT_WRITE) != 0, "made writable");
    munmap(map, sizeof number);
    for (int i = 0; i < 2; i++) {
        map = mmap(NULL, sizeof number, PROT_READ | PROT_WRITE, MAP_SHARED, fd[i], 0);
        cr_expect(map == MAP_FAILED, "mapped for writing");
        cr_expect(pwrite(fd[i], &number, sizeof number, 0) < 0, "written");
        if (fd[i] >= 0)
            close(fd[i]);
    }
}

/* Holes in the segment read as zeros; a sealed file cannot be truncated. */
Test(shared, a_digitiser_cannot_take_its_memory_away, .init = set_up, .fini = tear_down) {
    start_ingest(1);
    void *socket = connect_push(context);
    int fd = seal_of_memory(8192, F_SEAL_SHRINK);
    struct sockaddr_un address;
    sonar_error err;
    sonar_segment_answer answer;
    sonar_segment_offer what = blocks_of(2, 4096);
    uint8_t header[SONAR_FRAME_HEADER_BYTES];
    int peer = sonar_shared_socket(memory_at, &address, &err);
    cr_assert(connect(peer, (struct sockaddr *)&address, sizeof address) == 0);
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {&what, sizeof what};
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    *CMSG_FIRSTHDR(&m) = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &fd, sizeof fd);
    cr_assert(sendmsg(peer, &m, 0) > 0);
    const int page = take_answer(peer, &answer);
    cr_assert(!answer.refused && page >= 0, "%s", answer.text);
    expect_no_writing(page);
    cr_assert(ftruncate(fd, 0) != 0, "the memory was cut");
    uint64_t count = 5;
    cr_assert(pwrite(fd, &count, sizeof count, 4096) == sizeof count);
    cr_assert(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0);
    sonar_descriptor d = {.magic = {'S', 'N', 'R', 'M'},
                          .segment = answer.segment,
                          .key = answer.key,
                          .block = 0,
                          .count = 5};
    sonar_frame frame = frame_at(0, SONAR_S16);
    sonar_frame_encode(&frame, header);
    expect_drop(socket, header, &d, sizeof d, SONAR_FRAME_OVERWRITTEN);
    d.block = 1;
    send_parts(socket, header, &d, sizeof d);
    for (int i = 0; counters().frames_accepted < 1; i++, usleep(1000))
        cr_assert(i < PATIENCE_MS);
    cr_assert(sonar_ingest_alive(ingest));
    close(peer), close(fd);
}

/* ---- digitisers that die --------------------------------------------------------------------- */

static void die_in_the_middle(uint64_t frames) {
    void *zmq = zmq_ctx_new();
    void *socket = connect_push(zmq);
    sonar_lender *lender = lend(BLOCKS, CHANNELS * SAMPLES * 2);
    for (uint64_t f = 0; f < frames; f++)
        send_shared(socket, lender, frame_at(f * SAMPLES, SONAR_S16));
    await_all_read(lender);
    memset(await_block(lender), 0x77, 100); /* half a block, never described */
    kill(getpid(), SIGKILL);
}

/* Forks while this process has one thread, because a child would keep locks of other threads for
 * ever. The child waits for the daemon's folder, whose name it gets through a pipe. */
static pid_t fork_digitiser(uint64_t frames, int *go) {
    int pipes[2];
    cr_assert(pipe(pipes) == 0);
    const pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid) {
        close(pipes[0]);
        *go = pipes[1];
        return pid;
    }
    is_child = true;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(pipes[1]);
    must(read(pipes[0], folder, sizeof folder) == sizeof folder, "the daemon is not there");
    set_places();
    die_in_the_middle(frames);
    _exit(1);
}

Test(shared, a_digitiser_is_killed_and_comes_back, .fini = tear_down) {
    enum { BEFORE = 21, ALL = 61 };
    int status, go;
    const pid_t pid = fork_digitiser(BEFORE, &go);
    set_up();
    start_ingest(2);
    cr_assert(write(go, folder, sizeof folder) == sizeof folder);
    close(go);
    cr_assert(waitpid(pid, &status, 0) == pid);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "status %x", (unsigned)status);
    void *socket = connect_push(context);
    sonar_lender *lender = lend(BLOCKS, CHANNELS * SAMPLES * 2);
    for (uint64_t f = BEFORE; f < ALL; f++)
        send_shared(socket, lender, frame_at(f * SAMPLES, SONAR_S16));
    expect_windows(0, (ALL - 1) * 50);
    cr_assert(counters().frames_accepted == ALL && counters().samples_missing == 0);
    sonar_lender_destroy(lender);
}

/* Messages that are on their way when the digitiser leaves are still read. */
Test(shared, what_was_sent_before_the_end_is_read, .init = set_up, .fini = tear_down) {
    void *socket = connect_push(context);
    sonar_lender *lender = lend(BLOCKS, CHANNELS * SAMPLES * 2);
    for (uint64_t f = 0; f < BLOCKS; f++)
        send_shared(socket, lender, frame_at(f * SAMPLES, SONAR_S16));
    sonar_lender_destroy(lender);
    usleep(100000);
    start_ingest(1);
    expect_windows(0, (BLOCKS - 1) * 50);
}

/* libzmq closes what listens a while after zmq_close. */
static void await_silence(const char *endpoint) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", endpoint + strlen("ipc://"));
    for (bool answered = true; answered; usleep(1000)) {
        const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        answered = connect(fd, (const struct sockaddr *)&address, sizeof address) == 0;
        close(fd);
    }
}

/* After a restart of the daemon the memory is offered again. */
Test(shared, the_daemon_comes_back, .init = set_up, .fini = tear_down) {
    sonar_error err;
    start_ingest(1);
    void *socket = connect_push(context);
    sonar_lender *lender = lend(BLOCKS, CHANNELS * SAMPLES * 2);
    for (uint64_t f = 0; f < 3; f++)
        send_shared(socket, lender, frame_at(f * SAMPLES, SONAR_S16));
    expect_windows(0, 100);
    sonar_ingest_destroy(ingest);
    sonar_segments_destroy(segments);
    cr_assert(!sonar_lender_attached(lender) && !sonar_lender_begin(lender, -1));
    const sonar_segments_spec spec = {.endpoint = memory_at, .mode = 0600, .bytes_most = 1 << 20};
    cr_assert(sonar_segments_create(&spec, sonar_host_serial(), &segments, &err) == SONAR_OK);
    await_silence(frames_at);
    start_ingest(1);
    for (uint64_t f = 3; f < 23; f++)
        send_shared(socket, lender, frame_at(f * SAMPLES, SONAR_S16));
    expect_windows(150, 1100);
    sonar_lender_destroy(lender);
}

Test(shared, the_socket_has_its_mode_and_replaces_nothing_else, .init = set_up, .fini = tear_down) {
    struct stat about;
    sonar_segments *second;
    sonar_error err;
    char path[80];
    cr_assert(stat(memory_at + 6, &about) == 0 && (about.st_mode & 0777) == 0600);
    sonar_segments_spec spec = {.endpoint = memory_at, .bytes_most = 1 << 20};
    cr_assert(sonar_segments_create(&spec, sonar_host_serial(), &second, &err) == SONAR_ESYS);
    snprintf(path, sizeof path, "ipc://%s/file", folder);
    int fd = open(path + 6, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    spec.endpoint = path;
    cr_assert(sonar_segments_create(&spec, sonar_host_serial(), &second, &err) == SONAR_ESYS);
    cr_assert(fd >= 0 && access(path + 6, F_OK) == 0, "a file was replaced");
    close(fd);
    unlink(path + 6);
}

/* examples/feed_shared.c, unchanged. */
Test(shared, the_example_feeds, .init = set_up_large, .fini = tear_down) {
    const char *endpoint = frames_at;
    sonar_ingest_spec spec = spec_of(&endpoint, 2);
    spec.array_id = 1, spec.channels = 128, spec.fs_hz = 8000;
    spec.window_length = spec.hop = 512;
    start(&spec);
    pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0) {
        execl(SONAR_BIN_DIR "/feed_shared", "feed_shared", frames_at, memory_at + 6, "40", NULL);
        _exit(127);
    }
    int status;
    cr_assert(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    cr_assert(WEXITSTATUS(status) == 0, "exit code %d", WEXITSTATUS(status));
    cr_assert(counters().frames_accepted == 40 && counters().windows_offered == 40);
}
