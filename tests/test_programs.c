/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Every program has help, a version, and on a wrong command line an exit code of 2 with a sentence
 * that names the mistake. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEMO  "--config " SONAR_SOURCE_DIR "/config/demo.yaml"
#define SCENE DEMO " --scene " SONAR_SOURCE_DIR "/config/scenes/demo.yaml"
#define TOWED DEMO " --scene " SONAR_SOURCE_DIR "/config/scenes/towed.yaml"

/* A program's output into text[4096], with these redirections; its exit code. */
static int run_with(const char *line, const char *redirections, char text[4096]) {
    char command[1024];
    snprintf(command, sizeof command, "cd /tmp && { timeout 20 %s/%s; } %s", SONAR_BIN_DIR, line,
             redirections);
    FILE *pipe = popen(command, "r");
    cr_assert(pipe);
    text[fread(text, 1, 4095, pipe)] = '\0';
    int status = pclose(pipe);
    cr_assert(WIFEXITED(status), "%s", line);
    return WEXITSTATUS(status);
}

/* With standard error. */
static int run(const char *line, char text[4096]) {
    return run_with(line, "2>&1", text);
}

static size_t widest_line(const char *text) {
    size_t widest = 0;
    while (*text) {
        size_t width = strcspn(text, "\n");
        widest = width > widest ? width : widest;
        text += width + (text[width] != '\0');
    }
    return widest;
}

static void expect_help_and_version(const char *program) {
    char help[4096], text[4096], line[64], version[64];
    snprintf(line, sizeof line, "%s --help", program);
    cr_expect_eq(run(line, help), 0, "%s", line);
    cr_expect_eq(strncmp(help, "Usage: sonar", 12), 0, "%s: %s", line, help);
    cr_expect_leq(widest_line(help), 90, "%s", line);
    snprintf(line, sizeof line, "%s -h", program);
    cr_expect_eq(run(line, text), 0, "%s: %s", line, text);
    cr_expect_str_eq(text, help, "%s", line);
    snprintf(version, sizeof version, "%.*s 0.", (int)strcspn(program, " "), program);
    static const char *const option[] = {"--version", "-V"};
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "%s %s", program, option[i]);
        cr_expect_eq(run(line, text), 0, "%s", line);
        cr_expect_eq(strncmp(text, version, strlen(version)), 0, "%s: %s", line, text);
    }
}

Test(programs, all_have_help_and_a_version) {
    static const char *const programs[] = {"sonard",        "sonar-sim",        "sonar-feed",
                                           "sonar-process", "sonar-replay",     "sonar-watch",
                                           "sonar-check",   "sonar-bench live", "sonar-bench ranks",
                                           "sonar-bench",   "sonar-keys"};
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
        expect_help_and_version(programs[i]);
}

Test(programs, wrong_command_lines_are_explained) {
    static const struct {
        const char *line, *says;
    } wrong[] = {
        {"sonard", "no configuration file"},
        {"sonard --nonsense", "--help"},
        {"sonard --check-confg x", "did you mean --check-config?"},
        {"sonard one two", "more than one file"},
        {"sonard /tmp", "directory"},
        {"sonar-sim", "--config is missing"},
        {"sonar-sim " DEMO, "--scene is missing"},
        {"sonar-sim " DEMO " --scene /tmp", "directory"},
        {"sonar-sim " SCENE " word", "'word'"},
        {"sonar-sim " SCENE " --rate fast", "realtime, max or a factor"},
        {"sonar-sim " SCENE " --format f64", "s16, s24, s32 or f32"},
        {"sonar-sim " TOWED " --nmea udp://127.0.0.1:99999", "udp://127.0.0.1:99999"},
        {"sonar-sim " TOWED " --nmea udp://localhost:10110", "an address in numbers with a port"},
        {"sonar-sim " SCENE " --layout x", "interleaved or channel-major"},
        {"sonar-sim " SCENE " --utc now", "2026-01-31T12:00:00Z"},
        {"sonar-sim " SCENE " --endpoint x", "tcp://HOST:PORT"},
        {"sonar-sim " SCENE " --duration x", "seconds"},
        {"sonar-sim " SCENE " --epoch 0", "from 1"},
        {"sonar-sim " SCENE " --summary /no/such", "/no/such"},
        {"sonar-sim " SCENE " --ranks 0", "1 to 64"},
        {"sonar-sim " SCENE " --ranks 2", "it must contain {rank}"},
        {"sonar-sim " SCENE " --ranks 2 --endpoint ipc:///tmp/x", "is one endpoint"},
        {"sonar-sim " SCENE " --rank 1", "there are ranks 0 to 0"},
        {"sonar-sim --durations=3", "did you mean --duration?"},
        {"sonar-replay", "no recording"},
        {"sonar-replay --side-by-sied", "did you mean --side-by-side?"},
        {"sonar-replay a b", "--config, or"},
        {"sonar-replay a.sonar-spectra", "--output or --config"},
        {"sonar-replay a.sonar-spectra --output tcp://10.0.0.1:1", "not encrypted"},
        {"sonar-replay a", "--array-id"},
        {"sonar-replay /no/such.wav " DEMO, "/no/such.wav"},
        {"sonar-replay a " DEMO " --loop 0", "forever"},
        {"sonar-replay a " DEMO " --fs x", "Hz"},
        {"sonar-feed", "one input is wanted"},
        {"sonar-feed -", "--config, or"},
        {"sonar-feed - " DEMO " --format s16", "s24le"},
        {"sonar-feed - " DEMO " --chanels 3", "did you mean --channels?"},
        {"sonar-process", "no recording"},
        {"sonar-process a", "--config is missing"},
        {"sonar-process --exmaple a", "did you mean --example?"},
        {"sonar-process a " DEMO " --az north", "degrees"},
        {"sonar-process a " DEMO " --topics status", "cbf.nearfield"},
        {"sonar-process a --config /tmp", "directory"},
        {"sonar-process /no/such.wav " DEMO, "/no/such.wav"},
        {"sonar-watch --topic x", "cbf.azimuth"},
        {"sonar-watch --config /tmp", "directory"},
        {"sonar-watch --endpoint x", "not an endpoint such as tcp://"},
        {"sonar-watch word", "'word'"},
        {"sonar-watch --ttm localhost:10110", "udp://ADDRESS:PORT"},
        {"sonar-watch --rep /no/such/file", "/no/such/file"},
        {"sonar-watch --rep /tmp/x --json", "--json"},
        {"sonar-watch --nonsense", "--help"},
        {"sonar-watch --tpoic x", "did you mean --topic?"},
        {"sonar-watch --verzion", "did you mean --version?"},
        {"sonar-check", "--config is missing"},
        {"sonar-check " DEMO, "--truth is missing"},
        {"sonar-check " DEMO " --truth x", "not an endpoint such as tcp://"},
        {"sonar-check " DEMO " --truth ipc:///tmp/x --seconds x", "'x'"},
        {"sonar-check " DEMO " --truth ipc:///tmp/x --settle x", "'x'"},
        {"sonar-check --config /no/such --truth ipc:///tmp/x", "/no/such"},
        {"sonar-keys", "server, client or show"},
        {"sonar-keys nonsense a", "'nonsense'"},
        {"sonar-keys server", "no name"},
        {"sonar-keys client a", "--server SERVER.key is missing"},
        {"sonar-keys server a --server b.key", "belongs to client"},
        {"sonar-bench --nonsense", "--help"},
        {"sonar-bench --treads 2", "did you mean --threads?"},
        {"sonar-bench --case nonsense", "--list"},
        {"sonar-bench --sensors x", "'x'"},
        {"sonar-bench --cbf-bins 9", "FIRST:LAST"},
        {"sonar-bench --json /no/such", "/no/such"},
        {"sonar-bench live --nonsense", "--help"},
        {"sonar-bench live --jsno x", "did you mean --json?"},
        {"sonar-bench live --daemon /no/such", "/no/such"},
        {"sonar-bench live --json /no/such", "/no/such"},
        {"sonar-bench ranks --nonsense", "--help"},
        {"sonar-bench ranks --case sensors", "--list"},
        {"sonar-bench ranks --case ,", "names no case"},
        {"sonar-keys --servr x", "did you mean --server?"},
        {"sonarctl --endpiont x status", "did you mean --endpoint?"},
        {"sonarctl statsu", "did you mean status?"},
    };
    char text[4096];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cr_expect_eq(run(wrong[i].line, text), 2, "%s: %s", wrong[i].line, text);
        cr_expect(strstr(text, wrong[i].says), "%s: %s", wrong[i].line, text);
    }
}

/* An ambiguous prefix and an unexpected value are not misspelt options, and other words are not
 * close to any option. */
Test(programs, no_option_is_suggested_where_none_was_misspelt) {
    static const char *const lines[] = {
        "sonar-watch --t x", "sonar-watch --json=3", "sonar-watch --zzz", "sonarctl zzzzzz",
        "sonarctl x",        "sonar-bench --m 2",    "sonar-watch -Z"};
    char text[4096];
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        cr_expect_eq(run(lines[i], text), 2, "%s: %s", lines[i], text);
        cr_expect_null(strstr(text, "did you mean"), "%s: %s", lines[i], text);
    }
}

/* Three samples of the demonstration's 128 channels, in a file of this process's own in /tmp. */
static void write_short_recording(char name[40]) {
    char path[64];
    snprintf(name, 40, "sonar-short-%d", (int)getpid());
    snprintf(path, sizeof path, "/tmp/%s.s16", name);
    FILE *raw = fopen(path, "w");
    cr_assert(raw && fwrite((short[3 * 128]){0}, 2, 3 * 128, raw) == 3 * 128);
    fclose(raw);
    snprintf(path, sizeof path, "/tmp/%s.json", name);
    FILE *side = fopen(path, "w");
    cr_assert(side);
    fprintf(side, "{\"channels\": 128, \"frames\": 3, \"sample_rate_hz\": 8000, "
                  "\"format\": \"little-endian int16, sample-interleaved\"}");
    fclose(side);
}

Test(programs, a_recording_shorter_than_a_window_is_refused) {
    static const struct {
        const char *options, *says;
    } wrong[] = {{"", "3 samples to play, played 1 times, are shorter than a window"},
                 {"--loop 2730", "dft.length: 8192"},
                 {"--loop 2731 --summary /no/such", "/no/such"}, /* that many are a window */
                 {"--start 0.001", "nothing to play"},
                 {"--fs 4000", "4000 Hz, but the configuration has 8000 Hz"}};
    char name[40], line[256], text[4096];
    write_short_recording(name);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(line, sizeof line, "sonar-replay %s.s16 " DEMO " %s", name, wrong[i].options);
        cr_expect_eq(run(line, text), 2, "%s: %s", line, text);
        cr_expect(strstr(text, wrong[i].says), "%s: %s", line, text);
    }
    snprintf(line, sizeof line, "/tmp/%s.s16", name);
    unlink(line);
    snprintf(line, sizeof line, "/tmp/%s.json", name);
    unlink(line);
}

Test(programs, waiting_is_said) {
    char text[4096];
    cr_expect_eq(run("sonar-watch -e ipc:///tmp/no-sonard -T 3", text), 3);
    cr_expect(strstr(text, "waiting for sonard at ipc:///tmp/no-sonard"), "%s", text);
    cr_expect_eq(run("sonar-check " DEMO " --truth ipc:///tmp/no-truth --seconds 0.2", text), 3);
    cr_expect(strstr(text, "listening to"), "%s", text);
    cr_expect(strstr(text, "No window could be judged"), "%s", text);
}

/* ---- surroundings ---------------------------------------------------------------------------- */

/* Every report and every help reports a failure to write. */
Test(programs, a_full_disk_is_an_error) {
    static const char *const line[] = {
        "sonard -c " SONAR_SOURCE_DIR "/config/demo.yaml",
        "sonard -p " SONAR_SOURCE_DIR "/config/demo.yaml",
        "sonard --config-reference",
        "sonard --version",
        "sonar-sim --help",
        "sonar-replay --help",
        "sonar-process --help",
        "sonar-feed --help",
        "sonar-export --help",
        "sonar-watch --help",
        "sonar-check --version",
        "sonar-bench --help",
        "sonar-bench --list",
    };
    for (size_t i = 0; i < sizeof line / sizeof line[0]; i++) {
        char command[512], text[4096];
        snprintf(command, sizeof command, "%s >/dev/full", line[i]);
        int code = run(command, text);
        cr_expect_eq(code, 1, "%s: left with %d", line[i], code);
        snprintf(command, sizeof command, "%s >/dev/full 2>&3", line[i]);
        run_with(command, "3>&1", text);
        cr_expect(strstr(text, "cannot write to standard output: No space left"), "%s: '%s'",
                  line[i], text);
    }
}

/* Descriptors 0 to 2 of a program that was started without them. */
static void expect_held(const char *line) {
    char command[1024], path[64], to[256];
    int pid = 0, ready = 0;
    snprintf(command, sizeof command, "cd /tmp && { sh -c 'exec %s/%s' <&- >&- 2>&- & echo $!; }",
             SONAR_BIN_DIR, line);
    FILE *pipe = popen(command, "r");
    cr_assert(pipe && fscanf(pipe, "%d", &pid) == 1);
    pclose(pipe);
    for (int i = 0; i < 200 && !ready; i++, usleep(50000)) { /* until it has sockets */
        snprintf(path, sizeof path, "/proc/%d/fd/7", pid);
        ready = readlink(path, to, sizeof to) > 0;
    }
    cr_expect(ready, "%s does not run", line);
    for (int fd = 0; fd <= 2 && ready; fd++) {
        memset(to, 0, sizeof to);
        snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
        ssize_t length = readlink(path, to, sizeof to - 1);
        cr_expect(length > 0 && !strcmp(to, "/dev/null"), "%s: %d is '%s'", line, fd, to);
    }
    kill(pid, SIGKILL);
}

Test(programs, closed_descriptors_are_not_given_to_sockets) {
    expect_held("sonard " SONAR_SOURCE_DIR "/config/demo.yaml");
    expect_held("sonar-watch --json --endpoint ipc:///tmp/nobody-publishes-here");
    expect_held("sonar-sim " SCENE " --endpoint ipc:///tmp/nobody-listens-here");
    expect_held("sonar-check " DEMO " --truth ipc:///tmp/nobody-publishes-here");
}

/* Before libzmq aborts. */
Test(programs, too_few_descriptors_are_reported_with_exit_code_3) {
    for (int limit = 12; limit <= 32; limit += 4) {
        char command[512], text[4096];
        snprintf(command, sizeof command,
                 "sonard --version >/dev/null; ulimit -n %d; exec %s/sonard %s/config/demo.yaml",
                 limit, SONAR_BIN_DIR, SONAR_SOURCE_DIR);
        int code = run(command, text);
        cr_expect_eq(code, 3, "%d descriptors: left with %d: %s", limit, code, text);
        cr_expect(strstr(text, "file descriptors are needed"), "%d descriptors: %s", limit, text);
    }
}
