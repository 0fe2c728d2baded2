/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "pipeline/choices.h"

#include <stdlib.h>
#include <string.h>

#include "core/core.h"

/* Below this gain the CPU does it: a device costs power and start-up time besides. */
static const double TIE_SHARE = 0.05;

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

/* ---- the built-in rule ----------------------------------------------------------------------- */

static void add_estimate(sonar_train_decision *decision, const char *backend, double seconds) {
    sonar_train_timing *timing = &decision->candidate[decision->candidates++];
    *timing = (sonar_train_timing){.available = true, .median_s = seconds};
    snprintf(timing->name, sizeof timing->name, "%s", backend);
}

/* Estimates in place of times: for the CPU if it may be used, and for the plugin if there is one.
 */
static void estimate(const sonar_config *config, const sonar_train_shape *shape,
                     const sonar_backend *opened, sonar_train_table *table) {
    static const char *const names[] = {"chain", "dft", "cbf", "mvdr_jacobi"};
    const sonar_train_rates rates[2] = {sonar_train_cpu_rates(shape->workers),
                                        sonar_train_gpu_rates()};
    const bool cpu_only = opened == sonar_backend_cpu();
    const bool use[2] = {cpu_only || !strcmp(config->backend, "auto"), !cpu_only};
    table->decisions = shape->mvdr_bins ? 4 : 3;
    for (size_t d = 0; d < table->decisions; d++)
        snprintf(table->decision[d].name, sizeof table->decision[d].name, "%s", names[d]);
    for (int b = 0; b < 2; b++) {
        double seconds[SONAR_TRAIN_STAGES];
        if (!use[b])
            continue;
        const char *name = b ? opened->name : "cpu";
        sonar_train_estimate(shape, &rates[b], seconds);
        add_estimate(&table->decision[0], name, seconds[0] + seconds[1] + seconds[2]);
        for (size_t d = 1; d < table->decisions; d++)
            add_estimate(&table->decision[d], name, seconds[d - 1]);
    }
    for (size_t d = 0; d < table->decisions; d++)
        sonar_train_pick(&table->decision[d], TIE_SHARE, NULL);
}

/* ---- deciding -------------------------------------------------------------------------------- */

static void read_table(const sonar_config *config, const sonar_train_fingerprint *fingerprint,
                       sonar_choices *choices) {
    char path[4200];
    sonar_error why = {0};
    if (!sonar_choices_path(config, path, sizeof path)) {
        snprintf(choices->source, sizeof choices->source,
                 "built-in rule: runtime.state_dir is not set, so there is no trained table");
        return;
    }
    sonar_code code = sonar_train_load(path, fingerprint, &choices->table, &why);
    choices->trained = code == SONAR_OK;
    if (!code)
        snprintf(choices->source, sizeof choices->source, "trained table %.300s, made %s", path,
                 choices->table.made);
    else
        snprintf(choices->source, sizeof choices->source, "built-in rule: %.159s: %.300s",
                 why.where, why.text);
}

/* With `auto` the chain's decision holds; a name in the configuration always does. */
static sonar_code decide(const sonar_config *config, const sonar_host *host, sonar_choices *choices,
                         sonar_error *err) {
    const sonar_train_decision *chain = sonar_train_find(&choices->table, "chain");
    const char *wanted = chain->candidate[chain->chosen].name;
    sonar_backend_choice *backend = &choices->backend;
    if (strcmp(config->backend, "auto") != 0 || backend->backend == sonar_backend_cpu())
        return SONAR_OK; /* its reason says why already */
    if (!strcmp(wanted, "cpu")) {
        sonar_code code = sonar_backend_open("cpu", NULL, host, backend, err);
        if (code)
            return code;
    }
    snprintf(backend->reason, sizeof backend->reason, "%s: %s",
             choices->trained ? "trained" : "estimated by the built-in rule", chain->reason);
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
    free(choices);
}

/* ---- in words -------------------------------------------------------------------------------- */

static void print_candidate(const sonar_train_decision *decision, size_t index, FILE *to) {
    const sonar_train_timing *t = &decision->candidate[index];
    fprintf(to, "  %c %-12s", index == decision->chosen ? '*' : ' ', t->name);
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
        for (size_t c = 0; c < decision->candidates; c++)
            print_candidate(decision, c, to);
    }
    print_memory(table, to);
}
