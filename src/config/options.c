/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One row per option. Values derived from other options are in resolve.c and the files that it
 * names, rules between options there and in check.c. */
#include "config/options.h"

#include <stddef.h>

#include "status/topic.h"

/* Where the value is stored; the member's type selects the conversion. */
#define AT(member)                                                                                 \
    .stored = STORED(((sonar_config *)0)->member), .offset = offsetof(sonar_config, member),       \
    .bytes = sizeof((sonar_config *)0)->member
#define STORED(member)                                                                             \
    _Generic((member),                                                                             \
        size_t: SONAR_STORED_SIZE,                                                                 \
        double: SONAR_STORED_REAL,                                                                 \
        bool: SONAR_STORED_TRUTH,                                                                  \
        int: SONAR_STORED_INT,                                                                     \
        unsigned: SONAR_STORED_UNSIGNED,                                                           \
        char *: sizeof(member) == sizeof(char *) ? SONAR_STORED_TEXT : SONAR_STORED_LETTERS)
#define INTEGER(low_, high_) .type = SONAR_TYPE_INTEGER, .low = (low_), .high = (high_)
#define REAL(unit_, low_, high_)                                                                   \
    .type = SONAR_TYPE_REAL, .unit = (unit_), .low = (low_), .high = (high_)
#define POSITIVE(unit_, high_) REAL(unit_, 0, high_), .above = true
#define LIVE                   .live = true
#define BOOLEAN                .type = SONAR_TYPE_BOOLEAN
#define WORDS(...)                                                                                 \
    .choices = (const char *const[]) {                                                             \
        __VA_ARGS__, NULL                                                                          \
    }
#define CHOICE(...) .type = SONAR_TYPE_CHOICE, WORDS(__VA_ARGS__)
#define TEXT(bytes) .type = SONAR_TYPE_TEXT, .high = (bytes)
#define PER_SENSOR(unit_, low_, high_)                                                             \
    .type = SONAR_TYPE_REALS, .unit = (unit_), .low = (low_), .high = (high_), .least = 1,         \
    .most = SONAR_SENSORS_MOST, .scalar = true
#define BAND_HZ       .type = SONAR_TYPE_REALS, .unit = "Hz", .low = 0, .high = 1e9, .least = 2, .most = 2
#define BAND_BINS     .type = SONAR_TYPE_INTEGERS, .low = 0, .high = 33554432, .least = 2, .most = 2
#define DEGREES(high) REAL("deg", 0, high)

_Static_assert(2 * SONAR_SURFACES <= 48, "the default of output.high_water_mark");

const sonar_option sonar_options[SONAR_OPTIONS] = {
    [OPT_SCHEMA] = {"schema", INTEGER(1, 1), .required = true,
                    .help = "Version of the configuration format."},

    [OPT_ARRAY_ID] =
        {"array.id", AT(array_id), INTEGER(0, 4294967295), .fallback = "1",
         .help =
             "Array number in the sample frames. Frames of other arrays are counted and dropped."},
    [OPT_ARRAY_NAME] = {"array.name", AT(array_name), TEXT(63), .fallback = "array",
                        .help = "Name of the array in published headers."},
    [OPT_LINE_SENSORS] =
        {"array.geometry.line.sensors", INTEGER(1, SONAR_SENSORS_MOST), .required = true,
         .grouped = true,
         .help =
             "Number of sensors of a uniform line along +x. The origin is the middle of the line."},
    [OPT_LINE_SPACING] = {"array.geometry.line.spacing_m", POSITIVE("m", 1e5), .required = true,
                          .grouped = true, .help = "Distance between neighbouring sensors."},
    [OPT_CIRCLE_SENSORS] =
        {"array.geometry.circle.sensors", INTEGER(1, SONAR_SENSORS_MOST), .required = true,
         .grouped = true,
         .help = "Number of sensors of a horizontal circle about the origin. The first sensor is "
                 "on +x, the others follow clockwise as seen from above."},
    [OPT_CIRCLE_RADIUS] = {"array.geometry.circle.radius_m", POSITIVE("m", 1e6), .required = true,
                           .grouped = true, .help = "Radius of the circle."},
    [OPT_PLANAR_ROWS] =
        {"array.geometry.planar.rows", INTEGER(1, SONAR_SENSORS_MOST), .required = true,
         .grouped = true,
         .help = "Number of rows of a horizontal grid. The origin is the middle of the grid. Rows "
                 "follow each other along +x, and sensors are numbered row by row."},
    [OPT_PLANAR_COLUMNS] = {"array.geometry.planar.columns", INTEGER(1, SONAR_SENSORS_MOST),
                            .required = true, .grouped = true,
                            .help = "Number of sensors in a row. They follow each other along +y."},
    [OPT_PLANAR_ROW_SPACING] = {"array.geometry.planar.row_spacing_m", POSITIVE("m", 1e5),
                                .required = true, .grouped = true,
                                .help = "Distance between neighbouring rows."},
    [OPT_PLANAR_COLUMN_SPACING] = {"array.geometry.planar.column_spacing_m", POSITIVE("m", 1e5),
                                   .required = true, .grouped = true,
                                   .help = "Distance between neighbouring sensors of a row."},
    [OPT_POSITIONS_FRAME] = {"array.geometry.positions.frame", CHOICE("xyz", "enu"),
                             .grouped = true, .fallback = "xyz",
                             .help = "Axes of the positions. xyz: x forward, y right, z down. enu: "
                                     "east, north, up; they are converted to x = north, y = east, "
                                     "z = down, so that heading_deg is 0 if north is true north."},
    [OPT_POSITIONS_ORIGIN] =
        {"array.geometry.positions.origin", CHOICE("centroid", "given"), .grouped = true,
         .fallback = "centroid",
         .help = "Reference point of the array. centroid: positions are shifted so that their mean "
                 "is the reference point. given: positions are used as given."},
    [OPT_POSITIONS_LIST] =
        {"array.geometry.positions.list", .type = SONAR_TYPE_POSITIONS, .unit = "m", .low = -1e6,
         .high = 1e6, .least = 1, .most = SONAR_SENSORS_MOST,
         .help = "Sensor positions, one [x, y, z] (enu: [east, north, up]) per sensor."},
    [OPT_POSITIONS_CSV] =
        {"array.geometry.positions.csv", TEXT(4095),
         .help = "File of sensor positions, instead of list: three numeric columns, an optional "
                 "header line without digits, comments after #. What was read is reported. A "
                 "relative path starts at the folder of the configuration file."},
    [OPT_CHANNELS] =
        {"array.channels", .type = SONAR_TYPE_INTEGERS, .low = 0, .high = SONAR_SENSORS_MOST - 1,
         .least = 1, .most = SONAR_SENSORS_MOST, .computed = "0, 1, 2, ...",
         .help =
             "Channel of the sample frames that feeds each sensor. No channel may be given twice."},
    [OPT_CHANNEL_COUNT] = {"array.channel_count", AT(channels), INTEGER(1, SONAR_SENSORS_MOST),
                           .computed = "largest channel + 1",
                           .help = "Number of channels in the array's sample frames. There may be "
                                   "more channels than sensors."},
    [OPT_MASK] =
        {"array.mask", LIVE, .type = SONAR_TYPE_INTEGERS, .low = 0, .high = SONAR_SENSORS_MOST - 1,
         .most = SONAR_SENSORS_MOST, .fallback = "[]",
         .help = "Sensors that are switched off, numbered from 0. The numbers of the other sensors "
                 "do not change. All beams are normalised without the masked sensors."},
    [OPT_AUTO_MASK] = {"array.auto_mask", LIVE, AT(auto_mask), BOOLEAN, .fallback = "false",
                       .help =
                           "Also switch off sensors that have been dead, stuck, noisy or, if the "
                           "band begins below 180 Hz, humming for five seconds, but at most a "
                           "third of all sensors. If more are stuck because their samples repeat, "
                           "these stay on. A sensor is switched on again when it has been "
                           "good for half a minute; this time doubles with each repetition. The "
                           "status names faulty sensors whether they are switched off or not."},
    [OPT_GAIN] = {"array.gain_db", LIVE, PER_SENSOR("dB re 1 count/uPa", -250, 250),
                  .computed = "not set: without array.hydrophone results are in counts^2",
                  .help = "Sensitivity of each channel, one number for all or one per sensor. "
                          "Samples are divided by it, and results are then in uPa^2. "
                          "array.hydrophone is an alternative in three parts (docs/levels.md)."},
    [OPT_SENSITIVITY] =
        {"array.hydrophone.sensitivity_db", LIVE, PER_SENSOR("dB re 1 V/uPa", -400, 400),
         .required = true, .grouped = true,
         .help = "Sensitivity of the hydrophones, instead of array.gain_db. -180 is 1 mV/Pa."},
    [OPT_AMPLIFIER] = {"array.hydrophone.amplifier_db", LIVE, PER_SENSOR("dB", -400, 400),
                       .grouped = true, .fallback = "0",
                       .help = "Gain between hydrophone and converter."},
    [OPT_FULL_SCALE_V] =
        {"array.hydrophone.full_scale_v", LIVE, POSITIVE("V", 1e6), .required = true,
         .grouped = true,
         .help = "Voltage at which the converter reaches full scale: 5 for a range of -5 to 5 V."},
    [OPT_FULL_SCALE_COUNTS] = {"array.hydrophone.full_scale_counts", LIVE, AT(full_scale_counts),
                               POSITIVE("counts", 4294967296), .required = true, .grouped = true,
                               .help = "Sample value at full scale: 32768 for 16 bits, 8388608 for "
                                       "24, 2147483648 for 32, 1 for floats from -1 to 1."},
    [OPT_PHASE] = {"array.phase_deg", LIVE, PER_SENSOR("deg", -360, 360), .fallback = "0",
                   .help = "Phase by which a channel leads, one number for all or one per sensor. "
                           "It is compensated."},
    [OPT_DELAY] = {"array.delay_us", LIVE, PER_SENSOR("us", -1e6, 1e6), .fallback = "0",
                   .help = "Time by which a channel lags, one number for all or one per sensor. It "
                           "is compensated."},
    [OPT_HEADING] = {"array.heading_deg", LIVE, AT(heading_deg), REAL("deg", -360, 360),
                     .computed = "not set: bearings are in the array frame",
                     .help =
                         "Heading of +x, clockwise from true north. 360 means 0, -90 means 270."},
    [OPT_ERROR_PHASE] =
        {"array.error.phase_deg", LIVE, AT(array_error.phase_deg), REAL("deg", 0, 180),
         .fallback = "0",
         .help = "Standard deviation of a sensor's phase from what is configured, each sensor its "
                 "own. As the others of this group it widens bearing_sigma_deg of detections and "
                 "changes nothing else (docs/bearings.md)."},
    [OPT_ERROR_POSITION] =
        {"array.error.position_m", LIVE, AT(array_error.position_m), REAL("m", 0, 1000),
         .fallback = "0",
         .help = "Standard deviation of a sensor's position in each coordinate, each sensor its "
                 "own. The health states what it costs a beam."},
    [OPT_ERROR_HEADING] = {"array.error.heading_deg", LIVE, AT(array_error.heading_deg),
                           DEGREES(180), .fallback = "0",
                           .help = "Standard deviation of the heading, of array.heading_deg or of "
                                   "what navigation brings."},
    [OPT_ERROR_SOUND_SPEED] = {"array.error.sound_speed_mps", LIVE, AT(array_error.sound_speed_mps),
                               REAL("m/s", 0, 1000), .fallback = "0",
                               .help = "Standard deviation of sound_speed_mps."},

    [OPT_SOUND_SPEED] = {"sound_speed_mps", LIVE, AT(sound_speed_mps), REAL("m/s", 100, 10000),
                         .fallback = "1500", .help = "Speed of sound at the array."},
    [OPT_FS] = {"fs_hz", AT(fs_hz), POSITIVE("Hz", 1e9), .required = true,
                .help = "Sampling rate."},

    [OPT_INGEST_ENDPOINTS] = {"ingest.endpoints", .type = SONAR_TYPE_ENDPOINTS, .least = 1,
                              .most = SONAR_ENDPOINTS_MOST,
                              .fallback = "[\"tcp://127.0.0.1:5555\"]",
                              .help = "Endpoints at which sample frames arrive. Beyond loopback "
                                      "TCP needs security.key. {rank} in one stands for the "
                                      "rank's number (cluster.ranks)."},
    [OPT_INGEST_SOCKET] = {"ingest.socket", AT(ingest_socket), CHOICE("pull", "sub"),
                           .fallback = "pull",
                           .help = "pull: the endpoints are bound, and digitisers connect to them. "
                                   "sub: the daemon connects to digitisers that publish."},
    [OPT_OVERLOAD] = {"ingest.overload", AT(overload), CHOICE("drop_oldest", "block"),
                      .fallback = "drop_oldest",
                      .help = "What happens when samples arrive faster than they are processed. "
                              "drop_oldest: the oldest waiting window is dropped and counted. "
                              "block: the sender waits and nothing is lost, for recordings."},
    [OPT_SHARED_MEMORY] =
        {"ingest.shared_memory", AT(shared_memory), .type = SONAR_TYPE_ENDPOINT, .local = true,
         .computed = "not set: all samples come over the sockets",
         .help =
             "Local socket at which digitisers on this machine hand over memory that they write "
             "samples to (docs/protocol.md), ipc only. {rank} in it stands for the rank's number "
             "(cluster.ranks)."},
    [OPT_SHARED_BYTES] = {"ingest.shared_memory_bytes", AT(shared_memory_bytes),
                          INTEGER(1048576, 17592186044416), .unit = "bytes",
                          .computed = "a quarter of the memory of the machine or its control group",
                          .help = "Largest size of this memory, of all digitisers together."},
    [OPT_INGEST_HWM] = {"ingest.high_water_mark", AT(ingest_high_water_mark), INTEGER(1, 1000000),
                        .unit = "messages", .fallback = "64",
                        .help = "Largest number of messages queued per peer."},
    [OPT_MAX_MESSAGE] = {"ingest.max_message_bytes", AT(ingest_max_message_bytes),
                         INTEGER(64, 4294967296), .unit = "bytes", .fallback = "67108864",
                         .help = "Size of the largest message that is accepted."},
    [OPT_QUEUE_WINDOWS] = {"ingest.queue_windows", AT(ingest_queue_windows), INTEGER(1, 1024),
                           .unit = "windows",
                           .computed = "4, or as many as bring 1 GiB of samples, at least 1",
                           .help = "Largest number of windows that wait for processing. The ring "
                                   "of samples has a hop for each."},
    [OPT_MAX_MISSING] =
        {"ingest.max_missing_share", AT(max_missing_share), REAL("", 0, 1), .fallback = "0.1",
         .help = "Largest share of missing samples in a window. A window that lacks more is "
                 "dropped and counted; in other windows missing samples are zero."},
    [OPT_DROP_SPIKES] =
        {"ingest.drop_spikes", AT(drop_spikes), BOOLEAN, .fallback = "true",
         .help = "A frame of 32-bit floats is dropped and counted as out_of_range if one sample is "
                 "more than 60 dB above every other sample of its channel in the frame and of the "
                 "frame before it. A wrong bit does that; sound that came through the filter of a "
                 "digitiser does not. Test signals of single samples need false."},
    [OPT_MAX_SKEW] =
        {"ingest.max_skew_ms", AT(max_skew_ms), REAL("ms", 0, 60000), .fallback = "250",
         .help =
             "Longest time a window waits for missing samples after newer samples have arrived."},
    [OPT_RESTART_AFTER] =
        {"ingest.restart_after_ms", AT(restart_after_ms), INTEGER(1, 3600000), .unit = "ms",
         .fallback = "1000",
         .help = "Time without frames after which a channel block's new stream epoch is accepted."},
    [OPT_SILENT_AFTER] =
        {"ingest.silent_after_ms", AT(silent_after_ms), INTEGER(1, 3600000), .unit = "ms",
         .fallback = "1000",
         .help = "Time without frames after which a channel block is reported as silent."},

    [OPT_SAMPLE_TYPE] =
        {"ingest.sample_type", CHOICE("any", "s16"), .fallback = "any",
         .help = "any: frames of all sample types are accepted and kept as 32-bit floats. s16: "
                 "only 16-bit frames are accepted and kept as they are, which halves the memory "
                 "and the transfers to a GPU; other frames are dropped and counted."},
    [OPT_INGEST_THREADS] = {"ingest.threads", AT(ingest_threads),
                            INTEGER(1, SONAR_INGEST_THREADS_MOST),
                            .computed =
                                "1 per 500 million samples a second or part of that, at "
                                "most half the processors it may run on, three quarters with "
                                "ingest.shared_memory; of several ranks on a host, of each "
                                "one's share",
                            .help = "Number of threads that receive frames and write their samples "
                                    "to memory."},
    [OPT_IO_THREADS] = {"ingest.io_threads", AT(ingest_io_threads),
                        INTEGER(1, SONAR_INGEST_THREADS_MOST),
                        .computed = "as many as ingest.threads",
                        .help = "Number of ZeroMQ's I/O threads, which read from the connections. "
                                "Each connection belongs to one of them."},

    [OPT_LENGTH] = {"dft.length", AT(specs.window_length), INTEGER(2, 67108864), .unit = "samples",
                    .computed = "smallest power of two >= fs_hz",
                    .help = "Samples per window. Any length is accepted."},
    [OPT_HOP] = {"dft.hop", AT(specs.hop), INTEGER(1, 67108864), .unit = "samples",
                 .computed = "dft.length / 2",
                 .help = "Samples from one window to the next. Each window gives one update."},
    [OPT_WINDOW] = {"dft.window", AT(specs.dft.taper),
                    CHOICE("hann", "rectangular", "hamming", "blackman", "kaiser", "flattop"),
                    .fallback = "hann",
                    .help = "Window function, periodic (DFT-even): its smallest value is at the "
                            "first sample, its largest at sample length / 2."},
    [OPT_KAISER_BETA] = {"dft.kaiser_beta", AT(specs.dft.kaiser_beta), REAL("", 0, 50),
                         .fallback = "8", .help = "Shape parameter of the Kaiser window function."},
    [OPT_MEAN_REMOVAL] = {"dft.mean_removal", AT(specs.dft.remove_mean), BOOLEAN,
                          .fallback = "true",
                          .help = "Subtract each sensor's mean from each snapshot. It is the mean "
                                  "over the snapshot, not over the window."},
    [OPT_EQUALISATION] = {"dft.equalisation", AT(specs.dft.equalise_phase), CHOICE("none", "phase"),
                          .fallback = "none",
                          .help = "phase: every bin is divided by its magnitude, and results are "
                                  "relative. none: bins keep their magnitudes."},

    [OPT_CBF_LENGTH] = {"cbf.length", AT(specs.cbf.length), INTEGER(2, 67108864), .unit = "samples",
                        .computed = "dft.length",
                        .help = "Samples per snapshot of the conventional beamformer and the Lofar "
                                "surface. If a window holds more than one snapshot, powers are "
                                "averaged over them and bins are wider."},
    [OPT_CBF_HOP] = {"cbf.hop", AT(specs.cbf_hop), INTEGER(1, 67108864), .unit = "samples",
                     .computed = "cbf.length / 2",
                     .help = "Samples from one snapshot in a window to the next. The first "
                             "snapshot begins with the window."},
    [OPT_CBF_BAND_HZ] = {"cbf.band_hz", LIVE, BAND_HZ,
                         .help = "Band of the azimuth spectrum and the near field: all bins from "
                                 "the first frequency to the second, both included."},
    [OPT_CBF_BAND_BINS] = {"cbf.band_bins", LIVE, BAND_BINS,
                           .help = "The band as first and last bin of the transform of cbf.length "
                                   "samples: bin b is at b * fs_hz / cbf.length."},
    [OPT_CBF_SCAN] = {"cbf.scan", LIVE, CHOICE("auto"), .fallback = "auto",
                      .help =
                          "Look directions. auto: at most 0.3 beam widths apart at the band's "
                          "top and 5 deg on average; from 0 to 180 deg from the axis for a line "
                          "(evenly in the cosine), 0..360 deg for any other array."},
    [OPT_CBF_SCAN_START] = {"cbf.scan.start_deg", LIVE, DEGREES(360), .required = true,
                            .grouped = true, .help = "First direction of a uniform scan."},
    [OPT_CBF_SCAN_STOP] =
        {"cbf.scan.stop_deg", LIVE, DEGREES(360), .required = true, .grouped = true,
         .help = "End of a uniform scan. It is a look direction if a step meets it, except 360 "
                 "after a start at 0, which is the first direction again."},
    [OPT_CBF_SCAN_STEP] = {"cbf.scan.step_deg", LIVE, POSITIVE("deg", 360), .required = true,
                           .grouped = true,
                           .help = "Angle between neighbouring directions of a uniform scan."},
    [OPT_CBF_DEPRESSION] =
        {"cbf.depression_deg", LIVE, REAL("deg", -90, 90), .fallback = "0",
         .help = "Depression angle of the scan, positive downwards. It has no meaning for a line."},
    [OPT_SHADING] = {"cbf.shading", LIVE, AT(shading), CHOICE("uniform", "hann"),
                     .fallback = "uniform",
                     .help = "Weights of the sensors. Other shadings than uniform need a uniform "
                             "line. hann is sampled at half steps, sin^2(pi (k + 1/2) / "
                             "sensors) for k = 0, 1, ..., so that no sensor weighs 0."},
    [OPT_CHEBYSHEV_LEVEL] =
        {"cbf.shading.chebyshev.sidelobe_db", LIVE, AT(sidelobe_db), REAL("dB", 10, 120),
         .required = true, .grouped = true,
         .help = "Dolph-Chebyshev shading: level of all side lobes below the main lobe."},
    [OPT_TAYLOR_LEVEL] = {"cbf.shading.taylor.sidelobe_db", LIVE, AT(sidelobe_db),
                          REAL("dB", 10, 120), .required = true, .grouped = true,
                          .help =
                              "Taylor shading: level of the first side lobes below the main lobe."},
    [OPT_TAYLOR_NBAR] = {"cbf.shading.taylor.nbar", LIVE, AT(nbar), INTEGER(1, 100),
                         .grouped = true, .fallback = "4",
                         .help = "Taylor shading: number of side lobes held at that level."},
    [OPT_RANGES] =
        {"cbf.ranges_m", LIVE, .type = SONAR_TYPE_REALS, .unit = "m", .low = 0, .above = true,
         .high = 1e7, .most = SONAR_RANGES_MOST, .word = "auto",
         .fallback = "[50, 100, 200, 400, 800, 1600, 3200]",
         .help = "Ranges of the near field, ascending, beyond the array (of the default list, only "
                 "those beyond it). [] computes no near field. auto: neighbouring ranges "
                 "differ in 1/r by at most 7 lambda/D^2 at the top of the band."},
    [OPT_RANGE_MIN] = {"cbf.range_min_m", LIVE, POSITIVE("m", 1e7), .fallback = "50",
                       .help = "First range of ranges_m: auto. If it is not given, it is moved "
                               "beyond the array, and as far out as needed for at most 64 ranges."},
    [OPT_RANGE_MAX] = {"cbf.range_max_m", LIVE, POSITIVE("m", 1e7), .fallback = "3200",
                       .help = "Last range of ranges_m: auto."},
    [OPT_RANGE_REFERENCE] = {"cbf.range_reference", LIVE, AT(range_reference),
                             CHOICE("radial", "abeam"), .fallback = "radial",
                             .help = "radial: ranges are distances from the reference point. abeam "
                                     "(lines only): ranges are perpendicular distances from the "
                                     "axis, the parallel to the line through the reference point."},

    [OPT_LOFAR_BAND_HZ] = {"lofar.band_hz", LIVE, BAND_HZ, .computed = "the CBF band",
                           .help =
                               "Band of the frequency-azimuth surface. The surface holds all bins "
                               "from the lowest to the highest of this band and the CBF band."},
    [OPT_LOFAR_BAND_BINS] = {"lofar.band_bins", LIVE, BAND_BINS,
                             .help = "The band as first and last bin, as for cbf.band_bins."},

    [OPT_MVDR_ENABLED] = {"mvdr.enabled", AT(specs.mvdr_enabled), BOOLEAN, .fallback = "true",
                          .help = "Compute the adaptive spectrum (MVDR)."},
    [OPT_MVDR_BAND_HZ] = {"mvdr.band_hz", LIVE, BAND_HZ, .computed = "the CBF band",
                          .help = "Band of the adaptive spectrum."},
    [OPT_MVDR_BAND_BINS] =
        {"mvdr.band_bins", LIVE, BAND_BINS,
         .help = "The band as first and last bin of the transform of mvdr.length samples."},
    [OPT_MVDR_LENGTH] = {"mvdr.length", AT(specs.mvdr.length), INTEGER(2, 67108864),
                         .unit = "samples", .computed = "dft.length",
                         .help = "Samples per snapshot. Snapshots shorter than a window give more "
                                 "of them in the same time."},
    [OPT_MVDR_HOP] =
        {"mvdr.hop", AT(specs.mvdr_hop), INTEGER(1, 67108864), .unit = "samples",
         .computed = "dft.hop if the lengths are equal, else mvdr.length / 2",
         .help = "Samples from one snapshot to the next. Snapshots begin at multiples of it, "
                 "independently of dft.hop. Snapshots with missing samples are left out."},
    [OPT_SNAPSHOTS] = {"mvdr.snapshots", AT(specs.mvdr.snapshots), INTEGER(1, 65536),
                       .computed = "64, unless forgetting is "
                                   "given",
                       .help = "Number of snapshots in the covariance, a sliding block."},
    [OPT_FORGETTING] = {"mvdr.forgetting", AT(specs.mvdr.alpha), REAL("", 0, 1), .above = true,
                        .below = true,
                        .help = "Exponential forgetting instead of a block: weight that the past "
                                "keeps at each new snapshot."},
    [OPT_LOADING_RULE] =
        {"mvdr.loading.rule", LIVE, AT(specs.mvdr.loading),
         CHOICE(SONAR_LOADING_RULES(SONAR_PICK_WORD, SONAR_COMMA)), .fallback = "noise",
         .help =
             "Power that eps multiplies. noise: the noise power estimated from the eigenvalues. "
             "trace: the mean power per sensor. absolute: none, eps is the loading itself."},
    [OPT_LOADING_EPS] =
        {"mvdr.loading.eps", LIVE, AT(specs.mvdr.eps), POSITIVE("", 1e30),
         .computed = "1 (noise), 0.01 (trace)",
         .help = "Diagonal loading. It is required for absolute, in the unit of the spectrum "
                 "(uPa^2/Hz or counts^2/Hz). With too few snapshots for the noise rule, a "
                 "hundredth of eps times the mean power per sensor is loaded."},
    [OPT_KNOWN_SOURCES] = {"mvdr.loading.known_sources", LIVE, AT(specs.mvdr.known_sources),
                           INTEGER(0, 65535), .fallback = "0",
                           .help = "Number of sources, if known. It improves the noise estimate."},
    [OPT_SOLVER] =
        {"mvdr.solver", AT(specs.mvdr.solver), CHOICE("auto", "jacobi"), .fallback = "auto",
         .help = "jacobi: eigenvalues and eigenvectors of each bin, by the thesis's "
                 "parallel Jacobi rotations. auto: the fastest method. The spectra are the same."},
    [OPT_SOURCE_COUNT] =
        {"mvdr.source_count", LIVE, AT(specs.mvdr.source_count),
         CHOICE("off", "mdl", "random_matrix"),
         .computed = "random_matrix if mvdr.dmr or mvdr.music is auto, else off",
         .help =
             "Count the sources of each bin by its eigenvalues (docs/mvdr.md). mdl: minimum "
             "description length, cautious. "
             "random_matrix: the rule of Nadakuditi and Edelman, also suitable for few snapshots."},
    [OPT_DMR] = {"mvdr.dmr", LIVE, AT(specs.mvdr.dmr), INTEGER(1, 65535), WORDS("off", "auto"),
                 .fallback = "off",
                 .help = "Dominant mode rejection (docs/mvdr.md): this many of the largest "
                         "eigenvalues are kept, and the noise power replaces the others and the "
                         "loading. auto: as many as the sources that mvdr.source_count finds."},
    [OPT_WHITE_NOISE_GAIN] =
        {"mvdr.white_noise_gain_db", LIVE, AT(specs.mvdr.white_noise_gain_db), REAL("dB", -100, 0),
         .below = true,
         .help = "Smallest gain of the weights against white noise, relative to the conventional "
                 "beam (docs/mvdr.md). A direction with a smaller gain gets more loading until it "
                 "has this gain. No limit if it is not given."},
    [OPT_MUSIC] = {"mvdr.music", LIVE, AT(specs.mvdr.music), INTEGER(1, 65535),
                   WORDS("off", "auto"), .fallback = "off",
                   .help = "Compute MUSIC, a pseudo-spectrum that shows bearings but no levels, "
                           "with this many sources in each bin, while there is a subscription to "
                           "music.azimuth (docs/mvdr.md). auto: as many as mvdr.source_count "
                           "finds."},
    [OPT_TOLERANCE] = {"mvdr.tolerance", LIVE, AT(specs.mvdr.tolerance), REAL("", 1e-16, 0.1),
                       .fallback = "1e-9",
                       .help = "Jacobi ends when no off-diagonal element is larger than this times "
                               "the geometric mean of its two diagonal elements."},
    [OPT_MAX_SWEEPS] = {"mvdr.max_sweeps", LIVE, AT(specs.mvdr.max_sweeps), INTEGER(1, 1000),
                        .fallback = "30",
                        .help = "Largest number of Jacobi sweeps. A bin that has not converged by "
                                "then is published as not converged."},
    [OPT_FORWARD_BACKWARD] =
        {"mvdr.forward_backward", AT(specs.mvdr.forward_backward), BOOLEAN, .fallback = "false",
         .help = "Average the covariance with that of the mirrored array (forward-backward "
                 "averaging). The positions must be symmetric about the reference point."},
    [OPT_CORRECT_LEVEL] =
        {"mvdr.correct_level", LIVE, AT(specs.mvdr.correct_level), BOOLEAN, .fallback = "false",
         .help = "Correct levels for the bias of few snapshots and of loading (docs/mvdr.md)."},
    [OPT_CELL_MAXIMUM] = {"mvdr.cell_maximum", LIVE, AT(mvdr_cell_maximum), BOOLEAN,
                          .computed = "true if mvdr.scan is auto",
                          .help =
                              "Near peaks of mvdr.azimuth, publish for each direction the largest "
                              "power among the angles that are nearer to it than to its "
                              "neighbours, because MVDR's peaks are far narrower than a beam."},
    [OPT_MVDR_NEARFIELD] =
        {"mvdr.nearfield", AT(mvdr_nearfield), BOOLEAN, .fallback = "false",
         .help =
             "Compute the adaptive near field at cbf.ranges_m too, while there is a subscription "
             "to mvdr.nearfield (docs/mvdr.md). Its cost is that of the MVDR spectrum times "
             "the number of ranges, and more."},
    [OPT_MVDR_SCAN] = {"mvdr.scan", LIVE, CHOICE("auto"), .fallback = "auto",
                       .help = "Look directions, as for cbf.scan, of the array without shading. "
                               "auto: at most 2 deg apart on average."},
    [OPT_MVDR_SCAN_START] = {"mvdr.scan.start_deg", LIVE, DEGREES(360), .required = true,
                             .grouped = true, .help = "First direction of a uniform scan."},
    [OPT_MVDR_SCAN_STOP] = {"mvdr.scan.stop_deg", LIVE, DEGREES(360), .required = true,
                            .grouped = true, .help = "End of a uniform scan, as for cbf.scan."},
    [OPT_MVDR_SCAN_STEP] = {"mvdr.scan.step_deg", LIVE, POSITIVE("deg", 360), .required = true,
                            .grouped = true,
                            .help = "Angle between neighbouring directions of a uniform scan."},
    [OPT_MVDR_DEPRESSION] = {"mvdr.depression_deg", LIVE, REAL("deg", -90, 90),
                             .computed = "cbf.depression_deg",
                             .help = "Depression angle of the scan, positive downwards."},

    [OPT_DETECT_ENABLED] = {"detections.enabled", AT(detect_enabled), BOOLEAN, .fallback = "true",
                            .help = "Detect peaks and publish them."},
    [OPT_DETECT_THRESHOLD] = {"detections.threshold_db", LIVE, AT(detect_threshold_db),
                              POSITIVE("dB", 100), .fallback = "6",
                              .help = "Smallest height of a peak above the background."},
    [OPT_DETECT_SEPARATION] = {"detections.min_separation_deg", LIVE, AT(detect_min_separation_deg),
                               DEGREES(180), .fallback = "0",
                               .help = "Smallest angle between two peaks. Of two nearer peaks only "
                                       "the stronger is published. 0 is half a beam width."},
    [OPT_DETECT_MARGIN] = {"detections.range_margin_db", LIVE, AT(detect_range_margin_db),
                           REAL("dB", 0, 100), .fallback = "1",
                           .help = "Level by which the near field must exceed the far field for a "
                                   "peak to be given a range."},
    [OPT_DETECT_FAINT] = {"detections.faint_db", LIVE, AT(detect_faint_db), REAL("dB", 0, 100),
                          .computed = "half of detections.threshold_db",
                          .help = "Level over the noise around it from which a contact that stays "
                                  "begins a track, without being listed (docs/tracks.md). 0, or "
                                  "detections.threshold_db: only listed ones do."},
    [OPT_DETECT_TONES] = {"detections.tones", AT(detect_tones), BOOLEAN, .fallback = "false",
                          .help = "Find the tones of each contact in cbf.lofar, which is then "
                                  "computed for detections and tracks, too. Tracks tell contacts "
                                  "apart by them (docs/tracks.md)."},
    [OPT_DETECT_MOST] =
        {"detections.most", LIVE, AT(detect_most), INTEGER(1, SONAR_DETECTIONS_MOST),
         .fallback = "16",
         .help = "Largest number of peaks published per spectrum. The strongest come first."},

    [OPT_NORMALISER] =
        {"normalised.method", LIVE, AT(normaliser),
         CHOICE(SONAR_NORMALISE_METHODS(SONAR_PICK_WORD, SONAR_COMMA)), .fallback = "five_pass",
         .help = "How cbf.normalised and mvdr.normalised estimate the noise around each direction "
                 "(docs/normalised.md). two_pass, three_pass, five_pass: by as many means, between "
                 "which what exceeds them by more than noise would is clipped. "
                 "order_truncate_average: by the mean of what does not exceed the median by more "
                 "than noise would."},

    [OPT_BEAM_AZ] = {"beam.az_deg", LIVE, .type = SONAR_TYPE_REALS, .unit = "deg", .low = -360,
                     .high = 360, .most = SONAR_BEAMS_MOST, .fallback = "[]",
                     .help = "Beams whose time series beam.audio has, as angles of the CBF's scan. "
                             "A change while the daemon runs may not add beams to those of the "
                             "start."},
    [OPT_BEAM_BEARING] = {"beam.bearing_deg", LIVE, .type = SONAR_TYPE_REALS, .unit = "deg",
                          .low = 0, .high = 360, .most = SONAR_BEAMS_MOST, .fallback = "[]",
                          .help = "More beams, as true bearings: they follow the heading."},
    [OPT_BEAM_TRACK] = {"beam.track", LIVE, .type = SONAR_TYPE_INTEGERS, .low = 0,
                        .high = 1000000000, .most = SONAR_BEAMS_MOST, .fallback = "[]",
                        .help =
                            "More beams, as numbers of tracks: they follow the contact. 0 keeps "
                            "a beam for a later change."},
    [OPT_BEAM_RANGE] = {"beam.range_m", LIVE, AT(beam_range_m), POSITIVE("m", 1e7),
                        .computed = "far field",
                        .help = "Range at which these beams are focused, as cbf.range_reference "
                                "says."},

    [OPT_OUTPUT_ENDPOINT] = {"output.endpoint", AT(output_endpoint), .type = SONAR_TYPE_ENDPOINT,
                             .fallback = "tcp://127.0.0.1:5556",
                             .help = "Endpoint at which results are published. Beyond loopback "
                                     "TCP needs security.key."},
    [OPT_TOPICS] = {"output.topics", .type = SONAR_TYPE_CHOICES,
                    WORDS(SONAR_TOPICS(SONAR_PICK_WORD, SONAR_COMMA)), .least = 1,
                    .most = SONAR_SURFACES, .fallback = "[" SONAR_TOPICS(SONAR_PICK_WORD, ", ") "]",
                    .help = "Topics that may be published."},
    [OPT_OUTPUT_HWM] = {"output.high_water_mark", AT(output_high_water_mark), INTEGER(1, 1000000),
                        .unit = "messages", .fallback = "48",
                        .help = "Largest number of messages queued per subscriber: at least twice "
                                "the topics that one reads, since a window's messages are sent at "
                                "once and libzmq counts what was read by halves of the queue."},
    [OPT_QUEUE_RESULTS] = {"output.queue_results", AT(output_queue_results), INTEGER(1, 1024),
                           .unit = "results", .fallback = "4",
                           .help = "Largest number of results that wait for publication."},
    [OPT_BEARING_REFERENCE] =
        {"output.bearing_reference", LIVE, AT(bearing_reference), CHOICE("array", "true"),
         .fallback = "array",
         .help = "Reference of the azimuths of published spectra. array: from +x, or from the "
                 "axis of a line. true: from north, over 0..360 deg in equal steps; a line shows "
                 "both sides of its axis. Without a heading they stay in the array frame "
                 "(docs/navigation.md)."},

    [OPT_SECURITY_KEY] =
        {"security.key", TEXT(4095), .computed = "not set: TCP on loopback only, unencrypted",
         .help = "Secret certificate of the daemon, made by sonar-keys. With it all TCP endpoints "
                 "use CURVE, which encrypts and authenticates (docs/lan.md). A relative "
                 "path is searched among the service's credentials ($CREDENTIALS_DIRECTORY, with _ "
                 "for /), then in the folder of the configuration file."},
    [OPT_ALLOW_SENDERS] =
        {"security.allow_senders", .type = SONAR_TYPE_TEXTS, .high = 4095, .least = 1, .most = 256,
         .entry = "a path", .computed = "required for ingest over CURVE",
         .help = "Public certificates of peers that may send samples, or folders with "
                 "such files, NAME.key. With ingest.socket: sub the certificates of "
                 "the digitisers that the daemon connects to, one for each endpoint "
                 "or one for all."},
    [OPT_ALLOW_READERS] = {"security.allow_readers", .type = SONAR_TYPE_TEXTS, .high = 4095,
                           .least = 1, .most = 256, .entry = "a path",
                           .computed = "required for output over CURVE",
                           .help = "Public certificates of peers that may read results, or folders "
                                   "with such files."},
    [OPT_IPC_MODE] = {"security.ipc_mode", CHOICE("0600", "0660", "0666"), .fallback = "0660",
                      .help =
                          "Rights of the ipc sockets that the daemon binds: its user, also its "
                          "group, or all users may connect. The folder's rights apply as well."},

    [OPT_NAV_NMEA] = {"navigation.nmea", .type = SONAR_TYPE_TEXTS, .high = 255, .least = 1,
                      .most = SONAR_NMEA_MOST, .entry = "udp://ADDRESS:PORT or a path",
                      .computed = "not set: no input",
                      .help = "NMEA 0183 of own ship: udp://ADDRESS:PORT, at which datagrams "
                              "arrive (a multicast group is joined), or the path of a serial line "
                              "(docs/navigation.md)."},
    [OPT_NAV_BAUD] = {"navigation.baud", CHOICE("4800", "9600", "19200", "38400", "115200"),
                      .fallback = "4800", .help = "Speed of the serial line."},
    [OPT_NAV_ENDPOINT] = {"navigation.endpoint", AT(navigation_endpoint),
                          .type = SONAR_TYPE_ENDPOINT, .computed = "not set: no input",
                          .help = "Publisher (ZeroMQ) of own ship's navigation as JSON, to which "
                                  "the daemon connects. Loopback or ipc only."},
    [OPT_NAV_STALE_AFTER] = {"navigation.stale_after_ms", AT(navigation_stale_after_ms),
                             INTEGER(10, 3600000), .unit = "ms", .fallback = "3000",
                             .help = "Age beyond which a heading is no longer used. Bearings "
                                     "are then in the array frame, and the status says so."},
    [OPT_NAV_OFFSET] = {"navigation.heading_offset_deg", LIVE, AT(heading_offset_deg),
                        REAL("deg", -360, 360), .fallback = "0",
                        .help = "Angle from the ship's bow to +x, clockwise seen from above."},
    [OPT_TOW_MODEL] =
        {"navigation.tow.model", AT(tow_model), CHOICE("off", "rigid", "follow", "sensors"),
         .fallback = "off",
         .help = "Array towed behind the ship. off: it turns with the ship. rigid: it is straight, "
                 "and turns when it comes to where the ship turned. follow: each sensor follows "
                 "the tow point's path, and beams are steered by the array's shape. sensors: the "
                 "same, with the shape from compasses in the array (docs/navigation.md)."},
    [OPT_TOW_SCOPE] = {"navigation.tow.scope_m", LIVE, AT(tow_scope_m), POSITIVE("m", 20000),
                       .computed = "required with rigid and follow",
                       .help = "Length of cable from the tow point to the foremost sensor, the one "
                               "with the largest x."},
    [OPT_TOW_DEPTH] = {"navigation.tow.depth_m", LIVE, AT(tow_depth_m), REAL("m", 0, 12000),
                       .fallback = "0",
                       .help = "Depth of the array below the tow point. The cable is taken as "
                               "straight, so that the array trails by less than its length."},
    [OPT_TOW_COMPASSES] = {"navigation.tow.compasses", .type = SONAR_TYPE_TEXTS,
                           .high = SONAR_COMPASS_ID - 1, .least = 1, .most = SONAR_COMPASSES_MOST,
                           .entry = "a name", .computed = "required with sensors",
                           .help = "Names of the compasses in the array, from the front to the "
                                   "back, as XDR sentences or JSON have them."},
    [OPT_TOW_COMPASS_AT] = {"navigation.tow.compass_at_m", .type = SONAR_TYPE_REALS, .unit = "m",
                            .low = -20000, .high = 20000, .least = 1, .most = SONAR_COMPASSES_MOST,
                            .computed = "required with sensors",
                            .help = "How far behind the foremost sensor each compass is; negative "
                                    "in front of it."},
    [OPT_TOW_COMPASS_OFFSET] = {"navigation.tow.compass_offset_deg", .type = SONAR_TYPE_REALS,
                                .unit = "deg", .low = -360, .high = 360, .least = 1,
                                .most = SONAR_COMPASSES_MOST, .scalar = true, .fallback = "0",
                                .help = "Added to each compass's headings: its calibration, and "
                                        "the variation if it tells magnetic ones."},
    [OPT_CLUSTER_RANKS] =
        {"cluster.ranks", .type = SONAR_TYPE_INTEGERS, .low = 1, .high = SONAR_SENSORS_MOST,
         .most = SONAR_RANKS_MOST, .fallback = "[]",
         .help = "Channels of each rank if mpirun starts several: rank 0 has the first ones, rank "
                 "1 the next ones, and so on. [] splits them as evenly as possible."},
    [OPT_CLUSTER_SKEW] =
        {"cluster.max_skew_ms", AT(cluster_max_skew_ms), REAL("ms", 0, 60000), .fallback = "500",
         .help = "Longest time that a rank's window waits for those of the other ranks. A rank "
                 "that has no window by then takes part without samples, which count as missing."},

    [OPT_CONTROL_ENDPOINT] =
        {"control.endpoint", AT(control_endpoint), .type = SONAR_TYPE_ENDPOINT, .local = true,
         .computed = "not set: for a systemd service, control in its runtime folder; else none",
         .help = "Local socket at which sonarctl reaches the daemon (docs/control.md), ipc only."},
    [OPT_CONTROL_GROUP] = {"control.group", AT(control_group), BOOLEAN, .fallback = "false",
                           .help = "true: the daemon's group may use the control socket too (mode "
                                   "0660). false: only its own user may (0600)."},

    [OPT_METRICS_LISTEN] = {"metrics.listen", AT(metrics_listen), TEXT(64),
                            .computed = "not set: no metrics",
                            .help = "Loopback address and port that answer Prometheus "
                                    "(docs/metrics.md), for example 127.0.0.1:9464."},

    [OPT_RECORD_WHAT] =
        {"record.what", AT(record_what), CHOICE("off", "raw", "spectra"), .fallback = "off",
         .help = "What is recorded (docs/recording.md). raw: all samples, as SigMF data sets. "
                 "spectra: messages as they are published."},
    [OPT_RECORD_DIRECTORY] =
        {"record.directory", AT(record_directory), TEXT(4095),
         .computed = "recordings in runtime.state_dir, created if needed",
         .help = "Folder of the recordings, an absolute path. It must exist and be writable."},
    [OPT_RECORD_AT_START] = {"record.at_start", AT(record_at_start), BOOLEAN, .fallback = "true",
                             .help = "false: nothing is recorded before sonarctl record start."},
    [OPT_RECORD_TOPICS] =
        {"record.topics", .type = SONAR_TYPE_CHOICES,
         WORDS(SONAR_TOPICS(SONAR_PICK_WORD, SONAR_COMMA)), .least = 1, .most = SONAR_SURFACES,
         .fallback = "[cbf.azimuth, mvdr.azimuth, detections, status]",
         .help = "Topics that are recorded with what: spectra, if they are in output.topics. They "
                 "are computed while they are recorded, even without a subscriber."},
    [OPT_RECORD_SEGMENT_MIB] = {"record.segment_mib", AT(record_segment_mib), INTEGER(1, 16777216),
                                .unit = "MiB", .fallback = "1024",
                                .help = "Size at which a new segment begins."},
    [OPT_RECORD_SEGMENT_S] = {"record.segment_s", AT(record_segment_s), REAL("s", 1, 31622400),
                              .fallback = "3600", .help = "Age at which a new segment begins."},
    [OPT_RECORD_KEEP_MIB] =
        {"record.keep_mib", AT(record_keep_mib), INTEGER(0, 1073741824), .unit = "MiB",
         .fallback = "0",
         .help = "Size of all finished segments of this array beyond which the oldest are deleted. "
                 "0: no limit."},
    [OPT_RECORD_KEEP_H] = {"record.keep_h", AT(record_keep_h), REAL("h", 0, 1e6), .fallback = "0",
                           .help =
                               "Age beyond which segments of this array are deleted. 0: no limit."},
    [OPT_RECORD_FREE_MIB] =
        {"record.free_mib", AT(record_free_mib), INTEGER(0, 1073741824), .unit = "MiB",
         .fallback = "256",
         .help = "Recording stops when the file system has less free space than this."},
    [OPT_RECORD_BUFFER_MIB] = {"record.buffer_mib", AT(record_buffer_mib), INTEGER(1, 1048576),
                               .unit = "MiB", .computed = "2 s of samples, or 64 for spectra",
                               .help = "Memory for data that wait for the disk. Data that do not "
                                       "fit are dropped and counted."},

    [OPT_BACKEND] =
        {"runtime.backend", AT(backend), CHOICE("auto", "cpu", "cuda"), .fallback = "auto",
         .help = "Where the stages run. auto takes the faster of CPU and GPU (docs/training.md)."},
    [OPT_PLUGIN_DIR] = {"runtime.plugin_dir", AT(plugin_dir), TEXT(4095),
                        .computed = "not set: the installed one",
                        .help = "Folder of the GPU plugin."},
    [OPT_ON_GPU_FAILURE] = {"runtime.on_gpu_failure", AT(on_gpu_failure), CHOICE("cpu", "exit"),
                            .fallback = "cpu",
                            .help =
                                "What happens when the GPU fails while the daemon runs. cpu: the "
                                "GPU is set up again once; if it soon fails again, the stages move "
                                "to the CPU. exit: the daemon ends with exit code 5."},
    [OPT_THREADS] = {"runtime.threads", AT(threads), INTEGER(1, SONAR_CPUS_MOST),
                     .computed =
                         "entries of runtime.cpus, else processors it may run on, which several "
                         "ranks on a host share",
                     .help = "Number of compute threads."},
    [OPT_CPUS] = {"runtime.cpus", .type = SONAR_TYPE_INTEGERS, .low = 0, .high = 1023,
                  .most = SONAR_CPUS_MOST, .fallback = "[]",
                  .help = "Processors of the compute threads, one per thread. [] leaves the choice "
                          "to the system."},
    [OPT_CPU_INGEST] =
        {"runtime.cpu_ingest", AT(cpu_ingest), INTEGER(-1, 1023), .fallback = "-1",
         .help = "Processor of the first receiving thread. -1 leaves the choice to the system."},
    [OPT_CPU_OUTPUT] =
        {"runtime.cpu_output", AT(cpu_output), INTEGER(-1, 1023), .fallback = "-1",
         .help = "Processor of the publishing thread. -1 leaves the choice to the system."},
    [OPT_DATA_PRIORITY] =
        {"runtime.data_priority", AT(data_priority), INTEGER(0, 99), .fallback = "0",
         .help = "Real-time priority (SCHED_FIFO) of the data thread; 0: the system's ordinary "
                 "scheduling, like all other threads. Needs RLIMIT_RTPRIO, which the systemd unit "
                 "sets to 20."},
    [OPT_LOCK_MEMORY] =
        {"runtime.lock_memory", AT(lock_memory), BOOLEAN, .fallback = "false",
         .help = "Keeps all of the daemon's memory from being swapped out. Needs an unlimited "
                 "RLIMIT_MEMLOCK, which the systemd unit gives."},
    [OPT_LOG_LEVEL] = {"runtime.log_level", LIVE, AT(log_level),
                       CHOICE("error", "warn", "info", "debug"), .fallback = "info",
                       .help = "Lowest severity that is logged."},
    [OPT_STATE_DIR] = {"runtime.state_dir", AT(state_dir), TEXT(4095),
                       .computed =
                           "STATE_DIRECTORY of the service manager, else not set: nothing is kept",
                       .help = "Folder for data that are kept from one start to the next: FFT "
                               "plans, trained choices and tracks."},
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
    {"navigation", {"nmea", "endpoint"}, false, false},
};
const size_t sonar_alternatives_count =
    sizeof sonar_alternatives_table / sizeof *sonar_alternatives_table;
