//! Guests that mean harm, each with the name of its end.
//!
//! A case is one attack: a component that must not come in, one whose call must fail with exactly
//! this kind, one that harms only itself, or a scene with several actors. Every case runs against a
//! host that is shared with the cases before it, under a watchdog that fails with the case's
//! sentence when the host hangs; after every case that host must still serve a well-behaved plugin,
//! from a pool so small that an instance which is not given back is missed.
//!
//! Deadlines are the only clocks here: guests that must be stopped have a short one, all others one
//! that no machine misses, so that no outcome depends on speed.

mod abi;
mod admission;
mod asking;
mod cache;
mod contract;
mod fuzz;
mod guest;
mod host_calls;
mod isolation;
mod memory;
mod output;
mod threads;
mod time;

use guest::Guest;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use whet_plugin_host::{
    Advantages, Batch, CallError, Grants, Host, HostOptions, Kind, Limits, LoadError, Profile, RewardPlugin,
    ScoredGroup, Use,
};
use whet_trajectory::{Attribution, FinishReason, Group, Message, Outcome, Role, Sample};

/// Nothing that works takes this long, on any machine.
const WATCHDOG: Duration = Duration::from_secs(240);
/// Instances of the shared host's pool.
const POOL: u32 = 8;

/// One attack. Equal numbers are variants of one idea.
pub struct Case {
    pub number: u8,
    pub says: &'static str,
    pub attack: Attack,
}

pub enum Attack {
    /// The component does not come in: the kind of the [`LoadError`].
    Refused { bytes: Vec<u8>, usage: Use, kind: &'static str },
    /// It comes in and its call fails: kind and attribution of the [`CallError`].
    Fails { guest: Guest, usage: Use, kind: &'static str, attribution: Attribution },
    /// It harms only itself: every sample scores this.
    Harmless { guest: Guest, usage: Use, score: f64 },
    /// Several actors; asserts by itself.
    Scene(fn(&Host)),
}

pub fn refused(number: u8, says: &'static str, bytes: Vec<u8>, usage: Use, kind: &'static str) -> Case {
    Case { number, says, attack: Attack::Refused { bytes, usage, kind } }
}

pub fn fails(number: u8, says: &'static str, guest: Guest, usage: Use, kind: &'static str) -> Case {
    let attribution = Attribution::Plugin;
    Case { number, says, attack: Attack::Fails { guest, usage, kind, attribution } }
}

pub fn harmless(number: u8, says: &'static str, guest: Guest, usage: Use, score: f64) -> Case {
    Case { number, says, attack: Attack::Harmless { guest, usage, score } }
}

pub fn scene(number: u8, says: &'static str, scene: fn(&Host)) -> Case {
    Case { number, says, attack: Attack::Scene(scene) }
}

/// Limits whose deadline no machine misses.
pub fn patient() -> Use {
    Use { limits: Limits { time: Duration::from_secs(100), ..Limits::default() }, ..Use::default() }
}

/// A short deadline, for guests that never end.
pub fn hasty() -> Use {
    Use { limits: Limits { time: Duration::from_millis(400), ..Limits::default() }, ..Use::default() }
}

/// Fuel in place of a clock.
pub fn fuelled(fuel: u64) -> Use {
    let limits = Limits { fuel, ..patient().limits };
    Use { profile: Profile::Deterministic, limits, ..Use::default() }
}

pub fn granted(grant: &str) -> Use {
    Use { grants: Grants::parse([grant]).unwrap(), ..patient() }
}

/// `usage` with other limits.
pub fn limited(usage: Use, change: impl FnOnce(&mut Limits)) -> Use {
    let mut usage = usage;
    change(&mut usage.limits);
    usage
}

/// A component from text.
pub fn text(component: &str) -> Vec<u8> {
    wat::parse_str(component).unwrap()
}

pub fn host() -> Host {
    let tick = Duration::from_millis(5);
    Host::new(HostOptions { tick, instances: POOL, ..HostOptions::default() })
}

/// A group with one sample per response.
pub fn group(id: &str, responses: &[&str]) -> Group {
    let sample = |(i, response): (usize, &&str)| Sample {
        id: format!("{id}/{i}").as_str().into(),
        completion: vec![Message::text(Role::Assistant, *response)],
        response: (*response).to_owned(),
        finish: FinishReason::Stop,
        prompt_tokens: 3,
        response_tokens: 5,
        turns: 1,
        environment_rewards: Vec::new(),
    };
    Group {
        id: id.into(),
        prompt: vec![Message::text(Role::User, "What is 1 + 1?")],
        label: Some("2".into()),
        metadata: serde_json::Map::new(),
        samples: responses.iter().enumerate().map(sample).collect(),
    }
}

pub fn rewards(outcomes: &[Outcome]) -> Vec<Option<f64>> {
    outcomes.iter().map(|outcome| outcome.reward(&[])).collect()
}

/// The kind of each outcome: `scored`, `unscorable` or a failure's kind.
pub fn kinds(outcomes: &[Outcome]) -> Vec<&str> {
    fn kind(outcome: &Outcome) -> &str {
        match outcome {
            Outcome::Failed(failure) => &failure.kind,
            Outcome::Scored(_) => "scored",
            Outcome::Unscorable { .. } => "unscorable",
        }
    }
    outcomes.iter().map(kind).collect()
}

pub fn load(host: &Host, guest: &Guest, usage: &Use) -> RewardPlugin {
    host.reward(&guest.build(), usage).unwrap_or_else(|e| panic!("the guest was refused: {e}"))
}

/// Runs `work` on a thread of its own and fails with `says` when it hangs.
pub fn watched<T: Send + 'static>(says: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, waiting) = channel();
    let worker = std::thread::spawn(move || {
        let result = work();
        let _ = done.send(());
        result
    });
    match waiting.recv_timeout(WATCHDOG) {
        Err(RecvTimeoutError::Timeout) => panic!("hangs: {says}"),
        // Done, or panicked: the join tells which.
        _ => worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// Tries every case on one host, which must serve a well-behaved plugin after each of them.
pub fn withstand(cases: Vec<Case>) {
    let host = Arc::new(host());
    let good = Arc::new(load(&host, &Guest::scoring(guest::OBEDIENT), &patient()));
    for case in cases {
        let (host, good) = (host.clone(), good.clone());
        let says = format!("{} ({})", case.says, case.number);
        watched(&says.clone(), move || {
            attack(&host, &says, case.attack);
            let outcomes = good.score(&group("good", &["1", "x"]));
            let outcomes = outcomes.unwrap_or_else(|e| panic!("{says}: the next plugin got {e}"));
            assert_eq!(rewards(&outcomes), [Some(1.0), Some(0.5)], "{says}: the next plugin's scores");
        });
    }
}

fn attack(host: &Host, says: &str, attack: Attack) {
    match attack {
        Attack::Refused { bytes, usage, kind } => {
            let error = host.reward(&bytes, &usage).err().unwrap_or_else(|| panic!("{says}: came in"));
            assert_eq!(error.kind(), kind, "{says}: {error}");
            if let LoadError::Call(error) = &error {
                assert_eq!(error.attribution(), Attribution::Plugin, "{says}: {error}");
            }
            assert_printable(says, &error.to_string());
        }
        Attack::Fails { guest, usage, kind, attribution } => {
            // More often than the pool has places, unless each try costs a deadline.
            let tries = if usage.limits.time < Duration::from_secs(1) { 2 } else { POOL + 2 };
            for error in errors(host, &guest, &usage, says, tries) {
                assert_eq!((error.kind(), error.attribution()), (kind, attribution), "{says}: {error}");
                let by_clock = matches!(kind, "cpu-timeout" | "pool-exhausted" | "unavailable");
                assert_eq!(error.retryable(), by_clock, "{says}: {error}");
                assert_printable(says, &error.to_string());
            }
        }
        Attack::Harmless { guest, usage, score } => {
            let plugin = load(host, &guest, &usage);
            for _ in 0..POOL + 2 {
                let outcomes = plugin.score(&group("g", &["a", "b"])).unwrap();
                assert_eq!(rewards(&outcomes), [Some(score); 2], "{says}: {outcomes:?}");
            }
        }
        Attack::Scene(scene) => scene(host),
    }
}

/// The errors of `tries` calls of a guest that was let in.
fn errors(host: &Host, guest: &Guest, usage: &Use, says: &str, tries: u32) -> Vec<CallError> {
    let bytes = guest.build();
    let admitted = |e| -> ! { panic!("{says}: was refused: {e}") };
    let call: Box<dyn Fn() -> Option<CallError>> = match guest.kind {
        Kind::Filter => {
            let plugin = host.filter(&bytes, usage).unwrap_or_else(|e| admitted(e));
            Box::new(move || {
                let group = group("g", &["a", "b"]);
                plugin.keep_groups(&[ScoredGroup { group: &group, rewards: &[None, Some(1.0)] }]).err()
            })
        }
        Kind::Advantage => {
            let plugin = host.advantage(&bytes, usage).unwrap_or_else(|e| admitted(e));
            Box::new(move || plugin.estimate(&batch()).err())
        }
        Kind::Reward | Kind::Environment => {
            let plugin = host.reward(&bytes, usage).unwrap_or_else(|e| admitted(e));
            Box::new(move || plugin.score_once(&group("g", &["a", "b"])).err())
        }
    };
    (0..tries).map(|_| call().unwrap_or_else(|| panic!("{says}: succeeded"))).collect()
}

/// A batch of two samples with three tokens.
pub fn batch() -> Batch {
    Batch {
        sample_ids: vec!["a".into(), "b".into()],
        groups: vec![0, 0],
        rewards: vec![1.0, 0.0],
        lengths: vec![2, 1],
        mask: vec![1; 3],
        ..Batch::default()
    }
}

/// What a guest wrote does not reach a terminal as it is, and does not fill it.
fn assert_printable(says: &str, message: &str) {
    assert!(!message.chars().any(char::is_control), "{says}: {message:?}");
    assert!(message.len() < 4096, "{says}: a message of {} bytes", message.len());
}

#[test]
fn the_suite_knows_most_ways_to_attack() {
    let all = [
        time::cases(),
        memory::cases(),
        abi::cases(),
        admission::cases(),
        output::cases(),
        host_calls::cases(),
        asking::cases(),
        cache::cases(),
        isolation::cases(),
    ];
    let numbers: BTreeSet<u8> = all.iter().flatten().map(|case| case.number).collect();
    assert!(numbers.len() >= 40, "{}: {numbers:?}", numbers.len());
    let sentences: BTreeSet<&str> = all.iter().flatten().map(|case| case.says).collect();
    assert_eq!(sentences.len(), all.iter().map(Vec::len).sum::<usize>(), "two cases say the same");
}

#[test]
fn the_templates_are_plugins_of_their_worlds() {
    let host = host();
    let plugin = load(&host, &Guest::reward(), &patient());
    assert_eq!(rewards(&plugin.score(&group("g", &["a"])).unwrap()), [Some(1.0)]);
    assert_eq!(plugin.descriptor().name, "guest");
    let filter = host.filter(&Guest::filter().build(), &patient()).unwrap();
    let group = group("g", &["a"]);
    let verdicts = filter.keep_groups(&[ScoredGroup { group: &group, rewards: &[None] }]).unwrap();
    assert!(verdicts.iter().all(|verdict| verdict.keep) && verdicts.len() == 1);
    let advantage = host.advantage(&Guest::advantage().build(), &patient()).unwrap();
    assert_eq!(advantage.estimate(&batch()), Ok(Advantages::PerSample(vec![1.0; 2])));
}
