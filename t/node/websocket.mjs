// A WebSocket server, and a client that says what it sees (t/gw_websocket.t):
//   serve PORT               echoes; its first message is the headers of the request
//   open URL PROTOCOLS HEADERS   (JSON) sends what it reads, a line a message
import { createInterface } from 'node:readline';
import WebSocket, { WebSocketServer } from 'ws';

const say = (...words) => console.log(words.join(' '));
const [what, where, ...rest] = process.argv.slice(2);

if (what === 'serve') {
  const server = new WebSocketServer({ host: '127.0.0.1', port: Number(where) });
  server.on('listening', () => say('listens'));
  server.on('connection', (socket, { headers }) => {
    socket.send(JSON.stringify(headers));
    socket.on('message', (data) => socket.send(String(data)));
    socket.on('close', (code) => say('closed', headers['x-session-id'], code));
  });
} else {
  const [protocols, headers] = rest.map((text) => JSON.parse(text));
  const socket = new WebSocket(where, protocols, { headers });
  const lines = createInterface({ input: process.stdin });
  lines.on('line', (line) => socket.send(line));
  lines.on('close', () => process.exit());
  socket.on('upgrade', ({ headers: h }) => say('upgrade', JSON.stringify(h)));
  socket.on('unexpected-response', (request, { statusCode }) => {
    say('refused', statusCode);
    process.exit();
  });
  socket.on('message', (data) => say('message', String(data)));
  socket.on('error', (error) => say('error', error.message));
  socket.on('close', (code) => {
    say('close', code);
    process.exit();
  });
}
