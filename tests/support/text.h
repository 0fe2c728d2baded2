/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef TEST_TEXT_H
#define TEST_TEXT_H

#include <stddef.h>

/* The contents of a file with a terminating zero, malloc'ed, and its length unless bytes is NULL.
 * NULL if it cannot be read. */
char *text_read(const char *path, size_t *bytes);

#endif
