/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/core.h"

enum { NAP_NS = 50 * 1000 * 1000 };

/* Reads the digits after the point as nanoseconds and advances *text past them. */
static int64_t parse_fraction(const char **text) {
    int64_t ns = 0;
    if (**text != '.')
        return 0;
    for (int64_t place = 100000000; *++*text >= '0' && **text <= '9'; place /= 10)
        ns += place * (**text - '0');
    return ns;
}

bool sim_utc_parse(const char *text, int64_t *utc_ns) {
    struct tm date = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &date);
    if (!rest)
        rest = strptime(text, "%Y-%m-%d %H:%M:%S", &date);
    if (!rest)
        return false;
    int64_t ns = parse_fraction(&rest);
    if (*rest == 'Z')
        rest++;
    if (*rest)
        return false;
    const time_t seconds = timegm(&date), most = 9000000000; /* limit of nanoseconds in 64 bits */
    if (seconds < -most || seconds > most)
        return false;
    *utc_ns = (int64_t)seconds * 1000000000 + ns;
    return true;
}

bool sim_utc_parse_or_unknown(const char *text, int64_t *utc_ns) {
    *utc_ns = 0;
    return strcmp(text, "0") == 0 || sim_utc_parse(text, utc_ns);
}

/* ---- a time in a file's name ----------------------------------------------------------------- */

/* Forms of a time: d stands for a digit, - for one of -_, T for one of Tt_-. */
static const struct {
    const char *form;
    bool century; /* the year has four digits */
    char before;  /* 0: no digit may stand before it */
} name_form[] = {{"ddddddddTdddddd", true, 0},
                 {"dddd-dd-ddTdd-dd-dd", true, 0},
                 {"dddddddddddddd", true, 0},
                 {"dddddddddddd", false, '.'}};

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool fits(char form, char is) {
    return form == 'd'   ? is_digit(is)
           : form == '-' ? is == '-' || is == '_'
                         : is && strchr("Tt_-.", is) != NULL;
}

/* The length of the form at `at`, its digits being copied; 0: it is not there. */
static size_t match_form(const char *form, const char *at, char digits[16]) {
    size_t i = 0, count = 0;
    for (; form[i]; i++) {
        if (!fits(form[i], at[i]))
            return 0;
        if (form[i] == 'd')
            digits[count++] = at[i];
    }
    digits[count] = '\0';
    return is_digit(at[i]) ? 0 : i;
}

/* Its length; 0: none is there. */
static size_t time_at(const char *name, const char *at, int64_t *utc_ns) {
    char digits[16], text[48];
    for (size_t k = 0; k < sizeof name_form / sizeof *name_form; k++) {
        const char before = at > name ? at[-1] : '\0';
        if (name_form[k].before ? before != name_form[k].before : is_digit(before))
            continue;
        const size_t length = match_form(name_form[k].form, at, digits);
        const char *d = digits + (name_form[k].century ? 2 : 0), *rest = at + length;
        size_t fraction = length && *rest == '.' ? 1 + strspn(rest + 1, "0123456789") : 0;
        if (fraction < 2 || fraction > 10 || rest[fraction] != 'Z')
            fraction = 0; /* the point begins the ending */
        if (!length)
            continue;
        snprintf(text, sizeof text, "%.2s%.2s-%.2s-%.2sT%.2s:%.2s:%.2s%.*s",
                 name_form[k].century ? digits : "20", d, d + 2, d + 4, d + 6, d + 8, d + 10,
                 (int)fraction, rest);
        if (sim_utc_parse(text, utc_ns) && *utc_ns > 0)
            return length + fraction;
    }
    return 0;
}

bool sim_utc_in_name(const char *path, int64_t *utc_ns) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t found = 0;
    int64_t first_ns = 0;
    for (const char *at = name; *at;) {
        int64_t ns;
        const size_t length = time_at(name, at, &ns);
        first_ns = length && !found ? ns : first_ns;
        found += length > 0;
        at += length ? length : 1;
    }
    if (found == 1)
        *utc_ns = first_ns;
    return found == 1;
}

void sim_utc_format(int64_t utc_ns, char *text, size_t bytes) {
    int64_t ns = ((utc_ns % 1000000000) + 1000000000) % 1000000000;
    time_t seconds = (time_t)((utc_ns - ns) / 1000000000);
    struct tm date;
    gmtime_r(&seconds, &date);
    size_t used = strftime(text, bytes, "%Y-%m-%dT%H:%M:%S", &date);
    snprintf(text + used, bytes - used, ".%09lldZ", (long long)ns);
}

bool sim_rate_parse(const char *text, double *rate) {
    if (strcmp(text, "realtime") == 0 || strcmp(text, "max") == 0) {
        *rate = *text == 'r';
        return true;
    }
    char *end;
    *rate = strtod(text, &end);
    return *text && !*end && *rate > 0 && *rate < 1e6;
}

static int64_t due_ns(const sim_pace *pace, uint64_t samples) {
    return pace->start_ns + llrint((double)samples / pace->fs_hz / pace->rate * 1e9);
}

/* Waits in short sleeps, so that a signal that arrives just before a sleep is noticed soon. */
bool sim_pace_wait(const sim_pace *pace, uint64_t samples) {
    if (pace->rate > 0) {
        int64_t due = due_ns(pace, samples);
        for (int64_t now; !*pace->stop && (now = sonar_monotonic_ns()) < due;) {
            int64_t nap = due - now < NAP_NS ? due - now : NAP_NS;
            nanosleep(&(struct timespec){.tv_nsec = nap}, NULL);
        }
    }
    return !*pace->stop;
}

double sim_pace_lag_s(const sim_pace *pace, uint64_t samples) {
    if (pace->rate <= 0)
        return 0;
    return fmax(0, (double)(sonar_monotonic_ns() - due_ns(pace, samples)) / 1e9);
}

const char *sim_lag_note(sim_lag *lag, int64_t now_ns, double lag_s, double waited_s,
                         char text[160]) {
    static const double behind_s = 1, caught_up_s = 0.1;
    lag->last_s = lag_s;
    lag->most_s = fmax(lag->most_s, lag_s);
    if (lag_s < caught_up_s)
        lag->waited_s = waited_s;
    if (lag->behind && lag_s < caught_up_s) {
        lag->behind = false;
        snprintf(text, 160, "the pace is kept again, after a lag of up to %.1f s", lag->most_s);
        return text;
    }
    bool again = lag->behind && now_ns - lag->told_ns >= SIM_LAG_TOLD_EVERY_S * 1000000000LL;
    if (!again && (lag->behind || lag_s < behind_s))
        return NULL;
    lag->behind = true;
    lag->told_ns = now_ns;
    snprintf(text, 160, "%.1f s behind the pace: %s", lag_s,
             waited_s - lag->waited_s > lag_s / 2 ? "the receiver is too slow"
                                                  : "this machine computes samples too slowly");
    return text;
}
