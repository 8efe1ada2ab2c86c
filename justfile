# Short names for what developers run. Get `just` with `cargo install just`; every line also works without it.

_default:
    @just --list

# All that must hold before a change is handed in.
verify: fmt lint test doc features deny

# The tests of all crates, doc tests and the README's example included.
test:
    cargo test --workspace

# Formatting, checked and not changed.
fmt:
    cargo fmt --all --check

# Lints, where every warning is an error.
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# The documentation, where a broken link is an error.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace

# Each crate with each of its features alone, so that none leans on what another switches on.
features:
    .ci/features

# Licences, duplicate versions and origins of all dependencies. Get it with `cargo install cargo-deny`.
deny:
    cargo deny check licenses bans sources

# Known security advisories. Fetches their list, so it needs the network and is not part of `verify`.
advisories:
    cargo deny check advisories

# The main job, on this repository.
report:
    cargo run --release --bin repo_report -- .
