//! Hints to the memory system.

/// Fetches the cache line at `place`, which need not be a valid address: a hint changes nothing that a program can see.
#[inline(always)]
pub(super) fn touch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    // SAFETY: a prefetch of any address neither faults nor changes memory.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
