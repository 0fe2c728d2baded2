/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target for descriptors of shared memory: the input is descriptors. Every block that is
 * found lies within the segment. */
#include "net/shared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static sonar_segments *segments;
static sonar_lender *lender;
static sonar_descriptor good;

/* One segment of four blocks for all inputs. */
static void set_up(void) {
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "ipc:///tmp/sonar-fuzz-shared-%d", (int)getpid());
    const sonar_segments_spec spec = {.endpoint = endpoint, .mode = 0600, .bytes_most = 1 << 20};
    if (sonar_segments_create(&spec, sonar_host_serial(), &segments, NULL) ||
        sonar_lender_create(endpoint, 4, 1024, &lender, NULL) || !sonar_lender_begin(lender, -1))
        abort();
    uint8_t descriptor[SONAR_DESCRIPTOR_BYTES];
    sonar_lender_end(lender, descriptor);
    memcpy(&good, descriptor, sizeof good);
    unlink(endpoint + 6);
}

/* The segment's key is inserted, since random input would never match it. */
static void look(const uint8_t *data, size_t bytes) {
    sonar_descriptor d = {0};
    sonar_shared_block block;
    memcpy(&d, data, bytes < sizeof d ? bytes : sizeof d);
    if (d.key % 2 == 0)
        d.key = good.key;
    if (!sonar_segments_find(segments, &d, bytes < sizeof d ? bytes : sizeof d, &block))
        return;
    if (block.bytes != 1024 || block.number >= 4 || d.key != good.key || d.count == 0)
        abort();
    volatile uint8_t last = ((const uint8_t *)block.data)[block.bytes - 1];
    (void)last;
    sonar_segments_give_back(segments, &block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    if (!segments)
        set_up();
    for (; bytes > SONAR_DESCRIPTOR_BYTES;
         data += SONAR_DESCRIPTOR_BYTES, bytes -= SONAR_DESCRIPTOR_BYTES)
        look(data, SONAR_DESCRIPTOR_BYTES);
    look(data, bytes);
    return 0;
}
