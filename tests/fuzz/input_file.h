/* SPDX-License-Identifier: GPL-3.0-or-later */
/* For targets whose reader takes a path: a folder in memory, removed at the end. */
#ifndef FUZZ_INPUT_FILE_H
#define FUZZ_INPUT_FILE_H

#include <stddef.h>

enum { INPUT_PATH_BYTES = 96 };

/* Writes the bytes to the file `name` in the folder; its path is in to[INPUT_PATH_BYTES]. */
void input_file_write(const char *name, const void *bytes, size_t count, char *to);

#endif
