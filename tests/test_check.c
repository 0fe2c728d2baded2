/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-check against publishers that mean no good. */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

static void *bind_pub(void *context, const char *endpoint) {
    void *pub = zmq_socket(context, ZMQ_PUB);
    int zero = 0;
    zmq_setsockopt(pub, ZMQ_LINGER, &zero, sizeof zero);
    cr_assert_eq(zmq_bind(pub, endpoint), 0, "%s", endpoint);
    return pub;
}

static void publish(void *pub, const char *topic, const char *header) {
    zmq_send(pub, topic, strlen(topic), ZMQ_SNDMORE);
    zmq_send(pub, header, strlen(header), ZMQ_SNDMORE);
    zmq_send(pub, "", 0, 0);
}

/* A truth before and after each window, the source's name full of what a terminal would obey. */
static void publish_window(void *daemon, void *truth, int window) {
    char header[512];
    snprintf(header, sizeof header,
             "{\"sample_index\":%d,\"sources\":[{\"az_deg\":40,\"name\":"
             "\"\\u001b]0;\\u0007\\u009b\\u007f\xff\xc3\xbc\"}]}",
             window * 2048);
    publish(truth, "truth", header);
    snprintf(header, sizeof header,
             "{\"sample_index\":%d,\"seq\":%d,\"detections\":[{\"source\":\"cbf\",\"az_deg\":40}]}",
             (window - 2) * 2048, window);
    publish(daemon, "detections", header);
}

Test(check, what_a_publisher_wrote_cannot_reach_the_terminal, .timeout = 60) {
    char folder[] = "/tmp/sonar-test-check-XXXXXX", text[8192], command[1024];
    cr_assert_not_null(mkdtemp(folder));
    char config[64], output[64], said[64];
    snprintf(config, sizeof config, "%s/config.yaml", folder);
    snprintf(output, sizeof output, "ipc://%s/out", folder);
    snprintf(said, sizeof said, "ipc://%s/truth", folder);
    FILE *file = fopen(config, "w");
    fprintf(file,
            "schema: 1\narray: {id: 1, geometry: {line: {sensors: 4, spacing_m: 1}}}\n"
            "sound_speed_mps: 1500\nfs_hz: 2000\ningest: {endpoints: [\"ipc:///tmp/in\"]}\n"
            "dft: {length: 2048}\ncbf: {band_hz: [100, 200]}\noutput: {endpoint: \"%s\"}\n",
            output);
    fclose(file);
    void *context = zmq_ctx_new();
    void *daemon = bind_pub(context, output), *truth = bind_pub(context, said);
    snprintf(command, sizeof command,
             "%s/sonar-check --config %s --truth %s --settle 0 --seconds 1 2>&1", SONAR_BIN_DIR,
             config, said);
    FILE *check = popen(command, "r");
    size_t used = 0, got = 1;
    struct pollfd item = {fileno(check), POLLIN, 0};
    for (int window = 2; got > 0; window++) {
        publish_window(daemon, truth, window);
        if (poll(&item, 1, 10) < 1)
            continue;
        got = (size_t)read(item.fd, text + used, sizeof text - 1 - used);
        used += got;
    }
    text[used] = '\0';
    cr_assert(WIFEXITED(pclose(check)));
    for (const char *at = text; *at; at++)
        cr_assert(((unsigned char)*at >= 0x20 && *at != 0x7f) || *at == '\n', "%d in %s", *at,
                  text);
    cr_assert(strstr(text, "\n ]0; ???\xc3\xbc"), "%s", text);
    zmq_close(daemon), zmq_close(truth);
    zmq_ctx_term(context);
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_assert_eq(system(command), 0);
}
