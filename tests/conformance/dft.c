/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dft.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/open.h"
#include "core/core.h"
#include "oracle.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* With a constant of up to 100 if the stage removes the mean. */
static void noise(dft_fixture *f, uint64_t seed) {
    dft_noise(f, f->spec.remove_mean ? 100 * sonar_random_symmetric(&seed) : 0, seed);
}

/* ---- against the oracle ---------------------------------------------------------------------- */

void dft_case_awkward_sizes(site *site) {
    static const size_t lengths[] = {2,    3,   5,    7,    256,  16,    97,   100,   512,  243,
                                     1000, 128, 2048, 1009, 1024, 16384, 4099, 32768, 4096, 8192};
    static const size_t sensors[] = {1, 2, 3, 7, 31, 32, 33, 65, 17, 8, 9};
    for (size_t i = 0; i < (site->quick ? 9 : 2 * COUNT(lengths)); i++) {
        dft_fixture f;
        size_t length = lengths[i % COUNT(lengths)];
        dft_open(&f, site, dft_all_bins(sensors[i % COUNT(sensors)], length),
                 i % 2 ? SONAR_PINNED : SONAR_HOST);
        noise(&f, i);
        dft_run(&f);
        dft_expect(&f, "awkward size", 1 + length / 1024, DFT_MOST_ERROR);
        dft_close(&f);
    }
}

/* Any power of two, band and number of sensors, compared in every bin. */
void dft_case_random_sizes(site *site) {
    uint64_t seed = 17;
    for (size_t i = 0; i < (site->quick ? 4 : 60); i++) {
        size_t length = (size_t)64 << sonar_random_bits(&seed) % 8;
        sonar_dft_spec spec = dft_all_bins(1 + sonar_random_bits(&seed) % 50, length);
        spec.bins = 3 + sonar_random_bits(&seed) % (i % 4 ? 30 : length / 2 - 3);
        spec.first_bin = sonar_random_bits(&seed) % (length / 2 + 2 - spec.bins);
        spec.sensors = 1 + sonar_random_bits(&seed) % 70;
        spec.taper = i % 3 ? SONAR_HANN : SONAR_RECTANGULAR;
        spec.remove_mean = i % 3; /* else the first bin would be empty */
        dft_fixture f;
        dft_open(&f, site, spec, SONAR_PINNED);
        for (size_t k = 0; k < spec.sensors; k++)
            f.used[k] = sonar_random_bits(&seed) % 5 > 0;
        noise(&f, i);
        size_t head = sonar_random_bits(&seed) % (length + 1);
        dft_run_cut(&f, head);
        dft_expect(&f, "random size", 1 + length / 64, DFT_MOST_ERROR);
        dft_expect_as_cpu(&f, head, DFT_MOST_ERROR);
        dft_close(&f);
    }
}

void dft_case_windows_and_bands(site *site) {
    static const size_t lengths[] = {300, 1200, 2048};
    for (size_t i = 0; i < COUNT(lengths); i++)
        for (int taper = SONAR_HANN; taper <= SONAR_FLATTOP; taper++) {
            sonar_dft_spec spec = dft_all_bins(9, lengths[i]);
            spec.taper = (sonar_taper)taper;
            spec.kaiser_beta = 8;
            spec.first_bin = i ? 17 : 33;
            spec.bins = 45 + (size_t)taper;
            spec.remove_mean = taper % 2;
            dft_fixture f;
            dft_open(&f, site, spec, SONAR_PINNED);
            noise(&f, (uint64_t)taper);
            dft_run(&f);
            dft_expect(&f, "taper", 1, DFT_MOST_ERROR);
            dft_close(&f);
        }
}

/* The first and the last bin, which are their own mirror images, alone and with their neighbours;
 * both are not empty. */
void dft_case_dc_and_nyquist(site *site) {
    for (int i = 0; i < 8; i++) {
        size_t length = i & 1 ? 256 : 1024, bins = i & 2 ? 1 : 3;
        sonar_dft_spec spec = dft_all_bins(5, length);
        spec.bins = bins;
        spec.first_bin = i & 4 ? length / 2 + 1 - bins : 0;
        spec.taper = SONAR_RECTANGULAR;
        spec.remove_mean = false;
        dft_fixture f;
        dft_open(&f, site, spec, SONAR_PINNED);
        noise(&f, length + bins);
        for (size_t j = 0; j < spec.channels * f.row; j++)
            ((float *)f.x.data)[j] += j % f.row % 2 ? 0 : 2;
        dft_run(&f);
        dft_expect(&f, i & 4 ? "Nyquist" : "DC", 1, DFT_MOST_ERROR);
        dft_close(&f);
    }
}

/* A constant a million times as large as the rest, within the precision of floats. */
void dft_case_offsets(site *site) {
    for (size_t length = 1000; length <= 4096; length += 3096) {
        dft_fixture f;
        dft_open(&f, site, dft_all_bins(4, length), SONAR_PINNED);
        dft_noise(&f, 1e6 + 0.1, length);
        dft_run_cut(&f, length / 2);
        dft_expect(&f, "offset", 1, DFT_MOST_ERROR);
        dft_close(&f);
    }
}

/* 2-norm error of the bins away from a tone 100 dB above the noise in them. */
static double error_beside(site *site, double tone_bin, size_t length) {
    sonar_dft_spec spec = dft_all_bins(1, length);
    spec.taper = SONAR_KAISER; /* 160 dB down beside the tone */
    spec.kaiser_beta = 18;
    dft_fixture f;
    uint64_t seed = length;
    dft_open(&f, site, spec, SONAR_PINNED);
    float *x = dft_samples(&f, 0);
    for (size_t i = 0; i < length; i++)
        x[i] = (float)(1e5 * sin(2 * M_PI * tone_bin * (double)i / (double)length) +
                       sonar_random_normal(&seed));
    dft_run(&f);
    double *taper = sonar_alloc(length, sizeof *taper), error = 0, size = 0;
    sonar_dft_taper(spec.taper, spec.kaiser_beta, length, taper);
    for (size_t b = 1; b < spec.bins; b += 1 + length / 512) {
        if (fabs((double)b - tone_bin) < 12)
            continue;
        double complex want = oracle_psd_bin(x, taper, length, b, spec.fs_hz, true);
        error += pow(cabs(dft_bin(&f, b, 0) - want), 2);
        size += pow(cabs(want), 2);
    }
    free(taper);
    dft_close(&f);
    return sqrt(error / size);
}

/* Beside a loud tone no stage has larger errors than FFTW on the CPU, except for random rounding.
 */
void dft_case_loud_tone(site *here) {
    site cpu = site_open(sonar_backend_cpu(), sonar_host_serial());
    const size_t length = here->quick ? 512 : 8192;
    for (int i = 0; i < 3; i++) {
        const double bin = (double)length * (const double[]){0.07, 0.2501, 0.41}[i];
        const double error = error_beside(here, bin, length),
                     library = error_beside(&cpu, bin, length);
        site_expect(here, library < 0.2 && error <= 3 * library,
                    "N %zu, tone at bin %g: %g beside it, FFTW %g", length, bin, error, library);
    }
    site_close(&cpu);
}

void dft_try_sensors(site *site, size_t sensors, size_t length) {
    sonar_dft_spec spec = dft_all_bins(sensors, length);
    spec.first_bin = length / 240;
    spec.bins = length / 18;
    dft_fixture f;
    dft_open(&f, site, spec, SONAR_PINNED);
    noise(&f, 11);
    dft_run_cut(&f, 5 * length / 8);
    dft_expect(&f, "many sensors", sensors / 3, DFT_MOST_ERROR);
    dft_expect_as_cpu(&f, 5 * length / 8, DFT_MOST_ERROR);
    dft_close(&f);
}

void dft_case_many_sensors(site *site) {
    dft_try_sensors(site, site->quick ? 40 : 2048, site->quick ? 1024 : 8192);
}

/* ---- properties ------------------------------------------------------------------------------ */

void dft_case_impulse_is_flat_and_its_phase_falls(site *site) {
    dft_fixture f;
    sonar_dft_spec spec = dft_all_bins(1, 64);
    spec.taper = SONAR_RECTANGULAR;
    spec.remove_mean = false;
    dft_open(&f, site, spec, SONAR_HOST);
    dft_samples(&f, 0)[3] = 1;
    dft_run(&f);
    for (size_t b = 0; b < spec.bins; b++) {
        double size = sqrt((b == 0 || b == 32 ? 1 : 2) / (8000.0 * 64));
        double complex want = size * cexp(-2 * M_PI * I * 3 * (double)b / 64);
        double error = cabs(dft_bin(&f, b, 0) - want) / size;
        site_expect(site, error < 1e-6, "bin %zu: %g", b, error);
    }
    dft_close(&f);
}

void dft_case_linear(site *site) {
    dft_fixture f;
    dft_open(&f, site, dft_all_bins(3, 250), SONAR_HOST);
    dft_noise(&f, 0, 9);
    for (size_t t = 0; t < 250; t++)
        dft_samples(&f, 2)[t] = 2 * dft_samples(&f, 0)[t] - 3 * dft_samples(&f, 1)[t];
    dft_run(&f);
    for (size_t b = 0; b < f.spec.bins; b++) {
        double complex want = 2 * dft_bin(&f, b, 0) - 3 * dft_bin(&f, b, 1);
        double error = cabs(dft_bin(&f, b, 2) - want);
        site_expect(site, error < 1e-6, "bin %zu: %g", b, error);
    }
    dft_close(&f);
}

/* X(f) = sum x(t) e^{-j 2 pi f t}: a delay turns the phase clockwise. */
void dft_case_circular_shift_turns_the_phase(site *site) {
    dft_fixture f;
    sonar_dft_spec spec = dft_all_bins(2, 210);
    spec.taper = SONAR_RECTANGULAR;
    dft_open(&f, site, spec, SONAR_HOST);
    dft_noise(&f, 0, 10);
    for (size_t t = 0; t < 210; t++)
        dft_samples(&f, 1)[(t + 11) % 210] = dft_samples(&f, 0)[t];
    dft_run(&f);
    for (size_t b = 1; b < spec.bins; b++) {
        double complex want = dft_bin(&f, b, 0) * cexp(-2 * M_PI * I * 11 * (double)b / 210);
        double error = cabs(dft_bin(&f, b, 1) - want);
        site_expect(site, error < 1e-7, "bin %zu: %g", b, error);
    }
    dft_close(&f);
}

void dft_case_mean_is_removed_before_the_taper(site *site) {
    dft_fixture f;
    uint64_t seed = 11;
    dft_open(&f, site, dft_all_bins(2, 512), SONAR_HOST);
    for (size_t t = 0; t < 512; t++) { /* multiples of 2^-8 stay exact beside the offset */
        float x = (float)(floor(256 * sonar_random_symmetric(&seed)) / 256);
        dft_samples(&f, 0)[t] = x;
        dft_samples(&f, 1)[t] = x + 4096;
    }
    dft_run(&f);
    for (size_t b = 0; b < f.spec.bins; b++) {
        double error = cabs(dft_bin(&f, b, 0) - dft_bin(&f, b, 1));
        site_expect(site, error < 1e-8, "bin %zu: %g", b, error);
    }
    dft_close(&f);
}

void dft_case_silence_stays_zero(site *site) {
    for (size_t length = 64; length <= 256; length *= 4) {
        sonar_dft_spec spec = dft_all_bins(3, length);
        spec.equalise_phase = true;
        dft_fixture f;
        dft_open(&f, site, spec, SONAR_PINNED);
        dft_run(&f);
        for (size_t b = 0; b < spec.bins; b++)
            for (size_t k = 0; k < 3; k++)
                site_expect(site, dft_bin(&f, b, k) == 0, "N %zu: bin %zu of sensor %zu", length, b,
                            k);
        dft_close(&f);
    }
}

/* ---- where the samples are ------------------------------------------------------------------- */

/* The same bits from host memory, from the backend's own memory, and for every split of the window.
 */
void dft_case_cuts_and_spaces(site *site) {
    for (size_t length = 600; length >= 512; length -= 88) {
        dft_fixture f;
        sonar_buffer in[SONAR_DFT_INPUTS];
        dft_open(&f, site, dft_all_bins(21, length), SONAR_PINNED);
        noise(&f, 7);
        sonar_buffer there = site_buffer(site, SONAR_F32, 2, f.x.shape);
        site_copy(site, &f.x, &there);
        dft_run(&f);
        dft_expect(&f, "uncut", 1, DFT_MOST_ERROR);
        void *first = dft_copy_of_y(&f);
        for (size_t head = 0; head <= length; head += length / 8 | 1) {
            dft_run_cut(&f, head);
            dft_expect_bits(&f, first, "cut at", head);
            dft_cut(&f, &there, head, in);
            dft_run_on(&f, in, NULL);
            dft_expect_bits(&f, first, "cut in the backend's memory at", head);
        }
        free(first);
        site_free(site, &there);
        dft_close(&f);
    }
}

void dft_case_wrap_at_every_position(site *site) {
    dft_fixture f;
    dft_open(&f, site, dft_all_bins(3, 24), SONAR_HOST);
    dft_noise(&f, 0, 12);
    dft_run(&f);
    void *whole = dft_copy_of_y(&f);
    for (size_t head = 0; head <= 24; head++) {
        dft_run_cut(&f, head);
        dft_expect_bits(&f, whole, "cut after", head);
    }
    free(whole);
    dft_close(&f);
}

/* The bits of the same numbers as floats. A device's own kernels for powers of two are compiled for
 * each type and may differ in the last bits between types, but not between sources of the samples.
 */
static void s16_samples(site *site, size_t length, bool bits_of_floats) {
    dft_fixture f;
    uint64_t seed = 13;
    sonar_buffer in[SONAR_DFT_INPUTS];
    dft_open(&f, site, dft_all_bins(21, length), SONAR_PINNED);
    sonar_buffer here = site_buffer_in(site, SONAR_PINNED, SONAR_S16, 2, f.x.shape);
    sonar_buffer there = site_buffer(site, SONAR_S16, 2, f.x.shape);
    for (size_t i = 0; i < sonar_buffer_count(&here); i++)
        ((float *)f.x.data)[i] = ((int16_t *)here.data)[i] =
            (int16_t)(i % 2 ? 32760 + sonar_random_bits(&seed) % 8 : sonar_random_bits(&seed));
    ((int16_t *)here.data)[0] = INT16_MIN, dft_samples(&f, 0)[0] = INT16_MIN;
    site_copy(site, &here, &there);
    dft_run(&f);
    void *want = dft_copy_of_y(&f);
    for (size_t head = 0; head <= length; head += length / 8 | 1) {
        dft_cut(&f, head % 2 ? &here : &there, head, in);
        dft_run_on(&f, in, NULL);
        if (!bits_of_floats && head == 0) {
            dft_expect(&f, "s16", 1, DFT_MOST_ERROR);
            memcpy(want, f.y.data, f.y.bytes);
        }
        dft_expect_bits(&f, want, "s16 cut at", head);
    }
    free(want);
    site_free(site, &here);
    site_free(site, &there);
    dft_close(&f);
}

void dft_case_s16_samples(site *site) {
    s16_samples(site, 600, true);
    s16_samples(site, 101, true);
    s16_samples(site, 512, !site_is_device(site));
}

/* ---- rings ----------------------------------------------------------------------------------- */

/* A ring on the device that holds the window of f->x from `start` on; the rest of the ring must not
 * be read. */
struct ring {
    sonar_dtype dtype;
    size_t capacity;
    sonar_buffer here, there, column_here, column_there;
};

static struct ring ring_open(dft_fixture *f, sonar_dtype dtype, size_t capacity) {
    size_t shape[2] = {f->spec.channels, capacity}, one[1] = {1};
    struct ring ring = {.dtype = dtype, .capacity = capacity};
    ring.here = site_buffer_in(f->site, SONAR_PINNED, dtype, 2, shape);
    ring.there = site_buffer(f->site, dtype, 2, shape);
    ring.column_here = site_buffer_in(f->site, SONAR_PINNED, SONAR_U64, 1, one);
    ring.column_there = site_buffer(f->site, SONAR_U64, 1, one);
    if (dtype == SONAR_S16)
        for (size_t i = 0; i < f->spec.channels * f->row; i++)
            ((float *)f->x.data)[i] = rintf(20 * ((float *)f->x.data)[i]);
    return ring;
}

static void ring_close(dft_fixture *f, struct ring *ring) {
    site_free(f->site, &ring->here);
    site_free(f->site, &ring->there);
    site_free(f->site, &ring->column_here);
    site_free(f->site, &ring->column_there);
}

static void ring_fill(const dft_fixture *f, struct ring *ring, size_t start) {
    float *f32 = ring->here.data;
    int16_t *s16 = ring->here.data;
    for (size_t i = 0; i < f->spec.channels * ring->capacity; i++) {
        size_t c = i / ring->capacity, at = i % ring->capacity;
        size_t t = (at + ring->capacity - start) % ring->capacity;
        bool inside = t < f->spec.length;
        float x = inside ? dft_samples(f, c)[t] : 0;
        if (ring->dtype == SONAR_S16)
            s16[i] = inside ? (int16_t)x : INT16_MAX;
        else
            f32[i] = inside ? x : (float)NAN;
    }
    site_copy(f->site, &ring->here, &ring->there);
}

static void ring_set(const dft_fixture *f, struct ring *ring, uint64_t column) {
    *(uint64_t *)ring->column_here.data = column;
    site_copy(f->site, &ring->column_here, &ring->column_there);
}

static void ring_run(dft_fixture *f, const struct ring *ring, size_t offset) {
    sonar_buffer in[SONAR_DFT_INPUTS] = {[SONAR_DFT_HEAD] = ring->there};
    f->from = offset;
    dft_run_on(f, in, &ring->column_there);
}

/* Windows that begin at either end, wrap after one sample, before the last and in the middle: the
 * same samples and hence the same bits. */
static void ring_of(site *site, size_t length, size_t spare, sonar_dtype dtype) {
    dft_fixture f;
    dft_open(&f, site, dft_all_bins(7, length), SONAR_HOST);
    noise(&f, length + spare);
    size_t capacity = length + spare;
    struct ring ring = ring_open(&f, dtype, capacity);
    const size_t starts[] = {0,
                             1,
                             spare,
                             (spare + 1) % capacity,
                             capacity - 1,
                             capacity - 2,
                             capacity - length / 2,
                             capacity - length / 3};
    void *first = NULL;
    for (size_t i = 0; i < COUNT(starts); i++) {
        size_t offset = i % 3 ? 3 * i + i % 2 : 0;
        uint64_t column = starts[i] + capacity - offset % capacity;
        ring_fill(&f, &ring, starts[i]);
        ring_set(&f, &ring, i % 2 ? column : column % capacity);
        ring_run(&f, &ring, offset);
        if (i == 0) {
            dft_expect(&f, dtype == SONAR_S16 ? "s16 ring" : "f32 ring", 1 + length / 2048,
                       DFT_MOST_ERROR);
            first = dft_copy_of_y(&f);
        }
        dft_expect_bits(&f, first, "ring from column", starts[i]);
    }
    free(first);
    ring_close(&f, &ring);
    dft_close(&f);
}

/* Only backends with their own memory accept a column; others refuse it (wrong_rings). */
void dft_case_rings(site *site) {
    static const size_t lengths[] = {256, 97, 512, 1009, 2048, 600, 8192, 32768};
    if (!site_is_device(site)) {
        site_expect(site, true, "not here");
        return;
    }
    for (size_t i = 0; i < (site->quick ? 3 : COUNT(lengths)); i++)
        for (size_t spare = 0; spare < 4; spare++)
            ring_of(site, lengths[i], spare * spare * 7, (i + spare) % 2 ? SONAR_S16 : SONAR_F32);
}

/* A graph recorded once gives the bits of a direct call, for every later column. */
static void recorded(site *site, size_t length, sonar_dtype dtype) {
    const sonar_backend *b = site->backend;
    dft_fixture f;
    sonar_error err = {0};
    sonar_graph *graph = NULL;
    dft_open(&f, site, dft_all_bins(5, length), SONAR_PINNED);
    f.used[3] = 0;
    noise(&f, length);
    struct ring ring = ring_open(&f, dtype, length); /* the window is the whole ring */
    sonar_buffer in[SONAR_DFT_INPUTS] = {[SONAR_DFT_HEAD] = ring.there};
    ring_fill(&f, &ring, 0);
    ring_set(&f, &ring, 0);
    ring_run(&f, &ring, 2);
    site_require(site, b->graph_begin(site->queue, &err), &err);
    site_require(site, dft_execute(&f, in, &ring.column_there, &err), &err);
    site_require(site, b->graph_end(site->queue, &graph, &err), &err);
    void *before = NULL;
    for (size_t i = 0; i < 5; i++) {
        ring_set(&f, &ring, i * length / 4 + i * i);
        ring_run(&f, &ring, 2);
        void *want = dft_copy_of_y(&f);
        memset(f.y.data, 0xff, f.y.bytes);
        site_copy(site, &f.y, &f.out);
        site_require(site, b->graph_run(site->queue, graph, &err), &err);
        site_copy(site, &f.out, &f.y);
        dft_expect_bits(&f, want, "replay", i);
        site_expect(site, !before || memcmp(before, want, f.y.bytes) != 0,
                    "N %zu: the column %zu changes nothing", length, i);
        free(before);
        before = want;
    }
    free(before);
    site_settle(site);
    b->graph_destroy(graph);
    ring_close(&f, &ring);
    dft_close(&f);
}

void dft_case_recorded(site *site) {
    if (!site->backend->graph_begin) {
        site_expect(site, true, "not here");
        return;
    }
    recorded(site, 512, SONAR_F32);
    recorded(site, 8192, SONAR_S16);
    recorded(site, 1000, SONAR_S16);
}

/* ---- gaps ------------------------------------------------------------------------------------ */

enum { GAP_CHANNELS = 21, GAP_MORE = 60 };

/* Different gaps with any content in each channel, in a window that is longer than the transform;
 * from two pieces, and from a ring. */
static void gaps(site *site, size_t length, bool remove_mean, sonar_dtype dtype, uint64_t seed) {
    uint32_t count[GAP_CHANNELS];
    sonar_gap gap[GAP_CHANNELS * SONAR_GAPS_MOST];
    sonar_dft_spec spec = dft_all_bins(GAP_CHANNELS, length);
    spec.remove_mean = remove_mean;
    dft_fixture f;
    dft_open(&f, site, spec, SONAR_PINNED);
    f.used[3] = 0;
    dft_noise(&f, remove_mean ? 300 : 0, length);
    struct ring ring = ring_open(&f, dtype, length + 9);
    ring_fill(&f, &ring, length / 2);
    for (size_t trial = 0; trial < (length > 1024 ? 1 : 4); trial++) {
        oracle_gaps(&seed, GAP_CHANNELS, (uint32_t)length + GAP_MORE, count, gap);
        f.from = sonar_random_bits(&seed) % (GAP_MORE + 1);
        f.gaps = (sonar_gaps){count, gap};
        dft_run_cut(&f, sonar_random_bits(&seed) % (length + 1));
        dft_expect(&f, "gaps", 1 + length / 4096, 2e-6);
        if (site_is_device(site)) {
            ring_set(&f, &ring, length / 2 + 2 * ring.capacity - f.from);
            ring_run(&f, &ring, f.from);
            dft_expect(&f, "gaps in a ring", 1 + length / 4096, 2e-6);
        }
        f.gaps.count = NULL; /* and the next window, which is complete */
        dft_run(&f);
        dft_expect(&f, "no gaps after gaps", 1 + length / 2048, DFT_MOST_ERROR);
    }
    ring_close(&f, &ring);
    dft_close(&f);
}

void dft_case_gaps(site *site) {
    static const size_t lengths[] = {256, 600, 512, 97, 1024, 4096, 8192, 32768};
    for (uint64_t seed = 1; seed <= (site->quick ? 2 : 10); seed++)
        gaps(site, 100, seed % 4 != 0, SONAR_F32, seed);
    for (size_t i = 0; i < (site->quick ? 3 : COUNT(lengths)); i++)
        for (uint64_t k = 0; k < 3; k++)
            gaps(site, lengths[i], k != 1, k ? SONAR_F32 : SONAR_S16, lengths[i] + k);
}

/* 3 % of a window are lost, with noise of 10 on an offset of 300, in all channels equally. The sum
 * of all channels at broadside must stay that of independent noise. */
void dft_case_a_lost_frame_makes_no_contact_of_an_offset(site *site) {
    enum { CHANNELS = 32, LENGTH = 4096, BINS = 64 };
    uint32_t count[CHANNELS];
    sonar_gap gap[CHANNELS * SONAR_GAPS_MOST];
    dft_fixture f;
    uint64_t seed = 5;
    dft_open(&f, site, dft_all_bins(CHANNELS, LENGTH), SONAR_HOST);
    for (size_t k = 0; k < CHANNELS; k++) {
        count[k] = 1;
        gap[k * SONAR_GAPS_MOST] = (sonar_gap){2000, 2123};
        for (size_t i = 0; i < LENGTH; i++)
            dft_samples(&f, k)[i] =
                i >= 2000 && i < 2123 ? 0 : (float)(300 + 10 * sonar_random_normal(&seed));
    }
    f.gaps = (sonar_gaps){count, gap};
    dft_run(&f);
    double together = 0, alone = 0;
    for (size_t b = 20; b < 20 + BINS; b++) {
        double complex sum = 0;
        for (size_t k = 0; k < CHANNELS; k++) {
            sum += dft_bin(&f, b, k);
            alone += pow(cabs(dft_bin(&f, b, k)), 2);
        }
        together += pow(cabs(sum), 2);
    }
    double db = 10 * log10(together / alone);
    site_expect(site, fabs(db) < 1.5, "%g dB", db);
    dft_close(&f);
}

/* ---- levels ---------------------------------------------------------------------------------- */

static double mean_square_of_spectrum(const dft_fixture *f, size_t k) {
    double sum = 0;
    for (size_t b = 0; b < f->spec.bins; b++)
        sum += pow(cabs(dft_bin(f, b, k)), 2);
    return sum * f->spec.fs_hz / (double)f->spec.length;
}

/* Parseval's theorem for the one-sided density, odd and even N: fails if DC or Nyquist counts
 * twice. */
void dft_case_density_sums_to_the_mean_square(site *site) {
    for (size_t n = 6; n <= 101; n += site->quick ? 19 : 1) {
        dft_fixture f;
        sonar_dft_spec spec = dft_all_bins(2, n);
        spec.taper = SONAR_RECTANGULAR;
        spec.remove_mean = false;
        dft_open(&f, site, spec, SONAR_HOST);
        dft_noise(&f, 0, n);
        for (size_t t = 0; t < n; t++)
            dft_samples(&f, 1)[t] = t % 2 ? 0.5f : 2.5f; /* all its power at DC and Nyquist */
        dft_run(&f);
        for (size_t k = 0; k < 2; k++) {
            double want = 0;
            for (size_t t = 0; t < n; t++)
                want += pow((double)dft_samples(&f, k)[t], 2) / (double)n;
            double ratio = mean_square_of_spectrum(&f, k) / want;
            site_expect(site, fabs(ratio - 1) < 1e-5, "N %zu, sensor %zu: %g", n, k, ratio);
        }
        dft_close(&f);
    }
}

void dft_case_calibrated_tone_reads_its_mean_square(site *site) {
    static const double cycles[4] = {100, 100.3, 411.5, 777.77};
    dft_fixture f;
    dft_open(&f, site, dft_all_bins(4, 2048), SONAR_HOST);
    for (size_t k = 0; k < 4; k++) {
        f.scale[k] = 50;
        for (size_t t = 0; t < 2048; t++)
            dft_samples(&f, k)[t] =
                (float)(0.02 * 3 * sin(2 * M_PI * cycles[k] * (double)t / 2048));
    }
    dft_run(&f);
    for (size_t k = 0; k < 4; k++) {
        double db = 10 * log10(mean_square_of_spectrum(&f, k) / 4.5);
        site_expect(site, fabs(db) < 0.1, "%g cycles: %g dB", cycles[k], db);
    }
    dft_close(&f);
}

void dft_case_white_noise_is_flat_at_its_level(site *site) {
    dft_fixture f;
    dft_open(&f, site, dft_all_bins(1600, 512), SONAR_HOST);
    dft_noise(&f, 0, 14);
    dft_run(&f);
    double low = 0, high = 0; /* variance 1 over fs/2: density 2/fs */
    for (size_t b = 5; b < 251; b++)
        for (size_t k = 0; k < 1600; k++)
            *(b < 128 ? &low : &high) += pow(cabs(dft_bin(&f, b, k)), 2) / (1600 * 123);
    site_expect(site, fabs(10 * log10(low * 4000)) < 0.05, "low half: %g of 1/4000", low * 4000);
    site_expect(site, fabs(10 * log10(high * 4000)) < 0.05, "high half: %g of 1/4000", high * 4000);
    dft_close(&f);
}

/* ---- corrections, mask, map ------------------------------------------------------------------ */

/* Channels out of order, masks, corrections, and then other corrections. */
static void corrections(site *site, bool equalise) {
    sonar_dft_spec spec = dft_all_bins(70, 512);
    spec.sensors = 50;
    spec.equalise_phase = equalise;
    dft_fixture f;
    uint64_t seed = 3;
    dft_open(&f, site, spec, SONAR_HOST);
    noise(&f, 4);
    for (uint64_t version = 1; version <= 3; version++) {
        f.params.version = version;
        for (size_t k = 0; k < spec.sensors; k++) {
            f.channel[k] = (uint32_t)((k * 29 + 11 * version) % 61 + 3);
            f.used[k] = version == 3 ? 0 : sonar_random_bits(&seed) % 4 > 0;
            f.scale[k] = (float)(1.5 + sonar_random_symmetric(&seed));
            f.phase_turns[k] = sonar_random_symmetric(&seed);
            f.delay_s[k] = 3 * sonar_random_symmetric(&seed);
        }
        dft_run(&f);
        dft_expect(&f, equalise ? "equalised" : "corrected", 1, equalise ? 1e-5 : DFT_MOST_ERROR);
    }
    dft_close(&f);
}

void dft_case_corrections(site *site) {
    corrections(site, false);
    corrections(site, true);
}

/* Sensor k gets the same tones delayed by delay_s, turned back by phase_turns and scaled by
 * 1/scale. */
void dft_case_corrections_undo_the_errors(site *site) {
    enum { N = 1000, K = 11 };
    dft_fixture f;
    sonar_dft_spec spec = dft_all_bins(K, N);
    spec.first_bin = 40;
    spec.bins = 400;
    dft_open(&f, site, spec, SONAR_HOST);
    uint64_t seed = 15;
    for (size_t k = 1; k < K; k++) {
        f.delay_s[k] = 2e-3 * sonar_random_symmetric(&seed);
        f.phase_turns[k] = 3 * sonar_random_symmetric(&seed);
        f.scale[k] = (float)pow(10, sonar_random_symmetric(&seed));
    }
    for (size_t tone = 50; tone < 430; tone += 29)
        for (size_t k = 0; k < K; k++)
            for (size_t t = 0; t < N; t++) {
                double late = (double)t / 8000 - f.delay_s[k];
                double phase = 8.0 * (double)tone * late - f.phase_turns[k];
                dft_samples(&f, k)[t] += (float)(cos(2 * M_PI * phase) / (double)f.scale[k]);
            }
    dft_run(&f);
    double size = cabs(dft_bin(&f, 10, 0));
    for (size_t b = 10; b < 390; b += 29)
        for (size_t k = 0; k < K; k++) {
            double error = cabs(dft_bin(&f, b, k) - dft_bin(&f, b, 0)) / size;
            site_expect(site, error < 3e-6, "bin %zu of sensor %zu: %g", b, k, error);
            site_expect(site, fabs(cabs(dft_bin(&f, b, k)) / size - 1) < 1e-4,
                        "level of bin %zu of sensor %zu", b, k);
        }
    dft_close(&f);
}

void dft_case_long_delays_keep_their_phase_in_the_last_bin(site *site) {
    enum { N = 32768 };
    dft_fixture f;
    dft_open(&f, site, dft_all_bins(1, N), SONAR_HOST);
    dft_noise(&f, 0, 16);
    dft_run(&f);
    double complex plain = dft_bin(&f, N / 2 - 1, 0);
    f.delay_s[0] = 1.2345678;
    f.params.version++;
    dft_run(&f);
    double turns = (N / 2 - 1) * 8000.0 / N * 1.2345678;
    double complex want = plain * cexp(2 * M_PI * I * (turns - rint(turns)));
    double error = cabs(dft_bin(&f, N / 2 - 1, 0) - want) / cabs(want);
    site_expect(site, error < 1e-6, "%g", error);
    dft_close(&f);
}

/* The samples of a masked channel must not matter, not even NaN. */
void dft_case_masked_channels_may_hold_anything(site *site) {
    for (size_t length = 100; length <= 256; length += 156) {
        dft_fixture f;
        dft_open(&f, site, dft_all_bins(21, length), SONAR_HOST);
        dft_noise(&f, 0, 17);
        for (size_t k = 0; k < 21; k += 4) {
            f.used[k] = 0;
            for (size_t t = 0; t < length; t++)
                dft_samples(&f, k)[t] = NAN;
        }
        dft_run(&f);
        dft_expect(&f, "beside a masked channel of NaN", 1, DFT_MOST_ERROR);
        dft_close(&f);
    }
}

void dft_case_sensors_follow_the_channel_map(site *site) {
    dft_fixture f;
    sonar_dft_spec spec = dft_all_bins(13, 100);
    spec.sensors = 10; /* three channels feed no sensor, one feeds two */
    dft_open(&f, site, spec, SONAR_HOST);
    dft_noise(&f, 0, 18);
    for (size_t k = 0; k < 10; k++)
        f.channel[k] = (uint32_t)((k * 5 + 3) % 13);
    f.channel[9] = f.channel[2];
    dft_run(&f);
    dft_expect(&f, "mapped", 1, DFT_MOST_ERROR);
    dft_close(&f);
}

void dft_case_a_new_version_of_the_parameters_is_taken_up(site *site) {
    dft_fixture f;
    dft_open(&f, site, dft_all_bins(9, 100), SONAR_HOST);
    dft_noise(&f, 0, 19);
    dft_run(&f);
    double complex before = dft_bin(&f, 20, 8);
    f.used[3] = 0;
    f.scale[8] = 2;
    f.params.version = 7;
    dft_run(&f);
    site_expect(site, dft_bin(&f, 20, 3) == 0, "a new mask");
    site_expect(site, cabs(dft_bin(&f, 20, 8) - 2 * before) < 1e-9, "a new scale");
    memset(f.used, 0, 9);
    f.params.version = 8;
    dft_run(&f);
    dft_expect(&f, "all masked", 1, 0);
    dft_close(&f);
}

void dft_case_equalised_bins_keep_only_their_phase(site *site) {
    dft_fixture f;
    sonar_dft_spec spec = dft_all_bins(3, 100);
    spec.equalise_phase = true;
    dft_open(&f, site, spec, SONAR_HOST);
    dft_noise(&f, 0, 20);
    memset(dft_samples(&f, 1), 0, 100 * sizeof(float)); /* 0 stays 0 */
    dft_run(&f);
    double w[100];
    sonar_dft_taper(SONAR_HANN, 0, 100, w);
    for (size_t b = 2; b < f.spec.bins; b++) {
        double complex want = oracle_psd_bin(dft_samples(&f, 0), w, 100, b, 8000, true);
        double error = cabs(dft_bin(&f, b, 0) - want / cabs(want));
        site_expect(site, error < 1e-5, "bin %zu: %g", b, error);
        site_expect(site, dft_bin(&f, b, 1) == 0, "bin %zu of silence", b);
    }
    dft_close(&f);
}

/* ---- threads --------------------------------------------------------------------------------- */

void dft_case_workers_change_no_bit(site *site) {
    const sonar_host *given = site->host;
    void *first = NULL;
    for (size_t workers = 1; workers <= 3; workers++) {
        sonar_error err = {0};
        sonar_pool *pool;
        site_require(site, sonar_pool_create(workers, NULL, &pool, &err), &err);
        sonar_host host = *given;
        host.ctx = pool;
        host.parallel = sonar_pool_parallel;
        host.workers = workers;
        site->host = &host;
        dft_fixture f;
        dft_open(&f, site, dft_all_bins(67, 1000), SONAR_HOST);
        dft_noise(&f, 0, 21);
        f.delay_s[5] = 1e-4;
        dft_run(&f);
        if (!first)
            first = dft_copy_of_y(&f);
        dft_expect_bits(&f, first, "workers", workers);
        dft_close(&f);
        sonar_pool_destroy(pool);
    }
    site->host = given;
    free(first);
}

/* ---- what is refused ------------------------------------------------------------------------- */

void dft_case_impossible_specs(site *site) {
    const sonar_stage_ops *ops = site->backend->stage("dft");
    sonar_dft_spec bad[8];
    for (size_t i = 0; i < COUNT(bad); i++)
        bad[i] = dft_all_bins(1, 16);
    bad[0].length = 1;
    bad[1].bins = 10;
    bad[2].first_bin = 1;
    bad[3].channels = bad[3].sensors = 0;
    bad[4].fs_hz = NAN;
    bad[5].taper = SONAR_KAISER;
    bad[5].kaiser_beta = -1;
    bad[6].first_bin = SIZE_MAX;
    bad[7].taper = SONAR_FLATTOP + 1;
    for (size_t i = 0; i < COUNT(bad); i++) {
        sonar_error err = {0};
        void *stage = bad;
        sonar_code code = ops->create(&bad[i], site->host, &stage, &err);
        site_expect(site, code == SONAR_EINVAL && !stage && err.text[0], "case %zu: code %d", i,
                    (int)code);
    }
    ops->destroy(NULL);
}

static void refused(dft_fixture *f, const sonar_buffer in[SONAR_DFT_INPUTS],
                    const sonar_buffer *column, const char *what) {
    sonar_error err = {0};
    sonar_code code = dft_execute(f, in, column, &err);
    site_expect(f->site, code == SONAR_EINVAL && err.text[0], "%s: code %d", what, (int)code);
}

void dft_case_wrong_shapes(site *site) {
    dft_fixture f;
    sonar_buffer in[SONAR_DFT_INPUTS];
    dft_open(&f, site, dft_all_bins(4, 64), SONAR_PINNED);
    f.params.sensors = 3;
    dft_cut(&f, &f.x, 60, in);
    refused(&f, in, NULL, "parameters of other sensors");
    f.params.sensors = 4;
    in[SONAR_DFT_TAIL].shape[1]--;
    refused(&f, in, NULL, "a sample too few");
    dft_cut(&f, &f.x, 60, in);
    in[SONAR_DFT_TAIL].dtype = SONAR_S16;
    refused(&f, in, NULL, "a tail of another type");
    dft_cut(&f, &f.x, 60, in);
    f.out.shape[0]--;
    refused(&f, in, NULL, "a bin too few");
    f.out.shape[0]++;
    if (site_is_device(site)) {
        f.out.space = SONAR_PINNED;
        refused(&f, in, NULL, "output in host memory");
        f.out.space = SONAR_DEVICE;
    }
    f.channel[2] = 4;
    f.params.version++;
    refused(&f, in, NULL, "a channel that does not exist");
    f.channel[2] = 2;
    f.params.version++;
    dft_noise(&f, 0, 23);
    dft_run_cut(&f, 60);
    dft_expect(&f, "after refusals", 1, DFT_MOST_ERROR);
    dft_close(&f);
}

void dft_case_wrong_rings(site *site) {
    dft_fixture f;
    dft_open(&f, site, dft_all_bins(4, 64), SONAR_PINNED);
    struct ring ring = ring_open(&f, SONAR_F32, 63), good = ring_open(&f, SONAR_F32, 80);
    sonar_buffer in[SONAR_DFT_INPUTS] = {[SONAR_DFT_HEAD] = good.there};
    if (site_is_device(site)) {
        in[SONAR_DFT_HEAD] = ring.there;
        refused(&f, in, &ring.column_there, "a ring shorter than the window");
        in[SONAR_DFT_HEAD] = good.there;
        dft_run_on(&f, in, &good.column_there);
        in[SONAR_DFT_HEAD].space = SONAR_PINNED;
        refused(&f, in, &good.column_there, "a ring in host memory");
        in[SONAR_DFT_HEAD].space = SONAR_DEVICE;
        in[SONAR_DFT_TAIL] = good.there;
        refused(&f, in, &good.column_there, "a ring with a tail");
    } else {
        sonar_error err = {0};
        sonar_code code = dft_execute(&f, in, &good.column_there, &err);
        site_expect(site, code == SONAR_EINVAL && strstr(err.text, "ring"), "code %d: %s",
                    (int)code, err.text);
    }
    site_settle(site);
    ring_close(&f, &ring);
    ring_close(&f, &good);
    dft_close(&f);
}
