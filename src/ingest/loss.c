/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a window lacks. It is measured by ranges of channels, which the store's threads share, and
 * gaps are filled with zeros before the window is offered. Called by windows.c when a window is
 * over. */
#include <string.h>

#include "ingest/internal.h"

/* Positions that were never opened are absent as a whole. */
size_t sonar_loss_absent(const sonar_assembler *a, size_t channel, uint64_t from, uint64_t end,
                         sonar_coverage_run run, void *arg) {
    uint64_t known = end < a->opened ? end : a->opened;
    if (known < from)
        known = from;
    size_t count = sonar_coverage_absent(&a->coverage, channel, from, known, run, arg);
    if (known < end && run)
        run(arg, channel, known, (size_t)(end - known));
    return count + (size_t)(end - known);
}

/* Sets the bits of samples that some used channel lacks. A word that already has them is not
 * written, because neighbours often lack the same samples and several threads write here. */
static void lack(void *arg, size_t channel, uint64_t from, size_t samples) {
    sonar_assembler *a = arg;
    uint64_t at = from - (window_begin(a) & ~(uint64_t)63), end = at + samples;
    (void)channel;
    for (uint64_t next; at < end; at = next) {
        next = (at | 63) + 1 < end ? (at | 63) + 1 : end;
        uint64_t bits = ~(uint64_t)0 >> (64 - (next - at)) << at % 64;
        _Atomic uint64_t *word = &a->loss.lacks[at / 64];
        if (bits & ~atomic_load_explicit(word, memory_order_relaxed))
            atomic_fetch_or_explicit(word, bits, memory_order_relaxed);
    }
}

/* The same within the window itself. */
static void lack_in_window(void *arg, size_t channel, uint64_t from, size_t samples) {
    sonar_assembler *a = arg;
    lack(a, channel, from, samples);
    sonar_gaps_add(&a->loss.gaps, channel, (uint32_t)(from - a->window), (uint32_t)samples);
}

/* Measures one channel. Most channels lack nothing, which `reached` shows without reading their
 * bits. */
static void measure_channel(sonar_assembler *a, size_t k, struct loss *loss) {
    uint64_t end = window_end(a), fresh = a->window < a->frozen ? a->frozen : a->window;
    a->loss.missing[k] = 0;
    a->loss.lost[k] = 0;
    sonar_gaps_clear(&a->loss.gaps, k);
    if (a->since[k] <= window_begin(a) && a->reached[k] >= end)
        return;
    size_t count = sonar_loss_absent(a, k, a->window, end, a->used[k] ? lack_in_window : NULL, a);
    a->loss.missing[k] = (float)((double)count / (double)a->length);
    if (!a->used[k])
        return;
    loss->before += sonar_loss_absent(a, k, window_begin(a), a->window, lack, a);
    loss->absent += count;
    loss->worst = count > loss->worst ? count : loss->worst;
    if (count && fresh < end)
        loss->fresh += a->loss.lost[k] = sonar_loss_absent(a, k, fresh, end, NULL, NULL);
}

static void measure_range(void *arg, size_t range, size_t worker) {
    sonar_assembler *a = arg;
    struct loss loss = {0};
    (void)worker;
    for (size_t k = sonar_store_range_begin(&a->store, range);
         k < sonar_store_range_begin(&a->store, range + 1); k++)
        measure_channel(a, k, &loss);
    a->loss.range[range] = loss;
}

struct loss sonar_loss_measure(sonar_assembler *a) {
    struct loss all = {0};
    memset(a->loss.lacks, 0, a->loss.words * sizeof *a->loss.lacks);
    sonar_store_each_range(&a->store, measure_range, a);
    for (size_t i = 0; i < a->store.ranges; i++) {
        const struct loss *loss = &a->loss.range[i];
        all.absent += loss->absent;
        all.worst = loss->worst > all.worst ? loss->worst : all.worst;
        all.before += loss->before;
        all.fresh += loss->fresh;
    }
    return all;
}

double sonar_loss_mean(const sonar_assembler *a, const struct loss *loss) {
    return (double)loss->absent / ((double)a->channels_used * (double)a->length);
}

static void fill_zeros(void *arg, size_t channel, uint64_t from, size_t samples) {
    sonar_store_zero(arg, channel, from, samples);
}

/* Only above what was queued before, since the data thread may be reading below. */
static void fill_range(void *arg, size_t range, size_t worker) {
    sonar_assembler *a = arg;
    uint64_t end = window_end(a), from = a->window < a->filled ? a->filled : a->window;
    (void)worker;
    for (size_t k = sonar_store_range_begin(&a->store, range);
         k < sonar_store_range_begin(&a->store, range + 1) && from < end; k++)
        if (a->loss.missing[k] > 0)
            sonar_loss_absent(a, k, from, end, fill_zeros, &a->store);
}

void sonar_loss_fill(sonar_assembler *a) {
    sonar_store_each_range(&a->store, fill_range, a);
    a->filled = window_end(a) > a->filled ? window_end(a) : a->filled;
}

void sonar_loss_describe(const sonar_assembler *a, const struct loss *loss,
                         sonar_window_slot *slot) {
    memcpy(slot->missing, a->loss.missing, a->channels * sizeof *a->loss.missing);
    slot->window.missing = slot->missing;
    slot->window.missing_mean = sonar_loss_mean(a, loss);
    slot->window.missing_worst = (double)loss->worst / (double)a->length;
    if (loss->absent)
        slot->window.gaps = sonar_gaps_copy(&a->loss.gaps, slot->gap_count, slot->gap);
    if (loss->absent || loss->before) {
        memcpy(slot->lacks, a->loss.lacks, a->loss.words * sizeof *slot->lacks);
        slot->window.lacks = slot->lacks;
    }
}

void sonar_loss_note(sonar_assembler *a) {
    struct memories *m = &a->memory;
    for (size_t k = 0; k < a->channels; k++) {
        const float missing = a->loss.missing[k];
        if (!a->used[k] || !(missing > 0))
            continue;
        if (m->lacked_in[k] <= m->period_read || missing > m->lacked_share[k])
            m->lacked_share[k] = missing;
        m->lacked_in[k] = m->period;
    }
    m->lost_in = m->period;
    for (size_t i = 0; i < a->blocks.totals; i++) {
        sonar_block_totals *total = &a->blocks.total[i];
        for (size_t k = 0; k < total->channels; k++)
            total->missing += a->loss.lost[total->first_channel + k];
    }
}
