// A tool of version 0.2 of the contract: an asynchronous generator becomes the stream of its parts.
export const tools = {
  describe() {
    const inputSchema = '{"type":"object","properties":{"to":{"type":"integer"}},"required":["to"]}';
    return [{ name: "count", description: "Counts.", inputSchema, annotations: {} }];
  },

  async call({ arguments: text }) {
    const { to } = JSON.parse(text);
    return (async function* () {
      for (let number = 1; number <= to; number += 1) {
        yield { tag: "ok", val: { tag: "text", val: String(number) } };
      }
      if (to > 9) yield { tag: "err", val: { kind: "failed", message: "that is too far" } };
    })();
  },
};
