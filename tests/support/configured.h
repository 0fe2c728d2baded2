/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef TEST_CONFIGURED_H
#define TEST_CONFIGURED_H

#include "config/config.h"

/* The configuration of a valid text; the caller destroys it. If the text has mistakes, the test
 * itself is wrong: they are printed to standard error and the test ends. */
sonar_config *configured(const char *name, const char *text);

enum { MISTAKE_WHERE_BYTES = 160, MISTAKE_WHY_BYTES = 400 };
/* What reading the text "test" says once `to` stands in the place of its first `from`, which it
 * has: the code, and the place and the text of the first mistake. */
sonar_code configured_spoilt(const char *text, const char *from, const char *to,
                             char where[MISTAKE_WHERE_BYTES], char why[MISTAKE_WHY_BYTES]);

#endif
