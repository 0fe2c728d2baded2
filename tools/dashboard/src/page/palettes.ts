// SPDX-License-Identifier: GPL-3.0-or-later
// Colour maps that keep their order in every form of colour blindness and in grey, at 17 equal steps: viridis,
// cividis and inferno of matplotlib (CC0). Lightness rises from the first to the last.
export const STEPS: Record<string, string[]> = {
    viridis: [
        "#440154", "#48186a", "#472d7b", "#424086", "#3b528b", "#33638d", "#2c728e", "#26828e", "#21918c",
        "#1fa088", "#28ae80", "#3fbc73", "#5ec962", "#84d44b", "#addc30", "#d8e219", "#fde725",
    ],
    cividis: [
        "#00224e", "#002e6a", "#1a386f", "#32436d", "#434e6c", "#535a6d", "#61656f", "#6f7073", "#7d7c78",
        "#8c8878", "#9b9476", "#aba072", "#bcae6c", "#cdbb63", "#dec958", "#f0d846", "#fee838",
    ],
    inferno: [
        "#000004", "#0b0724", "#210c4a", "#3d0965", "#57106e", "#71196e", "#8a226a", "#a32c61", "#bc3754",
        "#d24644", "#e45a31", "#f1731d", "#f98e09", "#fcac11", "#f9cb35", "#f2ea69", "#fcffa4",
    ],
    grey: ["#000000", "#ffffff"],
};
