//! `wasi:filesystem` of WASI 0.3. Each operation is the one of WASI 0.2, on files that are [lent](super::lent) to it, so grants,
//! accounts, protected files and limits are the same.

use wasmtime::component::{Access, Accessor, FutureReader, HasData, Linker, Resource, StreamReader};
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::types as p2;
use wasmtime_wasi::p2::bindings::filesystem::types::HostDescriptor as _;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};
use wasmtime_wasi::p3::bindings::clocks::system_clock::Instant;
use wasmtime_wasi::p3::bindings::filesystem::preopens;
use wasmtime_wasi::p3::bindings::filesystem::types::{
    self, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, ErrorCode, Filesize,
    MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p3::filesystem::{FilesystemError, FilesystemResult};

use super::asynchronous_stream::{EndReceiver, FileReader, FileWriter, FolderLister};
use super::ledger::Position;
use super::lent::LentFiles;
use super::resolve::check_length;
use super::view::FilesView;
use crate::wasi::CallState;

/// The type-level key of [`FilesView`] for the linker.
pub(super) struct AsyncFiles;

impl HasData for AsyncFiles {
    type Data<'a> = FilesView<'a>;
}

/// Links the interfaces of WASI 0.3.
pub(super) fn link(linker: &mut Linker<CallState>, view: fn(&mut CallState) -> FilesView<'_>) -> wasmtime::Result<()> {
    types::add_to_linker::<CallState, AsyncFiles>(linker, view)?;
    preopens::add_to_linker::<CallState, AsyncFiles>(linker, view)
}

/// The end of a stream of a file.
type End = FutureReader<Result<(), ErrorCode>>;

/// Lends an open file to an operation, with its handle there.
fn lend(
    store: &Accessor<CallState, AsyncFiles>,
    handle: &Resource<Descriptor>,
) -> FilesystemResult<(LentFiles, Resource<Descriptor>)> {
    store.with(|mut store| lend_within(&mut store.get(), handle)).map_err(to_error)
}

fn lend_within(
    files: &mut FilesView<'_>,
    handle: &Resource<Descriptor>,
) -> FsResult<(LentFiles, Resource<Descriptor>)> {
    let mut lent = files.lend()?;
    let there = files.lend_to(&mut lent, handle)?;
    Ok((lent, there))
}

/// Lends two open files to an operation.
fn lend_both(
    store: &Accessor<CallState, AsyncFiles>,
    one: &Resource<Descriptor>,
    other: &Resource<Descriptor>,
) -> FilesystemResult<(LentFiles, Resource<Descriptor>, Resource<Descriptor>)> {
    let lending = store.with(|mut store| {
        let mut files = store.get();
        let mut lent = files.lend()?;
        let one = files.lend_to(&mut lent, one)?;
        let other = files.lend_to(&mut lent, other)?;
        Ok((lent, one, other))
    });
    lending.map_err(to_error)
}

/// Checks the length of a path before the operation waits: many operations may wait at once.
fn check_path(path: &str) -> FilesystemResult<()> {
    check_length(path).map_err(|code| to_code(code).into())
}

/// Calls the function of WASI 0.2 with an open file.
macro_rules! lent {
    ($store:ident, $handle:ident, $method:ident($($argument:expr),*)) => {{
        let (mut lent, handle) = lend($store, &$handle)?;
        lent.view().$method(handle, $($argument),*).await.map_err(to_error)
    }};
}

impl types::HostDescriptorWithStore<CallState> for AsyncFiles {
    fn read_via_stream(
        mut store: Access<'_, CallState, Self>,
        handle: Resource<Descriptor>,
        offset: Filesize,
    ) -> wasmtime::Result<(StreamReader<u8>, End)> {
        let stream = open_to_read(&mut store.get(), &handle, offset);
        match stream {
            Ok(stream) => {
                let (reader, end) = FileReader::new(stream);
                Ok((StreamReader::new(&mut store, reader)?, FutureReader::new(&mut store, end)?))
            }
            Err(error) => Ok((StreamReader::new(&mut store, std::iter::empty())?, failed(&mut store, error)?)),
        }
    }

    fn write_via_stream(
        mut store: Access<'_, CallState, Self>,
        handle: Resource<Descriptor>,
        data: StreamReader<u8>,
        offset: Filesize,
    ) -> wasmtime::Result<End> {
        let stream = open_to_write(&mut store.get(), &handle, Position::At(offset));
        write(store, data, stream)
    }

    fn append_via_stream(
        mut store: Access<'_, CallState, Self>,
        handle: Resource<Descriptor>,
        data: StreamReader<u8>,
    ) -> wasmtime::Result<End> {
        let stream = open_to_write(&mut store.get(), &handle, Position::End);
        write(store, data, stream)
    }

    fn read_directory(
        mut store: Access<'_, CallState, Self>,
        handle: Resource<Descriptor>,
    ) -> wasmtime::Result<(StreamReader<DirectoryEntry>, End)> {
        let lister = open_to_list(&mut store.get(), &handle);
        match lister {
            Ok((lister, end)) => Ok((StreamReader::new(&mut store, lister)?, FutureReader::new(&mut store, end)?)),
            Err(error) => Ok((StreamReader::new(&mut store, std::iter::empty())?, failed(&mut store, error)?)),
        }
    }

    async fn open_at(
        store: &Accessor<CallState, Self>,
        handle: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
        open_flags: OpenFlags,
        flags: DescriptorFlags,
    ) -> FilesystemResult<Resource<Descriptor>> {
        check_path(&path)?;
        let (mut lent, folder) = lend(store, &handle)?;
        let path_flags = to_path_flags(path_flags);
        let open_flags = to_open_flags(open_flags);
        let flags = to_descriptor_flags(flags);
        let opened = lent.view().open_at(folder, path_flags, path, open_flags, flags).await.map_err(to_error)?;
        store.with(|mut store| store.get().keep(lent, opened)).map_err(to_error)
    }

    async fn create_directory_at(
        store: &Accessor<CallState, Self>,
        handle: Resource<Descriptor>,
        path: String,
    ) -> FilesystemResult<()> {
        check_path(&path)?;
        lent!(store, handle, create_directory_at(path))
    }

    async fn remove_directory_at(
        store: &Accessor<CallState, Self>,
        handle: Resource<Descriptor>,
        path: String,
    ) -> FilesystemResult<()> {
        check_path(&path)?;
        lent!(store, handle, remove_directory_at(path))
    }

    async fn unlink_file_at(
        store: &Accessor<CallState, Self>,
        handle: Resource<Descriptor>,
        path: String,
    ) -> FilesystemResult<()> {
        check_path(&path)?;
        lent!(store, handle, unlink_file_at(path))
    }

    async fn rename_at(
        store: &Accessor<CallState, Self>,
        handle: Resource<Descriptor>,
        path: String,
        new_handle: Resource<Descriptor>,
        new_path: String,
    ) -> FilesystemResult<()> {
        check_path(&path)?;
        check_path(&new_path)?;
        let (mut lent, from, to) = lend_both(store, &handle, &new_handle)?;
        lent.view().rename_at(from, path, to, new_path).await.map_err(to_error)
    }

    async fn link_at(
        store: &Accessor<CallState, Self>,
        handle: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
        new_handle: Resource<Descriptor>,
        new_path: String,
    ) -> FilesystemResult<()> {
        check_path(&path)?;
        check_path(&new_path)?;
        let (mut lent, from, to) = lend_both(store, &handle, &new_handle)?;
        lent.view().link_at(from, to_path_flags(path_flags), path, to, new_path).await.map_err(to_error)
    }

    async fn symlink_at(
        store: &Accessor<CallState, Self>,
        handle: Resource<Descriptor>,
        target: String,
        path: String,
    ) -> FilesystemResult<()> {
        check_path(&target)?;
        check_path(&path)?;
        lent!(store, handle, symlink_at(target, path))
    }

    async fn readlink_at(
        store: &Accessor<CallState, Self>,
        handle: Resource<Descriptor>,
        path: String,
    ) -> FilesystemResult<String> {
        check_path(&path)?;
        lent!(store, handle, readlink_at(path))
    }

    async fn stat_at(
        store: &Accessor<CallState, Self>,
        handle: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
    ) -> FilesystemResult<DescriptorStat> {
        check_path(&path)?;
        let stat = lent!(store, handle, stat_at(to_path_flags(path_flags), path))?;
        Ok(to_stat(&stat))
    }

    async fn set_times_at(
        store: &Accessor<CallState, Self>,
        handle: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FilesystemResult<()> {
        check_path(&path)?;
        let accessed = to_timestamp(accessed)?;
        let modified = to_timestamp(modified)?;
        lent!(store, handle, set_times_at(to_path_flags(path_flags), path, accessed, modified))
    }

    async fn metadata_hash_at(
        store: &Accessor<CallState, Self>,
        handle: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
    ) -> FilesystemResult<MetadataHashValue> {
        check_path(&path)?;
        let p2::MetadataHashValue { lower, upper } =
            lent!(store, handle, metadata_hash_at(to_path_flags(path_flags), path))?;
        Ok(MetadataHashValue { lower, upper })
    }

    async fn metadata_hash(
        store: &Accessor<CallState, Self>,
        handle: Resource<Descriptor>,
    ) -> FilesystemResult<MetadataHashValue> {
        let p2::MetadataHashValue { lower, upper } = lent!(store, handle, metadata_hash())?;
        Ok(MetadataHashValue { lower, upper })
    }

    async fn stat(store: &Accessor<CallState, Self>, handle: Resource<Descriptor>) -> FilesystemResult<DescriptorStat> {
        Ok(to_stat(&lent!(store, handle, stat())?))
    }

    async fn set_times(
        store: &Accessor<CallState, Self>,
        handle: Resource<Descriptor>,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FilesystemResult<()> {
        let accessed = to_timestamp(accessed)?;
        let modified = to_timestamp(modified)?;
        lent!(store, handle, set_times(accessed, modified))
    }

    async fn set_size(
        store: &Accessor<CallState, Self>,
        handle: Resource<Descriptor>,
        size: Filesize,
    ) -> FilesystemResult<()> {
        lent!(store, handle, set_size(size))
    }

    async fn advise(
        store: &Accessor<CallState, Self>,
        handle: Resource<Descriptor>,
        offset: Filesize,
        length: Filesize,
        advice: Advice,
    ) -> FilesystemResult<()> {
        lent!(store, handle, advise(offset, length, to_advice(advice)))
    }

    async fn sync_data(store: &Accessor<CallState, Self>, handle: Resource<Descriptor>) -> FilesystemResult<()> {
        lent!(store, handle, sync_data())
    }

    async fn sync(store: &Accessor<CallState, Self>, handle: Resource<Descriptor>) -> FilesystemResult<()> {
        lent!(store, handle, sync())
    }

    async fn get_flags(
        store: &Accessor<CallState, Self>,
        handle: Resource<Descriptor>,
    ) -> FilesystemResult<DescriptorFlags> {
        Ok(from_descriptor_flags(lent!(store, handle, get_flags())?))
    }

    async fn get_type(
        store: &Accessor<CallState, Self>,
        handle: Resource<Descriptor>,
    ) -> FilesystemResult<DescriptorType> {
        Ok(to_type(lent!(store, handle, get_type())?))
    }

    async fn is_same_object(
        store: &Accessor<CallState, Self>,
        handle: Resource<Descriptor>,
        other: Resource<Descriptor>,
    ) -> wasmtime::Result<bool> {
        let Ok((mut lent, one, other)) = lend_both(store, &handle, &other) else { return Ok(false) };
        lent.view().is_same_object(one, other).await
    }
}

fn open_to_read(
    files: &mut FilesView<'_>,
    handle: &Resource<Descriptor>,
    offset: Filesize,
) -> FsResult<DynInputStream> {
    if files.prepare(handle, "read")?.open.is_dir {
        return Err(p2::ErrorCode::IsDirectory.into());
    }
    let (mut lent, handle) = lend_within(files, handle)?;
    let stream = lent.view().read_via_stream(handle, offset)?;
    lent.take(stream)
}

fn open_to_write(
    files: &mut FilesView<'_>,
    handle: &Resource<Descriptor>,
    position: Position,
) -> FsResult<DynOutputStream> {
    let (mut lent, handle) = lend_within(files, handle)?;
    let stream = match position {
        Position::At(offset) => lent.view().write_via_stream(handle, offset)?,
        Position::End => lent.view().append_via_stream(handle)?,
    };
    lent.take(stream)
}

fn open_to_list(files: &mut FilesView<'_>, handle: &Resource<Descriptor>) -> FsResult<(FolderLister, EndReceiver)> {
    let attempt = files.prepare_path(handle, "list", ".")?.attempt;
    let of_call = files.files()?;
    // Two, because a batch of names takes more than the buffer of a stream.
    let slots = [of_call.acquire_stream_slot(&attempt)?, of_call.acquire_stream_slot(&attempt)?];
    let (lent, handle) = lend_within(files, handle)?;
    Ok(FolderLister::new(lent, handle, slots))
}

/// Begins to write a stream of the guest to a file, or drops it.
fn write(
    mut store: Access<'_, CallState, AsyncFiles>,
    mut data: StreamReader<u8>,
    file: FsResult<DynOutputStream>,
) -> wasmtime::Result<End> {
    match file {
        Ok(file) => {
            let (writer, end) = FileWriter::new(file);
            data.pipe(&mut store, writer)?;
            FutureReader::new(&mut store, end)
        }
        Err(error) => {
            data.close(&mut store)?;
            failed(&mut store, error)
        }
    }
}

/// Returns the end of a stream that could not begin.
fn failed(store: &mut Access<'_, CallState, AsyncFiles>, error: FsError) -> wasmtime::Result<End> {
    let end: wasmtime::Result<Result<(), ErrorCode>> = Ok(Err(to_code(error.downcast()?)));
    FutureReader::new(store, std::future::ready(end))
}

impl types::Host for FilesView<'_> {
    fn convert_error_code(&mut self, error: FilesystemError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }
}

impl types::HostDescriptor for FilesView<'_> {
    fn drop(&mut self, handle: Resource<Descriptor>) -> wasmtime::Result<()> {
        p2::HostDescriptor::drop(self, handle)
    }
}

impl preopens::Host for FilesView<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        wasmtime_wasi::p2::bindings::filesystem::preopens::Host::get_directories(self)
    }
}

fn to_error(error: FsError) -> FilesystemError {
    match error.downcast() {
        Ok(code) => to_code(code).into(),
        Err(trap) => FilesystemError::trap(trap),
    }
}

/// Converts an error code. The code that only WASI 0.2 has is of streams that would wait.
pub(super) fn to_code(code: p2::ErrorCode) -> ErrorCode {
    match code {
        p2::ErrorCode::Access => ErrorCode::Access,
        p2::ErrorCode::WouldBlock => ErrorCode::Other(None),
        p2::ErrorCode::Already => ErrorCode::Already,
        p2::ErrorCode::BadDescriptor => ErrorCode::BadDescriptor,
        p2::ErrorCode::Busy => ErrorCode::Busy,
        p2::ErrorCode::Deadlock => ErrorCode::Deadlock,
        p2::ErrorCode::Quota => ErrorCode::Quota,
        p2::ErrorCode::Exist => ErrorCode::Exist,
        p2::ErrorCode::FileTooLarge => ErrorCode::FileTooLarge,
        p2::ErrorCode::IllegalByteSequence => ErrorCode::IllegalByteSequence,
        p2::ErrorCode::InProgress => ErrorCode::InProgress,
        p2::ErrorCode::Interrupted => ErrorCode::Interrupted,
        p2::ErrorCode::Invalid => ErrorCode::Invalid,
        p2::ErrorCode::Io => ErrorCode::Io,
        p2::ErrorCode::IsDirectory => ErrorCode::IsDirectory,
        p2::ErrorCode::Loop => ErrorCode::Loop,
        p2::ErrorCode::TooManyLinks => ErrorCode::TooManyLinks,
        p2::ErrorCode::MessageSize => ErrorCode::MessageSize,
        p2::ErrorCode::NameTooLong => ErrorCode::NameTooLong,
        p2::ErrorCode::NoDevice => ErrorCode::NoDevice,
        p2::ErrorCode::NoEntry => ErrorCode::NoEntry,
        p2::ErrorCode::NoLock => ErrorCode::NoLock,
        p2::ErrorCode::InsufficientMemory => ErrorCode::InsufficientMemory,
        p2::ErrorCode::InsufficientSpace => ErrorCode::InsufficientSpace,
        p2::ErrorCode::NotDirectory => ErrorCode::NotDirectory,
        p2::ErrorCode::NotEmpty => ErrorCode::NotEmpty,
        p2::ErrorCode::NotRecoverable => ErrorCode::NotRecoverable,
        p2::ErrorCode::Unsupported => ErrorCode::Unsupported,
        p2::ErrorCode::NoTty => ErrorCode::NoTty,
        p2::ErrorCode::NoSuchDevice => ErrorCode::NoSuchDevice,
        p2::ErrorCode::Overflow => ErrorCode::Overflow,
        p2::ErrorCode::NotPermitted => ErrorCode::NotPermitted,
        p2::ErrorCode::Pipe => ErrorCode::Pipe,
        p2::ErrorCode::ReadOnly => ErrorCode::ReadOnly,
        p2::ErrorCode::InvalidSeek => ErrorCode::InvalidSeek,
        p2::ErrorCode::TextFileBusy => ErrorCode::TextFileBusy,
        p2::ErrorCode::CrossDevice => ErrorCode::CrossDevice,
    }
}

pub(super) fn to_type(kind: p2::DescriptorType) -> DescriptorType {
    match kind {
        p2::DescriptorType::Unknown => DescriptorType::Other(None),
        p2::DescriptorType::BlockDevice => DescriptorType::BlockDevice,
        p2::DescriptorType::CharacterDevice => DescriptorType::CharacterDevice,
        p2::DescriptorType::Directory => DescriptorType::Directory,
        p2::DescriptorType::Fifo => DescriptorType::Fifo,
        p2::DescriptorType::SymbolicLink => DescriptorType::SymbolicLink,
        p2::DescriptorType::RegularFile => DescriptorType::RegularFile,
        p2::DescriptorType::Socket => DescriptorType::Socket,
    }
}

fn to_stat(stat: &p2::DescriptorStat) -> DescriptorStat {
    DescriptorStat {
        type_: to_type(stat.type_),
        link_count: stat.link_count,
        size: stat.size,
        data_access_timestamp: stat.data_access_timestamp.and_then(to_instant),
        data_modification_timestamp: stat.data_modification_timestamp.and_then(to_instant),
        status_change_timestamp: stat.status_change_timestamp.and_then(to_instant),
    }
}

fn to_instant(time: Datetime) -> Option<Instant> {
    Some(Instant { seconds: i64::try_from(time.seconds).ok()?, nanoseconds: time.nanoseconds })
}

/// Converts a time. WASI 0.2 has none before 1970.
fn to_timestamp(time: NewTimestamp) -> Result<p2::NewTimestamp, ErrorCode> {
    Ok(match time {
        NewTimestamp::NoChange => p2::NewTimestamp::NoChange,
        NewTimestamp::Now => p2::NewTimestamp::Now,
        NewTimestamp::Timestamp(Instant { seconds, nanoseconds }) => {
            let seconds = u64::try_from(seconds).map_err(|_| ErrorCode::Overflow)?;
            p2::NewTimestamp::Timestamp(Datetime { seconds, nanoseconds })
        }
    })
}

fn to_advice(advice: Advice) -> p2::Advice {
    match advice {
        Advice::Normal => p2::Advice::Normal,
        Advice::Sequential => p2::Advice::Sequential,
        Advice::Random => p2::Advice::Random,
        Advice::WillNeed => p2::Advice::WillNeed,
        Advice::DontNeed => p2::Advice::DontNeed,
        Advice::NoReuse => p2::Advice::NoReuse,
    }
}

fn to_path_flags(flags: PathFlags) -> p2::PathFlags {
    if flags.contains(PathFlags::SYMLINK_FOLLOW) { p2::PathFlags::SYMLINK_FOLLOW } else { p2::PathFlags::empty() }
}

fn to_open_flags(flags: OpenFlags) -> p2::OpenFlags {
    let pairs = [
        (OpenFlags::CREATE, p2::OpenFlags::CREATE),
        (OpenFlags::DIRECTORY, p2::OpenFlags::DIRECTORY),
        (OpenFlags::EXCLUSIVE, p2::OpenFlags::EXCLUSIVE),
        (OpenFlags::TRUNCATE, p2::OpenFlags::TRUNCATE),
    ];
    let set = pairs.into_iter().filter(|(from, _)| flags.contains(*from));
    set.fold(p2::OpenFlags::empty(), |all, (_, to)| all | to)
}

/// The flags of both versions.
const DESCRIPTOR_FLAGS: [(DescriptorFlags, p2::DescriptorFlags); 6] = [
    (DescriptorFlags::READ, p2::DescriptorFlags::READ),
    (DescriptorFlags::WRITE, p2::DescriptorFlags::WRITE),
    (DescriptorFlags::FILE_INTEGRITY_SYNC, p2::DescriptorFlags::FILE_INTEGRITY_SYNC),
    (DescriptorFlags::DATA_INTEGRITY_SYNC, p2::DescriptorFlags::DATA_INTEGRITY_SYNC),
    (DescriptorFlags::REQUESTED_WRITE_SYNC, p2::DescriptorFlags::REQUESTED_WRITE_SYNC),
    (DescriptorFlags::MUTATE_DIRECTORY, p2::DescriptorFlags::MUTATE_DIRECTORY),
];

fn to_descriptor_flags(flags: DescriptorFlags) -> p2::DescriptorFlags {
    let set = DESCRIPTOR_FLAGS.into_iter().filter(|(from, _)| flags.contains(*from));
    set.fold(p2::DescriptorFlags::empty(), |all, (_, to)| all | to)
}

fn from_descriptor_flags(flags: p2::DescriptorFlags) -> DescriptorFlags {
    let set = DESCRIPTOR_FLAGS.into_iter().filter(|(_, from)| flags.contains(*from));
    set.fold(DescriptorFlags::empty(), |all, (to, _)| all | to)
}
