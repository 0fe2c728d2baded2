/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The snapshots that the beamformers get. The MVDR gets every snapshot with complete samples, once
 * and in order, for any lengths, hops and gaps. The CBF gets all snapshots, without missing
 * samples. A recorder at the stages stores their inputs, which are compared with sums in double
 * precision. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dft/dft.h"
#include "feed.h"
#include "fake_device.h"
#include "mvdr_oracle.h"
#include "oracle.h"
#include "numerical.h"

enum {
    BLOCKS = 2,
    SAMPLES = 3000,
    TAIL = 1200,
    TAKEN_MOST = 4000,
    LAST = 8,
    SKEW = 40,
    WINDOWS_MOST = 200
};

static uint64_t seed = 7;

static size_t any(size_t least, size_t most) {
    return least + (size_t)(sonar_random_bits(&seed) % (most - least + 1));
}

/* ---- what the stage is given ----------------------------------------------------------------- */

static struct {
    size_t taken, values; /* snapshots so far, values of each */
    sonar_c32 *snapshot;  /* [taken][bin][sensor] */
    float *spectrum;      /* [bin][direction], the last */
    float *info;          /* [bin][SONAR_MVDR_INFO_FIELDS], the last */
    size_t windows, values_of_window;
    uint64_t *window_first; /* [window] */
    sonar_c32 *of_window;   /* [window][snapshot][bin][sensor] of the CBF */
} heard;

static void listen_to_mvdr(const sonar_buffer *in, const sonar_buffer *out) {
    const sonar_buffer *spectrum = &out[SONAR_MVDR_OUT_SPECTRUM], *info = &out[SONAR_MVDR_OUT_INFO];
    if (!heard.snapshot) {
        heard.values = in->shape[1] * in->shape[2];
        heard.snapshot = calloc(TAKEN_MOST * heard.values, sizeof *heard.snapshot);
        heard.spectrum = calloc(spectrum->bytes, 1);
        heard.info = calloc(info->bytes, 1);
    }
    for (size_t i = 0; i < in->shape[0]; i++, heard.taken++) {
        sonar_buffer one = sonar_buffer_part(in, i);
        cr_assert_lt(heard.taken, TAKEN_MOST);
        memcpy(heard.snapshot + heard.taken * heard.values, one.data,
               heard.values * sizeof *heard.snapshot);
    }
    memcpy(heard.spectrum, spectrum->data, spectrum->bytes);
    memcpy(heard.info, info->data, info->bytes);
}

static void listen_to_cbf(const sonar_buffer *in, const sonar_work *work) {
    if (!heard.of_window) {
        heard.values_of_window = sonar_buffer_count(in);
        heard.of_window = calloc(WINDOWS_MOST * heard.values_of_window, sizeof *heard.of_window);
        heard.window_first = calloc(WINDOWS_MOST, sizeof *heard.window_first);
    }
    cr_assert_lt(heard.windows, WINDOWS_MOST);
    memcpy(heard.of_window + heard.windows * heard.values_of_window, in->data, in->bytes);
    heard.window_first[heard.windows++] = work->first_sample;
}

static void listener(const char *stage, const sonar_buffer *in, const sonar_buffer *out,
                     const sonar_work *work) {
    if (!strcmp(stage, "mvdr_jacobi"))
        listen_to_mvdr(in, out);
    if (!strcmp(stage, "cbf"))
        listen_to_cbf(in, work);
}

static void forget(void) {
    free(heard.snapshot);
    free(heard.spectrum);
    free(heard.info);
    free(heard.of_window);
    free(heard.window_first);
    memset(&heard, 0, sizeof heard);
}

/* ---- what is sent ---------------------------------------------------------------------------- */

/* One stream: the lost frames of each block, and all samples. */
struct stream {
    size_t length, hop, mvdr_length, mvdr_hop;
    size_t cbf_length, cbf_hop; /* 0: as the windows */
    double offset, drift;       /* of all samples; per sample */
    bool s16;                   /* all the way */
    uint64_t first, end;        /* samples, frames of FEED_FRAME */
    uint8_t *lost;              /* [block][sample] */
    float *x;                   /* [channel][sample] */
};

/* Two blocks of channels that lose frames independently; no frame is lost in the tail. */
static void send_all(struct stream *s, feed *feed, double losses) {
    static const uint32_t edge[BLOCKS + 1] = {0, 2, FEED_SENSORS};
    digitiser *d = &feed->digitiser;
    size_t samples = (size_t)(s->end - s->first);
    s->lost = calloc(BLOCKS * samples, 1);
    s->x = calloc(FEED_SENSORS * samples, sizeof *s->x);
    d->frame.first_sample = s->first;
    d->frame.type = s->s16 ? SONAR_S16 : SONAR_F32;
    d->offset = s->offset;
    d->drift = s->drift;
    for (size_t at = 0; at < samples; at += FEED_FRAME) {
        const sonar_frame frame = d->frame;
        for (size_t b = 0; b < BLOCKS; b++) {
            float values[FEED_FRAME * FEED_SENSORS];
            d->frame = frame;
            d->frame.first_channel = edge[b];
            d->frame.channels = edge[b + 1] - edge[b];
            digitiser_fill(d, values);
            for (size_t i = 0; i < FEED_FRAME * d->frame.channels; i++)
                s->x[(edge[b] + i % d->frame.channels) * samples + at + i / d->frame.channels] =
                    s->s16 ? rintf(values[i]) : values[i];
            bool lost = at && at + TAIL < samples && fabs(sonar_random_symmetric(&seed)) < losses;
            memset(s->lost + b * samples + at, lost, FEED_FRAME);
            (lost ? digitiser_skip : digitiser_send)(d, 1);
        }
    }
}

/* The window that begins with the first hop of the stream, and the end of the last that is whole.
 */
static uint64_t windows_begin(const struct stream *s) {
    return (s->first + s->hop - 1) / s->hop * s->hop;
}

static uint64_t windows_of(const struct stream *s) {
    return (s->end - windows_begin(s) - s->length) / s->hop + 1;
}

static bool is_there(const struct stream *s, uint64_t first) {
    size_t samples = (size_t)(s->end - s->first), lost = 0;
    for (size_t i = 0; i < s->mvdr_length; i++)
        for (size_t b = 0; b < BLOCKS; b++)
            lost += s->lost[b * samples + (size_t)(first - s->first) + i];
    return lost == 0;
}

/* The first samples of the snapshots that the stream holds, in order. */
static size_t snapshots_of(const struct stream *s, uint64_t *first) {
    uint64_t begin = windows_begin(s);
    uint64_t end = begin + (windows_of(s) - 1) * s->hop + s->length;
    uint64_t at = (begin + s->mvdr_hop - 1) / s->mvdr_hop * s->mvdr_hop;
    size_t count = 0;
    for (; at + s->mvdr_length <= end; at += s->mvdr_hop)
        if (is_there(s, at)) {
            cr_assert_lt(count, TAKEN_MOST);
            first[count++] = at;
        }
    return count;
}

/* ---- oracles --------------------------------------------------------------------------------- */

static void transform(const struct stream *s, const sonar_config *c, uint64_t first, cplx *to) {
    size_t samples = (size_t)(s->end - s->first), n = s->mvdr_length;
    double *window = calloc(n, sizeof *window);
    sonar_dft_taper(c->specs.dft.taper, c->specs.dft.kaiser_beta, n, window);
    for (size_t b = 0; b < c->mvdr_band.bins; b++)
        for (size_t k = 0; k < FEED_SENSORS; k++)
            to[b * FEED_SENSORS + k] =
                oracle_psd_bin(s->x + k * samples + (size_t)(first - s->first), window, n,
                               c->mvdr_band.first_bin + b, c->fs_hz, c->specs.dft.remove_mean);
    free(window);
}

static double error_of(const sonar_c32 *have, const cplx *want, size_t count) {
    double error = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        cplx difference = (double)have[i].re + I * (double)have[i].im - want[i];
        error += creal(difference * conj(difference));
        size += creal(want[i] * conj(want[i]));
    }
    return sqrt(error / size);
}

/* The spectrum of the last snapshots with the trace rule, steered at the stage's frequencies. */
static void check_spectrum(const sonar_config *c, const cplx *last, size_t count) {
    const sonar_mvdr_spec rule = {.loading = SONAR_LOADING_TRACE, .eps = c->specs.mvdr.eps};
    const size_t looks = c->mvdr_scan.count, n = FEED_SENSORS;
    cplx *a = calloc(looks * n, sizeof *a), r[FEED_SENSORS * FEED_SENSORS], x[LAST * FEED_SENSORS];
    double *power = calloc(looks, sizeof *power), d[FEED_SENSORS], u[3], worst = 0;
    for (size_t b = 0; b < c->mvdr_band.bins; b++) {
        double bin = (double)(c->mvdr_band.first_bin + b) +
                     (double)heard.info[b * SONAR_MVDR_INFO_FIELDS + SONAR_MVDR_OFFSET];
        double hz = bin * c->fs_hz / (double)c->specs.mvdr.length;
        for (size_t i = 0; i < looks * n; i++) {
            oracle_unit(c->mvdr_scan.az_deg[i / n], 0, u);
            double tau = oracle_delay_far(c->position_m + 3 * (i % n), u, c->sound_speed_mps);
            a[i] = cexp(2 * M_PI * I * hz * tau);
        }
        for (size_t i = 0; i < count; i++)
            memcpy(x + i * n, last + (i * c->mvdr_band.bins + b) * n, n * sizeof *x);
        mvdr_oracle_covariance(n, count, x, NULL, r);
        mvdr_oracle_eigenvalues(n, r, d);
        mvdr_oracle_power(n, r, mvdr_oracle_delta(&rule, n, d, (double)count), looks, a, power);
        for (size_t i = 0; i < looks; i++)
            worst = oracle_worse(
                worst, fabs(10 * log10((double)heard.spectrum[b * looks + i] / power[i])));
    }
    cr_expect(worst <= 0.05, "%g dB from the spectrum of the last %zu snapshots", worst, count);
    free(a);
    free(power);
}

/* ---- trials ---------------------------------------------------------------------------------- */

static void open_feed(const struct stream *s, const struct layout *layout, feed *feed) {
    char text[1024];
    sonar_error err = {0};
    snprintf(text, sizeof text,
             "schema: 1\n"
             "array: {id: 1, geometry: {line: {sensors: %d, spacing_m: 0.75}}}\n"
             "fs_hz: 8000\n"
             "ingest: {overload: block, max_missing_share: 1, max_skew_ms: %g%s}\n"
             "dft: {length: %zu, hop: %zu}\n"
             "cbf: {band_hz: [500, 1000], length: %zu, hop: %zu}\n"
             "mvdr: {length: %zu, hop: %zu, snapshots: %d, band_hz: [500, 1000],\n"
             "       loading: {rule: trace}}\n"
             "output: {high_water_mark: 10000}\n"
             "runtime: {threads: 1, backend: cpu}\n",
             FEED_SENSORS, SKEW / 8.0, s->s16 ? ", sample_type: s16" : "", s->length, s->hop,
             s->cbf_length ? s->cbf_length : s->length, s->cbf_hop ? s->cbf_hop : s->length,
             s->mvdr_length, s->mvdr_hop, LAST);
    cr_assert_eq(feed_open_text(feed, text, NULL, 0, layout, &err), SONAR_OK, "%s", err.text);
}

static void await(const feed *feed, uint64_t windows) {
    for (int i = 0; i < 100000 && feed_processed(feed) + feed_failed(feed) < windows; i++)
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    cr_assert_eq(feed_processed(feed), windows);
}

static void compare(const struct stream *s, const sonar_config *c, sonar_engine_snapshots taken) {
    static uint64_t want[TAKEN_MOST];
    size_t count = snapshots_of(s, want), values = heard.values;
    cplx *last = calloc(LAST * values, sizeof *last);
    cr_assert_eq(heard.taken, count, "%zu snapshots of %zu: N %zu/%zu, L %zu/%zu, from %d",
                 heard.taken, count, s->length, s->hop, s->mvdr_length, s->mvdr_hop, (int)s->first);
    for (size_t i = 0; i < count; i++) {
        cplx *x = last + (i + LAST >= count ? i + LAST - count : 0) * values;
        transform(s, c, want[i], x);
        double error = error_of(heard.snapshot + i * values, x, values);
        cr_assert(error <= 2e-6, "snapshot %zu from %d: %g", i, (int)want[i], error);
    }
    if (count >= LAST) {
        check_spectrum(c, last, LAST);
        cr_expect_eq(taken.count, count);
        cr_expect_eq(taken.first_sample, want[count - LAST]);
        cr_expect_eq(taken.end_sample, want[count - 1] + s->mvdr_length);
    }
    free(last);
}

/* Missing samples of a channel from a sample on. */
static size_t gaps_of(const struct stream *s, size_t channel, uint64_t first, size_t length,
                      sonar_gap *gap, size_t most) {
    const uint8_t *lost =
        s->lost + (channel >= 2) * (size_t)(s->end - s->first) + (size_t)(first - s->first);
    size_t count = 0;
    for (uint32_t i = 0; i < length; i++)
        if (lost[i] && i && lost[i - 1]) {
            gap[count - 1].end++;
        } else if (lost[i]) {
            cr_assert_lt(count, most, "more gaps than a list holds");
            gap[count++] = (sonar_gap){i, i + 1};
        }
    return count;
}

static void check_cbf_snapshot(const struct stream *s, const sonar_config *c, uint64_t first,
                               const sonar_c32 *have) {
    const sonar_band *band = &c->lofar_band;
    double *window = calloc(c->specs.cbf.length, sizeof *window), error = 0, size = 0;
    sonar_dft_taper(c->specs.dft.taper, c->specs.dft.kaiser_beta, c->specs.cbf.length, window);
    for (size_t k = 0; k < FEED_SENSORS; k++) {
        const float *x = s->x + k * (size_t)(s->end - s->first) + (size_t)(first - s->first);
        sonar_gap gap[SONAR_GAPS_MOST];
        size_t gaps = gaps_of(s, k, first, c->specs.cbf.length, gap, SONAR_GAPS_MOST);
        for (size_t b = 0; b < band->bins; b++) {
            cplx want =
                oracle_psd_bin_with_gaps(x, window, c->specs.cbf.length, band->first_bin + b,
                                         c->fs_hz, c->specs.dft.remove_mean, 0, gaps, gap);
            const sonar_c32 *y = &have[b * FEED_SENSORS + k];
            error += pow(cabs((double)y->re + I * (double)y->im - want), 2);
            size += pow(cabs(want), 2);
        }
    }
    cr_assert(error <= 9e-12 * size, "CBF's snapshot from %d: %g", (int)first, sqrt(error / size));
    free(window);
}

/* All windows come, and all of their snapshots. */
static void compare_cbf(const struct stream *s, const sonar_config *c) {
    cr_assert_eq(heard.windows, windows_of(s));
    for (size_t i = 0; i < heard.windows * c->specs.cbf.max_snapshots; i++) {
        uint64_t first = heard.window_first[i / c->specs.cbf.max_snapshots];
        cr_assert_eq(first, windows_begin(s) + i / c->specs.cbf.max_snapshots * s->hop);
        check_cbf_snapshot(s, c, first + i % c->specs.cbf.max_snapshots * c->specs.cbf_hop,
                           heard.of_window + i * c->lofar_band.bins * FEED_SENSORS);
    }
}

/* The beamformers on the host, the DFT there or on a device. */
static void run(struct stream s, double losses, unsigned dft) {
    feed feed;
    struct layout layout = feed_layout(fake_backend(FAKE_ON_HOST));
    layout.place[SONAR_ENGINE_DFT] = fake_backend(dft);
    fake = (struct fake_device){.listener = listener};
    s.first -= s.first % FEED_FRAME;
    s.end = s.first + SAMPLES + TAIL;
    open_feed(&s, &layout, &feed);
    send_all(&s, &feed, losses);
    await(&feed, windows_of(&s));
    sonar_pipeline_stop(feed.pipeline, 1000);
    compare(&s, feed.config, sonar_engine_read_snapshots(feed.pipeline->engine));
    compare_cbf(&s, feed.config);
    feed_close(&feed);
    cr_expect_eq(fake.faults, 0);
    free(s.lost);
    free(s.x);
    forget();
}

static void run_both(struct stream s, double losses) {
    run(s, losses, FAKE_ON_HOST);
    run(s, losses, FAKE_LAZY | FAKE_GRAPHS);
}

/* Those of the issue, 1/32 as long: one window a snapshot, hops that have no common multiple soon;
 * sub-windows that end in one window and begin in the one before. */
Test(snapshots, every_multiple_of_the_hop_is_taken, NUMERICAL) {
    static const struct stream cases[] = {
        {256, 128, 256, 94, .first = 0},   {256, 128, 256, 3, .first = 0},
        {256, 250, 64, 32, .first = 0},    {256, 128, 256, 128, .first = 0},
        {256, 128, 128, 64, .first = 0},   {256, 128, 256, 64, .first = 0},
        {256, 128, 256, 1000, .first = 0}, {256, 64, 255, 63, .first = 1000},
        {128, 300, 128, 40, .first = 0},   {128, 300, 50, 20, .first = 8000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run_both(cases[i], 0);
}

Test(snapshots, those_between_two_gaps_are_taken) {
    static const struct stream cases[] = {{1024, 512, 64, 32, .first = 0},
                                          {256, 250, 64, 32, .first = 0},
                                          {256, 128, 256, 94, .first = 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run_both(cases[i], 0.02);
}

/* On an offset many times the signal, in blocks of channels that lack different samples; of each
 * snapshot by itself, for an offset that drifts has another mean in each. */
Test(snapshots, the_mean_is_that_of_the_samples_that_are_there) {
    static const struct stream cases[] = {
        {512, 200, 512, 200, .offset = 10000, .first = 0},
        {512, 200, 512, 200, .offset = 10000, .s16 = true, .first = 0},
        {512, 256, 64, 32, 200, 150, .offset = -10000, .drift = 3, .first = 16},
        {512, 300, 300, 32, 200, 150, .offset = -10000, .drift = 3, .s16 = true, .first = 16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run_both(cases[i], 0.03);
}

Test(snapshots, of_any_length_hop_and_gap) {
    for (int trial = 0; trial < 20; trial++) {
        struct stream s = {.length = any(64, 400), .first = any(0, 2) * any(0, 100000)};
        s.hop = any(24, s.length + s.length / 4);
        s.mvdr_length = any(32, s.length);
        s.mvdr_hop = any(5, 2 * s.mvdr_length);
        run_both(s, 0.03 * (double)any(0, 2));
    }
}
