/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The contract between all parts of sonard: values, errors, buffers, parameters and work. The
 * function tables of stages and backends are in sonar/backend.h. Valid as C17 and as C++17, because
 * backends are compiled by nvcc too; hence neither _Complex nor restrict appears here.
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

#include "sonar/code.h"
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

/* Filled through the caller's pointer; a NULL pointer is allowed everywhere and means "not wanted".
 * `where` is a place (file:line:column, a stage, an endpoint), `text` one sentence without newline.
 */
typedef struct sonar_error {
    sonar_code code;
    char where[160];
    char text[512];
} sonar_error;

/* Fills *err (if any) and returns `code`, so that a function can `return sonar_fail(...)`. Text
 * that is too long is cut; a NULL `where` is empty. Keeps no pointer. Any thread. */
sonar_code sonar_fail(sonar_error *err, sonar_code code, const char *where, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

/* ---- buffers --------------------------------------------------------------------------------- */

/* Ordinary host memory (pageable); locked host memory, which a device can copy directly; a device's
 * memory. */
typedef enum sonar_space { SONAR_HOST = 0, SONAR_PINNED, SONAR_DEVICE } sonar_space;

typedef enum sonar_dtype {
    SONAR_S16 = 1, /* 1..4 are also the sample types of a frame (docs/protocol.md) */
    SONAR_S24,     /* three bytes, only in frames: no buffer has this type */
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
    void *data;   /* in `space`; the processor cannot dereference an address on a device */
    size_t bytes; /* of all elements, without gaps between strided rows */
    sonar_space space;
    sonar_dtype dtype;
    int rank; /* 1 to SONAR_MAX_RANK; number of valid entries of shape and stride */
    size_t shape[SONAR_MAX_RANK];
    ptrdiff_t stride[SONAR_MAX_RANK];
} sonar_buffer;

/* Functions of buffers read only their arguments, keep no pointer and cannot fail. Any thread. */

/* Bytes of one element; 0 for a value that is not a dtype. */
size_t sonar_dtype_size(sonar_dtype dtype);
/* Number of elements, the product of the shape. */
size_t sonar_buffer_count(const sonar_buffer *buffer);
/* A dense row-major view of `data`, which is borrowed and may be NULL, in host memory; shape has
 * `rank` entries, at most SONAR_MAX_RANK. If its bytes overflow, they are SIZE_MAX, a size that no
 * allocation grants. */
sonar_buffer sonar_buffer_view(void *data, sonar_dtype dtype, int rank, const size_t *shape);
/* A view of part `index`, less than shape[0], of the outermost dimension of a dense buffer of rank
 * 2 or more. It has the same memory and one dimension fewer. */
sonar_buffer sonar_buffer_part(const sonar_buffer *all, size_t index);

/* ---- the program around ---------------------------------------------------------------------- */

typedef enum sonar_level { SONAR_ERROR = 0, SONAR_WARN, SONAR_INFO, SONAR_DEBUG } sonar_level;

/* What the program offers to the library and to backends. They borrow it until the last object made
 * with it is released. All members except `choice` and `state_dir` are set. */
typedef struct sonar_host {
    void *ctx; /* passed to the functions below */
    /* One line without newline; the texts are borrowed until it returns. Any thread. */
    void (*log)(void *ctx, sonar_level level, const char *where, const char *text);
    /* Runs task(arg, index, worker) for every index < tasks, on up to `workers` threads, and
     * returns when all are done. worker < workers is the number of a scratch slot that no other
     * thread uses at that time. The assignment of indices to workers is not fixed, so a result may
     * depend on the index only. One caller at a time: only the data thread may call it while the
     * pipeline runs. */
    void (*parallel)(void *ctx, size_t tasks, void (*task)(void *arg, size_t index, size_t worker),
                     void *arg);
    size_t workers;        /* at least 1 */
    const char *state_dir; /* folder for wisdom and similar files; NULL: they are not stored */
    /* For tests of error paths: n: the n-th fallible call of a plugin fails; -n: that call and all
     * later ones fail; 0: none fails. */
    long fail_at;
    /* The candidate that training chose for one of the backend's decisions; NULL: the first
     * candidate applies. The member may itself be NULL. Called only by a stage's create; the text
     * is valid until create returns. */
    const char *(*choice)(void *ctx, const char *decision);
    size_t device; /* number of the plugin's device that this process uses, from 0 */
    /* A thread that waits for a device polls this long before it sleeps; 0: it sleeps at once. */
    int64_t awake_ns;
} sonar_host;

/* ---- parameters ------------------------------------------------------------------------------ */

/*
 * Delays of a set of look directions as turns per bin: at bin b the steering vector's phase is b *
 * turns (mod 2^64). turns[range][direction][sensor], dense, in host memory; the parameters that
 * contain it own it. The far field has ranges == 1.
 *
 * The upper 52 bits of an entry are the fraction of a turn; the lower 12 bits are the whole turns
 * modulo 2^12. In such a product the lower bits may stay: they change it by b 2^-52 turns. Rotated
 * right by 12 bits an entry is the delay itself, signed, 2^52 = one turn. Frequencies between bins
 * need it.
 */
#define SONAR_WHOLE_TURNS_BITS 12
typedef struct sonar_manifold {
    size_t ranges, directions, sensors;
    double bin_width_hz; /* fs / N for which the turns were made */
    const uint64_t *turns;
    uint64_t made; /* two versions of the parameters with the same number have the same turns; 0:
                      unknown */
} sonar_manifold;

struct sonar_cbf_spec;
struct sonar_mvdr_spec;

/* All values that results depend on and that may change while running, as one immutable version; a
 * change makes a new version. Positions and channels of the sensors are included, because delays
 * depend on them. Values in a stage's specification cannot change, except the members marked live.
 * A stage works with the version that came with the window, and the headers of the window's results
 * state the same version. Arrays have one entry per sensor. They are host memory that belongs to
 * the version's maker until no work uses it; a device backend uploads them when `version` changes.
 * Read by any thread. */
typedef struct sonar_params {
    uint64_t version; /* counts from 1; differs between versions that differ in any member */
    size_t sensors, sensors_used;
    size_t mvdr_sensors_used; /* of these, the sensors that forward-backward averaging keeps; else
                                 all */
    double sound_speed_mps;
    double heading_deg; /* of +x, clockwise from north; meaningful if heading_known */
    bool heading_known;
    const char *config_version; /* identifies the configuration that all these values belong to */
    bool calibrated;            /* gains relate samples to uPa: units are uPa^2, else counts^2 */
    const double *position_m;   /* [sensor][3], array frame */
    const uint32_t *channel;    /* channel that feeds the sensor */
    const uint8_t *used;        /* 0 = masked: its weight is zero everywhere */
    const float *scale;         /* multiplies samples: uPa per count, or 1 */
    const double *phase_turns;  /* correction added to the sensor's phase, in turns */
    const double *delay_s;      /* delay of the channel, compensated by e^{+j 2 pi f delay} */
    const float *shading;       /* CBF weights g, 0 where masked */
    double shading_sum;         /* sum of g */
    sonar_manifold far_cbf, near_cbf, far_mvdr, near_mvdr;
    /* Specifications whose live members replace those that the stages were created with; NULL: no
     * replacement. */
    const struct sonar_cbf_spec *cbf;
    const struct sonar_mvdr_spec *mvdr;
} sonar_params;

/* ---- work ------------------------------------------------------------------------------------ */

/* Missing samples [begin, end) of one channel, relative to the window's first sample. */
typedef struct sonar_gap {
    uint32_t begin, end;
} sonar_gap;

enum { SONAR_GAPS_MOST = 16 };

/* The missing samples of a window, by channel, in order of time; host memory. If a channel has too
 * many gaps, the closest ones are merged, and the samples between them count as missing too. */
typedef struct sonar_gaps {
    const uint32_t *count; /* [channel], at most SONAR_GAPS_MOST; NULL: no samples are missing */
    const sonar_gap *gap;  /* [channel][SONAR_GAPS_MOST] */
} sonar_gaps;

/* What one execute call needs besides buffers. Borrowed until the enqueued work is done. */
typedef struct sonar_work {
    uint64_t first_sample; /* of the window */
    const sonar_params *params;
    uint32_t outputs; /* SONAR_WANT bits; a stage may skip surfaces that are not wanted */
    /* For the DFT; NULL unless its input is a ring in the backend's own memory. It is in such
     * memory too, contains the ring's column of the window's first sample, and is read when the
     * work runs. The transform begins `offset` samples later, modulo the ring. */
    const uint64_t *column;
    size_t offset;
    /* For the DFT: the gaps of the window; the transform begins with the window's sample `offset`.
     * NULL: no gaps. */
    const sonar_gaps *gaps;
    size_t snapshots; /* for a joined MVDR: number of new snapshots that the sums belong to */
} sonar_work;

#ifdef __cplusplus
}
#endif
#endif
