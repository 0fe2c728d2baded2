/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The record of the peaks of each bin by its definition, in double precision, without running sums.
 */
#ifndef TEST_SPED_ORACLE_H
#define TEST_SPED_ORACLE_H

#include "analysis/sped/sped.h"

void sped_oracle(const sonar_sped_spec *spec, const float *power, double *record);

#endif
