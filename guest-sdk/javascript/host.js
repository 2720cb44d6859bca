// What the host offers to every tool.

import * as host from "#host";
import { ToolError } from "./errors.js";

const writer = (level) => (message) => host.writeLog(level, String(message));

export const log = {
  trace: writer("trace"),
  debug: writer("debug"),
  info: writer("info"),
  warn: writer("warn"),
  error: writer("error"),
};

export function progress(fraction, message) {
  host.report({ fraction, message, partial: [] });
}

export const context = {
  get callId() {
    return host.callId();
  },
  get toolName() {
    return host.toolName();
  },
  get remaining() {
    return Number(host.remainingMs()) / 1000;
  },
  get actor() {
    return host.actor();
  },
  get state() {
    const state = host.state();
    return state === undefined ? undefined : JSON.parse(state);
  },
};

export const secrets = {
  exists: (name) => host.exists(name),
};

const STORE_FAULTS = {
  denied: ["this tool has no store; the operator can grant `key_value`", "denied"],
  "invalid-key": ["a key has 1 to 256 bytes and no control characters"],
  "too-large": ["a value has at most 64 KiB"],
  full: ["the store of this tool is full"],
};

/** Calls a function of the store, whose errors are names. */
function callStore(store, ...values) {
  try {
    return store(...values);
  } catch (error) {
    const name = error?.payload ?? error;
    const [message, kind] = STORE_FAULTS[name] ?? ["the store is unavailable", "unavailable"];
    throw new ToolError(message, kind, { cause: error });
  }
}

export const kv = {
  get(key) {
    return callStore(host.getKey, key);
  },
  getText(key) {
    const value = kv.get(key);
    return value === undefined ? undefined : new TextDecoder().decode(value);
  },
  set(key, value) {
    callStore(host.setKey, key, typeof value === "string" ? new TextEncoder().encode(value) : value);
  },
  delete(key) {
    return callStore(host.deleteKey, key);
  },
  *keys(prefix = "") {
    let cursor;
    do {
      const page = callStore(host.listKeys, prefix, cursor, 0);
      yield* page.keys;
      cursor = page.next;
    } while (cursor !== undefined);
  },
};
