/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Files in the state directory: which are read, which are not touched, and how they are written. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/core.h"
#include "process.h"

enum { MOST = 1000 };

static sonar_error err;
static char *text;
static size_t bytes;

static sonar_code read_it(const char *path) {
    free(text);
    err = (sonar_error){0};
    return sonar_state_read(path, MOST, &text, &bytes, &err);
}

static void assert_left_alone(const char *path, const char *why) {
    cr_assert_eq(read_it(path), SONAR_EINVAL, "%s", why);
    cr_assert_null(text);
    cr_assert(strstr(err.text, why), "%s", err.text);
    cr_assert_str_eq(err.where, path);
}

Test(state, what_is_written_is_read) {
    box box = box_open();
    const char *path = box_path(&box, "kept");
    const char *const texts[] = {"", "one", "a longer one\n", "less"};
    umask(0077);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct stat file;
        cr_assert_eq(sonar_state_write(path, texts[i], strlen(texts[i]), &err), SONAR_OK);
        cr_assert_eq(read_it(path), SONAR_OK, "%s", err.text);
        cr_assert_str_eq(text, texts[i]);
        cr_assert_eq(bytes, strlen(texts[i]));
        cr_assert_eq(stat(path, &file), 0);
        cr_assert_eq(file.st_mode & 07777, 0644, "the service's user cannot read it");
    }
    cr_assert_eq(sonar_state_write(path, "a\0b", 3, &err), SONAR_OK);
    cr_assert_eq(read_it(path), SONAR_OK);
    cr_assert(bytes == 3 && !memcmp(text, "a\0b", 4), "a zero byte ends nothing");
    box_close(&box);
}

Test(state, the_limit_is_a_limit) {
    box box = box_open();
    const char *path = box_path(&box, "kept");
    char long_text[MOST + 1];
    memset(long_text, 'x', sizeof long_text);
    cr_assert_eq(sonar_state_write(path, long_text, MOST, &err), SONAR_OK);
    cr_assert_eq(read_it(path), SONAR_OK);
    cr_assert_eq(bytes, MOST);
    cr_assert_eq(sonar_state_write(path, long_text, MOST + 1, &err), SONAR_OK);
    assert_left_alone(path, "too long");
    box_close(&box);
}

Test(state, only_plain_files_of_our_own_are_read) {
    box box = box_open();
    char path[96], other[96];
    snprintf(path, sizeof path, "%s", box_path(&box, "kept"));
    snprintf(other, sizeof other, "%s", box_path(&box, "other"));
    cr_assert_eq(read_it(path), SONAR_EUNAVAILABLE);
    cr_assert_null(text);
    cr_assert_eq(mkfifo(path, 0644), 0);
    assert_left_alone(path, "no regular file");
    unlink(path);
    assert_left_alone(box.dir, "no regular file");
    assert_left_alone("/dev/zero", "no regular file");
    box_write(&box, "other", "fine");
    cr_assert_eq(read_it(other), SONAR_OK);
    cr_assert_eq(symlink(other, path), 0);
    assert_left_alone(path, "a link");
    if (geteuid() == 0) {
        cr_assert_eq(chown(other, 4711, 4711), 0);
        assert_left_alone(other, "another user");
    }
    box_close(&box);
}

Test(state, a_file_that_cannot_be_written_leaves_nothing) {
    box box = box_open();
    char long_path[5000];
    cr_assert_eq(sonar_state_write(box_path(&box, "no/kept"), "x", 1, &err), SONAR_ESYS);
    cr_assert(err.text[0] && err.where[0]);
    cr_assert_eq(mkdir(box_path(&box, "taken"), 0755), 0);
    cr_assert_eq(sonar_state_write(box_path(&box, "taken"), "x", 1, &err), SONAR_ESYS);
    cr_assert_eq(entries_of(box.dir), 1, "a half-made file stays");
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = 0;
    cr_assert_eq(sonar_state_write(long_path, "x", 1, &err), SONAR_ESYS);
    box_close(&box);
}

/* A link in the file's place is replaced, and its target is not changed. */
Test(state, writing_follows_no_link) {
    box box = box_open();
    box_write(&box, "other", "untouched");
    char path[96];
    snprintf(path, sizeof path, "%s", box_path(&box, "kept"));
    cr_assert_eq(symlink(box_path(&box, "other"), path), 0);
    cr_assert_eq(sonar_state_write(path, "new", 3, &err), SONAR_OK);
    cr_assert_eq(read_it(path), SONAR_OK);
    cr_assert_str_eq(text, "new");
    char *other = box_read(&box, "other");
    cr_assert_str_eq(other, "untouched");
    free(other);
    box_close(&box);
}
