//! Annotations of tools in words, with their consequences.

use std::collections::BTreeMap;

use fumehood::Annotations;

/// One line for each annotation that is pinned.
pub(super) fn of_pinned(annotations: &BTreeMap<String, bool>) -> Vec<String> {
    let flag = |name: &str| annotations.get(name).copied();
    in_words(&Annotations {
        read_only: flag("read_only"),
        destructive: flag("destructive"),
        idempotent: flag("idempotent"),
        open_world: flag("open_world"),
    })
}

/// One line for each; one for all of them if the tool says nothing.
pub(super) fn in_words(annotations: &Annotations) -> Vec<String> {
    let say = |value: Option<bool>, yes: &str, no: &str| value.map(|is| if is { yes } else { no }.to_owned());
    let said: Vec<String> = [
        say(
            annotations.read_only,
            "read-only: its calls are not judged by a model, and may be made again after a failure",
            "not read-only",
        ),
        say(annotations.destructive, "destructive", "not destructive"),
        say(annotations.idempotent, "idempotent: its calls may be made again after a failure", "not idempotent"),
        say(annotations.open_world, "open-world", "closed-world"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if said.is_empty() { vec!["nothing; the worst is assumed of its effects".to_owned()] } else { said }
}
