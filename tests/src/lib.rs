//! End-to-end tests, hostile guests, peer parity.
