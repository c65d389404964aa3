//! Weights in safetensors: one file or shards with an index, mapped and read tensor by tensor.

use crate::config::Config;
use crate::decoder::Weights;
use crate::error::ModelError;
use safetensors::tensor::{Dtype, SafeTensors, View, serialize_to_file};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use tch::{Device, Kind, Tensor};
use whet_native::map::Mapped;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// Bytes of one shard when saving, as the hub's tools cut them.
const SHARD: usize = 5_000_000_000;

/// Reads the tensors that `config` names from a folder.
///
/// # Errors
/// When a file is missing or damaged, or a tensor is missing, of another shape or an unusable type.
pub fn read(folder: &Path, config: &Config, kind: Kind, device: Device) -> Result<Weights, ModelError> {
    read_with(folder, config, Vec::new(), kind, device)
}

/// As [`read`], with the tensors `more` beside those of `config`.
pub(crate) fn read_with(
    folder: &Path,
    config: &Config,
    more: Vec<(String, Vec<i64>)>,
    kind: Kind,
    device: Device,
) -> Result<Weights, ModelError> {
    let mut wanted: BTreeMap<String, Vec<i64>> = config.tensors().into_iter().chain(more).collect();
    let mut weights = Weights::new();
    for file in files(folder, &wanted)? {
        let map = Mapped::open(&file).map_err(|e| ModelError::io("read", &file, e))?;
        let damaged =
            |reason: String| ModelError::Weights { path: file.clone(), format: "safetensors", reason };
        let tensors = SafeTensors::deserialize(&map)
            .map_err(|e| damaged(format!("{e}; the file is damaged or only partly there, fetch it again")))?;
        for (name, view) in tensors.tensors() {
            let Some(expected) = wanted.remove(&name) else { continue };
            let found: Vec<i64> = view.shape().iter().map(|&n| n as i64).collect();
            if found != expected {
                return Err(ModelError::Shape { name, expected, found });
            }
            let stored = kind_of(view.dtype()).ok_or_else(|| {
                damaged(format!(
                    "tensor `{name}` is {:?}; supported are F64, F32, F16 and BF16",
                    view.dtype()
                ))
            })?;
            let tensor = Tensor::f_from_data_size(view.data(), &found, stored)?;
            weights.insert(name, tensor.f_to_device(device)?.f_to_kind(kind)?);
        }
    }
    match wanted.into_keys().next() {
        Some(name) => Err(ModelError::MissingTensor { name }),
        None => Ok(weights),
    }
}

/// The files that hold the wanted tensors.
fn files(folder: &Path, wanted: &BTreeMap<String, Vec<i64>>) -> Result<Vec<PathBuf>, ModelError> {
    let index = folder.join(INDEX);
    if !index.exists() {
        let single = folder.join(SINGLE);
        if single.exists() {
            return Ok(vec![single]);
        }
        let help = if folder.join("pytorch_model.bin").exists() {
            format!("; `pytorch_model.bin` is not read, convert it to `{SINGLE}`")
        } else {
            format!(", nor does `{INDEX}`")
        };
        return Err(ModelError::Missing { path: single, help });
    }
    let text = std::fs::read(&index).map_err(|e| ModelError::io("read", &index, e))?;
    let bad = |reason: String| ModelError::Weights {
        path: index.clone(),
        format: "an index of safetensors",
        reason,
    };
    let value: Value = serde_json::from_slice(&text).map_err(|e| bad(e.to_string()))?;
    let shards = value.get("weight_map").and_then(Value::as_object);
    let shards = shards.ok_or_else(|| bad("`weight_map` is missing".into()))?;
    let mut files = Vec::new();
    for name in wanted.keys() {
        let Some(shard) = shards.get(name) else {
            return Err(ModelError::MissingTensor { name: name.clone() });
        };
        let shard = shard.as_str().filter(|s| !s.contains(['/', '\\']) && !s.contains(".."));
        let shard = shard.ok_or_else(|| bad(format!("the file of `{name}` is not a plain file name")))?;
        let path = folder.join(shard);
        if !files.contains(&path) {
            files.push(path);
        }
    }
    Ok(files)
}

fn kind_of(dtype: Dtype) -> Option<Kind> {
    match dtype {
        Dtype::F64 => Some(Kind::Double),
        Dtype::F32 => Some(Kind::Float),
        Dtype::F16 => Some(Kind::Half),
        Dtype::BF16 => Some(Kind::BFloat16),
        _ => None,
    }
}

/// A tensor as the safetensors writer wants it.
struct Stored {
    tensor: Tensor,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: usize,
}

impl Stored {
    fn new(tensor: &Tensor) -> Result<Stored, ModelError> {
        let dtype = match tensor.kind() {
            Kind::Double => Dtype::F64,
            Kind::Half => Dtype::F16,
            Kind::BFloat16 => Dtype::BF16,
            _ => Dtype::F32,
        };
        let tensor = tensor.detach();
        let tensor = if dtype == Dtype::F32 { tensor.f_to_kind(Kind::Float)? } else { tensor };
        Ok(Stored {
            shape: tensor.size().iter().map(|&n| n as usize).collect(),
            bytes: tensor.numel() * tensor.kind().elt_size_in_bytes(),
            dtype,
            tensor,
        })
    }
}

impl View for Stored {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let mut bytes = vec![0; self.bytes];
        self.tensor.contiguous().copy_data_u8(&mut bytes, self.tensor.numel());
        Cow::Owned(bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes
    }
}

/// Writes weights into a folder, in shards with an index when they exceed 5 GB. Tensors are written
/// one by one, in their own kind.
///
/// # Errors
/// When a file cannot be written.
pub fn write(folder: &Path, weights: &Weights) -> Result<(), ModelError> {
    let mut shards: Vec<Vec<(&str, Stored)>> = vec![Vec::new()];
    let (mut filled, mut total) = (0, 0);
    for (name, tensor) in weights {
        let stored = Stored::new(tensor)?;
        if filled > 0 && filled + stored.bytes > SHARD {
            shards.push(Vec::new());
            filled = 0;
        }
        filled += stored.bytes;
        total += stored.bytes;
        if let Some(shard) = shards.last_mut() {
            shard.push((name, stored));
        }
    }
    let count = shards.len();
    let mut places = serde_json::Map::new();
    for (i, shard) in shards.into_iter().enumerate() {
        let file = if count == 1 {
            SINGLE.to_owned()
        } else {
            format!("model-{:05}-of-{count:05}.safetensors", i + 1)
        };
        places.extend(shard.iter().map(|(name, _)| ((*name).to_owned(), json!(file))));
        write_file(&folder.join(file), shard)?;
    }
    if count > 1 {
        let index = json!({"metadata": {"total_size": total}, "weight_map": places});
        let path = folder.join(INDEX);
        std::fs::write(&path, index.to_string()).map_err(|e| ModelError::io("write", &path, e))?;
    }
    Ok(())
}

/// Writes named tensors into one safetensors file, as [`write()`] does and adapters need.
///
/// # Errors
/// When the file cannot be written.
pub fn write_tensors(path: &Path, tensors: &Weights) -> Result<(), ModelError> {
    let stored = tensors.iter().map(|(name, t)| Ok((name.as_str(), Stored::new(t)?)));
    write_file(path, stored.collect::<Result<_, ModelError>>()?)
}

fn write_file(path: &Path, tensors: Vec<(&str, Stored)>) -> Result<(), ModelError> {
    let about = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let failed = |source| ModelError::io("write", path, source);
    // The writer renames a file that only its owner may read into place; others may read what any file here
    // lets them read.
    let file = File::options().create(true).truncate(false).write(true).open(path).map_err(failed)?;
    let usual = file.metadata().map_err(failed)?.permissions();
    serialize_to_file(tensors, Some(about), path).map_err(|e| match e {
        safetensors::SafeTensorError::IoError(source) => failed(source),
        other => {
            ModelError::Weights { path: path.to_owned(), format: "safetensors", reason: other.to_string() }
        }
    })?;
    std::fs::set_permissions(path, usual).map_err(failed)
}
