/** JSON Schema as `input` and `output` take it; a part of it has a type in TypeScript. */
export interface JsonSchema {
  readonly type?: string | readonly string[];
  readonly properties?: { readonly [name: string]: JsonSchema };
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly description?: string;
  readonly [keyword: string]: unknown;
}

/**
 * A schema of a library that can make JSON Schema: zod from 4.2 on, ArkType, or valibot with `toStandardJsonSchema`.
 * See https://standardschema.dev.
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

type TypeNames = {
  string: string;
  number: number;
  integer: number;
  boolean: boolean;
  null: null;
};

type RequiredName<S> = S extends { readonly required: readonly (infer Name)[] } ? Name : never;

type ObjectOf<S extends JsonSchema> = S["properties"] extends infer P extends { readonly [name: string]: JsonSchema }
  ? { [Name in keyof P as Name extends RequiredName<S> ? Name : never]: TypeOf<P[Name]> } & {
      [Name in keyof P as Name extends RequiredName<S> ? never : Name]?: TypeOf<P[Name]>;
    }
  : Record<string, unknown>;

type NamedType<S extends JsonSchema, Name> = Name extends keyof TypeNames
  ? TypeNames[Name]
  : Name extends "array"
    ? S["items"] extends infer Item extends JsonSchema
      ? TypeOf<Item>[]
      : unknown[]
    : Name extends "object"
      ? ObjectOf<S>
      : unknown;

/** The type of the values that match a JSON Schema. */
export type TypeOf<S extends JsonSchema> = S extends { readonly const: infer Value }
  ? Value
  : S extends { readonly enum: readonly (infer Value)[] }
    ? Value
    : S extends { readonly type: readonly (infer Name)[] }
      ? NamedType<S, Name>
      : S extends { readonly type: infer Name }
        ? NamedType<S, Name>
        : unknown;

type Schema = StandardSchema<any, any> | JsonSchema;

/** The type that the function of a tool gets. */
export type Arguments<S> =
  S extends StandardSchema<any, infer Output> ? Output : S extends JsonSchema ? TypeOf<S> : Record<string, never>;

/** The type that the function of a tool returns. */
export type Result<S> =
  S extends StandardSchema<infer Input, any> ? Input : S extends JsonSchema ? TypeOf<S> : unknown;

export interface ToolDefinition<Input, Output> {
  /** Up to 64 of a-z, 0-9, _ and -. */
  name: string;
  /** A short name for people. */
  title?: string;
  /** What the tool does, its units and its limits; a model reads it. */
  description: string;
  /** The schema of the arguments; without one there are none. */
  input?: Input;
  /** The schema of the result, which then is data. */
  output?: Output;
  /** Whether the tool changes nothing outside itself. */
  readOnly?: boolean;
  /** Whether it may remove or overwrite something for good. */
  destructive?: boolean;
  /** Whether a second call with the same arguments has no further effect. */
  idempotent?: boolean;
  /** Whether it reaches things that its arguments do not name, such as the internet. */
  openWorld?: boolean;
  /** Runs a call. Text, data, a `Blob`, a `Link`, or a list with these is the result. */
  run(values: Arguments<Input>): Result<Output> | Promise<Result<Output>>;
}

/** Makes a tool of the component. Returns the definition, so that tests can call `run`. */
export function tool<const Input extends Schema | undefined = undefined, const Output extends Schema | undefined = undefined>(
  definition: ToolDefinition<Input, Output>,
): ToolDefinition<Input, Output>;

/**
 * `invalid_arguments` if other arguments may work, `unavailable` if the same call may work later, `denied` if the tool lacks a grant, else
 * `failed`.
 */
export type FailureKind = "failed" | "invalid_arguments" | "unavailable" | "denied";

/** A failure with a message for the model, which says what is wrong and what to do. */
export class ToolError extends Error {
  constructor(message: string, kind?: FailureKind, options?: { retryAfter?: number; cause?: unknown });
  readonly kind: FailureKind;
  /** The seconds after which the same call is worth a try. */
  readonly retryAfter: number | undefined;
}

/** A link to a resource outside the result. Nothing fetches it. */
export class Link {
  constructor(uri: string, options?: { title?: string; mimeType?: string });
  readonly uri: string;
  readonly title: string | undefined;
  readonly mimeType: string | undefined;
}

/** Lines for the operator of the tool. The model does not see them. */
export const log: {
  trace(message: unknown): void;
  debug(message: unknown): void;
  info(message: unknown): void;
  warn(message: unknown): void;
  error(message: unknown): void;
};

/** Reports the progress of the call: the fraction that is done, 0 to 1, and what the tool does now. */
export function progress(fraction?: number, message?: string): void;

/** The current call. */
export const context: {
  readonly callId: string;
  readonly toolName: string;
  /** The seconds until the deadline. */
  readonly remaining: number;
  /** The actor on whose behalf the call runs, if the host knows one. */
  readonly actor: string | undefined;
  /** The agent's state, if the tool was granted it. */
  readonly state: unknown;
};

/** The presence of secrets. Their values never enter a tool: the host adds them to requests. */
export const secrets: {
  exists(name: string): boolean;
};

/** Keys and values that stay from one call to the next. Needs the grant `key_value`. */
export const kv: {
  get(key: string): Uint8Array | undefined;
  getText(key: string): string | undefined;
  /** Sets a value of at most 64 KiB. */
  set(key: string, value: Uint8Array | string): void;
  /** Removes a key. Returns whether it was there. */
  delete(key: string): boolean;
  /** Yields the keys that begin with a prefix, in order. */
  keys(prefix?: string): Generator<string, void>;
};
