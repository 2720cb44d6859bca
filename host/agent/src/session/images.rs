//! The limit on the images that a request repeats.

use fumehood_core::chat::Message;

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
