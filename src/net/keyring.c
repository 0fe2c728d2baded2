/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "net/certificate.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"

/* Number of keys below `key`. */
static size_t place_of(const sonar_keyring *ring, const uint8_t *key) {
    size_t low = 0, high = ring->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (memcmp(ring->key[middle], key, SONAR_KEY_BYTES) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool sonar_keyring_has(const sonar_keyring *ring, const uint8_t key[SONAR_KEY_BYTES]) {
    size_t place = place_of(ring, key);
    return place < ring->count && !memcmp(ring->key[place], key, SONAR_KEY_BYTES);
}

bool sonar_keyring_within(const sonar_keyring *a, const sonar_keyring *b) {
    for (size_t i = 0; i < a->count; i++)
        if (!sonar_keyring_has(b, a->key[i]))
            return false;
    return true;
}

bool sonar_keyring_copy(const sonar_keyring *from, sonar_keyring *to) {
    *to = (sonar_keyring){0};
    if (!from->count)
        return true;
    to->key = sonar_alloc(from->count, sizeof *to->key);
    if (!to->key)
        return false;
    memcpy(to->key, from->key, from->count * sizeof *to->key);
    to->count = from->count;
    return true;
}

void sonar_keyring_clear(sonar_keyring *ring) {
    free(ring->key);
    *ring = (sonar_keyring){0};
}

static sonar_code add_key(sonar_keyring *ring, const char *path, const uint8_t *key,
                          sonar_error *err) {
    size_t place = place_of(ring, key);
    if (sonar_keyring_has(ring, key))
        return SONAR_OK;
    if (ring->count == SONAR_KEYS_MOST)
        return sonar_fail(err, SONAR_EINVAL, path, "one key too many: %d are kept at most",
                          SONAR_KEYS_MOST);
    uint8_t(*grown)[SONAR_KEY_BYTES] = realloc(ring->key, (ring->count + 1) * sizeof *ring->key);
    if (!grown)
        return sonar_fail(err, SONAR_ENOMEM, path, "no memory for a key");
    ring->key = grown;
    memmove(grown + place + 1, grown + place, (ring->count - place) * sizeof *grown);
    memcpy(grown[place], key, SONAR_KEY_BYTES);
    ring->count++;
    return SONAR_OK;
}

static sonar_code add_file(sonar_keyring *ring, const char *path, sonar_error *err) {
    sonar_certificate certificate;
    uint8_t key[SONAR_KEY_BYTES];
    sonar_code code = sonar_certificate_read(path, SONAR_TO_ALLOW, &certificate, err);
    if (code)
        return code;
    zmq_z85_decode(key, certificate.public_key);
    return add_key(ring, path, key, err);
}

static int is_public_certificate(const struct dirent *entry) {
    const char *dot = strrchr(entry->d_name, '.');
    return entry->d_name[0] != '.' && dot && !strcmp(dot, ".key");
}

/* In the order of the names, so that of several bad files the same one is named each time. */
static sonar_code add_folder(sonar_keyring *ring, const char *path, sonar_error *err) {
    struct dirent **entry;
    int entries = scandir(path, &entry, is_public_certificate, alphasort);
    if (entries < 0)
        return sonar_fail(err, SONAR_EUNAVAILABLE, path, "cannot be read: %s", strerror(errno));
    sonar_code code = SONAR_OK;
    for (int i = 0; i < entries; i++) {
        char *file;
        if (!code && asprintf(&file, "%s/%s", path, entry[i]->d_name) < 0)
            code = sonar_fail(err, SONAR_ENOMEM, path, "no memory for a path");
        else if (!code) {
            code = add_file(ring, file, err);
            free(file);
        }
        free(entry[i]);
    }
    free(entry);
    return code;
}

sonar_code sonar_keyring_add(sonar_keyring *ring, const char *path, sonar_error *err) {
    struct stat about;
    if (stat(path, &about) != 0)
        return sonar_fail(err, SONAR_EUNAVAILABLE, path, "cannot be read: %s", strerror(errno));
    if (!S_ISDIR(about.st_mode))
        return add_file(ring, path, err);
    if ((about.st_uid != 0 && about.st_uid != geteuid()) || about.st_mode & S_IWOTH)
        return sonar_fail(err, SONAR_EINVAL, path,
                          "others could put keys into this folder: it must belong to root or to "
                          "user %u and not be writable for everybody",
                          (unsigned)geteuid());
    return add_folder(ring, path, err);
}
