/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Access: rules between endpoints and keys, and reading the keys if asked to. */
#include "config/access.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"
#include "net/net.h"

static const sonar_option_id allow[SONAR_DOMAINS] = {
    [SONAR_SENDERS] = OPT_ALLOW_SENDERS, [SONAR_READERS] = OPT_ALLOW_READERS};

/* ---- rules ----------------------------------------------------------------------------------- */

static void refuse_open(sonar_loader *l, sonar_option_id id, size_t i, const char *endpoint) {
    sonar_report_add(
        l->report, SONAR_MISTAKE, l->text, sonar_place_of_entry(l, id, i),
        "tcp://127.0.0.1:PORT, tcp://[::1]:PORT, tcp://localhost:PORT or ipc://PATH, or any "
        "tcp://ADDRESS:PORT with security.key",
        "%s: refused: anyone who reaches %s could %s. Make keys with sonar-keys and set "
        "security.key "
        "and security.%s (docs/lan.md)",
        sonar_options[id].path, endpoint,
        id == OPT_OUTPUT_ENDPOINT ? "read all results" : "send samples",
        id == OPT_OUTPUT_ENDPOINT ? "allow_readers" : "allow_senders");
}

/* Checks one endpoint of the daemon; sets *tcp if it is a TCP endpoint. */
static void check_endpoint(sonar_loader *l, sonar_option_id id, size_t i, const char *endpoint,
                           bool *tcp) {
    if (!sonar_endpoint_is_tcp(endpoint))
        return;
    *tcp = true;
    if (!given(l, OPT_SECURITY_KEY) && !sonar_endpoint_is_loopback(endpoint))
        refuse_open(l, id, i, endpoint);
}

static void check_list(sonar_loader *l, sonar_domain domain, bool tcp) {
    const sonar_option_id id = allow[domain];
    if (given(l, id) && !given(l, OPT_SECURITY_KEY))
        fail(l, id, NULL, "has no effect without security.key");
    else if (tcp && !given(l, id) && given(l, OPT_SECURITY_KEY))
        fail(l, id, "a list of public certificates, NAME.key, or of folders of them",
             "required with security.key: no client could connect");
}

/* If the daemon connects, each endpoint has one server with one key. */
static void check_servers(sonar_loader *l) {
    const sonar_value *servers = value(l, OPT_ALLOW_SENDERS);
    const size_t endpoints = l->config->ingest_endpoints;
    if (l->config->ingest_socket == SONAR_SUB && given(l, OPT_ALLOW_SENDERS) && !servers->bad &&
        servers->count != 1 && servers->count != endpoints)
        fail(l, OPT_ALLOW_SENDERS, "one certificate for all endpoints, or one for each",
             "%zu keys for %zu endpoints that the daemon connects to", servers->count, endpoints);
}

static void read_keys(sonar_loader *l);

void sonar_check_security(sonar_loader *l) {
    bool tcp[SONAR_DOMAINS] = {false};
    static const unsigned mode[] = {0600, 0660, 0666};
    sonar_config *c = l->config;
    const sonar_value *in = value(l, OPT_INGEST_ENDPOINTS);
    for (size_t i = 0; have(l, OPT_INGEST_ENDPOINTS) && i < in->count; i++)
        check_endpoint(l, OPT_INGEST_ENDPOINTS, i, in->texts[i], &tcp[SONAR_SENDERS]);
    if (have(l, OPT_OUTPUT_ENDPOINT))
        check_endpoint(l, OPT_OUTPUT_ENDPOINT, 0, value(l, OPT_OUTPUT_ENDPOINT)->text,
                       &tcp[SONAR_READERS]);
    for (int i = 0; i < SONAR_DOMAINS; i++)
        check_list(l, (sonar_domain)i, tcp[i]);
    check_servers(l);
    c->security.curve = have(l, OPT_SECURITY_KEY);
    if (have(l, OPT_IPC_MODE))
        c->security.ipc_mode = mode[whole(l, OPT_IPC_MODE)];
    if (l->with_keys && c->security.curve)
        read_keys(l);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Path of a credential. systemd provides the files of a folder under names with _ instead of /.
 * NULL: no such credential, or no memory. */
static char *credential(const sonar_loader *l, const char *name) {
    char *path;
    if (!l->credentials_dir || asprintf(&path, "%s/%s", l->credentials_dir, name) < 0)
        return NULL;
    for (char *at = path + strlen(l->credentials_dir) + 1; *at; at++)
        *at = *at == '/' ? '_' : *at;
    if (access(path, F_OK) == 0)
        return path;
    free(path);
    return NULL;
}

/* Path of the file that the configuration names; to be freed. */
static char *path_of(sonar_loader *l, const char *name) {
    char *path = *name == '/' ? strdup(name) : credential(l, name);
    if (!path && asprintf(&path, "%s%s%s", l->directory, *l->directory ? "/" : "", name) < 0)
        path = NULL;
    if (!path)
        no_memory(l);
    return path;
}

static void report(sonar_loader *l, sonar_option_id id, size_t i, const sonar_error *err) {
    if (err->code == SONAR_ENOMEM)
        no_memory(l);
    else
        sonar_report_add(l->report, SONAR_MISTAKE, l->text, sonar_place_of_entry(l, id, i), NULL,
                         "%s: %s: %s", sonar_options[id].path, err->where, err->text);
}

/* True if the path is a copy made by the service manager. */
static bool is_lent(const sonar_loader *l, const char *path) {
    const size_t bytes = l->credentials_dir ? strlen(l->credentials_dir) : 0;
    return path && bytes && !strncmp(path, l->credentials_dir, bytes) && path[bytes] == '/';
}

static void read_own(sonar_loader *l) {
    sonar_error err = {0};
    char *path = path_of(l, value(l, OPT_SECURITY_KEY)->text);
    const sonar_certificate_use use = is_lent(l, path) ? SONAR_LENT_TO_OWN : SONAR_TO_OWN;
    if (path && sonar_certificate_read(path, use, &l->config->security.own, &err))
        report(l, OPT_SECURITY_KEY, 0, &err);
    free(path);
}

static void read_allowed(sonar_loader *l, sonar_domain domain) {
    const sonar_value *v = value(l, allow[domain]);
    sonar_keyring *ring = &l->config->security.allowed[domain];
    for (size_t i = 0; i < v->count; i++) {
        sonar_error err = {0};
        char *path = path_of(l, v->texts[i]);
        if (path && sonar_keyring_add(ring, path, &err))
            report(l, allow[domain], i, &err);
        free(path);
    }
    if (!ring->count && !sonar_report_errors(l->report))
        warn(l, allow[domain], NULL, "holds no key yet: no client can connect");
}

static void read_servers(sonar_loader *l) {
    const sonar_value *v = value(l, OPT_ALLOW_SENDERS);
    sonar_security *security = &l->config->security;
    security->server_key = sonar_alloc(v->count, sizeof *security->server_key);
    if (!security->server_key) {
        no_memory(l);
        return;
    }
    for (security->servers = 0; security->servers < v->count; security->servers++) {
        sonar_error err = {0};
        sonar_certificate c = {0};
        char *path = path_of(l, v->texts[security->servers]);
        if (path && sonar_certificate_read(path, SONAR_TO_ALLOW, &c, &err))
            report(l, OPT_ALLOW_SENDERS, security->servers, &err);
        memcpy(security->server_key[security->servers], c.public_key, sizeof c.public_key);
        free(path);
    }
}

static void read_keys(sonar_loader *l) {
    read_own(l);
    if (have(l, OPT_ALLOW_SENDERS) && l->config->ingest_socket == SONAR_SUB)
        read_servers(l);
    else if (have(l, OPT_ALLOW_SENDERS))
        read_allowed(l, SONAR_SENDERS);
    if (have(l, OPT_ALLOW_READERS))
        read_allowed(l, SONAR_READERS);
}
