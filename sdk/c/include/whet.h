// Write Whet plugins in C. A plugin includes this header and defines the exported functions of
// `plugin.h`, which is generated from the contract for the plugin's kind and capabilities.
//
// Strings have a length and no 0 at their end. Whatever is allocated is gone after the call.
#ifndef WHET_H
#define WHET_H

#include "plugin.h"
#include "whet_plugin.h" // WHET_NAME, WHET_VERSION, WHET_SUMMARY: from plugin.toml
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// A string of the contract that shows `text` without a copy.
plugin_string_t whet_text(const char *text);

// The concatenation of texts up to a NULL: whet_join("a", "b", NULL).
plugin_string_t whet_join(const char *first, ...);

bool whet_equal(plugin_string_t a, plugin_string_t b);

// Writes a line of level info to the run's log.
void whet_log(const char *text);

// Describes the plugin: its schema (a JSON object) and, for a reward, its components up to a NULL
// (otherwise NULL). Name, version and summary are the manifest's.
void whet_describe(exports_whet_plugin_meta_descriptor_t *ret, const char *schema, const char *const *components);

// Keys at the top of the configuration, which the host has checked against the schema.
bool whet_config_bool(plugin_string_t config, const char *key, bool otherwise);
double whet_config_number(plugin_string_t config, const char *key, double otherwise);

#ifdef EXPORTS_WHET_PLUGIN_REWARD_OUTCOME_SCORED
// A list of one outcome per sample, to be filled by the functions below.
exports_whet_plugin_reward_outcome_t *whet_outcomes(const exports_whet_plugin_reward_group_t *group,
                                                    exports_whet_plugin_reward_list_outcome_t *ret);
// A score under a name that the plugin declares; `note` may be NULL.
void whet_scored(exports_whet_plugin_reward_outcome_t *outcome, const char *component, double value, const char *note);
// There is no right score (why): never the same as 0.
void whet_unscorable(exports_whet_plugin_reward_outcome_t *outcome, const char *reason);
#endif

#endif
