// Agents: a model of the program that calls the tools of a host.
import { faultError } from './errors.js'
import { Result } from './result.js'

/** Checks a function of the program: a misspelt one would otherwise fail in the midst of a run. */
function checkedFunction(name, value) {
  if (typeof value === 'function') return value
  throw faultError('ERR_FUMEHOOD_SETTING', `\`${name}\`: expected a function, got ${typeof value}`)
}

/** The questions of one run, each answered by a function of the program. */
class Answering {
  #run
  #model
  #approve
  #open = new Map()
  failure = undefined

  constructor(run, model, approve) {
    this.#run = run
    this.#model = model
    this.#approve = approve
  }

  take({ id, type, request, call }) {
    if (type === 'withdrawn') this.#open.get(id)?.abort(new DOMException('the question was withdrawn', 'AbortError'))
    else if (type === 'model') this.#answer(id, this.#model, request)
    else this.#answer(id, this.#approve, call)
  }

  async #answer(id, ask, argument) {
    const controller = new AbortController()
    this.#open.set(id, controller)
    try {
      this.#send(id, await ask(argument, { signal: controller.signal }))
    } catch (error) {
      // A question that was withdrawn is not open, and its function was stopped for that.
      if (!this.#run.fail(id, String(error))) return
      this.failure ??= { error }
      // A run whose model failed ends by itself, and other calls may run beside one that waits for approval.
      if (ask === this.#approve) this.#run.stop()
    } finally {
      this.#open.delete(id)
    }
  }

  #send(id, answer) {
    const written = JSON.stringify(answer) ?? 'null'
    try {
      this.#run.answer(id, written)
    } catch (error) {
      throw faultError(error.code, error.message) ?? error
    }
  }

  /** Stops the functions that are still running. */
  stop(reason) {
    for (const controller of this.#open.values()) controller.abort(reason)
  }
}

/** A conversation of a model with the tools of a host. */
export class Agent {
  #native
  #model
  #approve
  #operate

  constructor(native, model, approve, operate) {
    this.#native = native
    this.#model = checkedFunction('model', model)
    this.#approve = approve === undefined ? undefined : checkedFunction('approve', approve)
    this.#operate = operate
  }

  async run(message, options) {
    if (typeof message !== 'string') throw new TypeError(`expected a message, got ${typeof message}`)
    const run = this.#native.begin(() => run.drain().forEach((question) => answering.take(JSON.parse(question))))
    const answering = new Answering(run, this.#model, this.#approve)
    try {
      await this.#operate(options?.signal, (stop) => run.start(message, stop))
    } catch (error) {
      throw answering.failure ? answering.failure.error : error
    } finally {
      answering.stop(options?.signal?.reason)
    }
    if (answering.failure) throw answering.failure.error
    const report = JSON.parse(run.report())
    const results = run.takeResults()
    const calls = report.calls.map((call, index) => ({ ...call, result: new Result(results[index]) }))
    return { ...report, reason: report.reason ?? undefined, calls }
  }
}
