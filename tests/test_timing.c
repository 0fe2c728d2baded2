/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-feed's time of samples, against a source whose clock and whose delays are known. */
#include <criterion/criterion.h>
#include <math.h>

#include "core/random.h"
#include "timing.h"

TestSuite(timing, .timeout = 60);

enum { BLOCK = 256, SECOND = 1000000000 };
static const double fs_hz = 8000;
static const int64_t begin_ns = INT64_C(1767225600) * SECOND;

typedef struct outcome {
    double worst_s; /* of the estimate, in the second half */
    uint64_t lost, losses;
    timing timing;
} outcome;

/* Blocks of a source that is `ppm` too fast; each comes some ms late, now and then 0.3 s. From
 * `hole_s` on `hole` samples are missing. */
static outcome run(double ppm, double seconds, double hole_s, uint64_t hole) {
    outcome o = {.timing = timing_begin(fs_hz, true, 0)};
    const double true_hz = fs_hz * (1 + ppm * 1e-6);
    uint64_t taken = 0, index = 0, late = 0, random = 1;
    for (uint64_t i = 0; (double)taken / true_hz < seconds; i++) {
        if (hole && (double)taken / true_hz >= hole_s) {
            taken += hole;
            hole = 0;
        }
        taken += BLOCK;
        const double noise = sonar_random_uniform(&random);
        const double delay_s = 0.001 - 0.004 * log(1 - noise) + (i % 97 == 50 ? 0.3 : 0);
        const double now_s = (double)taken / true_hz + delay_s;
        timing_note(&o.timing, index + BLOCK, begin_ns + llrint(now_s * 1e9), &late);
        o.lost += late;
        o.losses += late > 0;
        index += late + BLOCK;
        const double off_s =
            (double)(timing_utc(&o.timing, index) - begin_ns) * 1e-9 - (double)taken / true_hz;
        if ((double)taken / true_hz > seconds / 2 && !hole)
            o.worst_s = fmax(o.worst_s, fabs(off_s));
    }
    return o;
}

Test(timing, follows_the_drift_and_not_the_delays) {
    static const double ppm[] = {0, 50, -50};
    for (int i = 0; i < 3; i++) {
        const outcome o = run(ppm[i], 900, 0, 0);
        cr_expect_lt(o.worst_s, 0.005, "%g ppm: %g s", ppm[i], o.worst_s);
        cr_expect_float_eq(timing_drift_ppm(&o.timing), ppm[i], 3, "%g, not %g ppm",
                           timing_drift_ppm(&o.timing), ppm[i]);
        cr_expect_eq(o.losses, 0);
    }
}

Test(timing, finds_samples_that_were_lost) {
    const outcome o = run(10, 400, 100, 8000);
    cr_expect_eq(o.losses, 1);
    cr_expect_float_eq((double)o.lost, 8000, 40, "%g", (double)o.lost);
    cr_expect_lt(o.worst_s, 0.005, "%g s", o.worst_s);
    const outcome little = run(10, 400, 100, 400); /* 0.05 s: may as well be a delay */
    cr_expect_eq(little.losses, 0);
}

Test(timing, a_file_is_not_timed_by_the_clock) {
    timing t = timing_begin(fs_hz, true, 0);
    uint64_t lost;
    for (uint64_t end = BLOCK; end < 100 * 8000; end += BLOCK)
        timing_note(&t, end, begin_ns + (int64_t)end * 1000, &lost);
    cr_expect(t.early && !t.live);
    t = timing_begin(44100, false, begin_ns);
    cr_expect(!timing_note(&t, BLOCK, begin_ns, &lost));
    cr_expect_eq(timing_utc(&t, UINT64_C(44100) * 86400 * 400),
                 begin_ns + INT64_C(86400) * 400 * SECOND);
    t = timing_begin(44100, false, 0);
    cr_expect_eq(timing_utc(&t, 5), 0);
}

Test(timing, a_pause_is_as_long_as_the_clock_says) {
    timing t = timing_begin(fs_hz, true, 0);
    uint64_t lost;
    timing_note(&t, BLOCK, begin_ns, &lost);
    cr_expect_eq(timing_pause(&t, BLOCK, begin_ns + 2 * (int64_t)SECOND), 16000);
    cr_expect_eq(timing_pause(&t, BLOCK, begin_ns - SECOND), 0);
}
