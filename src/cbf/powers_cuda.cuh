/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From the chunks' partial sums to powers, the Lofar and the band energy, or to a part's y. */
#ifndef SONAR_CBF_POWERS_CUDA_CUH
#define SONAR_CBF_POWERS_CUDA_CUH

#include "cbf/pass_cuda.cuh"

__device__ inline double2 slot_sum(const struct pass &pass, uint32_t slot) {
    const float2 *from =
        pass.partial + ((size_t)blockIdx.x * SLOTS + slot) * LANES + threadIdx.x % LANES;
    double re = 0, im = 0;
#pragma unroll 16 /* loads at the same time: with few items, few warps wait for many chunks */
    for (uint32_t chunk = 0; chunk < pass.chunks; chunk++) {
        float2 y = from[(size_t)chunk * pass.items * SLOTS * LANES];
        re += (double)y.x;
        im += (double)y.y;
    }
    return make_double2(re, im);
}

/* Bin of a slot, counted from the block's first. */
__device__ inline uint32_t bin_of(uint32_t slot, bool mirrored) {
    if (mirrored)
        return slot / PAIR_SEGMENTS + PAIR_STEPS * (slot % PAIR_SEGMENTS);
    return slot / SEGMENTS + STEPS * (slot % SEGMENTS);
}

/* Adds the power of the earlier snapshots. */
__device__ inline double add_snapshots(const struct pass &pass, uint32_t slot, double power) {
    size_t place = ((size_t)blockIdx.x * SLOTS + slot) * LANES + threadIdx.x % LANES;
    if (!pass.first_snapshot)
        power += pass.power[place];
    if (!pass.last_snapshot)
        pass.power[place] = power;
    return power;
}

/* Grid: items x 2 with mirrored points. Adds the chunks and the snapshots; after the last one
 * writes the Lofar and sums the block's power. For a part it writes every snapshot's y instead. */
static __global__ void __launch_bounds__(FINISH_WARPS *LANES)
    finish_bins(const __grid_constant__ pass pass) {
    __shared__ double shared[FINISH_WARPS][LANES];
    uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    struct place place = place_of(pass, blockIdx.x);
    const struct block block = pass.block[place.block];
    bool mirrored = place.field->mirror != NULL;
    uint32_t slots = mirrored ? PAIR_SLOTS : SLOTS, first_slot = blockIdx.y * PAIR_SLOTS;
    uint32_t point = point_of(*place.field, place.group * LANES + lane, blockIdx.y);
    bool writes =
        pass.last_snapshot && pass.lofar && place.field == &pass.field[0] && point != NO_POINT;
    double energy = 0;
    for (uint32_t slot = warp; slot < slots; slot += FINISH_WARPS) {
        uint32_t bin = bin_of(slot, mirrored);
        if (bin >= block.bins)
            continue;
        double2 y = slot_sum(pass, first_slot + slot);
        if (place.field->part.y) {
            if (point != NO_POINT)
                place.field->part.keep(pass.snapshot, block.first + bin, point, y.x, y.y);
            continue;
        }
        double power =
            add_snapshots(pass, first_slot + slot, pass.power_scale * (y.x * y.x + y.y * y.y));
        energy += power;
        if (writes)
            pass.lofar[(block.first + bin) * pass.lofar_row + point] = (float)power;
    }
    if (!pass.last_snapshot || place.field->part.y)
        return;
    shared[warp][lane] = energy;
    __syncthreads();
    if (warp > 0)
        return;
    for (uint32_t i = 1; i < FINISH_WARPS; i++)
        energy += shared[i][lane];
    pass.energy[((size_t)blockIdx.y * pass.items + blockIdx.x) * LANES + lane] = energy;
}

/* Grid: points of both fields x 2 with mirrored points. (fs/N) sum over the band, block by block.
 */
static __global__ void finish_band(const __grid_constant__ pass pass) {
    uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
    const struct field *field = &pass.field[0];
    if (index >= field->groups * LANES) {
        index -= field->groups * LANES;
        field = &pass.field[1];
    }
    uint32_t point = point_of(*field, index, blockIdx.y);
    if (point == NO_POINT || !field->energy)
        return;
    uint32_t block = pass.band_first - field->first_block;
    double sum = 0;
    for (uint32_t i = 0; i < pass.band_blocks; i++) {
        uint32_t item = field->first_item + (block + i) * field->groups + index / LANES;
        sum += pass.energy[((size_t)blockIdx.y * pass.items + item) * LANES + index % LANES];
    }
    field->energy[point] = (float)(pass.bin_hz * sum);
}

#endif
