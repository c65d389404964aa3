// An estimator: the reward less the mean of its group, times `scale`.

#include "logic.h"
#include "whet.h"

static double scale;

void exports_whet_plugin_meta_describe(exports_whet_plugin_meta_descriptor_t *ret) {
    // The keys that a recipe may write under `config`.
    static const char schema[] = "{\"type\": \"object\", \"properties\": {\"scale\": {\"type\": \"number\", \"default\": 1, "
                                 "\"description\": \"factor of every advantage\"}}, \"additionalProperties\": false}";
    whet_describe(ret, schema, NULL);
}

bool exports_whet_plugin_meta_configure(plugin_string_t *config, plugin_string_t *err) {
    (void)err;
    scale = whet_config_number(*config, "scale", 1);
    return true;
}

bool exports_whet_plugin_advantage_estimate(exports_whet_plugin_advantage_batch_t *batch,
                                            exports_whet_plugin_advantage_advantages_t *ret,
                                            exports_whet_plugin_advantage_plugin_error_t *err) {
    (void)err;
    size_t n = batch->rewards.len;
    float *advantages = malloc((n + 1) * sizeof *advantages);
    if (!advantages) abort();
    centre(batch->rewards.ptr, batch->groups.ptr, n, (float)scale, advantages);
    ret->tag = EXPORTS_WHET_PLUGIN_ADVANTAGE_ADVANTAGES_PER_SAMPLE;
    ret->val.per_sample = (plugin_list_f32_t){advantages, n};
    return true;
}
