//! Nothing lives here: the tests are in `tests/all`, their material in `tests/fixtures`.
