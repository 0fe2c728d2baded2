/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "text.h"

#include <stdio.h>

/* Reads to the end of file, since files of /proc report no size. */
char *text_read(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    char *text = NULL, piece[4096];
    size_t size = 0, got;
    if (!file)
        return NULL;
    FILE *to = open_memstream(&text, &size); /* ends with a zero */
    while ((got = fread(piece, 1, sizeof piece, file)) > 0)
        fwrite(piece, 1, got, to);
    fclose(to);
    fclose(file);
    if (bytes)
        *bytes = size;
    return text;
}
