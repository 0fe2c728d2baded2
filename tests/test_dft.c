/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The conformance suite of the DFT stage on the CPU, and on a fake device, which shows that the
 * suite itself waits where necessary; and properties that only the CPU's stage has. */
#include "conformance/dft.h"
#include "conformance/try.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define AT_CPU(name)                                                                               \
    Test(dft, name) {                                                                              \
        try_at_cpu(&(site_case){#name, dft_case_##name});                                          \
    }
#define AT_LAZY_DEVICE(name)                                                                       \
    Test(dft_on_a_lazy_device, name) {                                                             \
        try_at_lazy_device(&(site_case){#name, dft_case_##name});                                  \
    }
DFT_CASES(AT_CPU)
DFT_ERROR_CASES(AT_CPU)
#ifdef __SANITIZE_ADDRESS__ /* errors that only a memory checker detects */
DFT_CASES(AT_LAZY_DEVICE)
#endif

/* ---- windows --------------------------------------------------------------------------------- */

/* Coherent gain and equivalent noise bandwidth in bins as in Harris, table 1 (Kaiser: alpha 2.5).
 */
Test(dft, windows_have_the_textbook_figures) {
    const struct {
        sonar_taper kind;
        double beta, gain, enbw;
    } known[] = {{SONAR_RECTANGULAR, 0, 1.00, 1.00},     {SONAR_HANN, 0, 0.50, 1.50},
                 {SONAR_HAMMING, 0, 0.54, 1.36},         {SONAR_BLACKMAN, 0, 0.42, 1.73},
                 {SONAR_KAISER, 2.5 * M_PI, 0.44, 1.65}, {SONAR_FLATTOP, 0, 0.2156, 3.77}};
    double w[1000];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        double sum = 0, squares = 0;
        sonar_dft_taper(known[i].kind, known[i].beta, 1000, w);
        for (size_t t = 0; t < 1000; t++) {
            sum += w[t];
            squares += w[t] * w[t];
            cr_assert_float_eq(w[t], w[(1000 - t) % 1000], 1e-12, "periodic and symmetric");
        }
        cr_assert_float_eq(sum / 1000, known[i].gain, 0.005);
        cr_assert_float_eq(1000 * squares / (sum * sum), known[i].enbw, 0.01);
        cr_assert_float_eq(w[500], 1, 1e-8, "largest in the middle");
    }
}

/* ---- planning ------------------------------------------------------------------------------ */

static int logged;

static void count_log(void *ctx, sonar_level level, const char *where, const char *text) {
    (void)ctx, (void)level, (void)where, (void)text;
    logged++;
}

Test(dft, wisdom_is_kept_and_a_corrupt_file_ignored) {
    char dir[] = "/tmp/sonar-test-XXXXXX", path[64];
    cr_assert_not_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/fftwf.wisdom", dir);
    FILE *file = fopen(path, "w");
    fputs("(fftw-3.3 this is no wisdom at all", file);
    fclose(file);
    sonar_host host = *sonar_host_serial();
    host.state_dir = dir;
    host.log = count_log;
    site site = site_open(sonar_backend_cpu(), &host);
    dft_fixture f;
    sonar_dft_spec spec = dft_all_bins(3, 128);
    spec.planning = SONAR_PLAN_MEASURE;
    for (int round = 0; round < 2; round++) { /* the second finds what the first wrote */
        dft_open(&f, &site, spec, SONAR_HOST);
        dft_noise(&f, 0, 22);
        dft_run(&f);
        cr_assert_leq(dft_error(&f, 0, 1), DFT_MOST_ERROR);
        dft_close(&f);
        cr_assert_eq(logged, 1, "only the corrupt file is worth a word");
    }
    char start[8] = {0};
    struct stat written;
    cr_assert_eq(stat(path, &written), 0);
    cr_assert_eq(written.st_mode & 0777, 0644, "others cannot read what root trained");
    file = fopen(path, "r");
    cr_assert_not_null(file);
    cr_assert_eq(fread(start, 1, 5, file), 5);
    cr_assert_str_eq(start, "(fftw");
    fclose(file);
    unlink(path);
    site_close(&site);
    cr_assert_eq(rmdir(dir), 0, "nothing else is left in the directory");
}

/* A pipe would block the start, a link could lead anywhere. */
Test(dft, what_is_no_plain_wisdom_file_is_left_alone) {
    char dir[] = "/tmp/sonar-test-XXXXXX", path[64];
    cr_assert_not_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/fftwf.wisdom", dir);
    sonar_host host = *sonar_host_serial();
    host.state_dir = dir;
    host.log = count_log;
    site site = site_open(sonar_backend_cpu(), &host);
    for (int kind = 0; kind < 2; kind++) {
        dft_fixture f;
        sonar_dft_spec spec = dft_all_bins(3, 64);
        spec.planning = SONAR_PLAN_STABLE;
        cr_assert_eq(kind ? symlink("/dev/zero", path) : mkfifo(path, 0600), 0);
        dft_open(&f, &site, spec, SONAR_HOST);
        dft_close(&f);
        cr_assert_eq(logged, kind + 1);
        unlink(path);
    }
    site_close(&site);
    rmdir(dir);
}

Test(dft, unwritable_state_directory_is_no_error) {
    sonar_host host = *sonar_host_serial();
    host.state_dir = "/nonexistent/sonar";
    host.log = count_log;
    site site = site_open(sonar_backend_cpu(), &host);
    dft_fixture f;
    sonar_dft_spec spec = dft_all_bins(1, 32);
    spec.planning = SONAR_PLAN_MEASURE;
    dft_open(&f, &site, spec, SONAR_HOST);
    dft_close(&f);
    site_close(&site);
    cr_assert_eq(logged, 1);
}
