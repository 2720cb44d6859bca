// Globals beside those of the language: `tools`, `console` and timers. Evaluated once, when the component is built.
(function (host) {
  "use strict";
  // A program may replace the globals.
  const { Promise } = globalThis;
  const rejected = Promise.reject.bind(Promise);
  const { parse, stringify } = JSON;
  const { create, defineProperty, freeze, setPrototypeOf } = Object;
  const now = Date.now;
  const then = Function.prototype.call.bind(Promise.prototype.then);
  const isError = (value) => value instanceof Error;

  // ---- calls of tools

  const pending = new Map();

  class ToolError extends Error {
    get name() {
      return "ToolError";
    }
  }

  function call(name, argument) {
    const text = argument === undefined ? "{}" : stringify(argument);
    if (text === undefined) {
      throw new TypeError(`the arguments of ${name} are no object`);
    }
    // Created here, so that its backtrace has the line of the call. It gets its class if the call fails: a constructor of
    // a class takes as long as all the rest of this.
    const error = new Error();
    return new Promise((resolve, reject) => {
      pending.set(host.start(name, text), { resolve, reject, error });
    });
  }

  function deliver(id, value, kind, message, retryable) {
    const call = pending.get(id);
    if (call === undefined) {
      return;
    }
    pending.delete(id);
    const { error } = call;
    if (kind === undefined) {
      try {
        call.resolve(parse(value));
      } catch {
        call.reject(describe(error, "bad_result", "the result of the tool is no JSON that fits in memory", false));
      }
    } else {
      call.reject(describe(error, kind, message, retryable));
    }
  }

  function describe(error, kind, message, retryable) {
    setPrototypeOf(error, ToolError.prototype);
    const field = (value) => ({ value, writable: true, configurable: true, enumerable: true });
    defineProperty(error, "message", { ...field(message), enumerable: false });
    defineProperty(error, "kind", field(kind));
    defineProperty(error, "retryable", field(retryable));
    return error;
  }

  // ---- the object `tools`: `tools.component.tool`, and `tools["component__tool"]`

  const fold = (name) => name.replaceAll("-", "_");

  function makeTool(component, tool) {
    const name = `${component}__${tool}`;
    // Without `async`, which would wrap the promise in another one.
    const run = (argument) => {
      try {
        return call(name, argument);
      } catch (error) {
        return rejected(error);
      }
    };
    defineProperty(run, "name", { value: name });
    return freeze(run);
  }

  // Hyphens are awkward after a dot, so that names with underscores in their place are understood as well.
  function addAliases(object, names) {
    for (const name of names) {
      const alias = fold(name);
      if (!(alias in object)) {
        defineProperty(object, alias, { get: () => object[name] });
      }
    }
    return object;
  }

  function makeComponent(component, names) {
    const object = create(null);
    for (const name of names) {
      object[name] = makeTool(component, name);
    }
    return freeze(addAliases(object, names));
  }

  function makeTools(names) {
    const components = new Map();
    for (const name of names) {
      const at = name.indexOf("__");
      if (at < 1) {
        continue;
      }
      const component = name.slice(0, at);
      const tools = components.get(component);
      if (tools === undefined) {
        components.set(component, [name.slice(at + 2)]);
      } else {
        tools.push(name.slice(at + 2));
      }
    }
    // Only for names that are no component's.
    const qualified = new Proxy(freeze(create(null)), {
      get(_, name, receiver) {
        const at = typeof name === "string" ? name.indexOf("__") : -1;
        return at < 1 ? undefined : receiver[name.slice(0, at)]?.[name.slice(at + 2)];
      },
      has: () => false,
    });
    const tools = create(qualified);
    for (const [component, names] of components) {
      let made;
      const get = () => (made ??= makeComponent(component, names));
      defineProperty(tools, component, { get, enumerable: true });
    }
    return freeze(addAliases(tools, components.keys()));
  }

  // ---- values as text

  function plain(_key, value) {
    if (typeof value === "bigint") {
      return `${value}n`;
    }
    if (value instanceof Map) {
      return Object.fromEntries(value);
    }
    return value instanceof Set ? [...value] : isError(value) ? `${value}` : value;
  }

  function inspect(value) {
    try {
      switch (typeof value) {
        case "string":
          return value;
        case "object":
          return value === null ? "null" : isError(value) ? `${value}` : (stringify(value, plain) ?? `${value}`);
        case "function":
          return `[Function ${value.name}]`;
        case "bigint":
          return `${value}n`;
        default:
          return String(value);
      }
    } catch (error) {
      return isError(error) && error.name === "TypeError" ? "[circular or unprintable object]" : "[unprintable object]";
    }
  }

  // ---- exceptions, as name, message, backtrace, and the kind of a failed call

  function explain(error) {
    const text = (value) => (value === undefined || value === null ? "" : String(value));
    try {
      if (error === null) {
        // QuickJS throws this if there is no memory for an exception.
        return ["InternalError", "out of memory (null was thrown)", "", ""];
      }
      if (isError(error)) {
        const { name, message, stack, kind } = error;
        return [text(name), text(message), text(stack), error instanceof ToolError ? text(kind) : ""];
      }
      return ["Error", `${inspect(error)} (thrown without an Error object)`, "", ""];
    } catch {
      return ["Error", "an exception that cannot be described", "", ""];
    }
  }

  const fail = (error) => host.fail(...explain(error));

  // ---- console

  const levels = { debug: 0, trace: 0, log: 1, info: 1, dir: 1, table: 1, warn: 2, error: 3 };
  const console = {};
  for (const [name, level] of Object.entries(levels)) {
    console[name] = (...values) => host.print(level, values.map(inspect).join(" "));
  }
  console.assert = (condition, ...values) => {
    if (!condition) {
      console.error("Assertion failed:", ...values);
    }
  };

  // ---- timers: they fire in their order when nothing else can happen, and the clock is set to their time

  const timers = new Map();
  let lastTimer = 0;

  function setTimer(callback, delay, values, repeats) {
    if (typeof callback !== "function") {
      throw new TypeError("the callback of a timer is no function");
    }
    const wait = Math.max(Number(delay) || 0, repeats ? 1 : 0);
    timers.set(++lastTimer, { callback, values, wait, repeats, at: now() + wait });
    return lastTimer;
  }

  function fireTimer() {
    let first;
    for (const [id, timer] of timers) {
      if (first === undefined || timer.at < timers.get(first).at) {
        first = id;
      }
    }
    if (first === undefined) {
      return false;
    }
    const timer = timers.get(first);
    host.advance(timer.at);
    if (timer.repeats) {
      timer.at += timer.wait;
    } else {
      timers.delete(first);
    }
    // An exception of a callback rejects a promise that nobody has.
    new Promise(() => timer.callback(...timer.values));
    return true;
  }

  const globals = {
    console: freeze(console),
    ToolError,
    setTimeout: (callback, delay, ...values) => setTimer(callback, delay, values, false),
    setInterval: (callback, delay, ...values) => setTimer(callback, delay, values, true),
    clearTimeout: (id) => void timers.delete(id),
    clearInterval: (id) => void timers.delete(id),
  };
  for (const [name, value] of Object.entries(globals)) {
    defineProperty(globalThis, name, { value, writable: true, configurable: true });
  }
  defineProperty(Math, "random", { value: () => host.random(), writable: true, configurable: true });

  // ---- for the interpreter

  return {
    begin(names) {
      let tools;
      defineProperty(globalThis, "tools", { get: () => (tools ??= makeTools(names)) });
    },
    run(program) {
      then(then(program(), (value) => host.finish(stringify(value)), fail), undefined, fail);
    },
    explain,
    deliver,
    fireTimer,
    hasPending: () => pending.size > 0,
  };
})
