/* SPDX-License-Identifier: GPL-3.0-or-later */
/* CURVE certificates: the reader, rights of files, lists of keys, and the tool that makes them. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "net/certificate.h"
#include "process.h"

/* The pair of rfc.zeromq.org/spec/26's examples. */
#define PUBLIC "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"
#define SECRET "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs"
#define SERVER "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"

static sonar_error err;

static sonar_code parse(const char *text, sonar_certificate_use use, sonar_certificate *c) {
    err = (sonar_error){0};
    return sonar_certificate_parse("x.key", text, strlen(text), use, c, &err);
}

/* ---- the reader ------------------------------------------------------------------------------ */

Test(certificates, those_of_czmq_and_pyzmq_are_read) {
    static const char *const good[] = {
        /* czmq's zcert_save */
        "#   ****  Generated on 2026-02-03 12:00:00 by CZMQ  ****\n"
        "#   ZeroMQ CURVE **Secret** Certificate\n"
        "#   DO NOT PROVIDE THIS FILE TO OTHER USERS nor change its permissions.\n\n"
        "metadata\n    name = \"hello # world\"\n    email=x@y.z\n"
        "curve\n    public-key = \"" PUBLIC "\"\n    secret-key = \"" SECRET "\"\n",
        /* pyzmq's create_certificates */
        "#   ****  Generated on 2026-02-03 12:00:00.123456 by pyzmq  ****\n"
        "metadata\ncurve\n    public-key = \"" PUBLIC "\"\n    secret-key = \"" SECRET "\"\n",
        /* an editor of another system, tabs, the other quotes, no newline at the end */
        "curve # keys\r\n\tpublic-key\t=\t'" PUBLIC "' # mine\r\n\r\n\tsecret-key='" SECRET "'",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        sonar_certificate c;
        cr_assert_eq(parse(good[i], SONAR_TO_OWN, &c), SONAR_OK, "%zu: %s %s", i, err.where,
                     err.text);
        cr_expect_str_eq(c.public_key, PUBLIC);
        cr_expect_str_eq(c.secret_key, SECRET);
        cr_expect_str_eq(c.server_key, "");
    }
}

Test(certificates, a_clients_names_its_server) {
    sonar_certificate c;
    cr_assert_eq(parse("curve\n  public-key = \"" PUBLIC "\"\n  server-key = \"" SERVER "\"\n",
                       SONAR_TO_ALLOW, &c),
                 SONAR_OK, "%s", err.text);
    cr_expect_str_eq(c.server_key, SERVER);
}

Test(certificates, what_is_none_is_refused_at_its_place) {
    static const struct {
        const char *text, *where, *says;
    } bad[] = {
        {"", "x.key", "no public-key"},
        {"metadata\n    name = \"x\"\n", "x.key", "no public-key"},
        {"metadata\n    public-key = \"" PUBLIC "\"\n", "x.key", "no public-key"},
        {"public-key = \"" PUBLIC "\"\n", "x.key:1:1", "a section"},
        {"    public-key = \"" PUBLIC "\"\n", "x.key:1:5", "a section"},
        {"curve\n    public-key = " PUBLIC "\n", "x.key:2:18", "in quotes"},
        {"curve\n    public-key = \"" PUBLIC "\n", "x.key:2:19", "40 characters"},
        {"curve\n    public-key = \"abc\"\n", "x.key:2:19", "40 characters"},
        {"curve\n    public-key = \"" PUBLIC "x\"\n", "x.key:2:19", "40 characters"},
        {"curve\n    public-key = \"" PUBLIC "\" x\n", "x.key:2:61", "nothing is wanted"},
        {"curve\n    public-key = \"~ne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID\"\n", "x.key:2:19",
         "not Z85"},
        {"curve\n    public-key = \"#####w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID\"\n", "x.key:2:19",
         "not Z85"}, /* five characters beyond 2^32 */
        {"curve\n    public-key = \"" PUBLIC "\"\n    public-key = \"" PUBLIC "\"\n", "x.key:3:19",
         "twice"},
        {"curve\n    public-kay = \"" PUBLIC "\"\n", "x.key:2:5", "only"},
        {"curve\n    public-key\n", "x.key:2:15", "a line such as"},
        {"curve\n    = \"" PUBLIC "\"\n", "x.key:2:5", "a line such as"},
        {"curve x\n", "x.key:1:7", "a section"},
        {"curves\n", "x.key:1:1", "a section"},
        {"curve\n    public-key = \"Yne@$\1-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID\"\n", "x.key:2:24",
         "control character"},
    };
    static const sonar_certificate none;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        sonar_certificate c;
        cr_expect_eq(parse(bad[i].text, SONAR_TO_ALLOW, &c), SONAR_EINVAL, "%zu", i);
        cr_expect_str_eq(err.where, bad[i].where, "%zu: %s: %s", i, err.where, err.text);
        cr_expect(strstr(err.text, bad[i].says), "%zu: %s: %s", i, err.where, err.text);
        cr_expect_arr_eq(&c, &none, sizeof c, "%zu: keys are left behind", i);
    }
}

Test(certificates, a_zero_byte_ends_nothing) {
    static const char text[] = "curve\n    public-key = \"" PUBLIC "\"\n\0    secret-key\n";
    sonar_certificate c;
    cr_expect_eq(sonar_certificate_parse("x.key", text, sizeof text - 1, SONAR_TO_ALLOW, &c, &err),
                 SONAR_EINVAL);
    cr_expect_str_eq(err.where, "x.key:3:1");
}

Test(certificates, are_refused_for_what_they_are_not_for) {
    sonar_certificate c;
    const char *both = "curve\n    public-key = \"" PUBLIC "\"\n    secret-key = \"" SECRET "\"\n";
    cr_expect_eq(parse(both, SONAR_TO_ALLOW, &c), SONAR_EINVAL);
    cr_expect(strstr(err.text, "holds a secret key"), "%s", err.text);
    cr_expect_eq(parse("curve\n    public-key = \"" PUBLIC "\"\n", SONAR_TO_OWN, &c), SONAR_EINVAL);
    cr_expect(strstr(err.text, "no secret key"), "%s", err.text);
    cr_expect_eq(parse("curve\n    public-key = \"" SERVER "\"\n    secret-key = \"" SECRET "\"\n",
                       SONAR_TO_OWN, &c),
                 SONAR_EINVAL);
    cr_expect(strstr(err.text, "not that of its secret key"), "%s", err.text);
}

/* ---- files ----------------------------------------------------------------------------------- */

static box files;

static void begin(void) {
    cr_assert_geq(sodium_init(), 0);
    files = box_open();
}

static void end(void) {
    box_close(&files);
}

TestSuite(key_files, .init = begin, .fini = end);

static sonar_code read_as(const char *name, sonar_certificate_use use) {
    sonar_certificate c;
    const char *path = box_path(&files, name);
    err = (sonar_error){0};
    sonar_code code = sonar_certificate_read(path, use, &c, &err);
    cr_expect(!code || !strncmp(err.where, path, strlen(path)), "%s does not name %s", err.where,
              path);
    return code;
}

static void write_secret(const char *name, mode_t mode) {
    box_write(&files, name, "curve\n    public-key = \"%s\"\n    secret-key = \"%s\"\n", PUBLIC,
              SECRET);
    cr_assert_eq(chmod(box_path(&files, name), mode), 0);
}

Test(key_files, secret_ones_are_for_their_owner_alone) {
    static const struct {
        mode_t mode;
        bool own, lent;
    } mode[] = {{0600, true, true},   {0400, true, true},   {0440, false, true},
                {0640, false, true},  {0604, false, false}, {0644, false, false},
                {0602, false, false}, {0601, false, false}, {0620, false, false},
                {0610, false, false}};
    for (size_t i = 0; i < sizeof mode / sizeof mode[0]; i++) {
        write_secret("own", mode[i].mode);
        sonar_code code = read_as("own", SONAR_TO_OWN);
        cr_expect_eq(code == SONAR_OK, mode[i].own, "%04o: %s", (unsigned)mode[i].mode, err.text);
        cr_expect(mode[i].own || strstr(err.text, "chmod"), "%s", err.text);
        code = read_as("own", SONAR_LENT_TO_OWN);
        cr_expect_eq(code == SONAR_OK, mode[i].lent, "%04o: %s", (unsigned)mode[i].mode, err.text);
        unlink(box_path(&files, "own"));
    }
}

/* A user who can change the link could have another key read. */
Test(key_files, secret_ones_are_not_read_through_a_link) {
    write_secret("own", 0600);
    cr_assert_eq(symlink("own", box_path(&files, "link")), 0);
    cr_expect_eq(read_as("link", SONAR_TO_OWN), SONAR_EINVAL);
    cr_expect(strstr(err.text, "is a link"), "%s", err.text);
    cr_expect_eq(read_as("link", SONAR_LENT_TO_OWN), SONAR_OK, "%s", err.text);
}

Test(key_files, no_one_else_may_have_written_them) {
    box_write(&files, "peer.key", "curve\n    public-key = \"%s\"\n", PUBLIC);
    const char *path = box_path(&files, "peer.key");
    chmod(path, 0666);
    cr_expect_eq(read_as("peer.key", SONAR_TO_ALLOW), SONAR_EINVAL);
    cr_expect(strstr(err.text, "chmod o-w"), "%s", err.text);
    chmod(path, 0644);
    cr_expect_eq(read_as("peer.key", SONAR_TO_ALLOW), SONAR_OK, "%s", err.text);
    if (geteuid() != 0)
        cr_skip_test("only root gives files away");
    cr_assert_eq(chown(path, 12345, 12345), 0);
    cr_expect_eq(read_as("peer.key", SONAR_TO_ALLOW), SONAR_EINVAL);
    cr_expect(strstr(err.text, "belongs to user 12345"), "%s", err.text);
}

/* Without waiting for a pipe's other end, and without reading endless files. */
Test(key_files, only_regular_ones_are_read) {
    cr_assert_eq(mkfifo(box_path(&files, "pipe"), 0600), 0);
    cr_assert_eq(mkdir(box_path(&files, "folder"), 0700), 0);
    cr_assert_eq(symlink("/dev/zero", box_path(&files, "device")), 0);
    static const char *const name[] = {"pipe", "folder", "device"};
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(read_as(name[i], SONAR_LENT_TO_OWN), SONAR_EINVAL, "%s", name[i]);
        cr_expect(strstr(err.text, "no regular file"), "%s: %s", name[i], err.text);
    }
    cr_expect_eq(read_as("none", SONAR_TO_OWN), SONAR_EUNAVAILABLE);
    box_write(&files, "long", "#%20000s\n", "");
    cr_expect_eq(read_as("long", SONAR_TO_ALLOW), SONAR_EINVAL);
    cr_expect(strstr(err.text, "too large"), "%s", err.text);
}

/* ---- lists of keys --------------------------------------------------------------------------- */

static void make_key(const char *name, char public_key[41]) {
    char secret[41];
    cr_assert_eq(zmq_curve_keypair(public_key, secret), 0);
    box_write(&files, name, "curve\n    public-key = \"%s\"\n", public_key);
}

static bool has(const sonar_keyring *ring, const char *public_key) {
    uint8_t key[SONAR_KEY_BYTES];
    return sonar_keyring_has(ring, zmq_z85_decode(key, public_key));
}

Test(key_files, of_a_folder_all_public_ones_count) {
    enum { KEYS = 100 };
    static char public_key[KEYS][41];
    char name[32], other[41];
    sonar_keyring ring = {0}, less = {0}, copy;
    mkdir(box_path(&files, "allowed"), 0755);
    for (int i = 0; i < KEYS; i++) {
        snprintf(name, sizeof name, "allowed/%d.key", i);
        make_key(name, public_key[i]);
    }
    make_key("allowed/5.key~", other);
    make_key("allowed/.hidden.key", other);
    box_write(&files, "allowed/notes.txt", "no certificate\n");
    box_write(&files, "allowed/key", "no certificate either\n");
    cr_assert_eq(sonar_keyring_add(&ring, box_path(&files, "allowed"), &err), SONAR_OK, "%s",
                 err.text);
    cr_assert_eq(sonar_keyring_add(&ring, box_path(&files, "allowed/3.key"), &err), SONAR_OK);
    cr_assert_eq(sonar_keyring_add(&less, box_path(&files, "allowed/3.key"), &err), SONAR_OK);
    cr_expect_eq(ring.count, KEYS);
    for (int i = 0; i < KEYS; i++)
        cr_expect(has(&ring, public_key[i]));
    cr_expect_not(has(&ring, other));
    cr_expect(sonar_keyring_within(&less, &ring));
    cr_expect_not(sonar_keyring_within(&ring, &less));
    cr_assert(sonar_keyring_copy(&ring, &copy));
    cr_expect(sonar_keyring_within(&ring, &copy));
    sonar_keyring_clear(&copy);
    sonar_keyring_clear(&less);
    sonar_keyring_clear(&ring);
}

Test(key_files, one_bad_one_in_a_folder_is_named) {
    char key[41];
    sonar_keyring ring = {0};
    mkdir(box_path(&files, "allowed"), 0755);
    make_key("allowed/a.key", key);
    box_write(&files, "allowed/b.key", "curve\n    public-key = \"%s\"\n", "short");
    cr_expect_eq(sonar_keyring_add(&ring, box_path(&files, "allowed"), &err), SONAR_EINVAL);
    cr_expect(strstr(err.where, "allowed/b.key:2:19"), "%s", err.where);
    chmod(box_path(&files, "allowed"), 0777);
    cr_expect_eq(sonar_keyring_add(&ring, box_path(&files, "allowed"), &err), SONAR_EINVAL);
    cr_expect(strstr(err.text, "put keys into this folder"), "%s", err.text);
    sonar_keyring_clear(&ring);
}

/* ---- sonar-keys ------------------------------------------------------------------------------ */

/* Runs in the box; the output goes to text[4096]. */
static int keys(const char *arguments, char text[4096]) {
    char command[1024];
    snprintf(command, sizeof command, "cd %s && umask 0 && timeout 20 %s/sonar-keys %s 2>&1",
             files.dir, SONAR_BIN_DIR, arguments);
    FILE *pipe = popen(command, "r");
    cr_assert(pipe);
    text[fread(text, 1, 4095, pipe)] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static sonar_certificate certificate(const char *name, sonar_certificate_use use) {
    sonar_certificate c;
    cr_assert_eq(sonar_certificate_read(box_path(&files, name), use, &c, &err), SONAR_OK, "%s: %s",
                 err.where, err.text);
    return c;
}

static mode_t mode_of(const char *name) {
    struct stat about;
    cr_assert_eq(stat(box_path(&files, name), &about), 0, "%s", name);
    return about.st_mode & 07777;
}

Test(key_files, the_tool_makes_pairs_that_fit) {
    char text[4096];
    cr_assert_eq(keys("server node", text), 0, "%s", text);
    sonar_certificate node = certificate("node.key", SONAR_TO_ALLOW);
    cr_expect_str_eq(certificate("node.key_secret", SONAR_TO_OWN).public_key, node.public_key);
    cr_expect(strstr(text, node.public_key), "%s", text);
    cr_assert_eq(keys("client digitiser display --server node.key", text), 0, "%s", text);
    sonar_certificate digitiser = certificate("digitiser.key_secret", SONAR_TO_OWN);
    cr_expect_str_eq(digitiser.server_key, node.public_key);
    cr_expect_str_eq(certificate("digitiser.key", SONAR_TO_ALLOW).public_key, digitiser.public_key);
    cr_expect_str_neq(certificate("display.key", SONAR_TO_ALLOW).public_key, digitiser.public_key);
    cr_expect_eq(mode_of("node.key_secret"), 0600);
    cr_expect_eq(mode_of("node.key"), 0644);
    cr_assert_eq(keys("show display.key node.key_secret", text), 0, "%s", text);
    cr_expect(strstr(text, node.public_key), "%s", text);
    cr_expect_eq(strstr(text, certificate("node.key_secret", SONAR_TO_OWN).secret_key), NULL);
}

Test(key_files, the_tool_replaces_nothing) {
    char text[4096];
    cr_assert_eq(keys("server node", text), 0, "%s", text);
    char *secret = box_read(&files, "node.key_secret"), *open = box_read(&files, "node.key");
    cr_expect_eq(keys("server node", text), 1, "%s", text);
    cr_expect(strstr(text, "node.key_secret: is there already"), "%s", text);
    unlink(box_path(&files, "node.key_secret"));
    cr_expect_eq(keys("server node", text), 1, "%s", text);
    cr_expect(strstr(text, "node.key: is there already"), "%s", text);
    cr_expect_eq(access(box_path(&files, "node.key_secret"), F_OK), -1, "half a pair is left");
    char *open_still = box_read(&files, "node.key");
    cr_expect_str_eq(open, open_still);
    cr_expect(strstr(secret, "secret-key"));
    cr_assert_eq(symlink("elsewhere", box_path(&files, "link.key_secret")), 0);
    cr_expect_eq(keys("server link", text), 1, "%s", text);
    cr_expect_eq(access(box_path(&files, "elsewhere"), F_OK), -1);
    free(secret);
    free(open);
    free(open_still);
}

Test(key_files, the_tool_names_what_it_cannot_read) {
    char text[4096];
    cr_expect_eq(keys("client a --server none.key", text), 1);
    cr_expect(strstr(text, "none.key: cannot be read: No such file"), "%s", text);
    cr_assert_eq(keys("server node", text), 0, "%s", text);
    cr_expect_eq(keys("client a --server node.key_secret", text), 1);
    cr_expect(strstr(text, "holds a secret key"), "%s", text);
    cr_expect_eq(keys("server no/such/folder", text), 1);
    cr_expect(strstr(text, "no/such/folder.key_secret: No such file"), "%s", text);
}
