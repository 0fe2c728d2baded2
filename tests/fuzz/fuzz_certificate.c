/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target for the reader of CURVE certificates. Accepted keys must be valid for libzmq; a
 * refused file must leave no keys behind. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "net/certificate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want_key(const char *key, bool may_lack) {
    uint8_t bytes[SONAR_KEY_BYTES];
    if (may_lack && !*key)
        return;
    if (strlen(key) != SONAR_KEY_CHARS || !zmq_z85_decode(bytes, key))
        abort();
}

static void try_it(const uint8_t *data, size_t size, sonar_certificate_use use) {
    static const sonar_certificate none;
    sonar_certificate c;
    sonar_error err = {0};
    sonar_code code = sonar_certificate_parse("fuzz.key", (const char *)data, size, use, &c, &err);
    if (code) {
        if (!err.text[0] || !err.where[0] || memcmp(&c, &none, sizeof c) != 0)
            abort();
        return;
    }
    want_key(c.public_key, false);
    want_key(c.secret_key, use == SONAR_TO_ALLOW);
    want_key(c.server_key, true);
    if (use == SONAR_TO_ALLOW && *c.secret_key)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (sodium_init() < 0)
        abort();
    try_it(data, size, SONAR_TO_ALLOW);
    try_it(data, size, SONAR_TO_OWN);
    return 0;
}
