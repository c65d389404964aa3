// A filter: drops groups in which more rewards are missing than `share` allows.

#include "logic.h"
#include "whet.h"

static double share;

void exports_whet_plugin_meta_describe(exports_whet_plugin_meta_descriptor_t *ret) {
    // The keys that a recipe may write under `config`.
    static const char schema[] =
        "{\"type\": \"object\", \"properties\": {\"share\": {\"type\": \"number\", \"minimum\": 0, \"maximum\": 1, "
        "\"default\": 0.5, \"description\": \"missing rewards that are tolerated\"}}, \"additionalProperties\": false}";
    whet_describe(ret, schema, NULL);
}

bool exports_whet_plugin_meta_configure(plugin_string_t *config, plugin_string_t *err) {
    (void)err;
    share = whet_config_number(*config, "share", 0.5);
    return true;
}

static exports_whet_plugin_filter_verdict_t verdict(bool keep) {
    return (exports_whet_plugin_filter_verdict_t){keep, whet_text(keep ? "kept" : "rewards-missing"), keep};
}

static void make_room(exports_whet_plugin_filter_list_verdict_t *ret, size_t n) {
    ret->len = n;
    ret->ptr = calloc(n + 1, sizeof *ret->ptr);
    if (!ret->ptr) abort();
}

bool exports_whet_plugin_filter_keep_rows(exports_whet_plugin_filter_list_row_t *rows,
                                          exports_whet_plugin_filter_list_verdict_t *ret,
                                          exports_whet_plugin_filter_plugin_error_t *err) {
    (void)err;
    make_room(ret, rows->len);
    for (size_t i = 0; i < rows->len; i++) ret->ptr[i] = verdict(true);
    return true;
}

bool exports_whet_plugin_filter_keep_groups(exports_whet_plugin_filter_list_scored_group_t *groups,
                                            exports_whet_plugin_filter_list_verdict_t *ret,
                                            exports_whet_plugin_filter_plugin_error_t *err) {
    (void)err;
    make_room(ret, groups->len);
    for (size_t i = 0; i < groups->len; i++) {
        plugin_list_option_f64_t rewards = groups->ptr[i].rewards;
        size_t missing = 0;
        for (size_t j = 0; j < rewards.len; j++) missing += !rewards.ptr[j].is_some;
        ret->ptr[i] = verdict(complete(missing, rewards.len, share));
    }
    return true;
}
