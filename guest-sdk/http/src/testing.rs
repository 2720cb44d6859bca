//! Natively there is no network: a function of the test plays all servers, for its own thread only.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use http::{Request, Response};

use crate::{Body, RequestError};

/// Plays the servers.
type Server = Rc<dyn Fn(&Request<Vec<u8>>) -> Result<Response<Vec<u8>>, RequestError>>;

thread_local! {
    static SERVER: RefCell<Option<Server>> = const { RefCell::new(None) };
}

/// Takes the server away again, even after a panic.
struct Playing(Option<Server>);

impl Drop for Playing {
    fn drop(&mut self) {
        let before = self.0.take();
        SERVER.with(|server| *server.borrow_mut() = before);
    }
}

/// Runs something whose requests are answered by `server`. Without one every request is [`RequestError::Denied`].
pub fn answering<R>(
    server: impl Fn(&Request<Vec<u8>>) -> Result<Response<Vec<u8>>, RequestError> + 'static,
    run: impl FnOnce() -> R,
) -> R {
    let before = SERVER.with(|playing| playing.borrow_mut().replace(Rc::new(server)));
    let _playing = Playing(before);
    run()
}

pub(crate) fn send(
    request: Request<Vec<u8>>,
    most: usize,
    _patience: Duration,
) -> Result<Response<Body>, RequestError> {
    let server = SERVER.with(|server| server.borrow().clone()).ok_or(RequestError::Denied)?;
    Ok(server(&request)?.map(|mut bytes| {
        let complete = bytes.len() <= most;
        bytes.truncate(most);
        Body { bytes, complete }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send;

    fn get(address: &str, most: usize) -> Result<Body, RequestError> {
        send(Request::get(address).body(Vec::new()).unwrap(), most).map(Response::into_body)
    }

    #[test]
    fn a_response_is_read_up_to_its_cap() {
        let body =
            |most| answering(|_| Ok(Response::new(b"abc".to_vec())), || get("https://a.example/", most)).unwrap();
        assert_eq!(body(3), Body { bytes: b"abc".to_vec(), complete: true });
        assert_eq!(body(2), Body { bytes: b"ab".to_vec(), complete: false });
        assert_eq!(body(0), Body { bytes: Vec::new(), complete: false });
    }

    #[test]
    fn without_a_server_everything_is_denied() {
        assert_eq!(get("https://a.example/", 1), Err(RequestError::Denied));
        answering(|_| Ok(Response::default()), || ());
        assert_eq!(get("https://a.example/", 1), Err(RequestError::Denied));
    }

    #[test]
    fn only_absolute_addresses_of_the_web_are_sent() {
        for address in ["/path", "ftp://a.example/", "a.example"] {
            let answered = answering(|_| Ok(Response::default()), || get(address, 1));
            assert!(matches!(answered, Err(RequestError::Invalid(_))), "{address}");
        }
    }
}
