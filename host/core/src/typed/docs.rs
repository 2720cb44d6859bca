//! What the author of an interface wrote about its types, found by the type.

use std::collections::BTreeMap;

use super::ty::Ty;

/// The documentation of one type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeDoc {
    /// About the type itself.
    pub text: Option<String>,
    /// About its fields, cases or flags, by name.
    pub items: BTreeMap<String, String>,
}

/// The documentation of the named types that a function may use.
///
/// Types are found by what they are made of, because the name of a type does not reach the places where it is used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeDocs {
    types: Vec<(Ty, TypeDoc)>,
}

impl TypeDocs {
    /// Nothing is documented.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds what is known of `ty`. Of two entries for one type, the first counts. A type that names no parts of its
    /// own, such as an alias of `string`, is left out: everything else that is made like it would be taken for it.
    pub fn add(&mut self, ty: Ty, doc: TypeDoc) {
        if matches!(ty, Ty::Record(_) | Ty::Variant(_) | Ty::Enum(_) | Ty::Flags(_)) {
            self.types.push((ty, doc));
        }
    }

    /// What is known of `ty`.
    #[must_use]
    pub fn get(&self, ty: &Ty) -> Option<&TypeDoc> {
        self.types.iter().find(|(known, _)| known == ty).map(|(_, doc)| doc)
    }
}
