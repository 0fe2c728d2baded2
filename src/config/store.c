/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sets values that other options imply, and stores each option's value in the member of the
 * configuration that its row names. */
#include "config/access.h"

#include "core/core.h"

#include <stdlib.h>
#include <string.h>

static bool store_text(sonar_loader *l, const sonar_option *option, const char *text, void *to) {
    if (option->stored == SONAR_STORED_LETTERS) {
        snprintf(to, option->bytes, "%s", text);
        return true;
    }
    char *copy = strdup(text);
    *(char **)to = copy;
    return copy ? true : no_memory(l);
}

static void store_number(const sonar_option *option, double number, void *to) {
    switch (option->stored) {
    case SONAR_STORED_SIZE:
        *(size_t *)to = (size_t)number;
        return;
    case SONAR_STORED_REAL:
        *(double *)to = number;
        return;
    case SONAR_STORED_TRUTH:
        *(bool *)to = number != 0;
        return;
    case SONAR_STORED_INT:
        *(int *)to = (int)number;
        return;
    case SONAR_STORED_UNSIGNED:
        *(unsigned *)to = (unsigned)number;
        return;
    case SONAR_STORED_LETTERS:
        snprintf(to, option->bytes, "%s", option->choices[(size_t)number]);
        return;
    case SONAR_STORED_NOWHERE:
    case SONAR_STORED_TEXT:
        return;
    }
}

void sonar_option_store(sonar_loader *l, sonar_option_id id) {
    const sonar_option *option = &sonar_options[id];
    void *to = (char *)l->config + option->offset;
    if (option->stored == SONAR_STORED_NOWHERE || !have(l, id))
        return;
    if (value(l, id)->text)
        store_text(l, option, value(l, id)->text, to);
    else
        store_number(option, number(l, id), to);
}

void sonar_value_set_number(sonar_loader *l, sonar_option_id id, double to) {
    sonar_value *v = &l->settings->value[id];
    v->number = to;
    if (v->origin == SONAR_ABSENT)
        v->origin = SONAR_FROM_DEFAULT;
    sonar_option_store(l, id);
}

void sonar_value_set_list(sonar_loader *l, sonar_option_id id, size_t count, size_t width,
                          const double *numbers) {
    sonar_value *v = &l->settings->value[id];
    double *copy = sonar_alloc(count * width, sizeof *copy);
    char **texts = sonar_alloc(count, sizeof *texts);
    if (!copy || !texts) {
        free(copy);
        free(texts);
        l->no_memory = true;
        return;
    }
    if (numbers)
        memcpy(copy, numbers, count * width * sizeof *copy);
    for (size_t i = 0; v->texts && i < v->count; i++)
        free(v->texts[i]);
    free(v->texts);
    free(v->numbers);
    v->numbers = copy;
    v->texts = texts;
    v->count = count;
    v->bad = false;
    if (v->origin == SONAR_ABSENT)
        v->origin = SONAR_FROM_DEFAULT;
}
