// The reward less the mean of its group: plain C, so that logic_test.c runs anywhere.
#include <stddef.h>
#include <stdint.h>

static inline void centre(const float *rewards, const uint32_t *groups, size_t n, float scale, float *advantages) {
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        size_t scored = 0;
        for (size_t j = 0; j < n; j++) {
            if (groups[j] != groups[i] || rewards[j] - rewards[j] != 0) continue;
            sum += rewards[j];
            scored++;
        }
        // A sample without a score (NaN) teaches nothing.
        advantages[i] = rewards[i] - rewards[i] != 0 ? 0 : scale * (float)(rewards[i] - sum / (double)scored);
    }
}
