/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Deletes old segments to make room for new ones. Only files with a recorder's own names are
 * touched. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/segment.h"

enum { STEM_TAIL = 21 };      /* "-20260102T030405.678Z" */
enum { DELETED_MOST = 1024 }; /* segments deleted in one call, because samples wait meanwhile */
static const int64_t future_ns = 3600000000000; /* a segment's name more than this ahead of the
                                                   clock means that the clock was or is wrong */

/* The four files that a segment may have; the first two are data. */
static const char *const ending[] = {".sigmf-data", ".sonar-spectra", ".sigmf-meta",
                                     ".sonar-index"};
enum { ENDINGS = 4, DATA_ENDINGS = 2 };

typedef struct kept {
    char stem[SONAR_SEGMENT_NAME];
    uint64_t bytes;
    int64_t utc_ns; /* when it was last written */
    size_t rank;    /* position in the order of writing; 0: unknown */
    bool future;    /* the name is later than the clock, which was wrong then or is now */
} kept;

/* True if `stem` ends as sonar_segment_stem makes it. */
static bool is_time(const char *tail) {
    static const char form[] = "-00000000T000000.000Z";
    for (size_t i = 0; i < STEM_TAIL; i++)
        if (form[i] == '0' ? !isdigit((unsigned char)tail[i]) : tail[i] != form[i])
            return false;
    return tail[STEM_TAIL] == '\0';
}

/* Writes the stem of a data file of this name to `stem`; false if the file is not one. */
static bool is_ours(const char *file, const char *name, char stem[SONAR_SEGMENT_NAME]) {
    const size_t n = strlen(name), length = strlen(file);
    if (strncmp(file, name, n) != 0 || length >= SONAR_SEGMENT_NAME || length < n + STEM_TAIL)
        return false;
    for (int e = 0; e < DATA_ENDINGS; e++)
        if (!strcmp(file + n + STEM_TAIL, ending[e])) {
            memcpy(stem, file, n + STEM_TAIL);
            stem[n + STEM_TAIL] = '\0';
            return is_time(stem + n);
        }
    return false;
}

/* Segments that the list does not have are older than the list, or were copied here; they come
 * first. Among them, names later than the clock come first, because every later recording is
 * newer. */
static int oldest_first(const void *a, const void *b) {
    const kept *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->future != y->future ? y->future - x->future : strcmp(x->stem, y->stem);
}

/* All segments of this name except the open one; to be released with free(). */
static kept *list(int directory, const char *name, const char *open, size_t *count) {
    char now[SONAR_SEGMENT_NAME];
    sonar_segment_stem(name, sonar_utc_ns() + future_ns, now);
    const int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    kept *all = NULL;
    *count = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        kept one = {0};
        struct stat file;
        if (!is_ours(entry->d_name, name, one.stem) || !strcmp(one.stem, open) ||
            fstatat(directory, entry->d_name, &file, AT_SYMLINK_NOFOLLOW) || !S_ISREG(file.st_mode))
            continue;
        kept *more = realloc(all, (*count + 1) * sizeof *all);
        if (!more)
            break;
        one.bytes = (uint64_t)file.st_size;
        one.utc_ns = (int64_t)file.st_mtim.tv_sec * 1000000000 + file.st_mtim.tv_nsec;
        one.future = strcmp(one.stem, now) > 0;
        all = more;
        all[(*count)++] = one;
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    return all;
}

/* Deletes the data file last, so that after a power failure the segment is still found. */
static void delete_files(int directory, const char *stem) {
    char name[SONAR_SEGMENT_NAME + 32];
    for (int e = ENDINGS; e-- > 0;) {
        snprintf(name, sizeof name, "%s%s", stem, ending[e]);
        unlinkat(directory, name, 0);
    }
}

/* Sorts, oldest first. Rewrites the list if many of its lines belong to deleted segments. */
static void sort(int directory, const char *name, const char *open, kept *all, size_t count) {
    enum { SPARE_LINES = 64 };
    sonar_order order;
    sonar_order_read(directory, name, &order);
    for (size_t i = 0; i < count; i++)
        all[i].rank = sonar_order_rank(&order, all[i].stem);
    qsort(all, count, sizeof *all, oldest_first);
    const char **known =
        order.lines > 2 * count + SPARE_LINES ? malloc((count + 1) * sizeof *known) : NULL;
    size_t lines = 0;
    for (size_t i = 0; known && i < count; i++)
        if (all[i].rank)
            known[lines++] = all[i].stem;
    if (known && *open)
        known[lines++] = open;
    if (known)
        sonar_order_write(directory, name, known, lines);
    free(known);
    sonar_order_free(&order);
}

sonar_kept sonar_keep(int directory, const char *name, const char *open, uint64_t keep_bytes,
                      double keep_s) {
    size_t count;
    uint64_t bytes = 0;
    sonar_kept result = {0};
    kept *all = list(directory, name, open, &count);
    for (size_t i = 0; i < count; i++)
        bytes += all[i].bytes;
    if (keep_bytes && bytes > keep_bytes)
        sort(directory, name, open, all, count);
    const int64_t now_ns = sonar_utc_ns();
    for (size_t i = 0; i < count; i++) {
        const bool old = keep_s > 0 && (double)(now_ns - all[i].utc_ns) * 1e-9 > keep_s;
        if (result.deleted < DELETED_MOST && (old || (keep_bytes && bytes > keep_bytes))) {
            delete_files(directory, all[i].stem);
            bytes -= all[i].bytes;
            result.deleted++;
        } else {
            result.future += all[i].future;
        }
    }
    free(all);
    return result;
}
