/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The group `security`: when an endpoint may be on the network, and where keys are found. */
#include <criterion/criterion.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "config/config.h"
#include "process.h"

#define ARRAY                                                                                      \
    "schema: 1\narray: {geometry: {line: {sensors: 8, spacing_m: 0.5}}}\nfs_hz: 4000\n"            \
    "cbf: {band_hz: [100, 1000], ranges_m: []}\n"
#define OPEN                                                                                       \
    ARRAY "ingest: {endpoints: [\"ipc:///tmp/x\", \"tcp://*:5555\"]}\n"                            \
          "output: {endpoint: \"tcp://0.0.0.0:5556\"}\n"
#define KEYS "security: {key: node.key_secret, allow_senders: [senders], allow_readers: [a.key]}\n"

static box files;
static sonar_config *config;
static char *report;

static void begin(void) {
    cr_assert_geq(sodium_init(), 0);
    files = box_open();
}

static void end(void) {
    sonar_config_destroy(config);
    free(report);
    box_close(&files);
}

TestSuite(config_security, .init = begin, .fini = end);

static sonar_code load_from(const char *text, const char *credentials, bool with_keys) {
    size_t bytes;
    sonar_config_destroy(config);
    free(report);
    box_write(&files, "test.yaml", "%s", text);
    const char *path = box_path(&files, "test.yaml");
    sonar_report *r = sonar_report_create();
    sonar_code code = with_keys ? sonar_config_load_with_keys(path, credentials, &config, r)
                                : sonar_config_load(path, &config, r);
    FILE *to = open_memstream(&report, &bytes);
    sonar_report_write(r, to);
    fclose(to);
    sonar_report_destroy(r);
    return code;
}

static sonar_code load(const char *text) {
    return load_from(text, NULL, true);
}

static void expect(const char *part) {
    cr_expect(strstr(report, part), "wanted: %s\nin:\n%s", part, report);
}

static void make_key(const char *public_name, const char *secret_name) {
    char public_key[41], secret_key[41];
    cr_assert_eq(zmq_curve_keypair(public_key, secret_key), 0);
    box_write(&files, public_name, "curve\n    public-key = \"%s\"\n", public_key);
    if (!secret_name)
        return;
    box_write(&files, secret_name, "curve\n    public-key = \"%s\"\n    secret-key = \"%s\"\n",
              public_key, secret_key);
    chmod(box_path(&files, secret_name), 0600);
}

static void make_keys(void) {
    make_key("node.key", "node.key_secret");
    make_key("a.key", NULL);
    cr_assert_eq(mkdir(box_path(&files, "senders"), 0755), 0);
    make_key("senders/1.key", NULL);
    make_key("senders/2.key", NULL);
}

/* ---- rules ----------------------------------------------------------------------------------- */

Test(config_security, what_would_be_open_is_refused_at_its_place) {
    cr_expect_eq(load(OPEN), SONAR_EINVAL);
    expect(
        "test.yaml:5:38: error: ingest.endpoints: refused: anyone who reaches tcp://*:5555 could "
        "send samples. Make keys with sonar-keys and set security.key and "
        "security.allow_senders (docs/lan.md)");
    expect("test.yaml:6:20: error: output.endpoint: refused: anyone who reaches tcp://0.0.0.0:5556 "
           "could read all results.");
    cr_expect_eq(load(ARRAY "ingest: {endpoints: [\"tcp://192.0.2.1:1\"], socket: sub}\n"),
                 SONAR_EINVAL);
    expect("refused: anyone who reaches tcp://192.0.2.1:1 could send samples");
}

Test(config_security, lists_belong_to_the_key) {
    make_keys();
    cr_expect_eq(load(ARRAY "security: {allow_readers: [a.key]}\n"), SONAR_EINVAL);
    expect("security.allow_readers: has no effect without security.key");
    cr_expect_eq(load(OPEN "security: {key: node.key_secret, allow_readers: [a.key]}\n"),
                 SONAR_EINVAL);
    expect("security.allow_senders: required with security.key: no client could connect");
    cr_expect_eq(load(OPEN "security: {key: node.key_secret, allow_senders: [a.key]}\n"),
                 SONAR_EINVAL);
    expect("security.allow_readers: required with security.key");
    /* no TCP output: no readers' keys are needed */
    cr_expect_eq(load(ARRAY "ingest: {endpoints: [\"tcp://*:5555\"]}\noutput: {endpoint: "
                            "\"ipc:///tmp/y\"}\nsecurity: {key: node.key_secret, "
                            "allow_senders: [a.key]}\n"),
                 SONAR_OK, "%s", report);
}

Test(config_security, hosts_may_be_addresses_and_names) {
    static const char *const good[] = {"*",    "0.0.0.0",           "192.0.2.7",
                                       "[::]", "[fe80::1%eth0]",    "127.0.0.1",
                                       "eth0", "node-1.example.org"};
    static const char *const bad[] = {"",           "1.2.3",     "127.1", "1.2.3.4;5.6.7.8", "[::",
                                      "[nonsense]", "host name", "a/b",   "2130706433"};
    char text[1024];
    make_keys();
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(text, sizeof text, ARRAY "ingest: {endpoints: [\"tcp://%s:5555\"]}\n" KEYS,
                 good[i]);
        cr_expect_eq(load(text), SONAR_OK, "%s: %s", good[i], report);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(text, sizeof text, ARRAY "ingest: {endpoints: [\"tcp://%s:5555\"]}\n" KEYS,
                 bad[i]);
        cr_expect_eq(load(text), SONAR_EINVAL, "%s", bad[i]);
        expect("test.yaml:5:22: error: ingest.endpoints");
    }
}

Test(config_security, digitisers_that_bind_have_a_key_each) {
    make_keys();
    const char *two = ARRAY "ingest: {socket: sub, endpoints: [\"tcp://192.0.2.1:1\", "
                            "\"tcp://192.0.2.2:1\"]}\n";
    char text[2048];
    snprintf(text, sizeof text,
             "%ssecurity: {key: node.key_secret, allow_readers: [a.key], allow_senders: [a.key, "
             "senders/1.key, senders/2.key]}\n",
             two);
    cr_expect_eq(load(text), SONAR_EINVAL);
    expect("3 keys for 2 endpoints");
    snprintf(text, sizeof text,
             "%ssecurity: {key: node.key_secret, allow_readers: [a.key], allow_senders: [a.key, "
             "senders/1.key]}\n",
             two);
    cr_expect_eq(load(text), SONAR_OK, "%s", report);
    cr_expect_eq(config->security.servers, 2);
    snprintf(text, sizeof text,
             "%ssecurity: {key: node.key_secret, allow_readers: [a.key], allow_senders: "
             "[senders]}\n",
             two);
    cr_expect_eq(load(text), SONAR_EINVAL, "a folder says not whose key is whose");
    expect("is no regular file");
}

/* ---- keys ------------------------------------------------------------------------------------ */

Test(config_security, keys_lie_beside_the_configuration) {
    make_keys();
    cr_assert_eq(load(OPEN KEYS), SONAR_OK, "%s", report);
    cr_expect_eq(config->security.allowed[SONAR_SENDERS].count, 2);
    cr_expect_eq(config->security.allowed[SONAR_READERS].count, 1);
    cr_expect_eq(config->security.ipc_mode, 0660);
    cr_expect_eq(strlen(config->security.own.secret_key), SONAR_KEY_CHARS);
}

/* systemd's LoadCredential=keys:/etc/sonard/keys. */
Test(config_security, a_services_credentials_come_first) {
    make_keys();
    mkdir(box_path(&files, "lent"), 0700);
    make_key("lent/unused.key", "lent/keys_node.key_secret");
    chmod(box_path(&files, "lent/keys_node.key_secret"), 0440); /* an access list's mask */
    char *lent = strdup(box_path(&files, "lent"));
    const char *text = OPEN "security: {key: keys/node.key_secret, allow_senders: [senders], "
                            "allow_readers: [a.key]}\n";
    cr_expect_eq(load_from(text, lent, true), SONAR_OK, "%s", report);
    cr_expect_eq(load_from(text, NULL, true), SONAR_EINVAL);
    expect("test.yaml:7:17: error: security.key: ");
    expect("/keys/node.key_secret: cannot be read: No such file or directory");
    free(lent);
}

/* A tool that only needs the daemon's address need not be able to read its key. */
Test(config_security, tools_read_no_keys) {
    cr_expect_eq(load_from(OPEN KEYS, NULL, false), SONAR_OK, "%s", report);
    cr_expect(config->security.curve);
    cr_expect_str_eq(config->security.own.secret_key, "");
}

Test(config_security, bad_key_files_are_named_with_the_line_that_names_them) {
    make_keys();
    chmod(box_path(&files, "node.key_secret"), 0644);
    box_write(&files, "senders/3.key", "nonsense\n");
    unlink(box_path(&files, "a.key"));
    cr_expect_eq(load(OPEN KEYS), SONAR_EINVAL);
    expect("test.yaml:7:17: error: security.key: ");
    expect("node.key_secret: others may read or change this secret key (mode 0644): chmod 0600");
    expect("test.yaml:7:50: error: security.allow_senders: ");
    expect("senders/3.key:1:1: a section");
    expect("security.allow_readers: ");
    expect("a.key: cannot be read: No such file");
}

Test(config_security, an_empty_folder_is_warned_about) {
    make_keys();
    mkdir(box_path(&files, "none"), 0755);
    cr_expect_eq(load(OPEN "security: {key: node.key_secret, allow_senders: [none], "
                           "allow_readers: [a.key]}\n"),
                 SONAR_OK, "%s", report);
    expect("security.allow_senders: holds no key yet: no client can connect");
}

Test(config_security, modes_of_ipc_sockets_are_three) {
    cr_expect_eq(load(ARRAY "security: {ipc_mode: 0600}\n"), SONAR_OK, "%s", report);
    cr_expect_eq(config->security.ipc_mode, 0600);
    cr_expect_eq(load(ARRAY "security: {ipc_mode: 0777}\n"), SONAR_EINVAL);
    expect("0600, 0660, 0666");
}
