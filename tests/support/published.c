/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "published.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const double cbf_db = 0.01, mvdr_db = 0.1, psd_share = 1e-4;
static const double cbf_floor = 1e-6, psd_floor = 1e-4; /* of the peak */

static void __attribute__((format(printf, 3, 4)))
differ(published_verdict *v, bool *same, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (v->headers && v->arrays)
        vsnprintf(v->text, sizeof v->text, format, args);
    va_end(args);
    *same = false;
}

/* NaN counts as an error beyond every limit. */
static bool allowed(published_verdict *v, double deviation, double limit) {
    double used = deviation / limit;
    if (!(v->used >= used))
        v->used = used;
    return used <= 1;
}

static double apart_db(double want, double have) {
    return want == have ? 0 : fabs(10 * log10(have / want));
}

/* ---- headers --------------------------------------------------------------------------------- */

enum kind { EQUAL, ANYTHING, WITHIN, TURNING, WITHIN_DB, WITHIN_SHARE };

struct rule {
    const char *key;
    enum kind kind;
    double limit;
};

static const struct rule result_rules[] = {
    {"run", ANYTHING, 0},
    {"backend", ANYTHING, 0},
    {"latency_us", ANYTHING, 0},
    {"worst_residual", ANYTHING, 0},
    {"most_sweeps", ANYTHING, 0},
    {"delta", WITHIN_DB, 0.05},
    {"az_deg", TURNING, 0.05},
    {"bearing_deg", TURNING, 0.05},
    {"mirror_deg", TURNING, 0.05},
    {"bearing_sigma_deg", WITHIN_SHARE, 0.02},
    {"level", WITHIN_DB, 0.05},
    {"level_db", WITHIN, 0.05},
    {"level_bias_db", WITHIN, 0.2}, /* 1 - f/L, hardly more than 0 at first */
    {"background", WITHIN_DB, 0.05},
    {"snr_db", WITHIN, 0.05},
    {"width_deg", WITHIN, 0.05},
    {"range_m", WITHIN_SHARE, 0.01}};

/* Health depends on the clock and on delays. */
static const struct rule status_rules[] = {
    {"text", ANYTHING, 0},     {"conditions", ANYTHING, 0},     {"health", ANYTHING, 0},
    {"held", ANYTHING, 0},     {"stream", ANYTHING, 0},         {"clock", ANYTHING, 0},
    {"clocks", ANYTHING, 0},   {"peers", ANYTHING, 0},          {"run", ANYTHING, 0},
    {"backend", ANYTHING, 0},  {"path", ANYTHING, 0}, /* of MVDR, each backend's own */
    {"utc_ns", ANYTHING, 0},   {"uptime_s", ANYTHING, 0},       {"load", ANYTHING, 0},
    {"latency", ANYTHING, 0},  {"latency_parts", ANYTHING, 0},  {"stage_times", ANYTHING, 0},
    {"stage_us", ANYTHING, 0}, {"resident_bytes", ANYTHING, 0}, {"device_free_bytes", ANYTHING, 0}};

static struct rule rule_of(bool status, const char *key) {
    const struct rule *rules = status ? status_rules : result_rules;
    size_t count =
        status ? sizeof status_rules / sizeof *rules : sizeof result_rules / sizeof *rules;
    for (size_t i = 0; i < count && key; i++)
        if (!strcmp(rules[i].key, key))
            return rules[i];
    return (struct rule){.kind = EQUAL};
}

static bool same_number(published_verdict *v, const struct rule *rule, double want, double have) {
    double apart = fabs(have - want);
    switch (rule->kind) {
    case WITHIN:
        return allowed(v, apart, rule->limit);
    case TURNING:
        return allowed(v, fmin(apart, 360 - apart), rule->limit);
    case WITHIN_DB:
        return allowed(v, apart_db(want, have), rule->limit);
    case WITHIN_SHARE:
        return allowed(v, apart, rule->limit * fabs(want));
    default:
        return want == have;
    }
}

static void compare_json(published_verdict *v, bool status, const cJSON *want, const cJSON *have) {
    const char *key = want->string ? want->string : "an element";
    const struct rule rule = rule_of(status, want->string);
    if (rule.kind == ANYTHING)
        return;
    if ((want->type & 0xff) != (have->type & 0xff) ||
        cJSON_GetArraySize(want) != cJSON_GetArraySize(have)) {
        differ(v, &v->headers, "%s: of another type or size", key);
        return;
    }
    if (cJSON_IsNumber(want) && !same_number(v, &rule, want->valuedouble, have->valuedouble))
        differ(v, &v->headers, "%s: %.9g, not %.9g", key, have->valuedouble, want->valuedouble);
    if (cJSON_IsString(want) && strcmp(want->valuestring, have->valuestring) != 0)
        differ(v, &v->headers, "%s: '%s', not '%s'", key, have->valuestring, want->valuestring);
    for (const cJSON *a = want->child, *b = have->child; a && b; a = a->next, b = b->next) {
        if (a->string && strcmp(a->string, b->string) != 0)
            differ(v, &v->headers, "key '%s', not '%s'", b->string, a->string);
        else
            compare_json(v, status, a, b);
    }
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static float peak_of(const float *x, size_t n) {
    float peak = 0;
    for (size_t i = 0; i < n; i++)
        peak = fmaxf(peak, x[i]);
    return peak;
}

static void compare_cbf(published_verdict *v, const float *want, const float *have, size_t n) {
    double least = cbf_floor * (double)peak_of(want, n);
    for (size_t i = 0; i < n; i++) {
        double a = (double)want[i], b = (double)have[i];
        bool same = a > least ? allowed(v, apart_db(a, b), cbf_db) : b >= 0 && b <= 2 * least;
        if (!same)
            differ(v, &v->arrays, "[%zu]: %.9g, not %.9g", i, b, a);
    }
}

static void compare_mvdr(published_verdict *v, const float *want, const float *have, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!allowed(v, apart_db((double)want[i], (double)have[i]), mvdr_db))
            differ(v, &v->arrays, "[%zu]: %.9g, not %.9g", i, (double)have[i], (double)want[i]);
}

static void compare_eigenvalues(published_verdict *v, const float *want, const float *have,
                                size_t n, size_t modes) {
    for (size_t i = 0; i < n; i++) {
        const double a = (double)want[i], b = (double)have[i];
        const double least = 1e-6 * (double)want[i / modes * modes];
        const bool same =
            a > least ? allowed(v, apart_db(a, b), mvdr_db) : b >= 0 && b <= 2 * least;
        if (!same)
            differ(v, &v->arrays, "[%zu][%zu]: %.9g, not %.9g", i / modes, i % modes, b, a);
    }
}

/* Channel by channel: each has its own transform, accurate relative to its loudest bin. */
static void compare_psd(published_verdict *v, const float *want, const float *have, size_t n,
                        size_t bins) {
    for (size_t i = 0; i < n; i++) {
        double least = psd_floor * (double)peak_of(want + i / bins * bins, bins);
        double a = (double)want[i], b = (double)have[i];
        if (a != b && !allowed(v, fabs(b - a), psd_share * fmax(a, least)))
            differ(v, &v->arrays, "[%zu][%zu]: %.9g, not %.9g", i / bins, i % bins, b, a);
    }
}

static void compare_arrays(published_verdict *v, sonar_surface surface, const output_message *want,
                           const output_message *have) {
    const float *a = (const float *)want->body, *b = (const float *)have->body;
    size_t n = want->body_bytes / sizeof *a;
    const cJSON *shape = cJSON_GetObjectItem(want->head, "shape");
    const cJSON *last = cJSON_GetArrayItem(shape, cJSON_GetArraySize(shape) - 1);
    if (want->body_bytes != have->body_bytes)
        differ(v, &v->arrays, "%zu bytes, not %zu", have->body_bytes, want->body_bytes);
    else if (surface <= SONAR_CBF_LOFAR)
        compare_cbf(v, a, b, n);
    else if (surface <= SONAR_MVDR_NEARFIELD)
        compare_mvdr(v, a, b, n);
    else if (surface == SONAR_MVDR_EIGENVALUES)
        compare_eigenvalues(v, a, b, n, (size_t)last->valueint);
    else if (surface == SONAR_ELEMENT_PSD)
        compare_psd(v, a, b, n, (size_t)last->valueint);
    else if (n && memcmp(a, b, want->body_bytes) != 0)
        differ(v, &v->arrays, "bytes differ");
}

/* ---- messages -------------------------------------------------------------------------------- */

sonar_surface published_surface(const char *topic) {
    int i = 0;
    while (i < SONAR_SURFACES && strcmp(sonar_topic_name((sonar_surface)i), topic) != 0)
        i++;
    return (sonar_surface)i;
}

published_verdict published_compare(const output_message *want, const output_message *have) {
    published_verdict v = {.headers = true, .arrays = true};
    sonar_surface surface = published_surface(want->topic);
    if (strcmp(want->topic, have->topic) != 0 || want->parts != 3 || have->parts != 3) {
        differ(&v, &v.headers, "%s of %d parts, not %s", have->topic, have->parts, want->topic);
        return v;
    }
    compare_json(&v, surface == SONAR_STATUS, want->head, have->head);
    compare_arrays(&v, surface, want, have);
    return v;
}
