/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Segments are named by the clock, which may have been wrong. A list in a file beside them has a
 * line for each, in the order in which they were written. Its content is only compared with
 * names. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/segment.h"

enum { LIST_NAME = SONAR_SEGMENT_NAME + 16, LIST_BYTES_MOST = 1 << 24 };

struct sonar_order_line {
    const char *stem;
    size_t rank;
};

static void name_list(const char *name, const char *ending, char to[LIST_NAME]) {
    snprintf(to, LIST_NAME, "%s%s", name, ending);
}

static bool put_line(int fd, const char *stem) {
    char line[SONAR_SEGMENT_NAME + 2];
    const int bytes = snprintf(line, sizeof line, "%s\n", stem);
    return write(fd, line, (size_t)bytes) == bytes;
}

/* ---- read ------------------------------------------------------------------------------------ */

/* The whole list, zero-terminated; NULL: it does not exist or cannot be read. */
static char *read_list(int directory, const char *name) {
    char path[LIST_NAME];
    struct stat file;
    name_list(name, ".sonar-order", path);
    const int fd = openat(directory, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    char *text = NULL;
    if (fd >= 0 && !fstat(fd, &file) && S_ISREG(file.st_mode) && file.st_size <= LIST_BYTES_MOST)
        text = malloc((size_t)file.st_size + 1);
    const ssize_t got = text ? read(fd, text, (size_t)file.st_size) : 0;
    if (text)
        text[got > 0 ? got : 0] = '\0';
    if (fd >= 0)
        close(fd);
    return text;
}

/* Sorts by name, and lines of one name by the order of writing, last first. */
static int by_stem(const void *a, const void *b) {
    const struct sonar_order_line *x = a, *y = b;
    const int names = strcmp(x->stem, y->stem);
    return names ? names : x->rank > y->rank ? -1 : x->rank < y->rank;
}

void sonar_order_read(int directory, const char *name, sonar_order *order) {
    *order = (sonar_order){.text = read_list(directory, name)};
    size_t lines = 0;
    for (const char *at = order->text; at && *at; at++)
        lines += *at == '\n';
    order->line = lines ? malloc(lines * sizeof *order->line) : NULL;
    char *at = order->text;
    for (size_t i = 0; order->line && i < lines;
         i++) { /* an incomplete line at the end is ignored */
        char *end = strchr(at, '\n');
        *end = '\0';
        order->line[i] = (struct sonar_order_line){at, i + 1};
        at = end + 1;
    }
    order->lines = order->line ? lines : 0;
    if (order->lines)
        qsort(order->line, order->lines, sizeof *order->line, by_stem);
}

void sonar_order_free(sonar_order *order) {
    free(order->line);
    free(order->text);
    *order = (sonar_order){0};
}

size_t sonar_order_rank(const sonar_order *order, const char *stem) {
    size_t low = 0, high = order->lines;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (strcmp(order->line[middle].stem, stem) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < order->lines && !strcmp(order->line[low].stem, stem) ? order->line[low].rank : 0;
}

/* ---- write ----------------------------------------------------------------------------------- */

void sonar_order_note(int directory, const char *name, const char *stem) {
    char path[LIST_NAME];
    name_list(name, ".sonar-order", path);
    const int fd =
        openat(directory, path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0640);
    if (fd < 0)
        return;
    put_line(fd, stem);
    close(fd);
}

void sonar_order_write(int directory, const char *name, const char *const *stem, size_t count) {
    char path[LIST_NAME], fresh[LIST_NAME];
    name_list(name, ".sonar-order", path);
    name_list(name, ".sonar-order~", fresh);
    unlinkat(directory, fresh, 0);
    const int fd =
        openat(directory, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
    bool good = fd >= 0;
    for (size_t i = 0; i < count; i++)
        good = good && put_line(fd, stem[i]);
    if (fd >= 0)
        good = close(fd) == 0 && good;
    if (!good || renameat(directory, fresh, directory, path))
        unlinkat(directory, fresh, 0);
}
