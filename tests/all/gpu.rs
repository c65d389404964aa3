//! What a GPU computes, against the CPU. Run by `tests/gpu/check.sh` where there is one.

use std::path::{Path, PathBuf};
use tch::{Device, Kind};
use whet_model::{Decoder, Packed};

fn fixtures() -> PathBuf {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    std::env::var_os("WHET_FIXTURES_DIR").map_or(default, PathBuf::from)
}

#[test]
#[ignore = "needs a GPU: tests/gpu/check.sh"]
fn logits_on_the_gpu_equal_those_on_the_cpu() {
    // Loads libtorch's CUDA half, which must come before any other question about CUDA.
    let gpu = whet_model::device("cuda").unwrap();
    let ids: Vec<u32> = (1..33).collect();
    for name in ["llama", "qwen2", "qwen3_tied", "qwen3_untied"] {
        let source = fixtures().join(name).display().to_string();
        let logits = |device: Device| {
            let _no_grad = tch::no_grad_guard();
            let checkpoint = whet_model::load(&source, Kind::Float, device).unwrap();
            let decoder = Decoder::new(&checkpoint.config, &checkpoint.weights).unwrap();
            let packed = Packed::sequences(&[&ids], device).unwrap();
            decoder.logits(&decoder.hidden(&packed)).to_device(Device::Cpu)
        };
        let difference = (logits(gpu) - logits(Device::Cpu)).abs().max().double_value(&[]);
        println!("{name}: largest difference of a logit {difference:.2e}");
        assert!(difference < 1e-4, "{name}: {difference:e}");
    }
}
