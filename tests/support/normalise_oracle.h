/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The normalisers by their definitions, in double precision, without extension or running sums. */
#ifndef TEST_NORMALISE_ORACLE_H
#define TEST_NORMALISE_ORACLE_H

#include "analysis/normalise/normalise.h"

enum { NORMALISE_ORACLE_MOST = 400 }; /* directions */

void normalise_oracle(const sonar_normalise_spec *spec, double averages, const float *power,
                      double *ratio);

#endif
