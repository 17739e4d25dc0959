//! For tests.

/// Whether the system says of a value's memory that it is in core dumps.
pub(crate) fn is_in_core_dumps<T: ?Sized>(value: &T) -> bool {
    let at = std::ptr::from_ref(value).cast::<u8>().addr();
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_it = false;
    for line in smaps.lines() {
        let first = line.split(' ').next().unwrap_or_default();
        if let Some((start, end)) = first.split_once('-') {
            let [start, end] = [start, end].map(|hex| usize::from_str_radix(hex, 16).unwrap());
            is_it = (start..end).contains(&at);
        } else if is_it && let Some(flags) = line.strip_prefix("VmFlags:") {
            return !flags.split(' ').any(|flag| flag == "dd");
        }
    }
    panic!("{at:x} is nowhere");
}
