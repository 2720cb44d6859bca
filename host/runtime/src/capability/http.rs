//! HTTP requests of a guest: every one is refused.

use fumehood_core::permission::{Power, Refusal};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpHooks};

use super::refusals::Refusals;
use crate::outcome::cut_to;

/// The most that the headers of one request may take up in the host.
///
/// Little, because no request is ever made: what a guest builds only takes up room outside its memory ceiling.
const FIELDS_BYTES: usize = 2 << 10;

/// The longest address of a refused request that is repeated, in bytes.
const TRIED_BYTES: usize = 256;

/// The seam through which a granted request will pass. Without a grant nothing is resolved and nothing is connected.
pub(crate) struct Egress {
    refusals: Refusals,
}

impl Egress {
    pub(crate) fn new(refusals: &Refusals) -> Self {
        Self { refusals: refusals.clone() }
    }
}

pub(crate) fn context() -> WasiHttpCtx {
    let mut ctx = WasiHttpCtx::new();
    ctx.set_field_size_limit(FIELDS_BYTES);
    ctx
}

type Transmitted = Box<dyn Future<Output = Result<(), Error>> + Send>;

impl WasiHttpHooks for Egress {
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        _options: Option<RequestOptions>,
        _transmitted: Transmitted,
    ) -> Box<dyn Future<Output = Result<(http::Response<WasiBody>, Transmitted), Error>> + Send> {
        let uri = request.uri();
        let tried = cut_to(&format!("{} {uri}", request.method()), TRIED_BYTES);
        self.refusals.add(Refusal {
            power: Power::Http,
            tried,
            because: "this tool was granted no requests".to_owned(),
            allow: None,
        });
        Box::new(async { Err(Error::HttpRequestDenied) })
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        4 << 10
    }
}
