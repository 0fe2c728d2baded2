/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/room.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char CGROUPS[] = "/sys/fs/cgroup";

/* The number after `name` at the beginning of a line; with name "", the number at the beginning of
 * the first line. NaN if not found. */
static double number_in(const char *root, const char *path, const char *name) {
    char file[PATH_MAX], line[512];
    double value = NAN;
    if (snprintf(file, sizeof file, "%s%s", root, path) >= (int)sizeof file)
        return NAN;
    FILE *from = fopen(file, "re");
    while (from && isnan(value) && fgets(line, sizeof line, from))
        if (!strncmp(line, name, strlen(name)) && sscanf(line + strlen(name), " %lf", &value) != 1)
            break;
    if (from)
        fclose(from);
    return value;
}

/* The path of the process's control group, "" if it has none or is at the top. */
static void own_group(const char *root, char path[PATH_MAX]) {
    char file[PATH_MAX], line[PATH_MAX + 8];
    path[0] = '\0';
    if (snprintf(file, sizeof file, "%s/proc/self/cgroup", root) >= (int)sizeof file)
        return;
    FILE *from = fopen(file, "re");
    while (from && fgets(line, sizeof line, from))
        if (!strncmp(line, "0::/", 4)) { /* version 2 has an empty controller list and number 0;
                                            lines of version 1 have others */
            line[strcspn(line, "\n")] = '\0';
            snprintf(path, PATH_MAX, "%.*s", PATH_MAX - 1, line[4] ? line + 3 : "");
            break;
        }
    if (from)
        fclose(from);
}

/* Reads `name` in the group's folder. */
static double of_group(const char *root, const char *group, const char *name, const char *key,
                       char path[PATH_MAX]) {
    const int length = snprintf(path, PATH_MAX, "%s%s/%s", CGROUPS, group, name);
    return length < PATH_MAX ? number_in(root, path, key) : NAN;
}

/* Lowers the total to the group's limit, and the free bytes to what the group has left. "max" is
 * not a number. */
static void bound(sonar_room *room, const char *root, const char *group) {
    char path[PATH_MAX], other[PATH_MAX];
    const double most = of_group(root, group, "memory.max", "", path);
    if (!isfinite(most))
        return;
    const double used = of_group(root, group, "memory.current", "", other);
    const double cached = of_group(root, group, "memory.stat", "inactive_file", other);
    if (most < room->total_bytes) {
        room->total_bytes = most;
        snprintf(room->limit, sizeof room->limit, "%.*s", SONAR_ROOM_TEXT - 1, path);
    }
    if (isfinite(used))
        room->free_bytes =
            fmin(room->free_bytes, fmax(0, most - used + (isfinite(cached) ? cached : 0)));
}

sonar_room sonar_room_read(const char *root) {
    static const char info[] = "/proc/meminfo";
    sonar_room room = {.total_bytes = 1024 * number_in(root, info, "MemTotal:"),
                       .free_bytes = 1024 * number_in(root, info, "MemAvailable:")};
    char group[PATH_MAX];
    if (isnan(room.total_bytes))
        room.total_bytes = INFINITY;
    if (isnan(room.free_bytes))
        room.free_bytes = room.total_bytes;
    snprintf(room.limit, sizeof room.limit, "%s", info);
    own_group(root, group);
    bound(&room, root, group);
    for (char *end;
         (end = strrchr(group, '/'));) { /* in a container, the topmost group has a limit too */
        *end = '\0';
        bound(&room, root, group);
    }
    room.free_bytes = fmin(room.free_bytes, room.total_bytes);
    return room;
}
