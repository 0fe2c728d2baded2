/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Replaces libFuzzer in the ordinary build: runs a few hundred fixed random inputs, then the files
 * of the named folders, whole and cut off at every eighth. So the tests detect a target that does
 * not compile or fails at once. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 300, BYTES_MOST = 900, FILE_BYTES_MOST = 1 << 16, CUTS = 8 };

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t bytes);

static void try_random(void) {
    unsigned char data[BYTES_MOST];
    unsigned long long state = 1;
    for (size_t input = 0; input < INPUTS; input++) {
        for (size_t i = 0; i < BYTES_MOST; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            data[i] = (unsigned char)(state >> 56);
        }
        LLVMFuzzerTestOneInput(data, input * BYTES_MOST / INPUTS);
    }
}

/* An exact copy, so that a sanitizer detects reads beyond its end. */
static void try_bytes(const unsigned char *data, size_t bytes) {
    unsigned char *copy = malloc(bytes ? bytes : 1);
    if (!copy)
        abort();
    memcpy(copy, data, bytes);
    LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
}

static void try_file(const char *path) {
    static unsigned char data[FILE_BYTES_MOST];
    FILE *file = fopen(path, "rb");
    if (!file)
        abort();
    size_t bytes = fread(data, 1, sizeof data, file);
    fclose(file);
    for (size_t cut = 1; cut <= CUTS; cut++)
        try_bytes(data, bytes * cut / CUTS);
}

/* Returns how many files it holds. */
static size_t try_folder(const char *folder) {
    char path[4096];
    size_t files = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        try_file(path);
        files++;
    }
    if (dir)
        closedir(dir);
    return files;
}

int main(int argc, char **argv) {
    try_random();
    size_t files = 0;
    for (int i = 1; i < argc; i++) {
        size_t more = try_folder(argv[i]);
        if (!more) {
            fprintf(stderr, "%s holds no inputs\n", argv[i]);
            return EXIT_FAILURE;
        }
        files += more;
    }
    printf("%d inputs, %zu files\n", INPUTS, files);
    return EXIT_SUCCESS;
}
