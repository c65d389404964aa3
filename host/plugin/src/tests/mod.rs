//! The host through its public interface, with guests written as core WebAssembly text.

mod admission;
mod cache;
mod calls;
mod capabilities;
mod guests;
mod profiles;
