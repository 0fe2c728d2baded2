/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonarctl: queries a running sonard, or changes its values, over its control socket. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "config/config.h"
#include "core/core.h"
#include "json.h"
#include "net/net.h"
#include "options.h"
#include "program.h"

/* Part of the interface, for scripts. */
enum { EXIT_REFUSED = 1, EXIT_USAGE = TOOL_WRONG_USAGE, EXIT_NO_ANSWER = 3 };

static const double STATUS_S = 1.5; /* age beyond which a status is outdated */

typedef struct options {
    const char *endpoint, *config;
    bool json;
    double timeout_s;
} options;

static const tool_option option[] = {
    {"endpoint", 'e', TOOL_TEXT, offsetof(options, endpoint), 0, 0, NULL, NULL},
    {"config", 'c', TOOL_TEXT, offsetof(options, config), 0, 0, NULL, NULL},
    {"json", 'j', TOOL_FLAG, offsetof(options, json), 0, 0, NULL, NULL},
    {"timeout", 't', TOOL_NUMBER, offsetof(options, timeout_s), 0.01, 3600, NULL,
     "a number of seconds"},
    {0}};

static const tool self = {
    .name = "sonarctl",
    .usage =
        "Usage: sonarctl [OPTION] VERB [ARGUMENT...]\n"
        "Queries a running sonard, and changes its values between two windows.\n\n"
        "  status               health and its causes, losses, connections, and\n"
        "                       what differs from the configuration file\n"
        "  version              of the daemon, and its configuration's\n"
        "  get [PATH]           values of an option, of a group, or of all\n"
        "  set PATH VALUE...    change options: 1480, [3, 7], auto; either all of them or none\n"
        "  unset PATH...        reset to their defaults\n"
        "  mask LIST            switch off these sensors and no others: 3,7-9, or none\n"
        "  mask +LIST -LIST     switch further ones off, and others on again\n"
        "  navigation NAME VALUE...  own ship by hand: heading_deg, course_deg, speed_mps,\n"
        "                       latitude_deg, longitude_deg, depth_m, tilt_deg\n"
        "  train                find the fastest ways of computing by trial; until it ends, which\n"
        "                       takes seconds to minutes, no window is processed\n"
        "  record start|stop    start recording what record.what names, or stop; start waits until "
        "a\n"
        "                       file is written, or prints why none is\n"
        "  reload               read the configuration file again, as on SIGHUP\n\n"
        "  -e, --endpoint EP    the daemon's control.endpoint (ipc:///run/sonard/control)\n"
        "  -c, --config FILE    take the endpoint from the daemon's configuration\n"
        "  -j, --json           print the answer as received\n"
        "  -t, --timeout S      time to wait for the answer (5)\n"
        "  -h, --help           this text\n"
        "  -V, --version        the version\n\n"
        "Exit codes: 0 done, 1 refused by the daemon, 2 wrong usage, 3 no daemon answers.\n",
    .option = option};

/* The connection for all requests. There is only one, because the daemon limits how often a user
 * may connect. */
typedef struct line {
    void *context, *socket;
    sonar_client *client;
    const options *options;
    const char *endpoint;
} line;

/* ---- requests -------------------------------------------------------------------------------- */

static cJSON *request_for(const char *verb) {
    cJSON *request = cJSON_CreateObject();
    cJSON_AddStringToObject(request, "verb", verb);
    return request;
}

/* The argument as JSON; text that is not JSON becomes a string. */
static cJSON *value_of(const char *text) {
    const char *end = NULL;
    cJSON *value = cJSON_ParseWithOpts(text, &end, 1);
    return value ? value : cJSON_CreateString(text);
}

static cJSON *plain(char **args, int count) {
    return count ? NULL : request_for(args[-1]);
}

static cJSON *ask_get(char **args, int count) {
    cJSON *request = count <= 1 ? request_for("get") : NULL;
    if (count == 1)
        cJSON_AddStringToObject(request, "path", args[0]);
    return request;
}

static cJSON *ask_set(char **args, int count) {
    if (count < 2 || count % 2)
        return NULL;
    cJSON *request = request_for("set"), *values = cJSON_AddObjectToObject(request, "values");
    for (int i = 0; i < count; i += 2)
        cJSON_AddItemToObject(values, args[i], value_of(args[i + 1]));
    return request;
}

static cJSON *ask_navigation(char **args, int count) {
    cJSON *request = ask_set(args, count);
    if (request)
        cJSON_ReplaceItemInObject(request, "verb", cJSON_CreateString("navigation"));
    return request;
}

static cJSON *ask_unset(char **args, int count) {
    if (count < 1)
        return NULL;
    cJSON *request = request_for("set"), *values = cJSON_AddObjectToObject(request, "values");
    for (int i = 0; i < count; i++)
        cJSON_AddNullToObject(values, args[i]);
    return request;
}

/* Asks for the recording's state after `record start`. */
static cJSON *ask_recording(void) {
    cJSON *request = request_for("record");
    cJSON_AddStringToObject(request, "action", "ask");
    return request;
}

static cJSON *ask_record(char **args, int count) {
    if (count != 1 || (strcmp(args[0], "start") && strcmp(args[0], "stop")))
        return NULL;
    cJSON *request = request_for("record");
    cJSON_AddStringToObject(request, "action", args[0]);
    return request;
}

/* Parses 3,7-9 into the list. False: something else. */
static bool add_sensors(cJSON *list, const char *text) {
    while (*text) {
        char *end;
        if (*text < '0' || *text > '9')
            return false;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-' && end[1] >= '0' && end[1] <= '9')
            last = strtoul(end + 1, &end, 10);
        if ((*end && *end != ',') || last < first || last >= SONAR_SENSORS_MOST)
            return false;
        for (; first <= last; first++)
            cJSON_AddItemToArray(list, cJSON_CreateNumber((double)first));
        text = end + (*end == ',');
    }
    return true;
}

static cJSON *ask_mask(char **args, int count) {
    cJSON *request = request_for("mask"), *mask = cJSON_AddObjectToObject(request, "mask");
    bool good = count > 0;
    for (int i = 0; i < count && good; i++) {
        const char sign = args[i][0];
        const char *name = sign == '+' ? "off" : sign == '-' ? "on" : "only";
        const char *text = args[i] + (sign == '+' || sign == '-');
        cJSON *list = cJSON_GetObjectItemCaseSensitive(mask, name);
        if (!list)
            list = cJSON_AddArrayToObject(mask, name);
        good = (*text && add_sensors(list, text)) || (!strcmp(text, "none") && count == 1);
    }
    if (good && (!cJSON_HasObjectItem(mask, "only") || cJSON_GetArraySize(mask) == 1))
        return request;
    cJSON_Delete(request);
    return NULL;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Prints nothing without a recorder. */
static void print_recording(const cJSON *record) {
    const char *what = json_text(record, "what"), *why = json_text(record, "why_not");
    const char *segment = json_text(record, "segment");
    const cJSON *dropped = json_get(record, "dropped");
    if (!*what || !strcmp(what, "off"))
        return;
    if (*why)
        printf("recording       %s, stopped: %s\n", what, why);
    else if (json_count(record, "on") > 0)
        printf("recording       %s, %s\n", what, *segment ? segment : "waiting for samples");
    else
        printf("recording       %s, not now\n", what);
    printf("  written       %.1f MiB, %.0f lost to a slow disk\n",
           json_count(record, "bytes") / 1048576, json_count(dropped, "slow"));
}

/* Sums an object's numbers, and writes their names to text: "overload 12, missing 3". */
static double sum_of(const cJSON *object, char *text, size_t bytes) {
    const cJSON *item;
    double sum = 0;
    text[0] = '\0';
    cJSON_ArrayForEach(item, object) {
        const size_t used = strlen(text);
        if (!cJSON_IsNumber(item) || item->valuedouble <= 0)
            continue;
        sum += item->valuedouble;
        snprintf(text + used, bytes - used, "%s%s %.0f", sum > item->valuedouble ? ", " : ": ",
                 item->string, item->valuedouble);
    }
    return sum;
}

static void print_losses(const cJSON *s) {
    const cJSON *windows = json_get(s, "windows");
    const cJSON *frames = json_get(s, "frames");
    const cJSON *output = json_get(s, "output");
    char causes[256];
    printf("windows         %.0f processed, %.0f failed\n", json_count(windows, "processed"),
           json_count(windows, "failed"));
    const double lost = sum_of(json_get(windows, "dropped"), causes, sizeof causes);
    printf("  lost          %.0f%s\n", lost, causes);
    const double dropped = sum_of(json_get(frames, "dropped"), causes, sizeof causes);
    printf("frames          %.0f received, %.0f dropped%s\n", json_count(frames, "received"),
           dropped, causes);
    printf("results         %.0f dropped\n", json_count(output, "results_dropped"));
}

/* Prints who sends which channels, and the number of readers. */
static void print_peers(const cJSON *s) {
    static const char *const side[] = {"frames", "output"}, *const name[] = {"digitisers",
                                                                             "readers"};
    for (int i = 0; i < 2; i++) {
        const cJSON *of = json_get(s, side[i]);
        const cJSON *peers = json_get(of, "peers");
        printf("%-15s %.0f connected\n", name[i], json_count(peers, "connected"));
    }
    const cJSON *blocks = json_get(s, "blocks"), *item;
    cJSON_ArrayForEach(item, json_get(blocks, "clocks")) {
        const cJSON *channels = json_get(item, "channels");
        const cJSON *first = cJSON_GetArrayItem(channels, 0),
                    *last = cJSON_GetArrayItem(channels, 1);
        if (cJSON_IsNumber(first) && cJSON_IsNumber(last))
            printf("  channels      %.0f to %.0f\n", first->valuedouble, last->valuedouble);
    }
}

static void print_heading(const cJSON *s) {
    const cJSON *heading = json_get(s, "heading_deg");
    const cJSON *nav = json_get(s, "navigation");
    const bool led = cJSON_IsTrue(json_get(nav, "used"));
    if (cJSON_IsNumber(heading))
        printf("heading         %.1f deg, from %s\n", heading->valuedouble,
               led ? json_text(nav, "source") : "the configuration");
    else
        printf("heading         not known%s\n", led ? ": navigation is silent" : "");
}

/* 3, 7-9 */
static void print_mask(const cJSON *elements, const char *list, const char *by) {
    const cJSON *of = json_get(elements, list), *range;
    const char *between = " ";
    if (json_count(of, "count") <= 0)
        return;
    printf("  masked        %.0f %s:", json_count(of, "count"), by);
    cJSON_ArrayForEach(range, json_get(of, "sensors")) {
        const cJSON *first = cJSON_GetArrayItem(range, 0), *last = cJSON_GetArrayItem(range, 1);
        if (!cJSON_IsNumber(first) || !cJSON_IsNumber(last))
            continue;
        printf("%s%.0f", between, first->valuedouble);
        if (last->valuedouble > first->valuedouble)
            printf("-%.0f", last->valuedouble);
        between = ", ";
    }
    puts("");
}

static void print_status(const cJSON *answer, int count) {
    const cJSON *s = json_get(answer, "status"), *item;
    const cJSON *elements = json_get(s, "elements");
    (void)count;
    printf("health          %s\n", json_text(s, "health"));
    cJSON_ArrayForEach(item, json_get(s, "conditions")) {
        printf("  %-13s %s\n", json_text(item, "severity"), json_text(item, "text"));
    }
    printf("array           %s\n", json_text(s, "array"));
    print_mask(elements, "masked_hand", "by hand");
    print_mask(elements, "masked_auto", "by their faults");
    print_heading(s);
    printf("sound speed     %g m/s\n", json_count(s, "sound_speed_mps"));
    printf("backend         %s\nuptime          %.0f s\n", json_text(s, "backend"),
           json_count(s, "uptime_s"));
    print_losses(s);
    printf("load            %.0f %%\n", 100 * json_count(s, "load"));
    print_peers(s);
    print_recording(json_get(s, "record"));
    printf("configuration   %s\n", json_text(s, "config_version"));
}

/* Prints what a restart would change. */
static void print_file(const cJSON *answer) {
    const cJSON *list = json_get(answer, "differences"), *item;
    const cJSON *error = json_get(answer, "error");
    if (error)
        printf("  file          cannot be read: %s: %s\n", json_text(error, "where"),
               json_text(error, "text"));
    cJSON_ArrayForEach(item, list) {
        printf("  differs       %s is %s, %s in %s\n", json_text(item, "path"),
               json_text(item, "from"), json_text(item, "to"), json_text(answer, "file"));
    }
}

static void print_version(const cJSON *answer, int count) {
    (void)count;
    printf("sonard %s\nrun %s\nconfiguration %s\n", json_text(answer, "version"),
           json_text(answer, "run"), json_text(answer, "config_version"));
}

static void print_item(const cJSON *item) {
    char *text = cJSON_IsString(item) ? NULL : cJSON_PrintUnformatted(item);
    puts(text ? text : cJSON_IsString(item) ? item->valuestring : "");
    cJSON_free(text);
}

/* Prints only the value of a single option, for scripts. */
static void print_values(const cJSON *answer, int count) {
    const cJSON *values = json_get(answer, "values"), *item;
    const bool alone = count == 1 && values && values->child && !values->child->next;
    cJSON_ArrayForEach(item, values) {
        if (!alone)
            printf("%s: ", item->string);
        print_item(item);
    }
}

static void print_nothing(const cJSON *answer, int count) {
    (void)answer;
    (void)count;
}

/* Also prints what the change does not affect: the file, or a heading from another source. */
static void print_change(const cJSON *item) {
    const char *path = json_text(item, "path"), *waits = json_text(item, "waits");
    const char *file = json_text(item, "file");
    printf("%s: %s in place of %s\n", path, json_text(item, "to"), json_text(item, "from"));
    if (*waits)
        printf("%s: it waits: %s\n", path, waits);
    if (*file)
        printf("%s: until a reload or a restart, because the file has %s\n", path, file);
}

static void print_differences(const cJSON *answer, int count) {
    const cJSON *item;
    (void)count;
    cJSON_ArrayForEach(item, json_get(answer, "differences")) {
        if (cJSON_IsTrue(json_get(item, "changed")))
            print_change(item);
        else
            printf("%s: stays %s, not %s: %s\n", json_text(item, "path"), json_text(item, "from"),
                   json_text(item, "to"), json_text(item, "why"));
    }
    printf("configuration %s\n", json_text(answer, "config_version"));
}

/* ---- the socket ------------------------------------------------------------------------------ */

static void open_line(line *to) {
    const int linger = 0, timeout_ms = (int)(to->options->timeout_s * 1000);
    to->context = zmq_ctx_new();
    to->socket = to->context ? zmq_socket(to->context, ZMQ_REQ) : NULL;
    zmq_setsockopt(to->socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(to->socket, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    zmq_setsockopt(to->socket, ZMQ_SNDTIMEO, &timeout_ms, sizeof timeout_ms);
    to->client = sonar_client_watch(to->context, to->socket, false);
    if (zmq_connect(to->socket, to->endpoint) == 0)
        return;
    fprintf(stderr, "sonarctl: %s: no daemon answers%s\n", to->endpoint,
            zmq_errno() == EINVAL ? "; accepted: ipc://PATH, the daemon's control.endpoint" : "");
    sonar_client_forget(to->client, to->socket);
    zmq_close(to->socket);
    to->socket = NULL;
}

static void close_line(line *to) {
    if (to->socket) {
        sonar_client_forget(to->client, to->socket);
        zmq_close(to->socket);
    }
    if (to->context)
        zmq_ctx_term(to->context);
}

static void say_no_answer(const line *to) {
    const bool late = zmq_errno() == EAGAIN;
    const char *why;
    sonar_client_look(to->client, &why);
    fprintf(stderr, "sonarctl: %s: no daemon answers%s%s%s\n", to->endpoint,
            late ? " within --timeout" : "", why ? ": it " : "", why ? why : "");
}

/* malloc'ed; NULL: no answer was received, and the reason was printed. */
static char *exchange(const line *to, const char *request) {
    char *text = NULL;
    zmq_msg_t answer;
    zmq_msg_init(&answer);
    if (zmq_send(to->socket, request, strlen(request), 0) < 0 ||
        zmq_msg_recv(&answer, to->socket, 0) < 0)
        say_no_answer(to);
    else
        text = strndup(zmq_msg_data(&answer), zmq_msg_size(&answer));
    zmq_msg_close(&answer);
    return text;
}

/* Sends another request over the same connection; NULL: no answer, as was printed. */
static cJSON *ask_more(const line *to, cJSON *request) {
    char *text = cJSON_PrintUnformatted(request);
    char *answer = text ? exchange(to, text) : NULL;
    cJSON *parsed = answer ? cJSON_Parse(answer) : NULL;
    free(answer);
    cJSON_free(text);
    cJSON_Delete(request);
    return parsed;
}

/* ---- after an answer ------------------------------------------------------------------------- */

static int follow_status(const line *to, const cJSON *answer) {
    cJSON *file = ask_more(to, request_for("differences"));
    (void)answer;
    if (file)
        print_file(file);
    cJSON_Delete(file);
    return file ? EXIT_SUCCESS : EXIT_NO_ANSWER;
}

/* True once the state of a recording that was started has been printed. */
static bool tell_recording(const cJSON *is, double waited_s, double most_s, int *status) {
    const char *why = json_text(is, "why_not"), *segment = json_text(is, "segment");
    const bool no_samples = cJSON_IsTrue(json_get(is, "waiting"));
    *status = EXIT_SUCCESS;
    if (*segment)
        printf("recording to %s/%s\n", json_text(is, "directory"), segment);
    else if (!*why && no_samples && waited_s > STATUS_S)
        printf("recording to %s as soon as samples arrive; there are none now\n",
               json_text(is, "directory"));
    else if (!*why && waited_s < most_s)
        return false;
    else {
        fprintf(stderr, "sonarctl: record: %s\n", *why ? why : "no file is written yet");
        *status = EXIT_REFUSED;
    }
    return true;
}

static int follow_record(const line *to, const cJSON *answer) {
    const double most_s = to->options->timeout_s;
    const int64_t began_ns = sonar_monotonic_ns();
    int status = EXIT_SUCCESS;
    cJSON *is = cJSON_Duplicate(answer, true);
    if (!cJSON_IsTrue(json_get(answer, "record"))) {
        puts("recording has stopped");
        cJSON_Delete(is);
        return status;
    }
    while (is &&
           !tell_recording(is, (double)(sonar_monotonic_ns() - began_ns) * 1e-9, most_s, &status)) {
        cJSON_Delete(is);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        is = ask_more(to, ask_recording());
    }
    status = is ? status : EXIT_NO_ANSWER;
    cJSON_Delete(is);
    return status;
}

/* ---- verbs ----------------------------------------------------------------------------------- */

static const struct verb {
    const char *name, *arguments;
    cJSON *(*ask)(char **args, int count); /* NULL: wrong usage */
    void (*print)(const cJSON *answer, int count);
    /* Does what has to follow an answer; returns the exit code. NULL: nothing follows. */
    int (*follow)(const line *to, const cJSON *answer);
} verbs[] = {
    {"status", "nothing more", plain, print_status, follow_status},
    {"version", "nothing more", plain, print_version, NULL},
    {"get", "one PATH, or nothing", ask_get, print_values, NULL},
    {"set", "PATH VALUE, and more such pairs", ask_set, print_differences, NULL},
    {"unset", "PATH, and more of them", ask_unset, print_differences, NULL},
    {"mask", "sensors as 3,7-9, or as +LIST and -LIST, or none", ask_mask, print_differences, NULL},
    {"reload", "nothing more", plain, print_differences, NULL},
    {"navigation", "NAME VALUE, and more such pairs", ask_navigation, print_nothing, NULL},
    {"train", "nothing more", plain, print_nothing, NULL},
    {"record", "start or stop", ask_record, print_nothing, follow_record},
};

static int no_verb(const char *word) {
    const char *meant =
        sonar_text_nearest(word, verbs, sizeof verbs / sizeof *verbs, sizeof *verbs);
    return tool_wrong_usage(&self, "there is no verb \"%s\"%s%s%s", word,
                            meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
}

static const struct verb *find_verb(const char *name) {
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(verbs[i].name, name))
            return &verbs[i];
    return NULL;
}

/* ---- one verb -------------------------------------------------------------------------------- */

static int report(const struct verb *verb, const line *to, const char *text, int count) {
    cJSON *answer = cJSON_Parse(text);
    const bool ok = cJSON_IsTrue(json_get(answer, "ok"));
    const cJSON *error = json_get(answer, "error");
    const bool json = to->options->json;
    int status = ok ? EXIT_SUCCESS : EXIT_REFUSED;
    if (json)
        puts(text);
    else if (ok)
        verb->print(answer, count);
    if (ok && !json && verb->follow)
        status = verb->follow(to, answer);
    if (!ok && !json)
        fprintf(stderr, "sonarctl: %s%s%s\n", json_text(error, "where"),
                *json_text(error, "where") ? ": " : "",
                error ? json_text(error, "text") : "the answer is not from sonard");
    cJSON_Delete(answer);
    return status;
}

/* An ipc path without a socket, or with one that this user may not open, is no reason to wait:
 * returns 0 or the error. */
static int obstacle(const char *endpoint) {
    const char *path = strncmp(endpoint, "ipc://", 6) ? NULL : endpoint + 6;
    return !path || *path == '@' || access(path, R_OK | W_OK) == 0 ? 0 : errno;
}

static int talk(const struct verb *verb, const options *o, const char *endpoint, cJSON *request,
                int count) {
    const int why = obstacle(endpoint);
    if (why) {
        fprintf(stderr, "sonarctl: %s: %s\n", endpoint,
                why == EACCES ? "this user may not: root and the daemon's own user may, and its "
                                "group where control.group is true"
                              : "there is no such socket; is sonard running, with this "
                                "control.endpoint?");
        return EXIT_NO_ANSWER;
    }
    line to = {.options = o, .endpoint = endpoint};
    open_line(&to);
    char *text = cJSON_PrintUnformatted(request);
    char *answer = to.socket && text ? exchange(&to, text) : NULL;
    const int status = answer ? report(verb, &to, answer, count) : EXIT_NO_ANSWER;
    free(answer);
    cJSON_free(text);
    close_line(&to);
    return status;
}

/* ---- main ------------------------------------------------------------------------------------ */

/* The endpoint in a configuration file, malloc'ed. */
static char *endpoint_of(const char *path) {
    sonar_config *config = NULL;
    sonar_report *mistakes = sonar_report_create();
    char *endpoint = NULL;
    if (sonar_config_load(path, &config, mistakes) != SONAR_OK)
        sonar_report_write(mistakes, stderr);
    else if (config->control_endpoint)
        endpoint = strdup(config->control_endpoint);
    else
        fprintf(stderr,
                "sonarctl: %s: control.endpoint is not set; a service listens at "
                "ipc:///run/sonard/control, sonard@NAME at ipc:///run/sonard-NAME/control: "
                "--endpoint\n",
                path);
    sonar_config_destroy(config);
    sonar_report_destroy(mistakes);
    return endpoint;
}

int main(int argc, char **argv) {
    options o = {.timeout_s = 5};
    program_begin("sonarctl");
    setenv("POSIXLY_CORRECT", "1", 1); /* arguments after the verb belong to the verb: mask -3 */
    const int status = tool_read_options(&self, argc, argv, &o);
    if (status >= 0)
        return status;
    if (optind == argc)
        return tool_wrong_usage(&self, "no verb given");
    const struct verb *verb = find_verb(argv[optind]);
    if (!verb)
        return no_verb(argv[optind]);
    const int count = argc - optind - 1;
    cJSON *request = verb->ask(argv + optind + 1, count);
    if (!request)
        return tool_wrong_usage(&self, "wrong arguments: %s takes %s", verb->name, verb->arguments);
    char *endpoint = o.endpoint ? strdup(o.endpoint)
                     : o.config ? endpoint_of(o.config)
                                : strdup("ipc:///run/sonard/control");
    const int left = endpoint ? talk(verb, &o, endpoint, request, count) : EXIT_USAGE;
    free(endpoint);
    cJSON_Delete(request);
    return left;
}
