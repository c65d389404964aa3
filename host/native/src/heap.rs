//! How the allocator treats the large blocks of tensors.

#![allow(unsafe_code)]

/// Keeps freed memory in the process instead of handing it back to the system.
///
/// A training step allocates and frees the same tensors of many megabytes thousands of times. glibc maps each
/// anew by default, and the kernel clears every page again: a seventh of a step's time. Call it
/// before large work begins; it holds for the whole process, whose peak memory it does not raise.
/// Does nothing where the C library is not glibc.
pub fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        use std::ffi::c_int;
        unsafe extern "C" {
            fn mallopt(parameter: c_int, value: c_int) -> c_int;
        }
        const M_TRIM_THRESHOLD: c_int = -1;
        const M_MMAP_THRESHOLD: c_int = -3;
        // SAFETY: `mallopt` takes plain numbers and may be called at any time; what it refuses stays as it was.
        unsafe {
            mallopt(M_MMAP_THRESHOLD, 1 << 30);
            mallopt(M_TRIM_THRESHOLD, c_int::MAX);
        }
    }
}
