//! Write Whet plugins in Rust: one trait and one macro per world.
//!
//! A plugin is a crate of type `cdylib` that implements [`Reward`], [`Filter`] or [`Advantage`]
//! for one type and names that type in the macro of the same world. This is a whole reward:
//!
//! ```
//! use whet_plugin::{Group, Outcome, Reward, reward};
//!
//! /// 1 when the response, without surrounding spaces, is the label.
//! struct Same;
//!
//! impl Reward for Same {
//!     fn score(&self, group: &Group) -> Vec<Outcome> {
//!         let Some(label) = group.label.as_deref() else {
//!             return group.all(Outcome::unscorable("the row has no label"));
//!         };
//!         group.samples.iter().map(|s| Outcome::correct(s.response.trim() == label)).collect()
//!     }
//! }
//!
//! reward!(Same);
//! # fn main() {}
//! ```
//!
//! `whet plugin build` makes the component, `cargo test` runs the same logic natively: outside
//! WebAssembly there are no bindings, and [`host`] answers from [`testing`]. A plugin with settings
//! implements [`Configured`] and writes `reward!(Same: Configured)`.
//!
//! What the sandbox does not have: clocks, environment variables (both panic), files, sockets and
//! threads (both answer with an error). What a plugin may ask of the host is in [`host`]; a
//! component imports what its code uses and nothing else, and the recipe must grant that.
//! This crate knows nothing of how the host runs a plugin.

mod advantage;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod bindings;
mod config;
mod descriptor;
mod error;
mod filter;
#[cfg(target_arch = "wasm32")]
mod guest;
pub mod host;
mod message;
mod outcome;
mod reward;
mod sample;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

pub use advantage::{Advantage, Advantages, Batch};
pub use config::Configured;
pub use descriptor::{Descriptor, Determinism};
pub use error::Error;
pub use filter::{Filter, Row, ScoredGroup, Verdict};
pub use message::{Media, Message, Part, Role, ToolCall};
pub use outcome::{Component, Grade, Outcome, Span};
pub use reward::Reward;
pub use sample::{FinishReason, Group, Sample};

/// What the macros expand to; not for use by hand.
#[doc(hidden)]
pub mod export {
    pub use crate::config::{NO_CONFIG_SCHEMA, configured, unconfigured};
    use std::cell::OnceCell;

    /// A plugin type with what the macro knows about it: how it is made, described and kept.
    pub trait Plugin: Sized + 'static {
        /// Makes the plugin from its configuration, a JSON object.
        fn make(config: &str) -> Result<Self, String>;
        /// What the plugin says about itself.
        fn descriptor() -> crate::Descriptor;
        /// Runs `f` on the cell that holds the instance's plugin.
        fn with_cell<R>(f: impl FnOnce(&OnceCell<Self>) -> R) -> R;
    }

    /// Sets the plugin up; the contract has the host call this once per instance.
    pub fn configure<P: Plugin>(config: &str) -> Result<(), String> {
        let plugin = P::make(config)?;
        P::with_cell(|cell| cell.set(plugin)).map_err(|_| "the plugin has been configured already".to_owned())
    }

    /// Runs `f` on the configured plugin, or on one with the empty configuration.
    pub fn with_plugin<P: Plugin, R>(f: impl FnOnce(&P) -> R) -> Result<R, crate::Error> {
        P::with_cell(|cell| {
            if cell.get().is_none() {
                let plugin = P::make("{}").map_err(crate::Error::Internal)?;
                let _ = cell.set(plugin);
            }
            match cell.get() {
                Some(plugin) => Ok(f(plugin)),
                None => Err(crate::Error::Internal("the plugin is not configured".into())),
            }
        })
    }
}

/// Implements [`export::Plugin`] and, in WebAssembly, exports `meta` and the interface `$world`.
#[doc(hidden)]
#[macro_export]
macro_rules! __export {
    ($world:ident, $describe:expr, $plugin:ident, $schema:expr, $make:expr) => {
        impl $crate::export::Plugin for $plugin {
            fn make(config: &str) -> ::core::result::Result<Self, ::std::string::String> {
                $make(config)
            }
            fn descriptor() -> $crate::Descriptor {
                let package =
                    [env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), env!("CARGO_PKG_DESCRIPTION")];
                $describe(package, $schema)
            }
            fn with_cell<R>(f: impl FnOnce(&::core::cell::OnceCell<Self>) -> R) -> R {
                ::std::thread_local! {
                    static CELL: ::core::cell::OnceCell<$plugin> = const { ::core::cell::OnceCell::new() };
                }
                CELL.with(f)
            }
        }

        // Natively nothing calls the plugin but its tests; this keeps the compiler from calling it dead.
        #[cfg(not(target_arch = "wasm32"))]
        const _: () = {
            #[used]
            static MAKE: fn(&str) -> ::core::result::Result<$plugin, ::std::string::String> =
                <$plugin as $crate::export::Plugin>::make;
        };

        #[cfg(target_arch = "wasm32")]
        $crate::bindings::meta::export!($plugin with_types_in $crate::bindings::meta);
        #[cfg(target_arch = "wasm32")]
        $crate::bindings::$world::export!($plugin with_types_in $crate::bindings::$world);
    };
}

/// The macro behind `reward!`, `filter!` and `advantage!`: with or without configuration.
#[doc(hidden)]
#[macro_export]
macro_rules! __plugin {
    ($world:ident, $describe:expr, $plugin:ident) => {
        $crate::__export!($world, $describe, $plugin, $crate::export::NO_CONFIG_SCHEMA, |config| {
            $crate::export::unconfigured(config).map(|()| $plugin)
        });
    };
    ($world:ident, $describe:expr, $plugin:ident : Configured) => {
        $crate::__export!(
            $world,
            $describe,
            $plugin,
            <$plugin as $crate::Configured>::SCHEMA,
            $crate::export::configured::<$plugin>
        );
    };
}
