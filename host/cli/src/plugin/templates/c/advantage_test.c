// cc -o logic_test logic_test.c && ./logic_test
#include "logic.h"
#include <assert.h>
#include <stdio.h>

int main(void) {
    float rewards[] = {1, 0, 5, 0.0f / 0.0f}, advantages[4];
    uint32_t groups[] = {0, 0, 1, 1};
    centre(rewards, groups, 4, 2, advantages);
    assert(advantages[0] == 1 && advantages[1] == -1 && advantages[2] == 0 && advantages[3] == 0);
    puts("ok");
}
