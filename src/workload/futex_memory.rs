//! The words and vectors that futex requests point to.
//!
//! Allocated and written once, never resized, so that the kernel may keep addresses.

use std::sync::atomic::AtomicU32;

use io_uring::types;

use super::error::WorkloadError;
use super::parameters::Parameters;

/// `FUTEX2_SIZE_U32 | FUTEX2_PRIVATE` (`linux/futex.h`), the same for waits and wakes:
/// a private waiter is invisible to a wake that is not private, and waits for ever.
pub const FUTEX_FLAGS: u32 = 0x02 | 0x80;
/// `FUTEX_BITSET_MATCH_ANY` (`linux/futex.h`) as 32 bits; all 64 set is refused.
pub const ANY_BIT: u64 = 0xffff_ffff;
/// What every word holds and every wait expects.
pub const WORD_VALUE: u64 = 0;

/// A futex word on a cache line of its own.
#[repr(align(64))]
struct Word(AtomicU32);

/// Words, and vectors of their addresses, `words_per_vector` for each vector.
pub struct FutexMemory {
    words: Vec<Word>,
    vectors: Vec<types::FutexWaitV>,
    vector_count: usize,
    words_per_vector: usize,
    wake: usize,
}

impl FutexMemory {
    /// Allocates and writes all of it.
    pub fn new(parameters: &Parameters) -> Result<Self, WorkloadError> {
        check(parameters)?;
        let vector_count = size(parameters, "vectors")?;
        let words_per_vector = size(parameters, "words")?;
        let words: Vec<Word> = (0..vector_count * words_per_vector)
            .map(|_| Word(AtomicU32::new(0)))
            .collect();
        let vectors = words
            .iter()
            .map(|word| {
                types::FutexWaitV::new()
                    .val(WORD_VALUE)
                    .uaddr(u64::try_from(word.0.as_ptr().addr()).unwrap_or(0))
                    .flags(FUTEX_FLAGS)
            })
            .collect();
        Ok(Self {
            words,
            vectors,
            vector_count,
            words_per_vector,
            wake: size(parameters, "wake")?,
        })
    }

    /// Number of vectors: waits, and wakes, in one cycle.
    #[inline]
    pub const fn vector_count(&self) -> usize {
        self.vector_count
    }

    /// Words in one vector.
    pub const fn words_per_vector(&self) -> usize {
        self.words_per_vector
    }

    /// Words in all vectors.
    pub const fn word_count(&self) -> usize {
        self.words.len()
    }

    /// Index of the word that is woken in each vector.
    #[inline]
    pub const fn wake(&self) -> usize {
        self.wake
    }

    /// Address of the first element of a vector.
    #[inline]
    pub fn vector(&self, vector: usize) -> *const types::FutexWaitV {
        self.vectors
            .get(vector * self.words_per_vector)
            .map_or(std::ptr::null(), std::ptr::from_ref)
    }

    /// Words in one vector, as a request says it.
    #[inline]
    pub fn vector_length(&self) -> u32 {
        u32::try_from(self.words_per_vector).unwrap_or(u32::MAX)
    }

    /// Address of a word.
    #[inline]
    pub fn word(&self, vector: usize, element: usize) -> *const u32 {
        self.words
            .get(vector * self.words_per_vector + element)
            .map_or(std::ptr::null(), |word| word.0.as_ptr().cast_const())
    }
}

#[cfg(test)]
impl FutexMemory {
    /// Makes two elements of a vector name one word: a deliberate defect.
    pub fn alias(&mut self, vector: usize, element: usize, other: usize) {
        let at = vector * self.words_per_vector;
        self.vectors[at + element] = self.vectors[at + other];
    }
}

/// Checks that the element to wake exists.
pub fn check(parameters: &Parameters) -> Result<(), WorkloadError> {
    let (wake, words) = (parameters.get("wake")?, parameters.get("words")?);
    if wake < words {
        Ok(())
    } else {
        Err(WorkloadError::WakeBeyondWords { wake, words })
    }
}

fn size(parameters: &Parameters, name: &str) -> Result<usize, WorkloadError> {
    Ok(usize::try_from(parameters.get(name)?).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::workload::io_uring_futex_waitv::DECLARATION;

    fn parameters(words: u64, wake: u64) -> Parameters {
        let given = BTreeMap::from([("words".to_owned(), words), ("wake".to_owned(), wake)]);
        Parameters::resolve(&DECLARATION, &given).unwrap()
    }

    #[test]
    fn every_word_has_a_64_byte_line_of_its_own() {
        let memory = FutexMemory::new(&parameters(8, 3)).unwrap();
        let lines: BTreeSet<usize> = (0..8)
            .flat_map(|vector| (0..8).map(move |element| (vector, element)))
            .map(|(vector, element)| memory.word(vector, element).addr() / 64)
            .collect();
        assert_eq!(lines.len(), 64);
        assert_eq!(memory.word_count(), 64);
    }

    #[test]
    fn the_element_to_wake_must_be_one_of_the_words() {
        assert!(FutexMemory::new(&parameters(4, 3)).is_ok());
        let error = check(&parameters(3, 3)).unwrap_err();
        assert_eq!(error.kind().exit_code(), 64);
        let message = error.to_string();
        assert!(message.contains("'wake' is 3"), "{message}");
        assert!(message.contains("which is 3"), "{message}");
    }
}
