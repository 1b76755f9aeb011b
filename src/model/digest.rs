//! SHA-256 as lower-case hex: the one place that hashes.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// Returns the SHA-256 of `bytes` as 64 lower-case hex digits.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns the first 128 bits of the SHA-256 of `bytes` as 32 lower-case hex digits.
#[must_use]
pub fn sha256_hex_128(bytes: &[u8]) -> String {
    let mut text = sha256_hex(bytes);
    text.truncate(32);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_abc_is_that_of_fips_180() {
        // FIPS 180-2, appendix B.1.
        assert_eq!(
            sha256_hex(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(sha256_hex_128(b"abc"), "ba7816bf8f01cfea414140de5dae2223");
    }
}
