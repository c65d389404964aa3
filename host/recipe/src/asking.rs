//! What plugins may ask of others: every grant of a judge has its judge, every judge somebody to ask it.

use crate::document::Document;
use crate::section::{Combine, Grant, Judge, Limits, PluginUse, Recipe, is_name};

/// Reports what is missing and what nobody uses.
pub(crate) fn check(recipe: &Recipe, document: &Document, report: &mut impl FnMut(&str, String, String)) {
    let list = |key: &str, i: usize| match document.value[key].is_array() {
        true => format!("{key}[{i}]"),
        false => key.to_owned(),
    };
    let rewards = recipe.reward.iter().enumerate().map(|(i, r)| (list("reward", i), &r.plugin));
    let filters = recipe.filter.iter().enumerate().map(|(i, f)| (list("filter", i), f));
    let advantage = recipe.advantage.iter().map(|a| ("advantage".to_owned(), a));
    let uses: Vec<(String, &PluginUse)> = rewards.chain(filters).chain(advantage).collect();
    for (key, plugin) in &uses {
        grants(recipe, &format!("{key}.grants"), plugin, report);
        let asks = plugin.grants.iter().any(|g| matches!(g, Grant::Judge(_) | Grant::Http { .. }));
        let wait = format!("{key}.limits.wait");
        // A resolved recipe states every limit.
        if !asks && document.given(&wait) && plugin.limits.wait != Limits::default().wait {
            report(
                &wait,
                "this plugin is granted neither a judge nor a host, so it waits for nobody".into(),
                "leave it out, or grant what it may wait for with grants = [\"judge\"]".into(),
            );
        }
    }
    for (i, judge) in recipe.judge.iter().enumerate() {
        let key = list("judge", i);
        let asked = uses.iter().flat_map(|(_, plugin)| &plugin.grants).any(|grant| match grant {
            Grant::Judge(route) => route.as_ref().is_none_or(|route| *route == judge.route),
            _ => false,
        });
        if !asked {
            report(
                &key,
                format!("no plugin may ask the judge `{}`", judge.route),
                "write grants = [\"judge\"] beside the plugin that asks it, or leave it out".into(),
            );
        }
        if recipe.judge[..i].iter().any(|other| other.route == judge.route) {
            report(
                &format!("{key}.route"),
                format!("two judges have the route `{}`", judge.route),
                "give each its own name".into(),
            );
        }
        endpoint(judge, &key, report);
    }
    for (i, reward) in recipe.reward.iter().enumerate() {
        let key = || format!("{}.name", list("reward", i));
        if let Some(name) = &reward.name {
            if recipe.reward[..i].iter().any(|other| other.name.as_ref() == Some(name)) {
                report(
                    &key(),
                    format!("two rewards have the name `{name}`"),
                    "give each its own name".into(),
                );
            }
            if !is_name(name) {
                report(
                    &key(),
                    format!("`{name}` cannot stand in a condition"),
                    "write letters, digits, `-`, `_`, `.` and `:`, as in name = \"short\"".into(),
                );
            }
        }
        if reward.combine == Combine::Product && reward.weight == 0.0 {
            report(
                &format!("{}.weight", list("reward", i)),
                "a factor of 0 makes every reward 0".into(),
                "write a weight other than 0, or leave it out for 1".into(),
            );
        }
    }
}

fn grants(recipe: &Recipe, key: &str, plugin: &PluginUse, report: &mut impl FnMut(&str, String, String)) {
    let known: Vec<&str> = recipe.judge.iter().map(|judge| judge.route.as_str()).collect();
    for grant in &plugin.grants {
        let Grant::Judge(route) = grant else { continue };
        if known.is_empty() {
            report(
                key,
                format!("`{grant}` is granted, but there is no judge to ask"),
                "add a section `[judge]` with base-url and model".into(),
            );
        } else if let Some(route) = route.as_ref().filter(|route| !known.contains(&route.as_str())) {
            report(
                key,
                format!("there is no judge with the route `{route}`"),
                format!("grant one of those that there are: {}", known.join(", ")),
            );
        }
    }
}

fn endpoint(judge: &Judge, key: &str, report: &mut impl FnMut(&str, String, String)) {
    let url = &judge.base_url;
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    if host.is_none_or(str::is_empty) || url.chars().any(|c| c.is_whitespace() || c.is_control()) {
        report(
            &format!("{key}.base-url"),
            "this is no address of a server".into(),
            "write it from http:// or https:// on, as in \"https://api.example.com/v1\"".into(),
        );
    } else if host.is_some_and(|host| host.contains('@')) {
        report(
            &format!("{key}.base-url"),
            "an address that holds a user or password would be written into the run directory".into(),
            "put the secret into an environment variable and name it as api-key-env".into(),
        );
    }
    let is_variable = |name: &String| {
        name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
    };
    if !judge.api_key_env.as_ref().is_none_or(is_variable) {
        // Not shown: it may be the key itself.
        report(
            &format!("{key}.api-key-env"),
            "this is not the name of an environment variable".into(),
            "write the name of the variable that holds the key, as in \"JUDGE_API_KEY\"; never the key"
                .into(),
        );
    }
    for decided in Judge::DECIDED.into_iter().filter(|name| judge.extra.contains_key(*name)) {
        report(
            &format!("{key}.extra.{decided}"),
            "the plugin that asks, or another key of the judge, decides this".into(),
            "leave it out".into(),
        );
    }
}
