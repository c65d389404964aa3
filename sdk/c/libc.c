// What C code expects of its library, without a system beneath it. Compiled without knowledge of these
// functions, so that the compiler does not make calls of themselves of their loops.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern unsigned char __heap_base;

static uintptr_t top;
static void *newest;

void *malloc(size_t size) {
    if (!top) top = (uintptr_t)&__heap_base;
    uintptr_t at = (top + 15) & ~(uintptr_t)15;
    if (size > UINT32_MAX - at) return NULL;
    uintptr_t end = at + size;
    uintptr_t have = (uintptr_t)__builtin_wasm_memory_size(0) << 16;
    if (end > have) {
        uintptr_t pages = (end - have + 0xffff) >> 16;
        if (__builtin_wasm_memory_grow(0, pages) == (size_t)-1) return NULL;
    }
    top = end;
    newest = (void *)at;
    return newest;
}

void *calloc(size_t count, size_t size) {
    if (size && count > SIZE_MAX / size) return NULL;
    void *made = malloc(count * size);
    if (made) memset(made, 0, count * size);
    return made;
}

// The newest block grows in place; any other moves. An old block's size is not kept, so as many bytes
// are copied as there can be.
void *realloc(void *old, size_t size) {
    if (!old) return malloc(size);
    if (old == newest) {
        top = (uintptr_t)old;
        return malloc(size);
    }
    void *made = malloc(size);
    if (!made) return NULL;
    size_t most = (uintptr_t)made - (uintptr_t)old;
    memcpy(made, old, size < most ? size : most);
    return made;
}

void free(void *ptr) { (void)ptr; }

_Noreturn void abort(void) { __builtin_trap(); }

void *memcpy(void *restrict to, const void *restrict from, size_t n) { return memmove(to, from, n); }

void *memmove(void *to, const void *from, size_t n) {
    unsigned char *t = to;
    const unsigned char *f = from;
    if (t <= f) {
        for (size_t i = 0; i < n; i++) t[i] = f[i];
    } else {
        while (n--) t[n] = f[n];
    }
    return to;
}

void *memset(void *to, int byte, size_t n) {
    unsigned char *t = to;
    while (n--) *t++ = (unsigned char)byte;
    return to;
}

int memcmp(const void *a, const void *b, size_t n) {
    const unsigned char *x = a, *y = b;
    for (; n; n--, x++, y++)
        if (*x != *y) return *x - *y;
    return 0;
}

size_t strlen(const char *text) {
    size_t n = 0;
    while (text[n]) n++;
    return n;
}

int strncmp(const char *a, const char *b, size_t n) {
    for (; n; n--, a++, b++) {
        if (*a != *b) return (unsigned char)*a - (unsigned char)*b;
        if (!*a) return 0;
    }
    return 0;
}

int strcmp(const char *a, const char *b) { return strncmp(a, b, SIZE_MAX); }

void *memchr(const void *bytes, int byte, size_t n) {
    const unsigned char *at = bytes;
    for (; n; n--, at++)
        if (*at == (unsigned char)byte) return (void *)at;
    return NULL;
}

// Decimal notation; a long fraction may be off in the last digit.
double strtod(const char *text, char **end) {
    const char *at = text;
    double sign = *at == '-' ? -1 : 1, value = 0, scale = 1;
    if (*at == '-' || *at == '+') at++;
    for (; *at >= '0' && *at <= '9'; at++) value = value * 10 + (*at - '0');
    if (*at == '.')
        for (at++; *at >= '0' && *at <= '9'; at++) value += (*at - '0') * (scale /= 10);
    if (*at == 'e' || *at == 'E') {
        int down = *++at == '-', power = 0;
        if (*at == '-' || *at == '+') at++;
        for (; *at >= '0' && *at <= '9'; at++)
            if (power < 400) power = power * 10 + (*at - '0');
        while (power--) value = down ? value / 10 : value * 10;
    }
    if (end) *end = (char *)at;
    return sign * value;
}
