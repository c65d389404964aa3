// Whether a text contains a word: plain C, so that logic_test.c runs anywhere.
#include <stdbool.h>
#include <stddef.h>

static inline bool is_word(unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;
}

static inline unsigned char folded(unsigned char c, bool case_sensitive) {
    return !case_sensitive && c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

// `text` of `n` bytes has `word` of `m` bytes as a word of its own.
static inline bool contains(const unsigned char *text, size_t n, const unsigned char *word, size_t m,
                            bool case_sensitive) {
    for (size_t at = 0; m && at + m <= n; at++) {
        if (at > 0 && is_word(text[at - 1])) continue;
        if (at + m < n && is_word(text[at + m])) continue;
        size_t same = 0;
        while (same < m && folded(text[at + same], case_sensitive) == folded(word[same], case_sensitive)) same++;
        if (same == m) return true;
    }
    return false;
}
