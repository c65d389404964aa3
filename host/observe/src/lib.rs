//! Metrics sinks, trajectories, progress, alerts; no control flow.
