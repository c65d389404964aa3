//! Bytes of a stranger through admission: whatever they are, the answer is a kind of plugin or a
//! named error. What is admitted is also compiled and asked to describe itself.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use std::time::Duration;
use whet_plugin_host::{AdmissionCaps, Host, HostOptions, validate};

/// Small enough that libFuzzer's time goes into tries, not into one of them.
fn caps() -> AdmissionCaps {
    AdmissionCaps { bytes: 1 << 20, compile_time: Duration::from_secs(20), ..AdmissionCaps::default() }
}

static HOST: LazyLock<Host> =
    LazyLock::new(|| Host::new(HostOptions { instances: 4, admission: caps(), ..HostOptions::default() }));

fuzz_target!(|bytes: &[u8]| {
    let admitted = validate(bytes, &caps());
    let inspected = HOST.inspect(bytes);
    match (admitted, inspected) {
        (Err(refused), inspected) => assert_eq!(inspected.err(), Some(refused)),
        (Ok(kinds), Ok(seen)) => assert_eq!(seen.kinds, kinds),
        // Imports, the compiler or the guest itself may still be in the way.
        (Ok(_), Err(_)) => {}
    }
});
