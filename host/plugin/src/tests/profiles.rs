//! The deterministic profile: fuel, and the same end every time.

use super::guests::{Parts, group, host, scoring};
use crate::{CallError, Limits, Profile, Use};
use std::time::Duration;

fn deterministic(fuel: u64) -> Use {
    let limits = Limits { fuel, time: Duration::from_secs(60), ..Limits::default() };
    Use { profile: Profile::Deterministic, limits, ..Use::default() }
}

#[test]
fn a_looping_guest_runs_out_of_fuel() {
    let plugin = Parts::default().reward(&deterministic(1_000_000));
    assert_eq!(plugin.score_once(&group(&["L"])), Err(CallError::FuelExhausted(1_000_000)));
    assert!(plugin.score_once(&group(&["1"])).is_ok());
}

#[test]
fn the_same_call_burns_the_same_fuel() {
    let plugin = Parts::default().reward(&deterministic(1_000_000));
    let burn = || {
        let before = plugin.stats().fuel;
        plugin.score(&group(&["1", "x", "U"])).unwrap();
        plugin.stats().fuel - before
    };
    let fuel = burn();
    assert!(fuel > 0);
    assert_eq!([burn(), burn()], [fuel; 2]);
}

#[test]
fn nan_bits_are_canonical() {
    // 0/0 gives the CPU's NaN, whose sign differs between machines; canonical is 0x7ff8...
    let body = scoring(
        "(f64.convert_i64_u (i64.shr_u (i64.reinterpret_f64
            (f64.div (f64.const 0) (f64.load (i32.const 0)))) (i64.const 48)))",
    );
    let plugin = Parts { body: &body, ..Parts::default() }.reward(&deterministic(1_000_000));
    let outcomes = plugin.score(&group(&["a"])).unwrap();
    assert_eq!(outcomes[0].reward(&[]), Some(f64::from(0x7ff8)));
}

#[test]
fn both_profiles_serve_one_component() {
    let host = host();
    let bytes = Parts::default().build();
    for usage in [Use::default(), deterministic(1_000_000), Use::default()] {
        let outcomes = host.reward(&bytes, &usage).unwrap().score(&group(&["1"])).unwrap();
        assert_eq!(outcomes[0].reward(&[]), Some(1.0));
    }
}
