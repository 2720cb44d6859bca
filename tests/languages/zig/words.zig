//! Counts the words of its standard input that have at least as many bytes as its argument says.

const std = @import("std");

pub fn main(init: std.process.Init) !void {
    const arena = init.arena.allocator();
    const args = try init.minimal.args.toSlice(arena);
    const shortest = if (args.len > 1) try std.fmt.parseInt(usize, args[1], 10) else 1;

    var input_buffer: [4096]u8 = undefined;
    var input_reader: std.Io.File.Reader = .init(.stdin(), init.io, &input_buffer);
    const text = try input_reader.interface.allocRemaining(arena, .unlimited);

    var count: usize = 0;
    var words = std.mem.tokenizeAny(u8, text, " \r\n\t");
    while (words.next()) |word| {
        if (word.len >= shortest) count += 1;
    }

    var output_buffer: [64]u8 = undefined;
    var output: std.Io.File.Writer = .init(.stdout(), init.io, &output_buffer);
    try output.interface.print("{d}\n", .{count});
    try output.interface.flush();
}
