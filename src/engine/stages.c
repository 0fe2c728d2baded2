/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The sides of an engine, and the stages on them. */
#include "engine/internal.h"

struct side *sonar_engine_device(sonar_engine *e) {
    struct side *device = &e->side[DEVICE_SIDE];
    return device->backend ? device : NULL;
}

static sonar_code use(const sonar_backend *backend, sonar_error *err) {
    return backend->use ? backend->use(backend, err) : SONAR_OK;
}

static sonar_code open_side(struct side *side, const sonar_backend *backend, bool overlaps,
                            sonar_error *err) {
    side->backend = backend;
    sonar_code code = use(backend, err);
    if (!code)
        code = backend->queue_create(backend, &side->queue, err);
    side->beside = side->queue;
    if (!code && overlaps)
        code = backend->queue_create(backend, &side->beside, err);
    if (!code)
        code = backend->event_create(backend, &side->done, err);
    if (!code)
        code = backend->event_create(backend, &side->beams, err);
    return code ? code : backend->event_create(backend, &side->transferred, err);
}

/* The side of a backend, which is opened on first use. */
static sonar_code find_side(sonar_engine *e, const sonar_backend *backend, struct side **found,
                            sonar_error *err) {
    *found = &e->side[backend->native_space == SONAR_HOST ? HOST_SIDE : DEVICE_SIDE];
    if ((*found)->backend == backend)
        return SONAR_OK;
    if ((*found)->backend)
        return sonar_fail(err, SONAR_EINVAL, "engine", "%s and %s cannot share an engine",
                          (*found)->backend->name, backend->name);
    return open_side(*found, backend, e->overlaps, err);
}

sonar_code sonar_engine_use(sonar_engine *e, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (struct side *side = e->side; side < e->side + SIDES && !code; side++)
        if (side->backend)
            code = use(side->backend, err);
    return code;
}

sonar_code sonar_engine_make_stage(sonar_engine *e, sonar_engine_stage place, const char *name,
                                   const void *spec, struct stage *to, sonar_error *err) {
    const sonar_backend *backend = e->spec.place[place];
    sonar_code code = find_side(e, backend, &to->side, err);
    if (code)
        return code;
    to->ops = backend->stage(name);
    if (!to->ops)
        return sonar_fail(err, SONAR_EUNAVAILABLE, name, "the %s backend has no such stage",
                          backend->name);
    return to->ops->create(spec, e->host, &to->self, err);
}
