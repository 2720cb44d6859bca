//! `[model.price]`: the cost of tokens.

use fumehood_core::chat::Usage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The currency of prices that name none.
const DEFAULT_CURRENCY: &str = "USD";

/// Prices per million tokens, for the cost in the summary of a run.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceSection {
    /// Tokens of requests that are not cached.
    pub input: f64,
    /// Tokens of answers.
    pub output: f64,
    /// Tokens that the provider reads from its cache. Default: like `input`.
    pub cache_read: Option<f64>,
    /// Tokens that the provider writes to its cache. Default: like `input`.
    pub cache_creation: Option<f64>,
    /// The currency. Default: USD.
    pub currency: Option<String>,
}

/// The cost of tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// The amount of money.
    pub amount: f64,
    /// The currency.
    pub currency: String,
}

impl PriceSection {
    /// Returns the name and the value of each price that is no amount of money.
    pub fn faults(&self) -> Vec<(&'static str, f64)> {
        let optional = [("cache_read", self.cache_read), ("cache_creation", self.cache_creation)];
        let prices = [("input", Some(self.input)), ("output", Some(self.output))].into_iter().chain(optional);
        let prices = prices.filter_map(|(name, price)| Some((name, price?)));
        prices.filter(|(_, price)| !(price.is_finite() && *price >= 0.0)).collect()
    }

    /// Returns the cost of these tokens.
    #[expect(clippy::cast_precision_loss, reason = "a cost is shown with four digits")]
    pub fn cost(&self, usage: Usage) -> Cost {
        let cached = usage.cache_read.saturating_add(usage.cache_creation);
        let parts = [
            (usage.input.saturating_sub(cached), self.input),
            (usage.cache_read, self.cache_read.unwrap_or(self.input)),
            (usage.cache_creation, self.cache_creation.unwrap_or(self.input)),
            (usage.output, self.output),
        ];
        let amount = parts.map(|(tokens, price)| tokens as f64 * price / 1e6).iter().sum();
        Cost { amount, currency: self.currency.clone().unwrap_or_else(|| DEFAULT_CURRENCY.to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_the_cache_have_prices_of_their_own() {
        let price =
            PriceSection { input: 3.0, output: 15.0, cache_read: Some(0.3), cache_creation: None, currency: None };
        let usage = Usage { cache_read: 400_000, cache_creation: 100_000, ..Usage::new(1_000_000, 100_000) };
        let Cost { amount, currency } = price.cost(usage);
        assert!((amount - (1.5 + 0.12 + 0.3 + 1.5)).abs() < 1e-9, "{amount}");
        assert_eq!(currency, "USD");
        let wrong = PriceSection { output: -1.0, cache_read: Some(f64::NAN), ..price };
        assert_eq!(wrong.faults().iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["output", "cache_read"]);
    }
}
