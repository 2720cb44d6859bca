// What the host offers to a component.

export { actor, callId, remainingMs, state, toolName } from "fumehood:tool/context@0.1.0";
export { delete as deleteKey, get as getKey, list as listKeys, set as setKey } from "fumehood:tool/key-value@0.1.0";
export { log as writeLog } from "fumehood:tool/log@0.1.0";
export { report } from "fumehood:tool/progress@0.1.0";
export { exists } from "fumehood:tool/secrets@0.1.0";
