/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * CURVE certificates, as sonar-keys, czmq and pyzmq write them: text in ZPL
 * (rfc.zeromq.org/spec/4), with the section `curve` and in it public-key, secret-key and
 * server-key, each 40 characters of Z85 in quotes. NAME.key is a public certificate,
 * NAME.key_secret one with the secret key; a client's may name the public key of the server that it
 * connects to. Any thread.
 */
#ifndef SONAR_NET_CERTIFICATE_H
#define SONAR_NET_CERTIFICATE_H

#include "sonar/sonar.h"

enum { SONAR_KEY_CHARS = 40, SONAR_KEY_BYTES = 32 };

typedef struct sonar_certificate {
    char public_key[SONAR_KEY_CHARS + 1];                                  /* Z85 */
    char secret_key[SONAR_KEY_CHARS + 1], server_key[SONAR_KEY_CHARS + 1]; /* or "" */
} sonar_certificate;

/* What a certificate is wanted for. */
typedef enum sonar_certificate_use {
    SONAR_TO_ALLOW = 0, /* a peer's: has a public key and must not have a secret one */
    SONAR_TO_OWN,       /* has both, which must belong together */
    SONAR_LENT_TO_OWN   /* the same as a service manager's credential */
} sonar_certificate_use;

/* SONAR_EINVAL with `name`:line:column where the text is no such certificate. */
sonar_code sonar_certificate_parse(const char *name, const char *text, size_t bytes,
                                   sonar_certificate_use use, sonar_certificate *certificate,
                                   sonar_error *err);
/* Of a regular file. It must belong to root or to this process's user and not be writable for
 * others. One to own must be no link, nor readable for the group or others; a lent one may be
 * readable for the group, as which an access list shows. SONAR_EUNAVAILABLE with the path in
 * `where` if it cannot be read, SONAR_EINVAL if it may not or is none. */
sonar_code sonar_certificate_read(const char *path, sonar_certificate_use use,
                                  sonar_certificate *certificate, sonar_error *err);
/* Makes a file that was not there, or leaves nothing: with the secret key and, if there is one, the
 * server's, and mode 0600, or without them and 0644. SONAR_ESYS with the path in `where`. */
sonar_code sonar_certificate_write(const char *path, const sonar_certificate *certificate,
                                   bool secret, sonar_error *err);
/* Overwrites the keys. */
void sonar_certificate_clear(sonar_certificate *certificate);

/* ---- lists of public keys -------------------------------------------------------------------- */

enum { SONAR_KEYS_MOST = 4096 };

/* Public keys, ascending. Empty when zeroed. */
typedef struct sonar_keyring {
    size_t count;
    uint8_t (*key)[SONAR_KEY_BYTES];
} sonar_keyring;

/* Adds the public certificate at `path` or, where that is a folder, all files of it whose names end
 * in .key. Errors as of sonar_certificate_read; the ring then has what came before. A key that is
 * there already is not added again. */
sonar_code sonar_keyring_add(sonar_keyring *ring, const char *path, sonar_error *err);
bool sonar_keyring_has(const sonar_keyring *ring, const uint8_t key[SONAR_KEY_BYTES]);
/* Is every key of `a` in `b`? */
bool sonar_keyring_within(const sonar_keyring *a, const sonar_keyring *b);
/* False: no memory, and *to is empty. */
bool sonar_keyring_copy(const sonar_keyring *from, sonar_keyring *to);
void sonar_keyring_clear(sonar_keyring *ring);

#endif
