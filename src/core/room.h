/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The memory that this process may have: the machine's, or less where a control group (cgroup v2,
 * https://docs.kernel.org/admin-guide/cgroup-v2.html) that it is in has a limit. */
#ifndef SONAR_ROOM_H
#define SONAR_ROOM_H

enum { SONAR_ROOM_TEXT = 256 };

typedef struct sonar_room {
    double total_bytes;          /* estimate of what is available; infinite: unknown */
    double free_bytes;           /* of it, with what the kernel would give back; <= total_bytes */
    char limit[SONAR_ROOM_TEXT]; /* the file that gives `total`, without the root */
} sonar_room;

/* root: the folder in which proc and sys lie; "": the machine's own. Any thread. */
sonar_room sonar_room_read(const char *root);

#endif
