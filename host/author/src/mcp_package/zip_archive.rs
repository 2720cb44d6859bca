//! ZIP archives (APPNOTE 6.3.10) whose files are stored as they are, under a fixed time: the same files always give the same
//! bytes.

/// The DOS date of 1 January 1980, the earliest one that the format has.
const EPOCH_DATE: u16 = 0x0021;
/// The version that a reader needs for stored files (section 4.4.3).
const VERSION: u16 = 10;
/// The version that wrote it, on a system with Unix permissions (section 4.4.2).
const WRITER_VERSION: u16 = 0x0300 | VERSION;
/// The external attributes of a plain file that everybody may read.
const ATTRIBUTES: u32 = 0o100_644 << 16;
/// The flag that says that names are UTF-8 (section 4.4.4).
const UTF8: u16 = 1 << 11;

/// Returns an archive of files, in this order. Returns `None` if they are larger than the format takes without extensions.
pub(super) fn archive(files: &[(&str, &[u8])]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut directory = Vec::new();
    for (name, content) in files {
        let offset = u32::try_from(bytes.len()).ok()?;
        let entry = entry(name, content)?;
        bytes.extend_from_slice(b"PK\x03\x04");
        bytes.extend_from_slice(&entry);
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(content);
        directory.extend_from_slice(b"PK\x01\x02");
        directory.extend_from_slice(&WRITER_VERSION.to_le_bytes());
        directory.extend_from_slice(&entry);
        // The lengths of a comment, the disk, and internal attributes: there are none.
        directory.extend_from_slice(&[0; 6]);
        directory.extend_from_slice(&ATTRIBUTES.to_le_bytes());
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }
    let start = u32::try_from(bytes.len()).ok()?;
    let size = u32::try_from(directory.len()).ok()?;
    let count = u16::try_from(files.len()).ok()?;
    bytes.append(&mut directory);
    bytes.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&size.to_le_bytes());
    bytes.extend_from_slice(&start.to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    Some(bytes)
}

/// Returns what the header of a file and its entry in the directory have in common (sections 4.3.7 and 4.3.12).
fn entry(name: &str, content: &[u8]) -> Option<Vec<u8>> {
    let size = u32::try_from(content.len()).ok()?;
    let name_bytes = u16::try_from(name.len()).ok()?;
    let mut entry = Vec::new();
    // The method is 0, stored, and the time is midnight.
    for field in [VERSION, UTF8, 0, 0, EPOCH_DATE] {
        entry.extend_from_slice(&field.to_le_bytes());
    }
    for field in [crc32(content), size, size] {
        entry.extend_from_slice(&field.to_le_bytes());
    }
    entry.extend_from_slice(&name_bytes.to_le_bytes());
    entry.extend_from_slice(&[0; 2]);
    Some(entry)
}

/// Returns the checksum of the format (section 4.4.7).
fn crc32(bytes: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256).map(|byte| (0..8).fold(byte, |crc, _| divide_bit(crc))).collect();
    let next = |crc: u32, byte: &u8| {
        let index = (crc ^ u32::from(*byte)) & 0xff;
        (crc >> 8) ^ table.get(index as usize).copied().unwrap_or_default()
    };
    !bytes.iter().fold(u32::MAX, next)
}

fn divide_bit(crc: u32) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_that_of_the_specification() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn same_files_give_the_same_bytes() {
        let files: [(&str, &[u8]); 2] = [("a.txt", b"hello"), ("b/c.wasm", b"\0asm")];
        let first = archive(&files).unwrap();
        assert_eq!(first, archive(&files).unwrap());
        assert!(first.starts_with(b"PK\x03\x04") && first.windows(4).any(|window| window == b"PK\x05\x06"));
        assert_eq!(archive(&[]).unwrap().len(), 22);
    }
}
