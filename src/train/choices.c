/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "train/choices.h"

#include <stdlib.h>
#include <string.h>

#include "core/core.h"

/* Estimates are rough: below this gain the CPU does it all, or else the device does. */
static const double TIE_SHARE = 0.25;

const sonar_choices_memory_kind sonar_choices_memories[SONAR_CHOICES_MEMORIES] = {
    {"pageable", SONAR_HOST}, {"pinned", SONAR_PINNED}, {"mapped", SONAR_MAPPED}};

bool sonar_choices_path(const sonar_config *config, char *path, size_t size) {
    if (!config->state_dir)
        return false;
    int length = snprintf(path, size, "%s/train.yaml", config->state_dir);
    return length > 0 && (size_t)length < size;
}

const char *sonar_choices_gpu(const sonar_config *config, const sonar_backend_choice *opened) {
    if (!strcmp(config->backend, "cpu"))
        return "not asked for";
    return opened->backend == sonar_backend_cpu() ? "none" : opened->description;
}

const char *sonar_choices_ask(const sonar_choices *choices, const char *decision) {
    return choices && choices->trained ? sonar_train_chosen(&choices->table, decision) : NULL;
}

/* What the table says of a buffer: by trial, or by the model. NULL: nothing. */
static const char *memory_chosen(const sonar_train_table *table, const char *buffer) {
    if (!strcmp(buffer, "samples"))
        return sonar_train_chosen(table, "samples.memory");
    for (size_t i = 0; i < table->buffers; i++)
        if (!strcmp(table->buffer[i].name, buffer))
            return table->buffer[i].chosen;
    return NULL;
}

sonar_space sonar_choices_memory(const sonar_choices *choices, const char *buffer) {
    if (!choices || !choices->trained)
        return SONAR_PINNED;
    const sonar_backend *user =
        !strcmp(buffer, "samples") ? choices->place[SONAR_TRAIN_DFT] : choices->backend.backend;
    const char *chosen = memory_chosen(&choices->table, buffer);
    if (user->native_space == SONAR_HOST || !chosen)
        return SONAR_PINNED;
    for (size_t i = 0; i < SONAR_CHOICES_MEMORIES; i++)
        if (!strcmp(sonar_choices_memories[i].name, chosen))
            return sonar_choices_memories[i].space;
    return SONAR_PINNED;
}

/* ---- the built-in rule ----------------------------------------------------------------------- */

/* Estimates in place of times: for the CPU if it may be used, and for the plugin if there is one.
 */
static void estimate(const sonar_config *config, const sonar_train_shape *shape,
                     const sonar_backend *opened, sonar_train_table *table) {
    const sonar_train_rates cpu = sonar_train_cpu_rates(shape->workers),
                            gpu = sonar_train_gpu_rates();
    const sonar_train_crossing crossing = sonar_train_guess_crossing(&gpu);
    const bool cpu_only = opened == sonar_backend_cpu();
    sonar_train_side side[SONAR_TRAIN_SIDES];
    size_t sides = 0, stages = sonar_train_stages(shape);
    if (cpu_only || !strcmp(config->backend, "auto"))
        side[sides++] = sonar_train_guess(shape, &cpu, "cpu");
    if (!cpu_only)
        side[sides++] = sonar_train_guess(shape, &gpu, opened->name);
    sonar_train_assign(shape, side, sides, &crossing, TIE_SHARE, &table->decision[0], NULL);
    for (size_t s = 0; s < stages; s++) {
        sonar_train_decision *decision = &table->decision[1 + s];
        decision->candidates = sides;
        snprintf(decision->name, sizeof decision->name, "%s", sonar_train_stage_names[s]);
        for (size_t i = 0; i < sides; i++)
            decision->candidate[i] = side[i].stage[s];
        sonar_train_pick(decision, TIE_SHARE, NULL);
    }
    table->decisions = 1 + stages;
}

/* ---- deciding -------------------------------------------------------------------------------- */

/* The assignment that the chain's decision names. */
static bool find_assignment(const sonar_choices *choices, sonar_train_assignment *assignment) {
    const sonar_backend *opened = choices->backend.backend;
    const char *const sides[SONAR_TRAIN_SIDES] = {"cpu", opened->name};
    return sonar_train_assignment_find(sides, opened == sonar_backend_cpu() ? 1 : 2,
                                       sonar_train_stages(&choices->table.fingerprint.shape),
                                       sonar_train_chosen(&choices->table, "chain"), assignment);
}

static sonar_code read_and_check(const char *path, const sonar_train_fingerprint *fingerprint,
                                 sonar_choices *choices, sonar_error *why) {
    sonar_train_assignment unused;
    sonar_code code = sonar_train_load(path, fingerprint, &choices->table, why);
    if (code || find_assignment(choices, &unused))
        return code;
    return sonar_fail(why, SONAR_EINVAL, path,
                      "its chain '%s' does not place this configuration's stages; run sonard "
                      "--train again",
                      sonar_train_chosen(&choices->table, "chain"));
}

static void read_table(const sonar_config *config, const sonar_train_fingerprint *fingerprint,
                       sonar_choices *choices) {
    char path[4200];
    sonar_error why = {0};
    if (!sonar_choices_path(config, path, sizeof path)) {
        snprintf(choices->source, sizeof choices->source,
                 "built-in rule: runtime.state_dir is not set, so there is no trained table");
        return;
    }
    sonar_code code = read_and_check(path, fingerprint, choices, &why);
    choices->trained = code == SONAR_OK;
    if (!code)
        snprintf(choices->source, sizeof choices->source, "trained table %.300s, made %s", path,
                 choices->table.made);
    else
        snprintf(choices->source, sizeof choices->source, "built-in rule: %.159s: %.300s",
                 why.where, why.text);
}

/* Where each stage runs, in words, from the chain's candidate. */
static void describe_places(const char *chain, char text[128]) {
    size_t used = 0;
    if (!strchr(chain, '.')) {
        snprintf(text, 128, "every stage on %s", chain);
        return;
    }
    for (size_t s = 0; s < SONAR_TRAIN_STAGES && *chain && used < 127; s++) {
        int length = (int)strcspn(chain, ".");
        used += (size_t)snprintf(text + used, 128 - used, "%s%s on %.*s", s ? ", " : "",
                                 sonar_train_stage_names[s], length, chain);
        chain += length + (chain[length] == '.');
    }
}

/* A name in the configuration holds for all stages; with `auto` the chain's decision does. */
static sonar_code decide(const sonar_config *config, const sonar_host *host, sonar_choices *choices,
                         sonar_error *err) {
    const sonar_train_decision *chain = sonar_train_find(&choices->table, "chain");
    sonar_backend_choice *backend = &choices->backend;
    const sonar_backend *sides[SONAR_TRAIN_SIDES] = {sonar_backend_cpu(), backend->backend};
    sonar_train_assignment a;
    char places[128];
    for (size_t s = 0; s < SONAR_TRAIN_STAGES; s++)
        choices->place[s] = backend->backend;
    if (strcmp(config->backend, "auto") != 0 || backend->backend == sonar_backend_cpu() ||
        !find_assignment(choices, &a))
        return SONAR_OK; /* its reason says why already */
    const char *wanted = chain->candidate[chain->chosen].name;
    if (!strcmp(wanted, "cpu")) {
        sonar_backend_close(backend);
        sonar_code code = sonar_backend_open("cpu", NULL, host, backend, err);
        if (code)
            return code;
    }
    for (size_t s = 0; s < SONAR_TRAIN_STAGES; s++)
        choices->place[s] = s < sonar_train_stages(&choices->table.fingerprint.shape)
                                ? sides[a.side[s]]
                                : backend->backend;
    describe_places(wanted, places);
    snprintf(backend->reason, sizeof backend->reason, "%s: %s: %s",
             choices->trained ? "trained" : "estimated by the built-in rule", places,
             chain->reason);
    return SONAR_OK;
}

sonar_code sonar_choices_create(const sonar_config *config, const sonar_specs *specs,
                                const sonar_host *host, sonar_choices **choices, sonar_error *err) {
    sonar_train_fingerprint fingerprint;
    *choices = NULL;
    sonar_choices *c = sonar_alloc(1, sizeof *c);
    if (!c)
        return sonar_fail(err, SONAR_ENOMEM, "choices", "no memory for the table");
    sonar_code code =
        sonar_backend_open(config->backend, config->plugin_dir, host, &c->backend, err);
    if (!code) {
        sonar_train_shape shape = sonar_specs_shape(config, specs);
        sonar_train_fingerprint_make(&shape, sonar_choices_gpu(config, &c->backend), &fingerprint);
        read_table(config, &fingerprint, c);
        if (!c->trained) {
            memset(&c->table, 0, sizeof c->table);
            c->table.fingerprint = fingerprint;
            estimate(config, &shape, c->backend.backend, &c->table);
        }
        code = decide(config, host, c, err);
    }
    if (code)
        sonar_choices_destroy(c);
    else
        *choices = c;
    return code;
}

void sonar_choices_destroy(sonar_choices *choices) {
    if (choices)
        sonar_backend_close(&choices->backend);
    free(choices);
}

/* ---- in words -------------------------------------------------------------------------------- */

static void print_candidate(const sonar_train_decision *decision, size_t index, FILE *to) {
    const sonar_train_timing *t = &decision->candidate[index];
    fprintf(to, "  %c %-14s", index == decision->chosen ? '*' : ' ', t->name);
    if (!t->available)
        fprintf(to, " not available: %s\n", t->note);
    else if (!t->repetitions)
        fprintf(to, "%12.1f us, an estimate\n", t->median_s * 1e6);
    else
        fprintf(to, "%12.1f us, +-%.1f, %zu times\n", t->median_s * 1e6, t->spread_s * 1e6,
                t->repetitions);
}

static void print_memory(const sonar_train_table *table, FILE *to) {
    for (size_t i = 0; i < table->kinds; i++) {
        const sonar_train_memory *k = &table->kind[i];
        fprintf(to, "memory %-9s", k->kind);
        const sonar_train_line *lines[] = {&k->make, &k->to_device, &k->from_device};
        static const char *const names[] = {"make", "to device", "from device"};
        for (int j = 0; j < 3; j++)
            fprintf(to, "%s %s %.1f us + %.2f us/MiB", j ? "," : "", names[j],
                    lines[j]->offset_s * 1e6, lines[j]->s_per_byte * 1e6 * 1048576);
        fputc('\n', to);
    }
    for (size_t i = 0; i < table->buffers; i++) {
        const sonar_train_buffer *b = &table->buffer[i];
        fprintf(to, "buffer %-9s %.0f bytes: %s", b->name, b->bytes, b->chosen);
        for (size_t k = 0; k < table->kinds; k++)
            fprintf(to, "%s %s %.3g s an hour", k ? "," : ":", table->kind[k].kind,
                    sonar_train_memory_s(&table->kind[k], b));
        fputc('\n', to);
    }
}

void sonar_choices_print(const sonar_train_table *table, FILE *to) {
    for (size_t i = 0; i < table->decisions; i++) {
        const sonar_train_decision *decision = &table->decision[i];
        fprintf(to, "%s: %s, %s\n", decision->name, decision->candidate[decision->chosen].name,
                decision->reason);
        if (!strcmp(decision->name, "chain")) {
            char places[128];
            describe_places(decision->candidate[decision->chosen].name, places);
            fprintf(to, "  %s\n", places);
        }
        for (size_t c = 0; c < decision->candidates; c++)
            print_candidate(decision, c, to);
    }
    print_memory(table, to);
}
