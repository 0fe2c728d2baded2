/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a function returns that can fail. */
#ifndef SONAR_CODE_H
#define SONAR_CODE_H

typedef enum sonar_code {
    SONAR_OK = 0,
    SONAR_EINVAL, /* a value of the caller or the user cannot be accepted */
    SONAR_ENOMEM, /* an allocation failed */
    SONAR_ESYS,   /* the operating system or a library reported an error; text names the call */
    SONAR_EPROTO, /* a peer violated the protocol */
    SONAR_EUNAVAILABLE, /* the wanted device, backend or file is not available */
    SONAR_ESTATE        /* called in an order that the contract forbids */
} sonar_code;

#endif
