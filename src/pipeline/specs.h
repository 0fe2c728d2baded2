/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a configuration makes of the stages. */
#ifndef SONAR_PIPELINE_SPECS_H
#define SONAR_PIPELINE_SPECS_H

#include "config/config.h"
#include "core/specs.h"
#include "train/train.h"

/* The DFTs' planning is left to whoever makes them. */
void sonar_specs_make(const sonar_config *config, sonar_specs *specs);
/* The counts that times depend on. */
sonar_train_shape sonar_specs_shape(const sonar_config *config, const sonar_specs *specs);

#endif
