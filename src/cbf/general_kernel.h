/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The sums of general_cpu.c for LANES slots at a time, for one instruction set. Included once for
 * each set, with NAME (a name for each function), TARGET (attributes), LANES and SUMS. SUMS is the
 * number of sums that registers hold; it gives the bins of a tile for one snapshot, for a group of
 * snapshots, and for folded input.
 */
#define PLAIN_BINS        (SUMS / 2)
#define PLAIN_GROUP       4
#define PLAIN_GROUP_BINS  (SUMS / 2 / PLAIN_GROUP)
#define FOLDED_BINS       (SUMS / 4)
#define FOLDED_GROUP      (SUMS / 4)
#define FOLDED_GROUP_BINS 1

#define VECTOR NAME(vector)
#define INLINE static inline __attribute__((always_inline))

typedef float VECTOR __attribute__((vector_size(LANES * sizeof(float))));

#define LOAD(to, from) memcpy(&(to), from, sizeof(VECTOR))
/* re, im += conj(w) x */
#define STEP(w_re, w_im, x, re, im)                                                                \
    do {                                                                                           \
        (re) += (w_re) * (x)[0];                                                                   \
        (re) += (w_im) * (x)[1];                                                                   \
        (im) += (w_re) * (x)[1];                                                                   \
        (im) -= (w_im) * (x)[0];                                                                   \
    } while (0)
#define TURN(w, r)                                                                                 \
    do {                                                                                           \
        const VECTOR turned = (w)[0] * (r)[0] - (w)[1] * (r)[1];                                   \
        (w)[1] = (w)[0] * (r)[1] + (w)[1] * (r)[0];                                                \
        (w)[0] = turned;                                                                           \
    } while (0)

/* Weights of a sensor, or of two opposite ones, and their rotations from bin to bin. */
TARGET INLINE void NAME(fetch)(const float *from, size_t sensor, int planes, VECTOR *w) {
#pragma GCC unroll 4
    for (int i = 0; i < planes; i++)
        LOAD(w[i], from + i * PLANE(LANES) + sensor * LANES);
}

TARGET INLINE void NAME(store)(float *to, size_t sensor, int planes, const VECTOR *w) {
#pragma GCC unroll 4
    for (int i = 0; i < planes; i++)
        memcpy(to + i * PLANE(LANES) + sensor * LANES, &w[i], sizeof(VECTOR));
}

TARGET INLINE void NAME(add)(float *to, int count, const VECTOR *value) {
#pragma GCC unroll 16
    for (int i = 0; i < count; i++, to += LANES) {
        VECTOR total;
        LOAD(total, to);
        total += value[i];
        memcpy(to, &total, sizeof total);
    }
}

TARGET INLINE void NAME(sum_plain)(const struct pass *pass, int bins, int snapshots) {
    const float *x = pass->x;
    for (size_t t = 0; t < pass->tiles; t++) {
        VECTOR sum[SUMS] = {{0}};
        for (size_t k = 0; k < pass->sensors; k++) {
            VECTOR w[2], r[2];
            NAME(fetch)(pass->wave, k, 2, w);
            NAME(fetch)(pass->turn, k, 2, r);
#pragma GCC unroll 8
            for (int b = 0; b < bins; b++) {
#pragma GCC unroll 4
                for (int s = 0; s < snapshots; s++, x += 2) {
                    const int i = 2 * (b * snapshots + s);
                    STEP(w[0], w[1], x, sum[i], sum[i + 1]);
                }
                TURN(w, r);
            }
            NAME(store)(pass->wave, k, 2, w);
        }
        NAME(add)
        (pass->sum + t * (size_t)(bins * snapshots) * 2 * LANES, 2 * bins * snapshots, sum);
    }
}

/* Two opposite sensors with weights v and w for two points: the sums of the input are weighted by v
 * + w, the differences by v - w. */
TARGET INLINE void NAME(sum_folded)(const struct pass *pass, int bins, int snapshots) {
    const float *x = pass->x;
    for (size_t t = 0; t < pass->tiles; t++) {
        VECTOR sum[SUMS] = {{0}};
        for (size_t k = 0; k < pass->sensors; k++) {
            VECTOR w[4], r[4];
            NAME(fetch)(pass->wave, k, 4, w);
            NAME(fetch)(pass->turn, k, 4, r);
#pragma GCC unroll 8
            for (int b = 0; b < bins; b++) {
                const VECTOR even_re = w[0] + w[2], even_im = w[1] + w[3];
                const VECTOR odd_re = w[0] - w[2], odd_im = w[1] - w[3];
#pragma GCC unroll 4
                for (int s = 0; s < snapshots; s++, x += 4) {
                    const int i = 4 * (b * snapshots + s);
                    STEP(even_re, even_im, x, sum[i], sum[i + 1]);
                    STEP(odd_re, odd_im, x + 2, sum[i + 2], sum[i + 3]);
                }
                TURN(w, r);
                TURN(w + 2, r + 2);
            }
            NAME(store)(pass->wave, k, 4, w);
        }
        NAME(add)
        (pass->sum + t * (size_t)(bins * snapshots) * 4 * LANES, 4 * bins * snapshots, sum);
    }
}

TARGET static void NAME(plain)(const struct pass *pass) {
    NAME(sum_plain)(pass, PLAIN_BINS, 1);
}

TARGET static void NAME(plain_group)(const struct pass *pass) {
    NAME(sum_plain)(pass, PLAIN_GROUP_BINS, PLAIN_GROUP);
}

TARGET static void NAME(folded)(const struct pass *pass) {
    NAME(sum_folded)(pass, FOLDED_BINS, 1);
}

TARGET static void NAME(folded_group)(const struct pass *pass) {
    NAME(sum_folded)(pass, FOLDED_GROUP_BINS, FOLDED_GROUP);
}

/* Powers of one vector of sums, for points and, if folded, for images. */
TARGET static void NAME(powers)(const float *sum, bool folded, double *point, double *image) {
    for (int i = 0; i < LANES && !folded; i++) {
        const double re = (double)sum[i], im = (double)sum[LANES + i];
        point[i] = re * re + im * im;
    }
    for (int i = 0; i < LANES && folded; i++) {
        const double re = (double)(sum[i] + sum[2 * LANES + i]);
        const double im = (double)(sum[LANES + i] + sum[3 * LANES + i]);
        const double image_re = (double)(sum[i] - sum[2 * LANES + i]);
        const double image_im = (double)(sum[LANES + i] - sum[3 * LANES + i]);
        point[i] = re * re + im * im;
        image[i] = image_re * image_re + image_im * image_im;
    }
}

static const struct kernel NAME(kernel) = {
    LANES,
    {{{NAME(plain), PLAIN_BINS, 1}, {NAME(plain_group), PLAIN_GROUP_BINS, PLAIN_GROUP}},
     {{NAME(folded), FOLDED_BINS, 1}, {NAME(folded_group), FOLDED_GROUP_BINS, FOLDED_GROUP}}},
    NAME(powers)};

#undef VECTOR
#undef INLINE
#undef LOAD
#undef STEP
#undef TURN
#undef NAME
#undef TARGET
#undef LANES
#undef SUMS
#undef PLAIN_BINS
#undef PLAIN_GROUP
#undef PLAIN_GROUP_BINS
#undef FOLDED_BINS
#undef FOLDED_GROUP
#undef FOLDED_GROUP_BINS
