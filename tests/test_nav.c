/* SPDX-License-Identifier: GPL-3.0-or-later */
/* NMEA sentences, and the heading at any time from values with times. */
#include <criterion/criterion.h>
#include <arpa/inet.h>
#include <math.h>
#include <pthread.h>
#include <pty.h>
#include <stdatomic.h>
#include <stdio.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "nav/nav.h"
#include "nav/nmea.h"
#include "port.h"

/* Adds the checksum. */
static sonar_nmea read_with(const char *body, double *variation, sonar_nav_values *to) {
    char text[256];
    int sum = 0;
    for (const char *c = body; *c; c++)
        sum ^= *c;
    snprintf(text, sizeof text, "$%s*%02X", body, (unsigned)sum);
    *to = (sonar_nav_values){0};
    return sonar_nmea_read(text, strlen(text), variation, to);
}

static void expect(const char *body, sonar_nav_quantity quantity, double value) {
    double variation = NAN;
    sonar_nav_values v;
    cr_expect_eq(read_with(body, &variation, &v), SONAR_NMEA_TAKEN, "%s", body);
    cr_expect(v.known & 1u << quantity, "%s", body);
    cr_expect_float_eq(v.value[quantity], value, 1e-9, "%s: %.12g", body, v.value[quantity]);
}

/* Sentences as published by manufacturers and the gpsd project. */
Test(nmea, sentences_of_real_instruments) {
    static const char *const whole[] = {
        "$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A",
        "$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47",
        "$GPVTG,054.7,T,034.4,M,005.5,N,010.2,K*48", "$HEHDT,274.07,T*19"};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        double variation = NAN;
        sonar_nav_values v = {0};
        cr_expect_eq(sonar_nmea_read(whole[i], strlen(whole[i]), &variation, &v), SONAR_NMEA_TAKEN,
                     "%s", whole[i]);
    }
}

Test(nmea, values_and_units) {
    const char *rmc = "GPRMC,123519,A,4807.038,N,01131.000,W,022.4,084.4,230394,003.1,W";
    expect("HEHDT,274.07,T", SONAR_NAV_HEADING, 274.07);
    expect("HEHDT,360.0,T", SONAR_NAV_HEADING, 0);
    expect("GPTHS,12.5,A", SONAR_NAV_HEADING, 12.5);
    expect("HCHDG,101.1,1.5,E,7.1,W", SONAR_NAV_MAGNETIC, 95.5);
    expect("HCHDG,1,,,7.5,W", SONAR_NAV_MAGNETIC, 353.5);
    expect(rmc, SONAR_NAV_LATITUDE, 48 + 7.038 / 60);
    expect(rmc, SONAR_NAV_LONGITUDE, -(11 + 31.0 / 60));
    expect(rmc, SONAR_NAV_SPEED, 22.4 * 1852 / 3600);
    expect(rmc, SONAR_NAV_COURSE, 84.4);
    expect("GPVTG,054.7,T,034.4,M,005.5,N,010.2,K,A", SONAR_NAV_SPEED, 5.5 * 1852 / 3600);
    expect("VWVHW,12.0,T,9.0,M,5.50,N,10.19,K", SONAR_NAV_WATER_SPEED, 5.5 * 1852 / 3600);
    expect("VWVHW,,T,,M,0.0,N,0.0,K", SONAR_NAV_WATER_SPEED, 0);
    expect("GNGGA,1,0030.0,S,00000.0,E,4,08,0.9,5,M,4,M,,", SONAR_NAV_LATITUDE, -0.5);
    /* an RMC before it gives a compass its variation */
    double variation = NAN;
    sonar_nav_values v;
    cr_expect_eq(read_with("HCHDG,100,,,,", &variation, &v), SONAR_NMEA_OTHER);
    cr_expect_eq(read_with(rmc, &variation, &v), SONAR_NMEA_TAKEN);
    cr_expect_eq(read_with("HCHDG,100,,,,", &variation, &v), SONAR_NMEA_TAKEN);
    cr_expect_float_eq(v.value[SONAR_NAV_MAGNETIC], 96.9, 1e-9);
}

/* Transducers of other kinds are passed over; other angles are left to who knows the names. */
Test(nmea, compasses_of_a_towed_array) {
    double variation = NAN;
    sonar_nav_values v;
    cr_assert_eq(read_with("YXXDR,P,1.02,B,BARO,A,123.4,D,C2,D,41.5,M,C2,C,9,C,T,A,5.5,D,TILT",
                           &variation, &v),
                 SONAR_NMEA_TAKEN);
    cr_expect_eq(v.known, 0);
    cr_assert_eq(v.readings, 3);
    cr_expect_str_eq(v.reading[0].id, "C2");
    cr_expect(v.reading[0].quantity == SONAR_NAV_HEADING && v.reading[0].value == 123.4);
    cr_expect_str_eq(v.reading[1].id, "C2");
    cr_expect(v.reading[1].quantity == SONAR_NAV_DEPTH && v.reading[1].value == 41.5);
    cr_expect_str_eq(v.reading[2].id, "TILT");
}

Test(nmea, what_is_not_measured_is_not_taken) {
    static const char *const none[] = {"HEHDT,,T",
                                       "HEHDT,274.07",
                                       "HEHDT,274.07,M",
                                       "HEHDT,361,T",
                                       "HEHDT,-1,T",
                                       "HEHDT,1e2,T",
                                       "HEHDT,nan,T",
                                       "HEHDT,0x10,T",
                                       "HEHDT,1.2.3,T",
                                       "HEHDT, 1,T",
                                       "GPTHS,12.5,V",
                                       "GPTHS,12.5",
                                       "HCHDG,101.1,1.5,E,,",
                                       "HCHDG,101.1,1.5,X,7,W",
                                       "GPRMC,1,V,4807.038,N,01131.000,E,22,84,,,",
                                       "GPRMC,1,A,4867.038,N,01131.000,E,22,84,,,",
                                       "GPRMC,1,A,9100.0,N,01131.0,E,22,84,,,",
                                       "GPRMC,1,A,4807.038,N,01131.0,E,22,84,,,,N",
                                       "GPVTG,,T,,M,,N,,K,N",
                                       "GPGGA,1,4807.0,N,01131.0,E,0,,,,M,,M,,",
                                       "GPGGA,1,4807.0,N,01131.0,E,8,,,,M,,M,,",
                                       "VWVHW,12.0,T,9.0,M,,N,,K",
                                       "VWVHW,12.0,T,9.0,M,-1.0,N,-1.9,K",
                                       "VWVHW,12.0,T,9.0,M,5.5,K,5.5,N",
                                       "PGRME,15.0,M,45.0,M,25.0,M",
                                       "GPZDA,1",
                                       "YXXDR,C,9,C,T",
                                       "YXXDR,A,361,D,C1",
                                       "YXXDR,A,12,M,C1",
                                       "YXXDR,D,12,F,C1",
                                       "YXXDR,D,-1,M,C1",
                                       "YXXDR,A,12,D",
                                       "YXXDR,A,12,D,",
                                       "YXXDR,A,12,D,A_NAME_OF_16_SIGNS",
                                       "HEHDT"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        double variation = NAN;
        sonar_nav_values v;
        cr_expect_eq(read_with(none[i], &variation, &v), SONAR_NMEA_OTHER, "%s", none[i]);
        cr_expect_eq(v.known, 0, "%s", none[i]);
    }
}

Test(nmea, checksums_are_enforced) {
    const char *good = "$HEHDT,274.07,T*19";
    double variation = NAN;
    sonar_nav_values v = {0};
    for (size_t i = 1; good[i]; i++)
        for (int bit = 0; bit < 8; bit++) {
            char bad[32];
            strcpy(bad, good);
            bad[i] = (char)(bad[i] ^ 1 << bit);
            if (i >= strlen(good) - 2 && (bad[i] | 32) == (good[i] | 32))
                continue;
            cr_expect_neq(sonar_nmea_read(bad, strlen(good), &variation, &v), SONAR_NMEA_TAKEN,
                          "%s", bad);
        }
    for (size_t n = 0; n < strlen(good); n++)
        cr_expect_neq(sonar_nmea_read(good, n, &variation, &v), SONAR_NMEA_TAKEN);
    cr_expect_eq(sonar_nmea_read("$HEHDT,274.07,T", 15, &variation, &v), SONAR_NMEA_CHECKSUM);
    char longest[400];
    memset(longest, 'A', sizeof longest);
    longest[0] = '$';
    cr_expect_eq(sonar_nmea_read(longest, sizeof longest, &variation, &v), SONAR_NMEA_MALFORMED);
    memset(longest, ',', sizeof longest);
    longest[0] = '$';
    memcpy(longest + 100, "*2C", 3); /* 99 commas: 0x2c once */
    cr_expect_eq(sonar_nmea_read(longest, 103, &variation, &v), SONAR_NMEA_MALFORMED);
    cr_expect_eq(v.known, 0);
}

/* As on a ship's network: TAG blocks name the sender and number the lines. */
Test(nmea, tag_blocks_stand_before_sentences) {
    static const struct {
        const char *text;
        sonar_nmea is;
    } of[] = {{"\\s:HE0001,n:17*3B\\$HEHDT,274.07,T*19", SONAR_NMEA_TAKEN},
              {"\\g:1-2-3*6D\\\\s:HE0001*45\\$HEHDT,274.07,T*19", SONAR_NMEA_TAKEN},
              {"\\s:HE0001,n:18*3B\\$HEHDT,274.07,T*19", SONAR_NMEA_CHECKSUM},
              {"\\s:HE0001,n:17\\$HEHDT,274.07,T*19", SONAR_NMEA_CHECKSUM},
              {"\\s:HE0001,n:17*3B\\$HEHDT,274.07,T*18", SONAR_NMEA_CHECKSUM},
              {"\\s:HE0001,n:17*3B$HEHDT,274.07,T*19", SONAR_NMEA_MALFORMED},
              {"\\s:HE0001,n:17*3B\\", SONAR_NMEA_MALFORMED},
              {"\\\\$HEHDT,274.07,T*19", SONAR_NMEA_MALFORMED},
              {"\\", SONAR_NMEA_MALFORMED},
              {"!AIVDM,1,1,,B,177KQJ5000G?tO`K>RA1wUbN0TKH,0*5C", SONAR_NMEA_OTHER},
              {"!AIVDM,1,1,,B,177KQJ5000G?tO`K>RA1wUbN0TKH,0*5D", SONAR_NMEA_CHECKSUM},
              {"!HEHDT,274.07,T*19", SONAR_NMEA_OTHER}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        double variation = NAN;
        sonar_nav_values v = {0};
        cr_expect_eq(sonar_nmea_read(of[i].text, strlen(of[i].text), &variation, &v), of[i].is,
                     "%s", of[i].text);
        cr_expect_eq(v.known, of[i].is == SONAR_NMEA_TAKEN ? 1u << SONAR_NAV_HEADING : 0);
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

static void quiet(void *ctx, sonar_level level, const char *where, const char *text) {
    (void)ctx, (void)level, (void)where, (void)text;
}

static const sonar_host host = {.log = quiet};

static sonar_nav *open_nav(double stale_after_s) {
    const sonar_nav_spec spec = {.stale_after_s = stale_after_s};
    sonar_nav *nav;
    cr_assert_eq(sonar_nav_create(&spec, &host, &nav, NULL), SONAR_OK);
    return nav;
}

static void tell(sonar_nav *nav, double t_s, double deg) {
    sonar_nav_values v = {.known = 1u << SONAR_NAV_HEADING, .value = {deg}};
    sonar_nav_store(nav, "test", &v, (int64_t)(t_s * 1e9), false);
}

static double heading(sonar_nav *nav, double t_s) {
    double deg;
    bool asked;
    return sonar_nav_heading(nav, (int64_t)(t_s * 1e9), &deg, &asked) ? deg : NAN;
}

Test(nav, headings_lie_on_the_shorter_arc) {
    sonar_nav *nav = open_nav(3);
    cr_expect(isnan(heading(nav, 100)));
    tell(nav, 100, 350);
    tell(nav, 101, 10);
    tell(nav, 102, 350);
    cr_expect_float_eq(heading(nav, 100.25), 355, 1e-6);
    cr_expect_float_eq(heading(nav, 100.75), 5, 1e-6);
    cr_expect_float_eq(heading(nav, 101.5), 0, 1e-6);
    cr_expect_float_eq(heading(nav, 100), 350, 1e-6);
    cr_expect_float_eq(heading(nav, 102), 350, 1e-6);
    cr_expect_float_eq(heading(nav, 102.5), 340, 1e-6, "the turn goes on for a step");
    cr_expect_float_eq(heading(nav, 104), 330, 1e-6, "and no longer");
    cr_expect(isnan(heading(nav, 105.1)), "stale");
    cr_expect_float_eq(heading(nav, 98), 350, 1e-6);
    cr_expect(isnan(heading(nav, 96.9)), "long before the first");
    tell(nav, 110, 0);
    cr_expect(isnan(heading(nav, 106)), "in a gap");
    cr_expect_float_eq(heading(nav, 110), 0, 1e-6);
    sonar_nav_destroy(nav);
}

/* With two gyros that differ, or delayed sentences, extrapolation would double the difference.
 */
Test(nav, headings_that_come_together_are_no_turn) {
    sonar_nav *nav = open_nav(3);
    tell(nav, 100, 44);
    tell(nav, 101, 45);
    tell(nav, 101.0001, 47);
    cr_expect_float_eq(heading(nav, 101.0001), 47, 1e-6);
    cr_expect_float_eq(heading(nav, 102), 47, 1e-6, "not 49");
    tell(nav, 102, 76.9);
    cr_expect_float_eq(heading(nav, 103), 106.8, 0.01, "the fastest boat");
    tell(nav, 103, 107);
    cr_expect_float_eq(heading(nav, 103.5), 107, 1e-6, "faster than any");
    tell(nav, 104, 359);
    tell(nav, 105, 1);
    cr_expect_float_eq(heading(nav, 106), 3, 1e-6, "over north");
    sonar_nav_destroy(nav);
}

/* Far more values than are kept, across the ends of the ring and of the circle. */
Test(nav, a_long_turn_is_followed) {
    sonar_nav *nav = open_nav(3);
    for (int i = 0; i < 5000; i++) {
        tell(nav, 1000 + 0.1 * i, 3 * 0.1 * i + 0.0);
        double late = 1000 + 0.1 * i - 0.55;
        if (i > 20)
            cr_assert_float_eq(remainder(heading(nav, late) - 3 * (late - 1000), 360), 0, 1e-5);
    }
    tell(nav, 500, 77); /* the clock was set back */
    cr_expect_float_eq(heading(nav, 500), 77, 1e-6);
    cr_expect(isnan(heading(nav, 1400)));
    sonar_nav_destroy(nav);
}

Test(nav, a_compass_gives_way_to_a_gyro) {
    sonar_nav *nav = open_nav(3);
    sonar_nav_values compass = {.known = 1u << SONAR_NAV_MAGNETIC};
    compass.value[SONAR_NAV_MAGNETIC] = 50;
    sonar_nav_store(nav, "nmea", &compass, 100000000000, false);
    cr_expect_float_eq(heading(nav, 100), 50, 1e-6);
    tell(nav, 101, 60);
    sonar_nav_store(nav, "nmea", &compass, 102000000000, false);
    cr_expect_float_eq(heading(nav, 102), 60, 10.1);
    cr_expect_gt(fabs(heading(nav, 102) - 50), 5);
    sonar_nav_store(nav, "nmea", &compass, 106000000000, false);
    cr_expect_float_eq(heading(nav, 106), 50, 1e-6, "the gyro is silent");
    tell(nav, 1e6, 60); /* by a clock that was wrong */
    sonar_nav_store(nav, "nmea", &compass, 107000000000, false);
    cr_expect_float_eq(heading(nav, 107), 50, 1e-6, "the gyro tells of the future");
    sonar_nav_destroy(nav);
}

Test(nav, what_is_held_does_not_get_stale) {
    sonar_nav *nav = open_nav(3);
    sonar_nav_values v = {.known = 1u << SONAR_NAV_HEADING, .value = {123}};
    sonar_nav_store(nav, "control", &v, 100000000000, true);
    cr_expect_float_eq(heading(nav, 1e6), 123, 1e-6);
    cr_expect_float_eq(heading(nav, 1), 123, 1e-6);
    tell(nav, 200, 60);
    cr_expect(isnan(heading(nav, 1e6)));
    sonar_nav_destroy(nav);
}

/* Values lie 7.5 deg apart, times between them half a step: half a change would give another one.
 */
static atomic_bool over;
static void *write_on(void *arg) {
    for (int i = 0; !atomic_load(&over); i++)
        tell(arg, 1000 + 0.01 * i, fmod(7.5 * i, 360));
    return NULL;
}

Test(nav, readers_never_see_half_a_change) {
    sonar_nav *nav = open_nav(3);
    pthread_t writer;
    tell(nav, 999.99, 352.5);
    cr_assert_eq(pthread_create(&writer, NULL, write_on, nav), 0);
    for (int i = 0; i < 200000; i++) {
        double t = 1000 + 0.01 * (i % 1000) + 0.005, deg = heading(nav, t);
        if (isnan(deg))
            continue;
        cr_assert_lt(fabs(remainder(deg, 3.75)), 1e-3, "%g at %g", deg, t);
    }
    atomic_store(&over, true);
    pthread_join(writer, NULL);
    sonar_nav_destroy(nav);
}

/* ---- listening ------------------------------------------------------------------------------- */

static bool await(sonar_nav *nav, sonar_nav_counter what, uint64_t least) {
    sonar_navigation now = {0};
    for (int i = 0; i < 5000 && now.count[what] < least; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        sonar_nav_read(nav, 0, &now);
    }
    return now.count[what] >= least;
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static sonar_nav *start_nav(const sonar_nav_spec *spec) {
    sonar_nav *nav;
    sonar_error err = {0};
    cr_assert_eq(sonar_nav_create(spec, &host, &nav, NULL), SONAR_OK);
    cr_assert_eq(sonar_nav_start(nav, &err), SONAR_OK, "%s", err.text);
    return nav;
}

/* A socket that sends to an address of own_endpoint. */
static int send_to(const char *address, struct sockaddr_in *to) {
    *to = (struct sockaddr_in){.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1))};
    inet_pton(AF_INET, own_address(), &to->sin_addr);
    return socket(AF_INET, SOCK_DGRAM, 0);
}

Test(nav, datagrams_hold_sentences) {
    char address[48];
    own_endpoint("udp", address);
    sonar_nav *nav = start_nav(&(sonar_nav_spec){.nmea = {address}, .stale_after_s = 3});
    sonar_navigation now;
    struct sockaddr_in to;
    const int fd = send_to(address, &to);
    static char junk[9000];
    static const char *const text[] = {"$HEHDT,274.07,T*19\r\n", "$HEHDT,274.07,T*18\r\n",
                                       "$GPVTG,054.7,T,034.4,M,005.5,N,010.2,K*48\n"
                                       "$HEHDT,274.07,T*19"};
    sendto(fd, junk, sizeof junk, 0, (struct sockaddr *)&to, sizeof to);
    sendto(fd, junk, 0, 0, (struct sockaddr *)&to, sizeof to);
    for (size_t i = 0; i < 3; i++)
        sendto(fd, text[i], strlen(text[i]), 0, (struct sockaddr *)&to, sizeof to);
    cr_expect(await(nav, SONAR_NAV_TAKEN, 3));
    cr_expect(await(nav, SONAR_NAV_CHECKSUM, 1));
    static char many[400 * 20 + 1]; /* more than a packet of the network's */
    for (size_t i = 0; i < 400; i++)
        memcpy(many + 20 * i, "$HEHDT,274.07,T*19\r\n", 20);
    sendto(fd, many, strlen(many), 0, (struct sockaddr *)&to, sizeof to);
    cr_expect(await(nav, SONAR_NAV_TAKEN, 403));
    static const char tagged[] = "UdPbC\0\\s:HE0001,n:17*3B\\$HEHDT,274.07,T*19\r\n";
    sendto(fd, tagged, sizeof tagged - 1, 0, (struct sockaddr *)&to, sizeof to);
    cr_expect(await(nav, SONAR_NAV_TAKEN, 404));
    sonar_nav_read(nav, now_ns(), &now);
    cr_expect(now.fresh);
    cr_expect_float_eq(now.value[SONAR_NAV_HEADING], 274.07, 1e-6);
    cr_expect_float_eq(now.value[SONAR_NAV_COURSE], 54.7, 1e-6);
    cr_expect_str_eq(now.source, "nmea");
    close(fd);
    sonar_nav_destroy(nav);
}

/* Sends a heading to the group until the listener has had one. */
static void reach_group(const char *address, int fd, const struct sockaddr *to, socklen_t bytes) {
    static const char heading[] = "$HEHDT,274.07,T*19";
    const sonar_nav_spec spec = {.nmea = {address}, .stale_after_s = 3};
    sonar_nav *nav;
    sonar_error err = {0};
    cr_assert_eq(sonar_nav_create(&spec, &host, &nav, NULL), SONAR_OK);
    const sonar_code code = sonar_nav_start(nav, &err);
    if (code)
        cr_skip_test("%s: no multicast here: %s", address, err.text);
    if (sendto(fd, heading, strlen(heading), 0, to, bytes) < 0)
        cr_skip_test("%s: no multicast here: %s", address, strerror(errno));
    cr_expect(await(nav, SONAR_NAV_TAKEN, 1), "%s", address);
    sonar_nav_destroy(nav);
}

Test(nav, a_group_is_joined) {
    char address[64];
    const int port = free_port(SOCK_DGRAM), fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, "239.192.0.4", &to.sin_addr);
    snprintf(address, sizeof address, "udp://239.192.0.4:%d", port);
    reach_group(address, fd, (struct sockaddr *)&to, sizeof to);
    close(fd);
}

/* The name of an interface that has IPv6 and takes multicast; "": there is none. */
static void multicast_interface(char name[IF_NAMESIZE]) {
    const unsigned wanted = IFF_UP | IFF_MULTICAST;
    struct ifaddrs *all = NULL;
    *name = '\0';
    if (getifaddrs(&all))
        return;
    for (const struct ifaddrs *a = all; a; a = a->ifa_next)
        if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET6 && (a->ifa_flags & wanted) == wanted)
            snprintf(name, IF_NAMESIZE, "%s", a->ifa_name);
    freeifaddrs(all);
}

Test(nav, a_group_is_joined_on_the_interface_of_its_scope) {
    char address[64], name[IF_NAMESIZE];
    const int port = free_port(SOCK_DGRAM), fd = socket(AF_INET6, SOCK_DGRAM, 0);
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    multicast_interface(name);
    if (fd < 0 || !*name)
        cr_skip_test("no interface with IPv6 and multicast");
    inet_pton(AF_INET6, "ff02::5a:5a", &to.sin6_addr);
    to.sin6_scope_id = if_nametoindex(name);
    snprintf(address, sizeof address, "udp://[ff02::5a:5a%%%s]:%d", name, port);
    reach_group(address, fd, (struct sockaddr *)&to, sizeof to);
    close(fd);
}

/* ---- a serial line: a pseudo-terminal, the instrument at its other end ----------------------- */

typedef struct instrument {
    int fd; /* its end */
    char line[64];
} instrument;

static instrument plug_in(void) {
    instrument i;
    int end;
    if (openpty(&i.fd, &end, i.line, NULL, NULL) != 0)
        cr_skip_test("no pseudo-terminal: %s (is /dev/pts mounted?)", strerror(errno));
    close(end);
    return i;
}

static void say(const instrument *i, const char *text) {
    size_t at = 0;
    for (ssize_t n; at < strlen(text); at += (size_t)n)
        cr_assert_gt(n = write(i->fd, text + at, strlen(text) - at), 0);
}

static sonar_nav *listen_to(const char *line, int baud) {
    return start_nav(&(sonar_nav_spec){.nmea = {line}, .baud = baud, .stale_after_s = 3});
}

/* Plugged in under a name that stays the same. */
static instrument plug_in_as(const char *name) {
    const instrument i = plug_in();
    cr_assert_eq(symlink(i.line, name), 0);
    return i;
}

static void unplug(const instrument *i, const char *name) {
    close(i->fd);
    unlink(name);
}

Test(nav, a_serial_line_is_raw_and_as_fast_as_configured) {
    static const struct {
        int baud;
        speed_t speed;
    } rate[] = {{4800, B4800}, {9600, B9600}, {19200, B19200}, {38400, B38400}, {115200, B115200}};
    for (size_t i = 0; i < sizeof rate / sizeof *rate; i++) {
        instrument it = plug_in();
        sonar_nav *nav = listen_to(it.line, rate[i].baud);
        struct termios set;
        cr_assert_eq(tcgetattr(it.fd, &set), 0);
        cr_expect_eq(cfgetispeed(&set), rate[i].speed, "%d", rate[i].baud);
        cr_expect_eq(set.c_lflag & (tcflag_t)(ICANON | ECHO | ISIG), 0);
        cr_expect_eq(set.c_iflag & (tcflag_t)(ICRNL | IXON | ISTRIP), 0);
        cr_expect_eq(set.c_cflag & (tcflag_t)(CSIZE | CSTOPB | PARENB), (tcflag_t)CS8);
        sonar_nav_destroy(nav);
        close(it.fd);
    }
}

/* A line arrives in pieces, begins in the middle of a sentence and is disturbed. */
Test(nav, sentences_come_over_a_serial_line) {
    instrument it = plug_in();
    sonar_nav *nav = listen_to(it.line, 4800);
    sonar_navigation now;
    char junk[700];
    memset(junk, '\xa5', sizeof junk - 1);
    junk[sizeof junk - 1] = '\0';
    say(&it, ".07,T*19\r\n"); /* the rest of a sentence */
    cr_expect(await(nav, SONAR_NAV_MALFORMED, 1));
    static const char *const piece[] = {"$HEH", "DT,27", "4.07,T", "*1", "9", "\r", "\n"};
    for (size_t i = 0; i < sizeof piece / sizeof *piece; i++) {
        say(&it, piece[i]);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    cr_expect(await(nav, SONAR_NAV_TAKEN, 1));
    sonar_nav_read(nav, now_ns(), &now);
    cr_expect(now.fresh);
    cr_expect_float_eq(now.value[SONAR_NAV_HEADING], 274.07, 1e-6);
    say(&it, junk); /* longer than any sentence, and than the buffer */
    say(&it, "\r\n$HEHDT,274.07,T*18\r\n$GPVTG,054.7,T,034.4,M,005.5,N,010.2,K*48\n");
    cr_expect(await(nav, SONAR_NAV_TAKEN, 2));
    sonar_nav_read(nav, now_ns(), &now);
    cr_expect_eq(now.count[SONAR_NAV_MALFORMED], 2);
    cr_expect_eq(now.count[SONAR_NAV_CHECKSUM], 1);
    cr_expect_float_eq(now.value[SONAR_NAV_COURSE], 54.7, 1e-6);
    sonar_nav_destroy(nav);
    close(it.fd);
}

/* An adapter is unplugged and returns, as another device with the same name. */
Test(nav, a_serial_line_that_was_lost_is_opened_again) {
    char dir[] = "/tmp/sonar-nav-XXXXXX", name[64];
    cr_assert(mkdtemp(dir));
    snprintf(name, sizeof name, "%s/line", dir);
    instrument it = plug_in_as(name);
    sonar_nav *nav = listen_to(name, 4800);
    for (uint64_t times = 1; times <= 3; times++) {
        say(&it, "$HEHDT,274.07,T*19\r\n");
        cr_assert(await(nav, SONAR_NAV_TAKEN, times), "time %llu", (unsigned long long)times);
        say(&it, "$HEHDT,27"); /* half a sentence is not joined with the next one */
        unplug(&it, name);
        it = plug_in_as(name);
    }
    sonar_nav_destroy(nav);
    unplug(&it, name);
    rmdir(dir);
}

/* A gyro at a high rate on one line must not keep a lost line from being opened again. */
Test(nav, a_lost_line_is_opened_again_beside_another_source) {
    static const char gyro[] = "$HEHDT,274.07,T*19";
    char address[48], dir[] = "/tmp/sonar-nav-XXXXXX", name[64];
    own_endpoint("udp", address);
    cr_assert(mkdtemp(dir));
    snprintf(name, sizeof name, "%s/line", dir);
    instrument it = plug_in_as(name);
    sonar_nav *nav =
        start_nav(&(sonar_nav_spec){.nmea = {address, name}, .baud = 4800, .stale_after_s = 3});
    say(&it, "$HEHDT,274.07,T*19\r\n");
    cr_expect(await(nav, SONAR_NAV_TAKEN, 1));
    unplug(&it, name);
    it = plug_in_as(name);
    struct sockaddr_in to;
    const int fd = send_to(address, &to);
    sonar_navigation now;
    sonar_nav_read(nav, now_ns(), &now);
    for (int i = 0; i < 3000 && !isfinite(now.value[SONAR_NAV_COURSE]); i++) {
        sendto(fd, gyro, strlen(gyro), 0, (struct sockaddr *)&to, sizeof to);
        if (i % 50 == 0) /* what is written before the line is open may be lost */
            say(&it, "$GPVTG,054.7,T,034.4,M,005.5,N,010.2,K*48\r\n");
        usleep(20000);
        sonar_nav_read(nav, now_ns(), &now);
    }
    cr_expect_float_eq(now.value[SONAR_NAV_COURSE], 54.7, 1e-6);
    sonar_nav_destroy(nav);
    close(fd);
    unplug(&it, name);
    rmdir(dir);
}

Test(nav, a_topic_holds_json) {
    void *context = zmq_ctx_new(), *pub = zmq_socket(context, ZMQ_XPUB);
    const int zero = 0;
    char dir[] = "/tmp/sonar-nav-XXXXXX", endpoint[64], hello[8];
    zmq_setsockopt(pub, ZMQ_LINGER, &zero, sizeof zero);
    cr_assert(mkdtemp(dir));
    snprintf(endpoint, sizeof endpoint, "ipc://%s/nav", dir);
    cr_assert_eq(zmq_bind(pub, endpoint), 0);
    const sonar_nav_spec spec = {.zmq_context = context, .endpoint = endpoint, .stale_after_s = 3};
    sonar_nav *nav;
    sonar_navigation now;
    cr_assert_eq(sonar_nav_create(&spec, &host, &nav, NULL), SONAR_OK);
    cr_assert_eq(sonar_nav_start(nav, NULL), SONAR_OK);
    cr_assert_geq(zmq_recv(pub, hello, sizeof hello, 0), 1);
    static const char *const bad[] = {"",
                                      "[]",
                                      "{}",
                                      "{\"heading_deg\":\"1\"}",
                                      "{\"heading_deg\":1e9}",
                                      "{\"heading_deg\":1,\"utc_ns\":1e19}",
                                      "{\"heading_deg\":1,\"utc_ns\":-1}",
                                      "{\"x\":1}",
                                      "{\"utc_ns\":1}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        zmq_send(pub, bad[i], strlen(bad[i]), 0);
    cr_expect(await(nav, SONAR_NAV_MALFORMED, sizeof bad / sizeof *bad));
    static const char good[] = "{\"utc_ns\": 5000000000, \"heading_deg\": -10, \"depth_m\": 80, "
                               "\"tilt_deg\": 2, \"name\": 1, \"from\": \"gyro\", \"raw\": []}";
    zmq_send(pub, "navigation", 10, ZMQ_SNDMORE);
    zmq_send(pub, good, strlen(good), 0);
    cr_expect(await(nav, SONAR_NAV_TAKEN, 1));
    cr_expect_float_eq(heading(nav, 5), 350, 1e-6);
    sonar_nav_read(nav, now_ns(), &now);
    cr_expect_not(now.fresh);
    cr_expect(now.asked);
    cr_expect_float_eq(now.value[SONAR_NAV_DEPTH], 80, 1e-6);
    sonar_nav_destroy(nav);
    zmq_close(pub);
    zmq_ctx_term(context);
    unlink(endpoint + 6);
    rmdir(dir);
}

Test(nav, what_cannot_be_opened_says_why) {
    static const char *const wrong[] = {"udp://",     "udp://127.0.0.1",       "udp://host:1",
                                        "udp://:5",   "udp://127.0.0.1:99999", "/no/such/line",
                                        "/dev/null",  "udp://192.0.2.77:4711", "udp://[::1:5",
                                        "udp://[]:5", "udp://127.0.0.1:0"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const sonar_nav_spec spec = {.nmea = {wrong[i]}, .stale_after_s = 3};
        sonar_nav *nav;
        sonar_error err = {0};
        cr_assert_eq(sonar_nav_create(&spec, &host, &nav, NULL), SONAR_OK);
        cr_expect_neq(sonar_nav_start(nav, &err), SONAR_OK, "%s", wrong[i]);
        cr_expect_str_eq(err.where, wrong[i]);
        sonar_nav_destroy(nav);
    }
}
