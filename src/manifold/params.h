/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Versions of the live parameters (sonar_params in sonar.h). A change of a value makes a new
 * version. All versions of one spec share what does not depend on the mask; versions of specs with
 * equal delays share the tables of delays. One thread at a time calls these functions; the versions
 * themselves may be read by any thread until they are destroyed.
 */
#ifndef SONAR_PARAMS_H
#define SONAR_PARAMS_H

#include "manifold/manifold.h"
#include "sonar/stages.h"

/* What parameters are made from. Arrays have one entry per sensor; everything is copied. */
typedef struct sonar_params_spec {
    const char *config_version;
    size_t sensors;
    const double *position_m; /* [sensor][3], array frame */
    const uint32_t *channel;
    const uint8_t *used;
    const double *gain_db; /* dB re 1 count/uPa; NULL: uncalibrated */
    const double *phase_deg, *delay_us;
    const double *shading_weight;
    double shading_sum; /* of the array that these sensors are a part of; 0: these are the whole
                           array */
    double sound_speed_mps;
    double heading_deg; /* of +x, clockwise from north */
    bool heading_known;
    const sonar_scan *cbf_scan, *mvdr_scan; /* NULL: no such spectrum, and no table */
    double cbf_bin_hz, mvdr_bin_hz;         /* fs/N of their transforms */
    size_t ranges;                          /* 0: no near field */
    const double *range_m;
    bool mvdr_near; /* the near field of the MVDR too */
    sonar_range_reference range_reference;
    bool forward_backward; /* the MVDR leaves out sensors whose mirror image is masked */
    /* Their live members apply; NULL: the members that the stages were created with. */
    const sonar_cbf_spec *cbf;
    const sonar_mvdr_spec *mvdr;
} sonar_params_spec;

/* SONAR_ENOMEM. The caller destroys it. */
sonar_code sonar_params_create(const sonar_params_spec *spec, uint64_t version,
                               sonar_params **params, sonar_error *err);
/* A new version of `like` with another mask: the sensors that the spec uses, without those of `out`
 * ([sensor] 1: out; NULL: none). `like` may be destroyed first. */
sonar_code sonar_params_mask(const sonar_params *like, const uint8_t *out, uint64_t version,
                             sonar_params **params, sonar_error *err);
/* A new version from a spec of the same sensors, without a mask. same_delays: positions, scans,
 * ranges and sound speed are those of `like`, whose tables of delays are then shared. `like` may be
 * destroyed first. SONAR_ENOMEM. */
sonar_code sonar_params_renew(const sonar_params *like, const sonar_params_spec *spec,
                              bool same_delays, uint64_t version, sonar_params **params,
                              sonar_error *err);
/* Makes `bent`, which sonar_params_create made from a spec of the same sizes, a version of `like`
 * with the positions `position_m`, in place: no other thread may read it meanwhile. spec is that of
 * `like`. tau_s is scratch, [worker of the host][sensor]. Allocates nothing. */
void sonar_params_bend(sonar_params *bent, const sonar_params *like, const sonar_params_spec *spec,
                       const double *position_m, uint64_t version, const sonar_host *host,
                       double *tau_s);
/* NULL is allowed. */
void sonar_params_destroy(sonar_params *params);

#endif
