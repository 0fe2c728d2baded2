/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The memory that this process may use: the machine's, or less if its control group (cgroup v2,
 * https://docs.kernel.org/admin-guide/cgroup-v2.html) or one above has a limit. */
#ifndef SONAR_ROOM_H
#define SONAR_ROOM_H

enum { SONAR_ROOM_TEXT = 256 };

typedef struct sonar_room {
    double total_bytes;          /* estimate of what is available; infinite: unknown */
    double free_bytes;           /* of these; includes what the kernel can reclaim */
    char limit[SONAR_ROOM_TEXT]; /* the file that gives `total`, without the root */
} sonar_room;

/* root: the folder in which proc and sys lie; "": the machine's own. Any thread. */
sonar_room sonar_room_read(const char *root);

#endif
