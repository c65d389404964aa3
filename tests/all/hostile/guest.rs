//! Guests as component text: one template per world, whose parts a case replaces.
//!
//! A guest is two core modules. `libc` has the memory, a table, the fixed texts and the allocator;
//! `main` has the contract's functions and imports what the component lowers for it. That order
//! lets a case spoil each part alone. Memory: texts from 16, descriptor at 512, the result of
//! `configure` at 1024, heap from 4096.

use super::contract;
use whet_plugin_host::Kind;

/// What a guest imports from the host, lowered for its `main`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// `$log (level, text, length)`.
    Log,
    /// `$random () -> i64`.
    Random,
    /// `$get (key, length, to)` and `$set (key, length, value, length, to)`.
    Store,
    /// `$chat (messages, length, max-tokens, temperature, route?, route, length, to)`.
    Judge,
    /// `$fetch (method, length, url, length, headers, length, body, length, to)`.
    Http,
    /// `$media-new (mime, length, data, length) -> handle`, `$media-mime (handle, to)`, `$media-drop (handle)`.
    Media,
}

/// The parts of a guest.
#[derive(Clone, Debug)]
pub struct Guest {
    pub kind: Kind,
    pub name: &'static str,
    pub group_wise: bool,
    pub imports: Vec<Capability>,
    /// Further core functions for `main`: name, core type. `outside` defines them.
    pub lowered: Vec<(&'static str, &'static str)>,
    /// Items of the component between `libc` and `main`.
    pub outside: String,
    /// Limits of the memory, in pages.
    pub memory: &'static str,
    /// Further items of `libc`.
    pub libc: String,
    /// Body of the allocator: `(param $old $old-bytes $align $bytes) (local $at) (result i32)`.
    pub realloc: String,
    /// Further items of `main`.
    pub main: String,
    pub describe: String,
    pub configure: String,
    /// Body of the world's function: see [`Guest::function`].
    pub call: String,
    /// Body of what runs after the result was read.
    pub post_return: Option<&'static str>,
}

/// Code that scores every sample with `value`.
pub fn scores(value: &str) -> String {
    format!("(call $grades (local.get $n) {value})")
}

/// A reward's result of ones, at `$ret` with its outcomes at `$out`, spoilt by `code`.
pub fn spoilt(code: &str) -> String {
    format!(
        "(local.set $ret (call $grades (local.get $n) (f64.const 1)))
         (local.set $out (i32.load offset=4 (local.get $ret)))
         {code}
         (local.get $ret)"
    )
}

/// Code that never ends.
pub const FOREVER: &str = "(loop $forever (br $forever)) (unreachable)";

/// Obeys the first byte of each response: `1` scores 1, `L` loops, `T` traps, others score 0.5.
pub const OBEDIENT: &str = "
    (local.set $ret (call $grades (local.get $n) (f64.const 0.5)))
    (local.set $out (i32.load offset=4 (local.get $ret)))
    (block $done
        (loop $each
            (br_if $done (i32.eqz (local.get $n)))
            (local.set $a (i32.load8_u (i32.load offset=16 (local.get $samples))))
            (if (i32.eq (local.get $a) (i32.const 49)) (then (call $grade (local.get $out) (f64.const 1))))
            (if (i32.eq (local.get $a) (i32.const 76)) (then (loop $forever (br $forever))))
            (if (i32.eq (local.get $a) (i32.const 84)) (then unreachable))
            (if (i32.eq (local.get $a) (i32.const 77))
                (then (loop $more (br_if $more (i32.ne (i32.const -1) (memory.grow (i32.const 16))))) unreachable))
            (if (i32.eq (local.get $a) (i32.const 78)) (then (call $grade (local.get $out) (f64.const nan))))
            (local.set $samples (i32.add (local.get $samples) (i32.const 48)))
            (local.set $out (i32.add (local.get $out) (i32.const 32)))
            (local.set $n (i32.sub (local.get $n) (i32.const 1)))
            (br $each)))
    (local.get $ret)";

/// What the guest logs from address 32, 25 bytes.
pub const LOGGED: &str = "panicked\nat \u{1b}[31mguest.rs";

const REALLOC: &str = "
    (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
    (global.set $heap (i32.add (local.get $at) (local.get $bytes)))
    (block $room
        (br_if $room (i32.le_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536))))
        (br_if $room (i32.ne (i32.const -1)
            (memory.grow (i32.add (i32.const 1) (i32.shr_u (local.get $bytes) (i32.const 16))))))
        unreachable)
    (local.get $at)";

/// Fills results of each world.
const RESULTS: &str = "
    (func $new (param $bytes i32) (result i32)
        (call $realloc (i32.const 0) (i32.const 0) (i32.const 8) (local.get $bytes)))
    ;; One outcome at $to: scored, one component `correct`, no spans, no note.
    (func $grade (param $to i32) (param $value f64) (local $component i32)
        (local.set $component (call $new (i32.const 16)))
        (i32.store (local.get $component) (i32.const 16))
        (i32.store offset=4 (local.get $component) (i32.const 7))
        (f64.store offset=8 (local.get $component) (local.get $value))
        (memory.fill (local.get $to) (i32.const 0) (i32.const 32))
        (i32.store offset=4 (local.get $to) (local.get $component))
        (i32.store offset=8 (local.get $to) (i32.const 1)))
    ;; `ok` of a list of $n items of $bytes, zeroed.
    (func $list (param $n i32) (param $bytes i32) (result i32) (local $ret i32)
        (local.set $ret (call $new (i32.const 16)))
        (i32.store (local.get $ret) (i32.const 0))
        (local.set $bytes (i32.mul (local.get $n) (local.get $bytes)))
        (i32.store offset=4 (local.get $ret) (call $new (local.get $bytes)))
        (memory.fill (i32.load offset=4 (local.get $ret)) (i32.const 0) (local.get $bytes))
        (i32.store offset=8 (local.get $ret) (local.get $n))
        (local.get $ret))
    (func $grades (param $n i32) (param $value f64) (result i32) (local $ret i32) (local $to i32)
        (local.set $ret (call $list (local.get $n) (i32.const 32)))
        (local.set $to (i32.load offset=4 (local.get $ret)))
        (block $done
            (loop $each
                (br_if $done (i32.eqz (local.get $n)))
                (call $grade (local.get $to) (local.get $value))
                (local.set $to (i32.add (local.get $to) (i32.const 32)))
                (local.set $n (i32.sub (local.get $n) (i32.const 1)))
                (br $each)))
        (local.get $ret))
    ;; $n verdicts to keep.
    (func $verdicts (param $n i32) (result i32) (local $ret i32) (local $to i32)
        (local.set $ret (call $list (local.get $n) (i32.const 16)))
        (local.set $to (i32.load offset=4 (local.get $ret)))
        (block $done
            (loop $each
                (br_if $done (i32.eqz (local.get $n)))
                (i32.store8 (local.get $to) (i32.const 1))
                (local.set $to (i32.add (local.get $to) (i32.const 16)))
                (local.set $n (i32.sub (local.get $n) (i32.const 1)))
                (br $each)))
        (local.get $ret))
    ;; $n advantages per sample.
    (func $values (param $n i32) (param $value f32) (result i32) (local $ret i32) (local $to i32)
        (local.set $ret (call $list (local.get $n) (i32.const 4)))
        (local.set $to (i32.load offset=4 (local.get $ret)))
        (i32.store offset=4 (local.get $ret) (i32.const 0))
        (i32.store offset=8 (local.get $ret) (local.get $to))
        (i32.store offset=12 (local.get $ret) (local.get $n))
        (block $done
            (loop $each
                (br_if $done (i32.eqz (local.get $n)))
                (f32.store (local.get $to) (local.get $value))
                (local.set $to (i32.add (local.get $to) (i32.const 4)))
                (local.set $n (i32.sub (local.get $n) (i32.const 1)))
                (br $each)))
        (local.get $ret))";

impl Guest {
    /// A reward that obeys its contract and scores 1.
    pub fn reward() -> Self {
        Guest {
            kind: Kind::Reward,
            name: "guest",
            group_wise: false,
            imports: Vec::new(),
            lowered: Vec::new(),
            outside: String::new(),
            memory: "2",
            libc: String::new(),
            realloc: REALLOC.into(),
            main: String::new(),
            describe: "(i32.const 512)".into(),
            configure: "(i32.const 1024)".into(),
            call: scores("(f64.const 1)"),
            post_return: None,
        }
    }

    /// A reward whose `score` has this body.
    pub fn scoring(call: impl Into<String>) -> Self {
        Guest { call: call.into(), ..Guest::reward() }
    }

    /// A filter that keeps everything.
    pub fn filter() -> Self {
        Guest { kind: Kind::Filter, ..Guest::scoring("(call $verdicts (local.get $n))") }
    }

    /// An estimator whose advantages are all 1.
    pub fn advantage() -> Self {
        let call = "(call $values (i32.load offset=4 (local.get $batch)) (f32.const 1))";
        Guest { kind: Kind::Advantage, ..Guest::scoring(call) }
    }

    /// The same guest with one more import.
    pub fn with(mut self, capability: Capability) -> Self {
        self.imports.push(capability);
        self
    }

    /// The world's function in `main`.
    fn function(&self) -> String {
        let params = match self.kind {
            Kind::Filter => "(param $items i32) (param $n i32)",
            Kind::Advantage => "(param $batch i32)",
            Kind::Reward | Kind::Environment => {
                "(param $id i32) (param $id-bytes i32) (param $prompt i32) (param $messages i32)
                 (param $labelled i32) (param $label i32) (param $label-bytes i32)
                 (param $metadata i32) (param $metadata-bytes i32) (param $samples i32) (param $n i32)"
            }
        };
        format!(
            r#"(func (export "call") {params} (result i32)
                (local $a i32) (local $b i32) (local $ret i32) (local $out i32)
                {})"#,
            self.call
        )
    }

    /// The component's text.
    pub fn text(&self) -> String {
        let lowered = self.imports.iter().flat_map(|c| c.lowered());
        let (mut lowers, mut exports, mut core_imports) = (String::new(), String::new(), String::new());
        for (name, definition, ty) in lowered {
            lowers += &format!("(core func ${name} {definition})\n");
            exports += &format!(r#"(export "{name}" (func ${name}))"#);
            core_imports += &format!(r#"(import "host" "{name}" (func ${name} {ty}))"#);
        }
        for (name, ty) in &self.lowered {
            exports += &format!(r#"(export "{name}" (func ${name}))"#);
            core_imports += &format!(r#"(import "host" "{name}" (func ${name} {ty}))"#);
        }
        let post = self.post_return.unwrap_or_default();
        let post_option =
            if self.post_return.is_some() { r#"(post-return (core func $main "post"))"# } else { "" };
        format!(
            r#"(component
                {types}
                {imports}
                (core module $libc-module
                    (memory (export "memory") {memory})
                    (table (export "table") 4 funcref)
                    (global $heap (mut i32) (i32.const 4096))
                    {data}
                    {libc}
                    (func (export "realloc") (param $old i32) (param $old-bytes i32) (param $align i32)
                        (param $bytes i32) (result i32) (local $at i32) {realloc}))
                (core instance $libc (instantiate $libc-module))
                {lowers}
                {outside}
                (core instance $host {exports})
                (core module $main-module
                    (import "libc" "memory" (memory 0))
                    (import "libc" "table" (table $table 4 funcref))
                    (import "libc" "realloc" (func $realloc (param i32 i32 i32 i32) (result i32)))
                    {core_imports}
                    {RESULTS}
                    {main}
                    (func (export "describe") (result i32) {describe})
                    (func (export "configure") (param i32 i32) (result i32) {configure})
                    (func (export "post") (param $ret i32) {post})
                    {function})
                (core instance $main (instantiate $main-module
                    (with "libc" (instance $libc)) (with "host" (instance $host))))
                {world})"#,
            types = contract::types(),
            imports = self.imports.iter().map(|c| c.import()).collect::<String>(),
            memory = self.memory,
            data = self.data(),
            libc = self.libc,
            realloc = self.realloc,
            outside = self.outside,
            main = self.main,
            describe = self.describe,
            configure = self.configure,
            function = self.function(),
            world = contract::exports(self.kind, post_option),
        )
    }

    /// The component.
    pub fn build(&self) -> Vec<u8> {
        let text = self.text();
        wat::parse_str(&text).unwrap_or_else(|e| panic!("the guest's own text is wrong: {e}"))
    }

    fn data(&self) -> String {
        let mut texts = String::new();
        let mut descriptor = String::new();
        let mut at = 2048;
        for text in [self.name, "1.2.3", "A guest.", "{}"] {
            texts += &quoted(text.as_bytes());
            descriptor += &(word(at) + &word(text.len()));
            at += text.len();
        }
        let declared = usize::from(self.kind == Kind::Reward);
        descriptor += &(word(1100) + &word(declared) + "\\00");
        descriptor += &quoted(&[u8::from(self.group_wise)]);
        format!(
            r#"(data (i32.const 16) "correct")
               (data (i32.const 32) "{logged}")
               (data (i32.const 512) "{descriptor}")
               (data (i32.const 1100) "{name_at}{name_bytes}")
               (data (i32.const 2048) "{texts}")"#,
            logged = quoted(LOGGED.as_bytes()),
            name_at = word(16),
            name_bytes = word(7),
        )
    }
}

impl Capability {
    /// The component's import; the types of media are imported always.
    fn import(self) -> &'static str {
        match self {
            Capability::Log => contract::LOG,
            Capability::Random => contract::RANDOM,
            Capability::Store => contract::STORE,
            Capability::Judge => contract::JUDGE,
            Capability::Http => contract::HTTP,
            Capability::Media => "",
        }
    }

    /// Name, definition and core type of each function that `main` gets.
    fn lowered(self) -> Vec<(&'static str, String, &'static str)> {
        let lower = |instance, function| {
            format!(
                r#"(canon lower (func ${instance} "{function}") (memory (core memory $libc "memory")) (realloc (core func $libc "realloc")))"#
            )
        };
        match self {
            Capability::Log => vec![("log", lower("log-import", "log"), "(param i32 i32 i32)")],
            Capability::Random => {
                vec![("random", r#"(canon lower (func $random-import "next-u64"))"#.into(), "(result i64)")]
            }
            Capability::Store => vec![
                ("get", lower("store-import", "get"), "(param i32 i32 i32)"),
                ("set", lower("store-import", "set"), "(param i32 i32 i32 i32 i32)"),
            ],
            Capability::Judge => {
                vec![("chat", lower("judge-import", "chat"), "(param i32 i32 i32 f32 i32 i32 i32 i32)")]
            }
            Capability::Http => {
                vec![("fetch", lower("http-import", "fetch"), "(param i32 i32 i32 i32 i32 i32 i32 i32 i32)")]
            }
            Capability::Media => vec![
                ("media-new", lower("types", "[constructor]media"), "(param i32 i32 i32 i32) (result i32)"),
                ("media-mime", lower("types", "[method]media.mime"), "(param i32 i32)"),
                ("media-drop", "(canon resource.drop $media)".into(), "(param i32)"),
            ],
        }
    }
}

/// An i32 as WebAssembly text data.
fn word(value: usize) -> String {
    quoted(&(value as u32).to_le_bytes())
}

fn quoted(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("\\{b:02x}")).collect()
}
