//! A hostile seek table behind bytes that are no frames: sums, marks and searches.
#![no_main]

use litepack_archive::SeekTable;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // Entries and descriptor are the input; what would only be refused is filled in.
    let Some((&descriptor, entries)) = data.split_first() else { return };
    let entry_len = if descriptor & 0x80 == 0 { 8 } else { 12 };
    let entries = &entries[..entries.len() / entry_len * entry_len];
    let stored = |entry: &[u8]| u64::from(u16::from_le_bytes([entry[0], entry[1]]));
    let mut file = vec![0; entries.chunks_exact(entry_len).map(stored).sum::<u64>() as usize];
    file.extend_from_slice(&0x184D_2A5Eu32.to_le_bytes());
    file.extend_from_slice(&(entries.len() as u32 + 9).to_le_bytes());
    for entry in entries.chunks_exact(entry_len) {
        file.extend_from_slice(&entry[..2]);
        // Rarely more than 16 bits, or the sums would never agree.
        file.extend_from_slice(if entry[2] == 0xFF { &entry[2..4] } else { &[0, 0] });
        file.extend_from_slice(&entry[4..]);
    }
    file.extend_from_slice(&((entries.len() / entry_len) as u32).to_le_bytes());
    file.push(descriptor & 0x83);
    file.extend_from_slice(&0x8F92_EAB1u32.to_le_bytes());
    let Ok(table) = SeekTable::read(&file.as_slice()) else { return };
    let mut next = table.frame(0);
    let mut end = 0;
    while let Some(frame) = next {
        assert_eq!(frame.start, end);
        assert_eq!(table.frame(frame.number), Some(frame));
        if frame.size > 0 {
            assert_eq!(table.frame_at(frame.start), Some(frame));
            assert_eq!(table.frame_at(frame.end() - 1), Some(frame));
        }
        end = frame.end();
        next = table.next(&frame);
    }
    assert_eq!(end, table.size());
    assert_eq!(table.frame_at(end), None);
});
