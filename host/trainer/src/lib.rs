//! Losses, optimiser, packing, checkpoints; does not know where samples come from.
