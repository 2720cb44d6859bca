//! Powers of a tool as a file has them, in the form that the command line has too.

use std::path::Path;

use fumehood::Grant;
pub(crate) use fumehood::settings::{PowerFault, Powers};

use super::tool::ToolSection;

/// Reads a table with the powers of `[tools.NAME]`.
///
/// # Errors
/// The first thing in it that is unknown.
pub(crate) fn powers_of_table(table: &toml::Table) -> Result<Powers, String> {
    table.clone().try_into().map_err(|error: toml::de::Error| format!("`grant`: {}", error.message()))
}

/// Builds the grant of powers. Folders and files are relative to `base`.
///
/// # Errors
/// Everything in it that cannot be granted.
pub(crate) fn grant_of_powers(powers: &Powers, base: &Path) -> Result<Grant, String> {
    let granted = powers.grant(base, &|source| source.value(base));
    granted.map_err(|faults| {
        let lines: Vec<String> =
            faults.iter().map(|fault| format!("`grant`: {}: {}", fault.key, fault.message)).collect();
        lines.join("; ")
    })
}

impl ToolSection {
    /// Returns its powers, in the form that the command line has too.
    pub(crate) fn powers(&self) -> Powers {
        Powers {
            state: self.state,
            read: self.read.clone(),
            write: self.write.clone(),
            scratch: self.scratch,
            http: self.http.clone(),
            http_limits: self.http_limits.clone(),
            private_addresses: self.private_addresses.clone(),
            env: self.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            args: self.args.clone(),
            secrets: self.secrets.clone(),
            clock: self.clock,
            random_seed: self.random_seed,
            key_value: self.key_value,
            apps: self.apps,
            app_origins: self.app_origins.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The section has the keys of its powers itself, so that errors have their places and the schema their descriptions.
    #[test]
    fn sections_have_every_power() {
        let powers = r#"
            state = true
            read = ["./docs:/docs"]
            write = ["./out:/out", { folder = "./more", guest = "/more", bytes = "1MiB", entries = 5 }]
            scratch = "1MiB"
            http = ["GET https://api.example.com/**"]
            http_limits = { requests = 5 }
            private_addresses = ["127.0.0.1/32"]
            env = { A = "1" }
            args = ["tool"]
            secrets = [{ name = "token", from = { env = "TOKEN" }, for = "https://api.example.com/**", query = "key" }]
            clock = "1us"
            random_seed = 7
            key_value = "1MiB"
            apps = true
            app_origins = ["https://a.example"]
        "#;
        let alone: Powers = toml::from_str(powers).unwrap();
        let section: ToolSection = toml::from_str(&format!("component = \"a.wasm\"\n{powers}")).unwrap();
        assert_eq!(section.powers(), alone);
        let unset = format!("{:?}", Powers::default());
        let fields =
            |text: &str| text.split(", ").map(|field| field.split(':').next().unwrap().to_owned()).collect::<Vec<_>>();
        for field in fields(&unset) {
            assert!(powers.contains(field.trim_start_matches("Powers { ")), "the test has no `{field}`");
        }
    }
}
