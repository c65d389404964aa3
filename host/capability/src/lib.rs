//! What plugins may ask of the world beyond the process: the seam between the plugin host, which knows
//! WebAssembly and no network, and the crates that know the network and no WebAssembly.
//!
//! A host call blocks the plugin's thread, and neither a clock nor fuel can interrupt it. So every
//! implementation keeps one promise: it answers within [`HostCall::patience`], and soon after
//! [`HostCall::cancel`] was pulled, whatever the other side does.

mod cancel;
mod host_call;
mod http;
mod judge;

pub use cancel::Cancel;
pub use host_call::HostCall;
pub use http::{AllowedHost, AllowedHostError, Fetch, HttpError, HttpRequest, HttpResponse};
pub use judge::{Judge, JudgeError, Question, Reply};

use std::sync::Arc;

/// The services that a process offers its plugins; what is absent is denied.
#[derive(Clone, Default)]
pub struct Services {
    /// Answers the capability `judge`.
    pub judge: Option<Arc<dyn Judge>>,
    /// Answers the capability `http`.
    pub http: Option<Arc<dyn Fetch>>,
}
