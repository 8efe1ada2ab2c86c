//! Text that is the same everywhere and does not compress well.

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz      ";

/// So many ASCII letters and spaces, about 4.7 bits of information each, told by a seed. A linear congruential generator
/// (multiplier 6364136223846793005) picks them.
///
/// ```
/// assert_eq!(superstep_benches::text(0, 16), "wzmg t wj  s a m");
/// ```
pub fn text(seed: u64, length: usize) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1);
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(ALPHABET[(state >> 33) as usize & 31])
    };
    (0..length).map(|_| next()).collect()
}
