//! What a plugin says about itself.

/// How far a second call with the same input is promised to give the same output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Determinism {
    /// The output depends on the input alone.
    #[default]
    Pure,
    /// It also depends on [`host::random`](crate::host::random), which a replay repeats.
    Seeded,
    /// It also depends on the judge or on HTTP: a replay needs their recorded answers.
    Recorded,
}

/// What a plugin says about itself. The macros fill it from the package and the traits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The package's name.
    pub name: String,
    /// The package's version.
    pub version: String,
    /// The package's description.
    pub summary: String,
    /// JSON Schema of the configuration.
    pub config_schema: String,
    /// Names of the reward components that the plugin may return.
    pub components: Vec<String>,
    /// How reproducible it is.
    pub determinism: Determinism,
}

impl Descriptor {
    /// The descriptor of `P`.
    #[doc(hidden)]
    pub fn of<P: crate::export::Plugin>(components: &[&str], determinism: Determinism) -> Self {
        let [name, version, summary] = P::package();
        Descriptor {
            name: name.to_owned(),
            version: version.to_owned(),
            summary: summary.to_owned(),
            config_schema: P::schema().to_owned(),
            components: components.iter().map(|&c| c.to_owned()).collect(),
            determinism,
        }
    }
}
