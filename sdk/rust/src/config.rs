//! Configuration: a JSON object from the recipe, read once per instance.

use serde::de::DeserializeOwned;

/// A plugin with settings.
///
/// ```
/// use whet_plugin::Configured;
///
/// #[derive(serde::Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct Config {
///     limit: u32,
/// }
///
/// struct Short(u32);
///
/// impl Configured for Short {
///     type Config = Config;
///     const SCHEMA: &'static str = r#"{
///         "type": "object",
///         "properties": {"limit": {"type": "integer", "minimum": 1}},
///         "required": ["limit"],
///         "additionalProperties": false
///     }"#;
///     fn new(config: Config) -> Result<Self, String> {
///         Ok(Short(config.limit))
///     }
/// }
/// ```
pub trait Configured: Sized {
    /// The object as a type; deny unknown fields, so that a misspelt key is an error.
    type Config: DeserializeOwned;

    /// JSON Schema of the object: the host checks a recipe against it before a run starts.
    const SCHEMA: &'static str;

    /// Makes the plugin; the error is a sentence for the person who wrote the recipe.
    fn new(config: Self::Config) -> Result<Self, String>;
}

/// The schema of a plugin without settings.
pub const NO_CONFIG_SCHEMA: &str = r#"{"type":"object","additionalProperties":false}"#;

/// Accepts the empty configuration only.
pub fn unconfigured(config: &str) -> Result<(), String> {
    let inside = config.trim().strip_prefix('{').and_then(|c| c.strip_suffix('}'));
    match inside {
        Some(inside) if inside.trim().is_empty() => Ok(()),
        _ => Err("this plugin takes no configuration".into()),
    }
}

/// Reads the configuration and makes the plugin.
pub fn configured<P: Configured>(config: &str) -> Result<P, String> {
    P::new(serde_json::from_str(config).map_err(|e| e.to_string())?)
}
