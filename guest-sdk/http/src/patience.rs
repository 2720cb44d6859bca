//! How long to wait for a server.

use std::time::Duration;

use fumehood_guest::context;

use crate::RequestError;

/// What the tool needs of its time to tell what went wrong.
const RESERVE: Duration = Duration::from_millis(200);

/// What is left of the call for a request.
pub(crate) fn left() -> Result<Duration, RequestError> {
    context::remaining().checked_sub(RESERVE).filter(|left| !left.is_zero()).ok_or(RequestError::Timeout)
}

#[cfg(test)]
mod tests {
    use fumehood_guest::testing::Call;

    use super::*;

    #[test]
    fn a_call_that_is_nearly_over_asks_nobody() {
        let left = |millis| Call::new().remaining(Duration::from_millis(millis)).run(left).returned;
        assert_eq!(left(100), Err(RequestError::Timeout));
        assert_eq!(left(200), Err(RequestError::Timeout));
        assert_eq!(left(1200), Ok(Duration::from_secs(1)));
    }
}
