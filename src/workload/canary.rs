//! The canaries: two short loops of fixed work, timed before and after every round.
//!
//! They say whether the machine was disturbed in a way the guest's scheduler cannot
//! see, such as a busy sibling thread on the host. Inputs none, outputs ns. They do
//! not decide whether a round is clean, and are never calibrated: a count fitted to
//! a disturbed moment would hide the disturbance.
#![expect(
    unsafe_code,
    reason = "assembly and a raw system call, so that both loops are the same in every build profile"
)]

use super::harness::monotonic_raw_ns;

/// Passes of the arithmetic loop, 25 operations each: 45.5 us measured on one Sapphire
/// Rapids vCPU (five arithmetic ports).
const ALU_PASSES: u64 = 24_000;

/// Calls of `getppid`, about 27 us at the 100 to 108 ns measured for one.
const SYSCALL_PASSES: u32 = 256;

/// Untimed calls before either loop, so that what the round left in the caches and
/// predictors is not read as a disturbance.
const SYSCALL_WARM_PASSES: u32 = 32;

/// One reading of both canaries, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Canary {
    /// The arithmetic loop.
    pub alu_ns: u64,
    /// The `getppid` loop.
    pub syscall_ns: u64,
}

impl Canary {
    /// The larger reading of each loop.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            alu_ns: self.alu_ns.max(other.alu_ns),
            syscall_ns: self.syscall_ns.max(other.syscall_ns),
        }
    }

    /// Runs both loops once.
    #[must_use]
    pub fn read() -> Self {
        getppid_loop(SYSCALL_WARM_PASSES);
        let begin = monotonic_raw_ns();
        alu_loop(ALU_PASSES);
        let middle = monotonic_raw_ns();
        getppid_loop(SYSCALL_PASSES);
        let end = monotonic_raw_ns();
        Self {
            alu_ns: middle.saturating_sub(begin),
            syscall_ns: end.saturating_sub(middle),
        }
    }
}

fn getppid_loop(passes: u32) {
    for _ in 0..passes {
        // libc's own wrapper is compiled code in every build profile; a wrapper in
        // Rust takes half as long again in a debug build.
        // SAFETY: getppid takes no argument and cannot fail.
        std::hint::black_box(unsafe { libc::syscall(libc::SYS_getppid) });
    }
}

/// Eight independent chains of add, xor and rotate.
///
/// Independent, because a loop bound by its own dependencies leaves ports free and
/// does not see a sibling thread (measured with four multiply chains). The operands
/// are registers: recent cores add small immediates while renaming, on no port.
#[cfg(target_arch = "x86_64")]
fn alu_loop(passes: u64) {
    // SAFETY: the block reads and writes only the registers it names and flags, no
    // memory and no stack; it ends because `passes` is at least one and counts down.
    unsafe {
        std::arch::asm!(
            "2:",
            "add {a}, {k}", "add {b}, {k}", "add {c}, {k}", "add {d}, {k}",
            "add {e}, {k}", "add {f}, {k}", "add {g}, {k}", "add {h}, {k}",
            "xor {a}, {k}", "xor {b}, {k}", "xor {c}, {k}", "xor {d}, {k}",
            "xor {e}, {k}", "xor {f}, {k}", "xor {g}, {k}", "xor {h}, {k}",
            "rol {a}, 7", "rol {b}, 7", "rol {c}, 7", "rol {d}, 7",
            "rol {e}, 7", "rol {f}, 7", "rol {g}, 7", "rol {h}, 7",
            "dec {n}",
            "jnz 2b",
            n = inout(reg) passes.max(1) => _,
            k = in(reg) 0x9e37_79b9_7f4a_7c15_u64,
            a = inout(reg) 1_u64 => _,
            b = inout(reg) 2_u64 => _,
            c = inout(reg) 3_u64 => _,
            d = inout(reg) 4_u64 => _,
            e = inout(reg) 5_u64 => _,
            f = inout(reg) 6_u64 => _,
            g = inout(reg) 7_u64 => _,
            h = inout(reg) 8_u64 => _,
            options(nomem, nostack),
        );
    }
}

/// The same chains in Rust, where no assembly was written: slower in a debug build.
#[cfg(not(target_arch = "x86_64"))]
fn alu_loop(passes: u64) {
    let constant = std::hint::black_box(0x9e37_79b9_7f4a_7c15_u64);
    let mut chains = std::hint::black_box([1_u64, 2, 3, 4, 5, 6, 7, 8]);
    for _ in 0..passes {
        for chain in &mut chains {
            *chain = (chain.wrapping_add(constant) ^ constant).rotate_left(7);
        }
    }
    std::hint::black_box(chains);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_reading_of_each_loop_is_kept() {
        let reading = |alu_ns, syscall_ns| Canary { alu_ns, syscall_ns };
        assert_eq!(reading(3, 5).max(reading(4, 2)), reading(4, 5));
    }

    #[test]
    fn the_arithmetic_loop_takes_time_in_proportion_to_its_passes() {
        // The smaller of many runs is nearly undisturbed; the bounds leave room for a
        // disturbance factor of about 1.4 in one of the two.
        let smallest = |passes| {
            (0..200)
                .map(|_| {
                    let begin = monotonic_raw_ns();
                    alu_loop(passes);
                    monotonic_raw_ns().saturating_sub(begin)
                })
                .min()
                .unwrap()
        };
        let (one, ten) = (smallest(ALU_PASSES), smallest(10 * ALU_PASSES));
        assert!(one > 1_000, "{one} ns: the loop was folded away");
        assert!(ten > 6 * one && ten < 15 * one, "{one} ns, {ten} ns");
    }
}
