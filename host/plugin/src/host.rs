//! The host of all plugins of a process: engines, compiled code, and the way in.

use crate::admission::{self, Surface};
use crate::bindings::advantage::EstimatingIndices;
use crate::bindings::base::exports::whet::plugin::meta;
use crate::bindings::base::whet::plugin as contract;
use crate::bindings::filter::FilteringIndices;
use crate::bindings::isolated::IsolatingIndices;
use crate::bindings::reward::RewardingIndices;
use crate::cache::Cache;
use crate::call::{Guest, mistyped};
use crate::engine::Size;
use crate::log::{LogSink, sanitise};
use crate::schema::{self, SchemaError};
use crate::state::{CallState, Shared};
use crate::stats::Counters;
use crate::store::Values;
use crate::{
    AdmissionCaps, AdvantagePlugin, Digest, FilterPlugin, Grants, Kind, Limits, LoadError, Profile,
    RewardPlugin, engine,
};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use wasmtime::Engine;
use wasmtime::component::{HasSelf, Instance, Linker};
use whet_capability::{Cancel, Services};

/// Longest configuration, as JSON text.
const CONFIG_BYTES: usize = 1 << 20;
/// Longest text of a descriptor that the host keeps.
const NAME_BYTES: usize = 128;
const SUMMARY_BYTES: usize = 1 << 10;
/// Most reward components of a plugin.
const COMPONENTS: usize = 256;

/// Settings of a [`Host`].
#[derive(Clone)]
pub struct HostOptions {
    /// Where compiled components are kept between processes; nowhere when absent. Made for this user
    /// alone; a directory that others can reach is not used.
    pub cache_dir: Option<PathBuf>,
    /// How often the clock looks at running guests: a guest stops within its deadline and two ticks.
    pub tick: Duration,
    /// Instances that the pool of an engine holds at once.
    pub instances: u32,
    /// Caps on a component before it is compiled.
    pub admission: AdmissionCaps,
    /// Where plugins' log lines go; nowhere when absent.
    pub log: Option<LogSink>,
    /// Who answers `judge` and `http`; what is absent is denied.
    pub services: Services,
    /// Ends all calls, when pulled: those that compute and those that wait.
    pub cancel: Cancel,
}

impl Default for HostOptions {
    fn default() -> Self {
        HostOptions {
            cache_dir: None,
            tick: Duration::from_millis(10),
            instances: 256,
            admission: AdmissionCaps::default(),
            log: None,
            services: Services::default(),
            cancel: Cancel::default(),
        }
    }
}

/// How a recipe uses a plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct Use {
    /// The plugin's configuration, a JSON object.
    pub config: Value,
    /// What it may ask of the host.
    pub grants: Grants,
    /// What a call of it may cost.
    pub limits: Limits,
    /// The only component that will do, if the recipe says so.
    pub pin: Option<Digest>,
    /// The engine.
    pub profile: Profile,
    /// The run's seed, for `random`.
    pub seed: u64,
    /// The run's name: plugins of equal digest share their `store` within a run, never across runs.
    pub run: String,
}

impl Default for Use {
    fn default() -> Self {
        Use {
            config: Value::Object(Map::new()),
            grants: Grants::none(),
            limits: Limits::default(),
            pin: None,
            profile: Profile::default(),
            seed: 0,
            run: String::new(),
        }
    }
}

/// How far a second call with the same input is promised to give the same output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Determinism {
    /// Of the input alone.
    Pure,
    /// Of the input and the run's seed.
    Seeded,
    /// Only when what the host answered is played back.
    Recorded,
}

/// What a plugin says about itself, checked and made printable.
#[derive(Clone, Debug, PartialEq)]
pub struct Descriptor {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it does, in a sentence.
    pub summary: String,
    /// JSON Schema of its configuration.
    pub config_schema: Value,
    /// Reward components that it may return.
    pub components: Vec<String>,
    /// How repeatable its results are.
    pub determinism: Determinism,
    /// A sample's score depends on its neighbours.
    pub group_wise: bool,
}

/// What can be said about a component without giving it anything.
#[derive(Clone, Debug, PartialEq)]
pub struct Inspection {
    /// What it is for; more than one where it exports several interfaces.
    pub kinds: Vec<Kind>,
    /// The world that it targets, as in `whet:plugin/reward-plugin`.
    pub world: &'static str,
    /// Its imports, in its order; these are all that it can ask of the host.
    pub imports: Vec<String>,
    /// The imports that need a grant, as in `random`.
    pub needs_grants: Vec<String>,
    /// Bytes of the file.
    pub size: usize,
    /// Functions of all its core modules.
    pub functions: u64,
    /// Its identity.
    pub digest: Digest,
    /// Each sample of a reward has a call, hence an instance, of its own.
    pub isolated: bool,
    /// What it says about itself.
    pub descriptor: Descriptor,
}

/// What the plugins of a run keep in `store`: by digest, then by key.
pub type Kept = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

/// What the plugins of one digest keep in one run.
type KeptValues = Arc<Mutex<Values>>;

/// An engine and what its guests can import.
struct Machine {
    engine: Engine,
    linker: Linker<CallState>,
}

/// The host of one tenant's plugins, which share its pool of instances. Plugins that were loaded
/// may outlive it.
pub struct Host {
    options: HostOptions,
    /// By profile and size of the guest.
    machines: [OnceLock<Result<Machine, LoadError>>; 4],
    cache: Cache,
    values: Mutex<HashMap<(String, Digest), KeptValues>>,
}

impl Host {
    /// A host without plugins; engines start with their first plugin.
    pub fn new(options: HostOptions) -> Self {
        Host {
            cache: Cache::new(options.cache_dir.as_deref()),
            options,
            machines: Default::default(),
            values: Mutex::default(),
        }
    }

    /// Examines a component: admits it, compiles it and lets it describe itself, under default limits
    /// and with `judge` and `http` denying everything.
    pub fn inspect(&self, bytes: &[u8]) -> Result<Inspection, LoadError> {
        let surface = admission::examine(bytes, &self.options.admission)?;
        let needs_grants = admission::grants_needed(&surface);
        let every = ["random", "store", "judge", "http:inspect.invalid"];
        let grants = Grants::parse(every).unwrap_or_default();
        admission::check_imports(&surface, &grants)?;
        let world = surface.kinds.first().map(|k| k.world());
        let Some(world) = world else { return Err(LoadError::wrong_world(&[], Kind::Reward)) };
        let usage = Use { grants, ..Use::default() };
        let digest = Digest::of(bytes);
        // What it stores is seen by no plugin, and nobody is asked on its behalf.
        let guest =
            self.guest(bytes, &surface, digest, &usage, KeptValues::default(), Services::default())?;
        let descriptor = descriptor(guest.describe(|_, _| Ok(()))?, &surface)?;
        Ok(Inspection {
            world,
            imports: surface.imports.iter().map(|i| sanitise(i, 200)).collect(),
            needs_grants,
            size: bytes.len(),
            functions: surface.functions,
            isolated: surface.isolated,
            digest,
            descriptor,
            kinds: surface.kinds,
        })
    }

    /// Loads a reward plugin.
    pub fn reward(&self, bytes: &[u8], usage: &Use) -> Result<RewardPlugin, LoadError> {
        let (guest, surface) = self.admit(bytes, usage, Kind::Reward)?;
        let indices = RewardingIndices::new(guest.pre()).map_err(|e| mistyped(&e))?;
        let isolated = surface.isolated.then(|| IsolatingIndices::new(guest.pre()));
        let isolated = isolated.transpose().map_err(|e| mistyped(&e))?;
        let descriptor = prepare(&guest, &surface, usage, |store, instance| {
            indices.load(&mut *store, instance)?;
            isolated.as_ref().map_or(Ok(()), |isolated| isolated.load(store, instance).map(drop))
        })?;
        if isolated.is_some() && descriptor.group_wise {
            return Err(LoadError::Descriptor("a reward cannot be isolated and group-wise at once".into()));
        }
        if descriptor.components.is_empty() {
            return Err(LoadError::Descriptor("a reward plugin must declare its components".into()));
        }
        Ok(RewardPlugin { guest, indices, isolated, descriptor })
    }

    /// Loads a filter plugin.
    pub fn filter(&self, bytes: &[u8], usage: &Use) -> Result<FilterPlugin, LoadError> {
        let (guest, surface) = self.admit(bytes, usage, Kind::Filter)?;
        let indices = FilteringIndices::new(guest.pre()).map_err(|e| mistyped(&e))?;
        let descriptor =
            prepare(&guest, &surface, usage, |store, instance| indices.load(store, instance).map(drop))?;
        Ok(FilterPlugin { guest, indices, descriptor })
    }

    /// Loads an advantage plugin.
    pub fn advantage(&self, bytes: &[u8], usage: &Use) -> Result<AdvantagePlugin, LoadError> {
        let (guest, surface) = self.admit(bytes, usage, Kind::Advantage)?;
        let indices = EstimatingIndices::new(guest.pre()).map_err(|e| mistyped(&e))?;
        let descriptor =
            prepare(&guest, &surface, usage, |store, instance| indices.load(store, instance).map(drop))?;
        Ok(AdvantagePlugin { guest, indices, descriptor })
    }

    fn admit(&self, bytes: &[u8], usage: &Use, kind: Kind) -> Result<(Guest, Surface), LoadError> {
        let surface = admission::examine(bytes, &self.options.admission)?;
        let digest = Digest::of(bytes);
        if let Some(pinned) = usage.pin.filter(|pin| *pin != digest) {
            return Err(LoadError::DigestMismatch { pinned, found: digest });
        }
        admission::check_imports(&surface, &usage.grants)?;
        if !surface.kinds.contains(&kind) {
            return Err(LoadError::wrong_world(&surface.kinds, kind));
        }
        let (values, services) = (self.values(&usage.run, digest), self.options.services.clone());
        Ok((self.guest(bytes, &surface, digest, usage, values, services)?, surface))
    }

    fn guest(
        &self,
        bytes: &[u8],
        surface: &Surface,
        digest: Digest,
        usage: &Use,
        values: KeptValues,
        services: Services,
    ) -> Result<Guest, LoadError> {
        let config = config_text(&usage.config)?;
        let machine = self.machine(usage.profile, Size::of(bytes.len()))?;
        let time = self.options.admission.compile_time;
        let component = self.cache.component(&machine.engine, usage.profile, digest, bytes, time)?;
        let pre = machine.linker.instantiate_pre(&component).map_err(|e| mistyped(&e))?;
        let shared = Shared {
            limits: usage.limits.clone(),
            digest,
            seed: usage.seed,
            name: OnceLock::new(),
            sink: self.options.log.clone(),
            counters: Counters::default(),
            values,
            asks: surface.asks(),
            hosts: usage.grants.hosts(),
            grants: usage.grants.clone(),
            services,
            cancel: self.options.cancel.clone(),
        };
        Guest::new(machine.engine.clone(), usage.profile, pre, shared, config)
    }

    /// What the plugins of `run` keep now, to be written down with the rest of its state.
    pub fn kept(&self, run: &str) -> Kept {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let of_run = values.iter().filter(|((of, _), _)| of == run);
        let entries = of_run.map(|((_, digest), values)| {
            (digest.to_string(), values.lock().unwrap_or_else(PoisonError::into_inner).entries())
        });
        entries.filter(|(_, entries)| !entries.is_empty()).collect()
    }

    /// Lets the plugins of `run` keep what they kept when [`Host::kept`] was asked, and nothing else.
    pub fn restore(&self, run: &str, mut kept: Kept) {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        for ((_, digest), values) in values.iter().filter(|((of, _), _)| of == run) {
            let entries = kept.remove(&digest.to_string()).unwrap_or_default();
            *values.lock().unwrap_or_else(PoisonError::into_inner) = Values::restored(entries);
        }
    }

    fn values(&self, run: &str, digest: Digest) -> KeptValues {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.entry((run.to_owned(), digest)).or_default().clone()
    }

    fn machine(&self, profile: Profile, size: Size) -> Result<&Machine, LoadError> {
        let index = match (profile, size) {
            (Profile::Fast, Size::Small) => 0,
            (Profile::Deterministic, Size::Small) => 1,
            (Profile::Fast, Size::Large) => 2,
            (Profile::Deterministic, Size::Large) => 3,
        };
        let machine = self.machines[index].get_or_init(|| {
            let engine = engine::start(profile, size, self.options.instances, self.options.tick)?;
            let linker = linker(&engine).map_err(|e| LoadError::Engine(e.to_string()))?;
            Ok(Machine { engine, linker })
        });
        machine.as_ref().map_err(Clone::clone)
    }
}

/// Everything that a guest may import; admission decides who may.
fn linker(engine: &Engine) -> wasmtime::Result<Linker<CallState>> {
    type Of = HasSelf<CallState>;
    let mut linker = Linker::new(engine);
    contract::types::add_to_linker::<_, Of>(&mut linker, |state| state)?;
    contract::log::add_to_linker::<_, Of>(&mut linker, |state| state)?;
    contract::random::add_to_linker::<_, Of>(&mut linker, |state| state)?;
    contract::store::add_to_linker::<_, Of>(&mut linker, |state| state)?;
    contract::judge::add_to_linker::<_, Of>(&mut linker, |state| state)?;
    contract::http::add_to_linker::<_, Of>(&mut linker, |state| state)?;
    Ok(linker)
}

/// Lets the plugin describe itself, checks the configuration, and lets the plugin check it too.
fn prepare(
    guest: &Guest,
    surface: &Surface,
    usage: &Use,
    load: impl FnOnce(&mut wasmtime::Store<CallState>, &Instance) -> wasmtime::Result<()>,
) -> Result<Descriptor, LoadError> {
    let descriptor = descriptor(guest.describe(load)?, surface)?;
    // The first load names it; a plugin says the same each time.
    let _ = guest.shared.name.set(descriptor.name.clone());
    schema::check(&descriptor.config_schema, &usage.config).map_err(schema_error)?;
    guest.try_configure()?;
    Ok(descriptor)
}

fn schema_error(error: SchemaError) -> LoadError {
    match error {
        SchemaError::Schema(text) => LoadError::Descriptor(text),
        SchemaError::Config(text) => LoadError::Config(text),
    }
}

fn config_text(config: &Value) -> Result<String, LoadError> {
    if !config.is_object() {
        return Err(LoadError::Config("it must be an object".into()));
    }
    let text = config.to_string();
    if text.len() > CONFIG_BYTES {
        return Err(LoadError::Config(format!("it is longer than {CONFIG_BYTES} bytes")));
    }
    Ok(text)
}

/// Names become metrics and reach terminals, so they are checked once, here.
fn descriptor(found: meta::Descriptor, surface: &Surface) -> Result<Descriptor, LoadError> {
    let bad = |text: String| Err(LoadError::Descriptor(text));
    if !is_name(&found.name) {
        return bad(format!(
            "`{}` cannot be a name: use letters, digits, `-`, `_`, `.`",
            sanitise(&found.name, 100)
        ));
    }
    if found.components.len() > COMPONENTS {
        return bad(format!("more than {COMPONENTS} components"));
    }
    let mut seen = HashSet::new();
    for component in &found.components {
        let shown = sanitise(component, 100);
        if !component.split(':').all(is_name) || component.len() > NAME_BYTES {
            return bad(format!(
                "`{shown}` cannot be a component's name: use letters, digits, `-`, `_`, `.`, and `:` between them"
            ));
        }
        if !seen.insert(component) {
            return bad(format!("component `{shown}` is declared twice"));
        }
    }
    if found.group_wise && !surface.kinds.contains(&Kind::Reward) {
        return bad("only rewards can be group-wise".into());
    }
    Ok(Descriptor {
        config_schema: schema::parse(&found.config_schema).map_err(schema_error)?,
        version: sanitise(&found.version, NAME_BYTES),
        summary: sanitise(&found.summary, SUMMARY_BYTES),
        determinism: match found.determinism {
            meta::Determinism::Pure => Determinism::Pure,
            meta::Determinism::Seeded => Determinism::Seeded,
            meta::Determinism::Recorded => Determinism::Recorded,
        },
        group_wise: found.group_wise,
        name: found.name,
        components: found.components,
    })
}

fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}
