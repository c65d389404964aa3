// A reward: 1 when the response contains the label as a word of its own, else 0.

#include "logic.h"
#include "whet.h"

static bool case_sensitive;

void exports_whet_plugin_meta_describe(exports_whet_plugin_meta_descriptor_t *ret) {
    static const char *const components[] = {"reward", NULL};
    // The keys that a recipe may write under `config`.
    static const char schema[] =
        "{\"type\": \"object\", \"properties\": {\"case_sensitive\": {\"type\": \"boolean\", \"default\": false, "
        "\"description\": \"upper and lower case count\"}}, \"additionalProperties\": false}";
    whet_describe(ret, schema, components);
}

bool exports_whet_plugin_meta_configure(plugin_string_t *config, plugin_string_t *err) {
    (void)err;
    case_sensitive = whet_config_bool(*config, "case_sensitive", false);
    return true;
}

bool exports_whet_plugin_reward_score(exports_whet_plugin_reward_group_t *group,
                                      exports_whet_plugin_reward_list_outcome_t *ret,
                                      exports_whet_plugin_reward_plugin_error_t *err) {
    (void)err;
    exports_whet_plugin_reward_outcome_t *outcomes = whet_outcomes(group, ret);
    for (size_t i = 0; i < group->samples.len; i++) {
        plugin_string_t response = group->samples.ptr[i].response, label = group->label.val;
        if (!group->label.is_some) {
            whet_unscorable(&outcomes[i], "the row has no label");
            continue;
        }
        bool found = contains(response.ptr, response.len, label.ptr, label.len, case_sensitive);
        whet_scored(&outcomes[i], "reward", found, found ? "the label is there" : "the label is not there");
    }
    return true;
}
