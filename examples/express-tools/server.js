import { createServer } from 'node:http';
import express from 'express';
import { createVerifier } from 'drs-verify';
import {
  BUNDLE_HEADER_ROOM,
  createMemoryReplayStore,
  drsContext,
  drsMiddleware,
} from 'drs-verify/middleware';

/** @type {import('drs-verify/middleware').ProtectionOptions} */
const protection = {
  verifier: createVerifier(),
  // With 'any', anyone can be a principal: then check root_principal in the handler.
  trustedRoots: process.env['TRUSTED_ROOTS']?.split(',') ?? 'any',
  serverIdentity: 'https://weather.example',
  replayStore: createMemoryReplayStore(),
  eventSink: process.stderr,
};

const app = express();
// A call that was signed for another tool is refused here, even where its delegation allows that tool.
const weather = drsMiddleware({ ...protection, tool: 'weather' });
// In front of every body parser: the middleware compares the body as it came.
app.post('/weather', weather, express.json(), (req, res) => {
  const { root_principal } = drsContext(req);
  const { city } = /** @type {{ city: string }} */ (req.body);
  res.json({ forecast: `sunny in ${city}`, for: root_principal });
});

// A chain of 16 receipts does not fit into the 16 KiB of headers that Node.js takes by default.
const server = createServer({ maxHeaderSize: BUNDLE_HEADER_ROOM }, app);
server.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  console.log(`listening on http://127.0.0.1:${port}/weather`);
});
