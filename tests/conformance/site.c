/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "site.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

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

/* ---- paths ----------------------------------------------------------------------------------- */

static const site_path *path;

void site_take(const site_path *to) {
    path = to;
}

const site_path *site_taken(void) {
    return path;
}

const char *site_choose(void *ctx, const char *decision) {
    (void)ctx;
    for (size_t i = 0; path && i < sizeof path->choice / sizeof *path->choice; i++)
        if (path->choice[i][0] && !strcmp(path->choice[i][0], decision))
            return path->choice[i][1];
    return NULL;
}

/* ---- checks ---------------------------------------------------------------------------------- */

bool site_try(site *site, const site_case *what) {
    const size_t checks = site->checks, failures = site->failures;
    site->name = what->name;
    site->taken = 0;
    what->run(site);
    return site->checks > checks && site->failures == failures;
}

void site_try_all(site *site, const site_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const int64_t start = sonar_monotonic_ns();
        const size_t checks = site->checks;
        const bool good = site_try(site, &cases[i]);
        site_expect(site, site->checks > checks, "no check was made");
        printf("%-10s %-50s %s, %.2f s\n", path ? path->name : "", cases[i].name,
               good ? "passed" : "FAILED", (double)(sonar_monotonic_ns() - start) * 1e-9);
        fflush(stdout);
    }
}

bool site_expect(site *site, bool good, const char *format, ...) {
    site->checks++;
    if (good || site->failures++ >= SHOWN_FAILURES)
        return good;
    va_list args;
    va_start(args, format);
    printf("FAILED %s", site->name);
    printf("%s%s: ", path ? ", path " : "", path ? path->name : "");
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

sonar_buffer site_buffer_in(const site *site, sonar_space space, sonar_dtype dtype, int rank,
                            const size_t *shape) {
    sonar_buffer buffer;
    sonar_error err = {0};
    site_require(
        site, site->backend->buffer_create(site->backend, space, dtype, rank, shape, &buffer, &err),
        &err);
    return buffer;
}

sonar_buffer site_buffer(const site *site, sonar_dtype dtype, int rank, const size_t *shape) {
    return site_buffer_in(site, site->backend->native_space, dtype, rank, shape);
}

bool site_is_device(const site *site) {
    return site->backend->native_space == SONAR_DEVICE;
}

void site_free(const site *site, sonar_buffer *buffer) {
    site->backend->buffer_destroy(buffer);
}

void site_settle(const site *site) {
    sonar_error err = {0};
    site_require(site, site->backend->record(site->queue, site->event, &err), &err);
    site_require(site, site->backend->finish(site->event, &err), &err);
}

void site_copy(const site *site, const sonar_buffer *from, sonar_buffer *to) {
    sonar_error err = {0};
    site_require(site, site->backend->copy(site->queue, from, to, &err), &err);
    site_settle(site);
}

void site_send(const site *site, const void *from, sonar_buffer *to) {
    sonar_buffer here = *to;
    memcpy(&here.data, &from, sizeof from); /* read only */
    here.space = SONAR_HOST;
    site_copy(site, &here, to);
}

void site_fetch(const site *site, const sonar_buffer *from, void *to) {
    sonar_buffer here = *from;
    here.data = to;
    here.space = SONAR_HOST;
    site_copy(site, from, &here);
}
