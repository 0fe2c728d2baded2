/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From the tree to values, driven by the table: keys, kinds, ranges, choices, defaults. */
#include "config/options.h"

#include "core/core.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 128, SHOWN = 40, ERRORS_ENOUGH = 1000 };

/* ---- paths ----------------------------------------------------------------------------------- */

/* True if the option is in the group. The file itself is the group "". */
static bool is_under(const char *path, const char *group) {
    const size_t n = strlen(group);
    return !n || (!strncmp(path, group, n) && path[n] == '.');
}

static bool is_group(const char *path) {
    for (size_t i = 0; i < SONAR_OPTIONS; i++)
        if (is_under(sonar_options[i].path, path))
            return true;
    return false;
}

static size_t find_option(const char *path) {
    size_t i = 0;
    while (i < SONAR_OPTIONS && strcmp(sonar_options[i].path, path) != 0)
        i++;
    return i;
}

/* The part of an option's path that follows the group: "dft.hop" in "dft" is "hop". */
static void key_in_group(const char *path, const char *group, char key[PATH_BYTES]) {
    const char *rest = path + (*group ? strlen(group) + 1 : 0);
    snprintf(key, PATH_BYTES, "%.*s", (int)strcspn(rest, "."), rest);
}

const sonar_node *sonar_node_find(const sonar_node *root, const char *path) {
    const sonar_node *node = root;
    while (node && *path) {
        const size_t n = strcspn(path, ".");
        const sonar_node *found = NULL;
        if (node->kind == SONAR_MAPPING)
            for (const sonar_node *key = node->first; key; key = key->next->next)
                if (key->kind == SONAR_SCALAR && key->length == n && !memcmp(key->text, path, n))
                    found = key->next;
        node = found;
        path += n + (path[n] == '.');
    }
    return node;
}

sonar_place sonar_place_of(const sonar_loader *loader, sonar_option_id id) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s", sonar_options[id].path);
    for (;;) {
        const sonar_node *node = sonar_node_find(loader->root, path);
        if (node)
            return node->place;
        char *dot = strrchr(path, '.');
        if (!dot)
            return loader->root ? loader->root->place : (sonar_place){1, 1};
        *dot = 0;
    }
}

sonar_place sonar_place_of_entry(const sonar_loader *loader, sonar_option_id id, size_t i) {
    const sonar_node *node = loader->settings->value[id].node;
    const sonar_node *item = node ? node->first : NULL;
    while (item && i--)
        item = item->next;
    return item ? item->place : sonar_place_of(loader, id);
}

/* ---- one value ------------------------------------------------------------------------------- */

typedef struct reader {
    sonar_loader *loader;
    const sonar_text *text; /* of the file, or of a default */
    const sonar_option *option;
    sonar_value *value;
} reader;

static bool reject(const reader *r, const sonar_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool reject(const reader *r, const sonar_node *node, const char *format, ...) {
    char message[400], accepted[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    sonar_option_accepted(r->option, accepted, sizeof accepted);
    sonar_report_add(r->loader->report, SONAR_MISTAKE, r->text, node->place, accepted, "%s: %s",
                     r->option->path, message);
    return false;
}

static bool no_memory(const reader *r) {
    r->loader->no_memory = true;
    return false;
}

static const char *kind_name(const sonar_node *node) {
    static const char *const names[] = {"a value", "a list", "a group of keys"};
    return node->kind == SONAR_SCALAR && !node->length && !node->quoted ? "nothing"
                                                                        : names[node->kind];
}

static bool want_scalar(const reader *r, const sonar_node *node) {
    if (node->kind != SONAR_SCALAR || (!node->length && !node->quoted))
        return reject(r, node, "expected one value, not %s", kind_name(node));
    if (strlen(node->text) != node->length)
        return reject(r, node, "the value holds a NUL character");
    return true;
}

static bool read_number(const reader *r, const sonar_node *node, bool whole, double *number) {
    if (!want_scalar(r, node))
        return false;
    const char *unit = r->option->unit && *r->option->unit ? r->option->unit : NULL;
    const char *s = node->text;
    char *end = NULL;
    errno = 0;
    const bool spelled = s[strspn(s, "+-.0123456789eE")] == 0 && strpbrk(s, "0123456789");
    *number = spelled ? strtod(s, &end) : 0;
    if (node->quoted || !spelled || *end)
        return reject(r, node, "expected a plain %snumber%s%s, not \"%.*s\"%s",
                      whole ? "whole " : "", unit ? " in " : "", unit ? unit : "", SHOWN, s,
                      node->quoted ? " in quotes" : "");
    if (whole && *number != floor(*number))
        return reject(r, node, "expected a whole number, not %.*s", SHOWN, s);
    const sonar_option *o = r->option;
    const bool low = o->above ? *number > o->low : *number >= o->low;
    const bool high = o->below ? *number < o->high : *number <= o->high;
    if (!isfinite(*number) || !low || !high)
        return reject(r, node, "%.*s is out of range", SHOWN, s);
    *number += 0.0; /* turns -0 into 0 */
    return true;
}

static bool read_boolean(const reader *r, const sonar_node *node, double *number) {
    if (!want_scalar(r, node))
        return false;
    *number = !strcmp(node->text, "true");
    if (node->quoted || (!*number && strcmp(node->text, "false") != 0))
        return reject(r, node, "expected true or false, not \"%.*s\"", SHOWN, node->text);
    return true;
}

/* True if the node is one of the option's words. */
static bool find_choice(const reader *r, const sonar_node *node, size_t *index) {
    const char *const *word = r->option->choices;
    for (*index = 0; word[*index]; ++*index)
        if (strlen(word[*index]) == node->length && !memcmp(node->text, word[*index], node->length))
            return true;
    return false;
}

static bool read_choice(const reader *r, const sonar_node *node, double *number) {
    size_t index;
    if (!want_scalar(r, node))
        return false;
    *number = 0;
    if (find_choice(r, node, &index)) {
        *number = (double)index;
        return true;
    }
    return reject(r, node, "\"%.*s\" is not one of its words", SHOWN, node->text);
}

/* Control characters and line separators would not survive printing and have no use in a name. */
static bool is_printable(const char *s) {
    for (; *s; s++) {
        const unsigned char c = (unsigned char)s[0], d = (unsigned char)s[1];
        if (c < ' ' || c == 0x7f || (c == 0xC2 && d < 0xA0))
            return false;
        if (c == 0xE2 && d == 0x80 && ((unsigned char)s[2] & 0xFE) == 0xA8)
            return false; /* U+2028, U+2029 */
        if (c == 0xEF && ((d == 0xBB && (unsigned char)s[2] == 0xBF) ||
                          (d == 0xBF && (unsigned char)s[2] >= 0xBE)))
            return false; /* U+FEFF, U+FFFE, U+FFFF */
    }
    return true;
}

static bool read_text(const reader *r, const sonar_node *node, char **text) {
    if (!want_scalar(r, node))
        return false;
    if (!node->length || (r->option->high > 0 && (double)node->length > r->option->high))
        return reject(r, node, "%zu bytes of text", node->length);
    if (!is_printable(node->text))
        return reject(r, node, "the text holds control characters");
    *text = strdup(node->text);
    return *text ? true : no_memory(r);
}

static bool is_port(const char *s) {
    const size_t n = strspn(s, "0123456789");
    return n && n <= 5 && !s[n] && atoi(s) >= 1 && atoi(s) <= 65535;
}

/* Accepts an address, * for all addresses, or the name of an interface or a host. libzmq would also
 * accept two addresses separated by a semicolon, and would interpret one to three numbers as an
 * address. */
static bool is_host(const char *host) {
    struct in_addr v4;
    struct in6_addr v6;
    char inside[64];
    const size_t bytes = strlen(host);
    if (!strcmp(host, "*") || inet_pton(AF_INET, host, &v4) == 1)
        return true;
    if (*host == '[' && bytes > 2 && host[bytes - 1] == ']') {
        snprintf(inside, sizeof inside, "%.*s", (int)bytes - 2, host + 1);
        inside[strcspn(inside, "%")] = 0; /* the interface of a link-local address */
        return inet_pton(AF_INET6, inside, &v6) == 1 && !strpbrk(host, " ;/");
    }
    bool letter = false;
    for (; isalnum((unsigned char)*host) || (*host && strchr(".-_", *host)); host++)
        letter = letter || isalpha((unsigned char)*host);
    return letter && !*host;
}

static bool check_endpoint(const reader *r, const sonar_node *node) {
    const char *s = node->text;
    if (!strncmp(s, "ipc://", 6)) {
        if (!s[6] || s[6] == '*' || strlen(s + 6) > 106)
            return reject(r, node, "expected a path of 1 to 106 bytes after ipc://");
        if (s[6] == '@')
            return reject(
                r, node,
                "refused: a name that begins with @ lies outside the file system and is "
                "open to every user of this machine; a path has the rights of its folder");
        return true;
    }
    if (strncmp(s, "tcp://", 6) != 0)
        return reject(r, node, "\"%.*s\" is neither tcp:// nor ipc://", SHOWN, s);
    const char *colon = strrchr(s + 6, ':');
    if (!colon || !is_port(colon + 1))
        return reject(r, node, "expected a port from 1 to 65535 at the end of \"%.*s\"", SHOWN, s);
    char host[64];
    snprintf(host, sizeof host, "%.*s", (int)(colon - s - 6), s + 6);
    if (colon - s - 6 >= (ptrdiff_t)sizeof host || !is_host(host))
        return reject(r, node,
                      "expected an address, * for all of them or the name of an interface "
                      "after tcp://");
    return true;
}

char *sonar_endpoint_of_rank(const char *text, size_t rank) {
    const char *at = strstr(text, "{rank}");
    char *out = NULL;
    if (!at)
        return strdup(text);
    const int length = asprintf(&out, "%.*s%zu%s", (int)(at - text), text, rank, at + 6);
    return length < 0 ? NULL : out;
}

/* Checks the endpoint with 0 in place of {rank}. */
static bool check_ranks_endpoint(const reader *r, const sonar_node *node) {
    sonar_node own = *node;
    own.text = sonar_endpoint_of_rank(node->text, 0);
    const bool good = own.text ? check_endpoint(r, &own) : no_memory(r);
    free(own.text);
    return good;
}

static bool read_endpoint(const reader *r, const sonar_node *node, char **text) {
    return read_text(r, node, text) && check_endpoint(r, node);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static bool read_position(const reader *r, const sonar_node *node, double *xyz) {
    if (node->kind != SONAR_SEQUENCE || node->count != 3)
        return reject(r, node, "a position is three numbers, [x, y, z]");
    bool good = true;
    for (const sonar_node *item = node->first; item; item = item->next)
        good = read_number(r, item, false, xyz++) && good;
    return good;
}

static bool read_item(const reader *r, const sonar_node *item, size_t i) {
    sonar_value *v = r->value;
    switch (r->option->type) {
    case SONAR_TYPE_INTEGERS:
        return read_number(r, item, true, &v->numbers[i]);
    case SONAR_TYPE_CHOICES:
        return read_choice(r, item, &v->numbers[i]);
    case SONAR_TYPE_ENDPOINTS:
        return read_text(r, item, &v->texts[i]) && check_ranks_endpoint(r, item);
    case SONAR_TYPE_TEXTS:
        return read_text(r, item, &v->texts[i]);
    case SONAR_TYPE_POSITIONS:
        return read_position(r, item, &v->numbers[3 * i]);
    default:
        return read_number(r, item, false, &v->numbers[i]);
    }
}

static bool read_list(const reader *r, const sonar_node *node) {
    const sonar_option *o = r->option;
    sonar_value *v = r->value;
    const bool single = node->kind == SONAR_SCALAR && (node->length || node->quoted);
    if (single && o->word && !strcmp(node->text, o->word)) {
        v->word = true;
        return true;
    }
    if (node->kind != SONAR_SEQUENCE && !(single && (o->scalar || o->entry)))
        return reject(r, node, "expected a list, not %s", kind_name(node));
    const size_t count = single ? 1 : node->count;
    if (count < o->least || count > o->most)
        return reject(r, node, "%zu entries are too %s", count, count < o->least ? "few" : "many");
    v->count = count;
    v->numbers = sonar_alloc(3 * count, sizeof *v->numbers);
    v->texts = sonar_alloc(count, sizeof *v->texts);
    if (!v->numbers || !v->texts)
        return no_memory(r);
    if (single)
        return read_item(r, node, 0);
    bool good = true;
    size_t i = 0;
    for (const sonar_node *item = node->first; item; item = item->next)
        good = read_item(r, item, i++) && good;
    return good;
}

/* A whole number, or one of the words that stand for 0 and negative numbers. */
static bool read_integer(const reader *r, const sonar_node *node, double *number) {
    size_t index;
    if (!r->option->choices || node->kind != SONAR_SCALAR || !find_choice(r, node, &index))
        return read_number(r, node, true, number);
    *number = 0.0 - (double)index;
    return true;
}

static bool read_value(const reader *r, const sonar_node *node) {
    sonar_value *v = r->value;
    switch (r->option->type) {
    case SONAR_TYPE_INTEGER:
        return read_integer(r, node, &v->number);
    case SONAR_TYPE_REAL:
        return read_number(r, node, false, &v->number);
    case SONAR_TYPE_BOOLEAN:
        return read_boolean(r, node, &v->number);
    case SONAR_TYPE_CHOICE:
        return read_choice(r, node, &v->number);
    case SONAR_TYPE_TEXT:
        return read_text(r, node, &v->text);
    case SONAR_TYPE_ENDPOINT:
        return read_endpoint(r, node, &v->text);
    default:
        return read_list(r, node);
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* True if the key is the option's name, or the name without its unit: "heading" for "heading_deg".
 */
static bool names(const char *key, const char *option) {
    const size_t n = strlen(key);
    return n && !strncmp(option, key, n) && (!option[n] || option[n] == '_');
}

/* Suggests the nearest key of this group or, failing that, an option elsewhere that ends in this
 * key. */
static void suggest(const char *group, const char *key, char *words, size_t size) {
    size_t best = sonar_max_size(2, strlen(key) / 3) + 1;
    char own[PATH_BYTES];
    *words = 0;
    for (size_t i = 0; i < SONAR_OPTIONS && best; i++)
        if (is_under(sonar_options[i].path, group)) {
            key_in_group(sonar_options[i].path, group, own);
            const size_t far = names(key, own) ? 0 : sonar_text_edits(key, own);
            if (far < best) {
                best = far;
                snprintf(words, size, "did you mean %s?", own);
            }
        }
    for (size_t i = 0; !*words && i < SONAR_OPTIONS; i++) {
        const char *dot = strrchr(sonar_options[i].path, '.');
        if (names(key, dot ? dot + 1 : sonar_options[i].path))
            snprintf(words, size, "did you mean %s?", sonar_options[i].path);
    }
}

size_t sonar_option_find(const char *path, char *hint, size_t size) {
    const size_t id = find_option(path);
    const char *dot = strrchr(path, '.');
    size_t best = SIZE_MAX, nearest = 0;
    *hint = 0;
    if (id < SONAR_OPTIONS)
        return id;
    for (size_t i = 0; i < SONAR_OPTIONS; i++)
        if (sonar_text_edits(path, sonar_options[i].path) < best) {
            best = sonar_text_edits(path, sonar_options[i].path);
            nearest = i;
        }
    if (is_group(path) && *path)
        snprintf(hint, size, "%s is a group of options", path);
    else if (best <= sonar_max_size(2, strlen(path) / 3 + 1))
        snprintf(hint, size, "did you mean %s?", sonar_options[nearest].path);
    else
        suggest("", dot ? dot + 1 : path, hint, size);
    return SONAR_OPTIONS;
}

static void list_keys(const char *group, char *words, size_t size) {
    char last[PATH_BYTES] = "", key[PATH_BYTES];
    size_t at = 0;
    *words = 0;
    for (size_t i = 0; i < SONAR_OPTIONS; i++) {
        if (!is_under(sonar_options[i].path, group))
            continue;
        key_in_group(sonar_options[i].path, group, key);
        if (strcmp(key, last) != 0 && at + strlen(key) + 3 < size)
            at += (size_t)snprintf(words + at, size - at, "%s%s", at ? ", " : "", key);
        memcpy(last, key, sizeof last);
    }
}

/* What replaced an option of an earlier version. */
static const char *replacement(const char *group, const char *key) {
    if (!strcmp(group, "mvdr") && !strcmp(key, "method"))
        return "mvdr.solver: auto replaces it; solver: jacobi is the thesis's method, in float64";
    if (!strcmp(group, "mvdr") && !strcmp(key, "dmr_noise"))
        return "the noise of mvdr.dmr is always the median of the other eigenvalues; delete the "
               "line";
    return NULL;
}

static void unknown_key(sonar_loader *loader, const char *group, const sonar_node *key) {
    char accepted[512], hint[PATH_BYTES + 32];
    const char *now = replacement(group, key->text ? key->text : "");
    list_keys(group, accepted, sizeof accepted);
    if (now)
        snprintf(hint, sizeof hint, "%s", now);
    else
        suggest(group, key->text ? key->text : "", hint, sizeof hint);
    sonar_report_add(loader->report, SONAR_MISTAKE, loader->text, key->place, accepted,
                     "unknown key \"%.*s\"%s%s%s%s", SHOWN, key->text ? key->text : "",
                     *group ? " in " : "", group, *hint ? "; " : "", hint);
}

static bool is_repeated(const sonar_node *mapping, const sonar_node *key) {
    for (const sonar_node *k = mapping->first; k != key; k = k->next->next)
        if (k->kind == SONAR_SCALAR && k->length == key->length &&
            !memcmp(k->text, key->text, key->length))
            return true;
    return false;
}

static void read_option(sonar_loader *loader, size_t id, const sonar_node *node) {
    sonar_value *value = &loader->settings->value[id];
    const reader r = {loader, loader->text, &sonar_options[id], value};
    value->origin = SONAR_FROM_FILE;
    value->place = node->place;
    value->node = node;
    value->bad = !read_value(&r, node);
    if (value->bad)
        value->number = 0; /* any number can be converted safely from here on */
}

static void read_group(sonar_loader *loader, const char *group, const sonar_node *node);

static void read_key(sonar_loader *loader, const char *group, const sonar_node *mapping,
                     const sonar_node *key) {
    char path[PATH_BYTES] = "";
    const bool plain = key->kind == SONAR_SCALAR && strlen(key->text) == key->length &&
                       key->length && !strchr(key->text, '.') && key->length < PATH_BYTES / 2;
    if (plain)
        snprintf(path, sizeof path, "%.63s%s%.63s", group, *group ? "." : "", key->text);
    const size_t id = find_option(path);
    const bool inner = plain && is_group(path);
    const sonar_node *node = key->next;
    if (!plain || (id == SONAR_OPTIONS && !inner)) {
        unknown_key(loader, group, key);
    } else if (is_repeated(mapping, key)) {
        sonar_report_add(loader->report, SONAR_MISTAKE, loader->text, key->place, NULL,
                         "%s is given twice", path);
    } else if (inner && node->kind == SONAR_MAPPING) {
        read_group(loader, path, node);
    } else if (id < SONAR_OPTIONS) {
        read_option(loader, id, node);
    } else {
        char accepted[512];
        list_keys(path, accepted, sizeof accepted);
        sonar_report_add(loader->report, SONAR_MISTAKE, loader->text, node->place, accepted,
                         "%s: expected a group of keys, not %s", path, kind_name(node));
    }
}

static void read_group(sonar_loader *loader, const char *group, const sonar_node *node) {
    /* stops early in a file that contains only mistakes */
    for (const sonar_node *key = node->first; key; key = key->next->next)
        if (sonar_report_errors(loader->report) < ERRORS_ENOUGH)
            read_key(loader, group, node, key);
}

/* ---- the whole file -------------------------------------------------------------------------- */

static void check_alternatives(sonar_loader *loader, const sonar_alternatives *a) {
    const sonar_node *group = sonar_node_find(loader->root, a->group);
    char path[PATH_BYTES], all[128] = "";
    const sonar_node *second = NULL;
    size_t given = 0, at = 0;
    for (size_t i = 0; a->keys[i]; i++) {
        snprintf(path, sizeof path, "%s.%s", a->group, a->keys[i]);
        const sonar_node *node = sonar_node_find(loader->root, path);
        if (node && given++)
            second = node;
        at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", i ? " or " : "", a->keys[i]);
    }
    if (given > 1)
        sonar_report_add(loader->report, SONAR_MISTAKE, loader->text, second->place, all,
                         "%s: only one of %s may be given", a->group, all);
    const bool wanted = group ? group->kind == SONAR_MAPPING : !a->grouped;
    const sonar_place place = group ? group->place : loader->root->place;
    if (!given && a->required && wanted)
        sonar_report_add(loader->report, SONAR_MISTAKE, loader->text, place, all,
                         "%s: one of %s is required", a->group, all);
}

static bool group_is_there(const sonar_loader *loader, size_t id) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s", sonar_options[id].path);
    char *dot = strrchr(path, '.');
    if (!sonar_options[id].grouped || !dot)
        return true;
    *dot = 0;
    const sonar_node *node = sonar_node_find(loader->root, path);
    return node && node->kind == SONAR_MAPPING;
}

static void set_default(sonar_loader *loader, size_t id) {
    const sonar_option *option = &sonar_options[id];
    const sonar_text text = {
        .name = "default", .bytes = option->fallback, .size = strlen(option->fallback)};
    const reader r = {loader, &text, option, &loader->settings->value[id]};
    sonar_tree tree;
    if (sonar_tree_parse(&text, &tree, loader->report)) {
        loader->no_memory = true;
        return;
    }
    if (tree.root && read_value(&r, tree.root))
        r.value->origin = SONAR_FROM_DEFAULT;
    sonar_tree_clear(&tree);
}

/* `scan: auto` is not a default if the file has scan as a group. */
static bool is_group_in_file(const sonar_loader *loader, size_t id) {
    const sonar_node *node = sonar_node_find(loader->root, sonar_options[id].path);
    return node && node->kind == SONAR_MAPPING && is_group(sonar_options[id].path);
}

static void complete(sonar_loader *loader, size_t id) {
    if (loader->settings->value[id].origin != SONAR_ABSENT || !group_is_there(loader, id) ||
        is_group_in_file(loader, id))
        return;
    if (sonar_options[id].fallback)
        set_default(loader, id);
    if (!sonar_options[id].required)
        return;
    char accepted[512];
    sonar_option_accepted(&sonar_options[id], accepted, sizeof accepted);
    sonar_report_add(loader->report, SONAR_MISTAKE, loader->text,
                     sonar_place_of(loader, (sonar_option_id)id), accepted, "%s is required",
                     sonar_options[id].path);
}

void sonar_read_settings(sonar_loader *loader) {
    if (!loader->root || loader->root->kind != SONAR_MAPPING) {
        sonar_report_add(loader->report, SONAR_MISTAKE, loader->text,
                         loader->root ? loader->root->place : (sonar_place){0, 0}, "schema: 1 ...",
                         loader->root ? "a configuration is a group of keys" : "the file is empty");
        return;
    }
    read_group(loader, "", loader->root);
    for (size_t i = 0; i < sonar_alternatives_count; i++)
        check_alternatives(loader, &sonar_alternatives_table[i]);
    for (size_t id = 0; id < SONAR_OPTIONS; id++)
        complete(loader, id);
}
