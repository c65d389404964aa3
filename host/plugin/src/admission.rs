//! Who may come in: everything that is decided about a component before it is compiled.
//!
//! The bytes are a stranger's. They are measured, walked once against caps that keep compilation
//! cheap, validated in full, and only then are their imports and exports believed. Nothing here
//! compiles or runs anything.

use crate::{AdmissionCaps, Grants, LoadError};
use wasmparser::{
    CanonicalFunction, CanonicalOption, ComponentExternalKind, ComponentType, ComponentTypeDeclaration,
    ComponentTypeRef, CoreType, Encoding, InstanceTypeDeclaration, Operator, Parser, Payload, TypeRef,
    Validator, WasmFeatures,
};

/// The package of the contract, without its version.
const PACKAGE: &str = "whet:plugin/";
/// Versions of the contract that this host serves: 0.1 and its compatible successors.
const VERSION: &str = "0.1.";
/// Interfaces that a plugin may import without a grant.
const FREE: [&str; 2] = ["types", "log"];
/// Interfaces that a grant opens.
const GRANTED: [&str; 4] = ["random", "store", "judge", "http"];

/// Most entries that a table may start with: what a slot of the engine's pool holds, and the same
/// where there is no pool.
pub(crate) const TABLE_ENTRIES: u64 = 200_000;

/// What a plugin does for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Scores rollouts.
    Reward,
    /// Chooses rows and groups.
    Filter,
    /// Is a world that the model acts in.
    Environment,
    /// Turns rewards into advantages.
    Advantage,
}

impl Kind {
    /// The kind's name, which is also its interface's.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Reward => "reward",
            Kind::Filter => "filter",
            Kind::Environment => "environment",
            Kind::Advantage => "advantage",
        }
    }

    /// A plugin of this kind, in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Kind::Reward => "a reward plugin",
            Kind::Filter => "a filter plugin",
            Kind::Environment => "an environment plugin",
            Kind::Advantage => "an advantage plugin",
        }
    }

    /// The world that plugins of this kind target, as in `whet:plugin/reward-plugin`.
    pub fn world(self) -> &'static str {
        match self {
            Kind::Reward => "whet:plugin/reward-plugin",
            Kind::Filter => "whet:plugin/filter-plugin",
            Kind::Environment => "whet:plugin/environment-plugin",
            Kind::Advantage => "whet:plugin/advantage-plugin",
        }
    }

    const ALL: [Kind; 4] = [Kind::Reward, Kind::Filter, Kind::Environment, Kind::Advantage];
}

/// What a valid component's surface says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Surface {
    /// Names of all imports, in the component's order.
    pub imports: Vec<String>,
    /// Names of all exports, in the component's order.
    pub exports: Vec<String>,
    /// Kinds whose interface it exports.
    pub kinds: Vec<Kind>,
    /// It exports `isolated`: each sample of a reward has a call of its own.
    pub isolated: bool,
    /// Functions of all core modules.
    pub functions: u64,
}

impl Surface {
    /// It imports a capability whose answers come from others.
    pub fn asks(&self) -> bool {
        self.imports.iter().any(|import| matches!(interface(import), Some("judge" | "http")))
    }
}

/// Everything that can be said about bytes without compiling them: the kinds of plugin that they
/// are. Imports are judged against a recipe's grants only when a plugin is loaded.
pub fn validate(bytes: &[u8], caps: &AdmissionCaps) -> Result<Vec<Kind>, LoadError> {
    examine(bytes, caps).map(|surface| surface.kinds)
}

/// Measures, walks and validates; imports are not judged yet.
pub(crate) fn examine(bytes: &[u8], caps: &AdmissionCaps) -> Result<Surface, LoadError> {
    if bytes.is_empty() {
        return Err(LoadError::Empty);
    }
    if bytes.len() > caps.bytes {
        return Err(LoadError::TooLarge { size: bytes.len(), limit: caps.bytes });
    }
    if bytes.starts_with(b"\x7fELF") || wasmtime::Engine::detect_precompiled(bytes).is_some() {
        return Err(LoadError::Precompiled);
    }
    const MAGIC: &[u8] = b"\0asm";
    if !bytes.starts_with(MAGIC) {
        return Err(if MAGIC.starts_with(bytes) { LoadError::Truncated } else { LoadError::NotWasm });
    }
    let surface = walk(bytes, caps)?;
    Validator::new_with_features(FEATURES).validate_all(bytes).map_err(|e| invalid(&e))?;
    surface.ok_or(LoadError::NotAComponent)
}

/// Refuses imports that no grant opens, and those that these grants do not.
pub(crate) fn check_imports(surface: &Surface, grants: &Grants) -> Result<(), LoadError> {
    for import in &surface.imports {
        if import.contains("@0.3") && import.starts_with("wasi:") {
            return Err(LoadError::UnsupportedWorld {
                found: format!(
                    "built for asynchronous WASI (it imports `{}`)",
                    crate::log::sanitise(import, 200)
                ),
                needed: "a plugin without WASI".to_owned(),
            });
        }
        match interface(import) {
            Some(name) if FREE.contains(&name) => {}
            Some(name) if GRANTED.contains(&name) => {
                if !grants.allow(name) {
                    return Err(LoadError::NotGranted(name.to_owned()));
                }
            }
            _ => return Err(LoadError::ForbiddenImport(crate::log::sanitise(import, 200))),
        }
    }
    Ok(())
}

/// The interface of the contract that `name` stands for, as in `log` for `whet:plugin/log@0.1.0`.
fn interface(name: &str) -> Option<&str> {
    let (interface, version) = name.strip_prefix(PACKAGE)?.split_once('@')?;
    // The walk marks what is not an interface behind its name.
    (version.starts_with(VERSION) && !version.contains(' ')).then_some(interface)
}

/// What the engines of this crate accept, no more; `engine` configures the same set.
const FEATURES: WasmFeatures = WasmFeatures::MUTABLE_GLOBAL
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::REFERENCE_TYPES)
    .union(WasmFeatures::MULTI_VALUE)
    .union(WasmFeatures::BULK_MEMORY)
    .union(WasmFeatures::SIMD)
    .union(WasmFeatures::RELAXED_SIMD)
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::FLOATS)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::COMPONENT_MODEL);

/// Running totals of the walk.
struct Tally<'c> {
    caps: &'c AdmissionCaps,
    functions: u64,
    types: u64,
    definitions: u64,
    custom_bytes: u64,
    work: u64,
}

impl Tally<'_> {
    fn functions(&mut self, n: u32) -> Result<(), LoadError> {
        count(&mut self.functions, n.into(), self.caps.functions, "functions")
    }

    fn types(&mut self, n: u64) -> Result<(), LoadError> {
        count(&mut self.types, n, self.caps.types, "types")
    }

    fn definitions(&mut self, n: u32) -> Result<(), LoadError> {
        count(
            &mut self.definitions,
            n.into(),
            self.caps.definitions,
            "instances, aliases, imports and exports",
        )
    }

    fn custom(&mut self, n: usize) -> Result<(), LoadError> {
        count(&mut self.custom_bytes, n as u64, self.caps.custom_bytes, "bytes in custom sections")
    }
}

fn count(total: &mut u64, more: u64, limit: u64, what: &'static str) -> Result<(), LoadError> {
    *total = total.saturating_add(more);
    if *total > limit {
        return Err(LoadError::TooComplex { what, found: *total, limit });
    }
    Ok(())
}

/// One pass over every section of every level. `None` for a core module.
fn walk(bytes: &[u8], caps: &AdmissionCaps) -> Result<Option<Surface>, LoadError> {
    let mut tally = Tally { caps, functions: 0, types: 0, definitions: 0, custom_bytes: 0, work: 0 };
    let (mut imports, mut exports) = (Vec::new(), Vec::new());
    let mut depth = 0usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(|e| invalid(&e))? {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => return Ok(None),
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                depth += 1;
                if depth > caps.depth {
                    let (found, limit) = (depth as u64, caps.depth as u64);
                    return Err(LoadError::TooComplex { what: "levels", found, limit });
                }
                tally.definitions(1)?;
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::FunctionSection(section) => tally.functions(section.count())?,
            Payload::CodeSectionEntry(body) => function(&body, &mut tally)?,
            Payload::TypeSection(section) => tally.types(section.count().into())?,
            Payload::CoreTypeSection(section) => {
                for ty in section {
                    tally.types(core_types(&ty.map_err(|e| invalid(&e))?))?;
                }
            }
            Payload::ComponentTypeSection(section) => {
                for ty in section {
                    let mut total = 0;
                    component_types(&ty.map_err(|e| invalid(&e))?, &mut total)?;
                    tally.types(total)?;
                }
            }
            Payload::ImportSection(section) => {
                tally.definitions(section.count())?;
                for import in section.into_imports() {
                    match import.map_err(|e| invalid(&e))?.ty {
                        TypeRef::Memory(ty) => memory(ty)?,
                        TypeRef::Table(ty) => table(&ty)?,
                        _ => {}
                    }
                }
            }
            Payload::MemorySection(section) => {
                for ty in section {
                    memory(ty.map_err(|e| invalid(&e))?)?;
                }
            }
            Payload::TableSection(section) => {
                for entry in section {
                    table(&entry.map_err(|e| invalid(&e))?.ty)?;
                }
            }
            Payload::ExportSection(section) => tally.definitions(section.count())?,
            Payload::InstanceSection(section) => tally.definitions(section.count())?,
            Payload::ComponentInstanceSection(section) => tally.definitions(section.count())?,
            Payload::ComponentAliasSection(section) => tally.definitions(section.count())?,
            Payload::ComponentCanonicalSection(section) => {
                tally.functions(section.count())?;
                for function in section {
                    canonical(&function.map_err(|e| invalid(&e))?)?;
                }
            }
            Payload::ComponentImportSection(section) => {
                tally.definitions(section.count())?;
                for import in section {
                    let import = import.map_err(|e| invalid(&e))?;
                    if depth == 0 {
                        let is_instance = matches!(import.ty, ComponentTypeRef::Instance(_));
                        let name = import.name.name;
                        imports.push(if is_instance {
                            name.to_owned()
                        } else {
                            format!("{name} (not an interface)")
                        });
                    }
                }
            }
            Payload::ComponentExportSection(section) => {
                tally.definitions(section.count())?;
                for export in section {
                    let export = export.map_err(|e| invalid(&e))?;
                    if depth == 0 && export.kind == ComponentExternalKind::Instance {
                        exports.push(export.name.name.to_owned());
                    }
                }
            }
            Payload::CustomSection(section) => tally.custom(section.data().len() + section.name().len())?,
            Payload::ComponentStartSection { .. } => {
                return Err(LoadError::UnsupportedFeature("component start functions"));
            }
            _ => {}
        }
    }
    let kinds = Kind::ALL.into_iter().filter(|k| exports.iter().any(|e| interface(e) == Some(k.as_str())));
    let kinds = kinds.collect();
    let isolated = exports.iter().any(|e| interface(e) == Some("isolated"));
    Ok(Some(Surface { imports, exports, kinds, isolated, functions: tally.functions }))
}

/// Caps what makes the compiler's work more than linear: long bodies, wide branch tables, many calls
/// (values live across all of them are split again and again) and many locals in many blocks.
fn function(body: &wasmparser::FunctionBody<'_>, tally: &mut Tally<'_>) -> Result<(), LoadError> {
    let range = body.range();
    let (found, limit) = (range.end.saturating_sub(range.start), tally.caps.function_bytes);
    if found > limit {
        return Err(LoadError::TooComplex { what: "bytes in one function", found, limit });
    }
    let mut locals = 0u64;
    for group in body.get_locals_reader().map_err(|e| invalid(&e))? {
        locals += u64::from(group.map_err(|e| invalid(&e))?.0);
    }
    let (mut calls, mut blocks, mut targets) = (0u64, 0u64, 0u64);
    for op in body.get_operators_reader().map_err(|e| invalid(&e))? {
        match op.map_err(|e| invalid(&e))? {
            Operator::BrTable { targets: table } => {
                let more = table.len().into();
                count(&mut targets, more, tally.caps.branch_targets, "branch targets in one function")?;
            }
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } | Operator::Else => {
                blocks += 1
            }
            // Instructions that become calls of the runtime are calls to the compiler.
            Operator::Call { .. }
            | Operator::CallIndirect { .. }
            | Operator::ReturnCall { .. }
            | Operator::ReturnCallIndirect { .. }
            | Operator::MemoryGrow { .. }
            | Operator::MemoryCopy { .. }
            | Operator::MemoryFill { .. }
            | Operator::MemoryInit { .. }
            | Operator::DataDrop { .. }
            | Operator::ElemDrop { .. }
            | Operator::TableGet { .. }
            | Operator::TableSet { .. }
            | Operator::TableGrow { .. }
            | Operator::TableFill { .. }
            | Operator::TableCopy { .. }
            | Operator::TableInit { .. }
            | Operator::RefFunc { .. } => calls += 1,
            _ => {}
        }
    }
    let work = calls.saturating_mul(calls).saturating_add(blocks.saturating_mul(locals).saturating_mul(20));
    count(&mut tally.work, work, tally.caps.work, "calls, or blocks and locals, in long functions")
}

fn core_types(ty: &CoreType<'_>) -> u64 {
    match ty {
        CoreType::Rec(group) => group.types().len() as u64,
        CoreType::Module(declarations) => 1 + declarations.len() as u64,
    }
}

/// Counts a component type and what it declares within; the parser has bounded the nesting.
fn component_types(ty: &ComponentType<'_>, total: &mut u64) -> Result<(), LoadError> {
    *total += 1;
    match ty {
        ComponentType::Func(function) if function.async_ => return Err(asynchronous()),
        ComponentType::Component(declarations) => {
            for declaration in declarations {
                match declaration {
                    ComponentTypeDeclaration::Type(ty) => component_types(ty, total)?,
                    ComponentTypeDeclaration::CoreType(ty) => *total += core_types(ty),
                    _ => *total += 1,
                }
            }
        }
        ComponentType::Instance(declarations) => {
            for declaration in declarations {
                match declaration {
                    InstanceTypeDeclaration::Type(ty) => component_types(ty, total)?,
                    InstanceTypeDeclaration::CoreType(ty) => *total += core_types(ty),
                    _ => *total += 1,
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn memory(ty: wasmparser::MemoryType) -> Result<(), LoadError> {
    match (ty.shared, ty.memory64) {
        (true, _) => Err(LoadError::UnsupportedFeature("shared memory")),
        (_, true) => Err(LoadError::UnsupportedFeature("64-bit memory")),
        _ => Ok(()),
    }
}

fn table(ty: &wasmparser::TableType) -> Result<(), LoadError> {
    match (ty.shared, ty.table64) {
        (true, _) => Err(LoadError::UnsupportedFeature("shared tables")),
        (_, true) => Err(LoadError::UnsupportedFeature("64-bit tables")),
        _ => count(&mut 0, ty.initial, TABLE_ENTRIES, "entries in one table"),
    }
}

/// Only synchronous lifts and lowers with UTF-8 texts, and plain resources.
fn canonical(function: &CanonicalFunction) -> Result<(), LoadError> {
    let options = match function {
        CanonicalFunction::Lift { options, .. } | CanonicalFunction::Lower { options, .. } => options,
        CanonicalFunction::ResourceNew { .. }
        | CanonicalFunction::ResourceDrop { .. }
        | CanonicalFunction::ResourceRep { .. } => return Ok(()),
        CanonicalFunction::ThreadSpawnRef { .. }
        | CanonicalFunction::ThreadSpawnIndirect { .. }
        | CanonicalFunction::ThreadAvailableParallelism => {
            return Err(LoadError::UnsupportedFeature("threads"));
        }
        _ => return Err(asynchronous()),
    };
    for option in options {
        match option {
            CanonicalOption::Async | CanonicalOption::Callback(_) => return Err(asynchronous()),
            CanonicalOption::UTF16 | CanonicalOption::CompactUTF16 => {
                return Err(LoadError::UnsupportedFeature("texts that are not UTF-8"));
            }
            CanonicalOption::Gc | CanonicalOption::CoreType(_) => {
                return Err(LoadError::UnsupportedFeature("garbage collection"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn asynchronous() -> LoadError {
    LoadError::UnsupportedWorld {
        found: "built with asynchronous functions".to_owned(),
        needed: "a plugin with synchronous functions".to_owned(),
    }
}

fn invalid(error: &wasmparser::Error) -> LoadError {
    let message = error.message();
    if message.contains("unexpected end-of-file") {
        return LoadError::Truncated;
    }
    // The validator's words for a proposal that is off.
    const FEATURES: [(&str, &str); 5] = [
        ("threads must be enabled", "threads"),
        ("threads support is not enabled", "threads"),
        ("exceptions", "exceptions"),
        ("gc proposal", "garbage collection"),
        ("async", "asynchronous functions"),
    ];
    if message.contains("not enabled") || message.contains("must be enabled") {
        for (words, feature) in FEATURES {
            if message.contains(words) {
                return LoadError::UnsupportedFeature(feature);
            }
        }
    }
    LoadError::Invalid(crate::log::sanitise(&error.to_string(), 300))
}

/// The imports that need a grant, in the component's order.
pub(crate) fn grants_needed(surface: &Surface) -> Vec<String> {
    let names = surface.imports.iter().filter_map(|import| interface(import));
    names.filter(|name| GRANTED.contains(name)).map(str::to_owned).collect()
}
