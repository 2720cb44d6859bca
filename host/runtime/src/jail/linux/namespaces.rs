//! Namespaces: of mounts, and for programs a network without a route to anywhere.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, TcpListener};

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{getegid, geteuid};

/// The namespace of the thread that opens it.
const NETWORK_OF_THREAD: &str = "/proc/thread-self/ns/net";
/// The number of the loopback device, which is the first of every network namespace.
const LOOPBACK: i32 = 1;
/// Length of a message of netlink with a header and the description of a device, in bytes.
const DEVICE_MESSAGE_BYTES: usize = 32;
/// `RTM_NEWLINK`, `NLM_F_REQUEST` with `NLM_F_ACK`, and `NLMSG_ERROR`, which also reports success (`netlink(7)`).
const CHANGE_DEVICE: u16 = 16;
const REQUEST_WITH_ANSWER: u16 = 1 | 4;
const ANSWER: u16 = 2;
/// `IFF_UP`.
const UP: u32 = 1;

/// Gives this process a mount namespace of its own. It needs a user namespace for that, unless it may administer the
/// system. Returns whether it has one. The process must have one thread only.
pub(super) fn leave_mounts() -> io::Result<bool> {
    let user = geteuid().as_raw();
    let group = getegid().as_raw();
    match unshare(CloneFlags::CLONE_NEWNS) {
        Err(Errno::EPERM) => {}
        ended => return Ok(ended.map(|()| false)?),
    }
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
    // Its own user and group have the same numbers there. The kernel asks for the first line before the last.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    Ok(true)
}

/// A network namespace, and the listener in it.
struct Network {
    namespace: File,
    listener: Option<TcpListener>,
}

/// Moves this process to a network with a loopback device and nothing else. Returns a socket that listens there at this
/// port of 127.0.0.1. The process must have one thread only.
///
/// # Errors
/// If the kernel does not permit it. The process then is in the network where it was before.
pub(super) fn leave_network(port: Option<u16>) -> io::Result<Option<TcpListener>> {
    // A network namespace cannot be left again, and some systems permit to create one, but not to use it. So a thread
    // creates it, and the process follows when the network works.
    let creator = std::thread::Builder::new().spawn(move || create_network(port))?;
    let network = creator.join().map_err(|_| io::Error::other("the thread has panicked"))??;
    setns(&network.namespace, CloneFlags::CLONE_NEWNET)?;
    Ok(network.listener)
}

fn create_network(port: Option<u16>) -> io::Result<Network> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    let namespace = File::open(NETWORK_OF_THREAD)?;
    let Some(port) = port else { return Ok(Network { namespace, listener: None }) };
    raise_loopback()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    Ok(Network { namespace, listener: Some(listener) })
}

/// Switches on the loopback device of the network of this thread (`rtnetlink(7)`).
fn raise_loopback() -> io::Result<()> {
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let kernel = SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&socket, &loopback_message(), SendFlags::empty(), &kernel)?;
    let mut answer = [0; 128];
    let (length, _) = rustix::net::recv(&socket, &mut answer, RecvFlags::empty())?;
    match error_of(answer.get(..length).unwrap_or_default()) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(error)),
        None => Err(io::Error::other("the kernel gave an answer of another kind")),
    }
}

fn loopback_message() -> Vec<u8> {
    let mut message = Vec::with_capacity(DEVICE_MESSAGE_BYTES);
    // `nlmsghdr`: length, type, flags, sequence number and sender.
    message.extend((DEVICE_MESSAGE_BYTES as u32).to_ne_bytes());
    message.extend(CHANGE_DEVICE.to_ne_bytes());
    message.extend(REQUEST_WITH_ANSWER.to_ne_bytes());
    message.extend([0; 8]);
    // `ifinfomsg`: family and type, number, flags, and the flags that change.
    message.extend([0; 4]);
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message
}

/// Returns the number of the error that an answer reports, 0 for success; `None` if it is no answer.
fn error_of(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let error = i32::from_ne_bytes(answer.get(16..20)?.try_into().ok()?);
    (kind == ANSWER).then_some(-error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_answers_of_netlink() {
        assert_eq!(loopback_message().len(), DEVICE_MESSAGE_BYTES);
        let answer = |kind: u16, error: i32| {
            let mut answer = vec![0; 36];
            answer[4..6].copy_from_slice(&kind.to_ne_bytes());
            answer[16..20].copy_from_slice(&error.to_ne_bytes());
            answer
        };
        assert_eq!(error_of(&answer(ANSWER, 0)), Some(0));
        assert_eq!(error_of(&answer(ANSWER, -1)), Some(1));
        assert_eq!(error_of(&answer(CHANGE_DEVICE, 0)), None);
        assert_eq!(error_of(&[0; 18]), None);
    }
}
