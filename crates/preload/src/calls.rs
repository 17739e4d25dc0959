//! Whether a function was called by the code that it returns to.
//!
//! A function that ends with a call leaves no trace: who is called so returns to that one's caller, which may be in
//! another library. So the instruction before the return is looked at. A library calls another's function by a slot in
//! its memory, in which the loader has put the address, mostly by way of a short piece of code, its stub. Of other
//! instructions, as that which calls an address in a register, nothing can be known.

use core::ops::Range;

/// The code of a process, by addresses. Where there is none it answers nothing.
pub trait Memory {
    fn bytes<const LEN: usize>(&self, at: usize) -> Option<[u8; LEN]>;
}

/// Whether the call that returns to `caller` goes to an address for which `is_it` holds.
pub fn goes_to(memory: &impl Memory, caller: usize, is_it: impl Fn(usize) -> bool) -> bool {
    let slots = if cfg!(target_arch = "aarch64") {
        [arm64(memory, caller), None]
    } else {
        x86(memory, caller)
    };
    let slots = slots.into_iter().flatten();
    let mut functions = slots.filter_map(|slot| Some(usize::from_ne_bytes(memory.bytes(slot)?)));
    functions.any(is_it)
}

/// The slots that the instruction may take the address from: as instructions are of different lengths, it may be read
/// in two ways.
fn x86(memory: &impl Memory, caller: usize) -> [Option<usize>; 2] {
    // call *slot(%rip)
    let by_slot = || {
        let code: [u8; 6] = memory.bytes(caller.checked_sub(6)?)?;
        code.starts_with(b"\xff\x15")
            .then(|| after(&code, 2..6, caller))?
    };
    // call stub
    let by_stub = || {
        let code: [u8; 5] = memory.bytes(caller.checked_sub(5)?)?;
        let stub = code
            .starts_with(b"\xe8")
            .then(|| after(&code, 1..5, caller))??;
        let code: [u8; 20] = memory.bytes(stub)?;
        // It may begin with what permits a jump to it, a number and a prefix, each of which changes nothing here.
        let mut at = 0;
        for (prefix, len) in [
            (&b"\xf3\x0f\x1e\xfa"[..], 4),
            (b"\x41\xbb", 6),
            (b"\xf2", 1),
        ] {
            if code.get(at..)?.starts_with(prefix) {
                at += len;
            }
        }
        // jmp *slot(%rip)
        let is_jump = code.get(at..)?.starts_with(b"\xff\x25");
        is_jump.then(|| after(&code, at + 2..at + 6, stub.checked_add(at + 6)?))?
    };
    [by_slot(), by_stub()]
}

/// An address that code has as the distance from the instruction that follows.
fn after(code: &[u8], distance: Range<usize>, next: usize) -> Option<usize> {
    let distance = i32::from_le_bytes(code.get(distance)?.try_into().ok()?);
    next.checked_add_signed(isize::try_from(distance).ok()?)
}

fn arm64(memory: &impl Memory, caller: usize) -> Option<usize> {
    let code = |at| Some(u32::from_le_bytes(memory.bytes(at)?));
    // `bits` of them from the lowest on, the highest of which is the sign.
    let signed = |number: u32, bits: u32| {
        let number = number << (32 - bits);
        isize::try_from(number.cast_signed() >> (32 - bits)).ok()
    };
    let at = caller.checked_sub(4)?;
    let call = code(at)?;
    // bl stub
    if call >> 26 != 0b10_0101 {
        return None;
    }
    let mut stub = at.checked_add_signed(signed(call, 26)? * 4)?;
    // bti c
    if code(stub)? == 0xd503_245f {
        stub = stub.checked_add(4)?;
    }
    // adrp x16, page; ldr x17, [x16, #offset]
    let (page, load) = (code(stub)?, code(stub.checked_add(4)?)?);
    if page & 0x9f00_001f != 0x9000_0010 || load & 0xffc0_03ff != 0xf940_0211 {
        return None;
    }
    let pages = signed((page >> 5 & 0x7_ffff) << 2 | page >> 29 & 3, 21)?;
    let page = (stub & !0xfff).checked_add_signed(pages.checked_mul(0x1000)?)?;
    page.checked_add(usize::try_from(load >> 10 & 0xfff).ok()? * 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces by their addresses.
    struct Pieces(Vec<(usize, Vec<u8>)>);

    impl Memory for Pieces {
        fn bytes<const LEN: usize>(&self, at: usize) -> Option<[u8; LEN]> {
            let within = |(start, piece): &(usize, Vec<u8>)| {
                let from = at.checked_sub(*start)?;
                piece.get(from..from + LEN)?.try_into().ok()
            };
            self.0.iter().find_map(within)
        }
    }

    #[test]
    fn the_slot_of_a_call_is_found() {
        let direct = Pieces(vec![(0x1000, b"\xff\x15\x10\x00\x00\x00".to_vec())]);
        assert_eq!(x86(&direct, 0x1006), [Some(0x1016), None]);
        for (stub, end) in [
            (&b"\xff\x25\x00\x01\x00\x00"[..], 6),
            (b"\xf3\x0f\x1e\xfa\xf2\xff\x25\x00\x01\x00\x00", 11),
            (
                b"\xf3\x0f\x1e\xfa\x41\xbb\x01\x00\x00\x00\xff\x25\x00\x01\x00\x00",
                16,
            ),
        ] {
            let mut stub = stub.to_vec();
            stub.resize(20, 0x90);
            let by_stub = Pieces(vec![
                (0x1000, b"\xe8\xfb\xfe\xff\xff".to_vec()),
                (0xf00, stub),
            ]);
            assert_eq!(x86(&by_stub, 0x1005), [None, Some(0xf00 + end + 0x100)]);
        }
        // call *%rax, and nothing before it
        assert_eq!(
            x86(
                &Pieces(vec![(0x1000, b"\x90\x90\x90\x90\xff\xd0".to_vec())]),
                0x1006
            ),
            [None; 2]
        );
        for caller in [0, 3, 0x1005, usize::MAX] {
            assert_eq!(x86(&direct, caller), [None; 2]);
        }
    }

    #[test]
    fn and_on_arm64() {
        let code = |words: &[u32]| {
            words
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .collect::<Vec<_>>()
        };
        // adrp x16, +0x11000; ldr x17, [x16, #0xff8]; add x16, x16, #0xff8; br x17
        let stub = [0xb000_0090, 0xf947_fe11, 0x913f_e210, 0xd61f_0220];
        let guarded = [&[0xd503_245f], &stub[..]].concat();
        for stub in [&stub[..], &guarded] {
            // bl -0x100
            let memory = Pieces(vec![(0x2000, code(&[0x97ff_ffc0])), (0x1f00, code(stub))]);
            assert_eq!(arm64(&memory, 0x2004), Some(0x1_2ff8));
        }
        // blr x0
        assert_eq!(
            arm64(&Pieces(vec![(0x2000, code(&[0xd63f_0000]))]), 0x2004),
            None
        );
        assert_eq!(arm64(&Pieces(vec![]), 0), None);
    }
}
