// Errors that calls into the host throw. Failures of tools are values, and no errors.

/** The base class of the errors of a host. */
export class FumehoodError extends Error {
  name = 'FumehoodError'
}

/** The host failed, not a tool. */
export class HostError extends FumehoodError {
  name = 'HostError'
  code = 'ERR_FUMEHOOD_HOST'
}

/** A component cannot be loaded. */
export class LoadError extends FumehoodError {
  name = 'LoadError'
  code = 'ERR_FUMEHOOD_LOAD'
}

/** Returns the error with this code; undefined if it is not one of this package. */
export function faultError(code, message) {
  switch (code) {
    case 'ERR_FUMEHOOD_HOST':
      return new HostError(message)
    case 'ERR_FUMEHOOD_LOAD':
      return new LoadError(message)
    case 'ERR_FUMEHOOD_SETTING':
      return Object.assign(new TypeError(message), { code })
    default:
      return undefined
  }
}
