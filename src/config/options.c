/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One row per option. Rules between options are in resolve.c and check.c. */
#include "config/options.h"

#include <string.h>

#define INTEGER(low_, high_) .type = SONAR_TYPE_INTEGER, .low = (low_), .high = (high_)
#define REAL(unit_, low_, high_)                                                                   \
    .type = SONAR_TYPE_REAL, .unit = (unit_), .low = (low_), .high = (high_)
#define POSITIVE(unit_, high_) REAL(unit_, 0, high_), .above = true
#define BOOLEAN                .type = SONAR_TYPE_BOOLEAN
#define CHOICE(words)          .type = SONAR_TYPE_CHOICE, .choices = words
#define TEXT(bytes)            .type = SONAR_TYPE_TEXT, .high = (bytes)
#define PER_SENSOR(unit_, low_, high_)                                                             \
    .type = SONAR_TYPE_REALS, .unit = (unit_), .low = (low_), .high = (high_), .least = 1,         \
    .most = SONAR_SENSORS_MOST, .scalar = true
#define BAND_HZ       .type = SONAR_TYPE_REALS, .unit = "Hz", .low = 0, .high = 1e9, .least = 2, .most = 2
#define BAND_BINS     .type = SONAR_TYPE_INTEGERS, .low = 0, .high = 33554432, .least = 2, .most = 2
#define DEGREES(high) REAL("deg", 0, high)

const sonar_option sonar_options[SONAR_OPTIONS] = {
    [OPT_SCHEMA] = {"schema", INTEGER(1, 1), .required = true, .help = "Version of this format."},

    [OPT_ARRAY_ID] = {"array.id", INTEGER(0, 4294967295), .fallback = "1",
                      .help = "Number of the array in sample frames; frames of others are counted "
                              "and dropped."},
    [OPT_ARRAY_NAME] = {"array.name", TEXT(63), .fallback = "array",
                        .help = "Name of the array in published headers."},
    [OPT_LINE_SENSORS] = {"array.geometry.line.sensors", INTEGER(1, SONAR_SENSORS_MOST),
                          .required = true, .grouped = true,
                          .help = "Sensors of a uniform line along +x, centred on its middle."},
    [OPT_LINE_SPACING] = {"array.geometry.line.spacing_m", POSITIVE("m", 1e5), .required = true,
                          .grouped = true, .help = "Distance between neighbours."},
    [OPT_CIRCLE_SENSORS] = {"array.geometry.circle.sensors", INTEGER(1, SONAR_SENSORS_MOST),
                            .required = true, .grouped = true,
                            .help = "Sensors of a horizontal circle about the origin; the first "
                                    "on +x, the others clockwise seen from above."},
    [OPT_CIRCLE_RADIUS] = {"array.geometry.circle.radius_m", POSITIVE("m", 1e6), .required = true,
                           .grouped = true, .help = "Its radius."},
    [OPT_PLANAR_ROWS] = {"array.geometry.planar.rows", INTEGER(1, SONAR_SENSORS_MOST),
                         .required = true, .grouped = true,
                         .help = "Rows of a horizontal grid centred on its middle; rows follow "
                                 "each other along +x. Sensors are numbered row by row."},
    [OPT_PLANAR_COLUMNS] = {"array.geometry.planar.columns", INTEGER(1, SONAR_SENSORS_MOST),
                            .required = true, .grouped = true,
                            .help = "Sensors of a row, along +y."},
    [OPT_PLANAR_ROW_SPACING] = {"array.geometry.planar.row_spacing_m", POSITIVE("m", 1e5),
                                .required = true, .grouped = true,
                                .help = "Distance between rows."},
    [OPT_PLANAR_COLUMN_SPACING] = {"array.geometry.planar.column_spacing_m", POSITIVE("m", 1e5),
                                   .required = true, .grouped = true,
                                   .help = "Distance between the sensors of a row."},
    [OPT_POSITIONS_FRAME] = {"array.geometry.positions.frame", CHOICE("xyz enu"), .grouped = true,
                             .fallback = "xyz",
                             .help = "xyz: x forward, y right, z down. enu: east, north, up; "
                                     "converted to x = north, y = east, z = down; "
                                     "heading_deg is 0 if north is true north."},
    [OPT_POSITIONS_ORIGIN] = {"array.geometry.positions.origin", CHOICE("centroid given"),
                              .grouped = true, .fallback = "centroid",
                              .help = "centroid: positions are shifted so that their mean is the "
                                      "reference point. given: they are used as they stand."},
    [OPT_POSITIONS_LIST] = {"array.geometry.positions.list", .type = SONAR_TYPE_POSITIONS,
                            .unit = "m", .low = -1e6, .high = 1e6, .least = 1,
                            .most = SONAR_SENSORS_MOST,
                            .help = "Positions, one [x, y, z] (enu: [east, north, up]) per "
                                    "sensor."},
    [OPT_POSITIONS_CSV] = {"array.geometry.positions.csv", TEXT(4095),
                           .help = "A file of positions instead: three numeric columns, an "
                                   "optional header line that holds no digit, comments after #. "
                                   "What was read is reported. A relative path counts from the "
                                   "configuration file."},
    [OPT_CHANNELS] = {"array.channels", .type = SONAR_TYPE_INTEGERS, .low = 0,
                      .high = SONAR_SENSORS_MOST - 1, .least = 1, .most = SONAR_SENSORS_MOST,
                      .computed = "0, 1, 2, ...",
                      .help = "Channel of the frames that feeds each sensor, one per sensor, none "
                              "twice."},
    [OPT_CHANNEL_COUNT] = {"array.channel_count", INTEGER(1, SONAR_SENSORS_MOST),
                           .computed = "largest channel + 1",
                           .help = "Channels of the array's frames; there may be more than "
                                   "sensors."},
    [OPT_MASK] = {"array.mask", .type = SONAR_TYPE_INTEGERS, .low = 0,
                  .high = SONAR_SENSORS_MOST - 1, .most = SONAR_SENSORS_MOST, .fallback = "[]",
                  .help = "Sensors (counted from 0) that are switched off. They keep their place; "
                          "all beams are normalised without them."},
    [OPT_AUTO_MASK] = {"array.auto_mask", BOOLEAN, .fallback = "false",
                       .help = "Sensors that are dead, stuck, noisy or, where the band begins "
                               "below 180 Hz, hum for five seconds are switched off as well, at "
                               "most a third, and on again when they have been good for half a "
                               "minute, twice as long each time. The status names such sensors "
                               "either way."},
    [OPT_GAIN] = {"array.gain_db", PER_SENSOR("dB re 1 count/uPa", -400, 400),
                  .computed = "not set: without array.hydrophone results are in counts^2",
                  .help =
                      "Sensitivity of each channel, taken out; results are then in uPa^2. One "
                      "number for all or one per sensor. It is the same as array.hydrophone, in "
                      "one number (docs/levels.md)."},
    [OPT_SENSITIVITY] = {"array.hydrophone.sensitivity_db", PER_SENSOR("dB re 1 V/uPa", -400, 400),
                         .required = true, .grouped = true,
                         .help = "Sensitivity of the hydrophones, instead of array.gain_db: -180 "
                                 "is 1 mV/Pa."},
    [OPT_AMPLIFIER] = {"array.hydrophone.amplifier_db", PER_SENSOR("dB", -400, 400),
                       .grouped = true, .fallback = "0",
                       .help = "Gain between hydrophone and converter."},
    [OPT_FULL_SCALE_V] = {"array.hydrophone.full_scale_v", POSITIVE("V", 1e6), .required = true,
                          .grouped = true,
                          .help =
                              "Voltage at which the converter reaches full scale: 5 for a range "
                              "of -5 to 5 V."},
    [OPT_FULL_SCALE_COUNTS] = {"array.hydrophone.full_scale_counts", POSITIVE("counts", 4294967296),
                               .required = true, .grouped = true,
                               .help = "Sample that stands for this voltage: 32768 for 16 bits, "
                                       "8388608 for 24, 2147483648 for 32, 1 for floats within -1 "
                                       "and 1."},
    [OPT_PHASE] = {"array.phase_deg", PER_SENSOR("deg", -360, 360), .fallback = "0",
                   .help = "Phase by which a channel leads, taken out. One number or one per "
                           "sensor."},
    [OPT_DELAY] = {"array.delay_us", PER_SENSOR("us", -1e6, 1e6), .fallback = "0",
                   .help = "Time by which a channel lags, taken out. One number or one per "
                           "sensor."},
    [OPT_HEADING] = {"array.heading_deg", REAL("deg", -360, 360),
                     .computed = "not set: bearings are in the array frame",
                     .help = "Heading of +x, clockwise from true north; 360 is 0, -90 is 270."},

    [OPT_SOUND_SPEED] = {"sound_speed_mps", REAL("m/s", 100, 10000), .fallback = "1500",
                         .help = "Speed of sound at the array."},
    [OPT_FS] = {"fs_hz", POSITIVE("Hz", 1e9), .required = true, .help = "Sampling rate."},

    [OPT_INGEST_ENDPOINTS] = {"ingest.endpoints", .type = SONAR_TYPE_ENDPOINTS, .least = 1,
                              .most = SONAR_ENDPOINTS_MOST,
                              .fallback = "[\"tcp://127.0.0.1:5555\"]",
                              .help = "Where sample frames come in. There is no authentication "
                                      "yet, so only loopback and ipc are accepted."},
    [OPT_INGEST_SOCKET] = {"ingest.socket", CHOICE("pull sub"), .fallback = "pull",
                           .help = "pull binds the endpoints and digitisers connect; sub connects "
                                   "to digitisers that publish."},
    [OPT_OVERLOAD] = {"ingest.overload", CHOICE("drop_oldest block"), .fallback = "drop_oldest",
                      .help = "What happens when samples come faster than they are worked off: "
                              "the oldest waiting window is dropped and counted, or the sender "
                              "waits (lossless, for recordings)."},
    [OPT_INGEST_HWM] = {"ingest.high_water_mark", INTEGER(1, 1000000), .unit = "messages",
                        .fallback = "64", .help = "Messages kept per peer."},
    [OPT_MAX_MESSAGE] = {"ingest.max_message_bytes", INTEGER(64, 4294967296), .unit = "bytes",
                         .fallback = "67108864", .help = "Largest message accepted."},
    [OPT_QUEUE_WINDOWS] = {"ingest.queue_windows", INTEGER(1, 1024), .unit = "windows",
                           .fallback = "4", .help = "Windows that may wait to be worked on."},
    [OPT_MAX_MISSING] = {"ingest.max_missing_share", REAL("", 0, 1), .fallback = "0.1",
                         .help = "A window with a larger share of missing samples is dropped and "
                                 "counted; otherwise they are zero."},
    [OPT_MAX_SKEW] = {"ingest.max_skew_ms", REAL("ms", 0, 60000), .fallback = "250",
                      .help = "How long a window waits for missing blocks once newer samples are "
                              "there."},
    [OPT_RESTART_AFTER] = {"ingest.restart_after_ms", INTEGER(1, 3600000), .unit = "ms",
                           .fallback = "1000",
                           .help = "Silence after which a block's new stream epoch is adopted."},
    [OPT_SILENT_AFTER] = {"ingest.silent_after_ms", INTEGER(1, 3600000), .unit = "ms",
                          .fallback = "1000",
                          .help = "Silence after which a block is reported as silent."},

    [OPT_SAMPLE_TYPE] = {"ingest.sample_type", CHOICE("any s16"), .fallback = "any",
                         .help = "any: frames of every sample type, kept as 32-bit floats. s16: "
                                 "16-bit frames only, kept as they "
                                 "are, which halves the memory and what crosses to a GPU; other "
                                 "frames are dropped and counted."},
    [OPT_INGEST_THREADS] = {"ingest.threads", INTEGER(1, SONAR_INGEST_THREADS_MOST),
                            .computed = "1 for each 500 million samples a second begun, at most a "
                                        "quarter of the processors online",
                            .help = "Threads that copy samples from messages into memory, the "
                                    "receiving thread included."},
    [OPT_IO_THREADS] = {"ingest.io_threads", INTEGER(1, SONAR_INGEST_THREADS_MOST),
                        .computed = "as many as ingest.threads",
                        .help = "ZeroMQ's threads, which read from the connections; each "
                                "connection stays with one of them."},

    [OPT_LENGTH] = {"dft.length", INTEGER(2, 67108864), .unit = "samples",
                    .computed = "smallest power of two >= fs_hz",
                    .help = "Samples of a window; any length."},
    [OPT_HOP] = {"dft.hop", INTEGER(1, 67108864), .unit = "samples", .computed = "dft.length / 2",
                 .help = "Samples from one window to the next: one update each."},
    [OPT_WINDOW] = {"dft.window", CHOICE("hann rectangular hamming blackman kaiser flattop"),
                    .fallback = "hann",
                    .help = "Window function, periodic: it is 0 or smallest at the first sample "
                            "and largest at sample length / 2."},
    [OPT_KAISER_BETA] = {"dft.kaiser_beta", REAL("", 0, 50), .fallback = "8",
                         .help = "Shape of the Kaiser window."},
    [OPT_MEAN_REMOVAL] = {"dft.mean_removal", BOOLEAN, .fallback = "true",
                          .help = "Take each sensor's mean out of each snapshot: that of the "
                                  "snapshot's samples, not of the window's."},
    [OPT_EQUALISATION] = {"dft.equalisation", CHOICE("none phase"), .fallback = "none",
                          .help = "phase divides every bin by its magnitude; results are then "
                                  "relative."},

    [OPT_CBF_LENGTH] = {"cbf.length", INTEGER(2, 67108864), .unit = "samples",
                        .computed = "dft.length",
                        .help = "Samples of a snapshot of the conventional beamformer and the "
                                "Lofar; with more than one in a window, powers are their mean and "
                                "bins are wider."},
    [OPT_CBF_HOP] = {"cbf.hop", INTEGER(1, 67108864), .unit = "samples",
                     .computed = "cbf.length / 2",
                     .help = "Samples from one snapshot of a window to the next; the first begins "
                             "with the window."},
    [OPT_CBF_BAND_HZ] = {"cbf.band_hz", BAND_HZ,
                         .help = "Band of the azimuth spectrum and the near field: all bins from "
                                 "the first to the second frequency, both included."},
    [OPT_CBF_BAND_BINS] = {"cbf.band_bins", BAND_BINS,
                           .help = "The same as first and last bin of the transform of cbf.length "
                                   "samples: bin b is at b * fs_hz / cbf.length."},
    [OPT_CBF_SCAN] = {"cbf.scan", CHOICE("auto"), .fallback = "auto",
                      .help = "Look directions: auto is at most 0.3 beam widths apart at the "
                              "band's top, over 0..180 deg from the axis for a line (evenly in the "
                              "cosine), 0..360 deg for any other array; and 5 deg on average."},
    [OPT_CBF_SCAN_START] = {"cbf.scan.start_deg", DEGREES(360), .required = true, .grouped = true,
                            .help = "First direction of a uniform scan."},
    [OPT_CBF_SCAN_STOP] = {"cbf.scan.stop_deg", DEGREES(360), .required = true, .grouped = true,
                           .help = "Where the scan ends: a direction if a step meets it; 360 "
                                   "after a start at 0 is not looked at twice."},
    [OPT_CBF_SCAN_STEP] = {"cbf.scan.step_deg", POSITIVE("deg", 360), .required = true,
                           .grouped = true, .help = "Step."},
    [OPT_CBF_DEPRESSION] = {"cbf.depression_deg", REAL("deg", -90, 90), .fallback = "0",
                            .help = "Depression of the scan, positive downwards; without meaning "
                                    "for a line."},
    [OPT_SHADING] = {"cbf.shading", CHOICE("uniform hann"), .fallback = "uniform",
                     .help = "Weights of the sensors; other than uniform for uniform lines "
                             "only. hann stands at half steps, sin^2(pi (k + 1/2) / sensors) for "
                             "k = 0, 1, ..., so that no sensor weighs 0."},
    [OPT_CHEBYSHEV_LEVEL] = {"cbf.shading.chebyshev.sidelobe_db", REAL("dB", 10, 120),
                             .required = true, .grouped = true,
                             .help = "Dolph-Chebyshev: all side lobes so far below the main "
                                     "lobe."},
    [OPT_TAYLOR_LEVEL] = {"cbf.shading.taylor.sidelobe_db", REAL("dB", 10, 120), .required = true,
                          .grouped = true, .help = "Taylor: level of the first side lobes."},
    [OPT_TAYLOR_NBAR] = {"cbf.shading.taylor.nbar", INTEGER(1, 100), .grouped = true,
                         .fallback = "4", .help = "Taylor: side lobes held at that level."},
    [OPT_RANGES] = {"cbf.ranges_m", .type = SONAR_TYPE_REALS, .unit = "m", .low = 0, .above = true,
                    .high = 1e7, .most = SONAR_RANGES_MOST, .word = "auto",
                    .fallback = "[50, 100, 200, 400, 800, 1600, 3200]",
                    .help = "Ranges of the near field, ascending, beyond the array (of the default "
                            "those that are); [] for none; auto spaces 1/r by "
                            "at most 7 lambda/D^2 at the band's top."},
    [OPT_RANGE_MIN] = {"cbf.range_min_m", POSITIVE("m", 1e7), .fallback = "50",
                       .help = "First range of ranges_m: auto; unless given, moved out beyond the "
                               "array and to where 64 ranges reach."},
    [OPT_RANGE_MAX] = {"cbf.range_max_m", POSITIVE("m", 1e7), .fallback = "3200",
                       .help = "Last range of ranges_m: auto."},
    [OPT_RANGE_REFERENCE] = {"cbf.range_reference", CHOICE("radial abeam"), .fallback = "radial",
                             .help =
                                 "radial: distance from the reference point. abeam (lines "
                                 "only): perpendicular distance from the axis, the parallel to the "
                                 "line through the reference point."},

    [OPT_LOFAR_BAND_HZ] = {"lofar.band_hz", BAND_HZ, .computed = "the CBF band",
                           .help = "Band of the frequency-azimuth surface; the surface holds all "
                                   "bins from the lowest to the highest of this and the CBF "
                                   "band."},
    [OPT_LOFAR_BAND_BINS] = {"lofar.band_bins", BAND_BINS,
                             .help = "The same in bins, as for cbf.band_bins."},

    [OPT_MVDR_ENABLED] = {"mvdr.enabled", BOOLEAN, .fallback = "true",
                          .help = "Compute the adaptive spectrum."},
    [OPT_MVDR_BAND_HZ] = {"mvdr.band_hz", BAND_HZ, .computed = "the CBF band",
                          .help = "Band of the adaptive spectrum."},
    [OPT_MVDR_BAND_BINS] = {"mvdr.band_bins", BAND_BINS,
                            .help = "The same in bins of the transform of mvdr.length samples."},
    [OPT_MVDR_LENGTH] = {"mvdr.length", INTEGER(2, 67108864), .unit = "samples",
                         .computed = "dft.length",
                         .help = "Samples of a snapshot; shorter than a window gives more "
                                 "snapshots in the same time."},
    [OPT_MVDR_HOP] = {"mvdr.hop", INTEGER(1, 67108864), .unit = "samples",
                      .computed = "dft.hop where the lengths are equal, else mvdr.length / 2",
                      .help = "Samples from one snapshot to the next: snapshots begin at its "
                              "multiples, whatever dft.hop is, and those with missing samples are "
                              "left out."},
    [OPT_SNAPSHOTS] = {"mvdr.snapshots", INTEGER(1, 65536),
                       .computed = "64, unless forgetting is "
                                   "given",
                       .help = "Snapshots of the covariance, a sliding block."},
    [OPT_FORGETTING] = {"mvdr.forgetting", REAL("", 0, 1), .above = true, .below = true,
                        .help = "Instead of a block: weight that the past keeps at each new "
                                "snapshot."},
    [OPT_LOADING_RULE] = {"mvdr.loading.rule", CHOICE("noise trace absolute"), .fallback = "noise",
                          .help = "What eps multiplies: the noise power estimated from the "
                                  "eigenvalues, the mean power per sensor, or nothing."},
    [OPT_LOADING_EPS] = {"mvdr.loading.eps", POSITIVE("", 1e30),
                         .computed = "1 (noise), 0.01 (trace)",
                         .help = "Diagonal loading; required for absolute, in the unit of the "
                                 "spectrum (uPa^2/Hz or counts^2/Hz). Where too few snapshots are "
                                 "there for the noise rule, a hundredth of it times the trace."},
    [OPT_KNOWN_SOURCES] = {"mvdr.loading.known_sources", INTEGER(0, 65535), .fallback = "0",
                           .help = "Number of sources, if known, for a better noise estimate."},
    [OPT_METHOD] = {"mvdr.method", CHOICE("one_sided two_sided"), .fallback = "one_sided",
                    .help = "Jacobi method on the factor, or on the covariance in float32, for "
                            "comparison only: that one loses what is 50 dB below the loudest "
                            "source."},
    [OPT_TOLERANCE] = {"mvdr.tolerance", REAL("", 1e-16, 0.1), .fallback = "3e-7",
                       .help = "Two columns count as orthogonal below it."},
    [OPT_MAX_SWEEPS] = {"mvdr.max_sweeps", INTEGER(1, 1000), .fallback = "30",
                        .help = "Sweeps after which a bin is published as not converged."},
    [OPT_FORWARD_BACKWARD] = {"mvdr.forward_backward", BOOLEAN, .fallback = "false",
                              .help = "Average with the mirrored array; the positions must be "
                                      "symmetric about the reference point."},
    [OPT_CORRECT_LEVEL] = {"mvdr.correct_level", BOOLEAN, .fallback = "false",
                           .help = "Take out what few snapshots and loading do to levels "
                                   "(docs/mvdr.md)."},
    [OPT_CELL_MAXIMUM] = {"mvdr.cell_maximum", BOOLEAN, .computed = "true if mvdr.scan is auto",
                          .help = "Publish around peaks of mvdr.azimuth the largest power nearer "
                                  "to a direction than to its neighbours: MVDR's peaks are far "
                                  "narrower than a beam."},
    [OPT_MVDR_SCAN] = {"mvdr.scan", CHOICE("auto"), .fallback = "auto",
                       .help = "Look directions, as for cbf.scan, of the array without shading; "
                               "auto is at most 2 deg apart on average."},
    [OPT_MVDR_SCAN_START] = {"mvdr.scan.start_deg", DEGREES(360), .required = true, .grouped = true,
                             .help = "First direction of a uniform scan."},
    [OPT_MVDR_SCAN_STOP] = {"mvdr.scan.stop_deg", DEGREES(360), .required = true, .grouped = true,
                            .help = "Where the scan ends, as for cbf.scan."},
    [OPT_MVDR_SCAN_STEP] = {"mvdr.scan.step_deg", POSITIVE("deg", 360), .required = true,
                            .grouped = true, .help = "Step."},
    [OPT_MVDR_DEPRESSION] = {"mvdr.depression_deg", REAL("deg", -90, 90),
                             .computed = "cbf.depression_deg", .help = "Depression of the scan."},

    [OPT_DETECT_ENABLED] = {"detections.enabled", BOOLEAN, .fallback = "true",
                            .help = "Look for peaks and publish them."},
    [OPT_DETECT_THRESHOLD] = {"detections.threshold_db", POSITIVE("dB", 100), .fallback = "6",
                              .help = "Height over the background from which a peak counts."},
    [OPT_DETECT_SEPARATION] = {"detections.min_separation_deg", DEGREES(180), .fallback = "0",
                               .help = "Of two peaks nearer than that the stronger counts; 0 is "
                                       "half a beam width."},
    [OPT_DETECT_MARGIN] = {"detections.range_margin_db", REAL("dB", 0, 100), .fallback = "1",
                           .help = "A peak is given a range if the near field is that much higher "
                                   "than the far field."},
    [OPT_DETECT_MOST] = {"detections.most", INTEGER(1, SONAR_DETECTIONS_MOST), .fallback = "16",
                         .help = "Peaks published per spectrum, strongest first."},

    [OPT_OUTPUT_ENDPOINT] = {"output.endpoint", .type = SONAR_TYPE_ENDPOINT,
                             .fallback = "tcp://127.0.0.1:5556",
                             .help = "Where results are published. There is no authentication "
                                     "yet, so only loopback and ipc are accepted."},
    [OPT_TOPICS] = {"output.topics", .type = SONAR_TYPE_CHOICES,
                    .choices = "cbf.azimuth cbf.nearfield cbf.lofar mvdr.azimuth mvdr.spectrum "
                               "element.psd element.missing detections status",
                    .least = 1, .most = SONAR_SURFACES,
                    .fallback = "[cbf.azimuth, cbf.nearfield, cbf.lofar, mvdr.azimuth, "
                                "mvdr.spectrum, element.psd, element.missing, detections, status]",
                    .help = "Topics that may be published."},
    [OPT_OUTPUT_HWM] = {"output.high_water_mark", INTEGER(1, 1000000), .unit = "messages",
                        .fallback = "16", .help = "Messages kept per subscriber."},
    [OPT_QUEUE_RESULTS] = {"output.queue_results", INTEGER(1, 1024), .unit = "results",
                           .fallback = "4", .help = "Results that may wait to be published."},

    [OPT_BACKEND] =
        {"runtime.backend", CHOICE("auto cpu cuda"), .fallback = "auto",
         .help =
             "Where the work is done; auto takes the faster of CPU and GPU (docs/training.md)."},
    [OPT_PLUGIN_DIR] = {"runtime.plugin_dir", TEXT(4095), .computed = "not set: the installed one",
                        .help = "Directory of the GPU part."},
    [OPT_ON_GPU_FAILURE] =
        {"runtime.on_gpu_failure", CHOICE("cpu exit"), .fallback = "cpu",
         .help = "When the GPU fails in mid-stream: cpu sets it up again once and then "
                 "goes on without it; exit leaves with exit code 5."},
    [OPT_THREADS] = {"runtime.threads", INTEGER(1, SONAR_CPUS_MOST),
                     .computed = "entries of runtime.cpus, else processors online",
                     .help = "Threads that do the computing."},
    [OPT_CPUS] = {"runtime.cpus", .type = SONAR_TYPE_INTEGERS, .low = 0, .high = 1023,
                  .most = SONAR_CPUS_MOST, .fallback = "[]",
                  .help = "Processors of these threads, one per thread; [] leaves it to the "
                          "system."},
    [OPT_CPU_INGEST] = {"runtime.cpu_ingest", INTEGER(-1, 1023), .fallback = "-1",
                        .help = "Processor of the receiving thread; -1: any."},
    [OPT_CPU_OUTPUT] = {"runtime.cpu_output", INTEGER(-1, 1023), .fallback = "-1",
                        .help = "Processor of the publishing thread; -1: any."},
    [OPT_LOG_LEVEL] = {"runtime.log_level", CHOICE("error warn info debug"), .fallback = "info",
                       .help = "Least important messages that are logged."},
    [OPT_STATE_DIR] = {"runtime.state_dir", TEXT(4095), .computed = "not set: nothing is kept",
                       .help = "Directory for what is worth keeping from one start to the next: "
                               "FFT plans, trained choices."},
};

const sonar_alternatives sonar_alternatives_table[] = {
    {"array.geometry", {"line", "circle", "planar", "positions"}, true, false},
    {"array.geometry.positions", {"list", "csv"}, true, true},
    {"array", {"gain_db", "hydrophone"}, false, false},
    {"cbf", {"band_hz", "band_bins"}, true, false},
    {"cbf.shading", {"chebyshev", "taylor"}, false, false},
    {"lofar", {"band_hz", "band_bins"}, false, false},
    {"mvdr", {"band_hz", "band_bins"}, false, false},
    {"mvdr", {"snapshots", "forgetting"}, false, false},
};
const size_t sonar_alternatives_count =
    sizeof sonar_alternatives_table / sizeof *sonar_alternatives_table;

void sonar_option_choice(const sonar_option *option, size_t index, char word[32]) {
    const char *at = option->choices;
    while (index--)
        at = strchr(at, ' ') + 1;
    snprintf(word, 32, "%.*s", (int)strcspn(at, " "), at);
}

static void describe_number(const sonar_option *o, bool whole, char *words, size_t size) {
    if (o->low == o->high) {
        snprintf(words, size, "%.10g", o->low);
        return;
    }
    char unit[48] = "";
    if (o->unit && *o->unit)
        snprintf(unit, sizeof unit, " in %s", o->unit);
    snprintf(words, size, "a %s number%s, %s%.10g%s%.10g", whole ? "whole" : "plain", unit,
             o->above ? "more than " : "", o->low,
             o->below   ? " to less than "
             : o->above ? ", up to "
                        : " to ",
             o->high);
}

static void describe_list(const sonar_option *o, const char *of, char *words, size_t size) {
    char count[32] = "";
    if (o->least == o->most)
        snprintf(count, sizeof count, " of %zu", o->least);
    snprintf(words, size, "%s%sa list%s, each %s", o->word ? o->word : "", o->word ? ", or " : "",
             count, of);
    const size_t at = strlen(words);
    if (o->scalar && at < size)
        snprintf(words + at, size - at, "; or one such number for all");
    else if (o->least != o->most && at < size)
        snprintf(words + at, size - at, "; %zu to %zu entries", o->least, o->most);
}

static void describe_choices(const sonar_option *o, char *words, size_t size) {
    size_t at = 0;
    for (const char *c = o->choices; *c && at + 3 < size; c++) {
        if (*c == ' ')
            words[at++] = ',';
        words[at++] = *c;
    }
    words[at] = 0;
}

void sonar_option_accepted(const sonar_option *option, char *words, size_t size) {
    char of[256];
    const char *endpoint = "tcp://127.0.0.1:PORT, tcp://[::1]:PORT, tcp://localhost:PORT or "
                           "ipc://PATH";
    switch (option->type) {
    case SONAR_TYPE_INTEGER:
    case SONAR_TYPE_REAL:
        describe_number(option, option->type == SONAR_TYPE_INTEGER, words, size);
        return;
    case SONAR_TYPE_BOOLEAN:
        snprintf(words, size, "true or false");
        return;
    case SONAR_TYPE_CHOICE:
        describe_choices(option, words, size);
        return;
    case SONAR_TYPE_TEXT:
        snprintf(words, size, "text of 1 to %.0f bytes", option->high);
        return;
    case SONAR_TYPE_ENDPOINT:
        snprintf(words, size, "%s", endpoint);
        return;
    case SONAR_TYPE_INTEGERS:
    case SONAR_TYPE_REALS:
        describe_number(option, option->type == SONAR_TYPE_INTEGERS, of, sizeof of);
        describe_list(option, of, words, size);
        return;
    case SONAR_TYPE_CHOICES:
        snprintf(of, sizeof of, "one of ");
        describe_choices(option, of + 7, sizeof of - 7);
        describe_list(option, of, words, size);
        return;
    case SONAR_TYPE_ENDPOINTS:
        describe_list(option, endpoint, words, size);
        return;
    case SONAR_TYPE_POSITIONS:
        snprintf(words, size,
                 "a list of [x, y, z], plain numbers in %s, %g to %g; 1 to %zu of them",
                 option->unit, option->low, option->high, option->most);
        return;
    }
}
