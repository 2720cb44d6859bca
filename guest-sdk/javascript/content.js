// Parts of results.

export class Link {
  constructor(uri, { title, mimeType } = {}) {
    this.uri = uri;
    this.title = title;
    this.mimeType = mimeType;
  }
}

/** Returns the parts of a result, as the contract has them. */
export async function toContent(result) {
  if (result === undefined) {
    return [];
  }
  if (typeof result === "string") {
    return [{ tag: "text", val: result }];
  }
  if (result instanceof Link) {
    const { uri, title, mimeType } = result;
    return [{ tag: "link", val: { uri, title, mimeType } }];
  }
  if (result instanceof Blob) {
    const mimeType = result.type || "application/octet-stream";
    return [{ tag: "blob", val: { mimeType, data: new Uint8Array(await result.arrayBuffer()) } }];
  }
  if (result instanceof ArrayBuffer || ArrayBuffer.isView(result)) {
    return toContent(new Blob([result]));
  }
  if (Array.isArray(result) && result.some((part) => part instanceof Link || part instanceof Blob)) {
    return (await Promise.all(result.map(toContent))).flat();
  }
  return toJson(result);
}

/** Returns the part of a result that has a schema. */
export function toJson(result) {
  const text = JSON.stringify(result);
  if (text === undefined) {
    throw new TypeError(`a result is data, not ${typeof result}`);
  }
  return [{ tag: "json", val: text }];
}
