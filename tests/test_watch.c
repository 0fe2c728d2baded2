/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The viewer: its output, and that no message from a publisher can break it. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "core/random.h"
#include "status/topic.h"
#include "output/header.h"
#include "output_scene.h"
#include "render.h"

static watch_pane pane;
static watch_message message, list, status;
static output_scene scene;

/* The message that a publisher would send for result 0. */
static void read_back(sonar_surface surface, watch_message *to) {
    char *axes = sonar_header_axes(&scene.spec, surface, NULL);
    char *header =
        sonar_header_result(&scene.spec, surface, axes, NULL, &scene.result[0], 5, 1234.5);
    const sonar_buffer *buffer = &scene.result[0].surface[surface];
    cr_assert(watch_message_read(header, strlen(header), buffer->data, buffer->bytes, to));
    free(axes);
    free(header);
}

/* Columns a line takes on the screen: escape sequences none, UTF-8 characters one each. */
static int columns_of(const char *line, size_t bytes) {
    int columns = 0;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)line[i];
        if (c == 0x1b) {
            cr_assert_eq(line[i + 1], '[');
            for (i += 2; i < bytes && !(line[i] >= '@' && line[i] <= '~'); i++)
                ;
            continue;
        }
        cr_assert(c >= 0x20 && c != 0x7f, "control character %d", c);
        cr_assert(c != 0xc2 || (unsigned char)line[i + 1] >= 0xa0, "C1 control character");
        columns += (c & 0xc0) != 0x80;
    }
    return columns;
}

static void check_screen(const watch_view *view, int width, int height) {
    watch_text text = {0};
    watch_render(view, width, height, &text);
    int lines = 0;
    for (const char *at = text.data; at; lines++) {
        const char *next = strchr(at, '\n');
        size_t bytes = next ? (size_t)(next - at) : strlen(at);
        int columns = columns_of(at, bytes);
        cr_assert_leq(columns, width, "line %d of %dx%d has %d columns", lines, width, height,
                      columns);
        at = next ? next + 1 : NULL;
    }
    cr_assert_leq(lines, height, "%d lines in %dx%d", lines, width, height);
    watch_text_free(&text);
}

static void check_all_sizes(watch_view *view) {
    static const int widths[] = {1, 2, 7, 8, 9, 10, 20, 79, 80, 81, 200, 5000};
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        for (int height = 1; height < 70; height += height < 26 ? 1 : 11)
            for (int colour = 0; colour < 2; colour++) {
                view->colour = colour;
                check_screen(view, widths[i], height);
            }
}

/* A pane with `points` directions 0..180 and a peak of 20 dB at one of them. */
static void make_pane(size_t points, size_t peak) {
    memset(&message, 0, sizeof message);
    strcpy(message.topic, "cbf.azimuth");
    strcpy(message.axis_unit, "deg");
    message.points = points;
    for (size_t i = 0; i < points; i++) {
        message.x[i] = points > 1 ? 180.0 * (double)i / (double)(points - 1) : 90;
        message.power[i] = i == peak ? 100 : 1;
    }
    memset(&pane, 0, sizeof pane);
    watch_pane_take(&pane, &message, 0);
}

Test(watch, width_and_height_are_kept) {
    output_scene_make(&scene, NULL, "");
    scene.result[0].detections = 40;
    for (size_t i = 0; i < 40; i++)
        scene.result[0].detection[i] = (sonar_detection){.bearing_deg = 1e300,
                                                         .mirror_deg = NAN,
                                                         .power = 1e30,
                                                         .snr_db = -1e9,
                                                         .range_unresolved = true,
                                                         .contact = i};
    read_back(SONAR_DETECTIONS, &list);
    cr_assert_eq(list.detections, 40);
    static const sonar_status state = {.health = "degraded",
                                       .text = "a rather long sentence about "
                                               "what is not as it should be"};
    sonar_header_status_extra extra = {1, 1763654400123456789, 511, false};
    char *axes = sonar_header_axes(&scene.spec, SONAR_STATUS, NULL);
    char *header = sonar_header_status(&scene.spec, axes, &state, &extra);
    cr_assert(watch_message_read(header, strlen(header), "", 0, &status));
    free(axes), free(header);
    const sonar_surface surfaces[] = {SONAR_CBF_AZIMUTH, SONAR_CBF_LOFAR, SONAR_ELEMENT_PSD,
                                      SONAR_ELEMENT_MISSING};
    for (size_t i = 0; i < 4; i++) {
        read_back(surfaces[i], &message);
        cr_assert_gt(message.points, 0);
        watch_pane_take(&pane, &message, 0);
        watch_view view = {.pane = {&pane},
                           .panes = 1,
                           .detections = &list,
                           .status = &status,
                           .received = 10,
                           .lost = 2};
        check_all_sizes(&view);
        view.pane[1] = &pane, view.panes = 2;
        check_all_sizes(&view);
    }
    watch_view empty = {0};
    check_all_sizes(&empty);
}

Test(watch, the_peak_stands_in_its_column) {
    static const size_t sizes[] = {2, 3, 7, 73, 160, 361, 4000};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t peak = 0; peak < sizes[s]; peak += 1 + sizes[s] / 11) {
            make_pane(sizes[s], peak);
            for (int columns = 2; columns < 300; columns += 37) {
                float column[300];
                watch_columns(&pane, pane.level, columns, column);
                int at = watch_column(&pane, message.x[peak], columns);
                int want = (int)lround(message.x[peak] / 180 * (columns - 1));
                cr_assert_eq(at, want);
                if (sizes[s] > 2)
                    cr_assert_float_eq(column[at], 20, 1e-4, "%zu of %zu in %d", peak, sizes[s],
                                       columns);
                for (int c = 0; c < columns; c++)
                    cr_assert(isfinite(column[c]));
            }
        }
    cr_assert_eq(watch_column(&pane, -50, 80), -1);
    cr_assert_eq(watch_column(&pane, 250, 80), -1);
    for (int columns = 1; columns < 200; columns++)
        for (double x = 178; x < 183; x += 0.01)
            cr_assert_lt(watch_column(&pane, x, columns), columns);
}

/* The drawing itself: the only full column of the top row is the peak's. */
Test(watch, the_plot_shows_the_peak_above_its_angle) {
    make_pane(181, 60);
    watch_view view = {.pane = {&pane}, .panes = 1};
    watch_text text = {0};
    watch_render(&view, 80, 24, &text);
    const char *top = strchr(text.data, '\n') + 1;
    const char *bar = strstr(top, "█");
    cr_assert_not_null(bar);
    cr_assert_eq(columns_of(top, (size_t)(bar - top)), WATCH_MARGIN + 23); /* 60/180 of 70 */
    cr_assert_null(memmem(bar + 3, (size_t)(strchr(top, '\n') - bar - 3), "█", 3));
    cr_assert_not_null(strstr(text.data, " 90 "));
    watch_text_free(&text);
}

Test(watch, nothing_and_nan_are_drawn_as_nothing) {
    make_pane(50, 3);
    for (size_t i = 0; i < 50; i++)
        message.power[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? 0 : -1;
    watch_pane_take(&pane, &message, 0);
    cr_assert(isnan(pane.median));
    watch_view view = {.pane = {&pane}, .panes = 1, .colour = true};
    check_all_sizes(&view);
    message.power[10] = INFINITY;
    message.power[11] = 5;
    watch_pane_take(&pane, &message, 0);
    cr_assert_eq(pane.median, 5);
    float column[73];
    watch_columns(&pane, pane.level, 73, column);
    int at = watch_column(&pane, message.x[11], 73);
    for (int c = 0; c < 73; c++)
        cr_assert(c == at ? column[c] == 0 : abs(c - at) <= 1 || isnan(column[c]), "column %d", c);
    for (size_t points = 0; points < 3; points++) {
        make_pane(points, 0);
        check_all_sizes(&view);
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Window `index` of a stream of windows every half a second, its peak at point 3. */
static void take_window(uint64_t index, float peak, double now_s) {
    message.window = (double)index;
    message.fs_hz = 8000;
    message.sample_index = (double)index * 4000;
    message.power[3] = peak;
    watch_pane_take(&pane, &message, now_s);
}

static watch_row row_at(int row, double row_s, double quiet_s, float *level) {
    float column[50];
    watch_row kind = watch_fall_row(&pane, row, row_s, quiet_s, 50, column);
    *level = kind == WATCH_ROW_LEVELS || kind == WATCH_ROW_LOSSY ? column[3] : NAN;
    return kind;
}

Test(watch, a_new_axis_clears_the_waterfall) {
    float level;
    make_pane(50, 3);
    for (uint64_t i = 1; i < 30; i++)
        take_window(i, 100, 0);
    cr_assert_eq(row_at(14, 1, 0, &level), WATCH_ROW_LEVELS);
    message.x[7] += 0.5;
    take_window(30, 100, 0);
    cr_assert_eq(row_at(0, 1, 0, &level), WATCH_ROW_LEVELS);
    cr_assert_eq(row_at(1, 1, 0, &level), WATCH_ROW_BEFORE);
}

Test(watch, a_minute_is_seen_and_no_row_is_shorter_than_a_window) {
    make_pane(50, 3);
    static const int rows[] = {1, 2, 3, 4, 6, 7, 12, 30, 59, 60, 100};
    static const double seconds[] = {60, 30, 20, 20, 10, 10, 5, 2, 2, 1, 1};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert_eq(watch_row_seconds(&pane, rows[i]), seconds[i], "%d rows", rows[i]);
        cr_assert_leq(rows[i] * seconds[i], WATCH_FALL_SLOTS);
    }
    static const double interval_s[] = {0.512, 1, 5, 17, 1024, 4000};
    for (size_t i = 0; i < sizeof interval_s / sizeof interval_s[0]; i++) {
        float level;
        make_pane(50, 3);
        for (int n = 1; n < 300; n++) {
            message.window = n;
            message.fs_hz = 10000 / interval_s[i];
            message.sample_index = n * 10000.0;
            watch_pane_take(&pane, &message, 0);
        }
        double row_s = watch_row_seconds(&pane, 20);
        cr_assert_geq(row_s, interval_s[i]);
        cr_assert_eq(row_s, floor(row_s));
        for (int row = 0; row < 20; row++)
            cr_assert_eq(row_at(row, row_s, 0, &level), WATCH_ROW_LEVELS, "row %d, %g s", row,
                         interval_s[i]);
    }
}

/* Rows of 10 s over windows of half a second: the mean of their powers, 5 and 15 over the median.
 */
Test(watch, a_row_is_the_mean_over_its_time) {
    float level;
    make_pane(50, 3);
    for (uint64_t i = 1; i <= 80; i++) /* the pane's own message, window 0, began the clock */
        take_window(i, i % 2 ? 5 : 15, 0);
    for (int row = 1; row < 4; row++) {
        cr_assert_eq(row_at(row, 10, 0, &level), row < 4 ? WATCH_ROW_LEVELS : WATCH_ROW_BEFORE);
        if (row < 3)
            cr_assert_float_eq(level, 10, 1e-4, "row %d has %g dB", row, level);
    }
    cr_assert_eq(row_at(5, 10, 0, &level), WATCH_ROW_BEFORE);
}

Test(watch, gaps_are_gaps_and_marked) {
    float level;
    make_pane(50, 3);
    for (uint64_t i = 1; i < 80; i++) /* until 39.5 s */
        take_window(i, 100, 0);
    for (uint64_t i = 164; i < 180; i++) /* 82 s to 89.5 s */
        take_window(i, 100, 0);
    static const watch_row wanted[] = {
        WATCH_ROW_LOSSY,  WATCH_ROW_GAP,    WATCH_ROW_GAP,    WATCH_ROW_GAP,    WATCH_ROW_GAP,
        WATCH_ROW_LEVELS, WATCH_ROW_LEVELS, WATCH_ROW_LEVELS, WATCH_ROW_LEVELS, WATCH_ROW_BEFORE};
    for (int row = 0; row < 10; row++)
        cr_assert_eq(row_at(row, 10, 0, &level), wanted[row], "row %d", row);
    /* Nothing more for 25 s: they are rows of their own. */
    cr_assert_eq(row_at(0, 10, 25, &level), WATCH_ROW_GAP);
    cr_assert_eq(row_at(1, 10, 25, &level), WATCH_ROW_GAP);
    cr_assert_eq(row_at(3, 10, 25, &level), WATCH_ROW_LOSSY);
    /* A restarted daemon counts from 0: the reader's clock gives the length of the gap. */
    pane.came_s = 1000;
    strcpy(message.run, "another");
    take_window(0, 100, 1033);
    cr_assert_eq(row_at(0, 10, 0, &level), WATCH_ROW_LOSSY);
    cr_assert_eq(row_at(1, 10, 0, &level), WATCH_ROW_GAP);
    cr_assert_eq(row_at(4, 10, 0, &level), WATCH_ROW_LOSSY);
    /* An absurd index only empties the waterfall. */
    take_window(UINT64_MAX, 100, 1034);
    take_window(UINT64_MAX, 100, 1035);
    cr_assert_eq(row_at(0, 10, 0, &level), WATCH_ROW_LOSSY);
    cr_assert_eq(row_at(1, 10, 0, &level), WATCH_ROW_GAP);
}

/* ---- bearings -------------------------------------------------------------------------------- */

static int bearings_at(double x, double *right, double *left) {
    double both[2] = {NAN, NAN};
    int count = watch_true_bearings(&message, x, both);
    *right = both[0], *left = both[1];
    return count;
}

Test(watch, true_bearings_of_a_line_and_of_a_circle) {
    double right, left;
    memset(&message, 0, sizeof message);
    strcpy(message.axis, "azimuth");
    message.cone = true;
    message.heading_deg = 30.5, message.axis_az_deg = 12.5, message.axis_depression_deg = NAN;
    cr_assert_eq(bearings_at(60, &right, &left), 2);
    cr_assert(fabs(right - 103) < 1e-9 && fabs(left - 343) < 1e-9, "%g %g", right, left);
    message.axis_depression_deg = 40; /* 60 degrees off this axis reads 67.48 */
    cr_assert_eq(bearings_at(acos(cos(M_PI / 3) * cos(M_PI / 4.5)) * 180 / M_PI, &right, &left), 2);
    cr_assert(fabs(right - 103) < 1e-9 && fabs(left - 343) < 1e-9, "%g %g", right, left);
    cr_assert_eq(bearings_at(30, &right, &left), 0); /* above or below the horizontal plane */
    message.axis_az_deg = NAN;                       /* vertical */
    cr_assert_eq(bearings_at(60, &right, &left), 0);
    message.cone = false;
    cr_assert_eq(bearings_at(340, &right, &left), 1);
    cr_assert_float_eq(right, 10.5, 1e-9);
    message.is_true = true;
    cr_assert_eq(bearings_at(340, &right, &left), 0);
    message.is_true = false, message.heading_deg = NAN;
    cr_assert_eq(bearings_at(340, &right, &left), 0);
    message.heading_deg = 30;
    strcpy(message.axis, "frequency");
    cr_assert_eq(bearings_at(340, &right, &left), 0);
}

/* The column that a label of a line is centred on, or -1. */
static int label_column(const char *line, const char *label) {
    const char *end = strchr(line, '\n');
    const char *at = memmem(line, (size_t)(end - line), label, strlen(label));
    return at ? columns_of(line, (size_t)(at - line)) + (int)strlen(label) / 2 : -1;
}

static const char *line_with(const watch_text *text, const char *start) {
    const char *at = strstr(text->data, start);
    cr_assert(at, "no %s in\n%s", start, text->data);
    return at;
}

/* A known side is in the table and in the line, an unknown one in neither. */
Test(watch, the_side_that_a_turn_has_found_is_shown) {
    output_scene_make(&scene, NULL, "");
    scene.result[0].params.heading_deg = 30, scene.cbf.axis_az_deg = 0;
    static const sonar_side side[] = {SONAR_SIDE_PORT, SONAR_SIDE_STARBOARD, SONAR_SIDE_UNKNOWN,
                                      SONAR_SIDE_ALL};
    scene.result[0].detections = 4;
    for (size_t i = 0; i < 4; i++)
        scene.result[0].detection[i] = (sonar_detection){.az_deg = 90,
                                                         .bearing_deg = 101 + (double)i,
                                                         .mirror_deg = 300,
                                                         .bearing_sigma_deg = 0.25,
                                                         .side = side[i],
                                                         .side_confidence = 0.9,
                                                         .power = 1,
                                                         .range_m = NAN,
                                                         .image = i == 2,
                                                         .contact = i};
    read_back(SONAR_DETECTIONS, &list);
    watch_view view = {.detections = &list};
    watch_text text = {0};
    watch_render(&view, 80, 24, &text);
    static const char *const row[] = {"101.0 ", "102.0 ", "103.0 ", "104.0 "};
    static const char *const shown[] = {"cbf             port", "cbf             starboard",
                                        "cbf      image? -", "cbf             -"};
    const char *head = line_with(&text, " true mirror");
    const ptrdiff_t from = strstr(head, "from     image  side ") - head;
    for (size_t i = 0; i < 4; i++)
        cr_expect_eq(strncmp(line_with(&text, row[i]) + from, shown[i], strlen(shown[i])), 0);
    watch_text_free(&text);
    watch_line(&list, &text);
    line_with(&text, "cbf 101.0|300.0+-0.25 port 0.0 (0.0),  cbf 102.0|300.0+-0.25 starboard 0.0 "
                     "(0.0),  cbf 103.0|300.0+-0.25 0.0 (0.0) possible image,  cbf "
                     "104.0|300.0+-0.25 0.0 (0.0)");
    watch_text_free(&text);
}

/* In place of the detections; both bearings until the side is known. */
Test(watch, tracks_are_shown) {
    output_scene_make(&scene, NULL, "");
    static const sonar_track track[] = {
        {.number = 7,
         .state = SONAR_TRACK_COASTING,
         .bearings = 2,
         .bearing = {{101.5, -0.5, 0.25, 0.125, 0, 0.5, SONAR_SIDE_PORT},
                     {300, 0.5, 0.5, 0.125, 0, 0.5, SONAR_SIDE_STARBOARD}},
         .snr_db = 12,
         .unheard_s = 20},
        {.number = 12,
         .state = SONAR_TRACK_CONFIRMED,
         .bearings = 1,
         .bearing = {{5, 12.25, 0.125, 0.5, 0, 1, SONAR_SIDE_PORT}},
         .snr_db = 9}};
    scene.result[0].params.heading_deg = 30;
    memcpy(scene.result[0].track, track, sizeof track);
    scene.result[0].tracks = 2;
    read_back(SONAR_TRACKS, &list);
    cr_assert_eq(list.tracks, 2);
    watch_view view = {.detections = &list, .tracks = &list};
    watch_text text = {0};
    watch_render(&view, 80, 24, &text);
    line_with(&text, "track        true   +- deg/min   +- SNR dB unheard s state     side 2/2");
    line_with(&text, "    7 101.5|300.0 0.25   -0.50 0.13   12.0        20 coasting  -");
    line_with(&text, "   12         5.0 0.13  +12.25 0.50    9.0         0 confirmed port");
    watch_text_free(&text);
    watch_line(&list, &text);
    line_with(&text,
              "  true bearing in deg, rate in deg/min (SNR):  7 101.5+-0.25|300.0+-0.50 "
              "-0.50+-0.13 (12.0) coasting,  12 5.0+-0.13 port +12.25+-0.50 (9.0) confirmed");
    watch_text_free(&text);
}

/* Columns of the record before a text in the line of tracks; -1: it is not there. */
static int track_column(const watch_view *view, int width, const char *label) {
    watch_text text = {0};
    watch_render(view, width, 24, &text);
    const char *line = line_with(&text, "tracks   ") + WATCH_MARGIN;
    const char *at = strstr(line, label), *end = strchr(line, '\n');
    const int column = at && at < end ? (int)(at - line) : -1;
    watch_text_free(&text);
    return column;
}

/* Numbers stand below the axis at the tracks' places: at the angle, or at the true bearings. */
Test(watch, tracks_have_their_numbers_below_the_axis) {
    make_pane(181, 60); /* with a width of 190 each column is a degree */
    strcpy(pane.message.axis, "azimuth");
    memset(&list, 0, sizeof list);
    list.is_true = true;
    list.tracks = 5;
    static const struct {
        double number, az_deg;
        const char *state;
    } is[] = {{7, 60, "confirmed"},
              {8, 61, "tentative"},
              {9, 120, "coasting"},
              {10, 0, "lost"},
              {11, NAN, "confirmed"}};
    for (size_t i = 0; i < list.tracks; i++) {
        watch_track *t = &list.track[i];
        t->number = is[i].number;
        t->az_deg = is[i].az_deg;
        strcpy(t->state, is[i].state);
        t->bearings = 2;
        t->bearing[0].deg = is[i].az_deg + 30;
        t->bearing[1].deg = fmod(390 - is[i].az_deg, 360);
    }
    watch_view view = {.pane = {&pane}, .panes = 1, .tracks = &list};
    cr_expect_eq(track_column(&view, 190, " 7 "), 59);
    cr_expect_eq(track_column(&view, 190, "8"), -1, "no room beside the confirmed one");
    cr_expect_eq(track_column(&view, 190, "9~"), 120);
    cr_expect_eq(track_column(&view, 190, "10x"), 0, "moved into the line");
    cr_expect_eq(track_column(&view, 190, "11"), -1, "it has no place");
    list.track[0].az_deg = 300; /* not on this axis */
    cr_expect_eq(track_column(&view, 190, "7"), -1);
    cr_expect_eq(track_column(&view, 190, "8?"), 61);
    list.track[0].az_deg = 1e300;
    check_all_sizes(&view);

    /* true bearings from -60 to 120; 7 is at 90 and 330 */
    for (size_t i = 0; i < pane.message.points; i++)
        pane.message.x[i] -= 60;
    pane.message.is_true = true;
    cr_expect_eq(track_column(&view, 190, " 7 "), 29, "at 330, which is -30");
    list.track[0].bearing[1].deg = 200;
    cr_expect_eq(track_column(&view, 190, " 7 "), 149, "at 90 alone");
    list.is_true = false; /* bearings of the array's frame have no place there */
    cr_expect_eq(track_column(&view, 190, "7"), -1);
}

/* A ship in both CBF and MVDR is one row; the figures are those of the first, the range that of
 * any. */
Test(watch, rows_of_one_contact_are_one) {
    output_scene_make(&scene, NULL, "");
    static const sonar_detection row[] = {
        {.source = SONAR_FROM_CBF, .bearing_deg = 101, .contact = 0, .rests_on = 3, .range_m = NAN},
        {.source = SONAR_FROM_CBF,
         .bearing_deg = 130,
         .bearing_sigma_deg = NAN,
         .contact = 1,
         .rests_on = 1,
         .range_m = NAN},
        {.source = SONAR_FROM_MVDR,
         .bearing_deg = 102,
         .contact = 0,
         .rests_on = 3,
         .range_m = 700},
        {.source = SONAR_FROM_MVDR,
         .bearing_deg = 150,
         .bearing_sigma_deg = 12,
         .contact = 2,
         .rests_on = 2,
         .range_m = NAN},
    };
    scene.result[0].detections = 4;
    for (size_t i = 0; i < 4; i++) {
        scene.result[0].detection[i] = row[i];
        scene.result[0].detection[i].power = 1;
        scene.result[0].detection[i].image = i == 2;
        scene.result[0].detection[i].mirror_deg = NAN;
    }
    read_back(SONAR_DETECTIONS, &list);
    cr_assert_eq(list.detections, 3);
    watch_view view = {.detections = &list};
    watch_text text = {0};
    watch_render(&view, 80, 24, &text);
    line_with(&text, "101.0      -     0.0 0.00           0.0    0.0   700.0 cbf+mvdr image? -");
    line_with(&text, "130.0      -     0.0    -           0.0    0.0       - cbf             -");
    line_with(&text, "150.0      -     0.0   12           0.0    0.0       - mvdr            -");
    line_with(&text, "side 3/3");
    cr_assert_null(strstr(text.data, "102.0"));
    watch_text_free(&text);
    watch_line(&list, &text);
    line_with(&text, "cbf+mvdr 101.0");
    line_with(&text, " at 700.0 m possible image,  cbf 130.0");
    cr_assert_null(strstr(text.data, "102.0"));
    watch_text_free(&text);
    static const char numberless[] = /* of an older daemon */
        "{\"topic\":\"detections\",\"detections\":[{\"source\":\"cbf\"},{\"source\":\"mvdr\"}]}";
    cr_assert(watch_message_read(numberless, strlen(numberless), "", 0, &list));
    cr_assert_eq(list.detections, 2);
}

/* Plot and table agree: a contact's angle in the table is the angle under its peak. */
Test(watch, a_line_array_says_how_it_counts_and_that_it_is_folded) {
    output_scene_make(&scene, NULL, "");
    scene.result[0].params.heading_deg = 30, scene.cbf.axis_az_deg = 0;
    scene.result[0].detections = 1;
    scene.result[0].detection[0] = (sonar_detection){
        .az_deg = 90, .bearing_deg = 120, .mirror_deg = 300, .power = 1, .range_m = NAN};
    read_back(SONAR_DETECTIONS, &list);
    read_back(SONAR_CBF_AZIMUTH, &message);
    memset(&pane, 0, sizeof pane);
    watch_pane_take(&pane, &message, 0);
    watch_view view = {.pane = {&pane}, .panes = 1, .detections = &list};
    watch_text text = {0};
    watch_render(&view, 80, 24, &text);
    line_with(&text, "folded: right|left of axis, hdg 30.0");
    line_with(&text, "dB over median");
    int column = label_column(line_with(&text, "angle   "), " 90 ");
    cr_assert_geq(column, 0);
    cr_assert_leq(abs(label_column(line_with(&text, "true R|L"), "120|300") - column), 1);
    line_with(&text, " true mirror   angle   +- dB re 1 uPa^2 SNR dB");
    line_with(&text, "120.0  300.0    90.0 0.00           0.0 ");
    watch_text_free(&text);
    watch_line(&message, &text);
    line_with(&text, "angle from axis in deg (true right|left of axis), dB re 1 uPa^2");
    watch_text_free(&text);
    watch_line(&list, &text);
    line_with(&text, "true bearing|mirror in deg, dB re 1 uPa^2 (SNR):  cbf 120.0|300.0+-0.00 0.0");
    watch_text_free(&text);
    scene.result[0].params.heading_deg = NAN;
    read_back(SONAR_CBF_AZIMUTH, &message);
    watch_pane_take(&pane, &message, 0);
    watch_render(&view, 80, 24, &text);
    line_with(&text, "folded: right|left of axis, hdg -");
    cr_assert_null(strstr(text.data, "true R|L"));
    watch_text_free(&text);
    watch_line(&message, &text);
    line_with(&text, "angle from axis in deg (folded: either side)");
    watch_text_free(&text);
}

/* The daemon's normalised spectra and peaks are ratios, with unit 1, which is no reference. */
Test(watch, a_ratio_is_in_decibels_without_a_reference) {
    static const char *const unit_says[][2] = {{"1", ", dB (over median):  "},
                                               {"uPa^2", ", dB re 1 uPa^2 (over"},
                                               {"", ", dB re 1 ? (over"}};
    for (size_t i = 0; i < 3; i++) {
        watch_text text = {0};
        make_pane(50, 30);
        strcpy(message.axis, "azimuth");
        strcpy(message.unit, unit_says[i][0]);
        watch_line(&message, &text);
        line_with(&text, unit_says[i][1]);
        line_with(&text, " 20.0 (+20.0)");
        watch_text_free(&text);
    }
}

Test(watch, other_axes_are_named_as_what_they_are) {
    output_scene_make(&scene, NULL, "");
    watch_view view = {.pane = {&pane}, .panes = 1};
    static const struct {
        sonar_surface surface;
        const char *says[3], *never;
    } table[] = {
        {SONAR_ELEMENT_PSD,
         {"largest over channel, by frequency", "dB over median", "\nHz "},
         "axis"},
        {SONAR_ELEMENT_MISSING, {"by channel", " 100 %", "\nchannel "}, "dB over"},
        {SONAR_CBF_LOFAR, {"largest over frequency, folded", "true R|L", "angle"}, "array frame"}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        watch_text text = {0}, plain = {0};
        read_back(table[i].surface, &message);
        memset(&pane, 0, sizeof pane);
        watch_pane_take(&pane, &message, 0);
        watch_render(&view, 120, 24, &text);
        for (const char *at = text.data; *at; at++) /* without the clearing of lines */
            if (strncmp(at, "\033[K", 3) == 0)
                at += 2;
            else
                watch_text_add(&plain, "%c", *at);
        for (size_t k = 0; k < 3; k++)
            line_with(&plain, table[i].says[k]);
        cr_assert_null(strstr(plain.data, table[i].never), "%s", plain.data);
        watch_text_free(&text), watch_text_free(&plain);
    }
    scene.cbf.cone = false;
    read_back(SONAR_CBF_AZIMUTH, &message);
    watch_pane_take(&pane, &message, 0);
    watch_text text = {0};
    watch_render(&view, 80, 24, &text);
    line_with(&text, "array frame, hdg 30.5");
    line_with(&text, "azimuth ");
    line_with(&text, "true    ");
    cr_assert_null(strstr(text.data, "folded"));
    watch_text_free(&text);
}

/* Shares are in percent of the whole, at their positions. */
Test(watch, missing_shares_are_percent) {
    float column[50];
    make_pane(50, 3);
    strcpy(message.unit, "1");
    for (size_t i = 0; i < 50; i++)
        message.power[i] = 0;
    message.power[20] = 0.125F;
    watch_pane_take(&pane, &message, 0);
    cr_assert(pane.share && pane.level[20] == 12.5F && pane.level[0] == 0);
    cr_assert_eq(watch_fall_row(&pane, 0, 10, 0, 50, column), WATCH_ROW_LEVELS);
    cr_assert(column[20] == 12.5F && column[19] == 0);
    strcpy(message.axis, "channel");
    watch_text text = {0};
    watch_line(&message, &text);
    line_with(&text, "largest share 12.5 % at channel 73.4694");
    watch_text_free(&text);
}

/* ---- a silent daemon ------------------------------------------------------------------------- */

Test(watch, a_silent_daemon_shows) {
    output_scene_make(&scene, NULL, "");
    read_back(SONAR_CBF_AZIMUTH, &message);
    memset(&pane, 0, sizeof pane);
    watch_pane_take(&pane, &message, 11.5);
    memset(&status, 0, sizeof status);
    strcpy(status.status.health, "ok");
    watch_view view = {
        .pane = {&pane}, .panes = 1, .status = &status, .endpoint = "tcp://here:1", .began_s = 0};
    view.status_s = 10, view.result_s = 11.5, view.result_utc_ns = 1763654400.1239e9;
    for (int colour = 0; colour < 2; colour++) {
        watch_text alive = {0}, dead = {0}, back = {0};
        view.colour = colour;
        view.now_s = 12;
        watch_render(&view, 80, 24, &alive);
        line_with(&alive, "now  ");
        line_with(&alive, "█");
        line_with(&alive, "ok  frames");
        cr_assert_null(strstr(alive.data, "NO STATUS"));
        view.now_s = 14.5;
        watch_render(&view, 80, 24, &dead);
        line_with(&dead, "NO STATUS for 4 s; last data 16:00:00Z, 3 s ago; tcp://here:1");
        line_with(&dead, "OLD: 3 s ago");
        line_with(&dead, "the last one was: ok");
        cr_assert_null(strstr(dead.data, "now  "), "%s", dead.data);
        cr_assert_null(strstr(dead.data, "█"), "%s", dead.data);
        cr_assert_null(strstr(dead.data, "ok  frames"), "%s", dead.data);
        cr_assert_null(strstr(dead.data, "48;5;"), "%s", dead.data);
        view.status = NULL; /* no status was received */
        view.result_s = NAN;
        watch_render(&view, 80, 24, &back);
        line_with(&back, "NOTHING for 14 s from tcp://here:1: is sonard running there?");
        watch_text_free(&back);
        view.why = "hangs up in the handshake: this user or address has too many connections, or "
                   "makes them too often";
        watch_render(&view, 80, 24, &back);
        line_with(&back, "NOTHING for 14 s from tcp://here:1");
        line_with(&back, " it hangs up in the handshake: this user or address has too many");
        line_with(&back, " makes them too often");
        check_all_sizes(&view);
        view.colour = colour, view.why = NULL;
        view.status = &status, view.result_s = 11.5;
        watch_text_free(&alive), watch_text_free(&dead), watch_text_free(&back);
    }
}

/* The daemon runs without its digitiser: the displayed data are marked as old, too. */
Test(watch, a_topic_that_stopped_shows) {
    make_pane(50, 3);
    for (uint64_t i = 1; i < 30; i++)
        take_window(i, 100, 100);
    cr_assert_eq(watch_pane_quiet(&pane, 103, true), 0); /* 2 s and two windows */
    cr_assert_eq(watch_pane_quiet(&pane, 103, false), 3);
    watch_view view = {
        .pane = {&pane}, .panes = 1, .status = &status, .now_s = 134, .status_s = 133.5};
    watch_text text = {0};
    watch_render(&view, 80, 24, &text);
    line_with(&text, "OLD: 34 s ago");
    line_with(&text, "-   -   -");
    cr_assert_null(strstr(text.data, "now  "));
    cr_assert_null(strstr(text.data, "NO STATUS"));
    watch_text_free(&text);
}

Test(watch, peaks_come_strongest_first) {
    float db[] = {9, 1, 2, 7, 7, 1, NAN, 30, 2, 8};
    size_t peak[3];
    cr_assert_eq(watch_peaks(10, db, 6, 3, peak), 3);
    cr_assert(peak[0] == 7 && peak[1] == 0 && peak[2] == 9);
    cr_assert_eq(watch_peaks(10, db, 31, 3, peak), 0);
    cr_assert_eq(watch_peaks(0, db, 6, 3, peak), 0);
    size_t all[10];
    cr_assert_eq(watch_peaks(10, db, 6, 10, all), 4);
    cr_assert_eq(all[3], 3);
}

Test(watch, a_message_is_read_as_it_was_written) {
    output_scene_make(&scene, NULL, "");
    scene.result[0].missing_worst = 0.5;
    read_back(SONAR_CBF_NEARFIELD, &message);
    cr_assert_str_eq(message.topic, "cbf.nearfield");
    cr_assert_str_eq(message.array, "line \"A\"");
    cr_assert_str_eq(message.axis_unit, "deg");
    cr_assert_str_eq(message.flags, "gap");
    cr_assert_str_eq(message.axis, "azimuth");
    cr_assert_str_eq(message.over, "range");
    cr_assert(message.cone && message.ambiguous && !message.is_true);
    cr_assert(message.heading_deg == 30.5 && message.axis_az_deg == 12.5);
    cr_assert(message.fs_hz == 8000 && message.window_length == 8192);
    cr_assert_eq(message.epoch, 4294967295.0);
    cr_assert_eq(message.points, SCENE_CBF_DIRECTIONS);
    const float *data = scene.data[0][SONAR_CBF_NEARFIELD];
    for (size_t i = 0; i < SCENE_CBF_DIRECTIONS; i++) /* it rises from row to row */
        cr_assert_eq(message.power[i], data[2 * SCENE_CBF_DIRECTIONS + i]);
    cr_assert_eq(message.seq, 5);
    read_back(SONAR_ELEMENT_POSITION, &message);
    cr_assert_eq(message.points, 0, "metres are no level");
    read_back(SONAR_BEAM_AUDIO, &message);
    cr_assert_eq(message.points, 0, "nor is sound pressure");
    read_back(SONAR_ELEMENT_MISSING, &message);
    cr_assert(watch_is_share(&message));
    read_back(SONAR_MVDR_NORMALISED, &message);
    cr_assert_eq(message.points, SCENE_MVDR_DIRECTIONS);
    cr_assert(!watch_is_share(&message), "a ratio of powers is shown in dB");
    char when[40];
    watch_time(1763654400.1239e9, when, sizeof when);
    cr_assert_str_eq(when, "2025-11-20 16:00:00.123Z");
    watch_time(NAN, when, sizeof when);
    cr_assert_str_eq(when, "time unknown");
}

Test(watch, json_keeps_large_integers_and_adds_the_array) {
    float data[] = {1.5F, NAN, -INFINITY, 0.25F};
    const char *header = " {\"utc_ns\":1763654400123456789,\n\"shape\":[4]} trailing";
    watch_text text = {0};
    watch_json(header, strlen(header), data, sizeof data, &text);
    cr_assert_str_eq(text.data, " {\"utc_ns\":1763654400123456789, \"shape\":[4],"
                                "\"data\":[1.5,null,null,0.25]}\n");
    watch_text_free(&text);
    const char *const none[] = {"[1]", "", "{", "nonsense", "3"};
    for (size_t i = 0; i < 5; i++) {
        watch_json(none[i], strlen(none[i]), data, sizeof data, &text);
        cr_assert_eq(text.bytes, 0);
    }
    const char *controls = "{\"a\":\"\xc2\x9b\x7f\xff\x1b[2J\xc3\xbc\",\x1b\t\"b\":\"\\u009b\"}";
    watch_json(controls, strlen(controls), data, 0, &text);
    cr_assert_str_eq(text.data, "{\"a\":\"??? [2J\xc3\xbc\",  \"b\":\"\\u009b\"}\n");
    watch_text_free(&text);
    watch_json("{\"shape\":[5]}", 13, data, sizeof data, &text); /* it lies: no data */
    cr_assert_str_eq(text.data, "{\"shape\":[5]}\n");
    watch_text_free(&text);
}

/* Values of a wrong type, and headers truncated and corrupted at random. */
Test(watch, hostile_headers_are_harmless) {
    static const char *const evil[] = {
        "",
        "null",
        "[]",
        "{}",
        "{\"axes\":3,\"shape\":\"x\",\"dtype\":\"<f4\"}",
        "{\"axes\":[{\"values\":{}}],\"shape\":[-1],\"dtype\":\"<f4\"}",
        "{\"axes\":[{\"values\":[1,\"x\"]}],\"shape\":[2],\"dtype\":\"<f4\"}",
        "{\"axes\":[{\"start\":0,\"step\":1}],\"shape\":[1e300],\"dtype\":\"<f4\"}",
        "{\"axes\":[{\"start\":0,\"step\":1}],\"shape\":[16384],\"dtype\":\"<f4\"}",
        "{\"axes\":[{\"start\":1e308,\"step\":-1e308}],\"shape\":[3],\"dtype\":\"<f4\"}",
        "{\"axes\":[{\"start\":5,\"step\":0}],\"shape\":[3],\"dtype\":\"<f4\"}",
        "{\"axes\":[{\"start\":0,\"step\":1e-320}],\"shape\":[3],\"dtype\":\"<f4\"}",
        "{\"flags\":[1,null,\"\\u001b[2J\",{}],\"topic\":[],\"array\":\"\\u001b]0;x\\u0007\"}",
        "{\"detections\":[1,{},[],{\"bearing_deg\":\"x\",\"source\":\"\\u001b[31m long\"}]}",
        "{\"detections\":{\"a\":{\"level_db\":1e308}},\"window\":1e308,\"utc_ns\":1e308}",
        "{\"frames\":{\"dropped\":{\"\\u001b\":1e308,\"b\":-1,\"c\":\"x\"}},\"health\":7}",
        "{\"frames\":[],\"windows\":3,\"latency\":\"x\",\"heading_deg\":1e308}"};
    float body[4] = {1, 100, NAN, 2};
    for (size_t i = 0; i < sizeof evil / sizeof evil[0]; i++) {
        watch_message_read(evil[i], strlen(evil[i]), body, sizeof body, &message);
        watch_pane_take(&pane, &message, 0);
        watch_view view = {.pane = {&pane},
                           .panes = 1,
                           .detections = &message,
                           .status = &message,
                           .colour = true};
        check_screen(&view, 80, 24);
        check_screen(&view, 20, 40);
        watch_text text = {0};
        watch_line(&message, &text);
        columns_of(text.data, text.bytes - 1);
        watch_text_free(&text);
    }
    output_scene_make(&scene, NULL, "");
    char *axes = sonar_header_axes(&scene.spec, SONAR_CBF_AZIMUTH, NULL);
    char *header =
        sonar_header_result(&scene.spec, SONAR_CBF_AZIMUTH, axes, NULL, &scene.result[0], 1, 1);
    size_t bytes = strlen(header);
    char *broken = malloc(bytes);
    uint64_t seed = 11;
    for (int i = 0; i < 3000; i++) {
        memcpy(broken, header, bytes);
        for (uint64_t k = 1 + sonar_random_bits(&seed) % 4; k > 0; k--)
            broken[sonar_random_bits(&seed) % bytes] = (char)sonar_random_bits(&seed);
        size_t cut = sonar_random_bits(&seed) % 2 ? bytes : sonar_random_bits(&seed) % bytes;
        watch_message_read(broken, cut, body, sonar_random_bits(&seed) % sizeof body, &message);
        watch_pane_take(&pane, &message, 0);
        watch_view view = {.pane = {&pane}, .panes = 1, .detections = &message, .status = &message};
        check_screen(&view, 80, 24);
        watch_text text = {0};
        watch_json(broken, cut, body, sizeof body, &text);
        if (text.bytes)
            columns_of(text.data, text.bytes - 1);
        watch_text_free(&text);
    }
    free(broken), free(header), free(axes);
}

/* ---- the program ----------------------------------------------------------------------------- */

/* Runs it, reads all it writes (cut at `bytes`), returns its exit code. */
static int watch_run(const char *arguments, char *written, size_t bytes) {
    char command[1024];
    snprintf(command, sizeof command, "%s/sonar-watch %s 2>&1", SONAR_BIN_DIR, arguments);
    FILE *pipe = popen(command, "r");
    cr_assert_not_null(pipe);
    size_t got = fread(written, 1, bytes - 1, pipe);
    written[got] = '\0';
    int code = pclose(pipe);
    cr_assert(WIFEXITED(code));
    return WEXITSTATUS(code);
}

Test(watch, wrong_usage_and_no_publisher) {
    static char text[8192];
    cr_assert_eq(watch_run("--help", text, sizeof text), 0);
    cr_assert_not_null(strstr(text, "--topic"));
    const char *const wrong[] = {
        "--nonsense", "--topic nonsense",   "--count 0", "--count 1.5",           "--timeout -1",
        "--width 3",  "--endpoint junk://", "word",      "--config /no/such/file"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_assert_eq(watch_run(wrong[i], text, sizeof text), 2, "%s", wrong[i]);
    cr_assert_eq(watch_run("--endpoint tcp://127.0.0.1:1 --timeout 0.3", text, sizeof text), 3);
}

/* ---- a reader that is stopped ---------------------------------------------------------------- */

enum { LARGE = 16384 };

/* Sends message `seq` with an array so large that a few hundred fill all buffers; false: they are
 * full. */
static bool publish_large(void *pub, unsigned long seq) {
    static float body[LARGE];
    char header[256];
    int bytes =
        snprintf(header, sizeof header,
                 "{\"schema\":\"" SONAR_OUTPUT_SCHEMA "\",\"topic\":\"cbf.azimuth\",\"seq\":%lu,"
                 "\"dtype\":\"<f4\",\"shape\":[%d],\"axes\":[{\"start\":0,\"step\":1}]}",
                 seq, LARGE);
    if (zmq_send(pub, "cbf.azimuth", 11, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
        return false;
    zmq_send(pub, header, (size_t)bytes, ZMQ_SNDMORE);
    zmq_send(pub, body, sizeof body, 0);
    return true;
}

/* Binds a publisher that reports when its buffers are full. */
static void *large_publisher(void *context, const char *endpoint) {
    void *pub = zmq_socket(context, ZMQ_XPUB);
    int zero = 0, one = 1, few = 10;
    zmq_setsockopt(pub, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(pub, ZMQ_SNDHWM, &few, sizeof few);
    zmq_setsockopt(pub, ZMQ_XPUB_NODROP, &one, sizeof one);
    while (zmq_bind(pub, endpoint) != 0) /* the one before it is still being closed */
        usleep(10000);
    return pub;
}

static pid_t start_json_watch(const char *endpoint, int *output) {
    int pipes[2];
    cr_assert_eq(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], STDOUT_FILENO);
        close(pipes[0]), close(pipes[1]);
        execl(SONAR_BIN_DIR "/sonar-watch", "sonar-watch", "--json", "--endpoint", endpoint, NULL);
        _exit(127);
    }
    close(pipes[1]);
    *output = pipes[0];
    return child;
}

static unsigned long read_seq(FILE *lines) {
    static char line[1 << 20];
    unsigned long seq;
    cr_assert(fgets(line, sizeof line, lines), "it ended");
    cr_assert_eq(sscanf(strstr(line, "\"seq\":"), "\"seq\":%lu", &seq), 1, "%.80s", line);
    return seq;
}

/* Publishes until no message could be sent for a while; returns the number sent. */
static unsigned long fill_buffers(void *pub) {
    unsigned long seq = 0;
    for (int full = 0; full < 50; usleep(1000))
        full = publish_large(pub, seq) ? (seq++, 0) : full + 1;
    return seq;
}

/* It must react to a signal without waiting for its reader. */
Test(watch, a_signal_ends_it_while_no_one_reads_it, .timeout = 600) {
    void *context = zmq_ctx_new();
    char endpoint[64], subscription[64];
    int output, code;
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", 20000 + (int)getpid() % 10000);
    pid_t child = start_json_watch(endpoint, &output);
    void *pub = large_publisher(context, endpoint);
    cr_assert_gt(zmq_recv(pub, subscription, sizeof subscription, 0), 0);
    fill_buffers(pub);
    kill(child, SIGTERM);
    cr_assert_eq(waitpid(child, &code, 0), child);
    cr_assert(WIFEXITED(code) && WEXITSTATUS(code) == 0);
    zmq_close(pub);
    zmq_ctx_term(context);
}

/* Its output is not read, so it does not read its connection, and then the publisher leaves. With
 * ZMTP heartbeats libzmq would send one to the closed connection, get an error, and abort at the
 * next one's timer. */
Test(watch, it_survives_that_no_one_reads_it, .timeout = 600) {
    void *context = zmq_ctx_new();
    char endpoint[64], subscription[64];
    int output, code;
    unsigned long seq = 0, stopped_at, last = 0;
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", 20000 + (int)getpid() % 10000);
    pid_t child = start_json_watch(endpoint, &output);
    void *pub = large_publisher(context, endpoint);
    cr_assert_gt(zmq_recv(pub, subscription, sizeof subscription, 0), 0);
    seq = fill_buffers(pub);
    zmq_close(pub);
    sleep(5); /* three heartbeats, had it any */
    FILE *lines = fdopen(output, "r");
    stopped_at = seq;
    pub = large_publisher(context, endpoint); /* it is bound again */
    for (zmq_pollitem_t item = {NULL, output, ZMQ_POLLIN, 0}; last < stopped_at;) {
        seq += publish_large(pub, seq);
        if (zmq_poll(&item, 1, 10) > 0)
            last = read_seq(lines);
    }
    fclose(lines);
    kill(child, SIGTERM);
    cr_assert_eq(waitpid(child, &code, 0), child);
    cr_assert(WIFEXITED(code), "killed by signal %d", WTERMSIG(code));
    zmq_close(pub);
    zmq_ctx_term(context);
}

/* ---- the terminal ---------------------------------------------------------------------------- */

/* A terminal whose session this process leads, the viewer in its foreground. */
typedef struct terminal {
    int master, slave;
    pid_t viewer;
    char seen[1 << 16]; /* what was written to it */
    size_t bytes;
} terminal;

static terminal tty;

static tcflag_t local_modes(void) {
    struct termios modes;
    cr_assert_eq(tcgetattr(tty.slave, &modes), 0);
    return modes.c_lflag & (ICANON | ECHO);
}

static void start_in_terminal(void) {
    const struct winsize size = {.ws_row = 24, .ws_col = 80};
    memset(&tty, 0, sizeof tty);
    setsid();
    cr_assert_eq(getsid(0), getpid()); /* now, or before as Criterion's child */
    signal(SIGTTOU, SIG_IGN);          /* it takes the foreground back from a stopped viewer */
    signal(SIGHUP, SIG_IGN);
    tty.master = posix_openpt(O_RDWR | O_NOCTTY);
    cr_assert(grantpt(tty.master) == 0 && unlockpt(tty.master) == 0);
    tty.slave = open(ptsname(tty.master), O_RDWR);
    cr_assert_geq(tty.slave, 0);
    cr_assert_eq(ioctl(tty.slave, TIOCSCTTY, 0), 0);
    ioctl(tty.slave, TIOCSWINSZ, &size);
    cr_assert_eq(local_modes(), ICANON | ECHO);
    tty.viewer = fork();
    if (tty.viewer == 0) {
        setpgid(0, 0);
        tcsetpgrp(tty.slave, getpid());
        signal(SIGTTOU, SIG_DFL);
        for (int fd = 0; fd < 3; fd++)
            dup2(tty.slave, fd);
        execl(SONAR_BIN_DIR "/sonar-watch", "sonar-watch", "-e", "tcp://127.0.0.1:1", NULL);
        _exit(127);
    }
}

/* Reads until `wanted` was written after what has been read before, for 10 s at most. */
static void await_text(const char *wanted) {
    struct pollfd item = {tty.master, POLLIN, 0};
    tty.bytes = 0;
    while (poll(&item, 1, 10000) == 1) {
        ssize_t got = read(tty.master, tty.seen + tty.bytes, sizeof tty.seen - tty.bytes);
        cr_assert_gt(got, 0);
        tty.bytes += (size_t)got;
        if (memmem(tty.seen, tty.bytes, wanted, strlen(wanted)))
            return;
    }
    cr_assert(false, "no %s", wanted + (*wanted == '\033'));
}

static const char SCREEN_ON[] = "\033[?1049h", SCREEN_OFF[] = "\033[?25h\033[?1049l";

static int left_with(void) {
    int code;
    await_text(SCREEN_OFF);
    cr_assert_eq(waitpid(tty.viewer, &code, 0), tty.viewer);
    cr_assert_eq(local_modes(), ICANON | ECHO, "the terminal is not as it was");
    return code;
}

/* Keys react at once, and the picture shows that no data arrive; then it is ended in different
 * ways. */
static void enter_and_draw(void) {
    start_in_terminal();
    await_text(SCREEN_ON);
    await_text("q quits");
    cr_assert_eq(local_modes(), 0);
}

Test(watch, q_leaves, .timeout = 600) {
    enter_and_draw();
    await_text("NOTHING for ");
    cr_assert_eq(write(tty.master, "xq", 2), 2);
    cr_assert_eq(left_with(), 0);
}

static void check_end_by(int number) {
    enter_and_draw();
    kill(tty.viewer, number);
    cr_assert_eq(left_with(), 0);
}

Test(watch, an_interrupt_leaves_the_terminal_as_it_was, .timeout = 600) {
    check_end_by(SIGINT);
}

Test(watch, a_termination_leaves_the_terminal_as_it_was, .timeout = 600) {
    check_end_by(SIGTERM);
}

Test(watch, an_abort_leaves_the_terminal_as_it_was, .timeout = 600) {
    enter_and_draw();
    kill(tty.viewer, SIGABRT);
    int code = left_with();
    cr_assert(WIFSIGNALED(code) && WTERMSIG(code) == SIGABRT);
}

Test(watch, ctrl_z_gives_the_terminal_back_for_a_while, .timeout = 600) {
    const struct winsize size = {.ws_row = 50, .ws_col = 200};
    int code;
    enter_and_draw();
    cr_assert_eq(write(tty.master, "\032", 1), 1);
    cr_assert_eq(waitpid(tty.viewer, &code, WUNTRACED), tty.viewer);
    cr_assert(WIFSTOPPED(code));
    await_text(SCREEN_OFF);
    cr_assert_eq(local_modes(), ICANON | ECHO);
    tcsetpgrp(tty.slave, getpgrp());
    tcsetpgrp(tty.slave, tty.viewer);
    kill(tty.viewer, SIGCONT);
    await_text(SCREEN_ON);
    await_text("q quits");
    cr_assert_eq(local_modes(), 0);
    ioctl(tty.slave, TIOCSWINSZ, &size); /* a larger window: the table has more lines */
    await_text("q quits");
    kill(tty.viewer, SIGSTOP); /* not asked for: the terminal is as it was left */
    cr_assert_eq(waitpid(tty.viewer, &code, WUNTRACED), tty.viewer);
    kill(tty.viewer, SIGCONT);
    await_text(SCREEN_ON);
    cr_assert_eq(write(tty.master, "\003", 1), 1);
    cr_assert_eq(left_with(), 0);
}

Test(watch, it_reads_a_publisher) {
    static char text[100000], arguments[512], path[64];
    void *context = zmq_ctx_new();
    output_scene_make(&scene, context, "tcp://127.0.0.1:*");
    sonar_output *output;
    sonar_error err;
    cr_assert_eq(sonar_output_create(&scene.spec, sonar_host_serial(), &output, &err), SONAR_OK);
    cr_assert_eq(sonar_output_start(output, &err), SONAR_OK);
    snprintf(path, sizeof path, "/tmp/sonar-test-watch-%d.yaml", (int)getpid());
    FILE *config = fopen(path, "w");
    fprintf(config,
            "schema: 1\narray: {id: 1, geometry: {line: {sensors: 4, spacing_m: 1}}}\n"
            "sound_speed_mps: 1500\nfs_hz: 2000\ningest: {endpoints: [\"ipc:///tmp/in\"]}\n"
            "dft: {length: 2048}\ncbf: {band_hz: [100, 200]}\noutput: {endpoint: "
            "\"tcp://127.0.0.1%s\"}\n",
            strrchr(sonar_output_endpoint(output), ':'));
    fclose(config);
    pid_t child = fork();
    if (child == 0) { /* the reader; its figures decide the exit code */
        snprintf(arguments, sizeof arguments, "--config %s --json --count 3 --timeout 10", path);
        bool good = watch_run(arguments, text, sizeof text) == 0;
        int lines = 0;
        for (char *save = NULL, *line = strtok_r(text, "\n", &save); line;
             line = strtok_r(NULL, "\n", &save)) {
            cJSON *root = cJSON_Parse(line);
            good = good && root &&
                   cJSON_GetArraySize(cJSON_GetObjectItem(root, "data")) == SCENE_CBF_DIRECTIONS &&
                   strstr(line, "\"utc_ns\":17636544001234567");
            cJSON_Delete(root);
            lines++;
        }
        _exit(good && lines == 3 ? 0 : 1);
    }
    cr_assert(output_wait_wanted(output, SONAR_WANT(SONAR_CBF_AZIMUTH)));
    for (size_t i = 0; i < 5; i++)
        cr_assert(sonar_output_post(output, &scene.result[i]));
    int code;
    waitpid(child, &code, 0);
    cr_assert(WIFEXITED(code) && WEXITSTATUS(code) == 0);
    cr_assert(output_wait_wanted(output, 0));
    sonar_output_destroy(output);
    zmq_ctx_term(context);
    unlink(path);
}
