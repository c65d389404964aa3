//! HTTP to others, such that nothing waits for ever.
//!
//! [`send`] makes one request with a deadline, a size cap and a way to cancel; whoever asks a service
//! of the recipe's author (a judge, a teacher) calls it. [`Egress`] answers the capability `http` with
//! it: plugins are strangers, so names are allowed one by one and addresses are checked after the
//! name was resolved. Redirects are answers, never followed: neither a key nor a request goes to a
//! host that nobody named. Knows nothing of what is asked.

mod address;
mod client;
mod egress;
mod key;
pub mod testing;

pub use address::{Reach, reach};
pub use client::{Answer, Exchange, ExchangeError, send};
pub use egress::Egress;
pub use key::{Key, KeyError};
