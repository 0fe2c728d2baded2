/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Stands in for libFuzzer in the ordinary build: the same few hundred inputs of random bytes every
 * time, so that a target that no longer compiles, or breaks at once, is noticed with the tests. */
#include <stdio.h>
#include <stdlib.h>

#include "core/random.h"

enum { INPUTS = 300, BYTES_MOST = 900 };

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t bytes);

int main(void) {
    unsigned char data[BYTES_MOST];
    uint64_t state = 1;
    for (size_t input = 0; input < INPUTS; input++) {
        for (size_t i = 0; i < BYTES_MOST; i++)
            data[i] = (unsigned char)sonar_random_bits(&state);
        LLVMFuzzerTestOneInput(data, input * BYTES_MOST / INPUTS);
    }
    printf("%d inputs\n", INPUTS);
    return EXIT_SUCCESS;
}
