/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From an option's value to its member of the configuration, by the option's row. */
#include "config/access.h"

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
    char word[32];
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
        sonar_option_choice(option, (size_t)number, word);
        snprintf(to, option->bytes, "%s", word);
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
