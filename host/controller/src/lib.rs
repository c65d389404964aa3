//! Wires roles into a run: steps, data order, sync, checkpoints, resume.
