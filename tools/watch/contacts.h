/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tracks handed to other programs as they come: lines for Debrief (debrief.h) and sentences for
 * displays (ttm.h). One thread. */
#ifndef WATCH_CONTACTS_H
#define WATCH_CONTACTS_H

#include "ttm.h"

typedef struct watch_contacts watch_contacts;

typedef struct watch_contacts_spec {
    const char *rep;    /* the file, which is appended to; NULL: none */
    watch_ttm_spec ttm; /* its address NULL: none */
} watch_contacts_spec;

/* SONAR_EINVAL: the file cannot be written, or the address; SONAR_ESYS, SONAR_ENOMEM. */
sonar_code watch_contacts_open(const watch_contacts_spec *spec, watch_contacts **made,
                               sonar_error *err);
/* Any header is safe; topics other than `tracks` and `detections` are ignored. The lines of a
 * window are in the file on return. SONAR_ESYS: they cannot be written; SONAR_ENOMEM. */
sonar_code watch_contacts_take(watch_contacts *contacts, const char *topic, const char *header,
                               size_t bytes, sonar_error *err);
sonar_code watch_contacts_close(watch_contacts *contacts, sonar_error *err); /* or NULL */

#endif
