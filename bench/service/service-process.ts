import { serve } from '../../src/service/main.js';

// The service as `drs serve` runs it, but without the command line.
await serve(process.env);
