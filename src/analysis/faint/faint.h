/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Contacts below the detector's threshold: track before detect. A hypothesis is a contact in a cell
 * of the scan (half a beam width), with a rate and a level. Its odds are updated by each window's
 * normalised spectrum:
 *
 *   odds <- (stays odds + born) p(ratio | contact) / p(ratio | noise)
 *
 * which is Bayes' rule on a grid of bearing and rate (Stone, Streit, Corwin and Bell, Bayesian
 * Multiple Target Tracking, 2nd ed. 2014, chapter 7: likelihood ratio tracking). The mean of K
 * powers of noise has a gamma distribution of shape K, and the same with a contact of s times the
 * noise, so that the ratio of likelihoods is exp(K (y s/(1 + s) - ln(1 + s))) for a power y over
 * the noise. A contact moves at its rate, from cell to cell; rates change to neighbouring ones now
 * and then.
 *
 * Any one thread at a time; no allocation after create. The same windows give the same odds.
 */
#ifndef SONAR_FAINT_H
#define SONAR_FAINT_H

#include "manifold/manifold.h"

enum { SONAR_FAINT_MOST = 16 };
#define SONAR_FAINT_BIRTHS_PER_S (2.0 / 3600) /* new contacts in all directions, for tracks too */

typedef struct sonar_faint sonar_faint;

typedef struct sonar_faint_spec {
    const sonar_scan *scan; /* borrowed by create only */
    double least_db;        /* the faintest level over the noise, > 0 */
} sonar_faint_spec;

typedef struct sonar_faint_window {
    double since_s;       /* from the middle of the window before, > 0 */
    double fresh;         /* the part of the samples that is new in this window, 0 to 1 */
    double averages;      /* effective number of independent powers in a direction's power */
    double turned_deg;    /* by which the array has turned since the window before; 0 on a cone */
    const float *ratio;   /* [direction] power over the noise around it, 1 in noise */
    const double *of_deg; /* [count] places of listed contacts: the power beside them is theirs */
    size_t count;
} sonar_faint_window;

/* A contact that may be there. Places are cosines on a cone, else radians. */
typedef struct sonar_faint_contact {
    double probability, snr_db; /* recent power over the noise */
    double az_deg;              /* in the scan */
    double place, rate_ps;      /* rate_ps: change of the place in a second */
    double var_place, var_rate;
    double power; /* of the CBF there; left to the caller */
} sonar_faint_contact;

/* SONAR_EINVAL: a scan of less than three beam widths, least_db out of its range. SONAR_ENOMEM. */
sonar_code sonar_faint_create(const sonar_faint_spec *spec, sonar_faint **faint, sonar_error *err);
void sonar_faint_destroy(sonar_faint *faint); /* NULL is allowed */
void sonar_faint_run(sonar_faint *faint, const sonar_faint_window *window);
/* The contacts with a probability of at least `least`, the most probable first. */
size_t sonar_faint_find(const sonar_faint *faint, double least,
                        sonar_faint_contact contact[SONAR_FAINT_MOST]);
/* Forgets what is within a beam width and a half of a place. */
void sonar_faint_clear(sonar_faint *faint, double az_deg);
/* Goes on from the odds of another one, if its scan and levels are the same. */
void sonar_faint_take_over(sonar_faint *faint, const sonar_faint *from);

#endif
