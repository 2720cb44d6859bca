//! The WIT of the contract, `fumehood:tool`.

/// Includes a file of the contract.
macro_rules! wit {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../wit/", $name)))
    };
}

/// Its files: names and contents.
pub(crate) const FILES: [(&str, &str); 9] = [
    wit!("context.wit"),
    wit!("key-value.wit"),
    wit!("log.wit"),
    wit!("progress.wit"),
    wit!("resources.wit"),
    wit!("secrets.wit"),
    wit!("tools.wit"),
    wit!("types.wit"),
    wit!("world.wit"),
];
