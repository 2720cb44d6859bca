//! Models behind the one port of `fumehood_core::chat`.
