/* SPDX-License-Identifier: GPL-3.0-or-later */
/* NMEA 0183: sentences of own ship's navigation. The only library for it in Debian is gpsd's, which
 * needs gpsd running. This reader takes eight sentences, and checks them strictly. Any thread. */
#ifndef SONAR_NMEA_H
#define SONAR_NMEA_H

#include "nav/nav.h"

typedef enum sonar_nmea {
    SONAR_NMEA_TAKEN = 0, /* at least one value was read */
    SONAR_NMEA_OTHER,     /* a sentence of another type, or without a valid value */
    SONAR_NMEA_CHECKSUM,  /* no checksum, or a wrong one */
    SONAR_NMEA_MALFORMED
} sonar_nmea;

enum { SONAR_NMEA_BYTES_MOST = 120 }; /* the standard allows 82; proprietary sentences are longer */

/* Reads one sentence, without its line end, with or without TAG blocks before it, of any talker:
 * HDT, THS, HDG, RMC, VTG, VHW, GGA, XDR, and stores its values in `to`. *variation_deg is the
 * magnetic variation, NaN while unknown. RMC and HDG set it; an HDG without a variation uses the
 * last one.
 */
sonar_nmea sonar_nmea_read(const char *sentence, size_t bytes, double *variation_deg,
                           sonar_nav_values *to);

#endif
