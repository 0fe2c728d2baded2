/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The contract every part of sonard agrees on: values, errors, buffers, parameters and work. The
 * tables of functions behind which a stage or a whole backend hides are in sonar/backend.h. Valid
 * as C17 and as C++17, because backends are compiled by nvcc too; hence neither _Complex nor
 * restrict appears here.
 *
 * Glossary
 *   channel   one column of a digitiser's frame           sensor   one hydrophone with a position
 *   sample    one instant of one channel                  window   N samples every H: one update
 *   snapshot  one DFT, of a window or of a sub-window     bin      b, at b*fs/N Hz
 *   taper     a DFT's window function, hann for example (`dft.window`)
 *   turns     phase / 2 pi as fixed point, 2^64 = one turn; overflow is the reduction modulo a turn
 *   surface   one published array, e.g. the broadband far-field azimuth spectrum
 */
#ifndef SONAR_SONAR_H
#define SONAR_SONAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sonar/topics.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- values ---------------------------------------------------------------------------------- */

/* A complex number. */
typedef struct sonar_c32 {
    float re, im;
} sonar_c32;

/* ---- errors ---------------------------------------------------------------------------------- */

typedef enum sonar_code {
    SONAR_OK = 0,
    SONAR_EINVAL,       /* the caller's or the user's value cannot be accepted */
    SONAR_ENOMEM,       /* an allocation failed */
    SONAR_ESYS,         /* the operating system or a library refused; text names the call */
    SONAR_EPROTO,       /* a peer sent something the protocol does not allow */
    SONAR_EUNAVAILABLE, /* the wanted device, backend or file is not there */
    SONAR_ESTATE        /* called in an order the contract forbids */
} sonar_code;

/* Filled through the caller's pointer; a NULL pointer is allowed everywhere and means "not wanted".
 * `where` is a place (file:line:column, a stage, an endpoint), `text` one sentence without newline.
 */
typedef struct sonar_error {
    sonar_code code;
    char where[160];
    char text[512];
} sonar_error;

/* Fills *err (if any) and returns `code`, so that `return sonar_fail(...)` is the idiom. What is
 * too long is cut off; a NULL `where` is empty. Keeps no pointer. Any thread. */
sonar_code sonar_fail(sonar_error *err, sonar_code code, const char *where, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

/* ---- buffers --------------------------------------------------------------------------------- */

/* Host memory as the system gives it (pageable) and locked, from which a device copies by itself;
 * and a device's own. */
typedef enum sonar_space { SONAR_HOST = 0, SONAR_PINNED, SONAR_DEVICE } sonar_space;

typedef enum sonar_dtype {
    SONAR_S16 = 1, /* 1..4 are also the sample types of a frame (docs/protocol.md) */
    SONAR_S24,     /* three bytes, of frames only: no buffer has them */
    SONAR_S32,
    SONAR_F32,
    SONAR_C32,
    SONAR_U64,
    SONAR_F64
} sonar_dtype;

#define SONAR_MAX_RANK 4

/* A view of memory: it owns nothing unless it came from sonar_backend.buffer_create.
 * stride is in elements, outermost first; an empty view has shape[0] == 0 and may have no data. */
typedef struct sonar_buffer {
    void *data;   /* in `space`: what is on a device is no address for the processor */
    size_t bytes; /* of all elements, without what lies between strided rows */
    sonar_space space;
    sonar_dtype dtype;
    int rank; /* 1 to SONAR_MAX_RANK; entries of shape and stride that count */
    size_t shape[SONAR_MAX_RANK];
    ptrdiff_t stride[SONAR_MAX_RANK];
} sonar_buffer;

/* The functions of buffers look at what they are given alone, keep no pointer and cannot fail. Any
 * thread. */

/* Bytes of one element; 0 for what is no dtype. */
size_t sonar_dtype_size(sonar_dtype dtype);
/* Number of elements, the product of the shape. */
size_t sonar_buffer_count(const sonar_buffer *buffer);
/* A dense row-major view of `data`, which is borrowed and may be NULL, in host memory; shape has
 * `rank` entries, at most SONAR_MAX_RANK. Its bytes are SIZE_MAX, which no allocation grants, where
 * they are too many to count. */
sonar_buffer sonar_buffer_view(void *data, sonar_dtype dtype, int rank, const size_t *shape);
/* A view of part `index`, less than shape[0], of the outermost dimension of a dense buffer of rank
 * 2 or more: of the same memory, with one dimension fewer. */
sonar_buffer sonar_buffer_part(const sonar_buffer *all, size_t index);

/* ---- the program around ---------------------------------------------------------------------- */

typedef enum sonar_level { SONAR_ERROR = 0, SONAR_WARN, SONAR_INFO, SONAR_DEBUG } sonar_level;

/* What the program offers to the library and to backends, which borrow it until the last thing made
 * with it is gone. All members but `choice` and `state_dir` are set. */
typedef struct sonar_host {
    void *ctx; /* the program's own, handed to its functions */
    /* One line without newline; the texts are borrowed until it returns. Any thread. */
    void (*log)(void *ctx, sonar_level level, const char *where, const char *text);
    /* Runs task(arg, index, worker) for every index < tasks, on up to `workers` threads, and
     * returns when all are done. worker < workers names a slot of scratch no one else is using.
     * Which worker gets which index is not fixed, so a result may depend on the index only. One
     * caller at a time: only the data thread may call it while the pipeline runs. */
    void (*parallel)(void *ctx, size_t tasks, void (*task)(void *arg, size_t index, size_t worker),
                     void *arg);
    size_t workers;        /* at least 1 */
    const char *state_dir; /* where wisdom and the like is kept, or NULL for nowhere */
    /* For tests of error paths: the n-th fallible call a plugin makes fails; -n: that and all later
     * ones; 0: none. */
    long fail_at;
    /* The candidate that training chose for one of the backend's decisions, or NULL: then the first
     * one. May be NULL itself. Asked by a stage's create only; the text lives until that returns.
     */
    const char *(*choice)(void *ctx, const char *decision);
    size_t device; /* which of a plugin's devices this process takes, from 0 */
    /* A thread that waits for a device stays awake for so long before it sleeps; 0: sleeps at once.
     */
    int64_t awake_ns;
} sonar_host;

/* ---- parameters ------------------------------------------------------------------------------ */

/* Delays of a set of look directions as turns per bin: at bin b the steering vector's phase is
 * b * turns (mod 2^64). turns[range][direction][sensor], dense, in host memory, of the parameters
 * that it is part of; far field has ranges == 1.
 *
 * The upper 52 bits of an entry are the fraction of a turn, the lower 12, which such a product may
 * leave as they are (b 2^-52 turns), the whole turns modulo 2^12: rotated right by 12 bits an entry
 * is the delay itself, signed, 2^52 = one turn. A frequency beside a bin needs that. */
#define SONAR_WHOLE_TURNS_BITS 12
typedef struct sonar_manifold {
    size_t ranges, directions, sensors;
    double bin_width_hz; /* fs / N the turns were made for */
    const uint64_t *turns;
    uint64_t
        made; /* the same number in two versions of the parameters: the same turns; 0: unknown */
} sonar_manifold;

struct sonar_cbf_spec;
struct sonar_mvdr_spec;

/* Every value that results depend on and that may change while running, as one immutable version:
 * whoever changes a value makes a new one. Positions and channels of the sensors are here as well,
 * since delays follow from them. What a stage's specification holds cannot change, but for the
 * members that it calls live. A stage works with the version that came with the window, and so does
 * what is published of that window. Arrays have one entry per sensor. Host memory, of whoever made
 * the version, until no work with it is left; a device backend uploads on a new `version`. Read by
 * any thread. */
typedef struct sonar_params {
    uint64_t version; /* counts from 1; another one wherever any member differs */
    size_t sensors, sensors_used;
    size_t mvdr_sensors_used; /* those that forward-backward averaging keeps of them, or all */
    double sound_speed_mps;
    double heading_deg; /* of +x, clockwise from north; meaningful if heading_known */
    bool heading_known;
    const char *config_version; /* names the configuration that all these values are of */
    bool calibrated;            /* gains relate samples to uPa: units are uPa^2, else counts^2 */
    const double *position_m;   /* [sensor][3], array frame */
    const uint32_t *channel;    /* channel that feeds the sensor */
    const uint8_t *used;        /* 0 = masked: weighs zero everywhere */
    const float *scale;         /* multiplies samples: uPa per count, or 1 */
    const double *phase_turns;  /* correction added to the sensor's phase, in turns */
    const double *delay_s;      /* lateness of the channel, taken out by e^{+j 2 pi f delay} */
    const float *shading;       /* CBF weights g, 0 where masked */
    double shading_sum;         /* sum of g */
    sonar_manifold far_cbf, near_cbf, far_mvdr, near_mvdr;
    /* Specifications whose live members take the place of those that the stages were made with;
     * NULL: these stay. */
    const struct sonar_cbf_spec *cbf;
    const struct sonar_mvdr_spec *mvdr;
} sonar_params;

/* ---- work ------------------------------------------------------------------------------------ */

/* Samples [begin, end) of one channel that never came, counted from the window's first. */
typedef struct sonar_gap {
    uint32_t begin, end;
} sonar_gap;

enum { SONAR_GAPS_MOST = 16 };

/* What a window lacks, by channel, in order of time; host memory. A channel that has more gaps has
 * the closest of them made one, and the samples between these count as lost, too. */
typedef struct sonar_gaps {
    const uint32_t *count; /* [channel], at most SONAR_GAPS_MOST; NULL: nothing is missing */
    const sonar_gap *gap;  /* [channel][SONAR_GAPS_MOST] */
} sonar_gaps;

/* What one execute call is about. Borrowed for the duration of the enqueued work. */
typedef struct sonar_work {
    uint64_t first_sample; /* of the window */
    const sonar_params *params;
    uint32_t outputs; /* SONAR_WANT bits; a stage may skip surfaces that are not wanted */
    /* For the DFT, NULL unless its input is a ring in the backend's own memory: there, the ring's
     * column of the window's first sample, read when the work runs; the transform begins
     * `offset` samples later, modulo the ring. */
    const uint64_t *column;
    size_t offset;
    /* For the DFT: what is missing of the window, whose sample `offset` is the transform's first.
     * NULL: nothing. */
    const sonar_gaps *gaps;
    size_t snapshots; /* for a joined MVDR: new ones that the sums are of */
} sonar_work;

#ifdef __cplusplus
}
#endif
#endif
