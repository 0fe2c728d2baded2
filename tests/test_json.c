/* SPDX-License-Identifier: GPL-3.0-or-later */
/* JSON as it is written for the headers of messages, read back by cJSON and by the C library. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "output/json.h"

/* The text of an array of one number, without its brackets. */
static char *text_of(double value) {
    json_text text = {0};
    const json list = json_array(&text);
    append_number(&list, value);
    char *all = json_finish(&text);
    cr_assert(all);
    all[strlen(all) - 1] = 0;
    return memmove(all, all + 1, strlen(all));
}

static void check_number(double value) {
    char *text = text_of(value), *end;
    const double read = strtod(text, &end);
    cr_assert(*end == 0 && read == value, "%a became '%s', which is %a", value, text, read);
    cr_assert(strlen(text) <= 24, "'%s' is long", text);
    cJSON *number = cJSON_Parse(text);
    cr_assert(cJSON_IsNumber(number), "'%s' is no number of JSON", text);
    cJSON_Delete(number);
    free(text);
}

Test(json, numbers_read_back_are_the_same) {
    uint64_t random = 28;
    for (int i = 0; i < 300000; i++) {
        const double mantissa = 1 + sonar_random_uniform(&random);
        check_number(ldexp(mantissa, i % 120 - 60));
        check_number(-mantissa * pow(10, i % 24 - 8));
        check_number(round(1e6 * mantissa) / 1e6 * 360);
    }
    for (int power = -323; power <= 308; power++) {
        const double value = pow(10, power);
        check_number(value);
        check_number(nextafter(value, 0));
        check_number(nextafter(value, INFINITY));
    }
    const double edges[] = {0,      -0.0,   5e-324, 1e15,       999999999999999.9,  0x1p53,
                            0x1p63, 0x1p64, 1e308,  0x1p53 - 1, 99999999999999.998, 1e-5};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        check_number(edges[i]);
        check_number(-edges[i]);
    }
}

/* What people type has no more digits than they typed. */
Test(json, decimals_are_short) {
    const char *const typed[] = {"0.1",     "0.3",      "1953.125",        "123.456789012345",
                                 "-0.75",   "360",      "99999.9",         "0.00001",
                                 "1e-07",   "-40000",   "299999999999.99", "1.00000000000001",
                                 "0.56789", "51200.01", "100000000000000"};
    for (size_t i = 0; i < sizeof typed / sizeof *typed; i++) {
        char *text = text_of(strtod(typed[i], NULL));
        cr_expect_str_eq(text, typed[i]);
        free(text);
    }
    for (int i = 1; i < 100000; i++) {
        char wanted[32];
        snprintf(wanted, sizeof wanted, "%.15g", i / 1000.);
        char *text = text_of(i / 1000.);
        cr_assert_str_eq(text, wanted);
        free(text);
    }
}

Test(json, integers_keep_all_digits) {
    json_text text = {0};
    const json root = json_object(&text);
    put_uint(&root, "most", UINT64_MAX);
    put_int(&root, "least", INT64_MIN);
    put_int(&root, "utc", 1763654400123456789);
    put_uint(&root, "none", 0);
    char *all = json_finish(&text);
    cr_expect_str_eq(all, "{\"most\":18446744073709551615,\"least\":-9223372036854775808,"
                          "\"utc\":1763654400123456789,\"none\":0}");
    free(all);
}

Test(json, objects_and_arrays_end_where_the_next_item_of_an_outer_one_begins) {
    json_text text = {0};
    const json root = json_object(&text);
    put_null(&root, "a");
    const json list = put_array(&root, "b");
    const json first = append_object(&list);
    put_bool(&first, "c", true);
    put_array(&first, "d");
    const json pair = append_array(&list);
    append_number(&pair, NAN);
    append_number(&pair, INFINITY);
    append_string(&list, NULL);
    put_object(&root, "e");
    put_text(&root, "f", "[1, 2]");
    const json last = put_object(&root, "g");
    put_string(&last, "h", "{");
    put_string(&last, "i", "[");
    char *all = json_finish(&text);
    cr_expect_str_eq(all, "{\"a\":null,\"b\":[{\"c\":true,\"d\":[]},[null,null],null],\"e\":{},"
                          "\"f\":[1, 2],\"g\":{\"h\":\"{\",\"i\":\"[\"}}");
    free(all);
}

Test(json, every_character_of_a_string_comes_back) {
    char value[256 + 8] = "";
    for (int c = 1; c < 128; c++)
        value[c - 1] = (char)c;
    strcat(value, "µPa°");
    json_text text = {0};
    const json root = json_object(&text);
    put_string(&root, "text", value);
    char *all = json_finish(&text);
    cJSON *read = cJSON_Parse(all);
    cr_assert(read);
    cr_expect_str_eq(cJSON_GetObjectItem(read, "text")->valuestring, value);
    cJSON_Delete(read);
    free(all);
}

Test(json, long_texts_are_whole) {
    json_text text = {0};
    const json list = json_array(&text);
    for (int i = 0; i < 100000; i++)
        append_number(&list, i + 0.5);
    char *all = json_finish(&text);
    cJSON *read = cJSON_Parse(all);
    cr_assert_eq(cJSON_GetArraySize(read), 100000);
    int i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, read) cr_assert_eq(item->valuedouble, i++ + 0.5);
    cJSON_Delete(read);
    free(all);
}

Test(json, more_levels_than_there_are_is_no_text) {
    json_text text = {0};
    json at = json_array(&text);
    for (int i = 1; i < SONAR_JSON_DEPTH; i++)
        at = append_array(&at);
    cr_expect(!text.failed);
    at = append_array(&at);
    append_number(&at, 1);
    cr_expect_null(json_finish(&text));
}
