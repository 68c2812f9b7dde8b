//! Requests to a broker, and answers, as bytes.
//!
//! ```text
//!   request   0  what       u8    1 maps, 2 memory, 3 pagemap, 4 environment, 5 executable, 6 perf map, 7 mapped file
//!             1  flags      u8    1 any file system, 2 a file that only root may write was found before
//!             2  identity   u8    1 anonymous, 2 inode, 3 inode and generation, 4 build id
//!             3  length     u8    of the build id
//!             4  process    u32
//!             8  start      u64   of the mapping
//!            16  end        u64
//!            24  identity   [u8; 64]   build id, or device: u32, u32, inode: u64, generation: u64
//!            88  path       rest, at most 4,096 bytes
//!
//!   answer    0  error      u32   0, or a number of errno
//!             4  kind       u32   1 file, 2 path, 3 mapped file; 16 its path leads to it; 32 mapped now
//!             8  path       rest, at most 512 bytes
//! ```
//!
//! Both sides are the same program, so the bytes have no version.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use crate::live::machine::access::{Opened, ProcFile, Request};
use crate::live::machine::describe::MAX_PATH as MAX_TEXT;
use crate::live::machine::mapped_file::{Found, Mapping};
use crate::sample::FileId;

/// Maximum length of a request.
pub(super) const MAX_REQUEST: usize = HEADER + 4096;

/// Maximum length of an answer.
pub(super) const MAX_ANSWER: usize = ANSWER + MAX_TEXT;

const HEADER: usize = IDENTITY + MAX_BUILD_ID;
const IDENTITY: usize = 24;
const MAX_BUILD_ID: usize = 64;
const ANSWER: usize = 8;

const PROC_FILES: [ProcFile; 4] =
    [ProcFile::Maps, ProcFile::Memory, ProcFile::Pagemap, ProcFile::Environment];
const EXECUTABLE: u8 = 5;
const PERF_MAP: u8 = 6;
const MAPPED_FILE: u8 = 7;

const ANY_FILE_SYSTEM: u8 = 1;
const IS_PROVEN: u8 = 2;

const ANONYMOUS: u8 = 1;
const INODE: u8 = 2;
const INODE_GENERATION: u8 = 3;
const BUILD_ID: u8 = 4;

/// Encodes a request; `None` if it is too long.
pub(super) fn encode_request(request: &Request) -> Option<Vec<u8>> {
    let mut bytes = vec![0; HEADER];
    let pid = match request {
        Request::Proc(pid, file) => {
            bytes[0] = PROC_FILES.iter().position(|it| it == file)? as u8 + 1;
            pid
        }
        Request::Executable(pid) => {
            bytes[0] = EXECUTABLE;
            pid
        }
        Request::PerfMap { pid, any_file_system } => {
            (bytes[0], bytes[1]) = (PERF_MAP, u8::from(*any_file_system));
            pid
        }
        Request::MappedFile(mapping) => {
            encode_mapping(mapping, &mut bytes)?;
            &mapping.pid
        }
    };
    bytes[4..8].copy_from_slice(&pid.to_ne_bytes());
    (bytes.len() <= MAX_REQUEST).then_some(bytes)
}

fn encode_mapping(mapping: &Mapping, bytes: &mut Vec<u8>) -> Option<()> {
    let is_proven = if mapping.is_proven.get().is_some() { IS_PROVEN } else { 0 };
    let mut identity = Vec::new();
    let kind = match &mapping.file {
        FileId::Anonymous => ANONYMOUS,
        FileId::BuildId(id) => {
            identity.extend_from_slice(id);
            BUILD_ID
        }
        FileId::Inode { device, inode } => {
            push_inode(&mut identity, *device, *inode, 0);
            INODE
        }
        FileId::InodeGeneration { device, inode, generation } => {
            push_inode(&mut identity, *device, *inode, *generation);
            INODE_GENERATION
        }
    };
    let place = bytes.get_mut(IDENTITY..)?.get_mut(..identity.len())?;
    place.copy_from_slice(&identity);
    bytes[..4].copy_from_slice(&[
        MAPPED_FILE,
        u8::from(mapping.any_file_system) | is_proven,
        kind,
        identity.len() as u8,
    ]);
    bytes[8..16].copy_from_slice(&mapping.range.0.to_ne_bytes());
    bytes[16..24].copy_from_slice(&mapping.range.1.to_ne_bytes());
    bytes.extend_from_slice(mapping.path.as_bytes());
    Some(())
}

fn push_inode(bytes: &mut Vec<u8>, device: (u32, u32), inode: u64, generation: u64) {
    bytes.extend_from_slice(&device.0.to_ne_bytes());
    bytes.extend_from_slice(&device.1.to_ne_bytes());
    bytes.extend_from_slice(&inode.to_ne_bytes());
    bytes.extend_from_slice(&generation.to_ne_bytes());
}

/// Decodes a request; `None` if it is none.
pub(super) fn decode_request(bytes: &[u8]) -> Option<Request> {
    let (header, path) = bytes.split_at_checked(HEADER).filter(|_| bytes.len() <= MAX_REQUEST)?;
    let (what, flags, pid) = (header[0], header[1], u32_at(header, 4)?);
    let any_file_system = flags & ANY_FILE_SYSTEM != 0;
    if what != MAPPED_FILE && !path.is_empty() {
        return None;
    }
    Some(match what {
        1..=4 => Request::Proc(pid, PROC_FILES[usize::from(what) - 1]),
        EXECUTABLE => Request::Executable(pid),
        PERF_MAP => Request::PerfMap { pid, any_file_system },
        MAPPED_FILE => {
            let is_proven = OnceLock::new();
            if flags & IS_PROVEN != 0 {
                let _ = is_proven.set(());
            }
            Request::MappedFile(Arc::new(Mapping {
                pid,
                range: (u64_at(header, 8)?, u64_at(header, 16)?),
                file: decode_identity(header[2], header.get(IDENTITY..)?.get(..usize::from(header[3]))?)?,
                path: std::str::from_utf8(path).ok().filter(|path| !path.contains('\0'))?.into(),
                any_file_system,
                is_proven,
            }))
        }
        _ => return None,
    })
}

fn decode_identity(kind: u8, bytes: &[u8]) -> Option<FileId> {
    let device = || Some((u32_at(bytes, 0)?, u32_at(bytes, 4)?));
    Some(match kind {
        ANONYMOUS => FileId::Anonymous,
        BUILD_ID if !bytes.is_empty() => FileId::BuildId(bytes.into()),
        INODE => FileId::Inode { device: device()?, inode: u64_at(bytes, 8)? },
        INODE_GENERATION => FileId::InodeGeneration {
            device: device()?,
            inode: u64_at(bytes, 8)?,
            generation: u64_at(bytes, 16)?,
        },
        _ => return None,
    })
}

const FILE: u32 = 1;
const TEXT: u32 = 2;
const FOUND: u32 = 3;
const IS_REACHABLE: u32 = 16;
const IS_MAPPED: u32 = 32;

/// Encodes an answer. Returns the descriptor that goes with it.
pub(super) fn encode_answer(answer: io::Result<Opened>) -> (Vec<u8>, Option<OwnedFd>) {
    let head = |error: u32, kind: u32| [error.to_ne_bytes(), kind.to_ne_bytes()].concat();
    match answer {
        Ok(Opened::File(file)) => (head(0, FILE), Some(file.into())),
        Ok(Opened::MappedFile(found)) => {
            let reachable = if found.is_reachable { IS_REACHABLE } else { 0 };
            let mapped = if found.is_mapped { IS_MAPPED } else { 0 };
            (head(0, FOUND | reachable | mapped), Some(found.file.into()))
        }
        Ok(Opened::Text(text)) => {
            let mut bytes = head(0, TEXT);
            bytes.extend(text.as_bytes().iter().take(MAX_TEXT));
            (bytes, None)
        }
        Err(error) => (head(number(&error), 0), None),
    }
}

/// Decodes an answer.
pub(super) fn decode_answer(bytes: &[u8], descriptor: Option<OwnedFd>) -> io::Result<Opened> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let error = u32_at(bytes, 0).ok_or_else(invalid)?;
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error as i32));
    }
    let kind = u32_at(bytes, 4).ok_or_else(invalid)?;
    Ok(match (kind & 15, descriptor) {
        (FILE, Some(file)) => Opened::File(file.into()),
        (FOUND, Some(file)) => Opened::MappedFile(Found {
            file: file.into(),
            is_reachable: kind & IS_REACHABLE != 0,
            is_mapped: kind & IS_MAPPED != 0,
        }),
        (TEXT, None) => Opened::Text(String::from_utf8_lossy(bytes.get(ANSWER..).unwrap_or_default()).into()),
        _ => return Err(invalid()),
    })
}

/// Returns the number of an error; one of the same kind if the kernel did not return it.
fn number(error: &io::Error) -> u32 {
    let by_kind = match error.kind() {
        io::ErrorKind::NotFound => libc::ENOENT,
        io::ErrorKind::PermissionDenied => libc::EACCES,
        io::ErrorKind::Unsupported => libc::EOPNOTSUPP,
        io::ErrorKind::InvalidInput => libc::EINVAL,
        _ => libc::EIO,
    };
    error.raw_os_error().filter(|&number| number > 0).unwrap_or(by_kind) as u32
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}
