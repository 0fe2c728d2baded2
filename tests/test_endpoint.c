/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Endpoints that name something in the file system: only a socket may be replaced. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "net/net.h"
#include "process.h"

static sonar_code try_bind(const char *path, sonar_error *err) {
    char endpoint[512];
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_PULL);
    snprintf(endpoint, sizeof endpoint, "ipc://%s", path);
    sonar_code code = sonar_endpoint_bind(socket, endpoint, err);
    cr_expect(code == SONAR_OK || !strcmp(err->where, endpoint));
    zmq_close(socket);
    zmq_ctx_term(context);
    return code;
}

static void expect_refused(const char *path, const char *kind) {
    sonar_error err = {0};
    struct stat before, after;
    cr_assert_eq(lstat(path, &before), 0);
    cr_expect_eq(try_bind(path, &err), SONAR_ESYS, "%s", kind);
    cr_expect(strstr(err.text, path) && strstr(err.text, kind), "%s", err.text);
    cr_assert_eq(lstat(path, &after), 0, "%s was deleted", kind);
    cr_expect_eq(before.st_ino, after.st_ino, "%s was replaced", kind);
}

Test(endpoint, what_is_no_socket_is_left_alone) {
    box box = box_open();
    const char *there = box_path(&box, "there");
    box_write(&box, "there", "a day of recordings\n");
    expect_refused(there, "a regular file");
    unlink(there);
    cr_assert_eq(mkdir(there, 0700), 0);
    expect_refused(there, "a folder");
    rmdir(there);
    cr_assert_eq(symlink("/nowhere", there), 0);
    expect_refused(there, "a symbolic link");
    unlink(there);
    cr_assert_eq(mkfifo(there, 0600), 0);
    expect_refused(there, "no socket");
    unlink(there);
    box_close(&box);
}

/* The socket file of a killed daemon must not prevent binding. */
Test(endpoint, a_socket_no_one_listens_on_is_replaced) {
    box box = box_open();
    const char *there = box_path(&box, "there");
    sonar_error err = {0};
    cr_assert_eq(mknod(there, S_IFSOCK | 0600, 0), 0);
    cr_expect_eq(try_bind(there, &err), SONAR_OK, "%s", err.text);
    box_close(&box);
}

Test(endpoint, the_daemon_names_the_file_and_keeps_it) {
    box box = box_open();
    char file[128];
    snprintf(file, sizeof file, "%s", box_path(&box, "recording.wav"));
    for (int i = 0; i < 2; i++) {
        box_write(&box, "recording.wav", "RIFF");
        box_write(&box, "sonard.yaml",
                  "schema: 1\nfs_hz: 8000\n"
                  "array: {geometry: {line: {sensors: 8, spacing_m: 0.75}}}\n"
                  "cbf: {band_hz: [600, 950], ranges_m: []}\nmvdr: {enabled: false}\n"
                  "runtime: {backend: cpu, threads: 1}\n"
                  "ingest: {endpoints: [\"ipc://%s\"]}\noutput: {endpoint: \"ipc://%s\"}\n",
                  i ? box_path(&box, "in") : file, i ? file : box_path(&box, "out"));
        const char *config = box_path(&box, "sonard.yaml");
        cr_expect_eq(process_wait(process_start(&box, "log", "sonard", config, NULL), 20000), 3);
        char *log = box_read(&box, "log"), *kept = box_read(&box, "recording.wav");
        cr_expect(strstr(log, file) && strstr(log, "only a socket may be replaced"), "%s", log);
        cr_expect_str_eq(kept, "RIFF");
        free(log);
        free(kept);
        unlink(box_path(&box, "log"));
    }
    box_close(&box);
}
