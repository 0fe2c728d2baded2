/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "instrument.h"

#include <string.h>

static const instrument *const row[] = {&instrument_seedlink, &instrument_iclisten,
                                        &instrument_optodas, &instrument_febus};

const instrument *instrument_find(const char *where, const char **address) {
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const size_t length = strlen(row[i]->scheme);
        if (!strncmp(where, row[i]->scheme, length)) {
            *address = where + length;
            return row[i];
        }
    }
    return NULL;
}
