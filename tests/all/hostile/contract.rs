//! The contract in component text: the types of `whet:plugin/types`, the capabilities, and the
//! exports of each world.
//!
//! An exported function may use only types that have a name outside the component. So each
//! exported interface is an instance of a small inner component, which imports the types and the
//! functions and exports them again under the contract's names. `$own.x` are the interface's own
//! types where they are made, `$out.x` the same types as exported.

use whet_plugin_host::Kind;

/// Types of `whet:plugin/types` after `media`, in an order in which each knows its parts.
const TYPES: [(&str, &str); 9] = [
    (
        "part",
        r#"(variant (case "text" string) (case "image" (own $media)) (case "audio" (own $media))
            (case "video" (own $media)))"#,
    ),
    ("tool-call", r#"(record (field "id" string) (field "name" string) (field "arguments" string))"#),
    ("role", r#"(enum "system" "user" "assistant" "tool")"#),
    (
        "message",
        r#"(record (field "role" $role) (field "content" (list $part))
            (field "tool-calls" (list $tool-call)) (field "tool-call-id" (option string)))"#,
    ),
    ("finish-reason", r#"(enum "stop" "length" "tool-calls" "max-turns" "aborted" "environment")"#),
    ("component", r#"(record (field "name" string) (field "value" f64))"#),
    (
        "sample",
        r#"(record (field "id" string) (field "completion" (list $message)) (field "response" string)
            (field "finish" $finish-reason) (field "prompt-tokens" u32) (field "response-tokens" u32)
            (field "turns" u32) (field "environment-rewards" (list $component)))"#,
    ),
    (
        "group",
        r#"(record (field "id" string) (field "prompt" (list $message)) (field "label" (option string))
            (field "metadata" string) (field "samples" (list $sample)))"#,
    ),
    (
        "plugin-error",
        r#"(variant (case "invalid-input" string) (case "unavailable" string) (case "internal" string))"#,
    ),
];

/// An exported interface: its own types, and its functions with their signatures.
struct Interface {
    name: &'static str,
    own: &'static [(&'static str, &'static str)],
    functions: &'static [(&'static str, &'static str)],
}

const META: Interface = Interface {
    name: "meta",
    own: &[
        ("determinism", r#"(enum "pure" "seeded" "recorded")"#),
        (
            "descriptor",
            r#"(record (field "name" string) (field "version" string) (field "summary" string)
                (field "config-schema" string) (field "components" (list string))
                (field "determinism" $own.determinism) (field "group-wise" bool))"#,
        ),
    ],
    functions: &[
        ("describe", "(result $own.descriptor)"),
        ("configure", r#"(param "config" string) (result (result (error string)))"#),
    ],
};

const REWARD: Interface = Interface {
    name: "reward",
    own: &[
        ("span", r#"(record (field "start" u32) (field "end" u32) (field "value" f64))"#),
        (
            "grade",
            r#"(record (field "components" (list $component)) (field "spans" (list $own.span))
                (field "note" (option string)))"#,
        ),
        ("outcome", r#"(variant (case "scored" $own.grade) (case "unscorable" string))"#),
    ],
    functions: &[(
        "score",
        r#"(param "group" $group) (result (result (list $own.outcome) (error $plugin-error)))"#,
    )],
};

const FILTER: Interface = Interface {
    name: "filter",
    own: &[
        (
            "row",
            r#"(record (field "id" string) (field "prompt" (list $message)) (field "label" (option string))
                (field "metadata" string) (field "prompt-tokens" u32))"#,
        ),
        ("verdict", r#"(record (field "keep" bool) (field "reason" string) (field "keep-if-short" bool))"#),
        ("scored-group", r#"(record (field "group" $group) (field "rewards" (list (option f64))))"#),
    ],
    functions: &[
        (
            "keep-rows",
            r#"(param "rows" (list $own.row)) (result (result (list $own.verdict) (error $plugin-error)))"#,
        ),
        (
            "keep-groups",
            r#"(param "groups" (list $own.scored-group))
               (result (result (list $own.verdict) (error $plugin-error)))"#,
        ),
    ],
};

const ADVANTAGE: Interface = Interface {
    name: "advantage",
    own: &[
        (
            "batch",
            r#"(record (field "sample-ids" (list string)) (field "groups" (list u32))
                (field "rewards" (list f32)) (field "components" (list (tuple string (list f32))))
                (field "lengths" (list u32)) (field "mask" (list u8)) (field "rollout-logprobs" (list f32))
                (field "old-logprobs" (list f32)) (field "reference-logprobs" (list f32))
                (field "values" (list f32)) (field "versions" (list u32)) (field "turns" (list u16)))"#,
        ),
        ("advantages", r#"(variant (case "per-sample" (list f32)) (case "per-token" (list f32)))"#),
    ],
    functions: &[(
        "estimate",
        r#"(param "batch" $own.batch) (result (result $own.advantages (error $plugin-error)))"#,
    )],
};

/// `import` or `export` of named types.
fn declared(types: &[(&str, &str)], how: &str, prefix: &str) -> String {
    let declare = |(name, definition): &(&str, &str)| {
        format!(
            r#"(type $def.{name} {definition}) ({how} "{name}" (type ${prefix}{name} (eq $def.{name})))
            "#
        )
    };
    types.iter().map(declare).collect()
}

/// The import of `whet:plugin/types`, and a name for each of its types.
pub fn types() -> String {
    let aliases = TYPES.iter().map(|(name, _)| format!(r#"(alias export $types "{name}" (type ${name}))"#));
    format!(
        r#"(import "whet:plugin/types@0.1.0" (instance $types
            (export "media" (type $media (sub resource)))
            {}
            (export "[constructor]media"
                (func (param "mime" string) (param "data" (list u8)) (result (own $media))))
            (export "[method]media.mime" (func (param "self" (borrow $media)) (result string)))))
        (alias export $types "media" (type $media))
        {}"#,
        declared(&TYPES, "export", ""),
        aliases.collect::<String>()
    )
}

/// Lifts `main`'s functions and exports the interfaces of the world.
pub fn exports(kind: Kind, post_return: &str) -> String {
    let world = match kind {
        Kind::Reward => REWARD,
        Kind::Filter => FILTER,
        Kind::Advantage => ADVANTAGE,
        Kind::Environment => panic!("environments are not called yet"),
    };
    META.exported(|function| function, "") + &world.exported(|_| "call", post_return)
}

impl Interface {
    /// `core` names the function of `main` behind each function of the interface.
    fn exported(&self, core: impl Fn(&'static str) -> &'static str, post_return: &str) -> String {
        let name = self.name;
        let mut text = String::new();
        let mut inner = String::new();
        let mut arguments = String::from(r#"(with "media" (type $media))"#);
        for (ty, _) in TYPES {
            arguments += &format!(r#"(with "{ty}" (type ${ty}))"#);
        }
        for (ty, definition) in self.own {
            text += &format!("(type $own.{ty} {definition})\n");
            arguments += &format!(r#"(with "{ty}" (type $own.{ty}))"#);
            let definition = definition.replace("$own.", "$out.");
            inner += &format!(
                r#"(type $new.{ty} {definition}) (export $out.{ty} "{ty}" (type $new.{ty}))
                "#
            );
        }
        let mut imports = declared(&TYPES, "import", "") + &declared(self.own, "import", "own.");
        for (function, signature) in self.functions {
            text += &format!(
                r#"(func ${function} {signature} (canon lift (core func $main "{core}")
                    (memory (core memory $libc "memory")) (realloc (core func $libc "realloc")) {post_return}))
                "#,
                core = core(function)
            );
            arguments += &format!(r#"(with "{function}" (func ${function}))"#);
            imports += &format!(r#"(import "{function}" (func ${function} {signature}))"#);
            let signature = signature.replace("$own.", "$out.");
            inner += &format!(r#"(export "{function}" (func ${function}) (func {signature}))"#);
        }
        format!(
            r#"{text}
            (component ${name}-interface
                (import "media" (type $media (sub resource)))
                {imports}
                {inner})
            (instance ${name}-instance (instantiate ${name}-interface {arguments}))
            (export "whet:plugin/{name}@0.1.0" (instance ${name}-instance))
            "#
        )
    }
}

pub const LOG: &str = r#"
    (import "whet:plugin/log@0.1.0" (instance $log-import
        (type $def.level (enum "debug" "info" "warn" "error"))
        (export "level" (type $level (eq $def.level)))
        (export "log" (func (param "level" $level) (param "message" string)))))"#;

pub const RANDOM: &str = r#"
    (import "whet:plugin/random@0.1.0" (instance $random-import (export "next-u64" (func (result u64)))))"#;

pub const STORE: &str = r#"
    (import "whet:plugin/store@0.1.0" (instance $store-import
        (type $def.store-error (enum "key-too-long" "value-too-large" "full"))
        (export "store-error" (type $store-error (eq $def.store-error)))
        (export "get" (func (param "key" string) (result (option (list u8)))))
        (export "set" (func (param "key" string) (param "value" (list u8)) (result (result (error $store-error)))))))"#;

pub const JUDGE: &str = r#"
    (import "whet:plugin/judge@0.1.0" (instance $judge-import
        (export "message" (type $said (eq $message)))
        (type $def.request (record (field "messages" (list $said)) (field "max-tokens" u32)
            (field "temperature" f32) (field "route" (option string))))
        (export "request" (type $request (eq $def.request)))
        (type $def.reply (record (field "text" string) (field "input-tokens" u32) (field "output-tokens" u32)))
        (export "reply" (type $reply (eq $def.reply)))
        (type $def.judge-error (variant (case "denied" string) (case "over-budget") (case "timed-out")
            (case "upstream" string)))
        (export "judge-error" (type $judge-error (eq $def.judge-error)))
        (export "chat" (func (param "request" $request) (result (result $reply (error $judge-error)))))))"#;

pub const HTTP: &str = r#"
    (import "whet:plugin/http@0.1.0" (instance $http-import
        (type $def.request (record (field "method" string) (field "url" string)
            (field "headers" (list (tuple string string))) (field "body" (list u8))))
        (export "request" (type $request (eq $def.request)))
        (type $def.response (record (field "status" u16) (field "headers" (list (tuple string string)))
            (field "body" (list u8))))
        (export "response" (type $response (eq $def.response)))
        (type $def.http-error (variant (case "denied" string) (case "timed-out") (case "too-large")
            (case "failed" string)))
        (export "http-error" (type $http-error (eq $def.http-error)))
        (export "fetch" (func (param "request" $request) (result (result $response (error $http-error)))))))"#;
