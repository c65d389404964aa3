// Whether a group has enough rewards: plain C, so that logic_test.c runs anywhere.
#include <stdbool.h>
#include <stddef.h>

static inline bool complete(size_t missing, size_t samples, double share) {
    return (double)missing <= share * (double)samples;
}
