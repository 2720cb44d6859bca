// Stand-ins for the host outside a component, for tests.

const values = new Map();

export const actor = () => undefined;
export const callId = () => "";
export const remainingMs = () => Infinity;
export const state = () => undefined;
export const toolName = () => "";
export const deleteKey = (key) => values.delete(key);
export const getKey = (key) => values.get(key);
export const setKey = (key, value) => void values.set(key, value);
export const listKeys = (prefix) => ({ keys: [...values.keys()].filter((key) => key.startsWith(prefix)).sort() });
export const writeLog = (level, message) => console.error(`${level}: ${message}`);
export const report = () => {};
export const exists = () => false;
