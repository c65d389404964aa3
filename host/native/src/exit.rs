//! Ending the process at once.

#![allow(unsafe_code)]

/// Ends the process with `code` and runs nothing more: no destructor, no exit handler, in no thread.
///
/// For a second Ctrl-C. `std::process::exit` lets libtorch take itself apart while other threads still
/// compute with it, which crashes instead of ending. Files are not flushed.
#[cfg(unix)]
pub fn at_once(code: i32) -> ! {
    unsafe extern "C" {
        fn _exit(code: std::ffi::c_int) -> !;
    }
    // SAFETY: `_exit` takes a plain number, may be called by any thread at any time, and does not return.
    unsafe { _exit(code) }
}

/// Where there is no such call the process ends as it usually does.
#[cfg(not(unix))]
pub fn at_once(code: i32) -> ! {
    std::process::exit(code)
}
