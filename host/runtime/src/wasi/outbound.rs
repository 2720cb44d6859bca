//! The destination of the requests and connections of a component's calls: the network, or the host of this worker process.

use std::sync::Arc;

use fumehood_core::call::Observer;
use fumehood_core::policy::permission::Grant;
use fumehood_core::policy::redact::Redactor;

use super::account::{RequestLedger, RequestObserver};
use super::http::{DirectEgress, Egress, RelayEgress};
use super::refusals::Refusals;
use super::sockets::{DirectSockets, Sockets};
use crate::engine::deadline::Deadline;
use crate::network::Network;

/// The destination of the requests and connections of a component's calls.
#[derive(Clone)]
pub(crate) enum OutboundConfig {
    /// The network, for requests and connections that this process admits.
    Network { network: Network, redactor: Option<Arc<Redactor>> },
    /// The host of this worker process, which admits or refuses them.
    Relay { egress: RelayEgress, sockets: Arc<dyn Sockets> },
}

/// The requests and connections of one call.
pub(crate) struct Outbound {
    pub(crate) egress: Egress,
    pub(crate) sockets: Arc<dyn Sockets>,
    /// The host process keeps that of relayed ones.
    pub(crate) ledger: Option<RequestLedger>,
}

/// The requests and connections of one call, which this process admits.
pub(crate) struct DirectOutbound {
    pub(crate) egress: DirectEgress,
    pub(crate) sockets: Arc<DirectSockets>,
    pub(crate) ledger: RequestLedger,
}

impl DirectOutbound {
    pub(crate) fn new(
        grant: &Arc<Grant>,
        network: &Network,
        deadline: Deadline,
        refusals: &Refusals,
        observer: Option<Arc<dyn Observer>>,
        redactor: Option<Arc<Redactor>>,
    ) -> Self {
        let ledger = RequestLedger::default();
        let observer = RequestObserver { observer, redactor, ledger: ledger.clone() };
        let sockets = Arc::new(DirectSockets::new(grant, network, refusals, observer.clone()));
        Self { egress: DirectEgress::new(grant, network, deadline, refusals, observer), sockets, ledger }
    }
}

impl OutboundConfig {
    /// Returns the redactor of the component's secrets; `None` if it has none, or they are not in this process.
    pub(crate) fn redactor(&self) -> Option<Arc<Redactor>> {
        match self {
            Self::Network { redactor, .. } => redactor.clone(),
            Self::Relay { .. } => None,
        }
    }

    /// Opens the requests and connections of one call.
    pub(super) fn open(
        &self,
        grant: &Arc<Grant>,
        deadline: Deadline,
        refusals: &Refusals,
        observer: Option<Arc<dyn Observer>>,
    ) -> Outbound {
        match self {
            Self::Network { network, redactor } => {
                let direct = DirectOutbound::new(grant, network, deadline, refusals, observer, redactor.clone());
                Outbound { egress: Egress::Direct(direct.egress), sockets: direct.sockets, ledger: Some(direct.ledger) }
            }
            Self::Relay { egress, sockets } => {
                Outbound { egress: Egress::Relay(egress.clone()), sockets: Arc::clone(sockets), ledger: None }
            }
        }
    }
}
