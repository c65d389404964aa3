//! Which device a model lives on.

use crate::error::ModelError;
use tch::Device;
use whet_native::cuda;

/// The device of `auto`, `cpu`, `cuda` or `cuda:N`. `auto` is the first GPU, or the CPU without one.
///
/// # Errors
/// When the name is unknown, or a GPU was asked for and there is none.
pub fn device(asked: &str) -> Result<Device, ModelError> {
    let error = |reason: String| ModelError::Device { asked: asked.to_owned(), reason };
    let index = match asked {
        "cpu" => return Ok(Device::Cpu),
        "auto" | "cuda" => 0,
        other => {
            let index = other.strip_prefix("cuda:").and_then(|n| n.parse::<usize>().ok());
            index.ok_or_else(|| error("unknown; write `auto`, `cpu`, `cuda` or `cuda:N`".into()))?
        }
    };
    // Before any question to libtorch about CUDA: it remembers the first answer.
    let loaded = cuda::load();
    let count = if loaded.is_ok() { usize::try_from(tch::Cuda::device_count()).unwrap_or(0) } else { 0 };
    if index < count {
        return Ok(Device::Cuda(index));
    }
    if asked == "auto" {
        return Ok(Device::Cpu);
    }
    Err(error(match loaded {
        Err(reason) => format!("{reason}; use `device = \"cpu\"`, or a libtorch with CUDA"),
        Ok(()) if count == 0 => {
            "no usable NVIDIA GPU or driver was found; use `device = \"cpu\"`, or check `nvidia-smi`".into()
        }
        Ok(()) => format!("this machine has {count} GPU(s), numbered from 0"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_always_there_and_auto_is_never_an_error() {
        assert_eq!(device("cpu").unwrap(), Device::Cpu);
        device("auto").unwrap();
    }

    #[test]
    fn an_absent_gpu_or_an_unknown_name_is_an_error_that_says_what_to_write() {
        for asked in ["cuda:99", "gpu", "cuda:x"] {
            let message = device(asked).unwrap_err().to_string();
            assert!(
                message.contains(asked) && message.contains("cpu") || message.contains("GPU"),
                "{message}"
            );
        }
    }
}
