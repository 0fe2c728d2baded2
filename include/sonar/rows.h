/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What is picked from the rows of a table TABLE(ROW, AND), each ROW(constant, word, value, ...):
 * for example TABLE(SONAR_PICK_WORD, SONAR_COMMA) for an array of its words, and
 * TABLE(SONAR_PICK_ONE, +) for the number of its rows. */
#ifndef SONAR_ROWS_H
#define SONAR_ROWS_H

#define SONAR_PICK_CONSTANT(constant, ...)           constant
#define SONAR_PICK_WORD(constant, word, ...)         word
#define SONAR_PICK_VALUE(constant, word, value, ...) value
#define SONAR_PICK_ONE(...)                          1
#define SONAR_COMMA                                  ,

#endif
