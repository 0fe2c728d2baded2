/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input_file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];

static void remove_folder(void) {
    char path[2 * INPUT_PATH_BYTES + 256];
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        unlink(path); /* fails on . and .. */
    }
    if (dir)
        closedir(dir);
    rmdir(folder);
}

void input_file_write(const char *name, const void *bytes, size_t count, char *to) {
    if (!*folder) {
        snprintf(folder, sizeof folder, "%s/sonar-fuzz-XXXXXX",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        if (!mkdtemp(folder))
            abort();
        atexit(remove_folder);
    }
    snprintf(to, INPUT_PATH_BYTES, "%s/%s", folder, name);
    FILE *file = fopen(to, "wb");
    if (!file || fwrite(bytes, 1, count, file) != count || fclose(file) != 0)
        abort();
}
