//! safetensors files, a tensor at a time: neither writing nor reading holds a second copy of a model.

use crate::TrainError;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use tch::{Device, Kind, Tensor};

/// Writes the tensors, flushes them to the disk and returns the SHA-256 of the file in hexadecimal.
pub(crate) fn write(path: &Path, tensors: &[(String, Tensor)]) -> Result<String, TrainError> {
    let io = |e| TrainError::io(path, e);
    let mut infos = Vec::with_capacity(tensors.len());
    let mut offset = 0;
    for (name, tensor) in tensors {
        let size = tensor.numel() * tensor.kind().elt_size_in_bytes();
        infos.push((
            name.clone(),
            TensorInfo {
                dtype: dtype(tensor.kind(), path)?,
                shape: tensor.size().iter().map(|&n| n as usize).collect(),
                data_offsets: (offset, offset + size),
            },
        ));
        offset += size;
    }
    let metadata = Metadata::new(None, infos).map_err(|e| TrainError::format(path, &e))?;
    let mut header = serde_json::to_vec(&metadata).map_err(|e| TrainError::format(path, &e))?;
    header.resize(header.len().next_multiple_of(8), b' ');

    let mut file = Hashing { file: File::create(path).map_err(io)?, hash: Sha256::new() };
    file.write(&(header.len() as u64).to_le_bytes()).map_err(io)?;
    file.write(&header).map_err(io)?;
    let mut bytes = Vec::new();
    for (_, tensor) in tensors {
        let tensor = tensor.detach().to_device(Device::Cpu).contiguous();
        bytes.resize(tensor.numel() * tensor.kind().elt_size_in_bytes(), 0);
        tensor.f_copy_data_u8(&mut bytes, tensor.numel())?;
        file.write(&bytes).map_err(io)?;
    }
    file.file.sync_all().map_err(io)?;
    Ok(hex(&file.hash.finalize()))
}

struct Hashing {
    file: File,
    hash: Sha256,
}

impl Hashing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.hash.update(bytes);
        self.file.write_all(bytes)
    }
}

/// A file whose tensors are read one by one.
pub(crate) struct TensorFile {
    path: PathBuf,
    file: BufReader<File>,
    tensors: BTreeMap<String, TensorInfo>,
    /// Where the data begin.
    start: u64,
}

impl TensorFile {
    pub fn open(path: &Path) -> Result<TensorFile, TrainError> {
        let io = |e| TrainError::io(path, e);
        let mut file = BufReader::new(File::open(path).map_err(io)?);
        let length = file.get_ref().metadata().map_err(io)?.len();
        let mut size = [0; 8];
        file.read_exact(&mut size).map_err(io)?;
        let size = u64::from_le_bytes(size);
        if size > length.saturating_sub(8) {
            return Err(TrainError::format(path, &"its header is longer than the file"));
        }
        let mut header = vec![0; size as usize];
        file.read_exact(&mut header).map_err(io)?;
        let metadata: Metadata = serde_json::from_slice(&header).map_err(|e| TrainError::format(path, &e))?;
        let tensors = metadata.tensors().into_iter().map(|(name, info)| (name, info.clone())).collect();
        Ok(TensorFile { path: path.to_owned(), file, tensors, start: 8 + size })
    }

    /// Copies the tensor `name` into `into`, which decides kind and shape.
    pub fn read_into(&mut self, name: &str, into: &mut Tensor) -> Result<(), TrainError> {
        let missing = || TrainError::format(&self.path, &format!("tensor `{name}` is missing"));
        let info = self.tensors.get(name).ok_or_else(missing)?;
        let expected = into.size();
        let shape: Vec<i64> = info.shape.iter().map(|&n| n as i64).collect();
        let kind = into.kind();
        if shape != expected || info.dtype != dtype(kind, &self.path)? {
            let what =
                format!("tensor `{name}` is {:?} {shape:?}, expected {kind:?} {expected:?}", info.dtype);
            return Err(TrainError::format(&self.path, &what));
        }
        let (begin, end) = info.data_offsets;
        let io = |e| TrainError::io(&self.path, e);
        self.file.seek(SeekFrom::Start(self.start + begin as u64)).map_err(io)?;
        let mut bytes = vec![0; end - begin];
        self.file.read_exact(&mut bytes).map_err(io)?;
        let _guard = tch::no_grad_guard();
        into.f_copy_(&Tensor::f_from_data_size(&bytes, &shape, kind)?)?;
        Ok(())
    }
}

/// SHA-256 of a file in hexadecimal.
pub(crate) fn digest(path: &Path) -> Result<String, TrainError> {
    let mut file = File::open(path).map_err(|e| TrainError::io(path, e))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(|e| TrainError::io(path, e))? {
            0 => return Ok(hex(&hash.finalize())),
            n => hash.update(&buffer[..n]),
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn dtype(kind: Kind, path: &Path) -> Result<Dtype, TrainError> {
    match kind {
        Kind::Float => Ok(Dtype::F32),
        Kind::Double => Ok(Dtype::F64),
        Kind::BFloat16 => Ok(Dtype::BF16),
        Kind::Half => Ok(Dtype::F16),
        other => Err(TrainError::format(path, &format!("tensors of kind {other:?} are not stored"))),
    }
}
