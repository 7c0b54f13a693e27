// The MCP server: notes of each user.  It checks no token: the gateway did, and says in
// X-User-Id whose it was.  So it listens where nobody but the gateway reaches it.

import { EventEmitter, on } from 'node:events';
import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import * as z from 'zod/v4';

const notes = new Map();
const added = new EventEmitter();
const says = (text) => ({ content: [{ type: 'text', text }] });

// One for each request.
function server({ requestInfo }) {
  const user = requestInfo.headers.get('x-user-id');
  const own = notes.get(user) ?? [];
  const mcp = new McpServer({ name: 'notes', version: '1.0.0' });

  mcp.registerTool('list_notes', { description: 'The notes of the user' },
    () => says(own.join('\n')));

  mcp.registerTool('add_note', {
    description: 'Adds a note',
    inputSchema: z.object({ text: z.string().max(1000) }),
  }, ({ text }) => {
    notes.set(user, [...own, text].slice(-100));
    added.emit(user, text);
    return says('added');
  });

  // Goes on until the client leaves, or the gateway ends it with the token.
  mcp.registerTool('watch_notes', { description: 'Tells of each new note' },
    async (ctx) => {
      const { signal, notify, _meta: { progressToken } = {} } = ctx.mcpReq;
      const tell = (progress, message) => progressToken !== undefined && notify({
        method: 'notifications/progress', params: { progressToken, progress, message },
      });
      const news = on(added, user, { signal });
      let progress = 0;
      await tell(progress, 'watching');
      for await (const [text] of news) await tell(++progress, text);
    });
  return mcp;
}

// The gateway chooses the scope by the headers Mcp-Method and Mcp-Name.  The SDK refuses a
// request of which the body says another method or tool.
const handler = createMcpHandler(server);

createServer(toNodeHandler(handler)).listen(process.env.PORT ?? 9000, '127.0.0.1',
  () => console.log('ready'));
