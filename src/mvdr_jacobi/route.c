/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "mvdr_jacobi/route.h"

#include <stdio.h>
#include <string.h>

#include "core/core.h"

/* ---- fixed when the stage is made ------------------------------------------------------------ */

static bool without_vectors(const sonar_mvdr_spec *spec) {
    return !mvdr_has_vectors(spec);
}

static bool any(const sonar_mvdr_spec *spec) {
    (void)spec;
    return true;
}

/* ---- live ------------------------------------------------------------------------------------ */

static bool always(const mvdr_problem *p) {
    (void)p;
    return true;
}

/* Whether the inverse gives all that the window wants. */
static bool may_update(const mvdr_problem *p) {
    const mvdr_wants *w = &p->wants;
    return !p->from_scratch && w->far && !w->near && !w->music && !w->eigenvalues &&
           !p->spec->source_count && p->spec->loading != SONAR_LOADING_NOISE;
}

/* Whether only the loading could need eigenvalues. */
static bool only_loading(const mvdr_problem *p) {
    return !p->spec->source_count && !p->all_eigenvalues;
}

static bool by_trace(const mvdr_problem *p) {
    return only_loading(p) && (p->spec->loading != SONAR_LOADING_NOISE || p->fallback);
}

static bool by_median(const mvdr_problem *p) {
    return only_loading(p) && p->spec->loading == SONAR_LOADING_NOISE && !p->spec->known_sources;
}

/* ---- the table ------------------------------------------------------------------------------- */

/*
 * The measurements behind the sizes, all with 100 bins. Times are in ms.
 *
 * - update, against a new factor: two cores of a Xeon (AVX-512) take 10.8 and 10.3 with 96 sensors,
 *   17.9 and 18.8 with 128, 26 and 33 with 160, 35 and 46 with 192. Two cores of an EPYC (AVX2)
 *   take 11.5 and 12.0, 18 and 22, 27 and 38, 39 and 57. An H200 takes at best 0.33 and 0.36 with
 *   128, 0.48 and 0.64 with 192, 0.68 and 1.06 with 256.
 * - factor-grid, rule trace: an H200 with a thread block for each bin, against all multiprocessors
 *   together, takes 0.68 and 0.74 with 192 rows, 1.14 and 1.13 with 256, 2.64 and 2.16 with 384.
 * - median: on a GPU, up to 192 rows, all eigenvalues take less time than two of them.
 */
const mvdr_route mvdr_routes[] = {
    [MVDR_ROUTE_UPDATE] = {"update", mvdr_can_follow, may_update, {128, 192}},
    [MVDR_ROUTE_JACOBI] = {"jacobi", mvdr_has_vectors, always, {0, 0}},
    [MVDR_ROUTE_FACTOR_GRID] = {"factor-grid", without_vectors, by_trace, {MVDR_NEVER, 320}},
    [MVDR_ROUTE_FACTOR] = {"factor", without_vectors, by_trace, {0, 0}},
    [MVDR_ROUTE_MEDIAN_GRID] = {"median-grid", without_vectors, by_median, {MVDR_NEVER, 320}},
    [MVDR_ROUTE_MEDIAN] = {"median", without_vectors, by_median, {0, 193}},
    [MVDR_ROUTE_EIGENVALUES] = {"eigenvalues", any, always, {0, 0}},
};
_Static_assert(sizeof mvdr_routes / sizeof *mvdr_routes == MVDR_ROUTES, "a row for each route");

/* ---- the choice ------------------------------------------------------------------------------ */

/* Whether a list of words, separated by spaces, contains `word`. */
static bool lists(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = words; *at; at += strcspn(at, " "), at += *at == ' ')
        if (!strncmp(at, word, length) && (!at[length] || at[length] == ' '))
            return true;
    return false;
}

static size_t least_rows(mvdr_route_id id, mvdr_place place, const char *named) {
    const mvdr_route *route = &mvdr_routes[id];
    const size_t least = route->least[place];
    if (!named || !least || least == MVDR_NEVER)
        return least;
    return lists(named, route->name) ? 0 : MVDR_NEVER;
}

const char *mvdr_routes_named(const sonar_host *host) {
    return host ? sonar_host_choice(host, "mvdr.route") : NULL;
}

bool mvdr_route_exists(const sonar_mvdr_spec *spec, mvdr_place place, const char *named,
                       mvdr_route_id id) {
    return mvdr_routes[id].possible(spec) &&
           mvdr_shape_of(spec).order >= least_rows(id, place, named);
}

/* On the CPU MUSIC uses the eigenvalues of the bin's solution. */
mvdr_problem mvdr_problem_of(const sonar_mvdr_spec *spec, const mvdr_wants *wants,
                             mvdr_place place) {
    return (mvdr_problem){.spec = spec,
                          .wants = *wants,
                          .all_eigenvalues =
                              wants->eigenvalues || (place == MVDR_ON_CPU && spec->music)};
}

mvdr_route_id mvdr_route_of(const mvdr_problem *problem, mvdr_place place, const char *named) {
    for (mvdr_route_id id = MVDR_ROUTE_UPDATE; id < MVDR_ROUTE_EIGENVALUES; id++)
        if (mvdr_route_exists(problem->spec, place, named, id) && mvdr_routes[id].applies(problem))
            return id;
    return MVDR_ROUTE_EIGENVALUES;
}

/* ---- by name --------------------------------------------------------------------------------- */

enum { RULES = SONAR_LOADINGS + 1 }; /* the last one: dominant modes replace loading */

uint32_t sonar_mvdr_path_by(const sonar_mvdr_spec *spec, uint32_t route) {
    const uint32_t rule = spec->dmr ? RULES - 1 : (uint32_t)spec->loading;
    return (sonar_mvdr_by_snapshots(spec) * RULES + rule) * MVDR_ROUTES + route;
}

uint32_t sonar_mvdr_path(const sonar_mvdr_spec *spec, bool on_gpu, const sonar_host *host) {
    const mvdr_place place = on_gpu ? MVDR_ON_GPU : MVDR_ON_CPU;
    const mvdr_wants spectrum = {.far = true, .any = true};
    mvdr_problem window = mvdr_problem_of(spec, &spectrum, place);
    const double each = (double)mvdr_shape_of(spec).each;
    window.fallback =
        !on_gpu && mvdr_falls_back(spec, spec->sensors, each * sonar_mvdr_effective(spec));
    return sonar_mvdr_path_by(spec, mvdr_route_of(&window, place, mvdr_routes_named(host)));
}

void sonar_mvdr_path_text(uint32_t path, char text[SONAR_MVDR_PATH_BYTES]) {
    static const char *const rules[RULES] = {SONAR_LOADING_RULES(SONAR_PICK_WORD, SONAR_COMMA),
                                             "dmr"};
    const uint32_t route = path % MVDR_ROUTES, rule = path / MVDR_ROUTES % RULES;
    text[0] = 0;
    if (route)
        snprintf(text, SONAR_MVDR_PATH_BYTES, "%s/%s/%s",
                 path / MVDR_ROUTES / RULES ? "snapshot" : "sensor", rules[rule],
                 mvdr_routes[route].name);
}
