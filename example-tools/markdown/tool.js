// HTML of Markdown, and its headings.

import { tool } from "fumehood-tool";
import { Marked } from "marked";

const text = { type: "string", description: "Markdown." };
const claims = { readOnly: true, destructive: false, idempotent: true, openWorld: false };
const marked = new Marked({ gfm: true, walkTokens: removeHtml });

/** Readers of Markdown from a model should not run its scripts. */
function removeHtml(token) {
  if (token.type === "html") {
    Object.assign(token, { type: "text", text: "", tokens: undefined });
  }
  if (token.type === "link" && /^\s*(javascript|data|vbscript):/i.test(token.href)) {
    token.href = "#";
  }
}

export const toHtml = tool({
  name: "to_html",
  title: "Markdown to HTML",
  description: "Converts Markdown to HTML. HTML within the Markdown is left out.",
  input: {
    type: "object",
    properties: { text, breaks: { type: "boolean", description: "Keep the ends of lines.", default: false } },
    required: ["text"],
  },
  ...claims,
  run: ({ text, breaks = false }) => marked.parse(text, { breaks }),
});

export const headings = tool({
  name: "headings",
  title: "Headings of Markdown",
  description: "Lists the headings of Markdown.",
  input: { type: "object", properties: { text }, required: ["text"] },
  output: {
    type: "object",
    properties: {
      headings: {
        type: "array",
        items: {
          type: "object",
          properties: { level: { type: "integer" }, text: { type: "string" } },
          required: ["level", "text"],
        },
      },
    },
    required: ["headings"],
  },
  ...claims,
  run({ text }) {
    const found = marked.lexer(text).filter(({ type }) => type === "heading");
    return { headings: found.map(({ depth, text }) => ({ level: depth, text })) };
  },
});
