/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The block Jacobi method of src/mvdr_jacobi/cuda/jacobi/run.cuh against LAPACK's zheevd, and
 * graded matrices against Jacobi's method in long double. A plain program (exit 77 without a GPU).
 * Options: --quick (small sizes, for compute-sanitizer), --time (figures, beside cuSOLVER). */
#include <complex>
#define lapack_complex_float  std::complex<float>
#define lapack_complex_double std::complex<double>
#include <lapacke.h>

#include <cusolverDn.h>
#include <dlfcn.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "mvdr_jacobi/cuda/jacobi/run.cuh"

typedef std::complex<double> cplx;
typedef std::vector<cplx> square; /* n x n, column by column */

static size_t checks, failures;

__attribute__((format(printf, 2, 3))) static void expect(bool ok, const char *format, ...) {
    va_list args;
    checks++;
    if (ok || ++failures > 20)
        return;
    va_start(args, format);
    printf("FAILED: ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

static void cuda_ok(cudaError_t error, const char *what) {
    if (error == cudaSuccess)
        return;
    printf("FAILED: %s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}
#define CUDA_OK(call) cuda_ok(call, #call)

/* ---- matrices -------------------------------------------------------------------------------- */

static std::mt19937_64 generator(7);

static cplx noise() {
    static std::normal_distribution<double> normal;
    const double re = normal(generator), im = normal(generator);
    return cplx(re, im) * sqrt(0.5);
}

/* Snapshots of a half-wave line: noise of power 1 and sources, each with direction cosine and
 * amplitude; these move by `drift` from one snapshot to the next. */
struct scene {
    size_t n;
    std::vector<std::pair<double, double>> sources;
    double drift;
    size_t snapshots;

    std::vector<cplx> next() {
        std::vector<cplx> x(n);
        for (cplx &element : x)
            element = noise();
        for (size_t s = 0; s < sources.size(); s++) {
            const cplx g = noise() * sources[s].second;
            const double cosine = sources[s].first + drift * (double)snapshots;
            for (size_t i = 0; i < n; i++)
                x[i] += g * std::polar(1., M_PI * (double)i * cosine);
        }
        snapshots++;
        return x;
    }
};

static void add(square &r, const std::vector<cplx> &x, double weight) {
    const size_t n = x.size();
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < n; i++)
            r[j * n + i] += weight * x[i] * std::conj(x[j]);
}

static square covariance(size_t n, size_t count, std::vector<std::pair<double, double>> sources) {
    scene sea = {n, sources, 0, 0};
    square r(n * n);
    for (size_t l = 0; l < count; l++)
        add(r, sea.next(), 1. / (double)count);
    return r;
}

/* U diag(d) U^H for a product U of three reflections. */
static square with_eigenvalues(const std::vector<double> &d) {
    const size_t n = d.size();
    square r(n * n);
    for (size_t i = 0; i < n; i++)
        r[i * n + i] = d[i];
    for (int turn = 0; turn < 3; turn++) {
        std::vector<cplx> v(n), w(n);
        double norm = 0;
        for (cplx &x : v)
            x = noise(), norm += std::norm(x);
        for (size_t j = 0; j < n; j++) /* w = R v 2 / |v|^2 */
            for (size_t i = 0; i < n; i++)
                w[i] += r[j * n + i] * v[j] * 2. / norm;
        cplx half = 0;
        for (size_t i = 0; i < n; i++)
            half += std::conj(v[i]) * w[i] / norm;
        for (size_t i = 0; i < n; i++)
            w[i] -= half * v[i];
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < n; i++)
                r[j * n + i] -= v[i] * std::conj(w[j]) + w[i] * std::conj(v[j]);
    }
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i <= j; i++)
            r[i * n + j] = std::conj(r[j * n + i] = i == j ? r[j * n + i].real() : r[j * n + i]);
    return r;
}

static const char *const KINDS[] = {
    "snapshots", "few snapshots", "one snapshot", "80 dB",      "zero",       "identity",
    "diagonal",  "cluster",       "two clusters", "geometric",  "arithmetic", "one large",
    "one small", "tiny",          "huge",         "half zeros", "graded",     "steep"};
enum { KIND_COUNT = sizeof KINDS / sizeof *KINDS };

static square matrix_of(int kind, size_t n) {
    std::vector<double> d(n);
    const double last = n > 1 ? (double)n - 1 : 1;
    for (size_t i = 0; i < n; i++) {
        const double part = (double)i / last;
        d[i] = kind == 5    ? 3
               : kind == 7  ? 1 + 1e-13 * (double)i
               : kind == 8  ? (i % 3 ? 1 : 1e-9) + 1e-15 * (double)i
               : kind == 9  ? pow(10, -12 * part)
               : kind == 10 ? 1 - part * (1 - 1 / ((double)n + 1))
               : kind == 11 ? (i ? 1e-8 : 1)
               : kind == 12 ? (i + 1 < n ? 1 : 1e-10)
               : kind == 13 ? 1e-20 * (1 + part)
               : kind == 14 ? 1e+20 * (1 + part)
               : kind == 15 ? (i % 2 ? 0 : 1 + part)
               : kind == 17 ? pow(10, -40 * part)
                            : 1 + part;
    }
    switch (kind) {
    case 0:
        return covariance(n, 2 * n, {{0.76, 1000}, {-0.01, 100}, {-0.55, 10}});
    case 1:
        return covariance(n, n / 2 + 1, {{0.76, 1000}, {-0.01, 100}});
    case 2:
        return covariance(n, 1, {{0.3, 1}});
    case 3:
        return covariance(n, 2 * n, {{0.2, 1e4}, {0.21, 1e4}});
    case 4:
        return square(n * n);
    case 6: {
        square r(n * n);
        for (size_t i = 0; i < n; i++)
            r[i * n + i] = pow(10, -(double)(i * 7 % n));
        return r;
    }
    case 16: { /* D B D, whose eigenvalues are all known to high relative accuracy */
        square r = with_eigenvalues(d);
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < n; i++)
                r[j * n + i] *= pow(10, -8 * (double)(i + j) / last);
        return r;
    }
    default:
        return with_eigenvalues(d);
    }
}

/* ---- the solver ------------------------------------------------------------------------------ */

struct solved {
    std::vector<double> d;
    square v;
    mvdr::jacobi_record record;
};

struct solver {
    mvdr::jacobi_batch b;
    size_t n, pitch;

    solver(size_t rows, size_t count) : b(), n(rows), pitch((rows + 31) / 32 * 32) {
        const size_t elements = count * pitch * pitch;
        const size_t teams = mvdr_jacobi_teams(pitch, count);
        int processors;
        b.rows = (uint32_t)n, b.order = (uint32_t)pitch, b.count = (uint32_t)count;
        b.max_sweeps = 30;
        CUDA_OK(cudaMalloc(&b.a, elements * sizeof *b.a));
        CUDA_OK(cudaMalloc(&b.x, elements * sizeof *b.x));
        CUDA_OK(cudaMalloc(&b.vectors, elements * sizeof *b.vectors));
        CUDA_OK(cudaMalloc(&b.squares, teams * 4 * pitch * pitch * sizeof *b.squares));
        CUDA_OK(cudaMalloc(&b.sums, teams * 2 * mvdr::jacobi_parts((uint32_t)pitch) * pitch *
                                        sizeof *b.sums));
        CUDA_OK(cudaMalloc(&b.turn, elements * sizeof *b.turn));
        CUDA_OK(cudaMalloc(&b.change, count * 2 * mvdr::FOLLOW_PROBES * pitch * sizeof *b.change));
        CUDA_OK(cudaMalloc(&b.d, count * pitch * sizeof *b.d));
        CUDA_OK(cudaMalloc(&b.own, count * pitch * sizeof *b.own));
        CUDA_OK(cudaMalloc(&b.record, count * sizeof *b.record));
        CUDA_OK(cudaMalloc(&b.worst, count * mvdr::JACOBI_MOST_SWEEPS * sizeof *b.worst));
        CUDA_OK(cudaMalloc(&b.arrived, MVDR_DEVICE_LAUNCHES * (count + 1) * sizeof *b.arrived));
        CUDA_OK(cudaMalloc(&b.kept, count * sizeof *b.kept));
        CUDA_OK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
        CUDA_OK(mvdr::jacobi_fit(&b, processors));
    }
    ~solver() {
        void *all[] = {b.a, b.x,   b.vectors, b.squares, b.sums,    b.turn, b.change,
                       b.d, b.own, b.record,  b.worst,   b.arrived, b.kept};
        for (void *memory : all)
            cudaFree(memory);
    }
    void put(size_t matrix, const square &r) {
        square padded(pitch * pitch);
        for (size_t j = 0; j < n; j++)
            std::copy_n(&r[j * n], n, &padded[j * pitch]);
        CUDA_OK(cudaMemcpy(b.a + matrix * pitch * pitch, padded.data(),
                           padded.size() * sizeof(cplx), cudaMemcpyHostToDevice));
    }
    void begin_from(mvdr::jacobi_start start) {
        const std::vector<uint32_t> flags(b.count, start);
        CUDA_OK(cudaMemcpy(b.kept, flags.data(), b.count * sizeof *b.kept, cudaMemcpyHostToDevice));
    }
    void run(bool from_vectors) {
        begin_from(from_vectors ? mvdr::FROM_VECTORS : mvdr::FROM_NOTHING);
        mvdr::jacobi_run(b, 0);
        CUDA_OK(cudaGetLastError());
        CUDA_OK(cudaDeviceSynchronize());
    }
    solved get(size_t matrix) {
        solved s = {std::vector<double>(pitch), square(pitch * pitch), {}};
        CUDA_OK(cudaMemcpy(s.d.data(), b.d + matrix * pitch, pitch * sizeof(double),
                           cudaMemcpyDeviceToHost));
        CUDA_OK(cudaMemcpy(s.v.data(), b.vectors + matrix * pitch * pitch,
                           pitch * pitch * sizeof(cplx), cudaMemcpyDeviceToHost));
        CUDA_OK(cudaMemcpy(&s.record, b.record + matrix, sizeof s.record, cudaMemcpyDeviceToHost));
        for (size_t j = 0; j < n; j++)
            std::copy_n(&s.v[j * pitch], n, &s.v[j * n]);
        s.d.resize(n), s.v.resize(n * n);
        return s;
    }
};

/* ---- against LAPACK -------------------------------------------------------------------------- */

struct errors {
    double residual, orthogonality, eigenvalues;
};

/* In units of float64's rounding; of the largest eigenvalue. */
static errors errors_of(const square &r, const std::vector<double> &d, const square &v,
                        const std::vector<double> &exact) {
    const size_t n = d.size();
    const double scale = std::max(exact[0], DBL_MIN) * DBL_EPSILON;
    errors e = {0, 0, 0};
    for (size_t j = 0; j < n; j++) {
        std::vector<cplx> rv(n);
        for (size_t k = 0; k < n; k++)
            for (size_t i = 0; i < n; i++)
                rv[i] += r[k * n + i] * v[j * n + k];
        double norm = 0;
        for (size_t i = 0; i < n; i++)
            norm += std::norm(rv[i] - d[j] * v[j * n + i]);
        e.residual = fmax(e.residual, sqrt(norm) / scale);
        for (size_t k = 0; k <= j; k++) {
            cplx sum = 0;
            for (size_t i = 0; i < n; i++)
                sum += std::conj(v[k * n + i]) * v[j * n + i];
            e.orthogonality =
                fmax(e.orthogonality, std::abs(sum - (j == k ? 1. : 0.)) / DBL_EPSILON);
        }
        e.eigenvalues = fmax(e.eigenvalues, fabs(d[j] - exact[j]) / scale);
        if (!std::isfinite(norm) || !std::isfinite(d[j]))
            e.residual = INFINITY;
    }
    return e;
}

static void lapack(square &v, std::vector<double> &d, size_t n) {
    d.resize(n);
    LAPACKE_zheevd(LAPACK_COL_MAJOR, 'V', 'L', (int)n, v.data(), (int)n, d.data());
    std::reverse(d.begin(), d.end());
    for (size_t j = 0; j < n / 2; j++)
        std::swap_ranges(&v[j * n], &v[j * n] + n, &v[(n - 1 - j) * n]);
}

static void check(const square &r, const solved &s, const char *what) {
    const size_t n = s.d.size();
    square v = r;
    std::vector<double> exact;
    lapack(v, exact, n);
    const errors theirs = errors_of(r, exact, v, exact), ours = errors_of(r, s.d, s.v, exact);
    const double floor = 8 + 4 * sqrt((double)n);
    expect(s.record.converged, "%s, %zu rows: not converged, residual %g after %u", what, n,
           s.record.residual, s.record.sweeps);
    expect(ours.residual <= fmax(floor, theirs.residual),
           "%s, %zu rows: residual %.1f, zheevd's %.1f", what, n, ours.residual, theirs.residual);
    expect(ours.orthogonality <= fmax(floor, theirs.orthogonality),
           "%s, %zu rows: orthogonality %.1f, zheevd's %.1f", what, n, ours.orthogonality,
           theirs.orthogonality);
    expect(ours.eigenvalues <= floor + (double)n, "%s, %zu rows: eigenvalues %.1f", what, n,
           ours.eigenvalues);
    for (size_t j = 1; j < n; j++)
        expect(s.d[j] <= s.d[j - 1] && s.d[j] >= 0, "%s, %zu rows: order at %zu", what, n, j);
}

/* Solves a matrix of each kind in one batch, and returns them. */
static std::vector<square> solve_kinds(solver &solver, size_t n) {
    std::vector<square> matrices;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        matrices.push_back(matrix_of(kind, n));
        solver.put((size_t)kind, matrices.back());
    }
    solver.run(false);
    return matrices;
}

static void all_kinds(size_t n) {
    solver solver(n, KIND_COUNT);
    const std::vector<square> matrices = solve_kinds(solver, n);
    for (int kind = 0; kind < KIND_COUNT; kind++)
        check(matrices[(size_t)kind], solver.get((size_t)kind), KINDS[kind]);
}

/* ---- graded matrices ------------------------------------------------------------------------- */

typedef std::complex<long double> wide;

/* Eigenvalues, descending, by one-sided Jacobi on the Cholesky factor in long double. */
static std::vector<long double> exact_eigenvalues(const square &r, size_t n) {
    std::vector<wide> l(r.begin(), r.end());
    for (size_t j = 0; j < n; j++) {
        for (size_t k = 0; k < j; k++)
            for (size_t i = j; i < n; i++)
                l[j * n + i] -= l[k * n + i] * std::conj(l[k * n + j]);
        const long double root = sqrtl(l[j * n + j].real());
        for (size_t i = 0; i < n; i++)
            l[j * n + i] = i < j ? 0 : l[j * n + i] / root;
    }
    for (int sweep = 0; sweep < 30; sweep++)
        for (size_t j = 1; j < n; j++)
            for (size_t i = 0; i < j; i++) {
                long double xx = 0, yy = 0;
                wide g = 0;
                for (size_t q = 0; q < n; q++) {
                    xx += std::norm(l[i * n + q]), yy += std::norm(l[j * n + q]);
                    g += std::conj(l[i * n + q]) * l[j * n + q];
                }
                const long double size = std::abs(g), zeta = (yy - xx) / (2 * size);
                if (!(size > 1e-19L * sqrtl(xx * yy)))
                    continue;
                const long double t = copysignl(1, zeta) / (fabsl(zeta) + sqrtl(1 + zeta * zeta)),
                                  c = 1 / sqrtl(1 + t * t);
                const wide w = c * t / size * g;
                for (size_t q = 0; q < n; q++) {
                    const wide x = l[i * n + q], y = l[j * n + q];
                    l[i * n + q] = c * x - std::conj(w) * y, l[j * n + q] = w * x + c * y;
                }
            }
    std::vector<long double> d(n);
    for (size_t j = 0; j < n; j++)
        for (size_t q = 0; q < n; q++)
            d[j] += std::norm(l[j * n + q]);
    std::sort(d.rbegin(), d.rend());
    return d;
}

/* Small eigenvalues of D B D are known to B's condition, which zheevd's are not. */
static void graded(size_t n) {
    solver solver(n, 1);
    const square r = matrix_of(16, n);
    const std::vector<long double> exact = exact_eigenvalues(r, n);
    solver.put(0, r);
    solver.run(false);
    const solved s = solver.get(0);
    square v = r;
    std::vector<double> theirs;
    lapack(v, theirs, n);
    double worst = 0, others = 0;
    for (size_t j = 0; j < n; j++) {
        worst = fmax(worst, (double)fabsl(s.d[j] / exact[j] - 1));
        others = fmax(others, (double)fabsl(theirs[j] / exact[j] - 1));
    }
    printf(
        "graded, %zu rows: eigenvalues to 1e-16 of the largest right to %.1e, zheevd's to %.1e\n",
        n, worst, others);
    expect(s.record.shift == 0 && worst <= 64 * (double)n * DBL_EPSILON,
           "graded, %zu rows: relative error %g, shift %g", n, worst, s.record.shift);
}

/* ---- from vectors ---------------------------------------------------------------------------- */

/* A window that slides over a moving ship of 80 dB. */
static void stream(size_t n, size_t length, size_t steps) {
    solver warm(n, 1), cold(n, 1);
    scene sea = {n, {{0.7, 1e4}, {0.2, 100}, {-0.4, 10}}, 1e-5, 0};
    std::vector<std::vector<cplx>> ring;
    size_t sweeps[2] = {0, 0};
    for (size_t l = 0; l < length; l++)
        ring.push_back(sea.next());
    for (size_t step = 0; step < steps; step++) {
        square r(n * n);
        for (const std::vector<cplx> &x : ring)
            add(r, x, 1. / (double)length);
        warm.put(0, r), cold.put(0, r);
        warm.run(step > 0), cold.run(false);
        const solved own = warm.get(0), other = cold.get(0);
        if (step % 4 < 2 || n < 100)
            check(r, own, step ? "from vectors" : "from nothing");
        sweeps[0] += step ? own.record.sweeps : 0;
        sweeps[1] += step ? other.record.sweeps : 0;
        ring[step % length] = sea.next();
    }
    printf("%zu rows, %zu snapshots: %.1f sweeps from the last vectors, %.1f from nothing\n", n,
           length, (double)sweeps[0] / (double)(steps - 1),
           (double)sweeps[1] / (double)(steps - 1));
    expect(sweeps[0] < sweeps[1] || n <= 32, "%zu rows: %zu sweeps from vectors, %zu from nothing",
           n, sweeps[0], sweeps[1]);
}

/* From the vectors of each kind of matrix, changed by `added` snapshots while it fades: one is
 * followed, three are not. And from those of the matrix itself. */
static void changes(size_t n, size_t added) {
    solver solver(n, KIND_COUNT);
    std::vector<square> matrices = solve_kinds(solver, n);
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        square &r = matrices[(size_t)kind];
        scene sea = {n, {{0.1, 3}}, 0, 0};
        double trace = 1e-30;
        for (size_t i = 0; i < n; i++)
            trace += r[i * n + i].real();
        for (cplx &x : r)
            x *= added ? 0.75 : 1;
        for (size_t l = 0; l < added; l++)
            add(r, sea.next(), trace / (double)(4 * n * n));
        for (size_t i = 0; i < n; i++)
            r[i * n + i] = r[i * n + i].real();
        solver.put((size_t)kind, r);
    }
    solver.run(true);
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        const solved s = solver.get((size_t)kind);
        check(matrices[(size_t)kind], s, KINDS[kind]);
        expect(kind || added != 1 || s.record.sweeps <= 4, "%s, %zu rows: %u sweeps", KINDS[kind],
               n, s.record.sweeps);
    }
}

/* ---- determinism ----------------------------------------------------------------------------- */

static bool same(const solved &a, const solved &b) {
    return !memcmp(a.d.data(), b.d.data(), a.d.size() * sizeof(double)) &&
           !memcmp(a.v.data(), b.v.data(), a.v.size() * sizeof(cplx));
}

/* A matrix has the same result in every run, and among others, from nothing and from the vectors of
 * another. */
static void repeats(size_t n, size_t count) {
    solver many(n, count), one(n, 1);
    std::vector<square> matrices[2];
    for (size_t i = 0; i < count; i++) {
        matrices[0].push_back(matrix_of((int)(i % 4), n));
        matrices[1].push_back(matrices[0].back());
        add(matrices[1].back(), scene{n, {{0.1, 3}}, 0, 0}.next(), 0.01);
    }
    for (int warm = 0; warm < 2; warm++)
        one.put(0, matrices[warm][count - 1]), one.run(warm);
    std::vector<solved> first[2];
    for (int turn = 0; turn < 3; turn++)
        for (int warm = 0; warm < 2; warm++) {
            for (size_t i = 0; i < count; i++)
                many.put(i, matrices[warm][i]);
            many.run(warm);
            for (size_t i = 0; i < count; i++)
                if (turn == 0)
                    first[warm].push_back(many.get(i));
                else
                    expect(same(first[warm][i], many.get(i)), "%zu rows: matrix %zu in run %d", n,
                           i, turn);
        }
    expect(same(first[1][count - 1], one.get(0)), "%zu rows: alone", n);
}

/* ---- times ----------------------------------------------------------------------------------- */

template <typename CALL> static double time_ms(CALL call) {
    cudaEvent_t begin, end;
    std::vector<float> times;
    CUDA_OK(cudaEventCreate(&begin));
    CUDA_OK(cudaEventCreate(&end));
    for (int i = 0; i < 6; i++) {
        float ms;
        call(begin);
        CUDA_OK(cudaEventRecord(end));
        CUDA_OK(cudaEventSynchronize(end));
        CUDA_OK(cudaEventElapsedTime(&ms, begin, end));
        if (i)
            times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

using library_call = cusolverStatus_t (*)(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t,
                                          cublasFillMode_t, int64_t, cudaDataType, void *, int64_t,
                                          cudaDataType, void *, cudaDataType, void *, size_t,
                                          void *, size_t, int *, int64_t);
using library_size = cusolverStatus_t (*)(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t,
                                          cublasFillMode_t, int64_t, cudaDataType, const void *,
                                          int64_t, cudaDataType, const void *, cudaDataType,
                                          size_t *, size_t *, int64_t);

static double time_library(const solver &s, const mvdr::complex64 *source, size_t count) {
    void *library = dlopen("libcusolver.so", RTLD_NOW);
    library = library ? library : dlopen("libcusolver.so.12", RTLD_NOW);
    if (!library)
        return NAN;
    const auto create = (decltype(&cusolverDnCreate))dlsym(library, "cusolverDnCreate");
    const auto params_of =
        (decltype(&cusolverDnCreateParams))dlsym(library, "cusolverDnCreateParams");
    const auto size = (library_size)dlsym(library, "cusolverDnXsyevBatched_bufferSize");
    const auto call = (library_call)dlsym(library, "cusolverDnXsyevBatched");
    cusolverDnHandle_t handle;
    cusolverDnParams_t params;
    size_t bytes, host_bytes;
    void *work;
    int *failed;
    if (!create || !params_of || !size || !call || create(&handle) || params_of(&params))
        return NAN;
    const int64_t n = (int64_t)s.pitch;
    if (size(handle, params, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, n, CUDA_C_64F, s.b.a,
             n, CUDA_R_64F, s.b.d, CUDA_C_64F, &bytes, &host_bytes, (int64_t)count))
        return NAN;
    std::vector<char> host(host_bytes + 1);
    CUDA_OK(cudaMalloc(&work, bytes));
    CUDA_OK(cudaMalloc(&failed, count * sizeof *failed));
    const double ms = time_ms([&](cudaEvent_t begin) {
        CUDA_OK(cudaMemcpy(s.b.a, source, count * s.pitch * s.pitch * sizeof *source,
                           cudaMemcpyDeviceToDevice));
        CUDA_OK(cudaEventRecord(begin));
        call(handle, params, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, n, CUDA_C_64F, s.b.a,
             n, CUDA_R_64F, s.b.d, CUDA_C_64F, work, bytes, host.data(), host_bytes, failed,
             (int64_t)count);
    });
    cudaFree(work), cudaFree(failed);
    return ms;
}

/* Snapshots that slide by one from a matrix to the next; all of a batch are those of a few. */
static void time_one(size_t n, size_t count) {
    solver s(n, count);
    scene sea = {n, {{0.76, 1000}, {-0.01, 100}, {-0.55, 10}}, 0, 0};
    const size_t length = 2 * n, bytes = count * s.pitch * s.pitch * sizeof(mvdr::complex64);
    mvdr::complex64 *source[2], *vectors;
    double *d;
    for (int t = 0; t < 2; t++)
        CUDA_OK(cudaMalloc(&source[t], bytes));
    CUDA_OK(cudaMalloc(&vectors, bytes));
    CUDA_OK(cudaMalloc(&d, count * s.pitch * sizeof *d));
    const size_t different = std::min(count, (size_t)(n > 256 ? 2 : 4));
    for (size_t i = 0; i < count; i++) {
        if (i < different) {
            std::vector<std::vector<cplx>> ring;
            square r(n * n);
            for (size_t l = 0; l <= length; l++)
                ring.push_back(sea.next());
            for (size_t l = 0; l < length; l++)
                add(r, ring[l], 1. / (double)length);
            s.put(i, r);
            CUDA_OK(cudaMemcpy(source[0] + i * s.pitch * s.pitch, s.b.a + i * s.pitch * s.pitch,
                               bytes / count, cudaMemcpyDeviceToDevice));
            add(r, ring[0], -1. / (double)length), add(r, ring[length], 1. / (double)length);
            s.put(i, r);
            CUDA_OK(cudaMemcpy(source[1] + i * s.pitch * s.pitch, s.b.a + i * s.pitch * s.pitch,
                               bytes / count, cudaMemcpyDeviceToDevice));
        } else {
            for (int t = 0; t < 2; t++)
                CUDA_OK(cudaMemcpy(source[t] + i * s.pitch * s.pitch,
                                   source[t] + i % different * s.pitch * s.pitch, bytes / count,
                                   cudaMemcpyDeviceToDevice));
        }
    }
    const double cold = time_ms([&](cudaEvent_t begin) {
        CUDA_OK(cudaMemcpy(s.b.a, source[0], bytes, cudaMemcpyDeviceToDevice));
        s.begin_from(mvdr::FROM_NOTHING);
        CUDA_OK(cudaEventRecord(begin));
        mvdr::jacobi_run(s.b, 0);
    });
    const uint32_t cold_sweeps = s.get(0).record.sweeps;
    CUDA_OK(cudaMemcpy(vectors, s.b.vectors, bytes, cudaMemcpyDeviceToDevice));
    CUDA_OK(cudaMemcpy(d, s.b.d, count * s.pitch * sizeof *d, cudaMemcpyDeviceToDevice));
    CUDA_OK(cudaMemcpy(s.b.a, source[1], bytes, cudaMemcpyDeviceToDevice));
    s.run(true); /* sets the flags */
    const double warm = time_ms([&](cudaEvent_t begin) {
        CUDA_OK(cudaMemcpy(s.b.a, source[1], bytes, cudaMemcpyDeviceToDevice));
        CUDA_OK(cudaMemcpy(s.b.vectors, vectors, bytes, cudaMemcpyDeviceToDevice));
        CUDA_OK(cudaMemcpy(s.b.d, d, count * s.pitch * sizeof *d, cudaMemcpyDeviceToDevice));
        CUDA_OK(cudaEventRecord(begin));
        mvdr::jacobi_run(s.b, 0);
    });
    const uint32_t warm_sweeps = s.get(0).record.sweeps;
    const double library = time_library(s, source[1], count);
    printf("%5zu rows, %3zu matrices: from nothing %8.3f ms (%u sweeps), from the last vectors "
           "%8.3f ms (%u), cuSOLVER %8.3f ms\n",
           n, count, cold, cold_sweeps, warm, warm_sweeps, library);
    fflush(stdout);
    for (int t = 0; t < 2; t++)
        cudaFree(source[t]);
    cudaFree(vectors), cudaFree(d);
}

int main(int argc, char **argv) {
    bool quick = false, timed = false;
    int devices = 0;
    for (int i = 1; i < argc; i++) {
        quick |= !strcmp(argv[i], "--quick"), timed |= !strcmp(argv[i], "--time");
        if (!strcmp(argv[i], "--help")) {
            printf("gpu_jacobi [--quick | --time]: tests the eigenvectors of "
                   "mvdr_jacobi/cuda/jacobi/, or "
                   "times them beside cuSOLVER's\n");
            return 0;
        }
    }
    if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices) {
        printf("skipped: no GPU\n");
        return 77;
    }
    if (timed) {
        for (size_t n : {64, 128, 256, 512, 1024})
            for (size_t count : {1, 100})
                time_one(n, count);
        return 0;
    }
    for (size_t n = 1; n <= (quick ? 70 : 130); n += quick ? 23 : 1)
        all_kinds(n);
    for (size_t n : {40, 100})
        if (!quick || n == 40)
            graded(n);
    for (size_t n : {1, 33, 64, 100, 130})
        for (size_t added : {0, 1, 3})
            if (!quick || n == 33 || n == 1)
                changes(n, added);
    stream(quick ? 40 : 64, 128, quick ? 3 : 40);
    stream(100, 100, quick ? 3 : 12); /* all pairs are turned at once */
    repeats(quick ? 48 : 96, quick ? 3 : 40);
    if (!quick) {
        stream(200, 400, 8);
        for (size_t n : {255, 256})
            all_kinds(n);
        solver large(512, 1);
        const square r = matrix_of(3, 512);
        large.put(0, r);
        large.run(false);
        check(r, large.get(0), "80 dB");
    }
    printf("gpu_jacobi: %zu checks, %zu failed\n", checks, failures);
    return failures > 0;
}
