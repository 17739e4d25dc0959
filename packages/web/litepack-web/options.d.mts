// What all readers have in common, whichever SQLite they are for.

/** What reading a database took so far. */
export interface Traffic {
  /** Where it is, without secrets. */
  url: string;
  /** Bytes of the file. */
  size: number;
  /** Its ETag, or its date of change. */
  validator: string;
  kind: "plain" | "packed" | "archive" | "other";
  /** Requests that were sent. */
  requests: number;
  /** Bytes of the file that came. */
  bytes: number;
  /** Blocks that were here when they were asked for. */
  hits: number;
  /** Requests that were sent again after a failure. */
  retries: number;
}

export interface Answer {
  /** The HTTP status. */
  status: number;
  /** `Name: value` in each line. */
  headers: string;
  /** The bytes, if the status is 206. */
  body?: ArrayBuffer | Uint8Array;
}

export interface Options {
  /** The module: its URL, its bytes, or what was compiled of it. Beside `index.mjs`, unless something else is said. */
  wasm?: URL | string | ArrayBuffer | ArrayBufferView | WebAssembly.Module;
  /**
   * Asks for the bytes `start` to `end` (exclusive) and waits, where there is no XMLHttpRequest. An answer of another
   * status than 206 needs no body. Of what it throws only `code` or `name` is shown: the message could name secrets.
   */
  request?: (url: string, start: number, end: number, timeout: number) => Answer;
  /**
   * Milliseconds that an answer may take, 60,000 unless something else is said. From 1 to 2,147,483,647. It is tried
   * three times.
   */
  timeout?: number;
}
