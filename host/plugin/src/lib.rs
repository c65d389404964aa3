//! WebAssembly plugins: admission, limits, instances, worlds; knows nothing of training.
