// The part of <stdlib.h> that a plugin has. Memory is never given back: an instance serves one call.
#ifndef WHET_STDLIB_H
#define WHET_STDLIB_H

#include <stddef.h>

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *old, size_t size);
void free(void *ptr);
_Noreturn void abort(void);
double strtod(const char *text, char **end);

#endif
