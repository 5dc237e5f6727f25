//! Word of changes from the kernel, by netlink.

use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, RawFd};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// Becomes readable when something of the kernel's network changes.
#[derive(Debug)]
pub(super) struct KernelWatch(Socket);

impl KernelWatch {
    /// Listens to groups of the kernel's messages, `RTMGRP_LINK` and its like, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(groups: i32) -> io::Result<Self> {
        let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(Protocol::from(libc::NETLINK_ROUTE)))?;
        socket.set_nonblocking(true)?;
        // SAFETY: the storage that `try_init` hands out is zeroed and larger than a sockaddr_nl, whose fields are plain numbers.
        let ((), address) = unsafe {
            SockAddr::try_init(|storage, length| {
                let address = storage.cast::<libc::sockaddr_nl>();
                (*address).nl_family = libc::AF_NETLINK as libc::sa_family_t;
                (*address).nl_groups = groups as u32;
                *length = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
                Ok(())
            })
        }?;
        socket.bind(&address)?;
        Ok(Self(socket))
    }

    /// To wait for.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Whether anything has changed since; what, is to be read from the kernel. More than there was room for is a change too.
    pub fn has_changed(&self) -> bool {
        let mut changed = false;
        let mut buffer = [0; 8192];
        loop {
            match (&self.0).read(&mut buffer) {
                Ok(_) => changed = true,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => changed = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return changed,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_can_be_listened_to() {
        let watch = KernelWatch::open(libc::RTMGRP_IPV4_ROUTE | libc::RTMGRP_LINK).unwrap();
        assert!(!watch.has_changed() && watch.descriptor() > 0);
    }
}
