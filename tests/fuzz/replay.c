/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Stands in for libFuzzer in the ordinary build: the same few hundred inputs of random bytes every
 * time, so that a target that no longer compiles, or breaks at once, is noticed with the tests. */
#include <stdio.h>
#include <stdlib.h>

enum { INPUTS = 300, BYTES_MOST = 900 };

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t bytes);

int main(void) {
    unsigned char data[BYTES_MOST];
    unsigned long long state = 1;
    for (size_t input = 0; input < INPUTS; input++) {
        for (size_t i = 0; i < BYTES_MOST; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            data[i] = (unsigned char)(state >> 56);
        }
        LLVMFuzzerTestOneInput(data, input * BYTES_MOST / INPUTS);
    }
    printf("%d inputs\n", INPUTS);
    return EXIT_SUCCESS;
}
