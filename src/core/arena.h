/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Memory that is listed once. What owns several arrays has one function that names each of them to
 * an arena, with its size. The same function measures, allocates or frees them, as the arena's pass
 * says, so that sizes that are announced are those that are allocated.
 *
 * Arrays stay allocations of their own: sanitizers see where one is overrun, and large ones lie in
 * huge pages.
 */
#ifndef SONAR_CORE_ARENA_H
#define SONAR_CORE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "core/core.h"

typedef enum sonar_arena_pass {
    SONAR_ARENA_MEASURE = 0, /* adds up bytes; pointers stay */
    SONAR_ARENA_ALLOCATE,    /* zeroed memory, NULL from the first failure on */
    SONAR_ARENA_FREE         /* pointers become NULL */
} sonar_arena_pass;

typedef struct sonar_arena {
    sonar_arena_pass pass;
    double bytes; /* measured */
    bool failed;
} sonar_arena;

/* `count` elements of `each` bytes; the array's pointer before and, returned, after the pass. */
void *sonar_arena_array(sonar_arena *arena, void *memory, size_t count, size_t each);

/* The same, written to the pointer; its type has the elements' size. */
#define SONAR_ARENA(arena, pointer, count)                                                         \
    ((pointer) = sonar_arena_array((arena), (pointer), (count), sizeof *(pointer)))

/* a b, or SIZE_MAX, of which no array can be had. */
static inline size_t sonar_times(size_t a, size_t b) {
    size_t product;
    return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

#endif
