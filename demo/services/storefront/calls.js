// The ground truth for tests; see shopkit/calls.py. Off unless SHOP_TRUTH is set.
'use strict';

const { randomBytes } = require('node:crypto');
const fs = require('node:fs');

const { SHOP_TRUTH, SHOP_SERVICE } = process.env;
const file = SHOP_TRUTH ? fs.openSync(`${SHOP_TRUTH}/${SHOP_SERVICE}-${process.pid}.jsonl`, 'a') : undefined;
const now = () => Math.round((performance.timeOrigin + performance.now()) * 1e6);

/** Runs `body(id)` with an id for the call that it makes, and records the call. */
async function made(serving, kind, target, body) {
  if (file === undefined) return body(undefined);
  const id = randomBytes(8).toString('hex');
  const start = now();
  try {
    return await body(id);
  } finally {
    fs.writeSync(file, JSON.stringify({
      service: SHOP_SERVICE, serving, made: id, kind, target, start_unix_nano: start, end_unix_nano: now(),
    }) + '\n');
  }
}

/** The path with the call's id in its query string. */
function inUrl(path, id) {
  return id === undefined ? path : `${path}${path.includes('?') ? '&' : '?'}call=${id}`;
}

module.exports = { made, inUrl };
