/* SPDX-License-Identifier: GPL-3.0-or-later */
/* For tests with long computations whose memory accesses are covered by other tests: they run in
 * every build except under the address sanitizer, where they take five times as long. */
#ifndef SONAR_TEST_NUMERICAL_H
#define SONAR_TEST_NUMERICAL_H

#ifdef __SANITIZE_ADDRESS__
#define NUMERICAL .disabled = true
#else
#define NUMERICAL .disabled = false
#endif

#endif
