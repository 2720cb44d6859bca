//! Arguments of `fumehood log`.

use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use fumehood::event_log::{Checkpoint, CheckpointError, JoinedHead, JoinedHeadError, LogId};
use fumehood::limits::parse_duration;
use fumehood::record::RecordKind;

use crate::moment::{Moment, parse_moment};
use crate::plot::{PlotFile, parse_plot_file};

#[derive(Debug, Args)]
pub(crate) struct Log {
    #[command(subcommand)]
    pub(crate) action: Option<LogAction>,

    /// Event log [default: `fumehood/events.db` in your state folder]
    #[arg(long = "log", global = true, value_name = "FILE", env = "FUMEHOOD_LOG")]
    pub(crate) file: Option<PathBuf>,

    /// File with the key that seals the log [default: `LOG.key` next to the log]
    #[arg(long, global = true, value_name = "FILE", env = "FUMEHOOD_LOG_KEY")]
    pub(crate) log_key: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) list: List,
}

/// The log of a command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Log")]
pub(crate) struct Recording {
    /// Event log to write [default: `fumehood/events.db` in your state folder]
    #[arg(long = "log", value_name = "FILE", env = "FUMEHOOD_LOG")]
    pub(crate) log: Option<PathBuf>,

    /// File with the key that seals the log, created with a new log [default: `LOG.key` next to the log]
    #[arg(long, value_name = "FILE", env = "FUMEHOOD_LOG_KEY")]
    pub(crate) log_key: Option<PathBuf>,

    /// Record nothing
    // No conflict with `--log`: it would forbid this option wherever the variable is set.
    #[arg(long)]
    pub(crate) no_log: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LogAction {
    /// List the newest calls; the default
    List(List),
    /// Show one call with its result, and everything that led to it
    Show(Show),
    /// Summarize calls: outcomes and durations per tool
    Stats(Stats),
    /// Print new records until Ctrl-C
    Follow(Follow),
    /// Print records as JSON Lines, oldest first, or copy the log to a file (`--to`)
    Export(Export),
    /// Copy a log file to the PostgreSQL server of [storage], with its hashes, seals and saved sessions
    #[cfg(feature = "postgres")]
    Import(Import),
    /// Verify that no record was edited, removed or reordered; exit code 9 if one was, 10 if it cannot be verified
    Verify(Verify),
    /// Print a checkpoint of the log, to keep elsewhere for `log verify --since`; in PostgreSQL, one per writer and one
    /// for all
    Head,
}

/// Contents of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ListKind {
    /// Tool calls with their outcome
    #[default]
    Calls,
    /// Sessions
    Sessions,
    /// Single records
    Records,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct List {
    /// Contents of the list [default: calls; with `--kind`: records]
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(crate) of: Option<ListKind>,

    /// Maximum number of lines
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = List::LIMIT)]
    pub(crate) limit: u32,

    #[command(flatten)]
    pub(crate) filters: Filters,
}

impl List {
    /// Fits on a screen.
    pub(crate) const LIMIT: u32 = 20;

    /// Returns whether no option of a list was given.
    pub(crate) fn is_untouched(&self) -> bool {
        self.of.is_none() && self.limit == Self::LIMIT && self.filters.is_empty()
    }
}

/// Selection of records.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct Filters {
    /// Only records of this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,

    /// Only records about this tool, by its full name
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,

    /// Only records of this kind, such as `tool_rejected`
    #[arg(long, value_name = "KIND", value_parser = parse_kind)]
    pub(crate) kind: Option<RecordKind>,

    /// Only records with this outcome: `ok`, or the kind of an error, such as `deadline`
    #[arg(long, value_name = "WORD")]
    pub(crate) status: Option<String>,

    /// Only records of this actor
    #[arg(long, value_name = "NAME")]
    pub(crate) actor: Option<String>,

    /// Only records since this time: `2026-11-21`, `2026-11-21T16:30:00Z`, or `2h` for two hours ago
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub(crate) since: Option<Moment>,

    /// Only records before this time
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub(crate) until: Option<Moment>,
}

impl Filters {
    /// Returns whether there is no filter.
    fn is_empty(&self) -> bool {
        let Self { session, tool, kind, status, actor, since, until } = self;
        let words = [session, tool, status, actor];
        kind.is_none() && since.is_none() && until.is_none() && words.iter().all(|word| word.is_none())
    }
}

fn parse_kind(text: &str) -> Result<RecordKind, String> {
    RecordKind::parse(text).ok_or_else(|| {
        let kinds = RecordKind::ALL.map(RecordKind::as_str).join(", ");
        format!("expected one of {kinds}")
    })
}

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// Number of newest calls to summarize
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 10_000)]
    pub(crate) limit: u32,

    /// Write plots of outcomes and durations to this file, `.svg` or `.html`
    #[arg(long, value_name = "FILE", value_parser = parse_plot_file)]
    pub(crate) plot: Option<PlotFile>,

    #[command(flatten)]
    pub(crate) filters: Filters,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Id of the call, as `fumehood log` lists it, or its beginning
    pub(crate) call: String,

    /// Session of the call, if several sessions used the same id
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Follow {
    /// Number of existing records to print first
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 10)]
    pub(crate) last: u32,

    /// Exit after this time without new records, such as `5s` [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) idle: Option<Duration>,

    #[command(flatten)]
    pub(crate) filters: Filters,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Maximum number of records [default: all]
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub(crate) limit: Option<u32>,

    /// Copy the log to this new file, with its hashes, seals and saved sessions
    #[cfg(feature = "postgres")]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["limit", "session", "tool", "kind", "status", "actor", "since", "until"])]
    pub(crate) to: Option<PathBuf>,

    /// Writer whose log to copy, as `fumehood log verify` names it [default: the writer with your key]
    #[cfg(feature = "postgres")]
    #[arg(long, value_name = "LOG", value_parser = parse_log_id, requires = "to")]
    pub(crate) writer: Option<LogId>,

    #[command(flatten)]
    pub(crate) filters: Filters,
}

#[cfg(feature = "postgres")]
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Log file to copy
    pub(crate) from: PathBuf,

    /// File with the key that seals that log [default: `FROM.key` next to it]
    #[arg(long, value_name = "FILE")]
    pub(crate) from_key: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// Row and hash that an earlier `verify` printed, as `ROW:HASH`; the log must still contain them
    #[arg(long, value_name = "MARK", value_parser = parse_mark, conflicts_with = "since")]
    pub(crate) mark: Option<fumehood::event_log::Mark>,

    /// Checkpoint from `fumehood log head`, or `@FILE` with several: no earlier record may have changed or vanished
    #[arg(long, value_name = "CHECKPOINT", value_parser = parse_checkpoints)]
    pub(crate) since: Option<Checkpoints>,

    /// Verify without the key: seals are not checked, so a log that was completely rewritten is not detected
    #[arg(long)]
    pub(crate) without_key: bool,

    /// File with the key of another writer, to check its seals too; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) writer_key: Vec<PathBuf>,
}

/// One or more checkpoints and joined heads, in the order of the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checkpoints {
    pub(crate) all: Vec<Checkpoint>,
    pub(crate) joined: Vec<JoinedHead>,
}

impl Checkpoints {
    /// Adds a saved line.
    fn add(&mut self, line: &str) -> Result<(), String> {
        match line.parse::<JoinedHead>() {
            Ok(joined) => self.joined.push(joined),
            Err(JoinedHeadError::Format(_)) => {
                self.all.push(line.parse().map_err(|error: CheckpointError| error.to_string())?);
            }
            Err(malformed) => return Err(malformed.to_string()),
        }
        Ok(())
    }

    /// Returns the highest row of a log in the saved checkpoints.
    ///
    /// A lower row after a higher row means that the log was replaced by an older copy. So the order in the file does
    /// not decide.
    pub(crate) fn highest_row_of(&self, log: LogId) -> Option<u64> {
        self.all.iter().filter(|checkpoint| checkpoint.log == log).map(|checkpoint| checkpoint.mark.seq).max()
    }
}

/// Parses a checkpoint or a joined head, or the lines of the file that is named after `@`.
fn parse_checkpoints(text: &str) -> Result<Checkpoints, String> {
    /// Maximum size of the file: more than 400,000 checkpoints.
    const MAX_FILE_MIB: u64 = 64;
    let max_bytes = MAX_FILE_MIB << 20;
    let mut kept = Checkpoints::default();
    let Some(path) = text.strip_prefix('@') else {
        let is_file = std::path::Path::new(text).is_file();
        let tip = if is_file { format!("; to read the file, write `@{text}`") } else { String::new() };
        kept.add(text).map_err(|error| format!("{error}{tip}"))?;
        return Ok(kept);
    };
    let mut content = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| format!("{path} cannot be read: {error}"))?;
    let read = file.take(max_bytes + 1).read_to_end(&mut content);
    read.map_err(|error| format!("{path} cannot be read: {error}"))?;
    // The part that would be left out may have the newest checkpoint.
    if content.len() as u64 > max_bytes {
        return Err(format!("{path} is larger than {MAX_FILE_MIB} MiB; keep its last lines only"));
    }
    let lines = String::from_utf8(content).map_err(|error| format!("{path} cannot be read: {error}"))?;
    // The last line must be a checkpoint; earlier ones may be remarks.
    let last = lines.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    Checkpoints::default().add(last).map_err(|error| format!("{path}: {error}"))?;
    for line in lines.lines() {
        let _remark = kept.add(line);
    }
    Ok(kept)
}

#[cfg(feature = "postgres")]
fn parse_log_id(text: &str) -> Result<LogId, String> {
    let digits = format!("{text}{text}");
    let bytes = parse_hex_32(&digits).filter(|_| text.len() == 32).ok_or("expected 32 hexadecimal digits")?;
    let (id, _) = bytes.split_first_chunk().ok_or("expected 32 hexadecimal digits")?;
    Ok(LogId(*id))
}

fn parse_mark(text: &str) -> Result<fumehood::event_log::Mark, String> {
    let expected = "expected ROW:HASH, a number and 64 hexadecimal digits";
    let (seq, digits) = text.trim().split_once(':').ok_or(expected)?;
    let seq: u64 = seq.parse().map_err(|_| expected)?;
    let hash = parse_hex_32(digits).map(fumehood::event_log::Hash).ok_or(expected)?;
    Ok(fumehood::event_log::Mark { seq, hash })
}

/// Parses 32 bytes, written as 64 hexadecimal digits.
pub(crate) fn parse_hex_32(text: &str) -> Option<[u8; 32]> {
    let mut bytes = Vec::with_capacity(32);
    let mut digits = text.trim().chars();
    while let Some(high) = digits.next() {
        let byte = high.to_digit(16)? * 16 + digits.next()?.to_digit(16)?;
        bytes.push(u8::try_from(byte).ok()?);
    }
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_64_hexadecimal_digits_are_accepted() {
        assert_eq!(parse_hex_32("0F"), None);
        assert_eq!(parse_hex_32(&"0F".repeat(32)), Some([15; 32]));
        for wrong in ["0g".repeat(32), "00".repeat(31), "00".repeat(33), "0".repeat(63), String::new()] {
            assert_eq!(parse_hex_32(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn parses_marks_of_a_row_and_its_hash() {
        let digits = "0f".repeat(32);
        let mark = parse_mark(&format!("7:{digits}")).unwrap();
        assert_eq!((mark.seq, mark.hash.to_string()), (7, digits.clone()));
        for wrong in ["", "7", "7:", "x:00", "7:0g", &format!("7:{digits}0"), &format!("7:{digits}00")] {
            assert!(parse_mark(wrong).unwrap_err().contains("ROW:HASH"), "{wrong}");
        }
    }
}
