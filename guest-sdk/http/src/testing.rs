//! Tests without a network: a function of the test plays all servers, for its own thread only.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use http::{Request, Response};

use crate::{Body, RequestError};

/// The function that plays all servers.
type Server = Rc<dyn Fn(&Request<Vec<u8>>) -> Result<Response<Vec<u8>>, RequestError>>;

thread_local! {
    static SERVER: RefCell<Option<Server>> = const { RefCell::new(None) };
}

/// Restores the previous server when dropped, even after a panic.
struct RestoreGuard(Option<Server>);

impl Drop for RestoreGuard {
    fn drop(&mut self) {
        let before = self.0.take();
        SERVER.with(|server| *server.borrow_mut() = before);
    }
}

/// Runs a function whose requests are answered by `server`. Without a server every request is [`RequestError::Denied`].
pub fn answering<R>(
    server: impl Fn(&Request<Vec<u8>>) -> Result<Response<Vec<u8>>, RequestError> + 'static,
    run: impl FnOnce() -> R,
) -> R {
    let before = SERVER.with(|current| current.borrow_mut().replace(Rc::new(server)));
    let _guard = RestoreGuard(before);
    run()
}

pub(crate) fn send(
    request: Request<Vec<u8>>,
    max_bytes: usize,
    _timeout: Duration,
) -> Result<Response<Body>, RequestError> {
    let server = SERVER.with(|server| server.borrow().clone()).ok_or(RequestError::Denied)?;
    Ok(server(&request)?.map(|mut bytes| {
        let complete = bytes.len() <= max_bytes;
        bytes.truncate(max_bytes);
        Body { bytes, complete }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send;

    fn get(address: &str, max_bytes: usize) -> Result<Body, RequestError> {
        send(Request::get(address).body(Vec::new()).unwrap(), max_bytes).map(Response::into_body)
    }

    #[test]
    fn reads_a_body_up_to_its_limit() {
        let body = |max_bytes| {
            answering(|_| Ok(Response::new(b"abc".to_vec())), || get("https://a.example/", max_bytes)).unwrap()
        };
        assert_eq!(body(3), Body { bytes: b"abc".to_vec(), complete: true });
        assert_eq!(body(2), Body { bytes: b"ab".to_vec(), complete: false });
        assert_eq!(body(0), Body { bytes: Vec::new(), complete: false });
    }

    #[test]
    fn denies_requests_without_a_server() {
        assert_eq!(get("https://a.example/", 1), Err(RequestError::Denied));
        answering(|_| Ok(Response::default()), || ());
        assert_eq!(get("https://a.example/", 1), Err(RequestError::Denied));
    }

    #[test]
    fn rejects_addresses_that_are_not_absolute_http() {
        for address in ["/path", "ftp://a.example/", "a.example"] {
            let answered = answering(|_| Ok(Response::default()), || get(address, 1));
            assert!(matches!(answered, Err(RequestError::Invalid(_))), "{address}");
        }
    }
}
