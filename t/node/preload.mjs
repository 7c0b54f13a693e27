// Before a server of examples/mcp: what node 22 has and node 20 has not, and a line for
// the headers of each request.

import { subscribe } from 'node:diagnostics_channel';

URL.parse ??= (text, base) => (URL.canParse(text, base) ? new URL(text, base) : null);

subscribe('http.server.request.start',
  ({ request }) => console.log(`seen ${JSON.stringify(request.headers)}`));
