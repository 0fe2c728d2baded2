/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "site.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_FAILURES = 20 };

site site_open(const sonar_backend *backend, const sonar_host *host) {
    site site = {.backend = backend, .host = host, .name = "start"};
    sonar_error err = {0};
    site_require(&site, backend->queue_create(backend, &site.queue, &err), &err);
    site_require(&site, backend->event_create(backend, &site.event, &err), &err);
    return site;
}

void site_close(site *site) {
    site->backend->event_destroy(site->event);
    site->backend->queue_destroy(site->queue);
}

bool site_try(site *site, const site_case *what) {
    const size_t checks = site->checks, failures = site->failures;
    site->name = what->name;
    what->run(site);
    return site->checks > checks && site->failures == failures;
}

bool site_expect(site *site, bool good, const char *format, ...) {
    site->checks++;
    if (good || site->failures++ >= SHOWN_FAILURES)
        return good;
    va_list args;
    va_start(args, format);
    printf("FAILED %s: ", site->name);
    vprintf(format, args);
    printf("\n");
    va_end(args);
    fflush(stdout);
    return false;
}

void site_require(const site *site, sonar_code code, const sonar_error *err) {
    if (!code)
        return;
    printf("FAILED %s: %s: %s\n", site->name, err->where, err->text);
    exit(1);
}

/* ---- memory ---------------------------------------------------------------------------------- */

sonar_buffer site_buffer(const site *site, sonar_dtype dtype, int rank, const size_t *shape) {
    sonar_buffer buffer;
    sonar_error err = {0};
    site_require(site,
                 site->backend->buffer_create(site->backend, site->backend->native_space, dtype,
                                              rank, shape, &buffer, &err),
                 &err);
    return buffer;
}

void site_free(const site *site, sonar_buffer *buffer) {
    site->backend->buffer_destroy(buffer);
}

void site_settle(const site *site) {
    sonar_error err = {0};
    site_require(site, site->backend->record(site->queue, site->event, &err), &err);
    site_require(site, site->backend->finish(site->event, &err), &err);
}

static void move(const site *site, const sonar_buffer *from, sonar_buffer *to) {
    sonar_error err = {0};
    site_require(site, site->backend->copy(site->queue, from, to, &err), &err);
    site_settle(site);
}

void site_send(const site *site, const void *from, sonar_buffer *to) {
    sonar_buffer here = *to;
    memcpy(&here.data, &from, sizeof from); /* read only */
    here.space = SONAR_HOST;
    move(site, &here, to);
}

void site_fetch(const site *site, const sonar_buffer *from, void *to) {
    sonar_buffer here = *from;
    here.data = to;
    here.space = SONAR_HOST;
    move(site, from, &here);
}
