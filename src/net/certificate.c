/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "net/certificate.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"

enum { CERTIFICATE_BYTES_MOST = 16384 };

/* ---- text ------------------------------------------------------------------------------------ */

typedef struct reader {
    const char *name;
    const char *line, *at, *end; /* of the line in hand */
    size_t number;
    bool in_curve, in_section;
    sonar_certificate *to;
    sonar_error *err;
} reader;

static sonar_code reject(const reader *r, const char *sentence) {
    char where[sizeof r->err->where];
    snprintf(where, sizeof where, "%.120s:%zu:%td", r->name, r->number, r->at - r->line + 1);
    return sonar_fail(r->err, SONAR_EINVAL, where, "%s", sentence);
}

static void skip_blanks(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t'))
        r->at++;
}

static bool at_end(const reader *r) {
    return r->at == r->end || *r->at == '#';
}

static bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("$-_@.&+/", c));
}

/* Number of the word's bytes, 0 if there is no word. */
static size_t take_word(reader *r, const char **word) {
    *word = r->at;
    while (r->at < r->end && is_name_character(*r->at))
        r->at++;
    return (size_t)(r->at - *word);
}

static bool is_word(const char *word, size_t bytes, const char *wanted) {
    return strlen(wanted) == bytes && !memcmp(word, wanted, bytes);
}

/* Z85 of 32 bytes: all characters of its alphabet, and no group beyond 2^32. */
static bool is_key(const char *text) {
    uint8_t key[SONAR_KEY_BYTES];
    bool good = zmq_z85_decode(key, text) != NULL;
    sodium_memzero(key, sizeof key);
    return good;
}

/* A value in quotes, nothing but a comment behind it. The quotes' character is of the file's
 * choice; Z85 has neither. */
static sonar_code take_key(reader *r, char key[SONAR_KEY_CHARS + 1]) {
    char quote = r->at < r->end ? *r->at : '\0';
    if (quote != '"' && quote != '\'')
        return reject(r, "a key in quotes is wanted here");
    const char *text = ++r->at;
    const char *close = memchr(text, quote, (size_t)(r->end - text));
    if (*key)
        return reject(r, "this key is there twice");
    if (!close || close - text != SONAR_KEY_CHARS)
        return reject(r, "a key has 40 characters, then the quote again");
    memcpy(key, text, SONAR_KEY_CHARS);
    key[SONAR_KEY_CHARS] = '\0';
    if (!is_key(key))
        return reject(r, "these 40 characters are no key: they are not Z85 "
                         "(rfc.zeromq.org/spec/32)");
    r->at = close + 1;
    skip_blanks(r);
    return at_end(r) ? SONAR_OK : reject(r, "nothing is wanted after a key");
}

static sonar_code take_property(reader *r) {
    const char *word;
    if (!r->in_section)
        return reject(r, "a section, curve or metadata, is wanted before this");
    size_t bytes = take_word(r, &word);
    skip_blanks(r);
    if (!bytes || r->at == r->end || *r->at != '=')
        return reject(r, "a line such as public-key = \"...\" is wanted");
    r->at++;
    skip_blanks(r);
    if (!r->in_curve)
        return SONAR_OK;
    if (is_word(word, bytes, "public-key"))
        return take_key(r, r->to->public_key);
    if (is_word(word, bytes, "secret-key"))
        return take_key(r, r->to->secret_key);
    if (is_word(word, bytes, "server-key"))
        return take_key(r, r->to->server_key);
    r->at = word;
    return reject(r, "the section curve holds public-key, secret-key and server-key only");
}

static sonar_code take_section(reader *r) {
    const char *word;
    size_t bytes = take_word(r, &word);
    r->in_curve = is_word(word, bytes, "curve");
    r->in_section = r->in_curve || is_word(word, bytes, "metadata");
    skip_blanks(r);
    if (r->in_section && at_end(r))
        return SONAR_OK;
    r->at = r->in_section ? r->at : word;
    return reject(r, "a section, curve or metadata, or a property of one, indented, is wanted");
}

static sonar_code take_line(reader *r) {
    for (r->at = r->line; r->at < r->end; r->at++)
        if ((unsigned char)*r->at < ' ' && *r->at != '\t')
            return reject(r, "a control character: this is no text");
    r->at = r->line;
    skip_blanks(r);
    if (at_end(r))
        return SONAR_OK;
    return r->at == r->line ? take_section(r) : take_property(r);
}

/* ---- what it is for -------------------------------------------------------------------------- */

static bool belong_together(const sonar_certificate *certificate) {
    char public_key[SONAR_KEY_CHARS + 1];
    return zmq_curve_public(public_key, certificate->secret_key) == 0 &&
           !strcmp(public_key, certificate->public_key);
}

static sonar_code check_use(const char *name, const sonar_certificate *c, sonar_certificate_use use,
                            sonar_error *err) {
    if (!*c->public_key)
        return sonar_fail(err, SONAR_EINVAL, name, "no public-key in a section curve");
    if (use == SONAR_TO_ALLOW && *c->secret_key)
        return sonar_fail(err, SONAR_EINVAL, name,
                          "holds a secret key, which its owner alone may have: a public "
                          "certificate, NAME.key, is wanted");
    if (use != SONAR_TO_ALLOW && !*c->secret_key)
        return sonar_fail(err, SONAR_EINVAL, name,
                          "holds no secret key: a secret certificate, NAME.key_secret, is wanted");
    if (use != SONAR_TO_ALLOW && !belong_together(c))
        return sonar_fail(err, SONAR_EINVAL, name, "its public key is not that of its secret key");
    return SONAR_OK;
}

sonar_code sonar_certificate_parse(const char *name, const char *text, size_t bytes,
                                   sonar_certificate_use use, sonar_certificate *certificate,
                                   sonar_error *err) {
    reader r = {.name = name, .to = certificate, .err = err};
    sonar_code code = SONAR_OK;
    *certificate = (sonar_certificate){0};
    for (const char *line = text, *end = text + bytes; line < end && !code;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        r.line = line;
        r.end = stop ? stop : end;
        line = stop ? stop + 1 : end;
        if (r.end > r.line && r.end[-1] == '\r')
            r.end--;
        r.number++;
        code = take_line(&r);
    }
    if (!code)
        code = check_use(name, certificate, use, err);
    if (code)
        sonar_certificate_clear(certificate);
    return code;
}

static bool write_text(FILE *file, const sonar_certificate *c, bool secret) {
    fprintf(file,
            "#   ZeroMQ CURVE %s certificate, made by sonard's tools\n"
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
sonar_code sonar_certificate_write(const char *path, const sonar_certificate *c, bool secret,
                                   sonar_error *err) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return sonar_fail(err, SONAR_ESYS, path, "%s",
                          errno == EEXIST ? "is there already, and is left as it is"
                                          : strerror(errno));
    FILE *file = fchmod(fd, secret ? 0600 : 0644) == 0 ? fdopen(fd, "w") : NULL;
    const bool good = file && write_text(file, c, secret) && fflush(file) == 0 && fsync(fd) == 0;
    const int why = errno;
    if (file)
        fclose(file);
    else
        close(fd);
    if (good)
        return SONAR_OK;
    unlink(path);
    return sonar_fail(err, SONAR_ESYS, path, "%s", strerror(why));
}

void sonar_certificate_clear(sonar_certificate *certificate) {
    sodium_memzero(certificate, sizeof *certificate);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* A service manager's credentials belong to root and are lent by an access list, which shows as the
 * group's right to read. */
static sonar_code check_rights(const char *path, const struct stat *about,
                               sonar_certificate_use use, sonar_error *err) {
    const mode_t closed[] = {
        [SONAR_TO_OWN] = S_IRWXG | S_IRWXO, [SONAR_LENT_TO_OWN] = S_IWGRP | S_IXGRP | S_IRWXO};
    if (about->st_uid != 0 && about->st_uid != geteuid())
        return sonar_fail(err, SONAR_EINVAL, path,
                          "belongs to user %u, who could change it: chown it to root or to the "
                          "user that reads it (%u)",
                          (unsigned)about->st_uid, (unsigned)geteuid());
    if (about->st_mode & S_IWOTH)
        return sonar_fail(err, SONAR_EINVAL, path, "everybody may change it: chmod o-w");
    if (use != SONAR_TO_ALLOW && about->st_mode & closed[use])
        return sonar_fail(err, SONAR_EINVAL, path,
                          "others may read or change this secret key (mode %04o): chmod 0600",
                          (unsigned)about->st_mode & 07777);
    return SONAR_OK;
}

static sonar_code check_file(int fd, const char *path, sonar_certificate_use use,
                             sonar_error *err) {
    struct stat about;
    if (fstat(fd, &about) != 0)
        return sonar_fail(err, SONAR_EUNAVAILABLE, path, "%s", strerror(errno));
    if (!S_ISREG(about.st_mode))
        return sonar_fail(err, SONAR_EINVAL, path, "is no regular file");
    if (about.st_size > CERTIFICATE_BYTES_MOST)
        return sonar_fail(err, SONAR_EINVAL, path, "is too large for a certificate");
    return check_rights(path, &about, use, err);
}

static ssize_t read_whole(int fd, char *text, size_t room) {
    size_t bytes = 0;
    for (ssize_t got; bytes < room; bytes += (size_t)got) {
        got = read(fd, text + bytes, room - bytes);
        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            return -1;
        got = got < 0 ? 0 : got;
    }
    return (ssize_t)bytes;
}

/* Without waiting, for the path may be a pipe. */
sonar_code sonar_certificate_read(const char *path, sonar_certificate_use use,
                                  sonar_certificate *certificate, sonar_error *err) {
    char text[CERTIFICATE_BYTES_MOST];
    *certificate = (sonar_certificate){0};
    const int links = use == SONAR_TO_OWN ? O_NOFOLLOW : 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | links);
    if (fd < 0 && links && errno == ELOOP)
        return sonar_fail(err, SONAR_EINVAL, path,
                          "is a link, which others may turn elsewhere: name the secret key's file");
    if (fd < 0)
        return sonar_fail(err, SONAR_EUNAVAILABLE, path, "cannot be read: %s", strerror(errno));
    sonar_code code = check_file(fd, path, use, err);
    ssize_t bytes = code ? 0 : read_whole(fd, text, sizeof text);
    if (bytes < 0)
        code = sonar_fail(err, SONAR_EUNAVAILABLE, path, "cannot be read: %s", strerror(errno));
    close(fd);
    if (!code)
        code = sonar_certificate_parse(path, text, (size_t)bytes, use, certificate, err);
    sodium_memzero(text, sizeof text);
    return code;
}
