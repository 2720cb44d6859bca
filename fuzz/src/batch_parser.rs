//! A model's reply with tags: the same events however it is cut into pieces.

use fumehood_agent::batch::{Parser, ParserLimits, merge_pieces, parse};

/// Parses a reply as a whole and in pieces. The first byte says how long the pieces are.
pub fn run(data: &[u8]) {
    let Some((size, reply)) = data.split_first() else { return };
    let Ok(reply) = std::str::from_utf8(reply) else { return };
    let limits = ParserLimits { block_bytes: 4096 };
    let at_once = parse(reply, limits);
    let size = usize::from(*size).max(1);
    let mut parser = Parser::new(limits);
    let mut events = Vec::new();
    let mut rest = reply;
    while !rest.is_empty() {
        let end = (size..).find(|end| rest.is_char_boundary((*end).min(rest.len()))).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end.min(rest.len()));
        events.extend(parser.push(piece));
        rest = after;
    }
    events.extend(parser.finish());
    assert_eq!(merge_pieces(events), at_once, "in pieces of {size}: {reply:?}");
}
