import { serve } from '../../src/server/main.js';

// The service as `drs serve` runs it, without the command line in front.
await serve(process.env);
