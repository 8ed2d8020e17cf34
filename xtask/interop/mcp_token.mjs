// Adds the token of the server to each request of the conformance suite, which has no option for it.
import { getGlobalDispatcher, setGlobalDispatcher } from "undici";
const authorization = `Bearer ${process.env.LOOPTREE_MCP_TOKEN}`;
const fetched = globalThis.fetch;
globalThis.fetch = (url, options = {}) => {
  const headers = new Headers(options.headers);
  headers.set("authorization", authorization);
  return fetched(url, { ...options, headers });
};
setGlobalDispatcher(getGlobalDispatcher().compose((dispatch) => (options, handler) => {
  const isPlain = options.headers && !Array.isArray(options.headers);
  return dispatch(isPlain ? { ...options, headers: { ...options.headers, authorization } } : options, handler);
}));
