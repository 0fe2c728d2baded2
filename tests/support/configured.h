/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef TEST_CONFIGURED_H
#define TEST_CONFIGURED_H

#include "config/config.h"

/* The configuration of a valid text; the caller destroys it. If the text has mistakes, the test
 * itself is wrong: they are printed to standard error and the test ends. */
sonar_config *configured(const char *name, const char *text);

#endif
