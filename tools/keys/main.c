/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-keys: makes the certificates of a daemon and of those who send to it and read from it, and
 * shows their public keys. Needs no network, and never replaces a file. Exit codes: 0 done, 1 a
 * file could not be made or read, 2 usage. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "net/certificate.h"
#include "options.h"
#include "program.h"

typedef struct options {
    const char *server;
} options;

static const tool_option option[] = {
    {"server", 's', TOOL_TEXT, offsetof(options, server), 0, 0, NULL, NULL}, {0}};

static const tool self = {
    .name = "sonar-keys",
    .usage = "Usage: sonar-keys server NAME...\n"
             "       sonar-keys client NAME... --server SERVER.key\n"
             "       sonar-keys show FILE...\n"
             "Makes CURVE certificates: NAME.key, which is public, and NAME.key_secret, which its\n"
             "owner alone may read. No file is ever replaced.\n\n"
             "  server  for a sonard, or for a digitiser that sonard connects to\n"
             "  client  for a digitiser, a display or a tool; NAME.key_secret also holds the\n"
             "          server's public key, so it is all that the tools' --key needs\n"
             "  show    print the public keys of certificates\n\n"
             "  -s, --server FILE  the public certificate of the server\n"
             "  -h, --help         this text\n"
             "  -V, --version      the version\n\n"
             "Exit codes: 0 done, 1 a file could not be made or read, 2 wrong usage.\n",
    .option = option};

static int complain(const char *path, const char *what) {
    fprintf(stderr, "sonar-keys: %s: %s\n", path, what);
    return EXIT_FAILURE;
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool write_certificate(FILE *file, const sonar_certificate *c, bool secret) {
    fprintf(file,
            "#   ZeroMQ CURVE %s certificate, made by sonar-keys\n"
            "#   %s\n\n"
            "metadata\n"
            "curve\n"
            "    public-key = \"%s\"\n",
            secret ? "secret" : "public",
            secret
                ? "Whoever has this file is its owner: never send it over a network in the clear."
                : "Goes to those who are to recognise its owner.",
            c->public_key);
    if (secret)
        fprintf(file, "    secret-key = \"%s\"\n", c->secret_key);
    if (secret && *c->server_key)
        fprintf(file, "    server-key = \"%s\"\n", c->server_key);
    return !ferror(file);
}

/* On the disk, or not there at all. The mode is set before there is a key in it, whatever the umask
 * is. */
static int make_file(const char *path, const sonar_certificate *c, bool secret) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return complain(path, errno == EEXIST ? "is there already, and is left as it is"
                                              : strerror(errno));
    FILE *file = fchmod(fd, secret ? 0600 : 0644) == 0 ? fdopen(fd, "w") : NULL;
    bool good = file && write_certificate(file, c, secret) && fflush(file) == 0 && fsync(fd) == 0;
    int code = good ? EXIT_SUCCESS : complain(path, strerror(errno));
    if (file)
        fclose(file);
    else
        close(fd);
    if (code)
        unlink(path);
    return code;
}

static bool names(const char *name, char *paths[2]) {
    paths[0] = paths[1] = NULL;
    return asprintf(&paths[0], "%s.key_secret", name) >= 0 &&
           asprintf(&paths[1], "%s.key", name) >= 0;
}

/* The secret one first: it is what must not be there twice. */
static int make_pair(const char *name, const sonar_certificate *c) {
    char *path[2];
    if (!names(name, path))
        return complain(name, "no memory");
    int code = make_file(path[0], c, true);
    if (!code) {
        code = make_file(path[1], c, false);
        if (code)
            unlink(path[0]);
    }
    if (!code)
        printf("%s  %s and %s\n", c->public_key, path[1], path[0]);
    free(path[0]);
    free(path[1]);
    return code;
}

static int make(char **name, const char *server_key) {
    int code = EXIT_SUCCESS;
    for (; *name && !code; name++) {
        sonar_certificate c = {0};
        if (zmq_curve_keypair(c.public_key, c.secret_key) != 0)
            return complain(*name, "this libzmq makes no keys: it was built without CURVE");
        snprintf(c.server_key, sizeof c.server_key, "%s", server_key);
        code = make_pair(*name, &c);
        sonar_certificate_clear(&c);
    }
    return code;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int make_clients(char **name, const char *server) {
    sonar_certificate c;
    sonar_error err;
    if (sonar_certificate_read(server, SONAR_TO_ALLOW, &c, &err))
        return complain(err.where, err.text);
    return make(name, c.public_key);
}

/* A secret certificate is read as its owner would have it. */
static int show(char **path) {
    int code = EXIT_SUCCESS;
    for (; *path; path++) {
        sonar_certificate c;
        sonar_error err;
        bool secret = strlen(*path) > 7 && !strcmp(*path + strlen(*path) - 7, "_secret");
        if (sonar_certificate_read(*path, secret ? SONAR_TO_OWN : SONAR_TO_ALLOW, &c, &err))
            code = complain(err.where, err.text);
        else
            printf("%s  %s\n", c.public_key, *path);
        sonar_certificate_clear(&c);
    }
    return code;
}

/* ---- main ------------------------------------------------------------------------------------ */

static int run(const char *what, char **names_, const options *o) {
    bool client = !strcmp(what, "client");
    if (!client && strcmp(what, "server") != 0 && strcmp(what, "show") != 0)
        return tool_wrong_usage(&self, "'%s' is none of server, client and show", what);
    if (!*names_)
        return tool_wrong_usage(&self, "%s: no %s given", what, client ? "NAME" : "name");
    if (client != (o->server != NULL))
        return tool_wrong_usage(&self, client ? "client: --server SERVER.key is missing"
                                              : "--server belongs to client");
    if (client)
        return make_clients(names_, o->server);
    return !strcmp(what, "server") ? make(names_, "") : show(names_);
}

int main(int argc, char **argv) {
    program_begin("sonar-keys");
    options o = {0};
    int code = tool_read_options(&self, argc, argv, &o);
    if (code >= 0)
        return code;
    if (optind == argc)
        return tool_wrong_usage(&self, "none of server, client and show is given");
    if (sodium_init() < 0)
        return complain("libsodium", "cannot be initialised");
    return run(argv[optind], argv + optind + 1, &o);
}
