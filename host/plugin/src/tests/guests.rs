//! Guests as WebAssembly text: a core module with the contract's names, made a component here.
//!
//! The reward guest obeys the first byte of each response (see `OBEDIENT`), so that a test says what
//! happens by what it samples.

use crate::{Host, HostOptions, Limits, RewardPlugin, Use};
use serde_json::Map;
use std::time::Duration;
use whet_trajectory::{FinishReason, Group, Message, Role, Sample};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

/// Makes a component of `world` from core WebAssembly text.
pub fn component(world: &str, core: &str) -> Vec<u8> {
    let mut resolve = wit_parser::Resolve::default();
    let wit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit");
    let (package, _) = resolve.push_path(wit).unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    let mut module = wat::parse_str(core).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&module).unwrap().validate(true).encode().unwrap()
}

/// `"\01\00\00\00"` for 1: an i32 in WebAssembly text.
fn word(value: usize) -> String {
    (value as u32).to_le_bytes().iter().map(|b| format!("\\{b:02x}")).collect()
}

fn quoted(text: &str) -> String {
    text.bytes().map(|b| format!("\\{b:02x}")).collect()
}

/// Parts of a guest that tests replace.
pub struct Parts<'a> {
    pub world: &'a str,
    pub imports: &'a str,
    pub schema: &'a str,
    pub name: &'a str,
    /// At most one component is declared; none when empty.
    pub declares: &'a str,
    pub group_wise: bool,
    pub pages: usize,
    pub configure: &'a str,
    pub describe: &'a str,
    pub body: &'a str,
}

impl Default for Parts<'_> {
    fn default() -> Self {
        Parts {
            world: "reward-plugin",
            imports: LOG,
            schema: "{}",
            name: "guest",
            declares: "correct",
            group_wise: false,
            pages: 2,
            configure: "(i32.const 1024)",
            describe: "(i32.const 512)",
            body: OBEDIENT,
        }
    }
}

pub const LOG: &str = r#"(import "whet:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))"#;
pub const RANDOM: &str = r#"
    (import "whet:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))
    (import "whet:plugin/random@0.1.0" "next-u64" (func $random (result i64)))"#;
pub const STORE: &str = r#"
    (import "whet:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))
    (import "whet:plugin/store@0.1.0" "get" (func $get (param i32 i32 i32)))
    (import "whet:plugin/store@0.1.0" "set" (func $set (param i32 i32 i32 i32 i32)))"#;

/// Text of the panic that the guest logs before it traps.
pub const PANIC: &str = "panicked\nat \u{1b}[31mguest.rs";

impl Parts<'_> {
    /// The component. Memory: texts from 0, descriptor at 512, `ok` of `configure` at 1024, a refusal
    /// of `configure` at 1040, heap from 4096.
    pub fn build(&self) -> Vec<u8> {
        let texts = [self.name, "1.2.3", "A guest.", self.schema];
        let mut data = String::new();
        let mut descriptor = String::new();
        let mut at = 2048;
        for text in texts {
            data += &quoted(text);
            descriptor += &(word(at) + &word(text.len()));
            at += text.len();
        }
        assert!(at < 4000, "the texts overlap the heap");
        let declared = usize::from(!self.declares.is_empty());
        descriptor +=
            &(word(1100) + &word(declared) + "\\00" + &format!("\\{:02x}", u8::from(self.group_wise)));
        let core = format!(
            r#"(module
                {imports}
                (memory (export "memory") {pages})
                (global $heap (mut i32) (i32.const 4096))
                (data (i32.const 16) "{panic}")
                (data (i32.const 100) "{declares}")
                (data (i32.const 200) "no such mode")
                (data (i32.const 512) "{descriptor}")
                (data (i32.const 1040) "\01\00\00\00{refusal_at}{refusal_len}")
                (data (i32.const 1100) "{declares_at}{declares_len}")
                (data (i32.const 2048) "{data}")
                (func $alloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
                    (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
                    (global.set $heap (i32.add (local.get $at) (local.get 3)))
                    (block $room
                        (br_if $room (i32.le_u (global.get $heap)
                            (i32.mul (memory.size) (i32.const 65536))))
                        (br_if $room (i32.ne (i32.const -1) (memory.grow (i32.add (i32.const 1)
                            (i32.shr_u (local.get 3) (i32.const 16))))))
                        unreachable)
                    (local.get $at))
                (func $new (param $bytes i32) (result i32)
                    (call $alloc (i32.const 0) (i32.const 0) (i32.const 8) (local.get $bytes)))
                ;; A scored outcome of one component, at $to.
                (func $scored (param $to i32) (param $value f64) (local $component i32)
                    (local.set $component (call $new (i32.const 16)))
                    (i32.store (local.get $component) (i32.const 100))
                    (i32.store offset=4 (local.get $component) (i32.const {declares_bytes}))
                    (f64.store offset=8 (local.get $component) (local.get $value))
                    (i32.store (local.get $to) (i32.const 0))
                    (i32.store offset=4 (local.get $to) (local.get $component))
                    (i32.store offset=8 (local.get $to) (i32.const 1))
                    (i32.store offset=12 (local.get $to) (i32.const 0))
                    (i32.store offset=16 (local.get $to) (i32.const 0))
                    (i32.store offset=20 (local.get $to) (i32.const 0)))
                (func $recurse (param i32) (result i32)
                    (i32.add (call $recurse (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
                (func (export "whet:plugin/meta@0.1.0#describe") (result i32) {describe})
                (func (export "whet:plugin/meta@0.1.0#configure") (param i32 i32) (result i32) {configure})
                {body}
            )"#,
            imports = self.imports,
            pages = self.pages,
            panic = quoted(PANIC),
            declares = quoted(self.declares),
            declares_bytes = self.declares.len(),
            refusal_at = word(200),
            refusal_len = word(12),
            declares_at = word(100),
            declares_len = word(self.declares.len()),
            describe = self.describe,
            configure = self.configure,
            body = self.body,
        );
        component(self.world, &core)
    }

    pub fn reward(&self, usage: &Use) -> RewardPlugin {
        host().reward(&self.build(), usage).unwrap()
    }
}

/// Obeys the first byte of each response; any other byte scores 0.5.
///
/// `1` score 1, `L` loop, `T` log a panic at level error and trap, `G` grow memory until refused and
/// trap, `R` recurse, `N` NaN, `F` write 200 log lines, `U` unscorable, `S` short a result, `P` a bad
/// text pointer, `E` an error of the plugin, `C` an undeclared component, `V` a span beyond the
/// response, `B` a huge result, `D` a bad discriminant.
pub const OBEDIENT: &str = r#"
    (func (export "whet:plugin/reward@0.1.0#score")
        (param $id i32) (param i32) (param i32 i32) (param i32 i32 i32) (param i32 i32)
        (param $samples i32) (param $n i32) (result i32)
        (local $i i32) (local $sample i32) (local $first i32) (local $out i32) (local $to i32) (local $ret i32)
        (local $span i32)
        (local.set $out (call $new (i32.mul (i32.const 32) (local.get $n))))
        (local.set $ret (call $new (i32.const 16)))
        (i32.store (local.get $ret) (i32.const 0))
        (i32.store offset=4 (local.get $ret) (local.get $out))
        (i32.store offset=8 (local.get $ret) (local.get $n))
        (block $done
            (loop $each
                (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
                (local.set $sample (i32.add (local.get $samples) (i32.mul (i32.const 48) (local.get $i))))
                (local.set $to (i32.add (local.get $out) (i32.mul (i32.const 32) (local.get $i))))
                (local.set $first (i32.load8_u (i32.load offset=16 (local.get $sample))))
                (call $scored (local.get $to) (f64.const 0.5))
                (if (i32.eq (local.get $first) (i32.const 49)) (then (call $scored (local.get $to) (f64.const 1))))
                (if (i32.eq (local.get $first) (i32.const 76)) (then (loop $forever (br $forever))))
                (if (i32.eq (local.get $first) (i32.const 84))
                    (then (call $log (i32.const 3) (i32.const 16) (i32.const 25)) unreachable))
                (if (i32.eq (local.get $first) (i32.const 71))
                    (then (loop $more (br_if $more (i32.ne (i32.const -1) (memory.grow (i32.const 16))))) unreachable))
                (if (i32.eq (local.get $first) (i32.const 82)) (then (drop (call $recurse (i32.const 0)))))
                (if (i32.eq (local.get $first) (i32.const 78)) (then (call $scored (local.get $to) (f64.const nan))))
                (if (i32.eq (local.get $first) (i32.const 70)) (then
                    (local.set $span (i32.const 200))
                    (loop $flood
                        (call $log (i32.const 1) (i32.const 16) (i32.const 25))
                        (br_if $flood (local.tee $span (i32.sub (local.get $span) (i32.const 1)))))))
                (if (i32.eq (local.get $first) (i32.const 85)) (then
                    (i32.store (local.get $to) (i32.const 1))
                    (i32.store offset=4 (local.get $to) (i32.const 200))
                    (i32.store offset=8 (local.get $to) (i32.const 12))))
                (if (i32.eq (local.get $first) (i32.const 83))
                    (then (i32.store offset=8 (local.get $ret) (i32.sub (local.get $n) (i32.const 1)))))
                (if (i32.eq (local.get $first) (i32.const 80)) (then
                    (i32.store offset=20 (local.get $to) (i32.const 1))
                    (i32.store offset=24 (local.get $to) (i32.const -16))
                    (i32.store offset=28 (local.get $to) (i32.const 64))))
                (if (i32.eq (local.get $first) (i32.const 69)) (then
                    (i32.store (local.get $ret) (i32.const 1))
                    (i32.store offset=4 (local.get $ret) (i32.const 0))
                    (i32.store offset=8 (local.get $ret) (i32.const 200))
                    (i32.store offset=12 (local.get $ret) (i32.const 12))
                    (return (local.get $ret))))
                (if (i32.eq (local.get $first) (i32.const 67)) (then
                    (i32.store (i32.load offset=4 (local.get $to)) (i32.const 200))))
                (if (i32.eq (local.get $first) (i32.const 86)) (then
                    (local.set $span (call $new (i32.const 16)))
                    (i32.store (local.get $span) (i32.const 0))
                    (i32.store offset=4 (local.get $span) (i32.const 1000))
                    (f64.store offset=8 (local.get $span) (f64.const 1))
                    (i32.store offset=12 (local.get $to) (local.get $span))
                    (i32.store offset=16 (local.get $to) (i32.const 1))))
                (if (i32.eq (local.get $first) (i32.const 66)) (then
                    (i32.store offset=20 (local.get $to) (i32.const 1))
                    (i32.store offset=24 (local.get $to) (call $new (i32.const 10000000)))
                    (i32.store offset=28 (local.get $to) (i32.const 10000000))))
                (if (i32.eq (local.get $first) (i32.const 68)) (then (i32.store8 (local.get $to) (i32.const 7))))
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br $each)))
        (local.get $ret))"#;

/// Says what an ended call means: a failure after a trap, else a score of 0 with a note.
pub const ENDED: &str = r#"
    (func (export "whet:plugin/isolated@0.1.0#ended") (param $end i32) (result i32) (local $ret i32)
        (local.set $ret (call $new (i32.const 24)))
        (i32.store (local.get $ret) (i32.const 0))
        (if (i32.ne (local.get $end) (i32.const 3)) (then
            (call $scored (local.get $ret) (f64.const 0))
            (i32.store (local.get $ret) (i32.const 1))
            (i32.store offset=12 (local.get $ret) (i32.const 200))
            (i32.store offset=16 (local.get $ret) (i32.const 12))))
        (local.get $ret))"#;

/// A reward whose score function is `code`, which leaves the score of every sample (an f64).
pub fn scoring(code: &str) -> String {
    format!(
        r#"(func (export "whet:plugin/reward@0.1.0#score")
            (param $id i32) (param i32) (param i32 i32) (param i32 i32 i32) (param i32 i32)
            (param $samples i32) (param $n i32) (result i32)
            (local $i i32) (local $out i32) (local $ret i32) (local $a i32) (local $b i32) (local $value f64)
            (local.set $out (call $new (i32.mul (i32.const 32) (local.get $n))))
            (local.set $ret (call $new (i32.const 16)))
            (i32.store (local.get $ret) (i32.const 0))
            (i32.store offset=4 (local.get $ret) (local.get $out))
            (i32.store offset=8 (local.get $ret) (local.get $n))
            (local.set $value {code})
            (block $done
                (loop $each
                    (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
                    (call $scored (i32.add (local.get $out) (i32.mul (i32.const 32) (local.get $i))) (local.get $value))
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (br $each)))
            (local.get $ret))"#
    )
}

pub fn host() -> Host {
    Host::new(HostOptions { tick: Duration::from_millis(2), ..HostOptions::default() })
}

/// Limits with a short deadline, for guests that loop.
pub fn hasty() -> Use {
    Use { limits: Limits { time: Duration::from_millis(100), ..Limits::default() }, ..Use::default() }
}

/// A group `g` with one sample per response.
pub fn group(responses: &[&str]) -> Group {
    let sample = |(i, response): (usize, &&str)| Sample {
        id: format!("g/{i}").as_str().into(),
        completion: vec![Message::text(Role::Assistant, *response)],
        response: (*response).to_owned(),
        finish: FinishReason::Stop,
        prompt_tokens: 3,
        response_tokens: 5,
        turns: 1,
        environment_rewards: Vec::new(),
    };
    Group {
        id: "g".into(),
        prompt: vec![Message::text(Role::User, "What is 1 + 1?")],
        label: Some("2".into()),
        metadata: Map::new(),
        samples: responses.iter().enumerate().map(sample).collect(),
    }
}
