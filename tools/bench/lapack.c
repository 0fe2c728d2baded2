/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "lapack.h"

#include <complex.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef double complex cplx;

/* ---- the library ----------------------------------------------------------------------------- */

/* The Fortran interface, with the lengths of strings at the end. */
typedef struct lapack {
    void *library;
    char name[64];
    void (*zheevd)(const char *job, const char *half, const int *n, cplx *a, const int *lda,
                   double *d, cplx *work, const int *works, double *rwork, const int *rworks,
                   int *iwork, const int *iworks, int *info, size_t, size_t);
    void (*zpotrf)(const char *half, const int *n, cplx *a, const int *lda, int *info, size_t);
    void (*ztrsm)(const char *side, const char *half, const char *transposed, const char *unit,
                  const int *m, const int *n, const cplx *alpha, const cplx *a, const int *lda,
                  cplx *b, const int *ldb, size_t, size_t, size_t, size_t);
    void (*zgemm)(const char *ta, const char *tb, const int *m, const int *n, const int *k,
                  const cplx *alpha, const cplx *a, const int *lda, const cplx *b, const int *ldb,
                  const cplx *beta, cplx *c, const int *ldc, size_t, size_t);
} lapack;

/* POSIX's form for functions from dlsym. */
static bool find(const lapack *l, const char *name, void *function) {
    *(void **)function = dlsym(l->library, name);
    return *(void **)function;
}

/* The library's name with the processor that its kernels are for, e.g. "OpenBLAS 0.3.21 SkylakeX".
 * An OpenBLAS that does not know this processor uses kernels for a very old one. */
static void take_name(lapack *l) {
    char *(*config)(void), *(*core)(void);
    const char *said = find(l, "openblas_get_config", &config) ? config() : "LAPACK";
    const size_t word = strcspn(said, " "), version = word + strspn(said + word, " ");
    const int end = (int)sonar_min_size(version + strcspn(said + version, " "), 40);
    const bool named = find(l, "openblas_get_corename", &core);
    snprintf(l->name, sizeof l->name, "%.*s%s%s", end, said, named ? " " : "", named ? core() : "");
}

/* OpenBLAS if available, in one thread each, since every worker calls it. */
static bool open_library(lapack *l) {
    void (*set_threads)(int);
    *l = (lapack){.library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL)};
    if (!l->library)
        l->library = dlopen("liblapack.so.3", RTLD_NOW | RTLD_LOCAL);
    if (!l->library || !find(l, "zheevd_", &l->zheevd) || !find(l, "zpotrf_", &l->zpotrf) ||
        !find(l, "ztrsm_", &l->ztrsm) || !find(l, "zgemm_", &l->zgemm))
        return false;
    if (find(l, "openblas_set_num_threads", &set_threads))
        set_threads(1);
    take_name(l);
    return true;
}

/* ---- what is solved -------------------------------------------------------------------------- */

/* Scratch of a worker. */
typedef struct worker {
    cplx *x, *steering; /* [snapshot][sensor], [direction][sensor] */
    cplx *matrix, *right, *product, *work;
    double *d, *rwork;
    int *iwork;
} worker;

/* Eigenpairs; eigenvalues (for the noise rule) and a factor; a factor. */
typedef enum way { PAIRS, VALUES_AND_FACTOR, FACTOR } way;
static const char *const stage_names[] = {"peer.zheevd", "peer.zheevd.zpotrf", "peer.zpotrf"};

/* The same matrices as in the stage: the Gram matrix of the snapshots with the projections of the
 * steering vectors on them, or the covariance of the sensors with the steering vectors. */
typedef struct problem {
    const lapack *lapack;
    const bench_scene *scene;
    bool by_snapshots;
    way way;
    int order, looks, works, rworks, iworks;
    cplx *matrix; /* [bin][order][order], without loading */
    cplx *right;  /* [bin][direction][order] */
    float *delta; /* [bin] */
    float *power; /* [bin][direction] */
    int *info;    /* [bin] LAPACK's info; not 0: failed */
    worker *worker;
} problem;

static const cplx unit = 1, nothing = 0;

static void multiply(const lapack *l, const char *transposed, const char *also, int m, int n, int k,
                     double scale, const cplx *a, int lda, const cplx *b, int ldb, cplx *c) {
    const cplx alpha = scale;
    l->zgemm(transposed, also, &m, &n, &k, &alpha, a, &lda, b, &ldb, &nothing, c, &m, 1, 1);
}

static void make_bin(void *arg, size_t bin, size_t who) {
    const problem *p = arg;
    const bench_case *c = p->scene->c;
    const int sensors = (int)c->sensors, count = (int)c->snapshots;
    const worker *w = &p->worker[who];
    cplx *matrix = p->matrix + bin * (size_t)p->order * (size_t)p->order;
    cplx *right = p->right + bin * (size_t)p->looks * (size_t)p->order;
    for (size_t l = 0; l < c->snapshots; l++)
        for (size_t k = 0; k < c->sensors; k++) {
            const sonar_c32 v = p->scene->snapshot[(l * c->mvdr.bins + bin) * c->sensors + k];
            w->x[l * c->sensors + k] = (double)v.re + I * (double)v.im;
        }
    for (size_t i = 0; i < c->angles * c->sensors; i++) {
        const uint64_t turns = (c->mvdr.first + bin) * p->scene->far_turns[i];
        w->steering[i] = cexp(I * ldexp((double)turns, -63) * M_PI);
    }
    const double share = 1 / (double)count;
    if (p->by_snapshots) {
        multiply(p->lapack, "C", "N", count, count, sensors, share, w->x, sensors, w->x, sensors,
                 matrix);
        multiply(p->lapack, "C", "N", count, p->looks, sensors, sqrt(share), w->x, sensors,
                 w->steering, sensors, right);
    } else {
        multiply(p->lapack, "N", "C", sensors, sensors, count, share, w->x, sensors, w->x, sensors,
                 matrix);
        memcpy(right, w->steering, c->angles * c->sensors * sizeof *right);
    }
}

/* ---- what is timed --------------------------------------------------------------------------- */

/* Power of each direction from |product|^2, weighted if weights are given. */
static void spectrum(const problem *p, size_t bin, const cplx *product, const double *weight) {
    const double delta = (double)p->delta[bin], norm = (double)p->scene->c->sensors;
    for (int t = 0; t < p->looks; t++) {
        double form = 0;
        for (int i = 0; i < p->order; i++) {
            const cplx v = product[(size_t)t * (size_t)p->order + (size_t)i];
            form += (creal(v) * creal(v) + cimag(v) * cimag(v)) * (weight ? weight[i] : 1);
        }
        p->power[bin * (size_t)p->looks + (size_t)t] =
            (float)(p->by_snapshots ? delta / (norm - form) : 1 / form);
    }
}

static void find_eigenvalues(const problem *p, const char *job, size_t bin, const worker *w) {
    p->lapack->zheevd(job, "L", &p->order, w->matrix, &p->order, w->d, w->work, &p->works, w->rwork,
                      &p->rworks, w->iwork, &p->iworks, &p->info[bin], 1, 1);
}

static void by_eigenpairs(const problem *p, size_t bin, const worker *w, const cplx *right) {
    find_eigenvalues(p, "V", bin, w);
    multiply(p->lapack, "C", "N", p->order, p->looks, p->order, 1, w->matrix, p->order, right,
             p->order, w->product);
    for (int i = 0; i < p->order; i++)
        w->d[i] = 1 / (w->d[i] + (double)p->delta[bin]);
    spectrum(p, bin, w->product, w->d);
}

static void by_cholesky(const problem *p, size_t bin, const worker *w, const cplx *right) {
    for (size_t i = 0; i < (size_t)p->order; i++)
        w->matrix[i * ((size_t)p->order + 1)] += (double)p->delta[bin];
    p->lapack->zpotrf("L", &p->order, w->matrix, &p->order, &p->info[bin], 1);
    memcpy(w->product, right, (size_t)p->looks * (size_t)p->order * sizeof *right);
    p->lapack->ztrsm("L", "L", "N", "N", &p->order, &p->looks, &unit, w->matrix, &p->order,
                     w->product, &p->order, 1, 1, 1, 1);
    spectrum(p, bin, w->product, NULL);
}

static void solve_bin(void *arg, size_t bin, size_t who) {
    const problem *p = arg;
    const worker *w = &p->worker[who];
    const size_t square = (size_t)p->order * (size_t)p->order, bytes = square * sizeof *w->matrix;
    const cplx *matrix = p->matrix + bin * square;
    const cplx *right = p->right + bin * (size_t)p->looks * (size_t)p->order;
    memcpy(w->matrix, matrix, bytes);
    if (p->way == PAIRS) {
        by_eigenpairs(p, bin, w, right);
        return;
    }
    if (p->way == VALUES_AND_FACTOR) {
        find_eigenvalues(p, "N", bin, w);
        memcpy(w->matrix, matrix, bytes);
    }
    if (p->info[bin] == 0)
        by_cholesky(p, bin, w, right);
}

static sonar_code step(void *ctx, sonar_error *err) {
    problem *p = ctx;
    const sonar_host *host = p->scene->site->host;
    memset(p->info, 0, p->scene->c->mvdr.bins * sizeof *p->info);
    host->parallel(host->ctx, p->scene->c->mvdr.bins, solve_bin, p);
    for (size_t bin = 0; bin < p->scene->c->mvdr.bins; bin++)
        if (p->info[bin])
            return sonar_fail(err, SONAR_ESYS, "lapack", "bin %zu: info %d", bin, p->info[bin]);
    return SONAR_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

enum { SLACK = 64 }; /* OpenBLAS 0.3.21 reads beyond LAPACK's scratch */

/* Scratch sizes as queried from zheevd. */
static void ask(problem *p) {
    cplx work = 0;
    double rwork = 0;
    const int query = -1;
    p->lapack->zheevd("V", "L", &p->order, NULL, &p->order, NULL, &work, &query, &rwork, &query,
                      &p->iworks, &query, &p->info[0], 1, 1);
    p->works = (int)creal(work);
    p->rworks = (int)rwork;
}

static bool make_worker(const problem *p, worker *w) {
    const bench_case *c = p->scene->c;
    const size_t order = (size_t)p->order, looks = (size_t)p->looks;
    *w = (worker){.x = sonar_alloc(c->snapshots * c->sensors, sizeof(cplx)),
                  .steering = sonar_alloc(looks * c->sensors, sizeof(cplx)),
                  .matrix = sonar_alloc(order * order, sizeof(cplx)),
                  .product = sonar_alloc(looks * order, sizeof(cplx)),
                  .work = sonar_alloc((size_t)p->works + SLACK, sizeof(cplx)),
                  .d = sonar_alloc(order + SLACK, sizeof(double)),
                  .rwork = sonar_alloc((size_t)p->rworks + SLACK, sizeof(double)),
                  .iwork = sonar_alloc((size_t)p->iworks + SLACK, sizeof(int))};
    return w->x && w->steering && w->matrix && w->product && w->work && w->d && w->rwork &&
           w->iwork;
}

static void release(problem *p) {
    for (size_t i = 0; p->worker && i < p->scene->site->host->workers; i++) {
        worker *w = &p->worker[i];
        void *owned[] = {w->x,    w->steering, w->matrix, w->product,
                         w->work, w->d,        w->rwork,  w->iwork};
        for (size_t k = 0; k < sizeof owned / sizeof *owned; k++)
            free(owned[k]);
    }
    void *owned[] = {p->matrix, p->right, p->delta, p->power, p->info, p->worker};
    for (size_t k = 0; k < sizeof owned / sizeof *owned; k++)
        free(owned[k]);
}

static sonar_code allocate(problem *p, sonar_error *err) {
    const bench_case *c = p->scene->c;
    const size_t bins = c->mvdr.bins, order = (size_t)p->order,
                 workers = p->scene->site->host->workers;
    p->matrix = sonar_alloc(bins * order, order * sizeof(cplx));
    p->right = sonar_alloc(bins * order, c->angles * sizeof(cplx));
    p->delta = sonar_alloc(bins, sizeof(float));
    p->power = sonar_alloc(bins, c->angles * sizeof(float));
    p->info = sonar_alloc(bins, sizeof(int));
    p->worker = sonar_alloc(workers, sizeof *p->worker);
    bool there = p->matrix && p->right && p->delta && p->power && p->info && p->worker;
    if (there)
        ask(p);
    for (size_t i = 0; i < workers && there; i++)
        there = make_worker(p, &p->worker[i]);
    return there ? SONAR_OK
                 : sonar_fail(err, SONAR_ENOMEM, c->name, "no memory for LAPACK's matrices");
}

/* ---- all of it ------------------------------------------------------------------------------- */

static sonar_code time_one(problem *p, way way, bench_report *report, sonar_error *err) {
    const bench_case *c = p->scene->c;
    const size_t middle = c->mvdr.bins / 2;
    bench_result result = {.of = c,
                           .backend = "peer",
                           .stage = stage_names[way],
                           .implementation = p->lapack->name,
                           .sweeps = NAN};
    p->way = way;
    const sonar_code code =
        bench_measure(p, step, NULL, &p->scene->site->effort, &result.time, err);
    if (code)
        return code;
    result.error_db =
        bench_mvdr_worst_db(p->scene, (double)p->delta[middle], p->power + middle * c->angles);
    bench_keep(report, &result);
    return SONAR_OK;
}

static sonar_code run(problem *p, bench_stages *stages, bench_report *report, sonar_error *err) {
    const sonar_host *host = p->scene->site->host;
    sonar_code code = allocate(p, err);
    if (!code)
        code = bench_stages_mvdr_delta(stages, p->delta, err);
    if (code)
        return code;
    host->parallel(host->ctx, p->scene->c->mvdr.bins, make_bin, p);
    /* Jacobi's method is compared with eigenpairs alone. */
    const way last = p->scene->c->solver == SONAR_MVDR_JACOBI ? PAIRS : FACTOR;
    for (way way = PAIRS; way <= last && !code; way++)
        code = time_one(p, way, report, err);
    return code;
}

sonar_code bench_run_lapack(bench_stages *stages, bench_report *report, sonar_error *err) {
    static lapack library; /* not closed: results refer to its name, and its threads keep running */
    const bench_case *c = stages->scene->c;
    const bool by_snapshots = 2 * c->snapshots <= c->sensors;
    if (!library.library && !open_library(&library)) {
        const char *why = dlerror();
        sonar_log(stages->scene->site->host, SONAR_WARN, "lapack", "left out: %s",
                  why ? why : "functions are missing");
        library.library = NULL;
        return SONAR_OK;
    }
    problem p = {.lapack = &library,
                 .scene = stages->scene,
                 .by_snapshots = by_snapshots,
                 .order = (int)(by_snapshots ? c->snapshots : c->sensors),
                 .looks = (int)c->angles};
    const sonar_code code = run(&p, stages, report, err);
    release(&p);
    return code;
}
