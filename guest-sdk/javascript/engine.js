// What libraries expect of the engine, and it lacks. It runs before all other modules of a component.
//
// `fumehoodBuild` is written by the build in front of the modules.

const { properties = {}, hasHttp = false } = globalThis.fumehoodBuild ?? {};

/** Replaces `\p{…}` by its characters, because the engine has no tables of Unicode. The build found them. */
function expand(pattern, hasNestedClasses) {
  let isInClass = false;
  const parts = /\\([pP])\{([^}]+)\}|\\[^]|[[\]]/g;
  return pattern.replace(parts, (part, letter, name) => {
    if (part === "[" || part === "]") {
      isInClass = part === "[";
      return part;
    }
    const ranges = letter && properties[letter + name];
    if (!ranges) {
      return part;
    }
    return isInClass && !hasNestedClasses ? ranges : `[${ranges}]`;
  });
}

function installRegExp() {
  const Native = RegExp;
  function Expanding(pattern, flags) {
    const isUnicode = typeof pattern === "string" && /[uv]/.test(flags ?? "") && /\\p\{/i.test(pattern);
    const source = isUnicode ? expand(pattern, flags.includes("v")) : pattern;
    return Reflect.construct(Native, [source, flags], new.target ?? Native);
  }
  Object.setPrototypeOf(Expanding, Native);
  Object.defineProperty(Expanding, "name", { value: "RegExp" });
  Expanding.prototype = Native.prototype;
  Native.prototype.constructor = Expanding;
  globalThis.RegExp = Expanding;
}

if (Object.keys(properties).length > 0) {
  installRegExp();
}

ReadableStream.prototype[Symbol.asyncIterator] ??= async function* () {
  const reader = this.getReader();
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      yield part.value;
    }
  } finally {
    reader.releaseLock();
  }
};

/** Functions of the system, which calls have and the build has not: the engine would abort. */
const held = [];

function hold(object, name, replacement) {
  held.push({ object, name, value: object[name] });
  object[name] = replacement;
}

/** Returns a function that throws: timers and requests belong to a call. */
export function refuse(name) {
  return () => {
    throw new Error(`${name} is only there during a call; top-level code runs when the component is built`);
  };
}

let isBegun = false;

/** Returns whether a call may use the system and the host. */
export function isInCall() {
  return isBegun;
}

let seed = 1;
hold(Math, "random", () => {
  seed = (seed * 48271) % 2147483647;
  return seed / 2147483647;
});
hold(performance, "now", () => 0);
hold(crypto, "getRandomValues", refuse("crypto.getRandomValues"));
hold(crypto, "randomUUID", refuse("crypto.randomUUID"));
for (const name of ["setTimeout", "setInterval", "fetch"]) {
  hold(globalThis, name, refuse(name));
}

/** Gives back the functions of the system, once calls begin. */
export function beginCalls() {
  isBegun = true;
  for (const { object, name, value } of held) {
    object[name] = value;
  }
  globalThis.fetch = hasHttp ? fetchWithReason(globalThis.fetch) : refuseRequests;
}

async function refuseRequests() {
  throw new Error('this tool was built without HTTP; set `"http": true` in `fumehood` of package.json');
}

/** Adds the host to the error of a request, because the engine says only that there was an error. */
function fetchWithReason(fetchOfEngine) {
  return async (...request) => {
    const url = new URL(request[0]?.url ?? request[0]);
    try {
      return await fetchOfEngine(...request);
    } catch (error) {
      const reason = "the operator does not allow it, or the server cannot be reached";
      throw new TypeError(`the request to ${url.host} failed; ${reason}`, { cause: error });
    }
  };
}
