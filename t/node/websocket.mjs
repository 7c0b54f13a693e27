// A WebSocket server, and clients that say what they see (t/gw_websocket.t):
//   serve PORT   echoes; its first message is the headers of the request
//   open         a line of stdin is a JSON array: [ID, URL, PROTOCOLS, HEADERS] opens a
//                socket, [ID, TEXT] sends, [ID] drops it; a line of stdout begins with ID
import { createInterface } from 'node:readline';
import WebSocket, { WebSocketServer } from 'ws';

const say = (...words) => console.log(words.join(' '));
const [what, where] = process.argv.slice(2);
const sockets = new Map();

const open = (id, url, protocols, headers) => {
  const socket = new WebSocket(url, protocols, { headers });
  sockets.set(id, socket);
  socket.on('upgrade', ({ headers: h }) => say(id, 'upgrade', JSON.stringify(h)));
  socket.on('unexpected-response', (request, { statusCode }) => {
    say(id, 'refused', statusCode);
    request.destroy();
  });
  socket.on('message', (data) => say(id, 'message', String(data)));
  socket.on('error', (error) => say(id, 'error', error.message));
  socket.on('close', (code) => say(id, 'close', code));
};

if (what === 'serve') {
  const server = new WebSocketServer({ host: '127.0.0.1', port: Number(where) });
  server.on('listening', () => say('listens'));
  server.on('connection', (socket, { headers }) => {
    socket.send(JSON.stringify(headers));
    socket.on('message', (data) => socket.send(String(data)));
    socket.on('close', (code) => say('closed', headers['x-session-id'], code));
  });
} else {
  const lines = createInterface({ input: process.stdin });
  lines.on('line', (line) => {
    const [id, text, ...rest] = JSON.parse(line);
    if (rest.length) open(id, text, ...rest);
    else if (text === undefined) sockets.get(id).terminate();
    else sockets.get(id).send(text);
  });
  lines.on('close', () => process.exit());
}
