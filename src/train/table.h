/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What writing and reading a table share. Inside src/train only. */
#ifndef SONAR_TRAIN_TABLE_H
#define SONAR_TRAIN_TABLE_H

#include "train/train.h"

/* A member of sonar_train_shape by name. */
typedef struct shape_field {
    const char *name;
    size_t offset;
} shape_field;

extern const shape_field sonar_train_shape_fields[SONAR_TRAIN_SHAPE_FIELDS];

static inline size_t *sonar_train_shape_member(sonar_train_shape *shape, size_t field) {
    return (size_t *)(void *)((char *)shape + sonar_train_shape_fields[field].offset);
}

#endif
