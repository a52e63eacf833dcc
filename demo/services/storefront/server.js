// storefront: the browser's entry point. Node's own http, nothing else.
'use strict';

const http = require('node:http');
const calls = require('./calls');

const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
const { CATALOG_ADDRESS, CART_ADDRESS, ORDERS_ADDRESS, STOCK_ADDRESS, PORT } = process.env;

/** Calls another service; resolves to { status, value }. */
function call(serving, method, address, path, body) {
  return calls.made(serving, 'http', `${method} ${address}${path}`, (id) => new Promise((resolve, reject) => {
    const [host, port] = address.split(':');
    const data = body === undefined ? undefined : JSON.stringify(body);
    const headers = data ? { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(data) } : {};
    const request = http.request({ agent, host, port, method, path: calls.inUrl(path, id), headers }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('end', () => resolve({
        status: response.statusCode,
        value: JSON.parse(Buffer.concat(parts).toString() || 'null'),
      }));
      response.on('error', reject);
    });
    request.on('error', reject);
    request.end(data);
  }));
}

async function home(serving) {
  const [list, recommended] = await Promise.all([
    call(serving, 'GET', CATALOG_ADDRESS, '/products'),
    call(serving, 'GET', CATALOG_ADDRESS, '/recommendations'),
  ]);
  return { status: 200, value: { products: list.value, recommended: recommended.value } };
}

async function product(serving, id) {
  const found = await call(serving, 'GET', CATALOG_ADDRESS, `/products/${id}`);
  if (found.status !== 200) return found;
  const stock = await call(serving, 'GET', STOCK_ADDRESS, `/stock/${id}`);
  return { status: 200, value: { ...found.value, pieces: stock.value.pieces } };
}

async function route(method, url, body, serving) {
  const [, first, second] = url.pathname.split('/');
  switch (`${method} /${first}`) {
    case 'GET /': return home(serving);
    case 'GET /product': return product(serving, second);
    case 'GET /search': return call(serving, 'GET', CATALOG_ADDRESS,
      `/search?q=${encodeURIComponent(url.searchParams.get('q') ?? '')}&page=${Number(url.searchParams.get('page') ?? 0)}`);
    case 'GET /cart': return call(serving, 'GET', CART_ADDRESS, `/carts/${url.searchParams.get('customer')}`);
    case 'POST /cart': return call(serving, 'POST', CART_ADDRESS, `/carts/${body.customer}`, body);
    case 'POST /checkout': return call(serving, 'POST', ORDERS_ADDRESS, '/orders', body);
    case 'GET /health': return { status: 200, value: { status: 'ok' } };
    default: return { status: 404, value: { error: `no route ${method} ${url.pathname}` } };
  }
}

const server = http.createServer((request, response) => {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', async () => {
    const url = new URL(request.url, 'http://storefront');
    let answer;
    try {
      answer = await route(request.method, url, JSON.parse(Buffer.concat(parts).toString() || '{}'),
        url.searchParams.get('call'));
    } catch (error) {
      console.error(error);
      answer = { status: 500, value: { error: error.message } };
    }
    const data = JSON.stringify(answer.value);
    response.writeHead(answer.status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(data) });
    response.end(data);
  });
});
// Longer than nginx keeps its upstream connections, so that none is closed just when nginx uses it.
server.keepAliveTimeout = 120_000;
server.listen(Number(PORT), '127.0.0.1', () => console.error('listening', server.address()));
process.on('SIGTERM', () => process.exit(0));
