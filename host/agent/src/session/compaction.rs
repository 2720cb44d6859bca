//! Compaction: shortening what requests repeat, once it is too large. Images are limited separately.

use std::fmt;

use fumehood_core::chat::{Message, Role};
use fumehood_core::text::sanitize::truncate_str;

use crate::memory::READ_RESULT;

/// Results of at most this size stay as they are, in bytes.
const MIN_RESULT_BYTES: usize = 512;

/// The part of a result that stays, in bytes.
const MAX_KEPT_BYTES: usize = 160;

/// A way to shorten the messages of a session.
///
/// It is called before each request, and changes the messages that this and all later requests of the run have. What it
/// does must depend on its arguments alone, because a session is replayed. The transcript keeps everything.
///
/// Every change lets a provider's cache of the conversation go to waste from there on, so it should be rare and large.
///
/// ```
/// use fumehood_agent::session::Compaction;
/// use fumehood_core::chat::{Message, Role};
///
/// /// Leaves out the results of earlier runs.
/// #[derive(Debug)]
/// struct OwnResultsOnly;
///
/// impl Compaction for OwnResultsOnly {
///     fn compact(&self, conversation: &mut [Message], _: &mut [Message]) {
///         for message in conversation.iter_mut().filter(|message| message.role == Role::Tool) {
///             message.content = "[left out]".to_owned();
///         }
///     }
/// }
///
/// let mut earlier = [Message::user("What is 3 + 5?"), Message::tool("c1", r#"{"result":8}"#)];
/// OwnResultsOnly.compact(&mut earlier, &mut []);
/// assert_eq!(earlier.map(|message| message.content), ["What is 3 + 5?", "[left out]"]);
/// ```
pub trait Compaction: fmt::Debug + Send + Sync {
    /// Shortens the messages before this run with the user message that began it, and those of the run since.
    fn compact(&self, conversation: &mut [Message], trace: &mut [Message]);
}

/// The default compaction: the oldest results of tools are left out first.
///
/// Once all messages together have more bytes than the limit, results are left out, the oldest first, until there are
/// half as many. The beginning of each stays, and says how to read the rest if the model has the tool for that. Texts of
/// people and of the model, and the last result, are never changed.
///
/// ```
/// use fumehood_agent::session::{Compaction, OldestResultsFirst};
/// use fumehood_core::chat::Message;
///
/// let compaction = OldestResultsFirst { max_bytes: 4_000, can_be_read: false };
/// let mut trace = [Message::tool("c1", "x".repeat(3_000)), Message::tool("c2", "y".repeat(3_000))];
/// compaction.compact(&mut [], &mut trace);
/// // The beginning of the oldest result stays, and the last result as a whole.
/// assert!(trace[0].content.len() < 300);
/// assert_eq!(trace[1].content.len(), 3_000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldestResultsFirst {
    /// The maximum size of the messages of a request, in bytes.
    pub max_bytes: usize,
    /// True if the model has [`READ_RESULT`].
    pub can_be_read: bool,
}

impl Compaction for OldestResultsFirst {
    fn compact(&self, conversation: &mut [Message], trace: &mut [Message]) {
        let mut total = conversation.iter().chain(trace.iter()).map(message_bytes).fold(0, usize::saturating_add);
        if total <= self.max_bytes {
            return;
        }
        let target = self.max_bytes / 2;
        let last = trace.iter().rposition(is_result).unwrap_or(trace.len());
        let (older, _) = trace.split_at_mut(last);
        for message in conversation.iter_mut().chain(older).filter(|message| is_result(message)) {
            if total <= target {
                return;
            }
            let before = message.content.len();
            if before > MIN_RESULT_BYTES {
                message.content = self.shorten(message);
                total = total.saturating_sub(before).saturating_add(message.content.len());
            }
        }
    }
}

impl OldestResultsFirst {
    fn shorten(&self, message: &Message) -> String {
        let start = truncate_str(&message.content, MAX_KEPT_BYTES);
        let bytes = message.content.len();
        let rest = match &message.tool_execution_id {
            Some(id) if self.can_be_read => format!("; {READ_RESULT} with the id \"{id}\" returns it"),
            _ => String::new(),
        };
        format!("{start}\n[the rest of these {bytes} bytes was left out to save room{rest}]")
    }
}

/// Returns whether a message has the result of calls. A driver may report several in one message of the user.
fn is_result(message: &Message) -> bool {
    message.role == Role::Tool || (message.role == Role::User && message.tool_execution_id.is_some())
}

/// Returns the size of a message in bytes: its text, and the names and arguments of its calls.
pub(crate) fn message_bytes(message: &Message) -> usize {
    let calls = message.tool_calls.iter().map(|call| call.name.len().saturating_add(call.arguments.len()));
    calls.fold(message.content.len(), usize::saturating_add)
}

/// Removes images, the oldest first, until those that are left have at most `max_bytes` of base64. The texts describe
/// them.
pub(super) fn limit_images(conversation: &mut [Message], trace: &mut [Message], max_bytes: usize) {
    let mut left = max_bytes;
    let newest_first = trace.iter_mut().rev().chain(conversation.iter_mut().rev());
    for message in newest_first.filter(|message| !message.images.is_empty()) {
        let bytes = message.images.iter().map(|image| image.data.len()).fold(0, usize::saturating_add);
        match left.checked_sub(bytes) {
            Some(rest) => left = rest,
            // Older ones are removed as well, also if they were small: what is shown is what came last.
            None => {
                left = 0;
                message.images.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fumehood_core::chat::Image;

    use super::*;

    fn result(id: &str, bytes: usize) -> Message {
        Message { tool_execution_id: Some(id.to_owned()), ..Message::tool(id, "ä".repeat(bytes / 2)) }
    }

    const LIMIT: OldestResultsFirst = OldestResultsFirst { max_bytes: 4000, can_be_read: true };

    #[test]
    fn oldest_results_are_left_out_until_half_is_free() {
        let long = Message::user("x".repeat(900));
        let mut conversation = vec![result("a", 600), long.clone()];
        let mut trace = vec![result("b", 900), result("small", 100), result("c", 900), result("d", 700)];
        let before = (conversation.clone(), trace.clone());
        LIMIT.compact(&mut conversation, &mut trace[..3]);
        assert_eq!((&conversation, &trace), (&before.0, &before.1), "3,400 bytes are within the limit");

        LIMIT.compact(&mut conversation, &mut trace);
        assert!(conversation[0].content.contains("\"a\" returns it]"), "{:?}", conversation[0]);
        assert_eq!(conversation[1], long);
        assert!(trace[0].content.starts_with("ää") && trace[0].content.contains("these 900 bytes"), "{:?}", trace[0]);
        assert_eq!(trace[1], before.1[1]);
        assert_eq!(trace[3], before.1[3], "the last result is never changed");
        let total: usize = conversation.iter().chain(&trace).map(message_bytes).sum();
        assert!(total < 4000, "{total}");
        let after = (conversation.clone(), trace.clone());
        LIMIT.compact(&mut conversation, &mut trace);
        assert_eq!((conversation, trace), after);
    }

    #[test]
    fn reading_is_offered_only_where_it_is_possible() {
        let without = OldestResultsFirst { max_bytes: 100, can_be_read: false };
        let mut trace = [result("a", 900), result("b", 900)];
        without.compact(&mut [], &mut trace);
        assert!(trace[0].content.ends_with("was left out to save room]"), "{:?}", trace[0]);
        let mut together = [Message::user("r".repeat(900)), result("b", 900)];
        LIMIT.compact(&mut [], &mut together);
        assert_eq!(together[0].content.len(), 900, "a message of the user is not a result");
    }

    #[test]
    fn newest_images_stay() {
        fn counts(messages: &[Message]) -> Vec<usize> {
            messages.iter().map(|message| message.images.len()).collect::<Vec<_>>()
        }

        fn shows(bytes: usize) -> Message {
            let image = Image { mime_type: "image/png".to_owned(), data: "a".repeat(bytes).into() };
            Message { images: vec![image], ..Message::user("an image") }
        }

        let mut conversation = vec![shows(10), Message::user("x")];
        let mut trace = vec![shows(50), shows(40), shows(50)];
        limit_images(&mut conversation, &mut trace, 100);
        assert_eq!((counts(&conversation), counts(&trace)), (vec![0, 0], vec![0, 1, 1]));
        limit_images(&mut conversation, &mut trace, 0);
        assert_eq!(counts(&trace), [0, 0, 0]);
    }
}
