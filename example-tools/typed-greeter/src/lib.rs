//! A component with plain typed functions. It exports its own WIT, without any reference to Fumehood.
//!
//! The host derives a tool from every exported function: the WIT's doc comments become descriptions, and its types
//! become JSON Schema. The functions here use only the types that wit-bindgen generates.

mod bindings;

use bindings::exports::example::greeter::greetings::{Extras, Formality, GreetingError, Guest, Occasion, Person};

/// Maximum age that is accepted, in years.
const MAX_AGE_YEARS: u8 = 120;

struct Greeter;

impl bindings::Guest for Greeter {
    fn about() -> String {
        "A component that greets people, without knowing who runs it.".to_owned()
    }
}

impl Guest for Greeter {
    fn greet(name: String, formality: Formality) -> String {
        match formality {
            Formality::Casual => format!("Hi, {name}!"),
            Formality::Polite => format!("Good day, {name}."),
            Formality::Ceremonial => format!("It is an honour to welcome you, {name}."),
        }
    }

    fn greet_person(person: Person, occasion: Occasion, extras: Extras) -> Result<String, GreetingError> {
        if let Some(age) = person.age.filter(|age| *age > MAX_AGE_YEARS) {
            return Err(GreetingError::ImplausibleAge(age));
        }
        let name = address(&person)?;
        let end = if extras.contains(Extras::EXCLAMATION) { '!' } else { '.' };
        let question = if extras.contains(Extras::QUESTION) { " How are you?" } else { "" };
        let greeting = match (occasion, person.age) {
            (Occasion::Everyday, _) => format!("Hello, {name}"),
            (Occasion::Birthday, Some(age)) => format!("Happy birthday at {age}, {name}"),
            (Occasion::Birthday, None) => format!("Happy birthday, {name}"),
            (Occasion::Anniversary(1), _) => format!("Congratulations on your first year, {name}"),
            (Occasion::Anniversary(years), _) => format!("Congratulations on {years} years, {name}"),
            (Occasion::Other(occasion), _) => format!("All the best for {occasion}, {name}"),
        };
        Ok(format!("{greeting}{end}{question}"))
    }

    fn greet_all(names: Vec<String>) -> Result<Vec<String>, GreetingError> {
        names
            .into_iter()
            .map(|name| match name.trim() {
                "" => Err(GreetingError::Nameless),
                name => Ok(format!("Hello, {name}.")),
            })
            .collect()
    }

    fn orders_of_greeting(people: u64) -> Option<u64> {
        (1..=people).try_fold(1_u64, u64::checked_mul)
    }
}

/// Returns the names of a person, after the title.
fn address(person: &Person) -> Result<String, GreetingError> {
    let given = person.given_name.trim();
    if given.is_empty() {
        return Err(GreetingError::Nameless);
    }
    let parts = [person.title.as_deref(), Some(given), person.family_name.as_deref()];
    Ok(parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// The component's exports. Natively nothing would call them.
#[cfg(target_arch = "wasm32")]
#[allow(unsafe_code, reason = "generated: exports get their arguments by pointer")]
mod exports {
    use super::Greeter;

    crate::bindings::export!(Greeter);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ada() -> Person {
        Person { given_name: "Ada".to_owned(), family_name: None, title: None, age: None }
    }

    fn greet(person: Person, occasion: Occasion, extras: Extras) -> String {
        Greeter::greet_person(person, occasion, extras).unwrap()
    }

    #[test]
    fn greets_by_formality() {
        let greet = |formality| Greeter::greet("Ada".to_owned(), formality);
        assert_eq!(greet(Formality::Casual), "Hi, Ada!");
        assert_eq!(greet(Formality::Polite), "Good day, Ada.");
        assert_eq!(greet(Formality::Ceremonial), "It is an honour to welcome you, Ada.");
    }

    #[test]
    fn addresses_a_person_in_full() {
        let doctor = Person { family_name: Some("Roe".to_owned()), title: Some("Dr".to_owned()), ..ada() };
        assert_eq!(greet(doctor, Occasion::Everyday, Extras::all()), "Hello, Dr Ada Roe! How are you?");
        let aged = Person { age: Some(36), ..ada() };
        assert_eq!(greet(aged, Occasion::Birthday, Extras::empty()), "Happy birthday at 36, Ada.");
        assert_eq!(greet(ada(), Occasion::Anniversary(5), Extras::empty()), "Congratulations on 5 years, Ada.");
        assert_eq!(
            greet(ada(), Occasion::Other("May Day".to_owned()), Extras::empty()),
            "All the best for May Day, Ada."
        );
    }

    #[test]
    fn rejects_invalid_persons() {
        let refusal = |person| Greeter::greet_person(person, Occasion::Everyday, Extras::empty()).unwrap_err();
        assert!(matches!(refusal(Person { given_name: " ".to_owned(), ..ada() }), GreetingError::Nameless));
        assert!(matches!(refusal(Person { age: Some(121), ..ada() }), GreetingError::ImplausibleAge(121)));
    }

    #[test]
    fn greets_many_in_order() {
        let greet = |names: &[&str]| Greeter::greet_all(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(greet(&["Ada", "Max"]).unwrap(), ["Hello, Ada.", "Hello, Max."]);
        assert!(matches!(greet(&["Ada", ""]), Err(GreetingError::Nameless)));
    }

    #[test]
    fn orders_are_none_beyond_64_bits() {
        assert_eq!(Greeter::orders_of_greeting(0), Some(1));
        assert_eq!(Greeter::orders_of_greeting(20), Some(2_432_902_008_176_640_000));
        assert_eq!(Greeter::orders_of_greeting(21), None);
        assert_eq!(Greeter::orders_of_greeting(u64::MAX), None);
    }
}
