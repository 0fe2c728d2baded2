/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonarctl: asks a running sonard, or changes its values, over its control socket. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "config/config.h"
#include "options.h"
#include "program.h"

/* Part of the interface, for scripts. */
enum { EXIT_REFUSED = 1, EXIT_USAGE = TOOL_WRONG_USAGE, EXIT_NOBODY = 3 };

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
        "Asks a running sonard, and changes its values between two windows.\n\n"
        "  status               health and what it comes from\n"
        "  version              of the daemon, and its configuration's\n"
        "  get [PATH]           values of an option, of a group, or of all\n"
        "  set PATH VALUE...    change options: 1480, [3, 7], auto; all of them at once or none\n"
        "  unset PATH...        back to their defaults\n"
        "  mask LIST            switch off these sensors and no others: 3,7-9, or none\n"
        "  mask +LIST -LIST     switch off some more, and some on again\n"
        "  navigation NAME VALUE...  own ship by hand: heading_deg, course_deg, speed_mps,\n"
        "                       latitude_deg, longitude_deg, depth_m, tilt_deg\n"
        "  train                find the fastest ways of computing by trial; until it ends, which\n"
        "                       takes seconds to minutes, no window is processed\n"
        "  record start|stop    record as record.what says, or no more\n"
        "  reload               read the configuration file again, as on SIGHUP\n\n"
        "  -e, --endpoint EP    the daemon's control.endpoint; ipc:///run/sonard/control\n"
        "  -c, --config FILE    take it from the daemon's configuration\n"
        "  -j, --json           print the answer as it came\n"
        "  -t, --timeout S      wait so long for it; 5\n"
        "  -h, --help           this text\n"
        "  -V, --version        the version\n\n"
        "Exit codes: 0 done, 1 refused by the daemon, 2 wrong usage, 3 no daemon answers.\n",
    .option = option};

/* ---- requests -------------------------------------------------------------------------------- */

static cJSON *request_for(const char *verb) {
    cJSON *request = cJSON_CreateObject();
    cJSON_AddStringToObject(request, "verb", verb);
    return request;
}

/* What is no JSON is a word. */
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

static cJSON *ask_record(char **args, int count) {
    if (count != 1 || (strcmp(args[0], "start") && strcmp(args[0], "stop")))
        return NULL;
    cJSON *request = request_for("record");
    cJSON_AddStringToObject(request, "action", args[0]);
    return request;
}

/* 3,7-9 into the list. False: it is something else. */
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

static const char *text_of(const cJSON *item, const char *name) {
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(item, name);
    return cJSON_IsString(text) ? text->valuestring : "";
}

static double number_of(const cJSON *item, const char *name) {
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(item, name);
    return cJSON_IsNumber(number) ? number->valuedouble : 0;
}

/* Nothing where there is no recorder. */
static void print_recording(const cJSON *record) {
    const char *what = text_of(record, "what"), *why = text_of(record, "why_not");
    const char *segment = text_of(record, "segment");
    const cJSON *dropped = cJSON_GetObjectItemCaseSensitive(record, "dropped");
    if (!*what || !strcmp(what, "off"))
        return;
    if (*why)
        printf("recording       %s, stopped: %s\n", what, why);
    else if (number_of(record, "on") > 0)
        printf("recording       %s, %s\n", what, *segment ? segment : "waiting for samples");
    else
        printf("recording       %s, not now\n", what);
    printf("  written       %.1f MiB, %.0f lost to a slow disk\n",
           number_of(record, "bytes") / 1048576, number_of(dropped, "slow"));
}

static void print_status(const cJSON *answer, int count) {
    const cJSON *s = cJSON_GetObjectItemCaseSensitive(answer, "status"), *item;
    const cJSON *windows = cJSON_GetObjectItemCaseSensitive(s, "windows");
    (void)count;
    printf("health          %s\n", text_of(s, "health"));
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(s, "conditions")) {
        printf("  %-13s %s\n", text_of(item, "severity"), text_of(item, "text"));
    }
    printf("array           %s\nbackend         %s\nuptime          %.0f s\n", text_of(s, "array"),
           text_of(s, "backend"), number_of(s, "uptime_s"));
    printf("windows         %.0f processed, %.0f failed\n", number_of(windows, "processed"),
           number_of(windows, "failed"));
    printf("load            %.0f %%\n", 100 * number_of(s, "load"));
    print_recording(cJSON_GetObjectItemCaseSensitive(s, "record"));
    printf("sound speed     %g m/s\n", number_of(s, "sound_speed_mps"));
    printf("configuration   %s\n", text_of(s, "config_version"));
}

static void print_version(const cJSON *answer, int count) {
    (void)count;
    printf("sonard %s\nrun %s\nconfiguration %s\n", text_of(answer, "version"),
           text_of(answer, "run"), text_of(answer, "config_version"));
}

static void print_item(const cJSON *item) {
    char *text = cJSON_IsString(item) ? NULL : cJSON_PrintUnformatted(item);
    puts(text ? text : cJSON_IsString(item) ? item->valuestring : "");
    cJSON_free(text);
}

/* The value alone of a single option, for scripts. */
static void print_values(const cJSON *answer, int count) {
    const cJSON *values = cJSON_GetObjectItemCaseSensitive(answer, "values"), *item;
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

static void print_differences(const cJSON *answer, int count) {
    const cJSON *item;
    (void)count;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(answer, "differences")) {
        if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "changed")))
            printf("%s: %s in place of %s\n", text_of(item, "path"), text_of(item, "to"),
                   text_of(item, "from"));
        else
            printf("%s: stays %s, not %s: %s\n", text_of(item, "path"), text_of(item, "from"),
                   text_of(item, "to"), text_of(item, "why"));
    }
    printf("configuration %s\n", text_of(answer, "config_version"));
}

/* ---- verbs ----------------------------------------------------------------------------------- */

static const struct verb {
    const char *name, *arguments;
    cJSON *(*ask)(char **args, int count); /* NULL: wrong usage */
    void (*print)(const cJSON *answer, int count);
} verbs[] = {
    {"status", "nothing more", plain, print_status},
    {"version", "nothing more", plain, print_version},
    {"get", "one PATH, or nothing", ask_get, print_values},
    {"set", "PATH VALUE, and more such pairs", ask_set, print_differences},
    {"unset", "PATH, and more of them", ask_unset, print_differences},
    {"mask", "sensors as 3,7-9, or as +LIST and -LIST, or none", ask_mask, print_differences},
    {"reload", "nothing more", plain, print_differences},
    {"navigation", "NAME VALUE, and more such pairs", ask_navigation, print_nothing},
    {"train", "nothing more", plain, print_nothing},
    {"record", "start or stop", ask_record, print_nothing},
};

static const struct verb *find_verb(const char *name) {
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(verbs[i].name, name))
            return &verbs[i];
    return NULL;
}

/* ---- the socket ------------------------------------------------------------------------------ */

/* malloc'ed; NULL: nobody has answered, and why has been said. */
static char *exchange(void *context, const char *endpoint, const char *request, double timeout_s) {
    void *socket = zmq_socket(context, ZMQ_REQ);
    const int linger = 0, timeout_ms = (int)(timeout_s * 1000);
    char *text = NULL;
    zmq_msg_t answer;
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    zmq_setsockopt(socket, ZMQ_SNDTIMEO, &timeout_ms, sizeof timeout_ms);
    zmq_msg_init(&answer);
    if (zmq_connect(socket, endpoint) != 0 || zmq_send(socket, request, strlen(request), 0) < 0 ||
        zmq_msg_recv(&answer, socket, 0) < 0)
        fprintf(stderr, "sonarctl: %s: %s%s\n", endpoint, "no daemon answers",
                zmq_errno() == EAGAIN   ? " within --timeout"
                : zmq_errno() == EINVAL ? "; accepted: ipc://PATH, the daemon's control.endpoint"
                                        : "");
    else
        text = strndup(zmq_msg_data(&answer), zmq_msg_size(&answer));
    zmq_msg_close(&answer);
    zmq_close(socket);
    return text;
}

static int report(const struct verb *verb, const options *o, const char *text, int count) {
    cJSON *answer = cJSON_Parse(text);
    const bool ok = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(answer, "ok"));
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(answer, "error");
    if (o->json)
        puts(text);
    else if (ok)
        verb->print(answer, count);
    if (!ok && !o->json)
        fprintf(stderr, "sonarctl: %s%s%s\n", text_of(error, "where"),
                *text_of(error, "where") ? ": " : "",
                error ? text_of(error, "text") : "the answer is none of a sonard");
    cJSON_Delete(answer);
    return ok ? EXIT_SUCCESS : EXIT_REFUSED;
}

/* An ipc path at which there is no socket, or one of others, is no reason to wait: 0 or why. */
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
        return EXIT_NOBODY;
    }
    void *context = zmq_ctx_new();
    char *text = cJSON_PrintUnformatted(request);
    char *answer = context && text ? exchange(context, endpoint, text, o->timeout_s) : NULL;
    const int status = answer ? report(verb, o, answer, count) : EXIT_NOBODY;
    free(answer);
    cJSON_free(text);
    if (context)
        zmq_ctx_term(context);
    return status;
}

/* ---- main ------------------------------------------------------------------------------------ */

/* The endpoint that a configuration file names, malloc'ed. */
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
    setenv("POSIXLY_CORRECT", "1", 1); /* what follows the verb is its own: mask -3 */
    const int status = tool_read_options(&self, argc, argv, &o);
    if (status >= 0)
        return status;
    if (optind == argc)
        return tool_wrong_usage(&self, "no verb given");
    const struct verb *verb = find_verb(argv[optind]);
    if (!verb)
        return tool_wrong_usage(&self, "there is no verb \"%s\"", argv[optind]);
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
