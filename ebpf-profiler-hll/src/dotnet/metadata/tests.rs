//! Metadata in constructed images, whole and changed.

use ebpf_profiler_core::language::{Memory, Reason, Unreadable};

use super::*;
use crate::dotnet::image;

/// Address of the image.
const BASE: u64 = 0x10_0000;

/// Offset of the CLI header and of the metadata, in the memory and in the file.
const CLI: [u32; 2] = [0x2000, 0x400];

/// Texts by index: `` 0, `Shop` 1, `<Pay>d__1` 6, `App` 16, `MoveNext` 20, `Add` 29.
const STRINGS: &[u8] = b"\0Shop\0<Pay>d__1\0App\0MoveNext\0Add\0";

/// Memory of bytes from [`BASE`] on.
struct Image(Vec<u8>);

impl Memory for Image {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        let at = usize::try_from(address.checked_sub(BASE).ok_or(Unreadable)?).map_err(|_| Unreadable)?;
        let bytes = self.0.get(at..).and_then(|rest| rest.get(..buffer.len())).ok_or(Unreadable)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

impl Image {
    fn put(&mut self, at: u32, bytes: &[u8]) {
        let at = at as usize;
        if self.0.len() < at + bytes.len() {
            self.0.resize(at + bytes.len(), 0);
        }
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn words(&mut self, at: u32, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.put(at, &bytes);
    }
}

/// An image with the types `App.Shop` and, in it, `<Pay>d__1`; mapped by sections if `is_mapped`, else
/// as the file is.
fn built(is_mapped: bool) -> Image {
    let place = CLI[usize::from(!is_mapped)];
    let mut image = Image(vec![0; 0x200]);
    image.put(0, b"MZ");
    image.words(60, &[0x80]);
    image.put(0x80, b"PE\0\0");
    image.put(0x80 + 6, &[1, 0]);
    image.put(0x80 + 20, &[0xf0, 0]);
    image.put(0x98, &[0x0b, 0x02]);
    image.words(0x98 + 108, &[16]);
    image.words(0x98 + 112 + 14 * 8, &[CLI[0]]);
    image.words(0x98 + 0xf0 + 8, &[0x800, CLI[0], 0x800, CLI[1]]);
    image.words(place, &[72, 0, CLI[0] + 0x100, 0x400]);
    let root = place + 0x100;
    image.put(root, b"BSJB");
    image.words(root + 12, &[4]);
    image.put(root + 16, b"v4.0\0\0\x02\0");
    image.words(root + 24, &[0x80, 0x200]);
    image.put(root + 32, b"#~\0\0");
    image.words(root + 36, &[0x300, STRINGS.len() as u32]);
    image.put(root + 44, b"#Strings\0\0\0\0");
    image.put(root + 0x300, STRINGS);
    image.put(root + 0x80, &tables());
    image
}

/// Three types, three methods, one of them in a nested type.
fn tables() -> Vec<u8> {
    let valid = 1_u64 << TYPE_DEF | 1 << METHOD_DEF | 1 << NESTED_CLASS;
    let mut bytes = vec![0, 0, 0, 0, 2, 0, 0, 1];
    bytes.extend(valid.to_le_bytes());
    bytes.extend([0; 8]);
    [3_u32, 3, 1].iter().for_each(|rows| bytes.extend(rows.to_le_bytes()));
    // Flags, name, namespace, base, fields, methods.
    for [name, namespace, methods] in [[0_u16, 0, 1], [1, 16, 1], [6, 0, 3]] {
        bytes.extend([0; 4]);
        [name, namespace, 0, 1, methods].iter().for_each(|cell| bytes.extend(cell.to_le_bytes()));
    }
    // Address, two flags, name, signature, parameters.
    for name in [29_u16, 29, 20] {
        bytes.extend([0; 8]);
        [name, 0, 1].iter().for_each(|cell| bytes.extend(cell.to_le_bytes()));
    }
    [3_u16, 2].iter().for_each(|cell| bytes.extend(cell.to_le_bytes()));
    bytes
}

fn method(image: &Image, row: u32) -> Result<MethodName, Reason> {
    let (address, size) = image::metadata(BASE, image)?;
    Metadata::read(address, size, image)?.method(row)
}

#[test]
fn methods_have_their_types() {
    for image in [built(true), built(false)] {
        let named = |row| method(&image, row).map(|name| (name.namespace, name.types, name.method));
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(named(2), Ok(("App".to_owned(), owned(&["Shop"]), "Add".to_owned())));
        let nested = owned(&["Shop", "<Pay>d__1"]);
        assert_eq!(named(3), Ok(("App".to_owned(), nested, "MoveNext".to_owned())));
        for row in [0, 4, u32::MAX] {
            assert_eq!(named(row), Err(Reason::Implausible), "{row}");
        }
    }
}

/// Each byte with other values, and each length: every answer is a name or a reason, and comes soon.
#[test]
fn changed_and_truncated_images_yield_reasons() {
    for is_mapped in [true, false] {
        let whole = built(is_mapped);
        for at in (0..whole.0.len()).filter(|&at| whole.0[at] != 0 || at % 7 == 0) {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.0.clone();
                bytes[at] = value;
                let _ = method(&Image(bytes), 3);
            }
            let _ = method(&Image(whole.0[..at].to_vec()), 3);
        }
        assert_eq!(method(&Image(whole.0[..0x90].to_vec()), 3), Err(Reason::Unreadable));
    }
}

/// A type that is nested in itself.
#[test]
fn circles_of_types_are_bounded() {
    let mut image = built(true);
    let at = image.0.windows(4).rposition(|bytes| bytes == [3, 0, 2, 0]).unwrap_or(0);
    image.0[at + 2] = 3;
    assert_eq!(method(&image, 3), Err(Reason::Implausible));
}
