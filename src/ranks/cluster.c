/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ranks/cluster.h"

#include "backend/open.h"
#include "core/core.h"

static sonar_code load(const char *plugin_dir, const sonar_cluster_ops **ops, sonar_error *err) {
    char path[512];
    void *symbol;
    sonar_code code =
        sonar_plugin_load("mpi", plugin_dir, SONAR_CLUSTER_SYMBOL, path, sizeof path, &symbol, err);
    if (code)
        return code;
    sonar_cluster_entry entry;
    *(void **)&entry = symbol; /* POSIX requires this form for function pointers */
    const sonar_cluster_ops *found = entry();
    if (found->interface != SONAR_CLUSTER_INTERFACE)
        return sonar_fail(err, SONAR_EUNAVAILABLE, path,
                          "has cluster interface %u, this program needs %u: install matching "
                          "versions",
                          found->interface, SONAR_CLUSTER_INTERFACE);
    *ops = found;
    return SONAR_OK;
}

sonar_code sonar_cluster_join(const char *plugin_dir, sonar_cluster *cluster, sonar_error *err) {
    *cluster = (sonar_cluster){0};
    const sonar_cluster_ops *ops;
    sonar_code code = load(plugin_dir, &ops, err);
    if (!code)
        code = ops->join(&cluster->place, cluster->description, sizeof cluster->description, err);
    if (!code)
        cluster->ops = ops;
    return code;
}

void sonar_cluster_leave(sonar_cluster *cluster) {
    if (cluster->ops)
        cluster->ops->leave();
    *cluster = (sonar_cluster){0};
}
