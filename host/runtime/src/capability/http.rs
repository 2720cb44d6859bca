//! HTTP requests of a guest: every one is refused.

use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpHooks};

/// The most that the headers of one request may take up in the host.
///
/// Little, because no request is ever made: what a guest builds only takes up room outside its memory ceiling.
const FIELDS_BYTES: usize = 2 << 10;

/// The seam through which a granted request will pass. Without a grant nothing is resolved and nothing is connected.
pub(crate) struct NoEgress;

pub(crate) fn context() -> WasiHttpCtx {
    let mut ctx = WasiHttpCtx::new();
    ctx.set_field_size_limit(FIELDS_BYTES);
    ctx
}

type Transmitted = Box<dyn Future<Output = Result<(), Error>> + Send>;

impl WasiHttpHooks for NoEgress {
    fn send_request(
        &mut self,
        _request: http::Request<WasiBody>,
        _options: Option<RequestOptions>,
        _transmitted: Transmitted,
    ) -> Box<dyn Future<Output = Result<(http::Response<WasiBody>, Transmitted), Error>> + Send> {
        Box::new(async { Err(Error::HttpRequestDenied) })
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        4 << 10
    }
}
