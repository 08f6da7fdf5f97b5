import { createServer } from 'node:http';
import express from 'express';
import { createVerifier } from 'drs-verify';
import {
  BUNDLE_HEADER_ROOM,
  createMemoryReplayStore,
  drsContext,
  drsMiddleware,
  explainHeaderLimit,
} from 'drs-verify/middleware';

const trustedRoots = process.env['TRUSTED_ROOTS']?.split(',');
const drs = drsMiddleware({
  // Without trustedRoots, anyone can be a principal: then judge root_principal in the handler.
  verifier: createVerifier({
    serverIdentity: 'https://weather.example',
    ...(trustedRoots && { trustedRoots }),
  }),
  replayStore: createMemoryReplayStore(),
  command: '/tools',
  eventSink: process.stderr,
});

const app = express();
// In front of every body parser: the middleware compares the body as it came.
app.post('/tools', drs, express.json(), (req, res) => {
  const { root_principal } = drsContext(req);
  const { city } = /** @type {{ city: string }} */ (req.body);
  res.json({ forecast: `sunny in ${city}`, for: root_principal });
});

// A chain of 16 receipts does not fit into the 16 KiB of headers that Node.js takes by default.
const server = explainHeaderLimit(createServer({ maxHeaderSize: BUNDLE_HEADER_ROOM }, app));
server.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  console.log(`listening on http://127.0.0.1:${port}/tools`);
});
