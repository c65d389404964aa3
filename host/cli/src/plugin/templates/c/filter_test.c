// cc -o logic_test logic_test.c && ./logic_test
#include "logic.h"
#include <assert.h>
#include <stdio.h>

int main(void) {
    assert(complete(1, 2, 0.5));
    assert(!complete(2, 2, 0.5));
    puts("ok");
}
