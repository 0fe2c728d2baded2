/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Loads and times the peers of the GPU's stages. */
#include "peers.h"

#include "bench.h"

#include <dlfcn.h>
#include <math.h>
#include <string.h>

const bench_peers *bench_peers_open(const char *dir, bench_report *report) {
    char path[512], why[200] = "";
    snprintf(path, sizeof path, "%s/libsonar-bench-cuda.so", dir);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(report->peers, sizeof report->peers, "%.300s", dlerror());
        return NULL;
    }
    bench_peers_entry entry;
    *(void **)&entry =
        dlsym(library, BENCH_PEERS_SYMBOL); /* POSIX's form for functions from dlsym */
    const bench_peers *peers = entry ? entry() : NULL;
    if (!peers || peers->interface != BENCH_PEERS_INTERFACE)
        snprintf(report->peers, sizeof report->peers, "%.200s has another version", path);
    else if (peers->describe(&report->gpu, why, sizeof why))
        return peers;
    else
        snprintf(report->peers, sizeof report->peers, "%s", why);
    report->gpu.name[0] = '\0';
    return NULL;
}

/* ---- one peer -------------------------------------------------------------------------------- */

typedef struct running {
    const bench_peers *api;
    bench_peer *peer;
} running;

static sonar_code step(void *ctx, sonar_error *err) {
    const running *r = ctx;
    char why[200] = "";
    return r->api->run(r->peer, why, sizeof why) ? SONAR_OK
                                                 : sonar_fail(err, SONAR_ESYS, "peer", "%s", why);
}

static sonar_code settle(void *ctx, sonar_error *err) {
    const running *r = ctx;
    char why[200] = "";
    return r->api->finish(r->peer, why, sizeof why)
               ? SONAR_OK
               : sonar_fail(err, SONAR_ESYS, "peer", "%s", why);
}

/* A peer that cannot be created (for example because its stored weights do not fit) is left out,
 * and the log says so. */
static sonar_code time_peer(const bench_site *site, const bench_peer_spec *spec, const char *name,
                            bench_times *times, sonar_error *err) {
    char why[200] = "";
    running r = {.api = site->peers};
    *times = (bench_times){0};
    if (!site->peers->open(spec, &r.peer, why, sizeof why)) {
        sonar_log(site->host, SONAR_WARN, name, "left out: %s", why);
        return SONAR_OK;
    }
    sonar_code code = bench_measure(&r, step, settle, &site->effort, times, err);
    site->peers->close(r.peer);
    return code;
}

/* ---- what the device can do ------------------------------------------------------------------ */

static sonar_code rate(const bench_site *site, bench_peer_spec spec, const char *name, double work,
                       double *per_second, sonar_error *err) {
    bench_times times;
    sonar_code code = time_peer(site, &spec, name, &times, err);
    if (code == SONAR_OK && times.min_ns > 0)
        *per_second = work / ((double)times.min_ns * 1e-9);
    return code;
}

sonar_code bench_measure_ceilings(const bench_site *site, bench_report *report, sonar_error *err) {
    enum { THREADS = 132 * 2048 * 2, FMAS = 1 << 14, BYTES = 1 << 30 };
    bench_ceilings *c = &report->ceilings;
    sonar_code code =
        rate(site, (bench_peer_spec){.kind = BENCH_PEER_FMA, .matrices = THREADS, .inner = FMAS},
             "peer.fma", 2.0 * THREADS * FMAS, &c->fma_flops, err);
    if (code == SONAR_OK)
        code = rate(site, (bench_peer_spec){.kind = BENCH_PEER_D2D, .inner = BYTES}, "peer.d2d",
                    2.0 * BYTES, &c->memory_bps, err);
    if (code == SONAR_OK)
        code = rate(site, (bench_peer_spec){.kind = BENCH_PEER_H2D, .inner = BYTES}, "peer.h2d",
                    BYTES, &c->host_to_device_bps, err);
    if (code == SONAR_OK)
        code = rate(site, (bench_peer_spec){.kind = BENCH_PEER_D2H, .inner = BYTES}, "peer.d2h",
                    BYTES, &c->device_to_host_bps, err);
    return code;
}

/* ---- the peers of a case --------------------------------------------------------------------- */

typedef struct plan {
    const char *stage, *implementation;
    bench_peer_spec spec;
    double flop, bytes, host_bytes;
} plan;

/* Whether the case is compared with this kind of peer: eigendecompositions with eigenpairs alone.
 */
static bool fits(const bench_case *c, const plan *p) {
    return (!c->cbf_alone || p->spec.columns == c->snapshots) &&
           c->mvdr_alone == (p->spec.kind >= BENCH_PEER_SYEV_C64) &&
           (c->solver != SONAR_MVDR_JACOBI || p->spec.kind != BENCH_PEER_POTRF_C128);
}

static sonar_code run_peer(const bench_case *c, const plan *p, const bench_site *site,
                           bench_report *report, sonar_error *err) {
    bench_result result = {.of = c,
                           .backend = "peer",
                           .stage = p->stage,
                           .implementation = p->implementation,
                           .flop = p->flop,
                           .bytes = p->bytes,
                           .host_bytes = p->host_bytes,
                           .error_db = NAN,
                           .sweeps = NAN};
    const sonar_code code = time_peer(site, &p->spec, p->stage, &result.time, err);
    if (code == SONAR_OK && result.time.median_ns > 0)
        bench_keep(report, &result);
    return code;
}

/* cheevjBatched takes 2.3 s for 100 matrices of 1024 rows and eight times as long for 2048. */
static bool too_slow(const bench_case *c, const plan *p, const bench_site *site) {
    enum { MOST_ROWS = 1024 };
    if (p->spec.kind != BENCH_PEER_SYEVJ_C64 || c->sensors <= MOST_ROWS ||
        site->effort.max_time_s <= 0)
        return false;
    sonar_log(site->host, SONAR_WARN, p->stage, "left out above %d rows, as it takes too long",
              MOST_ROWS);
    return true;
}

sonar_code bench_run_peers(const bench_case *c, const bench_site *site, bench_report *report,
                           sonar_error *err) {
    const size_t b = c->sensors, n = c->length, bins = c->lofar.bins, t = c->angles;
    const double beams = 8.0 * (double)(bins * t) * (double)b;
    const double stored = 8.0 * (double)(bins * t) * (double)b;
    const double samples = 4.0 * (double)b * (double)n;
    const double column = 8.0 * (double)bins * (double)(b + t);
    const plan plans[] = {
        {"peer.cgemm", "cuBLAS fp32", {BENCH_PEER_CGEMM, bins, t, b, 1}, beams, stored + column, 0},
        {"peer.cgemm.tf32",
         "cuBLAS TF32",
         {BENCH_PEER_CGEMM_TF32, bins, t, b, 1},
         beams,
         stored + column,
         0},
        {"peer.cgemm16",
         "cuBLAS fp32",
         {BENCH_PEER_CGEMM, bins, t, b, 16},
         16 * beams,
         stored + 16 * column,
         0},
        {"peer.cgemm16.tf32",
         "cuBLAS TF32",
         {BENCH_PEER_CGEMM_TF32, bins, t, b, 16},
         16 * beams,
         stored + 16 * column,
         0},
        {"peer.cufft",
         "cuFFT r2c",
         {BENCH_PEER_CUFFT, b, 0, n, 0},
         bench_dft_flop(c),
         samples + 8.0 * (double)b * (double)(n / 2 + 1),
         0},
        {"peer.h2d.f32", "copy", {BENCH_PEER_H2D, 0, 0, 4 * b * n, 0}, 0, 0, samples},
        {"peer.h2d.s16", "copy", {BENCH_PEER_H2D, 0, 0, 2 * b * n, 0}, 0, 0, samples / 2},
        {"peer.d2h", "copy", {BENCH_PEER_D2H, 0, 0, 4 * bins * t, 0}, 0, 0, 0},
        {"peer.syev.c64", "XsyevBatched", {BENCH_PEER_SYEV_C64, bins, 0, b, 0}, 0, 0, 0},
        {"peer.syev.c128", "XsyevBatched", {BENCH_PEER_SYEV_C128, bins, 0, b, 0}, 0, 0, 0},
        {"peer.syevj.c64", "cheevjBatched", {BENCH_PEER_SYEVJ_C64, bins, 0, b, 0}, 0, 0, 0},
        {"peer.potrf.c128", "zpotrf, ztrsm", {BENCH_PEER_POTRF_C128, bins, 0, b, t}, 0, 0, 0},
    };
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < sizeof plans / sizeof *plans && code == SONAR_OK; i++)
        if (fits(c, &plans[i]) && !too_slow(c, &plans[i], site))
            code = run_peer(c, &plans[i], site, report, err);
    return code;
}
