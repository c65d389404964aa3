#include "whet.h"
#include <stdarg.h>

// The generated code asks for this so that a linker keeps the contract's description, which is added
// to the finished module instead.
void __component_type_object_force_link_plugin(void) {}

plugin_string_t whet_text(const char *text) {
    return (plugin_string_t){(uint8_t *)text, strlen(text)};
}

plugin_string_t whet_join(const char *first, ...) {
    va_list texts;
    size_t length = 0;
    va_start(texts, first);
    for (const char *text = first; text; text = va_arg(texts, const char *)) length += strlen(text);
    va_end(texts);
    plugin_string_t joined = {malloc(length + 1), 0};
    if (!joined.ptr) abort();
    va_start(texts, first);
    for (const char *text = first; text; text = va_arg(texts, const char *)) {
        size_t n = strlen(text);
        memcpy(joined.ptr + joined.len, text, n);
        joined.len += n;
    }
    va_end(texts);
    joined.ptr[joined.len] = 0;
    return joined;
}

bool whet_equal(plugin_string_t a, plugin_string_t b) {
    return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0;
}

void whet_log(const char *text) {
    plugin_string_t line = whet_text(text);
    whet_plugin_log_log(WHET_PLUGIN_LOG_LEVEL_INFO, &line);
}

void whet_describe(exports_whet_plugin_meta_descriptor_t *ret, const char *schema, const char *const *components) {
    size_t n = 0;
    while (components && components[n]) n++;
    plugin_string_t *names = malloc((n + 1) * sizeof *names);
    if (!names) abort();
    for (size_t i = 0; i < n; i++) names[i] = whet_text(components[i]);
    ret->name = whet_text(WHET_NAME);
    ret->version = whet_text(WHET_VERSION);
    ret->summary = whet_text(WHET_SUMMARY);
    ret->config_schema = whet_text(schema);
    ret->components = (plugin_list_string_t){names, n};
    ret->determinism = EXPORTS_WHET_PLUGIN_META_DETERMINISM_PURE;
    ret->group_wise = false;
}

// The text after `"key":` at the top of a JSON object, or NULL.
static const char *config_value(plugin_string_t config, const char *key) {
    char *text = malloc(config.len + 1);
    if (!text) abort();
    memcpy(text, config.ptr, config.len);
    text[config.len] = 0;
    size_t length = strlen(key);
    int depth = 0;
    for (const char *at = text; *at; at++) {
        if (*at == '{' || *at == '[') depth++;
        if (*at == '}' || *at == ']') depth--;
        if (*at != '"') continue;
        const char *start = ++at;
        while (*at && *at != '"') at += *at == '\\' && at[1] ? 2 : 1;
        if (!*at) return NULL;
        const char *after = at + 1;
        while (*after == ' ' || *after == '\n' || *after == '\t' || *after == '\r') after++;
        if (depth == 1 && *after == ':' && (size_t)(at - start) == length && strncmp(start, key, length) == 0) {
            after++;
            while (*after == ' ' || *after == '\n' || *after == '\t' || *after == '\r') after++;
            return after;
        }
    }
    return NULL;
}

bool whet_config_bool(plugin_string_t config, const char *key, bool otherwise) {
    const char *value = config_value(config, key);
    return value ? *value == 't' : otherwise;
}

double whet_config_number(plugin_string_t config, const char *key, double otherwise) {
    const char *value = config_value(config, key);
    return value ? strtod(value, NULL) : otherwise;
}

#ifdef EXPORTS_WHET_PLUGIN_REWARD_OUTCOME_SCORED
exports_whet_plugin_reward_outcome_t *whet_outcomes(const exports_whet_plugin_reward_group_t *group,
                                                    exports_whet_plugin_reward_list_outcome_t *ret) {
    ret->len = group->samples.len;
    ret->ptr = calloc(ret->len + 1, sizeof *ret->ptr);
    if (!ret->ptr) abort();
    return ret->ptr;
}

void whet_scored(exports_whet_plugin_reward_outcome_t *outcome, const char *component, double value, const char *note) {
    exports_whet_plugin_reward_component_t *made = malloc(sizeof *made);
    if (!made) abort();
    made->name = whet_text(component);
    made->value = value;
    memset(outcome, 0, sizeof *outcome);
    outcome->tag = EXPORTS_WHET_PLUGIN_REWARD_OUTCOME_SCORED;
    outcome->val.scored.components.ptr = made;
    outcome->val.scored.components.len = 1;
    if (note) {
        outcome->val.scored.note.is_some = true;
        outcome->val.scored.note.val = whet_text(note);
    }
}

void whet_unscorable(exports_whet_plugin_reward_outcome_t *outcome, const char *reason) {
    outcome->tag = EXPORTS_WHET_PLUGIN_REWARD_OUTCOME_UNSCORABLE;
    outcome->val.unscorable = whet_text(reason);
}
#endif
