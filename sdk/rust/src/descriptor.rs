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
    /// A sample's score depends on the other samples of its group.
    pub group_wise: bool,
    /// How reproducible it is.
    pub determinism: Determinism,
}

impl Descriptor {
    /// A filter or an estimator: name, version and summary of its package, and its schema.
    #[doc(hidden)]
    pub fn new(package: [&str; 3], schema: &str) -> Self {
        Descriptor {
            name: package[0].to_owned(),
            version: package[1].to_owned(),
            summary: package[2].to_owned(),
            config_schema: schema.to_owned(),
            components: Vec::new(),
            group_wise: false,
            determinism: Determinism::Pure,
        }
    }

    /// The same of a reward.
    #[doc(hidden)]
    pub fn reward<R: crate::Reward>(package: [&str; 3], schema: &str) -> Self {
        Descriptor {
            components: R::COMPONENTS.iter().map(|&c| c.to_owned()).collect(),
            group_wise: R::GROUP_WISE,
            determinism: R::DETERMINISM,
            ..Descriptor::new(package, schema)
        }
    }
}
