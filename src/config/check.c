/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rules that need the resolved configuration: mostly warnings. */
#include "config/options.h"

#include <math.h>

void sonar_check_resolved(sonar_loader *loader) {
    (void)loader;
}
