//! Terminals of `termios(3)`.

use std::io::{self, Stdin};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetwinsize, tcsetattr,
};

#[derive(Debug, Clone)]
pub(super) struct Settings(Termios);

impl Settings {
    pub(super) fn of_stdin() -> Option<Self> {
        tcgetattr(io::stdin()).ok().map(Self)
    }

    /// Hides what is typed. Returns the settings that were there.
    pub(super) fn hide() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        // A signal would end the process with the terminal as it is now.
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG | LocalModes::IEXTEN);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Self(before))
    }

    pub(super) fn restore(&self) -> io::Result<()> {
        Ok(tcsetattr(io::stdin(), OptionalActions::Now, &self.0)?)
    }
}

pub(super) fn columns(stream: impl AsFd) -> Option<usize> {
    let size = tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

pub(super) fn has_input(stdin: &Stdin, patience: Duration) -> io::Result<bool> {
    let patience = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
    match poll(&mut [PollFd::new(stdin, PollFlags::IN)], Some(&patience)) {
        Err(Errno::INTR) => Ok(false),
        ready => Ok(ready? > 0),
    }
}

pub(super) fn read_unbuffered(stdin: &Stdin, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(stdin, buffer)?)
}

pub(super) fn discard_input(stdin: &Stdin) -> io::Result<()> {
    Ok(tcflush(stdin, QueueSelector::IFlush)?)
}
