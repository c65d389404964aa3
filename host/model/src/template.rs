//! Chat templates.

/// Why a template cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("chat template: {0}")]
pub struct TemplateError(pub String);
