/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What training asks of a configuration. */
#ifndef SONAR_PIPELINE_SPECS_H
#define SONAR_PIPELINE_SPECS_H

#include "config/config.h"
#include "train/train.h"

/* The counts that times depend on. */
sonar_train_shape sonar_specs_shape(const sonar_config *config, const sonar_specs *specs);

#endif
