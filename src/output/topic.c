/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "output/topic.h"

#include <string.h>

uint32_t sonar_interest_apply(sonar_interest *interest, const uint8_t *message, size_t bytes) {
    if (bytes < 1 || bytes - 1 > SONAR_TOPIC_MOST || message[0] > 1)
        return 0;
    size_t length = bytes - 1;
    bool subscribe = message[0] == 1;
    uint32_t asked = 0;
    for (int s = 0; s < SONAR_SURFACES; s++) {
        const char *name = sonar_topic_name((sonar_surface)s);
        if (length > strlen(name) || memcmp(name, message + 1, length) != 0)
            continue;
        interest->held[s][length] = subscribe;
        if (subscribe)
            asked |= SONAR_WANT(s);
    }
    return asked;
}

uint32_t sonar_interest_wanted(const sonar_interest *interest) {
    uint32_t wanted = 0;
    for (int s = 0; s < SONAR_SURFACES; s++) {
        bool held = interest->held[s][0] && sonar_topic_table[s].when != SONAR_EACH_NAMED;
        for (int n = 1; n <= SONAR_TOPIC_MOST; n++)
            held = held || interest->held[s][n];
        if (held)
            wanted |= SONAR_WANT(s);
    }
    return wanted;
}
