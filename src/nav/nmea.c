/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "nav/nmea.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nav/internal.h"

enum { FIELDS_MOST = 32 };
static const double KNOT_MPS = 1852.0 / 3600;

/* The sentence cut at its commas; field[0] is talker and type. */
typedef struct fields {
    char text[SONAR_NMEA_BYTES_MOST + 1];
    const char *field[FIELDS_MOST];
    size_t count;
} fields;

/* ---- characters ------------------------------------------------------------------------------ */

static int hex(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* Any byte, then ...*hh: the exclusive-or of all bytes between. */
static sonar_nmea check(const char *s, size_t bytes) {
    if (bytes < 4)
        return SONAR_NMEA_MALFORMED;
    for (size_t i = 0; i < bytes; i++)
        if (s[i] < ' ' || s[i] > '~')
            return SONAR_NMEA_MALFORMED;
    if (s[bytes - 3] != '*' || hex(s[bytes - 2]) < 0 || hex(s[bytes - 1]) < 0)
        return SONAR_NMEA_CHECKSUM;
    int sum = 0;
    for (size_t i = 1; i < bytes - 3; i++)
        sum ^= s[i];
    return sum == hex(s[bytes - 2]) * 16 + hex(s[bytes - 1]) ? SONAR_NMEA_TAKEN
                                                             : SONAR_NMEA_CHECKSUM;
}

/* Steps over the TAG blocks before a sentence, \...*hh\ each (NMEA 0183 from 4.0 on, IEC
 * 61162-450). */
static sonar_nmea skip_tags(const char **s, size_t *bytes) {
    while (*bytes && **s == '\\') {
        const char *end = memchr(*s + 1, '\\', *bytes - 1);
        const size_t length = end ? (size_t)(end - *s) : 0;
        const sonar_nmea good = check(*s, length);
        if (good != SONAR_NMEA_TAKEN)
            return good;
        *s += length + 1;
        *bytes -= length + 1;
    }
    return SONAR_NMEA_TAKEN;
}

/* $...*hh, and !...*hh of sentences with other contents, which are not read. */
static sonar_nmea check_sentence(const char *s, size_t bytes) {
    if (bytes < 9 || bytes > SONAR_NMEA_BYTES_MOST || (s[0] != '$' && s[0] != '!'))
        return SONAR_NMEA_MALFORMED;
    const sonar_nmea good = check(s, bytes);
    return good == SONAR_NMEA_TAKEN && s[0] == '!' ? SONAR_NMEA_OTHER : good;
}

static bool split(const char *s, size_t bytes, fields *f) {
    memcpy(f->text, s + 1, bytes - 4);
    f->text[bytes - 4] = '\0';
    f->count = 0;
    for (char *at = f->text; at; f->count++) {
        if (f->count == FIELDS_MOST)
            return false;
        f->field[f->count] = at;
        at = strchr(at, ',');
        if (at)
            *at++ = '\0';
    }
    return true;
}

static const char *field(const fields *f, size_t i) {
    return i < f->count ? f->field[i] : "";
}

/* A plain decimal number from low to high. */
static bool number(const fields *f, size_t i, double low, double high, double *to) {
    const char *text = field(f, i);
    char *end;
    if (!*text || strspn(text, "+-.0123456789") != strlen(text))
        return false;
    *to = strtod(text, &end);
    return !*end && *to >= low && *to <= high;
}

static bool is(const fields *f, size_t i, char letter) {
    const char *text = field(f, i);
    return strlen(text) == 1 && *text == letter;
}

/* ---- sentences ------------------------------------------------------------------------------- */

static bool put(sonar_nav_values *to, sonar_nav_quantity quantity, double value) {
    to->known |= 1u << quantity;
    to->value[quantity] = value;
    return true;
}

/* Two fields, the second E or W (N or S): east and north are positive. */
static bool signed_pair(const fields *f, size_t i, double most, char plus, char minus, double *to) {
    if (!number(f, i, 0, most, to) || (!is(f, i + 1, plus) && !is(f, i + 1, minus)))
        return false;
    *to = is(f, i + 1, minus) ? -*to : *to;
    return true;
}

/* ddmm.mmm, N or S; dddmm.mmm, E or W. */
static bool position(const fields *f, size_t i, sonar_nav_values *to) {
    double latitude, longitude;
    if (!signed_pair(f, i, 9000, 'N', 'S', &latitude) ||
        !signed_pair(f, i + 2, 18000, 'E', 'W', &longitude) || fmod(fabs(latitude), 100) >= 60 ||
        fmod(fabs(longitude), 100) >= 60)
        return false;
    put(to, SONAR_NAV_LATITUDE, trunc(latitude / 100) + fmod(latitude, 100) / 60);
    return put(to, SONAR_NAV_LONGITUDE, trunc(longitude / 100) + fmod(longitude, 100) / 60);
}

/* HDT,x.x,T */
static bool read_hdt(const fields *f, double *variation_deg, sonar_nav_values *to) {
    double heading;
    (void)variation_deg;
    return number(f, 1, 0, 360, &heading) && is(f, 2, 'T') &&
           put(to, SONAR_NAV_HEADING, sonar_modulo_turn(heading));
}

/* THS,x.x,mode: A is autonomous, E estimated; M, S and V are not measurements. */
static bool read_ths(const fields *f, double *variation_deg, sonar_nav_values *to) {
    double heading;
    (void)variation_deg;
    return number(f, 1, 0, 360, &heading) && (is(f, 2, 'A') || is(f, 2, 'E')) &&
           put(to, SONAR_NAV_HEADING, sonar_modulo_turn(heading));
}

/* HDG,sensor,deviation,E/W,variation,E/W: a compass's heading. */
static bool read_hdg(const fields *f, double *variation_deg, sonar_nav_values *to) {
    double compass, deviation = 0, variation;
    if (!number(f, 1, 0, 360, &compass))
        return false;
    if (*field(f, 2) && !signed_pair(f, 2, 180, 'E', 'W', &deviation))
        return false;
    if (signed_pair(f, 4, 180, 'E', 'W', &variation))
        *variation_deg = variation;
    return isfinite(*variation_deg) &&
           put(to, SONAR_NAV_MAGNETIC, sonar_modulo_turn(compass + deviation + *variation_deg));
}

/* RMC,time,A,lat,N,lon,E,knots,course,date,variation,E,mode: V is a warning. */
static bool read_rmc(const fields *f, double *variation_deg, sonar_nav_values *to) {
    double knots, course, variation;
    if (!is(f, 2, 'A') || is(f, 12, 'N') || is(f, 12, 'S') || !position(f, 3, to))
        return false;
    if (number(f, 7, 0, 1000, &knots))
        put(to, SONAR_NAV_SPEED, knots * KNOT_MPS);
    if (number(f, 8, 0, 360, &course))
        put(to, SONAR_NAV_COURSE, sonar_modulo_turn(course));
    if (signed_pair(f, 10, 180, 'E', 'W', &variation))
        *variation_deg = variation;
    return true;
}

/* VTG,course,T,magnetic,M,knots,N,km/h,K,mode */
static bool read_vtg(const fields *f, double *variation_deg, sonar_nav_values *to) {
    double course, knots;
    (void)variation_deg;
    if (is(f, 9, 'N') || is(f, 9, 'S'))
        return false;
    bool taken = number(f, 1, 0, 360, &course) && is(f, 2, 'T') &&
                 put(to, SONAR_NAV_COURSE, sonar_modulo_turn(course));
    return (number(f, 5, 0, 1000, &knots) && is(f, 6, 'N') &&
            put(to, SONAR_NAV_SPEED, knots * KNOT_MPS)) ||
           taken;
}

/* VHW,heading,T,heading,M,knots,N,km/h,K: through the water. Its headings are those of HDT and HDG
 * again. */
static bool read_vhw(const fields *f, double *variation_deg, sonar_nav_values *to) {
    double knots;
    (void)variation_deg;
    return number(f, 5, 0, 1000, &knots) && is(f, 6, 'N') &&
           put(to, SONAR_NAV_WATER_SPEED, knots * KNOT_MPS);
}

/* GGA,time,lat,N,lon,E,quality: 0 none, 7 by hand, 8 simulated. */
static bool read_gga(const fields *f, double *variation_deg, sonar_nav_values *to) {
    double quality;
    (void)variation_deg;
    return number(f, 6, 1, 6, &quality) && position(f, 2, to);
}

/* XDR,type,value,unit,name and so on: A in degrees is a heading, D in metres a depth, both of a
 * compass in a towed array. */
static bool read_xdr(const fields *f, double *variation_deg, sonar_nav_values *to) {
    (void)variation_deg;
    for (size_t i = 1; i + 3 < f->count && to->readings < SONAR_NAV_READINGS_MOST; i += 4) {
        const bool turns = is(f, i, 'A') && is(f, i + 2, 'D'),
                   deep = is(f, i, 'D') && is(f, i + 2, 'M');
        const sonar_nav_quantity quantity = turns ? SONAR_NAV_HEADING : SONAR_NAV_DEPTH;
        double low, high, value;
        sonar_nav_range(quantity, &low, &high);
        if ((turns || deep) && number(f, i + 1, low, high, &value))
            sonar_nav_put_reading(to, field(f, i + 3), quantity, value);
    }
    return to->readings;
}

static const struct {
    const char *type;
    bool (*read)(const fields *f, double *variation_deg, sonar_nav_values *to);
} sentences[] = {{"HDT", read_hdt}, {"THS", read_ths}, {"HDG", read_hdg}, {"RMC", read_rmc},
                 {"VTG", read_vtg}, {"VHW", read_vhw}, {"GGA", read_gga}, {"XDR", read_xdr}};

sonar_nmea sonar_nmea_read(const char *sentence, size_t bytes, double *variation_deg,
                           sonar_nav_values *to) {
    fields f;
    sonar_nmea good = skip_tags(&sentence, &bytes);
    if (good == SONAR_NMEA_TAKEN)
        good = check_sentence(sentence, bytes);
    if (good != SONAR_NMEA_TAKEN)
        return good;
    if (!split(sentence, bytes, &f))
        return SONAR_NMEA_MALFORMED;
    if (strlen(f.field[0]) != 5) /* $P...: proprietary */
        return SONAR_NMEA_OTHER;
    for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++)
        if (!strcmp(f.field[0] + 2, sentences[i].type))
            return sentences[i].read(&f, variation_deg, to) ? SONAR_NMEA_TAKEN : SONAR_NMEA_OTHER;
    return SONAR_NMEA_OTHER;
}
