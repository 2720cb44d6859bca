//! Checks of the `[storage]` section.

use fumehood::postgres::ServerSettings;
use fumehood_config::file::Config;
pub(crate) use fumehood_config::storage::StorageSection;

/// Returns the address of the server without a password.
pub(crate) fn place(storage: &StorageSection) -> String {
    let settings = ServerSettings { url: storage.url.clone(), unencrypted: true, ..ServerSettings::default() };
    settings.check().unwrap_or_else(|_| "a server with an unreadable URL".to_owned())
}

/// Returns what is wrong with the section, each with its path in the file.
pub(super) fn faults(config: &Config) -> Vec<(&'static [&'static str], String)> {
    let Some(storage) = &config.storage else { return Vec::new() };
    let settings =
        ServerSettings { url: storage.url.clone(), unencrypted: storage.unencrypted, ..ServerSettings::default() };
    let mut faults: Vec<(&[&str], String)> = Vec::new();
    if let Err(error) = settings.check() {
        faults.push((&["storage", "url"], error.to_string()));
    }
    if config.log.path.is_some() {
        let message = "[storage] already has the event log; remove one of the two";
        faults.push((&["log", "path"], message.to_owned()));
    }
    if config.key_value_store.is_some() {
        let message = "[storage] already has the data of tools; remove one of the two";
        faults.push((&["key_value_store"], message.to_owned()));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(text: &str) -> Vec<String> {
        let config: Config = toml::from_str(text).unwrap();
        faults(&config).iter().map(|(path, message)| format!("{}: {message}", path.join("."))).collect()
    }

    #[test]
    fn plain_connections_stay_on_this_machine() {
        let section = |url: &str| faults_of(&format!("[storage]\nurl = \"{url}\"\n"));
        for fine in
            ["postgres://u@db.example/d", "postgres://u@127.0.0.1/d", "postgresql://u@localhost/d?sslmode=disable"]
        {
            assert_eq!(section(fine), [] as [&str; 0]);
        }
        assert!(section("postgres://u@db.example/d?sslmode=disable")[0].contains("unencrypted = true"));
        assert!(section("mysql://u@db.example/d")[0].starts_with("storage.url: invalid PostgreSQL URL"));
    }

    #[test]
    fn the_log_has_one_place() {
        let text = "key_value_store = \"kept.db\"\n[storage]\nurl = \"postgres://u@localhost/d\"\n[log]\npath = \"events.db\"\n";
        let found = faults_of(text);
        assert!(found[0].starts_with("log.path: ") && found[1].starts_with("key_value_store: "), "{found:?}");
    }
}
