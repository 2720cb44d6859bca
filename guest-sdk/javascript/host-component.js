// What the host offers to a component, during its calls.

import * as context from "fumehood:tool/context@0.1.0";
import * as store from "fumehood:tool/key-value@0.1.0";
import * as lines from "fumehood:tool/log@0.1.0";
import * as progress from "fumehood:tool/progress@0.1.0";
import * as given from "fumehood:tool/secrets@0.1.0";
import { isInCall, refuse } from "./engine.js";

/** Returns a function of the host that throws while the component is built: the engine would abort. */
const inCall = (name, run) => (...values) => (isInCall() ? run : refuse(name))(...values);

export const actor = inCall("context", context.actor);
export const callId = inCall("context", context.callId);
export const remainingMs = inCall("context", context.remainingMs);
export const state = inCall("context", context.state);
export const toolName = inCall("context", context.toolName);
export const deleteKey = inCall("kv", store.delete);
export const getKey = inCall("kv", store.get);
export const listKeys = inCall("kv", store.list);
export const setKey = inCall("kv", store.set);
export const writeLog = inCall("log", lines.log);
export const report = inCall("progress", progress.report);
export const exists = inCall("secrets", given.exists);
