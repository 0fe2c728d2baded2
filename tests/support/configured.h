/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef TEST_CONFIGURED_H
#define TEST_CONFIGURED_H

#include "config/config.h"

/* The configuration of a text without mistakes, to be destroyed. Where there are any, what is wrong
 * is the test: they go to standard error and it ends. */
sonar_config *configured(const char *name, const char *text);

#endif
