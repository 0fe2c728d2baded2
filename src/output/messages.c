/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Makes messages from results and from the status. A form holds what does not change between
 * windows under one version of the live values; the control thread makes it. The output thread
 * calls the rest, from publisher.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "output/internal.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "arrays go out as they are, little-endian");

enum { REPEAT_INTERVAL_MS = 50 }; /* between repeats of the status */

/* ---- forms ----------------------------------------------------------------------------------- */

/* NULL: the surface is not resampled to true bearings. */
static sonar_bearings *bearings_of(const sonar_output_form *form, sonar_surface surface) {
    if (!sonar_header_has_directions(surface))
        return NULL;
    return sonar_topic_is_mvdr(surface) ? form->mvdr_bearings : form->cbf_bearings;
}

/* False: no memory. */
static bool make_bearings(const sonar_scan *scan, sonar_interpolation interpolation,
                          sonar_bearings **bearings) {
    if (!scan || !sonar_bearings_exist(scan))
        return true;
    *bearings = sonar_bearings_create(scan, interpolation);
    return *bearings != NULL;
}

static bool make_axes(sonar_output_form *form) {
    bool good = true;
    for (int i = 0; good && i < SONAR_SURFACES; i++) {
        const sonar_bearings *bearings = bearings_of(form, (sonar_surface)i);
        form->axes[i] = sonar_header_axes(&form->spec, (sonar_surface)i, NULL);
        if (bearings)
            form->true_axes[i] = sonar_header_axes(&form->spec, (sonar_surface)i, bearings);
        good = form->axes[i] && (form->true_axes[i] || !bearings);
    }
    return good;
}

sonar_output_form *sonar_output_form_create(const sonar_output_spec *spec) {
    sonar_output_form *form = sonar_alloc(1, sizeof *form);
    if (!form)
        return NULL;
    form->spec = *spec;
    bool good = true;
    if (spec->true_bearings) /* MVDR's peaks are narrower than its scan's steps */
        good = make_bearings(spec->cbf_scan, SONAR_INTERPOLATE_CUBIC, &form->cbf_bearings) &&
               make_bearings(spec->mvdr_scan, SONAR_INTERPOLATE_NEAREST, &form->mvdr_bearings);
    if (good && make_axes(form))
        return form;
    sonar_output_form_destroy(form);
    return NULL;
}

void sonar_output_form_destroy(sonar_output_form *form) {
    if (!form)
        return;
    for (int i = 0; i < SONAR_SURFACES; i++) {
        free(form->axes[i]);
        free(form->true_axes[i]);
    }
    sonar_bearings_destroy(form->cbf_bearings);
    sonar_bearings_destroy(form->mvdr_bearings);
    free(form);
}

/* ---- results --------------------------------------------------------------------------------- */

static int64_t latency_ns(const sonar_result *result, int64_t now_ns) {
    return now_ns - result->arrival_ns;
}

/* True if the surface has the type and shape that its header will state. */
static bool fits(const sonar_output_spec *spec, sonar_surface surface, const sonar_buffer *buffer) {
    size_t shape[2];
    int rank = sonar_header_shape(spec, surface, shape);
    if (!buffer->data || buffer->dtype != sonar_topic_table[surface].dtype ||
        buffer->space == SONAR_DEVICE || buffer->rank != rank)
        return false;
    ptrdiff_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        if (buffer->shape[i] != shape[i] || (shape[i] > 1 && buffer->stride[i] != stride))
            return false;
        stride *= (ptrdiff_t)shape[i];
    }
    return true;
}

static bool copy_array(const sonar_buffer *buffer, zmq_msg_t *body) {
    if (zmq_msg_init_size(body, buffer->bytes) != 0)
        return false;
    memcpy(zmq_msg_data(body), buffer->data, buffer->bytes);
    return true;
}

/* Resamples row by row; ranges and bins stay as they are. */
static bool turn_array(const sonar_bearings *bearings, const sonar_buffer *buffer,
                       zmq_msg_t *body) {
    const size_t rows = buffer->rank > 1 ? buffer->shape[0] : 1,
                 directions = buffer->shape[buffer->rank - 1],
                 count = sonar_bearings_count(bearings);
    if (zmq_msg_init_size(body, rows * count * sizeof(float)) != 0)
        return false;
    float *to = zmq_msg_data(body);
    for (size_t row = 0; row < rows; row++)
        sonar_bearings_read(bearings, (const float *)buffer->data + row * directions,
                            to + row * count);
    return true;
}

/* The bearings, turned to the heading of the result; NULL: the surface stays in the array's
 * frame. */
static const sonar_bearings *turned_bearings(const sonar_output_form *form, sonar_surface surface,
                                             const sonar_result *result) {
    sonar_bearings *bearings = bearings_of(form, surface);
    const double heading_deg = sonar_header_heading(result, surface);
    if (!bearings || !isfinite(heading_deg))
        return NULL;
    sonar_bearings_turn(bearings, heading_deg);
    return bearings;
}

static void send_surface(sonar_output *output, sonar_surface surface, const sonar_result *result) {
    const sonar_buffer *buffer = &result->surface[surface];
    const sonar_output_form *form = result->form ? result->form : output->form;
    const bool array = !sonar_topic_is_list(surface);
    const uint64_t seq = output->seq[surface]++;
    const sonar_bearings *bearings = turned_bearings(form, surface, result);
    zmq_msg_t body;
    bool made = !array || fits(&form->spec, surface, buffer);
    if (made && !array)
        zmq_msg_init(&body);
    else if (made)
        made = bearings ? turn_array(bearings, buffer, &body) : copy_array(buffer, &body);
    if (!made) {
        sonar_output_count_sent(output, surface, false);
        return;
    }
    char *header = sonar_header_result(
        &form->spec, surface, bearings ? form->true_axes[surface] : form->axes[surface], bearings,
        result, seq, (double)latency_ns(result, sonar_monotonic_ns()) / 1e3);
    sonar_output_send(output, surface, header, &body);
}

void sonar_output_send_result(sonar_output *output, sonar_result *result) {
    result->picked_ns = sonar_monotonic_ns();
    uint32_t wanted = atomic_load_explicit(&output->wanted, memory_order_relaxed);
    for (int i = 0; i < SONAR_SURFACES; i++) /* no socket: nothing is wanted */
        if (i != SONAR_STATUS && (result->present & wanted & SONAR_WANT(i)))
            send_surface(output, (sonar_surface)i, result);
    result->published_ns = sonar_monotonic_ns();
    int64_t ns = latency_ns(result, result->published_ns);
    sonar_histogram_add(&output->latency, ns > 0 ? (uint64_t)ns : 0);
}

/* ---- status ---------------------------------------------------------------------------------- */

static void send_status(sonar_output *output, bool repeat) {
    uint32_t wanted = atomic_load_explicit(&output->wanted, memory_order_relaxed);
    if (!(wanted & SONAR_WANT(SONAR_STATUS)))
        return;
    sonar_header_status_extra extra = {output->seq[SONAR_STATUS]++, output->status_utc_ns, wanted,
                                       repeat};
    char *header = sonar_header_status(&output->spec, output->form->axes[SONAR_STATUS],
                                       &output->status, &extra);
    zmq_msg_t nothing;
    zmq_msg_init(&nothing);
    sonar_output_send(output, SONAR_STATUS, header, &nothing);
}

void sonar_output_take_status(sonar_output *output) {
    pthread_mutex_lock(&output->lock);
    bool fresh = output->posted_pending;
    if (fresh) {
        output->status = output->posted;
        output->status_utc_ns = output->posted_utc_ns;
    }
    output->posted_pending = false;
    pthread_mutex_unlock(&output->lock);
    if (!fresh)
        return;
    output->status_known = true;
    output->repeat_wanted = false; /* whoever asked for a repeat gets this status */
    send_status(output, false);
}

/* A new subscriber need not wait a second for a status; a flood of subscribers cannot flood the
 * others either. */
int sonar_output_repeat_status(sonar_output *output) {
    if (!output->repeat_wanted || !output->status_known)
        return SONAR_OUTPUT_TICK_MS;
    int64_t now = sonar_monotonic_ns();
    int64_t due = output->repeated_ns + (int64_t)REPEAT_INTERVAL_MS * 1000000;
    if (output->repeated_ns && now < due)
        return (int)((due - now) / 1000000) + 1;
    output->repeat_wanted = false;
    output->repeated_ns = now;
    send_status(output, true);
    return SONAR_OUTPUT_TICK_MS;
}
