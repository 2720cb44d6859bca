// Tools for language models, as functions of `wit/world.wit`. Models read the comments there.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools.h"

#define MAX_GREETINGS 10
// Maximum size of the error message.
#define MESSAGE_BYTES 128

static bool fail(tools_string_t *error, uint32_t times) {
    char message[MESSAGE_BYTES];
    snprintf(message, sizeof message, "times is %u; expected a number from 1 to %d", (unsigned)times, MAX_GREETINGS);
    tools_string_dup(error, message);
    return false;
}

bool exports_tools_greet(tools_string_t *name, uint32_t *maybe_times, tools_string_t *ret, tools_string_t *err) {
    static const char before[] = "Hello, ";
    uint32_t times = maybe_times == NULL ? 1 : *maybe_times;
    if (times < 1 || times > MAX_GREETINGS) {
        return fail(err, times);
    }
    size_t length = sizeof before - 1 + name->len + 2;
    uint8_t *text = malloc(length * times);
    if (text == NULL) {
        abort();
    }
    uint8_t *at = text;
    for (uint32_t i = 0; i < times; i++) {
        memcpy(at, before, sizeof before - 1);
        at += sizeof before - 1;
        memcpy(at, name->ptr, name->len);
        at += name->len;
        *at++ = '.';
        *at++ = ' ';
    }
    ret->ptr = text;
    ret->len = length * times - 1;
    return true;
}
