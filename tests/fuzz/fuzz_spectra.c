/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target for recorded messages (sonar-replay): the input is a .sonar-spectra file, read
 * to its end. The messages lie in the file, one after the other. */
#include "spectra.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "input_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t bytes_of(const sonar_message_head *head) {
    return head->topic_bytes + (size_t)head->header_bytes + (size_t)head->array_bytes;
}

static sonar_code read_all(spectra *file, const uint8_t *data, size_t size, sonar_error *err) {
    size_t at = 0;
    bool found = true;
    sonar_code code = SONAR_OK;
    while (!code && found) {
        code = spectra_next(file, &found, err);
        if (code || !found)
            break;
        at += SONAR_MESSAGE_HEAD_BYTES;
        if (bytes_of(&file->head) > size - at || !file->head.topic_bytes ||
            memcmp(data + at, file->bytes, bytes_of(&file->head)) != 0)
            abort();
        at += bytes_of(&file->head);
    }
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[INPUT_PATH_BYTES];
    sonar_error err = {0};
    spectra file;
    input_file_write("r.sonar-spectra", data, size, path);
    sonar_code code = spectra_open(path, &file, &err);
    if (!code)
        code = read_all(&file, data, size, &err);
    if (code && (code != SONAR_EINVAL || !err.text[0]))
        abort(); /* refused without a sentence */
    if (file.room > size)
        abort(); /* memory for what is not there */
    spectra_close(&file);
    return 0;
}
