/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Included before every source of this test: adds a topic only by its row. */
#define SONAR_ONE_MORE_TOPIC(ROW, ...)                                                             \
    __VA_ARGS__ ROW(SONAR_TEST_NOISE, "test.noise", RANGE, BIN, DENSITY, S16, MVDR, NAMED,         \
                    SONAR_WANT(SONAR_ELEMENT_PSD), "noise power")
