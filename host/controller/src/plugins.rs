//! The plugins of a run: found, admitted, and written down.

use crate::RunError;
use crate::step::policy::Gate;
use crate::step::score::{Reward, Scorer};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use whet_plugin_host::{AdvantagePlugin, Digest, FilterPlugin, Grants, Host, Limits, LoadError, Use};
use whet_recipe::{PluginUse, Recipe};

/// A plugin with the name by which people know it.
pub struct Named<P> {
    /// As the recipe has it.
    pub name: String,
    /// The plugin.
    pub plugin: P,
}

/// All plugins of a run.
pub struct Plugins {
    /// The rewards.
    pub scorer: Scorer,
    /// The filters, in order.
    pub filters: Vec<Named<FilterPlugin>>,
    /// The advantage estimator, if it is a plugin.
    pub advantage: Option<Named<AdvantagePlugin>>,
    /// What the run directory records about each.
    pub records: Vec<PluginRecord>,
}

/// What the run directory records about a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PluginRecord {
    /// `reward`, `filter` or `advantage`.
    pub role: String,
    /// As the recipe has it.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// `sha256:…` of the component.
    pub digest: String,
    /// What the recipe grants it.
    pub grants: Vec<String>,
    /// Its configuration.
    pub config: serde_json::Value,
}

/// Loads every plugin that the recipe names.
pub fn load_plugins(host: &Host, recipe: &Recipe) -> Result<Plugins, RunError> {
    let mut records = Vec::new();
    let mut rewards = Vec::new();
    for (reward, name) in recipe.reward.iter().zip(whet_recipe::Reward::names(&recipe.reward)) {
        let admitted = Admitted::new(host, "reward", &reward.plugin, recipe, &mut records)?;
        rewards.push(Reward {
            name,
            weight: reward.weight,
            weights: reward.weights.iter().map(|(name, weight)| (name.clone(), *weight)).collect(),
            combine: reward.combine,
            gates: Vec::new(),
            plugin: host.reward(&admitted.bytes, &admitted.terms).map_err(|e| admitted.refused(e))?,
        });
    }
    check_weights(&rewards)?;
    for (i, reward) in recipe.reward.iter().enumerate() {
        let gates = reward.gate.iter().map(|gate| resolve(gate, &rewards));
        rewards[i].gates = gates.collect::<Result<_, _>>()?;
    }
    let mut filters = Vec::new();
    for filter in &recipe.filter {
        let admitted = Admitted::new(host, "filter", filter, recipe, &mut records)?;
        let plugin = host.filter(&admitted.bytes, &admitted.terms).map_err(|e| admitted.refused(e))?;
        filters.push(Named { name: admitted.name(), plugin });
    }
    let advantage = match &recipe.advantage {
        None => None,
        Some(advantage) => {
            let admitted = Admitted::new(host, "advantage", advantage, recipe, &mut records)?;
            let plugin = host.advantage(&admitted.bytes, &admitted.terms).map_err(|e| admitted.refused(e))?;
            Some(Named { name: admitted.name(), plugin })
        }
    };
    let scorer = Scorer { rewards, retries: recipe.on_failure.retries };
    Ok(Plugins { scorer, filters, advantage, records })
}

/// Every component of every reward, by its full name.
fn components(rewards: &[Reward]) -> Vec<(usize, String, String)> {
    let of = |(i, reward): (usize, &Reward)| {
        let names = reward.plugin.descriptor().components.iter();
        names.map(|c| (i, format!("{}/{c}", reward.name), c.clone())).collect::<Vec<_>>()
    };
    rewards.iter().enumerate().flat_map(of).collect()
}

/// A weight for a component that the plugin does not have would silently do nothing.
fn check_weights(rewards: &[Reward]) -> Result<(), RunError> {
    for reward in rewards {
        let known = &reward.plugin.descriptor().components;
        if let Some((name, _)) = reward.weights.iter().find(|(name, _)| !known.contains(name)) {
            return Err(RunError::UnknownComponent {
                key: format!("reward.weights of `{}`", reward.name),
                name: name.clone(),
                several: false,
                known: known.clone(),
            });
        }
    }
    Ok(())
}

/// Finds the component that a gate means: by its full name, or by its own where only one plugin has it.
fn resolve(gate: &whet_recipe::Gate, rewards: &[Reward]) -> Result<Gate, RunError> {
    let all = components(rewards);
    let fits =
        |(_, full, short): &&(usize, String, String)| *full == gate.component || *short == gate.component;
    let found: Vec<_> = all.iter().filter(fits).collect();
    match found.as_slice() {
        [(reward, _, component)] => Ok(Gate {
            reward: *reward,
            component: component.clone(),
            comparison: gate.comparison,
            value: gate.value,
        }),
        found => Err(RunError::UnknownComponent {
            key: "reward.gate".into(),
            name: gate.component.clone(),
            several: !found.is_empty(),
            known: all.into_iter().map(|(_, full, _)| full).collect(),
        }),
    }
}

/// A component that was read, and the terms on which it is to run.
#[derive(Debug)]
struct Admitted {
    role: &'static str,
    /// As the recipe has it.
    plugin: String,
    bytes: Vec<u8>,
    terms: Use,
}

impl Admitted {
    fn new(
        host: &Host,
        role: &'static str,
        plugin: &PluginUse,
        recipe: &Recipe,
        records: &mut Vec<PluginRecord>,
    ) -> Result<Self, RunError> {
        let path = whet_plugin_host::find(&plugin.plugin)?;
        let bytes = std::fs::read(&path).map_err(RunError::read(&path))?;
        let refused = |source| RunError::PluginLoad { role, name: plugin.plugin.clone(), source };
        let digest = host.inspect(&bytes).map_err(refused)?.digest;
        records.push(PluginRecord {
            role: role.into(),
            name: plugin.plugin.clone(),
            path,
            digest: digest.to_string(),
            grants: plugin.grants.iter().map(ToString::to_string).collect(),
            config: plugin.config.clone().into(),
        });
        let terms = terms(plugin, recipe).map_err(refused)?;
        Ok(Admitted { role, plugin: plugin.plugin.clone(), bytes, terms })
    }

    /// The name without folders and ending: it prefixes component names.
    fn name(&self) -> String {
        let stem = Path::new(&self.plugin).file_stem().map(|s| s.to_string_lossy().into_owned());
        stem.unwrap_or_else(|| self.plugin.clone())
    }

    fn refused(&self, source: LoadError) -> RunError {
        RunError::PluginLoad { role: self.role, name: self.plugin.clone(), source }
    }
}

/// The recipe's terms in the host's words. `log` needs no grant, so it is not passed on.
fn terms(plugin: &PluginUse, recipe: &Recipe) -> Result<Use, LoadError> {
    let grants = plugin.grants.iter().map(ToString::to_string);
    let pin = plugin.digest.as_deref().map(str::parse::<Digest>).transpose();
    Ok(Use {
        config: plugin.config.clone().into(),
        grants: Grants::parse(grants).map_err(|e| LoadError::Config(e.to_string()))?,
        limits: Limits {
            time: plugin.limits.time.0,
            wait: plugin.limits.wait.0,
            memory: usize::try_from(plugin.limits.memory.0).unwrap_or(usize::MAX),
            store_bytes: usize::try_from(plugin.limits.store.0).unwrap_or(usize::MAX),
            ..Limits::default()
        },
        pin: pin.map_err(|e| LoadError::Config(e.to_string()))?,
        profile: match plugin.profile {
            whet_recipe::Profile::Fast => whet_plugin_host::Profile::Fast,
            whet_recipe::Profile::Deterministic => whet_plugin_host::Profile::Deterministic,
        },
        seed: recipe.seed,
        run: run_name(recipe),
    })
}

/// The run by which the host keeps apart what plugins store.
pub fn run_name(recipe: &Recipe) -> String {
    recipe.run.dir.display().to_string()
}
