// What the WebAssembly module asks of the page: ranges of a file, by requests that block the worker.
//
// The first range of a file comes by fetch(), which can be ended when a server begins to send the whole file: a
// synchronous request cannot, and would have all of it in memory. It is kept until the module asks for it.

/** Bytes that opening asks for: as many as the module does (OPENING in crates/ranges). */
export const OPENING = 128 << 10;

const text = (bytes) => new TextDecoder().decode(bytes);

/** A failure in our own words. What platforms say of theirs names the whole URL, and so what is secret in it. */
export class Reason extends Error {
  /** Whether it would be the same again: it is then all that is said, and nothing is tried again. */
  isFinal = false;

  /** One that would be the same again. */
  static final(words) {
    // SQLite's number for what cannot be opened.
    return Object.assign(new Reason(words), { isFinal: true, code: 14 });
  }
}

/** What may be shown of a failure. */
export function shown(error) {
  if (error instanceof Reason) return error.message;
  const names = [error?.cause?.code, error?.code, error?.name];
  return names.find((name) => typeof name === "string" && /^\w{1,40}$/.test(name)) ?? "no reason is known";
}

/** Asks by a request that blocks the worker, `timeout` milliseconds at most. */
export function bySynchronousRequest(url, start, end, timeout) {
  const request = new XMLHttpRequest();
  request.open("GET", url, false);
  request.responseType = "arraybuffer";
  request.timeout = timeout;
  request.setRequestHeader("Range", `bytes=${start}-${end - 1}`);
  request.send();
  return { status: request.status, headers: request.getAllResponseHeaders(), body: request.response };
}

/** Asks by fetch(), and reads the answer only if it is a part of the file. */
export async function byFetch(url, start, end, timeout) {
  const stop = new AbortController();
  const late = setTimeout(() => stop.abort(new Reason(`no whole answer came within ${timeout} ms`)), timeout);
  try {
    const response = await fetch(url, { headers: { Range: `bytes=${start}-${end - 1}` }, signal: stop.signal });
    const headers = [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
    const parts = [];
    if (response.status === 206) {
      const reader = response.body.getReader();
      // A server that sends more than it was asked for is found out by the bytes too many.
      for (let length = 0; length <= end - start; ) {
        const { done, value } = await reader.read();
        if (done) break;
        parts.push(value);
        length += value.length;
      }
    }
    return { status: response.status, headers, body: await new Blob(parts).arrayBuffer(), url: response.url };
  } finally {
    clearTimeout(late);
    // What has not come by now is not wanted.
    stop.abort();
  }
}

/** Lets time go by. Atomics.wait() takes shared memory only, which pages may make by this way alone. */
function wait(milliseconds) {
  try {
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
    Atomics.wait(new Int32Array(memory.buffer), 0, 0, milliseconds);
  } catch {
    // Asked again at once.
  }
}

/** The module, as functions. A failure is an Error with SQLite's number for it in `code`. */
export class Module {
  #wasm;
  /** The answer that the module has not taken yet: its headers and its body. */
  #answer = [new Uint8Array(0), new Uint8Array(0)];
  /** First answers, by URL. */
  #first = new Map();
  #ask;
  #timeout;
  /** Why it can no longer be used. */
  #stopped = null;
  /** The failure that is to be said in the place of what the module makes of it. */
  #final = null;

  static async load(source, ask, timeout) {
    const module = new Module();
    module.#ask = ask;
    module.#timeout = timeout;
    const imports = { litepack: module.#imports() };
    let loaded;
    if (source instanceof WebAssembly.Module) {
      loaded = { instance: await WebAssembly.instantiate(source, imports) };
    } else if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) {
      loaded = await WebAssembly.instantiate(source, imports);
    } else {
      const response = await fetch(source);
      if (!response.ok) throw new Error(`litepack.wasm: ${source} answers with status ${response.status}`);
      // Not streamed: servers that do not know its type are many, and it is small.
      loaded = await WebAssembly.instantiate(await response.arrayBuffer(), imports);
    }
    module.#wasm = loaded.instance.exports;
    return module;
  }

  #memory(at, length) {
    return new Uint8Array(this.#wasm.memory.buffer, at, length);
  }

  #imports() {
    return {
      fetch: (at, length, start, end) => {
        const url = text(this.#memory(at, length));
        let status = 0;
        try {
          const first = start === 0 ? this.#first.get(url) : undefined;
          this.#first.delete(url);
          if (first?.error) throw first.error;
          const answer = first ?? this.#ask(url, start, end, this.#timeout);
          status = answer.status;
          const body = new Uint8Array(answer.body ?? new ArrayBuffer(0));
          // A byte too many tells that there are.
          this.#answer = [new TextEncoder().encode(answer.headers), body.subarray(0, end - start + 1)];
        } catch (error) {
          const isFinal = error instanceof Reason && error.isFinal;
          if (isFinal) this.#final = error;
          // A request that gets this status is not sent again.
          status = isFinal ? 404 : 0;
          this.#answer = [new TextEncoder().encode(isFinal ? "" : shown(error)), new Uint8Array(0)];
        }
        return status;
      },
      answer_len: (part) => this.#answer[part].length,
      answer: (part, to, length) => {
        this.#memory(to, length).set(this.#answer[part].subarray(0, length));
        this.#answer[part] = new Uint8Array(0);
      },
      wait,
    };
  }

  /** Calls the module. A trap in it leaves it in an unknown state, so it is not called again. */
  #call(name, ...numbers) {
    if (this.#stopped) throw this.#stopped;
    try {
      return this.#wasm[name](...numbers);
    } catch (error) {
      this.#stopped = new Error(`Litepack's reader has stopped: ${error.message}`, { cause: error });
      throw this.#stopped;
    }
  }

  #text() {
    return text(this.#memory(this.#call("litepack_text"), this.#call("litepack_text_len")));
  }

  #checked(number) {
    const final = this.#final;
    this.#final = null;
    if (number >= 0) return number;
    const error = new Error(final?.message ?? this.#text());
    error.code = this.#call("litepack_code");
    throw error;
  }

  /** Opens a database, and gives its number. */
  async open(url, key) {
    let found = url;
    if (this.#ask === bySynchronousRequest) {
      // An answer that does not come is asked for once more, as every other one is.
      const first = await byFetch(url, 0, OPENING, this.#timeout).catch((error) => ({ error }));
      this.#first.set(url, first);
      found = first.url || url;
    }
    const here = globalThis.location?.origin;
    // A server may have led to another one.
    const isElsewhere = here !== undefined && new URL(found).origin !== here;
    const [address, secret] = [url, key ?? ""].map((part) => new TextEncoder().encode(part));
    const length = address.length + secret.length;
    let at = 0;
    try {
      at = this.#call("litepack_buffer", length);
      if (at === 0) throw new Error("the URL is too long");
      const buffer = this.#memory(at, length);
      buffer.set(address);
      buffer.set(secret, address.length);
      return this.#checked(this.#call("litepack_open", address.length, Number(isElsewhere)));
    } finally {
      secret.fill(0);
      // A module that has stopped did not wipe what it was given, and uses its memory no more.
      if (this.#stopped && at) this.#memory(at, length).fill(0);
      this.#first.delete(url);
    }
  }

  close(number) {
    if (!this.#stopped) this.#call("litepack_close", number);
  }

  size(number) {
    return this.#checked(this.#call("litepack_size", number));
  }

  /** Fills `to` from an offset, and says how many bytes there were. */
  read(number, offset, to) {
    const length = this.#checked(this.#call("litepack_read", number, offset, to.length));
    to.set(this.#memory(this.#call("litepack_text"), length));
    return length;
  }

  traffic(number) {
    this.#checked(this.#call("litepack_traffic", number));
    return JSON.parse(this.#text());
  }

  /** Bytes of memory that the module has. */
  get memory() {
    return this.#wasm.memory.buffer.byteLength;
  }
}
