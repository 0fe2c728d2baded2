/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-keys: creates the certificates of a daemon, of its digitisers and of its readers, and
 * prints public keys. Needs no network, and never replaces a file. Exit codes: 0 done, 1 a file
 * could not be made or read, 2 usage. */
#include <getopt.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
             "owner may read. No file is ever replaced.\n\n"
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

static bool names(const char *name, char *paths[2]) {
    paths[0] = paths[1] = NULL;
    return asprintf(&paths[0], "%s.key_secret", name) >= 0 &&
           asprintf(&paths[1], "%s.key", name) >= 0;
}

/* The secret file first, because that one must not be overwritten. */
static int make_pair(const char *name, const sonar_certificate *c) {
    char *path[2];
    if (!names(name, path))
        return complain(name, "no memory");
    sonar_error err;
    sonar_code code = sonar_certificate_write(path[0], c, true, &err);
    if (!code) {
        code = sonar_certificate_write(path[1], c, false, &err);
        if (code)
            unlink(path[0]);
    }
    if (code)
        complain(err.where, err.text);
    else
        printf("%s  %s and %s\n", c->public_key, path[1], path[0]);
    free(path[0]);
    free(path[1]);
    return code ? EXIT_FAILURE : EXIT_SUCCESS;
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

/* A secret certificate is read with the permissions that its owner needs. */
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
        return tool_wrong_usage(&self, "'%s' is not server, client or show", what);
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
        return tool_wrong_usage(&self, "expected server, client or show");
    if (sodium_init() < 0)
        return complain("libsodium", "cannot be initialised");
    return run(argv[optind], argv + optind + 1, &o);
}
