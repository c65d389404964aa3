// cc -o logic_test logic_test.c && ./logic_test
#include "logic.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

static bool has(const char *text, const char *word, bool case_sensitive) {
    return contains((const unsigned char *)text, strlen(text), (const unsigned char *)word, strlen(word), case_sensitive);
}

int main(void) {
    assert(has("It is rome.", "Rome", false));
    assert(!has("Romeo and Juliet", "Rome", false));
    assert(!has("", "Rome", false));
    assert(!has("rome", "Rome", true));
    puts("ok");
}
