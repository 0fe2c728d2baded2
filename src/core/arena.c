/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/arena.h"

#include <stdlib.h>

void *sonar_arena_array(sonar_arena *arena, void *memory, size_t count, size_t each) {
    switch (arena->pass) {
    case SONAR_ARENA_MEASURE:
        arena->bytes += (double)count * (double)each;
        return memory;
    case SONAR_ARENA_ALLOCATE:
        memory = arena->failed ? NULL : sonar_alloc(count, each);
        arena->failed = !memory;
        return memory;
    case SONAR_ARENA_FREE:
        free(memory);
    }
    return NULL;
}
