/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Memory as the stages expect it: zeroed, aligned, and mapped. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/arena.h"
#include "core/core.h"

static size_t pages_absent(const void *memory, size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), absent = 0;
    uintptr_t first = (uintptr_t)memory & ~(uintptr_t)(page - 1);
    size_t pages = ((uintptr_t)memory + bytes - first + page - 1) / page;
    unsigned char *there = malloc(pages);
    cr_assert(there && mincore((void *)first, pages * page, there) == 0);
    for (size_t i = 0; i < pages; i++)
        absent += !(there[i] & 1);
    free(there);
    return absent;
}

/* Else the first samples of a large array would wait for their pages one by one. */
Test(memory, is_there_before_it_is_used) {
    static const size_t sizes[] = {1, 100, 1 << 20, (16 << 20) - 1, 16 << 20, (48 << 20) + 7};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *memory = sonar_alloc(sizes[i], 1);
        cr_assert(memory && (uintptr_t)memory % 64 == 0);
        cr_assert_eq(pages_absent(memory, sizes[i]), 0, "%zu bytes", sizes[i]);
        cr_assert(memory[0] == 0 && !memcmp(memory, memory + 1, sizes[i] - 1));
        memset(memory, 1, sizes[i]); /* what is reused is zeroed again */
        free(memory);
    }
}

/* Large memory is zeroed by several threads: to the last byte, and not beyond. */
Test(memory, much_of_it_is_zeroed_as_a_whole) {
    const size_t bytes = ((size_t)300 << 20) + 4097;
    char *memory = malloc(bytes + 64);
    cr_assert(memory);
    memset(memory, 7, bytes + 64);
    sonar_zero(memory, bytes);
    cr_assert(memory[0] == 0 && !memcmp(memory, memory + 1, bytes - 1));
    for (size_t i = 0; i < 64; i++)
        cr_assert(memory[bytes + i] == 7, "written behind the end");
    free(memory);
}

Test(memory, more_than_there_can_be_is_refused) {
    static const size_t wrong[][2] = {
        {SIZE_MAX, 1}, {SIZE_MAX / 2, 3}, {SIZE_MAX - 63, 1}, {SIZE_MAX - (2 << 20) + 1, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_assert_null(sonar_alloc(wrong[i][0], wrong[i][1]));
    free(sonar_alloc(0, 8));
}

/* ---- arena ----------------------------------------------------------------------------------- */

struct arrays {
    double *one;
    char *two, *three;
};

static sonar_arena lay_out(struct arrays *a, size_t each, sonar_arena_pass pass) {
    sonar_arena arena = {.pass = pass};
    SONAR_ARENA(&arena, a->one, each);
    SONAR_ARENA(&arena, a->two, sonar_times(each, 3));
    SONAR_ARENA(&arena, a->three, 5);
    return arena;
}

Test(memory, an_arena_measures_allocates_and_frees_the_same_arrays) {
    struct arrays a = {0};
    cr_expect_eq(lay_out(&a, 100, SONAR_ARENA_MEASURE).bytes, 800 + 300 + 5);
    cr_expect(!a.one && !a.two && !a.three);
    cr_assert(!lay_out(&a, 100, SONAR_ARENA_ALLOCATE).failed);
    cr_assert(a.one && a.two && a.three);
    for (size_t i = 0; i < 300; i++)
        cr_expect(a.one[i / 3] == 0 && a.two[i] == 0, "%zu", i);
    memset(a.two, 1, 300);
    lay_out(&a, 100, SONAR_ARENA_FREE);
    cr_expect(!a.one && !a.two && !a.three);
    lay_out(&a, 100, SONAR_ARENA_FREE);
}

/* What comes after the first array that cannot be had is not allocated either. */
Test(memory, an_arena_fails_with_its_first_array) {
    static const size_t most[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 8, SIZE_MAX / 3};
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        struct arrays a = {0};
        cr_expect_gt(lay_out(&a, most[i], SONAR_ARENA_MEASURE).bytes, 1e18);
        cr_expect(lay_out(&a, most[i], SONAR_ARENA_ALLOCATE).failed);
        cr_expect(!a.two && !a.three);
        lay_out(&a, most[i], SONAR_ARENA_FREE);
    }
    cr_expect_eq(sonar_times(7, 9), 63);
    cr_expect_eq(sonar_times(SIZE_MAX / 2, 3), SIZE_MAX);
}
