// `npm start`: brings the clone up to date, then becomes the service (no child process, so signals arrive).
import './setup.mjs';

process.argv.splice(2, 0, 'serve');
await import(new URL('../dist/cli/main.js', import.meta.url).href);
