// Tools for language models.

const MAX_GREETINGS = 10;

const definition = {
  name: "greet",
  title: "Greet",
  description: "Greets somebody by name.",
  inputSchema: JSON.stringify({
    type: "object",
    properties: {
      name: { type: "string", description: "The name of the person." },
      times: { type: "integer", description: "The number of greetings, from 1 to 10.", default: 1 },
    },
    required: ["name"],
  }),
  outputSchema: undefined,
  annotations: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
};

function greet({ name, times = 1 }) {
  if (times < 1 || times > MAX_GREETINGS) {
    const message = `times is ${times}; expected a number from 1 to ${MAX_GREETINGS}`;
    throw { kind: "invalid-arguments", message, retryAfterMs: undefined };
  }
  return [{ tag: "text", val: Array(times).fill(`Hello, ${name}.`).join(" ") }];
}

export const tools = {
  describe() {
    return [definition];
  },

  call(request) {
    return greet(JSON.parse(request.arguments));
  },
};
