/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Detections as a table and as JSON, a row each. One thread. */
#ifndef PROCESS_CONTACTS_H
#define PROCESS_CONTACTS_H

#include <cjson/cJSON.h>

#include "sonar/sonar.h"

typedef struct contacts contacts;

/* What all rows of a window have. */
typedef struct contacts_window {
    uint64_t window;
    int64_t utc_ns; /* of its first sample; 0: unknown */
    double time_s;  /* of the same, since the recording's first */
} contacts_window;

/* NAME.csv and NAME.json in the folder. SONAR_EINVAL: one is there already. */
sonar_code contacts_open(const char *folder, contacts **made, sonar_error *err);
/* The list `detections` of a header. SONAR_ESYS. */
sonar_code contacts_add(contacts *contacts, const contacts_window *window, const cJSON *detections,
                        sonar_error *err);
uint64_t contacts_count(const contacts *contacts); /* any thread */
/* Removes both files of that folder; they may still be open. */
void contacts_remove(const char *folder);
/* Puts on the disk what was added. */
void contacts_flush(contacts *contacts);
/* Completes and frees, errors or not. NULL is allowed. */
sonar_code contacts_close(contacts *contacts, sonar_error *err);

#endif
