//! `[model]`: weights, precision, device, adapters.

use crate::quantity::as_text;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// The model to train.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Model {
    /// A folder in Hugging Face layout, a `.gguf` file, or `hf://organisation/name[@revision]`.
    #[schemars(length(min = 1), extend("examples" = ["hf://HuggingFaceTB/SmolLM2-135M-Instruct", "models/mine"]))]
    pub source: String,
    /// Precision of computation; master weights are always fp32. `auto` is bf16, and fp32 for tiny models.
    #[serde(default)]
    pub dtype: Dtype,
    /// Where tensors live. `auto` takes the first GPU, else the CPU.
    #[serde(default)]
    pub device: Device,
    /// Train low-rank adapters instead of all weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<Lora>,
}

/// Precision of computation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Dtype {
    /// bf16, and fp32 for tiny models.
    #[default]
    Auto,
    /// bfloat16, with fp32 master weights.
    Bf16,
    /// 32-bit floats.
    Fp32,
}

/// Where tensors live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// The first GPU, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU of this index.
    Cuda(u32),
}

/// Low-rank adapters: `W + alpha / rank * B A`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Lora {
    /// Inner dimension.
    #[schemars(range(min = 1))]
    pub rank: u32,
    /// Scale of the adapter before it is divided by the rank.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub alpha: f64,
    /// Linear layers that get an adapter.
    #[schemars(length(min = 1))]
    pub targets: Vec<LoraTarget>,
}

/// A linear layer of a decoder block, by its Hugging Face name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoraTarget {
    /// Attention queries.
    QProj,
    /// Attention keys.
    KProj,
    /// Attention values.
    VProj,
    /// Attention output.
    OProj,
    /// Gate of the feed-forward layer.
    GateProj,
    /// First matrix of the feed-forward layer.
    UpProj,
    /// Last matrix of the feed-forward layer.
    DownProj,
}

impl LoraTarget {
    /// All linear layers of a block.
    pub const ALL: [LoraTarget; 7] = [
        LoraTarget::QProj,
        LoraTarget::KProj,
        LoraTarget::VProj,
        LoraTarget::OProj,
        LoraTarget::GateProj,
        LoraTarget::UpProj,
        LoraTarget::DownProj,
    ];

    /// The module's Hugging Face name, as in `q_proj`.
    pub fn as_str(self) -> &'static str {
        match self {
            LoraTarget::QProj => "q_proj",
            LoraTarget::KProj => "k_proj",
            LoraTarget::VProj => "v_proj",
            LoraTarget::OProj => "o_proj",
            LoraTarget::GateProj => "gate_proj",
            LoraTarget::UpProj => "up_proj",
            LoraTarget::DownProj => "down_proj",
        }
    }
}

impl Default for Lora {
    fn default() -> Self {
        Lora { rank: 16, alpha: 32.0, targets: LoraTarget::ALL.to_vec() }
    }
}

impl FromStr for Device {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let index = match text {
            "auto" => return Ok(Device::Auto),
            "cpu" => return Ok(Device::Cpu),
            "cuda" => Some(0),
            _ => text.strip_prefix("cuda:").and_then(|index| index.parse().ok()),
        };
        index.map(Device::Cuda).ok_or_else(|| {
            format!("`{text}` is not a device; write \"auto\", \"cpu\", \"cuda\" or \"cuda:1\"")
        })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Auto => f.write_str("auto"),
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

as_text!(Device, "Device", "device", "cuda:0", "`auto`, `cpu`, `cuda` or `cuda:INDEX`.");

/// Reads `model = "source"` as a table with defaults.
pub(super) fn source_or_table<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Model, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum SourceOrTable {
        Source(String),
        Table(Model),
    }
    Ok(match SourceOrTable::deserialize(deserializer)? {
        SourceOrTable::Source(source) => {
            Model { source, dtype: Dtype::default(), device: Device::default(), lora: None }
        }
        SourceOrTable::Table(model) => model,
    })
}

/// Schema of [`source_or_table`].
pub(super) fn source_or_table_schema(generator: &mut SchemaGenerator) -> Schema {
    let table = generator.subschema_for::<Model>();
    json_schema!({"anyOf": [{"type": "string", "minLength": 1}, table]})
}
