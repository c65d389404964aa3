//! Tensors on the CPU seen as slices, without copying.
//!
//! libtorch keeps a tensor's memory alive as long as a handle exists; the slices here borrow one.

use half::{bf16, f16};
use tch::{Device, Kind, Tensor};

/// Why a tensor cannot be seen as a slice.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ViewError {
    /// The elements are of another type.
    #[error("the tensor holds {found:?}, not {expected:?}")]
    Kind {
        /// Of the slice.
        expected: Kind,
        /// Of the tensor.
        found: Kind,
    },
    /// The tensor lies on an accelerator.
    #[error("the tensor is on {0:?}; only tensors on the CPU have slices")]
    Device(Device),
    /// The elements are not one run of memory.
    #[error("the tensor of shape {0:?} is not contiguous")]
    Strided(Vec<i64>),
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that has the layout of a [`Kind`], with every bit pattern valid.
pub trait Element: Copy + Send + Sync + sealed::Sealed + 'static {
    /// The kind.
    const KIND: Kind;
}

macro_rules! elements {
    ($($rust:ty => $kind:ident),*) => {
        $(impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const KIND: Kind = Kind::$kind;
        })*
    };
}
elements!(f64 => Double, f32 => Float, bf16 => BFloat16, f16 => Half, i64 => Int64, i32 => Int, i16 => Int16, u8 => Uint8);

fn check<T: Element>(tensor: &Tensor) -> Result<usize, ViewError> {
    if tensor.kind() != T::KIND {
        return Err(ViewError::Kind { expected: T::KIND, found: tensor.kind() });
    }
    if tensor.device() != Device::Cpu {
        return Err(ViewError::Device(tensor.device()));
    }
    if !tensor.is_contiguous() {
        return Err(ViewError::Strided(tensor.size()));
    }
    Ok(tensor.numel())
}

/// The elements of a contiguous CPU tensor, in row-major order.
///
/// # Errors
/// When the kind differs, or the tensor is strided or not on the CPU.
pub fn slice<T: Element>(tensor: &Tensor) -> Result<&[T], ViewError> {
    let length = check::<T>(tensor)?;
    if length == 0 {
        return Ok(&[]);
    }
    // SAFETY: a contiguous CPU tensor of this kind holds `length` initialised elements at its data
    // pointer, aligned for the kind, and lives as long as the handle that is borrowed.
    #[allow(unsafe_code)]
    Ok(unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast::<T>(), length) })
}

/// The elements of a contiguous CPU tensor, to be written.
///
/// The caller holds the tensor alone: handles made by `shallow_clone`, and views, must not be used
/// while the slice lives, as with any in-place operation of libtorch. Autograd does not see the write.
///
/// # Errors
/// When the kind differs, or the tensor is strided or not on the CPU.
pub fn slice_mut<T: Element>(tensor: &mut Tensor) -> Result<&mut [T], ViewError> {
    let length = check::<T>(tensor)?;
    if length == 0 {
        return Ok(&mut []);
    }
    // SAFETY: as in `slice`; the handle is borrowed mutably, and the caller keeps other handles idle.
    #[allow(unsafe_code)]
    Ok(unsafe { std::slice::from_raw_parts_mut(tensor.data_ptr().cast::<T>(), length) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_sees_the_tensor_itself() {
        let mut tensor = Tensor::from_slice(&[1.0f32, 2.0, 3.0]);
        slice_mut::<f32>(&mut tensor).unwrap()[1] = 7.0;
        assert_eq!(slice::<f32>(&tensor).unwrap(), [1.0, 7.0, 3.0]);
        assert_eq!(tensor.double_value(&[1]), 7.0);
    }

    #[test]
    fn what_is_no_plain_run_of_the_type_is_refused() {
        let tensor = Tensor::zeros([2, 3], (Kind::Float, Device::Cpu));
        assert_eq!(
            slice::<bf16>(&tensor).unwrap_err(),
            ViewError::Kind { expected: Kind::BFloat16, found: Kind::Float }
        );
        assert_eq!(slice::<f32>(&tensor.transpose(0, 1)).unwrap_err(), ViewError::Strided(vec![3, 2]));
        assert!(slice::<f32>(&tensor.narrow(0, 0, 0)).unwrap().is_empty());
    }
}
